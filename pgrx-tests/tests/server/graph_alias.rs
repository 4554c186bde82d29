//! graph_merge and graph_unmerge: one thing has one entity, nothing is lost on the way, and the way back leads home.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{failure, list, one, run};

/// All of the graph, by names rather than ids.
pub fn graph(client: &mut Client) -> Vec<String> {
    list(
        client,
        "SELECT line FROM ( \
           SELECT concat_ws('|', 'entity', key, name, type, description, degree, source_count, given) AS line FROM kb.entity \
           UNION ALL SELECT concat_ws('|', 'relation', s.key, r.predicate_key, r.predicate, t.key, r.weight, r.given_weight, r.description, \
                                      r.properties, r.source_count) \
             FROM kb.relation r JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
           UNION ALL SELECT concat_ws('|', 'mention', m.key, m.name, e.key, m.block_id, m.start_char) \
             FROM kb.mention m JOIN kb.entity e ON e.id = m.entity_id \
           UNION ALL SELECT concat_ws('|', 'evidence', v.subject_key, v.predicate, v.object_key, s.key, t.key, v.quote, v.start_char) \
             FROM kb.evidence v JOIN kb.relation r ON r.id = v.relation_id \
             JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
           UNION ALL SELECT concat_ws('|', 'alias', a.key, e.key, a.via) FROM kb.entity_alias a JOIN kb.entity e ON e.id = a.entity_id) x \
         ORDER BY line COLLATE \"C\"",
    )
}

/// Degrees and weights, recounted by plain SQL; nothing if all are right.
pub fn miscounted(client: &mut Client) -> i64 {
    one(
        client,
        "SELECT (SELECT count(*) FROM kb.relation r WHERE weight <> coalesce(nullif((SELECT count(DISTINCT (e.block_id, e.document_id)) \
             FROM kb.evidence e WHERE e.relation_id = r.id), 0), r.given_weight)) \
         + (SELECT count(*) FROM kb.entity e WHERE degree <> (SELECT count(*) FROM kb.relation r \
             WHERE e.id IN (r.source_id, r.target_id) AND r.source_id <> r.target_id)) \
         + (SELECT count(*) FROM kb.entity e WHERE source_count <> (SELECT count(DISTINCT document_id) FROM kb.mention m WHERE m.entity_id = e.id))",
    )
}

const BODIES: &str = "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) VALUES \
    ('1', 'Ada Brandt leads Orchard College.'), ('2', 'Adela Brandt leads Orchard College.'), \
    ('3', 'Adela Brandt met Emil Stark. Ada Brandt met Emil Stark.'), ('4', 'Emil Stark praised Adela Brandt. Adela Brandt praised Ada Brandt.'); \
    SELECT graph_extract('kb'); \
    SELECT graph_add('kb', 'Adela Brandt', 'owns', 'a boat', description => 'By hand.', weight => 3, properties => '{\"a\": 1}'); \
    SELECT graph_add('kb', 'Ada Brandt', 'owns', 'a boat', weight => 2, properties => '{\"b\": 2}'); \
    SELECT graph_add('kb', 'Adela Brandt', 'sails', 'Mull', weight => 1)";

#[test]
fn merging_keeps_all_and_is_undone() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, BODIES);
    let before = graph(&mut client);
    assert!(
        before.iter().any(|line| line.starts_with("entity|adela brandt|")),
        "{before:#?}"
    );
    let fragments = |client: &mut Client| {
        one::<String>(
            client,
            "SELECT (SELECT count(*) FROM kb.mention) || ' ' || (SELECT count(*) FROM kb.evidence)",
        )
    };
    let counted = fragments(&mut client);

    run(&mut client, "SELECT graph_merge('kb', 'Ada Brandt', 'Adela Brandt')");
    assert_eq!(fragments(&mut client), counted);
    assert_eq!(miscounted(&mut client), 0);
    let merged = graph(&mut client);
    let has = |line: &str| assert!(merged.iter().any(|other| other.contains(line)), "{line}: {merged:#?}");
    has("relation|ada brandt|leads|leads|orchard college|2");
    has("relation|ada brandt|owns|owns|a boat|5|5");
    has("alias|adela brandt|ada brandt");
    // A relation of the two with each other is one of the entity with itself.
    has("relation|ada brandt|praised|praised|ada brandt|1");
    assert!(!merged.iter().any(|line| line.starts_with("entity|adela brandt|")));

    // The same again changes nothing; each name leads to the entity.
    run(
        &mut client,
        "SELECT graph_merge('kb', 'Adela Brandt', 'ada brandt', 'Adela Brandt')",
    );
    assert_eq!(graph(&mut client), merged);
    assert!(one::<i64>(&mut client, "SELECT count(*) FROM graph_local('kb', 'ADELA BRANDT')") > 3);

    run(&mut client, "SELECT graph_unmerge('kb', 'Adela Brandt')");
    assert_eq!(miscounted(&mut client), 0);
    assert_eq!(graph(&mut client), before);
}

