//! The ledger: what was asked of models, answered, paid and forgotten.
//!
//! Each item that is asked (a text, a cluster, a block, a community) is one row of `model_call`, keyed by what would make the
//! answer another one. A step plans its items with [`Ledger::want`]: what is answered comes back, what is missing stands as
//! `pending` rows with the complete request from then on. A [`Flight`] answers those of functions and servers, a program those of a
//! queue. Whoever answers, the rows are the same.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::flight::Flight;
use super::{Form, Model, Role, landed};
use crate::collection::Collection;
use crate::error::{Error, Result, notice};
use crate::pg::vector::Vector;

/// The steps of questions, which somebody waits for.
pub const QUESTIONS: [&str; 9] = [
    "ask", "plan", "map", "rate", "explore", "judge", "draft", "rewrite", "rerank",
];

/// Rows that are looked up or written at once.
const BATCH: usize = 1_000;
/// Documents of items that are written at once.
const LINKS: usize = 100_000;

/// One thing to ask.
pub struct Item {
    /// What the answer depends on beside the model: the text for an embedder, else the request.
    pub hash: Vec<u8>,
    pub request: Value,
    /// The documents whose words are in the request.
    pub documents: Vec<i64>,
}

impl Item {
    pub fn new(request: Value, documents: Vec<i64>) -> Item {
        Item {
            hash: Sha256::digest(request.to_string()).to_vec(),
            request,
            documents,
        }
    }

    /// A text to embed, whose sha256 stands beside it in the tables.
    pub fn text(text: &str, hash: Vec<u8>, documents: Vec<i64>) -> Item {
        Item {
            hash,
            request: super::prompts::embed(text),
            documents,
        }
    }
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Text(String),
    /// A unit vector, or nothing for a text that has none.
    Vector(Option<Vec<f32>>),
    Failed,
}

/// When missing answers are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// At once, in the transaction of the caller.
    Now,
    /// By the procedure, which commits what is planned first.
    Later,
}

/// The ledger as one step of one run uses it.
pub struct Ledger<'a> {
    collection: &'a Collection,
    step: &'static str,
    asking: Asking,
    /// The caller knows what a rollback loses.
    told: bool,
    /// Calls made so far.
    pub calls: i64,
    /// Items that were planned and have no answer yet.
    pub waiting: i64,
}

/// Where the key of an item comes from: key = sha256(prefix || hash of the item).
pub fn prefix(role: Role, identity: &str) -> Vec<u8> {
    format!("{}\0{identity}\0", role.name()).into_bytes()
}

fn key(prefix: &[u8], hash: &[u8]) -> Vec<u8> {
    Sha256::new_with_prefix(prefix).chain_update(hash).finalize().to_vec()
}

