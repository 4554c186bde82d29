//! rag_alter, rag_drop and what stands behind the view rag_collections.

use pgrx::prelude::*;
use pgrx::{JsonB, PgSqlErrorCode, pg_sys};
use serde_json::{Map, Value};

use super::options::{Options, check_keys, cuts_differ, settings_of};
use super::{Collection, TABLES, find_sql, literal, quoted};
use crate::error::{Error, Result, notice, sql};
use crate::ingest;
use crate::model::{Embedder, lsa};
use crate::pg::frame::{AsUser, Frame};
use crate::pg::subtransaction::attempt;
use crate::pg::{json::Json, spi};
use crate::progress::count;

/// SQL: `rag_alter(collection, settings)`.
#[pg_extern(sql = false)]
fn rag_alter(collection: Option<&str>, settings: Option<Json>) -> sql::Result<()> {
    Ok(alter(collection, settings)?)
}

fn alter(name: Option<&str>, settings: Option<Json>) -> Result<()> {
    let mut changes = settings_of(settings)?;
    if let Some(fixed) = ["dimensions", "partition_by", "language"]
        .iter()
        .find(|key| changes.contains_key(**key))
    {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("{} of a collection is fixed when the collection is made", quoted(fixed)),
        )
        .hint("Make a new collection and copy the rows of its table document."));
    }
    check_keys(&changes, true)?;
    let collection = Collection::build(name)?;
    let sql = "SELECT jsonb_object_agg(key, value)::text FROM {s}.setting";
    let current: String = collection.query_one(sql, &[], |row| row.need(1))?;
    let mut map: Map<String, Value> = serde_json::from_str(&current).unwrap_or_default();
    if changes.contains_key("embedder") {
        map.remove("next_embedder");
    }
    map.extend(changes.clone());
    let options = Options::parse(&map)?;
    for model in options.models().filter(|model| changes.contains_key(model.role.name())) {
        model.tell_if_missing(collection.owner)?;
    }
    tell_what_it_costs(&collection, &options, &changes)?;
    if let Some(Value::String(_)) = changes.remove("embedder") {
        take_embedder(&collection, &options.embedder)?;
    }

    let sql = "INSERT INTO {s}.setting (key, value) SELECT key, value FROM jsonb_each($1) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    collection.execute(sql, &[Json::from(Value::Object(changes)).into()])?;
    if cuts_differ(&collection.options, &options) {
        let queued = ingest::queue_all(&collection)?;
        if queued > 0 {
            let documents = count(queued as i64, "document", "documents");
            notice!("{documents} will be cut anew by the next build function");
        }
    }
    Ok(())
}

/// Says what a paid model will be asked for that nobody has ordered of it, but of the one before.
fn tell_what_it_costs(collection: &Collection, options: &Options, changes: &Map<String, Value>) -> Result<()> {
    for (model, steps) in [
        (&options.summarizer, &["tree", "describe", "reports"][..]),
        (&options.extractor, &["extract"]),
    ] {
        if !model.is_paid() || !changes.contains_key(model.role.name()) {
            continue;
        }
        let sql =
            "SELECT substr(key, 6) FROM {s}.setting WHERE key = ANY (SELECT 'step.' || unnest($1)) ORDER BY key DESC";
        let built: Vec<String> = collection.query(sql, &[steps.to_vec().into()], |row| row.need(1))?;
        if !built.is_empty() {
            let literal = literal(&collection.name);
            notice(
                format!(
                    "{} will be asked by the next rag_refresh for what is new or changed: {}",
                    model.text,
                    built.join(", ")
                ),
                format!(
                    "SELECT * FROM rag_estimate({literal}) says what that costs; CALL rag_refresh({literal}, steps => ...) leaves it out."
                ),
            );
        }
    }
    Ok(())
}

/// Makes it the embedder: at once while there are no vectors, else with the next refresh.
fn take_embedder(collection: &Collection, embedder: &Embedder) -> Result<()> {
    let options = &collection.options;
    let sql = "SELECT EXISTS (SELECT FROM {s}.node WHERE embedding IS NOT NULL) OR EXISTS (SELECT FROM {s}.community WHERE embedding IS NOT NULL)";
    let has_vectors: bool = collection.query_one(sql, &[], |row| row.need(1))?;
    let is_same = *embedder == options.embedder
        && embedder.outside().is_none_or(|part| {
            let now = || attempt(|| part.model.identity(collection.owner));
            let before = options.embedder_identity.as_ref();
            before.is_none_or(|before| now().is_ok_and(|now| now == *before))
        });
    collection.execute("DELETE FROM {s}.setting WHERE key = 'next_embedder'", &[])?;
    // The same again has the collection learn anew.
    if is_same && !(has_vectors && embedder.lsa().is_some()) {
        return Ok(());
    }
    if has_vectors {
        collection.set("next_embedder", &embedder.text)?;
        notice(
            options.until_embedded(embedder),
            format!("CALL rag_refresh({}) embeds them.", literal(&collection.name)),
        );
        return Ok(());
    }
    // What was learned in another size fits no more.
    let size = |embedder: &Embedder| embedder.lsa().map(|part| part.dimensions);
    if size(embedder) != size(&options.embedder) {
        lsa::unlearn(collection)?;
    }
    collection.execute("DELETE FROM {s}.setting WHERE key = 'embedder_identity'", &[])?;
    collection.set("embedder", &embedder.text)?;
    ingest::queue_leaves(collection)
}

