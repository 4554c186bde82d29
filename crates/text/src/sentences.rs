//! Sentences: what a leaf is cut at, and what the extractive summary picks from.

use std::ops::Range;

/// Words that end with a full stop and go on.
const ABBREVIATIONS: &[&str] = &[
    "adj", "adm", "approx", "arts", "bzw", "ca", "capt", "cf", "cmdr", "col", "d.h", "dept", "dr", "drs", "e.g", "eg",
    "eq", "eqs", "evtl", "excl", "fig", "figs", "fr", "ft", "gen", "ggf", "gov", "hon", "i.e", "ie", "incl", "lt",
    "messrs", "mgr", "mlle", "mme", "mr", "mrs", "ms", "mt", "pp", "pres", "prof", "rep", "resp", "rev", "sen", "sgt",
    "sr", "sra", "srta", "st", "u.a", "v", "viz", "vol", "vols", "vs", "z.b",
];

/// Words whose full stop ends a sentence only before a capital letter (or a script without case).
const BEFORE_LOWER: &[&str] = &[
    "a.m", "al", "bros", "co", "corp", "ed", "eds", "esp", "est", "etc", "inc", "jr", "llc", "ltd", "max", "min",
    "misc", "p.m", "temp", "usw", "wrt",
];

/// Words whose full stop belongs to a number behind it.
const BEFORE_NUMBER: &[&str] = &[
    "abs", "apr", "art", "aug", "ch", "chap", "dec", "feb", "jan", "jul", "jun", "mar", "no", "nos", "nov", "nr",
    "num", "oct", "p", "para", "ref", "refs", "sec", "sep", "sept", "tab", "ver",
];

const LONGEST_ABBREVIATION: usize = 8;

/// The sentences of `text` as byte ranges: contiguous, in order, covering all of it, each with its trailing white space.
///
/// A sentence ends
/// - after `.`, `!`, `?`, `…` (and the marks of other scripts) before white space, closing quotes and brackets included,
///   unless an abbreviation, an initial or a list number ends there, or the sentence goes on with a small letter
///   behind a quotation or an ellipsis;
/// - after `。`, `！`, `？`, where no white space has to follow;
/// - at a blank line, at the end of a line that is a heading, a table row, a list item (unless an indented line
///   continues it) or ends like code (`;`, `{`, `}`), before a line that starts one of these, and at each line end
///   between code fences.
///
/// White space before the first sentence belongs to it; a text of white space alone is one sentence, an empty text none.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut scan = Ends::new(text);
    let mut start = 0;
    std::iter::from_fn(|| scan.next(&mut || {}))
        .map(|end| std::mem::replace(&mut start, end)..end)
        .collect()
}

/// Where the [`sentences`] of a text end, one after the other, so that a long one need not be split at once.
pub(crate) struct Ends<'a> {
    text: &'a str,
    /// Where the last sentence ended.
    end: usize,
    here: Option<Line>,
    below: Option<Line>,
    /// How far `here` was searched for marks.
    at: usize,
    fenced: bool,
}

impl<'a> Ends<'a> {
    pub fn new(text: &'a str) -> Self {
        let here = read_line(text, 0, None);
        let below = here.as_ref().and_then(|here| read_line(text, here.end, Some(here)));
        Ends {
            text,
            end: 0,
            here,
            below,
            at: 0,
            fenced: false,
        }
    }

