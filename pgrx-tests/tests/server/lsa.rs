//! builtin:lsa: what it learns, when, and what it forgets.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::Heard;
use crate::support::{failure, list, one, run};

/// Documents about four things, `from` to `to`, each with a word that no other has.
pub fn documents(from: i32, to: i32) -> String {
    format!(
        "INSERT INTO kb.document (source_key, body) \
         SELECT 'k' || i, (ARRAY['The turbine lost a bearing and oil in hall', 'The baker sold rye bread and dough from oven', \
           'An owl hunts voles over the meadow near nest', 'The ferry carries mail to the island on voyage'])[i % 4 + 1] \
           || ' ' || i || ' zq' || i || '.' FROM generate_series({from}, {to}) i; "
    )
}

/// A collection with so many documents, which has learned from them.
pub fn learned(client: &mut Client, count: i32) {
    run(client, &format!("SELECT rag_create('kb'); {}", documents(1, count)));
    assert_eq!(state(client, "leaves"), i64::from(count));
}

/// A statement in a transaction in which nothing can be learned.
fn later(sql: &str) -> String {
    format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {sql}; COMMIT")
}

/// A number of what the embedder has learned from.
pub fn state(client: &mut Client, key: &str) -> i64 {
    one(
        client,
        &format!("SELECT coalesce((value ->> '{key}')::bigint, 0) FROM kb.setting WHERE key = 'lsa'"),
    )
}

/// Rows whose vector is not what the embedder makes of their text now.
pub fn misfits(client: &mut Client) -> i64 {
    one(
        client,
        "SELECT count(*) FROM (SELECT text, embedding FROM kb.node UNION ALL \
           SELECT text, embedding FROM kb.community WHERE text IS NOT NULL) t \
         WHERE embedding::text IS DISTINCT FROM rag_embed('kb', text)::text",
    )
}

/// How many leaves hold a term, or nothing where it is no term.
pub fn holding(client: &mut Client, lexeme: &str) -> Option<i64> {
    list(
        client,
        &format!("SELECT document_count FROM kb.term WHERE lexeme = '{lexeme}'"),
    )
    .pop()
}

#[test]
fn the_first_documents_are_learned_from_as_they_come() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 40);
    assert_eq!(state(&mut client, "rank"), 40 / 3);
    assert_eq!(holding(&mut client, "turbin"), Some(10));
    assert_eq!(holding(&mut client, "zq7"), Some(1));
    assert_eq!(holding(&mut client, "the"), None, "a stop word");
    assert_eq!(misfits(&mut client), 0);
    let weight: f64 = one(&mut client, "SELECT weight FROM kb.term WHERE lexeme = 'turbin'");
    assert!((weight - ((41.0_f64 / 11.0).ln() + 1.0)).abs() < 1e-12);
    // Words that never stand together are near if their texts are alike.
    let near: Vec<String> = list(&mut client, "SELECT word FROM rag_neighbors('kb', 'turbines', 3)");
    let same = ["bear", "hall", "lost", "oil"];
    assert!(near.iter().all(|word| same.contains(&word.as_str())), "{near:?}");
}

#[test]
fn little_is_not_learned_from_and_search_says_when_it_is_time() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let client = &mut heard.client;
    run(client, &format!("SELECT rag_create('kb'); {}", documents(1, 19)));
    run(client, "SELECT raptor_build('kb')");
    assert_eq!(state(client, "leaves"), 0);
    assert_eq!(misfits(client), 0);
    let search = "SELECT text FROM raptor_search('kb', 'zq7', k => 1, mode => 'leaf')";
    assert!(one::<String>(client, search).contains("zq7"));
    assert!(!heard.said().contains("learned"));
    let client = &mut heard.client;
    run(client, &later(&documents(20, 20)));
    assert!(one::<String>(client, search).contains("zq7"));
    let said = heard.said();
    assert!(said.contains("has not learned this collection yet"), "{said}");
    let client = &mut heard.client;
    run(client, "CALL rag_refresh('kb')");
    assert_eq!(state(client, "leaves"), 20);
    assert_eq!(misfits(client), 0);
    assert!(one::<String>(client, search).contains("zq7"));
    let said = heard.said();
    assert!(
        said.contains("reembed: the embedder learns, since it has learned nothing yet"),
        "{said}"
    );
    assert!(!said.contains("has not learned"), "{said}");
}

