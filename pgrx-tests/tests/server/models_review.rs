//! What a hostile review has found, and stays mended: answers for what went meanwhile, and rows, settings and sessions in a state
//! that the extension itself does not bring about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use graphrag_mock::unit_vector;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::Value;

use crate::models_support::{
    Heard, Running, chat_reply, collection, create_server, documents, items, mock, serve, threads, told, until,
    vectors_reply,
};
use crate::support::{failure, list, one, rows, run};

const EXTRACT: &str = "CALL rag_refresh('kb', steps => '{extract}')";
const ALL: &str = "CALL rag_refresh('kb', steps => '{embed,tree,extract,communities,reports}')";
const USAGE: &str = "SELECT u::text FROM rag_usage('kb') u";
const ADVISORY: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// `step status count` of a ledger.
fn ledger(client: &mut Client, name: &str) -> Vec<String> {
    let sql = format!(
        "SELECT step || ' ' || status || ' ' || count(*) FROM {name}.model_call GROUP BY step, status ORDER BY 1"
    );
    list(client, &sql)
}

fn until_it_waits(watcher: &mut Client, running: &Running) {
    let waits = format!("SELECT cardinality(pg_blocking_pids({})) > 0", running.pid);
    until("it waits for a lock", || {
        one::<bool>(watcher, &waits) || running.is_finished()
    });
    assert!(!running.is_finished(), "it does not wait");
}

/// What a statement comes to: nothing, or SQLSTATE and message of its error.
fn outcome(result: &Result<(), postgres::Error>) -> String {
    match result {
        Ok(()) => String::new(),
        Err(error) => told(error).split(" | ").next().unwrap_or_default().to_owned(),
    }
}

const QUESTION: &str = "SELECT rag_ask('kb', 'Where does Zsecretword live?')";

#[test]
fn models_forget_an_answer_whose_document_went_while_it_was_in_the_air() {
    let changes = [
        "DELETE FROM kb.document WHERE source_key = 'a'",
        "UPDATE kb.document SET body = 'Emil met Frida.' WHERE source_key = 'a'",
    ];
    // When the change is made and when it is committed: while the answer is in the air, or afterwards.
    for (case, change) in ["air air", "air after", "after after"]
        .into_iter()
        .flat_map(|case| changes.map(|change| (case, change)))
    {
        let case = format!("{case}: {change}");
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|options| options.delay = Duration::from_millis(150));
        collection(
            &mut client,
            &mock,
            ", rerank_model 'rerank', price_in '2', price_out '3'",
            ", answerer => 'server:m', settings => '{\"reranker\": \"server:m\"}'",
        );
        run(
            &mut client,
            "INSERT INTO kb.document (source_key, body) VALUES ('a', 'Zsecretword lives in Paris.'), ('b', 'Anna lives in Ulm.')",
        );
        // What it costs where nothing comes between, and that it leaves traces.
        run(&mut client, &format!("BEGIN; {QUESTION}"));
        let usage: Vec<String> = list(&mut client, USAGE);
        assert!(usage.len() == 1 && usage[0].starts_with("(ask,2,"), "{usage:?}");
        assert_eq!(ledger(&mut client, "kb"), ["ask done 2"]);
        let traces = |client: &mut Client| -> Vec<String> {
            let all = rows(client, "kb");
            all.into_iter()
                .filter(|row| row.to_lowercase().contains("zsecretword"))
                .collect()
        };
        assert!(traces(&mut client).iter().any(|row| row.contains("model_call")));
        run(&mut client, "ROLLBACK");
        mock.reset();

        let mut other = database.client();
        if case.starts_with("air") {
            let asking = Running::start(database.client(), QUESTION);
            until("it is asked", || mock.waiting() > 0);
            if case.starts_with("air air") {
                run(&mut other, change);
            } else {
                run(&mut other, &format!("BEGIN; {change}"));
                until_it_waits(&mut client, &asking);
                assert_eq!(mock.answered(), 2, "{case}");
                run(&mut other, "COMMIT");
            }
            assert_eq!(outcome(&asking.end().0), "", "{case}");
        } else {
            run(&mut client, &format!("BEGIN; {QUESTION}"));
            let changing = Running::start(other, change);
            until_it_waits(&mut database.client(), &changing);
            run(&mut client, "COMMIT");
            assert_eq!(outcome(&changing.end().0), "", "{case}");
        }
        assert_eq!(mock.answered(), 2, "{case}");
        assert_eq!(traces(&mut client), [""; 0], "{case}");
        let left =
            "SELECT concat_ws(' ', status, request, response, embedding, error, stale) FROM kb.model_call ORDER BY id";
        assert_eq!(list::<String>(&mut client, left), ["forgotten {} f"; 2], "{case}");
        assert_eq!(
            one::<i64>(&mut client, "SELECT count(*) FROM kb.model_call_source"),
            0,
            "{case}"
        );
        assert_eq!(list::<String>(&mut client, USAGE), usage, "{case}");
    }
}

