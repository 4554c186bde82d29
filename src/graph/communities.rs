//! graph_communities: clusters of the graph, one graph a partition.

use std::collections::HashMap;

use graphrag_network::{Graph, bytes_needed, components, modularity};
use pgrx::prelude::*;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::prune::kept;
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::ingest::{self, share_metadata};
use crate::pg::{memory, tick};
use crate::search;

/// SQL: `graph_communities(collection, algorithm, resolution)`.
#[pg_extern(sql = false)]
fn graph_communities(
    collection: Option<&str>,
    algorithm: Option<&str>,
    resolution: Option<f64>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(level, i32),
            name!(communities, i64),
            name!(largest, i64),
            name!(modularity, f64),
        ),
    >,
> {
    Ok(TableIterator::new(communities(collection, algorithm, resolution)?))
}

/// A vertex: an entity within one partition.
struct Vertex {
    partition: u32,
    entity: i64,
    key: String,
}

fn communities(
    name: Option<&str>,
    algorithm: Option<&str>,
    resolution: Option<f64>,
) -> Result<Option<(i32, i64, i64, f64)>> {
    match required(algorithm, "algorithm")? {
        "components" => {}
        other => {
            return Err(Error::invalid(format!("unknown algorithm \"{other}\""))
                .hint("The algorithm of this version is 'components'."));
        }
    }
    let resolution = in_range(resolution, "resolution", 0.0..=1e6)?;
    let collection = Collection::build_nodes(name, false, true)?;
    ingest::take_up(&collection)?;
    search::ensure_index(&collection, "node")?;
    find_communities(&collection, resolution)
}

/// The communities of the graph as it stands, found as the last time.
pub fn find_again(collection: &Collection) -> Result<()> {
    let sql = "SELECT (value ->> 'resolution')::float8 FROM {s}.setting WHERE key = 'step.communities'";
    let resolution: Option<f64> = collection.query(sql, &[], |row| row.get(1))?.pop().flatten();
    find_communities(collection, resolution.unwrap_or(1.0))?;
    Ok(())
}

/// Whether entities or relations have changed since communities were found.
pub fn needs_communities(collection: &Collection) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM {s}.entity e WHERE NOT EXISTS (SELECT FROM {s}.community_entity c WHERE c.entity_id = e.id)) \
               OR EXISTS (SELECT FROM {s}.community WHERE stale AND size > 1)";
    collection.query_one(sql, &[], |row| row.need(1))
}

fn find_communities(collection: &Collection, resolution: f64) -> Result<Option<(i32, i64, i64, f64)>> {
    let (partitions, vertices, edges) = load(collection)?;
    let graph = Graph::new(vertices.len() as u32, &edges, &mut tick).map_err(|e| Error::internal(e.to_string()))?;
    let labels = components(&graph, &mut tick);
    let quality = modularity(&graph, &labels, resolution, &mut tick);

    let mut members: Vec<Vec<usize>> = vec![Vec::new(); labels.iter().max().map_or(0, |label| *label as usize + 1)];
    for (vertex, label) in labels.iter().enumerate() {
        members[*label as usize].push(vertex);
    }
    let largest = members.iter().map(Vec::len).max().unwrap_or(0);
    store(collection, &partitions, &vertices, &members)?;
    collection.note_step("communities", Some("components"), json!({"resolution": resolution}))?;
    Ok((!members.is_empty()).then_some((0, members.len() as i64, largest as i64, quality)))
}

