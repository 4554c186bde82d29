//! The tree of summaries: its laws, and that the same documents give the same bytes.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one};

/// Inserts documents of one to nine sentences over a vocabulary of 40 words, in the order that is asked.
fn insert(client: &mut Client, collection: &str, documents: i64, order: &str) {
    let sql = format!(
        "INSERT INTO {collection}.document (source_key, body, metadata) \
         SELECT 'doc-' || i, (SELECT string_agg('Item' || (i * 7 + s * 3) % 40 || ' holds part' || (i + s * s) % 23 || \
                  ' and the blue valve' || (i * s) % 11 || ' of hall ' || s || '.', ' ' ORDER BY s) \
                  FROM generate_series(1, 1 + i % 9) s), \
                jsonb_build_object('lang', CASE WHEN i % 3 = 0 THEN 'de' ELSE 'en' END, 'year', 2000 + i % 4, 'site', 'north') \
         FROM generate_series(1, {documents}) i ORDER BY {order}"
    );
    client.batch_execute(&sql).unwrap();
}

const SMALL_LEAVES: &str = r#"settings => '{"leaf_tokens": 30, "leaf_overlap": 6, "block_tokens": 80}'"#;

/// How many items each level of the tree `kb` has: its own nodes and those below that were alone in their cluster and
/// stand in for themselves.
fn items(client: &mut Client) -> Vec<i64> {
    let sql = "SELECT count(*) FILTER (WHERE n.level <= l.level AND coalesce(p.level, 1000) > l.level) \
               FROM (SELECT generate_series(0, max(level)) AS level FROM kb.node) l, kb.node n, LATERAL \
               (SELECT min(p.level) AS level FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id WHERE c.child_id = n.id) p \
               WHERE n.embedding IS NOT NULL OR n.level > 0 GROUP BY l.level ORDER BY l.level";
    list(client, sql)
}

