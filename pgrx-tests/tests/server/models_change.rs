//! Documents and failures during a change of embedder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use graphrag_mock::unit_vector;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::Value;

use crate::models_support::{
    ALL, Running, collection, create_server, documents, items, mock, outcome, serve, until, vectors_reply,
};
use crate::support::{list, one, run};

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
