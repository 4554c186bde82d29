//! Objects as sections.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ConvertError, check_size, error, name, push_heading, push_value};

/// The most bytes of a path in front of a value; a longer one shows its end.
const LONGEST_PATH: usize = 120;

pub(super) fn to_markdown(body: &str, tick: &mut dyn FnMut()) -> Result<String, ConvertError> {
    let body = body.trim_start_matches('\u{feff}');
    let mut sections = Sections {
        document: String::new(),
        number: 0,
        path: String::new(),
        failed: None,
        tick,
    };
    if body.trim_start().starts_with('[') {
        let mut reader = serde_json::Deserializer::from_str(body);
        let read = (&mut sections).deserialize(&mut reader).and_then(|()| reader.end());
        match sections.failed.take() {
            Some(failed) => return Err(failed),
            None => read.map_err(|cause| located(&cause))?,
        }
        return Ok(sections.document);
    }
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
    let Some(first) = values.next() else {
        return Ok(String::new());
    };
    let first = first.map_err(|cause| located(&cause))?;
    let mut rest = values.peekable();
    match first {
        Value::Object(object) if rest.peek().is_none() => sections.single(&object)?,
        first => {
            sections.add(&first)?;
            for value in rest {
                sections.add(&value.map_err(|cause| located(&cause))?)?;
            }
        }
    }
    Ok(sections.document)
}

fn located(cause: &serde_json::Error) -> ConvertError {
    let whole = cause.to_string();
    let message = match whole.rsplit_once(" at line ") {
        Some((message, _)) if message.starts_with("recursion limit") => "values are nested more than 127 levels deep",
        Some((message, _)) => message,
        None => &whole,
    };
    ConvertError {
        message: message.to_owned(),
        line: Some(cause.line()),
        column: Some(cause.column()),
    }
}

struct Sections<'t> {
    document: String,
    number: usize,
    path: String,
    failed: Option<ConvertError>,
    tick: &'t mut dyn FnMut(),
}

/// Reads an array one element at a time, so that its values are not all held.
impl<'de> DeserializeSeed<'de> for &mut Sections<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut Sections<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(value) = elements.next_element::<Value>()? {
            if let Err(failed) = self.add(&value) {
                let message = serde::de::Error::custom(&failed);
                self.failed = Some(failed);
                return Err(message);
            }
        }
        Ok(())
    }
}

impl Sections<'_> {
    /// A section for one of several objects.
    fn add(&mut self, value: &Value) -> Result<(), ConvertError> {
        (self.tick)();
        self.number += 1;
        let Value::Object(object) = value else {
            let kind = match value {
                Value::Array(_) => "an array",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                Value::Bool(_) => "a truth value",
                _ => "null",
            };
            return Err(error(format!("value {} is {kind}, not an object", self.number), None));
        };
        let title = ["name", "title", "id"]
            .iter()
            .filter_map(|key| object.get(*key).and_then(plain))
            .map(|value| name(&value))
            .find(|title| !title.is_empty())
            .unwrap_or_else(|| format!("Item {}", self.number));
        push_heading(&mut self.document, 2, &title);
        self.members(object, 0)
    }

    /// The only object: its plain values, then a section for each other one.
    fn single(&mut self, object: &Map<String, Value>) -> Result<(), ConvertError> {
        let nested = |value: &Value| value.is_object() || value.is_array();
        for (key, value) in object.iter().filter(|(_, value)| !nested(value)) {
            self.value(&name(key), value, 0)?;
        }
        for (key, value) in object.iter().filter(|(_, value)| nested(value)) {
            push_heading(&mut self.document, 2, &name(key));
            match value {
                Value::Object(object) => self.members(object, 0)?,
                value => self.value(&name(key), value, 0)?,
            }
        }
        Ok(())
    }

    fn members(&mut self, object: &Map<String, Value>, depth: usize) -> Result<(), ConvertError> {
        for (key, value) in object {
            let key = name(key);
            let step = if self.path.is_empty() { key } else { format!(".{key}") };
            self.value(&step, value, depth)?;
        }
        Ok(())
    }

    /// The lines of a value, one step below the path. The parser has bounded how deep it goes.
    fn value(&mut self, step: &str, value: &Value, depth: usize) -> Result<(), ConvertError> {
        let above = self.path.len();
        self.path.push_str(step);
        match value {
            Value::Object(object) => self.members(object, depth + 1)?,
            Value::Array(values) => {
                let joined: Option<Vec<String>> = values.iter().map(plain).collect();
                match joined {
                    Some(values) => self.line(&values.join(", "), depth),
                    None => {
                        for (number, value) in values.iter().enumerate() {
                            self.value(
                                &format!("[{}]", number + 1),
                                value,
                                depth + usize::from(plain(value).is_some()),
                            )?;
                        }
                    }
                }
            }
            value => self.line(&plain(value).unwrap_or_default(), depth),
        }
        self.path.truncate(above);
        check_size(&self.document)
    }

    fn line(&mut self, value: &str, depth: usize) {
        if value.trim().is_empty() {
            return;
        }
        let hidden = self
            .path
            .ceil_char_boundary(self.path.len().saturating_sub(LONGEST_PATH));
        let path = if hidden == 0 {
            self.path.clone()
        } else {
            format!("…{}", &self.path[hidden..])
        };
        push_value(&mut self.document, depth, &path, value);
    }
}

