//! The options of a collection: read from `setting`, checked when they are written.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use graphrag_text::{chunk, stop};
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value};

use super::reading::{self, Reading};
use super::{LAYOUT, quoted};
use crate::error::{Error, Result, required};
use crate::model::wording::PROMPTS;
use crate::model::{Embedder, Model, Part, Role};
use crate::pg::json::Json;
use crate::pg::spi;
use crate::pg::vector::MAX_DIMENSIONS;
use crate::refresh::REEMBED;

/// What the table `setting` says.
pub struct Options {
    pub dimensions: usize,
    /// What made the vectors in the tables.
    pub embedder: Embedder,
    /// The part of it that is not built in, in full; nothing while there are no vectors.
    pub embedder_identity: Option<String>,
    /// What the next refresh goes over to.
    pub next_embedder: Option<Embedder>,
    pub summarizer: Model,
    pub extractor: Model,
    pub answerer: Option<Model>,
    pub reranker: Option<Model>,
    /// System messages, by their settings.
    pub prompts: BTreeMap<&'static str, String>,
    pub language: String,
    pub partition_by: Vec<String>,
    pub chunk: chunk::Options,
    /// Documents up to which a writing statement makes blocks and leaves at once.
    pub inline_rows: i64,
    /// Candidate rows up to which search is exact.
    pub exact_below: i64,
    /// Members of a cluster at most, when raptor_build is not told; nothing has the method choose.
    pub cluster_size: Option<i64>,
    /// Tokens that the summarizer reads of one cluster.
    pub cluster_tokens: i64,
    /// Tokens of a summary or report.
    pub summary_tokens: i64,
    /// Tokens of the statements that a report is written from.
    pub report_tokens: i64,
    /// Tokens of the passages and relations that an answer is made from.
    pub context_tokens: i64,
    /// Tokens of the descriptions of one entity or relation, above which they are summarised.
    pub description_tokens: i64,
    /// How often a model is asked what it has missed in a block.
    pub gleanings: i64,
    pub reading: Reading,
    /// Reports are digests until somebody reads them.
    pub lazy_reports: bool,
    /// Blocks from which on statistics tell which edges of the built-in extractor count.
    pub prune_from: i64,
    /// Documents that a phrase has to stand in.
    pub phrase_documents: i64,
    /// Normalised pointwise mutual information that two names of one sentence have to have.
    pub edge_npmi: f64,
    /// Requests that an item gets in all before it stays failed, one a refresh.
    pub max_attempts: i64,
}

/// Numeric options: key, default, least, greatest.
const NUMBERS: [(&str, i64, i64, i64); 15] = [
    ("block_tokens", 1000, 50, 100_000),
    ("leaf_tokens", 200, 8, 10_000),
    ("leaf_overlap", 40, 0, 5_000),
    ("inline_rows", 1000, 0, 1_000_000),
    ("exact_below", 10_000, 0, 10_000_000),
    ("cluster_size", 0, 2, 1_000),
    ("cluster_tokens", 3500, 100, 1_000_000),
    ("summary_tokens", 200, 16, 10_000),
    ("report_tokens", 8000, 200, 1_000_000),
    ("context_tokens", 4000, 100, 1_000_000),
    ("description_tokens", 500, 50, 100_000),
    ("gleanings", 0, 0, 10),
    ("max_attempts", 3, 1, 1_000),
    ("prune_from", 100, 0, 1_000_000_000),
    ("phrase_documents", 2, 1, 1_000_000),
];

/// The setting that is a fraction.
const EDGE_NPMI: &str = "edge_npmi";

/// The setting that is true or false.
const LAZY_REPORTS: &str = "lazy_reports";

/// The models that rag_alter changes.
const MODELS: [&str; 5] = ["embedder", "summarizer", "extractor", "answerer", "reranker"];

/// The longest prompt.
const MAX_PROMPT_BYTES: usize = 20_000;

