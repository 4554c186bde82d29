//! Which reports an answer is made from: those of a level, the nearest, or those that the answerer finds relevant on its way down.

use std::collections::{HashMap, HashSet};

use graphrag_text::answer::relevance;

use super::source::{Origin, Report, Source};
use super::{Wanted, prompts, texts};
use crate::collection::{Collection, literal};
use crate::error::{Error, Result};
use crate::graph::{Reports, digests, stands};
use crate::model::{Asking, Item, Ledger, Model};
use crate::pg::vector::Vector;
use crate::pg::{memory, tick};
use crate::search::{Scope, TYPES, query_vector, rank};

/// Levels below the coarsest that are rated although nothing above is relevant.
const UNDAUNTED: i32 = 2;

/// The reports that are read.
pub struct Selection {
    pub sources: Vec<Source>,
    /// Reports that the answerer has rated, if it was asked to.
    pub rated: Option<usize>,
    pub calls: i64,
}

/// Whether reports may have to be written before they are read.
pub fn may_write(collection: &Collection) -> Result<bool> {
    let options = &collection.options;
    if !options.lazy_reports || options.summarizer.is_built_in() {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT FROM {s}.community WHERE lazy)";
    collection.query_one(sql, &[], |row| row.need(1))
}

/// The reports for a question, in an order that has nothing to do with their content and is always the same.
pub fn select(collection: &Collection, answerer: &Model, wanted: &Wanted, scope: &Scope) -> Result<Selection> {
    if !collection.query_one("SELECT EXISTS (SELECT FROM {s}.community)", &[], |row| row.need(1))? {
        let literal = literal(&collection.name);
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "there are no communities that an answer could be made from",
        )
        .hint(format!(
            "SELECT graph_extract({literal}); SELECT graph_communities({literal}); SELECT graph_summarize({literal}), or CALL rag_refresh({literal})."
        )));
    }
    let mut selection = Selection {
        sources: Vec::new(),
        rated: None,
        calls: 0,
    };
    match wanted.k {
        Some(k) => selection.sources = nearest(collection, wanted.question, k, Some(wanted.level.unwrap_or(0)), scope)?,
        None if wanted.dynamic => descend(collection, answerer, wanted, scope, &mut selection)?,
        None => selection.sources = at_level(collection, wanted.level.unwrap_or(0), scope)?,
    }
    write(collection, &mut selection)?;
    Ok(selection)
}

/// The reports of the communities that stand at a level.
pub fn at_level(collection: &Collection, level: i32, scope: &Scope) -> Result<Vec<Source>> {
    let found = fetch(collection, &stands(level), &[], scope)?;
    Ok(found.into_iter().map(|(_, source)| source).collect())
}

/// The `k` reports nearest to a question, of communities that stand at a level, or of any.
pub fn nearest(
    collection: &Collection,
    question: &str,
    k: i64,
    level: Option<i32>,
    scope: &Scope,
) -> Result<Vec<Source>> {
    let Some(vector) = query_vector(collection, Some(question), None)? else {
        return Ok(Vec::new());
    };
    let condition = level.map_or("true".to_owned(), stands);
    let ids: Vec<i64> = rank(collection, "community", &vector, k, scope, &condition)?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let found = fetch(collection, "n.id = ANY ($4)", &ids, scope)?;
    Ok(found.into_iter().map(|(_, source)| source).collect())
}

/// The reports on the coarsest communities.
pub fn coarsest(collection: &Collection, scope: &Scope) -> Result<Vec<Source>> {
    let found = fetch(collection, "n.parent_id IS NULL", &[], scope)?;
    Ok(found.into_iter().map(|(_, source)| source).collect())
}

/// The reports of the communities `n` that a condition holds for, with `$4` the ids, each with the parent that it was reached from.
///
/// In place of one that draws on something out of scope, or that has no report, those below it are taken; at the end a digest of
/// what documents in scope say.
fn fetch(collection: &Collection, condition: &str, ids: &[i64], scope: &Scope) -> Result<Vec<(Option<i64>, Source)>> {
    let passes = format!("({} AND n.text <> '') IS TRUE", scope.on_row("community"));
    let sql = format!(
        "WITH RECURSIVE pick AS ( \
           SELECT n.id, n.parent_id AS origin, {passes} AS passes FROM {{s}}.community n \
             WHERE n.size > 1 AND {condition} AND {TYPES} AND $4::bigint[] IS NOT NULL \
           UNION ALL SELECT n.id, p.origin, {passes} FROM pick p JOIN {{s}}.community n ON n.parent_id = p.id \
             WHERE NOT p.passes AND n.size > 1) \
         SELECT n.id, n.level, n.title, n.text, n.rating, n.lazy, p.passes, p.origin, \
                ARRAY(SELECT s.document_id FROM {{s}}.community_source s WHERE s.community_id = n.id ORDER BY 1) \
         FROM pick p JOIN {{s}}.community n ON n.id = p.id \
         WHERE p.passes OR NOT EXISTS (SELECT FROM {{s}}.community c WHERE c.parent_id = n.id AND c.size > 1) \
         ORDER BY sha256(n.member_hash || convert_to(n.partition, 'UTF8')), n.id"
    );
    let args = [
        None::<Vector>.into(),
        scope.filter(),
        scope.documents(),
        ids.to_vec().into(),
    ];
    let mut bytes = 0;
    let mut found = collection.returning(&sql, &args, |row| {
        let passes: bool = row.need(7)?;
        let text: String = row.get(4)?.filter(|_| passes).unwrap_or_default();
        bytes += text.len();
        memory::check_or(
            bytes,
            "reading the reports",
            "ask for fewer reports by k, filter or a coarser level",
        )?;
        let report = Report {
            id: row.need(1)?,
            level: row.need(2)?,
            title: row.get(3)?.unwrap_or_default(),
            rating: row.get(5)?.unwrap_or_default(),
            lazy: row.need::<bool>(6)? && passes,
            body_hashes: (!passes).then(Vec::new),
        };
        let source = Source {
            origin: Origin::Report(report),
            text,
            documents: row.need(9)?,
        };
        tick();
        Ok((row.get(8)?, source))
    })?;
    digest(collection, &mut found, scope)?;
    Ok(found)
}

