//! CALL rag_refresh: what it asks and how often, what it says, and what it refuses.

use std::time::Duration;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;

use crate::models_support::{
    EXTRACT, Heard, Running, asked_once, collection, documents, ledger_of, mock, status, told, until,
    until_threads_ended,
};
use crate::support::{add, failure, one, refused, run};

/// Kinds of requests that came in, without repetition.
fn kinds(mock: &Mock) -> Vec<&'static str> {
    let mut kinds: Vec<&str> = mock
        .log()
        .iter()
        .map(|seen| {
            let text = seen.body.to_string();
            match (
                seen.path.as_str(),
                text.contains("predicate"),
                text.contains("findings"),
            ) {
                ("/v1/embeddings", ..) => "embed",
                (_, true, _) => "extract",
                (_, _, true) => "report",
                _ => "summary",
            }
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// With --nocapture it says how near to the ideal it comes.
#[test]
fn models_are_asked_as_many_at_once_as_the_server_may_get() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.delay = Duration::from_millis(50));
    collection(&mut client, &mock, ", concurrency '16'", ", extractor => 'server:m'");
    run(&mut client, &documents(2000));
    run(&mut client, EXTRACT);
    assert_eq!(
        (mock.most_at_once(), mock.answered(), mock.distinct()),
        (16, 2000, 2000)
    );
    assert_eq!(ledger_of(&mut client, "kb"), ["extract done 2000"]);
    let log = mock.log();
    let seconds = (log[1999].time - log[0].time).as_secs_f64() + 0.05;
    let ideal = 2000.0 * 0.05 / 16.0;
    println!(
        "2000 calls of 50 ms, 16 at once: {seconds:.2} s, {:.3} of the ideal",
        seconds / ideal
    );
}

#[test]
fn models_are_paid_again_after_a_rollback_but_not_for_what_a_refresh_got() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    collection(&mut client, &mock, "", ", extractor => 'server:m'");
    run(&mut client, &documents(10));
    for asked in [10, 20] {
        run(&mut client, "BEGIN; SELECT graph_extract('kb'); ROLLBACK");
        assert_eq!(mock.answered(), asked);
    }
    assert_eq!(ledger_of(&mut client, "kb"), [""; 0]);
    run(&mut client, "CALL rag_refresh('kb', 4, '{extract}')");
    assert_eq!(mock.answered(), 24);
    assert_eq!(ledger_of(&mut client, "kb"), ["extract done 4", "extract pending 6"]);
    run(&mut client, "BEGIN; SELECT graph_extract('kb'); ROLLBACK");
    assert_eq!(mock.answered(), 30, "the four stand");
    assert_eq!(
        one::<String>(&mut client, "SELECT graph_extract('kb')::text"),
        "(6,12,6,0,6,{})"
    );
    assert_eq!((mock.answered(), mock.distinct()), (36, 10));
}

#[test]
fn models_get_each_call_of_two_sessions_once() {
    let all = "CALL rag_refresh('kb', steps => '{embed,tree,extract,communities,reports}')";
    for (one_session, other) in [
        (all, all),
        (all, "SELECT graph_extract('kb')"),
        (all, "SELECT raptor_build('kb')"),
        ("SELECT raptor_build('kb')", "SELECT raptor_build('kb')"),
        ("SELECT graph_extract('kb')", "SELECT graph_extract('kb')"),
    ] {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|options| options.delay = Duration::from_millis(20));
        let models = ", 'server:m', 'server:m', 'server:m'";
        collection(&mut client, &mock, ", batch_size '7'", models);
        run(&mut client, &documents(40));
        let both = [one_session, other].map(|sql| Running::start(database.client(), sql));
        for running in both {
            running.end().0.unwrap_or_else(|error| panic!("{other}: {error:?}"));
        }
        // The rest, if there is one.
        run(&mut client, all);
        // 40 leaves, the summaries above them with their vectors, 40 blocks, 40 reports with their vectors.
        let summaries: i64 = one(&mut client, "SELECT count(*) FROM kb.node WHERE level > 0");
        let reports: i64 = one(&mut client, "SELECT count(*) FROM kb.community WHERE text IS NOT NULL");
        let texts: i64 = one(&mut client, "SELECT count(DISTINCT text) FROM kb.community");
        assert_eq!((reports, kinds(&mock).len()), (40, 4));
        let requests: i64 = one(&mut client, "SELECT count(*) FROM kb.model_call WHERE step = 'reports'");
        assert_eq!(requests, 40 + texts, "{other}");
        asked_once(&mock, (40 + 2 * summaries + 40 + requests) as usize);
        mock.reset();
        run(&mut client, all);
        assert_eq!(kinds(&mock), [""; 0], "{other}");
    }
}

