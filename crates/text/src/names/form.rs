//! A name taken apart.

use super::{LONGEST, latin, lists};
use crate::fold;
use unicode_normalization::char::is_combining_mark;

/// A folded name as the rules see it.
#[derive(Debug, Default)]
pub struct Form {
    /// Without articles, titles and legal forms, unless nothing else is there; the part behind a single comma first.
    pub words: Vec<Word>,
    /// Titles, sorted.
    pub titles: Vec<String>,
    /// Legal forms, sorted.
    pub forms: Vec<&'static str>,
    pub article: bool,
    /// Whether the part behind a comma was put first.
    pub turned: bool,
    /// Digits, numerals and ordinals, in order.
    pub numbers: Vec<String>,
    /// Han numerals, in order.
    pub han_numbers: String,
    /// Words and characters that tell siblings apart, sorted.
    pub siblings: Vec<String>,
    /// Signs such as `+`, in order.
    pub signs: String,
    /// A bit for each script that [`latin::skeleton`] rewrites.
    pub scripts: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// Of one script, without accents.
    pub plain: String,
    /// In Latin letters; a numeral by its value.
    pub skeleton: String,
    /// By its sound.
    pub sound: String,
    /// Whether a dot stands behind it.
    pub dot: bool,
    /// Whether a comma stands behind it.
    comma: bool,
    /// Whether it is a number.
    pub number: bool,
}

impl Word {
    /// Whether it is one letter.
    pub fn is_letter(&self) -> bool {
        !self.number && self.plain.chars().nth(1).is_none() && !self.plain.chars().any(is_unspaced)
    }

    fn is_initial(&self) -> bool {
        self.dot && self.is_letter()
    }

    pub fn is_function(&self) -> bool {
        lists::has(lists::FUNCTION, &self.plain)
    }
}

impl Form {
    /// `None` if the name has no letter or digit, or is longer than [`LONGEST`].
    pub fn of(folded: &str) -> Option<Self> {
        if folded.chars().nth(LONGEST).is_some() {
            return None;
        }
        let mut form = Self::default();
        form.split(folded);
        if form.words.is_empty() {
            return None;
        }
        form.number();
        form.turn();
        form.strip();
        for word in &form.words {
            if lists::has(lists::SIBLINGS, &word.plain) {
                form.siblings.push(word.plain.clone());
            } else if word.plain.chars().all(fold::is_spaceless) {
                let chars = word.plain.chars().filter(|&c| lists::SIBLING_CHARS.contains(c));
                form.siblings.extend(chars.map(String::from));
            }
        }
        form.siblings.sort();
        Some(form)
    }

    /// All words' skeletons without spaces.
    pub fn compact(&self) -> String {
        self.words.iter().map(|word| word.skeleton.as_str()).collect()
    }

    fn split(&mut self, folded: &str) {
        let (mut text, mut last) = (String::new(), ' ');
        let mut chars = folded.chars().peekable();
        while let Some(c) = chars.next() {
            if c.is_alphanumeric() || is_combining_mark(c) {
                self.scripts |= match c {
                    '\u{400}'..='\u{52F}' => 1,
                    '\u{370}'..='\u{3FF}' => 2,
                    '\u{30A1}'..='\u{30F6}' => 4,
                    '\u{3041}'..='\u{3096}' => 8,
                    _ => 0,
                };
                text.push(c);
            } else if matches!(c, '\'' | '"' | '`') && last.is_alphanumeric() && chars.peek().is_some_and(|c| *c != ' ')
            {
                // Inside a word; a possessive is left out.
                let mut ahead = chars.clone();
                if c == '\'' && ahead.next() == Some('s') && !ahead.next().is_some_and(char::is_alphanumeric) {
                    chars.next();
                }
            } else {
                self.push(&mut text);
                match c {
                    '.' | ',' if last.is_alphanumeric() || last == '.' => {
                        if let Some(word) = self.words.last_mut() {
                            (word.dot, word.comma) = (word.dot || c == '.', word.comma || c == ',');
                        }
                    }
                    '&' => self.push(&mut "and".to_owned()),
                    _ if is_separator(c) => {}
                    _ => self.signs.push(c),
                }
            }
            last = c;
        }
        self.push(&mut text);
    }

