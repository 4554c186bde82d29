#!/usr/bin/env python3
"""What a tree costs: raptor_build as a whole, with the built-in models, and where its time goes.

    make demo                                  (once: builds, installs and starts the private server)
    apt-get update -o Acquire::Languages=en    (once, on Debian or Ubuntu: fetches the descriptions of packages)
    python3 bench/tree.py [N …] [FOLDER]       (1000, 10000 and 100000 documents)

The documents are those of learning.py: the synopsis of a package with one paragraph of its description, each text once, in the order of their
SHA-256. With leaf_tokens of 4,000 each is one leaf, but for a few that are longer. Where there are fewer than N, all are taken; a FOLDER is read
as there. levels: of summaries.

The documents are there, and nothing of them is cut (inline_rows of 0): one call of raptor_build does all of it, in one transaction. It runs with
max_parallel_maintenance_workers = 0, on one thread and in one process, so that the CPU seconds are all that were used, the index's as well.
They are those of the backend, from /proc/self/stat, the COMMIT included; the peak is VmHWM of /proc/self/status, shared buffers that it
touched included.

At the level DEBUG1 raptor_build tells where a step ends and the CPU seconds until then; a share is what lies between two such lines, over all levels:
prepare: documents are cut, builtin:lsa learns, the leaves are embedded (learning.py takes that apart). read: the vectors of the leaves, and the
texts of the members of the clusters. cluster: leaves and summaries are grouped. summarise: the sentences are taken apart and embedded, and
the summaries written (in memory). embed: the vectors of the summaries. write: nodes and edges become rows, the tables are analyzed, all is
committed. index: HNSW over leaves and summaries.

`again` is a second raptor_build, of which the answer is the same tree: it reads, clusters and compares, and no row is written.
"""
import collections
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from learning import CPU, PEAK, copy, corpus, installed, line  # noqa: E402
from main_job import DATABASE, local, psql, session  # noqa: E402

STEPS = ("prepare", "read", "cluster", "summarise", "embed", "write", "index")
SETTINGS = """'{"leaf_tokens": 4000, "block_tokens": 8000, "inline_rows": 0}'"""
BUILD = f"""SET max_parallel_maintenance_workers = 0;
SELECT clock_timestamp() AS began, {CPU} AS cpu \\gset
SET client_min_messages = debug1;
SELECT * FROM raptor_build('kb');
SET client_min_messages = warning;
SELECT extract(epoch FROM clock_timestamp() - :'began'), {CPU} - :cpu, {PEAK};
"""


def build():
    """Rows of raptor_build; wall seconds, CPU seconds and peak MB; CPU seconds by step."""
    out, told = session(BUILD)
    *levels, (wall, cpu, peak) = [row.split("|") for row in out.splitlines()]
    spent, before = collections.Counter(), None
    for step, until in re.findall(r"DEBUG:  tree: (\w+) until ([\d.]+) CPU seconds", told):
        if before is not None:
            spent["prepare" if step in ("cut", "learn") else step] += float(until) - before
        before = float(until)
    # What follows the index: analyzing, the rows of the answer, the commit.
    spent["write"] += float(cpu) - sum(spent.values())
    return levels, float(wall), float(cpu), int(peak), spent


def report(name, built):
    levels, wall, cpu, peak, spent = built
    nodes = [int(row[1]) for row in levels]
    line(name, f"{nodes[0]:,}", f"{sum(nodes[1:]):,}", len(nodes) - 1, f"{wall:.1f}", f"{cpu:.1f}", peak,
         *(f"{100 * spent[step] / cpu:.1f} %" for step in STEPS))


def measure(texts):
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {DATABASE}", "postgres")
    psql(f"CREATE EXTENSION pg_graphrag CASCADE; SELECT rag_create('kb', settings => {SETTINGS}); CREATE TABLE incoming (body text)")
    copy("incoming", texts)
    psql("INSERT INTO kb.document (body, format) SELECT body, 'text' FROM incoming")
    report("first", build())
    report("again", build())


def main():
    sizes = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    folders = [pathlib.Path(argument) for argument in sys.argv[1:] if not argument.isdigit()]
    if len(folders) > 1 or not all(folder.is_dir() for folder in folders):
        sys.exit(__doc__)
    local.start()
    texts, kind = corpus(folders[0] if folders else None)
    print(f"{len(texts):,} {kind}; {installed()} build; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    line("build", "leaves", "summaries", "levels", "seconds", "CPU seconds", "peak MB", *STEPS)
    line("---", *["---:"] * (6 + len(STEPS)))
    for n in sizes or [1_000, 10_000, 100_000]:
        if n > len(texts):
            print(f"There are {len(texts):,} texts, not {n:,}: all are taken.")
        measure(texts[:n])


if __name__ == "__main__":
    main()
