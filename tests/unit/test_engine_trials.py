"""Which record is tried in an outage: those seen failing come last, so that a few do not hold up all others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import onward
from onward.policy import outage

MANY = 60


def a_job(bad: set[int], calls: list[int], concurrency: int, group: bool) -> onward.Job:
    rows = [{"id": number, "place": "CA"} for number in range(MANY)]
    work = onward.Job("trials", source=onward.iterable(lambda: rows, key="id", version="1"), concurrency=concurrency)

    @work.step(
        version="1",
        retry=onward.Retry(attempts=2, base=0.01, cap=0.02),
        group=onward.Group("place") if group else None,
    )
    async def answer(record: Any) -> int:
        number: int = record["id"]
        calls.append(number)
        if number in bad:
            raise onward.Transient("busy")
        await asyncio.sleep(0.001)
        return number

    return work


@pytest.mark.parametrize("group", [False, True], ids=["step", "group"])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_bad_records_in_front_are_no_outage_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concurrency: int, group: bool
) -> None:
    """Eight that always fail are the first of all: each that comes after them is done, and they use up attempts."""
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.05)
    calls: list[int] = []
    bad = set(range(8))
    work = a_job(bad, calls, concurrency, group)
    result = onward.run(work, store=str(tmp_path / "store.db"), max_time=40.0)
    assert (result.exit_code, result.counts["succeeded"], result.counts["failed"]) == (1, MANY - 8, 8)
    assert max(calls.count(number) for number in bad) <= 2 + 2 + 2, "two attempts, two outages, two trials"


def test_whoever_was_seen_failing_is_not_tried_while_there_are_others() -> None:
    failing = outage.Failing()
    for record in (1, 2, 1):
        failing.met(record)
    assert failing.last == [2, 1]
    failing.others_passed(was_outage=False)
    assert failing.last == [], "what was suspected was none"
    for _ in range(2):
        assert not failing.is_its_own(3)
        failing.met(3)
        failing.others_passed(was_outage=True)
    assert failing.is_its_own(3), "others were answered twice while it was not"
    assert failing.last == [3]
