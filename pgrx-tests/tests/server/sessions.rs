//! Where else functions are called from, whatever the session has set; and what other sessions see and can cancel.

use pg_graphrag_tests::Database;

use crate::operations::{contents, filled, filling, found, rebuilt, restore};
use crate::rights::{ends, state, texts};
use crate::support::run;

#[test]
fn functions_work_wherever_sql_calls_them() {
    let database = Database::new();
    let mut client = filled(&database, "postgres");
    let direct = texts(&mut client, "SELECT text FROM raptor_search('kb', 'ship 7', k => 3)");

    let prepared = client
        .prepare("SELECT text FROM raptor_search($1, $2, k => $3)")
        .unwrap();
    for k in [3, 1, 3, 3, 3, 3, 3] {
        let rows = client.query(&prepared, &[&"kb", &"ship 7", &k]).unwrap();
        assert_eq!(
            rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(),
            direct[..k as usize]
        );
    }
    run(
        &mut client,
        "CREATE VIEW best AS SELECT text FROM raptor_search('kb', 'ship 7', k => 3); \
             CREATE FUNCTION ask(question text) RETURNS SETOF text LANGUAGE sql STABLE SET search_path = pg_catalog \
               AS 'SELECT text FROM public.raptor_search(''kb'', question, k => 3)'; \
             CREATE FUNCTION loops(question text) RETURNS SETOF text LANGUAGE plpgsql AS $$DECLARE t text; BEGIN \
               FOR t IN SELECT text FROM raptor_search('kb', question, k => 3) LOOP RETURN NEXT t; END LOOP; END$$; \
             CREATE TABLE question (id int, q text); INSERT INTO question VALUES (1, 'ship 7'), (2, ''), (3, 'ship 7')",
    );
    for sql in [
        "SELECT text FROM best",
        "SELECT ask('ship 7')",
        "SELECT * FROM loops('ship 7')",
    ] {
        assert_eq!(texts(&mut client, sql), direct, "{sql}");
    }
    let lateral = "SELECT id || ' ' || s.text FROM question, LATERAL raptor_search('kb', q, k => 3) WITH ORDINALITY \
         AS s (node_id, level, score, text, token_count, metadata, document_ids, documents, n) ORDER BY id, n";
    let twice: Vec<String> = ["1 ", "3 "]
        .iter()
        .flat_map(|id| direct.iter().map(move |text| format!("{id}{text}")))
        .collect();
    assert_eq!(texts(&mut client, lateral), twice);

    run(
        &mut client,
        "BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT text FROM raptor_search('kb', 'ship 7', k => 3)",
    );
    assert_eq!(texts(&mut client, "FETCH 2 FROM c"), direct[..2]);
    run(&mut client, "DELETE FROM kb.document; COMMIT");
    assert_eq!(texts(&mut client, "FETCH FIRST FROM c"), direct[..1]);
    assert_eq!(texts(&mut client, "SELECT text FROM best"), [""; 0]);
}

