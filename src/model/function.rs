//! `function:schema.name`: SQL functions of the user as models.
//!
//! Nothing but the text is kept: the function is looked up at each use. It runs as the owner of the collection, in a
//! security-restricted operation, whoever calls, with the search_path of the frame.

use pgrx::PgSqlErrorCode;
use pgrx::datum::{FromDatum, IntoDatum};
use pgrx::pg_sys::{self, Oid};

use super::Role;
use crate::collection::quoted;
use crate::error::{Error, Result};
use crate::pg::frame::AsUser;
use crate::pg::spi::{self, Arg, Row};
use crate::pg::subtransaction::attempt;
use crate::pg::tick;
use crate::pg::vector::{Vector, Vectors};

/// Texts that are embedded in one call.
const BATCH: usize = 128;

/// What came of one item: a value, or the reason why there is none.
pub type Item<T> = std::result::Result<T, String>;

/// A function that fits its role.
#[derive(Clone, Debug)]
pub struct Function {
    /// Schema and name, quoted.
    name: String,
    role: Role,
    shape: Shape,
}

/// What is passed and what comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `text[]` → `vector[]`
    Vectors,
    /// `text` → `vector`
    Vector,
    /// `text` → `real[]` or `double precision[]`
    Numbers,
    /// `text[]` → `text`
    JoinTexts,
    /// `text` → `text`, `json` or `jsonb`
    Text,
    /// `text` → rows of subject, predicate and object
    Triples,
    /// `text` → rows of subject, predicate, object and description
    DescribedTriples,
    /// `text`, `text[]` → `real[]` or `double precision[]`
    Scores,
}

impl Role {
    fn with_article(self) -> String {
        let article = match self {
            Role::Embedder | Role::Extractor | Role::Answerer => "an",
            Role::Summarizer | Role::Reranker => "a",
        };
        format!("{article} {}", self.name())
    }

    fn signatures(self) -> &'static str {
        match self {
            Role::Embedder => "(text[]) returns vector[], or (text) returns vector, real[] or double precision[]",
            Role::Summarizer => "(text[]) returns text, or (text) returns text",
            Role::Extractor => {
                "(text) returns jsonb, json or text, or rows of which the first three columns are text: subject, predicate, object"
            }
            Role::Answerer => "(text) returns text",
            Role::Reranker => "(text, text[]) returns double precision[] or real[]",
        }
    }

    /// The shapes that serve, the preferred one first.
    fn shapes(self) -> &'static [Shape] {
        match self {
            Role::Embedder => &[Shape::Vectors, Shape::Vector, Shape::Numbers],
            Role::Summarizer => &[Shape::JoinTexts, Shape::Text],
            Role::Extractor => &[Shape::Text, Shape::DescribedTriples, Shape::Triples],
            Role::Answerer => &[Shape::Text],
            Role::Reranker => &[Shape::Scores],
        }
    }
}

/// A row of pg_proc by the name that is asked for.
struct Candidate {
    is_plain: bool,
    arguments: Vec<Oid>,
    result: Oid,
    is_set: bool,
    columns: Vec<Oid>,
    may_execute: bool,
    /// As messages show it.
    signature: String,
}

impl Candidate {
    fn fits(&self, role: Role, shape: Shape) -> bool {
        const TEXT: Oid = pg_sys::TEXTOID;
        let takes = |arguments: &[Oid]| self.is_plain && self.arguments == arguments;
        let returns = |types: &[Oid]| !self.is_set && types.contains(&self.result);
        let rows = |width: usize| {
            self.is_set && self.columns.len() >= width && self.columns[..width].iter().all(|column| *column == TEXT)
        };
        match shape {
            Shape::Vectors => takes(&[pg_sys::TEXTARRAYOID]) && returns(&[Vectors::type_oid()]),
            Shape::Vector => takes(&[TEXT]) && returns(&[Vector::type_oid()]),
            Shape::Numbers => takes(&[TEXT]) && returns(&[pg_sys::FLOAT4ARRAYOID, pg_sys::FLOAT8ARRAYOID]),
            Shape::JoinTexts => takes(&[pg_sys::TEXTARRAYOID]) && returns(&[TEXT]),
            Shape::Text if role == Role::Extractor => {
                takes(&[TEXT]) && returns(&[TEXT, pg_sys::JSONOID, pg_sys::JSONBOID])
            }
            Shape::Text => takes(&[TEXT]) && returns(&[TEXT]),
            Shape::Triples => takes(&[TEXT]) && rows(3),
            Shape::DescribedTriples => takes(&[TEXT]) && rows(4),
            Shape::Scores => {
                takes(&[TEXT, pg_sys::TEXTARRAYOID]) && returns(&[pg_sys::FLOAT4ARRAYOID, pg_sys::FLOAT8ARRAYOID])
            }
        }
    }
}

