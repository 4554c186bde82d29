//! What a model says that the block does not bear out: counted, and kept or left out as the setting says.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

/// An extractor that names one who is not there, and quotes what nobody has written.
const MODEL: &str = r#"CREATE FUNCTION pulled(text) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$SELECT '{
    "entities": [{"name": "Ada Brandt"}, {"name": "Zora Vale", "type": "person"}, {"name": ""}],
    "relations": [
        {"subject": "Ada Brandt", "predicate": "leads", "object": "Orchard College", "quote": "ada  brandt LEADS orchard"},
        {"subject": "Ada Brandt", "predicate": "founded", "object": "Orchard College", "quote": "She founded it."},
        {"subject": "Zora Vale", "predicate": "met", "object": "Ada Brandt"}, {"subject": "Ada Brandt"}]}'::jsonb$$;"#;

fn extracted(client: &mut Client, setting: &str) -> (String, Vec<String>) {
    run(
        client,
        &format!(
            "{MODEL} SELECT rag_create('kb', extractor => 'function:public.pulled'); SELECT rag_alter('kb', '{setting}'); \
             INSERT INTO kb.document (body) VALUES ('Long ago. Ada Brandt leads Orchard College.')"
        ),
    );
    let told = one(
        client,
        "SELECT concat_ws(' ', blocks, entities, relations, failed, reasons) FROM graph_extract('kb')",
    );
    let kept = list(
        client,
        "SELECT 'm ' || name || ' ' || coalesce(start_char::text, '-') FROM kb.mention \
         UNION ALL SELECT 'e ' || predicate || ': ' || coalesce(quote, '-') FROM kb.evidence ORDER BY 1",
    );
    (told, kept)
}

#[test]
fn what_is_not_borne_out_is_counted_and_flagged() {
    let database = Database::new();
    let mut client = database.client();
    let (told, kept) = extracted(&mut client, "{}");
    assert_eq!(
        told,
        r#"1 3 3 0 {"no name": 2, "name not found": 1, "quote not found": 1}"#
    );
    assert_eq!(
        kept,
        [
            "e founded: Ada Brandt leads Orchard College.",
            "e leads: Ada Brandt leads Orchard",
            "e met: -",
            "m Ada Brandt 10",
            "m Orchard College 27",
            "m Zora Vale -",
        ]
    );
}

#[test]
fn or_left_out() {
    let database = Database::new();
    let mut client = database.client();
    let (told, kept) = extracted(&mut client, r#"{"ungrounded": "drop"}"#);
    assert_eq!(
        told,
        r#"1 2 1 0 {"no name": 2, "name not found": 1, "quote not found": 1}"#
    );
    assert_eq!(
        kept,
        [
            "e leads: Ada Brandt leads Orchard",
            "m Ada Brandt 10",
            "m Orchard College 27"
        ]
    );
    let error = failure(&mut client, r#"SELECT rag_alter('kb', '{"ungrounded": "yes"}')"#);
    assert_eq!(
        (error.code().code(), error.message()),
        ("22023", "setting \"ungrounded\" must be \"flag\" or \"drop\"")
    );
}
