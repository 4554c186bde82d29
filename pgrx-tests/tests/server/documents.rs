//! Writing documents: every statement that PostgreSQL has for it keeps blocks and leaves right.

use std::io::Write;

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, misplaced, one, refused, rows, run};

/// Blocks and leaves are what rag_chunk makes of each document as it stands, with its metadata and a vector.
#[track_caller]
fn assert_cut(client: &mut Client) {
    let sides = [
        "SELECT d.id, c.block, c.leaf, c.section_path, c.start_char, c.end_char, c.token_count, c.text, d.metadata, \
                d.partition, sha256(convert_to(c.text, 'UTF8')) \
         FROM kb.document d, rag_chunk(d.body, d.format) c",
        "SELECT n.document_id, b.ordinal, n.ordinal, b.section_path, n.start_char, n.end_char, n.token_count, n.text, \
                n.metadata, n.partition, n.text_hash \
         FROM kb.node n JOIN kb.block b ON b.id = n.block_id AND b.document_id = n.document_id WHERE n.level = 0",
    ];
    for (this, other) in [(sides[0], sides[1]), (sides[1], sides[0])] {
        let differing: i64 = one(client, &format!("SELECT count(*) FROM ({this} EXCEPT ALL {other}) x"));
        assert_eq!(differing, 0, "{this}");
    }
    assert_eq!(misplaced(client, "kb"), 0);
    let orphans: i64 = one(
        client,
        "SELECT count(*) FROM kb.block b WHERE NOT EXISTS (SELECT FROM kb.node n WHERE n.block_id = b.id) \
         OR b.text_hash <> sha256(convert_to(b.text, 'UTF8'))",
    );
    assert_eq!(orphans, 0);
    let vectors: i64 = one(
        client,
        "SELECT count(*) FROM (SELECT * FROM kb.node WHERE level = 0 ORDER BY text_hash LIMIT 50) n \
         WHERE embedding IS DISTINCT FROM rag_embed('kb', text)",
    );
    assert_eq!(vectors, 0);
    let hashes: i64 = one(
        client,
        "SELECT count(*) FROM kb.document WHERE body_hash <> sha256(convert_to(body, 'UTF8'))",
    );
    assert_eq!(hashes, 0);
}

fn collection(database: &Database) -> Client {
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 16)");
    client
}

#[test]
fn every_statement_keeps_blocks_and_leaves_right() {
    let database = Database::new();
    let mut client = collection(&database);
    let long = "'# Über uns\n\n' || repeat('Ein Satz mit Umlauten, äöü und 🦉. ', 400) || E'\\n\\n## Ende\\n\\nKurz.'";
    for (statement, documents) in [
        (
            format!("INSERT INTO kb.document (body, source_key) VALUES ({long}, 'a')"),
            1,
        ),
        (
            "INSERT INTO kb.document (body) VALUES ('One.'), (''), ('   '), (E'# H\\n\\nTwo.')".to_owned(),
            5,
        ),
        (
            "INSERT INTO kb.document (body, metadata, format) \
             SELECT '# ' || i || ' text', jsonb_build_object('i', i), 'text' \
             FROM generate_series(1, 20) i"
                .to_owned(),
            25,
        ),
        (
            "INSERT INTO kb.document (source_key, body) VALUES ('a', 'Replaced.'), ('b', 'New.') \
             ON CONFLICT (source_key) DO UPDATE SET body = excluded.body"
                .to_owned(),
            26,
        ),
        (
            "INSERT INTO kb.document (source_key, body) VALUES ('a', 'Ignored.') ON CONFLICT DO NOTHING".to_owned(),
            26,
        ),
        (
            "UPDATE kb.document SET body = body || ' And more.' WHERE metadata ? 'i'".to_owned(),
            26,
        ),
        (
            format!("UPDATE kb.document SET body = {long} WHERE body IN ('', 'One.')"),
            26,
        ),
        ("UPDATE kb.document SET body = '' WHERE source_key = 'b'".to_owned(), 26),
        (
            "UPDATE kb.document SET metadata = metadata || '{\"new\": [1, {\"x\": null}]}'".to_owned(),
            26,
        ),
        (
            "UPDATE kb.document SET title = 'T', source_key = 'key ' || id".to_owned(),
            26,
        ),
        (
            "UPDATE kb.document SET format = CASE format WHEN 'text' THEN 'markdown' ELSE 'text' END".to_owned(),
            26,
        ),
        (
            "UPDATE kb.document SET id = id + 1000, metadata = '{}' WHERE id % 2 = 0".to_owned(),
            26,
        ),
        ("UPDATE kb.document SET id = -id, body = body || ' x'".to_owned(), 26),
        (
            "MERGE INTO kb.document d USING (VALUES ('key 1', 'Merged.'), ('key 99', 'Inserted.')) v (k, t) \
             ON d.source_key = v.k \
             WHEN MATCHED THEN UPDATE SET body = v.t WHEN NOT MATCHED THEN INSERT (source_key, body) VALUES (v.k, v.t)"
                .to_owned(),
            27,
        ),
        (
            "WITH gone AS (DELETE FROM kb.document WHERE source_key = 'key 1' RETURNING body) \
             INSERT INTO kb.document (body) SELECT body || ' again' FROM gone"
                .to_owned(),
            27,
        ),
        ("DELETE FROM kb.document WHERE id % 3 = 0".to_owned(), -1),
        ("TRUNCATE kb.document".to_owned(), 0),
    ] {
        run(&mut client, &statement);
        let count: i64 = one(&mut client, "SELECT count(*) FROM kb.document");
        assert!(documents < 0 || count == documents, "{statement}: {count}");
        assert_cut(&mut client);
    }
    let left: i64 = one(
        &mut client,
        "SELECT (SELECT count(*) FROM kb.block) + (SELECT count(*) FROM kb.node) + (SELECT count(*) FROM kb.change)",
    );
    assert_eq!(left, 0);

    let mut copy = client
        .copy_in("COPY kb.document (source_key, body) FROM STDIN")
        .unwrap();
    copy.write_all(b"c1\tCopied one.\nc2\t# Copied\\n\\nTwo.\n").unwrap();
    copy.finish().unwrap();
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.node"), 2);
    assert_cut(&mut client);
}

