//! Records of fields that marks part: `("entity"<|>NAME<|>…)##` of GraphRAG and of LightRAG up to 1.4, the claims of
//! GraphRAG, which have no head, and the lines `entity<|#|>Name<|#|>…` of LightRAG since.

use super::extraction::{Claim, Entity, Extraction, Relation, first_keyword, has_status};
use super::{Format, bare, number, reason};

/// How many fields a claim has: with the words of the text that say it, which a model may leave out.
const CLAIM: usize = 8;

/// The strength of a relation for which the model gave no number; that of GraphRAG.
const STRENGTH: f64 = 1.0;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Entity,
    Relation,
    Claim,
    /// Keywords of the text; no record.
    Keywords,
    /// A claim, if it has a status.
    Unknown,
}

const KINDS: [(&str, Kind); 6] = [
    ("entity", Kind::Entity),
    ("relationship", Kind::Relation),
    ("relation", Kind::Relation),
    ("claim", Kind::Claim),
    ("covariate", Kind::Claim),
    ("content_keywords", Kind::Keywords),
];

struct Row<'a> {
    kind: Kind,
    bracket: bool,
    fields: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// A row of no known kind, whose first field ends `chunk`, and what stands before it.
    fn unknown(chunk: &'a str) -> (Self, &'a str) {
        let line = chunk.trim_end().rfind('\n').map_or(0, |at| at + 1);
        let start = chunk.rfind("##").map_or(line, |at| line.max(at + 2));
        let (before, first) = chunk.split_at(start);
        let inner = first.trim_start().strip_prefix(['(', '（']);
        let row = Row {
            kind: Kind::Unknown,
            bracket: inner.is_some(),
            fields: vec![inner.unwrap_or(first)],
        };
        (row, before)
    }

    fn is_full(&self) -> bool {
        self.fields.len()
            >= match self.kind {
                Kind::Entity => 3,
                Kind::Relation => 4,
                Kind::Claim => CLAIM - 1,
                Kind::Keywords => 1,
                Kind::Unknown => 2,
            }
    }

    /// Whether a record with this head may follow.
    fn ends_before(&self, head: &Head) -> bool {
        // The type of a claim may be called so.
        self.is_full() && (head.kind != Kind::Claim || self.fields.len() >= CLAIM - 1)
    }
}

/// The records of a reply; none if it has none and does not say that it is complete either.
pub(super) fn read(text: &str) -> Option<Extraction> {
    let (body, complete) = completed(text);
    let marks = marks(body);
    let mut out = Extraction {
        format: Format::Tuple,
        ..Extraction::default()
    };
    // One damaged mark does not make another format.
    let lines = marks.iter().filter(|mark| mark.hash).count() * 2 >= marks.len();
    let mut row: Option<Row> = None;
    let mut at = 0;
    for mark in &marks {
        let chunk = &body[at..mark.start];
        let first = at == 0;
        at = mark.end;
        out.repairs.broken |= mark.damaged;
        let head =
            head(chunk).filter(|head| first || head.fresh || row.as_ref().is_none_or(|row| row.ends_before(head)));
        if let Some(head) = head {
            if let Some(row) = row.take() {
                finish(&mut out, row, &chunk[..head.start], lines, true);
            } else {
                out.repairs.fence = !chunk[..head.start].trim().is_empty();
            }
            row = Some(Row {
                kind: head.kind,
                bracket: head.bracket,
                fields: Vec::new(),
            });
            continue;
        }
        match &mut row {
            Some(open) if !goes_over(chunk, open.bracket) => open.fields.push(chunk),
            // What follows is of no known kind.
            _ => {
                if let Some(row) = row.take() {
                    finish(&mut out, row, chunk, lines, true);
                }
                let (unknown, before) = Row::unknown(chunk);
                out.repairs.fence |= first && !before.trim().is_empty();
                row = Some(unknown);
            }
        }
    }
    if let Some(row) = row {
        finish(&mut out, row, &body[at..], lines, complete);
    }
    out.repairs.fence |= text.contains("```");
    (!out.is_empty() || complete && body.trim().is_empty()).then_some(out)
}

