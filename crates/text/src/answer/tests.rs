use super::*;
use proptest::prelude::*;
use serde_json::{Value, json as value};

mod claims;
mod evaluations;
mod extractions;
mod formats;
mod judgements;
mod laws;
mod queries;
mod ready;
mod reports;
mod sums;

fn names_of(repairs: Repairs) -> String {
    repairs.names().join(" ")
}

#[test]
fn reasoning_is_left_out() {
    for (reply, expected, repairs) in [
        ("plain", "plain", ""),
        ("\u{FEFF}a\0b", "ab", ""),
        ("<think>a\n{\"b\": 1}</think>\n\nanswer", "\n\nanswer", "reasoning"),
        ("<Thinking>a</thinking>answer", "answer", "reasoning"),
        ("First.\n<think>a</think>\nSecond.", "First.\n\nSecond.", "reasoning"),
        ("<think>never closed\n{}", "", "reasoning"),
        ("The template opened it.\n</think>\nanswer", "\nanswer", "reasoning"),
        ("Sure. <think>b</think>\nanswer", "\nanswer", "reasoning"),
        ("◁think▷a◁/think▷answer", "answer", "reasoning"),
        (
            "<|begin_of_thought|>a<|end_of_thought|> <|begin_of_solution|>answer<|end_of_solution|>",
            "answer",
            "reasoning",
        ),
        (
            "<|channel|>analysis<|message|>We <b> need…<|end|><|start|>assistant<|channel|>final<|message|>answer<|return|>",
            "answer",
            "reasoning",
        ),
        ("<|channel|>final<|message|>answer", "answer", ""),
        ("answer<|im_end|>\n", "answer", ""),
        // Spoken of, not thought.
        (
            "The tags <think> and </think> part it.",
            "The tags <think> and </think> part it.",
            "",
        ),
        ("{\"name\": \"</think>\n\"}", "{\"name\": \"</think>\n\"}", ""),
        ("entity<|#|>A<|#|>B", "entity<|#|>A<|#|>B", ""),
    ] {
        let (text, done) = clean(reply);
        assert_eq!((text.as_ref(), names_of(done).as_str()), (expected, repairs), "{reply}");
    }
}

#[test]
fn prose_without_what_stands_around_it() {
    for (reply, cut, expected, repairs) in [
        ("  One. Two \n", false, "One. Two", ""),
        ("<think>x</think>One.", false, "One.", "reasoning"),
        ("```markdown\n# One\ntwo\n```", false, "# One\ntwo", "fence"),
        (
            "```\nOne\n```\nand\n```\ntwo\n```",
            false,
            "```\nOne\n```\nand\n```\ntwo\n```",
            "",
        ),
        ("Here is the summary:\n\nOne.", false, "One.", "fence"),
        ("**Summary:**\nOne.", false, "One.", "fence"),
        ("Here is the answer:\n```text\nOne.\n```", false, "One.", "fence"),
        (
            "These are the causes:\n- one",
            false,
            "These are the causes:\n- one",
            "",
        ),
        ("The summary: one", false, "The summary: one", ""),
        (
            "One is here. Two is there. Thr",
            true,
            "One is here. Two is there.",
            "broken",
        ),
        ("One is here. Two is there.", true, "One is here. Two is there.", ""),
        (
            "One. Two is a sentence much longer than wh",
            true,
            "One. Two is a sentence much longer than wh",
            "",
        ),
        ("One meets Dr. Smith and Dr.", true, "One meets Dr. Smith and Dr.", ""),
        (
            "- first item of the list\n- sec",
            true,
            "- first item of the list",
            "broken",
        ),
        ("事実が一つあります。二つ", true, "事実が一つあります。", "broken"),
    ] {
        let (text, done) = prose(reply, cut).unwrap();
        assert_eq!((text.as_str(), names_of(done).as_str()), (expected, repairs), "{reply}");
    }
}

#[test]
fn nothing_to_read() {
    for (reply, expected) in [
        ("", Unreadable::Empty),
        (" \n\0", Unreadable::Empty),
        ("<think>on and on", Unreadable::OnlyReasoning),
    ] {
        assert_eq!(prose(reply, false), Err(expected));
        assert_eq!(json(reply), Err(expected));
        assert_eq!(extraction(reply), Err(expected));
        assert_eq!(report(reply), Err(expected));
    }
    for reply in [
        "No JSON.",
        "42",
        "\"text\"",
        "As shown [1, 2].",
        "{see below}",
        "[see [this] note]",
        "{",
        "{\"a",
        "[[",
    ] {
        assert_eq!(json(reply), Err(Unreadable::NoJson), "{reply}");
        assert_eq!(extraction(reply), Err(Unreadable::NoRecords), "{reply}");
    }
    assert_eq!(Unreadable::NoJson.to_string(), "the reply holds no JSON");
}

