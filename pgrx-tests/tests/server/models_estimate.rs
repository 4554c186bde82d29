//! What a run is said to cost, against what it costs.

use std::sync::Arc;

use graphrag_mock::{Mock, Options};
use graphrag_text::tokens;
use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{add, one, run};

/// A model whose answers are as long as those of a real one, and which counts tokens as the extension does.
fn model() -> Mock {
    let chat = |system: &str, user: &str| {
        let text = user.split_once("<passage").map_or(user, |(_, text)| text);
        let words: Vec<&str> = text.split_whitespace().take(120).collect();
        match system.contains("\"entities\"") {
            true => format!(
                "{{\"entities\": [{{\"name\": \"{}\", \"type\": \"thing\", \"description\": \"{}\"}}], \"relations\": []}}",
                words[1].replace(['"', '\\'], ""),
                words.join(" ").replace(['"', '\\'], "")
            ),
            false => words.join(" "),
        }
    };
    Mock::start(Options {
        chat: Arc::new(chat),
        tokens: Arc::new(tokens::count),
        ..Options::default()
    })
}

/// The corpus of the examples, several times over with other words in each copy.
fn corpus(client: &mut Client, copies: usize) {
    let mut folders = vec![std::path::PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/corpus"
    ))];
    let mut bodies = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .expect("the corpus")
            .map(|entry| entry.expect("an entry").path())
        {
            match entry.is_dir() {
                true => folders.push(entry),
                false => bodies.push(std::fs::read_to_string(entry).expect("a text")),
            }
        }
    }
    bodies.sort();
    for copy in 0..copies {
        for body in &bodies {
            add(client, "kb", &body.replace(" the ", &format!(" the{copy} ")));
        }
    }
}

/// Calls, calls at most, and tokens of a step, as they are foretold; or without the calls at most, as they were.
fn foretold(client: &mut Client, step: &str) -> (i64, i64, i64) {
    let sql = "SELECT sum(calls)::bigint, sum(calls_high)::bigint, sum(prompt_tokens)::bigint FROM rag_estimate('kb') WHERE step = $1";
    let row = client.query_one(sql, &[&step]).expect("an estimate");
    (row.get(0), row.get(1), row.get(2))
}

fn used(client: &mut Client, step: &str) -> (i64, i64) {
    let sql = "SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(prompt_tokens), 0)::bigint FROM rag_usage('kb') WHERE step = $1";
    let row = client.query_one(sql, &[&step]).expect("usage");
    (row.get(0), row.get(1))
}

#[track_caller]
fn within(share: f64, foretold: i64, used: i64) {
    let off = (foretold - used).abs() as f64 / used as f64;
    assert!(
        off <= share,
        "foretold {foretold}, used {used}: {:.1} % off",
        off * 100.0
    );
}

#[test]
fn an_estimate_is_close_to_what_a_run_uses() {
    let mock = model();
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "CREATE SERVER m FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url '{}', chat_model 'c', embedding_model 'e', \
               price_in '2', price_out '8', price_embedding '0.1'); \
             SELECT rag_create('kb', 8, 'server:m', 'server:m', 'server:m')",
            mock.base_url()
        ),
    );
    corpus(&mut client, 3);
    let before = ["embed", "tree", "extract"].map(|step| foretold(&mut client, step));
    let (reports, reports_high, _) = foretold(&mut client, "reports");
    assert_eq!(reports, 0);
    assert!(reports_high > 0);
    assert!(one::<bool>(
        &mut client,
        "SELECT bool_and(cost > 0 OR calls = 0) AND bool_and(calls_high >= calls) FROM rag_estimate('kb')"
    ));
    assert_eq!(mock.log().len(), 0, "an estimate asks nothing");

    run(
        &mut client,
        "CALL rag_refresh('kb', steps => '{embed,tree,extract,describe,communities,reports}')",
    );
    for (step, (calls, high, tokens)) in ["embed", "tree", "extract"].into_iter().zip(before) {
        let (used_calls, used_tokens) = used(&mut client, step);
        // How many clusters leaves make is only about known.
        let (of_calls, of_tokens) = if step == "tree" { (0.4, 0.4) } else { (0.1, 0.2) };
        within(of_calls, calls, used_calls);
        within(of_tokens, tokens, used_tokens);
        assert!(
            used_calls <= high,
            "{step}: {used_calls} calls, at most {high} were foretold"
        );
    }
    assert!(used(&mut client, "reports").0 <= reports_high);
    // Nothing is left to ask, so nothing is foretold.
    assert_eq!(
        one::<i64>(&mut client, "SELECT sum(calls_high)::bigint FROM rag_estimate('kb')"),
        0
    );
    // Cost is tokens by price, for a million of them.
    assert!(one::<bool>(
        &mut client,
        "SELECT bool_and(cost = CASE role WHEN 'embedder' THEN prompt_tokens * 0.1 ELSE prompt_tokens * 2.0 + completion_tokens * 8.0 END \
           / 1000000) FROM kb.model_call"
    ));
}

#[test]
fn an_estimate_knows_documents_that_wait_to_be_cut_and_learns_from_what_is_done() {
    let mock = model();
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "CREATE SERVER m FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url '{}', chat_model 'c', embedding_model 'e'); \
             SELECT rag_create('kb', 8, 'server:m', 'server:m', 'server:m', settings => '{{\"inline_rows\": 0}}')",
            mock.base_url()
        ),
    );
    corpus(&mut client, 2);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.block"), 0);
    let (calls, _, tokens) = foretold(&mut client, "embed");
    let (blocks, _, _) = foretold(&mut client, "extract");
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(
        (calls, blocks),
        (
            one(
                &mut client,
                "SELECT count(DISTINCT text_hash) FROM kb.node WHERE level = 0"
            ),
            one(&mut client, "SELECT count(*) FROM kb.block")
        )
    );
    within(0.2, tokens, used(&mut client, "embed").1);

    // A few blocks tell how long answers are.
    run(
        &mut client,
        "CALL rag_refresh('kb', max_calls => 10, steps => '{extract}')",
    );
    let sql = "SELECT completion_tokens FROM rag_estimate('kb') WHERE step = 'extract'";
    let rest: i64 = one(&mut client, sql);
    let so_far: i64 = one(
        &mut client,
        "SELECT completion_tokens FROM rag_usage('kb') WHERE step = 'extract'",
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT calls FROM rag_usage('kb') WHERE step = 'extract'"),
        10
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{extract}')");
    within(
        0.2,
        rest + so_far,
        one(
            &mut client,
            "SELECT completion_tokens FROM rag_usage('kb') WHERE step = 'extract'",
        ),
    );
    // Built-in models ask nothing.
    run(
        &mut client,
        "SELECT rag_create('free', 8); SELECT rag_add('free', 'Ada met Bob in Bergen.')",
    );
    assert_eq!(
        one::<i64>(&mut client, "SELECT sum(calls_high)::bigint FROM rag_estimate('free')"),
        0
    );
}
