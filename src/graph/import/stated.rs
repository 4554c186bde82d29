//! What no document says: entities and relations by hand.

use std::collections::BTreeMap;

use graphrag_text::answer::{self, Entity, Extraction};
use graphrag_text::fold;
use serde_json::{Map, Value};

use super::{Import, Record, json_object, predicate};
use crate::error::Result;
use crate::graph::add::MAX_WEIGHT;
use crate::graph::merge::Touched;
use crate::pg::tick;

impl Import<'_> {
    /// Writes what no document says: entities and relations with the weight that they bring, or 1.
    pub fn by_hand(&mut self, read: &Extraction, touched: &mut Touched) -> Result<()> {
        let mut named: BTreeMap<String, (String, Option<String>, Option<String>)> = BTreeMap::new();
        let mut edges: BTreeMap<[String; 3], (String, Option<String>, f64, Map<String, Value>)> = BTreeMap::new();
        for record in std::mem::take(&mut self.stated) {
            match record {
                Record::Entity(at) => {
                    let Entity {
                        name,
                        kind,
                        description,
                        ..
                    } = &read.entities[at];
                    let known = named
                        .entry(fold::name(name))
                        .or_insert_with(|| (name.clone(), None, None));
                    known.1 = known.1.take().or_else(|| kind.clone());
                    known.2 = joined(known.2.take(), description.as_deref());
                }
                Record::Relation(at) => {
                    let relation = &read.relations[at];
                    for name in [&relation.subject, &relation.object] {
                        named
                            .entry(fold::name(name))
                            .or_insert_with(|| (name.clone(), None, None));
                    }
                    let weight = match relation.weight.unwrap_or(1.0) {
                        weight if weight > 0.0 && weight <= MAX_WEIGHT => weight,
                        _ => {
                            self.count(answer::reason::BAD_NUMBER);
                            1.0
                        }
                    };
                    let (shown, key) = predicate(relation);
                    let keys = [fold::name(&relation.subject), key, fold::name(&relation.object)];
                    let edge = edges.entry(keys).or_insert_with(|| (shown, None, 0.0, Map::new()));
                    edge.1 = joined(edge.1.take(), relation.description.as_deref());
                    edge.2 = (edge.2 + weight).min(MAX_WEIGHT);
                    edge.3.extend(relation.properties.clone());
                }
                Record::Claim(_) => {}
            }
            tick();
        }
        if named.is_empty() {
            return Ok(());
        }
        let (mut keys, mut names, mut kinds, mut texts) = (vec![], vec![], vec![], vec![]);
        for (key, (name, kind, description)) in named {
            keys.push(key);
            names.push(name);
            kinds.push(kind);
            texts.push(description);
        }
        let sql = "INSERT INTO {s}.entity AS e (key, name, type, description, given) \
                   SELECT u.key, u.name, u.type, u.description, true \
                   FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS u (key, name, type, description, n) \
                   WHERE NOT EXISTS (SELECT FROM {s}.entity_alias a WHERE a.key = u.key) ORDER BY u.n \
                   ON CONFLICT (key) DO UPDATE SET given = true, \
                     type = CASE WHEN e.row_key IS NULL THEN coalesce(excluded.type, e.type) ELSE e.type END, \
                     replaced = CASE WHEN e.row_key IS NOT NULL THEN jsonb_build_object('key', e.key, \
                       'name', coalesce(e.replaced ->> 'name', e.name), 'type', coalesce(excluded.type, e.replaced ->> 'type')) END, \
                     description = coalesce(excluded.description, e.description) RETURNING id";
        let args = [keys.into(), names.into(), kinds.into(), texts.into()];
        touched
            .entities
            .extend(self.collection.returning(sql, &args, |row| row.need::<i64>(1))?);

        let (mut subjects, mut predicates, mut shown, mut objects) = (vec![], vec![], vec![], vec![]);
        let (mut texts, mut weights, mut properties) = (vec![], vec![], vec![]);
        for ([subject, key, object], (predicate, description, weight, more)) in edges {
            subjects.push(subject);
            predicates.push(key);
            objects.push(object);
            shown.push(predicate);
            texts.push(description);
            weights.push(weight);
            properties.push(json_object(more));
        }
        let sql = "INSERT INTO {s}.relation AS r (source_id, predicate, predicate_key, target_id, description, weight, properties) \
                   SELECT source, (array_agg(predicate ORDER BY n))[1], predicate_key, target, string_agg(description, chr(10) ORDER BY n), \
                          least(sum(weight), $8), (array_agg(properties ORDER BY n))[1]::jsonb \
                   FROM (SELECT coalesce(sa.entity_id, s.id) AS source, u.*, coalesce(oa.entity_id, o.id) AS target \
                     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[]) \
                       WITH ORDINALITY AS u (subject, predicate_key, object, predicate, description, weight, properties, n) \
                     LEFT JOIN {s}.entity_alias sa ON sa.key = u.subject LEFT JOIN {s}.entity s ON s.key = u.subject \
                     LEFT JOIN {s}.entity_alias oa ON oa.key = u.object LEFT JOIN {s}.entity o ON o.key = u.object) e \
                   GROUP BY source, predicate_key, target ORDER BY min(n) \
                   ON CONFLICT (source_id, predicate_key, target_id) DO UPDATE SET bound = false, \
                     given_weight = CASE WHEN EXISTS (SELECT FROM {s}.entity_alias a WHERE a.merged IS NOT NULL AND a.entity_id IN (r.source_id, r.target_id)) \
                                         THEN greatest(r.given_weight, excluded.given_weight) ELSE excluded.given_weight END, \
                     description = coalesce(excluded.description, r.description), properties = r.properties || excluded.properties RETURNING id";
        let args = [
            subjects.into(),
            predicates.into(),
            objects.into(),
            shown.into(),
            texts.into(),
            weights.into(),
            properties.into(),
            MAX_WEIGHT.into(),
        ];
        touched
            .relations
            .extend(self.collection.returning(sql, &args, |row| row.need::<i64>(1))?);
        Ok(())
    }
}

/// One text a line, each once.
fn joined(before: Option<String>, text: Option<&str>) -> Option<String> {
    match (before, text) {
        (before, None) => before,
        (None, Some(text)) => Some(text.to_owned()),
        (Some(before), Some(text)) if before.lines().any(|line| line == text) => Some(before),
        (Some(before), Some(text)) => Some(format!("{before}\n{text}")),
    }
}