/// Checks what holds for every tree, and answers its number of roots.
pub fn check_laws(client: &mut Client) -> i64 {
    for (law, sql) in [
        (
            "the parents of a node are on one level",
            "SELECT c.child_id FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id GROUP BY 1 HAVING min(p.level) < max(p.level)",
        ),
        (
            "a weight is a probability",
            "SELECT FROM kb.node_child WHERE weight <= 0 OR weight > 1",
        ),
        (
            "no two parents have the same children",
            "SELECT FROM (SELECT array_agg(child_id ORDER BY child_id) AS children FROM kb.node_child GROUP BY parent_id) c \
             GROUP BY children HAVING count(*) > 1",
        ),
        (
            "what the summarizer reads of a cluster is within the limit, each text once and at most half of the limit of it",
            "SELECT parent_id FROM (SELECT DISTINCT c.parent_id, n.text, least(n.token_count, l.limit / 2) AS tokens, l.limit \
               FROM kb.node_child c JOIN kb.node n ON n.id = c.child_id, \
                    (SELECT coalesce((SELECT value::text::int FROM kb.setting WHERE key = 'cluster_tokens'), 3500) AS limit) l \
               WHERE (SELECT value ->> 'method' FROM kb.setting WHERE key = 'step.tree') <> 'greedy') c \
             GROUP BY parent_id, c.limit HAVING sum(tokens) > c.limit",
        ),
        (
            "a parent has two children or more",
            "SELECT n.id FROM kb.node n LEFT JOIN kb.node_child c ON c.parent_id = n.id \
            WHERE n.level > 0 GROUP BY 1 HAVING count(c.child_id) < 2",
        ),
        (
            "a child stands below its parent",
            "SELECT p.id FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id \
            JOIN kb.node n ON n.id = c.child_id WHERE n.level >= p.level OR n.partition <> p.partition",
        ),
        (
            "a vector is the embedding of the text",
            "SELECT id FROM kb.node \
            WHERE embedding IS DISTINCT FROM rag_embed('kb', text) OR (level > 0 AND embedding IS NULL)",
        ),
        (
            "hash and length are those of the text",
            "SELECT id FROM kb.node WHERE text_hash <> sha256(convert_to(text, 'UTF8')) \
            OR token_count < 1 OR token_count > 200",
        ),
        (
            "sources are the documents of the leaves below",
            "WITH RECURSIVE below AS ( \
              SELECT parent_id AS top, child_id AS id FROM kb.node_child \
              UNION SELECT b.top, c.child_id FROM below b JOIN kb.node_child c ON c.parent_id = b.id), \
            real AS (SELECT DISTINCT b.top AS node_id, n.document_id FROM below b JOIN kb.node n ON n.id = b.id AND n.level = 0) \
            (TABLE real EXCEPT TABLE kb.node_source) UNION ALL (TABLE kb.node_source EXCEPT TABLE real)",
        ),
        (
            "source_count counts them",
            "SELECT n.id FROM kb.node n WHERE n.source_count <> \
            CASE WHEN n.level = 0 THEN 1 ELSE (SELECT count(*) FROM kb.node_source s WHERE s.node_id = n.id) END",
        ),
        (
            "metadata is what all documents share",
            "WITH pair AS ( \
              SELECT s.node_id, e.key, e.value, count(*) AS having FROM kb.node_source s \
              JOIN kb.document d ON d.id = s.document_id, jsonb_each(d.metadata) e GROUP BY 1, 2, 3), \
            shared AS (SELECT n.id, coalesce(jsonb_object_agg(p.key, p.value) FILTER (WHERE p.having = n.source_count), '{}') AS pairs \
              FROM kb.node n LEFT JOIN pair p ON p.node_id = n.id WHERE n.level > 0 GROUP BY n.id) \
            SELECT n.id FROM kb.node n JOIN shared s USING (id) WHERE n.metadata <> s.pairs",
        ),
        (
            "a leaf has its document's metadata",
            "SELECT n.id FROM kb.node n LEFT JOIN kb.document d ON d.id = n.document_id \
            WHERE n.level = 0 AND (d.metadata IS DISTINCT FROM n.metadata OR substr(d.body, n.start_char + 1, n.end_char - n.start_char) <> n.text)",
        ),
    ] {
        let sql = format!("SELECT count(*) FROM ({sql}) broken");
        assert_eq!(one::<i64>(client, &sql), 0, "{law}");
    }
    let levels = items(client);
    assert!(
        levels.windows(2).all(|pair| pair[1] <= (pair[0] + 1) / 2),
        "every level has at most half of the one below: {levels:?}"
    );
    let roots = "SELECT count(*) FROM kb.node n WHERE (n.embedding IS NOT NULL OR n.level > 0) \
                 AND NOT EXISTS (SELECT FROM kb.node_child c WHERE c.child_id = n.id)";
    one(client, roots)
}

#[test]
fn the_tree_keeps_its_laws_for_every_size() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(&format!("SELECT rag_create('kb', {SMALL_LEAVES})"))
        .unwrap();
    insert(&mut client, "kb", 60, "i");
    let leaves: i64 = one(&mut client, "SELECT count(*) FROM kb.node");
    assert!(leaves > 200, "{leaves}");
    for size in [2, 3, 8] {
        let sql = format!("SELECT nodes FROM raptor_build('kb', 'greedy', cluster_size => {size}) ORDER BY level");
        let nodes: Vec<i64> = list(&mut client, &sql);
        assert_eq!(nodes[0], leaves);
        assert_eq!(check_laws(&mut client), 1, "one root");
        // Clusters are full but for the last: the number of levels follows, and so do the items of each.
        let mut expected = vec![leaves];
        while *expected.last().unwrap() > 1 {
            expected.push((expected.last().unwrap() + size - 1) / size);
        }
        assert_eq!(items(&mut client), expected);
        let stored: Vec<i64> = list(
            &mut client,
            "SELECT count(*) FROM kb.node GROUP BY level ORDER BY level",
        );
        assert_eq!(stored, nodes, "what is answered is what stands there");
        let most: i64 = one(
            &mut client,
            "SELECT max(n) FROM (SELECT count(*) n FROM kb.node_child GROUP BY parent_id) c",
        );
        assert_eq!(most, size);
    }
    // The setting is what counts when the argument is not given.
    client
        .batch_execute(r#"SELECT rag_alter('kb', '{"cluster_size": 5}'); SELECT * FROM raptor_build('kb', 'greedy')"#)
        .unwrap();
    assert_eq!(check_laws(&mut client), 1);
    assert_eq!(items(&mut client)[1], (leaves + 4) / 5);
}

