//! graph_communities: clusters of the graph, one graph a partition.

use std::collections::HashMap;

use graphrag_network::{Before, Graph, bytes_needed};
use pgrx::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::divide::{Divided, Way, divide};
use super::identity::{Wanted, store};
use super::prune::kept;
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::ingest::{self, share_metadata};
use crate::pg::{memory, tick};
use crate::search;

/// Columns of graph_communities.
type LevelRow = (i32, i64, i64, f64);

/// SQL: `graph_communities(collection, algorithm, resolution, max_size, seed)`.
#[pg_extern(sql = false)]
fn graph_communities(
    collection: Option<&str>,
    algorithm: Option<&str>,
    resolution: Option<f64>,
    max_size: Option<i32>,
    seed: Option<i64>,
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
    let found = communities(collection, algorithm, resolution, max_size, seed)?;
    Ok(TableIterator::new(found))
}

/// A vertex: an entity within one partition.
struct Vertex {
    partition: u32,
    entity: i64,
    key: String,
}

/// The graphs of all partitions. Vertices stand in the order of partition and folded name, edges between their places in their
/// partitions.
#[derive(Default)]
struct Graphs {
    partitions: Vec<String>,
    vertices: Vec<Vertex>,
    /// Where the vertices of each partition begin, and the end of the last.
    starts: Vec<usize>,
    edges: Vec<Vec<(u32, u32, f32)>>,
}

fn communities(
    name: Option<&str>,
    algorithm: Option<&str>,
    resolution: Option<f64>,
    max_size: Option<i32>,
    seed: Option<i64>,
) -> Result<Vec<LevelRow>> {
    let algorithm = required(algorithm, "algorithm")?;
    let resolution = in_range(resolution, "resolution", 0.0..=1e6)?;
    let max_size = in_range(max_size, "max_size", 1..=i32::MAX)?;
    let way = Way::new(algorithm, resolution, max_size, required(seed, "seed")?)?;
    let collection = Collection::build_nodes(name, false, true)?;
    ingest::take_up(&collection)?;
    search::ensure_index(&collection, "node")?;
    let graphs = load(&collection)?;
    find(&collection, &graphs, &way, &[])
}

/// The share of changed entities since the last search from nothing, above which it is done again.
const MOST_CHANGED: f64 = 0.2;
/// What modularity may lose against the last search from nothing.
const MOST_LOST: f64 = 0.01;

/// How communities were found the last time.
struct Last {
    way: Way,
    /// The modularity of level 0 of the last search from nothing, and the entities that have changed since then.
    modularity: f64,
    changed: f64,
}

impl Last {
    fn read(collection: &Collection) -> Result<Option<Last>> {
        let sql = "SELECT coalesce(value ->> 'model', 'leiden'), coalesce((value ->> 'resolution')::float8, 1), \
                     coalesce((value ->> 'max_size')::int, 10), coalesce((value ->> 'seed')::bigint, 0), \
                     coalesce((value ->> 'modularity')::float8, 0), coalesce((value ->> 'changed')::float8, 0) \
                   FROM {s}.setting WHERE key = 'step.communities'";
        let last = collection.query(sql, &[], |row| {
            Ok(Last {
                way: Way::new(&row.need::<String>(1)?, row.need(2)?, row.need(3)?, row.need(4)?)?,
                modularity: row.need(5)?,
                changed: row.need(6)?,
            })
        })?;
        Ok(last.into_iter().next())
    }
}

/// The communities of the graph as it stands, found as the last time, and from what was found then; from nothing if much has changed or
/// something was lost.
pub fn find_again(collection: &Collection) -> Result<()> {
    let graphs = load(collection)?;
    let Some(last) = Last::read(collection)? else {
        find(collection, &graphs, &Way::new("leiden", 1.0, 10, 0)?, &[])?;
        return Ok(());
    };
    let before = match last.way.goes_on() {
        true => before(collection, &graphs)?,
        false => Vec::new(),
    };
    let changed = last.changed + before.iter().map(|before| before.changed.len() as f64).sum::<f64>();
    if before.is_empty() || changed > MOST_CHANGED * graphs.vertices.len() as f64 {
        find(collection, &graphs, &last.way, &[])?;
        return Ok(());
    }
    let found = find(collection, &graphs, &last.way, &before)?;
    if found
        .first()
        .is_some_and(|level| level.3 < last.modularity * (1.0 - MOST_LOST))
    {
        find(collection, &graphs, &last.way, &[])?;
        return Ok(());
    }
    let noted = json!({"modularity": last.modularity, "changed": changed});
    note(collection, &last.way, noted)
}

fn note(collection: &Collection, way: &Way, more: Value) -> Result<()> {
    let mut how = way.noted();
    if let (Value::Object(how), Value::Object(more)) = (&mut how, more) {
        how.extend(more);
    }
    collection.note_step("communities", Some(&way.algorithm), how)
}

