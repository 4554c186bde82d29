//! What an answerer is asked on the way to an answer.

use serde_json::{Value, json};

use crate::collection::Options;
use crate::model::Model;
use crate::model::prompts::{answerer, data, list, object, prompt};

/// An answer to a question, from texts with their tags.
pub fn answer(model: &Model, options: &Options, question: &str, texts: &[(String, &str, &str)]) -> Value {
    let question = data(question);
    let user = format!("{}<question>{question}</question>\n\nThe answer:", numbered(texts));
    answerer(model, prompt(options, "answer_prompt", 0), user, None)
}

/// The questions that one is made of.
pub fn plan(model: &Model, options: &Options, question: &str) -> Value {
    let question = data(question);
    let user = format!("<question>{question}</question>\n\nThe JSON object:");
    let properties = object(json!({"questions": list(json!({"type": "string"}))}));
    let schema = json!({"name": "plan", "strict": true, "schema": properties});
    answerer(model, prompt(options, "plan_prompt", 0), user, Some(schema))
}

/// What texts, each with its number and what it is (`report` or `passage`), say that helps to answer a question.
pub fn map(model: &Model, options: &Options, question: &str, texts: &[(String, &str, &str)]) -> Value {
    let question = data(question);
    let user = format!("{}<question>{question}</question>\n\nThe JSON object:", numbered(texts));
    let point = object(json!({"description": {"type": "string"}, "score": {"type": "number"}}));
    let schema = json!({"name": "points", "strict": true, "schema": object(json!({"points": list(point)}))});
    answerer(model, prompt(options, "map_prompt", 0), user, Some(schema))
}

/// An answer to a question from points with their scores.
pub fn reduce(model: &Model, options: &Options, question: &str, points: &[(f64, &str)]) -> Value {
    let question = data(question);
    let points: String = points
        .iter()
        .map(|(score, text)| format!("- ({score:.0}) {}\n", data(text).replace('\n', " ")))
        .collect();
    let user = format!("<points>\n{points}</points>\n<question>{question}</question>\n\nThe answer:");
    answerer(model, prompt(options, "reduce_prompt", 0), user, None)
}

/// How much a report helps with a question, from 0 to 5.
pub fn rate(model: &Model, options: &Options, question: &str, report: &str) -> Value {
    let question = data(question);
    let report = data(report);
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
    texts: &[(String, &str, &str)],
) -> Value {
    let question = data(question);
    let part = part.map_or_else(String::new, |part| format!("<part>{}</part>\n", data(part)));
    let user = format!(
        "{}<question>{question}</question>\n{part}\nThe JSON object:",
        numbered(texts)
    );
    let properties = object(json!({"answer": {"type": "string"}, "score": {"type": "number"},
        "follow_up_queries": list(json!({"type": "string"}))}));
    let schema = json!({"name": "exploration", "strict": true, "schema": properties});
    answerer(model, prompt(options, "explore_prompt", 0), user, Some(schema))
}

/// Which of two answers to a question meets a criterion better. `repeat` tells apart what is asked again in the same words; it is
/// not sent.
pub fn judge(
    model: &Model,
    options: &Options,
    question: &str,
    (criterion, meaning): (&str, &str),
    answers: [&str; 2],
    repeat: i32,
) -> Value {
    let question = data(question);
    let user = format!(
        "<criterion>{criterion}: {meaning}</criterion>\n<question>{question}</question>\n\
         <answer n=\"1\">\n{}\n</answer>\n<answer n=\"2\">\n{}\n</answer>\n\nThe JSON object:",
        data(answers[0]),
        data(answers[1])
    );
    let properties = object(json!({"reason": {"type": "string"}, "winner": {"type": "integer"}}));
    let schema = json!({"name": "verdict", "strict": true, "schema": properties});
    let mut request = answerer(model, prompt(options, "judge_prompt", 0), user, Some(schema));
    request["repeat"] = json!(repeat);
    request
}