/// A collection that takes the name of one that is refreshed is neither written nor asked for, nor is the key of another owner used.
#[test]
fn models_are_not_asked_for_a_collection_that_takes_the_name_of_another() {
    let swap = "BEGIN; ALTER SCHEMA kb RENAME TO ka; ALTER SCHEMA kx RENAME TO kb; COMMIT";
    let away = "ALTER SCHEMA kb RENAME TO ka";
    // `setting` first: it is what a refresh reads before anything else.
    let given = "BEGIN; ALTER TABLE kb.setting OWNER TO {heir}; \
                 DO $$DECLARE t text; BEGIN FOR t IN SELECT oid::regclass FROM pg_class WHERE relnamespace = 'kb'::regnamespace \
                   AND relkind = 'r' LOOP EXECUTE format('ALTER TABLE %s OWNER TO {heir}', t); END LOOP; END$$; \
                 ALTER SCHEMA kb OWNER TO {heir}; COMMIT";
    for (change, name) in [(away, "ka"), (given, "kb"), (swap, "ka")] {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|options| {
            options.delay = Duration::from_millis(100);
            options.key = Some("key".to_owned());
        });
        collection(&mut client, &mock, ", concurrency '2'", ", extractor => 'server:m'");
        run(
            &mut client,
            "CREATE USER MAPPING FOR CURRENT_USER SERVER m OPTIONS (api_key 'key')",
        );
        run(&mut client, &documents(12));
        run(
            &mut client,
            "SELECT rag_create('kx', 8, extractor => 'server:m'); \
             INSERT INTO kx.document (body) SELECT 'Xaver' || i || ' met Yara in Bonn.' FROM generate_series(1, 3) i",
        );
        run(&mut client, "CALL rag_refresh('kx', 1, '{extract}')");
        let before = rows(&mut client, "kx");
        mock.reset();
        let heir = database.role("heir");
        let running = Running::start(database.client(), EXTRACT);
        until("it is asked", || mock.answered() >= 2 && mock.waiting() > 0);
        run(&mut client, &change.replace("{heir}", &heir));
        let answered = mock.answered();
        let (result, mut session) = running.end();
        let error = result.expect_err(change);
        let renamed =
            "55000 collection \"kb\" has been renamed or given away meanwhile |  | CALL rag_refresh again goes on.";
        // A name that nobody has is found out by whichever statement comes first.
        let is_gone = change == away && told(&error).contains("does not exist");
        assert!(is_gone || told(&error) == renamed, "{change}: {}", told(&error));
        // What was in the air may land.
        assert!(
            mock.log().len() <= answered + 4,
            "{change}: {answered} {}",
            mock.log().len()
        );
        until("the lock is let go", || one::<i64>(&mut client, ADVISORY) == 0);
        if change == swap {
            run(&mut client, "ALTER SCHEMA kb RENAME TO kx");
        }
        let now = rows(&mut client, "kx");
        let changed: Vec<&String> = now.iter().filter(|row| !before.contains(row)).collect();
        assert_eq!((changed, now.len()), (vec![], before.len()), "{change}");
        assert!(!format!("{:?}", mock.log()).contains("Xaver"), "{change}");
        if change == given {
            run(&mut client, &format!("GRANT USAGE ON FOREIGN SERVER m TO {heir}"));
            run(
                &mut client,
                &format!("CREATE USER MAPPING FOR {heir} SERVER m OPTIONS (api_key 'key')"),
            );
        }
        // It goes on, and asks again at most what was in the air.
        run(&mut session, &EXTRACT.replace("kb", name));
        assert_eq!(ledger(&mut client, name), ["extract done 12"], "{change}");
        assert_eq!(mock.distinct(), 12, "{change}");
        assert!(mock.answered() <= 12 + 4, "{change}: {}", mock.answered());
    }
}

