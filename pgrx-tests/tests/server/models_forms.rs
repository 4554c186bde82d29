//! A function, a server and a queue that answer alike make the same collection.

use std::sync::{Arc, Mutex};

use graphrag_mock::{Mock, Options};
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::{Value, json};

use crate::models_support::{create_server, passage, told};
use crate::support::{list, one, run};

const ALL: &str = "CALL rag_refresh('kb', steps => '{embed,tree,extract,communities,reports}')";

/// The models, as SQL functions; whatever the form is, they answer.
const FUNCTIONS: &str = "CREATE SCHEMA own; \
    CREATE FUNCTION own.embed(text) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$ \
      SELECT array_agg((get_byte(sha256(convert_to($1, 'UTF8')), n) - 100) / 7.0::real) FROM generate_series(0, 7) n$$; \
    CREATE FUNCTION own.extract(text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ \
      SELECT jsonb_build_object( \
        'entities', (SELECT jsonb_agg(jsonb_build_object('name', m[1], 'type', 'name', 'description', 'In ' || length($1))) \
                     FROM regexp_matches($1, '[A-Z][a-z]+[0-9]+', 'g') m), \
        'relations', (SELECT jsonb_agg(jsonb_build_object('subject', m[1], 'predicate', m[2], 'object', m[3], \
                                                          'quote', m[1] || ' ' || m[2] || ' ' || m[3], 'strength', length(m[1]))) \
                      FROM regexp_matches($1, '([A-Z][a-z]+[0-9]+) ([a-z]+) ([A-Z][a-z]+[0-9]+)', 'g') m))$$; \
    CREATE FUNCTION own.summarize(text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$ \
      SELECT cardinality($1) || ' texts: ' || string_agg(left(t, 30), ' / ' ORDER BY n) FROM unnest($1) WITH ORDINALITY u (t, n)$$";

/// Documents of several blocks, with titles and sections.
const DOCUMENTS: &str = "INSERT INTO kb.document (title, body, format, metadata) \
    SELECT 'Title ' || i, string_agg('# Part ' || j || E'\\n\\nAnna' || i || ' met Bert' || j || ' in the town of Ulm on a day in May. ' \
             || 'Bert' || j || ' thanked Carl' || i % 5 || ' for a book of nine hundred pages.', E'\\n\\n' ORDER BY j), \
           'markdown', jsonb_build_object('n', i) \
    FROM generate_series(1, 14) i, generate_series(1, 3) j GROUP BY i ORDER BY i";

/// A database with the functions, and the collection with the models that are named.
fn made(models: [&str; 3]) -> (Database, Client) {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, FUNCTIONS);
    let mock = models.iter().any(|model| model.starts_with("server:"));
    if mock {
        let mock = alike(database.client());
        let more = ", concurrency '3', batch_size '5'";
        run(
            &mut client,
            &(create_server("m", &mock.base_url(), more)
                + &create_server("a", &mock.base_url(), ", api 'anthropic'")
                + &create_server("plain", &mock.base_url(), ", structured_output 'none', temperature '1'")),
        );
        // It lives as long as the process.
        std::mem::forget(mock);
    }
    let [embedder, summarizer, extractor] = models;
    run(
        &mut client,
        &format!(
            "SELECT rag_create('kb', 8, '{embedder}', '{summarizer}', '{extractor}', settings => \
               '{{\"block_tokens\": 50, \"leaf_tokens\": 20, \"leaf_overlap\": 4, \"cluster_size\": 4}}'); {DOCUMENTS}"
        ),
    );
    (database, client)
}

/// The texts of a prompt for a summary or a report.
fn texts(user: &str) -> Vec<&str> {
    if let Some((_, list)) = user.split_once("<statements>\n") {
        let list = list.split_once("</statements>").expect("an end").0;
        return list.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    }
    user.split("<passage n=\"")
        .skip(1)
        .map(|part| {
            let text = part.split_once(">\n").expect("a number").1;
            text.rsplit_once("\n</passage>").expect("an end").0
        })
        .collect()
}