#[test]
fn a_hostile_search_path_changes_nothing() {
    let (database, plain) = (Database::new(), Database::new());
    let mut client = filled(&plain, "postgres");
    let (rows, hits) = (contents(&mut client, "kb").len(), found(&mut client, "kb", ""));
    let built = rebuilt(&mut client, "kb", "");

    let mut client = database.client();
    let mut evil = String::from("CREATE SCHEMA evil; ");
    for (operator, left, right, result) in [
        ("=", "text", "text", "boolean"),
        ("=", "bigint", "bigint", "boolean"),
        ("=", "bigint", "integer", "boolean"),
        ("=", "name", "text", "boolean"),
        ("=", "oid", "oid", "boolean"),
        ("<>", "bytea", "bytea", "boolean"),
        (">", "integer", "integer", "boolean"),
        ("@>", "jsonb", "jsonb", "boolean"),
        ("||", "text", "text", "text"),
        ("-", "double precision", "double precision", "double precision"),
        ("<=>", "public.vector", "public.vector", "double precision"),
    ] {
        let name = format!("hijack_{}", evil.len());
        evil += &format!(
            "CREATE FUNCTION evil.{name}({left}, {right}) RETURNS {result} LANGUAGE plpgsql \
               AS $$BEGIN RAISE EXCEPTION 'hijacked'; END$$; \
             CREATE OPERATOR evil.{operator} (FUNCTION = evil.{name}, LEFTARG = {left}, RIGHTARG = {right}); "
        );
    }
    for function in [
        "now()",
        "nextval(regclass)",
        "jsonb_each(jsonb)",
        "sha256(bytea)",
        "pg_advisory_xact_lock(int, int)",
        "current_setting(text)",
    ] {
        evil += &format!(
            "CREATE FUNCTION evil.{function} RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'hijacked'; END$$; "
        );
    }
    for table in [
        "pg_class",
        "pg_namespace",
        "pg_extension",
        "setting",
        "document",
        "node",
    ] {
        evil += &format!("CREATE VIEW evil.{table} AS SELECT 1 / 0 AS oid; ");
    }
    run(&mut client, &evil);
    // pg_temp stands in front of pg_catalog for tables unless it is named.
    run(
        &mut client,
        "CREATE TEMP TABLE pg_namespace (oid int); CREATE TEMP TABLE new_rows (id bigint)",
    );
    let filling = filling("kb", "public.")
        .replace("||", "OPERATOR(pg_catalog.||)")
        .replace('%', "OPERATOR(pg_catalog.%)");
    run(&mut client, "SET search_path = evil, pg_catalog, public");
    assert_eq!(
        client
            .query("SELECT 'a'::text = 'a'::text", &[])
            .unwrap_err()
            .code()
            .unwrap()
            .code(),
        "P0001"
    );
    run(&mut client, &filling);
    let call = "SELECT text FROM public.raptor_search('kb', 'who commands ship 7?', k => 1)";
    assert_eq!(texts(&mut client, call).len(), 1);
    run(&mut client, "SET search_path = public");
    assert_eq!(contents(&mut client, "kb").len(), rows);
    assert_eq!(found(&mut client, "kb", ""), hits);
    run(&mut client, "SET search_path = evil, pg_catalog, public");
    run(
        &mut client,
        "SELECT public.graph_extract('kb'); SELECT public.raptor_build('kb'); SELECT public.graph_communities('kb')",
    );
    run(&mut client, "SET search_path = public");
    assert_eq!(rebuilt(&mut client, "kb", ""), built);
    run(
        &mut client,
        "SET search_path = evil, pg_catalog, public; DELETE FROM kb.document; SELECT public.rag_drop('kb')",
    );
}

#[test]
fn extensions_in_other_schemas_need_no_search_path() {
    let (plain, database, restored) = (Database::new(), Database::empty(), Database::empty());
    let mut client = database.client();
    let install = "CREATE SCHEMA ext; CREATE SCHEMA \"My tools\"; CREATE EXTENSION vector SCHEMA ext; \
         CREATE EXTENSION pg_graphrag SCHEMA \"My tools\"; SET search_path = pg_catalog";
    run(&mut client, install);
    run(&mut client, &filling("kb", "\"My tools\"."));
    let mut other = filled(&plain, "postgres");
    let hits = found(&mut other, "kb", "");
    assert_eq!(found(&mut client, "kb", "\"My tools\"."), hits);
    let own = "SELECT text FROM kb.node ORDER BY embedding OPERATOR(ext.<=>) (SELECT \"My tools\".rag_embed('kb', 'ship 7')) LIMIT 1";
    let first = "SELECT text FROM \"My tools\".raptor_search('kb', 'ship 7', k => 1)";
    assert_eq!(texts(&mut client, own), texts(&mut client, first));
    restore(&restored, "postgres", &database.run("pg_dump", &[]));
    let mut again = restored.client();
    run(&mut again, "SET search_path = pg_catalog");
    assert_eq!(found(&mut again, "kb", "\"My tools\"."), hits);
    let built = rebuilt(&mut other, "kb", "");
    assert_eq!(rebuilt(&mut client, "kb", "\"My tools\"."), built);
    assert_eq!(rebuilt(&mut again, "kb", "\"My tools\"."), built);
}