/// The pieces of the procedure, called by somebody else, leave nothing behind once the session goes on to something else.
#[test]
fn models_leave_no_lock_where_a_refresh_is_not_gone_on_with() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.delay = Duration::from_secs(30));
    collection(&mut client, &mock, "", ", extractor => 'server:m'");
    run(&mut client, &documents(3));
    let begin = "PERFORM _refresh_start('kb', NULL, '{extract}');";
    let caught = "BEGIN PERFORM _refresh_round('kb'); EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END;";
    // The second round is the one that plans, and the fourth one would wait for answers.
    let round = "PERFORM _refresh_round('kb');";
    for (pieces, held, then) in [
        (begin.to_owned(), 1, "SELECT 1"),
        (begin.to_owned(), 1, "BEGIN; SELECT 1; COMMIT"),
        (begin.to_owned(), 1, "SELECT 1/0"),
        (begin.to_owned() + round + round, 1, "SELECT 1"),
        (begin.to_owned() + begin, 1, "SELECT 1"),
        (begin.to_owned() + caught, 0, "SELECT 1"),
        (begin.to_owned(), 1, "DISCARD ALL"),
        (begin.to_owned(), 1, "SELECT pg_advisory_unlock_all()"),
    ] {
        let case = format!("{pieces} and {then}");
        let mut heard = Heard::new(&database);
        let pid: i32 = one(&mut heard.client, "SELECT pg_backend_pid()");
        run(&mut heard.client, &format!("DO $$BEGIN {pieces} END$$"));
        assert_eq!(one::<i64>(&mut client, ADVISORY), held, "{case}");
        let result = heard.client.batch_execute(then);
        assert_eq!(result.is_err(), then.contains("1/0"), "{case}: {result:?}");
        until("the lock is let go", || one::<i64>(&mut client, ADVISORY) == 0);
        assert_eq!(threads(pid), 1, "{case}");
        // There is nothing to go on with.
        let error = heard
            .client
            .batch_execute("DO $$BEGIN PERFORM _refresh_round('kb'); END$$")
            .unwrap_err();
        assert!(
            told(&error).starts_with("55000 no refresh of this collection is running in this session"),
            "{case}: {error:?}"
        );
        run(&mut heard.client, "CALL rag_refresh('kb', steps => '{embed}')");
        let said = heard.said();
        assert!(!said.contains("WARNING") && !said.contains("lock"), "{case}: {said}");
        run(&mut client, "SET statement_timeout = '20s'");
        run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    }
    assert_eq!(mock.log().len(), 0);
}

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
        "SELECT rag_ask('kb', 'Who?')",
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
        "status = 'done', request = '{}', response = '\"junk\"', embedding = '[0,0,0,0,0,0,0,2]'".to_owned(),
        // Left out.
        format!("status = 'failed', attempts = {}", i32::MAX),
    ];
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    run(&mut client, &create_server("m", &mock.base_url(), ", batch_size '2'"));
    let mut wrong: Vec<String> = Vec::new();
    // A vector that no row could take would stop each run.
    run(&mut client, "SELECT rag_create('kb', 8)");
    let misfit =
        "INSERT INTO kb.model_call (key, step, role, model, request, embedding) VALUES ('', '', '', '', '{}', '[1,2]')";
    assert_eq!(failure(&mut client, misfit).code().code(), "22000");
    run(&mut client, "SELECT rag_drop('kb')");
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
            ledger(&mut client, "kb"),
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
            ledger(&mut client, "kb"),
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

