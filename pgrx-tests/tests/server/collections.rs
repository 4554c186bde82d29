//! Making, changing, listing and dropping collections, and the whole round for an ordinary role.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, refused, run};

/// Tables and columns, as the design names them.
const TABLES: &str = "\
binding: type source key name aliases edges
block: id document_id ordinal section_path start_char end_char text text_hash token_count
change: id table key kind at
claim: id subject_key object_key type status description valid_from valid_to block_id document_id quote
community: id level partition parent_id member_hash size title summary findings text rating embedding metadata \
source_count stale
community_entity: community_id entity_id
community_source: community_id document_id
document: id source_key title body format metadata partition body_hash created_at updated_at
entity: id key name type description degree source_count given stale row_key replaced
entity_alias: key entity_id via merged bound
evidence: id relation_id subject_key subject_name predicate object_key object_name block_id document_id quote \
start_char end_char description strength
mention: id key name entity_id block_id document_id type description start_char end_char
model_call: key role model request response status attempts error prompt_tokens completion_tokens cost created_at \
finished_at
model_call_source: key document_id
node: id level partition document_id block_id ordinal start_char end_char text text_hash token_count metadata \
embedding source_count stale
node_child: parent_id child_id weight
node_source: node_id document_id
posting: node_id lexemes length
relation: id source_id predicate predicate_key target_id description weight given_weight properties \
source_count stale bound
setting: key value
term: lexeme document_count weight vector
";

#[test]
fn every_table_stands_with_its_columns() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 48)");
    let rows = client
        .query(
            "SELECT c.relname::text, string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_class c \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE c.relnamespace = 'kb'::regnamespace AND c.relkind = 'r' GROUP BY 1 ORDER BY 1",
            &[],
        )
        .unwrap();
    let tables: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        tables,
        TABLES
            .lines()
            .map(|line| line.split(':').next().unwrap())
            .collect::<Vec<_>>()
    );
    for (row, line) in rows.iter().zip(TABLES.lines()) {
        let found: Vec<&str> = row.get::<_, &str>(1).split(' ').collect();
        // Further columns may stand between those of the design.
        for column in line.split(' ').skip(1) {
            assert!(found.contains(&column), "{column} of {line}: {found:?}");
        }
    }
    let vectors: Vec<String> = list(
        &mut client,
        "SELECT attrelid::regclass || '.' || attname FROM pg_attribute \
         WHERE format_type(atttypid, atttypmod) = 'vector(48)' AND attrelid::regclass::text LIKE 'kb.%' ORDER BY 1",
    );
    assert_eq!(vectors, ["kb.community.embedding", "kb.node.embedding"]);
    let members: i64 = one(
        &mut client,
        "SELECT count(*) FROM pg_depend WHERE deptype = 'e' AND objid IN \
           (SELECT oid FROM pg_class WHERE relnamespace = 'kb'::regnamespace)",
    );
    assert_eq!(
        members, 0,
        "a dump must hold the tables: they are not members of the extension"
    );
}

