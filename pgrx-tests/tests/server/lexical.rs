//! Lexical search: BM25 over leaves, with statistics that are exact whatever has happened to the documents.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

/// What `rag_search` finds by BM25 alone: text and score, best first.
fn found(client: &mut Client, collection: &str, query: &str, arguments: &str) -> Vec<(String, f64)> {
    let sql = format!(
        "SELECT text, score FROM rag_search('{collection}', $1, k => 100000, methods => '{{lexical}}'{arguments})"
    );
    let rows = client.query(&sql, &[&query]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn texts(client: &mut Client, query: &str) -> Vec<String> {
    found(client, "kb", query, "").into_iter().map(|row| row.0).collect()
}

/// Documents of one to nine sentences of plain words, some of which are in most of them.
fn documents(collection: &str, from: i32, to: i32) -> String {
    format!(
        "INSERT INTO {collection}.document (source_key, body, metadata) \
         SELECT 'k' || i, (SELECT string_agg('item' || (i * 7 + s * 3) % 40 || ' holds part' || (i + s * s) % 23 || \
           repeat(' blue', i % 4) || ' valve' || (i * s) % 11 || ' of hall' || s, '. ' ORDER BY s) \
           FROM generate_series(1, 1 + i % 9) s), jsonb_build_object('tenant', CASE WHEN i % 3 = 0 THEN 'acme' ELSE 'bolt' END) \
         FROM generate_series({from}, {to}) i"
    )
}

const SMALL: &str =
    "language => 'simple', settings => '{\"leaf_tokens\": 40, \"leaf_overlap\": 5, \"block_tokens\": 80}'";

const QUERIES: [&str; 5] = [
    "item5 holds blue part7",
    "blue",
    "valve3 valve4 of",
    "hall9",
    "nothing of it zzz",
];

/// Scores from the texts of the leaves alone, in SQL.
fn by_hand(client: &mut Client, query: &str, condition: &str) -> Vec<(String, f64)> {
    let sql = format!(
        "WITH leaf AS (SELECT n.id, n.text, regexp_split_to_array(trim(both '. ' FROM lower(n.text)), '[^a-z0-9]+') AS words \
           FROM kb.node n WHERE n.level = 0 AND {condition}), \
         corpus AS (SELECT count(*)::float8 AS n, avg(cardinality(words))::float8 AS mean FROM leaf), \
         asked AS (SELECT DISTINCT t FROM regexp_split_to_table($1, ' ') t), \
         df AS (SELECT t, count(*)::float8 AS df FROM asked JOIN leaf ON t = ANY (words) GROUP BY 1), \
         tf AS (SELECT leaf.id, leaf.text, cardinality(words) AS length, t, df, \
                       cardinality(array_positions(words, t))::float8 AS tf FROM leaf JOIN df ON t = ANY (words)) \
         SELECT min(text), sum(ln(1 + (n - df + 0.5) / (df + 0.5)) * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean))) AS score \
         FROM tf, corpus GROUP BY id ORDER BY score DESC"
    );
    let rows = client.query(&sql, &[&query]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Texts with their best scores: near-duplicates are shown once.
#[track_caller]
fn agree(found: Vec<(String, f64)>, expected: Vec<(String, f64)>, what: &str) {
    let mut best: Vec<(String, f64)> = Vec::new();
    for row in expected {
        if best.iter().all(|other| other.0 != row.0) {
            best.push(row);
        }
    }
    assert_eq!(found.len(), best.len(), "{what}");
    assert!(found.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{what}");
    for (text, score) in best {
        let other = found
            .iter()
            .find(|row| row.0 == text)
            .unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(
            (other.1 - score).abs() < 1e-9,
            "{what}: {text}: {} for {score}",
            other.1
        );
    }
}

#[test]
fn scores_are_those_of_the_formula() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!("SELECT rag_create('kb', 8, {SMALL}); {}", documents("kb", 1, 60)),
    );
    for query in QUERIES {
        let expected = by_hand(&mut client, query, "true");
        agree(found(&mut client, "kb", query, ""), expected, query);
        let acme = r#"n.metadata @> '{"tenant": "acme"}'"#;
        let expected = by_hand(&mut client, query, acme);
        agree(
            found(&mut client, "kb", query, r#", filter => '{"tenant": "acme"}'"#),
            expected,
            query,
        );
        let expected = by_hand(&mut client, query, "n.document_id IN (3, 4, 5, 6)");
        agree(
            found(&mut client, "kb", query, ", documents => '{3, 4, 5, 6, NULL, 999}'"),
            expected,
            query,
        );
    }
    assert!(found(&mut client, "kb", "blue", ", documents => '{}'").is_empty());
}

#[test]
fn the_best_are_the_same_however_few_are_asked_for() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8, embedder => 'builtin:hash', language => 'simple', settings => '{\"inline_rows\": 10000}'); \
         INSERT INTO kb.document (body, format) SELECT string_agg('w' || floor(exp(((i * 7919 + j * 104729) % 10007) / 10007.0 * 7)), ' '), \
         'text' FROM generate_series(1, 6000) i, generate_series(1, 12 + i % 5) j GROUP BY i",
    );
    for query in [
        "w1 w2 w3 w900",
        "w700 w3",
        "w1",
        "w5 w50 w500 w2",
        "w2 w1000 w999 w998 w1 w7 w40",
    ] {
        let sql = |k: i32| {
            format!(
                "SELECT node_id || ' ' || score FROM rag_search('kb', '{query}', {k}, methods => '{{lexical}}', candidates => {k}) LIMIT 7"
            )
        };
        let all: Vec<String> = list(&mut client, &sql(100_000));
        assert_eq!(all.len(), 7, "{query}");
        // More than seven, since some texts are there twice.
        assert_eq!(list::<String>(&mut client, &sql(12)), all, "{query}");
        // Counted in scope, by the other way.
        let scoped = sql(100_000).replace("methods", "documents => ARRAY(SELECT id FROM kb.document), methods");
        assert_eq!(list::<String>(&mut client, &scoped), all, "{query}");
    }
}

#[test]
fn codes_are_found() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (body) VALUES \
         ('Incident SR-2023-052 was closed.'), ('Incident SR-2023-025 was closed.'), ('Incident SR-2022-052 was closed in 2023.'), \
         ('POL-003 rules on travel.'), ('Policy 003, clause POL, rules on meals.'), ('Version v1.2.3/b is out.')",
    );
    for (query, text) in [
        ("What became of SR-2023-052?", "Incident SR-2023-052 was closed."),
        ("(sr-2023-025)", "Incident SR-2023-025 was closed."),
        ("pol-003", "POL-003 rules on travel."),
        ("v1.2.3/b", "Version v1.2.3/b is out."),
        ("meals and clauses", "Policy 003, clause POL, rules on meals."),
    ] {
        assert_eq!(texts(&mut client, query)[0], text, "{query}");
    }
}

