//! The trigger function of `relation`: rows written by hand count as much as those of the functions.

use std::convert::Infallible;

use pgrx::AllocatedByRust;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::prelude::*;

use super::merge::mark_stale;
use crate::collection::Collection;
use crate::error::{self, Error, raise};
use crate::pg::trigger::{Transition, misplaced, table_owner, table_schema};

/// AFTER INSERT, UPDATE, DELETE or TRUNCATE on relation, each statement: recounts the degrees of both ends and marks the
/// reports that they stand in as stale.
#[pg_trigger(sql = false)]
fn _relation_change<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<PgHeapTuple<'a, AllocatedByRust>>, Infallible> {
    raise(relation_change(trigger));
    Ok(None)
}

fn relation_change(trigger: &PgTrigger) -> error::Result<()> {
    if !trigger.table_name().is_ok_and(|table| table == "relation") {
        return Err(misplaced());
    }
    let collection = Collection::of_trigger(table_schema(trigger)?, table_owner(trigger)?)?;
    let ends = match trigger.op().map_err(|e| Error::internal(e.to_string()))? {
        PgTriggerOperation::Insert => "SELECT source_id, target_id FROM new_rows",
        PgTriggerOperation::Delete => "SELECT source_id, target_id FROM old_rows",
        PgTriggerOperation::Update => {
            "SELECT source_id, target_id FROM new_rows UNION ALL SELECT source_id, target_id FROM old_rows"
        }
        PgTriggerOperation::Truncate => {
            collection.execute("UPDATE {s}.entity SET degree = 0 WHERE degree <> 0", &[])?;
            collection.execute("UPDATE {s}.community SET stale = true WHERE NOT stale", &[])?;
            return Ok(());
        }
    };
    let sql = format!("SELECT DISTINCT unnest(ARRAY[source_id, target_id]) FROM ({ends}) e");
    let entities: Vec<i64> = Transition(trigger).query(&sql, &[], |row| row.need(1))?;
    if entities.is_empty() {
        return Ok(());
    }
    // Rows are locked in one order, so that two sessions cannot wait for each other.
    let sql = "WITH entity AS MATERIALIZED (SELECT id FROM {s}.entity WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE), \
                 counted AS (SELECT e.id, \
                   (SELECT count(*) FROM {s}.relation r WHERE r.source_id = e.id AND r.target_id <> e.id) \
                   + (SELECT count(*) FROM {s}.relation r WHERE r.target_id = e.id AND r.source_id <> e.id) AS degree \
                 FROM entity e) \
               UPDATE {s}.entity t SET degree = c.degree FROM counted c WHERE t.id = c.id AND t.degree <> c.degree";
    collection.execute(sql, &[entities.clone().into()])?;
    mark_stale(&collection, &entities)
}
