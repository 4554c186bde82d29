use super::frequency;
use crate::{hash, stop, tokens};
use proptest::prelude::*;

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
}
