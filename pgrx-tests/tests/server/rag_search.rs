//! rag_search: methods fused, blocks for leaves, nothing twice.

use std::collections::HashMap;

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor_search::{QUERY, corpus};
use crate::support::{failure, list, one, refused, run};

/// (node, score) of a search for QUERY.
fn found(client: &mut Client, arguments: &str) -> Vec<(i64, f64)> {
    let sql = format!("SELECT node_id, score FROM rag_search('kb', '{QUERY}', {arguments})");
    let rows = client.query(&sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// The ranks, from 1, of one method.
fn ranks(client: &mut Client, method: &str) -> HashMap<i64, i32> {
    let all = found(client, &format!("k => 100000, methods => '{{{method}}}'"));
    (1..).zip(all).map(|(rank, (node, _))| (node, rank)).collect()
}

#[test]
fn ranks_are_fused_as_the_formula_says() {
    let database = Database::new();
    let mut client = corpus(&database);
    let (dense, lexical) = (ranks(&mut client, "dense"), ranks(&mut client, "lexical"));
    for (arguments, weights) in [
        ("", [1.0, 1.0]),
        (", weights => '{0.5, 2}'", [0.5, 2.0]),
        (", weights => '{0, 1}'", [0.0, 1.0]),
    ] {
        let sql = format!(
            "SELECT node_id, score, dense_rank, lexical_rank, tree_rank, graph_rank FROM rag_search('kb', '{QUERY}', 100000, methods => '{{dense,lexical}}'{arguments})"
        );
        let rows = client.query(&sql, &[]).unwrap();
        assert!(rows.len() > 50 && rows.len() >= dense.len());
        let mut last = f64::MAX;
        for row in rows {
            let (node, score): (i64, f64) = (row.get(0), row.get(1));
            assert_eq!(row.get::<_, Option<i32>>(2), dense.get(&node).copied());
            assert_eq!(row.get::<_, Option<i32>>(3), lexical.get(&node).copied());
            assert_eq!(
                (row.get::<_, Option<i32>>(4), row.get::<_, Option<i32>>(5)),
                (None, None)
            );
            let part = |ranks: &HashMap<i64, i32>| ranks.get(&node).map_or(0.0, |rank| 1.0 / (60.0 + f64::from(*rank)));
            let expected = weights[0] * part(&dense) + weights[1] * part(&lexical);
            assert!(
                (score - expected).abs() < 1e-12 && score <= last,
                "{node}: {score} for {expected}"
            );
            last = score;
        }
    }
}

#[test]
fn scores_are_fused_as_the_formula_says() {
    let database = Database::new();
    let mut client = corpus(&database);
    let stretched = |client: &mut Client, method: &str| -> HashMap<i64, f64> {
        let all = found(client, &format!("k => 100000, methods => '{{{method}}}'"));
        let (most, least) = (all[0].1, all[all.len() - 1].1);
        all.into_iter()
            .map(|(node, score)| (node, (score - least) / (most - least)))
            .collect()
    };
    let (dense, lexical) = (stretched(&mut client, "dense"), stretched(&mut client, "lexical"));
    for (node, score) in found(
        &mut client,
        "k => 100000, methods => '{dense,lexical}', fusion => 'scores', weights => '{1, 0.5}'",
    ) {
        let expected = dense.get(&node).unwrap_or(&0.0) + 0.5 * lexical.get(&node).unwrap_or(&0.0);
        assert!((score - expected).abs() < 1e-9, "{node}: {score} for {expected}");
    }
}

#[test]
fn one_method_alone_answers_with_its_own_scores() {
    let database = Database::new();
    let mut client = corpus(&database);
    for (method, mode) in [("dense", "leaf"), ("tree", "collapsed")] {
        let alone = found(&mut client, &format!("methods => '{{{method}}}', weights => '{{7}}'"));
        let sql = format!("SELECT node_id, score FROM raptor_search('kb', '{QUERY}', mode => '{mode}')");
        let other: Vec<(i64, f64)> = client
            .query(&sql, &[])
            .unwrap()
            .iter()
            .map(|row| (row.get(0), row.get(1)))
            .collect();
        assert_eq!(alone, other, "{method}");
    }
}

#[test]
fn a_block_is_shown_once_with_its_best_leaf() {
    let database = Database::new();
    let mut client = corpus(&database);
    let leaves = found(&mut client, "k => 100000");
    let sql = format!(
        "SELECT s.node_id, s.block_id, s.text = b.text AND s.token_count = b.token_count AND s.section_path = b.section_path \
           AND substr(d.body, s.start_char + 1, s.end_char - s.start_char) = s.text AND s.matched = n.text \
           AND n.block_id = s.block_id AND s.document_ids = ARRAY[d.id], s.score \
         FROM rag_search('kb', '{QUERY}', 100000, expand => 'block') s JOIN kb.block b ON b.id = s.block_id \
         JOIN kb.node n ON n.id = s.node_id JOIN kb.document d ON d.id = b.document_id"
    );
    let rows = client.query(&sql, &[]).unwrap();
    let mut blocks: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
    let all = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), all, "each once");
    let leaf_blocks: HashMap<i64, i64> = client
        .query("SELECT id, block_id FROM kb.node WHERE level = 0", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    for row in &rows {
        assert!(row.get::<_, bool>(2), "{row:?}");
        let (leaf, block, score): (i64, i64, f64) = (row.get(0), row.get(1), row.get(3));
        let best = leaves.iter().find(|other| leaf_blocks[&other.0] == block).unwrap();
        assert_eq!((leaf, score), *best, "its best leaf");
    }
    let leaf = format!(
        "SELECT bool_and(substr(d.body, s.start_char + 1, s.end_char - s.start_char) = s.text AND s.matched IS NULL) \
         FROM rag_search('kb', '{QUERY}', 50) s JOIN kb.document d ON d.id = s.document_ids[1]"
    );
    assert!(one::<bool>(&mut client, &leaf));
}

#[test]
fn the_same_text_takes_one_place() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (body) SELECT CASE WHEN i <= 300 THEN 'The night ferry sails.' \
           ELSE 'The ferry number ' || i || ' sails.' END FROM generate_series(1, 320) i",
    );
    for arguments in [
        "",
        ", methods => '{dense}'",
        ", methods => '{lexical}'",
        ", expand => 'block'",
        ", methods => '{dense,lexical,tree}'",
    ] {
        let texts: Vec<String> = list(
            &mut client,
            &format!("SELECT text FROM rag_search('kb', 'night ferry', 5{arguments})"),
        );
        let same = texts.iter().filter(|text| text.starts_with("The night")).count();
        assert_eq!((texts.len(), same), (5, 1), "{arguments}: {texts:?}");
    }
    // Where it is said how far to look, no further.
    assert_eq!(found_of(&mut client, ", methods => '{lexical}', candidates => 20"), 1);
}

