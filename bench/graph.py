#!/usr/bin/env python3
"""The graph that is built with no model: whether it finds what dense retrieval does not, and what it costs.

    make demo                             (once: builds, installs and starts the private server)
    python3 bench/graph.py FOLDER [SET …]
    python3 bench/graph.py --speed [N]    (N documents, 10,000 if not told: descriptions of packages, see learning.py)

FOLDER holds a folder for each set, with passages.csv (id, title, text), questions.csv (id, question) and gold.csv (question, passage); the
first two may be .csv.gz. A passage is a document with its title, which stands above its text, too, so that dense retrieval reads it.

Printed is recall@2 / @5 / @10, the share of a question's gold passages among the first so many, and the share of questions with all of theirs
among the first five:

    dense     raptor_search, mode leaf, with builtin:lsa learned from the set
    walk      personalised PageRank over passages and entities, in SQL: a passage leads to the entities that it mentions and another one, too
              (the rarer the likelier), an entity to its passages, half of it to those whose title it is, and to what it is related to. It
              starts from the ten passages that dense finds, and from the entities that the question names (its words, up to eight,
              looked up in entity.key)
    titles    the same with the mentions of titles alone
    phrases   the same without the titles, as the built-in extractor finds names and phrases by themselves
    fused     reciprocal rank fusion of dense and walk, k = 60

and of how many questions each is better than dense at five, and worse. Two questions more or less are chance.

With --speed: seconds and blocks a second of graph_extract over the whole, the share of it that merging takes (the statements that recompute
entities and relations), and what one more document costs: seconds, and rows that PostgreSQL read in tables of the collection.
"""
import csv
import gzip
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import main_job  # noqa: E402
from main_job import local, psql, session  # noqa: E402

# Of a small sweep; see the README of this folder.
DAMPING, POWER, NAMED, STEPS = 0.5, 8, 0.3, 12
# The share of an entity that leads to the document of which it is the title, and the weight of relations beside mentions.
OWN, RELATED = 1, 0.3
SETTINGS = """'{"leaf_tokens": 4000, "block_tokens": 8000, "inline_rows": 1000000}'"""


def rows(base, name):
    path = base / name
    with (open(path, newline="") if path.exists() else gzip.open(f"{path}.gz", "rt", newline="")) as file:
        return list(csv.reader(file))[1:]


def copy(table, lines):
    fields = "\n".join("\t".join(local.copy_field(str(field)) for field in line) for line in lines)
    psql(f"COPY {table} FROM STDIN;\n{fields}\n\\.\n")


def load(base):
    """Passages and questions as tables, and two collections: one that knows the titles, one that does not."""
    psql("DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench;"
         "CREATE TABLE bench.passage (id int PRIMARY KEY, title text, body text); CREATE TABLE bench.question (id int PRIMARY KEY, text text);"
         "CREATE TABLE bench.gold (question int, passage int); CREATE TABLE bench.found (method text, question int, passage int, rank int)")
    copy("bench.passage", [(number, title, f"{title}\n\n{text}".strip()) for number, title, text, *_ in rows(base, "passages.csv")])
    copy("bench.question", [row[:2] for row in rows(base, "questions.csv")])
    copy("bench.gold", [row[:2] for row in rows(base, "gold.csv")])
    for name, title in (("kb", "title"), ("untitled", "NULL")):
        psql(f"DROP SCHEMA IF EXISTS {name} CASCADE; SELECT rag_create('{name}', settings => {SETTINGS});"
             f"INSERT INTO {name}.document (source_key, title, body, format) SELECT id, {title}, body, 'text' FROM bench.passage ORDER BY id;"
             f"CALL rag_refresh('{name}', steps => '{{embed,extract}}')")
    psql("""CREATE TABLE bench.dense AS SELECT q.id AS question, s.rank::int, s.score, d.source_key::int AS passage FROM bench.question q,
              LATERAL (SELECT row_number() OVER () AS rank, score, document_ids[1] AS document
                       FROM raptor_search('kb', q.text, 20, mode => 'leaf')) s JOIN kb.document d ON d.id = s.document;
            INSERT INTO bench.found SELECT 'dense', question, passage, rank FROM bench.dense""")


