//! The embedder of a collection: one model, or a weighted sum of models whose vectors stand side by side in one column.

use super::{Form, Model, Role};
use crate::error::{Error, Result};
use crate::pg::vector;

/// What makes the vectors of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedder {
    /// As the settings have it.
    pub text: String,
    pub parts: Vec<Part>,
}

/// One model of an embedder.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub model: Model,
    /// Its share of the cosine; those of all parts make 1.
    pub weight: f64,
    /// Where its numbers begin in the column, and how many they are.
    pub start: usize,
    pub dimensions: usize,
}

/// A built-in embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    Hash,
    Lsa,
}

impl BuiltIn {
    pub const NAMES: [&str; 2] = ["builtin:lsa", "builtin:hash"];
}

impl Part {
    /// What kind of built-in model it is, if it is one.
    pub fn built_in(&self) -> Option<BuiltIn> {
        match (&self.model.form, self.model.text.as_str()) {
            (Form::BuiltIn, "builtin:lsa") => Some(BuiltIn::Lsa),
            (Form::BuiltIn, _) => Some(BuiltIn::Hash),
            _ => None,
        }
    }
}

impl Embedder {
    /// Reads `[weight*]model[(dimensions)] + …` for a column of `dimensions`.
    ///
    /// At most one part is not built in. A part without dimensions takes what the others leave; several built-in ones share it.
    pub fn parse(text: &str, dimensions: usize) -> Result<Embedder> {
        let mut parts = Vec::new();
        for summand in split(text) {
            parts.push(part(summand.trim())?);
        }
        let wrong = |message: String| {
            Err(Error::invalid(message)
                .detail(format!("It is \"{text}\"."))
                .hint("For example 'server:x + builtin:lsa', '0.6*server:x(1536) + 0.4*builtin:lsa(384)'."))
        };
        if parts.iter().filter(|part| !part.model.is_built_in()).count() > 1 {
            return wrong("an embedder has at most one part that is not built in".to_owned());
        }
        for (number, part) in parts.iter().enumerate() {
            if parts[..number].iter().any(|other| other.model == part.model) {
                return wrong(format!("{} is twice in the embedder", part.model.text));
            }
        }
        let given: usize = parts.iter().map(|part| part.dimensions).sum();
        let open = parts.iter().filter(|part| part.dimensions == 0).count();
        if given + open > dimensions || open == 0 && given != dimensions {
            let parts = if parts.len() == 1 {
                "The part has"
            } else {
                "Its parts have"
            };
            return wrong(format!("the embedder does not fit a column of {dimensions} dimensions"))
                .map_err(|error| error.detail(format!("{parts} {given} of their own in \"{text}\".")));
        }
        let mut left = dimensions - given;
        let mut open = open;
        let whole: f64 = parts.iter().map(|part| part.weight).sum();
        let mut start = 0;
        for part in &mut parts {
            if part.dimensions == 0 {
                part.dimensions = left / open;
                left -= part.dimensions;
                open -= 1;
            }
            part.start = start;
            part.weight /= whole;
            start += part.dimensions;
        }
        Ok(Embedder {
            text: text.to_owned(),
            parts,
        })
    }

    /// The part that is not built in.
    pub fn outside(&self) -> Option<&Part> {
        self.parts.iter().find(|part| !part.model.is_built_in())
    }

    /// The part that the collection teaches itself.
    pub fn lsa(&self) -> Option<&Part> {
        self.parts.iter().find(|part| part.built_in() == Some(BuiltIn::Lsa))
    }

    pub fn is_built_in(&self) -> bool {
        self.outside().is_none()
    }

    pub fn is_queue(&self) -> bool {
        self.outside().is_some_and(|part| part.model.form == Form::Queue)
    }

    /// The vector of a text from those of the parts, in their order; nothing if none has one.
    ///
    /// Each part is scaled by the root of its weight, so that the cosine of two vectors is the weighted mean of the cosines
    /// of their parts. A part that has no vector, of a text without a word, counts as zero.
    pub fn join(&self, vectors: &[Option<Vec<f32>>]) -> Option<Vec<f32>> {
        if let [one] = vectors {
            return one.clone();
        }
        let mut whole = vec![0.0; self.parts.iter().map(|part| part.dimensions).sum()];
        for (part, vector) in self.parts.iter().zip(vectors) {
            let root = part.weight.sqrt();
            for (to, from) in whole[part.start..].iter_mut().zip(vector.iter().flatten()) {
                *to = (f64::from(*from) * root) as f32;
            }
        }
        vector::unit(&whole)
    }
}

impl Part {
    /// What a vector of the whole column holds of this part, at unit length.
    pub fn of(&self, whole: &[f32]) -> Option<Vec<f32>> {
        let end = self.start + self.dimensions;
        whole.get(self.start..end).and_then(vector::unit)
    }
}

/// The summands; a plus inside double quotes is part of a name.
fn split(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c: char| {
        quoted ^= c == '"';
        c == '+' && !quoted
    })
    .collect()
}

/// One summand, with 0 dimensions where it has none of its own.
fn part(text: &str) -> Result<Part> {
    let (weight, rest) = match text.split_once('*') {
        Some((number, rest)) if !number.contains(':') => (weight(number.trim())?, rest.trim()),
        _ => (1.0, text),
    };
    let (model, dimensions) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        Some((model, number)) if !number.trim().is_empty() && number.trim().bytes().all(|b| b.is_ascii_digit()) => {
            (model.trim(), size(number.trim())?)
        }
        _ => (rest, 0),
    };
    Ok(Part {
        model: Model::parse(Role::Embedder, model)?,
        weight,
        start: 0,
        dimensions,
    })
}

fn weight(number: &str) -> Result<f64> {
    let weight: Option<f64> = number.parse().ok();
    weight.filter(|weight| (1e-6..=1e6).contains(weight)).ok_or_else(|| {
        Error::invalid(format!("\"{number}\" is no weight"))
            .hint("It is a number from 0.000001 to 1000000: 0.6*server:x.")
    })
}

fn size(number: &str) -> Result<usize> {
    let size: Option<usize> = number.parse().ok();
    size.filter(|size| (1..=vector::MAX_DIMENSIONS as usize).contains(size))
        .ok_or_else(|| {
            Error::invalid(format!("a part of an embedder cannot have {number} dimensions"))
                .hint(format!("Vectors have between 1 and {}.", vector::MAX_DIMENSIONS))
        })
}
