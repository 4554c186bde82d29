//! rag_judge and rag_questions: what is asked, how it is counted, and what is forgotten.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::json;

use crate::models_support::{create_server, ledger_of, mock};
use crate::support::{failure, list, one, refused, run};

/// The two answers that a judge reads.
fn answers(user: &str) -> Option<[&str; 2]> {
    let (_, rest) = user.split_once("<answer n=\"1\">\n")?;
    let (first, rest) = rest.split_once("\n</answer>\n<answer n=\"2\">\n")?;
    Some([first, rest.split_once("\n</answer>")?.0])
}

/// Answers from reports in more words than from passages; judges as `judge` does.
fn answerer(
    judge: impl Fn(&str, [&str; 2]) -> String + Send + Sync + 'static,
) -> impl Fn(&str, &str) -> String + Send + Sync {
    move |system, user| match answers(user) {
        Some(answers) => judge(user, answers),
        None if user.contains("<points>") => "It is all about boats, captains and ports [1].".to_owned(),
        None if system.contains("\"points\"") => {
            json!({"points": [{"description": "Boats [1].", "score": 50}]}).to_string()
        }
        None => "Boats [1].".to_owned(),
    }
}

/// A collection with communities whose answerer is a mock.
fn collection(client: &mut Client, chat: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(chat));
    run(
        client,
        &format!(
            "{} SELECT rag_create('kb', answerer => 'server:m'); \
             INSERT INTO kb.document (source_key, body, metadata) \
             SELECT t || '-' || i, 'Captain Abe' || t || ' steers Boat Cay' || t || '. Boat Cay' || t || ' visits Port Dee' || t || '.', \
                    jsonb_build_object('tenant', t) FROM generate_series(1, 2) t, generate_series(1, 2) i; \
             SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
            create_server("m", &mock.base_url(), "")
        ),
    );
    mock
}

/// The rows of rag_judge: criterion, questions, first_wins, second_wins, ties, win_rate, agreement, calls, failed.
fn judged(client: &mut Client, arguments: &str) -> Vec<String> {
    list(client, &format!("SELECT j::text FROM rag_judge('kb', {arguments}) j"))
}

const TWO: &str = "'{What are the themes?,Who matters?}'";

#[test]
fn a_preference_for_a_place_evens_out_and_shows() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(
        &mut client,
        answerer(|_, _| r#"{"reason": "It comes first.", "winner": 1}"#.to_owned()),
    );
    let rows = judged(&mut client, &format!("{TWO}, repeats => 3"));
    // Two questions, both orders, three times.
    assert_eq!(
        rows,
        ["comprehensiveness", "diversity", "empowerment", "directness"]
            .map(|criterion| format!("({criterion},2,0,0,2,0.5,0,12,0)"))
    );
    let asked = mock.log().len();
    // Each with its map and its answer, and the plain one.
    assert_eq!(asked, 4 * 12 + 2 * 3);
    assert_eq!(
        one::<i64>(&mut client, "SELECT calls FROM rag_usage('kb') WHERE step = 'judge'"),
        48
    );
    let again = judged(&mut client, &format!("{TWO}, repeats => 3"));
    assert_eq!(
        again,
        rows.iter()
            .map(|row| row.replace(",12,0)", ",0,0)"))
            .collect::<Vec<_>>()
    );
    assert_eq!(mock.log().len(), asked);
    // What was not asked yet is asked alone.
    let rows = judged(
        &mut client,
        &format!("{TWO}, criteria => '{{directness}}', repeats => 4"),
    );
    assert_eq!(rows, ["(directness,2,0,0,2,0.5,0,4,0)"]);
    // The repeats differ for the ledger alone: no provider has to know of them.
    let log = mock.log();
    let body = &log.last().expect("a request").body;
    assert!(body.get("repeat").is_none() && body.get("seed").is_none(), "{body}");
}