#[test]
fn scripts_without_spaces_are_searched_by_pairs_of_characters() {
    let database = Database::new();
    let mut client = database.client();
    let bodies = [
        "知识图谱连接文档。",
        "天气很好。",
        "データベースの索引。",
        "東京の天気。",
        "ภาษาไทยสวยงาม",
        "อากาศดีมาก",
    ];
    run(&mut client, "SELECT rag_create('kb')");
    for body in bodies {
        client
            .execute("INSERT INTO kb.document (body) VALUES ($1)", &[&body])
            .unwrap();
    }
    for (query, text) in [
        ("图谱", 0),
        ("天气", 1),
        ("索引", 2),
        ("東京", 3),
        ("ไทย", 4),
        ("อากาศ", 5),
    ] {
        assert_eq!(texts(&mut client, query), [bodies[text]], "{query}");
    }
}

/// The rankings of a collection are those of another that holds the same documents and nothing has happened to.
#[track_caller]
fn as_if_fresh(client: &mut Client, what: &str) {
    run(
        client,
        &format!(
            "SET client_min_messages = error; DROP SCHEMA IF EXISTS fresh CASCADE; SELECT rag_create('fresh', 8, {SMALL}); \
             INSERT INTO fresh.document (source_key, body, metadata, format) SELECT source_key, body, metadata, format FROM kb.document"
        ),
    );
    run(client, "CALL rag_refresh('fresh')");
    for query in QUERIES {
        for filter in ["", r#", filter => '{"tenant": "acme"}'"#] {
            let expected = found(client, "fresh", query, filter);
            assert_eq!(found(client, "kb", query, filter), expected, "{what}: {query} {filter}");
        }
    }
    let orphans = "SELECT (SELECT count(*) FROM kb.posting) - (SELECT count(*) FROM kb.node WHERE level = 0)";
    assert_eq!(one::<i64>(client, orphans), 0, "{what}");
}

