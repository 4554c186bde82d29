//! Who may do what, and as whom code runs.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one, run};

/// The SQLSTATE that a statement ends with, or "ok".
pub fn state(client: &mut Client, sql: &str) -> String {
    match client.batch_execute(sql) {
        Ok(()) => "ok".into(),
        Err(error) => error.code().map_or(error.to_string(), |code| code.code().to_owned()),
    }
}

/// Runs a statement that must end with this SQLSTATE, or "ok".
#[track_caller]
pub fn ends(client: &mut Client, sql: &str, expected: &str) {
    assert_eq!(state(client, sql), expected, "{sql}");
}

/// The first column of a query.
#[track_caller]
pub fn texts(client: &mut Client, sql: &str) -> Vec<String> {
    list(client, sql)
}

/// A database with a collection `kb` that an ordinary role owns, in a schema that was made for it.
fn owned() -> (Database, String) {
    let database = Database::new();
    let owner = database.role("owner");
    run(
        &mut database.client(),
        &format!("CREATE SCHEMA kb AUTHORIZATION {owner}"),
    );
    let sql = "SELECT rag_create('kb', dimensions => 64); \
         INSERT INTO kb.document (source_key, body, metadata) VALUES \
           ('a1', 'Isla Brodie commands the Night Ferry.', '{\"tenant\": \"acme\"}'), \
           ('a2', 'The Night Ferry leaves Port Ellen.', '{\"tenant\": \"acme\"}'), \
           ('b1', 'Glen Depot stores grain for the Night Ferry.', '{\"tenant\": \"bolt\"}'); \
         SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb')";
    run(&mut database.client_as(&owner), sql);
    (database, owner)
}

const READS: [&str; 8] = [
    "SELECT * FROM raptor_search('kb', 'ferry')",
    "SELECT * FROM rag_search('kb', 'ferry', methods => '{dense,lexical,tree}', expand => 'block')",
    "SELECT * FROM rag_explain('kb', 'ferry', methods => '{lexical,graph}')",
    "SELECT * FROM raptor_search('kb', rag_embed('kb', 'ferry'), mode => 'leaf')",
    "SELECT * FROM graph_global('kb', 'ferry')",
    "SELECT * FROM graph_local('kb', 'night ferry', hops => 2)",
    "SELECT * FROM rag_status('kb')",
    "SELECT rag_embed('kb', 'ferry')",
];

const WRITES: [&str; 8] = [
    "SELECT rag_add('kb', 'Storms close Port Ellen.')",
    "SELECT rag_alter('kb', '{\"cluster_size\": 4}')",
    "SELECT raptor_build('kb')",
    "SELECT graph_extract('kb')",
    "SELECT graph_add('kb', 'Port Ellen', 'belongs to', 'Islay')",
    "SELECT graph_communities('kb')",
    "SELECT graph_summarize('kb')",
    "SELECT rag_drop('kb')",
];

#[test]
fn owners_and_members_write_readers_read_and_strangers_do_neither() {
    let (database, owner) = owned();
    let [member, reader, stranger] = ["member", "reader", "stranger"].map(|role| database.role(role));
    let grants = format!(
        "GRANT {owner} TO {member}; GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}"
    );
    run(&mut database.client(), &grants);

    for (role, reads, writes) in [
        (&stranger, "42501", "42501"),
        (&reader, "ok", "42501"),
        (&owner, "ok", "ok"),
        (&member, "ok", "ok"),
    ] {
        let mut client = database.client_as(role);
        for sql in READS {
            ends(&mut client, sql, reads);
        }
        for sql in WRITES.iter().filter(|sql| **sql != "SELECT rag_drop('kb')") {
            ends(&mut client, sql, writes);
        }
    }
    ends(&mut database.client_as(&reader), "SELECT rag_drop('kb')", "42501");
    // All rows that the member wrote are the owner's, since tables have one owner; and the member may drop it all.
    let mut admin = database.client();
    assert_eq!(
        texts(
            &mut admin,
            "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'kb'::regnamespace"
        ),
        [owner]
    );
    ends(&mut database.client_as(&member), "SELECT rag_drop('kb')", "ok");
}

