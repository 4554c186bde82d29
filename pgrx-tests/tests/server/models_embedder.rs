//! Vectors of one model alone: what is refused, how a collection goes over to another, and what goes with a document.

use std::sync::Arc;
use std::time::Duration;

use graphrag_mock::{Mock, unit_vector};
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{ALL, Running, collection, create_server, documents, items, mock, until};
use crate::support::{add, failure, list, one, run};

const FOUND: &str =
    "SELECT text || ' ' || round(score::numeric, 3) FROM raptor_search('kb', 'Anna7 met Bert7 in Ulm.', k => 1)";
const HIT: &str = "Anna7 met Bert7 in Ulm. 1.000";

/// How many leaves have the vector that `of` makes of their text, and how many there are.
fn embedded_by(client: &mut Client, of: impl Fn(&str) -> Vec<f32>) -> (usize, usize) {
    let sql = "SELECT text, embedding::real[] FROM kb.node WHERE level = 0";
    let leaves = client.query(sql, &[]).expect("leaves");
    let same = leaves.iter().filter(|row| {
        let Some(vector) = row.get::<_, Option<Vec<f32>>>(1) else {
            return false;
        };
        let expected = of(row.get(0));
        vector.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5)
    });
    (same.count(), leaves.len())
}

/// Vectors that a second model makes.
fn other(text: &str) -> Vec<f32> {
    unit_vector(&format!("other {text}"), 8)
}

fn second() -> Mock {
    mock(|options| options.embed = Arc::new(|text, _| other(text)))
}

#[test]
fn models_of_another_name_behind_the_same_server_are_refused() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    collection(&mut client, &mock, "", ", embedder => 'server:m'");
    run(&mut client, &documents(9));
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(one::<String>(&mut client, FOUND), HIT);
    for change in ["SET embedding_model 'other'", "ADD embedding_dimensions '8'"] {
        run(&mut client, &format!("ALTER SERVER m OPTIONS ({change})"));
        add(&mut client, "kb", &format!("Carl met Dora when {change}."));
        mock.reset();
        for sql in [
            "SELECT raptor_search('kb', 'Anna7 met Bert7 in Ulm.')",
            "SELECT rag_embed('kb', 'word')",
            "SELECT graph_global('kb', 'word')",
            "SELECT raptor_build('kb')",
            "CALL rag_refresh('kb')",
            "CALL rag_refresh('kb', steps => '{embed}')",
        ] {
            let error = failure(&mut client, sql);
            assert_eq!(
                format!("{} {}", error.code().code(), error.message()),
                "55000 the vectors of collection \"kb\" are of another model",
                "{sql}"
            );
            assert!(error.detail().unwrap().contains("server:m embed"), "{error:?}");
            let hint = "SELECT rag_alter('kb', '{\"embedder\": \"server:m\"}') and CALL rag_refresh embed them anew; or set the server back.";
            assert_eq!(error.hint(), Some(hint));
        }
        assert_eq!(mock.log().len(), 0, "nothing was paid");
    }
    // What stands is no secret: a search with a vector answers.
    let by_vector = "SELECT count(*) FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector, overlap => 'keep')";
    assert_eq!(one::<i64>(&mut client, by_vector), 10);
    // Set back, it goes on; the hint works, too.
    run(
        &mut client,
        "ALTER SERVER m OPTIONS (SET embedding_model 'embed', DROP embedding_dimensions)",
    );
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(one::<String>(&mut client, FOUND), HIT);
    run(&mut client, "ALTER SERVER m OPTIONS (SET embedding_model 'other')");
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:m\"}')");
    mock.reset();
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(one::<String>(&mut client, FOUND), HIT);
    assert!(mock.log().iter().all(|seen| seen.body["model"] == "other"));
    // Eleven leaves, the tree above them, and the query.
    let nodes: i64 = one(&mut client, "SELECT count(*) FROM kb.node");
    let reports: i64 = one(&mut client, "SELECT count(DISTINCT text) FROM kb.community");
    assert_eq!(items(&mock).len() as i64, nodes + reports + 1);
}

