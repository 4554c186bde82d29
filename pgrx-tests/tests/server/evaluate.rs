//! rag_evaluate: measures against values computed by hand.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, refused, run};

/// Six documents that each hold "ferry", the shorter the better by BM25; `long` has two leaves of the six.
const CORPUS: &str = r#"
    SELECT rag_create('kb', embedder => 'builtin:hash', settings => '{"leaf_tokens": 16, "leaf_overlap": 0, "block_tokens": 50}');
    INSERT INTO kb.document (source_key, body, metadata) VALUES
      ('one',   'ferry', '{"n": 1}'),
      ('two',   'ferry lamp', '{"n": 1}'),
      ('long',  E'# A\n\nferry lamp oar nine seven plus four more words so long a leaf\n\n# B\n\nferry lamp oar nine seven plus four other words so long a leaf', '{"n": 2}'),
      ('three', 'ferry lamp oar', '{"n": 2}'),
      ('four',  'ferry lamp oar rope', '{"n": 2}'),
      ('owl',   'an owl sings', '{"n": 2}');"#;

fn corpus(database: &Database) -> Client {
    let mut client = database.client();
    run(&mut client, CORPUS);
    client
}

/// recall, hit, all_found, precision, mrr, ndcg
fn measures(client: &mut Client, golden: &str, arguments: &str) -> Vec<f64> {
    let sql = format!(
        "SELECT ARRAY[recall, hit, all_found, \"precision\", mrr, ndcg] \
         FROM rag_evaluate('kb', '{golden}', methods => '{{lexical}}', {arguments})"
    );
    one(client, &sql)
}

fn near(found: &[f64], expected: &[f64]) {
    let same = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(same && found.len() == expected.len(), "{found:?} for {expected:?}");
}

#[test]
fn measures_are_those_computed_by_hand() {
    let database = Database::new();
    let mut client = corpus(&database);
    let order: Vec<String> = list(
        &mut client,
        "SELECT DISTINCT ON (r.n) d.source_key FROM rag_search('kb', 'ferry', methods => '{lexical}') WITH ORDINALITY AS r \
           (node_id, level, score, a, b, c, d, text, tokens, path, metadata, ids, documents, block, s, e, matched, reranked, n) \
         JOIN kb.document d ON d.id = r.ids[1] ORDER BY r.n",
    );
    assert_eq!(order, ["one", "two", "three", "four", "long", "long"]);
    run(
        &mut client,
        "CREATE TABLE golden (question text, relevant text[], grades int[]); \
         INSERT INTO golden VALUES ('ferry', '{two,four,owl}', NULL), ('ferry', '{one}', NULL)",
    );
    let log = |n: f64| n.log2();
    // The first: two at 2, four beyond. The second: one at 1.
    let ndcg = (1.0 / log(3.0)) / (1.0 + 1.0 / log(3.0) + 0.5);
    near(
        &measures(&mut client, "golden", "k => 3"),
        &[(1.0 / 3.0 + 1.0) / 2.0, 1.0, 0.5, 1.0 / 3.0, 0.75, (ndcg + 1.0) / 2.0],
    );
    // Graded: 3 at place 4, 1 at place 1, 0 is none.
    run(
        &mut client,
        "TRUNCATE golden; INSERT INTO golden VALUES ('ferry', '{four,one,two}', '{3,1,0}')",
    );
    let ideal = 7.0 + 1.0 / log(3.0);
    near(
        &measures(&mut client, "golden", "k => 4"),
        &[1.0, 1.0, 1.0, 0.5, 1.0, (1.0 + 7.0 / log(5.0)) / ideal],
    );
    // Nothing is found, though there is something to find.
    run(
        &mut client,
        "TRUNCATE golden; INSERT INTO golden VALUES ('owl', '{one}', '{NULL}')",
    );
    near(&measures(&mut client, "golden", "k => 4"), &[0.0; 6]);
}

