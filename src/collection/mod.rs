//! A collection: one schema that holds a table `setting` and what belongs to it.

mod admin;
mod create;
mod options;
mod reading;
mod status;

pub use options::Options;
pub use reading::Reading;

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys;

use crate::error::{Error, Result, required};
use crate::ingest::will_drop_index;
use crate::pg::frame::{AsUser, Frame, is_member_of, is_read_only};
use crate::pg::trigger::misplaced;
use crate::pg::{lock, spi};
use crate::search::has_index;

/// Version of the tables of a collection; one with another version has to be migrated first.
pub const LAYOUT: i64 = 8;

/// The tables of a collection, as sql/collection.sql makes them.
pub const TABLES: [&str; 21] = [
    "setting",
    "document",
    "block",
    "node",
    "node_child",
    "node_source",
    "posting",
    "term",
    "entity",
    "binding",
    "entity_alias",
    "mention",
    "relation",
    "evidence",
    "claim",
    "community",
    "community_entity",
    "community_source",
    "model_call",
    "model_call_source",
    "change",
];

/// An open collection: its names, quoted, its settings, and the frame in which its statements run.
pub struct Collection {
    pub name: String,
    /// The schema, quoted.
    pub schema: String,
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
    /// The schema of pgvector, quoted.
    pub vector: String,
    pub options: Options,
    // The order of fields is the order of drops: first the user, then the settings.
    _user: Option<AsUser>,
    pub frame: Frame,
}

impl Collection {
    /// Opens a collection for reading, with the rights of the caller; as the owner if the caller has the owner's rights,
    /// so that a superuser who searches somebody's collection does not run what its owner has attached to its tables.
    pub fn read(name: Option<&str>) -> Result<Collection> {
        let name = required(name, "collection")?;
        let frame = Frame::enter()?;
        let (oid, owner) = find(name)?.ok_or_else(|| unknown(name))?;
        must_read(name)?;
        let user = is_member_of(owner).then(|| AsUser::switch(owner));
        Self::load(name, (oid, owner), user, frame)
    }

    /// Opens a collection for a function that writes: the caller must be a member of the owning role, and everything
    /// runs as the owner.
    pub fn write(name: Option<&str>) -> Result<Collection> {
        let name = required(name, "collection")?;
        let frame = Frame::enter()?;
        let (oid, owner) = find(name)?.ok_or_else(|| unknown(name))?;
        must_own(name, owner)?;
        must_write(name)?;
        let user = AsUser::switch(owner);
        Self::load(name, (oid, owner), Some(user), frame)
    }

    /// Opens a collection for a function that derives rows from documents: like [`Collection::write`], one at a time.
    pub fn build(name: Option<&str>) -> Result<Collection> {
        Self::write(name)?.building()
    }

    /// Like [`Collection::build`], for a function that may make or drop the index of `node`; `replaces` says whether it replaces
    /// the vectors, `begins` whether it looks how much waits.
    ///
    /// The table is locked first: a transaction that has inserted and goes on to delete would else hold what this one waits
    /// for, and wait for what this one holds.
    pub fn build_nodes(name: Option<&str>, replaces: bool, begins: bool) -> Result<Collection> {
        let collection = Self::write(name)?;
        let replaces = replaces || collection.options.next_embedder.is_some();
        if replaces || !has_index(&collection, "node")? || begins && will_drop_index(&collection)? {
            collection.execute("LOCK TABLE {s}.node IN SHARE ROW EXCLUSIVE MODE", &[])?;
        }
        collection.building()
    }

    /// Like [`Collection::build_nodes`], for a function that asks models, which waits for a refresh that does the same.
    ///
    /// That lock comes before all others, as in a refresh.
    pub fn build_with_models(name: Option<&str>, replaces: bool) -> Result<Collection> {
        let collection = Self::write(name)?;
        if collection.options.models().any(|model| !model.is_built_in()) {
            lock::ask(collection.oid)?;
        }
        drop(collection);
        // Opened anew: a refresh may just have gone over to another embedder.
        Self::build_nodes(name, replaces, true)
    }

