//! The bodies of requests and replies. They are the same over HTTP, in a provider's batch file and in a queue.

use crate::{Answer, Api, Chat, FailureKind, Reply, Request, Settings, Stop, Structured, TokenLimit};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fails if the settings do not allow the request.
pub(crate) fn check(settings: &Settings, request: &Request) -> Result<(), Stop> {
    let (model, missing) = match request {
        Request::Models => return Ok(()),
        Request::Chat(_) => (&settings.chat_model, "no chat model is set"),
        Request::Embed(_) | Request::Rerank { .. } if settings.api == Api::Anthropic => {
            return Err(Stop::Settings(
                "the Anthropic interface has neither embedding nor rerank models",
            ));
        }
        Request::Embed(_) => (&settings.embedding_model, "no embedding model is set"),
        Request::Rerank { .. } => (&settings.rerank_model, "no rerank model is set"),
    };
    model.as_ref().map(|_| ()).ok_or(Stop::Settings(missing))
}

/// Where the request goes, behind the base URL.
pub(crate) fn path(api: Api, request: &Request) -> &'static [&'static str] {
    match (request, api) {
        (Request::Chat(_), Api::OpenAi) => &["chat", "completions"],
        (Request::Chat(_), Api::Anthropic) => &["messages"],
        (Request::Embed(_), _) => &["embeddings"],
        (Request::Rerank { .. }, _) => &["rerank"],
        (Request::Models, _) => &["models"],
    }
}

/// The request's body; `None` for one that has none.
pub(crate) fn body(settings: &Settings, request: &Request) -> Option<Value> {
    match request {
        Request::Chat(chat) => Some(chat_body(settings, chat)),
        Request::Embed(texts) => Some(embed_body(settings, texts)),
        Request::Rerank { query, documents } => Some(rerank_body(settings, query, documents)),
        Request::Models => None,
    }
}

/// Reads the reply to `request`.
pub(crate) fn read(api: Api, request: &Request, reply: &[u8]) -> Result<Answer, FailureKind> {
    match request {
        Request::Chat(_) => read_chat(api, &parse(reply)?),
        Request::Embed(texts) => embeddings(parse(reply)?, texts.len()),
        Request::Rerank { documents, .. } => scores(parse(reply)?, documents.len()),
        Request::Models => models(parse(reply)?),
    }
}

fn parse<T: DeserializeOwned>(reply: &[u8]) -> Result<T, FailureKind> {
    serde_json::from_slice(reply).map_err(|error| {
        if error.is_data() {
            FailureKind::Shape
        } else {
            FailureKind::NotJson
        }
    })
}

fn shape<'a, T: Deserialize<'a>>(reply: &'a Value) -> Result<T, FailureKind> {
    T::deserialize(reply).map_err(|_| FailureKind::Shape)
}

/// The body of a chat request.
pub(crate) fn chat_body(settings: &Settings, chat: &Chat) -> Value {
    let mut body = match settings.api {
        Api::OpenAi => openai_chat(settings, chat),
        Api::Anthropic => anthropic_chat(settings, chat),
    };
    body["model"] = json!(settings.chat_model);
    let limit = match (settings.api, settings.token_limit) {
        (Api::OpenAi, TokenLimit::MaxCompletionTokens) => "max_completion_tokens",
        _ => "max_tokens",
    };
    body[limit] = json!(chat.max_tokens);
    if let Some(temperature) = settings.temperature {
        body["temperature"] = json!(temperature);
    }
    body
}

fn openai_chat(settings: &Settings, chat: &Chat) -> Value {
    let mut messages = vec![];
    if !chat.system.is_empty() {
        messages.push(json!({"role": "system", "content": chat.system}));
    }
    messages.push(json!({"role": "user", "content": chat.user}));
    let mut body = json!({"messages": messages});
    if let Some(schema) = &chat.schema {
        match settings.structured {
            Structured::JsonSchema => {
                let schema = json!({"name": schema.name, "strict": true, "schema": schema.schema});
                body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
            }
            Structured::JsonObject => body["response_format"] = json!({"type": "json_object"}),
            Structured::None => {}
        }
    }
    body
}

fn anthropic_chat(settings: &Settings, chat: &Chat) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": chat.user}]});
    if !chat.system.is_empty() {
        body["system"] = json!([{"type": "text", "text": chat.system, "cache_control": {"type": "ephemeral"}}]);
    }
    if let (Some(schema), Structured::JsonSchema) = (&chat.schema, settings.structured) {
        body["tools"] = json!([{"name": schema.name, "input_schema": schema.schema}]);
        body["tool_choice"] = json!({"type": "tool", "name": schema.name});
    }
    body
}

