//! raptor_search: exact while the candidates are few, through the HNSW index above that, never too few rows.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one};

/// A collection `kb` of 40 documents of several leaves, with its tree.
const CORPUS: &str = r#"SELECT rag_create('kb', settings => '{"leaf_tokens": 30, "leaf_overlap": 6, "block_tokens": 80}');
    INSERT INTO kb.document (source_key, body, metadata)
    SELECT 'doc-' || i, (SELECT string_agg('Item' || (i * 7 + s * 3) % 40 || ' holds part' || (i + s * s) % 23 ||
             ' and the blue valve' || (i * s) % 11 || ' of hall ' || s || '.', ' ' ORDER BY s)
             FROM generate_series(1, 1 + i % 9) s),
           jsonb_build_object('lang', CASE WHEN i % 3 = 0 THEN 'de' ELSE 'en' END, 'year', 2000 + i % 4, 'site', 'north')
    FROM generate_series(1, 40) i;
    SELECT * FROM raptor_build('kb', 'greedy')"#;
pub const QUERY: &str = "item5 holds part7 and blue valve3";

pub fn corpus(database: &Database) -> Client {
    let mut client = database.client();
    client.batch_execute(CORPUS).unwrap();
    client
}

/// Node ids of a search for QUERY with further arguments.
pub fn found(client: &mut Client, arguments: &str) -> Vec<i64> {
    list(
        client,
        &format!("SELECT node_id FROM raptor_search('kb', '{QUERY}', {arguments})"),
    )
}

