//! rag_add, rag_chunk and rag_embed.

use graphrag_text::chunk::{self, Format};
use graphrag_text::convert::{Source, to_document};
use pgrx::PgSqlErrorCode;
use pgrx::prelude::*;

use crate::collection::Collection;
use crate::error::{Error, Result, capital, required, sql};
use crate::model;
use crate::pg::{json::Json, spi, tick, vector::Vector};

const FORMATS: &str = "Formats are 'text', 'markdown', 'html', 'csv' and 'json'.";

/// SQL: `rag_add(collection, body, title, source_key, metadata, format)`.
#[pg_extern(sql = false)]
fn rag_add(
    collection: Option<&str>,
    body: Option<&str>,
    title: Option<&str>,
    source_key: Option<&str>,
    metadata: Option<Json>,
    format: Option<&str>,
) -> sql::Result<i64> {
    Ok(add(collection, body, title, source_key, metadata, format)?)
}

fn add(
    name: Option<&str>,
    body: Option<&str>,
    title: Option<&str>,
    source_key: Option<&str>,
    metadata: Option<Json>,
    format: Option<&str>,
) -> Result<i64> {
    let source = source_format(required(format, "format")?)?;
    let body = required(body, "body")?;
    let metadata = required(metadata, "metadata")?;
    if !metadata.is_object() {
        return Err(Error::invalid("metadata must be a JSON object").hint("For example '{\"lang\": \"en\"}'."));
    }
    let (body, format) = to_document(body, source, &mut tick).map_err(|error| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
            format!("body is not valid {}", format.unwrap_or_default()),
        )
        .detail(format!("{}.", capital(&error.to_string())))
    })?;
    if body.contains('\0') {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_UNTRANSLATABLE_CHARACTER,
            "body holds a NUL character",
        )
        .detail("PostgreSQL's type text cannot hold one."));
    }
    let format = if format == Format::Text { "text" } else { "markdown" };
    let collection = Collection::write(name)?;
    let args = || -> [spi::Arg; 5] {
        [
            body.as_str().into(),
            title.into(),
            source_key.into(),
            metadata.clone().into(),
            format.into(),
        ]
    };
    // Not ON CONFLICT DO UPDATE, which counts as an update, and waits for builds, where nothing is updated.
    let insert = "INSERT INTO {s}.document (body, title, source_key, metadata, format) VALUES ($1, $2, $3, $4, $5) \
                  ON CONFLICT (source_key) DO NOTHING RETURNING id";
    let update =
        "UPDATE {s}.document SET body = $1, title = $2, metadata = $4, format = $5 WHERE source_key = $3 RETURNING id";
    let statements = if source_key.is_some() {
        vec![insert, update]
    } else {
        vec![insert]
    };
    // A second round, for a document that was deleted between the two statements.
    for sql in statements.iter().cycle().take(2 * statements.len()) {
        if let Some(id) = collection.returning(sql, &args(), |row| row.need(1))?.pop() {
            return Ok(id);
        }
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_TRIGGERED_ACTION_EXCEPTION,
        "the document was not written",
    )
    .detail("A trigger, a rule or a policy on the table document has suppressed it."))
}

fn source_format(format: &str) -> Result<Source> {
    Ok(match format {
        "text" => Source::Text,
        "markdown" => Source::Markdown,
        "html" => Source::Html,
        "csv" => Source::Csv,
        "json" => Source::Json,
        _ => return Err(Error::invalid(format!("unknown format \"{format}\"")).hint(FORMATS)),
    })
}

type ChunkRow = (i32, i32, Vec<String>, i32, i32, i32, String);

/// SQL: `rag_chunk(body, format, block_tokens, leaf_tokens, overlap)`.
#[pg_extern(sql = false)]
fn rag_chunk(
    body: Option<&str>,
    format: Option<&str>,
    block_tokens: Option<i32>,
    leaf_tokens: Option<i32>,
    overlap: Option<i32>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(block, i32),
            name!(leaf, i32),
            name!(section_path, Vec<String>),
            name!(start_char, i32),
            name!(end_char, i32),
            name!(token_count, i32),
            name!(text, String),
        ),
    >,
> {
    Ok(TableIterator::new(cut(
        body,
        format,
        block_tokens,
        leaf_tokens,
        overlap,
    )?))
}

fn cut(
    body: Option<&str>,
    format: Option<&str>,
    block_tokens: Option<i32>,
    leaf_tokens: Option<i32>,
    overlap: Option<i32>,
) -> Result<Vec<ChunkRow>> {
    let body = required(body, "body")?;
    let format = match source_format(required(format, "format")?)? {
        Source::Text => Format::Text,
        Source::Markdown => Format::Markdown,
        _ => {
            return Err(Error::invalid("rag_chunk cuts 'text' and 'markdown'")
                .hint("rag_add turns other formats into markdown first."));
        }
    };
    let size = |value: Option<i32>, name: &str| crate::error::in_range(value, name, 0..=i32::MAX).map(|n| n as usize);
    let options = chunk::Options {
        block_tokens: size(block_tokens, "block_tokens")?,
        leaf_tokens: size(leaf_tokens, "leaf_tokens")?,
        overlap: size(overlap, "overlap")?,
    };
    options
        .validate()
        .map_err(|message| Error::invalid(message.to_string()))?;
    let mut rows = Vec::new();
    for (number, block) in chunk::chunk(body, format, &options, &mut tick).into_iter().enumerate() {
        for leaf in &block.leaves {
            rows.push((
                number as i32,
                rows.len() as i32,
                block.section_path.clone(),
                leaf.start_char as i32,
                leaf.end_char as i32,
                leaf.token_count as i32,
                body[leaf.bytes.clone()].to_owned(),
            ));
        }
    }
    Ok(rows)
}

/// SQL: `rag_embed(collection, input)`.
#[pg_extern(sql = false)]
fn rag_embed(collection: Option<&str>, input: Option<&str>) -> sql::Result<Option<Vector>> {
    Ok(embed(collection, input)?)
}

fn embed(name: Option<&str>, input: Option<&str>) -> Result<Option<Vector>> {
    let input = required(input, "input")?;
    Ok(model::query_vector(&Collection::read(name)?, input)?.map(Vector))
}