fn found_of(client: &mut Client, arguments: &str) -> i64 {
    one(
        client,
        &format!("SELECT count(*) FROM rag_search('kb', 'night ferry', 5{arguments})"),
    )
}

#[test]
fn a_budget_is_kept_and_used() {
    let database = Database::new();
    let mut client = corpus(&database);
    for expand in ["leaf", "block"] {
        let sizes: Vec<i32> = list(
            &mut client,
            &format!("SELECT token_count FROM rag_search('kb', '{QUERY}', 20, expand => '{expand}')"),
        );
        for budget in [1, 25, 60, 100, 333, 10_000] {
            let mut left = budget;
            let mut expected = sizes.clone();
            expected.retain(|tokens| {
                let fits = *tokens <= left;
                left -= if fits { *tokens } else { 0 };
                fits
            });
            let sql = format!(
                "SELECT token_count FROM rag_search('kb', '{QUERY}', 20, expand => '{expand}', max_tokens => {budget})"
            );
            assert_eq!(list::<i32>(&mut client, &sql), expected, "{expand} {budget}");
        }
    }
}

#[test]
fn a_summary_is_not_shown_beside_what_it_repeats() {
    let database = Database::new();
    let mut client = corpus(&database);
    let sql = format!(
        "SELECT array_agg(level), array_agg(node_id) FROM rag_search('kb', '{QUERY}', 200, methods => '{{dense,lexical,tree}}')"
    );
    let row = client.query_one(&sql, &[]).unwrap();
    let (levels, nodes): (Vec<i32>, Vec<i64>) = (row.get(0), row.get(1));
    let pairs = "SELECT count(*) FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id JOIN kb.node n ON n.id = c.child_id \
                 WHERE c.parent_id = ANY ($1) AND c.child_id = ANY ($1) AND strpos(p.text, n.text) > 0";
    let repeated: i64 = client.query_one(pairs, &[&nodes]).unwrap().get(0);
    assert_eq!(repeated, 0);
    assert!(levels.contains(&0));
    let tree = format!("SELECT max(level) FROM rag_search('kb', '{QUERY}', 200, methods => '{{tree}}')");
    assert!(one::<i32>(&mut client, &tree) > 0, "summaries are searched");
    let narrow = format!(
        "SELECT count(*) FROM rag_search('kb', '{QUERY}', 200, methods => '{{dense,lexical}}') WHERE level > 0"
    );
    assert_eq!(one::<i64>(&mut client, &narrow), 0);
}

