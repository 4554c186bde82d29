//! graph_bind and graph_unbind: rows of a table are entities, and the way back leads home.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::graph_alias::{graph, miscounted};
use crate::support::{list, one, refused, rows, run};

pub const STAFF: &str = "CREATE SCHEMA hr; \
    CREATE TABLE hr.employee (id int PRIMARY KEY, full_name text, known_as text[], nick text, manager_id int REFERENCES hr.employee); \
    INSERT INTO hr.employee VALUES (1, 'Grace Lind', NULL, NULL, NULL), (2, 'Ada Brandt', '{A. Brandt,NULL,\"\"}', 'Adela Brandt', 1), \
      (3, 'Emil Stark', '{}', NULL, 1); \
    SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) VALUES \
      ('1', 'Ada Brandt leads Orchard College.'), ('2', 'Adela Brandt met Emil Stark. Ada Brandt met Emil Stark.'), \
      ('3', 'Adela Brandt praised Orchard College. John Smith met Emil Stark.'); \
    SELECT graph_extract('kb'); \
    SELECT graph_add('kb', 'Adela Brandt', 'owns', 'a boat', weight => 3, description => 'By hand.'); \
    INSERT INTO kb.entity (name, type, description) VALUES ('GRACE LIND', 'ship', 'A ship.')";

pub const BIND: &str =
    "SELECT * FROM graph_bind('kb', 'person', 'hr.employee', 'full_name', aliases => '{known_as,nick}', edges => true)";

