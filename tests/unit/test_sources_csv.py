"""CSV: columns, quotes, lengths, encodings, and that every value stays the text that it is."""

from __future__ import annotations

import csv as standard
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_reading import CASES, read_all, read_with_stops, use_tiny_blocks

from onward.errors import DeclarationError, SourceError
from onward.sources import csv_file
from onward.sources.csv_file import csv


def written(folder: Path, content: bytes | str, name: str = "in.csv") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def values(reading: object) -> list[dict[str, str]]:
    return [json.loads(record.value) for record in reading.records]  # type: ignore[attr-defined]


def test_byte_order_mark_and_carriage_returns_are_not_content() -> None:
    reading = read_all(csv(CASES / "47.bom_crlf.csv", key="id"))
    assert values(reading) == [
        {"id": "1", "name": "Ada Example", "note": "a"},
        {"id": "2", "name": "Bo Example", "note": "b"},
        {"id": "3", "name": "Cy Example", "note": "c"},
    ]
    assert reading.complete


def test_header_only_is_complete_with_no_records() -> None:
    reading = read_all(csv(CASES / "47.header_only.csv", key="id"))
    assert reading.complete and not reading.records and not reading.bad


def test_empty_file_and_utf16_are_explained() -> None:
    with pytest.raises(SourceError, match=r"47\.empty\.csv is empty: a CSV file begins with a line that names"):
        read_all(csv(CASES / "47.empty.csv", key="id"))
    with pytest.raises(SourceError, match=r"encoded as UTF-16.*encoding='utf-16'"):
        read_all(csv(CASES / "47.utf16.csv", key="id"))


def test_utf16_is_read_where_it_is_named() -> None:
    reading = read_all(csv(CASES / "47.utf16.csv", key="id", encoding="utf-16"))
    assert values(reading) == [{"id": "1", "name": "Ada"}, {"id": "2", "name": "Bo"}]


def test_keys_are_texts() -> None:
    reading = read_all(csv(CASES / "49.bigint.csv", key="id"))
    assert [json.loads(key) for key in reading.keys] == [
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "7",
        "7.0",
        "007",
    ]
    assert values(reading)[0]["amount"] == "1.10"
    assert reading.reasons == {5: 'the key field "id" is empty'}


def test_fields_of_any_length() -> None:
    reading = read_all(csv(CASES / "51.huge_field.csv", key="id"))
    assert [len(value["text"]) for value in values(reading)] == [5, 140_000, 5]


def test_quoted_line_breaks_and_line_numbers(tmp_path: Path) -> None:
    content = 'id,t\n\n1,"a\r\nb, ""c"""\n   \n2,x\n"3",\n'
    reading = read_all(csv(written(tmp_path, content), key="id"))
    assert values(reading) == [{"id": "1", "t": 'a\r\nb, "c"'}, {"id": "2", "t": "x"}, {"id": "3", "t": ""}]
    assert reading.lines == [3, 6, 7]


def test_missing_and_extra_cells_are_bad(tmp_path: Path) -> None:
    reading = read_all(csv(written(tmp_path, "id,t\n1\n2,b\n3,c,d\n4,e\n"), key="id"))
    assert reading.keys == ['"2"', '"4"']
    assert reading.reasons == {2: "it has 1 cells, the header has 2", 4: "it has 3 cells, the header has 2"}
    assert reading.bad[1].raw == "3,c,d"


def test_text_behind_a_quote_is_bad_and_reading_goes_on(tmp_path: Path) -> None:
    reading = read_all(csv(written(tmp_path, 'id,t\n1,"a"b\n2,c\n'), key="id"))
    assert reading.keys == ['"2"']
    assert "text follows the quote" in reading.reasons[2]


def test_a_quote_that_is_never_closed_makes_no_false_records(tmp_path: Path) -> None:
    reading = read_all(csv(written(tmp_path, 'id,t\n1,a\n2,"b\n3,c\n4,d\n'), key="id"))
    assert reading.keys == ['"1"']
    assert "not closed" in reading.reasons[3]
    assert not reading.complete


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = written(tmp_path, b"id,t\n1,caf\xe9\n2,ok\n")
    reading = read_all(csv(path, key="id"))
    assert reading.keys == ['"2"']
    assert 'encoding="cp1252"' in reading.reasons[2]
    assert values(read_all(csv(path, key="id", encoding="cp1252")))[0]["t"] == "café"
    with pytest.raises(SourceError, match=r"header.*not UTF-8"):
        read_all(csv(written(tmp_path, b"id,caf\xe9\n1,x\n"), key="id"))


