//! raptor_search, mode traversal: the walk down from the roots.

use std::collections::{BTreeMap, HashMap, HashSet};

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor_search::{by_hand, corpus, found};
use crate::support::{list, one, run};

/// The walk, from the tables: every node in the order of brute force, its level and its children.
struct Walk {
    rank: HashMap<i64, usize>,
    level: HashMap<i64, i32>,
    children: HashMap<i64, Vec<i64>>,
}

impl Walk {
    fn read(client: &mut Client) -> Walk {
        let rank = by_hand(client, "true")
            .into_iter()
            .enumerate()
            .map(|(at, (id, _))| (id, at))
            .collect();
        let rows = client.query("SELECT id, level FROM kb.node", &[]).unwrap();
        let level = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut children: HashMap<i64, Vec<i64>> = HashMap::new();
        for row in client
            .query("SELECT parent_id, child_id FROM kb.node_child", &[])
            .unwrap()
        {
            children.entry(row.get(0)).or_default().push(row.get(1));
        }
        Walk { rank, level, children }
    }

    /// What is kept of the nodes `leading`, and of that what is `shown`, best first.
    fn walk(&self, width: usize, depth: i32, leading: &HashSet<i64>, shown: &HashSet<i64>) -> Vec<i64> {
        let below: HashSet<i64> = self.children.values().flatten().copied().collect();
        let mut waiting: BTreeMap<i32, HashMap<i64, i32>> = BTreeMap::new();
        for (&id, &level) in self.level.iter().filter(|(id, _)| !below.contains(id)) {
            waiting.entry(level).or_default().insert(id, 1);
        }
        let mut kept = vec![];
        while let Some((_, nodes)) = waiting.pop_last() {
            let mut ids: Vec<i64> = nodes.keys().copied().filter(|id| leading.contains(id)).collect();
            ids.sort_by_key(|id| self.rank[id]);
            ids.truncate(width);
            for id in ids {
                let step = nodes[&id] + 1;
                for child in self.children.get(&id).into_iter().flatten().filter(|_| step <= depth) {
                    let entry = waiting
                        .entry(self.level[child])
                        .or_default()
                        .entry(*child)
                        .or_insert(step);
                    *entry = step.min(*entry);
                }
                kept.push(id);
            }
        }
        kept.retain(|id| shown.contains(id));
        kept.sort_by_key(|id| self.rank[id]);
        kept
    }
}

