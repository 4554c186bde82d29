//! Descriptions that have become long: what documents say of an entity or a relation is joined while it is short, and summarised
//! above the setting description_tokens.

use graphrag_text::tokens;
use sha2::{Digest, Sha256};

use super::merge::mark_stale;
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{self, Answer, Item, Ledger, prompts};
use crate::pg::tick;

/// Rows that are described at once.
const BATCH: usize = 200;

/// What stands between the descriptions of single documents. Those that have line breaks count as several.
const BETWEEN: char = '\n';

/// Shortens joined descriptions that are too long, by the built-in summarizer. With another one they are stale then, and
/// [`Descriptions`] has them written.
pub fn shorten(collection: &Collection, table: &str, ids: &[i64]) -> Result<()> {
    let options = &collection.options;
    let sql = format!(
        "SELECT id, description FROM {{s}}.{table} WHERE id = ANY ($1) AND fragments_hash IS NULL \
         AND octet_length(description) > $2 AND NOT {} ORDER BY id",
        by_hand(table)
    );
    let (mut long, mut texts, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    let limit = options.description_tokens;
    collection.stream(&sql, &[ids.to_vec().into(), limit.into()], |row| {
        let joined: String = row.need(2)?;
        let parts: Vec<&str> = joined.split(BETWEEN).collect();
        if parts.len() > 1 && tokens::count(&joined) as i64 > limit {
            long.push(row.need::<i64>(1)?);
            texts.push(model::summarize_built_in(
                &parts,
                options.summary_tokens as usize,
                options.stop_words(),
            ));
            hashes.push(Sha256::digest(&joined).to_vec());
        }
        tick();
        Ok(())
    })?;
    if long.is_empty() {
        return Ok(());
    }
    let sql = format!(
        "UPDATE {{s}}.{table} t SET description = u.text, fragments_hash = u.hash, stale = $4 \
         FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS u (id, text, hash) WHERE t.id = u.id"
    );
    let stale = !options.summarizer.is_built_in();
    collection.execute(&sql, &[long.into(), texts.into(), hashes.into(), stale.into()])?;
    Ok(())
}

/// What says that a row keeps the description that it was given.
fn by_hand(table: &str) -> &'static str {
    match table {
        "entity" => "(given AND NOT renamed)",
        _ => "(given_weight IS NOT NULL AND NOT bound)",
    }
}

/// The rows whose descriptions wait for the summarizer, a batch at a time.
pub struct Descriptions {
    rows: Vec<(&'static str, i64)>,
    at: usize,
    /// Rows whose call has failed; they keep what the built-in summarizer made.
    pub failed: i64,
}

/// A row with what documents say of it.
struct Long {
    id: i64,
    name: String,
    texts: Vec<String>,
    hash: Vec<u8>,
    documents: Vec<i64>,
}

/// How far a row is.
enum State {
    Open,
    Waiting,
    Failed,
    Written(String),
}

impl Descriptions {
    pub fn pending(collection: &Collection) -> Result<Descriptions> {
        if collection.options.summarizer.is_built_in() {
            return Ok(Descriptions {
                rows: Vec::new(),
                at: 0,
                failed: 0,
            });
        }
        // What has come to be by hand since it was shortened keeps what it says.
        for table in ["entity", "relation"] {
            let sql = format!(
                "UPDATE {{s}}.{table} SET stale = false, fragments_hash = NULL WHERE stale AND {}",
                by_hand(table)
            );
            collection.execute(&sql, &[])?;
        }
        let of = |table: &'static str, sql: &str| {
            collection.returning(sql, &[], move |row| Ok((table, row.need::<i64>(1)?)))
        };
        let mut rows = of(
            "entity",
            "SELECT id FROM {s}.entity WHERE stale ORDER BY key COLLATE \"C\"",
        )?;
        rows.extend(of(
            "relation",
            "SELECT r.id FROM {s}.relation r JOIN {s}.entity s ON s.id = r.source_id JOIN {s}.entity t ON t.id = r.target_id \
             WHERE r.stale ORDER BY s.key COLLATE \"C\", r.predicate_key COLLATE \"C\", t.key COLLATE \"C\"",
        )?);
        Ok(Descriptions { rows, at: 0, failed: 0 })
    }

    pub fn total(&self) -> usize {
        self.rows.len()
    }

    pub fn done(&self) -> usize {
        self.at
    }

    pub fn is_done(&self) -> bool {
        self.at >= self.rows.len()
    }