# Vertices are passages (their id) and entities (-id).
GRAPH = """
DROP TABLE IF EXISTS edge, seed, rank;
CREATE TEMP TABLE said AS
  SELECT DISTINCT d.source_key::int AS passage, m.entity_id, lower(m.name) = ANY (ARRAY[lower(p.title), lower(regexp_replace(p.title, ' \\(.*', '')), regexp_replace(lower(p.title), '^the ', '')]) AS own
  FROM {kb}.mention m JOIN {kb}.document d ON d.id = m.document_id JOIN bench.passage p ON p.id = d.source_key::int;
CREATE TEMP TABLE mentions AS SELECT passage, entity_id, own, of, ln(1 + (SELECT count(*) FROM bench.passage)::float8 / of) AS w
  FROM (SELECT *, count(*) OVER (PARTITION BY entity_id) AS of FROM said WHERE {mentioned}) s WHERE of > 1;
CREATE TEMP TABLE edge AS
  SELECT a, b, w / sum(w) OVER (PARTITION BY a) AS w FROM (
    SELECT passage AS a, -entity_id AS b, w FROM mentions
    UNION ALL SELECT -entity_id, passage, CASE WHEN own THEN of * {own} ELSE 1 END FROM mentions
    UNION ALL SELECT -source_id, -target_id, {related} * weight FROM {kb}.relation WHERE {related} > 0
    UNION ALL SELECT -target_id, -source_id, {related} * weight FROM {kb}.relation WHERE {related} > 0) e;
CREATE TEMP TABLE named AS
  WITH word AS (SELECT q.id, w.n, regexp_replace(w.word, '''s$', '') AS word FROM bench.question q,
      LATERAL regexp_split_to_table(regexp_replace(lower(q.text), '[^\\w'']+', ' ', 'g'), ' ') WITH ORDINALITY AS w (word, n)),
    gram AS (SELECT DISTINCT a.id AS question, (SELECT string_agg(word, ' ' ORDER BY n) FROM word b WHERE b.id = a.id AND b.n BETWEEN a.n AND a.n + l) AS key
      FROM word a, generate_series(0, 7) l)
  SELECT g.question, -e.id AS vertex, ln(1 + (SELECT count(*) FROM bench.passage)::float8 / e.source_count) AS w
  FROM gram g JOIN {kb}.entity e ON e.key = g.key WHERE e.source_count > 0;
CREATE TEMP TABLE seed AS SELECT question, vertex, sum(w) AS w FROM (
  SELECT question, passage AS vertex, (1 - {named}) * greatest(score, 0) ^ {power} / nullif(sum(greatest(score, 0) ^ {power}) OVER (PARTITION BY question), 0) AS w
  FROM bench.dense WHERE rank <= 10
  UNION ALL SELECT question, vertex, {named} * w / sum(w) OVER (PARTITION BY question) FROM named) s GROUP BY 1, 2;
CREATE TEMP TABLE rank AS SELECT * FROM seed;
ANALYZE edge, seed;
DO $$ BEGIN FOR step IN 1..{steps} LOOP
  CREATE TEMP TABLE next AS SELECT question, vertex, sum(w) AS w FROM (
    SELECT r.question, e.b AS vertex, {damping} * r.w * e.w AS w FROM rank r JOIN edge e ON e.a = r.vertex
    UNION ALL SELECT question, vertex, (1 - {damping}) * w FROM seed) s GROUP BY 1, 2;
  DROP TABLE rank; ALTER TABLE next RENAME TO rank;
END LOOP; END $$;
DELETE FROM bench.found WHERE method = '{method}';
INSERT INTO bench.found SELECT '{method}', question, vertex, row_number() OVER (PARTITION BY question ORDER BY w DESC, vertex) FROM rank WHERE vertex >= 0;
"""
FUSED = """DELETE FROM bench.found WHERE method = 'fused'; INSERT INTO bench.found
  SELECT 'fused', question, passage, row_number() OVER (PARTITION BY question ORDER BY sum(1.0 / (60 + rank)) DESC, passage)
  FROM bench.found WHERE method IN ('dense', 'walk') AND rank <= 20 GROUP BY question, passage"""


def walk(method, kb="kb", mentioned="true", related=RELATED, own=OWN, named=NAMED, power=POWER, damping=DAMPING):
    session(GRAPH.format(method=method, kb=kb, mentioned=mentioned, related=related, own=own, named=named, power=power, damping=damping, steps=STEPS))


