//! What happens to a collection after it is made: other settings, how far it is, what it keeps apart, and its end.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{add, failure, list, misplaced, one, refused, run};

/// Each step of rag_status as "step done/total", those with failures or a time marked.
fn status(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT step || ' ' || done || '/' || total || CASE WHEN failed > 0 THEN ' failed' ELSE '' END \
           || CASE WHEN pending <> total - done THEN ' unsound' ELSE '' END || CASE WHEN built_at IS NULL THEN '' \
           ELSE ' built' END \
         FROM rag_status('kb')",
    )
}

#[test]
fn status_says_how_far_each_step_is() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', settings => '{\"inline_rows\": 2}')",
    );
    assert_eq!(
        status(&mut client),
        [
            "chunk 0/0",
            "embed 0/0",
            "tree 0/0",
            "extract 0/0",
            "describe 0/0",
            "communities 0/0",
            "reports 0/0"
        ]
    );
    let first = add(&mut client, "kb", "Marie Curie discovered Polonium.");
    add(&mut client, "kb", "Niels Bohr visited Marie Curie.");
    assert_eq!(
        status(&mut client),
        [
            "chunk 2/2",
            "embed 2/2",
            "tree 0/2",
            "extract 0/2",
            "describe 0/0",
            "communities 0/0",
            "reports 0/0"
        ]
    );
    run(
        &mut client,
        "INSERT INTO kb.document (body) VALUES ('The sea is cold.'), ('Moss is green.'), ('!!!')",
    );
    assert_eq!(status(&mut client)[0], "chunk 2/5");
    run(&mut client, "SELECT raptor_build('kb')");
    // The fifth document is nothing but punctuation: its leaf has no vector, stands in no tree and is done.
    assert_eq!(
        status(&mut client),
        [
            "chunk 5/5 built",
            "embed 5/5",
            "tree 4/4 built",
            "extract 0/5",
            "describe 0/0",
            "communities 0/0",
            "reports 0/0"
        ]
    );
    run(&mut client, "SELECT graph_extract('kb')");
    assert_eq!(
        status(&mut client)[3..],
        ["extract 5/5 built", "describe 0/0", "communities 0/3", "reports 0/0"]
    );
    run(&mut client, "SELECT graph_communities('kb')");
    assert_eq!(status(&mut client)[5..], ["communities 3/3 built", "reports 0/1"]);
    run(&mut client, "SELECT graph_summarize('kb')");
    assert_eq!(status(&mut client)[5..], ["communities 3/3 built", "reports 1/1 built"]);
    let models: Vec<Option<String>> = list(&mut client, "SELECT model FROM rag_status('kb')");
    assert_eq!(
        models
            .iter()
            .map(|model| model.as_deref().unwrap_or("-"))
            .collect::<Vec<_>>(),
        [
            "-",
            "builtin:lsa",
            "builtin:frequency",
            "builtin:cooccurrence",
            "builtin:frequency",
            "leiden",
            "builtin:frequency"
        ]
    );
    // A document that goes leaves its report to be written anew, and its leaves no longer count.
    run(&mut client, &format!("DELETE FROM kb.document WHERE id = {first}"));
    let after = status(&mut client);
    assert_eq!(
        (after[0].as_str(), after[6].as_str()),
        ("chunk 4/4 built", "reports 0/1 built")
    );
    run(&mut client, "TRUNCATE kb.document");
    let empty: i64 = one(&mut client, "SELECT sum(total)::bigint FROM rag_status('kb')");
    assert_eq!(empty, 0);
}

#[test]
fn a_tree_of_one_leaf_is_done() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    add(&mut client, "kb", "The only one.");
    run(&mut client, "SELECT raptor_build('kb')");
    assert_eq!(status(&mut client)[2], "tree 1/1 built");
}

