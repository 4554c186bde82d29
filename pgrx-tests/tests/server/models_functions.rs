//! `function:schema.name`: SQL functions as models.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, refused, run};

/// A collection of a role of its own, whose vectors have three numbers; its schema `own` holds the functions.
fn owned() -> (Database, String) {
    let database = Database::new();
    let owner = database.role("owner");
    run(
        &mut database.client(),
        &format!(
            "CREATE SCHEMA kb AUTHORIZATION {owner}; CREATE SCHEMA own AUTHORIZATION {owner}; \
             GRANT CREATE ON DATABASE {} TO {owner}",
            database.name()
        ),
    );
    run(
        &mut database.client_as(&owner),
        "CREATE FUNCTION own.embed(text) RETURNS real[] LANGUAGE sql AS $$SELECT ARRAY[length($1), 0, 0]::real[]$$; \
         SELECT rag_create('kb', dimensions => 3, embedder => 'function:own.embed')",
    );
    (database, owner)
}

fn embedder(client: &mut Client, sql: &str) {
    run(
        client,
        &format!(
            "DROP FUNCTION IF EXISTS own.embed(text); \
             CREATE FUNCTION own.embed(text) RETURNS {sql}"
        ),
    );
}

const EMBED: &str = "SELECT rag_embed('kb', 'abcd')::text";

#[test]
fn models_function_embeds() {
    let (database, owner) = owned();
    let mut client = database.client_as(&owner);
    assert_eq!(one::<String>(&mut client, EMBED), "[1,0,0]");
    for (sql, expected) in [
        (
            "double precision[] LANGUAGE sql AS 'SELECT ARRAY[1e300, 0, -1e300]'",
            "[0.70710677,0,-0.70710677]",
        ),
        ("real[] LANGUAGE sql AS 'SELECT ARRAY[1e-40, 0, 0]::real[]'", "[1,0,0]"),
        (
            "public.vector LANGUAGE sql AS $$SELECT '[0,3,4]'::public.vector$$",
            "[0,0.6,0.8]",
        ),
    ] {
        embedder(&mut client, sql);
        assert_eq!(one::<String>(&mut client, EMBED), expected, "{sql}");
    }
    for sql in [
        "real[] LANGUAGE sql AS 'SELECT NULL::real[]'",
        "real[] LANGUAGE sql AS $$SELECT '{0,0,-0}'::real[]$$",
    ] {
        embedder(&mut client, sql);
        assert_eq!(one::<Option<String>>(&mut client, EMBED), None, "{sql}");
    }
    // The one for many texts is preferred.
    run(
        &mut client,
        "CREATE FUNCTION own.embed(text[]) RETURNS public.vector[] LANGUAGE sql \
         AS $$SELECT array_agg('[0,0,2]'::public.vector) FROM unnest($1)$$",
    );
    assert_eq!(one::<String>(&mut client, EMBED), "[0,0,1]");
}

#[test]
fn models_function_that_answers_no_vector_is_an_error() {
    let (database, owner) = owned();
    let mut client = database.client_as(&owner);
    let unusable = "22000 embedder own.embed gives no usable answer:";
    let numbers = "the vector holds NULL, NaN or an infinite number";
    for (sql, expected) in [
        (
            "real[] LANGUAGE sql AS $$SELECT '{1,NaN,0}'::real[]$$",
            format!("{unusable} {numbers}"),
        ),
        (
            "real[] LANGUAGE sql AS $$SELECT '{1,NULL,0}'::real[]$$",
            format!("{unusable} {numbers}"),
        ),
        (
            "float8[] LANGUAGE sql AS $$SELECT '{1,-Infinity,0}'::float8[]$$",
            format!("{unusable} {numbers}"),
        ),
        (
            "real[] LANGUAGE sql AS $$SELECT '{}'::real[]$$",
            format!("{unusable} the vector is empty"),
        ),
        (
            "real[] LANGUAGE sql AS $$SELECT '{1,2}'::real[]$$",
            "22000 function own.embed answers vectors of 2 dimensions, 3 are wanted".to_owned(),
        ),
        (
            "real[] LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no model today' USING ERRCODE = '53400'; END$$",
            "53400 no model today".to_owned(),
        ),
    ] {
        embedder(&mut client, sql);
        refused(&mut client, &format!("{EMBED} --> {expected}"));
    }
    run(
        &mut client,
        "CREATE FUNCTION own.embed(text[]) RETURNS public.vector[] LANGUAGE sql \
         AS $$SELECT ARRAY['[0,0,2]', '[0,0,2]']::public.vector[]$$",
    );
    refused(&mut client, &format!("{EMBED} --> {unusable} 2 vectors for 1 texts"));
}

