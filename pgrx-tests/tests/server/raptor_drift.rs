//! The tree drifts and is put right: themes that come in several loads, and documents that go in steps.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::raptor::check_laws;
use crate::support::{list, one, run};

/// Texts of six words of one of the themes' thirteen, and one of four hundred that all share.
const BODY: &str = r#"CREATE FUNCTION body(theme int, i int) RETURNS text LANGUAGE sql IMMUTABLE
      AS $$ SELECT string_agg(format('th%sw%s', theme, (i * 7 + j * j * 3 + i / 40 * j) % 13), ' ') || ' c' || i % 400 FROM generate_series(1, 6) j $$"#;

/// So many documents from the number `first` on, of so many themes in turn.
const LOAD: &str = r#"CREATE FUNCTION load(first_theme int, themes int, first int, count int) RETURNS void LANGUAGE sql
      AS $$ INSERT INTO kb.document (source_key, body)
            SELECT format('%s-%s', first_theme + i % themes, first + i), body(first_theme + i % themes, first + i) FROM generate_series(1, count) i $$"#;

fn collection(client: &mut Client, embedder: &str) {
    let settings = r#"{"cluster_tokens": 400, "inline_rows": 20000}"#;
    run(client, BODY);
    run(
        client,
        &format!("SELECT rag_create('kb', 256, '{embedder}', settings => '{settings}')"),
    );
    run(client, LOAD);
}

/// Of the summaries of level 1: how many there are; the mean share of the sources that are of the most frequent theme; and over all themes,
/// the same of the theme that is asked for, in the first three that are found.
fn quality(client: &mut Client) -> (i64, f64, f64) {
    run(
        client,
        "CREATE TEMP TABLE IF NOT EXISTS source (node_id bigint, theme int, share float8); TRUNCATE source; \
         INSERT INTO source SELECT node_id, theme, count(*) / sum(count(*)) OVER (PARTITION BY node_id) FROM \
           (SELECT s.node_id, split_part(d.source_key, '-', 1)::int AS theme FROM kb.node n JOIN kb.node_source s ON s.node_id = n.id \
            JOIN kb.document d ON d.id = s.document_id WHERE n.level = 1) t GROUP BY 1, 2",
    );
    let clusters = one(client, "SELECT count(DISTINCT node_id) FROM source");
    let purity = one(
        client,
        "SELECT avg(share) FROM (SELECT max(share) AS share FROM source GROUP BY node_id) t",
    );
    let found = one(
        client,
        "SELECT avg(coalesce(o.share, 0)) FROM (SELECT DISTINCT theme FROM source) t CROSS JOIN generate_series(1, 4) w CROSS JOIN \
           LATERAL raptor_search('kb', format('th%sw%s th%1$sw%s th%1$sw%s', theme, w, w + 4, w + 8), k => 3, min_level => 1, max_level => 1, overlap => 'keep') s \
           LEFT JOIN source o ON o.node_id = s.node_id AND o.theme = t.theme",
    );
    (clusters, purity, found)
}

/// Compares what a refresh has kept with a fresh build.
#[track_caller]
fn check_fresh(client: &mut Client, case: &str) {
    assert_eq!(check_laws(client), 1);
    let kept = quality(client);
    run(client, "SELECT * FROM raptor_build('kb')");
    let fresh = quality(client);
    println!("{case}: {kept:?} and {fresh:?}");
    assert!(
        kept.1 >= 0.98 * fresh.1 && kept.2 >= 0.98 * fresh.2,
        "{case}: {kept:?} and {fresh:?}"
    );
    assert!(
        (kept.0 - fresh.0).abs() as f64 <= 0.2 * fresh.0 as f64,
        "{case}: {kept:?} and {fresh:?}"
    );
}

const REFRESH: &str = "CALL rag_refresh('kb', steps => '{embed,tree}')";

#[test]
fn themes_that_come_in_loads_find_their_place() {
    for embedder in ["builtin:lsa", "builtin:hash"] {
        for loads in [1, 5] {
            let database = Database::new();
            let mut client = database.client();
            collection(&mut client, embedder);
            run(&mut client, "SELECT load(0, 40, 0, 2000)");
            run(&mut client, "SELECT * FROM raptor_build('kb')");
            for at in 0..loads {
                let count = 500 / loads;
                run(
                    &mut client,
                    &format!("SELECT load(40, 20, 5000 + {at} * {count}, {count})"),
                );
                run(&mut client, REFRESH);
            }
            check_fresh(&mut client, &format!("{embedder}, new themes in {loads} loads"));
        }
    }
}

#[test]
fn known_themes_grow_and_shrink_in_steps() {
    let database = Database::new();
    let mut client = database.client();
    collection(&mut client, "builtin:hash");
    run(&mut client, "SELECT load(0, 40, 0, 800)");
    run(&mut client, "SELECT * FROM raptor_build('kb')");
    for at in 0..12 {
        run(&mut client, &format!("SELECT load(0, 40, 800 + {at} * 100, 100)"));
        run(&mut client, REFRESH);
    }
    check_fresh(&mut client, "known themes in 12 loads");
    for step in 0..8 {
        run(
            &mut client,
            &format!("DELETE FROM kb.document WHERE hashtext(source_key) & 15 = {step}"),
        );
        run(&mut client, REFRESH);
    }
    check_fresh(&mut client, "half of them gone in 8 steps");
}

#[test]
fn a_tree_is_refreshed_by_the_method_that_built_it() {
    for method in ["mixture", "greedy"] {
        let database = Database::new();
        let mut client = database.client();
        collection(&mut client, "builtin:hash");
        run(
            &mut client,
            &format!(
                "SELECT load(0, 20, 0, 300); SELECT * FROM raptor_build('kb', '{method}'); SELECT load(20, 5, 1000, 200)"
            ),
        );
        run(&mut client, REFRESH);
        let texts = "SELECT text FROM kb.node WHERE level > 0 ORDER BY level, text COLLATE \"C\"";
        let kept: Vec<String> = list(&mut client, texts);
        run(&mut client, &format!("SELECT * FROM raptor_build('kb', '{method}')"));
        assert_eq!(kept, list::<String>(&mut client, texts), "{method}");
    }
}
