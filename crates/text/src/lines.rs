//! The units of a Markdown or plain text: its paragraphs, list items, headings, table rows and code, without their marks.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A paragraph or a list item.
    Prose,
    Heading,
    /// A row of a table.
    Row,
    /// A line of code, of markup, or a link's definition.
    Code,
}

/// The units of `text` in order, as byte ranges that start behind the mark and have no space at either end.
///
/// Only what a line shows by itself is looked at, since `text` may be a window of a document: fences, `#`, underlines,
/// bullets, `>`, a leading `|`, and lines that are one tag.
pub(crate) fn units(text: &str) -> Vec<(Kind, Range<usize>)> {
    let mut units: Vec<(Kind, Range<usize>)> = Vec::new();
    let mut fenced = false;
    // Whether the next plain line goes on with the last unit.
    let mut open = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bare = line.trim_start().trim_start_matches(['>', ' ']);
        let quoted = line.trim_start().starts_with('>');
        let content = bare.trim();
        if content.starts_with("```") || content.starts_with("~~~") {
            fenced = !fenced;
            open = false;
            continue;
        }
        let mut push = |kind, content: &str, goes_on: bool| {
            // `content` is a part of `line`, so that its place follows from what stands behind it.
            let from = start + (content.as_ptr() as usize - line.as_ptr() as usize);
            match units.last_mut() {
                Some((_, range)) if goes_on => range.end = from + content.len(),
                _ => units.push((kind, from..from + content.len())),
            }
        };
        if content.is_empty() {
            open = false;
        } else if fenced {
            push(Kind::Code, content, false);
        } else if let Some(heading) = heading(content) {
            if !heading.is_empty() {
                push(Kind::Heading, heading, false);
            }
            open = false;
        } else if content.chars().all(|c| matches!(c, '-' | '=' | '*' | '_' | ' ' | '\t')) {
            if open
                && content.len() > 1
                && content.starts_with(['=', '-'])
                && let Some((kind, range)) = units.last_mut()
                && !text[range.clone()].contains('\n')
            {
                *kind = Kind::Heading;
            }
            open = false;
        } else if content.starts_with('|') {
            let cells = content.trim_matches(['|', ' ', '\t']);
            if cells.chars().any(char::is_alphanumeric) {
                push(Kind::Row, cells, false);
            }
            open = false;
        } else if is_markup(content) {
            push(Kind::Code, content, false);
            open = false;
        } else if let Some(item) = item(content) {
            push(Kind::Prose, item, false);
            open = true;
        } else {
            push(Kind::Prose, content, open && !(quoted && start == 0));
            open = true;
        }
    }
    units
}

/// Whether a line is one tag, the definition of a link, or pictures.
fn is_markup(line: &str) -> bool {
    (line.starts_with('<') && line.ends_with('>'))
        || (line.starts_with('[') && line.contains("]: "))
        || ((line.starts_with("![") || line.starts_with("[![")) && line.ends_with(')'))
}

/// What stands behind `#` to `######`, without closing ones.
fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let depth = line.len() - rest.len();
    ((1..=6).contains(&depth) && (rest.is_empty() || rest.starts_with([' ', '\t'])))
        .then(|| rest.trim().trim_end_matches('#').trim_end())
}

/// What stands behind a bullet, a number or a box to tick, if anything.
fn item(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match line.len() - digits.len() {
        0 => line.strip_prefix(['-', '*', '+', '•', '–', '·'])?,
        1..=3 => digits.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let item = rest.strip_prefix([' ', '\t'])?.trim_start();
    let item = ["[ ] ", "[x] ", "[X] "]
        .iter()
        .find_map(|tick| item.strip_prefix(tick))
        .unwrap_or(item);
    (!item.is_empty()).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::{Kind, units};
    use proptest::prelude::*;

    #[test]
    fn marks_are_left_out() {
        let text = "# Head #\n\nA paragraph\nin two lines.\n- [x] item one\n  goes on\n2. item two\n\n| a | b |\n|---|---|\n> quote\n\nTitle\n=====\n\
                    ```rust\nlet x = 1;\n```\n<br/>\n[x]: http://y\n[![a](b)](c)\n---\n*emphasis* stays\n#hashtag";
        let found: Vec<(Kind, &str)> = units(text)
            .into_iter()
            .map(|(kind, range)| (kind, &text[range]))
            .collect();
        assert_eq!(
            found,
            [
                (Kind::Heading, "Head"),
                (Kind::Prose, "A paragraph\nin two lines."),
                (Kind::Prose, "item one\n  goes on"),
                (Kind::Prose, "item two"),
                (Kind::Row, "a | b"),
                (Kind::Prose, "quote"),
                (Kind::Heading, "Title"),
                (Kind::Code, "let x = 1;"),
                (Kind::Code, "<br/>"),
                (Kind::Code, "[x]: http://y"),
                (Kind::Code, "[![a](b)](c)"),
                (Kind::Prose, "*emphasis* stays\n#hashtag"),
            ]
        );
    }

    proptest! {
        #[test]
        fn units_are_ordered_and_not_blank(text in "([#>|`~*=\\[\\]<> \\n-]|[a-c1é知]){0,60}") {
            let mut end = 0;
            for (_, range) in units(&text) {
                prop_assert!(range.start >= end && range.start < range.end);
                let unit = &text[range.clone()];
                prop_assert_eq!(unit.trim(), unit);
                end = range.end;
            }
        }
    }
}