#[test]
fn a_reader_needs_select_on_what_is_read() {
    let (database, _) = owned();
    let reader = database.role("reader");
    let mut admin = database.client();
    let mut client = database.client_as(&reader);
    let search = "SELECT * FROM raptor_search('kb', 'ferry')";
    run(
        &mut admin,
        &format!("GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}"),
    );
    ends(&mut client, search, "42501");
    run(&mut admin, &format!("GRANT USAGE ON SCHEMA kb TO {reader}"));
    ends(&mut client, search, "ok");
    run(&mut admin, &format!("REVOKE SELECT ON kb.node FROM {reader}"));
    ends(&mut client, search, "42501");
    ends(&mut client, "SELECT * FROM graph_global('kb', 'ferry')", "ok");
    run(&mut admin, "REVOKE EXECUTE ON FUNCTION graph_global FROM PUBLIC");
    ends(&mut client, "SELECT * FROM graph_global('kb', 'ferry')", "42501");
}

#[test]
fn a_role_that_may_write_documents_needs_no_right_on_what_is_derived() {
    let (database, _) = owned();
    let writer = database.role("writer");
    let grants = format!(
        "GRANT USAGE ON SCHEMA kb TO {writer}; GRANT SELECT, INSERT, UPDATE, DELETE ON kb.document TO {writer}"
    );
    let mut admin = database.client();
    run(&mut admin, &grants);
    let mut client = database.client_as(&writer);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) VALUES ('w', 'Storms close Port Ellen.')",
    );
    let leaf = "SELECT n.text FROM kb.node n JOIN kb.document d ON d.id = n.document_id WHERE d.source_key = 'w'";
    assert_eq!(texts(&mut admin, leaf), ["Storms close Port Ellen."]);
    run(
        &mut client,
        "UPDATE kb.document SET body = 'Snow closes Port Ellen.' WHERE source_key = 'w'",
    );
    assert_eq!(texts(&mut admin, leaf), ["Snow closes Port Ellen."]);
    run(&mut client, "DELETE FROM kb.document WHERE source_key <> 'w'");
    assert_eq!(
        texts(&mut admin, "SELECT text FROM kb.node"),
        ["Snow closes Port Ellen."]
    );
    ends(&mut client, "SELECT * FROM kb.node", "42501");
    ends(&mut client, "SELECT rag_add('kb', 'text')", "42501");
    ends(&mut client, "TRUNCATE kb.document", "42501");
}

#[test]
fn a_superuser_runs_nobodys_code_as_himself() {
    let (database, owner) = owned();
    let mut theirs = database.client_as(&owner);
    let mut admin = database.client();
    // What the owner has put on a table runs as the owner, whoever builds.
    let spy = "CREATE TABLE kb.seen (who text, path text); \
         CREATE FUNCTION kb.spy() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN \
           INSERT INTO kb.seen VALUES (current_user, current_setting('search_path')); RETURN NEW; END$$; \
         CREATE TRIGGER spy BEFORE INSERT ON kb.node FOR EACH ROW EXECUTE FUNCTION kb.spy(); \
         CREATE TRIGGER spy BEFORE INSERT ON kb.mention FOR EACH ROW EXECUTE FUNCTION kb.spy(); \
         CREATE TRIGGER spy BEFORE INSERT OR UPDATE ON kb.community FOR EACH ROW EXECUTE FUNCTION kb.spy(); \
         CREATE TRIGGER spy BEFORE UPDATE ON kb.setting FOR EACH ROW EXECUTE FUNCTION kb.spy()";
    run(&mut theirs, spy);
    for sql in WRITES.iter().filter(|sql| !sql.contains("rag_drop")) {
        ends(&mut admin, sql, "ok");
    }
    run(
        &mut admin,
        "INSERT INTO kb.document (body) VALUES ('Ice closes Port Ellen.')",
    );
    assert_eq!(texts(&mut admin, "SELECT DISTINCT who FROM kb.seen"), [owner.as_str()]);
    assert_eq!(
        texts(&mut admin, "SELECT DISTINCT path FROM kb.seen"),
        ["pg_catalog, pg_temp"]
    );
    assert_eq!(
        texts(&mut admin, "SELECT current_user::text"),
        ["postgres"],
        "and he is himself again"
    );

    // It can neither become him nor wait until he commits.
    let ways = [
        "SET ROLE postgres;",
        "SET SESSION AUTHORIZATION postgres;",
        "RESET ROLE;",
        "CREATE TEMP TABLE trap ();",
    ];
    for body in ways {
        let trap = format!(
            "CREATE OR REPLACE FUNCTION kb.spy() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {body} RETURN NEW; END$$"
        );
        run(&mut theirs, &trap);
        ends(&mut admin, "SELECT raptor_build('kb')", "42501");
        ends(&mut admin, "INSERT INTO kb.document (body) VALUES ('Fog.')", "42501");
        assert_eq!(texts(&mut admin, "SELECT current_user::text"), ["postgres"]);
    }
    let later = "DROP TRIGGER spy ON kb.node; \
         CREATE OR REPLACE FUNCTION kb.spy() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN \
           INSERT INTO kb.seen VALUES (current_user, 'later'); RETURN NEW; END$$; \
         CREATE CONSTRAINT TRIGGER later AFTER INSERT ON kb.node DEFERRABLE INITIALLY DEFERRED \
           FOR EACH ROW EXECUTE FUNCTION kb.spy()";
    run(&mut theirs, later);
    ends(&mut admin, "SELECT raptor_build('kb')", "42501");
    assert_eq!(
        one::<i64>(&mut admin, "SELECT count(*) FROM kb.seen WHERE path = 'later'"),
        0
    );
}

