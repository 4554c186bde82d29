//! English words that the stop list lacks and that make no entity, and what else is recognised by its spelling.

use std::collections::HashSet;
use std::sync::OnceLock;

/// Adverbs, quantities, common verbs and adjectives of judgement: no edge of a noun phrase and no name.
const COMMON: &str = "
able accordingly actually additionally almost along alongside already also alternatively although always among amongst another
anyone anything anyway apart around ask asked asks away back basically became become becomes becoming begin begins behind below
best better beyond bring brings brought build builds built call called calls came cannot case cases caution change changes check
checks choose click come comes common consider consists contain containing contains copy could create created creates creating
currently default define defined defines depending depends described describes despite different due earlier easily easy either
else enough ensure entire especially etc even eventually ever every everyone everything example examples except exist existing
exists fact far figure finally find finds first followed following follows found four full fully further furthermore gave general
generally get gets getting give given gives giving go goes going gone good got great hence high however ideally ie if important
include included includes including indeed instead just keep keeps kept kind know known knows large largely last later latest
least less let lets like likely likewise little long look looks lot low made main mainly make makes making many may maybe mean
meanwhile means might moreover mostly much must near nearly need needed needing needs neither never nevertheless new newer next
nobody none nonetheless nor normally note nothing nowadays number obviously occasionally often old older one ones onto open opens
optionally others otherwise out overall part particular particularly per perhaps please point possible possibly previous previously
probably provide provided provides providing put puts quickly quite rather read really reason recent recently regarding related
remember remains require required requires respectively right run running runs said same saw say saying says second see seem seems
seen set sets several shall show showed shown shows similar similarly simple simply since single small something sometimes soon
specific still such suppose sure take taken takes taking tell tells ten thanks thing things think third though three thus tip
today together tomorrow tonight took total toward towards tried tries try trying turn turns two type types typically unless unlike
unlikely use used useful user users uses using usually value values various via want wanted wants warning way ways well went
whatever whenever whereas wherever whether whichever whoever whole whose within without work worked working works would write
writes written wrote year years yes yesterday yet hello hi dear ok okay todo fixme true false null none nil
must should shall added fixed removed changed renamed updated
improved moved deprecated special advanced building understanding managing authoring detect convert avoid avoids load print return
returns skip move split execute search recognize support help start normal insert view edit install configure enable disable multiple
current ceo cto cfo coo vp faq";

/// Words of time, and what numbers parts of a text: with numbers alone they make no name.
const TIMES: &str = "
january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov
dec monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun spring summer autumn winter today
januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag jahr jahre
am pm utc gmt bc ad bce ce
figure fig table section chapter appendix step equation eq page part volume vol issue item line note listing example version q1 q2
q3 q4 abbildung abb tabelle kapitel abschnitt seite teil schritt";

/// Words that label a text or a part of one and do not say what it is about: a title of such words alone names nothing.
const LABELS: &str = "
home homepage index main welcome introduction intro overview summary abstract preface foreword prologue epilogue conclusion
conclusions contents content toc about contact contacts imprint readme faq faqs help guide guides manual manuals tutorial tutorials
howto handbook documentation docs doc reference references glossary bibliography acknowledgements changelog changes history news
blog post posts article articles chapter appendix annex note notes release releases announcement announcements draft untitled
document documents page pages title list lists misc miscellaneous general background started quickstart start setup installation
configuration usage troubleshooting requirements settings options results discussion methods method report reports minutes agenda
memo letter email message newsletter update updates download downloads links resources terms policy privacy details information
info data file files test tests sample samples template templates todo user users developer team meeting weekly daily
monthly annual
einleitung einführung übersicht inhalt inhaltsverzeichnis vorwort zusammenfassung anhang impressum startseite anleitung hilfe
sommaire résumé accueil préface annexe índice introducción resumen inicio";

/// What stands between the parts of a name.
const INSIDE: &str = "of de von van der den del della di da do dos das du des la le les el al bin ibn the zu y e";

/// What a name that holds one of these is.
const ORGANIZATION: &str = "
bank inc corp corporation ltd llc gmbh ag plc company co university college institute institution foundation group agency
ministry association team department committee council commission laboratory laboratories labs holdings partners parliament
universität institut ministerium stiftung verein université banque ministère universidad banco банк университет
министерство компания";

