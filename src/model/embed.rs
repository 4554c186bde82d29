//! Vectors: for texts that are to be stored, through the ledger, and for the query of a search, which writes nothing.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use graphrag_provider::{Client, Outcome, Reply, Request, Stop};
use graphrag_text::hash;
use pgrx::{PgSqlErrorCode, pg_sys};

use super::embedder::{BuiltIn, Embedder, Part};
use super::ledger::must_answer_at_once;
use super::lsa::{self, Space};
use super::trouble::{check_dimensions, stopped};
use super::{Answer, Form, Function, Item, Ledger, Model, Role, Server};
use crate::collection::{Collection, quoted};
use crate::error::{Error, Result, notice};
use crate::lexical::Lexemes;
use crate::pg::frame::AsUser;
use crate::pg::{statement, threads, tick, vector};

/// Queries whose vectors a session keeps.
const KEPT: usize = 64;
/// Longer queries are not kept.
const KEPT_BYTES: usize = 10_000;

/// Makes vectors by an embedder: those of the built-in parts, beside what the other part has answered.
pub struct Composer<'a> {
    embedder: &'a Embedder,
    /// Of `builtin:lsa`, if the embedder has it.
    pub space: Option<Space>,
}

impl<'a> Composer<'a> {
    pub fn new(collection: &Collection, embedder: &'a Embedder) -> Result<Composer<'a>> {
        let space = embedder.lsa().map(|part| Space::open(collection, part.dimensions));
        Ok(Composer {
            embedder,
            space: space.transpose()?,
        })
    }

    /// The vectors of texts by the collection's embedder; nothing for a text without words. `outside` has those of the part
    /// that is not built in.
    pub fn vectors(
        &mut self,
        collection: &Collection,
        texts: &[&str],
        outside: Vec<Option<Vec<f32>>>,
    ) -> Result<Vec<Option<Vec<f32>>>> {
        let of_space = match &mut self.space {
            Some(space) => space.embed(collection, texts)?,
            None => Vec::new(),
        };
        Ok(self.join(collection, texts, outside, of_space))
    }

    /// Like [`Composer::vectors`], with those of `builtin:lsa` given.
    pub fn join(
        &self,
        collection: &Collection,
        texts: &[&str],
        mut outside: Vec<Option<Vec<f32>>>,
        mut of_space: Vec<Option<Vec<f32>>>,
    ) -> Vec<Option<Vec<f32>>> {
        let stop = collection.options.stop_words();
        let mut joined = Vec::with_capacity(texts.len());
        for (i, text) in texts.iter().enumerate() {
            let take = |from: &mut Vec<Option<Vec<f32>>>| from.get_mut(i).and_then(Option::take);
            let parts: Vec<Option<Vec<f32>>> = self
                .embedder
                .parts
                .iter()
                .map(|part| match part.built_in() {
                    Some(BuiltIn::Hash) => hash::embed(text, part.dimensions, stop, &mut tick),
                    Some(BuiltIn::Lsa) => take(&mut of_space),
                    None => take(&mut outside),
                })
                .collect();
            joined.push(self.embedder.join(&parts));
            tick();
        }
        joined
    }
}

/// The vectors of texts by built-in models alone; nothing for a text without words.
fn embed_built_in(collection: &Collection, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>> {
    Composer::new(collection, &collection.options.embedder)?.vectors(collection, texts, Vec::new())
}

/// A text to be embedded.
pub struct Text<'a> {
    pub text: &'a str,
    pub hash: Vec<u8>,
    pub documents: Vec<i64>,
}

/// The model outside that made the vectors of a collection, or a part of them, as the setting `embedder_identity` has it.
pub struct Identity;

impl Identity {
    /// Refuses to mix the vectors of two models; notes the model with the first ones.
    pub fn check(collection: &Collection, model: &Model) -> Result<()> {
        let now = model.identity(collection.owner)?;
        match &collection.options.embedder_identity {
            Some(before) if *before == now => Ok(()),
            Some(before) => Err(changed(collection, before, &now)),
            None => Self::note(collection, &now),
        }
    }

