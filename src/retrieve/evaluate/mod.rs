//! rag_evaluate: methods compared on questions whose relevant documents are known.

mod contender;
pub mod golden;

use graphrag_rank::compare;
use graphrag_rank::measure::{Measures, measure};
use pgrx::pg_sys;
use pgrx::prelude::*;

use self::contender::{Contender, Ranked};
use crate::ask::source::forget_what_changed;
use crate::collection::Collection;
use crate::error::{Error, Result, in_range, required, sql};
use crate::pg::json::Json;
use crate::pg::{memory, tick};
use crate::retrieve::{help, method};
use crate::search::{Scope, tell_if_unembedded};

type Regclass = pg_sys::Oid;

/// Of the interval of a difference.
const CONFIDENCE: f64 = 0.95;

/// SQL: `rag_evaluate(collection, golden, k, methods, filter, documents, seed)`.
#[pg_extern(sql = false)]
fn rag_evaluate(
    collection: Option<&str>,
    golden: Option<Regclass>,
    k: Option<i32>,
    methods: Option<Vec<Option<String>>>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
    seed: Option<i64>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(method, String),
            name!(k, i32),
            name!(questions, i64),
            name!(recall, Option<f64>),
            name!(hit, Option<f64>),
            name!(all_found, Option<f64>),
            name!(precision, Option<f64>),
            name!(mrr, Option<f64>),
            name!(ndcg, Option<f64>),
            name!(difference, Option<f64>),
            name!(difference_low, Option<f64>),
            name!(difference_high, Option<f64>),
            name!(milliseconds, Option<f64>),
        ),
    >,
> {
    let seed = required(seed, "seed")?;
    let asked = Asked::new(golden, k, methods, filter, documents)?;
    let mut columns: Vec<Column> = asked.contenders.iter().map(|_| Column::default()).collect();
    asked.run(collection, |at, _, ranked, measures| {
        columns[at].measures.push(measures);
        columns[at].milliseconds.push(ranked.milliseconds);
        Ok(())
    })?;
    let recalls: Vec<Vec<f64>> = columns.iter().map(|column| column.all(|of| of.recall)).collect();
    let rows = asked
        .contenders
        .iter()
        .zip(columns)
        .enumerate()
        .map(|(at, (contender, mut column))| {
            let than_first = (at > 0)
                .then(|| compare::difference(&recalls[0], &recalls[at], CONFIDENCE, seed as u64, &mut tick))
                .flatten();
            (
                contender.name.clone(),
                asked.k,
                column.measures.len() as i64,
                column.mean(|of| of.recall),
                column.mean(|of| of.hit),
                column.mean(|of| of.all_found),
                column.mean(|of| of.precision),
                column.mean(|of| of.mrr),
                column.mean(|of| of.ndcg),
                than_first.map(|of| of.mean),
                than_first.map(|of| of.low),
                than_first.map(|of| of.high),
                median(&mut column.milliseconds),
            )
        });
    Ok(TableIterator::new(rows.collect::<Vec<_>>()))
}

/// SQL: `rag_evaluate_detail(collection, golden, k, methods, filter, documents)`.
#[pg_extern(sql = false)]
fn rag_evaluate_detail(
    collection: Option<&str>,
    golden: Option<Regclass>,
    k: Option<i32>,
    methods: Option<Vec<Option<String>>>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(question, String),
            name!(method, String),
            name!(recall, f64),
            name!(hit, f64),
            name!(all_found, f64),
            name!(precision, f64),
            name!(mrr, f64),
            name!(ndcg, f64),
            name!(found, Vec<Option<String>>),
            name!(missed, Vec<String>),
        ),
    >,
