//! A document that goes takes every trace with it, and nothing that is not its own.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{add, list, one, rows, run};

/// A word that stands in one document alone.
const MARKER: &str = "Zyxwvut";

/// Rows of any table of the collection that hold the marker, in whatever case.
fn traces(client: &mut Client) -> Vec<String> {
    let marker = MARKER.to_lowercase();
    rows(client, "kb")
        .into_iter()
        .filter(|row| row.to_lowercase().contains(&marker))
        .collect()
}

const BUILD: &str = "SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
                     SELECT graph_summarize('kb')";

/// Documents that share entities with one that holds the marker in every place where a document can; answers its id.
fn marked(client: &mut Client, options: &str) -> i64 {
    run(client, &format!("SELECT rag_create('kb', 64{options})"));
    run(
        client,
        "INSERT INTO kb.document (body, metadata) VALUES \
           ('Marie Curie discovered Polonium in Paris. Marie Curie married Pierre Curie.', '{\"lang\": \"en\"}'), \
           ('Marie Curie discovered Polonium with care.', '{\"lang\": \"en\"}'), \
           ('The Baltic Sea is cold.', '{\"lang\": \"en\"}')",
    );
    let document: i64 = one(
        client,
        "INSERT INTO kb.document (title, source_key, metadata, body) \
         VALUES ('Zyxwvut title', 'zyxwvut.md', '{\"lang\": \"en\", \"x\": \"zyxwvut\"}', \
           E'# Zyxwvut\\n\\nMarie Curie discovered Polonium at Zyxwvut. Zyxwvut Institute hired Marie Curie. Zyxwvut \
           Institute paid Pierre Curie.') RETURNING id",
    );
    run(client, BUILD);
    run(
        client,
        &format!(
            "SELECT graph_add('kb', 'marie curie', 'DISCOVERED', 'polonium', 'as zyxwvut says', {document}); {BUILD}"
        ),
    );
    let held: Vec<String> = traces(client)
        .iter()
        .map(|row| row.split(' ').next().unwrap().to_owned())
        .collect();
    for table in [
        "block",
        "community",
        "document",
        "entity",
        "evidence",
        "mention",
        "node",
        "relation",
    ] {
        assert!(
            held.contains(&format!("kb.{table}")),
            "the test needs the marker in {table}: {held:?}"
        );
    }
    let summaries: i64 = one(
        client,
        "SELECT count(*) FROM kb.node WHERE level > 0 AND text ILIKE '%zyxwvut%'",
    );
    assert!(summaries > 0);
    document
}

/// The rest of the collection stands as if the document had never been there.
#[track_caller]
fn assert_forgotten(client: &mut Client, document: i64) {
    assert_eq!(traces(client), Vec::<String>::new());
    let links: i64 = one(
        client,
        &format!(
            "SELECT (SELECT count(*) FROM kb.node_source WHERE document_id = {document}) \
                  + (SELECT count(*) FROM kb.community_source WHERE document_id = {document}) \
                  + (SELECT count(*) FROM kb.evidence WHERE document_id = {document}) \
                  + (SELECT count(*) FROM kb.mention WHERE document_id = {document}) \
                  + (SELECT count(*) FROM kb.change WHERE \"table\" = 'document' AND key = '{document}')"
        ),
    );
    assert_eq!(links, 0);
    // Reports that drew on it are empty and out of the search, until they are written anew.
    let reports: i64 = one(
        client,
        "SELECT count(*) FROM kb.community WHERE NOT stale OR (num_nonnulls(title, summary, findings, text, rating, \
         embedding) > 0)",
    );
    assert_eq!(reports, 0);
    assert!(
        list::<i64>(
            client,
            "SELECT community_id FROM graph_global('kb', 'zyxwvut polonium')"
        )
        .is_empty()
    );
    let entities: Vec<String> = list(client, "SELECT name FROM kb.entity ORDER BY name COLLATE \"C\"");
    assert_eq!(
        entities,
        ["Baltic Sea", "Marie Curie", "Paris", "Pierre Curie", "Polonium"]
    );
    let weight: Vec<f64> = list(
        client,
        "SELECT weight FROM kb.relation WHERE predicate_key = 'discovered'",
    );
    assert_eq!(weight, [2.0], "two blocks are left that assert it");
    let sources: i32 = one(client, "SELECT source_count FROM kb.entity WHERE key = 'marie curie'");
    assert_eq!(sources, 2);

    run(client, BUILD);
    assert_eq!(traces(client), Vec::<String>::new());
    let found: Vec<String> = list(client, "SELECT summary FROM graph_global('kb', 'polonium', k => 1)");
    assert!(found[0].contains("Polonium"));
}