#[test]
fn leaves_of_one_document_are_one() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'many', string_agg(format(E'# S%s\n\nvalve valve valve number %s stands in the hall %s', i, i, i), E'\n\n') \
           FROM generate_series(1, 30) i; \
         INSERT INTO kb.document (source_key, body) VALUES ('other', 'a valve that stands alone in this text'); \
         CREATE TABLE golden AS SELECT 'valve' AS question, '{many,other}'::text[] AS relevant",
    );
    // The thirty leaves of the first are all before the second.
    let leaves: Vec<i64> = list(
        &mut client,
        "SELECT DISTINCT document_ids[1] FROM rag_search('kb', 'valve', 5, methods => '{lexical}')",
    );
    assert_eq!(leaves.len(), 1);
    near(&measures(&mut client, "golden", "k => 2"), &[1.0; 6]);
    let sql = "SELECT found FROM rag_evaluate_detail('kb', 'golden', 2, '{lexical}')";
    assert_eq!(one::<Vec<String>>(&mut client, sql), ["many", "other"]);
    // A summary of several documents is none of them.
    run(&mut client, "SELECT raptor_build('kb', 'greedy')");
    let sql = "SELECT cardinality(found) FROM rag_evaluate_detail('kb', 'golden', 1, '{tree}')";
    assert!(one::<i32>(&mut client, sql) <= 1);
}

/// Runs a statement and answers the notices of it.
fn told(database: &Database, sql: &str) -> String {
    database
        .psql(sql)
        .lines()
        .filter(|line| line.contains("NOTICE") || line.contains("DETAIL"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn what_cannot_be_measured_is_left_out_and_told() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "CREATE TABLE golden (question text, relevant text[]); INSERT INTO golden VALUES \
           ('ferry', '{one,nowhere,NULL,one}'), ('ferry', NULL), ('ferry', '{}'), (NULL, '{one}'), ('ferry', '{gone}')",
    );
    let sql = "SELECT questions FROM rag_evaluate('kb', 'golden', methods => '{lexical}')";
    assert_eq!(one::<i64>(&mut client, sql), 1);
    near(&measures(&mut client, "golden", "k => 1"), &[1.0; 6]);
    let told = told(&database, sql);
    for words in [
        "4 of 5 questions are left out, since no relevant document is known",
        "3 ask nothing or name none, 1 name keys that are of no document in scope.",
        "keys that are of no document in scope count for nothing: 2",
        "They are \"gone\", \"nowhere\".",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // Nothing to measure is no error.
    run(&mut client, "TRUNCATE golden");
    let row = client
        .query_one("SELECT questions, recall, difference, milliseconds FROM rag_evaluate('kb', 'golden', methods => '{lexical}')", &[])
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    for column in 1..4 {
        assert_eq!(row.get::<_, Option<f64>>(column), None);
    }
    let sql = "SELECT count(*) FROM rag_evaluate_detail('kb', 'golden')";
    assert_eq!(one::<i64>(&mut client, sql), 0);
}

#[test]
fn a_row_for_each_question_and_method() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "CREATE TABLE golden AS SELECT * FROM (VALUES ('sings', '{owl,one}'::text[]), ('ferry', '{owl,two}')) g (question, relevant)",
    );
    let rows = client
        .query("SELECT question, method, recall, found, missed FROM rag_evaluate_detail('kb', 'golden', 2, '{lexical,fused}')", &[])
        .unwrap();
    let rows: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let of = |question: &str, method: &str| (question.to_owned(), method.to_owned());
    assert_eq!(
        rows,
        [
            of("ferry", "lexical"),
            of("ferry", "fused"),
            of("sings", "lexical"),
            of("sings", "fused")
        ]
    );
    let row = client
        .query_one(
            "SELECT recall, found, missed FROM rag_evaluate_detail('kb', 'golden', 2, '{lexical}') WHERE question = 'ferry'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, f64>(0), 0.5);
    assert_eq!(row.get::<_, Vec<String>>(1), ["one", "two"]);
    assert_eq!(row.get::<_, Vec<String>>(2), ["owl"]);
    let same = "SELECT bool_and(d.recall = e.recall AND d.ndcg = e.ndcg) FROM rag_evaluate('kb', 'golden', 2, '{lexical,fused,mix}') e \
                JOIN (SELECT method, avg(recall) AS recall, avg(ndcg) AS ndcg FROM rag_evaluate_detail('kb', 'golden', 2, '{lexical,fused,mix}') \
                      GROUP BY 1) d USING (method)";
    assert!(one::<bool>(&mut client, same));
}

#[test]
fn views_and_quoted_names_are_read() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "CREATE SCHEMA \"my \"\"set\"; CREATE TABLE \"my \"\"set\".\"Golden; x\" (id int, question varchar(80), relevant varchar[], grades bigint[]); \
         INSERT INTO \"my \"\"set\".\"Golden; x\" VALUES (1, 'ferry', '{two}', '{2}'); \
         CREATE FUNCTION label(text) RETURNS text LANGUAGE sql AS $$SELECT $1$$; \
         CREATE FUNCTION relabel(text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RETURN label($1); END$$; \
         CREATE VIEW golden AS SELECT relabel(question) AS question, relevant FROM \"my \"\"set\".\"Golden; x\"; \
         CREATE TEMP TABLE mine AS TABLE golden",
    );
    for golden in ["\"my \"\"set\".\"Golden; x\"", "golden", "mine"] {
        near(
            &measures(&mut client, golden, "k => 2"),
            &[1.0, 1.0, 1.0, 0.5, 0.5, 1.0 / 3f64.log2()],
        );
    }
}

