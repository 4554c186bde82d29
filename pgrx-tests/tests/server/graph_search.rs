//! graph_search: what the walk over the graph finds that is not near to the question.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

/// A chain of three documents, and forty others about ships.
const CORPUS: &str = "
INSERT INTO kb.document (source_key, title, body, metadata) VALUES
  ('founder', 'Isla Brodie', 'Isla Brodie is a Scottish engineer. With her brother she founded the Grey Mill in the year of the flood.', '{\"tenant\": 1}'),
  ('mill', 'Grey Mill', 'The Grey Mill grinds barley for three distilleries, and was bought by Kestrel Holdings.', '{\"tenant\": 1}'),
  ('owner', 'Kestrel Holdings', 'Kestrel Holdings has its seat in Tarbert and four hundred people.', '{\"tenant\": 1}');
INSERT INTO kb.document (source_key, title, body, metadata)
  SELECT 'ship' || i, 'Ship ' || i, 'The engineer of ship ' || i || ' was bought a seat by the company that owns the founded thing of berth ' || i || '.', '{\"tenant\": 2}'
  FROM generate_series(1, 40) i;";
const QUESTION: &str = "Which company owns the thing that Isla Brodie founded, and where is its seat?";

fn corpus(client: &mut Client) {
    run(client, &format!("SELECT rag_create('kb'); {CORPUS}"));
    run(client, "CALL rag_refresh('kb')");
}

fn keys(client: &mut Client, arguments: &str) -> Vec<String> {
    let sql = format!(
        "SELECT d.source_key FROM graph_search('kb', '{QUESTION}'{arguments}) WITH ORDINALITY s JOIN kb.document d ON d.id = s.document_ids[1] ORDER BY s.ordinality"
    );
    list(client, &sql)
}

#[test]
fn it_walks_to_what_is_not_near() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    let near: Vec<String> = list(
        &mut client,
        &format!(
            "SELECT d.source_key FROM raptor_search('kb', '{QUESTION}', 6, mode => 'leaf') s JOIN kb.document d ON d.id = s.document_ids[1]"
        ),
    );
    assert!(!near.contains(&"mill".to_owned()), "{near:?}");
    for mode in ["pagerank", "mix", "local"] {
        let mut found = keys(&mut client, &format!(", '{mode}', 3"));
        found.sort();
        assert_eq!(found, ["founder", "mill", "owner"], "{mode}");
    }
    let via = "SELECT s.via FROM graph_search('kb', 'What is the Grey Mill?', 'local') s JOIN kb.document d ON d.id = s.document_ids[1] WHERE d.source_key = ";
    assert!(one::<String>(&mut client, &format!("{via} 'mill'")).contains("Grey Mill"));
    assert!(one::<String>(&mut client, &format!("{via} 'owner'")).contains("Kestrel Holdings"));
    let total: f64 = one(
        &mut client,
        "SELECT sum(score) FROM graph_search('kb', 'What is the Grey Mill?', 'mix', 1000)",
    );
    assert!((0.1..=1.0).contains(&total), "{total}");
}

