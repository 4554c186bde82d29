//! graph_merge and graph_unmerge: two names of one thing become one entity, and two again.

use graphrag_text::fold;
use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;

use super::add::MAX_WEIGHT;
use super::check_length;
use super::merge::{Touched, lock_rows, recount};
use super::unknown::unknown;
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, required, sql};

/// SQL: `graph_merge(collection, keep, VARIADIC aliases)`.
#[pg_extern(sql = false)]
fn graph_merge(collection: Option<&str>, keep: Option<&str>, aliases: Option<Vec<Option<String>>>) -> sql::Result<i64> {
    Ok(merge(collection, keep, required(aliases, "aliases")?)?)
}

/// SQL: `graph_unmerge(collection, alias)`.
#[pg_extern(sql = false)]
fn graph_unmerge(collection: Option<&str>, alias: Option<&str>) -> sql::Result<i64> {
    Ok(unmerge(collection, alias)?)
}

/// The entity that is called so, by its own name or another one.
pub fn named(collection: &Collection, name: &str) -> Result<Option<i64>> {
    let sql =
        "SELECT id FROM {s}.entity WHERE key = $1 UNION ALL SELECT entity_id FROM {s}.entity_alias WHERE key = $1";
    let ids = collection.query(sql, &[fold::name(name).into()], |row| row.need(1))?;
    Ok(ids.first().copied())
}

/// A weight by hand that is less is rounding.
const LEAST: f64 = 1e-9;

/// The relations by hand that are written down of merged entities, with whose alias they are and the entities that their ends are now.
const STATED: &str = "SELECT a.entity_id AS of, a.key AS alias, x.source AS source_key, x.target AS target_key, s.id AS source, t.id AS target, \
      x.predicate, x.predicate_key, x.weight, x.description, x.properties \
    FROM {s}.entity_alias a, jsonb_to_recordset(a.merged -> 'relations') \
      AS x (source text, target text, predicate text, predicate_key text, weight float8, description text, properties jsonb) \
    LEFT JOIN LATERAL (SELECT e.id FROM {s}.entity e WHERE e.key = x.source \
      UNION ALL SELECT b.entity_id FROM {s}.entity_alias b WHERE b.key = x.source LIMIT 1) s ON true \
    LEFT JOIN LATERAL (SELECT e.id FROM {s}.entity e WHERE e.key = x.target \
      UNION ALL SELECT b.entity_id FROM {s}.entity_alias b WHERE b.key = x.target LIMIT 1) t ON true";

fn merge(name: Option<&str>, keep: Option<&str>, aliases: Vec<Option<String>>) -> Result<i64> {
    let keep = required(keep, "keep")?;
    let aliases: Vec<String> = aliases
        .into_iter()
        .map(|alias| required(alias, "an alias"))
        .collect::<Result<_>>()?;
    if aliases.is_empty() {
        return Err(Error::invalid("aliases must not be empty"));
    }
    for (name, argument) in aliases
        .iter()
        .map(|alias| (alias.as_str(), "alias"))
        .chain([(keep, "keep")])
    {
        check_length(name, argument)?;
    }
    let collection = Collection::build(name)?;
    let find = |name: &str| match named(&collection, name)? {
        Some(id) => Ok(id),
        None => Err(unknown(&collection, name)?),
    };
    let kept = find(keep)?;
    let mut gone = aliases.iter().map(|alias| find(alias)).collect::<Result<Vec<i64>>>()?;
    gone.sort_unstable();
    gone.dedup();
    gone.retain(|&id| id != kept);
    must_not_lose_rows(&collection, kept, &gone)?;
    let mut all = gone.clone();
    all.push(kept);
    lock_rows(&collection, "entity", &all)?;
    let mut touched = Touched {
        entities: vec![kept],
        relations: vec![],
    };
    for id in gone {
        touched.relations.extend(absorb(&collection, kept, id)?);
    }
    recount(&collection, &touched)?;
    Ok(kept)
}

