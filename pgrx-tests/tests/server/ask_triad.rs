//! rag_evaluate_answers: what the judge reads, what it makes of the answers, and what is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::{Value, json};

use crate::models_support::{Heard, create_server, ledger_of, mock};
use crate::support::{failure, list, one, refused, run};

/// What stands between two words.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0)
}

/// The numbered texts of a prompt, each with its number.
fn texts(user: &str) -> Vec<(&str, &str)> {
    user.split("<passage n=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once("\">\n"))
        .map(|(number, rest)| (number, rest.split_once("\n</passage>").expect("an end").0))
        .collect()
}

/// Answers with the first passage, but that Abe3 is said to steer a tram; judges by words.
fn chat(system: &str, user: &str) -> String {
    let answer = between(user, "<answer>\n", "\n</answer>");
    let question = between(user, "<question>", "</question>").unwrap_or_default();
    match (system, answer) {
        _ if system.contains("\"scores\"") => {
            let name = question.rsplit(' ').next().unwrap_or_default().trim_end_matches('?');
            let scores = texts(user)
                .iter()
                .map(|(n, text)| json!({"n": n, "score": if text.contains(name) { 10 } else { 2 }}))
                .collect::<Value>();
            json!({"scores": scores}).to_string()
        }
        (_, Some(answer)) if system.contains("\"statements\"") => {
            let said: Vec<&str> = answer
                .split(['.', '['])
                .map(str::trim)
                .filter(|part| part.len() > 3)
                .collect();
            let statements = said
                .iter()
                .map(|said| json!({"statement": said, "supported": texts(user).iter().any(|(_, text)| text.contains(said))}))
                .collect::<Value>();
            format!("```json\n{}\n```", json!({"statements": statements}))
        }
        (_, Some(answer)) => match between(user, "<expected>\n", "\n</expected>") {
            Some(expected) => json!({"score": if answer.contains(expected) { "10/10" } else { "0" }}).to_string(),
            None => "8".to_owned(),
        },
        _ if user.contains("<points>") => between(user, ") ", "\n").unwrap_or_default().to_owned(),
        _ if system.contains("\"points\"") => {
            let (tag, text) = texts(user)[0];
            json!({"points": [{"description": format!("{text} [{tag}]"), "score": 50}]}).to_string()
        }
        _ if question.contains("Abe3") => "Abe3 steers a tram [1].".to_owned(),
        _ => {
            let all = texts(user);
            let name = question.rsplit(' ').next().unwrap_or_default().trim_end_matches('?');
            let (tag, text) = all.iter().find(|(_, text)| text.contains(name)).unwrap_or(&all[0]);
            format!("{text} [{tag}]")
        }
    }
}

/// A document for each of three tenants, and questions about them.
fn collection(client: &mut Client, chat: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(chat));
    run(
        client,
        &format!(
            "{} SELECT rag_create('kb', 64, 'builtin:hash', answerer => 'server:m'); \
             INSERT INTO kb.document (source_key, body, metadata) \
             SELECT t::text, 'Abe' || t || ' steers Boat' || t || '.', jsonb_build_object('tenant', t) FROM generate_series(1, 3) t; \
             CREATE TABLE golden (question text, answer text); \
             INSERT INTO golden VALUES ('Who is Abe3?', 'Boat3'), ('Who is Abe1?', 'steers Boat1'), ('Who is Abe2?', NULL)",
            create_server("m", &mock.base_url(), "")
        ),
    );
    mock
}

/// The rows, with scores of two digits: question, mode, context_relevance, groundedness, answer_relevance, correctness, unsupported,
/// calls, failed.
fn judged(client: &mut Client, arguments: &str) -> Vec<String> {
    let sql = format!(
        "SELECT concat_ws(' ', question, mode, shown(context_relevance), shown(groundedness), shown(answer_relevance), \
                          shown(correctness), coalesce(unsupported::text, '-'), calls, failed) \
         FROM rag_evaluate_answers('kb', 'golden'{arguments})"
    );
    run(
        client,
        "CREATE OR REPLACE FUNCTION shown(float8) RETURNS text LANGUAGE sql AS $$SELECT coalesce(round($1::numeric, 2)::text, '-')$$",
    );
    list(client, &sql)
}

