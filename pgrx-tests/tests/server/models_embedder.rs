//! Vectors of one model alone: what is refused, how a collection goes over to another, and what goes with a document.

use std::sync::Arc;
use std::time::Duration;

use graphrag_mock::{Mock, unit_vector};
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::models_support::{Running, collection, create_server, documents, items, mock, told, until};
use crate::support::{add, failure, list, one, rows, run};

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
    let by_vector = "SELECT count(*) FROM raptor_search('kb', '[1,0,0,0,0,0,0,0]'::vector)";
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

const ALL: &str = "CALL rag_refresh('kb', steps => '{embed,tree,extract,communities,reports}')";

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

/// All traces of document 3 in the collection: its word, and the digests that were made of what it says.
fn traces(client: &mut Client, digests: &[String]) -> Vec<String> {
    rows(client, "kb")
        .into_iter()
        .filter(|row| {
            let row = row.to_lowercase();
            row.contains("zyxwvut") || digests.iter().any(|digest| row.contains(digest))
        })
        .collect()
}

const USAGE: &str = "SELECT u::text FROM rag_usage('kb') u";

#[test]
fn models_forget_what_they_read_in_documents_that_go() {
    for change in [
        "DELETE FROM kb.document WHERE id = 3",
        "TRUNCATE kb.document",
        "UPDATE kb.document SET body = 'Nothing.' WHERE id = 3",
    ] {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|_| {});
        collection(
            &mut client,
            &mock,
            ", price_in '2', price_out '3', price_embedding '1'",
            ", 'server:m', 'server:m', 'server:m', 'server:m'",
        );
        run(
            &mut client,
            "INSERT INTO kb.document (body) SELECT 'Anna' || i || ' met ' || CASE i WHEN 3 THEN 'Zyxwvut' ELSE 'Bert' END || \
               ' in Ulm, and they had a talk.' FROM generate_series(1, 12) i",
        );
        run(&mut client, ALL);
        run(
            &mut client,
            "SELECT rag_ask('kb', 'Whom did Anna3 meet at the Zyxwvut?')",
        );
        // One more that is asked and not answered, and one that has failed.
        add(&mut client, "kb", "Emil met Frida.");
        run(
            &mut client,
            "UPDATE kb.document SET body = body || ' Zyxwvut came again.' WHERE id = 3",
        );
        run(&mut client, "CALL rag_refresh('kb', 1, '{extract}')");
        let digests: Vec<String> = list(
            &mut client,
            "SELECT encode(d, 'hex') FROM ( \
               SELECT text_hash AS d FROM kb.node WHERE document_id = 3 UNION SELECT text_hash FROM kb.block WHERE document_id = 3 \
               UNION SELECT n.text_hash FROM kb.node n JOIN kb.node_source s ON s.node_id = n.id AND s.document_id = 3 \
               UNION SELECT key FROM kb.model_call_source WHERE document_id = 3 \
               UNION SELECT sha256(convert_to('Zyxwvut', 'UTF8')) \
               UNION SELECT sha256(convert_to(body, 'UTF8')) FROM kb.document WHERE id = 3) x",
        );
        assert!(digests.len() > 8, "{digests:?}");
        let keys = "SELECT count(*) FROM kb.model_call WHERE key IN (SELECT key FROM kb.model_call_source WHERE document_id = 3)";
        assert!(one::<i64>(&mut client, keys) > 4);
        assert!(traces(&mut client, &digests).len() > 6);
        let usage: Vec<String> = list(&mut client, USAGE);
        assert_eq!(usage.len(), 5, "{usage:?}");

        run(&mut client, change);
        if change.starts_with("UPDATE") {
            // What can still be used is kept until the next run.
            run(&mut client, ALL);
        } else {
            assert_eq!(list::<String>(&mut client, USAGE), usage, "{change}");
        }
        let left = traces(&mut client, &digests);
        assert_eq!(left, [""; 0], "{change}: {left:#?}");
        mock.reset();
        run(&mut client, ALL);
        let left = traces(&mut client, &digests);
        assert_eq!(left, [""; 0], "{change} and a refresh: {left:#?}");
        let sent = format!("{:?}", mock.log());
        assert!(!sent.to_lowercase().contains("zyxwvut"), "{change}");
        let dangling: i64 = one(
            &mut client,
            "SELECT count(*) FROM kb.model_call_source s WHERE NOT EXISTS (SELECT FROM kb.document d WHERE d.id = s.document_id)",
        );
        assert_eq!(dangling, 0, "{change}");
    }
}

