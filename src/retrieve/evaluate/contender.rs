//! What is compared: a way to rank documents, by its name.

use std::time::Instant;

use graphrag_rank::fusion::Fusion;

use crate::ask::source::Source;
use crate::collection::Collection;
use crate::error::{Error, Result, required};
use crate::graph;
use crate::retrieve::help::{REWRITINGS, Rewriting};
use crate::retrieve::method::{METHODS, Method, Question};
use crate::retrieve::pack::Show;
use crate::retrieve::{Asked, helped, weights_of};
use crate::search::Scope;

/// The name of dense and lexical together.
const FUSED: (&str, &str) = ("fused", "dense+lexical");
/// What stands behind methods that are fused by their scores.
const BY_SCORES: &str = " by scores";
/// What stands before what models add.
const WITH: &str = " with ";
/// The name of the reranker among that.
const RERANK: &str = "rerank";
/// Rows that it reads, or k if that is more.
const RERANKED: i64 = 50;
/// How often more rows are taken, each time four times as many, to come to k documents.
const ROUNDS: u32 = 3;

pub struct Contender {
    pub name: String,
    way: Way,
}

enum Way {
    /// rag_search by methods with their weights.
    Search {
        methods: Vec<(Method, f64)>,
        fusion: Fusion,
        rewrite: Vec<Rewriting>,
        rerank: bool,
    },
    /// graph_search with the shares of a mode.
    Walk([f64; 4]),
}

/// The documents that a contender has ranked, best first.
pub struct Ranked {
    pub documents: Vec<i64>,
    /// What a search for k rows took.
    pub milliseconds: f64,
}

impl Contender {
    pub fn list(names: Option<Vec<Option<String>>>) -> Result<Vec<Contender>> {
        let mut contenders: Vec<Contender> = Vec::new();
        for name in required(names, "methods")? {
            let name = required(name, "a method")?;
            if contenders.iter().any(|other| other.name == name) {
                return Err(Error::invalid(format!("method \"{name}\" is given twice")).hint(names_there_are()));
            }
            contenders.push(Contender {
                way: Way::new(&name)?,
                name,
            });
        }
        if contenders.is_empty() {
            return Err(Error::invalid("methods must not be empty").hint(names_there_are()));
        }
        Ok(contenders)
    }

    pub fn is_by_vector(&self) -> bool {
        match &self.way {
            Way::Search { methods, .. } => methods.iter().any(|(method, _)| method.is_by_vector()),
            Way::Walk(_) => true,
        }
    }

    /// Whether models are asked.
    pub fn is_helped(&self) -> bool {
        matches!(&self.way, Way::Search { rewrite, rerank, .. } if *rerank || !rewrite.is_empty())
    }

    /// The first `k` documents, of as many rows as it takes; what a reranker has read is added to `read`.
    pub fn rank(
        &self,
        collection: &Collection,
        (question, text): (&mut Question, &str),
        scope: &Scope,
        k: usize,
        read: &mut Vec<Source>,
    ) -> Result<Ranked> {
        let (mut rows, mut took) = (k, None);
        for round in 0.. {
            let began = Instant::now();
            let found = self.rows(collection, (question, text), scope, rows, read)?;
            took.get_or_insert(began.elapsed().as_secs_f64() * 1e3);
            let mut documents: Vec<i64> = Vec::new();
            for document in found.iter().flatten() {
                if documents.len() < k && !documents.contains(document) {
                    documents.push(*document);
                }
            }
            if documents.len() == k || found.len() < rows || round == ROUNDS {
                return Ok(Ranked {
                    documents,
                    milliseconds: took.unwrap_or_default(),
                });
            }
            rows *= 4;
        }
        unreachable!("the last round returns");
    }

    /// For each row the document that it is from; nothing for a summary of several.
    fn rows(
        &self,
        collection: &Collection,
        (question, text): (&mut Question, &str),
        scope: &Scope,
        k: usize,
        read: &mut Vec<Source>,
    ) -> Result<Vec<Option<i64>>> {
        match &self.way {
            Way::Search {
                methods,
                fusion,
                rewrite,
                rerank,
            } => {
                let asked = Asked {
                    k: k as i64,
                    methods: Some(methods.clone()),
                    show: Show::Leaf,
                    fusion: *fusion,
                    budget: None,
                    candidates: None,
                    repeats: Some(1.0),
                    rewrite: rewrite.clone(),
                    rerank: rerank.then_some(RERANKED.max(k as i64)),
                };
                let hits = helped(collection, question, &asked, read)?.hits;
                Ok(hits
                    .iter()
                    .map(|hit| hit.document_ids.first().copied().filter(|_| hit.documents == 1))
                    .collect())
            }
            Way::Walk(shares) => {
                let found = graph::found(collection, text, question.vector()?, *shares, k, scope)?;
                Ok(found.iter().map(|row| row.5.first().copied()).collect())
            }
        }
    }
}

impl Way {
    fn new(name: &str) -> Result<Way> {
        if graph::MODES.iter().any(|(mode, _)| *mode == name) {
            return Ok(Way::Walk(graph::shares(name)?));
        }
        let (name, help) = name.split_once(WITH).unwrap_or((name, ""));
        let (mut rewrite, mut rerank) = (Vec::new(), false);
        for part in help.split('+').map(str::trim).filter(|part| !part.is_empty()) {
            match Rewriting::named(part) {
                Some(rewriting) => rewrite.push(rewriting),
                None if part == RERANK => rerank = true,
                None => {
                    return Err(Error::invalid(format!("unknown help \"{part}\"")).hint(names_there_are()));
                }
            }
        }
        let (sum, fusion) = match name.strip_suffix(BY_SCORES) {
            Some(sum) => (sum, Fusion::Scores),
            None => (name, Fusion::Ranks),
        };
        let sum = if sum == FUSED.0 { FUSED.1 } else { sum };
        let (mut methods, mut weights) = (Vec::new(), Vec::new());
        for part in sum.split('+') {
            if graph::MODES.iter().any(|(mode, _)| *mode == part.trim()) {
                return Err(Error::invalid(format!("mode \"{}\" of graph_search stands alone", part.trim()))
                    .detail("What is summed, and helped by models, are the methods of rag_search: 'graph' is the walk of 'mix'.")
                    .hint(names_there_are()));
            }
            let (method, weight) = part.split_once('*').unwrap_or((part, "1"));
            methods.push(Some(method.trim().to_owned()));
            let weight = weight.trim().parse().map_err(|_| {
                Error::invalid(format!("the weight \"{weight}\" is no number")).hint("For example 'dense*0.3+graph'.")
            })?;
            weights.push(Some(weight));
        }
        let methods = Method::list(methods).map_err(|error| error.hint(names_there_are()))?;
        let weights = weights_of(Some(weights), methods.len())?;
        Ok(Way::Search {
            methods: methods.into_iter().zip(weights).collect(),
            fusion,
            rewrite,
            rerank,
        })
    }
}

fn names_there_are() -> String {
    let methods = METHODS.map(|(name, _)| name).join("', '");
    let modes = graph::MODES.map(|(name, _)| name).join("', '");
    let rewritings = REWRITINGS.map(|(name, _)| name).join("', '");
    format!(
        "Methods are '{methods}', '{}' ({1}), sums such as '{1}+graph', 'dense*0.3+graph' or '{1}{BY_SCORES}', each with what models add \
         behind, such as '{1}{WITH}{RERANK}' ('{RERANK}', '{rewritings}', joined by +), and the modes of graph_search: '{modes}'.",
        FUSED.0, FUSED.1
    )
}
