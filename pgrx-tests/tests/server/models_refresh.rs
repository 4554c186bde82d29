//! CALL rag_refresh: what it asks and how often, what it says, and what it refuses.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{
    Heard, Running, answer, chat_reply, collection, create_server, documents, items, mock, passage, serve, threads,
    told, until, vectors_reply,
};
use crate::support::{add, failure, list, one, refused, run};

const EXTRACT: &str = "CALL rag_refresh('kb', steps => '{extract}')";

/// `step status count` of the ledger.
fn ledger(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT step || ' ' || status || ' ' || count(*) FROM kb.model_call GROUP BY step, status ORDER BY 1",
    )
}

/// What a step's line of rag_status says: done, pending, failed, calls, waiting.
fn status(client: &mut Client, step: &str) -> [i64; 5] {
    let sql = "SELECT done, pending, failed, calls, waiting FROM rag_status('kb') WHERE step = $1";
    let row = client.query_one(sql, &[&step]).expect("a line");
    [0, 1, 2, 3, 4].map(|column| row.get(column))
}

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

#[track_caller]
fn asked_once(mock: &Mock, count: usize) {
    let all = items(mock);
    let mut distinct = all.clone();
    distinct.dedup();
    assert_eq!((all.len(), distinct.len()), (count, count));
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
    assert_eq!(ledger(&mut client), ["extract done 2000"]);
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
    assert_eq!(ledger(&mut client), [""; 0]);
    run(&mut client, "CALL rag_refresh('kb', 4, '{extract}')");
    assert_eq!(mock.answered(), 24);
    assert_eq!(ledger(&mut client), ["extract done 4", "extract pending 6"]);
    run(&mut client, "BEGIN; SELECT graph_extract('kb'); ROLLBACK");
    assert_eq!(mock.answered(), 30, "the four stand");
    assert_eq!(
        one::<String>(&mut client, "SELECT graph_extract('kb')::text"),
        "(6,12,6,0,6)"
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
    assert_eq!(ledger(&mut heard.client), ["embed done 10", "extract done 10"]);
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
    assert_eq!(ledger(&mut client), ["extract done 3"]);
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
        Some("Steps are 'embed', 'tree', 'extract', 'communities', 'reports'.")
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
        assert_eq!(threads(pid), 1, "{change}");
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

#[test]
fn models_that_are_down_or_refuse_lose_nothing() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.key = Some("good-key".to_owned()));
    collection(
        &mut client,
        &mock,
        ", retries '0', concurrency '1'",
        ", embedder => 'server:m', extractor => 'server:m'",
    );
    run(&mut client, &documents(30));
    let pending = ["embed pending 30"];
    let base = |url: &str| format!("ALTER SERVER m OPTIONS (SET base_url '{url}')");
    let all = "CALL rag_refresh('kb', steps => '{embed,extract}')";

    let error = failure(&mut client, all);
    assert_eq!(
        format!("{} {}", error.code().code(), error.message()),
        "HV000 server \"m\": the provider refused the request: status 401 (invalid_api_key)"
    );
    assert!(error.hint().unwrap_or_default().contains("api_key_file"), "{error:?}");
    assert_eq!(ledger(&mut client), pending);

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run(&mut client, &base(&format!("http://{closed}/v1")));
    let error = failure(&mut client, all);
    assert_eq!(
        format!("{} {}", error.code().code(), error.message()),
        "HV00N server \"m\": the provider is down: the connection was refused"
    );
    assert_eq!(ledger(&mut client), pending);
    assert_eq!(status(&mut client, "embed"), [0, 30, 0, 0, 30]);

    // Down from some call on: what was answered is kept, and nothing has failed, however few are left.
    run(&mut client, "ALTER SERVER m OPTIONS (ADD batch_size '1')");
    for (concurrency, until_now) in [(1, 0), (16, 10)] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let url = serve(move |_, _| match counted.fetch_add(1, Ordering::Relaxed) {
            0..10 => (200, vectors_reply(&[vec![1.0; 8]])),
            _ => {
                // So that all good answers have come before.
                std::thread::sleep(Duration::from_millis(200));
                (503, "{}".to_owned())
            }
        });
        run(&mut client, &base(&url));
        run(
            &mut client,
            &format!("ALTER SERVER m OPTIONS (SET concurrency '{concurrency}')"),
        );
        let error = failure(&mut client, all);
        assert_eq!(
            format!("{} {}", error.code().code(), error.message()),
            "HV00N server \"m\": the provider is down: status 503"
        );
        let done = until_now + 10;
        let expected = [format!("embed done {done}"), format!("embed pending {}", 30 - done)];
        assert_eq!(ledger(&mut client), expected, "{concurrency} at once");
    }

    run(
        &mut client,
        &(base(&mock.base_url()) + "; CREATE USER MAPPING FOR PUBLIC SERVER m OPTIONS (api_key 'good-key')"),
    );
    mock.reset();
    run(&mut client, all);
    asked_once(&mock, 10 + 30);
    assert_eq!(ledger(&mut client), ["embed done 30", "extract done 30"]);
}

