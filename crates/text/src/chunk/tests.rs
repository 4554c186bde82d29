use super::{Format, Options, chunk};

fn blocks(body: &str, format: Format, sizes: (usize, usize, usize)) -> Vec<(String, String, Vec<String>)> {
    let options = Options {
        block_tokens: sizes.0,
        leaf_tokens: sizes.1,
        overlap: sizes.2,
    };
    options.validate().unwrap();
    chunk(body, format, &options, &mut || {})
        .into_iter()
        .map(|block| {
            let leaves = block
                .leaves
                .iter()
                .map(|leaf| body[leaf.bytes.clone()].to_owned())
                .collect();
            (block.section_path.join(" > "), body[block.bytes].to_owned(), leaves)
        })
        .collect()
}

/// Each word counts one token.
fn words(from: usize, to: usize) -> String {
    (from..to)
        .map(|number| ["red", "blue", "green", "grey"][number % 4])
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn sections_carry_their_headings() {
    let filler = words(0, 8);
    let body = format!(
        "{filler}\n\n# Payments\n\n{filler}\n\n## Fraud *checks*\n\n{filler}\n\n```\n# no heading\n```\n\nRefunds\n=======\n{filler}\n"
    );
    let found = blocks(&body, Format::Markdown, (40, 12, 3));
    let paths: Vec<_> = found.iter().map(|(path, ..)| path.as_str()).collect();
    assert_eq!(paths, ["", "Payments", "Payments > Fraud checks", "Refunds"]);
    assert_eq!(found[1].1, format!("# Payments\n\n{filler}"));
    assert!(found[2].1.ends_with("# no heading\n```"));
    assert_eq!(found[3].1, format!("Refunds\n=======\n{filler}"));
}

#[test]
fn small_sections_join_the_next_and_the_last_the_one_before() {
    let filler = words(0, 8);
    let found = blocks(
        &format!("# Guide\n\n## Setup\n\n{filler}\n\n## Use\n\nit\n\n# More\n\n{filler}\n\n## End\n"),
        Format::Markdown,
        (60, 12, 3),
    );
    assert_eq!(
        found
            .iter()
            .map(|(path, text, _)| (path.as_str(), text.clone()))
            .collect::<Vec<_>>(),
        [
            ("Guide > Setup", format!("# Guide\n\n## Setup\n\n{filler}")),
            ("", format!("## Use\n\nit\n\n# More\n\n{filler}\n\n## End")),
        ]
    );
}

#[test]
fn joined_sections_have_what_is_common() {
    let filler = words(0, 8);
    let body = format!("# A\n\n## B\n\none\n\n## C\n\n{filler}\n\n# D\n\n{filler}\n\n## E\n");
    let paths: Vec<_> = blocks(&body, Format::Markdown, (60, 16, 3))
        .into_iter()
        .map(|(path, ..)| path)
        .collect();
    assert_eq!(paths, ["A", "D"]);
}

#[test]
fn a_text_is_one_section_cut_between_paragraphs() {
    let paragraph = words(0, 20);
    let body = format!("# {paragraph}\n\n{paragraph}\r\n\r\n{paragraph}\n");
    let found = blocks(&body, Format::Text, (30, 30, 5));
    assert_eq!(
        found.iter().map(|(_, text, _)| text.as_str()).collect::<Vec<_>>(),
        [format!("# {paragraph}"), paragraph.clone(), paragraph]
    );
}

#[test]
fn leaves_end_at_sentences_and_overlap() {
    let body = "One red fox ran off. Two blue birds flew by. Three green frogs sat down. Four grey cats slept on.";
    let found = blocks(body, Format::Text, (100, 14, 6));
    assert_eq!(
        found[0].2,
        [
            "One red fox ran off. Two blue birds flew by.",
            "Two blue birds flew by. Three green frogs sat down.",
            "Three green frogs sat down. Four grey cats slept on."
        ]
    );
}

#[test]
fn what_fits_is_one_leaf() {
    let found = blocks("  \n One fox. \n\n", Format::Markdown, (100, 14, 6));
    assert_eq!(
        found,
        [(String::new(), "One fox.".to_owned(), vec!["One fox.".to_owned()])]
    );
    assert!(blocks(" \n\t\n", Format::Markdown, (100, 14, 6)).is_empty());
    assert!(blocks("", Format::Text, (100, 14, 6)).is_empty());
}

#[test]
fn no_tail_is_tiny() {
    for length in 41..90 {
        let found = blocks(&words(0, length), Format::Text, (1000, 40, 8));
        let leaves: Vec<_> = found[0].2.iter().map(|leaf| leaf.split(' ').count()).collect();
        assert!(
            leaves.iter().all(|&size| (24..=40).contains(&size)),
            "{length}: {leaves:?}"
        );
    }
    for length in 101..400 {
        let sizes: Vec<_> = blocks(&words(0, length), Format::Text, (100, 40, 8))
            .iter()
            .map(|(_, text, _)| text.split(' ').count())
            .collect();
        assert!(
            sizes.iter().all(|&size| (50..=100).contains(&size)),
            "{length}: {sizes:?}"
        );
    }
}

#[test]
fn offsets_are_characters() {
    let body = "é 🦀 図 a\u{301} end";
    let found = chunk(
        body,
        Format::Text,
        &Options {
            block_tokens: 8,
            leaf_tokens: 8,
            overlap: 0,
        },
        &mut || {},
    );
    let places: Vec<_> = found
        .iter()
        .map(|block| (block.start_char, block.end_char, block.bytes.clone()))
        .collect();
    assert_eq!(places.last().unwrap().1, body.chars().count());
    for (start, end, bytes) in places {
        assert_eq!(
            body.chars().skip(start).take(end - start).collect::<String>(),
            body[bytes]
        );
    }
}

#[test]
fn sizes_out_of_bounds_are_named() {
    let check = |block_tokens, leaf_tokens, overlap| {
        Options {
            block_tokens,
            leaf_tokens,
            overlap,
        }
        .validate()
        .map_err(|error| error.split(' ').next().unwrap().to_owned())
    };
    assert_eq!(check(1000, 200, 100), Ok(()));
    assert_eq!(check(1000, 7, 0), Err("leaf_tokens".to_owned()));
    assert_eq!(check(100, 200, 0), Err("block_tokens".to_owned()));
    assert_eq!(check(100_001, 200, 0), Err("block_tokens".to_owned()));
    assert_eq!(check(1000, 200, 101), Err("overlap".to_owned()));
    let wild = Options {
        block_tokens: 0,
        leaf_tokens: 0,
        overlap: usize::MAX,
    };
    assert_eq!(chunk("one two", Format::Text, &wild, &mut || {}).len(), 1);
}