#[test]
fn what_comes_later_goes_where_it_belongs() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, BODIES);
    run(
        &mut client,
        "SELECT graph_merge('kb', 'Ada Brandt', 'Adela Brandt'); \
         INSERT INTO kb.document (source_key, body) VALUES ('5', 'Adela Brandt founded Mill House.'); SELECT graph_extract('kb'); \
         DELETE FROM kb.document WHERE source_key = '2'",
    );
    assert_eq!(miscounted(&mut client), 0);
    let ends = "SELECT s.key || ' ' || r.weight FROM kb.relation r JOIN kb.entity s ON s.id = r.source_id WHERE r.predicate = 'founded'";
    assert_eq!(one::<String>(&mut client, ends), "ada brandt 1");
    run(&mut client, "SELECT graph_unmerge('kb', 'Adela Brandt')");
    assert_eq!(miscounted(&mut client), 0);
    assert_eq!(one::<String>(&mut client, ends), "adela brandt 1");
    // Never merged, and all documents gone: the same graph.
    let rest = graph(&mut client);
    run(
        &mut client,
        "SELECT graph_merge('kb', 'Emil Stark', 'Orchard College'); DELETE FROM kb.document WHERE source_key = '5'",
    );
    run(&mut client, "SELECT graph_unmerge('kb', 'Orchard College')");
    let left: Vec<String> = rest.into_iter().filter(|line| !line.contains("mill house")).collect();
    assert!(
        graph(&mut client)
            .iter()
            .filter(|line| line.starts_with("entity|emil"))
            .all(|line| left.contains(line))
    );
}

#[test]
fn merges_of_merges_come_apart_in_any_order() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); SELECT graph_add('kb', s, 'knows', 'z', weight => w) FROM (VALUES ('a', 1), ('b', 2), ('c', 4)) v (s, w)",
    );
    let before = graph(&mut client);
    for (first, second) in [("a", "b"), ("b", "a")] {
        run(
            &mut client,
            "SELECT graph_merge('kb', 'b', 'a'); SELECT graph_merge('kb', 'c', 'b')",
        );
        assert_eq!(
            one::<f64>(
                &mut client,
                "SELECT sum(weight) FROM kb.relation WHERE predicate = 'knows'"
            ),
            7.0
        );
        run(&mut client, &format!("SELECT graph_unmerge('kb', '{first}')"));
        assert_eq!(miscounted(&mut client), 0);
        run(&mut client, &format!("SELECT graph_unmerge('kb', '{second}')"));
        assert_eq!(miscounted(&mut client), 0);
        assert_eq!(graph(&mut client), before, "{first} first");
    }
}

#[test]
fn names_that_are_not_there_are_answered_with_those_that_are_like_them() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, BODIES);
    for statement in [
        "SELECT graph_merge('kb', 'Ada Brant', 'Adela Brandt')",
        "SELECT graph_merge('kb', 'Adela Brandt', 'Ada Brant')",
        "SELECT graph_unmerge('kb', 'Ada Brant')",
    ] {
        let error = failure(&mut client, statement);
        assert_eq!(error.code().code(), "P0002", "{statement}");
        assert!(
            error.hint().is_some_and(|hint| hint.contains("\"Ada Brandt\"")),
            "{statement}: {error:?}"
        );
    }
    let error = failure(&mut client, "SELECT graph_unmerge('kb', 'Ada Brandt')");
    assert_eq!(
        (error.code().code(), error.message()),
        ("22023", "\"Ada Brandt\" was not merged with another entity")
    );
    let told = database.psql("SELECT * FROM graph_local('kb', 'Ada Brant')");
    assert!(told.contains("Did you mean \"Ada Brandt\""), "{told}");
}

#[test]
fn a_deleted_document_leaves_no_word_in_an_alias() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) VALUES ('1', 'Sally Stone left.'), ('2', 'Orla Olsen left.');
           SELECT graph_import('kb', '[{"name": "Sally Stone", "type": "spy", "description": "Secret words.", "source_key": "1"},
                                       {"name": "Orla Olsen", "source_key": "2"}]');
           SELECT graph_merge('kb', 'Orla Olsen', 'Sally Stone')"#,
    );
    let words = "SELECT coalesce(string_agg(a::text, ''), '') FROM kb.entity_alias a";
    assert!(!one::<String>(&mut client, words).contains("Secret"));
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '1'");
    assert_eq!(one::<String>(&mut client, words), "");
}

