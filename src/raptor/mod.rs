//! RAPTOR: a tree of summaries over the leaves, and the search in leaves and summaries alike.

mod build;
mod search;

use crate::collection::Collection;
use crate::error::Result;

/// Deletes what was derived over documents that have moved to another partition.
pub fn leave_partition(collection: &Collection, ids: &[i64]) -> Result<()> {
    let sql = "DELETE FROM {s}.node WHERE level > 0 AND id IN \
                 (SELECT node_id FROM {s}.node_source WHERE document_id = ANY ($1))";
    collection.execute(sql, &[ids.to_vec().into()])?;
    let sql = "DELETE FROM {s}.community WHERE id IN \
                 (SELECT community_id FROM {s}.community_source WHERE document_id = ANY ($1))";
    collection.execute(sql, &[ids.to_vec().into()])?;
    Ok(())
}
