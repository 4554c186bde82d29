//! The knowledge graph: what graph_extract reads in documents, and what graph_add and plain INSERTs state.

use pg_graphrag_tests::Database;
use postgres::Client;
use postgres::types::FromSqlOwned;

fn value<T: FromSqlOwned>(client: &mut Client, sql: &str) -> T {
    client
        .query_one(sql, &[])
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
        .get(0)
}

fn column<T: FromSqlOwned>(client: &mut Client, sql: &str) -> Vec<T> {
    let rows = client
        .query(sql, &[])
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

fn state(client: &mut Client, sql: &str) -> String {
    client
        .batch_execute(sql)
        .expect_err(sql)
        .code()
        .expect("an error of the server")
        .code()
        .to_owned()
}

/// Documents about a ferry and about a model, cut into small blocks; two of them state the same edge.
const DOCUMENTS: &str = r#"SELECT rag_create('kb', settings => '{"leaf_tokens": 24, "leaf_overlap": 6, "block_tokens": 60}');
INSERT INTO kb.document (source_key, body) VALUES
 ('ferry', E'# Timetable\n\nThe Night Ferry leaves Port Ellen at 22:00. Captain Maria Lopez commands the Night Ferry — 🚢. The harbour office of Port Ellen inspects the Night Ferry twice a year, and writes a long report on every lamp, rope and boat that it holds.\n\nIn 2019 Maria Lopez moved to Oban Shipyard. Oban Shipyard built the Night Ferry and repaired it in 2021.'),
 ('model', E'The fraud_model scores Payments Hub. The Risk Team owns the Fraud Model. Payments Hub runs in Dublin.\n\nThe FRAUD  model uses XGBoost 1.7, while the FRAUD__MODEL of last year was a table.'),
 ('yard', 'Oban Shipyard built the Night Ferry in 1998. Later, as everybody knows, Oban Shipyard built the Night Ferry again. Oban Shipyard employs 300 people in Oban.')"#;

const EDGES: &str = "SELECT s.name || ' | ' || r.predicate || ' | ' || t.name || ' | ' || r.weight || ' | ' || r.source_count \
    FROM kb.relation r JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
    ORDER BY 1 COLLATE \"C\"";

/// Checks what holds between evidence, mentions, entities and relations, whatever was done.
fn check_laws(client: &mut Client) {
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
            value::<i64>(client, &format!("SELECT count(*) FROM ({sql}) broken")),
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
    value(client, &format!("SELECT md5({})", tables.join(" || ")))
}

#[test]
fn documents_are_read_with_their_evidence() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    let blocks: i64 = value(&mut client, "SELECT count(*) FROM kb.block");
    let row = client.query_one("SELECT * FROM graph_extract('kb')", &[]).unwrap();
    let counts: Vec<i64> = (0..5).map(|at| row.get(at)).collect();
    let entities: i64 = value(&mut client, "SELECT count(*) FROM kb.entity");
    let relations: i64 = value(&mut client, "SELECT count(*) FROM kb.relation");
    assert_eq!(counts, [blocks, entities, relations, 0, 0]);
    check_laws(&mut client);

    let names: Vec<String> = column(&mut client, "SELECT name FROM kb.entity ORDER BY name COLLATE \"C\"");
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
    let edges: Vec<String> = column(&mut client, EDGES);
    for edge in [
        "Night Ferry | leaves | Port Ellen | 1 | 1",
        "Maria Lopez | commands | Night Ferry | 1 | 1",
        "Port Ellen | inspects | Night Ferry | 1 | 1",
        "Oban Shipyard | built | Night Ferry | 2 | 2",
        "Risk Team | owns | fraud_model | 1 | 1",
    ] {
        assert!(edges.iter().any(|e| e == edge), "{edge} is not among {edges:?}");
    }
    let spellings: Vec<String> = column(
        &mut client,
        "SELECT key FROM kb.entity WHERE lower(name) ~ '^fraud.*model$'",
    );
    assert_eq!(spellings, ["fraud model"], "one entity whatever the spelling");
    // Three sentences in two blocks of two documents.
    let sql =
        "SELECT quote FROM kb.evidence WHERE subject_name = 'Oban Shipyard' AND predicate = 'built' ORDER BY quote";
    assert_eq!(column::<String>(&mut client, sql).len(), 3);
}

