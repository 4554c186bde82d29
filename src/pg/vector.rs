//! pgvector's `vector` as a Rust value. Layout: varlena header, int16 dimensions, int16 unused (0), then float4s.

use std::cell::Cell;

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::{Datum, FromDatum, IntoDatum};
use pgrx::pg_sys;

use crate::error::{self, Error};

/// pgvector's limit for a column.
pub const MAX_DIMENSIONS: i32 = 16_000;

const HEADER: usize = 8;

/// A vector that owns its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector(pub Vec<f32>);

/// The vector at unit length; nothing for one of zeros, which has no direction.
pub fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    (length > 0.0).then(|| vector.iter().map(|x| (f64::from(*x) / length) as f32).collect())
}

/// The type oids of pgvector in this database: `vector` and `vector[]`.
///
/// Found through the catalogue of extensions, since the name alone may be another type's.
fn type_oids() -> (pg_sys::Oid, pg_sys::Oid) {
    thread_local! {
        static CACHE: Cell<(pg_sys::Oid, pg_sys::Oid)> = const { Cell::new((pg_sys::Oid::INVALID, pg_sys::Oid::INVALID)) };
    }
    let known = CACHE.get();
    // SAFETY: a plain catalogue lookup by oid on the backend's own thread.
    let valid = known.0 != pg_sys::Oid::INVALID
        && unsafe {
            pg_sys::SearchSysCacheExists(
                pg_sys::SysCacheIdentifier::TYPEOID as _,
                pg_sys::Datum::from(known.0),
                pg_sys::Datum::from(0),
                pg_sys::Datum::from(0),
                pg_sys::Datum::from(0),
            )
        };
    if valid {
        return known;
    }
    let sql = "SELECT t.oid, t.typarray FROM pg_catalog.pg_type t \
               JOIN pg_catalog.pg_extension e ON e.extnamespace OPERATOR(pg_catalog.=) t.typnamespace \
               WHERE e.extname OPERATOR(pg_catalog.=) 'vector' AND t.typname OPERATOR(pg_catalog.=) 'vector'";
    let found = super::spi::query(sql, &[], |row| {
        Ok((row.need::<pg_sys::Oid>(1)?, row.need::<pg_sys::Oid>(2)?))
    });
    let oids = match found {
        Ok(rows) if rows.len() == 1 => rows[0],
        _ => pgrx::error!("the type vector of pgvector is not installed in this database"),
    };
    CACHE.set(oids);
    oids
}

impl Vector {
    /// Copies a vector datum out, after checking its header against its size.
    fn read(datum: pg_sys::Datum) -> error::Result<Vector> {
        let start: *mut pg_sys::varlena = datum.cast_mut_ptr();
        // SAFETY: the caller guarantees a non-null varlena datum; detoasting gives a plain 4-byte header, and nothing
        // beyond VARSIZE bytes is read.
        unsafe {
            let plain = pg_sys::pg_detoast_datum(start);
            let size = pgrx::varsize_any(plain);
            let bytes: &[u8] = std::slice::from_raw_parts(plain.cast(), size);
            let dimensions = i16::from_ne_bytes([bytes[4], bytes[5]]);
            if dimensions < 1 || size != HEADER + 4 * dimensions as usize {
                return Err(Error::internal("malformed vector value"));
            }
            let values = bytes[HEADER..]
                .chunks_exact(4)
                .map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            if plain != start {
                pg_sys::pfree(plain.cast());
            }
            Ok(Vector(values))
        }
    }

    /// Writes the numbers as a new vector datum in the current memory context.
    fn write(values: &[f32]) -> pg_sys::Datum {
        let size = HEADER + 4 * values.len();
        // SAFETY: palloc0 gives `size` zeroed bytes, aligned for any type; all writes stay inside them.
        unsafe {
            let start = pg_sys::palloc0(size).cast::<u8>();
            pgrx::set_varsize_4b(start.cast(), size as i32);
            start.add(4).cast::<i16>().write(values.len() as i16);
            std::ptr::copy_nonoverlapping(values.as_ptr(), start.add(HEADER).cast::<f32>(), values.len());
            pg_sys::Datum::from(start)
        }
    }
}

impl FromDatum for Vector {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        (!is_null).then(|| match Vector::read(datum) {
            Ok(vector) => vector,
            Err(error) => pgrx::error!("{error}"),
        })
    }
}

impl IntoDatum for Vector {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(Vector::write(&self.0))
    }

    fn type_oid() -> pg_sys::Oid {
        type_oids().0
    }
}

// SAFETY: the argument's declared type is pgvector's (the SQL says so), which is what read() expects.
unsafe impl<'fcx> ArgAbi<'fcx> for Vector {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the macro calls this only for arguments that are not null.
        unsafe { arg.unbox_arg_using_from_datum() }.expect("vector argument is not null")
    }
}

// SAFETY: the function's declared result is pgvector's type.
unsafe impl BoxRet for Vector {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: the datum was just made in the current memory context.
        unsafe { fcinfo.return_raw_datum(Vector::write(&self.0)) }
    }
}

pgrx::impl_sql_translatable!(Vector, "vector");

/// Several vectors, some of which may be NULL, as one `vector[]` argument.
pub struct Vectors<'a>(pub Vec<Option<&'a [f32]>>);

impl IntoDatum for Vectors<'_> {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let (element, _) = type_oids();
        let mut nulls: Vec<bool> = self.0.iter().map(Option::is_none).collect();
        let mut elements: Vec<pg_sys::Datum> = self
            .0
            .iter()
            .map(|v| v.map_or(pg_sys::Datum::from(0), Vector::write))
            .collect();
        let mut length = [elements.len() as i32];
        let mut lower = [1];
        // SAFETY: both arrays hold `length` entries; the element type is a varlena of int alignment ('i'), as pgvector
        // declares it; construct_md_array copies what it is given.
        unsafe {
            let array = pg_sys::construct_md_array(
                elements.as_mut_ptr(),
                nulls.as_mut_ptr(),
                1,
                length.as_mut_ptr(),
                lower.as_mut_ptr(),
                element,
                -1,
                false,
                b'i' as _,
            );
            for (datum, null) in elements.iter().zip(&nulls) {
                if !null {
                    pg_sys::pfree(datum.cast_mut_ptr());
                }
            }
            Some(pg_sys::Datum::from(array))
        }
    }

    fn type_oid() -> pg_sys::Oid {
        type_oids().1
    }
}
