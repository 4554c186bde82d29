//! How many summaries a refresh is said to ask for, against how many it asks for: whole trees, and trees that keep up.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one, run};

/// A summarizer of the owner's, which is counted, writes about as much as it should, and another text where anything has changed; and texts of
/// about 170 tokens, of forty themes.
const MODEL: &str = r#"CREATE FUNCTION summarize(texts text[]) RETURNS text LANGUAGE sql IMMUTABLE
       AS $$ SELECT left(md5(string_agg(t, ' ' ORDER BY n)), 6) || string_agg(left(t, 100), ' ' ORDER BY n) FILTER (WHERE n <= 8) FROM unnest(texts) WITH ORDINALITY u (t, n) $$;
    CREATE FUNCTION body(i int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
      SELECT string_agg('Theme' || i % 40 || ' holds part' || i % 40 || ' of hall' || i % 40 || ', said number' || i || ' of row' || n * i % 7 || '.', ' ')
      FROM generate_series(1, 8) n $$;"#;

/// A collection of so many documents of one leaf each.
fn collection(client: &mut Client, documents: i32, settings: &str) {
    run(
        client,
        &format!(
            "{MODEL} SELECT rag_create('kb', 64, 'builtin:hash', 'function:public.summarize', partition_by => '{{tenant}}', \
               settings => '{settings}'); \
             INSERT INTO kb.document (source_key, body) SELECT 'doc-' || i, body(i) FROM generate_series(1, {documents}) i"
        ),
    );
}

/// Calls and calls at most of the tree, level by level.
fn foretold(client: &mut Client) -> Vec<(i64, i64)> {
    let sql = "SELECT calls, calls_high FROM rag_estimate('kb') WHERE step = 'tree' ORDER BY level";
    let rows = client.query(sql, &[]).expect("an estimate");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn sums(levels: &[(i64, i64)]) -> (i64, i64) {
    levels
        .iter()
        .fold((0, 0), |sum, level| (sum.0 + level.0, sum.1 + level.1))
}

/// Refreshes, and answers how many summaries were asked for.
fn asked(client: &mut Client) -> i64 {
    let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM rag_usage('kb') WHERE step = 'tree'";
    let before: i64 = one(client, sql);
    run(client, "CALL rag_refresh('kb', steps => '{embed,tree}')");
    one::<i64>(client, sql) - before
}

/// Builds the tree, which takes what was foretold.
#[track_caller]
fn check_whole(client: &mut Client, case: &str) {
    let levels = foretold(client);
    let asked = asked(client);
    let (calls, high) = sums(&levels);
    println!("{case}: foretold {calls}, at most {high}, asked {asked}");
    assert!(
        (calls - asked).abs() as f64 <= 0.35 * asked as f64 && asked <= high && high <= 4 * asked,
        "{case}: foretold {calls}, at most {high}, asked {asked}"
    );
    let made: Vec<i64> = list(
        client,
        "SELECT count(*) FROM kb.node WHERE level > 0 GROUP BY level ORDER BY level",
    );
    for (at, made) in made.iter().enumerate() {
        let high = levels.get(at).map_or(0, |level| level.1);
        assert!(
            *made <= high,
            "{case}: {made} of level {}, at most {high}: {levels:?}",
            at + 1
        );
    }
    assert_eq!(foretold(client), [(0, 0)], "{case}: nothing is left to ask");
}

fn whole(documents: i32, settings: &str) {
    let database = Database::new();
    let mut client = database.client();
    collection(&mut client, documents, settings);
    check_whole(&mut client, &format!("{documents} {settings}"));
}

#[test]
fn whole_trees_of_a_few_documents() {
    for settings in [
        "{}",
        r#"{"cluster_tokens": 500}"#,
        r#"{"cluster_tokens": 1000}"#,
        r#"{"cluster_size": 4}"#,
        r#"{"inline_rows": 0}"#,
    ] {
        whole(300, settings);
    }
}

#[test]
fn a_whole_tree_of_many_documents() {
    whole(2000, "{}");
}

#[test]
fn a_whole_tree_of_small_clusters() {
    whole(2000, r#"{"cluster_tokens": 600, "inline_rows": 0}"#);
}

#[test]
fn a_whole_tree_of_few_members() {
    whole(2000, r#"{"cluster_size": 5}"#);
}

#[test]
fn short_texts_make_short_summaries() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{MODEL} SELECT rag_create('kb', 64, 'builtin:hash', 'function:public.summarize', settings => '{{\"cluster_tokens\": 400}}'); \
             INSERT INTO kb.document (body) SELECT left(body(i), 70) FROM generate_series(1, 2000) i"
        ),
    );
    check_whole(&mut client, "short texts");
}

#[test]
fn other_methods_are_foretold_by_their_own_rules() {
    let database = Database::new();
    let mut client = database.client();
    collection(&mut client, 300, "{}");
    for (method, off) in [("greedy", 0.0), ("mixture", 0.5)] {
        run(
            &mut client,
            &format!("SELECT raptor_build('kb', '{method}', max_levels => 2)"),
        );
        run(
            &mut client,
            "TRUNCATE kb.document; INSERT INTO kb.document (body) SELECT body(i) FROM generate_series(1, 301) i",
        );
        let (calls, high) = sums(&foretold(&mut client));
        let asked = asked(&mut client);
        println!("{method}: foretold {calls}, at most {high}, asked {asked}");
        assert!(
            (calls - asked).abs() as f64 <= off * asked as f64 && asked <= high,
            "{method}: foretold {calls}, at most {high}, asked {asked}"
        );
    }
}

#[test]
fn each_partition_counts_alone() {
    let database = Database::new();
    let mut client = database.client();
    collection(&mut client, 1, "{}");
    run(
        &mut client,
        "INSERT INTO kb.document (body, metadata) \
           SELECT body(i), jsonb_build_object('tenant', sqrt(i)::int / 4) FROM generate_series(1, 900) i; \
         INSERT INTO kb.document (body, metadata) SELECT body(7), '{\"tenant\": \"twice\"}' FROM generate_series(1, 2)",
    );
    check_whole(&mut client, "partitions");
    // What comes to one asks nothing in the others.
    run(
        &mut client,
        "INSERT INTO kb.document (body, metadata) VALUES (body(3000), '{\"tenant\": 1}')",
    );
    let (calls, high) = sums(&foretold(&mut client));
    let asked = asked(&mut client);
    assert!(
        0 < asked && asked <= high && high <= 10,
        "foretold {calls}, at most {high}, asked {asked}"
    );
}

/// Refreshes after a change of which `most` calls may be foretold at most.
#[track_caller]
fn check_change(client: &mut Client, change: &str, most: i64) {
    run(client, change);
    let levels = foretold(client);
    let (calls, high) = sums(&levels);
    let asked = asked(client);
    println!("{change}: foretold {calls}, at most {high}, asked {asked}: {levels:?}");
    assert!(
        asked <= high && high <= most && calls <= high && calls <= 3 * asked.max(1) && asked <= 3 * calls.max(1),
        "{change}: foretold {calls}, at most {high}, asked {asked}: {levels:?}"
    );
    assert_eq!(foretold(client), [(0, 0)], "{change}: nothing is left to ask");
}

#[test]
fn a_tree_that_stands_asks_for_what_has_changed() {
    let database = Database::new();
    let mut client = database.client();
    collection(&mut client, 2000, "{}");
    let all = asked(&mut client);
    let few = all / 3;
    for i in 0..5 {
        let at = 100 + 371 * i;
        check_change(
            &mut client,
            &format!("INSERT INTO kb.document (body) VALUES (body({at} + 3000))"),
            few,
        );
        check_change(
            &mut client,
            &format!("DELETE FROM kb.document WHERE source_key = 'doc-{at}'"),
            few,
        );
        check_change(
            &mut client,
            &format!(
                "UPDATE kb.document SET body = body({at} + 5000) WHERE source_key = 'doc-{}'",
                at + 7
            ),
            few,
        );
        check_change(
            &mut client,
            &format!(
                "UPDATE kb.document SET body = body || ' It has grown.' WHERE source_key = 'doc-{}'",
                at + 9
            ),
            few,
        );
    }
    // A text that is there already asks nothing.
    check_change(&mut client, "INSERT INTO kb.document (body) VALUES (body(1))", 0);
    let many = "INSERT INTO kb.document (body) SELECT body(i) FROM generate_series(7000, 7019) i";
    check_change(&mut client, many, all);
    let many = "DELETE FROM kb.document WHERE source_key LIKE 'doc-%99'";
    check_change(&mut client, many, all);
    // Documents that wait to be cut count like others.
    run(&mut client, "SELECT rag_alter('kb', '{\"inline_rows\": 0}')");
    let waiting = "UPDATE kb.document SET body = body || ' Later.' WHERE source_key = 'doc-44'; \
                   INSERT INTO kb.document (body) VALUES (body(9001)), (body(2))";
    check_change(&mut client, waiting, few);
}

#[test]
fn what_the_summarizer_is_told_and_smaller_clusters_change_all() {
    let database = Database::new();
    let mut client = database.client();
    collection(&mut client, 300, "{}");
    asked(&mut client);
    for settings in [
        r#"{"cluster_tokens": 1000}"#,
        r#"{"summarizer": "function:public.other"}"#,
    ] {
        run(
            &mut client,
            "CREATE OR REPLACE FUNCTION other(texts text[]) RETURNS text LANGUAGE sql AS 'SELECT left(texts[1], 300) || random()'",
        );
        run(&mut client, &format!("SELECT rag_alter('kb', '{settings}')"));
        assert_eq!(foretold(&mut client), [(0, 0)], "as long as nothing is to be done");
        run(
            &mut client,
            "INSERT INTO kb.document (body) VALUES (body((random() * 1e6)::int))",
        );
        check_whole(&mut client, settings);
    }
}

#[test]
fn a_tree_that_shrinks_to_few_leaves_asks_for_no_more_than_these() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{MODEL} SELECT rag_create('kb', 64, 'builtin:hash', 'function:public.summarize'); \
             INSERT INTO kb.document (source_key, body) SELECT 'doc-' || i, body(i) FROM generate_series(1, 40) i"
        ),
    );
    run(&mut client, "SELECT * FROM raptor_build('kb', cluster_size => 3)");
    for (left, most) in [(5, 4), (2, 1), (1, 0), (0, 0)] {
        run(
            &mut client,
            &format!("DELETE FROM kb.document WHERE right(source_key, -4)::int > {left}"),
        );
        let levels = foretold(&mut client);
        let (calls, high) = sums(&levels);
        let asked = asked(&mut client);
        assert!(
            asked <= high && calls <= high && high <= most,
            "{left} left: {levels:?}, asked {asked}"
        );
        assert_eq!(foretold(&mut client), [(0, 0)]);
    }
}
