//! rag_estimate: what a run would ask of models, before it does.

use std::collections::HashSet;

use graphrag_text::chunk::{self, Format};
use graphrag_text::tokens;
use pgrx::AnyNumeric;
use pgrx::prelude::*;
use sha2::{Digest, Sha256};

use super::{Embedder, Form, Model, Role, Server, prompts};
use crate::collection::Collection;
use crate::error::{Result, sql};
use crate::graph;
use crate::ingest::WAITING;
use crate::pg::tick;
use crate::raptor::foretell::{self, Expected, Texts};

type EstimateRow = (String, Option<i32>, i64, i64, i64, i64, Option<AnyNumeric>);

/// SQL: `rag_estimate(collection)`.
#[pg_extern(sql = false)]
fn rag_estimate(
    collection: Option<&str>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(step, String),
            name!(level, Option<i32>),
            name!(calls, i64),
            name!(calls_high, i64),
            name!(prompt_tokens, i64),
            name!(completion_tokens, i64),
            name!(cost, Option<AnyNumeric>),
        ),
    >,
> {
    Ok(TableIterator::new(estimate(collection)?))
}

/// What is to be done, in items and tokens.
#[derive(Clone, Copy, Default)]
struct Load {
    items: i64,
    tokens: i64,
}

/// What a step would ask of one model.
#[derive(Clone, Copy, Default)]
struct Asks {
    calls: i64,
    calls_high: i64,
    prompt_tokens: i64,
    completion_tokens: i64,
}

/// What a step, or a level of the tree, would ask of each model.
type Parts<'a> = Vec<(&'a Model, Asks)>;

fn estimate(name: Option<&str>) -> Result<Vec<EstimateRow>> {
    let collection = Collection::read(name)?;
    let waiting = Uncut::read(&collection)?;
    let mut rows = vec![row(&collection, "embed", None, embed(&collection, waiting.leaves)?)?];
    let levels = tree(&collection, &waiting.texts)?;
    if levels.is_empty() {
        rows.push(row(&collection, "tree", None, Vec::new())?);
    }
    for (level, parts) in (1..).zip(levels) {
        rows.push(row(&collection, "tree", Some(level), parts)?);
    }
    rows.push(row(
        &collection,
        "extract",
        None,
        extract(&collection, waiting.blocks)?,
    )?);
    rows.push(row(
        &collection,
        "describe",
        None,
        describe(&collection, waiting.blocks)?,
    )?);
    rows.push(row(
        &collection,
        "reports",
        None,
        reports(&collection, waiting.blocks)?,
    )?);
    Ok(rows)
}

fn row(collection: &Collection, step: &str, level: Option<i32>, parts: Parts) -> Result<EstimateRow> {
    let mut sum = Asks::default();
    let mut cost: Option<f64> = None;
    for (model, asks) in parts {
        sum.calls += asks.calls;
        sum.calls_high += asks.calls_high;
        sum.prompt_tokens += asks.prompt_tokens;
        sum.completion_tokens += asks.completion_tokens;
        if let Some(part) = price(collection, model, &asks)? {
            cost = Some(cost.unwrap_or(0.0) + part);
        }
    }
    // Of what cannot be foretold the cost is not nothing.
    let known = sum.calls > 0 || sum.calls_high == 0;
    let cost = cost
        .filter(|_| known)
        .map(|cost| AnyNumeric::try_from((cost * 1e6).round() / 1e6))
        .transpose();
    Ok((
        step.to_owned(),
        level,
        sum.calls,
        sum.calls_high,
        sum.prompt_tokens,
        sum.completion_tokens,
        cost.ok().flatten(),
    ))
}

/// What the documents that wait to be cut come to: they are cut here, in memory.
#[derive(Default)]
struct Uncut {
    leaves: Load,
    blocks: Load,
    /// The leaves again, each partition's alone.
    texts: Texts,
}

