use super::Repairs;
use std::borrow::Cow;

/// The names of tags and special tokens between which models think.
const REASONING: [&str; 6] = ["think", "thinking", "thought", "thoughts", "reasoning", "scratchpad"];
const BEGIN: [&str; 4] = ["begin_of_thought", "begin_of_thinking", "start_thinking", "think"];
const END: [&str; 4] = ["end_of_thought", "end_of_thinking", "end_thinking", "/think"];

/// Special tokens that stand around the answer; the first ones part the messages of a reply with channels.
const PARTS: [&str; 3] = ["end", "start", "return"];
const AROUND: [&str; 11] = [
    "im_start",
    "im_end",
    "message",
    "eot_id",
    "endoftext",
    "end_of_text",
    "begin_of_solution",
    "end_of_solution",
    "start_response",
    "end_response",
    "begin_of_box",
];
const TAIL: [&str; 10] = [
    "<|end|>",
    "<|return|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_solution|>",
    "<|END_RESPONSE|>",
    "<|end_of_box|>",
    "</s>",
];

/// The longest name of a tag, a token or a channel, in bytes.
const LONGEST: usize = 48;

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Begin,
    End,
    Channel,
    Part,
    Around,
}

/// `reply` without a byte order mark, NUL, reasoning and the special tokens around the answer.
///
/// Reasoning stands between tags (`<think>`) or special tokens (`<|begin_of_thought|>`) that begin a line, to the end if
/// nothing closes it; before a closing tag without an opening one (which a chat template wrote); and in the channels of
/// a reply other than `final`. Tags that an answer only speaks of stay.
pub fn clean(reply: &str) -> (Cow<'_, str>, Repairs) {
    let mut text = reply.trim_start_matches('\u{FEFF}').trim_end();
    while let Some(rest) = TAIL.iter().find_map(|tail| text.strip_suffix(tail)) {
        text = rest.trim_end();
    }
    let data = text.trim_start().starts_with(['{', '[', '`']);
    let mut repairs = Repairs::default();
    let mut kept: Vec<&str> = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some((begin, end, mark)) = next_mark(text, at) {
        at = end;
        let before = text[start..begin].trim_end_matches([' ', '\t', '\r']);
        let fresh = before.is_empty() || before.ends_with('\n');
        match mark {
            Mark::End if !data && (fresh || ends_line(&text[end..])) => {
                kept.clear();
                repairs.reasoning = true;
            }
            Mark::Begin if fresh => {
                kept.extend(Some(before).filter(|before| !before.is_empty()));
                repairs.reasoning = true;
                at = behind(text, end, |mark| mark == Mark::End).map_or(text.len(), |(_, end)| end);
            }
            Mark::Channel if fresh => {
                kept.extend(Some(before).filter(|before| !before.is_empty()));
                let name = &text[end..text.floor_char_boundary(end + LONGEST)];
                if let Some((name, _)) = name.split_once("<|message|>") {
                    at = end + name.len() + "<|message|>".len();
                    if name.trim() != "final" {
                        repairs.reasoning = true;
                        let parts = |mark| matches!(mark, Mark::Part | Mark::Channel);
                        at = behind(text, at, parts).map_or(text.len(), |(begin, _)| begin);
                    }
                }
            }
            Mark::Part | Mark::Around if fresh => {
                kept.extend(Some(before).filter(|before| !before.is_empty()));
                if text[at..].starts_with("assistant") {
                    at += "assistant".len();
                }
            }
            _ => continue,
        }
        start = at;
    }
    let rest = &text[start..];
    let text = if kept.is_empty() {
        Cow::Borrowed(rest)
    } else {
        kept.push(rest);
        Cow::Owned(kept.concat())
    };
    if text.contains('\0') {
        return (Cow::Owned(text.replace('\0', "")), repairs);
    }
    (text, repairs)
}

/// Whether an answer may begin at `rest`.
fn ends_line(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '\r']);
    rest.is_empty() || rest.starts_with(['\n', '{', '[', '('])
}

/// Where the next mark of a kind begins and ends.
fn behind(text: &str, mut at: usize, kind: impl Fn(Mark) -> bool) -> Option<(usize, usize)> {
    loop {
        let (begin, end, mark) = next_mark(text, at)?;
        if kind(mark) {
            return Some((begin, end));
        }
        at = end;
    }
}

/// Where the next mark begins and ends, and what it is.
fn next_mark(text: &str, mut at: usize) -> Option<(usize, usize, Mark)> {
    while let Some(found) = text[at..].find(['<', '◁']) {
        let begin = at + found;
        let rest = &text[begin..];
        let (open, close) = match rest.get(..2) {
            Some("<|") => ("<|", "|>"),
            _ if rest.starts_with('<') => ("<", ">"),
            _ => ("◁", "▷"),
        };
        at = begin + open.len();
        let name = &text[at..text.floor_char_boundary(at + LONGEST)];
        if let Some((name, _)) = name.split_once(close)
            && let Some(mark) = mark(&name.to_ascii_lowercase(), open)
        {
            return Some((begin, at + name.len() + close.len(), mark));
        }
    }
    None
}

fn mark(name: &str, open: &str) -> Option<Mark> {
    if open != "<|" {
        let (name, mark) = name
            .strip_prefix('/')
            .map_or((name, Mark::Begin), |name| (name, Mark::End));
        return REASONING.contains(&name).then_some(mark);
    }
    [
        (&BEGIN[..], Mark::Begin),
        (&END, Mark::End),
        (&["channel"], Mark::Channel),
        (&PARTS, Mark::Part),
        (&AROUND, Mark::Around),
    ]
    .into_iter()
    .find_map(|(names, mark)| names.contains(&name).then_some(mark))
}
