//! The headings of a Markdown document, found without holding its syntax tree.

use std::collections::VecDeque;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use unicode_segmentation::UnicodeSegmentation;

/// How much of a document is parsed at a time, in bytes, and the most. A parser that sees a whole document takes up to
/// sixty times its size and cannot be interrupted; a top-level block means the same whatever stands before it.
const SLICE: usize = 1 << 16;
const LARGEST_SLICE: usize = 1 << 19;

/// A heading that is longer, in bytes, is cut: it is repeated with every block below it.
const LONGEST_TITLE: usize = 400;

/// A heading at the top level of a document: none in a quotation, a list, or a code block.
#[derive(Debug, PartialEq)]
pub(crate) struct Heading {
    /// Where its line starts, in bytes.
    pub start: usize,
    /// 1 to 6.
    pub level: usize,
    /// Its words, without markup.
    pub title: String,
}

/// The headings of a document, in order.
pub(crate) struct Headings<'a> {
    body: &'a str,
    at: usize,
    found: VecDeque<Heading>,
}

impl<'a> Headings<'a> {
    pub fn new(body: &'a str) -> Self {
        Headings {
            body,
            at: front_matter(body),
            found: VecDeque::new(),
        }
    }

    pub fn next(&mut self, tick: &mut dyn FnMut()) -> Option<Heading> {
        let mut size = SLICE;
        while self.found.is_empty() && self.at < self.body.len() {
            tick();
            let (end, resume) = slice_end(self.body, self.at, size);
            let slice = &self.body[self.at..end];
            let (mut headings, last, fence) = parse(slice, self.at);
            if end == self.body.len() {
                self.at = end;
            } else if last > 0 {
                // The last block may go on behind the slice: it is read again.
                self.at += last;
                headings.retain(|heading| heading.start < self.at);
            } else if size < LARGEST_SLICE {
                size *= 2;
                continue;
            } else {
                self.at = fence.map_or(resume, |fence| fence_end(self.body, resume, fence));
            }
            self.found.extend(headings);
            size = SLICE;
        }
        self.found.pop_front()
    }
}

/// The end of a slice at a line end, and where to go on: a line that is too long is cut, and its rest passed over.
fn slice_end(body: &str, at: usize, size: usize) -> (usize, usize) {
    let want = at.saturating_add(size);
    if want >= body.len() {
        return (body.len(), body.len());
    }
    let line_end = line_end(body, body.floor_char_boundary(want));
    if line_end - at > 2 * LARGEST_SLICE {
        (body.floor_char_boundary(at + LARGEST_SLICE), line_end)
    } else {
        (line_end, line_end)
    }
}

fn line_end(body: &str, at: usize) -> usize {
    match body.as_bytes()[at..].iter().position(|&b| b == b'\n' || b == b'\r') {
        Some(found) => at + found + if body[at + found..].starts_with("\r\n") { 2 } else { 1 },
        None => body.len(),
    }
}