#[test]
fn the_order_of_writing_changes_nothing() {
    let answers: Vec<Vec<String>> = ["i", "-i", "md5(i::text)"]
        .into_iter()
        .map(|order| {
            let database = Database::new();
            let mut client = database.client();
            run(
                &mut client,
                &format!(
                    "SELECT rag_create('kb', embedder => 'builtin:hash'); INSERT INTO kb.document (source_key, body) \
                     SELECT 'k' || i, 'Ferry ' || i % 7 || ' sails to port ' || i % 3 || ' at ' || i || '.' \
                     FROM generate_series(1, 60) i ORDER BY {order}"
                ),
            );
            ["dense,lexical", "lexical", "dense"]
                .into_iter()
                .flat_map(|methods| {
                    let sql = format!(
                        "SELECT score || text FROM rag_search('kb', 'ferry to port 2', 30, methods => '{{{methods}}}')"
                    );
                    list::<String>(&mut client, &sql)
                })
                .collect()
        })
        .collect();
    assert_eq!(answers[0].len(), 90);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[test]
fn arguments_are_checked() {
    let database = Database::new();
    let mut client = corpus(&database);
    refused(
        &mut client,
        r#"
        SELECT rag_search('kb', 'x', methods => '{}') --> 22023 methods must not be empty
        SELECT rag_search('kb', 'x', methods => '{dense,bm25}') --> 22023 unknown method "bm25"
        SELECT rag_search('kb', 'x', methods => '{Dense}') --> 22023 unknown method "Dense"
        SELECT rag_search('kb', 'x', methods => '{dense,NULL}') --> 22004 a method must not be null
        SELECT rag_search('kb', 'x', methods => '{dense,dense}') --> 22023 method "dense" is given twice
        SELECT rag_search('kb', 'x', weights => '{1}') --> 22023 weights without methods
        SELECT rag_search('kb', 'x', methods => '{dense,lexical}', weights => '{1}') --> 22023 weights and methods must be equally many
        SELECT rag_search('kb', 'x', methods => '{dense,lexical}', weights => '{}') --> 22023 weights and methods must be equally many
        SELECT rag_search('kb', 'x', methods => '{dense,lexical}', weights => '{1,NULL}') --> 22004 a weight must not be null
        SELECT rag_search('kb', 'x', methods => '{dense,lexical}', weights => '{1,-0.5}') --> 22023 a weight must be between 0 and 1000000
        SELECT rag_search('kb', 'x', methods => '{dense,lexical}', weights => '{1,NaN}') --> 22023 a weight must be between 0 and 1000000
        SELECT rag_search('kb', 'x', methods => '{dense,lexical}', weights => '{0,0}') --> 22023 one weight must be above 0
        SELECT rag_search('kb', 'x', expand => 'parent') --> 22023 unknown expand "parent"
        SELECT rag_search('kb', 'x', fusion => '') --> 22023 unknown fusion ""
        SELECT rag_search('kb', 'x', k => -1) --> 22023 k must be between 0 and 2147483647
        SELECT rag_search('kb', 'x', max_tokens => 0) --> 22023 max_tokens must be between 1 and 2147483647
        SELECT rag_search('kb', 'x', candidates => 0) --> 22023 candidates must be between 1 and 2147483647
        SELECT rag_search('kb', 'x', filter => '[]') --> 22023 filter must be a JSON object
        "#,
    );
    for (sql, words) in [
        (
            "SELECT rag_search('kb', 'x', methods => '{}')",
            "'dense', 'lexical', 'tree' and 'graph'",
        ),
        (
            "SELECT rag_search('kb', 'x', methods => '{bm25}')",
            "'dense', 'lexical', 'tree' and 'graph'",
        ),
        ("SELECT rag_search('kb', 'x', expand => 'parent')", "'leaf' or 'block'"),
        ("SELECT rag_search('kb', 'x', fusion => 'sum')", "'scores'"),
        ("SELECT rag_search('kb', 'x', weights => '{1}')", "weights => '{1,0.5}'"),
    ] {
        let error = failure(&mut client, sql);
        assert!(
            error.hint().is_some_and(|hint| hint.contains(words)),
            "{sql}: {:?}",
            error.hint()
        );
    }
    for arguments in [
        "'x', k => 0",
        "''",
        "'… !?'",
        "'x', documents => '{}'",
        "'x', filter => '{\"a\": 1}'",
    ] {
        let sql = format!("SELECT count(*) FROM rag_search('kb', {arguments})");
        assert_eq!(one::<i64>(&mut client, &sql), 0, "{arguments}");
    }
    // An empty collection has nothing, and says nothing odd.
    run(&mut client, "SELECT rag_create('empty')");
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM rag_search('empty', 'ferry', methods => '{dense,lexical,tree}')"
        ),
        0
    );
}

