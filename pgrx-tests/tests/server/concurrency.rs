//! Several sessions on one collection: nothing is lost, nothing of a deleted document comes back.

use std::thread::{self, JoinHandle};

use pg_graphrag_tests::Database;
use postgres::error::SqlState;
use postgres::{Client, Error};

use crate::support::{failure, list, one, refused, rows, run};

/// Another session, whose statements are ended if they wait for ever.
fn session(database: &Database) -> Client {
    let mut client = database.client();
    run(&mut client, "SET statement_timeout = '60s'");
    client
}

/// A statement that runs in a session of its own.
struct Background {
    pid: i32,
    thread: JoinHandle<Result<(), Error>>,
}

impl Background {
    fn start(mut client: Client, sql: &'static str) -> Background {
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        Background {
            pid,
            thread: thread::spawn(move || client.batch_execute(sql)),
        }
    }

    /// Waits until the statement waits for a lock.
    fn until_it_waits(&self, watcher: &mut Client) {
        let waits = format!("SELECT cardinality(pg_blocking_pids({})) > 0", self.pid);
        while !one::<bool>(watcher, &waits) {
            assert!(!self.thread.is_finished(), "it did not wait");
            run(watcher, "SELECT pg_sleep(0.005)");
        }
    }

    fn result(self) -> Result<(), Error> {
        self.thread.join().expect("the session does not panic")
    }
}

const BUILD: &str = "SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
                     SELECT graph_summarize('kb')";

const REPORTS: &str = "SELECT graph_communities('kb'); SELECT graph_summarize('kb')";

/// Ten documents, of which number 1 alone holds the word zyxwvut.
fn collection(database: &Database) -> Client {
    let mut client = session(database);
    run(
        &mut client,
        "SELECT rag_create('kb', 32); \
         INSERT INTO kb.document (body) SELECT 'Anna Ahl met Bert Beck in Ulm, note ' || i || \
           CASE i WHEN 1 THEN '. Then Bert Beck thanked Anna Ahl at the zyxwvut.' ELSE '.' END \
         FROM generate_series(1, 10) i",
    );
    client
}

fn traces(client: &mut Client) -> Vec<String> {
    rows(client, "kb")
        .into_iter()
        .filter(|row| row.to_lowercase().contains("zyxwvut"))
        .collect()
}

fn roots(client: &mut Client) -> i64 {
    one(
        client,
        "SELECT count(*) FROM kb.node n WHERE NOT EXISTS (SELECT FROM kb.node_child c WHERE c.child_id = n.id)",
    )
}

#[test]
fn writers_wait_for_a_build_and_then_leave_no_trace() {
    for build in ["SELECT raptor_build('kb')", BUILD] {
        for change in [
            "DELETE FROM kb.document WHERE id = 1",
            "UPDATE kb.document SET body = 'Nothing.' WHERE id = 1",
            "UPDATE kb.document SET id = 99, body = 'Nothing.' WHERE id = 1",
            "TRUNCATE kb.document",
        ] {
            let database = Database::new();
            let mut builder = collection(&database);
            let mut watcher = session(&database);
            run(&mut builder, &format!("BEGIN; {build}"));
            let writer = Background::start(session(&database), change);
            writer.until_it_waits(&mut watcher);
            run(&mut builder, "COMMIT");
            writer.result().unwrap_or_else(|error| panic!("{change}: {error:?}"));
            assert_eq!(traces(&mut watcher), Vec::<String>::new(), "{build}; {change}");
            let dangling: i64 = one(
                &mut watcher,
                "SELECT count(*) FROM kb.node_source s WHERE NOT EXISTS (SELECT FROM kb.document d \
                 WHERE d.id = s.document_id)",
            );
            assert_eq!(dangling, 0);
            run(&mut watcher, BUILD);
            assert_eq!(traces(&mut watcher), Vec::<String>::new(), "{build}; {change}");
        }
    }
}

#[test]
fn a_build_waits_for_writers_and_then_leaves_them_out() {
    let database = Database::new();
    let mut writer = collection(&database);
    let mut watcher = session(&database);
    run(&mut watcher, BUILD);
    run(&mut writer, "BEGIN; DELETE FROM kb.document WHERE id = 1");
    let builder = Background::start(session(&database), BUILD);
    builder.until_it_waits(&mut watcher);
    run(&mut writer, "COMMIT");
    builder.result().unwrap();
    assert_eq!(traces(&mut watcher), Vec::<String>::new());
    assert_eq!(roots(&mut watcher), 1);
}

