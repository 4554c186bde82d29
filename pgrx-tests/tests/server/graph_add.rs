//! The knowledge graph: what graph_add and plain INSERTs state.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::graph::{DOCUMENTS, check_laws};
use crate::support::{failure, list, one, run};

fn code(client: &mut Client, sql: &str) -> String {
    failure(client, sql).code().code().to_owned()
}

#[test]
fn stated_by_hand_it_stays_and_twice_is_once() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute("SELECT rag_create('kb')").unwrap();
    let first: i64 = one(
        &mut client,
        r#"SELECT graph_add('kb', 'Fraud Model', 'is owned by', 'Risk Team', 'since 2020', properties => '{"a": 1, "b": 1}')"#,
    );
    let second: i64 = one(
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
    let names: Vec<String> = list(&mut client, "SELECT name || degree FROM kb.entity ORDER BY name");
    assert_eq!(names, ["Fraud Model1", "Risk Team1"]);

    let weight = "SELECT weight FROM kb.relation";
    client
        .batch_execute("SELECT graph_add('kb', 'fraud model', 'is owned by', 'risk team', 'anew', weight => 2.5)")
        .unwrap();
    assert_eq!(one::<f64>(&mut client, weight), 2.5);
    client
        .batch_execute("SELECT graph_add('kb', 'fraud model', 'is owned by', 'risk team')")
        .unwrap();
    assert_eq!(one::<f64>(&mut client, weight), 2.5, "a weight that is not given stays");
    assert_eq!(
        one::<String>(&mut client, "SELECT description FROM kb.relation"),
        "anew"
    );
    check_laws(&mut client);
    // The other direction and another predicate are other edges.
    client
        .batch_execute("SELECT graph_add('kb', 'risk team', 'is owned by', 'fraud model'), graph_add('kb', 'fraud model', 'fears', 'risk team')")
        .unwrap();
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.relation"), 3);
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
    let quotes: Vec<String> = list(
        &mut client,
        "SELECT quote FROM kb.evidence WHERE predicate = 'works for'",
    );
    assert_eq!(quotes, ["In 2019 Maria Lopez moved to Oban Shipyard."]);
    // Names that stand in no sentence: evidence of the document as a whole.
    client
        .batch_execute("SELECT graph_add('kb', 'Dublin', 'lies in', 'Ireland', document_id => 2)")
        .unwrap();
    let sql = "SELECT count(*) FROM kb.evidence WHERE quote IS NULL AND block_id IS NULL AND document_id = 2";
    assert_eq!(one::<i64>(&mut client, sql), 1);
    check_laws(&mut client);

    // Two documents are two blocks; another quote in the same block is the same block.
    client
        .batch_execute(
            "SELECT graph_add('kb', 'Maria Lopez', 'sails on', 'Night Ferry', 'as a guest', document_id => 3)",
        )
        .unwrap();
    let sails =
        "SELECT weight || ' ' || source_count || ' ' || description FROM kb.relation WHERE predicate = 'sails on'";
    assert_eq!(one::<String>(&mut client, sails), "2 2 as a guest\nas captain");
    client
        .batch_execute(&format!("{add}, quote => 'Maria Lopez commands')"))
        .unwrap();
    assert_eq!(one::<String>(&mut client, sails), "2 2 as a guest\nas captain");
    check_laws(&mut client);

    client.batch_execute("DELETE FROM kb.document WHERE id = 1").unwrap();
    assert_eq!(one::<String>(&mut client, sails), "1 1 as a guest");
    let names: Vec<String> = list(&mut client, "SELECT name FROM kb.entity ORDER BY name COLLATE \"C\"");
    assert_eq!(names, ["Dublin", "Ireland", "Maria Lopez", "Night Ferry"]);
    client.batch_execute("DELETE FROM kb.document").unwrap();
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.entity, kb.relation"),
        0
    );
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
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
        ("'a', 'b', 'c', document_id => 1, quote => ''", "22023"),
        ("'a', 'b', 'c', document_id => 1, quote => '  '", "22023"),
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
            code(&mut client, &format!("SELECT graph_add('kb', {arguments})")),
            expected,
            "{arguments}"
        );
    }
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
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
            one::<f64>(
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
        let types: Vec<Option<String>> = list(&mut client, "SELECT type FROM kb.entity");
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
    let keys: Vec<String> = list(
        &mut client,
        "SELECT predicate_key || ' ' || weight FROM kb.relation ORDER BY id",
    );
    assert_eq!(keys, ["is owned by 4", "writes 1"]);
    // graph_add finds the same rows.
    let id: i64 = one(
        &mut client,
        "SELECT graph_add('kb', 'FRAUD MODEL', 'is owned by', 'risk team')",
    );
    assert_eq!(id, 1);
    assert_eq!(
        one::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE id = 1"),
        4.0,
        "keeps the weight that it was given"
    );
    let edges: Vec<String> = list(
        &mut client,
        "SELECT source || ' ' || predicate || ' ' || target FROM graph_local('kb', 'fraud_model')",
    );
    assert_eq!(
        edges,
        ["Fraud  Model Is_Owned-By “Risk_Team”", "Fraud  Model writes Ledger"]
    );
    client.batch_execute("SELECT * FROM graph_communities('kb')").unwrap();
    check_laws(&mut client);
    assert_eq!(one::<i64>(&mut client, "SELECT reports FROM graph_summarize('kb')"), 1);

    // A document that says the same counts; when it goes, what was given counts again.
    client
        .batch_execute(
            "INSERT INTO kb.document (body) VALUES ('Nothing of it.'); \
                        SELECT graph_add('kb', 'fraud model', 'is owned by', 'risk team', document_id => 1)",
        )
        .unwrap();
    assert_eq!(
        one::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE id = 1"),
        1.0
    );
    client.batch_execute("DELETE FROM kb.document").unwrap();
    assert_eq!(
        one::<f64>(&mut client, "SELECT weight FROM kb.relation WHERE id = 1"),
        4.0
    );

    client
        .batch_execute("UPDATE kb.entity SET name = 'Fraud Model 2' WHERE key = 'fraud model'")
        .unwrap();
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM graph_local('kb', 'FRAUD_MODEL_2')"),
        2
    );
    assert_eq!(
        code(&mut client, "INSERT INTO kb.entity (name) VALUES ('risk  TEAM')"),
        "23505"
    );
    assert_eq!(
        code(&mut client, "INSERT INTO kb.entity (name) VALUES (' _ ')"),
        "23514"
    );
    assert_eq!(code(&mut client, "UPDATE kb.relation SET weight = 'NaN'"), "23514");
    assert_eq!(code(&mut client, "UPDATE kb.relation SET properties = '1'"), "23514");
    client
        .batch_execute("DELETE FROM kb.entity WHERE key = 'ledger'")
        .unwrap();
    client.batch_execute("SELECT * FROM graph_communities('kb')").unwrap();
    check_laws(&mut client);
}