    fn push(&mut self, text: &mut String) {
        if text.is_empty() {
            return;
        }
        let plain = latin::plain(&std::mem::take(text));
        let plain = lists::SHORT
            .contains(&format!("{plain}="))
            .then(|| lists::counted(lists::SHORT, &plain))
            .flatten()
            .map_or(plain, str::to_owned);
        let skeleton = latin::skeleton(&plain);
        let sound = latin::sound(&skeleton);
        self.words.push(Word {
            plain,
            skeleton,
            sound,
            dot: false,
            comma: false,
            number: false,
        });
    }

    /// Finds the numbers and writes numerals by their value.
    fn number(&mut self) {
        let count = self.words.len();
        for at in 0..count {
            let after_letter = at > 0 && self.words[at - 1].is_letter();
            let word = &mut self.words[at];
            let digits = word.plain.trim_end_matches(|c: char| c.is_ascii_lowercase());
            let ordinal = matches!(&word.plain[digits.len()..], "st" | "nd" | "rd" | "th");
            let value = if ordinal && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                Some(digits.to_owned())
            } else if at + 1 == count && count > 1 && word.is_letter() && !word.dot && !after_letter {
                // `Vitamin C`, `World War I`.
                Some(roman(&word.plain).map_or(word.plain.clone(), |value| value.to_string()))
            } else {
                let long = word.plain.len() > 2 || word.plain.bytes().all(|b| b"ivx".contains(&b));
                let value = roman(&word.plain).filter(|_| long && word.plain.len() > 1 && !word.dot);
                let value = value.map(|value| value.to_string());
                value.or_else(|| {
                    let lists = lists::NUMBERS.iter().chain(&lists::ORDINALS);
                    let mut lists = lists.filter(|(list, _)| lists::has(list, &word.plain));
                    lists.next().map(|(_, value)| (*value).to_owned())
                })
            };
            if let Some(value) = value {
                word.skeleton.clone_from(&value);
                word.sound.clone_from(&value);
                word.number = true;
                self.numbers.push(value);
            } else {
                let runs = word.plain.split(|c: char| !c.is_numeric());
                self.numbers
                    .extend(runs.filter(|run| !run.is_empty()).map(str::to_owned));
            }
            let han = word.plain.chars().filter(|&c| lists::HAN_NUMERALS.contains(c));
            self.han_numbers.extend(han);
        }
    }

    /// `Lovelace, Ada` and `Tolkien J. R.` as `Ada Lovelace` and `J. R. Tolkien`.
    fn turn(&mut self) {
        let commas: Vec<usize> = (0..self.words.len()).filter(|&at| self.words[at].comma).collect();
        let count = self.words.len();
        let behind = |at: usize| self.words[at].plain.as_str();
        let initials = self.words.iter().rev().take_while(|word| word.is_initial()).count();
        if let [at] = commas[..]
            && at + 1 < count
            && self.suffix(count) == count
            && !lists::has(lists::TITLES, behind(count - 1))
            && !matches!(behind(count - 1), "jr" | "sr" | "junior" | "senior")
        {
            self.words.rotate_left(at + 1);
            self.turned = true;
        } else if initials > 0 && initials < count && self.suffix(count) == count && !self.words[0].is_letter() {
            self.words.rotate_right(initials);
            self.turned = true;
        }
    }

    /// Where the legal form behind the first `end` words begins: `end` if there is none.
    fn suffix(&self, end: usize) -> usize {
        let form = |from: usize| -> bool {
            let joined: String = self.words[from..end].iter().map(|word| word.plain.as_str()).collect();
            lists::counted(lists::FORMS, &joined).is_some()
        };
        let mut from = end;
        while from > 1 && self.words[from - 1].is_initial() {
            from -= 1;
        }
        // All dotted letters at the end together: `S. p. A.`.
        if end - from > 1 && !self.words[from - 1].is_initial() && form(from) {
            return from;
        }
        if end > 1 && !self.words[end - 1].is_letter() && form(end - 1)
            || end > 1 && is_mark(&self.words[end - 1].plain)
        {
            return end - 1;
        }
        end
    }

    /// Takes articles, titles and legal forms off.
    fn strip(&mut self) {
        loop {
            let count = self.words.len();
            let from = self.suffix(count);
            if from == count {
                break;
            }
            let joined: String = self.words[from..].iter().map(|word| word.plain.as_str()).collect();
            self.forms.extend(lists::counted(lists::FORMS, &joined));
            self.words.truncate(from);
        }
        if self.words.len() > 1 && lists::has(lists::FORMS_BEFORE, &self.words[0].plain) {
            let word = self.words.remove(0);
            self.forms
                .extend(lists::counted(lists::FORMS, &word.plain).or(Some("pt")));
        }
        if self.words.len() > 1 && lists::has(lists::ARTICLES, &self.words[0].plain) {
            self.words.remove(0);
            self.article = true;
        }
        while self.words.len() > 1 && lists::has(lists::TITLES, &self.words[0].plain) {
            self.titles.push(self.words.remove(0).plain);
        }
        while let Some(last) = self
            .words
            .pop_if(|last| lists::has("phd md esq mba obe cbe bey hanim", &last.plain))
        {
            if self.words.is_empty() {
                self.words.push(last);
                break;
            }
            self.titles.push(last.plain);
        }
        for form in lists::FORMS_JOINED.split_ascii_whitespace() {
            let ends = [self.words.len() - 1, 0];
            for at in ends {
                let plain = &self.words[at].plain;
                let rest = plain.strip_suffix(form).or_else(|| plain.strip_prefix(form));
                if let Some(rest) = rest.filter(|rest| !rest.is_empty()).map(str::to_owned) {
                    self.words[at].set(rest);
                    self.forms.push(form);
                } else if plain == form && self.words.len() > 1 {
                    self.words.remove(at);
                    self.forms.push(form);
                    break;
                }
            }
        }
        for title in lists::HONORIFICS.split_ascii_whitespace() {
            let at = self.words.len() - 1;
            let rest = self.words[at].plain.strip_suffix(title);
            if let Some(rest) = rest.filter(|rest| rest.chars().nth(1).is_some()).map(str::to_owned) {
                self.words[at].set(rest);
                self.titles.push(title.to_owned());
            } else if at > 0 && self.words[at].plain == title {
                self.words.pop();
                self.titles.push(title.to_owned());
            }
        }
        self.titles.sort();
        self.forms.sort_unstable();
        self.forms.dedup();
    }
}

