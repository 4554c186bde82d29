//! The extractive summary that needs no model: the sentences that say most of what a cluster of passages says.

use crate::fold::{is_quote, is_spaceless};
use crate::lines::{Kind, units};
use crate::sentences::sentences;
use crate::stop::StopWords;
use crate::tokens;
use crate::words::words;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// What a word that the summary already holds still counts.
const AGAIN: f64 = 0.1;
/// Tokens added to a sentence's length before its value is divided by it, lest a sentence of one good word win.
const SHORT: f64 = 10.0;
/// What the words of a question or of a fragment without a full stop count.
const FRAGMENT: f64 = 0.7;
/// The part of the least value of a text's first sentence which a further sentence must exceed: filling up the budget
/// with what is all but said would only blur the summary's vector.
const ENOUGH: f64 = 0.5;
/// The least share of the budget, in tokens, within which a text is given its first sentence.
const SHARE: usize = 24;

/// How much more a sentence counts that points where its text and the cluster point.
const CLOSE: f64 = 4.0;

/// A summary of `texts` in at most `max_tokens` tokens, by their words alone: [`Draft::write`] without a closeness.
pub fn frequency(texts: &[&str], max_tokens: usize, stop: &StopWords, tick: &mut dyn FnMut()) -> String {
    Draft::read(texts, stop, tick).write(max_tokens, |_| 0.0, tick)
}

struct Sentence {
    text: String,
    /// Which of the texts it is of.
    of: usize,
    tokens: usize,
    /// Its content words, each once.
    words: Vec<u32>,
    /// Whether it is prose, or of a text that has none.
    first: bool,
}

impl Sentence {
    fn holds(&self, word: u32) -> bool {
        self.words.binary_search(&word).is_ok()
    }
}

/// The sentences of the texts of a cluster, from which its summary is written.
pub struct Draft<'a> {
    texts: &'a [&'a str],
    sentences: Vec<Sentence>,
    /// For each sentence, the weights of its words.
    weights: Vec<Vec<f64>>,
    /// For each text, its most distinctive word, or several that are so alike, in ascending order.
    telling: Vec<Vec<u32>>,
}

