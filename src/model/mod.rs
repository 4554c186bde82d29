//! What embeds, summarises, extracts, answers and reranks: the models whose names stand in a collection's settings.
//!
//! A model is built in, a SQL function of the user, an HTTP service declared with CREATE SERVER, or a queue that any program
//! answers. What is not built in is asked through the ledger, the table `model_call`: see [`ledger`].

pub mod embed;
pub mod embedder;
mod estimate;
mod flight;
mod function;
mod health;
mod landed;
pub mod ledger;
pub mod lsa;
pub mod prompts;
mod server;
pub mod summary;
pub mod trouble;
mod usage;
pub mod wording;

pub use embed::{Composer, Identity, query_vector, words_not_learned};
pub use embedder::{Embedder, Part};
pub use flight::Flight;
pub use function::Function;
pub use ledger::{Answer, Asking, Item, Ledger};
pub use server::Server;

use graphrag_text::phrases::Reading;
use graphrag_text::stop::StopWords;
use graphrag_text::summary::frequency;
use pgrx::pg_sys;

use crate::error::{Error, Result, notice};
use crate::pg::subtransaction::attempt;
use crate::pg::tick;

/// What a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Embedder,
    Summarizer,
    Extractor,
    Answerer,
    Reranker,
}

impl Role {
    pub const ALL: [Role; 5] = [
        Role::Embedder,
        Role::Summarizer,
        Role::Extractor,
        Role::Answerer,
        Role::Reranker,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Role::Embedder => "embedder",
            Role::Summarizer => "summarizer",
            Role::Extractor => "extractor",
            Role::Answerer => "answerer",
            Role::Reranker => "reranker",
        }
    }

    pub fn parse(name: &str) -> Result<Role> {
        let found = Role::ALL.into_iter().find(|role| role.name() == name);
        found.ok_or_else(|| Error::internal(format!("unknown role \"{name}\" in model_call")))
    }

    /// The built-in models of the role, by their names in the settings.
    fn built_in(self) -> &'static [&'static str] {
        match self {
            Role::Embedder => &embedder::BuiltIn::NAMES,
            Role::Summarizer => &["builtin:frequency"],
            Role::Extractor => &["builtin:cooccurrence"],
            Role::Answerer | Role::Reranker => &[],
        }
    }
}

/// How a model is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    BuiltIn,
    /// A SQL function, by its name.
    Function(String),
    /// A server of the foreign data wrapper graphrag_model, by its name.
    Server(String),
    Queue,
}

/// A model as the settings name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub role: Role,
    pub text: String,
    pub form: Form,
}

impl Model {
    /// Reads `builtin:NAME`, `function:schema.name`, `server:NAME` or `queue`; what they name is looked up when it is used.
    pub fn parse(role: Role, text: &str) -> Result<Model> {
        let form = match text.split_once(':') {
            None if text == "queue" => match role {
                Role::Answerer | Role::Reranker => {
                    return Err(Error::invalid(format!("a queue cannot be the {}", role.name()))
                        .detail("Whoever asks waits for the answer.")
                        .hint(hint(role)));
                }
                _ => Form::Queue,
            },
            Some(("function", name)) if !name.trim().is_empty() => Form::Function(name.to_owned()),
            Some(("server", name)) if !name.trim().is_empty() => Form::Server(name.to_owned()),
            _ if role.built_in().contains(&text) => Form::BuiltIn,
            _ => {
                return Err(Error::invalid(format!("unknown {} \"{text}\"", role.name())).hint(hint(role)));
            }
        };
        Ok(Model {
            role,
            text: text.to_owned(),
            form,
        })
    }

    pub fn is_built_in(&self) -> bool {
        self.form == Form::BuiltIn
    }

    /// Says if what it names is not there: it is looked up again when it is used.
    pub fn tell_if_missing(&self, owner: pg_sys::Oid) -> Result<()> {
        let found = attempt(|| match &self.form {
            Form::Function(name) => Function::resolve(self.role, name).map(drop),
            Form::Server(_) => self.identity(owner).map(drop),
            Form::BuiltIn | Form::Queue => Ok(()),
        });
        if let Err(caught) = found {
            let later = "It is looked up when it is used; rag_health says whether it answers.";
            notice(
                format!(
                    "the {} {} cannot be used: {}",
                    self.role.name(),
                    self.text,
                    caught.message
                ),
                caught.hint.unwrap_or_else(|| later.to_owned()),
            );
        }
        Ok(())
    }

    /// Whether calls may cost money: nothing is asked of it that nobody has ordered.
    pub fn is_paid(&self) -> bool {
        matches!(self.form, Form::Server(_) | Form::Queue)
    }

    /// What makes two answers the same model's: its name here, and for a server the model and the options that shape answers.
    pub fn identity(&self, owner: pg_sys::Oid) -> Result<String> {
        let Form::Server(name) = &self.form else {
            return Ok(self.text.clone());
        };
        let server = Server::open(name, owner)?;
        let settings = &server.settings;
        let mut identity = format!("{} {}", self.text, server.model(self.role)?);
        match self.role {
            Role::Embedder => {
                if let Some(dimensions) = settings.embedding_dimensions {
                    identity += &format!(" {dimensions}");
                }
            }
            _ => identity += &format!(" {:?} {:?}", settings.structured, settings.temperature),
        }
        Ok(identity)
    }
}

/// The values that a role takes, for error messages.
fn hint(role: Role) -> String {
    let queue = match role {
        Role::Answerer | Role::Reranker => "",
        _ => ", or 'queue'",
    };
    let sum = match role {
        Role::Embedder => " A sum of them like 'server:name + builtin:lsa' sets their vectors side by side.",
        _ => "",
    };
    let built_in: Vec<String> = role.built_in().iter().map(|name| format!("'{name}', ")).collect();
    match built_in.is_empty() {
        false => format!(
            "It is {}'function:schema.name', 'server:name'{queue}.{sum}",
            built_in.concat()
        ),
        true => "It is 'function:schema.name', 'server:name', or NULL for none.".to_owned(),
    }
}

/// `builtin:frequency`: a text of at most `max_tokens` that stands for `texts`, chosen by their words alone.
pub fn summarize_built_in(texts: &[&str], max_tokens: usize, stop: &StopWords) -> String {
    frequency(texts, max_tokens, stop, &mut tick)
}

/// `builtin:cooccurrence`: a block, cut into the sentences that its entities and relations are found in.
pub fn read_built_in<'a>(block: &'a str, stop: &'a StopWords) -> Reading<'a> {
    Reading::of(block, stop, &mut tick)
}
