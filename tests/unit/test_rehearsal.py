"""What a rehearsal concludes from what it saw, and the parts of it that need no process."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onward
from onward import api
from onward.errors import UsageError
from onward.job.job import Job
from onward.job.loading import load_job
from onward.rehearsal import outcomes
from onward.rehearsal.first_records import FirstRecords
from onward.rehearsal.judge import Judge
from onward.rehearsal.promises import open_promises
from onward.rehearsal.report import Finding
from onward.rehearsal.scenarios import Scenario, points_of
from onward.rehearsal.survival import changed, first_difference
from onward.sources.iterable import iterable
from onward.sources.jsonl import jsonl

job = Job("case", source=jsonl("in.jsonl", key="id"))


@job.step
def check(record: dict[str, Any]) -> str:
    return "ok"


@job.effect("keyed", key="id", keyed=True)
def keyed(record: Any, idempotency_key: str) -> str:
    return "receipt"


@job.effect("probed", key="id")
def probed(record: Any, idempotency_key: str) -> str:
    return "receipt"


@probed.probe
def ask(idempotency_key: str) -> Any:
    return onward.UNKNOWN


@job.effect("forgets", key="id", keyed=True, expires=3600.0)
def forgets(record: Any, idempotency_key: str) -> str:
    return "receipt"


@job.effect("unknown", key="id")
def unknown(record: Any, idempotency_key: str) -> str:
    return "receipt"


PLAN = job.plan()


def scenario(*events: dict[str, Any], number: int = 1, at: str | None = "x") -> Scenario:
    return Scenario(number, at, "after a kill", events=list(events))


def judged(*scenarios: Scenario) -> list[tuple[str, str, str | None]]:
    return [(one.kind, one.level, one.step) for one in Judge(PLAN, scenarios).findings()]


def send(what: str, step: str = "keyed", receipt: str = "r", key: str = "k") -> dict[str, Any]:
    came = {"came": "returned", "receipt": receipt} if what == "back" else {}
    of = {"what": what, "phase": "send", "step": step, "record": 1, "generation": 1, "key": "a", "point": "p"}
    return {**of, "idempotency_key": key, **came}


def output(text: str, step: str = "check", made_from: str = "m", read: str = "i") -> dict[str, Any]:
    of = {"what": "output", "phase": "step", "step": step, "record": 1, "generation": 1, "key": "a"}
    return {**of, "input": read, "made_from": made_from, "hash": text, "text": text}


def started(record: int = 1, key: Any = "a", generation: int = 1) -> dict[str, Any]:
    of = {"what": "call", "phase": "step", "step": "check", "point": "", "idempotency_key": None}
    return {**of, "record": record, "generation": generation, "key": key}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((1, 2), [1, 2], "the output is a tuple"),
        ({"a": [{"b": ()}]}, {"a": [{"b": []}]}, "the output.a[0].b is a tuple"),
        ([1, {"a": None}], [1, {"a": None}], None),
        (Path("x"), "x", None),  # its annotation has its own word for it
    ],
)
def test_what_plain_containers_become(before: Any, after: Any, found: str | None) -> None:
    told = changed(before, after)
    assert told is None if found is None else told is not None and told.startswith(found)


def test_the_first_difference_is_a_path() -> None:
    assert first_difference({"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 4}], "c": 5}) == "a[1].b"
    assert first_difference({"a": 1}, {"b": 1}) == ""
    assert first_difference([1], [1, 2]) == ""


def records_of(source: Any, number: int) -> list[str]:
    blocks = list(FirstRecords(source, number).read(None, None))
    assert [block.complete for block in blocks] == [False] * (len(blocks) - 1) + [True]
    return [record.key for block in blocks for record in block.records]


def test_the_first_records_are_a_source(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"id": number}) + "\n" for number in range(5000)))
    source = jsonl(str(file), key="id")
    assert records_of(source, 3) == ["0", "1", "2"]
    assert len(records_of(source, 4900)) == 4900
    assert len(records_of(source, 9000)) == 5000
    first = FirstRecords(source, 3)
    cursor = next(first.read(None, None)).cursor
    assert first.resume(cursor, True).how in ("done", "again")
    assert first.resume(cursor, False).cursor is None  # a cursor does not say how many lie before it


def test_a_source_without_an_end_has_first_records() -> None:
    def endless() -> Iterator[int]:
        return itertools.count()

    assert records_of(iterable(endless), 4) == ["0", "1", "2", "3"]


def test_points_are_each_commit_and_both_sides_of_each_call() -> None:
    events = [
        {"what": "commit", "points": ["after commit of a claim, 1"], "of": "a claim"},
        started(),
        {"what": "coming", "points": ["before commit of c 1, 1", "x"], "of": "the checkpoint of check"},
        send("call"),
        send("back"),
    ]
    assert points_of(events) == [
        ("after commit of a claim, 1", "after the commit of a claim"),
        ("before commit of c 1, 1", "before the commit of the checkpoint of check"),
        ("before p", "before keyed was sent"),
        ("after p", "after keyed was sent"),
    ]


def test_a_second_send_is_judged_by_what_the_far_side_promises() -> None:
    assert judged(scenario(send("call"), send("back"), send("call"), send("back"))) == []
    other = scenario(send("call"), send("back"), send("call"), send("back", receipt="other"))
    assert judged(other) == [("applied twice", "fault", "keyed")]
    assert judged(scenario(send("call"), send("call"), send("back"))) == []  # the first never returned
    twice = scenario(send("call", "probed"), send("back", "probed"), send("call", "probed"))
    assert judged(twice) == [("applied twice", "fault", "probed")]
    elsewhere = scenario(send("call", "probed"), send("back", "probed"), send("call", "probed", key="k2"))
    assert judged(elsewhere) == []


def test_outputs_are_compared_where_all_they_are_made_from_is_alike() -> None:
    assert judged(scenario(output("1")), scenario(output("2"))) == [("not deterministic", "fault", "check")]
    assert judged(scenario(output("1"), output("2"))) == [("not deterministic", "fault", "check")]
    assert judged(scenario(output("1")), scenario(output("2", made_from="other"))) == []
    assert judged(scenario(output("1")), scenario(output("2", read="other"))) == [
        ("input is not stable", "warning", None)
    ]


def test_a_step_that_runs_after_its_checkpoint_is_a_fault_of_onward() -> None:
    done = {"what": "commit", "points": ["p"], "of": "c", "done": [[1, 1, "check"]]}
    assert judged(scenario(started(), done, started())) == [("ran again after its checkpoint", "fault", "check")]
    assert judged(scenario(started(), started(), done)) == []  # died before the commit
    assert judged(scenario(started(), done, started(generation=2))) == []  # its input has changed


def test_records_that_come_under_another_key_are_found() -> None:
    first = scenario(started(), number=0, at=None)
    assert judged(first, scenario(started(key="b"))) == [("records are not stable", "fault", None)]
    assert judged(first, scenario(started())) == []


def test_declarations_that_leave_something_open() -> None:
    found = [(one.kind, one.level, one.step) for one in open_promises(PLAN)]
    assert found == [("key expires", "warning", "forgets"), ("could be applied twice", "fault", "unknown")]


def ended(state: str, step: str, until: float | None = None) -> dict[str, Any]:
    one = {"key": "a", "state": state, "step": step, "kind": None, "error_type": "", "error": "why", "until": until}
    return {"what": "ended", "code": 1, "reason": "", "total": 2, "counts": {"succeeded": 1}, "open": [one]}


FIRST = scenario({"what": "ended", "code": 0, "total": 2, "counts": {"succeeded": 2}, "open": []}, at=None)


def after_kill(event: dict[str, Any]) -> list[Finding]:
    return list(outcomes.of_killed(PLAN, FIRST, [scenario({"what": "killed"}, event)]))


def test_what_is_left_open_after_a_kill_is_told_unless_it_was_to_be_expected() -> None:
    assert after_kill(ended("unconfirmed", "unknown")) == []
    assert [one.kind for one in after_kill(ended("unconfirmed", "probed"))] == ["stayed unconfirmed"]
    assert "--wait" in after_kill(ended("unconfirmed", "probed", until=9e9))[0].advice
    assert [one.kind for one in after_kill(ended("failed", "check"))] == ["fails when resumed"]
    stopped = {**ended("failed", "check"), "code": 4, "reason": "fatal", "open": []}
    assert [one.kind for one in after_kill(stopped)] == ["resumed run stopped"]


def test_runs_that_were_not_killed_are_no_proof() -> None:
    killed, missed = scenario({"what": "killed"}), scenario()
    assert list(outcomes.of_missed([killed] * 9 + [missed])) == []
    assert [one.kind for one in outcomes.of_missed([killed] * 8 + [missed])] == ["not killed as meant"]


def test_whoever_hears_what_will_be_called_can_leave(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        "from pathlib import Path\nimport onward\n"
        'job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))\n'
        '@job.effect("filing", key="id", keyed=True)\n'
        'def submit(record, idempotency_key):\n    Path(__file__).with_name("called").touch()\n'
    )
    (tmp_path / "in.jsonl").write_text('{"id": "a"}\n')
    told = []

    def leave(announced: Any) -> None:
        told.append(announced)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        api.rehearse(load_job(str(file)), announce=leave)
    assert [(one.step, one.effect, one.calls) for one in told[0].effects] == [("submit", "filing", ("send",))]
    assert told[0].key_prefix.startswith("rehearsal-")
    assert not (tmp_path / "called").exists()


def test_wrong_use_is_told() -> None:
    with pytest.raises(UsageError, match="must be a Job"):
        api.rehearse("job")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="records"):
        api.rehearse(job, records=0)

    async def inside() -> None:
        api.rehearse(job)

    with pytest.raises(UsageError, match="to_thread"):
        asyncio.run(inside())