/// The body of an embedding request.
pub(crate) fn embed_body(settings: &Settings, texts: &[String]) -> Value {
    let mut body = json!({"model": settings.embedding_model, "input": texts, "encoding_format": "float"});
    if let Some(dimensions) = settings.embedding_dimensions {
        body["dimensions"] = json!(dimensions);
    }
    body
}

/// The body of a rerank request.
pub(crate) fn rerank_body(settings: &Settings, query: &str, documents: &[String]) -> Value {
    json!({"model": settings.rerank_model, "query": query, "documents": documents})
}

/// Reads the reply to a chat request.
pub fn read_chat(api: Api, reply: &Value) -> Result<Answer, FailureKind> {
    let (text, cut) = match api {
        Api::OpenAi => {
            let choice = reply.pointer("/choices/0").ok_or(FailureKind::Shape)?;
            let message = choice.get("message").ok_or(FailureKind::Shape)?;
            (content(message.get("content"))?, choice["finish_reason"] == "length")
        }
        Api::Anthropic => {
            let parts = reply["content"].as_array().ok_or(FailureKind::Shape)?;
            let tool = parts.iter().find(|part| part["type"] == "tool_use");
            let text = match tool {
                Some(tool) => tool["input"].to_string(),
                None => content(Some(&reply["content"]))?,
            };
            (text, reply["stop_reason"] == "max_tokens")
        }
    };
    if text.trim().is_empty() {
        return Err(FailureKind::Empty);
    }
    Ok(answer(Reply::Text { text, cut }, reply.get("usage")))
}

/// The text of a message's content, which is a string or a list of parts.
fn content(content: Option<&Value>) -> Result<String, FailureKind> {
    match content {
        None | Some(Value::Null) => Err(FailureKind::Empty),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter(|part| part["type"] == "text");
            Ok(texts.filter_map(|part| part["text"].as_str()).collect())
        }
        Some(_) => Err(FailureKind::Shape),
    }
}

/// Reads the reply to an embedding request of `expected` texts.
pub fn read_embeddings(reply: &Value, expected: usize) -> Result<Answer, FailureKind> {
    embeddings(shape(reply)?, expected)
}

// A reply's vectors are read without a `Value` for each number, which would be several times the reply's size.
#[derive(Deserialize)]
struct Embeddings {
    data: Vec<Embedding>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Embedding {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Ranking {
    results: Vec<Ranked>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Ranked {
    index: usize,
    relevance_score: f64,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

fn embeddings(reply: Embeddings, expected: usize) -> Result<Answer, FailureKind> {
    if reply.data.iter().any(|item| item.embedding.is_empty()) {
        return Err(FailureKind::Shape);
    }
    if reply
        .data
        .iter()
        .any(|item| item.embedding.iter().any(|x| !x.is_finite()))
    {
        return Err(FailureKind::NotFinite);
    }
    let items = reply.data.into_iter().enumerate();
    let vectors = in_order(
        items.map(|(place, item)| (item.index.unwrap_or(place), item.embedding)),
        expected,
    )?;
    Ok(answer(Reply::Vectors(vectors), reply.usage.as_ref()))
}

fn scores(reply: Ranking, expected: usize) -> Result<Answer, FailureKind> {
    if reply.results.iter().any(|item| !item.relevance_score.is_finite()) {
        return Err(FailureKind::NotFinite);
    }
    let items = reply.results.into_iter();
    let scores = in_order(items.map(|item| (item.index, item.relevance_score)), expected)?;
    Ok(answer(Reply::Scores(scores), reply.usage.as_ref()))
}

fn models(reply: Models) -> Result<Answer, FailureKind> {
    Ok(answer(
        Reply::Models(reply.data.into_iter().map(|model| model.id).collect()),
        None,
    ))
}

/// The items by their index, of which each of `0..expected` must be there once.
fn in_order<T>(items: impl ExactSizeIterator<Item = (usize, T)>, expected: usize) -> Result<Vec<T>, FailureKind> {
    let got = items.len();
    if got != expected {
        return Err(FailureKind::Count { expected, got });
    }
    let mut places: Vec<Option<T>> = (0..expected).map(|_| None).collect();
    for (index, item) in items {
        *places.get_mut(index).ok_or(FailureKind::Shape)? = Some(item);
    }
    places.into_iter().collect::<Option<_>>().ok_or(FailureKind::Shape)
}

fn answer(reply: Reply, usage: Option<&Value>) -> Answer {
    let count = |name| usage.and_then(|usage| usage[name].as_u64());
    // Anthropic counts the cached part of its input apart.
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let input = input.into_iter().filter_map(count).reduce(u64::saturating_add);
    Answer {
        reply,
        prompt_tokens: count("prompt_tokens").or(input).or(count("total_tokens")),
        completion_tokens: count("completion_tokens").or(count("output_tokens")),
        attempts: 1,
    }
}
