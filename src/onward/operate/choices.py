"""Which records are meant: keys as people type them, files of keys or of corrected records, filters."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from onward.codec import canonical_key, dumps, loads
from onward.errors import OutputError, UsageError
from onward.ports.desk import Desk

AT_ONCE = 500
SHOWN = 5
LONGEST_SHOWN = 100
_STRUCTURED = ('"', "[", "{")


class Typed(str):
    """A key as a person typed it: plain text for text and integers, JSON for the rest, or `{"key": …}`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records an act is for; what is given has to hold together.

    `keys`: JSON values (7 is not "7"), or `Typed`. `from_file`: a file of them, `-` for standard input: plain text or
    JSON, or objects with a `key`, one a line. `all`: every record that the act is for.
    """

    keys: tuple[Any, ...] = ()
    from_file: str | Path | None = None
    all: bool = False
    kind: str | None = None
    step: str | None = None
    stale: bool = False
    dry_run: bool = False

    @property
    def names_records(self) -> bool:
        return bool(self.keys) or self.from_file is not None


@dataclass(frozen=True, slots=True)
class Entry:
    """A record that was named. `where`: the line that did; `value`: JSON text of the input given for it."""

    key: Any
    where: str = ""
    value: str | None = None


def numbers(desk: Desk, instance: int, entries: Iterable[Entry]) -> Iterator[tuple[int, Entry]]:
    """Each entry with its record's number. Raises UsageError that names the first unknown or ambiguous ones."""
    source = iter(entries)
    while some := list(islice(source, AT_ONCE)):
        readings = [_readings(entry) for entry in some]
        found = desk.find(instance, {key for choices in readings for group in choices for key in group})
        unknown: list[Entry] = []
        for entry, choices in zip(some, readings, strict=True):
            number = _one(entry, choices, found)
            if number is None:
                unknown.append(entry)
            else:
                yield number, entry
        if unknown:
            shown = ", ".join(f"{_shown(entry.key)}{entry.where and f' ({entry.where})'}" for entry in unknown[:SHOWN])
            more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
            raise UsageError(f"there is no record with the key {shown}{more}")


def one_record(desk: Desk, instance: int, key: Any) -> int:
    """The number of the record with this key. Raises UsageError."""
    return next(numbers(desk, instance, [Entry(key)]))[0]


def _one(entry: Entry, choices: list[list[str]], found: dict[str, int]) -> int | None:
    for group in choices:
        there = [key for key in group if key in found]
        if len(there) > 1:
            exact = " or ".join(f"'{_exact(key)}'" for key in there)
            raise UsageError(f"{entry.key} may mean {' or '.join(there)}, and both are there; give JSON: {exact}")
        if there:
            return found[there[0]]
    return None


def _exact(key: str) -> str:
    """A form that means this key and no other."""
    return key if key.startswith(_STRUCTURED) else f'{{"key":{key}}}'


def _readings(entry: Entry) -> list[list[str]]:
    """Canonical keys that an entry may mean: the first group in which one exists decides."""
    key = entry.key
    try:
        if not isinstance(key, Typed):
            return [[canonical_key(key)]]
        text = str(key)
        plain = canonical_key(text)
        value = _json(text)
        if isinstance(value, dict):
            return [[canonical_key(value.get("key"))], [plain]]
        if isinstance(value, str | list):
            return [[canonical_key(value)], [plain]]
        if type(value) is int and str(value) == text:
            return [[plain, text]]
        return [[plain]]
    except ValueError as error:
        at = f"{entry.where}: " if entry.where else ""
        raise UsageError(f"{at}{_shown(key)} is no key: {error}") from None


def _json(text: str) -> Any:
    if text.startswith(_STRUCTURED) or text.lstrip("-").isdigit():
        try:
            return loads(text)
        except ValueError:
            return None
    return None


def _shown(key: Any) -> str:
    text = repr(str(key)) if isinstance(key, str) else repr(key)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


@contextmanager
def readable_twice(path: str | Path) -> Iterator[IO[bytes]]:
    """A file of keys, which is read once to check it and once to act on it; standard input is copied aside."""
    if str(path) == "-":
        with tempfile.SpooledTemporaryFile(max_size=1 << 20) as copy:
            for block in iter(lambda: sys.stdin.buffer.read(1 << 16), b""):
                copy.write(block)
            yield copy
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed below; only a fault of opening has its words here
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    with file:
        yield file


# What `export` and `failures --json` write; such lines can be given back as they are.
_LINE_FIELDS = {
    "key",
    "vanished",
    "input",
    "outputs",
    "state",
    "versions",
    "generation",
    "step",
    "kind",
    "error",
    "error_type",
    "attempts",
    "deaths",
    "failed_runs",
    "at",
    "waiting",
    "received",
}


def entries_of(file: IO[bytes], name: str, check: Callable[[Entry, Any], None] | None) -> Iterator[Entry]:
    """The records that the lines of a file name, from its start.

    `check` is called for lines that give an input, with its plain value; without it inputs are not looked at.
    """
    for text, where in lines_of(file, name):
        yield _object(text, where, check) if text.lstrip().startswith("{") else Entry(Typed(text), where)


def lines_of(file: IO[bytes], name: str) -> Iterator[tuple[str, str]]:
    """The lines of a file that are not empty, from its start, each with its place. Raises UsageError."""
    file.seek(0)
    for number, line in enumerate(file, 1):
        where = f"{name}:{number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
        except UnicodeDecodeError:
            raise UsageError(f"{where}: not UTF-8") from None
        if text.strip():
            yield text, where


def _object(text: str, where: str, check: Callable[[Entry, Any], None] | None) -> Entry:
    """A line as `export` and `failures --json` write them."""
    try:
        given = loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or "key" not in given:
        raise UsageError(f'{where}: neither a key nor a JSON object with a "key"')
    strange = [field for field in given if field not in _LINE_FIELDS]
    if strange:
        raise UsageError(
            f"{where}: the field {strange[0]!r} stands beside the key, so that a correction would be lost; "
            'a corrected record is {"key": …, "input": {…}}, as `export --state quarantined` writes it'
        )
    if check is None or given.get("input") is None:
        return Entry(given["key"], where)
    try:
        entry = Entry(given["key"], where, dumps(given["input"]))
    except OutputError as error:
        raise UsageError(f"{where}: {error}") from None
    check(entry, given["input"])
    return entry


def given_keys(keys: Sequence[Any]) -> list[Entry]:
    return [Entry(key) for key in keys]
