use super::extractions::shown;
use super::*;

#[test]
fn names_of_formats() {
    for name in Format::NAMES {
        assert_eq!(Format::parse(name).map(Format::name), Some(name));
    }
    assert_eq!(Format::parse("Auto"), None);
    assert_eq!(Format::default().name(), "auto");
}

#[test]
fn a_format_is_recognised() {
    for (payload, format) in [
        ("(\"entity\"<|>A<|>T<|>d)", Format::Tuple),
        ("entity<|#|>A<|#|>T<|#|>d", Format::Tuple),
        ("(A<|>NONE<|>T<|>TRUE<|>NONE<|>NONE<|>d<|>q)", Format::Tuple),
        ("{\"entities\": [{\"name\": \"A\"}]}", Format::Json),
        ("Here:\n```json\n[[\"A\", \"p\", \"B\"]]\n```", Format::Json),
        (
            "{\"nodes\": [{\"id\": \"0\", \"properties\": {\"name\": \"A\"}}], \"relationships\": []}",
            Format::Json,
        ),
        ("<entity name=\"A\"></entity>", Format::Xml),
        (
            "[{\"id\": \"u\", \"human_readable_id\": 0, \"title\": \"A\"}]",
            Format::Graphrag,
        ),
        (
            "{\"entities\": [{\"title\": \"A\", \"text_unit_ids\": []}]}",
            Format::Graphrag,
        ),
        ("[{\"id\": \"t1\", \"text\": \"x\", \"n_tokens\": 1}]", Format::Graphrag),
        ("[{\"community\": 0, \"level\": 0, \"parent\": -1}]", Format::Graphrag),
        (
            "{\"chunks\": [{\"content\": \"x\", \"source_id\": \"c1\"}]}",
            Format::Lightrag,
        ),
        ("[{\"content\": \"x\", \"source_id\": \"c1\"}]", Format::Lightrag),
        (
            "{\"relationships\": [{\"src_id\": \"A\", \"tgt_id\": \"B\"}]}",
            Format::Lightrag,
        ),
        (
            "{\"docs\": [{\"idx\": 1, \"passage\": \"x\", \"extracted_triples\": []}]}",
            Format::Hipporag,
        ),
        ("{\"nodes\": [{\"id\": \"A\"}], \"links\": []}", Format::Networkx),
        (
            "{\"directed\": true, \"nodes\": [{\"id\": \"A\"}], \"edges\": []}",
            Format::Networkx,
        ),
        (
            "<?xml version='1.0'?>\n<graphml><graph><node id='A'/></graph></graphml>",
            Format::Graphml,
        ),
        ("A,p,B\nA,q,C", Format::Csv),
        ("subject, predicate, object\nA, p, B", Format::Csv),
        ("A\tp\tB\tkey", Format::Csv),
    ] {
        assert_eq!(recognise(payload), Ok(format), "{payload}");
        let read = |format| read(payload, format).unwrap();
        assert_eq!(read(Format::Auto), read(format), "{payload}");
    }
    for prose in [
        "I came, I saw, I won.",
        "One.\nTwo.",
        "a b c",
        "",
        "{\"x\": 1}",
        "<html><body>x</body></html>",
    ] {
        assert!(recognise(prose).is_err(), "{prose}");
    }
    assert_eq!(read("x", Format::Networkx), Err(Unreadable::NoJson));
    assert_eq!(read("[1]", Format::Json), Err(Unreadable::NoRecords));
    assert_eq!(
        read_value(&value!([["A", "p", "B"]]), Format::Csv),
        Err(Unreadable::NoRecords)
    );
    assert_eq!(read_value(&value!("A,p,B"), Format::Csv).unwrap().format, Format::Csv);
    assert_eq!(
        read_value(&value!({"nodes": [], "links": []}), Format::Auto)
            .unwrap()
            .format,
        Format::Networkx
    );
}

