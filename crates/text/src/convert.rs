//! From other formats to Markdown, so that their parts become sections.

mod csv;
mod html;
mod json;

use std::borrow::Cow;
use std::fmt;

use unicode_segmentation::UnicodeSegmentation;

use crate::chunk::Format;

/// What a document was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Kept as it is, one section.
    Text,
    /// Kept as it is.
    Markdown,
    /// A page or a part of one.
    Html,
    /// A header and rows, separated by commas, semicolons or tabs.
    Csv,
    /// An array of objects, one object, or JSON Lines.
    Json,
}

/// Why a text is not what it was said to be. It displays as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertError {
    /// What is wrong.
    pub message: String,
    /// The line, from 1, where known.
    pub line: Option<usize>,
    /// The column of that line, from 1, in bytes, where known.
    pub column: Option<usize>,
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(line) = self.line {
            write!(f, " at line {line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConvertError {}

/// The most bytes that a converted document may have: names of columns and keys are repeated with each value, so that a
/// small text can become a large one.
const LARGEST: usize = 500_000_000;

/// The document that a text is stored as, and how it is then to be cut.
///
/// - Text and Markdown stay as they are, byte for byte.
/// - HTML becomes Markdown: headings, lists, tables and preformatted text are kept, links and emphasis become their text,
///   images their description; what is not shown (scripts, styles, the title, comments) is left out.
/// - Each row of a CSV text becomes a section, headed by its first value, with a line `column: value` for each that is
///   not empty. A row with more or fewer fields than the header is an error.
/// - JSON: each object of an array or of JSON Lines becomes a section, headed by its `name`, `title` or `id`; one object
///   becomes its plain values and a section for each that is not plain. A nested value is a line `path: value`, with
///   positions in arrays from 1, indented by its depth; plain values in an array share a line; what is null or empty is
///   left out. Text that is nested more than 127 levels deep is an error.
///
/// No value can become a heading or hide one: where a line could, it is indented or starts with a backslash.
/// `tick` is called for each tag, row or object.
pub fn to_document(body: &str, source: Source, tick: &mut dyn FnMut()) -> Result<(String, Format), ConvertError> {
    let document = match source {
        Source::Text => return Ok((body.to_owned(), Format::Text)),
        Source::Markdown => return Ok((body.to_owned(), Format::Markdown)),
        Source::Html => html::to_markdown(body, tick)?,
        Source::Csv => csv::to_markdown(body, tick)?,
        Source::Json => json::to_markdown(body, tick)?,
    };
    Ok((document, Format::Markdown))
}

fn error(message: impl Into<String>, line: Option<usize>) -> ConvertError {
    ConvertError {
        message: message.into(),
        line,
        column: None,
    }
}

fn check_size(document: &str) -> Result<(), ConvertError> {
    if document.len() > LARGEST {
        return Err(error(
            format!("the document would have more than {LARGEST} bytes"),
            None,
        ));
    }
    Ok(())
}

/// The most characters of a heading that is made from a value, and of the name of a column or key.
const LONGEST_NAME: usize = 100;

/// A value in one line, cut to the length of a name.
fn name(value: &str) -> String {
    let mut line = String::new();
    let mut left = LONGEST_NAME;
    for word in value.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for cluster in word.graphemes(true) {
            if left == 0 || cluster.len() > LONGEST_NAME {
                line.push('…');
                return line;
            }
            line.push_str(cluster);
            left -= 1;
        }
    }
    line
}

/// Starts a section.
fn push_heading(document: &mut String, level: usize, text: &str) {
    if !document.is_empty() {
        document.push('\n');
    }
    document.push_str(&"######"[..level]);
    document.push(' ');
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '<' | '#') {
            document.push('\\');
        }
        document.push(c);
    }
    document.push_str("\n\n");
}

/// A line `name: value`, and a line indented by four more for each further line of the value: too far for a heading.
fn push_value(document: &mut String, depth: usize, name: &str, value: &str) {
    let indent = "        ".get(..2 * depth).unwrap_or("        ");
    let value = value.trim().replace("\r\n", "\n");
    let mut lines = value.split(['\n', '\r']);
    let first = format!("{name}: {}", lines.next().unwrap_or_default());
    document.push_str(indent);
    document.push_str(&escape(&first));
    document.push('\n');
    for line in lines {
        if !line.trim().is_empty() {
            document.push_str("    ");
            document.push_str(indent);
            document.push_str(line.trim_end());
        }
        document.push('\n');
    }
}

/// A line of text with a backslash before it if it would be a heading, underline one, or start what hides one.
fn escape(line: &str) -> Cow<'_, str> {
    let bare = line.trim();
    let rest = bare.trim_start_matches('#');
    let heading = rest.len() < bare.len() && (rest.is_empty() || rest.starts_with(char::is_whitespace));
    let underline = |mark: u8| !bare.is_empty() && bare.bytes().all(|b| b == mark);
    let hides = bare.starts_with("```") || bare.starts_with("~~~") || bare.starts_with('<');
    if heading || hides || underline(b'=') || underline(b'-') {
        Cow::Owned(format!("\\{}", line.trim_start()))
    } else {
        Cow::Borrowed(line)
    }
}

#[cfg(test)]
mod tests {
    use super::{ConvertError, Format, Source, to_document};

    pub(super) fn convert(body: &str, source: Source) -> String {
        let (document, format) = to_document(body, source, &mut || ()).unwrap();
        assert_eq!(format, Format::Markdown);
        document
    }

    pub(super) fn titles(document: &str) -> Vec<String> {
        let mut headings = crate::markdown::Headings::new(document);
        std::iter::from_fn(|| headings.next(&mut || {}))
            .map(|heading| heading.title)
            .collect()
    }

    #[test]
    fn text_and_markdown_pass() {
        let body = "\u{feff}# a\r\n\tb \0";
        assert_eq!(
            to_document(body, Source::Text, &mut || ()),
            Ok((body.to_owned(), Format::Text))
        );
        assert_eq!(
            to_document(body, Source::Markdown, &mut || ()),
            Ok((body.to_owned(), Format::Markdown))
        );
    }

    #[test]
    fn errors_say_where() {
        let error = ConvertError {
            message: "a quote is missing".to_owned(),
            line: Some(3),
            column: Some(5),
        };
        assert_eq!(error.to_string(), "a quote is missing at line 3, column 5");
    }

    #[test]
    fn names_are_one_short_line() {
        assert_eq!(super::name(" a \n b\t"), "a b");
        assert_eq!(
            super::name(&"e\u{301}".repeat(101)),
            format!("{}…", "e\u{301}".repeat(100))
        );
        assert_eq!(super::name(&"a".repeat(100)), "a".repeat(100));
    }
}
