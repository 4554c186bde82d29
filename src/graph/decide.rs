//! Whether two entities are one: how alike their contexts are, and what a model says.

use graphrag_text::answer;

use crate::collection::Collection;
use crate::error::{Error, Result, notice};
use crate::model::{Answer, Asking, Item, Ledger, prompts};
use crate::pg::tick;

/// Pairs that are read and put to the model at once.
const BATCH: usize = 200;
/// Leaves that an entity's context is taken from.
const LEAVES: i64 = 20;
/// Relations of an entity that the model is told.
const RELATIONS: i64 = 10;

/// For each pair the cosine between the means of the vectors of the leaves that mention one and the other; 0 where one is in
/// no leaf with a vector. Of an entity that many leaves mention, the first by the hashes of their texts count.
pub fn contexts(collection: &Collection, pairs: &[(i64, i64)]) -> Result<Vec<f64>> {
    let (one, other): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
    let sql = "WITH pair AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS p (a, b, n)), \
               context AS MATERIALIZED (SELECT e.id, {v}.avg(l.embedding) AS mean \
                 FROM (SELECT a AS id FROM pair UNION SELECT b FROM pair) e CROSS JOIN LATERAL ( \
                   SELECT DISTINCT n.text_hash, n.id, n.embedding FROM {s}.mention m JOIN {s}.node n ON n.block_id = m.block_id \
                   WHERE m.entity_id = e.id AND n.level = 0 AND n.embedding IS NOT NULL \
                     AND n.start_char < m.end_char AND n.end_char > m.start_char ORDER BY n.text_hash, n.id LIMIT $3) l GROUP BY 1) \
               SELECT 1 - (a.mean OPERATOR({v}.<=>) b.mean) FROM pair p LEFT JOIN context a ON a.id = p.a LEFT JOIN context b ON b.id = p.b \
               ORDER BY p.n";
    collection.query(sql, &[one.into(), other.into(), LEAVES.into()], |row| {
        Ok(row.get::<f64>(1)?.filter(|cosine| cosine.is_finite()).unwrap_or(0.0))
    })
}

/// An entity as the model is told of it.
struct Known {
    text: String,
    documents: Vec<i64>,
}

/// What the answerer says of each pair; nothing where its call has failed.
pub fn decide(collection: &Collection, pairs: &[(i64, i64)]) -> Result<Vec<Option<bool>>> {
    let options = &collection.options;
    let Some(answerer) = &options.answerer else {
        return Err(Error::invalid("the collection has no answerer to ask").hint(
            "rag_alter sets the answerer: 'function:schema.name' or 'server:name'; without ask => true the proposals are for you to decide.",
        ));
    };
    let mut ledger = Ledger::begin(collection, "resolve", Asking::Now)?;
    let mut said = Vec::with_capacity(pairs.len());
    for part in pairs.chunks(BATCH) {
        let ids: Vec<i64> = part.iter().flat_map(|pair| [pair.0, pair.1]).collect();
        let known = read(collection, &ids)?;
        let items: Vec<Item> = known
            .chunks_exact(2)
            .map(|pair| {
                let mut documents = [&pair[0].documents[..], &pair[1].documents].concat();
                documents.sort_unstable();
                documents.dedup();
                Item::new(
                    prompts::resolve(answerer, options, &pair[0].text, &pair[1].text),
                    documents,
                )
            })
            .collect();
        said.extend(ledger.want(answerer, &items)?.into_iter().map(|answer| match answer {
            Some(Answer::Text(text)) => answer::yes(&text).ok(),
            _ => None,
        }));
        tick();
    }
    let failed = said.iter().filter(|same| same.is_none()).count();
    if failed > 0 {
        let reason = ledger.last_failure()?.unwrap_or_default();
        notice(
            format!("{} has not decided on {failed} of {} pairs", answerer.text, pairs.len()),
            format!("The last failure: {reason}"),
        );
    }
    ledger.finish()?;
    Ok(said)
}

/// The entities `ids`, in this order.
fn read(collection: &Collection, ids: &[i64]) -> Result<Vec<Known>> {
    let sql = "SELECT e.name || coalesce(', ' || e.type, '') || coalesce(': ' || left(e.description, 1000), ''), \
                 ARRAY(SELECT s.name || ' ' || r.predicate || ' ' || t.name FROM ( \
                     SELECT * FROM {s}.relation r WHERE r.source_id = e.id UNION SELECT * FROM {s}.relation r WHERE r.target_id = e.id) r \
                   JOIN {s}.entity s ON s.id = r.source_id JOIN {s}.entity t ON t.id = r.target_id \
                   ORDER BY r.weight DESC, s.key COLLATE \"C\", r.predicate_key COLLATE \"C\", t.key COLLATE \"C\" LIMIT $2), \
                 ARRAY(SELECT DISTINCT m.document_id FROM {s}.mention m WHERE m.entity_id = e.id UNION \
                       SELECT v.document_id FROM {s}.evidence v JOIN {s}.relation r ON r.id = v.relation_id WHERE e.id IN (r.source_id, r.target_id)) \
               FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.entity e ON e.id = u.id ORDER BY u.n";
    collection.returning(sql, &[ids.to_vec().into(), RELATIONS.into()], |row| {
        let relations: Vec<String> = row.need(2)?;
        Ok(Known {
            text: [vec![row.need(1)?], relations].concat().join("\n"),
            documents: row.need(3)?,
        })
    })
}
