//! What models have read and answered goes with its documents; the bill stays.

use std::sync::Arc;
use std::time::Duration;

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{ALL, Running, USAGE, collection, documents, mock, told, until};
use crate::support::{add, list, one, rows, run};

/// All traces of document 3 in the collection: its word, and the digests that were made of what it says.
fn traces(client: &mut Client, digests: &[String]) -> Vec<String> {
    rows(client, "kb")
        .into_iter()
        .filter(|row| {
            let row = row.to_lowercase();
            row.contains("zyxwvut") || digests.iter().any(|digest| row.contains(digest))
        })
        .collect()
}

#[test]
fn models_forget_what_they_read_in_documents_that_go() {
    for change in [
        "DELETE FROM kb.document WHERE id = 3",
        "TRUNCATE kb.document",
        "UPDATE kb.document SET body = 'Nothing.' WHERE id = 3",
    ] {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|_| {});
        collection(
            &mut client,
            &mock,
            ", price_in '2', price_out '3', price_embedding '1'",
            ", 'server:m', 'server:m', 'server:m', 'server:m'",
        );
        run(
            &mut client,
            "INSERT INTO kb.document (body) SELECT 'Anna' || i || ' met ' || CASE i WHEN 3 THEN 'Zyxwvut' ELSE 'Bert' END || \
               ' in Ulm, and they had a talk.' FROM generate_series(1, 12) i",
        );
        run(&mut client, ALL);
        run(
            &mut client,
            "SELECT rag_ask('kb', 'Whom did Anna3 meet at the Zyxwvut?', 'plain')",
        );
        // One more that is asked and not answered, and one that has failed.
        add(&mut client, "kb", "Emil met Frida.");
        run(
            &mut client,
            "UPDATE kb.document SET body = body || ' Zyxwvut came again.' WHERE id = 3",
        );
        run(&mut client, "CALL rag_refresh('kb', 1, '{extract}')");
        let digests: Vec<String> = list(
            &mut client,
            "SELECT encode(d, 'hex') FROM ( \
               SELECT text_hash AS d FROM kb.node WHERE document_id = 3 UNION SELECT text_hash FROM kb.block WHERE document_id = 3 \
               UNION SELECT n.text_hash FROM kb.node n JOIN kb.node_source s ON s.node_id = n.id AND s.document_id = 3 \
               UNION SELECT key FROM kb.model_call_source WHERE document_id = 3 \
               UNION SELECT sha256(convert_to('Zyxwvut', 'UTF8')) \
               UNION SELECT sha256(convert_to(body, 'UTF8')) FROM kb.document WHERE id = 3) x",
        );
        assert!(digests.len() > 8, "{digests:?}");
        let keys = "SELECT count(*) FROM kb.model_call WHERE key IN (SELECT key FROM kb.model_call_source WHERE document_id = 3)";
        assert!(one::<i64>(&mut client, keys) > 4);
        assert!(traces(&mut client, &digests).len() > 6);
        let usage: Vec<String> = list(&mut client, USAGE);
        assert_eq!(usage.len(), 5, "{usage:?}");

        run(&mut client, change);
        if change.starts_with("UPDATE") {
            // What can still be used is kept until the next run.
            run(&mut client, ALL);
        } else {
            assert_eq!(list::<String>(&mut client, USAGE), usage, "{change}");
        }
        let left = traces(&mut client, &digests);
        assert_eq!(left, [""; 0], "{change}: {left:#?}");
        mock.reset();
        run(&mut client, ALL);
        let left = traces(&mut client, &digests);
        assert_eq!(left, [""; 0], "{change} and a refresh: {left:#?}");
        let sent = format!("{:?}", mock.log());
        assert!(!sent.to_lowercase().contains("zyxwvut"), "{change}");
        let dangling: i64 = one(
            &mut client,
            "SELECT count(*) FROM kb.model_call_source s WHERE NOT EXISTS (SELECT FROM kb.document d WHERE d.id = s.document_id)",
        );
        assert_eq!(dangling, 0, "{change}");
    }
}

