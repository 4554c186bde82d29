use super::{
    CODE, CONCEPT, Extraction, Form, NAME, ORGANIZATION, PERSON, RELATED, Reading, cooccurrence, hash, hashes, title,
};
use crate::{fold, stop};
use proptest::prelude::*;
use std::collections::HashSet;

fn extract(text: &str, language: &str) -> Extraction {
    cooccurrence(text, stop::words(language), &mut || ())
}

fn names(text: &str, language: &str) -> Vec<String> {
    extract(text, language)
        .mentions
        .into_iter()
        .map(|mention| mention.name)
        .collect()
}

/// The triples whose predicate the text says.
fn said(text: &str, language: &str) -> Vec<(String, String, String)> {
    let relations = extract(text, language).relations.into_iter();
    relations
        .filter(|r| r.predicate != RELATED)
        .map(|r| (r.subject, r.predicate, r.object))
        .collect()
}

fn triples(expected: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    expected
        .iter()
        .map(|(s, p, o)| (s.to_string(), p.to_string(), o.to_string()))
        .collect()
}

const PAYMENTS: &str = "# Payments at Northland\n\n\
    The payments service uses Stripe for cards and Adyen for wallets. It is owned by the Payments Team, which was founded in 2019 \
    by Dr. Ada Lovelace. Ada Lovelace worked with Charles Babbage at the Bank of Northland. In March 2021 the Bank of Northland \
    acquired O’Neill Labs for $40 million.\n\n\
    When a charge fails, the payments service retries three times. However, the fraud model scores each transaction. The fraud \
    model is trained by O'Neill Labs on the `payment_events` table. However, incident SR-2023-052 showed that Stripe's webhook was \
    slow. The Payments Team fixed SR-2023-052 in PostgreSQL with a new index.\n\n\
    - **Stripe** handles cards\n\
    - The USS Enterprise (NCC-1701) was built by the Bank of Northland\n\
    - See https://example.com/Foo_Bar for the Risk Committee minutes\n\n\
    ```sql\nSELECT Hidden_Name FROM Other_Place;\n```\n";

#[test]
fn english_entities() {
    let found: Vec<(String, &str)> = extract(PAYMENTS, "english")
        .mentions
        .into_iter()
        .map(|m| (m.name, m.kind))
        .collect();
    let expected = [
        ("payments service", CONCEPT),
        ("Stripe", NAME),
        ("Adyen", NAME),
        ("Payments Team", ORGANIZATION),
        ("Ada Lovelace", PERSON),
        ("Charles Babbage", NAME),
        ("Bank of Northland", ORGANIZATION),
        ("O’Neill Labs", ORGANIZATION),
        ("fraud model", CONCEPT),
        ("payment_events", CODE),
        ("SR-2023-052", NAME),
        ("PostgreSQL", NAME),
        ("USS Enterprise", NAME),
        ("NCC-1701", NAME),
        ("Risk Committee", ORGANIZATION),
    ];
    assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
}

#[test]
fn english_relations() {
    let expected = [
        ("payments service", "uses", "Stripe"),
        ("Ada Lovelace", "worked with", "Charles Babbage"),
        ("Charles Babbage", "at", "Bank of Northland"),
        ("Bank of Northland", "acquired", "O’Neill Labs"),
        ("fraud model", "is trained by", "O'Neill Labs"),
        ("O'Neill Labs", "on", "payment_events"),
        ("Payments Team", "fixed", "SR-2023-052"),
        ("SR-2023-052", "in", "PostgreSQL"),
    ];
    assert_eq!(said(PAYMENTS, "english"), triples(&expected));
    let related: Vec<(String, String)> = extract(PAYMENTS, "english")
        .relations
        .into_iter()
        .filter(|r| r.predicate == RELATED)
        .map(|r| (r.subject, r.object))
        .collect();
    // Neighbours and, in a sentence of at most four, all pairs; never twice in a sentence, never with itself.
    for pair in [
        ("Stripe", "Adyen"),
        ("payments service", "Adyen"),
        ("Ada Lovelace", "Bank of Northland"),
        ("USS Enterprise", "NCC-1701"),
    ] {
        let count = related.iter().filter(|(s, o)| (s.as_str(), o.as_str()) == pair).count();
        assert_eq!(count, 1, "{pair:?} in {related:?}");
    }
    assert!(related.iter().all(|(s, o)| s != o));
}