#[test]
fn models_are_changed_while_search_answers_from_the_old_vectors() {
    let functions = "CREATE SCHEMA own; CREATE FUNCTION own.embed(text) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$ \
      SELECT array_agg((get_byte(sha256(convert_to($1, 'UTF8')), n) - 100)::real) FROM generate_series(0, 7) n$$";
    for (from, to) in [
        ("server:m", "server:m2"),
        ("builtin:hash", "server:m2"),
        ("function:own.embed", "server:m2"),
        ("server:m", "builtin:hash"),
        ("server:m", "function:own.embed"),
    ] {
        let case = format!("{from} to {to}");
        let database = Database::new();
        let mut client = database.client();
        let (mock, second) = (mock(|_| {}), second());
        run(&mut client, functions);
        run(
            &mut client,
            &create_server("m2", &second.base_url(), ", batch_size '5'"),
        );
        collection(&mut client, &mock, "", &format!(", embedder => '{from}'"));
        run(&mut client, &documents(20));
        run(&mut client, "CALL rag_refresh('kb')");
        run(&mut client, "CALL rag_refresh('kb')");
        let before: Vec<String> = list(&mut client, "SELECT embedding::text FROM kb.node ORDER BY id");
        let leaves = "SELECT text || round(score::numeric, 3) FROM raptor_search('kb', 'Anna7 met Bert7 in Ulm.', k => 9, mode => 'leaf')";
        let old: Vec<String> = list(&mut client, leaves);

        run(
            &mut client,
            &format!("SELECT rag_alter('kb', '{{\"embedder\": \"{to}\"}}')"),
        );
        for reset in [&mock, &second] {
            reset.reset();
        }
        let mut session = database.client();
        assert_eq!(list::<String>(&mut session, leaves), old, "{case}");
        assert_eq!(
            mock.log().len(),
            usize::from(from == "server:m"),
            "{case}: a query to the old model"
        );
        // What comes meanwhile is cut, and found once it has a vector.
        add(&mut client, "kb", "Xaver21 met Yara21 in Ulm.");
        assert_eq!(
            one::<i64>(&mut client, "SELECT count(*) FROM kb.node WHERE level = 0"),
            21
        );
        if to == "server:m2" {
            // Half of it changes nothing.
            run(
                &mut client,
                "CALL rag_refresh('kb', max_calls => 6, steps => '{embed}')",
            );
            assert_eq!(items(&second).len(), 6, "{case}");
            let now: Vec<String> = list(
                &mut client,
                "SELECT embedding::text FROM kb.node WHERE embedding IS NOT NULL ORDER BY id",
            );
            assert_eq!(now[..before.len()], before, "{case}");
            assert_eq!(list::<String>(&mut client, leaves)[..5], old[..5], "{case}");
        }
        run(&mut client, "CALL rag_refresh('kb')");
        if to == "server:m2" {
            let all = items(&second);
            let mut distinct = all.clone();
            distinct.dedup();
            assert_eq!(all, distinct, "{case}: each text once");
        }
        let hit = "SELECT text || round(score::numeric, 3) FROM raptor_search('kb', 'Xaver21 met Yara21 in Ulm.', k => 1, mode => 'leaf')";
        assert_eq!(
            one::<String>(&mut client, hit),
            "Xaver21 met Yara21 in Ulm.1.000",
            "{case}"
        );
        let setting = "SELECT string_agg(key || value, ' ' ORDER BY key) FROM kb.setting WHERE key LIKE '%embedder%' AND key <> 'embedder_identity'";
        assert_eq!(
            one::<String>(&mut client, setting),
            format!("embedder\"{to}\""),
            "{case}"
        );
        if to == "server:m2" {
            assert_eq!(embedded_by(&mut client, other), (21, 21), "{case}");
        }
        let without: i64 = one(&mut client, "SELECT count(*) FROM kb.node WHERE embedding IS NULL");
        assert_eq!(without, 0, "{case}");
        let index: i64 = one(&mut client, "SELECT count(*) FROM kb.change");
        assert_eq!(index, 0, "{case}");
        for (table, what) in [("node", "level > 0"), ("community", "text IS NOT NULL")] {
            let count: i64 = one(
                &mut client,
                &format!("SELECT count(*) FROM kb.{table} WHERE {what} AND embedding IS NOT NULL"),
            );
            assert!(count > 0, "{case}: {table}");
        }
        // Nothing is left to do.
        for reset in [&mock, &second] {
            reset.reset();
        }
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(mock.log().len() + second.log().len(), 0, "{case}");
    }
}

#[test]
fn models_are_changed_at_once() {
    let database = Database::new();
    let mut client = database.client();
    let (mock, second) = (
        mock(|_| {}),
        self::mock(|options| {
            options.delay = Duration::from_millis(100);
            options.embed = Arc::new(|text, _| other(text));
        }),
    );
    run(
        &mut client,
        &create_server("m2", &second.base_url(), ", batch_size '2', concurrency '2'"),
    );
    collection(&mut client, &mock, "", ", embedder => 'server:m'");
    run(&mut client, &documents(40));
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:m2\"}')");
    let running = Running::start(database.client(), "CALL rag_refresh('kb', steps => '{embed}')");
    let mut seen = Vec::new();
    until("the end", || {
        let (new, all) = embedded_by(&mut client, other);
        assert_eq!(one::<String>(&mut client, FOUND), HIT);
        seen.push((new, all));
        running.is_finished()
    });
    running.end().0.unwrap();
    assert_eq!(embedded_by(&mut client, other), (40, 40));
    assert_eq!(one::<String>(&mut client, FOUND), HIT);
    seen.dedup();
    assert!(seen.iter().all(|state| [(0, 40), (40, 40)].contains(state)), "{seen:?}");
    assert_eq!(seen[0], (0, 40));
}

