//! Which edges of the built-in extractor the collection as a whole bears out.

use graphrag_text::fold;

use super::found::UNNAMED;
use crate::collection::Collection;
use crate::error::Result;

/// A condition on a relation, called `r`, and its ends, entities called `s` and `t`: true unless it only says that two names
/// stand in one sentence, and the counts of the collection do not bear that out. For those who see every document.
///
/// The edge is weak if the normalised pointwise mutual information of its ends is under `edge_npmi`: they meet hardly
/// more often than by chance. Or if one of them is a phrase in fewer documents than `phrase_documents`. Nothing is deleted: counts
/// change with each document, and an edge that is weak now may be borne out by the next one.
pub fn kept(collection: &Collection, r: &str) -> Result<String> {
    let options = &collection.options;
    let sql = "SELECT (value ->> 'blocks')::bigint FROM {s}.setting WHERE key = 'step.extract'";
    let blocks: Option<i64> = collection.query(sql, &[], |row| row.get(1))?.pop().flatten();
    let Some(blocks) = blocks.filter(|&blocks| blocks >= options.prune_from && options.extractor.is_built_in()) else {
        return Ok("true".to_owned());
    };
    // In counts of blocks: p(st) = weight / blocks.
    let npmi = format!(
        "CASE WHEN {r}.weight < 1 OR {r}.weight >= {blocks} THEN 1 ELSE \
           ln({r}.weight * {blocks} / (greatest(s.block_count, {r}.weight) * greatest(t.block_count, {r}.weight))) \
           / ln({blocks} / {r}.weight) END"
    );
    let phrase = |end: &str| {
        format!(
            "{end}.type = 'concept' AND NOT {end}.given AND {end}.source_count < {}",
            options.phrase_documents
        )
    };
    Ok(format!(
        "NOT ({r}.predicate_key = '{}' AND {r}.given_weight IS NULL AND {r}.description IS NULL \
           AND ({} OR {} OR {npmi} < {:?}::float8) \
           AND NOT EXISTS (SELECT FROM {{s}}.evidence g WHERE g.relation_id = {r}.id AND g.given))",
        fold::predicate(UNNAMED),
        phrase("s"),
        phrase("t"),
        options.edge_npmi,
    ))
}
