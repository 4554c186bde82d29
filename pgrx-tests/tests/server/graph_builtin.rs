//! Extraction without a model: titles are names, and what the collection does not bear out is left out of searches.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::graph::check_laws;
use crate::support::{failure, list, one, run};

const FILMS: [(&str, &str, &str); 7] = [
    (
        "arcade",
        "Formula One Arcade (video game)",
        "It was made by Studio 33. The cover shows Eddie Irvine, who is smiling.",
    ),
    (
        "irvine",
        "Eddie Irvine",
        "He is a retired driver. In 1999 he drove for Scuderia Rossa.",
    ),
    (
        "rossa",
        "Scuderia Rossa",
        "The team is from Italy. Nobody else has won as often.",
    ),
    ("planet", "Mercury (planet)", "It is near to the sun, and small."),
    (
        "metal",
        "Mercury (element)",
        "It is a metal. A thermometer of Mercury (element) is no more sold.",
    ),
    (
        "intro",
        "Introduction",
        "What follows leads into the rest, as one says.",
    ),
    ("hiring", "Hiring", "The panel meets in spring."),
];

fn titled(client: &mut Client, films: &[(&str, &str, &str)]) {
    run(client, "SELECT rag_create('kb')");
    for (key, title, body) in films {
        client
            .execute(
                "INSERT INTO kb.document (source_key, title, body) VALUES ($1, $2, $3)",
                &[key, title, body],
            )
            .unwrap();
    }
    run(client, "SELECT * FROM graph_extract('kb')");
    check_laws(client);
}

/// Everything in the graph but ids.
fn graph(client: &mut Client) -> Vec<String> {
    let mut rows = Vec::new();
    for sql in [
        "SELECT concat_ws('|', key, name, type, degree, source_count, block_count) FROM kb.entity ORDER BY key COLLATE \"C\"",
        "SELECT concat_ws('|', d.source_key, m.name, m.type, m.start_char) FROM kb.mention m JOIN kb.document d ON d.id = m.document_id ORDER BY 1",
        "SELECT concat_ws('|', d.source_key, subject_name, predicate, object_name, quote) FROM kb.evidence e JOIN kb.document d ON d.id = e.document_id ORDER BY 1",
        "SELECT concat_ws('|', s.key, predicate, t.key, weight, r.source_count) FROM kb.relation r JOIN kb.entity s ON s.id = source_id \
         JOIN kb.entity t ON t.id = target_id ORDER BY 1",
    ] {
        rows.extend(list::<String>(client, sql));
    }
    rows
}

fn mentions(client: &mut Client, document: &str) -> Vec<String> {
    let sql = format!(
        "SELECT m.name FROM kb.mention m JOIN kb.document d ON d.id = m.document_id WHERE d.source_key = '{document}' ORDER BY 1"
    );
    list(client, &sql)
}

#[test]
fn titles_are_names_whatever_the_order_of_documents() {
    let database = Database::new();
    let mut client = database.client();
    titled(&mut client, &FILMS);
    assert_eq!(
        mentions(&mut client, "arcade"),
        ["Eddie Irvine", "Formula One Arcade", "Studio 33"]
    );
    assert_eq!(mentions(&mut client, "irvine"), ["Eddie Irvine", "Scuderia Rossa"]);
    let quote = "SELECT quote FROM graph_local('kb', 'Formula One Arcade') WHERE target = 'Eddie Irvine'";
    assert_eq!(
        list::<String>(&mut client, quote),
        ["The cover shows Eddie Irvine, who is smiling."]
    );
    let path =
        "SELECT count(*) FROM graph_local('kb', 'formula one arcade', hops => 2) WHERE target = 'Scuderia Rossa'";
    assert_eq!(one::<i64>(&mut client, path), 1, "two hops by titles alone");

    // Two planets of one name keep their qualifiers.
    assert_eq!(mentions(&mut client, "planet"), ["Mercury (planet)"]);
    assert_eq!(mentions(&mut client, "metal"), ["Mercury (element)"]);
    // A label names nothing.
    assert_eq!(mentions(&mut client, "intro"), Vec::<String>::new());
    assert_eq!(mentions(&mut client, "hiring"), Vec::<String>::new());

    let before = graph(&mut client);
    let again: i64 = one(&mut client, "SELECT blocks FROM graph_extract('kb')");
    assert_eq!((again, graph(&mut client)), (0, before.clone()));
    let mut films = FILMS;
    films.reverse();
    films.swap(0, 3);
    run(&mut client, "SELECT rag_drop('kb')");
    titled(&mut client, &films);
    assert_eq!(graph(&mut client), before);
}

