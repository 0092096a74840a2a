"""Case 26: a short outage pushes good records into the permanent-failure list."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain
from acceptance.portal import ASK, portal

SOURCE = 'onward.jsonl("in.jsonl", key="id")'
BY_STATE = [{"id": n, "state": ("CA", "NY", "TX")[n % 3]} for n in range(90)]
JOB = f"""
job = onward.Job("answers", source={SOURCE}, concurrency=20OPTIONS)
{ASK}
@job.step(retry=onward.Retry(attempts=3))
def answer(record):
    started(record["id"], "answer")
    return ask("model", record["id"])
"""


def a_place(folder: Path, options: str = "", records: int = 500) -> Place:
    place = Place(folder, JOB.replace("OPTIONS", options))
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    return place


@pytest.mark.parametrize(
    "seconds", [pytest.param(6.0, id="short"), pytest.param(90.0, id="whole", marks=pytest.mark.slow)]
)
def test_during_an_outage_few_try_and_nobody_fails(tmp_path: Path, seconds: float) -> None:
    with portal(tmp_path) as server:
        server.rule("model", 503, begin=2.0, seconds=seconds)
        place = a_place(tmp_path, records=3000)
        ran = place.run(timeout=seconds + 120)
        assert (ran.code, ran.counts) == (0, {"succeeded": 3000})
        assert place.failures() == []
        refused = server.requests(status=503)
        assert 3 <= len(refused) <= 3 + 20 + 3 + seconds / 5
        assert "step answer: calls fail (urllib.error.HTTPError 503)" in ran.said
        assert "goes on: step answer is open" in ran.said
        plain(ran.said)


def test_refused_connections_are_an_outage_and_past_its_limit_the_run_ends(tmp_path: Path) -> None:
    place = a_place(tmp_path, ", outage_limit=4.0", records=100)
    (tmp_path / "port").write_text("1")  # nobody listens there
    began = time.monotonic()
    ran = place.run()
    assert time.monotonic() - began < 60
    assert (ran.code, ran.counts) == (3, {"pending": 100})
    assert "stopped: step answer: calls went on failing (urllib.error.URLError)" in ran.said
    assert 3 <= len(place.calls()) <= 40
    (tmp_path / "port").unlink()
    with portal(tmp_path):
        assert place.run().counts == {"succeeded": 100}


def test_records_that_always_fail_are_no_outage(tmp_path: Path) -> None:
    """Faults of their own, one after the other at the end of a run, use up attempts."""
    place = Place(
        tmp_path,
        f"""
job = onward.Job("answers", source={SOURCE}, concurrency=4)

@job.step(retry=onward.Retry(attempts=2, base=0.1))
def answer(record):
    time.sleep(0.01)
    if record["id"] % 10 == 0:
        raise onward.Transient("busy")
""",
    )
    place.write("in.jsonl", [{"id": number} for number in range(100)])
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 90, "failed": 10})
    assert {one["attempts"] for one in place.failures()} == {2}


def test_one_group_is_out_the_others_finish_and_the_run_goes_on_by_itself(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        server.rule("CA", 503, seconds=8.0)
        place = Place(
            tmp_path,
            f"""
job = onward.Job("filings", source={SOURCE})
{ASK}
@job.step(group=onward.Group("state", concurrency=4), retry=onward.Retry(attempts=1))
def file(record):
    return ask(record["state"], record["id"])
""",
        )
        place.write("in.jsonl", BY_STATE)
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": 90})
        assert len(server.requests("CA", 503)) <= 14
        first = server.requests("CA", 200)[0][0]
        assert max(one[0] for one in server.requests() if one[1] != "CA") < first
        assert "group CA: calls fail (urllib.error.HTTPError 503)" in ran.said


@pytest.mark.parametrize("refused", [False, True], ids=["unknown", "known not to be applied"])
def test_an_outage_of_one_group_in_an_effect(tmp_path: Path, refused: bool) -> None:
    """A 503 leaves open whether it was applied: those few are unconfirmed for a while, the others wait unsent."""
    told = 'raise onward.Transient("not now", sent=False) from None' if refused else "raise"
    with portal(tmp_path) as server:
        server.rule("CA", 503, seconds=6.0)
        place = Place(
            tmp_path,
            f"""
import urllib.error
job = onward.Job("filings", source={SOURCE})
{ASK}
@job.effect("report", key="id", keyed=True, group=onward.Group("state", concurrency=4))
def file(record):
    try:
        return ask(record["state"], record["id"])
    except urllib.error.HTTPError:
        {told}
""",
        )
        place.write("in.jsonl", BY_STATE)
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": 90})
        assert place.failures() == []
        assert len(server.requests("CA", 503)) <= 14
        assert len(server.requests("CA", 200)) == 30


def test_an_outage_that_meets_the_questions_before_sending(tmp_path: Path) -> None:
    """An effect with a probe asks before it sends: then the outage shows in its probes, and nobody else is asked."""
    with portal(tmp_path) as server:
        server.rule("CA", 503, seconds=8.0)
        place = Place(
            tmp_path,
            f"""
job = onward.Job("filings", source={SOURCE})
{ASK}
@job.effect("report", key="id", deadline=5.0, settle=0.0, group=onward.Group("state", concurrency=4))
def file(record):
    return ask(record["state"], record["id"])

@file.probe
def filed(record):
    ask(record["state"], "lookup")
    return onward.ABSENT
""",
        )
        place.write("in.jsonl", BY_STATE)
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": 90})
        refused = server.requests("CA", 503)
        assert {one[2] for one in refused} == {"lookup"}
        assert len(refused) <= 14
        assert len([one for one in server.requests("CA", 200) if one[2] != "lookup"]) == 30
        assert "group CA: calls fail (urllib.error.HTTPError 503)" in ran.said


def test_a_run_stays_for_an_outage_where_nothing_but_open_effects_is_left(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        server.rule("model", 503, seconds=6.0)
        place = Place(
            tmp_path,
            f"""
job = onward.Job("filings", source={SOURCE})
{ASK}
@job.effect("report", key="id", keyed=True)
def file(record):
    return ask("model", record["id"])
""",
        )
        place.write("in.jsonl", [{"id": number} for number in range(3)])
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": 3})
        assert len(server.requests(status=503)) <= 3 + 4
