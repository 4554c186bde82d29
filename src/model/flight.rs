//! Answers the pending rows of the ledger: sends them to servers, many at once, or hands them to functions.
//!
//! A flight lives for as long as its run, over many transactions: what is in the air stays there while what has landed is
//! written and committed. So a crash repeats at most what was in the air.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use graphrag_provider::{Chat, Client, Outcome, Reply, Request, Schema, Stop};
use graphrag_text::tokens;
use serde_json::Value;

use super::embed::is_up;
use super::landed::{Content, Landed, counted, read_text, scores_as_text, share, write};
use super::trouble::{check_dimensions, stopped};
use super::{Form, Function, Model, Role, Server};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::pg::subtransaction::attempt;
use crate::pg::{threads, tick, vector};

/// How long a round collects answers before they are written, if fewer come than are in the air.
const WINDOW: Duration = Duration::from_millis(500);
/// How long the session's own thread sleeps at most before it looks whether it is cancelled.
const NAP: Duration = Duration::from_millis(20);
/// Pending rows that are read at once.
const READ: i64 = 256;
/// Items that a function gets in one go: texts to embed, and others.
const FUNCTION_TEXTS: usize = 64;
const FUNCTION_ITEMS: usize = 8;

/// Calls in the air.
pub struct Flight {
    lanes: BTreeMap<String, Lane>,
    /// Read from the ledger and not sent yet.
    ready: VecDeque<Call>,
    sent: HashMap<u64, (String, Vec<Call>)>,
    next: u64,
    /// The last row read.
    last: i64,
    /// Items sent so far.
    pub calls: i64,
    landed: Vec<Landed>,
    /// Replies that have landed since the last write.
    replies: usize,
}

/// A server in use.
struct Lane {
    client: Client,
    server: Server,
}

/// One pending row.
pub struct Call {
    pub key: Vec<u8>,
    pub step: String,
    pub role: Role,
    pub model: String,
    pub request: Value,
}

/// What a round has done.
pub struct Round {
    pub answered: i64,
    pub failed: i64,
    /// Nothing is in the air and nothing can be sent.
    pub is_last: bool,
    /// Why no more can be asked; what had landed before is written.
    pub stopped: Option<Error>,
}

impl Flight {
    pub fn new() -> Flight {
        Flight {
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            sent: HashMap::new(),
            next: 0,
            last: 0,
            calls: 0,
            landed: Vec::new(),
            replies: 0,
        }
    }

    /// Goes on to the next step, or to what a step has planned meanwhile; nothing may be in the air.
    pub fn rewind(&mut self) {
        self.last = 0;
        self.ready.clear();
    }

    /// Sends what can be sent, waits a while for answers, and writes them. `limit` is how many items may be sent in all.
    pub fn round(&mut self, collection: &Collection, step: &str, limit: Option<i64>) -> Result<Round> {
        let started = Instant::now();
        let mut stopped = None;
        let mut dry = false;
        while stopped.is_none() {
            if !dry {
                dry = self.send(collection, step, limit)?;
            }
            if self.sent.is_empty() && dry {
                break;
            }
            if let Err(error) = self.receive(collection) {
                stopped = Some(error);
            }
            tick();
            let enough = self.lanes.values().map(|lane| lane.server.settings.concurrency).sum();
            if !self.landed.is_empty() && (started.elapsed() >= WINDOW || self.replies >= enough && enough > 0) {
                break;
            }
        }
        self.replies = 0;
        let landed = std::mem::take(&mut self.landed);
        let failed = landed.iter().filter(|l| l.result.is_err()).count() as i64;
        let answered = landed.len() as i64 - failed;
        write(collection, landed)?;
        Ok(Round {
            answered,
            failed,
            is_last: dry && self.sent.is_empty(),
            stopped,
        })
    }

