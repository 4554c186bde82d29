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
pub const POWER: i32 = 8;
/// The most words of a name in a question.
const WORDS: usize = 8;

/// Three kinds of seeds, each with its weights.
pub struct Seeds([Vec<(u64, f64)>; 3]);

impl Seeds {
    pub fn find(
        collection: &Collection,
        around: &mut Around,
        query: &str,
        vector: Option<&Vector>,
        scope: &Scope,
    ) -> Result<Seeds> {
        let mut seeds = [named(collection, around, query)?, Vec::new(), Vec::new()];
        if let Some(vector) = vector {
            seeds[1] = passages(collection, vector, scope)?;
            seeds[2] = themes(collection, vector, scope)?;
        }
        Ok(Seeds(seeds))
    }

    /// All of them, each kind with its share. The share of a kind without seeds goes to the others; without any that are wanted, the
    /// nearest passages are. Answers also whether these are among them.
    pub fn weighted(&self, shares: [f64; 3]) -> (Vec<(u64, f64)>, bool) {
        let is_empty = |shares: &[f64; 3]| {
            self.0
                .iter()
                .zip(shares)
                .all(|(seeds, share)| seeds.is_empty() || *share == 0.0)
        };
        let shares = match is_empty(&shares) {
            true => [0.0, 1.0, 0.0],
            false => shares,
        };
        let mut all = Vec::new();
        for (seeds, share) in self.0.iter().zip(shares) {
            let sum: f64 = seeds.iter().map(|seed| seed.1).sum();
            all.extend(seeds.iter().map(|(vertex, weight)| (*vertex, share * weight / sum)));
        }
        (all, shares[1] > 0.0)
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
    for (key, entity) in collection.query(sql, &[keys.into()], |row| Ok((row.need(1)?, row.need(2)?)))? {
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

/// The `k` leaves nearest to a question: leaf, block and cosine, best first.
pub fn nearest(collection: &Collection, vector: &Vector, k: i64, scope: &Scope) -> Result<Vec<(i64, i64, f64)>> {
    let (nodes, scores): (Vec<i64>, Vec<f64>) = rank(collection, "node", vector, k, scope, "n.level = 0")?
        .into_iter()
        .unzip();
    let sql = "SELECT n.id, n.block_id, u.score FROM unnest($1::bigint[], $2::float8[]) WITH ORDINALITY AS u (id, score, n) \
               JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
    collection.query(sql, &[nodes.into(), scores.into()], |row| {
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
    collection.query(&sql, &args, |row| {
        let weight = row.need::<f64>(2)?.max(0.0).powi(POWER) / f64::from(row.need::<i32>(3)?.max(1));
        Ok((Vertex::Entity(row.need(1)?).number(), weight))
    })
}
