//! Communities, their reports, and the search over them.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one, run};

fn add(client: &mut Client, edges: &[(&str, &str, &str)]) {
    for (subject, predicate, object) in edges {
        client
            .execute("SELECT graph_add('kb', $1, $2, $3)", &[subject, predicate, object])
            .unwrap();
    }
}

/// Communities as (members, in the order of their keys), sorted.
fn communities(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT string_agg(t.key, ' ' ORDER BY t.key) FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id \
         JOIN kb.entity t ON t.id = e.entity_id GROUP BY c.id ORDER BY 1",
    )
}

#[test]
fn components_are_those_of_a_recursive_query() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.entity (name) SELECT 'n' || i FROM generate_series(1, 300) i; \
         INSERT INTO kb.relation (source_id, predicate, target_id) \
         SELECT DISTINCT a.id, 'p', b.id FROM generate_series(1, 170) i \
         JOIN kb.entity a ON a.name = 'n' || 1 + (i * 7919) % 300 JOIN kb.entity b ON b.name = 'n' || 1 + (i * i * 31 + 7) % 300",
    );
    let row = client
        .query_one(
            "SELECT level, communities, largest FROM graph_communities('kb', 'components')",
            &[],
        )
        .unwrap();
    let found = communities(&mut client);
    let expected: Vec<String> = list(
        &mut client,
        "WITH RECURSIVE reach AS (SELECT id AS origin, id FROM kb.entity UNION \
           SELECT c.origin, CASE WHEN r.source_id = c.id THEN r.target_id ELSE r.source_id END \
           FROM reach c JOIN kb.relation r ON c.id IN (r.source_id, r.target_id)) \
         SELECT string_agg(t.key, ' ' ORDER BY t.key) FROM (SELECT id, min(origin) AS label FROM reach GROUP BY id) l \
         JOIN kb.entity t USING (id) GROUP BY l.label ORDER BY 1",
    );
    assert_eq!(found, expected);
    let largest = found.iter().map(|members| members.split(' ').count()).max().unwrap() as i64;
    assert!(largest > 5 && found.len() > 50, "a graph of large and small components");
    assert_eq!(
        (row.get::<_, i32>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)),
        (0, found.len() as i64, largest)
    );
    let sizes = "SELECT count(*) FROM kb.community c WHERE size <> (SELECT count(*) FROM kb.community_entity e WHERE e.community_id = c.id)";
    assert_eq!(one::<i64>(&mut client, sizes), 0);
}

#[test]
fn modularity_is_that_of_the_formula() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    assert!(
        client
            .query("SELECT * FROM graph_communities('kb')", &[])
            .unwrap()
            .is_empty(),
        "an empty graph has none"
    );
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM graph_summarize('kb')"), 0);
    let modularity = |client: &mut Client, resolution: &str| -> f64 {
        one(
            client,
            &format!("SELECT modularity FROM graph_communities('kb', 'components', {resolution})"),
        )
    };
    add(
        &mut client,
        &[
            ("a", "p", "b"),
            ("b", "p", "c"),
            ("c", "p", "a"),
            ("x", "p", "y"),
            ("y", "p", "z"),
            ("z", "p", "x"),
        ],
    );
    assert!((modularity(&mut client, "1") - 0.5).abs() < 1e-9, "two triangles");
    assert!((modularity(&mut client, "2") - 0.0).abs() < 1e-9);
    assert!((modularity(&mut client, "0") - 1.0).abs() < 1e-9);
    // Of a total weight of 8, the first has 5 and the other 3.
    run(&mut client, "SELECT graph_add('kb', 'a', 'p', 'b', weight => 3)");
    assert!(
        (modularity(&mut client, "1") - (1.0 - (25.0 + 9.0) / 64.0)).abs() < 1e-9,
        "weights count"
    );
    // Joined by one edge it is one component, whose modularity is none.
    add(&mut client, &[("a", "p", "x")]);
    assert!(modularity(&mut client, "1").abs() < 1e-9);
    assert_eq!(communities(&mut client), ["a b c x y z"]);
}

