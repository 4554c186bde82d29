//! Reading and writing rows. Every call opens and closes SPI of its own, since pgrx frees result tables only then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use pgrx::datum::{DatumWithOid, FromDatum, IntoDatum};
use pgrx::pg_sys;
use pgrx::spi::{OwnedPreparedStatement, Spi, SpiHeapTupleData};

use crate::error::{Error, Result};

pub type Arg<'a> = DatumWithOid<'a>;

/// Rows that are in memory at once while a large result is read.
const BATCH: i64 = 2_000;

/// One row of a result; columns count from 1.
pub struct Row<'a>(SpiHeapTupleData<'a>);

impl<'a> Row<'a> {
    pub(super) fn new(data: SpiHeapTupleData<'a>) -> Self {
        Row(data)
    }

    pub fn get<T: FromDatum + IntoDatum>(&self, column: usize) -> Result<Option<T>> {
        Ok(self.0.get::<T>(column)?)
    }

    pub fn need<T: FromDatum + IntoDatum>(&self, column: usize) -> Result<T> {
        self.get(column)?
            .ok_or_else(|| Error::internal(format!("column {column} is null")))
    }
}

/// Runs a SELECT and collects its rows.
pub fn query<T>(sql: &str, args: &[Arg], mut read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
    Spi::connect(|client| client.select(sql, None, args)?.map(|row| read(&Row(row))).collect())
}

/// Statements whose plans the session keeps, at most.
const PLANS: usize = 100;

/// A statement that has been planned, and the types of its arguments.
type Planned = (Vec<pg_sys::Oid>, Rc<OwnedPreparedStatement>);

thread_local! {
    // Not dropped when the process ends, when there is no PostgreSQL any more that could free them.
    static PLANNED: ManuallyDrop<RefCell<HashMap<String, Planned>>> = Default::default();
}

/// The same as [`query`] with a plan that the session keeps, for statements that find rows by their keys: no argument makes another
/// plan of them better.
pub fn lookup<T>(sql: &str, args: &[Arg], mut read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
    let plan = planned(sql, args)?;
    Spi::connect(|client| client.select(&*plan, None, args)?.map(|row| read(&Row(row))).collect())
}

fn planned(sql: &str, args: &[Arg]) -> Result<Rc<OwnedPreparedStatement>> {
    let types: Vec<pg_sys::Oid> = args.iter().map(Arg::oid).collect();
    let known = PLANNED.with(|plans| {
        plans
            .borrow()
            .get(sql)
            .filter(|plan| plan.0 == types)
            .map(|plan| plan.1.clone())
    });
    if let Some(plan) = known {
        return Ok(plan);
    }
    let oids: Vec<pg_sys::PgOid> = types.iter().map(|oid| pg_sys::PgOid::from(*oid)).collect();
    let plan = Rc::new(Spi::connect(|client| {
        Ok::<_, Error>(client.prepare(sql, &oids)?.keep())
    })?);
    PLANNED.with(|plans| {
        let mut plans = plans.borrow_mut();
        if plans.len() >= PLANS {
            plans.clear();
        }
        plans.insert(sql.to_owned(), (types, plan.clone()));
    });
    Ok(plan)
}

/// Runs a SELECT of one row.
pub fn query_one<T>(sql: &str, args: &[Arg], read: impl FnMut(&Row) -> Result<T>) -> Result<T> {
    query(sql, args, read)?
        .pop()
        .ok_or_else(|| Error::internal("no row where one is expected"))
}

/// Runs any statement; answers the number of rows that it touched.
pub fn execute(sql: &str, args: &[Arg]) -> Result<usize> {
    Spi::connect_mut(|client| Ok(client.update(sql, None, args)?.len()))
}

/// Runs a statement that writes and answers rows (RETURNING).
pub fn returning<T>(sql: &str, args: &[Arg], mut read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
    Spi::connect_mut(|client| client.update(sql, None, args)?.map(|row| read(&Row(row))).collect())
}

/// Runs a SELECT through a cursor and hands over its rows one by one, with at most [`BATCH`] of them in memory.
pub fn stream(sql: &str, args: &[Arg], mut each: impl FnMut(&Row) -> Result<()>) -> Result<()> {
    let cursor = Spi::connect(|client| Ok::<_, Error>(client.try_open_cursor(sql, args)?.detach_into_name()))?;
    loop {
        let more = Spi::connect(|client| {
            let mut open = client.find_cursor(&cursor)?;
            let mut rows = 0;
            for row in open.fetch(BATCH)? {
                each(&Row(row))?;
                rows += 1;
            }
            if rows == BATCH {
                open.detach_into_name();
            }
            Ok::<_, Error>(rows == BATCH)
        })?;
        super::tick();
        if !more {
            return Ok(());
        }
    }
}

/// An identifier, quoted if it needs it.
pub fn quote(identifier: &str) -> String {
    pgrx::spi::quote_identifier(identifier)
}
