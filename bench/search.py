#!/usr/bin/env python3
"""How well the searches find, by rag_evaluate, and how fast they are.

    make demo                              (once: builds, installs and starts the private server)
    python3 bench/search.py FOLDER [SET …]
    python3 bench/search.py --speed [N]    (N leaves, 100,000 if not told)

FOLDER holds a folder for each set, as for embedder.py. A passage, with its title before it, is one leaf of a document that has the title; the graph is
that of builtin:cooccurrence. `lsa` is a collection with builtin:lsa alone, `model + lsa` one with the vectors that the set brings beside it.

Printed is for each method of rag_evaluate recall@2, @5 and @10, the share of questions with all of their passages among the first eight, the mean
difference in recall@5 to `dense` with its 95 % interval, and the median milliseconds of a search for ten rows.

With --speed: N documents of one leaf each, of made-up words, with builtin:hash, and a graph of 20,000 entities and 100,000 relations (fewer if N is less), each
stated by one of the leaves, 2,000 of them at one hub. Each line is so many runs in one session, after some to warm up: median and 99th percentile in
milliseconds, and the median relative to the line that it is compared with.
"""
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import embedder  # noqa: E402
import main_job  # noqa: E402
from main_job import local, psql  # noqa: E402

METHODS = ["dense", "lexical", "fused", "fused by scores", "graph", "dense+graph", "dense+lexical+graph",
           "dense+lexical+graph by scores", "local", "global", "mix", "pagerank"]
GOLDEN = """CREATE VIEW bench.golden AS SELECT q.text AS question, array_agg(g.passage::text) AS relevant
            FROM bench.question q JOIN bench.gold g ON g.question = q.id GROUP BY q.id"""
TABLE = """
WITH e AS MATERIALIZED (
  SELECT k.k, r.n, r.method, r.questions, r.recall, r.all_found, r.difference, r.difference_low, r.difference_high, r.milliseconds
  FROM unnest(ARRAY[2, 5, 8, 10]) AS k (k), LATERAL rag_evaluate('{name}', 'bench.golden', k.k, '{{{methods}}}') WITH ORDINALITY
    AS r (method, at, questions, recall, hit, all_found, p, mrr, ndcg, difference, difference_low, difference_high, milliseconds, n))
SELECT concat_ws(' | ', method, max(recall) FILTER (WHERE k = 2)::numeric(4,3), max(recall) FILTER (WHERE k = 5)::numeric(4,3),
         max(recall) FILTER (WHERE k = 10)::numeric(4,3), max(all_found) FILTER (WHERE k = 8)::numeric(4,3),
         coalesce(max(difference::numeric(4,3) || ' (' || difference_low::numeric(4,3) || ' to ' || difference_high::numeric(4,3) || ')') FILTER (WHERE k = 5), ' '),
         max(milliseconds) FILTER (WHERE k = 10)::numeric(8,1))
FROM e GROUP BY n, method ORDER BY n"""


def build(name, model, dimensions):
    psql(f"DROP SCHEMA IF EXISTS {name} CASCADE; SELECT rag_create('{name}', {dimensions}, '{model}', settings => {embedder.WIDE});"
         f"INSERT INTO {name}.document (source_key, title, body, format) SELECT id, title, body, 'text' FROM bench.passage ORDER BY id;"
         f"CALL rag_refresh('{name}', steps => '{{embed,extract}}')")