#[test]
fn the_better_answer_wins_whatever_its_place() {
    let database = Database::new();
    let mut client = database.client();
    let longer = |_: &str, [first, second]: [&str; 2]| {
        let winner = match first.len().cmp(&second.len()) {
            std::cmp::Ordering::Greater => "Answer 1",
            std::cmp::Ordering::Less => "2",
            std::cmp::Ordering::Equal => "tie",
        };
        json!({"winner": winner}).to_string()
    };
    let mock = collection(&mut client, answerer(longer));
    let of = "criteria => '{diversity,diversity}'";
    assert_eq!(
        judged(&mut client, &format!("{TWO}, {of}")),
        ["(diversity,2,2,0,0,1,1,4,0)"]
    );
    let sides = r#"first => '{}', second => '{"mode": "global", "level": 0}'"#;
    // Both answers and both orders were asked before.
    assert_eq!(
        judged(&mut client, &format!("{TWO}, {sides}, {of}")),
        ["(diversity,2,0,2,0,0,1,0,0)"]
    );
    // All its words are what the question and both answers say.
    let log = mock.log();
    let users: Vec<String> = log
        .iter()
        .map(|seen| seen.body["messages"][1]["content"].to_string())
        .collect();
    assert!(
        users
            .iter()
            .any(|user| user.contains("diversity: how many") && user.contains("Who matters?")),
        "{users:?}"
    );

    // Equal answers tie, one that knows nothing loses, and nobody is asked which is better.
    let asked = mock.log().len();
    assert_eq!(
        judged(&mut client, &format!("{TWO}, '{{}}', '{{}}', {of}")),
        ["(diversity,2,0,0,2,0.5,,0,0)"]
    );
    assert_eq!(mock.log().len(), asked);
    let none = r#"filter => '{"tenant": 9}'"#;
    assert_eq!(
        judged(&mut client, &format!("{TWO}, {of}, {none}")),
        ["(diversity,2,0,0,2,0.5,,0,0)"]
    );
    assert_eq!(
        judged(
            &mut client,
            &format!(r#"'{{Who?}}', second => '{{"mode": "text"}}', {of}"#)
        ),
        ["(diversity,1,0,0,1,0.5,,0,0)"]
    );
}

#[test]
fn an_answer_to_one_side_alone_wins() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(&mut client, |_, user| match user.contains("<report ") {
        true => r#"{"points": []}"#.to_owned(),
        false => "Boats [1].".to_owned(),
    });
    assert_eq!(
        judged(&mut client, "'{Who?}', criteria => '{directness}'"),
        ["(directness,1,0,1,0,0,,0,0)"]
    );
    assert_eq!(mock.log().len(), 2);
}

#[test]
fn what_fails_is_counted_out() {
    let database = Database::new();
    let mut client = database.client();
    let judge = |user: &str, _: [&str; 2]| match user {
        _ if user.contains("<criterion>diversity") => r#"{"winner": "whoever"}"#,
        _ if user.contains("matters") && user.contains("<answer n=\"1\">\nBoats") => "I cannot tell.",
        _ => r#"{"winner": 0}"#,
    };
    let chat = answerer(move |user, answers| judge(user, answers).to_owned());
    let mock = collection(&mut client, move |system, user| match user.contains("Nobody?") {
        true => " ".to_owned(),
        false => chat(system, user),
    });
    let of = "criteria => '{empowerment}'";
    // One of a pair: the pair does not count, and its question has no other.
    assert_eq!(
        judged(&mut client, &format!("{TWO}, {of}")),
        ["(empowerment,1,0,0,1,0.5,1,4,1)"]
    );
    // The failed one alone is asked again.
    assert_eq!(
        judged(&mut client, &format!("{TWO}, {of}")),
        ["(empowerment,1,0,0,1,0.5,1,1,1)"]
    );
    let error = failure(
        &mut client,
        &format!("SELECT rag_judge('kb', {TWO}, criteria => '{{diversity}}')"),
    );
    assert_eq!(error.code().code(), "38000");
    assert_eq!(error.detail(), Some("The reply names no better answer."));
    // A question that has no answer, since asking has failed, spoils no other.
    assert_eq!(
        judged(&mut client, &format!("'{{Nobody?,What are the themes?}}', {of}")),
        ["(empowerment,1,0,0,1,0.5,1,0,0)"]
    );
    let error = failure(&mut client, "SELECT rag_judge('kb', '{Nobody?}')");
    assert_eq!(error.code().code(), "38000");
    drop(mock);
}

