//! graph_local: the neighbourhood of an entity, with the words that assert each edge.

use std::collections::HashSet;

use graphrag_text::fold;
use pgrx::prelude::*;

use crate::collection::{Collection, quoted};
use crate::error::{Result, SqlResult, in_range, required};
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
) -> SqlResult<
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
    let hops = in_range(hops, "hops", 1..=20)?;
    let max_edges = in_range(max_edges, "max_edges", 0..=1_000_000)?;
    let collection = Collection::read(name)?;
    let sql = "SELECT id FROM {s}.entity WHERE key = $1 UNION SELECT entity_id FROM {s}.entity_alias WHERE key = $1";
    let mut frontier: Vec<i64> = collection.query(sql, &[fold::name(entity).into()], |row| row.need(1))?;
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
        notice!("no relation of entity {} is known here", quoted(entity));
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
fn step(
    collection: &Collection,
    frontier: &[i64],
    seen: &[i64],
    scope: &Scope,
    limit: i64,
) -> Result<Vec<(i64, [i64; 2], EdgeRow)>> {
    let everything = scope.is_everything();
    let passes = if everything { "true" } else { scope.on_document() };
    // What rests on no evidence is shown only without a filter.
    let sql = format!(
        "SELECT r.id, r.source_id, r.target_id, \
                CASE WHEN $4 OR e.subject IS NULL THEN s.name ELSE e.subject END, \
                CASE WHEN $4 OR e.predicate IS NULL THEN r.predicate ELSE e.predicate END, \
                CASE WHEN $4 OR e.object IS NULL THEN t.name ELSE e.object END, \
                CASE WHEN $4 THEN r.weight ELSE e.blocks END AS weight, \
                CASE WHEN $4 THEN r.description ELSE e.description END, e.quote, \
                coalesce(e.nodes, '{{}}'), coalesce(e.documents, '{{}}') \
         FROM {{s}}.relation r JOIN {{s}}.entity s ON s.id = r.source_id JOIN {{s}}.entity t ON t.id = r.target_id \
         LEFT JOIN LATERAL ( \
           SELECT count(DISTINCT (e.block_id, CASE WHEN e.block_id IS NULL THEN e.document_id END))::float8 AS blocks, \
             (array_agg(e.subject_name ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char))[1] AS subject, \
             (array_agg(e.predicate ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char))[1] AS predicate, \
             (array_agg(e.object_name ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char))[1] AS object, \
             (array_agg(e.quote ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char) \
                FILTER (WHERE e.quote IS NOT NULL))[1] AS quote, \
             string_agg(DISTINCT e.description COLLATE \"C\", chr(10) ORDER BY e.description COLLATE \"C\") AS description, \
             array_agg(DISTINCT e.document_id) AS documents, \
             (SELECT array_agg(DISTINCT n.id) FROM {{s}}.evidence v JOIN {{s}}.document d ON d.id = v.document_id \
                JOIN {{s}}.node n ON n.block_id = v.block_id AND n.start_char < v.end_char AND n.end_char > v.start_char \
              WHERE v.relation_id = r.id AND {passes}) AS nodes \
           FROM {{s}}.evidence e JOIN {{s}}.document d ON d.id = e.document_id \
           WHERE e.relation_id = r.id AND {passes}) e ON true \
         WHERE r.id IN (SELECT id FROM {{s}}.relation WHERE source_id = ANY ($1) \
                        UNION SELECT id FROM {{s}}.relation WHERE target_id = ANY ($1)) \
           AND r.id <> ALL ($5) AND ($4 OR e.blocks > 0) AND ($2::jsonb IS NULL OR $3::bigint[] IS NULL OR true) \
         ORDER BY weight DESC, s.key COLLATE \"C\", r.predicate_key COLLATE \"C\", t.key COLLATE \"C\" LIMIT $6"
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
