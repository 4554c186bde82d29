use super::{Draft, frequency};
use crate::words::words;
use crate::{hash, stop, tokens};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const LEAVES: [&str; 3] = [
    "The payments service belongs to the platform team and runs in every region. The payments service uses Stripe for \
     cards and Adyen for wallets. The platform team watches the latency of the payments service on a dashboard. \
     A new region gets its own copy of the service before it opens.",
    "Each region runs a copy of the payments service, and the platform team watches its latency. When a charge fails, \
     it retries three times with exponential backoff. The team keeps a dashboard for the payments service. \
     The platform team owns the service in every region.",
    "The dashboard of the platform team shows the latency of the payments service for each region. The fraud model \
     scores each transaction with gradient boosting before capture. The payments service of a region is a copy that \
     the platform team runs. The team opens a new region when the service is ready.",
];

fn summary(texts: &[&str], max_tokens: usize) -> String {
    let mut ticks = 0;
    frequency(texts, max_tokens, stop::words("english"), &mut || ticks += 1)
}

fn cosine(a: &str, b: &str) -> f64 {
    let [a, b] = [a, b].map(|text| hash::embed(text, 384, stop::words("english"), &mut || ()).unwrap());
    a.iter().zip(&b).map(|(a, b)| f64::from(a * b)).sum()
}

#[test]
fn a_question_over_all_leaves_finds_their_summary_first() {
    let question = "Stripe cards and Adyen wallets; three retries with exponential backoff; a fraud model that scores each transaction";
    let summary = summary(&LEAVES, 120);
    for fact in [
        "uses Stripe for cards",
        "it retries three times",
        "fraud model scores each transaction",
    ] {
        assert!(summary.contains(fact), "{fact}: {summary}");
    }
    let best = LEAVES.iter().map(|leaf| cosine(question, leaf)).fold(0.0, f64::max);
    assert!(cosine(question, &summary) > 1.5 * best);
}

#[test]
fn order_and_duplicates_and_marks() {
    let texts = [
        "# Storage\n\n- The index lives in *pages* of eight kilobytes.\n- The index lives in *pages* of eight kilobytes.\n\n\
         | a | b |\n|---|---|\n\n```\nlet x = 1;\n```\n",
        "> The vacuum removes dead tuples\n> from the index.\n\nThe index lives in *pages* of eight kilobytes.",
    ];
    assert_eq!(
        summary(&texts, 100),
        "The index lives in *pages* of eight kilobytes.\nThe vacuum removes dead tuples from the index."
    );
    let swapped = [texts[1], texts[0]];
    assert_eq!(
        summary(&swapped, 100),
        "The vacuum removes dead tuples from the index. The index lives in *pages* of eight kilobytes."
    );
}

