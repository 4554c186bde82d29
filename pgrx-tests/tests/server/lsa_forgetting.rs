//! builtin:lsa: what it forgets, and sessions that write while others learn.

use pg_graphrag_tests::Database;

use crate::lsa::{documents, holding, learned, misfits, state};
use crate::models_support::told;
use crate::support::{failure, one, run};

#[test]
fn a_writer_that_would_learn_waits_for_nobody() {
    let database = Database::new();
    let (mut client, mut other) = (database.client(), database.client());
    run(&mut client, &format!("SELECT rag_create('kb'); {}", documents(1, 10)));
    run(&mut other, &format!("BEGIN; {}", documents(11, 20)));
    assert_eq!(state(&mut other, "leaves"), 20);
    run(&mut other, "ROLLBACK");
    // While another writes, nothing is learned.
    run(&mut other, "BEGIN; INSERT INTO kb.document (body) VALUES ('Ferry.')");
    run(&mut client, &format!("SET lock_timeout = '2s'; {}", documents(21, 40)));
    run(&mut other, "COMMIT");
    assert_eq!(state(&mut client, "leaves"), 0);
    assert_eq!(misfits(&mut client), 0);
    run(&mut client, "INSERT INTO kb.document (body) VALUES ('Ferry again.')");
    assert_eq!(state(&mut client, "leaves"), 32);
    assert_eq!(misfits(&mut client), 0);
}

#[test]
fn what_only_deleted_documents_held_is_forgotten() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 40);
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'k4'");
    assert_eq!(holding(&mut client, "zq4"), None);
    assert_eq!(holding(&mut client, "turbin"), Some(9));
    run(
        &mut client,
        "UPDATE kb.document SET body = 'The turbine again.' WHERE source_key = 'k8'",
    );
    assert_eq!(
        (holding(&mut client, "zq8"), holding(&mut client, "bear")),
        (None, Some(8))
    );
    // The document holds it still.
    assert_eq!(holding(&mut client, "turbin"), Some(9));
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'k8'");
    assert_eq!(holding(&mut client, "turbin"), Some(8));
    run(&mut client, "DELETE FROM kb.document WHERE body LIKE '%turbine%'");
    for word in ["turbin", "bear", "oil", "hall"] {
        assert_eq!(holding(&mut client, word), None, "{word}");
    }
    assert_eq!(holding(&mut client, "baker"), Some(10));
    assert_eq!(misfits(&mut client), 0);
    run(&mut client, "DELETE FROM kb.document WHERE body LIKE '%baker%'");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(
        (state(&mut client, "leaves"), state(&mut client, "version")),
        (20, 2),
        "it has shrunk by half"
    );
    assert_eq!(misfits(&mut client), 0);
    run(&mut client, "TRUNCATE kb.document");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.term"), 0);
    assert_eq!(state(&mut client, "leaves"), 0);
    run(&mut client, &documents(1, 25));
    assert_eq!((state(&mut client, "leaves"), state(&mut client, "version")), (25, 3));
    assert_eq!(misfits(&mut client), 0);
}

/// The new version of a document is inserted, then the old one deleted: its words stay as long as any leaf holds them.
#[test]
fn a_term_stays_while_a_newer_leaf_holds_it() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 40);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT source_key || '-new', body || ' Once more.' FROM kb.document WHERE source_key IN ('k3', 'k4')",
    );
    let found = "SELECT score > 0.5 FROM raptor_search('kb', 'zq4', 1, mode => 'leaf')";
    run(&mut client, "DELETE FROM kb.document WHERE source_key IN ('k3', 'k4')");
    assert_eq!(holding(&mut client, "zq4"), Some(0));
    assert!(one::<bool>(&mut client, found));
    assert_eq!(misfits(&mut client), 0);
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(holding(&mut client, "zq4"), Some(0));
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.change"), 0);
    // An update keeps it, too, if the new text does.
    run(
        &mut client,
        "UPDATE kb.document SET body = 'Of zq4 alone.' WHERE source_key = 'k4-new'",
    );
    assert_eq!((holding(&mut client, "zq4"), misfits(&mut client)), (Some(0), 0));
    run(
        &mut client,
        "UPDATE kb.document SET body = 'Of nothing.' WHERE source_key = 'k4-new'",
    );
    assert_eq!((holding(&mut client, "zq4"), misfits(&mut client)), (None, 0));
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'k3-new'");
    assert_eq!((holding(&mut client, "zq3"), misfits(&mut client)), (None, 0));
}