#[test]
fn a_quote_leads_to_the_leaves_whose_window_holds_it() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    client.batch_execute("SELECT * FROM graph_extract('kb')").unwrap();
    let leaves: i64 = value(
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
    let again: i64 = value(
        &mut client,
        "SELECT blocks + entities + relations FROM graph_extract('kb')",
    );
    assert_eq!(
        (again, digest(&mut client)),
        (0, before.clone()),
        "reading twice changes nothing"
    );

    let rows = "SELECT string_agg(e::text, ';' ORDER BY e.id) FROM kb.evidence e WHERE document_id IN (1, 2, 3)";
    let old: String = value(&mut client, rows);
    client
        .batch_execute("INSERT INTO kb.document (body) VALUES ('Later on, Maria Lopez left Oban Shipyard. Oban Shipyard built the Night Ferry.')")
        .unwrap();
    assert_eq!(value::<i64>(&mut client, "SELECT blocks FROM graph_extract('kb')"), 1);
    assert_eq!(
        value::<String>(&mut client, rows),
        old,
        "evidence of other documents keeps its rows"
    );
    let edges: Vec<String> = column(&mut client, EDGES);
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
fn stated_by_hand_it_stays_and_twice_is_once() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute("SELECT rag_create('kb')").unwrap();
    let first: i64 = value(
        &mut client,
        r#"SELECT graph_add('kb', 'Fraud Model', 'is owned by', 'Risk Team', 'since 2020', properties => '{"a": 1, "b": 1}')"#,
    );
    let second: i64 = value(
        &mut client,
        r#"SELECT graph_add('kb', 'fraud_model', 'Is_Owned-By', '  "RISK  team" ', properties => '{"b": 2, "c": {"d": null}}')"#,
    );
    assert_eq!(first, second);
    let row = client
        .query_one(
            "SELECT predicate, description, properties::text, weight, source_count FROM kb.relation",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "is owned by", "the first spelling is shown");
    assert_eq!(
        row.get::<_, &str>(1),
        "since 2020",
        "a description that is not given stays"
    );
    assert_eq!(row.get::<_, &str>(2), r#"{"a": 1, "b": 2, "c": {"d": null}}"#);
    assert_eq!((row.get::<_, f64>(3), row.get::<_, i32>(4)), (1.0, 0));
    let names: Vec<String> = column(&mut client, "SELECT name || degree FROM kb.entity ORDER BY name");
    assert_eq!(names, ["Fraud Model1", "Risk Team1"]);

    let weight = "SELECT weight FROM kb.relation";
    client
        .batch_execute("SELECT graph_add('kb', 'fraud model', 'is owned by', 'risk team', 'anew', weight => 2.5)")
        .unwrap();
    assert_eq!(value::<f64>(&mut client, weight), 2.5);
    client
        .batch_execute("SELECT graph_add('kb', 'fraud model', 'is owned by', 'risk team')")
        .unwrap();
    assert_eq!(
        value::<f64>(&mut client, weight),
        2.5,
        "a weight that is not given stays"
    );
    assert_eq!(
        value::<String>(&mut client, "SELECT description FROM kb.relation"),
        "anew"
    );
    check_laws(&mut client);
    // The other direction and another predicate are other edges.
    client
        .batch_execute("SELECT graph_add('kb', 'risk team', 'is owned by', 'fraud model'), graph_add('kb', 'fraud model', 'fears', 'risk team')")
        .unwrap();
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM kb.relation"), 3);
    check_laws(&mut client);
}

#[test]
fn stated_of_a_document_it_has_evidence_and_goes_with_it() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    let add = "SELECT graph_add('kb', 'Maria Lopez', 'sails on', 'night ferry', document_id => 1";
    client
        .batch_execute(&format!(
            "{add}, quote => 'Maria Lopez commands the Night Ferry — 🚢.', description => 'as captain')"
        ))
        .unwrap();
    let row = client
        .query_one(
            "SELECT e.quote, e.start_char, n.count FROM kb.evidence e, LATERAL (SELECT count(*) FROM kb.node n \
                    WHERE n.block_id = e.block_id AND n.start_char < e.end_char AND n.end_char > e.start_char) n",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, &str>(0), "Maria Lopez commands the Night Ferry — 🚢.");
    assert!(row.get::<_, i32>(1) > 0 && row.get::<_, i64>(2) > 0);
    check_laws(&mut client);

    // Without a quote it is the first sentence with both names; the same statement twice is one.
    for _ in 0..2 {
        client
            .batch_execute("SELECT graph_add('kb', 'maria_lopez', 'works for', 'OBAN shipyard', document_id => 1)")
            .unwrap();
    }
    let quotes: Vec<String> = column(
        &mut client,
        "SELECT quote FROM kb.evidence WHERE predicate = 'works for'",
    );
    assert_eq!(quotes, ["In 2019 Maria Lopez moved to Oban Shipyard."]);
    // Names that stand in no sentence: evidence of the document as a whole.
    client
        .batch_execute("SELECT graph_add('kb', 'Dublin', 'lies in', 'Ireland', document_id => 2)")
        .unwrap();
    let sql = "SELECT count(*) FROM kb.evidence WHERE quote IS NULL AND block_id IS NULL AND document_id = 2";
    assert_eq!(value::<i64>(&mut client, sql), 1);
    check_laws(&mut client);

    // Two documents are two blocks; another quote in the same block is the same block.
    client
        .batch_execute(
            "SELECT graph_add('kb', 'Maria Lopez', 'sails on', 'Night Ferry', 'as a guest', document_id => 3)",
        )
        .unwrap();
    let sails =
        "SELECT weight || ' ' || source_count || ' ' || description FROM kb.relation WHERE predicate = 'sails on'";
    assert_eq!(value::<String>(&mut client, sails), "2 2 as a guest\nas captain");
    client
        .batch_execute(&format!("{add}, quote => 'Maria Lopez commands')"))
        .unwrap();
    assert_eq!(value::<String>(&mut client, sails), "2 2 as a guest\nas captain");
    check_laws(&mut client);

    client.batch_execute("DELETE FROM kb.document WHERE id = 1").unwrap();
    assert_eq!(value::<String>(&mut client, sails), "1 1 as a guest");
    let names: Vec<String> = column(&mut client, "SELECT name FROM kb.entity ORDER BY name COLLATE \"C\"");
    assert_eq!(names, ["Dublin", "Ireland", "Maria Lopez", "Night Ferry"]);
    client.batch_execute("DELETE FROM kb.document").unwrap();
    assert_eq!(
        value::<i64>(&mut client, "SELECT count(*) FROM kb.entity, kb.relation"),
        0
    );
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
}