#[test]
fn a_quote_is_the_sentence() {
    let found = extract(PAYMENTS, "english");
    let quote = &PAYMENTS[found.relations[0].quote.clone()];
    assert_eq!(
        quote,
        "The payments service uses Stripe for cards and Adyen for wallets."
    );
    let acquired = found.relations.iter().find(|r| r.predicate == "acquired").unwrap();
    let characters: String = PAYMENTS
        .chars()
        .skip(acquired.start_char)
        .take(acquired.end_char - acquired.start_char)
        .collect();
    assert_eq!(characters, PAYMENTS[acquired.quote.clone()]);
    assert!(characters.starts_with("In March 2021") && characters.ends_with("million."));
}

#[test]
fn news() {
    let text = "Marie Curie was born in Warsaw. She studied at the University of Paris, where she met Pierre Curie. Yesterday the Nobel \
                Committee published its archive. Tim Cook, who succeeded Steve Jobs as CEO of Apple, left on Tuesday. Analysts at \
                Goldman Sachs doubt the price. The European Commission did not approve the deal. Spotify's Daniel Ek criticised Apple.";
    let expected = [
        "Marie Curie",
        "Warsaw",
        "University of Paris",
        "Pierre Curie",
        "Nobel Committee",
        "Tim Cook",
        "Steve Jobs",
        "Apple",
        "Goldman Sachs",
        "European Commission",
        "Daniel Ek",
    ];
    assert_eq!(names(text, "english"), expected);
    let expected = [
        ("Marie Curie", "was born in", "Warsaw"),
        ("Tim Cook", "succeeded", "Steve Jobs"),
        ("Daniel Ek", "criticised", "Apple"),
    ];
    assert_eq!(said(text, "english"), triples(&expected));
}

#[test]
fn german() {
    let text = "Die Zahlungsplattform der Nordbank AG wurde von Ada Krüger gegründet. Ada Krüger leitet das Team in Hamburg. Die Nordbank AG \
                übernahm im März die Finanzwerk GmbH. Das Betrugsmodell prüft jede Zahlung in Echtzeit. Nach einem Fehler wiederholt der \
                Dienst die Zahlung dreimal. Seither wurde das Betrugsmodell mit PostgreSQL gebaut. Große Banken nutzen ähnliche Modelle. \
                Die Universität Hamburg arbeitet mit der Nordbank AG. Der Vorstand tagt am Freitag in Hamburg.";
    let expected = [
        "Nordbank AG",
        "Ada Krüger",
        "Hamburg",
        "Finanzwerk GmbH",
        "Betrugsmodell",
        "Zahlung",
        "PostgreSQL",
        "Universität Hamburg",
    ];
    assert_eq!(names(text, "german"), expected);
    let said = said(text, "german");
    for triple in triples(&[
        ("Betrugsmodell", "prüft", "Zahlung"),
        ("Universität Hamburg", "arbeitet mit", "Nordbank AG"),
    ]) {
        assert!(said.contains(&triple), "{triple:?} in {said:?}");
    }
}

#[test]
fn russian() {
    let text = "В Москве компания Яндекс открыла офис. Эльвира Набиуллина руководит Банком России. Новая модель риска оценивает операции, \
                и модель риска понравилась.";
    assert_eq!(
        names(text, "russian"),
        [
            "Москве",
            "Яндекс",
            "Эльвира Набиуллина",
            "Банком России",
            "модель риска"
        ]
    );
    assert_eq!(
        said(text, "russian"),
        triples(&[("Эльвира Набиуллина", "руководит", "Банком России")])
    );
}