    /// The next end, in bytes. `tick` is called at each line.
    pub fn next(&mut self, tick: &mut dyn FnMut()) -> Option<usize> {
        while let Some(here) = &self.here {
            let inside = self.fenced && here.kind != Kind::Fence;
            let mut cut = None;
            if here.kind != Kind::Blank && !inside && self.at < here.content_end {
                cut = next_mark(self.text, here, &mut self.at);
            }
            let start = here.start;
            if cut.is_none() {
                tick();
                self.fenced ^= here.kind == Kind::Fence && !here.goes_on;
                let ends = !here.goes_on
                    && (inside
                        || here.kind == Kind::Fence
                        || self.below.as_ref().is_none_or(|below| parts(self.text, here, below)));
                cut = ends.then_some(here.content_end);
                self.here = self.below.take();
                if let Some(here) = &self.here {
                    self.at = here.start;
                    self.below = read_line(self.text, here.end, Some(here));
                }
            }
            // Not behind a line of white space, which belongs to what stands before it.
            if let Some(cut) = cut.filter(|&cut| cut > self.end && cut > start) {
                self.end = self.text.len() - self.text[cut..].trim_start().len();
                return Some(self.end);
            }
        }
        let rest = self.end < self.text.len();
        self.end = self.text.len();
        rest.then_some(self.end)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blank,
    Plain,
    Heading,
    Item,
    Row,
    Fence,
    /// A line of `=` or `-`: it underlines a heading or separates.
    Rule,
}

struct Line {
    start: usize,
    /// Behind the last byte that is not white space.
    content_end: usize,
    end: usize,
    indent: usize,
    kind: Kind,
    /// Whether it is a part of a line that is too long to be looked at in one step, and not the last.
    goes_on: bool,
}

/// The longest line, in bytes, that is looked at in one step.
const STEP: usize = 1 << 16;

fn read_line(text: &str, start: usize, before: Option<&Line>) -> Option<Line> {
    let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
    let step = &rest[..rest.floor_char_boundary(STEP)];
    let (length, goes_on) = match step.bytes().position(|b| b == b'\n' || b == b'\r') {
        Some(at) if rest[at..].starts_with("\r\n") => (at + 2, false),
        Some(at) => (at + 1, false),
        None => (step.len(), step.len() < rest.len()),
    };
    let content = rest[..length].trim_end();
    // Quoted lines are judged by what they quote.
    let inner = content.trim_start_matches(|c: char| c == '>' || c.is_whitespace());
    Some(Line {
        start,
        content_end: start + content.len(),
        end: start + length,
        indent: content.len() - content.trim_start().len(),
        kind: before
            .filter(|before| before.goes_on)
            .map_or_else(|| kind(inner), |before| before.kind),
        goes_on,
    })
}

fn kind(line: &str) -> Kind {
    let Some(first) = line.chars().next() else {
        return Kind::Blank;
    };
    let spaced = |rest: &str| rest.is_empty() || rest.starts_with(char::is_whitespace);
    match first {
        '#' => {
            let rest = line.trim_start_matches('#');
            if line.len() - rest.len() <= 6 && spaced(rest) {
                Kind::Heading
            } else {
                Kind::Plain
            }
        }
        '|' => Kind::Row,
        '`' if line.starts_with("```") => Kind::Fence,
        '~' if line.starts_with("~~~") => Kind::Fence,
        '=' | '-' if line.len() > 1 && line.bytes().all(|b| b == first as u8) => Kind::Rule,
        '-' | '*' | '+' | '•' | '◦' | '‣' | '▪' | '–' if spaced(&line[first.len_utf8()..]) => Kind::Item,
        _ if list_number(line).is_some_and(spaced) => Kind::Item,
        _ => Kind::Plain,
    }
}

/// What follows `1.` or `1)` at the start of a line.
fn list_number(line: &str) -> Option<&str> {
    let digits = line.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    if (1..=3).contains(&digits) {
        rest.strip_prefix('.').or_else(|| rest.strip_prefix(')'))
    } else {
        None
    }
}

/// Whether a sentence ends between a line and the one below it.
fn parts(text: &str, here: &Line, below: &Line) -> bool {
    match (here.kind, below.kind) {
        (_, Kind::Blank | Kind::Heading | Kind::Item | Kind::Row | Kind::Fence) => true,
        (Kind::Blank | Kind::Heading | Kind::Row | Kind::Fence | Kind::Rule, _) => true,
        (_, Kind::Rule) => false,
        (Kind::Item, Kind::Plain) => below.indent == 0,
        (Kind::Plain, Kind::Plain) => text[here.start..here.content_end].ends_with([';', '{', '}']),
    }
}

/// The next end of a sentence in a line, behind the mark and what closes it; `at` is moved to it, or to the line's end.
fn next_mark(text: &str, line: &Line, at: &mut usize) -> Option<usize> {
    while let Some(found) = text[*at..line.content_end].find(is_mark) {
        let mark = *at + found;
        let (end, quoted) = closed(text, mark, line.content_end);
        *at = end;
        if ends_here(text, line.start, mark, end, quoted) {
            return Some(end);
        }
    }
    *at = line.content_end;
    None
}

fn is_mark(c: char) -> bool {
    is_wide_mark(c)
        || matches!(c, '.' | '!' | '?' | '…' | '‼'..='‽' | '⁇'..='⁉' | '؟' | '۔' | '։' | '।' | '॥' | '።' | '។' | '။')
}

fn is_wide_mark(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '｡' | '．')
}