#[test]
fn it_learns_anew_when_the_collection_has_doubled() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 30);
    run(&mut client, &documents(31, 35));
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(state(&mut client, "version"), 1, "known words are folded in");
    assert_eq!(holding(&mut client, "zq31"), None);
    assert_eq!(misfits(&mut client), 0);
    run(&mut client, &later(&documents(36, 60)));
    assert_eq!(state(&mut client, "version"), 1);
    // A build learns, too; readers see nothing of it before it is committed.
    let mut reader = database.client();
    let vectors = "SELECT sum(hashtextextended(embedding::text, 0))::text FROM kb.node WHERE level = 0";
    let before: String = one(&mut reader, vectors);
    run(&mut client, "BEGIN; SELECT raptor_build('kb')");
    assert_eq!(state(&mut client, "version"), 2);
    assert_eq!(one::<String>(&mut reader, vectors), before);
    assert_eq!(state(&mut reader, "version"), 1);
    run(&mut client, "COMMIT");
    assert_ne!(one::<String>(&mut reader, vectors), before);
    assert_eq!(state(&mut client, "leaves"), 60);
    assert_eq!(holding(&mut client, "zq31"), Some(1));
    assert_eq!(misfits(&mut client), 0);
}

#[test]
fn a_small_collection_learns_as_it_grows() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    for i in 1..=90 {
        run(&mut client, &documents(i, i));
        let expected = match i {
            ..20 => 0,
            20..40 => 20,
            40..80 => 40,
            _ => 80,
        };
        assert_eq!(state(&mut client, "leaves"), expected, "{i}");
    }
    assert_eq!((misfits(&mut client), state(&mut client, "version")), (0, 3));
    // All texts are cut anew, and hold what they held.
    let terms = "SELECT string_agg(lexeme || document_count, ' ' ORDER BY lexeme) FROM kb.term";
    let before: String = one(&mut client, terms);
    run(&mut client, "UPDATE kb.document SET body = replace(body, ' ', '  ')");
    assert_eq!(one::<String>(&mut client, terms), before);
    for i in 1..=90 {
        let sql = format!("UPDATE kb.document SET body = body || ' Again.' WHERE source_key = 'k{i}'");
        run(&mut client, &sql);
    }
    assert_eq!(one::<String>(&mut client, terms), before);
    assert_eq!((misfits(&mut client), state(&mut client, "version")), (0, 3));
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'k7'");
    assert_eq!(holding(&mut client, "zq7"), None);
    // Whoever does not want to wait until it is due, orders it.
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"builtin:lsa\"}')");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!((state(&mut client, "version"), state(&mut client, "leaves")), (4, 89));
    assert_eq!((misfits(&mut client), holding(&mut client, "zq90")), (0, Some(1)));
}

#[test]
fn it_learns_anew_when_too_many_words_are_unknown() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 60);
    // Two new leaves of 60, with more new words than five of a hundred.
    run(
        &mut client,
        &later(
            "INSERT INTO kb.document (body) SELECT string_agg('neu' || i * 2 + j, ' ') FROM generate_series(1, 30) i, \
               generate_series(0, 1) j GROUP BY j",
        ),
    );
    let health = "SELECT state || ' ' || detail FROM rag_health('kb') WHERE part = 'embedder'";
    let told: String = one(&mut client, health);
    assert!(
        told.starts_with("ok") && told.contains("the next refresh learns, since unknown words of new leaves are"),
        "{told}"
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(state(&mut client, "version"), 2);
    assert_eq!(holding(&mut client, "neu10"), Some(1));
    assert_eq!(misfits(&mut client), 0);
    let told: String = one(&mut client, health);
    assert!(
        told.starts_with("ok builtin:lsa: version 2, learned from 62 leaves"),
        "{told}"
    );
}

#[test]
fn the_same_documents_give_the_same_bytes() {
    let database = Database::new();
    let mut client = database.client();
    let content = "SELECT sum(hashtextextended(t::text, 0))::text FROM (SELECT lexeme, document_count, weight, vector::text FROM kb.term) t \
                   UNION ALL SELECT sum(hashtextextended(t::text, 0))::text FROM (SELECT text, embedding::text FROM kb.node) t";
    let mut contents: Vec<Vec<String>> = Vec::new();
    for (threads, order) in [(0, "i"), (1, "-i"), (4, "hashint4(i)")] {
        run(
            &mut client,
            &format!(
                "SET max_parallel_maintenance_workers = {threads}; DROP SCHEMA IF EXISTS kb CASCADE; SELECT rag_create('kb', 64); \
                 CREATE TEMP TABLE IF NOT EXISTS texts AS SELECT i, string_agg('w' || (i * j * j) % 997, ' ') AS text \
                   FROM generate_series(1, 400) i, generate_series(1, 30) j GROUP BY i; \
                 INSERT INTO kb.document (source_key, body) SELECT i::text, text FROM texts ORDER BY {order}; SELECT raptor_build('kb')"
            ),
        );
        assert_eq!(misfits(&mut client), 0);
        contents.push(list(&mut client, content));
    }
    assert_eq!(contents[0], contents[1]);
    assert_eq!(contents[0], contents[2]);
}

