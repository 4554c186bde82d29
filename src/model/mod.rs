//! What embeds, summarises and extracts: models behind the names that stand in a collection's settings.

use graphrag_text::phrases::{self, Extraction};
use graphrag_text::stop::StopWords;
use graphrag_text::{hash, summary};

use crate::error::{Error, Result};
use crate::pg::tick;

/// Turns texts into unit vectors.
#[derive(Clone, Copy)]
pub enum Embedder {
    /// `builtin:hash`: words hashed into buckets, counted.
    Hash {
        dimensions: usize,
        stop: &'static StopWords,
    },
}

/// Writes one text that stands for several.
#[derive(Clone, Copy, Debug)]
pub enum Summarizer {
    /// `builtin:frequency`: whole sentences that carry the most frequent content words.
    Frequency,
}

/// Finds entities and relations in a block.
#[derive(Clone, Copy, Debug)]
pub enum Extractor {
    /// `builtin:cooccurrence`: noun phrases, linked where they stand in one sentence.
    Cooccurrence,
}

impl Embedder {
    pub fn parse(text: &str, dimensions: usize, stop: &'static StopWords) -> Result<Embedder> {
        match text {
            "builtin:hash" => Ok(Embedder::Hash { dimensions, stop }),
            _ => Err(unknown("embedder", text, "builtin:hash")),
        }
    }

    /// The unit vector of `text`; nothing if it holds no word.
    pub fn embed(self, text: &str) -> Option<Vec<f32>> {
        match self {
            Embedder::Hash { dimensions, stop } => hash::embed(text, dimensions, stop, &mut tick),
        }
    }
}

impl Summarizer {
    pub fn parse(text: &str) -> Result<Summarizer> {
        match text {
            "builtin:frequency" => Ok(Summarizer::Frequency),
            _ => Err(unknown("summarizer", text, "builtin:frequency")),
        }
    }

    /// A text of at most `max_tokens` that stands for `texts`.
    pub fn summarize(self, texts: &[&str], max_tokens: usize, stop: &StopWords) -> String {
        match self {
            Summarizer::Frequency => summary::frequency(texts, max_tokens, stop, &mut tick),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Summarizer::Frequency => "builtin:frequency",
        }
    }
}

impl Extractor {
    pub fn parse(text: &str) -> Result<Extractor> {
        match text {
            "builtin:cooccurrence" => Ok(Extractor::Cooccurrence),
            _ => Err(unknown("extractor", text, "builtin:cooccurrence")),
        }
    }

    /// The entities and relations that a block states.
    pub fn extract(self, block: &str, stop: &StopWords) -> Extraction {
        match self {
            Extractor::Cooccurrence => phrases::cooccurrence(block, stop, &mut tick),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Extractor::Cooccurrence => "builtin:cooccurrence",
        }
    }
}

/// The error for a model that cannot be had.
pub fn unknown(role: &str, text: &str, known: &str) -> Error {
    let hint = if known.is_empty() {
        format!("This version has no built-in {role}; leave it NULL.")
    } else {
        format!("The {role} of this version is '{known}'.")
    };
    Error::invalid(format!("unknown {role} \"{text}\"")).hint(hint)
}