/// The end of a run of marks and closing quotes and brackets, and whether it held one of the latter.
fn closed(text: &str, at: usize, to: usize) -> (usize, bool) {
    let mut end = at;
    let mut wide = false;
    let mut quoted = false;
    for c in text[at..to].chars() {
        // “ and ‘ close a quotation in German, but open one behind a full-width mark.
        let closes = matches!(
            c,
            '"' | '\'' | '”' | '’' | '»' | ')' | ']' | '}' | '」' | '』' | '）' | '】' | '》' | '〉' | '］'
        ) || !wide && matches!(c, '“' | '‘');
        if !is_mark(c) && !closes && !matches!(c, '*' | '_' | '`') {
            break;
        }
        wide |= is_wide_mark(c);
        quoted |= closes;
        end += c.len_utf8();
    }
    (end, quoted)
}

fn ends_here(text: &str, line: usize, at: usize, end: usize, quoted: bool) -> bool {
    let run = &text[at..end];
    if run.contains(is_wide_mark) {
        return true;
    }
    let rest = &text[end..];
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return false;
    }
    let follows = rest.trim_start().chars().next();
    let lower = follows.is_some_and(char::is_lowercase);
    if lower && (quoted || run.contains('…') || run.contains("..")) {
        return false;
    }
    run != "." || !goes_on(&text[line..at], follows, lower)
}

/// Whether the full stop behind `before` belongs to an abbreviation, an initial or a list number.
fn goes_on(before: &str, follows: Option<char>, lower: bool) -> bool {
    let start = before
        .char_indices()
        .rev()
        .take(LONGEST_ABBREVIATION + 1)
        .take_while(|&(_, c)| c.is_alphanumeric() || c == '.')
        .last()
        .map_or(before.len(), |(at, _)| at);
    let word = &before[start..];
    if follows.is_none() || word.is_empty() || word.chars().count() > LONGEST_ABBREVIATION {
        return false;
    }
    if word.bytes().all(|b| b.is_ascii_digit()) {
        return before[..start].chars().all(|c| c.is_whitespace() || c == '>');
    }
    // J. R. Tolkien, U.S. Senate
    if word
        .split('.')
        .all(|part| part.chars().count() == 1 && part.chars().all(char::is_uppercase))
    {
        return true;
    }
    let folded = word.to_lowercase();
    let listed = |list: &[&str]| list.contains(&folded.as_str());
    listed(ABBREVIATIONS)
        || lower && listed(BEFORE_LOWER)
        || follows.is_some_and(char::is_numeric) && listed(BEFORE_NUMBER)
}

#[cfg(test)]
mod tests {
    use super::sentences;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<&str> {
        sentences(text)
            .into_iter()
            .map(|range| text[range].trim_end())
            .collect()
    }

    #[test]
    fn marks_end_sentences() {
        assert_eq!(
            split("One. Two! Three?\nFour… Five"),
            ["One.", "Two!", "Three?", "Four…", "Five"]
        );
        assert_eq!(
            split("He said \"stop.\" Then (it was late.) He left."),
            ["He said \"stop.\"", "Then (it was late.)", "He left."]
        );
        assert_eq!(
            split("\"Why?\" she asked. Well... maybe. No end mark"),
            ["\"Why?\" she asked.", "Well... maybe.", "No end mark"]
        );
    }

