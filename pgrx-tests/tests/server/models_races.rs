//! What happens to a collection while a model is asked for it.

use std::time::Duration;

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{
    EXTRACT, Heard, Running, USAGE, collection, documents, ledger_of, mock, outcome, told, until, until_threads_ended,
};
use crate::support::{list, one, rows, run};

const ADVISORY: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

fn until_it_waits(watcher: &mut Client, running: &Running) {
    let waits = format!("SELECT cardinality(pg_blocking_pids({})) > 0", running.pid);
    until("it waits for a lock", || {
        one::<bool>(watcher, &waits) || running.is_finished()
    });
    assert!(!running.is_finished(), "it does not wait");
}

const QUESTION: &str = "SELECT rag_ask('kb', 'Where does Zsecretword live?', 'plain')";

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
        assert_eq!(ledger_of(&mut client, "kb"), ["ask done 2"]);
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
        assert_eq!(ledger_of(&mut client, name), ["extract done 12"], "{change}");
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
        until_threads_ended(pid, &case);
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
