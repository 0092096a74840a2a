"""What exports hold, format by format."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onward.errors import ExportError, UsageError
from onward.ports.sink import ExportRow
from onward.sinks.formats import open_sink

DIGITS = '{"id":18446744073709551617,"price":1.10,"tiny":1e2,"name":"Zoë, \\"Q\\"\\n2","gone":null,"ok":true}'


def row(key: str = '"r1"', value: str | None = DIGITS, **outputs: str) -> ExportRow:
    return ExportRow(key, value, outputs, "succeeded", dict.fromkeys(outputs, "v1"), 1)


def export(path: Path, rows: list[ExportRow], **how: object) -> bytes:
    assert open_sink(path, **how).write(iter(rows)) == len(rows)  # type: ignore[arg-type]
    return path.read_bytes()


def test_a_line_has_exactly_the_keys_of_the_contract_and_every_digit(tmp_path: Path) -> None:
    written = export(tmp_path / "out.jsonl", [row(summarise='{"n":0.10}', route='"a"'), row("7", None)])
    assert written.decode() == (
        '{"key":"r1","input":' + DIGITS + ',"outputs":{"summarise":{"n":0.10},"route":"a"},"state":"succeeded",'
        '"versions":{"summarise":"v1","route":"v1"},"generation":1}\n'
        '{"key":7,"input":null,"outputs":{},"state":"succeeded","versions":{},"generation":1}\n'
    )


def test_json_stored_in_several_lines_becomes_one_line(tmp_path: Path) -> None:
    written = export(tmp_path / "out.jsonl", [row(value='{\r\n "a": "x\\ny\u2028"\n}')])
    assert written.count(b"\n") == 1
    assert b"\r" not in written
    assert json.loads(written)["input"] == {"a": "x\ny\u2028"}


def test_flat_lines_lift_fields_and_outputs(tmp_path: Path) -> None:
    rows = [row(summarise='{"text":"t","tags":["a",1.0]}', route='"a"'), row('["x",7]', '"plain"', route="[1]")]
    written = export(tmp_path / "out.jsonl", rows, flat=True)
    first, second = written.decode().splitlines()
    assert first == (
        '{"key":"r1",' + DIGITS[1:-1] + ',"summarise.text":"t","summarise.tags":"[\\"a\\",1.0]","route":"a",'
        '"state":"succeeded","generation":1}'
    )
    assert json.loads(second) == {
        "key": '["x",7]',
        "input": "plain",
        "route": "[1]",
        "state": "succeeded",
        "generation": 1,
    }


def test_flat_names_stay_distinct(tmp_path: Path) -> None:
    value = '{"state":"Ohio","key":1,"route":2,"input.state":3,"a\\ud800":4}'
    written = export(tmp_path / "out.jsonl", [row(value=value, route='"x"', generation='"y"')], flat=True)
    assert json.loads(written) == {
        "key": "r1",
        "input.state": "Ohio",
        "input.key": 1,
        "route": 2,
        "input.input.state": 3,
        "a\ud800": 4,
        "outputs.route": "x",
        "outputs.generation": "y",
        "state": "succeeded",
        "generation": 1,
    }


def test_csv_holds_json_text(tmp_path: Path) -> None:
    written = export(tmp_path / "out.csv", [row(route='"a"'), row("7", None)])
    header, first, second = csv.reader(io.StringIO(written.decode(), newline=""))
    assert header == ["key", "input", "outputs", "state", "versions", "generation"]
    assert first == ['"r1"', DIGITS, '{"route":"a"}', "succeeded", '{"route":"v1"}', "1"]
    assert second == ["7", "", "{}", "succeeded", "{}", "1"]


def test_flat_csv_is_the_union_of_all_columns_in_the_order_seen(tmp_path: Path) -> None:
    rows = [
        row("1", '{"a":1.10,"b":null}', one='{"x":""}', two="true"),
        row("2", '{"a":"=1+1","c":"p\\r\\nq"}', one='{"x":"\\u0000","y":[1,{"z":1.0}]}'),
        row("18446744073709551617", None),
    ]
    written = export(tmp_path / "out.csv", rows, flat=True).decode()
    assert written.split("\n")[1] == '1,1.10,,,"",,true,succeeded,1', "empty text is quoted, null and missing are not"
    header, *cells = csv.reader(io.StringIO(written, newline=""))
    assert header == ["key", "a", "b", "c", "one.x", "one.y", "two", "state", "generation"]
    assert cells == [
        ["1", "1.10", "", "", "", "", "true", "succeeded", "1"],
        ["2", "=1+1", "", "p\r\nq", "\0", '[1,{"z":1.0}]', "", "succeeded", "1"],
        ["18446744073709551617", "", "", "", "", "", "", "succeeded", "1"],
    ]


def test_a_lone_surrogate_stays_an_escape_in_csv(tmp_path: Path) -> None:
    written = export(tmp_path / "out.csv", [row(value='{"a":"x\\ud800y"}')], flat=True)
    assert b"x\\ud800y" in written


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.jsonl.gz", "out.csv.gz"])
@pytest.mark.parametrize("flat", [False, True])
def test_no_rows_and_equal_rows(tmp_path: Path, name: str, flat: bool) -> None:
    some = [row(str(number), '{"a":1.10}', step=f'"{number}"') for number in range(300)]
    for rows in ([], some):
        first = export(tmp_path / f"1{name}", rows, flat=flat)
        assert first == export(tmp_path / f"2{name}", rows, flat=flat), "equal rows, equal bytes"
        text = gzip.decompress(first) if name.endswith(".gz") else first
        assert text.count(b"\n") == len(rows) + ("csv" in name)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"1{name}", f"2{name}"]


def test_the_format_follows_suffix_and_word(tmp_path: Path) -> None:
    def start_of(name: str, word: str | None = None) -> bytes:
        return export(tmp_path / name, [row()], format=word)[:4]

    assert start_of("a.csv") == start_of("A.CSV") == start_of("a.txt", "csv") == b"key,"
    assert start_of("a.jsonl") == start_of("a") == start_of("a.txt") == start_of("a2.csv", "jsonl") == b'{"ke'
    assert start_of("a.jsonl.gz")[:2] == start_of("a.gz", "csv")[:2] == b"\x1f\x8b"
    assert start_of("a.parquet") == b"PAR1"
    with pytest.raises(UsageError, match="jsonl, csv, parquet"):
        open_sink(tmp_path / "x", "xml")
    with pytest.raises(UsageError, match=r"leave out \.gz"):
        open_sink(tmp_path / "x.parquet.gz")
    with pytest.raises(UsageError, match="empty"):
        open_sink("")


def test_too_many_columns_are_refused(tmp_path: Path) -> None:
    rows = (row(str(number), f'{{"field {number}":1}}') for number in range(10_001))
    with pytest.raises(ExportError, match="without --flat"):
        open_sink(tmp_path / "out.csv", flat=True).write(rows)
    assert list(tmp_path.iterdir()) == []


VICTIM = """
import sys
from onward.errors import ExportError
from onward.ports.sink import ExportRow
from onward.sinks.formats import open_sink
rows = (ExportRow(str(n), None, {}, "succeeded", {}, 1) for n in range(int(sys.argv[1])))
try:
    print(open_sink(sys.argv[2], sys.argv[3], sys.argv[4] == "flat").write(rows), file=sys.stderr)