/// With a snapshot from before a build its rows cannot be seen: the change fails, or leaves nothing behind all the
/// same.
#[test]
fn an_old_snapshot_fails_or_leaves_no_trace() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for before in ["SELECT 1", "SELECT graph_extract('kb')", BUILD] {
            for (build, change) in [
                (BUILD, "DELETE FROM kb.document WHERE id = 1"),
                (BUILD, "UPDATE kb.document SET body = 'Nothing.' WHERE id = 1"),
                (REPORTS, "DELETE FROM kb.document WHERE id = 1"),
                (REPORTS, "UPDATE kb.document SET body = 'Nothing.' WHERE id = 1"),
                (
                    REPORTS,
                    "UPDATE kb.document SET metadata = '{\"a\": 1}' WHERE id = 1; DELETE FROM kb.document WHERE id = 1",
                ),
                ("SELECT raptor_build('kb')", "DELETE FROM kb.document WHERE id = 1"),
                ("SELECT graph_extract('kb')", "DELETE FROM kb.document WHERE id = 1"),
                (
                    "SELECT graph_add('kb', 'Anna Ahl', 'saw', 'Bert Beck', 'zyxwvut', 1)",
                    "DELETE FROM kb.document WHERE id = 1",
                ),
                (
                    "SELECT rag_alter('kb', '{\"leaf_tokens\": 30, \"leaf_overlap\": 0}'); \
                     SELECT graph_communities('kb')",
                    "DELETE FROM kb.document WHERE id = 1",
                ),
            ] {
                let database = Database::new();
                let mut client = collection(&database);
                run(&mut client, before);
                let mut old = session(&database);
                run(&mut old, &format!("BEGIN ISOLATION LEVEL {level}"));
                assert_eq!(one::<i64>(&mut old, "SELECT count(*) FROM kb.document"), 10);
                run(&mut client, build);
                match old.batch_execute(&format!("{change}; COMMIT")) {
                    Err(error) => assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error:?}"),
                    Ok(()) => assert_eq!(
                        traces(&mut client),
                        Vec::<String>::new(),
                        "{level}, {before}, {build}, {change}"
                    ),
                }
            }
        }
    }
}

/// The other way round: a build with a snapshot from before a deletion would write down what it still sees.
#[test]
fn a_build_with_an_old_snapshot_is_refused() {
    let database = Database::new();
    let mut client = collection(&database);
    run(&mut client, "SELECT graph_extract('kb')");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut old = session(&database);
        run(&mut old, &format!("BEGIN ISOLATION LEVEL {level}"));
        let before: i64 = one(&mut old, "SELECT count(*) FROM kb.document");
        run(
            &mut client,
            "DELETE FROM kb.document WHERE id = (SELECT min(id) FROM kb.document)",
        );
        assert_eq!(before, one::<i64>(&mut old, "SELECT count(*) FROM kb.document"));
        for build in [
            "SELECT raptor_build('kb')",
            "SELECT graph_extract('kb')",
            "SELECT graph_communities('kb')",
            "SELECT graph_summarize('kb')",
            "SELECT graph_add('kb', 'Anna Ahl', 'saw', 'Bert Beck', 'zyxwvut', 1)",
        ] {
            run(&mut old, "SAVEPOINT s");
            let message = "functions that derive rows from documents need the isolation level read committed";
            refused(&mut old, &format!("{build} --> 55000 {message}"));
            run(&mut old, "ROLLBACK TO s");
            let error = failure(&mut old, build);
            assert_eq!(
                error.hint(),
                Some("BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = 'read committed'.")
            );
            run(&mut old, "ROLLBACK TO s");
        }
        // Searching and writing documents go on in every level.
        assert!(one::<i64>(&mut old, "SELECT count(*) FROM raptor_search('kb', 'Anna Ahl')") > 0);
        run(
            &mut old,
            "INSERT INTO kb.document (body) VALUES ('Written in another level.'); COMMIT",
        );
    }
    let cut: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.node WHERE text = 'Written in another level.'",
    );
    assert_eq!(cut, 2);
    assert_eq!(traces(&mut client), Vec::<String>::new());
}

#[test]
fn inserts_do_not_wait_for_each_other() {
    let database = Database::new();
    let mut first = collection(&database);
    run(&mut first, BUILD);
    let mut second = session(&database);
    for client in [&mut first, &mut second] {
        run(client, "BEGIN; SET LOCAL lock_timeout = '5s'");
    }
    for round in 0..5 {
        for (number, client) in [&mut first, &mut second].into_iter().enumerate() {
            run(
                client,
                &format!(
                    "INSERT INTO kb.document (source_key, body) \
                     VALUES ('{number} {round}', 'The same words.'), ('x {number} {round}', \
                     'Anna Ahl met Bert Beck.'); \
                     SELECT rag_add('kb', 'The same words.', source_key => 'y {number} {round}'); \
                     INSERT INTO kb.document (source_key, body) VALUES ('{number} {round}', 'Other words.') \
                       ON CONFLICT (source_key) DO UPDATE SET body = excluded.body"
                ),
            );
        }
    }
    run(&mut first, "COMMIT");
    run(&mut second, "COMMIT");
    assert_eq!(one::<i64>(&mut first, "SELECT count(*) FROM kb.document"), 40);
    let cut: i64 = one(
        &mut first,
        "SELECT count(*) FROM kb.document d JOIN kb.node n ON n.document_id = d.id AND n.text = d.body",
    );
    assert_eq!(cut, 40);
}

