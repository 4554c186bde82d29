//! What models add to a search: other words for a question, and a reranker.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{Heard, create_server, mock};
use crate::support::{failure, list, one, refused, run};

/// Puts a question about a boat into the words of the corpus; what it is asked about a wreck it answers badly.
fn answerer(system: &str, user: &str) -> String {
    if user.contains("wreck") {
        return String::new();
    }
    if system.contains("\"questions\"") {
        return "```json\n{\"questions\": [\"ferry timetable\", \"What does a ticket cost?\", \"ferry timetable\"]}\n```".to_owned();
    }
    if system.contains("keywords alone") {
        return "north pier, ferry".to_owned();
    }
    match system.contains("passage of a document") {
        true => "The ferry leaves at ten from the north pier.".to_owned(),
        false => "When does the ferry leave?".to_owned(),
    }
}

fn harbour(client: &mut Client) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(answerer));
    run(
        client,
        &format!(
            "{} SELECT rag_create('kb', embedder => 'builtin:hash', answerer => 'server:m'); \
             INSERT INTO kb.document (source_key, body, metadata) VALUES \
               ('ferry', 'The ferry leaves at ten.', '{{\"t\": 1}}'), ('pier', 'The north pier was painted in spring.', '{{\"t\": 1}}'), \
               ('ticket', 'A ticket has its price on the back.', '{{\"t\": 2}}'), ('owl', 'An owl sings in the big old tree by the river bank.', '{{\"t\": 2}}'), \
               ('boat', 'My boat is red.', '{{\"t\": 2}}'); \
             CREATE FUNCTION longest_first(query text, texts text[]) RETURNS float8[] LANGUAGE sql IMMUTABLE \
               AS $$SELECT array_agg(length(t) ORDER BY n)::float8[] FROM unnest(texts) WITH ORDINALITY AS u (t, n)$$; \
             SELECT rag_alter('kb', '{{\"reranker\": \"function:public.longest_first\"}}')",
            create_server("m", &mock.base_url(), "")
        ),
    );
    mock
}

fn keys(client: &mut Client, query: &str, arguments: &str) -> Vec<String> {
    list(
        client,
        &format!(
            "SELECT d.source_key FROM rag_search('kb', '{query}', methods => '{{lexical}}', {arguments}) WITH ORDINALITY AS r \
               JOIN kb.document d ON d.id = r.document_ids[1] ORDER BY r.ordinality"
        ),
    )
}

#[test]
fn a_question_is_searched_in_other_words_too() {
    let database = Database::new();
    let mut client = database.client();
    let mock = harbour(&mut client);
    let question = "When does the boat go?";
    assert_eq!(keys(&mut client, question, "k => 5"), ["boat"]);
    assert_eq!(mock.log().len(), 0, "nobody was asked");
    let found = keys(&mut client, question, "rewrite => '{reword}'");
    assert_eq!(
        found,
        ["boat", "ferry"],
        "the question itself counts as much as all others"
    );
    assert_eq!(
        keys(&mut client, question, "rewrite => '{hypothetical}'"),
        ["boat", "ferry", "pier"]
    );
    let found = keys(&mut client, question, "rewrite => '{queries}'");
    assert_eq!(found[0], "boat");
    assert!(
        found.contains(&"ferry".to_owned()) && found.contains(&"ticket".to_owned()),
        "{found:?}"
    );
    assert_eq!(
        keys(&mut client, "a wharf?", "rewrite => '{keywords}'"),
        ["pier", "ferry"]
    );
    assert_eq!(mock.log().len(), 4);
    // Paid once, and counted.
    keys(
        &mut client,
        question,
        "rewrite => '{reword,queries,hypothetical,reword}'",
    );
    assert_eq!(mock.log().len(), 4);
    assert_eq!(
        one::<i64>(&mut client, "SELECT calls FROM rag_usage('kb') WHERE step = 'rewrite'"),
        4
    );
    // Nor does a document that goes take it along: no word of any is in it.
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'boat'");
    assert_eq!(keys(&mut client, question, "rewrite => '{reword}'"), ["ferry"]);
    assert_eq!(mock.log().len(), 4);
    // What other words find is in scope, or it is not found.
    assert_eq!(
        keys(&mut client, question, "rewrite => '{reword}', filter => '{\"t\": 2}'"),
        [""; 0]
    );
}

#[test]
fn a_rewriting_that_fails_leaves_the_question() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let _mock = harbour(&mut heard.client);
    let found = keys(
        &mut heard.client,
        "The wreck of the boat",
        "rewrite => '{reword,queries}'",
    );
    assert_eq!(found, ["boat"]);
    let said = heard.said();
    assert!(
        said.contains("the question is searched without reword and queries, which the answerer did not give"),
        "{said}"
    );
}

