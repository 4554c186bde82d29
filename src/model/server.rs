//! `server:NAME`: services with the OpenAI interface or Anthropic's, declared with CREATE SERVER.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use graphrag_provider::{Api, MAX_REPLY_BYTES, Secret, Settings, Structured, TokenLimit};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;

use super::Role;
use crate::collection::{literal, quoted};
use crate::error::{Error, Result, required, sql};
use crate::pg::frame::{AsUser, Frame, is_superuser};
use crate::pg::spi;

const WRAPPER: &str = "graphrag_model";

/// What CREATE SERVER takes.
const OPTIONS: [&str; 20] = [
    "api",
    "base_url",
    "chat_model",
    "embedding_model",
    "rerank_model",
    "structured_output",
    "api_key_file",
    "api_key_env",
    "concurrency",
    "requests_per_minute",
    "timeout_ms",
    "retries",
    "batch_size",
    "max_tokens",
    "temperature",
    "token_limit",
    "embedding_dimensions",
    "price_in",
    "price_out",
    "price_embedding",
];

/// Digits of a number of a vector and what stands between two of them.
const NUMBER_BYTES: usize = 24;

/// What is read of an `api_key_file`.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The role that initdb makes, to whom the catalogue belongs.
const BOOTSTRAP_SUPERUSER: Oid = pg_sys::Oid::from_u32(10);

/// A server with the key that its user has for it.
pub struct Server {
    pub name: String,
    pub settings: Settings,
    /// Texts of one request for embeddings.
    pub batch_size: usize,
    /// Of a reply.
    pub max_tokens: u32,
    /// Prices of a million tokens, as the text of a numeric.
    pub price_in: Option<String>,
    pub price_out: Option<String>,
    pub price_embedding: Option<String>,
}

/// The options of a server, checked.
struct Parsed {
    settings: Settings,
    batch_size: usize,
    max_tokens: u32,
    price_in: Option<String>,
    price_out: Option<String>,
    price_embedding: Option<String>,
    api_key_file: Option<String>,
    api_key_env: Option<String>,
}

impl Server {
    /// The model of the server that a role asks.
    pub fn model(&self, role: Role) -> Result<&str> {
        let (option, model) = match role {
            Role::Embedder => ("embedding_model", &self.settings.embedding_model),
            Role::Reranker => ("rerank_model", &self.settings.rerank_model),
            _ => ("chat_model", &self.settings.chat_model),
        };
        model.as_deref().ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("server {} has no {option}", quoted(&self.name)),
            )
            .hint(format!(
                "ALTER SERVER {} OPTIONS (ADD {option} '...');",
                spi::quote(&self.name)
            ))
        })
    }

    /// Opens a server for the owner of a collection, with his key.
    pub fn open(name: &str, owner: Oid) -> Result<Server> {
        let _frame = Frame::enter()?;
        let sql = "SELECT s.oid, w.fdwname::text, has_server_privilege($2, s.oid, 'USAGE'), pg_get_userbyid($2)::text, s.srvoptions \
                   FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE s.srvname = $1";
        let found = spi::query(sql, &[name.into(), owner.into()], |row| {
            Ok((
                row.need::<Oid>(1)?,
                row.need::<String>(2)?,
                row.need::<bool>(3)?,
                row.need::<String>(4)?,
                row.get::<Vec<String>>(5)?.unwrap_or_default(),
            ))
        })?;
        let Some((oid, wrapper, may_use, role, options)) = found.into_iter().next() else {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                format!("server {} does not exist", quoted(name)),
            )
            .hint(format!(
                "CREATE SERVER {} FOREIGN DATA WRAPPER {WRAPPER} OPTIONS (base_url 'https://...', chat_model '...', embedding_model '...');",
                spi::quote(name)
            )));
        };
        if wrapper != WRAPPER {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("server {} is no server of models", quoted(name)),
            )
            .detail(format!("Its foreign-data wrapper is {}.", quoted(&wrapper)))
            .hint(format!(
                "Models are behind servers of the foreign-data wrapper {WRAPPER}."
            )));
        }
        if !may_use {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for foreign server {}", quoted(name)),
            )
            .detail(format!("The owner of the collection, {}, uses it.", quoted(&role)))
            .hint(format!(
                "GRANT USAGE ON FOREIGN SERVER {} TO {};",
                spi::quote(name),
                spi::quote(&role)
            )));
        }
        let mut parsed = parse(&pairs(&options))?;
        parsed.settings.key = match mapped_key(oid, owner)? {
            Some(key) => Some(key),
            None => parsed.server_key(name)?,
        }
        .map(|key| header_value(key, &format!("the API key of server {}", quoted(name))))
        .transpose()?
        .map(Secret::new);
        Ok(Server {
            name: name.to_owned(),
            settings: parsed.settings,
            batch_size: parsed.batch_size,
            max_tokens: parsed.max_tokens,
            price_in: parsed.price_in,
            price_out: parsed.price_out,
            price_embedding: parsed.price_embedding,
        })
    }
}