#[test]
fn every_text_is_heard_before_any_is_heard_twice() {
    let texts: Vec<String> = ["copper", "basalt", "walnut", "linen"]
        .iter()
        .map(|stuff| {
            format!("The {stuff} mill opened early. The {stuff} mill sells {stuff} boards abroad. The mill is old.")
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let summary = summary(&texts, 48);
    for stuff in ["copper", "basalt", "walnut", "linen"] {
        assert_eq!(
            summary.lines().filter(|line| line.contains(stuff)).count(),
            1,
            "{summary}"
        );
    }
}

#[test]
fn what_has_no_sentence_falls_back() {
    assert_eq!(summary(&[], 100), "");
    assert_eq!(summary(&["", " \n"], 100), "");
    assert_eq!(summary(&LEAVES, 0), "");
    assert_eq!(summary(&["# Payments of Northland"], 100), "Payments of Northland");
    assert_eq!(summary(&["| Stripe | cards |\n|--|--|"], 100), "Stripe, cards");
    assert_eq!(summary(&["```\nlet payments = 1;\n```"], 100), "let payments = 1;");
    assert_eq!(summary(&["🦀 🦀"], 100), "🦀 🦀");
    assert_eq!(summary(&["It is."], 100), "It is.");
    assert_eq!(summary(&["支付服务使用\n条纹卡。"], 100), "支付服务使用条纹卡。");
}

#[test]
fn the_longest_sentence_is_cut_at_a_word() {
    let long = format!("Payments {} end.", "flow onwards ".repeat(100));
    let cut = summary(&[&long], 20);
    assert!(
        cut.ends_with('…') && tokens::count(&cut) <= 20 && tokens::count(&cut) > 10,
        "{cut}"
    );
    assert!(long.starts_with(cut.trim_end_matches('…')) && (cut.ends_with("flow…") || cut.ends_with("onwards…")));
    let wall = "知".repeat(500);
    let cut = summary(&[&wall], 20);
    assert!(
        cut.ends_with('…') && tokens::count(&cut) <= 20 && cut.chars().count() > 5,
        "{cut}"
    );
}

/// The words of `texts[of]` that are most frequent there and rarest in the others.
fn most_distinctive(texts: &[&str], of: usize) -> Vec<String> {
    let stop = stop::words("english");
    let content = |text: &str| -> Vec<String> {
        words(text)
            .map(|(_, word)| word)
            .filter(|word| !stop.contains(word))
            .collect()
    };
    let sets: Vec<HashSet<String>> = texts.iter().map(|text| content(text).into_iter().collect()).collect();
    let mut times: HashMap<String, u32> = HashMap::new();
    for word in content(texts[of]) {
        *times.entry(word).or_default() += 1;
    }
    let value = |word: &String| {
        let spread = sets.iter().filter(|set| set.contains(word)).count() as f64;
        f64::from(times[word]).ln_1p() * ((texts.len() as f64 + 1.0) / spread).ln()
    };
    let highest = times.keys().map(value).fold(0.0, f64::max);
    times.keys().filter(|word| value(word) == highest).cloned().collect()
}

#[test]
fn the_sentence_that_tells_a_text_apart_is_taken_before_a_fuller_one() {
    let texts = [
        "Copper, tin, zinc, lead, iron and silver stand beside the road in bright heaps. Quartz is dull. Quartz is cheap.",
        "Walnut boards cross the old bridge. The bridge is narrow.",
    ];
    assert_eq!(most_distinctive(&texts, 0), ["quartz"]);
    assert!(summary(&texts, 30).contains("Quartz"), "{}", summary(&texts, 30));
    assert!(summary(&texts, 12).contains("Quartz"), "{}", summary(&texts, 12));
}

#[test]
fn a_close_sentence_is_preferred() {
    let texts = [
        "Red lamps burn. Green lamps burn. White lamps burn.",
        "A boat leaves at dawn.",
    ];
    let draft = Draft::read(&texts, stop::words("english"), &mut || ());
    let all: Vec<(usize, &str)> = draft.sentences().collect();
    assert_eq!(all[1], (0, "Green lamps burn."));
    assert_eq!(all[3], (1, "A boat leaves at dawn."));
    let write = |near: [f64; 4]| draft.write(14, |at| near[at], &mut || ());
    assert!(write([0.0; 4]).starts_with("Red lamps"), "the first of equals");
    // What tells the text apart comes before what is near.
    assert!(write([0.0, 0.9, 0.1, 0.0]).contains("lamps"));
    for odd in [f64::NAN, f64::NEG_INFINITY, -1.0] {
        assert_eq!(write([odd; 4]), write([0.0; 4]));
    }
    assert_eq!(write([f64::INFINITY; 4]), write([1.0; 4]));
    let texts = ["Lamps burn in red halls. Lamps burn in green halls. Lamps burn in white halls."];
    let draft = Draft::read(&texts, stop::words("english"), &mut || ());
    let write = |near: [f64; 3]| draft.write(8, |at| near[at], &mut || ());
    assert_eq!(write([0.0; 3]), "Lamps burn in red halls.");
    assert_eq!(write([0.1, 0.2, 0.9]), "Lamps burn in white halls.");
}

proptest! {
    #[test]
    fn within_budget_and_verbatim(
        texts in prop::collection::vec("((the|payment|Bank|model|知识|risk|- x|# h|🦀)( |\\. |\n|。)){0,20}", 0..5),
        max_tokens in 0usize..60,
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let summary = summary(&texts, max_tokens);
        prop_assert!(tokens::count(&summary) <= max_tokens);
        let plain: String = texts.concat().split_whitespace().collect();
        for sentence in summary.split(['.', '\n', '。', '…']) {
            let sentence: String = sentence.split_whitespace().collect();
            prop_assert!(plain.contains(&sentence), "{:?} in {:?}", sentence, plain);
        }
    }

    #[test]
    fn a_generous_summary_holds_the_most_distinctive_word_of_each_text(
        texts in prop::collection::vec(prop::collection::vec("(the|payment|bank|model|risk|team|fee|audit|card|loan)( (the|payment|bank|model|risk|team|fee|audit|card|loan|desk)){0,6}\\.", 1..6), 1..7),
        near in prop::collection::vec(-1.0f64..1.0, 40),
    ) {
        let texts: Vec<String> = texts.iter().map(|sentences| sentences.join(" ")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let draft = Draft::read(&texts, stop::words("english"), &mut || ());
        let summary = draft.write(2_000, |at| near[at % near.len()], &mut || ());
        let held: HashSet<String> = words(&summary).map(|(_, word)| word).collect();
        for of in 0..texts.len() {
            let most = most_distinctive(&texts, of);
            prop_assert!(
                most.is_empty() || most.iter().any(|word| held.contains(word)),
                "{:?} of {:?} in {:?}", most, texts, summary
            );
        }
    }

    #[test]
    fn whatever_is_near_the_budget_holds_and_the_order_is_that_of_the_texts(
        near in prop::collection::vec(-1.0f64..1.0, 16),
        max_tokens in 0usize..200,
    ) {
        let draft = Draft::read(&LEAVES, stop::words("english"), &mut || ());
        let write = || draft.write(max_tokens, |at| near[at % near.len()], &mut || ());
        let summary = write();
        prop_assert!(tokens::count(&summary) <= max_tokens);
        prop_assert_eq!(&summary, &write());
        if !summary.ends_with('…') {
            let places: Vec<Option<usize>> = draft.sentences().map(|(_, sentence)| summary.find(sentence)).collect();
            let places: Vec<usize> = places.into_iter().flatten().collect();
            prop_assert!(places.is_sorted(), "{:?} in {:?}", places, summary);
        }
    }
}
