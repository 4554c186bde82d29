//! Rows become entities, and their names lead to them.

use std::collections::{HashMap, HashSet};

use graphrag_text::rows::{Found, Named, Row};

use crate::collection::Collection;
use crate::error::Result;
use crate::graph::alias::{absorb, split};
use crate::graph::merge::{Touched, lock_rows, mark_stale, recount};
use crate::pg::tick;

/// Rows of one statement.
const BATCH: usize = 10_000;

/// Where names lead to, but for what a binding of this type has made of them.
pub fn look_up(collection: &Collection, kind: &str, names: &[&str]) -> Result<HashMap<String, Found>> {
    let taken = "e.row_key IS NOT NULL AND e.type <> $2";
    let sql = format!(
        "SELECT a.key, e.id, e.key, {taken} FROM unnest($1::text[]) AS u (key) JOIN {{s}}.entity_alias a ON a.key = u.key \
           JOIN {{s}}.entity e ON e.id = a.entity_id WHERE NOT (a.bound AND e.type = $2) \
         UNION ALL SELECT e.key, e.id, e.key, {taken} FROM unnest($1::text[]) AS u (key) JOIN {{s}}.entity e ON e.key = u.key"
    );
    let mut found = HashMap::new();
    for batch in names.chunks(BATCH) {
        let args = [batch.to_vec().into(), kind.into()];
        let rows = collection.query(&sql, &args, |row| {
            let place = Found {
                entity: row.need(2)?,
                key: row.need(3)?,
                taken: row.need(4)?,
            };
            Ok((row.need::<String>(1)?, place))
        })?;
        found.extend(rows);
        tick();
    }
    Ok(found)
}

/// Makes the entities of a type those of its rows, and their other names lead to them.
pub fn apply(collection: &Collection, kind: &str, rows: &[Row], named: &[Option<Named>]) -> Result<()> {
    let named: Vec<(&str, &Named)> = rows
        .iter()
        .zip(named)
        .filter_map(|(row, named)| Some((row.key.as_str(), named.as_ref()?)))
        .collect();
    let wanted: HashMap<&str, &Named> = named.iter().copied().collect();
    let mut stray = vec![];
    let sql = "SELECT id, row_key FROM {s}.entity WHERE type = $1 AND row_key IS NOT NULL ORDER BY id";
    collection.stream(sql, &[kind.into()], |row| {
        let (id, key): (i64, String) = (row.need(1)?, row.need(2)?);
        if wanted.get(key.as_str()).and_then(|named| named.entity) != Some(id) {
            stray.push(id);
        }
        Ok(())
    })?;
    release(collection, &stray)?;
    let mut lost = vec![];
    let sql = "SELECT a.key, e.row_key FROM {s}.entity_alias a JOIN {s}.entity e ON e.id = a.entity_id \
               WHERE a.bound AND e.type = $1 AND e.row_key IS NOT NULL";
    collection.stream(sql, &[kind.into()], |row| {
        let (name, key): (String, String) = (row.need(1)?, row.need(2)?);
        if wanted
            .get(key.as_str())
            .is_none_or(|named| named.others.binary_search(&name).is_err())
        {
            lost.push(name);
        }
        Ok(())
    })?;
    drop_names(collection, lost)?;
    for batch in named.chunks(BATCH) {
        take(collection, kind, batch)?;
        tick();
    }
    // What follows looks entities up by their rows, of which a new table has no statistics.
    collection.analyze(&["entity"])?;
    // When every row has its entity: a name of one may have been another's own.
    for batch in named.chunks(BATCH) {
        lead(collection, kind, batch)?;
        tick();
    }
    Ok(())
}

