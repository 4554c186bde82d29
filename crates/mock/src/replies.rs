//! What the server answers.

use crate::http::{Call, head};
use crate::{Counted, Fault, Seen, Shared};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{Result, Write};

/// A vector of length 1 that differs from text to text and is always the same for one.
pub fn unit_vector(text: &str, dimensions: usize) -> Vec<f32> {
    let blocks = 0..dimensions.div_ceil(8) as u32;
    let hashes = blocks.flat_map(|block| {
        Sha256::new()
            .chain_update(block.to_be_bytes())
            .chain_update(text)
            .finalize()
    });
    let bytes: Vec<u8> = hashes.take(dimensions * 4).collect();
    let numbers = bytes
        .chunks_exact(4)
        .map(|x| i32::from_be_bytes([x[0], x[1], x[2], x[3]]));
    let numbers: Vec<f64> = numbers.map(f64::from).collect();
    let length = numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
    numbers.iter().map(|x| (x / length) as f32).collect()
}

/// Answers a request as its fault wants it, and tells whether the connection goes on.
pub(crate) fn reply(shared: &Shared, call: &mut Call, seen: &Seen, counted: Counted<'_>) -> Result<bool> {
    let mut send = |status: u16, more: &str, body: &str| -> Result<bool> {
        shared.state().sent += body.len();
        call.writer
            .write_all(format!("{}{body}", head(status, more, Some(body.len()))).as_bytes())?;
        Ok(seen.headers.get("connection").is_none_or(|value| value != "close"))
    };
    let fault = seen.fault.clone();
    match fault {
        Some(Fault::Refuse | Fault::CloseSocket) => Ok(false),
        Some(Fault::Delay(time)) => {
            shared.sleep(time);
            Ok(false)
        }
        Some(Fault::TooMany { retry_after }) => {
            drop(counted);
            let wait = retry_after.map_or(String::new(), |wait| format!("Retry-After: {wait}\r\n"));
            send(429, &wait, &error("rate_limit_exceeded", seen))
        }
        Some(Fault::Quota) => {
            drop(counted);
            send(429, "", &error("insufficient_quota", seen))
        }
        Some(Fault::Busy { retry_after }) => {
            drop(counted);
            send(
                503,
                &format!("Retry-After: {retry_after}\r\n"),
                &error("overloaded_error", seen),
            )
        }
        Some(Fault::Status(status)) => {
            drop(counted);
            let code = match status {
                400 => "context_length_exceeded",
                401 => "invalid_api_key",
                403 => "permission_error",
                404 => "model_not_found",
                500.. => "server_error",
                _ => "something_else",
            };
            send(status, "", &error(code, seen))
        }
        Some(Fault::Garbage) => {
            drop(counted);
            send(200, "", &format!("<html>{}</html>", seen.body))
        }
        Some(Fault::Redirect) => {
            drop(counted);
            send(302, "Location: /v1/elsewhere\r\n", "")
        }
        Some(Fault::Huge(bytes)) => {
            call.writer.write_all(head(200, "", None).as_bytes())?;
            let piece = [b' '; 1 << 16];
            let mut left = bytes;
            while left > 0 {
                let size = left.min(piece.len());
                call.writer.write_all(format!("{size:x}\r\n").as_bytes())?;
                call.writer.write_all(&piece[..size])?;
                call.writer.write_all(b"\r\n")?;
                shared.state().sent += size;
                left -= size;
            }
            drop(counted);
            call.writer.write_all(b"0\r\n\r\n")?;
            Ok(true)
        }
        Some(Fault::Hang) => {
            call.hang()?;
            Ok(false)
        }
        Some(Fault::HangHeaders) => {
            let head = head(200, "", Some(100));
            call.writer.write_all(&head.as_bytes()[..head.len() / 2])?;
            call.hang()?;
            Ok(false)
        }
        Some(Fault::CutBody | Fault::HangBody) => {
            let body = good(shared, seen).map_or_else(|_| error("not_found_error", seen), |body| body.to_string());
            call.writer.write_all(head(200, "", Some(body.len())).as_bytes())?;
            call.writer.write_all(&body.as_bytes()[..body.len() / 2])?;
            if fault == Some(Fault::HangBody) {
                call.hang()?;
            }
            Ok(false)
        }
        None | Some(Fault::Empty | Fault::Length | Fault::Think | Fault::Fenced | Fault::Broken) => {
            let (status, body) = match good(shared, seen) {
                Ok(body) => (200, body.to_string()),
                Err((status, code)) => (status, error(code, seen)),
            };
            if status == 200 {
                shared.sleep(shared.options.delay);
                if fault.is_none() {
                    let mut state = shared.state();
                    state.answered += 1;
                    state.distinct.insert((seen.path.clone(), seen.body.to_string()));
                }
            }
            drop(counted);
            send(status, "", &body)
        }
    }
}

/// The body of an error, which repeats the request and its headers as careless services do.
fn error(code: &str, seen: &Seen) -> String {
    let message = format!("bad request: {} {:?}", seen.body, seen.headers);
    json!({"type": "error", "error": {"message": message, "type": code, "code": code}}).to_string()
}

