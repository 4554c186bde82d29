use super::*;

#[test]
fn scores_of_texts() {
    for (reply, count, expected) in [
        (r#"{"scores": [{"n": 1, "score": 7}, {"n": 2, "score": 0}]}"#, 2, "7 0"),
        (
            r#"{"scores": [{"n": 2, "score": "3"}, {"n": "1", "score": 4.5}]}"#,
            2,
            "4.5 3",
        ),
        (
            r#"{"scores": [{"text": "Text 2", "rating": "8/10"}, {"text": "P1", "rating": "50%"}]}"#,
            2,
            "5 8",
        ),
        (
            r#"{"scores": [{"text": "1 of 9 apples", "n": 3, "score": 1}]}"#,
            3,
            "- - 1",
        ),
        (r#"{"scores": [7, "3", null]}"#, 3, "7 3 -"),
        (r#"{"scores": {"1": 7, "[3]": {"score": 2}}}"#, 3, "7 - 2"),
        (r#"{"1": 7, "2": "12"}"#, 2, "7 10"),
        (r#"{"result": {"ratings": [[1, 7], [2, -4]]}}"#, 2, "7 0"),
        (
            r#"[{"passage": 1, "relevance": 7}, {"passage": 2, "relevance": "none"}]"#,
            2,
            "7 -",
        ),
        ("```json\n{'scores': [{'n': 1, 'score': 7,}]}\n```", 1, "7"),
        (r#"{"n": 1, "score": 7}, {"n": 2, "score": 3}"#, 2, "7 3"),
        (r#"{"scores": [{"n": 1, "score": 7}, {"n": 2, "sco"#, 2, "7 -"),
        (r#"{"reason": "r", "score": 6}"#, 1, "6"),
        ("[7, 3]", 2, "7 3"),
        ("```\n[7, 3]\n```", 2, "7 3"),
        ("7", 1, "7"),
        ("7\n3/10", 2, "7 3"),
        ("<think>1: 9</think>\n- Text 1: **7**\n- [2] 3\n3. 1.5", 3, "7 3 1.5"),
        ("| 1 | 7 |\n1: 2", 1, "2"),
        // The first of a number; none beyond the last.
        (
            r#"{"scores": [{"n": 1, "score": 7}, {"n": 1, "score": 2}, {"n": 4, "score": 5}, {"n": 0, "score": 5}]}"#,
            2,
            "7 -",
        ),
    ] {
        let read = scores(reply, count).unwrap_or_else(|e| panic!("{reply}: {e}"));
        let shown = read
            .scores
            .into_iter()
            .map(|score| score.map_or("-".to_owned(), |score| score.to_string()));
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{reply}");
    }
    for reply in [
        "I cannot tell.",
        "There are 3 passages: 2 of them fit.",
        r#"{"scores": []}"#,
        // Nobody knows which.
        "[7, 3]",
        r#"{"scores": [7, 3, 1, 2]}"#,
        r#"{"scores": [{"n": 4, "score": 5}]}"#,
        r#"{"scores": ["high", null]}"#,
        r#"{"winner": "x"}"#,
        "It is so [1].",
    ] {
        assert_eq!(scores(reply, 3), Err(Unreadable::NoRating), "{reply}");
    }
    assert_eq!(scores(" ", 1), Err(Unreadable::Empty));
}

#[test]
fn statements_and_their_support() {
    for reply in [
        r#"{"statements": [{"statement": "a", "supported": true}, {"statement": "b: c", "supported": false}]}"#,
        r#"{"statements": [{"statement": "a", "supported": "yes"}, {"statement": "b: c", "supported": "No."}]}"#,
        r#"{"statements": [{"statement": "a", "supported": 1}, {"statement": "b: c", "supported": "0"}]}"#,
        r#"[{"claim": "a", "verdict": "Supported by [1]"}, {"claim": "b: c", "verdict": "not supported"}]"#,
        r#"{"result": {"claims": [{"text": "a", "is_supported": "TRUE"}, {"text": "b: c", "is_supported": "partially"}]}}"#,
        r#"{"statements": {"a": true, "b: c": "unsupported"}}"#,
        "```json\n{'statements': [{'statement': 'a', 'supported': True}, {'statement': 'b: c', 'supported': False},]}\n```",
        r#"{"statements": [{"statement": "a", "supported": true}, {"statement": "b: c", "supported": false}, {"statement": "cu"#,
        // What cannot be read does not count.
        r#"{"statements": [{"statement": "a", "supported": true}, {"statement": "x", "supported": "who knows"}, {"statement": "y"},
            {"supported": true}, {"statement": "b: c", "supported": false}]}"#,
        r#"{"statement": "a", "supported": true}, {"statement": "b: c", "supported": false}"#,
        "1. a: yes\n2. b: c: **no**",
        "Each of them:\n\n- a | supported\n- \"b: c\" — unsupported\n",
    ] {
        let read = support(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        let shown: Vec<(&str, bool)> = read
            .statements
            .iter()
            .map(|of| (of.text.as_str(), of.is_supported))
            .collect();
        assert_eq!(shown, [("a", true), ("b: c", false)], "{reply}");
    }
    for reply in [
        r#"{"statements": []}"#,
        "[]",
        r#"{"statements": null}"#,
        r#"{"statements": {}}"#,
    ] {
        assert_eq!(support(reply).map(|read| read.statements), Ok(Vec::new()), "{reply}");
    }
    for reply in [
        "I cannot tell.",
        "yes",
        "Supported: yes",
        r#"{"statements": ["a", "b"]}"#,
        r#"{"statements": [{"statement": "a", "supported": 0.5}]}"#,
        r#"{"score": 7}"#,
        "It is so [1].",
    ] {
        assert_eq!(support(reply), Err(Unreadable::NoStatement), "{reply}");
    }
    assert_eq!(support(" "), Err(Unreadable::Empty));
}

#[test]
fn grades() {
    for (reply, rating) in [
        (r#"{"reason": "r", "score": 7}"#, 7.0),
        (r#"{"score": "7/10"}"#, 7.0),
        (r#"{"correctness": "70%"}"#, 7.0),
        (r#"{"result": {"rating": 4.5}}"#, 4.5),
        (r#"{"score": 12}"#, 10.0),
        ("```json\n{'score': -1}\n```", 0.0),
        ("8", 8.0),
        ("**8**", 8.0),
        ("**Score:** 8/10", 8.0),
        ("<think>3</think>Score: 8.", 8.0),
    ] {
        assert_eq!(grade(reply).map(|read| read.rating), Ok(rating), "{reply}");
    }
    for reply in [
        "Good.",
        r#"{"score": "good"}"#,
        r#"{"score": true}"#,
        r#"{"reason": "r"}"#,
        "NaN",
    ] {
        assert_eq!(grade(reply), Err(Unreadable::NoRating), "{reply}");
    }
}

proptest! {
    #[test]
    fn scores_are_found_by_their_numbers(of in prop::collection::vec(0..=10u8, 1..20), form in 0..5, from in 0..20usize) {
        let of: Vec<f64> = of.into_iter().map(f64::from).collect();
        let mut records: Vec<Value> = of.iter().enumerate().map(|(at, score)| value!({"n": at + 1, "score": score})).collect();
        records.rotate_left(from % of.len());
        let reply = match form {
            0 => value!({"scores": records}).to_string(),
            1 => Value::Array(records).to_string(),
            2 => value!({"scores": of}).to_string(),
            3 => format!("Here:\n```json\n{}\n```", value!({"scores": records})),
            _ => of.iter().enumerate().map(|(at, score)| format!("Text {}: {score}/10\n", at + 1)).collect(),
        };
        let read: Vec<f64> = scores(&reply, of.len()).unwrap().scores.into_iter().flatten().collect();
        prop_assert_eq!(read, of);
    }

    #[test]
    fn statements_are_kept(of in prop::collection::vec(("[A-Z][a-z ,;é]{0,20}[a-z]", any::<bool>()), 0..8), words in any::<bool>()) {
        let records: Vec<Value> = of
            .iter()
            .map(|(text, is)| match words {
                true => value!({"statement": text, "supported": if *is { "yes" } else { "no" }}),
                false => value!({"statement": text, "supported": is}),
            })
            .collect();
        let read = support(&value!({"statements": records}).to_string()).unwrap();
        let read: Vec<(String, bool)> = read.statements.into_iter().map(|of| (of.text, of.is_supported)).collect();
        prop_assert_eq!(read, of);
    }
}