#[test]
fn what_cannot_be_added_is_refused_and_nothing_is_left() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(DOCUMENTS).unwrap();
    for (arguments, expected) in [
        ("'a', 'b', 'c', document_id => 99", "P0002"),
        (
            "'a', 'b', 'c', document_id => 1, quote => 'It stands nowhere.'",
            "22023",
        ),
        ("'a', 'b', 'c', quote => 'The Night Ferry'", "22023"),
        ("'a', 'b', 'c', document_id => 1, weight => 2", "22023"),
        ("'a', 'b', 'c', weight => 0", "22023"),
        ("'a', 'b', 'c', weight => -1", "22023"),
        ("'a', 'b', 'c', weight => 'NaN'", "22023"),
        ("'a', 'b', 'c', weight => 'Infinity'", "22023"),
        ("'a', 'b', 'c', properties => '[1]'", "22023"),
        ("'a', 'b', 'c', properties => NULL", "22004"),
        ("NULL, 'b', 'c'", "22004"),
        ("'a', ' _ ', 'c'", "22023"),
        ("'a', 'b', '\"\"'", "22023"),
        ("repeat('a', 2001), 'b', 'c'", "22001"),
    ] {
        assert_eq!(
            state(&mut client, &format!("SELECT graph_add('kb', {arguments})")),
            expected,
            "{arguments}"
        );
    }
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
    client
        .batch_execute("SELECT graph_add('kb', repeat('a', 2000), repeat('é', 1000), 'c')")
        .unwrap();
}

#[test]
fn what_a_document_said_does_not_outlive_it_in_what_was_stated_by_hand() {
    let database = Database::new();
    let mut client = database.client();
    let by_document = r#"SELECT graph_add('kb', 'Acme Works', 'meets', 'Zebra Club', 'secret words', document_id => 1,
                         properties => '{"secret": 1}')"#;
    let by_hand = "SELECT graph_add('kb', 'acme works', 'meets', 'zebra club', weight => 7)";
    for steps in [[by_document, by_hand], [by_hand, by_document]] {
        client
            .batch_execute("SELECT rag_create('kb'); INSERT INTO kb.document (id, body) VALUES (1, 'The Zebra Club meets Acme Works.'); \
                            SELECT * FROM graph_extract('kb')")
            .unwrap();
        steps.iter().for_each(|step| client.batch_execute(step).unwrap());
        assert_eq!(
            value::<f64>(
                &mut client,
                "SELECT weight FROM kb.relation WHERE source_id = (SELECT id FROM kb.entity WHERE key = 'acme works')"
            ),
            1.0
        );
        check_laws(&mut client);
        client.batch_execute("DELETE FROM kb.document").unwrap();
        let row = client
            .query_one("SELECT weight, description, properties::text FROM kb.relation", &[])
            .unwrap();
        assert_eq!(row.get::<_, f64>(0), 7.0, "the given weight counts again");
        assert_eq!(row.get::<_, Option<String>>(1), None);
        assert_eq!(row.get::<_, &str>(2), "{}");
        let types: Vec<Option<String>> = column(&mut client, "SELECT type FROM kb.entity");
        assert_eq!(types, [None, None]);
        client.batch_execute("SELECT rag_drop('kb')").unwrap();
    }
}

