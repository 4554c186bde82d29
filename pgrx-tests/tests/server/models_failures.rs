//! Models that fail: for all items, for one, for a while.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pg_graphrag_tests::Database;

use crate::models_support::{
    EXTRACT, answer, asked_once, chat_reply, collection, create_server, documents, ledger_of, mock, passage, serve,
    status, told, vectors_reply,
};
use crate::support::{failure, list, one, run};

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
    assert_eq!(ledger_of(&mut client, "kb"), pending);

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run(&mut client, &base(&format!("http://{closed}/v1")));
    let error = failure(&mut client, all);
    assert_eq!(
        format!("{} {}", error.code().code(), error.message()),
        "HV00N server \"m\": the provider is down: the connection was refused"
    );
    assert_eq!(ledger_of(&mut client, "kb"), pending);
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
        assert_eq!(ledger_of(&mut client, "kb"), expected, "{concurrency} at once");
    }

    run(
        &mut client,
        &(base(&mock.base_url()) + "; CREATE USER MAPPING FOR PUBLIC SERVER m OPTIONS (api_key 'good-key')"),
    );
    mock.reset();
    run(&mut client, all);
    asked_once(&mock, 10 + 30);
    assert_eq!(ledger_of(&mut client, "kb"), ["embed done 30", "extract done 30"]);
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
        assert_eq!(ledger_of(&mut client, "kb"), ["extract done 49", "extract failed 1"]);
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
        "(0,0,0,1,0,{})"
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
    assert_eq!(ledger_of(&mut client, "kb"), ["extract done 50"]);
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
    assert_eq!(ledger_of(&mut client, "kb"), ["embed done 49", "embed failed 1"]);
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
