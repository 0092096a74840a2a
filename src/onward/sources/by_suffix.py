"""The source that a file's name means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from onward.errors import UsageError
from onward.sources.csv_file import csv
from onward.sources.files import FileSource
from onward.sources.jsonl import jsonl
from onward.sources.parquet import parquet

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_JSON_LINES = ("jsonl", "ndjson")
_PARQUET = ("parquet", "pq")


def by_suffix(path: str, key: Sequence[str], delimiter: str | None = None, encoding: str | None = None) -> FileSource:
    """A source of CSV, JSON Lines or Parquet, by the file's suffix; before it, `.gz` for what is compressed.

    `delimiter` and `encoding` are for CSV. Raises UsageError, DeclarationError.
    """
    suffix = PurePath(path.lower().removesuffix(".gz")).suffix.removeprefix(".")
    if suffix in _DELIMITERS:
        return csv(path, key, delimiter or _DELIMITERS[suffix], encoding or "utf-8")
    if delimiter is not None or encoding is not None:
        raise UsageError(f"{path} is no CSV file by its name; a delimiter and an encoding are for those")
    if suffix in _JSON_LINES:
        return jsonl(path, key)
    if suffix in _PARQUET:
        if path.lower().endswith(".gz"):
            raise UsageError(f"{path}: Parquet files are compressed already; decompress it")
        return parquet(path, key)
    choices = ", ".join(f".{name}" for name in ("csv", "tsv", *_JSON_LINES, "parquet"))
    raise UsageError(f"what is in {path} its name does not say; give it one of {choices} (all but Parquet also as .gz)")


def stem(path: str) -> str:
    """A file's name without its folder and suffixes: `tickets` of `data/tickets.csv.gz`."""
    name = PurePath(path).name
    return PurePath(name[:-3] if name.lower().endswith(".gz") else name).stem
