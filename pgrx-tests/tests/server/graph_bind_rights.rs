//! graph_bind: whose rights count, tables that are gone, dumps, and many rows.

use pg_graphrag_tests::Database;

use crate::graph_bind::{BIND, STAFF, bound, bytes, counts};
use crate::operations::restore;
use crate::support::{failure, list, one, refused, run};

#[test]
fn the_owner_reads_and_row_security_holds() {
    let database = Database::new();
    let (owner, other) = (database.role("owner"), database.role("other"));
    let mut admin = database.client();
    run(&mut admin, STAFF);
    run(
        &mut admin,
        &format!(
            "SELECT rag_create('own'); GRANT CREATE ON DATABASE {} TO {owner}; SELECT rag_drop('own')",
            database.name()
        ),
    );
    let mut client = database.client_as(&owner);
    run(&mut client, "SELECT rag_create('own')");
    let bind = "SELECT graph_bind('own', 'person', (SELECT c.oid::regclass FROM pg_class c WHERE relname = 'employee'), 'full_name')";
    refused(
        &mut client,
        &format!("{bind} --> 42501 permission denied for hr.employee"),
    );
    run(&mut admin, &format!("GRANT USAGE ON SCHEMA hr TO {owner}"));
    let error = failure(&mut client, bind);
    assert_eq!(
        error.hint(),
        Some(format!("GRANT SELECT (id, full_name) ON hr.employee TO {owner};").as_str())
    );
    // Whoever calls, it is read as the owner.
    refused(
        &mut admin,
        &format!("{bind} --> 42501 permission denied for hr.employee"),
    );
    run(
        &mut admin,
        &format!(
            "GRANT SELECT (id, full_name) ON hr.employee TO {owner}; ALTER TABLE hr.employee ENABLE ROW LEVEL SECURITY; \
             CREATE POLICY visible ON hr.employee FOR SELECT TO {owner} USING (id > 1)"
        ),
    );
    run(&mut admin, bind);
    assert_eq!(
        list::<String>(&mut client, "SELECT row_key FROM own.entity ORDER BY 1"),
        ["2", "3"]
    );
    // The foreign key's column is not granted.
    run(&mut admin, &bind.replace("'full_name')", "'full_name', edges => true)"));
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM own.relation"), 0);
    refused(
        &mut database.client_as(&other),
        "SELECT graph_unbind('own', 'person') --> 42501 permission denied for collection \"own\"",
    );
}

#[test]
fn a_table_that_is_gone_does_no_harm_and_dumps_restore() {
    let (source, target) = (Database::new(), Database::empty());
    let mut client = source.client();
    run(&mut client, STAFF);
    run(&mut client, BIND);
    let before = bytes(&mut client);
    restore(&target, "postgres", &source.run("pg_dump", &[]));
    let mut restored = target.client();
    assert_eq!(bytes(&mut restored), before);
    run(&mut restored, BIND);
    assert_eq!(bytes(&mut restored), before);

    let unbound = "SELECT concat_ws('|', key, name, type) FROM kb.entity ORDER BY 1";
    run(&mut restored, "SELECT graph_unbind('kb', 'person')");
    let expected: Vec<String> = list(&mut restored, unbound);
    run(
        &mut client,
        "ALTER TABLE hr.employee RENAME TO staff; CREATE TABLE unit (id int PRIMARY KEY, name text); \
         SELECT graph_bind('kb', 'unit', 'unit', 'name', edges => true)",
    );
    assert_eq!(counts(&mut client, &BIND.replace("hr.employee", "hr.staff")), (3, 2));
    run(&mut client, "DROP SCHEMA hr CASCADE");
    run(&mut client, "CALL rag_refresh('kb')");
    run(
        &mut client,
        "SELECT graph_bind('kb', 'unit', 'unit', 'name', edges => true)",
    );
    assert_eq!(bound(&mut client).len(), 3);
    run(&mut client, "SELECT graph_unbind('kb', 'person')");
    assert_eq!(list::<String>(&mut client, unbound), expected);
}

#[test]
fn many_rows_are_taken_in_at_once() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); CREATE TABLE big (id int PRIMARY KEY, name text, boss_id int REFERENCES big); \
         INSERT INTO big SELECT i, 'Person ' || i, i / 10 FROM generate_series(0, 25000) i",
    );
    let bind = "SELECT * FROM graph_bind('kb', 'person', 'big', 'name', edges => true)";
    assert_eq!(counts(&mut client, bind), (25001, 25001));
    assert_eq!(counts(&mut client, bind), (25001, 25001));
    run(&mut client, "SET statement_timeout = 50");
    assert_eq!(failure(&mut client, bind).code().code(), "57014");
    run(
        &mut client,
        "SET statement_timeout = 0; SELECT graph_unbind('kb', 'person')",
    );
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
}
