//! Entities and relations are caches of mentions and evidence: they are recomputed here from what stands there.

use super::alias::call_by_aliases;
use super::describe::shorten;
use crate::collection::Collection;
use crate::error::Result;

/// Entities and relations whose mentions or evidence have changed or are about to.
#[derive(Default)]
pub struct Touched {
    pub entities: Vec<i64>,
    pub relations: Vec<i64>,
}

/// What the documents `ids` mention and assert; to be asked before their evidence is removed.
pub fn touched_by(collection: &Collection, ids: &[i64]) -> Result<Touched> {
    let sql = "SELECT entity_id FROM {s}.mention WHERE document_id = ANY ($1) GROUP BY 1";
    let entities = collection.query(sql, &[ids.to_vec().into()], |row| row.need(1))?;
    let sql = "SELECT relation_id FROM {s}.evidence WHERE document_id = ANY ($1) GROUP BY 1";
    let relations = collection.query(sql, &[ids.to_vec().into()], |row| row.need(1))?;
    Ok(Touched { entities, relations })
}

/// What any document mentions or asserts.
pub fn touched_by_all(collection: &Collection) -> Result<Touched> {
    let entities = collection.query("SELECT entity_id FROM {s}.mention GROUP BY 1", &[], |row| row.need(1))?;
    let relations = collection.query("SELECT relation_id FROM {s}.evidence GROUP BY 1", &[], |row| {
        row.need(1)
    })?;
    Ok(Touched { entities, relations })
}

/// Locks rows of a table in the order of their ids. What is decided on them afterwards is decided in a statement of its own,
/// whose snapshot sees what others have committed meanwhile.
pub fn lock_rows(collection: &Collection, table: &str, ids: &[i64]) -> Result<()> {
    let sql = format!("SELECT id FROM {{s}}.{table} WHERE id = ANY ($1) ORDER BY id FOR UPDATE");
    collection.returning(&sql, &[ids.to_vec().into()], |_| Ok(()))?;
    Ok(())
}