#[test]
fn a_schema_is_made_or_taken_if_it_is_empty_and_the_callers() {
    let database = Database::new();
    let mut admin = database.client();
    let (owner, other) = (database.role("owner"), database.role("other"));
    run(
        &mut admin,
        &format!(
            "CREATE SCHEMA mine AUTHORIZATION {owner}; CREATE SCHEMA full1 AUTHORIZATION {owner}; \
             CREATE TABLE full1.keep (); CREATE SCHEMA full2 AUTHORIZATION {owner}; \
             CREATE FUNCTION full2.keep() RETURNS int LANGUAGE sql RETURN 1; \
             CREATE SCHEMA foreign_one AUTHORIZATION {other}"
        ),
    );
    let mut client = database.client_as(&owner);
    run(&mut client, "SELECT rag_create('mine')");
    let owners: Vec<String> = list(
        &mut client,
        "SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class WHERE relnamespace = 'mine'::regnamespace",
    );
    assert_eq!(owners, [owner.as_str()]);
    let table = r#"
        SELECT rag_create('mine') --> 42P06 collection "mine" already exists
        SELECT rag_create('full1') --> 42P06 schema "full1" exists and is not empty
        SELECT rag_create('full2') --> 42P06 schema "full2" exists and is not empty
        SELECT rag_create('foreign_one') --> 42501 permission denied for collection "foreign_one"
        SELECT rag_create('new') --> 42501 permission denied for database "DATABASE"
    "#;
    refused(&mut client, &table.replace("DATABASE", database.name()));
    assert_eq!(
        failure(&mut client, "SELECT rag_create('full1')").detail(),
        Some("It holds \"keep\".")
    );
    assert!(
        failure(&mut client, "SELECT rag_create('mine')")
            .hint()
            .unwrap()
            .contains("rag_alter")
    );

    // A member of the owning role may, and the tables are the owner's and not the member's.
    let member = database.role("member");
    run(
        &mut admin,
        &format!("GRANT {owner} TO {member}; CREATE SCHEMA shared AUTHORIZATION {owner}"),
    );
    run(&mut database.client_as(&member), "SELECT rag_create('shared')");
    let table_owner: String = one(
        &mut admin,
        "SELECT tableowner::text FROM pg_tables WHERE schemaname = 'shared' AND tablename = 'node'",
    );
    assert_eq!(table_owner, owner);

    // Without the extension's own schema on the search_path it works all the same.
    run(&mut admin, "SET search_path = ''; SELECT public.rag_create('pathless')");
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_left() {
    let database = Database::new();
    let mut client = database.client();
    for long in ["x".repeat(64), "ü".repeat(32)] {
        refused(
            &mut client,
            &format!("SELECT rag_create('{long}') --> 42622 collection names have at most 63 bytes"),
        );
    }
    refused(
        &mut client,
        r#"
        SELECT rag_create('') --> 42602 a collection needs a name
        SELECT rag_create('pg_kb') --> 42939 unacceptable schema name "pg_kb"
        SELECT rag_create('kb', 0) --> 22023 dimensions must be between 1 and 16000
        SELECT rag_create('kb', -1) --> 22023 dimensions must be between 1 and 16000
        SELECT rag_create('kb', 16001) --> 22023 dimensions must be between 1 and 16000
        SELECT rag_create('kb', 2147483647) --> 22023 dimensions must be between 1 and 16000
        SELECT rag_create('kb', language => 'klingon') --> 42704 text search configuration "klingon" does not exist
        "#,
    );
    assert_eq!(
        failure(&mut client, "SELECT rag_create('kb', language => 0)")
            .code()
            .code(),
        "22023"
    );
    let hints = [
        ("embedder => 'openai'", "unknown embedder \"openai\"", "builtin:hash"),
        ("embedder => ''", "unknown embedder \"\"", "builtin:hash"),
        ("summarizer => 'gpt'", "unknown summarizer \"gpt\"", "builtin:frequency"),
        (
            "extractor => 'BUILTIN:COOCCURRENCE'",
            "unknown extractor \"BUILTIN:COOCCURRENCE\"",
            "builtin:cooccurrence",
        ),
        ("answerer => 'gpt'", "unknown answerer \"gpt\"", "NULL"),
        (
            "settings => '{\"leaf_token\": 200}'",
            "unknown setting \"leaf_token\"",
            "leaf_tokens",
        ),
        (
            "settings => '{\"embedder\": \"builtin:hash\"}'",
            "unknown setting \"embedder\"",
            "block_tokens",
        ),
        ("settings => '[1]'", "settings must be a JSON object", "leaf_tokens"),
        ("settings => 'null'", "settings must be a JSON object", "leaf_tokens"),
    ];
    for (arguments, message, hint) in hints {
        let error = failure(&mut client, &format!("SELECT rag_create('kb', {arguments})"));
        assert_eq!((error.code().code(), error.message()), ("22023", message));
        assert!(
            error.hint().is_some_and(|text| text.contains(hint)),
            "{arguments}: {:?}",
            error.hint()
        );
    }
    let schemas: i64 = one(
        &mut client,
        "SELECT count(*) FROM pg_namespace WHERE nspname IN ('kb', 'pg_kb')",
    );
    assert_eq!(schemas, 0);
}

#[test]
fn settings_are_taken_up_to_their_limits_and_not_beyond() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 4)");
    let limits = [
        ("block_tokens", 50, 100_000),
        ("leaf_tokens", 8, 10_000),
        ("leaf_overlap", 0, 5_000),
        ("inline_rows", 0, 1_000_000),
        ("exact_below", 0, 10_000_000),
        ("cluster_size", 2, 1_000),
        ("summary_tokens", 16, 10_000),
    ];
    for (key, least, greatest) in limits {
        let message = format!("setting \"{key}\" must be a whole number between {least} and {greatest}");
        for value in [
            (least - 1).to_string(),
            (greatest + 1).to_string(),
            format!("{least}.5"),
            "12345678901234567890123".into(),
            "\"200\"".into(),
            "[]".into(),
        ] {
            let settings = format!("'{{\"{key}\": {value}}}'");
            let alter = format!("SELECT rag_alter('kb', {settings})");
            let create = format!("SELECT rag_create('other', settings => {settings})");
            refused(
                &mut client,
                &format!("{alter} --> 22023 {message}\n{create} --> 22023 {message}"),
            );
            assert_eq!(
                failure(&mut client, &alter).detail(),
                Some(format!("It is {value}.").as_str())
            );
        }
        for value in [least, greatest] {
            // Sizes have to fit each other: a block holds a leaf, and leaves share at most half.
            let rest = match (key, value) {
                ("block_tokens", _) => ", \"leaf_tokens\": 8, \"leaf_overlap\": 0",
                ("leaf_tokens", 8) => ", \"leaf_overlap\": 0",
                ("leaf_tokens", _) => ", \"block_tokens\": 100000",
                ("leaf_overlap", _) => ", \"leaf_tokens\": 10000, \"block_tokens\": 100000",
                _ => "",
            };
            run(
                &mut client,
                &format!("SELECT rag_alter('kb', '{{\"{key}\": {value}{rest}}}')"),
            );
            let stored: i64 = one(
                &mut client,
                &format!("SELECT value::bigint FROM kb.setting WHERE key = '{key}'"),
            );
            assert_eq!(stored, value);
        }
    }
    refused(
        &mut client,
        r#"
        SELECT rag_create('other', settings => '{"leaf_tokens": 30, "leaf_overlap": 16}')
            --> 22023 leaf_overlap is 16, but must be at most half of leaf_tokens (15)
        SELECT rag_create('other', settings => '{"block_tokens": 100}')
            --> 22023 block_tokens is 100, but must be at least leaf_tokens (200)
        "#,
    );
}

