//! rag_health: whether models answer, and what of a collection is degraded.

use graphrag_provider::{Reply, Request};
use pgrx::prelude::*;

use super::embed::one_reply;
use super::embedder::BuiltIn;
use super::trouble::check_dimensions;
use super::{Embedder, Form, Function, Model, Part, Server, lsa};
use crate::collection::Collection;
use crate::error::{Error, Result, sql};
use crate::pg::subtransaction::attempt;
use crate::progress::count;
use crate::search;

type HealthRow = (String, String, String);

/// SQL: `rag_health(collection)`.
#[pg_extern(sql = false)]
fn rag_health(
    collection: Option<&str>,
) -> sql::Result<TableIterator<'static, (name!(part, String), name!(state, String), name!(detail, String))>> {
    Ok(TableIterator::new(health(collection)?))
}

const OK: &str = "ok";
const DEGRADED: &str = "degraded";
const FAILED: &str = "failed";

fn health(name: Option<&str>) -> Result<Vec<HealthRow>> {
    let collection = Collection::write(name)?;
    let mut rows = extensions(&collection)?;
    let options = &collection.options;
    let mut add = |part: &str, model: &Model, found: &dyn Fn() -> Result<(&'static str, String)>| {
        let (state, detail) = match attempt(found) {
            Ok((state, detail)) => (state, detail),
            Err(caught) => (FAILED, caught.message),
        };
        rows.push((part.to_owned(), state.to_owned(), format!("{}: {detail}", model.text)));
    };
    let embedders = [("embedder", &options.embedder)].into_iter();
    for (name, embedder) in embedders.chain(options.next_embedder.iter().map(|next| ("next embedder", next))) {
        for part in &embedder.parts {
            add(name, &part.model, &|| probe_embedder(&collection, embedder, part));
        }
    }
    let models = [&options.summarizer, &options.extractor].into_iter();
    for model in models.chain(&options.answerer).chain(&options.reranker) {
        add(model.role.name(), model, &|| probe(&collection, model));
    }
    let (state, detail) = waiting(&collection)?;
    rows.push(("documents".to_owned(), state.to_owned(), detail));
    if let Some(next) = &options.next_embedder {
        rows.push(("vectors".to_owned(), DEGRADED.to_owned(), options.until_embedded(next)));
    }
    for table in ["node", "community"] {
        let (state, detail) = index(&collection, table)?;
        rows.push((format!("index of {table}"), state.to_owned(), detail));
    }
    let (state, detail) = triggers(&collection)?;
    rows.push(("triggers".to_owned(), state.to_owned(), detail));
    let (state, detail) = calls(&collection)?;
    rows.push(("calls".to_owned(), state.to_owned(), detail));
    Ok(rows)
}

fn extensions(collection: &Collection) -> Result<Vec<HealthRow>> {
    let sql = "SELECT e.extname::text, e.extversion, coalesce(a.default_version, '') FROM pg_extension e \
               LEFT JOIN pg_available_extensions a ON a.name = e.extname WHERE e.extname IN ('pg_graphrag', 'vector') ORDER BY 1";
    collection.query(sql, &[], |row| {
        let (name, has, newest): (String, String, String) = (row.need(1)?, row.need(2)?, row.need(3)?);
        let (state, detail) = match newest == has || newest.is_empty() {
            true => (OK, format!("version {has}")),
            false => (
                DEGRADED,
                format!("version {has}; ALTER EXTENSION {name} UPDATE goes to {newest}"),
            ),
        };
        Ok((format!("extension {name}"), state.to_owned(), detail))
    })
}

