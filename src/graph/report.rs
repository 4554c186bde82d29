//! graph_summarize: a report for each community, written from what its members' relations say.

use std::collections::{BTreeMap, HashMap};

use pgrx::prelude::*;
use serde_json::json;

use super::communities::refresh_sources;
use crate::collection::Collection;
use crate::error::{Result, in_range, sql};
use crate::pg::{json::Json, tick, vector::Vector};
use crate::search;

/// Relations of a community that a report reads: the heaviest ones.
const MAX_RELATIONS: i64 = 1000;
/// Communities whose relations are read at once.
const BATCH: usize = 200;
/// Findings of a report.
const FINDINGS: usize = 5;

/// SQL: `graph_summarize(collection, level)`.
#[pg_extern(sql = false)]
fn graph_summarize(
    collection: Option<&str>,
    level: Option<i32>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(level, i32),
            name!(reports, i64),
            name!(failed, i64),
            name!(calls, i64),
        ),
    >,
> {
    Ok(TableIterator::new(summarize(collection, level)?))
}

fn summarize(name: Option<&str>, level: Option<i32>) -> Result<Vec<(i32, i64, i64, i64)>> {
    let level = level
        .map(|level| in_range(Some(level), "level", 0..=1000))
        .transpose()?;
    let collection = Collection::build(name)?;
    let sql = "SELECT id, level, size FROM {s}.community WHERE stale AND size > 1 AND ($1 IS NULL OR level = $1) \
               ORDER BY level DESC, partition COLLATE \"C\", member_hash";
    let stale: Vec<(i64, i32, i32)> = collection.query(sql, &[level.into()], |row| {
        Ok((row.need(1)?, row.need(2)?, row.need(3)?))
    })?;
    let mut counts: BTreeMap<i32, i64> = Default::default();
    for part in stale.chunks(BATCH) {
        let ids: Vec<i64> = part.iter().map(|(id, ..)| *id).collect();
        refresh_sources(&collection, &ids)?;
        let mut said = statements(&collection, &ids)?;
        for (id, level, size) in part {
            write(&collection, *id, *size as usize, &said.remove(id).unwrap_or_default())?;
            *counts.entry(*level).or_default() += 1;
            tick();
        }
    }
    search::ensure_index(&collection, "community")?;
    collection.note_step("reports", Some(collection.summarizer().name()))?;
    Ok(counts
        .into_iter()
        .map(|(level, reports)| (level, reports, 0, 0))
        .collect())
}

/// One relation inside a community, as its partition's documents assert it.
struct Statement {
    relation: i64,
    ends: [i64; 2],
    names: [String; 2],
    predicate: String,
    description: Option<String>,
    quote: Option<String>,
    /// Blocks that assert it, or the weight that it was given by hand.
    weight: f64,
}

impl Statement {
    fn line(&self) -> String {
        let predicate = self.predicate.replace('_', " ");
        let line = format!("{} {predicate} {}", self.names[0], self.names[1]);
        match &self.description {
            Some(description) => format!("{line}: {description}"),
            None => line + ".",
        }
    }
}

