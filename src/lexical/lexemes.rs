//! From texts to terms: the dictionaries of the collection's language decide which lexemes stand for a word.

use std::collections::HashMap;

use graphrag_text::terms::{Term, terms};
use pgrx::{PgSqlErrorCode, pg_sys};

use crate::collection::{Collection, quoted};
use crate::error::{Error, Result};
use crate::pg::tick;

/// The terms of a text by their numbers, in the bytewise order of their names, with how often each occurs.
pub type Row = Vec<(u32, u32)>;

/// What a name or a word takes beside its letters, about.
const ENTRY: usize = 96;

/// Numbers for terms, and what the dictionaries have answered so far.
#[derive(Default)]
pub struct Lexemes {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    /// The terms that stand for a word; none for a stop word.
    words: HashMap<String, Box<[u32]>>,
    configuration: Option<pg_sys::Oid>,
    /// About how many bytes names and words hold.
    name_bytes: usize,
    word_bytes: usize,
}

impl Lexemes {
    pub fn name(&self, term: u32) -> &str {
        &self.names[term as usize]
    }

    /// How many terms have a number.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// About how many bytes the terms take, without what the dictionaries have answered.
    pub fn bytes(&self) -> usize {
        self.name_bytes
    }

    /// Forgets what the dictionaries have answered, if that is more than so many bytes: they can be asked again.
    pub fn forget_words(&mut self, above: usize) {
        if self.word_bytes > above {
            self.words = HashMap::new();
            self.word_bytes = 0;
        }
    }

    /// The terms of each text. A text of stop words alone keeps them.
    pub fn rows(&mut self, collection: &Collection, texts: &[&str]) -> Result<Vec<Row>> {
        let split: Vec<HashMap<Term, u32>> = texts
            .iter()
            .map(|text| {
                let mut counts = HashMap::new();
                terms(text, &mut tick, |term| *counts.entry(term).or_default() += 1);
                counts
            })
            .collect();
        self.look_up(collection, &split)?;
        Ok(split.into_iter().map(|terms| self.row(terms)).collect())
    }

    /// The text search configuration of the collection, or nothing where it has been dropped.
    pub fn configuration(collection: &Collection) -> Result<Option<pg_sys::Oid>> {
        let sql = "SELECT oid FROM pg_ts_config WHERE oid::regconfig::text = $1";
        let found = collection.query(sql, &[collection.options.language.as_str().into()], |row| row.need(1))?;
        Ok(found.into_iter().next())
    }

    fn dictionaries(&mut self, collection: &Collection) -> Result<pg_sys::Oid> {
        if let Some(known) = self.configuration {
            return Ok(known);
        }
        let language = &collection.options.language;
        let found = Self::configuration(collection)?.ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                format!("text search configuration {} does not exist", quoted(language)),
            )
            .detail(format!(
                "It is the language of collection {}.",
                quoted(&collection.name)
            ))
            .hint("CREATE TEXT SEARCH CONFIGURATION makes it again.")
        })?;
        self.configuration = Some(found);
        Ok(found)
    }

    /// Asks the dictionaries for the words that are new.
    fn look_up(&mut self, collection: &Collection, texts: &[HashMap<Term, u32>]) -> Result<()> {
        let mut new: Vec<&str> = texts
            .iter()
            .flat_map(HashMap::keys)
            .filter_map(|term| match term {
                Term::Word(word) if !self.words.contains_key(word) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        new.sort_unstable();
        new.dedup();
        if new.is_empty() {
            return Ok(());
        }
        let new: Vec<String> = new.into_iter().map(str::to_owned).collect();
        let configuration = self.dictionaries(collection)?;
        for part in new.chunks(5_000) {
            let sql = "SELECT u.word, tsvector_to_array(to_tsvector($1::regconfig, u.word)) FROM unnest($2::text[]) AS u (word)";
            let args = [configuration.into(), part.to_vec().into()];
            for (word, lexemes) in collection.query(sql, &args, |row| {
                Ok((row.need::<String>(1)?, row.need::<Vec<String>>(2)?))
            })? {
                let numbers: Box<[u32]> = lexemes.into_iter().map(|lexeme| self.number(lexeme)).collect();
                self.word_bytes += word.len() + 4 * numbers.len() + ENTRY;
                self.words.insert(word, numbers);
            }
        }
        Ok(())
    }

    fn number(&mut self, name: String) -> u32 {
        if let Some(&number) = self.numbers.get(name.as_str()) {
            return number;
        }
        let number = self.names.len() as u32;
        let name = name.into_boxed_str();
        self.name_bytes += 2 * name.len() + ENTRY;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    fn row(&mut self, terms: HashMap<Term, u32>) -> Row {
        let mut row = Row::with_capacity(terms.len());
        let mut stopped = Vec::new();
        for (term, count) in terms {
            match term {
                Term::Whole(name) => row.push((self.number(name), count)),
                Term::Word(word) => match self.words.get(&word) {
                    Some(known) if !known.is_empty() => row.extend(known.iter().map(|&number| (number, count))),
                    _ => stopped.push((word, count)),
                },
            }
        }
        if row.is_empty() {
            row = stopped
                .into_iter()
                .map(|(word, count)| (self.number(word), count))
                .collect();
        }
        row.sort_unstable();
        row.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        row.sort_unstable_by(|a, b| self.name(a.0).cmp(self.name(b.0)));
        row
    }
}
