//! From a text to sentences of tokens with the shape that tells names from other words.

use super::is_stop;
use super::lists::is_inside;
use super::titles::Span;
use crate::fold;
use crate::lines::{Kind, units};
use crate::sentences::sentences;
use crate::stop::StopWords;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A word in small letters.
    Lower,
    /// A word with a capital at its start.
    Capital,
    /// Capitals only, and perhaps digits: an acronym or a code.
    Acronym,
    /// A capital inside: `PostgreSQL`.
    Mixed,
    /// `snake_case`, `file.txt`, or what stands between backticks.
    Identifier,
    /// No letter, or a digit in front.
    Number,
    /// A word of a script without capitals that puts spaces between words.
    Uncased,
    /// A stretch of a script without spaces between words.
    Spaceless,
}

/// What stands between a token and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// White space, or what does not end a name: an initial's full stop, an ampersand.
    Space,
    /// Nothing: the script changes.
    Adjacent,
    /// Punctuation, behind which a capital means what it means elsewhere.
    Break,
    /// The start of a sentence, a cell or a quotation: a capital there means nothing.
    Start,
}

#[derive(Debug)]
pub(super) struct Token<'a> {
    pub text: &'a str,
    pub start: usize,
    pub shape: Shape,
    pub gap: Gap,
    /// The folded text.
    pub fold: String,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

#[derive(Debug)]
pub(super) struct Sentence<'a> {
    /// Its bytes, without white space around it.
    pub bytes: Range<usize>,
    pub tokens: Vec<Token<'a>>,
    /// Whether capitals mean nothing here: a heading, or a line in title case or in capitals.
    pub titled: bool,
    /// The titles of documents in it, in order.
    pub titles: Vec<Span>,
}

/// The sentences of `text`, code left out.
pub(super) fn scan<'a>(text: &'a str, stop: &StopWords, tick: &mut dyn FnMut()) -> Vec<Sentence<'a>> {
    let mut found = Vec::new();
    for (kind, unit) in units(text) {
        if kind == Kind::Code {
            continue;
        }
        for range in sentences(&text[unit.clone()]) {
            let raw = &text[unit.start + range.start..unit.start + range.end];
            let start = unit.start + range.start + (raw.len() - raw.trim_start().len());
            let bytes = start..start + raw.trim().len();
            let tokens = tokens(text, bytes.clone(), tick);
            if tokens.is_empty() {
                continue;
            }
            let titled = kind == Kind::Heading || is_titled(&text[bytes.clone()], &tokens, stop);
            found.push(Sentence {
                bytes,
                tokens,
                titled,
                titles: Vec::new(),
            });
        }
    }
    found
}

fn is_titled(sentence: &str, tokens: &[Token], stop: &StopWords) -> bool {
    let count = |wanted: &[Shape]| {
        tokens
            .iter()
            .filter(|t| t.text.len() > 1 && wanted.contains(&t.shape))
            .count()
    };
    let shouted = count(&[Shape::Acronym]);
    let small = tokens
        .iter()
        .filter(|t| t.shape == Shape::Lower && !is_stop(t, stop) && !is_inside(&t.fold))
        .count();
    let ends = sentence.ends_with(['.', '!', '?', '…', ';']);
    let capitals = tokens
        .iter()
        .all(|t| !matches!(t.shape, Shape::Spaceless | Shape::Uncased));
    capitals
        && ((shouted > 2 && shouted > 2 * (small + count(&[Shape::Capital])))
            || (!ends && small == 0 && count(&[Shape::Capital]) > 0))
}

