//! What the settings of extraction make of prompts and of answers: types, predicates, language, examples, claims, gleaning.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{EXTRACT, collection, ledger_of, mock};
use crate::support::{failure, list, one, run};

/// A collection whose extractor answers by a rule, with one document.
fn reader(client: &mut Client, settings: &str, rule: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(rule));
    collection(client, &mock, "", ", extractor => 'server:m'");
    run(client, &format!("SELECT rag_alter('kb', '{settings}')"));
    run(
        client,
        "INSERT INTO kb.document (source_key, title, body) VALUES \
         ('a', 'Minutes', 'Ada Brandt leads Orchard College. Emil Stark is said to have left it in 2031.')",
    );
    mock
}

/// The system message of the first request and the user messages of all.
fn asked(mock: &Mock) -> (String, Vec<String>) {
    let log = mock.log();
    let text = |at: usize, message: usize| {
        let text = log[at].body["messages"][message]["content"].as_str();
        text.unwrap_or_default().to_owned()
    };
    (text(0, 0), (0..log.len()).map(|at| text(at, 1)).collect())
}

const WISHES: &str = r#"{"entity_types": ["person", "Organization"], "predicates": ["leads", "worked at"], "extract_language": "German",
    "extract_claims": true, "extract_examples": [{"passage": "Zora Vale met Ines Roth.", "answer":
      {"entities": [{"name": "Zora Vale", "type": "person"}], "relations": [{"subject": "Zora Vale", "predicate": "leads", "object": "Ines Roth"}]}}]}"#;

const ANSWER: &str = r#"{"entities": [{"name": "Ada Brandt", "type": "PERSON", "description": "Leiterin"},
      {"name": "Orchard College", "type": "school"}, {"name": "Zora Vale", "type": "person"}],
    "relations": [{"subject": "Ada Brandt", "predicate": "Leads", "object": "Orchard College", "quote": "Ada Brandt leads Orchard College"},
      {"subject": "Emil Stark", "predicate": "left", "object": "Orchard College"},
      {"subject": "Zora Vale", "predicate": "leads", "object": "Ada Brandt"}],
    "claims": [{"subject": "Emil Stark", "object": "NONE", "type": "departure", "status": "SUSPECTED", "start_date": "2031",
        "end_date": "NONE", "description": "He left.", "quote": "said to have left it in 2031"},
      {"subject": "Zora Vale", "type": "x", "status": "TRUE", "description": "d", "quote": "no such words"}]}"#;

#[test]
fn the_settings_stand_in_the_prompt_and_bind_the_answer() {
    let database = Database::new();
    let mut client = database.client();
    let mock = reader(&mut client, WISHES, |_, _| ANSWER.to_owned());
    let told: String = one(&mut client, "SELECT reasons::text FROM graph_extract('kb')");
    assert_eq!(
        told,
        r#"{"quote not found": 1, "type not listed": 1, "name of an example": 1, "predicate not listed": 1}"#
    );
    let (system, _) = asked(&mock);
    for wish in [
        "Organization, person",
        "leads, worked at",
        "German",
        "\"claims\"",
        "Zora Vale met Ines Roth.",
    ] {
        assert!(system.contains(wish), "{wish}: {system}");
    }
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT concat_ws('|', name, type, description) FROM kb.entity ORDER BY 1"
        ),
        ["Ada Brandt|person|Leiterin", "Emil Stark", "Orchard College"]
    );
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT predicate || ': ' || coalesce(quote, '-') FROM kb.evidence ORDER BY 1"
        ),
        ["leads: Ada Brandt leads Orchard College", "related_to: -"]
    );
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT concat_ws('|', subject_key, object_key, c.type, status, (valid_from AT TIME ZONE 'UTC')::date, valid_to, c.description, \
                              substr(d.body, start_char + 1, end_char - start_char) = quote, given) \
             FROM kb.claim c JOIN kb.document d ON d.id = c.document_id"
        ),
        ["emil stark|departure|SUSPECTED|2031-01-01|He left.|t|f"]
    );
}