#[test]
fn delete_takes_every_trace() {
    let database = Database::new();
    let mut client = database.client();
    let document = marked(&mut client, "");
    // Said of the document as a whole, in words that it does not use.
    run(
        &mut client,
        &format!("SELECT graph_add('kb', 'Marie Curie', 'admired', 'Lise Meitner', 'zyxwvut says so', {document})"),
    );
    let kept: String = one(
        &mut client,
        "SELECT string_agg(id || text, ' ' ORDER BY id) FROM kb.node WHERE level = 0 AND text NOT ILIKE '%zyxwvut%'",
    );
    run(&mut client, &format!("DELETE FROM kb.document WHERE id = {document}"));
    assert_eq!(
        kept,
        one::<String>(
            &mut client,
            "SELECT string_agg(id || text, ' ' ORDER BY id) FROM kb.node WHERE level = 0"
        )
    );
    let drawing: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.node WHERE level > 0 AND (text <> '' OR embedding IS NOT NULL OR metadata <> '{}' OR NOT stale)",
    );
    assert_eq!(drawing, 0, "the one summary drew on it, and is emptied");
    assert_forgotten(&mut client, document);
}

#[test]
fn a_changed_body_takes_every_trace_of_the_old_one() {
    let database = Database::new();
    let mut client = database.client();
    let document = marked(&mut client, "");
    run(
        &mut client,
        &format!(
            "UPDATE kb.document SET body = 'Nothing.', title = NULL, source_key = NULL, metadata = '{{}}' \
             WHERE id = {document}"
        ),
    );
    assert_forgotten(&mut client, document);
}

#[test]
fn a_change_that_waits_takes_every_trace_when_it_is_taken_up() {
    let database = Database::new();
    let mut client = database.client();
    let document = marked(&mut client, "");
    run(&mut client, "SELECT rag_alter('kb', '{\"inline_rows\": 0}')");
    run(
        &mut client,
        "SELECT rag_add('kb', 'Nothing.', source_key => 'zyxwvut.md')",
    );
    run(
        &mut client,
        &format!("UPDATE kb.document SET source_key = NULL WHERE id = {document}"),
    );
    assert!(!traces(&mut client).is_empty(), "it is only recorded");
    run(&mut client, "SELECT graph_extract('kb')");
    assert_forgotten(&mut client, document);
}

#[test]
fn a_delete_does_not_wait_however_many_documents_go() {
    let database = Database::new();
    let mut client = database.client();
    let document = marked(&mut client, ", settings => '{\"inline_rows\": 1}'");
    run(
        &mut client,
        "INSERT INTO kb.document (id, body) VALUES (100, 'Zyxwvut waits.'), (101, 'Zyxwvut waits, too.')",
    );
    run(
        &mut client,
        &format!("DELETE FROM kb.document WHERE id IN ({document}, 100, 101)"),
    );
    assert_forgotten(&mut client, document);
}

#[test]
fn another_id_is_another_document() {
    let database = Database::new();
    let mut client = database.client();
    let document = marked(&mut client, "");
    run(
        &mut client,
        &format!(
            "UPDATE kb.document SET id = 77, body = 'Nothing.', title = '', source_key = '', metadata = '{{}}' \
             WHERE id = {document}"
        ),
    );
    assert_forgotten(&mut client, document);
    let leaves: Vec<i64> = list(&mut client, "SELECT document_id FROM kb.node WHERE text = 'Nothing.'");
    assert_eq!(leaves, [77]);
}

#[test]
fn truncate_takes_all_but_what_was_stated_by_hand() {
    let database = Database::new();
    let mut client = database.client();
    marked(&mut client, "");
    run(
        &mut client,
        "SELECT graph_add('kb', 'Ulm', 'lies on', 'Danube', weight => 3)",
    );
    run(&mut client, "TRUNCATE kb.document");
    assert_eq!(traces(&mut client), Vec::<String>::new());
    let entities: Vec<String> = list(&mut client, "SELECT name FROM kb.entity ORDER BY name COLLATE \"C\"");
    assert_eq!(entities, ["Danube", "Ulm"]);
    let weights: Vec<f64> = list(&mut client, "SELECT weight FROM kb.relation");
    assert_eq!(weights, [3.0]);
    let left: i64 = one(
        &mut client,
        "SELECT (SELECT count(*) FROM kb.node) + (SELECT count(*) FROM kb.block) + (SELECT count(*) FROM kb.community)",
    );
    assert_eq!(left, 0);
}