#[test]
fn a_community_with_the_same_members_keeps_its_row_and_its_report() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb')");
    add(
        &mut client,
        &[("a", "likes", "b"), ("c", "likes", "d"), ("e", "likes", "f")],
    );
    run(
        &mut client,
        "INSERT INTO kb.entity (name) VALUES ('alone'); SELECT * FROM graph_communities('kb', 'components')",
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"),
        3,
        "one of one entity gets none"
    );
    let state = "SELECT string_agg(concat_ws('|', t.key, c.id, c.summary, c.stale), ', ' ORDER BY t.key) FROM kb.community c \
                 JOIN kb.community_entity e ON e.community_id = c.id JOIN kb.entity t ON t.id = e.entity_id";
    let before: String = one(&mut client, state);
    run(&mut client, "SELECT * FROM graph_communities('kb', 'components')");
    assert_eq!(one::<String>(&mut client, state), before);
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM graph_summarize('kb')"),
        0,
        "nothing is stale"
    );

    let summary = "SELECT c.summary FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id \
                   JOIN kb.entity t ON t.id = e.entity_id WHERE t.key = ";
    let id = summary.replace("c.summary", "c.id");
    let (first, second): (i64, i64) = (
        one(&mut client, &format!("{id} 'a'")),
        one(&mut client, &format!("{id} 'c'")),
    );
    // Another edge inside makes the report stale, an edge outwards another community, in the row of the one that it comes from.
    add(&mut client, &[("b", "fears", "a"), ("d", "meets", "e")]);
    run(&mut client, "SELECT * FROM graph_communities('kb', 'components')");
    assert_eq!(communities(&mut client), ["a b", "alone", "c d e f"]);
    let stale: Vec<String> = list(
        &mut client,
        "SELECT DISTINCT string_agg(t.key, ' ' ORDER BY t.key) FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id \
         JOIN kb.entity t ON t.id = e.entity_id WHERE c.stale AND c.size > 1 GROUP BY c.id ORDER BY 1",
    );
    assert_eq!(stale, ["a b", "c d e f"]);
    let unwritten =
        "SELECT count(*) FROM kb.community WHERE size = 4 AND num_nulls(title, summary, text, findings, embedding) = 5";
    assert_eq!(one::<i64>(&mut client, unwritten), 1);
    assert_eq!(one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"), 2);
    assert_eq!(one::<i64>(&mut client, &format!("{id} 'a'")), first);
    assert_eq!(one::<i64>(&mut client, &format!("{id} 'c'")), second);
    assert!(one::<String>(&mut client, &format!("{summary} 'a'")).contains("b fears a"));

    // Rows that are written and deleted without a function count alike.
    run(
        &mut client,
        "DELETE FROM kb.relation WHERE predicate = 'fears'; SELECT * FROM graph_communities('kb', 'components')",
    );
    assert_eq!(one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"), 1);
    assert_eq!(one::<String>(&mut client, &format!("{summary} 'a'")), "a likes b.");
    run(
        &mut client,
        "INSERT INTO kb.relation (source_id, predicate, target_id) \
         SELECT b.id, 'adores', a.id FROM kb.entity a, kb.entity b WHERE a.key = 'a' AND b.key = 'b'; SELECT * FROM graph_communities('kb', 'components')",
    );
    assert_eq!(one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"), 1);
    assert!(one::<String>(&mut client, &format!("{summary} 'a'")).contains("b adores a"));
    run(
        &mut client,
        "UPDATE kb.relation SET description = 'since May' WHERE predicate = 'adores'; SELECT * FROM graph_communities('kb', 'components')",
    );
    assert_eq!(one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"), 1);
    assert!(one::<String>(&mut client, &format!("{summary} 'a'")).contains("since May"));
}

/// Documents of two themes that share no entity, with metadata that all of one theme share.
const THEMES: &str = r#"SELECT rag_create('kb');
INSERT INTO kb.document (source_key, body, metadata) VALUES
 ('s1', 'Oban Shipyard built the Night Ferry. The Night Ferry carries Maria Lopez.', '{"theme": "sea", "year": 1}'),
 ('s2', 'Maria Lopez moved to Oban Shipyard. The Night Ferry serves Port Ellen.', '{"theme": "sea", "year": 2}'),
 ('s3', 'Storms often delay the Night Ferry at Port Ellen.', '{"theme": "sea", "year": 1}'),
 ('b1', 'Berta Lind runs the Corner Bakery. The Corner Bakery buys from Holm Mill.', '{"theme": "bread", "year": 1}'),
 ('b2', 'Holm Mill grinds for the Corner Bakery. Berta Lind visits Holm Mill.', '{"theme": "bread", "year": 1}'),
 ('alone', 'Nobody ever visits the Gobi.', '{"theme": "sand", "year": 1}');
SELECT * FROM graph_extract('kb'); SELECT * FROM graph_communities('kb'); SELECT * FROM graph_summarize('kb')"#;

#[test]
fn a_report_says_what_the_evidence_says() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, THEMES);
    let reports = client
        .query(
            "SELECT c.id, title, summary, text, findings, rating, size, source_count, metadata::text, stale, \
                    embedding = rag_embed('kb', text) FROM kb.community c WHERE size > 1 ORDER BY source_count",
            &[],
        )
        .unwrap();
    assert_eq!(reports.len(), 2);
    for (report, (sources, metadata)) in reports
        .iter()
        .zip([(2, r#"{"year": 1, "theme": "bread"}"#), (3, r#"{"theme": "sea"}"#)])
    {
        let id: i64 = report.get(0);
        let (title, summary, text): (&str, &str, &str) = (report.get(1), report.get(2), report.get(3));
        assert_eq!((report.get::<_, i32>(7), report.get::<_, &str>(8)), (sources, metadata));
        assert_eq!(text, format!("{title}\n\n{summary}"));
        assert!(!report.get::<_, bool>(9) && report.get::<_, bool>(10));
        assert!((0.0..=10.0).contains(&report.get::<_, f64>(5)));
        // Every line of the summary is a sentence of a document behind the community.
        let inside = format!(
            "SELECT string_agg(d.body, ' ') FROM kb.document d JOIN kb.community_source s ON s.document_id = d.id \
                              WHERE s.community_id = {id}"
        );
        let bodies: String = one(&mut client, &inside);
        for line in summary.lines().flat_map(|line| line.split_inclusive(". ")) {
            assert!(bodies.contains(line.trim()), "{line} is not in {bodies}");
        }
        let findings: serde_json::Value = report.get(4);
        let findings = findings.as_array().unwrap();
        assert!(!findings.is_empty() && findings.len() <= 5);
        for finding in findings {
            assert!(bodies.contains(finding["explanation"].as_str().unwrap()));
            let relations: Vec<i64> = finding["relations"]
                .as_array()
                .unwrap()
                .iter()
                .map(|r| r.as_i64().unwrap())
                .collect();
            let sql = "SELECT count(*) FROM kb.relation r JOIN kb.community_entity a ON a.entity_id = r.source_id \
                       JOIN kb.community_entity b ON b.entity_id = r.target_id \
                       WHERE r.id = ANY ($1) AND a.community_id = $2 AND b.community_id = $2";
            let known: i64 = client.query_one(sql, &[&relations, &id]).unwrap().get(0);
            assert_eq!(known, relations.len() as i64);
            assert!(known > 0);
        }
        let members: Vec<String> = list(
            &mut client,
            &format!(
                "SELECT name FROM kb.entity t JOIN kb.community_entity e \
            ON e.entity_id = t.id WHERE e.community_id = {id}"
            ),
        );
        assert!(members.iter().any(|name| title.contains(name.as_str())), "{title}");
        assert_eq!(report.get::<_, i32>(6), members.len() as i32);
    }
    let sources = "SELECT count(*) FROM (SELECT DISTINCT e.community_id, m.document_id FROM kb.community_entity e \
                   JOIN kb.mention m USING (entity_id) EXCEPT TABLE kb.community_source) missing";
    assert_eq!(one::<i64>(&mut client, sources), 0);
    let alone: Vec<Option<String>> = list(&mut client, "SELECT summary FROM kb.community WHERE size = 1");
    assert_eq!(alone, [None]);
}

#[test]
fn only_reports_that_are_stale_are_written() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, THEMES);
    let bread = "SELECT md5(c::text || xmin) FROM kb.community c WHERE metadata @> '{\"theme\": \"bread\"}'";
    let before: String = one(&mut client, bread);
    run(&mut client, "DELETE FROM kb.document WHERE source_key = 's3'");
    let gone: Vec<Option<String>> = list(&mut client, "SELECT summary FROM kb.community WHERE stale AND size > 1");
    assert_eq!(gone, [None], "a report that a document was part of is emptied at once");
    run(&mut client, "SELECT * FROM graph_communities('kb')");
    assert_eq!(one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"), 1);
    assert_eq!(one::<String>(&mut client, bread), before, "the other stands untouched");
    let text: String = one(
        &mut client,
        "SELECT string_agg(text, '') FROM kb.community WHERE metadata @> '{\"theme\": \"sea\"}'",
    );
    assert!(text.contains("Port Ellen") && !text.contains("torms"), "{text}");
}

#[test]
fn global_search_ranks_reports_and_hides_those_that_draw_on_others() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, THEMES);
    let titles = |client: &mut Client, arguments: &str| -> Vec<String> {
        list(
            client,
            &format!("SELECT title FROM graph_global('kb', 'who runs the bakery and the mill?'{arguments})"),
        )
    };
    let all = titles(&mut client, "");
    assert_eq!(all.len(), 2);
    assert!(all[0].contains("Bakery") && all[1].contains("Night Ferry"), "{all:?}");
    assert_eq!(titles(&mut client, ", k => 1"), all[..1]);
    assert!(titles(&mut client, ", k => 0").is_empty());
    assert_eq!(titles(&mut client, ", level => 0"), all);
    assert_eq!(
        titles(&mut client, ", level => 1"),
        all,
        "what does not divide stands for itself below"
    );
    // Only where all documents pass.
    assert_eq!(titles(&mut client, r#", filter => '{"theme": "sea"}'"#), all[1..]);
    assert_eq!(
        titles(&mut client, r#", filter => '{"year": 1}'"#),
        all[..1],
        "of the other, one is of year 2"
    );
    assert_eq!(titles(&mut client, ", documents => '{4, 5}'"), all[..1]);
    assert_eq!(
        titles(&mut client, ", documents => '{1, 2, 3, 4}'"),
        all[1..],
        "document 5 is not listed"
    );
    assert_eq!(titles(&mut client, ", documents => '{1, 2, 3, 4, 5, 6, 99}'"), all);
    assert!(titles(&mut client, ", documents => '{}'").is_empty());

    let row = client
        .query_one(
            "SELECT g.score, 1 - (c.embedding <=> rag_embed('kb', 'mill')), g.summary = c.summary, g.rating = c.rating, g.size = c.size \
             FROM graph_global('kb', 'mill', k => 1) g JOIN kb.community c ON c.id = g.community_id",
            &[],
        )
        .unwrap();
    assert!((row.get::<_, f64>(0) - row.get::<_, f64>(1)).abs() < 1e-6 && row.get::<_, f64>(0) > 0.1);
    assert!(row.get::<_, bool>(2) && row.get::<_, bool>(3) && row.get::<_, bool>(4));
    // What was stated by hand rests on no document: it is shown only to who asks for no documents.
    run(
        &mut client,
        "SELECT graph_add('kb', 'Berlin Mint', 'strikes', 'Gold Coin'); SELECT * FROM graph_communities('kb'); SELECT * FROM graph_summarize('kb')",
    );
    assert_eq!(titles(&mut client, "").len(), 3);
    assert_eq!(titles(&mut client, ", documents => '{1, 2, 3, 4, 5, 6}'").len(), 2);
    assert_eq!(titles(&mut client, r#", filter => '{"year": 1}'"#), all[..1]);
}

#[test]
fn many_reports_are_ranked_through_an_index() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"SELECT rag_create('kb', dimensions => 32, settings => '{"exact_below": 50}');
           INSERT INTO kb.entity (name) SELECT 'star' || i FROM generate_series(1, 600) i UNION ALL SELECT 'moon' || i FROM generate_series(1, 600) i;
           INSERT INTO kb.relation (source_id, predicate, target_id) SELECT s.id, 'pulls', m.id FROM generate_series(1, 600) i
             JOIN kb.entity s ON s.name = 'star' || i JOIN kb.entity m ON m.name = 'moon' || i;
           SELECT * FROM graph_communities('kb')"#,
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"),
        600
    );
    let found: Vec<f64> = list(
        &mut client,
        "SELECT score FROM graph_global('kb', 'star7 and moon7', k => 12)",
    );
    let nearest: f64 = one(
        &mut client,
        "SELECT max(1 - (embedding <=> (SELECT rag_embed('kb', 'star7 and moon7')))) FROM kb.community",
    );
    assert_eq!(found.len(), 12);
    assert!(found[0] > nearest - 0.05 && found.windows(2).all(|pair| pair[0] >= pair[1]));
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM graph_global('kb', 'star7', k => 600)"
        ),
        600
    );
}
