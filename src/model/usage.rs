//! rag_usage: what models have been asked and what it cost.

use pgrx::AnyNumeric;
use pgrx::prelude::*;

use crate::collection::Collection;
use crate::error::{Result, sql};

type UsageRow = (String, i64, Option<i64>, Option<i64>, Option<AnyNumeric>, i64, i64);

/// SQL: `rag_usage(collection)`.
#[pg_extern(sql = false)]
fn rag_usage(
    collection: Option<&str>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(step, String),
            name!(calls, i64),
            name!(prompt_tokens, Option<i64>),
            name!(completion_tokens, Option<i64>),
            name!(cost, Option<AnyNumeric>),
            name!(failed, i64),
            name!(repaired, i64),
        ),
    >,
> {
    Ok(TableIterator::new(usage(collection)?))
}

fn usage(name: Option<&str>) -> Result<Vec<UsageRow>> {
    let collection = Collection::read(name)?;
    let sql = "SELECT step, sum(attempts)::bigint, \
                      (sum(prompt_tokens) FILTER (WHERE prompt_tokens BETWEEN 0 AND 1e15))::bigint, \
                      (sum(completion_tokens) FILTER (WHERE completion_tokens BETWEEN 0 AND 1e15))::bigint, trim_scale(sum(cost)), \
                      count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE repairs <> '{}') \
               FROM {s}.model_call WHERE attempts > 0 GROUP BY 1 \
               ORDER BY array_position(ARRAY['embed', 'reembed', 'tree', 'extract', 'describe', 'resolve', 'reports', 'map', 'ask'], step), step";
    collection.query(sql, &[], |row| {
        Ok((
            row.need(1)?,
            row.need(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.need(6)?,
            row.need(7)?,
        ))
    })
}
