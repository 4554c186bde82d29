//! What models are asked: requests as they stand in the ledger.
//!
//! The constant part of a prompt is the system message, first and alone, so that providers can cache it. What documents say
//! is data in the user message, which ends with a word on what is wanted: small models would else go on with the data.

use std::collections::BTreeMap;

use graphrag_text::answer::Extraction;
use serde_json::{Value, json};

use super::{Form, Model};
use crate::collection::{Options, Reading};

/// Words of a text of so many tokens, roughly, as a model is told them.
fn words(tokens: i64) -> i64 {
    (tokens * 3 / 4).max(1)
}

/// The system message of a setting, for an answer of so many tokens.
pub fn prompt(options: &Options, key: &str, tokens: i64) -> String {
    options.prompts[key].replace("{words}", &words(tokens).to_string())
}

fn chat(system: String, user: String, schema: Option<Value>) -> Value {
    let mut request = json!({"messages": [
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    ]});
    if let Some(schema) = schema {
        request["response_format"] = json!({"type": "json_schema", "json_schema": schema});
    }
    request
}

/// A request to an answerer: a function gets all of it as one text.
pub fn answerer(model: &Model, system: String, user: String, schema: Option<Value>) -> Value {
    match model.form {
        Form::Function(_) => json!({"input": format!("{system}\n\n{user}")}),
        _ => chat(system, user, schema),
    }
}

/// A text as data of a prompt: what looks like one of a prompt's own elements is no element any more.
pub fn data(text: &str) -> std::borrow::Cow<'_, str> {
    const ELEMENTS: [&str; 18] = [
        "passage",
        "report",
        "relation",
        "question",
        "part",
        "points",
        "statements",
        "descriptions",
        "name",
        "place",
        "listed",
        "first",
        "second",
        "example",
        "answer",
        "expected",
        "criterion",
        "texts",
    ];
    let is_element = |rest: &str| {
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        ELEMENTS.iter().any(|name| {
            rest.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
                && !rest[name.len()..].starts_with(|c: char| c.is_alphanumeric())
        })
    };
    if !text.match_indices('<').any(|(at, _)| is_element(&text[at + 1..])) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for (number, part) in text.split('<').enumerate() {
        if number > 0 {
            safe.push_str(if is_element(part) { "&lt;" } else { "<" });
        }
        safe.push_str(part);
    }
    safe.into()
}

/// Texts as numbered elements, which a model can tell from what it is asked.
pub fn passages<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts
        .enumerate()
        .map(|(i, text)| format!("<passage n=\"{}\">\n{}\n</passage>\n", i + 1, data(text)))
        .collect()
}

/// A vector for a text.
pub fn embed(text: &str) -> Value {
    json!({"input": text})
}

/// One text that stands for the texts of a cluster.
pub fn summarize(model: &Model, options: &Options, texts: &[&str]) -> Value {
    match model.form {
        Form::Function(_) => json!({"texts": texts}),
        _ => chat(
            prompt(options, "summarize_prompt", options.summary_tokens),
            passages(texts.iter().copied()) + "\nThe summary:",
            None,
        ),
    }
}

/// One description of what is called `name`, from several.
pub fn describe(model: &Model, options: &Options, name: &str, descriptions: &[&str]) -> Value {
    if let Form::Function(_) = model.form {
        return json!({"texts": descriptions});
    }
    let list: String = descriptions.iter().map(|text| format!("- {}\n", data(text))).collect();
    chat(
        prompt(options, "describe_prompt", options.summary_tokens),
        format!("<name>{name}</name>\n<descriptions>\n{list}</descriptions>\n\nThe description:"),
        None,
    )
}

/// Whether what is said of two entities is said of one.
pub fn resolve(model: &Model, options: &Options, one: &str, other: &str) -> Value {
    let user = format!("<first>\n{one}\n</first>\n<second>\n{other}\n</second>\n\nOne and the same, yes or no:");
    answerer(model, prompt(options, "resolve_prompt", 0), user, None)
}

/// What the settings say of extraction, after the prompt.
fn reading(reading: &Reading) -> String {
    let listed = |names: &BTreeMap<String, String>| names.values().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    if !reading.types.is_empty() {
        text += &format!(
            " Entities are of these types, others are not wanted: {}.",
            listed(&reading.types)
        );
    }
    if !reading.predicates.is_empty() {
        text += &format!(
            " Predicates are these, other relations are not wanted: {}.",
            listed(&reading.predicates)
        );
    }
    if reading.claims {
        text += " The object has a third list, \"claims\": [{\"subject\", \"object\", \"type\", \"status\", \"start_date\", \
                 \"end_date\", \"description\", \"quote\"}], of what the passage holds against or for an entity: its name, the name \
                 of who says or is concerned (or NONE), a type of a few words, TRUE, FALSE or SUSPECTED, the dates as \
                 YYYY-MM-DD (or NONE), a sentence, and the words of the passage, copied exactly.";
    }
    if let Some(language) = &reading.language {
        text += &format!(" Write descriptions in {language}; names and quotes stay as the passage has them.");
    }
    if !reading.examples.is_empty() {
        text += " These are examples of other passages; nothing of them belongs into the answer.";
    }
    for (passage, answer) in &reading.examples {
        text += &format!("\n<example>\n<passage>\n{passage}\n</passage>\n{answer}\n</example>");
    }
    text
}