/// Whether entities or relations have changed since communities were found.
pub fn needs_communities(collection: &Collection) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM {s}.entity e WHERE NOT EXISTS (SELECT FROM {s}.community_entity c WHERE c.entity_id = e.id)) \
               OR EXISTS (SELECT FROM {s}.community WHERE stale AND size > 1)";
    collection.query_one(sql, &[], |row| row.need(1))
}

/// Finds and writes the communities of each partition; answers a row for each level. `before` has an entry for each partition, or none.
fn find(collection: &Collection, graphs: &Graphs, way: &Way, before: &[Before]) -> Result<Vec<LevelRow>> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut divided = Vec::new();
    for (partition, edges) in graphs.edges.iter().enumerate() {
        let vertices = &graphs.vertices[graphs.starts[partition]..graphs.starts[partition + 1]];
        let graph = Graph::new(vertices.len() as u32, edges, &mut tick).map_err(|e| Error::internal(e.to_string()))?;
        let of_partition = divide(&graph, way, before.get(partition));
        let first = wanted.len();
        wanted.extend(of_partition.communities.iter().map(|community| {
            let members = || community.members.iter().map(|&vertex| &vertices[vertex as usize]);
            Wanted {
                partition: partition as u32,
                level: community.level as i32,
                parent: community.parent.map(|parent| first + parent),
                hash: hash(members().map(|vertex| vertex.key.as_str())),
                members: members().map(|vertex| vertex.entity).collect(),
            }
        }));
        divided.push(of_partition);
    }
    let rows = levels(&divided);
    let ids = store(collection, &graphs.partitions, &wanted)?;
    collection.analyze(&["community", "community_entity"])?;
    refresh_sources(collection, &ids)?;
    collection.analyze(&["community_source"])?;
    let modularity = rows.first().map_or(0.0, |row| row.3);
    note(collection, way, json!({"modularity": modularity, "changed": 0}))?;
    Ok(rows)
}

/// The communities that stand at each level: those of the level, and those above that do not divide. The modularity of several partitions is
/// their mean by weight.
fn levels(divided: &[Divided]) -> Vec<LevelRow> {
    let count = divided.iter().map(|d| d.modularity.len()).max().unwrap_or(0);
    let weight: f64 = divided.iter().map(|d| d.weight).sum();
    let mut rows: Vec<LevelRow> = (0..count as i32).map(|level| (level, 0, 0, 0.0)).collect();
    for part in divided {
        let mut parents = vec![false; part.communities.len()];
        for parent in part.communities.iter().filter_map(|community| community.parent) {
            parents[parent] = true;
        }
        for (community, is_parent) in part.communities.iter().zip(parents) {
            let level = community.level as usize;
            let to = if is_parent { level + 1 } else { count };
            for row in &mut rows[level..to] {
                row.1 += 1;
                row.2 = row.2.max(community.members.len() as i64);
            }
        }
        for row in &mut rows {
            let deepest = part.modularity.len() - 1;
            let modularity = part.modularity[deepest.min(row.0 as usize)];
            row.3 += if weight > 0.0 {
                modularity * part.weight / weight
            } else {
                0.0
            };
        }
    }
    rows
}

/// What makes two communities of a partition the same: the folded names of their members, in order.
fn hash<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for key in keys {
        hasher.update(key.as_bytes());
        // No name holds a zero byte, so no two lists of names run together alike.
        hasher.update([0]);
    }
    hasher.finalize().to_vec()
}

/// What was found before in each partition, with the vertices whose communities are stale or that have none; nothing if no community has a report,
/// which would make all of them changed.
fn before(collection: &Collection, graphs: &Graphs) -> Result<Vec<Before>> {
    let sql = "SELECT EXISTS (SELECT FROM {s}.community WHERE NOT stale)";
    if !collection.query_one(sql, &[], |row| row.need::<bool>(1))? {
        return Ok(Vec::new());
    }
    let index = graphs.index();
    let names = graphs.names();
    /// The labels of a vertex by levels, and whether the deepest community, which has the fewest others in it, is stale.
    #[derive(Clone, Default)]
    struct Old(Vec<i64>, bool);
    let mut old = vec![Old::default(); graphs.vertices.len()];
    let sql = "SELECT c.partition, e.entity_id, c.level, c.id, c.stale FROM {s}.community c \
               JOIN {s}.community_entity e ON e.community_id = c.id ORDER BY c.level, c.id";
    collection.stream(sql, &[], |row| {
        let partition = names.get(row.need::<String>(1)?.as_str()).copied().unwrap_or(u32::MAX);
        if let Some(&vertex) = index.get(&(partition, row.need(2)?)) {
            let Old(labels, stale) = &mut old[vertex as usize];
            labels.push(row.need(4)?);
            *stale = row.need(5)?;
        }
        Ok(())
    })?;
    let of_partition = |bounds: &[usize]| {
        let old = &old[bounds[0]..bounds[1]];
        let deepest = old.iter().map(|Old(labels, _)| labels.len()).max().unwrap_or(0).max(1);
        let levels = (0..deepest).map(|level| {
            let mut numbers: HashMap<i64, u32> = HashMap::new();
            let mut next = 0;
            let mut fresh = || {
                next += 1;
                next - 1
            };
            let label = |Old(labels, _): &Old| match labels.get(level).or(labels.last()) {
                Some(id) => *numbers.entry(*id).or_insert_with(&mut fresh),
                None => fresh(),
            };
            old.iter().map(label).collect()
        });
        let changed = |(_, Old(labels, stale)): &(usize, &Old)| *stale || labels.is_empty();
        Before {
            levels: levels.collect(),
            changed: old
                .iter()
                .enumerate()
                .filter(changed)
                .map(|(at, _)| at as u32)
                .collect(),
        }
    };
    Ok(graphs.starts.windows(2).map(of_partition).collect())
}

