use super::*;

/// Each entity as `name|kind|description`, each relation as `subject|predicate|object|description|strength|quote`.
pub(super) fn shown(read: &Extraction) -> Vec<String> {
    let or = |text: &Option<String>| text.clone().unwrap_or("-".into());
    let entities = read.entities.iter();
    let entities = entities.map(|e| format!("{}|{}|{}", e.name, or(&e.kind), or(&e.description)));
    let relations = read.relations.iter().map(|r| {
        let strength = r.strength.map_or("-".into(), |strength| strength.to_string());
        let (predicate, description, quote) = (or(&r.predicate), or(&r.description), or(&r.quote));
        format!(
            "{}|{predicate}|{}|{description}|{strength}|{quote}",
            r.subject, r.object
        )
    });
    entities.chain(relations).collect()
}

pub(super) fn check(reply: &str, expected: &[&str], dropped: &[(&'static str, usize)], repairs: &str) {
    let read = extraction(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
    assert_eq!(shown(&read), expected, "{reply}");
    assert_eq!(read.dropped.clone().into_iter().collect::<Vec<_>>(), dropped, "{reply}");
    assert_eq!(names_of(read.repairs), repairs, "{reply}");
}

#[test]
fn tuples_of_graphrag() {
    let expected = [
        "SCROOGE|PERSON|A miser (of London)",
        "MARLEY|PERSON|His partner",
        "SCROOGE|-|MARLEY|Partners|9|-",
    ];
    for (reply, repairs) in [
        (
            "(\"entity\"<|>SCROOGE<|>PERSON<|>A miser (of London))\n##\n(\"entity\"<|>\"MARLEY\"<|>PERSON<|>His partner)\n##\n\
             (\"relationship\"<|>SCROOGE<|>MARLEY<|>Partners<|>9)\n<|COMPLETE|>\nmore",
            "",
        ),
        (
            "Sure:\n(entity<|>SCROOGE<|>PERSON<|>A miser (of London))##(ENTITY<|>MARLEY<|>PERSON<|>His partner)##\
             (\"Relationship\"<|>SCROOGE<|>MARLEY<|>Partners<|>\"9\")",
            "fence",
        ),
        (
            "\"entity\"<|>SCROOGE<|>PERSON<|>A miser (of London)\n\"entity\"<|>MARLEY<|>PERSON<|>His partner)\n\
             \"relationship\"<|>SCROOGE<|>MARLEY<|>Partners<|>9",
            "",
        ),
        (
            "<think>hm</think>```\n(“entity”<||>SCROOGE< | >PERSON<|>A miser (of London))\n(“entity”<|>'MARLEY'<|>PERSON<|>His partner)\n\
             (“relationship”<|>SCROOGE<|>MARLEY<|>Partners<|>9)\n```",
            "reasoning fence broken",
        ),
    ] {
        check(reply, &expected, &[], repairs);
    }
    check(
        "(\"entity\"<|>A<|>T<|>)##(\"entity\"<|>B<|>T)##(\"entity\"<|>\"\"<|>T<|>d)##(\"person\"<|>C<|>T<|>d)##\
         (\"relationship\"<|>A<|>B<|>d<|>strong)##(\"relationship\"<|>A<|>B<|>d)##(\"relationship\"<|>A<|>B<|>cut he",
        &["A|T|-", "A|-|B|d|1|-"],
        &[("cut", 1), ("no name", 1), ("too few fields", 2), ("unknown kind", 1)],
        "broken",
    );
    check("<|COMPLETE|>", &[], &[], "");
}

#[test]
fn tuples_of_lightrag() {
    check(
        "(\"entity\"<|>\"Alex\"<|>\"person\"<|>\"Alex is \"bored\"\")##\n\
         (\"relationship\"<|>\"Alex\"<|>\"Taylor\"<|>\"They work\"<|>\"power, conflict\"<|>7)##\n\
         (\"content_keywords\"<|>\"power, ideology\")<|COMPLETE|>",
        &["Alex|person|Alex is \"bored\"", "Alex|power|Taylor|They work|7|-"],
        &[],
        "",
    );
    let expected = [
        "Alex|person|He is.",
        "Noah Carter|person|An athlete.",
        "Alex|power|Noah Carter|They meet.|-|-",
    ];
    for (reply, repairs) in [
        (
            "entity<|#|>Alex<|#|>person<|#|>He is.\nentity<|#|>Noah Carter<|#|>person<|#|>An athlete.\n\
             relation<|#|>Alex<|#|>Noah Carter<|#|>power, conflict<|#|>They meet.\n<|COMPLETE|>",
            "",
        ),
        // Run together, wrongly headed.
        (
            "entity<|#|>Alex<|#|>person<|#|>He is.<|#|>entity<|#|>Noah Carter<|#|>person<|#|>An athlete.<|#|>\
             entity<|#|>Alex<|#|>Noah Carter<|#|>power，conflict<|#|>They meet.",
            "broken",
        ),
        (
            "- entity<|##|>Alex<|#|>person<|>He is.\n2. **entity**<||>Noah Carter<#>person<|\\#|>An athlete.\n\
             relationship<|#Alex<|#|>>Noah Carter<|#x|>power<|#|They meet.",
            "broken",
        ),
        (
            "(entity<|#|>Alex<|#|>person<|#|>He is.)\n(entity|#|>Noah Carter|#|person<|#|>An athlete.)\n\
             (relation<|#|>Alex<|#|>Noah Carter<|#|>power<|#|>They meet.)",
            "broken",
        ),
        (
            "{\"entities\": [{\"name\": \"Alex\", \"type\": \"person\", \"description\": \"He is.\"},\
             {\"name\": \"Noah Carter\", \"type\": \"person\", \"description\": \"An athlete.\"}],\
             \"relationships\": [{\"source\": \"Alex\", \"target\": \"Noah Carter\", \"keywords\": \"power, conflict\", \"description\": \"They meet.\"}]}\n\
             <|COMPLETE|>",
            "fence",
        ),
    ] {
        check(reply, &expected, &[], repairs);
    }
    check(
        "entity<|#|>Entity<|#|>entity<|#|>A thing\nthat is\nentity<|#|>B<|#|>C\nperson<|#|>D<|#|>E<|#|>F\n\
         relation<|#|>A<|#|>B<|#|>k<|#|>d<|#|>8\nrelation<|#|>A<|#|>B<|#|>k<|#|>d<|#|>e<|#|>f\nrelation<|#|>A<|#|>B<|#|>k",
        &["Entity|entity|A thing", "A|k|B|d|8|-"],
        &[
            ("cut", 1),
            ("too few fields", 1),
            ("too many fields", 1),
            ("unknown kind", 1),
        ],
        "broken",
    );
}

#[test]
fn json_of_each_product() {
    for (reply, expected, dropped) in [
        // fast-graphrag
        (
            value!({"entities": [{"name": "A", "type": "T", "desc": "d"}], "relationships": [{"source": "A", "target": "B", "desc": "r"}],
                "other_relationships": [{"source": "B", "target": "C", "desc": "o"}]}),
            &["A|T|d", "A|-|B|r|-|-", "B|-|C|o|-|-"][..],
            &[][..],
        ),
        // Neo4j
        (
            value!({"nodes": [{"id": "0", "label": "Person", "properties": {"name": "A"}}, {"id": 1, "label": "Person", "properties": "{\"name\": \"B\"}"},
                {"id": "2", "label": "Person", "properties": {}}],
                "relationships": [{"type": "KNOWS", "start_node_id": "0", "end_node_id": "1", "properties": {"description": "d", "weight": "2"}},
                {"type": "KNOWS", "start_node_id": "0", "end_node_id": "7", "properties": {}}]}),
            &["A|Person|-", "B|Person|-", "A|KNOWS|B|d|2|-"],
            &[("no name", 1), ("unknown id", 1)],
        ),
        (
            value!([{"id": "A", "label": "T"}, {"type": "K", "start_node_id": "A", "end_node_id": "A"}]),
            &["A|T|-", "A|K|A|-|-|-"],
            &[],
        ),
        // HippoRAG
        (
            value!({"named_entities": ["A", " \"B\" ", ""], "triples": [["A", "is in", "B"], ["A", "B"], ["A", "p", "B", "C"], "A p B", ["A", null, "B"]]}),
            &["A|-|-", "B|-|-", "A|is in|B|-|-|-", "A|-|B|-|-|-"],
            &[("no name", 1), ("not a triple", 3)],
        ),
        // graphiti
        (
            value!({"extracted_entities": [{"name": "A", "entity_type_id": 0}],
                "edges": [{"source_entity_name": "A", "target_entity_name": "B", "relation_type": "WORKS_AT", "fact": "A works at B", "valid_at": null}]}),
            &["A|-|-", "A|WORKS_AT|B|A works at B|-|-"],
            &[],
        ),
        // The union of the keys.
        (
            value!([{"entity": "A", "entity_type": ["T", "U"], "summary": "s"}, {"Title": "B"}, {"entityName": "C", "label": "L"},
                {"src": "A", "tgt": "B", "predicate": "p", "score": "8/10", "evidence": "A p B."}, {"head": "A", "tail": {"name": "B"}, "relation": "p", "strength": 3},
                {"subject": "A", "object": "B", "predicate": "p", "span": "q", "weight": "x"}, {"start": "A", "end": "B", "keywords": ["k", "l"], "source_text": "t"},
                ["A", "p", 5], ["A"], {"x": 1}, 4]),
            &[
                "A|T|s",
                "B|-|-",
                "C|L|-",
                "A|p|B|-|8|A p B.",
                "A|p|B|-|3|-",
                "A|p|B|-|-|q",
                "A|k|B|-|-|t",
                "A|p|5|-|-|-",
            ],
            &[("not a record", 2), ("not a triple", 1)],
        ),
        (value!(["A", "p", "B"]), &["A|p|B|-|-|-"], &[]),
        (
            value!({"subject": "A", "predicate": "p", "object": "B", "quote": "q"}),
            &["A|p|B|-|-|q"],
            &[],
        ),
        (
            value!({"result": {"output": "{\"entities\": [\"A\"]}"}}),
            &["A|-|-"],
            &[],
        ),
        (
            value!({"entities": {"A": "T", "B": {"description": "d"}}}),
            &["A|T|-", "B|-|d"],
            &[],
        ),
        (value!({"entities": [], "relationships": []}), &[], &[]),
        (value!([]), &[], &[]),
        (value!({"triples": [["A", "B"]]}), &[], &[("not a triple", 1)]),
    ] {
        check(&reply.to_string(), expected, dropped, "");
        let text = format!("Here they are:\n```json\n{reply:#}\n```\n");
        check(&text, expected, dropped, "fence");
        assert_eq!(shown(&extraction_value(&reply).unwrap()), expected);
    }
    for nothing in [
        value!({"x": 1}),
        value!([1]),
        value!(7),
        value!(null),
        value!("no"),
        value!(["a", "b"]),
    ] {
        assert!(extraction_value(&nothing).is_err(), "{nothing}");
    }
}

#[test]
fn xml_of_r2r() {
    check(
        "Here:\n<entity name=\"A &amp; Co\">\n<type>T</type><description>d <b>bold</b> 1 < 2</description></entity>\n\
         <entity><name>B</name></entity><entity name='C'/><entity name=\"\"></entity>\n\
         <relationship><source>A &amp; Co</source><target>B</target><type>OWNS</type><description>r</description><weight>7.5</weight></relationship>\n\
         <relationship><source>B</source><target>C</targ",
        &["A & Co|T|d bold 1 < 2", "B|-|-", "C|-|-", "A & Co|OWNS|B|r|7.5|-"],
        &[("cut", 1), ("no name", 1)],
        "fence broken",
    );
}

#[test]
fn names_lose_only_the_quotes_around_them() {
    for (name, expected) in [
        ("\"SCROOGE\"", "SCROOGE"),
        (" “A\u{a0}B” ", "A\u{a0}B"),
        ("\"A\" and \"B\"", "\"A\" and \"B\""),
        ("the \"A\"", "the \"A\""),
        ("the Joneses'", "the Joneses'"),
        ("\"A", "A"),
        ("A\"", "A"),
        ("'\"A\"'", "A"),
        ("\"", ""),
    ] {
        assert_eq!(bare(name), expected);
    }
}
