//! What a document that goes, or whose text changes, takes with it: every derived row that draws on it.

use super::no_longer_waiting;
use crate::collection::Collection;
use crate::error::Result;
use crate::graph;
use crate::model::{ledger, lsa};

/// Removes everything derived from the documents `ids`. With `gone`, also what was given of them by hand; without it the
/// documents stay and are about to be cut anew.
///
/// Summaries over a document are emptied, since their text may hold its words; the next refresh or raptor_build writes them anew.
/// Reports of communities are emptied and marked stale.
pub fn forget_documents(collection: &Collection, ids: &[i64], gone: bool) -> Result<()> {
    let ids_arg = || ids.to_vec().into();
    let graph_before = graph::touched_by(collection, ids)?;
    let all = if gone { "true" } else { "NOT given" };
    if !gone {
        for table in ["evidence", "mention", "claim"] {
            let sql = format!("UPDATE {{s}}.{table} SET block_id = NULL WHERE document_id = ANY ($1) AND given");
            collection.execute(&sql, &[ids_arg()])?;
        }
    }
    empty_summaries(collection, ids)?;
    if gone {
        no_longer_waiting(collection, ids)?;
        ledger::forget_answers(collection, ids)?;
    } else {
        ledger::suspect_documents(collection, ids)?;
    }
    for sql in [
        &format!("DELETE FROM {{s}}.evidence WHERE document_id = ANY ($1) AND {all}"),
        &format!("DELETE FROM {{s}}.mention WHERE document_id = ANY ($1) AND {all}"),
        &format!("DELETE FROM {{s}}.claim WHERE document_id = ANY ($1) AND {all}"),
    ] {
        collection.execute(sql, &[ids_arg()])?;
    }
    for table in ["node", "block"] {
        let sql = format!("DELETE FROM {{s}}.{table} WHERE document_id = ANY ($1) RETURNING id::text");
        let keys: Vec<String> = collection.returning(&sql, &[ids_arg()], |row| row.need(1))?;
        // Of documents that are cut for the first time, there are none.
        if !keys.is_empty() {
            let sql = "DELETE FROM {s}.change WHERE \"table\" = $1 AND key = ANY ($2)";
            collection.execute(sql, &[table.into(), keys.into()])?;
        }
    }
    let sql = "UPDATE {s}.community SET title = NULL, summary = NULL, findings = NULL, text = NULL, rating = NULL, \
                 embedding = NULL, stale = true \
               WHERE id IN (SELECT community_id FROM {s}.community_source WHERE document_id = ANY ($1))";
    collection.execute(sql, &[ids_arg()])?;
    graph::recount(collection, &graph_before)?;
    graph::settle_communities(collection, ids)
}

/// Empties the summaries over documents that have moved to another partition, which their leaves leave, and deletes the communities.
pub fn leave_partition(collection: &Collection, ids: &[i64]) -> Result<()> {
    empty_summaries(collection, ids)?;
    let sql = "DELETE FROM {s}.node_child c USING {s}.node n WHERE n.id = c.child_id AND n.level = 0 AND n.document_id = ANY ($1)";
    collection.execute(sql, &[ids.to_vec().into()])?;
    let sql = "DELETE FROM {s}.community WHERE id IN \
                 (SELECT community_id FROM {s}.community_source WHERE document_id = ANY ($1))";
    collection.execute(sql, &[ids.to_vec().into()])?;
    Ok(())
}

/// Takes their words from the summaries over the documents `ids`, and these from their sources. Which nodes they are over stays known, so that a
/// refresh need not cluster anew; those that are over nothing else go.
fn empty_summaries(collection: &Collection, ids: &[i64]) -> Result<()> {
    // From the root down: whoever comes later waits there, and holds nothing that the first may still want.
    let sql = "SELECT FROM {s}.node n WHERE n.level > 0 AND n.id IN (SELECT node_id FROM {s}.node_source WHERE document_id = ANY ($1)) \
               ORDER BY n.level DESC, n.id FOR UPDATE";
    collection.execute(sql, &[ids.to_vec().into()])?;
    let sql = "WITH gone AS (DELETE FROM {s}.node_source WHERE document_id = ANY ($1) RETURNING node_id), \
                 touched AS (SELECT node_id, count(*) AS documents FROM gone GROUP BY 1) \
               UPDATE {s}.node n SET text = '', text_hash = sha256(''), token_count = 0, metadata = '{}', embedding = NULL, stale = true, \
                 member_hash = NULL, source_count = n.source_count - t.documents FROM touched t WHERE n.id = t.node_id AND n.level > 0 \
               RETURNING n.id, n.source_count";
    let touched: Vec<(i64, i32)> =
        collection.returning(sql, &[ids.to_vec().into()], |row| Ok((row.need(1)?, row.need(2)?)))?;
    let empty: Vec<i64> = touched.iter().filter(|node| node.1 <= 0).map(|node| node.0).collect();
    collection.execute("DELETE FROM {s}.node WHERE id = ANY ($1)", &[empty.into()])?;
    Ok(())
}