/// 55000 where a row of a bound table would lose its entity.
fn must_not_lose_rows(collection: &Collection, kept: i64, gone: &[i64]) -> Result<()> {
    let sql = "SELECT name, type, row_key FROM {s}.entity WHERE id = ANY ($1) AND row_key IS NOT NULL ORDER BY key COLLATE \"C\"";
    let bound = |ids: Vec<i64>| {
        collection.query(sql, &[ids.into()], |row| {
            Ok((row.need::<String>(1)?, row.get::<String>(2)?, row.need::<String>(3)?))
        })
    };
    let lost = bound(gone.to_vec())?;
    let Some((name, kind, key)) = lost.first() else {
        return Ok(());
    };
    let error = |message: String| Error::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message);
    let row = |kind: &Option<String>, key: &str| {
        format!(
            "of type {} with key {}",
            quoted(kind.as_deref().unwrap_or_default()),
            quoted(key)
        )
    };
    match bound(vec![kept])?.first().or(lost.get(1)) {
        Some((other, other_kind, other_key)) => {
            Err(
                error(format!("entities {} and {} are two rows", quoted(other), quoted(name)))
                    .detail(format!(
                        "One is the row {}, the other the row {}.",
                        row(other_kind, other_key),
                        row(kind, key)
                    ))
                    .hint("If they are one thing, merge the rows in their table and call graph_bind again."),
            )
        }
        None => Err(
            error(format!("entity {} is a row and cannot be an alias", quoted(name)))
                .detail(format!("It is the row {}.", row(kind, key)))
                .hint("Name it first: graph_merge keeps the first one."),
        ),
    }
}

/// Gives all that entity `gone` has to `kept`, and notes what it was; answers the relations that have got something.
pub fn absorb(collection: &Collection, kept: i64, gone: i64) -> Result<Vec<i64>> {
    // What was stated by hand rests on no document: it is written down, but for what `gone` has from those merged into it.
    let sql = format!(
        "INSERT INTO {{s}}.entity_alias (key, entity_id, merged) \
         SELECT e.key, $1, jsonb_build_object('name', CASE WHEN e.given THEN e.name END, 'type', CASE WHEN e.given THEN e.type END, \
           'description', CASE WHEN e.given THEN e.description END, 'given', e.given, \
           'relations', (SELECT coalesce(jsonb_agg(to_jsonb(own) ORDER BY source COLLATE \"C\", predicate_key COLLATE \"C\", target COLLATE \"C\"), '[]') \
             FROM (SELECT s.key AS source, r.predicate, r.predicate_key, t.key AS target, r.given_weight - coalesce(h.weight, 0) AS weight, \
                          r.description, r.properties \
               FROM {{s}}.relation r JOIN {{s}}.entity s ON s.id = r.source_id JOIN {{s}}.entity t ON t.id = r.target_id \
               LEFT JOIN (SELECT source, predicate_key, target, sum(weight) AS weight \
                 FROM ({STATED}) x WHERE of = $2 GROUP BY 1, 2, 3) h \
                 ON h.source = r.source_id AND h.predicate_key = r.predicate_key AND h.target = r.target_id \
               WHERE r.given_weight - coalesce(h.weight, 0) > {LEAST} AND (r.source_id = $2 OR r.target_id = $2)) own)) \
         FROM {{s}}.entity e WHERE e.id = $2 \
         ON CONFLICT (key) DO UPDATE SET entity_id = excluded.entity_id, via = NULL, merged = excluded.merged"
    );
    let ids = || vec![kept.into(), gone.into()];
    collection.execute(&sql, &ids())?;
    let sql = "UPDATE {s}.entity_alias a SET entity_id = $1, via = coalesce(a.via, e.key) FROM {s}.entity e \
               WHERE e.id = $2 AND a.entity_id = $2";
    collection.execute(sql, &ids())?;
    collection.execute("UPDATE {s}.mention SET entity_id = $1 WHERE entity_id = $2", &ids())?;

    let moved = "SELECT r.id, r.predicate, r.predicate_key, r.description, r.properties, r.given_weight, \
                   CASE WHEN r.source_id = $2 THEN $1 ELSE r.source_id END AS source, \
                   CASE WHEN r.target_id = $2 THEN $1 ELSE r.target_id END AS target \
                 FROM {s}.relation r WHERE r.source_id = $2 OR r.target_id = $2";
    // Several may become one: that of `kept` shows its words, else the first.
    let sql = format!(
        "INSERT INTO {{s}}.relation AS r (source_id, predicate, predicate_key, target_id, weight, description, properties) \
         SELECT m.source, (array_agg(m.predicate ORDER BY m.id))[1], m.predicate_key, m.target, least(coalesce(sum(m.given_weight), 0), {MAX_WEIGHT}), \
                (array_agg(m.description ORDER BY m.given_weight IS NULL, m.id))[1], \
                (array_agg(m.properties ORDER BY m.given_weight IS NULL, m.id))[1] \
         FROM ({moved}) m GROUP BY m.source, m.predicate_key, m.target ORDER BY m.source, m.predicate_key COLLATE \"C\", m.target \
         ON CONFLICT (source_id, predicate_key, target_id) DO UPDATE SET \
           bound = r.bound AND excluded.given_weight IS NULL, \
           given_weight = CASE WHEN excluded.given_weight IS NULL THEN r.given_weight WHEN r.bound THEN excluded.given_weight \
                               ELSE least(coalesce(r.given_weight, 0) + excluded.given_weight, {MAX_WEIGHT}) END, \
           description = CASE WHEN r.given_weight IS NULL OR r.bound THEN excluded.description ELSE r.description END, \
           properties = CASE WHEN r.given_weight IS NULL OR r.bound THEN excluded.properties ELSE r.properties END \
         RETURNING id"
    );
    let relations: Vec<i64> = collection.returning(&sql, &ids(), |row| row.need(1))?;
    let sql = format!(
        "UPDATE {{s}}.evidence e SET relation_id = r.id FROM ({moved}) m \
         JOIN {{s}}.relation r ON r.source_id = m.source AND r.predicate_key = m.predicate_key AND r.target_id = m.target \
         WHERE e.relation_id = m.id AND r.id <> m.id"
    );
    collection.execute(&sql, &ids())?;
    // In a partition that has only the one that goes, its communities are those of the one that stays.
    let sql = "INSERT INTO {s}.community_entity (community_id, entity_id) \
               SELECT g.community_id, $1 FROM {s}.community_entity g JOIN {s}.community c ON c.id = g.community_id \
               WHERE g.entity_id = $2 AND NOT EXISTS (SELECT FROM {s}.community_entity k JOIN {s}.community d ON d.id = k.community_id \
                 WHERE k.entity_id = $1 AND d.partition = c.partition)";
    collection.execute(sql, &ids())?;
    let sql = "DELETE FROM {s}.community_entity WHERE entity_id = $1 RETURNING community_id";
    let left: Vec<i64> = collection.returning(sql, &[gone.into()], |row| row.need(1))?;
    let sql = "UPDATE {s}.community c SET stale = true, size = (SELECT count(*) FROM {s}.community_entity m WHERE m.community_id = c.id) \
               WHERE c.id = ANY ($1)";
    collection.execute(sql, &[left.clone().into()])?;
    collection.execute(
        "DELETE FROM {s}.community WHERE size = 0 AND id = ANY ($1)",
        &[left.into()],
    )?;
    collection.execute(
        "DELETE FROM {s}.relation WHERE source_id = $1 OR target_id = $1",
        &[gone.into()],
    )?;
    collection.execute("DELETE FROM {s}.entity WHERE id = $1", &[gone.into()])?;
    Ok(relations)
}