#[test]
fn soft_trees_keep_the_laws() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(&format!("SELECT rag_create('kb', {SMALL_LEAVES})"))
        .unwrap();
    insert(&mut client, "kb", 60, "i");
    let largest = "SELECT max(n) FROM (SELECT count(DISTINCT n.text) n FROM kb.node_child c JOIN kb.node n ON n.id = c.child_id GROUP BY parent_id) c";
    for method in ["bisect", "mixture"] {
        for size in [2, 3, 8] {
            let sql = format!("SELECT FROM raptor_build('kb', '{method}', cluster_size => {size})");
            client.batch_execute(&sql).unwrap();
            assert_eq!(check_laws(&mut client), 1, "{method} {size}");
            assert!(one::<i64>(&mut client, largest) <= size, "{method} {size}");
        }
        for tokens in [100, 500, 3500] {
            let sql = format!(
                r#"SELECT rag_alter('kb', '{{"cluster_tokens": {tokens}}}'); SELECT * FROM raptor_build('kb', '{method}', seed => 7)"#
            );
            client.batch_execute(&sql).unwrap();
            assert_eq!(check_laws(&mut client), 1, "{method}, {tokens} tokens");
        }
        let shape: String = one(
            &mut client,
            "SELECT value ->> 'method' || ' ' || (value ->> 'seed') FROM kb.setting WHERE key = 'step.tree'",
        );
        assert_eq!(shape, format!("{method} 7"));
    }
    let soft = "SELECT count(*) FROM (SELECT FROM kb.node_child GROUP BY child_id HAVING count(*) > 1) c";
    client
        .batch_execute(r#"SELECT rag_alter('kb', '{"cluster_tokens": 500}'); SELECT * FROM raptor_build('kb')"#)
        .unwrap();
    assert!(one::<i64>(&mut client, soft) > 0, "some leaves stand between clusters");
}

/// Every row of the tree with its place on disk: what was not written again has not moved.
const PLACES: &str = "SELECT string_agg(concat_ws('|', tableoid::regclass, ctid, xmin), E'\\n' ORDER BY 1) FROM \
    (SELECT tableoid, ctid, xmin FROM kb.node UNION ALL SELECT tableoid, ctid, xmin FROM kb.node_child \
     UNION ALL SELECT tableoid, ctid, xmin FROM kb.node_source) t";

#[test]
fn what_has_not_changed_is_kept() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(&format!(
            "SELECT rag_create('kb', embedder => 'builtin:hash', {SMALL_LEAVES})"
        ))
        .unwrap();
    insert(&mut client, "kb", 60, "i");
    client
        .batch_execute(r#"SELECT rag_alter('kb', '{"cluster_tokens": 300}'); SELECT * FROM raptor_build('kb')"#)
        .unwrap();
    let before: String = one(&mut client, PLACES);
    client.batch_execute("SELECT * FROM raptor_build('kb')").unwrap();
    assert_eq!(before, one::<String>(&mut client, PLACES), "nothing is written twice");

    // A document with the text of another: its leaf joins that one's clusters, whose texts stay.
    let texts: Vec<String> = list(&mut client, "SELECT text FROM kb.node WHERE level > 0 ORDER BY id");
    client
        .batch_execute(
            "INSERT INTO kb.document (source_key, body, metadata) SELECT 'copy', body, '{\"site\": \"south\"}' FROM kb.document \
             WHERE source_key = 'doc-9'; SELECT * FROM raptor_build('kb')",
        )
        .unwrap();
    assert_eq!(
        texts,
        list::<String>(&mut client, "SELECT text FROM kb.node WHERE level > 0 ORDER BY id")
    );
    assert_eq!(check_laws(&mut client), 1);

    // What the summarizer is told has changed: all is written anew.
    client
        .batch_execute(r#"SELECT rag_alter('kb', '{"summary_tokens": 60}'); SELECT * FROM raptor_build('kb')"#)
        .unwrap();
    let longest: i32 = one(&mut client, "SELECT max(token_count) FROM kb.node WHERE level > 0");
    assert!(longest <= 60, "{longest}");
    assert_eq!(check_laws(&mut client), 1);
}

#[test]
fn max_levels_stops_the_tree() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute("SELECT rag_create('kb')").unwrap();
    insert(&mut client, "kb", 9, "i");
    let leaves: i64 = one(&mut client, "SELECT count(*) FROM kb.node");
    for (levels, roots) in [(1, (leaves + 1) / 2), (2, (leaves + 3) / 4), (64, 1)] {
        let sql =
            format!("SELECT max(level) FROM raptor_build('kb', 'greedy', max_levels => {levels}, cluster_size => 2)");
        let highest: i32 = one(&mut client, &sql);
        assert_eq!(
            highest,
            if levels == 64 {
                items(&mut client).len() as i32 - 1
            } else {
                levels
            }
        );
        assert_eq!(check_laws(&mut client), roots);
    }
}

