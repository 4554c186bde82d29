//! Goes over to another embedder, or to what the embedder has learned anew: all texts are embedded while search answers from
//! the old vectors, which are replaced at once at the end.

use crate::collection::Collection;
use crate::error::Result;
use crate::ingest;
use crate::model::lsa::{self, Learning};
use crate::model::{Asking, Composer, Embedder, Identity, Item, Ledger, Model, ledger};
use crate::pg::vector::{Vector, Vectors};
use crate::pg::{lock, tick};
use crate::refresh::REEMBED;
use crate::{search, settings};

/// Texts that are embedded at once.
const BATCH: usize = 1_000;

pub struct Reembed {
    next: Embedder,
    /// Whether the model outside is to be asked; else its numbers are taken from the vectors that stand.
    asks: bool,
    learning: Option<Learning>,
    /// What is asked for: nodes, then communities.
    nodes: Vec<i64>,
    communities: Vec<i64>,
    at: usize,
    /// Texts of the lists before this one.
    seen: usize,
    waiting: i64,
    swapped: bool,
    finished: bool,
}

impl Reembed {
    /// Goes over to `next`; without it, to what the embedder that there is learns anew. It learns in either case.
    pub fn new(collection: &Collection, next: Option<Embedder>) -> Result<Reembed> {
        let options = &collection.options;
        let stays = next.is_none();
        let next = next.unwrap_or_else(|| options.embedder.clone());
        let asks = match (next.outside(), options.embedder.outside()) {
            // What it asks of a server that answers by another model by now, nobody has ordered.
            _ if stays => false,
            (None, _) => false,
            (Some(next), Some(now)) if next.model == now.model && next.dimensions == now.dimensions => {
                let now = next.model.identity(collection.owner)?;
                options.embedder_identity.as_ref().is_some_and(|before| *before != now)
            }
            _ => true,
        };
        let learning = match next.lsa() {
            Some(part) if lsa::can_learn(collection)? => Some(Learning::new(collection, part.dimensions)?),
            _ => None,
        };
        let ids = |sql: &str| match asks {
            true => collection.query(sql, &[], |row| row.need(1)),
            false => Ok(Vec::new()),
        };
        Ok(Reembed {
            nodes: ids("SELECT id FROM {s}.node ORDER BY id")?,
            communities: ids("SELECT id FROM {s}.community WHERE text IS NOT NULL ORDER BY id")?,
            next,
            asks,
            learning,
            at: 0,
            seen: 0,
            waiting: 0,
            swapped: false,
            finished: false,
        })
    }

    pub fn total(&self) -> usize {
        self.seen + self.listed()
    }

    pub fn done(&self) -> usize {
        self.seen + self.at
    }

    fn listed(&self) -> usize {
        self.nodes.len() + self.communities.len()
    }

    pub fn is_done(&self) -> bool {
        self.finished
    }

    /// Whether the next piece may replace the vectors.
    pub fn replaces(&self) -> bool {
        self.learning.as_ref().is_none_or(Learning::is_done)
    }

    /// Learns, then plans the vectors of the next texts, and after the last of them puts all in their places. Answers how many
    /// are missing.
    pub fn step(&mut self, collection: &Collection, ledger: &mut Ledger, skip: bool) -> Result<i64> {
        if self.swapped {
            // Not with the swap, which keeps readers out: this keeps out writers only.
            for table in ["node", "community"] {
                search::ensure_index(collection, table)?;
            }
            self.finished = true;
            return Ok(0);
        }
        if let Some(learning) = self.learning.as_mut().filter(|learning| !learning.is_done()) {
            learning.step(collection)?;
            return Ok(0);
        }
        let asked = self.next.outside().filter(|_| self.asks).map(|part| part.model.clone());
        if let Some(model) = asked {
            let skip = skip || self.next.is_queue();
            let next = self.listed().min(self.at + BATCH);
            let of_nodes = &self.nodes[self.at.min(self.nodes.len())..next.min(self.nodes.len())];
            let of_communities =
                &self.communities[self.at.saturating_sub(self.nodes.len())..next.saturating_sub(self.nodes.len())];
            let texts = [
                texts(collection, NODES, of_nodes)?,
                texts(collection, COMMUNITIES, of_communities)?,
            ]
            .concat();
            let items: Vec<Item> = texts
                .into_iter()
                .map(|text| Item::text(&text.text, text.hash, text.documents))
                .collect();
            let before = ledger.waiting;
            ledger.want(&model, &items)?;
            let waiting = ledger.waiting - before;
            if waiting > 0 && !skip {
                return Ok(waiting);
            }
            self.waiting += waiting;
            self.at = next;
            if self.at < self.listed() {
                return Ok(self.waiting);
            }
            if self.waiting > 0 {
                self.finished = true;
                return Ok(self.waiting);
            }
            self.take_late(collection, &model)?;
            if self.listed() > 0 {
                return Ok(0);
            }
        }
        self.swap(collection)?;
        Ok(0)
    }

