//! The formats that extractions and ready data come in.

mod graphml;
mod lines;

use super::extraction::{Extraction, from_json, from_tags, from_value, is_data, key};
use super::{Unreadable, cleaned, json, tuple};
use serde_json::{Map, Value};

/// How deep the marks of a format are looked for, and in how many of the items of a list.
const DEEPEST: usize = 3;
const ITEMS: usize = 64;

/// The longest name, in bytes, that columns and keys give to fields; each record gets a copy of it.
const LONGEST_KEY: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Whichever it is.
    #[default]
    Auto,
    /// Records of fields that marks part, as models write them for GraphRAG and LightRAG: `entity<|#|>…`.
    Tuple,
    /// Lists of entities, relations, claims or triples under any of the usual names, as models write them.
    Json,
    /// `<entity>` and `<relationship>`, as models write them for R2R.
    Xml,
    /// Rows of the tables of Microsoft GraphRAG, under the names of the tables or in one list.
    Graphrag,
    /// The custom knowledge graph of LightRAG: chunks, entities and relationships.
    Lightrag,
    /// What HippoRAG has extracted: passages, each with its entities and triples.
    Hipporag,
    /// Nodes and links of NetworkX, which refer to ids.
    Networkx,
    Graphml,
    /// Lines of subject, predicate, object and perhaps the key of the source; or of other fields below their names.
    Csv,
}

impl Format {
    pub const NAMES: [&str; 10] = [
        "auto", "tuple", "json", "xml", "graphrag", "lightrag", "hipporag", "networkx", "graphml", "csv",
    ];

    const ALL: [Format; 10] = [
        Format::Auto,
        Format::Tuple,
        Format::Json,
        Format::Xml,
        Format::Graphrag,
        Format::Lightrag,
        Format::Hipporag,
        Format::Networkx,
        Format::Graphml,
        Format::Csv,
    ];

    pub fn parse(name: &str) -> Option<Format> {
        let at = Self::NAMES.iter().position(|other| *other == name)?;
        Some(Self::ALL[at])
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The records of a `payload` in this format; [`Extraction::format`] tells which one it was.
///
/// Of a reply of a model all is read that [`extraction`](super::extraction()) reads.
pub fn read(payload: &str, format: Format) -> Result<Extraction, Unreadable> {
    let (text, repairs) = cleaned(payload)?;
    let read = match format {
        Format::Auto => auto(&text),
        Format::Tuple => tuple::read(&text),
        Format::Xml => from_tags(&text),
        Format::Graphml => graphml::read(&text),
        Format::Csv => lines::read(&text),
        _ => {
            let found = json::find(&text).ok_or(Unreadable::NoJson)?;
            from_json(&found, Some(format))
        }
    };
    let mut read = read.ok_or(Unreadable::NoRecords)?;
    read.repairs.reasoning = repairs.reasoning;
    Ok(read)
}

/// The records of JSON that is parsed already; of a string those of its text.
pub fn read_value(value: &Value, format: Format) -> Result<Extraction, Unreadable> {
    if let Value::String(text) = value {
        return read(text, format);
    }
    let format = match format {
        Format::Auto => shape(value, DEEPEST),
        Format::Tuple | Format::Xml | Format::Graphml | Format::Csv => return Err(Unreadable::NoRecords),
        format => format,
    };
    from_value(value, Some(format))
}

/// The format of a `payload`, if it can be read.
pub fn recognise(payload: &str) -> Result<Format, Unreadable> {
    read(payload, Format::Auto).map(|read| read.format)
}

fn auto(text: &str) -> Option<Extraction> {
    let data = || {
        let found = json::find(text)?;
        from_json(&found, Some(shape(&found.value, DEEPEST)))
    };
    let tuples = || tuple::read(text);
    let tags = || from_tags(text);
    if is_data(text) {
        return data().or_else(tuples).or_else(tags);
    }
    let graph = || graphml::is_graphml(text).then(|| graphml::read(text))?;
    let lines = || lines::is_lines(text).then(|| lines::read(text))?;
    let written = || tuples().or_else(tags);
    graph().or_else(written).or_else(lines).or_else(data)
}

/// The format that the names in `value` tell; JSON without one is of a model.
fn shape(value: &Value, deep: usize) -> Format {
    let inner = |value: &Value| {
        let format = shape(value, deep.checked_sub(1)?);
        (format != Format::Json).then_some(format)
    };
    match value {
        Value::Array(items) => items.iter().take(ITEMS).find_map(inner),
        Value::Object(members) => own_shape(members).or_else(|| members.values().take(ITEMS).find_map(inner)),
        _ => None,
    }
    .unwrap_or(Format::Json)
}

fn own_shape(members: &Map<String, Value>) -> Option<Format> {
    let keys: Vec<String> = members.keys().take(ITEMS).map(|name| key(name)).collect();
    let has = |name: &&str| keys.iter().any(|key| key == name);
    let any = |names: &[&str]| names.iter().any(has);
    let all = |names: &[&str]| names.iter().all(has);
    let graphrag = [
        "textunits",
        "textunitids",
        "communityreports",
        "humanreadableid",
        "combineddegree",
        "fullcontent",
        "ntokens",
        "covariatetype",
    ];
    if any(&["extractedtriples", "passage"]) {
        Some(Format::Hipporag)
    } else if all(&["nodes", "links"]) || any(&["nodes"]) && any(&["directed", "multigraph"]) {
        Some(Format::Networkx)
    } else if any(&graphrag) || all(&["community", "level"]) {
        Some(Format::Graphrag)
    } else if any(&["chunks"])
        || all(&["content", "sourceid"])
        || all(&["srcid", "tgtid"])
        || all(&["entityname", "sourceid"])
    {
        Some(Format::Lightrag)
    } else {
        None
    }
}