#[test]
fn what_a_user_sets_by_hand_in_managed_columns_is_set_right() {
    let database = Database::new();
    let mut client = collection(&database);
    run(
        &mut client,
        "INSERT INTO kb.document (body, body_hash, partition, updated_at) VALUES ('x', 'wrong', 'wrong', 'epoch'); \
         UPDATE kb.document SET body_hash = 'wrong', partition = 'wrong', updated_at = 'epoch'",
    );
    let row = client
        .query_one(
            "SELECT partition, body_hash = sha256('x'), updated_at > '2000-01-01' FROM kb.document",
            &[],
        )
        .unwrap();
    assert_eq!(
        (row.get::<_, &str>(0), row.get::<_, bool>(1), row.get::<_, bool>(2)),
        ("", true, true)
    );
    refused(
        &mut client,
        r#"
        INSERT INTO kb.document (body) VALUES (NULL)
            --> 23502 null value in column "body" of relation "document" violates not-null constraint
        INSERT INTO kb.document (body, format) VALUES ('x', 'html')
            --> 23514 new row for relation "document" violates check constraint "document_format_check"
        INSERT INTO kb.document (body, metadata) VALUES ('x', '[1]')
            --> 23514 new row for relation "document" violates check constraint "document_metadata_check"
        INSERT INTO kb.document (body, source_key) VALUES ('x', 'k'), ('y', 'k')
            --> 23505 duplicate key value violates unique constraint "document_source_key_key"
        "#,
    );
    assert_cut(&mut client);
}

#[test]
fn an_unchanged_body_keeps_its_leaves() {
    let database = Database::new();
    let mut client = collection(&database);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'k' || i, 'Document ' || i || ' is about rivers.' \
         FROM generate_series(1, 20) i; \
         SELECT raptor_build('kb'); SELECT graph_extract('kb')",
    );
    let state = "SELECT (SELECT string_agg(id || text, ',' ORDER BY id) FROM kb.node) || (SELECT count(*) \
        FROM kb.change) \
                 || (SELECT string_agg(id::text, ',' ORDER BY id) FROM kb.block)";
    let before: String = one(&mut client, state);
    for statement in [
        "UPDATE kb.document SET body = body",
        "UPDATE kb.document SET title = 'T', source_key = source_key || 'x', updated_at = now()",
        "UPDATE kb.document SET metadata = '{\"lang\": \"en\"}'",
        "INSERT INTO kb.document (source_key, body) VALUES ('k1x', 'Document 1 is about rivers.') \
           ON CONFLICT (source_key) DO UPDATE SET body = excluded.body",
        "SELECT rag_add('kb', 'Document 1 is about rivers.', source_key => 'k1x')",
    ] {
        run(&mut client, statement);
        assert_eq!(before, one::<String>(&mut client, state), "{statement}");
    }
}