/// `text` up to the mark of completion, and whether it has one.
fn completed(text: &str) -> (&str, bool) {
    let word = "complete";
    let lower = text.to_ascii_lowercase();
    let found = lower
        .match_indices(word)
        .find(|&(at, _)| text[..at].ends_with(['|', '<', '#']) && text[at + word.len()..].starts_with(['|', '>', '#']));
    match found {
        Some((at, _)) => (text[..at].trim_end_matches(['|', '<', '#', '"', '(']), true),
        None => (text, false),
    }
}

struct Head {
    kind: Kind,
    start: usize,
    bracket: bool,
    /// Whether it begins a line or follows a bracket or a separator.
    fresh: bool,
}

/// The kind of a record at the end of `chunk`.
fn head(chunk: &str) -> Option<Head> {
    let is_ornament = |c: char| c == ' ' || c == '\t' || c == '*' || c == '_' || crate::fold::is_quote(c);
    let text = chunk.trim_end().trim_end_matches(is_ornament);
    let (before, kind) = KINDS.iter().find_map(|(name, kind)| {
        let before = text.len().checked_sub(name.len())?;
        let word = text.get(before..)?;
        word.eq_ignore_ascii_case(name).then(|| (&text[..before], *kind))
    })?;
    let before = before.trim_end_matches(is_ornament);
    if let Some(before) = before.strip_suffix(['(', '（']) {
        return Some(Head {
            kind,
            start: before.len(),
            bracket: true,
            fresh: true,
        });
    }
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = &before[line_start..];
    let is_bullet = |c: char| c.is_ascii_digit() || c.is_whitespace() || "-+•*.)`".contains(c);
    let (start, fresh) = if line.ends_with("##") || line.ends_with(')') {
        (before.len(), true)
    } else if line.chars().all(is_bullet) {
        (line_start, line_start > 0)
    } else {
        return None;
    };
    Some(Head {
        kind,
        start,
        bracket: false,
        fresh,
    })
}

/// Adds a record whose last field starts `rest`. `ended` tells that the reply was not cut in it.
fn finish<'a>(out: &mut Extraction, mut row: Row<'a>, rest: &'a str, lines: bool, ended: bool) {
    let (last, closed) = last_field(rest, row.bracket);
    row.fields.push(last);
    // A mark ran two records together.
    if rest.is_empty() && row.fields.len() > 1 && ended {
        row.fields.pop();
    }
    let whole = row.is_full() && !(row.bracket && !closed && !ended);
    if !whole && !closed && !ended && row.kind != Kind::Keywords {
        out.repairs.broken = true;
        return out.drop(reason::CUT);
    }
    let fields: Vec<&str> = row.fields.iter().map(|field| bare(field)).collect();
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let relation = |subject: &str, object: &str, keywords: &str, description: &str, strength| Relation {
        subject: subject.to_owned(),
        predicate: first_keyword(keywords),
        object: object.to_owned(),
        description: some(description),
        strength,
        ..Relation::default()
    };
    match (row.kind, lines, &fields[..]) {
        (Kind::Keywords, ..) => {}
        (Kind::Claim, ..) => claim(out, &fields),
        (Kind::Unknown, ..) if has_status(&fields) => claim(out, &fields),
        (Kind::Unknown, ..) => out.drop(reason::UNKNOWN_KIND),
        (Kind::Entity, true, [name, kind, description]) | (Kind::Entity, false, [name, kind, description, ..]) => {
            out.add_entity(Entity {
                name: (*name).to_owned(),
                kind: some(kind),
                description: some(description),
                ..Entity::default()
            });
        }
        // A relation under a wrong head, too.
        (_, true, [subject, object, keywords, description]) => {
            out.repairs.broken |= row.kind == Kind::Entity;
            out.add_relation(relation(subject, object, keywords, description, None));
        }
        (Kind::Relation, true, [subject, object, keywords, description, last]) if number(last).is_some() => {
            out.add_relation(relation(subject, object, keywords, description, number(last)));
        }
        (Kind::Relation, false, [subject, object, description, last]) => {
            let strength = Some(graded(out, last));
            out.add_relation(relation(subject, object, "", description, strength));
        }
        (Kind::Relation, false, [subject, object, description, keywords, .., last]) => {
            let strength = Some(graded(out, last));
            out.add_relation(relation(subject, object, keywords, description, strength));
        }
        (_, true, [_, _, _, _, ..]) => out.drop(reason::TOO_MANY),
        _ => out.drop(reason::TOO_FEW),
    }
}

