//! The roots of the tree: the nodes that have nothing above them.

use crate::collection::Collection;
use crate::error::Result;

/// The condition on a node `n` that it is a root.
///
/// Where policies hide nodes, what stands below hidden ones alone is a root for the reader.
pub fn condition(collection: &Collection) -> Result<&'static str> {
    let sql = "SELECT row_security_active(oid) FROM pg_class WHERE relnamespace = $1 AND relname = 'node'";
    let hides = collection.query_one(sql, &[collection.oid.into()], |row| row.need(1))?;
    Ok(match hides {
        false => "NOT EXISTS (SELECT FROM {s}.node_child c WHERE c.child_id = n.id)",
        true => {
            "NOT EXISTS (SELECT FROM {s}.node_child c JOIN {s}.node p ON p.id = c.parent_id WHERE c.child_id = n.id)"
        }
    })
}

/// Calls `each` with id and level of every root, and whether it is a summary without a vector. Leaves that are not in a tree
/// are roots of their own.
pub fn each(collection: &Collection, mut each: impl FnMut(i64, i32, bool) -> Result<()>) -> Result<()> {
    let root = condition(collection)?;
    let sql = format!("SELECT n.id, n.level, n.level > 0 AND n.embedding IS NULL FROM {{s}}.node n WHERE {root}");
    collection.stream(&sql, &[], |row| each(row.need(1)?, row.need(2)?, row.need(3)?))
}
