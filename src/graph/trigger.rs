//! The trigger functions of `relation`, `entity` and `community`: what is written by hand counts as much as what the functions write.

use std::convert::Infallible;

use pgrx::AllocatedByRust;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::prelude::*;

use super::merge::{lock_rows, mark_stale};
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
    mark_stale(&collection, &entities)?;
    let moved = match trigger.op() {
        Ok(PgTriggerOperation::Update) => {
            let moves = "SELECT n.source_id, n.target_id, o.source_id, o.target_id FROM new_rows n JOIN old_rows o ON o.id = n.id \
                         WHERE n.source_id <> o.source_id OR n.target_id <> o.target_id";
            let sql = format!("SELECT DISTINCT unnest(ARRAY[a, b, c, d]) FROM ({moves}) m (a, b, c, d)");
            Transition(trigger).query(&sql, &[], |row| row.need(1))?
        }
        _ => entities,
    };
    if moved.is_empty() {
        return Ok(());
    }
    lock_rows(&collection, "entity", &moved)?;
    let sql = "UPDATE {s}.entity t SET degree = coalesce(c.degree, 0) \
               FROM unnest($1) AS wanted (id) LEFT JOIN (SELECT id, count(*) AS degree FROM ( \
                 SELECT source_id AS id FROM {s}.relation WHERE source_id = ANY ($1) AND target_id <> source_id \
                 UNION ALL SELECT target_id FROM {s}.relation WHERE target_id = ANY ($1) AND target_id <> source_id) e \
                 GROUP BY 1) c ON c.id = wanted.id \
               WHERE t.id = wanted.id AND t.degree <> coalesce(c.degree, 0)";
    collection.execute(sql, &[moved.into()])?;
    Ok(())
}

/// AFTER DELETE or TRUNCATE on entity or community, each statement: takes the memberships with them. A community that loses members is
/// stale, its report is empty, and without any it is gone.
#[pg_trigger(sql = false)]
fn _member_change<'a>(trigger: &'a PgTrigger<'a>) -> Result<Option<PgHeapTuple<'a, AllocatedByRust>>, Infallible> {
    raise(member_change(trigger));
    Ok(None)
}

fn member_change(trigger: &PgTrigger) -> error::Result<()> {
    let table = trigger.table_name().unwrap_or_default();
    if !matches!(table.as_str(), "entity" | "community") {
        return Err(misplaced());
    }
    let collection = Collection::of_trigger(table_schema(trigger)?, table_owner(trigger)?)?;
    let is_truncate = matches!(trigger.op(), Ok(PgTriggerOperation::Truncate));
    if is_truncate {
        collection.execute("DELETE FROM {s}.community_entity", &[])?;
        collection.execute("DELETE FROM {s}.community", &[])?;
        return Ok(());
    }
    let gone: Vec<i64> = Transition(trigger).query("SELECT id FROM old_rows", &[], |row| row.need(1))?;
    if gone.is_empty() {
        return Ok(());
    }
    let sql = format!("DELETE FROM {{s}}.community_entity WHERE {table}_id = ANY ($1) RETURNING community_id");
    let mut communities: Vec<i64> = collection.returning(&sql, &[gone.into()], |row| row.need(1))?;
    if table == "entity" && !communities.is_empty() {
        communities.sort_unstable();
        communities.dedup();
        lock_rows(&collection, "community", &communities)?;
        // The reports name what is gone.
        let sql = "UPDATE {s}.community c SET stale = true, title = NULL, summary = NULL, findings = NULL, text = NULL, rating = NULL, \
                     embedding = NULL, size = (SELECT count(*) FROM {s}.community_entity e WHERE e.community_id = c.id) WHERE id = ANY ($1)";
        collection.execute(sql, &[communities.clone().into()])?;
        collection.execute(
            "DELETE FROM {s}.community WHERE size = 0 AND id = ANY ($1)",
            &[communities.into()],
        )?;
    }
    Ok(())
}