#[test]
fn models_fail_one_block_and_read_the_others() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| {
        options.chat = Arc::new(|system, user| match passage(user).contains("Anna13 ") {
            true => "I would rather not.".to_owned(),
            false => answer(system, user),
        });
    });
    collection(&mut client, &mock, "", ", extractor => 'server:m'");
    run(&mut client, &documents(50));
    for asked in [50, 51, 52, 52, 52] {
        run(&mut client, EXTRACT);
        assert_eq!((mock.answered(), mock.distinct()), (asked, 50));
        assert_eq!(ledger(&mut client), ["extract done 49", "extract failed 1"]);
        assert_eq!(status(&mut client, "extract"), [49, 0, 1, asked as i64, 0]);
        let failed = "SELECT attempts || ' ' || error FROM kb.model_call WHERE status = 'failed'";
        let reason: String = one(&mut client, failed);
        assert_eq!(
            reason,
            format!("{} the reply holds no entities and no relations", asked - 49)
        );
        assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.relation"), 49);
    }
    assert_eq!(
        one::<String>(&mut client, "SELECT graph_extract('kb')::text"),
        "(0,0,0,1,0)"
    );
    assert_eq!(mock.answered(), 52);
    // More attempts, and a model that can: it is read like the others.
    run(&mut client, "SELECT rag_alter('kb', '{\"max_attempts\": 4}')");
    let url = serve(|_, body| {
        (
            200,
            chat_reply(&answer(
                "\"entities\"",
                body["messages"][1]["content"].as_str().unwrap(),
            )),
        )
    });
    run(&mut client, &format!("ALTER SERVER m OPTIONS (SET base_url '{url}')"));
    run(&mut client, EXTRACT);
    assert_eq!(ledger(&mut client), ["extract done 50"]);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.relation"), 50);
}

/// Neither another model nor another prompt leaves the failures of the old one behind.
#[test]
fn models_failures_go_with_the_model_that_has_failed() {
    let database = Database::new();
    let mut client = database.client();
    let bad = mock(|options| options.chat = Arc::new(|_, _| "I would rather not.".to_owned()));
    let good = mock(|_| {});
    run(&mut client, &create_server("good", &good.base_url(), ""));
    for change in [
        "\"extractor\": \"server:good\"",
        "\"extractor\": \"builtin:cooccurrence\"",
        "\"extract_prompt\": \"Say {\\\"entities\\\"}.\"",
    ] {
        run(&mut client, "DROP SERVER IF EXISTS m");
        collection(
            &mut client,
            &bad,
            "",
            ", extractor => 'server:m', settings => '{\"max_attempts\": 1}'",
        );
        run(&mut client, &documents(3));
        run(&mut client, EXTRACT);
        assert_eq!(status(&mut client, "extract"), [0, 0, 3, 3, 0]);
        run(&mut client, &format!("SELECT rag_alter('kb', '{{{change}}}')"));
        run(
            &mut client,
            &format!("ALTER SERVER m OPTIONS (SET base_url '{}')", good.base_url()),
        );
        run(&mut client, EXTRACT);
        let [done, pending, failed, ..] = status(&mut client, "extract");
        assert_eq!([done, pending, failed], [3, 0, 0], "{change}");
        run(&mut client, "SELECT rag_drop('kb')");
    }
}

#[test]
fn models_fail_one_text_of_a_batch_and_embed_the_others() {
    let database = Database::new();
    let mut client = database.client();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let url = serve(move |_, body| {
        counted.fetch_add(1, Ordering::Relaxed);
        let texts: Vec<&str> = body["input"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|text| text.as_str())
            .collect();
        if texts.iter().any(|text| text.contains("Anna13 ")) {
            return (400, "{\"error\": {\"code\": \"context_length_exceeded\"}}".to_owned());
        }
        (
            200,
            vectors_reply(
                &texts
                    .iter()
                    .map(|text| graphrag_mock::unit_vector(text, 8))
                    .collect::<Vec<_>>(),
            ),
        )
    });
    run(
        &mut client,
        &(create_server("m", &url, "") + "SELECT rag_create('kb', 8, embedder => 'server:m'); " + &documents(50)),
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    // 50, 2 of 25, 2 of 12 and 13, 2 of 6 and 7, and so on.
    assert!((11..=13).contains(&count.load(Ordering::Relaxed)), "{count:?}");
    assert_eq!(ledger(&mut client), ["embed done 49", "embed failed 1"]);
    assert_eq!(status(&mut client, "embed"), [49, 0, 1, 50, 0]);
    let row =
        "SELECT text || '|' || error FROM kb.node n, kb.model_call m WHERE n.embedding IS NULL AND m.status = 'failed'";
    assert_eq!(
        list::<String>(&mut client, row),
        ["Anna13 met Bert13 in Ulm.|status 400 (context_length_exceeded)"]
    );
    // The others are found; the bad one is asked for alone, twice more.
    for asked in [1, 1, 0] {
        count.store(0, Ordering::Relaxed);
        run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
        assert_eq!(count.load(Ordering::Relaxed), asked);
    }
    let found = "SELECT text FROM raptor_search('kb', 'Anna14 met Bert14 in Ulm.', k => 1)";
    let text: String = one(&mut client, found);
    assert_eq!(text, "Anna14 met Bert14 in Ulm.");
    let error = client
        .batch_execute("SELECT raptor_search('kb', 'Anna13 ')")
        .unwrap_err();
    assert!(
        told(&error).starts_with("38000 the query could not be embedded by server:m"),
        "{error:?}"
    );
}