#[test]
fn json_with_every_damage() {
    let good = value!({"a": "x", "b": [1, 2.5, true, null], "c": {"d": "e"}});
    for (reply, repairs) in [
        (r#"{"a": "x", "b": [1, 2.5, true, null], "c": {"d": "e"}}"#, ""),
        (
            "\u{FEFF}<think>{\"no\": 1}</think>{\"a\":\"x\",\"b\":[1,2.5,true,null],\"c\":{\"d\":\"e\"}}",
            "reasoning",
        ),
        (
            "Sure [1]:\n```json\n{\"a\":\"x\",\"b\":[1,2.5,true,null],\"c\":{\"d\":\"e\"}}\n```\nDone {or not}.",
            "fence",
        ),
        ("{'a': 'x', 'b': [1, 2.5, True, None,], 'c': {'d': 'e',},}", "broken"),
        ("{“a”: “x”, “b”: [1, 2.5, true, null], “c”: {“d”: „e“}}", "broken"),
        (
            "{\"a\": \"x\", // why\n\"b\": [1, /* two */ 2.5, true, null], # c\n\"c\": {\"d\": \"e\"}}",
            "broken",
        ),
        ("{a: \"x\" \n \"b\": [1 2.5 true null], \"c\": {\"d\": \"e\"}", "broken"),
        ("{\"a\":\"x\",\"b\":[+1,2.50,TRUE,NaN],\"c\":{\"d\":\"e\"", "broken"),
        ("{{\"a\":\"x\",\"b\":[1,2.5,true,null],\"c\":{\"d\":\"e\"}}}", "fence"),
        (
            r#""{\"a\": \"x\", \"b\": [1, 2.5, true, null], \"c\": {\"d\": \"e\"}}""#,
            "broken",
        ),
        (
            r#""{\"a\": \"x\", \"b\": [1, 2.5, true, null], \"c\": {\"d\": \"e\"}"#,
            "broken",
        ),
        (
            r#"{\"a\": \"x\", \"b\": [1, 2.5, true, null], \"c\": {\"d\": \"e\"}}"#,
            "broken",
        ),
        (
            "{\"a\": \"\\u0000x\0\", \"b\": [1, 2.5, true, null], \"c\\u0000\": {\"d\": \"e\"}}",
            "",
        ),
    ] {
        let (read, done) = json(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        // 2.50 is another spelling of the same number.
        assert_eq!(read.to_string().replace("2.50", "2.5"), good.to_string(), "{reply}");
        assert_eq!(names_of(done), repairs, "{reply}");
    }
    for (reply, expected) in [
        (
            r#"{"a": "He said "no", then "yes".", "b": 1}"#,
            value!({"a": "He said \"no\", then \"yes\".", "b": 1}),
        ),
        (
            r#"{"a": 'it's', "b": "line
break \_ \' \x"}"#,
            value!({"a": "it's", "b": "line\nbreak _ ' x"}),
        ),
        (r#"{"a": "\ud83e\udd80 \ud83e", }"#, value!({"a": "🦀 \u{FFFD}"})),
        (
            r#"{"rating": 7.5/10, "date": 2021-03-04,}"#,
            value!({"rating": "7.5/10", "date": "2021-03-04"}),
        ),
        (
            "[{\"a\": 1}, ..., {\"a\": 2}, oops, {\"a\": 3}]",
            value!([{"a": 1}, {"a": 2}, {"a": 3}]),
        ),
        ("[{\"a\": 1, {\"a\": 2}]", value!([{"a": 1}, {"a": 2}])),
        (
            "{\"a\": 1}\n{\"a\": 2},\n```\n```json\n{\"a\": 3}",
            value!([{"a": 1}, {"a": 2}, {"a": 3}]),
        ),
        ("{\"a\": [{\"b\": 1}, {\"b\": 2, \"c\": \"cu", value!({"a": [{"b": 1}]})),
        ("[{\"a\": [{\"b\": 1}, {\"b\"", value!([{"a": [{"b": 1}]}])),
        ("{\"a\": [1, 23", value!({"a": [1]})),
        ("{\"a\": true, \"b\": fal", value!({"a": true})),
        ("I mean ['tis odd. {\"a\": [{\"b\": 1}]}", value!({"a": [{"b": 1}]})),
    ] {
        let (read, done) = json(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!(read, expected, "{reply}");
        assert!(
            done.broken || reply.starts_with("{\"a\": 1}") || reply.starts_with('I'),
            "{reply}"
        );
    }
}
