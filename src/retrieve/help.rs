//! What models add to a search: a question in other words, and candidates in the order of a reranker.

use graphrag_text::answer::draft;
use pgrx::PgSqlErrorCode;
use serde_json::{Value, json};

use super::pack::Hit;
use crate::ask::source::{Origin, Source, documents};
use crate::ask::{answered, answerer, replies};
use crate::collection::{Collection, literal, quoted};
use crate::error::{Error, Result, capital, notice_of, required};
use crate::model::prompts::{self, data, list, object, prompt};
use crate::model::{Asking, Item, Ledger, Model, ledger};

/// Questions that are taken of those that one is put into.
const QUERIES: usize = 5;

/// What the answerer makes of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rewriting {
    /// The question in other words.
    Reword,
    /// Several questions, from other sides.
    Queries,
    /// A passage that would answer it (Gao et al. 2023, "Precise Zero-Shot Dense Retrieval without Relevance Labels").
    Hypothetical,
    /// The names and the themes that it is about (Guo et al. 2024, "LightRAG").
    Keywords,
}

pub const REWRITINGS: [(&str, Rewriting); 4] = [
    ("reword", Rewriting::Reword),
    ("queries", Rewriting::Queries),
    ("hypothetical", Rewriting::Hypothetical),
    ("keywords", Rewriting::Keywords),
];

impl Rewriting {
    pub fn named(name: &str) -> Option<Rewriting> {
        REWRITINGS.iter().find(|(known, _)| *known == name).map(|found| found.1)
    }

    /// Reads a list of names.
    pub fn list(names: Option<Vec<Option<String>>>) -> Result<Vec<Rewriting>> {
        let mut all = Vec::new();
        for name in required(names, "rewrite")? {
            let name = required(name, "a rewriting")?;
            let rewriting = Rewriting::named(&name).ok_or_else(|| {
                let known = REWRITINGS.map(|(name, _)| name);
                Error::invalid(format!("unknown rewriting {}", quoted(&name)))
                    .hint(format!("Rewritings are '{}'.", known.join("', '")))
            })?;
            if !all.contains(&rewriting) {
                all.push(rewriting);
            }
        }
        Ok(all)
    }

    fn request(self, collection: &Collection, model: &Model, query: &str) -> Value {
        let (setting, last) = match self {
            Rewriting::Reword => ("reword_prompt", "The question:"),
            Rewriting::Queries => ("queries_prompt", "The JSON object:"),
            Rewriting::Hypothetical => ("hypothetical_prompt", "The passage:"),
            Rewriting::Keywords => ("keywords_prompt", "The keywords:"),
        };
        let schema = (self == Rewriting::Queries).then(|| {
            let properties = object(json!({"questions": list(json!({"type": "string"}))}));
            json!({"name": "queries", "strict": true, "schema": properties})
        });
        let user = format!("<question>{}</question>\n\n{last}", data(query));
        let mut request = prompts::answerer(model, prompt(&collection.options, setting, 0), user, schema);
        if self == Rewriting::Queries {
            // How the answer is read, which is not sent.
            request["reply"] = json!("draft");
        }
        request
    }
}

/// Opens a collection: to write what models are asked, if any are.
pub fn open(name: Option<&str>, is_helped: bool) -> Result<Collection> {
    if !is_helped {
        return Collection::read(name);
    }
    let collection = Collection::write(name).map_err(|error| {
        error.detail(
            "rewrite and rerank ask models, and write down what these answer; without them a search only reads.",
        )
    })?;
    ledger::retry_questions(&collection)?;
    Ok(collection)
}