impl Function {
    /// Looks a function up by the text behind `function:`, with the rights of the current user.
    pub fn resolve(role: Role, name: &str) -> Result<Function> {
        let parts: Vec<String> =
            spi::query_one("SELECT parse_ident($1)::name[]::text[]", &[name.into()], |r| r.need(1))?;
        let [schema, function] = parts.as_slice() else {
            return Err(
                Error::invalid(format!("the name of {} needs a schema", role.with_article()))
                    .detail(format!("It is {}.", quoted(name)))
                    .hint("Write function:schema.name, in double quotes what needs them."),
            );
        };
        let qualified = format!("{}.{}", spi::quote(schema), spi::quote(function));
        must_use_schema(schema)?;
        let candidates = candidates(schema, function, &qualified)?;
        let hint = format!("As {} it is {qualified}{}.", role.with_article(), role.signatures());
        let undefined = |message: String| Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION, message);
        if candidates.is_empty() {
            return Err(undefined(format!("function {qualified} does not exist")).hint(hint));
        }
        let fitting: Vec<(&Candidate, Shape)> = role
            .shapes()
            .iter()
            .flat_map(|shape| candidates.iter().map(move |candidate| (candidate, *shape)))
            .filter(|(candidate, shape)| candidate.fits(role, *shape))
            .collect();
        let Some(&(first, _)) = fitting.first() else {
            let known: Vec<&str> = candidates.iter().take(5).map(|c| c.signature.as_str()).collect();
            return Err(undefined(format!(
                "function {qualified} cannot be used as {}",
                role.with_article()
            ))
            .detail(format!("There is {}.", known.join("; ")))
            .hint(hint));
        };
        let Some(&(_, shape)) = fitting.iter().find(|(candidate, _)| candidate.may_execute) else {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for function {qualified}"),
            )
            .detail(format!("It is the {}.", first.signature))
            .hint("Models are called by the owner of the collection, who needs EXECUTE on them."));
        };
        Ok(Function {
            name: qualified,
            role,
            shape,
        })
    }

    /// The unit vectors of texts, one for each, in their order; NULL and the zero vector are none.
    ///
    /// A vector of the wrong size is an error for all of them, since so will the rest be.
    pub fn embed(&self, texts: &[&str], dimensions: usize, owner: Oid) -> Result<Vec<Item<Option<Vec<f32>>>>> {
        let _user = AsUser::restricted(owner);
        let size = if self.shape == Shape::Vectors { BATCH } else { 1 };
        let mut vectors = Vec::with_capacity(texts.len());
        for answer in self.in_batches(texts, size, &|batch| self.vectors(batch)) {
            vectors.push(match answer {
                Ok(Some(numbers)) => self.unit(numbers, dimensions)?,
                Ok(None) => Ok(None),
                Err(reason) => Err(reason),
            });
        }
        Ok(vectors)
    }

    /// The unit vector of one text; an error is the function's own.
    pub fn embed_one(&self, text: &str, dimensions: usize, owner: Oid) -> Result<Option<Vec<f32>>> {
        let _user = AsUser::restricted(owner);
        match self.vectors(&[text])?.pop().flatten() {
            Some(numbers) => self.unit(numbers, dimensions)?.map_err(|reason| self.unusable(&reason)),
            None => Ok(None),
        }
    }

    /// One text for each cluster of texts.
    pub fn summarize(&self, clusters: &[Vec<&str>], owner: Oid) -> Result<Vec<Item<String>>> {
        let _user = AsUser::restricted(owner);
        let answers = self.in_batches(clusters, 1, &|batch| {
            batch
                .iter()
                .map(|texts| match self.shape {
                    Shape::JoinTexts => self.text("$1", texts.clone().into()),
                    _ => self.text("$1", texts.join("\n\n").into()),
                })
                .collect()
        });
        Ok(answers.into_iter().map(|answer| written(answer?)).collect())
    }

    /// What the function says of each block: its text, or its rows as a JSON list.
    pub fn extract(&self, blocks: &[&str], owner: Oid) -> Result<Vec<Item<String>>> {
        let _user = AsUser::restricted(owner);
        let answers = self.in_batches(blocks, 1, &|batch| {
            batch
                .iter()
                .map(|block| match self.shape {
                    Shape::Text => self.text("$1", (*block).into()),
                    _ => self.triples(block),
                })
                .collect()
        });
        Ok(answers.into_iter().map(|answer| written(answer?)).collect())
    }

    /// The answer to a prompt; an error is the function's own.
    pub fn answer(&self, prompt: &str, owner: Oid) -> Result<String> {
        let _user = AsUser::restricted(owner);
        written(self.text("$1", prompt.into())?).map_err(|reason| self.unusable(&reason))
    }

    /// How well each text answers a query; an error is the function's own.
    pub fn rerank(&self, query: &str, texts: &[&str], owner: Oid) -> Result<Vec<f64>> {
        let _user = AsUser::restricted(owner);
        let sql = format!("SELECT {}($1, $2)::float8[]", self.name);
        let scores: Option<Vec<Option<f64>>> = one(&sql, &[query.into(), texts.to_vec().into()])?;
        let scores = scores.unwrap_or_default();
        if scores.len() != texts.len() {
            return Err(self.miscounted("scores", scores.len(), texts.len()));
        }
        let finite = |score: Option<f64>| score.filter(|s| s.is_finite());
        let scores: Option<Vec<f64>> = scores.into_iter().map(finite).collect();
        scores.ok_or_else(|| self.unusable("a score is NULL or not finite"))
    }

    /// Calls for each batch in a subtransaction. A batch that fails is halved, down to the items that fail alone.
    fn in_batches<I, T>(&self, items: &[I], size: usize, call: &dyn Fn(&[I]) -> Result<Vec<T>>) -> Vec<Item<T>> {
        let mut answers = Vec::with_capacity(items.len());
        let mut waiting: Vec<&[I]> = items.chunks(size).rev().collect();
        while let Some(batch) = waiting.pop() {
            tick();
            match attempt(|| call(batch)) {
                Ok(values) => answers.extend(values.into_iter().map(Ok)),
                Err(caught) if batch.len() == 1 => answers.push(Err(match caught.is_undefined {
                    true => format!("{} (with search_path = pg_catalog, pg_temp)", caught.message),
                    false => caught.message,
                })),
                Err(_) => {
                    let (first, second) = batch.split_at(batch.len().div_ceil(2));
                    waiting.extend([second, first]);
                }
            }
        }
        answers
    }

    /// The vectors of a batch as the function answers them, as many as there are texts.
    fn vectors(&self, texts: &[&str]) -> Result<Vec<Option<Vec<f64>>>> {
        let wide = |vector: Vector| vector.0.into_iter().map(f64::from).collect();
        let call = format!("{}($1)", self.name);
        if self.shape == Shape::Vectors {
            let sql = format!("SELECT u.v FROM unnest({call}) WITH ORDINALITY AS u (v, n) ORDER BY u.n");
            let vectors = spi::query(&sql, &[texts.to_vec().into()], |row| Ok(row.get(1)?.map(wide)))?;
            if vectors.len() != texts.len() {
                return Err(self.miscounted("vectors", vectors.len(), texts.len()));
            }
            return Ok(vectors);
        }
        let each = |text: &&str| {
            let args = [(*text).into()];
            if self.shape == Shape::Vector {
                return Ok(one::<Vector>(&format!("SELECT {call}"), &args)?.map(wide));
            }
            // An element that is NULL is not a number either.
            let numbers: Option<Vec<Option<f64>>> = one(&format!("SELECT {call}::float8[]"), &args)?;
            Ok(numbers.map(|numbers| numbers.into_iter().map(|n| n.unwrap_or(f64::NAN)).collect()))
        };
        texts.iter().map(each).collect()
    }

    /// A vector at unit length, or what is wrong with it.
    fn unit(&self, numbers: Vec<f64>, dimensions: usize) -> Result<Item<Option<Vec<f32>>>> {
        if numbers.is_empty() {
            return Ok(Err("the vector is empty".to_owned()));
        }
        if numbers.len() != dimensions {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
                format!(
                    "function {} answers vectors of {} dimensions, {dimensions} are wanted",
                    self.name,
                    numbers.len()
                ),
            )
            .hint("The dimensions of rag_create, or those of its part like function:a.b(384) + builtin:lsa, must be those of the model."));
        }
        if !numbers.iter().all(|n| n.is_finite()) {
            return Ok(Err("the vector holds NULL, NaN or an infinite number".to_owned()));
        }
        // By the largest first, since a square overflows long before its number does.
        let largest = numbers.iter().fold(0.0_f64, |m, n| m.max(n.abs()));
        if largest == 0.0 {
            return Ok(Ok(None));
        }
        let scaled: Vec<f64> = numbers.iter().map(|n| n / largest).collect();
        let length = scaled.iter().map(|n| n * n).sum::<f64>().sqrt();
        Ok(Ok(Some(scaled.iter().map(|n| (n / length) as f32).collect())))
    }

    fn text(&self, arguments: &str, argument: Arg) -> Result<Option<String>> {
        one(&format!("SELECT {}({arguments})::text", self.name), &[argument])
    }

    fn triples(&self, block: &str) -> Result<Option<String>> {
        // The function's own names of the columns do not count, but a name here must not be one of theirs.
        let (names, description) = match self.shape {
            Shape::DescribedTriples => ("\"=1\", \"=2\", \"=3\", \"=4\"", "r.\"=4\""),
            _ => ("\"=1\", \"=2\", \"=3\"", "NULL"),
        };
        let sql = format!(
            "SELECT coalesce(json_agg(json_build_object('subject', r.\"=1\", 'predicate', r.\"=2\", 'object', r.\"=3\", \
                                                        'description', {description})), '[]')::text \
             FROM {}($1) AS r ({names})",
            self.name
        );
        one(&sql, &[block.into()])
    }

    fn miscounted(&self, what: &str, has: usize, wants: usize) -> Error {
        self.unusable(&format!("{has} {what} for {wants} texts"))
    }

    fn unusable(&self, reason: &str) -> Error {
        Error::new(
            PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
            format!("{} {} gives no usable answer: {reason}", self.role.name(), self.name),
        )
    }
}

