//! The knowledge graph: what graph_extract reads in documents, and the laws that it keeps.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{list, one};

/// Documents about a ferry and about a model, cut into small blocks; two of them state the same edge.
pub const DOCUMENTS: &str = r#"SELECT rag_create('kb', settings => '{"leaf_tokens": 24, "leaf_overlap": 6, "block_tokens": 60}');
INSERT INTO kb.document (source_key, body) VALUES
 ('ferry', E'# Timetable\n\nThe Night Ferry leaves Port Ellen at 22:00. As captain, Maria Lopez commands the Night Ferry — 🚢. The harbour office of Port Ellen inspects the Night Ferry twice a year, and writes a long report on every lamp, rope and boat that it holds.\n\nIn 2019 Maria Lopez moved to Oban Shipyard. Oban Shipyard built the Night Ferry and repaired it in 2021.'),
 ('model', E'The fraud_model scores Payments Hub. The Risk Team owns the Fraud Model. Payments Hub runs in Dublin.\n\nThe FRAUD  model uses XGBoost 1.7, while the FRAUD__MODEL of last year was a table.'),
 ('yard', 'Oban Shipyard built the Night Ferry in 1998. Later, as everybody knows, Oban Shipyard built the Night Ferry again. Oban Shipyard employs 300 people in Oban.')"#;

const EDGES: &str = "SELECT s.name || ' | ' || r.predicate || ' | ' || t.name || ' | ' || r.weight || ' | ' || r.source_count \
    FROM kb.relation r JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
    ORDER BY 1";

/// Checks what holds between evidence, mentions, entities and relations, whatever was done.
pub fn check_laws(client: &mut Client) {
    for (law, sql) in [
        (
            "a quote stands where its offsets say",
            "SELECT e.id FROM kb.evidence e LEFT JOIN kb.document d ON d.id = e.document_id \
            WHERE d.id IS NULL OR (e.quote IS NOT NULL AND substr(d.body, e.start_char + 1, e.end_char - e.start_char) <> e.quote)",
        ),
        (
            "a quote is inside its block",
            "SELECT e.id FROM kb.evidence e JOIN kb.block b ON b.id = e.block_id \
            WHERE e.start_char < b.start_char OR e.end_char > b.end_char OR b.document_id <> e.document_id",
        ),
        (
            "a mention stands where its offsets say",
            "SELECT m.id FROM kb.mention m LEFT JOIN kb.document d ON d.id = m.document_id \
            WHERE d.id IS NULL OR (m.start_char IS NOT NULL AND \
              regexp_replace(substr(d.body, m.start_char + 1, m.end_char - m.start_char), '\\s+', ' ', 'g') <> m.name)",
        ),
        (
            "weight counts blocks",
            "SELECT r.id FROM kb.relation r JOIN kb.evidence e ON e.relation_id = r.id GROUP BY r.id \
            HAVING r.weight <> count(DISTINCT coalesce(e.block_id, -e.document_id)) OR r.source_count <> count(DISTINCT e.document_id)",
        ),
        (
            "without evidence a relation is stated by hand",
            "SELECT id FROM kb.relation r WHERE given_weight IS NULL \
            AND NOT EXISTS (SELECT FROM kb.evidence e WHERE e.relation_id = r.id)",
        ),
        (
            "degree counts edges to others",
            "SELECT t.id FROM kb.entity t WHERE t.degree <> (SELECT count(*) FROM kb.relation r \
            WHERE t.id IN (r.source_id, r.target_id) AND r.source_id <> r.target_id)",
        ),
        (
            "source_count counts documents",
            "SELECT t.id FROM kb.entity t WHERE t.source_count <> \
            (SELECT count(DISTINCT document_id) FROM kb.mention m WHERE m.entity_id = t.id)",
        ),
        (
            "an entity is mentioned or stated",
            "SELECT t.id FROM kb.entity t WHERE NOT t.given AND t.source_count = 0 AND t.degree = 0",
        ),
        (
            "evidence has the keys of its relation",
            "SELECT e.id FROM kb.evidence e JOIN kb.relation r ON r.id = e.relation_id \
            JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
            WHERE e.subject_key <> s.key OR e.object_key <> t.key",
        ),
    ] {
        assert_eq!(
            one::<i64>(client, &format!("SELECT count(*) FROM ({sql}) broken")),
            0,
            "{law}"
        );
    }
}

