#!/usr/bin/env python3
"""What `builtin:lsa` costs: cutting, learning, re-embedding, the table of terms, a query, and documents that come later.

    make demo                                  (once: builds, installs and starts the private server)
    apt-get update -o Acquire::Languages=en    (once, on Debian or Ubuntu: fetches the descriptions of packages)
    python3 bench/learning.py [N …] [FOLDER]   (1000, 10000 and 100000 documents)

A document is the synopsis of a package with one paragraph of its description, each text once, in the order of their SHA-256. Where apt has no
long descriptions, it is the name and the synopsis alone. With FOLDER, documents are its passages.csv.gz (id, title, text), or its .md, .txt
and .html files. Where there are fewer than N, all are taken.

CALL rag_refresh is done by hand, so that each round counts for its step. CPU seconds are those of the backend with its threads, from
/proc/self/stat; the peak is VmHWM of /proc/self/status, shared buffers that it touched included. To measure a release build:
make install PG_CONFIG=… with the pg_config of the private server.
"""
import hashlib
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from main_job import DATABASE, local, passages, psql  # noqa: E402

FURTHER = 10_000
QUERIES = 200
CPU = "(SELECT (s[12]::float8 + s[13]::float8) / 100 FROM string_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '^.*\\) ', ''), ' ') s)"
PEAK = "(SELECT substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\\s+(\\d+)')::int / 1024)"
# The rounds of a refresh, each under the name of what it did.
ROUNDS = f"""
CREATE TEMP TABLE round (step text, began timestamptz, ended timestamptz, cpu float8, peak int);
DO $$
DECLARE
    began timestamptz; cpu float8; more bool := true; pending bool; was bool; taught bool; step text := 'cut';
BEGIN
    PERFORM _refresh_start('kb', NULL, '{{embed}}');
    WHILE more LOOP
        SELECT EXISTS (SELECT FROM kb.change WHERE "table" = 'document') INTO pending;
        began := clock_timestamp(); cpu := {CPU};
        more := _refresh_round('kb');
        COMMIT;
        SELECT EXISTS (SELECT FROM kb.setting WHERE key = 'lsa' AND (value ->> 'leaves')::bigint > 0) INTO taught;
        IF taught AND step = 'learn' THEN step := 're-embed'; END IF;
        INSERT INTO round VALUES (step, began, clock_timestamp(), {CPU} - cpu, {PEAK});
        IF step = 're-embed' THEN step := 'index'; END IF;
        IF step = 'cut' AND NOT pending AND was THEN step := 'learn'; END IF;
        was := coalesce(was, false) OR pending;
    END LOOP;
END $$;
SELECT step, count(*), sum(extract(epoch FROM ended - began))::numeric(12,2), sum(cpu)::numeric(12,2), max(peak)
FROM round GROUP BY 1 ORDER BY min(began);
"""


def folded(paragraph):
    """The lines of a paragraph as they come in control files, without the indent."""
    return "\n".join(line.strip() for line in paragraph.splitlines()).strip()


def packages():
    """(name, section, synopsis, paragraphs) of the packages that apt knows."""
    command = ["apt-get", "indextargets", "-o", "Acquire::Languages=en", "--format", "$(FILENAME)", "Created-By: Translations"]
    files = [name for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n") if name]
    long = {}
    for file in files:
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", file], check=True, capture_output=True, text=True).stdout
        for record in text.split("\n\n"):
            found = re.search(r"^Description-md5: (\S+)\nDescription-en: (.*(?:\n .*)*)", record, re.M)
            if found:
                long[found[1]] = found[2]
    text = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    seen = set()
    for record in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Section|Description|Description-md5): (.*)", record, re.M))
        if fields.get("Package", "") in seen or "Description" not in fields:
            continue
        seen.add(fields["Package"])
        synopsis, _, rest = long.get(fields.get("Description-md5"), fields["Description"]).partition("\n")
        paragraphs = [folded(part) for part in re.split(r"^ \.$", rest, flags=re.M)]
        yield fields["Package"], fields.get("Section", "").split("/")[-1], synopsis, [part for part in paragraphs if part]


def canonical(texts):
    return sorted(set(texts), key=lambda text: hashlib.sha256(text.encode()).digest())


def corpus(folder):
    """The texts in canonical order, and what they are."""
    if folder:
        return canonical(f"{title}\n{body}".strip() for _, title, body, _ in passages(folder)), f"texts of {folder.name}"
    known = list(packages())
    if any(paragraphs for *_, paragraphs in known):
        return canonical(f"{synopsis}\n\n{part}" for _, _, synopsis, paragraphs in known for part in paragraphs), "paragraphs of descriptions"
    return canonical(f"{name}: {synopsis}" for name, _, synopsis, _ in known), "synopses, since apt has no long descriptions"


def installed():
    """Which build is installed."""
    library = (local.pg_config("--pkglibdir") / "pg_graphrag.so").read_bytes()
    for build, file in (("release", local.TARGET / "release"), ("development", local.TARGET / "debug")):
        path = file / "libpg_graphrag.so"
        if path.exists() and path.read_bytes() == library:
            return build
    return "another"


def copy(table, texts):
    psql(f"COPY {table} FROM STDIN;\n" + "\n".join(map(local.copy_field, texts)) + "\n\\.\n")


