//! What a DBA does to a database: dump, restore, rename, give away, replicate, vacuum.

use std::path::Path;
use std::time::Duration;

use pg_graphrag_tests::Database;
use postgres::{Client, Config, NoTls};

use crate::rights::{ends, texts};
use crate::support::run;

/// SQL that makes and fills a collection: a tree, a graph with evidence and with a relation by hand, reports, and two
/// documents that wait to be cut. Functions are called in the schema `tools` (with its dot).
pub fn filling(schema: &str, tools: &str) -> String {
    format!(
        "SELECT {tools}rag_create('{schema}', dimensions => 32, settings => '{{\"cluster_size\": 3}}'); \
         INSERT INTO \"{schema}\".document (source_key, title, body, metadata) SELECT 'k' || n, 'Title ' || n, \
           'Isla Brodie commands ship ' || n || '. The Night Ferry leaves Port Ellen at ' || n || ':00. Glen Depot ' \
           || 'stores grain for the Night Ferry.', jsonb_build_object('n', n % 3) FROM generate_series(1, 12) n; \
         SELECT {tools}raptor_build('{schema}'); SELECT {tools}graph_extract('{schema}'); \
         SELECT {tools}graph_add('{schema}', 'Port Ellen', 'belongs to', 'Islay', weight => 3); \
         SELECT {tools}graph_communities('{schema}'); SELECT {tools}graph_summarize('{schema}'); \
         SELECT {tools}rag_alter('{schema}', '{{\"inline_rows\": 1}}'); \
         INSERT INTO \"{schema}\".document (source_key, body) VALUES ('w1', 'Storms close Port Ellen.'), ('w2', 'Fog.')"
    )
}

pub fn filled(database: &Database, role: &str) -> Client {
    let mut client = database.client_as(role);
    run(&mut client, &filling("kb", ""));
    client
}

/// Every row of every table of a collection, and how its tables are made.
pub fn contents(client: &mut Client, schema: &str) -> Vec<String> {
    let tables = texts(
        client,
        &format!(
            "SELECT relname::text FROM pg_class WHERE relnamespace = '\"{schema}\"'::regnamespace AND relkind = 'r' ORDER BY 1"
        ),
    );
    assert_eq!(tables.len(), 21);
    let mut all = Vec::new();
    for table in tables {
        all.extend(texts(
            client,
            &format!("SELECT '{table} ' || t::text FROM \"{schema}\".\"{table}\" t ORDER BY t::text COLLATE \"C\""),
        ));
    }
    let made = format!(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}' UNION ALL \
         SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN \
           (SELECT oid FROM pg_class WHERE relnamespace = '\"{schema}\"'::regnamespace) UNION ALL \
         SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = '\"{schema}\"'::regnamespace \
         UNION ALL SELECT objoid::regclass || description FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid IN \
           (SELECT oid FROM pg_class WHERE relnamespace = '\"{schema}\"'::regnamespace) ORDER BY 1"
    );
    all.extend(texts(client, &made));
    all
}

/// What the searches answer, in order.
pub fn found(client: &mut Client, schema: &str, tools: &str) -> Vec<String> {
    [
        "raptor_search('{s}', 'who commands ship 7?', k => 20)",
        "rag_search('{s}', 'who commands ship 7?', methods => '{dense,lexical,tree}', expand => 'block')",
        "raptor_search('{s}', 'grain', mode => 'leaf', filter => '{\"n\": 1}')",
        "graph_global('{s}', 'what about the night ferry?')",
        "graph_local('{s}', 'night ferry', hops => 2)",
    ]
    .iter()
    .flat_map(|call| {
        let call = call.replace("{s}", schema);
        let rows = texts(client, &format!("SELECT r::text FROM {tools}{call} WITH ORDINALITY r"));
        assert!(!rows.is_empty(), "{call}");
        rows
    })
    .collect()
}

/// What a full build gives, without ids, which come from sequences.
pub fn rebuilt(client: &mut Client, schema: &str, tools: &str) -> Vec<String> {
    let build = format!(
        "SELECT {tools}graph_extract('{schema}'); SELECT {tools}raptor_build('{schema}'); SELECT {tools}graph_communities('{schema}'); \
         UPDATE \"{schema}\".community SET stale = true; SELECT {tools}graph_summarize('{schema}')"
    );
    run(client, &build);
    let sql = format!(
        "SELECT concat_ws('|', level, partition, text, token_count, metadata, embedding, source_count) FROM \"{schema}\".node \
         UNION ALL SELECT concat_ws('|', level, member_hash, title, text, rating, metadata, embedding) FROM \"{schema}\".community \
         UNION ALL SELECT concat_ws('|', s.name, predicate, t.name, weight, r.source_count) FROM \"{schema}\".relation r \
           JOIN \"{schema}\".entity s ON s.id = source_id JOIN \"{schema}\".entity t ON t.id = target_id ORDER BY 1"
    );
    texts(client, &sql)
}

