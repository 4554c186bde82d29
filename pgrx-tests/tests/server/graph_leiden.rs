//! Communities at all levels, that stay what they are where nothing changes.

use std::sync::Arc;

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{collection, mock};
use crate::support::{failure, list, one, run};

/// Rings of so many entities each, and one edge from each ring to the next. Twice as many edges hold pairs of neighbours in a ring together.
const RINGS: &str = "CREATE FUNCTION rings(kb text, first int, rings int, size int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN \
    PERFORM graph_add(kb, 'r' || r || ' n' || lpad(n::text, 3, '0'), 'p', 'r' || r || ' n' || lpad(((n + 1) % size)::text, 3, '0'), weight => 1 + n % 2) \
      FROM generate_series(first, first + rings - 1) r, generate_series(0, size - 1) n; \
    PERFORM graph_add(kb, 'r' || r || ' n000', 'q', 'r' || r + 1 || ' n000', weight => 0.5) FROM generate_series(first, first + rings - 2) r; \
  END $$; ";

/// All communities: level, the members of the parent and its own.
const ALL: &str = "SELECT c.level || ' ' || coalesce(p.names, '-') || ' < ' || o.names FROM kb.community c \
    CROSS JOIN LATERAL (SELECT string_agg(t.key, ',' ORDER BY t.key) AS names FROM kb.community_entity e JOIN kb.entity t ON t.id = e.entity_id \
                        WHERE e.community_id = c.id) o \
    LEFT JOIN LATERAL (SELECT string_agg(t.key, ',' ORDER BY t.key) AS names FROM kb.community_entity e JOIN kb.entity t ON t.id = e.entity_id \
                       WHERE e.community_id = c.parent_id) p ON true ORDER BY 1";

#[test]
fn communities_nest_and_every_entity_has_one() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{RINGS} SELECT rag_create('kb'); SELECT rings('kb', 1, 4, 60); INSERT INTO kb.entity (name) VALUES ('alone')"
        ),
    );
    let rows = client
        .query(
            "SELECT level, communities, largest, modularity FROM graph_communities('kb', max_size => 4)",
            &[],
        )
        .expect("communities");
    let levels: Vec<(i32, i64, i64, f64)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2), r.get(3))).collect();
    assert!(levels.len() >= 2 && levels[0].3 > 0.7, "{levels:?}");
    for (level, communities, largest, _) in &levels {
        // Those that stand at the level are a partition of all entities.
        let stand = format!(
            "FROM kb.community c WHERE level = {level} OR level < {level} AND NOT EXISTS (SELECT FROM kb.community d WHERE d.parent_id = c.id)"
        );
        assert_eq!(
            one::<i64>(&mut client, &format!("SELECT count(*) {stand}")),
            *communities
        );
        assert_eq!(
            one::<i64>(&mut client, &format!("SELECT max(size)::bigint {stand}")),
            *largest
        );
        let held = format!(
            "SELECT count(*) || ' ' || count(DISTINCT entity_id) FROM kb.community_entity WHERE community_id IN (SELECT c.id {stand})"
        );
        assert_eq!(one::<String>(&mut client, &held), "241 241");
    }
    assert!(levels.last().expect("a level").2 <= 4);
    let astray = "SELECT count(*) FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id JOIN kb.community p ON p.id = c.parent_id \
                  WHERE p.level <> c.level - 1 OR NOT EXISTS (SELECT FROM kb.community_entity f WHERE f.community_id = p.id AND f.entity_id = e.entity_id)";
    assert_eq!(one::<i64>(&mut client, astray), 0);
    let orphans = "SELECT count(*) FROM kb.community WHERE (level = 0) <> (parent_id IS NULL)";
    assert_eq!(one::<i64>(&mut client, orphans), 0);

    // The same again, whatever the order of rows, and after another algorithm.
    let before: Vec<String> = list(&mut client, ALL);
    let ids = "SELECT string_agg(id || ' ' || md5(member_hash::text), ',' ORDER BY id) FROM kb.community";
    let rows: String = one(&mut client, ids);
    run(&mut client, "SELECT graph_communities('kb', max_size => 4)");
    assert_eq!(one::<String>(&mut client, ids), rows);
    run(
        &mut client,
        "CREATE TABLE r AS TABLE kb.relation; DELETE FROM kb.relation; INSERT INTO kb.relation (source_id, predicate, target_id, weight) \
         SELECT target_id, predicate, source_id, weight FROM r ORDER BY md5(id::text); \
         SELECT graph_communities('kb', 'label_propagation'); SELECT graph_communities('kb', max_size => 4)",
    );
    assert_eq!(list::<String>(&mut client, ALL), before);
}