#[test]
fn chinese() {
    let text = "支付服务使用风险模型评估每笔交易。风险模型由北方银行开发。北方银行收购了支付服务的供应商Stripe。《三体》是小说。支付服务与北方银行合作。";
    assert_eq!(
        names(text, "english"),
        ["支付服务", "风险模型", "北方银行", "Stripe", "三体"]
    );
    assert_eq!(
        said(text, "english"),
        triples(&[("支付服务", "使用", "风险模型"), ("北方银行", "收购", "支付服务")])
    );
}

#[test]
fn japanese() {
    let text = "決済サービスはリスクモデルを使用します。リスクモデルは北方銀行が開発しました。北方銀行は決済サービスの会社を買収しました。『吾輩は猫である』は小説です。";
    assert_eq!(
        names(text, "english"),
        ["決済サービス", "リスクモデル", "北方銀行", "吾輩は猫である"]
    );
    let pairs: Vec<(String, String)> = extract(text, "english")
        .relations
        .into_iter()
        .map(|r| (r.subject, r.object))
        .collect();
    assert_eq!(pairs[0], ("決済サービス".to_owned(), "リスクモデル".to_owned()));
}

#[test]
fn arabic() {
    let text = "يستخدم نظام الدفع نموذج المخاطر لتقييم كل معاملة. تم تطوير نموذج المخاطر من قبل بنك الشمال. اشترى بنك الشمال شركة تدير نظام الدفع.";
    assert_eq!(names(text, "arabic"), ["نظام الدفع", "نموذج المخاطر", "بنك الشمال"]);
}

#[test]
fn spellings_of_one_name_are_one_entity() {
    let text = "We call it the Fraud Model here. The fraud_model and the fraud model are one. Visit the Payments Team. A Payments Team's goal.";
    assert_eq!(names(text, "english"), ["Fraud Model", "Payments Team"]);
}

#[test]
fn names_keep_the_articles_of_other_languages() {
    let text = "In 2010 Anna Berg moved to Los Angeles, and read Le Monde. The Mill is old.";
    assert_eq!(names(text, "english"), ["Anna Berg", "Los Angeles", "Le Monde", "Mill"]);
    assert_eq!(
        names("Ana Ruiz vive en Los Molinos.", "spanish"),
        ["Ana Ruiz", "Molinos"]
    );
}

#[test]
fn what_is_no_entity() {
    for text in [
        "",
        " \n\t",
        "the and of it is to be or not",
        "…—🦀🦀🦀 !!! ### ``` | | |",
        "On Monday in March 2020 we met at 10:30 for 4 GB.",
        "However, it rained. However, nobody minded. See Figure 3 and Table 12.",
        "Write to me@example.com or see https://Example.com/Some_Path and [here](Other_Path.md).",
        "You MUST read this, AND you must reply.",
        "# Getting Started With Everything\n\n## Advanced Topics",
        "The system works. A system fails. Systems are systems.",
    ] {
        assert_eq!(extract(text, "english"), Extraction::default(), "{text}");
    }
}

#[test]
fn a_list_gives_no_relations_without_a_verb() {
    let list: Vec<String> = ('A'..='Z').map(|c| format!("{c}cme Corp")).collect();
    let found = extract(&format!("We serve {}.", list.join(", ")), "english");
    assert_eq!((found.mentions.len(), found.relations.len()), (26, 0));
}

#[test]
fn a_megabyte_in_one_line() {
    let names = "the Bank of Northland acquired O'Neill Labs and the risk model ";
    let found = extract(&names.repeat(16_000), "english");
    assert_eq!(
        found.mentions.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
        ["Bank of Northland", "O'Neill Labs", "risk model"]
    );
    let all = names.repeat(16_000);
    let found = titled(&all, &["O'Neill Labs", "Risk Model"], Some("Payments Hub"));
    assert_eq!(found.mentions.len(), 3);
    for piece in [
        "知",
        "知识图谱",
        "`](<",
        "](",
        "<a",
        "[a](<b `c ",
        "Bank Of ",
        "a",
        "'s",
        "\u{301}",
        "ก็",
    ] {
        let text = piece.repeat(1_000_000 / piece.len());
        let mut ticks = 0;
        let found = cooccurrence(&text, stop::words("english"), &mut || ticks += 1);
        assert!(found.mentions.len() < 10, "{piece}");
        let reading = Reading::of(&text, stop::words("english"), &mut || ticks += 1);
        reading.candidates(&mut || ticks += 1, &mut |_| ());
    }
}