#[test]
fn an_entity_whose_name_no_document_has_is_called_as_they_call_it() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) VALUES ('1', 'Zora Vale leads Orchard College.'), \
           ('2', 'Adela Brandt met Emil Stark.'), ('3', 'Adela Brandt met Ines Roth. Ada Brandt met Ines Roth.'); \
         SELECT graph_extract('kb'); SELECT graph_merge('kb', 'Zora Vale', 'Adela Brandt', 'Ada Brandt'); \
         DELETE FROM kb.document WHERE source_key = '1'",
    );
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT e.key || '|' || e.name || '|' || e.given || '|' || coalesce(a.key, '-') FROM kb.entity e \
             LEFT JOIN kb.entity_alias a ON a.entity_id = e.id WHERE e.key LIKE '%a%' ORDER BY e.key"
        ),
        [
            "adela brandt|Adela Brandt|false|ada brandt",
            "emil stark|Emil Stark|false|-"
        ]
    );
    assert_eq!(miscounted(&mut client), 0);
    // The rest comes apart as before.
    run(&mut client, "SELECT graph_unmerge('kb', 'Ada Brandt')");
    assert_eq!(
        list::<String>(
            &mut client,
            "SELECT key FROM kb.entity WHERE key LIKE '%brandt' ORDER BY 1"
        ),
        ["ada brandt", "adela brandt"]
    );
    assert!(
        !graph(&mut client)
            .iter()
            .any(|line| line.to_lowercase().contains("zora"))
    );
}

#[test]
fn renaming_by_hand_keeps_no_word_of_a_deleted_document() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        r#"SELECT rag_create('kb'); INSERT INTO kb.document (source_key, body) VALUES ('1', 'Secret Zork met Emil Stark.');
           SELECT graph_import('kb', '{"entities": [{"name": "Secret Zork", "type": "spy", "description": "Zork is a spy.", "source_key": "1"}]}');
           SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb');
           UPDATE kb.entity SET name = 'Person S' WHERE key = 'secret zork'"#,
    );
    let rows = "SELECT string_agg(concat_ws('|', e.key, e.type, e.description, a.key), ' ' ORDER BY e.key) FROM kb.entity e \
                LEFT JOIN kb.entity_alias a ON a.entity_id = e.id WHERE e.key LIKE '%s%'";
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.community WHERE stale AND size > 1"
        ),
        1
    );
    run(&mut client, "SELECT graph_extract('kb', again => true)");
    assert!(one::<String>(&mut client, rows).contains("|Zork is a spy.|secret zork"));
    run(&mut client, "DELETE FROM kb.document");
    assert_eq!(one::<String>(&mut client, rows), "person s");
    // Back to a former name, which is no alias of itself.
    run(
        &mut client,
        "UPDATE kb.entity SET name = 'Agent'; UPDATE kb.entity SET name = 'Person S'",
    );
    assert_eq!(one::<String>(&mut client, rows), "person s|agent");
}

#[test]
fn an_import_that_comes_again_after_a_merge_changes_nothing() {
    let database = Database::new();
    let mut client = database.client();
    let parts = [
        r#"SELECT graph_import('kb', '[["A", "likes", "X"]]')"#,
        r#"SELECT graph_import('kb', '[["B", "likes", "X"]]')"#,
    ];
    run(&mut client, "SELECT rag_create('kb')");
    parts.iter().for_each(|part| run(&mut client, part));
    let before = graph(&mut client);
    run(&mut client, "SELECT graph_merge('kb', 'A', 'B')");
    let merged = graph(&mut client);
    run(&mut client, parts[1]);
    assert_eq!(graph(&mut client), merged);
    run(&mut client, "SELECT graph_unmerge('kb', 'B')");
    assert_eq!(graph(&mut client), before);
    // The heaviest stay as heavy as can be; a name that is taken meanwhile is told.
    run(
        &mut client,
        "SELECT graph_add('kb', 'A', 'p', 'Z', weight => 1e30), graph_add('kb', 'B', 'p', 'Z', weight => 1e30); \
         SELECT graph_merge('kb', 'A', 'B'); INSERT INTO kb.entity (name) VALUES ('B')",
    );
    let error = failure(&mut client, "SELECT graph_unmerge('kb', 'B')");
    assert_eq!(error.message(), "another entity is called \"B\" by now");
    run(&mut client, "SELECT graph_merge('kb', 'X', 'Z')");
}