#[test]
fn few_equal_and_wordless_leaves_all_end_well() {
    let database = Database::new();
    let mut client = database.client();
    // (bodies as a SELECT, leaves, nodes of each level above, roots)
    let cases: [(&str, i64, &[i64], i64); 9] = [
        ("SELECT '' WHERE false", 0, &[], 0),
        ("SELECT ''", 0, &[], 0),
        ("VALUES ('One lonely leaf.')", 1, &[], 1),
        ("VALUES ('The first leaf.'), ('The second leaf.')", 2, &[1], 1),
        (
            "VALUES ('The first leaf.'), ('The second leaf.'), ('A third one.')",
            3,
            &[1],
            1,
        ),
        ("SELECT 'Leaf number ' || i FROM generate_series(1, 9) i", 9, &[1], 1),
        (
            "SELECT 'The same words in each.' FROM generate_series(1, 20)",
            20,
            &[1],
            1,
        ),
        ("SELECT repeat('🦀 — … ', i) FROM generate_series(1, 3) i", 3, &[], 0),
        (
            "VALUES ('… 🦀 !'), ('Words in this one.'), ('And also in the other.')",
            3,
            &[1],
            1,
        ),
    ];
    for (bodies, leaves, above, roots) in cases {
        client.batch_execute("SELECT rag_create('kb')").unwrap();
        client
            .batch_execute(&format!("INSERT INTO kb.document (body) {bodies}"))
            .unwrap();
        let nodes: Vec<i64> = list(&mut client, "SELECT nodes FROM raptor_build('kb') ORDER BY level");
        let expected: Vec<i64> = std::iter::once(leaves)
            .filter(|n| *n > 0)
            .chain(above.iter().copied())
            .collect();
        assert_eq!(nodes, expected, "{bodies}");
        if leaves > 0 {
            assert_eq!(check_laws(&mut client), roots, "{bodies}");
        }
        client.batch_execute("SELECT rag_drop('kb')").unwrap();
    }
}

#[test]
fn leaves_without_words_are_never_found_and_never_summarised() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(
            "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) VALUES \
             ('crab', '… 🦀 !'), ('a', 'Words in this one.'), ('b', 'And also in the other.'); SELECT * FROM raptor_build('kb')",
        )
        .unwrap();
    let found: Vec<i32> = list(
        &mut client,
        "SELECT level FROM raptor_search('kb', 'words', overlap => 'keep') ORDER BY level",
    );
    assert_eq!(found, [0, 0, 1]);
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM raptor_search('kb', '🦀 …')"),
        0
    );
    let sources: Vec<String> = list(
        &mut client,
        "SELECT d.source_key FROM kb.node_source s JOIN kb.document d ON d.id = s.document_id ORDER BY 1",
    );
    assert_eq!(sources, ["a", "b"]);
}