fn chat(client: &mut Client, system: &str, user: &str) -> String {
    let row = match system.contains("\"entities\"") {
        true => client.query_one("SELECT own.extract($1)::text", &[&passage(user)]),
        false => client.query_one("SELECT own.summarize($1)", &[&texts(user)]),
    };
    row.expect("an answer").get(0)
}

fn embed(client: &mut Client, text: &str) -> Vec<f32> {
    client
        .query_one("SELECT own.embed($1)", &[&text])
        .expect("a vector")
        .get(0)
}

/// A server that answers as the functions of the database do.
fn alike(client: Client) -> Mock {
    let client = Arc::new(Mutex::new(client));
    let other = client.clone();
    Mock::start(Options {
        chat: Arc::new(move |system, user| chat(&mut client.lock().expect("a client"), system, user)),
        embed: Arc::new(move |text, _| embed(&mut other.lock().expect("a client"), text)),
        ..Options::default()
    })
}

/// Answers what is pending in the queue, as a program does; each in another of the forms that are taken.
fn answer_queue(client: &mut Client) -> usize {
    let sql = "SELECT key, role, request FROM kb.model_call WHERE status = 'pending' AND model = 'queue' ORDER BY id";
    let rows = client.query(sql, &[]).expect("the queue");
    for (number, row) in rows.iter().enumerate() {
        let (key, role, request): (Vec<u8>, String, Value) = (row.get(0), row.get(1), row.get(2));
        let response = match role.as_str() {
            "embedder" => {
                let vector = embed(client, request["input"].as_str().expect("a text"));
                match number % 2 {
                    0 => json!(vector),
                    _ => {
                        json!({"object": "list", "data": [{"index": 0, "embedding": vector}], "usage": {"prompt_tokens": 3}})
                    }
                }
            }
            _ => {
                let part = |n: usize| request["messages"][n]["content"].as_str().expect("a message");
                let text = chat(client, part(0), part(1));
                match number % 4 {
                    0 => json!(text),
                    1 => {
                        json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                                "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
                    }
                    2 => {
                        json!({"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                                "usage": {"input_tokens": 7, "output_tokens": 2}})
                    }
                    _ => match serde_json::from_str::<Value>(&text) {
                        Ok(object) => object,
                        Err(_) => json!(text),
                    },
                }
            }
        };
        let sql = "UPDATE kb.model_call SET response = $2, status = 'done' WHERE key = $1";
        assert_eq!(client.execute(sql, &[&key, &response]).expect("an update"), 1);
    }
    rows.len()
}

/// All that was made, ids included.
fn contents(client: &mut Client) -> Vec<String> {
    let documents =
        "SELECT 'document ' || (to_jsonb(d) - '{created_at,updated_at}'::text[])::text FROM kb.document d ORDER BY 1";
    let mut rows: Vec<String> = list(client, documents);
    for table in [
        "block",
        "node",
        "node_child",
        "node_source",
        "posting",
        "term",
        "entity",
        "entity_alias",
        "mention",
        "relation",
        "evidence",
        "claim",
        "community",
        "community_entity",
        "community_source",
    ] {
        rows.extend(list::<String>(
            client,
            // What a summary was written by differs.
            &format!("SELECT '{table} ' || (to_jsonb(t) - 'member_hash')::text FROM kb.{table} t ORDER BY 1"),
        ));
    }
    rows
}

#[track_caller]
fn same(name: &str, made: &[String], expected: &[String]) {
    let other: Vec<&String> = made.iter().filter(|row| !expected.contains(row)).take(3).collect();
    let missing: Vec<&String> = expected.iter().filter(|row| !made.contains(row)).take(3).collect();
    assert!(
        made == expected,
        "{name}: {} rows, {} are due\nnew: {other:#?}\nmissing: {missing:#?}",
        made.len(),
        expected.len()
    );
}

/// Refreshes until nothing is pending; answers the number of rounds.
fn refresh(client: &mut Client) -> usize {
    for round in 1..30 {
        run(client, ALL);
        if answer_queue(client) == 0 {
            let open: i64 = one(client, "SELECT count(*) FROM kb.model_call WHERE status <> 'done'");
            assert_eq!(open, 0);
            return round;
        }
    }
    panic!("there is always something pending");
}

#[test]
fn models_make_the_same_collection_in_all_forms() {
    let functions = ["function:own.embed", "function:own.summarize", "function:own.extract"];
    let (_database, mut client) = made(functions);
    assert_eq!(refresh(&mut client), 1);
    let expected = contents(&mut client);
    let counts: Vec<i64> = [
        "node WHERE level > 1",
        "relation",
        "evidence",
        "community WHERE text IS NOT NULL",
    ]
    .iter()
    .map(|table| one(&mut client, &format!("SELECT count(*) FROM kb.{table}")))
    .collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");

    for models in [
        ["server:m", "server:m", "server:m"],
        ["queue", "queue", "queue"],
        ["server:m", "queue", "function:own.extract"],
        ["function:own.embed", "server:m", "queue"],
        ["function:own.embed", "server:a", "server:plain"],
        ["server:plain", "server:plain", "server:a"],
    ] {
        let (_database, mut client) = made(models);
        let rounds = refresh(&mut client);
        println!("{models:?}: {rounds} rounds, {} rows", contents(&mut client).len());
        assert_eq!(rounds > 1, models.contains(&"queue"));
        same(&format!("{models:?}"), &contents(&mut client), &expected);
    }

    // In one transaction it is the same, too.
    let build = "SELECT raptor_build('kb'); SELECT graph_extract('kb'); SELECT graph_communities('kb'); SELECT graph_summarize('kb')";
    for models in [functions, ["server:m", "server:m", "server:m"]] {
        let (_database, mut client) = made(models);
        run(&mut client, build);
        same(&format!("functions of {models:?}"), &contents(&mut client), &expected);
    }
}

/// The answers are the same, so going over to another form of the embedder changes nothing, ids included.
#[test]
fn models_of_another_form_that_answer_alike_make_the_same_vectors() {
    let (_database, mut client) = made(["function:own.embed", "server:m", "function:own.extract"]);
    refresh(&mut client);
    let expected = contents(&mut client);
    let nodes: i64 = one(
        &mut client,
        "SELECT count(*) + (SELECT count(*) FROM kb.community WHERE text IS NOT NULL) FROM kb.node",
    );
    for (to, rounds) in [("queue", 2), ("server:m", 1), ("queue", 2), ("function:own.embed", 1)] {
        run(
            &mut client,
            &format!("SELECT rag_alter('kb', '{{\"embedder\": \"{to}\"}}')"),
        );
        run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
        if rounds > 1 {
            let waiting = "SELECT waiting FROM rag_status('kb') WHERE step = 'embed'";
            assert!((1..=nodes).contains(&one::<i64>(&mut client, waiting)), "{to}");
            assert_eq!(contents(&mut client), expected, "{to}: not yet");
            assert!(answer_queue(&mut client) > 0);
            run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
        }
        let setting = "SELECT string_agg(key || value, ' ' ORDER BY key) FROM kb.setting WHERE key IN ('embedder', 'next_embedder')";
        assert_eq!(one::<String>(&mut client, setting), format!("embedder\"{to}\""));
        same(to, &contents(&mut client), &expected);
        if to == "queue" {
            let error = client.batch_execute("SELECT raptor_search('kb', 'Anna1')").unwrap_err();
            assert!(
                told(&error).starts_with("55000 the embedder of this collection is a queue"),
                "{error:?}"
            );
        }
        // And all steps find nothing to do.
        assert_eq!(refresh(&mut client), 1, "{to}");
        same(to, &contents(&mut client), &expected);
    }
}

#[test]
fn models_queue_takes_answers_as_providers_give_them_and_no_garbage() {
    let (_database, mut client) = made(["builtin:hash", "queue", "queue"]);
    run(&mut client, "DELETE FROM kb.document WHERE id > 4");
    run(&mut client, "CALL rag_refresh('kb', steps => '{extract}')");
    let keys: Vec<Vec<u8>> = list(&mut client, "SELECT key FROM kb.model_call ORDER BY id");
    assert_eq!(keys.len(), 12);
    let good = json!({"entities": [{"name": "Anna"}], "relations": [{"subject": "Anna", "predicate": "met", "object": "Bert"}]});
    let text = good.to_string();
    let answers = [
        (
            json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
            "done {}",
        ),
        (
            json!({"content": [{"type": "tool_use", "name": "extraction", "input": good}], "stop_reason": "tool_use"}),
            "done {}",
        ),
        (json!(text), "done {}"),
        (good.clone(), "done {}"),
        (json!({"text": text}), "done {}"),
        (json!(format!("Sure!\n```json\n{text}\n```")), "done {fence}"),
        (json!("no idea"), "failed the reply holds no entities and no relations"),
        (json!(""), "failed the reply is empty"),
        (json!(17), "failed the reply holds no entities and no relations"),
        (
            json!({"choices": []}),
            "failed the reply does not have the expected form",
        ),
        (
            json!({"error": {"message": "overloaded"}}),
            "failed the reply holds no entities and no relations",
        ),
        (json!({"content": []}), "failed the reply is empty"),
    ];
    for (key, (response, _)) in keys.iter().zip(&answers) {
        let sql = "UPDATE kb.model_call SET response = $2, status = 'done' WHERE key = $1";
        client.execute(sql, &[key, response]).unwrap();
    }
    run(&mut client, "CALL rag_refresh('kb', steps => '{extract}')");
    for (key, (response, expected)) in keys.iter().zip(&answers) {
        let sql = "SELECT status || ' ' || coalesce(error, repairs::text) FROM kb.model_call WHERE key = $1";
        let became: String = client.query_one(sql, &[key]).unwrap().get(0);
        assert_eq!(became, *expected, "{response}");
    }
    let read = "SELECT string_agg(DISTINCT name, ' ' ORDER BY name) || ' ' || count(DISTINCT block_id) FROM kb.mention";
    assert_eq!(one::<String>(&mut client, read), "Anna Bert 6");
    // What has failed stands in the queue again, up to max_attempts.
    run(&mut client, "CALL rag_refresh('kb', steps => '{extract}')");
    let state = "SELECT string_agg(status || attempts, ' ' ORDER BY id) FROM kb.model_call WHERE request <> '{}'";
    assert_eq!(one::<String>(&mut client, state), ["pending1"; 6].join(" "));
    let asked: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.model_call WHERE request -> 'messages' IS NOT NULL AND response IS NULL",
    );
    assert_eq!(asked, 6);

    // Vectors that are none.
    let (_database, mut client) = made(["queue", "builtin:frequency", "builtin:cooccurrence"]);
    run(&mut client, "DELETE FROM kb.document WHERE id > 2");
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    let keys: Vec<Vec<u8>> = list(&mut client, "SELECT key FROM kb.model_call ORDER BY id");
    let vector = json!([1, 0, 0, 0, 0, 0, 0, 2.5]);
    let answers = [
        (vector.clone(), "done "),
        (json!({"embedding": vector}), "done "),
        (json!({"data": [{"embedding": vector}]}), "done "),
        (json!([0, 0, 0, 0, 0, 0, 0, 0]), "done "),
        (json!("text"), "failed the response holds no vector"),
        (json!(["a"]), "failed the vector holds something that is no number"),
        (
            json!([1, null, 0, 0, 0, 0, 0, 0]),
            "failed the vector holds something that is no number",
        ),
        // Vectors of a queue may come from anywhere: one of the wrong size is no proof that the others are.
        (json!([1, 2]), "failed the vector has 2 dimensions, 8 are wanted"),
        (
            json!([1e300, 0, 0, 0, 0, 0, 0, 0]),
            "failed the vector holds a number that is not finite",
        ),
    ];
    assert!(keys.len() >= answers.len(), "{}", keys.len());
    let answer = "UPDATE kb.model_call SET response = $2, status = 'done' WHERE key = $1";
    for (key, (response, _)) in keys.iter().zip(&answers) {
        client.execute(answer, &[key, response]).unwrap();
    }
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    for (key, (response, expected)) in keys.iter().zip(&answers) {
        let sql = "SELECT status || ' ' || coalesce(error, '') FROM kb.model_call WHERE key = $1";
        let became: String = client.query_one(sql, &[key]).unwrap().get(0);
        assert_eq!(became, *expected, "{response}");
    }
}