    /// Writes the next descriptions, or plans the answers that are missing and stays there unless `skip`. Answers how many are
    /// missing.
    pub fn step(&mut self, collection: &Collection, ledger: &mut Ledger, skip: bool) -> Result<i64> {
        let part = self.rows[self.at..]
            .chunk_by(|a, b| a.0 == b.0)
            .next()
            .unwrap_or_default();
        let part = &part[..part.len().min(BATCH)];
        let Some(&(table, _)) = part.first() else { return Ok(0) };
        let ids: Vec<i64> = part.iter().map(|row| row.1).collect();
        let before = ledger.waiting;
        let long = read(collection, table, &ids)?;
        let states = condense(collection, ledger, &long)?;
        let (mut written, mut texts, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        let mut failed = 0;
        for (row, state) in long.into_iter().zip(states) {
            match state {
                State::Written(text) => {
                    written.push(row.id);
                    texts.push(text);
                    hashes.push(row.hash);
                }
                State::Failed => failed += 1,
                State::Open | State::Waiting => {}
            }
        }
        let sql = format!(
            "UPDATE {{s}}.{table} t SET description = u.text, stale = false \
             FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS u (id, text, hash) \
             WHERE t.id = u.id AND t.stale AND t.fragments_hash = u.hash AND NOT {}",
            by_hand(table)
        );
        collection.execute(&sql, &[written.clone().into(), texts.into(), hashes.into()])?;
        if table == "entity" {
            mark_stale(collection, &written)?;
        }
        let waiting = ledger.waiting - before;
        if waiting == 0 || skip {
            self.at += part.len();
            self.failed += failed;
        }
        Ok(waiting)
    }
}

fn read(collection: &Collection, table: &str, ids: &[i64]) -> Result<Vec<Long>> {
    let (name, rest, of, column) = match table {
        "entity" => ("t.name", "", "mention", "entity_id"),
        _ => (
            "s.name || ' ' || t.predicate || ' ' || o.name",
            "JOIN {s}.entity s ON s.id = t.source_id JOIN {s}.entity o ON o.id = t.target_id",
            "evidence",
            "relation_id",
        ),
    };
    let sql = format!(
        "SELECT t.id, {name}, f.texts, f.documents FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) \
         JOIN {{s}}.{table} t ON t.id = u.id {rest} CROSS JOIN LATERAL ( \
           SELECT string_agg(DISTINCT m.description COLLATE \"C\", chr(10) ORDER BY m.description COLLATE \"C\") AS texts, \
                  array_agg(DISTINCT m.document_id) AS documents \
           FROM {{s}}.{of} m WHERE m.{column} = t.id AND m.description IS NOT NULL) f \
         WHERE t.stale AND f.texts IS NOT NULL ORDER BY u.n"
    );
    collection.returning(&sql, &[ids.to_vec().into()], |row| {
        let joined: String = row.need(3)?;
        Ok(Long {
            id: row.need(1)?,
            name: row.need(2)?,
            texts: joined.split(BETWEEN).map(str::to_owned).collect(),
            hash: Sha256::digest(&joined).to_vec(),
            documents: row.need(4)?,
        })
    })
}

/// Asks for one description of each row. What the summarizer cannot read at once is summarised in groups first, and then the
/// summaries, as LightRAG does.
fn condense(collection: &Collection, ledger: &mut Ledger, long: &[Long]) -> Result<Vec<State>> {
    let options = &collection.options;
    let mut texts: Vec<Vec<String>> = long.iter().map(|row| row.texts.clone()).collect();
    let mut states: Vec<State> = long.iter().map(|_| State::Open).collect();
    loop {
        let open: Vec<usize> = (0..long.len())
            .filter(|&at| matches!(states[at], State::Open))
            .collect();
        if open.is_empty() {
            return Ok(states);
        }
        let mut items = Vec::new();
        let mut counts = Vec::new();
        for &at in &open {
            let groups = groups(&texts[at], options.cluster_tokens as usize);
            counts.push(groups.len());
            items.extend(groups.into_iter().map(|group| {
                let request = prompts::describe(&options.summarizer, options, &long[at].name, &group);
                Item::new(request, long[at].documents.clone())
            }));
            tick();
        }
        let mut answers = ledger.want(&options.summarizer, &items)?.into_iter();
        for (at, count) in open.into_iter().zip(counts) {
            let heard: Vec<Option<Answer>> = answers.by_ref().take(count).collect();
            let mut replies = Vec::new();
            for answer in heard {
                match answer {
                    Some(Answer::Text(reply)) => replies.push(reply),
                    Some(_) => states[at] = State::Failed,
                    None if !matches!(states[at], State::Failed) => states[at] = State::Waiting,
                    None => {}
                }
            }
            if matches!(states[at], State::Open) {
                match replies.pop_if(|_| count == 1) {
                    Some(reply) => states[at] = State::Written(reply),
                    None => texts[at] = replies,
                }
            }
        }
    }
}

/// Texts in their order, in groups of at most so many tokens, but at least two each, so that there is an end to it.
fn groups(texts: &[String], most: usize) -> Vec<Vec<&str>> {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    let mut size = 0;
    for text in texts {
        let tokens = tokens::count(text);
        match groups.last_mut() {
            Some(group) if group.len() < 2 || size + tokens <= most => group.push(text),
            _ => {
                groups.push(vec![text]);
                size = 0;
            }
        }
        size += tokens;
    }
    groups
}