#[test]
fn statistics_are_exact_after_any_change() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, &format!("SELECT rag_create('kb', 8, {SMALL})"));
    for sql in [
        &documents("kb", 1, 60) as &str,
        "UPDATE kb.document SET body = body || '. blue item5 again' WHERE id % 5 = 0",
        "DELETE FROM kb.document WHERE id % 7 = 0",
        "UPDATE kb.document SET metadata = '{\"tenant\": \"acme\"}' WHERE id % 4 = 0",
        "UPDATE kb.document SET id = id + 1000 WHERE id < 5",
        "UPDATE kb.node SET id = -id WHERE document_id > 40",
        "BEGIN; DELETE FROM kb.document WHERE id > 20; UPDATE kb.document SET body = 'blue'; ROLLBACK",
        "BEGIN; SAVEPOINT s; TRUNCATE kb.document; ROLLBACK TO s; DELETE FROM kb.document WHERE id = 20; COMMIT",
        "INSERT INTO kb.document (source_key, body) VALUES ('x', 'blue hall9'), ('y', '…'), ('z', ''), ('v', 'blue hall9')",
        "SELECT raptor_build('kb')",
        "SELECT rag_alter('kb', '{\"leaf_tokens\": 60, \"block_tokens\": 120, \"inline_rows\": 10}')",
        "SELECT rag_alter('kb', '{\"leaf_tokens\": 40, \"block_tokens\": 80}'); CALL rag_refresh('kb')",
        "UPDATE kb.document SET body = body || '. item5'; CALL rag_refresh('kb')",
        "DELETE FROM kb.node WHERE document_id = 30; DELETE FROM kb.document WHERE id = 30",
        "VACUUM FULL kb.posting; REINDEX TABLE kb.posting",
        "TRUNCATE kb.document",
        "INSERT INTO kb.document (source_key, body) VALUES ('one', 'item5 holds blue part7')",
    ] {
        for statement in sql.split("; ") {
            run(&mut client, statement);
        }
        if !sql.contains("\"inline_rows\"") {
            as_if_fresh(&mut client, sql);
        }
    }
}

