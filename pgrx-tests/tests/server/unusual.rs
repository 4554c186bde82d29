//! Input that is unusual and yet right: it gets the right answer.

use pg_graphrag_tests::Database;

use crate::support::{add, failure, list, misplaced, one, refused, run};

const BUILD: &str = "SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); \
                     SELECT graph_summarize('kb')";

#[test]
fn k_is_kept_from_none_to_all() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 8)");
    run(
        &mut client,
        "INSERT INTO kb.document (body) SELECT 'Anna Ahl ' || i || ' met Bert Beck ' || i || '.' \
         FROM generate_series(1, 30) i; \
         INSERT INTO kb.document (body) VALUES ('Carl Cole saw Dora Dahl.')",
    );
    run(&mut client, BUILD);
    let nodes: i64 = one(&mut client, "SELECT count(*) FROM kb.node");
    let reports: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community WHERE embedding IS NOT NULL",
    );
    assert!(nodes > 31 && reports > 1);
    for exact_below in ["", "SELECT rag_alter('kb', '{\"exact_below\": 0}')"] {
        run(&mut client, exact_below);
        for k in [0, 1, 7, nodes, 10_000_000, i64::from(i32::MAX)] {
            let mut count = |search: &str| -> i64 { one(&mut client, &format!("SELECT count(*) FROM {search}")) };
            assert_eq!(
                count(&format!("raptor_search('kb', 'met', k => {k}, overlap => 'keep')")),
                k.min(nodes)
            );
            assert_eq!(
                count(&format!(
                    "raptor_search('kb', rag_embed('kb', 'met'), k => {k}, mode => 'leaf')"
                )),
                k.min(31)
            );
            assert_eq!(count(&format!("graph_global('kb', 'met', k => {k})")), k.min(reports));
        }
    }
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM raptor_search('kb', 'met', documents => '{}', k => 10000000)"
        ),
        0
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM graph_local('kb', 'Anna Ahl 1', max_edges => 0)"
        ),
        0
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM graph_local('kb', 'nobody')"),
        0
    );
}

#[test]
fn the_documents_of_a_search_may_be_any_array() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 32); INSERT INTO kb.document (body) SELECT 'Anna Ahl met Bert Beck, note ' || i \
         FROM generate_series(1, 3) i",
    );
    run(&mut client, BUILD);
    for (documents, nodes, edges, reports) in [
        ("NULL", 4, 1, 1),
        ("'{}'", 0, 0, 0),
        ("'{NULL}'", 0, 0, 0),
        ("'{1}'", 1, 1, 0),
        ("'{1,1,NULL,1}'", 1, 1, 0),
        ("'{3,2,1,99,-5}'", 4, 1, 1),
        ("'{1,1,2}'", 2, 1, 0),
        ("'{{1,2},{3,NULL}}'", 4, 1, 1),
        ("'{9223372036854775807}'", 0, 0, 0),
    ] {
        let mut count = |search: &str| -> i64 {
            one(
                &mut client,
                &format!("SELECT count(*) FROM {search}, documents => {documents})"),
            )
        };
        assert_eq!(
            count("raptor_search('kb', 'note', overlap => 'keep'"),
            nodes,
            "{documents}"
        );
        assert_eq!(count("graph_local('kb', 'anna ahl'"), edges, "{documents}");
        assert_eq!(count("graph_global('kb', 'note'"), reports, "{documents}");
    }
}

