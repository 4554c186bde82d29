//! raptor_tree: the tree as rows, down and up.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor_search::corpus;
use crate::raptor_traversal::by_hand_tree;
use crate::support::{failure, list, one, run};

/// Paths of a tree, each as text.
fn paths(client: &mut Client, arguments: &str) -> Vec<String> {
    list(client, &format!("SELECT path::text FROM raptor_tree('kb'{arguments})"))
}

#[test]
fn every_node_of_a_built_tree_stands_below_its_parent() {
    let database = Database::new();
    let mut client = corpus(&database);
    let (rows, nodes, wrong): (i64, i64, i64) = {
        let row = client
            .query_one(
                "SELECT count(*), count(DISTINCT t.node_id), count(*) FILTER (WHERE t.depth <> cardinality(t.path) \
                   OR t.path[t.depth] <> t.node_id OR t.parent_id IS DISTINCT FROM t.path[t.depth - 1] \
                   OR (t.parent_id IS NULL) <> (t.depth = 1) OR t.weight IS DISTINCT FROM c.weight \
                   OR (t.level, t.token_count, t.text) <> (n.level, n.token_count, n.text) \
                   OR (t.parent_id IS NOT NULL AND c.parent_id IS NULL)) \
                 FROM raptor_tree('kb') t JOIN kb.node n ON n.id = t.node_id \
                 LEFT JOIN kb.node_child c ON (c.parent_id, c.child_id) = (t.parent_id, t.node_id)",
                &[],
            )
            .unwrap();
        (row.get(0), row.get(1), row.get(2))
    };
    assert_eq!(wrong, 0);
    assert_eq!(nodes, one::<i64>(&mut client, "SELECT count(*) FROM kb.node"));
    assert!(rows >= nodes);
    // A parent comes before what is below it, and all that is below it before its siblings.
    let all: Vec<Vec<i64>> = list(&mut client, "SELECT path FROM raptor_tree('kb')");
    for two in all.windows(2) {
        let shared = two[1].len() - 1;
        assert!(
            shared <= two[0].len() && two[1][..shared] == two[0][..shared],
            "{two:?}"
        );
    }
    for depth in 1..4 {
        let cut: Vec<Vec<i64>> = list(
            &mut client,
            &format!("SELECT path FROM raptor_tree('kb', depth => {depth})"),
        );
        let expected: Vec<Vec<i64>> = all.iter().filter(|path| path.len() <= depth).cloned().collect();
        assert_eq!(cut, expected);
    }
}

#[test]
fn a_node_with_two_parents_has_two_ways() {
    let database = Database::new();
    let mut client = by_hand_tree(&database);
    let down = paths(&mut client, "");
    assert_eq!(down.iter().filter(|path| path.ends_with(",2}")).count(), 2, "{down:?}");
    assert_eq!(down.len(), 11);
    assert_eq!(down[..2], ["{21}", "{21,11}"]);
    let weights: Vec<f64> = list(
        &mut client,
        "SELECT weight FROM raptor_tree('kb') WHERE node_id = 2 ORDER BY parent_id",
    );
    assert_eq!(weights, [0.6, 0.4]);

    assert_eq!(
        paths(&mut client, ", 2, 'up'"),
        ["{21}", "{21,11}", "{21,11,2}", "{21,13}", "{21,13,2}"]
    );
    assert_eq!(paths(&mut client, ", 2, 'up', 2"), ["{11}", "{11,2}", "{13}", "{13,2}"]);
    assert_eq!(paths(&mut client, ", 2, 'up', 1"), ["{2}"]);
    assert_eq!(paths(&mut client, ", 21, 'up'"), ["{21}"]);
    assert_eq!(paths(&mut client, ", 12").len(), 3);
    assert_eq!(paths(&mut client, ", 12, depth => 1"), ["{12}"]);
    assert_eq!(paths(&mut client, ", 2"), ["{2}"]);
    assert_eq!(paths(&mut client, ", depth => 1"), ["{21}"]);

    // What waits to be written is passed over: what is below it stands in its place.
    run(
        &mut client,
        "UPDATE kb.node SET text = '', embedding = NULL, stale = true WHERE id IN (21, 13)",
    );
    let roots = |client: &mut Client, depth: &str| -> Vec<i64> {
        list(
            client,
            &format!("SELECT node_id FROM raptor_tree('kb', depth => {depth}) WHERE depth = 1 ORDER BY 1"),
        )
    };
    assert_eq!(roots(&mut client, "1"), [2, 5, 6, 11, 12]);
    assert_eq!(roots(&mut client, "NULL"), [2, 5, 6, 11, 12]);
    assert_eq!(paths(&mut client, ", 2, 'up'").len(), 3);
    let shown: i64 = one(
        &mut client,
        "SELECT count(*) FROM raptor_tree('kb', 13) WHERE text <> ''",
    );
    assert_eq!(shown, 3);

    let error = failure(&mut client, "SELECT raptor_tree('kb', 77)");
    assert_eq!(
        (error.code().code(), error.message()),
        ("P0002", "node 77 does not exist in collection \"kb\"")
    );
}

