//! What the choices at the making of a collection do: dimensions, language, partitions, sizes.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, misplaced, one, refused, run};

#[test]
fn every_number_of_dimensions_that_pgvector_has() {
    let database = Database::new();
    let mut client = database.client();
    for (dimensions, notice, index) in [
        (1, None, Some("(embedding vector_cosine_ops)")),
        (384, None, Some("(embedding vector_cosine_ops)")),
        (2000, None, Some("vector_cosine_ops")),
        (2001, Some("indexed through halfvec"), Some("halfvec(2001)")),
        (4000, Some("indexed through halfvec"), Some("halfvec_cosine_ops")),
        (4001, Some("search will be exact"), None),
        (16000, Some("search will be exact"), None),
    ] {
        let name = format!("d{dimensions}");
        let output = database.psql(&format!(
            "SET hnsw.iterative_scan = strict_order; SELECT rag_create('{name}', {dimensions})"
        ));
        match notice {
            None => assert!(!output.contains("NOTICE"), "{output}"),
            Some(words) => assert!(
                output.contains(words) && output.matches("NOTICE").count() == 1,
                "{output}"
            ),
        }
        run(
            &mut client,
            &format!(
                "INSERT INTO {name}.document (body) VALUES ('Pears ripen.'), ('Rivers freeze.'), ('Moss grows.'); \
                 SELECT raptor_build('{name}')"
            ),
        );
        let sizes: Vec<i32> = list(
            &mut client,
            &format!("SELECT DISTINCT vector_dims(embedding) FROM {name}.node"),
        );
        assert_eq!(sizes, [dimensions]);
        let definition: Vec<String> = list(
            &mut client,
            &format!("SELECT indexdef FROM pg_indexes WHERE schemaname = '{name}' AND indexname = 'node_embedding'"),
        );
        match index {
            None => assert!(definition.is_empty(), "{definition:?}"),
            Some(words) => assert!(definition.len() == 1 && definition[0].contains(words), "{definition:?}"),
        }
        let found: Vec<String> = list(
            &mut client,
            &format!("SELECT text FROM raptor_search('{name}', 'rivers freeze', k => 3, mode => 'leaf')"),
        );
        assert_eq!(found.len(), 3);
        if dimensions > 1 {
            assert_eq!(found[0], "Rivers freeze.");
        }
    }
}

#[test]
fn a_notice_tells_of_pgvectors_filter_where_it_is_off() {
    let database = Database::new();
    let output = database.psql("SELECT rag_create('kb')");
    assert!(output.contains("NOTICE:  hnsw.iterative_scan is off"), "{output}");
    assert!(
        output.contains("HINT:  SET hnsw.iterative_scan = strict_order"),
        "{output}"
    );
    for mode in ["strict_order", "relaxed_order"] {
        let output = database.psql(&format!(
            "SET hnsw.iterative_scan = {mode}; SELECT rag_create('kb_{mode}')"
        ));
        assert!(!output.contains("NOTICE"), "{output}");
    }
    let mut client = database.client();
    run(&mut client, "SELECT rag_add('kb', 'A document.')");
    let setting: String = one(
        &mut client,
        "SELECT count(*)::text || current_setting('hnsw.iterative_scan') \
                                            FROM raptor_search('kb', 'document')",
    );
    assert_eq!(setting, "1off", "the functions leave the caller's setting as it is");
}

#[test]
fn the_offsets_hold_at_every_size_of_leaf() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8, settings => '{\"leaf_tokens\": 8, \"leaf_overlap\": 0, \"block_tokens\": 50}')",
    );
    run(
        &mut client,
        "INSERT INTO kb.document (body) SELECT string_agg(i || '. Häuser 🏠 stehen in Österreich.', E'\\n\\n') \
         FROM generate_series(1, 40) i",
    );
    assert_eq!(misplaced(&mut client, "kb"), 0);
    let largest: i32 = one(&mut client, "SELECT max(token_count) FROM kb.node");
    assert!(largest <= 8);
}
#[test]
fn a_language_brings_its_stop_words() {
    let database = Database::new();
    let mut client = database.client();
    for language in ["simple", "german", "english"] {
        run(
            &mut client,
            &format!("SELECT rag_create('{language}', language => '{language}')"),
        );
        let shown: String = one(
            &mut client,
            &format!("SELECT language FROM rag_collections WHERE collection = '{language}'"),
        );
        assert_eq!(shown, language);
    }
    let same = |client: &mut Client, collection: &str, with: &str, without: &str| -> bool {
        one(
            client,
            &format!("SELECT rag_embed('{collection}', '{with}') = rag_embed('{collection}', '{without}')"),
        )
    };
    assert!(same(&mut client, "german", "der Hund und die Katze", "Hund Katze"));
    assert!(!same(&mut client, "german", "the dog", "dog"));
    assert!(same(&mut client, "english", "the dog", "dog"));
    assert!(!same(&mut client, "english", "der Hund und die Katze", "Hund Katze"));
    assert!(!same(&mut client, "simple", "the dog", "dog"));
    assert!(!same(&mut client, "simple", "der Hund und die Katze", "Hund Katze"));
}

