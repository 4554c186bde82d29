//! graph_resolve: what may be one is proposed, what is not is not, and merging a proposal makes it go.

use pg_graphrag_tests::Database;

use crate::models_support::Heard;
use crate::support::{failure, list, one, run};

const PROPOSED: &str =
    "SELECT concat_ws('|', keep, alias, round(score::numeric, 2), reason, shared) FROM graph_resolve('kb'";

#[test]
fn proposals_have_reasons_and_can_be_taken() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); SELECT graph_add('kb', s, p, o) FROM (VALUES \
           ('Dr. Ada Brandt', 'leads', 'Orchard College'), ('Ada Brandt', 'leads', 'Orchard College'), ('Ada Brandt', 'met', 'Emil Stark'), \
           ('Müller Labs', 'made', 'Ferry 1'), ('Muller Labs', 'made', 'Ferry 2'), ('World War I', 'before', 'World War II'), \
           ('SR-2023-052', 'cites', 'SR-2023-053'), ('North Mill', 'near', 'South Mill')) v (s, p, o)",
    );
    let all: Vec<String> = list(&mut client, &format!("{PROPOSED})"));
    assert!(
        all.iter().any(|line| line.starts_with("Ada Brandt|Dr. Ada Brandt|")),
        "{all:#?}"
    );
    assert!(
        all.iter()
            .any(|line| line.contains("Müller Labs") && line.contains("Muller Labs")),
        "{all:#?}"
    );
    for never in ["World War", "SR-2023", "Mill", "Ferry"] {
        assert!(!all.iter().any(|line| line.contains(never)), "{never}: {all:#?}");
    }
    // Shared neighbours make up for a name that says less.
    assert!(all.iter().any(|line| line.contains("shared neighbours|1")), "{all:#?}");
    assert_eq!(
        list::<String>(&mut client, &format!("{PROPOSED}, 1)")),
        Vec::<String>::new()
    );
    run(
        &mut client,
        "SELECT graph_merge('kb', keep, alias) FROM graph_resolve('kb')",
    );
    assert_eq!(
        list::<String>(&mut client, &format!("{PROPOSED})")),
        Vec::<String>::new()
    );
    for threshold in ["0.49", "1.1", "'NaN'"] {
        let error = failure(&mut client, &format!("SELECT graph_resolve('kb', {threshold})"));
        assert_eq!(error.code().code(), "22023");
    }
}

/// An answerer that knows one of two Brandts.
const ANSWERER: &str = "CREATE FUNCTION decides(question text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT CASE \
    WHEN question LIKE '%Dr. Ada Brandt%' THEN 'Yes.' WHEN question LIKE '%Muller%' THEN 'no' END$$; ";

#[test]
fn a_model_decides_on_proposals() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let client = &mut heard.client;
    run(
        client,
        "SELECT rag_create('kb'); SELECT graph_add('kb', s, p, o) FROM (VALUES \
           ('Dr. Ada Brandt', 'leads', 'Orchard College'), ('Ada Brandt', 'leads', 'Orchard College'), \
           ('Müller Labs', 'made', 'Ferry 1'), ('Muller Labs', 'made', 'Ferry 1'), \
           ('Northwind Trading', 'buys', 'rope'), ('Northwind Tradings', 'buys', 'rope')) v (s, p, o)",
    );
    let error = failure(client, "SELECT graph_resolve('kb', ask => true)");
    assert_eq!(
        (error.code().code(), error.message()),
        ("22023", "the collection has no answerer to ask")
    );
    run(
        client,
        &format!(r#"{ANSWERER} SELECT rag_alter('kb', '{{"answerer": "function:public.decides"}}')"#),
    );
    let decided = "SELECT alias || ' ' || coalesce(same::text, '-') FROM graph_resolve('kb', ask => true) ORDER BY 1";
    let told: Vec<String> = list(client, decided);
    assert_eq!(told, ["Ada Brandt true", "Müller Labs false", "Northwind Trading -"]);
    let calls = "SELECT calls FROM rag_usage('kb') WHERE step = 'resolve'";
    let before: i64 = one(client, calls);
    assert_eq!(list::<String>(client, decided), told);
    // Only what has failed is asked again.
    assert_eq!(one::<i64>(client, calls), before + 1);
    run(
        client,
        "SELECT graph_merge('kb', keep, alias) FROM graph_resolve('kb', ask => true) WHERE same",
    );
    assert_eq!(
        list::<String>(client, "SELECT key FROM kb.entity_alias"),
        ["ada brandt"]
    );
    let said = heard.said();
    assert!(
        said.contains("function:public.decides has not decided on 1 of 3 pairs"),
        "{said}"
    );
}

#[test]
fn alike_contexts_raise_a_score() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE FUNCTION named(body text) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$SELECT jsonb_build_object('entities', \
           jsonb_build_array(jsonb_build_object('name', split_part(body, ':', 1))))$$; \
         SELECT rag_create('kb', 64, 'builtin:hash', extractor => 'function:public.named'); \
         INSERT INTO kb.document (body) VALUES \
           ('Ines Roth: the grain ferry leaves port at dawn with barley'), ('I. Roth: the grain ferry leaves port at dawn with oats'), \
           ('Emil Stark: the grain ferry leaves port at dawn'), ('E. Stark: seven lectures on medieval church music'); \
         SELECT graph_extract('kb')",
    );
    let all: Vec<String> = list(
        &mut client,
        "SELECT alias || '|' || reason FROM graph_resolve('kb', 0.5) ORDER BY score DESC",
    );
    assert_eq!(all, ["I. Roth|initials, alike contexts", "E. Stark|initials"]);
}
