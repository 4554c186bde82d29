//! From a document to its blocks and leaves.

mod units;

use std::ops::Range;

use crate::markdown::Headings;
use crate::tokens;
use units::{Aim, Cut, TICK, Unit, Units, choose, tokens_of};

/// How the body of a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One section.
    Text,
    /// Each heading starts a section.
    Markdown,
}

/// The sizes of blocks and leaves, in tokens as [`tokens::count`] counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most tokens of a block.
    pub block_tokens: usize,
    /// The most tokens of a leaf.
    pub leaf_tokens: usize,
    /// About how many tokens a leaf shares with the one before it in the same block.
    pub overlap: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            block_tokens: 1000,
            leaf_tokens: 200,
            overlap: 40,
        }
    }
}

/// The largest `block_tokens`.
pub const LARGEST_BLOCK: usize = 100_000;

impl Options {
    /// Whether the sizes can be kept; if not, which bound is broken, as a sentence without a full stop.
    pub fn validate(&self) -> Result<(), String> {
        let least = tokens::LARGEST_PIECE;
        if self.leaf_tokens < least {
            Err(format!(
                "leaf_tokens is {}, but must be at least {least}",
                self.leaf_tokens
            ))
        } else if self.block_tokens < self.leaf_tokens {
            Err(format!(
                "block_tokens is {}, but must be at least leaf_tokens ({})",
                self.block_tokens, self.leaf_tokens
            ))
        } else if self.block_tokens > LARGEST_BLOCK {
            Err(format!(
                "block_tokens is {}, but must be at most {LARGEST_BLOCK}",
                self.block_tokens
            ))
        } else if self.overlap > self.leaf_tokens / 2 {
            Err(format!(
                "overlap is {}, but must be at most half of leaf_tokens ({})",
                self.overlap,
                self.leaf_tokens / 2
            ))
        } else {
            Ok(())
        }
    }

    /// The nearest sizes that [`Options::validate`] accepts.
    fn bounded(&self) -> Options {
        let leaf_tokens = self.leaf_tokens.clamp(tokens::LARGEST_PIECE, LARGEST_BLOCK);
        let block_tokens = self.block_tokens.clamp(leaf_tokens, LARGEST_BLOCK);
        Options {
            block_tokens,
            leaf_tokens,
            overlap: self.overlap.min(leaf_tokens / 2),
        }
    }
}

/// A contiguous part of a document within one section: what a model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The headings above it, the outermost first, without markup.
    pub section_path: Vec<String>,
    /// Characters of the body before it: `substr(body, start_char + 1, end_char - start_char)` is its text.
    pub start_char: usize,
    /// Characters of the body up to its end.
    pub end_char: usize,
    /// The same place in bytes.
    pub bytes: Range<usize>,
    /// What [`tokens::count`] gives for its text.
    pub token_count: usize,
    /// Its windows, in order; at least one.
    pub leaves: Vec<Leaf>,
}

/// A window of a block: what is embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Characters of the body before it.
    pub start_char: usize,
    /// Characters of the body up to its end.
    pub end_char: usize,
    /// The same place in bytes.
    pub bytes: Range<usize>,
    /// What [`tokens::count`] gives for its text.
    pub token_count: usize,
}

