//! rag_judge: two ways to answer, compared by the answerer. Each pair of answers is judged in both orders, since models prefer a place;
//! after the evaluation in Edge et al., 2024, "From Local to Global: A Graph RAG Approach to Query-Focused Summarization".

use std::cmp::Ordering;
use std::collections::HashSet;

use graphrag_text::answer::{Winner, verdict};
use pgrx::prelude::*;
use serde_json::Value;

use super::source::{Read, documents};
use super::{Wanted, answer, answerer, open, prompts, reads_reports, texts, unless_failed};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, in_range, required, sql};
use crate::model::{Asking, Item, Ledger};
use crate::pg::json::Json;
use crate::pg::tick;
use crate::search::Scope;

/// What answers are compared by, and what that means.
const CRITERIA: [(&str, &str); 4] = [
    (
        "comprehensiveness",
        "how much of what the question is about the answer covers, with the details that this needs",
    ),
    (
        "diversity",
        "how many different perspectives and insights on the question the answer offers",
    ),
    (
        "empowerment",
        "how well the answer helps a reader to understand the matter and to judge for himself, by reasons, examples and sources",
    ),
    (
        "directness",
        "how clearly and specifically the answer says just what was asked",
    ),
];

type Row = (String, i64, i64, i64, i64, Option<f64>, Option<f64>, i64, i64);

/// SQL: `rag_judge(collection, questions, first, second, criteria, repeats, filter, documents)`.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments, reason = "the arguments of the SQL function")]
fn rag_judge(
    collection: Option<&str>,
    questions: Option<Vec<Option<String>>>,
    first: Option<Json>,
    second: Option<Json>,
    criteria: Option<Vec<Option<String>>>,
    repeats: Option<i32>,
    filter: Option<Json>,
    documents: Option<Vec<Option<i64>>>,
) -> sql::Result<
    TableIterator<
        'static,
        (
            name!(criterion, String),
            name!(questions, i64),
            name!(first_wins, i64),
            name!(second_wins, i64),
            name!(ties, i64),
            name!(win_rate, Option<f64>),
            name!(agreement, Option<f64>),
            name!(calls, i64),
            name!(failed, i64),
        ),
    >,
> {
    let scope = Scope::new(filter, documents)?;
    let questions = listed(questions, "questions", "a question")?;
    let sides = [Side::parse(first, "first")?, Side::parse(second, "second")?];
    let criteria = listed(criteria, "criteria", "a criterion")?;
    let criteria = criteria.iter().map(|name| meant(name)).collect::<Result<Vec<_>>>()?;
    let repeats = in_range(repeats, "repeats", 1..=100)?;
    Ok(TableIterator::new(judge(
        collection, &questions, &sides, &criteria, repeats, &scope,
    )?))
}

/// The texts of an array, each once.
fn listed(texts: Option<Vec<Option<String>>>, argument: &str, one: &str) -> Result<Vec<String>> {
    let texts = required(texts, argument)?;
    let mut all = texts
        .into_iter()
        .map(|text| required(text, one))
        .collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    all.retain(|text| seen.insert(text.clone()));
    match all.is_empty() {
        true => Err(Error::invalid(format!("{argument} must not be empty"))),
        false => Ok(all),
    }
}

/// A criterion with its meaning.
fn meant(name: &str) -> Result<(&'static str, &'static str)> {
    CRITERIA.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
        Error::invalid(format!("unknown criterion {}", quoted(name))).hint(format!(
            "Criteria are '{}'.",
            CRITERIA.map(|(known, _)| known).join("', '")
        ))
    })
}

/// How one of the two answers.
struct Side {
    mode: String,
    level: Option<i32>,
    k: Option<i64>,
    dynamic: bool,
    max_hops: Option<i32>,
}

impl Side {
    /// Reads the options of rag_ask from an object.
    fn parse(options: Option<Json>, argument: &str) -> Result<Side> {
        const HINT: &str = "Options are those of rag_ask: mode, a text; level, k and max_hops, whole numbers; dynamic, true or false. \
                            For example '{\"mode\": \"global\", \"level\": 1}'.";
        let options = required(options, argument)?;
        let Ok(Value::Object(options)) = serde_json::from_str(options.as_str()) else {
            return Err(Error::invalid(format!("{argument} must be a JSON object")).hint(HINT));
        };
        let mut side = Side {
            mode: "plain".to_owned(),
            level: None,
            k: None,
            dynamic: false,
            max_hops: None,
        };
        for (key, value) in &options {
            let whole = || value.as_i64().and_then(|number| i32::try_from(number).ok());
            let read = match key.as_str() {
                "mode" => value.as_str().map(|mode| side.mode = mode.to_owned()),
                "level" => whole().map(|level| side.level = Some(level)),
                "k" => whole().map(|k| side.k = Some(k.into())),
                "dynamic" => value.as_bool().map(|dynamic| side.dynamic = dynamic),
                "max_hops" => whole().map(|hops| side.max_hops = Some(hops)),
                _ => {
                    let error = Error::invalid(format!("unknown option {}", quoted(key)));
                    return Err(error.inside(argument).hint(HINT));
                }
            };
            if read.is_none() {
                let error = Error::invalid(format!("option {} cannot be {value}", quoted(key)));
                return Err(error.inside(argument).hint(HINT));
            }
        }
        side.wanted("").check().map_err(|error| error.inside(argument))?;
        Ok(side)
    }

