"""Iterables: sync and async, keys of values, pace, failures, versions."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pydantic
import pytest
from source_reading import read_all

from onward.errors import DeclarationError, SourceError
from onward.sources.iterable import iterable


def test_values_that_are_their_own_keys() -> None:
    reading = read_all(iterable(lambda: ["a", 7, "7", ("x", 1), 7.0, None, "", True]))
    assert reading.keys == ['"a"', "7", '"7"', '["x",1]']
    assert sorted(reading.reasons) == [5, 6, 7, 8]
    assert reading.reasons[5] == "the record, which is its own key, is 7.0; a key is text or a whole number"
    assert reading.complete


def test_members_of_enums_and_other_texts_and_integers_are_keys_by_their_value() -> None:
    class Plain(enum.Enum):
        A = "a"

    class Text(enum.StrEnum):
        B = "b"

    class Number(enum.IntEnum):
        C = 3

    class Name(str):
        pass

    members = [Plain.A, Text.B, Number.C, Name("d")]
    assert read_all(iterable(lambda: members)).keys == ['"a"', '"b"', "3", '"d"']
    objects = read_all(iterable(lambda: [{"id": member, "n": Text.B} for member in members], key=("id", "n")))
    assert objects.keys == ['["a","b"]', '["b","b"]', '[3,"b"]', '["d","b"]']
    assert read_all(iterable(lambda: [(Text.B, True)])).reasons[1].startswith("a part of the key is true;")


def test_async_iterables_have_a_loop_of_their_own() -> None:
    async def rows() -> AsyncIterator[dict[str, int]]:
        for number in range(2500):
            if number % 100 == 0:
                await asyncio.sleep(0)
            yield {"id": number}

    reading = read_all(iterable(rows, key="id"))
    assert reading.keys == [str(number) for number in range(2500)]
    assert reading.complete


def test_objects_become_plain_values() -> None:
    class Colour(enum.Enum):
        RED = "red"

    class Model(pydantic.BaseModel):
        id: int
        at: dt.datetime

    @dataclasses.dataclass
    class Row:
        id: int
        colour: Colour
        price: decimal.Decimal
        days: list[dt.date]

    at = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    rows = [Model(id=1, at=at), Row(2, Colour.RED, decimal.Decimal("1.10"), [at.date()]), {"id": 3, "at": at}]
    reading = read_all(iterable(lambda: rows, key="id"))
    assert [record.value for record in reading.records] == [
        '{"id":1,"at":"2024-01-02T00:00:00Z"}',
        '{"id":2,"colour":"red","price":"1.10","days":["2024-01-02"]}',
        '{"id":3,"at":"2024-01-02T00:00:00Z"}',
    ]


def test_values_that_json_cannot_hold_are_bad() -> None:
    reading = read_all(iterable(lambda: [{"id": 1, "v": float("nan")}, {"id": 2, "v": {1}}, {"id": 3}], key="id"))
    assert reading.keys == ["3"]
    assert reading.reasons == {
        1: "the record.v is nan, which JSON cannot hold",
        2: "the record.v is of type set, which JSON cannot hold",
    }


def test_a_failure_is_told_and_keeps_what_came_before() -> None:
    def rows() -> Iterator[int]:
        yield from range(1, 6)
        raise ConnectionError("gone")

    blocks = iterable(rows).read(None, None)
    seen = []
    with pytest.raises(SourceError, match=r"rows\(\) failed after 5 records: ConnectionError: gone"):
        for block in blocks:
            assert not block.complete
            seen += [record.key for record in block.records]
    assert seen == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("leaves", [SystemExit(0), KeyboardInterrupt()])
def test_an_iterable_that_ends_the_program_has_failed(leaves: BaseException) -> None:
    def rows() -> Iterator[int]:
        yield from range(1, 6)
        raise leaves

    async def rows_async() -> AsyncIterator[int]:
        for number in rows():
            yield number

    for make in (rows, rows_async):
        seen = []
        with pytest.raises(SourceError, match=rf"failed after 5 records: {type(leaves).__name__}"):
            for block in iterable(make).read(None, None):
                seen += [record.key for record in block.records]
        assert seen == ["1", "2", "3", "4", "5"]


def test_what_cannot_be_read_again_is_refused() -> None:
    with pytest.raises(DeclarationError, match="takes a function"):
        iterable([1, 2])  # type: ignore[arg-type]
    once = iter([1, 2])
    source = iterable(lambda: once)
    assert read_all(source).keys == ["1", "2"]
    with pytest.raises(SourceError, match="same iterator twice"):
        read_all(source)
    with pytest.raises(SourceError, match="gave int"):
        read_all(iterable(lambda: 5))  # type: ignore[arg-type, return-value]


def test_work_can_begin_at_once() -> None:
    taken = 0

    def rows() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    blocks = iterable(rows).read(None, None)
    assert len(next(blocks).records) == 1
    assert taken == 1
    sizes = [len(next(blocks).records) for _ in range(15)]
    assert sizes[0] == 2 and max(sizes) == 1000  # a pause of the machine makes one of them small again


def test_a_slow_iterable_hands_each_record_over() -> None:
    def rows() -> Iterator[int]:
        yield from range(100)
        time.sleep(0.06)
        yield 100
        yield 101

    blocks = read_all(iterable(rows)).blocks
    assert blocks[-3].records[-1].key == "100"
    assert [record.key for record in blocks[-2].records] == ["101"]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_came_is_handed_over_though_more_is_long_in_coming(is_async: bool) -> None:
    goes_on = threading.Event()

    def rows() -> Iterator[int]:
        yield from range(30)
        goes_on.wait(20)
        yield 30

    async def rows_async() -> AsyncIterator[int]:
        for number in rows():
            yield number

    blocks = iterable(rows_async if is_async else rows).read(None, None)
    came: list[str] = []
    began = time.monotonic()
    while len(came) < 30:
        came += [record.key for record in next(blocks).records]
    assert time.monotonic() - began < 5
    goes_on.set()
    assert came + [record.key for block in blocks for record in block.records] == [str(n) for n in range(31)]


def test_nothing_is_asked_for_while_nobody_waits_for_a_block() -> None:
    asked: list[int] = []
    goes_on = threading.Event()

    def rows() -> Iterator[int]:
        for number in itertools.count():
            asked.append(number)
            if number == 5:
                goes_on.wait(20)
            yield number

    blocks = iterable(rows).read(None, None)
    came = 0
    while came < 5:
        came += len(next(blocks).records)
    goes_on.set()
    time.sleep(0.1)
    assert asked == [0, 1, 2, 3, 4, 5]  # 5 was under way; having given it, the iterable is left alone


def test_big_records_make_small_blocks() -> None:
    blocks = read_all(iterable(lambda: ({"id": n, "t": "x" * 3_000_000} for n in range(12)), key="id")).blocks
    assert max(len(block.records) for block in blocks) <= 2


def test_iterables_are_closed_when_reading_stops() -> None:
    closed = []

    def rows() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    blocks: Any = iterable(rows).read(None, None)
    next(blocks)
    blocks.close()
    assert closed == [True]


def test_resuming() -> None:
    def rows() -> list[int]:
        return [1, 2]

    plain = iterable(rows)
    cursor = read_all(plain).cursor
    assert plain.max_ahead == 9_000
    assert (plain.resume(cursor, True).how, plain.resume(cursor, True).why) == ("again", "")
    first = iterable(rows, version="v1")
    cursor = read_all(first).cursor
    assert first.resume(cursor, True).how == "done"
    assert first.resume(cursor, False).how == "again"
    assert iterable(rows, version="v2").resume(cursor, True).how == "again"
    assert iterable(rows, key="id", version="v1").resume(cursor, True).how == "again"
    assert plain.where(7) == "rows:7"