    /// Sends pending calls while there is room; answers whether there are no more.
    fn send(&mut self, collection: &Collection, step: &str, limit: Option<i64>) -> Result<bool> {
        loop {
            if limit.is_some_and(|limit| self.calls >= limit) {
                return Ok(true);
            }
            if self.ready.is_empty() && !self.read(collection, step)? {
                return Ok(true);
            }
            let Some(first) = self.ready.front() else {
                return Ok(true);
            };
            let model = Model::parse(first.role, &first.model)?;
            match &model.form {
                Form::Server(name) => {
                    if !self.lanes.contains_key(&first.model) {
                        let lane = Lane::open(name, collection)?;
                        self.lanes.insert(first.model.clone(), lane);
                    }
                    let lane = &self.lanes[&first.model];
                    // Twice what goes out at once, so that no connection waits for this thread.
                    if self.sent.values().filter(|(of, _)| *of == first.model).count()
                        >= 2 * lane.server.settings.concurrency
                    {
                        return Ok(false);
                    }
                    let most = if first.role == Role::Embedder {
                        lane.server.batch_size
                    } else {
                        1
                    };
                    let calls = self.take(most, limit);
                    self.submit(calls);
                }
                Form::Function(name) => {
                    let most = if first.role == Role::Embedder {
                        FUNCTION_TEXTS
                    } else {
                        FUNCTION_ITEMS
                    };
                    let calls = self.take(most, limit);
                    self.call(collection, name, calls)?;
                    return Ok(false);
                }
                _ => {
                    self.ready.pop_front();
                }
            }
        }
    }

    /// Takes calls of one role and model off the front.
    fn take(&mut self, most: usize, limit: Option<i64>) -> Vec<Call> {
        let most = limit.map_or(most, |limit| most.min((limit - self.calls) as usize));
        let mut calls: Vec<Call> = Vec::new();
        while calls.len() < most
            && let Some(next) = self.ready.front()
            && calls
                .first()
                .is_none_or(|first| first.role == next.role && first.model == next.model)
        {
            calls.extend(self.ready.pop_front());
        }
        self.calls += calls.len() as i64;
        calls
    }

    fn read(&mut self, collection: &Collection, step: &str) -> Result<bool> {
        let sql = "SELECT id, key, role, model, request::text FROM {s}.model_call \
                   WHERE status = 'pending' AND NOT stale AND step = $1 AND id > $2 \
                   AND (role, model) IN (SELECT * FROM unnest($4::text[], $5::text[])) ORDER BY id LIMIT $3";
        // Whoever may write the ledger must not choose what runs as the owner, or gets the owner's key: the settings do.
        let models = collection.options.models().filter(|model| model.form != Form::Queue);
        let (roles, names): (Vec<&str>, Vec<&str>) =
            models.map(|model| (model.role.name(), model.text.as_str())).unzip();
        let args = [step.into(), self.last.into(), READ.into(), roles.into(), names.into()];
        let rows = collection.returning(sql, &args, |row| {
            let request: String = row.need(5)?;
            let call = Call {
                key: row.need(2)?,
                step: step.to_owned(),
                role: Role::parse(&row.need::<String>(3)?)?,
                model: row.need(4)?,
                request: serde_json::from_str(&request).unwrap_or(Value::Null),
            };
            Ok((row.need::<i64>(1)?, call))
        })?;
        for (id, call) in rows {
            self.last = id;
            self.ready.push_back(call);
        }
        Ok(!self.ready.is_empty())
    }

    fn submit(&mut self, calls: Vec<Call>) {
        let model = calls[0].model.clone();
        let Some(lane) = self.lanes.get_mut(&model) else {
            return;
        };
        let request = match calls[0].role {
            Role::Embedder => Request::Embed(calls.iter().map(|call| call.input().to_owned()).collect()),
            Role::Reranker => Request::Rerank {
                query: calls[0].request["query"].as_str().unwrap_or_default().to_owned(),
                documents: calls[0].list("documents").into_iter().map(str::to_owned).collect(),
            },
            _ => Request::Chat(calls[0].chat(lane.server.max_tokens)),
        };
        let id = self.next;
        self.next += 1;
        lane.client.submit(id, request);
        self.sent.insert(id, (model, calls));
    }

