//! The shape of a question.

use unicode_segmentation::UnicodeSegmentation;

/// Words by which a question asks about the whole of a corpus, in English, German, French, Spanish, Italian, Portuguese and Dutch; each also
/// with what follows it in one word.
const OF_THE_WHOLE: [&str; 42] = [
    "theme",
    "themes",
    "topics",
    "overall",
    "overview",
    "overarching",
    "summar",
    "summary",
    "corpus",
    "generally",
    "trends",
    "patterns",
    "recurring",
    "across",
    "mainly",
    "altogether",
    "thema",
    "themen",
    "überblick",
    "insgesamt",
    "zusammenfass",
    "hauptsächlich",
    "allgemein",
    "thème",
    "thèmes",
    "ensemble",
    "résum",
    "globalement",
    "principaux",
    "principales",
    "temas",
    "resum",
    "panorama",
    "conjunto",
    "general",
    "temi",
    "riassum",
    "complesso",
    "geral",
    "overzicht",
    "hoofdthema",
    "samenvat",
];

/// Shorter cues have to be a whole word.
const STEM: usize = 5;

/// Whether a question asks about the whole by one of its words: *What are the main themes?* Says nothing of languages that it does not
/// know.
pub fn is_about_the_whole(question: &str) -> bool {
    question.to_lowercase().unicode_words().any(|word| {
        OF_THE_WHOLE
            .iter()
            .any(|cue| word == *cue || cue.chars().count() >= STEM && word.starts_with(cue))
    })
}

#[cfg(test)]
mod tests {
    use super::is_about_the_whole;

    #[test]
    fn questions_about_the_whole_are_told_by_a_word() {
        for question in [
            "What are the main themes of this corpus?",
            "Summarise everything.",
            "What goes wrong most often across all departments?",
            "Gib mir einen Überblick.",
            "Quels sont les thèmes principaux ?",
            "¿Cuáles son los temas?",
        ] {
            assert!(is_about_the_whole(question), "{question}");
        }
        for question in [
            "Who founded the mill?",
            "When does the ferry leave?",
            "What is a theorem?",
            "",
            "?",
        ] {
            assert!(!is_about_the_whole(question), "{question}");
        }
    }
}
