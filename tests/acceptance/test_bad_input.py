"""Inputs as they come: twice the same key, nothing at all, the wrong shape, the wrong place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.jobs import Place, echo_job, plain

SOURCE = 'onward.jsonl("in.jsonl", key="id")'

TICKETS = """
from pydantic import BaseModel

class Ticket(BaseModel):
    id: str
    size: int

class Params(BaseModel):
    factor: int = 1

job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), record=Ticket, params=Params)

@job.step
def measure(ticket: Ticket, params: Params) -> int:
    started(ticket.id, "measure")
    return ticket.size * params.factor
"""


def test_a_key_that_stands_twice_is_told_with_both_places(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job(SOURCE))
    place.write("in.jsonl", [{"id": "a"}, {"id": "b"}, {"id": "a", "text": "another"}, {"id": "c"}])
    ran = place.run()
    assert ran.code == 4
    assert 'bad line in.jsonl:3: the key "a" stands already at in.jsonl:1' in ran.said
    assert (ran.counts, sorted(place.calls())) == ({"succeeded": 2}, ["a", "b"])
    place.write("in.jsonl", [{"id": "a"}, {"id": "b"}, {"id": "d"}, {"id": "c"}])
    mended = place.run()
    assert (mended.code, mended.counts) == (0, {"succeeded": 4})
    assert sorted(place.calls()) == ["a", "b", "c", "d"]


def test_a_key_that_stands_twice_may_be_set_aside(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job('onward.jsonl(["one.jsonl", "two.jsonl"], key="id")', on_bad='"quarantine"'))
    place.write("one.jsonl", [{"id": number} for number in range(4_500)])
    place.write("two.jsonl", [{"id": "first"}, {"id": 4_000}, {"id": 3}, {"id": "last"}])
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 4_502, "quarantined": 2})
    assert {one["key"]: one["error"] for one in place.failures()} == {
        "two.jsonl:2": "the key 4000 stands already at one.jsonl:4001",
        "two.jsonl:3": "the key 3 stands already at one.jsonl:4",
    }
    assert (len(place.calls()), len(set(map(str, place.calls())))) == (4_502, 4_502)
    again = place.run()
    assert (again.code, again.counts) == (1, ran.counts)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("in.jsonl", SOURCE),
        ("folder", 'onward.directory("folder")'),
        ("", 'onward.iterable(lambda: [], key="id")'),
    ],
)
def test_an_empty_input_is_said_to_be_empty(tmp_path: Path, name: str, source: str) -> None:
    place = Place(tmp_path, echo_job(source))
    if name == "folder":
        (tmp_path / name).mkdir()
    elif name:
        (tmp_path / name).write_bytes(b"")
    ran = place.run()
    assert (ran.code, ran.status["total"], ran.status["source_complete"]) == (0, 0, True)
    assert "the input is empty: it has no records" in ran.said
    assert ran.said.splitlines()[-1].endswith("Next, when the input has records: onward run job.py")


NOTHING_STARTS = {
    "no such file": ('onward.jsonl("gone.jsonl", key="id")', "there is no file gone.jsonl"),
    "a pattern that matches nothing": ('onward.jsonl("shards/*.jsonl", key="id")', "no file matches shards/*.jsonl"),
    "a folder": ('onward.jsonl("folder", key="id")', "folder is a folder; name the files in it with a pattern"),
    "no such folder": ('onward.directory("gone")', "there is no folder gone"),
    "no such column": (
        'onward.csv("in.csv", key="ID")',
        'in.csv has no column "ID"; its columns are "id", "name". Did you mean "id"?',
    ),
    "another separator": ('onward.csv("semi.csv", key="id")', "pass delimiter=';'"),
    "no such field": (SOURCE.replace('"id"', '"number"'), 'there is no field "number", which is the key'),
    "an array": ('onward.jsonl("array.json", key="id")', "the file is one JSON array, not one object a line"),
    "a failing function": ('onward.iterable(lambda: 1 / 0, key="id")', "ZeroDivisionError"),
}


@pytest.mark.parametrize("fault", NOTHING_STARTS)
def test_where_nothing_can_be_read_nothing_is_started(tmp_path: Path, fault: str) -> None:
    source, words = NOTHING_STARTS[fault]
    place = Place(tmp_path, echo_job(source))
    (tmp_path / "folder").mkdir()
    (tmp_path / "in.csv").write_text("id,name\n1,Ada\n")
    (tmp_path / "semi.csv").write_text("id;name\n1;Ada\n")
    (tmp_path / "array.json").write_text('[{"id": 1},\n {"id": 2}]\n')
    place.write("in.jsonl", [{"id": 1}])
    ended = place.onward("run", "job.py")
    assert ended.returncode == 2
    assert words in ended.stdout + ended.stderr
    assert place.calls() == []
    plain(ended.stderr)


def test_a_bad_line_in_the_middle_stops_there_and_the_mended_file_goes_on(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job(SOURCE))
    lines = [json.dumps({"id": number}) for number in range(1, 3001)]
    (tmp_path / "in.jsonl").write_text("\n".join([*lines[:2500], '{"id": 2501', *lines[2501:]]) + "\n")
    ran = place.run()
    assert ran.code == 4
    assert "in.jsonl:2501: the line is not JSON" in ran.said
    assert ran.counts == {"succeeded": 2500}
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    assert place.run().code == 0
    assert sorted(place.calls()) == list(range(1, 3001))


def test_a_bad_line_never_reaches_a_step(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job(SOURCE, on_bad='"quarantine"'))
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": 2\n{"id": 3, "id": \n')
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 1, "quarantined": 2})
    assert "in.jsonl was read: 3 new, 2 bad" in ran.said
    assert place.fine("failures", "job.py").splitlines()[-1] == "Next: mend the input, then onward run job.py"
    released = place.fine("release", "job.py", "--all")
    assert "nothing matches" in released
    assert "(release is not for 2 bad lines)" in released
    assert "(release is not for 1 bad line)" in place.fine("release", "job.py", "in.jsonl:2")
    assert (place.run().counts, place.calls()) == (ran.counts, [1])

    place.write("mended.jsonl", [{"key": "in.jsonl:2", "input": {"id": 2}}])
    assert "1 quarantined record marked for release" in place.fine("release", "job.py", "--from", "mended.jsonl")
    assert place.run().counts == {"succeeded": 2, "quarantined": 1}
    assert [row["outputs"]["echo"] for row in place.export()] == [{"id": 1}, {"id": 2}]


def test_the_text_of_a_bad_line_is_not_taken_for_a_record(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job(SOURCE, on_bad='"quarantine"'))
    (tmp_path / "in.jsonl").write_text('{"id": 1}\n{"id": 2, "text": "x\n{"id": 3\n')
    assert place.run().code == 1
    first, second = place.export("wrong.jsonl", "--state", "quarantined")
    for mended, form in (('{"id": 2}', '{"id":2}'), ("2", '{"field":"value"}'), ("3,a", '{"field":"value"}')):
        place.write("mended.jsonl", [{**first, "input": {"line": mended}}, second])
        refused = place.onward("release", "job.py", "--from", "mended.jsonl")
        assert refused.returncode == 2
        assert "mended.jsonl:1: in place of a bad line stands the whole record" in refused.stderr
        assert f'{{"key":"in.jsonl:2","input":{form}}}' in refused.stderr
    assert place.status()["counts"]["quarantined"] == 2
    place.write("mended.jsonl", [{**first, "input": {"line": "a record's own", "id": 2}}, second])
    assert "(release is not for 1 bad line)" in place.fine("release", "job.py", "--from", "mended.jsonl")
    assert place.run().counts == {"succeeded": 2, "quarantined": 1}
    assert [row["key"] for row in place.export()] == [1, "in.jsonl:2"]


def test_events_never_hold_the_text_of_an_error_and_the_words_for_people_may(tmp_path: Path) -> None:
    for raised in ("Fatal", "Rejected", "Transient"):
        (tmp_path / raised).mkdir()
        place = Place(tmp_path / raised, echo_job(SOURCE).replace("return record", f'raise onward.{raised}("Ada")'))
        place.write("in.jsonl", [{"id": 1}])
        ended = place.onward("run", "job.py", "--log-format", "json", "--max-time", "1")
        events = [json.loads(line) for line in ended.stderr.splitlines()]
        assert events[-1]["event"] == "run_finished"
        assert "Ada" not in ended.stderr
        assert ("Ada" in ended.stdout) == (raised == "Fatal")


def test_a_record_may_have_a_line(tmp_path: Path) -> None:
    place = Place(
        tmp_path, echo_job('onward.jsonl("in.jsonl", key="line")').replace("return record", "raise onward.Invalid")
    )
    place.write("in.jsonl", [{"line": "a"}])
    assert place.run().counts == {"quarantined": 1}
    place.write("mended.jsonl", [{"key": "a", "input": {"line": "b"}}])
    place.fine("release", "job.py", "--from", "mended.jsonl")
    assert place.status()["counts"]["pending"] == 1


def test_a_record_that_does_not_fit_keeps_its_key_and_a_corrected_one_goes_on(tmp_path: Path) -> None:
    place = Place(tmp_path, TICKETS)
    place.write("in.jsonl", [{"id": "a", "size": 1}, {"id": "b", "size": "huge"}, {"id": "c", "size": 3}])
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 2, "quarantined": 1})
    [failure] = place.failures()
    assert (failure["key"], failure["step"], failure["kind"]) == ("b", None, "invalid")
    assert "size" in failure["error"]
    [wrong] = place.export("wrong.jsonl", "--state", "quarantined")
    place.write("mended.jsonl", [{**wrong, "input": {"id": "b", "size": 2}}])
    place.fine("release", "job.py", "--from", "mended.jsonl")
    after = place.run()
    assert (after.code, after.counts) == (0, {"succeeded": 3})
    assert {row["key"]: row["outputs"]["measure"] for row in place.export()} == {"a": 1, "b": 2, "c": 3}


def test_an_input_from_elsewhere_needs_a_word(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job(SOURCE))
    place.write("in.jsonl", [{"id": "a"}, {"id": "b"}])
    assert place.run().code == 0
    place.job(echo_job('onward.jsonl("moved.jsonl", key="id")'))
    place.write("moved.jsonl", [{"id": "b"}, {"id": "c"}])
    refused = place.onward("run", "job.py")
    assert refused.returncode == 2
    assert "--source-changed" in refused.stderr
    ran = place.run("--source-changed")
    assert (ran.code, ran.counts, ran.status["vanished"]) == (0, {"succeeded": 2}, 1)
    assert sorted(place.calls()) == ["a", "b", "c"]


def test_an_unknown_param_lists_those_that_there_are(tmp_path: Path) -> None:
    place = Place(tmp_path, TICKETS)
    place.write("in.jsonl", [{"id": "a", "size": 1}])
    ended = place.onward("run", "job.py", "-p", "facter=2")
    assert ended.returncode == 2
    assert "factor" in ended.stderr
    wrong = place.onward("run", "job.py", "-p", "factor=many")
    assert wrong.returncode == 2
    assert "factor" in wrong.stderr
    assert place.calls() == []
    plain(ended.stderr + wrong.stderr)