#[test]
fn metadata_reaches_leaves_and_summaries() {
    let database = Database::new();
    let mut client = collection(&database);
    run(
        &mut client,
        "INSERT INTO kb.document (id, body, metadata) SELECT i, 'Anna Ahl met Bert Beck in Ulm, note ' || i, \
           jsonb_build_object('lang', 'en', 'tenant', 'acme', 'n', i) FROM generate_series(1, 3) i; \
         SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
         SELECT graph_summarize('kb')",
    );
    let shared = "SELECT (SELECT metadata FROM kb.node WHERE level > 0)::text || (SELECT metadata FROM kb.community \
        WHERE size > 1)::text";
    let both = |pairs: &str| pairs.repeat(2);
    assert_eq!(
        one::<String>(&mut client, shared),
        both("{\"lang\": \"en\", \"tenant\": \"acme\"}")
    );
    run(
        &mut client,
        "UPDATE kb.document SET metadata = metadata || '{\"lang\": \"de\"}' WHERE id = 2",
    );
    assert_eq!(one::<String>(&mut client, shared), both("{\"tenant\": \"acme\"}"));
    assert_cut(&mut client);
    run(&mut client, "UPDATE kb.document SET metadata = '{\"lang\": \"de\"}'");
    assert_eq!(one::<String>(&mut client, shared), both("{\"lang\": \"de\"}"));
    run(&mut client, "UPDATE kb.document SET metadata = '{}' WHERE id = 1");
    assert_eq!(one::<String>(&mut client, shared), both("{}"));
    assert_cut(&mut client);
    let hits: Vec<i32> = list(
        &mut client,
        "SELECT level FROM raptor_search('kb', 'note', filter => '{\"lang\": \"de\"}')",
    );
    assert_eq!(hits, [0, 0]);
}

#[test]
fn a_large_statement_is_recorded_once_and_taken_up_in_one_pass() {
    let database = Database::new();
    let mut client = collection(&database);
    let documents = |n: i32| {
        format!(
            "INSERT INTO kb.document (body, source_key) SELECT 'Note ' || i || ' on moss.', 'k' || i \
             FROM generate_series(1, {n}) i"
        )
    };
    let counts = |client: &mut Client| {
        let row = client
            .query_one(
                "SELECT (SELECT count(*) FROM kb.change WHERE \"table\" = 'document'), \
                        (SELECT count(DISTINCT key) FROM kb.change WHERE \"table\" = 'document'), \
                        (SELECT count(*) FROM kb.node WHERE level = 0)",
                &[],
            )
            .unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2))
    };
    run(&mut client, &documents(1000));
    assert_eq!(counts(&mut client), (0, 0, 1000), "1,000 are cut at once");
    run(&mut client, "TRUNCATE kb.document");
    run(&mut client, &documents(1001));
    assert_eq!(counts(&mut client), (1001, 1001, 0), "more are recorded");
    run(&mut client, "TRUNCATE kb.document");

    let output = database.psql(&documents(10_000));
    assert!(output.contains("NOTICE:  10000 documents recorded"), "{output}");
    assert_eq!(counts(&mut client), (10_000, 10_000, 0));
    // What is still to be cut may change: it is recorded once whatever happens.
    run(&mut client, "UPDATE kb.document SET body = body || ' Wet.'");
    assert_eq!(counts(&mut client), (10_000, 10_000, 0));
    run(
        &mut client,
        "UPDATE kb.document SET body = 'Cut at once.' WHERE source_key = 'k1'; \
         DELETE FROM kb.document WHERE source_key = 'k2'",
    );
    assert_eq!(counts(&mut client), (9_998, 9_998, 1));
    run(&mut client, "SELECT graph_communities('kb')");
    assert_eq!(counts(&mut client), (0, 0, 9_999));
    assert_cut(&mut client);

    run(&mut client, "UPDATE kb.document SET body = body || ' Green.'");
    assert_eq!(counts(&mut client).0, 9_999);
    run(&mut client, "SELECT graph_communities('kb')");
    assert_eq!(counts(&mut client), (0, 0, 9_999));
    assert_cut(&mut client);
    run(
        &mut client,
        "UPDATE kb.document SET metadata = '{\"wet\": true}', title = 'T'",
    );
    assert_eq!(counts(&mut client).0, 0, "no text has changed");
    assert_cut(&mut client);
    run(&mut client, "DELETE FROM kb.document WHERE id % 2 = 0");
    assert_cut(&mut client);
    run(&mut client, "DELETE FROM kb.document");
    assert_eq!(counts(&mut client), (0, 0, 0));
}