/// Every row of the graph with its ids, as one digest.
fn digest(client: &mut Client) -> String {
    let tables = ["entity", "relation", "mention", "evidence", "entity_alias"].map(|table| {
        format!("coalesce((SELECT string_agg(t::text, ';' ORDER BY t::text COLLATE \"C\") FROM kb.{table} t), '-')")
    });
    one(client, &format!("SELECT md5({})", tables.join(" || ")))
}

#[test]
fn documents_are_read_with_their_evidence() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    let blocks: i64 = one(&mut client, "SELECT count(*) FROM kb.block");
    let row = client.query_one("SELECT * FROM graph_extract('kb')", &[]).unwrap();
    let counts: Vec<i64> = (0..5).map(|at| row.get(at)).collect();
    let entities: i64 = one(&mut client, "SELECT count(*) FROM kb.entity");
    let relations: i64 = one(&mut client, "SELECT count(*) FROM kb.relation");
    assert_eq!(counts, [blocks, entities, relations, 0, 0]);
    check_laws(&mut client);

    let names: Vec<String> = list(&mut client, "SELECT name FROM kb.entity ORDER BY name COLLATE \"C\"");
    for name in [
        "Dublin",
        "Maria Lopez",
        "Night Ferry",
        "Oban Shipyard",
        "Payments Hub",
        "Port Ellen",
        "Risk Team",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} is not among {names:?}");
    }
    let edges: Vec<String> = list(&mut client, EDGES);
    for edge in [
        "Night Ferry | leaves | Port Ellen | 1 | 1",
        "Maria Lopez | commands | Night Ferry | 1 | 1",
        "Port Ellen | inspects | Night Ferry | 1 | 1",
        "Oban Shipyard | built | Night Ferry | 2 | 2",
        "Risk Team | owns | fraud_model | 1 | 1",
    ] {
        assert!(edges.iter().any(|e| e == edge), "{edge} is not among {edges:?}");
    }
    let spellings: Vec<String> = list(
        &mut client,
        "SELECT key FROM kb.entity WHERE lower(name) ~ '^fraud.*model$'",
    );
    assert_eq!(spellings, ["fraud model"], "one entity whatever the spelling");
    // Three sentences in two blocks of two documents.
    let sql =
        "SELECT quote FROM kb.evidence WHERE subject_name = 'Oban Shipyard' AND predicate = 'built' ORDER BY quote";
    assert_eq!(list::<String>(&mut client, sql).len(), 3);
}

#[test]
fn a_quote_leads_to_the_leaves_whose_window_holds_it() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    client.batch_execute("SELECT * FROM graph_extract('kb')").unwrap();
    let leaves: i64 = one(
        &mut client,
        "SELECT max(n) FROM (SELECT count(*) n FROM kb.node GROUP BY block_id) b",
    );
    assert!(leaves > 1, "blocks have several leaves");
    let sql = "SELECT x.node_ids = ARRAY(SELECT DISTINCT n.id FROM kb.evidence e JOIN kb.relation r ON r.id = e.relation_id \
                 JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
                 JOIN kb.node n ON n.document_id = e.document_id AND n.level = 0 \
                   AND int4range(n.start_char, n.end_char) && int4range(e.start_char, e.end_char) \
                 WHERE (s.name, r.predicate, t.name) = (x.source, x.predicate, x.target) ORDER BY 1), \
               x.quote = ANY (SELECT e.quote FROM kb.evidence e WHERE e.document_id = ANY (x.document_ids)), \
               cardinality(x.node_ids) \
               FROM graph_local('kb', 'night ferry', hops => 3) x";
    let rows = client.query(sql, &[]).unwrap();
    assert!(rows.len() >= 6, "{}", rows.len());
    for row in &rows {
        assert!(row.get::<_, bool>(0) && row.get::<_, bool>(1));
        assert!(row.get::<_, i32>(2) > 0);
    }
    assert!(
        rows.iter().any(|row| row.get::<_, i32>(2) > 1),
        "a quote that reaches into two windows"
    );
}