#[test]
fn what_is_out_of_scope_leaves_no_trace() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    // Another tenant writes of the same things.
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, title, body, metadata) SELECT 'other' || i, 'Grey Mill', \
           'Isla Brodie sold the Grey Mill to Lord Ashdown ' || i || ', who hates Kestrel Holdings.', '{\"tenant\": 2}' FROM generate_series(1, 9) i",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    let scoped = |collection: &str, scope: &str| {
        format!(
            "SELECT d.source_key || ' ' || s.score || ' ' || coalesce(s.via, '-') FROM graph_search('{collection}', '{QUESTION}', 'pagerank', 50{scope}) s \
             JOIN {collection}.document d ON d.id = s.document_ids[1] ORDER BY s.score DESC, 1"
        )
    };
    let by_filter: Vec<String> = list(&mut client, &scoped("kb", r#", filter => '{"tenant": 1}'"#));
    assert_eq!(by_filter.len(), 3);
    assert!(by_filter.iter().all(|row| !row.contains("Ashdown")), "{by_filter:?}");
    let by_ids = scoped(
        "kb",
        ", documents => (SELECT array_agg(id) FROM kb.document WHERE metadata @> '{\"tenant\": 1}')",
    );
    assert_eq!(list::<String>(&mut client, &by_ids), by_filter);
    // With vectors that do not depend on other documents it is as if there were no others.
    run(
        &mut client,
        "SELECT rag_alter('kb', '{\"embedder\": \"builtin:hash\"}')",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    run(
        &mut client,
        "SELECT rag_create('alone', embedder => 'builtin:hash'); INSERT INTO alone.document (source_key, title, body, metadata) \
         SELECT source_key, title, body, metadata FROM kb.document WHERE metadata @> '{\"tenant\": 1}'",
    );
    run(&mut client, "CALL rag_refresh('alone')");
    for mode in ["pagerank", "local"] {
        let of = |collection: &str| {
            scoped(collection, r#", filter => '{"tenant": 1}'"#).replace("'pagerank'", &format!("'{mode}'"))
        };
        let in_all: Vec<String> = list(&mut client, &of("kb"));
        assert_eq!(in_all.len(), 3);
        assert_eq!(list::<String>(&mut client, &of("alone")), in_all, "{mode}");
    }
    assert_eq!(
        keys(&mut client, r#", filter => '{"tenant": 3}'"#),
        Vec::<String>::new()
    );
}

#[test]
fn the_order_of_loading_does_not_matter() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    let all = |collection: &str| {
        format!(
            "SELECT d.source_key || ' ' || s.score || ' ' || coalesce(s.via, '-') FROM graph_search('{collection}', '{QUESTION}', 'mix', 50) WITH ORDINALITY s \
             JOIN {collection}.document d ON d.id = s.document_ids[1] ORDER BY s.ordinality"
        )
    };
    run(
        &mut client,
        "SELECT rag_create('other'); INSERT INTO other.document (source_key, title, body, metadata) \
         SELECT source_key, title, body, metadata FROM kb.document ORDER BY id DESC",
    );
    run(&mut client, "CALL rag_refresh('other')");
    let first: Vec<String> = list(&mut client, &all("kb"));
    assert!(first.len() > 5);
    assert_eq!(list::<String>(&mut client, &all("other")), first);
}

#[test]
fn names_of_any_script_and_stated_relations_lead_on() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', language => 'simple'); \
         INSERT INTO kb.document (source_key, body) VALUES ('one', 'Erstens.'), ('two', 'Zweitens.'), ('three', 'Drittens.'), ('four', 'Viertens.'); \
         SELECT graph_add('kb', '東京大学', 'liegt in', '本郷', document_id => (SELECT id FROM kb.document WHERE source_key = 'one'), quote => 'Erstens.'); \
         SELECT graph_add('kb', 'Мария Кюри', 'родилась в', 'Варшава', document_id => (SELECT id FROM kb.document WHERE source_key = 'two'), quote => 'Zweitens.'); \
         SELECT graph_add('kb', 'Варшава', 'capital of', 'Polska', document_id => (SELECT id FROM kb.document WHERE source_key = 'three'), quote => 'Drittens.'); \
         SELECT graph_add('kb', 'Leith', 'part of', 'Edinburgh')",
    );
    for (question, first) in [
        ("東京大学はどこにありますか", "one"),
        ("Где родилась мария кюри?", "two"),
        ("POLSKA''s capital?", "three"),
    ] {
        let sql = format!(
            "SELECT d.source_key FROM graph_search('kb', '{question}', 'local', 1) s JOIN kb.document d ON d.id = s.document_ids[1]"
        );
        assert_eq!(one::<String>(&mut client, &sql), first, "{question}");
    }
    // Through an entity that both assert.
    let sql = "SELECT d.source_key FROM graph_search('kb', 'Мария Кюри', 'local') WITH ORDINALITY s JOIN kb.document d ON d.id = s.document_ids[1] ORDER BY s.ordinality";
    assert_eq!(list::<String>(&mut client, sql), ["two", "three"]);
    // A name that no document has leads nowhere, and is no error.
    assert_eq!(
        list::<i64>(&mut client, "SELECT node_id FROM graph_search('kb', 'Leith', 'local')"),
        Vec::<i64>::new()
    );
    assert!(list::<i64>(&mut client, "SELECT node_id FROM graph_search('kb', '?!', 'local')").is_empty());
}

#[test]
fn a_budget_takes_what_fits_in_the_order_of_the_walk() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    let query = "SELECT token_count FROM graph_search('kb', 'Who built the yard of Isla Brodie?', k => 10";
    let all: Vec<i32> = list(&mut client, &format!("{query})"));
    let budget = all[0] + all[all.len() - 1];
    let mut left = budget;
    let mut fitting = all.clone();
    fitting.retain(|tokens| {
        let fits = *tokens <= left;
        left -= if fits { *tokens } else { 0 };
        fits
    });
    assert!(fitting.len() < all.len());
    assert_eq!(
        list::<i32>(&mut client, &format!("{query}, max_tokens => {budget})")),
        fitting
    );
}

#[test]
fn without_a_graph_it_is_what_is_near() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) SELECT i, 'the tide of day ' || i || ' rises' FROM generate_series(1, 30) i",
    );
    let keys = |client: &mut Client, call: &str| -> Vec<String> {
        list(
            client,
            &format!(
                "SELECT d.source_key FROM {call} WITH ORDINALITY s JOIN kb.document d ON d.id = s.document_ids[1] ORDER BY s.ordinality"
            ),
        )
    };
    let near = keys(&mut client, "raptor_search('kb', 'tide of day 17', 1, mode => 'leaf')");
    for mode in ["mix", "pagerank", "local", "global", "hybrid"] {
        let found = keys(
            &mut client,
            &format!("graph_search('kb', 'tide of day 17', '{mode}', 5)"),
        );
        assert_eq!((found.len(), &found[0]), (5, &near[0]), "{mode}");
    }
    run(&mut client, "TRUNCATE kb.document");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM graph_search('kb', 'day 17')"),
        0
    );
}

#[test]
fn arguments_are_checked() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    for (arguments, code, message) in [
        ("'naive'", "22023", "unknown mode \"naive\""),
        ("NULL", "22004", "mode must not be null"),
        ("k => -1", "22023", "k must be between 0 and 2147483647"),
        ("filter => '[]'", "22023", "filter must be a JSON object"),
    ] {
        let error = failure(
            &mut client,
            &format!("SELECT * FROM graph_search('kb', 'x', {arguments})"),
        );
        assert_eq!((error.code().code(), error.message()), (code, message), "{arguments}");
    }
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM graph_search('kb', 'x', k => 0)"),
        0
    );
}
