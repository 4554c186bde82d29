//! Extraction without a model: what a batch of blocks says, with the titles of documents as names.

use std::collections::{HashMap, HashSet};

use graphrag_text::phrases::{self, Form, Title};

use super::extract::unwrite;
use super::found::Found;
use super::merge::{Touched, recount};
use super::rounds::Passage;
use crate::collection::Collection;
use crate::error::Result;
use crate::model;
use crate::pg::tick;

/// Bytes of text whose possible names are looked up in one statement: their words are held in memory meanwhile.
const LOOKUP_BYTES: usize = 1 << 20;

/// Adds what the built-in extractor finds in `passages`. The titles of one partition are names in that alone.
pub fn read(collection: &Collection, passages: &[Passage], found: &mut Found) -> Result<()> {
    let mut sorted: Vec<&Passage> = passages.iter().collect();
    sorted.sort_by(|a, b| a.partition.cmp(&b.partition));
    for of_partition in sorted.chunk_by(|a, b| a.partition == b.partition) {
        let mut from = 0;
        let mut bytes = 0;
        for at in 0..of_partition.len() {
            bytes += of_partition[at].block.text.len();
            if bytes >= LOOKUP_BYTES || at + 1 == of_partition.len() {
                read_part(collection, &of_partition[from..=at], found)?;
                (from, bytes) = (at + 1, 0);
            }
        }
    }
    Ok(())
}

fn read_part(collection: &Collection, passages: &[&Passage], found: &mut Found) -> Result<()> {
    let stop = collection.options.stop_words();
    let mut wanted = HashSet::new();
    let mut readings = Vec::with_capacity(passages.len());
    for Passage { block, title, .. } in passages {
        let reading = model::read_built_in(&block.text, stop);
        reading.candidates(&mut tick, &mut |key| {
            wanted.insert(phrases::hash(&key));
        });
        let title = title.as_deref().and_then(|title| phrases::title(title, stop));
        for form in title
            .iter()
            .flat_map(|title| [&title.full].into_iter().chain(&title.short))
        {
            wanted.insert(phrases::hash(&form.key));
        }
        readings.push((block, title, reading));
    }
    let partition = passages.first().map_or("", |passage| passage.partition.as_str());
    let known = Known::look_up(collection, partition, wanted)?;
    for (block, title, reading) in readings {
        let own = title.as_ref().map(|title| known.form(title));
        let own = own.filter(|own| known.names.contains(&own.key));
        found.add_built_in(block, reading.extract(&known.names, own, &mut tick), own);
        tick();
    }
    Ok(())
}

/// The titles of documents that some blocks may use as names.
struct Known {
    full: HashSet<String>,
    /// The folded whole titles by what stands before their qualifier.
    short: HashMap<String, HashSet<String>>,
    /// The folded names under which the documents are known: one of each.
    names: HashSet<String>,
}

impl Known {
    /// The titles one of whose forms has a hash in `wanted`, and those that make a form ambiguous.
    fn look_up(collection: &Collection, partition: &str, wanted: HashSet<i64>) -> Result<Known> {
        let stop = collection.options.stop_words();
        // One word is the name of a thing if the document uses it ("Tennessee"), and else a heading ("Hiring").
        let sql = "SELECT d.title FROM {s}.document d WHERE d.title_hash = ANY ($1) AND d.partition = $2 \
                     AND (btrim(d.title) LIKE '% %' OR strpos(left(d.body, 20000), btrim(d.title)) > 0) \
                   UNION SELECT d.title FROM {s}.document d WHERE d.short_title_hash = ANY ($1) AND d.partition = $2";
        let titles = |hashes: &HashSet<i64>| -> Result<Vec<Title>> {
            let mut hashes: Vec<i64> = hashes.iter().copied().collect();
            hashes.sort_unstable();
            let found: Vec<String> = collection.query(sql, &[hashes.into(), partition.into()], |row| row.need(1))?;
            tick();
            Ok(found.iter().filter_map(|title| phrases::title(title, stop)).collect())
        };
        let used = titles(&wanted)?;
        let shorts = used.iter().filter_map(|title| title.short.as_ref());
        let unseen: HashSet<i64> = shorts
            .map(|form| phrases::hash(&form.key))
            .filter(|hash| !wanted.contains(hash))
            .collect();
        let rivals = if unseen.is_empty() {
            Vec::new()
        } else {
            titles(&unseen)?
        };
        let mut known = Known {
            full: HashSet::new(),
            short: HashMap::new(),
            names: HashSet::new(),
        };
        for title in used.iter().chain(&rivals) {
            known.full.insert(title.full.key.clone());
            if let Some(short) = &title.short {
                let rivals = known.short.entry(short.key.clone()).or_default();
                rivals.insert(title.full.key.clone());
            }
        }
        known.names = used.iter().map(|title| known.form(title).key.clone()).collect();
        Ok(known)
    }

    /// The form under which a document is known: without the qualifier, unless another title is the same without its own.
    fn form<'a>(&self, title: &'a Title) -> &'a Form {
        let alone = |short: &&Form| {
            let rivals = self.short.get(&short.key).map_or(0, HashSet::len);
            rivals <= 1 && !self.full.contains(&short.key)
        };
        title.short.as_ref().filter(alone).unwrap_or(&title.full)
    }
}

/// Those of `documents` in whose text the extractor has found something.
pub fn extracted(collection: &Collection, documents: &[i64]) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM unnest($1) AS u (id) WHERE EXISTS (SELECT FROM {s}.mention m WHERE m.document_id = u.id AND NOT m.given)";
    collection.query(sql, &[documents.to_vec().into()], |row| row.need(1))
}

/// After the titles of documents have changed: what was found under the old ones goes, and the next extraction reads the
/// blocks anew. They are recorded although they may be already: an extraction that has read the old title and is not
/// committed takes only what it knows of from the list.
pub fn retitle(collection: &Collection, documents: &[i64]) -> Result<()> {
    let sql = "INSERT INTO {s}.change (\"table\", key, kind) \
               SELECT 'block', id::text, 'update' FROM {s}.block WHERE document_id = ANY ($1) ORDER BY id RETURNING key::bigint";
    let blocks: Vec<i64> = collection.returning(sql, &[documents.to_vec().into()], |row| row.need(1))?;
    let mut touched = Touched::default();
    unwrite(collection, &blocks, &mut touched)?;
    recount(collection, &touched)
}
