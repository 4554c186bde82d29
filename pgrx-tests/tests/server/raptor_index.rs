//! Search through the HNSW index, over more nodes than are compared one by one.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one};

fn explain(client: &mut Client, sql: &str) -> String {
    list::<String>(client, &format!("EXPLAIN {sql}")).join("\n")
}

/// How often the index on the nodes' vectors was scanned, up to now.
fn index_scans(client: &mut Client) -> i64 {
    client.batch_execute("SELECT pg_stat_force_next_flush()").unwrap();
    let sql = "SELECT idx_scan FROM pg_stat_user_indexes WHERE schemaname = 'kb' AND indexrelname = 'node_embedding'";
    one(client, sql)
}

/// The query of the design: business rows, documents, leaves and summaries in one statement.
fn one_statement(columns: &str, filter: &str, query: &str) -> String {
    format!(
        "SELECT {columns} FROM kb.node n \
         LEFT JOIN kb.document d ON d.id = n.document_id LEFT JOIN articles a ON a.slug = d.source_key \
         {filter} ORDER BY n.embedding <=> (SELECT rag_embed('kb', '{query}')) LIMIT 5"
    )
}

/// 50,287 nodes: 44,000 leaves (ten have one text), of which 440 (1 %) have the tag "hundredth" and pass with their query far away, and
/// whose documents have rows in a table of the business.
const CORPUS: &str = r#"SELECT rag_create('kb', dimensions => 64);
    INSERT INTO kb.document (source_key, body, metadata)
    SELECT 'slug-' || i, 'w' || i % 997 || ' v' || i % 1009 || ' u' || i % 31 || ' t' || i % 7,
           jsonb_build_object('tag', CASE WHEN i < 3 THEN 'three' WHEN i < 13 THEN 'ten'
                                          WHEN i % 100 = 50 THEN 'hundredth' ELSE 'other' END)
    FROM generate_series(0, 43999) i;
    UPDATE kb.document SET body = 'zebra' WHERE source_key IN (SELECT 'slug-' || i FROM generate_series(3, 12) i);
    CREATE TABLE articles (slug text PRIMARY KEY, author text);
    INSERT INTO articles SELECT 'slug-' || i, 'author ' || i % 13 FROM generate_series(0, 43999) i;
    SELECT * FROM raptor_build('kb', 'greedy');
    ANALYZE articles; ANALYZE kb.document; ANALYZE kb.node"#;

#[test]
fn fifty_thousand_nodes_are_searched_through_the_index() {
    let database = Database::new();
    let mut owner = database.client();
    owner.batch_execute(CORPUS).unwrap();
    assert_eq!(one::<i64>(&mut owner, "SELECT count(*) FROM kb.node"), 50_287);

    let reader = database.role("reader");
    owner
        .batch_execute(&format!(
            "GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}; GRANT SELECT ON articles TO {reader}"
        ))
        .unwrap();
    for mut client in [owner, database.client_as(&reader)] {
        client.batch_execute("SET hnsw.iterative_scan = strict_order").unwrap();
        the_index_is_used(&mut client);
        filters_find_all_that_pass(&mut client);
    }
}

fn the_index_is_used(client: &mut Client) {
    let query = "w20 v21 u3";
    let plain = one_statement("n.level, n.text, d.title, a.author", "", query);
    let plan = explain(client, &plain);
    assert!(plan.contains("Index Scan using node_embedding"), "{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");
    let filtered = one_statement(
        "n.level, n.text, d.title, a.author",
        r#"WHERE n.metadata @> '{"tag": "other"}'"#,
        query,
    );
    let plan = explain(client, &filtered);
    assert!(plan.contains("Index Scan using node_embedding"), "{plan}");

    let before = index_scans(client);
    assert_eq!(client.query(&plain, &[]).unwrap().len(), 5);
    let between = index_scans(client);
    assert!(between > before, "the index is used as the plan says");
    let rows = client
        .query(
            &format!("SELECT score, level FROM raptor_search('kb', '{query}', k => 5)"),
            &[],
        )
        .unwrap();
    assert_eq!(rows.len(), 5);
    assert!(index_scans(client) > between, "the function uses it too");

    // What it finds is about as near as what is nearest.
    let nearest: f64 = one(
        client,
        &format!("SELECT max(1 - (embedding <=> (SELECT rag_embed('kb', '{query}')))) FROM kb.node"),
    );
    assert!(
        rows[0].get::<_, f64>(0) >= nearest - 0.1,
        "{} of {nearest}",
        rows[0].get::<_, f64>(0)
    );
    assert!(
        rows.windows(2)
            .all(|pair| pair[0].get::<_, f64>(0) >= pair[1].get::<_, f64>(0))
    );

    // More rows than the index gives are had by comparing all.
    let many: i64 = one(
        client,
        &format!("SELECT count(*) FROM raptor_search('kb', '{query}', k => 20000)"),
    );
    assert_eq!(many, 20_000);
}

