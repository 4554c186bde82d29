//! A question about the whole corpus, by map and reduce over the reports on its communities: each batch of reports gives points, and
//! the points give the answer. Edge et al., 2024, "From Local to Global: A Graph RAG Approach to Query-Focused Summarization".

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use graphrag_text::answer::points;
use graphrag_text::tokens;
use serde_json::{Value, json};

use super::{answered, cited};
use crate::collection::Collection;
use crate::error::{Error, Result};
use crate::graph::stands;
use crate::model::{Answer, Asking, Item, Ledger, Model, ledger, prompts};
use crate::pg::tick;
use crate::pg::vector::Vector;
use crate::search::{Scope, TYPES, query_vector, rank};

/// What is answered when no report helps.
const NOTHING: &str = "The corpus does not answer this question.";

/// A report that is read. Its number is its place from 1.
struct Report {
    id: i64,
    level: i32,
    title: String,
    text: String,
    rating: f64,
    documents: Vec<i64>,
}

/// A point that a batch of reports makes.
struct Point {
    text: String,
    score: f64,
}

pub fn ask(
    collection: &Collection,
    answerer: &Model,
    question: &str,
    level: i32,
    k: Option<i32>,
    scope: &Scope,
) -> Result<Value> {
    let started = Instant::now();
    let options = &collection.options;
    let reports = select(collection, question, level, k, scope)?;
    let retrieved = started.elapsed();
    let budget = options.report_tokens as usize;
    let batches = batches(&reports, budget);

    let mut map = Ledger::resume(collection, "map", Asking::Now);
    let items: Vec<Item> = batches
        .iter()
        .map(|batch| {
            let texts: Vec<(usize, &str)> = batch.iter().map(|&at| (at + 1, reports[at].text.as_str())).collect();
            Item::new(
                prompts::map(answerer, options, question, &texts),
                documents(batch.iter().map(|&at| &reports[at])),
            )
        })
        .collect();
    let answers = map.want(answerer, &items)?;
    if !answers.is_empty() && answers.iter().all(|answer| !matches!(answer, Some(Answer::Text(_)))) {
        answered(&map, answerer, None)?;
    }
    let (mut found, mut read) = (Vec::new(), BTreeSet::new());
    for (batch, answer) in batches.iter().zip(&answers) {
        let Some(Answer::Text(reply)) = answer else { continue };
        read.extend(batch.iter().copied());
        let of_batch = points(reply).unwrap_or_default().points;
        found.extend(of_batch.into_iter().map(|point| Point {
            text: point.text,
            score: point.score,
        }));
    }
    found.retain(|point| point.score > 0.0);
    // Of equal ones the first: reports stand in an order that has nothing to do with them.
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mapped = started.elapsed();

    let (taken, left) = pack(&found, budget);
    let used: BTreeSet<usize> = taken
        .iter()
        .flat_map(|point| cited(&point.text, reports.len()))
        .map(|number| number - 1)
        .collect();
    let behind = documents(used.iter().map(|&at| &reports[at]));
    let mut reduce = Ledger::resume(collection, "ask", Asking::Now);
    let answer = match taken.is_empty() {
        true => NOTHING.to_owned(),
        false => {
            let lines: Vec<(f64, &str)> = taken.iter().map(|point| (point.score, point.text.as_str())).collect();
            let request = prompts::reduce(answerer, options, question, &lines);
            // What the points say was read in all of the reports.
            let item = Item::new(request, documents(read.iter().map(|&at| &reports[at])));
            let reply = reduce.want(answerer, &[item])?.pop().flatten();
            answered(&reduce, answerer, reply)?
        }
    };
    forget_what_changed(collection, &reports)?;
    let citations: Vec<Value> = cited(&answer, reports.len())
        .into_iter()
        .map(|number| {
            let report = &reports[number - 1];
            json!({"n": number, "community_id": report.id, "level": report.level, "title": report.title,
                "documents": report.documents.len(), "document_ids": &report.documents[..report.documents.len().min(1000)]})
        })
        .collect();
    let shown: Vec<Value> = taken
        .iter()
        .map(|point| json!({"score": point.score, "text": point.text}))
        .collect();
    Ok(json!({
        "answer": answer,
        "grounded": !citations.is_empty(),
        "citations": citations,
        "points": shown,
        "points_left_out": left,
        "coverage": coverage(collection, &reports, &read, scope, &behind)?,
        "calls": map.calls + reduce.calls,
        "timings_ms": {
            "retrieve": retrieved.as_millis() as u64,
            "map": (mapped - retrieved).as_millis() as u64,
            "answer": (started.elapsed() - mapped).as_millis() as u64,
        },
    }))
}