/// Many terms are looked for in another way than few.
#[test]
fn many_terms_stay_while_newer_leaves_hold_them() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 40);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'wide' || n, (SELECT string_agg('wq' || i, ' ') FROM generate_series(1, 900) i) \
         FROM generate_series(1, 3) n",
    );
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"builtin:lsa\"}')");
    run(&mut client, "CALL rag_refresh('kb')");
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'new', body FROM kb.document WHERE source_key = 'wide1'",
    );
    run(&mut client, "DELETE FROM kb.document WHERE source_key LIKE 'wide%'");
    let wide = "SELECT count(*) FROM kb.term WHERE lexeme LIKE 'wq%' AND document_count = 0";
    assert_eq!((one::<i64>(&mut client, wide), misfits(&mut client)), (900, 0));
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'new'");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.term WHERE lexeme LIKE 'wq%'"),
        0
    );
}

#[test]
fn of_two_that_delete_the_last_leaves_of_a_term_nothing_stays() {
    let database = Database::new();
    let (mut client, mut other) = (database.client(), database.client());
    learned(&mut client, 40);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'a' || n, body FROM kb.document, generate_series(1, 2) n WHERE source_key = 'k4'; \
         DELETE FROM kb.document WHERE source_key = 'k4'",
    );
    run(&mut client, "BEGIN; DELETE FROM kb.document WHERE source_key = 'a1'");
    run(&mut other, "DELETE FROM kb.document WHERE source_key = 'a2'");
    run(&mut client, "COMMIT");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(holding(&mut client, "zq4"), None);
}

#[test]
fn documents_with_ids_of_before_are_counted_in_and_out() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 40);
    run(
        &mut client,
        "INSERT INTO kb.document (id, body) SELECT -i, 'A turbine of zq4 and nonsuch.' FROM generate_series(1, 9) i",
    );
    assert_eq!(
        (holding(&mut client, "turbin"), holding(&mut client, "zq4")),
        (Some(19), Some(10))
    );
    run(&mut client, "DELETE FROM kb.document WHERE id < 0");
    assert_eq!(
        (holding(&mut client, "turbin"), holding(&mut client, "zq4")),
        (Some(10), Some(1))
    );
    assert_eq!(misfits(&mut client), 0);
    run(&mut client, "DELETE FROM kb.document");
    let health = "SELECT detail FROM rag_health('kb') WHERE part = 'embedder'";
    assert_eq!(
        one::<String>(&mut client, health),
        "builtin:lsa: has forgotten all that it had learned, and learns from 20 leaves on"
    );
    run(&mut client, &documents(1, 25));
    assert_eq!((state(&mut client, "leaves"), misfits(&mut client)), (25, 0));
}

#[test]
fn sessions_that_delete_do_not_wait_for_each_other() {
    let database = Database::new();
    let (mut one_, mut other) = (database.client(), database.client());
    learned(&mut one_, 40);
    run(
        &mut one_,
        "BEGIN; DELETE FROM kb.document WHERE source_key IN ('k4', 'k8')",
    );
    run(
        &mut other,
        "SET lock_timeout = '2s'; DELETE FROM kb.document WHERE source_key IN ('k12', 'k16', 'k1')",
    );
    assert_eq!(
        (holding(&mut other, "turbin"), holding(&mut other, "zq1")),
        (Some(10), None)
    );
    run(&mut one_, "COMMIT");
    assert_eq!(holding(&mut other, "turbin"), Some(8));
    assert!(one::<i64>(&mut other, "SELECT count(*) FROM kb.change WHERE \"table\" = 'term'") > 0);
    run(&mut other, "CALL rag_refresh('kb')");
    assert_eq!(holding(&mut other, "turbin"), Some(6));
    assert_eq!(
        one::<i64>(&mut other, "SELECT count(*) FROM kb.change WHERE \"table\" = 'term'"),
        0
    );
    // With an older snapshot, too.
    run(
        &mut one_,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM kb.document WHERE source_key = 'k20'; COMMIT",
    );
    run(&mut other, "CALL rag_refresh('kb')");
    assert_eq!(
        (holding(&mut other, "turbin"), holding(&mut other, "zq20")),
        (Some(5), None)
    );
}

