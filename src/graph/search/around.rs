//! The graph that a search walks over: blocks and entities, read from mentions and relations where the walk comes by.
//!
//! A block leads to the entities that it mentions and another block, too: the rarer the likelier, and most of all to those that are
//! titles of documents. An entity leads to the blocks that mention it, most of all to the document of which it is the title, and to
//! what it is related to.

use std::collections::{BTreeMap, HashMap};

use graphrag_text::phrases;

use super::super::prune::kept;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::vector::Vector;
use crate::search::{Scope, TYPES};

/// How much likelier than by its rarity a block leads to an entity that is the title of a document.
const TITLED: f64 = 10.0;
/// What leads from a title to its own document, in parts of what leads to all blocks that mention it.
const OWN: f64 = 2.0;
/// What a relation weighs beside a mention.
const RELATED: f64 = 0.1;
/// An entity of more blocks, or with more relations, leads nowhere by them: each would get next to nothing.
const HUB: i64 = 2000;

/// What the walk comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vertex {
    Block(i64),
    Entity(i64),
}

impl Vertex {
    pub fn number(self) -> u64 {
        match self {
            Vertex::Block(id) => (id as u64) << 1,
            Vertex::Entity(id) => (id as u64) << 1 | 1,
        }
    }

    pub fn of(number: u64) -> Vertex {
        let id = (number >> 1) as i64;
        match number & 1 {
            0 => Vertex::Block(id),
            _ => Vertex::Entity(id),
        }
    }
}

/// What is known of an entity.
struct Known {
    /// Blocks that mention it.
    blocks: i64,
    /// Relations; of those in scope it is not known how many there are.
    degree: i64,
    /// Documents of which it is the title.
    own: Vec<i64>,
}

pub struct Around<'a> {
    collection: &'a Collection,
    scope: &'a Scope,
    /// Merged rows and counts serve those who see everything.
    everything: bool,
    blocks: f64,
    kept: String,
    entities: HashMap<i64, Known>,
}