/// Each entity that is a row, with its key, its names and its type.
pub fn bound(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT concat_ws('|', e.row_key, e.name, e.type, (SELECT string_agg(a.key, ',' ORDER BY a.key COLLATE \"C\") \
           FROM kb.entity_alias a WHERE a.entity_id = e.id)) FROM kb.entity e WHERE e.row_key IS NOT NULL ORDER BY e.type, e.row_key",
    )
}

/// The relations of foreign keys.
pub fn edges(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT s.name || '-' || r.predicate || '-' || t.name || ' ' || r.weight FROM kb.relation r JOIN kb.entity s ON s.id = r.source_id \
         JOIN kb.entity t ON t.id = r.target_id WHERE r.bound ORDER BY 1",
    )
}

/// All rows, but for when the last build was.
pub fn bytes(client: &mut Client) -> Vec<String> {
    let mut all = rows(client, "kb");
    all.retain(|row| !row.starts_with("kb.setting (last_build") && !row.starts_with("kb.setting (step."));
    all
}

pub fn counts(client: &mut Client, sql: &str) -> (i64, i64) {
    let row = client.query_one(sql, &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn rows_are_entities_and_unbinding_gives_back_what_was_there() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    let before = graph(&mut client);
    assert_eq!(counts(&mut client, BIND), (3, 2));
    assert_eq!(miscounted(&mut client), 0);
    assert_eq!(
        bound(&mut client),
        [
            "1|Grace Lind|person",
            "2|Ada Brandt|person|a. brandt,adela brandt",
            "3|Emil Stark|person"
        ]
    );
    assert_eq!(
        edges(&mut client),
        ["Ada Brandt-manager-Grace Lind 1", "Emil Stark-manager-Grace Lind 1"]
    );
    // What both names said is said of the one entity.
    let said: Vec<String> = list(
        &mut client,
        "SELECT predicate || ' ' || target || ' ' || weight FROM graph_local('kb', 'A. Brandt') WHERE source = 'Ada Brandt' ORDER BY 1",
    );
    assert_eq!(
        said,
        [
            "leads Orchard College 1",
            "manager Grace Lind 1",
            "met Emil Stark 1",
            "owns a boat 3",
            "praised Orchard College 1"
        ]
    );
    let first = bytes(&mut client);
    assert_eq!(counts(&mut client, BIND), (3, 2));
    assert_eq!(bytes(&mut client), first);
    // Documents that come later find the row, by any of its names.
    run(
        &mut client,
        "INSERT INTO kb.document (source_key, body) VALUES ('9', 'Adela Brandt founded Mill House.'); SELECT graph_extract('kb')",
    );
    assert_eq!(
        one::<String>(
            &mut client,
            "SELECT string_agg(DISTINCT e.row_key, ',') FROM kb.mention m JOIN kb.entity e ON e.id = m.entity_id \
             JOIN kb.document d ON d.id = m.document_id WHERE d.source_key = '9' AND e.row_key IS NOT NULL"
        ),
        "2"
    );
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '9'");
    run(&mut client, BIND);
    assert_eq!(bytes(&mut client), first);

    run(&mut client, "SELECT graph_unbind('kb', 'person')");
    assert_eq!(miscounted(&mut client), 0);
    assert_eq!(graph(&mut client), before);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.binding"), 0);
    refused(
        &mut client,
        "SELECT graph_unbind('kb', 'person') --> 42704 type \"person\" of collection \"kb\" is not bound",
    );
}

#[test]
fn rows_that_change_are_followed() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    let before = graph(&mut client);
    run(&mut client, BIND);
    run(
        &mut client,
        "UPDATE hr.employee SET full_name = 'Ada King', nick = NULL WHERE id = 2; \
         UPDATE hr.employee SET full_name = 'Emil Stark', manager_id = 2 WHERE id = 3; \
         UPDATE hr.employee SET full_name = 'GRACE  LIND' WHERE id = 1; \
         INSERT INTO hr.employee VALUES (4, 'Ada Brandt', NULL, NULL, 4), (5, NULL, NULL, NULL, 1), (6, ' ', NULL, NULL, 1)",
    );
    assert_eq!(counts(&mut client, BIND), (4, 3));
    assert_eq!(miscounted(&mut client), 0);
    assert_eq!(
        bound(&mut client),
        [
            "1|GRACE  LIND|person",
            "2|Ada King|person|a. brandt",
            "3|Emil Stark|person",
            "4|Ada Brandt|person"
        ]
    );
    assert_eq!(
        edges(&mut client),
        [
            "Ada Brandt-manager-Ada Brandt 1",
            "Ada King-manager-GRACE  LIND 1",
            "Emil Stark-manager-Ada King 1"
        ]
    );
    // As if it had never been bound otherwise.
    let followed = graph(&mut client);
    run(&mut client, "SELECT graph_unbind('kb', 'person')");
    assert_eq!(graph(&mut client), before);
    run(&mut client, BIND);
    assert_eq!(graph(&mut client), followed);
    // Two rows change names.
    run(
        &mut client,
        "UPDATE hr.employee SET full_name = CASE id WHEN 3 THEN 'Ada Brandt' ELSE 'Emil Stark' END WHERE id IN (3, 4)",
    );
    run(&mut client, BIND);
    assert_eq!(bound(&mut client)[2..], ["3|Ada Brandt|person", "4|Emil Stark|person"]);
    // Rows go: what documents say, or somebody has stated, stays.
    run(
        &mut client,
        "UPDATE hr.employee SET manager_id = NULL; DELETE FROM hr.employee",
    );
    assert_eq!(counts(&mut client, BIND), (0, 0));
    assert_eq!(graph(&mut client), before);
    assert_eq!(miscounted(&mut client), 0);
}

#[test]
fn a_name_that_was_bound_before_documents_is_as_one_bound_after_them() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE TABLE thing (id int PRIMARY KEY, name text, nick text); INSERT INTO thing VALUES (1, '  Zed Alpha ', 'Zed Beta')",
    );
    let alias = |client: &mut Client, kb: &str| {
        let sql = format!(
            "SELECT e.name || ' ' || a.key || ' ' || merged FROM {kb}.entity_alias a JOIN {kb}.entity e ON e.id = a.entity_id"
        );
        one::<String>(client, &sql)
    };
    let steps = [
        "graph_bind('{kb}', 'thing', 'thing', 'name', aliases => '{nick}')",
        "graph_extract('{kb}')",
    ];
    for (kb, order) in [("one", [0, 1]), ("two", [1, 0])] {
        let [first, second] = order.map(|at| format!("SELECT {}", steps[at].replace("{kb}", kb)));
        run(
            &mut client,
            &format!(
                "SELECT rag_create('{kb}'); INSERT INTO {kb}.document (body) VALUES ('Zed Beta met Zed Alpha.'); {first}; {second}"
            ),
        );
    }
    let one = alias(&mut client, "one");
    assert!(one.starts_with("Zed Alpha zed beta "), "{one}");
    assert_eq!(one, alias(&mut client, "two"));
}