impl Uncut {
    fn read(collection: &Collection) -> Result<Uncut> {
        let mut uncut = Uncut::default();
        let mut seen = HashSet::new();
        let sql = format!("SELECT d.format, d.body, d.partition FROM {{s}}.document d WHERE d.id IN ({WAITING})");
        collection.stream(&sql, &[], |row| {
            let format = if row.need::<String>(1)? == "text" {
                Format::Text
            } else {
                Format::Markdown
            };
            let body: String = row.need(2)?;
            let texts = uncut.texts.entry(row.need(3)?).or_default();
            for block in chunk::chunk(&body, format, &collection.options.chunk, &mut tick) {
                uncut.blocks.items += 1;
                uncut.blocks.tokens += block.token_count as i64;
                for leaf in block.leaves {
                    // Equal texts are asked once.
                    let hash: [u8; 32] = Sha256::digest(&body[leaf.bytes]).into();
                    texts.insert(hash, leaf.token_count as i64);
                    if seen.insert(hash) {
                        uncut.leaves.items += 1;
                        uncut.leaves.tokens += leaf.token_count as i64;
                    }
                }
            }
            Ok(())
        })?;
        Ok(uncut)
    }
}

fn load(collection: &Collection, sql: &str) -> Result<Load> {
    collection.query_one(sql, &[], |row| {
        Ok(Load {
            items: row.need(1)?,
            tokens: row.need(2)?,
        })
    })
}

/// The mean of what the calls of a step have taken so far, if at least one in a hundred is done.
fn observed(collection: &Collection, step: &str, role: Role, of: i64) -> Result<Option<(f64, f64)>> {
    let sql = "SELECT count(*), sum(prompt_tokens)::float8 / sum(attempts), sum(completion_tokens)::float8 / sum(attempts) FROM {s}.model_call \
               WHERE step = $1 AND role = $2 AND status IN ('done', 'forgotten') AND prompt_tokens IS NOT NULL";
    let args = [step.into(), role.name().into()];
    let (count, prompt, completion): (i64, Option<f64>, Option<f64>) =
        collection.query_one(sql, &args, |row| Ok((row.need(1)?, row.get(2)?, row.get(3)?)))?;
    let enough = count > 0 && count * 100 >= of;
    Ok(enough.then(|| (prompt.unwrap_or(0.0), completion.unwrap_or(0.0))))
}

/// The model of an embedder that costs something, if it has one.
fn asked(embedder: &Embedder) -> &Model {
    &embedder.outside().unwrap_or(&embedder.parts[0]).model
}

fn embed(collection: &Collection, uncut: Load) -> Result<Parts<'_>> {
    let options = &collection.options;
    let (model, standing) = match &options.next_embedder {
        Some(next) => {
            let sql = "SELECT count(*), coalesce(sum(tokens), 0)::bigint FROM (SELECT max(token_count) AS tokens FROM {s}.node GROUP BY text_hash) t";
            (next, load(collection, sql)?)
        }
        None => {
            let sql = "SELECT count(*), coalesce(sum(tokens), 0)::bigint FROM (SELECT max(token_count) AS tokens FROM {s}.node \
                         WHERE id IN (SELECT key::bigint FROM {s}.change WHERE \"table\" = 'node') GROUP BY text_hash) t";
            (&options.embedder, load(collection, sql)?)
        }
    };
    let model = asked(model);
    let calls = standing.items + uncut.items;
    Ok(vec![(
        model,
        asks(model, calls, calls, standing.tokens + uncut.tokens, 0),
    )])
}

/// What is asked of a model, which is nothing if it is built in.
fn asks(model: &Model, calls: i64, calls_high: i64, prompt_tokens: i64, completion_tokens: i64) -> Asks {
    if model.is_built_in() {
        return Asks::default();
    }
    Asks {
        calls,
        calls_high,
        prompt_tokens,
        completion_tokens,
    }
}