    /// Goes on with the texts that have come or changed since the last look.
    fn take_late(&mut self, collection: &Collection, model: &Model) -> Result<()> {
        self.seen += self.listed();
        self.at = 0;
        let prefix = ledger::prefix(model.role, &model.identity(collection.owner)?);
        let missing =
            "NOT EXISTS (SELECT FROM {s}.model_call m WHERE m.status IN ('done', 'failed') AND m.key = sha256($1 ||";
        let sql = format!("SELECT n.id FROM {{s}}.node n WHERE {missing} n.text_hash)) ORDER BY n.id");
        self.nodes = collection.returning(&sql, &[prefix.clone().into()], |row| row.need(1))?;
        let sql = format!(
            "SELECT c.id FROM {{s}}.community c WHERE c.text IS NOT NULL AND {missing} sha256(convert_to(c.text, 'UTF8')))) ORDER BY c.id"
        );
        self.communities = collection.returning(&sql, &[prefix.into()], |row| row.need(1))?;
        Ok(())
    }

    /// Replaces the vectors of all texts, and the embedder of the collection.
    fn swap(&mut self, collection: &Collection) -> Result<()> {
        let asked = self.next.outside().filter(|_| self.asks).map(|part| &part.model);
        let prefix = match asked {
            Some(model) => Some(ledger::prefix(model.role, &model.identity(collection.owner)?)),
            None => None,
        };
        let mut composer = Composer::new(collection, &self.next)?;
        let mut taught = None;
        if let Some(learning) = self.learning.take() {
            let (space, new) = learning.finish()?;
            composer.space = Some(space);
            taught = Some(new);
        }
        let rows = "SELECT (SELECT count(*) FROM {s}.node) + (SELECT count(*) FROM {s}.community)";
        let rows: i64 = collection.query_one(rows, &[], |row| row.need(1))?;
        let mut replaced = Replaced::new(collection, rows > lsa::FEW);
        let mut texts_seen = 0;
        // Leaves of a document stand together, so that it is counted once.
        for (select, table, order) in [(NODES, "node", "document_id, id"), (COMMUNITIES, "community", "id")] {
            let sql = format!("SELECT id FROM {{s}}.{table} ORDER BY {order}");
            let ids: Vec<i64> = collection.returning(&sql, &[], |row| row.need(1))?;
            for part in ids.chunks(BATCH) {
                let texts = texts(collection, select, part)?;
                let list: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
                let outside = self.outside(collection, &texts, prefix.as_deref())?;
                let of_space = match (&mut composer.space, &mut taught) {
                    (Some(space), Some(taught)) => {
                        let rows = space.lexemes.rows(collection, &list)?;
                        for (text, row) in texts.iter().zip(&rows).filter(|(text, _)| text.is_leaf) {
                            taught.count(text.documents[0], text.id, row);
                        }
                        rows.iter().map(|row| space.sum(row)).collect()
                    }
                    (Some(space), None) => space.embed(collection, &list)?,
                    (None, _) => Vec::new(),
                };
                let has: Vec<bool> = outside.iter().map(Option::is_some).collect();
                let outside = outside.into_iter().map(Option::flatten).collect();
                let vectors = composer.join(collection, &list, outside, of_space);
                for ((text, vector), has) in texts.iter().zip(vectors).zip(has) {
                    replaced.add(table, text.id, vector.filter(|_| has))?;
                }
                texts_seen += texts.len();
                tick();
            }
        }
        replaced.write()?;
        match (taught, &composer.space) {
            (Some(taught), Some(space)) => taught.write(collection, space)?,
            _ if self.next.lsa().map(|part| part.dimensions)
                != collection.options.embedder.lsa().map(|part| part.dimensions) =>
            {
                lsa::unlearn(collection)?;
            }
            _ => {}
        }
        if let Some(prefix) = prefix {
            settle(collection, &prefix)?;
        }
        self.take_over(collection)?;
        if !self.asks {
            self.seen = texts_seen;
        }
        self.swapped = true;
        Ok(())
    }