impl<'a> Draft<'a> {
    /// Takes `texts` apart. Sentences with the same words are taken once; they lose their line breaks and their Markdown
    /// marks (heading, bullet, quote).
    ///
    /// `tick` is called at least once a thousand words.
    pub fn read(texts: &'a [&'a str], stop: &StopWords, tick: &mut dyn FnMut()) -> Draft<'a> {
        let mut ids: HashMap<String, u32> = HashMap::new();
        let mut found = Vec::new();
        let mut seen: HashSet<Vec<u32>> = HashSet::new();
        // How often each text has a word, by (text, word); and how many texts have it.
        let mut frequency: HashMap<(usize, u32), u32> = HashMap::new();
        let mut spread: HashMap<u32, u32> = HashMap::new();
        // The words of each text that a summary can show, in their order.
        let mut shown: Vec<Vec<u32>> = vec![Vec::new(); texts.len()];
        let mut count = 0_usize;
        for (of, text) in texts.iter().enumerate() {
            let units = units(text);
            let has_prose = units.iter().any(|(kind, _)| *kind == Kind::Prose);
            for (kind, range) in units {
                let unit = flat(&text[range], kind);
                for range in sentences(&unit) {
                    tick();
                    let text = unit[range].trim();
                    let mut all = Vec::new();
                    let mut content = Vec::new();
                    for (_, word) in words(text) {
                        count += 1;
                        if count.is_multiple_of(1000) {
                            tick();
                        }
                        let is_stop = stop.contains(&word);
                        let next = ids.len() as u32;
                        let id = *ids.entry(word).or_insert(next);
                        all.push(id);
                        if !is_stop {
                            content.push(id);
                            let times = frequency.entry((of, id)).or_default();
                            *times += 1;
                            if *times == 1 {
                                *spread.entry(id).or_default() += 1;
                            }
                        }
                    }
                    let first = kind == Kind::Prose || !has_prose;
                    if first {
                        shown[of].extend(&content);
                    }
                    all.sort_unstable();
                    all.dedup();
                    if all.is_empty() || !seen.insert(all) {
                        continue;
                    }
                    content.sort_unstable();
                    content.dedup();
                    found.push(Sentence {
                        text: text.to_owned(),
                        of,
                        tokens: tokens::count(text),
                        words: content,
                        first,
                    });
                }
            }
        }
        let total = texts.len() as f64;
        let own = |of: usize, word: u32| {
            f64::from(frequency[&(of, word)]).ln_1p() * ((total + 1.0) / f64::from(spread[&word])).ln()
        };
        let telling = shown
            .iter()
            .enumerate()
            .map(|(of, words)| {
                tick();
                let highest = words.iter().map(|&word| own(of, word)).fold(0.0, f64::max);
                let mut most: Vec<u32> = words.iter().copied().filter(|&word| own(of, word) >= highest).collect();
                most.sort_unstable();
                most.dedup();
                most
            })
            .collect();
        let weigh = |sentence: &Sentence, word: &u32| {
            let whole = if ends(&sentence.text, &ENDS[..STATEMENTS]) {
                1.0
            } else {
                FRAGMENT
            };
            whole * (own(sentence.of, *word) + 0.5 * f64::from(spread[word]).ln())
        };
        let weights = found
            .iter()
            .map(|s| s.words.iter().map(|word| weigh(s, word)).collect())
            .collect();
        Draft {
            texts,
            sentences: found,
            weights,
            telling,
        }
    }

    /// The sentences in their order, each with the number of its text.
    pub fn sentences(&self) -> impl Iterator<Item = (usize, &str)> {
        self.sentences
            .iter()
            .map(|sentence| (sentence.of, sentence.text.as_str()))
    }

    /// A summary in at most `max_tokens` tokens: whole sentences, verbatim, in the order in which they stand.
    ///
    /// A sentence is worth the words that it adds: those that many of the texts share (their theme), and those that are
    /// frequent in its own text and rare in the others (what that text alone says). Words which the summary already holds
    /// count a tenth, and stop words nothing. The worth is divided by the length; a fragment or a question counts less.
    /// `closeness` answers for a sentence, by its number, how near its meaning is to the middle of what the texts mean, from 0
    /// to 1, by which it counts up to five times as much. What is no number, or less than 0, is 0; where nothing is known, it is 0 for all.
    ///
    /// First each text is given one sentence, as far as the budget goes, and better one that fits its share of it: the best of
    /// those that hold the word which is most frequent in the text and rarest in the others (of several such, any), else the best.
    /// Then come sentences for texts none of whose such words is there yet. Then the best of all follow, as long as
    /// they add at least half as much as the least of the first ones.
    ///
    /// Headings, table rows and code serve only for a text that has no sentence, and if no sentence fits; if nothing fits, the
    /// best is cut at a word and ends in `…`. Sentences of one text are separated by a space, texts by a line break. Empty if
    /// the texts are.
    ///
    /// `tick` is called for each sentence that is looked at.
    ///
    /// Source: greedy budgeted maximum coverage with lazy evaluation (Lin and Bilmes 2010), word weights as in SumBasic and
    /// tf-idf; closeness to the centre after MEAD (Radev et al. 2004) and Rossiello et al. (2017).
    pub fn write(&self, max_tokens: usize, closeness: impl Fn(usize) -> f64, tick: &mut dyn FnMut()) -> String {
        let close = |at| match closeness(at) {
            close if close > 0.0 => 1.0 + CLOSE * close.min(1.0),
            _ => 1.0,
        };
        let mut chosen = Chosen {
            close: (0..self.sentences.len()).map(close).collect(),
            budget: max_tokens,
            enough: f64::INFINITY,
            words: HashSet::new(),
            texts: HashSet::new(),
            sentences: Vec::new(),
        };
        let share = (max_tokens / self.texts.len().max(1)).max(SHARE);
        let first: Vec<usize> = self.of(|sentence| sentence.first);
        let is_short = |at: &usize| self.sentences[*at].tokens <= share;
        let is_telling = |at: &usize| {
            let sentence = &self.sentences[*at];
            self.telling[sentence.of].iter().any(|word| sentence.holds(*word))
        };
        let from = || first.iter().copied();
        chosen.take(self, from().filter(is_short).filter(is_telling), true, tick);
        chosen.take(self, from().filter(is_short), true, tick);
        chosen.take(self, from().filter(is_telling), true, tick);
        chosen.take(self, from(), true, tick);
        chosen.complete(self, &first, tick);
        chosen.take(self, from(), false, tick);
        if chosen.sentences.is_empty() {
            chosen.enough = f64::NEG_INFINITY;
            chosen.take(self, self.of(|sentence| !sentence.first).into_iter(), false, tick);
        }
        while !chosen.sentences.is_empty() {
            let summary = self.join(chosen.sentences.clone());
            if tokens::count(&summary) <= max_tokens {
                return summary;
            }
            // Tokens need not add up where sentences meet; the least valuable goes.
            chosen.sentences.pop();
        }
        let best = self.best(&first).map(|at| self.sentences[at].text.as_str());
        let texts = || self.texts.iter().map(|text| text.trim());
        cut(
            best.or_else(|| texts().find(|text| !text.is_empty()))
                .unwrap_or_default(),
            max_tokens,
        )
    }

    fn of(&self, wanted: impl Fn(&Sentence) -> bool) -> Vec<usize> {
        (0..self.sentences.len())
            .filter(|&at| wanted(&self.sentences[at]))
            .collect()
    }

    /// The value of sentence `at` for a summary that holds the words `held`, by its length.
    fn value(&self, at: usize, held: &HashSet<u32>) -> f64 {
        let sentence = &self.sentences[at];
        let worth = |(word, weight): (&u32, &f64)| if held.contains(word) { AGAIN * weight } else { *weight };
        sentence.words.iter().zip(&self.weights[at]).map(worth).sum::<f64>() / (sentence.tokens as f64 + SHORT)
    }

    /// The best sentence by itself: of `first` if there are any.
    fn best(&self, first: &[usize]) -> Option<usize> {
        let all: Vec<usize> = (0..self.sentences.len()).collect();
        let from = if first.is_empty() { &all } else { first };
        let ranked = from.iter().map(|&at| Ranked {
            value: self.value(at, &HashSet::new()),
            at,
            round: 0,
        });
        ranked.max().map(|ranked| ranked.at)
    }

    fn join(&self, mut chosen: Vec<usize>) -> String {
        chosen.sort_unstable();
        let mut summary = String::new();
        let mut last: Option<&Sentence> = None;
        for at in chosen {
            let sentence = &self.sentences[at];
            if let Some(last) = last {
                // A list item without a full stop would run into the next sentence.
                summary.push_str(if !ends(&last.text, &ENDS) {
                    "\n\n"
                } else if last.of == sentence.of {
                    " "
                } else {
                    "\n"
                });
            }
            summary.push_str(&sentence.text);
            last = Some(sentence);
        }
        summary
    }
}

