#!/usr/bin/env python3
"""Answers what waits in the queue of a collection, by any service that has OpenAI's interface.

    export BASE_URL=http://localhost:11434/v1 CHAT_MODEL=llama3.1 EMBEDDING_MODEL=nomic-embed-text
    export API_KEY=...                                      # if the service wants one; rows whose model is not given are left
    python3 answer_queue.py kb "dbname=test"

Needs Python and psql. It takes pending rows of model_call a few at a time and commits each batch, so that it can be stopped at
any time, and several can run at once. CALL rag_refresh before plans the rows, CALL rag_refresh afterwards takes up the answers.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

# A refresh waits for rows that are taken, so a batch is small.
BATCH = 16
TAKE = """BEGIN;
SELECT coalesce(jsonb_agg(c), '[]') FROM (
    SELECT encode(key, 'hex') AS key, role, request FROM :"collection".model_call
    WHERE model = 'queue' AND status = 'pending' AND response IS NULL AND NOT stale
      AND CASE role WHEN 'embedder' THEN :'embedding' ELSE :'chat' END <> ''
    ORDER BY id LIMIT :batch FOR UPDATE SKIP LOCKED) c;
"""
WRITE = """UPDATE :"collection".model_call m
SET status = CASE WHEN a.error IS NULL THEN 'done' ELSE 'failed' END, response = a.response, error = a.error,
    attempts = m.attempts + (a.error IS NOT NULL)::int, finished_at = clock_timestamp()
FROM jsonb_to_recordset({}::jsonb) AS a (key text, response jsonb, error text) WHERE m.key = decode(a.key, 'hex');
COMMIT;
"""


def clean(value):
    """What a database cannot hold, left out: NUL characters and halves of surrogate pairs."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {clean(key): clean(inner) for key, inner in value.items()}
    return [clean(inner) for inner in value] if isinstance(value, list) else value


def literal(value):
    """JSON as an SQL literal: with no quote inside, nothing in it can end it."""
    return "'" + json.dumps(clean(value)).replace("'", "\\u0027") + "'"


def ask(call):
    """The answer to a row, or why there is none; nothing if the service cannot be reached."""
    kind, path = ("EMBEDDING_MODEL", "/embeddings") if call["role"] == "embedder" else ("CHAT_MODEL", "/chat/completions")
    body = json.dumps({"model": os.environ.get(kind), **call["request"]}).encode()
    headers = {"Content-Type": "application/json"}
    if "API_KEY" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["API_KEY"]
    request = urllib.request.Request(os.environ["BASE_URL"].rstrip("/") + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return {"key": call["key"], "response": json.load(reply)}
    except urllib.error.HTTPError as error:
        if error.code in (400, 413, 422):
            return {"key": call["key"], "error": f"status {error.code}"}
        print(f"the service answers status {error.code}", file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"the service cannot be used: {error}", file=sys.stderr)


def main():
    models = {name: os.environ.get(f"{name.upper()}_MODEL", "") for name in ("chat", "embedding")}
    if len(sys.argv) < 2 or "BASE_URL" not in os.environ or not any(models.values()):
        sys.exit(__doc__)
    collection, *database = sys.argv[1:]
    variables = {"collection": collection, "batch": BATCH, **models}
    command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
               *(part for name, value in variables.items() for part in ("-v", f"{name}={value}"))]
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8", "PGOPTIONS": "-c standard_conforming_strings=on"}
    psql = subprocess.Popen(command + database, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env=environment)
    done = 0
    with concurrent.futures.ThreadPoolExecutor(BATCH) as pool:
        while True:
            print(TAKE, file=psql.stdin, flush=True)
            calls = json.loads(psql.stdout.readline() or sys.exit("psql has ended"))
            if not calls:
                return print(f"{done} calls answered, nothing waits")
            answers = [answer for answer in pool.map(ask, calls) if answer]
            print(WRITE.format(literal(answers)), file=psql.stdin, flush=True)
            done += len(answers)
            if len(answers) < len(calls):
                psql.stdin.close()
                psql.wait()
                sys.exit(f"{done} calls answered; the rest stays pending")


if __name__ == "__main__":
    main()
