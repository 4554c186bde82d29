//! Short forms that the test files share.

use postgres::error::DbError;
use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, GenericClient};

/// The one value that a query answers.
#[track_caller]
pub fn one<T: FromSqlOwned>(client: &mut impl GenericClient, sql: &str) -> T {
    match client.query_one(sql, &[]) {
        Ok(row) => row.get(0),
        Err(error) => panic!("{sql}\n{error:?}"),
    }
}

/// The first column of a query.
#[track_caller]
pub fn list<T: FromSqlOwned>(client: &mut impl GenericClient, sql: &str) -> Vec<T> {
    match client.query(sql, &[]) {
        Ok(rows) => rows.iter().map(|row| row.get(0)).collect(),
        Err(error) => panic!("{sql}\n{error:?}"),
    }
}

/// Runs statements that must succeed.
#[track_caller]
pub fn run(client: &mut Client, sql: &str) {
    if let Err(error) = client.batch_execute(sql) {
        panic!("{sql}\n{error:?}");
    }
}

/// Adds a document and answers its id.
#[track_caller]
pub fn add(client: &mut Client, collection: &str, body: &str) -> i64 {
    let arguments: [&(dyn ToSql + Sync); 2] = [&collection, &body];
    client
        .query_one("SELECT rag_add($1, $2)", &arguments)
        .expect("the document is added")
        .get(0)
}

/// The error of a statement that must fail, which has to be worded as PostgreSQL words its own.
#[track_caller]
pub fn failure(client: &mut Client, sql: &str) -> DbError {
    let error = match client.batch_execute(sql) {
        Ok(()) => panic!("not refused: {sql}"),
        Err(error) => error
            .as_db_error()
            .unwrap_or_else(|| panic!("{sql}\n{error:?}"))
            .clone(),
    };
    let message = error.message();
    assert!(
        !message.starts_with(char::is_uppercase) || message.starts_with("NaN"),
        "{sql}: {message}"
    );
    assert!(!message.ends_with('.'), "{sql}: {message}");
    // PostgreSQL's own lists of dependent objects are no sentences.
    let sentence = |detail: &str| detail.ends_with('.') || detail.contains(" depends on ");
    assert!(error.detail().is_none_or(sentence), "{sql}: {:?}", error.detail());
    error
}

/// Each statement of a table must fail with its SQLSTATE and exactly its message. A row is
/// `statement --> SQLSTATE message`; what follows the statement may stand in a line of its own.
#[track_caller]
pub fn refused(client: &mut Client, table: &str) {
    let mut statement = "";
    let mut rows = 0;
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((sql, expected)) = line.split_once("--> ") else {
            statement = line;
            continue;
        };
        if !sql.is_empty() {
            statement = sql.trim_end();
        }
        let error = failure(client, statement);
        assert_eq!(
            format!("{} {}", error.code().code(), error.message()),
            expected,
            "{statement}"
        );
        rows += 1;
    }
    assert!(rows > 0, "an empty table");
}

/// How many blocks and leaves do not stand where they say in the body of their document.
pub fn misplaced(client: &mut impl GenericClient, collection: &str) -> i64 {
    one(
        client,
        &format!(
            "SELECT count(*) FROM ( \
               SELECT document_id, start_char, end_char, text FROM {collection}.block \
               UNION ALL SELECT document_id, start_char, end_char, text FROM {collection}.node WHERE level = 0) p \
             LEFT JOIN {collection}.document d ON d.id = p.document_id \
             WHERE substr(d.body, p.start_char + 1, p.end_char - p.start_char) IS DISTINCT FROM p.text OR p.text = ''"
        ),
    )
}

/// All rows of all tables of a collection, as text.
pub fn rows(client: &mut impl GenericClient, collection: &str) -> Vec<String> {
    let tables: Vec<String> = list(
        client,
        &format!(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = '{collection}'::regnamespace \
             AND relkind = 'r' ORDER BY 1"
        ),
    );
    tables
        .iter()
        .flat_map(|table| {
            list::<String>(
                client,
                &format!("SELECT '{table} ' || t::text FROM {table} t ORDER BY 1"),
            )
        })
        .collect()
}