def test_undecodable_bytes_of_other_encodings_are_bad_lines(tmp_path: Path) -> None:
    reading = read_all(csv(written(tmp_path, b"id,t\n1,\x81\n2,ok\n"), key="id", encoding="cp1252"))
    assert reading.keys == ['"2"']
    assert list(reading.reasons) == [2]


def test_missing_key_column_lists_the_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r'no column "id"; its columns are "ID ", "name". Did you mean "ID "\?'):
        read_all(csv(written(tmp_path, "ID ,name\n1,a\n"), key="id"))
    with pytest.raises(SourceError, match=r"pass delimiter=';'"):
        read_all(csv(written(tmp_path, "id;name\n1;a\n"), key="id"))
    assert read_all(csv(written(tmp_path, "id;name\n1;a\n"), key="id", delimiter=";")).keys == ['"1"']


def test_columns_without_names_and_with_the_same_name(tmp_path: Path) -> None:
    assert values(read_all(csv(written(tmp_path, ",id\n0,a\n"), key="id"))) == [{"column 1": "0", "id": "a"}]
    with pytest.raises(SourceError, match='two columns named "t"'):
        read_all(csv(written(tmp_path, "id,t,t\n"), key="id"))


def test_old_mac_line_ends_are_explained(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="carriage return"):
        read_all(csv(written(tmp_path, "id,t\r1,a\r2,b\r"), key="id"))


def test_bad_declarations() -> None:
    for delimiter in ("", ";;", '"', "\n"):
        with pytest.raises(DeclarationError, match="delimiter"):
            csv("x.csv", key="id", delimiter=delimiter)
    with pytest.raises(DeclarationError, match="encoding"):
        csv("x.csv", key="id", encoding="utf-9")


def test_a_later_file_without_the_column_is_found_before_anything_is_read(tmp_path: Path) -> None:
    written(tmp_path, "id\n1\n", "a.csv")
    written(tmp_path, "key\n1\n", "b.csv")
    with pytest.raises(SourceError, match=r"b\.csv has no column"):
        next(iter(csv(str(tmp_path / "*.csv"), key="id").read(None, None)))


CELLS = st.text(st.sampled_from('ab,;"\n\r é\u2028\x00'), max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_reads_what_the_standard_library_writes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], line_end: str, bom: bool
) -> None:
    out = io.StringIO()
    writer = standard.writer(out, lineterminator=line_end, quoting=standard.QUOTE_ALL)
    writer.writerow(["id", "a", "b"])
    writer.writerows([(number, *row) for number, row in enumerate(rows)])
    path = written(tmp_path_factory.mktemp("csv"), out.getvalue().encode("utf-8-sig" if bom else "utf-8"))
    reading = read_all(csv(path, key="id"))
    assert [(value["a"], value["b"]) for value in values(reading)] == rows
    with pytest.MonkeyPatch.context() as patch:
        use_tiny_blocks(patch)
        assert read_with_stops(csv(path, key="id")).same_as(reading)


def test_a_cell_beyond_the_limit_is_named_and_makes_no_false_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "FIELD_LIMIT", 1000)
    before = standard.field_size_limit(1000)
    try:
        reading = read_all(csv(written(tmp_path, 'id,t\n1,a\n2,"' + "x\n" * 600 + '"\n3,b\n'), key="id"))
    finally:
        standard.field_size_limit(before)
    assert reading.keys == ['"1"']
    assert "longer than 1,000 characters" in reading.reasons[3]
    assert not reading.complete


def test_a_cell_beyond_the_limit_on_one_line_leaves_the_rest_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "FIELD_LIMIT", 1000)
    before = standard.field_size_limit(1000)
    try:
        text = "id,t\n1,a\n2," + "x" * 1001 + '\n3,"' + "y" * 500 + '""' + "y" * 500 + '"\n4,\xff\n5,b\n'
        reading = read_all(csv(written(tmp_path, text), key="id"))
        assert standard.field_size_limit() == 1000
    finally:
        standard.field_size_limit(before)
    assert reading.keys == ['"1"', '"4"', '"5"']
    assert reading.reasons[3] == 'its column "t" has 1,001 characters, a cell may have 1,000'
    assert reading.reasons[4] == 'its column "t" has 1,001 characters, a cell may have 1,000'
    assert reading.complete


def test_a_row_behind_one_with_two_faults_has_none(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b'id,t\n1,"a"\xff\n2,b\n')
    reading = read_all(csv(path, key="id"))
    assert list(reading.reasons) == [2]
    assert reading.keys == ['"2"']
