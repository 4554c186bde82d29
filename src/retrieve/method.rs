//! The methods that rag_search fuses: each ranks nodes.

use crate::collection::Collection;
use crate::error::{Error, Result, required};
use crate::pg::vector::Vector;
use crate::search::{self, Scope};
use crate::{graph, lexical, model};

/// Where a ranking comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Leaves by the cosine of their vectors.
    Dense,
    /// Leaves by BM25.
    Lexical,
    /// Leaves and summaries by the cosine of their vectors.
    Tree,
    /// Leaves by a walk over the graph, one of each block.
    Graph,
}

/// The methods by their names, in the order of the columns of their ranks.
pub const METHODS: [(&str, Method); 4] = [
    ("dense", Method::Dense),
    ("lexical", Method::Lexical),
    ("tree", Method::Tree),
    ("graph", Method::Graph),
];

const NAMES: &str = "Methods are 'dense', 'lexical', 'tree' and 'graph'.";

impl Method {
    /// Reads a list of names.
    pub fn list(names: Vec<Option<String>>) -> Result<Vec<Method>> {
        let mut methods = Vec::new();
        for name in names {
            let name = required(name, "a method")?;
            let (_, method) = *METHODS
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or_else(|| Error::invalid(format!("unknown method \"{name}\"")).hint(NAMES))?;
            if methods.contains(&method) {
                return Err(Error::invalid(format!("method \"{name}\" is given twice"))
                    .hint("weights say how much each counts."));
            }
            methods.push(method);
        }
        if methods.is_empty() {
            return Err(Error::invalid("methods must not be empty").hint(NAMES));
        }
        Ok(methods)
    }

    /// What measures best on questions of public sets: the walk over the graph, which starts from what is near, alone. Without a graph
    /// vectors, with words beside them where these know none. Words that have come since the embedder learned are looked for in any case.
    pub fn best(collection: &Collection, query: &str) -> Result<Vec<Method>> {
        let sql = "SELECT EXISTS (SELECT FROM {s}.mention)";
        let has_graph: bool = collection.query_one(sql, &[], |row| row.need(1))?;
        let mut methods = vec![if has_graph { Method::Graph } else { Method::Dense }];
        let by_words = match collection.options.embedder.lsa() {
            Some(_) => lexical::holds_any(collection, &model::words_not_learned(collection, query)?)?,
            None => !has_graph,
        };
        if by_words {
            methods.push(Method::Lexical);
        }
        Ok(methods)
    }

    pub fn is_by_vector(self) -> bool {
        self != Method::Lexical
    }
}

/// What is asked, embedded when a method first needs it.
pub struct Question<'a> {
    collection: &'a Collection,
    pub text: &'a str,
    vector: Option<Option<Vector>>,
    leaves: Scope,
    nodes: Scope,
}

impl<'a> Question<'a> {
    pub fn new(collection: &'a Collection, text: &'a str, scope: Scope) -> Question<'a> {
        Question {
            collection,
            text,
            vector: None,
            leaves: scope.clone().within(0..=0),
            nodes: scope,
        }
    }

    /// With its vector, if the caller has one.
    pub fn given(mut self, vector: Option<Vector>) -> Result<Question<'a>> {
        if vector.is_some() {
            self.vector = Some(search::query_vector(self.collection, None, vector)?);
        }
        Ok(self)
    }

    /// Another question in the same scope.
    pub fn other<'b>(&self, text: &'b str) -> Question<'b>
    where
        'a: 'b,
    {
        Question::new(self.collection, text, self.nodes.clone())
    }

    /// The best `k` nodes by a method: (id, score), best first, ties in canonical order.
    pub fn rank(&mut self, method: Method, k: i64) -> Result<Vec<(i64, f64)>> {
        match method {
            Method::Lexical => lexical::rank(self.collection, self.text, k, &self.leaves),
            Method::Dense => self.by_vector(k, true),
            Method::Tree => self.by_vector(k, false),
            Method::Graph => {
                let (collection, text, leaves) = (self.collection, self.text, self.leaves.clone());
                graph::rank_by_walk(collection, text, self.vector()?, k as usize, &leaves)
            }
        }
    }

    /// Its vector; none if it has no words.
    pub fn vector(&mut self) -> Result<Option<&Vector>> {
        if self.vector.is_none() {
            self.vector = Some(search::query_vector(self.collection, Some(self.text), None)?);
        }
        Ok(self.vector.as_ref().and_then(Option::as_ref))
    }

    fn by_vector(&mut self, k: i64, leaves: bool) -> Result<Vec<(i64, f64)>> {
        let collection = self.collection;
        let scope = if leaves { &self.leaves } else { &self.nodes }.clone();
        // A query without words is near to nothing.
        match self.vector()? {
            Some(vector) => search::rank(collection, "node", vector, k, &scope, "true"),
            None => Ok(Vec::new()),
        }
    }
}
