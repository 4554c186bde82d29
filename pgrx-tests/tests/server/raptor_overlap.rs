//! raptor_search leaves out what repeats: a summary and what stands below it, of which one says all that the other says.

use std::collections::{HashMap, HashSet};

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor_search::{QUERY, corpus, found};
use crate::support::{list, run};

/// The text of each node, with a space at either end and no line breaks, and its sentences alike.
fn sentences(client: &mut Client) -> HashMap<i64, (String, Vec<String>)> {
    let rows = client.query("SELECT id, text FROM kb.node", &[]).unwrap();
    rows.iter()
        .map(|row| {
            let text = format!(" {} ", row.get::<_, String>(1).replace('\n', " "));
            let parts = text.split('.').map(str::trim).filter(|s| !s.is_empty());
            let parts = parts.map(|s| format!(" {s}. ")).collect();
            (row.get(0), (text, parts))
        })
        .collect()
}

/// (below, above) for all nodes, however far.
fn kin(client: &mut Client) -> HashSet<(i64, i64)> {
    let sql = "WITH RECURSIVE a (id, up) AS (SELECT child_id, parent_id FROM kb.node_child UNION \
               SELECT a.id, c.parent_id FROM a JOIN kb.node_child c ON c.child_id = a.up) SELECT id, up FROM a";
    let rows = client.query(sql, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// What is left of a ranking.
fn expected(
    ranking: &[i64],
    said: &HashMap<i64, (String, Vec<String>)>,
    kin: &HashSet<(i64, i64)>,
    skip: bool,
) -> Vec<i64> {
    let length = |parts: &mut dyn Iterator<Item = &String>| parts.map(String::len).sum::<usize>();
    let mut taken: Vec<i64> = vec![];
    for &id in ranking {
        let (text, parts) = &said[&id];
        let related: Vec<i64> = taken
            .iter()
            .copied()
            .filter(|other| kin.contains(&(id, *other)) || kin.contains(&(*other, id)))
            .collect();
        let again = |part: &&String| related.iter().any(|other| said[other].0.contains(part.as_str()));
        let (repeated, all) = (length(&mut parts.iter().filter(again)), length(&mut parts.iter()));
        let holds_one = related
            .iter()
            .any(|other| said[other].1.iter().all(|part| text.contains(part.as_str())));
        let left_out = match skip {
            true => 2 * repeated >= all || holds_one,
            false => repeated == all,
        };
        if !left_out {
            taken.push(id);
        }
    }
    taken
}

#[test]
fn what_is_left_out_repeats_and_what_is_shown_does_not() {
    let database = Database::new();
    let mut client = corpus(&database);
    let (said, kin) = (sentences(&mut client), kin(&mut client));
    let all = found(&mut client, "k => 1000, overlap => 'keep'");
    let skip = expected(&all, &said, &kin, true);
    let extend = expected(&all, &said, &kin, false);
    assert!(skip.len() < all.len() && extend.len() < all.len() && skip != extend);
    assert_eq!(found(&mut client, "k => 1000"), skip);
    assert_eq!(found(&mut client, "k => 1000, overlap => 'extend'"), extend);
    // What is left out makes room for the next.
    for k in 1..40 {
        assert_eq!(found(&mut client, &format!("k => {k}")), skip[..k.min(skip.len())]);
        let arguments = format!("k => {k}, overlap => 'extend'");
        assert_eq!(found(&mut client, &arguments), extend[..k.min(extend.len())]);
    }
    let leaves = found(&mut client, "k => 1000, mode => 'leaf'");
    assert_eq!(
        leaves,
        found(&mut client, "k => 1000, mode => 'leaf', overlap => 'keep'")
    );
    assert_eq!(leaves, found(&mut client, "k => 1000, max_level => 0"));
    let budget: Vec<i64> = list(
        &mut client,
        &format!("SELECT sum(token_count) FROM raptor_search('kb', '{QUERY}', k => 1000, max_tokens => 200)"),
    );
    assert!(budget[0] > 150 && budget[0] <= 200, "{budget:?}");
}

/// A collection `kb` with the leaves `one` and `two`, and a summary `both` of them, whose cosines with [1,0,…] fall in the
/// order that is given.
fn three(database: &Database, order: [&str; 3]) -> Client {
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8); \
         INSERT INTO kb.document (source_key, body) VALUES ('one', 'Isla commands it.'), ('two', 'It leaves at ten.'); \
         INSERT INTO kb.node (id, level, text, text_hash, token_count, embedding, source_count) \
           VALUES (100, 1, E'Isla commands it.\\nIt leaves at ten.', '', 9, '[1,0,0,0,0,0,0,0]', 2); \
         INSERT INTO kb.node_child (parent_id, child_id) SELECT 100, id FROM kb.node WHERE level = 0; \
         INSERT INTO kb.node_source SELECT 100, id FROM kb.document",
    );
    for (rank, name) in order.iter().enumerate() {
        let sql = format!(
            "UPDATE kb.node n SET embedding = '[1,{rank},0,0,0,0,0,0]' WHERE coalesce( \
               (SELECT d.source_key FROM kb.document d WHERE d.id = n.document_id), 'both') = '{name}'"
        );
        run(&mut client, &sql);
    }
    client
}