#[test]
fn numbers_of_a_filter_match_exactly() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 32)");
    let numbers = [
        "12345678901234567890123",
        "12345678901234567890124",
        "9007199254740993",
        "0.1",
        "0.10000000000000000001",
        "1e400",
        "-1e-400",
    ];
    for number in numbers {
        run(
            &mut client,
            &format!(
                "SELECT rag_add('kb', 'Anna Ahl met Bert Beck, note {number}', title => '{number}', \
                 metadata => '{{\"n\": {number}}}')"
            ),
        );
    }
    run(&mut client, BUILD);
    for number in numbers {
        let found = client
            .query(
                &format!(
                    "SELECT d.title, s.metadata = '{{\"n\": {number}}}' \
                     FROM raptor_search('kb', 'note', filter => '{{\"n\": {number}}}') s \
                     JOIN kb.document d ON d.id = s.document_ids[1]"
                ),
                &[],
            )
            .unwrap();
        let found: Vec<(&str, bool)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(found, [(number, true)]);
        let titles: Vec<String> = list(
            &mut client,
            &format!(
                "SELECT d.title FROM graph_local('kb', 'Anna Ahl', filter => '{{\"n\": {number}}}') g, \
                 unnest(g.document_ids) i \
                 JOIN kb.document d ON d.id = i"
            ),
        );
        assert_eq!(titles, [number]);
    }
    // What only looks like a number to some parser of JSON is an object like any other.
    run(
        &mut client,
        "SELECT rag_add('kb', 'Private.', metadata => '{\"$serde_json::private::Number\": \"7\"}')",
    );
    run(
        &mut client,
        "INSERT INTO kb.document (body, metadata) VALUES ('Private two.', \
         '{\"x\": {\"$serde_json::private::Number\": \"a\"}}')",
    );
    let kept: i64 = one(
        &mut client,
        "SELECT count(*) FROM raptor_search('kb', 'private', filter => '{\"$serde_json::private::Number\": \"7\"}') \
         WHERE metadata = '{\"$serde_json::private::Number\": \"7\"}'",
    );
    assert_eq!(kept, 1);
}

#[test]
fn metadata_may_be_as_deep_and_large_as_postgresql_takes_it() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 8); SELECT rag_create('parts', 8, partition_by => '{b}')",
    );
    let deep = "(repeat('{\"a\":', 5000) || '1' || repeat('}', 5000))::jsonb";
    for collection in ["kb", "parts"] {
        run(
            &mut client,
            &format!(
                "INSERT INTO {collection}.document (body, metadata) VALUES ('Deep.', {deep}); \
                 SELECT rag_add('{collection}', 'Deep, too.', metadata => {deep}); SELECT raptor_build('{collection}')"
            ),
        );
        let same: i64 = one(
            &mut client,
            &format!(
                "SELECT count(*) FROM raptor_search('{collection}', 'deep', filter => {deep}, overlap => 'keep') WHERE metadata = {deep}"
            ),
        );
        assert_eq!(same, 3, "two leaves and the summary, which has what both share");
    }
    let wide = "(SELECT jsonb_object_agg('key ' || i, i) FROM generate_series(1, 20000) i)";
    run(
        &mut client,
        &format!("SELECT rag_add('kb', 'Wide.', metadata => {wide})"),
    );
    let found: Vec<String> = list(
        &mut client,
        "SELECT text FROM raptor_search('kb', 'x', filter => '{\"key 19999\": 19999}')",
    );
    assert_eq!(found, ["Wide."]);
    // Documents in JSON are read to a fixed depth, and say so.
    refused(
        &mut client,
        r#"
        SELECT rag_add('kb', repeat('[', 5000) || repeat(']', 5000), format => 'json') --> 22000 body is not valid json
        "#,
    );
}

#[test]
fn vectors_of_any_length_rank_by_direction() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', 64); INSERT INTO kb.document (body) \
         VALUES ('Pears ripen.'), ('Rivers freeze.'), ('Moss grows.')",
    );
    let scaled = |factor: &str| {
        format!(
            "(SELECT array_agg(x * {factor}::float8 ORDER BY n)::vector \
             FROM unnest(rag_embed('kb', 'rivers freeze')::real[]::float8[]) WITH ORDINALITY u (x, n))"
        )
    };
    for factor in ["1", "3", "1e30", "3e38", "1e-20", "1e-30", "-1"] {
        let rows = client
            .query(
                &format!("SELECT text, score FROM raptor_search('kb', {})", scaled(factor)),
                &[],
            )
            .unwrap_or_else(|error| panic!("{factor}: {error:?}"));
        let scores: Vec<(String, f64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(scores.len(), 3, "{factor}");
        assert!(
            scores.iter().all(|(_, score)| score.abs() <= 1.0 + 1e-6),
            "{factor}: {scores:?}"
        );
        let (at, expected) = if factor == "-1" { (2, -1.0) } else { (0, 1.0) };
        assert_eq!(scores[at].0, "Rivers freeze.", "{factor}");
        assert!((scores[at].1 - expected).abs() < 1e-6, "{factor}: {scores:?}");
    }
    let zero = "array_fill(0, ARRAY[64])::vector";
    assert_eq!(
        one::<i64>(
            &mut client,
            &format!("SELECT count(*) FROM raptor_search('kb', {zero})")
        ),
        0
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            &format!("SELECT count(*) FROM raptor_search('kb', {zero}, k => 10000000, mode => 'leaf')")
        ),
        0
    );
}