#[test]
fn a_superuser_makes_the_collection_of_the_role_that_owns_the_schema() {
    let database = Database::new();
    let (owner, stranger) = (database.role("owner"), database.role("stranger"));
    let mut admin = database.client();
    run(&mut admin, &format!("CREATE SCHEMA kb AUTHORIZATION {owner}"));
    ends(&mut database.client_as(&stranger), "SELECT rag_create('kb')", "42501");
    ends(&mut database.client_as(&stranger), "SELECT rag_create('mine')", "42501");
    run(&mut admin, "SELECT rag_create('kb')");
    assert_eq!(texts(&mut admin, "SELECT owner FROM rag_collections"), [owner.as_str()]);
    let mut client = database.client_as(&owner);
    run(
        &mut client,
        "INSERT INTO kb.document (body) VALUES ('Isla Brodie.'); SELECT raptor_build('kb')",
    );

    run(
        &mut admin,
        &format!("GRANT CREATE ON DATABASE {} TO {stranger}", database.name()),
    );
    let mut client = database.client_as(&stranger);
    run(&mut client, "SELECT rag_create('mine')");
    assert_eq!(
        texts(&mut client, "SELECT collection FROM rag_collections"),
        ["mine"],
        "others' are not shown"
    );
    assert_eq!(
        texts(&mut admin, "SELECT collection || ' ' || owner FROM rag_collections"),
        [format!("kb {owner}"), format!("mine {stranger}")]
    );
}

#[test]
fn what_only_looks_like_a_collection_is_none() {
    let (database, owner) = owned();
    let mut admin = database.client();
    let mut theirs = database.client_as(&owner);
    let search = "SELECT * FROM raptor_search('kb', 'ferry')";

    // A view would run its owner's code as whoever searches.
    run(
        &mut theirs,
        "CREATE FUNCTION kb.trap() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'trapped'; END$$; \
             ALTER TABLE kb.node RENAME TO hidden; CREATE VIEW kb.node AS SELECT * FROM kb.hidden WHERE kb.trap()",
    );
    for sql in [search, "SELECT raptor_build('kb')", "SELECT rag_drop('kb')"] {
        ends(&mut admin, sql, "3F000");
    }
    assert_eq!(one::<i64>(&mut admin, "SELECT count(*) FROM rag_collections"), 0);
    run(&mut theirs, "DROP VIEW kb.node; ALTER TABLE kb.hidden RENAME TO node");
    ends(&mut admin, search, "ok");

    // Tables of several owners.
    let other = database.role("other");
    run(&mut admin, &format!("ALTER TABLE kb.setting OWNER TO {other}"));
    ends(&mut admin, search, "3F000");
    ends(&mut theirs, "SELECT raptor_build('kb')", "3F000");
    assert_eq!(one::<i64>(&mut admin, "SELECT count(*) FROM rag_collections"), 0);
    run(&mut admin, &format!("ALTER TABLE kb.setting OWNER TO {owner}"));
    ends(&mut admin, search, "ok");
}