/// Answers the names of a text bit by bit: those that are listed already are left out.
fn bit_by_bit(_: &str, user: &str) -> String {
    let next = ["Ada Brandt", "Emil Stark"]
        .into_iter()
        .find(|name| !user.contains(&format!("- {name}")));
    match next {
        Some(name) => format!(r#"{{"entities": [{{"name": "{name}", "type": "person"}}], "relations": []}}"#),
        None => r#"{"entities": [], "relations": []}"#.to_owned(),
    }
}

const NAMES: &str = "SELECT name FROM kb.entity ORDER BY 1";

#[test]
fn what_was_missed_is_asked_for_until_nothing_comes() {
    let database = Database::new();
    let mut client = database.client();
    let mock = reader(&mut client, r#"{"gleanings": 5}"#, bit_by_bit);
    let estimate = "SELECT calls, calls_high FROM rag_estimate('kb') WHERE step = 'extract'";
    let row = client.query_one(estimate, &[]).expect("an estimate");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (6, 6));
    assert_eq!(one::<i64>(&mut client, "SELECT calls FROM graph_extract('kb')"), 3);
    assert_eq!(list::<String>(&mut client, NAMES), ["Ada Brandt", "Emil Stark"]);
    assert_eq!(ledger_of(&mut client, "kb"), ["extract done 3"]);
    let (_, users) = asked(&mock);
    assert!(
        !users[0].contains("<listed>") && users[2].contains("- Ada Brandt\n- Emil Stark\n"),
        "{users:?}"
    );

    // The same again is asked of nobody, and comes to the same.
    let rows = "SELECT string_agg(concat_ws('|', key, name, type, description, block_id, start_char), ' ' ORDER BY key) FROM kb.mention";
    let before: String = one(&mut client, rows);
    assert_eq!(
        one::<i64>(&mut client, "SELECT calls FROM graph_extract('kb', again => true)"),
        0
    );
    assert_eq!(one::<String>(&mut client, rows), before);
    assert_eq!(mock.log().len(), 3);
}

#[test]
fn a_refresh_asks_in_rounds_and_goes_on_where_it_stopped() {
    let database = Database::new();
    let mut client = database.client();
    let mock = reader(&mut client, r#"{"gleanings": 1}"#, bit_by_bit);
    run(
        &mut client,
        "CALL rag_refresh('kb', max_calls => 1, steps => '{extract}')",
    );
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
    run(&mut client, EXTRACT);
    assert_eq!(list::<String>(&mut client, NAMES), ["Ada Brandt", "Emil Stark"]);
    run(&mut client, EXTRACT);
    assert_eq!(
        (mock.log().len(), ledger_of(&mut client, "kb")),
        (2, vec!["extract done 2".to_owned()])
    );
}

#[test]
fn what_was_found_stays_when_a_later_question_fails() {
    let database = Database::new();
    let mut client = database.client();
    let answer = |system: &str, user: &str| match user.contains("<listed>") {
        true => "Nothing else, I think.".to_owned(),
        false => bit_by_bit(system, user),
    };
    let _mock = reader(&mut client, r#"{"gleanings": 3}"#, answer);
    let told: String = one(
        &mut client,
        "SELECT concat_ws(' ', blocks, failed, calls, reasons) FROM graph_extract('kb')",
    );
    assert_eq!(told, r#"1 0 2 {"gleaning failed": 1}"#);
    assert_eq!(list::<String>(&mut client, NAMES), ["Ada Brandt"]);
}

#[test]
fn claims_alone_are_an_answer() {
    let database = Database::new();
    let mut client = database.client();
    let claim = r#"{"entities": [], "relations": [], "claims": [{"subject": "Emil Stark", "type": "t", "status": "TRUE", "description": "d"}]}"#;
    let _mock = reader(&mut client, r#"{"extract_claims": true}"#, move |_, _| claim.to_owned());
    assert_eq!(one::<i64>(&mut client, "SELECT failed FROM graph_extract('kb')"), 0);
    // Those of the extractor go with what they were read in; those by hand stay.
    let payload = r#"[{"claim_type": "c", "subject": "Ada Brandt", "status": "TRUE", "description": "by hand", "source_key": "a"}]"#;
    run(&mut client, &format!("SELECT graph_import('kb', '{payload}')"));
    let claims = "SELECT description FROM kb.claim ORDER BY 1";
    assert_eq!(list::<String>(&mut client, claims), ["by hand", "d"]);
    run(&mut client, "SELECT graph_extract('kb', again => true)");
    assert_eq!(list::<String>(&mut client, claims), ["by hand", "d"]);
    run(&mut client, "UPDATE kb.document SET body = 'Ada Brandt is ill.'");
    assert_eq!(list::<String>(&mut client, claims), ["by hand"]);
    run(&mut client, "DELETE FROM kb.document");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.claim"), 0);
}

#[test]
fn a_function_is_asked_once() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"CREATE FUNCTION pulled(text) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$SELECT '{"entities": [{"name": "Ada"}]}'::jsonb$$;
           SELECT rag_create('kb', extractor => 'function:public.pulled', settings => '{"gleanings": 3}');
           INSERT INTO kb.document (body) VALUES ('Ada.')"#,
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT calls FROM rag_estimate('kb') WHERE step = 'extract'"
        ),
        1
    );
    assert_eq!(one::<i64>(&mut client, "SELECT calls FROM graph_extract('kb')"), 1);
}

#[test]
fn settings_of_another_kind_are_refused() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    for (settings, message) in [
        (
            r#"{"entity_types": "person"}"#,
            "setting \"entity_types\" must be an array of at most 200 texts of at most 200 bytes",
        ),
        (
            r#"{"entity_types": ["person", " "]}"#,
            "setting \"entity_types\" must be an array of at most 200 texts of at most 200 bytes",
        ),
        (
            r#"{"predicates": [1]}"#,
            "setting \"predicates\" must be an array of at most 200 texts of at most 200 bytes",
        ),
        (
            r#"{"extract_language": ""}"#,
            "setting \"extract_language\" must be a text such as \"German\"",
        ),
        (
            r#"{"extract_claims": "yes"}"#,
            "setting \"extract_claims\" must be true or false",
        ),
        (
            r#"{"gleanings": 11}"#,
            "setting \"gleanings\" must be a whole number between 0 and 10",
        ),
        (
            r#"{"extract_examples": [{"passage": "A."}]}"#,
            "setting \"extract_examples\" must be an array of objects with a passage, and as answer an object of entities and relations",
        ),
    ] {
        let error = failure(&mut client, &format!("SELECT rag_alter('kb', '{settings}')"));
        assert_eq!((error.code().code(), error.message()), ("22023", message), "{settings}");
    }
}