    /// 55000 if the schema has been renamed since it was opened: its name may be another collection's by now.
    pub fn must_be_itself(&self) -> Result<()> {
        let sql = "SELECT nspname::text FROM pg_namespace WHERE oid = $1";
        let name: Vec<String> = self.returning(sql, &[self.oid.into()], |row| row.need(1))?;
        if name.first() == Some(&self.name) {
            return Ok(());
        }
        Err(self.renamed())
    }

    /// 55000: what goes on over several transactions has lost its collection.
    pub fn renamed(&self) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "collection {} has been renamed or given away meanwhile",
                quoted(&self.name)
            ),
        )
        .hint("CALL rag_refresh again goes on.")
    }

    /// 55000 where nothing may be derived from documents.
    pub fn must_derive(&self) -> Result<()> {
        if !self.is_read_committed()? {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "functions that derive rows from documents need the isolation level read committed",
            )
            .detail("With an older snapshot they would draw on documents that are deleted by now.")
            .hint("BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = 'read committed'."));
        }
        self.must_see_all()
    }

    fn building(self) -> Result<Collection> {
        let collection = self;
        collection.must_derive()?;
        // Before the other lock, as whoever needs more of the table has it: else each would wait for what the other holds.
        collection.execute("LOCK TABLE {s}.node IN ROW EXCLUSIVE MODE", &[])?;
        lock::build(collection.oid)?;
        // A change of documents with an older snapshot than this cannot see what is derived now; it locks this row and fails.
        let sql = "INSERT INTO {s}.setting (key, value) VALUES ('last_build', to_jsonb(now())) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        collection.execute(sql, &[])?;
        Ok(collection)
    }

    /// Opens the collection of a table that fired one of its triggers, as the table's owner, whoever wrote.
    pub fn of_trigger(schema: pg_sys::Oid, owner: pg_sys::Oid) -> Result<Collection> {
        Self::of_table(schema, owner, false)
    }

    /// Like [`Collection::of_trigger`], for the table document: the settings are read behind the lock under which leaves are
    /// written, so that none gets a vector of an embedder that is replaced meanwhile.
    pub fn of_document_trigger(schema: pg_sys::Oid, owner: pg_sys::Oid) -> Result<Collection> {
        Self::of_table(schema, owner, true)
    }

    fn of_table(schema: pg_sys::Oid, owner: pg_sys::Oid, writes_leaves: bool) -> Result<Collection> {
        let frame = Frame::enter()?;
        let name: String = spi::query_one(
            "SELECT nspname::text FROM pg_namespace WHERE oid = $1",
            &[schema.into()],
            |r| r.need(1),
        )?;
        if find(&name)? != Some((schema, owner)) {
            return Err(misplaced());
        }
        let user = AsUser::switch(owner);
        if writes_leaves {
            spi::execute(
                &format!("LOCK TABLE {}.node IN ROW EXCLUSIVE MODE", spi::quote(&name)),
                &[],
            )?;
        }
        let collection = Self::load(&name, (schema, owner), Some(user), frame)?;
        collection.must_see_all()?;
        Ok(collection)
    }

    /// What is derived must rest on all documents: with policies that hold for the owner, too, it would forget the rest.
    fn must_see_all(&self) -> Result<()> {
        if !self.has_row_security()? {
            return Ok(());
        }
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "row security hides rows of collection {} from its owner",
                quoted(&self.name)
            ),
        )
        .hint("ALTER TABLE ... NO FORCE ROW LEVEL SECURITY; policies then hold for everybody but the owner."))
    }

    fn load(
        name: &str,
        (oid, owner): (pg_sys::Oid, pg_sys::Oid),
        user: Option<AsUser>,
        frame: Frame,
    ) -> Result<Collection> {
        let schema = spi::quote(name);
        let options = Options::load(name, &schema)?;
        let vector = extension_schema("vector")?;
        Ok(Collection {
            name: name.to_owned(),
            schema,
            oid,
            owner,
            vector,
            options,
            _user: user,
            frame,
        })
    }

    /// Whether policies hide rows of documents, or of what they say, from the current user.
    pub fn has_row_security(&self) -> Result<bool> {
        self.hides(&["document", "block", "mention", "evidence", "entity", "relation"])
    }

    /// Whether policies hide leaves and summaries from the current user.
    pub fn hides_nodes(&self) -> Result<bool> {
        self.hides(&["node"])
    }

    /// The same, where no policy on documents says which mentions and relations are hidden with them.
    pub fn hides_only_nodes(&self) -> Result<bool> {
        Ok(self.hides_nodes()? && !self.hides(&["document"])?)
    }

    fn hides(&self, tables: &[&str]) -> Result<bool> {
        let sql = "SELECT coalesce(bool_or(row_security_active(oid)), false) FROM pg_class \
                   WHERE relnamespace = $1 AND relname = ANY ($2)";
        self.query_one(sql, &[self.oid.into(), tables.to_vec().into()], |row| row.need(1))
    }

    /// Whether each statement of this transaction sees what others have committed before it.
    pub fn is_read_committed(&self) -> Result<bool> {
        let level: String = self.query_one("SELECT current_setting('transaction_isolation')", &[], |row| {
            row.need(1)
        })?;
        Ok(level == "read committed" || level == "read uncommitted")
    }

    /// `sql` with `{s}` replaced by the quoted schema and `{v}` by pgvector's.
    pub fn sql(&self, sql: &str) -> String {
        fill(sql, &[("{s}", &self.schema), ("{v}", &self.vector)])
    }

    pub fn query<T>(&self, sql: &str, args: &[spi::Arg], read: impl FnMut(&spi::Row) -> Result<T>) -> Result<Vec<T>> {
        spi::query(&self.sql(sql), args, read)
    }

    /// A query that finds rows by their keys; its plan is kept by the session.
    pub fn lookup<T>(&self, sql: &str, args: &[spi::Arg], read: impl FnMut(&spi::Row) -> Result<T>) -> Result<Vec<T>> {
        spi::lookup(&self.sql(sql), args, read)
    }

    pub fn query_one<T>(&self, sql: &str, args: &[spi::Arg], read: impl FnMut(&spi::Row) -> Result<T>) -> Result<T> {
        spi::query_one(&self.sql(sql), args, read)
    }

    pub fn returning<T>(
        &self,
        sql: &str,
        args: &[spi::Arg],
        read: impl FnMut(&spi::Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        spi::returning(&self.sql(sql), args, read)
    }

    pub fn execute(&self, sql: &str, args: &[spi::Arg]) -> Result<usize> {
        spi::execute(&self.sql(sql), args)
    }

    pub fn stream(&self, sql: &str, args: &[spi::Arg], each: impl FnMut(&spi::Row) -> Result<()>) -> Result<()> {
        spi::stream(&self.sql(sql), args, each)
    }

    /// Gathers statistics on tables that a build has just filled: the plans of its next statements, and of the searches that
    /// follow at once, depend on them, and autovacuum comes too late. None are kept of texts, names and vectors.
    pub fn analyze(&self, tables: &[&str]) -> Result<()> {
        for table in tables {
            self.execute(&format!("ANALYZE {{s}}.{table}"), &[])?;
        }
        Ok(())
    }

    /// Sets a setting to a text.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO {s}.setting (key, value) VALUES ($1, to_jsonb($2)) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.execute(sql, &[key.into(), value.into()])?;
        Ok(())
    }

    /// Notes in `setting` when a step was last done, for rag_status, and how (an object), for the refresh.
    pub fn note_step(&self, step: &str, model: Option<&str>, how: serde_json::Value) -> Result<()> {
        let sql = "INSERT INTO {s}.setting (key, value) \
                   VALUES ('step.' || $1, $3::jsonb || jsonb_build_object('built_at', now(), 'model', $2::text)) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.execute(sql, &[step.into(), model.into(), how.to_string().into()])?;
        Ok(())
    }
}

