use super::{Repairs, Unreadable, cleaned};
use crate::sentences::sentences;

/// The longest line, in bytes, that only announces what follows.
const LONGEST_LEAD: usize = 80;

/// A reply in prose: without reasoning, a fence around all of it, and a first line that only announces a summary or an answer.
///
/// If the reply was `cut`, it ends at its last whole sentence, unless less than half of it would be left.
pub fn prose(reply: &str, cut: bool) -> Result<(String, Repairs), Unreadable> {
    let (text, mut repairs) = cleaned(reply)?;
    let mut text = text.trim();
    // An announced fence, or a fence around an announcement.
    for step in [unfenced, unannounced, unfenced] {
        if let Some(inner) = step(text).map(str::trim).filter(|inner| !inner.is_empty()) {
            text = inner;
            repairs.fence = true;
        }
    }
    if cut {
        let end = last_end(text);
        if end < text.len() && text[..end].trim_end().len() * 2 >= text.len() {
            text = text[..end].trim_end();
            repairs.broken = true;
        }
    }
    Ok((text.to_owned(), repairs))
}

/// What a fence around all of `text` holds; the closing one may be missing.
pub(super) fn unfenced(text: &str) -> Option<&str> {
    let mark = &text[..text.len()
        - text
            .trim_start_matches(text.chars().next().filter(|c| "`~".contains(*c))?)
            .len()];
    let (info, inner) = text[mark.len()..].split_once('\n')?;
    let plain = info
        .trim()
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c));
    if mark.len() < 3 || !plain {
        return None;
    }
    match inner
        .match_indices(mark)
        .find(|&(at, _)| at == 0 || inner[..at].ends_with('\n'))
    {
        Some((at, _)) if inner[at..].trim() != mark => None,
        Some((at, _)) => Some(&inner[..at]),
        None => Some(inner),
    }
}

fn unannounced(text: &str) -> Option<&str> {
    let (line, rest) = text.split_once('\n')?;
    let line = line.trim_matches(|c: char| c.is_whitespace() || "*#_".contains(c));
    let lower = line.to_lowercase();
    let announces = line.len() <= LONGEST_LEAD
        && line.ends_with(':')
        && ["summar", "answer"].iter().any(|word| lower.contains(word));
    announces.then_some(rest)
}

/// Where the last sentence ends that more text could follow.
fn last_end(text: &str) -> usize {
    let more = format!("{text} X");
    sentences(&more).last().map_or(0, |last| last.start).min(text.len())
}
