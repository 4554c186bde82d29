//! Bad input: a clear error with the right SQLSTATE, or a right answer.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, refused, run};

/// Two documents, a tree, a graph with a report, a sentence that an entity stands in, and an answerer.
fn collection(database: &Database) -> Client {
    let mut client = database.client();
    run(
        &mut client,
        "CREATE FUNCTION answer(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT CASE \
           WHEN $1 ~ '\"(personas|tasks|questions)\"' THEN '[\"It.\"]' \
           WHEN $1 LIKE '%follow_up_queries%' THEN '{\"answer\": \"It is so [1].\", \"score\": 5}' \
           WHEN $1 LIKE '%<report %' THEN '{\"points\": []}' ELSE 'It is so [1].' END$$; \
         SELECT rag_create('kb', 8, answerer => 'function:public.answer'); \
         INSERT INTO kb.document (body) VALUES ('Anna Ahl met Bert Beck.'), ('Bert Beck met Carl Cole.'); \
         SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
         SELECT graph_summarize('kb'); CREATE TABLE person (id int PRIMARY KEY, name text); \
         SELECT graph_bind('kb', 'person', 'person', 'name'); CREATE TABLE golden (question text, relevant text[])",
    );
    client
}

/// A value that is right for an argument.
fn right(function: &str, argument: &str, kind: &str) -> &'static str {
    match (function, argument, kind) {
        ("rag_create", "collection", _) => "'fresh'",
        (_, "collection", _) => "'kb'",
        (_, "query" | "query_vector", "vector") => "'[1,0,0,0,0,0,0,0]'",
        ("graph_add", "document_id" | "quote" | "weight", _) => "NULL",
        ("rag_create", "answerer", _) => "NULL",
        (_, "dimensions" | "max_tokens" | "max_edges" | "cluster_size", _) => "8",
        (_, "embedder", _) => "'builtin:hash'",
        (_, "summarizer", _) => "'builtin:frequency'",
        (_, "extractor", _) => "'builtin:cooccurrence'",
        (_, "partition_by", _) => "'{}'",
        (_, "language", _) => "'english'",
        (_, "settings" | "metadata" | "filter" | "properties", _) => "'{}'",
        ("graph_import", "format", _) => "'auto'",
        ("graph_import", "payload", _) => "'[]'",
        ("graph_import", "block_id", _) => "1",
        ("graph_bind" | "graph_unbind", "type", _) => "'person'",
        ("graph_bind", "source", _) => "'public.person'",
        ("graph_bind", "name", _) => "'name'",
        ("graph_bind", "key", _) => "NULL",
        ("graph_bind", "aliases", _) => "'{}'",
        ("graph_bind", "edges", _) => "true",
        (_, "keep" | "alias", _) => "'Anna Ahl'",
        (_, "aliases", _) => "'{Anna Ahl}'::text[]",
        (_, "threshold", _) => "0.9",
        (_, "max_size", _) => "10",
        (_, "again" | "ask" | "dynamic" | "events" | "left_out", _) => "false",
        (_, "max_hops", _) => "1",
        (_, "format", _) => "'markdown'",
        (_, "block_tokens" | "leaf_tokens", _) => "100",
        ("rag_chunk", "overlap", _) | (_, "level", _) => "0",
        ("rag_ask", "mode", _) => "'drift'",
        ("graph_search", "mode", _) => "'mix'",
        ("rag_judge", "first", _) => "'{\"mode\": \"global\"}'",
        ("rag_judge", "second", _) => "'{}'",
        ("rag_judge", "questions", _) => "'{word}'",
        (_, "criteria", _) => "'{directness}'",
        (_, "personas" | "tasks" | "questions" | "repeats", _) => "1",
        (_, "mode", _) => "'collapsed'",
        (_, "documents", _) => "'{1}'",
        ("rag_evaluate" | "rag_evaluate_detail" | "rag_evaluate_answers", "golden", _) => "'public.golden'",
        (_, "modes", _) => "'{plain,local}'",
        ("rag_evaluate" | "rag_evaluate_detail", "methods", _) => "'{dense,lexical+graph}'",
        (_, "methods", _) => "'{dense,lexical,tree}'",
        (_, "weights", _) => "NULL",
        (_, "fusion", _) => "'rrf'",
        (_, "expand", _) => "'leaf'",
        (_, "graph_share", _) => "0.2",
        (_, "candidates", _) => "8",
        (_, "rewrite", _) => "'{}'",
        (_, "rerank", _) => "NULL",
        (_, "method", _) => "'greedy'",
        (_, "algorithm", _) => "'components'",
        ("raptor_search", "overlap", _) => "'keep'",
        (_, "node_id" | "depth" | "width" | "max_level", _) => "1",
        (_, "min_level" | "seed", _) => "0",
        (_, "direction", _) => "'down'",
        (_, "k" | "hops" | "max_levels" | "resolution" | "max_calls", _) => "1",
        (_, "steps", _) => "'{embed,tree}'",
        (
            _,
            "query" | "question" | "input" | "body" | "title" | "source_key" | "entity" | "subject" | "predicate"
            | "object" | "description" | "word",
            _,
        ) => "'word'",
        _ => panic!("the test does not know {argument} of {function}"),
    }
}