/// Selects schema, owner and owner's oid of the collections whose name fits the condition.
///
/// A schema is one if it holds the plain tables of a collection, owned by one role, with a `setting` of the right columns:
/// a view or a type of somebody's in their place would run code in the name of whoever looks.
fn find_sql(condition: &str) -> String {
    let column = |name: &str, kind: &str| {
        format!(
            "AND bool_or(c.relname = 'setting' AND EXISTS (SELECT FROM pg_attribute a \
               WHERE a.attrelid = c.oid AND a.attname = '{name}' AND a.atttypid = 'pg_catalog.{kind}'::regtype))"
        )
    };
    format!(
        "SELECT n.oid, c.relowner, n.nspname::text AS name, pg_get_userbyid(c.relowner)::text FROM pg_namespace n \
         JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = ANY ($1) AND c.relkind IN ('r', 'p') \
         WHERE {condition} GROUP BY 1, 2, 3 HAVING count(*) = $2 {} {}",
        column("key", "text"),
        column("value", "jsonb")
    )
}

/// The schema and the owner of a collection, or nothing if there is no such one.
fn find(name: &str) -> Result<Option<(pg_sys::Oid, pg_sys::Oid)>> {
    let args = [TABLES.to_vec().into(), (TABLES.len() as i64).into(), name.into()];
    Ok(spi::lookup(&find_sql("n.nspname = $3"), &args, |row| {
        Ok((row.need(1)?, row.need(2)?))
    })?
    .pop())
}

