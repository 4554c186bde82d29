//! Ranks rows that have a vector: exactly while the candidates are few, through the HNSW index above that.

use std::ops::RangeInclusive;

use crate::collection::Collection;
use crate::error::{Error, Result, notice, required};
use crate::model;
use crate::pg::vector::{self, Vector};
use crate::pg::{json::Json, spi};

/// pgvector's limit for hnsw.ef_search.
const MAX_EF_SEARCH: i64 = 1000;

/// Gives the query, the filter and the documents of a ranking their types in statements that do not use them all.
pub const TYPES: &str = "($1::{v}.vector IS NULL OR $2::jsonb IS NULL OR $3::bigint[] IS NULL OR true)";

/// The cosine of a row `n` with the query `$1`. A zero vector that somebody has written has none: its NaN sorts last where
/// this is negated, and [`in_order`] leaves it out.
pub const SCORE: &str = "1 - (n.embedding OPERATOR({v}.<=>) $1)";

/// How far above the limit for exact search the last count has to be, to be believed.
const MANY: i64 = 8;

/// What may be found.
#[derive(Clone)]
pub struct Scope {
    /// Pairs that the metadata must hold.
    filter: Json,
    /// Documents on which a row must wholly draw.
    documents: Option<Vec<i64>>,
    /// Levels of nodes.
    levels: RangeInclusive<i32>,
}

impl Scope {
    /// Checks the arguments `filter` and `documents` of a search function.
    pub fn new(filter: Option<Json>, documents: Option<Vec<Option<i64>>>) -> Result<Scope> {
        let filter = required(filter, "filter")?;
        if !filter.is_object() {
            return Err(Error::invalid("filter must be a JSON object")
                .detail("Rows are found whose metadata holds all its pairs.")
                .hint("For example '{\"lang\": \"en\"}', or '{}' for all."));
        }
        let documents = documents.map(|ids| ids.into_iter().flatten().collect());
        Ok(Scope {
            filter,
            documents,
            levels: 0..=i32::MAX,
        })
    }

    /// The same, with nodes of these levels alone.
    pub fn within(self, levels: RangeInclusive<i32>) -> Scope {
        Scope { levels, ..self }
    }

    pub fn levels(&self) -> &RangeInclusive<i32> {
        &self.levels
    }

    /// The condition on a row `n` of `node` or `community` that it is wholly in scope, with `$2` the filter and `$3` the
    /// documents.
    pub fn on_row(&self, table: &str) -> String {
        let mut clauses = Vec::new();
        // Only what narrows, so that an index on levels, or none, is looked at.
        if *self.levels.start() > 0 {
            clauses.push(format!("n.level >= {}", self.levels.start()));
        }
        if *self.levels.end() < i32::MAX {
            clauses.push(format!("n.level <= {}", self.levels.end()));
        }
        if !self.filter.is_empty() {
            clauses.push("n.metadata @> $2".to_owned());
        }
        if self.documents.is_some() {
            let leaf = if table == "node" {
                "WHEN n.level = 0 THEN n.document_id = ANY ($3)"
            } else {
                "WHEN false THEN NULL"
            };
            clauses.push(format!(
                "CASE {leaf} ELSE n.source_count > 0 AND n.source_count = \
                   (SELECT count(*) FROM {{s}}.{table}_source s WHERE s.{table}_id = n.id AND s.document_id = ANY ($3)) END"
            ));
        }
        match clauses.is_empty() {
            true => "true".to_owned(),
            false => clauses.join(" AND "),
        }
    }

    /// Whether every row may be found.
    pub fn is_everything(&self) -> bool {
        self.documents.is_none() && self.filter.is_empty()
    }

    /// The condition on a document `d`, with `$2` the filter and `$3` the documents.
    pub fn on_document(&self) -> &'static str {
        match self.documents {
            None => "d.metadata @> $2 AND $3::bigint[] IS NULL",
            Some(_) => "d.metadata @> $2 AND d.id = ANY ($3)",
        }
    }

    pub fn filter(&self) -> spi::Arg<'static> {
        self.filter.clone().into()
    }

    pub fn documents(&self) -> spi::Arg<'static> {
        self.documents.clone().into()
    }
}

