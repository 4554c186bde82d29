//! Claims: who is said to have done what, since when, and whether it is so.

use super::fields::{Fields, text, texts};
use super::{Claim, Extraction};
use crate::answer::{bare, reason};
use serde_json::Value;

const SUBJECT: [&str; 8] = [
    "subjectid",
    "subject",
    "subjectentity",
    "claimsubject",
    "entity",
    "entityname",
    "source",
    "src",
];
const OBJECT: [&str; 6] = ["objectid", "object", "objectentity", "claimobject", "target", "tgt"];
const KIND: [&str; 5] = ["claimtype", "type", "kind", "category", "covariatetype"];
const STATUS: [&str; 2] = ["status", "claimstatus"];
const START: [&str; 5] = ["startdate", "claimstartdate", "start", "validfrom", "validat"];
const END: [&str; 5] = ["enddate", "claimenddate", "end", "validto", "invalidat"];
const DESCRIPTION: [&str; 4] = ["description", "claimdescription", "claim", "desc"];
const QUOTES: [&str; 8] = [
    "sourcetext",
    "claimsource",
    "sourcequotes",
    "quotes",
    "quote",
    "evidence",
    "claimsourcetext",
    "span",
];
/// What relations have and claims have not.
const NO_CLAIM: [&str; 5] = ["relation", "predicate", "relationtype", "relationship", "rel"];

/// What stands where there is nothing.
const NOTHING: [&str; 8] = ["none", "null", "n/a", "na", "nan", "nat", "unknown", "-"];

/// `TRUE`, `FALSE` or `SUSPECTED`, if `text` is one of these.
pub(in crate::answer) fn status(text: &str) -> Option<&'static str> {
    let word = bare(text).trim_matches(|c: char| "()[]*_.".contains(c));
    ["TRUE", "FALSE", "SUSPECTED"]
        .into_iter()
        .find(|status| word.eq_ignore_ascii_case(status))
}

/// Whether a status stands where a tuple of a claim has it.
pub(in crate::answer) fn has_status(fields: &[&str]) -> bool {
    fields.get(3).is_some_and(|text| status(text).is_some())
}

fn something(text: String) -> Option<String> {
    let text = bare(&text);
    let nothing = text.is_empty() || NOTHING.iter().any(|word| text.eq_ignore_ascii_case(word));
    (!nothing).then(|| text.to_owned())
}

/// Whether `text` is a date of ISO 8601, of a year at least, with a time or without.
fn is_date(text: &str) -> bool {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let mut part = |digits: usize, from: u32, to: u32| {
        let part = parts.next()?;
        Some(
            number(part, digits)
                .filter(|n| (from..=to).contains(n))
                .unwrap_or(u32::MAX),
        )
    };
    let (year, month) = (part(4, 1, 9999), part(2, 1, 12));
    let longest = match month {
        Some(4 | 6 | 9 | 11) => 30,
        Some(2) => {
            28 + u32::from(
                year.is_some_and(|y| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400))),
            )
        }
        _ => 31,
    };
    let day = part(2, 1, longest);
    let wrong = [year, month, day].contains(&Some(u32::MAX)) || parts.next().is_some();
    !wrong && time.is_none_or(|time| day.is_some() && is_time(time))
}

fn is_time(text: &str) -> bool {
    let (clock, zone) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let limited = |text: &str, limits: &[u32]| {
        let parts: Vec<&str> = text.splitn(limits.len() + 1, ':').collect();
        let sound = |(part, limit): (&&str, &u32)| number(part, 2).is_some_and(|n| n <= *limit);
        parts.len() <= limits.len() && parts.iter().zip(limits).all(sound)
    };
    let offset = zone.get(1..).unwrap_or_default();
    let zoned = match zone {
        "" | "Z" | "z" => true,
        _ if offset.len() == 4 && digits(offset) => limited(&format!("{}:{}", &offset[..2], &offset[2..]), &[15, 59]),
        _ => zone.starts_with(['+', '-']) && limited(offset, &[15, 59]),
    };
    clock.contains(':') && limited(clock, &[23, 59, 60]) && digits(fraction) && zoned
}

/// The number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let sound = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    sound.then(|| text.parse().ok())?
}

impl Extraction {
    /// Adds a claim whose texts are as they were written.
    pub(in crate::answer) fn add_claim(&mut self, claim: Claim) {
        let Some([subject]) = self.names([&claim.subject]) else {
            return;
        };
        let Some(object) = claim.object.and_then(something) else {
            return self.push_claim(Claim {
                subject,
                object: None,
                ..claim
            });
        };
        if let Some([object]) = self.names([&object]) {
            self.push_claim(Claim {
                subject,
                object: Some(object),
                ..claim
            });
        }
    }

    fn push_claim(&mut self, claim: Claim) {
        let mut kept = |text: Option<String>, sound: fn(&str) -> Option<String>, reason| {
            let text = text.and_then(something)?;
            let found = sound(&text);
            if found.is_none() {
                self.lose(reason);
            }
            found
        };
        let date = |text: &str| is_date(text).then(|| text.to_owned());
        let start = kept(claim.start, date, reason::BAD_DATE);
        let end = kept(claim.end, date, reason::BAD_DATE);
        let status = kept(claim.status, |text| status(text).map(str::to_owned), reason::BAD_STATUS);
        self.claims.push(Claim {
            kind: claim.kind.and_then(something),
            description: claim.description.and_then(something),
            quotes: claim.quotes.into_iter().filter_map(something).collect(),
            status,
            start,
            end,
            ..claim
        });
    }
}

impl Fields<'_> {
    /// Whether the record can be nothing but a claim.
    pub fn is_claim(&self) -> bool {
        let stated = || {
            let text = self.peek(&STATUS).and_then(text);
            !self.has(&NO_CLAIM) && text.is_some_and(|text| status(&text).is_some())
        };
        self.has(&SUBJECT) && (self.has(&["covariatetype", "claimtype", "claimstatus"]) || stated())
    }

    pub fn claim(&self) -> Claim {
        let status = match self.value(&STATUS) {
            Some(Value::Bool(is)) => Some(is.to_string()),
            value => value.and_then(text),
        };
        Claim {
            subject: self.member(&SUBJECT).unwrap_or_default(),
            object: self.member(&OBJECT),
            kind: self.member(&KIND),
            status,
            start: self.member(&START),
            end: self.member(&END),
            description: self.member(&DESCRIPTION),
            quotes: self.value(&QUOTES).map(texts).unwrap_or_default(),
            origin: self.origin(),
        }
    }
}
