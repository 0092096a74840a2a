"""A record that kills its process is found among its neighbours and set aside; the others finish."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, wait_until

RECORDS = 30
KEYS = [f"r{number:02}" for number in range(RECORDS)]
KILLER = """
import signal
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)

@job.step
%s work(record):
    started(record["id"], "work")
    if record["id"] == "r17":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return record["id"]
"""
GLUTTON = """
import resource
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)

@job.step
def work(record):
    started(record["id"], "work")
    if record["id"] == "r17":
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.RLIM_INFINITY))
        hoard = []
        while True:
            hoard.append(bytearray(256 << 20))
    return record["id"]
"""


SENDER = """
import asyncio, signal
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)
APPLIED = HERE / "applied.log"

@job.effect("filing", key="id", deadline=2, settle=0)
async def file(payload, idempotency_key):
    if payload["id"] == "r17":
        await asyncio.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0.05)
    with APPLIED.open("a") as log:
        log.write(json.dumps([payload["id"], idempotency_key]) + "\\n")
    return "filed"

@file.payload
def body(record):
    return record

@file.probe
def filed(idempotency_key):
    lines = APPLIED.read_text().splitlines() if APPLIED.exists() else []
    return "filed" if any(json.loads(line)[1] == idempotency_key for line in lines) else onward.ABSENT
"""


def a_place(folder: Path, text: str, keys: list[str] = KEYS) -> Place:
    place = Place(folder, text)
    place.write("in.jsonl", [{"id": key} for key in keys])
    return place


def until_it_ends_by_itself(place: Place, most: int = 6) -> tuple[int, int]:
    """What a shell loop does: start again as long as the process dies. Starts and the last exit code."""
    for start in range(1, most + 1):
        code = place.onward("run", "job.py").returncode
        if code >= 0:
            return start, code
    raise AssertionError(f"still dying after {most} starts")


def test_three_starts_at_most_and_exactly_the_guilty_one(tmp_path: Path) -> None:
    place = a_place(tmp_path, KILLER % "async def")
    starts, code = until_it_ends_by_itself(place)
    assert starts <= 3
    assert code == 1
    (failure,) = place.failures()
    assert failure["key"] == "r17"
    assert failure["state"] == "quarantined"
    assert failure["kind"] == "system"
    assert "the process died while it ran" in failure["error"]
    assert "SIGKILL" in failure["error"] and "peak memory" in failure["error"]
    counts = place.status()["counts"]
    assert counts["succeeded"] == RECORDS - 1 and counts["quarantined"] == 1
    assert [row["key"] for row in place.export()] == [key for key in KEYS if key != "r17"]


def test_two_that_kill_are_both_found(tmp_path: Path) -> None:
    both = (KILLER % "def").replace('== "r17"', 'in ("r17", "r18")').replace("os.kill", "time.sleep(0.3); os.kill")
    place = a_place(tmp_path, both)  # each waits for the other to have started
    starts, code = until_it_ends_by_itself(place)
    assert starts <= 3
    assert code == 1
    assert [failure["key"] for failure in place.failures()] == ["r17", "r18"]
    assert place.status()["counts"]["succeeded"] == RECORDS - 2


def test_an_effect_that_kills_is_found_though_its_outcome_is_open(tmp_path: Path) -> None:
    """Between two tries its send has to have landed, so that it leaves the run and comes back, as do its neighbours."""
    place = a_place(tmp_path, SENDER)
    starts, code = until_it_ends_by_itself(place)
    assert starts <= 3
    assert code == 1
    (failure,) = place.failures()
    assert (failure["key"], failure["state"], failure["kind"]) == ("r17", "quarantined", "system")
    assert place.status()["counts"]["succeeded"] == RECORDS - 1
    applied = [json.loads(line)[0] for line in (tmp_path / "applied.log").read_text().splitlines()]
    assert sorted(applied) == [key for key in KEYS if key != "r17"]


def test_a_convict_that_is_released_and_cured_succeeds(tmp_path: Path) -> None:
    place = a_place(tmp_path, KILLER % "def")
    until_it_ends_by_itself(place)
    place.fine("release", "job.py", "r17")
    place.job((KILLER % "def").replace('== "r17"', '== "nobody"'))
    assert place.onward("run", "job.py").returncode == 0
    assert place.status()["counts"]["succeeded"] == RECORDS


def test_memory_that_runs_out_is_the_failure_of_one_record(tmp_path: Path) -> None:
    place = a_place(tmp_path, GLUTTON)
    starts, code = until_it_ends_by_itself(place)
    assert code == 1
    assert starts <= 3
    (failure,) = place.failures()
    assert failure["key"] == "r17"
    assert failure["kind"] == "system"
    assert place.status()["counts"]["succeeded"] == RECORDS - 1


CROWD = """
import asyncio
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=256)

