//! Answers that have come in: read as their role needs them, and written to the ledger.

use graphrag_provider::{Api, Reply, wire};
use graphrag_text::answer;
use serde_json::Value;

use super::Role;
use super::flight::Call;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::{tick, vector};

/// Rows that a program has answered which are read at once.
const READ: i64 = 256;

/// An answer to be written.
pub struct Landed {
    pub call: Call,
    pub result: std::result::Result<Content, String>,
    pub prompt_tokens: Option<i64>,
    pub completion_tokens: Option<i64>,
    pub prices: [Option<String>; 2],
}

pub enum Content {
    Text { text: String, repairs: Vec<&'static str> },
    Vector(Option<Vec<f32>>),
}

/// What a reply of a chat says, if it can be read as its role needs it. `step` is the step, or what the request says of its replies.
pub fn read_text(role: Role, step: &str, reply: &str, cut: bool) -> std::result::Result<Content, String> {
    let (text, repairs) = match role {
        Role::Extractor => {
            let found = answer::extraction(reply).map_err(|error| error.to_string())?;
            if found.kept() == 0 && !found.dropped.is_empty() {
                let reasons: Vec<&str> = found.dropped.keys().copied().collect();
                return Err(format!(
                    "the reply holds no record that can be read ({})",
                    reasons.join(", ")
                ));
            }
            (reply.to_owned(), found.repairs)
        }
        Role::Summarizer if step == "reports" && answer::json(reply).is_ok_and(|(value, _)| value.is_object()) => {
            let repairs = answer::report(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "map" => {
            let repairs = answer::points(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "rate" => {
            let repairs = answer::relevance(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        // A question that is not divided has no parts.
        Role::Answerer if step == "plan" => {
            let repairs = match answer::json(reply) {
                Ok((value, repairs)) if value.is_object() || value.is_array() => repairs,
                _ => answer::draft(reply).map_err(|error| error.to_string())?.repairs,
            };
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "explore" => {
            let repairs = answer::primer(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "judge" => {
            let repairs = answer::verdict(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if let Some(count) = step.strip_prefix("scores of ") => {
            let count = count.parse().unwrap_or_default();
            let repairs = answer::scores(reply, count).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "support" => {
            let repairs = answer::support(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "grade" => {
            let repairs = answer::grade(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "draft" => {
            let repairs = answer::draft(reply).map_err(|error| error.to_string())?.repairs;
            (reply.to_owned(), repairs)
        }
        Role::Answerer if step == "resolve" => {
            let same = answer::yes(reply).map_err(|error| error.to_string())?;
            (if same { "yes" } else { "no" }.to_owned(), Default::default())
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

pub fn scores_as_text(scores: &[f64]) -> Content {
    Content::Text {
        text: Value::from(scores).to_string(),
        repairs: Vec::new(),
    }
}

/// More tokens than this no call takes; a service that says so would spoil all sums.
const MOST_TOKENS: u64 = 1_000_000_000;

/// Tokens as a service counts them.
pub fn counted(tokens: u64) -> i64 {
    tokens.min(MOST_TOKENS) as i64
}

/// `total` divided in proportion to the weights, nothing lost by rounding.
pub fn share(total: u64, weights: &[usize]) -> Vec<i64> {
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

/// Writes what has landed; tokens and cost add up over attempts, but for a queue, whose program may have written them itself.
/// Of a call whose row is gone meanwhile, forgotten with its document, only these are kept.
pub fn write(collection: &Collection, landed: Vec<Landed>) -> Result<()> {
    if landed.is_empty() {
        return Ok(());
    }
    let (mut keys, mut responses, mut vectors, mut errors) = (vec![], vec![], vec![], vec![]);
    let (mut prompt, mut completion, mut repairs) = (vec![], vec![], vec![]);
    let (mut price_in, mut price_out) = (vec![], vec![]);
    let (mut steps, mut roles, mut models) = (vec![], vec![], vec![]);
    for one in landed {
        keys.push(one.call.key);
        steps.push(one.call.step);
        roles.push(one.call.role.name());
        models.push(one.call.model);
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
    // What has landed for a row that is gone was paid all the same.
    let sql = "WITH u AS (SELECT *, CASE WHEN price_in IS NOT NULL OR price_out IS NOT NULL THEN \
                        (coalesce(prompt_tokens * price_in::numeric, 0) + coalesce(completion_tokens * price_out::numeric, 0)) \
                        / 1000000 END AS cost \
                 FROM unnest($1::bytea[], $2::text[], $3::{v}.vector[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], \
                             $8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) \
                      AS u (key, response, embedding, error, prompt_tokens, completion_tokens, repairs, price_in, price_out, \
                            step, role, model)), \
               written AS (UPDATE {s}.model_call m SET status = CASE WHEN u.error IS NULL THEN 'done' ELSE 'failed' END, \
                      response = u.response::jsonb, embedding = u.embedding, error = u.error, attempts = least(m.attempts, 1000000) + 1, \
                      repairs = string_to_array(u.repairs, ' '), finished_at = clock_timestamp(), \
                      request = CASE WHEN u.error IS NULL THEN '{}' ELSE m.request END, \
                      prompt_tokens = coalesce(CASE WHEN m.model <> 'queue' AND m.prompt_tokens BETWEEN 0 AND 1e15 \
                        THEN m.prompt_tokens END + u.prompt_tokens, u.prompt_tokens, \
                        m.prompt_tokens), \
                      completion_tokens = coalesce(CASE WHEN m.model <> 'queue' AND m.completion_tokens BETWEEN 0 AND 1e15 \
                        THEN m.completion_tokens END + u.completion_tokens, \
                        u.completion_tokens, m.completion_tokens), \
                      cost = coalesce(m.cost + u.cost, u.cost, m.cost) \
                 FROM u WHERE m.key = u.key AND m.status = 'pending' RETURNING m.key) \
               INSERT INTO {s}.model_call (key, step, role, model, request, status, attempts, prompt_tokens, completion_tokens, cost, \
                                           finished_at) \
               SELECT sha256(uuid_send(gen_random_uuid())), u.step, u.role, u.model, '{}', 'forgotten', 1, u.prompt_tokens, \
                      u.completion_tokens, u.cost, clock_timestamp() \
               FROM u WHERE NOT EXISTS (SELECT FROM written w WHERE w.key = u.key)";
    let args = [
        keys.into(),
        responses.into(),
        vector::Vectors(vectors.iter().map(Option::as_deref).collect()).into(),
        errors.into(),
        prompt.into(),
        completion.into(),
        repairs.into(),
        price_in.into(),
        price_out.into(),
        steps.into(),
        roles.into(),
        models.into(),
    ];
    collection.execute(sql, &args)?;
    Ok(())
}

/// Takes up what a program has answered in the queue: checked as any answer is, and marked failed if it is none.
pub fn pick_up(collection: &Collection, step: &str) -> Result<()> {
    // Marked as done without an answer: it is not.
    let sql = "UPDATE {s}.model_call SET status = 'pending' WHERE model = 'queue' AND step = $1 AND status = 'done' \
               AND response IS NULL AND request <> '{}'";
    collection.execute(sql, &[step.into()])?;
    loop {
        let sql = "SELECT key, role, response::text FROM {s}.model_call WHERE model = 'queue' AND step = $1 \
                   AND role IN ('embedder', 'summarizer', 'extractor') AND response IS NOT NULL AND request <> '{}' \
                   AND status IN ('pending', 'done') ORDER BY id LIMIT $2 FOR UPDATE";
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
        let part = collection.options.part("queue", step);
        let dimensions = part.map_or(collection.options.dimensions, |part| part.dimensions);
        let mut landed = Vec::new();
        for (key, role, response) in answered {
            let value: Value = serde_json::from_str(&response).unwrap_or(Value::Null);
            let usage = |name: &str, other: &str| {
                let usage = &value["usage"];
                usage[name].as_u64().or(usage[other].as_u64()).map(counted)
            };
            landed.push(Landed {
                result: read_response(dimensions, role, step, &value),
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
fn read_response(dimensions: usize, role: Role, step: &str, value: &Value) -> std::result::Result<Content, String> {
    if role == Role::Embedder {
        if value["data"].is_array() {
            return match wire::read_embeddings(value, 1) {
                Ok(answer) => match answer.reply {
                    Reply::Vectors(vectors) => unit_of(&vectors[0], dimensions),
                    _ => Err("the response holds no vector".to_owned()),
                },
                Err(kind) => Err(kind.to_string()),
            };
        }
        let list = [value, &value["embedding"]];
        let Some(numbers) = list.into_iter().find_map(Value::as_array) else {
            return if value.is_null() {
                Ok(Content::Vector(None))
            } else {
                Err("the response holds no vector".to_owned())
            };
        };
        let vector: Option<Vec<f32>> = numbers.iter().map(|n| n.as_f64().map(|n| n as f32)).collect();
        return match vector {
            Some(vector) => unit_of(&vector, dimensions),
            None => Err("the vector holds something that is no number".to_owned()),
        };
    }
    let whole = ["choices", "content"].iter().any(|field| value[*field].is_array());
    if let Some(text) = value.as_str() {
        return read_text(role, step, text, false);
    }
    if whole {
        let api = if value["choices"].is_array() {
            Api::OpenAi
        } else {
            Api::Anthropic
        };
        return match wire::read_chat(api, value) {
            Ok(answer) => match answer.reply {
                Reply::Text { text, cut } => read_text(role, step, &text, cut),
                _ => Err("the response holds no text".to_owned()),
            },
            Err(kind) => Err(kind.to_string()),
        };
    }
    match value["text"].as_str() {
        Some(text) => read_text(role, step, text, false),
        None => read_text(role, step, &value.to_string(), false),
    }
}

/// A vector of a queue. Unlike a server's, they may come from anywhere: a wrong one is no proof that the others are.
fn unit_of(vector: &[f32], dimensions: usize) -> std::result::Result<Content, String> {
    if vector.len() != dimensions {
        return Err(format!(
            "the vector has {} dimensions, {dimensions} are wanted",
            vector.len()
        ));
    }
    match vector.iter().all(|n| n.is_finite()) {
        true => Ok(Content::Vector(vector::unit(vector))),
        false => Err("the vector holds a number that is not finite".to_owned()),
    }
}
