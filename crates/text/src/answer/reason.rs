//! Why a record was dropped, or a value of a kept one left out.

/// An entity, an end of a relation or the subject of a claim has no name.
pub const NO_NAME: &str = "no name";
/// A name is longer than any that is kept.
pub const TOO_LONG: &str = "too long";
/// Something else stands where a record should.
pub const NOT_A_RECORD: &str = "not a record";
/// A list that is no subject, predicate and object.
pub const NOT_A_TRIPLE: &str = "not a triple";
/// A record lacks fields that its kind must have.
pub const TOO_FEW: &str = "too few fields";
/// A record has more fields than its kind can have.
pub const TOO_MANY: &str = "too many fields";
/// A record is of a kind that is not read.
pub const UNKNOWN_KIND: &str = "unknown kind";
/// An edge or a community refers to a node that is not there.
pub const UNKNOWN_ID: &str = "unknown id";
/// The text ended in the record.
pub const CUT: &str = "cut";
/// A weight, a strength or an id of a block is no number; only the value is left out.
pub const BAD_NUMBER: &str = "bad number";
/// A date is not one of ISO 8601; only the value is left out.
pub const BAD_DATE: &str = "bad date";
/// A status is none of a claim; only the value is left out.
pub const BAD_STATUS: &str = "bad status";

/// All of them.
pub const REASONS: [&str; 12] = [
    NO_NAME,
    TOO_LONG,
    NOT_A_RECORD,
    NOT_A_TRIPLE,
    TOO_FEW,
    TOO_MANY,
    UNKNOWN_KIND,
    UNKNOWN_ID,
    CUT,
    BAD_NUMBER,
    BAD_DATE,
    BAD_STATUS,
];