    /// Notes the model whose vectors stand in the collection from now on.
    pub fn note(collection: &Collection, identity: &str) -> Result<()> {
        collection.set("embedder_identity", identity)
    }
}

fn changed(collection: &Collection, before: &str, now: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the vectors of collection {} are of another model", quoted(&collection.name)),
    )
    .detail(format!("They were made by {before}; the embedder is {now} now."))
    .hint(format!(
        "SELECT rag_alter({}, '{{\"embedder\": \"{}\"}}') and CALL rag_refresh embed them anew; or set the server back.",
        crate::collection::literal(&collection.name),
        collection.options.embedder.text
    ))
}

/// The vectors of texts by the embedder of the collection: nothing where the answer is not there yet, `Failed` where it
/// could not be had.
///
/// A text that stands in a node with its vector already is not asked again.
pub fn vectors(ledger: &mut Ledger, collection: &Collection, texts: &[Text]) -> Result<Vec<Option<Answer>>> {
    let embedder = &collection.options.embedder;
    let list: Vec<&str> = texts.iter().map(|t| t.text).collect();
    let Some(part) = embedder.outside() else {
        let vectors = embed_built_in(collection, &list)?;
        return Ok(vectors.into_iter().map(|vector| Some(Answer::Vector(vector))).collect());
    };
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let model = &part.model;
    Identity::check(collection, model)?;
    let mut standing: HashMap<Vec<u8>, Vec<f32>> = HashMap::new();
    for part in texts.chunks(1_000) {
        let hashes: Vec<Vec<u8>> = part.iter().map(|t| t.hash.clone()).collect();
        let sql = "SELECT DISTINCT ON (text_hash) text_hash, embedding FROM {s}.node \
                   WHERE text_hash = ANY ($1) AND embedding IS NOT NULL ORDER BY text_hash, id";
        let found = collection.returning(sql, &[hashes.into()], |row| {
            Ok((row.need::<Vec<u8>>(1)?, row.need::<vector::Vector>(2)?.0))
        })?;
        standing.extend(found);
    }
    let missing: Vec<&Text> = texts.iter().filter(|t| !standing.contains_key(&t.hash)).collect();
    let items: Vec<Item> = missing
        .iter()
        .map(|t| Item::text(t.text, t.hash.clone(), t.documents.clone()))
        .collect();
    let mut answers = ledger.want(model, &items)?.into_iter();
    let mut answers: Vec<Option<Answer>> = texts
        .iter()
        .map(|t| match standing.get(&t.hash) {
            Some(vector) => Some(Answer::Vector(Some(vector.clone()))),
            None => answers.next().flatten(),
        })
        .collect();
    if embedder.parts.len() == 1 {
        return Ok(answers);
    }
    // What stands in a node is whole already.
    let new: Vec<usize> = (0..texts.len())
        .filter(|&i| !standing.contains_key(&texts[i].hash) && matches!(answers[i], Some(Answer::Vector(_))))
        .collect();
    let outside = new
        .iter()
        .map(|&i| match answers[i].take() {
            Some(Answer::Vector(vector)) => vector,
            _ => None,
        })
        .collect();
    let list: Vec<&str> = new.iter().map(|&i| list[i]).collect();
    let whole = Composer::new(collection, embedder)?.vectors(collection, &list, outside)?;
    for (i, vector) in new.into_iter().zip(whole) {
        answers[i] = Some(Answer::Vector(vector));
    }
    Ok(answers)
}

/// A query whose vector is kept.
struct Kept {
    schema: pg_sys::Oid,
    identity: String,
    text: String,
    vector: Option<Vec<f32>>,
}

thread_local! {
    static RECENT: RefCell<VecDeque<Kept>> = const { RefCell::new(VecDeque::new()) };
}