/// Asks a model something that costs nothing.
fn probe(collection: &Collection, model: &Model) -> Result<(&'static str, String)> {
    match &model.form {
        Form::BuiltIn => Ok((OK, "built in".to_owned())),
        Form::Function(name) => {
            Function::resolve(model.role, name)?;
            Ok((OK, "the function is there".to_owned()))
        }
        Form::Server(name) => {
            let server = Server::open(name, collection.owner)?;
            let wanted = server.model(model.role)?;
            Ok(match one_reply(&server, Request::Models)? {
                Ok(Reply::Models(models)) if models.is_empty() || models.iter().any(|model| model == wanted) => {
                    (OK, format!("answers, with the model {wanted}"))
                }
                Ok(_) => (DEGRADED, format!("answers, and does not list the model {wanted}")),
                Err(reason) => (DEGRADED, format!("cannot list its models: {reason}")),
            })
        }
        Form::Queue => {
            let sql = "SELECT count(*), extract(epoch FROM now() - min(created_at))::bigint FROM {s}.model_call \
                       WHERE model = 'queue' AND role = $1 AND status = 'pending' AND response IS NULL";
            let args = [model.role.name().into()];
            let (count, age): (i64, Option<i64>) =
                collection.query_one(sql, &args, |row| Ok((row.need(1)?, row.get(2)?)))?;
            Ok(match age {
                None => (OK, "nothing waits".to_owned()),
                Some(age) => (OK, format!("{count} calls wait, the oldest for {age} s")),
            })
        }
    }
}

/// Asks a part of an embedder for the vector of one word: whether it fits shows in nothing else.
fn probe_embedder(collection: &Collection, embedder: &Embedder, part: &Part) -> Result<(&'static str, String)> {
    let model = &part.model;
    let name = match &model.form {
        Form::BuiltIn if part.built_in() == Some(BuiltIn::Lsa) => return learned(collection, embedder),
        Form::Function(name) => {
            let function = Function::resolve(model.role, name)?;
            let found = function.embed(&["health"], part.dimensions, collection.owner)?;
            return match found.into_iter().next() {
                Some(Ok(_)) => Ok((OK, format!("answers vectors of {} dimensions", part.dimensions))),
                Some(Err(reason)) => Ok((FAILED, reason)),
                None => Err(Error::internal("no vector for one text")),
            };
        }
        Form::Server(name) => name,
        Form::BuiltIn | Form::Queue => return probe(collection, model),
    };
    let server = Server::open(name, collection.owner)?;
    let identity = model.identity(collection.owner)?;
    let options = &collection.options;
    if *embedder == options.embedder
        && options.next_embedder.is_none()
        && let Some(before) = options.embedder_identity.as_ref().filter(|before| **before != identity)
    {
        return Ok((
            FAILED,
            format!("the vectors were made by {before}; rag_alter with the same embedder embeds anew"),
        ));
    }
    match one_reply(&server, Request::Embed(vec!["health".to_owned()]))? {
        Ok(Reply::Vectors(vectors)) => {
            check_dimensions(collection, part, vectors.first().map_or(&[], Vec::as_slice))?;
            Ok((OK, format!("answers, with the model {}", server.model(model.role)?)))
        }
        Ok(_) => Err(Error::internal("an answer of another kind than was asked for")),
        Err(reason) => Ok((FAILED, reason)),
    }
}

/// What the collection has taught itself, and whether it is due to learn.
fn learned(collection: &Collection, embedder: &Embedder) -> Result<(&'static str, String)> {
    let options = &collection.options;
    let nothing = format!("has learned nothing, which it does from {} leaves on", lsa::LEAST);
    if *embedder != options.embedder {
        return Ok((
            OK,
            match lsa::can_learn(collection)? {
                true => "learns with the next refresh".to_owned(),
                false => nothing,
            },
        ));
    }
    let state = lsa::State::load(collection)?;
    let terms: i64 = collection.query_one("SELECT count(*) FROM {s}.term", &[], |row| row.need(1))?;
    let detail = match (state.has_learned(), terms) {
        (true, 0) => format!(
            "has forgotten all that it had learned, and learns from {} leaves on",
            lsa::LEAST
        ),
        (true, _) => lsa::describe(&state, terms),
        (false, _) => nothing,
    };
    // The refresh goes over to another embedder, or learns in any case.
    if options.next_embedder.is_some() {
        return Ok((OK, detail));
    }
    let standing = lsa::Standing::of(collection)?;
    let new = count(standing.new, "newer leaf", "newer leaves");
    let sql = "SELECT count(*) FROM (SELECT FROM {s}.node LIMIT $1) n";
    let nodes: i64 = collection.query_one(sql, &[(lsa::FEW + 1).into()], |row| row.need(1))?;
    Ok(match standing.due {
        // It learns by itself with the documents that come.
        Some(reason) if nodes <= lsa::FEW && state.has_learned() => {
            (OK, format!("{detail}; the next refresh learns, since {reason}"))
        }
        Some(reason) => (DEGRADED, format!("{detail}; the next refresh learns, since {reason}")),
        None if standing.new > 0 => {
            let share = standing.unknown * 100.0;
            let known = "of the words that it has learned from";
            (
                OK,
                format!("{detail}; {new}, with unknown words that are {share:.1} % {known}"),
            )
        }
        None => (OK, detail),
    })
}

