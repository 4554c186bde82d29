//! Reports that are written when somebody first asks for them.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::{Value, json};

use crate::models_support::{create_server, items, mock, status};
use crate::support::{one, run};

/// Writes reports, rates and answers.
fn model(_: &str, user: &str) -> String {
    if user.contains("<statements>") {
        return json!({"title": "By a model", "summary": "It is red.", "rating": 7, "findings": []}).to_string();
    }
    if user.contains("<points>") {
        return "Red [1].".to_owned();
    }
    if user.starts_with("<report>") {
        return json!({"rating": if user.contains("Abe1") { 4 } else { 0 }}).to_string();
    }
    json!({"points": [{"description": "Red [1].", "score": 50}]}).to_string()
}

fn themes(client: &mut Client) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(model));
    run(
        client,
        &format!(
            "{} SELECT rag_create('kb', summarizer => 'server:m', answerer => 'server:m', settings => '{{\"lazy_reports\": true}}'); \
             INSERT INTO kb.document (source_key, body, metadata) \
             SELECT t || '-' || i, 'Captain Abe' || t || ' steers Boat Cay' || t || '. Boat Cay' || t || ' visits Port Dee' || t || '.', \
                    jsonb_build_object('theme', t) FROM generate_series(1, 5) t, generate_series(1, 2) i",
            create_server("m", &mock.base_url(), "")
        ),
    );
    run(
        client,
        "CALL rag_refresh('kb', steps => '{extract,communities,reports}')",
    );
    mock
}

fn asked(client: &mut Client, arguments: &str) -> Value {
    one(
        client,
        &format!("SELECT rag_ask('kb', 'Which colours?', 'global'{arguments}) - 'timings_ms'"),
    )
}

const BY_MODEL: &str = "SELECT count(*) FROM kb.community WHERE title = 'By a model' AND NOT lazy";

#[test]
fn a_report_is_written_when_it_is_first_read() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client);
    assert_eq!(mock.log().len(), 0, "a digest costs nothing");
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.community WHERE lazy AND NOT stale AND text <> ''"
        ),
        5
    );
    assert_eq!(status(&mut client, "reports")[..2], [5, 0]);
    let foretold: (i64, i64) = {
        let row = client
            .query_one(
                "SELECT calls, calls_high FROM rag_estimate('kb') WHERE step = 'reports'",
                &[],
            )
            .expect("an estimate");
        (row.get(0), row.get(1))
    };
    assert_eq!(foretold, (0, 5));
    assert!(one::<i64>(&mut client, "SELECT count(*) FROM graph_global('kb', 'Captain Abe3')") > 0);

    // Only those that are read: the nearest, then those that are relevant.
    let found = asked(&mut client, ", k => 2");
    assert_eq!(found["calls"], 4, "two reports, their points, and the answer");
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 2);
    assert!(
        items(&mock).iter().any(|user| user.contains("It is red.")),
        "what is mapped is the model's"
    );
    assert_eq!(asked(&mut client, ", k => 2")["calls"], 0);

    // One of the same ones changes: the refresh makes a digest of it again, and asks nobody.
    let (before, theme): (usize, String) = (
        mock.log().len(),
        one(
            &mut client,
            "SELECT metadata ->> 'theme' FROM kb.community WHERE title = 'By a model' ORDER BY id LIMIT 1",
        ),
    );
    run(
        &mut client,
        &format!(
            "INSERT INTO kb.document (body, metadata) VALUES ('Boat Cay{theme} visits Port Dee{theme} in winter.', '{{\"theme\": {theme}}}')"
        ),
    );
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(mock.log().len(), before);
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 1);
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.community WHERE lazy"),
        4
    );
    // All are read, and all are the model's then; of the theme that has changed the statements are the same, and so is the answer.
    assert_eq!(asked(&mut client, "")["calls"], 4);
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 5);
}

#[test]
fn those_that_are_rated_only_are_not_written() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client);
    let found = asked(&mut client, ", dynamic => true");
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 1);
    assert_eq!(found["calls"], 8, "five ratings, a report, points and the answer");
    assert_eq!(mock.log().len(), 8);
}

#[test]
fn without_the_setting_or_by_order_all_are_written() {
    let database = Database::new();
    let mut client = database.client();
    let mock = themes(&mut client);
    run(&mut client, "SELECT graph_summarize('kb')");
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 5);
    assert_eq!(mock.log().len(), 5);

    run(&mut client, "SELECT rag_drop('kb'); DROP SERVER m");
    let mock = themes(&mut client);
    run(&mut client, "SELECT rag_alter('kb', '{\"lazy_reports\": false}')");
    assert_eq!(status(&mut client, "reports")[..2], [0, 5]);
    assert_eq!(
        asked(&mut client, ", k => 1")["calls"],
        2,
        "the digest is read as it is"
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{reports}')");
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 5);
    assert_eq!(mock.log().len(), 7);
}

#[test]
fn a_failed_report_stays_a_digest_and_is_tried_again() {
    let database = Database::new();
    let mut client = database.client();
    let _good = themes(&mut client);
    let bad = mock(|options| {
        options.chat = Arc::new(|system, user| match user.contains("<statements>") {
            true => String::new(),
            false => model(system, user),
        });
    });
    let url: String = one(
        &mut client,
        "SELECT split_part(srvoptions[1], '=', 2) FROM pg_foreign_server WHERE srvname = 'm'",
    );
    run(
        &mut client,
        &format!("ALTER SERVER m OPTIONS (SET base_url '{}')", bad.base_url()),
    );
    let found = asked(&mut client, ", k => 1");
    assert_eq!(found["grounded"], true, "{found}");
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 0);
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.community WHERE stale AND text <> ''"
        ),
        1
    );
    run(&mut client, &format!("ALTER SERVER m OPTIONS (SET base_url '{url}')"));
    run(&mut client, "CALL rag_refresh('kb', steps => '{reports}')");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.community WHERE lazy"),
        5
    );
    asked(&mut client, ", k => 1");
    assert_eq!(one::<i64>(&mut client, BY_MODEL), 1);
}