proptest! {
    #[test]
    fn laws(text in "((Ada|Bank|of|the|risk|model|uses|`a_b`|知识|图谱|的|บ้าน|بنك|\\. |, |\n|- |# |\\*\\*|\\[x\\]\\(y\\)|é|🦀|.)( ?)){0,60}") {
        for found in [extract(&text, "english"), titled(&text, &["Risk Model", "Ada Bank", "知识"], None)] {
        let mut folds: Vec<String> = found.mentions.iter().map(|m| fold::name(&m.name)).collect();
        for mention in &found.mentions {
            prop_assert_eq!(text[mention.bytes.clone()].split_whitespace().collect::<Vec<_>>().join(" "), mention.name.clone());
            prop_assert_eq!(text[..mention.bytes.start].chars().count(), mention.start_char);
            prop_assert_eq!(text[..mention.bytes.end].chars().count(), mention.end_char);
        }
        folds.sort();
        let count = folds.len();
        folds.dedup();
        prop_assert_eq!(folds.len(), count);
        prop_assert!(folds.iter().all(|fold| !fold.is_empty()));
        for relation in &found.relations {
            let quote = &text[relation.quote.clone()];
            prop_assert_eq!(quote.trim(), quote);
            prop_assert_eq!(text[..relation.quote.start].chars().count(), relation.start_char);
            prop_assert_eq!(text[..relation.quote.end].chars().count(), relation.end_char);
            prop_assert!(relation.subject != relation.object && !relation.predicate.is_empty());
            for name in [&relation.subject, &relation.object] {
                prop_assert!(found.mentions.iter().any(|mention| mention.name == *name));
            }
        }
        }
    }
}

fn titled(text: &str, titles: &[&str], own: Option<&str>) -> Extraction {
    let stop = stop::words("english");
    let keys: HashSet<String> = titles.iter().map(|title| form(title).key).collect();
    let own = own.map(form);
    Reading::of(text, stop, &mut || ()).extract(&keys, own.as_ref(), &mut || ())
}

/// The form under which a title that has no rival is known.
fn form(text: &str) -> Form {
    let title = title(text, stop::words("english")).unwrap_or_else(|| panic!("{text} names nothing"));
    title.short.unwrap_or(title.full)
}

fn found(text: &str, title: &str) -> bool {
    let key = form(title).key;
    let found = titled(text, &[title], None);
    found.mentions.iter().any(|mention| fold::name(&mention.name) == key)
}

#[test]
fn titles_that_name_a_thing() {
    for (text, full, short) in [
        ("Lilu (mythology)", "Lilu (mythology)", Some("Lilu")),
        ("The Prestige (film)", "Prestige (film)", Some("Prestige")),
        (
            "Au Gres Township, Michigan",
            "Au Gres Township, Michigan",
            Some("Au Gres Township"),
        ),
        ("Paris, Texas", "Paris, Texas", None),
        ("The Good, the Bad and the Ugly", "Good, the Bad and the Ugly", None),
        ("Crosby, Stills, Nash", "Crosby, Stills, Nash", None),
        ("Washington, D.C.", "Washington, D.C.", None),
        ("\"Heroes\"", "Heroes", None),
        ("fraud model", "fraud model", None),
        ("libssl3", "libssl3", None),
        ("payment_events", "payment_events", None),
        ("北方银行", "北方银行", None),
    ] {
        let title = title(text, stop::words("english")).unwrap_or_else(|| panic!("{text} names nothing"));
        assert_eq!(
            (
                title.full.name.as_str(),
                title.short.as_ref().map(|form| form.name.as_str())
            ),
            (full, short)
        );
        assert_eq!(title.full.key, fold::name(&title.full.name));
        let hashes = hashes(text);
        assert_eq!(
            hashes,
            (Some(hash(&title.full.key)), title.short.map(|form| hash(&form.key)))
        );
    }
}

