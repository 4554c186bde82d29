//! Where a walk starts.

use std::collections::{BTreeMap, BTreeSet};

use graphrag_text::fold;
use graphrag_text::terms::grams;

use super::around::{Around, Vertex};
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::vector::Vector;
use crate::search::{Scope, TYPES, rank};

/// Passages that are near to the question.
const PASSAGES: i64 = 10;
/// Reports that are near to it.
const REPORTS: i64 = 5;
/// The power of a cosine that a seed weighs: the nearest count for most.
pub const POWER: i32 = 6;
/// The most words of a name in a question.
const WORDS: usize = 8;

/// Where a walk starts, with weights.
pub struct Seeds {
    pub seeds: Vec<(u64, f64)>,
    /// The nearest passages are among them.
    pub is_near: bool,
}

impl Seeds {
    /// Seeds of four kinds, each with its share: entities that the question names, the nearest passages, the entities that these mention, and
    /// entities of the nearest reports. The share of a kind without seeds goes to the others; without any, the nearest passages are taken.
    pub fn find(
        collection: &Collection,
        around: &mut Around,
        query: &str,
        vector: Option<&Vector>,
        scope: &Scope,
        shares: [f64; 4],
    ) -> Result<Seeds> {
        let mut seeds = Vec::new();
        let mut add = |kind: Vec<(u64, f64)>, share: f64| {
            let sum: f64 = kind.iter().map(|seed| seed.1).sum();
            seeds.extend(kind.iter().map(|(vertex, weight)| (*vertex, share * weight / sum)));
        };
        let [of_names, of_passages, of_close, of_themes] = shares;
        let mut is_near = of_passages > 0.0;
        if of_names > 0.0 {
            add(named(collection, around, query)?, of_names);
        }
        if let Some(vector) = vector {
            if of_themes > 0.0 {
                add(themes(collection, vector, scope)?, of_themes);
            }
            if of_passages + of_close > 0.0 {
                let near = passages(collection, vector, scope)?;
                if of_close > 0.0 {
                    add(close(around, &near)?, of_close);
                }
                if is_near {
                    add(near, of_passages);
                }
            }
        }
        if let Some(vector) = vector.filter(|_| seeds.is_empty() && !is_near) {
            is_near = true;
            seeds = passages(collection, vector, scope)?;
        }
        Ok(Seeds { seeds, is_near })
    }
}

/// The entities that a question names, the rarest most. A name inside of a longer one is none.
pub fn named(collection: &Collection, around: &mut Around, query: &str) -> Result<Vec<(u64, f64)>> {
    let grams = grams(query, WORDS);
    let keys: BTreeSet<String> = grams.iter().map(|(_, text)| fold::name(text)).collect();
    let keys: Vec<String> = keys.into_iter().filter(|key| !key.is_empty()).collect();
    let sql = "SELECT k.key, e.id FROM unnest($1::text[]) AS k (key) JOIN {s}.entity e ON e.key = k.key \
               UNION SELECT k.key, a.entity_id FROM unnest($1::text[]) AS k (key) JOIN {s}.entity_alias a ON a.key = k.key";
    let mut known: BTreeMap<String, i64> = BTreeMap::new();
    for (key, entity) in collection.lookup(sql, &[keys.into()], |row| Ok((row.need(1)?, row.need(2)?)))? {
        known.entry(key).or_insert(entity);
    }
    let mut taken: Vec<(std::ops::Range<usize>, i64)> = Vec::new();
    // The longest first.
    for (words, text) in &grams {
        let is_inside =
            |(outer, _): &(std::ops::Range<usize>, i64)| outer.start <= words.start && words.end <= outer.end;
        if let Some(entity) = known.get(&fold::name(text))
            && !taken.iter().any(is_inside)
        {
            taken.push((words.clone(), *entity));
        }
    }
    let mut entities: Vec<i64> = taken.into_iter().map(|(_, entity)| entity).collect();
    entities.sort_unstable();
    entities.dedup();
    around.learn(&entities)?;
    entities.retain(|entity| around.knows(*entity));
    Ok(entities
        .into_iter()
        .map(|entity| (Vertex::Entity(entity).number(), around.rarity(entity)))
        .collect())
}

/// The blocks of the leaves nearest to a question.
fn passages(collection: &Collection, vector: &Vector, scope: &Scope) -> Result<Vec<(u64, f64)>> {
    let near = nearest(collection, vector, PASSAGES, scope)?;
    let weighted = near
        .into_iter()
        .map(|(_, block, score)| (Vertex::Block(block).number(), score.max(0.0).powi(POWER)));
    Ok(weighted.collect())
}

/// The entities that some passages mention.
fn close(around: &mut Around, near: &[(u64, f64)]) -> Result<Vec<(u64, f64)>> {
    let blocks: Vec<u64> = near.iter().map(|seed| seed.0).collect();
    let mut seeds = Vec::new();
    for (edges, (_, weight)) in around.edges(&blocks)?.into_iter().zip(near) {
        let sum: f64 = edges.iter().map(|edge| edge.1).sum();
        seeds.extend(edges.into_iter().map(|(entity, part)| (entity, weight * part / sum)));
    }
    Ok(seeds)
}

/// The `k` leaves nearest to a question: leaf, block and cosine, best first.
pub fn nearest(collection: &Collection, vector: &Vector, k: i64, scope: &Scope) -> Result<Vec<(i64, i64, f64)>> {
    let (nodes, scores): (Vec<i64>, Vec<f64>) = rank(collection, "node", vector, k, scope, "n.level = 0")?
        .into_iter()
        .unzip();
    let sql = "SELECT n.id, n.block_id, u.score FROM unnest($1::bigint[], $2::float8[]) WITH ORDINALITY AS u (id, score, n) \
               JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
    collection.lookup(sql, &[nodes.into(), scores.into()], |row| {
        Ok((row.need(1)?, row.need(2)?, row.need(3)?))
    })
}

/// The entities of the communities whose reports are nearest to a question.
fn themes(collection: &Collection, vector: &Vector, scope: &Scope) -> Result<Vec<(u64, f64)>> {
    let (reports, scores): (Vec<i64>, Vec<f64>) = rank(collection, "community", vector, REPORTS, scope, "true")?
        .into_iter()
        .unzip();
    let sql = format!(
        "SELECT m.entity_id, u.score, c.size FROM unnest($4::bigint[], $5::float8[]) AS u (id, score) \
         JOIN {{s}}.community c ON c.id = u.id JOIN {{s}}.community_entity m ON m.community_id = u.id WHERE {TYPES}"
    );
    let args = [
        None::<Vector>.into(),
        scope.filter(),
        scope.documents(),
        reports.into(),
        scores.into(),
    ];
    collection.lookup(&sql, &args, |row| {
        let weight = row.need::<f64>(2)?.max(0.0).powi(POWER) / f64::from(row.need::<i32>(3)?.max(1));
        Ok((Vertex::Entity(row.need(1)?).number(), weight))
    })
}