#[test]
fn models_are_asked_for_no_more_than_max_calls() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let mock = mock(|_| {});
    collection(
        &mut heard.client,
        &mock,
        "",
        ", embedder => 'server:m', extractor => 'server:m'",
    );
    run(&mut heard.client, &documents(10));
    for calls in [3, 6, 9, 12, 15, 18, 20, 20] {
        run(&mut heard.client, "CALL rag_refresh('kb', 3, '{extract,embed}')");
        asked_once(&mock, calls);
        let said = heard.said();
        assert_eq!(said.contains("max_calls is reached"), calls < 20, "{said}");
        let left = match calls {
            3 => "embed: max_calls is reached; CALL rag_refresh again to go on",
            18 => "extract: max_calls is reached; CALL rag_refresh again to go on",
            _ => "",
        };
        assert!(said.contains(left), "{said}");
    }
    assert_eq!(ledger_of(&mut heard.client, "kb"), ["embed done 10", "extract done 10"]);
}

#[test]
fn models_are_not_paid_for_what_nobody_has_ordered() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    collection(&mut client, &mock, "", ", 'server:m', 'server:m', 'server:m'");
    run(&mut client, &documents(12));
    let mut number = 0;
    for (order, ordered) in [
        ("SELECT 1", vec!["embed"]),
        ("SELECT raptor_build('kb')", vec!["embed", "summary"]),
        // What is planned is ordered.
        (
            "CALL rag_refresh('kb', 1, '{extract}')",
            vec!["embed", "extract", "summary"],
        ),
        (
            "CALL rag_refresh('kb', steps => '{reports}')",
            vec!["embed", "extract", "report", "summary"],
        ),
    ] {
        run(&mut client, order);
        // New documents, so that each step has something to do.
        number += 1;
        add(&mut client, "kb", &format!("Carl{number} met Dora{number} in Bonn."));
        mock.reset();
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(kinds(&mock), ordered, "{order}");
        mock.reset();
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(kinds(&mock), [""; 0], "{order}");
    }
}

#[test]
fn models_refresh_refuses_what_it_cannot_do() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    collection(&mut client, &mock, "", ", extractor => 'server:m'");
    run(
        &mut client,
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$BEGIN CALL rag_refresh('kb'); END$$; \
         CREATE PROCEDURE p() LANGUAGE plpgsql AS $$BEGIN CALL rag_refresh('kb', steps => '{extract}'); END$$; \
         CREATE PROCEDURE guarded() LANGUAGE plpgsql SET search_path = public AS $$BEGIN CALL rag_refresh('kb'); END$$",
    );
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    for inside in [
        "BEGIN; CALL rag_refresh('kb')",
        "CALL rag_refresh('kb'); SELECT 1",
        "SELECT f()",
        "CALL guarded()",
        "BEGIN; DO $$BEGIN CALL rag_refresh('kb'); END$$",
    ] {
        let error = failure(&mut client, inside);
        let text = format!("{} {}", error.code().code(), error.message());
        assert_eq!(
            text, "2D000 rag_refresh cannot run inside a transaction block or a function",
            "{inside}"
        );
        assert!(
            error.hint().unwrap_or_default().starts_with("CALL it by itself;"),
            "{error:?}"
        );
        run(&mut client, "ROLLBACK");
    }
    // Where nothing is left to commit for, a block may.
    run(&mut client, &documents(3));
    run(&mut client, "DO $$BEGIN CALL rag_refresh('kb', 1, '{extract}'); END$$");
    run(&mut client, "CALL p()");
    assert_eq!(ledger_of(&mut client, "kb"), ["extract done 3"]);
    // A block that catches errors cannot commit, and keeps no lock.
    let caught = "DO $$BEGIN BEGIN CALL rag_refresh('kb'); EXCEPTION WHEN OTHERS THEN \
                  IF SQLSTATE <> '2D000' THEN RAISE; END IF; END; END$$";
    run(&mut client, caught);
    assert_eq!(one::<i64>(&mut client, locks), 0);

    refused(
        &mut client,
        "CALL rag_refresh(NULL) --> 22004 collection must not be null
         CALL rag_refresh('none') --> 3F000 collection \"none\" does not exist
         CALL rag_refresh('kb', 0) --> 22023 max_calls must be at least 1
         CALL rag_refresh('kb', -1) --> 22023 max_calls must be at least 1
         CALL rag_refresh('kb', steps => '{embed,chunk}') --> 22023 unknown step \"chunk\"
         CALL rag_refresh('kb', steps => '{NULL}') --> 22004 a step must not be null
         SELECT _refresh_round('kb') --> 55000 no refresh of this collection is running in this session
         SELECT _refresh_start('kb', NULL, NULL) --> 2D000 rag_refresh cannot run inside a transaction block or a function",
    );
    let reader = database.role("reader");
    run(
        &mut client,
        &format!("GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}"),
    );
    let error = failure(&mut database.client_as(&reader), "CALL rag_refresh('kb')");
    assert_eq!(error.code().code(), "42501");
    run(&mut client, "SET default_transaction_isolation = serializable");
    let error = failure(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(error.code().code(), "55000");
    run(&mut client, "RESET default_transaction_isolation");
    let error = failure(&mut client, "CALL rag_refresh('kb', steps => '{Embed}')");
    assert_eq!(
        error.hint(),
        Some("Steps are 'embed', 'tree', 'extract', 'describe', 'communities', 'reports'.")
    );
    assert_eq!(one::<i64>(&mut client, locks), 0);
    run(&mut client, "CALL rag_refresh('kb', steps => '{}')");
}

