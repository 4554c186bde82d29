#![allow(dead_code)]

use graphrag_mock::{Faults, Mock, Options};
use graphrag_provider::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longer than any test takes.
pub const LONG: Duration = Duration::from_secs(60);

pub fn mock(faults: Faults) -> Mock {
    Mock::start(Options {
        faults,
        ..Options::default()
    })
}

pub fn settings(api: Api, base_url: String) -> Settings {
    Settings {
        chat_model: Some("talker".into()),
        embedding_model: Some("placer".into()),
        rerank_model: Some("judge".into()),
        retries: 0,
        timeout: Duration::from_secs(30),
        ..Settings::new(api, base_url)
    }
}

pub fn client(mock: &Mock, change: impl FnOnce(&mut Settings)) -> Client {
    let mut settings = settings(Api::OpenAi, mock.base_url());
    change(&mut settings);
    Client::start(settings).unwrap()
}

pub fn chat(user: &str) -> Request {
    Request::Chat(Chat {
        system: "You answer.".into(),
        user: user.into(),
        schema: None,
        max_tokens: 100,
    })
}

/// All outcomes, by their requests' numbers.
pub fn outcomes(client: &mut Client) -> Result<BTreeMap<u64, Outcome>, Stop> {
    let mut outcomes = BTreeMap::new();
    let begin = Instant::now();
    while client.in_flight() > 0 {
        if let Some((id, outcome)) = client.receive(Duration::from_secs(1))? {
            assert!(outcomes.insert(id, outcome).is_none(), "{id} came twice");
        }
        assert!(begin.elapsed() < LONG);
    }
    Ok(outcomes)
}

pub fn one(client: &mut Client, request: Request) -> Result<Outcome, Stop> {
    client.submit(0, request);
    outcomes(client).map(|mut outcomes| outcomes.remove(&0).unwrap())
}

pub fn answered(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Answered(answer) => answer,
        Outcome::Failed(failure) => panic!("{failure}"),
    }
}

pub fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Answered(answer) => panic!("{answer:?}"),
        Outcome::Failed(failure) => failure,
    }
}

pub fn text(answer: Answer) -> String {
    match answer.reply {
        Reply::Text { text, .. } => text,
        other => panic!("{other:?}"),
    }
}