#[test]
fn models_function_is_found_by_its_name() {
    let (database, owner) = owned();
    let mut client = database.client_as(&owner);
    let mut by_name = |name: &str| {
        run(
            &mut client,
            &format!("UPDATE kb.setting SET value = to_jsonb('function:' || {name}) WHERE key = 'embedder'"),
        );
        client.query_one(EMBED, &[]).map(|row| row.get::<_, String>(0))
    };
    let code = |result: Result<String, postgres::Error>| {
        let error = result.expect_err("refused");
        let error = error.as_db_error().expect("of the server").clone();
        format!("{} {}", error.code().code(), error.message())
    };
    assert_eq!(by_name("'OWN . embed'").expect("folded"), "[1,0,0]");
    assert_eq!(code(by_name("'embed'")), "22023 the name of an embedder needs a schema");
    assert_eq!(
        code(by_name("'db.own.embed'")),
        "22023 the name of an embedder needs a schema"
    );
    assert_eq!(code(by_name("''")), "22023 unknown embedder \"function:\"");
    assert_eq!(
        code(by_name("'own.embed(text)'")),
        "22023 string is not a valid identifier: \"own.embed(text)\""
    );
    assert_eq!(
        code(by_name("'own.nothing'")),
        "42883 function own.nothing does not exist"
    );
    assert_eq!(
        code(by_name("'nowhere.embed'")),
        "42883 function nowhere.embed does not exist"
    );
    run(
        &mut client,
        "CREATE SCHEMA \"My.Models\"; CREATE FUNCTION \"My.Models\".\"e.1 \"\"x\"\"\"(text) RETURNS real[] LANGUAGE sql \
         AS $$SELECT '{0,1,0}'::real[]$$; \
         UPDATE kb.setting SET value = to_jsonb('function:\"My.Models\".\"e.1 \"\"x\"\"\"'::text) WHERE key = 'embedder'",
    );
    assert_eq!(one::<String>(&mut client, EMBED), "[0,1,0]");
    // Looked up at each use.
    run(
        &mut client,
        "ALTER FUNCTION \"My.Models\".\"e.1 \"\"x\"\"\"(text) RENAME TO gone",
    );
    refused(
        &mut client,
        &format!("{EMBED} --> 42883 function \"My.Models\".\"e.1 \"\"x\"\"\" does not exist"),
    );
}

#[test]
fn models_function_that_does_not_fit_is_refused() {
    let (database, owner) = owned();
    let mut client = database.client_as(&owner);
    run(&mut client, "DROP FUNCTION own.embed(text)");
    for (create, kind) in [
        (
            "FUNCTION own.embed(int) RETURNS real[] LANGUAGE sql AS 'SELECT NULL::real[]'",
            "function own.embed(integer) returns real[]",
        ),
        (
            "FUNCTION own.embed(text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
            "function own.embed(text) returns text",
        ),
        (
            "FUNCTION own.embed(text) RETURNS SETOF real[] LANGUAGE sql AS 'SELECT NULL::real[]'",
            "function own.embed(text) returns SETOF real[]",
        ),
        (
            "FUNCTION own.embed(VARIADIC text[]) RETURNS public.vector[] LANGUAGE sql AS 'SELECT NULL::public.vector[]'",
            "function own.embed(VARIADIC text[]) returns vector[]",
        ),
        (
            "FUNCTION own.embed(text, int DEFAULT 1) RETURNS real[] LANGUAGE sql AS 'SELECT NULL::real[]'",
            "function own.embed(text, integer) returns real[]",
        ),
        (
            "PROCEDURE own.embed(text) LANGUAGE sql AS ''",
            "procedure own.embed(IN text)",
        ),
        (
            "AGGREGATE own.embed(text) (SFUNC = textcat, STYPE = text)",
            "aggregate own.embed(text) returns text",
        ),
    ] {
        run(&mut client, &format!("CREATE {create}"));
        let error = failure(&mut client, EMBED);
        assert_eq!(
            format!("{} {}", error.code().code(), error.message()),
            "42883 function own.embed cannot be used as an embedder"
        );
        assert_eq!(
            error.detail().map(|d| d.replace("public.", "")),
            Some(format!("There is {kind}.")),
        );
        assert_eq!(
            error.hint(),
            Some(
                "As an embedder it is own.embed(text[]) returns vector[], or (text) returns vector, real[] or double precision[]."
            )
        );
        run(&mut client, "DROP ROUTINE own.embed");
    }
}