#[test]
fn a_partition_is_divided_as_if_it_were_alone() {
    let database = Database::new();
    let mut client = database.client();
    let document = |tenant: &str, count: i32| {
        format!(
            "INSERT INTO kb.document (body, metadata) SELECT 'Ada{tenant}' || i % 7 || ' met Ben{tenant}' || i % 5 || '.', '{{\"tenant\": \"{tenant}\"}}' \
             FROM generate_series(1, {count}) i; "
        )
    };
    let of_a = "SELECT string_agg(c.level || ' ' || o.names, ';' ORDER BY c.level, o.names) FROM kb.community c CROSS JOIN LATERAL \
                (SELECT string_agg(t.key, ',' ORDER BY t.key) AS names FROM kb.community_entity e JOIN kb.entity t ON t.id = e.entity_id \
                 WHERE e.community_id = c.id) o WHERE c.partition = '\"a\"'";
    run(
        &mut client,
        &format!(
            "SELECT rag_create('kb', partition_by => '{{tenant}}'); {} SELECT graph_extract('kb'); SELECT graph_communities('kb', max_size => 3)",
            document("a", 20)
        ),
    );
    let alone: String = one(&mut client, of_a);
    run(
        &mut client,
        &format!(
            "{} SELECT graph_extract('kb'); SELECT graph_communities('kb', max_size => 3)",
            document("b", 300)
        ),
    );
    assert_eq!(one::<String>(&mut client, of_a), alone);
}

#[test]
fn a_change_touches_the_communities_that_hold_it_and_no_others() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| {
        options.chat = Arc::new(|_, user| {
            format!(
                r#"{{"title": "T", "summary": "Of {} bytes.", "rating": 1, "findings": []}}"#,
                user.len()
            )
        });
    });
    collection(&mut client, &mock, "", ", summarizer => 'server:m'");
    run(&mut client, &format!("{RINGS} SELECT rings('kb', 1, 20, 12)"));
    run(&mut client, "SELECT graph_communities('kb', max_size => 8)");
    run(&mut client, "CALL rag_refresh('kb', steps => '{communities,reports}')");
    let written: i64 = one(&mut client, "SELECT count(*) FROM kb.community WHERE size > 1");
    assert_eq!(mock.log().len() as i64, written);
    let rows = "SELECT id || ' ' || md5(member_hash::text || coalesce(text, '')) FROM kb.community";
    let before: Vec<String> = list(&mut client, rows);

    run(&mut client, "SELECT graph_add('kb', 'r7 n003', 'r', 'r7 n004')");
    let touched: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community WHERE stale AND size > 1",
    );
    assert!((1..=6).contains(&touched), "{touched}");
    run(&mut client, "CALL rag_refresh('kb')");
    let asked = mock.log().len() as i64 - written;
    assert!(
        (1..=touched + 2).contains(&asked),
        "{asked} reports, {touched} were stale"
    );
    let after: Vec<String> = list(&mut client, rows);
    let changed = after.iter().filter(|row| !before.contains(row)).count() as i64;
    assert!(changed <= asked, "{changed} rows for {asked} reports");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(mock.log().len() as i64, written + asked, "nothing is left to do");

    // New rings are found beside the old ones, and these keep their reports.
    run(&mut client, "SELECT rings('kb', 101, 2, 12)");
    run(&mut client, "CALL rag_refresh('kb')");
    let new: i64 = one(
        &mut client,
        "SELECT count(DISTINCT c.id) FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id JOIN kb.entity t ON t.id = e.entity_id \
         WHERE t.key LIKE 'r10_ %' AND c.size > 1",
    );
    assert_eq!(mock.log().len() as i64, written + asked + new);
    let kept: Vec<String> = list(&mut client, rows);
    assert!(after.iter().all(|row| kept.contains(row)));
}

#[test]
fn an_entity_that_comes_back_is_in_its_community_again() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); SELECT graph_add('kb', 'a', 'p', 'b'); SELECT graph_add('kb', 'c', 'p', 'd')",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    let all = |client: &mut Client| {
        list::<String>(
            client,
            "SELECT c.size || ' ' || string_agg(t.key, ',' ORDER BY t.key) || ' ' || coalesce(c.title, '-') FROM kb.community c \
             JOIN kb.community_entity e ON e.community_id = c.id JOIN kb.entity t ON t.id = e.entity_id GROUP BY c.id ORDER BY 1",
        )
    };
    let before = all(&mut client);
    assert_eq!(before, ["2 a,b a and b", "2 c,d c and d"]);
    for (away, back) in [
        ("SELECT graph_merge('kb', 'a', 'b')", "SELECT graph_unmerge('kb', 'b')"),
        (
            "DELETE FROM kb.entity WHERE key = 'b'",
            "SELECT graph_add('kb', 'a', 'p', 'b')",
        ),
    ] {
        // The community is told by the names of its members, which are the same ones again.
        run(&mut client, away);
        run(&mut client, "CALL rag_refresh('kb')");
        run(&mut client, back);
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(all(&mut client), before, "{away}");
    }
}

