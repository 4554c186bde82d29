//! graph_import: anyone's graph comes in with one call, with its places in the documents, and twice is once.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::graph_alias::{graph, miscounted};
use crate::support::{failure, list, one, run};

const DOCUMENTS: &str = "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, title, body) VALUES \
    ('a', 'Ada', 'Ada Brandt leads Orchard College. It lies in Glen Depot.'), \
    ('b', 'Mull', E'The “Night  Ferry” carries grain from Glen Depot.\\n\\nIsla Brodie commands the Night Ferry.')";

/// `(entities, relations, claims, dropped, reasons)` of an import.
fn import(client: &mut Client, payload: &str, arguments: &str) -> String {
    one(
        client,
        &format!(
            "SELECT concat_ws(' ', entities, relations, claims, dropped, reasons) FROM graph_import('kb', $payload${payload}$payload${arguments})"
        ),
    )
}

/// Evidence whose quote does not stand at its offsets.
const MISPLACED: &str = "SELECT count(*) FROM kb.evidence e JOIN kb.document d ON d.id = e.document_id \
    WHERE quote IS NOT NULL AND substr(d.body, start_char + 1, end_char - start_char) IS DISTINCT FROM quote \
       OR (quote IS NULL) <> (start_char IS NULL)";

#[test]
fn what_names_its_document_is_evidence_there() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, DOCUMENTS);
    let payload = r#"{"entities": [
          {"name": "Ada Brandt", "type": "person", "description": "Leads a college.", "source_key": "a"},
          {"name": "Nobody", "source_key": "a"}, {"name": "", "source_key": "a"}, {"name": "Lost", "source_key": "zz"}],
        "relationships": [
          {"source": "ada brandt", "target": "Orchard College", "relation": "leads", "source_key": "a", "weight": 7},
          {"source": "Night Ferry", "target": "Glen Depot", "relation": "carries grain from", "quote": "\"night ferry\" carries GRAIN", "source_key": "b"},
          {"source": "Isla Brodie", "target": "Night Ferry", "relation": "commands", "quote": "nothing of the kind", "source_key": "b"},
          {"source": "Isla Brodie", "target": "Glen Depot", "relation": "knows", "source_key": "b"}]}"#;
    let told = import(&mut client, payload, "");
    assert_eq!(
        told,
        r#"6 4 0 2 {"no name": 1, "name not found": 1, "unknown source": 1, "quote not found": 1}"#
    );
    assert_eq!(one::<i64>(&mut client, MISPLACED), 0);
    assert_eq!(miscounted(&mut client), 0);
    let quotes = "SELECT v.predicate || ': ' || coalesce(v.quote, '-') FROM kb.evidence v ORDER BY 1";
    assert_eq!(
        list::<String>(&mut client, quotes),
        [
            "carries grain from: “Night  Ferry” carries grain",
            "commands: Isla Brodie commands the Night Ferry.",
            "knows: -",
            "leads: Ada Brandt leads Orchard College.",
        ]
    );
    // One block asserts it, whatever the other tool had counted.
    assert_eq!(
        one::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE predicate = 'leads'"),
        1.0
    );
    assert_eq!(
        one::<String>(
            &mut client,
            "SELECT strength::text FROM kb.evidence WHERE predicate = 'leads'"
        ),
        "7"
    );
    let nodes = "SELECT string_agg(n.text, '|') FROM graph_local('kb', 'Isla Brodie') l, unnest(l.node_ids) i (id) JOIN kb.node n USING (id) \
                 WHERE l.predicate = 'commands'";
    assert!(one::<String>(&mut client, nodes).contains("Isla Brodie commands"));

    let before = graph(&mut client);
    assert_eq!(import(&mut client, payload, ""), told);
    assert_eq!(graph(&mut client), before, "twice is once");
    // The extractor replaces its own alone.
    run(&mut client, "SELECT graph_extract('kb')");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.evidence WHERE given"),
        4
    );
    run(&mut client, "DELETE FROM kb.document");
    assert_eq!(graph(&mut client), Vec::<String>::new());
}