/// Empties all derived tables, after TRUNCATE of the documents. Relations and entities that rest on no document stay.
pub fn forget_all(collection: &Collection) -> Result<()> {
    let touched = graph::touched_by_all(collection)?;
    let sql = "TRUNCATE {s}.block, {s}.node, {s}.node_child, {s}.node_source, {s}.posting, {s}.term, {s}.mention, \
               {s}.evidence, {s}.claim, {s}.community, {s}.community_entity, {s}.community_source, {s}.model_call_source, \
               {s}.change";
    ledger::forget(
        collection,
        "SELECT key FROM {s}.model_call WHERE status <> 'forgotten'",
        &[],
    )?;
    collection.execute(sql, &[])?;
    lsa::unlearn(collection)?;
    graph::recount(collection, &touched)
}

/// Brings metadata and partition of the leaves of `ids` up to their documents, and recomputes the shared metadata of
/// what is derived from them.
pub fn refresh_metadata(collection: &Collection, ids: &[i64]) -> Result<()> {
    let ids_arg = || ids.to_vec().into();
    let sql = "UPDATE {s}.node n SET metadata = d.metadata, partition = d.partition FROM {s}.document d \
               WHERE n.document_id = d.id AND n.level = 0 AND d.id = ANY ($1) \
               AND (n.metadata <> d.metadata OR n.partition <> d.partition)";
    collection.execute(sql, &[ids_arg()])?;
    for table in ["node", "community"] {
        let sql = format!(
            "SELECT s.{table}_id, count(*) = c.source_count FROM {{s}}.{table}_source s JOIN {{s}}.{table} c ON c.id = s.{table}_id \
             WHERE s.document_id = ANY ($1) GROUP BY 1, c.source_count"
        );
        let touched: Vec<(i64, bool)> = collection.query(&sql, &[ids_arg()], |row| Ok((row.need(1)?, row.need(2)?)))?;
        let of = |all: bool| {
            touched
                .iter()
                .filter(|row| row.1 == all)
                .map(|row| row.0)
                .collect::<Vec<i64>>()
        };
        share_metadata(collection, table, &of(true))?;
        narrow_metadata(collection, table, &of(false), ids)?;
    }
    Ok(())
}

/// Takes from the metadata of summaries or communities the pairs that the documents `ids` do not have any more.
///
/// That needs no look at the other documents behind them. A pair that all of them share only now is added by the next build.
fn narrow_metadata(collection: &Collection, table: &str, rows: &[i64], ids: &[i64]) -> Result<()> {
    graph::lock_rows(collection, table, rows)?;
    let sql = format!(
        "UPDATE {{s}}.{table} t SET metadata = coalesce((SELECT jsonb_object_agg(e.key, e.value) FROM jsonb_each(t.metadata) e \
           WHERE NOT EXISTS (SELECT FROM {{s}}.{table}_source s JOIN {{s}}.document d ON d.id = s.document_id \
             WHERE s.{table}_id = t.id AND s.document_id = ANY ($2) \
             AND NOT d.metadata @> jsonb_build_object(e.key, e.value))), '{{}}') \
         WHERE t.id = ANY ($1) AND t.metadata <> '{{}}'"
    );
    collection.execute(&sql, &[rows.to_vec().into(), ids.to_vec().into()])?;
    Ok(())
}

/// Sets the metadata of summaries (`node`) or communities to the pairs that all documents behind each share, so that
/// containment can never find a text that has seen a document without the pair.
pub fn share_metadata(collection: &Collection, table: &str, rows: &[i64]) -> Result<()> {
    graph::lock_rows(collection, table, rows)?;
    let sql = format!(
        "UPDATE {{s}}.{table} t SET metadata = coalesce(shared.pairs, '{{}}') \
         FROM unnest($1) AS wanted (id) LEFT JOIN ( \
           SELECT id, jsonb_object_agg(key, value) AS pairs FROM ( \
             SELECT s.{table}_id AS id, e.key, e.value FROM {{s}}.{table}_source s \
             JOIN {{s}}.document d ON d.id = s.document_id, jsonb_each(d.metadata) e \
             WHERE s.{table}_id = ANY ($1) GROUP BY 1, 2, 3 \
             HAVING count(*) = (SELECT source_count FROM {{s}}.{table} c WHERE c.id = s.{table}_id)) pair \
           GROUP BY id) shared ON shared.id = wanted.id \
         WHERE t.id = wanted.id AND t.metadata IS DISTINCT FROM coalesce(shared.pairs, '{{}}')"
    );
    collection.execute(&sql, &[rows.to_vec().into()])?;
    Ok(())
}