impl<'a> Ledger<'a> {
    /// The ledger for a step that goes on with what an earlier run has planned.
    pub fn resume(collection: &'a Collection, step: &'static str, asking: Asking) -> Ledger<'a> {
        Ledger {
            collection,
            step,
            asking,
            told: false,
            calls: 0,
            waiting: 0,
        }
    }

    /// The ledger for a step that plans anew: what failed may be tried once more, and what it does not want again goes with
    /// [`Ledger::finish`].
    pub fn begin(collection: &'a Collection, step: &'static str, asking: Asking) -> Result<Ledger<'a>> {
        let ledger = Self::resume(collection, step, asking);
        ledger.retry_failed()?;
        let sql =
            "UPDATE {s}.model_call SET stale = true WHERE step = $1 AND status IN ('pending', 'failed') AND NOT stale";
        collection.execute(sql, &[step.into()])?;
        Ok(ledger)
    }

    /// Has what failed tried once more, unless it had all its attempts.
    pub fn retry_failed(&self) -> Result<()> {
        // A program that marks a call of the queue as failed does not count its attempts.
        let sql = "UPDATE {s}.model_call SET status = 'pending', attempts = attempts + (finished_at IS NULL)::int, response = NULL, \
                          repairs = '{}', finished_at = NULL \
                   WHERE step = $1 AND status = 'failed' AND attempts < $2";
        let attempts = self.collection.options.max_attempts.into();
        self.collection.execute(sql, &[self.step.into(), attempts])?;
        Ok(())
    }

    /// Drops what was planned and is not wanted any more, and forgets what was answered from a text that has changed.
    pub fn finish(&self) -> Result<()> {
        self.drop_unwanted()?;
        let keys = "SELECT key FROM {s}.model_call WHERE step = $1 AND stale";
        forget(self.collection, keys, &[self.step.into()])
    }

    /// Drops what an earlier run has planned and this one has not, so that nobody answers it.
    pub fn drop_unwanted(&self) -> Result<()> {
        let sql = "DELETE FROM {s}.model_call WHERE step = $1 AND stale AND status = 'pending' AND attempts = 0";
        self.collection.execute(sql, &[self.step.into()])?;
        Ok(())
    }

    /// The answers to `items`, in their order; nothing for those that are not answered yet, which are pending now.
    pub fn want(&mut self, model: &Model, items: &[Item]) -> Result<Vec<Option<Answer>>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        if model.form == Form::Queue {
            landed::pick_up(self.collection, self.step)?;
        }
        let prefix = prefix(model.role, &model.identity(self.collection.owner)?);
        let keys: Vec<Vec<u8>> = items.iter().map(|item| key(&prefix, &item.hash)).collect();
        let mut known = self.known(model, &keys)?;
        // The same text may stand in several items.
        let mut new = HashSet::new();
        let missing: Vec<usize> = (0..keys.len())
            .filter(|&i| !known.contains_key(&keys[i]) && new.insert(&keys[i]))
            .collect();
        self.plan(model, items, &keys, &missing)?;
        let is_open = |known: &HashMap<Vec<u8>, Option<Answer>>| {
            keys.iter().any(|key| known.get(key).is_none_or(Option::is_none))
        };
        if self.asking == Asking::Now && model.form != Form::Queue && is_open(&known) {
            self.ask(model, missing.len())?;
            known = self.known(model, &keys)?;
        }
        let answers: Vec<Option<Answer>> = keys.iter().map(|key| known.get(key).cloned().flatten()).collect();
        self.waiting += answers.iter().filter(|answer| answer.is_none()).count() as i64;
        Ok(answers)
    }

    /// The size of the vectors that the model answers.
    fn dimensions(&self, model: &Model) -> Result<i32> {
        match model.role {
            Role::Embedder => Ok(self.collection.options.part(&model.text, self.step)?.dimensions as i32),
            _ => Ok(0),
        }
    }

    /// Why the last call of the step has failed.
    pub fn last_failure(&self) -> Result<Option<String>> {
        let sql = "SELECT error FROM {s}.model_call WHERE step = $1 AND status = 'failed' ORDER BY id DESC LIMIT 1";
        let found = self.collection.returning(sql, &[self.step.into()], |row| row.get(1))?;
        Ok(found.into_iter().next().flatten())
    }

    /// Notes that vectors stand in the rows that they are for: the ledger need not keep them any more.
    pub fn moved(&self, model: &Model, hashes: &[Vec<u8>]) -> Result<()> {
        let prefix = prefix(model.role, &model.identity(self.collection.owner)?);
        let keys: Vec<Vec<u8>> = hashes.iter().map(|hash| key(&prefix, hash)).collect();
        let sql = "UPDATE {s}.model_call SET embedding = NULL, response = '\"moved\"' WHERE key = ANY ($1) AND embedding IS NOT NULL";
        self.collection.execute(sql, &[keys.into()])?;
        Ok(())
    }

    /// What the ledger has of the keys: nothing where a call is pending.
    ///
    /// Rows that something else than the extension has made into what they are not are as good as none, and planned anew.
    fn known(&self, model: &Model, keys: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, Option<Answer>>> {
        let mut known = HashMap::new();
        let dimensions = self.dimensions(model)?;
        for part in keys.chunks(BATCH) {
            let part = || part.to_vec().into();
            let sql = "UPDATE {s}.model_call SET stale = false, step = CASE status WHEN 'pending' THEN $2 ELSE step END \
                       WHERE key = ANY ($1) AND (stale OR status = 'pending' AND step <> $2)";
            self.collection.execute(sql, &[part(), self.step.into()])?;
            // A vector that has been moved to its row, and is not found there, has to be asked for again.
            let sql = "SELECT key, status, response #>> '{}', embedding FROM {s}.model_call WHERE key = ANY ($1) \
                       AND role = $2 AND model = $3 AND response IS DISTINCT FROM '\"moved\"' \
                       AND (embedding IS NULL OR {v}.vector_dims(embedding) = $4) \
                       AND (status IN ('pending', 'failed') OR status = 'done' AND request = '{}' AND (role = 'embedder' OR response IS NOT NULL))";
            let args = [
                part(),
                model.role.name().into(),
                model.text.as_str().into(),
                dimensions.into(),
            ];
            for (key, answer) in self.collection.returning(sql, &args, |row| {
                let status: String = row.need(2)?;
                let answer = match status.as_str() {
                    "done" if model.role == Role::Embedder => {
                        Some(Answer::Vector(row.get::<Vector>(4)?.map(|vector| vector.0)))
                    }
                    "done" => row.get(3)?.map(Answer::Text),
                    "failed" => Some(Answer::Failed),
                    _ => None,
                };
                Ok((row.need::<Vec<u8>>(1)?, answer))
            })? {
                known.insert(key, answer);
            }
        }
        Ok(known)
    }

    /// Writes pending rows for the items that the ledger does not have.
    fn plan(&self, model: &Model, items: &[Item], keys: &[Vec<u8>], missing: &[usize]) -> Result<()> {
        let dimensions = self.dimensions(model)?;
        for part in missing.chunks(BATCH) {
            let of_part: Vec<Vec<u8>> = part.iter().map(|&i| keys[i].clone()).collect();
            let requests: Vec<String> = part.iter().map(|&i| items[i].request.to_string()).collect();
            let sql = "INSERT INTO {s}.model_call (key, step, role, model, request) \
                       SELECT u.key, $3, $4, $5, u.request::jsonb FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY AS u (key, request, n) \
                       ORDER BY u.n ON CONFLICT (key) DO UPDATE SET status = 'pending', step = excluded.step, role = excluded.role, \
                         model = excluded.model, request = excluded.request, response = NULL, embedding = NULL, error = NULL, stale = false \
                       WHERE model_call.role <> excluded.role OR model_call.model <> excluded.model OR model_call.status = 'forgotten' \
                         OR model_call.status = 'done' AND (model_call.request <> '{}' OR model_call.response = '\"moved\"' \
                           OR model_call.role <> 'embedder' AND model_call.response IS NULL \
                           OR {v}.vector_dims(model_call.embedding) <> $6)";
            let args = [
                of_part.into(),
                requests.into(),
                self.step.into(),
                model.role.name().into(),
                model.text.as_str().into(),
                dimensions.into(),
            ];
            self.collection.execute(sql, &args)?;
        }
        // Items that the ledger has already may rest on further documents now.
        let sql = "INSERT INTO {s}.model_call_source (key, document_id) SELECT u.key, u.id \
                   FROM unnest($1::bytea[], $2::bigint[]) AS u (key, id) ON CONFLICT DO NOTHING";
        let (mut of, mut documents) = (Vec::new(), Vec::new());
        for (i, (key, item)) in keys.iter().zip(items).enumerate() {
            of.extend(std::iter::repeat_n(key.clone(), item.documents.len()));
            documents.extend_from_slice(&item.documents);
            // Many questions about the whole each rest on all documents.
            if documents.len() >= LINKS || i + 1 == items.len() {
                let part = [std::mem::take(&mut of).into(), std::mem::take(&mut documents).into()];
                self.collection.execute(sql, &part)?;
            }
        }
        Ok(())
    }

    /// Answers the pending rows of the step in this transaction.
    fn ask(&mut self, model: &Model, missing: usize) -> Result<()> {
        if let Form::Server(_) = model.form
            && missing > 0
            && !QUESTIONS.contains(&self.step)
            && self.step != "resolve"
            && !self.told
        {
            let literal = crate::collection::literal(&self.collection.name);
            notice(
                format!(
                    "asking {} in this transaction; a rollback loses the answers",
                    model.text
                ),
                format!("CALL rag_refresh({literal}) commits answers as they come, and asks for none twice."),
            );
            self.told = true;
        }
        let mut flight = Flight::new();
        loop {
            let round = flight.round(self.collection, self.step, None)?;
            self.calls += round.answered + round.failed;
            if let Some(error) = round.stopped {
                return Err(error);
            }
            if round.is_last {
                return Ok(());
            }
        }
    }
}