#[test]
fn a_text_without_words_is_done_and_never_found() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 32)");
    let wordless = [
        "",
        " \n\t",
        "!!! ... ---",
        "🦉🦉🦉",
        "\u{200b}\u{feff}",
        "\u{301}\u{301}",
        "# ",
        "```\n```",
        "\u{1}\u{7f}",
    ];
    for text in wordless {
        add(&mut client, "kb", text);
        let vector: Option<Vec<f32>> = client
            .query_one("SELECT rag_embed('kb', $1)::real[]", &[&text])
            .unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
            .get(0);
        assert_eq!(vector, None, "{text:?}");
        for search in [
            "SELECT count(*) FROM raptor_search('kb', $1)",
            "SELECT count(*) FROM graph_global('kb', $1)",
            "SELECT count(*) FROM graph_local('kb', $1)",
        ] {
            assert_eq!(
                client.query_one(search, &[&text]).unwrap().get::<_, i64>(0),
                0,
                "{text:?}"
            );
        }
        client.query("SELECT * FROM rag_chunk($1)", &[&text]).unwrap();
    }
    // Nothing but such texts: every build ends well.
    run(&mut client, BUILD);
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.node WHERE level > 0 OR embedding IS NOT NULL"
        ),
        0
    );
    add(&mut client, "kb", "Anna Ahl met Bert Beck.");
    add(&mut client, "kb", "Bert Beck met Carl Cole. 🦉");
    run(&mut client, BUILD);
    assert_eq!(misplaced(&mut client, "kb"), 0);
    let pending: i64 = one(&mut client, "SELECT sum(pending)::bigint FROM rag_status('kb')");
    assert_eq!(pending, 0);
    let found = client
        .query(
            "SELECT text, score FROM raptor_search('kb', 'Bert Beck', k => 10000000, overlap => 'keep')",
            &[],
        )
        .unwrap();
    assert_eq!(found.len(), 3, "two leaves and their summary");
    assert!(found.iter().all(|row| row.get::<_, f64>(1) > 0.0));
    let nan: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.node WHERE embedding IS NOT NULL AND (vector_norm(embedding) - 1) ^ 2 > 1e-6",
    );
    assert_eq!(nan, 0);
}

#[test]
fn nul_and_broken_escapes_do_not_come_in_through_a_format() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 8)");
    refused(
        &mut client,
        r#"
        SELECT rag_add('kb', '{"a": "x\u0000y"}', format => 'json') --> 22P05 body holds a NUL character
        SELECT rag_add('kb', '{"\u0000": "x"}', format => 'json') --> 22P05 body holds a NUL character
        SELECT rag_add('kb', '{"a": "\ud800"}', format => 'json') --> 22000 body is not valid json
        SELECT rag_add('kb', '{"a": 1} trailing', format => 'json') --> 22000 body is not valid json
        SELECT rag_add('kb', E'a,b\n"1', format => 'csv') --> 22000 body is not valid csv
        SELECT rag_add('kb', E'a,b\n1,2,3', format => 'csv') --> 22000 body is not valid csv
        "#,
    );
    for sql in [
        "SELECT rag_add('kb', '[{\"a\": 1}', format => 'json')",
        "SELECT rag_add('kb', E'a,b\\n1', format => 'csv')",
    ] {
        assert!(
            failure(&mut client, sql)
                .detail()
                .is_some_and(|detail| detail.contains("line")),
            "{sql}"
        );
    }
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.document"), 0);
    // HTML says that a zero character is the replacement character.
    run(
        &mut client,
        "SELECT rag_add('kb', '<p>a&#0;b &#x0; &#xD800;</p>', format => 'html')",
    );
    assert!(one::<String>(&mut client, "SELECT body FROM kb.document").starts_with("a\u{fffd}b"));
}
