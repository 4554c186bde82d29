//! GraphML, read tag by tag: no declaration defines anything, so that nothing can grow in the reading.

use super::LONGEST_KEY;
use crate::answer::extraction::{Extraction, Walk};
use crate::answer::{Format, reason};
use html5gum::{StartTag, Token, Tokenizer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

pub(super) fn is_graphml(text: &str) -> bool {
    let is_start = |(at, _)| {
        let name = text.as_bytes().get(at + 1..at + 8);
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"graphml"))
    };
    text.trim_start().starts_with(['<', '`']) && text.match_indices('<').any(is_start)
}

/// The nodes and edges; attributes have the names of their keys. Defaults of keys and hyperedges are not read.
pub(super) fn read(text: &str) -> Option<Extraction> {
    let start = text.find('<')?;
    let text = without_sections(&text[start..]);
    let mut graph = Graph::default();
    for token in Tokenizer::new(text.as_ref()) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => graph.start(&tag),
            Token::EndTag(tag) => graph.end(&tag.name),
            Token::String(text) => {
                if let Some((_, data)) = &mut graph.data {
                    data.push_str(&String::from_utf8_lossy(&text.value));
                }
            }
            _ => {}
        }
    }
    let cut = graph.record.is_some();
    let mut walk = Walk::new(Some(Format::Graphml));
    walk.listed = graph.seen;
    let lists = [("nodes", graph.nodes), ("links", graph.edges)];
    let lists = lists.map(|(name, list)| (name.to_owned(), Value::Array(list)));
    walk.top(&Value::Object(lists.into_iter().collect()));
    for _ in 0..graph.hyperedges {
        walk.out.drop(reason::UNKNOWN_KIND);
    }
    if cut {
        walk.out.drop(reason::CUT);
    }
    let mut read = walk.finish(false).filter(|_| graph.seen)?;
    read.repairs.fence = start > 0;
    read.repairs.broken = cut || !graph.closed;
    Some(read)
}

/// `text` with what stands in CDATA sections written as other text is.
fn without_sections(text: &str) -> Cow<'_, str> {
    const START: &str = "<![CDATA[";
    if !text.contains(START) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, section)) = rest.split_once(START) {
        let (section, behind) = section.split_once("]]>").unwrap_or((section, ""));
        plain.push_str(before);
        plain.push_str(&section.replace('&', "&amp;").replace('<', "&lt;"));
        rest = behind;
    }
    Cow::Owned(plain + rest)
}

#[derive(Default)]
struct Graph {
    /// The names of attributes by the ids of their keys.
    keys: HashMap<String, String>,
    nodes: Vec<Value>,
    edges: Vec<Value>,
    hyperedges: usize,
    /// The open node or edge, and whether it is an edge.
    record: Option<(bool, Map<String, Value>)>,
    /// The open attribute.
    data: Option<(String, String)>,
    /// Whether there is a graph, and whether its end is there.
    seen: bool,
    closed: bool,
}

impl Graph {
    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        let attribute = |name: &str| {
            let value = tag.attributes.get(name.as_bytes())?;
            Some(String::from_utf8_lossy(&value.value).into_owned())
        };
        match name.as_ref() {
            "graphml" | "graph" => self.seen = true,
            "key" => {
                if let Some(id) = attribute("id") {
                    let name = attribute("attr.name").filter(|name| !name.is_empty() && name.len() <= LONGEST_KEY);
                    self.keys.insert(id.clone(), name.unwrap_or(id));
                }
            }
            "node" | "edge" => {
                self.finish();
                self.seen = true;
                let fields = tag.attributes.iter().map(|(name, value)| {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    (text(name), Value::String(text(&value.value)))
                });
                self.record = Some((name == "edge", fields.collect()));
                if tag.self_closing {
                    self.finish();
                }
            }
            "hyperedge" => {
                self.finish();
                self.hyperedges += 1;
            }
            "data" if self.record.is_some() && !tag.self_closing => {
                let key = attribute("key").unwrap_or_default();
                let name = self.keys.get(&key).cloned().unwrap_or(key);
                self.data = Some((name, String::new()));
            }
            // What an editor shows.
            label if label.ends_with("nodelabel") || label.ends_with("edgelabel") => {
                if let Some((name, text)) = &mut self.data {
                    "label".clone_into(name);
                    text.clear();
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"node" | b"edge" => self.finish(),
            b"data" => self.put(),
            name if name.ends_with(b"nodelabel") || name.ends_with(b"edgelabel") => self.put(),
            b"graphml" => self.closed = true,
            _ => {}
        }
    }

    fn put(&mut self) {
        if let (Some((name, text)), Some((_, fields))) = (self.data.take(), &mut self.record)
            && !text.trim().is_empty()
        {
            fields
                .entry(name)
                .or_insert_with(|| Value::String(text.trim().to_owned()));
        }
    }

    fn finish(&mut self) {
        self.data = None;
        match self.record.take() {
            Some((false, fields)) => self.nodes.push(Value::Object(fields)),
            Some((true, fields)) => self.edges.push(Value::Object(fields)),
            None => {}
        }
    }
}
