"""Which files a source means, how it calls them, and folders as sources."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from source_reading import read_all

from onward.errors import DeclarationError, MisfitRecord, SourceError
from onward.sources.directory import directory
from onward.sources.iterable import iterable
from onward.sources.jsonl import jsonl


def put(path: Path, *ids: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'{{"id":{number}}}\n' for number in ids))
    return path


def test_relative_paths_start_from_the_given_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "jobs" / "in.jsonl", 1)
    put(tmp_path / "in.jsonl", 2)
    monkeypatch.chdir(tmp_path)
    source = jsonl("in.jsonl", key="id")
    based = source.based_at(tmp_path / "jobs")
    assert read_all(source).keys == ["2"]
    assert read_all(based).keys == ["1"]
    assert source.location == str(tmp_path / "in.jsonl")
    assert based.location == str(tmp_path / "jobs" / "in.jsonl")
    assert based.title == "in.jsonl"
    assert based.where(3) == "in.jsonl:3"
    absolute = jsonl(tmp_path / "in.jsonl", key="id").based_at(tmp_path / "jobs")
    assert absolute.location == str(tmp_path / "in.jsonl")


def test_several_paths_keep_their_order_and_none_counts_twice(tmp_path: Path) -> None:
    for name, number in (("b", 1), ("a", 2), ("c", 3)):
        put(tmp_path / f"{name}.jsonl", number)
    source = jsonl(["b.jsonl", "*.jsonl"], key="id").based_at(tmp_path)
    reading = read_all(source)
    assert reading.keys == ["1", "2", "3"]
    assert [source.where(record.position) for record in reading.records] == ["b.jsonl:1", "a.jsonl:1", "c.jsonl:1"]
    assert source.title == "b.jsonl and 1 more"
    assert json.loads(source.location) == [str(tmp_path / "b.jsonl"), str(tmp_path / "*.jsonl")]


def test_patterns_reach_into_folders(tmp_path: Path) -> None:
    put(tmp_path / "x" / "a.jsonl", 1)
    put(tmp_path / "y" / "z" / "a.jsonl", 2)
    (tmp_path / "dir.jsonl").mkdir()
    source = jsonl("**/*.jsonl", key="id").based_at(tmp_path)
    reading = read_all(source)
    assert reading.keys == ["1", "2"]
    assert source.where(reading.records[1].position) == "y/z/a.jsonl:1"


def test_a_name_with_brackets_is_a_name(tmp_path: Path) -> None:
    put(tmp_path / "in[1].jsonl", 1)
    assert read_all(jsonl("in[1].jsonl", key="id").based_at(tmp_path)).keys == ["1"]


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        ("no.jsonl", r"there is no file no\.jsonl \(looked for .*/no\.jsonl\)"),
        ("*.jsonl", r"no file matches \*\.jsonl in "),
        ("folder", "folder is a folder; name the files in it with a pattern"),
        ("pipe", "not a regular file"),
    ):
        source = jsonl(path, key="id").based_at(tmp_path)
        with pytest.raises(SourceError, match=words):
            read_all(source)
    with pytest.raises(DeclarationError):
        jsonl([], key="id")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = put(tmp_path / "in.jsonl", 1)
    path.chmod(0)
    with pytest.raises(SourceError, match=r"cannot read .*: Permission denied"):
        read_all(jsonl(path, key="id"))


class TestDirectory:
    def test_files_in_order_of_name(self, tmp_path: Path) -> None:
        put(tmp_path / "in" / "b.txt", 1)
        put(tmp_path / "in" / "a" / "c.txt", 1, 2)
        put(tmp_path / "in" / ".hidden", 1)
        source = directory("in").based_at(tmp_path)
        reading = read_all(source)
        assert reading.keys == ['"b.txt"']
        assert json.loads(reading.records[0].value) == {"path": str(tmp_path / "in" / "b.txt"), "size": 9}
        deep = read_all(directory("in", "**/*.txt").based_at(tmp_path))
        assert deep.keys == ['"a/c.txt"', '"b.txt"']
        assert deep.complete
        assert source.location == str(tmp_path / "in" / "*")
        assert source.max_ahead is None

    def test_it_is_always_listed_anew(self, tmp_path: Path) -> None:
        put(tmp_path / "a", 1)
        source = directory(tmp_path)
        resume = source.resume(read_all(source).cursor, True)
        assert (resume.how, resume.why) == ("again", "")

    def test_misfits_keep_their_keys(self, tmp_path: Path) -> None:
        put(tmp_path / "a", 1)

        def refuse(value: object) -> None:
            raise MisfitRecord("too small")

        [record] = read_all(directory(tmp_path), validate=refuse).records
        assert (record.key, record.invalid) == ('"a"', "too small")

    def test_many_files_make_several_blocks(self, tmp_path: Path) -> None:
        for number in range(1050):
            (tmp_path / f"{number:04}").touch()
        assert [len(block.records) for block in read_all(directory(tmp_path)).blocks] == [1000, 50]

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match="there is no folder nowhere"):
            read_all(directory("nowhere").based_at(tmp_path))

    def test_names_that_are_not_utf8(self, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"caf\xe9")).touch()
        [record] = read_all(directory(tmp_path)).records
        assert os.fsencode(json.loads(record.key)) == b"caf\xe9"


def test_an_iterable_has_no_folder(tmp_path: Path) -> None:
    source = iterable(lambda: [1])
    assert source.based_at(tmp_path) is source
    assert source.location == "iterable"