/// The key in the owner's user mapping, else in that of PUBLIC.
fn mapped_key(server: Oid, owner: Oid) -> Result<Option<String>> {
    // pg_user_mapping is closed to everybody else, and the view on it shows nothing of PUBLIC's mapping to a mere user. So
    // this one query, whose text is fixed and which reads nothing but the catalogue, runs as the catalogue's owner.
    let sql = "SELECT o.option_value FROM pg_catalog.pg_user_mapping m, pg_catalog.pg_options_to_table(m.umoptions) o \
               WHERE m.umserver = $1 AND m.umuser IN ($2, 0) AND o.option_name = 'api_key' ORDER BY m.umuser = 0 LIMIT 1";
    let _frame = Frame::enter()?;
    let _user = AsUser::switch(BOOTSTRAP_SUPERUSER);
    Ok(spi::query(sql, &[server.into(), owner.into()], |row| row.need(1))?.pop())
}

impl Parsed {
    /// The key that the server's own options lead to.
    fn server_key(&self, server: &str) -> Result<Option<String>> {
        let fail = |option: &str, what: &str| {
            Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{option} of server {} {what}", quoted(server)),
            )
            .hint("It is read by the PostgreSQL server, on its machine and as its operating system user.")
        };
        let text = match (&self.api_key_file, &self.api_key_env) {
            (Some(path), _) => read_key(path).map_err(|what| fail("api_key_file", &what))?,
            (None, Some(variable)) => std::env::var_os(variable)
                .ok_or_else(|| fail("api_key_env", "names a variable that is not set"))?
                .into_string()
                .map_err(|_| fail("api_key_env", "names a variable that is not UTF-8"))?,
            (None, None) => return Ok(None),
        };
        let key = text.trim();
        if key.is_empty() {
            let option = if self.api_key_file.is_some() {
                "api_key_file"
            } else {
                "api_key_env"
            };
            return Err(fail(option, "leads to an empty key"));
        }
        Ok(Some(key.to_owned()))
    }
}

fn read_key(path: &str) -> std::result::Result<String, String> {
    let io = |error: std::io::Error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "no such file".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            kind => kind.to_string(),
        };
        format!("cannot be read: {reason}")
    };
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut text = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(MAX_KEY_BYTES + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > MAX_KEY_BYTES {
        return Err("is larger than 64 kB".to_owned());
    }
    String::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())
}

/// A key that can stand in a header.
fn header_value(key: String, what: &str) -> Result<String> {
    if !key.is_empty() && key.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Ok(key);
    }
    Err(Error::invalid(format!("{what} cannot stand in a header"))
        .hint("A key is not empty, and has only printable ASCII characters."))
}

/// SQL: `_model_options(options, catalog)`.
#[pg_extern(sql = false)]
fn _model_options(options: Option<Vec<Option<String>>>, catalog: Option<Oid>) -> sql::Result<()> {
    let options: Vec<String> = required(options, "options")?.into_iter().flatten().collect();
    Ok(validate(&options, required(catalog, "catalog")?)?)
}