    #[test]
    fn wide_marks_need_no_space() {
        assert_eq!(
            split("图谱很大。真的吗？“是的！”他说。"),
            ["图谱很大。", "真的吗？", "“是的！”", "他说。"]
        );
        assert_eq!(
            split("彼は「行く。」と言った。終わり"),
            ["彼は「行く。」", "と言った。", "終わり"]
        );
    }

    #[test]
    fn abbreviations_initials_and_numbers_go_on() {
        for text in [
            "Dr. Smith met J. R. Tolkien at 3.14 p.m. sharp.",
            "Use a cache, e.g. this one, cf. No. 5 and Fig. 2 of vol. 3.",
            "The U.S. Senate, Acme Inc. and others, etc. agreed.",
            "1. First point",
            "А. С. Пушкин писал.",
            "Das gilt z.B. Montags.",
            "See docs.rs and ver. 2.0 on Jan. 5.",
        ] {
            assert_eq!(split(text), [text]);
        }
        assert_eq!(
            split("He said no. Then it was 10 p.m. The end. It was 2023. Done."),
            [
                "He said no.",
                "Then it was 10 p.m.",
                "The end.",
                "It was 2023.",
                "Done."
            ]
        );
    }

    #[test]
    fn lines_end_sentences_only_where_the_text_is_structured() {
        assert_eq!(
            split("A wrapped\nparagraph\r\ngoes on\n\nNext"),
            ["A wrapped\nparagraph\r\ngoes on", "Next"]
        );
        assert_eq!(
            split("# Title\nBody here\n- one\n  goes on\n- two\nrest\n| a | b |\n|---|---|\ntext"),
            [
                "# Title",
                "Body here",
                "- one\n  goes on",
                "- two",
                "rest",
                "| a | b |",
                "|---|---|",
                "text"
            ]
        );
        assert_eq!(split("Title\n=====\nBody\nmore"), ["Title\n=====", "Body\nmore"]);
        assert_eq!(
            split("> quoted\n> goes on\n>\n> next"),
            ["> quoted\n> goes on", ">", "> next"]
        );
        assert_eq!(split("1. One. Two\n2) Three"), ["1. One.", "Two", "2) Three"]);
    }

    #[test]
    fn code_ends_at_lines() {
        assert_eq!(split("fn f() {\n    g();\n    h()\n}"), ["fn f() {", "g();", "h()\n}"]);
        assert_eq!(
            split("So:\n```py\nx = 1\ny = a. b\n```\nafter\nthis"),
            ["So:", "```py", "x = 1", "y = a. b", "```", "after\nthis"]
        );
    }

    #[test]
    fn other_scripts() {
        assert_eq!(
            split("مرحبا بالعالم. كيف حالك؟ بخير"),
            ["مرحبا بالعالم.", "كيف حالك؟", "بخير"]
        );
        assert_eq!(split("यह एक है। वह दो है।"), ["यह एक है।", "वह दो है।"]);
    }

    #[test]
    fn white_space_alone_and_nothing() {
        assert_eq!(split(" \n\n "), [""]);
        assert!(sentences("").is_empty());
        assert_eq!(sentences("\n\n a. \n\nb"), [0..8, 8..9]);
    }

    proptest! {
        #[test]
        fn ranges_are_contiguous_and_cover(text in "([a-zA-Z0-9.!?…。！」”\")(\\[\\]>|#=`*;{ -]|\r\n|\n|\u{301}|🦀|図|Dr\\. |\\.\n){0,60}") {
            let mut at = 0;
            for range in sentences(&text) {
                prop_assert_eq!(range.start, at);
                prop_assert!(range.end > at);
                prop_assert!(range.end == text.len() || !text[range.end..].starts_with(char::is_whitespace));
                prop_assert!(text.trim().is_empty() || !text[range.clone()].trim().is_empty());
                at = range.end;
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
