//! Pages as Markdown, from the tags as they come: no tree, so that no depth of nesting costs anything.

use html5gum::{DefaultEmitter, Token, Tokenizer};

use super::{ConvertError, check_size, escape, push_heading};

/// A list item is indented by at most that many columns.
const DEEPEST: usize = 24;

pub(super) fn to_markdown(body: &str, tick: &mut dyn FnMut()) -> Result<String, ConvertError> {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut page = Page::default();
    for token in Tokenizer::new_with_emitter(body, emitter) {
        tick();
        match token {
            Ok(Token::StartTag(tag)) => {
                let name = String::from_utf8_lossy(&tag.name);
                page.start(&name, tag.self_closing);
                if let Some(alt) = tag.attributes.get(b"alt".as_slice()).filter(|_| name == "img") {
                    page.text(&String::from_utf8_lossy(&alt.value));
                }
            }
            Ok(Token::EndTag(tag)) => page.end(&String::from_utf8_lossy(&tag.name)),
            Ok(Token::String(text)) => page.text(&String::from_utf8_lossy(&text.value)),
            Ok(_) => {}
            Err(never) => match never {},
        }
        check_size(&page.document)?;
    }
    page.finish();
    Ok(page.document)
}

#[derive(Default)]
struct Page {
    document: String,
    /// The text of the open paragraph, heading or cell, with single spaces and the line ends that were asked for.
    line: String,
    heading: Option<usize>,
    preformatted: Option<String>,
    /// The element whose content is left out, and how often it is open.
    hidden: Option<(String, usize)>,
    /// The open lists: the number of the next item, if they are numbered.
    lists: Vec<Option<usize>>,
    /// The mark of an item that has no text yet.
    marker: Option<String>,
    /// The cells of the open row.
    row: Vec<String>,
    in_cell: bool,
    /// How many rows of the open table are written.
    rows: usize,
    /// Whether the last thing written is part of a list or a table.
    close: bool,
}