/// The restored collection is the original: all rows, the same answers, and it goes on working.
fn same(original: &mut Client, restored: &mut Client) {
    assert_eq!(contents(original, "kb"), contents(restored, "kb"));
    assert_eq!(found(original, "kb", ""), found(restored, "kb", ""));
    let more = "INSERT INTO kb.document (source_key, body) VALUES ('new', 'Snow closes Port Ellen.')";
    for client in [&mut *original, &mut *restored] {
        run(client, more);
    }
    assert_eq!(contents(original, "kb").len(), contents(restored, "kb").len());
    assert_eq!(rebuilt(original, "kb", ""), rebuilt(restored, "kb", ""));
    run(restored, "DELETE FROM kb.document");
    assert_eq!(
        texts(
            restored,
            "SELECT text FROM kb.node UNION ALL SELECT quote FROM kb.evidence"
        ),
        [""; 0]
    );
}

pub fn restore(database: &Database, role: &str, dump: &str) {
    let output = database.psql_as(role, dump);
    assert!(!output.contains("ERROR"), "{output}");
}

#[test]
fn a_dump_of_the_database_restores_everything() {
    let (source, target) = (Database::new(), Database::empty());
    let mut client = filled(&source, "postgres");
    restore(&target, "postgres", &source.run("pg_dump", &[]));
    same(&mut client, &mut target.client());
}

#[test]
fn an_ordinary_role_dumps_and_restores_its_collection_alone() {
    let (source, target) = (Database::new(), Database::new());
    let role = source.role("owner");
    for database in [&source, &target] {
        run(
            &mut database.client(),
            &format!("GRANT CREATE ON DATABASE {} TO {role}", database.name()),
        );
    }
    let mut client = filled(&source, &role);
    restore(&target, &role, &source.run("pg_dump", &["-U", &role, "-n", "kb"]));
    same(&mut client, &mut target.client_as(&role));
}

#[test]
fn a_collection_can_be_renamed_and_given_away() {
    let database = Database::new();
    let (old, new) = (database.role("old"), database.role("new"));
    let mut admin = database.client();
    run(
        &mut admin,
        &format!("GRANT CREATE ON DATABASE {0} TO {old}, {new}", database.name()),
    );
    let mut client = filled(&database, &old);
    let before = found(&mut client, "kb", "");
    run(&mut client, "ALTER SCHEMA kb RENAME TO \"Q1 docs\"");
    assert_eq!(found(&mut client, "Q1 docs", ""), before);
    ends(&mut client, "SELECT * FROM raptor_search('kb', 'ship')", "3F000");
    run(&mut admin, &format!("REASSIGN OWNED BY {old} TO {new}"));
    ends(&mut client, "SELECT raptor_build('Q1 docs')", "42501");
    let mut client = database.client_as(&new);
    run(
        &mut client,
        "INSERT INTO \"Q1 docs\".document (source_key, body) VALUES ('n', 'Isla Brodie commands ship 99.')",
    );
    assert_eq!(
        texts(
            &mut client,
            "SELECT text FROM raptor_search('Q1 docs', 'ship 99', k => 1)"
        ),
        ["Isla Brodie commands ship 99."]
    );
    assert!(rebuilt(&mut client, "Q1 docs", "").len() > 20);
    run(
        &mut client,
        "DELETE FROM \"Q1 docs\".document; SELECT rag_drop('Q1 docs')",
    );
    assert_eq!(texts(&mut client, "SELECT collection FROM rag_collections"), [""; 0]);
}

#[test]
fn all_tables_can_be_published() {
    let database = Database::new();
    let mut client = filled(&database, "postgres");
    run(&mut client, "CREATE PUBLICATION p FOR TABLES IN SCHEMA kb");
    assert_eq!(
        texts(
            &mut client,
            "SELECT count(*)::text FROM pg_publication_tables WHERE pubname = 'p'"
        ),
        ["21"]
    );
    // A published table without a replica identity refuses UPDATE and DELETE.
    rebuilt(&mut client, "kb", "");
    run(&mut client, "DELETE FROM kb.document");
    let keyless = "SELECT oid::regclass::text FROM pg_class c WHERE relnamespace = 'kb'::regnamespace AND relkind = 'r' \
         AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND indisprimary)";
    assert_eq!(texts(&mut client, keyless), [""; 0]);
}

#[test]
fn search_only_reads() {
    let database = Database::new();
    let mut client = filled(&database, "postgres");
    let before = found(&mut client, "kb", "");
    run(&mut client, "SET default_transaction_read_only = on");
    assert_eq!(found(&mut client, "kb", ""), before);
    only_reads(&mut client);
}