#[test]
fn answers_are_judged_by_what_was_read() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(&mut client, chat);
    let rows = judged(&mut client, "");
    assert_eq!(
        rows,
        [
            "Who is Abe1? plain 0.47 1.00 0.80 1.00 {} 5 0",
            // Its texts were scored before.
            "Who is Abe1? local 0.47 1.00 0.80 1.00 {} 4 0",
            "Who is Abe2? plain 0.47 1.00 0.80 - {} 4 0",
            "Who is Abe2? local 0.47 1.00 0.80 - {} 3 0",
            // A wrong answer is not grounded, however well it addresses the question.
            "Who is Abe3? plain 0.47 0.00 0.80 0.00 {\"Abe3 steers a tram\"} 5 0",
            "Who is Abe3? local 0.47 0.00 0.80 0.00 {\"Abe3 steers a tram\"} 4 0",
        ]
        .map(str::to_owned),
        "{rows:#?}"
    );
    let asked = mock.log().len();
    let sum = "SELECT sum(calls)::bigint FROM rag_usage('kb') WHERE step IN ('ask', 'judge')";
    assert_eq!(one::<i64>(&mut client, sum), asked as i64);
    // Nothing is paid twice.
    let again = judged(&mut client, "");
    assert!(again.iter().all(|row| row.ends_with("} 0 0")), "{again:?}");
    assert_eq!(mock.log().len(), asked);
    // What tells the judgements apart is not sent.
    assert!(mock.log().iter().all(|seen| seen.body.get("reply").is_none()));
    let sql = "SELECT DISTINCT step FROM kb.model_call ORDER BY 1";
    assert_eq!(list::<String>(&mut client, sql), ["ask", "judge"]);

    // The order of the modes is the caller's; a question that stands there twice is asked once.
    run(
        &mut client,
        "INSERT INTO golden SELECT * FROM golden WHERE question LIKE '%1%'",
    );
    let rows: Vec<String> = list(
        &mut client,
        "SELECT question || mode FROM rag_evaluate_answers('kb', 'golden', '{local,auto}') LIMIT 4",
    );
    assert_eq!(
        rows,
        [
            "Who is Abe1?local",
            "Who is Abe1?auto",
            "Who is Abe2?local",
            "Who is Abe2?auto"
        ]
    );

    // Judgements go with the documents behind the answers.
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '1'");
    assert!(
        ledger_of(&mut client, "kb")
            .iter()
            .all(|line| line.contains(" forgotten "))
    );
}

