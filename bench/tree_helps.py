#!/usr/bin/env python3
"""Does the tree help? Questions that need n facts from n leaves: the tree against leaves alone, within 500 tokens.

    make demo                                     (once: builds, installs and starts the private server)
    python3 bench/tree_helps.py [URL MODEL] [--loose] [--seeds N] [--themes N] [--sizes N,N …]

The corpora are made here, from a seed. A theme is a thing (`the Grey Heron`, an inn at Pellwick that Mara Tollick keeps) with n facts, each in a
document of its own, and three documents that tell of it and hold no fact asked for; one of these says which place and whose it is. A document is
one leaf of 25 to 60 tokens: one sentence of it is the fact, two or three are about something else. What these are made of are 25 words of
the theme and the names of its four people or, with --loose, the words of all themes and names that stand there alone. Half of the facts name
the thing; the others say `the inn at Pellwick` or `Mara Tollick's inn`. 100 more themes, with four documents each, use the same sentences, and the
names of their things share words with those asked for. The question asks for the thing as a whole, and shares words with a fact by its name
alone. There are 60 questions for each n, one a theme.

A fact is found if the surname that stands in its sentence, and nowhere else in the corpus, is in the texts of the answer. All answers are those of
raptor_search with k => 20, max_tokens => 500, in its default mode (`tree`) and by leaves alone (`leaves`).
With URL (of a server with OpenAI's interface, up to /v1) and MODEL, its vectors are tried as well, and the sum of both.

build: `default`; cluster_size => 10; or `by theme`, the default with partition_by the theme, which is a tree whose clusters are perfect.
a cluster: leaves from which a summary of level 1 is written. held: the share of the facts that stand in any summary of level 1. together: the share
of a theme's facts whose leaves are in that cluster of level 1 that has most of them. first: the share of questions where a summary is first. tree,
leaves: the share of the facts found. gain: their difference. of summaries: the share found by min_level => 1. After ± is the standard deviation
over the seeds.
"""
import argparse
import collections
import json
import pathlib
import random
import statistics
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from learning import line  # noqa: E402
from main_job import DATABASE, local, psql  # noqa: E402

OTHERS, TOKENS = 100, 500
QUESTIONS = (
    "What is known of {0}?", "Give an account of {0} through the years.", "What do the papers say about {0} and those who had to do with it?",
    "How did {0} come about, and how did it fare in good years and bad?")
# {it} is the thing, {p} somebody, {y} a year, {c} a number.
FACTS = (
    ("{p} drew the plans of {it} in {y} and was never paid.", "The one who designed {it}, in the spring of {y}, was {p}."),
    ("{p} gave {c} crowns for {it} at an auction.", "In {y} {it} was sold to {p}."),
    ("The flames of {y} spared {it} only because {p} had filled the cisterns.", "{p} put out a fire that had broken out in {it}."),
    ("The court fined {p} {c} crowns for salt smuggled by way of {it}.", "{p} was caught with contraband in {it}."),
    ("When the fever came, {p} nursed {c} people in {it}.", "The physician {p} treated the sick at {it} without a fee."),
    ("{p} painted {it} in oils, and the picture hangs in the town hall.", "A watercolour of {it} by {p} was shown in {y}."),
    ("A storm damaged {it} in {y}, and {p} paid for the repairs.", "{p} mended {it} after the gale of {y}."),
    ("On the map that {p} engraved, {it} stands too far to the north.", "{p} surveyed {it} with a chain of {c} links."),
    ("The widow {p} left {c} crowns for the upkeep of {it}.", "By her will of {y} {p} gave a pension to whoever sweeps {it}."),
    ("{p} wrote a ballad of {c} verses on {it}.", "In a song by {p} {it} is full of ghosts."),
    ("The inspector {p} found dry rot in the beams of {it}.", "{p} reported in {y} that worms had got into the timber of {it}."),
    ("{p} was born in {it} on a winter night.", "The birth of {p} in {it} is entered under the year {y}."),
    ("{c} barrels of tar went to {it} from {p}, who charged for more.", "{p} brought pitch and rope to {it} every autumn."),
    ("The bell of {it} was cast by {p} in {y}.", "{p} made the bronze bell that is rung at {it}."),
    ("The thief {p} hid {c} silver spoons in {it}.", "Stolen plate was dug up at {it}, and {p} was hanged for it."),
    ("{p} taught {c} children to read in {it}.", "A school was held in {it} by {p} until {y}."))