/// SQL: `rag_drop(collection)`.
#[pg_extern(sql = false)]
fn rag_drop(collection: Option<&str>) -> sql::Result<()> {
    Ok(drop_collection(collection)?)
}

fn drop_collection(name: Option<&str>) -> Result<()> {
    let collection = Collection::build(name)?;
    let sql = "SELECT format('%s %I', CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' \
                      WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' ELSE 'table' END, c.relname) \
               FROM pg_class c WHERE c.relnamespace = $1 AND c.relname <> ALL ($2) AND c.relkind NOT IN ('i', 'I', 't') \
               AND NOT EXISTS (SELECT FROM pg_depend d JOIN pg_class t ON t.oid = d.refobjid \
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') \
                    AND t.relnamespace = $1 AND t.relname = ANY ($2)) \
               UNION ALL SELECT 'function ' || p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = $1 \
               UNION ALL SELECT 'type ' || t.oid::regtype FROM pg_type t WHERE t.typnamespace = $1 AND t.typrelid = 0 \
                    AND t.typelem = 0 \
               ORDER BY 1";
    let args = [collection.oid.into(), TABLES.to_vec().into()];
    let foreign: Vec<String> = collection.query(sql, &args, |row| row.need(1))?;
    if !foreign.is_empty() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "schema {} holds objects that are not the collection's",
                quoted(&collection.name)
            ),
        )
        .detail(format!("{}.", foreign.join(", ")))
        .hint("Move or drop them first."));
    }
    let tables: Vec<String> = TABLES.iter().map(|table| format!("{{s}}.{table}")).collect();
    collection.execute(&format!("DROP TABLE {}", tables.join(", ")), &[])?;
    collection.execute("DROP SCHEMA {s}", &[])?;
    Ok(())
}

type CollectionRow = (
    name!(collection, String),
    name!(owner, String),
    name!(dimensions, Option<i32>),
    name!(embedder, Option<String>),
    name!(summarizer, Option<String>),
    name!(extractor, Option<String>),
    name!(language, Option<String>),
    name!(partition_by, Option<Vec<String>>),
);

/// SQL: the view `rag_collections` selects from it.
#[pg_extern(sql = false)]
fn _collections() -> sql::Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(owner, String),
            name!(dimensions, Option<i32>),
            name!(embedder, Option<String>),
            name!(summarizer, Option<String>),
            name!(extractor, Option<String>),
            name!(language, Option<String>),
            name!(partition_by, Option<Vec<String>>),
        ),
    >,
> {
    Ok(TableIterator::new(collections()?))
}

/// The settings that the list shows.
const SHOWN: [&str; 6] = [
    "dimensions",
    "embedder",
    "summarizer",
    "extractor",
    "language",
    "partition_by",
];

fn collections() -> Result<Vec<CollectionRow>> {
    let _frame = Frame::enter()?;
    // Where policies hold for the owner, too, the list would have to run them: such a collection is not in it.
    let readable = "has_schema_privilege(n.oid, 'USAGE') \
                    AND (c.relname <> 'setting' OR has_table_privilege(c.oid, 'SELECT') AND NOT c.relforcerowsecurity)";
    let sql = format!("SELECT * FROM ({}) c ORDER BY c.name COLLATE \"C\"", find_sql(readable));
    let args = [TABLES.to_vec().into(), (TABLES.len() as i64).into()];
    let found: Vec<(String, pg_sys::Oid, String)> =
        spi::query(&sql, &args, |row| Ok((row.need(3)?, row.need(2)?, row.need(4)?)))?;
    found
        .into_iter()
        .map(|(name, owner, role)| {
            // As the owner: a policy on somebody's table must not run as whoever lists collections.
            let _user = AsUser::switch(owner);
            let sql = format!(
                "SELECT jsonb_object_agg(key, value) FROM {}.setting WHERE key = ANY ($1) AND pg_column_size(value) < 10000",
                spi::quote(&name)
            );
            let map = spi::query_one(&sql, &[SHOWN.to_vec().into()], |row| row.get::<JsonB>(1))?.map_or(Value::Null, |json| json.0);
            let text = |key: &str| map[key].as_str().map(str::to_owned);
            let keys = map["partition_by"].as_array();
            Ok((
                name,
                role,
                map["dimensions"].as_i64().map(|d| d as i32),
                text("embedder"),
                text("summarizer"),
                text("extractor"),
                text("language"),
                keys.map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            ))
        })
        .collect()
}