/// Recomputes the touched relations and entities from the evidence and mentions that stand, and deletes those that rest
/// on nothing any more. What was given by hand stays, with the weight and description that it was given.
pub fn recount(collection: &Collection, touched: &Touched) -> Result<()> {
    if touched.entities.is_empty() && touched.relations.is_empty() {
        return Ok(());
    }
    let relations = || touched.relations.clone().into();
    let sql = "SELECT DISTINCT e FROM (SELECT unnest($2::bigint[]) UNION ALL \
                 SELECT unnest(ARRAY[source_id, target_id]) FROM {s}.relation WHERE id = ANY ($1)) u (e)";
    let entities: Vec<i64> =
        collection.query(sql, &[relations(), touched.entities.clone().into()], |row| row.need(1))?;
    lock_rows(collection, "relation", &touched.relations)?;
    lock_rows(collection, "entity", &entities)?;
    let sql = "DELETE FROM {s}.relation r WHERE r.id = ANY ($1) AND r.given_weight IS NULL \
               AND NOT EXISTS (SELECT FROM {s}.evidence e WHERE e.relation_id = r.id)";
    collection.execute(sql, &[relations()])?;
    let sql = "UPDATE {s}.relation r SET weight = coalesce(e.blocks, r.given_weight), \
                 source_count = coalesce(e.documents, 0), predicate = coalesce(e.predicate, r.predicate), \
                 description = CASE WHEN (r.given_weight IS NOT NULL AND NOT r.bound) OR r.fragments_hash = e.hash THEN r.description ELSE e.description END, \
                 fragments_hash = CASE WHEN NOT (r.given_weight IS NOT NULL AND NOT r.bound) AND r.fragments_hash = e.hash THEN e.hash END, \
                 stale = coalesce(NOT (r.given_weight IS NOT NULL AND NOT r.bound) AND r.fragments_hash = e.hash AND r.stale, false), \
                 properties = CASE WHEN (r.given_weight IS NOT NULL AND NOT r.bound) THEN r.properties ELSE coalesce(e.properties, '{}') END \
               FROM unnest($1) AS wanted (id) LEFT JOIN ( \
                 SELECT *, sha256(convert_to(description, 'UTF8')) AS hash FROM (SELECT e.relation_id, \
                   count(DISTINCT (e.block_id, e.document_id)) AS blocks, \
                   count(DISTINCT e.document_id) AS documents, \
                   (array_agg(e.predicate ORDER BY d.body_hash, d.source_key COLLATE \"C\", e.start_char, \
                              e.predicate COLLATE \"C\"))[1] AS predicate, \
                   string_agg(DISTINCT e.description COLLATE \"C\", chr(10) ORDER BY e.description COLLATE \"C\") AS description, \
                   (SELECT jsonb_object_agg(p.key, p.value ORDER BY v.description COLLATE \"C\", p.value) FROM {s}.evidence v, \
                      jsonb_each(v.properties) p WHERE v.relation_id = e.relation_id) AS properties \
                 FROM {s}.evidence e JOIN {s}.document d ON d.id = e.document_id WHERE e.relation_id = ANY ($1) GROUP BY 1) e) e \
                 ON e.relation_id = wanted.id \
               WHERE r.id = wanted.id";
    collection.execute(sql, &[relations()])?;
    shorten(collection, "relation", &touched.relations)?;

    let entities_arg = || entities.clone().into();
    let sql = "DELETE FROM {s}.entity t WHERE t.id = ANY ($1) AND NOT t.given AND t.row_key IS NULL \
               AND NOT EXISTS (SELECT FROM {s}.mention m WHERE m.entity_id = t.id) \
               AND NOT EXISTS (SELECT FROM {s}.relation r WHERE r.source_id = t.id) \
               AND NOT EXISTS (SELECT FROM {s}.relation r WHERE r.target_id = t.id)";
    collection.execute(sql, &[entities_arg()])?;
    call_by_aliases(collection, &entities)?;
    let sql = "UPDATE {s}.entity t SET name = CASE WHEN t.given OR t.row_key IS NOT NULL THEN t.name ELSE coalesce(m.name, t.name) END, \
                 type = CASE WHEN t.given AND NOT t.renamed OR t.row_key IS NOT NULL THEN t.type ELSE m.type END, \
                 description = CASE WHEN t.given AND NOT t.renamed OR t.fragments_hash = m.hash THEN t.description ELSE m.description END, \
                 fragments_hash = CASE WHEN (NOT t.given OR t.renamed) AND t.fragments_hash = m.hash THEN m.hash END, \
                 stale = coalesce((NOT t.given OR t.renamed) AND t.fragments_hash = m.hash AND t.stale, false), \
                 source_count = coalesce(m.documents, 0), block_count = coalesce(m.blocks, 0) \
               FROM unnest($1) AS wanted (id) LEFT JOIN ( \
                 SELECT *, sha256(convert_to(description, 'UTF8')) AS hash FROM (SELECT m.entity_id, count(DISTINCT m.document_id) AS documents, \
                   count(DISTINCT (m.block_id, m.document_id)) AS blocks, \
                   mode() WITHIN GROUP (ORDER BY m.name COLLATE \"C\") FILTER (WHERE m.key = e.key) AS name, \
                   mode() WITHIN GROUP (ORDER BY m.type COLLATE \"C\") AS type, \
                   string_agg(DISTINCT m.description COLLATE \"C\", chr(10) ORDER BY m.description COLLATE \"C\") AS description \
                 FROM {s}.mention m JOIN {s}.entity e ON e.id = m.entity_id WHERE m.entity_id = ANY ($1) GROUP BY 1) m) m ON m.entity_id = wanted.id \
               WHERE t.id = wanted.id";
    collection.execute(sql, &[entities_arg()])?;
    shorten(collection, "entity", &entities)?;
    // An alias that was a document's word goes with the last document that has it.
    let sql = "DELETE FROM {s}.entity_alias a USING {s}.entity t WHERE t.id = a.entity_id AND a.entity_id = ANY ($1) AND NOT a.bound \
               AND CASE WHEN a.merged IS NULL THEN t.renamed ELSE NOT (a.merged ->> 'given')::boolean AND a.merged -> 'relations' = '[]' END \
               AND NOT EXISTS (SELECT FROM {s}.mention m WHERE m.entity_id = a.entity_id AND m.key = a.key) \
               AND NOT EXISTS (SELECT FROM {s}.evidence e JOIN {s}.relation r ON r.id = e.relation_id \
                 WHERE a.entity_id IN (r.source_id, r.target_id) AND a.key IN (e.subject_key, e.object_key))";
    collection.execute(sql, &[entities_arg()])?;
    mark_stale(collection, &entities)
}