fn validate(options: &[String], catalog: Oid) -> Result<()> {
    let options = pairs(options);
    match catalog {
        pg_sys::ForeignDataWrapperRelationId => {
            check_names(&options, &[], "The wrapper itself has none; they belong to a server.")
        }
        pg_sys::ForeignServerRelationId => {
            let parsed = parse(&options)?;
            // The validator sees all options of a server, not only those that change. So whoever is not a superuser cannot
            // send a key of the machine to a base_url of his own either.
            if (parsed.api_key_file.is_some() || parsed.api_key_env.is_some()) && !is_superuser() {
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                    "only a superuser may change a server with api_key_file or api_key_env",
                )
                .hint("CREATE USER MAPPING ... OPTIONS (api_key '...') gives a role a key of its own."));
            }
            Ok(())
        }
        pg_sys::UserMappingRelationId => {
            check_names(&options, &["api_key"], "The option of a user mapping is api_key.")?;
            options
                .get("api_key")
                .map_or(Ok(()), |key| header_value(key.clone(), "api_key").map(drop))
        }
        _ => Err(Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("servers of {WRAPPER} have no tables"),
        )
        .hint("Name the server as a model of a collection: 'server:name'.")),
    }
}

/// `name=value` in two parts.
fn pairs(options: &[String]) -> BTreeMap<String, String> {
    let pair = |option: &String| {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        (name.to_owned(), value.to_owned())
    };
    options.iter().map(pair).collect()
}

fn check_names(options: &BTreeMap<String, String>, known: &[&str], hint: &str) -> Result<()> {
    match options.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            PgSqlErrorCode::ERRCODE_FDW_INVALID_OPTION_NAME,
            format!("unknown option {}", quoted(name)),
        )
        .hint(hint)),
    }
}

fn parse(options: &BTreeMap<String, String>) -> Result<Parsed> {
    let hint = if options.contains_key("api_key") {
        "api_key belongs to a user mapping: CREATE USER MAPPING FOR role SERVER name OPTIONS (api_key '...')."
            .to_owned()
    } else {
        format!("Options of a server are {}.", OPTIONS.join(", "))
    };
    check_names(options, &OPTIONS, &hint)?;
    let values = Values(options);
    let api_key_file = values.text("api_key_file")?;
    let api_key_env = values.text("api_key_env")?;
    if api_key_file.is_some() && api_key_env.is_some() {
        return Err(Error::invalid("api_key_file and api_key_env exclude each other"));
    }
    if api_key_file.as_ref().is_some_and(|path| !path.starts_with('/')) {
        return Err(Error::invalid("option \"api_key_file\" must be an absolute path"));
    }
    let is_variable = |name: &String| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    if api_key_env.as_ref().is_some_and(|name| !is_variable(name)) {
        return Err(Error::invalid(
            "option \"api_key_env\" must be the name of an environment variable",
        ));
    }
    let batch_size = values.whole("batch_size", 1..=2048)?.unwrap_or(64);
    let embedding_dimensions = values.whole("embedding_dimensions", 1..=16_000)?;
    let settings = Settings {
        api: values.choice("api", [("openai", Api::OpenAi), ("anthropic", Api::Anthropic)])?,
        base_url: base_url(&values)?,
        chat_model: values.text("chat_model")?,
        embedding_model: values.text("embedding_model")?,
        rerank_model: values.text("rerank_model")?,
        structured: values.choice(
            "structured_output",
            [
                ("json_schema", Structured::JsonSchema),
                ("json_object", Structured::JsonObject),
                ("none", Structured::None),
            ],
        )?,
        key: None,
        concurrency: values.whole("concurrency", 1..=256)?.unwrap_or(8),
        requests_per_minute: values.whole("requests_per_minute", 1..=1_000_000)?,
        timeout: Duration::from_millis(values.whole("timeout_ms", 100..=3_600_000)?.unwrap_or(120_000)),
        retries: values.whole("retries", 0..=20)?.unwrap_or(4),
        embedding_dimensions,
        temperature: values.number("temperature", 0.0..=2.0, "a number")?,
        token_limit: values.choice(
            "token_limit",
            [
                ("max_tokens", TokenLimit::MaxTokens),
                ("max_completion_tokens", TokenLimit::MaxCompletionTokens),
            ],
        )?,
        max_reply_bytes: MAX_REPLY_BYTES.max(batch_size * embedding_dimensions.unwrap_or(4096) as usize * NUMBER_BYTES),
    };
    Ok(Parsed {
        settings,
        batch_size,
        max_tokens: values.whole("max_tokens", 16..=200_000)?.unwrap_or(4096),
        price_in: values.price("price_in")?,
        price_out: values.price("price_out")?,
        price_embedding: values.price("price_embedding")?,
        api_key_file,
        api_key_env,
    })
}