#[test]
fn a_golden_table_is_read_with_the_rights_of_the_caller() {
    let database = Database::new();
    let mut client = corpus(&database);
    let reader = database.role("reader");
    run(
        &mut client,
        &format!(
            "CREATE TABLE golden AS SELECT 'ferry' AS question, '{{one,two}}'::text[] AS relevant; \
             GRANT USAGE ON SCHEMA kb TO {reader}; GRANT SELECT ON ALL TABLES IN SCHEMA kb TO {reader}"
        ),
    );
    let mut reading = database.client_as(&reader);
    for function in ["rag_evaluate", "rag_evaluate_detail"] {
        let sql = format!("SELECT {function}('kb', 'golden')");
        refused(
            &mut reading,
            &format!("{sql} --> 42501 permission denied for table golden"),
        );
    }
    // Policies hold, too.
    run(
        &mut client,
        &format!(
            "INSERT INTO golden VALUES ('owl', '{{owl}}'); GRANT SELECT ON golden TO {reader}; \
             ALTER TABLE golden ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON golden USING (question = 'owl')"
        ),
    );
    let sql = "SELECT questions FROM rag_evaluate('kb', 'golden')";
    assert_eq!(list::<i64>(&mut reading, sql), [1; 5]);
    assert_eq!(list::<i64>(&mut client, sql), [2; 5]);
    // Whoever may read the golden table, but not the collection, learns nothing.
    run(&mut client, &format!("REVOKE USAGE ON SCHEMA kb FROM {reader}"));
    assert_eq!(failure(&mut reading, sql).code().code(), "42501");
}

#[test]
fn the_difference_is_paired_and_its_interval_repeats() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) SELECT 'k' || i, 'number ' || i FROM generate_series(1, 30) i; \
         CREATE TABLE golden AS SELECT 'number ' || i AS question, ARRAY['k' || i] || CASE WHEN i % 3 = 0 THEN '{owl}'::text[] ELSE '{}' END AS relevant \
           FROM generate_series(1, 30) i",
    );
    let sql = |seed: i64| {
        format!(
            "SELECT concat_ws(' ', method, recall, difference, difference_low, difference_high) \
             FROM rag_evaluate('kb', 'golden', 3, '{{lexical,dense,fused}}', seed => {seed})"
        )
    };
    let first: Vec<String> = list(&mut client, &sql(1));
    assert_eq!(first, list::<String>(&mut client, &sql(1)));
    // In another order of rows, too.
    run(
        &mut client,
        "CREATE TABLE other AS SELECT * FROM golden ORDER BY md5(question); DROP TABLE golden; ALTER TABLE other RENAME TO golden",
    );
    assert_eq!(first, list::<String>(&mut client, &sql(1)));
    let checked = "SELECT bool_and(difference_low <= difference AND difference <= difference_high \
                     AND abs(difference - (recall - (SELECT recall FROM rag_evaluate('kb', 'golden', 3, '{lexical}')))) < 1e-9), \
                   count(difference) FROM rag_evaluate('kb', 'golden', 3, '{lexical,dense,fused}')";
    let row = client.query_one(checked, &[]).unwrap();
    assert_eq!(
        (row.get::<_, bool>(0), row.get::<_, i64>(1)),
        (true, 2),
        "the first is compared with nothing"
    );
    // A method is no better than itself.
    let same = "SELECT ARRAY[difference, difference_low, difference_high] FROM rag_evaluate('kb', 'golden', 3, '{lexical,lexical*2}') OFFSET 1";
    assert_eq!(one::<Vec<f64>>(&mut client, same), [0.0; 3]);
}

