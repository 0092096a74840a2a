"""Lists of numbers that may be long: kept in a file, so that memory stays constant and no reading stays open."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

from onward.errors import StoreError

IN_MEMORY = 1 << 20
NOTHING = -1


class Spool:
    """Rows of `width` integers (None is kept as -1), written once and read in pages. The file has no name and goes
    with the spool."""

    def __init__(self, width: int):
        self._width = width
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with the spool
        self.rows = 0

    def fill(self, rows: Iterable[Sequence[int | None]]) -> Spool:
        """Take all rows in. Raises StoreError where the temporary folder is full."""
        block = array("q")
        try:
            for row in rows:
                block.extend([NOTHING if number is None else number for number in row])
                if len(block) >= 8192 * self._width:
                    self._put(block)
                    block = array("q")
            self._put(block)
        except OSError as error:
            raise StoreError(f"no room for the list of records in {tempfile.gettempdir()}: {error.strerror}") from error
        return self

    def _put(self, block: array[int]) -> None:
        self._file.write(block.tobytes())
        self.rows += len(block) // self._width

    def pages(self, size: int) -> Iterator[list[tuple[int, ...]]]:
        """All rows in order, `size` at a time."""
        self._file.seek(0)
        while data := self._file.read(size * self._width * 8):
            numbers = array("q", data)
            yield list(zip(*[iter(numbers)] * self._width, strict=True))

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
