//! graph_summarize: a report for each community, written from what its members' relations say.

use std::collections::{BTreeMap, HashMap};

use graphrag_text::{answer, tokens};
use pgrx::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::communities::refresh_sources;
use super::prune::kept;
use crate::collection::Collection;
use crate::error::{Result, in_range, sql};
use crate::model::embed::{self, Text};
use crate::model::{self, Answer, Asking, Item, Ledger, prompts};
use crate::pg::tick;
use crate::pg::vector::Vectors;
use crate::{ingest, search};

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
    let collection = Collection::build_with_models(name, false)?;
    let mut reports = Reports::pending(&collection, level)?;
    let mut ledger = Ledger::begin(&collection, "reports", Asking::Now)?;
    while !reports.is_done() {
        reports.step(&collection, &mut ledger, true)?;
        tick();
    }
    if ledger.waiting > 0 {
        ingest::tell_waiting(&collection, ledger.waiting, "those reports are written");
    }
    if level.is_none() {
        ledger.finish()?;
    }
    reports.finish(&collection)?;
    Ok(reports
        .counts
        .iter()
        .map(|(level, count)| (*level, count.written, count.failed, count.calls))
        .collect())
}

/// What was done on a level.
#[derive(Default)]
struct Count {
    written: i64,
    failed: i64,
    calls: i64,
}

/// A community that needs a report.
struct Stale {
    id: i64,
    level: i32,
    size: usize,
}

/// The communities that need a report, taken a batch at a time, the deepest level first.
pub struct Reports {
    stale: Vec<Stale>,
    at: usize,
    counts: BTreeMap<i32, Count>,
}

/// A report as it is written.
struct Report {
    title: String,
    summary: String,
    findings: Value,
    rating: f64,
    text: String,
    /// The model has failed; this one is made without it.
    stale: bool,
}

impl Reports {
    pub fn pending(collection: &Collection, level: Option<i32>) -> Result<Reports> {
        let sql = "SELECT id, level, size FROM {s}.community WHERE stale AND size > 1 AND ($1 IS NULL OR level = $1) \
                   ORDER BY level DESC, partition COLLATE \"C\", member_hash";
        let stale = collection.returning(sql, &[level.into()], |row| {
            Ok(Stale {
                id: row.need(1)?,
                level: row.need(2)?,
                size: row.need::<i32>(3)? as usize,
            })
        })?;
        Ok(Reports {
            stale,
            at: 0,
            counts: BTreeMap::new(),
        })
    }

    pub fn total(&self) -> usize {
        self.stale.len()
    }

    pub fn done(&self) -> usize {
        self.at
    }

    pub fn failed(&self) -> i64 {
        self.counts.values().map(|count| count.failed).sum()
    }

    pub fn is_done(&self) -> bool {
        self.at >= self.stale.len()
    }

    /// Writes the next reports, or plans the answers that are missing and stays there unless `skip`. Answers how many are
    /// missing.
    pub fn step(&mut self, collection: &Collection, ledger: &mut Ledger, skip: bool) -> Result<i64> {
        let to = self.stale[self.at..]
            .chunk_by(|a, b| a.level == b.level)
            .next()
            .map_or(0, <[Stale]>::len);
        let part = &self.stale[self.at..self.at + to.min(BATCH)];
        let Some(first) = part.first() else { return Ok(0) };
        let level = first.level;
        let ids: Vec<i64> = part.iter().map(|community| community.id).collect();
        let (waiting, calls) = (ledger.waiting, ledger.calls);
        refresh_sources(collection, &ids)?;
        let reports = compose(collection, ledger, part)?;
        let texts: Vec<Text> = reports
            .iter()
            .map(|(_, documents, report)| Text {
                text: &report.text,
                hash: Sha256::digest(&report.text).to_vec(),
                documents: documents.clone(),
            })
            .collect();
        let vectors = embed::vectors(ledger, collection, &texts)?;
        let mut written = Vec::new();
        for ((id, _, report), vector) in reports.into_iter().zip(vectors) {
            match vector {
                Some(Answer::Vector(vector)) => written.push((id, report, vector)),
                Some(_) => written.push((id, Report { stale: true, ..report }, None)),
                None => {}
            }
        }
        let waiting = ledger.waiting - waiting;
        let count = self.counts.entry(level).or_default();
        count.calls += ledger.calls - calls;
        if waiting == 0 || skip {
            let failed = written.iter().filter(|(_, report, _)| report.stale).count() as i64;
            count.failed += failed;
            count.written += written.len() as i64 - failed;
            self.at += part.len();
        }
        write(collection, written)?;
        Ok(waiting)
    }

    /// Brings index and settings up to what was written.
    pub fn finish(&self, collection: &Collection) -> Result<()> {
        search::ensure_index(collection, "community")?;
        collection.note_step("reports", Some(&collection.options.summarizer.text), json!({}))
    }
}

