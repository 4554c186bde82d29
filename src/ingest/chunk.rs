//! Cuts documents into blocks and leaves and writes both, leaves with their vectors if the embedder is built in.

use std::collections::HashMap;

use graphrag_text::chunk::{self, Format};
use sha2::{Digest, Sha256};

use crate::collection::Collection;
use crate::error::Result;
use crate::lexical::{Lexemes, Postings};
use crate::model::{Composer, lsa};
use crate::pg::tick;
use crate::pg::vector::{Vector, Vectors};

/// Leaves that are collected before they are written, and the bytes of their vectors.
const BATCH: usize = 2_000;
const BATCH_BYTES: usize = 64 << 20;
/// Bytes of what the dictionaries have answered that are kept from one batch to the next.
const WORD_BYTES: usize = 32 << 20;

#[derive(Default)]
struct Blocks {
    document: Vec<i64>,
    ordinal: Vec<i32>,
    section: Vec<String>,
    start: Vec<i32>,
    end: Vec<i32>,
    text: Vec<String>,
    hash: Vec<Vec<u8>>,
    tokens: Vec<i32>,
}

#[derive(Default)]
struct Leaves {
    document: Vec<i64>,
    block: Vec<i32>,
    ordinal: Vec<i32>,
    start: Vec<i32>,
    end: Vec<i32>,
    text: Vec<String>,
    hash: Vec<Vec<u8>>,
    tokens: Vec<i32>,
    vector: Vec<Option<Vec<f32>>>,
}

/// Vectors by the sha256 of their texts.
pub type Known = HashMap<Vec<u8>, Vec<f32>>;

/// The vectors of the leaves of documents that are about to be cut anew, where they would have to be paid for again.
pub fn known_vectors(collection: &Collection, ids: &[i64]) -> Result<Known> {
    if collection.options.embedder.is_built_in() {
        return Ok(Known::new());
    }
    let sql = "SELECT text_hash, embedding FROM {s}.node WHERE document_id = ANY ($1) AND level = 0 AND embedding IS NOT NULL";
    let found = collection.query(sql, &[ids.to_vec().into()], |row| {
        Ok((row.need(1)?, row.need::<Vector>(2)?.0))
    })?;
    Ok(found.into_iter().collect())
}

/// Cuts the documents `ids`, which must have no blocks, in canonical order. A leaf whose text is in `known` has its vector.
///
/// Leaves without a vector are recorded for the next build function or refresh, unless the embedder is built in.
pub fn chunk_documents(collection: &Collection, ids: &[i64], known: &Known) -> Result<()> {
    lsa::must_be_current(collection)?;
    let embedder = &collection.options.embedder;
    let mut composer = match embedder.is_built_in() {
        true => Some(Composer::new(collection, embedder)?),
        false => None,
    };
    let mut terms = Lexemes::default();
    let mut blocks = Blocks::default();
    let mut leaves = Leaves::default();
    let batch = BATCH.min(BATCH_BYTES / (4 * collection.options.dimensions));
    // One document at a time: a body can have hundreds of megabytes.
    let sql = "SELECT id FROM {s}.document WHERE id = ANY ($1) ORDER BY body_hash, source_key COLLATE \"C\", id";
    let ordered: Vec<i64> = collection.query(sql, &[ids.to_vec().into()], |row| row.need(1))?;
    for id in ordered {
        let sql = "SELECT format, body FROM {s}.document WHERE id = $1";
        let found: Vec<(String, String)> =
            collection.query(sql, &[id.into()], |row| Ok((row.need(1)?, row.need(2)?)))?;
        let Some((format, body)) = found.into_iter().next() else {
            continue;
        };
        let format = if format == "text" {
            Format::Text
        } else {
            Format::Markdown
        };
        let mut ordinal = 0;
        for (number, block) in chunk::chunk(&body, format, &collection.options.chunk, &mut tick)
            .iter()
            .enumerate()
        {
            let text = &body[block.bytes.clone()];
            blocks.document.push(id);
            blocks.ordinal.push(number as i32);
            blocks.section.push(serde_json::json!(block.section_path).to_string());
            blocks.start.push(block.start_char as i32);
            blocks.end.push(block.end_char as i32);
            blocks.hash.push(Sha256::digest(text).to_vec());
            blocks.text.push(text.to_owned());
            blocks.tokens.push(block.token_count as i32);
            for leaf in &block.leaves {
                let text = &body[leaf.bytes.clone()];
                leaves.document.push(id);
                leaves.block.push(number as i32);
                leaves.ordinal.push(ordinal);
                leaves.start.push(leaf.start_char as i32);
                leaves.end.push(leaf.end_char as i32);
                let hash = Sha256::digest(text).to_vec();
                leaves.vector.push(known.get(&hash).cloned());
                leaves.hash.push(hash);
                leaves.text.push(text.to_owned());
                leaves.tokens.push(leaf.token_count as i32);
                ordinal += 1;
                if leaves.text.len() >= batch {
                    embed(collection, composer.as_mut(), &mut leaves)?;
                    write(
                        collection,
                        &mut terms,
                        std::mem::take(&mut blocks),
                        std::mem::take(&mut leaves),
                    )?;
                }
            }
            tick();
        }
    }
    embed(collection, composer.as_mut(), &mut leaves)?;
    write(collection, &mut terms, blocks, leaves)
}

