//! Keys, prompts and replies show in no message, no log and no plan.

use std::sync::Arc;
use std::time::Duration;

use graphrag_mock::{Fault, Faults};
use pg_graphrag_tests::Database;

use crate::models_support::{Heard, Running, collection, documents, mock, told, until};
use crate::support::{list, one, run};

/// What must not be seen: of the key, of a document, of a reply, of a question.
const SECRETS: [&str; 4] = ["sk-Kohlrabi77", "Zwetschge88", "Mirabelle99", "Quitte66"];

#[test]
fn models_keys_prompts_and_replies_show_nowhere() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let mock = mock(|options| {
        options.key = Some(SECRETS[0].to_owned());
        options.chat = Arc::new(|_, _| "Mirabelle99 {".to_owned());
    });
    collection(
        &mut heard.client,
        &mock,
        ", retries '0', timeout_ms '100', concurrency '2'",
        ", 'server:m', 'server:m', 'server:m', 'server:m'",
    );
    run(
        &mut heard.client,
        "INSERT INTO kb.document (body) SELECT 'Zwetschge88 number ' || i || ' met Anna in Ulm.' FROM generate_series(1, 9) i; \
         SET graphrag.build_memory = '1GB'; SET auto_explain.log_min_duration = 0",
    );
    // The statement that brings the key would be logged if it failed.
    run(
        &mut heard.client,
        "CREATE USER MAPPING FOR PUBLIC SERVER m OPTIONS (api_key 'sk-Kohlrabi77')",
    );
    let calls = [
        "CALL rag_refresh('kb', steps => '{embed}')",
        "CALL rag_refresh('kb', steps => '{extract}')",
        "CALL rag_refresh('kb', steps => '{embed,tree,extract,communities,reports}')",
        "SELECT graph_extract('kb')",
        "SELECT raptor_build('kb')",
        "SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
        "SELECT * FROM raptor_search('kb', $$Quitte66$$)",
        "SELECT rag_embed('kb', $$Quitte66$$)",
        "SELECT rag_ask('kb', $$Quitte66$$, 'plain')",
        "SELECT * FROM rag_health('kb')",
        "SELECT * FROM rag_estimate('kb')",
        "EXPLAIN (ANALYZE, VERBOSE) SELECT graph_extract('kb')",
        "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM rag_health('kb')",
    ];
    let faults = [
        Faults::Always(Fault::Status(400)),
        Faults::Always(Fault::Status(401)),
        Faults::Always(Fault::Status(500)),
        Faults::Always(Fault::Quota),
        Faults::Always(Fault::TooMany {
            retry_after: Some(3600),
        }),
        Faults::Always(Fault::Garbage),
        Faults::Always(Fault::CutBody),
        Faults::Always(Fault::CloseSocket),
        Faults::Always(Fault::Redirect),
        Faults::Always(Fault::Empty),
        Faults::Always(Fault::Delay(Duration::from_millis(150))),
        Faults::None,
    ];
    let before = database.log().len();
    let mut told_all = Vec::new();
    let mut failures = 0;
    for fault in &faults {
        mock.set_faults(fault.clone());
        for call in calls {
            // As a program sends it: the text is no part of the statement.
            let (sql, question) = (call.replace("$$Quitte66$$", "$1"), "Quitte66");
            let result = match call.contains("$$") {
                true => heard.client.query(&sql, &[&question]).map(|rows| format!("{rows:?}")),
                false => match call.starts_with("EXPLAIN") || call.contains("FROM rag_") {
                    true => heard.client.simple_query(call).map(|rows| {
                        let rows: Vec<String> = rows
                            .iter()
                            .filter_map(|row| match row {
                                postgres::SimpleQueryMessage::Row(row) => {
                                    Some((0..row.len()).filter_map(|n| row.get(n)).collect::<Vec<_>>().join(" "))
                                }
                                _ => None,
                            })
                            .collect();
                        rows.join("\n")
                    }),
                    false => heard.client.batch_execute(call).map(|()| String::new()),
                },
            };
            told_all.push(match result {
                Ok(rows) => rows,
                Err(error) => {
                    failures += 1;
                    format!("{fault:?} {sql}: {}", told(&error))
                }
            });
            // So that there is something to fail again.
            run(
                &mut heard.client,
                "UPDATE kb.model_call SET status = 'pending', attempts = 0 WHERE status = 'failed'",
            );
        }
    }
    assert!(failures > 50, "{failures} {told_all:#?}");
    // Cancelled in the middle of a call.
    run(
        &mut heard.client,
        "INSERT INTO kb.document (body) VALUES ('Zwetschge88 is late.'); ALTER SERVER m OPTIONS (SET timeout_ms '60000')",
    );
    mock.set_faults(Faults::Always(Fault::HangBody));
    mock.reset();
    for call in &calls[..5] {
        let running = Running::start(database.client(), call);
        until("it hangs", || mock.waiting() > 0 || running.is_finished());
        run(&mut heard.client, &format!("SELECT pg_cancel_backend({})", running.pid));
        told_all.push(told(&running.end().0.unwrap_err()));
    }
    told_all.push(heard.said());
    // Other tests write to this log, too, but not these words.
    let log = database.log().split_off(before);
    assert!(log.contains("canceling statement due to user request") && log.contains("status 401"));
    told_all.push(log);
    told_all.extend(list::<String>(
        &mut heard.client,
        "SELECT concat_ws(' ', error, model, step) FROM kb.model_call",
    ));
    for text in &told_all {
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} shows in {text}");
        }
    }
    let asked: i64 = one(
        &mut heard.client,
        "SELECT count(*) FROM kb.model_call WHERE request::text LIKE '%Zwetschge88%'",
    );
    assert!(asked > 0);
    // They were sent, and so could have shown.
    let sent = format!("{:?}", mock.log());
    assert!(sent.contains(SECRETS[0]) && sent.contains(SECRETS[1]));
    run(&mut heard.client, &documents(1));
}
