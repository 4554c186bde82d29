//! Terms as they stand in `posting`.

use super::lexemes::{Lexemes, Row};
use crate::collection::Collection;
use crate::error::{Result, notice_of};
use crate::progress::count;

/// The greatest position of a lexeme in a tsvector, which is as often as an occurrence counts.
const MOST: u32 = 16_383;
/// Bytes of lexemes and positions that a tsvector holds.
const LARGEST: usize = (1 << 20) - 1;
/// What a lexeme takes beside its bytes: the number of its positions, one position, and alignment.
const BESIDE: usize = 5;

/// Rows of `posting` that are not written yet, in the order of their leaves.
#[derive(Default)]
pub struct Postings {
    lexemes: Vec<String>,
    length: Vec<i32>,
}

impl Postings {
    /// Of the texts of leaves.
    pub fn new(collection: &Collection, terms: &mut Lexemes, texts: &[&str]) -> Result<Postings> {
        let mut postings = Postings::default();
        let mut left_out = 0;
        for mut row in terms.rows(collection, texts)? {
            left_out += limit(&mut row, terms);
            row.iter_mut().for_each(|term| term.1 = term.1.min(MOST));
            let mut text = String::new();
            for (term, count) in &row {
                quote(terms.name(*term), &mut text);
                text.push_str(&format!(":{count} "));
            }
            postings.lexemes.push(text);
            postings.length.push(row.iter().map(|term| term.1 as i32).sum());
        }
        if left_out > 0 {
            notice_of(
                format!(
                    "{} of very long leaves cannot be searched for",
                    count(left_out, "term", "terms")
                ),
                "A tsvector holds a megabyte of lexemes; the longest terms are left out.".into(),
                "With the setting leaf_tokens leaves are shorter.".into(),
            );
        }
        Ok(postings)
    }

    /// Writes them; `leaves` are the ids, of those that were written.
    pub fn write(self, collection: &Collection, leaves: Vec<Option<i64>>) -> Result<()> {
        let sql = "INSERT INTO {s}.posting (node_id, lexemes, length) \
                   SELECT u.node_id, u.lexemes::tsvector, u.length \
                   FROM unnest($1::bigint[], $2::text[], $3::int[]) AS u (node_id, lexemes, length) \
                   WHERE u.node_id IS NOT NULL";
        collection.execute(sql, &[leaves.into(), self.lexemes.into(), self.length.into()])?;
        Ok(())
    }
}

/// Leaves the longest terms out that a tsvector has no room for; answers how many.
fn limit(row: &mut Row, terms: &Lexemes) -> i64 {
    let size = |term: &(u32, u32)| terms.name(term.0).len() + BESIDE;
    let mut all: usize = row.iter().map(size).sum();
    if all <= LARGEST {
        return 0;
    }
    let before = row.len();
    let mut longest = row.clone();
    longest.sort_by_key(|term| std::cmp::Reverse(size(term)));
    for term in longest {
        if all <= LARGEST {
            break;
        }
        all -= size(&term);
        row.retain(|other| other.0 != term.0);
    }
    (before - row.len()) as i64
}

/// A lexeme as the input of tsvector and tsquery takes it, whatever is in it.
pub fn quote(lexeme: &str, text: &mut String) {
    text.push('\'');
    for c in lexeme.chars() {
        if matches!(c, '\'' | '\\') {
            text.push(c);
        }
        text.push(c);
    }
    text.push('\'');
}