#[test]
fn the_walk_is_that_of_brute_force() {
    let database = Database::new();
    let mut client = corpus(&database);
    // Second parents, as soft clusters give them, and documents that the tree does not know yet.
    run(
        &mut client,
        "INSERT INTO kb.node_child (parent_id, child_id) SELECT p.id, c.id FROM kb.node p JOIN kb.node c ON c.level = p.level - 1 \
           WHERE p.level > 0 AND (p.id * 7 + c.id * 5) % 11 = 0 ON CONFLICT DO NOTHING; \
         INSERT INTO kb.document (source_key, body, metadata) SELECT 'new-' || i, 'Item' || i || ' holds part7.', '{\"lang\": \"en\"}' \
           FROM generate_series(4, 8) i",
    );
    let walk = Walk::read(&mut client);
    assert!(*walk.level.values().max().unwrap() >= 2);
    let everything: HashSet<i64> = walk.level.keys().copied().collect();
    for width in [1, 2, 3, 5, 50] {
        for depth in [1, 2, 3, 1000] {
            let arguments =
                format!("mode => 'traversal', k => 1000, overlap => 'keep', width => {width}, depth => {depth}");
            let expected = walk.walk(width, depth, &everything, &everything);
            assert_eq!(found(&mut client, &arguments), expected, "{arguments}");
            let cut = found(&mut client, &arguments.replace("1000, overlap", "4, overlap"));
            assert_eq!(cut, expected[..expected.len().min(4)]);
        }
    }
    // What a filter hides on the way is walked through, if it leads to something.
    let en = "jsonb '{\"lang\": \"en\", \"year\": 2001}'";
    for (scope, passes, shown) in [
        (
            "filter => '{\"lang\": \"en\", \"year\": 2001}'",
            format!("d.metadata @> {en}"),
            format!("n.metadata @> {en}"),
        ),
        (
            "documents => '{3, 4, 40}'",
            "d.id IN (3, 4, 40)".to_owned(),
            "NOT EXISTS (SELECT FROM kb.node_source s WHERE s.node_id = n.id AND s.document_id NOT IN (3, 4, 40)) \
             AND (n.level > 0 OR n.document_id IN (3, 4, 40))"
                .to_owned(),
        ),
        ("filter => '{\"lang\": \"fr\"}'", "false".to_owned(), "false".to_owned()),
    ] {
        let ids = |client: &mut Client, sql: String| list::<i64>(client, &sql).into_iter().collect::<HashSet<i64>>();
        let leading = ids(
            &mut client,
            format!(
                "SELECT n.id FROM kb.node n WHERE EXISTS (SELECT FROM kb.document d WHERE {passes} AND (d.id = n.document_id \
                 OR EXISTS (SELECT FROM kb.node_source s WHERE s.node_id = n.id AND s.document_id = d.id)))"
            ),
        );
        let shown = ids(&mut client, format!("SELECT n.id FROM kb.node n WHERE {shown}"));
        for width in [1, 2, 5] {
            let arguments = format!("mode => 'traversal', k => 1000, overlap => 'keep', width => {width}, {scope}");
            let expected = walk.walk(width, 1000, &leading, &shown);
            assert_eq!(expected.is_empty(), leading.is_empty(), "{arguments}");
            assert_eq!(found(&mut client, &arguments), expected, "{arguments}");
        }
    }
    // A range of levels chooses what is shown of the walk.
    let all = found(
        &mut client,
        "mode => 'traversal', k => 1000, overlap => 'keep', width => 3",
    );
    for (range, from, to) in [
        ("max_level => 0", 0, 0),
        ("min_level => 1", 1, 99),
        ("min_level => 1, max_level => 1", 1, 1),
    ] {
        let arguments = format!("mode => 'traversal', k => 1000, overlap => 'keep', width => 3, {range}");
        let expected: Vec<i64> = all
            .iter()
            .copied()
            .filter(|id| (from..=to).contains(&walk.level[id]))
            .collect();
        assert!(!expected.is_empty());
        assert_eq!(found(&mut client, &arguments), expected, "{arguments}");
    }
}

/// A tree by hand over six leaves: the cosine of a node with [1,0,…] is that of its angle. Leaf b has two parents.
const BY_HAND: &str = "SELECT rag_create('kb', 8); \
    INSERT INTO kb.document (id, source_key, body) SELECT ascii(c) - 96, c, 'Leaf ' || c || '.' FROM unnest('{a,b,c,d,e,f}'::text[]) c; \
    CREATE FUNCTION at(angle float8) RETURNS vector IMMUTABLE LANGUAGE sql AS \
      $$SELECT ARRAY[cosd(angle), sind(angle), 0, 0, 0, 0, 0, 0]::vector$$; \
    UPDATE kb.node SET id = -id; UPDATE kb.node n SET id = n.document_id, embedding = at(('{10,60,20,30,5,80}'::int[])[n.document_id]); \
    INSERT INTO kb.node (id, level, text, text_hash, token_count, embedding, source_count) VALUES \
      (11, 1, 'Summary of a and b.', '\\x01', 6, at(40), 2), (12, 1, 'Summary of c and d.', '\\x02', 6, at(50), 2), \
      (13, 1, 'Summary of b, e and f.', '\\x03', 7, at(70), 3), (21, 2, 'Summary of all.', '\\x04', 4, at(45), 6); \
    INSERT INTO kb.node_child (parent_id, child_id, weight) VALUES \
      (11, 1, 1), (11, 2, 0.6), (12, 3, 1), (12, 4, 1), (13, 2, 0.4), (13, 5, 1), (13, 6, 1), (21, 11, 1), (21, 12, 1), (21, 13, 1); \
    INSERT INTO kb.node_source (node_id, document_id) SELECT parent_id, child_id FROM kb.node_child WHERE child_id < 10 \
      UNION SELECT 21, generate_series(1, 6)";

