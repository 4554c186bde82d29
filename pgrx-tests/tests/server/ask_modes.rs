//! rag_ask from the coarsest reports down, by questions that follow, over all text, and over what passes a filter in part.

use std::sync::Arc;

use graphrag_mock::Mock;
use pg_graphrag_tests::Database;
use postgres::Client;
use serde_json::{Value, json};

use crate::models_support::{create_server, mock};
use crate::support::{list, one, run};

/// The words of a text that start with `code`, each once.
fn codes(text: &str) -> Vec<String> {
    let mut codes: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.starts_with("code"))
        .map(str::to_owned)
        .collect();
    codes.dedup();
    codes
}

/// Finds relevant what has `code7`, makes a point of each text that has it, and asks what follows from it.
fn answerer(_: &str, user: &str) -> String {
    if user.contains("<statements>") {
        // Of a report that is read in place of statements the first code alone, so that nothing is there by chance.
        let of_parts = user.lines().filter(|line| line.contains("Report on a part"));
        let found: Vec<String> = match user.contains("Report on a part") {
            true => of_parts.flat_map(codes).collect(),
            false => codes(user),
        };
        return json!({"title": "On codes", "summary": format!("{} .", found.join(" ")), "rating": 5, "findings": []})
            .to_string();
    }
    if user.contains("<points>") {
        let lines: Vec<&str> = user.lines().filter_map(|line| line.strip_prefix("- ")).collect();
        return lines.join(" ");
    }
    let question = user.split("<question>").nth(1).unwrap_or_default();
    if user.starts_with("<report>") {
        return json!({"reason": "", "rating": if user.contains("code7 ") { 5 } else { 0 }}).to_string();
    }
    let mut said = Vec::new();
    for kind in ["report", "passage"] {
        for text in user.split(&format!("<{kind} n=\"")).skip(1) {
            let (number, rest) = text.split_once('"').expect("a number");
            if rest
                .split(&format!("</{kind}>"))
                .next()
                .expect("a text")
                .contains("code7 ")
            {
                said.push(format!("It has code7 [{number}]."));
            }
        }
    }
    let score = if said.is_empty() { 0 } else { 80 };
    if question.contains("follow") || user.contains("<part>") {
        let next = match user.contains("<part>") {
            true => json!(["What of code7?", "and then?"]),
            false => json!(["What of code7?", "what of code7?", "And then?"]),
        };
        return json!({"answer": said.join(" "), "score": score, "follow_up_queries": next}).to_string();
    }
    let points: Vec<Value> = said
        .iter()
        .map(|text| json!({"description": text, "score": score}))
        .collect();
    json!({"points": points}).to_string()
}

/// A chain of people, a document for each link.
fn chain(client: &mut Client, settings: &str) -> Mock {
    chain_with(client, "builtin:frequency", settings)
}

fn chain_with(client: &mut Client, summarizer: &str, settings: &str) -> Mock {
    let mock = mock(|options| options.chat = Arc::new(answerer));
    run(
        client,
        &format!(
            "{} SELECT rag_create('kb', summarizer => '{summarizer}', answerer => 'server:m', settings => '{settings}'); \
             INSERT INTO kb.document (source_key, body, metadata) SELECT i, 'Person' || lpad(i::text, 3, '0') || ' meets Person' || lpad((i + 1)::text, 3, '0') \
               || ' because of code' || i || ' and, as they say, of the weather, the tides, the price of rope and much else that nobody remembers any more.', jsonb_build_object('half', i % 2) FROM generate_series(1, 40) i; \
             SELECT graph_extract('kb'); SELECT graph_communities('kb', max_size => 6); SELECT graph_summarize('kb')",
            create_server("m", &mock.base_url(), "")
        ),
    );
    mock
}

fn asked(client: &mut Client, question: &str, arguments: &str) -> Value {
    one(
        client,
        &format!("SELECT rag_ask('kb', '{question}', {arguments}) - 'timings_ms'"),
    )
}

/// The requests that hold a mark.
fn requests(mock: &Mock, mark: &str) -> Vec<String> {
    mock.log()
        .iter()
        .filter_map(|seen| Some(seen.body["messages"][1]["content"].as_str()?.to_owned()))
        .filter(|user| user.contains(mark))
        .collect()
}

