//! rag_status.

use pgrx::prelude::*;

use super::Collection;
use crate::error::{Result, sql};

/// SQL: `rag_status(collection)`.
#[pg_extern(sql = false)]
fn rag_status(
    collection: Option<&str>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(step, String),
            name!(total, i64),
            name!(done, i64),
            name!(pending, i64),
            name!(failed, i64),
            name!(built_at, Option<TimestampWithTimeZone>),
            name!(model, Option<String>),
            name!(calls, i64),
            name!(waiting, i64),
        ),
    >,
> {
    Ok(TableIterator::new(status(collection)?))
}

type StatusRow = (
    String,
    i64,
    i64,
    i64,
    i64,
    Option<TimestampWithTimeZone>,
    Option<String>,
    i64,
    i64,
);

fn status(name: Option<&str>) -> Result<Vec<StatusRow>> {
    let collection = Collection::read(name)?;
    let sql = "WITH counts (position, step, total, done, role) AS ( \
         SELECT 1, 'chunk', d.total, d.total - (SELECT count(DISTINCT key) FROM {s}.change WHERE \"table\" = 'document') \
                - (SELECT count(*) FROM {s}.document WHERE body_hash = ''), NULL \
           FROM (SELECT count(*) AS total FROM {s}.document) d \
         UNION ALL SELECT 2, 'embed', n.total, n.total - (SELECT count(DISTINCT key) FROM {s}.change WHERE \"table\" = 'node'), \
                'embedder' FROM (SELECT count(*) AS total FROM {s}.node WHERE level = 0) n \
         UNION ALL SELECT 3, 'tree', count(*), count(*) FILTER (WHERE alone OR EXISTS \
                (SELECT FROM {s}.node_child c JOIN {s}.node p ON p.id = c.parent_id WHERE c.child_id = n.id AND p.text <> '')), 'summarizer' \
           FROM (SELECT id, count(*) OVER (PARTITION BY partition) = 1 AS alone FROM {s}.node \
                 WHERE level = 0 AND embedding IS NOT NULL) n \
         UNION ALL SELECT 4, 'extract', b.total, b.total - (SELECT count(DISTINCT key) FROM {s}.change WHERE \"table\" = 'block'), \
                'extractor' FROM (SELECT count(*) AS total FROM {s}.block) b \
         UNION ALL SELECT 5, 'describe', count(*), count(*) FILTER (WHERE NOT stale), 'summarizer' \
           FROM (SELECT stale FROM {s}.entity WHERE fragments_hash IS NOT NULL \
                 UNION ALL SELECT stale FROM {s}.relation WHERE fragments_hash IS NOT NULL) d \
         UNION ALL SELECT 6, 'communities', count(*), count(*) FILTER (WHERE EXISTS \
                (SELECT FROM {s}.community_entity c WHERE c.entity_id = e.id)), NULL FROM {s}.entity e \
         UNION ALL SELECT 7, 'reports', count(*), count(text) FILTER (WHERE NOT stale AND (NOT lazy OR $1)), 'summarizer' \
           FROM {s}.community WHERE size > 1) \
       SELECT c.step, c.total, c.done, greatest(c.total - c.done - coalesce(m.failed, 0), 0), coalesce(m.failed, 0), \
              (s.value ->> 'built_at')::timestamptz, coalesce(r.value #>> '{}', s.value ->> 'model'), coalesce(m.calls, 0)::bigint, \
              coalesce(m.waiting, 0) \
       FROM counts c LEFT JOIN {s}.setting s ON s.key = 'step.' || c.step LEFT JOIN {s}.setting r ON r.key = c.role \
       LEFT JOIN (SELECT CASE step WHEN 'reembed' THEN 'embed' ELSE step END AS step, count(*) FILTER (WHERE status = 'failed') AS failed, \
                         sum(attempts) AS calls, \
                         count(*) FILTER (WHERE status = 'pending' AND NOT stale) AS waiting \
                  FROM {s}.model_call GROUP BY 1) m ON m.step = c.step \
       ORDER BY c.position";
    collection.query(sql, &[collection.options.lazy_reports.into()], |row| {
        Ok((
            row.need(1)?,
            row.need(2)?,
            row.need(3)?,
            row.need(4)?,
            row.need(5)?,
            row.get(6)?,
            row.get(7)?,
            row.need(8)?,
            row.need(9)?,
        ))
    })
}