#[test]
fn a_restored_collection_embeds_alike() {
    let (source, target) = (Database::new(), Database::new());
    let (mut client, mut restored) = (source.client(), target.client());
    learned(&mut client, 40);
    target.psql(&source.run("pg_dump", &["-n", "kb"]));
    let query = "SELECT rag_embed('kb', 'Which oven is nearest to the zq5 turbine?')::text";
    assert_eq!(one::<String>(&mut client, query), one::<String>(&mut restored, query));
    assert_eq!(misfits(&mut restored), 0);
    run(&mut restored, &documents(41, 80));
    run(&mut restored, "CALL rag_refresh('kb')");
    assert_eq!(
        (state(&mut restored, "version"), state(&mut restored, "leaves")),
        (2, 80)
    );
}

#[test]
fn codes_numbers_and_other_scripts_are_found() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) \
         SELECT 'c' || i, 'The memo SR-2023-' || lpad(i::text, 3, '0') || ' is filed under POL_' || i || '.' FROM generate_series(1, 20) i \
         UNION ALL VALUES ('zh', '知识图谱把事实连成一张网。'), ('zh2', '今天的天气很好，我们去公园。'), \
           ('ja', 'データベースは文書を保存する。'), ('th', 'ภาษาไทยเป็นภาษาที่ไม่มีช่องว่าง'), \
           ('de', 'Die Straßenbahn fährt über die Brücke.'), ('ru', 'Поезд идёт по мосту через реку.')",
    );
    assert_eq!(state(&mut client, "leaves"), 26);
    for (query, key) in [
        ("What does SR-2023-007 say?", "c7"),
        ("pol_13", "c13"),
        ("图谱", "zh"),
        ("公园天气", "zh2"),
        ("データ", "ja"),
        ("ภาษาไทย", "th"),
        ("Straßenbahn", "de"),
        ("мосту", "ru"),
    ] {
        let found: String = one(
            &mut client,
            &format!(
                "SELECT d.source_key FROM raptor_search('kb', '{query}', k => 1, mode => 'leaf') s JOIN kb.document d ON d.id = s.document_ids[1]"
            ),
        );
        assert_eq!(found, key, "{query}");
    }
    // A text of stop words alone has a vector, one without a word has none.
    let sql = "SELECT rag_embed('kb', 'to be or not to be') IS NOT NULL AND rag_embed('kb', '… !') IS NULL AND rag_embed('kb', '') IS NULL";
    assert!(one::<bool>(&mut client, sql));
}

#[test]
fn neighbors_of_what_is_not_there() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    run(&mut heard.client, "SELECT rag_create('kb')");
    let count = "SELECT count(*) FROM rag_neighbors('kb', $$it's a \"turbine\"$$)";
    assert_eq!(one::<i64>(&mut heard.client, count), 0);
    assert!(heard.said().contains("has learned nothing yet"));
    run(&mut heard.client, &documents(1, 40));
    assert_eq!(one::<i64>(&mut heard.client, count), 10);
    for word in ["nonsuch", "", "the", "…", "turbine' OR true"] {
        let sql = format!("SELECT count(*) FROM rag_neighbors('kb', $w${word}$w$)");
        let found: i64 = one(&mut heard.client, &sql);
        assert_eq!(found, if word.starts_with("turbine") { 10 } else { 0 }, "{word}");
    }
    assert!(heard.said().contains("the collection has not learned \"nonsuch\""));
    let client = &mut heard.client;
    assert_eq!(
        one::<i64>(client, "SELECT count(*) FROM rag_neighbors('kb', 'owl', 0)"),
        0
    );
    let all = "SELECT count(*) = (SELECT count(*) - 1 FROM kb.term WHERE document_count > 1) AND min(score) >= -1 AND max(score) < 1.0000001 \
               FROM rag_neighbors('kb', 'owl', 10000)";
    assert!(one::<bool>(client, all));
    assert_eq!(
        failure(client, "SELECT rag_neighbors('kb', 'owl', -1)").code().code(),
        "22023"
    );
    run(client, "SELECT rag_create('plain', embedder => 'builtin:hash')");
    let refused = failure(client, "SELECT rag_neighbors('plain', 'owl')");
    assert_eq!(
        (refused.code().code(), refused.detail()),
        ("55000", Some("Its embedder is builtin:hash."))
    );
}