    /// What the model outside says of texts: nothing where it has not answered.
    fn outside(
        &self,
        collection: &Collection,
        texts: &[Text],
        prefix: Option<&[u8]>,
    ) -> Result<Vec<Option<Option<Vec<f32>>>>> {
        if self.next.is_built_in() {
            return Ok(vec![Some(None); texts.len()]);
        }
        if let Some(prefix) = prefix {
            let hashes: Vec<Vec<u8>> = texts.iter().map(|text| text.hash.clone()).collect();
            let sql = "SELECT m.status = 'done', m.embedding FROM unnest($2::bytea[]) WITH ORDINALITY AS u (hash, n) \
                       LEFT JOIN {s}.model_call m ON m.key = sha256($1 || u.hash) \
                         AND (m.embedding IS NULL OR {v}.vector_dims(m.embedding) = $3) ORDER BY u.n";
            let size = self.next.outside().map_or(0, |part| part.dimensions as i32);
            return collection.returning(sql, &[prefix.to_vec().into(), hashes.into(), size.into()], |row| {
                let vector: Option<Vector> = row.get(2)?;
                Ok(row.get(1)?.filter(|done: &bool| *done).map(|_| vector.map(|v| v.0)))
            });
        }
        let before = collection.options.embedder.outside();
        Ok(texts
            .iter()
            .map(|text| Some(before?.of(text.vector.as_deref()?)))
            .collect())
    }

    fn take_over(&self, collection: &Collection) -> Result<()> {
        if self.asks || self.next.is_built_in() {
            collection.execute("DELETE FROM {s}.change WHERE \"table\" = 'node'", &[])?;
            let sql = "DELETE FROM {s}.setting WHERE key = 'embedder_identity'";
            collection.execute(sql, &[])?;
        }
        collection.execute("DELETE FROM {s}.setting WHERE key = 'next_embedder'", &[])?;
        collection.set("embedder", &self.next.text)?;
        if let Some(part) = self.next.outside().filter(|_| self.asks) {
            Identity::note(collection, &part.model.identity(collection.owner)?)?;
            ingest::queue_leaves(collection)?;
        }
        collection.note_step("embed", Some(&self.next.text), serde_json::json!({}))
    }
}

/// Learns in this transaction, if the collection has to. The index of `node` is left to be made.
pub fn learn_if_due(collection: &Collection) -> Result<()> {
    if lsa::is_due(collection)?.is_none() {
        return Ok(());
    }
    let had_index = search::has_index(collection, "community")?;
    let mut work = Reembed::new(collection, None)?;
    let mut ledger = Ledger::resume(collection, REEMBED, Asking::Now);
    while !work.swapped {
        work.step(collection, &mut ledger, true)?;
        tick();
    }
    match had_index {
        true => search::ensure_index(collection, "community"),
        false => Ok(()),
    }
}

/// Learns in the statement that writes documents; where others are at work, that is left to the next refresh.
pub fn learn_at_once(collection: &Collection) -> Result<()> {
    if lock::try_alone(collection)? {
        learn_if_due(collection)?;
    }
    Ok(())
}

/// New vectors, kept back until all are there, as far as memory goes.
struct Replaced<'a> {
    collection: &'a Collection,
    ready: Vec<(&'static str, i64, Option<Vec<f32>>)>,
    bytes: usize,
    drops: bool,
}