#[test]
fn reports_are_rated_from_the_coarsest_level_down() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, r#"{"summary_tokens": 2000}"#);
    let roots: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community WHERE parent_id IS NULL AND size > 1",
    );
    let path = "SELECT count(*) FROM kb.community c WHERE size > 1 AND text LIKE '%code7 %'";
    let holding: i64 = one(&mut client, path);
    assert!(roots > 1 && holding > 1, "{roots} {holding}");
    let found = asked(&mut client, "Where is it?", "'global', dynamic => true");
    // Only below what is relevant are there others to rate, and of the relevant ones the deepest is read.
    let children: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community c WHERE size > 1 AND EXISTS \
           (SELECT FROM kb.community p WHERE p.id = c.parent_id AND p.text LIKE '%code7 %')",
    );
    assert_eq!(requests(&mock, "<report>").len() as i64, roots + children);
    assert_eq!(found["coverage"]["communities_rated"], roots + children);
    assert_eq!(requests(&mock, "<report n=").len(), 1);
    assert_eq!(
        requests(&mock, "<report n=\"1\"")
            .concat()
            .matches("<report n=")
            .count(),
        1
    );
    let deepest: i64 = one(
        &mut client,
        "SELECT id FROM kb.community WHERE text LIKE '%code7 %' AND size > 1 ORDER BY level DESC LIMIT 1",
    );
    assert_eq!(found["citations"][0]["community_id"], deepest);
    assert_eq!(found["calls"], roots + children + 2);

    // Down to a level.
    let found = asked(&mut client, "Where?", "'global', dynamic => true, level => 0");
    assert_eq!(found["coverage"]["communities_rated"], roots);
    assert_eq!(found["citations"][0]["level"], 0);
    // What a rating has read goes with its documents.
    run(&mut client, "DELETE FROM kb.document WHERE source_key = '7'");
    let left = "SELECT count(*) FROM kb.model_call m JOIN kb.model_call_source USING (key) WHERE step = 'rate' AND status <> 'forgotten'";
    assert!(one::<i64>(&mut client, left) > 0);
    assert!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.model_call WHERE step = 'rate' AND status = 'forgotten'"
        ) > 1
    );
}

#[test]
fn nothing_relevant_is_looked_for_two_levels_down() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, "{}");
    run(&mut client, "UPDATE kb.community SET text = 'nothing', lazy = false");
    let found = asked(&mut client, "Where is it?", "'global', dynamic => true");
    let upper: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.community WHERE size > 1 AND level <= 2",
    );
    assert_eq!(found["coverage"]["communities_rated"], upper);
    assert_eq!(found["answer"], "The corpus does not answer this question.");
    assert!(requests(&mock, "<report n=").is_empty());
    // Reports that say the same are rated once.
    assert_eq!(mock.log().len(), 1);
}