/// The blocks of a document, with their leaves, in order.
///
/// A section runs from a top-level Markdown heading, included, to the next. One with fewer tokens than half a leaf joins
/// the next one, and the last joins the one before it. The path of a block is that of its section; over joined sections
/// it is what their paths have in common, but a small section in front of its own subsection does not count.
///
/// A section that is larger than a block is cut into blocks of about the same size, by preference between paragraphs, then
/// between sentences, at white space, anywhere between two pieces. Leaves are cut likewise, each starting about `overlap`
/// tokens before the end of the one before. Blocks and leaves have no white space at either end; apart from white
/// space, every character is in at least one of each. No grapheme cluster of up to 32 characters is cut.
///
/// `tick` is called every few milliseconds. Sizes that [`Options::validate`] refuses are brought within bounds.
pub fn chunk(body: &str, format: Format, options: &Options, tick: &mut dyn FnMut()) -> Vec<Block> {
    let options = options.bounded();
    let mut cutter = Cutter {
        body,
        options: &options,
        at: (0, 0),
        blocks: Vec::new(),
    };
    let mut ready: Option<Region> = None;
    let mut pending: Option<Region> = None;
    let mut add = |section: Region, tick: &mut dyn FnMut()| {
        if section.tokens == 0 {
            return;
        }
        match &mut pending {
            Some(small) if small.tokens < options.leaf_tokens / 2 => small.join(section),
            _ => {
                if let Some(region) = std::mem::replace(&mut ready, pending.replace(section)) {
                    cutter.region(&region, tick);
                }
            }
        }
    };
    let mut headings = (format == Format::Markdown).then(|| Headings::new(body));
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut start = 0;
    loop {
        let heading = headings.as_mut().and_then(|headings| headings.next(tick));
        let end = heading.as_ref().map_or(body.len(), |heading| heading.start);
        let titles = path
            .iter()
            .map(|(_, title)| title.clone())
            .filter(|title| !title.is_empty())
            .collect();
        let tokens = count(&body[start..end], tick);
        let small = tokens < options.leaf_tokens / 2;
        let sections = vec![Section {
            start,
            path: titles,
            small,
        }];
        add(Region { sections, end, tokens }, tick);
        let Some(heading) = heading else { break };
        start = end;
        path.retain(|&(level, _)| level < heading.level);
        path.push((heading.level, heading.title));
    }
    if let Some(last) = pending {
        match &mut ready {
            Some(before) if last.tokens < options.leaf_tokens / 2 => before.join(last),
            _ => {
                if let Some(region) = ready.replace(last) {
                    cutter.region(&region, tick);
                }
            }
        }
    }
    if let Some(region) = ready {
        cutter.region(&region, tick);
    }
    cutter.blocks
}

/// [`tokens::count`] of a text without the white space at its ends.
fn count(text: &str, tick: &mut dyn FnMut()) -> usize {
    let mut tokens = 0;
    let mut white = 0;
    for (number, piece) in tokens::pieces(text).enumerate() {
        if number.is_multiple_of(TICK) {
            tick();
        }
        if !piece.white {
            tokens += white + piece.tokens;
            white = 0;
        } else if tokens > 0 {
            white += piece.tokens;
        }
    }
    tokens
}

/// A section, or some that are joined.
struct Region {
    sections: Vec<Section>,
    end: usize,
    /// Without the white space between the sections, which is enough to weigh it.
    tokens: usize,
}

struct Section {
    start: usize,
    path: Vec<String>,
    /// Whether it is too small to stand alone.
    small: bool,
}

impl Region {
    fn join(&mut self, other: Region) {
        self.sections.extend(other.sections);
        self.end = other.end;
        self.tokens += other.tokens;
    }

    /// The headings of a block of this region.
    fn path(&self, bytes: &Range<usize>) -> Vec<String> {
        let first = self
            .sections
            .partition_point(|section| section.start <= bytes.start)
            .saturating_sub(1);
        let mut within = self.sections[first..]
            .iter()
            .take_while(|section| section.start < bytes.end);
        let Some(section) = within.next() else {
            return Vec::new();
        };
        let mut path = section.path.as_slice();
        let mut leads = section.small;
        for section in within {
            leads &= section.path.starts_with(path);
            if leads {
                path = section.path.as_slice();
                leads = section.small;
            } else {
                let common = path.iter().zip(&section.path).take_while(|(a, b)| a == b).count();
                path = &path[..common];
            }
        }
        path.to_vec()
    }
}

struct Cutter<'a> {
    body: &'a str,
    options: &'a Options,
    /// A place in bytes, and the number of characters before it.
    at: (usize, usize),
    blocks: Vec<Block>,
}