#[test]
fn titles_that_come_later_and_change_and_go() {
    let database = Database::new();
    let mut client = database.client();
    titled(&mut client, &FILMS[..1]);
    // It is a name by its spelling; the document that comes has it as its title.
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, title, body) VALUES ('irvine', 'Eddie Irvine (driver)', 'A driver of Formula One Arcade.'); \
         SELECT * FROM graph_extract('kb')",
    );
    let met = "SELECT source_count FROM kb.entity WHERE key = 'eddie irvine'";
    assert_eq!(one::<i32>(&mut client, met), 2);
    assert_eq!(mentions(&mut client, "irvine"), ["Eddie Irvine", "Formula One Arcade"]);

    run(
        &mut client,
        "UPDATE kb.document SET title = 'Edmund Irvine' WHERE source_key = 'irvine'",
    );
    let traces =
        "SELECT count(*) FROM kb.mention m JOIN kb.document d ON d.id = m.document_id WHERE d.source_key = 'irvine'";
    assert_eq!(one::<i64>(&mut client, traces), 0, "the old title is gone at once");
    check_laws(&mut client);
    assert_eq!(one::<i64>(&mut client, "SELECT blocks FROM graph_extract('kb')"), 1);
    assert_eq!(mentions(&mut client, "irvine"), ["Edmund Irvine", "Formula One Arcade"]);
    check_laws(&mut client);
    let edge = "SELECT count(*) FROM graph_local('kb', 'edmund irvine') WHERE target = 'Formula One Arcade'";
    assert_eq!(one::<i64>(&mut client, edge), 1);

    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'arcade'");
    let left = "SELECT count(*) FROM kb.entity WHERE name ~ 'video'";
    assert_eq!(
        one::<i64>(&mut client, left),
        0,
        "no word of the title that only it had"
    );
    check_laws(&mut client);
    run(&mut client, "DELETE FROM kb.document");
    assert_eq!(
        graph(&mut client),
        Vec::<String>::new(),
        "nothing stays of what it was called"
    );
}

/// Thirty stations of one town, two people who always meet, and a phrase of one document.
fn counted(client: &mut Client, settings: &str) {
    run(
        client,
        &format!(
            "SELECT rag_create('kb', settings => '{settings}'); \
             INSERT INTO kb.document (source_key, body, metadata) \
             SELECT 's' || i, 'Yesterday Harbour Town and Station ' || i || ' were seen.', '{{\"kind\": \"station\"}}'::jsonb FROM generate_series(1, 30) i \
             UNION ALL SELECT 'p' || i, 'In May Emil Stark and Ada Brandt were seen, number ' || i || '.', '{{}}' FROM generate_series(1, 4) i \
             UNION ALL SELECT 'm', 'In May Emil Stark and the risk model were seen. The risk model of last year is gone.', '{{}}'; \
             SELECT * FROM graph_extract('kb'); SELECT * FROM graph_communities('kb')"
        ),
    );
    check_laws(client);
}

fn around(client: &mut Client, name: &str) -> i64 {
    one(client, &format!("SELECT count(*) FROM graph_local('kb', '{name}')"))
}

