//! Letters reduced: without accents, in Latin letters, by their sound.

use unicode_normalization::UnicodeNormalization;

/// `text` with ASCII digits and without accents and points (Latin, Greek, Cyrillic, Hebrew and Arabic ones), letters of one
/// script's variants as one.
pub fn plain(text: &str) -> String {
    let mut last = ' ';
    text.nfd()
        .filter(|&c| {
            let mark = matches!(c, '\u{300}'..='\u{36F}' | '\u{591}'..='\u{5C7}' | '\u{64B}'..='\u{65F}' | '\u{670}');
            let short_i = last == 'и' && c == '\u{306}';
            last = c;
            !mark || short_i
        })
        .map(letter)
        .collect::<String>()
        .replace('æ', "ae")
        .replace('œ', "oe")
        .replace('þ', "th")
        .replace("եւ", "եվ")
        .nfc()
        .collect()
}

fn letter(c: char) -> char {
    match c {
        'ł' => 'l',
        'ø' => 'o',
        'đ' | 'ð' => 'd',
        'ı' => 'i',
        'ħ' => 'h',
        'ŋ' => 'n',
        'ى' | 'ی' => 'ي',
        'ة' => 'ه',
        'ک' => 'ك',
        _ => digit(c).unwrap_or(c),
    }
}

/// The ASCII digit for a decimal digit of another script.
fn digit(c: char) -> Option<char> {
    const ZEROS: [u32; 17] = [
        0x660, 0x6F0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50, 0xED0, 0xF20, 0x1040,
        0x17E0, 0x1810,
    ];
    let value = ZEROS
        .iter()
        .find_map(|zero| (c as u32).checked_sub(*zero).filter(|&value| value < 10))?;
    char::from_digit(value, 10)
}

/// A [`plain`] word in Latin letters (Cyrillic as BGN/PCGN have it, Greek as ISO 843 without accents) or Hiragana, the
/// German `ae`, `oe`, `ue` as `a`, `o`, `u`, and without the Arabic article.
pub fn skeleton(plain: &str) -> String {
    let bare = plain
        .strip_prefix("ال")
        .filter(|rest| rest.chars().count() > 2)
        .unwrap_or(plain);
    let mut latin = String::with_capacity(bare.len());
    for c in bare.chars() {
        match c {
            '\u{30A1}'..='\u{30F6}' => latin.extend(char::from_u32(c as u32 - 0x60)),
            _ if c.is_ascii() => latin.push(c),
            _ => match LETTERS.iter().find(|(from, _)| *from == c) {
                Some((_, to)) => latin.push_str(to),
                None => latin.push(c),
            },
        }
    }
    let mut skeleton = String::with_capacity(latin.len());
    for c in latin.chars() {
        if c != 'e' || !skeleton.ends_with(['a', 'o', 'u']) {
            skeleton.push(c);
        }
    }
    skeleton
}

#[rustfmt::skip]
const LETTERS: [(char, &str); 74] = [
    ('а', "a"), ('б', "b"), ('в', "v"), ('г', "g"), ('д', "d"), ('е', "e"), ('ж', "zh"), ('з', "z"), ('и', "i"),
    ('й', "y"), ('к', "k"), ('л', "l"), ('м', "m"), ('н', "n"), ('о', "o"), ('п', "p"), ('р', "r"), ('с', "s"),
    ('т', "t"), ('у', "u"), ('ф', "f"), ('х', "kh"), ('ц', "ts"), ('ч', "ch"), ('ш', "sh"), ('щ', "shch"), ('ъ', ""),
    ('ы', "y"), ('ь', ""), ('э', "e"), ('ю', "yu"), ('я', "ya"), ('і', "i"), ('є', "ye"), ('ґ', "g"), ('ј', "j"),
    ('љ', "lj"), ('њ', "nj"), ('ћ', "c"), ('ђ', "dj"), ('џ', "dz"), ('ѕ', "dz"), ('ғ', "gh"), ('қ', "q"), ('ң', "ng"),
    ('ө', "o"), ('ұ', "u"), ('ү', "u"), ('һ', "h"), ('ә', "a"),
    ('α', "a"), ('β', "v"), ('γ', "g"), ('δ', "d"), ('ε', "e"), ('ζ', "z"), ('η', "i"), ('θ', "th"), ('ι', "i"),
    ('κ', "k"), ('λ', "l"), ('μ', "m"), ('ν', "n"), ('ξ', "x"), ('ο', "o"), ('π', "p"), ('ρ', "r"), ('σ', "s"),
    ('τ', "t"), ('υ', "y"), ('φ', "f"), ('χ', "ch"), ('ψ', "ps"), ('ω', "o"),
];

/// A [`skeleton`] with one spelling for sounds that transliterations and spellers mix up, and without doubled letters.
pub fn sound(skeleton: &str) -> String {
    let mut sound = skeleton.to_owned();
    for (from, to) in [
        ("shch", "sh"),
        ("tch", "ch"),
        ("sch", "sh"),
        ("kh", "h"),
        ("ph", "f"),
        ("th", "t"),
        ("ck", "k"),
        ("gh", "g"),
        ("zh", "z"),
        ("tz", "ts"),
        ("x", "ks"),
        ("q", "k"),
        ("w", "v"),
        ("y", "i"),
        ("j", "i"),
        ("ce", "se"),
        ("ci", "si"),
        ("c", "k"),
    ] {
        if sound.contains(from) {
            sound = sound.replace(from, to);
        }
    }
    let mut last = None;
    sound.retain(|c| c.is_ascii_digit() || last.replace(c) != Some(c));
    sound
}

/// Whether `c` is a letter that spellings often leave out or change: a vowel, `h`, a vowel sign, the Kana length mark.
pub fn is_light(c: char) -> bool {
    matches!(c, 'a' | 'e' | 'i' | 'o' | 'u' | 'y' | 'j' | 'h' | 'ー')
        || "აეიოუաեէըիոօւ".contains(c)
        || unicode_normalization::char::is_combining_mark(c)
}

/// The consonant that stands for those that sound like `c`.
pub fn class(c: char) -> char {
    match c {
        'p' => 'b',
        't' => 'd',
        'v' | 'w' => 'f',
        'c' | 'k' | 'q' => 'g',
        'z' | 'x' => 's',
        _ => c,
    }
}
