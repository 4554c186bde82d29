//! Texts of tens of megabytes, the end of work that takes too long, and budgets of memory that are too small.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, one, run};

/// A statement that is ended by the time-out leaves a connection that works.
fn times_out(client: &mut Client, sql: &str) {
    run(client, "SET statement_timeout = '60ms'");
    let error = failure(client, sql);
    assert_eq!(
        (error.code().code(), error.message()),
        ("57014", "canceling statement due to statement timeout"),
        "{sql}"
    );
    run(client, "RESET statement_timeout");
    assert_eq!(one::<i64>(client, "SELECT count(*) FROM rag_chunk('still here')"), 1);
}

#[test]
fn a_time_out_ends_long_work() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 256); CREATE TABLE texts AS \
         SELECT string_agg('Line ' || i || ' of Anna Ahl and Bert Beck.', ' ') AS text \
         FROM generate_series(1, 1000000) i; \
         INSERT INTO kb.document (body) SELECT 'Note ' || i * i || ' of Anna Ahl ' || i || ' and Bert Beck.' \
         FROM generate_series(1, 8000) i",
    );
    times_out(&mut client, "SELECT count(*) FROM rag_chunk((SELECT text FROM texts))");
    times_out(
        &mut client,
        "SELECT count(*) FROM rag_chunk((SELECT repeat('a', 50000000)))",
    );
    times_out(&mut client, "SELECT rag_embed('kb', (SELECT text FROM texts))");
    times_out(&mut client, "SELECT rag_add('kb', (SELECT text FROM texts))");
    times_out(&mut client, "SELECT raptor_build('kb')");
    run(&mut client, "SELECT graph_communities('kb')");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.node"), 8000);
    times_out(&mut client, "SELECT raptor_build('kb')");
    times_out(&mut client, "SELECT graph_extract('kb')");
    let nothing: i64 = one(
        &mut client,
        "SELECT (SELECT count(*) FROM kb.mention) + (SELECT count(*) FROM kb.node WHERE level > 0)",
    );
    assert_eq!(nothing, 0);
}

#[test]
fn fifty_megabytes_are_added_found_and_deleted() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 64)");
    let body = "(SELECT string_agg(CASE i WHEN 700000 THEN E'\\n\\n# Alone\\n\\n' || repeat('zyxwvut ', \
        60) || E'\\n\\n# Further\\n\\n' ELSE 'Zeile ' || i || ' über das Meer. ' END, '' ORDER BY i) \
                 FROM generate_series(1, 1850000) i)";
    run(
        &mut client,
        &format!("SELECT rag_add('kb', {body}, source_key => 'big')"),
    );
    let (bytes, leaves) = {
        let row = client
            .query_one(
                "SELECT octet_length(body)::bigint, (SELECT count(*) FROM kb.node) FROM kb.document",
                &[],
            )
            .unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    assert!(bytes > 50_000_000 && leaves > 50_000, "{bytes} {leaves}");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.node WHERE embedding IS NULL"),
        0
    );
    let covered: bool = one(
        &mut client,
        "SELECT min(start_char) = 0 AND max(end_char) = (SELECT length(rtrim(body)) FROM kb.document) FROM kb.block",
    );
    assert!(covered);
    // The offsets, at both ends and where the word stands: substr() of such a text takes a while.
    let right: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.document d JOIN kb.node n ON n.document_id = d.id \
         WHERE (n.text LIKE '%zyxwvut%' OR n.ordinal IN (0, 50000)) \
         AND substr(d.body, n.start_char + 1, n.end_char - n.start_char) = n.text",
    );
    assert!(right >= 3);
    let found: String = one(&mut client, "SELECT text FROM raptor_search('kb', 'zyxwvut', k => 1)");
    assert!(found.contains("zyxwvut"));
    run(&mut client, "DELETE FROM kb.document");
    let left: i64 = one(
        &mut client,
        "SELECT (SELECT count(*) FROM kb.node) + (SELECT count(*) FROM kb.block) + (SELECT count(*) FROM kb.change)",
    );
    assert_eq!(left, 0);
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM raptor_search('kb', 'zyxwvut')"),
        0
    );
}

#[test]
fn a_budget_that_is_too_small_says_what_it_takes() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 2000); INSERT INTO kb.document (body) SELECT 'Note ' || i \
         FROM generate_series(1, 400) i; \
         INSERT INTO kb.entity (name) SELECT 'Entity ' || i FROM generate_series(1, 20000) i; \
         SET graphrag.build_memory = '1MB'",
    );
    for (build, what) in [
        ("SELECT raptor_build('kb')", "the tree of this collection"),
        ("SELECT graph_communities('kb')", "the graph of this collection"),
    ] {
        let error = failure(&mut client, build);
        assert_eq!(
            (error.code().code(), error.message()),
            (
                "53200",
                format!("{what} needs more memory than graphrag.build_memory").as_str()
            )
        );
        assert!(
            error
                .detail()
                .is_some_and(|detail| detail.contains("the budget is 1 MB")),
            "{:?}",
            error.detail()
        );
        // Who does what the hint says gets through.
        let hint = error.hint().unwrap();
        let statement = hint.split(',').next().unwrap();
        run(&mut client, &format!("BEGIN; {statement}; {build}; ROLLBACK"));
    }
    let texts = "SELECT rag_create('long', 8, settings => '{\"inline_rows\": 3000}'); \
        INSERT INTO long.document (body, format) \
                 SELECT repeat(i || ' ', 190), 'text' FROM generate_series(1, 3000) i";
    run(&mut client, texts);
    let error = failure(
        &mut client,
        "SELECT count(*) FROM raptor_search('long', '1', k => 3000)",
    );
    assert_eq!(
        (error.code().code(), error.message()),
        (
            "53200",
            "the result of this search needs more memory than graphrag.build_memory"
        )
    );
    let few = "SELECT count(*) FROM raptor_search('long', '1', k => 300)";
    assert_eq!(one::<i64>(&mut client, few), 300);
}
