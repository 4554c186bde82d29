//! A text as units: what may stand between two cuts, with how good a cut behind it is.

use std::iter::Peekable;
use std::ops::Range;

use crate::{sentences, tokens};

/// How good a cut behind a unit is, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cut {
    Piece,
    White,
    Sentence,
    Paragraph,
}

/// A piece that is not white space, and the white space behind it.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Where the piece stands in the body, in bytes.
    pub bytes: Range<usize>,
    /// The tokens before it, counted from any fixed place.
    pub before: usize,
    pub tokens: usize,
    pub cut: Cut,
}

/// The tokens of a run of units, without the white space behind the last. It is [`tokens::count`] of their text.
pub(super) fn tokens_of(units: &[Unit]) -> usize {
    match units {
        [first, .., last] => last.before + last.tokens - first.before,
        [only] => only.tokens,
        [] => 0,
    }
}

/// The units of a part of the body, one after the other.
pub(super) struct Units<'a> {
    text: &'a str,
    offset: usize,
    pieces: Peekable<tokens::Pieces<'a>>,
    ends: sentences::Ends<'a>,
    /// Where the next sentence ends.
    sentence: Option<usize>,
    before: usize,
    seen: usize,
}

impl<'a> Units<'a> {
    pub fn new(body: &'a str, range: Range<usize>) -> Self {
        let text = &body[range.clone()];
        let ends = sentences::Ends::new(text);
        let pieces = tokens::pieces(text).peekable();
        Units {
            text,
            offset: range.start,
            pieces,
            ends,
            sentence: Some(0),
            before: 0,
            seen: 0,
        }
    }

    pub fn next(&mut self, tick: &mut dyn FnMut()) -> Option<Unit> {
        if self.seen == 0 {
            self.white(tick);
        }
        self.pulse(tick);
        let piece = self.pieces.next()?;
        let (white, lines) = self.white(tick);
        let Range { start, end } = piece.bytes;
        let next = self.pieces.peek().map_or(self.text.len(), |next| next.bytes.start);
        while self.sentence.is_some_and(|sentence| sentence < end) {
            self.sentence = self.ends.next(tick);
        }
        let cut = match lines {
            2.. => Cut::Paragraph,
            _ if self.sentence.is_some_and(|sentence| sentence <= next) => Cut::Sentence,
            _ if end < next => Cut::White,
            _ => Cut::Piece,
        };
        let bytes = self.offset + start..self.offset + end;
        let unit = Unit {
            bytes,
            before: self.before,
            tokens: piece.tokens,
            cut,
        };
        self.before += piece.tokens + white;
        Some(unit)
    }

    /// The tokens and the line ends of the white space that comes next.
    fn white(&mut self, tick: &mut dyn FnMut()) -> (usize, usize) {
        let mut tokens = 0;
        let mut lines = 0;
        while let Some(piece) = self.pieces.next_if(|piece| piece.white) {
            self.pulse(tick);
            tokens += piece.tokens;
            let white = &self.text[piece.bytes];
            let ends = |end: u8| white.bytes().filter(|&b| b == end).count();
            lines += ends(b'\n').max(ends(b'\r'));
        }
        (tokens, lines)
    }

    fn pulse(&mut self, tick: &mut dyn FnMut()) {
        if self.seen.is_multiple_of(TICK) {
            tick();
        }
        self.seen += 1;
    }
}

/// After so many pieces, `tick` is called.
pub(super) const TICK: usize = 1 << 14;

/// What a run of units should count, in tokens.
pub(super) struct Aim {
    pub low: usize,
    pub target: usize,
    pub high: usize,
    /// Never more than that.
    pub limit: usize,
    /// The best kind of cut to tell apart.
    pub best: Cut,
}

/// Where to cut `units`: a number of units that count within `low..=high`. The best kind of cut wins, then the one nearest
/// to `target`, then the first; if none is within, the last one within `limit` is taken.
///
/// At least `least + 1` units are taken, and not all of them; the caller sees to it that so many are within `limit`.
pub(super) fn choose(units: &[Unit], least: usize, aim: &Aim) -> usize {
    let mut best: Option<(Cut, usize, usize)> = None;
    let mut last = least + 1;
    for number in least + 1..units.len() {
        let tokens = tokens_of(&units[..number]);
        if tokens > aim.limit || tokens > aim.high && best.is_some() {
            break;
        }
        last = number;
        let cut = units[number - 1].cut.min(aim.best);
        let distance = tokens.abs_diff(aim.target);
        let better = best.is_none_or(|(kind, near, _)| cut > kind || cut == kind && distance < near);
        if (aim.low..=aim.high).contains(&tokens) && better {
            best = Some((cut, distance, number));
        }
    }
    best.map_or(last, |(_, _, number)| number)
}