except ExportError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def victim(rows: int, path: str, form: str = "jsonl", flat: str = "") -> list[str]:
    return [sys.executable, "-c", VICTIM, str(rows), path, form, flat]


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
@pytest.mark.parametrize("flat", ["", "flat"])
@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_standard_output_takes_what_a_file_would(tmp_path: Path, path: str, flat: str, form: str) -> None:
    done = subprocess.run(victim(20, path, form, flat), capture_output=True, check=True)
    assert done.stderr == b"20\n"
    assert subprocess.run(victim(20, str(tmp_path / "x"), form, flat), check=True, capture_output=True)
    assert done.stdout == (tmp_path / "x").read_bytes()


def test_a_reader_that_goes_away_is_one_plain_message() -> None:
    process = subprocess.Popen(victim(200_000, "-"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    message = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 2
    assert message == "cannot write to standard output: the reader went away before all rows were written\n"


@pytest.mark.skipif(os.name == "nt", reason="no shell redirection of this sort")
def test_closed_standard_output_is_said() -> None:
    command = subprocess.list2cmdline(victim(3, "-")[:1])
    done = subprocess.run(
        ["sh", "-c", f'{command} -c "$VICTIM" 3 - jsonl "" >&-'],
        env={**os.environ, "VICTIM": VICTIM},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"standard output is closed" in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_or_device_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    open_sink(pipe).write([row()])
    got, _ = reader.communicate()
    assert json.loads(got)["key"] == "r1"
    assert pipe.is_fifo()
    assert open_sink("/dev/null", "csv", flat=True).write([row()]) == 1