INTRODUCTION = "{name} is the {kind} at {place}, and it is {owner} who keeps it."
PASSING = ("From the hill one sees {it} on a clear day.", "The coach stops not far from {it}.", "Two strangers asked the way to {it}.",
           "Nobody was at {it} when the letter came.", "The procession went past {it} and on to the market.", "Dogs were heard barking near {it}.")
# What else stands in a leaf: somebody did something to a thing some time. The words are a few of these for each theme or, with --loose, any.
BESIDE = tuple(words.split("|") for words in (
    "carpenter|weaver|sexton|midwife|tinker|baker|widow|beggar|sailor|notary|shoemaker|goatherd|miner|hunter|smith|potter|clerk|tailor|nephew"
    "|gardener|surgeon|printer|fiddler|juggler|cooper|glazier|groom|monk|poacher|ropemaker",
    "mended|sold|borrowed|dropped|praised|measured|lost|washed|bought|counted|polished|described|wrapped|lifted|traded|admired|broke|weighed|found"
    "|cursed|sketched|returned|buried|pawned|auctioned|inherited|guarded|unpacked|refused|sharpened|varnished|dragged|tested|forgot|chained|boiled",
    "rusty|narrow|spotted|wooden|crumpled|wet|heavy|cheap|foreign|stolen|square|woollen|dusty|smoked|yellow|tiny|curved|sour|loud|cracked",
    "saddle|fiddle|ladle|mirror|carpet|hammer|basket|compass|drum|candlestick|cradle|bucket|necklace|coat|hymnbook|telescope|clock|sledge|chisel"
    "|goose-quill|cape|wheelbarrow|hatchet|teapot|bonnet|lute|trunk|pillow|scythe|padlock|stove|violin|chessboard|puppet|vase|birdcage|sieve|pump",
    "before breakfast|near the orchard|without a word|during the harvest|behind the stables|for a wager|in the rain|at half price|by mistake"
    "|after the funeral|under a hedge|at midnight|in front of witnesses|with great care|on the way to church|for the third time|across the river"
    "|in a bad temper|out of pity|during the eclipse|at the crossroads|against all advice|on horseback|next to the well|in the cellar"))
OWN, CAST = 5, 3
KINDS = "inn mill brig chapel lighthouse tavern manor granary workshop tower".split()
ADJECTIVES = ("Grey Silver Old Black Golden White Red Merry Quiet Crooked Blue Green Broken Lame Proud Gentle Hungry Idle Iron Copper Lucky Lonely "
              "Northern Painted Hollow Patient Sleepy Bitter Brave Bright").split()
NOUNS = ("Heron Anchor Lantern Otter Falcon Plough Rose Stag Hound Bell Crown Swan Badger Thistle Oak Raven Fox Star Key Barrel Ladder Wheel Dolphin "
         "Sparrow Lamb Bear Harp Goose Mitre Tankard Trout Pilgrim Shepherd Comet Pigeon Spade Mermaid Kettle Hare Owl").split()
FIRST = ("Ada Bram Clara Dirk Edith Felix Greta Hugo Ines Jonas Kate Lewis Mara Nils Olga Piers Quentin Rosa Simon Tilda Ulric Vera Walter Yvonne "
         "Agnes Basil Cecil Dora Emil Fanny").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday".split()


