//! Words of a document stand nowhere that the document does not account for, whatever comes in between.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

fn texts(client: &mut Client, sql: &str) -> Vec<String> {
    list(client, sql)
}

/// Until another session waits for a lock, or is done without having waited.
fn until_somebody_waits<T>(database: &Database, other: &std::thread::JoinHandle<T>) {
    let mut watcher = database.client();
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while one::<i64>(&mut watcher, waiting) == 0 && !other.is_finished() {}
}

const OWNS: &str = "INSERT INTO kb.document (source_key, body, metadata) VALUES \
    ('d1', 'Risk Team owns Fraud Model. Fraud Model replaced Rule Book.', '{\"tenant\": \"acme\"}')";

#[test]
fn a_report_knows_every_document_that_it_draws_on() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, &format!("SELECT rag_create('kb', 64); {OWNS}"));
    run(
        &mut client,
        "SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
    );
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body, metadata) VALUES \
           ('d2', 'In spring Rule Book blames Risk Team for the secretmark bribery.', '{\"tenant\": \"bolt\"}'); \
         SELECT graph_extract('kb'); SELECT graph_summarize('kb')",
    );
    let reports = "SELECT summary FROM graph_global('kb', 'fraud model'";
    assert!(texts(&mut client, &format!("{reports})"))[0].contains("secretmark"));
    assert_eq!(
        texts(
            &mut client,
            &format!("{reports}, filter => '{{\"tenant\": \"acme\"}}')")
        ),
        [""; 0]
    );
    assert_eq!(
        texts(&mut client, &format!("{reports}, documents => '{{1}}')")),
        [""; 0]
    );
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'd2'");
    assert!(
        texts(&mut client, &format!("{reports})"))
            .iter()
            .all(|text| !text.contains("secretmark"))
    );
}

#[test]
fn two_deletions_at_once_leave_nothing_of_either() {
    let database = Database::new();
    let (mut first, mut second) = (database.client(), database.client());
    run(
        &mut first,
        "SELECT rag_create('kb', 64); INSERT INTO kb.document (body) VALUES ('Risk Team owns Fraud Model.'), \
           ('Last year Risk Team owns Fraud Model.'); SELECT graph_extract('kb')",
    );
    run(&mut first, "BEGIN; DELETE FROM kb.document WHERE id = 1");
    let other = std::thread::spawn(move || second.batch_execute("DELETE FROM kb.document WHERE id = 2"));
    until_somebody_waits(&database, &other);
    run(&mut first, "COMMIT");
    other.join().unwrap().unwrap();
    assert_eq!(one::<i64>(&mut first, "SELECT count(*) FROM kb.relation"), 0);
    assert_eq!(one::<i64>(&mut first, "SELECT count(*) FROM kb.entity"), 0);
}

#[test]
fn what_was_stated_by_hand_survives_a_deletion_at_the_same_time() {
    let database = Database::new();
    let (mut first, mut second) = (database.client(), database.client());
    run(
        &mut first,
        "SELECT rag_create('kb', 64); INSERT INTO kb.document (body) VALUES ('On Monday the Blue Whale sleeps.'); \
         SELECT graph_extract('kb')",
    );
    assert_eq!(texts(&mut first, "SELECT key FROM kb.entity"), ["blue whale"]);
    run(
        &mut first,
        "BEGIN; SELECT graph_add('kb', 'Blue Whale', 'likes', 'Krill')",
    );
    let other = std::thread::spawn(move || second.batch_execute("DELETE FROM kb.document"));
    until_somebody_waits(&database, &other);
    run(&mut first, "COMMIT");
    other.join().unwrap().unwrap();
    assert_eq!(
        texts(
            &mut first,
            "SELECT source || ' ' || predicate || ' ' || target FROM graph_local('kb', 'krill')"
        ),
        ["Blue Whale likes Krill"]
    );
}

#[test]
fn two_changes_of_labels_at_once_give_a_summary_no_label_that_one_document_lacks() {
    let database = Database::new();
    let (mut first, mut second) = (database.client(), database.client());
    run(
        &mut first,
        "SELECT rag_create('kb', 64); INSERT INTO kb.document (body, metadata) VALUES \
           ('Risk is high.', '{\"tenant\": \"acme\"}'), ('Risk is low.', '{\"tenant\": \"bolt\"}'); SELECT raptor_build('kb')",
    );
    run(
        &mut first,
        "BEGIN; UPDATE kb.document SET metadata = '{\"tenant\": \"bolt\"}' WHERE id = 1",
    );
    let other = std::thread::spawn(move || {
        second.batch_execute("UPDATE kb.document SET metadata = '{\"tenant\": \"acme\"}' WHERE id = 2")
    });
    until_somebody_waits(&database, &other);
    run(&mut first, "COMMIT");
    other.join().unwrap().unwrap();
    assert_eq!(
        texts(&mut first, "SELECT metadata::text FROM kb.node WHERE level = 1"),
        ["{}"]
    );
}

