"""JSON Lines: one object a line, kept as the text that it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import orjson

from onward.codec import loads, may_lose_digits
from onward.model import BadLine, SourceRecord
from onward.ports.source import Validate
from onward.sources.files import FileSource
from onward.sources.keys import LINE_BITS, RecordMaker, key_fields
from onward.sources.lines import MAX_PIECE, Fingerprint, LineReader, Piece, fingerprint
from onward.sources.marks import Mark
from onward.sources.paths import File, Paths, PathSpec
from onward.sources.streams import Damaged, open_stream


def jsonl(path: PathSpec, key: str | Sequence[str]) -> FileSource:
    """Records from JSON Lines files (`.gz`: decompressed). `key` names the field, or fields, that identify a record.

    The value is the line's own text, so numbers keep every digit. Raises DeclarationError.
    """
    return FileSource(Paths.of(path), JsonLines(key_fields(key)))


class JsonLines:
    """The format for `FileSource`."""

    unit = "line"

    def __init__(self, fields: tuple[str, ...]):
        self._fields = fields

    @property
    def key(self) -> tuple[str, ...]:
        """The fields that identify a record."""
        return self._fields

    @property
    def reads(self) -> str:
        return f"jsonl, key {json.dumps(self._fields)}"

    def check(self, file: File) -> None:
        open_stream(file).close()

    def columns(self, file: File) -> list[str] | None:
        """The fields of the first record; None where the file does not begin with one."""
        with closing(LineReader(file, None)) as reader:
            try:
                first = next((line for run in reader.runs() for line in run.split(b"\n") if line.strip()), b"")
                value = loads(first.decode("utf-8-sig"))
            except (Damaged, ValueError):
                return None
        return list(value) if isinstance(value, dict) else None

    def fingerprint(self, file: File, length: int | None) -> Fingerprint:
        return fingerprint(file, length)

    def pieces(self, file: File, mark: Mark | None, validate: Validate | None) -> Iterator[Piece]:
        with closing(LineReader(file, mark)) as reader:
            lines = _Lines(file, reader, RecordMaker(file.name, self._fields, validate))
            try:
                for run in reader.runs():
                    yield from lines.pieces(run)
            except Damaged as damage:
                yield lines.damaged(damage)
                return
            yield Piece([], [], 0, reader.track.mark(ended=True))


class _Lines:
    """The lines of one file on their way to records."""

    def __init__(self, file: File, reader: LineReader, maker: RecordMaker):
        self._base = file.ordinal << LINE_BITS
        self._track = reader.track
        self._maker = maker

    @property
    def position(self) -> int:
        """Of the last line consumed."""
        return self._base + self._track.line

    def pieces(self, run: bytes) -> Iterator[Piece]:
        """The records of one run of lines. Each piece is made, and the track moved, only when it is asked for."""
        view = memoryview(run)
        lines = run.split(b"\n")
        if not lines[-1]:
            lines.pop()
        parse = _parse_exactly if may_lose_digits(run) else orjson.loads
        for part in _evenly(lines):
            while part:
                records, bad, used = self._records(part, parse)
                length = min(sum(map(len, part[:used])) + used, len(view))
                self._track.take(view[:length], used)
                view, part = view[length:], part[used:]
                yield Piece(records, bad, length, self._track.mark())

    def _records(
        self, lines: list[bytes], parse: Callable[[bytes], Any]
    ) -> tuple[list[SourceRecord], list[BadLine], int]:
        """Records, bad lines and the number of lines used: up to the end, or to a bad line that follows a record."""
        records: list[SourceRecord] = []
        bad: list[BadLine] = []
        quick, append, position = self._maker.quick, records.append, self.position
        for used, line in enumerate(lines):
            position += 1
            if quick is not None:
                try:
                    append(SourceRecord(quick(parse(line)), line.decode().strip(), position))
                    continue
                except Exception:
                    pass  # blank, bad or unusual: the careful way finds out
            item = self._carefully(line, position, parse)
            if isinstance(item, SourceRecord):
                append(item)
            elif item is not None:
                if records and not bad:
                    return records, [], used
                bad.append(item)
        return records, bad, len(lines)

    def _carefully(self, line: bytes, position: int, parse: Callable[[bytes], Any]) -> SourceRecord | BadLine | None:
        """One line; None if it is blank."""
        if not line.strip():
            return None
        try:
            text = line.decode().strip(" \t\r\n\ufeff")  # a BOM also begins each part of files put together
        except UnicodeDecodeError as error:
            return self._maker.bad(position, _not_utf8(error), line.decode("utf-8", "backslashreplace"))
        try:
            value = parse(line)
        except ValueError:
            try:
                value = loads(text)
            except ValueError as error:
                return self._maker.bad(position, _not_json(text, error, position == self._base + 1), text)
        return self._maker.make(value, text, position)

    def damaged(self, damage: Damaged) -> Piece:
        """The end of a file that has more than can be read."""
        bad = self._maker.bad(self.position + 1, str(damage), damage=True)
        return Piece([], [bad], 0, self._track.mark(), damaged=True)


def _evenly(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Parts of about the same size, none above MAX_PIECE."""
    parts = -(-len(lines) // MAX_PIECE)
    step = -(-len(lines) // parts)
    return (lines[start : start + step] for start in range(0, len(lines), step))


def _parse_exactly(line: bytes) -> Any:
    return loads(line) if may_lose_digits(line) else orjson.loads(line)


def _not_utf8(error: UnicodeDecodeError) -> str:
    if error.reason == "unexpected end of data":
        return "the line is cut off in the middle of a character"
    return f"the line is not UTF-8: byte {error.object[error.start]:#04x} at byte {error.start + 1} of the line"


def _not_json(text: str, error: ValueError, first: bool) -> str:
    if first and text.startswith("["):
        return "the file is one JSON array, not one object a line; convert it: jq -c '.[]' in.json > out.jsonl"
    if first and text == "{":
        return "the object goes on over several lines; JSON Lines has one a line: jq -c . in.json > out.jsonl"
    if not isinstance(error, json.JSONDecodeError):
        why = str(error) if "digits" not in str(error) else "it has a number of more than 4,300 digits"
        return f"the line is not JSON: {why}"
    if error.msg == "Extra data":
        return f"the line is not JSON: it goes on behind its end at character {error.pos + 1}"
    if error.msg.startswith("Unterminated string"):
        return f"the line is not JSON: it is cut off in the text that begins at character {error.pos + 1}"
    if error.pos >= len(text):
        return "the line is not JSON: it is cut off"
    return f"the line is not JSON: {error.msg.lower()} at character {error.pos + 1}"