#[test]
fn of_a_community_that_passes_in_part_a_digest_is_read() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, "{}");
    let found = asked(&mut client, "Where is it?", r#"'global', filter => '{"half": 1}'"#);
    let read = requests(&mock, "<report n=").join("\n");
    let codes = codes(&read);
    assert!(codes.len() > 5, "{codes:?}");
    for code in &codes {
        let number: i32 = code[4..].parse().expect("a number");
        assert_eq!(number % 2, 1, "{code}");
    }
    // Person002 stands in documents of both halves, Person008 in code7 and code8.
    assert!(read.contains("Person008"), "{read}");
    let coverage = &found["coverage"];
    assert_eq!(coverage["documents"], 20);
    // One in which documents of this half say nothing of two members is told.
    let left = coverage["communities_left"].as_array().map(Vec::len).expect("a list") as i64;
    let read = coverage["communities_read"].as_i64().expect("a number");
    assert!(read > 5, "{coverage}");
    assert_eq!(coverage["communities"], read + left);
    assert!(coverage["digests"].as_i64().expect("a number") > 0);
    let behind = "SELECT DISTINCT d.metadata ->> 'half' FROM kb.document d WHERE id IN (SELECT jsonb_array_elements_text($1 -> 'citations' -> 0 -> 'document_ids')::bigint)";
    let halves: Vec<String> = list(&mut client, &behind.replace("$1", &format!("'{found}'::jsonb")));
    assert_eq!(halves, ["1"]);
    // The same with a list of documents, and the answer goes with one of them.
    let ids = "(SELECT array_agg(id) FROM kb.document WHERE metadata @> '{\"half\": 1}')";
    let again = asked(&mut client, "Where is it?", &format!("'global', documents => {ids}"));
    assert_eq!((&again["answer"], &again["calls"]), (&found["answer"], &json!(0)));
    run(
        &mut client,
        "UPDATE kb.document SET body = 'Person007 meets nobody.' WHERE source_key = '7'",
    );
    let found = asked(&mut client, "Where is it?", r#"'global', filter => '{"half": 1}'"#);
    assert_eq!(found["answer"], "The corpus does not answer this question.");
}

#[test]
fn what_fits_through_the_report_of_a_child_alone_is_cited_down_to_its_document() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain_with(&mut client, "server:m", r#"{"report_tokens": 200}"#);
    let parent = "SELECT c.id FROM kb.community c WHERE c.level = 0 AND c.text LIKE '%code7 %' \
                  AND EXISTS (SELECT FROM kb.community d WHERE d.parent_id = c.id AND d.text LIKE '%code7 %')";
    let parent: i64 = one(&mut client, parent);
    let read = requests(&mock, "<statements>");
    let of_parent: Vec<&String> = read
        .iter()
        .filter(|user| user.contains("Report on a part") && user.contains("code7 "))
        .collect();
    assert!(!of_parent.is_empty(), "the report of a child is read");
    assert!(
        of_parent.iter().all(|user| !user.contains("because of code7 ")),
        "and what it rests on is not: {of_parent:#?}"
    );
    let found = asked(&mut client, "Where is it?", "'global'");
    let cited = &found["citations"][0];
    assert_eq!(cited["community_id"], parent);
    let seventh: i64 = one(&mut client, "SELECT id FROM kb.document WHERE source_key = '7'");
    assert!(
        cited["document_ids"].as_array().expect("ids").contains(&json!(seventh)),
        "{cited}"
    );
}

#[test]
fn drift_follows_its_questions_down_to_passages() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, "{}");
    let arguments = "'drift', k => 4";
    let found = asked(&mut client, "Where does it follow?", arguments);
    let first = requests(&mock, "<report n=\"");
    assert!(!first.is_empty() && first.len() <= 5);
    assert_eq!(found["reports_read"], 4);
    // Each question once, though it comes from several answers and in two spellings.
    let followed: Vec<&str> = found["follow_ups"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|f| f["question"].as_str())
        .collect();
    assert_eq!(followed, ["What of code7?", "And then?"]);
    assert_eq!(requests(&mock, "<part>").len(), 2);
    assert!(requests(&mock, "<part>What of code7?").concat().contains("<passage n="));
    let cited = found["citations"].as_array().expect("a list");
    assert!(cited.iter().any(|citation| citation["source_key"] == "7"), "{found}");
    assert_eq!(found["calls"].as_u64(), Some(mock.log().len() as u64));
    assert_eq!(found["grounded"], true);
    let again = asked(&mut client, "Where does it follow?", arguments);
    assert_eq!(again["calls"], 0);
    let without = |mut value: Value| {
        value["calls"].take();
        value
    };
    assert_eq!(without(again), without(found));

    // No round, no passages; nothing in scope, nobody asked.
    let found = asked(&mut client, "Where does it follow?", "'drift', k => 4, max_hops => 0");
    assert_eq!(
        (&found["passages_read"], &found["follow_ups_left"]),
        (&json!(0), &json!(2))
    );
    let found = asked(&mut client, "Where?", r#"'drift', filter => '{"half": 9}'"#);
    assert_eq!(
        (&found["answer"], &found["calls"]),
        (&json!("The corpus does not answer this question."), &json!(0))
    );
    // Without communities it starts from passages.
    run(&mut client, "DELETE FROM kb.community");
    let found = asked(&mut client, "What of code7?", "'drift', max_hops => 1");
    assert_eq!(
        (&found["reports_read"], &found["passages_read"]),
        (&json!(0), &json!(8))
    );
}

#[test]
fn all_text_is_read_in_place_of_reports() {
    let database = Database::new();
    let mut client = database.client();
    let mock = chain(&mut client, r#"{"report_tokens": 200}"#);
    let found = asked(&mut client, "Where is it?", "'text'");
    let batches = requests(&mock, "<passage n=");
    assert!(batches.len() > 2);
    let mut read = codes(&batches.concat());
    read.sort();
    assert_eq!(read.len(), 40);
    assert_eq!(found["citations"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["citations"][0]["source_key"], "7");
    assert_eq!(found["coverage"]["documents_read"], 40);
    assert!(found["coverage"]["communities"].is_null());
    let found = asked(&mut client, "Where is it?", r#"'text', filter => '{"half": 0}'"#);
    assert_eq!(
        (&found["coverage"]["documents"], &found["grounded"]),
        (&json!(20), &json!(false))
    );
    // The answer is forgotten with what was read.
    run(
        &mut client,
        "UPDATE kb.document SET body = 'Changed.' WHERE source_key = '7'",
    );
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.model_call WHERE step = 'ask' AND status = 'done'"
        ),
        0
    );

    run(
        &mut client,
        "SET graphrag.build_memory = '1MB'; INSERT INTO kb.document (body) SELECT repeat('word ', 30000) || i FROM generate_series(1, 9) i",
    );
    let error = crate::support::failure(&mut client, "SELECT rag_ask('kb', 'Where is it?', 'text')");
    assert_eq!(error.code().code(), "53200");
    assert!(error.hint().is_some_and(|hint| hint.contains("filter")), "{error:?}");
}