/// The tokens of `text[bytes]`; links, addresses, paths and tags are gaps.
fn tokens<'a>(text: &'a str, bytes: Range<usize>, tick: &mut dyn FnMut()) -> Vec<Token<'a>> {
    let mut found: Vec<Token<'a>> = Vec::new();
    let mut at = bytes.start;
    // Where the gap before the next token starts, and what it is if something was left out in it.
    let (mut gap_from, mut skipped) = (at, Some(Gap::Start));
    let mut steps = 0_usize;
    while let Some(c) = text[at..bytes.end].chars().next() {
        steps += 1;
        if steps.is_multiple_of(1000) {
            tick();
        }
        let rest = &text[at..bytes.end];
        if let Some(length) = not_text(rest, at == bytes.start || text[..at].ends_with(char::is_whitespace)) {
            at += length;
            skipped = Some(Gap::Start);
            continue;
        }
        let (skip, word, length) = if c == '`' {
            code(rest)
        } else {
            let word = if is_spaceless(c) { stretch(rest) } else { word(rest) };
            (0, word, word.len().max(c.len_utf8()))
        };
        if word.is_empty() {
            at += length;
            if c == '`' {
                skipped = skipped.or(Some(Gap::Break));
            }
            continue;
        }
        let start = at + skip;
        let gap = skipped.unwrap_or_else(|| between(&text[gap_from..at], found.last()));
        let shape = match c {
            '`' => Shape::Identifier,
            c if is_spaceless(c) => Shape::Spaceless,
            _ => shape(word),
        };
        at += length;
        let bare = if shape == Shape::Identifier {
            word
        } else {
            without_possessive(word)
        };
        // Behind `Acme's` a new name starts.
        skipped = (bare.len() < word.len()).then_some(Gap::Break);
        found.push(Token {
            text: bare,
            start,
            shape,
            gap,
            fold: fold::name(bare),
        });
        gap_from = at;
    }
    found.retain(|token| !token.fold.is_empty());
    found
}

fn between(gap: &str, before: Option<&Token>) -> Gap {
    let initial = before.is_some_and(|t| t.text.chars().count() == 1 && t.shape != Shape::Number || is_title(&t.fold));
    match gap.trim() {
        "" if gap.is_empty() => Gap::Adjacent,
        "" | "&" => Gap::Space,
        "." if initial => Gap::Space,
        mark if mark.contains([':', '|', '[', '"', '“', '„', '«', '‘', '?', '!', '…', '.', '•']) => {
            Gap::Start
        }
        _ => Gap::Break,
    }
}

/// The length of what stands at the start of `rest` and is no text: the target of a link, an address, a path, a tag.
fn not_text(rest: &str, word_start: bool) -> Option<usize> {
    if let Some(target) = rest.strip_prefix("](") {
        let end = near(target, |c| matches!(c, ')' | '\n'))?;
        return Some(2 + end + usize::from(target[end..].starts_with(')')));
    }
    if rest.starts_with('<') && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!')) {
        return near(rest, |c| matches!(c, '>' | '\n')).map(|end| end + 1);
    }
    if !word_start {
        return None;
    }
    let chunk = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
    let bare = chunk.trim_start_matches(['(', '[', '"', '\'']);
    let slashes = chunk.bytes().filter(|&b| b == b'/').count();
    let is_path =
        slashes > 1 || bare.starts_with(['/', '~', '$', '@', '-']) && bare.len() > 2 || bare.starts_with("./");
    let is_address = chunk.contains("://") || bare.starts_with("www.") || bare.trim_end_matches('.').contains('@');
    ((is_path || is_address) && chunk.is_ascii() && !chunk.contains("](") && !chunk.contains('`'))
        .then_some(chunk.len())
}

/// Where the first such character of `rest` stands, looked for no further than a link or a piece of code is long.
fn near(rest: &str, wanted: impl Fn(char) -> bool) -> Option<usize> {
    rest.char_indices()
        .take(1000)
        .find(|&(_, c)| wanted(c))
        .map(|(at, _)| at)
}

/// The number of backticks at the start of `rest`, the identifier between them and the next ones (empty if it is none),
/// and the length of it all.
fn code(rest: &str) -> (usize, &str, usize) {
    let inner = rest.trim_start_matches('`');
    let ticks = rest.len() - inner.len();
    let Some(end) = near(inner, |c| c == '`') else {
        return (ticks, "", ticks);
    };
    let content = &inner[..end];
    let name = content
        .strip_suffix("()")
        .unwrap_or(content)
        .trim_end_matches([':', '.', '-']);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    let letters = name.chars().filter(|c| c.is_alphabetic()).count();
    let good = (3..=60).contains(&letters) && name.starts_with(char::is_alphabetic) && name.chars().all(plain);
    (ticks, if good { name } else { "" }, ticks + end)
}

