use super::*;

#[test]
fn verdicts() {
    use Winner::{First, Neither, Second};
    for (reply, winner, reason) in [
        (r#"{"reason": "r", "winner": 1}"#, First, Some("r")),
        (r#"{"winner": "2", "explanation": "r"}"#, Second, Some("r")),
        (r#"{"winner": 0}"#, Neither, None),
        (r#"{"winner": 2.0,}"#, Second, None),
        (r#"{"winner": null}"#, Neither, None),
        (r#"{"Winner": "Answer 1"}"#, First, None),
        (r#"{"better_answer": "answer_2"}"#, Second, None),
        (
            r#"{"verdict": {"winner": "the first one", "reason": "r"}}"#,
            First,
            Some("r"),
        ),
        (r#"{"winner": "Tie"}"#, Neither, None),
        (r#"{"winner": "both"}"#, Neither, None),
        (r#"{"winner": "Neither 1 nor 2"}"#, Neither, None),
        ("```json\n{'winner': 'Answer2'}\n```", Second, None),
        ("<think>1</think>\n**2**", Second, None),
        ("Answer 1.", First, None),
        ("Answer [1] is better.", First, None),
        (
            "Both are good, but one says more.\n\nWinner: Answer 2\nIt is longer than 1.",
            Second,
            None,
        ),
    ] {
        let read = verdict(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!((read.winner, read.reason.as_deref()), (winner, reason), "{reply}");
    }
    for reply in [
        r#"{"reason": "r"}"#,
        r#"{"winner": 3}"#,
        r#"{"winner": "1 or 2"}"#,
        r#"{"winner": [1, 2]}"#,
        r#"{"winner": "none but 1"}"#,
        r#"{"winner": 0.5}"#,
        "Answer 1 says more than answer 2.",
        "I cannot tell.",
        "12",
    ] {
        assert_eq!(verdict(reply), Err(Unreadable::NoWinner), "{reply}");
    }
    assert_eq!(verdict(" "), Err(Unreadable::Empty));
}

#[test]
fn drafts() {
    for (reply, description) in [
        (r#"{"description": "d", "personas": ["a", "b: c"]}"#, Some("d")),
        (r#"["a", "b: c"]"#, None),
        (
            r#"{"personas": [{"name": "a"}, {"role": "b", "description": "c"}]}"#,
            None,
        ),
        (r#"{"result": {"tasks": ["a", " b:\n c ", null, "cu"#, None),
        (r#"{"questions": "1. a\n2) b: c"}"#, None),
        (r#"{"task": "a"}, {"task": "b: c"}"#, None),
        ("Here they are:\n\n1. a\n2. b: c\n", None),
        ("- a\n* \"b: c\"", None),
        ("a\nb: c", None),
    ] {
        let read = draft(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!(read.items, ["a", "b: c"], "{reply}");
        assert_eq!(read.description.as_deref(), description, "{reply}");
    }
    assert_eq!(draft(r#"{"questions": []}"#).unwrap().items, [""; 0]);
    assert_eq!(draft(r#"{"question": "a?"}"#).unwrap().items, ["a?"]);
    assert_eq!(draft("1. a [b]\n2. c").unwrap().items, ["a [b]", "c"]);
    for reply in ["I cannot help with that.", "It is so [1].", r#"{"x": 1}"#] {
        assert_eq!(draft(reply), Err(Unreadable::NoList), "{reply}");
    }
}
