#!/usr/bin/env python3
"""Lets a provider's batch service answer the queue of a collection, which often costs half of what single requests cost.

    python3 batch_file.py write kb chat gpt-4o-mini requests.jsonl "dbname=test"
    python3 batch_file.py write kb embeddings text-embedding-3-small requests.jsonl "dbname=test"
    python3 batch_file.py read kb output.jsonl "dbname=test"

Needs Python 3.10 and psql. `write` makes the input file of the Batch API of OpenAI from the pending rows of model_call: one request
a line, whose custom_id is the key of its row. `read` takes the output file and the error file, in any order, and again if need
be. CALL rag_refresh before plans the rows, CALL rag_refresh afterwards takes up the answers.
"""
import itertools
import json
import os
import subprocess
import sys

from answer_queue import literal

LINES = 200
WRITE = r"""SELECT jsonb_build_object('custom_id', encode(key, 'hex'), 'method', 'POST', 'url', :'url',
                          'body', request || jsonb_build_object('model', :'model'))
FROM :"collection".model_call
WHERE model = 'queue' AND status = 'pending' AND response IS NULL AND NOT stale AND (role = 'embedder') = :embeddings ORDER BY id;
"""
READ = """WITH answered AS (
    UPDATE :"collection".model_call m
    SET status = CASE WHEN a.error IS NULL THEN 'done' ELSE 'failed' END, response = a.response, error = a.error,
        attempts = m.attempts + (a.error IS NOT NULL)::int, finished_at = clock_timestamp()
    FROM jsonb_to_recordset({}::jsonb) AS a (key text, response jsonb, error text)
    WHERE m.key = decode(a.key, 'hex') AND m.status = 'pending' AND m.response IS NULL RETURNING 1)
SELECT count(*) FROM answered;
"""


def psql(sql, variables, database, output=subprocess.PIPE):
    command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
    for name, value in variables.items():
        command += ["-v", f"{name}={value}"]
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8", "PGOPTIONS": "-c standard_conforming_strings=on"}
    done = subprocess.run(command + database, input=sql, stdout=output, encoding="utf-8", env=environment)
    return done.stdout if done.returncode == 0 else sys.exit(done.returncode)


def answer(line):
    """The row of one line, or nothing if it says nothing of the request: an expired one stays pending."""
    result = json.loads(line)
    response = result.get("response") or {}
    status = response.get("status_code")
    if status == 200:
        return {"key": result["custom_id"], "response": response["body"]}
    return {"key": result["custom_id"], "error": f"status {status}"} if status in (400, 413, 422) else None


def main():
    match sys.argv[1:]:
        case ["write", collection, "chat" | "embeddings" as kind, model, path, *database]:
            url = "/v1/embeddings" if kind == "embeddings" else "/v1/chat/completions"
            variables = {"collection": collection, "model": model, "url": url, "embeddings": kind == "embeddings"}
            with open(path, "w", encoding="utf-8") as file:
                psql(WRITE, variables, database, file)
            with open(path, encoding="utf-8") as file:
                print(f"{sum(1 for _ in file)} requests in {path}")
        case ["read", collection, path, *database]:
            lines = written = 0
            with open(path, encoding="utf-8") as file:
                while part := list(itertools.islice(file, LINES)):
                    answers = [row for row in map(answer, part) if row]
                    written += int(psql(READ.format(literal(answers)), {"collection": collection}, database))
                    lines += len(part)
            print(f"{written} of {lines} answers taken; the others have expired, were there already, or are not asked for any more")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
