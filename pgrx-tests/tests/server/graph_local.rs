//! graph_local: the neighbourhood of an entity, from what the caller may see alone.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

/// `hop source predicate target` of a search, in its order.
fn edges(client: &mut Client, arguments: &str) -> Vec<String> {
    list(
        client,
        &format!("SELECT concat_ws(' ', hop, source, predicate, target) FROM graph_local('kb', {arguments})"),
    )
}

/// a → b → c → d → a, a loop at a, an edge back, and a second edge between c and d.
const RING: &str = "SELECT rag_create('kb'); SELECT graph_add('kb', s, p, o, weight => w) FROM (VALUES \
    ('a', 'to', 'b', 1), ('b', 'to', 'c', 3), ('c', 'to', 'd', 1), ('d', 'to', 'a', 2), \
    ('a', 'loves', 'a', 1), ('b', 'back', 'a', 5), ('d', 'also', 'c', 1), ('x', 'to', 'y', 9)) v (s, p, o, w)";

#[test]
fn each_hop_gives_its_edges_once_in_both_directions() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, RING);
    let first = ["1 b back a", "1 d to a", "1 a loves a", "1 a to b"];
    assert_eq!(edges(&mut client, "'A'"), first, "heaviest first, then by name");
    let second = ["2 b to c", "2 c to d", "2 d also c"];
    let both: Vec<&str> = first.iter().chain(&second).copied().collect();
    assert_eq!(edges(&mut client, "'a', hops => 2"), both);
    assert_eq!(edges(&mut client, "'a', hops => 3"), both, "cycles end");
    assert_eq!(edges(&mut client, "'a', hops => 20"), both);
    assert_eq!(edges(&mut client, "'y'"), ["1 x to y"]);
    assert_eq!(
        edges(&mut client, "'c', hops => 2").len(),
        6,
        "the loop at a is one hop further"
    );
    assert_eq!(edges(&mut client, "'c', hops => 3").len(), 7);
    for (arguments, code) in [
        ("'a', hops => 0", "22023"),
        ("'a', hops => 21", "22023"),
        ("'a', max_edges => -1", "22023"),
        ("NULL", "22004"),
        ("'a', filter => '[]'", "22023"),
    ] {
        let error = failure(&mut client, &format!("SELECT * FROM graph_local('kb', {arguments})"));
        assert_eq!(error.code().code(), code, "{arguments}: {}", error.message());
    }
    // A further name of an entity leads to it.
    run(
        &mut client,
        "INSERT INTO kb.entity_alias SELECT 'alpha', id FROM kb.entity WHERE key = 'a'",
    );
    assert_eq!(edges(&mut client, "'ALPHA'"), first);
}

#[test]
fn a_cut_is_said() {
    let database = Database::new();
    run(&mut database.client(), RING);
    let psql = |arguments: &str| {
        database.psql(&format!("\\pset format unaligned\n\\pset tuples_only on\nSELECT source, predicate, target FROM graph_local('kb', {arguments})"))
    };
    for (arguments, shown) in [
        ("'a', max_edges => 3", 3),
        ("'a', hops => 2, max_edges => 5", 5),
        ("'a', hops => 3, max_edges => 0", 0),
    ] {
        let output = psql(arguments);
        assert_eq!(
            output.lines().filter(|line| line.contains('|')).count(),
            shown,
            "{output}"
        );
        assert!(
            output.contains("NOTICE") && output.contains(&format!("first {shown} edges")),
            "{arguments}: {output}"
        );
    }
    for arguments in [
        "'a', max_edges => 4",
        "'a', hops => 2, max_edges => 7",
        "'a', hops => 9",
    ] {
        let output = psql(arguments);
        assert!(!output.contains("NOTICE"), "{arguments}: {output}");
    }
    let output = psql("'nobody'");
    assert!(output.contains("NOTICE") && output.contains("nobody"), "{output}");
}

/// Three tenants speak of the same entities in spellings of their own, and in words of their own (`marker`).
const TENANTS: &str = r#"SELECT rag_create('kb');
INSERT INTO kb.document (id, body, metadata) VALUES
 (1, 'Fraud_Model guards Pay Hub, says marker1. Pay Hub feeds Marker1 Town.', '{"tenant": "t1"}'),
 (2, 'FRAUD MODEL guards PAY HUB, says marker2. PAY HUB feeds Marker2 Town. Marker2 Town feeds Marker2 Port.', '{"tenant": "t2"}'),
 (3, 'The fraud model guards pay hub, says marker3. It guards it well.', '{"tenant": "t2", "open": true}');
SELECT graph_add('kb', s, p, o, d, document_id => i) FROM (VALUES
 ('Fraud_Model', 'Guards', 'Pay Hub', 'as marker1 knows', 1), ('FRAUD MODEL', 'GUARDS', 'PAY HUB', 'as marker2 knows', 2),
 ('fraud model', 'guards', 'pay hub', 'as marker3 knows', 3),
 ('Pay Hub', 'feeds', 'Marker1 Town', NULL, 1), ('PAY HUB', 'feeds', 'Marker2 Town', NULL, 2),
 ('Marker2 Town', 'feeds', 'Marker2 Port', NULL, 2)) v (s, p, o, d, i);
SELECT graph_add('kb', 'fraud model', 'guards', 'pay hub', 'marker0 by hand');
SELECT graph_add('kb', 'fraud model', 'annoys', 'marker0 clerk')"#;

