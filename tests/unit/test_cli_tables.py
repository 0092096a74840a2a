"""Tables for people: what is left of them where it is narrow, and what they say of a record."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from onward.cli import tables
from onward.cli.target import Target
from onward.job.job import Job
from onward.model import State
from onward.sources.iterable import iterable

ADVICE = "\nFor more information check: https://developer.mozilla.org/en-US/docs"
REASON = f"Client error '404 Not Found' for url 'https://a.example/v1/records/7'{ADVICE}"
TARGET = Target("case", ("job.py",), None, None, None)


def drawn(parts: Any, width: int) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, highlight=False, markup=False, emoji=False)
    shown: list[RenderableType] = list(parts)
    for part in shown:
        console.print(part)
    return text.getvalue()


def cause(**given: Any) -> dict[str, Any]:
    made = {"step": "fetch", "kind": "rejected", "error_type": "HTTPStatusError", "count": 1, "key": 7, "error": REASON}
    return {**made, "counts": {"quarantined": 1}, **given}


def failed() -> dict[str, Any]:
    made = {"key": 7, "state": "quarantined", "step": "fetch", "kind": "rejected", "attempts": 1, "error": REASON}
    return {**made, "at": "2026-11-30T23:15:00.123456Z", "vanished": False}


@pytest.mark.parametrize("width", [80, 100])
def test_failures_have_room_for_their_reason(width: int) -> None:
    said = drawn(tables.failures([cause()], [failed()], TARGET), width)
    [line] = [line for line in said.splitlines() if line.startswith("7 ")]
    assert "Client error '404 Not Found' for url" in line
    assert max(map(len, said.splitlines()[:-1])) <= width


def test_where_there_is_room_the_time_is_told() -> None:
    assert "2026-11-30 23:15:00" in drawn(tables.failures([cause()], [failed()], TARGET), 160)
    short = {**failed(), "error": "no account"}
    assert "2026-11-30 23:15:00" in drawn(tables.failures([cause()], [short], TARGET), 90), "it is not in the way"


def test_of_an_error_the_first_line_is_shown() -> None:
    said = drawn(tables.failures([cause()], [failed()], TARGET), 300)
    assert "For more information" not in said
    assert "records/7'\n" in "\n".join(line.rstrip() for line in said.splitlines())


def job() -> Job:
    made = Job("case", source=iterable(lambda: [{"id": 1}], key="id"))

    @made.effect("blind", key="id")
    def blind(payload: Any) -> str:
        return "r"

    @made.effect("asked", key="id")
    def asked(payload: Any) -> str:
        return "r"

    @asked.probe
    def probe(idempotency_key: str) -> str:
        return "r"

    return made


def test_who_cannot_be_asked_about_is_for_a_person() -> None:
    target = Target(job(), ("job.py",), None, None, None)
    open_ones = [cause(step=step, count=2, counts={"unconfirmed": 2}) for step in ("blind", "asked")]
    by_a_person = "see whether it was sent, then onward reconcile job.py KEY --sent RECEIPT (or --not-sent)"
    for causes, said in (
        (open_ones[:1], [f"Next: {by_a_person}"]),
        (open_ones[1:], ["Next: onward reconcile job.py"]),
        (
            open_ones,
            [
                "Next for the 2 unconfirmed: onward reconcile job.py",
                f"Next for the 2 that nobody can be asked about: {by_a_person}",
            ],
        ),
    ):
        shown = drawn(tables.failures(causes, [failed()], target), 200)
        assert [line for line in shown.splitlines() if line.startswith("Next")] == said


def test_a_records_generations_stand_apart_and_say_what_they_are() -> None:
    checkpoint = {"step": "a", "version": "1", "at": "2026-11-30T23:15:00Z", "run": "1", "output": 1}
    every: dict[str, Any] = {
        "generations": [
            {"generation": number, "succeeded": ended, "input": 1, "checkpoints": [checkpoint] if ended else []}
            | {"usage": []}
            for number, ended in enumerate((None, True, False))
        ],
        "failure": {"kind": "conflict", "step": "a", "at": "2026-11-30T23:15:00Z", "error_type": "PayloadConflict"}
        | {"error": "", "received": None},
    }
    rest = {"key": 7, "state": str(State.PENDING), "step": None, "attempts": 0, "deaths": 0, "vanished": False}
    rest |= {"stale": False, "waiting": None, "input_waits": False, "held_by": None, "effects": [], "history": []}
    lines = [line.rstrip() for line in drawn(tables.record({**rest, **every}), 100).splitlines()]
    headings = {line: lines[number - 1] for number, line in enumerate(lines) if line.startswith("generation")}
    assert headings == {
        "generation 0: no outputs are kept of it": "",
        "generation 1: succeeded": "",
        "generation 2: not finished": "",
    }
    assert lines[-1] == "last failure (conflict at a, 2026-11-30 23:15:00 UTC): PayloadConflict"