/// The one value of a query.
fn one<T: FromDatum + IntoDatum>(sql: &str, args: &[Arg]) -> Result<Option<T>> {
    spi::query_one(sql, args, |row| row.get(1))
}

/// A text that says something.
fn written(answer: Option<String>) -> Item<String> {
    match answer {
        None => Err("the answer is NULL".to_owned()),
        Some(text) if text.trim().is_empty() => Err("the answer is empty".to_owned()),
        Some(text) => Ok(text),
    }
}

/// Lets a schema pass that does not exist: then there is no function in it either.
fn must_use_schema(schema: &str) -> Result<()> {
    let sql = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1";
    if spi::query(sql, &[schema.into()], |row| row.need::<bool>(1))? == [false] {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("permission denied for schema {}", spi::quote(schema)),
        )
        .hint("Models are called by the owner of the collection, who needs USAGE on their schema."));
    }
    Ok(())
}

fn candidates(schema: &str, function: &str, qualified: &str) -> Result<Vec<Candidate>> {
    let sql = "SELECT p.prokind = 'f' AND p.provariadic = 0, ARRAY(SELECT unnest(p.proargtypes)), p.prorettype, p.proretset, \
                 CASE WHEN p.proargmodes IS NULL THEN ARRAY( \
                   SELECT a.atttypid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid \
                   WHERE t.oid = p.prorettype AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) \
                 ELSE ARRAY( \
                   SELECT u.kind FROM unnest(p.proallargtypes, p.proargmodes) WITH ORDINALITY AS u (kind, mode, n) \
                   WHERE u.mode IN ('o', 'b', 't') ORDER BY u.n) END, \
                 has_function_privilege(p.oid, 'EXECUTE'), \
                 concat(CASE p.prokind WHEN 'a' THEN 'aggregate' WHEN 'p' THEN 'procedure' WHEN 'w' THEN 'window function' \
                   ELSE 'function' END, ' ', $3::text, '(', pg_get_function_identity_arguments(p.oid), ')', \
                   ' returns ' || pg_get_function_result(p.oid)) \
               FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
               WHERE n.nspname = $1 AND p.proname = $2 ORDER BY p.oid";
    let read = |row: &Row| {
        Ok(Candidate {
            is_plain: row.need(1)?,
            arguments: row.need(2)?,
            result: row.need(3)?,
            is_set: row.need(4)?,
            columns: row.need(5)?,
            may_execute: row.need(6)?,
            signature: row.need(7)?,
        })
    };
    spi::query(sql, &[schema.into(), function.into(), qualified.into()], read)
}