/// Summaries and their vectors, level by level.
fn tree<'a>(collection: &'a Collection, uncut: &Texts) -> Result<Vec<Parts<'a>>> {
    let options = &collection.options;
    let summarizer = &options.summarizer;
    let embedder = asked(options.next_embedder.as_ref().unwrap_or(&options.embedder));
    if summarizer.is_built_in() && embedder.is_built_in() {
        return Ok(Vec::new());
    }
    let answered = observed(collection, "tree", Role::Summarizer, 0)?.map(|(_, completion)| completion);
    let expected = Expected::of(collection, answered)?;
    let overhead = tokens_of(&prompts::summarize(summarizer, options, &[])) as f64;
    let of_passage = tokens::count("<passage n=\"1\">\n\n</passage>\n") as f64;
    let levels = foretell::foretell(collection, uncut, &expected)?;
    let parts = levels.into_iter().map(|level| {
        let calls = level.summaries.round() as i64;
        let high = calls.max(level.most.ceil() as i64);
        let written = level.written as i64;
        let read = level.tokens + level.summaries * overhead + level.children * of_passage;
        vec![
            (summarizer, asks(summarizer, calls, high, read as i64, written)),
            (embedder, asks(embedder, calls, high, written, 0)),
        ]
    });
    Ok(parts.collect())
}

fn tokens_of(request: &serde_json::Value) -> i64 {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let counts = messages.iter().filter_map(|message| message["content"].as_str());
    counts.map(|text| tokens::count(text) as i64).sum()
}

/// Without an answer yet, an extraction is taken to be half as long as what it reads, and long enough for one relation. A
/// question for what was missed holds half of that, and brings as much again; each block is taken to be asked as often as can be.
fn extract(collection: &Collection, uncut: Load) -> Result<Parts<'_>> {
    let options = &collection.options;
    let model = &options.extractor;
    let sql = "SELECT count(*), coalesce(sum(token_count), 0)::bigint FROM {s}.block \
               WHERE id IN (SELECT key::bigint FROM {s}.change WHERE \"table\" = 'block')";
    let standing = load(collection, sql)?;
    let (blocks, tokens) = (standing.items + uncut.items, standing.tokens + uncut.tokens);
    let rounds = graph::rounds(collection);
    let calls = blocks * rounds;
    let overhead = tokens_of(&prompts::extract(
        model,
        options,
        Some("a title"),
        &["a section".to_owned()],
        "",
        None,
    ));
    let (prompt, completion) = match observed(collection, "extract", Role::Extractor, calls)? {
        Some((prompt, completion)) => (prompt * calls as f64, completion * calls as f64),
        None => {
            let first = (tokens + blocks * overhead, tokens / 2 + blocks * 150);
            let later = (first.0 + first.1 / 2, first.1 / 2);
            let sum = |first: i64, later: i64| (first + (rounds - 1) * later) as f64;
            (sum(first.0, later.0), sum(first.1, later.1))
        }
    };
    Ok(vec![(
        model,
        asks(model, calls, calls, prompt as i64, completion as i64),
    )])
}

/// Long descriptions are known when all blocks are read; until then at most as many more are expected as the blocks that were
/// read have brought.
fn describe(collection: &Collection, uncut: Load) -> Result<Parts<'_>> {
    let options = &collection.options;
    let model = &options.summarizer;
    let sql = "SELECT count(DISTINCT (kind, id)), coalesce(sum(octet_length(description)) / 4, 0)::bigint FROM ( \
                 SELECT 'entity' AS kind, t.id, m.description FROM {s}.entity t JOIN {s}.mention m ON m.entity_id = t.id WHERE t.stale \
                 UNION SELECT 'relation', t.id, e.description FROM {s}.relation t JOIN {s}.evidence e ON e.relation_id = t.id WHERE t.stale) d";
    let stale = load(collection, sql)?;
    let sql = "SELECT (SELECT count(*) FROM {s}.block), (SELECT count(DISTINCT key) FROM {s}.change WHERE \"table\" = 'block')";
    let (blocks, unread): (i64, i64) = collection.query_one(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
    let (all, read) = (blocks + uncut.items, blocks - unread);
    let high = match read * 100 >= all && read > 0 {
        true => (stale.items as f64 * all as f64 / read as f64).ceil() as i64,
        false => stale.items,
    };
    let overhead = tokens_of(&prompts::describe(model, options, "a name", &[]));
    let (prompt, completion) = match observed(collection, "describe", Role::Summarizer, stale.items)? {
        Some((prompt, completion)) => (
            (prompt * stale.items as f64) as i64,
            (completion * stale.items as f64) as i64,
        ),
        None => (
            stale.tokens + stale.items * overhead,
            stale.items * options.summary_tokens,
        ),
    };
    Ok(vec![(model, asks(model, stale.items, high, prompt, completion))])
}

