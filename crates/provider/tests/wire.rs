//! The bodies as a server sees them, and replies as servers send them.

mod common;

use common::*;
use graphrag_mock::{Faults, Mock, Options};
use graphrag_provider::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn with_schema() -> Request {
    Request::Chat(Chat {
        system: "Name the entities.".into(),
        user: "Ada met Bob.".into(),
        schema: Some(Schema {
            name: "entities".into(),
            schema: json!({"type": "object"}),
        }),
        max_tokens: 77,
    })
}

fn echo_json() -> Mock {
    Mock::start(Options {
        chat: Arc::new(|system, user| json!({"system": system, "user": user}).to_string()),
        ..Options::default()
    })
}

#[test]
fn openai_chat() {
    let mock = echo_json();
    let messages = json!([
        {"role": "system", "content": "Name the entities."},
        {"role": "user", "content": "Ada met Bob."},
    ]);
    let schema = json!({"name": "entities", "strict": true, "schema": {"type": "object"}});
    for (structured, format) in [
        (
            Structured::JsonSchema,
            Some(json!({"type": "json_schema", "json_schema": schema})),
        ),
        (Structured::JsonObject, Some(json!({"type": "json_object"}))),
        (Structured::None, None),
    ] {
        mock.reset();
        let mut client = client(&mock, |settings| {
            settings.structured = structured;
            settings.key = Some(Secret::new("sesame"));
        });
        let answer = answered(one(&mut client, with_schema()).unwrap());
        assert_eq!(
            (answer.prompt_tokens, answer.completion_tokens, answer.attempts),
            (Some(6), Some(5), 1)
        );
        let answer: Value = serde_json::from_str(&text(answer)).unwrap();
        assert_eq!(answer, json!({"system": "Name the entities.", "user": "Ada met Bob."}));

        let seen = &mock.log()[0];
        let mut body = json!({"model": "talker", "messages": messages, "max_tokens": 77});
        if let Some(format) = format {
            body["response_format"] = format;
        }
        assert_eq!(seen.body, body);
        assert_eq!(
            (seen.method.as_str(), seen.path.as_str()),
            ("POST", "/v1/chat/completions")
        );
        assert_eq!(seen.headers["authorization"], "Bearer sesame");
        assert_eq!(seen.headers["content-type"], "application/json");
        assert!(!seen.headers.contains_key("cookie") && !seen.headers.contains_key("x-api-key"));
    }
}

#[test]
fn a_chat_without_schema_system_and_key() {
    let mock = mock(Faults::None);
    let mut client = client(&mock, |settings| {
        settings.temperature = Some(0.5);
        settings.token_limit = TokenLimit::MaxCompletionTokens;
        settings.base_url.push_str("/?version=3");
    });
    let chat = Chat {
        system: String::new(),
        user: "Hello there".into(),
        schema: None,
        max_tokens: 9,
    };
    assert_eq!(
        text(answered(one(&mut client, Request::Chat(chat)).unwrap())),
        "About: Hello there."
    );
    let seen = &mock.log()[0];
    let messages = json!([{"role": "user", "content": "Hello there"}]);
    assert_eq!(
        seen.body,
        json!({"model": "talker", "messages": messages, "max_completion_tokens": 9, "temperature": 0.5})
    );
    assert_eq!(seen.path, "/v1/chat/completions?version=3");
    assert!(!seen.headers.contains_key("authorization"));
}