#[test]
fn each_tool_is_understood() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, DOCUMENTS);
    for (payload, arguments, told, edges) in [
        (
            "(\"entity\"<|>Ada Brandt<|>person<|>Leads.)##(\"relationship\"<|>Ada Brandt<|>Orchard College<|>She leads it.<|>8)<|COMPLETE|>",
            ", block_id => (SELECT min(id) FROM kb.block)",
            "2 1 0 0 {}",
            vec!["ada brandt related to orchard college 1"],
        ),
        (
            r#"{"docs": [{"idx": "a", "passage": "Ada Brandt leads Orchard College.", "extracted_triples": [["ada brandt", "leads", "orchard college"], ["junk"]]}]}"#,
            "",
            r#"2 1 0 1 {"not a triple": 1}"#,
            vec!["ada brandt leads orchard college 1"],
        ),
        (
            r#"{"text_units": [{"id": "t1", "text": "Ada Brandt leads Orchard College. It lies in Glen Depot."}],
                "entities": [{"id": 1, "title": "ADA BRANDT", "type": "PERSON", "text_unit_ids": ["t1"]}, {"id": 2, "title": "\"ORCHARD COLLEGE\"", "text_unit_ids": ["t1"]}],
                "relationships": [{"source": "ADA BRANDT", "target": "ORCHARD COLLEGE", "description": "leads", "weight": 9.0, "text_unit_ids": ["t1"]}],
                "communities": [{"community": 0, "level": 0, "title": "C", "entity_ids": [1, 2]}]}"#,
            "",
            r#"2 1 0 1 {"community or report": 1}"#,
            vec!["ada brandt related to orchard college 1"],
        ),
        (
            "subject,predicate,object\nA,to,B\nA,to,B\nB,to,A\nC,of,C\n",
            "",
            "3 3 0 0 {}",
            vec!["a to b 2", "b to a 1", "c of c 1"],
        ),
        (
            r#"{"nodes": [{"id": "n1", "label": "Port"}, {"id": "n2", "label": "Mull"}], "links": [{"source": "n1", "target": "n2", "weight": -2}, {"source": "n1", "target": "n9"}]}"#,
            "",
            r#"2 1 0 1 {"bad number": 1, "unknown id": 1}"#,
            vec!["port related to mull 1"],
        ),
    ] {
        run(&mut client, "BEGIN");
        assert_eq!(import(&mut client, payload, arguments), told, "{payload}");
        let found = "SELECT concat_ws(' ', s.key, r.predicate_key, t.key, r.weight) FROM kb.relation r \
                     JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id ORDER BY 1";
        assert_eq!(list::<String>(&mut client, found), edges, "{payload}");
        assert_eq!(miscounted(&mut client), 0, "{payload}");
        assert_eq!(one::<i64>(&mut client, MISPLACED), 0);
        let before = graph(&mut client);
        assert_eq!(import(&mut client, payload, arguments), told);
        assert_eq!(graph(&mut client), before, "twice: {payload}");
        run(&mut client, "ROLLBACK");
    }
}

#[test]
fn claims_stand_with_their_dates() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, DOCUMENTS);
    let payload = r#"{"claims": [
        {"subject": "Ada Brandt", "type": "office", "status": "true", "start_date": "1998", "end_date": "2001-05", "description": "Leads.", "source_key": "a", "source_text": "leads Orchard"},
        {"subject": "Ada Brandt", "type": "office", "status": "false", "description": "Nowhere said."}]}"#;
    for _ in 0..2 {
        assert_eq!(import(&mut client, payload, ""), r#"0 0 1 1 {"no document": 1}"#);
    }
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT concat_ws('|', subject_key, status, valid_from::date, valid_to::date, quote) FROM kb.claim"
        ),
        ["ada brandt|TRUE|1998-01-01|2001-05-01|leads Orchard"]
    );
}

#[test]
fn what_cannot_be_read_is_said() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, DOCUMENTS);
    for (arguments, code, part) in [
        ("'no graph at all'", "22P02", "cannot be read"),
        ("''", "22P02", "the payload is empty"),
        ("'[]', 'yaml'", "22023", "format \"yaml\" does not exist"),
        ("'[]', block_id => 99", "P0002", "block 99 does not exist"),
        ("NULL", "22004", "payload must not be null"),
    ] {
        let error = failure(&mut client, &format!("SELECT graph_import('kb', {arguments})"));
        assert_eq!(error.code().code(), code, "{arguments}: {error:?}");
        assert!(error.message().contains(part), "{arguments}: {error:?}");
    }
}

#[test]
fn strange_values_spoil_themselves_alone() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, DOCUMENTS);
    let payload = r#"[{"source": "A", "target": "B", "relation": "r", "note": "a\\u0000", "p": 1e200000, "q": "x\u0000y"},
        {"source": "Ada Brandt", "target": "Glen Depot", "relation": "r", "note": "\\u0000", "source_key": "a"}]"#;
    assert!(import(&mut client, payload, "").starts_with("4 2 0 0"));
    assert_eq!(
        one::<String>(
            &mut client,
            "SELECT properties ->> 'q' FROM kb.relation WHERE properties ? 'q'"
        ),
        "xy"
    );
    let claim = |status: &str, start: &str| {
        format!(
            r#"{{"claim_type": "c", "subject": "Ada", "status": "{status}", "start_date": "{start}", "source_key": "a"}}"#
        )
    };
    let dates = [
        "2020-01-01T10:00:00,5",
        "2020-01-01T10:00.5",
        "2020-03",
        "2020-01-01T10:30:00+02:00",
        "1998-02-30",
    ];
    let claims: Vec<String> = dates
        .iter()
        .map(|date| claim("TRUE", date))
        .chain([claim("FALSE", "2020-03")])
        .collect();
    import(&mut client, &format!("[{}]", claims.join(",")), "");
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT status || ' ' || coalesce((valid_from AT TIME ZONE 'UTC')::text, '-') FROM kb.claim ORDER BY 1"
        ),
        [
            "FALSE 2020-03-01 00:00:00",
            "TRUE -",
            "TRUE 2020-01-01 08:30:00",
            "TRUE 2020-01-01 10:00:00",
            "TRUE 2020-03-01 00:00:00",
        ]
    );
}