impl Options {
    pub fn load(name: &str, schema: &str) -> Result<Options> {
        let sql = format!("SELECT jsonb_object_agg(key, value)::text FROM {schema}.setting");
        let text: Option<String> = spi::lookup(&sql, &[], |row| row.get(1))?.pop().flatten();
        let map: Map<String, Value> = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| Error::internal(format!("collection {} has no settings", quoted(name))))?;
        let layout = map.get("layout").and_then(Value::as_i64).unwrap_or(0);
        if layout != LAYOUT {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "collection {} has layout {layout}, this version of pg_graphrag needs {LAYOUT}",
                    quoted(name)
                ),
            ));
        }
        Options::parse(&map)
    }

    pub fn parse(map: &Map<String, Value>) -> Result<Options> {
        let number = |key: &str| number(map, key);
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let dimensions = whole(
            map.get("dimensions").unwrap_or(&Value::Null),
            "dimensions",
            1..=i64::from(MAX_DIMENSIONS),
        )?;
        let dimensions = dimensions as usize;
        let chunk = chunk::Options {
            block_tokens: number("block_tokens")? as usize,
            leaf_tokens: number("leaf_tokens")? as usize,
            overlap: number("leaf_overlap")? as usize,
        };
        chunk.validate().map_err(|message| {
            Error::invalid(message.to_string().replace("overlap", "leaf_overlap"))
                .hint("For example {\"block_tokens\": 400, \"leaf_tokens\": 40, \"leaf_overlap\": 8}.")
        })?;
        let partition_by = map.get("partition_by").and_then(Value::as_array);
        let named = |key: &str| match map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                Err(Error::invalid(format!("setting {} must be a text", quoted(key))).detail(format!("It is {other}.")))
            }
        };
        let embedder = |key: &str| named(key)?.map(|text| Embedder::parse(text, dimensions)).transpose();
        let model = |role: Role, key: &str| named(key)?.map(|text| Model::parse(role, text)).transpose();
        let needed = |role: Role| -> Result<Model> {
            model(role, role.name())?.ok_or_else(|| Error::null(&format!("setting {}", quoted(role.name()))))
        };
        Ok(Options {
            dimensions,
            embedder: embedder("embedder")?.ok_or_else(|| Error::null("setting \"embedder\""))?,
            embedder_identity: map.get("embedder_identity").and_then(Value::as_str).map(str::to_owned),
            next_embedder: embedder("next_embedder")?,
            summarizer: needed(Role::Summarizer)?,
            extractor: needed(Role::Extractor)?,
            answerer: model(Role::Answerer, "answerer")?,
            reranker: model(Role::Reranker, "reranker")?,
            prompts: prompts(map)?,
            language: text("language"),
            partition_by: partition_by
                .map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default(),
            chunk,
            inline_rows: number("inline_rows")?,
            exact_below: number("exact_below")?,
            cluster_size: map
                .get("cluster_size")
                .filter(|value| !value.is_null())
                .map(|_| number("cluster_size"))
                .transpose()?,
            cluster_tokens: number("cluster_tokens")?,
            summary_tokens: number("summary_tokens")?,
            report_tokens: number("report_tokens")?,
            context_tokens: number("context_tokens")?,
            description_tokens: number("description_tokens")?,
            gleanings: number("gleanings")?,
            reading: Reading::parse(map)?,
            lazy_reports: lazy_reports(map)?,
            prune_from: number("prune_from")?,
            phrase_documents: number("phrase_documents")?,
            edge_npmi: edge_npmi(map)?,
            max_attempts: number("max_attempts")?,
        })
    }

    /// The partition of metadata: its value of the key of `partition_by`, as JSON; of several keys, an array of them. A key
    /// that is missing counts as JSON null. Without keys all is one partition, the empty text.
    pub fn partition_of(keys: &[String], metadata: Option<&Json>) -> String {
        let value = |key: &String| {
            metadata
                .and_then(|json| json.field(key))
                .unwrap_or_else(|| "null".to_owned())
        };
        match keys {
            [] => String::new(),
            [key] => value(key),
            _ => format!("[{}]", keys.iter().map(value).collect::<Vec<_>>().join(", ")),
        }
    }

    /// The partition of what rests on no document.
    pub fn unkeyed_partition(&self) -> String {
        Self::partition_of(&self.partition_by, None)
    }

    /// The models of all roles.
    pub fn models(&self) -> impl Iterator<Item = &Model> {
        let embedders = [&self.embedder].into_iter().chain(&self.next_embedder);
        embedders
            .flat_map(|embedder| embedder.parts.iter().map(|part| &part.model))
            .chain([&self.summarizer, &self.extractor])
            .chain(&self.answerer)
            .chain(&self.reranker)
    }

    /// The part of the embedder that `model` is, for the calls of `step`.
    pub fn part(&self, model: &str, step: &str) -> Result<&Part> {
        let next = self.next_embedder.as_ref().filter(|_| step == REEMBED);
        let embedders = next.into_iter().chain([&self.embedder]);
        let mut parts = embedders.flat_map(|embedder| &embedder.parts);
        parts
            .find(|part| part.model.text == model)
            .ok_or_else(|| Error::internal(format!("{model} is no part of the embedder")))
    }

    /// What search does until all texts are embedded by another embedder.
    pub fn until_embedded(&self, next: &Embedder) -> String {
        match *next == self.embedder {
            true if next.lsa().is_some() => format!(
                "{} learns, and all texts are embedded anew, with the next refresh",
                next.text
            ),
            // The same name with another model behind it: the old one cannot be asked any more.
            true => format!(
                "search by text is refused until all texts are embedded anew by {}",
                next.text
            ),
            false => format!(
                "search answers from the vectors of {} until all texts are embedded by {}",
                self.embedder.text, next.text
            ),
        }
    }

    pub fn stop_words(&self) -> &'static stop::StopWords {
        stop::words(&self.language)
    }
}