def line(*columns):
    print(f"| {' | '.join(map(str, columns))} |", flush=True)


def timed(name, sql, count, finish="COMMIT"):
    """Runs a statement in a session and a transaction of its own; `finish` may roll it back."""
    answer = psql(f"BEGIN; SELECT clock_timestamp() AS began, {CPU} AS cpu \\gset\n{sql}\n"
                  f"SELECT extract(epoch FROM clock_timestamp() - :'began')::numeric(12,2), ({CPU} - :cpu)::numeric(12,2), {PEAK}; {finish};")
    seconds, cpu, peak = answer.splitlines()[-1].split("|")
    line(name, seconds, cpu, f"{count / float(seconds):,.0f}", peak)


def query_times(collection):
    """Microseconds of rag_embed and the distinct queries, in one session, from first to last."""
    times = psql("CREATE TEMP TABLE took (n int, t float8);"
                 "DO $$ DECLARE q record; b timestamptz; BEGIN FOR q IN SELECT n, body FROM query ORDER BY n LOOP b := clock_timestamp();"
                 f" PERFORM rag_embed('{collection}', q.body);"
                 " INSERT INTO took VALUES (q.n, extract(epoch FROM clock_timestamp() - b) * 1e6); END LOOP; END $$;"
                 "SELECT round(t) FROM took ORDER BY n")
    return [int(t) for t in times.split()]


def measure(texts, n, kind):
    taken, further = texts[:n], texts[n:n + FURTHER]
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", "postgres")
    psql(f"CREATE DATABASE {DATABASE}", "postgres")
    psql("""CREATE EXTENSION pg_graphrag CASCADE; SELECT rag_create('kb', 384, 'builtin:lsa', settings => '{"inline_rows": 0}');
         SELECT rag_create('plain', 384, 'builtin:hash', settings => '{"inline_rows": 1000000}');
         CREATE TABLE incoming (body text); CREATE TABLE further (body text); CREATE TABLE query (n serial, body text)""")
    copy("incoming", taken)
    copy("further", further)
    first = dict.fromkeys(text.split("\n")[0][:80] for text in further or taken)
    copy("query (body)", list(first)[:QUERIES])
    print(f"\n{len(taken):,} {kind}, {sum(map(len, taken)) / 1e6:.1f} million characters; {installed()} build;"
          f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    line("step", "seconds", "CPU seconds", "leaves a second", "peak MB")
    line(*["---"] * 5)
    psql("INSERT INTO kb.document (body, format) SELECT body, 'text' FROM incoming")
    rounds = [row.split("|") for row in psql(ROUNDS).splitlines()]
    leaves, rank = map(int, psql("SELECT count(*), (SELECT (value ->> 'rank')::int FROM kb.setting WHERE key = 'lsa') FROM kb.node").split("|"))
    names = {"cut": "cut, first vectors", "learn": "learn", "re-embed": "re-embed, write terms", "index": "build HNSW"}
    for step, _, seconds, cpu, peak in rounds:
        line(names[step], seconds, cpu, f"{leaves / max(float(seconds), 0.01):,.0f}", peak)
    line("all of CALL rag_refresh", *(f"{sum(float(row[at]) for row in rounds):.2f}" for at in (2, 3)),
         f"{leaves / sum(float(row[2]) for row in rounds):,.0f}", max(int(row[4]) for row in rounds))
    if further:
        psql("""SELECT rag_alter('kb', '{"inline_rows": 1000000}'); ANALYZE""")
        insert = "INSERT INTO {}.document (body, format) SELECT body, 'text' FROM further;"
        come = f"{len(further):,} documents come"
        drop = "DROP INDEX IF EXISTS {}.node_embedding;"
        timed(f"{come}, HNSW dropped", drop.format("kb") + insert.format("kb"), len(further), "ROLLBACK")
        timed(f"{come}, builtin:hash, HNSW dropped", drop.format("plain") + insert.format("plain"), len(further), "ROLLBACK")
        timed(f"{come}, HNSW stands", insert.format("kb"), len(further))
    terms, size, learned = psql("SELECT count(*), pg_size_pretty(pg_total_relation_size('kb.term')), count(vector) FROM kb.term").split("|")
    times, plain = query_times("kb"), query_times("plain")
    print(f"\n{leaves:,} leaves, rank {rank}; `term`: {int(terms):,} rows, {int(learned):,} with a vector, {size}.\n"
          f"rag_embed, {len(times)} distinct queries in a session: median {statistics.median(times):.0f} µs,"
          f" 95th percentile {sorted(times)[len(times) * 95 // 100]} µs, the first {times[0]} µs;"
          f" by builtin:hash: median {statistics.median(plain):.0f} µs.")


def main():
    sizes = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    folders = [pathlib.Path(argument) for argument in sys.argv[1:] if not argument.isdigit()]
    if len(folders) > 1 or not all(folder.is_dir() for folder in folders):
        sys.exit(__doc__)
    local.start()
    texts, kind = corpus(folders[0] if folders else None)
    print(f"{len(texts):,} {kind}")
    for n in sizes or [1_000, 10_000, 100_000]:
        if n > len(texts):
            print(f"\nThere are {len(texts):,} texts, not {n:,}: all are taken.")
        measure(texts, n, kind)


if __name__ == "__main__":
    main()
