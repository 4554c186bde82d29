#!/usr/bin/env python3
"""Communities of graphs, side by side in one run: ours, igraph, leidenalg, graspologic-native and leiden-rs, on the same edges.

    python3 -m venv FOLDER
    FOLDER/bin/pip install numpy networkx igraph leidenalg graspologic-native==1.2.5
    FOLDER/bin/python bench/communities.py [--runs N] [FILE | FOLDER …]             (--help lists the rest)

numpy is needed, the others are left out where they are missing, which is said. leiden-rs 0.8.1 is a crate: a small program that runs it is
written into the target folder and built there by cargo, which fetches it once.

Graphs: planted ones, made from a seed, with about 85,000 and 850,000 edges, power-law degrees (exponent 2.5) and sizes of communities (1.5, from
20 to 1,000 nodes); mu is the share of an edge's ends that are put anywhere. Small known ones that networkx or igraph carries. Each FILE, or each
file of a FOLDER: lines `node node [weight]` between spaces, tabs or commas, .gz or not, # before what is no edge; nodes are numbers or
words. Parallel edges are summed, loops left out; negative weights are dropped, and their number is told.

Methods, all by modularity at resolution 1 and on one thread, each run with a seed of its own:
ours: crates/network/examples/communities.rs. igraph: community_leiden, 2 iterations (its default and leidenalg's), and until stable.
leidenalg: 2 iterations. graspologic: leiden as it comes (1 iteration). leiden-rs: as it comes, without its parallel feature.
hierarchy: what is divided further until no community has more than 10 nodes (graspologic: at least 10), as GraphRAG does.

Each method runs in a process of its own, that has read the graph before. build: CPU seconds for making the graph of the method's kind of what
was read, not counted in the others (graspologic has none of its own: it is the list of its edges). CPU: median and fastest, in seconds. MB:
greatest resident memory less that before the first run. Q: mean modularity of the coarsest level over the runs, counted here for all alike;
worst: of one run. k: mean number of communities; NMI: against the planted ones, the mean. all: communities of all levels of the last run.
"""
import argparse
import gzip
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MANIFEST = """[package]
name = "leiden-rs-peer"
version = "0.0.0"
edition = "2024"

[dependencies]
leiden-rs = { version = "=0.8.1", default-features = false }

[profile.release]
lto = "fat"
codegen-units = 1

[workspace]
"""
# What stands around the calls is that of our example.
BUILD = """    let mut builder = leiden_rs::GraphDataBuilder::new(nodes as usize);
    for &(u, v, weight) in &edges {
        builder.add_edge(u as usize, v as usize, f64::from(weight)).expect("an edge");
    }
    let graph = builder.build().expect("a graph");
"""
RUN = """        let config = leiden_rs::LeidenConfig::builder().seed(seed).build();
        let found = leiden_rs::Leiden::new(config).run(&graph).expect("an answer");
        times.push(format!("{:.6}", clock() - started));
        peak = peak.max(memory("VmHWM"));
        let words: Vec<String> = found.partition.as_slice().iter().map(usize::to_string).collect();
"""


# --- Graphs ---

class Graph:
    def __init__(self, name, edges, weights, labels=None):
        """Edges as pairs of numbers of nodes, each once, and a number for each node where its community is known."""
        self.name, self.labels = name, labels
        self.nodes = int(edges.max(initial=-1)) + 1
        edges, weights = edges[edges[:, 0] != edges[:, 1]], weights[edges[:, 0] != edges[:, 1]]
        pairs = np.sort(edges, axis=1)
        self.edges, places = np.unique(pairs, axis=0, return_inverse=True)
        self.weights = np.bincount(places.ravel(), weights, len(self.edges))

    def write(self, path):
        with open(path, "w") as file:
            file.writelines(f"{u} {v} {w:.9g}\n" for (u, v), w in zip(self.edges.tolist(), self.weights.tolist()))

    def modularity(self, labels):
        u, v = self.edges.T
        twice = 2 * self.weights.sum()
        inside = self.weights[labels[u] == labels[v]].sum()
        degrees = np.bincount(labels[u], self.weights, labels.max() + 1) + np.bincount(labels[v], self.weights, labels.max() + 1)
        return 2 * inside / twice - ((degrees / twice) ** 2).sum() if twice else 0.0