/// The title of a document stands in the requests for its blocks.
#[test]
fn models_forget_titles_that_change() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.chat = Arc::new(|_, _| "Nothing.".to_owned()));
    collection(
        &mut client,
        &mock,
        "",
        ", extractor => 'server:m', settings => '{\"max_attempts\": 1}'",
    );
    for body in ["Anna met Bert.", "Carl met Dora."] {
        run(
            &mut client,
            &format!("INSERT INTO kb.document (title, body) VALUES ('Zyxwvut', '{body}')"),
        );
    }
    run(&mut client, "CALL rag_refresh('kb', 1, '{extract}')");
    let state = "SELECT string_agg(status, ' ' ORDER BY id) FROM kb.model_call WHERE request::text LIKE '%Zyxwvut%'";
    assert_eq!(one::<String>(&mut client, state), "failed pending");
    run(&mut client, "UPDATE kb.document SET title = 'Other'");
    for _ in 0..4 {
        run(&mut client, "CALL rag_refresh('kb', steps => '{extract}')");
    }
    let left = traces(&mut client, &[]);
    assert_eq!(left, [""; 0], "{left:#?}");
}

#[test]
fn models_answers_for_a_document_that_went_meanwhile_are_dropped() {
    let changes = [
        "DELETE FROM kb.document WHERE id = 3",
        "UPDATE kb.document SET body = 'Emil met Frida.' WHERE id = 3",
    ];
    for (step, change) in ["embed", "extract", "tree", "reports"]
        .into_iter()
        .flat_map(|step| changes.map(|change| (step, change)))
    {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|options| options.delay = Duration::from_millis(100));
        collection(
            &mut client,
            &mock,
            ", concurrency '4', batch_size '64'",
            ", 'server:m', 'server:m', 'server:m'",
        );
        run(
            &mut client,
            "INSERT INTO kb.document (body) SELECT 'Anna' || i || ' met ' || CASE i WHEN 3 THEN 'Zyxwvut' ELSE 'Bert' END || \
               ' in Ulm.' FROM generate_series(1, 6) i",
        );
        let before = match step {
            "tree" => "embed",
            "reports" => "extract,communities",
            _ => "",
        };
        run(&mut client, &format!("CALL rag_refresh('kb', steps => '{{{before}}}')"));
        mock.reset();
        let running = Running::start(
            database.client(),
            &format!("CALL rag_refresh('kb', steps => '{{{step}}}')"),
        );
        until("it is asked", || {
            format!("{:?}", mock.log()).contains("Zyxwvut") && mock.waiting() > 0
        });
        run(&mut client, change);
        let (result, mut session) = running.end();
        result.unwrap_or_else(|error| panic!("{step}: {}", told(&error)));
        if change.starts_with("DELETE") {
            let left = traces(&mut client, &[]);
            assert_eq!(left, [""; 0], "{step}");
        }
        run(&mut session, ALL);
        let left = traces(&mut client, &[]);
        assert_eq!(left, [""; 0], "{step}, {change}");
        let open: i64 = one(
            &mut client,
            "SELECT count(*) FROM kb.model_call WHERE status NOT IN ('done', 'forgotten')",
        );
        assert_eq!(open, 0, "{step}");
    }
}

/// What was in the air when a document went is paid, and stands in the bill.
#[test]
fn models_that_answer_for_a_document_that_went_are_in_the_bill() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.delay = Duration::from_millis(200));
    collection(&mut client, &mock, ", price_in '1'", ", extractor => 'server:m'");
    run(&mut client, &documents(4));
    let running = Running::start(database.client(), "CALL rag_refresh('kb', steps => '{extract}')");
    until("it is asked", || mock.waiting() == 4);
    run(&mut client, "DELETE FROM kb.document WHERE id > 2");
    running.end().0.unwrap();
    assert_eq!(mock.answered(), 4);
    let paid: usize = mock
        .log()
        .iter()
        .flat_map(|seen| seen.body["messages"].as_array().cloned().unwrap_or_default())
        .map(|message| {
            message["content"]
                .as_str()
                .unwrap_or_default()
                .split_whitespace()
                .count()
        })
        .sum();
    let billed = "SELECT prompt_tokens FROM rag_usage('kb') WHERE step = 'extract'";
    assert_eq!(one::<i64>(&mut client, billed) as usize, paid);
}