@job.step
async def work(record):
    started(record["id"], "work")
    await asyncio.sleep(1.0)
    return record["id"]
"""


def test_a_crowd_that_is_killed_three_times_is_innocent_and_not_slower(tmp_path: Path) -> None:
    keys = [f"r{number:04}" for number in range(600)]
    (tmp_path / "calm").mkdir()
    (tmp_path / "killed").mkdir()
    calm = a_place(tmp_path / "calm", CROWD, keys)
    began = time.monotonic()
    assert calm.onward("run", "job.py").returncode == 0
    undisturbed = time.monotonic() - began
    place = a_place(tmp_path / "killed", CROWD, keys)
    for _ in range(3):
        before = len(place.calls())
        process = place.start("run", "job.py")
        wait_until(lambda before=before: len(place.calls()) >= before + 256)
        process.kill()
        process.wait()
    began = time.monotonic()
    ended = place.run()
    seconds = time.monotonic() - began
    assert ended.code == 0
    assert ended.counts == {"succeeded": len(keys)}
    assert seconds < undisturbed + 3, f"{seconds:.1f} s, undisturbed {undisturbed:.1f} s"
    assert place.failures() == []
    assert len(place.export()) == len(keys)


def test_a_death_is_charged_only_to_what_had_started(tmp_path: Path) -> None:
    """Concurrency 4 and slow calls: however many records lie ready, a kill leaves a trace on hardly more than four."""
    text = CROWD.replace("256", "4").replace("sleep(1.0)", "sleep(0.5)")
    place = a_place(tmp_path, text, [f"r{number:04}" for number in range(400)])
    process = place.start("run", "job.py")
    wait_until(lambda: len(place.calls()) >= 12)
    process.kill()
    process.wait()
    assert place.onward("run", "job.py", "--limit", "1").returncode == 0
    deaths = [json.loads(place.fine("show", "job.py", f"r{number:04}", "--json"))["deaths"] for number in (40, 399)]
    assert deaths == [0, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_memory_that_runs_out_for_onward_itself_is_no_fault_of_onward(tmp_path: Path) -> None:
    place = Place(tmp_path, EATS_ALL)
    bounded = ("bash", "-c", 'ulimit -v 3000000; exec "$@"', "bash")
    for _ in range(4):
        ended = place.onward("run", "job.py", before=bounded)
        plain(ended.stderr + ended.stdout)
        assert ended.returncode in (1, 3), ended.stderr
        if ended.returncode == 1:
            break
        assert "memory ran out" in ended.stdout + ended.stderr
    assert [(one["key"], one["kind"]) for one in place.failures()] == [(17, "system")]
    assert place.status()["counts"]["succeeded"] == 39
    assert all(run["exit_code"] is not None for run in place.status()["runs"])


EATS_ALL = """
job = onward.Job("case", source=onward.iterable(lambda: range(40), version="1"))

@job.step
def eat(record):
    kept = []
    while record == 17:
        kept.append(bytearray(1 << 20))
    return record
"""


DEADLY_EFFECT = """
import signal
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)

@job.effect("notice", key="id", deadline=1.0, settle=0.2%s)
async def send(record):
    started(record["id"], "send")
    if record["id"] == "r17":
        os.kill(os.getpid(), signal.SIGKILL)
    return record["id"]
"""
NOTHING_THERE = """
@send.probe
async def there(record):
    return onward.ABSENT
"""


@pytest.mark.parametrize(
    "text",
    [DEADLY_EFFECT % ", keyed=True", DEADLY_EFFECT % "" + NOTHING_THERE],
    ids=["sent again with its key", "asked about first"],
)
def test_an_effect_that_kills_is_found_as_soon(tmp_path: Path, text: str) -> None:
    """Also where a run has to wait before it may ask: a suspect stays one meanwhile."""
    place = a_place(tmp_path, text)
    starts, code = until_it_ends_by_itself(place)
    assert (starts <= 3, code) == (True, 1)
    (failure,) = place.failures()
    assert (failure["key"], failure["state"], failure["kind"]) == ("r17", "quarantined", "system")
    assert place.status()["counts"]["succeeded"] == RECORDS - 1
    assert len(place.export()) == RECORDS - 1


def test_an_effect_that_kills_and_that_nobody_can_be_asked_about_is_left_to_a_person(tmp_path: Path) -> None:
    place = a_place(tmp_path, DEADLY_EFFECT % "")
    assert until_it_ends_by_itself(place) == (2, 1)
    assert place.calls("send").count("r17") == 1
    failures = place.failures()
    assert "r17" in {one["key"] for one in failures}
    assert {one["state"] for one in failures} == {"unconfirmed"}
    assert len(failures) <= 8 + 8  # what was being sent, or about to be, when the process died
    assert sorted(set(place.calls("send"))) == sorted(place.calls("send"))
