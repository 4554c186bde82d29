//! The walk down the tree: from the roots, level by level, always on from the nodes that are nearest to the question.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Asked;
use crate::collection::{Collection, literal};
use crate::error::{Result, notice};
use crate::pg::{memory, spi, tick, vector::Vector};
use crate::raptor::roots;
use crate::search::{SCORE, Scope, TYPES, in_order};

/// What a node costs that waits for its level.
const BYTES_PER_NODE: usize = 100;

/// Nodes that wait for their level.
#[derive(Default)]
struct Waiting {
    /// By level, the steps from a root to each node, the root being 1.
    levels: BTreeMap<i32, HashMap<i64, i32>>,
    /// Summaries without a vector: they wait to be written anew, and the walk goes through them.
    empty: HashSet<i64>,
    nodes: usize,
}

impl Waiting {
    fn add(&mut self, id: i64, level: i32, empty: bool, step: i32) {
        self.nodes += 1;
        if empty {
            self.empty.insert(id);
        }
        let steps = self.levels.entry(level).or_default().entry(id).or_insert(step);
        *steps = step.min(*steps);
    }
}

/// The nodes that the walk has kept and that are wholly in scope: (id, cosine), best first, ties in canonical order.
///
/// A node that is not in scope is walked through, as long as a document that passes is below it.
pub fn walk(collection: &Collection, query: &Vector, asked: &Asked, scope: &Scope) -> Result<Vec<(i64, f64)>> {
    let mut waiting = Waiting::default();
    roots::each(collection, |id, level, empty| {
        waiting.add(id, level, empty, 1);
        Ok(())
    })?;
    memory::check(waiting.nodes * BYTES_PER_NODE, "the walk of this search")?;
    if waiting.levels.keys().all(|level| *level == 0) && waiting.nodes > 1 {
        notice(
            "there is no tree to walk down, so leaves alone are searched",
            format!("SELECT raptor_build({})", literal(&collection.name)),
        );
    }
    let mut walked: HashSet<i64> = HashSet::new();
    let mut found = Vec::new();
    while let Some((level, mut nodes)) = waiting.levels.pop_last() {
        if level < *scope.levels().start() {
            break;
        }
        tick();
        // Rows written by hand may go in a circle.
        nodes.retain(|id, _| walked.insert(*id));
        let (through, scored): (Vec<i64>, Vec<i64>) = nodes.keys().partition(|id| waiting.empty.contains(id));
        let kept = nearest(collection, query, asked.width, scope, scored)?;
        let mut on: HashMap<i64, i32> = through.iter().map(|id| (*id, nodes[id])).collect();
        on.extend(kept.iter().map(|hit| (hit.id, nodes[&hit.id] + 1)));
        on.retain(|_, step| *step <= asked.depth);
        found.extend(kept.into_iter().filter(|hit| hit.shown));
        children(collection, &on, &mut waiting)?;
        memory::check(waiting.nodes * BYTES_PER_NODE, "the walk of this search")?;
    }
    // Stable: nodes of one level stand in canonical order already.
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.level.cmp(&b.level)));
    Ok(found.into_iter().map(|hit| (hit.id, hit.score)).collect())
}

struct Kept {
    id: i64,
    score: f64,
    level: i32,
    shown: bool,
}

/// The `width` nearest of some nodes of one level.
fn nearest(collection: &Collection, query: &Vector, width: i64, scope: &Scope, ids: Vec<i64>) -> Result<Vec<Kept>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let nearest = format!(
        "SELECT n.id, {SCORE} AS score, {} AS shown FROM unnest($5::bigint[]) AS u (id) JOIN {{s}}.node n ON n.id = u.id \
         WHERE n.embedding IS NOT NULL AND {} AND {TYPES} ORDER BY -({SCORE}) FETCH FIRST $4 ROWS WITH TIES",
        scope.on_row("node"),
        leads_to_scope(scope)
    );
    let args = [
        query.clone().into(),
        scope.filter(),
        scope.documents(),
        width.into(),
        ids.into(),
    ];
    collection.query(&in_order("node", &nearest), &args, |row: &spi::Row| {
        Ok(Kept {
            id: row.need(1)?,
            score: row.need(2)?,
            shown: row.need(3)?,
            level: row.need(4)?,
        })
    })
}

/// The condition on a node `n` that it, or a document below it, passes the filter and the documents: without it a walk
/// could end where nothing may be shown.
fn leads_to_scope(scope: &Scope) -> String {
    if scope.is_everything() {
        return "true".to_owned();
    }
    let passes = scope.on_document();
    format!(
        "CASE WHEN n.level = 0 THEN EXISTS (SELECT FROM {{s}}.document d WHERE d.id = n.document_id AND {passes}) \
         ELSE EXISTS (SELECT FROM {{s}}.node_source s JOIN {{s}}.document d ON d.id = s.document_id \
                      WHERE s.node_id = n.id AND {passes}) END"
    )
}

/// Lets the children of some nodes wait, each with the step that stands beside its parent.
fn children(collection: &Collection, parents: &HashMap<i64, i32>, waiting: &mut Waiting) -> Result<()> {
    let ids: Vec<i64> = parents.keys().copied().collect();
    let sql = "SELECT c.parent_id, n.id, n.level, n.level > 0 AND n.embedding IS NULL \
               FROM {s}.node_child c JOIN {s}.node n ON n.id = c.child_id WHERE c.parent_id = ANY ($1)";
    collection.stream(sql, &[ids.into()], |row| {
        waiting.add(row.need(2)?, row.need(3)?, row.need(4)?, parents[&row.need(1)?]);
        Ok(())
    })
}
