//! Questions whose relevant documents or answers are known, from a table of the caller.

use std::collections::{BTreeSet, HashMap};

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, notice, notice_of};
use crate::pg::frame::Frame;
use crate::pg::{memory, spi};
use crate::search::Scope;

const HINT: &str = "A golden table or view has the columns question text, relevant text[] (source keys), and, if you like, grades int[].";
const HINT_ANSWERS: &str =
    "A golden table or view has the columns question text and, if you like, answer text (what is expected).";
/// Keys that are looked up at once.
const BATCH: usize = 1_000;
/// Unknown keys that are named.
const NAMED: usize = 3;

/// A row of the table: the question, and its relevant keys with grades above 0.
pub struct Labelled {
    text: Option<String>,
    relevant: Vec<(String, u32)>,
}

/// A question that can be measured.
pub struct Question {
    pub text: String,
    /// Documents with grades.
    pub relevant: Vec<(i64, u32)>,
    /// Their keys, each once, in the order of the table.
    pub keys: Vec<(i64, String)>,
}

/// A question with the answer that is expected.
#[derive(PartialEq)]
pub struct Expected {
    pub question: String,
    pub answer: Option<String>,
}

/// A column that is read.
struct Column {
    name: &'static str,
    is_list: bool,
    is_needed: bool,
}

const QUESTION: Column = Column::new("question", false, true);
const ANSWER: Column = Column::new("answer", false, false);
const RELEVANT: Column = Column::new("relevant", true, true);
const GRADES: Column = Column::new("grades", true, false);

impl Column {
    const fn new(name: &'static str, is_list: bool, is_needed: bool) -> Column {
        Column {
            name,
            is_list,
            is_needed,
        }
    }
}

/// Reads a table or view with the rights and the search_path of the caller, in an order that does not depend on how it is stored.
pub fn read(golden: pg_sys::Oid) -> Result<Vec<Labelled>> {
    let (table, is_graded) = named(golden, &[QUESTION, RELEVANT, GRADES], HINT)?;
    let grades = if is_graded { "g.grades" } else { "NULL" };
    let sql = format!(
        "SELECT t.q, t.r, t.g FROM (SELECT g.question::pg_catalog.text, g.relevant::pg_catalog.text[], {grades}::pg_catalog.int4[] \
           FROM {table} AS g) AS t (q, r, g) \
         ORDER BY t.q COLLATE pg_catalog.\"C\", t.r::pg_catalog.text COLLATE pg_catalog.\"C\", t.g::pg_catalog.text COLLATE pg_catalog.\"C\""
    );
    let (mut rows, mut bytes) = (Vec::new(), 0);
    spi::stream(&sql, &[], |row| {
        let text: Option<String> = row.get(1)?;
        let keys: Vec<Option<String>> = row.get(2)?.unwrap_or_default();
        let grades: Option<Vec<Option<i32>>> = row.get(3)?;
        let relevant = graded(&text, keys, grades)?;
        bytes +=
            text.as_ref().map_or(0, String::len) + relevant.iter().map(|(key, _)| key.len() + 64).sum::<usize>() + 64;
        rows.push(Labelled { text, relevant });
        memory::check_or(bytes, "the golden table", "evaluate fewer questions at once")
    })?;
    Ok(rows)
}

/// Reads what answers are expected, likewise and each once. Rows that ask nothing are left out, and that is told.
pub fn read_answers(golden: pg_sys::Oid) -> Result<Vec<Expected>> {
    let (table, has_answers) = named(golden, &[QUESTION, ANSWER], HINT_ANSWERS)?;
    let answer = if has_answers { "g.answer" } else { "NULL" };
    let sql = format!(
        "SELECT t.q, t.a FROM (SELECT g.question::pg_catalog.text, {answer}::pg_catalog.text FROM {table} AS g) AS t (q, a) \
         ORDER BY t.q COLLATE pg_catalog.\"C\", t.a COLLATE pg_catalog.\"C\""
    );
    let (mut rows, mut all, mut asked, mut bytes) = (Vec::new(), 0, 0, 0);
    spi::stream(&sql, &[], |row| {
        all += 1;
        let is_said = |text: &String| !text.trim().is_empty();
        let Some(question) = row.get::<String>(1)?.filter(is_said) else {
            return Ok(());
        };
        asked += 1;
        let answer = row.get::<String>(2)?.filter(is_said);
        bytes += question.len() + answer.as_ref().map_or(0, String::len) + 64;
        let expected = Expected { question, answer };
        if rows.last() != Some(&expected) {
            rows.push(expected);
        }
        memory::check_or(bytes, "the golden table", "evaluate fewer questions at once")
    })?;
    if asked < all {
        notice(
            format!(
                "{} of {all} rows are left out, since they hold no question",
                all - asked
            ),
            HINT_ANSWERS,
        );
    }
    Ok(rows)
}