impl Replaced<'_> {
    /// `drops` says whether the indexes go before, to be built anew; that keeps readers out until the transaction ends.
    fn new(collection: &Collection, drops: bool) -> Replaced<'_> {
        Replaced {
            collection,
            ready: Vec::new(),
            bytes: 0,
            drops,
        }
    }

    fn add(&mut self, table: &'static str, id: i64, vector: Option<Vec<f32>>) -> Result<()> {
        self.bytes += 64 + vector.as_ref().map_or(0, |vector| 4 * vector.len());
        self.ready.push((table, id, vector));
        match self.bytes > settings::build_memory() / 4 {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<()> {
        for table in ["node", "community"].into_iter().filter(|_| self.drops) {
            search::drop_index(self.collection, table)?;
        }
        for run in self.ready.chunk_by(|a, b| a.0 == b.0) {
            let table = run[0].0;
            for part in run.chunks(BATCH) {
                let sql = format!(
                    "UPDATE {{s}}.{table} t SET embedding = u.embedding \
                     FROM unnest($1::bigint[], $2::{{v}}.vector[]) AS u (id, embedding) WHERE t.id = u.id"
                );
                let ids: Vec<i64> = part.iter().map(|row| row.1).collect();
                let vectors = Vectors(part.iter().map(|row| row.2.as_deref()).collect());
                self.collection.execute(&sql, &[ids.into(), vectors.into()])?;
                tick();
            }
        }
        self.ready.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Brings the ledger up to the vectors that have been put in their places.
fn settle(collection: &Collection, prefix: &[u8]) -> Result<()> {
    let prefix = || prefix.to_vec().into();
    let sql = "UPDATE {s}.model_call m SET embedding = NULL, response = '\"moved\"' FROM {s}.node n \
               WHERE m.key = sha256($1 || n.text_hash) AND n.embedding IS NOT NULL AND n.level = 0";
    collection.execute(sql, &[prefix()])?;
    // What has failed is tried again by the step that it belongs to: a summary or a report as one that is not the model's.
    for (step, table, hash, which) in [
        ("embed", "node", "t.text_hash", "t.level = 0"),
        ("tree", "node", "t.text_hash", "t.level > 0"),
        ("reports", "community", "sha256(convert_to(t.text, 'UTF8'))", "true"),
    ] {
        let failed = format!(
            "WITH failed AS (UPDATE {{s}}.model_call m SET step = $2 FROM {{s}}.{table} t \
               WHERE m.key = sha256($1 || {hash}) AND m.status = 'failed' AND {which} RETURNING t.id) \
             UPDATE {{s}}.{table} t SET stale = $2 <> 'embed' FROM failed WHERE t.id = failed.id"
        );
        collection.execute(&failed, &[prefix(), step.into()])?;
    }
    Ok(())
}

/// A text that has a vector.
#[derive(Clone)]
struct Text {
    id: i64,
    text: String,
    hash: Vec<u8>,
    documents: Vec<i64>,
    is_leaf: bool,
    /// As it stands.
    vector: Option<Vec<f32>>,
}

const NODES: &str = "SELECT n.id, n.text, n.text_hash, CASE WHEN n.level = 0 THEN ARRAY[n.document_id] \
                       ELSE ARRAY(SELECT s.document_id FROM {s}.node_source s WHERE s.node_id = n.id ORDER BY 1) END, \
                       n.level = 0, n.embedding \
                     FROM {s}.node n WHERE n.id = ANY ($1) ORDER BY n.document_id, n.id";
const COMMUNITIES: &str = "SELECT c.id, c.text, sha256(convert_to(c.text, 'UTF8')), \
                             ARRAY(SELECT s.document_id FROM {s}.community_source s WHERE s.community_id = c.id ORDER BY 1), \
                             false, c.embedding \
                           FROM {s}.community c WHERE c.id = ANY ($1) AND c.text IS NOT NULL ORDER BY c.id";

fn texts(collection: &Collection, select: &str, ids: &[i64]) -> Result<Vec<Text>> {
    collection.returning(select, &[ids.to_vec().into()], |row| {
        Ok(Text {
            id: row.need(1)?,
            text: row.need(2)?,
            hash: row.need(3)?,
            documents: row.need(4)?,
            is_leaf: row.need(5)?,
            vector: row.get::<Vector>(6)?.map(|vector| vector.0),
        })
    })
}
