//! One request over HTTP, and what its reply means.

use crate::failure::known_code;
use crate::{Answer, Api, FailureKind, Request, Settings, Stop, wire};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Response, Url};
use serde_json::Value;
use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

/// Bytes of an error's body that are looked at.
const MAX_ERROR_BYTES: usize = 64 << 10;

pub(crate) struct Sender {
    client: reqwest::Client,
    base: Url,
}

/// Why a request that was sent has no answer.
pub(crate) enum Trouble {
    /// The rate limit turned it away.
    Limited {
        wait: Option<Duration>,
    },
    Failed {
        kind: FailureKind,
        /// What the service asks for before the next request.
        wait: Option<Duration>,
    },
    Stop(Stop),
}

impl From<FailureKind> for Trouble {
    fn from(kind: FailureKind) -> Self {
        Self::Failed { kind, wait: None }
    }
}

impl Sender {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Stop> {
        let bad_url = Stop::Settings("the base URL is not one of http or https");
        let base = Url::parse(&settings.base_url).map_err(|_| bad_url.clone())?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(bad_url);
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(Stop::Settings("the base URL must not hold a user name or a password"));
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("graphrag/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(settings)?)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .http1_only()
            .pool_max_idle_per_host(settings.concurrency)
            // Reading the system's certificates takes time that a local service does not need.
            .tls_built_in_root_certs(base.scheme() == "https")
            .build()
            .map_err(|_| Stop::Settings("no certificates of the system could be read"))?;
        Ok(Self { client, base })
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Sends the request and reads its reply.
    pub(crate) async fn send(&self, settings: &Settings, request: &Request) -> Result<Answer, Trouble> {
        let url = self.url(wire::path(settings.api, request));
        let call = match wire::body(settings, request) {
            Some(body) => {
                let call = self.client.post(url).header(CONTENT_TYPE, "application/json");
                call.body(body.to_string())
            }
            None => self.client.get(url),
        };
        let response = call.send().await.map_err(|error| broken(&error))?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let reply = read(response, settings.max_reply_bytes).await?;
        Ok(wire::read(settings.api, request, &reply)?)
    }
}

fn headers(settings: &Settings) -> Result<HeaderMap, Stop> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &settings.key {
        let (name, value) = match settings.api {
            Api::OpenAi => (AUTHORIZATION, format!("Bearer {}", key.0)),
            Api::Anthropic => (HeaderName::from_static("x-api-key"), key.0.clone()),
        };
        let value = HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| Stop::Settings("the key holds characters that a header must not have"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if settings.api == Api::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    Ok(headers)
}

/// The body, of `most` bytes at most.
async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, FailureKind> {
    if response.content_length().is_some_and(|bytes| bytes > most as u64) {
        return Err(FailureKind::TooLarge(most));
    }
    let mut body = vec![];
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
        if body.len() + chunk.len() > most {
            return Err(FailureKind::TooLarge(most));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What a reply without success means.
async fn refusal(response: Response) -> Trouble {
    let status = response.status().as_u16();
    let wait = response.headers().get(RETRY_AFTER).and_then(retry_after);
    let body = read(response, MAX_ERROR_BYTES).await.unwrap_or_default();
    let error: Value = serde_json::from_slice(&body).unwrap_or_default();
    let code = ["/error/code", "/error/type"]
        .into_iter()
        .find_map(|place| error.pointer(place).and_then(Value::as_str).and_then(known_code));
    match status {
        // A redirect is not followed, so all requests would end here.
        300..=399 | 401..=404 => Trouble::Stop(Stop::Refused { status, code }),
        429 if code == Some("insufficient_quota") => Trouble::Stop(Stop::Refused { status, code }),
        429 => Trouble::Limited { wait },
        _ => Trouble::Failed {
            kind: FailureKind::Status { status, code },
            wait: wait.filter(|_| matches!(status, 503 | 529)),
        },
    }
}

/// A wait in seconds or until a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let value = value.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return match Duration::try_from_secs_f64(seconds) {
            Ok(wait) => Some(wait),
            Err(_) => (seconds > 0.0).then_some(Duration::MAX),
        };
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// The kind of an error, whose own message would hold the URL.
fn broken(error: &reqwest::Error) -> FailureKind {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.to_string() == "dns error" {
            return FailureKind::HostUnknown;
        }
        let io = error.downcast_ref::<io::Error>();
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return FailureKind::Refused,
            Some(io::ErrorKind::InvalidData) => return FailureKind::Tls,
            _ => {}
        }
        // An I/O error names the source of the error that it wraps as its own, which leaves that one out.
        cause = match io.and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    FailureKind::Broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_in_seconds_or_until_a_date() {
        let wait = |text: &str| retry_after(&HeaderValue::from_str(text).unwrap());
        assert_eq!(wait("0"), Some(Duration::ZERO));
        assert_eq!(wait(" 1.5 "), Some(Duration::from_millis(1500)));
        assert_eq!(wait("99999999999999999999999"), Some(Duration::MAX));
        assert_eq!(wait("-1"), None);
        assert_eq!(wait("nan"), None);
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        let seconds = wait(&date).unwrap().as_secs();
        assert!((95..=100).contains(&seconds), "{seconds}");
    }

    #[test]
    fn paths_are_put_behind_the_base_and_before_its_query() {
        for (base, url) in [
            ("http://host/v1", "http://host/v1/chat/completions"),
            ("http://host/v1/", "http://host/v1/chat/completions"),
            ("http://host", "http://host/chat/completions"),
            (
                "https://host:1/a/b?version=2",
                "https://host:1/a/b/chat/completions?version=2",
            ),
        ] {
            let sender = Sender::new(&Settings::new(Api::OpenAi, base)).unwrap();
            assert_eq!(sender.url(&["chat", "completions"]).as_str(), url);
        }
    }
}