fn graded(out: &mut Extraction, text: &str) -> f64 {
    number(text).unwrap_or_else(|| {
        out.lose(reason::BAD_NUMBER);
        STRENGTH
    })
}

fn claim(out: &mut Extraction, fields: &[&str]) {
    match fields {
        [_, _, _, _, _, _, _, _, _, ..] => out.drop(reason::TOO_MANY),
        [subject, object, kind, status, start, end, description, quote @ ..] => {
            let some = |text: &&str| Some((*text).to_owned());
            out.add_claim(Claim {
                subject: (*subject).to_owned(),
                object: some(object),
                kind: some(kind),
                status: some(status),
                start: some(start),
                end: some(end),
                description: some(description),
                quotes: quote.iter().filter_map(some).collect(),
                ..Claim::default()
            });
        }
        _ => out.drop(reason::TOO_FEW),
    }
}

/// Whether a record ends in `chunk` and another one begins.
fn goes_over(chunk: &str, bracket: bool) -> bool {
    if !bracket {
        return chunk.trim().contains('\n');
    }
    let closed = chunk
        .split_once("##")
        .map(|(before, _)| before.trim_end().ends_with(')'));
    let line = || chunk.lines().any(|line| line.trim_end().ends_with(')')) && chunk.contains("\n(");
    closed.unwrap_or_else(line)
}

/// The last field of a record at the start of `rest`, and whether its end is there.
fn last_field(rest: &str, bracket: bool) -> (&str, bool) {
    let rest = rest.trim_start();
    let separator = rest.find("##");
    if !bracket {
        let end = [rest.find('\n'), separator].into_iter().flatten().min();
        let field = rest[..end.unwrap_or(rest.len())].trim_end();
        let surplus = field.matches(')').count() > field.matches('(').count();
        return (
            field.strip_suffix(')').filter(|_| surplus).unwrap_or(field),
            end.is_some(),
        );
    }
    let mut depth = 0;
    let mut last = None;
    for (at, c) in rest
        .char_indices()
        .filter(|(_, c)| matches!(c, '(' | ')' | '（' | '）'))
    {
        if matches!(c, '(' | '（') {
            depth += 1;
            continue;
        }
        let next = rest[at + c.len_utf8()..].trim_start_matches([' ', '\t', '\r', ',']);
        if next.is_empty() || next.starts_with(['\n', '(']) || next.starts_with("##") {
            last = Some(at);
            if depth == 0 {
                break;
            }
        }
        depth = (depth - 1).max(0);
    }
    match last.or(separator) {
        Some(end) => (&rest[..end], true),
        None => (rest.trim_end(), false),
    }
}

/// What parts two fields.
struct Mark {
    start: usize,
    end: usize,
    hash: bool,
    damaged: bool,
}

fn marks(text: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(['<', '|']) {
        let start = at + found;
        at = start + 1;
        let rest = &text[start..];
        if let Some(length) = mark(rest.as_bytes()) {
            at = start + length;
            let mark = &rest[..length];
            marks.push(Mark {
                start,
                end: at,
                hash: mark.contains('#'),
                damaged: mark != "<|>" && mark != "<|#|>",
            });
        }
    }
    marks
}

/// The length of the mark at the start of `text`: `<|>`, `<|#|>`, or what models make of them.
fn mark(text: &[u8]) -> Option<usize> {
    let run = |from: usize, set: &[u8]| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().take(8).take_while(|b| set.contains(b)).count()
    };
    if text.starts_with(b"|") {
        // The first half is missing.
        let end = run(2, b"|>");
        return (text.starts_with(b"|#") && end > 2).then_some(end);
    }
    let inner = run(1, b"|#\\/ ");
    let body = text[1..inner].trim_ascii_end();
    if !body.iter().any(|b| b"|#".contains(b)) {
        return None;
    }
    // One character too many.
    let extra = text.get(inner).is_some_and(u8::is_ascii_alphanumeric);
    for inner in [inner, if extra { run(inner + 1, b"|#\\ ") } else { inner }] {
        let end = run(inner, b">");
        if end > inner {
            return Some(end);
        }
    }
    // The last half is missing.
    let whole =
        body.contains(&b'|') && body.contains(&b'#') || body.starts_with(b"||") || text[inner..].starts_with(b"\"");
    whole.then_some(1 + body.len())
}
