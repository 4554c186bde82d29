//! What can go wrong. No message holds a key, a URL, a prompt or a reply.

use std::fmt;
use std::time::Duration;

/// The codes of a service's errors that a message may show: any other text of a service may hold what was sent to it.
const CODES: [&str; 14] = [
    "insufficient_quota",
    "rate_limit_exceeded",
    "context_length_exceeded",
    "model_not_found",
    "invalid_api_key",
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "overloaded_error",
    "request_too_large",
    "api_error",
    "billing_error",
    "server_error",
];

/// `code` if a message may show it.
pub(crate) fn known_code(code: &str) -> Option<&'static str> {
    CODES.into_iter().find(|&known| known == code)
}

/// Why one request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No complete reply came in this time.
    TimedOut(Duration),
    Refused,
    /// The host's name has no address.
    HostUnknown,
    /// The TLS handshake failed, for the most part for a certificate that is not trusted.
    Tls,
    /// The connection could not be made or ended before the reply did.
    Broken,
    Status {
        status: u16,
        code: Option<&'static str>,
    },
    Empty,
    NotJson,
    /// The reply is JSON, but not what the request asks for.
    Shape,
    /// The reply holds another number of vectors or scores than texts were sent.
    Count {
        expected: usize,
        got: usize,
    },
    NotFinite,
    /// The reply is larger than this many bytes.
    TooLarge(usize),
}

impl FailureKind {
    /// Whether the service and not the request is to blame, so that the same request may be answered later.
    pub fn may_pass(self) -> bool {
        match self {
            Self::TimedOut(_) | Self::Refused | Self::HostUnknown | Self::Tls | Self::Broken => true,
            // Of the others 501 says that there is no such thing here, and there will be none later.
            Self::Status { status, .. } => status == 408 || status >= 500 && status != 501,
            _ => false,
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TimedOut(time) => write!(f, "no answer within {} s", time.as_secs_f64()),
            Self::Refused => f.write_str("the connection was refused"),
            Self::HostUnknown => f.write_str("the host is unknown"),
            Self::Tls => f.write_str("no secure connection could be made"),
            Self::Broken => f.write_str("the connection broke"),
            Self::Status { status, code } => write_status(f, status, code),
            Self::Empty => f.write_str("the reply is empty"),
            Self::NotJson => f.write_str("the reply is not JSON"),
            Self::Shape => f.write_str("the reply does not have the expected form"),
            Self::Count { expected, got } => write!(f, "the reply holds {got} results for {expected} texts"),
            Self::NotFinite => f.write_str("the reply holds a number that is not finite"),
            Self::TooLarge(bytes) if bytes.is_multiple_of(1 << 20) => {
                write!(f, "the reply is larger than {} MiB", bytes >> 20)
            }
            Self::TooLarge(bytes) => write!(f, "the reply is larger than {bytes} bytes"),
        }
    }
}

fn write_status(f: &mut fmt::Formatter<'_>, status: u16, code: Option<&str>) -> fmt::Result {
    write!(f, "status {status}")?;
    code.map_or(Ok(()), |code| write!(f, " ({code})"))
}

/// A request that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// Requests sent for it, without those that the service's rate limit turned away.
    pub attempts: u32,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for Failure {}

/// The service cannot be used at all: no request is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Too many requests in a row, or all that there were, failed in a way that may pass, the last one so.
    Unreachable { reason: FailureKind },
    /// The key, the account, the model or the URL is not good.
    Refused { status: u16, code: Option<&'static str> },
    /// The service's rate limit is used up for this long, over [`MAX_WAIT`](crate::MAX_WAIT) all in all.
    Limited { wait: Duration },
    /// The settings are not good, or do not allow the request.
    Settings(&'static str),
    /// The helper thread could not start, or it panicked.
    Helper(&'static str),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unreachable { reason } => write!(f, "the provider is down: {reason}"),
            Self::Refused { status, code } => {
                f.write_str("the provider refused the request: ")?;
                write_status(f, status, code)
            }
            Self::Limited { wait } => {
                write!(
                    f,
                    "the provider's rate limit is used up, try again in {} s",
                    wait.as_secs().max(1)
                )
            }
            Self::Settings(reason) | Self::Helper(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Stop {}
