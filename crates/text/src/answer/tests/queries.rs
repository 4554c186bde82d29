use super::*;

#[test]
fn points_of_a_map() {
    for (reply, repairs) in [
        (
            r#"{"points": [{"description": "a [Data: Reports (1)]", "score": 80}, {"description": "b", "score": 0}]}"#,
            "",
        ),
        (
            r#"<think>{}</think>[{"answer": "a [Data: Reports (1)]", "score": "80"}, {"answer": "b"}]"#,
            "reasoning",
        ),
        (
            "Here:\n```json\n{'points': [{'description': 'a [Data: Reports (1)]', 'score': '80/100'}, {'description': 'b', 'score': -3.5},]}\n```",
            "fence broken",
        ),
        (
            r#"{"points": [{"description": "a [Data: Reports (1)]", "score": 80.0}, {"description": "b", "score": "low"}, {"description": "cu"#,
            "broken",
        ),
        (
            r#"{"response": {"key_points": [{"point": "a [Data: Reports (1)]", "importance": "80%"}, {"text": "b", "score": null}]}}"#,
            "",
        ),
    ] {
        let read = points(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        let found: Vec<_> = read.points.iter().map(|p| (p.text.as_str(), p.score)).collect();
        assert_eq!(found, [("a [Data: Reports (1)]", 80.0), ("b", 0.0)], "{reply}");
        assert_eq!(names_of(read.repairs), repairs, "{reply}");
        assert!(read.dropped.is_empty(), "{reply}");
    }
    let read = points(r#"{"points": [{"description": "a", "score": 250}, {"score": 3}, "b"]}"#).unwrap();
    assert_eq!(read.points[0].score, 100.0);
    assert_eq!(
        read.dropped.into_iter().collect::<Vec<_>>(),
        [("not a record", 1), ("too few fields", 1)]
    );
    assert_eq!(points(r#"{"points": []}"#).unwrap().points, []);
    assert_eq!(points(r#"{"x": 1}"#), Err(Unreadable::NoPoints));
    assert_eq!(points("I cannot tell."), Err(Unreadable::NoJson));
}

#[test]
fn keywords_of_a_question() {
    for (reply, high, low) in [
        (
            r#"{"high_level_keywords": ["trade", "the sea"], "low_level_keywords": ["port", "ships"]}"#,
            &["trade", "the sea"][..],
            &["port", "ships"][..],
        ),
        (
            "```json\n{\"High-level keywords\": \"trade, the sea\", \"lowLevelKeywords\": \"port，ships,\"}\n```",
            &["trade", "the sea"],
            &["port", "ships"],
        ),
        (r#"{"high_level_keywords": ["trade", "Trade", " "]}"#, &["trade"], &[]),
        (r#"{"result": {"low_level": "port"}}"#, &[], &["port"]),
        (r#"{"high_level_keywords": [], "low_level_keywords": null}"#, &[], &[]),
        (
            r#"{"high_level_keywords": ["trade"], "low_level_keywords": ["port", "shi"#,
            &["trade"],
            &["port"],
        ),
    ] {
        let read = keywords(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!(
            (&read.high[..], &read.low[..]),
            (&to_owned(high)[..], &to_owned(low)[..]),
            "{reply}"
        );
    }
    assert_eq!(keywords(r#"{"x": []}"#), Err(Unreadable::NoKeywords));
    assert_eq!(keywords("trade, port"), Err(Unreadable::NoJson));
}

fn to_owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn ratings_of_relevance() {
    for (reply, rating, reason) in [
        (r#"{"reason": "r", "rating": 4}"#, 4.0, Some("r")),
        (r#"Sure: {"rating": "4/5", "explanation": "r"}"#, 4.0, Some("r")),
        (r#"{"rating": "8/10"}"#, 4.0, None),
        (r#"{"rating": 9}"#, 5.0, None),
        (r#"{"rating": -1,}"#, 0.0, None),
        ("<think>5</think>\n**3**", 3.0, None),
        ("2/5", 2.0, None),
    ] {
        let read = relevance(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!((read.rating, read.reason.as_deref()), (rating, reason), "{reply}");
    }
    for reply in ["It fits.", r#"{"reason": "r"}"#, r#"{"rating": "high"}"#] {
        assert_eq!(relevance(reply), Err(Unreadable::NoRating), "{reply}");
    }
}

#[test]
fn primers() {
    for reply in [
        r#"{"intermediate_answer": "a", "score": 70, "follow_up_queries": ["q?", "r?"]}"#,
        "```json\n[{\"answer\": \"a\", \"score\": \"70/100\", \"followUpQueries\": [{\"query\": \"q?\"}, \"r?\", null]}]\n```",
        "{\"intermediate_answer\": \"a\", \"score\": 70.0, \"follow_up_queries\": \"1. q?\\n- r?\\n\",}",
        r#"{"primer": {"intermediate_answer": "a", "score": "70", "follow_up_queries": ["q?", "r?", "cu"#,
    ] {
        let read = primer(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!((read.answer.as_str(), read.score), ("a", Some(70.0)), "{reply}");
        assert_eq!(read.queries, ["q?", "r?"], "{reply}");
    }
    let read = primer(r#"{"intermediate_answer": "a"}"#).unwrap();
    assert_eq!((read.score, read.queries), (None, vec![]));
    assert_eq!(primer(r#"{"score": 3}"#), Err(Unreadable::NoAnswer));
    assert_eq!(primer("a"), Err(Unreadable::NoJson));
}

#[test]
fn yes_and_no() {
    for reply in [
        "Y",
        "y",
        "yes",
        "Y.",
        "YES!",
        "\"Yes\"",
        "**Yes**, some were missed.",
        "<think>no</think>\nyes",
    ] {
        assert_eq!(yes(reply), Ok(true), "{reply}");
    }
    for reply in ["N", "n", "No.", "no, all are there"] {
        assert_eq!(yes(reply), Ok(false), "{reply}");
    }
    for reply in ["Maybe", "yesterday", "None", "?", "Not sure"] {
        assert_eq!(yes(reply), Err(Unreadable::NeitherYesNorNo), "{reply}");
    }
    assert_eq!(yes(" "), Err(Unreadable::Empty));
}