/// Does everything once, asserting what comes out; the collection is gone at the end.
fn whole_round(client: &mut Client, name: &str) {
    let table = |client: &mut Client, table: &str| -> String {
        client
            .query_one("SELECT format('%I.%I', $1::text, $2::text)", &[&name, &table])
            .unwrap()
            .get(0)
    };
    let with = |client: &mut Client, sql: &str| client.query(sql, &[&name]).unwrap_or_else(|e| panic!("{sql}\n{e:?}"));
    with(client, "SELECT rag_create($1, settings => '{\"cluster_size\": 2}')");
    let added: i64 = with(
        client,
        "SELECT rag_add($1, E'Marie Curie discovered Polonium in Paris.', metadata => '{\"lang\": \"en\"}')",
    )[0]
    .get(0);
    let document = table(client, "document");
    run(
        client,
        &format!(
            "INSERT INTO {document} (body, metadata) VALUES \
               ('Niels Bohr visited Marie Curie in Copenhagen.', '{{\"lang\": \"en\"}}'), \
               ('Die Ostsee ist kalt.', '{{\"lang\": \"de\"}}')"
        ),
    );
    let built = with(client, "SELECT level, nodes FROM raptor_build($1) ORDER BY level DESC");
    assert_eq!(
        (built[0].get::<_, i32>(0), built[0].get::<_, i64>(1)),
        (2, 1),
        "one root over three leaves"
    );
    let found = with(
        client,
        "SELECT node_id, text FROM raptor_search($1, 'polonium', k => 1, mode => 'leaf')",
    );
    assert_eq!(found[0].get::<_, &str>(1), "Marie Curie discovered Polonium in Paris.");
    let by_vector = with(
        client,
        "SELECT node_id FROM raptor_search($1, rag_embed($1, 'polonium'), k => 1, mode => 'leaf')",
    );
    assert_eq!(by_vector[0].get::<_, i64>(0), found[0].get::<_, i64>(0));
    let german = with(
        client,
        "SELECT text FROM raptor_search($1, 'polonium', filter => '{\"lang\": \"de\"}')",
    );
    assert_eq!(
        german.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>(),
        ["Die Ostsee ist kalt."]
    );

    assert_eq!(
        with(client, "SELECT blocks FROM graph_extract($1)")[0].get::<_, i64>(0),
        3
    );
    with(
        client,
        "SELECT graph_add($1, 'Marie Curie', 'born in', 'Warsaw', weight => 2)",
    );
    let components = with(client, "SELECT largest FROM graph_communities($1, 'components')");
    assert!(
        components[0].get::<_, i64>(0) >= 5,
        "Curie, Polonium, Bohr, Copenhagen, Warsaw"
    );
    assert_eq!(
        with(client, "SELECT reports FROM graph_summarize($1)")[0].get::<_, i64>(0),
        1
    );
    let report = with(client, "SELECT summary FROM graph_global($1, 'polonium', k => 1)");
    assert!(report[0].get::<_, &str>(0).contains("Polonium"));
    let edge = with(
        client,
        "SELECT quote, document_ids FROM graph_local($1, 'polonium') WHERE predicate = 'discovered' \
         AND source = 'Marie Curie' AND target = 'Polonium'",
    );
    assert_eq!(edge[0].get::<_, &str>(0), "Marie Curie discovered Polonium in Paris.");
    assert_eq!(edge[0].get::<_, Vec<i64>>(1), [added]);

    let pending = with(
        client,
        "SELECT sum(pending)::bigint FROM rag_status($1) WHERE step <> 'communities'",
    );
    assert_eq!(pending[0].get::<_, i64>(0), 0);
    assert_eq!(
        with(client, "SELECT 1 FROM rag_collections WHERE collection = $1").len(),
        1
    );
    with(client, "SELECT rag_alter($1, '{\"summary_tokens\": 100}')");
    run(client, &format!("DELETE FROM {document} WHERE id = {added}"));
    assert_eq!(with(client, "SELECT 1 FROM graph_local($1, 'polonium')").len(), 0);
    with(client, "SELECT rag_drop($1)");
    assert_eq!(with(client, "SELECT 1 FROM pg_namespace WHERE nspname = $1").len(), 0);
}

