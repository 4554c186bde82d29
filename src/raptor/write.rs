//! Writes a planned tree.

use super::plan::{Plan, Summary};
use crate::collection::Collection;
use crate::error::Result;
use crate::pg::{tick, vector};

/// Summaries that are written at once.
const BATCH: usize = 200;

/// Writes the summaries of one partition, children before parents.
pub fn write(collection: &Collection, partition: &str, plan: Plan) -> Result<()> {
    let mut ids = plan.leaves;
    // A statement writes nodes of one level only: it reads the metadata of their children.
    for level in plan.summaries.chunk_by(|a, b| a.level == b.level) {
        for part in level.chunks(BATCH) {
            let new = write_part(collection, partition, &ids, part)?;
            ids.extend(new);
            tick();
        }
    }
    Ok(())
}

fn write_part(collection: &Collection, partition: &str, ids: &[i64], summaries: &[Summary]) -> Result<Vec<i64>> {
    let sql = "SELECT nextval(pg_get_serial_sequence($1, 'id')) FROM generate_series(1, $2)";
    let table = format!("{}.node", collection.schema);
    let args = [table.into(), (summaries.len() as i32).into()];
    let new: Vec<i64> = collection.returning(sql, &args, |row| row.need(1))?;
    let (mut parents, mut children) = (Vec::new(), Vec::new());
    let (mut sources, mut source_of) = (Vec::new(), Vec::new());
    for (id, summary) in new.iter().zip(summaries) {
        parents.extend(std::iter::repeat_n(*id, summary.children.len()));
        children.extend(summary.children.iter().map(|&child| ids[child as usize]));
        source_of.extend(std::iter::repeat_n(*id, summary.documents.len()));
        sources.extend_from_slice(&summary.documents);
    }
    let of = |value: fn(&Summary) -> i32| summaries.iter().map(value).collect::<Vec<i32>>();
    // What all children share is what all documents below share.
    let sql = "WITH pair AS (SELECT u.parent, e.key, e.value, count(*) AS having \
                 FROM unnest($1::bigint[], $2::bigint[]) AS u (parent, child) JOIN {s}.node n ON n.id = u.child, \
                      jsonb_each(n.metadata) e GROUP BY 1, 2, 3), \
               size AS (SELECT parent, count(*) AS children FROM unnest($1) AS u (parent) GROUP BY 1), \
               shared AS (SELECT p.parent, jsonb_object_agg(p.key, p.value) AS pairs FROM pair p JOIN size USING (parent) \
                 WHERE p.having = size.children GROUP BY 1) \
               INSERT INTO {s}.node (id, level, partition, text, text_hash, token_count, metadata, embedding, source_count, stale) \
               SELECT u.id, u.level, $8, u.text, u.text_hash, u.token_count, coalesce(s.pairs, '{}'), u.embedding, u.source_count, \
                      u.stale \
               FROM unnest($3::bigint[], $4::text[], $5::bytea[], $6::int[], $7::{v}.vector[], $9::int[], $10::int[], $11::boolean[]) \
                    AS u (id, text, text_hash, token_count, embedding, level, source_count, stale) \
               LEFT JOIN shared s ON s.parent = u.id ORDER BY u.id";
    let args = [
        parents.clone().into(),
        children.clone().into(),
        new.clone().into(),
        summaries.iter().map(|s| s.text.clone()).collect::<Vec<_>>().into(),
        summaries.iter().map(|s| s.hash.clone()).collect::<Vec<_>>().into(),
        of(|s| s.tokens).into(),
        vector::Vectors(summaries.iter().map(|s| s.embedding.as_deref()).collect()).into(),
        partition.into(),
        of(|s| s.level as i32).into(),
        of(|s| s.documents.len() as i32).into(),
        summaries.iter().map(|s| s.stale).collect::<Vec<bool>>().into(),
    ];
    collection.execute(sql, &args)?;
    let sql = "INSERT INTO {s}.node_child (parent_id, child_id) SELECT * FROM unnest($1::bigint[], $2::bigint[])";
    collection.execute(sql, &[parents.into(), children.into()])?;
    let sql = "INSERT INTO {s}.node_source (node_id, document_id) SELECT * FROM unnest($1::bigint[], $2::bigint[])";
    collection.execute(sql, &[source_of.into(), sources.into()])?;
    Ok(new)
}
