//! The table whose rows are entities: its columns, who may read them, and its rows.

use graphrag_text::rows::Row;
use graphrag_text::{fold, names};
use pgrx::{PgSqlErrorCode, pg_sys};

use super::super::found::MAX_KEY_BYTES;
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result};
use crate::pg::{memory, spi};

/// Columns that a hint lists.
const LISTED: usize = 20;

/// What a name costs while names are compared, beside its letters.
const BYTES_PER_NAME: usize = 150;

pub struct Source {
    /// The qualified name, quoted.
    pub shown: String,
    pub key: String,
    pub name: String,
    aliases: Vec<Column>,
}

#[derive(Clone)]
struct Column {
    name: String,
    kind: String,
    is_text: bool,
    is_list: bool,
    is_readable: bool,
}

impl Source {
    pub fn aliases(&self) -> Vec<String> {
        self.aliases.iter().map(|column| column.name.clone()).collect()
    }

    /// Checks that the table has the columns and that the owner of the collection may read them.
    pub fn find(
        collection: &Collection,
        source: pg_sys::Oid,
        name: &str,
        key: Option<&str>,
        aliases: &[String],
    ) -> Result<Source> {
        let shown = table(collection, source)?;
        let sql = "SELECT a.attname::text, format_type(a.atttypid, NULL), t.typcategory = 'S', \
                          t.typcategory = 'A' AND coalesce(el.typcategory = 'S', true), \
                          has_column_privilege($1, a.attnum, 'SELECT') \
                   FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type el ON el.oid = t.typelem \
                   WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
        let columns = collection.query(sql, &[source.into()], |row| {
            Ok(Column {
                name: row.need(1)?,
                kind: row.need(2)?,
                is_text: row.need(3)?,
                is_list: row.need(4)?,
                is_readable: row.need(5)?,
            })
        })?;
        let find = |wanted: &str| {
            let found = columns.iter().find(|column| column.name == wanted);
            found.cloned().ok_or_else(|| missing(&shown, &columns, wanted))
        };
        let named = find(name)?;
        if !named.is_text {
            return Err(mismatch(&named, "a name must be a text"));
        }
        let aliases = aliases.iter().map(|alias| find(alias)).collect::<Result<Vec<_>>>()?;
        if let Some(alias) = aliases.iter().find(|alias| !alias.is_text && !alias.is_list) {
            return Err(mismatch(alias, "aliases must be a text or an array of texts"));
        }
        let key = match key {
            Some(key) => find(key)?,
            None => find(&primary_key(collection, source, &shown)?)?,
        };
        let used: Vec<&Column> = [&key, &named].into_iter().chain(&aliases).collect();
        may_read(collection, source, &shown, &used)?;
        Ok(Source {
            shown,
            key: key.name,
            name: named.name,
            aliases,
        })
    }

    /// The rows by key, and how many have no usable name or no key.
    pub fn read(&self) -> Result<(Vec<Row>, i64)> {
        let list: Vec<String> = self
            .aliases
            .iter()
            .map(|column| match (column.is_list, spi::quote(&column.name)) {
                (true, name) => format!(" || s.{name}::text[]"),
                (false, name) => format!(" || ARRAY[s.{name}::text]"),
            })
            .collect();
        let sql = format!(
            "SELECT s.{}::text, s.{}::text, '{{}}'::text[]{} FROM {} s",
            spi::quote(&self.key),
            spi::quote(&self.name),
            list.concat(),
            self.shown
        );
        let (mut rows, mut skipped, mut bytes): (Vec<Row>, i64, usize) = (vec![], 0, 0);
        spi::stream(&sql, &[], |row| {
            let (key, name): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
            let (Some(key), Some(name)) = (key, name) else {
                skipped += 1;
                return Ok(());
            };
            let usable = |name: &str| {
                let folded = (name.len() <= 2 * MAX_KEY_BYTES).then(|| fold::name(name))?;
                (!folded.is_empty() && folded.len() <= MAX_KEY_BYTES).then_some(folded)
            };
            let Some(first) = usable(&name).filter(|_| key.len() <= MAX_KEY_BYTES) else {
                skipped += 1;
                return Ok(());
            };
            let mut names = vec![first];
            for alias in row.get::<Vec<Option<String>>>(3)?.unwrap_or_default().iter().flatten() {
                if let Some(alias) = usable(alias).filter(|alias| !names.contains(alias)) {
                    names.push(alias);
                }
            }
            bytes += 2 * key.len() + 4 * name.len();
            bytes += names.iter().map(|name| 2 * name.len() + BYTES_PER_NAME).sum::<usize>();
            memory::check(bytes, "the comparison of the names of all rows")?;
            let name = name.trim().to_owned();
            rows.push(Row { key, name, names });
            Ok(())
        })?;
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        if rows.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
                format!(
                    "column {} of {} is no key: several rows have the same value",
                    quoted(&self.key),
                    self.shown
                ),
            )
            .hint("Name a column whose values are unique: key => '...'."));
        }
        Ok((rows, skipped))
    }
}

