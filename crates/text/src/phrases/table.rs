//! The entities of a block, and where they stand in its sentences.

use super::names::key;
use super::scan::{Gap, Sentence, Shape, Token};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The entities found so far, by folded name.
#[derive(Default)]
pub(super) struct Table {
    kinds: HashMap<String, &'static str>,
    /// The first words of the keys.
    starts: HashSet<String>,
    /// The most words of a key, and the most graphemes of one without spaces.
    words: usize,
    graphemes: usize,
    /// Titles of scripts without spaces, as they are written.
    titles: HashSet<String>,
}

/// Where an entity stands.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    pub key: String,
    pub kind: &'static str,
    pub bytes: Range<usize>,
    /// The tokens of the sentence that it touches.
    pub tokens: Range<usize>,
    /// Whether it is the title of a document.
    pub titled: bool,
}

impl Table {
    /// Adds the entity `key`, unless it is there.
    pub fn enter(&mut self, key: &str, kind: &'static str) {
        let parts = key.split(' ').count();
        self.words = self.words.max(parts);
        self.starts.extend(key.split(' ').next().map(str::to_owned));
        self.kinds.entry(key.to_owned()).or_insert(kind);
    }

    /// Adds an entity of a script without spaces, as it is written.
    pub fn enter_spaceless(&mut self, name: &str, kind: &'static str) {
        self.graphemes = self.graphemes.max(name.graphemes(true).count());
        self.kinds.entry(name.to_owned()).or_insert(kind);
    }

    /// Adds the title of a document in a script without spaces.
    pub fn enter_title(&mut self, name: &str) {
        self.enter_spaceless(name, super::NAME);
        self.titles.insert(name.to_owned());
    }

    pub fn holds(&self, key: &str) -> bool {
        self.kinds.contains_key(key)
    }

    /// The entities in `sentence`, the longest at each place, in order.
    pub fn occurrences(&self, sentence: &Sentence) -> Vec<Occurrence> {
        let tokens = &sentence.tokens;
        let mut found = Vec::new();
        let mut at = 0;
        let mut titles = sentence.titles.iter().peekable();
        while at < tokens.len() {
            let title = titles.next_if(|title| title.tokens.start == at);
            if let Some(title) = title {
                let joined = key(&tokens[title.tokens.clone()]);
                found.push(Occurrence {
                    key: title.key.clone(),
                    kind: self.kinds.get(&joined).copied().unwrap_or(title.kind),
                    bytes: title.bytes.clone(),
                    tokens: title.tokens.clone(),
                    titled: true,
                });
                at = title.tokens.end;
                continue;
            }
            if tokens[at].shape == Shape::Spaceless {
                self.inside(&tokens[at], at, &mut found);
                at += 1;
                continue;
            }
            // What is left of a name in front of a title is none.
            let before = titles.peek().map_or(tokens.len(), |title| title.tokens.start);
            let end = self.longest(&tokens[..before], at);
            if end > at {
                let key = key(&tokens[at..end]);
                let kind = self.kinds[&key];
                let bytes = tokens[at].start..tokens[end - 1].end();
                found.push(Occurrence {
                    key,
                    kind,
                    bytes,
                    tokens: at..end,
                    titled: false,
                });
            }
            at = end.max(at + 1);
        }
        found
    }

    fn longest(&self, tokens: &[Token], at: usize) -> usize {
        let first = tokens[at].fold.split(' ').next().unwrap_or_default();
        if !self.starts.contains(first) {
            return at;
        }
        let mut key = String::new();
        let mut longest = at;
        for (end, token) in (at + 1..).zip(&tokens[at..]).take(self.words) {
            if end > at + 1 {
                if token.gap != Gap::Space {
                    break;
                }
                key.push(' ');
            }
            key.push_str(&token.fold);
            let Some(kind) = self.kinds.get(&key) else { continue };
            // `apple` is not `Apple`.
            let is_small_name =
                end == at + 1 && token.shape == Shape::Lower && !matches!(*kind, super::CONCEPT | super::CODE);
            if !is_small_name {
                longest = end;
            }
        }
        longest
    }

    fn inside(&self, token: &Token, at: usize, found: &mut Vec<Occurrence>) {
        if self.graphemes == 0 {
            return;
        }
        let mut bounds: Vec<usize> = token.text.grapheme_indices(true).map(|(at, _)| at).collect();
        bounds.push(token.text.len());
        let mut from = 0;
        while from + 1 < bounds.len() {
            let last = (from + self.graphemes).min(bounds.len() - 1);
            let hit = (from + 1..=last).rev().find_map(|to| {
                let (key, kind) = self.kinds.get_key_value(&token.text[bounds[from]..bounds[to]])?;
                Some((to, key.clone(), *kind))
            });
            let Some((to, key, kind)) = hit else {
                from += 1;
                continue;
            };
            let bytes = token.start + bounds[from]..token.start + bounds[to];
            found.push(Occurrence {
                key,
                kind,
                bytes,
                tokens: at..at + 1,
                titled: self.titles.contains(&token.text[bounds[from]..bounds[to]]),
            });
            from = to;
        }
    }
}