fn only_reads(client: &mut Client) {
    assert_eq!(texts(client, "SELECT step FROM rag_status('kb')").len(), 7);
    assert_eq!(texts(client, "SELECT collection FROM rag_collections"), ["kb"]);
    for sql in [
        "SELECT rag_add('kb', 'text')",
        "SELECT rag_alter('kb', '{\"cluster_size\": 4}')",
        "SELECT raptor_build('kb')",
        "SELECT graph_extract('kb')",
        "SELECT graph_add('kb', 'a', 'b', 'c')",
        "SELECT graph_communities('kb')",
        "SELECT graph_summarize('kb')",
        "SELECT rag_create('k2')",
        "SELECT rag_drop('kb')",
        "DELETE FROM kb.document",
    ] {
        ends(client, sql, "25006");
    }
}

/// A second server in the cluster's folder; stopped when it goes.
struct Standby<'a> {
    primary: &'a Database,
    stop: String,
}

impl Drop for Standby<'_> {
    fn drop(&mut self) {
        self.primary.psql(&self.stop);
    }
}

#[test]
fn search_runs_on_a_hot_standby() {
    let database = Database::new();
    let mut client = filled(&database, "postgres");
    let folder = texts(&mut client, "SHOW unix_socket_directories").remove(0);
    let bin = Path::new(&std::env::var("PG_CONFIG").unwrap())
        .parent()
        .unwrap()
        .display()
        .to_string();
    let data = format!("{folder}/standby");
    let stop = format!("\\! {bin}/pg_ctl -D {data} -m immediate -s stop 2>&1\n\\! rm -rf {data}\n");
    let options = format!(
        "-p 5433 -c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_prepared_transactions=2"
    );
    // psql runs them, since it is what runs as the user of the server.
    let start = format!(
        "\\! {bin}/pg_basebackup -h {folder} -U postgres -D {data} -R -X stream -c fast --no-sync 2>&1\n\
         \\! {bin}/pg_ctl -D {data} -o '{options}' -l {data}/log -w -s start >/dev/null 2>&1; tail -5 {data}/log\n"
    );
    let log = database.psql(&start);
    let _standby = Standby {
        primary: &database,
        stop,
    };
    let mut standby = Config::new()
        .host_path(&folder)
        .port(5433)
        .user("postgres")
        .dbname(database.name())
        .connect(NoTls)
        .unwrap_or_else(|error| panic!("{error}\n{log}"));
    run(
        &mut client,
        "DELETE FROM kb.document WHERE source_key = 'k3'; SELECT graph_summarize('kb')",
    );
    let caught_up = format!(
        "SELECT (pg_last_wal_replay_lsn() >= '{}')::text",
        texts(&mut client, "SELECT pg_current_wal_insert_lsn()::text")[0]
    );
    while texts(&mut standby, &caught_up) != ["true"] {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(texts(&mut standby, "SELECT pg_is_in_recovery()::text"), ["true"]);
    assert_eq!(found(&mut standby, "kb", ""), found(&mut client, "kb", ""));
    only_reads(&mut standby);
}

#[test]
fn collections_side_by_side_do_not_touch_each_other() {
    let database = Database::new();
    let mut client = filled(&database, "postgres");
    let before = contents(&mut client, "kb");
    run(
        &mut client,
        "SELECT rag_create('Other', dimensions => 7, partition_by => '{n}', language => 'german')",
    );
    run(&mut client, "INSERT INTO \"Other\".document SELECT * FROM kb.document");
    assert!(!rebuilt(&mut client, "Other", "").is_empty());
    run(
        &mut client,
        "DELETE FROM \"Other\".document WHERE id < 5; TRUNCATE \"Other\".document; SELECT rag_drop('Other')",
    );
    assert_eq!(contents(&mut client, "kb"), before);
}

#[test]
fn vacuum_full_and_reindex_change_no_answer() {
    let (database, plain) = (Database::new(), Database::new());
    let (mut client, mut untouched) = (filled(&database, "postgres"), filled(&plain, "postgres"));
    let before = found(&mut client, "kb", "");
    run(
        &mut client,
        "UPDATE kb.node SET stale = true; UPDATE kb.node SET stale = false",
    );
    for sql in [
        "VACUUM FULL ANALYZE",
        "REINDEX SCHEMA kb",
        "CLUSTER kb.node USING node_text_hash",
    ] {
        run(&mut client, sql);
        assert_eq!(found(&mut client, "kb", ""), before, "{sql}");
    }
    assert_eq!(rebuilt(&mut client, "kb", ""), rebuilt(&mut untouched, "kb", ""));
}
