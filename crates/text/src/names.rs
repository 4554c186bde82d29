//! Which names may be of one entity: what is proposed to a person, who decides.
//!
//! Nothing here merges: only equal folded names ([`crate::fold::name`]) are one entity by themselves. The rules look at
//! the names alone; they know no dictionary but the short lists of titles, legal forms, numerals and opposites.

mod edit;
mod form;
mod groups;
mod keys;
mod latin;
mod lists;
mod nearest;
mod pairs;
mod rules;

pub use groups::groups;
pub use keys::{BLOCK, keys};
pub use nearest::nearest;
pub use pairs::{Pair, pairs};

use crate::fold;
use form::Form;

/// Folded names of more characters than this are compared for equality only.
pub const LONGEST: usize = 256;

/// What two names say of their entities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// They fold alike: one entity.
    Same,
    /// They may be one entity.
    Ask {
        /// How likely, between 0 and 1; a matter of experience, not a probability. From 0.9 on it is worth a proposal.
        score: f32,
        /// One of [`REASONS`].
        reason: &'static str,
    },
    /// They look like two entities.
    Different,
}

/// Why names may be of one entity.
pub const REASONS: [&str; 7] = [INITIALS, CONTAINED, SPELLING, ORDER, PLURAL, TITLE, TRANSLITERATION];
const INITIALS: &str = "initials";
const CONTAINED: &str = "contained name";
const SPELLING: &str = "spelling";
const ORDER: &str = "word order";
const PLURAL: &str = "plural";
const TITLE: &str = "title";
const TRANSLITERATION: &str = "transliteration";

/// Whether `a` and `b` may be names of one entity; the same whichever comes first and however they are spelled within
/// one folded name.
///
/// Always [`Verdict::Different`] are names that differ in a number (digits, numerals, ordinals, the letter of `Vitamin C`),
/// in a sign such as `+`, in a word that tells siblings apart (`North`, `New`), in opposed words, in an initial, or in a
/// word that is no spelling of the other's (see `rules.rs`).
///
/// ```
/// use graphrag_text::names::{Verdict, compare};
/// assert!(matches!(compare("IBM", "International Business Machines"), Verdict::Ask { reason: "initials", .. }));
/// assert_eq!(compare("World War I", "World War II"), Verdict::Different);
/// ```
pub fn compare(a: &str, b: &str) -> Verdict {
    let (a, b) = (fold::name(a), fold::name(b));
    if a == b {
        return Verdict::Same;
    }
    match (Form::of(&a), Form::of(&b)) {
        (Some(a), Some(b)) => rules::judge(&a, &b),
        _ => Verdict::Different,
    }
}

#[cfg(test)]
mod tests;