#[test]
fn a_filter_restricts_every_word_to_what_passes() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, TENANTS);
    let rows = |client: &mut Client, arguments: &str| -> Vec<String> {
        list(
            client,
            &format!(
                "SELECT concat_ws(' | ', hop, source, predicate, target, weight, replace(coalesce(description, '-'), E'\\n', ' + '), quote, document_ids::text) \
                               FROM graph_local('kb', 'fraud_model', hops => 3{arguments})"
            ),
        )
    };
    let one_tenant = [
        "1 | Fraud_Model | Guards | Pay Hub | 1 | as marker1 knows | Fraud_Model guards Pay Hub, says marker1. | {1}",
        "2 | Pay Hub | feeds | Marker1 Town | 1 | - | Pay Hub feeds Marker1 Town. | {1}",
    ];
    assert_eq!(rows(&mut client, r#", filter => '{"tenant": "t1"}'"#), one_tenant);
    assert_eq!(rows(&mut client, ", documents => '{1}'"), one_tenant);

    let of_two = rows(&mut client, r#", filter => '{"tenant": "t2"}'"#);
    assert_eq!(of_two.len(), 3);
    assert!(
        of_two[0].contains("| 2 | as marker2 knows + as marker3 knows |") && of_two[0].ends_with("| {2,3}"),
        "{of_two:?}"
    );
    assert!(of_two[2].starts_with("3 | Marker2 Town | feeds | Marker2 Port"));
    for row in &of_two {
        assert!(
            !row.contains("arker1") && !row.contains("marker0") && !row.contains("Fraud_Model"),
            "{row}"
        );
    }
    let open = rows(&mut client, r#", filter => '{"open": true}'"#);
    assert_eq!(
        open,
        [
            "1 | fraud model | guards | pay hub | 1 | as marker3 knows | The fraud model guards pay hub, says marker3. | {3}"
        ]
    );
    assert_eq!(
        rows(&mut client, r#", filter => '{"tenant": "t2"}', documents => '{1, 3}'"#),
        open
    );
    assert!(rows(&mut client, r#", filter => '{"tenant": "t3"}'"#).is_empty());
    assert!(rows(&mut client, ", documents => '{}'").is_empty());

    // Ids lead to what passes, too.
    let sql = r#"SELECT count(*) FROM graph_local('kb', 'fraud_model', 3, '{"tenant": "t2"}') g, unnest(g.node_ids) u (id)
                 JOIN kb.node n ON n.id = u.id WHERE n.metadata @> '{"tenant": "t2"}'"#;
    let all = sql.replace(r#"WHERE n.metadata @> '{"tenant": "t2"}'"#, "");
    assert!(one::<i64>(&mut client, sql) > 2);
    assert_eq!(one::<i64>(&mut client, sql), one::<i64>(&mut client, &all));

    // Without a filter all is shown, also what rests on no document.
    let everything = rows(&mut client, "");
    assert_eq!(everything.len(), 5);
    let guards = everything
        .iter()
        .find(|row| row.to_lowercase().contains("guards"))
        .unwrap();
    assert!(
        guards.contains("| 3 | marker0 by hand |") && guards.ends_with("| {1,2,3}"),
        "{guards}"
    );
    assert!(everything.iter().any(|row| row.contains("annoys | marker0 clerk | 1")));
}

#[test]
fn the_order_within_a_hop_is_that_of_what_passes() {
    let database = Database::new();
    let mut client = database.client();
    // For all, the edge to zebra is the heavier one; for tenant t1 it is the other.
    run(
        &mut client,
        r#"SELECT rag_create('kb');
           INSERT INTO kb.document (id, body, metadata) SELECT i, 'Nothing of it ' || i || '.', jsonb_build_object('tenant', CASE WHEN i < 3 THEN 't1' ELSE 't2' END) FROM generate_series(1, 6) i;
           SELECT graph_add('kb', 'hub', 'to', 'ant', document_id => i) FROM generate_series(1, 2) i;
           SELECT graph_add('kb', 'hub', 'to', 'zebra', document_id => i) FROM generate_series(2, 6) i"#,
    );
    let weights = |client: &mut Client, arguments: &str| -> Vec<String> {
        list(
            client,
            &format!("SELECT target || ' ' || weight FROM graph_local('kb', 'hub'{arguments})"),
        )
    };
    assert_eq!(weights(&mut client, ""), ["zebra 5", "ant 2"]);
    assert_eq!(
        weights(&mut client, r#", filter => '{"tenant": "t1"}'"#),
        ["ant 2", "zebra 1"]
    );
    assert_eq!(
        weights(&mut client, r#", filter => '{"tenant": "t1"}', max_edges => 1"#),
        ["ant 2"]
    );
    assert_eq!(weights(&mut client, r#", filter => '{"tenant": "t2"}'"#), ["zebra 4"]);
}

#[test]
fn a_hub_of_ten_thousand_edges_is_cut_at_the_cap() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.entity (name) SELECT 'n' || i FROM generate_series(0, 10000) i; \
         INSERT INTO kb.relation (source_id, predicate, target_id, weight) \
         SELECT h.id, 'to', t.id, substr(t.name, 2)::int FROM kb.entity h, kb.entity t WHERE h.name = 'n0' AND t.name <> 'n0'",
    );
    let heaviest: Vec<f64> = list(&mut client, "SELECT weight FROM graph_local('kb', 'n0', hops => 2)");
    assert_eq!(heaviest, (9901..=10000).rev().map(f64::from).collect::<Vec<_>>());
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM graph_local('kb', 'n0', hops => 2, max_edges => 1000000)"
        ),
        10_000
    );
}