/// The title of a document stands in the requests for its blocks.
#[test]
fn models_forget_titles_that_change() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.chat = Arc::new(|_, _| "Nothing.".to_owned()));
    collection(
        &mut client,
        &mock,
        "",
        ", extractor => 'server:m', settings => '{\"max_attempts\": 1}'",
    );
    for body in ["Anna met Bert.", "Carl met Dora."] {
        run(
            &mut client,
            &format!("INSERT INTO kb.document (title, body) VALUES ('Zyxwvut', '{body}')"),
        );
    }
    run(&mut client, "CALL rag_refresh('kb', 1, '{extract}')");
    let state = "SELECT string_agg(status, ' ' ORDER BY id) FROM kb.model_call WHERE request::text LIKE '%Zyxwvut%'";
    assert_eq!(one::<String>(&mut client, state), "failed pending");
    run(&mut client, "UPDATE kb.document SET title = 'Other'");
    for _ in 0..4 {
        run(&mut client, "CALL rag_refresh('kb', steps => '{extract}')");
    }
    let left = traces(&mut client, &[]);
    assert_eq!(left, [""; 0], "{left:#?}");
}

#[test]
fn models_answers_for_a_document_that_went_meanwhile_are_dropped() {
    let changes = [
        "DELETE FROM kb.document WHERE id = 3",
        "UPDATE kb.document SET body = 'Emil met Frida.' WHERE id = 3",
    ];
    for (step, change) in ["embed", "extract", "tree", "reports"]
        .into_iter()
        .flat_map(|step| changes.map(|change| (step, change)))
    {
        let database = Database::new();
        let mut client = database.client();
        let mock = mock(|options| options.delay = Duration::from_millis(100));
        collection(
            &mut client,
            &mock,
            ", concurrency '4', batch_size '64'",
            ", 'server:m', 'server:m', 'server:m'",
        );
        run(
            &mut client,
            "INSERT INTO kb.document (body) SELECT 'Anna' || i || ' met ' || CASE i WHEN 3 THEN 'Zyxwvut' ELSE 'Bert' END || \
               ' in Ulm.' FROM generate_series(1, 6) i",
        );
        let before = match step {
            "tree" => "embed",
            "reports" => "extract,communities",
            _ => "",
        };
        run(&mut client, &format!("CALL rag_refresh('kb', steps => '{{{before}}}')"));
        mock.reset();
        let running = Running::start(
            database.client(),
            &format!("CALL rag_refresh('kb', steps => '{{{step}}}')"),
        );
        until("it is asked", || {
            format!("{:?}", mock.log()).contains("Zyxwvut") && mock.waiting() > 0
        });
        run(&mut client, change);
        let (result, mut session) = running.end();
        result.unwrap_or_else(|error| panic!("{step}: {}", told(&error)));
        if change.starts_with("DELETE") {
            let left = traces(&mut client, &[]);
            assert_eq!(left, [""; 0], "{step}");
        }
        run(&mut session, ALL);
        let left = traces(&mut client, &[]);
        assert_eq!(left, [""; 0], "{step}, {change}");
        let open: i64 = one(
            &mut client,
            "SELECT count(*) FROM kb.model_call WHERE status NOT IN ('done', 'forgotten')",
        );
        assert_eq!(open, 0, "{step}");
    }
}

/// What was in the air when a document went is paid, and stands in the bill.
#[test]
fn models_that_answer_for_a_document_that_went_are_in_the_bill() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.delay = Duration::from_millis(200));
    collection(&mut client, &mock, ", price_in '1'", ", extractor => 'server:m'");
    run(&mut client, &documents(4));
    let running = Running::start(database.client(), "CALL rag_refresh('kb', steps => '{extract}')");
    until("it is asked", || mock.waiting() == 4);
    run(&mut client, "DELETE FROM kb.document WHERE id > 2");
    running.end().0.unwrap();
    assert_eq!(mock.answered(), 4);
    let paid: usize = mock
        .log()
        .iter()
        .flat_map(|seen| seen.body["messages"].as_array().cloned().unwrap_or_default())
        .map(|message| {
            message["content"]
                .as_str()
                .unwrap_or_default()
                .split_whitespace()
                .count()
        })
        .sum();
    let billed = "SELECT prompt_tokens FROM rag_usage('kb') WHERE step = 'extract'";
    assert_eq!(one::<i64>(&mut client, billed) as usize, paid);
}