#[test]
fn without_a_model_words_are_still_found() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8, embedder => 'function:public.nowhere'); \
         INSERT INTO kb.document (body) VALUES ('An owl sings.')",
    );
    let sql = "SELECT text FROM rag_search('kb', 'owls', methods => '{lexical}')";
    assert_eq!(list::<String>(&mut client, sql), ["An owl sings."]);
}

#[test]
fn without_methods_it_is_what_measures_best() {
    let database = Database::new();
    let mut client = database.client();
    let ranked = |client: &mut Client, arguments: &str| -> Vec<String> {
        list(
            client,
            &format!(
                "SELECT node_id || ' ' || score || concat(' d', dense_rank, ' l', lexical_rank, ' g', graph_rank) FROM rag_search('kb', 'ferry of Isla Brodie', 5{arguments})"
            ),
        )
    };
    let documents = "INSERT INTO kb.document (body) SELECT 'Isla Brodie commands ferry ' || i || ' of Port Ellen.' FROM generate_series(1, 30) i";
    for (embedder, methods) in [("builtin:lsa", "dense"), ("builtin:hash", "dense,lexical")] {
        run(
            &mut client,
            &format!("SELECT rag_create('kb', embedder => '{embedder}'); {documents}"),
        );
        let chosen = ranked(&mut client, "");
        assert_eq!(
            chosen,
            ranked(&mut client, &format!(", methods => '{{{methods}}}'")),
            "{embedder}"
        );
        run(&mut client, "SELECT graph_extract('kb')");
        let chosen = ranked(&mut client, "");
        assert_eq!(chosen, ranked(&mut client, ", methods => '{graph}'"), "{embedder}");
        // The walk comes by a part; the others follow as they are near.
        let all: i64 = one(
            &mut client,
            "SELECT count(*) FROM rag_search('kb', 'ferry of Isla Brodie', 30)",
        );
        assert_eq!(all, 30);
        run(&mut client, "SELECT rag_drop('kb')");
    }
}