#[test]
fn filter_and_documents_narrow_what_is_searched_and_what_is_relevant() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "CREATE TABLE golden AS SELECT 'ferry' AS question, '{one,three}'::text[] AS relevant",
    );
    let found = |client: &mut Client, arguments: &str| {
        let sql =
            format!("SELECT found, missed FROM rag_evaluate_detail('kb', 'golden', 1, '{{lexical}}', {arguments})");
        let row = client.query_one(&sql, &[]).unwrap();
        (row.get::<_, Vec<String>>(0), row.get::<_, Vec<String>>(1))
    };
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    assert_eq!(found(&mut client, "'{}'"), (keys(&["one"]), keys(&["three"])));
    assert_eq!(found(&mut client, r#"'{"n": 2}'"#), (keys(&["three"]), keys(&[])));
    let ids = "documents => ARRAY(SELECT id FROM kb.document WHERE source_key IN ('two', 'three'))";
    assert_eq!(found(&mut client, ids), (keys(&["two"]), keys(&["three"])));
}

#[test]
fn methods_are_those_of_the_searches() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(&mut client, "CALL rag_refresh('kb')");
    run(
        &mut client,
        "CREATE TABLE golden AS SELECT 'lamp' AS question, '{owl}'::text[] AS relevant",
    );
    let keys = "SELECT array_agg(source_key ORDER BY first) FROM (SELECT d.source_key, min(n) AS first FROM \
                  (SELECT document_ids[1] AS id, row_number() OVER () AS n FROM {search}) s JOIN kb.document d USING (id) \
                  GROUP BY 1 ORDER BY 2 LIMIT 4) f";
    for (method, search) in [
        ("dense", "rag_search('kb', 'lamp', 4, methods => '{dense}')"),
        ("fused", "rag_search('kb', 'lamp', 4, methods => '{dense,lexical}')"),
        (
            "dense*0.3+graph",
            "rag_search('kb', 'lamp', 4, methods => '{dense,graph}', weights => '{0.3,1}')",
        ),
        (
            "lexical + dense by scores",
            "rag_search('kb', 'lamp', 4, methods => '{lexical,dense}', fusion => 'scores')",
        ),
        ("pagerank", "graph_search('kb', 'lamp', 'pagerank', 4)"),
        ("local", "graph_search('kb', 'lamp', 'local', 4)"),
    ] {
        let mut found: Vec<String> = one(
            &mut client,
            &format!("SELECT found FROM rag_evaluate_detail('kb', 'golden', 4, '{{{method}}}')"),
        );
        let expected: Vec<String> = one(&mut client, &keys.replace("{search}", search));
        // Several leaves of a document make room for further documents.
        found.truncate(expected.len());
        assert_eq!(found, expected, "{method}");
    }
    refused(
        &mut client,
        r#"
        SELECT rag_evaluate('kb', 'golden', methods => '{}') --> 22023 methods must not be empty
        SELECT rag_evaluate('kb', 'golden', methods => '{bm25}') --> 22023 unknown method "bm25"
        SELECT rag_evaluate('kb', 'golden', methods => '{dense+}') --> 22023 unknown method ""
        SELECT rag_evaluate('kb', 'golden', methods => '{dense+mix}') --> 22023 mode "mix" of graph_search stands alone
        SELECT rag_evaluate('kb', 'golden', methods => '{dense,dense}') --> 22023 method "dense" is given twice
        SELECT rag_evaluate('kb', 'golden', methods => '{dense*x}') --> 22023 the weight "x" is no number
        SELECT rag_evaluate('kb', 'golden', methods => '{dense*-1}') --> 22023 a weight must be between 0 and 1000000
        SELECT rag_evaluate('kb', 'golden', methods => '{dense*0}') --> 22023 one weight must be above 0
        SELECT rag_evaluate('kb', 'golden', methods => '{dense,NULL}') --> 22004 a method must not be null
        SELECT rag_evaluate('kb', 'golden', k => 0) --> 22023 k must be between 1 and 1000
        SELECT rag_evaluate('kb', 'golden', filter => '[]') --> 22023 filter must be a JSON object
        SELECT rag_evaluate('kb', 'nowhere') --> 42P01 relation "nowhere" does not exist
        SELECT rag_evaluate('kb', 1::oid::regclass) --> 42P01 table with OID 1 does not exist
        "#,
    );
    let hint = failure(&mut client, "SELECT rag_evaluate('kb', 'golden', methods => '{bm25}')")
        .hint()
        .unwrap_or_default()
        .to_owned();
    assert!(
        hint.contains("'pagerank'") && hint.contains("dense*0.3+graph"),
        "{hint}"
    );
}