/// The text of a value that is neither an object nor an array.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{convert, titles};
    use super::super::{Source, to_document};

    #[test]
    fn objects_become_sections() {
        let expected = "## Ada\n\nid: 1\nname: Ada\ntags: x, y\n  home.city: London\n    home.geo.lat: 1.5\n  pets[1].kind: cat\n  pets[2].kind: dog\n\n\
                        ## 2\n\nid: 2\nnote: a\n    # b\n\n\
                        ## Item 3\n\nactive: true\n";
        let objects = [
            r#"{"id": 1, "name": "Ada", "tags": ["x", "y"], "home": {"city": "London", "geo": {"lat": 1.5}}, "pets": [{"kind": "cat"}, {"kind": "dog"}]}"#,
            r##"{"id": 2, "name": " ", "title": null, "note": "a\n# b"}"##,
            r#"{"active": true, "none": null, "empty": {}}"#,
        ];
        assert_eq!(convert(&format!("[{}]", objects.join(", ")), Source::Json), expected);
        assert_eq!(convert(&objects.join("\n"), Source::Json), expected);
    }

    #[test]
    fn one_object_is_split_at_its_keys() {
        assert_eq!(
            convert(
                r#"{"title": "Report", "rows": [[1, 2], "x", {"a": "b"}], "year": 2024, "by": {"name": "Ada"}}"#,
                Source::Json
            ),
            "title: Report\nyear: 2024\n\n## rows\n\nrows[1]: 1, 2\n  rows[2]: x\n  rows[3].a: b\n\n## by\n\nname: Ada\n"
        );
    }

    #[test]
    fn no_value_becomes_a_heading() {
        let document = convert(
            r###"[{"name": "# x", "## y": "# z\r# w", "```": "---", "<a": {"# b": 1}}]"###,
            Source::Json,
        );
        assert_eq!(
            document,
            "## \\# x\n\nname: # x\n\\## y: # z\n    # w\n\\```: ---\n  \\<a.# b: 1\n"
        );
        assert_eq!(titles(&document), ["# x"]);
    }

    #[test]
    fn long_paths_show_their_end() {
        let key = "k".repeat(99);
        let document = convert(&format!(r#"[{{"{key}": {{"{key}": 1}}}}]"#), Source::Json);
        assert_eq!(document, format!("## Item 1\n\n  …{}.{key}: 1\n", "k".repeat(20)));
    }

    #[test]
    fn errors_name_the_place() {
        let fails = |body: &str| to_document(body, Source::Json, &mut || ()).unwrap_err().to_string();
        assert_eq!(fails("[{\"a\": 1},\n {\"a\" 2}]"), "expected `:` at line 2, column 7");
        assert_eq!(fails("{\"a\": 1} x"), "expected value at line 1, column 10");
        assert_eq!(fails("[{}, 3]"), "value 2 is a number, not an object");
        assert_eq!(fails("3"), "value 1 is a number, not an object");
        assert_eq!(fails("[] []"), "trailing characters at line 1, column 4");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            fails(&deep),
            "values are nested more than 127 levels deep at line 1, column 128"
        );
        let deep = format!("{{\"a\": {deep}}}");
        assert!(fails(&deep).starts_with("values are nested more than 127 levels deep at line 1"));
    }

    #[test]
    fn nothing_is_nothing() {
        for body in ["", " \n", "[]", "{}"] {
            assert_eq!(convert(body, Source::Json), "");
        }
    }
}