/// Vectors that a second model makes.
fn other(text: &str) -> Vec<f32> {
    unit_vector(&format!("other {text}"), 8)
}

/// How many texts of a table have no vector of the second model.
fn not_of_the_other(client: &mut Client, table: &str) -> Vec<String> {
    let sql = format!("SELECT text, embedding::real[] FROM kb.{table} WHERE text IS NOT NULL");
    let texts = client.query(&sql, &[]).expect("texts");
    assert!(!texts.is_empty(), "no text in {table}");
    let wrong = texts.iter().filter(|row| {
        let expected = other(row.get(0));
        let vector: Option<Vec<f32>> = row.get(1);
        vector.is_none_or(|vector| vector.iter().zip(&expected).any(|(a, b)| (a - b).abs() > 1e-5))
    });
    wrong.map(|row| row.get(0)).collect()
}

#[test]
fn models_take_documents_along_that_come_during_a_change_of_embedder() {
    for from in ["builtin:hash", "server:m", "function:own.embed"] {
        let database = Database::new();
        let mut client = database.client();
        let first = mock(|_| {});
        let second = mock(|options| {
            options.delay = Duration::from_millis(60);
            options.embed = Arc::new(|text, _| other(text));
        });
        run(
            &mut client,
            "CREATE SCHEMA own; CREATE FUNCTION own.embed(text) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$ \
               SELECT array_agg((get_byte(sha256(convert_to($1, 'UTF8')), n) - 100)::real) FROM generate_series(0, 7) n$$",
        );
        run(
            &mut client,
            &create_server("m2", &second.base_url(), ", batch_size '2', concurrency '1'"),
        );
        collection(&mut client, &first, "", &format!(", embedder => '{from}'"));
        run(&mut client, &documents(30));
        run(&mut client, ALL);
        run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:m2\"}')");
        let running = Running::start(database.client(), "CALL rag_refresh('kb')");
        // One after another, as they are embedded; the last ones come when nearly all have their vectors.
        let mut changes = Vec::new();
        for (asked, change) in [
            (
                1,
                "INSERT INTO kb.document (body) VALUES ('Xaver31 met Yara31 in Bonn.')",
            ),
            (
                3,
                "UPDATE kb.document SET body = 'Xaver2 met Yara2 in Bonn.' WHERE id = 2",
            ),
            (5, "DELETE FROM kb.document WHERE id = 29"),
            (
                8,
                "UPDATE kb.document SET body = 'Xaver30 met Yara30 in Bonn.' WHERE id = 30",
            ),
            (
                14,
                "INSERT INTO kb.document (body) VALUES ('Xaver32 met Yara32 in Bonn.')",
            ),
        ] {
            until("it is asked", || second.answered() >= asked || running.is_finished());
            run(&mut client, change);
            changes.push(running.is_finished());
            let found = "SELECT text FROM raptor_search('kb', 'Anna7 met Bert7 in Ulm.', k => 1, mode => 'leaf')";
            assert_eq!(
                one::<String>(&mut client, found),
                "Anna7 met Bert7 in Ulm.",
                "{from}, {change}"
            );
        }
        assert_eq!(changes, [false; 5], "{from}: all came meanwhile");
        assert_eq!(outcome(&running.end().0), "", "{from}");
        assert_eq!(
            one::<i64>(&mut client, "SELECT count(*) FROM kb.node WHERE level = 0"),
            31,
            "{from}"
        );
        let all = items(&second);
        let mut distinct = all.clone();
        distinct.dedup();
        assert_eq!(all.len(), distinct.len(), "{from}: each text once");
        assert_eq!(not_of_the_other(&mut client, "node"), [""; 0], "{from}");
        assert_eq!(not_of_the_other(&mut client, "community"), [""; 0], "{from}");
        for name in [
            "Xaver31 met Yara31",
            "Xaver2 met Yara2",
            "Xaver30 met Yara30",
            "Xaver32 met Yara32",
        ] {
            let sql = format!(
                "SELECT text || round(score::numeric, 3) FROM raptor_search('kb', '{name} in Bonn.', k => 1, mode => 'leaf')"
            );
            assert_eq!(
                one::<String>(&mut client, &sql),
                format!("{name} in Bonn.1.000"),
                "{from}"
            );
        }
        // Each leaf has its parent, and nothing is left to do.
        let state = "SELECT (SELECT count(*) FROM kb.change) || ' ' || (SELECT count(*) FROM kb.node n WHERE level = 0 \
            AND NOT EXISTS (SELECT FROM kb.node_child c WHERE c.child_id = n.id)) || ' ' || \
            (SELECT count(*) FROM kb.model_call WHERE status NOT IN ('done', 'forgotten'))";
        assert_eq!(one::<String>(&mut client, state), "0 0 0", "{from}");
        for mock in [&first, &second] {
            mock.reset();
        }
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(first.log().len() + second.log().len(), 0, "{from}");
    }
}

