//! Descriptions: joined while short, summarised above a threshold, and never older than what they rest on.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{Heard, collection, ledger_of, mock};
use crate::support::{list, one, run};

/// An extractor by which each document has its own words on Ada and on what she leads.
const PULLED: &str = r#"CREATE FUNCTION pulled(text) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$SELECT jsonb_build_object(
    'entities', jsonb_build_array(jsonb_build_object('name', 'Ada', 'description',
      'Word' || md5($1) || ' says that Ada has led the college on the hill for many years.')),
    'relations', jsonb_build_array(jsonb_build_object('subject', 'Ada', 'predicate', 'leads', 'object', 'College',
      'description', 'She leads it, as word' || md5($1) || ' has it in a long and winding sentence.')))$$; "#;

/// So many documents on Ada in a collection with these settings and this summarizer.
fn documents(client: &mut Client, count: i32, arguments: &str, settings: &str) {
    run(
        client,
        &format!(
            "{PULLED} SELECT rag_create('kb', 8, 'builtin:hash', extractor => 'function:public.pulled'{arguments}, settings => '{settings}'); \
             INSERT INTO kb.document (source_key, body) SELECT i, 'Ada leads College ' || i || '.' FROM generate_series(1, {count}) i"
        ),
    );
}

/// The description of Ada, whether it is a summary, and whether it waits.
fn ada(client: &mut Client) -> (String, bool, bool) {
    let sql = "SELECT description, fragments_hash IS NOT NULL, stale FROM kb.entity WHERE key = 'ada'";
    let row = client.query_one(sql, &[]).expect("Ada");
    (row.get(0), row.get(1), row.get(2))
}

const JOINED: &str = "SELECT string_agg(DISTINCT description COLLATE \"C\", chr(10) ORDER BY description COLLATE \"C\") FROM kb.mention WHERE key = 'ada'";
const SMALL: &str = r#"{"description_tokens": 100, "summary_tokens": 60}"#;

#[test]
fn joined_while_short_and_summarised_above() {
    let database = Database::new();
    let mut client = database.client();
    documents(&mut client, 3, "", SMALL);
    run(&mut client, "SELECT graph_extract('kb')");
    let joined: String = one(&mut client, JOINED);
    assert_eq!(ada(&mut client), (joined.clone(), false, false));
    assert_eq!(joined.lines().count(), 3);

    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT i, 'Ada leads College ' || i || '.' FROM generate_series(4, 12) i; \
         SELECT graph_extract('kb')",
    );
    let (text, is_summary, stale) = ada(&mut client);
    assert!(is_summary && !stale && text.lines().count() < 12, "{text}");
    let words: Vec<String> = list(&mut client, "SELECT 'Word' || md5(body) FROM kb.document");
    assert!(words.iter().any(|word| text.contains(word)), "{text}");
    let of_relation: bool = one(&mut client, "SELECT fragments_hash IS NOT NULL FROM kb.relation");
    assert!(of_relation);
    assert_eq!(
        one::<String>(
            &mut client,
            "SELECT concat_ws(' ', total, done, pending) FROM rag_status('kb') WHERE step = 'describe'"
        ),
        "2 2 0"
    );

    // Nothing changes when all is read again, and nothing of a document stays when it goes.
    run(&mut client, "SELECT graph_extract('kb', again => true)");
    assert_eq!(ada(&mut client).0, text);
    run(&mut client, "DELETE FROM kb.document WHERE source_key > '10'");
    let joined: String = one(&mut client, JOINED);
    assert_eq!(ada(&mut client), (joined, false, false));
}

#[test]
fn the_order_of_documents_changes_no_byte() {
    let texts: Vec<String> = ["ASC", "DESC"]
        .into_iter()
        .map(|order| {
            let database = Database::new();
            let mut client = database.client();
            documents(&mut client, 0, "", SMALL);
            run(
                &mut client,
                &format!(
                    "INSERT INTO kb.document (source_key, body) SELECT i, 'Ada leads College ' || i || '.' \
                     FROM generate_series(1, 20) i ORDER BY i {order}; SELECT graph_extract('kb')"
                ),
            );
            ada(&mut client).0
        })
        .collect();
    assert_eq!(texts[0], texts[1]);
}

fn with_model(client: &mut Client, count: i32, settings: &str) -> Mock {
    let mock = mock(|options| {
        options.chat = Arc::new(|system, user| {
            assert!(system.contains("several descriptions"), "{system}");
            format!(
                "Written from {} lines of {}.",
                user.lines().filter(|line| line.starts_with("- ")).count(),
                &user[..20]
            )
        });
    });
    collection(client, &mock, "", "");
    run(client, "SELECT rag_drop('kb')");
    documents(client, count, ", summarizer => 'server:m'", settings);
    mock
}

