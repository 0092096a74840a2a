"""CSV with a header line. Every value is text, as long as it likes; a record may go on over several lines."""

from __future__ import annotations

import codecs
import csv as dialect
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import closing

import orjson

from onward.errors import DeclarationError, SourceError
from onward.model import BadLine, SourceRecord
from onward.ports.source import Validate
from onward.sources.files import FileSource
from onward.sources.keys import LINE_BITS, RecordMaker, key_fields
from onward.sources.lines import MAX_PIECE, Fingerprint, LineReader, Piece, fingerprint
from onward.sources.marks import Mark
from onward.sources.paths import File, Paths, PathSpec
from onward.sources.streams import Damaged

FIELD_LIMIT = 1 << 26
PIECE_BYTES = 1 << 20
_DELIMITERS = ",;\t|"


def csv(path: PathSpec, key: str | Sequence[str], delimiter: str = ",", encoding: str = "utf-8") -> FileSource:
    """Records from CSV files (`.gz`: decompressed) whose first line names the columns. `key` names the column, or
    columns, that identify a record.

    The value is an object of texts: `7`, `7.0` and `007` stay what they are. A column without a name is called
    `column N`. Raises DeclarationError.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DeclarationError(f'delimiter must be one character such as ";" or "\\t", not {delimiter!r}')
    return FileSource(Paths.of(path), CommaSeparated(key_fields(key), delimiter, _known_encoding(encoding)))


class CommaSeparated:
    """The format for `FileSource`."""

    unit = "line"

    def __init__(self, fields: tuple[str, ...], delimiter: str, encoding: str):
        self._fields = fields
        self._delimiter = delimiter
        self._encoding = encoding

    @property
    def key(self) -> tuple[str, ...]:
        """The fields that identify a record."""
        return self._fields

    @property
    def reads(self) -> str:
        return f"csv, key {json.dumps(self._fields)}, delimiter {self._delimiter!r}, encoding {self._encoding}"

    def check(self, file: File) -> None:
        self.columns(file)

    def fingerprint(self, file: File, length: int | None) -> Fingerprint:
        return fingerprint(file, length, self._encoding)

    def pieces(self, file: File, mark: Mark | None, validate: Validate | None) -> Iterator[Piece]:
        columns = self.columns(file)
        maker = RecordMaker(file.name, self._fields, validate)
        with closing(LineReader(file, mark, self._encoding)) as reader:
            rows = _Rows(reader, self._delimiter, columns)
            if mark is None or mark.line == 0:
                rows.header()
            yield from _Pieces(file.ordinal << LINE_BITS, rows, columns, maker).all()

    def columns(self, file: File) -> list[str]:
        """The names in the header. Raises SourceError."""
        with closing(LineReader(file, None, self._encoding)) as reader:
            rows = _Rows(reader, self._delimiter)
            try:
                header = rows.header()
            except (_BadRow, Damaged) as problem:
                raise SourceError(f"the header of {file.name} cannot be read: {problem}") from problem
        if not header:
            raise SourceError(f"{file.name} is empty: a CSV file begins with a line that names its columns")
        names = [name or f"column {number}" for number, name in enumerate(header, 1)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SourceError(f'{file.name} has two columns named "{twice}"; give each a name of its own')
        for field in self._fields:
            if field not in names:
                raise SourceError(_no_column(file.name, field, names, self._delimiter))
        return names


class _BadRow(Exception):
    """A row that cannot be read; the message is the reason."""


class _Rows:
    """Rows out of lines. `pending` are the bytes of the `lines` that were read and not yet taken; those from
    `row_start` on, `used` lines, made the last row."""

    def __init__(self, reader: LineReader, delimiter: str, columns: Sequence[str] = ()):
        if dialect.field_size_limit() < FIELD_LIMIT:
            dialect.field_size_limit(FIELD_LIMIT)
        self.reader = reader
        self.pending = bytearray()
        self.lines = 0
        self.row_start = 0
        self.used = 0
        self._undecodable = False
        self._delimiter = delimiter
        self._columns = columns
        self._parser = dialect.reader(self._texts(), delimiter=delimiter, strict=True)

    def _texts(self) -> Iterator[str]:
        for run in self.reader.runs():
            for line in io.BytesIO(run):
                self.pending += line
                try:
                    text = line.decode()
                except UnicodeDecodeError:
                    self._undecodable = True
                    text = line.decode("utf-8", "surrogateescape")
                yield text

    def next(self) -> list[str] | None:
        """The next row, empty for a blank line; None at the end. Raises _BadRow, and Damaged where nothing behind
        can be read either."""
        parser = self._parser
        before = parser.line_num
        self.row_start = len(self.pending)
        self._undecodable = False
        try:
            row = next(parser, None)
        except dialect.Error as error:
            one_line = parser.line_num - before == 1
            raise (self._huge_cell() if one_line else None) or _explained(str(error)) from error
        finally:
            self.used = parser.line_num - before
            self.lines += self.used
        if self._undecodable:
            raise _BadRow('it is not UTF-8; if the file has another encoding, name it, such as encoding="cp1252"')
        return [] if row and len(row) == 1 and row[0].isspace() else row

    def _huge_cell(self) -> _BadRow | None:
        """What to say of a row whose only fault is a cell beyond the limit: it ends with its line, so that the rows
        behind it can be read."""
        line = bytes(self.pending[self.row_start :]).decode("utf-8", "surrogateescape")
        before = dialect.field_size_limit(max(len(line), FIELD_LIMIT))
        try:
            [row] = dialect.reader([line], delimiter=self._delimiter, strict=True)
        except (dialect.Error, ValueError):
            return None
        finally:
            dialect.field_size_limit(before)
        sizes = [len(cell) for cell in row]
        size = max(sizes)
        if size <= FIELD_LIMIT or len(row) != len(self._columns):
            return None
        column = self._columns[sizes.index(size)]
        return _BadRow(f'its column "{column}" has {size:,} characters, a cell may have {FIELD_LIMIT:,}')

    def header(self) -> list[str]:
        """The first row that is not blank; empty if there is none."""
        while (row := self.next()) is not None:
            if row:
                return row
        return []

    def take(self, last_row: bool) -> int:
        """Hand the lines, those of the last row or not, to the track; returns their size."""
        size = len(self.pending) if last_row else self.row_start
        lines = self.lines if last_row else self.lines - self.used
        self.reader.track.take(bytes(self.pending[:size]), lines)
        del self.pending[:size]
        self.lines -= lines
        self.row_start = 0
        return size


class _Pieces:
    """The rows of one file on their way to records."""

    def __init__(self, base: int, rows: _Rows, columns: list[str], maker: RecordMaker):
        self._base = base
        self._rows = rows
        self._columns = columns
        self._width = len(columns)
        self._maker = maker
        self._records: list[SourceRecord] = []
        self._bad: list[BadLine] = []

    def all(self) -> Iterator[Piece]:
        rows, more = self._rows, True
        while more:
            try:
                row = rows.next()
                more = row is not None
                item = self._item(row) if row else None
            except _BadRow as problem:
                item = self._maker.bad(self._position(), str(problem), self._raw())
            except Damaged as damage:
                yield from self._damaged(str(damage))
                return
            if isinstance(item, SourceRecord):
                self._records.append(item)
            elif item is not None:
                if self._records and not self._bad:
                    yield self._piece(last_row=False)
                self._bad.append(item)
            if len(self._records) + len(self._bad) >= MAX_PIECE or len(rows.pending) >= PIECE_BYTES:
                yield self._piece()
        yield self._piece(ended=True)

    def _item(self, row: list[str]) -> SourceRecord | BadLine:
        position = self._position()
        if len(row) != self._width:
            return self._maker.bad(position, f"it has {len(row)} cells, the header has {self._width}", self._raw())
        value = dict(zip(self._columns, row, strict=False))
        text = orjson.dumps(value).decode()
        return self._maker.make(value, text, position)

    def _position(self) -> int:
        """Where the last row begins."""
        return self._base + self._rows.reader.track.line + self._rows.lines - self._rows.used + 1

    def _raw(self) -> str:
        return self._rows.pending[self._rows.row_start :].decode("utf-8", "backslashreplace").rstrip("\r\n")

    def _piece(self, last_row: bool = True, ended: bool = False) -> Piece:
        rows = self._rows
        size = rows.take(last_row)
        records, bad, self._records, self._bad = self._records, self._bad, [], []
        return Piece(records, bad, size, rows.reader.track.mark(ended))

    def _damaged(self, reason: str) -> Iterator[Piece]:
        bad = self._maker.bad(self._position(), reason, damage=True)
        yield self._piece(last_row=False)
        yield Piece([], [bad], 0, self._rows.reader.track.mark(), damaged=True)


def _explained(problem: str) -> Exception:
    if problem.startswith("unexpected end"):
        return Damaged("a cell begins with a quote that is not closed before the end of the file; is the file cut off?")
    if problem.startswith("field larger"):
        return Damaged(
            f"a cell is longer than {FIELD_LIMIT:,} characters, or begins with a quote that is never closed; "
            "nothing behind it was read"
        )
    if problem.startswith("new-line"):
        return _BadRow("it has a carriage return inside a cell without quotes; end lines with LF or CR LF")
    if "expected after" in problem:
        return _BadRow("text follows the quote that ends a cell; a quote inside a quoted cell is written twice")
    return _BadRow(problem)


def _no_column(name: str, field: str, names: list[str], delimiter: str) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:50]) + (", …" if len(names) > 50 else "")
    message = f'{name} has no column "{field}"; its columns are {shown}'
    near = [name for name in names if name.strip().casefold() == field.strip().casefold()]
    if near:
        return f'{message}. Did you mean "{near[0]}"?'
    other = next((mark for mark in _DELIMITERS if mark != delimiter and mark in names[0]), None)
    if len(names) == 1 and other:
        return f"{message}. If {other!r} is what separates them, pass delimiter={other!r}"
    return message


def _known_encoding(encoding: str) -> str:
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
    except LookupError:
        raise DeclarationError(f"encoding {encoding!r} is not known; utf-8, utf-16, cp1252, latin-1 are") from None
    return "utf-8" if name == "utf-8-sig" else name
