#!/usr/bin/env python3
"""Whether the leaves that RAPTOR puts into one cluster belong together: level-1 clusters against labels, by `builtin:hash` and `builtin:lsa`.

    make demo                                  (once: builds, installs and starts the private server)
    apt-get update -o Acquire::Languages=en    (once, on Debian or Ubuntu: fetches the descriptions of packages)
    python3 bench/clusters.py [FOLDER …]

The set of apt: synopsis and description of 5,000 packages, those with the smallest SHA-256, each text once; the label is the section. The set of
a FOLDER with passages.csv.gz (id, title, text): the passages whose title stands at two or more of them, without it; the label is the title.
A document is one leaf. Leaves alone in their cluster are left out.

purity: leaves that have the commonest label of their cluster. pairs: pairs of leaves of one cluster that have the same label; chance: such pairs
among all. AMI: adjusted mutual information of clusters and labels, 0 by chance, 1 for the same partition.
"""
import collections
import hashlib
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from learning import packages  # noqa: E402
from main_job import DATABASE, local, passages, psql  # noqa: E402

SAMPLE = 5_000
ONE_LEAF = """'{"leaf_tokens": 4000, "block_tokens": 8000, "inline_rows": 1000000}'"""


def described():
    """(text, section) of packages."""
    texts = {"\n\n".join([synopsis, *paragraphs]): section for _, section, synopsis, paragraphs in packages()}
    return sorted(texts.items(), key=lambda item: hashlib.sha256(item[0].encode()).digest())[:SAMPLE]


def titled(folder):
    """(text, title) of passages whose title repeats."""
    texts = {body: title for _, title, body, _ in passages(folder)}
    times = collections.Counter(texts.values())
    return [item for item in texts.items() if times[item[1]] > 1]


def clusters(embedder, items):
    """The cluster of each item, by its number, as the tree has it; none for one that is alone."""
    psql(f"DROP SCHEMA IF EXISTS kb CASCADE; SELECT rag_create('kb', 384, 'builtin:{embedder}', settings => {ONE_LEAF})")
    rows = "\n".join(f"{number}\t{local.copy_field(text)}\ttext" for number, (text, _) in enumerate(items))
    psql(f"COPY kb.document (source_key, body, format) FROM STDIN;\n{rows}\n\\.\n")
    psql("CALL rag_refresh('kb', steps => '{embed}')")
    psql("SELECT * FROM raptor_build('kb')")
    found = psql("SELECT c.parent_id, string_agg(d.source_key, ' ') FROM kb.node_child c JOIN kb.node p ON p.id = c.parent_id AND p.level = 1"
                 " JOIN kb.node n ON n.id = c.child_id AND n.level = 0 JOIN kb.document d ON d.id = n.document_id"
                 " GROUP BY 1 HAVING count(*) > 1")
    return {int(item): parent for parent, members in (row.split("|") for row in found.splitlines()) for item in members.split()}


def adjusted_mutual_information(u, v):
    """Vinh, Epps and Bailey, Information Theoretic Measures for Clusterings Comparison, JMLR 11 (2010): (MI - E) / (mean of entropies - E),
    E being the expected MI of two random partitions with these sizes (their equation 24a)."""
    n, log, factorial = len(u), math.log, [math.lgamma(i + 1) for i in range(len(u) + 1)]
    a, b = collections.Counter(u), collections.Counter(v)
    both = collections.Counter(zip(u, v))
    information = sum(x / n * log(n * x / (a[i] * b[j])) for (i, j), x in both.items())
    entropies = [-sum(x / n * log(x / n) for x in sizes.values()) for sizes in (a, b)]
    expected = 0.0
    for i, times_i in collections.Counter(a.values()).items():
        for j, times_j in collections.Counter(b.values()).items():
            fixed = factorial[i] + factorial[j] + factorial[n - i] + factorial[n - j] - factorial[n]
            for x in range(max(1, i + j - n), min(i, j) + 1):
                chance = math.exp(fixed - factorial[x] - factorial[i - x] - factorial[j - x] - factorial[n - i - j + x])
                expected += times_i * times_j * x / n * log(n * x / (i * j)) * chance
    return (information - expected) / (sum(entropies) / 2 - expected)


def pairs(sizes):
    return sum(size * (size - 1) // 2 for size in sizes)


def report(name, items):
    for embedder in ("hash", "lsa"):
        found = clusters(embedder, items)
        of_items = [(found[i], label) for i, (_, label) in enumerate(items) if i in found]
        members = collections.defaultdict(collections.Counter)
        for cluster, label in of_items:
            members[cluster][label] += 1
        labels = collections.Counter(label for _, label in of_items)
        purity = sum(max(of.values()) for of in members.values()) / len(of_items)
        same = sum(pairs(of.values()) for of in members.values()) / pairs(sum(of.values()) for of in members.values())
        chance = pairs(labels.values()) / pairs([len(of_items)])
        together = adjusted_mutual_information(*zip(*of_items))
        print(f"| {name} | builtin:{embedder} | {len(of_items)} | {len(labels)} | {len(members)} | {purity:.3f} | {same:.3f} | {chance:.3f}"
              f" | {together:.3f} |", flush=True)


def main():
    folders = [pathlib.Path(argument) for argument in sys.argv[1:]]
    if not all(folder.is_dir() for folder in folders):
        sys.exit(__doc__)
    local.start()
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {DATABASE}", "postgres")
    psql("CREATE EXTENSION pg_graphrag CASCADE")
    print("| set | embedder | leaves | labels | clusters | purity | pairs | chance | AMI |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    report("sections of packages", described())
    for folder in folders:
        report(folder.name, titled(folder))


if __name__ == "__main__":
    main()
