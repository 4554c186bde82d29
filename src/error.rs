//! One error for the whole extension: SQLSTATE, message, DETAIL and HINT, in the style of PostgreSQL's own messages.

use std::fmt;

use pgrx::pg_sys::panic::{ErrorReport, ErrorReportable};
use pgrx::{PgLogLevel, PgSqlErrorCode, function_name};

/// An error that reaches the caller as a PostgreSQL ERROR.
#[derive(Debug)]
pub struct Error {
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

/// What a SQL-callable function returns, by a name under which cargo-pgrx knows it as a `Result`.
pub mod sql {
    /// pgrx raises an `ErrorReport` with its SQLSTATE, DETAIL and HINT.
    pub type Result<T> = std::result::Result<T, pgrx::pg_sys::panic::ErrorReport>;
}

impl Error {
    pub fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// 22023: an argument or option with a value that cannot be.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
    }

    /// 22004: NULL where a value is needed.
    pub fn null(argument: &str) -> Self {
        Self::new(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("{argument} must not be null"),
        )
    }

    /// Whether it has this SQLSTATE.
    pub fn is(&self, code: PgSqlErrorCode) -> bool {
        self.code == code
    }

    /// XX000: a state that should not be reachable.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, message)
    }

    /// The same of a part of what was given, which the message names.
    pub fn inside(mut self, part: &str) -> Self {
        self.message = format!("{part}: {}", self.message);
        self
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let mut report = ErrorReport::new(error.code, error.message, function_name!());
        if let Some(detail) = error.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = error.hint {
            report = report.set_hint(hint);
        }
        report
    }
}

impl From<pgrx::spi::Error> for Error {
    fn from(error: pgrx::spi::Error) -> Self {
        Error::internal(error.to_string())
    }
}

/// The value of an argument that must not be NULL.
pub fn required<T>(value: Option<T>, argument: &str) -> Result<T> {
    value.ok_or_else(|| Error::null(argument))
}

/// The value of an argument that must not be NULL and must lie in `range`.
pub fn in_range<T: PartialOrd + fmt::Display + Copy>(
    value: Option<T>,
    argument: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T> {
    let value = required(value, argument)?;
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(Error::invalid(format!(
            "{argument} must be between {} and {}",
            range.start(),
            range.end()
        ))
        .detail(format!("It is {}.", value.to_string().replace("inf", "Infinity"))))
    }
}

/// The value of an argument that must not be NULL and must not be less.
pub fn at_least(value: Option<i64>, argument: &str, least: i64) -> Result<i64> {
    let value = required(value, argument)?;
    if value >= least {
        return Ok(value);
    }
    Err(Error::invalid(format!("{argument} must be at least {least}")).detail(format!("It is {value}.")))
}

/// A NOTICE with a HINT.
pub fn notice(message: impl Into<String>, hint: impl Into<String>) {
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        message.into(),
        function_name!(),
    )
    .set_hint(hint.into())
    .report(PgLogLevel::NOTICE);
}

/// A NOTICE with a DETAIL and a HINT.
pub fn notice_of(message: String, detail: String, hint: String) {
    ErrorReport::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message, function_name!())
        .set_detail(detail)
        .set_hint(hint)
        .report(PgLogLevel::NOTICE);
}

/// A NOTICE with a DETAIL alone.
pub fn notice_with(message: String, detail: String) {
    ErrorReport::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message, function_name!())
        .set_detail(detail)
        .report(PgLogLevel::NOTICE);
}

/// A message with a capital, as a DETAIL starts.
pub fn capital(message: &str) -> String {
    let mut letters = message.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// The value, or the error raised: pgrx turns an `Err` of a trigger function into a panic without SQLSTATE and HINT.
pub fn raise<T>(result: Result<T>) -> T {
    result.map_err(ErrorReport::from).unwrap_or_report()
}
