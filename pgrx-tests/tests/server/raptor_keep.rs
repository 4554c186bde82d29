//! The tree keeps up: what a refresh asks and writes when documents come, go and change.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor::check_laws;
use crate::support::{list, one, run};

/// Documents of one leaf each, of forty themes; a function of the owner's writes the summaries, so that they are counted.
const CORPUS: &str = r#"CREATE FUNCTION summarize(texts text[]) RETURNS text LANGUAGE sql IMMUTABLE
       AS $$ SELECT string_agg(left(t, 60), ' ' ORDER BY n) FROM unnest(texts) WITH ORDINALITY u (t, n) WHERE n <= 8 $$;
    SELECT rag_create('kb', 64, 'builtin:hash', 'function:public.summarize', settings => '{"cluster_tokens": 400, "inline_rows": 10000}');
    CREATE FUNCTION body(i int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
      SELECT 'Theme' || i % 40 || ' holds part' || i % 40 || ' of hall' || i % 40 || ', said number' || i || ' of the row' || i % 7 || '.' $$;
    INSERT INTO kb.document (source_key, body) SELECT 'doc-' || i, body(i) FROM generate_series(1, 2000) i"#;

fn ancestors(client: &mut Client, leaf_of: &str) -> i64 {
    let sql = format!(
        "WITH RECURSIVE up AS (SELECT n.id FROM kb.node n JOIN kb.document d ON d.id = n.document_id WHERE d.source_key = '{leaf_of}' \
           UNION SELECT c.parent_id FROM up JOIN kb.node_child c ON c.child_id = up.id) \
         SELECT count(*) FROM up JOIN kb.node n USING (id) WHERE n.level > 0"
    );
    one(client, &sql)
}

/// Refreshes, and answers how many summaries were asked for.
fn asked(client: &mut Client) -> i64 {
    let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM rag_usage('kb') WHERE step = 'tree'";
    let before: i64 = one(client, sql);
    run(client, "CALL rag_refresh('kb', steps => '{embed,tree}')");
    one::<i64>(client, sql) - before
}

#[test]
fn one_document_touches_its_ancestors_only() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, CORPUS);
    asked(&mut client);
    assert_eq!(check_laws(&mut client), 1);
    let all: i64 = one(&mut client, "SELECT count(*) FROM kb.node WHERE level > 0");
    assert!(all > 100, "{all}");
    assert_eq!(asked(&mut client), 0, "there is nothing to do");

    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) VALUES ('new', body(2005))",
    );
    let calls = asked(&mut client);
    let most = ancestors(&mut client, "new");
    assert!((1..=most).contains(&calls), "{calls} of {most}");
    assert_eq!(check_laws(&mut client), 1);

    let most = ancestors(&mut client, "doc-777");
    run(
        &mut client,
        "UPDATE kb.document SET body = body(817) || ' It has changed.' WHERE source_key = 'doc-777'",
    );
    let calls = asked(&mut client);
    let most = most + ancestors(&mut client, "doc-777");
    assert!((1..=most).contains(&calls), "{calls} of {most}");
    assert_eq!(check_laws(&mut client), 1);

    let most = ancestors(&mut client, "doc-1000");
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'doc-1000'");
    let traces: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.node WHERE text LIKE '%number1000 %'",
    );
    assert_eq!(traces, 0, "what was written of it is gone at once");
    let calls = asked(&mut client);
    assert!((1..=most).contains(&calls), "{calls} of {most}");
    assert_eq!(check_laws(&mut client), 1);
    assert_eq!(asked(&mut client), 0, "and all is done");
}