#[test]
fn the_order_is_that_of_the_contents() {
    let database = Database::new();
    let mut client = database.client();
    let mut trees: Vec<Vec<String>> = vec![];
    for (name, order) in [("one", "i"), ("two", "i DESC"), ("three", "md5(i::text)")] {
        run(
            &mut client,
            &format!(
                "SELECT rag_create('{name}', settings => '{{\"leaf_tokens\": 20, \"leaf_overlap\": 4, \"block_tokens\": 60}}'); \
                 INSERT INTO {name}.document (source_key, body) SELECT 'd' || i, (SELECT string_agg('Ship' || i || ' carries crate' \
                   || (i * s) % 7 || ' to port' || s || '.', ' ' ORDER BY s) FROM generate_series(1, 1 + i % 5) s) \
                 FROM generate_series(1, 30) i ORDER BY {order}; SELECT raptor_build('{name}', cluster_size => 4)"
            ),
        );
        trees.push(list(
            &mut client,
            &format!("SELECT repeat(' ', depth) || text FROM raptor_tree('{name}')"),
        ));
    }
    assert_eq!(trees[0], trees[1]);
    assert_eq!(trees[0], trees[2]);
    // Leaves of one document stand as they stand in it.
    let split: i64 = one(
        &mut client,
        "SELECT count(*) FROM (SELECT n.document_id, n.ordinal, lag(n.ordinal) OVER (PARTITION BY trim_array(t.path, 1), n.document_id ORDER BY t.at) AS last \
           FROM raptor_tree('one') WITH ORDINALITY AS t (node_id, parent_id, level, depth, path, weight, token_count, text, at) \
           JOIN one.node n ON n.id = t.node_id WHERE n.level = 0) o WHERE last > ordinal",
    );
    assert_eq!(split, 0);
}

#[test]
fn policies_hide_nodes_and_what_is_left_has_roots_of_its_own() {
    let database = Database::new();
    let mut client = by_hand_tree(&database);
    let reader = database.role("reader");
    run(
        &mut client,
        &format!(
            "GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}; \
             ALTER TABLE kb.document ENABLE ROW LEVEL SECURITY; ALTER TABLE kb.node ENABLE ROW LEVEL SECURITY; \
             CREATE POLICY p ON kb.document FOR SELECT TO {reader} USING (id <= 3); \
             CREATE POLICY p ON kb.node FOR SELECT TO {reader} USING (id IN (1, 2, 3, 11))"
        ),
    );
    let mut theirs = database.client_as(&reader);
    assert_eq!(paths(&mut theirs, ""), ["{11}", "{11,1}", "{11,2}", "{3}"]);
    assert_eq!(paths(&mut theirs, ", 2, 'up'"), ["{11}", "{11,2}"]);
    assert_eq!(
        failure(&mut theirs, "SELECT raptor_tree('kb', 21)").code().code(),
        "P0002"
    );
    let found: Vec<i64> = list(
        &mut theirs,
        "SELECT node_id FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, mode => 'traversal')",
    );
    assert_eq!(found, [1, 3, 11, 2]);
    assert_eq!(paths(&mut client, "").len(), 11);
}