#[test]
fn rows_that_go_leave_their_communities() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE TABLE thing (id int PRIMARY KEY, name text, part_of int REFERENCES thing); \
         INSERT INTO thing VALUES (1, 'Zed Alpha', NULL), (2, 'Zed Beta', 1), (3, 'Yak Gamma', NULL), (4, 'Yak Delta', 3), (5, 'Yak Iota', 3); \
         SELECT rag_create('kb'); SELECT graph_bind('kb', 'thing', 'thing', 'name', edges => true); SELECT graph_communities('kb'); \
         SELECT graph_summarize('kb')",
    );
    let reports = |client: &mut Client| {
        list::<String>(
            client,
            "SELECT size || ' ' || coalesce(title, '-') FROM kb.community c \
             WHERE size = (SELECT count(*) FROM kb.community_entity e WHERE e.community_id = c.id) ORDER BY 1",
        )
    };
    assert_eq!(
        reports(&mut client),
        ["2 Zed Alpha and Zed Beta", "3 Yak Gamma, Yak Delta and Yak Iota"]
    );
    run(
        &mut client,
        "DELETE FROM thing WHERE id IN (1, 2, 5); SELECT graph_bind('kb', 'thing', 'thing', 'name', edges => true)",
    );
    assert_eq!(reports(&mut client), ["2 -"]);
    run(&mut client, "SELECT graph_unbind('kb', 'thing')");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.community"), 0);
}

#[test]
fn the_order_of_rows_does_not_count() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    let mut seen = vec![];
    for order in ["1", "1 DESC", "2"] {
        run(
            &mut client,
            &format!(
                "BEGIN; CREATE TABLE hr.other AS SELECT * FROM hr.employee UNION ALL SELECT 10 + i, 'Name ' || i / 2, NULL, 'n' || i, i \
                 FROM generate_series(1, 9) i ORDER BY {order}"
            ),
        );
        run(
            &mut client,
            "SELECT graph_bind('kb', 'person', 'hr.other', 'full_name', 'id', '{known_as,nick}')",
        );
        seen.push((graph(&mut client), bound(&mut client)));
        run(&mut client, "ROLLBACK");
    }
    assert!(
        seen[0].1.contains(&"12|Name 1 (12)|person|n2".to_owned()),
        "{:?}",
        seen[0].1
    );
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

#[test]
fn a_name_of_two_rows_is_bound_to_none() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    run(
        &mut client,
        "INSERT INTO hr.employee VALUES (17, 'John Smith', '{JS}', 'Johnny', 1), (18, 'john smith', '{JS}', NULL, 17)",
    );
    assert_eq!(counts(&mut client, BIND), (5, 4));
    let all = bound(&mut client);
    assert!(all.contains(&"17|John Smith (17)|person|johnny".to_owned()), "{all:?}");
    assert!(all.contains(&"18|john smith (18)|person".to_owned()), "{all:?}");
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.entity WHERE key = 'john smith' AND row_key IS NULL"
        ),
        1
    );
    let before = bytes(&mut client);
    run(&mut client, BIND);
    assert_eq!(bytes(&mut client), before);
    // When one goes, the name is the other's.
    run(
        &mut client,
        "UPDATE hr.employee SET manager_id = 1 WHERE id = 18; DELETE FROM hr.employee WHERE id = 17",
    );
    run(&mut client, BIND);
    assert!(bound(&mut client).contains(&"18|john smith|person|js".to_owned()));
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM kb.entity WHERE key LIKE 'john%'"),
        1
    );
    assert_eq!(miscounted(&mut client), 0);
}

#[test]
fn foreign_keys_between_tables_are_relations() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    run(
        &mut client,
        "CREATE TABLE hr.unit (code text PRIMARY KEY, no int UNIQUE, title text); \
         INSERT INTO hr.unit VALUES ('a', 1, 'Archive'), ('b', 2, 'Bakery'), ('m', 3, 'Emil Stark'); \
         ALTER TABLE hr.employee ADD \"unitId\" int REFERENCES hr.unit (no); UPDATE hr.employee SET \"unitId\" = 4 - id; \
         SELECT graph_add('kb', 'Ada Brandt', 'unit', 'Bakery', weight => 7)",
    );
    // The one that was bound first has the name.
    run(&mut client, &BIND.replace("edges => true", "edges => false"));
    assert_eq!(
        counts(
            &mut client,
            "SELECT * FROM graph_bind('kb', 'unit', 'hr.unit', 'title', edges => true)"
        ),
        (3, 3)
    );
    assert_eq!(
        edges(&mut client),
        ["Emil Stark-unit-Archive 1", "Grace Lind-unit-Emil Stark (m) 1"]
    );
    assert_eq!(miscounted(&mut client), 0);
    let before = bytes(&mut client);
    assert_eq!(
        counts(&mut client, &BIND.replace("edges => true", "edges => false")),
        (3, 3)
    );
    assert_eq!(bytes(&mut client), before);
    // A relation that documents assert too, and then do not.
    run(
        &mut client,
        "SELECT graph_add('kb', 'Emil Stark', 'unit', 'Archive', document_id => 1)",
    );
    run(
        &mut client,
        "DELETE FROM kb.document WHERE id = 1; DELETE FROM hr.employee WHERE id = 3",
    );
    run(&mut client, &BIND.replace("edges => true", "edges => false"));
    assert_eq!(edges(&mut client), ["Grace Lind-unit-Emil Stark (m) 1"]);
    // What was stated by hand stays when the binding goes.
    run(&mut client, "SELECT graph_unbind('kb', 'unit')");
    assert!(edges(&mut client).is_empty());
    assert_eq!(
        one::<f64>(
            &mut client,
            "SELECT weight FROM graph_local('kb', 'Ada Brandt') WHERE predicate = 'unit'"
        ),
        7.0
    );
    assert_eq!(miscounted(&mut client), 0);
}

