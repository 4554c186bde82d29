//! Rows, settings and replies in a state that neither the extension nor a decent service brings about.

use pg_graphrag_tests::Database;

use crate::models_support::{
    ALL, chat_reply, collection, create_server, documents, items, ledger_of, mock, outcome, serve, vectors_reply,
};
use crate::support::{failure, list, one, run};

/// Whoever may write answers into the queue must not choose what runs as the owner, or gets the owner's key.
#[test]
fn models_named_by_a_row_of_the_ledger_are_never_called() {
    let database = Database::new();
    let mut owner = database.client();
    let worker = database.role("worker");
    let (own, trap) = (mock(|_| {}), mock(|_| {}));
    collection(&mut owner, &own, "", ", 'queue', 'queue', 'queue', 'server:m'");
    run(&mut owner, &create_server("trap", &trap.base_url(), ""));
    run(
        &mut owner,
        &format!(
            "CREATE USER MAPPING FOR CURRENT_USER SERVER trap OPTIONS (api_key 'sk-owner'); \
             CREATE SCHEMA ws AUTHORIZATION {worker}; GRANT USAGE ON SCHEMA kb TO {worker}; \
             GRANT SELECT, UPDATE ON kb.model_call TO {worker}; {}",
            documents(3)
        ),
    );
    run(&mut owner, ALL);
    let mut theirs = database.client_as(&worker);
    // A sequence keeps what a rollback takes back.
    let body = format!(
        "LANGUAGE plpgsql AS $$BEGIN PERFORM nextval('ws.calls'); EXECUTE 'ALTER ROLE {worker} SUPERUSER'; RETURN NULL; END$$"
    );
    run(
        &mut theirs,
        &format!(
            "CREATE SEQUENCE ws.calls; GRANT ALL ON ws.calls TO PUBLIC; \
             CREATE FUNCTION ws.evil(text) RETURNS text {body}; CREATE FUNCTION ws.evil(text[]) RETURNS text {body}; \
             CREATE FUNCTION ws.evilvector(text) RETURNS real[] {body}; CREATE FUNCTION ws.evilscores(text, text[]) RETURNS real[] {body}"
        ),
    );
    let state = format!(
        "SELECT (SELECT last_value || ' ' || is_called FROM ws.calls) || ' ' || rolsuper FROM pg_roles WHERE rolname = '{worker}'"
    );
    let queue = "SELECT concat_ws(' ', step, role, model, status, count(*)) FROM kb.model_call GROUP BY step, role, model, status ORDER BY 1";
    let planned = ["embed embedder queue pending 3", "extract extractor queue pending 3"];
    assert_eq!(list::<String>(&mut owner, queue), planned);
    let calls = [
        ALL,
        "SELECT graph_extract('kb')",
        "SELECT raptor_build('kb')",
        "SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
        "SELECT * FROM rag_status('kb'), rag_usage('kb'), rag_estimate('kb')",
        "SELECT * FROM rag_health('kb')",
        "SELECT rag_ask('kb', 'Who?', 'plain')",
        "INSERT INTO kb.document (body) VALUES ('Carl met Dora.'); DELETE FROM kb.document WHERE body = 'Carl met Dora.'",
        ALL,
    ];
    for change in [
        "model = 'function:ws.evil'",
        "model = 'function:ws.evil', role = 'extractor'",
        "model = 'function:ws.evil', role = 'summarizer'",
        "model = 'function:ws.evil', role = 'answerer'",
        "model = 'function:ws.evilvector', role = 'embedder'",
        "model = 'function:ws.evilscores', role = 'reranker', request = '{\"query\": \"a\", \"documents\": [\"a\", \"b\"]}'",
        "model = 'function:ws.evil', step = 'tree', role = 'summarizer'",
        "model = 'function:ws.evil', step = 'ask', role = 'answerer'",
        "model = 'server:trap'",
        "model = 'server:trap', role = 'summarizer', step = 'reports'",
        "model = 'server:trap', response = '\"x\"', status = 'done'",
        "model = 'server:trap', status = 'failed'",
    ] {
        let rows = match (change.contains("'embedder'"), change.contains("function:")) {
            (true, _) => "step = 'embed'",
            (_, true) => "step = 'extract'",
            _ => "true",
        };
        run(&mut theirs, &format!("UPDATE kb.model_call SET {change} WHERE {rows}"));
        own.reset();
        for call in calls {
            // Some are refused while the embedder is a queue.
            let result = owner.batch_execute(call);
            let told = outcome(&result);
            assert!(
                told.is_empty() || ["55000", "0A000"].iter().any(|code| told.starts_with(code)),
                "{change}, {call}: {told}"
            );
            assert_eq!(one::<String>(&mut owner, &state), "1 false false", "{change}, {call}");
            assert_eq!(
                trap.log().len()
                    + own
                        .log()
                        .iter()
                        .filter(|seen| seen.body.to_string().contains("Anna"))
                        .count(),
                0,
                "{change}, {call}"
            );
        }
        assert_eq!(list::<String>(&mut owner, queue), planned, "{change}");
    }
    // The functions do work, as far as the rights of who calls them go.
    let error = failure(&mut theirs, "SELECT ws.evil('text')");
    assert_eq!(error.code().code(), "42501");
    assert_eq!(one::<String>(&mut owner, &state), "1 true false");
}

