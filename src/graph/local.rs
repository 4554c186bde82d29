//! graph_local: the neighbourhood of an entity, with the words that assert each edge.

use std::collections::HashSet;

use pgrx::prelude::*;

use super::alias::named;
use super::check_length;
use super::prune::kept;
use super::unknown::hint;
use crate::collection::{Collection, quoted};
use crate::error::{Result, in_range, notice, required, sql};
use crate::pg::{json::Json, spi, tick};
use crate::search::Scope;

type Edge = (
    i32,
    String,
    String,
    String,
    f64,
    Option<String>,
    Option<String>,
    Vec<i64>,
    Vec<i64>,
);

/// SQL: `graph_local(collection, entity, hops, filter, max_edges, documents)`.
#[pg_extern(sql = false)]
fn graph_local(
    collection: Option<&str>,
    entity: Option<&str>,
    hops: Option<i32>,
    filter: Option<Json>,
    max_edges: Option<i32>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(hop, i32),
            name!(source, String),
            name!(predicate, String),
            name!(target, String),
            name!(weight, f64),
            name!(description, Option<String>),
            name!(quote, Option<String>),
            name!(node_ids, Vec<i64>),
            name!(document_ids, Vec<i64>),
        ),
    >,
> {
    Ok(TableIterator::new(local(
        collection,
        entity,
        hops,
        Scope::new(filter, documents)?,
        max_edges,
    )?))
}

fn local(
    name: Option<&str>,
    entity: Option<&str>,
    hops: Option<i32>,
    scope: Scope,
    max_edges: Option<i32>,
) -> Result<Vec<Edge>> {
    let entity = required(entity, "entity")?;
    check_length(entity, "entity")?;
    let hops = in_range(hops, "hops", 1..=20)?;
    let max_edges = in_range(max_edges, "max_edges", 0..=1_000_000)?;
    let collection = Collection::read(name)?;
    let mut frontier: Vec<i64> = named(&collection, entity)?.into_iter().collect();
    let is_unknown = frontier.is_empty();
    let mut reached: HashSet<i64> = frontier.iter().copied().collect();
    let mut seen: HashSet<i64> = HashSet::new();
    let mut edges = Vec::new();
    let mut cut = false;
    for hop in 1..=hops {
        if frontier.is_empty() || cut {
            break;
        }
        let left = max_edges as usize - edges.len();
        let found = step(
            &collection,
            &frontier,
            &seen.iter().copied().collect::<Vec<_>>(),
            &scope,
            left as i64 + 1,
        )?;
        cut = found.len() > left;
        let mut next = Vec::new();
        for (relation, ends, row) in found.into_iter().take(left) {
            seen.insert(relation);
            next.extend(ends.into_iter().filter(|end| reached.insert(*end)));
            edges.push((hop, row.0, row.1, row.2, row.3, row.4, row.5, row.6, row.7));
        }
        frontier = next;
        tick();
    }
    if edges.is_empty() && max_edges > 0 {
        let message = format!("no relation of entity {} is known here", quoted(entity));
        // Under a filter it is not told whether the name is known elsewhere.
        let hint = match is_unknown || !scope.is_everything() || collection.has_row_security()? {
            true => hint(&collection, entity, Some(&scope))?,
            false => None,
        };
        match hint {
            Some(hint) => notice(message, hint),
            None => notice!("{message}"),
        }
    } else if cut {
        notice!("only the first {max_edges} edges are shown; raise max_edges for more");
    }
    Ok(edges)
}

type EdgeRow = (
    String,
    String,
    String,
    f64,
    Option<String>,
    Option<String>,
    Vec<i64>,
    Vec<i64>,
);

