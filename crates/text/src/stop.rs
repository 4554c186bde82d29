//! Stop words: the words of a language that say how, not what.

use std::collections::HashSet;
use std::sync::OnceLock;

/// The stop words of one language, compared in lower case.
#[derive(Debug, Default)]
pub struct StopWords {
    words: HashSet<String>,
}

impl StopWords {
    /// Whether `word` is a stop word, in whatever case. A single cased letter or digit is one in every language.
    pub fn contains(&self, word: &str) -> bool {
        let mut chars = word.chars();
        if let (Some(c), None) = (chars.next(), chars.next())
            && (c.is_lowercase() || c.is_uppercase() || c.is_numeric() && !c.is_alphabetic())
        {
            return true;
        }
        if self.words.contains(word) {
            return true;
        }
        let lower = word.to_lowercase().replace('’', "'");
        lower != word && self.words.contains(&lower)
    }

    /// Whether nothing is known of the language.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// The names under which Postgres (and, for the last ones, its usual extensions) know a language, with the list's code.
const LANGUAGES: [(&str, &str); 48] = [
    ("arabic", "ar"),
    ("armenian", "hy"),
    ("basque", "eu"),
    ("catalan", "ca"),
    ("danish", "da"),
    ("dutch", "nl"),
    ("english", "en"),
    ("estonian", "et"),
    ("finnish", "fi"),
    ("french", "fr"),
    ("german", "de"),
    ("greek", "el"),
    ("hindi", "hi"),
    ("hungarian", "hu"),
    ("indonesian", "id"),
    ("irish", "ga"),
    ("italian", "it"),
    ("lithuanian", "lt"),
    ("nepali", "ne"),
    ("norwegian", "no"),
    ("portuguese", "pt"),
    ("romanian", "ro"),
    ("russian", "ru"),
    ("spanish", "es"),
    ("swedish", "sv"),
    ("tamil", "ta"),
    ("turkish", "tr"),
    ("afrikaans", "af"),
    ("albanian", "sq"),
    ("bengali", "bn"),
    ("bulgarian", "bg"),
    ("chinese", "zh"),
    ("croatian", "hr"),
    ("czech", "cs"),
    ("galician", "gl"),
    ("hebrew", "he"),
    ("japanese", "ja"),
    ("korean", "ko"),
    ("latvian", "lv"),
    ("malay", "ms"),
    ("persian", "fa"),
    ("polish", "pl"),
    ("slovak", "sk"),
    ("slovenian", "sl"),
    ("thai", "th"),
    ("ukrainian", "uk"),
    ("urdu", "ur"),
    ("vietnamese", "vi"),
];

/// The stop words of the text-search configuration `language`, such as `english` or `pg_catalog.german`, in any case.
///
/// An unknown name and `simple` have none but single letters and digits. Each list is made once and kept.
///
/// Source: the lists of NLTK (which are Snowball's for the most part), else those of stopwords-iso, by the crate `stop-words`.
pub fn words(language: &str) -> &'static StopWords {
    static LISTS: [OnceLock<StopWords>; LANGUAGES.len()] = [const { OnceLock::new() }; LANGUAGES.len()];
    static NONE: OnceLock<StopWords> = OnceLock::new();
    let language = language
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .trim_matches('"')
        .to_lowercase();
    let Some(at) = LANGUAGES.iter().position(|(name, _)| *name == language) else {
        return NONE.get_or_init(StopWords::default);
    };
    LISTS[at].get_or_init(|| {
        let list = stop_words::lookup(LANGUAGES[at].1).unwrap_or_default();
        StopWords {
            words: list.iter().map(|word| word.to_lowercase()).collect(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{LANGUAGES, words};

    #[test]
    fn every_language_has_its_list() {
        for (language, _) in LANGUAGES {
            assert!(!words(language).is_empty(), "{language}");
        }
    }

    #[test]
    fn function_words_and_not_content_words() {
        for (language, stop, content) in [
            ("english", "The", "system"),
            ("pg_catalog.english", "don’t", "research"),
            ("pg_catalog.\"german\"", "UND", "Bank"),
            ("FRENCH", "les", "modèle"),
            ("spanish", "para", "riesgo"),
            ("italian", "della", "banca"),
            ("portuguese", "não", "risco"),
            ("dutch", "het", "model"),
            ("russian", "не", "банк"),
            ("swedish", "och", "bank"),
            ("danish", "og", "bank"),
            ("norwegian", "og", "bank"),
            ("finnish", "että", "pankki"),
            ("hungarian", "hogy", "bank"),
            ("romanian", "este", "banca"),
            ("turkish", "için", "banka"),
            ("arabic", "من", "بنك"),
            ("greek", "και", "τράπεζα"),
            ("chinese", "的", "银行"),
            ("japanese", "です", "銀行"),
        ] {
            assert!(words(language).contains(stop), "{language} {stop}");
            assert!(!words(language).contains(content), "{language} {content}");
        }
    }

    #[test]
    fn unknown_languages_have_none_but_single_letters() {
        for language in ["simple", "pg_catalog.simple", "klingon", ""] {
            assert!(words(language).is_empty());
            assert!(!words(language).contains("the"));
            assert!(words(language).contains("x") && words(language).contains("7") && words(language).contains("Ж"));
            assert!(!words(language).contains("知") && !words(language).contains(""));
        }
    }
}