/// Each format under what models and files put around it: none of it changes the records.
#[test]
fn what_stands_around_a_format_is_left_out() {
    for payload in [
        "(\"entity\"<|>A<|>T<|>d)##(\"relationship\"<|>A<|>B<|>d<|>2)<|COMPLETE|>",
        "(\"entity\"<|>\"A\"<|>\"T\"<|>\"d\")##(\"relationship\"<|>A<|>B<|>d<|>k, l<|>2)##(\"content_keywords\"<|>k)<|COMPLETE|>",
        "(A<|>NONE<|>T<|>TRUE<|>NONE<|>NONE<|>d<|>q)<|COMPLETE|>",
        "entity<|#|>A<|#|>T<|#|>d\nrelation<|#|>A<|#|>B<|#|>k<|#|>d\n<|COMPLETE|>",
        "{\"entities\": [{\"name\": \"A\", \"type\": \"T\", \"description\": \"d\"}], \"relationships\": []}",
        "{\"entities\": [{\"name\": \"A\", \"desc\": \"d\"}], \"relationships\": [], \"other_relationships\": [{\"source\": \"A\", \"target\": \"B\"}]}",
        "{\"nodes\": [{\"id\": \"0\", \"properties\": {\"name\": \"A\"}}], \"relationships\": []}",
        "{\"named_entities\": [\"A\"], \"triples\": [[\"A\", \"p\", \"B\"]]}",
        "{\"extracted_entities\": [{\"name\": \"A\", \"entity_type_id\": 1}]}",
        "<entity name=\"A\"><type>T</type></entity>",
        "{\"entities\": [{\"title\": \"A\", \"text_unit_ids\": [\"t\"]}]}",
        "{\"chunks\": [{\"content\": \"x\", \"source_id\": \"c1\"}]}",
        "{\"docs\": [{\"idx\": 1, \"passage\": \"x\", \"extracted_triples\": [[\"A\", \"p\", \"B\"]]}]}",
        "{\"nodes\": [{\"id\": \"A\"}], \"links\": [{\"source\": \"A\", \"target\": \"A\"}]}",
        "<graphml><graph><node id=\"A\"/></graph></graphml>",
        "A,p,B\nA,q,C",
    ] {
        let plain = read(payload, Format::Auto).unwrap();
        assert!(plain.kept() > 0, "{payload}");
        for around in [
            format!("\u{FEFF}{payload}\n"),
            format!("<think>\nA {{thought}}, ##\n</think>\n{payload}"),
            format!("\n{payload}<|im_end|>"),
            format!("```\n{payload}\n```\n"),
            payload.replace('A', "A\0"),
        ] {
            let read = read(&around, Format::Auto).unwrap_or_else(|e| panic!("{around}: {e}"));
            let repairs = plain.repairs;
            assert_eq!(Extraction { repairs, ..read }, plain, "{around}");
        }
        if plain.format != Format::Csv && plain.format != Format::Graphml {
            let around = format!("Here it is, as you asked:\n\n{payload}\n\nLet me know.");
            let read = read(&around, Format::Auto).unwrap_or_else(|e| panic!("{around}: {e}"));
            assert_eq!((read.kept(), read.format), (plain.kept(), plain.format), "{around}");
        }
    }
}

#[test]
fn triples_with_the_keys_of_their_sources() {
    let keys = |read: &Extraction| {
        let keys = read
            .relations
            .iter()
            .map(|r| r.origin.source_key.clone().unwrap_or_default());
        keys.collect::<Vec<_>>()
    };
    for (payload, expected) in [
        (
            "[[\"A\", \"p\", \"B\", \"k1\"], [\"A\", \"q\", \"C\"], [\"A\", \"q\", \"D\", 7]]",
            ["k1", "", "7"],
        ),
        (
            "[{\"source_key\": \"k1\", \"triples\": [[\"A\", \"p\", \"B\"]]}, [\"A\", \"q\", \"C\", null], {\"source_key\": 7, \"triples\": [[\"A\", \"q\", \"D\"]]}]",
            ["k1", "", "7"],
        ),
        (
            "{\"triples\": [[\"A\", \"p\", \"B\", \"k1\"], {\"subject\": \"A\", \"predicate\": \"q\", \"object\": \"C\"}, {\"source_key\": \"7\", \"subject\": \"A\", \"predicate\": \"q\", \"object\": \"D\"}]}",
            ["k1", "", "7"],
        ),
        ("A,p,B,k1\nA,q,C\n\n\"A\",\"q\",D,7\n", ["k1", "", "7"]),
        (
            "```csv\nobject;source_key;subject;predicate\nB;k1;A;p\nC;;A;q\nD;7;A;q\n```",
            ["k1", "", "7"],
        ),
    ] {
        let read = read(payload, Format::Auto).or_else(|_| read(payload, Format::Csv));
        let read = read.unwrap_or_else(|e| panic!("{payload}: {e}"));
        assert_eq!(shown(&read), ["A|p|B|-|-|-", "A|q|C|-|-|-", "A|q|D|-|-|-"], "{payload}");
        assert_eq!(keys(&read), expected, "{payload}");
        assert!(read.dropped.is_empty(), "{payload}");
    }
    // Of a model four items are junk.
    let reply = "{\"triples\": [[\"A\", \"p\", \"B\", \"k1\"]]}";
    assert_eq!(extraction(reply).unwrap().dropped[reason::NOT_A_TRIPLE], 1);
    let reply = "{\"named_entities\": [\"A\"], \"triples\": [[\"A\", \"p\", \"B\", \"k1\"]]}";
    assert_eq!(read(reply, Format::Auto).unwrap().dropped[reason::NOT_A_TRIPLE], 1);
}

