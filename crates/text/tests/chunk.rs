//! The laws of blocks and leaves, over generated documents.

use graphrag_text::chunk::{Block, Format, Options, chunk};
use graphrag_text::tokens;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

fn body() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-zA-Z]{1,12}",
        4 => Just(" ".to_owned()),
        2 => prop::sample::select(vec![
            "\n", "\n\n", "\r\n", "\r\n\r\n", "\n# ", "\n## Title\n", "\nTitle\n===\n", "\n```\n# no\n", "\n- ", "\n> ", "\n    ", "\r",
            "\t", "\u{a0}", "    \n"
        ])
        .prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            ". ", "! ", "。", "」", "Dr. ", ", ", "12345", "3.14", "知识图谱", "あいう", "カタ", "한국어", "привет", "שלום", "ไทย"
        ])
        .prop_map(str::to_owned),
        1 => prop::sample::select(vec![
            "👩‍👩‍👧‍👦", "🦀", "🇩🇪🇫🇷🇯", "e\u{301}\u{323}", "\u{301}", "\u{200d}", "\u{fe0f}", "\u{0}", "\u{1b}", "\u{feff}", "क्षि", "𠮷"
        ])
        .prop_map(str::to_owned),
        1 => "[A-Za-z0-9+/]{40,200}",
        1 => ".{0,8}",
    ];
    prop::collection::vec(part, 0..250).prop_map(|parts| parts.concat())
}

fn options() -> impl Strategy<Value = Options> {
    (8usize..60, 0usize..100, 0usize..=100).prop_map(|(leaf_tokens, more, overlap)| Options {
        block_tokens: leaf_tokens + more,
        leaf_tokens,
        overlap: leaf_tokens / 2 * overlap / 100,
    })
}

fn cut(body: &str, format: Format, options: &Options) -> Vec<Block> {
    chunk(body, format, options, &mut || {})
}

fn substr(body: &str, start: usize, end: usize) -> String {
    body.chars().skip(start).take(end - start).collect()
}

/// Every byte that is not white space is in one of the ranges, which are in order.
fn covers(body: &str, whole: std::ops::Range<usize>, ranges: impl Iterator<Item = std::ops::Range<usize>>) -> bool {
    let mut at = whole.start;
    for range in ranges {
        if range.start > at && !body[at..range.start].trim().is_empty() || range.end <= at && at > whole.start {
            return false;
        }
        at = range.end;
    }
    body[at..whole.end].trim().is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn laws(body in body(), options in options(), markdown in any::<bool>()) {
        prop_assert!(options.validate().is_ok());
        let format = if markdown { Format::Markdown } else { Format::Text };
        let blocks = cut(&body, format, &options);
        prop_assert_eq!(&blocks, &cut(&body, format, &options));

        let mut edges: Vec<usize> = body.grapheme_indices(true).map(|(at, _)| at).collect();
        edges.push(body.len());
        let sound = |start: usize, end: usize, bytes: &std::ops::Range<usize>, token_count: usize, limit: usize| {
            let text = &body[bytes.clone()];
            prop_assert_eq!(substr(&body, start, end), text);
            prop_assert_eq!(token_count, tokens::count(text));
            prop_assert!((1..=limit).contains(&token_count));
            prop_assert!(edges.binary_search(&bytes.start).is_ok() && edges.binary_search(&bytes.end).is_ok());
            let first = text.graphemes(true).next().unwrap();
            let last = text.graphemes(true).next_back().unwrap();
            prop_assert!(!first.trim().is_empty() && !last.trim().is_empty());
            Ok(())
        };
        prop_assert!(covers(&body, 0..body.len(), blocks.iter().map(|block| block.bytes.clone())));
        for pair in blocks.windows(2) {
            prop_assert!(pair[0].bytes.end <= pair[1].bytes.start);
        }
        for block in &blocks {
            sound(block.start_char, block.end_char, &block.bytes, block.token_count, options.block_tokens)?;
            prop_assert!(covers(&body, block.bytes.clone(), block.leaves.iter().map(|leaf| leaf.bytes.clone())));
            prop_assert!(block.token_count > options.leaf_tokens || block.leaves.len() == 1);
            for leaf in &block.leaves {
                sound(leaf.start_char, leaf.end_char, &leaf.bytes, leaf.token_count, options.leaf_tokens)?;
                prop_assert!(leaf.bytes.start >= block.bytes.start && leaf.bytes.end <= block.bytes.end);
            }
            for pair in block.leaves.windows(2) {
                prop_assert!(pair[0].bytes.start < pair[1].bytes.start);
                let shared = pair[0].bytes.end.saturating_sub(pair[1].bytes.start);
                let shared = tokens::count(&body[pair[0].bytes.end - shared..pair[0].bytes.end]);
                prop_assert!(shared <= options.overlap + options.overlap / 2);
            }
        }
    }

    /// With sections of at least half a leaf none is joined, so each block lies in one section and carries its headings.
    #[test]
    fn blocks_do_not_cross_sections(sections in prop::collection::vec((1usize..4, 20usize..200), 1..8), options in options()) {
        let mut body = String::new();
        let mut starts = Vec::new();
        let mut path: Vec<(usize, String)> = Vec::new();
        for (number, (level, words)) in sections.into_iter().enumerate() {
            path.retain(|&(above, _)| above < level);
            path.push((level, format!("Title {number}")));
            starts.push((body.len(), path.iter().map(|(_, title)| title.clone()).collect::<Vec<_>>()));
            body.push_str(&format!("{} Title {number}\n\n{}\n\n", "#".repeat(level), "word ".repeat(words + options.leaf_tokens)));
        }
        for block in cut(&body, Format::Markdown, &options) {
            let section = starts.partition_point(|&(start, _)| start <= block.bytes.start) - 1;
            prop_assert_eq!(&block.section_path, &starts[section].1);
            prop_assert!(starts.get(section + 1).is_none_or(|&(next, _)| block.bytes.end <= next));
        }
    }
}

#[test]
fn large_and_hostile_texts_keep_the_limits() {
    let options = Options::default();
    for unit in [
        "a",
        " ",
        "\n",
        ">",
        "[",
        "# a\n",
        "- ",
        "`",
        "é",
        "知",
        "e\u{301}",
        "\u{301}",
        "0",
        "Word. ",
        "a\n\n",
        "\u{1F1E9}",
        "*_a ",
    ] {
        let body = unit.repeat(400_000 / unit.len());
        for format in [Format::Text, Format::Markdown] {
            let mut ticks = 0;
            let blocks = chunk(&body, format, &options, &mut || ticks += 1);
            assert_eq!(blocks.is_empty(), body.trim().is_empty(), "{unit:?}");
            assert!(ticks > 0);
            assert!(
                covers(&body, 0..body.len(), blocks.iter().map(|block| block.bytes.clone())),
                "{unit:?}"
            );
            for block in blocks {
                assert!(block.token_count <= options.block_tokens, "{unit:?}");
                assert!(
                    block.leaves.iter().all(|leaf| leaf.token_count <= options.leaf_tokens),
                    "{unit:?}"
                );
                assert!(
                    covers(
                        &body,
                        block.bytes.clone(),
                        block.leaves.iter().map(|leaf| leaf.bytes.clone())
                    ),
                    "{unit:?}"
                );
            }
        }
    }
}