fn write(collection: &Collection, community: i64, size: usize, statements: &[Statement]) -> Result<()> {
    let title = title(statements, size);
    let mut texts: Vec<String> = Vec::new();
    for statement in statements {
        let text = statement.quote.clone().unwrap_or_else(|| statement.line());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let summary = collection.summarizer().summarize(
        &texts,
        collection.options.summary_tokens as usize,
        collection.options.stop_words(),
    );
    let findings: Vec<_> = statements
        .iter()
        .take(FINDINGS)
        .map(|s| json!({"summary": s.line(), "explanation": s.quote, "relations": [s.relation]}))
        .collect();
    // 0 to 10, growing with the logarithm of the evidence: 10 from about a thousand blocks.
    let evidence: f64 = statements.iter().map(|s| s.weight).sum();
    let rating = ((1.0 + evidence).log2() * 10.0).round().min(100.0) / 10.0;
    let text = format!("{title}\n\n{summary}");
    let sql = "UPDATE {s}.community SET title = $2, summary = $3, findings = $4, text = $5, rating = $6, embedding = $7, \
                      stale = false WHERE id = $1";
    let args = [
        community.into(),
        title.into(),
        summary.into(),
        Json::from(json!(findings)).into(),
        text.clone().into(),
        rating.into(),
        collection.embedder().embed(&text).map(Vector).into(),
    ];
    collection.execute(sql, &args)?;
    Ok(())
}

/// For each community the relations with both ends inside, the heaviest first. Of what documents assert, only the words
/// of documents in the community's own partition are read.
fn statements(collection: &Collection, communities: &[i64]) -> Result<HashMap<i64, Vec<Statement>>> {
    let first = "ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char, e.id";
    let sql = format!(
        "WITH leaving AS MATERIALIZED ( \
           SELECT c.id AS community, c.partition, r.* FROM {{s}}.community c \
           JOIN {{s}}.community_entity a ON a.community_id = c.id JOIN {{s}}.relation r ON r.source_id = a.entity_id \
           WHERE c.id = ANY ($1)), \
         inside AS MATERIALIZED ( \
           SELECT l.* FROM leaving l \
           JOIN {{s}}.community_entity b ON b.community_id = l.community AND b.entity_id = l.target_id), \
         said AS ( \
           SELECT i.community, i.id, count(DISTINCT (e.block_id, e.document_id))::float8 AS blocks, \
             (array_agg(e.subject_name {first}))[1] AS subject, (array_agg(e.predicate {first}))[1] AS predicate, \
             (array_agg(e.object_name {first}))[1] AS object, \
             (array_agg(e.quote {first}) FILTER (WHERE e.quote IS NOT NULL))[1] AS quote, \
             string_agg(DISTINCT e.description COLLATE \"C\", ' ' ORDER BY e.description COLLATE \"C\") AS description \
           FROM inside i JOIN {{s}}.evidence e ON e.relation_id = i.id \
           JOIN {{s}}.document d ON d.id = e.document_id AND d.partition = i.partition GROUP BY 1, 2), \
         ranked AS ( \
           SELECT i.community, i.id, i.source_id, i.target_id, coalesce(q.subject, s.name) AS subject, \
             coalesce(q.predicate, i.predicate) AS predicate, coalesce(q.object, t.name) AS object, \
             CASE WHEN q.blocks > 0 THEN q.description ELSE i.description END AS description, q.quote, \
             coalesce(q.blocks, i.given_weight) AS weight, \
             row_number() OVER (PARTITION BY i.community ORDER BY coalesce(q.blocks, i.given_weight) DESC, \
               s.key COLLATE \"C\", i.predicate_key COLLATE \"C\", t.key COLLATE \"C\") AS n \
           FROM inside i JOIN {{s}}.entity s ON s.id = i.source_id JOIN {{s}}.entity t ON t.id = i.target_id \
           LEFT JOIN said q ON q.community = i.community AND q.id = i.id \
           WHERE q.blocks > 0 OR (i.given_weight IS NOT NULL AND i.partition = $3)) \
         SELECT community, id, source_id, target_id, subject, predicate, object, description, quote, weight \
         FROM ranked WHERE n <= $2 ORDER BY community, n"
    );
    let unkeyed = collection.options.unkeyed_partition();
    let mut said: HashMap<i64, Vec<Statement>> = HashMap::new();
    let args = [communities.to_vec().into(), MAX_RELATIONS.into(), unkeyed.into()];
    collection.stream(&sql, &args, |row| {
        said.entry(row.need(1)?).or_default().push(Statement {
            relation: row.need(2)?,
            ends: [row.need(3)?, row.need(4)?],
            names: [row.need(5)?, row.need(7)?],
            predicate: row.need(6)?,
            description: row.get(8)?,
            quote: row.get(9)?,
            weight: row.need(10)?,
        });
        Ok(())
    })?;
    Ok(said)
}

/// The names of the members with the most relations, of a community of `size`.
fn title(statements: &[Statement], size: usize) -> String {
    let mut members: BTreeMap<i64, (usize, &str)> = BTreeMap::new();
    for statement in statements {
        for (end, name) in statement.ends.iter().zip(&statement.names) {
            members.entry(*end).or_insert((0, name)).0 += 1;
        }
    }
    let mut names: Vec<(usize, &str)> = members.into_values().collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let names: Vec<&str> = names.into_iter().map(|(_, name)| name).collect();
    match names[..] {
        [] => String::new(),
        [one] => one.to_owned(),
        [a, b] => format!("{a} and {b}"),
        [a, b, c] => format!("{a}, {b} and {c}"),
        [a, b, c, ..] => format!("{a}, {b}, {c} and {} more", size.max(names.len()) - 3),
    }
}