/// The nodes `n` that meet a condition, repeating or not, in the order of the search, by cosines that SQL computes from the numbers.
pub fn by_hand(client: &mut Client, condition: &str) -> Vec<(i64, f64)> {
    let sql = format!(
        "WITH q AS (SELECT rag_embed('kb', '{QUERY}')::real[] AS v) \
         SELECT n.id, (SELECT sum(a::float8 * b::float8) / sqrt(sum(a::float8 ^ 2) * sum(b::float8 ^ 2)) \
                       FROM unnest(n.embedding::real[], q.v) u (a, b)) AS score \
         FROM kb.node n CROSS JOIN q LEFT JOIN kb.document d ON d.id = n.document_id \
         WHERE n.embedding IS NOT NULL AND ({condition}) \
         ORDER BY n.embedding <=> q.v::vector, n.level, n.text_hash, \
                  d.body_hash, d.source_key COLLATE \"C\", n.ordinal, n.id"
    );
    client
        .query(&sql, &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

#[test]
fn scores_and_ranks_are_those_of_brute_force() {
    let database = Database::new();
    let mut client = corpus(&database);
    for (arguments, condition) in [
        ("k => 10000000", "true"),
        ("k => 1000, mode => 'leaf'", "n.level = 0"),
        (
            r#"k => 1000, filter => '{"lang": "de"}'"#,
            r#"n.metadata @> '{"lang": "de"}'"#,
        ),
        (
            r#"k => 1000, mode => 'leaf', filter => '{"lang": "en", "year": 2001}'"#,
            r#"n.level = 0 AND d.metadata @> '{"lang": "en", "year": 2001}'"#,
        ),
        (r#"k => 1000, filter => '{"lang": "fr"}'"#, "false"),
        (
            "k => 1000, documents => '{1, 2, 3, 17, 17, NULL, 999}'",
            "CASE WHEN n.level = 0 THEN d.id IN (1, 2, 3, 17) ELSE NOT EXISTS (SELECT FROM kb.node_source s \
             WHERE s.node_id = n.id AND s.document_id NOT IN (1, 2, 3, 17)) END",
        ),
        ("k => 1000, documents => '{}'", "false"),
        ("k => 1000, min_level => 1", "n.level >= 1"),
        ("k => 1000, max_level => 1", "n.level <= 1"),
        (
            r#"k => 1000, min_level => 1, max_level => 1, filter => '{"site": "north"}'"#,
            "n.level = 1",
        ),
        ("k => 1000, min_level => 900", "false"),
    ] {
        let expected = by_hand(&mut client, condition);
        let arguments = &format!("{arguments}, overlap => 'keep'");
        let sql = format!(
            "SELECT s.node_id, s.score, s.level = n.level AND s.text = n.text AND s.token_count = n.token_count \
                    AND s.metadata = n.metadata AND s.documents = n.source_count AND s.document_ids = \
                    ARRAY(SELECT document_id FROM kb.node_source x WHERE x.node_id = n.id \
                          UNION SELECT n.document_id WHERE n.level = 0 ORDER BY 1) \
             FROM raptor_search('kb', '{QUERY}', {arguments}) s JOIN kb.node n ON n.id = s.node_id"
        );
        let rows = client.query(&sql, &[]).unwrap();
        assert_eq!(rows.len(), expected.len(), "{arguments}");
        for row in &rows {
            let (id, score): (i64, f64) = (row.get(0), row.get(1));
            let (_, real) = expected.iter().find(|e| e.0 == id).unwrap();
            assert!(
                (score - real).abs() < 1e-6,
                "{arguments}: node {id} has {score}, not {real}"
            );
            assert!(
                row.get::<_, bool>(2),
                "{arguments}: what is shown of node {id} is what stands there"
            );
        }
        let ids: Vec<i64> = found(&mut client, arguments);
        assert_eq!(ids, expected.iter().map(|e| e.0).collect::<Vec<_>>(), "{arguments}");
    }
}

#[test]
fn k_cuts_the_ranking() {
    let database = Database::new();
    let mut client = corpus(&database);
    let all = found(&mut client, "k => 1000");
    for k in [0, 1, 7, 10] {
        assert_eq!(found(&mut client, &format!("k => {k}")), all[..k]);
    }
    assert_eq!(found(&mut client, "k => 2147483647"), all);
    assert_eq!(
        found(&mut client, "mode => 'collapsed'"),
        all[..10],
        "k is 10 if it is not given"
    );
}

#[test]
fn summaries_are_found_only_if_all_their_documents_are_listed() {
    let database = Database::new();
    let mut client = corpus(&database);
    let sources: Vec<i64> = list(
        &mut client,
        "SELECT document_id FROM kb.node_source WHERE node_id = (SELECT min(id) FROM kb.node WHERE level = 1) ORDER BY 1",
    );
    assert!(sources.len() > 1);
    let summaries = |client: &mut Client, documents: &[i64]| -> Vec<Vec<i64>> {
        let sql = "SELECT document_ids FROM raptor_search('kb', $1, k => 1000, documents => $2, overlap => 'keep') WHERE level > 0";
        client
            .query(sql, &[&QUERY, &documents])
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect()
    };
    assert!(summaries(&mut client, &sources).contains(&sources));
    for shown in summaries(&mut client, &sources[1..]) {
        assert!(!shown.contains(&sources[0]), "{shown:?}");
    }
}

#[test]
fn a_budget_skips_what_does_not_fit_and_goes_on() {
    let database = Database::new();
    let mut client = corpus(&database);
    let rows = client
        .query(
            &format!("SELECT node_id, token_count FROM raptor_search('kb', '{QUERY}', k => 60, overlap => 'keep')"),
            &[],
        )
        .unwrap();
    let mut skipped = false;
    for budget in [1, 25, 60, 200, 500, 100_000] {
        let (mut left, mut expected) = (budget, vec![]);
        for row in &rows {
            let tokens: i32 = row.get(1);
            if tokens <= left {
                left -= tokens;
                skipped |= expected.len()
                    < rows
                        .iter()
                        .position(|r| r.get::<_, i64>(0) == row.get::<_, i64>(0))
                        .unwrap();
                expected.push(row.get::<_, i64>(0));
            }
        }
        assert_eq!(
            found(
                &mut client,
                &format!("k => 60, max_tokens => {budget}, overlap => 'keep'")
            ),
            expected,
            "{budget}"
        );
    }
    assert!(skipped, "a case in which the next node that fits is taken");
}

#[test]
fn a_vector_finds_what_its_text_finds() {
    let database = Database::new();
    let mut client = corpus(&database);
    for arguments in [
        "k => 50",
        "k => 50, mode => 'leaf'",
        r#"k => 50, filter => '{"lang": "de"}', max_tokens => 300"#,
    ] {
        let search = |query: &str| {
            format!("SELECT to_jsonb(s) FROM raptor_search('kb', {query}, {arguments}) WITH ORDINALITY s")
        };
        let by_text: Vec<serde_json::Value> = list(&mut client, &search(&format!("'{QUERY}'::text")));
        let by_vector: Vec<serde_json::Value> = list(&mut client, &search(&format!("rag_embed('kb', '{QUERY}')")));
        assert!(by_text.len() > 5);
        assert_eq!(by_text, by_vector);
    }
}

#[test]
fn ties_are_in_canonical_order() {
    let database = Database::new();
    let mut client = database.client();
    let mut orders = vec![];
    for (collection, order) in [("a", "k"), ("b", "k DESC"), ("c", "md5(k)")] {
        client
            .batch_execute(&format!(
                "SELECT rag_create('{collection}'); INSERT INTO {collection}.document (source_key, body) \
                 SELECT k, body FROM (VALUES ('b'), ('B'), ('a'), ('é'), ('z'), ('10'), ('9'), ('a a')) s (k), \
                   (VALUES ('The same words.'), ('words the SAME')) t (body) WHERE (k = 'z') = (body = 'words the SAME') \
                 ORDER BY {order}; SELECT * FROM raptor_build('{collection}', cluster_size => 3)"
            ))
            .unwrap();
        let sql = format!(
            "SELECT coalesce(d.source_key, '-') || s.level FROM raptor_search('{collection}', 'same words', k => 20) \
               WITH ORDINALITY AS s (node_id, level, score, text, token_count, metadata, document_ids, documents, rank) \
             JOIN {collection}.node n ON n.id = s.node_id LEFT JOIN {collection}.document d ON d.id = n.document_id ORDER BY s.rank"
        );
        let keys: Vec<String> = list(&mut client, &sql);
        for k in 1..keys.len() {
            let sql = sql.replace("k => 20", &format!("k => {k}"));
            assert_eq!(list::<String>(&mut client, &sql), keys[..k], "{collection}, k = {k}");
        }
        orders.push(keys);
    }
    let leaves: Vec<&str> = orders[0].iter().filter_map(|key| key.strip_suffix('0')).collect();
    let bytes = ["10", "9", "B", "a", "a a", "b", "é"];
    assert_eq!(
        leaves.iter().filter(|key| **key != "z").copied().collect::<Vec<_>>(),
        bytes
    );
    assert!(leaves[0] == "z" || leaves[7] == "z", "{leaves:?}");
    assert!(
        orders[0][..8].iter().all(|key| key.ends_with('0')),
        "of equal score, leaves stand first: {:?}",
        orders[0]
    );
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0], orders[2]);
}

#[test]
fn searching_writes_nothing() {
    let database = Database::new();
    let mut client = corpus(&database);
    client
        .batch_execute(
            "SELECT graph_add('kb', 'Item5', 'holds', 'Part7', document_id => 1); \
             SELECT * FROM graph_communities('kb'); SELECT * FROM graph_summarize('kb')",
        )
        .unwrap();
    let searches = [
        "raptor_search('kb', 'blue valve3')",
        "raptor_search('kb', 'blue valve3', filter => '{\"lang\": \"en\"}', documents => '{1, 2}', max_tokens => 100)",
        "raptor_search('kb', rag_embed('kb', 'blue valve3'), mode => 'leaf')",
        "raptor_search('kb', 'blue valve3', mode => 'traversal', min_level => 0)",
        "raptor_tree('kb')",
        "raptor_tree('kb', (SELECT min(id) FROM kb.node), 'up')",
        "graph_global('kb', 'item5')",
        "graph_local('kb', 'Item5', hops => 2)",
        "rag_status('kb')",
    ];
    for exact_below in [10_000, 0] {
        client
            .batch_execute(&format!(
                r#"SELECT rag_alter('kb', '{{"exact_below": {exact_below}}}')"#
            ))
            .unwrap();
        client.batch_execute("BEGIN READ ONLY").unwrap();
        for search in searches {
            let rows: i64 = one(&mut client, &format!("SELECT count(*) FROM {search}"));
            assert!(rows > 0, "{search}");
        }
        let wrote: bool = one(&mut client, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL");
        assert!(!wrote);
        client.batch_execute("COMMIT").unwrap();
    }
    let volatile: Vec<String> = list(
        &mut client,
        "SELECT oid::regprocedure::text FROM pg_proc WHERE provolatile <> 's' AND proname IN \
         ('raptor_search', 'raptor_tree', 'graph_global', 'graph_local', 'rag_embed', 'rag_status')",
    );
    assert!(volatile.is_empty(), "{volatile:?}");
}