/// The body of a good answer, or the status and the code of an error.
fn good(shared: &Shared, seen: &Seen) -> std::result::Result<Value, (u16, &'static str)> {
    if let Some(key) = &shared.options.key {
        let bearer = seen
            .headers
            .get("authorization")
            .and_then(|value| value.strip_prefix("Bearer "));
        let given = seen.headers.get("x-api-key").map(String::as_str).or(bearer);
        if given != Some(key) {
            return Err((401, "invalid_api_key"));
        }
    }
    let path = seen.path.split('?').next().unwrap_or_default();
    match (seen.method.as_str(), path) {
        ("GET", "/v1/models") => Ok(json!({"object": "list", "data": [{"id": "mock", "object": "model"}]})),
        ("POST", "/v1/chat/completions") => Ok(openai_chat(shared, seen)),
        ("POST", "/v1/messages") => Ok(anthropic_chat(shared, seen)),
        ("POST", "/v1/embeddings") => Ok(embeddings(shared, seen)),
        ("POST", "/v1/rerank") => Ok(rerank(shared, seen)),
        _ => Err((404, "not_found_error")),
    }
}

/// The text of a string or of a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn message(body: &Value, role: &str) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages
        .iter()
        .filter(|message| message["role"] == role)
        .map(|message| text(&message["content"]))
        .collect()
}

/// The answer's text, whether it is cut, and the words in and out.
fn chat(shared: &Shared, seen: &Seen, system: &str, user: &str) -> (String, bool, usize, usize) {
    let text = (shared.options.chat)(system, user);
    let half: String = text.chars().take(text.chars().count() / 2).collect();
    let text = match seen.fault {
        Some(Fault::Empty) => String::new(),
        Some(Fault::Length | Fault::Broken) => half,
        Some(Fault::Think) => format!("<think>\nFirst I {{think}} about it.\n</think>\n\n{text}"),
        Some(Fault::Fenced) => format!("Here it is:\n\n```json\n{text}\n```\n\nI hope that it helps."),
        _ => text,
    };
    let count = &shared.options.tokens;
    let counts = (count(system) + count(user), count(&text));
    (text, seen.fault == Some(Fault::Length), counts.0, counts.1)
}

fn openai_chat(shared: &Shared, seen: &Seen) -> Value {
    let (system, user) = (message(&seen.body, "system"), message(&seen.body, "user"));
    let (text, cut, prompt, completion) = chat(shared, seen, &system, &user);
    json!({
        "object": "chat.completion",
        "model": seen.body["model"],
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": if cut { "length" } else { "stop" },
        }],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
    })
}

fn anthropic_chat(shared: &Shared, seen: &Seen) -> Value {
    let (system, user) = (text(&seen.body["system"]), message(&seen.body, "user"));
    let (text, cut, prompt, completion) = chat(shared, seen, &system, &user);
    let tool = &seen.body["tool_choice"]["name"];
    let input: Option<Value> = serde_json::from_str(&text).ok().filter(|_| tool.is_string());
    let reason = match (cut, &input) {
        (true, _) => "max_tokens",
        (false, Some(_)) => "tool_use",
        (false, None) => "end_turn",
    };
    let content = match input {
        Some(input) => json!([{"type": "tool_use", "id": "toolu_1", "name": tool, "input": input}]),
        None => json!([{"type": "text", "text": text}]),
    };
    json!({
        "type": "message",
        "role": "assistant",
        "model": seen.body["model"],
        "content": content,
        "stop_reason": reason,
        "usage": {"input_tokens": prompt, "output_tokens": completion},
    })
}

fn texts(list: &Value) -> Vec<&str> {
    match list {
        Value::String(text) => vec![text],
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    }
}

fn embeddings(shared: &Shared, seen: &Seen) -> Value {
    let dimensions = seen.body["dimensions"]
        .as_u64()
        .map_or(shared.options.dimensions, |count| count as usize);
    let texts = texts(&seen.body["input"]);
    let mut data: Vec<Value> = vec![];
    if seen.fault != Some(Fault::Empty) {
        // Nothing says that the vectors come in the order of the texts.
        for (index, text) in texts.iter().enumerate().rev() {
            let vector = (shared.options.embed)(text, dimensions);
            data.push(json!({"object": "embedding", "index": index, "embedding": vector}));
        }
    }
    let count: usize = texts.iter().map(|text| (shared.options.tokens)(text)).sum();
    let usage = json!({"prompt_tokens": count, "total_tokens": count});
    json!({"object": "list", "model": seen.body["model"], "data": data, "usage": usage})
}

/// Scores a document by the share of the query's words that it has.
fn rerank(shared: &Shared, seen: &Seen) -> Value {
    let query = seen.body["query"].as_str().unwrap_or_default();
    let documents = texts(&seen.body["documents"]);
    let mut scores: Vec<(usize, f64)> = vec![];
    if seen.fault != Some(Fault::Empty) {
        for (index, document) in documents.iter().enumerate() {
            let hits = query
                .split_whitespace()
                .filter(|word| document.split_whitespace().any(|other| other == *word));
            scores.push((
                index,
                hits.count() as f64 / query.split_whitespace().count().max(1) as f64,
            ));
        }
    }
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    let results: Vec<Value> = scores
        .iter()
        .map(|(index, score)| json!({"index": index, "relevance_score": score}))
        .collect();
    let tokens = &shared.options.tokens;
    let count = tokens(query) + documents.iter().map(|document| tokens(document)).sum::<usize>();
    json!({"model": seen.body["model"], "results": results, "usage": {"total_tokens": count}})
}