/// One entity a row: that which is called so, or a new one.
fn take(collection: &Collection, kind: &str, rows: &[(&str, &Named)]) -> Result<()> {
    let keys: Vec<String> = rows.iter().map(|(_, named)| named.key.clone()).collect();
    let shown: Vec<String> = rows.iter().map(|(_, named)| named.shown.clone()).collect();
    let row_keys: Vec<String> = rows.iter().map(|(key, _)| (*key).to_owned()).collect();
    let args = || {
        vec![
            keys.clone().into(),
            shown.clone().into(),
            row_keys.clone().into(),
            kind.into(),
        ]
    };
    let sql = "INSERT INTO {s}.entity (key, name, type, row_key, given) SELECT u.key, u.name, $4, u.row_key, false \
               FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS u (key, name, row_key, n) \
               WHERE NOT EXISTS (SELECT FROM {s}.entity_alias a WHERE a.key = u.key) ORDER BY u.n \
               ON CONFLICT (key) DO NOTHING";
    collection.execute(sql, &args())?;
    let changed = "FROM unnest($1::text[], $2::text[], $3::text[]) AS u (key, name, row_key) \
               CROSS JOIN LATERAL (SELECT e.id FROM {s}.entity e WHERE e.key = u.key \
                 UNION ALL SELECT a.entity_id FROM {s}.entity_alias a WHERE a.key = u.key LIMIT 1) found \
               JOIN {s}.entity t ON t.id = found.id \
               WHERE t.row_key IS DISTINCT FROM u.row_key OR t.type IS DISTINCT FROM $4 \
                  OR t.key = u.key AND t.name COLLATE \"C\" <> u.name";
    let ids: Vec<i64> = collection.query(&format!("SELECT t.id {changed}"), &args(), |row| row.need(1))?;
    if ids.is_empty() {
        return Ok(());
    }
    lock_rows(collection, "entity", &ids)?;
    let sql = format!(
        "UPDATE {{s}}.entity e SET row_key = c.row_key, type = $4, name = CASE WHEN e.key = c.key THEN c.name ELSE e.name END, \
           replaced = CASE WHEN e.row_key IS NULL AND e.given \
                           THEN jsonb_build_object('key', e.key, 'name', e.name, 'type', e.type) ELSE e.replaced END \
         FROM (SELECT t.id, u.key, u.name, u.row_key {changed}) c WHERE e.id = c.id"
    );
    collection.execute(&sql, &args())?;
    mark_stale(collection, &ids)
}

/// The other names of rows lead to their entities; an entity that is called so already becomes part of them.
fn lead(collection: &Collection, kind: &str, rows: &[(&str, &Named)]) -> Result<()> {
    let (mut keys, mut row_keys): (Vec<String>, Vec<String>) = (vec![], vec![]);
    for (key, named) in rows {
        for other in &named.others {
            keys.push(other.clone());
            row_keys.push((*key).to_owned());
        }
    }
    if keys.is_empty() {
        return Ok(());
    }
    let args = || vec![keys.clone().into(), row_keys.clone().into(), kind.into()];
    let own = "FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (key, row_key, n) \
               CROSS JOIN LATERAL (SELECT e.id FROM {s}.entity e WHERE e.type = $3 AND e.row_key = u.row_key LIMIT 1) t";
    let sql = format!(
        "INSERT INTO {{s}}.entity_alias (key, entity_id, merged, bound) \
         SELECT u.key, t.id, '{{\"name\": null, \"type\": null, \"description\": null, \"given\": false, \"relations\": []}}', true {own} \
         WHERE NOT EXISTS (SELECT FROM {{s}}.entity e WHERE e.key = u.key) ORDER BY u.n ON CONFLICT (key) DO NOTHING"
    );
    collection.execute(&sql, &args())?;
    let sql =
        format!("SELECT t.id, e.id, e.key {own} JOIN {{s}}.entity e ON e.key = u.key WHERE e.id <> t.id ORDER BY u.n");
    let parts: Vec<(i64, i64, String)> =
        collection.query(&sql, &args(), |row| Ok((row.need(1)?, row.need(2)?, row.need(3)?)))?;
    if parts.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = parts.iter().flat_map(|(kept, gone, _)| [*kept, *gone]).collect();
    lock_rows(collection, "entity", &ids)?;
    let mut touched = Touched::default();
    let mut absorbed = vec![];
    for (kept, gone, key) in parts {
        touched.relations.extend(absorb(collection, kept, gone)?);
        touched.entities.push(kept);
        absorbed.push(key);
        tick();
    }
    let sql = "UPDATE {s}.entity_alias SET bound = true WHERE key = ANY ($1)";
    collection.execute(sql, &[absorbed.into()])?;
    settle(collection, touched)
}