fn prompts(map: &Map<String, Value>) -> Result<BTreeMap<&'static str, String>> {
    let mut prompts = BTreeMap::new();
    for &(key, default) in PROMPTS {
        let text = match map.get(key) {
            None | Some(Value::Null) => default,
            Some(Value::String(text)) if !text.trim().is_empty() && text.len() <= MAX_PROMPT_BYTES => text,
            Some(_) => {
                return Err(
                    Error::invalid(format!("setting {} must be a text", quoted(key))).detail(format!(
                        "It has at least one letter and at most {MAX_PROMPT_BYTES} bytes."
                    )),
                );
            }
        };
        prompts.insert(key, text.to_owned());
    }
    Ok(prompts)
}

fn edge_npmi(map: &Map<String, Value>) -> Result<f64> {
    match map.get(EDGE_NPMI) {
        None | Some(Value::Null) => Ok(0.1),
        Some(value) => value
            .as_f64()
            .filter(|npmi| (-1.0..=1.0).contains(npmi))
            .ok_or_else(|| {
                Error::invalid(format!(
                    "setting {} must be a number between -1 and 1",
                    quoted(EDGE_NPMI)
                ))
                .detail(format!("It is {value}."))
            }),
    }
}

fn lazy_reports(map: &Map<String, Value>) -> Result<bool> {
    match map.get(LAZY_REPORTS) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(wanted)) => Ok(*wanted),
        Some(other) => Err(
            Error::invalid(format!("setting {} must be true or false", quoted(LAZY_REPORTS)))
                .detail(format!("It is {other}.")),
        ),
    }
}

fn number(map: &Map<String, Value>, key: &str) -> Result<i64> {
    let known = NUMBERS.iter().find(|number| number.0 == key);
    let &(_, default, least, greatest) = known.ok_or_else(|| Error::internal(format!("no setting is called {key}")))?;
    match map.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => whole(value, key, least..=greatest),
    }
}

fn whole(value: &Value, key: &str, range: RangeInclusive<i64>) -> Result<i64> {
    value.as_i64().filter(|n| range.contains(n)).ok_or_else(|| {
        Error::invalid(format!(
            "setting {} must be a whole number between {} and {}",
            quoted(key),
            range.start(),
            range.end()
        ))
        .detail(format!("It is {value}."))
    })
}

/// The argument `settings` as an object.
pub fn settings_of(settings: Option<Json>) -> Result<Map<String, Value>> {
    let settings = required(settings, "settings")?;
    match serde_json::from_str(settings.as_str()) {
        Ok(Value::Object(map)) => Ok(map),
        _ => Err(Error::invalid("settings must be a JSON object").hint("For example '{\"leaf_tokens\": 300}'.")),
    }
}

/// Refuses keys that are not options; `models` says whether all models may be among them (rag_alter), or only the reranker.
pub fn check_keys(settings: &Map<String, Value>, models: bool) -> Result<()> {
    let mut known: Vec<&str> = NUMBERS.iter().map(|n| n.0).chain(PROMPTS.iter().map(|p| p.0)).collect();
    known.extend([EDGE_NPMI, LAZY_REPORTS]);
    known.extend(reading::KEYS);
    known.extend(if models { &MODELS[..] } else { &MODELS[4..] });
    match settings.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Error::invalid(format!("unknown setting {}", quoted(key)))
            .hint(format!("Settings are {}.", known.join(", ")))),
    }
}

/// Whether a change from one set of options to another changes how documents are cut.
pub fn cuts_differ(before: &Options, after: &Options) -> bool {
    let cut = |o: &Options| (o.chunk.block_tokens, o.chunk.leaf_tokens, o.chunk.overlap);
    cut(before) != cut(after)
}