#[test]
fn collections_are_listed_for_those_who_may_read_them() {
    let (database, owner) = owned();
    let reader = database.role("reader");
    let mut admin = database.client();
    let mut client = database.client_as(&reader);
    let shown = "SELECT collection FROM rag_collections";
    assert_eq!(texts(&mut client, shown), [""; 0]);
    run(&mut admin, &format!("GRANT SELECT ON kb.setting TO {reader}"));
    assert_eq!(texts(&mut client, shown), [""; 0], "without USAGE on the schema");
    run(&mut admin, &format!("GRANT USAGE ON SCHEMA kb TO {reader}"));
    assert_eq!(texts(&mut client, shown), ["kb"]);
    // A policy that holds for the owner, too, is run by nobody who looks at the list.
    let policy = "CREATE FUNCTION kb.who() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN \
           RAISE NOTICE 'policy as %', current_user; RETURN true; END$$; \
         ALTER TABLE kb.setting ENABLE ROW LEVEL SECURITY; ALTER TABLE kb.setting FORCE ROW LEVEL SECURITY; \
         CREATE POLICY who ON kb.setting USING (kb.who())";
    run(&mut database.client_as(&owner), policy);
    let output = database.psql(&format!("{shown};"));
    assert!(output.contains("(0 rows)") && !output.contains("policy as"), "{output}");
}

#[test]
fn trigger_functions_are_only_triggers() {
    let (database, _) = owned();
    let role = database.role("someone");
    let mut admin = database.client();
    let triggers = "SELECT p.proname::text FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
         JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = 'pg_graphrag' AND p.prorettype = 'trigger'::regtype";
    let names = texts(&mut admin, triggers);
    assert!(names.len() >= 3);
    run(&mut admin, &format!("CREATE SCHEMA own AUTHORIZATION {role}"));
    let mut client = database.client_as(&role);
    run(
        &mut client,
        "CREATE TABLE own.document (id bigint, body text); CREATE TABLE own.entity (id bigint)",
    );
    for name in names {
        assert_ne!(
            state(&mut client, &format!("SELECT {name}()")),
            "ok",
            "{name} called as a function"
        );
        // Somebody's own table does not get anywhere with it either.
        for table in ["document", "entity"] {
            let sql = format!(
                "BEGIN; CREATE TRIGGER t BEFORE INSERT ON own.{table} FOR EACH ROW EXECUTE FUNCTION {name}(); \
                 INSERT INTO own.{table} VALUES (1)"
            );
            let state = state(&mut client, &sql);
            assert!(
                !["ok", "XX000"].contains(&state.as_str()),
                "{name} on own.{table}: {state}"
            );
            run(&mut client, "ROLLBACK");
        }
    }
}

#[test]
fn the_extension_has_no_definer_rights_and_no_rows() {
    let (database, _) = owned();
    let mut admin = database.client();
    let members = |what: &str| {
        format!(
            "SELECT count(*) FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'pg_graphrag' \
             WHERE d.deptype = 'e' AND {what}"
        )
    };
    let functions = "d.classid = 'pg_proc'::regclass";
    assert!(one::<i64>(&mut admin, &members(functions)) > 15);
    let definer = format!("{functions} AND (SELECT prosecdef FROM pg_proc WHERE oid = d.objid)");
    assert_eq!(one::<i64>(&mut admin, &members(&definer)), 0);
    let relations = "d.classid = 'pg_class'::regclass AND (SELECT relkind FROM pg_class WHERE oid = d.objid) <> 'v'";
    assert_eq!(one::<i64>(&mut admin, &members(relations)), 0);
    assert_eq!(
        one::<i64>(
            &mut admin,
            "SELECT count(*) FROM pg_extension WHERE extname = 'pg_graphrag' AND extconfig IS NOT NULL"
        ),
        0
    );
}