#[test]
fn an_older_snapshot_mixes_no_vectors() {
    let database = Database::new();
    let (mut client, mut late) = (database.client(), database.client());
    learned(&mut client, 20);
    run(
        &mut late,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM kb.document",
    );
    run(&mut client, &documents(21, 40));
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(state(&mut client, "version"), 2);
    let refused = late.batch_execute(&documents(41, 41)).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "40001", "{}", told(&refused));
    run(&mut late, "ROLLBACK");
    assert_eq!(misfits(&mut client), 0);
}

#[test]
fn a_dropped_configuration_keeps_nobody_from_deleting() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "CREATE TEXT SEARCH CONFIGURATION mine (COPY = english); SELECT rag_create('kb', language => 'mine'); {}",
            documents(1, 30)
        ),
    );
    assert_eq!(holding(&mut client, "turbin"), Some(7));
    run(&mut client, "DROP TEXT SEARCH CONFIGURATION mine");
    for sql in [
        "SELECT * FROM raptor_search('kb', 'owl')",
        "INSERT INTO kb.document (body) VALUES ('An owl.')",
    ] {
        let refused = failure(&mut client, sql);
        assert_eq!(refused.code().code(), "42704", "{sql}");
        assert_eq!(refused.detail(), Some("It is the language of collection \"kb\"."));
    }
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'k4'");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.term"),
        0,
        "no trace of it"
    );
    run(&mut client, "CREATE TEXT SEARCH CONFIGURATION mine (COPY = simple)");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!((state(&mut client, "leaves"), misfits(&mut client)), (29, 0));
}

#[test]
fn tampering_with_what_was_learned_crashes_nothing() {
    let database = Database::new();
    let mut client = database.client();
    for change in [
        "UPDATE kb.term SET vector = '[1,2]'",
        "UPDATE kb.term SET vector = NULL",
        "UPDATE kb.term SET weight = 'NaN'",
        "UPDATE kb.term SET weight = '-Infinity', document_count = -1",
        "DELETE FROM kb.term",
        "UPDATE kb.setting SET value = '\"junk\"' WHERE key = 'lsa'",
        "UPDATE kb.setting SET value = '{\"leaves\": -5, \"version\": 9223372036854775807, \"last_node\": \"x\"}' WHERE key = 'lsa'",
        "UPDATE kb.setting SET value = '{\"leaves\": 9223372036854775807, \"version\": 1e300}' WHERE key = 'lsa'",
        "DELETE FROM kb.setting WHERE key = 'lsa'",
        "INSERT INTO kb.change (\"table\", key, kind) VALUES ('term', 'owl', '-3'), ('term', 'owl', '9223372036854775807'), ('term', 'nonsuch', '1')",
    ] {
        run(&mut client, "DROP SCHEMA IF EXISTS kb CASCADE");
        learned(&mut client, 24);
        run(&mut client, change);
        for sql in [
            "SELECT * FROM raptor_search('kb', 'owl and oven')",
            "SELECT * FROM rag_neighbors('kb', 'owl')",
            "SELECT * FROM rag_health('kb')",
            "DELETE FROM kb.document WHERE source_key = 'k1'",
            "INSERT INTO kb.document (body) VALUES ('An owl again.')",
            "SELECT raptor_build('kb')",
            "CALL rag_refresh('kb')",
        ] {
            if let Err(error) = client.batch_execute(sql) {
                panic!("{change}: {sql}: {error:?}");
            }
        }
    }
}
