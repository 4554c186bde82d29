//! The textbook case of both methods: a question that no single passage answers.

use pg_graphrag_tests::Database;
use postgres::Client;

/// Three facts of one theme, one a document, among documents of two other themes.
const TURBINE: &str = "SELECT rag_create('kb', embedder => 'builtin:hash'); \
    INSERT INTO kb.document (source_key, body) VALUES \
      ('bearing', 'A cracked bearing stopped the turbine last Sunday.'), \
      ('smoke', 'Engineer Priya smelled smoke beside the turbine.'), \
      ('bill', 'Insurers paid the repair bill of the turbine in June.'), \
      ('dough', 'Rye dough ferments overnight in the bakery.'), \
      ('oven', 'The bakery fires its oven with beech wood.'), \
      ('loaf', 'Each loaf of the bakery weighs nine hundred grams.'), \
      ('owl', 'Barn owls hunt voles over the meadow at dusk.'), \
      ('nest', 'A nest box on the meadow holds four owls.'), \
      ('ring', 'Volunteers ring young owls beside the meadow.'); \
    SELECT * FROM raptor_build('kb', cluster_size => 3)";
const QUESTION: &str = "Which cracked bearing stopped it, which engineer smelled smoke, and who paid the repair bill?";
const FACTS: [&str; 3] = ["cracked bearing stopped", "Priya smelled smoke", "paid the repair bill"];

/// (level, score, text) of a search.
fn search(client: &mut Client, mode: &str) -> Vec<(i32, f64, String)> {
    let sql = "SELECT level, score, text FROM raptor_search('kb', $1, k => 20, mode => $2, overlap => 'keep')";
    let rows = client.query(sql, &[&QUESTION, &mode]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[test]
fn the_summary_of_three_facts_outranks_every_leaf() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(TURBINE).unwrap();

    let found = search(&mut client, "collapsed");
    let (level, score, text) = &found[0];
    assert_eq!(*level, 1, "{found:?}");
    assert!((0.60..=0.76).contains(score), "{score}");
    for fact in FACTS {
        assert!(text.contains(fact), "{fact} is not in {text}");
    }
    let best_leaf = found.iter().find(|row| row.0 == 0).unwrap();
    assert!((0.26..=0.42).contains(&best_leaf.1), "{best_leaf:?}");
    assert_eq!(found.len(), 9 + 3 + 1);

    // As it comes, the three leaves that this summary repeats leave their room to others.
    let sql = "SELECT text FROM raptor_search('kb', $1, k => 5)";
    let shown: Vec<String> = client
        .query(sql, &[&QUESTION])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(shown.len(), 5);
    for fact in FACTS {
        let times = shown.iter().filter(|text| text.contains(fact)).count();
        assert_eq!(times, 1, "{fact}: {shown:?}");
    }
}

#[test]
fn no_leaf_answers_the_question() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(TURBINE).unwrap();

    let found = search(&mut client, "leaf");
    assert_eq!(found.len(), 9);
    for (level, score, text) in &found {
        assert_eq!(*level, 0);
        assert!(*score <= 0.42, "{score} for {text}");
        let facts = FACTS.iter().filter(|fact| text.contains(**fact)).count();
        assert!(facts <= 1, "{text}");
    }
    // Each fact stands in one of the three leaves that are near at all.
    for fact in FACTS {
        assert_eq!(
            found[..3].iter().filter(|row| row.2.contains(fact)).count(),
            1,
            "{fact}"
        );
    }
}

/// Two themes that share no entity, stated by hand.
const THEMES: &str = "SELECT rag_create('kb', embedder => 'builtin:hash'); \
    SELECT graph_add('kb', s, p, o) FROM (VALUES \
      ('fraud_model', 'scores', 'payments'), ('risk_team', 'owns', 'fraud_model'), \
      ('payments', 'settle in', 'ledger'), ('fraud_model', 'flags', 'chargebacks'), \
      ('hiring_team', 'screens', 'candidates'), ('candidates', 'attend', 'interviews'), \
      ('recruiter', 'joins', 'hiring_team'), ('hiring_team', 'owns', 'job_offers')) v (s, p, o)";

#[test]
fn a_question_on_a_theme_gets_its_community() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(THEMES).unwrap();
    let row = client
        .query_one("SELECT communities, largest FROM graph_communities('kb')", &[])
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 5));
    let reports: i64 = client
        .query_one("SELECT reports FROM graph_summarize('kb')", &[])
        .unwrap()
        .get(0);
    assert_eq!(reports, 2);

    let sql = "SELECT score, title, summary, size FROM \
               graph_global('kb', 'Which team owns the risk model and what about fraud?')";
    let rows = client.query(sql, &[]).unwrap();
    assert_eq!(rows.len(), 2);
    let (winner, other): (f64, f64) = (rows[0].get(0), rows[1].get(0));
    assert!((0.5..=0.75).contains(&winner), "{winner}");
    assert!((0.0..=0.35).contains(&other), "{other}");
    assert!(rows[0].get::<_, &str>(1).contains("fraud_model"));
    let summary: &str = rows[0].get(2);
    for statement in [
        "risk_team owns fraud_model",
        "fraud_model scores payments",
        "payments settle in ledger",
    ] {
        assert!(summary.contains(statement), "{statement} is not in {summary}");
    }
    assert!(!summary.contains("hiring_team"));
    assert!(rows[1].get::<_, &str>(2).contains("hiring_team owns job_offers"));
    assert_eq!((rows[0].get::<_, i32>(3), rows[1].get::<_, i32>(3)), (5, 5));
}

#[test]
fn an_entity_is_found_as_subject_and_as_object() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute(THEMES).unwrap();
    let sql = "SELECT concat_ws(' ', hop, source, predicate, target) FROM graph_local('kb', 'fraud_model')";
    let edges: Vec<String> = client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(
        edges,
        [
            "1 fraud_model flags chargebacks",
            "1 fraud_model scores payments",
            "1 risk_team owns fraud_model"
        ]
    );
    let sql = "SELECT concat_ws(' ', hop, source, predicate, target) FROM graph_local('kb', 'fraud_model', 2)";
    let edges: Vec<String> = client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(edges.last().unwrap(), "2 payments settle in ledger");
    assert_eq!(edges.len(), 4);
}