/// The reports of some communities, with the documents behind them; those that the model has not answered yet are left out.
fn compose(collection: &Collection, ledger: &mut Ledger, part: &[Stale]) -> Result<Vec<(i64, Vec<i64>, Report)>> {
    let options = &collection.options;
    let model = &options.summarizer;
    let ids: Vec<i64> = part.iter().map(|community| community.id).collect();
    let mut said = statements(collection, &ids)?;
    let mut documents: HashMap<i64, Vec<i64>> = HashMap::new();
    if options.models().any(|model| !model.is_built_in()) {
        let sql =
            "SELECT community_id, document_id FROM {s}.community_source WHERE community_id = ANY ($1) ORDER BY 1, 2";
        for (id, document) in collection.returning(sql, &[ids.into()], |row| Ok((row.need(1)?, row.need(2)?)))? {
            documents.entry(id).or_default().push(document);
        }
    }
    let mut digests = Vec::with_capacity(part.len());
    let mut items = Vec::new();
    for community in part {
        let statements = said.remove(&community.id).unwrap_or_default();
        let documents = documents.remove(&community.id).unwrap_or_default();
        if !model.is_built_in() {
            let lines = context(&statements, options.report_tokens as usize);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            items.push(Item::new(prompts::report(model, options, &lines), documents.clone()));
        }
        digests.push((community.id, documents, digest(collection, community.size, &statements)));
        tick();
    }
    if model.is_built_in() {
        return Ok(digests);
    }
    let answers = ledger.want(model, &items)?;
    let mut reports = Vec::with_capacity(part.len());
    for ((id, documents, digest), answer) in digests.into_iter().zip(answers) {
        match answer {
            Some(Answer::Text(reply)) => reports.push((id, documents, read(&reply, digest))),
            Some(_) => reports.push((id, documents, Report { stale: true, ..digest })),
            None => {}
        }
    }
    Ok(reports)
}

/// What a model reads of a community: its statements with their quotes, the weightiest first, within the budget.
fn context(statements: &[Statement], max_tokens: usize) -> Vec<String> {
    let mut tokens = 0;
    let mut lines = Vec::new();
    for statement in statements {
        let line = match &statement.quote {
            Some(quote) => format!("{} \"{quote}\"", statement.line()),
            None => statement.line(),
        };
        tokens += tokens::count(&line);
        if tokens > max_tokens && !lines.is_empty() {
            break;
        }
        lines.push(line);
    }
    lines
}

/// A model's report; what its reply does not hold is as in the digest. A reply that is plain text is the summary.
fn read(reply: &str, digest: Report) -> Report {
    let of_json = answer::json(reply).is_ok_and(|(value, _)| value.is_object());
    let found = match of_json.then(|| answer::report(reply)) {
        Some(Ok(found)) => found,
        _ => {
            let summary = reply.to_owned();
            let text = format!("{}\n\n{summary}", digest.title);
            return Report {
                summary,
                text,
                ..digest
            };
        }
    };
    let title = if found.title.is_empty() {
        digest.title
    } else {
        found.title
    };
    let mut text = format!("{title}\n\n{}", found.summary);
    let mut findings = Vec::new();
    for finding in found.findings {
        text += &format!("\n\n{}", finding.summary);
        if let Some(explanation) = &finding.explanation {
            text += &format!(" {explanation}");
        }
        findings.push(json!({"summary": finding.summary, "explanation": finding.explanation}));
    }
    Report {
        title,
        summary: found.summary,
        findings: json!(findings),
        rating: found.rating.unwrap_or(digest.rating),
        text,
        stale: false,
    }
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

/// A report without a model: the members with the most relations as title, the most telling sentences as summary, the
/// weightiest relations as findings.
fn digest(collection: &Collection, size: usize, statements: &[Statement]) -> Report {
    let title = title(statements, size);
    let mut texts: Vec<String> = Vec::new();
    for statement in statements {
        let text = statement.quote.clone().unwrap_or_else(|| statement.line());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let options = &collection.options;
    let summary = model::summarize_built_in(&texts, options.summary_tokens as usize, options.stop_words());
    let findings: Vec<_> = statements
        .iter()
        .take(FINDINGS)
        .map(|s| json!({"summary": s.line(), "explanation": s.quote, "relations": [s.relation]}))
        .collect();
    // 0 to 10, growing with the logarithm of the evidence: 10 from about a thousand blocks.
    let evidence: f64 = statements.iter().map(|s| s.weight).sum();
    Report {
        text: format!("{title}\n\n{summary}"),
        title,
        summary,
        findings: json!(findings),
        rating: ((1.0 + evidence).log2() * 10.0).round().min(100.0) / 10.0,
        stale: false,
    }
}

fn write(collection: &Collection, reports: Vec<(i64, Report, Option<Vec<f32>>)>) -> Result<()> {
    let of = |value: fn(&Report) -> String| {
        reports
            .iter()
            .map(|(_, report, _)| value(report))
            .collect::<Vec<String>>()
    };
    let sql = "UPDATE {s}.community c SET title = u.title, summary = u.summary, findings = u.findings::jsonb, text = u.text, \
                      rating = u.rating, embedding = u.embedding, stale = u.stale \
               FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::{v}.vector[], $8::boolean[]) \
                    AS u (id, title, summary, findings, text, rating, embedding, stale) \
               WHERE c.id = u.id";
    let args = [
        reports.iter().map(|(id, ..)| *id).collect::<Vec<i64>>().into(),
        of(|report| report.title.clone()).into(),
        of(|report| report.summary.clone()).into(),
        of(|report| report.findings.to_string()).into(),
        of(|report| report.text.clone()).into(),
        reports
            .iter()
            .map(|(_, report, _)| report.rating)
            .collect::<Vec<f64>>()
            .into(),
        Vectors(reports.iter().map(|(.., vector)| vector.as_deref()).collect()).into(),
        reports
            .iter()
            .map(|(_, report, _)| report.stale)
            .collect::<Vec<bool>>()
            .into(),
    ];
    collection.execute(sql, &args)?;
    Ok(())
}

/// For each community the relations with both ends inside, the heaviest first. Of what documents assert, only the words
/// of documents in the community's own partition are read.
fn statements(collection: &Collection, communities: &[i64]) -> Result<HashMap<i64, Vec<Statement>>> {
    let first = "ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char, e.id";
    // A partition is judged by no other's counts.
    let kept = match collection.options.partition_by.is_empty() {
        true => kept(collection, "i")?,
        false => "true".to_owned(),
    };
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
           WHERE (q.blocks > 0 OR (i.given_weight IS NOT NULL AND i.partition = $3)) AND {kept}) \
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