/// Arguments for which NULL says something.
fn may_be_null(function: &str, argument: &str) -> bool {
    matches!(
        (function, argument),
        ("rag_create", "answerer")
            | ("rag_add", "title" | "source_key")
            | ("raptor_build", "max_levels" | "cluster_size")
            | (
                "raptor_search",
                "max_tokens" | "documents" | "depth" | "min_level" | "max_level"
            )
            | (
                "rag_search" | "rag_explain",
                "methods"
                    | "documents"
                    | "weights"
                    | "max_tokens"
                    | "candidates"
                    | "rerank"
                    | "query_vector"
                    | "repeats"
            )
            | (
                "rag_evaluate" | "rag_evaluate_detail" | "rag_evaluate_answers",
                "documents"
            )
            | ("raptor_tree", "node_id" | "depth")
            | ("graph_add", "description" | "document_id" | "quote" | "weight")
            | ("graph_import", "block_id")
            | ("graph_bind", "key")
            | ("graph_summarize", "level")
            | ("graph_global", "k" | "level" | "documents")
            | ("graph_local", "documents")
            | ("rag_context", "methods" | "documents" | "rerank")
            | ("graph_search", "documents" | "max_tokens")
            | ("rag_ask", "documents" | "level" | "k" | "max_hops")
            | ("rag_judge" | "rag_questions", "documents")
            | ("rag_refresh", "max_calls" | "steps")
    )
}

/// The one that commits, and so is called outside of a transaction.
const PROCEDURE: &str = "rag_refresh";

/// Each public function with its arguments and their types.
fn functions(client: &mut Client) -> Vec<(String, Vec<(String, String)>)> {
    let rows = client
        .query(
            "SELECT p.proname::text, p.proargnames[1:p.pronargs], \
                    ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a (t, n) \
                    ORDER BY n) \
             FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
             AND d.deptype = 'e' \
             JOIN pg_extension e ON e.oid = d.refobjid \
             WHERE e.extname = 'pg_graphrag' AND p.proname NOT LIKE '\\_%' ORDER BY 1",
            &[],
        )
        .unwrap();
    rows.iter()
        .map(|row| {
            (
                row.get(0),
                row.get::<_, Vec<String>>(1)
                    .into_iter()
                    .zip(row.get::<_, Vec<String>>(2))
                    .collect(),
            )
        })
        .collect()
}

/// A call with right values but one.
fn call(function: &str, arguments: &[(String, String)], other: &str, value: &str) -> String {
    let list: Vec<String> = arguments
        .iter()
        .map(|(name, kind)| {
            format!(
                "{}{name} => {}::{kind}",
                if function == "graph_merge" && name == "aliases" {
                    "VARIADIC "
                } else {
                    ""
                },
                if name == other {
                    value
                } else {
                    right(function, name, kind)
                }
            )
        })
        .collect();
    let statement = if function == PROCEDURE { "CALL" } else { "SELECT * FROM" };
    format!("{statement} {function}({})", list.join(", "))
}

