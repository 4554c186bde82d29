#!/usr/bin/env python3
"""Load a folder of documents into a pg_graphrag collection.

    python3 load.py --dsn "host=localhost dbname=test" --collection kb FOLDER
    python3 load.py --dry-run FOLDER

Each file is one document and one transaction. Its key is its path inside FOLDER, so a second run replaces what
changed. A file that can't be read without guessing is refused by name, the others are loaded, and the exit code is 1.
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

import mammoth
import psycopg
import pypdfium2
from bs4 import BeautifulSoup
from markdownify import markdownify
from psycopg import sql
from psycopg.types.json import Jsonb
from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

MIN_LETTERS = 20  # a PDF with fewer letters a page than this is taken for a scan
EDGE_LINES = 3  # so many lines at the top and bottom of a page may be running headers and footers


class Refused(Exception):
    """The file can't be loaded; the message says why and what to do."""


def warn(message):
    print(message, file=sys.stderr)


def decode(path):
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(
            f"not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}); find out its encoding "
            "and convert it, e.g. iconv -f WINDOWS-1252 -t UTF-8"
        ) from None


def markdown_title(body):
    without_code = re.sub(r"^(```|~~~).*?^\1", "", body, flags=re.M | re.S)
    heading = re.search(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t#]*$", without_code, re.M)
    return heading[1] if heading else None


# Each reader takes a path and returns (body, format for rag_add, title or None).


def read_markdown(path):
    body = decode(path)
    return body, "markdown", markdown_title(body)


def read_json(path):
    body = decode(path)
    if body.strip():
        try:
            json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refused(f"not valid JSON: {error}") from None
    return body, "json", None


def read_html(path):
    body = decode(path)
    soup = BeautifulSoup(body, "html.parser")
    if not soup.get_text(strip=True):
        raise Refused("holds no text")
    heading = soup.find(["h1", "h2", "h3", "h4", "h5", "h6"]) or soup.title
    return body, "html", heading and " ".join(heading.get_text(" ").split())


def read_docx(path):
    try:
        with path.open("rb") as file:
            html = mammoth.convert_to_html(file, style_map="p[style-name='Title'] => h1:fresh").value
    except Exception as error:  # whatever a damaged archive makes the library raise
        if path.read_bytes().startswith(b"\xd0\xcf\x11\xe0"):  # the container of .doc and of encrypted .docx files
            raise Refused("is encrypted or an old .doc; remove the password, or save it as .docx") from None
        raise Refused(f"not a readable .docx file ({type(error).__name__}: {error})") from None
    body = markdownify(
        html,
        heading_style="ATX",
        bullets="-",
        strip=["img"],
        table_infer_header=True,
        escape_asterisks=False,  # escapes would hide names and codes from an exact search
        escape_underscores=False,
    )
    body = re.sub(r"\n{3,}", "\n\n", body).strip() + "\n"
    return body, "markdown", markdown_title(body)


def read_pdf(path):
    pages, unread = [], []
    try:
        with pypdfium2.PdfDocument(path) as pdf:
            for number, page in enumerate(pdf, 1):
                text = page.get_textpage().get_text_bounded()
                text = re.sub(r"[\xad\ufffe\x02]\s*", "-\n", text)  # how PDFium writes a hyphen at a line's end
                pages.append([line.strip() for line in text.splitlines()])
                if letters(text) < MIN_LETTERS and any(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE])):
                    unread.append(number)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Refused("is encrypted; remove the password first, e.g. qpdf --decrypt") from None
        raise Refused(f"not a readable PDF ({error})") from None
    body = mend_hyphens("\n\n".join("\n".join(page).strip() for page in drop_running_lines(pages)))
    if letters(body) < MIN_LETTERS * len(pages):
        raise Refused(
            f"has almost no text ({letters(body)} letters on {len(pages)} pages), so it is probably scanned; "
            "recognise its text first, e.g. ocrmypdf in.pdf out.pdf"
        )
    if unread:
        warn(f"{path}: pages that are pictures without text are not in the document: {unread}")
    return body, "text", None


def letters(text):
    return sum(character.isalpha() for character in text)


def drop_running_lines(pages):
    """Removes from the top and bottom of each page the lines that most pages share, whatever number they hold."""

    def shape(line):
        return re.sub(r"\d+", "0", line)

    def edges(page):
        filled = [line for line in page if line]
        return {shape(line) for line in filled[:EDGE_LINES] + filled[-EDGE_LINES:]}

    seen = Counter(line for page in pages for line in edges(page))
    running = {line for line, count in seen.items() if len(pages) > 2 and count * 2 > len(pages)} | {""}
    for page in pages:
        for end in (0, -1):
            for _ in range(EDGE_LINES):
                if page and shape(page[end]) in running:
                    page.pop(end)
    return pages


