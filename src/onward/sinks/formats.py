"""Which format an export has."""

from __future__ import annotations

from pathlib import Path

from onward.errors import UsageError
from onward.ports.sink import Sink
from onward.sinks.csv import CsvSink
from onward.sinks.jsonl import JsonlSink
from onward.sinks.place import Place, is_standard_output

FORMATS = ("jsonl", "csv", "parquet")


def open_sink(path: str | Path, format: str | None = None, flat: bool = False) -> Sink:
    """The sink for one export. `-` is standard output; `.gz` compresses JSONL and CSV.

    The format is the one named, else that of the suffix, else JSONL. Nothing is touched before `write`.
    Raises UsageError for an unknown format, for Parquet without pyarrow, for `.parquet.gz`.
    """
    text = str(path)
    if not text:
        raise UsageError("--out is empty; give a file, or - for standard output")
    name = Path(text).name.lower()
    zipped = name.endswith(".gz") and not is_standard_output(text)
    chosen = (format or _by_suffix(name.removesuffix(".gz"))).lower()
    if chosen not in FORMATS:
        raise UsageError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    place = Place(text, zipped)
    if chosen == "csv":
        return CsvSink(place, flat)
    if chosen == "parquet":
        if zipped:
            raise UsageError(f"{text}: Parquet is compressed already; leave out .gz")
        from onward.sinks.parquet import ParquetSink  # brings decimal and, in the end, pyarrow

        return ParquetSink(place, flat)
    return JsonlSink(place, flat)


def unknown_suffix(path: str) -> str:
    """The suffix of a file's name that says no format, so that JSON Lines are written; empty where there is none."""
    suffix = "" if is_standard_output(path) else Path(path.lower().removesuffix(".gz")).suffix
    return "" if suffix.removeprefix(".") in ("", "ndjson", *FORMATS) else suffix


def _by_suffix(name: str) -> str:
    suffix = Path(name).suffix.removeprefix(".")
    return suffix if suffix in FORMATS else "jsonl"