    fn wanted<'a>(&'a self, question: &'a str) -> Wanted<'a> {
        Wanted {
            question,
            mode: &self.mode,
            level: self.level,
            k: self.k,
            dynamic: self.dynamic,
            max_hops: self.max_hops,
            events: false,
        }
    }
}

/// A question with both answers, as far as there are any.
struct Contest<'a> {
    question: &'a str,
    answers: [Option<String>; 2],
    documents: Vec<i64>,
}

impl Contest<'_> {
    /// The answers, if somebody has to compare them.
    fn open(&self) -> Option<[&str; 2]> {
        match &self.answers {
            [Some(first), Some(second)] if first != second => Some([first, second]),
            _ => None,
        }
    }

    /// What goes to the first answer where nobody has to.
    fn decided(&self) -> f64 {
        match &self.answers {
            [Some(_), None] => 1.0,
            [None, Some(_)] => 0.0,
            _ => 0.5,
        }
    }
}

fn judge(
    name: Option<&str>,
    questions: &[String],
    sides: &[Side; 2],
    criteria: &[(&'static str, &'static str)],
    repeats: i32,
    scope: &Scope,
) -> Result<Vec<Row>> {
    let collection = open(name, sides.iter().any(|side| reads_reports(&side.mode)))?;
    answerer(&collection)?;
    let mut read = Read::default();
    let (mut contests, mut failure) = (Vec::new(), None);
    for question in questions {
        let contest = contest(&collection, question, sides, scope, &mut read);
        contests.extend(unless_failed(question, contest, &mut failure)?);
    }
    if let Some(error) = failure.filter(|_| contests.is_empty()) {
        return Err(error);
    }
    let mut ledger = Ledger::resume(&collection, "judge", Asking::Now);
    let rows = criteria
        .iter()
        .map(|criterion| compare(&collection, &mut ledger, &contests, *criterion, repeats))
        .collect::<Result<_>>()?;
    read.forget_what_changed(&collection)?;
    Ok(rows)
}

/// Has both sides answer a question; what was read for that is added to `read`.
fn contest<'a>(
    collection: &Collection,
    question: &'a str,
    sides: &[Side; 2],
    scope: &Scope,
    read: &mut Read,
) -> Result<Contest<'a>> {
    let mut sources = Vec::new();
    let mut answers = [None, None];
    for (side, place) in sides.iter().zip(&mut answers) {
        let mut answered = answer(collection, &side.wanted(question), scope)?;
        *place = answered.text().map(str::to_owned);
        sources.append(&mut answered.sources);
    }
    let documents = documents(sources.iter());
    read.add(sources);
    Ok(Contest {
        question,
        answers,
        documents,
    })
}

/// What the answerer says of all pairs of answers by one criterion.
fn compare(
    collection: &Collection,
    ledger: &mut Ledger,
    contests: &[Contest],
    criterion: (&str, &str),
    repeats: i32,
) -> Result<Row> {
    let answerer = answerer(collection)?;
    let before = ledger.calls;
    let mut items = Vec::new();
    for contest in contests {
        let Some([first, second]) = contest.open() else {
            continue;
        };
        for repeat in 1..=repeats {
            for answers in [[first, second], [second, first]] {
                let request = prompts::judge(
                    answerer,
                    &collection.options,
                    contest.question,
                    criterion,
                    answers,
                    repeat,
                );
                items.push(Item::new(request, contest.documents.clone()));
            }
        }
        tick();
    }
    let replies = ledger.want(answerer, &items)?;
    let mut verdicts = texts(ledger, answerer, replies)?
        .into_iter()
        .map(|reply| reply.and_then(|reply| verdict(&reply).ok()));

    let (mut wins, mut questions, mut total) = ([0_i64; 3], 0_i64, 0.0);
    let (mut pairs, mut agreed, mut failed) = (0_i64, 0_i64, 0_i64);
    for contest in contests {
        let share = match contest.open() {
            None => contest.decided(),
            Some(_) => {
                let mut shares = Vec::new();
                for _ in 0..repeats {
                    let pair = [verdicts.next().flatten(), verdicts.next().flatten()];
                    failed += pair.iter().filter(|verdict| verdict.is_none()).count() as i64;
                    // One order alone would count the preference for a place.
                    let [Some(one), Some(other)] = pair else { continue };
                    let (one, other) = (share(one.winner), 1.0 - share(other.winner));
                    pairs += 1;
                    agreed += i64::from(one == other);
                    shares.push((one + other) / 2.0);
                }
                if shares.is_empty() {
                    continue;
                }
                shares.iter().sum::<f64>() / shares.len() as f64
            }
        };
        questions += 1;
        total += share;
        wins[match share.total_cmp(&0.5) {
            Ordering::Greater => 0,
            Ordering::Less => 1,
            Ordering::Equal => 2,
        }] += 1;
    }
    let rate = |part: f64, whole: i64| (whole > 0).then(|| part / whole as f64);
    let [first, second, ties] = wins;
    Ok((
        criterion.0.to_owned(),
        questions,
        first,
        second,
        ties,
        rate(total, questions),
        rate(agreed as f64, pairs),
        ledger.calls - before,
        failed,
    ))
}

/// What a judgement gives to the answer that stands first in it.
fn share(winner: Winner) -> f64 {
    match winner {
        Winner::First => 1.0,
        Winner::Neither => 0.5,
        Winner::Second => 0.0,
    }
}