fn must_own(name: &str, owner: pg_sys::Oid) -> Result<()> {
    if is_member_of(owner) {
        return Ok(());
    }
    let role: String = spi::query_one("SELECT pg_get_userbyid($1)::text", &[owner.into()], |row| row.need(1))?;
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for collection {}", quoted(name)),
    )
    .detail(format!(
        "Functions that write need a member of the owning role {}.",
        quoted(&role)
    ))
    .hint("With INSERT, UPDATE or DELETE granted on its table document you can write documents directly, with SELECT search."))
}

/// 25006 where nothing can be written; on a standby PostgreSQL itself would only say that it cannot give a transaction id.
fn must_write(name: &str) -> Result<()> {
    if !is_read_only() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        format!("cannot write to collection {} in a read-only transaction", quoted(name)),
    )
    .detail("On a standby all transactions are read-only; searches work there."))
}

fn must_read(name: &str) -> Result<()> {
    let sql = "SELECT coalesce(bool_and(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')), false) \
               FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1 AND c.relname = 'setting'";
    if spi::lookup(sql, &[name.into()], |row| row.need::<bool>(1))? == [true] {
        return Ok(());
    }
    let schema = spi::quote(name);
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for collection {}", quoted(name)),
    )
    .hint(format!(
        "Its owner can GRANT USAGE ON SCHEMA {schema} and SELECT ON ALL TABLES IN SCHEMA {schema} to you."
    )))
}

fn unknown(name: &str) -> Error {
    let hint = if name.is_empty() {
        "The name of a collection is the name of its schema. See rag_collections.".to_owned()
    } else {
        format!(
            "SELECT rag_create({}) makes it; rag_collections lists what there is.",
            literal(name)
        )
    };
    Error::new(
        PgSqlErrorCode::ERRCODE_INVALID_SCHEMA_NAME,
        format!("collection {} does not exist", quoted(name)),
    )
    .hint(hint)
}

/// The schema of an extension, quoted.
pub fn extension_schema(extension: &str) -> Result<String> {
    let sql = "SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
               WHERE e.extname = $1";
    let name: Vec<String> = spi::lookup(sql, &[extension.into()], |row| row.need(1))?;
    name.first().map(|name| spi::quote(name)).ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            format!("extension {} is not installed", quoted(extension)),
        )
        .hint(format!("CREATE EXTENSION {extension};"))
    })
}

/// `template` with each placeholder replaced by its value, in one pass: a value that looks like a placeholder stays.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let (skip, value) = match values.iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
            Some((placeholder, value)) => (placeholder.len(), *value),
            None => (1, "{"),
        };
        text.push_str(value);
        rest = &rest[skip..];
    }
    text.push_str(rest);
    text
}

/// A name as messages show it.
pub fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// A string as a SQL literal, for hints.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