#[test]
fn null_is_refused_by_name_wherever_it_says_nothing() {
    let database = Database::new();
    let mut client = collection(&database);
    let functions = functions(&mut client);
    assert!(functions.len() >= 16);
    for (function, arguments) in functions {
        for (argument, _) in &arguments {
            let sql = call(&function, &arguments, argument, "NULL");
            let in_transaction = function != PROCEDURE;
            if in_transaction {
                run(&mut client, "BEGIN");
            }
            if may_be_null(&function, argument) {
                run(&mut client, &sql);
            } else {
                refused(&mut client, &format!("{sql} --> 22004 {argument} must not be null"));
            }
            if in_transaction {
                run(&mut client, "ROLLBACK");
            }
        }
    }
}

#[test]
fn a_collection_that_is_not_there_is_named() {
    let database = Database::new();
    let mut client = collection(&database);
    run(
        &mut client,
        "CREATE SCHEMA bare; CREATE TABLE bare.document (id bigint)",
    );
    for (function, arguments) in functions(&mut client) {
        if function == "rag_create" || function == "rag_chunk" {
            continue;
        }
        for name in [
            "nope",
            "KB",
            "",
            "bare",
            "pg_catalog",
            "kb.document",
            "say \"hi\"",
            "O'Brien",
            "ünbekannt",
        ] {
            let sql = call(
                &function,
                &arguments,
                "collection",
                &format!("'{}'", name.replace('\'', "''")),
            );
            refused(
                &mut client,
                &format!("{sql} --> 3F000 collection \"{name}\" does not exist"),
            );
            let hint = failure(&mut client, &sql).hint().unwrap_or_default().to_owned();
            assert!(hint.contains("rag_collections"), "{sql}: {hint}");
        }
    }
}