#[test]
fn two_builds_serialize() {
    let database = Database::new();
    let mut first = collection(&database);
    let mut watcher = session(&database);
    run(&mut first, &format!("BEGIN; {BUILD}"));
    let second = Background::start(session(&database), BUILD);
    second.until_it_waits(&mut watcher);
    run(&mut first, "COMMIT");
    second.result().unwrap();
    assert_eq!(roots(&mut watcher), 1);
    let reports: Vec<i64> = list(
        &mut watcher,
        "SELECT count(*) FROM kb.community GROUP BY level, partition",
    );
    assert_eq!(reports, [1]);
    assert_eq!(
        one::<f64>(
            &mut watcher,
            "SELECT weight FROM kb.relation WHERE predicate_key = 'met'"
        ),
        10.0
    );
}

#[test]
fn readers_and_inserts_go_on_during_a_build() {
    let database = Database::new();
    let mut builder = collection(&database);
    run(&mut builder, BUILD);
    let tree = "SELECT node_id FROM raptor_search('kb', 'Anna Ahl met Bert Beck', k => 100)";
    let mut reader = session(&database);
    let before: Vec<i64> = list(&mut reader, tree);
    run(
        &mut builder,
        &format!("BEGIN; SELECT raptor_build('kb', cluster_size => 2); {BUILD}"),
    );
    run(&mut reader, "SET lock_timeout = '5s'");
    assert_eq!(
        before,
        list::<i64>(&mut reader, tree),
        "the old tree until the builder commits"
    );
    run(
        &mut reader,
        "INSERT INTO kb.document (body) VALUES ('Written meanwhile.')",
    );
    run(&mut reader, "UPDATE kb.document SET title = 'T' WHERE id = 11");
    run(&mut builder, "COMMIT");
    let after: Vec<i64> = list(&mut reader, tree);
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(
        one::<i64>(
            &mut reader,
            "SELECT count(*) FROM kb.node_child c JOIN kb.node n ON n.id = c.child_id WHERE n.document_id = 11"
        ),
        0
    );
    run(&mut builder, BUILD);
    assert_eq!(roots(&mut reader), 1);
}

/// A writer that waits for a build must hold no rows that the build may come to want.
#[test]
fn a_waiting_writer_does_not_stop_the_build() {
    let database = Database::new();
    let mut builder = collection(&database);
    let mut watcher = session(&database);
    run(&mut builder, "BEGIN; SELECT raptor_build('kb')");
    let writer = Background::start(session(&database), "DELETE FROM kb.document WHERE id = 1");
    writer.until_it_waits(&mut watcher);
    run(
        &mut builder,
        "SELECT rag_alter('kb', '{\"leaf_tokens\": 30, \"leaf_overlap\": 0}'); SELECT raptor_build('kb'); COMMIT",
    );
    writer.result().unwrap();
    assert_eq!(traces(&mut watcher), Vec::<String>::new());
}

#[test]
fn cancelling_a_build_leaves_the_old_one() {
    let database = Database::new();
    let mut client = collection(&database);
    run(&mut client, BUILD);
    let before = rows(&mut client, "kb");
    let mut holder = session(&database);
    run(
        &mut holder,
        "BEGIN; UPDATE kb.document SET metadata = '{\"a\": 1}' WHERE id = 1",
    );
    run(&mut client, "SET statement_timeout = '100ms'");
    let error = failure(&mut client, "SELECT raptor_build('kb', cluster_size => 2)");
    assert_eq!(error.code(), &SqlState::QUERY_CANCELED);
    run(&mut client, "RESET statement_timeout");
    run(&mut holder, "ROLLBACK");
    assert_eq!(before, rows(&mut client, "kb"));
    run(&mut client, "SELECT raptor_build('kb', cluster_size => 2)");
    assert_eq!(roots(&mut client), 1);
}

