//! rag_context: what fits into a budget, with its tags.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

const QUESTION: &str = "Who leads the yard of Isla Brodie?";

fn corpus(client: &mut Client) {
    run(
        client,
        "SELECT rag_create('kb', settings => '{\"leaf_tokens\": 40, \"block_tokens\": 120, \"leaf_overlap\": 0}'); \
         INSERT INTO kb.document (source_key, title, body, metadata) \
         SELECT 'd' || i, 'Report ' || i, E'# Yard ' || i || E'\n\nIsla Brodie leads Yard ' || i || ' since the flood. ' || repeat('The crane of that yard is old. ', i), \
                jsonb_build_object('half', i % 2) FROM generate_series(1, 40) i",
    );
    run(client, "CALL rag_refresh('kb')");
}

#[test]
fn the_budget_is_never_exceeded_and_what_fits_is_taken() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    for expand in ["leaf", "block"] {
        let mut last = 0;
        for budget in [1, 20, 60, 200, 1000, 4000] {
            let spent: i64 = one(
                &mut client,
                &format!(
                    "SELECT coalesce(sum(token_count), 0) FROM rag_context('kb', '{QUESTION}', {budget}, expand => '{expand}')"
                ),
            );
            assert!(
                spent <= budget && spent >= last,
                "{expand} {budget}: {spent} after {last}"
            );
            last = spent;
        }
        assert!(last > 1000, "{expand} {last}");
    }
    // Tags count, each in its own row.
    let wrong = format!(
        "SELECT count(*) FROM rag_context('kb', '{QUESTION}') WHERE citation !~ '^[PG][1-9][0-9]*$' OR (kind = 'relation') <> (citation LIKE 'G%') \
           OR token_count <= 0"
    );
    assert_eq!(one::<i64>(&mut client, &wrong), 0);
    let tags: Vec<String> = list(
        &mut client,
        &format!("SELECT citation FROM rag_context('kb', '{QUESTION}')"),
    );
    let mut distinct = tags.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), tags.len());
    // Text is where it says.
    let elsewhere = format!(
        "SELECT count(*) FROM rag_context('kb', '{QUESTION}') c JOIN kb.document d ON d.source_key = c.source_key \
         WHERE substr(d.body, c.start_char + 1, c.end_char - c.start_char) <> c.text OR c.title <> d.title OR c.document_ids <> ARRAY[d.id]"
    );
    assert_eq!(one::<i64>(&mut client, &elsewhere), 0);
}

#[test]
fn what_did_not_fit_follows_if_it_is_wanted() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    let rows = |client: &mut Client, more: &str| -> Vec<String> {
        list(
            client,
            &format!("SELECT coalesce(citation, '-') || kind || id FROM rag_context('kb', '{QUESTION}', 200{more})"),
        )
    };
    let (cited, all) = (rows(&mut client, ""), rows(&mut client, ", left_out => true"));
    assert_eq!(all[..cited.len()], cited);
    assert!(cited.iter().all(|row| !row.starts_with('-')));
    let rest = &all[cited.len()..];
    assert!(
        rest.len() > 10 && rest.iter().all(|row| row.starts_with('-')),
        "{rest:?}"
    );
    assert!(rest.iter().any(|row| row.starts_with("-passage")));
    // None of them would have fitted.
    let smallest: i64 = one(
        &mut client,
        &format!(
            "SELECT min(token_count) FILTER (WHERE citation IS NULL) - (200 - sum(token_count) FILTER (WHERE citation IS NOT NULL)) \
             FROM rag_context('kb', '{QUESTION}', 200, left_out => true)"
        ),
    );
    assert!(smallest > 0);
}

#[test]
fn the_graph_gets_its_share_and_what_passages_leave() {
    let database = Database::new();
    let mut client = database.client();
    corpus(&mut client);
    run(
        &mut client,
        "SELECT graph_add('kb', 'Isla Brodie', 'knows person', 'Ron Weir ' || i) FROM generate_series(1, 60) i",
    );
    let of = |client: &mut Client, arguments: &str, kind: &str| -> i64 {
        one(
            client,
            &format!(
                "SELECT coalesce(sum(token_count), 0) FROM rag_context('kb', '{QUESTION}', {arguments}) WHERE kind {kind} 'relation'"
            ),
        )
    };
    assert_eq!(of(&mut client, "400, graph_share => 0", "="), 0);
    let (facts, passages) = (
        of(&mut client, "400, graph_share => 0.5", "="),
        of(&mut client, "400, graph_share => 0.5", "<>"),
    );
    assert!(
        (150..=250).contains(&facts) && (150..=250).contains(&passages),
        "{facts} {passages}"
    );
    let (facts, passages) = (
        of(&mut client, "400, graph_share => 1", "="),
        of(&mut client, "400, graph_share => 1", "<>"),
    );
    assert!(facts > 300 && facts + passages <= 400, "{facts} {passages}");
    // What rests on no document is out of every scope, and no other tenant's words come.
    let scoped = format!("SELECT count(*) FROM rag_context('kb', '{QUESTION}', filter => '{{\"half\": 1}}')");
    assert!(one::<i64>(&mut client, &scoped) > 0);
    let foreign = format!(
        "SELECT count(*) FROM rag_context('kb', '{QUESTION}', filter => '{{\"half\": 1}}') c WHERE c.text LIKE '%Ron Weir%' \
           OR EXISTS (SELECT FROM kb.document d WHERE d.id = ANY (c.document_ids) AND d.metadata @> '{{\"half\": 0}}')"
    );
    assert_eq!(one::<i64>(&mut client, &foreign), 0);
}

#[test]
fn arguments_are_checked() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    for (arguments, code, message) in [
        ("0", "22023", "max_tokens must be between 1 and 2147483647"),
        ("graph_share => 1.5", "22023", "graph_share must be between 0 and 1"),
        ("graph_share => 'NaN'", "22023", "graph_share must be between 0 and 1"),
        ("methods => '{x}'", "22023", "unknown method \"x\""),
    ] {
        let error = failure(
            &mut client,
            &format!("SELECT * FROM rag_context('kb', 'x', {arguments})"),
        );
        assert_eq!((error.code().code(), error.message()), (code, message), "{arguments}");
    }
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM rag_context('kb', 'x')"),
        0
    );
}
