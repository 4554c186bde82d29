//! graph_bind and graph_unbind: entities that are rows of a table of the user.

mod edges;
mod source;
mod take;

use graphrag_text::rows::assign;
use pgrx::prelude::*;
use pgrx::{PgSqlErrorCode, pg_sys};

use self::source::Source;
use self::take::{look_up, release};
use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, notice, required, sql};
use crate::pg::tick;
use crate::progress::count;

/// A table, by a name under which the signatures of Rust and SQL can be compared.
type Regclass = pg_sys::Oid;

/// Bytes of a type: it stands in an index together with the key of a row.
const LONGEST_TYPE: usize = 200;

/// SQL: `graph_bind(collection, type, source, name, key, aliases, edges)`.
#[pg_extern(sql = false)]
fn graph_bind(
    collection: Option<&str>,
    r#type: Option<&str>,
    source: Option<Regclass>,
    name: Option<&str>,
    key: Option<&str>,
    aliases: Option<Vec<Option<String>>>,
    edges: Option<bool>,
) -> sql::Result<TableIterator<'static, (name!(entities, i64), name!(relations, i64))>> {
    let kind = checked(r#type)?;
    let source = required(source, "source")?;
    let name = required(name, "name")?;
    let aliases: Vec<String> = required(aliases, "aliases")?
        .into_iter()
        .map(|alias| required(alias, "a column of aliases"))
        .collect::<Result<_>>()?;
    let edges = required(edges, "edges")?;
    let collection = Collection::build(collection)?;
    // The text of a key must not depend on who calls.
    for (setting, value) in [
        ("DateStyle", "ISO, YMD"),
        ("IntervalStyle", "postgres"),
        ("TimeZone", "UTC"),
        ("bytea_output", "hex"),
        ("extra_float_digits", "1"),
    ] {
        collection.frame.set(setting, value)?;
    }
    let source = Source::find(&collection, source, name, key, &aliases)?;
    Ok(TableIterator::once(bind(&collection, kind, &source, edges)?))
}

/// SQL: `graph_unbind(collection, type)`.
#[pg_extern(sql = false)]
fn graph_unbind(collection: Option<&str>, r#type: Option<&str>) -> sql::Result<()> {
    let kind = checked(r#type)?;
    let collection = Collection::build(collection)?;
    Ok(unbind(&collection, kind)?)
}

fn checked(kind: Option<&str>) -> Result<&str> {
    let kind = required(kind, "type")?;
    if kind.trim().is_empty() {
        return Err(Error::invalid("type must not be empty"));
    }
    if kind.len() > LONGEST_TYPE {
        return Err(
            Error::new(PgSqlErrorCode::ERRCODE_STRING_DATA_RIGHT_TRUNCATION, "type is too long")
                .detail(format!("Types that are bound have at most {LONGEST_TYPE} bytes.")),
        );
    }
    Ok(kind)
}

fn bind(collection: &Collection, kind: &str, source: &Source, edges: bool) -> Result<(i64, i64)> {
    let (rows, skipped) = source.read()?;
    let sql = "INSERT INTO {s}.binding AS b (type, source, key, name, aliases, edges) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (type) DO UPDATE SET source = excluded.source, key = excluded.key, name = excluded.name, \
                 aliases = excluded.aliases, edges = excluded.edges \
               WHERE (b.source, b.key, b.name, b.aliases, b.edges) \
                     IS DISTINCT FROM (excluded.source, excluded.key, excluded.name, excluded.aliases, excluded.edges)";
    let args = [
        kind.into(),
        source.shown.as_str().into(),
        source.key.as_str().into(),
        source.name.as_str().into(),
        source.aliases().into(),
        edges.into(),
    ];
    collection.execute(sql, &args)?;
    release_strays(collection)?;
    let assigned = assign(&rows, &mut |names| look_up(collection, kind, names), &mut tick)?;
    take::apply(collection, kind, &rows, &assigned.rows)?;
    let relations = edges::refresh(collection, kind)?;
    collection.analyze(&["entity", "entity_alias", "relation"])?;

    let unnamed = assigned.rows.iter().filter(|row| row.is_none()).count() as i64;
    if skipped > 0 {
        notice!(
            "{} of {} without a usable name or key {} skipped",
            count(skipped, "row", "rows"),
            source.shown,
            if skipped == 1 { "is" } else { "are" }
        );
    }
    if assigned.shared > 0 {
        notice(
            format!(
                "{} of several rows of {} {} bound to none of them",
                count(assigned.shared as i64, "name", "names"),
                source.shown,
                if assigned.shared == 1 { "is" } else { "are" }
            ),
            "An entity of a row whose name is not its own is called \"name (key)\".",
        );
    }
    if assigned.taken > 0 {
        notice!(
            "{} of rows of {} already {} to something else, and {} there",
            count(assigned.taken as i64, "name", "names"),
            source.shown,
            if assigned.taken == 1 { "leads" } else { "lead" },
            if assigned.taken == 1 { "stays" } else { "stay" }
        );
    }
    if unnamed > 0 {
        notice!(
            "{} of {} {} no name of {} own and no entity",
            count(unnamed, "row", "rows"),
            source.shown,
            if unnamed == 1 { "has" } else { "have" },
            if unnamed == 1 { "its" } else { "their" }
        );
    }
    Ok((assigned.rows.len() as i64 - unnamed, relations))
}

fn unbind(collection: &Collection, kind: &str) -> Result<()> {
    if collection.execute("DELETE FROM {s}.binding WHERE type = $1 RETURNING type", &[kind.into()])? == 0 {
        let sql = "SELECT type FROM {s}.binding ORDER BY type COLLATE \"C\" LIMIT 20";
        let bound: Vec<String> = collection.query(sql, &[], |row| Ok(quoted(&row.need::<String>(1)?)))?;
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            format!(
                "type {} of collection {} is not bound",
                quoted(kind),
                quoted(&collection.name)
            ),
        )
        .hint(match bound.is_empty() {
            true => format!(
                "SELECT graph_bind({}, {}, ...) binds it.",
                literal(&collection.name),
                literal(kind)
            ),
            false => format!("Bound are {}.", bound.join(", ")),
        }));
    }
    release_strays(collection)
}

/// Unbinds entities of a type that is not bound: since a moment ago, or since their type was changed by hand.
fn release_strays(collection: &Collection) -> Result<()> {
    let sql = "SELECT e.id FROM {s}.entity e WHERE e.row_key IS NOT NULL \
               AND NOT EXISTS (SELECT FROM {s}.binding b WHERE b.type = e.type)";
    let strays = collection.query(sql, &[], |row| row.need(1))?;
    release(collection, &strays)
}