/// Communities are known when all blocks are read; until then their number lies between those that there are and what
/// the blocks that were read let expect, at most one a block.
fn reports(collection: &Collection, uncut: Load) -> Result<Parts<'_>> {
    let options = &collection.options;
    let sql = "SELECT (SELECT count(*) FROM {s}.community WHERE (stale OR lazy AND NOT $1) AND size > 1), (SELECT count(*) FROM {s}.community WHERE size > 1), \
                 (SELECT count(*) FROM {s}.block), (SELECT count(DISTINCT key) FROM {s}.change WHERE \"table\" = 'block'), \
                 (SELECT count(*) FROM {s}.entity e WHERE e.degree > 0 AND NOT EXISTS \
                    (SELECT FROM {s}.community_entity c WHERE c.entity_id = e.id))";
    let lazy = options.lazy_reports;
    let (stale, all, blocks, unread, loose): (i64, i64, i64, i64, i64) =
        collection.query_one(sql, &[lazy.into()], |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?, row.need(5)?))
        })?;
    // Those that are to be found have two members and more.
    let (new, all) = (loose / 2, all + loose / 2);
    let (unread, blocks) = (unread + uncut.items, blocks + uncut.items);
    let read = blocks - unread;
    let high = match unread {
        0 => stale + new,
        _ if read * 100 >= blocks && all > 0 => stale.max((all as f64 * blocks as f64 / read as f64).ceil() as i64),
        _ => stale.max(blocks),
    };
    let overhead = tokens_of(&prompts::report(&options.summarizer, options, &[]));
    let sql = "SELECT coalesce(avg(least(n * 60, $1)), 300)::float8 FROM (SELECT count(*) AS n FROM {s}.community c \
                 JOIN {s}.community_entity e ON e.community_id = c.id WHERE (c.stale OR c.lazy) AND c.size > 1 GROUP BY c.id) t";
    let context: f64 = collection.query_one(sql, &[options.report_tokens.into()], |row| row.need(1))?;
    let (prompt, completion) = match observed(collection, "reports", Role::Summarizer, stale)? {
        Some(seen) => seen,
        None => (context + overhead as f64, options.summary_tokens as f64 * 2.0),
    };
    let of = |each: f64| (each * stale as f64) as i64;
    // Nobody is asked for a report before somebody reads it, and at worst all are read.
    let by_model = match lazy {
        true => asks(&options.summarizer, 0, high.max(all), 0, 0),
        false => asks(&options.summarizer, stale, high, of(prompt), of(completion)),
    };
    Ok(vec![
        (&options.summarizer, by_model),
        (
            asked(&options.embedder),
            asks(asked(&options.embedder), stale, high, of(completion), 0),
        ),
    ])
}

/// The cost by the prices of a server, in its currency.
fn price(collection: &Collection, model: &Model, asks: &Asks) -> Result<Option<f64>> {
    let Form::Server(name) = &model.form else {
        return Ok(None);
    };
    let server = Server::open(name, collection.owner)?;
    let number = |price: &Option<String>| price.as_ref().and_then(|price| price.parse::<f64>().ok());
    let (of_prompt, of_completion) = match model.role {
        Role::Embedder => (number(&server.price_embedding), None),
        _ => (number(&server.price_in), number(&server.price_out)),
    };
    if of_prompt.is_none() && of_completion.is_none() {
        return Ok(None);
    }
    let cost = asks.prompt_tokens as f64 * of_prompt.unwrap_or(0.0)
        + asks.completion_tokens as f64 * of_completion.unwrap_or(0.0);
    Ok(Some(cost / 1e6))
}
