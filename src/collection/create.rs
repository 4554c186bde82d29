//! rag_create.

use std::collections::BTreeSet;

use pgrx::prelude::*;
use pgrx::{JsonB, PgSqlErrorCode, pg_sys};
use serde_json::{Map, Value, json};

use super::options::{Options, check_keys, settings_of};
use super::{LAYOUT, extension_schema, fill, literal, must_own, must_write, quoted};
use crate::error::{Error, Result, in_range, notice, required, sql};
use crate::model::lsa;
use crate::pg::frame::{AsUser, Frame};
use crate::pg::{json::Json, spi, vector};

/// SQL: `rag_create(collection, dimensions, embedder, summarizer, extractor, answerer, partition_by, language, settings)`.
#[pg_extern(sql = false)]
fn rag_create(
    collection: Option<&str>,
    dimensions: Option<i32>,
    embedder: Option<&str>,
    summarizer: Option<&str>,
    extractor: Option<&str>,
    answerer: Option<&str>,
    partition_by: Option<Vec<Option<String>>>,
    language: Option<pg_sys::Oid>,
    settings: Option<Json>,
) -> sql::Result<()> {
    let request = || -> Result<Map<String, Value>> {
        let mut map = settings_of(settings)?;
        check_keys(&map, false)?;
        map.insert("answerer".into(), answerer.into());
        let keys = required(partition_by, "partition_by")?;
        let keys: Option<Vec<String>> = keys.into_iter().collect();
        if let Some(keys) = &keys
            && (keys.iter().any(String::is_empty) || keys.iter().collect::<BTreeSet<_>>().len() < keys.len())
        {
            return Err(Error::invalid("partition_by takes different keys that are not empty"));
        }
        map.insert(
            "dimensions".into(),
            in_range(dimensions, "dimensions", 1..=vector::MAX_DIMENSIONS)?.into(),
        );
        map.insert("embedder".into(), required(embedder, "embedder")?.into());
        map.insert("summarizer".into(), required(summarizer, "summarizer")?.into());
        map.insert("extractor".into(), required(extractor, "extractor")?.into());
        map.insert("partition_by".into(), json!(required(keys, "a key of partition_by")?));
        map.insert("layout".into(), LAYOUT.into());
        map.insert("last_build".into(), Value::Null);
        map.insert(lsa::KEY.into(), json!({}));
        Ok(map)
    };
    Ok(create(collection, required(language, "language")?, request)?)
}

fn create(
    name: Option<&str>,
    language: pg_sys::Oid,
    request: impl FnOnce() -> Result<Map<String, Value>>,
) -> Result<()> {
    let name = required(name, "collection")?;
    check_name(name)?;
    must_write(name)?;
    let mut map = request()?;
    let frame = Frame::enter()?;
    check_encoding()?;
    let sql = "SELECT oid::regconfig::text FROM pg_ts_config WHERE oid = $1";
    let language: Option<String> = spi::query(sql, &[language.into()], |row| row.need(1))?.pop();
    let language = language.ok_or_else(|| {
        Error::invalid("unknown language").hint("It is a text search configuration; \\dF in psql lists them.")
    })?;
    map.insert("language".into(), language.into());
    let options = Options::parse(&map)?;
    let iterative: Option<String> =
        spi::query_one("SELECT current_setting('hnsw.iterative_scan', true)", &[], |row| {
            row.get(1)
        })?;

    let (user, owner) = take_schema(name)?;
    let partition: Vec<String> = options.partition_by.iter().map(|key| literal(key)).collect();
    let tables = fill(
        include_str!("../../sql/collection.sql"),
        &[
            ("{schema}", &spi::quote(name)),
            ("{extension}", &extension_schema("pg_graphrag")?),
            ("{vector}", &extension_schema("vector")?),
            ("{dimensions}", &options.dimensions.to_string()),
            ("{partition}", &partition.join(", ")),
        ],
    );
    spi::execute(&tables, &[])?;
    let sql = format!(
        "INSERT INTO {}.setting (key, value) SELECT key, value FROM jsonb_each($1)",
        spi::quote(name)
    );
    spi::execute(&sql, &[JsonB(Value::Object(map)).into()])?;
    for model in options.models() {
        model.tell_if_missing(owner)?;
    }
    drop(user);
    drop(frame);

    tell_about_index(options.dimensions);
    if !matches!(iterative.as_deref(), Some("strict_order" | "relaxed_order")) {
        notice(
            "hnsw.iterative_scan is off: a query of yours with ORDER BY embedding and a filter may find too few rows",
            "SET hnsw.iterative_scan = strict_order; the functions of pg_graphrag set it themselves.",
        );
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_NAME,
            "a collection needs a name",
        ));
    }
    let limit = pg_sys::NAMEDATALEN as usize - 1;
    if name.len() > limit {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_NAME_TOO_LONG,
            format!("collection names have at most {limit} bytes"),
        )
        .detail(format!("This one has {}.", name.len())));
    }
    Ok(())
}