#[test]
fn another_size_of_leaves_cuts_every_document_anew() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', settings => '{\"leaf_tokens\": 100, \"leaf_overlap\": 0}')",
    );
    run(
        &mut client,
        "INSERT INTO kb.document (body) SELECT string_agg('Sentence ' || i || ' of ' || d || '.', ' ') \
         FROM generate_series(1, 3) d, generate_series(1, 60) i GROUP BY d; SELECT graph_extract('kb'); \
         SELECT raptor_build('kb')",
    );
    let before: Vec<i64> = list(&mut client, "SELECT id FROM kb.node WHERE level = 0 ORDER BY 1");
    run(
        &mut client,
        "SELECT rag_alter('kb', '{\"leaf_tokens\": 100, \"summary_tokens\": 50}')",
    );
    assert_eq!(status(&mut client)[0], "chunk 3/3", "the same cuts: nothing to do");

    let output = database.psql("SELECT rag_alter('kb', '{\"leaf_tokens\": 20}')");
    assert!(output.contains("NOTICE:  3 documents"), "{output}");
    assert_eq!(status(&mut client)[0], "chunk 0/3");
    let kept: Vec<i64> = list(&mut client, "SELECT id FROM kb.node WHERE level = 0 ORDER BY 1");
    assert_eq!(before, kept, "until a build function runs, search finds the old leaves");
    run(&mut client, "SELECT rag_alter('kb', '{\"leaf_tokens\": 21}')");
    let queued: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.change WHERE \"table\" = 'document'",
    );
    assert_eq!(queued, 3, "each document once");

    run(&mut client, "SELECT raptor_build('kb')");
    assert_eq!(
        status(&mut client)[..4],
        [
            "chunk 3/3 built",
            "embed 33/33",
            "tree 33/33 built",
            "extract 0/3 built"
        ]
        .map(|step| {
            // The number of leaves is what the cutter makes of it; that there are more and all are done is the point.
            let leaves: i64 = one(&mut client, "SELECT count(*) FROM kb.node WHERE level = 0");
            step.replace("33", &leaves.to_string())
        })
    );
    let (many, largest): (i64, i32) = {
        let row = client
            .query_one("SELECT count(*), max(token_count) FROM kb.node WHERE level = 0", &[])
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert!(many > before.len() as i64 && largest <= 21);
    assert_eq!(misplaced(&mut client, "kb"), 0);
    let old: i64 = one(
        &mut client,
        &format!("SELECT count(*) FROM kb.node WHERE id = ANY ('{{{}}}')", ids(&before)),
    );
    assert_eq!(old, 0);
    let mentions: i64 = one(&mut client, "SELECT count(*) FROM kb.mention");
    assert_eq!(mentions, 0, "what the old blocks said is said anew by the new ones");
    run(&mut client, "SELECT graph_extract('kb')");
    assert_eq!(status(&mut client)[3], "extract 3/3 built");
}

