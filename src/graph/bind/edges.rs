//! Foreign keys between bound tables as relations.

use graphrag_text::{fold, rows};

use crate::collection::Collection;
use crate::error::{Result, notice};
use crate::graph::merge::{Touched, recount};
use crate::pg::{spi, tick};
use crate::progress::count;

/// Relations that are recounted at once.
const BATCH: usize = 10_000;

/// A foreign key from a bound table to a bound table; names are quoted.
struct Link {
    from: End,
    to: End,
    column: String,
    operator: String,
}

struct End {
    kind: String,
    table: String,
    key: String,
    column: String,
}

/// Makes the relations of foreign keys from and to a type what the rows say now; answers how many there are.
pub fn refresh(collection: &Collection, kind: &str) -> Result<i64> {
    let links = links(collection, kind)?;
    let mut stand: Vec<i64> = vec![];
    for link in &links {
        stand.extend(write(collection, link)?);
        tick();
    }
    stand.sort_unstable();
    stand.dedup();
    let of_type = |end: &str| {
        format!("EXISTS (SELECT FROM {{s}}.entity e WHERE e.id = r.{end} AND e.type = $1 AND e.row_key IS NOT NULL)")
    };
    // Not by an anti-join: of what was just written there are no statistics, and it may take the square of the relations.
    let sql = format!(
        "SELECT r.id FROM {{s}}.relation r WHERE r.bound AND ({} OR {}) ORDER BY r.id",
        of_type("source_id"),
        of_type("target_id")
    );
    let mut gone: Vec<i64> = vec![];
    collection.stream(&sql, &[kind.into()], |row| {
        let id: i64 = row.need(1)?;
        if stand.binary_search(&id).is_err() {
            gone.push(id);
        }
        Ok(())
    })?;
    for batch in gone.chunks(BATCH) {
        let relations = batch.to_vec();
        let sql = "UPDATE {s}.relation SET bound = false, given_weight = NULL WHERE id = ANY ($1)";
        collection.execute(sql, &[relations.clone().into()])?;
        let entities = vec![];
        recount(collection, &Touched { entities, relations })?;
        tick();
    }
    Ok(stand.len() as i64)
}

/// The foreign keys of one column that lead from this type to a bound one or back, if either wants them.
fn links(collection: &Collection, kind: &str) -> Result<Vec<Link>> {
    let readable = |table: &str, column: &str| {
        format!(
            "coalesce({column}.attnum IS NOT NULL AND has_column_privilege({table}.oid, {column}.attnum, 'SELECT'), false)"
        )
    };
    let end = |binding: &str, table: &str, schema: &str, key: &str| {
        format!(
            "JOIN pg_namespace {schema} ON true JOIN pg_class {table} ON {table}.relnamespace = {schema}.oid \
               AND format('%I.%I', {schema}.nspname, {table}.relname) = {binding}.source \
             LEFT JOIN pg_attribute {key} ON {key}.attrelid = {table}.oid AND {key}.attname = {binding}.key AND {key}.attnum > 0 \
               AND NOT {key}.attisdropped"
        )
    };
    let sql = format!(
        "SELECT DISTINCT b.type, b.source, quote_ident(b.key), quote_ident(bc.attname), o.type, o.source, quote_ident(o.key), \
                quote_ident(oc.attname), bc.attname::text, format('OPERATOR(%I.%s)', pn.nspname, p.oprname), \
                has_schema_privilege(bs.oid, 'USAGE') AND has_schema_privilege(os.oid, 'USAGE') AND {} AND {} AND {} AND {} \
         FROM {{s}}.binding b {} JOIN pg_constraint k ON k.conrelid = bt.oid AND k.contype = 'f' AND cardinality(k.conkey) = 1 \
         JOIN {{s}}.binding o ON true {} AND ot.oid = k.confrelid \
         JOIN pg_attribute bc ON bc.attrelid = bt.oid AND bc.attnum = k.conkey[1] \
         JOIN pg_attribute oc ON oc.attrelid = ot.oid AND oc.attnum = k.confkey[1] \
         JOIN pg_operator p ON p.oid = k.conpfeqop[1] JOIN pg_namespace pn ON pn.oid = p.oprnamespace \
         WHERE ot.oid = k.confrelid AND (b.edges OR o.edges) AND $1 IN (b.type, o.type) \
         ORDER BY 1, 4, 5, 8",
        readable("bt", "bk"),
        readable("bt", "bc"),
        readable("ot", "ok"),
        readable("ot", "oc"),
        end("b", "bt", "bs", "bk"),
        end("o", "ot", "os", "ok"),
    );
    let mut hidden = 0;
    let links = collection.query(&sql, &[kind.into()], |row| {
        let end = |first: usize| {
            Ok::<_, crate::error::Error>(End {
                kind: row.need(first)?,
                table: row.need(first + 1)?,
                key: row.need(first + 2)?,
                column: row.need(first + 3)?,
            })
        };
        if !row.need::<bool>(11)? {
            hidden += 1;
            return Ok(None);
        }
        Ok(Some(Link {
            from: end(1)?,
            to: end(5)?,
            column: row.need(9)?,
            operator: row.need(10)?,
        }))
    })?;
    if hidden > 0 {
        notice(
            format!("{} cannot be read", count(hidden, "foreign key", "foreign keys")),
            "The owner of the collection needs SELECT on both columns and on both keys.",
        );
    }
    Ok(links.into_iter().flatten().collect())
}

/// Writes the relations of a foreign key; answers their ids. What was stated by hand stays as it was stated.
fn write(collection: &Collection, link: &Link) -> Result<Vec<i64>> {
    let Link { from, to, operator, .. } = link;
    let schema = &collection.schema;
    // Not by the template: names of a user's tables may hold anything. Each row is looked up through the index: of keys and
    // predicates there are no statistics, and a join of all with all takes the square of the rows.
    let entity = |kind: &str, key: &str| {
        format!("(SELECT e.id, e.key FROM {schema}.entity e WHERE e.type = {kind} AND e.row_key = pair.{key} LIMIT 1)")
    };
    let pairs = format!(
        "FROM (SELECT DISTINCT a.{}::text AS a, b.{}::text AS b FROM {} a JOIN {} b ON b.{} {operator} a.{}) pair \
         CROSS JOIN LATERAL {} s CROSS JOIN LATERAL {} t",
        from.key,
        to.key,
        from.table,
        to.table,
        to.column,
        from.column,
        entity("$1", "a"),
        entity("$2", "b"),
    );
    let shown = rows::predicate(&link.column);
    let key = fold::predicate(shown);
    let sql = format!(
        "INSERT INTO {schema}.relation AS r (source_id, predicate, predicate_key, target_id, weight, bound) \
         SELECT s.id, $3, $4, t.id, 1, true {pairs} ORDER BY s.key COLLATE \"C\", t.key COLLATE \"C\" \
         ON CONFLICT (source_id, predicate_key, target_id) DO UPDATE SET given_weight = 1, bound = true \
         WHERE r.given_weight IS NULL"
    );
    let args = || vec![from.kind.as_str().into(), to.kind.as_str().into()];
    let mut all = args();
    all.extend([shown.into(), key.as_str().into()]);
    spi::execute(&sql, &all)?;
    let sql = format!(
        "SELECT r.id {pairs} CROSS JOIN LATERAL (SELECT r.id FROM {schema}.relation r \
           WHERE r.source_id = s.id AND r.predicate_key = $3 AND r.target_id = t.id LIMIT 1) r"
    );
    let mut all = args();
    all.push(key.as_str().into());
    spi::query(&sql, &all, |row| row.need(1))
}