#[test]
fn partitions_are_the_values_of_their_keys() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', partition_by => '{tenant}'); \
         SELECT rag_create('two', partition_by => ARRAY['it''s', 'b\"\\c'])",
    );
    run(
        &mut client,
        "INSERT INTO kb.document (body, metadata) SELECT 'Note ' || n || ' of ' || coalesce(t, 'nobody'), \
           CASE WHEN t IS NULL THEN '{}' ELSE jsonb_build_object('tenant', t) END \
         FROM generate_series(1, 3) n, unnest(ARRAY['acme', 'null', NULL]) t; \
         INSERT INTO kb.document (body, metadata) VALUES ('Note 4', '{\"tenant\": null}'), ('Note 5', \
         '{\"tenant\": 7}'), \
           ('Note 6', '{\"tenant\": {\"b\": [1, null], \"a\": \"é\"}}'); \
         SELECT raptor_build('kb')",
    );
    let found: Vec<String> = list(
        &mut client,
        "SELECT format('%s: %s documents, %s leaves, %s roots', d.partition, count(*), \
           (SELECT count(*) FROM kb.node n WHERE n.partition = d.partition AND level = 0), \
           (SELECT count(*) FROM kb.node n WHERE n.partition = d.partition \
              AND NOT EXISTS (SELECT FROM kb.node_child c WHERE c.child_id = n.id))) \
         FROM kb.document d GROUP BY d.partition ORDER BY d.partition COLLATE \"C\"",
    );
    assert_eq!(
        found,
        [
            "\"acme\": 3 documents, 3 leaves, 1 roots",
            "\"null\": 3 documents, 3 leaves, 1 roots",
            "7: 1 documents, 1 leaves, 1 roots",
            "null: 4 documents, 4 leaves, 1 roots",
            "{\"a\": \"é\", \"b\": [1, null]}: 1 documents, 1 leaves, 1 roots",
        ]
    );
    let mixed: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id JOIN kb.node n ON n.id = c.child_id \
         WHERE p.partition <> n.partition",
    );
    assert_eq!(mixed, 0);
    run(
        &mut client,
        "INSERT INTO two.document (body, metadata) VALUES ('x', '{\"it''s\": 1, \"b\\\"\\\\c\": \"q\"}'), ('y', \
         '{\"it''s\": 2}')",
    );
    let two: Vec<String> = list(&mut client, "SELECT partition FROM two.document ORDER BY body");
    assert_eq!(two, ["[1, \"q\"]", "[2, null]"]);
    let keys: Vec<String> = one(
        &mut client,
        "SELECT partition_by FROM rag_collections WHERE collection = 'two'",
    );
    assert_eq!(keys, ["it's", "b\"\\c"]);
    // How strings are quoted in the session is not the collection's business.
    run(
        &mut client,
        "SET standard_conforming_strings = off; SELECT rag_create('old', partition_by => ARRAY[E'a\\\\b']); RESET ALL",
    );
    run(
        &mut client,
        "INSERT INTO old.document (body, metadata) VALUES ('x', '{\"a\\\\b\": 5}')",
    );
    assert_eq!(one::<String>(&mut client, "SELECT partition FROM old.document"), "5");
    refused(
        &mut client,
        r#"
        SELECT rag_create('three', partition_by => '{a,NULL}') --> 22004 a key of partition_by must not be null
        "#,
    );
}

#[test]
fn another_partition_takes_the_leaves_and_leaves_nothing() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 32, partition_by => '{tenant}')");
    run(
        &mut client,
        "INSERT INTO kb.document (body, metadata) SELECT 'Anna Ahl met Bert Beck, note ' || i || \
           CASE i WHEN 1 THEN ', said zyxwvut.' ELSE '.' END, jsonb_build_object('tenant', 't' || i % 2) \
         FROM generate_series(1, 6) i",
    );
    let build = "SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
                 SELECT graph_summarize('kb')";
    run(&mut client, build);
    let told = "SELECT DISTINCT partition FROM (SELECT partition, text FROM kb.node UNION ALL \
                  SELECT partition, text FROM kb.community) p WHERE text LIKE '%zyxwvut%' ORDER BY 1";
    assert_eq!(list::<String>(&mut client, told), ["\"t1\""]);
    let leaf: i64 = one(
        &mut client,
        "SELECT id FROM kb.node WHERE level = 0 AND text LIKE '%zyxwvut%'",
    );
    run(
        &mut client,
        "UPDATE kb.document SET metadata = '{\"tenant\": \"t0\"}' WHERE body LIKE '%zyxwvut%'",
    );
    assert_eq!(list::<String>(&mut client, told), ["\"t0\""]);
    assert_eq!(
        list::<i64>(&mut client, "SELECT id FROM kb.node WHERE text LIKE '%zyxwvut%'"),
        [leaf]
    );
    run(&mut client, build);
    assert_eq!(list::<String>(&mut client, told), ["\"t0\""]);
    let counts: Vec<String> = list(
        &mut client,
        "SELECT partition || ' ' || source_count FROM (SELECT partition, source_count FROM kb.node WHERE level > 0 \
           UNION ALL SELECT partition, source_count FROM kb.community) p ORDER BY 1",
    );
    assert_eq!(counts, ["\"t0\" 4", "\"t0\" 4", "\"t1\" 2", "\"t1\" 2"]);
}