#[test]
fn what_one_better_row_says_is_left_out() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', embedder => 'builtin:hash'); INSERT INTO kb.document (source_key, body) VALUES \
           ('one', 'The ferry leaves at ten. It carries grain to the mill.'), \
           ('marked', E'# The ferry leaves at ten.\n\n- It carries grain\n  to the mill.'), \
           ('part', 'It carries grain to the mill.'), \
           ('other', 'The ferry leaves at eleven. It carries grain to the mill.'), \
           ('joined', 'The ferry leaves at ten. The ferry leaves at eleven.')",
    );
    let search = |client: &mut Client, more: &str| -> Vec<String> {
        let sql = format!(
            "SELECT d.source_key FROM rag_search('kb', 'ferry carries grain to the mill at ten', methods => '{{dense}}'{more}) WITH ORDINALITY s \
             JOIN kb.document d ON d.id = s.document_ids[1] ORDER BY s.ordinality"
        );
        list(client, &sql)
    };
    let all = search(&mut client, ", repeats => NULL");
    assert_eq!(all.len(), 5, "{all:?}");
    // Two rows say what is said in one, but no single one does.
    let found = search(&mut client, "");
    assert_eq!(found.len(), 3, "{found:?} of {all:?}");
    assert!(found.contains(&"other".to_owned()) && found.contains(&"joined".to_owned()));
    // More than half of it stands in a better row.
    let found = search(&mut client, ", repeats => 0.5");
    assert!(found.len() < 3 && found[0] == all[0], "{found:?}");
    let said: Vec<String> = list(
        &mut client,
        "SELECT DISTINCT regexp_replace(outcome, '[0-9]+', 'N') FROM rag_explain('kb', 'ferry carries grain to the mill at ten', methods => '{dense}') ORDER BY 1",
    );
    assert_eq!(said, ["repeats node N", "shown"]);
    refused(
        &mut client,
        "SELECT rag_search('kb', 'ferry', repeats => 0) --> 22023 repeats must be between 0.01 and 1\n\
         SELECT rag_search('kb', 'ferry', repeats => 'NaN') --> 22023 repeats must be between 0.01 and 1",
    );
}

/// A word of a long document that has come since the embedder learned drowns in its vector.
#[test]
fn a_word_that_was_not_learned_is_found() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) SELECT 'd' || i, \
           'The harbour of town ' || i || ' has a crane, a mill and an inn. ' || repeat('Ships load grain and coal there. ', 12) FROM generate_series(1, 60) i",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'new', replace(body, 'has a crane', 'has a crane (stop the blixor first)') FROM kb.document WHERE source_key = 'd9'",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.term WHERE lexeme = 'blixor'"),
        0
    );
    for question in ["When must the blixor of a harbour be stopped?", "blixor"] {
        let text: String = one(
            &mut client,
            &format!("SELECT text FROM rag_search('kb', '{question}', 1)"),
        );
        assert!(text.contains("blixor"), "{text}");
    }
    // Words that nobody holds ask for nothing.
    let ranks = "SELECT count(lexical_rank) FROM rag_search('kb', 'What is the wurzle of a harbour?')";
    assert_eq!(one::<i64>(&mut client, ranks), 0);
}