#[test]
fn after_any_changes_the_laws_hold_and_search_is_as_good() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, CORPUS);
    asked(&mut client);
    for round in 0..6 {
        let at = round * 250;
        run(
            &mut client,
            &format!(
                "DELETE FROM kb.document WHERE source_key IN (SELECT 'doc-' || i FROM generate_series({at}, {at} + 120) i); \
                 INSERT INTO kb.document (source_key, body) SELECT 'more-' || i, body(i) FROM generate_series(3000 + {at}, 3000 + {at} + 150) i; \
                 UPDATE kb.document SET body = body(right(source_key, -4)::int + 1) WHERE source_key LIKE 'doc-%7' AND id % 6 = {round}"
            ),
        );
        asked(&mut client);
        assert_eq!(check_laws(&mut client), 1);
    }
    // A theme is asked for: the share of the first ten nodes that hold it, and how many of them are summaries.
    let quality = |client: &mut Client| -> f64 {
        one(
            client,
            "SELECT avg((s.text LIKE '%Theme' || i || ' %')::int)::float8 FROM generate_series(0, 39) i, \
               LATERAL raptor_search('kb', 'Theme' || i || ' hall' || i, k => 10, min_level => 1) s",
        )
    };
    let kept = quality(&mut client);
    let nodes: Vec<i64> = list(
        &mut client,
        "SELECT count(*) FROM kb.node GROUP BY level ORDER BY level",
    );
    run(&mut client, "SELECT * FROM raptor_build('kb')");
    let fresh = quality(&mut client);
    let fresh_nodes: Vec<i64> = list(
        &mut client,
        "SELECT count(*) FROM kb.node GROUP BY level ORDER BY level",
    );
    assert!(kept >= 0.98 * fresh, "{kept} of {fresh}; {nodes:?} and {fresh_nodes:?}");
}

#[test]
fn emptied_trees_go_and_partitions_stand_apart() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"SELECT rag_create('kb', 64, 'builtin:hash', partition_by => '{tenant}', settings => '{"cluster_tokens": 200}');
           INSERT INTO kb.document (source_key, body, metadata)
           SELECT 'doc-' || i, 'Word' || i || ' stands beside word' || i % 5 || '.', jsonb_build_object('tenant', i % 2) FROM generate_series(1, 60) i"#,
    );
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(check_laws(&mut client), 2);
    run(
        &mut client,
        "UPDATE kb.document SET metadata = '{\"tenant\": 1}' WHERE source_key = 'doc-2'",
    );
    let left: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.node WHERE text LIKE '%Word2 %' AND level > 0",
    );
    assert_eq!(left, 0, "the summaries of the partition that it leaves");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(check_laws(&mut client), 2);
    run(
        &mut client,
        "DELETE FROM kb.document WHERE metadata = '{\"tenant\": 0}'",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(check_laws(&mut client), 1);
    run(&mut client, "DELETE FROM kb.document WHERE source_key <> 'doc-1'");
    run(&mut client, "CALL rag_refresh('kb')");
    let left: Vec<i32> = list(&mut client, "SELECT level FROM kb.node");
    assert_eq!(left, [0], "a single leaf needs no summary");
}

#[test]
fn an_answer_that_comes_after_an_empty_one_is_taken_up() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64, 'builtin:hash', 'queue'); \
         INSERT INTO kb.document (body) VALUES ('The Night Ferry leaves.'), ('Isla commands.')",
    );
    let answer = |client: &mut Client, text: &str| {
        let sql = format!(
            "UPDATE kb.model_call SET response = to_jsonb('{text}'::text), status = 'done' WHERE status = 'pending' AND step = 'tree'"
        );
        run(client, &sql);
        run(client, "CALL rag_refresh('kb', steps => '{tree}')");
    };
    run(&mut client, "CALL rag_refresh('kb', steps => '{tree}')");
    answer(&mut client, "");
    let stand_in = "SELECT stale::text FROM kb.node WHERE level > 0";
    assert_eq!(one::<String>(&mut client, stand_in), "true");
    run(&mut client, "CALL rag_refresh('kb', steps => '{tree}')");
    answer(&mut client, "A ferry and its captain.");
    let text: String = one(&mut client, "SELECT text FROM kb.node WHERE level > 0 AND NOT stale");
    assert_eq!(text, "A ferry and its captain.");
}

#[test]
fn a_build_says_on_how_many_summaries_the_model_failed() {
    let database = Database::new();
    let output = database.psql(
        "CREATE FUNCTION nothing(t text[]) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'; \
         SELECT rag_create('kb', 64, 'builtin:hash', 'function:public.nothing'); \
         INSERT INTO kb.document (body) VALUES ('The Night Ferry leaves.'), ('Isla commands.'); SELECT * FROM raptor_build('kb');",
    );
    assert!(output.contains("NOTICE:  the model failed on 1 summary"), "{output}");
    assert!(output.contains("The built-in summarizer stands in."), "{output}");
}