#[test]
fn entities_and_communities_that_go_by_hand_leave_no_membership_behind() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); SELECT graph_add('kb', x, 'p', y) FROM (VALUES ('a', 'b'), ('b', 'c'), ('a', 'c'), ('d', 'e')) v (x, y); \
         SELECT graph_communities('kb'); SELECT graph_summarize('kb')",
    );
    let communities = "SELECT size || ' ' || stale || ' ' || (SELECT count(*) FROM kb.community_entity e WHERE e.community_id = c.id) FROM kb.community c ORDER BY 1";
    assert_eq!(list::<String>(&mut client, communities), ["2 false 2", "3 false 3"]);
    run(&mut client, "DELETE FROM kb.entity WHERE key = 'c'");
    assert_eq!(list::<String>(&mut client, communities), ["2 false 2", "2 true 2"]);
    run(&mut client, "DELETE FROM kb.entity WHERE key IN ('d', 'e')");
    assert_eq!(list::<String>(&mut client, communities), ["2 true 2"]);
    let links = "SELECT count(*) FROM kb.community_entity";
    run(&mut client, "DELETE FROM kb.community");
    assert_eq!(one::<i64>(&mut client, links), 0);
    for table in ["community", "entity"] {
        run(&mut client, "SELECT graph_communities('kb')");
        assert!(one::<i64>(&mut client, links) > 0);
        run(&mut client, &format!("TRUNCATE kb.{table} CASCADE"));
        let left = "SELECT (SELECT count(*) FROM kb.community_entity) + (SELECT count(*) FROM kb.community)";
        assert_eq!(one::<i64>(&mut client, left), 0, "{table}");
    }
}

#[test]
fn when_much_has_changed_the_search_begins_anew() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{RINGS} SELECT rag_create('kb'); SELECT rings('kb', 1, 6, 12); SELECT graph_communities('kb'); SELECT graph_summarize('kb')"
        ),
    );
    let noted = "SELECT (value ->> 'changed')::float8 FROM kb.setting WHERE key = 'step.communities'";
    let modularity = "SELECT (value ->> 'modularity')::float8 FROM kb.setting WHERE key = 'step.communities'";
    run(&mut client, "SELECT graph_add('kb', 'r1 n003', 'r', 'r1 n004')");
    run(&mut client, "CALL rag_refresh('kb')");
    assert!(one::<f64>(&mut client, noted) > 0.0);
    run(&mut client, "SELECT rings('kb', 50, 6, 12)");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(one::<f64>(&mut client, noted), 0.0);
    let refreshed: f64 = one(&mut client, modularity);
    let fresh: f64 = one(
        &mut client,
        "SELECT modularity FROM graph_communities('kb') WHERE level = 0",
    );
    assert!((refreshed - fresh).abs() < 1e-9, "{refreshed} {fresh}");
}

#[test]
fn algorithms_and_their_limits() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!("{RINGS} SELECT rag_create('kb'); SELECT rings('kb', 1, 4, 12)"),
    );
    let levels = |client: &mut Client, arguments: &str| -> Vec<String> {
        list(
            client,
            &format!("SELECT level || ' ' || communities || ' ' || largest FROM graph_communities('kb', {arguments})"),
        )
    };
    assert_eq!(levels(&mut client, "'components'"), ["0 1 48"]);
    assert_eq!(levels(&mut client, "'label_propagation'").len(), 1);
    assert_eq!(levels(&mut client, "'leiden', max_size => 100").len(), 1);
    assert_eq!(levels(&mut client, "'leiden', 0.0, max_size => 100"), ["0 1 48"]);
    assert_eq!(levels(&mut client, "'cpm', 1000.0"), ["0 48 1"]);
    assert_eq!(levels(&mut client, "'cpm', 0.0, 100"), ["0 1 48"]);
    assert!(levels(&mut client, "'cpm', 0.01, 3").len() > 1);
    for (arguments, message) in [
        ("'louvain'", "unknown algorithm \"louvain\""),
        ("max_size => 0", "max_size must be between 1 and 2147483647"),
        ("resolution => -1", "resolution must be between 0 and 1000000"),
        ("resolution => 'NaN'", "resolution must be between 0 and 1000000"),
    ] {
        let error = failure(&mut client, &format!("SELECT graph_communities('kb', {arguments})"));
        assert_eq!((error.code().code(), error.message()), ("22023", message));
    }
}

#[test]
fn merging_leaves_every_entity_in_one_community_a_level() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{RINGS} SELECT rag_create('kb'); SELECT rings('kb', 1, 4, 12); INSERT INTO kb.entity (name) VALUES ('alone'); \
             SELECT graph_communities('kb', max_size => 6); SELECT graph_merge('kb', 'r1 n003', 'r3 n007', 'alone'); \
             SELECT graph_merge('kb', 'r1 n004', 'r1 n005')"
        ),
    );
    let twice = "SELECT count(*) FROM (SELECT FROM kb.community c JOIN kb.community_entity e ON e.community_id = c.id \
                 GROUP BY e.entity_id, c.level HAVING count(*) > 1) t";
    assert_eq!(one::<i64>(&mut client, twice), 0);
    let miscounted = "SELECT count(*) FROM kb.community c WHERE size = 0 OR size <> (SELECT count(*) FROM kb.community_entity e WHERE e.community_id = c.id)";
    assert_eq!(one::<i64>(&mut client, miscounted), 0);
    let homeless = "SELECT count(*) FROM kb.entity t WHERE NOT EXISTS (SELECT FROM kb.community_entity e WHERE e.entity_id = t.id)";
    assert_eq!(one::<i64>(&mut client, homeless), 0);
}
