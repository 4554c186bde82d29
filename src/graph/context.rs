//! What a model reads for the report of a community, within a budget of tokens.
//!
//! The relations inside it by the degrees of their ends, what is said of the ends, and claims. Where that does not fit, the largest
//! communities below are stood for by their reports, one after the other, until it does: Edge et al., 2024, "From Local to Global".

use std::collections::{HashMap, HashSet};

use graphrag_text::tokens;

use super::statements::Statement;
use crate::collection::Collection;
use crate::error::Result;

/// A community below another one.
struct Child {
    members: HashSet<i64>,
    report: String,
}

/// What is known of communities beside their statements.
#[derive(Default)]
pub struct Around {
    /// What documents of the community's partition say of its members, by community and entity.
    described: HashMap<(i64, i64), String>,
    claims: HashMap<i64, Vec<(i64, String)>>,
    children: HashMap<i64, Vec<Child>>,
}

impl Around {
    /// Reads it for some communities.
    pub fn read(collection: &Collection, communities: &[i64]) -> Result<Around> {
        let mut around = Around::default();
        let ids = || communities.to_vec().into();
        // One description is merged over all partitions.
        let described = match collection.options.partition_by.is_empty() {
            true => {
                "SELECT c.community_id, e.id, e.name || coalesce(' (' || e.type || ')', '') || ': ' || e.description \
                     FROM {s}.community_entity c JOIN {s}.entity e ON e.id = c.entity_id \
                     WHERE c.community_id = ANY ($1) AND e.description IS NOT NULL"
            }
            false => {
                "SELECT c.id, e.id, e.name || ': ' || string_agg(DISTINCT m.description COLLATE \"C\", ' ' ORDER BY m.description COLLATE \"C\") \
                 FROM {s}.community c JOIN {s}.community_entity o ON o.community_id = c.id JOIN {s}.entity e ON e.id = o.entity_id \
                 JOIN {s}.mention m ON m.entity_id = e.id JOIN {s}.document d ON d.id = m.document_id AND d.partition = c.partition \
                 WHERE c.id = ANY ($1) AND m.description IS NOT NULL GROUP BY c.id, e.id"
            }
        };
        collection.stream(described, &[ids()], |row| {
            around.described.insert((row.need(1)?, row.need(2)?), row.need(3)?);
            Ok(())
        })?;
        let claims = "SELECT c.id, o.entity_id, concat_ws(' ', 'Claim', '(' || concat_ws(', ', k.status, k.type) || ')', 'on', e.name || ':', k.description, \
                        '\"' || k.quote || '\"') \
                      FROM {s}.community c JOIN {s}.community_entity o ON o.community_id = c.id JOIN {s}.entity e ON e.id = o.entity_id \
                      JOIN {s}.claim k ON k.subject_key = e.key OR k.subject_key IN (SELECT a.key FROM {s}.entity_alias a WHERE a.entity_id = e.id) \
                      JOIN {s}.document d ON d.id = k.document_id AND d.partition = c.partition \
                      WHERE c.id = ANY ($1) ORDER BY c.id, e.key COLLATE \"C\", d.body_hash, k.start_char, k.description COLLATE \"C\"";
        if collection.query_one("SELECT EXISTS (SELECT FROM {s}.claim)", &[], |row| row.need(1))? {
            collection.stream(claims, &[ids()], |row| {
                let claim = (row.need(2)?, row.need(3)?);
                around.claims.entry(row.need(1)?).or_default().push(claim);
                Ok(())
            })?;
        }
        let children = "SELECT c.parent_id, c.text, array_agg(e.entity_id) FROM {s}.community c \
                        JOIN {s}.community_entity e ON e.community_id = c.id \
                        WHERE c.parent_id = ANY ($1) AND c.text IS NOT NULL GROUP BY c.id ORDER BY c.member_hash";
        collection.stream(children, &[ids()], |row| {
            let members: Vec<i64> = row.need(3)?;
            around.children.entry(row.need(1)?).or_default().push(Child {
                members: members.into_iter().collect(),
                report: row.need(2)?,
            });
            Ok(())
        })?;
        Ok(around)
    }
}

/// A line, and which of the communities below it is about alone.
struct Line {
    text: String,
    tokens: usize,
    child: Option<usize>,
}

/// The lines that a model reads for the report of `community`, of at most `max_tokens`, but at least one.
pub fn context(community: i64, statements: &[Statement], around: &Around, max_tokens: usize) -> Vec<String> {
    let children = around.children.get(&community).map_or(&[][..], Vec::as_slice);
    let lines = lines(community, statements, around, children);
    // The largest first.
    let mut sizes = vec![0; children.len()];
    for line in &lines {
        if let Some(child) = line.child {
            sizes[child] += line.tokens;
        }
    }
    let mut order: Vec<usize> = (0..children.len()).collect();
    order.sort_by_key(|&child| std::cmp::Reverse(sizes[child]));
    let mut replaced = vec![false; children.len()];
    let mut total: usize = lines.iter().map(|line| line.tokens).sum();
    let mut reports = Vec::new();
    for child in order {
        if total <= max_tokens {
            break;
        }
        let report = format!(
            "Report on a part of the group: {}",
            children[child].report.replace('\n', " ")
        );
        let tokens = tokens::count(&report);
        // One that is no shorter than what it stands for helps nobody.
        if tokens < sizes[child] {
            replaced[child] = true;
            total = total - sizes[child] + tokens;
            reports.push((report, tokens));
        }
    }
    let rest = lines
        .into_iter()
        .filter(|line| line.child.is_none_or(|child| !replaced[child]))
        .map(|line| (line.text, line.tokens));
    let (mut taken, mut spent) = (Vec::new(), 0);
    for (text, tokens) in reports.into_iter().chain(rest) {
        if spent + tokens <= max_tokens || taken.is_empty() {
            spent += tokens;
            taken.push(text);
        }
    }
    taken
}

/// Relations by the degrees of their ends inside the community, before each what is said of its ends, and after all the claims.
fn lines(community: i64, statements: &[Statement], around: &Around, children: &[Child]) -> Vec<Line> {
    let mut degrees: HashMap<i64, usize> = HashMap::new();
    for end in statements.iter().flat_map(|statement| statement.ends) {
        *degrees.entry(end).or_default() += 1;
    }
    let combined = |statement: &Statement| statement.ends.iter().map(|end| degrees[end]).sum::<usize>();
    let mut order: Vec<&Statement> = statements.iter().collect();
    order.sort_by_key(|statement| std::cmp::Reverse(combined(statement)));
    let child_of = |ends: &[i64]| {
        children
            .iter()
            .position(|child| ends.iter().all(|end| child.members.contains(end)))
    };
    let mut lines = Vec::new();
    let mut add = |text: String, ends: &[i64]| {
        // Each is a line of the prompt.
        let text = text.replace('\n', " ");
        lines.push(Line {
            tokens: tokens::count(&text),
            text,
            child: child_of(ends),
        });
    };
    let mut seen = HashSet::new();
    for statement in order {
        for end in statement.ends {
            if let (true, Some(said)) = (seen.insert(end), around.described.get(&(community, end))) {
                add(said.clone(), &[end]);
            }
        }
        let line = match &statement.quote {
            Some(quote) => format!("{} \"{quote}\"", statement.line()),
            None => statement.line(),
        };
        add(line, &statement.ends);
    }
    for (entity, claim) in around.claims.get(&community).into_iter().flatten() {
        add(claim.clone(), &[*entity]);
    }
    lines
}
