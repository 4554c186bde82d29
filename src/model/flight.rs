//! Answers the pending rows of the ledger: sends them to servers, many at once, or hands them to functions.
//!
//! A flight lives for as long as its run, over many transactions: what is in the air stays there while what has landed is
//! written and committed. So a crash repeats at most what was in the air.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use graphrag_provider::{Chat, Client, Outcome, Reply, Request, Schema, Stop};
use graphrag_text::{answer, tokens};
use pgrx::PgSqlErrorCode;
use serde_json::Value;

use super::{Form, Function, Model, Role, Server};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result};
use crate::pg::{threads, tick, vector};

/// How long a round collects answers before they are written.
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
}

/// A server in use.
struct Lane {
    client: Client,
    server: Server,
}

/// One pending row.
struct Call {
    key: Vec<u8>,
    step: String,
    role: Role,
    model: String,
    request: Value,
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

/// An answer to be written.
struct Landed {
    call: Call,
    result: std::result::Result<Content, String>,
    attempts: i32,
    prompt_tokens: Option<i64>,
    completion_tokens: Option<i64>,
    prices: [Option<String>; 2],
}

enum Content {
    Text { text: String, repairs: Vec<&'static str> },
    Vector(Option<Vec<f32>>),
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
            if self.sent.is_empty() && (dry || !self.landed.is_empty()) {
                break;
            }
            if let Err(error) = self.receive(collection) {
                stopped = Some(error);
            }
            tick();
            if started.elapsed() >= WINDOW && !self.landed.is_empty() {
                break;
            }
        }
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
                   WHERE status = 'pending' AND NOT stale AND step = $1 AND id > $2 AND model <> 'queue' ORDER BY id LIMIT $3";
        let args = [step.into(), self.last.into(), READ.into()];
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
            loop {
                let Some(lane) = self.lanes.get_mut(&model) else { break };
                let received = lane
                    .client
                    .receive(wait)
                    .map_err(|stop| stopped(&lane.server.name, &stop))?;
                let Some((id, outcome)) = received else { break };
                wait = Duration::ZERO;
                if let Some((_, calls)) = self.sent.remove(&id) {
                    self.land(collection, &model, calls, outcome)?;
                }
            }
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
                    attempts: failure.attempts as i32,
                    prompt_tokens: None,
                    completion_tokens: None,
                    prices: prices.clone(),
                }));
                return Ok(());
            }
            Outcome::Answered(answer) => answer,
        };
        let attempts = answer.attempts as i32;
        let completion_tokens = answer.completion_tokens.map(|n| n as i64);
        match answer.reply {
            Reply::Vectors(vectors) => {
                let weights: Vec<usize> = calls.iter().map(|call| tokens::count(call.input()).max(1)).collect();
                let total: usize = weights.iter().sum();
                let shares = share(answer.prompt_tokens.unwrap_or(total as u64), &weights);
                for ((call, vector), tokens) in calls.into_iter().zip(vectors).zip(shares) {
                    check_dimensions(collection, &vector)?;
                    self.landed.push(Landed {
                        call,
                        result: Ok(Content::Vector(vector::unit(&vector))),
                        attempts,
                        prompt_tokens: Some(tokens),
                        completion_tokens: None,
                        prices: prices.clone(),
                    });
                }
            }
            Reply::Text { text, cut } => {
                for call in calls {
                    let asked = || call.messages().iter().map(|text| tokens::count(text)).sum::<usize>() as i64;
                    let prompt_tokens = answer.prompt_tokens.map_or_else(asked, |n| n as i64);
                    self.landed.push(Landed {
                        result: read_text(call.role, &call.step, &text, cut),
                        call,
                        attempts,
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
                    prompt_tokens: Some(answer.prompt_tokens.map_or_else(|| asked(&call), |n| n as i64)),
                    call,
                    result: Ok(scores_as_text(&scores)),
                    attempts,
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
                let vectors = function.embed(&texts, collection.options.dimensions, owner)?;
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
            // Somebody waits for these: an exception is theirs.
            Role::Answerer => {
                let replies = calls
                    .iter()
                    .map(|call| function.answer(call.input(), owner))
                    .collect::<Result<Vec<_>>>()?;
                replies
                    .into_iter()
                    .map(|text| read_text(role, step, &text, false))
                    .collect()
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
                attempts: 1,
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
        let client =
            threads::without_signals(|| Client::start(server.settings.clone())).map_err(|stop| stopped(name, &stop))?;
        Ok(Lane { client, server })
    }
}

impl Call {
    fn input(&self) -> &str {
        self.request["input"].as_str().unwrap_or_default()
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

/// What a reply of a chat says, if it can be read as its role needs it.
fn read_text(role: Role, step: &str, reply: &str, cut: bool) -> std::result::Result<Content, String> {
    let (text, repairs) = match role {
        Role::Extractor => {
            let repairs = answer::extraction(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Summarizer if step == "reports" && answer::json(reply).is_ok_and(|(value, _)| value.is_object()) => {
            let repairs = answer::report(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        _ => answer::prose(reply, cut).map_err(|error| error.to_string())?,
    };
    let mut repairs = repairs.names();
    if cut {
        repairs.insert(0, "cut");
    }
    // No text of a database can hold it.
    let text = text.replace('\0', "");
    Ok(Content::Text { text, repairs })
}

fn scores_as_text(scores: &[f64]) -> Content {
    Content::Text {
        text: Value::from(scores).to_string(),
        repairs: Vec::new(),
    }
}

/// `total` divided in proportion to the weights, nothing lost by rounding.
fn share(total: u64, weights: &[usize]) -> Vec<i64> {
    let sum: u64 = weights.iter().map(|&w| w as u64).sum::<u64>().max(1);
    let (mut before, mut given) = (0u64, 0u64);
    let mut shares = Vec::with_capacity(weights.len());
    for &weight in weights {
        before += weight as u64;
        let until = (u128::from(total) * u128::from(before) / u128::from(sum)) as u64;
        shares.push((until - given) as i64);
        given = until;
    }
    shares
}

/// 22000 for a model that does not fit the collection: that is no item's fault.
pub fn check_dimensions(collection: &Collection, vector: &[f32]) -> Result<()> {
    let (has, wants) = (vector.len(), collection.options.dimensions);
    if has == wants {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
        format!(
            "the embedder answers vectors of {has} dimensions, collection {} has {wants}",
            quoted(&collection.name)
        ),
    )
    .hint(format!(
        "Make the collection with dimensions => {has}, or take a model of {wants}."
    )))
}

/// The error for a server that cannot be used.
pub fn stopped(server: &str, stop: &Stop) -> Error {
    let code = match stop {
        Stop::Unreachable { .. } => PgSqlErrorCode::ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION,
        Stop::Limited { .. } => PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        _ => PgSqlErrorCode::ERRCODE_FDW_ERROR,
    };
    let hint = match stop {
        Stop::Unreachable { .. } => {
            "What was answered so far is kept where it was committed; try again when the server is up."
        }
        Stop::Refused { .. } => {
            "Look at its key, its models and its account: the options of the server, and rag_health."
        }
        Stop::Limited { .. } => "Go on when the limit is over; the option requests_per_minute keeps below it.",
        _ => "ALTER SERVER sets its options.",
    };
    Error::new(code, format!("server {}: {stop}", quoted(server))).hint(hint)
}

/// Writes what has landed. A call whose row is gone meanwhile was forgotten with its document, and its answer is, too.
fn write(collection: &Collection, landed: Vec<Landed>) -> Result<()> {
    if landed.is_empty() {
        return Ok(());
    }
    let (mut keys, mut responses, mut vectors, mut errors) = (vec![], vec![], vec![], vec![]);
    let (mut attempts, mut prompt, mut completion, mut repairs) = (vec![], vec![], vec![], vec![]);
    let (mut price_in, mut price_out) = (vec![], vec![]);
    for one in landed {
        keys.push(one.call.key);
        attempts.push(one.attempts);
        prompt.push(one.prompt_tokens);
        completion.push(one.completion_tokens);
        let [of_prompt, of_completion] = one.prices;
        price_in.push(of_prompt);
        price_out.push(of_completion);
        let (response, vector, error, names) = match one.result {
            Ok(Content::Text { text, repairs }) => (Some(Value::from(text).to_string()), None, None, repairs.join(" ")),
            Ok(Content::Vector(vector)) => (None, vector, None, String::new()),
            Err(reason) => (None, None, Some(reason.replace('\0', "")), String::new()),
        };
        responses.push(response);
        vectors.push(vector);
        errors.push(error);
        repairs.push(names);
    }
    let sql = "UPDATE {s}.model_call m SET status = CASE WHEN u.error IS NULL THEN 'done' ELSE 'failed' END, \
                      response = u.response::jsonb, embedding = u.embedding, error = u.error, attempts = m.attempts + u.attempts, \
                      repairs = string_to_array(u.repairs, ' '), finished_at = clock_timestamp(), \
                      request = CASE WHEN u.error IS NULL THEN '{}' ELSE m.request END, \
                      prompt_tokens = u.prompt_tokens, completion_tokens = u.completion_tokens, \
                      cost = CASE WHEN u.price_in IS NOT NULL OR u.price_out IS NOT NULL THEN \
                        (coalesce(u.prompt_tokens * u.price_in::numeric, 0) + coalesce(u.completion_tokens * u.price_out::numeric, 0)) \
                        / 1000000 END \
               FROM unnest($1::bytea[], $2::text[], $3::{v}.vector[], $4::text[], $5::int[], $6::bigint[], $7::bigint[], $8::text[], \
                           $9::text[], $10::text[]) \
                    AS u (key, response, embedding, error, attempts, prompt_tokens, completion_tokens, repairs, price_in, price_out) \
               WHERE m.key = u.key AND m.status = 'pending'";
    let args = [
        keys.into(),
        responses.into(),
        vector::Vectors(vectors.iter().map(Option::as_deref).collect()).into(),
        errors.into(),
        attempts.into(),
        prompt.into(),
        completion.into(),
        repairs.into(),
        price_in.into(),
        price_out.into(),
    ];
    collection.execute(sql, &args)?;
    Ok(())
}

/// Takes up what a program has answered in the queue: checked as any answer is, and marked failed if it is none.
pub fn pick_up(collection: &Collection, step: &str) -> Result<()> {
    loop {
        let sql = "SELECT key, role, response::text FROM {s}.model_call WHERE model = 'queue' AND step = $1 \
                   AND response IS NOT NULL AND request <> '{}' AND status IN ('pending', 'done') ORDER BY id LIMIT $2 FOR UPDATE";
        let answered = collection.returning(sql, &[step.into(), READ.into()], |row| {
            let role = Role::parse(&row.need::<String>(2)?)?;
            Ok((row.need::<Vec<u8>>(1)?, role, row.need::<String>(3)?))
        })?;
        if answered.is_empty() {
            return Ok(());
        }
        let keys: Vec<Vec<u8>> = answered.iter().map(|(key, ..)| key.clone()).collect();
        let sql = "UPDATE {s}.model_call SET status = 'pending' WHERE key = ANY ($1) AND status = 'done'";
        collection.execute(sql, &[keys.into()])?;
        let mut landed = Vec::new();
        for (key, role, response) in answered {
            let value: Value = serde_json::from_str(&response).unwrap_or(Value::Null);
            let usage = |name: &str, other: &str| {
                let usage = &value["usage"];
                usage[name].as_i64().or(usage[other].as_i64())
            };
            landed.push(Landed {
                result: read_response(collection, role, step, &value)?,
                attempts: 1,
                prompt_tokens: usage("prompt_tokens", "input_tokens"),
                completion_tokens: usage("completion_tokens", "output_tokens"),
                prices: [None, None],
                call: Call {
                    key,
                    step: step.to_owned(),
                    role,
                    model: "queue".to_owned(),
                    request: Value::Null,
                },
            });
            tick();
        }
        write(collection, landed)?;
    }
}

/// What a program has written as an answer: the text or the vector itself, or a provider's whole reply.
fn read_response(
    collection: &Collection,
    role: Role,
    step: &str,
    value: &Value,
) -> Result<std::result::Result<Content, String>> {
    if role == Role::Embedder {
        let list = [value, &value["embedding"], &value["data"][0]["embedding"]];
        let Some(numbers) = list.into_iter().find_map(Value::as_array) else {
            return Ok(if value.is_null() {
                Ok(Content::Vector(None))
            } else {
                Err("the response holds no vector".to_owned())
            });
        };
        let vector: Option<Vec<f32>> = numbers.iter().map(|n| n.as_f64().map(|n| n as f32)).collect();
        return Ok(match vector {
            Some(vector) if vector.iter().all(|n| n.is_finite()) => {
                check_dimensions(collection, &vector)?;
                Ok(Content::Vector(vector::unit(&vector)))
            }
            _ => Err("the vector holds something that is no number".to_owned()),
        });
    }
    let whole = ["choices", "content"].iter().any(|field| value[*field].is_array());
    if let Some(text) = value.as_str() {
        return Ok(read_text(role, step, text, false));
    }
    if whole {
        let api = if value["choices"].is_array() {
            graphrag_provider::Api::OpenAi
        } else {
            graphrag_provider::Api::Anthropic
        };
        return Ok(match graphrag_provider::wire::read_chat(api, value) {
            Ok(answer) => match answer.reply {
                Reply::Text { text, cut } => read_text(role, step, &text, cut),
                _ => Err("the response holds no text".to_owned()),
            },
            Err(kind) => Err(kind.to_string()),
        });
    }
    match value["text"].as_str() {
        Some(text) => Ok(read_text(role, step, text, false)),
        None => Ok(read_text(role, step, &value.to_string(), false)),
    }
}
