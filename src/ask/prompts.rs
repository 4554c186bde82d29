//! What an answerer is asked on the way to an answer.

use serde_json::{Value, json};

use crate::collection::Options;
use crate::model::Model;
use crate::model::prompts::{answerer, list, object, passages, prompt};

/// An answer to a question, from numbered passages.
pub fn answer(model: &Model, options: &Options, question: &str, texts: &[&str]) -> Value {
    let user = format!(
        "{}<question>{question}</question>\n\nThe answer:",
        passages(texts.iter().copied())
    );
    answerer(model, prompt(options, "answer_prompt", 0), user, None)
}

/// What texts, each with its number and what it is (`report` or `passage`), say that helps to answer a question.
pub fn map(model: &Model, options: &Options, question: &str, texts: &[(usize, &str, &str)]) -> Value {
    let user = format!("{}<question>{question}</question>\n\nThe JSON object:", numbered(texts));
    let point = object(json!({"description": {"type": "string"}, "score": {"type": "number"}}));
    let schema = json!({"name": "points", "strict": true, "schema": object(json!({"points": list(point)}))});
    answerer(model, prompt(options, "map_prompt", 0), user, Some(schema))
}

/// An answer to a question from points with their scores.
pub fn reduce(model: &Model, options: &Options, question: &str, points: &[(f64, &str)]) -> Value {
    let points: String = points
        .iter()
        .map(|(score, text)| format!("- ({score:.0}) {}\n", text.replace('\n', " ")))
        .collect();
    let user = format!("<points>\n{points}</points>\n<question>{question}</question>\n\nThe answer:");
    answerer(model, prompt(options, "reduce_prompt", 0), user, None)
}

/// How much a report helps with a question, from 0 to 5.
pub fn rate(model: &Model, options: &Options, question: &str, report: &str) -> Value {
    let user = format!("<report>\n{report}\n</report>\n<question>{question}</question>\n\nThe JSON object:");
    let properties = object(json!({"reason": {"type": "string"}, "rating": {"type": "number"}}));
    let schema = json!({"name": "relevance", "strict": true, "schema": properties});
    answerer(model, prompt(options, "rate_prompt", 0), user, Some(schema))
}

/// A first answer to a question from numbered texts, and what to ask next.
pub fn explore(
    model: &Model,
    options: &Options,
    question: &str,
    part: Option<&str>,
    texts: &[(usize, &str, &str)],
) -> Value {
    let part = part.map_or_else(String::new, |part| format!("<part>{part}</part>\n"));
    let user = format!(
        "{}<question>{question}</question>\n{part}\nThe JSON object:",
        numbered(texts)
    );
    let properties = object(json!({"answer": {"type": "string"}, "score": {"type": "number"},
        "follow_up_queries": list(json!({"type": "string"}))}));
    let schema = json!({"name": "exploration", "strict": true, "schema": properties});
    answerer(model, prompt(options, "explore_prompt", 0), user, Some(schema))
}

fn numbered(texts: &[(usize, &str, &str)]) -> String {
    texts
        .iter()
        .map(|(number, kind, text)| format!("<{kind} n=\"{number}\">\n{text}\n</{kind}>\n"))
        .collect()
}