/// The graph of each partition, vertices in the order of partition and folded name.
///
/// Without partitions an edge is a row of `relation`, if the collection bears it out. With them it is what the documents of one partition assert,
/// weighted by their blocks alone; what was stated by hand belongs to the partition of documents without the key.
fn load(collection: &Collection) -> Result<(Vec<String>, Vec<Vertex>, Vec<(u32, u32, f32)>)> {
    let whole = collection.options.partition_by.is_empty();
    let kept = if whole { kept(collection, "r")? } else { String::new() };
    let whole_sql = format!(
        "SELECT '', r.source_id, r.target_id, r.weight FROM {{s}}.relation r \
         JOIN {{s}}.entity s ON s.id = r.source_id JOIN {{s}}.entity t ON t.id = r.target_id WHERE {kept}"
    );
    let (vertices_sql, edges_sql) = if whole {
        (
            "SELECT '' AS partition, id AS entity_id FROM {s}.entity",
            whole_sql.as_str(),
        )
    } else {
        (
            "SELECT d.partition, m.entity_id FROM {s}.mention m JOIN {s}.document d ON d.id = m.document_id \
             UNION SELECT d.partition, unnest(ARRAY[r.source_id, r.target_id]) FROM {s}.evidence e \
               JOIN {s}.relation r ON r.id = e.relation_id JOIN {s}.document d ON d.id = e.document_id \
             UNION SELECT $1, unnest(ARRAY[r.source_id, r.target_id]) FROM {s}.relation r WHERE r.given_weight IS NOT NULL \
             UNION SELECT $1, id FROM {s}.entity WHERE given",
            "SELECT d.partition, r.source_id, r.target_id, \
                    count(DISTINCT (e.block_id, e.document_id))::float8 \
             FROM {s}.evidence e JOIN {s}.relation r ON r.id = e.relation_id JOIN {s}.document d ON d.id = e.document_id \
             GROUP BY d.partition, r.id \
             UNION ALL SELECT $1, source_id, target_id, given_weight FROM {s}.relation WHERE given_weight IS NOT NULL",
        )
    };
    let nowhere = collection.options.unkeyed_partition();
    let counts: (i64, i64) = collection.query_one(
        "SELECT (SELECT count(*) FROM {s}.entity), (SELECT count(*) FROM {s}.relation) + (SELECT count(*) FROM {s}.evidence)",
        &[],
        |row| Ok((row.need(1)?, row.need(2)?)),
    )?;
    memory::check(
        bytes_needed(counts.0 as usize, counts.1 as usize) + counts.0 as usize * 200,
        "the graph of this collection",
    )?;

    let args = || if whole { vec![] } else { vec![nowhere.as_str().into()] };
    let mut partitions: Vec<String> = Vec::new();
    let mut vertices: Vec<Vertex> = Vec::new();
    let sql = format!(
        "SELECT v.partition, v.entity_id, e.key FROM ({vertices_sql}) v JOIN {{s}}.entity e ON e.id = v.entity_id \
         ORDER BY v.partition COLLATE \"C\", e.key COLLATE \"C\""
    );
    collection.stream(&sql, &args(), |row| {
        let partition: String = row.need(1)?;
        if partitions.last() != Some(&partition) {
            partitions.push(partition);
        }
        vertices.push(Vertex {
            partition: partitions.len() as u32 - 1,
            entity: row.need(2)?,
            key: row.need(3)?,
        });
        Ok(())
    })?;
    let index: HashMap<(u32, i64), u32> = vertices
        .iter()
        .enumerate()
        .map(|(i, v)| ((v.partition, v.entity), i as u32))
        .collect();
    let names: HashMap<&str, u32> = partitions
        .iter()
        .enumerate()
        .map(|(i, p)| (p.as_str(), i as u32))
        .collect();
    let mut edges = Vec::new();
    collection.stream(edges_sql, &args(), |row| {
        let partition = names.get(row.need::<String>(1)?.as_str()).copied().unwrap_or(u32::MAX);
        let end = |column| Ok::<_, Error>(index.get(&(partition, row.need(column)?)).copied());
        if let (Some(source), Some(target)) = (end(2)?, end(3)?) {
            edges.push((source, target, row.need::<f64>(4)? as f32));
        }
        Ok(())
    })?;
    Ok((partitions, vertices, edges))
}