#[test]
fn edges_that_the_collection_does_not_bear_out_are_left_out() {
    let database = Database::new();
    let mut client = database.client();
    counted(&mut client, r#"{"prune_from": 10}"#);
    assert_eq!(
        around(&mut client, "Harbour Town"),
        0,
        "it stands beside everything that stands there"
    );
    assert_eq!(around(&mut client, "Ada Brandt"), 1);
    assert_eq!(around(&mut client, "risk model"), 0, "a phrase of one document");
    let rows = "SELECT count(*) FROM kb.relation WHERE weight = 1";
    assert_eq!(one::<i64>(&mut client, rows), 31, "nothing is deleted");
    let sizes = "SELECT size FROM kb.community WHERE size > 1";
    assert_eq!(list::<i32>(&mut client, sizes), [2]);
    // What others' documents say decides nothing under a filter.
    let filtered = "SELECT count(*) FROM graph_local('kb', 'Harbour Town', filter => '{\"kind\": \"station\"}')";
    assert_eq!(one::<i64>(&mut client, filtered), 30);

    run(&mut client, r#"SELECT rag_alter('kb', '{"edge_npmi": -1}')"#);
    assert_eq!(around(&mut client, "Harbour Town"), 30);
    assert_eq!(around(&mut client, "risk model"), 0);
    run(&mut client, r#"SELECT rag_alter('kb', '{"phrase_documents": 1}')"#);
    assert_eq!(around(&mut client, "risk model"), 1);
    run(
        &mut client,
        r#"SELECT rag_alter('kb', '{"edge_npmi": 0.1, "phrase_documents": 2}')"#,
    );
    assert_eq!(around(&mut client, "Harbour Town"), 0);

    // Stated by hand it counts.
    run(
        &mut client,
        "SELECT graph_add('kb', 'Harbour Town', 'related to', 'Station 1', document_id => (SELECT id FROM kb.document WHERE source_key = 's1'))",
    );
    assert_eq!(around(&mut client, "Harbour Town"), 1);
    // The second document with the phrase bears it out.
    run(
        &mut client,
        "INSERT INTO kb.document (body) VALUES ('We like the risk model. They like the risk model, too.'); SELECT * FROM graph_extract('kb')",
    );
    assert_eq!(around(&mut client, "risk model"), 1);
}

#[test]
fn a_small_collection_is_not_judged() {
    let database = Database::new();
    let mut client = database.client();
    counted(&mut client, "{}");
    assert_eq!(around(&mut client, "Harbour Town"), 30);
    assert_eq!(around(&mut client, "risk model"), 1);
    for (settings, message) in [
        (
            r#"{"edge_npmi": 2}"#,
            "setting \"edge_npmi\" must be a number between -1 and 1",
        ),
        (
            r#"{"edge_npmi": "much"}"#,
            "setting \"edge_npmi\" must be a number between -1 and 1",
        ),
        (
            r#"{"phrase_documents": 0}"#,
            "setting \"phrase_documents\" must be a whole number between 1 and 1000000",
        ),
        (
            r#"{"prune_from": -1}"#,
            "setting \"prune_from\" must be a whole number between 0 and 1000000000",
        ),
        (r#"{"edge_pmi": 0}"#, "unknown setting \"edge_pmi\""),
    ] {
        let error = failure(&mut client, &format!("SELECT rag_alter('kb', '{settings}')"));
        assert_eq!((error.code().code(), error.message()), ("22023", message));
    }
}

#[test]
fn a_title_of_another_partition_names_nothing() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"SELECT rag_create('kb', partition_by => '{tenant}'); INSERT INTO kb.document (title, body, metadata) VALUES
           ('Fraud model', 'The fraud model scores transactions.', '{"tenant": "a"}'),
           ('Notes', 'Ines Roth saw the fraud model at work.', '{"tenant": "a"}'),
           ('Notes', 'Emil Stark saw the fraud model at rest.', '{"tenant": "b"}');
           SELECT graph_extract('kb')"#,
    );
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT DISTINCT d.metadata ->> 'tenant' FROM kb.mention m JOIN kb.document d ON d.id = m.document_id WHERE m.key = 'fraud model'"
        ),
        ["a"]
    );
}