#[test]
fn judgements_go_with_the_documents_behind_the_answers() {
    let database = Database::new();
    let mut client = database.client();
    let _mock = collection(&mut client, answerer(|_, _| r#"{"winner": 1}"#.to_owned()));
    judged(&mut client, "'{Who?}', criteria => '{directness}'");
    assert_eq!(
        ledger_of(&mut client, "kb"),
        ["ask done 2", "judge done 2", "map done 1"]
    );
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '1-1'");
    assert_eq!(
        ledger_of(&mut client, "kb"),
        ["ask forgotten 2", "judge forgotten 2", "map forgotten 1"]
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.model_call WHERE response IS NOT NULL OR request <> '{}'"
        ),
        0
    );
}

#[test]
fn sides_and_criteria_are_checked() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE FUNCTION says(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'yes'$$; \
         SELECT rag_create('kb', answerer => 'function:public.says'); SELECT rag_create('dumb')",
    );
    refused(
        &mut client,
        r#"
        SELECT rag_judge('kb', '{x}', '[]') --> 22023 first must be a JSON object
        SELECT rag_judge('kb', '{x}', '{"levels": 1}') --> 22023 first: unknown option "levels"
        SELECT rag_judge('kb', '{x}', '{"mode": 1}') --> 22023 first: option "mode" cannot be 1
        SELECT rag_judge('kb', '{x}', second => '{"level": "1"}') --> 22023 second: option "level" cannot be "1"
        SELECT rag_judge('kb', '{x}', second => '{"k": 1.5}') --> 22023 second: option "k" cannot be 1.5
        SELECT rag_judge('kb', '{x}', second => '{"k": null}') --> 22023 second: option "k" cannot be null
        SELECT rag_judge('kb', '{x}', '{"mode": "naive"}') --> 22023 first: unknown mode "naive"
        SELECT rag_judge('kb', '{x}', '{"mode": "drift", "max_hops": 11}') --> 22023 first: max_hops must be between 0 and 10
        SELECT rag_judge('kb', '{x}', '{"dynamic": true}') --> 22023 first: dynamic is for the mode 'global' alone
        SELECT rag_judge('kb', '{x}', criteria => '{length}') --> 22023 unknown criterion "length"
        SELECT rag_judge('kb', '{x}') --> 55000 there are no communities that an answer could be made from
        SELECT rag_judge('dumb', '{x}') --> 55000 collection "dumb" has no answerer
        SELECT rag_questions('dumb') --> 55000 collection "dumb" has no answerer
        "#,
    );
    for (arguments, hint) in [
        (r#"'{"levels": 1}'"#, "mode, a text; level, k and max_hops"),
        (r#"'{"mode": "naive"}'"#, "'plain', 'global', 'drift', 'text'"),
        (
            "criteria => '{length}'",
            "'comprehensiveness', 'diversity', 'empowerment', 'directness'",
        ),
    ] {
        let error = failure(&mut client, &format!("SELECT rag_judge('kb', '{{x}}', {arguments})"));
        assert!(error.hint().is_some_and(|said| said.contains(hint)), "{error:?}");
    }
}

/// Drafts as many as are wanted, and repeats itself.
fn drafts(system: &str, user: &str) -> String {
    let between = |start: &str, end: &str| Some(user.split_once(start)?.1.split_once(end)?.0.to_owned());
    let person = between("<person>", "</person>").unwrap_or_default();
    match system {
        _ if system.contains("\"personas\"") => {
            json!({"description": "Boats and their ports.", "personas": ["A mate", {"name": "Cook", "description": "of ships"}, "a  Mate"]})
                .to_string()
        }
        _ if system.contains("\"tasks\"") => format!("1. Task one of {person}\n2. Task two of {person}\n3. Task three"),
        _ => {
            let task = between("<task>", "</task>").expect("a task");
            json!({"questions": [format!("What of {task}?"), "What is it all about?"]}).to_string()
        }
    }
}

#[test]
fn questions_are_drafted_for_each_task_of_each_persona() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(&mut client, drafts);
    let sql = "SELECT q::text FROM rag_questions('kb', 3, 2, 4) q";
    let rows: Vec<String> = list(&mut client, sql);
    assert_eq!(
        rows,
        [
            "(\"A mate\",\"Task one of A mate\",\"What of Task one of A mate?\")",
            "(\"A mate\",\"Task one of A mate\",\"What is it all about?\")",
            "(\"A mate\",\"Task two of A mate\",\"What of Task two of A mate?\")",
            "(\"Cook: of ships\",\"Task one of Cook: of ships\",\"What of Task one of Cook: of ships?\")",
            "(\"Cook: of ships\",\"Task two of Cook: of ships\",\"What of Task two of Cook: of ships?\")",
        ]
    );
    // The persona that is named twice is asked about once.
    assert_eq!(mock.log().len(), 1 + 2 + 4);
    assert_eq!(list::<String>(&mut client, sql), rows);
    assert_eq!(mock.log().len(), 7);
    let of = |at: usize, message: usize| mock.log()[at].body["messages"][message]["content"].to_string();
    assert!(
        of(0, 0).contains("name 3 different people") && of(0, 1).contains("<report n="),
        "{}",
        of(0, 1)
    );
    // The texts are read once; then what was said of them.
    assert!(
        of(3, 1).contains("Boats and their ports.") && !of(3, 1).contains("<report"),
        "{}",
        of(3, 1)
    );
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '2-2'");
    assert_eq!(ledger_of(&mut client, "kb"), ["draft forgotten 7"]);
}

#[test]
fn only_what_is_in_scope_is_read_for_a_draft() {
    let database = Database::new();
    let mut client = database.client();
    let mock = collection(&mut client, drafts);
    let prompts = |client: &mut Client, arguments: &str| {
        mock.reset();
        let rows: Vec<String> = list(
            client,
            &format!("SELECT question FROM rag_questions('kb', 1, 1, 1{arguments})"),
        );
        let log = mock.log();
        (
            rows.len(),
            log.iter().map(|seen| seen.body.to_string()).collect::<String>(),
        )
    };
    let of_two = r#", filter => '{"tenant": 2}'"#;
    let (rows, asked) = prompts(&mut client, of_two);
    assert!(
        rows == 1 && asked.contains("Abe2") && !asked.contains("Abe1"),
        "{asked}"
    );
    // Without communities the tree is read, without a tree the leaves.
    run(
        &mut client,
        "DELETE FROM kb.community; SELECT raptor_build('kb', cluster_size => 2)",
    );
    let (_, asked) = prompts(&mut client, of_two);
    assert!(
        asked.contains("<passage") && asked.contains("Abe2") && !asked.contains("Abe1"),
        "{asked}"
    );
    let (_, asked) = prompts(&mut client, "");
    assert_eq!(asked.matches("<passage").count(), 1, "{asked}");
    run(&mut client, "DELETE FROM kb.node WHERE level > 0");
    let (_, asked) = prompts(
        &mut client,
        ", documents => (SELECT array_agg(id) FROM kb.document WHERE source_key = '1-2')",
    );
    assert!(
        asked.contains("Abe1") && asked.matches("<passage").count() == 1,
        "{asked}"
    );
    let (rows, asked) = prompts(&mut client, r#", filter => '{"tenant": 9}'"#);
    assert_eq!((rows, asked.as_str()), (0, ""));
}
