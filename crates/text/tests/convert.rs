//! That a converted document has the sections that it should have, whatever its values hold.

use graphrag_text::chunk::{Format, Options, chunk};
use graphrag_text::convert::{Source, to_document};
use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag};
use serde_json::{Map, Value};

/// Text that Markdown, HTML, CSV and JSON have a meaning for.
fn value() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "# ", "#", "## x", "\n", "\r", "\r\n", "\n\n", "===", "---", "```", "~~~", "<!--", "<div>", "<script>", "</p>",
        "-->", "<", ">", "&lt;", "&", "|", "- ", "1. ", "    ", "\t", " ", "a", "word", "\"", "'", ",", ";", "\\", "*",
        "_", "`", "[a]: b", "é", "图", "🦀", "\u{301}", "\u{feff}", "\u{a0}", ":", ".",
    ]);
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

/// How many top-level headings a document has.
fn headings(document: &str) -> usize {
    let mut depth = 0;
    let mut found = 0;
    for event in Parser::new(document) {
        match event {
            Event::Start(tag) => {
                found += usize::from(depth == 0 && matches!(tag, Tag::Heading { .. }));
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    found
}

fn convert(body: &str, source: Source) -> String {
    let (document, format) = to_document(body, source, &mut || ()).unwrap();
    assert_eq!(format, Format::Markdown);
    document
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_row_is_a_section(
        header in prop::collection::vec(value(), 2..5),
        rows in prop::collection::vec(prop::collection::vec(value(), 5), 0..6),
    ) {
        let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
        writer.write_record(&header).unwrap();
        for row in &rows {
            writer.write_record(&row[..header.len()]).unwrap();
        }
        let body = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        prop_assert_eq!(headings(&convert(&body, Source::Csv)), rows.len());
    }

    #[test]
    fn an_object_is_a_section(objects in prop::collection::vec(prop::collection::vec((value(), value(), 0..4), 0..5), 0..6)) {
        let objects: Vec<Value> = objects
            .into_iter()
            .map(|members| {
                let wrap = |(key, text, kind)| {
                    let text = Value::String(text);
                    match kind {
                        0 => text,
                        1 => Value::Array(vec![text.clone(), text]),
                        2 => Value::Array(vec![Value::Object(Map::from_iter([(key, text)]))]),
                        _ => Value::Object(Map::from_iter([(key, text)])),
                    }
                };
                let names = ["name".to_owned(), "x".to_owned()];
                Value::Object(members.into_iter().enumerate().map(|(at, (key, text, kind))| {
                    (names.get(at).cloned().unwrap_or_else(|| key.clone()), wrap((key, text, kind)))
                }).collect())
            })
            .collect();
        let count = objects.len();
        prop_assert_eq!(headings(&convert(&Value::Array(objects).to_string(), Source::Json)), count);
    }

    #[test]
    fn a_page_has_its_headings(parts in prop::collection::vec((0..6, value()), 0..12)) {
        let mut body = String::new();
        let mut count = 0;
        for (kind, text) in parts {
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            match kind {
                0 => {
                    count += 1;
                    body.push_str(&format!("<h2>x {text}</h2>"));
                }
                1 => body.push_str(&format!("<p>{}", text.replace('\n', "<br>"))),
                2 => body.push_str(&format!("<ul><li>{}<li>b</ul>", text.replace('\n', "<br>"))),
                3 => body.push_str(&format!("<pre>{text}</pre>")),
                4 => body.push_str(&format!("<table><tr><td>{text}<td>{text}</table>")),
                _ => body.push_str(&format!("<div>{text}</div>")),
            }
        }
        prop_assert_eq!(headings(&convert(&body, Source::Html)), count);
    }

    #[test]
    fn anything_converts_or_is_refused(body in "([\\[\\]{}\":,;a1\n\t <>/#|-]|<p>|<li>|<td>|<pre>|</|&amp;|🦀|\\PC){0,60}") {
        for source in [Source::Html, Source::Csv, Source::Json] {
            if let Ok((document, format)) = to_document(&body, source, &mut || ()) {
                chunk(&document, format, &Options::default(), &mut || {});
            }
        }
    }
}
