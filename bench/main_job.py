#!/usr/bin/env python3
"""The whole main job on a folder: wall time of each step, rows made, peak memory of the backend.

    make demo                          (once: builds, installs and starts the private server)
    python3 bench/main_job.py FOLDER

FOLDER holds .md, .txt or .html files, or one passages.csv or passages.csv.gz with columns id, title, text. Each step runs in a
session of its own, so that the peak is the step's: VmHWM of /proc/self/status, shared buffers that it touched included.
"""
import csv
import gzip
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import local  # noqa: E402

csv.field_size_limit(1 << 30)
DATABASE = "bench"


def passages(folder):
    """(source_key, title, body, format) of everything in the folder."""
    for table in sorted(folder.glob("passages.csv*")):
        opener = gzip.open if table.suffix == ".gz" else open
        with opener(table, "rt", newline="") as file:
            for key, title, text, *_ in list(csv.reader(file))[1:]:
                yield key, title, text, "markdown"
        return
    formats = {".md": "markdown", ".txt": "text", ".html": "html"}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in formats and p.is_file()):
        yield str(path.relative_to(folder)), path.stem, path.read_text("utf-8", "replace").replace("\0", ""), formats[path.suffix]


def session(sql, database=DATABASE):
    """Runs SQL in a session of its own; answers what psql wrote and what it was told beside it."""
    answer = local.run([*local.psql_command(database), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1"], input=sql, text=True,
                       capture_output=True, env={**local.os.environ, "PGOPTIONS": "-c client_min_messages=warning"})
    return answer.stdout.strip(), answer.stderr


def psql(sql, database=DATABASE):
    return session(sql, database)[0]


def step(name, sql, rows):
    """Runs one step in a session of its own and prints a line on it."""
    peak = "SELECT substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\\s+(\\d+)')::int / 1024;"
    began = time.perf_counter()
    answer = psql(f"{sql};\n{peak}")
    seconds = time.perf_counter() - began
    megabytes = answer.splitlines()[-1]
    print(f"| {name} | {seconds:.2f} | {psql(rows)} | {megabytes} |", flush=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    documents = list(passages(pathlib.Path(sys.argv[1])))
    local.start()
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE; SELECT rag_create('kb');"
         "CREATE TABLE incoming (source_key text, title text, body text, format text)")
    lines = "\n".join("\t".join(local.copy_field(field) for field in document) for document in documents)
    psql(f"COPY incoming FROM STDIN;\n{lines}\n\\.\n")
    characters = sum(len(body) for _, _, body, _ in documents)
    print(f"{len(documents)} documents, {characters / 1e6:.1f} million characters\n")
    print("| step | seconds | rows | peak MB |\n| --- | --- | --- | --- |")
    plain = all(format in ("markdown", "text") for *_, format in documents)
    load = ("INSERT INTO kb.document (source_key, title, body, format) SELECT * FROM incoming" if plain else
            "SELECT count(rag_add('kb', body, title, source_key, format => format)) FROM incoming")
    step("load", load, "SELECT count(*) || ' documents, ' || (SELECT count(*) FROM kb.node) || ' leaves' FROM kb.document")
    step("raptor_build", "SELECT * FROM raptor_build('kb')",
         "SELECT string_agg(n::text, ' + ' ORDER BY level) || ' nodes' FROM (SELECT level, count(*) n FROM kb.node GROUP BY 1) t")
    step("graph_extract", "SELECT * FROM graph_extract('kb')",
         "SELECT (SELECT count(*) FROM kb.entity) || ' entities, ' || (SELECT count(*) FROM kb.relation) || ' relations, ' ||"
         " (SELECT count(*) FROM kb.evidence) || ' evidence'")
    step("graph_communities", "SELECT * FROM graph_communities('kb')",
         "SELECT count(*) || ' communities, largest ' || max(size) FROM kb.community")
    step("graph_summarize", "SELECT * FROM graph_summarize('kb')", "SELECT count(text) || ' reports' FROM kb.community")
    question = json.dumps("How do the parts fit together, and what happens when one of them fails?").strip('"')
    step("raptor_search", f"SELECT * FROM raptor_search('kb', '{question}')", "SELECT '10 of them'")
    entity = psql("SELECT quote_literal(name) FROM kb.entity ORDER BY degree DESC, key LIMIT 1")
    step("graph_local", f"SELECT * FROM graph_local('kb', {entity})", f"SELECT 'around ' || {entity}")
    step("graph_global", f"SELECT * FROM graph_global('kb', '{question}')", "SELECT '5 of them'")


if __name__ == "__main__":
    main()
