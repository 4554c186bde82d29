//! graph_resolve: which entities may be one, for a person to decide.

use std::collections::HashMap;

use graphrag_text::names;
use pgrx::prelude::*;

use super::decide::{contexts, decide};
use crate::collection::Collection;
use crate::error::{Error, Result, required, sql};
use crate::pg::{memory, tick};

/// What an entity costs while its name is compared: its keys, and the candidates that share them.
const BYTES_PER_ENTITY: usize = 1_000;

/// Names that score less are not one, however many neighbours they share.
const LEAST: f32 = 0.5;

/// How much of what a name lacks shared neighbours can make up for.
const NEIGHBOURS: f64 = 0.8;

type Proposal = (String, String, f64, String, i64, i64, i64, Option<bool>);

/// The same for alike contexts, whose cosine counts from here on.
const CONTEXTS: f64 = 0.3;
const UNLIKE: f64 = 0.5;

/// SQL: `graph_resolve(collection, threshold, ask)`.
#[pg_extern(sql = false)]
fn graph_resolve(
    collection: Option<&str>,
    threshold: Option<f64>,
    ask: Option<bool>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(keep, String),
            name!(alias, String),
            name!(score, f64),
            name!(reason, String),
            name!(shared, i64),
            name!(keep_documents, i64),
            name!(alias_documents, i64),
            name!(same, Option<bool>),
        ),
    >,
> {
    Ok(TableIterator::new(resolve(collection, threshold, ask)?))
}

struct Entity {
    id: i64,
    key: String,
    name: String,
    documents: i64,
    degree: i64,
    is_row: bool,
}

