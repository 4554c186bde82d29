//! Words: what the hash embedder counts and what the extractive summary weighs.

use unicode_segmentation::UnicodeSegmentation;

/// The words of `text`, lower-cased, in order, with their byte offset.
///
/// Words are those of Unicode's segmentation (UAX #29), split again at underscores, so that `fraud_model` is two words
/// and a Han character is one. A word holds at least one letter or digit.
pub fn words(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    text.unicode_word_indices().flat_map(|(at, word)| {
        word.split('_')
            .scan(at, |next, part| {
                let start = *next;
                *next += part.len() + 1;
                Some((start, part))
            })
            .filter(|(_, part)| part.chars().any(char::is_alphanumeric))
            .map(|(start, part)| (start, part.to_lowercase()))
    })
}

#[cfg(test)]
mod tests {
    use super::words;

    fn list(text: &str) -> Vec<String> {
        words(text).map(|(_, word)| word).collect()
    }

    #[test]
    fn words_split_at_underscores_and_keep_apostrophes() {
        assert_eq!(
            list("Fraud_model, isn't SR-2023!"),
            ["fraud", "model", "isn't", "sr", "2023"]
        );
    }

    #[test]
    fn a_han_character_is_a_word() {
        assert_eq!(list("知识图谱"), ["知", "识", "图", "谱"]);
    }

    #[test]
    fn offsets_point_at_the_word() {
        let text = "é risk__team 🦀";
        for (at, word) in words(text) {
            assert!(text[at..].to_lowercase().starts_with(&word));
        }
        assert_eq!(list(text), ["é", "risk", "team"]);
    }

    #[test]
    fn no_words_in_punctuation() {
        assert!(list("… — !? ___ 🦀").is_empty());
    }
}