#[test]
fn a_role_can_be_dropped_with_its_collection() {
    let (database, owner) = owned();
    let mut admin = database.client();
    run(
        &mut admin,
        "SELECT rag_create('other'); INSERT INTO other.document (body) VALUES ('Isla Brodie.')",
    );
    let member = database.role("member");
    run(
        &mut admin,
        &format!("GRANT {owner} TO {member}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {member}"),
    );
    ends(&mut admin, &format!("DROP ROLE {owner}"), "2BP01");
    run(
        &mut admin,
        &format!("DROP OWNED BY {owner}; DROP ROLE {owner}; DROP ROLE {member}"),
    );
    assert_eq!(
        one::<i64>(&mut admin, "SELECT count(*) FROM pg_namespace WHERE nspname = 'kb'"),
        0
    );
    assert_eq!(
        texts(&mut admin, "SELECT text FROM raptor_search('other', 'isla')"),
        ["Isla Brodie."]
    );
}

#[test]
fn row_security_put_on_by_hand_holds_in_every_search() {
    let (database, owner) = owned();
    let reader = database.role("reader");
    let mut theirs = database.client_as(&owner);
    let secure = format!(
        "GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}; \
         ALTER TABLE kb.document ENABLE ROW LEVEL SECURITY; ALTER TABLE kb.node ENABLE ROW LEVEL SECURITY; \
         CREATE POLICY tenant ON kb.document FOR SELECT TO {reader} USING (metadata @> '{{\"tenant\": \"acme\"}}'); \
         CREATE POLICY tenant ON kb.node FOR SELECT TO {reader} USING (metadata @> '{{\"tenant\": \"acme\"}}')"
    );
    run(&mut theirs, &secure);
    let mut client = database.client_as(&reader);
    let acme = [
        "Isla Brodie commands the Night Ferry.",
        "The Night Ferry leaves Port Ellen.",
    ];
    // The owner sees three leaves, and a summary of all of them.
    for (search, all) in [
        (
            "SELECT text FROM raptor_search('kb', 'grain for the night ferry', overlap => 'keep')",
            4,
        ),
        (
            "SELECT text FROM raptor_search('kb', rag_embed('kb', 'grain'), k => 100, overlap => 'keep')",
            4,
        ),
        ("SELECT text FROM raptor_search('kb', 'grain', mode => 'leaf')", 3),
        (
            "SELECT text FROM kb.node ORDER BY embedding <=> (SELECT rag_embed('kb', 'grain')) LIMIT 10",
            4,
        ),
    ] {
        let mut found = texts(&mut client, search);
        found.sort();
        assert_eq!(found, acme, "{search}");
        assert_eq!(texts(&mut theirs, search).len(), all, "{search}");
    }
    let bolt = "SELECT text FROM raptor_search('kb', 'grain', filter => '{\"tenant\": \"bolt\"}')";
    assert_eq!(texts(&mut client, bolt), [""; 0]);
    assert_eq!(texts(&mut theirs, bolt).len(), 1);
    // A tree of each tenant's own has summaries that its readers may see.
    let mut admin = database.client();
    run(
        &mut admin,
        "SELECT rag_create('two', dimensions => 64, partition_by => '{tenant}')",
    );
    let fill = "INSERT INTO two.document (body, metadata) SELECT body, metadata FROM kb.document; SELECT raptor_build('two'); \
         ALTER TABLE two.node ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON two.node USING (partition = '\"acme\"'); ";
    run(&mut admin, fill);
    run(
        &mut admin,
        &format!("GRANT USAGE ON SCHEMA two TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA two TO {reader}"),
    );
    assert_eq!(
        texts(
            &mut client,
            "SELECT max(level)::text FROM raptor_search('two', 'night ferry')"
        ),
        ["1"]
    );
    assert_eq!(
        texts(
            &mut client,
            "SELECT DISTINCT metadata ->> 'tenant' FROM raptor_search('two', 'grain', k => 100)"
        ),
        ["acme"]
    );
}