fn unmerge(name: Option<&str>, alias: Option<&str>) -> Result<i64> {
    let alias = required(alias, "alias")?;
    check_length(alias, "alias")?;
    let key = fold::name(alias);
    let collection = Collection::build(name)?;
    let sql = "SELECT entity_id FROM {s}.entity_alias WHERE key = $1 AND merged IS NOT NULL";
    let found: Vec<i64> = collection.query(sql, &[key.as_str().into()], |row| row.need(1))?;
    let Some(&kept) = found.first() else {
        return Err(match named(&collection, alias)? {
            None => unknown(&collection, alias)?,
            Some(_) => Error::invalid(format!("{} was not merged with another entity", quoted(alias)))
                .detail("Only what graph_merge has made an alias can stand for itself again.")
                .hint(format!(
                    "SELECT key FROM {}.entity_alias WHERE merged IS NOT NULL lists what was merged.",
                    quoted(&collection.name)
                )),
        });
    };
    let sql = "SELECT name FROM {s}.entity WHERE key = $1";
    if let Some(name) = collection
        .query(sql, &[key.as_str().into()], |row| row.need::<String>(1))?
        .first()
    {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("another entity is called {} by now", quoted(name)),
        )
        .hint("Merge that one or rename it first."));
    }
    let sql = "SELECT e.type, e.row_key FROM {s}.entity_alias a JOIN {s}.entity e ON e.id = a.entity_id WHERE a.key = $1 AND a.bound";
    let pair = |row: &crate::pg::spi::Row| Ok((row.need::<String>(1)?, row.need::<String>(2)?));
    if let Some((kind, row)) = collection.query(sql, &[key.as_str().into()], pair)?.first() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("{} is a name of a row", quoted(alias)),
        )
        .detail(format!(
            "It is one of the row of type {} with key {}.",
            quoted(kind),
            quoted(row)
        ))
        .hint("Change the row and call graph_bind again, bind without the column, or use graph_unbind."));
    }
    split(&collection, &key, kept)
}