/// Verbs that the endings don't show.
const VERBS: &str = "
is are was were be been being am has have had having does do did can could may might must shall should will would
wrote write built build made make led lead won win bought buy sold sell ran run met meet gave give took take found began begin grew
grow held hold kept keep left leave lost lose paid pay put sent send set spent taught told became become came come went go got get
knew know drew drawn flew fought chose broke brought caught cut fell felt hit hurt let lent lay lie rose rise sang saw seen sat
shot showed shown shut spoke spoken stood swam swore threw thrown understood woke wore written given taken driven own owns use join
joins call need read replace include require feed feeds sees oversaw underwrote met overtook split spun beat compete work
depend rely operate collaborate cooperate support manage serve offer share";

/// Conjunctions: two names joined by one stand side by side, and one does not act on the other.
const SIDE_BY_SIDE: &str = "
and or but nor plus und oder sowie et ou y o e и или a i och eller og en of as than while whereas because if when that where";

/// What a predicate does not end with.
const ARTICLES: &str = "
the a an this these those its their his her our each every any some all der die das den dem ein eine einen einem einer jede
jeden jeder jedes le la les un une el los las una il lo gli o os um uma het een";

const PREPOSITIONS: &str =
    "in at of from for with by on under into onto to over as about via through between across against after before";

macro_rules! set {
    ($name:ident, $words:ident) => {
        pub(super) fn $name(word: &str) -> bool {
            static SET: OnceLock<HashSet<&'static str>> = OnceLock::new();
            SET.get_or_init(|| $words.split_whitespace().collect())
                .contains(word)
        }
    };
}

set!(is_common, COMMON);
set!(is_time, TIMES);
set!(is_label, LABELS);
set!(is_inside, INSIDE);
set!(is_organization, ORGANIZATION);
set!(is_known_verb, VERBS);
set!(is_with_preposition, WITH_PREPOSITION);
set!(is_preposition, PREPOSITIONS);
set!(is_article, ARTICLES);
set!(is_side_by_side, SIDE_BY_SIDE);

/// Verbs on `s` that a preposition may follow; any other word on `s` before one is a plural.
const WITH_PREPOSITION: &str = "
works depends belongs relies runs consists lives connects writes reads talks points refers leads reports sits integrates comes goes
falls sends speaks stems flows links maps migrates moves switches communicates competes cooperates collaborates listens looks
asks calls waits stands applies responds reacts serves acts operates results contributes focuses insists resides originates derives
descends differs benefits suffers emerges grows leans rests sells ships trades invests partners subscribes publishes escalates
delegates forwards routes feeds resolves translates compiles converts adds hands passes pays owes returns agrees argues fights";

/// Whether `word` has the look of an English adverb.
pub(super) fn is_adverb(word: &str) -> bool {
    const NOUNS: [&str; 10] = [
        "supply", "family", "assembly", "anomaly", "reply", "ally", "monopoly", "fly", "bully", "jelly",
    ];
    word.ends_with("ly") && !NOUNS.contains(&word)
}

/// Whether `word` has the look of an English verb form; `next` is the word behind it, if that belongs to it.
pub(super) fn is_verb(word: &str, next: Option<&str>) -> bool {
    let third = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us");
    let plural = next.is_some_and(|next| is_preposition(next) || is_known_verb(next)) && !is_with_preposition(word);
    is_known_verb(word) || (word.len() > 3 && word.ends_with("ed")) || (third && !plural)
}

/// Function words of Chinese and Japanese at which a stretch is cut, and common verbs.
pub(super) const HAN_CUTS: [&str; 62] = [
    "使用", "进行", "提供", "支持", "包括", "包含", "通过", "可以", "需要", "能够", "已经", "因为", "所以", "如果",
    "但是", "并且", "或者", "这个", "那个", "一个", "我们", "他们", "她们", "它们", "自己", "没有", "成为", "负责",
    "属于", "位于", "收购", "成立", "发布", "其中", "以及", "对于", "关于", "根据", "由于", "之后", "之前", "的", "了",
    "在", "是", "和", "与", "及", "或", "而", "但", "被", "把", "从", "向", "也", "都", "很", "这", "那", "其", "就",
];
