//! graph_summarize: a report for each community, written from what its members' relations say.

use std::collections::{BTreeMap, HashMap};

use graphrag_text::{answer, place};
use pgrx::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::communities::refresh_sources;
use super::context::{Around, context};
use super::statements::{Statement, statements};
use crate::collection::Collection;
use crate::error::{Result, in_range, sql};
use crate::model::embed::{self, Text};
use crate::model::{self, Answer, Asking, Item, Ledger, prompts};
use crate::pg::spi::Arg;
use crate::pg::tick;
use crate::pg::vector::Vectors;
use crate::search::Scope;
use crate::{ingest, search};

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
    let mut reports = Reports::pending(&collection, level, false)?;
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
    /// Digests are written, which a model replaces when somebody reads them.
    lazily: bool,
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
    /// Those that need one: `lazily`, a digest, else a model's.
    pub fn pending(collection: &Collection, level: Option<i32>, lazily: bool) -> Result<Reports> {
        let condition = "(stale OR lazy AND NOT $2) AND ($1 IS NULL OR level = $1)";
        Self::those(collection, condition, &[level.into(), lazily.into()], lazily)
    }

    /// Those of some communities that a model has not written yet.
    pub fn of(collection: &Collection, communities: &[i64]) -> Result<Reports> {
        Self::those(
            collection,
            "id = ANY ($1) AND lazy",
            &[communities.to_vec().into()],
            false,
        )
    }

    fn those(collection: &Collection, condition: &str, args: &[Arg], lazily: bool) -> Result<Reports> {
        let sql = format!(
            "SELECT id, level, size FROM {{s}}.community WHERE size > 1 AND {condition} \
             ORDER BY level DESC, partition COLLATE \"C\", member_hash"
        );
        let stale = collection.returning(&sql, args, |row| {
            Ok(Stale {
                id: row.need(1)?,
                level: row.need(2)?,
                size: row.need::<i32>(3)? as usize,
            })
        })?;
        Ok(Reports {
            stale,
            lazily,
            at: 0,
            counts: BTreeMap::new(),
        })
    }

    /// Writes them in this transaction, for somebody who waits. Answers the number of calls.
    pub fn write_now(mut self, collection: &Collection) -> Result<i64> {
        let mut ledger = Ledger::resume(collection, "reports", Asking::Now);
        ledger.retry_failed()?;
        while !self.is_done() {
            self.step(collection, &mut ledger, true)?;
            tick();
        }
        Ok(ledger.calls)
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
        let reports = compose(collection, ledger, part, self.lazily)?;
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
        write(collection, written, self.lazily)?;
        Ok(waiting)
    }

    /// Brings index and settings up to what was written.
    pub fn finish(&self, collection: &Collection) -> Result<()> {
        search::ensure_index(collection, "community")?;
        collection.note_step("reports", Some(&collection.options.summarizer.text), json!({}))
    }
}

/// The reports of some communities, with the documents behind them; those that the model has not answered yet are left out.
fn compose(
    collection: &Collection,
    ledger: &mut Ledger,
    part: &[Stale],
    lazily: bool,
) -> Result<Vec<(i64, Vec<i64>, Report)>> {
    let options = &collection.options;
    let model = &options.summarizer;
    let is_asked = !lazily && !model.is_built_in();
    let ids: Vec<i64> = part.iter().map(|community| community.id).collect();
    let mut said = statements(collection, &ids, None)?;
    let around = match is_asked {
        true => Around::read(collection, &ids)?,
        false => Around::default(),
    };
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
        if is_asked {
            let lines = context(community.id, &statements, &around, options.report_tokens as usize);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            items.push(Item::new(prompts::report(model, options, &lines), documents.clone()));
        }
        let digest = digest(collection, community.size, &statements);
        digests.push((community.id, documents, digest, statements));
        tick();
    }
    if !is_asked {
        return Ok(digests
            .into_iter()
            .map(|(id, documents, digest, _)| (id, documents, digest))
            .collect());
    }
    let answers = ledger.want(model, &items)?;
    let mut reports = Vec::with_capacity(part.len());
    for ((id, documents, digest, statements), answer) in digests.into_iter().zip(answers) {
        match answer {
            Some(Answer::Text(reply)) => reports.push((id, documents, read(&reply, digest, &statements))),
            Some(_) => reports.push((id, documents, Report { stale: true, ..digest })),
            None => {}
        }
    }
    Ok(reports)
}

/// A model's report; what its reply does not hold is as in the digest. A reply that is plain text is the summary.
fn read(reply: &str, digest: Report, statements: &[Statement]) -> Report {
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
        let said = format!(
            "{} {}",
            finding.summary,
            finding.explanation.as_deref().unwrap_or_default()
        );
        findings.push(json!({
            "summary": finding.summary, "explanation": finding.explanation, "relations": named(&said, statements),
        }));
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

/// The relations both of whose ends a text names.
fn named(text: &str, statements: &[Statement]) -> Vec<i64> {
    let mut known: HashMap<&str, bool> = HashMap::new();
    let mut names = |name| *known.entry(name).or_insert_with(|| place::name(text, name).is_some());
    statements
        .iter()
        .filter(|statement| statement.names.iter().all(|name| names(name)))
        .map(|statement| statement.relation)
        .collect()
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

fn write(collection: &Collection, reports: Vec<(i64, Report, Option<Vec<f32>>)>, lazily: bool) -> Result<()> {
    let of = |value: fn(&Report) -> String| {
        reports
            .iter()
            .map(|(_, report, _)| value(report))
            .collect::<Vec<String>>()
    };
    let sql = "UPDATE {s}.community c SET title = u.title, summary = u.summary, findings = u.findings::jsonb, text = u.text, \
                      rating = u.rating, embedding = u.embedding, stale = u.stale, lazy = $9 \
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
        lazily.into(),
    ];
    collection.execute(sql, &args)?;
    Ok(())
}

/// Title, rating and text of what documents in scope say in some communities; nothing of those in which they say nothing.
pub fn digests(
    collection: &Collection,
    communities: &[i64],
    scope: &Scope,
) -> Result<HashMap<i64, (String, f64, String)>> {
    let mut digests = HashMap::new();
    for part in communities.chunks(BATCH) {
        for (id, said) in statements(collection, part, Some(scope))? {
            // How many members others name must not show.
            let digest = digest(collection, 0, &said);
            digests.insert(id, (digest.title, digest.rating, digest.text));
            tick();
        }
    }
    Ok(digests)
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
