//! rag_ask over the whole corpus: what is asked, in which batches, and what the answer says of its grounds.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::{Value, json};

use crate::models_support::create_server;
use crate::models_support::mock;
use crate::support::{failure, one, run};

/// Points to reports that name a colour, and an answer that repeats the points.
fn answerer(_: &str, user: &str) -> String {
    if user.contains("<points>") {
        let lines: Vec<&str> = user.lines().filter_map(|line| line.strip_prefix("- ")).collect();
        return lines.join(" ");
    }
    let mut points = Vec::new();
    for report in user.split("<report n=\"").skip(1) {
        let (number, text) = report.split_once('"').expect("a number");
        for (colour, score) in [("red", 90), ("blue", 40), ("grey", 0)] {
            if text.contains(colour) {
                points.push(json!({"description": format!("It is {colour} [{number}]."), "score": score}));
            }
        }
    }
    json!({"points": points}).to_string()
}

/// Themes of four documents each that share no entity, the first two with a colour.
fn themes(client: &mut Client, settings: &str) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(answerer));
    run(
        client,
        &format!(
            "{} SELECT rag_create('kb', answerer => 'server:m', settings => '{settings}'); \
             INSERT INTO kb.document (source_key, body, metadata) \
             SELECT t || '-' || i, 'Captain Abe' || t || ' steers Boat Cay' || t || ' in ' || colour || ' weather. Boat Cay' || t || ' visits Port Dee' || t || \
                    '. Captain Abe' || t || ' tells Port Dee' || t || ' of the long winter in which nothing but ice and old bread was to be had.', \
                    jsonb_build_object('theme', t, 'half', t % 2) \
             FROM (VALUES (1, 'red'), (2, 'blue'), (3, 'grey'), (4, 'plain'), (5, 'plain')) v (t, colour), generate_series(1, 4) i; \
             SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
            create_server("m", &mock.base_url(), "")
        ),
    );
    mock
}

fn asked(client: &mut Client, arguments: &str) -> Value {
    let sql = format!("SELECT rag_ask('kb', 'Which colours are there?', 'global'{arguments}) - 'timings_ms'");
    one(client, &sql)
}

#[test]
fn every_report_is_mapped_and_the_best_points_answer() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client, "{}");
    let reports: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community WHERE size > 1 AND level = 0",
    );
    assert_eq!(reports, 5);
    let found = asked(&mut client, "");
    assert_eq!(mock.log().len(), 2, "one batch, and the answer");
    assert_eq!(found["calls"], 2);
    let scores: Vec<i64> = found["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|p| p["score"].as_f64().expect("a score") as i64)
        .collect();
    assert_eq!(scores, [90, 40], "what scores nothing is dropped");
    let answer = found["answer"].as_str().expect("an answer");
    assert!(
        answer.find("red") < answer.find("blue") && !answer.contains("grey"),
        "{answer}"
    );
    assert_eq!(found["grounded"], true);
    let cited = found["citations"].as_array().expect("citations");
    assert_eq!(cited.len(), 2);
    for citation in cited {
        assert_eq!(citation["documents"], 4);
        let held: i64 = one(
            &mut client,
            &format!(
                "SELECT count(*) FROM kb.document WHERE id IN (SELECT jsonb_array_elements_text('{}')::bigint) AND body ~ 'red|blue'",
                citation["document_ids"]
            ),
        );
        assert_eq!(held, 4);
    }
    assert_eq!(
        found["coverage"],
        json!({"communities": 5, "communities_read": 5, "communities_left": [], "digests": 0, "documents": 20, "documents_read": 20,
            "documents_in_points": 8, "documents_in_nearest": 4, "nearest_at_most": 8})
    );
    // The same again costs nothing, and is the same.
    let again = asked(&mut client, "");
    assert_eq!((again["calls"].as_i64(), &again["answer"]), (Some(0), &found["answer"]));
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT sum(calls)::bigint FROM rag_usage('kb') WHERE step IN ('map', 'ask')"
        ),
        2
    );

    // What was read goes with any document behind it.
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '1-1'");
    let left: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.model_call WHERE step IN ('map', 'ask') AND status <> 'forgotten'",
    );
    assert_eq!(left, 0);
}