/// Forgets the calls whose keys a query selects: what was asked and answered goes, and the key, which could be computed from
/// it; tokens and cost stay, so that the bill stays right.
pub fn forget(collection: &Collection, keys: &str, args: &[crate::pg::spi::Arg]) -> Result<()> {
    let keys: Vec<Vec<u8>> = collection.returning(keys, args, |row| row.need(1))?;
    if keys.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM {s}.model_call WHERE key = ANY ($1) AND attempts = 0 AND response IS NULL AND prompt_tokens IS NULL AND cost IS NULL";
    collection.execute(sql, &[keys.clone().into()])?;
    let sql = "DELETE FROM {s}.model_call_source WHERE key = ANY ($1)";
    collection.execute(sql, &[keys.clone().into()])?;
    let sql = "UPDATE {s}.model_call SET key = sha256(uuid_send(gen_random_uuid())), request = '{}', response = NULL, \
                      embedding = NULL, error = NULL, status = 'forgotten', stale = false WHERE key = ANY ($1)";
    collection.execute(sql, &[keys.into()])?;
    Ok(())
}

/// Forgets what models have answered from documents that go.
///
/// A text that another document holds, too, is no trace of this one: an embedding or an extraction goes with the last document
/// that it was made from, any other answer with the first.
pub fn forget_answers(collection: &Collection, ids: &[i64]) -> Result<()> {
    let keys = "SELECT DISTINCT s.key FROM {s}.model_call_source s JOIN {s}.model_call m ON m.key = s.key \
                WHERE s.document_id = ANY ($1) AND NOT (m.step IN ('embed', 'reembed', 'extract') AND EXISTS \
                  (SELECT FROM {s}.model_call_source o WHERE o.key = s.key AND o.document_id <> ALL ($1)))";
    forget(collection, keys, &[ids.to_vec().into()])?;
    let sql = "DELETE FROM {s}.model_call_source WHERE document_id = ANY ($1)";
    collection.execute(sql, &[ids.to_vec().into()])?;
    Ok(())
}