class Names:
    """Invented names, each once."""

    def __init__(self, rng):
        self.rng, self.used = rng, set()

    def new(self, endings):
        while True:
            parts = ("B Br C D Dr F G Gr H K L M N P Pr R S St T Tr V W", "a e i o u oa ee", "b ck d ll m nd nt r rl rn ss st tt x", endings)
            name = "".join(self.rng.choice(part.split()) for part in parts)
            if name not in self.used:
                self.used.add(name)
                return name

    def person(self):
        return f"{self.rng.choice(FIRST)} {self.new('er ley man ick ow ard el in ott ish by ett')}"


class Thing:
    def __init__(self, rng, names, name):
        self.rng, self.name, self.kind = rng, f"the {name}", rng.choice(KINDS)
        self.place, self.owner = names.new("wick ham ford mouth stead combe"), names.person()
        self.words, self.cast = [rng.sample(words, OWN) for words in BESIDE], [self.owner, *(names.person() for _ in range(CAST))]

    def it(self):
        others = (f"the {self.kind} at {self.place}", f"{self.owner}'s {self.kind}")
        return self.name if self.rng.random() < 0.5 else self.rng.choice(others)


def corpus(seed, n, themes, loose):
    """Texts with the numbers of their themes; and the questions: (text, numbers of the texts with its facts, the surname of each)."""
    rng = random.Random(f"{seed} {n}")
    names = Names(rng)
    things = [Thing(rng, names, name) for name in rng.sample([f"{a} {b}" for a in ADJECTIVES for b in NOUNS], themes + OTHERS)]

    def filled(pattern, **known):
        person = names.person()
        text = pattern.format(p=person, y=rng.randint(1640, 1890), c=rng.randint(11, 480), **known)
        return text[0].upper() + text[1:], person.split()[1]

    def leaf(thing, sentence):
        beside = []
        for _ in range(rng.randint(2, 3)):
            who, did, how, what, when = map(rng.choice, BESIDE if loose else thing.words)
            who = rng.choice(("{p}" if loose else rng.choice(thing.cast), f"a {who}"))
            beside.append(filled(f"{who} {did} a {how} {what} {when}.")[0])
        beside.insert(rng.randint(0, len(beside)), sentence)
        return " ".join(beside)

    texts, questions = [], []
    for number, thing in enumerate(things):
        is_asked = number < themes
        facts = [filled(rng.choice(pair), it=thing.it()) for pair in rng.sample(FACTS, n if is_asked else 2)]
        if is_asked:
            question = rng.choice(QUESTIONS).format(thing.name)
            questions.append((question, list(range(len(texts), len(texts) + n)), [key for _, key in facts]))
        rest = [filled(INTRODUCTION, **vars(thing))] + [filled(pattern, it=thing.it()) for pattern in rng.sample(PASSING, 2 if is_asked else 1)]
        texts += [(leaf(thing, sentence), number) for sentence, _ in facts + rest]
    return texts, questions


def embed(embedder, dimensions, texts, questions, by):
    """A collection of the texts with their vectors, and a table of the questions with theirs."""
    psql(f"DROP SCHEMA IF EXISTS kb CASCADE; DROP TABLE IF EXISTS question; "
         f"SELECT rag_create('kb', {dimensions}, '{embedder}', partition_by => '{by}')")
    rows = "\n".join(f'{number}\t{local.copy_field(text)}\ttext\t{{"theme": {theme}}}' for number, (text, theme) in enumerate(texts))
    psql(f"COPY kb.document (source_key, body, format, metadata) FROM STDIN;\n{rows}\n\\.\n")
    psql("CALL rag_refresh('kb', steps => '{embed}'); CREATE TABLE question (n int, body text)")
    rows = "\n".join(f"{number}\t{text}" for number, (text, *_) in enumerate(questions))
    psql(f"COPY question FROM STDIN;\n{rows}\n\\.\n")
    psql("ALTER TABLE question ADD v vector; UPDATE question SET v = rag_embed('kb', body)")
    leaves = int(psql("SELECT count(*) FROM kb.node WHERE level = 0"))
    assert leaves == len(texts), f"{len(texts)} texts have made {leaves} leaves"