    /// Takes what has come back, waiting for a moment if nothing has.
    fn receive(&mut self, collection: &Collection) -> Result<()> {
        let mut wait = NAP / self.lanes.len().max(1) as u32;
        let models: Vec<String> = self.lanes.keys().cloned().collect();
        for model in models {
            while let Some(lane) = self.lanes.get_mut(&model) {
                let received = match lane.client.receive(wait) {
                    Ok(received) => received,
                    Err(stop) => return self.blame(&model, &stop),
                };
                let Some((id, outcome)) = received else { break };
                wait = Duration::ZERO;
                if let Some((_, calls)) = self.sent.remove(&id) {
                    self.replies += 1;
                    self.land(collection, &model, calls, outcome)?;
                }
            }
        }
        Ok(())
    }

    /// Decides whether a provider that stops is down, or whether the last few calls are to blame: they are if nothing else
    /// is left to ask and the provider answers something that costs nothing.
    fn blame(&mut self, model: &str, stop: &Stop) -> Result<()> {
        let Some(lane) = self.lanes.remove(model) else {
            return Ok(());
        };
        let down = stopped(&lane.server, stop);
        let Stop::Unreachable { reason } = stop else {
            return Err(down);
        };
        if !self.ready.is_empty() || !is_up(&lane.server)? {
            return Err(down);
        }
        for (_, (_, calls)) in self.sent.extract_if(|_, (of, _)| of == model) {
            self.landed.extend(calls.into_iter().map(|call| Landed {
                call,
                result: Err(reason.to_string()),
                prompt_tokens: None,
                completion_tokens: None,
                prices: [None, None],
            }));
        }
        Ok(())
    }

    fn land(&mut self, collection: &Collection, model: &str, mut calls: Vec<Call>, outcome: Outcome) -> Result<()> {
        let server = &self.lanes[model].server;
        let prices = match calls[0].role {
            Role::Embedder => [server.price_embedding.clone(), None],
            _ => [server.price_in.clone(), server.price_out.clone()],
        };
        let answer = match outcome {
            Outcome::Failed(_) if calls.len() > 1 => {
                // The bad one is found by halving.
                let rest = calls.split_off(calls.len() / 2);
                self.submit(calls);
                self.submit(rest);
                return Ok(());
            }
            Outcome::Failed(failure) => {
                self.landed.extend(calls.into_iter().map(|call| Landed {
                    call,
                    result: Err(failure.to_string()),
                    prompt_tokens: None,
                    completion_tokens: None,
                    prices: prices.clone(),
                }));
                return Ok(());
            }
            Outcome::Answered(answer) => answer,
        };
        let completion_tokens = answer.completion_tokens.map(counted);
        match answer.reply {
            Reply::Vectors(vectors) => {
                let part = collection.options.part(model, &calls[0].step)?;
                let weights: Vec<usize> = calls.iter().map(|call| tokens::count(call.input()).max(1)).collect();
                let total: usize = weights.iter().sum();
                let shares = share(counted(answer.prompt_tokens.unwrap_or(total as u64)) as u64, &weights);
                for ((call, vector), tokens) in calls.into_iter().zip(vectors).zip(shares) {
                    check_dimensions(collection, part, &vector)?;
                    self.landed.push(Landed {
                        call,
                        result: Ok(Content::Vector(vector::unit(&vector))),
                        prompt_tokens: Some(tokens),
                        completion_tokens: None,
                        prices: prices.clone(),
                    });
                }
            }
            Reply::Text { text, cut } => {
                for call in calls {
                    let asked = || call.messages().iter().map(|text| tokens::count(text)).sum::<usize>() as i64;
                    let prompt_tokens = answer.prompt_tokens.map_or_else(asked, counted);
                    self.landed.push(Landed {
                        result: read_text(call.role, call.reply(), &text, cut),
                        call,
                        prompt_tokens: Some(prompt_tokens),
                        completion_tokens: completion_tokens.or(Some(tokens::count(&text) as i64)),
                        prices: prices.clone(),
                    });
                }
            }
            Reply::Scores(scores) => {
                let asked = |call: &Call| {
                    call.list("documents")
                        .iter()
                        .map(|text| tokens::count(text))
                        .sum::<usize>() as i64
                };
                self.landed.extend(calls.into_iter().map(|call| Landed {
                    prompt_tokens: Some(answer.prompt_tokens.map_or_else(|| asked(&call), counted)),
                    call,
                    result: Ok(scores_as_text(&scores)),
                    completion_tokens: None,
                    prices: prices.clone(),
                }));
            }
            Reply::Models(_) => return Err(Error::internal("an answer of another kind than was asked for")),
        }
        Ok(())
    }

