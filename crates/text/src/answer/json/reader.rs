//! A reader of JSON that goes on where a strict one would stop.

use serde_json::{Map, Number, Value};

/// The deepest nesting; as deep as the strict reader goes.
const DEEPEST: usize = 127;

/// The longest name without quotes and the longest number, in bytes.
const LONGEST_WORD: usize = 64;

pub(super) enum Read {
    Whole(Value),
    /// The text ended inside; this came before.
    Part(Value),
    /// The text ended before anything whole.
    Cut,
    /// No JSON.
    Not,
}

/// Where a string stands; what may follow it tells its end from a quote inside.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Key,
    Member,
    Item,
}

pub(super) struct Reader<'a> {
    text: &'a str,
    /// How far it was read.
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, at: usize) -> Self {
        Reader { text, at }
    }

    /// The object or array that starts here. [`Read::Not`] if already its first member is none.
    pub fn value(&mut self) -> Read {
        self.read(Place::Item, 0)
    }

    fn read(&mut self, place: Place, depth: usize) -> Read {
        let Some(c) = self.peek() else {
            return Read::Cut;
        };
        match c {
            '{' | '[' if depth == DEEPEST => Read::Not,
            '{' => self.object(depth + 1),
            '[' => self.array(depth + 1),
            _ if closers(c).is_some() => self
                .string(place)
                .map_or(Read::Cut, |text| Read::Whole(Value::String(text))),
            '-' | '+' | '.' | '0'..='9' => self.number(),
            _ => self.literal(),
        }
    }

    fn array(&mut self, depth: usize) -> Read {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.peek() {
                None => return Read::Part(Value::Array(items)),
                Some(']') => {
                    self.at += 1;
                    return Read::Whole(Value::Array(items));
                }
                Some('}') => return Read::Whole(Value::Array(items)),
                Some(',') => self.at += 1,
                Some(bracket) => match self.read(Place::Item, depth) {
                    Read::Whole(item) => items.push(item),
                    Read::Part(item) => {
                        if holds_records(&item) {
                            items.push(item);
                        }
                        return Read::Part(Value::Array(items));
                    }
                    Read::Cut => return Read::Part(Value::Array(items)),
                    Read::Not if items.is_empty() => return Read::Not,
                    // Too deep.
                    Read::Not if depth == DEEPEST && "{[".contains(bracket) => self.at += 1,
                    Read::Not => self.skip_junk(),
                },
            }
        }
    }

    fn object(&mut self, depth: usize) -> Read {
        self.at += 1;
        let mut members = Map::new();
        loop {
            let key = match self.peek() {
                None => return Read::Part(Value::Object(members)),
                Some('}') => {
                    self.at += 1;
                    return Read::Whole(Value::Object(members));
                }
                Some(']') => return Read::Whole(Value::Object(members)),
                // The next record, behind a brace that is missing.
                Some('{' | '[') if !members.is_empty() => return Read::Whole(Value::Object(members)),
                Some(',' | ';') => {
                    self.at += 1;
                    continue;
                }
                Some(c) if closers(c).is_some() => match self.string(Place::Key) {
                    Some(key) => key,
                    None => return Read::Part(Value::Object(members)),
                },
                Some(_) => self.word().to_owned(),
            };
            match self.peek() {
                None => return Read::Part(Value::Object(members)),
                Some(':' | '=') if !key.is_empty() => self.at += 1,
                _ if members.is_empty() => return Read::Not,
                _ => {
                    self.skip_junk();
                    continue;
                }
            }
            match self.read(Place::Member, depth) {
                Read::Whole(value) => {
                    members.insert(key, value);
                }
                Read::Part(value) => {
                    members.insert(key, value);
                    return Read::Part(Value::Object(members));
                }
                Read::Cut => return Read::Part(Value::Object(members)),
                Read::Not if members.is_empty() => return Read::Not,
                Read::Not => self.skip_junk(),
            }
        }
    }

    /// The string that starts here, unless the text ends inside.
    fn string(&mut self, place: Place) -> Option<String> {
        let open = self.text[self.at..].chars().next()?;
        let closers = closers(open)?;
        self.at += open.len_utf8();
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(found) = rest.find(|c| c == '\\' || closers.contains(&c)) else {
                self.at = self.text.len();
                return None;
            };
            string.push_str(&rest[..found]);
            self.at += found;
            let c = self.text[self.at..].chars().next()?;
            if c == '\\' {
                self.at += 1 + escape(&self.text[self.at + 1..], &mut string)?;
                continue;
            }
            self.at += c.len_utf8();
            if closes(&self.text[self.at..], place) {
                return Some(string);
            }
            string.push(c);
        }
    }

    fn number(&mut self) -> Read {
        let rest = &self.text[self.at..];
        let length = rest
            .bytes()
            .take(LONGEST_WORD)
            .take_while(|b| b.is_ascii_digit() || b"+-._eE/%".contains(b))
            .count();
        // A comment may follow.
        let length = rest[..length].find("//").unwrap_or(length);
        let word = &rest[..length];
        if length == rest.len() {
            self.at += length;
            return Read::Cut;
        }
        if !word.bytes().any(|b| b.is_ascii_digit()) {
            return Read::Not;
        }
        self.at += length;
        let plain = word.trim_start_matches('+');
        let number = serde_json::from_str::<Number>(plain).ok();
        let number = number.or_else(|| plain.parse().ok().and_then(Number::from_f64));
        Read::Whole(number.map_or_else(|| Value::String(word.to_owned()), Value::Number))
    }

    fn literal(&mut self) -> Read {
        let start = self.at;
        let word = self.word();
        if !word.is_empty() && self.at == self.text.len() {
            return Read::Cut;
        }
        match word.to_ascii_lowercase().as_str() {
            "true" => Read::Whole(Value::Bool(true)),
            "false" => Read::Whole(Value::Bool(false)),
            "null" | "none" | "nil" | "undefined" | "nan" | "infinity" => Read::Whole(Value::Null),
            _ => {
                self.at = start;
                Read::Not
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let word = word(&self.text[self.at..]);
        self.at += word.len();
        word
    }

    /// The next character that is neither white space nor in a comment.
    fn peek(&mut self) -> Option<char> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches(is_space);
            self.at += rest.len() - trimmed.len();
            let end = if trimmed.starts_with("//") || trimmed.starts_with('#') {
                trimmed.find('\n')
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map(|end| end + 2)
            } else {
                return trimmed.chars().next();
            };
            self.at += end.unwrap_or(trimmed.len());
        }
    }

    /// Goes to where a value or a member may start or end.
    fn skip_junk(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find([',', ']', '}', '{', '[']).unwrap_or(rest.len());
    }
}