/// Rows that something else has made into what they are not: the others go on, and the items of these are asked anew.
#[test]
fn models_rows_that_were_tampered_with_spoil_nothing() {
    let most = i64::MAX;
    let changes = [
        "role = 'king'".to_owned(),
        "role = 'answerer'".to_owned(),
        "model = 'foo'".to_owned(),
        "model = 'server:nope'".to_owned(),
        "model = 'function:x.y'".to_owned(),
        "model = 'builtin:cooccurrence'".to_owned(),
        "model = 'builtin:hash', role = 'embedder'".to_owned(),
        "model = 'queue'".to_owned(),
        "step = 'king'".to_owned(),
        "step = 'tree'".to_owned(),
        format!("attempts = {}", i32::MAX),
        format!("attempts = {}", i32::MIN),
        format!("prompt_tokens = {most}, completion_tokens = {most}"),
        format!("prompt_tokens = -{most}, completion_tokens = -{most}"),
        "cost = 'NaN'".to_owned(),
        "status = 'done'".to_owned(),
        "status = 'done', model = 'queue'".to_owned(),
        "status = 'done', response = '\"junk\"', embedding = '[0,0,0,0,0,0,0,2]'".to_owned(),
        "status = 'forgotten'".to_owned(),
        "status = 'failed'".to_owned(),
        "stale = true".to_owned(),
        "response = '\"junk\"', embedding = '[0,0,0,0,0,0,0,2]', error = 'e', repairs = '{a,NULL}'".to_owned(),
        "created_at = 'infinity', finished_at = '-infinity'".to_owned(),
        // It cannot be told from one that was answered, if there is something that could be the answer.
        "status = 'done', request = '{}'".to_owned(),
        // A vector that no row could take.
        "status = 'done', request = '{}', embedding = '[1,2]'".to_owned(),
        "status = 'done', request = '{}', response = '\"junk\"', embedding = '[0,0,0,0,0,0,0,2]'".to_owned(),
        // Left out.
        format!("status = 'failed', attempts = {}", i32::MAX),
    ];
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    run(&mut client, &create_server("m", &mock.base_url(), ", batch_size '2'"));
    let mut wrong: Vec<String> = Vec::new();
    let pairs = [
        ("extract", "CALL rag_refresh('kb')"),
        ("extract", "SELECT graph_extract('kb')"),
        ("embed", "CALL rag_refresh('kb', steps => '{embed}')"),
        ("embed", "SELECT raptor_build('kb')"),
    ];
    for (change, (step, call)) in changes.iter().flat_map(|change| pairs.map(|pair| (change, pair))) {
        let model = if step == "embed" { "embedder" } else { "extractor" };
        run(
            &mut client,
            &format!("SELECT rag_create('kb', 8, {model} => 'server:m'); {}", documents(6)),
        );
        run(&mut client, &format!("CALL rag_refresh('kb', 1, '{{{step}}}')"));
        assert_eq!(
            ledger_of(&mut client, "kb"),
            [format!("{step} done 1"), format!("{step} pending 5")]
        );
        mock.reset();
        let two = "SELECT id FROM kb.model_call WHERE status = 'pending' ORDER BY id LIMIT 2";
        run(
            &mut client,
            &format!("UPDATE kb.model_call SET {change} WHERE id IN ({two})"),
        );
        let mut check = |what: &str, is: String, should: &[&str]| {
            if !should.contains(&is.as_str()) {
                wrong.push(format!("{change}, {call}: {what}: {is}, not {should:?}"));
            }
        };
        check("outcome", outcome(&client.batch_execute(call)), &[""]);
        // Of a text to embed, no vector is an answer, too.
        let is_answer = change.contains("request = '{}'") && (step == "embed" || change.contains("response"));
        let left_out = is_answer || change.contains("status = 'failed', a");
        let leaves = "SELECT count(*)::text FROM kb.node WHERE level = 0 AND embedding IS NOT NULL";
        let blocks = "SELECT count(DISTINCT block_id)::text FROM kb.mention";
        let done: String = one(&mut client, if step == "embed" { leaves } else { blocks });
        check("done", done, if left_out { &["4", "6"] } else { &["6"] });
        if !left_out {
            let texts = items(&mock)
                .iter()
                .filter(|item| item.matches(" met ").count() == 1)
                .count();
            check("calls", texts.to_string(), &["5"]);
            let status =
                format!("SELECT done || ' ' || pending || ' ' || failed FROM rag_status('kb') WHERE step = '{step}'");
            check("rag_status", one(&mut client, &status), &["6 0 0"]);
            let open = format!(
                "SELECT count(*)::text FROM kb.model_call WHERE status = 'pending' AND NOT stale AND step = '{step}'"
            );
            check("pending", one(&mut client, &open), &["0"]);
        }
        for look in ["rag_usage", "rag_estimate", "rag_health", "rag_status"] {
            let result = client.batch_execute(&format!("SELECT * FROM {look}('kb')"));
            check(look, outcome(&result), &[""]);
        }
        run(&mut client, "SELECT rag_drop('kb')");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Tokens that a service counts are believed up to a bound, so that sums stay sums.
#[test]
fn models_that_count_absurd_tokens_spoil_no_bill() {
    let most = 1_000_000_000_i64;
    for (tokens, counted) in [
        ("9223372036854775807", Some(most)),
        ("18446744073709551615", Some(most)),
        ("1000000001", Some(most)),
        ("999999999", Some(999_999_999)),
        ("7", Some(7)),
        // No numbers of tokens: they are counted here.
        ("-1", None),
        ("1e300", None),
        ("\"9\"", None),
    ] {
        let database = Database::new();
        let mut client = database.client();
        let url = serve(move |path, body| {
            let usage = format!("{{\"prompt_tokens\": {tokens}, \"completion_tokens\": {tokens}}}");
            let reply = match path.ends_with("embeddings") {
                true => vectors_reply(&vec![vec![1.0; 8]; body["input"].as_array().map_or(1, Vec::len)]),
                false => chat_reply("I would rather not."),
            };
            let (before, _) = reply.split_at(reply.find("\"usage\"").expect("usage"));
            // The object ends with usage, or has it after its other field.
            (200, format!("{}\"usage\": {usage}}}", before))
        });
        run(
            &mut client,
            &create_server("m", &url, ", price_in '2', price_out '3', price_embedding '1'"),
        );
        run(
            &mut client,
            "SELECT rag_create('kb', 8, embedder => 'server:m', extractor => 'server:m')",
        );
        run(&mut client, &documents(3));
        // Each block fails three times, and its tokens add up.
        for _ in 0..4 {
            run(&mut client, "CALL rag_refresh('kb', steps => '{embed,extract}')");
        }
        assert_eq!(
            ledger_of(&mut client, "kb"),
            ["embed done 3", "extract failed 3"],
            "{tokens}"
        );
        let sql = "SELECT step, calls, prompt_tokens, completion_tokens, cost::text FROM rag_usage('kb')";
        let usage = client.query(sql, &[]).expect("a bill");
        let bill = |n: usize| -> (String, i64, Option<i64>, Option<i64>) {
            (usage[n].get(0), usage[n].get(1), usage[n].get(2), usage[n].get(3))
        };
        if let Some(counted) = counted {
            // One request for all three texts, nine for blocks.
            assert_eq!(bill(0), ("embed".to_owned(), 3, Some(counted), None), "{tokens}");
            assert_eq!(
                bill(1),
                ("extract".to_owned(), 9, Some(9 * counted), Some(9 * counted)),
                "{tokens}"
            );
            let cost: f64 = usage[1].get::<_, String>(4).parse().expect("a number");
            assert_eq!(cost, 45.0 * counted as f64 / 1e6, "{tokens}");
        } else {
            let (.., prompt, completion) = bill(1);
            assert!(
                prompt.is_some_and(|n| (9..10_000).contains(&n)) && completion.is_some_and(|n| (9..1_000).contains(&n)),
                "{tokens}: {usage:?}"
            );
        }
    }
}

#[test]
fn models_steps_are_ordered_once_each() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    collection(&mut client, &mock, "", ", 'server:m', 'server:m', 'server:m'");
    let ordered = "SELECT value::text FROM kb.setting WHERE key = 'ordered'";
    for (steps, expected) in [
        ("extract,extract,extract", "[\"extract\"]"),
        ("extract", "[\"extract\"]"),
        (
            "reports,extract,tree,tree,reports",
            "[\"extract\", \"tree\", \"reports\"]",
        ),
        (
            "reports,reports,embed,communities,tree",
            "[\"extract\", \"tree\", \"reports\"]",
        ),
    ] {
        run(&mut client, &format!("CALL rag_refresh('kb', steps => '{{{steps}}}')"));
        assert_eq!(one::<String>(&mut client, ordered), expected, "{steps}");
    }
    assert_eq!(mock.log().len(), 0);
}

#[test]
fn models_dimensions_that_are_none_are_refused_and_crash_nothing() {
    let database = Database::new();
    let mut admin = database.client();
    let joe = database.role("joe");
    run(
        &mut admin,
        &format!("GRANT CREATE ON DATABASE {} TO {joe}", database.name()),
    );
    let mut client = database.client_as(&joe);
    run(
        &mut client,
        "SELECT rag_create('kb', 4, 'builtin:hash'); INSERT INTO kb.document (body) VALUES ('Anna met Bert.'), ('Carl met Dora.')",
    );
    let statements = [
        "SELECT rag_embed('kb', 'Alice met Bob')",
        "INSERT INTO kb.document (body) VALUES ('Alice met Bob.')",
        "UPDATE kb.document SET body = 'Alice met Bob.' WHERE id = 1",
        "SELECT raptor_search('kb', 'Alice')",
        "SELECT graph_local('kb', 'Alice')",
        "SELECT graph_global('kb', 'Alice')",
        "SELECT raptor_build('kb')",
        "SELECT graph_extract('kb')",
        "SELECT graph_communities('kb')",
        "SELECT * FROM rag_status('kb')",
        "SELECT * FROM rag_estimate('kb')",
        "SELECT * FROM rag_health('kb')",
        "SELECT rag_alter('kb', '{\"leaf_tokens\": 100}')",
        "CALL rag_refresh('kb')",
    ];
    for value in [
        "99999999999",
        "16001",
        "-1",
        "0",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "1e300",
        "4.5",
        "\"4\"",
        "null",
        "true",
        "[4]",
    ] {
        run(
            &mut client,
            &format!("UPDATE kb.setting SET value = '{value}' WHERE key = 'dimensions'"),
        );
        for sql in statements {
            let error = failure(&mut client, sql);
            assert_eq!(
                format!("{} {}", error.code().code(), error.message()),
                "22023 setting \"dimensions\" must be a whole number between 1 and 16000",
                "{value}: {sql}"
            );
        }
    }
    // Others than the vectors have: refused by whatever meets one, but no panic.
    for value in ["3", "5", "1", "16000"] {
        run(
            &mut client,
            &format!("UPDATE kb.setting SET value = '{value}' WHERE key = 'dimensions'"),
        );
        for sql in statements {
            let result = outcome(&client.batch_execute(sql));
            let is_told = [
                "22000 expected 4 dim",
                "22000 different vector dim",
                "XX000 8 values do not make up",
            ];
            assert!(
                result.is_empty() || is_told.iter().any(|told| result.starts_with(told)),
                "{value}: {sql}: {result}"
            );
        }
    }
    // As it was, all works.
    run(
        &mut client,
        "UPDATE kb.setting SET value = '4' WHERE key = 'dimensions'",
    );
    run(&mut client, "DELETE FROM kb.document WHERE id > 2");
    run(&mut client, "CALL rag_refresh('kb')");
    run(&mut client, "INSERT INTO kb.document (body) VALUES ('Emil met Frida.')");
    run(&mut client, "CALL rag_refresh('kb')");
    let found = "SELECT text FROM raptor_search('kb', 'Emil met Frida.', k => 1, mode => 'leaf')";
    assert_eq!(one::<String>(&mut client, found), "Emil met Frida.");
}