#[test]
fn titles_that_name_nothing() {
    for text in [
        "",
        " ",
        "…",
        "Home",
        "Introduction",
        "Release notes",
        "Getting Started",
        "Table of Contents",
        "Chapter 3",
        "2019",
        "March 2021",
        "curl",
        "A",
        "The",
        "How we moved all of our payments to another bank within a week and what broke",
    ] {
        assert_eq!(title(text, stop::words("english")), None, "{text}");
    }
}

#[test]
fn a_title_is_found_wherever_it_is_used_as_a_name() {
    for (text, title) in [
        ("It was directed by Christopher Nolan.", "Christopher Nolan"),
        ("The film of director Christopher Nolan's brother.", "Christopher Nolan"),
        ("Director Christopher Nolan made it.", "Christopher Nolan"),
        ("We score it by the fraud model.", "Fraud Model"),
        ("We score it by the fraud_model.", "Fraud model"),
        ("The demon is like the spirit Lilu.", "Lilu (mythology)"),
        ("She lives in Washington, D.C., in a house.", "Washington, D.C."),
        ("It came out as Star Wars: A New Hope in 1977.", "Star Wars: A New Hope"),
        ("A band from Au Gres Township.", "Au Gres Township, Michigan"),
        ("It needs libssl3 to run.", "libssl3"),
        ("Call `payment_events` first.", "payment_events"),
        ("See PostgreSQL.", "PostgreSQL"),
        ("公司由北方银行开发。", "北方银行"),
    ] {
        assert!(found(text, title), "{title} in {text}");
    }
}

#[test]
fn a_title_is_not_found_in_what_names_something_else() {
    for (text, title) in [
        ("The smell was in the air.", "In the Air"),
        ("Heroes came home.", "Heroes"),
        ("He was one of the heroes of the day.", "Heroes"),
        ("She studied at the University of Georgia.", "Georgia"),
        ("She lives in New York City.", "New York"),
        ("They landed with Apollo 11 on it.", "Apollo"),
        ("# Mercury Rising Fast", "Mercury"),
    ] {
        assert!(!found(text, title), "{title} in {text}");
    }
}

#[test]
fn a_document_is_related_to_the_titles_that_it_uses() {
    let text = "It is a game of Studio 33. Critics liked it. It has Eddie Irvine on the cover, and Eddie Irvine won.";
    let found = titled(
        text,
        &["Eddie Irvine", "Formula One Arcade"],
        Some("Formula One Arcade"),
    );
    let own: Vec<(&str, &str, &str)> = found
        .relations
        .iter()
        .filter(|r| r.subject == "Formula One Arcade")
        .map(|r| (r.predicate.as_str(), r.object.as_str(), &text[r.quote.clone()]))
        .collect();
    let quote = "It has Eddie Irvine on the cover, and Eddie Irvine won.";
    assert_eq!(own, [(RELATED, "Eddie Irvine", quote)]);
    // What a sentence says is not said twice.
    let text = "Formula One Arcade shows Eddie Irvine.";
    let found = titled(
        text,
        &["Eddie Irvine", "Formula One Arcade"],
        Some("Formula One Arcade"),
    );
    let said: Vec<&str> = found.relations.iter().map(|r| r.predicate.as_str()).collect();
    assert_eq!(said, ["shows"]);
}

#[test]
fn an_initial_stays_with_its_name() {
    for text in [
        "A. Brandt wrote it. We thank A. Brandt for a letter.",
        "It was O. Henry. O. Henry wrote it.",
        "I. M. Pei built it, and I. M. Pei was proud.",
        "J. K. Rowling wrote a book.",
    ] {
        let names = names(text, "english");
        assert!(names[0].contains(". "), "{names:?}");
        assert_eq!(names.len(), 1, "{names:?}");
    }
    assert_eq!(names("A Brandt came. I saw Brandt.", "english"), ["Brandt"]);
    assert_eq!(
        names("They asked Ada I. Brandt about it.", "english"),
        ["Ada I. Brandt"]
    );
}