/// Gives leaves the vectors of a built-in embedder.
fn embed(collection: &Collection, composer: Option<&mut Composer>, leaves: &mut Leaves) -> Result<()> {
    if let Some(composer) = composer {
        let texts: Vec<&str> = leaves.text.iter().map(String::as_str).collect();
        leaves.vector = composer.vectors(collection, &texts, Vec::new())?;
    }
    Ok(())
}

fn write(collection: &Collection, terms: &mut Lexemes, blocks: Blocks, leaves: Leaves) -> Result<()> {
    // Each block is queued for the extractor under the id that it gets here.
    let sql = "WITH new_blocks AS ( \
                 INSERT INTO {s}.block (document_id, ordinal, section_path, start_char, end_char, text, text_hash, token_count) \
                 SELECT document_id, ordinal, ARRAY(SELECT jsonb_array_elements_text(section::jsonb)), start_char, end_char, \
                        text, text_hash, token_count \
                 FROM unnest($1::bigint[], $2::int[], $3::text[], $4::int[], $5::int[], $6::text[], $7::bytea[], $8::int[]) \
                   WITH ORDINALITY AS u (document_id, ordinal, section, start_char, end_char, text, text_hash, token_count, n) \
                 ORDER BY n RETURNING id) \
               INSERT INTO {s}.change (\"table\", key, kind) SELECT 'block', id::text, 'insert' FROM new_blocks ORDER BY id";
    collection.execute(
        sql,
        &[
            blocks.document.into(),
            blocks.ordinal.into(),
            blocks.section.into(),
            blocks.start.into(),
            blocks.end.into(),
            blocks.text.into(),
            blocks.hash.into(),
            blocks.tokens.into(),
        ],
    )?;
    let vectors = Vectors(leaves.vector.iter().map(Option::as_deref).collect());
    let insert = "INSERT INTO {s}.node (level, partition, document_id, block_id, ordinal, start_char, end_char, text, text_hash, \
                                     token_count, metadata, embedding) \
               SELECT 0, d.partition, d.id, b.id, u.ordinal, u.start_char, u.end_char, u.text, u.text_hash, u.token_count, \
                      d.metadata, u.embedding \
               FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::int[], $6::text[], $7::bytea[], $8::int[], \
                           $9::{v}.vector[]) \
                 WITH ORDINALITY AS u (document_id, block, ordinal, start_char, end_char, text, text_hash, token_count, \
                                       embedding, n) \
               JOIN {s}.document d ON d.id = u.document_id \
               JOIN {s}.block b ON b.document_id = u.document_id AND b.ordinal = u.block \
               ORDER BY u.n";
    let returning = "RETURNING id, document_id, ordinal, embedding";
    let sql = match collection.options.embedder.is_built_in() {
        true => format!("{insert} {returning}"),
        false => format!(
            "WITH new_leaves AS ({insert} {returning}), \
               waiting AS (INSERT INTO {{s}}.change (\"table\", key, kind) SELECT 'node', id::text, 'insert' FROM new_leaves \
                           WHERE embedding IS NULL ORDER BY id) \
             SELECT id, document_id, ordinal FROM new_leaves"
        ),
    };
    let texts: Vec<&str> = leaves.text.iter().map(String::as_str).collect();
    let postings = Postings::new(collection, terms, &texts)?;
    if terms.bytes() > WORD_BYTES {
        *terms = Lexemes::default();
    }
    terms.forget_words(WORD_BYTES);
    let place: HashMap<(i64, i32), usize> = leaves
        .document
        .iter()
        .zip(&leaves.ordinal)
        .enumerate()
        .map(|(place, (document, ordinal))| ((*document, *ordinal), place))
        .collect();
    let mut ids = vec![None; texts.len()];
    let new: Vec<(i64, i64, i32)> = collection.returning(
        &sql,
        &[
            leaves.document.into(),
            leaves.block.into(),
            leaves.ordinal.into(),
            leaves.start.into(),
            leaves.end.into(),
            leaves.text.into(),
            leaves.hash.into(),
            leaves.tokens.into(),
            vectors.into(),
        ],
        |row| Ok((row.need(1)?, row.need(2)?, row.need(3)?)),
    )?;
    for (id, document, ordinal) in new {
        ids[place[&(document, ordinal)]] = Some(id);
    }
    postings.write(collection, ids)
}