#[test]
fn every_argument_says_what_it_takes() {
    let database = Database::new();
    let mut client = collection(&database);
    let long = "y".repeat(2001);
    refused(
        &mut client,
        &format!("SELECT graph_add('kb', 'x', 'p', '{long}') --> 22001 object is too long"),
    );
    refused(
        &mut client,
        r#"
        SELECT raptor_build('kb', 'umap') --> 22023 unknown method "umap"
        SELECT raptor_build('kb', '') --> 22023 unknown method ""
        SELECT raptor_build('kb', max_levels => 0) --> 22023 max_levels must be between 1 and 64
        SELECT raptor_build('kb', max_levels => -2147483648) --> 22023 max_levels must be between 1 and 64
        SELECT raptor_build('kb', max_levels => 2147483647) --> 22023 max_levels must be between 1 and 64
        SELECT raptor_build('kb', cluster_size => 1) --> 22023 cluster_size must be between 2 and 1000
        SELECT raptor_build('kb', cluster_size => 1001) --> 22023 cluster_size must be between 2 and 1000
        SELECT raptor_search('kb', 'x', k => -1) --> 22023 k must be between 0 and 2147483647
        SELECT raptor_search('kb', 'x', mode => 'Leaf') --> 22023 unknown mode "Leaf"
        SELECT raptor_search('kb', 'x', max_tokens => 0) --> 22023 max_tokens must be between 1 and 2147483647
        SELECT raptor_search('kb', 'x', max_tokens => -5) --> 22023 max_tokens must be between 1 and 2147483647
        SELECT raptor_search('kb', 'x', width => 0) --> 22023 width must be between 1 and 10000
        SELECT raptor_search('kb', 'x', width => 10001) --> 22023 width must be between 1 and 10000
        SELECT raptor_search('kb', 'x', depth => 0) --> 22023 depth must be between 1 and 1000
        SELECT raptor_search('kb', 'x', depth => -1) --> 22023 depth must be between 1 and 1000
        SELECT raptor_search('kb', 'x', min_level => -1) --> 22023 min_level must be between 0 and 1000
        SELECT raptor_search('kb', 'x', max_level => 1001) --> 22023 max_level must be between 0 and 1000
        SELECT raptor_search('kb', 'x', min_level => 2, max_level => 1) --> 22023 min_level must not be above max_level
        SELECT raptor_search('kb', 'x', mode => 'leaf', min_level => 1) --> 22023 mode "leaf" has no level but 0
        SELECT raptor_search('kb', 'x', overlap => '') --> 22023 unknown overlap ""
        SELECT raptor_search('kb', 'x', overlap => 'Skip') --> 22023 unknown overlap "Skip"
        SELECT raptor_tree('kb', direction => 'left') --> 22023 unknown direction "left"
        SELECT raptor_tree('kb', direction => 'up') --> 22023 direction "up" needs a node_id
        SELECT raptor_tree('kb', depth => 0) --> 22023 depth must be between 1 and 1000
        SELECT raptor_tree('kb', depth => -2147483648) --> 22023 depth must be between 1 and 1000
        SELECT raptor_tree('kb', 0) --> P0002 node 0 does not exist in collection "kb"
        SELECT raptor_tree('kb', -9223372036854775808) --> P0002 node -9223372036854775808 does not exist in collection "kb"
        SELECT raptor_search('kb', 'x', filter => '[]') --> 22023 filter must be a JSON object
        SELECT raptor_search('kb', 'x', filter => 'null') --> 22023 filter must be a JSON object
        SELECT raptor_search('kb', 'x', filter => '"{}"') --> 22023 filter must be a JSON object
        SELECT raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, filter => '7') --> 22023 filter must be a JSON object
        SELECT graph_global('kb', 'x', filter => '[{}]') --> 22023 filter must be a JSON object
        SELECT graph_local('kb', 'x', filter => 'true') --> 22023 filter must be a JSON object
        SELECT graph_global('kb', 'x', k => -1) --> 22023 k must be between 0 and 2147483647
        SELECT graph_global('kb', 'x', level => -1) --> 22023 level must be between 0 and 1000
        SELECT graph_summarize('kb', -1) --> 22023 level must be between 0 and 1000
        SELECT graph_summarize('kb', 2147483647) --> 22023 level must be between 0 and 1000
        SELECT graph_local('kb', 'x', hops => 0) --> 22023 hops must be between 1 and 20
        SELECT graph_local('kb', 'x', hops => 2147483647) --> 22023 hops must be between 1 and 20
        SELECT graph_local('kb', 'x', max_edges => -1) --> 22023 max_edges must be between 0 and 1000000
        SELECT graph_local('kb', 'x', max_edges => 1000001) --> 22023 max_edges must be between 0 and 1000000
        SELECT graph_communities('kb', 'louvain') --> 22023 unknown algorithm "louvain"
        SELECT graph_communities('kb', resolution => 'NaN') --> 22023 resolution must be between 0 and 1000000
        SELECT graph_communities('kb', resolution => 'infinity') --> 22023 resolution must be between 0 and 1000000
        SELECT graph_communities('kb', resolution => -1e-300) --> 22023 resolution must be between 0 and 1000000
        SELECT graph_add('kb', '', 'p', 'o') --> 22023 subject must not be empty
        SELECT graph_add('kb', 's', E' \t"', 'o') --> 22023 predicate must not be empty
        SELECT graph_add('kb', 's', 'p', '''') --> 22023 object must not be empty
        SELECT graph_add('kb', 's', 'p', 'o', weight => 'NaN') --> 22023 weight must be a positive finite number
        SELECT graph_add('kb', 's', 'p', 'o', weight => 'infinity') --> 22023 weight must be a positive finite number
        SELECT graph_add('kb', 's', 'p', 'o', weight => '-infinity') --> 22023 weight must be a positive finite number
        SELECT graph_add('kb', 's', 'p', 'o', weight => 0) --> 22023 weight must be a positive finite number
        SELECT graph_add('kb', 's', 'p', 'o', weight => -1) --> 22023 weight must be a positive finite number
        SELECT graph_add('kb', 's', 'p', 'o', document_id => 1, weight => 2)
            --> 22023 weight cannot be given for a relation read in a document
        SELECT graph_add('kb', 's', 'p', 'o', quote => 'q') --> 22023 a quote needs the document_id that it stands in
        SELECT graph_add('kb', 's', 'p', 'o', document_id => 99) --> P0002 document 99 does not exist in collection "kb"
        SELECT graph_add('kb', 's', 'p', 'o', document_id => -1) --> P0002 document -1 does not exist in collection "kb"
        SELECT graph_add('kb', 's', 'p', 'o', document_id => 1, quote => 'nowhere')
            --> 22023 the quote does not stand in document 1
        SELECT graph_add('kb', 's', 'p', 'o', properties => '[]') --> 22023 properties must be a JSON object
        CALL rag_refresh('kb', max_calls => 0) --> 22023 max_calls must be at least 1
        CALL rag_refresh('kb', max_calls => -1) --> 22023 max_calls must be at least 1
        CALL rag_refresh('kb', steps => '{embed,summarize}') --> 22023 unknown step "summarize"
        CALL rag_refresh('kb', steps => '{Tree}') --> 22023 unknown step "Tree"
        CALL rag_refresh('kb', steps => '{tree,NULL}') --> 22004 a step must not be null
        SELECT rag_ask('kb', 'x', filter => '[]') --> 22023 filter must be a JSON object
        SELECT rag_judge('kb', '{x}', filter => '[]') --> 22023 filter must be a JSON object
        SELECT rag_judge('kb', '{}') --> 22023 questions must not be empty
        SELECT rag_judge('kb', '{x,NULL}') --> 22004 a question must not be null
        SELECT rag_judge('kb', '{x}', criteria => '{}') --> 22023 criteria must not be empty
        SELECT rag_judge('kb', '{x}', repeats => 0) --> 22023 repeats must be between 1 and 100
        SELECT rag_evaluate_answers('kb', 'golden', filter => '[]') --> 22023 filter must be a JSON object
        SELECT rag_evaluate_answers('kb', 'golden', '{}') --> 22023 modes must not be empty
        SELECT rag_evaluate_answers('kb', 'golden', '{plain,NULL}') --> 22004 a mode must not be null
        SELECT rag_evaluate_answers('kb', 'golden', '{plain,plain}') --> 22023 mode "plain" is given twice
        SELECT rag_evaluate_answers('kb', 'golden', '{Plain}') --> 22023 unknown mode "Plain"
        SELECT rag_questions('kb', personas => 0) --> 22023 personas must be between 1 and 100
        SELECT rag_questions('kb', tasks => 101) --> 22023 tasks must be between 1 and 100
        SELECT rag_questions('kb', questions => -1) --> 22023 questions must be between 1 and 100
        SELECT rag_add('kb', 'x', metadata => '[1]') --> 22023 metadata must be a JSON object
        SELECT rag_add('kb', 'x', format => 'pdf') --> 22023 unknown format "pdf"
        SELECT rag_add('kb', 'x', format => 'HTML') --> 22023 unknown format "HTML"
        SELECT rag_add('kb', 'x', source_key => repeat('k', 2001))
            --> 23514 new row for relation "document" violates check constraint "document_source_key_check"
        SELECT rag_chunk('x', 'pdf') --> 22023 unknown format "pdf"
        SELECT rag_chunk('x', 'csv') --> 22023 rag_chunk cuts 'text' and 'markdown'
        SELECT rag_chunk('x', leaf_tokens => 7) --> 22023 leaf_tokens is 7, but must be at least 8
        SELECT rag_chunk('x', leaf_tokens => -7) --> 22023 leaf_tokens must be between 0 and 2147483647
        SELECT rag_chunk('x', block_tokens => 100) --> 22023 block_tokens is 100, but must be at least leaf_tokens (200)
        SELECT rag_chunk('x', block_tokens => 2147483647)
            --> 22023 block_tokens is 2147483647, but must be at most 100000
        SELECT rag_chunk('x', overlap => 101) --> 22023 overlap is 101, but must be at most half of leaf_tokens (100)
        SELECT rag_chunk('x', overlap => -1) --> 22023 overlap must be between 0 and 2147483647
        SELECT raptor_search('kb', '[NaN,0,0,0,0,0,0,0]'::vector) --> 22000 NaN not allowed in vector
        SELECT raptor_search('kb', '[-Infinity,0,0,0,0,0,0,0]'::vector) --> 22000 infinite value not allowed in vector
        SELECT raptor_search('kb', '[1,0]'::vector) --> 22023 the query vector has 2 dimensions, the collection 8
        SELECT raptor_search('kb', array_fill(1, ARRAY[16000])::vector)
            --> 22023 the query vector has 16000 dimensions, the collection 8
        SELECT raptor_search('kb', 'x', nope => 1)
            --> 42883 function raptor_search(unknown, unknown, nope => integer) does not exist
        SELECT rag_add('kb', 'x', metadata => '{"a": 1') --> 22P02 invalid input syntax for type json
        SELECT rag_add('kb', 'x', metadata => '{"a": "\u0000"}') --> 22P05 unsupported Unicode escape sequence
        "#,
    );
    // Every value that can be wrong has a detail or a hint that shows the right ones.
    for (sql, words) in [
        ("SELECT raptor_build('kb', 'umap')", "'greedy'"),
        (
            "SELECT raptor_search('kb', 'x', mode => 'tree')",
            "'collapsed', 'traversal' and 'leaf'",
        ),
        (
            "SELECT raptor_search('kb', 'x', overlap => 'no')",
            "'skip', 'extend' or 'keep'",
        ),
        (
            "SELECT raptor_search('kb', 'x', mode => 'leaf', min_level => 1)",
            "'collapsed'",
        ),
        ("SELECT raptor_tree('kb', direction => 'both')", "'down' and 'up'"),
        ("SELECT raptor_tree('kb', direction => 'up')", "Give the node"),
        ("SELECT raptor_tree('kb', 999)", "raptor_search"),
        ("SELECT graph_communities('kb', 'louvain')", "'components'"),
        (
            "SELECT rag_add('kb', 'x', format => 'pdf')",
            "'text', 'markdown', 'html', 'csv' and 'json'",
        ),
        ("SELECT rag_chunk('x', 'csv')", "rag_add"),
        (
            "CALL rag_refresh('kb', steps => '{summarize}')",
            "'embed', 'tree', 'extract', 'describe', 'communities', 'reports'",
        ),
        ("SELECT raptor_search('kb', '[1,0]'::vector)", "rag_embed"),
        ("SELECT raptor_search('kb', 'x', filter => '[]')", "{\"lang\": \"en\"}"),
        ("SELECT rag_add('kb', 'x', metadata => '[1]')", "{\"lang\": \"en\"}"),
    ] {
        let error = failure(&mut client, sql);
        assert!(
            error.hint().is_some_and(|hint| hint.contains(words)),
            "{sql}: {:?}",
            error.hint()
        );
    }
    assert_eq!(
        failure(&mut client, "SELECT raptor_search('kb', 'x', k => -1)").detail(),
        Some("It is -1.")
    );
    // And nothing of all that is left behind.
    let state: Vec<i64> = list(
        &mut client,
        "SELECT count(*) FROM kb.document UNION ALL SELECT count(*) FROM kb.entity UNION ALL SELECT count(*) \
         FROM kb.relation \
         UNION ALL SELECT count(*) FROM kb.change",
    );
    assert_eq!(state, [2, 3, 2, 0]);
}

#[test]
fn parameters_of_the_server_are_known_by_name() {
    let database = Database::new();
    let mut client = collection(&database);
    // Its wording differs between versions of PostgreSQL.
    let little = failure(&mut client, "SET graphrag.build_memory = '1kB'");
    assert_eq!(little.code().code(), "22023");
    refused(
        &mut client,
        r#"
        SET graphrag.nonsense = 1 --> 42602 invalid configuration parameter name "graphrag.nonsense"
        SET graphrag.build_memory = 'much' --> 22023 invalid value for parameter "graphrag.build_memory": "much"
        "#,
    );
    assert_eq!(
        one::<String>(&mut client, "SELECT current_setting('graphrag.build_memory')"),
        "1GB"
    );
    // In a session that has not loaded the library yet, the name is taken away when it does.
    let mut fresh = database.client();
    run(&mut fresh, "SET graphrag.nonsense = 1; SELECT rag_chunk('x')");
    refused(
        &mut fresh,
        r#"
        SHOW graphrag.nonsense --> 42704 unrecognized configuration parameter "graphrag.nonsense"
        "#,
    );
}