/// Gives those without a report a digest of what documents in scope say, or leaves them out if that is nothing.
fn digest(collection: &Collection, found: &mut Vec<(Option<i64>, Source)>, scope: &Scope) -> Result<()> {
    let is_digest = |source: &Source| source.report().is_some_and(|report| report.body_hashes.is_some());
    let ids: Vec<i64> = found
        .iter()
        .filter(|(_, source)| is_digest(source))
        .filter_map(|(_, source)| source.report().map(|report| report.id))
        .collect();
    if ids.is_empty() {
        return Ok(());
    }
    let mut behind: HashMap<i64, (Vec<i64>, Vec<Vec<u8>>)> = HashMap::new();
    let sql = format!(
        "SELECT s.community_id, d.id, d.body_hash FROM {{s}}.community_source s JOIN {{s}}.document d ON d.id = s.document_id \
         WHERE s.community_id = ANY ($4) AND {} AND {TYPES} ORDER BY 1, 2",
        scope.on_document()
    );
    let args = [
        None::<Vector>.into(),
        scope.filter(),
        scope.documents(),
        ids.clone().into(),
    ];
    collection.stream(&sql, &args, |row| {
        let (documents, hashes) = behind.entry(row.need(1)?).or_default();
        documents.push(row.need(2)?);
        hashes.push(row.need(3)?);
        Ok(())
    })?;
    let ids: Vec<i64> = ids.into_iter().filter(|id| behind.contains_key(id)).collect();
    let mut written = digests(collection, &ids, scope)?;
    found.retain_mut(|(_, source)| {
        let Origin::Report(report) = &mut source.origin else {
            return true;
        };
        if report.body_hashes.is_none() {
            return true;
        }
        let (Some(digest), Some((documents, hashes))) = (written.remove(&report.id), behind.remove(&report.id)) else {
            return false;
        };
        (report.title, report.rating, source.text) = digest;
        report.body_hashes = Some(hashes);
        source.documents = documents;
        true
    });
    Ok(())
}

/// Rates reports from the coarsest level down, and takes those that are relevant and have none below that is.
fn descend(
    collection: &Collection,
    answerer: &Model,
    wanted: &Wanted,
    scope: &Scope,
    selection: &mut Selection,
) -> Result<()> {
    let options = &collection.options;
    let mut ledger = Ledger::resume(collection, "rate", Asking::Now);
    let mut seen = HashSet::new();
    let mut wave = fetch(collection, "n.parent_id IS NULL", &[], scope)?;
    while !wave.is_empty() {
        wave.retain(|(_, source)| source.report().is_some_and(|report| seen.insert(report.id)));
        let items: Vec<Item> = wave
            .iter()
            .map(|(_, source)| {
                let request = prompts::rate(answerer, options, wanted.question, &source.text);
                Item::new(request, source.documents.clone())
            })
            .collect();
        let answers = ledger.want(answerer, &items)?;
        let ratings = texts(&ledger, answerer, answers)?;
        let (mut relevant, mut below) = (HashSet::new(), Vec::new());
        let (mut kept, mut all) = (Vec::new(), Vec::new());
        for ((origin, source), rating) in wave.into_iter().zip(ratings) {
            let Some(report) = source.report() else { continue };
            let (id, level) = (report.id, report.level);
            let divides = wanted.level.is_none_or(|deepest| level < deepest);
            all.extend((divides && level < UNDAUNTED).then_some(id));
            // One that could not be rated may be relevant.
            if rating.is_none_or(|reply| relevance(&reply).is_ok_and(|found| found.rating >= 1.0)) {
                relevant.extend(origin);
                below.extend(divides.then_some(id));
                kept.push(source);
            }
        }
        selection
            .sources
            .retain(|source| source.report().is_none_or(|report| !relevant.contains(&report.id)));
        let nothing = selection.sources.is_empty() && kept.is_empty();
        selection.sources.extend(kept);
        let next = if nothing { all } else { below };
        wave = fetch(collection, "n.parent_id = ANY ($4)", &next, scope)?;
    }
    selection.rated = Some(seen.len());
    selection.calls = ledger.calls;
    Ok(())
}

/// Has the summarizer write the reports among them that nobody has read before.
pub fn write(collection: &Collection, selection: &mut Selection) -> Result<()> {
    let mut lazy: HashMap<i64, usize> = HashMap::new();
    for (at, source) in selection.sources.iter().enumerate() {
        lazy.extend(
            source
                .report()
                .filter(|report| report.lazy)
                .map(|report| (report.id, at)),
        );
    }
    let options = &collection.options;
    if lazy.is_empty() || !options.lazy_reports || options.summarizer.is_built_in() {
        return Ok(());
    }
    let ids: Vec<i64> = lazy.keys().copied().collect();
    selection.calls += Reports::of(collection, &ids)?.write_now(collection)?;
    let sql = "SELECT id, title, text, rating FROM {s}.community WHERE id = ANY ($1) AND text <> ''";
    for (id, title, text, rating) in collection.returning(sql, &[ids.into()], |row| {
        Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
    })? {
        let source = &mut selection.sources[lazy[&id]];
        source.text = text;
        if let Origin::Report(report) = &mut source.origin {
            (report.title, report.rating) = (title, rating);
        }
    }
    Ok(())
}