#[test]
fn what_was_stated_by_hand_stays_as_it_was_stated() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 64)");
    let (first, second) = (
        add(&mut client, "kb", "Anna Ahl met Bert Beck."),
        add(&mut client, "kb", "Anna Ahl met Bert Beck again."),
    );
    run(
        &mut client,
        "SELECT graph_add('kb', 'Anna Ahl', 'met', 'Bert Beck', 'by hand', weight => 7.5, \
         properties => '{\"year\": 1999}'); \
         INSERT INTO kb.entity (name, type, description) VALUES ('Carl', 'person', 'plain'); \
         INSERT INTO kb.relation (source_id, predicate, target_id, weight) \
           SELECT a.id, 'knows', c.id, 2.5 FROM kb.entity a, kb.entity c WHERE a.key = 'anna ahl' AND c.key = 'carl'; \
         SELECT graph_extract('kb')",
    );
    for (document, description) in [(first, "first zyxwvut"), (second, "second zyxwvut")] {
        for relation in [
            "'Anna Ahl', 'met', 'Bert Beck'",
            "'Anna Ahl', 'knows', 'Carl'",
            "'Anna Ahl', 'likes', 'Dora'",
        ] {
            run(
                &mut client,
                &format!("SELECT graph_add('kb', {relation}, '{description}', {document})"),
            );
        }
    }
    // Stated by hand after a document said so: the document's words are not taken over.
    run(&mut client, "SELECT graph_add('kb', 'Anna Ahl', 'likes', 'Dora')");
    let state = "SELECT string_agg(format('%s %s %s', predicate, weight, coalesce(description, '-')), ', ' \
        ORDER BY predicate) FROM kb.relation";
    let weights: Vec<f64> = list(&mut client, "SELECT weight FROM kb.relation ORDER BY predicate");
    assert_eq!(
        weights,
        [2.0, 2.0, 2.0],
        "knows, likes, met: the blocks that assert it count as long as there are any"
    );
    run(&mut client, &format!("DELETE FROM kb.document WHERE id = {first}"));
    let weights: Vec<f64> = list(&mut client, "SELECT weight FROM kb.relation ORDER BY predicate");
    assert_eq!(weights, [1.0, 1.0, 1.0]);
    run(&mut client, &format!("DELETE FROM kb.document WHERE id = {second}"));
    assert_eq!(
        one::<String>(&mut client, state),
        "knows 2.5 -, likes 1 -, met 7.5 by hand"
    );
    let properties: serde_json::Value = one(
        &mut client,
        "SELECT properties FROM kb.relation WHERE predicate = 'met'",
    );
    assert_eq!(properties, serde_json::json!({"year": 1999}));
    let carl = client
        .query_one(
            "SELECT name, type, description, source_count FROM kb.entity WHERE key = 'carl'",
            &[],
        )
        .unwrap();
    assert_eq!(
        (
            carl.get::<_, &str>(0),
            carl.get::<_, &str>(1),
            carl.get::<_, &str>(2),
            carl.get::<_, i32>(3)
        ),
        ("Carl", "person", "plain", 0)
    );
    assert_eq!(traces(&mut client), Vec::<String>::new());
}

#[test]
fn properties_read_in_a_document_go_with_it() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 64)");
    let (first, second) = (
        add(&mut client, "kb", "Anna Ahl met Bert Beck."),
        add(&mut client, "kb", "Anna Ahl met Bert Beck again."),
    );
    run(
        &mut client,
        &format!(
            "SELECT graph_add('kb', 'Anna Ahl', 'met', 'Bert Beck', document_id => {second}, \
             properties => '{{\"place\": \"Ulm\"}}'); \
             SELECT graph_add('kb', 'Anna Ahl', 'met', 'Bert Beck', document_id => {first}, \
             properties => '{{\"note\": \"zyxwvut\"}}')"
        ),
    );
    run(&mut client, &format!("DELETE FROM kb.document WHERE id = {first}"));
    assert_eq!(traces(&mut client), Vec::<String>::new());
    let left: serde_json::Value = one(&mut client, "SELECT properties FROM kb.relation");
    assert_eq!(left, serde_json::json!({"place": "Ulm"}));
}

#[test]
fn weight_is_the_number_of_distinct_blocks() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64, settings => '{\"leaf_tokens\": 16, \"leaf_overlap\": 0, \"block_tokens\": 50}')",
    );
    // In one document: one block says it twice, another once more.
    let filler = "The water was cold and the wind was strong over the grey hills that day. ".repeat(3);
    let body = format!(
        "# One\n\nAnna Ahl met Bert Beck. Anna Ahl met Bert Beck. {filler}\n\n# Two\n\nAnna Ahl met Bert Beck. {filler}"
    );
    let first = add(&mut client, "kb", &body);
    add(&mut client, "kb", "Anna Ahl met Bert Beck.");
    let asserted = |client: &mut Client| -> (f64, i64) {
        run(client, "SELECT graph_extract('kb')");
        let row = client
            .query_one(
                "SELECT (SELECT weight FROM kb.relation WHERE predicate_key = 'met'), \
                        (SELECT count(*) FROM kb.block WHERE text LIKE '%Anna Ahl met Bert Beck.%')",
                &[],
            )
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(asserted(&mut client), (3.0, 3));
    assert_eq!(asserted(&mut client), (3.0, 3), "reading again adds nothing");
    run(
        &mut client,
        &format!("UPDATE kb.document SET body = body || ' Anna Ahl met Bert Beck.' WHERE id = {first}"),
    );
    assert_eq!(
        asserted(&mut client),
        (4.0, 4),
        "the end of the second section is a block of its own"
    );
    run(
        &mut client,
        &format!("UPDATE kb.document SET body = 'Anna Ahl met Bert Beck.' WHERE id = {first}"),
    );
    assert_eq!(asserted(&mut client), (2.0, 2));
    run(&mut client, &format!("DELETE FROM kb.document WHERE id = {first}"));
    assert_eq!(asserted(&mut client), (1.0, 1));
    run(&mut client, "DELETE FROM kb.document");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.relation"), 0);
}