/// Lets what is said under a name that was merged into `kept` be an entity again; answers its id.
pub fn split(collection: &Collection, key: &str, kept: i64) -> Result<i64> {
    lock_rows(collection, "entity", &[kept])?;
    // With it go the names that it had when it was merged.
    let sql = "WITH RECURSIVE own (key) AS (SELECT $1::text \
                 UNION SELECT a.key FROM {s}.entity_alias a JOIN own ON a.via = own.key WHERE a.entity_id = $2) SELECT key FROM own";
    let keys: Vec<String> = collection.query(sql, &[key.into(), kept.into()], |row| row.need(1))?;
    let mut relations = take_back(collection, &keys)?;
    let sql = "INSERT INTO {s}.entity (key, name, type, description, given) \
               SELECT key, coalesce(merged ->> 'name', key), merged ->> 'type', merged ->> 'description', (merged ->> 'given')::boolean \
               FROM {s}.entity_alias WHERE key = $1 ON CONFLICT (key) DO UPDATE SET key = excluded.key RETURNING id";
    let ids: Vec<i64> = collection.returning(sql, &[key.into()], |row| row.need(1))?;
    let &id = ids
        .first()
        .ok_or_else(|| Error::internal("the entity was not written"))?;
    let args = || vec![id.into(), kept.into(), keys.clone().into()];
    collection.execute(
        "UPDATE {s}.mention SET entity_id = $1 WHERE entity_id = $2 AND key = ANY ($3)",
        &args(),
    )?;

    let moved = "SELECT e.id, r.id AS relation, r.predicate, r.predicate_key, \
                   CASE WHEN r.source_id = $2 AND e.subject_key = ANY ($3) THEN $1 ELSE r.source_id END AS source, \
                   CASE WHEN r.target_id = $2 AND e.object_key = ANY ($3) THEN $1 ELSE r.target_id END AS target \
                 FROM {s}.relation r JOIN {s}.evidence e ON e.relation_id = r.id \
                 WHERE r.source_id = $2 AND e.subject_key = ANY ($3) OR r.target_id = $2 AND e.object_key = ANY ($3)";
    let sql = format!(
        "INSERT INTO {{s}}.relation (source_id, predicate, predicate_key, target_id, weight) \
         SELECT DISTINCT ON (m.source, m.predicate_key, m.target) m.source, m.predicate, m.predicate_key, m.target, 0 \
         FROM ({moved}) m ORDER BY m.source, m.predicate_key, m.target, m.id \
         ON CONFLICT (source_id, predicate_key, target_id) DO NOTHING"
    );
    collection.execute(&sql, &args())?;
    let sql = format!(
        "UPDATE {{s}}.evidence e SET relation_id = r.id FROM ({moved}) m \
         JOIN {{s}}.relation r ON r.source_id = m.source AND r.predicate_key = m.predicate_key AND r.target_id = m.target \
         WHERE e.id = m.id RETURNING ARRAY[r.id, m.relation]"
    );
    let both: Vec<Vec<i64>> = collection.returning(&sql, &args(), |row| row.need(1))?;
    relations.extend(both.into_iter().flatten());
    relations.extend(give_back(collection, id, &keys)?);

    collection.execute("DELETE FROM {s}.entity_alias WHERE key = $1", &[key.into()])?;
    let sql =
        "UPDATE {s}.entity_alias SET entity_id = $1, via = nullif(via, $4) WHERE entity_id = $2 AND key = ANY ($3)";
    let mut with_key = args();
    with_key.push(key.into());
    collection.execute(sql, &with_key)?;
    relations.sort_unstable();
    relations.dedup();
    recount(
        collection,
        &Touched {
            entities: vec![kept, id],
            relations,
        },
    )?;
    Ok(id)
}