struct Chosen {
    /// For each sentence, what its worth is multiplied by.
    close: Vec<f64>,
    budget: usize,
    /// A further sentence of a text is worth more than this.
    enough: f64,
    words: HashSet<u32>,
    texts: HashSet<usize>,
    /// In the order of choice.
    sentences: Vec<usize>,
}

impl Chosen {
    /// Takes the most valuable of the sentences `from` as long as they fit; with `one_each`, only of texts that have none yet.
    fn take(&mut self, draft: &Draft, from: impl Iterator<Item = usize>, one_each: bool, tick: &mut dyn FnMut()) {
        let taken: HashSet<usize> = self.sentences.iter().copied().collect();
        let mut round = 0;
        let mut heap: BinaryHeap<Ranked> = from
            .filter(|at| !taken.contains(at))
            .map(|at| Ranked {
                value: self.value(draft, at),
                at,
                round,
            })
            .collect();
        // A value only falls as the summary grows, so that one which is up to date and on top is the best.
        while let Some(top) = heap.pop() {
            tick();
            let sentence = &draft.sentences[top.at];
            if sentence.tokens > self.budget || (one_each && self.texts.contains(&sentence.of)) {
                continue;
            }
            if top.round < round {
                heap.push(Ranked {
                    value: self.value(draft, top.at),
                    round,
                    ..top
                });
                continue;
            }
            if one_each {
                self.enough = self.enough.min(ENOUGH * top.value);
            } else if top.value <= self.enough {
                break;
            }
            round += 1;
            self.add(draft, top.at);
        }
    }