def share(k):
    return (f"(SELECT count(DISTINCT g.passage) FROM bench.gold g JOIN bench.found f USING (question, passage)"
            f" WHERE g.question = q.id AND f.method = m.method AND f.rank <= {k})::float8 / of")


def report(name, methods):
    for method in methods:
        figures = ", ".join(f"avg({share(k)})::numeric(4,3)" for k in (2, 5, 10))
        dense = share(5).replace("m.method", "'dense'")
        line = psql(f"SELECT {figures}, avg(({share(5)} = 1)::int)::numeric(4,3), count(*) FILTER (WHERE {share(5)} > {dense}),"
                    f" count(*) FILTER (WHERE {share(5)} < {dense}) FROM (VALUES ('{method}')) m (method), bench.question q,"
                    " LATERAL (SELECT count(DISTINCT passage) AS of FROM bench.gold WHERE question = q.id) g WHERE of > 0")
        r2, r5, r10, every, better, worse = line.split("|")
        print(f"| {name} | {method} | {r2} | {r5} | {r10} | {every} | {better} | {worse} |", flush=True)


def quality(folder, sets):
    print("| set | method | r@2 | r@5 | r@10 | all@5 | better | worse |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in sets or sorted(path.parent.name for path in folder.glob("*/gold.csv")):
        load(folder / name)
        walk("walk")
        titles = "entity_id IN (SELECT entity_id FROM said WHERE own)"
        walk("titles", mentioned=titles, related=0)
        walk("phrases", kb="untitled")
        psql(FUSED)
        report(name, ["dense", "walk", "titles", "phrases", "fused"])


READ = """SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot();
  SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE schemaname = 'kb'"""
NESTED = "LOAD 'auto_explain'; SET auto_explain.log_nested_statements = on; SET auto_explain.log_min_duration = 0; SET client_min_messages = log;"


def extract():
    """Seconds of graph_extract, and of its statements that merge."""
    began = time.perf_counter()
    _, told = session(NESTED + "SELECT * FROM graph_extract('kb')")
    seconds = time.perf_counter() - began
    merging = 0.0
    for duration, query in re.findall(r"duration: ([\d.]+) ms  plan:\nQuery Text: (.*)", told):
        if re.match(r"(UPDATE|DELETE FROM|SELECT id FROM) \"?kb\"?\.(relation|entity|entity_alias)\b", query):
            merging += float(duration) / 1000
    return seconds, merging


def speed(count):
    from learning import packages
    documents = []
    for name, _, synopsis, paragraphs in packages():
        documents.append((name, name, "\n\n".join([synopsis, *paragraphs])))
    documents = documents[:count + 1]
    psql("SELECT rag_create('kb', settings => '{\"inline_rows\": 1000000}'); CREATE TABLE incoming (source_key text, title text, body text)")
    copy("incoming", documents)
    psql("INSERT INTO kb.document (source_key, title, body, format) SELECT *, 'text' FROM incoming OFFSET 1")
    blocks = int(psql("SELECT count(*) FROM kb.block"))
    seconds, merging = extract()
    graph = psql("SELECT (SELECT count(*) FROM kb.entity), (SELECT count(*) FROM kb.relation), (SELECT count(*) FROM kb.mention)").split("|")
    print("| what | blocks | seconds | blocks a second | merging | entities | relations | mentions |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(f"| the whole | {blocks:,} | {seconds:.1f} | {blocks / seconds:.0f} | {merging:.1f} s | {' | '.join(f'{int(n):,}' for n in graph)} |")
    psql("VACUUM ANALYZE")
    psql("INSERT INTO kb.document (source_key, title, body, format) SELECT *, 'text' FROM incoming LIMIT 1")
    before = int(psql(READ).split()[-1])
    seconds, merging = extract()
    after = int(psql(READ).split()[-1])
    more = psql("SELECT count(*) FROM kb.mention WHERE document_id = (SELECT max(id) FROM kb.document)")
    print(f"\none more document, {more} mentions: {seconds:.2f} s, of which merging {merging:.3f} s; {after - before:,} rows read")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    local.start()
    psql(f"DROP DATABASE IF EXISTS {main_job.DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {main_job.DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE")
    if sys.argv[1] == "--speed":
        speed(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
    else:
        quality(pathlib.Path(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    main()