impl Graphs {
    /// The vertex of an entity within a partition.
    fn index(&self) -> HashMap<(u32, i64), u32> {
        let vertices = self.vertices.iter().enumerate();
        vertices.map(|(i, v)| ((v.partition, v.entity), i as u32)).collect()
    }

    fn names(&self) -> HashMap<&str, u32> {
        let partitions = self.partitions.iter().enumerate();
        partitions
            .map(|(i, partition)| (partition.as_str(), i as u32))
            .collect()
    }
}

/// The graph of each partition, vertices in the order of partition and folded name.
///
/// Without partitions an edge is a row of `relation`, if the collection bears it out. With them it is what the documents of one partition assert,
/// weighted by their blocks alone; what was stated by hand belongs to the partition of documents without the key.
fn load(collection: &Collection) -> Result<Graphs> {
    // Who deletes an entity or a community by hand is waited for, and waits: nothing else would take the memberships with it that are about to
    // be written.
    collection.execute("LOCK TABLE {s}.entity IN SHARE MODE", &[])?;
    collection.execute("LOCK TABLE {s}.community IN SHARE ROW EXCLUSIVE MODE", &[])?;
    let whole = collection.options.partition_by.is_empty();
    let kept = if whole { kept(collection, "r")? } else { String::new() };
    // The ends are looked at only where they tell what is kept.
    let ends = match kept.as_str() {
        "true" => "",
        _ => "JOIN {s}.entity s ON s.id = r.source_id JOIN {s}.entity t ON t.id = r.target_id",
    };
    let whole_sql = format!("SELECT '', r.source_id, r.target_id, r.weight FROM {{s}}.relation r {ends} WHERE {kept}");
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
             UNION SELECT $1, id FROM {s}.entity WHERE given OR row_key IS NOT NULL",
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
        bytes_needed(counts.0 as usize, counts.1 as usize) + counts.0 as usize * 200 + counts.1 as usize * 64,
        "the graph of this collection",
    )?;

    let args = || if whole { vec![] } else { vec![nowhere.as_str().into()] };
    let mut graphs = Graphs::default();
    let sql = format!(
        "SELECT v.partition, v.entity_id, e.key FROM ({vertices_sql}) v JOIN {{s}}.entity e ON e.id = v.entity_id \
         ORDER BY v.partition COLLATE \"C\", e.key COLLATE \"C\""
    );
    collection.stream(&sql, &args(), |row| {
        let partition: String = row.need(1)?;
        if graphs.partitions.last() != Some(&partition) {
            graphs.partitions.push(partition);
            graphs.starts.push(graphs.vertices.len());
        }
        graphs.vertices.push(Vertex {
            partition: graphs.partitions.len() as u32 - 1,
            entity: row.need(2)?,
            key: row.need(3)?,
        });
        Ok(())
    })?;
    graphs.starts.push(graphs.vertices.len());
    let mut edges = vec![Vec::new(); graphs.partitions.len()];
    let (index, names) = (graphs.index(), graphs.names());
    collection.stream(edges_sql, &args(), |row| {
        let partition = names.get(row.need::<String>(1)?.as_str()).copied().unwrap_or(u32::MAX);
        let end = |column| Ok::<_, Error>(index.get(&(partition, row.need(column)?)).copied());
        if let (Some(source), Some(target)) = (end(2)?, end(3)?) {
            let first = graphs.starts[partition as usize] as u32;
            edges[partition as usize].push((source - first, target - first, row.need::<f64>(4)? as f32));
        }
        Ok(())
    })?;
    graphs.edges = edges;
    Ok(graphs)
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