/// The qualified name of a table or of what can be read like one.
fn table(collection: &Collection, source: pg_sys::Oid) -> Result<String> {
    let sql = "SELECT format('%I.%I', n.nspname, c.relname), c.relkind::text, c.relpersistence = 't' \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    let found: Vec<(String, String, bool)> = collection.query(sql, &[source.into()], |row| {
        Ok((row.need(1)?, row.need(2)?, row.need(3)?))
    })?;
    let Some((shown, kind, is_temporary)) = found.into_iter().next() else {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("table with OID {} does not exist", source.to_u32()),
        ));
    };
    if !["r", "p", "v", "m", "f"].contains(&kind.as_str()) {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("{shown} is not a table"),
        )
        .hint("source is a table, a partitioned or foreign table, a view or a materialized view."));
    }
    if is_temporary {
        return Err(Error::invalid(format!("{shown} is temporary"))
            .detail("Other sessions could not read it.")
            .hint("Make it a plain table."));
    }
    Ok(shown)
}

fn missing(shown: &str, columns: &[Column], wanted: &str) -> Error {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let folded: Vec<String> = names.iter().map(|name| fold::name(name)).collect();
    let near = names::nearest(wanted, folded.iter().map(String::as_str), 1);
    let hint = match near
        .first()
        .and_then(|near| folded.iter().position(|name| name == near))
    {
        Some(at) => format!("Did you mean {}?", quoted(names[at])),
        None => {
            let listed: Vec<String> = names.iter().take(LISTED).map(|name| quoted(name)).collect();
            let more = if names.len() > LISTED { ", …" } else { "" };
            format!("Its columns are {}{more}.", listed.join(", "))
        }
    };
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        format!("column {} of {shown} does not exist", quoted(wanted)),
    )
    .hint(hint)
}

fn mismatch(column: &Column, must: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("column {} has type {}", quoted(&column.name), column.kind),
    )
    .detail(format!("{}.", crate::error::capital(must)))
    .hint("A view can show it as text.")
}

fn primary_key(collection: &Collection, source: pg_sys::Oid, shown: &str) -> Result<String> {
    let sql = "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
               WHERE i.indrelid = $1 AND i.indisprimary ORDER BY a.attnum";
    let mut key: Vec<String> = collection.query(sql, &[source.into()], |row| row.need(1))?;
    let message = match key.len() {
        1 => return Ok(key.remove(0)),
        0 => format!("{shown} has no primary key"),
        _ => format!("the primary key of {shown} has {} columns", key.len()),
    };
    Err(Error::invalid(message)
        .detail("The key of a row is the text of one column.")
        .hint("Name a column whose values are unique: key => '...'; a view or a generated column can join several."))
}

/// 42501 unless the owner of the collection, as whom the rows are read, may read the columns.
fn may_read(collection: &Collection, source: pg_sys::Oid, shown: &str, columns: &[&Column]) -> Result<()> {
    let sql = "SELECT has_schema_privilege(c.relnamespace, 'USAGE'), quote_ident(n.nspname), quote_ident(current_user), current_user::text \
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    let (usage, schema, role, owner): (bool, String, String, String) =
        collection.query_one(sql, &[source.into()], |row| {
            Ok((row.need(1)?, row.need(2)?, row.need(3)?, row.need(4)?))
        })?;
    let mut hidden: Vec<&str> = columns
        .iter()
        .filter(|column| !column.is_readable)
        .map(|column| column.name.as_str())
        .collect();
    hidden.dedup();
    let grant = match (usage, hidden.as_slice()) {
        (true, []) => return Ok(()),
        (false, _) => format!("GRANT USAGE ON SCHEMA {schema} TO {role};"),
        (true, hidden) => {
            let list: Vec<String> = hidden.iter().map(|name| spi::quote(name)).collect();
            format!("GRANT SELECT ({}) ON {shown} TO {role};", list.join(", "))
        }
    };
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for {shown}"),
    )
    .detail(format!(
        "It is read as the owner of collection {}, {}.",
        quoted(&collection.name),
        quoted(&owner)
    ))
    .hint(grant))
}