/// How relevant to a question each of some numbered texts is.
pub fn context(model: &Model, options: &Options, question: &str, texts: &[(String, &str, &str)]) -> Value {
    let user = format!("{}<question>{}</question>\n", numbered(texts), data(question));
    let score = object(json!({"n": {"type": "integer"}, "score": {"type": "number"}}));
    let reply = format!("scores of {}", texts.len());
    evaluation(model, options, "context", &reply, user, json!({"scores": list(score)}))
}

/// Which statements of an answer the texts support that it was made from.
pub fn grounded(
    model: &Model,
    options: &Options,
    question: &str,
    answer: &str,
    texts: &[(String, &str, &str)],
) -> Value {
    let user = numbered(texts) + &answered(question, answer);
    let statement = object(json!({"statement": {"type": "string"}, "supported": {"type": "boolean"}}));
    let properties = json!({"statements": list(statement)});
    evaluation(model, options, "grounded", "support", user, properties)
}

/// How well an answer addresses a question.
pub fn relevance(model: &Model, options: &Options, question: &str, answer: &str) -> Value {
    let user = answered(question, answer);
    evaluation(model, options, "relevance", "grade", user, graded())
}

/// How far an answer says what the expected one says.
pub fn correct(model: &Model, options: &Options, question: &str, answer: &str, expected: &str) -> Value {
    let expected = data(expected);
    let user = answered(question, answer) + &format!("<expected>\n{expected}\n</expected>\n");
    evaluation(model, options, "correct", "grade", user, graded())
}

fn answered(question: &str, answer: &str) -> String {
    let (question, answer) = (data(question), data(answer));
    format!("<question>{question}</question>\n<answer>\n{answer}\n</answer>\n")
}

fn graded() -> Value {
    json!({"reason": {"type": "string"}, "score": {"type": "number"}})
}

/// A request of the evaluation of one answer. What its reply is read as is not sent.
fn evaluation(model: &Model, options: &Options, what: &str, reply: &str, user: String, properties: Value) -> Value {
    let schema = json!({"name": what, "strict": true, "schema": object(properties)});
    let system = prompt(options, &format!("{what}_prompt"), 0);
    let mut request = answerer(model, system, user + "\nThe JSON object:", Some(schema));
    request["reply"] = json!(reply);
    request
}

/// What a corpus is about, and who would use it, from texts with their numbers.
pub fn personas(model: &Model, options: &Options, count: usize, texts: &[(String, &str, &str)]) -> Value {
    let properties = json!({"description": {"type": "string"}, "personas": list(json!({"type": "string"}))});
    draft(model, options, "personas", count, numbered(texts), properties)
}

/// What somebody would do with a corpus.
pub fn tasks(model: &Model, options: &Options, count: usize, corpus: &str, persona: &str) -> Value {
    let user = format!("<corpus>\n{corpus}\n</corpus>\n<person>{persona}</person>\n");
    let properties = json!({"tasks": list(json!({"type": "string"}))});
    draft(model, options, "tasks", count, user, properties)
}

/// What somebody would ask of a corpus to do something.
pub fn questions(model: &Model, options: &Options, count: usize, corpus: &str, persona: &str, task: &str) -> Value {
    let user = format!("<corpus>\n{corpus}\n</corpus>\n<person>{persona}</person>\n<task>{task}</task>\n");
    let properties = json!({"questions": list(json!({"type": "string"}))});
    draft(model, options, "questions", count, user, properties)
}

fn draft(model: &Model, options: &Options, what: &str, count: usize, user: String, properties: Value) -> Value {
    let system = prompt(options, &format!("{what}_prompt"), 0).replace("{count}", &count.to_string());
    let schema = json!({"name": what, "strict": true, "schema": object(properties)});
    answerer(model, system, user + "\nThe JSON object:", Some(schema))
}

fn numbered(texts: &[(String, &str, &str)]) -> String {
    texts
        .iter()
        .map(|(number, kind, text)| format!("<{kind} n=\"{number}\">\n{}\n</{kind}>\n", data(text)))
        .collect()
}