/// The reports of the communities that stand at a level, in an order by chance that is always the same. In place of one that draws on
/// something out of scope, or that has no report, those below it are taken.
fn select(collection: &Collection, question: &str, level: i32, k: Option<i32>, scope: &Scope) -> Result<Vec<Report>> {
    let is_there = "SELECT EXISTS (SELECT FROM {s}.community WHERE text <> '')";
    if !collection.query_one(is_there, &[], |row| row.need(1))? {
        let literal = crate::collection::literal(&collection.name);
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "there are no reports that a global answer could be made from",
        )
        .hint(format!(
            "SELECT graph_extract({literal}); SELECT graph_communities({literal}); SELECT graph_summarize({literal}), or CALL rag_refresh({literal})."
        )));
    }
    let nearest: Option<Vec<i64>> = match k {
        None => None,
        Some(k) => match query_vector(collection, Some(question), None)? {
            None => Some(Vec::new()),
            Some(vector) => {
                let ranked = rank(collection, "community", &vector, k.into(), scope, &stands(level))?;
                Some(ranked.into_iter().map(|(id, _)| id).collect())
            }
        },
    };
    let passes = format!("({} AND n.text <> '') IS TRUE", scope.on_row("community"));
    let sql = format!(
        "WITH RECURSIVE pick AS ( \
           SELECT n.id, {passes} AS passes FROM {{s}}.community n WHERE n.size > 1 AND {} AND {TYPES} \
             AND ($4::bigint[] IS NULL OR n.id = ANY ($4)) \
           UNION ALL SELECT n.id, {passes} FROM pick p JOIN {{s}}.community n ON n.parent_id = p.id \
             WHERE NOT p.passes AND n.size > 1 AND $4::bigint[] IS NULL) \
         SELECT n.id, n.level, n.title, n.text, n.rating, \
                ARRAY(SELECT s.document_id FROM {{s}}.community_source s WHERE s.community_id = n.id ORDER BY 1) \
         FROM pick p JOIN {{s}}.community n ON n.id = p.id WHERE p.passes \
         ORDER BY sha256(n.member_hash || convert_to(n.partition, 'UTF8')), n.id",
        stands(level)
    );
    let args = [None::<Vector>.into(), scope.filter(), scope.documents(), nearest.into()];
    collection.query(&sql, &args, |row| {
        Ok(Report {
            id: row.need(1)?,
            level: row.need(2)?,
            title: row.need(3)?,
            text: row.need(4)?,
            rating: row.need(5)?,
            documents: row.need(6)?,
        })
    })
}

/// The reports in batches of at most so many tokens, but at least one each; inside a batch the highest rated first.
fn batches(reports: &[Report], budget: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut spent = 0;
    for (at, report) in reports.iter().enumerate() {
        let tokens = tokens::count(&report.text);
        match batches.last_mut() {
            Some(batch) if spent + tokens <= budget => batch.push(at),
            _ => {
                batches.push(vec![at]);
                spent = 0;
            }
        }
        spent += tokens;
        tick();
    }
    for batch in &mut batches {
        batch.sort_by(|&a, &b| reports[b].rating.total_cmp(&reports[a].rating));
    }
    batches
}

/// The points that fit into a budget, the best first, and how many do not.
fn pack(points: &[Point], budget: usize) -> (Vec<&Point>, usize) {
    let mut spent = 0;
    let taken: Vec<&Point> = points
        .iter()
        .filter(|point| {
            let tokens = tokens::count(&point.text);
            let fits = spent + tokens <= budget;
            spent += if fits { tokens } else { 0 };
            fits
        })
        .collect();
    let left = points.len() - taken.len();
    (taken, left)
}

/// The documents behind reports, ascending.
fn documents<'a>(reports: impl Iterator<Item = &'a Report>) -> Vec<i64> {
    let all: BTreeSet<i64> = reports.flat_map(|report| report.documents.iter().copied()).collect();
    all.into_iter().collect()
}

/// How much of the corpus the answer has seen: of the communities that do not divide those that a report that was read is about, and of the
/// documents in scope those behind such reports, and behind the reports that the points refer to.
fn coverage(
    collection: &Collection,
    reports: &[Report],
    read: &BTreeSet<usize>,
    scope: &Scope,
    behind: &[i64],
) -> Result<Value> {
    let parents = "SELECT id, parent_id, NOT EXISTS (SELECT FROM {s}.community d WHERE d.parent_id = c.id) FROM {s}.community c WHERE size > 1";
    let mut parent_of: HashMap<i64, Option<i64>> = HashMap::new();
    let mut leaves = Vec::new();
    collection.stream(parents, &[], |row| {
        let id = row.need(1)?;
        parent_of.insert(id, row.get(2)?);
        if row.need(3)? {
            leaves.push(id);
        }
        Ok(())
    })?;
    let ids: BTreeSet<i64> = read.iter().map(|&at| reports[at].id).collect();
    let is_read = |leaf: &&i64| {
        let mut at = Some(**leaf);
        while let Some(id) = at {
            if ids.contains(&id) {
                return true;
            }
            at = parent_of.get(&id).copied().flatten();
        }
        false
    };
    let sql = format!(
        "SELECT count(*) FROM {{s}}.document d WHERE {} AND {TYPES}",
        scope.on_document()
    );
    let args = [None::<Vector>.into(), scope.filter(), scope.documents()];
    let in_scope: i64 = collection.query_one(&sql, &args, |row| row.need(1))?;
    Ok(json!({
        "communities": leaves.len(),
        "communities_read": leaves.iter().filter(is_read).count(),
        "documents": in_scope,
        "documents_read": documents(read.iter().map(|&at| &reports[at])).len(),
        "documents_in_points": behind.len(),
    }))
}

/// Forgets the answers at once if a report was emptied or written anew meanwhile: whoever did that could not see them.
fn forget_what_changed(collection: &Collection, reports: &[Report]) -> Result<()> {
    let (ids, texts): (Vec<i64>, Vec<String>) = reports.iter().map(|report| (report.id, report.text.clone())).unzip();
    // Locked, so that they stay as they are until this is committed and seen.
    let sql = "SELECT c.id FROM {s}.community c WHERE c.id = ANY ($1) ORDER BY c.id FOR SHARE";
    collection.returning(sql, &[ids.clone().into()], |_| Ok(()))?;
    let sql = "SELECT count(*) FROM {s}.community c JOIN unnest($1::bigint[], $2::text[]) AS u (id, text) ON u.id = c.id AND u.text = c.text";
    let standing: Vec<i64> = collection.returning(sql, &[ids.into(), texts.into()], |row| row.need(1))?;
    if standing != [reports.len() as i64] {
        ledger::forget_questions(collection, &documents(reports.iter()))?;
    }
    Ok(())
}
