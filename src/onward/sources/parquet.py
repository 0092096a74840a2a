"""Parquet files, read in batches of rows. Needs pyarrow, which is loaded only when a file is opened."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import orjson

from onward.codec import dumps
from onward.errors import OutputError, SourceError
from onward.model import BadLine, SourceRecord
from onward.ports.source import Validate
from onward.sources.files import FileSource
from onward.sources.keys import LINE_BITS, RecordMaker, key_fields
from onward.sources.lines import MAX_PIECE, Fingerprint, Piece, bad_first
from onward.sources.marks import Mark, Stat, chained
from onward.sources.paths import File, Paths, PathSpec
from onward.sources.streams import CHUNK, Damaged, RawStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, RowGroupMetaData

PIECE_BYTES = 1 << 20


def parquet(path: PathSpec, key: str | Sequence[str]) -> FileSource:
    """Records from Parquet files. `key` names the column, or columns, that identify a record.

    Integers keep every digit, also beside nulls; dates, times, decimals and bytes are text (see
    `onward.sources.plain`); NaN is null. Raises DeclarationError.
    """
    return FileSource(Paths.of(path), ParquetRows(key_fields(key)))


class ParquetRows:
    """The format for `FileSource`. A mark counts rows; its digest covers the row groups that were begun."""

    unit = "row"

    def __init__(self, fields: tuple[str, ...]):
        self._fields = fields

    @property
    def key(self) -> tuple[str, ...]:
        """The fields that identify a record."""
        return self._fields

    @property
    def reads(self) -> str:
        return f"parquet, key {json.dumps(self._fields)}"

    def check(self, file: File) -> None:
        self.columns(file)

    def columns(self, file: File) -> list[str]:
        """The names in the schema. Raises SourceError."""
        with _opened(file) as (_, parquet_file):
            names: list[str] = parquet_file.schema_arrow.names
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SourceError(f'{file.name} has two columns named "{twice}"; give each a name of its own')
        for field in self._fields:
            if field not in names:
                shown = ", ".join(f'"{name}"' for name in names[:50])
                raise SourceError(f'{file.name} has no column "{field}"; its columns are {shown}')
        return names

    def fingerprint(self, file: File, length: int | None) -> Fingerprint:
        with _opened(file) as (raw, parquet_file):
            total = parquet_file.metadata.num_rows
            length = total if length is None else length
            if total < length:
                return Fingerprint(raw.stat, None)
            digest = _beginning(parquet_file)
            for first, _, group in _groups(parquet_file):
                if first < length:
                    digest = _with_group(digest, raw, group)
            return Fingerprint(raw.stat, digest, b"more" if total > length else b"")

    def pieces(self, file: File, mark: Mark | None, validate: Validate | None) -> Iterator[Piece]:
        maker = RecordMaker(file.name, self._fields, validate)
        base = file.ordinal << LINE_BITS
        with _opened(file) as (raw, parquet_file):
            digest, done = (mark.digest, mark.offset) if mark else (_beginning(parquet_file), 0)
            try:
                for first, number, group in _groups(parquet_file):
                    if first + group.num_rows <= done:
                        continue
                    if first == done:
                        digest = _with_group(digest, raw, group)
                    for batch in _batches(parquet_file, number, group, skip=done - first):
                        for records, bad in bad_first(_items(batch, base + done, maker)):
                            done += len(records) + len(bad)
                            size = batch.nbytes * (len(records) + len(bad)) // batch.num_rows
                            yield Piece(records, bad, size, _mark(file, raw.stat, done, digest))
            except Damaged as damage:
                bad_row = maker.bad(base + done + 1, str(damage), damage=True)
                yield Piece([], [bad_row], 0, _mark(file, raw.stat, done, digest), damaged=True)
                return
            yield Piece([], [], 0, _mark(file, raw.stat, done, digest, ended=True))


@contextmanager
def _opened(file: File) -> Iterator[tuple[RawStream, ParquetFile]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise SourceError('reading Parquet needs pyarrow: pip install "onward[parquet]"') from error
    with closing(RawStream(file)) as raw:
        try:
            parquet_file = pq.ParquetFile(file.path, pre_buffer=False, buffer_size=CHUNK)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"{file.name} is not a Parquet file, or is cut off: {error}") from error
        with parquet_file:
            yield raw, parquet_file


def _groups(parquet_file: ParquetFile) -> Iterator[tuple[int, int, RowGroupMetaData]]:
    """First row, number and description of each row group that has rows."""
    first = 0
    for number in range(parquet_file.metadata.num_row_groups):
        group = parquet_file.metadata.row_group(number)
        if group.num_rows:
            yield first, number, group
        first += group.num_rows


def _batches(parquet_file: ParquetFile, number: int, group: RowGroupMetaData, skip: int) -> Iterator[pa.RecordBatch]:
    """A row group in batches of moderate size, without its first rows. Raises Damaged."""
    import pyarrow as pa

    rows = PIECE_BYTES * group.num_rows // max(group.total_byte_size, 1)
    batches = parquet_file.iter_batches(min(max(rows, 1), MAX_PIECE), row_groups=[number], use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except (OSError, pa.ArrowException) as error:
            raise Damaged(f"the file is damaged from here on, so records are missing: {error}") from error
        if batch is None:
            return
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


def _items(batch: pa.RecordBatch, before: int, maker: RecordMaker) -> list[SourceRecord | BadLine]:
    from onward.sources.arrow_text import has_floats, plain_values

    try:
        columns = [plain_values(column) for column in batch.columns]
    except (ValueError, OverflowError, TypeError) as error:
        if batch.num_rows == 1:
            return [maker.bad(before + 1, f"a value cannot be read: {error}")]
        rows = range(batch.num_rows)
        return [item for row in rows for item in _items(batch.slice(row, 1), before + row, maker)]
    careful = any(has_floats(kind) for kind in batch.schema.types)
    names = batch.schema.names
    return [
        _item(dict(zip(names, row, strict=True)), position, maker, careful)
        for position, row in enumerate(zip(*columns, strict=True), before + 1)
    ]


def _item(value: dict[str, Any], position: int, maker: RecordMaker, careful: bool) -> SourceRecord | BadLine:
    try:
        text = dumps(value) if careful else orjson.dumps(value).decode()
    except OutputError as error:
        return maker.bad(position, str(error), orjson.dumps(value).decode())
    return maker.make(value, text, position)


def _mark(file: File, stat: Stat, rows: int, digest: str, ended: bool = False) -> Mark:
    return Mark(file.name, stat, rows, rows, digest, ended=ended)


def _beginning(parquet_file: ParquetFile) -> str:
    return chained("", str(parquet_file.schema_arrow))


def _with_group(digest: str, raw: RawStream, group: RowGroupMetaData) -> str:
    """The chain of hashes with the bytes of one more row group."""
    starts, ends = [], []
    for index in range(group.num_columns):
        column = group.column(index)
        start = min(column.data_page_offset, column.dictionary_page_offset or math.inf)
        starts.append(int(start))
        ends.append(int(start) + column.total_compressed_size)
    left = max(ends) - min(starts)
    content = hashlib.blake2b(digest_size=16)
    raw.skip_to(min(starts))
    while left > 0 and (data := raw.read(min(left, CHUNK))):
        content.update(data)
        left -= len(data)
    return chained(digest, content.hexdigest())