fn resolve(name: Option<&str>, threshold: Option<f64>, ask: Option<bool>) -> Result<Vec<Proposal>> {
    let ask = required(ask, "ask")?;
    let threshold = required(threshold, "threshold")?;
    if !(f64::from(LEAST)..=1.0).contains(&threshold) {
        return Err(
            Error::invalid(format!("threshold must be between {LEAST} and 1")).detail(format!("It is {threshold}."))
        );
    }
    // Names are of all documents: who sees some of them only may not see these.
    let collection = match ask {
        true => Collection::build_with_models(name, false)?,
        false => Collection::write(name)?,
    };
    let count: i64 = collection.query_one("SELECT count(*) FROM {s}.entity", &[], |row| row.need(1))?;
    memory::check(count as usize * BYTES_PER_ENTITY, "the comparison of all names")?;
    let sql =
        "SELECT id, key, name, source_count, degree, row_key IS NOT NULL FROM {s}.entity ORDER BY key COLLATE \"C\"";
    let entities = collection.query(sql, &[], |row| {
        Ok(Entity {
            id: row.need(1)?,
            key: row.need(2)?,
            name: row.need(3)?,
            documents: i64::from(row.need::<i32>(4)?),
            degree: i64::from(row.need::<i32>(5)?),
            is_row: row.need(6)?,
        })
    })?;
    let keys: Vec<&str> = entities.iter().map(|entity| entity.key.as_str()).collect();
    let (mut pairs, passed_over) = names::pairs(&keys, LEAST, &mut tick);
    // The keys of the tables say that two rows are two things.
    pairs.retain(|pair| !(entities[pair.names.0 as usize].is_row && entities[pair.names.1 as usize].is_row));
    if passed_over > 0 {
        notice!(
            "{passed_over} parts of names are shared by more than {} entities each, which are not compared by these",
            names::BLOCK
        );
    }
    let shared = shared_neighbours(&collection, &entities, &pairs)?;
    let ids = |pair: &names::Pair| (entities[pair.names.0 as usize].id, entities[pair.names.1 as usize].id);
    let contexts = contexts(&collection, &pairs.iter().map(ids).collect::<Vec<_>>())?;
    let mut scores: HashMap<(u32, u32), (f64, String, i64)> = HashMap::new();
    for ((pair, &(common, all)), cosine) in pairs.iter().zip(&shared).zip(contexts) {
        let (name, same) = (f64::from(pair.score), common as f64 / all.max(1) as f64);
        let alike = ((cosine - UNLIKE) / (1.0 - UNLIKE)).clamp(0.0, 1.0);
        let score = 1.0 - (1.0 - name) * (1.0 - NEIGHBOURS * same) * (1.0 - CONTEXTS * alike);
        let mut reason = pair.reason.to_owned();
        if common > 0 {
            reason += ", shared neighbours";
        }
        if alike >= 0.5 {
            reason += ", alike contexts";
        }
        // Six digits, so that no processor shows another last one.
        scores.insert(pair.names, ((score * 1e6).round() / 1e6, reason, common));
    }
    pairs.retain(|pair| scores[&pair.names].0 >= threshold);
    let proposed: Vec<(&str, &str)> = pairs
        .iter()
        .map(|pair| (keys[pair.names.0 as usize], keys[pair.names.1 as usize]))
        .collect();
    let mut proposals: Vec<(Proposal, (i64, i64))> = vec![];
    for group in names::groups(&proposed) {
        tick();
        let mut members: Vec<usize> = group.iter().filter_map(|key| keys.binary_search(key).ok()).collect();
        // A row is kept, else the one that most documents mention; of equals the one with more relations, then the longer name.
        members.sort_by_key(|&at| {
            let entity = &entities[at];
            (
                !entity.is_row,
                -entity.documents,
                -entity.degree,
                std::cmp::Reverse(entity.key.chars().count()),
                at,
            )
        });
        let Some((&keep, aliases)) = members.split_first() else {
            continue;
        };
        for &alias in aliases {
            // Two of a group that were not proposed themselves are near by way of a third.
            let (one, other) = (keep.min(alias) as u32, keep.max(alias) as u32);
            if let Some((score, reason, common)) = scores.get(&(one, other))
                && *score >= threshold
            {
                let (keep, alias) = (&entities[keep], &entities[alias]);
                let proposal = (
                    keep.name.clone(),
                    alias.name.clone(),
                    *score,
                    reason.clone(),
                    *common,
                    keep.documents,
                    alias.documents,
                    None,
                );
                proposals.push((proposal, (keep.id, alias.id)));
            }
        }
    }
    proposals.sort_by(|(a, _), (b, _)| b.2.total_cmp(&a.2).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
    let (mut proposals, pairs): (Vec<Proposal>, Vec<(i64, i64)>) = proposals.into_iter().unzip();
    if ask {
        for (proposal, same) in proposals.iter_mut().zip(decide(&collection, &pairs)?) {
            proposal.7 = same;
        }
    }
    Ok(proposals)
}

/// For each pair how many entities are related to both, and to either; themselves not counted.
fn shared_neighbours(collection: &Collection, entities: &[Entity], pairs: &[names::Pair]) -> Result<Vec<(i64, i64)>> {
    let side =
        |at: fn(&names::Pair) -> u32| -> Vec<i64> { pairs.iter().map(|pair| entities[at(pair) as usize].id).collect() };
    let (one, other) = (side(|pair| pair.names.0), side(|pair| pair.names.1));
    let sql = "WITH pair AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS p (a, b, n)), \
               edge AS (SELECT source_id AS id, target_id AS other FROM {s}.relation WHERE source_id <> target_id \
                        UNION SELECT target_id, source_id FROM {s}.relation WHERE source_id <> target_id) \
               SELECT p.n, count(*) FILTER (WHERE sides = 2), count(*) FROM ( \
                 SELECT p.n, e.other, count(*) AS sides FROM (SELECT n, a, b, unnest(ARRAY[a, b]) AS id FROM pair) p \
                 JOIN edge e ON e.id = p.id WHERE e.other NOT IN (p.a, p.b) GROUP BY 1, 2) p GROUP BY 1";
    let mut found = vec![(0, 0); pairs.len()];
    for (n, common, all) in collection.query(sql, &[one.into(), other.into()], |row| {
        Ok((row.need::<i64>(1)?, row.need::<i64>(2)?, row.need::<i64>(3)?))
    })? {
        found[n as usize - 1] = (common, all);
    }
    Ok(found)
}