def mend_hyphens(text):
    """Joins words that were split at the end of a line, and in small letters also at the end of a page.

    The hyphen stays before a capital or a digit (KX-40), and in a word that stands hyphenated elsewhere in the text.
    """
    hyphenated = set(re.findall(r"\w+-\w+", text))

    def join(match):
        left, gap, right = match.groups()
        if gap == "\n\n" and not right[0].islower():
            return match[0]
        keep = not (left[-1].isalpha() and right[0].islower()) or f"{left}-{right}" in hyphenated
        return f"{left}-{right}" if keep else left + right

    return re.sub(r"(\w+)-(\n{1,2})(\w+)", join, text)


READERS = {
    ".md": read_markdown,
    ".txt": lambda path: (decode(path), "text", None),
    ".html": read_html,
    ".csv": lambda path: (decode(path), "csv", None),
    ".json": read_json,
    ".pdf": read_pdf,
    ".docx": read_docx,
}


def read(path, key):
    """Returns the arguments of rag_add for one file, or raises Refused."""
    if not key.isprintable():
        raise Refused("its name is not UTF-8 or holds control characters; rename it")
    if path.stat().st_size == 0:
        raise Refused("is empty")
    body, format, title = READERS[path.suffix.lower()](path)
    if not body.strip():
        raise Refused("holds no text")
    if "\0" in body:
        raise Refused(f"holds a NUL byte (character {body.index(chr(0))}), which no text has; it is binary or damaged")
    folder, _, _ = key.rpartition("/")
    metadata = {"folder": folder, "file_type": path.suffix.lower()[1:]}
    return dict(body=body, title=title or path.stem, source_key=key, metadata=metadata, format=format)


def store(connection, collection, document):
    """Adds or replaces one document in its own transaction and tells whether anything changed."""
    fingerprint = sql.SQL(
        "SELECT sha256(convert_to(row(title, body, metadata, format)::text, 'UTF8')) FROM {} WHERE source_key = %s"
    ).format(sql.Identifier(collection, "document"))
    key = [document["source_key"]]
    with connection.transaction():
        before = connection.execute(fingerprint, key).fetchone()
        connection.execute(
            """SELECT rag_add(collection => %(collection)s, body => %(body)s, title => %(title)s,
                              source_key => %(source_key)s, metadata => %(metadata)s, format => %(format)s)""",
            {**document, "collection": collection, "metadata": Jsonb(document["metadata"])},
        )
        return connection.execute(fingerprint, key).fetchone() != before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dsn", default="", help='as for psql, e.g. "host=localhost dbname=test"')
    parser.add_argument("--collection", help="a collection that rag_create has made")
    parser.add_argument("--dry-run", action="store_true", help="print what would be loaded and connect to nothing")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder")
    if not options.dry_run and not options.collection:
        parser.error("--collection is missing")

    connection = None
    if not options.dry_run:
        try:
            connection = psycopg.connect(options.dsn, autocommit=True)
            connection.add_notice_handler(lambda notice: warn(f"{notice.severity}: {notice.message_primary}"))
            table = sql.Identifier(options.collection, "document")
            connection.execute(sql.SQL("SELECT source_key FROM {} LIMIT 0").format(table))
        except psycopg.Error as error:
            sys.exit(f"can't load into {options.collection}: {error}")

    counts, skipped = Counter(), Counter()
    for path in sorted(options.folder.rglob("*")):
        key = path.relative_to(options.folder).as_posix()
        if not path.is_file() or any(part.startswith((".", "~$")) for part in key.split("/")):
            continue
        if path.suffix.lower() not in READERS:
            skipped[path.suffix or path.name] += 1
            continue
        try:
            document = read(path, key)
            if connection:
                counts["loaded" if store(connection, options.collection, document) else "unchanged"] += 1
            else:
                body = document["body"]
                start = " ".join(body.split())[:80]
                print(f"{key}: {document['format']}, {document['title']!r}, {len(body)} characters, {start!r}")
                counts["to load"] += 1
        except (Refused, OSError, psycopg.Error) as error:
            if connection and connection.broken:
                sys.exit(f"the connection broke at {key}: {error}")
            warn(f"REFUSED {key!r}: {error}")
            counts["refused"] += 1

    kinds = ["to load", "refused"] if options.dry_run else ["loaded", "unchanged", "refused"]
    print(", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    if skipped:
        warn("skipped as of another kind: " + ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items())))
    if not counts:
        sys.exit("nothing to load in this folder")
    sys.exit(1 if counts["refused"] else 0)


if __name__ == "__main__":
    main()