/// The stretch without spaces at the start of `rest`.
fn stretch(rest: &str) -> &str {
    let end = rest
        .char_indices()
        .find(|&(_, c)| !is_spaceless(c) && !is_mark(c))
        .map_or(rest.len(), |(at, _)| at);
    &rest[..end]
}

/// The word at the start of `rest`: letters and digits with what joins them.
fn word(rest: &str) -> &str {
    let mut end = 0;
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if at == 0 && !c.is_alphanumeric() {
            break;
        }
        let joins = matches!(c, '\'' | '’' | '-' | '\u{2010}' | '\u{2011}' | '.' | '_' | '&' | '·');
        if (c.is_alphanumeric() && !is_spaceless(c)) || is_mark(c) {
            end = at + c.len_utf8();
        } else if !joins
            || !chars
                .peek()
                .is_some_and(|&(_, next)| (next.is_alphanumeric() && !is_spaceless(next)) || next == '_')
        {
            break;
        }
    }
    let tail = &rest[end..];
    // C++ and C#.
    let signs = if end == 1 {
        tail.len() - tail.trim_start_matches(['+', '#']).len()
    } else {
        0
    };
    &rest[..end + signs.min(2)]
}

fn without_possessive(word: &str) -> &str {
    ["'s", "’s", "'S", "’S"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word)
}

fn shape(word: &str) -> Shape {
    let Some(first) = word.chars().next().filter(|c| c.is_alphabetic()) else {
        return Shape::Number;
    };
    let letters = || word.chars().filter(|c| c.is_alphabetic());
    let parts = |mark: char| {
        word.split(mark)
            .filter(|part| part.chars().any(char::is_alphanumeric))
            .count()
    };
    if parts('_') > 1 || is_file_like(word) {
        return Shape::Identifier;
    }
    if !first.is_uppercase() && !first.is_lowercase() {
        return Shape::Uncased;
    }
    let body = word
        .strip_suffix('s')
        .filter(|body| body.chars().count() > 1)
        .unwrap_or(word);
    if letters().count() > 1 && first.is_uppercase() && !body.chars().any(char::is_lowercase) {
        return Shape::Acronym;
    }
    // `Postgres-provided` is no name.
    let adjective = word
        .split(['-', '\u{2010}', '\u{2011}'])
        .skip(1)
        .last()
        .is_some_and(|part| part.starts_with(char::is_lowercase));
    let camel = word
        .chars()
        .zip(word.chars().skip(1))
        .any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    match () {
        () if adjective => Shape::Lower,
        () if camel => Shape::Mixed,
        () if first.is_uppercase() => Shape::Capital,
        () => Shape::Lower,
    }
}

/// Whether a full stop inside joins `word`, as in `node.js` and unlike in `e.g` and `end.Next`.
fn is_file_like(word: &str) -> bool {
    let parts = word.split('.');
    let mut before: Option<char> = None;
    let mut count = 0;
    for part in parts {
        let starts_upper = part.starts_with(char::is_uppercase);
        if part.chars().filter(|c| c.is_alphanumeric()).count() < 2 || !part.starts_with(char::is_alphabetic) {
            return false;
        }
        if starts_upper && before.is_some_and(char::is_lowercase) {
            return false;
        }
        before = part.chars().next_back();
        count += 1;
    }
    count > 1
}

/// Words before a name that say who somebody is and are no part of it, folded.
pub(super) fn is_title(fold: &str) -> bool {
    const TITLES: [&str; 22] = [
        "mr",
        "mrs",
        "ms",
        "miss",
        "dr",
        "prof",
        "professor",
        "sir",
        "lady",
        "lord",
        "herr",
        "frau",
        "hr",
        "fr",
        "mme",
        "mlle",
        "monsieur",
        "madame",
        "señor",
        "señora",
        "signor",
        "г-н",
    ];
    TITLES.contains(&fold)
}

/// Whether `c` is of a script that puts no spaces between words.
pub(super) fn is_spaceless(c: char) -> bool {
    fold::is_spaceless(c)
        || matches!(c, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{3100}'..='\u{312F}')
            && c.is_alphabetic()
}

/// Whether `c` belongs to the letter before it.
fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c) || matches!(c, '\u{200C}' | '\u{200D}')
}
