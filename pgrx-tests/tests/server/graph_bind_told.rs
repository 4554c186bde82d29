//! graph_bind and graph_unbind say what is wrong with their arguments.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::graph_bind::{BIND, STAFF};
use crate::support::{failure, refused, run};

#[test]
fn wrong_arguments_are_told() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    run(
        &mut client,
        "CREATE TABLE pair (a int, b int, name text, PRIMARY KEY (a, b)); INSERT INTO pair VALUES (1, 1, 'x'), (1, 2, 'y'); \
         CREATE VIEW seen AS SELECT * FROM hr.employee; CREATE INDEX by_name ON pair (name); CREATE TEMP TABLE fleeting (id int PRIMARY KEY, name text)",
    );
    refused(
        &mut client,
        &format!(
            r#"
        SELECT graph_bind('kb', '', 'pair', 'name') --> 22023 type must not be empty
        SELECT graph_bind('kb', '{}', 'pair', 'name') --> 22001 type is too long
        SELECT graph_bind('kb', 'p', 'pair', 'name') --> 22023 the primary key of public.pair has 2 columns
        SELECT graph_bind('kb', 'p', 'pair', 'name', 'a') --> 23505 column "a" of public.pair is no key: several rows have the same value
        SELECT graph_bind('kb', 'p', 'seen', 'full_name') --> 22023 public.seen has no primary key
        SELECT graph_bind('kb', 'p', 'by_name', 'name') --> 42809 public.by_name is not a table
        SELECT graph_bind('kb', 'p', 4294967295::oid::regclass, 'name') --> 42P01 table with OID 4294967295 does not exist
        SELECT graph_bind('kb', 'p', 'hr.employee', 'id') --> 42804 column "id" has type integer
        SELECT graph_bind('kb', 'p', 'hr.employee', 'full_name', aliases => '{{manager_id}}') --> 42804 column "manager_id" has type integer
        SELECT graph_bind('kb', 'p', 'hr.employee', 'full_name', aliases => '{{NULL}}') --> 22004 a column of aliases must not be null
        SELECT graph_bind('kb', 'p', 'hr.employee', '') --> 42703 column "" of hr.employee does not exist
        SELECT graph_bind('kb', 'p', 'hr.employee', 'full_name', 'ID') --> 42703 column "ID" of hr.employee does not exist
        "#,
            "t".repeat(201)
        ),
    );
    let hint = |client: &mut Client, sql: &str| failure(client, sql).hint().unwrap_or_default().to_owned();
    assert_eq!(
        hint(&mut client, "SELECT graph_bind('kb', 'p', 'hr.employee', 'fullname')"),
        "Did you mean \"full_name\"?"
    );
    assert_eq!(
        hint(&mut client, "SELECT graph_bind('kb', 'p', 'hr.employee', 'zzz')"),
        "Its columns are \"id\", \"full_name\", \"known_as\", \"nick\", \"manager_id\"."
    );
    assert_eq!(
        failure(&mut client, "SELECT graph_bind('kb', 'p', 'fleeting', 'name')")
            .code()
            .code(),
        "22023"
    );
    run(&mut client, BIND);
    assert_eq!(
        hint(&mut client, "SELECT graph_unbind('kb', 'p')"),
        "Bound are \"person\"."
    );
}