fn check_encoding() -> Result<()> {
    let encoding: String = spi::query_one("SELECT current_setting('server_encoding')", &[], |row| row.need(1))?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("pg_graphrag needs a database in UTF8, this one is in {encoding}"),
    ))
}

/// Makes the schema, or takes an empty one that the caller owns; what follows runs as its owner.
fn take_schema(name: &str) -> Result<(AsUser, pg_sys::Oid)> {
    let sql = "SELECT nspowner FROM pg_namespace WHERE nspname = $1";
    let owner: Option<pg_sys::Oid> = spi::query(sql, &[name.into()], |row| row.need(1))?.pop();
    let Some(owner) = owner else {
        must_create_schemas(name)?;
        spi::execute(&format!("CREATE SCHEMA {}", spi::quote(name)), &[])?;
        return take_schema(name);
    };
    if super::find(name)?.is_some() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_DUPLICATE_SCHEMA,
            format!("collection {} already exists", quoted(name)),
        )
        .hint("rag_alter changes its settings, rag_drop drops it."));
    }
    must_own(name, owner)?;
    let sql = "SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 \
               UNION ALL SELECT proname::text FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = $1 \
               UNION ALL SELECT typname::text FROM pg_type JOIN pg_namespace n ON n.oid = typnamespace WHERE nspname = $1 \
                 AND typrelid = 0 AND typelem = 0 \
               ORDER BY 1 LIMIT 1";
    if let Some(object) = spi::query(sql, &[name.into()], |row| row.need::<String>(1))?.pop() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_DUPLICATE_SCHEMA,
            format!("schema {} exists and is not empty", quoted(name)),
        )
        .detail(format!("It holds {}.", quoted(&object)))
        .hint("A collection takes a schema of its own: choose another name."));
    }
    Ok((AsUser::switch(owner), owner))
}

fn must_create_schemas(name: &str) -> Result<()> {
    let sql =
        "SELECT has_database_privilege(current_database(), 'CREATE'), current_database()::text, current_user::text";
    let (may, database, role): (bool, String, String) =
        spi::query_one(sql, &[], |row| Ok((row.need(1)?, row.need(2)?, row.need(3)?)))?;
    if may {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for database {}", quoted(&database)),
    )
    .detail("A collection is a schema, and you may not make one here.")
    .hint(format!(
        "Somebody who may can give you an empty one: CREATE SCHEMA {} AUTHORIZATION {};",
        spi::quote(name),
        spi::quote(&role)
    )))
}

fn tell_about_index(dimensions: usize) {
    if dimensions > 4000 {
        notice!("vectors of over 4,000 dimensions cannot be indexed by HNSW: search will be exact");
    } else if dimensions > 2000 {
        notice!(
            "vectors of over 2,000 dimensions are indexed through halfvec: ORDER BY (embedding::halfvec({dimensions})) <=> …"
        );
    }
}