#[test]
fn models_function_needs_execute_of_the_owner() {
    let (database, owner) = owned();
    let mut admin = database.client();
    let mut client = database.client_as(&owner);
    run(
        &mut admin,
        "CREATE SCHEMA theirs; CREATE FUNCTION theirs.embed(text) RETURNS real[] LANGUAGE sql AS $$SELECT '{1,0,0}'::real[]$$; \
             REVOKE EXECUTE ON FUNCTION theirs.embed FROM PUBLIC; \
             UPDATE kb.setting SET value = '\"function:theirs.embed\"' WHERE key = 'embedder'",
    );
    // Whoever calls, it is the owner's rights that count.
    for client in [&mut client, &mut admin] {
        refused(
            client,
            &format!("{EMBED} --> 42501 permission denied for schema theirs"),
        );
    }
    run(&mut admin, &format!("GRANT USAGE ON SCHEMA theirs TO {owner}"));
    for client in [&mut client, &mut admin] {
        refused(
            client,
            &format!("{EMBED} --> 42501 permission denied for function theirs.embed"),
        );
    }
    run(
        &mut admin,
        &format!("GRANT EXECUTE ON FUNCTION theirs.embed TO {owner}"),
    );
    for client in [&mut client, &mut admin] {
        assert_eq!(one::<String>(client, EMBED), "[1,0,0]");
    }
}

#[test]
fn models_function_runs_as_the_owner_whoever_calls() {
    let (database, owner) = owned();
    let reader = database.role("reader");
    let mut admin = database.client();
    let mut theirs = database.client_as(&owner);
    run(
        &mut theirs,
        &format!(
            "GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}; \
             REVOKE EXECUTE ON FUNCTION own.embed FROM PUBLIC"
        ),
    );
    embedder(
        &mut theirs,
        "real[] LANGUAGE plpgsql AS $$BEGIN \
           RAISE EXCEPTION '% for %, %, %', current_user, session_user, current_setting('search_path'), \
             current_setting('is_superuser'); END$$",
    );
    for caller in ["postgres", &owner, &reader] {
        let error = failure(&mut database.client_as(caller), EMBED);
        assert!(
            error
                .message()
                .starts_with(&format!("{owner} for {caller}, pg_catalog, pg_temp")),
            "{error:?}"
        );
    }
    for body in [
        "SET ROLE postgres;",
        "RESET ROLE;",
        "SET SESSION AUTHORIZATION postgres;",
        "CREATE TEMP TABLE trap ();",
    ] {
        embedder(
            &mut theirs,
            &format!("real[] LANGUAGE plpgsql AS $$BEGIN {body} RETURN '{{1,0,0}}'; END$$"),
        );
        for caller in ["postgres", &owner, &reader] {
            let mut client = database.client_as(caller);
            assert_eq!(failure(&mut client, EMBED).code().code(), "42501", "{body} by {caller}");
            assert_eq!(one::<String>(&mut client, "SELECT current_user::text"), caller);
        }
    }
    // Nor can it hide that in a block that catches errors.
    embedder(
        &mut theirs,
        "real[] LANGUAGE plpgsql AS $$BEGIN BEGIN SET ROLE postgres; EXCEPTION WHEN OTHERS THEN NULL; END; \
           IF current_user = 'postgres' THEN RETURN '{1,0,0}'; END IF; RETURN '{0,1,0}'; END$$",
    );
    assert_eq!(one::<String>(&mut admin, EMBED), "[0,1,0]");
    assert_eq!(list::<String>(&mut admin, "SELECT current_user::text"), ["postgres"]);
}