fn names(client: &mut Client, arguments: &str) -> Vec<String> {
    list(
        client,
        &format!(
            "SELECT CASE WHEN text LIKE E'%\\n%' THEN 'both' WHEN text LIKE 'Isla%' THEN 'one' ELSE 'two' END \
             FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, {arguments})"
        ),
    )
}

#[test]
fn the_better_of_two_that_say_the_same_is_shown() {
    for (order, skip, extend) in [
        (["both", "one", "two"], &["both"][..], &["both"][..]),
        (["one", "both", "two"], &["one", "two"], &["one", "both"]),
        (["one", "two", "both"], &["one", "two"], &["one", "two"]),
    ] {
        let database = Database::new();
        let mut client = three(&database, order);
        for mode in ["collapsed", "traversal"] {
            let named = |overlap: &str| format!("mode => '{mode}', overlap => '{overlap}'");
            assert_eq!(names(&mut client, &named("skip")), skip, "{order:?}");
            assert_eq!(names(&mut client, &named("extend")), extend, "{order:?}");
            assert_eq!(names(&mut client, &named("keep")), order, "{order:?}");
        }
        // What does not fit hides nothing.
        if order[0] == "both" {
            assert_eq!(names(&mut client, "max_tokens => 8"), ["one"]);
            assert_eq!(names(&mut client, "k => 1, max_tokens => 8"), [""; 0]);
        }
        // A sentence of its own is something to add.
        run(
            &mut client,
            "UPDATE kb.node SET text = text || ' Always.' WHERE level = 1",
        );
        let left: Vec<&str> = order
            .into_iter()
            .take_while(|name| *name != "both")
            .chain(["both"])
            .collect();
        assert_eq!(names(&mut client, "overlap => 'extend'"), left);
        // Without an edge nothing repeats.
        run(&mut client, "DELETE FROM kb.node_child");
        assert_eq!(names(&mut client, "overlap => 'skip'"), order);
    }
}

#[test]
fn a_summary_that_waits_to_be_written_is_not_shown() {
    let database = Database::new();
    let mut client = three(&database, ["both", "one", "two"]);
    run(
        &mut client,
        "UPDATE kb.node SET text = '', embedding = NULL, stale = true WHERE level = 1",
    );
    for mode in ["collapsed", "traversal"] {
        assert_eq!(names(&mut client, &format!("mode => '{mode}'")), ["one", "two"]);
        assert_eq!(
            names(&mut client, &format!("mode => '{mode}', min_level => 1")),
            [""; 0]
        );
    }
}

#[test]
fn a_ranking_that_only_repeats_says_where_it_stopped() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8); \
         INSERT INTO kb.document (source_key, body) SELECT i::text, 'It is so.' FROM generate_series(1, 900) i; \
         INSERT INTO kb.node (id, level, text, text_hash, token_count, embedding, source_count) \
           VALUES (10000, 1, 'It is so.', '', 4, '[1,0,0,0,0,0,0,0]', 900); \
         UPDATE kb.node SET embedding = '[1,1,0,0,0,0,0,0]' WHERE level = 0; \
         INSERT INTO kb.node_child (parent_id, child_id) SELECT 10000, id FROM kb.node WHERE level = 0",
    );
    let output = database.psql(
        "SELECT level FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, k => 5);\n\
         SELECT count(*) FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, k => 40);\n\
         SELECT count(*) FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, k => 5, overlap => 'keep');",
    );
    assert!(
        output.contains("NOTICE:  found only 1 of 5 nodes, since the others of the nearest 320 repeat them"),
        "{output}"
    );
    assert!(output.contains("HINT:  overlap => 'keep'"), "{output}");
    // With a k for which all candidates are read, there is nothing to say.
    assert_eq!(output.matches("NOTICE").count(), 1, "{output}");
}