/// The top-level headings of a slice; where the line of its last top-level block starts; and the fence that its first
/// block starts with, if it is one.
fn parse(slice: &str, offset: usize) -> (Vec<Heading>, usize, Option<&str>) {
    let mut headings = Vec::new();
    let mut last = 0;
    let mut fence = None;
    let mut depth = 0;
    let mut open: Option<Heading> = None;
    for (event, range) in Parser::new(slice).into_offset_iter() {
        if depth == 0 && !matches!(event, Event::End(_)) {
            last = slice[..range.start].rfind(['\n', '\r']).map_or(0, |at| at + 1);
        }
        match event {
            Event::Start(tag) => {
                if let (0, 0, Tag::CodeBlock(CodeBlockKind::Fenced(_))) = (depth, last, &tag) {
                    let rest = slice.trim_start();
                    let length = rest.bytes().take_while(|&b| b == rest.as_bytes()[0]).count();
                    fence = Some(&rest[..length]);
                }
                if let (0, Tag::Heading { level, .. }) = (depth, &tag) {
                    open = Some(Heading {
                        start: offset + last,
                        level: *level as usize,
                        title: String::new(),
                    });
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth -= 1;
                if let (TagEnd::Heading(_), Some(mut heading)) = (tag, open.take_if(|_| depth == 0)) {
                    heading.title = clip(&heading.title);
                    headings.push(heading);
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut open {
                    heading.title.push_str(&text);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut open {
                    heading.title.push(' ');
                }
            }
            _ => {}
        }
    }
    (headings, last, fence)
}

/// Behind the line that closes a code block, from a line start inside it.
fn fence_end(body: &str, mut at: usize, fence: &str) -> usize {
    while at < body.len() {
        let end = line_end(body, at);
        let line = body[at..end].trim();
        at = end;
        if line.starts_with(fence) && line.bytes().all(|b| b == fence.as_bytes()[0]) {
            break;
        }
    }
    at
}

fn clip(raw: &str) -> String {
    let mut title = String::with_capacity(raw.len().min(LONGEST_TITLE));
    for word in raw.split_whitespace() {
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
    }
    if title.len() > LONGEST_TITLE {
        let ends = title.grapheme_indices(true).map(|(end, _)| end);
        let end = ends.take_while(|&end| end <= LONGEST_TITLE).last().unwrap_or(0);
        title.truncate(end);
        title.truncate(title.trim_end().len());
    }
    title
}

/// Behind a byte-order mark and a block of metadata between two lines of `---`, whose last line would read as a heading.
fn front_matter(body: &str) -> usize {
    let mark = body.len() - body.trim_start_matches('\u{feff}').len();
    if !body[mark..].starts_with("---") {
        return mark;
    }
    let mut at = line_end(body, mark);
    if body[mark..at].trim_end() != "---" || !body[at..line_end(body, at)].contains(':') {
        return mark;
    }
    while at < body.len() {
        let end = line_end(body, at);
        if matches!(body[at..end].trim_end(), "---" | "...") {
            return end;
        }
        at = end;
    }
    mark
}

#[cfg(test)]
mod tests {
    use super::{Heading, Headings};
    use pulldown_cmark::{Event, Parser, Tag};

    fn headings(body: &str) -> Vec<(usize, usize, String)> {
        let mut scan = Headings::new(body);
        std::iter::from_fn(|| scan.next(&mut || {}))
            .map(|Heading { start, level, title }| (start, level, title))
            .collect()
    }

    fn titles(body: &str) -> Vec<String> {
        headings(body)
            .into_iter()
            .map(|(_, level, title)| format!("{level} {title}"))
            .collect()
    }

    #[test]
    fn both_kinds_are_found_and_their_markup_taken_off() {
        assert_eq!(
            headings("Intro\n\n# One *two* `three` #\n\nSetext\ntitle\n---\n"),
            [(7, 1, "One two three".to_owned()), (30, 2, "Setext title".to_owned())]
        );
    }

    #[test]
    fn code_quotations_lists_and_comments_hold_none() {
        assert_eq!(
            titles("```\n# a\n```\n> # b\n\n- # c\n\n    # d\n\n<!--\n# e\n-->\n\n#f\n\n## g\n"),
            ["2 g"]
        );
    }

    #[test]
    fn metadata_in_front_is_no_heading() {
        assert_eq!(titles("\u{feff}---\ntitle: x\n---\n# a\n"), ["1 a"]);
        assert_eq!(titles("---\n\n# a\n\n---\n\n# b\n"), ["1 a", "1 b"]);
    }

    #[test]
    fn slices_change_nothing() {
        let mut body = String::new();
        for number in 0..9000 {
            body.push_str(&format!(
                "# Title {number}\n\nSome text é\ngoes on.\n\n- item\n\n      # no\n\n~~~\n# no\n\n~~~\n\nsub {number}\n===\n"
            ));
        }
        let whole: Vec<_> = Parser::new(&body)
            .into_offset_iter()
            .filter(|(event, _)| matches!(event, Event::Start(Tag::Heading { .. })))
            .map(|(_, range)| range.start)
            .collect();
        assert_eq!(
            headings(&body).into_iter().map(|(start, ..)| start).collect::<Vec<_>>(),
            whole
        );
    }

    #[test]
    fn a_code_block_larger_than_a_slice_holds_none() {
        let body = format!("# a\n\n````\n{}````\n\n# b\n", "# no\n```\n".repeat(400_000));
        assert_eq!(titles(&body), ["1 a", "1 b"]);
    }

    #[test]
    fn a_line_larger_than_a_slice_is_passed_over() {
        for unit in [">", "[", "a", "# "] {
            let body = format!("# a\n\n{}\n\n# b\n", unit.repeat(3_000_000));
            let found = titles(&body);
            assert_eq!((&found[0], found.last()), (&"1 a".to_owned(), Some(&"1 b".to_owned())));
        }
    }

    #[test]
    fn long_titles_are_cut_between_clusters() {
        let found = headings(&format!("# {}\n", "e\u{301}".repeat(1000)));
        assert_eq!(found[0].2, "e\u{301}".repeat(133));
    }
}
