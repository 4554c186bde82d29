//! raptor_tree: the tree as rows, one for each way to a node.

use std::collections::{HashMap, HashSet};

use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;

use super::roots;
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, in_range, notice, required, sql};
use crate::pg::{memory, spi, tick};

/// Rows that are answered at most: where nodes have several parents, the ways to them multiply.
const MAX_ROWS: usize = 1_000_000;
/// Rows whose texts are read at once.
const BATCH: usize = 1_000;
/// What a node costs beside its edges, and what an edge costs.
const BYTES_PER_NODE: usize = 100;
const BYTES_PER_EDGE: usize = 50;
/// How the children of a node are ordered: summaries first, leaves as their documents stand.
const ORDER: &str =
    "n.level DESC, n.partition COLLATE \"C\", d.body_hash, d.source_key COLLATE \"C\", n.ordinal, n.text_hash, n.id";

type Row = (i64, Option<i64>, i32, i32, Vec<i64>, Option<f64>, i32, String);

/// SQL: `raptor_tree(collection, node_id, direction, depth)`.
#[pg_extern(sql = false)]
fn raptor_tree(
    collection: Option<&str>,
    node_id: Option<i64>,
    direction: Option<&str>,
    depth: Option<i32>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(node_id, i64),
            name!(parent_id, Option<i64>),
            name!(level, i32),
            name!(depth, i32),
            name!(path, Vec<i64>),
            name!(weight, Option<f64>),
            name!(token_count, i32),
            name!(text, String),
        ),
    >,
> {
    Ok(TableIterator::new(tree(collection, node_id, direction, depth)?))
}

fn tree(name: Option<&str>, node: Option<i64>, direction: Option<&str>, depth: Option<i32>) -> Result<Vec<Row>> {
    let up = match required(direction, "direction")? {
        "down" => false,
        "up" => true,
        other => {
            return Err(
                Error::invalid(format!("unknown direction \"{other}\"")).hint("Directions are 'down' and 'up'.")
            );
        }
    };
    let depth = match depth {
        None => i32::MAX,
        Some(depth) => in_range(Some(depth), "depth", 1..=1_000)?,
    };
    let collection = Collection::read(name)?;
    let mut graph = Graph::default();
    let starts = match (node, up) {
        (None, true) => {
            return Err(Error::invalid("direction \"up\" needs a node_id")
                .hint("Give the node above which to look, or use direction 'down' for the tree from its roots."));
        }
        (None, false) => graph.roots(&collection)?,
        (Some(id), _) => vec![graph.start(&collection, id)?],
    };
    graph.read(&collection, &starts, up, depth)?;
    // Upwards, the depth has chosen the nodes; they are shown from the top all the same.
    let ways = match up {
        false => graph.ways(&starts, depth)?,
        true => {
            let tops = graph.turn(&collection)?;
            graph.ways(&tops, i32::MAX)?
        }
    };
    read_texts(&collection, &graph, ways)
}

#[derive(Clone, Copy)]
struct Node {
    level: i32,
    /// A summary that waits to be written anew: its children are shown in its place.
    empty: bool,
}

/// The nodes and edges that were read.
#[derive(Default)]
struct Graph {
    nodes: HashMap<i64, Node>,
    /// From each node walked on from: what was reached, with the weight of the edge, in canonical order.
    edges: HashMap<i64, Vec<(i64, f64)>>,
    edge_count: usize,
}

/// One way to a node.
struct Way {
    path: Vec<i64>,
    weight: Option<f64>,
}

impl Graph {
    fn roots(&mut self, collection: &Collection) -> Result<Vec<i64>> {
        let sql = format!(
            "SELECT n.id, n.level, n.level > 0 AND n.text = '' FROM {{s}}.node n LEFT JOIN {{s}}.document d ON d.id = n.document_id \
             WHERE {} ORDER BY {ORDER}",
            roots::condition(collection)?
        );
        let mut roots = Vec::new();
        collection.stream(&sql, &[], |row| {
            roots.push(self.add(row)?);
            Ok(())
        })?;
        Ok(roots)
    }