/// The table by its name, quoted and qualified, and whether it has the last of the columns.
fn named(golden: pg_sys::Oid, wanted: &[Column], hint: &str) -> Result<(String, bool)> {
    let _frame = Frame::enter()?;
    let sql = "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    let table: Option<String> = spi::query(sql, &[golden.into()], |row| row.need(1))?.pop();
    let table = table.ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("table with OID {} does not exist", golden.to_u32()),
        )
        .hint(hint)
    })?;
    let sql = "SELECT a.attname::text, t.typcategory = 'A', format_type(a.atttypid, a.atttypmod) \
               FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped";
    let columns: HashMap<String, (bool, String)> = spi::query(sql, &[golden.into()], |row| {
        Ok((row.need(1)?, (row.need(2)?, row.need(3)?)))
    })?
    .into_iter()
    .collect();
    let mut has_last = false;
    for column in wanted {
        let found = columns.get(column.name);
        has_last = found.is_some();
        match found {
            None if column.is_needed => {
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                    format!("column {} of {table} does not exist", quoted(column.name)),
                )
                .hint(hint));
            }
            Some((is_array, kind)) if *is_array != column.is_list => {
                let what = if column.is_list { "an array" } else { "a text" };
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                    format!("column {} of {table} must be {what}", quoted(column.name)),
                )
                .detail(format!("Its type is {kind}."))
                .hint(hint));
            }
            _ => {}
        }
    }
    Ok((table, has_last))
}

/// The keys that have a grade above 0; where none is given, it is 1.
fn graded(
    text: &Option<String>,
    keys: Vec<Option<String>>,
    grades: Option<Vec<Option<i32>>>,
) -> Result<Vec<(String, u32)>> {
    let wrong = |message: &str, detail: String| {
        let question = text.as_deref().unwrap_or_default();
        Err(Error::invalid(message).detail(format!("{detail} The question is {}.", quoted(question))))
    };
    let count = keys.len();
    let grades = grades.unwrap_or_else(|| vec![None; count]);
    if grades.len() != count {
        let detail = format!("There are {count} keys and {} grades.", grades.len());
        return wrong("relevant and grades must be equally long", detail);
    }
    if let Some(grade) = grades.iter().flatten().find(|grade| !(0..=50).contains(*grade)) {
        return wrong("a grade must be between 0 and 50", format!("It is {grade}."));
    }
    let graded = keys.into_iter().zip(grades);
    Ok(graded
        .filter_map(|(key, grade)| Some((key?, grade.unwrap_or(1) as u32)))
        .filter(|(_, grade)| *grade > 0)
        .collect())
}

/// The questions that can be measured. What cannot be is told: questions without a relevant key, and keys of no document in scope.
pub fn known(collection: &Collection, scope: &Scope, rows: Vec<Labelled>) -> Result<Vec<Question>> {
    let keys: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| &row.relevant)
        .map(|(key, _)| key.as_str())
        .collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let sql = format!(
        "SELECT d.source_key, d.id FROM {{s}}.document d WHERE d.source_key = ANY ($1) AND {}",
        scope.on_document()
    );
    let mut ids: HashMap<String, i64> = HashMap::new();
    for part in keys.chunks(BATCH) {
        let args = [part.to_vec().into(), scope.filter(), scope.documents()];
        ids.extend(collection.query(&sql, &args, |row| Ok((row.need(1)?, row.need(2)?)))?);
    }
    let unknown: Vec<String> = keys
        .iter()
        .filter(|key| !ids.contains_key(**key))
        .map(|key| quoted(key))
        .collect();
    let all = rows.len();
    let (mut questions, mut empty) = (Vec::new(), 0);
    for row in rows {
        let Some(text) = row
            .text
            .filter(|text| !text.trim().is_empty() && !row.relevant.is_empty())
        else {
            empty += 1;
            continue;
        };
        let (mut relevant, mut keys) = (Vec::new(), Vec::new());
        for (key, grade) in row.relevant {
            if let Some(&id) = ids.get(&key) {
                if relevant.iter().all(|(other, _)| *other != id) {
                    keys.push((id, key));
                }
                relevant.push((id, grade));
            }
        }
        if !relevant.is_empty() {
            questions.push(Question { text, relevant, keys });
        }
    }
    tell(collection, all, &questions, empty, &unknown);
    Ok(questions)
}

fn tell(collection: &Collection, all: usize, questions: &[Question], empty: usize, unknown: &[String]) {
    let hint = format!(
        "relevant holds values of source_key of {}.document, of documents that filter and documents let through.",
        collection.schema
    );
    let left = all - questions.len();
    if left > 0 {
        notice_of(
            format!("{left} of {all} questions are left out, since no relevant document is known"),
            format!(
                "{empty} ask nothing or name none, {} name keys that are of no document in scope.",
                left - empty
            ),
            hint.clone(),
        );
    }
    if !unknown.is_empty() {
        let named = unknown[..unknown.len().min(NAMED)].join(", ");
        let more = if unknown.len() > NAMED { ", …" } else { "" };
        notice_of(
            format!(
                "keys that are of no document in scope count for nothing: {}",
                unknown.len()
            ),
            format!("They are {named}{more}."),
            hint,
        );
    }
}