#[test]
fn old_text_is_not_found_under_new_labels() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64, settings => '{\"inline_rows\": 2}', partition_by => '{tenant}'); \
         INSERT INTO kb.document (body, metadata) SELECT 'acme secret ' || i, '{\"tenant\": \"acme\"}' FROM generate_series(1, 2) i; \
         INSERT INTO kb.document (body, metadata) VALUES ('acme secret 3', '{\"tenant\": \"acme\"}'); \
         UPDATE kb.document SET body = 'bolt text ' || id, metadata = '{\"tenant\": \"bolt\"}'",
    );
    let found = "SELECT text FROM raptor_search('kb', 'secret text', filter => '{\"tenant\": \"bolt\"}') ORDER BY 1";
    assert_eq!(texts(&mut client, found), [""; 0]);
    run(&mut client, "SELECT raptor_build('kb', max_levels => 1)");
    assert_eq!(texts(&mut client, found)[..1], ["bolt text 1"]);
}

#[test]
fn statistics_hold_no_words() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 64)");
    run(
        &mut client,
        "INSERT INTO kb.document (body, title) SELECT 'Marker Zebra' || i || ' leads Xylo House.', 'Zebra' FROM generate_series(1, 50) i; \
         SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb'); ANALYZE",
    );
    let kept = "SELECT tablename || '.' || attname FROM pg_stats WHERE schemaname = 'kb' \
                AND (most_common_vals::text ~* 'zebra|xylo' OR histogram_bounds::text ~* 'zebra|xylo')";
    assert_eq!(texts(&mut client, kept), [""; 0]);
}

#[test]
fn a_renamed_entity_keeps_its_mentions_and_lets_documents_go() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64); INSERT INTO kb.document (source_key, body) VALUES \
           ('1', 'Risk Team owns Fraud Model.'), ('2', 'Ada Brandt tests Fraud Model.'); SELECT graph_extract('kb'); \
         UPDATE kb.entity SET name = 'FM' WHERE key = 'fraud model'; \
         INSERT INTO kb.document (source_key, body) VALUES ('3', 'Risk Team tests Fraud Model.'); SELECT graph_extract('kb'); \
         DELETE FROM kb.document WHERE source_key = '1'",
    );
    assert_eq!(
        texts(&mut client, "SELECT name FROM kb.entity ORDER BY 1"),
        ["Ada Brandt", "FM", "Risk Team"]
    );
    let around = "SELECT source || ' ' || predicate FROM graph_local('kb', 'Fraud Model') ORDER BY 1";
    assert_eq!(texts(&mut client, around), ["Ada Brandt tests", "Risk Team tests"]);
}

#[test]
fn a_document_that_is_suppressed_is_an_error_and_no_endless_loop() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64); SET statement_timeout = '30s'; \
         CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER skip BEFORE INSERT ON kb.document FOR EACH ROW EXECUTE FUNCTION skip()",
    );
    for call in ["rag_add('kb', 'text')", "rag_add('kb', 'text', source_key => 'k')"] {
        assert_eq!(
            failure(&mut client, &format!("SELECT {call}")).code().code(),
            "09000",
            "{call}"
        );
    }
}

#[test]
fn documents_that_came_without_triggers_are_cut_by_the_next_build() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64, partition_by => '{t}'); SET session_replication_role = replica; \
         INSERT INTO kb.document (body, metadata) VALUES ('Text one.', '{\"t\": 1}'); RESET session_replication_role",
    );
    let pending = "SELECT pending FROM rag_status('kb') WHERE step = 'chunk'";
    assert_eq!(one::<i64>(&mut client, pending), 1);
    run(&mut client, "SELECT raptor_build('kb')");
    assert_eq!(one::<i64>(&mut client, pending), 0);
    assert_eq!(
        texts(&mut client, "SELECT text || partition FROM kb.node"),
        ["Text one.1"]
    );
}

#[test]
fn a_partition_is_too_long_before_it_stops_a_build() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 64, partition_by => '{t}')");
    let long = "INSERT INTO kb.document (body, metadata) VALUES ('x', jsonb_build_object('t', repeat('ab', 1000)))";
    assert_eq!(failure(&mut client, long).code().code(), "23514");
}
