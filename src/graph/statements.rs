//! What documents say inside a community: the relations with both ends in it.

use std::collections::HashMap;

use super::prune::kept;
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::json::Json;
use crate::search::Scope;

/// Relations of a community that a report reads: the heaviest ones.
const MAX_RELATIONS: i64 = 1000;

/// One relation inside a community, as its partition's documents assert it.
pub struct Statement {
    pub relation: i64,
    pub ends: [i64; 2],
    pub names: [String; 2],
    pub predicate: String,
    pub description: Option<String>,
    pub quote: Option<String>,
    /// Blocks that assert it, or the weight that it was given by hand.
    pub weight: f64,
}

impl Statement {
    pub fn line(&self) -> String {
        let predicate = self.predicate.replace('_', " ");
        let line = format!("{} {predicate} {}", self.names[0], self.names[1]);
        match &self.description {
            Some(description) => format!("{line}: {description}"),
            None => line + ".",
        }
    }
}

/// For each community the relations with both ends inside, the heaviest first. Of what documents assert, only the words
/// of documents in the community's own partition are read; with a scope only of those in it, and nothing that no document asserts.
pub fn statements(
    collection: &Collection,
    communities: &[i64],
    scope: Option<&Scope>,
) -> Result<HashMap<i64, Vec<Statement>>> {
    let first = "ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char, e.id";
    let scope = scope.filter(|scope| !scope.is_everything());
    // A partition, or what is in scope, is judged by no other's counts.
    let kept = match collection.options.partition_by.is_empty() && scope.is_none() {
        true => kept(collection, "i")?,
        false => "true".to_owned(),
    };
    let (passes, given) = match scope {
        None => ("true", "i.given_weight IS NOT NULL AND i.partition = $5"),
        Some(scope) => (scope.on_document(), "false"),
    };
    let sql = format!(
        "WITH leaving AS MATERIALIZED ( \
           SELECT c.id AS community, c.partition, r.* FROM {{s}}.community c \
           JOIN {{s}}.community_entity a ON a.community_id = c.id JOIN {{s}}.relation r ON r.source_id = a.entity_id \
           WHERE c.id = ANY ($1) AND ($2::jsonb IS NULL OR $3::bigint[] IS NULL OR $5::text IS NULL OR true)), \
         inside AS MATERIALIZED ( \
           SELECT l.* FROM leaving l \
           JOIN {{s}}.community_entity b ON b.community_id = l.community AND b.entity_id = l.target_id), \
         said AS ( \
           SELECT i.community, i.id, count(DISTINCT (e.block_id, e.document_id))::float8 AS blocks, \
             (array_agg(e.subject_name {first}))[1] AS subject, (array_agg(e.predicate {first}))[1] AS predicate, \
             (array_agg(e.object_name {first}))[1] AS object, \
             (array_agg(e.quote {first}) FILTER (WHERE e.quote IS NOT NULL))[1] AS quote, \
             string_agg(DISTINCT e.description COLLATE \"C\", ' ' ORDER BY e.description COLLATE \"C\") AS description \
           FROM inside i JOIN {{s}}.evidence e ON e.relation_id = i.id \
           JOIN {{s}}.document d ON d.id = e.document_id AND d.partition = i.partition AND {passes} GROUP BY 1, 2), \
         ranked AS ( \
           SELECT i.community, i.id, i.source_id, i.target_id, coalesce(q.subject, s.name) AS subject, \
             coalesce(q.predicate, i.predicate) AS predicate, coalesce(q.object, t.name) AS object, \
             CASE WHEN q.blocks > 0 THEN q.description ELSE i.description END AS description, q.quote, \
             coalesce(q.blocks, i.given_weight) AS weight, \
             row_number() OVER (PARTITION BY i.community ORDER BY coalesce(q.blocks, i.given_weight) DESC, \
               s.key COLLATE \"C\", i.predicate_key COLLATE \"C\", t.key COLLATE \"C\") AS n \
           FROM inside i JOIN {{s}}.entity s ON s.id = i.source_id JOIN {{s}}.entity t ON t.id = i.target_id \
           LEFT JOIN said q ON q.community = i.community AND q.id = i.id \
           WHERE (q.blocks > 0 OR {given}) AND {kept}) \
         SELECT community, id, source_id, target_id, subject, predicate, object, description, quote, weight \
         FROM ranked WHERE n <= $4 ORDER BY community, n"
    );
    let unkeyed = collection.options.unkeyed_partition();
    let mut said: HashMap<i64, Vec<Statement>> = HashMap::new();
    let args = [
        communities.to_vec().into(),
        scope.map_or(None::<Json>.into(), Scope::filter),
        scope.map_or(None::<Vec<i64>>.into(), Scope::documents),
        MAX_RELATIONS.into(),
        unkeyed.into(),
    ];
    collection.stream(&sql, &args, |row| {
        said.entry(row.need(1)?).or_default().push(Statement {
            relation: row.need(2)?,
            ends: [row.need(3)?, row.need(4)?],
            names: [row.need(5)?, row.need(7)?],
            predicate: row.need(6)?,
            description: row.get(8)?,
            quote: row.get(9)?,
            weight: row.need(10)?,
        });
        Ok(())
    })?;
    Ok(said)
}