/// After documents were cut anew: what was given of them is attached to the blocks that hold its quotes now. A quote that
/// the new text does not hold any more goes.
pub fn reattach(collection: &Collection, ids: &[i64]) -> Result<()> {
    let ids_arg = || ids.to_vec().into();
    let sql = "UPDATE {s}.evidence e SET start_char = strpos(d.body, e.quote) - 1, end_char = strpos(d.body, e.quote) - 1 + length(e.quote) \
               FROM {s}.document d WHERE d.id = e.document_id AND e.document_id = ANY ($1) AND e.given AND strpos(d.body, e.quote) > 0 \
               AND substr(d.body, e.start_char + 1, e.end_char - e.start_char) IS DISTINCT FROM e.quote";
    collection.execute(sql, &[ids_arg()])?;
    let sql = "DELETE FROM {s}.evidence e USING {s}.document d \
               WHERE d.id = e.document_id AND e.document_id = ANY ($1) AND e.given AND strpos(d.body, e.quote) = 0 \
               RETURNING e.relation_id, e.document_id, e.subject_key, e.object_key";
    let lost: Vec<(i64, i64, String, String)> = collection.returning(sql, &[ids_arg()], |row| {
        Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
    })?;
    let mut touched = Touched::default();
    reattach_claims(collection, ids)?;
    let (mut documents, mut keys) = (Vec::new(), Vec::new());
    for (relation, document, subject, object) in lost {
        touched.relations.push(relation);
        documents.extend([document, document]);
        keys.extend([subject, object]);
    }
    let sql = "DELETE FROM {s}.mention m USING unnest($1::bigint[], $2::text[]) AS lost (document_id, key) \
               WHERE m.given AND m.document_id = lost.document_id AND m.key = lost.key \
               AND NOT EXISTS (SELECT FROM {s}.evidence e WHERE e.given AND e.document_id = m.document_id \
                               AND m.key IN (e.subject_key, e.object_key)) RETURNING m.entity_id";
    touched
        .entities
        .extend(collection.returning(sql, &[documents.into(), keys.into()], |row| row.need::<i64>(1))?);
    let sql = "UPDATE {s}.evidence e SET block_id = b.id FROM {s}.block b WHERE b.document_id = e.document_id \
               AND e.document_id = ANY ($1) AND e.given AND e.block_id IS NULL \
               AND e.start_char >= b.start_char AND e.start_char < b.end_char RETURNING e.relation_id";
    touched
        .relations
        .extend(collection.returning(sql, &[ids_arg()], |row| row.need::<i64>(1))?);
    recount(collection, &touched)
}

/// The same for claims that were given.
fn reattach_claims(collection: &Collection, ids: &[i64]) -> Result<()> {
    for sql in [
        "UPDATE {s}.claim c SET start_char = strpos(d.body, c.quote) - 1, end_char = strpos(d.body, c.quote) - 1 + length(c.quote) \
         FROM {s}.document d WHERE d.id = c.document_id AND c.document_id = ANY ($1) AND c.given AND strpos(d.body, c.quote) > 0 \
         AND substr(d.body, c.start_char + 1, c.end_char - c.start_char) IS DISTINCT FROM c.quote",
        "DELETE FROM {s}.claim c USING {s}.document d \
         WHERE d.id = c.document_id AND c.document_id = ANY ($1) AND c.given AND strpos(d.body, c.quote) = 0",
        "UPDATE {s}.claim c SET block_id = b.id FROM {s}.block b WHERE b.document_id = c.document_id \
         AND c.document_id = ANY ($1) AND c.given AND c.block_id IS NULL \
         AND c.start_char >= b.start_char AND c.start_char < b.end_char",
    ] {
        collection.execute(sql, &[ids.to_vec().into()])?;
    }
    Ok(())
}

/// After documents have gone: communities lose them as sources, and those left without members go. Their metadata stays
/// true: what all documents had, the remaining ones have.
pub fn settle_communities(collection: &Collection, ids: &[i64]) -> Result<()> {
    let sql = "DELETE FROM {s}.community_source WHERE document_id = ANY ($1) RETURNING community_id";
    let mut rows: Vec<i64> = collection.returning(sql, &[ids.to_vec().into()], |row| row.need(1))?;
    rows.sort_unstable();
    rows.dedup();
    if rows.is_empty() {
        return Ok(());
    }
    lock_rows(collection, "community", &rows)?;
    let sql = "DELETE FROM {s}.community c WHERE c.id = ANY ($1) \
               AND NOT EXISTS (SELECT FROM {s}.community_entity e WHERE e.community_id = c.id)";
    collection.execute(sql, &[rows.clone().into()])?;
    let sql = "UPDATE {s}.community c SET size = (SELECT count(*) FROM {s}.community_entity e WHERE e.community_id = c.id), \
                 source_count = (SELECT count(*) FROM {s}.community_source s WHERE s.community_id = c.id) \
               WHERE c.id = ANY ($1)";
    collection.execute(sql, &[rows.into()])?;
    Ok(())
}

/// Marks the reports of the communities that hold one of these entities as stale.
pub fn mark_stale(collection: &Collection, entities: &[i64]) -> Result<()> {
    let sql = "UPDATE {s}.community SET stale = true WHERE NOT stale AND id IN \
                 (SELECT community_id FROM {s}.community_entity WHERE entity_id = ANY ($1))";
    collection.execute(sql, &[entities.to_vec().into()])?;
    Ok(())
}
