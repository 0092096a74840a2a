"""JSON Lines: which lines are records, which are bad, and that what is kept is the line itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_reading import CASES, read_all

from onward.errors import DeclarationError, SourceError
from onward.sources.jsonl import jsonl


def written(folder: Path, content: bytes | str, name: str = "in.jsonl") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_value_is_the_text_of_the_line(tmp_path: Path) -> None:
    text = '{"id": 1, "a": 1.10, "b": 1e2, "c": 9007199254740993, "d": "\\u0000"}'
    [record] = read_all(jsonl(written(tmp_path, f"  {text} \r\n"), key="id")).records
    assert record.value == text
    assert record.key == "1"


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    odd = '{"id":"a\u2028b\u0085c","t":"\\r"}'
    reading = read_all(jsonl(written(tmp_path, f"{odd}\r\n\r\n \t\n" + '{"id":"d"}'), key="id"))
    assert [json.loads(key) for key in reading.keys] == ["a\u2028b\u0085c", "d"]
    assert reading.lines == [1, 4]
    assert reading.complete and not reading.bad


def test_torn_last_line_is_named_and_the_rest_is_read() -> None:
    reading = read_all(jsonl(CASES / "04.torn.jsonl", key="id"))
    assert reading.keys == ['"t1"', '"t2"']
    assert reading.reasons == {3: "the line is cut off in the middle of a character"}
    assert reading.bad[0].where.endswith("04.torn.jsonl:3")


def test_blank_lines_behind_a_torn_one() -> None:
    reading = read_all(jsonl(CASES / "04.torn_then_blank.jsonl", key="id"))
    assert reading.keys == ['"t1"', '"t2"']
    assert list(reading.reasons) == [3]
    assert "cut off" in reading.reasons[3]


def test_byte_order_mark_is_not_content(tmp_path: Path) -> None:
    assert read_all(jsonl(CASES / "47.bom.jsonl", key="id")).keys == ["1", "2", "3"]
    put_together = b'\xef\xbb\xbf{"id":1}\n\xef\xbb\xbf{"id":2}\n'
    reading = read_all(jsonl(written(tmp_path, put_together), key="id"))
    assert [record.value for record in reading.records] == ['{"id":1}', '{"id":2}']


def test_big_integers_and_kinds_of_keys_stay_apart() -> None:
    reading = read_all(jsonl(CASES / "49.bigint.jsonl", key="id"))
    assert reading.keys == ["9007199254740992", "9007199254740993", "18446744073709551615", "7", '"7"', '"007"', "1"]
    assert reading.reasons == {
        4: 'the key field "id" is null',
        6: 'the key field "id" is 7.0; a key is text or a whole number',
        10: 'the key field "id" is true; a key is text or a whole number',
    }
    assert reading.records[0].value == '{"id":9007199254740992,"amount":1.10}'


def test_integers_beyond_64_bits_are_keys_too(tmp_path: Path) -> None:
    big = "1" + "0" * 400
    reading = read_all(jsonl(written(tmp_path, f'{{"id":{big}}}\n{{"id":-0}}\n{{"id":0}}\n'), key="id"))
    assert reading.keys == [big, "0", "0"]


def test_huge_line() -> None:
    reading = read_all(jsonl(CASES / "51.huge_line.jsonl", key="id"))
    assert reading.keys == ["1", "2", "3"]
    assert len(reading.records[1].value) > 300_000


def test_bytes_that_are_not_utf8_are_never_replaced() -> None:
    reading = read_all(jsonl(CASES / "53.bad_utf8.jsonl", key="id"))
    assert reading.keys == ['"b1"', '"b4"']
    assert reading.reasons == {
        2: "the line is not UTF-8: byte 0xe9 at byte 23 of the line",
        3: "the line is not UTF-8: byte 0xff at byte 9 of the line",
    }
    assert reading.bad[0].raw == '{"id":"b2","text":"caf\\xe9"}'


def test_nul_in_values_and_keys() -> None:
    reading = read_all(jsonl(CASES / "33.nul.jsonl", key="id"))
    assert len(reading.keys) == 6
    assert json.loads(reading.keys[3]) == "n\x004"


def test_lone_surrogates_are_kept(tmp_path: Path) -> None:
    [record] = read_all(jsonl(written(tmp_path, '{"id":"\\ud800"}\n'), key="id")).records
    assert json.loads(record.key) == "\ud800"
    assert record.value == '{"id":"\\ud800"}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "a list, not an object with the key field"),
        ('"x"', "a text, not an object"),
        ("5", "the number 5, not an object"),
        ("null", "null, not an object"),
        ('{"ID":1}', 'there is no field "id", which is the key'),
        ('{"id":""}', 'the key field "id" is empty'),
        ('{"id":[1]}', 'the key field "id" is a list'),
        ('{"id":{}}', 'the key field "id" is an object'),
        ('{"id":1}{"id":2}', "goes on behind its end at character 9"),
        ('{"id":1', "cut off"),
        ('{"id":NaN}', "NaN is not JSON"),
        ('{"id":01}', "the line is not JSON"),
        ('{"id":1,"n":' + "9" * 5000 + "}", "more than 4,300 digits"),
        ("[" * 5000, "the line is not JSON"),
    ],
)
def test_reasons_of_bad_lines(tmp_path: Path, line: str, reason: str) -> None:
    reading = read_all(jsonl(written(tmp_path, '{"id":"ok"}\n' + line + "\n" + '{"id":"too"}\n'), key="id"))
    assert reading.keys == ['"ok"', '"too"']
    assert reason in reading.reasons[2]
    assert not any(word in reading.reasons[2] for word in ("dict", "float", "NoneType", "sys.", "Error"))


def test_a_json_array_is_explained(tmp_path: Path) -> None:
    reading = read_all(jsonl(written(tmp_path, '[\n{"id":1},\n{"id":2}\n]\n'), key="id"))
    assert "one JSON array" in reading.reasons[1]
    reading = read_all(jsonl(written(tmp_path, '{\n"id": 1\n}\n'), key="id"))
    assert "over several lines" in reading.reasons[1]


def test_several_key_fields(tmp_path: Path) -> None:
    content = '{"a":"x","b":1}\n{"a":"x","b":"1"}\n{"a":"x"}\n{"a":"x","b":1.5}\n'
    reading = read_all(jsonl(written(tmp_path, content), key=("a", "b")))
    assert reading.keys == ['["x",1]', '["x","1"]']
    assert 'no field "b"' in reading.reasons[3]
    assert 'the key field "b" is 1.5' in reading.reasons[4]


def test_an_empty_file_is_complete_and_has_no_records(tmp_path: Path) -> None:
    reading = read_all(jsonl(written(tmp_path, ""), key="id"))
    assert reading.complete and not reading.records and not reading.bad


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"id":1}\n'.encode("utf-16"), "UTF-16"),
        ('{"id":1}\n'.encode("utf-16-be"), "UTF-16"),
        ('{"id":1}\n'.encode("utf-32"), "UTF-32"),
        (b"PAR1....", "Parquet"),
        (b"PK\x03\x04..", "spreadsheet"),
        (b"\x1f\x8b\x08\x00", "gzip"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        read_all(jsonl(written(tmp_path, content), key="id"))


def test_keys_must_be_declared_well() -> None:
    for key in ("", (), ("a", ""), ("a", "a"), (1,)):
        with pytest.raises(DeclarationError):
            jsonl("x.jsonl", key=key)  # type: ignore[arg-type]


def test_blocks_are_of_moderate_size(tmp_path: Path) -> None:
    path = written(tmp_path, b"".join(b'{"id":%d}\n' % number for number in range(20_000)))
    blocks = read_all(jsonl(path, key="id")).blocks
    assert max(len(block.records) for block in blocks) <= 2_000
    assert len(blocks) < 25
    big = written(tmp_path, b"".join(b'{"id":%d,"t":"%s"}\n' % (n, b"x" * 3_000_000) for n in range(6)), "big.jsonl")
    assert max(len(block.records) for block in read_all(jsonl(big, key="id")).blocks) <= 2


def test_many_small_files_make_few_blocks(tmp_path: Path) -> None:
    for number in range(200):
        written(tmp_path, f'{{"id":{number}}}\n', f"{number:03}.jsonl")
    reading = read_all(jsonl(str(tmp_path / "*.jsonl"), key="id"))
    assert len(reading.records) == 200
    assert len(reading.blocks) == 1
