//! Which mode answers a question best, by its shape: nobody is asked for that.

use graphrag_text::shape;

use crate::collection::Collection;
use crate::error::Result;
use crate::graph;
use crate::search::{Scope, query_vector, rank};

/// Reports that a question about the whole is answered from, unless it says otherwise.
pub const REPORTS: i64 = 10;

/// The mode for a question, and why.
pub fn choose(collection: &Collection, question: &str, scope: &Scope) -> Result<(&'static str, String)> {
    let named = graph::named(collection, question, scope)?;
    if !named.is_empty() {
        return Ok(("local", format!("it names {}", named.join(", "))));
    }
    let sql = "SELECT EXISTS (SELECT FROM {s}.mention), EXISTS (SELECT FROM {s}.community WHERE text <> '')";
    let (has_graph, has_reports): (bool, bool) =
        collection.query_one(sql, &[], |row| Ok((row.need(1)?, row.need(2)?)))?;
    let nearest = |table: &str, condition: &str| -> Result<f64> {
        let Some(vector) = query_vector(collection, Some(question), None)? else {
            return Ok(0.0);
        };
        let best = rank(collection, table, &vector, 1, scope, condition)?;
        Ok(best.first().map_or(0.0, |(_, score)| *score))
    };
    if has_reports && collection.options.answerer.is_some() {
        if shape::is_about_the_whole(question) {
            return Ok((
                "global",
                "it names nothing that is known, and asks about the whole".to_owned(),
            ));
        }
        let (report, passage) = (nearest("community", "true")?, nearest("node", "n.level = 0")?);
        if report > passage {
            let why = format!(
                "it names nothing that is known, and the nearest report ({report:.2}) is nearer than the nearest passage ({passage:.2})"
            );
            return Ok(("global", why));
        }
    }
    Ok(match has_graph || collection.options.answerer.is_none() {
        true => (
            "local",
            "it names nothing that is known, and does not ask about the whole".to_owned(),
        ),
        false => ("plain", "there is no graph".to_owned()),
    })
}