impl Word {
    fn set(&mut self, plain: String) {
        self.skeleton = latin::skeleton(&plain);
        self.sound = latin::sound(&self.skeleton);
        self.plain = plain;
    }
}

fn is_mark(plain: &str) -> bool {
    matches!(plain, "株" | "주")
}

/// Whether `c` is of a script written without spaces.
pub fn is_unspaced(c: char) -> bool {
    fold::is_spaceless(c)
        || matches!(c, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{AC00}'..='\u{D7A3}')
}

/// Whether `c` stands between words and says nothing.
fn is_separator(c: char) -> bool {
    fold::is_quote(c)
        || matches!(
            c,
            ' ' | '-' | '\'' | '"' | '.' | ',' | ':' | ';' | '/' | '\\' | '(' | ')' | '[' | ']' | '{' | '}' | '!' | '?'
        )
        || matches!(
            c,
            '·' | '・'
                | '•'
                | '،'
                | '؛'
                | '؟'
                | '、'
                | '。'
                | '…'
                | '‧'
                | '՝'
                | '՛'
                | '՜'
                | '՞'
                | '।'
                | '¿'
                | '¡'
                | '`'
                | '|'
        )
}

/// The value of a numeral of the letters `i`, `v`, `x`, `l` and `c`, as the rules would write it.
fn roman(text: &str) -> Option<i32> {
    let value = |c| match c {
        'i' => Some(1),
        'v' => Some(5),
        'x' => Some(10),
        'l' => Some(50).filter(|_| text.len() > 1),
        'c' => Some(100).filter(|_| text.len() > 1),
        _ => None,
    };
    let values: Vec<i32> = text.chars().map(value).collect::<Option<_>>()?;
    let mut sum = 0;
    for (at, &value) in values.iter().enumerate() {
        let less = values.get(at + 1).is_some_and(|&next| next > value);
        sum += if less { -value } else { value };
    }
    (written(sum) == text).then_some(sum)
}

fn written(mut value: i32) -> String {
    let mut text = String::new();
    for (worth, letters) in [
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ] {
        while value >= worth && text.len() < 16 {
            text.push_str(letters);
            value -= worth;
        }
    }
    text
}