/// Takes the relations that were stated by hand of the entities that were merged under `keys` from those that they were added to.
fn take_back(collection: &Collection, keys: &[String]) -> Result<Vec<i64>> {
    let sql = format!(
        "UPDATE {{s}}.relation r SET given_weight = CASE WHEN r.given_weight - x.weight > {LEAST} THEN r.given_weight - x.weight END \
         FROM (SELECT source, predicate_key, target, sum(weight) AS weight FROM ({STATED}) x WHERE alias = ANY ($1) GROUP BY 1, 2, 3) x \
         WHERE r.source_id = x.source AND r.predicate_key = x.predicate_key AND r.target_id = x.target RETURNING r.id"
    );
    collection.returning(&sql, &[keys.to_vec().into()], |row| row.need(1))
}

/// Makes the same relations entity `id`'s.
fn give_back(collection: &Collection, id: i64, keys: &[String]) -> Result<Vec<i64>> {
    let sql = format!(
        "INSERT INTO {{s}}.relation AS r (source_id, predicate, predicate_key, target_id, weight, description, properties) \
         SELECT source, (array_agg(predicate ORDER BY alias <> ($2)[1], alias))[1], predicate_key, target, sum(weight), \
                (array_agg(description ORDER BY alias <> ($2)[1], alias))[1], (array_agg(properties ORDER BY alias <> ($2)[1], alias))[1] \
         FROM (SELECT CASE WHEN source_key = ANY ($2) THEN $1 ELSE source END AS source, \
                      CASE WHEN target_key = ANY ($2) THEN $1 ELSE target END AS target, \
                      alias, predicate, predicate_key, weight, description, properties FROM ({STATED}) x WHERE alias = ANY ($2)) x \
         WHERE source IS NOT NULL AND target IS NOT NULL GROUP BY source, predicate_key, target \
         ON CONFLICT (source_id, predicate_key, target_id) DO UPDATE SET \
           given_weight = coalesce(r.given_weight, 0) + excluded.given_weight, \
           description = excluded.description, properties = excluded.properties RETURNING r.id"
    );
    collection.returning(&sql, &[id.into(), keys.to_vec().into()], |row| row.need(1))
}

/// Calls merged entities whose own name no document has any more by the alias that most documents have: else the name would outlast the last
/// document that had it.
pub fn call_by_aliases(collection: &Collection, entities: &[i64]) -> Result<()> {
    let sql = "SELECT t.id, t.key, x.name, x.key FROM {s}.entity t CROSS JOIN LATERAL ( \
                 SELECT m.key, mode() WITHIN GROUP (ORDER BY m.name COLLATE \"C\") AS name FROM {s}.mention m \
                 JOIN {s}.entity_alias a ON a.key = m.key AND a.entity_id = t.id AND NOT a.bound \
                 WHERE m.entity_id = t.id GROUP BY m.key ORDER BY count(DISTINCT m.document_id) DESC, m.key COLLATE \"C\" LIMIT 1) x \
               WHERE t.id = ANY ($1) AND NOT t.given AND t.row_key IS NULL \
                 AND EXISTS (SELECT FROM {s}.entity_alias a WHERE a.entity_id = t.id) \
                 AND NOT EXISTS (SELECT FROM {s}.mention m WHERE m.entity_id = t.id AND m.key = t.key) \
                 AND NOT EXISTS (SELECT FROM {s}.relation r JOIN {s}.evidence e ON e.relation_id = r.id \
                                 WHERE r.source_id = t.id AND e.subject_key = t.key) \
                 AND NOT EXISTS (SELECT FROM {s}.relation r JOIN {s}.evidence e ON e.relation_id = r.id \
                                 WHERE r.target_id = t.id AND e.object_key = t.key) ORDER BY t.id";
    let nameless: Vec<(i64, String, String, String)> =
        collection.returning(sql, &[entities.to_vec().into()], |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
        })?;
    for (id, former, name, key) in nameless {
        let sql = "UPDATE {s}.entity_alias SET via = NULL WHERE entity_id = $1 AND via = $2";
        collection.execute(sql, &[id.into(), key.as_str().into()])?;
        collection.execute(
            "UPDATE {s}.entity SET name = $2 WHERE id = $1",
            &[id.into(), name.into()],
        )?;
        // What a trigger does for those that rename an entity by hand.
        let sql = "DELETE FROM {s}.entity_alias WHERE entity_id = $1 AND key = ANY ($2)";
        collection.execute(sql, &[id.into(), vec![former, key].into()])?;
        collection.execute(
            "UPDATE {s}.entity SET given = false, renamed = false WHERE id = $1",
            &[id.into()],
        )?;
    }
    Ok(())
}