/// The vector of a query, of unit length; nothing for a text that has none. The last ones are kept in the session.
pub fn query_vector(collection: &Collection, text: &str) -> Result<Option<Vec<f32>>> {
    let embedder = &collection.options.embedder;
    let mut says = None;
    let outside = match embedder.outside() {
        // What is zero scales the cosines with all texts alike.
        Some(_) if embedder.is_queue() && embedder.parts.len() > 1 => {
            says = Some(Says::queue(embedder));
            vec![None]
        }
        Some(part) => vec![outside_vector(collection, part, text)?],
        None => Vec::new(),
    };
    // What was learned is the owner's to read.
    let _user = AsUser::restricted(collection.owner);
    let mut composer = Composer::new(collection, embedder)?;
    let mut of_space = Vec::new();
    if let Some(space) = &mut composer.space {
        let (vector, is_known) = space.embed_query(collection, text)?;
        if !space.has_learned {
            lsa::tell_if_unlearned(collection)?;
        } else if !is_known && vector.is_some() && embedder.parts.len() == 1 && lsa::can_learn(collection)? {
            says = Some(Says::unknown(collection));
        }
        of_space.push(vector);
    }
    let vector = composer.join(collection, &[text], outside, of_space).pop().flatten();
    if let Some(says) = says.filter(|_| vector.is_some() && is_first(collection, text)) {
        notice(says.message, says.hint);
    }
    Ok(vector)
}

/// The terms of a query that `builtin:lsa` has not learned; none where it has learned nothing yet.
pub fn words_not_learned(collection: &Collection, text: &str) -> Result<Vec<String>> {
    // What was learned is the owner's to read.
    let _user = AsUser::restricted(collection.owner);
    if !lsa::State::load(collection)?.has_learned() {
        return Ok(Vec::new());
    }
    let mut lexemes = Lexemes::default();
    let rows = lexemes.rows(collection, &[text])?;
    let terms: Vec<String> = rows
        .iter()
        .flatten()
        .map(|(term, _)| lexemes.name(*term).to_owned())
        .collect();
    let sql = "SELECT u.lexeme FROM unnest($1::text[]) AS u (lexeme) \
               WHERE NOT EXISTS (SELECT FROM {s}.term t WHERE t.lexeme = u.lexeme)";
    collection.lookup(sql, &[terms.into()], |row| row.need(1))
}

/// What is said of the vector of a query.
struct Says {
    message: String,
    hint: String,
}

impl Says {
    fn queue(embedder: &Embedder) -> Says {
        let built_in = embedder.parts.iter().filter(|part| part.model.is_built_in());
        let names: Vec<&str> = built_in.map(|part| part.model.text.as_str()).collect();
        Says {
            message: format!(
                "the query is embedded by {} alone, since a queue answers later",
                names.join(" and ")
            ),
            hint: "raptor_search takes a vector of all parts in place of the text.".to_owned(),
        }
    }

    fn unknown(collection: &Collection) -> Says {
        Says {
            message: format!(
                "no word of the query is one that collection {} has learned: what is found may be near by chance",
                quoted(&collection.name)
            ),
            hint: format!(
                "Ask in the words of the documents. Words of documents that have come since it learned are known by their spelling, and found by rag_search with methods => '{{lexical}}': {}.",
                lsa::to_learn(collection)
            ),
        }
    }
}

/// Whether this statement has not embedded this query before: a plain ORDER BY may do so for each row.
fn is_first(collection: &Collection, text: &str) -> bool {
    thread_local! {
        static LAST: RefCell<(i64, pg_sys::Oid, String)> = const { RefCell::new((0, pg_sys::Oid::INVALID, String::new())) };
    }
    LAST.with_borrow_mut(|last| {
        let now = statement();
        let is_first = (last.0, last.1, last.2.as_str()) != (now, collection.oid, text);
        if is_first {
            *last = (now, collection.oid, text.to_owned());
        }
        is_first
    })
}