def quality(folder, sets):
    print("| set | vectors | method | recall@2 | @5 | @10 | all@8 | against dense at 5 | ms |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in sets or sorted(path.parent.name for path in folder.glob("*/gold.csv")):
        size = embedder.load(folder / name)
        psql(GOLDEN)
        kinds = [("lsa", "builtin:lsa", 384)]
        if size:
            kinds.append(("model + lsa", f"function:bench.model({size}) + builtin:lsa(384)", size + 384))
        for kind, model, dimensions in kinds:
            build("kb", model, dimensions)
            for row in psql(TABLE.format(name="kb", methods=",".join(METHODS))).splitlines():
                print(f"| {name} | {kind} | {row} |", flush=True)


def words(count, of):
    """Texts of some thirty words, the first of them far more often than the last."""
    weights = [1 / (rank + 10) for rank in range(of)]
    vocabulary = [f"{'aeiou'[i % 5]}{'bdfgklmnprstvz'[i % 14]}o{i}" for i in range(of)]
    for _ in range(count):
        yield " ".join(random.choices(vocabulary, weights, k=random.randint(20, 40)))


def fill(count):
    """The collection kb: count leaves, and a graph that they state."""
    entities, edges = min(20_000, count // 5), min(100_000, count)
    pairs, at_hub = set(), edges // 50
    while len(pairs) < edges:
        one, other = random.randrange(entities), random.randrange(entities)
        pairs.add((0, other) if len(pairs) < at_hub else (one, other))
    ends = list(pairs) + [(None, None)] * (count - edges)
    random.shuffle(ends)
    psql("SELECT rag_create('kb', 384, 'builtin:hash', settings => '{\"inline_rows\": 1000000}'); CREATE SCHEMA bench;"
         "CREATE TABLE bench.text (n int, body text, one int, other int)")
    lines = [f"{n}\t{f'Entity {one} knows Entity {other}. ' if one is not None else ''}{text}.\t{one if one is not None else chr(92) + 'N'}\t"
             f"{other if other is not None else chr(92) + 'N'}" for n, (text, (one, other)) in enumerate(zip(words(count, 20_000), ends))]
    psql("COPY bench.text FROM STDIN;\n" + "\n".join(lines) + "\n\\.\n")
    psql("INSERT INTO kb.document (source_key, body, format) SELECT n, body, 'text' FROM bench.text ORDER BY n; CALL rag_refresh('kb', steps => '{embed}')")
    psql(f"""INSERT INTO kb.entity (id, name) SELECT i + 1, 'Entity ' || i FROM generate_series(0, {entities - 1}) i;
        CREATE TABLE bench.stated AS SELECT n + 1 AS relation, one + 1 AS source, other + 1 AS target, b.id AS block, b.document_id AS document
          FROM bench.text t JOIN kb.document d ON d.source_key = t.n::text JOIN kb.block b ON b.document_id = d.id WHERE one IS NOT NULL;
        INSERT INTO kb.mention (key, name, entity_id, block_id, document_id)
          SELECT DISTINCT e.key, e.name, e.id, s.block, s.document FROM bench.stated s JOIN kb.entity e ON e.id IN (s.source, s.target);
        INSERT INTO kb.relation (id, source_id, predicate, target_id, weight, source_count) SELECT relation, source, 'knows', target, 1, 1 FROM bench.stated;
        INSERT INTO kb.evidence (relation_id, subject_key, subject_name, predicate, object_key, object_name, block_id, document_id, quote)
          SELECT relation, a.key, a.name, 'knows', b.key, b.name, block, document, a.name || ' knows ' || b.name || '.' FROM bench.stated
          JOIN kb.entity a ON a.id = source JOIN kb.entity b ON b.id = target;
        UPDATE kb.entity e SET block_count = m.n, source_count = m.n FROM (SELECT entity_id, count(*) AS n FROM kb.mention GROUP BY 1) m WHERE m.entity_id = e.id;
        CREATE TABLE bench.query AS SELECT row_number() OVER () AS n, q.text, rag_embed('kb', q.text) AS vector FROM
          (SELECT 'What does Entity ' || one || ' know of ' || substr(body, 60, 40) AS text FROM bench.text WHERE one IS NOT NULL ORDER BY md5(n::text) LIMIT 300) q""")
    psql("VACUUM ANALYZE")


RECURSIVE = """WITH RECURSIVE walk (hop, entity, relation) AS (
    SELECT 0, e.id, NULL::bigint FROM kb.entity e WHERE e.key = lower({entity})
    UNION SELECT w.hop + 1, CASE WHEN r.source_id = w.entity THEN r.target_id ELSE r.source_id END, r.id
    FROM walk w JOIN kb.relation r ON w.entity IN (r.source_id, r.target_id) WHERE w.hop < 2)
  SELECT min(w.hop), a.name, r.predicate, b.name, r.weight, (SELECT v.quote FROM kb.evidence v WHERE v.relation_id = r.id LIMIT 1)
  FROM walk w JOIN kb.relation r ON r.id = w.relation JOIN kb.entity a ON a.id = r.source_id JOIN kb.entity b ON b.id = r.target_id
  GROUP BY r.id, a.name, b.name ORDER BY 1, r.weight DESC LIMIT 100"""


def times(statement, runs=200, warm=20):
    """Milliseconds of a statement about q, a row of bench.query, in one session, each run with another row."""
    answer = psql(f"""SET hnsw.iterative_scan = strict_order; SET hnsw.ef_search = 100; SET client_min_messages = warning;
        CREATE TEMP TABLE took (n bigint, t float8);
        DO $$ DECLARE q record; b timestamptz; BEGIN FOR q IN SELECT * FROM bench.query WHERE n <= {runs + warm} ORDER BY n LOOP b := clock_timestamp();
        PERFORM s FROM ({statement}) s; INSERT INTO took VALUES (q.n, extract(epoch FROM clock_timestamp() - b) * 1e3); END LOOP; END $$;
        SELECT t FROM took WHERE n > {warm} ORDER BY n""")
    return [float(t) for t in answer.split()]


def speed(count):
    random.seed(1)
    fill(count)
    hub = "'Entity 0'"
    plain = "SELECT id, 1 - (embedding <=> q.vector) FROM kb.node ORDER BY embedding <=> q.vector LIMIT {}"
    lines = [
        ("pgvector, 10 nearest", plain.format(10), None),
        ("pgvector, as many as raptor_search takes (70)", plain.format(70), None),
        ("raptor_search, collapsed, by vector", "SELECT * FROM raptor_search('kb', q.vector, 10)", 0),
        ("raptor_search, collapsed, by text", "SELECT * FROM raptor_search('kb', q.text, 10)", 0),
        ("rag_search, dense", "SELECT * FROM rag_search('kb', q.text, 10, methods => '{dense}')", 0),
        ("rag_search, lexical", "SELECT * FROM rag_search('kb', q.text, 10, methods => '{lexical}')", None),
        ("rag_search, dense, lexical and tree", "SELECT * FROM rag_search('kb', q.text, 10, methods => '{dense,lexical,tree}')", None),
        ("rag_search, dense, lexical and graph", "SELECT * FROM rag_search('kb', q.text, 10, methods => '{dense,lexical,graph}')", None),
        ("graph_search, pagerank", "SELECT * FROM graph_search('kb', q.text, 'pagerank', 10)", None),
        ("recursive SQL, 2 hops through the hub", RECURSIVE.format(entity=hub), None),
        ("graph_local, 2 hops through the hub", f"SELECT * FROM graph_local('kb', {hub}, hops => 2)", 9),
    ]
    leaves, relations = psql("SELECT (SELECT count(*) FROM kb.node), (SELECT count(*) FROM kb.relation)").split("|")
    print(f"{int(leaves):,} leaves, {int(relations):,} relations; load {local.os.getloadavg()[0]:.1f} on {local.os.cpu_count()} cores\n")
    print("| what | runs | median ms | 99th percentile | relative |\n| --- | ---: | ---: | ---: | ---: |")
    medians = []
    for name, statement, compared in lines:
        took = times(statement)
        medians.append(statistics.median(took))
        relative = f"{medians[-1] / medians[compared]:.2f}" if compared is not None else ""
        print(f"| {name} | {len(took)} | {medians[-1]:.2f} | {sorted(took)[len(took) * 99 // 100]:.2f} | {relative} |", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    local.start()
    psql(f"DROP DATABASE IF EXISTS {main_job.DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {main_job.DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE")
    if sys.argv[1] == "--speed":
        speed(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    else:
        quality(pathlib.Path(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    main()