#[test]
fn a_first_build_waits_for_open_inserts_and_not_for_what_they_do_next() {
    let database = Database::new();
    let (mut client, mut watcher) = (session(&database), session(&database));
    run(&mut client, "SELECT rag_create('kb', 32)");
    run(
        &mut client,
        "INSERT INTO kb.document (body) VALUES ('Anna Ahl met Bert Beck.'), ('Ulm has a minster.')",
    );
    run(&mut client, "BEGIN; INSERT INTO kb.document (body) VALUES ('Open.')");
    // It makes the index of node, for which it needs the table without open writers.
    let build = Background::start(session(&database), "SELECT raptor_build('kb')");
    build.until_it_waits(&mut watcher);
    run(&mut client, "DELETE FROM kb.document WHERE id = 1; COMMIT");
    build.result().unwrap();
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.node WHERE level = 0"),
        2
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.node_source WHERE document_id = 1"),
        0
    );
}

#[test]
fn builders_take_their_locks_in_one_order() {
    let database = Database::new();
    let (mut first, second, mut watcher) = (session(&database), session(&database), session(&database));
    run(
        &mut first,
        "SELECT rag_create('kb'); INSERT INTO kb.document (body) SELECT 'Owl ' || i || ' hunts.' FROM generate_series(1, 12) i",
    );
    run(&mut first, "BEGIN; SELECT rag_alter('kb', '{\"max_attempts\": 4}')");
    // Without an index yet, this one needs more of the table node than the other has.
    let builder = Background::start(second, "SELECT raptor_build('kb')");
    builder.until_it_waits(&mut watcher);
    run(
        &mut first,
        "SELECT graph_extract('kb'); SELECT raptor_build('kb'); COMMIT",
    );
    builder.thread.join().unwrap().unwrap();
}

/// Two transactions that delete under one root wait at the root, where they hold nothing else of the tree.
#[test]
fn two_that_delete_do_not_lock_each_other_out() {
    let database = Database::new();
    let mut one_client = database.client();
    one_client
        .batch_execute(
            r#"SELECT rag_create('kb', 64, 'builtin:hash', settings => '{"cluster_tokens": 100}');
               INSERT INTO kb.document (source_key, body)
               SELECT 'd' || i, 'Word' || i % 7 || ' stands beside word' || i || ' in line ' || i * i || '.' FROM generate_series(1, 60) i;
               SELECT * FROM raptor_build('kb')"#,
        )
        .unwrap();
    let mut watcher = session(&database);
    one_client
        .batch_execute("BEGIN; DELETE FROM kb.document WHERE source_key = 'd1'")
        .unwrap();
    let other = Background::start(
        session(&database),
        "DELETE FROM kb.document WHERE source_key LIKE 'd2%'",
    );
    other.until_it_waits(&mut watcher);
    one_client
        .batch_execute("DELETE FROM kb.document WHERE source_key LIKE 'd3%'; COMMIT")
        .unwrap();
    other.result().unwrap();
    one_client.batch_execute("CALL rag_refresh('kb')").unwrap();
    let wrong: i64 = one(
        &mut one_client,
        "SELECT count(*) FROM kb.node n WHERE level > 0 AND (text = '' OR source_count <> \
           (SELECT count(*) FROM kb.node_source s WHERE s.node_id = n.id))",
    );
    assert_eq!(wrong, 0);
}

#[test]
fn communities_wait_for_who_deletes_entities_or_communities_by_hand() {
    for deletes in [
        "DELETE FROM kb.entity WHERE key = 'ann'",
        "DELETE FROM kb.community WHERE size = 3",
    ] {
        let database = Database::new();
        let mut client = session(&database);
        run(
            &mut client,
            "SELECT rag_create('kb'); SELECT graph_add('kb', x, 'p', y) FROM (VALUES ('ann', 'bob'), ('bob', 'cy'), ('cy', 'ann'), ('dee', 'eli')) v (x, y); \
             SELECT graph_communities('kb')",
        );
        let mut other = session(&database);
        run(&mut other, &format!("BEGIN; {deletes}"));
        let builder = Background::start(session(&database), REPORTS);
        builder.until_it_waits(&mut client);
        run(&mut other, "COMMIT");
        builder.result().unwrap();
        let lost = "SELECT (SELECT count(*) FROM kb.community_entity m WHERE NOT EXISTS (SELECT FROM kb.entity e WHERE e.id = m.entity_id)) \
                    + (SELECT count(*) FROM kb.entity e WHERE NOT EXISTS (SELECT FROM kb.community_entity m WHERE m.entity_id = e.id))";
        assert_eq!(one::<i64>(&mut client, lost), 0, "{deletes}");
        let named = "SELECT count(*) FROM kb.community WHERE text ~ 'ann'";
        let expected = i64::from(!deletes.contains("ann"));
        assert_eq!(one::<i64>(&mut client, named), expected, "{deletes}");
    }
}