#[test]
fn batches_keep_the_budget_and_a_failed_one_is_told() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client, r#"{"report_tokens": 200}"#);
    let found = asked(&mut client, "");
    let maps: Vec<String> = mock
        .log()
        .iter()
        .filter_map(|seen| seen.body["messages"][1]["content"].as_str().map(str::to_owned))
        .filter(|user| user.contains("<report"))
        .collect();
    assert!(maps.len() > 1, "{}", maps.len());
    assert_eq!(
        maps.iter()
            .map(|user| user.matches("<report n=").count())
            .sum::<usize>(),
        5
    );
    assert_eq!(found["coverage"]["communities_read"], 5);

    let mut client = database.client();
    run(&mut client, "SELECT rag_drop('kb'); DROP SERVER m");
    let answers = |system: &str, user: &str| match user.contains("red") && user.contains("<report") {
        true => "no JSON".to_owned(),
        false => answerer(system, user),
    };
    let failing = crate::models_support::mock(|options| options.chat = Arc::new(answers));
    let _mock = themes(&mut client, r#"{"report_tokens": 200}"#);
    run(
        &mut client,
        &format!("ALTER SERVER m OPTIONS (SET base_url '{}')", failing.base_url()),
    );
    let found = asked(&mut client, "");
    let read = found["coverage"]["communities_read"].as_i64().expect("a number");
    assert!((1..5).contains(&read), "{found}");
    assert!(!found["answer"].as_str().expect("an answer").contains("red"));
}

#[test]
fn nothing_relevant_asks_for_no_answer() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client, "{}");
    let found = asked(&mut client, r#", filter => '{"theme": 4}'"#);
    assert_eq!(found["answer"], "The corpus does not answer this question.");
    assert_eq!((&found["grounded"], &found["calls"]), (&json!(false), &json!(1)));
    assert_eq!(found["coverage"]["documents"], 4);
    assert_eq!(mock.log().len(), 1);
    // Nothing in scope, and nobody is asked.
    let found = asked(&mut client, r#", filter => '{"theme": 99}'"#);
    assert_eq!(
        (&found["answer"], &found["calls"]),
        (&json!("The corpus does not answer this question."), &json!(0))
    );
}

#[test]
fn only_reports_in_scope_are_read() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client, "{}");
    let found = asked(&mut client, r#", filter => '{"half": 0}'"#);
    let answer = found["answer"].as_str().expect("an answer");
    assert!(answer.contains("blue") && !answer.contains("red"), "{answer}");
    let all: String = mock.log().iter().map(|seen| seen.body.to_string()).collect();
    assert!(!all.contains("Abe1") && all.contains("Abe2"));
    let found = asked(&mut client, ", k => 1");
    assert_eq!(found["coverage"]["communities_read"], 1);
}

#[test]
fn arguments_are_checked() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE FUNCTION says(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'yes'$$; \
         SELECT rag_create('kb', answerer => 'function:public.says')",
    );
    for (arguments, code, message) in [
        ("'naive'", "22023", "unknown mode \"naive\""),
        ("NULL", "22004", "mode must not be null"),
        ("level => 0", "22023", "level is for the mode 'global' or 'drift' alone"),
        ("k => 3", "22023", "k is for the mode 'global' or 'drift' alone"),
        ("dynamic => true", "22023", "dynamic is for the mode 'global' alone"),
        (
            "'plain', max_hops => 1",
            "22023",
            "max_hops is for the mode 'drift' or 'local' or 'auto' alone",
        ),
        ("'global', dynamic => NULL", "22004", "dynamic must not be null"),
        (
            "'global', dynamic => true, k => 1",
            "22023",
            "k and dynamic exclude each other",
        ),
        ("'drift', max_hops => 11", "22023", "max_hops must be between 0 and 10"),
        ("'global', k => 0", "22023", "k must be between 1 and 2147483647"),
        ("'global', level => -1", "22023", "level must be between 0 and 1000"),
        (
            "'global'",
            "55000",
            "there are no communities that an answer could be made from",
        ),
    ] {
        let error = failure(&mut client, &format!("SELECT rag_ask('kb', 'Who?', {arguments})"));
        assert_eq!((error.code().code(), error.message()), (code, message), "{arguments}");
    }
}