/// Documents that take a while to cut, read and build.
const MANY: &str = "SELECT rag_create('big', settings => '{\"inline_rows\": 0}'); \
     INSERT INTO big.document (body) SELECT string_agg('Captain ' || chr(65 + (n * m) % 26) || 'ole' || n % 40 || ' commands the ship ' \
       || m || ' of Port ' || chr(65 + m % 26) || 'llen.', ' ') FROM generate_series(1, 150) n, generate_series(1, 12) m GROUP BY n";

#[test]
fn a_build_that_is_cancelled_leaves_all_as_it_was() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, MANY);
    // Each build is cancelled ever later, and so in each of its phases, until it is fast enough.
    for build in ["graph_extract", "raptor_build", "graph_communities", "graph_summarize"] {
        let before = contents(&mut client, "big");
        let (mut limit, mut cancelled) = (1, 0);
        loop {
            run(&mut client, &format!("SET statement_timeout = {limit}"));
            let state = state(&mut client, &format!("SELECT {build}('big')"));
            run(&mut client, "RESET statement_timeout");
            if state == "ok" {
                break;
            }
            assert_eq!(state, "57014", "{build}");
            assert!(contents(&mut client, "big") == before, "{build} left something behind");
            (limit, cancelled) = (limit * 3, cancelled + 1);
        }
        assert!(cancelled > 0, "{build} was never cancelled");
        assert!(contents(&mut client, "big") != before);
    }
    assert_eq!(
        texts(
            &mut client,
            "SELECT level::text FROM raptor_search('big', 'captain', k => 1)"
        )
        .len(),
        1
    );
}

#[test]
fn another_session_cancels_a_build_that_waits_for_a_row() {
    let database = Database::new();
    let mut client = filled(&database, "postgres");
    let (before, answers) = (contents(&mut client, "kb"), found(&mut client, "kb", ""));
    let mut builder = database.client();
    let pid = texts(&mut builder, "SELECT pg_backend_pid()::text").remove(0);
    // The build deletes what it has taken up, so it has to wait in the middle of its work.
    let mut holder = database.client();
    run(&mut holder, "BEGIN; SELECT FROM kb.change FOR UPDATE");
    let build = std::thread::spawn(move || (state(&mut builder, "SELECT raptor_build('kb')"), builder));
    let waits = format!("SELECT wait_event_type FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'");
    while texts(&mut client, &waits).is_empty() {
        assert!(!build.is_finished(), "{}", build.join().unwrap().0);
    }
    let locks = format!("SELECT mode FROM pg_locks WHERE pid = {pid} AND locktype = 'advisory'");
    assert_eq!(texts(&mut client, &locks), ["ExclusiveLock"]);
    assert_eq!(found(&mut client, "kb", ""), answers, "readers do not wait for it");
    run(
        &mut client,
        "BEGIN; INSERT INTO kb.document (body) VALUES ('Ice.'); ROLLBACK",
    );
    run(&mut client, "SET lock_timeout = 10");
    ends(&mut client, "DELETE FROM kb.document WHERE source_key = 'k1'", "55P03");
    run(&mut client, &format!("SELECT pg_cancel_backend({pid})"));
    let (ended, mut builder) = build.join().unwrap();
    assert_eq!(ended, "57014");
    // Its next statement comes after the end of the cancelled transaction.
    assert_eq!(contents(&mut builder, "kb"), before);
    assert_eq!(texts(&mut client, &locks), [""; 0]);
}

#[test]
fn readers_see_the_old_tree_until_the_new_one_is_committed() {
    let database = Database::new();
    let mut builder = filled(&database, "postgres");
    let mut reader = database.client();
    let old = found(&mut reader, "kb", "");
    run(
        &mut builder,
        "BEGIN; DELETE FROM kb.document WHERE source_key = 'k7'; SELECT raptor_build('kb', cluster_size => 5); \
         SELECT graph_summarize('kb')",
    );
    let new = found(&mut builder, "kb", "");
    assert_ne!(old, new);
    assert_eq!(found(&mut reader, "kb", ""), old);
    run(&mut builder, "COMMIT");
    assert_eq!(found(&mut reader, "kb", ""), new);
    run(
        &mut builder,
        "BEGIN; SELECT raptor_build('kb', cluster_size => 2); ROLLBACK",
    );
    assert_eq!(found(&mut reader, "kb", ""), new);
}