/// Documents that are not cut yet, and leaves that have no vector yet: neither are found.
fn waiting(collection: &Collection) -> Result<(&'static str, String)> {
    let sql = "SELECT count(DISTINCT key) FILTER (WHERE \"table\" = 'document'), \
                      count(DISTINCT key) FILTER (WHERE \"table\" = 'node'), \
                      (SELECT count(*) FROM {s}.document WHERE body_hash = '') \
               FROM {s}.change WHERE \"table\" IN ('document', 'node')";
    let (documents, leaves, unseen): (i64, i64, i64) =
        collection.query_one(sql, &[], |row| Ok((row.need(1)?, row.need(2)?, row.need(3)?)))?;
    let mut waits = Vec::new();
    if documents + unseen > 0 {
        let documents = count(documents + unseen, "document to be cut", "documents to be cut");
        waits.push(documents);
    }
    if leaves > 0 {
        waits.push(count(leaves, "leaf for its vector", "leaves for their vectors"));
    }
    Ok(match waits.is_empty() {
        true => (OK, "all can be found".to_owned()),
        false => (
            DEGRADED,
            format!("waiting: {}; rag_refresh takes them up", waits.join(", ")),
        ),
    })
}

fn index(collection: &Collection, table: &str) -> Result<(&'static str, String)> {
    let sql = "SELECT i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relnamespace = $1 AND c.relname = $2";
    let valid: Option<bool> = collection
        .query(
            sql,
            &[collection.oid.into(), format!("{table}_embedding").into()],
            |row| row.need(1),
        )?
        .pop();
    if search::index_expression(collection).is_none() {
        return Ok((
            OK,
            "none: vectors of over 4,000 dimensions are searched exactly".to_owned(),
        ));
    }
    let sql = format!("SELECT count(*) FROM (SELECT FROM {{s}}.{table} WHERE embedding IS NOT NULL LIMIT $1) c");
    let exact_below = collection.options.exact_below;
    let many = collection.query_one(&sql, &[(exact_below + 1).into()], |row| row.need::<i64>(1))? > exact_below;
    Ok(match valid {
        Some(true) => (OK, "hnsw".to_owned()),
        Some(false) => (DEGRADED, "not valid: REINDEX".to_owned()),
        None if many => (
            DEGRADED,
            "missing: searches read all vectors; a build function makes it".to_owned(),
        ),
        None => (OK, "none yet: a build function makes it".to_owned()),
    })
}

fn triggers(collection: &Collection) -> Result<(&'static str, String)> {
    let sql = "SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
               WHERE c.relnamespace = $1 AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgname IN \
                 ('zz_document_row', 'document_insert', 'document_update', 'document_delete', 'document_truncate', 'entity_row', \
                  'relation_insert', 'relation_update', 'relation_delete', 'relation_truncate', 'relation_row')";
    let count: i64 = collection.query_one(sql, &[collection.oid.into()], |row| row.need(1))?;
    Ok(match count {
        11 => (OK, "all there".to_owned()),
        _ => (
            FAILED,
            format!("{count} of 11 there and enabled: changes of documents are not followed"),
        ),
    })
}

fn calls(collection: &Collection) -> Result<(&'static str, String)> {
    let sql = "SELECT count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'failed') FROM {s}.model_call";
    let (pending, failed): (i64, i64) = collection.query_one(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
    Ok(match failed {
        0 => (OK, format!("{pending} pending")),
        _ => (
            DEGRADED,
            format!("{pending} pending, {failed} failed; their reasons stand in model_call"),
        ),
    })
}
