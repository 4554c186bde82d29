//! Claims as rows: what is held against or for an entity, with status and dates.

use std::collections::HashSet;

use graphrag_text::answer::Claim;
use graphrag_text::fold;

use super::found::{Spot, usable};
use crate::collection::Collection;
use crate::error::Result;

#[derive(Default)]
pub struct Claims {
    subject: Vec<String>,
    object: Vec<Option<String>>,
    kind: Vec<Option<String>>,
    status: Vec<Option<String>>,
    description: Vec<Option<String>>,
    from: Vec<Option<String>>,
    to: Vec<Option<String>>,
    block: Vec<Option<i64>>,
    document: Vec<i64>,
    quote: Vec<Option<String>>,
    start: Vec<Option<i32>>,
    end: Vec<Option<i32>>,
    /// Each is taken once.
    seen: HashSet<String>,
}

impl Claims {
    /// Adds a claim, unless its subject is no name. `quote` is its place in characters of the block.
    pub fn add(&mut self, spot: Spot, claim: Claim, quote: Option<(String, i32, i32)>) {
        let subject = fold::name(&claim.subject);
        let object = claim.object.as_deref().map(fold::name).filter(|key| usable(key));
        let (from, to) = (claim.start.as_deref().map(moment), claim.end.as_deref().map(moment));
        let same = format!(
            "{:?}{:?}",
            (spot.block, spot.document, &subject, &object, &claim.kind, &claim.status),
            (&claim.description, &from, &to, &quote)
        );
        if !usable(&subject) || !self.seen.insert(same) {
            return;
        }
        self.subject.push(subject);
        self.object.push(object);
        self.kind.push(claim.kind);
        self.status.push(claim.status);
        self.description.push(claim.description);
        self.from.push(from);
        self.to.push(to);
        self.block.push(spot.block);
        self.document.push(spot.document);
        self.start.push(quote.as_ref().map(|quote| spot.start + quote.1));
        self.end.push(quote.as_ref().map(|quote| spot.start + quote.2));
        self.quote.push(quote.map(|quote| quote.0));
    }

    /// Writes them. `given` is what was not found by the extractor; of it nothing is written twice.
    pub fn write(self, collection: &Collection, given: bool) -> Result<()> {
        if self.subject.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO {s}.claim (subject_key, object_key, type, status, description, valid_from, valid_to, block_id, \
                                          document_id, quote, start_char, end_char, given) \
                   SELECT u.subject, u.object, u.kind, u.status, u.description, u.since::timestamptz, u.until::timestamptz, u.block, \
                          u.document, u.quote, u.start, u.\"end\", $13 \
                   FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], \
                               $9::bigint[], $10::text[], $11::int[], $12::int[]) WITH ORDINALITY \
                        AS u (subject, object, kind, status, description, since, until, block, document, quote, start, \"end\", n) \
                   WHERE NOT $13 OR NOT EXISTS (SELECT FROM {s}.claim c WHERE c.given AND c.document_id = u.document \
                     AND c.subject_key = u.subject AND c.object_key IS NOT DISTINCT FROM u.object \
                     AND c.type IS NOT DISTINCT FROM u.kind AND c.description IS NOT DISTINCT FROM u.description \
                     AND c.block_id IS NOT DISTINCT FROM u.block AND c.status IS NOT DISTINCT FROM u.status \
                     AND c.quote IS NOT DISTINCT FROM u.quote AND c.valid_from IS NOT DISTINCT FROM u.since::timestamptz \
                     AND c.valid_to IS NOT DISTINCT FROM u.until::timestamptz) \
                   ORDER BY u.n";
        let args = [
            self.subject.into(),
            self.object.into(),
            self.kind.into(),
            self.status.into(),
            self.description.into(),
            self.from.into(),
            self.to.into(),
            self.block.into(),
            self.document.into(),
            self.quote.into(),
            self.start.into(),
            self.end.into(),
            given.into(),
        ];
        collection.execute(sql, &args)?;
        Ok(())
    }
}

/// A date of ISO 8601 as PostgreSQL reads it: a year or a month begins with its first day; of a time hours, minutes and seconds count, in UTC unless an offset stands behind.
fn moment(text: &str) -> String {
    let (date, time) = text.split_at(text.len().min(10));
    let date = format!("{date}{}", &"0000-01-01"[date.len()..]);
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    let clock: Vec<&str> = time.get(1..9.min(time.len())).unwrap_or_default().split(':').collect();
    let clock = match clock[..] {
        [hour, minute, second] if [hour, minute, second].into_iter().all(digits) => format!("{hour}:{minute}:{second}"),
        [hour, minute, ..] if digits(hour) && minute.get(..2).is_some_and(digits) => {
            format!("{hour}:{}:00", &minute[..2])
        }
        _ => "00:00".to_owned(),
    };
    let offset = match time.rfind(['+', '-']).map(|at| &time[at..]) {
        Some(offset) if offset.len() == 6 && digits(&offset[1..3]) && digits(&offset[4..]) => offset,
        _ => "+00:00",
    };
    format!("{date} {clock}{offset}")
}