#[test]
fn readers_search_without_reading_what_was_learned() {
    let database = Database::new();
    let mut client = database.client();
    let role = database.role("reader");
    learned(&mut client, 40);
    run(
        &mut client,
        &format!(
            "GRANT USAGE ON SCHEMA kb TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {role}; REVOKE SELECT ON kb.term FROM {role}"
        ),
    );
    let mut reader = database.client_as(&role);
    let query = "SELECT rag_embed('kb', 'bearing')::text";
    assert_eq!(one::<String>(&mut reader, query), one::<String>(&mut client, query));
    assert_eq!(
        failure(&mut reader, "SELECT rag_neighbors('kb', 'bearing')")
            .code()
            .code(),
        "42501"
    );
}

#[test]
fn a_query_looks_its_words_up_by_key() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, &format!("SELECT rag_create('kb'); {}", documents(1, 900)));
    let read = |client: &mut Client| -> (i64, i64) {
        run(
            client,
            "SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot()",
        );
        let row = client
            .query_one(
                "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relid = 'kb.term'::regclass",
                &[],
            )
            .unwrap();
        (row.get(0), row.get(1))
    };
    let before = read(&mut client);
    assert!(one::<bool>(
        &mut client,
        "SELECT rag_embed('kb', 'The bearing of turbine zq8') IS NOT NULL"
    ));
    let after = read(&mut client);
    assert_eq!(after.0, before.0, "no scan of all terms");
    assert!((1..=3).contains(&(after.1 - before.1)), "{before:?} {after:?}");
}

#[test]
fn a_small_budget_learns_from_less_and_says_so() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    run(
        &mut heard.client,
        &format!(
            "SET graphrag.build_memory = '1MB'; SELECT rag_create('kb'); {}",
            documents(1, 600)
        ),
    );
    let said = heard.said();
    assert!(
        said.contains("the embedder learns from") && said.contains("of 600 leaves"),
        "{said}"
    );
    let client = &mut heard.client;
    assert_eq!(state(client, "leaves"), 600);
    assert!(state(client, "rank") < 200);
    assert_eq!(misfits(client), 0);
}

#[test]
fn under_a_small_budget_the_order_of_documents_counts_as_little() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let terms =
        "SELECT sum(hashtextextended(t::text, 0))::text FROM (SELECT lexeme, weight, vector::text FROM kb.term) t";
    let mut contents: Vec<String> = Vec::new();
    for order in ["i", "-i", "hashint4(i)"] {
        run(
            &mut heard.client,
            &format!(
                "DROP SCHEMA IF EXISTS kb CASCADE; SET graphrag.build_memory = '1MB'; \
                 SELECT rag_create('kb', 8, settings => '{{\"inline_rows\": 0}}'); \
                 CREATE TEMP TABLE IF NOT EXISTS texts AS SELECT i, string_agg('w' || (i * j * j) % 499, ' ') AS text \
                   FROM generate_series(1, 4000) i, generate_series(1, 50) j GROUP BY i; \
                 INSERT INTO kb.document (id, body) SELECT row_number() OVER (ORDER BY {order}), text FROM texts ORDER BY {order}"
            ),
        );
        heard.said();
        run(&mut heard.client, "CALL rag_refresh('kb', steps => '{embed}')");
        let said = heard.said();
        let learned = said.split("the embedder learns from ").nth(1).expect(&said);
        let learned: i64 = learned.split(' ').next().unwrap_or_default().parse().expect(learned);
        // A row of the sample has 8 bytes for each of its terms, and there are two of it for a while.
        assert!((100..=1_000).contains(&learned), "{learned}");
        contents.push(one(&mut heard.client, terms));
    }
    assert!(contents.iter().all(|content| *content == contents[0]), "{contents:?}");
}

#[test]
fn learning_can_be_cancelled_and_loses_nothing() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', settings => '{\"inline_rows\": 0}'); INSERT INTO kb.document (body) \
         SELECT string_agg('w' || (i * j * j) % 99991, ' ') FROM generate_series(1, 4000) i, generate_series(1, 60) j GROUP BY i",
    );
    run(&mut client, "SET statement_timeout = '1s'");
    let refused = failure(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(refused.code().code(), "57014");
    assert_eq!(state(&mut client, "leaves"), 0);
    run(&mut client, "SET statement_timeout = 0");
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(state(&mut client, "leaves"), 4000);
    assert_eq!(misfits(&mut client), 0);
}