#[test]
fn models_embed_in_the_end_what_failed_during_a_change_of_embedder() {
    let refused: [fn(&str) -> bool; 2] = [
        |text| text.contains("Poison"),
        // Summaries and reports alone.
        |text| text.matches(" met ").count() != 1,
    ];
    for (case, refuses) in refused.into_iter().enumerate() {
        let database = Database::new();
        let mut client = database.client();
        let ill = Arc::new(AtomicBool::new(true));
        let is_ill = ill.clone();
        let url = serve(move |_, body| {
            let texts: Vec<&str> = body["input"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            match is_ill.load(Ordering::Relaxed) && texts.iter().any(|text| refuses(text)) {
                true => (400, "{\"error\": {\"code\": \"content_filter\"}}".to_owned()),
                false => (
                    200,
                    vectors_reply(&texts.iter().map(|text| other(text)).collect::<Vec<_>>()),
                ),
            }
        });
        run(&mut client, &create_server("m2", &url, ""));
        run(&mut client, "SELECT rag_create('kb', 8)");
        run(&mut client, &documents(5));
        run(
            &mut client,
            "INSERT INTO kb.document (body) VALUES ('Anna1 met Poison in Ulm.')",
        );
        run(&mut client, ALL);
        run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:m2\"}')");
        run(&mut client, "CALL rag_refresh('kb')");
        let setting = "SELECT value #>> '{}' FROM kb.setting WHERE key = 'embedder'";
        assert_eq!(one::<String>(&mut client, setting), "server:m2");
        let without = "SELECT (SELECT count(*) FROM kb.node WHERE level = 0 AND embedding IS NULL) || ' ' || \
            (SELECT count(*) FROM kb.node WHERE level > 0 AND embedding IS NULL) || ' ' || \
            (SELECT count(*) FROM kb.community WHERE text IS NOT NULL AND embedding IS NULL)";
        let missing: String = one(&mut client, without);
        assert!(!missing.starts_with("0 0"), "{case}: {missing}");
        let failed: i64 = one(&mut client, "SELECT sum(failed)::bigint FROM rag_status('kb')");
        assert!(failed > 0, "{case}: {missing} and nothing says so");
        // What can be embedded is found meanwhile.
        let found = "SELECT text FROM raptor_search('kb', 'Anna3 met Bert3 in Ulm.', k => 1, mode => 'leaf')";
        assert_eq!(one::<String>(&mut client, found), "Anna3 met Bert3 in Ulm.", "{case}");
        ill.store(false, Ordering::Relaxed);
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(one::<String>(&mut client, without), "0 0 0", "{case}: before {missing}");
        for table in ["node", "community"] {
            assert_eq!(not_of_the_other(&mut client, table), [""; 0], "{case}");
        }
        let open = "SELECT step || pending || failed FROM rag_status('kb') WHERE pending + failed > 0";
        assert_eq!(list::<String>(&mut client, open), [""; 0], "{case}");
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
        "SELECT rag_create('kb', dimensions => 4); INSERT INTO kb.document (body) VALUES ('Anna met Bert.'), ('Carl met Dora.')",
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