/// The options of a server by their names.
struct Values<'a>(&'a BTreeMap<String, String>);

impl Values<'_> {
    fn text(&self, name: &str) -> Result<Option<String>> {
        match self.0.get(name) {
            Some(value) if value.trim().is_empty() => {
                Err(Error::invalid(format!("option {} must not be empty", quoted(name))))
            }
            value => Ok(value.cloned()),
        }
    }

    /// One of some words; the first of them if the option is not given.
    fn choice<T, const N: usize>(&self, name: &str, known: [(&str, T); N]) -> Result<T> {
        let words: Vec<String> = known.iter().map(|(word, _)| literal(word)).collect();
        let value = self.0.get(name).map(String::as_str);
        known
            .into_iter()
            .find(|(word, _)| value.is_none_or(|value| value == *word))
            .map(|(_, choice)| choice)
            .ok_or_else(|| self.bad(name, &format!("one of {}", words.join(", "))))
    }

    fn whole<T: FromStr + PartialOrd + Display>(&self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>> {
        self.number(name, range, "a whole number")
    }

    fn number<T: FromStr + PartialOrd + Display>(
        &self,
        name: &str,
        range: RangeInclusive<T>,
        kind: &str,
    ) -> Result<Option<T>> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        match value.parse::<T>() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(self.bad(name, &format!("{kind} between {} and {}", range.start(), range.end()))),
        }
    }

    fn price(&self, name: &str) -> Result<Option<String>> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if value.len() <= 30 && is_digits(whole) && is_digits(fraction) {
            return Ok(Some(value.clone()));
        }
        Err(self.bad(name, "a number from 0 on, such as 0.15: the price of a million tokens"))
    }

    fn bad(&self, name: &str, expected: &str) -> Error {
        let value = self.0.get(name).map_or("", String::as_str);
        Error::invalid(format!("option {} must be {expected}", quoted(name)))
            .detail(format!("It is {}.", quoted(value)))
    }
}

/// The address of a service, without a slash at its end.
fn base_url(values: &Values) -> Result<String> {
    let Some(url) = values.text("base_url")? else {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_FDW_DYNAMIC_PARAMETER_VALUE_NEEDED,
            "option \"base_url\" is required",
        )
        .hint("For example 'https://api.openai.com/v1' or 'http://localhost:11434/v1'."));
    };
    // What is wrong is said without the address, which may hold a password.
    check_url(&url).map_err(|what| {
        Error::invalid(format!("option \"base_url\" {what}"))
            .hint("It is http or https, a host, if need be a port, and a path: 'https://host:8080/v1'.")
    })?;
    Ok(url.trim_end_matches('/').to_owned())
}

fn check_url(url: &str) -> std::result::Result<(), &'static str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or("must start with http:// or https://")?;
    if !rest
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&b))
    {
        return Err("holds characters that an address cannot have");
    }
    if rest.contains(['?', '#']) {
        return Err("must have no query and no fragment");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must have no user and no password");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(address) => {
            let (address, port) = address.split_once(']').ok_or("has a host that cannot be")?;
            address.parse::<Ipv6Addr>().map_err(|_| "has a host that cannot be")?;
            (address, port)
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
                return Err("has a host that cannot be");
            }
            (host, port)
        }
    };
    if host.is_empty() {
        return Err("needs a host");
    }
    let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0);
    match port.strip_prefix(':') {
        Some(port) if is_port(port) => Ok(()),
        None if port.is_empty() => Ok(()),
        _ => Err("has a port that cannot be"),
    }
}
