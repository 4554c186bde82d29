//! What the graph says of the entities that a question names.

use super::around::{Around, Vertex};
use super::seeds;
use crate::collection::Collection;
use crate::error::Result;
use crate::graph::local::step;
use crate::search::Scope;

/// A relation in words.
pub struct Fact {
    pub relation: i64,
    pub text: String,
    /// The sentence that states it.
    pub quote: Option<String>,
    pub documents: Vec<i64>,
}

/// What the entities are called that a question names.
pub fn named(collection: &Collection, query: &str, scope: &Scope) -> Result<Vec<String>> {
    let mut around = Around::new(collection, scope)?;
    let found = entities(collection, &mut around, query)?;
    let mut names: Vec<String> = around.names(&found)?.into_values().collect();
    names.sort_unstable();
    Ok(names)
}

fn entities(collection: &Collection, around: &mut Around, query: &str) -> Result<Vec<i64>> {
    let named = seeds::named(collection, around, query)?;
    Ok(named
        .into_iter()
        .filter_map(|(vertex, _)| match Vertex::of(vertex) {
            Vertex::Entity(id) => Some(id),
            Vertex::Block(_) => None,
        })
        .collect())
}

/// The relations of the entities that a question names, at most `limit`, the heaviest first. Under a scope what its documents say alone.
pub fn facts(collection: &Collection, query: &str, limit: i64, scope: &Scope) -> Result<Vec<Fact>> {
    let mut around = Around::new(collection, scope)?;
    let named = entities(collection, &mut around, query)?;
    // Where only passages are hidden, relations would tell what they say.
    if named.is_empty() || collection.hides_only_nodes()? {
        return Ok(Vec::new());
    }
    let edges = step(collection, &named, &[], scope, limit)?;
    Ok(edges
        .into_iter()
        .map(|(relation, _, edge)| {
            let (source, predicate, target, _, description, quote, _, documents) = edge;
            let said = format!("{source} {} {target}", predicate.replace('_', " "));
            let text = match description.as_ref().or(quote.as_ref()) {
                Some(words) => format!("{said}: {words}"),
                None => format!("{said}."),
            };
            Fact {
                relation,
                text,
                quote,
                documents,
            }
        })
        .collect())
}