/// The vector of a query by the part that is not built in.
fn outside_vector(collection: &Collection, part: &Part, text: &str) -> Result<Option<Vec<f32>>> {
    let model = &part.model;
    must_answer_at_once(model)?;
    // A reader asks with the owner's models and the owner's key.
    let _user = AsUser::restricted(collection.owner);
    let identity = model.identity(collection.owner)?;
    if let Some(before) = &collection.options.embedder_identity
        && *before != identity
    {
        return Err(changed(collection, before, &identity));
    }
    // A function may answer otherwise after it was replaced.
    if matches!(model.form, Form::Function(_)) {
        return ask(collection, part, text);
    }
    let kept = RECENT.with_borrow(|recent| {
        let same = |kept: &&Kept| kept.schema == collection.oid && kept.identity == identity && kept.text == text;
        recent.iter().find(same).map(|kept| kept.vector.clone())
    });
    if let Some(vector) = kept {
        return Ok(vector);
    }
    let vector = ask(collection, part, text)?;
    if text.len() <= KEPT_BYTES {
        let kept = Kept {
            schema: collection.oid,
            identity,
            text: text.to_owned(),
            vector: vector.clone(),
        };
        RECENT.with_borrow_mut(|recent| {
            recent.push_front(kept);
            recent.truncate(KEPT);
        });
    }
    Ok(vector)
}

fn ask(collection: &Collection, part: &Part, text: &str) -> Result<Option<Vec<f32>>> {
    let model = &part.model;
    let failed = |reason: String| {
        Error::new(
            PgSqlErrorCode::ERRCODE_EXTERNAL_ROUTINE_EXCEPTION,
            format!("the query could not be embedded by {}", model.text),
        )
        .detail(format!("{}.", crate::error::capital(&reason)))
    };
    match &model.form {
        Form::Function(name) => {
            let function = Function::resolve(Role::Embedder, name)?;
            function.embed_one(text, part.dimensions, collection.owner)
        }
        Form::Server(name) => {
            let server = Server::open(name, collection.owner)?;
            match one_reply(&server, Request::Embed(vec![text.to_owned()]))?.map_err(failed)? {
                Reply::Vectors(mut vectors) => {
                    let vector = vectors.pop().unwrap_or_default();
                    check_dimensions(collection, part, &vector)?;
                    Ok(vector::unit(&vector))
                }
                _ => Err(Error::internal("an answer of another kind than was asked for")),
            }
        }
        Form::BuiltIn | Form::Queue => Err(Error::internal("no query is asked of this model")),
    }
}

/// Asks a server one thing and waits for the reply; the inner error is the reason why there is none.
pub fn one_reply(server: &Server, request: Request) -> Result<std::result::Result<Reply, String>> {
    match outcome(server, request)? {
        Ok(Outcome::Answered(answer)) => Ok(Ok(answer.reply)),
        Ok(Outcome::Failed(failure)) => Ok(Err(failure.to_string())),
        Err(stop) => Err(stopped(server, &stop)),
    }
}

/// Whether a server answers at all, be it that it has no list of its models.
pub fn is_up(server: &Server) -> Result<bool> {
    let up = |outcome| {
        !matches!(
            outcome,
            Err(Stop::Unreachable { .. } | Stop::Helper(_) | Stop::Settings(_))
        )
    };
    Ok(up(outcome(server, Request::Models)?))
}

fn outcome(server: &Server, request: Request) -> Result<std::result::Result<Outcome, Stop>> {
    let mut client = match threads::without_signals(|| Client::start(server.settings.clone())) {
        Ok(client) => client,
        Err(stop) => return Ok(Err(stop)),
    };
    client.submit(0, request);
    loop {
        tick();
        match client.receive(Duration::from_millis(20)) {
            Ok(None) => continue,
            Ok(Some((_, outcome))) => return Ok(Ok(outcome)),
            Err(stop) => return Ok(Err(stop)),
        }
    }
}
