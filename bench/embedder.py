#!/usr/bin/env python3
"""How well the embedders find: recall@2, @5 and @10 of questions with known answers, all through SQL.

    make demo                               (once: builds, installs and starts the private server)
    python3 bench/embedder.py FOLDER [SET …]

FOLDER holds a folder for each set, with passages.csv (id, title, text), questions.csv (id, question) and gold.csv (question, passage), each as it is
or .gz, and, for the columns with a model, its vectors as emb_passages.f16.npy and emb_questions.f16.npy (two dimensions, half precision). A passage, with
its title before it, is one leaf. `model` is a function that looks these vectors up, `model + lsa` the sum of both in one column, `hnsw` the
same through the index, with what it shares of the ten best of the exact search.
"""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import main_job  # noqa: E402
from graph import copy, rows  # noqa: E402
from main_job import local, psql  # noqa: E402

WIDE = """'{"leaf_tokens": 4000, "block_tokens": 8000, "inline_rows": 1000000}'"""


def half_precision(path):
    """The rows of a two-dimensional .npy of float16."""
    data = path.read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:start], {"__builtins__": {}})
    assert header["descr"] == "<f2" and not header["fortran_order"], header
    count, size = header["shape"]
    numbers = struct.unpack(f"<{count * size}e", data[start:])
    return [numbers[at:at + size] for at in range(0, count * size, size)]


def load(base):
    """Tables passage, question and gold, and the model's vectors as the function bench.model; answers their dimensions."""
    psql("DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench;"
         "CREATE TABLE bench.passage (id int PRIMARY KEY, title text, body text); CREATE TABLE bench.question (id int PRIMARY KEY, text text);"
         "CREATE TABLE bench.gold (question int, passage int); CREATE TABLE bench.vectors (text text, vector real[]);")
    passages, questions = rows(base, "passages.csv"), rows(base, "questions.csv")
    texts = [f"{title}\n{text}".strip() for _, title, text, *_ in passages]
    copy("bench.passage", [(*row[:2], text) for row, text in zip(passages, texts)])
    copy("bench.question", [row[:2] for row in questions])
    copy("bench.gold", [row[:2] for row in rows(base, "gold.csv")])
    if not (base / "emb_passages.f16.npy").exists():
        return None
    known = list(zip(texts, half_precision(base / "emb_passages.f16.npy")))
    known += zip([row[1] for row in questions], half_precision(base / "emb_questions.f16.npy"))
    copy("bench.vectors", [(text, "{" + ",".join(map(str, vector)) + "}") for text, vector in known])
    psql("CREATE INDEX ON bench.vectors (md5(text));"
         "CREATE FUNCTION bench.model(input text) RETURNS real[] STABLE LANGUAGE sql AS"
         " $$ SELECT vector FROM bench.vectors WHERE md5(text) = md5(input) LIMIT 1 $$")
    return len(known[0][1])


def build(name, embedder, dimensions):
    psql(f"DROP SCHEMA IF EXISTS {name} CASCADE; SELECT rag_create('{name}', {dimensions}, '{embedder}', settings => {WIDE});"
         f"INSERT INTO {name}.document (source_key, body, format) SELECT id, body, 'text' FROM bench.passage ORDER BY id;"
         f"CALL rag_refresh('{name}', steps => '{{embed}}')")


FOUND = """SELECT q.id AS question, s.rank, d.source_key::int AS passage FROM bench.question q,
             LATERAL (SELECT row_number() OVER () AS rank, document_ids[1] AS document FROM raptor_search('{name}', q.text, 10, mode => 'leaf')) s
             JOIN {name}.document d ON d.id = s.document"""


def recall(name):
    """Recall at 2, 5 and 10: the share of a question's gold passages among the first so many, averaged over the questions."""
    shares = ", ".join(f"avg((SELECT count(DISTINCT g.passage) FROM bench.gold g JOIN bench.found_{name} f USING (question, passage)"
                       f" WHERE g.question = q.id AND f.rank <= {k})::float8 / of)::numeric(4,3)" for k in (2, 5, 10))
    psql(f"DROP TABLE IF EXISTS bench.found_{name}; CREATE TABLE bench.found_{name} AS {FOUND.format(name=name)}")
    found = psql(f"SELECT {shares} FROM bench.question q,"
                 " LATERAL (SELECT count(DISTINCT passage) AS of FROM bench.gold WHERE question = q.id) g WHERE of > 0")
    return found.replace("|", "/")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    sets = sys.argv[2:] or sorted(path.parent.name for path in folder.glob("*/gold.csv"))
    local.start()
    psql(f"DROP DATABASE IF EXISTS {main_job.DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {main_job.DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE")
    print("| set | passages | hash | lsa | model | model + lsa | hnsw |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name in sets:
        size = load(folder / name)
        columns = [psql("SELECT count(*) FROM bench.passage")]
        for embedder in ("hash", "lsa"):
            build(embedder, f"builtin:{embedder}", 384)
            columns.append(recall(embedder))
        if size:
            build("model", "function:bench.model", size)
            columns.append(recall("model"))
            build("composite", f"function:bench.model({size}) + builtin:lsa(384)", size + 384)
            columns.append(recall("composite"))
            psql("ALTER TABLE bench.found_composite RENAME TO exact; SELECT rag_alter('composite', '{\"exact_below\": 0}')")
            by_index = recall("composite")
            shared = psql("SELECT (count(*) / (SELECT count(*) FROM bench.exact)::float8)::numeric(4,3)"
                          " FROM bench.exact JOIN bench.found_composite USING (question, passage)")
            columns.append(f"{by_index}, {shared} shared")
        print(f"| {name} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
