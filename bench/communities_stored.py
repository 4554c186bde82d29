#!/usr/bin/env python3
"""Communities of a graph that stands in PostgreSQL, with reading and writing: graph_communities, and peers that fetch the edges and store labels.

    make demo                          (once: builds, installs and starts the private server)
    FOLDER/bin/python bench/communities_stored.py [NODES:MU …]        (default 10000:0.3 100000:0.3; packages as for communities.py)

The graphs are the planted ones of communities.py, loaded as relations given by hand. Seconds of wall time, once each, the server's caches warm:
read: COPY of the edges to the client, parsed; find: making the peer's graph and searching it; write: COPY of (entity, level, community) into a
table with an index on the entity. graph_communities does all three in one statement; `again` is the same call on the unchanged graph, `change`
a refresh after ten new edges between any nodes. Q is the modularity of the coarsest level, levels and communities those of the
hierarchy with at most 10 members where it divides.
"""
import importlib.util
import io
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import communities  # noqa: E402
import numpy as np  # noqa: E402
from main_job import DATABASE, psql  # noqa: E402

LOAD = """DROP TABLE IF EXISTS public.label; SELECT rag_drop('net') FROM rag_collections WHERE collection = 'net'; SELECT rag_create('net');
INSERT INTO net.entity (id, key, name) OVERRIDING SYSTEM VALUE SELECT i, 'n' || i, 'n' || i FROM generate_series(0, {nodes} - 1) i;
CREATE TEMP TABLE edge (u bigint, v bigint);
COPY edge FROM STDIN;
{edges}
\\.
INSERT INTO net.relation (source_id, predicate, target_id, weight) SELECT u, 'meets', v, 1 FROM edge;
VACUUM ANALYZE net.entity, net.relation;"""
CHANGE = """INSERT INTO net.relation (source_id, predicate, target_id, weight)
SELECT s.id, 'joins', t.id, 1 FROM generate_series(1, 10) i JOIN net.entity s ON s.id = i JOIN net.entity t ON t.id = i * 7919 % {nodes} WHERE s.id <> t.id"""


def timed(call):
    started = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - started


def fetch():
    text = psql("COPY (SELECT source_id, target_id, weight FROM net.relation) TO STDOUT")
    table = np.loadtxt(io.StringIO(text), ndmin=2)
    return table[:, :2].astype(int), table[:, 2]


def store(rows):
    lines = "\n".join(f"{entity}\t{level}\t{community}" for entity, level, community in rows)
    psql(f"DROP TABLE IF EXISTS public.label; CREATE TABLE public.label (entity bigint, level int, community int);\nCOPY public.label FROM STDIN;\n{lines}\n\\.\n"
         "CREATE INDEX ON public.label (entity); ALTER TABLE public.label ADD FOREIGN KEY (entity) REFERENCES net.entity;")


def main():
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE")
    print("| graph | edges | method | read | find | write | all | again | change | Q | levels | communities |\n| --- | ---: | --- |" + " ---: |" * 9)
    for word in sys.argv[1:] or ["10000:0.3", "100000:0.3"]:
        nodes, mu = word.split(":")
        edges, labels = communities.planted(int(nodes), float(mu), 1)
        graph = communities.Graph(word, edges, np.ones(len(edges)), labels)
        psql(LOAD.format(nodes=graph.nodes, edges="\n".join(f"{u}\t{v}" for u, v in graph.edges.tolist())))
        head = f"| {int(nodes):,}, mu {mu} | {len(graph.edges):,} |"
        find = "SELECT count(*), sum(communities), max(modularity) FILTER (WHERE level = 0) FROM graph_communities('net')"
        told, seconds = timed(lambda: psql(find))
        _, again = timed(lambda: psql(find))
        psql(CHANGE.format(nodes=graph.nodes))
        _, change = timed(lambda: psql("CALL rag_refresh('net', steps => '{communities}')"))
        psql("DELETE FROM net.relation WHERE predicate = 'joins'; VACUUM ANALYZE net.relation")
        levels, count, q = told.split("|")
        print(f"{head} graph_communities | | | | {seconds:.2f} | {again:.2f} | {change:.2f} | {float(q):.5f} | {levels} | {int(count):,} |", flush=True)
        for name, (package, build, run) in communities.PEERS.items():
            if not importlib.util.find_spec(package) or len(graph.edges) > communities.SLOW.get(name, len(graph.edges)):
                continue
            (read_edges, weights), read = timed(fetch)
            answer, found = timed(lambda: run(build(read_edges, weights), 1))
            coarse, levels, count = communities.labels_of(answer, graph.nodes)
            rows = [(row.node, row.level, row.cluster) for row in answer] if levels > 1 else [(e, 0, c) for e, c in enumerate(coarse)]
            _, written = timed(lambda: store(rows))
            coarse = np.unique(coarse, return_inverse=True)[1]
            print(f"{head} {name} | {read:.2f} | {found:.2f} | {written:.2f} | {read + found + written:.2f} | | | {graph.modularity(coarse):.5f} | {levels} | "
                  f"{count or coarse.max() + 1:,} |", flush=True)


if __name__ == "__main__":
    main()
