//! The space that term vectors span: from texts to vectors.

use graphrag_lsa::{Sum, idf};

use super::State;
use crate::collection::Collection;
use crate::error::Result;
use crate::lexical::{Lexemes, Row};
use crate::pg::{tick, vector};

/// Bytes of vectors that are kept from one batch of texts to the next.
const KEPT: usize = 128 << 20;

/// A term as the table has it.
pub struct Term {
    pub weight: f64,
    /// None for a term that nothing was learned of: its hash stands for it.
    pub vector: Option<Box<[f32]>>,
}

/// Term vectors, fetched when they are first needed.
pub struct Space {
    pub dimensions: usize,
    pub lexemes: Lexemes,
    /// By the numbers of [`Lexemes`].
    pub terms: Vec<Option<Term>>,
    /// The weight of a term that the table does not have: that of one in no leaf.
    pub unknown: f64,
    pub has_learned: bool,
    bytes: usize,
}

impl Space {
    /// The space that the collection has learned; a space of hashes while it has learned nothing.
    pub fn open(collection: &Collection, dimensions: usize) -> Result<Space> {
        let state = State::load(collection)?;
        Ok(Space::new(
            dimensions,
            state.leaves as u64,
            Lexemes::default(),
            Vec::new(),
        ))
    }

    pub fn new(dimensions: usize, leaves: u64, lexemes: Lexemes, terms: Vec<Option<Term>>) -> Space {
        Space {
            dimensions,
            lexemes,
            terms,
            unknown: idf(leaves, 0),
            has_learned: leaves > 0,
            bytes: 0,
        }
    }

    /// The unit vectors of texts; nothing for a text without a term.
    pub fn embed(&mut self, collection: &Collection, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>> {
        let rows = self.lexemes.rows(collection, texts)?;
        self.fetch(collection, &rows)?;
        let vectors = rows.iter().map(|row| self.sum(row)).collect();
        if self.bytes > KEPT {
            self.lexemes = Lexemes::default();
            self.terms.clear();
            self.bytes = 0;
        }
        Ok(vectors)
    }

    /// The unit vector of a query, and whether the table has a term of it.
    pub fn embed_query(&mut self, collection: &Collection, text: &str) -> Result<(Option<Vec<f32>>, bool)> {
        let rows = self.lexemes.rows(collection, &[text])?;
        self.fetch(collection, &rows)?;
        let is_known = |&(number, _): &(u32, u32)| {
            let term = self.terms.get(number as usize).and_then(Option::as_ref);
            term.is_some_and(|term| term.weight != self.unknown)
        };
        Ok((self.sum(&rows[0]), rows[0].iter().any(is_known)))
    }

    /// The unit vector of the terms of a text, all of which must have been fetched.
    pub fn sum(&self, row: &Row) -> Option<Vec<f32>> {
        tick();
        // Hashes of few terms can cancel each other out; then the first stands for all.
        self.sum_of(row).or_else(|| self.sum_of(row.get(..1)?))
    }

    fn sum_of(&self, row: &[(u32, u32)]) -> Option<Vec<f32>> {
        let mut sum = Sum::new(self.dimensions);
        for &(number, count) in row {
            match self.terms.get(number as usize).and_then(Option::as_ref) {
                Some(Term {
                    weight,
                    vector: Some(vector),
                }) => sum.add(count, *weight, vector),
                Some(term) => sum.add_unknown(count, term.weight, self.lexemes.name(number)),
                None => sum.add_unknown(count, self.unknown, self.lexemes.name(number)),
            }
        }
        sum.unit()
    }

    /// Reads the terms that are not there yet.
    fn fetch(&mut self, collection: &Collection, rows: &[Row]) -> Result<()> {
        self.terms.resize_with(self.lexemes.len(), || None);
        let mut missing: Vec<u32> = rows.iter().flatten().map(|(number, _)| *number).collect();
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|&number| self.terms[number as usize].is_none());
        for part in missing.chunks(5_000) {
            let names: Vec<String> = part
                .iter()
                .map(|&number| self.lexemes.name(number).to_owned())
                .collect();
            // By the key for each: a hash join would read all vectors of the table, and spill them.
            let sql = "SELECT u.n, t.weight, t.vector FROM unnest($1::text[]) WITH ORDINALITY AS u (lexeme, n) \
                       LEFT JOIN LATERAL (SELECT weight, vector FROM {s}.term WHERE lexeme = u.lexeme LIMIT 1) t ON true";
            let (terms, bytes, unknown) = (&mut self.terms, &mut self.bytes, self.unknown);
            let dimensions = self.dimensions;
            let found = collection.query(sql, &[names.into()], |row| {
                let vector: Option<vector::Vector> = row.get(3)?;
                let term = Term {
                    weight: row.get(2)?.unwrap_or(unknown),
                    // One of another size is not ours.
                    vector: vector
                        .filter(|v| v.0.len() == dimensions)
                        .map(|v| v.0.into_boxed_slice()),
                };
                Ok((row.need::<i64>(1)?, term))
            })?;
            for (n, term) in found {
                *bytes += 64 + term.vector.as_ref().map_or(0, |vector| 4 * vector.len());
                terms[part[n as usize - 1] as usize] = Some(term);
            }
        }
        Ok(())
    }
}