#[test]
fn the_judge_reads_nothing_out_of_scope() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(&mut client, chat);
    run(
        &mut client,
        "SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
    );
    let rows = judged(&mut client, r#", '{plain,local,text}', '{"tenant": 2}'"#);
    assert_eq!(rows.len(), 9, "{rows:?}");
    let log = mock.log();
    for seen in &log {
        let user = seen.body["messages"][1]["content"].as_str().expect("a text");
        assert!(!user.contains("Boat1.") && !user.contains("Boat3."), "{user}");
    }
    assert!(
        log.iter()
            .any(|seen| seen.body.to_string().contains("Abe2 steers Boat2."))
    );
    // Nothing in scope: no text, no answer, nobody asked; that is nothing of what was expected.
    mock.reset();
    let rows = judged(&mut client, r#", filter => '{"tenant": 9}'"#);
    assert_eq!(
        rows[..3],
        [
            "Who is Abe1? plain - - - 0.00 - 0 0",
            "Who is Abe1? local - - - 0.00 - 0 0",
            "Who is Abe2? plain - - - - - 0 0",
        ]
    );
    let sql = r#"SELECT DISTINCT coalesce(answer, '-') FROM rag_evaluate_answers('kb', 'golden', filter => '{"tenant": 9}') ORDER BY 1"#;
    assert_eq!(
        list::<String>(&mut client, sql),
        ["-", "The corpus does not answer this question."]
    );
    assert!(mock.log().is_empty());
}

#[test]
fn many_texts_are_scored_in_parts_and_checked_as_far_as_they_fit() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(&mut client, |system, user| match user.contains("<points>") {
        true => "Abe9 steers Boat9 [9].".to_owned(),
        false if system.contains("\"points\"") => {
            json!({"points": [{"description": "Abe9 steers Boat9 [9].", "score": 50}]}).to_string()
        }
        false => chat(system, user),
    });
    run(
        &mut client,
        "SELECT rag_alter('kb', '{\"report_tokens\": 200}'); DELETE FROM kb.document; \
         INSERT INTO kb.document (body) SELECT 'Abe' || t || ' steers Boat' || t || repeat(' and the tide', 20) FROM generate_series(1, 12) t; \
         DELETE FROM golden WHERE question NOT LIKE '%1%'",
    );
    let rows = judged(&mut client, ", '{text}'");
    assert_eq!(rows.len(), 1);
    let users: Vec<(String, String)> = mock
        .log()
        .iter()
        .map(|seen| {
            let of = |at: usize| {
                seen.body["messages"][at]["content"]
                    .as_str()
                    .expect("a text")
                    .to_owned()
            };
            (of(0), of(1))
        })
        .collect();
    let context: Vec<&String> = users
        .iter()
        .filter(|(system, _)| system.contains("\"scores\""))
        .map(|(_, user)| user)
        .collect();
    assert!(context.len() > 2, "{}", context.len());
    // Each text is scored once, and each part is numbered from 1.
    assert_eq!(context.iter().map(|user| texts(user).len()).sum::<usize>(), 12);
    assert!(context.iter().all(|user| texts(user)[0].0 == "1"));
    // What the answer cites is there, under its own number.
    let (_, grounded) = users
        .iter()
        .find(|(system, _)| system.contains("\"statements\""))
        .expect("a check");
    let read = texts(grounded);
    assert!(
        read.len() < 12 && read.iter().any(|(number, _)| *number == "9"),
        "{read:?}"
    );
}

#[test]
fn what_cannot_be_read_is_counted() {
    let database = Database::new();
    let mut client = database.client();
    let is_mended = Arc::new(AtomicBool::new(false));
    let mended = is_mended.clone();
    let mock = collection(&mut client, move |system, user| match mended.load(Ordering::Relaxed) {
        true => chat(system, user),
        false if user.contains("Abe1?") && user.contains("<answer>") => "I cannot tell.".to_owned(),
        false if user.contains("Abe2?") && system.contains("\"scores\"") => "[1, 2".to_owned(),
        false => chat(system, user),
    });
    let rows = judged(&mut client, ", '{plain}'");
    assert_eq!(
        rows,
        [
            "Who is Abe1? plain 0.47 - - - - 5 3",
            "Who is Abe2? plain - 1.00 0.80 - {} 4 1",
            "Who is Abe3? plain 0.47 0.00 0.80 0.00 {\"Abe3 steers a tram\"} 5 0",
        ]
    );
    // They alone are asked again.
    is_mended.store(true, Ordering::Relaxed);
    let rows = judged(&mut client, ", '{plain}'");
    assert_eq!(
        rows,
        [
            "Who is Abe1? plain 0.47 1.00 0.80 1.00 {} 3 0",
            "Who is Abe2? plain 0.47 1.00 0.80 - {} 1 0",
            "Who is Abe3? plain 0.47 0.00 0.80 0.00 {\"Abe3 steers a tram\"} 0 0",
        ]
    );
    drop(mock);
}

