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
    let _ = read(reply, Format::Auto);
}

/// Everything that reads a format or an answer of a search.
fn read_each(payload: &str) {
    for name in Format::NAMES {
        let _ = read(payload, Format::parse(name).unwrap());
    }
    let _ = (points(payload), keywords(payload), relevance(payload));
    let _ = (primer(payload), yes(payload), verdict(payload), draft(payload));
    let _ = (grade(payload), scores(payload, 3), support(payload));
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
            assert!(took < Duration::from_secs(5), "{part:?} {tail:?} took {took:?}");
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

#[test]
fn hostile_payloads_are_read_in_linear_time() {
    for part in [
        "(A<|>",
        "(A<|>NONE<|>T<|>TRUE<|>",
        "(A<|>N<|>T<|>TRUE<|>N<|>N<|>d<|>q)##",
        "claim<|>",
        "A<|>\n",
        ",",
        "a,",
        "a,b,c\n",
        "\",",
        "subject,object\n",
        "{\"triples\":[",
        "{\"source_key\":\"k\",\"triples\":[",
        "{\"docs\":[{\"passage\":\"p\",\"extracted_triples\":[",
        "[[\"a\",\"p\",\"b\",\"k\"],",
        "{\"properties\":",
        "<graphml>",
        "<graphml><node>",
        "<graphml><node id='a'><data key='",
        "<graphml><node id='a'><data>",
        "<graphml><![CDATA[",
        "<![CDATA[]]>",
        "<key id='a' attr.name='b'><node id='c'/>",
        "<!DOCTYPE a [<!ENTITY b '",
        "&b;",
    ] {
        let payload = part.repeat(1_000_000 / part.len());
        let first = part.trim_start_matches('(').chars().next();
        let formats = match first {
            Some('{' | '[') => &[Format::Auto, Format::Json, Format::Hipporag][..],
            Some('<' | '&') => &[Format::Auto, Format::Graphml, Format::Xml],
            Some('A' | 'c') => &[Format::Auto, Format::Tuple],
            _ => &[Format::Auto, Format::Csv],
        };
        for format in formats {
            let start = Instant::now();
            let _ = read(&payload, *format);
            let took = start.elapsed();
            assert!(took < Duration::from_secs(5), "{part:?} {format:?} took {took:?}");
        }
    }
}

/// Records that a short id or a short list lets refer to long ones, or that are many in one place.
#[test]
fn ready_data_is_read_in_linear_time() {
    let many = |part: &str, length: usize| part.repeat(length / part.len());
    let long = "n".repeat(500_000);
    for (payload, format) in [
        (
            format!(
                r#"{{"nodes":[{{"id":0,"name":"{long}"}}],"links":[{}{{}}]}}"#,
                many(r#"{"source":0,"target":0},"#, 500_000)
            ),
            Format::Networkx,
        ),
        (
            format!(
                r#"{{"source_key":"{long}","triples":[{}[]]}}"#,
                many(r#"["a","p","b"],"#, 500_000)
            ),
            Format::Json,
        ),
        (
            format!(
                r#"[{{"idx":"{long}","passage":"p","extracted_triples":[{}[]]}}]"#,
                many(r#"["a","p","b"],"#, 500_000)
            ),
            Format::Hipporag,
        ),
        (
            format!(
                r#"{{"entities":[{}0],"communities":[{{"community":0,"entity_ids":[{}1]}}]}}"#,
                many(r#"{"id":1,"title":"a"},"#, 500_000),
                many("1,", 500_000)
            ),
            Format::Graphrag,
        ),
        (
            format!(
                r#"[{{"name":"a",{}"z":{{}}}}]"#,
                (0..60_000).map(|at| format!("\"k{at}\":1,")).collect::<String>()
            ),
            Format::Json,
        ),
        (
            format!(
                r#"[{{"name":"a","properties":{{{}"z":1}}}}]"#,
                (0..60_000).map(|at| format!("\"k{at}\":1,")).collect::<String>()
            ),
            Format::Json,
        ),
        (
            format!("subject,object,{}\n{}", many("a,", 500_000), many("a,b\n", 500_000)),
            Format::Csv,
        ),
        (
            format!("subject,object,{long}\n{}", many("a,b,c\n", 500_000)),
            Format::Csv,
        ),
        (
            format!(
                "<graphml><key id='k' attr.name='name'><default>{long}</default></key>{}</graphml>",
                many("<node id='a'/>", 500_000)
            ),
            Format::Graphml,
        ),
        (
            format!(
                "<graphml><key id='k' attr.name='{long}'/>{}</graphml>",
                many("<node><data key='k'>b</data></node>", 500_000)
            ),
            Format::Graphml,
        ),
        (many("(A<|>N<|>T<|>TRUE<|>N<|>N<|>d<|>q)##", 1_000_000), Format::Tuple),
    ] {
        let start = Instant::now();
        let _ = read(&payload, format);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "{} took {took:?}", &payload[..80]);
    }
}

proptest! {
    #[test]
    fn nothing_panics(reply in "\\PC{0,60}|.{0,60}|([{}\\[\\]\"'“”,:\\\\/#*<>|()`\n ]|entity|relation|think|a|1|true|name|claim|TRUE|<graphml>|<node id='|<data key=|<!\\[CDATA\\[|\"triples\":|\\\\u0000|\\\\ud800){0,40}") {
        read_all(&reply);
        read_each(&reply);
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