    /// Adds the best sentence that fits for each text whose most distinctive word is missing.
    fn complete(&mut self, draft: &Draft, from: &[usize], tick: &mut dyn FnMut()) {
        let mut missing: Vec<&[u32]> = draft.telling.iter().map(Vec::as_slice).collect();
        missing.retain(|words| !words.iter().any(|word| self.words.contains(word)));
        let mut holding: HashMap<u32, Vec<usize>> = missing.concat().iter().map(|&word| (word, Vec::new())).collect();
        for &at in from {
            tick();
            for word in &draft.sentences[at].words {
                if let Some(list) = holding.get_mut(word) {
                    list.push(at);
                }
            }
        }
        for words in missing {
            if words.iter().any(|word| self.words.contains(word)) {
                continue;
            }
            let fitting = words.iter().flat_map(|word| &holding[word]);
            let fitting = fitting.filter(|&&at| draft.sentences[at].tokens <= self.budget);
            let ranked = fitting.map(|&at| {
                tick();
                Ranked {
                    value: self.value(draft, at),
                    at,
                    round: 0,
                }
            });
            if let Some(best) = ranked.max() {
                self.add(draft, best.at);
            }
        }
    }

    fn value(&self, draft: &Draft, at: usize) -> f64 {
        self.close[at] * draft.value(at, &self.words)
    }

    fn add(&mut self, draft: &Draft, at: usize) {
        let sentence = &draft.sentences[at];
        self.budget -= sentence.tokens;
        self.words.extend(&sentence.words);
        self.texts.insert(sentence.of);
        self.sentences.push(at);
    }
}

/// A sentence in the queue: the greatest has the highest value; of equals, the earliest.
struct Ranked {
    value: f64,
    at: usize,
    /// How many sentences had been chosen when the value was computed.
    round: usize,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// The marks that end a statement, and behind them those that end other sentences.
const ENDS: [char; 12] = ['.', '。', '．', '।', '۔', '።', '!', '！', '…', '?', '？', '؟'];
const STATEMENTS: usize = 8;

fn ends(sentence: &str, marks: &[char]) -> bool {
    let bare = sentence.trim_end_matches(|c| matches!(c, ')' | ']' | '*' | '_') || is_quote(c));
    bare.ends_with(marks)
}

/// A unit as one line: no line breaks, no marks at the line starts, cells of a table separated by commas.
fn flat(unit: &str, kind: Kind) -> String {
    let mut flat = String::with_capacity(unit.len());
    let parts = unit.split(|c: char| if kind == Kind::Row { c == '|' } else { c == '\n' });
    for part in parts {
        let part = part.trim().trim_start_matches("> ");
        if part.is_empty() {
            continue;
        }
        match (flat.chars().next_back(), part.chars().next()) {
            (None, _) => {}
            (Some(_), _) if kind == Kind::Row => flat.push_str(", "),
            // Han and Kana are written without spaces, so that a line break among them is none either.
            (Some(a), Some(b)) if is_spaceless(a) && is_spaceless(b) => {}
            _ => flat.push(' '),
        }
        flat.push_str(part);
    }
    flat
}

/// The head of `text` that fits into `max_tokens` with the `…` behind it, cut at a word if it has one that short.
fn cut(text: &str, max_tokens: usize) -> String {
    if tokens::count(text) <= max_tokens {
        return text.to_owned();
    }
    let fits = |end: usize| tokens::count(&format!("{}…", text[..end].trim_end())) <= max_tokens;
    let spaces: Vec<usize> = text
        .char_indices()
        .filter(|(at, c)| *at > 0 && c.is_whitespace())
        .map(|(at, _)| at)
        .collect();
    let mut end = spaces
        .partition_point(|&end| fits(end))
        .checked_sub(1)
        .map_or(0, |last| spaces[last]);
    if end == 0 {
        let chars: Vec<usize> = text.char_indices().skip(1).map(|(at, _)| at).collect();
        end = chars
            .partition_point(|&end| fits(end))
            .checked_sub(1)
            .map_or(0, |last| chars[last]);
    }
    if end == 0 {
        String::new()
    } else {
        format!("{}…", text[..end].trim_end())
    }
}

#[cfg(test)]
mod tests;
