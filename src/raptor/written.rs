//! What a tree was written by, and whether that would write it alike today.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::build::Shape;
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{lsa, prompts};

/// Whether the last tree was written by the summarizer that there is, told the same, in clusters that are within the limits.
pub fn is_alike(collection: &Collection) -> Result<bool> {
    let sql = "SELECT value::text FROM {s}.setting WHERE key = 'step.tree'";
    let noted: Option<String> = collection.query(sql, &[], |row| row.get(1))?.pop().flatten();
    let noted: Value = noted
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let limits = Shape::of_last(collection)?.limits(collection);
    let is_less = |key: &str, limit: usize| noted[key].as_u64().is_some_and(|before| (limit as u64) < before);
    if is_less("cluster_tokens", limits.tokens as usize) || is_less("cluster_members", limits.members) {
        return Ok(false);
    }
    // A model that cannot be looked up is told of by the refresh.
    let now = identity(collection).map(hex);
    Ok(noted["written_by"]
        .as_str()
        .is_none_or(|before| now.is_ok_and(|now| now == before)))
}

/// The form in which the settings have an identity.
pub fn hex(identity: Vec<u8>) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The summarizer and what it is told beside the texts: what it writes from the same texts is the same as long as this is.
pub fn identity(collection: &Collection) -> Result<Vec<u8>> {
    let options = &collection.options;
    let model = &options.summarizer;
    let told = match model.is_built_in() {
        true => format!(
            "{} {} {}",
            options.summary_tokens,
            options.language,
            lsa::State::load(collection)?.version
        ),
        false => prompts::summarize(model, options, &[]).to_string(),
    };
    Ok(Sha256::digest(format!("{}\0{told}", model.identity(collection.owner)?)).to_vec())
}
