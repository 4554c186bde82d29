//! builtin:lsa: what it says of queries, and what rag_health says of it.

use pg_graphrag_tests::Database;

use crate::lsa::{documents, learned};
use crate::models_support::Heard;
use crate::support::{one, run};

#[test]
fn a_query_of_unknown_words_says_so_once() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    learned(&mut heard.client, 40);
    run(&mut heard.client, "SELECT raptor_build('kb')");
    heard.said();
    let mut said = |sql: &str| {
        run(&mut heard.client, sql);
        heard.said().matches("no word of the query is one that").count()
    };
    for (query, times) in [
        ("xylophone", 1),
        ("der Gabelstapler", 1),
        ("公园", 1),
        ("turbines", 0),
        ("a xylophone of turbines", 0),
        ("zq7", 0),
        ("…", 0),
        ("", 0),
    ] {
        for search in [
            "SELECT count(*) FROM raptor_search('kb', '{}')",
            "SELECT count(*) FROM graph_global('kb', '{}')",
            "SELECT text FROM kb.node ORDER BY embedding <=> rag_embed('kb', '{}') LIMIT 3",
        ] {
            assert_eq!(said(&search.replace("{}", query)), times, "{search}: {query}");
        }
    }
    // The other part knows what it may know.
    run(
        &mut heard.client,
        &format!(
            "DROP SCHEMA kb CASCADE; SELECT rag_create('kb', embedder => 'builtin:lsa + builtin:hash'); {}",
            documents(1, 40)
        ),
    );
    run(
        &mut heard.client,
        "SELECT count(*) FROM raptor_search('kb', 'xylophone')",
    );
    assert!(!heard.said().contains("no word"));
}

#[test]
fn health_tells_what_is_new_and_what_waits() {
    let database = Database::new();
    let mut client = database.client();
    learned(&mut client, 40);
    let mut health = |part: &str| -> String {
        one(
            &mut client,
            &format!("SELECT state || ' ' || detail FROM rag_health('kb') WHERE part = '{part}'"),
        )
    };
    assert_eq!(health("documents"), "ok all can be found");
    let learned = health("embedder");
    run(&mut database.client(), &documents(41, 42));
    assert_eq!(
        health("embedder"),
        format!("{learned}; 2 newer leaves, with unknown words that are 1.3 % of the words that it has learned from")
    );
    let other = &mut database.client();
    run(other, "SELECT rag_alter('kb', '{\"inline_rows\": 0}')");
    run(other, &documents(43, 45));
    assert_eq!(
        health("documents"),
        "degraded waiting: 3 documents to be cut; rag_refresh takes them up"
    );
    run(other, "SELECT rag_alter('kb', '{\"embedder\": \"builtin:hash\"}')");
    run(other, "CALL rag_refresh('kb')");
    run(other, "SELECT rag_alter('kb', '{\"embedder\": \"builtin:lsa\"}')");
    assert_eq!(health("next embedder"), "ok builtin:lsa: learns with the next refresh");
    assert!(health("vectors").starts_with("degraded"));
    assert_eq!(health("documents"), "ok all can be found");
}
