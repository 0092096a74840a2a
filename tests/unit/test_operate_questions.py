"""Status, failures, show: true words about living, dead and waiting work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from operate_jobs import Batch

import onward
from onward import api

SLOW_JOB = """
import time
import onward

job = onward.Job("slow", source=onward.iterable(lambda: range(8), version="1"), concurrency=4)

@job.step
def quick(number):
    return number

@job.step(timeout=60)
def slow(number):
    if number >= 2:
        time.sleep(60)
    return number
"""


@pytest.fixture
def slow_run(tmp_path: Path) -> Any:
    """A run in another process, four calls of which are in progress."""
    file = tmp_path / "slow.py"
    file.write_text(textwrap.dedent(SLOW_JOB))
    code = "import onward; from onward.job.loading import load_job; onward.run(load_job('slow.py'), store='s.db')"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=surroundings())
    store = str(tmp_path / "s.db")
    try:
        until(lambda: [one["step"] for one in ask("slow", store).get("in_flight", [])].count("slow") >= 4)
        yield process, store
    finally:
        process.kill()
        process.wait()


def surroundings() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(part).absolute()) for part in sys.path)}


def ask(job: str, store: str) -> dict[str, Any]:
    try:
        return api.status(job, store=store)
    except onward.OnwardError:
        return {}


def was_told(store: str) -> bool:
    connection = apsw.Connection(store)
    told = connection.execute("SELECT told FROM runs").fetchone()
    connection.close()
    return told != (None,)


def until(true: Any) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_status_has_what_the_contract_names(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [{"id": key, "v": key} for key in range(4)])
    batch.fails["b"] = {1: lambda: ValueError("no"), 2: lambda: onward.Rejected("no")}
    result = batch.run()
    told = onward.status(batch.job(), store=batch.store)
    assert told["job"] == "batch"
    assert told["instance"] == ""
    assert told["store"] == batch.store
    assert told["total"] == 4
    assert told["source_complete"] is True
    assert told["counts"] == result.counts
    assert set(told["counts"]) == {"pending", "in_progress", "succeeded", "failed", "unconfirmed", "quarantined"}
    assert told["waiting"] == []
    assert (told["vanished"], told["stale"]) == (0, 0)
    assert told["steps"] == [
        {"name": "a", "version": "1", "succeeded": 4},
        {"name": "b", "version": "1", "succeeded": 2},
        {"name": "c", "version": "1", "succeeded": 2},
    ]
    (run,) = told["runs"]
    assert set(run) == {"run", "started", "ended", "exit_code", "host", "reason", "head"}
    assert (run["run"], run["exit_code"]) == (result.run, 1)
    assert run["started"].endswith("Z")
    assert run["started"] <= run["ended"]
    assert {(one["step"], one["kind"], one["count"]) for one in told["failures"]} == {
        ("b", "bug", 1),
        ("b", "rejected", 1),
    }


def test_failures_are_told_one_by_one_and_by_cause(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [{"id": key, "v": key} for key in range(9)])
    batch.fails["a"] = {7: lambda: onward.Rejected("not \0 wanted \ud800")}
    batch.fails["b"] = {key: lambda: ValueError("odd") for key in (5, 3, 1)}
    batch.run()
    job, store = batch.job(), batch.store
    told = list(onward.failures(job, store=store))
    assert [one["key"] for one in told] == [1, 3, 5, 7]
    assert told[0]["step"] == "b"
    assert (told[0]["state"], told[0]["kind"], told[0]["error_type"]) == ("failed", "bug", "ValueError")
    assert told[0]["error"].startswith("odd")
    assert (told[0]["attempts"], told[0]["deaths"]) == (1, 0)
    assert told[3]["error"].startswith("not \0 wanted")
    assert [one["key"] for one in onward.failures(job, kind="rejected", store=store)] == [7]
    assert [one["key"] for one in onward.failures(job, state="failed", store=store)] == [1, 3, 5]
    with pytest.raises(onward.UsageError, match="choices: failed"):
        onward.failures(job, state="pending", store=store)
    with pytest.raises(onward.UsageError, match="no kind"):
        onward.failures(job, kind="odd", store=store)
    first, second = api.causes(job, store=store)
    assert (first["step"], first["kind"], first["error_type"], first["count"], first["key"]) == (
        "b",
        "bug",
        "ValueError",
        3,
        1,
    )
    assert (second["count"], second["counts"]["quarantined"]) == (1, 1)


def test_a_back_off_is_explained(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [{"id": 1, "v": 1}])
    batch.fails["a"] = {1: lambda: onward.Transient("busy", retry_after=300)}
    batch.run(max_time=0.3)
    told = onward.status(batch.job(), store=batch.store)
    (waiting,) = told["waiting"]
    assert (waiting["count"], "back-off" in waiting["reason"]) == (1, True)
    assert waiting["until"] > told["runs"][0]["started"]
    shown = api.show(batch.job(), 1, store=batch.store)
    assert shown["waiting"]["until"] == waiting["until"]
    assert shown["failure"]["kind"] == "transient"
    onward.status(batch.job(), store=batch.store)


def test_a_living_run_shows_what_it_works_on_and_a_dead_one_is_called_dead(slow_run: Any) -> None:
    process, store = slow_run
    told = api.status("slow", store=store)
    (run,) = told["runs"]
    assert (run["ended"], run["exit_code"], run["reason"]) == (None, None, None)
    assert all(one["key"] >= 2 for one in told["in_flight"] if one["step"] == "slow")
    assert {one["run"] for one in told["in_flight"]} == {run["run"]}
    assert told["waiting"] == []

    process.send_signal(signal.SIGKILL)
    process.wait()
    told = api.status("slow", store=store)
    (run,) = told["runs"]
    assert (run["ended"], run["exit_code"], run["reason"]) == (None, None, "died")
    assert told["in_flight"] == []
    assert told["counts"]["in_progress"] == told["waiting"][0]["count"] > 0
    assert "died" in told["waiting"][0]["reason"]
    assert api.instances("slow", store=store)[0]["last_run"]["reason"] == "died"


def test_a_run_that_was_stopping_when_it_died_is_told_apart(slow_run: Any) -> None:
    process, store = slow_run
    process.send_signal(signal.SIGTERM)
    until(lambda: was_told(store))
    process.kill()
    process.wait()
    (run,) = api.status("slow", store=store)["runs"]
    assert (run["ended"], run["reason"]) == (None, "stopped: SIGTERM")


def test_asking_does_not_disturb_a_run(slow_run: Any) -> None:
    process, store = slow_run
    for _ in range(20):
        assert api.status("slow", store=store)["runs"][0]["reason"] is None
    assert process.poll() is None


def test_asking_in_the_process_of_the_run_leaves_its_lock(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    batch = Batch(tmp_path, [{"id": 1, "v": 1}])
    job = batch.job()
    told: list[Any] = []

    @job.step(version="1")
    def look(record: Any) -> int:
        for _ in range(2):
            told.append(onward.status(job, store=str(link / "store.db"))["runs"][0])
        code = f"from onward import api; print(api.status('batch', store={batch.store!r})['runs'][0]['reason'])"
        told.append(subprocess.check_output([sys.executable, "-c", code], env=surroundings(), text=True))
        return 1

    assert onward.run(job, store=batch.store).exit_code == 0
    assert [one["reason"] for one in told[:2]] == [None, None]
    assert told[2] == "None\n"


def test_show_has_the_whole_history_with_reasons(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [{"id": "k", "v": 1}])
    batch.fails["b"] = {"k": lambda: ValueError("no")}
    batch.run()
    batch.fails.clear()
    batch.run()
    batch.steps["c"] = "2"
    onward.rerun(batch.job(), stale=True, store=batch.store)
    batch.run()
    shown = api.show(batch.job(), "k", store=batch.store)
    assert (shown["key"], shown["state"], shown["generation"], shown["stale"]) == ("k", "succeeded", 1, False)
    assert [entry["event"] for entry in shown["history"]] == ["record_failed", "record_reset", "record_rerun"]
    assert all(entry["reason"] for entry in shown["history"])
    assert shown["failure"]["error"].startswith("no")
    old, new = shown["generations"]
    assert old["versions"] == {"a": "1", "b": "1", "c": "1"}
    assert new["versions"] == {"a": "1", "b": "1", "c": "2"}
    assert [one["run"] for one in new["checkpoints"]] == ["1", "2", "3"]
    assert new["input"] == {"id": "k", "v": 1}
    batch.steps["c"] = "3"
    assert api.show(batch.job(), "k", store=batch.store)["stale"] is True


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [])
    for ask_it in (onward.status, onward.failures, onward.results, api.instances):
        with pytest.raises(onward.OnwardError, match="no store"):
            ask_it(batch.job(), store=batch.store)  # type: ignore[operator]
    with pytest.raises(onward.OnwardError, match="no store"):
        onward.retry(batch.job(), all=True, store=batch.store)
    assert not Path(batch.store).exists()


def test_results_are_read_in_any_thread_while_a_run_writes(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [{"id": key, "v": key} for key in range(3000)])
    faults: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                if Path(batch.store).exists():
                    keys = [one.key for one in onward.results("batch", store=batch.store)]
                    assert keys == sorted(keys)
        except onward.OnwardError:
            pass  # the store is being made
        except BaseException as error:
            faults.append(error)

    stop = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    assert batch.run().exit_code == 0
    stop.set()
    reader.join()
    assert not faults


def test_a_store_may_be_given_as_a_path(tmp_path: Path) -> None:
    job = onward.Job("path", source=onward.iterable(lambda: range(3)))

    @job.step(version=1)
    def one(number: int) -> int:
        return number

    store: Any = tmp_path / "store.db"
    assert onward.run(job, store=store).exit_code == 0
    assert onward.status(job, store=store)["counts"]["succeeded"] == 3