/// Says why nothing is found if nothing can be, since leaves wait for their vectors.
pub fn tell_if_unembedded(collection: &Collection) -> Result<()> {
    if collection.options.embedder.is_built_in() {
        return Ok(());
    }
    let sql = "SELECT EXISTS (SELECT FROM {s}.node) AND NOT EXISTS (SELECT FROM {s}.node WHERE embedding IS NOT NULL)";
    if collection.query_one(sql, &[], |row| row.need(1))? {
        let literal = crate::collection::literal(&collection.name);
        notice(
            "nothing is found, since no leaf has a vector yet",
            format!("CALL rag_refresh({literal}, steps => '{{embed}}')"),
        );
    }
    Ok(())
}

/// The best `k` rows of a table by cosine with `query`: (id, cosine), best first, ties in canonical order.
///
/// `table` is `node` or `community`; `condition` is about its alias `n`.
pub fn rank(
    collection: &Collection,
    table: &str,
    query: &Vector,
    k: i64,
    scope: &Scope,
    condition: &str,
) -> Result<Vec<(i64, f64)>> {
    if k == 0 {
        return Ok(Vec::new());
    }
    let candidates = format!("{{s}}.{table} n WHERE {condition} AND {}", scope.on_row(table));
    let embedded = format!("{candidates} AND n.embedding IS NOT NULL");
    let exact_below = collection.options.exact_below;
    // Every statement gets all four arguments; those that it does not use are cast so that their types are known.
    let args = |limit: i64| [query.clone().into(), scope.filter(), scope.documents(), limit.into()];
    // Counted without a look at the vectors, which would cost more than the search through the index. All nodes are counted
    // along the primary key; more than half of them are leaves, since each level of a tree has at most half of the one below.
    let more_than = |of: &str, limit: i64| -> Result<bool> {
        let sql = format!("SELECT count(*) FROM (SELECT FROM {of} LIMIT $4) c");
        Ok(collection.query_one(&sql, &args(limit + 1), |row| row.need::<i64>(1))? > limit)
    };
    let all = format!("{{s}}.node n WHERE {TYPES} ORDER BY n.id");
    let with_leaves = *scope.levels.start() == 0;
    let unfiltered = table == "node" && with_leaves && scope.is_everything();
    // A count of many costs as much as the search: what was counted last says enough if it is far above the limit.
    let large = unfiltered && (counted_last(collection)? > MANY * exact_below || more_than(&all, 2 * exact_below)?)
        || more_than(&format!("{candidates} AND {TYPES}"), exact_below)?;

    let ranked = |nearest: &str| in_order(table, nearest);
    let read = |row: &spi::Row| Ok((row.need::<i64>(1)?, row.need::<f64>(2)?));
    if large
        && k <= MAX_EF_SEARCH / 2
        && let Some(expression) = index_expression(collection)
    {
        collection.frame.set("hnsw.ef_search", &(2 * k).max(100).to_string())?;
        collection.frame.set("hnsw.iterative_scan", "strict_order")?;
        let by_index = format!("n.{expression} OPERATOR({{v}}.<=>) $1{}", half_cast(collection));
        let nearest =
            format!("SELECT n.id, {SCORE} AS score FROM {embedded} AND {TYPES} ORDER BY {by_index} LIMIT 2 * $4 + 10");
        let mut rows = match unfiltered {
            true => collection.lookup(&nearest, &args(k), read)?,
            false => collection.query(&nearest, &args(k), read)?,
        };
        rows.retain(|row| !row.1.is_nan());
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        // Only what is equally near has to be looked at to tell which comes first.
        let ties = rows.windows(2).take(k as usize).any(|pair| pair[0].1 == pair[1].1);
        if ties {
            let (ids, scores): (Vec<i64>, Vec<f64>) = rows.iter().copied().unzip();
            let given =
                "SELECT u.id, u.score FROM unnest($1::bigint[], $2::float8[]) AS u (id, score) WHERE $3::int IS NULL";
            let args = [ids.into(), scores.into(), None::<i32>.into(), k.into()];
            rows = collection.lookup(&ranked(given), &args, read)?;
        }
        rows.truncate(k as usize);
        if rows.len() as i64 == k {
            return Ok(rows);
        }
    }
    let nearest = ranked(&format!(
        "SELECT n.id, {SCORE} AS score FROM {embedded} AND {TYPES} ORDER BY -({SCORE}) FETCH FIRST $4 ROWS WITH TIES"
    ));
    collection.query(&nearest, &args(k), read)
}

/// How many nodes there were when they were counted last, by VACUUM, ANALYZE or the making of an index.
fn counted_last(collection: &Collection) -> Result<i64> {
    let sql = "SELECT c.reltuples::bigint FROM pg_class c WHERE c.oid = $1::text::regclass";
    let table = collection.sql("{s}.node");
    let counted = collection.lookup(sql, &[table.into()], |row| row.need(1))?;
    Ok(counted.into_iter().next().unwrap_or_default())
}