fn ids(list: &[i64]) -> String {
    list.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn fixed_and_unknown_settings_are_refused() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 8)");
    for (key, value) in [
        ("dimensions", "16"),
        ("partition_by", "[\"tenant\"]"),
        ("language", "\"german\""),
    ] {
        let error = failure(
            &mut client,
            &format!("SELECT rag_alter('kb', '{{\"{key}\": {value}}}')"),
        );
        assert_eq!(error.code().code(), "55000");
        assert_eq!(
            error.message(),
            format!("\"{key}\" of a collection is fixed when the collection is made")
        );
        assert!(error.hint().is_some());
    }
    refused(
        &mut client,
        r#"
        SELECT rag_alter('kb', '{"leaf": 16}') --> 22023 unknown setting "leaf"
        SELECT rag_alter('kb', '{"layout": 8}') --> 22023 unknown setting "layout"
        SELECT rag_alter('kb', '{"step.tree": {}}') --> 22023 unknown setting "step.tree"
        SELECT rag_alter('kb', '{"embedder": "nope"}') --> 22023 unknown embedder "nope"
        SELECT rag_alter('kb', '{"embedder": null}') --> 22004 setting "embedder" must not be null
        SELECT rag_alter('kb', '{"summarizer": 7}') --> 22023 setting "summarizer" must be a text
        SELECT rag_alter('kb', '{"extractor": "function:"}') --> 22023 unknown extractor "function:"
        SELECT rag_alter('kb', '{"answerer": "builtin:frequency"}') --> 22023 unknown answerer "builtin:frequency"
        SELECT rag_alter('kb', '{"reranker": "queue"}') --> 22023 a queue cannot be the reranker
        SELECT rag_alter('kb', '{"max_attempts": 0}')
            --> 22023 setting "max_attempts" must be a whole number between 1 and 1000
        SELECT rag_alter('kb', '{"report_tokens": 199}')
            --> 22023 setting "report_tokens" must be a whole number between 200 and 1000000
        SELECT rag_alter('kb', '{"answer_prompt": " "}') --> 22023 setting "answer_prompt" must be a text
        SELECT rag_alter('kb', '{"next_embedder": "builtin:lsa"}') --> 22023 unknown setting "next_embedder"
        SELECT rag_alter('kb', '7') --> 22023 settings must be a JSON object
        SELECT rag_alter('kb', '{"leaf_tokens": 100, "leaf_overlap": 90}')
            --> 22023 leaf_overlap is 90, but must be at most half of leaf_tokens (50)
        "#,
    );
    let hint = failure(&mut client, "SELECT rag_alter('kb', '{\"leaf\": 16}')");
    assert!(
        hint.hint()
            .is_some_and(|text| text.contains("leaf_tokens") && text.contains("embedder"))
    );
    let changed: i64 = one(&mut client, "SELECT count(*) FROM kb.setting WHERE key = 'leaf_tokens'");
    assert_eq!(changed, 0, "a refused change leaves no setting behind");
    run(&mut client, "SELECT rag_alter('kb', '{}')");
    run(
        &mut client,
        "SELECT rag_alter('kb', '{\"embedder\": \"builtin:lsa\", \"cluster_size\": 3}')",
    );
    let kept: String = one(
        &mut client,
        "SELECT string_agg(value::text, ' ' ORDER BY key) FROM kb.setting WHERE key IN ('cluster_size', 'dimensions')",
    );
    assert_eq!(kept, "3 8");
    // NULL takes the default again.
    run(
        &mut client,
        "SELECT rag_alter('kb', '{\"leaf_tokens\": null, \"answer_prompt\": null}')",
    );
    // Models that need not be are taken away by it.
    let roles = "SELECT count(*) FROM rag_health('kb') WHERE part IN ('answerer', 'reranker')";
    let set = |role: &str| format!("SELECT rag_alter('kb', '{{\"answerer\": {role}, \"reranker\": {role}}}')");
    run(&mut client, &set("\"function:own.model\""));
    assert_eq!(one::<i64>(&mut client, roles), 2);
    run(&mut client, &set("null"));
    assert_eq!(one::<i64>(&mut client, roles), 0);
}

#[test]
fn drop_takes_all_of_a_collection_and_nothing_else() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8); SELECT rag_add('kb', 'Anna Ahl met Bert Beck in Ulm.'); SELECT raptor_build('kb')",
    );
    for (make, shown, unmake) in [
        (
            "TABLE kb.\"My own\" (id serial)",
            "table \"My own\"",
            "TABLE kb.\"My own\"",
        ),
        ("VIEW kb.v AS SELECT 1 AS x", "view v", "VIEW kb.v"),
        (
            "MATERIALIZED VIEW kb.m AS SELECT 1 AS x",
            "materialized view m",
            "MATERIALIZED VIEW kb.m",
        ),
        ("SEQUENCE kb.s", "sequence s", "SEQUENCE kb.s"),
        (
            "FUNCTION kb.f(int) RETURNS int LANGUAGE sql RETURN 1",
            "function kb.f(integer)",
            "FUNCTION kb.f",
        ),
        ("TYPE kb.mood AS ENUM ('sad')", "type kb.mood", "TYPE kb.mood"),
        ("DOMAIN kb.positive AS int", "type kb.positive", "DOMAIN kb.positive"),
    ] {
        run(&mut client, &format!("CREATE {make}"));
        let error = failure(&mut client, "SELECT rag_drop('kb')");
        assert_eq!(
            (error.code().code(), error.message()),
            ("2BP01", "schema \"kb\" holds objects that are not the collection's"),
            "{make}"
        );
        assert!(
            error.detail().is_some_and(|detail| detail.contains(shown)),
            "{make}: {:?}",
            error.detail()
        );
        assert!(error.hint().is_some());
        assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.document"), 1);
        run(&mut client, &format!("DROP {unmake}"));
    }
    // Kinds that are rare in a schema, and something elsewhere that needs one of its tables: PostgreSQL refuses.
    for (make, unmake, detail) in [
        (
            "COLLATION kb.c (locale = 'C')",
            "DROP COLLATION kb.c",
            "collation kb.c depends on schema kb",
        ),
        (
            "TEXT SEARCH DICTIONARY kb.d (template = simple)",
            "DROP TEXT SEARCH DICTIONARY kb.d",
            "text search dictionary kb.d depends on schema kb",
        ),
        (
            "VIEW outside AS SELECT text FROM kb.node",
            "DROP VIEW outside",
            "view public.outside depends on table kb.node",
        ),
    ] {
        run(&mut client, &format!("CREATE {make}"));
        let error = failure(&mut client, "SELECT rag_drop('kb')");
        assert_eq!((error.code().code(), error.detail()), ("2BP01", Some(detail)));
        assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.document"), 1);
        run(&mut client, unmake);
    }
    // What belongs to its tables goes with them: indexes, policies, triggers, statistics.
    run(
        &mut client,
        "CREATE INDEX mine ON kb.document (title); CREATE STATISTICS kb.mine ON level, partition FROM kb.node; \
         ALTER TABLE kb.document ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON kb.document USING (true)",
    );
    run(
        &mut client,
        "CREATE TABLE neighbour (); SELECT rag_create('other', 8); SELECT rag_drop('kb')",
    );
    let left: Vec<String> = list(
        &mut client,
        "SELECT nspname::text FROM pg_namespace WHERE nspname IN ('kb', 'other') UNION ALL SELECT relname::text \
         FROM pg_class WHERE relname = 'neighbour'",
    );
    assert_eq!(left, ["other", "neighbour"]);
    refused(
        &mut client,
        r#"
        SELECT rag_drop('kb') --> 3F000 collection "kb" does not exist
        "#,
    );
    run(&mut client, "SELECT rag_create('kb', 8)");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.document"), 0);
}