#[test]
fn what_was_stated_of_a_document_stays_while_its_text_stays() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (id, body) \
         VALUES (1, 'It rains. Then Ant Man met Bee Gee at Oban.'), (2, 'Nothing of it.'); \
         SELECT graph_add('kb', 'Ant Man', 'adores', 'Bee Gee', 'since May', document_id => 1, quote => 'Ant Man met'); \
         SELECT graph_add('kb', 'Ant Man', 'adores', 'Bee Gee', document_id => 2)",
    );
    let stated = "SELECT concat_ws(' | ', r.weight, r.description, e.quote, e.start_char, b.document_id) FROM kb.relation r \
                  JOIN kb.evidence e ON e.relation_id = r.id LEFT JOIN kb.block b ON b.id = e.block_id \
                  WHERE r.predicate = 'adores' ORDER BY e.document_id";
    let expected = ["2 | since May | Ant Man met | 15 | 1", "2 | since May"];
    assert_eq!(list::<String>(&mut client, stated), expected);
    for step in [
        "SELECT * FROM graph_extract('kb')",
        "UPDATE kb.document SET title = 'Another', metadata = '{\"a\": 1}'",
        r#"SELECT rag_alter('kb', '{"leaf_tokens": 20, "leaf_overlap": 2}'); SELECT * FROM raptor_build('kb')"#,
        "SELECT * FROM graph_extract('kb')",
    ] {
        run(&mut client, step);
        assert_eq!(list::<String>(&mut client, stated), expected, "{step}");
        check_laws(&mut client);
    }
    run(
        &mut client,
        "UPDATE kb.document SET body = 'It rains no more.' WHERE id = 1; SELECT * FROM graph_extract('kb')",
    );
    assert_eq!(
        list::<String>(&mut client, stated),
        ["1"],
        "a quote goes with the text that held it"
    );
    check_laws(&mut client);
}

#[test]
fn a_sentence_holds_a_name_as_words_and_not_inside_others() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (id, body) \
         VALUES (1, 'The elephant has been here. The ANT met the bee.'), (2, 'The elephant has been here.'), (3, '蚂蚁遇见了蜜蜂。'); \
         SELECT graph_add('kb', 'ant', 'met', 'bee', document_id => i) FROM generate_series(1, 2) i; \
         SELECT graph_add('kb', '蚂蚁', '遇见', '蜜蜂', document_id => 3)",
    );
    let quotes: Vec<Option<String>> = list(&mut client, "SELECT quote FROM kb.evidence ORDER BY document_id");
    assert_eq!(
        quotes,
        [
            Some("The ANT met the bee.".to_owned()),
            None,
            Some("蚂蚁遇见了蜜蜂。".to_owned())
        ]
    );
}