/// A statement for the first `$4` of the rows (id, score, …) that `nearest` selects, each with its level behind it, best first,
/// ties in canonical order.
pub fn in_order(table: &str, nearest: &str) -> String {
    // Ties of leaves are broken by their documents, whose canonical order does not depend on ids.
    let (document, order) = if table == "node" {
        (
            "LEFT JOIN {s}.document d ON d.id = n.document_id",
            "n.text_hash, d.body_hash, d.source_key COLLATE \"C\", n.ordinal",
        )
    } else {
        ("", "n.partition COLLATE \"C\", n.member_hash")
    };
    format!(
        "SELECT t.*, n.level FROM ({nearest}) t JOIN {{s}}.{table} n ON n.id = t.id {document} \
         WHERE t.score <> 'NaN' ORDER BY t.score DESC, n.level, {order}, n.id LIMIT $4"
    )
}

/// What the HNSW index of an `embedding` is on, behind the alias; nothing if it has too many dimensions for one.
pub fn index_expression(collection: &Collection) -> Option<String> {
    match collection.options.dimensions {
        ..=2000 => Some("embedding".to_owned()),
        2001..=4000 => Some(format!("embedding{}", half_cast(collection))),
        _ => None,
    }
}

fn half_cast(collection: &Collection) -> String {
    match collection.options.dimensions {
        2001..=4000 => format!("::{{v}}.halfvec({})", collection.options.dimensions),
        _ => String::new(),
    }
}

/// The query as a vector of the collection: embedded from text, or checked.
pub fn query_vector(collection: &Collection, text: Option<&str>, vector: Option<Vector>) -> Result<Option<Vector>> {
    match (text, vector) {
        (Some(text), None) => Ok(model::query_vector(collection, text)?.map(Vector)),
        (None, Some(vector)) => {
            let (has, wants) = (vector.0.len(), collection.options.dimensions);
            if has != wants {
                return Err(
                    Error::invalid(format!("the query vector has {has} dimensions, the collection {wants}"))
                        .hint("Use a vector of the same model, or rag_embed."),
                );
            }
            // At unit length, since pgvector sums in float4 and overflows on long vectors.
            Ok(vector::unit(&vector.0).map(Vector))
        }
        _ => Err(Error::null("query")),
    }
}

/// The least memory for HNSW builds: the vectors and their neighbour lists.
fn index_bytes(rows: i64, dimensions: usize) -> i64 {
    rows * (dimensions as i64 * 4 + 1000)
}

/// Drops the HNSW index of a table before a load that adds more than a third: building it afterwards is several times
/// faster than inserting into it.
pub fn drop_index(collection: &Collection, table: &str) -> Result<()> {
    if has_index(collection, table)? {
        collection.execute(&format!("DROP INDEX {{s}}.{table}_embedding"), &[])?;
    }
    Ok(())
}

/// Whether a table has its HNSW index.
pub fn has_index(collection: &Collection, table: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = $1 AND relname = $2)";
    collection.query_one(
        sql,
        &[collection.oid.into(), format!("{table}_embedding").into()],
        |row| row.need(1),
    )
}

/// Makes the HNSW index of a table if it has none.
pub fn ensure_index(collection: &Collection, table: &str) -> Result<()> {
    let Some(expression) = index_expression(collection) else {
        return Ok(());
    };
    if has_index(collection, table)? {
        return Ok(());
    }
    let sql = "SELECT setting::bigint FROM pg_settings WHERE name = 'maintenance_work_mem'";
    let memory: i64 = collection.query_one(sql, &[], |row| row.need(1))?;
    let rows: i64 = collection.query_one(&format!("SELECT count(embedding) FROM {{s}}.{table}"), &[], |row| {
        row.need(1)
    })?;
    let wanted = index_bytes(rows, collection.options.dimensions).min(crate::settings::build_memory() as i64) / 1024;
    if wanted > memory {
        collection.frame.set("maintenance_work_mem", &format!("{wanted}kB"))?;
    }
    let class = if half_cast(collection).is_empty() {
        "vector_cosine_ops"
    } else {
        "halfvec_cosine_ops"
    };
    let sql = format!("CREATE INDEX {table}_embedding ON {{s}}.{table} USING hnsw (({expression}) {{v}}.{class})");
    collection.execute(&sql, &[])?;
    Ok(())
}