/// What a block says of entities and relations. `title` and `section` say where it stands; `found` is what was answered to
/// this before, so that only what was missed is wanted.
pub fn extract(
    model: &Model,
    options: &Options,
    title: Option<&str>,
    section: &[String],
    block: &str,
    found: Option<&Extraction>,
) -> Value {
    if let Form::Function(_) = model.form {
        return json!({"input": block});
    }
    let place: Vec<&str> = title.into_iter().chain(section.iter().map(String::as_str)).collect();
    let mut user = String::new();
    if !place.is_empty() {
        user = format!("<place>{}</place>\n", data(&place.join(" > ")));
    }
    user += &format!("<passage>\n{}\n</passage>\n", data(block));
    match found {
        None => user += "\nThe JSON object:",
        Some(found) => {
            user += &format!(
                "<listed>\n{}</listed>\n\nThese were listed already; others were missed. The JSON object of what was missed, with \
                 empty lists if nothing was:",
                listed(found)
            );
        }
    }
    let system = prompt(options, "extract_prompt", 0) + &reading(&options.reading);
    chat(system, user, Some(extraction_schema(&options.reading)))
}

/// What was found so far, a line each.
fn listed(found: &Extraction) -> String {
    let entities = found.entities.iter().map(|entity| format!("- {}\n", entity.name));
    let relations = found.relations.iter().map(|relation| {
        let predicate = relation.predicate.as_deref().unwrap_or_default();
        format!("- {} | {predicate} | {}\n", relation.subject, relation.object)
    });
    let claims = found.claims.iter().map(|claim| {
        format!(
            "- claim on {}: {}\n",
            claim.subject,
            claim.description.as_deref().unwrap_or_default()
        )
    });
    entities.chain(relations).chain(claims).collect()
}

/// A report on a community, from statements about its members, the weightiest first.
pub fn report(model: &Model, options: &Options, statements: &[&str]) -> Value {
    if let Form::Function(_) = model.form {
        return json!({"texts": statements});
    }
    let user: String = statements
        .iter()
        .map(|statement| format!("- {}\n", data(statement)))
        .collect();
    chat(
        prompt(options, "report_prompt", options.summary_tokens),
        format!("<statements>\n{user}</statements>\n\nThe JSON object:"),
        Some(report_schema()),
    )
}

/// How well each text answers a query.
pub fn rerank(query: &str, texts: &[&str]) -> Value {
    json!({"query": query, "documents": texts})
}

/// An object whose properties are all required and no others allowed, as strict structured output wants it.
pub fn object(properties: Value) -> Value {
    let names: Vec<&String> = properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

pub fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn extraction_schema(reading: &Reading) -> Value {
    let text = || json!({"type": "string"});
    let one_of = |names: &BTreeMap<String, String>| match names.is_empty() {
        true => text(),
        false => json!({"type": "string", "enum": names.values().collect::<Vec<_>>()}),
    };
    let entity = object(json!({"name": text(), "type": one_of(&reading.types), "description": text()}));
    let relation = object(
        json!({"subject": text(), "predicate": one_of(&reading.predicates), "object": text(), "description": text(),
        "quote": text(), "strength": {"type": "number"}}),
    );
    let mut lists = json!({"entities": list(entity), "relations": list(relation)});
    if reading.claims {
        lists["claims"] = list(object(
            json!({"subject": text(), "object": text(), "type": text(), "start_date": text(), "end_date": text(),
            "status": {"type": "string", "enum": ["TRUE", "FALSE", "SUSPECTED"]}, "description": text(), "quote": text()}),
        ));
    }
    let schema = object(lists);
    json!({"name": "extraction", "strict": true, "schema": schema})
}

fn report_schema() -> Value {
    let text = || json!({"type": "string"});
    let finding = object(json!({"summary": text(), "explanation": text()}));
    let schema = object(json!({"title": text(), "summary": text(), "rating": {"type": "number"},
        "findings": list(finding)}));
    json!({"name": "report", "strict": true, "schema": schema})
}