#[test]
fn names_may_hold_anything() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"CREATE SCHEMA "H R"; CREATE TABLE "H R"."Em""p{s}" ("I d" uuid PRIMARY KEY, "Full ""Name""" varchar(30), "Boss_ID" uuid REFERENCES "H R"."Em""p{s}", "{s}" text);
           INSERT INTO "H R"."Em""p{s}" SELECT md5(i::text)::uuid, 'Per''son ' || i, md5((i / 2)::text)::uuid, 'alias ' || i FROM generate_series(0, 4) i;
           SELECT rag_create('kb')"#,
    );
    assert_eq!(
        counts(
            &mut client,
            r#"SELECT * FROM graph_bind('kb', 'O''Brien "x"', '"H R"."Em""p{s}"', 'Full "Name"', aliases => '{"{s}"}', edges => true)"#
        ),
        (5, 5)
    );
    assert_eq!(edges(&mut client)[0], "Per'son 0-Boss-Per'son 0 1");
    assert_eq!(
        one::<String>(&mut client, "SELECT source FROM kb.binding"),
        r#""H R"."Em""p{s}""#
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            r#"SELECT count(*) FROM kb.entity t JOIN "H R"."Em""p{s}" e ON e."I d"::text = t.row_key"#
        ),
        5
    );
    run(&mut client, r#"SELECT graph_unbind('kb', 'O''Brien "x"')"#);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.entity"), 0);
}

#[test]
fn rows_are_not_merged_and_are_kept() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, STAFF);
    run(
        &mut client,
        "INSERT INTO hr.employee VALUES (7, 'Emile Stark', NULL, NULL, 1); \
         INSERT INTO kb.document (body) VALUES ('E. Stark met John Smith.'), ('E. Stark met Orchard College.'), ('E. Stark met Adela Brandt.'), \
           ('E. Stark met Ada Brandt.'); SELECT graph_extract('kb')",
    );
    run(&mut client, BIND);
    let proposed: Vec<String> = list(
        &mut client,
        "SELECT keep || '<-' || alias FROM graph_resolve('kb', 0.5) ORDER BY 1",
    );
    assert!(
        proposed.iter().any(|pair| pair.ends_with("<-E. Stark")),
        "the row is kept: {proposed:?}"
    );
    assert!(
        !proposed
            .iter()
            .any(|pair| pair.contains("Emil Stark") && pair.contains("Emile Stark")),
        "{proposed:?}"
    );
    refused(
        &mut client,
        r#"
        SELECT graph_merge('kb', 'Emil Stark', 'Emile Stark') --> 55000 entities "Emil Stark" and "Emile Stark" are two rows
        SELECT graph_merge('kb', 'E. Stark', 'Emile Stark') --> 55000 entity "Emile Stark" is a row and cannot be an alias
        SELECT graph_merge('kb', 'E. Stark', 'Emile Stark', 'Emil Stark') --> 55000 entities "Emile Stark" and "Emil Stark" are two rows
        SELECT graph_unmerge('kb', 'Adela Brandt') --> 55000 "Adela Brandt" is a name of a row
        "#,
    );
    // A name that somebody has merged stays where it is.
    run(&mut client, "SELECT graph_merge('kb', 'Emil Stark', 'E. Stark')");
    run(
        &mut client,
        "INSERT INTO hr.employee VALUES (8, 'E. Stark', NULL, NULL, 1)",
    );
    run(&mut client, BIND);
    assert!(bound(&mut client).contains(&"8|E. Stark (8)|person".to_owned()));
    run(&mut client, "SELECT graph_unmerge('kb', 'E. Stark')");
    run(&mut client, BIND);
    assert!(bound(&mut client).contains(&"8|E. Stark|person".to_owned()));
    assert_eq!(miscounted(&mut client), 0);
}