/// Writes the communities of level 0: those with the same members keep their row and their report.
fn store(collection: &Collection, partitions: &[String], vertices: &[Vertex], members: &[Vec<usize>]) -> Result<()> {
    let hash = |community: &Vec<usize>| {
        let mut hasher = Sha256::new();
        for &vertex in community {
            hasher.update(vertices[vertex].key.as_bytes());
            // No name holds a zero byte, so no two lists of names run together alike.
            hasher.update([0]);
        }
        hasher.finalize().to_vec()
    };
    let partition_of: Vec<&str> = members
        .iter()
        .map(|m| partitions[vertices[m[0]].partition as usize].as_str())
        .collect();
    let hashes: Vec<Vec<u8>> = members.iter().map(hash).collect();
    let sizes: Vec<i32> = members.iter().map(|m| m.len() as i32).collect();
    let sql = "DELETE FROM {s}.community c WHERE c.level > 0 OR NOT EXISTS \
                 (SELECT FROM unnest($1::text[], $2::bytea[]) AS u (partition, hash) \
                  WHERE u.partition = c.partition AND u.hash = c.member_hash)";
    collection.execute(sql, &[partition_of.clone().into(), hashes.clone().into()])?;
    let sql = "INSERT INTO {s}.community (level, partition, member_hash, size) \
               SELECT 0, u.partition, u.hash, u.size \
               FROM unnest($1::text[], $2::bytea[], $3::int[]) WITH ORDINALITY AS u (partition, hash, size, n) \
               ORDER BY u.n ON CONFLICT (level, partition, member_hash) DO NOTHING";
    collection.execute(sql, &[partition_of.clone().into(), hashes.clone().into(), sizes.into()])?;
    let sql = "SELECT c.id FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS u (partition, hash, n) \
               JOIN {s}.community c ON c.level = 0 AND c.partition = u.partition AND c.member_hash = u.hash ORDER BY u.n";
    let ids: Vec<i64> = collection.query(sql, &[partition_of.into(), hashes.into()], |row| row.need(1))?;

    let (mut community, mut entity) = (Vec::new(), Vec::new());
    for (id, community_members) in ids.iter().zip(members) {
        for &vertex in community_members {
            community.push(*id);
            entity.push(vertices[vertex].entity);
        }
    }
    let sql = "INSERT INTO {s}.community_entity (community_id, entity_id) SELECT * FROM unnest($1::bigint[], $2::bigint[]) \
               ON CONFLICT DO NOTHING";
    collection.execute(sql, &[community.into(), entity.into()])?;
    collection.analyze(&["community", "community_entity"])?;
    refresh_sources(collection, &ids)?;
    collection.analyze(&["community_source"])
}

/// Brings the documents behind communities up to what mentions and evidence say, with their number and shared metadata.
///
/// Behind a community is every document of its partition that mentions a member or asserts a relation of one. A changed set
/// makes the report stale.
pub fn refresh_sources(collection: &Collection, communities: &[i64]) -> Result<()> {
    let sql = "WITH wanted (id, document_id) AS ( \
           SELECT c.id, m.document_id FROM {s}.community c JOIN {s}.community_entity e ON e.community_id = c.id \
           JOIN {s}.mention m ON m.entity_id = e.entity_id JOIN {s}.document d ON d.id = m.document_id \
           WHERE c.id = ANY ($1) AND d.partition = c.partition \
           UNION SELECT c.id, v.document_id FROM {s}.community c JOIN {s}.community_entity e ON e.community_id = c.id \
           JOIN {s}.relation r ON r.source_id = e.entity_id JOIN {s}.evidence v ON v.relation_id = r.id \
           JOIN {s}.document d ON d.id = v.document_id WHERE c.id = ANY ($1) AND d.partition = c.partition), \
         gone AS (DELETE FROM {s}.community_source s WHERE s.community_id = ANY ($1) AND NOT EXISTS \
           (SELECT FROM wanted w WHERE w.id = s.community_id AND w.document_id = s.document_id) RETURNING community_id), \
         added AS (INSERT INTO {s}.community_source (community_id, document_id) SELECT id, document_id FROM wanted \
           ON CONFLICT DO NOTHING RETURNING community_id), \
         counted AS (SELECT id, count(*) AS documents FROM wanted GROUP BY 1) \
       UPDATE {s}.community c SET stale = true, source_count = coalesce(w.documents, 0) \
       FROM (SELECT community_id AS id FROM gone UNION SELECT community_id FROM added) t LEFT JOIN counted w ON w.id = t.id \
       WHERE c.id = t.id";
    collection.execute(sql, &[communities.to_vec().into()])?;
    share_metadata(collection, "community", communities)
}