/// What the answerer makes of a question, each text once and without the question itself. What fails is told, and missing.
pub fn rewritten(collection: &Collection, query: &str, rewritings: &[Rewriting]) -> Result<Vec<String>> {
    if rewritings.is_empty() || query.trim().is_empty() {
        return Ok(Vec::new());
    }
    let model = answerer(collection)?;
    let items: Vec<Item> = rewritings
        .iter()
        .map(|rewriting| Item::new(rewriting.request(collection, model, query), Vec::new()))
        .collect();
    let mut ledger = Ledger::resume(collection, "rewrite", Asking::Now);
    let replies = replies(ledger.want(model, &items)?);
    let (mut texts, mut missing) = (Vec::new(), Vec::new());
    for (rewriting, reply) in rewritings.iter().zip(replies) {
        let found = match (rewriting, reply) {
            (_, None) => Vec::new(),
            (Rewriting::Queries, Some(reply)) => draft(&reply).map(|found| found.items).unwrap_or_default(),
            (_, Some(text)) => vec![text],
        };
        if found.is_empty() {
            missing.extend(
                REWRITINGS
                    .iter()
                    .filter(|known| known.1 == *rewriting)
                    .map(|known| known.0),
            );
        }
        texts.extend(found.into_iter().take(QUERIES).map(|text| text.trim().to_owned()));
    }
    if !missing.is_empty() {
        let reason = ledger
            .last_failure()?
            .unwrap_or_else(|| "it gave no answer that can be read".to_owned());
        notice_of(
            format!(
                "the question is searched without {}, which the answerer did not give",
                missing.join(" and ")
            ),
            format!("{}.", capital(&reason)),
            "The next call asks again.".to_owned(),
        );
    }
    let mut seen = std::collections::HashSet::from([query.trim().to_owned()]);
    texts.retain(|text| !text.is_empty() && seen.insert(text.clone()));
    Ok(texts)
}

/// The reranker of a collection, which has to have one.
pub fn reranker(collection: &Collection) -> Result<&Model> {
    collection.options.reranker.as_ref().ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("collection {} has no reranker", quoted(&collection.name)),
        )
        .hint(format!(
            "SELECT rag_alter({}, '{{\"reranker\": \"server:name\"}}'), or function:schema.name.",
            literal(&collection.name)
        ))
    })
}

/// Hits in the order of the reranker's scores; what it has read is added to `read`.
pub fn rerank(
    ledger: &mut Ledger,
    model: &Model,
    query: &str,
    hits: Vec<Hit>,
    read: &mut Vec<Source>,
) -> Result<Vec<(Option<f64>, Hit)>> {
    let sources: Vec<Source> = hits
        .iter()
        .map(|hit| Source {
            origin: Origin::Node(hit.node, None, None),
            text: String::new(),
            documents: hit.document_ids.clone(),
        })
        .collect();
    let texts: Vec<&str> = hits.iter().map(|hit| hit.text.as_str()).collect();
    let order = order(ledger, model, query, &texts, documents(sources.iter()))?;
    read.extend(sources);
    let mut hits: Vec<Option<Hit>> = hits.into_iter().map(Some).collect();
    Ok(order
        .into_iter()
        .filter_map(|(at, score)| Some((score, hits[at].take()?)))
        .collect())
}

/// The places of some texts with the reranker's scores, in the order of these; those of equal score stay as they were. A single text
/// is not asked about, and has no score.
pub fn order(
    ledger: &mut Ledger,
    model: &Model,
    query: &str,
    texts: &[&str],
    documents: Vec<i64>,
) -> Result<Vec<(usize, Option<f64>)>> {
    if texts.len() < 2 {
        return Ok((0..texts.len()).map(|at| (at, None)).collect());
    }
    let item = Item::new(prompts::rerank(query, texts), documents);
    let reply = ledger.want(model, &[item])?.pop().flatten();
    let reply = answered(ledger, model, reply)?;
    let scores: Vec<f64> = serde_json::from_str(&reply).map_err(|_| Error::internal("scores that are no numbers"))?;
    let mut order: Vec<(usize, f64)> = scores.into_iter().enumerate().take(texts.len()).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(order.into_iter().map(|(at, score)| (at, Some(score))).collect())
}