const DESCRIBE: &str = "CALL rag_refresh('kb', steps => '{describe}')";

#[test]
fn a_model_writes_long_ones_and_only_those() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let client = &mut heard.client;
    let mock = with_model(client, 12, SMALL);
    run(client, "CALL rag_refresh('kb', steps => '{extract}')");
    let (interim, is_summary, stale) = ada(client);
    assert!(is_summary && stale && !interim.contains("Written"), "{interim}");
    assert_eq!(
        one::<i64>(client, "SELECT calls FROM rag_estimate('kb') WHERE step = 'describe'"),
        2
    );
    assert_eq!(mock.log().len(), 0);
    run(client, "CALL rag_refresh('kb')");
    assert_eq!(mock.log().len(), 0, "nobody has ordered it");
    run(client, DESCRIBE);
    assert_eq!(
        ada(client),
        (
            "Written from 12 lines of <name>Ada</name>\n<de.".to_owned(),
            true,
            false
        )
    );
    let relation: String = one(client, "SELECT description FROM kb.relation");
    assert_eq!(relation, "Written from 12 lines of <name>Ada leads Coll.");
    assert_eq!(mock.log().len(), 2);

    run(client, "SELECT graph_extract('kb', again => true)");
    run(client, DESCRIBE);
    assert_eq!(mock.log().len(), 2, "what it rests on is the same");
    run(
        client,
        "INSERT INTO kb.document (body) VALUES ('Ada leads College, too.')",
    );
    run(client, "CALL rag_refresh('kb')");
    assert_eq!(ada(client).0, "Written from 13 lines of <name>Ada</name>\n<de.");
    assert_eq!(mock.log().len(), 4);
    // The answers go with any document that they were written from.
    run(client, "DELETE FROM kb.document WHERE source_key = '7'");
    let answers: i64 = one(
        client,
        "SELECT count(*) FROM kb.model_call WHERE step = 'describe' AND status <> 'forgotten'",
    );
    let (text, _, stale) = ada(client);
    assert_eq!((answers, stale, text.contains("Written")), (0, true, false));
    let said = heard.said();
    assert!(
        said.contains("left out, since it costs and nobody has ordered it: tree, describe, reports"),
        "{said}"
    );
    assert!(said.contains("describe: 2 descriptions, 2 calls"), "{said}");
}

#[test]
fn what_has_come_to_be_by_hand_is_not_written_over() {
    let database = Database::new();
    let mut client = database.client();
    documents(&mut client, 12, ", summarizer => 'queue'", SMALL);
    run(&mut client, "SELECT graph_extract('kb')");
    assert!(ada(&mut client).2);
    let answer = "UPDATE kb.model_call SET response = '\"By the queue.\"', status = 'done' WHERE status = 'pending'";
    run(
        &mut client,
        &format!("UPDATE kb.entity SET name = 'Ada Lead', description = 'By hand.' WHERE key = 'ada'; {answer}"),
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{describe}')");
    // That on the relation has the new name.
    run(&mut client, answer);
    run(&mut client, "CALL rag_refresh('kb', steps => '{describe}')");
    let row =
        "SELECT description || ' ' || stale || ' ' || (fragments_hash IS NULL) FROM kb.entity WHERE key = 'ada lead'";
    assert_eq!(one::<String>(&mut client, row), "By hand. false true");
    assert_eq!(
        one::<String>(&mut client, "SELECT description FROM kb.relation"),
        "By the queue."
    );
}

#[test]
fn what_cannot_be_read_at_once_is_read_in_groups() {
    let database = Database::new();
    let mut client = database.client();
    let mock = with_model(
        &mut client,
        40,
        r#"{"description_tokens": 100, "summary_tokens": 60, "cluster_tokens": 400}"#,
    );
    let calls: i64 = one(&mut client, "SELECT calls FROM graph_extract('kb')");
    let asked = mock.log().len();
    assert!(asked > 4 && calls == 40 + asked as i64, "{calls} {asked}");
    let (text, _, stale) = ada(&mut client);
    let groups: usize = text
        .split(' ')
        .nth(2)
        .and_then(|word| word.parse().ok())
        .expect("a number");
    assert!(!stale && groups > 1 && groups < 40, "{text}");
}

#[test]
fn a_failed_call_leaves_what_there_was() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.chat = Arc::new(|_, _| String::new()));
    collection(&mut client, &mock, "", "");
    run(&mut client, "SELECT rag_drop('kb')");
    documents(&mut client, 12, ", summarizer => 'server:m'", SMALL);
    run(&mut client, "SELECT graph_extract('kb')");
    let (text, is_summary, stale) = ada(&mut client);
    assert!(is_summary && stale && text.contains("Ada"), "{text}");
    assert_eq!(ledger_of(&mut client, "kb"), ["describe failed 2", "extract done 12"]);
}
