//! Chat, embedding and rerank requests to services that have the interface of OpenAI (Ollama, vLLM and llama.cpp have it, too) or of Anthropic.
//!
//! A [`Client`] has one helper thread that owns all that a request needs, keeps many requests at once on their way, waits as long as
//! the service asks for, and tries again what may pass. [`wire`] holds the bodies and can be used without a client.
#![forbid(unsafe_code)]

mod client;
mod failure;
mod limits;
mod send;
pub mod wire;

pub use client::Client;
pub use failure::{Failure, FailureKind, Stop};

use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// The longest wait that a service may ask for.
pub const MAX_WAIT: Duration = Duration::from_secs(600);

/// Bytes that a reply may have if nothing else is set.
pub const MAX_REPLY_BYTES: usize = 16 << 20;

/// The interface that a service has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    OpenAi,
    Anthropic,
}

/// How a chat that has a [`Schema`] asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structured {
    /// The service holds the reply to the schema.
    JsonSchema,
    /// The service holds the reply to any JSON object.
    JsonObject,
    /// Only the prompt asks for it.
    None,
}

/// The field by which a chat says how many tokens its reply may have; Anthropic's interface knows only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenLimit {
    MaxTokens,
    /// What OpenAI's reasoning models want.
    MaxCompletionTokens,
}

/// A key that shows in no message.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A service and how it is used.
#[derive(Clone, PartialEq)]
pub struct Settings {
    pub api: Api,
    /// What the paths are put behind, such as `https://api.openai.com/v1`. A query is kept.
    pub base_url: String,
    pub chat_model: Option<String>,
    pub embedding_model: Option<String>,
    pub rerank_model: Option<String>,
    pub structured: Structured,
    pub key: Option<Secret>,
    /// Requests on their way at once, at least 1.
    pub concurrency: usize,
    /// Requests started in a minute, evenly spread.
    pub requests_per_minute: Option<u32>,
    /// From the connecting to the last byte of the reply.
    pub timeout: Duration,
    /// Tries after the first one.
    pub retries: u32,
    /// Asked for with each embedding.
    pub embedding_dimensions: Option<u32>,
    pub temperature: Option<f64>,
    pub token_limit: TokenLimit,
    pub max_reply_bytes: usize,
}

impl Settings {
    /// Settings without models and key: 8 requests at once, 60 s for each, 3 retries.
    pub fn new(api: Api, base_url: impl Into<String>) -> Self {
        Self {
            api,
            base_url: base_url.into(),
            chat_model: None,
            embedding_model: None,
            rerank_model: None,
            structured: Structured::JsonSchema,
            key: None,
            concurrency: 8,
            requests_per_minute: None,
            timeout: Duration::from_secs(60),
            retries: 3,
            embedding_dimensions: None,
            temperature: None,
            token_limit: TokenLimit::MaxTokens,
            max_reply_bytes: MAX_REPLY_BYTES,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query and a user name may be secrets.
        let url = self.base_url.split(['?', '#']).next().unwrap_or_default();
        f.debug_struct("Settings")
            .field("api", &self.api)
            .field("base_url", &if url.contains('@') { "***" } else { url })
            .field("chat_model", &self.chat_model)
            .field("embedding_model", &self.embedding_model)
            .field("rerank_model", &self.rerank_model)
            .field("structured", &self.structured)
            .field("key", &self.key)
            .field("concurrency", &self.concurrency)
            .field("requests_per_minute", &self.requests_per_minute)
            .field("timeout", &self.timeout)
            .field("retries", &self.retries)
            .field("embedding_dimensions", &self.embedding_dimensions)
            .field("temperature", &self.temperature)
            .field("token_limit", &self.token_limit)
            .field("max_reply_bytes", &self.max_reply_bytes)
            .finish()
    }
}

/// A JSON schema and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub name: String,
    pub schema: Value,
}

/// One question to a chat model.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    /// The same for many requests, so that the service can cache it.
    pub system: String,
    pub user: String,
    pub schema: Option<Schema>,
    /// Tokens of the reply at most.
    pub max_tokens: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Chat(Chat),
    /// One vector for each text.
    Embed(Vec<String>),
    /// One score for each document.
    Rerank {
        query: String,
        documents: Vec<String>,
    },
    /// The names of the models, which costs nothing.
    Models,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Text {
        text: String,
        /// The reply ended at the most tokens that it may have.
        cut: bool,
    },
    /// In the order of the texts.
    Vectors(Vec<Vec<f32>>),
    /// In the order of the documents.
    Scores(Vec<f64>),
    Models(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub reply: Reply,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// Requests sent for it, without those that the service's rate limit turned away.
    pub attempts: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Answered(Answer),
    Failed(Failure),
}