#[test]
fn lines_of_fields() {
    for (payload, expected, dropped) in [
        (
            "A,p,B\n\"Mill, Ann\",\"owns\n\"\"it\"\"\",B,k\nA,p\nA,p,B,k,l\n,p,B\n,,\n",
            &["A|p|B|-|-|-", "Mill, Ann|owns\n\"\"it|B|-|-|-"][..],
            &[("no name", 1), ("too few fields", 1), ("too many fields", 1)][..],
        ),
        (
            "Source\tRelation\tTarget\tDescription\nA\tp\tB\td\nA\tp\nA\tp\tB\td\te",
            &["A|p|B|d|-|-"],
            &[("no name", 1), ("too many fields", 1)],
        ),
        ("name|type|description\nA|T|d\n|T|d", &["A|T|d"], &[("no name", 1)]),
        ("subject,object\n", &[], &[]),
        ("A,p,\"B", &["A|p|B|-|-|-"], &[]),
    ] {
        let read = read(payload, Format::Csv).unwrap_or_else(|e| panic!("{payload}: {e}"));
        let bare = |shown: Vec<String>| shown.iter().map(|s| s.replace('"', "")).collect::<Vec<_>>();
        let expected: Vec<String> = expected.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(bare(shown(&read)), bare(expected), "{payload}");
        assert_eq!(read.dropped.into_iter().collect::<Vec<_>>(), dropped, "{payload}");
    }
    let weights = read(
        "subject,predicate,object,weight,since\nA,p,B,2.5,1990\nA,p,C,x,",
        Format::Auto,
    )
    .unwrap();
    assert_eq!(
        (weights.relations[0].weight, weights.relations[1].weight),
        (Some(2.5), None)
    );
    assert_eq!(
        weights.relations[0].properties,
        *value!({"since": "1990"}).as_object().unwrap()
    );
    assert_eq!(weights.lost[reason::BAD_NUMBER], 1);
}

#[test]
fn what_a_record_says_beyond_its_fields() {
    let reply = value!({"nodes": [{"id": "0", "label": "Person", "quote": "Ann is", "block_id": 9, "properties": {"name": "ANN", "born": 1970, "source_key": "k"}},
            {"id": 1, "label": "Person", "properties": "{\"name\": \"BEN\", \"tags\": [\"x\"]}"}],
        "relationships": [{"type": "KNOWS", "start_node_id": "0", "end_node_id": 1, "properties": {"since": "1990", "evidence": "q"}}]});
    let read = extraction_value(&reply).unwrap();
    let object = |value: Value| value.as_object().cloned().unwrap();
    assert_eq!(shown(&read), ["ANN|Person|-", "BEN|Person|-", "ANN|KNOWS|BEN|-|-|q"]);
    assert_eq!(read.entities[0].quote.as_deref(), Some("Ann is"));
    assert_eq!(read.entities[0].origin.block_id, Some(9));
    assert_eq!(read.entities[0].origin.source_key.as_deref(), Some("k"));
    assert_eq!(read.entities[0].properties, object(value!({"born": 1970})));
    assert_eq!(read.entities[1].properties, object(value!({"tags": ["x"]})));
    assert_eq!(read.relations[0].properties, object(value!({"since": "1990"})));
    let read = extraction_value(
        &value!({"edges": [{"source_entity_name": "A", "target_entity_name": "B", "relation_type": "WORKS_AT",
        "fact": "f", "valid_at": "2020-01-01", "invalid_at": null}]}),
    )
    .unwrap();
    assert_eq!(read.relations[0].properties, object(value!({"valid_at": "2020-01-01"})));
}

#[test]
fn names_and_keys_have_a_longest_length() {
    let long = "n".repeat(2001);
    let read = read_value(
        &value!([{"name": long}, {"name": "A"}, {"source_key": long, "triples": [["A", "p", "B"], ["A", "p", long]]}]),
        Format::Json,
    )
    .unwrap();
    assert_eq!(shown(&read), ["A|-|-", "A|p|B|-|-|-"]);
    assert_eq!(read.dropped[reason::TOO_LONG], 2);
    assert_eq!(read.lost[reason::TOO_LONG], 1);
    assert_eq!(read.relations[0].origin, Origin::default());
}
