//! Rows of ready data that are neither entities nor relations.

use super::fields::{self, Fields};
use super::{Community, CommunityReport, LONGEST_NAME, Walk, json, reason};
use crate::answer::{number, report};
use serde_json::Value;

const KEY: [&str; 7] = ["idx", "id", "chunkid", "textunitid", "sourceid", "sourcekey", "key"];
const TEXT: [&str; 3] = ["text", "content", "passage"];
const COMMUNITY: [&str; 3] = ["community", "communityid", "id"];

impl Walk {
    /// The record of a row that its columns tell to be of another table than entities and relations.
    pub(super) fn row(&mut self, fields: &Fields) -> bool {
        let any = |names: &[&str]| names.iter().any(|name| fields.has(&[name]));
        if any(&["community"]) && any(&["fullcontent", "findings", "summary"]) {
            self.report_record(fields);
        } else if any(&["community"]) && any(&["level", "parent", "children", "entityids"]) {
            self.community_record(fields);
        } else if any(&["passage"])
            || any(&TEXT) && any(&["ntokens", "documentid", "documentids", "sourceid", "chunkorderindex"])
        {
            self.passage_record(fields);
        } else if any(&["text"]) && any(&["creationdate"]) {
            self.out.drop(reason::UNKNOWN_KIND);
        } else {
            return false;
        }
        true
    }

    /// Reads the records of a list.
    pub(super) fn rows(&mut self, value: &Value, read: fn(&mut Self, &Fields)) {
        match value {
            Value::Array(items) => {
                self.listed = true;
                for item in items {
                    match item {
                        Value::Object(members) => read(self, &Fields::new(members)),
                        _ => self.out.drop(reason::NOT_A_RECORD),
                    }
                }
            }
            Value::Object(members) => read(self, &Fields::new(members)),
            Value::String(text) => match json::find(text) {
                Some(found) if found.value.is_array() => self.rows(&found.value, read),
                _ => self.out.drop(reason::NOT_A_RECORD),
            },
            Value::Null => {}
            _ => self.out.drop(reason::NOT_A_RECORD),
        }
    }

    pub(super) fn claim_record(&mut self, fields: &Fields) {
        let mut claim = fields.claim();
        claim.origin = self.inherited(claim.origin);
        self.lose(fields);
        self.out.add_claim(claim);
    }

    pub(super) fn passage_record(&mut self, fields: &Fields) {
        self.passage(fields);
    }

    /// Adds a passage and gives its key.
    pub(super) fn passage(&mut self, fields: &Fields) -> Option<String> {
        let own = || fields.has(&["passage"]).then(|| self.out.passages.len().to_string());
        let key = fields.member(&KEY).or_else(own);
        let (Some(key), Some(text)) = (key, fields.member(&TEXT)) else {
            self.out.drop(reason::TOO_FEW);
            return None;
        };
        if key.len() > LONGEST_NAME {
            self.out.drop(reason::TOO_LONG);
            return None;
        }
        let passage = super::Passage { key, text };
        let key = passage.key.clone();
        self.out.passages.push(passage);
        Some(key)
    }

    pub(super) fn community_record(&mut self, fields: &Fields) {
        let Some(id) = fields.member(&COMMUNITY) else {
            return self.out.drop(reason::TOO_FEW);
        };
        let community = Community {
            id,
            level: whole(fields.member(&["level"])),
            // -1 is that of a root.
            parent: fields.member(&["parent"]).filter(|parent| !parent.starts_with('-')),
            title: fields.member(&["title", "name"]),
            entities: Vec::new(),
            sources: fields.origin().sources,
        };
        self.lose(fields);
        let members = fields.value(&["entityids"]).map(fields::texts);
        self.communities.push((community, members.unwrap_or_default()));
    }

    pub(super) fn report_record(&mut self, fields: &Fields) {
        let report = report::from_members(fields.object());
        let (Some(community), Some(report)) = (fields.member(&COMMUNITY), report) else {
            return self.out.drop(reason::TOO_FEW);
        };
        self.out.reports.push(CommunityReport {
            community,
            level: whole(fields.member(&["level"])),
            report,
            text: fields.member(&["fullcontent"]),
        });
    }
}

fn whole(text: Option<String>) -> Option<i64> {
    number(&text?)
        .filter(|number| number.fract() == 0.0)
        .map(|number| number as i64)
}
