use super::*;
use std::time::{Duration, Instant};

/// Everything that reads a reply.
fn read_all(reply: &str) {
    let (text, _) = clean(reply);
    assert!(!text.contains('\0'));
    for cut in [false, true] {
        assert!(prose(reply, cut).is_ok_and(|(text, _)| !text.is_empty()) || text.trim().is_empty());
    }
    let _ = json(reply).map(|(value, _)| extraction_value(&value));
    let _ = extraction(reply);
    let _ = report(reply);
}

#[test]
fn hostile_replies_are_read_in_linear_time() {
    for part in [
        "[",
        "{",
        "{{",
        "[[1],",
        "[1,[",
        "{\"a\":",
        "{\"a\":1,\"b\":",
        "{\"",
        "[\"",
        "[„",
        "[“",
        "[‘",
        "['",
        "[\"a\\",
        "{a:",
        "{a:'",
        "/*",
        "[//",
        "<think>",
        "</think>\n",
        "<think>\n</think>\n",
        "<|channel|>",
        "<|channel|>final<|message|>",
        "<|end|>",
        "<|start|>\n",
        "◁",
        "<",
        "<|",
        "<|>",
        "entity<|>",
        "\nentity<|#|>",
        "(entity<|>",
        "(",
        ")",
        "##",
        "entity",
        "COMPLETE",
        "|complete",
        "<entity ",
        "<entity>",
        "<finding>",
        "<entity name='",
        "</entity>",
        "<a>",
        "```",
        "```\n",
        "\"",
        "\\\"",
        "\\",
        "&",
        "[]",
        "a. ",
        "\n",
        " \n<",
        "{\"a\":\"\\u",
        "\"{\\\"",
        "# ",
        "[{\"a\":1},",
        "{} ",
        "[\"a\"]",
    ] {
        for tail in ["", "\"}"] {
            let reply = part.repeat(300_000 / part.len()) + tail;
            let start = Instant::now();
            read_all(&reply);
            let took = start.elapsed();
            assert!(took < Duration::from_secs(2), "{part:?} {tail:?} took {took:?}");
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z \"'\\\\{}\\[\\]:,#/<>|“”\n0-9.-]{1,12}|[a-z]{1,6}|[^\0]{1,6}"
}

/// A sound reply.
fn reply() -> impl Strategy<Value = Value> {
    let entity = (text(), text(), text())
        .prop_map(|(name, kind, text)| value!({"name": name, "type": kind, "description": text}));
    let relation = (text(), text(), text(), -5.0..5.0f64)
        .prop_map(|(subject, object, text, weight)| value!({"source": subject, "target": object, "description": text, "weight": weight}));
    let triple = prop::collection::vec(text(), 3);
    (
        prop::collection::vec(entity, 0..4),
        prop::collection::vec(relation, 0..4),
        prop::collection::vec(triple, 0..3),
        0..3,
    )
        .prop_map(|(entities, relations, triples, form)| match form {
            0 => value!({"entities": entities, "relationships": relations, "triples": triples}),
            1 => value!([{"nodes": entities}, {"edges": relations}]),
            _ => Value::Array(entities.into_iter().chain(relations).collect()),
        })
}

proptest! {
    #[test]
    fn nothing_panics(reply in "\\PC{0,60}|.{0,60}|([{}\\[\\]\"'“”,:\\\\/#*<>|()`\n ]|entity|relation|think|a|1|true|name|\\\\u0000|\\\\ud800){0,40}") {
        read_all(&reply);
    }

    #[test]
    fn any_sound_json_is_read_as_it_is(reply in reply(), pretty in any::<bool>()) {
        let text = if pretty { format!("{reply:#}") } else { reply.to_string() };
        prop_assert_eq!(json(&text).unwrap(), (reply.clone(), Repairs::default()));
        // With a comma too many the lenient reader has to read all of it.
        let damaged = format!("{},{}", &text[..text.len() - 1], &text[text.len() - 1..]);
        if text.len() > 2 {
            let (read, repairs) = json(&damaged).unwrap();
            prop_assert_eq!(read, reply);
            prop_assert!(repairs.broken);
        }
    }

    #[test]
    fn a_cut_reply_gives_the_first_records(reply in reply(), pretty in any::<bool>(), fenced in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let text = if pretty { format!("{reply:#}") } else { reply.to_string() };
        let text = if fenced { format!("Here is it:\n```json\n{text}\n```\n") } else { text };
        if let Ok(whole) = extraction(&text) {
            let at = text.floor_char_boundary(cut.index(text.len() + 1));
            if let Ok(part) = extraction(&text[..at]) {
                prop_assert!(whole.entities.starts_with(&part.entities), "{:?}", part);
                prop_assert!(whole.relations.starts_with(&part.relations), "{:?}", part);
            }
        }
    }

    #[test]
    fn a_cut_report_gives_the_first_findings(title in "[a-z]{1,5}", summary in text(), findings in prop::collection::vec(text(), 0..4), cut in any::<prop::sample::Index>()) {
        let text = value!({"title": title, "summary": summary, "findings": findings}).to_string();
        if let Ok(whole) = report(&text) {
            let at = text.floor_char_boundary(cut.index(text.len() + 1));
            if let Ok(part) = report(&text[..at]) {
                prop_assert_eq!(&part.title, &whole.title);
                prop_assert!(whole.findings.starts_with(&part.findings));
            }
        }
    }
}