#[test]
fn any_name_works_through_every_function() {
    let database = Database::new();
    let mut client = database.client();
    let longest = "ü".repeat(31) + "x";
    for name in [
        "a \"quoted\" name",
        "O'Brien's",
        "MiXeD",
        "two words",
        "Übergröße",
        "select",
        "back\\slash",
        "percent %s $1",
        "two\nlines",
        "{s}{v}",
        "{schema}{extension}{vector}{dimensions}{partition}",
        "*/ --",
        &longest,
    ] {
        whole_round(&mut client, name);
    }
}

#[test]
fn an_ordinary_role_with_a_schema_of_its_own_does_it_all() {
    let database = Database::new();
    let role = database.role("author");
    run(
        &mut database.client(),
        &format!("CREATE SCHEMA own AUTHORIZATION {role}"),
    );
    let mut client = database.client_as(&role);
    let may: bool = one(
        &mut client,
        "SELECT has_database_privilege(current_database(), 'CREATE')",
    );
    assert!(!may);
    whole_round(&mut client, "own");
}

#[test]
fn an_ordinary_role_with_create_on_the_database_does_it_all() {
    let database = Database::new();
    let role = database.role("author");
    run(
        &mut database.client(),
        &format!("GRANT CREATE ON DATABASE {} TO {role}", database.name()),
    );
    whole_round(&mut database.client_as(&role), "made");
}