/// A digest of texts, levels, links and vectors of a collection, and of what searches answer; of no id.
fn digest(client: &mut Client, collection: &str) -> (i64, String) {
    let name = "n.level || ' ' || n.text || ' ' || coalesce(d.source_key, '-') || ' ' || coalesce(n.ordinal, -1) || ' ' || n.metadata \
                || ' ' || coalesce(n.embedding::text, '-') || ' ' || n.source_count";
    let node = format!("{collection}.node n LEFT JOIN {collection}.document d ON d.id = n.document_id");
    let search =
        "SELECT string_agg(concat_ws(' ', s.rank, s.level, s.score, s.text, s.documents), ',' ORDER BY s.rank) \
                  FROM (VALUES ('item5 holds part7'), ('blue valve3 of hall 2'), ('north')) q (query), \
                       ROWS FROM (raptor_search('kb', q.query, k => 40)) WITH ORDINALITY AS \
                       s (node_id, level, score, text, token_count, metadata, document_ids, documents, rank)"
            .replace("'kb'", &format!("'{collection}'"));
    let sql = format!(
        "SELECT (SELECT count(*) FROM {collection}.node), md5(concat_ws(E'\\n', \
           (SELECT string_agg(x, ',' ORDER BY x COLLATE \"C\") FROM (SELECT {name} AS x FROM {node}) n), \
           (SELECT string_agg(x, ',' ORDER BY x COLLATE \"C\") FROM (SELECT p.text || ' > ' || {name} AS x FROM {node} \
              JOIN {collection}.node_child c ON c.child_id = n.id JOIN {collection}.node p ON p.id = c.parent_id) n), \
           ({search})))"
    );
    let row = client.query_one(&sql, &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn a_summary_holds_what_each_child_alone_says() {
    let database = Database::new();
    let mut client = database.client();
    for embedder in ["builtin:hash", "builtin:lsa"] {
        let sql = format!(
            "SELECT rag_create('kb', embedder => '{embedder}', settings => '{{\"summary_tokens\": 2000}}'); \
             INSERT INTO kb.document (body) SELECT 'The pump of hall ' || i % 5 || ' hums. Engineers oil the valve' || i || ' each week, and the valve' || i || ' shuts. ' \
               || 'The bridge near the old mill is narrow and long.' FROM generate_series(1, 60) i; \
             SELECT raptor_build('kb', cluster_size => 6)"
        );
        client.batch_execute(&sql).unwrap();
        let missing = "SELECT count(*) FROM kb.node p JOIN kb.node_child c ON c.parent_id = p.id JOIN kb.node n ON n.id = c.child_id, \
             regexp_matches(n.text, 'valve\\d+', 'g') w WHERE n.level = 0 AND p.text !~ (w[1] || '\\M')";
        assert_eq!(one::<i64>(&mut client, missing), 0, "{embedder}");
        assert_eq!(foreign_sentences(&mut client), 0, "{embedder}");
        client.batch_execute("SELECT rag_drop('kb')").unwrap();
    }
}

/// Sentences of summaries that stand in none of their children.
fn foreign_sentences(client: &mut Client) -> i64 {
    let sql = "SELECT count(*) FROM kb.node p, regexp_split_to_table(p.text, '(?<=\\.)\\s+') s \
         WHERE p.level > 0 AND NOT EXISTS (SELECT FROM kb.node_child c JOIN kb.node n ON n.id = c.child_id \
           WHERE c.parent_id = p.id AND strpos(n.text, s) > 0)";
    one(client, sql)
}

#[test]
fn the_same_texts_have_the_same_summaries_beside_others() {
    let database = Database::new();
    let mut client = database.client();
    let sql = "SELECT rag_create('kb', partition_by => '{site}', settings => '{\"leaf_tokens\": 30, \"leaf_overlap\": 6, \"block_tokens\": 80}')";
    client.batch_execute(sql).unwrap();
    insert(&mut client, "kb", 90, "i");
    let learn = "INSERT INTO kb.document (source_key, body, metadata) SELECT source_key || ' again', body, '{\"site\": \"south\"}' FROM kb.document";
    client.batch_execute(learn).unwrap();
    client.batch_execute("CALL rag_refresh('kb')").unwrap();
    let learned: i64 = one(
        &mut client,
        "SELECT (value ->> 'leaves')::bigint FROM kb.setting WHERE key = 'lsa'",
    );
    assert!(learned > 600, "{learned}");
    client
        .batch_execute("SELECT raptor_build('kb', cluster_size => 4)")
        .unwrap();
    let digests: Vec<String> = list(
        &mut client,
        "SELECT md5(string_agg(text, E'\\n' ORDER BY level, text COLLATE \"C\")) FROM kb.node GROUP BY partition",
    );
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn the_same_documents_give_the_same_bytes() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(&format!(
            "SELECT rag_create('a', {SMALL_LEAVES}), rag_create('b', {SMALL_LEAVES})"
        ))
        .unwrap();
    insert(&mut client, "a", 60, "i");
    insert(&mut client, "b", 30, "md5(i::text)");
    client
        .batch_execute("INSERT INTO b.document (source_key, body) VALUES ('gone', 'It comes and goes.')")
        .unwrap();
    client
        .batch_execute("SELECT * FROM raptor_build('a'); SELECT * FROM raptor_build('b')")
        .unwrap();
    let first = digest(&mut client, "a");
    assert_ne!(first, digest(&mut client, "b"));

    client.batch_execute("SELECT * FROM raptor_build('a')").unwrap();
    assert_eq!(digest(&mut client, "a"), first, "built again");

    // The other collection comes to the same documents by another way.
    client.batch_execute("DELETE FROM b.document").unwrap();
    insert(&mut client, "b", 60, "md5(i::text || 'x')");
    client.batch_execute("SELECT * FROM raptor_build('b')").unwrap();
    assert_eq!(digest(&mut client, "b"), first, "inserted in another order");

    for statement in [
        "UPDATE a.document SET title = 'moves the row' WHERE id % 3 = 1",
        "CLUSTER a.node USING node_text_hash",
        "VACUUM FULL a.document",
        "VACUUM FULL a.node",
    ] {
        client.batch_execute(statement).unwrap();
    }
    assert_eq!(digest(&mut client, "a"), first, "rows in another order");
    client.batch_execute("SELECT * FROM raptor_build('a')").unwrap();
    assert_eq!(digest(&mut client, "a"), first, "built over rows in another order");

    let dump = database.run("pg_dump", &["--no-owner"]);
    let restored = Database::empty();
    let output = restored.psql(&dump);
    assert!(!output.contains("ERROR"), "{output}");
    let mut other = restored.client();
    assert_eq!(digest(&mut other, "a"), first, "restored from a dump");
    other.batch_execute("SELECT * FROM raptor_build('a')").unwrap();
    assert_eq!(digest(&mut other, "a"), first, "restored from a dump and built");
}

#[test]
fn a_tree_of_equal_documents_does_not_depend_on_their_order() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute("SELECT rag_create('a'), rag_create('b')").unwrap();
    for (collection, order) in [("a", "i"), ("b", "i DESC")] {
        client
            .batch_execute(&format!(
                "INSERT INTO {collection}.document (source_key, body, metadata) \
                 SELECT 'key-' || i, 'The very same words.', jsonb_build_object('n', i) FROM generate_series(1, 20) i ORDER BY {order}; \
                 SELECT * FROM raptor_build('{collection}')"
            ))
            .unwrap();
    }
    assert_eq!(digest(&mut client, "a"), digest(&mut client, "b"));
    let clusters = |client: &mut Client, collection: &str| -> Vec<String> {
        list(
            client,
            &format!(
                "SELECT string_agg(d.source_key, ' ' ORDER BY d.source_key COLLATE \"C\") FROM {collection}.node n \
                 JOIN {collection}.node_source s ON s.node_id = n.id JOIN {collection}.document d ON d.id = s.document_id \
                 WHERE n.level = 1 GROUP BY n.id ORDER BY 1"
            ),
        )
    };
    let expected = clusters(&mut client, "a");
    assert_eq!(expected, clusters(&mut client, "b"));
    assert_eq!(expected.len(), 1, "equal texts are one item");
}