/// Whether a value that the cut went through holds whole records.
pub(super) fn holds_records(value: &Value) -> bool {
    let nested = |value: &Value| value.is_object() || value.is_array();
    match value {
        Value::Array(items) => items.iter().any(nested),
        Value::Object(members) => members
            .values()
            .any(|value| matches!(value, Value::Array(items) if items.iter().any(nested))),
        _ => false,
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{FEFF}' | '\u{200B}')
}

fn word(text: &str) -> &str {
    let length = text
        .bytes()
        .take(LONGEST_WORD)
        .take_while(|b| b.is_ascii_alphanumeric() || b"_$".contains(b))
        .count();
    &text[..length]
}

/// What may close a string that `open` opens.
fn closers(open: char) -> Option<&'static [char]> {
    match open {
        '"' => Some(&['"']),
        '\'' => Some(&['\'']),
        '“' | '”' | '„' | '‟' | '＂' => Some(&['”', '“', '"', '‟', '＂']),
        '‘' | '’' | '‚' => Some(&['’', '‘', '\'']),
        _ => None,
    }
}

/// Whether a quote before `rest` closes a string.
fn closes(rest: &str, place: Place) -> bool {
    let trimmed = rest.trim_start_matches(is_space);
    let starts = |c: char| closers(c).is_some() || c == '{' || c == '[';
    match trimmed.chars().next() {
        _ if place == Place::Key => true,
        None | Some('}' | ']') => true,
        Some(',') => {
            let next = trimmed[1..].trim_start_matches(is_space);
            let (item, word) = (place == Place::Item, word(next));
            match next.chars().next() {
                None | Some('}' | ']' | '…') => true,
                Some(c) if starts(c) => true,
                Some('.') => next.starts_with("..."),
                Some('/') => next.starts_with("//") || next.starts_with("/*"),
                Some('-' | '+' | '0'..='9') => item,
                _ if item => is_literal(word, word.len() == next.len()),
                _ => !word.is_empty() && next[word.len()..].trim_start_matches(is_space).starts_with(':'),
            }
        }
        Some('/') => trimmed.starts_with("//") || trimmed.starts_with("/*"),
        Some('#') => true,
        // A comma is missing at the end of the line.
        Some(c) => starts(c) && rest[..rest.len() - trimmed.len()].contains('\n'),
    }
}

/// Whether `word` is a literal, or starts one if it is `cut`.
fn is_literal(word: &str, cut: bool) -> bool {
    !word.is_empty()
        && ["true", "false", "null", "True", "False", "None"]
            .iter()
            .any(|literal| word == *literal || cut && literal.starts_with(word))
}

/// Appends what an escape means and gives its length behind the backslash, unless the text ends inside.
fn escape(rest: &str, to: &mut String) -> Option<usize> {
    let c = rest.chars().next()?;
    let meant = match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{C}',
        'u' => return unicode(rest, to),
        _ => c,
    };
    to.push(meant);
    Some(c.len_utf8())
}

/// The same for `u` and its digits; half a pair is a replacement character, NUL nothing.
fn unicode(rest: &str, to: &mut String) -> Option<usize> {
    let unit = |at: usize| {
        let digits = rest
            .get(at..at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        digits.and_then(|digits| u32::from_str_radix(digits, 16).ok())
    };
    let Some(first) = unit(1) else {
        to.push('u');
        return (rest.len() > 4).then_some(1);
    };
    let pair = rest[5..].starts_with("\\u").then(|| unit(7)).flatten();
    match (first, pair) {
        (0, _) => Some(5),
        (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
            to.extend(char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)));
            Some(11)
        }
        _ => {
            to.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
            Some(5)
        }
    }
}

/// `text` as a string literal would mean it.
pub(super) fn unescaped(text: &str) -> String {
    let mut meant = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        meant.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        rest = &rest[escape(rest, &mut meant).unwrap_or(rest.len())..];
    }
    meant + rest
}
