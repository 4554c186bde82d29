//! `tsvector` as a Rust value. Layout: varlena header, int32 number of entries, an uint32 each (whether it has positions, 1 bit;
//! length, 11; offset, 20), then their bytes; behind those of an entry with positions, aligned to 2, an uint16 number of them and
//! an uint16 each. Entries are sorted by their bytes.

use pgrx::datum::{FromDatum, IntoDatum};
use pgrx::pg_sys;

const HEADER: usize = 4;
const ENTRY: usize = 4;
/// Of a position; the two bits above are its weight.
const POSITION: u16 = 0x3fff;

/// A tsvector that owns its bytes, without the varlena header.
#[derive(Clone, Debug)]
pub struct TsVector(Vec<u8>);

impl TsVector {
    /// The first position of a lexeme; nothing if it is not in, or has none.
    pub fn position(&self, lexeme: &[u8]) -> Option<u16> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let (bytes, positions) = self.entry(middle)?;
            match bytes.cmp(lexeme) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let at = positions?;
                    return Some(self.half(at + 2)? & POSITION);
                }
            }
        }
        None
    }

    fn len(&self) -> usize {
        self.word(0).unwrap_or_default() as usize
    }

    /// The bytes of an entry, and where its positions are.
    fn entry(&self, number: usize) -> Option<(&[u8], Option<usize>)> {
        let entry = self.word(HEADER + ENTRY * number)?;
        // C lays the bits of a field out from the least significant one, or from the most.
        let (has_positions, length, offset) = match cfg!(target_endian = "little") {
            true => (entry & 1, entry >> 1 & 0x7ff, entry >> 12),
            false => (entry >> 31, entry >> 20 & 0x7ff, entry & 0xf_ffff),
        };
        let texts = HEADER + ENTRY * self.len();
        let (offset, length) = (offset as usize, length as usize);
        let bytes = self.0.get(texts + offset..texts + offset + length)?;
        let positions = texts + (offset + length).next_multiple_of(2);
        Some((bytes, (has_positions == 1).then_some(positions)))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn half(&self, at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }
}

impl FromDatum for TsVector {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        let start: *mut pg_sys::varlena = datum.cast_mut_ptr();
        // SAFETY: the datum is a varlena that is not null; detoasting gives a plain 4-byte header, and nothing beyond VARSIZE
        // bytes is read.
        unsafe {
            let plain = pg_sys::pg_detoast_datum(start);
            let bytes: &[u8] = std::slice::from_raw_parts(plain.cast(), pgrx::varsize_any(plain));
            let copy = TsVector(bytes[HEADER..].to_vec());
            if plain != start {
                pg_sys::pfree(plain.cast());
            }
            Some(copy)
        }
    }
}

impl IntoDatum for TsVector {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let size = HEADER + self.0.len();
        // SAFETY: palloc gives `size` bytes, aligned for any type, all of which are written.
        unsafe {
            let start = pg_sys::palloc(size).cast::<u8>();
            pgrx::set_varsize_4b(start.cast(), size as i32);
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), start.add(HEADER), self.0.len());
            Some(pg_sys::Datum::from(start))
        }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TSVECTOROID
    }
}