#[test]
fn plain_rows_are_as_good_as_graph_add() {
    let database = Database::new();
    let mut client = database.client();
    client
        .batch_execute(
            "SELECT rag_create('kb'); \
             INSERT INTO kb.entity (name, type) VALUES ('Fraud  Model', 'model'), ('“Risk_Team”', NULL), ('Ledger', NULL); \
             INSERT INTO kb.relation (source_id, predicate, target_id, weight, properties) \
             SELECT s.id, 'Is_Owned-By', t.id, 4, '{\"a\": 1}' FROM kb.entity s, kb.entity t WHERE s.key = 'fraud model' AND t.key = 'risk team'; \
             INSERT INTO kb.relation (source_id, predicate, target_id) \
             SELECT s.id, 'writes', t.id FROM kb.entity s, kb.entity t WHERE s.key = 'fraud model' AND t.key = 'ledger'",
        )
        .unwrap();
    let keys: Vec<String> = column(
        &mut client,
        "SELECT predicate_key || ' ' || weight FROM kb.relation ORDER BY id",
    );
    assert_eq!(keys, ["is owned by 4", "writes 1"]);
    // graph_add finds the same rows.
    let id: i64 = value(
        &mut client,
        "SELECT graph_add('kb', 'FRAUD MODEL', 'is owned by', 'risk team')",
    );
    assert_eq!(id, 1);
    assert_eq!(
        value::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE id = 1"),
        4.0,
        "keeps the weight that it was given"
    );
    let edges: Vec<String> = column(
        &mut client,
        "SELECT source || ' ' || predicate || ' ' || target FROM graph_local('kb', 'fraud_model')",
    );
    assert_eq!(
        edges,
        ["Fraud  Model Is_Owned-By “Risk_Team”", "Fraud  Model writes Ledger"]
    );
    client.batch_execute("SELECT * FROM graph_communities('kb')").unwrap();
    check_laws(&mut client);
    assert_eq!(
        value::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"),
        1
    );

    // A document that says the same counts; when it goes, what was given counts again.
    client
        .batch_execute(
            "INSERT INTO kb.document (body) VALUES ('Nothing of it.'); \
                        SELECT graph_add('kb', 'fraud model', 'is owned by', 'risk team', document_id => 1)",
        )
        .unwrap();
    assert_eq!(
        value::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE id = 1"),
        1.0
    );
    client.batch_execute("DELETE FROM kb.document").unwrap();
    assert_eq!(
        value::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE id = 1"),
        4.0
    );

    client
        .batch_execute("UPDATE kb.entity SET name = 'Fraud Model 2' WHERE key = 'fraud model'")
        .unwrap();
    assert_eq!(
        value::<i64>(&mut client, "SELECT count(*) FROM graph_local('kb', 'FRAUD_MODEL_2')"),
        2
    );
    assert_eq!(
        state(&mut client, "INSERT INTO kb.entity (name) VALUES ('risk  TEAM')"),
        "23505"
    );
    assert_eq!(
        state(&mut client, "INSERT INTO kb.entity (name) VALUES (' _ ')"),
        "23514"
    );
    assert_eq!(state(&mut client, "UPDATE kb.relation SET weight = 'NaN'"), "23514");
    assert_eq!(state(&mut client, "UPDATE kb.relation SET properties = '1'"), "23514");
    client
        .batch_execute("DELETE FROM kb.entity WHERE key = 'ledger'")
        .unwrap();
    client.batch_execute("SELECT * FROM graph_communities('kb')").unwrap();
    check_laws(&mut client);
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
            value::<String>(&mut client, "SELECT string_agg(concat_ws('|', key, name, type, degree, source_count), ';' ORDER BY key COLLATE \"C\") FROM kb.entity"),
            column::<String>(&mut client, EDGES).join(";"),
            value(&mut client, "SELECT string_agg(concat_ws('|', title, summary, rating, text, size, encode(member_hash, 'hex'), embedding), ';' ORDER BY member_hash) FROM kb.community"),
            value(&mut client, "SELECT string_agg(concat_ws('|', hop, source, predicate, target, weight, quote), ';') FROM graph_local('kb', 'harbour town', 3)"),
            value(&mut client, "SELECT string_agg(concat_ws('|', score, title, summary), ';') FROM graph_global('kb', 'who feeds harbour town?')"),
        ]);
        client.batch_execute("SELECT rag_drop('kb')").unwrap();
    }
    assert!(graphs[0].iter().all(|part| part.len() > 100), "{graphs:?}");
    assert_eq!(graphs[0], graphs[1]);
    assert_eq!(graphs[0], graphs[2]);
}