def planted(nodes, mu, seed, mean_degree=20):
    """A graph with communities: its edges, and the community of each node."""
    rng = np.random.default_rng([nodes, int(1000 * mu), seed])

    def power_law(count, exponent, low, high):
        a = 1 - exponent
        return (low ** a + rng.random(count) * (high ** a - low ** a)) ** (1 / a)

    sizes = power_law(nodes, 1.5, 20, 1_000).astype(int)
    label = np.repeat(np.arange(nodes), sizes)[:nodes][rng.permutation(nodes)]
    degrees = power_law(nodes, 2.5, mean_degree / 2.5, 1_000)
    degrees = np.maximum(1, degrees * mean_degree / degrees.mean()).astype(int)
    ends = rng.permutation(np.repeat(np.arange(nodes), degrees))
    is_outer = rng.random(len(ends)) < mu
    outer, inner = ends[is_outer], ends[~is_outer]
    inner = inner[np.argsort(label[inner], kind="stable")]
    # Neighbours in the list make an edge; what is left over at the end of a community meets the next one.
    edges = np.concatenate([part[:len(part) // 2 * 2].reshape(-1, 2) for part in (outer, inner)])
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    numbers, places = np.unique(edges, return_inverse=True)
    return places.reshape(-1, 2), label[numbers]


def known():
    """The small graphs that a package carries."""
    if importlib.util.find_spec("networkx"):
        import networkx
        makers = {"karate": networkx.karate_club_graph, "lesmis": networkx.les_miserables_graph, "davis": networkx.davis_southern_women_graph,
                  "florentine": networkx.florentine_families_graph}
        for name, make in makers.items():
            graph = make()
            place = {node: number for number, node in enumerate(graph)}
            rows = [(place[u], place[v], 1 if name == "karate" else weight) for u, v, weight in graph.edges(data="weight", default=1)]
            yield Graph(name, np.array([row[:2] for row in rows]), np.array([row[2] for row in rows], float))
    elif importlib.util.find_spec("igraph"):
        import igraph
        for name in ("Zachary", "Krackhardt_Kite", "Meredith", "Tutte"):
            edges = np.array(igraph.Graph.Famous(name).get_edgelist())
            yield Graph(name.lower(), edges, np.ones(len(edges)))


def of_file(path):
    opener = gzip.open if path.suffix == ".gz" else open
    place, edges, weights, dropped, skipped = {}, [], [], 0, 0
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = re.split(r"[,\s]+", line.split("#")[0].strip())
            try:
                weight = float(words[2]) if len(words) > 2 and words[2] else 1.0
            except ValueError:
                weight = float("nan")
            if len(words) < 2 or not words[1] or not np.isfinite(weight):
                skipped += bool(words[0])
            elif weight < 0:
                dropped += 1
            # A node with a loop alone is none: not every peer takes it.
            elif words[0] != words[1]:
                edges.append([place.setdefault(node, len(place)) for node in words[:2]])
                weights.append(weight)
    if dropped or skipped:
        print(f"{path.name}: dropped {dropped:,} edges of negative weight, and {skipped:,} lines that are no edges.", file=sys.stderr)
    return Graph(path.name, np.array(edges, int).reshape(-1, 2), np.array(weights))


# --- Peers, each in a process of its own ---

def igraph_of(edges, weights):
    import igraph
    graph = igraph.Graph(n=int(edges.max()) + 1, edges=edges)
    graph.es["weight"] = weights
    return graph


def igraph_leiden(iterations):
    def run(graph, seed):
        import igraph
        import random
        random.seed(seed)
        igraph.set_random_number_generator(random)
        return graph.community_leiden("modularity", weights="weight", n_iterations=iterations).membership
    return igraph_of, run


def leidenalg_of(graph, seed):
    import leidenalg
    return leidenalg.find_partition(graph, leidenalg.ModularityVertexPartition, weights="weight", n_iterations=2, seed=seed).membership


def tuples(edges, weights):
    return [(str(u), str(v), w) for (u, v), w in zip(edges.tolist(), weights.tolist())]


def graspologic_leiden(edges, seed):
    import graspologic_native
    return graspologic_native.leiden(edges, seed=seed)[1]


def graspologic_hierarchy(edges, seed):
    import graspologic_native
    return graspologic_native.hierarchical_leiden(edges, max_cluster_size=10, use_modularity=True, seed=seed)


# Package, how its graph is made, how it is run, and the number of edges up to which it is.
PEERS = {
    "igraph": ("igraph", *igraph_leiden(2)),
    "igraph, until stable": ("igraph", *igraph_leiden(-1)),
    "leidenalg": ("leidenalg", igraph_of, leidenalg_of),
    "graspologic": ("graspologic_native", tuples, graspologic_leiden),
    "graspologic, hierarchy": ("graspologic_native", tuples, graspologic_hierarchy),
}
# It takes minutes beyond.
SLOW = {"leidenalg": 300_000}
METHODS = ["ours", "leiden-rs", "igraph", "igraph, until stable", "leidenalg", "graspologic", "ours, hierarchy", "graspologic, hierarchy"]


def labels_of(answer, nodes):
    """Labels of the coarsest level, the levels and the communities in all of them, of whatever a peer answers."""
    if isinstance(answer, list) and answer and hasattr(answer[0], "cluster"):
        coarse = {row.node: row.cluster for row in answer if row.level == 0}
        return labels_of(coarse, nodes)[0], max(row.level for row in answer) + 1, len({row.cluster for row in answer})
    if isinstance(answer, dict):
        # Nodes without an edge are not told: each stands alone.
        answer = [answer.get(str(node), len(answer) + node) for node in range(nodes)]
    return answer, 1, 0


def status(name):
    return int(re.search(rf"{name}:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])


def run_peer(name, file, nodes, seed, runs, path):
    """The process of a peer: does what our example does."""
    package, build, run = PEERS[name]
    importlib.import_module(package)
    table = np.loadtxt(file, ndmin=2)
    edges, weights = table[:, :2].astype(int), table[:, 2]
    del table
    started = time.process_time()
    graph = build(edges, weights)
    made = time.process_time() - started
    del edges, weights
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = peak = status("VmRSS")
    times, lines = [], []
    for seed in range(seed, seed + runs):
        started = time.process_time()
        answer = run(graph, seed)
        times.append(time.process_time() - started)
        peak = max(peak, status("VmHWM"))
        labels, levels, count = labels_of(answer, nodes)
        lines.append(" ".join(map(str, labels)))
    pathlib.Path(path).write_text("\n".join(lines))
    print(json.dumps({"made": made, "times": times, "memory": peak - before, "levels": levels, "all": count}))


def built():
    """Programs of the methods that are not Python, and why a method is left out."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "graphrag-network", "--example", "communities"], check=True, cwd=ROOT)
    ours = TARGET / "release" / "examples" / "communities"
    programs = {"ours": [ours, "leiden"], "ours, hierarchy": [ours, "hierarchy"]}
    missing = {name: "is not installed" for name, (package, *_) in PEERS.items() if not importlib.util.find_spec(package)}
    folder = TARGET / "leiden-rs-peer"
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(MANIFEST)
    source = (ROOT / "crates/network/examples/communities.rs").read_text()
    source = re.sub(r"(?m)^use graphrag_network.*\n", "", source)
    source = re.sub(r"(?m)^    let graph = Graph::new.*\n", lambda _: BUILD, source)
    source = re.sub(r"(?m)^    let newman.*\n", "    let (levels, all) = (1, 0);\n    assert_eq!(method, \"leiden\");\n", source)
    source = source.replace("let (mut levels, mut all, mut peak) = (1, 0, before)", "let mut peak = before")
    source = re.sub(r"(?s)        let mut found = Vec::new.*?(?=        lines \+=)", lambda _: RUN, source)
    (folder / "src" / "main.rs").write_text(source)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target")}
    if subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=folder, env=environment).returncode == 0:
        programs["leiden-rs"] = [folder / "target" / "release" / "leiden-rs-peer", "leiden"]
    else:
        missing["leiden-rs"] = "could not be built"
    return programs, missing


# --- Measures ---

def entropy(counts):
    share = counts / counts.sum()
    return -(share * np.log(share)).sum()


def nmi(a, b):
    """Normalised mutual information, by the mean of the entropies."""
    each = [entropy(np.unique(labels, return_counts=True)[1]) for labels in (a, b)]
    both = entropy(np.unique(np.stack([a, b]), axis=1, return_counts=True)[1])
    return 2 * (sum(each) - both) / sum(each) if sum(each) else 1.0


def measure(graph, file, name, programs, runs, folder):
    """The cells of a line."""
    path = pathlib.Path(folder) / "labels"
    arguments = [file, str(graph.nodes), "1", str(runs), path]
    if name in programs:
        program, method = programs[name]
        command = [program, *arguments[:2], method, *arguments[2:]]
    else:
        command = [sys.executable, __file__, "--peer", name, *arguments]
    one = {variable: "1" for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")}
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **one}).stdout)
    found = [np.unique(np.array(line.split(), int), return_inverse=True)[1] for line in path.read_text().splitlines()]
    q = [graph.modularity(labels) for labels in found]
    truth = "" if graph.labels is None else f"{statistics.mean(nmi(labels, graph.labels) for labels in found):.4f}"
    times = told["times"]
    return [f"{told['made']:.3f}", f"{statistics.median(times):.4g}", f"{min(times):.4g}", f"{told['memory'] / 1024:.1f}", f"{statistics.mean(q):.5f}",
            f"{min(q):.5f}", f"{statistics.mean(labels.max() + 1 for labels in found):,.0f}", truth, f"{told['all']:,}" if told["all"] else ""]


def main():
    if sys.argv[1:2] == ["--peer"]:
        name, file, nodes, seed, runs, path = sys.argv[2:]
        run_peer(name, file, int(nodes), int(seed), int(runs), path)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the planted graphs")
    parser.add_argument("--planted", default="10000:0.3,10000:0.5,100000:0.3", help="nodes:mu,…; none if empty")
    parser.add_argument("--methods", default=";".join(METHODS), help="some of: " + "; ".join(METHODS))
    parser.add_argument("--no-known", action="store_true", help="without the small known graphs")
    parser.add_argument("places", nargs="*", type=pathlib.Path, metavar="FILE or FOLDER")
    options = parser.parse_args()
    wanted = [method.strip() for method in options.methods.split(";")]
    if unknown := set(wanted) - set(METHODS):
        parser.error(f"unknown methods: {', '.join(unknown)}")

    programs, missing = built()
    for name in wanted:
        if name in missing:
            print(f"{name} {missing[name]}, and is left out.")
    print(f"runs: {options.runs}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    makers = [] if options.no_known else [lambda graph=graph: graph for graph in known()]
    for word in filter(None, options.planted.split(",")):
        nodes, mu = word.split(":")

        def make(nodes=int(nodes), mu=float(mu)):
            edges, labels = planted(nodes, mu, options.seed)
            return Graph(f"planted {nodes:,}, mu {mu}", edges, np.ones(len(edges)), labels)
        makers.append(make)
    for place in options.places:
        makers += [lambda file=file: of_file(file) for file in (sorted(filter(pathlib.Path.is_file, place.iterdir())) if place.is_dir() else [place])]

    columns = ["build", "CPU", "fastest", "MB", "Q", "worst", "k", "NMI", "all"]
    print(f"| graph | edges | method | {' | '.join(columns)} |\n| --- | ---: | --- {'| ---: ' * len(columns)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for make in makers:
            graph = make()
            if not len(graph.edges):
                print(f"{graph.name} has no edges, and is left out.", file=sys.stderr)
                continue
            file = pathlib.Path(folder) / "edges"
            graph.write(file)
            for name in wanted:
                if name not in missing and len(graph.edges) <= SLOW.get(name, len(graph.edges)):
                    cells = measure(graph, file, name, programs, options.runs, folder)
                    print(f"| {graph.name} | {len(graph.edges):,} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
