//! Documents that wait to be cut: how much is read for them, and what is said meanwhile.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{Heard, Running, until};
use crate::support::{one, run};

/// A collection in which so many documents wait.
fn waiting(client: &mut Client, count: i32) {
    run(
        client,
        &format!(
            "DROP SCHEMA IF EXISTS kb CASCADE; \
             SELECT rag_create('kb', 8, 'builtin:hash', settings => '{{\"inline_rows\": 0}}'); \
             INSERT INTO kb.document (body) SELECT 'Owl ' || i || '.' FROM generate_series(1, {count}) i"
        ),
    );
}

/// Rows that were read of the tables of the collection.
fn read(client: &mut Client) -> i64 {
    run(
        client,
        "SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot()",
    );
    let sql = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables \
               WHERE schemaname = 'kb' AND relname IN ('document', 'node', 'change')";
    one(client, sql)
}

#[test]
fn cutting_reads_as_much_for_each_of_many_documents_as_of_few() {
    let database = Database::new();
    let mut client = database.client();
    for cutting in [
        "CALL rag_refresh('kb', steps => '{embed}')",
        "SELECT graph_communities('kb')",
    ] {
        let mut of_each = Vec::new();
        for count in [2_000, 10_000] {
            waiting(&mut client, count);
            let before = read(&mut client);
            run(&mut client, cutting);
            assert_eq!(
                one::<i64>(&mut client, "SELECT count(*) FROM kb.node"),
                i64::from(count)
            );
            of_each.push((read(&mut client) - before) / i64::from(count));
        }
        assert!(of_each[1] <= of_each[0] + of_each[0] / 2, "{cutting}: {of_each:?}");
    }
}

#[test]
fn progress_is_told_of_all_that_wait() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    // As often as something is said.
    let slow = "CREATE SEQUENCE turn; CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                $$ BEGIN IF nextval('public.turn') = 1 THEN PERFORM pg_catalog.pg_sleep(10.1); END IF; RETURN NULL; END $$; \
                CREATE TRIGGER slow AFTER INSERT ON kb.block EXECUTE FUNCTION slow()";
    waiting(&mut heard.client, 1_100);
    run(&mut heard.client, slow);
    run(&mut heard.client, "CALL rag_refresh('kb', steps => '{embed}')");
    let said = heard.said();
    assert!(said.contains("chunk: 500 of 1100 documents (45 %)"), "{said}");
    assert!(said.contains("chunk: 1100 documents"), "{said}");
}

#[test]
fn documents_that_go_or_come_while_others_are_cut() {
    let database = Database::new();
    let (mut client, mut other) = (database.client(), database.client());
    waiting(&mut client, 1_200);
    run(
        &mut client,
        "CREATE PROCEDURE rounds(count int) LANGUAGE plpgsql AS $$ BEGIN \
           PERFORM _refresh_start('kb', NULL, '{embed}'); \
           FOR i IN 1..count LOOP EXIT WHEN NOT _refresh_round('kb'); COMMIT; \
             IF i = 1 THEN PERFORM pg_sleep(2); END IF; END LOOP; END $$",
    );
    let running = Running::start(client, "CALL rounds(100)");
    until("the first piece is cut", || {
        one::<i64>(&mut other, "SELECT count(*) FROM kb.node") == 500
    });
    run(
        &mut other,
        "DELETE FROM kb.document WHERE id % 3 = 0; UPDATE kb.document SET body = 'An elk ' || id WHERE id % 3 = 1; \
         INSERT INTO kb.document (body) SELECT 'Heron ' || i || '.' FROM generate_series(1, 700) i",
    );
    let (ended, mut client) = running.end();
    ended.expect("all are cut");
    let wrong = "SELECT (SELECT count(*) FROM kb.document d FULL JOIN kb.node n ON n.document_id = d.id \
                           WHERE d.body IS DISTINCT FROM n.text) + (SELECT count(*) FROM kb.change WHERE \"table\" = 'document')";
    assert_eq!(one::<i64>(&mut client, wrong), 0);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.node"), 1_500);
}