fn filters_find_all_that_pass(client: &mut Client) {
    let query = "w1 v1 u1 t1";
    for (tag, passing) in [("hundredth", 440), ("three", 3), ("ten", 10)] {
        let filter = format!(r#"{{"tag": "{tag}"}}"#);
        let wanted: Vec<i64> = list(
            client,
            &format!("SELECT id FROM kb.node WHERE level = 0 AND metadata @> '{filter}' ORDER BY id"),
        );
        assert_eq!(wanted.len(), passing);
        let from_function =
            format!("SELECT node_id FROM raptor_search('kb', '{query}', filter => '{filter}', mode => 'leaf', k => K)");
        let where_tag = format!("WHERE n.level = 0 AND n.metadata @> '{filter}'");
        let from_statement = one_statement("n.id", &where_tag, query);
        for k in [5, 10] {
            let mut found: Vec<i64> = list(client, &from_function.replace('K', &k.to_string()));
            assert_eq!(found.len(), k.min(passing), "{tag}: the function");
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), k.min(passing));
            assert!(found.iter().all(|id| wanted.contains(id)));
            let found: Vec<i64> = list(client, &from_statement.replace("LIMIT 5", &format!("LIMIT {k}")));
            assert_eq!(found.len(), k.min(passing), "{tag}: the statement");
            assert!(found.iter().all(|id| wanted.contains(id)));
        }
    }
}

#[test]
fn rows_that_the_index_does_not_reach_are_found_all_the_same() {
    let database = Database::new();
    let mut client = database.client();
    // Ten leaves that pass stand behind more nearer ones than the index is told to look at.
    client
        .batch_execute(
            r#"SELECT rag_create('kb', 16, 'builtin:hash', settings => '{"exact_below": 0, "inline_rows": 0}');
               INSERT INTO kb.document (body, metadata)
               SELECT 'near w' || i % 5, '{"side": "here"}'::jsonb FROM generate_series(1, 3000) i UNION ALL
               SELECT 'far x' || i, '{"side": "there"}' FROM generate_series(1, 10) i;
               SELECT * FROM graph_extract('kb'); ANALYZE kb.node;
               SET hnsw.max_scan_tuples = 100; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_seqscan = off"#,
        )
        .unwrap();
    let direct = r#"SELECT n.id FROM kb.node n WHERE metadata @> '{"side": "there"}'
                    ORDER BY n.embedding <=> (SELECT rag_embed('kb', 'near w1')) LIMIT 10"#;
    let plan = explain(&mut client, direct);
    assert!(plan.contains("Index Scan using node_embedding"), "{plan}");
    let direct: Vec<i64> = list(&mut client, direct);
    assert!(
        direct.len() < 10,
        "the index alone does not reach them: {}",
        direct.len()
    );

    let before = index_scans(&mut client);
    let search = r#"SELECT text FROM raptor_search('kb', 'near w1', k => 10, filter => '{"side": "there"}')"#;
    let found: Vec<String> = list(&mut client, search);
    assert!(index_scans(&mut client) > before, "the index was asked first");
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|text| text.starts_with("far x")), "{found:?}");
    // With k above the number that pass, it gives all and ends.
    assert_eq!(
        list::<String>(&mut client, &search.replace("k => 10", "k => 1000")).len(),
        10
    );
    let settings: String = one(
        &mut client,
        "SELECT concat_ws(' ', current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan'))",
    );
    assert_eq!(settings, "40 off", "what the function sets for itself is set back");
}

#[test]
fn through_the_index_or_not_the_best_rows_are_the_same() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(
            "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) \
             SELECT 'k' || i, 'w' || i % 97 || ' v' || i % 101 || ' u' || i FROM generate_series(1, 900) i; \
             SELECT * FROM raptor_build('kb')",
        )
        .unwrap();
    let search = "SELECT node_id FROM raptor_search('kb', 'w5 v5 u5', k => 3)";
    let exact: Vec<i64> = list(&mut client, search);
    let before = index_scans(&mut client);
    list::<i64>(&mut client, search);
    assert_eq!(
        index_scans(&mut client),
        before,
        "few candidates are compared one by one"
    );
    client
        .batch_execute(r#"SELECT rag_alter('kb', '{"exact_below": 100}')"#)
        .unwrap();
    client
        .batch_execute("SET enable_seqscan = off; SET enable_sort = off")
        .unwrap();
    let indexed: Vec<i64> = list(&mut client, search);
    assert!(index_scans(&mut client) > before);
    assert_eq!(indexed[0], exact[0]);
    assert_eq!(indexed.len(), 3);
}

#[test]
fn many_dimensions_go_through_half_precision_or_without_an_index() {
    let database = Database::new();
    for (dimensions, class) in [
        (2000, "vector_cosine_ops"),
        (2001, "halfvec_cosine_ops"),
        (3000, "halfvec_cosine_ops"),
        (4000, "halfvec_cosine_ops"),
        (4001, ""),
        (5000, ""),
    ] {
        let mut client = database.client();
        client
            .batch_execute(&format!(
                "SELECT rag_create('kb', dimensions => {dimensions}, settings => '{{\"exact_below\": 0}}'); \
                 INSERT INTO kb.document (source_key, body) SELECT 'k' || i, 'word' || i || ' and other' || i % 7 FROM generate_series(1, 60) i; \
                 SELECT * FROM raptor_build('kb'); SET enable_seqscan = off; SET enable_sort = off"
            ))
            .unwrap();
        let definitions: Vec<String> = list(
            &mut client,
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'kb' AND indexname = 'node_embedding'",
        );
        let scans = |client: &mut Client| if class.is_empty() { 0 } else { index_scans(client) };
        let before = scans(&mut client);
        let found: Vec<String> = list(
            &mut client,
            "SELECT text FROM raptor_search('kb', 'word7 other0', k => 3)",
        );
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], "word7 and other0");
        if class.is_empty() {
            assert!(definitions.is_empty(), "{definitions:?}");
        } else {
            assert!(definitions[0].contains(class), "{definitions:?}");
            assert!(
                scans(&mut client) > before,
                "{dimensions} dimensions: the index is used"
            );
        }
        client.batch_execute("SELECT rag_drop('kb')").unwrap();
    }
}
