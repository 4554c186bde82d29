//! rag_explain: the candidates of rag_search, with what became of each.

use std::collections::HashMap;

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor_search::{QUERY, corpus};
use crate::support::{list, one, run};

/// Arguments behind the query.
const ARGUMENTS: [&str; 11] = [
    "3",
    "3, methods => '{dense,lexical}'",
    "10",
    "10000",
    "0",
    "10, methods => '{dense,lexical,tree,graph}'",
    "10, methods => '{tree}'",
    "20, methods => '{lexical,dense}', weights => '{0.5,2}', fusion => 'scores', candidates => 7",
    "10, expand => 'block', max_tokens => 100",
    "20, max_tokens => 60, filter => '{\"lang\": \"en\"}'",
    "20, methods => '{dense,tree}', max_tokens => 300, documents => ARRAY(SELECT generate_series(1, 20)::bigint)",
];

#[test]
fn what_is_shown_is_what_rag_search_shows() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(&mut client, "SELECT graph_extract('kb')");
    for arguments in ARGUMENTS {
        let ranks = "dense_rank, lexical_rank, tree_rank, graph_rank";
        let shown: Vec<String> = list(
            &mut client,
            &format!(
                "SELECT concat_ws(' ', rank, node_id, score, ({ranks})) FROM rag_explain('kb', '{QUERY}', {arguments}) WHERE rank IS NOT NULL"
            ),
        );
        let found: Vec<String> = list(
            &mut client,
            &format!(
                "SELECT concat_ws(' ', row_number() OVER (), node_id, score, ({ranks})) FROM rag_search('kb', '{QUERY}', {arguments})"
            ),
        );
        assert_eq!(shown, found, "{arguments}");
        let odd = format!(
            "SELECT count(*) FROM (SELECT *, lag(score) OVER () AS better FROM rag_explain('kb', '{QUERY}', {arguments})) e \
             WHERE (rank IS NULL) = (outcome = 'shown') OR score > better OR (dense_rank IS NULL) <> (dense_score IS NULL) \
               OR (lexical_rank IS NULL) <> (lexical_score IS NULL) OR (tree_rank IS NULL) <> (tree_score IS NULL) \
               OR (graph_rank IS NULL) <> (graph_score IS NULL) \
               OR outcome NOT IN ('shown', 'beyond k', 'does not fit the budget') AND outcome !~ '^repeats node \\d+$'"
        );
        assert_eq!(one::<i64>(&mut client, &odd), 0, "{arguments}");
    }
}

/// How often each outcome comes.
fn outcomes(client: &mut Client, arguments: &str) -> HashMap<String, i64> {
    let sql =
        format!("SELECT regexp_replace(outcome, '\\d+', 'N'), count(*) FROM rag_explain('kb', {arguments}) GROUP BY 1");
    client
        .query(&sql, &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

#[test]
fn why_a_candidate_is_not_shown() {
    let database = Database::new();
    let mut client = corpus(&database);
    let all = outcomes(
        &mut client,
        &format!("'{QUERY}', 4, methods => '{{dense,tree}}', candidates => 30"),
    );
    assert_eq!(all["shown"], 4);
    assert!(all["beyond k"] > 10, "{all:?}");
    // The budget skips and goes on.
    let tight = format!("'{QUERY}', 20, max_tokens => 60");
    let sql = format!("SELECT outcome FROM rag_explain('kb', {tight})");
    let list: Vec<String> = list(&mut client, &sql);
    let skipped = list
        .iter()
        .position(|outcome| outcome == "does not fit the budget")
        .unwrap();
    assert!(
        list[..20].iter().all(|outcome| outcome != "beyond k") && skipped > 0,
        "{list:?}"
    );
    // A summary and its leaves: whichever is better stands.
    let pairs = format!(
        "SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM kb.node_child c \
           WHERE (c.parent_id, c.child_id) IN ((e.node_id, b.node_id), (b.node_id, e.node_id)))), bool_and(b.outcome = 'shown') \
         FROM rag_explain('kb', '{QUERY}', 200, methods => '{{dense,tree}}') e \
         JOIN rag_explain('kb', '{QUERY}', 200, methods => '{{dense,tree}}') b ON e.outcome = 'repeats node ' || b.node_id"
    );
    let row = client.query_one(&pairs, &[]).unwrap();
    assert!(row.get::<_, i64>(0) > 0 && row.get::<_, i64>(1) > 0, "{row:?}");
    assert!(row.get::<_, bool>(2), "what is repeated is shown");
    let blocks = format!(
        "SELECT bool_and(n.block_id = b.block_id), count(*) FROM rag_explain('kb', '{QUERY}', 100, expand => 'block') e \
         JOIN kb.node n ON n.id = e.node_id JOIN kb.node b ON e.outcome = 'repeats node ' || b.id"
    );
    let row = client.query_one(&blocks, &[]).unwrap();
    assert!(row.get::<_, i64>(1) > 0 && row.get::<_, bool>(0), "leaves of one block");
}

#[test]
fn the_same_text_names_the_first() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', embedder => 'builtin:hash'); INSERT INTO kb.document (source_key, body) VALUES ('a', 'The owl sings.'), ('b', 'The owl sings.'), \
           ('c', 'An owl in the very old barn of the mill sings.')",
    );
    let outcomes: Vec<String> = list(
        &mut client,
        "SELECT replace(outcome, (SELECT n.id::text FROM kb.node n JOIN kb.document d ON d.id = n.document_id WHERE d.source_key = 'a'), 'a') \
         FROM rag_explain('kb', 'owl', methods => '{lexical}')",
    );
    assert_eq!(outcomes, ["shown", "repeats node a", "shown"]);
    let scores = "SELECT bool_and(score = lexical_score AND dense_rank IS NULL) FROM rag_explain('kb', 'owl', methods => '{lexical}')";
    assert!(one::<bool>(&mut client, scores));
    let long = "SELECT max(length(text)) FROM rag_explain('kb', 'long', methods => '{lexical}')";
    run(
        &mut client,
        "INSERT INTO kb.document (body) SELECT 'long ' || repeat('words ', 100)",
    );
    assert_eq!(one::<i32>(&mut client, long), 200);
}