#[test]
fn models_of_other_dimensions_are_refused() {
    let database = Database::new();
    let mut client = database.client();
    let (five, good) = (mock(|options| options.dimensions = 5), mock(|_| {}));
    collection(&mut client, &five, "", ", embedder => 'server:m'");
    run(&mut client, &create_server("good", &good.base_url(), ""));
    run(&mut client, &documents(9));
    let message = "22000 the embedder answers vectors of 5 dimensions, collection \"kb\" has 8";
    let hint = "Make the collection with dimensions => 5, or take a model of 8; some can be asked for another size by \
                the option embedding_dimensions.";
    let refused = |client: &mut Client, sql: &str| {
        let error = failure(client, sql);
        assert_eq!(format!("{} {}", error.code().code(), error.message()), message, "{sql}");
        assert_eq!(error.hint(), Some(hint), "{sql}");
    };
    for sql in [
        "CALL rag_refresh('kb')",
        "SELECT raptor_build('kb')",
        "SELECT rag_embed('kb', 'word')",
    ] {
        refused(&mut client, sql);
        let failed: i64 = one(
            &mut client,
            "SELECT count(*) FROM kb.model_call WHERE status = 'failed'",
        );
        assert_eq!(failed, 0);
    }
    // Nor does a collection go over to it.
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:good\"}')");
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(one::<String>(&mut client, FOUND), HIT);
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:m\"}')");
    refused(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(one::<String>(&mut client, FOUND), HIT);
    run(&mut client, "SELECT rag_alter('kb', '{\"embedder\": \"server:good\"}')");
    good.reset();
    run(&mut client, "CALL rag_refresh('kb')");
    assert_eq!(good.log().len(), 0);
}

#[test]
fn models_are_asked_only_for_what_has_changed() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|_| {});
    let sizes = ", settings => '{\"block_tokens\": 50, \"leaf_tokens\": 20, \"leaf_overlap\": 0}'";
    collection(
        &mut client,
        &mock,
        "",
        &format!(", embedder => 'server:m', extractor => 'server:m'{sizes}"),
    );
    let part = |n: i32, what: &str| {
        format!(
            "# Part {n}\n\nAnna{n} met Bert{n} in the old town of Ulm on {what}, and they had a long talk about ships of the year {n}.\n\n"
        )
    };
    let body = |days: [&str; 4]| (0..4).map(|n| part(n as i32, days[n])).collect::<String>();
    client
        .execute(
            "INSERT INTO kb.document (title, body, format, source_key) VALUES ('T', $1, 'markdown', 'k')",
            &[&body(["Monday"; 4])],
        )
        .unwrap();
    run(&mut client, ALL);
    let leaves: i64 = one(&mut client, "SELECT count(*) FROM kb.node WHERE level = 0");
    let blocks: i64 = one(&mut client, "SELECT count(*) FROM kb.block");
    assert_eq!(blocks, 4);
    let asked = |mock: &Mock, step: &str| -> usize {
        let of_step = |item: &&String| item.contains("\"role\"") == (step == "extract");
        items(mock).iter().filter(of_step).count()
    };
    assert!(asked(&mock, "embed") as i64 > leaves);
    assert_eq!(asked(&mock, "extract"), 4);

    // (change, blocks asked, leaves asked)
    let steps = "CALL rag_refresh('kb', steps => '{embed,extract}')";
    let tuesday = body(["Monday", "Tuesday", "Monday", "Monday"]);
    let fewer: String = tuesday.split_inclusive(".\n\n").take(3).collect();
    for (change, blocks, leaves) in [
        (format!("body = $${tuesday}$$"), 1, 1),
        ("metadata = '{\"a\": 1}'".to_owned(), 0, 0),
        (format!("body = $${fewer}$$"), 0, 0),
        // What went comes back: it was forgotten.
        (format!("body = $${tuesday}$$"), 1, 1),
        // It stands in the requests for blocks, but that is no reason to read them again.
        ("title = 'U'".to_owned(), 0, 0),
    ] {
        mock.reset();
        run(&mut client, &format!("UPDATE kb.document SET {change}"));
        run(&mut client, steps);
        assert_eq!(
            (asked(&mock, "extract"), asked(&mock, "embed") > 0),
            (blocks, leaves > 0),
            "{change}"
        );
        if leaves > 0 {
            let per_part = one::<i64>(
                &mut client,
                "SELECT count(*) FROM kb.node WHERE level = 0 AND block_id = (SELECT max(id) FROM kb.block)",
            );
            assert!(asked(&mock, "embed") as i64 <= per_part, "{change}");
        }
    }
    run(&mut client, ALL);
    let open: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.model_call WHERE status NOT IN ('done', 'forgotten') OR stale",
    );
    assert_eq!(open, 0);
}