    /// Asks a function; its failures are the items' own.
    fn call(&mut self, collection: &Collection, name: &str, calls: Vec<Call>) -> Result<()> {
        let (role, step) = (calls[0].role, calls[0].step.clone());
        let step = step.as_str();
        let function = Function::resolve(role, name)?;
        let owner = collection.owner;
        let results: Vec<std::result::Result<Content, String>> = match role {
            Role::Embedder => {
                let texts: Vec<&str> = calls.iter().map(Call::input).collect();
                let dimensions = collection.options.part(&calls[0].model, step)?.dimensions;
                let vectors = function.embed(&texts, dimensions, owner)?;
                vectors.into_iter().map(|item| item.map(Content::Vector)).collect()
            }
            Role::Summarizer => {
                let clusters: Vec<Vec<&str>> = calls.iter().map(|call| call.list("texts")).collect();
                let replies = function.summarize(&clusters, owner)?;
                replies
                    .into_iter()
                    .map(|item| item.and_then(|text| read_text(role, step, &text, false)))
                    .collect()
            }
            Role::Extractor => {
                let blocks: Vec<&str> = calls.iter().map(Call::input).collect();
                let replies = function.extract(&blocks, owner)?;
                replies
                    .into_iter()
                    .map(|item| item.and_then(|text| read_text(role, step, &text, false)))
                    .collect()
            }
            // Somebody waits for the answer: an exception is theirs. A batch of reports, or a pair of names, is one of many.
            Role::Answerer => {
                let mut results = Vec::with_capacity(calls.len());
                for call in &calls {
                    let reply = match step {
                        "ask" => Ok(function.answer(call.input(), owner)?),
                        _ => attempt(|| function.answer(call.input(), owner)).map_err(|caught| caught.message),
                    };
                    results.push(reply.and_then(|text| read_text(role, call.reply(), &text, false)));
                }
                results
            }
            Role::Reranker => {
                let score = |call: &Call| {
                    let query = call.request["query"].as_str().unwrap_or_default();
                    Ok(Ok(scores_as_text(&function.rerank(
                        query,
                        &call.list("documents"),
                        owner,
                    )?)))
                };
                calls.iter().map(score).collect::<Result<_>>()?
            }
        };
        self.landed
            .extend(calls.into_iter().zip(results).map(|(call, result)| Landed {
                call,
                result,
                prompt_tokens: None,
                completion_tokens: None,
                prices: [None, None],
            }));
        Ok(())
    }
}

impl Lane {
    fn open(name: &str, collection: &Collection) -> Result<Lane> {
        let server = Server::open(name, collection.owner)?;
        let client = threads::without_signals(|| Client::start(server.settings.clone()))
            .map_err(|stop| stopped(&server, &stop))?;
        Ok(Lane { client, server })
    }
}

impl Call {
    fn input(&self) -> &str {
        self.request["input"].as_str().unwrap_or_default()
    }

    /// What its reply is read as.
    fn reply(&self) -> &str {
        self.request["reply"].as_str().unwrap_or(&self.step)
    }

    fn list(&self, field: &str) -> Vec<&str> {
        let texts = self.request[field].as_array().map(Vec::as_slice).unwrap_or_default();
        texts.iter().filter_map(Value::as_str).collect()
    }

    fn messages(&self) -> Vec<&str> {
        let messages = self.request["messages"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        messages
            .iter()
            .filter_map(|message| message["content"].as_str())
            .collect()
    }

    fn chat(&self, max_tokens: u32) -> Chat {
        let messages = self.messages();
        let schema = &self.request["response_format"]["json_schema"];
        Chat {
            system: messages.first().copied().unwrap_or_default().to_owned(),
            user: messages.get(1).copied().unwrap_or_default().to_owned(),
            schema: schema["name"].as_str().map(|name| Schema {
                name: name.to_owned(),
                schema: schema["schema"].clone(),
            }),
            max_tokens,
        }
    }
}