#[test]
fn sessions_at_once_lose_no_count_and_see_none_that_is_not_theirs() {
    let database = Database::new();
    let mut client = database.client();
    // Without learning, which makes others wait.
    run(
        &mut client,
        &format!(
            "SELECT rag_create('kb', 8, embedder => 'builtin:hash', {SMALL}); {}",
            documents("kb", 1, 20)
        ),
    );
    let before = found(&mut client, "kb", "blue", "");
    let (mut one, mut two) = (database.client(), database.client());
    run(&mut one, &format!("BEGIN; {}", documents("kb", 21, 40)));
    // The other one writes without waiting.
    run(
        &mut two,
        &format!("SET lock_timeout = '10s'; BEGIN; {}", documents("kb", 41, 60)),
    );
    assert_eq!(found(&mut client, "kb", "blue", ""), before);
    assert!(found(&mut one, "kb", "blue", "").len() > before.len());
    run(&mut one, "COMMIT");
    run(&mut two, "COMMIT");
    as_if_fresh(&mut client, "both");
    run(&mut one, "BEGIN; DELETE FROM kb.document WHERE id % 2 = 0");
    let seen = found(&mut client, "kb", "blue", "");
    run(&mut one, "ROLLBACK");
    assert_eq!(found(&mut client, "kb", "blue", ""), seen);
    let threads: Vec<_> = [(61, 70), (71, 80), (81, 90)]
        .into_iter()
        .map(|(from, to)| {
            let mut client = database.client();
            std::thread::spawn(move || {
                run(&mut client, &documents("kb", from, to));
                run(
                    &mut client,
                    &format!("DELETE FROM kb.document WHERE source_key = 'k{from}'"),
                );
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    as_if_fresh(&mut client, "all");
}

#[test]
fn scores_do_not_tell_of_other_tenants() {
    let (database, other) = (Database::new(), Database::new());
    let (mut client, mut alone) = (database.client(), other.client());
    for client in [&mut client, &mut alone] {
        run(
            client,
            &format!("SELECT rag_create('kb', 8, {SMALL}); {}", documents("kb", 1, 60)),
        );
    }
    run(
        &mut alone,
        "DELETE FROM kb.document WHERE NOT metadata @> '{\"tenant\": \"acme\"}'",
    );
    run(
        &mut client,
        "CREATE ROLE lexical_reader; GRANT USAGE ON SCHEMA kb TO lexical_reader; \
         GRANT SELECT ON ALL TABLES IN SCHEMA kb TO lexical_reader; \
         ALTER TABLE kb.node ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY p ON kb.node TO lexical_reader USING (metadata @> '{\"tenant\": \"acme\"}')",
    );
    for query in QUERIES {
        let expected = found(&mut alone, "kb", query, "");
        let filtered = found(&mut client, "kb", query, r#", filter => '{"tenant": "acme"}'"#);
        assert_eq!(filtered, expected, "{query}");
        run(&mut client, "SET ROLE lexical_reader");
        let visible = found(&mut client, "kb", query, "");
        run(&mut client, "RESET ROLE");
        assert_eq!(visible, expected, "{query}, under row security");
    }
    run(&mut client, "DROP OWNED BY lexical_reader; DROP ROLE lexical_reader");
}

#[test]
fn no_word_of_a_deleted_document_stays() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (body) VALUES ('The zyxwvut sings.'), ('A bird sings.'); \
         ANALYZE kb.posting; DELETE FROM kb.document WHERE id = 1",
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.posting WHERE lexemes::text LIKE '%zyx%'"
        ),
        0
    );
    let statistics =
        "SELECT count(*) FROM pg_stats WHERE schemaname = 'kb' AND tablename = 'posting' AND attname = 'lexemes'";
    assert_eq!(one::<i64>(&mut client, statistics), 0);
    assert!(texts(&mut client, "zyxwvut").is_empty());
}

#[test]
fn a_dropped_configuration_is_named() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE TEXT SEARCH CONFIGURATION mine (COPY = english); \
         SELECT rag_create('kb', embedder => 'builtin:hash', language => 'mine'); \
         INSERT INTO kb.document (body) VALUES ('An owl sings.'), ('A bird sings.'); DROP TEXT SEARCH CONFIGURATION mine",
    );
    for sql in [
        "SELECT * FROM rag_search('kb', 'owl')",
        "INSERT INTO kb.document (body) VALUES ('An owl.')",
    ] {
        let refused = failure(&mut client, sql);
        assert_eq!(refused.code().code(), "42704", "{sql}");
        assert_eq!(refused.detail(), Some("It is the language of collection \"kb\"."));
    }
    run(
        &mut client,
        "SELECT * FROM rag_search('kb', 'owl', methods => '{dense}')",
    );
    run(&mut client, "DELETE FROM kb.document WHERE id = 1");
    run(&mut client, "CREATE TEXT SEARCH CONFIGURATION mine (COPY = english)");
    assert_eq!(texts(&mut client, "birds singing"), ["A bird sings."]);
}

#[test]
fn long_leaves_and_odd_words_are_no_obstacle() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8, language => 'simple', settings => '{\"block_tokens\": 10000, \"leaf_tokens\": 10000}'); \
         INSERT INTO kb.document (body, format) VALUES (repeat('tom ', 9000) || 'end', 'text'), \
         ((SELECT string_agg('word' || i, ' ') FROM generate_series(1, 3000) i), 'text'), \
         ('O''Brien''s C:\\new \\'' back''''slash 100% a|b &c !d (e):f*', 'text'), (repeat('x', 300) || ' short', 'text')",
    );
    for (query, first) in [
        ("tom", "tom tom"),
        ("word2999", "word1 word2"),
        ("O'Brien's", "O'Brien's C:\\new"),
        ("\\ back''slash '", "O'Brien's C:\\new"),
        ("a|b & !d", "O'Brien's C:\\new"),
        ("short", "xxxx"),
    ] {
        let texts = texts(&mut client, query);
        assert!(
            texts.len() == 1 && texts[0].starts_with(first),
            "{query}: {}",
            texts.len()
        );
    }
    assert_eq!(one::<i32>(&mut client, "SELECT max(length) FROM kb.posting"), 9001);
    for query in ["", " ", "… !?", &"unheard ".repeat(2)] {
        assert!(texts(&mut client, query).is_empty(), "{query}");
    }
    // Thousands of different words in a query.
    let long: String = (0..4000).map(|i| format!("word{i} other{i} ")).collect();
    assert_eq!(texts(&mut client, &long).len(), 1);
    assert_eq!(found(&mut client, "kb", &long, ", documents => '{2}'").len(), 1);
    // Stop words alone are searched for as they are.
    run(
        &mut client,
        "SELECT rag_create('en'); INSERT INTO en.document (body) VALUES ('To be or not to be'), ('An owl')",
    );
    assert_eq!(found(&mut client, "en", "to be", "").len(), 1);
}
