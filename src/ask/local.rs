//! An answer from passages and relations that a walk over the graph finds, for the question and, if wanted, for the questions that it is
//! made of.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use graphrag_text::answer::{draft, primer};
use graphrag_text::fold;
use serde_json::json;

use super::mapped::NOTHING;
use super::plain::CANDIDATES;
use super::source::{Origin, Source, check_tags, documents};
use super::{Answered, Wanted, answered, prompts, unasked};
use crate::collection::Collection;
use crate::error::Result;
use crate::model::{Answer, Asking, Item, Ledger, Model};
use crate::retrieve::context::{Cited, pack};
use crate::retrieve::help::rerank;
use crate::retrieve::{Asked, find};
use crate::search::Scope;

/// Questions that one is divided into, or that follow in a round.
const QUESTIONS: usize = 5;
/// A first answer that helps so much needs no more questions.
const ENOUGH: f64 = 80.0;
/// The share of the context that relations may take.
const GRAPH_SHARE: f64 = 0.2;

/// What was found so far, each text once.
#[derive(Default)]
struct Gathered {
    sources: Vec<Source>,
    tags: Vec<String>,
    tokens: u64,
    seen: HashSet<(&'static str, i64)>,
    /// What did not fit, when it was found.
    left_out: HashSet<(&'static str, i64)>,
    /// What the reranker alone has read.
    reranked: Vec<Source>,
}

pub fn ask(collection: &Collection, answerer: Option<&Model>, wanted: &Wanted, scope: &Scope) -> Result<Answered> {
    let started = Instant::now();
    let options = &collection.options;
    let hops = wanted.max_hops.unwrap_or(1);
    let mut ledger = Ledger::resume(collection, "explore", Asking::Now);
    let mut gathered = Gathered::default();
    let mut asked: HashSet<String> = HashSet::from([fold::name(wanted.question)]);
    let mut questions = vec![wanted.question.to_owned()];
    let mut planned = 0;
    if let Some(answerer) = answerer.filter(|_| hops > 1) {
        let request = prompts::plan(answerer, options, wanted.question);
        // Without a plan the question is looked up as it is.
        let mut planner = Ledger::resume(collection, "plan", Asking::Now);
        let plan = text(planner.want(answerer, &[Item::new(request, Vec::new())])?);
        planned = planner.calls;
        let parts = plan.and_then(|reply| draft(&reply).ok()).unwrap_or_default().items;
        questions.extend(unasked(parts, &mut asked).take(QUESTIONS));
    }
    let (mut used, mut sub_questions) = (0, questions[1..].to_vec());
    while used < hops && !questions.is_empty() {
        used += 1;
        wanted.tell("status", || json!({"hop": used, "questions": questions}));
        gathered.add(
            collection,
            &mut ledger,
            &questions,
            options.context_tokens as u64,
            scope,
        )?;
        questions.clear();
        let Some(answerer) = answerer.filter(|_| used < hops && !gathered.sources.is_empty()) else {
            break;
        };
        let request = prompts::explore(answerer, options, wanted.question, None, &gathered.texts());
        let item = Item::new(request, documents(gathered.sources.iter()));
        let Some(read) = text(ledger.want(answerer, &[item])?).and_then(|reply| primer(&reply).ok()) else {
            break;
        };
        if read.score.unwrap_or_default() < ENOUGH {
            questions = unasked(read.queries, &mut asked).take(QUESTIONS).collect();
            sub_questions.extend_from_slice(&questions);
        }
    }
    let retrieved = started.elapsed();
    wanted.tell_sources(&gathered.sources, &gathered.tags);

    let mut calls = planned + ledger.calls;
    let answer = match answerer {
        None => None,
        Some(_) if gathered.sources.is_empty() => Some(NOTHING.to_owned()),
        Some(answerer) => {
            let mut ledger = Ledger::resume(collection, "ask", Asking::Now);
            let request = prompts::answer(answerer, options, wanted.question, &gathered.texts());
            let item = Item::new(request, documents(gathered.sources.iter()));
            let reply = ledger.want(answerer, &[item])?.pop().flatten();
            calls += ledger.calls;
            Some(answered(&ledger, answerer, reply)?)
        }
    };
    let checked = check_tags(answer.as_deref().unwrap_or_default(), &gathered.sources, &gathered.tags);
    let mut shown = json!({
        "answer": answer.map(|_| checked.answer),
        "grounded": checked.grounded,
        "citations": checked.citations,
        "unknown_citations": checked.unknown,
        "sub_questions": sub_questions,
        "hops_used": used,
        "context_tokens": gathered.tokens,
        "left_out": gathered.left_out(),
        "calls": calls,
        "timings_ms": {
            "retrieve": retrieved.as_millis() as u64,
            "answer": (started.elapsed() - retrieved).as_millis() as u64,
        },
    });
    if answerer.is_none() {
        let texts = gathered.sources.iter().zip(&gathered.tags);
        shown["context"] = texts
            .map(|(source, tag)| {
                let mut citation = source.citation(json!(tag));
                citation["text"] = json!(source.text);
                citation
            })
            .collect();
    }
    gathered.sources.append(&mut gathered.reranked);
    Ok(Answered {
        shown,
        sources: gathered.sources,
        tags: gathered.tags,
    })
}

/// The one answer, if there is one.
fn text(answers: Vec<Option<Answer>>) -> Option<String> {
    match answers.into_iter().next().flatten() {
        Some(Answer::Text(text)) => Some(text),
        _ => None,
    }
}

impl Gathered {
    /// Adds what is found for some questions, which share what is left of the budget.
    fn add(
        &mut self,
        collection: &Collection,
        ledger: &mut Ledger,
        questions: &[String],
        budget: u64,
        scope: &Scope,
    ) -> Result<()> {
        let search = Asked::best();
        for (at, question) in questions.iter().enumerate() {
            let share = budget.saturating_sub(self.tokens) / (questions.len() - at) as u64;
            let mut passages = find(collection, question, &search, scope.clone())?;
            if let Some(reranker) = &collection.options.reranker {
                passages.truncate(CANDIDATES);
                let reranked = rerank(ledger, reranker, question, passages, &mut self.reranked)?;
                passages = reranked.into_iter().map(|(_, hit)| hit).collect();
            }
            let found = pack(collection, question, passages, share, GRAPH_SHARE, scope)?;
            let hashes = hashes(collection, &found)?;
            for text in found {
                if text.citation.is_none() {
                    self.left_out.insert((text.kind, text.id));
                    continue;
                }
                let table = if text.kind == "relation" { "relation" } else { "node" };
                if !self.seen.insert((table, text.id)) {
                    continue;
                }
                self.tokens += text.tokens as u64;
                let letter = if table == "relation" { 'G' } else { 'P' };
                let number = 1 + self.tags.iter().filter(|tag| tag.starts_with(letter)).count();
                self.tags.push(format!("{letter}{number}"));
                let origin = match table {
                    "relation" => {
                        let of = text
                            .documents
                            .iter()
                            .map(|id| hashes.get(id).cloned().unwrap_or_default());
                        Origin::Relation(text.id, of.collect())
                    }
                    _ => Origin::Node(text.id, text.title, text.source_key),
                };
                self.sources.push(Source {
                    origin,
                    text: text.text,
                    documents: text.documents,
                });
            }
        }
        Ok(())
    }

    /// How many candidates did not fit into the context.
    fn left_out(&self) -> usize {
        let table = |kind: &str| if kind == "relation" { "relation" } else { "node" };
        let missing = |(kind, id): &&(&'static str, i64)| !self.seen.contains(&(table(kind), *id));
        self.left_out.iter().filter(missing).count()
    }

    /// The texts as they stand in a prompt.
    fn texts(&self) -> Vec<(String, &'static str, &str)> {
        let all = self.sources.iter().zip(&self.tags);
        all.map(|(source, tag)| (tag.clone(), source.kind(), source.text.as_str()))
            .collect()
    }
}

/// What the documents behind relations are, so that a change of them shows.
fn hashes(collection: &Collection, found: &[Cited]) -> Result<HashMap<i64, Vec<u8>>> {
    let relations = found.iter().filter(|text| text.kind == "relation");
    let ids: Vec<i64> = relations.flat_map(|text| text.documents.iter().copied()).collect();
    let sql = "SELECT id, body_hash FROM {s}.document WHERE id = ANY ($1)";
    let rows = collection.query(sql, &[ids.into()], |row| Ok((row.need(1)?, row.need(2)?)))?;
    Ok(rows.into_iter().collect())
}