impl Cutter<'_> {
    /// Cuts a region into blocks. Only one block's units are held at a time.
    fn region(&mut self, region: &Region, tick: &mut dyn FnMut()) {
        let limit = self.options.block_tokens;
        let mut left = region.tokens;
        let mut units = Units::new(self.body, region.sections[0].start..region.end);
        let mut held: Vec<Unit> = Vec::new();
        loop {
            while tokens_of(&held) <= limit
                && let Some(unit) = units.next(tick)
            {
                held.push(unit);
            }
            if tokens_of(&held) <= limit {
                break;
            }
            // Blocks of one size rather than full ones and a rest.
            let target = left / left.div_ceil(limit).max(2);
            let high = limit.min(left.saturating_sub(self.options.leaf_tokens / 2));
            let number = choose(
                &held,
                0,
                &Aim {
                    low: target / 2,
                    target,
                    high,
                    limit,
                    best: Cut::Paragraph,
                },
            );
            self.block(region, &held[..number], tick);
            left = left.saturating_sub(held[number].before - held[0].before);
            held.drain(..number);
        }
        if !held.is_empty() {
            self.block(region, &held, tick);
        }
    }

    fn block(&mut self, region: &Region, units: &[Unit], tick: &mut dyn FnMut()) {
        tick();
        let whole = self.leaf(units);
        let mut leaves = Vec::new();
        let Options {
            leaf_tokens: limit,
            overlap,
            ..
        } = *self.options;
        let mut start = 0;
        // How many units from `start` the leaf before has, too.
        let mut shared = 0;
        while tokens_of(&units[start..]) > limit {
            let rest = &units[start..];
            let left = tokens_of(rest);
            let number = (left - overlap).div_ceil(limit - overlap).max(2);
            let target = (left + (number - 1) * overlap) / number;
            let known = tokens_of(&rest[..shared]);
            let low = (target / 2).max(known + target.saturating_sub(overlap) / 2);
            let high = limit.min(left - overlap.max(limit / 8).min(left));
            let taken = choose(
                rest,
                shared,
                &Aim {
                    low,
                    target,
                    high,
                    limit,
                    best: Cut::Sentence,
                },
            );
            leaves.push(self.leaf(&rest[..taken]));
            shared = overlapping(rest, taken, overlap, limit);
            start += taken - shared;
        }
        leaves.push(self.leaf(&units[start..]));
        let Leaf {
            start_char,
            end_char,
            bytes,
            token_count,
        } = whole;
        self.blocks.push(Block {
            section_path: region.path(&bytes),
            start_char,
            end_char,
            bytes,
            token_count,
            leaves,
        });
    }

    fn leaf(&mut self, units: &[Unit]) -> Leaf {
        let bytes = units[0].bytes.start..units[units.len() - 1].bytes.end;
        Leaf {
            start_char: self.character(bytes.start),
            end_char: self.character(bytes.end),
            bytes,
            token_count: tokens_of(units),
        }
    }

    /// The number of characters before a byte, counted from the last place that was asked for.
    fn character(&mut self, byte: usize) -> usize {
        let (at, characters) = self.at;
        let characters = if byte >= at {
            characters + self.body[at..byte].chars().count()
        } else {
            characters - self.body[byte..at].chars().count()
        };
        self.at = (byte, characters);
        characters
    }
}

/// With how many of the `taken` units the next leaf starts: about `overlap` tokens, from the start of a sentence if there
/// is one between half and one and a half times as many, else of a word. The unit behind them must fit in, too.
fn overlapping(units: &[Unit], taken: usize, overlap: usize, limit: usize) -> usize {
    let mut best: Option<(Cut, usize, usize)> = None;
    for start in (1..taken).rev() {
        let tokens = tokens_of(&units[start..taken]);
        if tokens > overlap + overlap / 2 || tokens_of(&units[start..=taken]) > limit {
            break;
        }
        let cut = units[start - 1].cut.min(Cut::Sentence);
        let distance = tokens.abs_diff(overlap);
        let better = best.is_none_or(|(kind, near, _)| cut > kind || cut == kind && distance < near);
        let near = tokens >= overlap / 2 && (tokens <= overlap || cut == Cut::Sentence);
        if near && better {
            best = Some((cut, distance, start));
        }
    }
    best.map_or(0, |(_, _, start)| taken - start)
}

#[cfg(test)]
mod tests;