impl Page {
    fn start(&mut self, name: &str, self_closing: bool) {
        if let Some((hidden, depth)) = &mut self.hidden {
            *depth += usize::from(hidden == name && !self_closing);
            return;
        }
        match name {
            "script" | "style" | "title" | "template" | "iframe" | "noembed" | "noframes" | "svg" => {
                // In a page, only drawings can close themselves.
                let depth = usize::from(name != "svg" || !self_closing);
                self.hidden = (depth > 0).then(|| (name.to_owned(), depth));
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.leave();
                self.heading = name[1..].parse().ok();
            }
            "br" => self.new_line(),
            "ul" | "ol" | "menu" | "dir" => {
                self.end_heading();
                self.block();
                self.lists.push((name == "ol").then_some(1));
            }
            "li" => {
                self.block();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.marker = Some(marker);
            }
            "table" => {
                self.leave();
                self.rows = 0;
            }
            "tr" => self.end_row(),
            "td" | "th" => {
                self.end_heading();
                self.end_cell();
                if !self.in_cell {
                    self.flush();
                }
                self.in_cell = true;
            }
            "pre" | "listing" | "xmp" => {
                self.leave();
                self.preformatted.get_or_insert_default();
            }
            _ if breaks(name) => {
                if !matches!(name, "div" | "address" | "center") {
                    self.end_heading();
                }
                self.block();
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((hidden, depth)) = &mut self.hidden {
            *depth -= usize::from(hidden == name);
            if *depth == 0 {
                self.hidden = None;
            }
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.end_heading(),
            "ul" | "ol" | "menu" | "dir" => {
                self.block();
                self.lists.pop();
                self.marker = None;
            }
            "td" | "th" => self.end_cell(),
            "tr" => self.end_row(),
            "table" => {
                self.end_row();
                self.close = false;
            }
            "pre" | "listing" | "xmp" => self.end_preformatted(),
            "br" => self.new_line(),
            _ if breaks(name) || name == "li" => self.block(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if let Some(open) = &mut self.preformatted {
            open.push_str(text);
            return;
        }
        for c in text.chars() {
            if !c.is_ascii_whitespace() {
                self.line.push(c);
            } else if !self.line.is_empty() && !self.line.ends_with([' ', '\n']) {
                self.line.push(' ');
            }
        }
    }

    fn new_line(&mut self) {
        if let Some(open) = &mut self.preformatted {
            open.push('\n');
        } else if self.heading.is_some() || self.in_cell {
            self.text(" ");
        } else if !self.line.is_empty() {
            self.line.truncate(self.line.trim_end_matches(' ').len());
            self.line.push('\n');
        }
    }

    /// The start or the end of an element that stands on lines of its own.
    fn block(&mut self) {
        match &mut self.preformatted {
            Some(open) if !open.is_empty() && !open.ends_with('\n') => open.push('\n'),
            Some(_) => {}
            None if self.heading.is_some() || self.in_cell => self.text(" "),
            None => self.flush(),
        }
    }

    /// Ends whatever is open, before what cannot be part of it.
    fn leave(&mut self) {
        self.end_heading();
        self.end_row();
        self.block();
    }

    fn end_heading(&mut self) {
        if let Some(level) = self.heading.take() {
            let text = std::mem::take(&mut self.line);
            if !text.trim().is_empty() {
                push_heading(&mut self.document, level, text.trim());
                // A heading leaves an empty line behind it, and the next block begins with one.
                self.document.pop();
                self.close = false;
                self.marker = None;
            }
        }
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.line);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let marker = self.marker.take();
        let item = marker.is_some();
        let width = (2 * self.lists.len().saturating_sub(1)).min(DEEPEST);
        let mut prefix = " ".repeat(width)
            + marker
                .as_deref()
                .unwrap_or(if self.lists.is_empty() { "" } else { "  " });
        let mut block = String::new();
        for line in text.split('\n') {
            if !block.is_empty() {
                block.push('\n');
                prefix = " ".repeat(prefix.len());
            }
            if !line.is_empty() {
                block.push_str(&prefix);
                block.push_str(&escape(line));
            }
        }
        self.write(&block, item || !self.lists.is_empty());
    }

    fn end_cell(&mut self) {
        self.end_heading();
        if std::mem::take(&mut self.in_cell) {
            let text = std::mem::take(&mut self.line);
            self.row.push(text.trim().replace('|', "\\|"));
        }
    }

    fn end_row(&mut self) {
        self.end_cell();
        let row = std::mem::take(&mut self.row);
        match row.as_slice() {
            [] => {}
            // Most often a table that is there for the layout.
            [only] if !only.is_empty() => {
                self.line = only.replace("\\|", "|");
                self.flush();
            }
            cells if cells.iter().all(String::is_empty) => {}
            cells => {
                let mut line = format!("| {} |", cells.join(" | "));
                if self.rows == 0 {
                    line.push_str("\n|");
                    line.push_str(&" --- |".repeat(cells.len()));
                }
                self.close &= self.rows > 0;
                self.rows += 1;
                self.write(&line, true);
            }
        }
    }

    fn end_preformatted(&mut self) {
        let Some(text) = self.preformatted.take() else { return };
        let text = text.strip_prefix('\n').unwrap_or(&text).trim_end();
        if text.trim().is_empty() {
            return;
        }
        let mut longest = 0;
        let mut run = 0;
        for byte in text.bytes() {
            run = if byte == b'`' { run + 1 } else { 0 };
            longest = longest.max(run);
        }
        let fence = "`".repeat((longest + 1).max(3));
        self.write(&format!("{fence}\n{text}\n{fence}"), false);
    }

    /// Adds a block, after an empty line unless it and the last one belong together.
    fn write(&mut self, block: &str, close: bool) {
        let joins = self.document.is_empty() || close && self.close;
        if !joins {
            self.document.push('\n');
        }
        self.document.push_str(block);
        self.document.push('\n');
        self.close = close;
    }

    fn finish(&mut self) {
        self.end_preformatted();
        self.leave();
    }
}

/// Whether an element stands on lines of its own.
fn breaks(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hr"
            | "legend"
            | "main"
            | "nav"
            | "option"
            | "p"
            | "section"
            | "summary"
            | "tbody"
            | "tfoot"
            | "thead"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::super::tests::{convert, titles};

    fn page(body: &str) -> String {
        convert(body, Source::Html)
    }

    #[test]
    fn a_page_keeps_its_structure() {
        assert_eq!(
            page(
                "<!DOCTYPE html><html><head><title>No</title><style>p { }</style><meta charset=utf-8></head><body>\n\
                 <h1 class=x>Main <em>title</em></h1><p>One &amp; two\n  &lt;three&gt;, <a href='#'>a link</a>.<br>Next\u{e9} line</p>\
                 <script>if (a < b) { '<p>no</p>' }</script><!-- no --><h2>Sub</h2>text<div>more<img src=x alt='A cat'></div></body></html>"
            ),
            "# Main title\n\nOne & two <three>, a link.\nNexté line\n\n## Sub\n\ntext\n\nmoreA cat\n"
        );
    }

    #[test]
    fn lists_nest() {
        assert_eq!(
            page(
                "<p>Before</p><ul><li>one<li><p>two</p><p>still two</p><ol><li>a</li><li>b<br>c</li></ol></li><li></li></ul>After"
            ),
            "Before\n\n- one\n- two\n  still two\n  1. a\n  2. b\n     c\n\nAfter\n"
        );
    }

    #[test]
    fn tables_have_cells() {
        assert_eq!(
            page(
                "<table><caption>Cap</caption><tr><th>A</th><th>B|C</th></tr><tr><td>1<br>2<td><p>x</p><p>y</p></tr>\
                 <tr><td></td><td></td></tr></table><table><tr><td>Layout</td></tr></table>end"
            ),
            "Cap\n\n| A | B\\|C |\n| --- | --- |\n| 1 2 | x y |\n\nLayout\n\nend\n"
        );
    }

    #[test]
    fn preformatted_text_stays() {
        assert_eq!(
            page("<pre>\n  a <b>b</b>\n\n# c\n```\n</pre><p>after"),
            "````\n  a b\n\n# c\n```\n````\n\nafter\n"
        );
        assert_eq!(titles(&page("<h3>t</h3><pre># no</pre><h3>u</h3>")), ["t", "u"]);
    }

    #[test]
    fn no_text_becomes_or_hides_a_heading() {
        let document = page(
            "<p># a</p><p>b<br>===</p><p>---</p><p>&lt;!-- c</p><p>```</p><p>#d</p><h2># e &lt;i> *f*</h2><ul><li># g</li></ul><p>~~~</p><h2>h</h2>",
        );
        assert_eq!(
            document,
            "\\# a\n\nb\n\\===\n\n\\---\n\n\\<!-- c\n\n\\```\n\n#d\n\n## \\# e \\<i> \\*f\\*\n\n- \\# g\n\n\\~~~\n\n## h\n"
        );
        assert_eq!(titles(&document), ["# e <i> *f*", "h"]);
    }

    #[test]
    fn open_and_empty_elements_do_no_harm() {
        assert_eq!(
            page("<h1>a<p>b<h2></h2><table><tr><td>c<h3>d</h3>e"),
            "# a\n\nb\n\nc\n\n### d\n\ne\n"
        );
        assert_eq!(
            page("<svg><title>x</title><svg></svg>y</svg>z<svg/>w</p></ul></td></tr>"),
            "zw\n"
        );
        assert_eq!(page(""), "");
        assert_eq!(page("&#0;&bogus; a\u{301}"), "\u{fffd}&bogus; a\u{301}\n");
    }

    #[test]
    fn depth_is_no_danger() {
        for tag in [
            "div",
            "ul",
            "ul><li",
            "table><tr><td",
            "b",
            "h1",
            "pre",
            "svg",
            "blockquote",
        ] {
            let body = format!("{}x", format!("<{tag}>").repeat(100_000));
            let text = page(&body);
            assert!(text.len() < 100, "{tag}: {}", text.len());
        }
    }
}