#[test]
fn rollback_and_savepoints_leave_what_was() {
    let database = Database::new();
    let mut client = collection(&database);
    run(
        &mut client,
        "INSERT INTO kb.document (body) SELECT 'Anna Ahl met Bert Beck in Ulm, ' || i FROM generate_series(1, 5) i; \
         SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
         SELECT graph_summarize('kb')",
    );
    let before = rows(&mut client, "kb");
    for statement in [
        "INSERT INTO kb.document (body) SELECT 'More ' || i FROM generate_series(1, 2000) i",
        "UPDATE kb.document SET body = 'Carl left Bonn.'",
        "UPDATE kb.document SET metadata = '{\"a\": 1}', id = id + 50",
        "DELETE FROM kb.document",
        "TRUNCATE kb.document",
        "SELECT rag_add('kb', 'Carl left Bonn.'); SELECT raptor_build('kb', cluster_size => 2); \
         SELECT graph_extract('kb'); \
           SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
        "SELECT graph_add('kb', 'Anna Ahl', 'knows', 'Carl')",
        "SELECT rag_alter('kb', '{\"leaf_tokens\": 50, \"leaf_overlap\": 0}')",
        "SELECT rag_drop('kb')",
    ] {
        run(&mut client, &format!("BEGIN; {statement}; ROLLBACK"));
        assert_eq!(before, rows(&mut client, "kb"), "{statement}");
        run(
            &mut client,
            &format!("BEGIN; SAVEPOINT s; {statement}; ROLLBACK TO s; COMMIT"),
        );
        assert_eq!(before, rows(&mut client, "kb"), "{statement}");
        failure(&mut client, &format!("BEGIN; {statement}; SELECT 1 / 0"));
        run(&mut client, "ROLLBACK");
        assert_eq!(before, rows(&mut client, "kb"), "{statement}");
    }
    run(
        &mut client,
        "BEGIN; SAVEPOINT s; SELECT rag_add('kb', 'Kept not.'); ROLLBACK TO s; SELECT rag_add('kb', 'Kept.'); COMMIT",
    );
    let texts: Vec<String> = list(
        &mut client,
        "SELECT text FROM kb.node WHERE level = 0 AND text LIKE 'Kept%'",
    );
    assert_eq!(texts, ["Kept."]);
    // The collection works on after errors inside its own functions, in the same transaction.
    run(&mut client, "BEGIN; SAVEPOINT s");
    failure(&mut client, "SELECT raptor_build('kb', method => 'nope')");
    run(&mut client, "ROLLBACK TO s; SELECT raptor_build('kb'); COMMIT");
    assert_cut(&mut client);
}

#[test]
fn who_may_only_write_documents_may_do_that_and_no_more() {
    let database = Database::new();
    let mut admin = collection(&database);
    for (right, statement) in [
        (
            "INSERT",
            "INSERT INTO kb.document (body) VALUES ('Written by another.'), ('# T\n\nTwo.')",
        ),
        (
            "UPDATE, SELECT (id)",
            "UPDATE kb.document SET body = 'Changed by another.' WHERE id = -1",
        ),
        ("DELETE", "DELETE FROM kb.document"),
        ("TRUNCATE", "TRUNCATE kb.document"),
    ] {
        run(
            &mut admin,
            "TRUNCATE kb.document; INSERT INTO kb.document (id, body) VALUES (-1, 'First.')",
        );
        run(&mut admin, "SELECT raptor_build('kb')");
        let role = database.role(&right[..6].to_lowercase());
        run(
            &mut admin,
            &format!("GRANT USAGE ON SCHEMA kb TO {role}; GRANT {right} ON kb.document TO {role}"),
        );
        let mut client = database.client_as(&role);
        run(&mut client, statement);
        assert_cut(&mut admin);
        refused(
            &mut client,
            r#"
            SELECT rag_add('kb', 'x') --> 42501 permission denied for collection "kb"
            SELECT raptor_build('kb') --> 42501 permission denied for collection "kb"
            SELECT count(*) FROM kb.node --> 42501 permission denied for table node
            INSERT INTO kb.node DEFAULT VALUES --> 42501 permission denied for table node
            "#,
        );
        let error = failure(&mut client, "SELECT rag_add('kb', 'x')");
        assert!(
            error.hint().is_some_and(|hint| hint.contains("document")),
            "{:?}",
            error.hint()
        );
    }
}