#[test]
fn a_reranker_orders_the_best_candidates() {
    let database = Database::new();
    let mut client = database.client();
    let _mock = harbour(&mut client);
    let question = "ferry pier ticket boat";
    let all = keys(&mut client, question, "k => 5");
    assert_eq!(all.len(), 4);
    let longest = ["pier", "ticket", "ferry", "boat"];
    assert_eq!(keys(&mut client, question, "k => 4, rerank => 10"), longest);
    assert_eq!(keys(&mut client, question, "k => 2, rerank => 10"), longest[..2]);
    // Only what is among the candidates; the others are not read.
    let two: Vec<&str> = longest
        .into_iter()
        .filter(|key| all[..2].iter().any(|found| found == key))
        .collect();
    assert_eq!(keys(&mut client, question, "k => 2, rerank => 2"), two);
    // The budget is spent in the reranker's order.
    let tokens: i32 = one(
        &mut client,
        "SELECT token_count FROM kb.node n JOIN kb.document d ON d.id = n.document_id WHERE source_key = 'pier'",
    );
    assert_eq!(
        keys(
            &mut client,
            question,
            &format!("k => 4, rerank => 10, max_tokens => {tokens}")
        ),
        ["pier"]
    );
    let scores: Vec<f64> = list(
        &mut client,
        &format!(
            "SELECT rerank_score FROM rag_search('kb', '{question}', k => 4, methods => '{{lexical}}', rerank => 10)"
        ),
    );
    assert_eq!(scores, [37.0, 35.0, 24.0, 15.0]);
    let said: Vec<String> = list(
        &mut client,
        &format!(
            "SELECT coalesce(rank::text, outcome) || ' ' || rerank_score::text FROM rag_explain('kb', '{question}', k => 3, methods => '{{lexical}}', rerank => 10) \
             ORDER BY rank"
        ),
    );
    assert_eq!(said, ["1 37", "2 35", "3 24", "beyond k 15"]);
    let first: String = one(
        &mut client,
        &format!(
            "SELECT source_key FROM rag_context('kb', '{question}', methods => '{{lexical}}', rerank => 10) LIMIT 1"
        ),
    );
    assert_eq!(first, "pier");
    // One call for each set of texts that was read; none of them stays when a document goes.
    let calls = "SELECT count(*) FROM kb.model_call WHERE step = 'rerank' AND status = 'done'";
    assert_eq!(one::<i64>(&mut client, calls), 2);
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 'pier'");
    assert_eq!(one::<i64>(&mut client, calls), i64::from(!two.contains(&"pier")));
}

#[test]
fn evaluation_measures_what_models_add() {
    let database = Database::new();
    let mut client = database.client();
    let mock = harbour(&mut client);
    run(
        &mut client,
        "CREATE TABLE golden (question text, relevant text[]); \
         INSERT INTO golden VALUES ('When does the boat go?', '{ferry}'), ('ferry boat', '{ferry}')",
    );
    let recall: Vec<String> = list(
        &mut client,
        "SELECT method || ' ' || recall || ' ' || mrr FROM rag_evaluate('kb', 'golden', k => 2, \
           methods => '{lexical,lexical with reword,lexical with reword+rerank}')",
    );
    assert_eq!(
        recall,
        [
            "lexical 0.5 0.25",
            "lexical with reword 1 0.75",
            "lexical with reword+rerank 1 1"
        ],
        "{recall:?}"
    );
    assert_eq!(mock.log().len(), 2);
}

#[test]
fn bad_arguments_and_missing_models_are_told() {
    let database = Database::new();
    let mut client = database.client();
    let _mock = harbour(&mut client);
    refused(
        &mut client,
        r#"SELECT rag_search('kb', 'boat', rewrite => '{shout}') --> 22023 unknown rewriting "shout"
        SELECT rag_search('kb', 'boat', rewrite => '{NULL}') --> 22004 a rewriting must not be null
        SELECT rag_search('kb', 'boat', rewrite => NULL) --> 22004 rewrite must not be null
        SELECT rag_search('kb', 'boat', rerank => 5) --> 22023 rerank must be at least k
        SELECT rag_search('kb', 'boat', rerank => 0) --> 22023 rerank must be between 1 and 1000
        SELECT rag_search('kb', 'boat', rerank => 1001) --> 22023 rerank must be between 1 and 1000
        SELECT rag_evaluate('kb', 'pg_class', methods => '{dense with magic}') --> 22023 unknown help "magic""#,
    );
    assert!(
        failure(&mut client, "SELECT rag_search('kb', 'boat', query_vector => '[1,2]')")
            .message()
            .contains("dimensions")
    );
    run(
        &mut client,
        "SELECT rag_alter('kb', '{\"reranker\": null, \"answerer\": null}')",
    );
    refused(
        &mut client,
        r#"SELECT rag_search('kb', 'boat', rerank => 10) --> 55000 collection "kb" has no reranker
        SELECT rag_search('kb', 'boat', rewrite => '{reword}') --> 55000 collection "kb" has no answerer"#,
    );
    // A reader searches, and pays for nothing.
    run(
        &mut client,
        "CREATE ROLE reader_of_help; GRANT USAGE ON SCHEMA kb TO reader_of_help; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO reader_of_help; SET ROLE reader_of_help",
    );
    assert_eq!(keys(&mut client, "boat", "k => 5"), ["boat"]);
    assert_eq!(
        failure(&mut client, "SELECT rag_search('kb', 'boat', rerank => 10)")
            .code()
            .code(),
        "42501"
    );
    run(
        &mut client,
        "RESET ROLE; DROP OWNED BY reader_of_help; DROP ROLE reader_of_help",
    );
}

#[test]
fn a_vector_of_the_caller_stands_for_the_question() {
    let database = Database::new();
    let mut client = database.client();
    let _mock = harbour(&mut client);
    let found: String = one(
        &mut client,
        "SELECT text FROM rag_search('kb', 'boat', 1, methods => '{dense}', query_vector => rag_embed('kb', 'An owl sings'))",
    );
    assert!(found.starts_with("An owl"), "{found}");
}
