//! Partitions: trees and communities inside each value of the keys, and never across.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one, run};

const BUILD: &str = "SELECT * FROM raptor_build('kb', cluster_size => 3); SELECT * FROM graph_extract('kb'); \
                     SELECT * FROM graph_communities('kb', 'components'); SELECT * FROM graph_summarize('kb')";

#[test]
fn a_partition_is_the_canonical_text_of_the_values() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', partition_by => '{tenant}'), rag_create('two', partition_by => '{tenant, lang}')",
    );
    let mut partition = |collection: &str, metadata: &str| -> String {
        let sql = format!(
            "INSERT INTO {collection}.document (body, metadata) VALUES ('Words.', '{metadata}') RETURNING partition"
        );
        one(&mut client, &sql)
    };
    for (metadata, expected) in [
        (r#"{"tenant": "acme", "x": 1}"#, r#""acme""#),
        (r#"{"tenant": "1"}"#, r#""1""#),
        (r#"{"tenant": 1}"#, "1"),
        (r#"{"tenant": true}"#, "true"),
        (r#"{"tenant": "true"}"#, r#""true""#),
        (r#"{"tenant": "null"}"#, r#""null""#),
        (r#"{"tenant": null}"#, "null"),
        ("{}", "null"),
        (r#"{"Tenant": "acme"}"#, "null"),
        (r#"{"tenant": ""}"#, r#""""#),
        (r#"{"tenant": 100000000000000000000001}"#, "100000000000000000000001"),
        (r#"{"tenant": 100000000000000000000002}"#, "100000000000000000000002"),
        (r#"{"tenant": 0.10000000000000000001}"#, "0.10000000000000000001"),
        (r#"{"tenant": "Ä \u00e4 \"q\" \\"}"#, r#""Ä ä \"q\" \\""#),
    ] {
        assert_eq!(partition("kb", metadata), expected, "{metadata}");
    }
    for (metadata, expected) in [
        (r#"{"tenant": "a", "lang": "en"}"#, ["\"a\"", "\"en\""]),
        (r#"{"lang": "en"}"#, ["null", "\"en\""]),
        (r#"{"tenant": "a", "lang": null}"#, ["\"a\"", "null"]),
        ("{}", ["null", "null"]),
    ] {
        let found = partition("two", metadata);
        let value: Vec<serde_json::Value> = serde_json::from_str(&found).unwrap();
        assert_eq!(
            value.iter().map(|v| v.to_string()).collect::<Vec<_>>(),
            expected,
            "{found}"
        );
    }
}

#[test]
fn values_are_one_partition_if_they_are_equal_and_only_then() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', partition_by => '{a, b}')");
    let values = [
        "1",
        "1.0",
        "1.00",
        "10e-1",
        "\"1\"",
        "\"1.0\"",
        "0",
        "-0",
        "0.0",
        "1e2",
        "100",
        "100.50",
        "100.5",
        "1e30",
        "\"1e30\"",
        "null",
        "\"null\"",
        "\"\"",
        "\" \"",
        "true",
        "\"true\"",
        "[]",
        "{}",
        "[1, null]",
        "[1.0, null]",
        "[null, 1]",
        "\"[1, null]\"",
        r#"{"x": 1, "y": 2}"#,
        r#"{"y": 2.0, "x": 1}"#,
        r#"{"x": 1}"#,
        "\"a\"",
        "\"A\"",
        r#""\u0061""#,
        "\"é\"",
        r#""e\u0301""#,
    ];
    for value in values {
        let sql = "INSERT INTO kb.document (body, metadata) VALUES ('Words.', jsonb_build_object('a', $1::text::jsonb, 'b', 1)), \
                   ('Words.', jsonb_build_object('b', $1::text::jsonb, 'a', 1))";
        client.execute(sql, &[&value]).unwrap();
    }
    let wrong: Vec<String> = list(
        &mut client,
        "SELECT concat_ws(' and ', a.metadata, b.metadata, a.partition, b.partition) FROM kb.document a JOIN kb.document b ON a.id < b.id \
         WHERE ((a.metadata -> 'a', a.metadata -> 'b') = (b.metadata -> 'a', b.metadata -> 'b')) <> (a.partition = b.partition) ORDER BY 1",
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Four tenants (one is JSON null and missing) whose documents name the same entities, each with a word of its own.
const TENANTS: &str = r#"SELECT rag_create('kb', partition_by => '{tenant}');
INSERT INTO kb.document (source_key, body, metadata)
SELECT 'doc' || t || i, 'The Fraud Model of year ' || i || ' scores Pay Hub for marker' || t || '. Pay Hub serves Marker' || t || ' Town. The Risk Team owns the Fraud Model.',
       CASE t WHEN 3 THEN '{}' WHEN 4 THEN '{"tenant": null}' ELSE jsonb_build_object('tenant', 't' || t) END || jsonb_build_object('year', i)
FROM generate_series(1, 4) t, generate_series(1, 5) i"#;

/// Checks that nothing derived holds a word, a document or a child of two partitions.
fn check_apart(client: &mut Client) {
    let marker = |column: &str| format!("{column} ~* 'marker[1234]'");
    for (law, sql) in [
        (
            "a summary holds the words of its partition alone",
            format!("SELECT n.id FROM kb.node n, regexp_matches(n.text, 'marker([1234])', 'gi') m WHERE {} AND n.partition <> \
                     CASE WHEN m[1] IN ('3', '4') THEN 'null' ELSE '\"t' || m[1] || '\"' END", marker("n.text")),
        ),
        (
            "so does a report",
            "SELECT c.id FROM kb.community c, regexp_matches(concat_ws(' ', title, summary, findings, text), 'marker([1234])', 'gi') m \
             WHERE c.partition <> CASE WHEN m[1] IN ('3', '4') THEN 'null' ELSE '\"t' || m[1] || '\"' END".into(),
        ),
        (
            "sources are of the partition",
            "SELECT n.id FROM kb.node n JOIN kb.node_source s ON s.node_id = n.id JOIN kb.document d ON d.id = s.document_id \
               WHERE d.partition <> n.partition UNION ALL SELECT n.id FROM kb.node n JOIN kb.document d ON d.id = n.document_id \
               WHERE d.partition <> n.partition UNION ALL SELECT c.id FROM kb.community c JOIN kb.community_source s \
               ON s.community_id = c.id JOIN kb.document d ON d.id = s.document_id WHERE d.partition <> c.partition".into(),
        ),
        (
            "children are of the partition",
            "SELECT 1 FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id JOIN kb.node n ON n.id = c.child_id WHERE p.partition <> n.partition".into(),
        ),
        (
            "what a partition shares is in the metadata",
            "SELECT n.id FROM kb.node n WHERE n.partition LIKE '\"t%' AND n.metadata -> 'tenant' IS DISTINCT FROM n.partition::jsonb".into(),
        ),
    ] {
        assert_eq!(one::<i64>(client, &format!("SELECT count(*) FROM ({sql}) broken")), 0, "{law}");
    }
}

/// Partition, and how many roots it has.
fn roots(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT n.partition || ' ' || count(*) FROM kb.node n WHERE n.embedding IS NOT NULL \
         AND NOT EXISTS (SELECT FROM kb.node_child c WHERE c.child_id = n.id) GROUP BY n.partition ORDER BY 1",
    )
}

#[test]
fn each_partition_has_a_tree_and_communities_of_its_own() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, TENANTS);
    run(&mut client, BUILD);
    check_apart(&mut client);
    assert_eq!(roots(&mut client), ["\"t1\" 1", "\"t2\" 1", "null 1"]);
    let tops: Vec<String> = list(
        &mut client,
        "SELECT partition || ' ' || source_count FROM kb.node n WHERE level = (SELECT max(level) FROM kb.node m WHERE m.partition = n.partition) ORDER BY 1",
    );
    assert_eq!(
        tops,
        ["\"t1\" 5", "\"t2\" 5", "null 10"],
        "documents without the key and with null are one partition"
    );

    // The same three entities in each, and the town of its own.
    let members: Vec<String> = list(
        &mut client,
        "SELECT c.partition || ': ' || string_agg(t.key, ', ' ORDER BY t.key) FROM kb.community c \
         JOIN kb.community_entity e ON e.community_id = c.id JOIN kb.entity t ON t.id = e.entity_id WHERE c.size > 1 GROUP BY c.id ORDER BY 1",
    );
    assert_eq!(
        members,
        [
            "\"t1\": fraud model, marker1 town, pay hub, risk team",
            "\"t2\": fraud model, marker2 town, pay hub, risk team",
            "null: fraud model, marker3 town, marker4 town, pay hub, risk team"
        ]
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.entity WHERE key = 'fraud model'"),
        1,
        "shared by name"
    );

    for (filter, documents, own) in [
        (r#"{"tenant": "t1"}"#, "{1, 2, 3, 4, 5}", "arker1"),
        (r#"{"tenant": "t2"}"#, "{6, 7, 8, 9, 10}", "arker2"),
    ] {
        for scope in [format!("filter => '{filter}'"), format!("documents => '{documents}'")] {
            let sql = format!(
                "SELECT text FROM raptor_search('kb', 'marker1 marker2 fraud model town', k => 100, overlap => 'keep', {scope}) UNION ALL \
                 SELECT title || summary FROM graph_global('kb', 'marker1 marker2 fraud model', {scope}) UNION ALL \
                 SELECT concat_ws(' ', source, predicate, target, description, quote) FROM graph_local('kb', 'pay hub', 3, {scope})"
            );
            let found: Vec<String> = list(&mut client, &sql);
            assert!(found.len() > 8, "{scope}: {}", found.len());
            for text in found {
                assert!(!text.replace(own, "").contains("arker"), "{scope}: {text}");
            }
        }
        let levels: Vec<i32> = list(
            &mut client,
            &format!(
                "SELECT DISTINCT level FROM raptor_search('kb', 'fraud model', k => 100, overlap => 'keep', filter => '{filter}') ORDER BY 1"
            ),
        );
        assert_eq!(
            levels,
            [0, 1, 2],
            "the whole tree of the tenant is found by its metadata"
        );
        let reports = format!("SELECT count(*) FROM graph_global('kb', 'fraud model', filter => '{filter}')");
        assert_eq!(one::<i64>(&mut client, &reports), 1);
    }
}

#[test]
fn equal_documents_of_two_partitions_stay_apart() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb', partition_by => '{tenant, lang}'); INSERT INTO kb.document (body, metadata) \
         SELECT 'The same words in Acme Works and Zebra Club.', jsonb_build_object('tenant', i % 2, 'lang', CASE WHEN i % 4 < 2 THEN 'en' ELSE 'de' END) \
         FROM generate_series(0, 19) i",
    );
    run(&mut client, BUILD);
    assert_eq!(
        roots(&mut client),
        ["[0, \"de\"] 1", "[0, \"en\"] 1", "[1, \"de\"] 1", "[1, \"en\"] 1"]
    );
    let sizes: Vec<i32> = list(&mut client, "SELECT max(source_count) FROM kb.node GROUP BY partition");
    assert_eq!(sizes, [5; 4]);
    let communities: Vec<String> = list(&mut client, "SELECT size || ' ' || source_count FROM kb.community");
    assert_eq!(communities, ["2 5"; 4]);
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(DISTINCT member_hash) FROM kb.community"),
        1,
        "of the same members"
    );
}

#[test]
fn a_document_that_changes_its_tenant_takes_its_leaves_and_leaves_nothing_behind() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, TENANTS);
    run(&mut client, BUILD);
    let other = "SELECT md5(string_agg(n::text, ';' ORDER BY id)) FROM kb.node n WHERE partition = 'null'";
    let untouched: String = one(&mut client, other);
    let leaf = "SELECT string_agg(id || ' ' || text || ' ' || embedding::text, ';') FROM kb.node WHERE level = 0 AND document_id = 1";
    let before: String = one(&mut client, leaf);

    run(
        &mut client,
        r#"UPDATE kb.document SET metadata = metadata || '{"tenant": "t2"}' WHERE source_key = 'doc11'"#,
    );
    assert_eq!(one::<String>(&mut client, leaf), before, "the leaf moves as it is");
    let moved = "SELECT count(*) FROM kb.node WHERE document_id = 1 AND partition = '\"t2\"' AND metadata @> '{\"tenant\": \"t2\"}'";
    assert_eq!(one::<i64>(&mut client, moved), 1);
    for derived in [
        "SELECT count(*) FROM kb.node WHERE level > 0 AND partition = '\"t1\"' AND text LIKE '%of year 1 scores%'",
        "SELECT count(*) FROM kb.node_source WHERE document_id = 1",
        "SELECT count(*) FROM kb.community_source WHERE document_id = 1",
        "SELECT count(*) FROM kb.community WHERE partition = '\"t1\"' AND concat_ws(' ', summary, findings, text) LIKE '%of year 1 scores%'",
    ] {
        assert_eq!(one::<i64>(&mut client, derived), 0, "{derived}");
    }
    assert_eq!(
        one::<String>(&mut client, other),
        untouched,
        "other partitions keep their trees"
    );

    run(&mut client, BUILD);
    assert_eq!(roots(&mut client), ["\"t1\" 1", "\"t2\" 1", "null 1"]);
    let sizes: Vec<String> = list(
        &mut client,
        "SELECT partition || max(source_count) FROM kb.node GROUP BY partition ORDER BY 1",
    );
    assert_eq!(sizes, ["\"t1\"4", "\"t2\"6", "null10"]);
    let town: Vec<String> = list(
        &mut client,
        "SELECT c.partition FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id \
         JOIN kb.entity t ON t.id = e.entity_id WHERE t.key = 'marker1 town' ORDER BY 1",
    );
    assert_eq!(
        town,
        ["\"t1\"", "\"t2\""],
        "its words are now words of the other tenant too"
    );

    // With another body at once, and back to no tenant at all.
    run(
        &mut client,
        "UPDATE kb.document SET metadata = '{}', body = 'Quite another text.' WHERE source_key = 'doc12'",
    );
    run(
        &mut client,
        r#"UPDATE kb.document SET metadata = '{"tenant": "t1"}' WHERE source_key = 'doc11'"#,
    );
    run(&mut client, BUILD);
    check_apart(&mut client);
    let text: Vec<String> = list(
        &mut client,
        "SELECT text FROM kb.node WHERE partition = 'null' AND level = 0 AND document_id = 2",
    );
    assert_eq!(text, ["Quite another text."]);
    let sizes: Vec<String> = list(
        &mut client,
        "SELECT partition || max(source_count) FROM kb.node GROUP BY partition ORDER BY 1",
    );
    assert_eq!(sizes, ["\"t1\"4", "\"t2\"5", "null11"]);
}

#[test]
fn an_edge_weighs_in_a_partition_what_its_documents_say() {
    let database = Database::new();
    let mut client = database.client();
    // t1 links hub and ant, t2 ant and bee: only together were they one component.
    run(
        &mut client,
        r#"SELECT rag_create('kb', partition_by => '{tenant}');
           INSERT INTO kb.document (id, body, metadata) SELECT i, 'Nothing of it ' || i || '.', jsonb_build_object('tenant', 't' || i % 2) FROM generate_series(1, 4) i;
           SELECT graph_add('kb', 'hub', 'to', 'ant', document_id => i) FROM unnest(ARRAY[1, 3, 2]) i;
           SELECT graph_add('kb', 'ant', 'to', 'bee', document_id => 2), graph_add('kb', 'fly', 'to', 'gnat', document_id => 1)"#,
    );
    let row = client
        .query_one(
            "SELECT communities, largest, modularity FROM graph_communities('kb')",
            &[],
        )
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 3));
    // Each partition by itself, the mean by weight: t0 has 1 + 1 in one community, t1 has 2 and 1.
    let modularity = (1.0 - (4.0 + 1.0) / 9.0) * 3.0 / 5.0;
    assert!(
        (row.get::<_, f64>(2) - modularity).abs() < 1e-6,
        "{}",
        row.get::<_, f64>(2)
    );
    run(&mut client, "SELECT * FROM graph_summarize('kb')");
    let reports: Vec<String> = list(
        &mut client,
        "SELECT partition || ' ' || summary FROM kb.community ORDER BY 1",
    );
    assert_eq!(
        reports,
        [
            "\"t0\" ant to bee.\nhub to ant.",
            "\"t1\" fly to gnat.",
            "\"t1\" hub to ant."
        ]
    );
}

#[test]
fn what_was_stated_by_hand_belongs_to_the_partition_without_a_value() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"SELECT rag_create('kb', partition_by => '{tenant}');
           INSERT INTO kb.document (id, body, metadata) VALUES (1, 'Nothing of it.', '{"tenant": "t1"}'), (2, 'Nor here.', '{}');
           SELECT graph_add('kb', 'boss', 'knows', 'spy', 'marker0', weight => 3);
           INSERT INTO kb.entity (name) VALUES ('loner');
           SELECT graph_add('kb', 'boss', 'pays', 'clerk', document_id => 1);
           SELECT * FROM graph_communities('kb'); SELECT * FROM graph_summarize('kb')"#,
    );
    let reports = "SELECT concat_ws(' | ', partition, size, summary) FROM kb.community ORDER BY 1";
    assert_eq!(
        list::<String>(&mut client, reports),
        [
            "\"t1\" | 2 | boss pays clerk.",
            "null | 1",
            "null | 2 | boss knows spy: marker0"
        ]
    );
    let of_tenant = r#"SELECT predicate FROM graph_local('kb', 'boss', filter => '{"tenant": "t1"}')"#;
    assert_eq!(list::<String>(&mut client, of_tenant), ["pays"]);

    // A tenant whose document says the same sees its own words, and takes nothing away from the others.
    run(
        &mut client,
        "SELECT graph_add('kb', 'Boss', 'knows', 'Spy', 'marker1', document_id => 1); \
         SELECT * FROM graph_communities('kb'); SELECT * FROM graph_summarize('kb')",
    );
    let found: Vec<String> = list(&mut client, reports);
    let tenant: Vec<&String> = found.iter().filter(|report| report.starts_with("\"t1\"")).collect();
    assert_eq!(tenant.len(), 1, "{found:?}");
    assert!(
        tenant[0].contains("Boss knows Spy: marker1") && !tenant[0].contains("marker0"),
        "{found:?}"
    );
    assert!(
        found.contains(&"null | 2 | boss knows spy: marker0".to_owned()),
        "what was stated by hand stands as it stood: {found:?}"
    );
}
