//! Mentions and evidence as rows, with the entities and relations that they are of.

use super::found::Found;
use super::merge::Touched;
use crate::collection::Collection;
use crate::error::Result;

/// Writes what was found. `given` is what was not found by the extractor and stays when it reads the blocks again; what stands
/// there already is not written twice.
pub fn write(collection: &Collection, found: Found, given: bool, touched: &mut Touched) -> Result<()> {
    let Found {
        mentions,
        evidence,
        claims,
        names,
        ..
    } = found;
    claims.write(collection, given)?;
    let (keys, shown): (Vec<String>, Vec<String>) = names.into_iter().unzip();
    let sql = "INSERT INTO {s}.entity (key, name, given) \
               SELECT u.key, u.name, false FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (key, name, n) \
               WHERE NOT EXISTS (SELECT FROM {s}.entity_alias a WHERE a.key = u.key) ORDER BY u.n \
               ON CONFLICT (key) DO NOTHING";
    collection.execute(sql, &[keys.into(), shown.into()])?;
    let sql = "INSERT INTO {s}.mention (key, name, entity_id, block_id, document_id, type, description, start_char, end_char, given) \
               SELECT u.key, u.name, coalesce(a.entity_id, e.id), u.block, u.document, u.kind, u.description, u.start, u.end, $9 \
               FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::int[], $7::int[], $8::text[]) \
                    WITH ORDINALITY AS u (key, name, kind, block, document, start, \"end\", description, n) \
               LEFT JOIN {s}.entity_alias a ON a.key = u.key LEFT JOIN {s}.entity e ON e.key = u.key \
               WHERE NOT $9 OR NOT EXISTS (SELECT FROM {s}.mention m WHERE m.given AND m.entity_id = coalesce(a.entity_id, e.id) \
                 AND m.key = u.key AND m.document_id = u.document AND m.block_id IS NOT DISTINCT FROM u.block \
                 AND m.type IS NOT DISTINCT FROM u.kind AND m.description IS NOT DISTINCT FROM u.description) \
               ORDER BY u.n RETURNING entity_id";
    let args = [
        mentions.key.into(),
        mentions.name.into(),
        mentions.kind.into(),
        mentions.block.into(),
        mentions.document.into(),
        mentions.start.into(),
        mentions.end.into(),
        mentions.description.into(),
        given.into(),
    ];
    touched
        .entities
        .extend(collection.returning(sql, &args, |row| row.need::<i64>(1))?);

    // A relation that is known from documents alone starts with no weight; recount() gives it.
    let resolved = "LEFT JOIN {s}.entity_alias sa ON sa.key = u.subject LEFT JOIN {s}.entity s ON s.key = u.subject \
                    LEFT JOIN {s}.entity_alias oa ON oa.key = u.object LEFT JOIN {s}.entity o ON o.key = u.object";
    let sql = format!(
        "INSERT INTO {{s}}.relation (source_id, predicate, predicate_key, target_id, weight) \
         SELECT source, predicate, predicate_key, target, 0 FROM ( \
           SELECT DISTINCT ON (source, predicate_key, target) coalesce(sa.entity_id, s.id) AS source, u.predicate, \
                  u.predicate_key, coalesce(oa.entity_id, o.id) AS target, u.n \
           FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) \
                WITH ORDINALITY AS u (subject, predicate_key, predicate, object, n) {resolved} \
           ORDER BY source, predicate_key, target, u.n) t \
         ORDER BY n ON CONFLICT (source_id, predicate_key, target_id) DO NOTHING"
    );
    let args = [
        evidence.subject_key.clone().into(),
        evidence.predicate_key.clone().into(),
        evidence.predicate.clone().into(),
        evidence.object_key.clone().into(),
    ];
    collection.execute(&sql, &args)?;
    let sql = format!(
        "INSERT INTO {{s}}.evidence (relation_id, subject_key, subject_name, predicate, object_key, object_name, block_id, \
                                     document_id, quote, start_char, end_char, description, strength, properties, given) \
         SELECT r.id, u.subject, u.subject_name, u.predicate, u.object, u.object_name, u.block, u.document, u.quote, u.start, u.end, \
                u.description, u.strength, coalesce(u.properties, '{{}}')::jsonb, $15 \
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], \
                     $9::text[], $10::int[], $11::int[], $12::text[], $13::float8[], $14::text[]) \
              WITH ORDINALITY AS u (subject, predicate_key, predicate, object, subject_name, object_name, block, document, \
                                    quote, start, \"end\", description, strength, properties, n) {resolved} \
         JOIN {{s}}.relation r ON r.source_id = coalesce(sa.entity_id, s.id) AND r.predicate_key = u.predicate_key \
              AND r.target_id = coalesce(oa.entity_id, o.id) \
         WHERE NOT $15 OR NOT EXISTS (SELECT FROM {{s}}.evidence e WHERE e.given AND e.relation_id = r.id AND e.document_id = u.document \
           AND e.block_id IS NOT DISTINCT FROM u.block AND e.quote IS NOT DISTINCT FROM u.quote AND e.description IS NOT DISTINCT FROM u.description \
           AND e.subject_key = u.subject AND e.object_key = u.object) \
         ORDER BY u.n RETURNING relation_id"
    );
    let args = [
        evidence.subject_key.into(),
        evidence.predicate_key.into(),
        evidence.predicate.into(),
        evidence.object_key.into(),
        evidence.subject.into(),
        evidence.object.into(),
        evidence.block.into(),
        evidence.document.into(),
        evidence.quote.into(),
        evidence.start.into(),
        evidence.end.into(),
        evidence.description.into(),
        evidence.strength.into(),
        evidence.properties.into(),
        given.into(),
    ];
    touched
        .relations
        .extend(collection.returning(&sql, &args, |row| row.need::<i64>(1))?);
    Ok(())
}