impl<'a> Around<'a> {
    pub fn new(collection: &'a Collection, scope: &'a Scope) -> Result<Around<'a>> {
        let everything = scope.is_everything() && !collection.has_row_security()?;
        let mut around = Around {
            collection,
            scope,
            everything,
            blocks: 0.0,
            kept: match everything {
                true => kept(collection, "r")?,
                false => "true".to_owned(),
            },
            entities: HashMap::new(),
        };
        let sql = match everything {
            true => format!("SELECT count(*) FROM {{s}}.block WHERE {TYPES}"),
            false => format!(
                "SELECT count(*) FROM {{s}}.block b JOIN {{s}}.document d ON d.id = b.document_id WHERE {} AND {TYPES}",
                scope.on_document()
            ),
        };
        let blocks: i64 = collection.query_one(&sql, &around.args(Vec::new())[..3], |row| row.need(1))?;
        around.blocks = blocks as f64;
        Ok(around)
    }

    /// Whether an entity is known: something in scope mentions it.
    pub fn knows(&self, entity: i64) -> bool {
        self.entities.contains_key(&entity)
    }

    /// How telling an entity is: the logarithm of the share of blocks that mention it.
    pub fn rarity(&self, entity: i64) -> f64 {
        let of = self.entities.get(&entity).map_or(0, |known| known.blocks);
        (1.0 + self.blocks / of.max(1) as f64).ln()
    }

    /// The condition on a document `d`.
    fn passes(&self) -> &'static str {
        match self.scope.is_everything() {
            true => "true",
            false => self.scope.on_document(),
        }
    }

    fn args(&self, ids: Vec<i64>) -> [crate::pg::spi::Arg<'static>; 4] {
        [
            None::<Vector>.into(),
            self.scope.filter(),
            self.scope.documents(),
            ids.into(),
        ]
    }

    /// Looks up what is not known yet of some entities; those that nothing in scope mentions or titles stay unknown.
    pub fn learn(&mut self, entities: &[i64]) -> Result<()> {
        let new: Vec<i64> = entities
            .iter()
            .copied()
            .filter(|entity| !self.entities.contains_key(entity))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let sql = match self.everything {
            true => format!(
                "SELECT e.id, e.key, e.block_count::bigint, e.degree::bigint FROM {{s}}.entity e WHERE e.id = ANY ($4) AND {TYPES}"
            ),
            false => format!(
                "SELECT m.entity_id, min(e.key COLLATE \"C\"), count(DISTINCT m.block_id), 1::bigint FROM {{s}}.mention m \
                 JOIN {{s}}.entity e ON e.id = m.entity_id JOIN {{s}}.document d ON d.id = m.document_id \
                 WHERE m.entity_id = ANY ($4) AND {} AND {TYPES} GROUP BY 1",
                self.passes()
            ),
        };
        let mut hashed: HashMap<i64, i64> = HashMap::new();
        let mut of = Vec::new();
        self.collection.lookup(&sql, &self.args(new), |row| {
            let (id, key): (i64, String) = (row.need(1)?, row.need(2)?);
            hashed.insert(phrases::hash(&key), id);
            of.push((id, row.need(3)?, row.need(4)?));
            Ok(())
        })?;
        for (id, blocks, degree) in of {
            let own = Vec::new();
            self.entities.insert(id, Known { blocks, degree, own });
        }
        let mut hashes: Vec<i64> = hashed.keys().copied().collect();
        hashes.sort_unstable();
        let sql = format!(
            "SELECT d.id, d.title_hash, d.short_title_hash FROM {{s}}.document d \
             WHERE (d.title_hash = ANY ($4) OR d.short_title_hash = ANY ($4)) AND {} AND {TYPES} ORDER BY d.id",
            self.passes()
        );
        for (document, hashes) in self.collection.lookup(&sql, &self.args(hashes), |row| {
            Ok((row.need::<i64>(1)?, [row.get::<i64>(2)?, row.get::<i64>(3)?]))
        })? {
            // The whole title before what stands in front of its qualifier.
            let entity = hashes.iter().flatten().find_map(|hash| hashed.get(hash));
            if let Some(known) = entity.and_then(|entity| self.entities.get_mut(entity)) {
                known.own.push(document);
            }
        }
        Ok(())
    }

    /// The edges of some vertices.
    pub fn edges(&mut self, vertices: &[u64]) -> Result<Vec<Vec<(u64, f64)>>> {
        let mut edges: BTreeMap<u64, Vec<(u64, f64)>> = vertices.iter().map(|&vertex| (vertex, Vec::new())).collect();
        let (mut blocks, mut entities) = (Vec::new(), Vec::new());
        for &vertex in vertices {
            match Vertex::of(vertex) {
                Vertex::Block(id) => blocks.push(id),
                Vertex::Entity(id) => entities.push(id),
            }
        }
        self.of_blocks(blocks, &mut edges)?;
        self.of_entities(entities, &mut edges)?;
        Ok(vertices
            .iter()
            .map(|vertex| edges.remove(vertex).unwrap_or_default())
            .collect())
    }

    fn of_blocks(&mut self, blocks: Vec<i64>, edges: &mut BTreeMap<u64, Vec<(u64, f64)>>) -> Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT DISTINCT m.block_id, m.entity_id, m.document_id FROM {{s}}.mention m WHERE m.block_id = ANY ($4) AND {TYPES}"
        );
        let mentions: Vec<(i64, i64, i64)> = self.collection.lookup(&sql, &self.args(blocks), |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?))
        })?;
        let entities: Vec<i64> = mentions.iter().map(|mention| mention.1).collect();
        self.learn(&entities)?;
        for (block, entity, document) in mentions {
            let Some(known) = self.entities.get(&entity) else {
                continue;
            };
            // One that leads nowhere else would only keep what comes back.
            if known.blocks < 2 && known.own.iter().all(|own| *own == document) {
                continue;
            }
            let titled = if known.own.is_empty() { 1.0 } else { TITLED };
            let edge = (Vertex::Entity(entity).number(), titled * self.rarity(entity));
            edges.entry(Vertex::Block(block).number()).or_default().push(edge);
        }
        Ok(())
    }

    fn of_entities(&mut self, entities: Vec<i64>, edges: &mut BTreeMap<u64, Vec<(u64, f64)>>) -> Result<()> {
        if entities.is_empty() {
            return Ok(());
        }
        self.learn(&entities)?;
        let is_small = |entity: &i64| self.entities.get(entity).is_some_and(|known| known.blocks <= HUB);
        let small: Vec<i64> = entities.iter().copied().filter(is_small).collect();
        let sql = format!(
            "SELECT DISTINCT m.entity_id, m.block_id FROM {{s}}.mention m JOIN {{s}}.document d ON d.id = m.document_id \
             WHERE m.entity_id = ANY ($4) AND m.block_id IS NOT NULL AND {} AND {TYPES}",
            self.passes()
        );
        self.collection.stream(&sql, &self.args(small), |row| {
            let edge = (Vertex::Block(row.need(2)?).number(), 1.0);
            edges
                .entry(Vertex::Entity(row.need(1)?).number())
                .or_default()
                .push(edge);
            Ok(())
        })?;
        self.own(&entities, edges)?;
        self.related(entities, edges)
    }

    /// From titles to their own documents: to the blocks that use the title, or to the first one.
    fn own(&self, entities: &[i64], edges: &mut BTreeMap<u64, Vec<(u64, f64)>>) -> Result<()> {
        let (mut of, mut documents) = (Vec::new(), Vec::new());
        for entity in entities {
            let own = self.entities.get(entity).map_or(&[][..], |known| known.own.as_slice());
            of.extend(std::iter::repeat_n(*entity, own.len()));
            documents.extend_from_slice(own);
        }
        if of.is_empty() {
            return Ok(());
        }
        let sql = "SELECT u.entity, b.id FROM unnest($1::bigint[], $2::bigint[]) AS u (entity, document) \
                   JOIN {s}.block b ON b.document_id = u.document \
                   WHERE EXISTS (SELECT FROM {s}.mention m WHERE m.block_id = b.id AND m.entity_id = u.entity) \
                     OR b.ordinal = 0 AND NOT EXISTS (SELECT FROM {s}.mention m WHERE m.document_id = u.document AND m.entity_id = u.entity)";
        let found: Vec<(i64, i64)> = self.collection.lookup(sql, &[of.into(), documents.into()], |row| {
            Ok((row.need(1)?, row.need(2)?))
        })?;
        for part in found.chunk_by(|a, b| a.0 == b.0) {
            let Some((entity, _)) = part.first() else { continue };
            let mentioned = self.entities.get(entity).map_or(1, |known| known.blocks.max(1));
            let weight = OWN * mentioned as f64 / part.len() as f64;
            let to = edges.entry(Vertex::Entity(*entity).number()).or_default();
            to.extend(part.iter().map(|(_, block)| (Vertex::Block(*block).number(), weight)));
        }
        Ok(())
    }

    fn related(&self, mut entities: Vec<i64>, edges: &mut BTreeMap<u64, Vec<(u64, f64)>>) -> Result<()> {
        entities.retain(|entity| {
            self.entities
                .get(entity)
                .is_some_and(|known| (1..=HUB).contains(&known.degree))
        });
        if entities.is_empty() {
            return Ok(());
        }
        let (weight, asserted) = match self.everything {
            true => ("r.weight", String::new()),
            false => (
                "a.blocks",
                format!(
                    "CROSS JOIN LATERAL (SELECT count(DISTINCT (v.block_id, v.document_id))::float8 AS blocks FROM {{s}}.evidence v \
                       JOIN {{s}}.document d ON d.id = v.document_id WHERE v.relation_id = r.id AND {}) a",
                    self.passes()
                ),
            ),
        };
        // The ends are looked at only where they tell what is kept.
        let ends = match self.kept.as_str() {
            "true" => "",
            _ => "JOIN {s}.entity s ON s.id = r.source_id JOIN {s}.entity t ON t.id = r.target_id",
        };
        let sql = format!(
            "SELECT r.source_id, r.target_id, {weight} FROM ( \
               SELECT id FROM {{s}}.relation WHERE source_id = ANY ($4) UNION SELECT id FROM {{s}}.relation WHERE target_id = ANY ($4)) u \
             JOIN {{s}}.relation r ON r.id = u.id {ends} {asserted} WHERE {} AND {TYPES}",
            self.kept
        );
        let related: Vec<(i64, i64, f64)> = self.collection.lookup(&sql, &self.args(entities), |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?))
        })?;
        for (source, target, weight) in related {
            for (from, to) in [(source, target), (target, source)] {
                if let Some(list) = edges.get_mut(&Vertex::Entity(from).number()) {
                    list.push((Vertex::Entity(to).number(), RELATED * weight));
                }
            }
        }
        Ok(())
    }

    /// How entities are called: by name, or as documents in scope write them.
    pub fn names(&self, entities: &[i64]) -> Result<HashMap<i64, String>> {
        let sql = match self.everything {
            true => format!("SELECT id, name FROM {{s}}.entity WHERE id = ANY ($4) AND {TYPES}"),
            false => format!(
                "SELECT m.entity_id, min(m.name COLLATE \"C\") FROM {{s}}.mention m JOIN {{s}}.document d ON d.id = m.document_id \
                 WHERE m.entity_id = ANY ($4) AND {} AND {TYPES} GROUP BY 1",
                self.passes()
            ),
        };
        let names = self.collection.lookup(&sql, &self.args(entities.to_vec()), |row| {
            Ok((row.need(1)?, row.need(2)?))
        })?;
        Ok(names.into_iter().collect())
    }
}