#[test]
fn the_list_shows_what_one_may_read() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('b', 8, partition_by => '{tenant,year}'), rag_create('a', 16, language => 'german'); \
         CREATE SCHEMA c; \
         CREATE TABLE c.setting (key text, value jsonb)",
    );
    let rows: Vec<String> = list(
        &mut client,
        "SELECT concat_ws(' ', collection, owner, dimensions, embedder, summarizer, extractor, language, \
         partition_by) FROM rag_collections",
    );
    let models = "builtin:lsa builtin:frequency builtin:cooccurrence";
    assert_eq!(
        rows,
        [
            format!("a postgres 16 {models} german {{}}"),
            format!("b postgres 8 {models} english {{tenant,year}}")
        ]
    );
    let reader = database.role("reader");
    let mut other = database.client_as(&reader);
    assert!(list::<String>(&mut other, "SELECT collection FROM rag_collections").is_empty());
    run(
        &mut client,
        &format!("GRANT USAGE ON SCHEMA a TO {reader}; GRANT SELECT ON a.setting TO {reader}"),
    );
    assert_eq!(
        list::<String>(&mut other, "SELECT collection FROM rag_collections"),
        ["a"]
    );
}

#[test]
fn a_schema_that_is_renamed_is_the_same_collection() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 32)");
    let first = add(&mut client, "kb", "Anna Ahl met Bert Beck.");
    run(
        &mut client,
        "SELECT raptor_build('kb'); ALTER SCHEMA kb RENAME TO \"New name\"",
    );
    // A column of the user's own does not disturb the triggers either.
    run(
        &mut client,
        "ALTER TABLE \"New name\".document ADD COLUMN mine int DEFAULT 7",
    );
    add(&mut client, "New name", "Carl Cole left Bonn.");
    run(
        &mut client,
        &format!(
            "INSERT INTO \"New name\".document (body, mine) VALUES ('Dora Dahl saw Emil Ems.', 8); \
             UPDATE \"New name\".document SET body = 'Anna Ahl called Bert Beck.' WHERE id = {first}; \
             SELECT raptor_build('New name'); SELECT graph_extract('New name'); \
             SELECT graph_communities('New name'); SELECT graph_summarize('New name')"
        ),
    );
    assert_eq!(misplaced(&mut client, "\"New name\""), 0);
    let found: String = one(
        &mut client,
        "SELECT text FROM raptor_search('New name', 'Anna Ahl called', k => 1)",
    );
    assert_eq!(found, "Anna Ahl called Bert Beck.");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM graph_local('New name', 'Anna Ahl')"),
        1
    );
    refused(
        &mut client,
        "SELECT rag_status('kb') --> 3F000 collection \"kb\" does not exist",
    );
    run(&mut client, "SELECT rag_drop('New name')");
}