> {
    let asked = Asked::new(golden, k, methods, filter, documents)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    asked.run(collection, |at, asking, ranked, measures| {
        let sql = "SELECT d.source_key FROM unnest($1::bigint[]) WITH ORDINALITY AS u (id, n) JOIN {s}.document d ON d.id = u.id ORDER BY u.n";
        let found: Vec<Option<String>> =
            asking.collection.query(sql, &[ranked.documents.clone().into()], |row| row.get(1))?;
        let missed = asking.question.keys.iter().filter(|(id, _)| !ranked.documents.contains(id));
        let missed: Vec<String> = missed.map(|(_, key)| key.clone()).collect();
        let keys = found.iter().flatten().chain(&missed);
        bytes += asking.question.text.len() + keys.map(|key| key.len() + 32).sum::<usize>() + 200;
        memory::check_or(bytes, "the rows of this evaluation", "evaluate fewer questions at once")?;
        rows.push((
            asking.question.text.clone(),
            asked.contenders[at].name.clone(),
            measures.recall,
            measures.hit,
            measures.all_found,
            measures.precision,
            measures.mrr,
            measures.ndcg,
            found,
            missed,
        ));
        Ok(())
    })?;
    Ok(TableIterator::new(rows))
}

/// The arguments of an evaluation but for what is searched, and the questions.
struct Asked {
    k: i32,
    contenders: Vec<Contender>,
    scope: Scope,
    golden: Regclass,
}

/// A question, and where it is asked.
struct Asking<'a> {
    collection: &'a Collection,
    question: &'a golden::Question,
}

impl Asked {
    fn new(
        golden: Option<Regclass>,
        k: Option<i32>,
        methods: Option<Vec<Option<String>>>,
        filter: Option<Json>,
        documents: Option<Vec<Option<i64>>>,
    ) -> Result<Asked> {
        Ok(Asked {
            golden: required(golden, "golden")?,
            k: in_range(k, "k", 1..=1000)?,
            contenders: Contender::list(methods)?,
            scope: Scope::new(filter, documents)?,
        })
    }

    /// Asks each question of each contender, question by question: `each` gets the contender's place, the question, what was found,
    /// and how good that is.
    fn run(
        &self,
        collection: Option<&str>,
        mut each: impl FnMut(usize, &Asking, &Ranked, Measures) -> Result<()>,
    ) -> Result<()> {
        // Refused before a table is read.
        drop(self.open(collection)?);
        let rows = golden::read(self.golden)?;
        let collection = &self.open(collection)?;
        let mut read = Vec::new();
        let is_by_vector = self.contenders.iter().any(Contender::is_by_vector);
        if is_by_vector {
            tell_if_unembedded(collection)?;
        }
        for question in &golden::known(collection, &self.scope, rows)? {
            memory::scratch(|| {
                let mut searched = method::Question::new(collection, &question.text, self.scope.clone());
                if is_by_vector {
                    searched.vector()?;
                }
                for (at, contender) in self.contenders.iter().enumerate() {
                    tick();
                    let of = (&mut searched, question.text.as_str());
                    let ranked = contender.rank(collection, of, &self.scope, self.k as usize, &mut read)?;
                    let measures = measure(&ranked.documents, &question.relevant, self.k as usize)
                        .ok_or_else(|| Error::internal("a question without a relevant document"))?;
                    each(at, &Asking { collection, question }, &ranked, measures)?;
                }
                Ok::<_, Error>(())
            })?;
        }
        forget_what_changed(collection, &read)
    }

    fn open(&self, name: Option<&str>) -> Result<Collection> {
        help::open(name, self.contenders.iter().any(Contender::is_helped))
    }
}

/// What one contender has reached, question by question.
#[derive(Default)]
struct Column {
    measures: Vec<Measures>,
    milliseconds: Vec<f64>,
}

impl Column {
    fn all(&self, of: impl Fn(&Measures) -> f64) -> Vec<f64> {
        self.measures.iter().map(of).collect()
    }

    fn mean(&self, of: impl Fn(&Measures) -> f64) -> Option<f64> {
        let values = self.all(of);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}