#[test]
fn a_golden_table_that_is_none_says_what_it_lacks() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "CREATE TABLE a (query text, relevant text[]); CREATE TABLE b (question text); CREATE TABLE c (question text, relevant text); \
         CREATE TABLE d (question text, relevant text[], grades int); CREATE TABLE e (question text, relevant text[], grades int[]); \
         CREATE TABLE f AS TABLE e; INSERT INTO e VALUES ('ferry', '{one,two}', '{1}'); INSERT INTO f VALUES ('ferry', '{one}', '{-1}')",
    );
    refused(
        &mut client,
        r#"
        SELECT rag_evaluate('kb', 'a') --> 42703 column "question" of public.a does not exist
        SELECT rag_evaluate_detail('kb', 'b') --> 42703 column "relevant" of public.b does not exist
        SELECT rag_evaluate('kb', 'c') --> 42804 column "relevant" of public.c must be an array
        SELECT rag_evaluate('kb', 'd') --> 42804 column "grades" of public.d must be an array
        SELECT rag_evaluate('kb', 'e') --> 22023 relevant and grades must be equally long
        SELECT rag_evaluate('kb', 'f') --> 22023 a grade must be between 0 and 50
        "#,
    );
    for golden in ["a", "b", "c", "d"] {
        let error = failure(&mut client, &format!("SELECT rag_evaluate('kb', '{golden}')"));
        assert!(
            error.hint().is_some_and(|hint| hint.contains("relevant text[]")),
            "{golden}: {:?}",
            error.hint()
        );
    }
    let detail = failure(&mut client, "SELECT rag_evaluate('kb', 'e')");
    assert_eq!(
        detail.detail(),
        Some("There are 2 keys and 1 grades. The question is \"ferry\".")
    );
}

#[test]
fn memory_does_not_grow_with_the_questions() {
    let database = Database::new();
    let mut client = corpus(&database);
    let used = |client: &mut Client, questions: i64| -> i64 {
        run(
            client,
            &format!(
                "DROP TABLE IF EXISTS golden; CREATE TABLE golden AS SELECT 'ferry ' || i AS question, '{{one}}'::text[] AS relevant \
                   FROM generate_series(1, {questions}) i"
            ),
        );
        // Its rows are read one by one, so that what it holds is there while the contexts are looked at.
        one(
            client,
            "SELECT max(b) FROM (SELECT (SELECT sum(total_bytes)::bigint + 0 * questions FROM pg_backend_memory_contexts) AS b FROM \
               (SELECT (rag_evaluate('kb', 'golden', methods => '{dense,lexical}')).questions OFFSET 0) e) m",
        )
    };
    used(&mut client, 10);
    let (few, many) = (used(&mut client, 20), used(&mut client, 1_000));
    assert!(many < few + 8_000_000, "{few} and {many} bytes");
}

#[test]
fn it_can_be_cancelled() {
    let database = Database::new();
    let mut client = corpus(&database);
    run(
        &mut client,
        "CREATE TABLE golden AS SELECT 'ferry ' || i AS question, '{one}'::text[] AS relevant FROM generate_series(1, 20000) i; \
         SET statement_timeout = '500ms'",
    );
    let error = failure(&mut client, "SELECT rag_evaluate('kb', 'golden')");
    assert_eq!(error.code().code(), "57014");
    run(
        &mut client,
        "RESET statement_timeout; DELETE FROM golden WHERE question <> 'ferry 1'",
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM rag_evaluate('kb', 'golden')"),
        5
    );
}