def answers(arguments):
    """For each question the level of the first row and all texts."""
    found = psql("SELECT json_agg(json_build_array(first, texts) ORDER BY n) FROM"
                 " (SELECT q.n, (array_agg(s.level ORDER BY rank))[1] AS first, string_agg(s.text, E'\\n') AS texts FROM question q, LATERAL"
                 f" (SELECT row_number() OVER () AS rank, * FROM raptor_search('kb', q.v, 20, max_tokens => {TOKENS}{arguments})) s GROUP BY 1) t")
    return json.loads(found)


def share(questions, texts):
    """The share of the facts that are in the texts."""
    return statistics.mean(statistics.mean(key in text for key in keys) for (_, _, keys), text in zip(questions, texts))


def measure(questions, cluster_size):
    psql(f"SELECT * FROM raptor_build('kb', cluster_size => {cluster_size})")
    members = json.loads(psql("SELECT json_agg(t) FROM (SELECT min(p.text) AS text, array_agg(d.source_key::int) AS leaves FROM kb.node p"
                              " JOIN kb.node_child c ON c.parent_id = p.id JOIN kb.node n ON n.id = c.child_id AND n.level = 0"
                              " JOIN kb.document d ON d.id = n.document_id WHERE p.level = 1 GROUP BY p.id) t"))
    clusters = [set(row["leaves"]) for row in members]
    summaries = " ".join(row["text"] for row in members)
    tree, leaves, above = answers(""), answers(", mode => 'leaf'"), answers(", min_level => 1")
    found = [share(questions, [text for _, text in rows]) for rows in (tree, leaves, above)]
    together = statistics.mean(max(len(cluster & set(numbers)) for cluster in clusters) / len(numbers) for _, numbers, _ in questions)
    first = statistics.mean(level > 0 for level, _ in tree)
    return (statistics.mean(map(len, clusters)), share(questions, [summaries] * len(questions)), together, first, found[0], found[1],
            found[0] - found[1], found[2])


def dimensions_of(url, model):
    body = json.dumps({"model": model, "input": ["a"]}).encode()
    request = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(json.load(answer)["data"][0]["embedding"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="*", help="URL and MODEL of a server of embeddings")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--themes", type=int, default=60)
    parser.add_argument("--loose", action="store_true", help="leaves of a theme share its names alone")
    parser.add_argument("--sizes", default="2,3,4,5,6,7,8")
    options = parser.parse_args()
    local.start()
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE")
    embedders = [("builtin:lsa", 384)]
    if options.server:
        url, model = options.server
        size = dimensions_of(url, model)
        psql(f"CREATE SERVER x FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url '{url}', embedding_model '{model}')")
        embedders += [("server:x", size), (f"server:x({size}) + builtin:lsa(384)", size + 384)]
    line("n", "embedder", "build", "a cluster", "held", "together", "first", "tree", "leaves", "gain", "of summaries")
    line("---:", "---", "---", *["---:"] * 8)
    for n in map(int, options.sizes.split(",")):
        corpora = [corpus(seed, n, options.themes, options.loose) for seed in range(options.seeds)]
        for embedder, dimensions in embedders:
            runs = collections.defaultdict(list)
            for texts, questions in corpora:
                for by, builds in (("{}", ("default", "10")), ("{theme}", ("by theme",))):
                    embed(embedder, dimensions, texts, questions, by)
                    for build in builds:
                        runs[build].append(measure(questions, "10" if build == "10" else "NULL"))
            for build, rows in runs.items():
                cells = [f"{statistics.mean(row):.2f} ±{statistics.stdev(row) if len(row) > 1 else 0:.2f}" for row in zip(*rows)]
                line(n, embedder.replace("(384)", ""), build, *cells)


if __name__ == "__main__":
    main()