#[test]
fn only_new_blocks_are_read_again() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    client.batch_execute("SELECT * FROM graph_extract('kb')").unwrap();
    let before = digest(&mut client);
    let again: i64 = one(
        &mut client,
        "SELECT blocks + entities + relations FROM graph_extract('kb')",
    );
    assert_eq!(
        (again, digest(&mut client)),
        (0, before.clone()),
        "reading twice changes nothing"
    );

    let rows = "SELECT string_agg(e::text, ';' ORDER BY e.id) FROM kb.evidence e WHERE document_id IN (1, 2, 3)";
    let old: String = one(&mut client, rows);
    client
        .batch_execute("INSERT INTO kb.document (body) VALUES ('Later on, Maria Lopez left Oban Shipyard. Oban Shipyard built the Night Ferry.')")
        .unwrap();
    assert_eq!(one::<i64>(&mut client, "SELECT blocks FROM graph_extract('kb')"), 1);
    assert_eq!(
        one::<String>(&mut client, rows),
        old,
        "evidence of other documents keeps its rows"
    );
    let edges: Vec<String> = list(&mut client, EDGES);
    assert!(
        edges.contains(&"Oban Shipyard | built | Night Ferry | 3 | 3".to_owned()),
        "{edges:?}"
    );
    check_laws(&mut client);

    client
        .batch_execute("DELETE FROM kb.document WHERE source_key IS NULL")
        .unwrap();
    assert_eq!(digest(&mut client), before, "and when it goes, all is as it was");
}

#[test]
fn the_graph_does_not_depend_on_the_order_of_documents() {
    let database = Database::new();
    let mut client = database.client();
    let mut graphs = vec![];
    for order in ["i", "i DESC", "md5(i::text)"] {
        client
            .batch_execute(&format!(
                "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) \
                 SELECT i, 'Station ' || i % 7 || ' feeds the Grid_' || i % 5 || '. The GRID ' || i % 5 || ' serves Harbour Town. ' || \
                   CASE WHEN i % 2 = 0 THEN 'Harbour Town hires Ada Byron' ELSE 'HARBOUR town dreads Station ' || i % 3 END || '.' \
                 FROM generate_series(1, 40) i ORDER BY {order}; \
                 SELECT * FROM graph_extract('kb'); SELECT * FROM graph_communities('kb'); SELECT * FROM graph_summarize('kb')"
            ))
            .unwrap();
        check_laws(&mut client);
        graphs.push([
            one::<String>(&mut client, "SELECT string_agg(concat_ws('|', key, name, type, degree, source_count), ';' ORDER BY key COLLATE \"C\") FROM kb.entity"),
            list::<String>(&mut client, EDGES).join(";"),
            one(&mut client, "SELECT string_agg(concat_ws('|', title, summary, rating, text, size, encode(member_hash, 'hex'), embedding), ';' ORDER BY member_hash) FROM kb.community"),
            one(&mut client, "SELECT string_agg(concat_ws('|', hop, source, predicate, target, weight, quote), ';') FROM graph_local('kb', 'harbour town', 3)"),
            one(&mut client, "SELECT string_agg(concat_ws('|', score, title, summary), ';') FROM graph_global('kb', 'who feeds harbour town?')"),
        ]);
        client.batch_execute("SELECT rag_drop('kb')").unwrap();
    }
    assert!(graphs[0].iter().all(|part| part.len() > 100), "{graphs:?}");
    assert_eq!(graphs[0], graphs[1]);
    assert_eq!(graphs[0], graphs[2]);
}