    fn start(&mut self, collection: &Collection, id: i64) -> Result<i64> {
        let sql = "SELECT n.id, n.level, n.level > 0 AND n.text = '' FROM {s}.node n WHERE n.id = $1";
        let found = collection.query(sql, &[id.into()], |row| self.add(row))?;
        found.first().copied().ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
                format!("node {id} does not exist in collection {}", quoted(&collection.name)),
            )
            .hint("Summaries get new ids when the tree is built anew. raptor_search and raptor_tree without node_id show those that there are.")
        })
    }

    fn add(&mut self, row: &spi::Row) -> Result<i64> {
        let id = row.need(1)?;
        let node = Node {
            level: row.need(2)?,
            empty: row.need(3)?,
        };
        self.nodes.insert(id, node);
        Ok(id)
    }

    /// Reads what can be reached from some nodes, which are of depth 1. What is empty adds no depth.
    fn read(&mut self, collection: &Collection, starts: &[i64], up: bool, depth: i32) -> Result<()> {
        let (from, to) = if up {
            ("child_id", "parent_id")
        } else {
            ("parent_id", "child_id")
        };
        let sql = format!(
            "SELECT n.id, n.level, n.level > 0 AND n.text = '', c.{from}, c.weight FROM {{s}}.node_child c \
             JOIN {{s}}.node n ON n.id = c.{to} LEFT JOIN {{s}}.document d ON d.id = n.document_id \
             WHERE c.{from} = ANY ($1) ORDER BY {ORDER}"
        );
        let mut reached: HashSet<i64> = starts.iter().copied().collect();
        let (mut empty, mut next): (Vec<i64>, Vec<i64>) = starts.iter().partition(|id| self.nodes[id].empty);
        let mut at = 1;
        loop {
            let now = match empty.is_empty() {
                false => std::mem::take(&mut empty),
                true if at >= depth || next.is_empty() => return Ok(()),
                true => {
                    at += 1;
                    std::mem::take(&mut next)
                }
            };
            collection.stream(&sql, &[now.into()], |row| {
                let id = self.add(row)?;
                self.edges.entry(row.need(4)?).or_default().push((id, row.need(5)?));
                self.edge_count += 1;
                if reached.insert(id) {
                    match self.nodes[&id].empty {
                        true => empty.push(id),
                        false => next.push(id),
                    }
                }
                Ok(())
            })?;
            memory::check(
                self.nodes.len() * BYTES_PER_NODE + self.edge_count * BYTES_PER_EDGE,
                "the tree that is shown",
            )?;
        }
    }

    /// Turns edges that were read upwards round; answers the nodes with nothing above them.
    fn turn(&mut self, collection: &Collection) -> Result<Vec<i64>> {
        let ids: Vec<i64> = self.nodes.keys().copied().collect();
        let sql = format!(
            "SELECT n.id FROM {{s}}.node n LEFT JOIN {{s}}.document d ON d.id = n.document_id WHERE n.id = ANY ($1) ORDER BY {ORDER}"
        );
        let ordered = collection.query(&sql, &[ids.into()], |row| row.need::<i64>(1))?;
        let up = std::mem::take(&mut self.edges);
        let mut tops = Vec::new();
        for id in ordered {
            let parents = up.get(&id).map(Vec::as_slice).unwrap_or_default();
            if parents.is_empty() {
                tops.push(id);
            }
            for (parent, weight) in parents {
                self.edges.entry(*parent).or_default().push((id, *weight));
            }
        }
        Ok(tops)
    }

    /// The ways down from some nodes, in the order of reading, as far as `MAX_ROWS` goes.
    fn ways(&self, starts: &[i64], depth: i32) -> Result<Vec<Way>> {
        let mut ways = Vec::new();
        let mut bytes = 0;
        // What is still to be walked: a node, the weight of the edge to it, and how much of the trail leads to it.
        let mut ahead: Vec<(i64, Option<f64>, usize)> = starts.iter().rev().map(|id| (*id, None, 0)).collect();
        let mut trail: Vec<i64> = Vec::new();
        while let Some((id, weight, behind)) = ahead.pop() {
            tick();
            trail.truncate(behind);
            // Rows written by hand may go in a circle.
            if trail.contains(&id) {
                continue;
            }
            trail.push(id);
            let path: Vec<i64> = trail.iter().copied().filter(|id| !self.nodes[id].empty).collect();
            if (path.len() as i32) < depth {
                let children = self.edges.get(&id).into_iter().flatten().rev();
                ahead.extend(children.map(|(child, weight)| (*child, Some(*weight), trail.len())));
            }
            if self.nodes[&id].empty {
                continue;
            }
            if ways.len() == MAX_ROWS {
                notice(
                    format!("only the first {MAX_ROWS} rows of the tree are shown"),
                    "A smaller depth, or a node_id to start at, shows less.",
                );
                break;
            }
            bytes += path.len() * 8 + BYTES_PER_NODE;
            if ways.len() % BATCH == 0 {
                memory::check(bytes, "the tree that is shown")?;
            }
            ways.push(Way { path, weight });
        }
        Ok(ways)
    }
}

/// The rows of some ways, with the texts of the nodes at their ends.
fn read_texts(collection: &Collection, graph: &Graph, ways: Vec<Way>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut ways = ways.into_iter();
    loop {
        let part: Vec<Way> = ways.by_ref().take(BATCH).collect();
        if part.is_empty() {
            return Ok(rows);
        }
        let ids: Vec<i64> = part.iter().filter_map(|way| way.path.last().copied()).collect();
        let sql = "SELECT n.id, n.token_count, n.text FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) \
                   JOIN {s}.node n ON n.id = u.id ORDER BY u.n";
        let texts = collection.query(sql, &[ids.into()], |row| {
            Ok((row.need::<i64>(1)?, row.need::<i32>(2)?, row.need::<String>(3)?))
        })?;
        for (way, (id, tokens, text)) in part.into_iter().zip(texts) {
            bytes += text.len() + way.path.len() * 8 + BYTES_PER_NODE;
            let parent = way.path.iter().rev().nth(1).copied();
            let depth = way.path.len() as i32;
            rows.push((
                id,
                parent,
                graph.nodes[&id].level,
                depth,
                way.path,
                way.weight,
                tokens,
                text,
            ));
        }
        memory::check(bytes, "the tree that is shown")?;
    }
}
