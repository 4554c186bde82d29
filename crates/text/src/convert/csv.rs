//! Rows as sections.

use super::{ConvertError, check_size, error, name, push_heading, push_value};

pub(super) fn to_markdown(body: &str, tick: &mut dyn FnMut()) -> Result<String, ConvertError> {
    let body = body.trim_start_matches('\u{feff}');
    let mut reader = ::csv::ReaderBuilder::new()
        .delimiter(delimiter(body))
        .flexible(true)
        .from_reader(body.as_bytes());
    let columns: Vec<String> = reader
        .headers()
        .map_err(|cause| error(cause.to_string(), None))?
        .iter()
        .enumerate()
        .map(|(number, column)| match name(column) {
            column if column.is_empty() => format!("Column {}", number + 1),
            column => column,
        })
        .collect();
    let mut document = String::new();
    let mut record = ::csv::StringRecord::new();
    let mut number = 0;
    let mut start = 0;
    let mut several_lines = false;
    while reader
        .read_record(&mut record)
        .map_err(|cause| error(cause.to_string(), None))?
    {
        tick();
        number += 1;
        let position = record.position();
        start = position.map_or(0, |position| position.byte() as usize);
        if record.len() != columns.len() {
            let line = position.map(|position| position.line() as usize);
            let count = |fields| {
                if fields == 1 {
                    "1 field".to_owned()
                } else {
                    format!("{fields} fields")
                }
            };
            let message = format!(
                "a row has {}, but the header has {}",
                count(record.len()),
                count(columns.len())
            );
            return Err(error(message, line));
        }
        let title = record.iter().map(name).find(|title| !title.is_empty());
        push_heading(&mut document, 2, &title.unwrap_or_else(|| format!("Row {number}")));
        for (column, value) in columns.iter().zip(&record) {
            if !value.trim().is_empty() {
                push_value(&mut document, 0, column, value);
            }
        }
        several_lines = record.iter().any(|value| value.contains('\n'));
        check_size(&document)?;
    }
    // A quotation without an end takes in every row that follows.
    let last = body.get(start..).unwrap_or_default();
    if several_lines && last.bytes().filter(|&b| b == b'"').count() % 2 == 1 {
        let line = 1 + body[..start].bytes().filter(|&b| b == b'\n').count();
        return Err(error("a quotation does not end, in the row that starts", Some(line)));
    }
    Ok(document)
}

/// The one of comma, semicolon and tab that the header has most of, outside quotations.
fn delimiter(body: &str) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0)];
    let mut quoted = false;
    for byte in body.trim_start_matches(['\n', '\r']).bytes() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => break,
            _ if !quoted => {
                for (_, count) in counts.iter_mut().filter(|(delimiter, _)| *delimiter == byte) {
                    *count += 1;
                }
            }
            _ => {}
        }
    }
    let most = counts.iter().map(|&(_, count)| count).max();
    counts
        .iter()
        .find(|&&(_, count)| Some(count) == most)
        .map_or(b',', |&(delimiter, _)| delimiter)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{convert, titles};
    use super::super::{Source, to_document};

    #[test]
    fn rows_become_sections() {
        assert_eq!(
            convert(
                "\u{feff}name,role,notes\nAda,engineer,\"first, \"\"of\"\" all\"\n,,\n,pilot,\"a\r\nb\n\n# c\"\n",
                Source::Csv
            ),
            "## Ada\n\nname: Ada\nrole: engineer\nnotes: first, \"of\" all\n\n\
             ## Row 2\n\n\n\
             ## pilot\n\nrole: pilot\nnotes: a\n    b\n\n    # c\n"
        );
    }

    #[test]
    fn the_header_tells_the_delimiter() {
        for body in ["a;\"b,;c\"\n1;2\n", "a\t\"b,;c\"\n1\t2\n", "a,\"b,;c\"\n1,2\n"] {
            assert_eq!(convert(body, Source::Csv), "## 1\n\na: 1\nb,;c: 2\n");
        }
    }

    #[test]
    fn names_and_values_stay_what_they_are() {
        let document = convert("# id,,~~~\n# 7 <b> *x*,===,\"a\r# b\n---\"\n", Source::Csv);
        assert_eq!(
            document,
            "## \\# 7 \\<b> \\*x\\*\n\n\\# id: # 7 <b> *x*\nColumn 2: ===\n\\~~~: a\n    # b\n    ---\n"
        );
        assert_eq!(titles(&document), ["# 7 <b> *x*"]);
    }

    #[test]
    fn ragged_rows_and_open_quotations_are_errors() {
        let fails = |body| to_document(body, Source::Csv, &mut || ()).unwrap_err().to_string();
        assert_eq!(
            fails("a,b\n\"1\n\",2\n3\n"),
            "a row has 1 field, but the header has 2 fields at line 4"
        );
        assert_eq!(
            fails("a,b\n1,2\n3,\"4\n5,6\n"),
            "a quotation does not end, in the row that starts at line 3"
        );
    }

    #[test]
    fn nothing_but_a_header_is_nothing() {
        assert_eq!(convert("", Source::Csv), "");
        assert_eq!(convert("a,b\n", Source::Csv), "");
    }
}