/// The edges at the entities `frontier` in either direction, heaviest first, without those of `seen`.
///
/// With a filter only evidence of documents that pass is read: weight, names, description and quote come from it alone.
pub fn step(
    collection: &Collection,
    frontier: &[i64],
    seen: &[i64],
    scope: &Scope,
    limit: i64,
) -> Result<Vec<(i64, [i64; 2], EdgeRow)>> {
    // The merged rows serve those who see everything.
    let everything = scope.is_everything() && !collection.has_row_security()?;
    let passes = if scope.is_everything() {
        "true"
    } else {
        scope.on_document()
    };
    let weight = if everything { "r.weight" } else { "a.blocks" };
    // What rests on no evidence is shown only without a filter.
    let asserted = if everything {
        String::new()
    } else {
        format!(
            "JOIN (SELECT e.relation_id, count(DISTINCT (e.block_id, e.document_id))::float8 AS blocks FROM {{s}}.evidence e JOIN {{s}}.document d ON d.id = e.document_id \
                   WHERE e.relation_id IN (SELECT id FROM touching) AND {passes} GROUP BY 1) a ON a.relation_id = r.id"
        )
    };
    // What others' documents bear out must not show through a filter.
    let kept = if everything {
        kept(collection, "r")?
    } else {
        "true".to_owned()
    };
    // The words are gathered for the chosen edges alone.
    let first = "ORDER BY p.body_hash, p.source_key COLLATE \"C\", p.start_char, p.id";
    let sql = format!(
        "WITH touching AS MATERIALIZED ( \
           SELECT id FROM {{s}}.relation WHERE source_id = ANY ($1) \
           UNION SELECT id FROM {{s}}.relation WHERE target_id = ANY ($1) \
           EXCEPT SELECT unnest($5::bigint[])), \
         chosen AS MATERIALIZED ( \
           SELECT r.id, r.source_id, r.target_id, r.predicate, r.description, {weight} AS weight, s.name AS source, t.name AS target, \
                  row_number() OVER (ORDER BY {weight} DESC, s.key COLLATE \"C\", r.predicate_key COLLATE \"C\", t.key COLLATE \"C\") AS n \
           FROM touching JOIN {{s}}.relation r ON r.id = touching.id {asserted} \
           JOIN {{s}}.entity s ON s.id = r.source_id JOIN {{s}}.entity t ON t.id = r.target_id \
           WHERE ($2::jsonb IS NULL OR $3::bigint[] IS NULL OR $4 IS NULL OR true) AND {kept} ORDER BY n LIMIT $6), \
         passing AS MATERIALIZED ( \
           SELECT e.*, d.body_hash, d.source_key FROM {{s}}.evidence e JOIN {{s}}.document d ON d.id = e.document_id \
           WHERE e.relation_id IN (SELECT id FROM chosen) AND {passes}), \
         said AS ( \
           SELECT p.relation_id, (array_agg(p.subject_name {first}))[1] AS subject, (array_agg(p.predicate {first}))[1] AS predicate, \
             (array_agg(p.object_name {first}))[1] AS object, \
             (array_agg(p.quote {first}) FILTER (WHERE p.quote IS NOT NULL))[1] AS quote, \
             string_agg(DISTINCT p.description COLLATE \"C\", chr(10) ORDER BY p.description COLLATE \"C\") AS description, \
             array_agg(DISTINCT p.document_id) AS documents \
           FROM passing p GROUP BY 1), \
         held AS ( \
           SELECT p.relation_id, array_agg(DISTINCT n.id) AS nodes FROM passing p \
           JOIN {{s}}.node n ON n.block_id = p.block_id AND n.start_char < p.end_char AND n.end_char > p.start_char GROUP BY 1) \
         SELECT c.id, c.source_id, c.target_id, \
                CASE WHEN $4 THEN c.source ELSE said.subject END, CASE WHEN $4 THEN c.predicate ELSE said.predicate END, \
                CASE WHEN $4 THEN c.target ELSE said.object END, c.weight, \
                CASE WHEN $4 THEN c.description ELSE said.description END, said.quote, \
                coalesce(held.nodes, '{{}}'), coalesce(said.documents, '{{}}') \
         FROM chosen c LEFT JOIN said ON said.relation_id = c.id LEFT JOIN held ON held.relation_id = c.id ORDER BY c.n"
    );
    let args = [
        frontier.to_vec().into(),
        scope.filter(),
        scope.documents(),
        everything.into(),
        seen.to_vec().into(),
        limit.into(),
    ];
    collection.query(&sql, &args, |row: &spi::Row| {
        let ends = [row.need(2)?, row.need(3)?];
        let edge = (
            row.need(4)?,
            row.need(5)?,
            row.need(6)?,
            row.need(7)?,
            row.get(8)?,
            row.get(9)?,
            row.need(10)?,
            row.need(11)?,
        );
        Ok((row.need(1)?, ends, edge))
    })
}