#[test]
fn a_question_that_cannot_be_answered_is_left_out() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let mock = collection(&mut heard.client, |system, user| match user.contains("Abe1?") {
        true => " ".to_owned(),
        false => chat(system, user),
    });
    run(&mut heard.client, "INSERT INTO golden VALUES (NULL, 'x'), (' ', 'x')");
    let rows = judged(&mut heard.client, "");
    assert_eq!(rows.len(), 4, "{rows:?}");
    let said = heard.said();
    assert!(
        said.contains("a question is left out, since") && said.contains("\"Who is Abe1?\""),
        "{said}"
    );
    assert!(
        said.contains("2 of 5 rows are left out, since they hold no question"),
        "{said}"
    );
    run(
        &mut heard.client,
        "DELETE FROM golden WHERE question NOT LIKE '%Abe1%' OR question IS NULL",
    );
    let error = failure(&mut heard.client, "SELECT rag_evaluate_answers('kb', 'golden')");
    assert_eq!(error.code().code(), "38000");
    run(&mut heard.client, "TRUNCATE golden");
    assert!(judged(&mut heard.client, "").is_empty());
    drop(mock);
}

#[test]
fn the_table_and_the_modes_are_checked() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE FUNCTION says(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'yes'$$; \
         SELECT rag_create('kb', answerer => 'function:public.says'); SELECT rag_create('dumb'); \
         CREATE TABLE a (query text, answer text); CREATE TABLE b (question text[]); CREATE TABLE c (question text, answer text[]); \
         CREATE TABLE \"It's \"\"d\"\"\" (question varchar, relevant int, grades text, answer int); \
         INSERT INTO \"It's \"\"d\"\"\" VALUES ('It''s \"what\"?', 1, 'x', 7)",
    );
    refused(
        &mut client,
        r#"
        SELECT rag_evaluate_answers('kb', 'a') --> 42703 column "question" of public.a does not exist
        SELECT rag_evaluate_answers('kb', 'b') --> 42804 column "question" of public.b must be a text
        SELECT rag_evaluate_answers('kb', 'c') --> 42804 column "answer" of public.c must be a text
        SELECT rag_evaluate_answers('kb', 1::oid::regclass) --> 42P01 table with OID 1 does not exist
        SELECT rag_evaluate_answers('kb', 'a', '{naive}') --> 22023 unknown mode "naive"
        SELECT rag_evaluate_answers('dumb', '"It''s ""d"""') --> 55000 collection "dumb" has no answerer
        SELECT rag_evaluate_answers('kb', '"It''s ""d"""', '{global}') --> 55000 there are no communities that an answer could be made from
        "#,
    );
    let error = failure(&mut client, "SELECT rag_evaluate_answers('kb', 'a')");
    assert!(
        error.hint().is_some_and(|hint| hint.contains("answer text")),
        "{error:?}"
    );
    // What rag_evaluate reads is not looked at; other types of one value are read as text.
    let sql = "SELECT question || mode || correctness FROM rag_evaluate_answers('kb', '\"It''s \"\"d\"\"\"')";
    assert_eq!(
        list::<String>(&mut client, sql),
        ["It's \"what\"?plain0", "It's \"what\"?local0"]
    );
}

#[test]
fn rights_are_those_of_the_caller() {
    let database = Database::new();
    let mut client = database.client();
    let owner = database.role("owner");
    run(
        &mut client,
        &format!(
            "CREATE FUNCTION says(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'yes'$$; \
             CREATE TABLE golden AS SELECT 'Who?' AS question; SELECT rag_create('kb', answerer => 'function:public.says'); \
             DO $$BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {owner}', current_database()); END$$"
        ),
    );
    let mut other = database.client_as(&owner);
    run(
        &mut other,
        "SELECT rag_create('own', answerer => 'function:public.says')",
    );
    refused(
        &mut other,
        "SELECT rag_evaluate_answers('own', 'golden') --> 42501 permission denied for table golden",
    );
    // Whoever may not ask learns nothing of the table either.
    let error = failure(&mut other, "SELECT rag_evaluate_answers('kb', 'golden')");
    assert_eq!(error.code().code(), "42501");
    assert!(!error.message().contains("golden"), "{error:?}");
    run(&mut client, &format!("GRANT SELECT ON golden TO {owner}"));
    let sql = "SELECT question FROM rag_evaluate_answers('own', 'golden', '{plain}')";
    assert_eq!(list::<String>(&mut other, sql), ["Who?"]);
}
