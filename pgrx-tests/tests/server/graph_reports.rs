//! Reports of communities that have others below them, and what models read for them.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{collection, mock};
use crate::support::{list, one, run};

/// A chain of people, a document for each link, in a collection whose summarizer says which words it has read.
fn chain(client: &mut Client, people: i32, settings: &str) -> Mock {
    let mock = mock(|options| {
        options.chat = Arc::new(|_, user| {
            let words: Vec<&str> = user
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| word.starts_with("code"))
                .collect();
            let first = words.first().copied().unwrap_or("none");
            serde_json::json!({"title": format!("On {first}"), "summary": words.join(" "), "rating": 4,
                "findings": [{"summary": "Person003 meets Person004 often.", "explanation": "Nobody else does."}]})
            .to_string()
        });
    });
    collection(
        client,
        &mock,
        "",
        &format!(", summarizer => 'server:m', settings => '{settings}'"),
    );
    run(
        client,
        &format!(
            "INSERT INTO kb.document (source_key, body) SELECT i, 'Person' || lpad(i::text, 3, '0') || ' meets Person' || lpad((i + 1)::text, 3, '0') \
               || ' because of code' || i || ' and, as they say, of the weather, the tides, the price of rope and much else that nobody remembers any more.' FROM generate_series(1, {people}) i; \
             SELECT graph_extract('kb'); SELECT graph_communities('kb', max_size => 6)"
        ),
    );
    mock
}

/// What the model was asked, in order.
fn asked(mock: &Mock) -> Vec<String> {
    mock.log()
        .iter()
        .filter_map(|seen| Some(seen.body["messages"][1]["content"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn a_parent_that_does_not_fit_reads_the_reports_below_it() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, 40, r#"{"report_tokens": 200}"#);
    let parents: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community c WHERE EXISTS (SELECT FROM kb.community d WHERE d.parent_id = c.id)",
    );
    assert!(parents > 0);
    run(&mut client, "SELECT graph_summarize('kb')");
    let with_reports: Vec<String> = asked(&mock)
        .into_iter()
        .filter(|user| user.contains("Report on a part"))
        .collect();
    assert_eq!(with_reports.len() as i64, parents);
    // Deepest first: what a parent reads was written before.
    assert!(
        with_reports
            .iter()
            .all(|user| user.contains("Report on a part of the group: On code")),
        "{with_reports:#?}"
    );
    // Every code word below is in the parent's report, and every document is behind it.
    let lost = "SELECT count(*) FROM kb.community c JOIN kb.community_source s ON s.community_id = c.id JOIN kb.document d ON d.id = s.document_id \
                WHERE c.level = 0 AND EXISTS (SELECT FROM kb.community x WHERE x.parent_id = c.id) \
                AND EXISTS (SELECT FROM kb.community x JOIN kb.community_source y ON y.community_id = x.id WHERE x.parent_id = c.id AND y.document_id = d.id \
                            AND x.summary ~ ('\\mcode' || d.source_key || '\\M')) \
                AND c.summary !~ ('\\mcode' || d.source_key || '\\M')";
    assert_eq!(one::<i64>(&mut client, lost), 0);
    let behind = "SELECT count(*) FROM kb.community c JOIN kb.community_source s ON s.community_id = c.id \
                  WHERE c.parent_id IS NOT NULL AND NOT EXISTS \
                    (SELECT FROM kb.community_source p WHERE p.community_id = c.parent_id AND p.document_id = s.document_id)";
    assert_eq!(one::<i64>(&mut client, behind), 0);
}

#[test]
fn a_parent_that_fits_reads_all_of_its_own() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, 40, "{}");
    run(&mut client, "SELECT graph_summarize('kb')");
    assert!(asked(&mock).iter().all(|user| !user.contains("Report on a part")));
    // Findings refer to relations that exist, and whose both ends they name.
    let named: Vec<String> = list(
        &mut client,
        "SELECT DISTINCT s.name || ' ' || t.name FROM kb.community c, jsonb_array_elements(c.findings) f, jsonb_array_elements_text(f -> 'relations') r \
         JOIN kb.relation x ON x.id = r::bigint JOIN kb.entity s ON s.id = x.source_id JOIN kb.entity t ON t.id = x.target_id",
    );
    assert_eq!(named, ["Person003 Person004"]);
}

#[test]
fn what_is_said_of_the_ends_and_claims_are_read_too() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, 3, "{}");
    run(
        &mut client,
        r#"SELECT graph_import('kb', '{"entities": [{"name": "Person002", "type": "spy", "description": "Wears a red hat.", "source_key": "2"}]}');
           SELECT graph_import('kb', '[{"claim_type": "fraud", "subject": "PERSON002", "status": "SUSPECTED", "description": "Sold a bridge.", "source_key": "2"}]')"#,
    );
    run(
        &mut client,
        "SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
    );
    let asked = asked(&mock).join("\n");
    assert!(asked.contains("Person002 (name): Wears a red hat."), "{asked}");
    assert!(
        asked.contains("Claim (SUSPECTED, fraud) on Person002: Sold a bridge."),
        "{asked}"
    );
}