#[test]
fn models_progress_is_seen_by_other_sessions() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.delay = Duration::from_millis(50));
    collection(&mut client, &mock, ", concurrency '2'", ", extractor => 'server:m'");
    run(&mut client, &documents(80));
    let running = Running::start(database.client(), EXTRACT);
    let mut seen = Vec::new();
    until("the end", || {
        let [_, _, failed, calls, waiting] = status(&mut client, "extract");
        assert_eq!(failed, 0);
        if calls > 0 && waiting > 0 {
            assert_eq!(calls + waiting, 80);
            seen.push(calls);
        }
        running.is_finished()
    });
    running.end().0.unwrap();
    seen.dedup();
    assert!(seen.len() > 1 && seen.is_sorted(), "{seen:?}");
    assert_eq!(status(&mut client, "extract"), [80, 0, 0, 80, 0]);
}

#[test]
fn models_refresh_ends_with_its_collection_or_its_server() {
    for (change, code) in [
        ("SELECT rag_drop('kb')", "3F000"),
        ("ALTER SCHEMA kb RENAME TO other", "3F000"),
        ("DROP SERVER m CASCADE", "42704"),
        ("ALTER SERVER m OPTIONS (SET base_url 'http://127.0.0.1:9/v1')", ""),
        (
            "SELECT rag_alter('kb', '{\"extractor\": \"builtin:cooccurrence\"}')",
            "",
        ),
    ] {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|options| options.delay = Duration::from_millis(40));
        collection(&mut client, &mock, ", concurrency '2'", ", extractor => 'server:m'");
        run(&mut client, &documents(40));
        let running = Running::start(database.client(), EXTRACT);
        let pid = running.pid;
        until("something is committed", || status(&mut client, "extract")[3] > 0);
        run(&mut client, change);
        let (result, mut session) = running.end();
        let ended = result.err().map_or(String::new(), |error| told(&error));
        // It may be gone between two looks at the catalogue.
        let expected = if code.is_empty() {
            ended.is_empty()
        } else {
            [code, "42P01", "55000"].contains(&&ended[..5])
        };
        assert!(expected, "{change}: {ended}");
        run(&mut session, "SELECT 1");
        until_threads_ended(pid, change);
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_eq!(one::<i64>(&mut client, locks), 0, "{change}");
        if code == "42704" {
            let done: i64 = one(&mut client, "SELECT count(*) FROM kb.model_call WHERE status = 'done'");
            assert_eq!(done as usize, mock.answered(), "what was in the air is kept");
        }
        if code.is_empty() {
            // What was in use when it began was used to the end, or the built-in model did the rest.
            assert_eq!(status(&mut client, "extract")[0], 40, "{change}");
        }
    }
}