/// Forgets the questions that have failed, so that they are asked again: somebody waits for them.
pub fn retry_questions(collection: &Collection) -> Result<()> {
    let sql = "DELETE FROM {s}.model_call WHERE step = ANY ($1) AND status = 'failed'";
    collection.execute(sql, &[QUESTIONS.to_vec().into()])?;
    Ok(())
}

/// Forgets the answers to questions that have read one of these documents.
pub fn forget_questions(collection: &Collection, ids: &[i64]) -> Result<()> {
    let keys = "SELECT DISTINCT s.key FROM {s}.model_call_source s JOIN {s}.model_call m ON m.key = s.key \
                WHERE s.document_id = ANY ($1) AND m.step = ANY ($2)";
    forget(collection, keys, &[ids.to_vec().into(), QUESTIONS.to_vec().into()])
}

/// Marks what models have answered from documents that have changed: the next run of the step keeps what it can use and
/// forgets the rest.
pub fn suspect_documents(collection: &Collection, ids: &[i64]) -> Result<()> {
    // Nobody asks a question again for the step's sake.
    forget_questions(collection, ids)?;
    let sql = "UPDATE {s}.model_call SET stale = true WHERE NOT stale AND key IN \
                 (SELECT key FROM {s}.model_call_source WHERE document_id = ANY ($1))";
    collection.execute(sql, &[ids.to_vec().into()])?;
    Ok(())
}

/// An error if the role's model belongs to a queue that nobody can wait for.
pub fn must_answer_at_once(model: &Model) -> Result<()> {
    if model.form != Form::Queue {
        return Ok(());
    }
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "the {} of this collection is a queue, which answers later",
            model.role.name()
        ),
    )
    .hint("Search with a vector of the same model: raptor_search takes one in place of the text."))
}