#[test]
fn anthropic_chat() {
    let mock = echo_json();
    for structured in [Structured::JsonSchema, Structured::JsonObject, Structured::None] {
        mock.reset();
        let mut client = Client::start(Settings {
            structured,
            key: Some(Secret::new("sesame")),
            ..settings(Api::Anthropic, mock.base_url())
        })
        .unwrap();
        let answer = answered(one(&mut client, with_schema()).unwrap());
        assert_eq!((answer.prompt_tokens, answer.completion_tokens), (Some(6), Some(5)));
        let answer: Value = serde_json::from_str(&text(answer)).unwrap();
        assert_eq!(answer, json!({"system": "Name the entities.", "user": "Ada met Bob."}));

        let seen = &mock.log()[0];
        let mut body = json!({
            "model": "talker",
            "system": [{"type": "text", "text": "Name the entities.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "Ada met Bob."}],
            "max_tokens": 77,
        });
        if structured == Structured::JsonSchema {
            body["tools"] = json!([{"name": "entities", "input_schema": {"type": "object"}}]);
            body["tool_choice"] = json!({"type": "tool", "name": "entities"});
        }
        assert_eq!(seen.body, body);
        assert_eq!(seen.path, "/v1/messages");
        assert_eq!(seen.headers["x-api-key"], "sesame");
        assert_eq!(seen.headers["anthropic-version"], "2023-06-01");
        assert!(!seen.headers.contains_key("authorization"));
    }
}

#[test]
fn embeddings_rerank_and_models() {
    let mock = mock(Faults::None);
    let mut client = client(&mock, |settings| settings.embedding_dimensions = Some(16));
    let texts = vec!["one".to_string(), "two words".to_string()];
    let answer = answered(one(&mut client, Request::Embed(texts)).unwrap());
    let vectors = ["one", "two words"].map(|text| graphrag_mock::unit_vector(text, 16));
    assert_eq!(answer.reply, Reply::Vectors(vectors.to_vec()));
    assert_eq!(answer.prompt_tokens, Some(3));

    let documents = ["red", "blue sky", "sky"].map(str::to_string).to_vec();
    let query = "blue sky".to_string();
    let answer = answered(one(&mut client, Request::Rerank { query, documents }).unwrap());
    assert_eq!(answer.reply, Reply::Scores(vec![0.0, 1.0, 0.5]));

    let answer = answered(one(&mut client, Request::Models).unwrap());
    assert_eq!(answer.reply, Reply::Models(vec!["mock".into()]));

    let log = mock.log();
    let body = json!({"model": "placer", "input": ["one", "two words"], "encoding_format": "float", "dimensions": 16});
    assert_eq!((log[0].path.as_str(), &log[0].body), ("/v1/embeddings", &body));
    let body = json!({"model": "judge", "query": "blue sky", "documents": ["red", "blue sky", "sky"]});
    assert_eq!((log[1].path.as_str(), &log[1].body), ("/v1/rerank", &body));
    assert_eq!((log[2].method.as_str(), log[2].path.as_str()), ("GET", "/v1/models"));
}

#[test]
fn requests_that_the_settings_do_not_allow() {
    let mock = mock(Faults::None);
    let texts = || vec!["text".to_string()];
    let rerank = Request::Rerank {
        query: "query".into(),
        documents: texts(),
    };
    for request in [Request::Embed(texts()), rerank.clone()] {
        let mut client = Client::start(settings(Api::Anthropic, mock.base_url())).unwrap();
        assert!(matches!(one(&mut client, request), Err(Stop::Settings(_))));
    }
    for request in [Request::Embed(texts()), rerank, chat("Hello")] {
        let mut client = Client::start(Settings::new(Api::OpenAi, mock.base_url())).unwrap();
        assert!(matches!(one(&mut client, request), Err(Stop::Settings(_))));
    }
    assert_eq!(mock.log(), []);

    type Change = fn(&mut Settings);
    let changes: [Change; 9] = [
        |settings| settings.base_url = "localhost:80".into(),
        |settings| settings.base_url = "file:///etc".into(),
        |settings| settings.base_url = "http://user:word@localhost".into(),
        |settings| settings.base_url = String::new(),
        |settings| settings.concurrency = 0,
        |settings| settings.requests_per_minute = Some(0),
        |settings| settings.timeout = std::time::Duration::ZERO,
        |settings| settings.temperature = Some(f64::NAN),
        |settings| settings.key = Some(Secret::new("line\nbreak")),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut settings = settings(Api::OpenAi, mock.base_url());
        change(&mut settings);
        assert!(matches!(Client::start(settings), Err(Stop::Settings(_))), "{i}");
    }
}

fn openai(message: Value, reason: &str) -> Result<(String, bool), FailureKind> {
    let reply = json!({"choices": [{"message": message, "finish_reason": reason}]});
    read_text(Api::OpenAi, &reply)
}

fn read_text(api: Api, reply: &Value) -> Result<(String, bool), FailureKind> {
    wire::read_chat(api, reply).map(|answer| match answer.reply {
        Reply::Text { text, cut } => (text, cut),
        other => panic!("{other:?}"),
    })
}

#[test]
fn chat_replies() {
    let parts = json!([{"type": "text", "text": "Hello, "}, {"type": "image"}, {"type": "text", "text": "you"}]);
    assert_eq!(
        openai(json!({"content": parts}), "stop"),
        Ok(("Hello, you".into(), false))
    );
    assert_eq!(openai(json!({"content": "Hel"}), "length"), Ok(("Hel".into(), true)));
    for content in [
        Value::Null,
        json!(""),
        json!(" \n"),
        json!([]),
        json!([{"type": "text"}]),
    ] {
        let message = json!({"content": content, "reasoning_content": "I think."});
        assert_eq!(openai(message, "stop"), Err(FailureKind::Empty));
    }
    assert_eq!(
        openai(json!({"reasoning_content": "I think."}), "length"),
        Err(FailureKind::Empty)
    );
    assert_eq!(openai(json!({"content": 3}), "stop"), Err(FailureKind::Shape));
    for reply in [
        json!({}),
        json!([]),
        json!(null),
        json!({"choices": []}),
        json!({"choices": [{}]}),
    ] {
        assert_eq!(read_text(Api::OpenAi, &reply), Err(FailureKind::Shape));
        assert_eq!(read_text(Api::Anthropic, &reply), Err(FailureKind::Shape));
    }

    let thought = json!({"type": "thinking", "thinking": "I think."});
    let reply = json!({"content": [thought, {"type": "text", "text": "Hello"}], "stop_reason": "end_turn"});
    assert_eq!(read_text(Api::Anthropic, &reply), Ok(("Hello".into(), false)));
    let reply = json!({"content": [thought, {"type": "text", "text": "Hel"}], "stop_reason": "max_tokens"});
    assert_eq!(read_text(Api::Anthropic, &reply), Ok(("Hel".into(), true)));
    let tool = json!({"type": "tool_use", "input": {"a": [1]}});
    let reply = json!({"content": [{"type": "text", "text": "So:"}, tool], "stop_reason": "tool_use"});
    assert_eq!(read_text(Api::Anthropic, &reply), Ok((r#"{"a":[1]}"#.into(), false)));
    assert_eq!(
        read_text(Api::Anthropic, &json!({"content": [thought]})),
        Err(FailureKind::Empty)
    );
}

#[test]
fn tokens_are_counted_as_each_service_does() {
    let tokens = |usage: Value| {
        let reply = json!({"choices": [{"message": {"content": "Hi"}}], "usage": usage});
        let answer = wire::read_chat(Api::OpenAi, &reply).unwrap();
        (answer.prompt_tokens, answer.completion_tokens)
    };
    assert_eq!(
        tokens(json!({"prompt_tokens": 3, "completion_tokens": 4})),
        (Some(3), Some(4))
    );
    let usage = json!({"input_tokens": 1, "cache_read_input_tokens": 20, "output_tokens": 4});
    assert_eq!(tokens(usage), (Some(21), Some(4)));
    assert_eq!(tokens(json!({"total_tokens": 7})), (Some(7), None));
    assert_eq!(tokens(json!({"prompt_tokens": "many"})), (None, None));
    assert_eq!(tokens(json!(null)), (None, None));
}

#[test]
fn embedding_replies() {
    let read = |reply: &str, expected| {
        let reply: Value = serde_json::from_str(reply).unwrap();
        wire::read_embeddings(&reply, expected).map(|answer| match answer.reply {
            Reply::Vectors(vectors) => vectors,
            other => panic!("{other:?}"),
        })
    };
    let two = r#"{"data": [{"index": 1, "embedding": [3, 4e0]}, {"index": 0, "embedding": [0.5, -2]}]}"#;
    assert_eq!(read(two, 2), Ok(vec![vec![0.5, -2.0], vec![3.0, 4.0]]));
    assert_eq!(read(two, 3), Err(FailureKind::Count { expected: 3, got: 2 }));
    assert_eq!(
        read(r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#, 2),
        Ok(vec![vec![1.0], vec![2.0]])
    );
    for data in [
        r#"[{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]"#,
        r#"[{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]"#,
        r#"[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": []}]"#,
        r#"[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [null]}]"#,
        r#"[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": "AACAPw=="}]"#,
        r#"[{"index": 0, "embedding": [1]}, {"index": -1, "embedding": [1]}]"#,
        "7",
    ] {
        assert_eq!(
            read(&format!(r#"{{"data": {data}}}"#), 2),
            Err(FailureKind::Shape),
            "{data}"
        );
    }
    assert_eq!(
        read(r#"{"data": [{"embedding": [1e39]}]}"#, 1),
        Err(FailureKind::NotFinite)
    );
}
