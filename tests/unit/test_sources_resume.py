"""Cursors: going on behind what was read, and noticing every change of what was read."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_reading import CASES, Reading, read_all, read_with_stops, use_tiny_blocks

from onward.sources import streams
from onward.sources.csv_file import csv
from onward.sources.jsonl import jsonl


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_tiny_blocks(monkeypatch)
    yield


def put(path: Path, *numbers: int) -> Path:
    path.write_text("".join(f'{{"id":{number}}}\n' for number in numbers))
    return path


def add(path: Path, text: str) -> None:
    with path.open("a") as out:
        out.write(text)


LINES = st.sampled_from(
    [
        b'{"id":1}',
        b'{"id":"caf\xc3\xa9"}',
        b'{"id":12345678901234567890123}',
        b'{"id":null}',
        b'{"id":2,"t":"' + b"long " * 9 + b'"}',
        b"",
        b"  ",
        b"\r",
        b'{"id":3}\r',
        b'{"id"',
        b"\xff{}",
        b"[]",
    ]
)
CONTENTS = st.builds(
    lambda bom, lines, end: bom + b"\n".join(lines) + end,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(LINES, max_size=14),
    st.sampled_from([b"", b"\n", b"\r\n"]),
)


@settings(max_examples=120, deadline=None)
@given(CONTENTS, st.booleans())
def test_stops_after_every_block_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, zipped: bool
) -> None:
    path = tmp_path_factory.mktemp("in") / ("in.jsonl.gz" if zipped else "in.jsonl")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.MonkeyPatch.context() as patch:
        whole = read_all(jsonl(path, key="id"))
        use_tiny_blocks(patch)
        assert read_all(jsonl(path, key="id")).same_as(whole)
        assert read_with_stops(jsonl(path, key="id")).same_as(whole)


@settings(max_examples=120, deadline=None)
@given(CONTENTS.filter(bool), st.data())
def test_any_edit_before_the_cursor_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("in") / "in.jsonl"
    path.write_bytes(content)
    source = jsonl(path, key="id")
    with pytest.MonkeyPatch.context() as patch:
        use_tiny_blocks(patch)
        blocks = read_all(source).blocks
        block = data.draw(st.sampled_from(blocks))
        consumed = json.loads(block.cursor)["files"][0][5]
        place = data.draw(st.integers(0, len(content) - 1))
        edited = bytearray(content)
        edited[place] ^= 1
        path.write_bytes(edited)
        resume = source.resume(block.cursor, block.complete)
        assert resume.how == ("again" if place < consumed else "continue")
        assert (f"{path} changed before line" in resume.why) == (place < consumed)


@settings(max_examples=80, deadline=None)
@given(st.lists(LINES, max_size=8), st.lists(LINES, max_size=8), st.booleans())
def test_what_is_appended_is_read_behind_the_old_end(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes], zipped: bool
) -> None:
    path = tmp_path_factory.mktemp("in") / ("in.jsonl.gz" if zipped else "in.jsonl")
    first, second = (b"".join(line + b"\n" for line in some) for some in (before, after))
    pack = gzip.compress if zipped else bytes
    path.write_bytes(pack(first))
    source = jsonl(path, key="id")
    with pytest.MonkeyPatch.context() as patch:
        use_tiny_blocks(patch)
        old = read_all(source)
        path.write_bytes(pack(first) + pack(second))
        resume = source.resume(old.cursor, True)
        assert resume.how == ("continue" if second else "done")
        new = read_all(source, resume.cursor)
        whole = read_all(source)
        assert old.records + new.records == whole.records
        assert old.bad + new.bad == whole.bad
        assert source.resume(new.cursor, new.complete).how == "done"


def test_an_unchanged_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = jsonl(put(tmp_path / "in.jsonl", *range(5000)), key="id")
    reading = read_all(source)
    monkeypatch.setattr(streams, "FileIO", None)
    assert source.resume(reading.cursor, True).how == "done"
    assert source.resume(reading.blocks[0].cursor, False).how == "continue"


def test_resuming_reads_only_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"id":{number},"t":"{"x" * 180}"}}\n' for number in range(40_000)))
    source = jsonl(path, key="id")
    cursor = read_all(source).blocks[-3].cursor
    taken = 0
    true_read = streams.RawStream.read

    def counted(stream: streams.RawStream, size: int | None = None) -> bytes:
        nonlocal taken
        data = true_read(stream, size)
        taken += len(data)
        return data

    monkeypatch.setattr(streams.RawStream, "read", counted)
    resume = source.resume(cursor, False)
    assert resume.how == "continue"
    assert 0 < len(read_all(source, resume.cursor).records) < 10_000
    assert taken < 3 * streams.CHUNK < path.stat().st_size


def test_touched_and_copied_files_are_the_same(tmp_path: Path) -> None:
    path = put(tmp_path / "in.jsonl", 1, 2, 3)
    source = jsonl(path, key="id")
    cursor = read_all(source).cursor
    os.utime(path)
    assert source.resume(cursor, True).how == "done"
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    resume = source.resume(cursor, True)
    assert resume.how == "done"
    assert resume.cursor != cursor


def test_the_change_is_told_with_its_place(tmp_path: Path, tiny_blocks: None) -> None:
    path = put(tmp_path / "in.jsonl", *range(10, 50))
    source = jsonl("in.jsonl", key="id").based_at(tmp_path)
    blocks = read_all(source).blocks
    put(path, 99, *range(11, 50))
    assert source.resume(blocks[0].cursor, False).why == "in.jsonl changed before line 2"
    put(path, 10)
    assert source.resume(blocks[9].cursor, False).why.startswith("in.jsonl ends before line ")
    assert source.resume(blocks[-1].cursor, True).why == "in.jsonl is shorter than it was"


def test_a_last_line_that_grew_counts_as_changed(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id":1}\n{"id":2}')
    source = jsonl("in.jsonl", key="id").based_at(tmp_path)
    reading = read_all(source)
    assert reading.keys == ["1", "2"]
    add(path, ' {"id":3}\n')
    assert source.resume(reading.cursor, True).why == "in.jsonl changed at line 2"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_last_line_that_was_only_ended_is_the_same(tmp_path: Path, end: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id":1}\n{"id":2}')
    source = jsonl(path, key="id")
    cursor = read_all(source).cursor
    add(path, end)
    resume = source.resume(cursor, True)
    assert resume.how == "continue"
    ended = read_all(source, resume.cursor)
    assert not ended.records and not ended.bad and ended.complete
    add(path, '{"id":3}\n{"id":4}')
    for known in (cursor, ended.cursor):
        reading = read_all(source, source.resume(known, True).cursor)
        assert reading.keys == ["3", "4"]
        assert reading.lines == [3, 4]


def test_reading_in_another_way_is_another_input(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,no\n1,2\n")
    cursor = read_all(csv(path, key="id")).cursor
    assert csv(path, key="id").resume(cursor, True).how == "done"
    for other in (csv(path, key="no"), csv(path, key="id", delimiter=";"), jsonl(path, key="id")):
        assert other.resume(cursor, True).how == "again"
        assert other.resume(cursor, True).why
    assert csv(path, key="id").resume('{"v":99}', True).how == "again"
    assert csv(path, key="id").resume("{", True).how == "again"


def test_the_block_before_a_bad_place_is_where_a_mended_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id":1}\n{"id":2}\n{"id":\n{"id":4}\n')
    source = jsonl(path, key="id")
    first, second = read_all(source).blocks
    assert [record.key for record in first.records] == ["1", "2"]
    path.write_text('{"id":1}\n{"id":2}\n{"id":3}\n{"id":4}\n')
    resume = source.resume(first.cursor, False)
    assert resume.how == "continue"
    assert read_all(source, resume.cursor).keys == ["3", "4"]
    assert source.resume(second.cursor, True).how == "again"


class TestSeveralFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for number, name in enumerate("bdf"):
            put(tmp_path / f"{name}.jsonl", number * 10 + 1, number * 10 + 2)
        return tmp_path

    @pytest.fixture
    def first(self, folder: Path) -> Reading:
        return read_all(jsonl("*.jsonl", key="id").based_at(folder))

    def resume_why(self, folder: Path, cursor: str) -> tuple[str, str]:
        resume = jsonl("*.jsonl", key="id").based_at(folder).resume(cursor, True)
        return resume.how, resume.why

    def test_in_order_of_name(self, first: Reading) -> None:
        assert first.keys == ["1", "2", "11", "12", "21", "22"]

    def test_new_files_behind_the_known_ones(self, folder: Path, first: Reading) -> None:
        put(folder / "g.jsonl", 31)
        source = jsonl("*.jsonl", key="id").based_at(folder)
        resume = source.resume(first.cursor, True)
        assert resume.how == "continue"
        reading = read_all(source, resume.cursor)
        assert reading.keys == ["31"]
        assert source.where(reading.records[0].position) == "g.jsonl:1"

    def test_a_new_file_before_known_ones(self, folder: Path, first: Reading) -> None:
        put(folder / "c.jsonl", 5)
        assert self.resume_why(folder, first.cursor) == (
            "again",
            "c.jsonl is new and comes before d.jsonl, which was already read",
        )

    def test_a_file_that_is_gone(self, folder: Path, first: Reading) -> None:
        (folder / "d.jsonl").unlink()
        assert self.resume_why(folder, first.cursor) == ("again", "d.jsonl is gone")

    def test_a_file_that_changed(self, folder: Path, first: Reading) -> None:
        put(folder / "d.jsonl", 11, 13)
        assert self.resume_why(folder, first.cursor) == ("again", "d.jsonl changed before line 3")

    def test_a_file_before_the_last_that_grew(self, folder: Path, first: Reading) -> None:
        add(folder / "d.jsonl", '{"id":13}\n')
        how, why = self.resume_why(folder, first.cursor)
        assert (how, why) == ("again", "d.jsonl has grown, and f.jsonl behind it was already read")

    def test_the_last_file_grew(self, folder: Path, first: Reading) -> None:
        add(folder / "f.jsonl", '{"id":23}\n')
        source = jsonl("*.jsonl", key="id").based_at(folder)
        assert read_all(source, source.resume(first.cursor, True).cursor).keys == ["23"]

    def test_stops_between_files(self, folder: Path, first: Reading, tiny_blocks: None) -> None:
        assert read_with_stops(jsonl("*.jsonl", key="id").based_at(folder)).same_as(first)


class TestVeryManyFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for number in range(300):
            put(tmp_path / f"{number:03}.jsonl", number)
        return tmp_path

    def test_the_cursor_stays_small_and_notices_all(self, folder: Path, tiny_blocks: None) -> None:
        source = jsonl("*.jsonl", key="id").based_at(folder)
        reading = read_all(source)
        assert len(reading.keys) == 300
        assert len(reading.cursor) < 15_000
        assert source.resume(reading.cursor, True).how == "done"
        os.utime(folder / "007.jsonl")
        resume = source.resume(reading.cursor, True)
        assert resume.how == "done"
        assert resume.cursor is not None
        assert source.resume(resume.cursor, True).cursor == resume.cursor
        put(folder / "300.jsonl", 300)
        assert read_all(source, source.resume(reading.cursor, True).cursor).keys == ["300"]
        put(folder / "007.jsonl", 8)
        assert re.fullmatch(r"one of the first \d+ files changed", source.resume(reading.cursor, True).why)
        put(folder / "007.jsonl", 7)
        (folder / "007.jsonl").rename(folder / "007a.jsonl")
        assert source.resume(reading.cursor, True).why.endswith("files are no longer the same ones")


class TestCutGzip:
    def test_cut_file_is_read_as_far_as_it_goes_and_never_complete(self) -> None:
        reading = read_all(jsonl(CASES / "53.truncated.jsonl.gz", key="id"))
        assert reading.keys == [str(number) for number in range(1, 120)]
        assert not reading.complete
        assert "cut off" in reading.reasons[120]

    def test_two_members_are_read_whole(self) -> None:
        reading = read_all(jsonl(CASES / "53.two_members.jsonl.gz", key="id"))
        assert reading.keys == ["1", "2", "3", "4", "5", "6"]
        assert reading.complete

    def test_when_the_whole_file_comes_only_the_missing_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "in.jsonl.gz"
        shutil.copy(CASES / "53.truncated.jsonl.gz", path)
        source = jsonl(path, key="id")
        cut = read_all(source)
        again = source.resume(cut.cursor, False)
        assert again.how == "continue"
        assert read_all(source, again.cursor).bad == cut.bad
        shutil.copy(CASES / "53.whole.jsonl.gz", path)
        resume = source.resume(cut.cursor, False)
        assert resume.how == "continue"
        rest = read_all(source, resume.cursor)
        assert rest.keys == [str(number) for number in range(120, 201)]
        assert rest.complete
        assert source.resume(rest.cursor, True).how == "done"

    def test_files_behind_a_cut_one_are_read_but_the_cursor_waits(self, tmp_path: Path) -> None:
        shutil.copy(CASES / "53.truncated.jsonl.gz", tmp_path / "a.jsonl.gz")
        put(tmp_path / "b.jsonl", 1001)
        source = jsonl([str(tmp_path / "a.jsonl.gz"), str(tmp_path / "b.jsonl")], key="id")
        reading = read_all(source)
        assert reading.keys[-1] == "1001"
        assert not reading.complete
        shutil.copy(CASES / "53.whole.jsonl.gz", tmp_path / "a.jsonl.gz")
        rest = read_all(source, source.resume(reading.cursor, False).cursor)
        assert rest.keys == [*(str(number) for number in range(120, 201)), "1001"]
        assert rest.complete

    @pytest.mark.parametrize("cut", [0, 1, 9, 10, 11, 60, 4000, 8600, 8609])
    def test_every_cut_is_noticed(self, tmp_path: Path, cut: int) -> None:
        path = tmp_path / "in.jsonl.gz"
        path.write_bytes((CASES / "53.whole.jsonl.gz").read_bytes()[:cut])
        reading = read_all(jsonl(path, key="id"))
        assert not reading.complete
        assert "cut off" in reading.bad[0].reason

    def test_damage_is_noticed(self, tmp_path: Path) -> None:
        content = bytearray((CASES / "53.whole.jsonl.gz").read_bytes())
        content[-6] ^= 1  # the checksum
        path = tmp_path / "in.jsonl.gz"
        path.write_bytes(content)
        reading = read_all(jsonl(path, key="id"))
        assert "damaged" in reading.bad[0].reason
        assert not reading.complete

    def test_cut_csv(self, tmp_path: Path) -> None:
        content = "id,t\n" + "".join(f'{number},"{os.urandom(20).hex()}\n"\n' for number in range(500))
        path = tmp_path / "in.csv.gz"
        path.write_bytes(gzip.compress(content.encode())[:-2000])
        reading = read_all(csv(path, key="id"))
        assert 0 < len(reading.keys) < 500
        assert not reading.complete
        path.write_bytes(gzip.compress(content.encode()))
        source = csv(path, key="id")
        rest = read_all(source, source.resume(reading.cursor, False).cursor)
        assert reading.records + rest.records == read_all(source).records


@pytest.mark.parametrize("before", ["id,t\n1,a\n2,b", 'id,t\n1,a\n\n2,"b\n"'])
def test_csv_whose_last_line_had_no_end(tmp_path: Path, before: str, tiny_blocks: None) -> None:
    path = tmp_path / "in.csv"
    path.write_text(before)
    source = csv("in.csv", key="id").based_at(tmp_path)
    reading = read_with_stops(source)
    assert reading.keys == ['"1"', '"2"']
    assert reading.same_as(read_all(source))
    for block in reading.blocks:
        path.write_text(before + "c\n3,d\n")
        consumed = json.loads(block.cursor)["files"][0][5]
        grew = consumed == len(before)
        assert source.resume(block.cursor, block.complete).how == ("again" if grew else "continue")
    path.write_text(before + "\n3,d\n")
    rest = read_all(source, source.resume(reading.cursor, True).cursor)
    assert rest.records == read_all(source).records[2:]


def test_a_lone_byte_order_mark_may_grow(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbf")
    source = jsonl(path, key="id")
    cursor = read_all(source).cursor
    add(path, '{"id":1}\n')
    resume = source.resume(cursor, True)
    assert resume.how == "continue"
    reading = read_all(source, resume.cursor)
    assert (reading.keys, reading.lines) == (["1"], [1])