/// Unbinds entities: their rows are gone, or called otherwise. What documents say of them, and what was stated by hand,
/// stays under the names that it was said under.
pub fn release(collection: &Collection, ids: &[i64]) -> Result<()> {
    for batch in ids.chunks(BATCH) {
        let ids = || batch.to_vec().into();
        let sql = "SELECT key FROM {s}.entity_alias WHERE bound AND entity_id = ANY ($1) ORDER BY key COLLATE \"C\"";
        let names = collection.query(sql, &[ids()], |row| row.need(1))?;
        drop_names(collection, names)?;
        lock_rows(collection, "entity", batch)?;
        let sql = "UPDATE {s}.relation SET bound = false, given_weight = NULL \
                   WHERE bound AND (source_id = ANY ($1) OR target_id = ANY ($1)) RETURNING id";
        let relations = collection.returning(sql, &[ids()], |row| row.need(1))?;
        let sql = "UPDATE {s}.entity SET row_key = NULL, replaced = NULL, \
                     name = CASE WHEN replaced ->> 'key' = key THEN replaced ->> 'name' ELSE name END, \
                     type = CASE WHEN given THEN replaced ->> 'type' ELSE type END WHERE id = ANY ($1)";
        collection.execute(sql, &[ids()])?;
        let entities = batch.to_vec();
        settle(collection, Touched { entities, relations })?;
        tick();
    }
    Ok(())
}

/// Takes away names that a binding has made lead to entities: what is said under them is an entity again.
fn drop_names(collection: &Collection, mut names: Vec<String>) -> Result<()> {
    names.sort_unstable();
    for batch in names.chunks(BATCH) {
        let args = || [batch.to_vec().into()];
        let sql = "SELECT a.key, a.entity_id FROM {s}.entity_alias a WHERE a.key = ANY ($1) AND ( \
                     (a.merged ->> 'given')::boolean OR a.merged -> 'relations' <> '[]' \
                     OR EXISTS (SELECT FROM {s}.entity_alias b WHERE b.entity_id = a.entity_id AND b.via = a.key) \
                     OR EXISTS (SELECT FROM {s}.mention m WHERE m.entity_id = a.entity_id AND m.key = a.key) \
                     OR EXISTS (SELECT FROM {s}.relation r JOIN {s}.evidence e ON e.relation_id = r.id \
                                WHERE r.source_id = a.entity_id AND e.subject_key = a.key) \
                     OR EXISTS (SELECT FROM {s}.relation r JOIN {s}.evidence e ON e.relation_id = r.id \
                                WHERE r.target_id = a.entity_id AND e.object_key = a.key)) ORDER BY a.key COLLATE \"C\"";
        let said: Vec<(String, i64)> = collection.query(sql, &args(), |row| Ok((row.need(1)?, row.need(2)?)))?;
        for (key, entity) in &said {
            split(collection, key, *entity)?;
            tick();
        }
        let said: HashSet<String> = said.into_iter().map(|(key, _)| key).collect();
        let silent: Vec<String> = batch.iter().filter(|name| !said.contains(*name)).cloned().collect();
        collection.execute("DELETE FROM {s}.entity_alias WHERE key = ANY ($1)", &[silent.into()])?;
    }
    Ok(())
}

fn settle(collection: &Collection, mut touched: Touched) -> Result<()> {
    for list in [&mut touched.entities, &mut touched.relations] {
        list.sort_unstable();
        list.dedup();
    }
    recount(collection, &touched)
}