pub fn by_hand_tree(database: &Database) -> Client {
    let mut client = database.client();
    run(&mut client, BY_HAND);
    client
}

fn walked(client: &mut Client, arguments: &str) -> Vec<i64> {
    let sql = format!(
        "SELECT node_id FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, mode => 'traversal', {arguments})"
    );
    list(client, &sql)
}

#[test]
fn each_level_is_entered_through_the_nearest_above_it() {
    let database = Database::new();
    let mut client = by_hand_tree(&database);
    // 13 is the third of its level, so that leaf 5, the nearest of all, is found by a width of 3 alone.
    assert_eq!(walked(&mut client, "width => 2"), [1, 3, 11, 21, 12]);
    assert_eq!(walked(&mut client, "width => 3"), [5, 1, 3, 11, 21, 12, 13]);
    assert_eq!(walked(&mut client, "width => 1"), [1, 11, 21]);
    assert_eq!(walked(&mut client, "width => 2, depth => 1"), [21]);
    assert_eq!(walked(&mut client, "width => 2, depth => 2"), [11, 21, 12]);
    assert_eq!(walked(&mut client, "width => 2, k => 2"), [1, 3]);
    // Leaves are of 3 tokens, summaries of 6 and 4.
    assert_eq!(walked(&mut client, "width => 2, max_tokens => 7"), [1, 3]);
    assert_eq!(walked(&mut client, "width => 2, max_tokens => 11"), [1, 3, 21]);
    assert_eq!(walked(&mut client, "width => 100, max_level => 0"), [5, 1, 3, 4, 2, 6]);
    // A leaf that no summary knows is a root, and competes with leaves alone.
    run(
        &mut client,
        "INSERT INTO kb.document (id, body) VALUES (7, 'Leaf g.'); \
         UPDATE kb.node SET id = 7, embedding = at(0) WHERE document_id = 7",
    );
    assert_eq!(walked(&mut client, "width => 2"), [7, 1, 11, 21, 12]);
    assert_eq!(walked(&mut client, "width => 2, depth => 1"), [7, 21]);
}

#[test]
fn what_waits_to_be_written_is_walked_through() {
    let database = Database::new();
    let mut client = by_hand_tree(&database);
    let empty = "UPDATE kb.node SET text = '', embedding = NULL, stale = true WHERE id IN";
    run(&mut client, &format!("{empty} (11)"));
    // Its children compete on their level, it takes no place on its own.
    assert_eq!(walked(&mut client, "width => 2"), [5, 1, 21, 12, 13]);
    run(&mut client, &format!("{empty} (21)"));
    assert_eq!(walked(&mut client, "width => 1"), [1, 12]);
    assert_eq!(walked(&mut client, "width => 1, depth => 1"), [1, 12]);
    run(&mut client, &format!("{empty} (12, 13)"));
    assert_eq!(walked(&mut client, "width => 2"), [5, 1]);
}

#[test]
fn rows_that_go_in_a_circle_end() {
    let database = Database::new();
    let mut client = by_hand_tree(&database);
    run(
        &mut client,
        "INSERT INTO kb.node_child (parent_id, child_id) VALUES (1, 21), (1, 11)",
    );
    // Nothing is a root then but what stands beside the circle.
    assert_eq!(walked(&mut client, "width => 2"), [0; 0]);
    run(&mut client, "DELETE FROM kb.node_child WHERE child_id = 21");
    assert_eq!(walked(&mut client, "width => 2"), [1, 3, 11, 21, 12]);
    assert!(one::<i64>(&mut client, "SELECT count(*) FROM raptor_tree('kb')") > 9);
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM raptor_tree('kb', 1, 'up')"),
        3
    );
}

#[test]
fn without_a_tree_leaves_are_searched_and_that_is_said() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (body) SELECT 'Isla met Ron' || i || '.' FROM generate_series(1, 9) i",
    );
    let output = database.psql("SELECT text FROM raptor_search('kb', 'Ron4', mode => 'traversal', k => 1);");
    assert!(output.contains("Isla met Ron4."), "{output}");
    assert!(output.contains("NOTICE:  there is no tree to walk down"), "{output}");
    assert!(output.contains("SELECT raptor_build('kb')"), "{output}");
}
