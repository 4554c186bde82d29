//! The few words that the rules know: in small letters, without accents, a space between two.

/// Before a name (or behind it), of the person who bears it.
pub const TITLES: &str = "dr prof professor doctor mr mrs ms miss sir dame lord lady president chancellor senator governor king queen \
    prince princess pope rev reverend captain capt general gen colonel col major lieutenant sergeant judge justice minister \
    ambassador herr frau monsieur madame mme mlle senor senora don dona signor signora phd md esq mba obe cbe \
    доктор профессор президент господин госпожа проф царь δρ κυριος κυρια καθηγητης דר פרופ מר גברת \
    دكتور الدكتور د السيد السيدة الشيخ श्री श्रीमती डॉ प्रो ดร นาย นาง นางสาว ბატონი ქალბატონი պարոն տիկին bay bayan";

/// Behind a name of a script without spaces.
pub const HONORIFICS: &str = "様 さま さん 氏 先生 教授 博士 殿 女士 总统 總統 主席 大統領 首相 씨 님 교수 박사 대통령";

/// Titles and other words of which a name bears one or the other.
pub const OPPOSED: [&str; 24] = [
    "mr mrs ms miss",
    "sir dame lady",
    "lord lady",
    "king queen prince princess",
    "herr frau",
    "monsieur madame mme mlle",
    "junior senior jr sr",
    "father son mother daughter brother sister husband wife",
    "vater sohn mutter tochter bruder schwester",
    "отец сын мать дочь брат сестра",
    "male female",
    "man woman",
    "men women",
    "boys girls",
    "left right",
    "black white red green blue yellow",
    "import export",
    "internal external",
    "public private",
    "positive negative",
    "day night",
    "spring summer autumn winter",
    "january february march april may june july august september october november december",
    "monday tuesday wednesday thursday friday saturday sunday",
];

/// Words of which a name that bears one is another name than without.
pub const SIBLINGS: &str = "north south east west northern southern eastern western northeast northwest southeast southwest \
    northeastern northwestern southeastern southwestern upper lower inner outer new old anti non \
    nord sud ouest norte sur sul oeste nueva nuevo vieja viejo nouveau nouvelle neu alt ober unter \
    северная южная восточная западная северный южный восточный западный верхний нижний новая старая новый старый \
    βορεια νοτια ανατολικη δυτικη νεα παλαια شمال جنوب شرق غرب الشمالية الجنوبية الشرقية الغربية צפון דרום מזרח מערב \
    उत्तर दक्षिण पूर्व पश्चिम नया पुराना ჩრდილოეთ სამხრეთ აღმოსავლეთ დასავლეთ հյուսիսային հարավային արևելյան արևմտյան \
    kuzey guney dogu bati yeni eski 북 남 동 서 새";

/// The same within a name of Han or Kana characters.
pub const SIBLING_CHARS: &str = "东東西南北上下左右男女新旧舊前后後内外";

/// Han numerals.
pub const HAN_NUMERALS: &str = "〇一二三四五六七八九十百千";

/// Beginnings of words that turn the meaning.
pub const PREFIXES: [(&str, &str); 9] = [
    ("hyper", "hypo"),
    ("inter", "intra"),
    ("macro", "micro"),
    ("pre", "post"),
    ("over", "under"),
    ("endo", "exo"),
    ("ante", "anti"),
    ("im", "ex"),
    ("mono", "poly"),
];

/// Endings that make two things of one stem, as chemistry has them.
pub const ENDINGS: [&str; 3] = ["ate ite ide", "ane ene yne", "ism ist"];

/// Ordinals and small numbers, with their value.
pub const NUMBERS: [(&str, &str); 10] = [
    (
        "first one primero primera primer premier premiere erste erster erstes primo первый первая первое πρωτος πρωτη πρωτο",
        "1",
    ),
    (
        "second two segundo segunda deuxieme seconde zweite zweiter zweites secondo seconda второй вторая второе δευτερος δευτερη δευτερο",
        "2",
    ),
    (
        "third three tercero tercera tercer terceiro terceira troisieme dritte dritter drittes terzo terza третий третья τριτος τριτη τριτο",
        "3",
    ),
    (
        "fourth four cuarto cuarta quarto quarta quatrieme vierte vierter четвертый четвертая",
        "4",
    ),
    ("fifth five quinto quinta cinquieme funfte funfter пятый пятая", "5"),
    ("sixth six sexto sexta sixieme sechste sechster", "6"),
    ("seventh seven septimo septima septieme siebte siebter", "7"),
    ("eighth eight octavo octava huitieme achte achter", "8"),
    ("ninth nine noveno novena neuvieme neunte neunter", "9"),
    ("tenth ten decimo decima dixieme zehnte zehnter", "10"),
];

/// More ordinals: of scripts without case.
pub const ORDINALS: [(&str, &str); 3] = [
    ("الاول الاولى اولى ראשון ראשונה प्रथम पहला पहली პირველი առաջին 제일", "1"),
    ("الثاني الثانية שני שנייה द्वितीय दूसरा दूसरी მეორე երկրորդ 제이", "2"),
    ("الثالث الثالثة שלישי שלישית तृतीय तीसरा तीसरी მესამე երրորդ 제삼", "3"),
];

/// Legal forms behind a company's name, each with the one that it is counted as.
pub const FORMS: &str = "inc incorporated=inc corp corporation=corp co company=co ltd limited=ltd llc llp lp plc pty gmbh ag kg kgaa \
    ug ohg ev eg sa sas sarl srl spa sl slu ltda nv bv ab oy oyj as asa aps se kft zrt bt doo dd eood ood ad kk gk bhd sdn pte sti \
    ооо оао зао пао ао тоо εε αε επε ае בעמ شركة pvt प्रा लि 株 주 შპს სს սպը բբը";

/// The same written onto names of Han, Kana and Hangul characters.
pub const FORMS_JOINED: &str =
    "株式会社 有限会社 合同会社 股份有限公司 有限责任公司 有限責任公司 有限公司 公司 주식회사 유한회사";

/// The same before a name.
pub const FORMS_BEFORE: &str = "ооо оао зао пао ао тоо pt شركة 株 주 შპს";

/// Articles before a name.
pub const ARTICLES: &str = "the le la les el los las der die das il lo gli den det os as az";

/// Words that join others: no acronym need have their letter, and no two names are one with their order turned round them.
pub const FUNCTION: &str = "of the and for in on at to by from with de la le les des du del della di da do dos das der die und fur von van \
    zu und et en el los las y e и в на по о об для του της των και ve ile";

/// `of`, where what stands before it is another thing than what stands behind it.
pub const OF: &str = "of de du des del della di do da von der des dos";

/// What may stand before `of` for a place that is called by its bare name too.
pub const STATES: &str = "the of republic kingdom state city town federal federative democratic people peoples islamic united commonwealth \
    republique royaume ville republica reino ciudad stadt bundesrepublik republik principality duchy";

/// `and`.
pub const AND: &str = "and und et y e и και ve";

/// Usual short forms, with the word that they are counted as.
pub const SHORT: &str =
    "st=saint mt=mount ft=fort intl=international univ=university dept=department assn=association bros=brothers";

/// Whether `word` is in `list`.
pub fn has(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// What `word` is counted as in a `list` of words and `word=counted` pairs.
pub fn counted(list: &'static str, word: &str) -> Option<&'static str> {
    list.split_ascii_whitespace()
        .map(|known| known.split_once('=').unwrap_or((known, known)))
        .find_map(|(known, counted)| (known == word).then_some(counted))
}
