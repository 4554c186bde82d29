//! Goes over to another embedder: all texts are embedded anew while search answers from the old vectors, which are replaced at
//! once at the end.

use crate::collection::Collection;
use crate::error::Result;
use crate::ingest;
use crate::model::{Form, Identity, Item, Ledger, Model, embed_built_in, ledger};
use crate::pg::vector::Vectors;
use crate::search;

/// Texts that are embedded at once.
const BATCH: usize = 1_000;

pub struct Reembed {
    model: Model,
    /// Nodes, then communities.
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
    pub fn new(collection: &Collection, model: Model) -> Result<Reembed> {
        Ok(Reembed {
            model,
            nodes: collection.query("SELECT id FROM {s}.node ORDER BY id", &[], |row| row.need(1))?,
            communities: collection.query(
                "SELECT id FROM {s}.community WHERE text IS NOT NULL ORDER BY id",
                &[],
                |row| row.need(1),
            )?,
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

    /// Plans the vectors of the next texts, and after the last of them puts all in their places. Answers how many are missing.
    pub fn step(&mut self, collection: &Collection, ledger: &mut Ledger, skip: bool) -> Result<i64> {
        if self.swapped {
            // Not with the swap, which keeps readers out: this keeps out writers only.
            for table in ["node", "community"] {
                search::ensure_index(collection, table)?;
            }
            self.finished = true;
            return Ok(0);
        }
        let skip = skip || self.model.form == Form::Queue;
        let next = self.listed().min(self.at + BATCH);
        if !self.model.is_built_in() {
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
            ledger.want(&self.model, &items)?;
            let waiting = ledger.waiting - before;
            if waiting > 0 && !skip {
                return Ok(waiting);
            }
            self.waiting += waiting;
        }
        self.at = next;
        if self.at < self.listed() {
            return Ok(self.waiting);
        }
        if self.waiting == 0 {
            self.take_late(collection)?;
            if self.listed() > 0 {
                return Ok(0);
            }
            self.swap(collection)?;
            self.swapped = true;
            return Ok(0);
        }
        self.finished = true;
        Ok(self.waiting)
    }

    /// Goes on with the texts that have come or changed since the last look.
    fn take_late(&mut self, collection: &Collection) -> Result<()> {
        self.seen += self.listed();
        (self.nodes, self.communities, self.at) = (Vec::new(), Vec::new(), 0);
        if self.model.is_built_in() {
            return Ok(());
        }
        let prefix = ledger::prefix(self.model.role, &self.model.identity(collection.owner)?);
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
    fn swap(&self, collection: &Collection) -> Result<()> {
        let identity = self.model.identity(collection.owner)?;
        for table in ["node", "community"] {
            search::drop_index(collection, table)?;
        }
        if self.model.is_built_in() {
            self.compute(collection)?;
        } else {
            let prefix = ledger::prefix(self.model.role, &identity);
            let sql = "UPDATE {s}.node n SET embedding = (SELECT m.embedding FROM {s}.model_call m WHERE m.key = sha256($1 || n.text_hash))";
            collection.execute(sql, &[prefix.clone().into()])?;
            let sql = "UPDATE {s}.community c SET embedding = (SELECT m.embedding FROM {s}.model_call m \
                         WHERE m.key = sha256($1 || sha256(convert_to(c.text, 'UTF8')))) WHERE c.text IS NOT NULL";
            collection.execute(sql, &[prefix.clone().into()])?;
            let sql = "UPDATE {s}.model_call m SET embedding = NULL, response = '\"moved\"' FROM {s}.node n \
                       WHERE m.key = sha256($1 || n.text_hash) AND n.embedding IS NOT NULL AND n.level = 0";
            collection.execute(sql, &[prefix.clone().into()])?;
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
                collection.execute(&failed, &[prefix.clone().into(), step.into()])?;
            }
        }
        collection.execute("DELETE FROM {s}.change WHERE \"table\" = 'node'", &[])?;
        let sql = "DELETE FROM {s}.setting WHERE key IN ('next_embedder', 'embedder_identity')";
        collection.execute(sql, &[])?;
        collection.set("embedder", &self.model.text)?;
        if !self.model.is_built_in() {
            Identity::note(collection, &identity)?;
            ingest::queue_leaves(collection)?;
        }
        Ok(())
    }

    /// By a built-in model, which asks nobody.
    fn compute(&self, collection: &Collection) -> Result<()> {
        for (select, table) in [(NODES, "node"), (COMMUNITIES, "community")] {
            let sql = format!("SELECT id FROM {{s}}.{table} ORDER BY id");
            let ids: Vec<i64> = collection.returning(&sql, &[], |row| row.need(1))?;
            for part in ids.chunks(BATCH) {
                let texts = texts(collection, select, part)?;
                let vectors: Vec<_> = texts
                    .iter()
                    .map(|text| embed_built_in(collection, &text.text))
                    .collect();
                let sql = format!(
                    "UPDATE {{s}}.{table} t SET embedding = u.embedding \
                     FROM unnest($1::bigint[], $2::{{v}}.vector[]) AS u (id, embedding) WHERE t.id = u.id"
                );
                let ids: Vec<i64> = texts.iter().map(|text| text.id).collect();
                let vectors = Vectors(vectors.iter().map(Option::as_deref).collect());
                collection.execute(&sql, &[ids.into(), vectors.into()])?;
            }
        }
        Ok(())
    }
}

/// A text that has a vector.
#[derive(Clone)]
struct Text {
    id: i64,
    text: String,
    hash: Vec<u8>,
    documents: Vec<i64>,
}

const NODES: &str = "SELECT n.id, n.text, n.text_hash, CASE WHEN n.level = 0 THEN ARRAY[n.document_id] \
                       ELSE ARRAY(SELECT s.document_id FROM {s}.node_source s WHERE s.node_id = n.id ORDER BY 1) END \
                     FROM {s}.node n WHERE n.id = ANY ($1) ORDER BY n.id";
const COMMUNITIES: &str = "SELECT c.id, c.text, sha256(convert_to(c.text, 'UTF8')), \
                             ARRAY(SELECT s.document_id FROM {s}.community_source s WHERE s.community_id = c.id ORDER BY 1) \
                           FROM {s}.community c WHERE c.id = ANY ($1) AND c.text IS NOT NULL ORDER BY c.id";

fn texts(collection: &Collection, select: &str, ids: &[i64]) -> Result<Vec<Text>> {
    collection.returning(select, &[ids.to_vec().into()], |row| {
        Ok(Text {
            id: row.need(1)?,
            text: row.need(2)?,
            hash: row.need(3)?,
            documents: row.need(4)?,
        })
    })
}
