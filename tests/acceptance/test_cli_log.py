"""`onward log` on the command line: what it says, and that it names what was edited, cut, or forged."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until

JOB = """
import time
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step
def call(record):
    started(record["id"])
    time.sleep(%s)
    if record["id"] %% 5 == 1 and not (HERE / "mended").exists():
        raise onward.Rejected("SECRET")
    return record["id"]
"""
STORE = ".onward/onward.db"


def a_place(folder: Path, records: int = 10, seconds: float = 0.0) -> Place:
    place = Place(folder, JOB % seconds)
    place.write("in.jsonl", [{"id": key} for key in range(records)])
    return place


def edit(place: Place, statement: str, *bindings: Any) -> None:
    connection = apsw.Connection(str(place.folder / STORE))
    connection.execute(statement, bindings)
    connection.close()


def entries(place: Place, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.fine("log", "job.py", "--json", *words).splitlines()]


def verified(place: Place, *words: str) -> tuple[int, dict[str, Any]]:
    ended = place.onward("log", "job.py", "--verify", "--json", *words)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A run that left two records quarantined, a person's release of one, and a second run."""
    made = a_place(tmp_path)
    assert made.onward("run", "job.py").returncode == 1
    made.fine("release", "job.py", "6")
    (tmp_path / "mended").touch()
    assert made.onward("run", "job.py").returncode == 1
    return made


def test_a_line_an_entry_for_people(place: Place) -> None:
    said = place.fine("log", "job.py").splitlines()
    assert len(said) == 7
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (run \d|people)  ", line) for line in said)
    assert re.search(r"  run 1  run_started$", said[0])
    assert re.search(r"  run 1  [16]  record_quarantined at call: rejected, final$", said[1])
    assert re.search(r"  people  6  record_released at call: release: it goes on where it was  \(by \S+\)$", said[4])
    assert "SECRET" not in "".join(said)


def test_json_has_the_words_of_log_events(place: Place) -> None:
    found = entries(place)
    assert [(one["run"], one["seq"]) for one in found] == [
        *(("1", seq) for seq in range(1, 5)),
        (None, 1),
        ("2", 1),
        ("2", 2),
    ]
    assert found[0].keys() >= {"event", "time", "job", "instance", "run", "key", "step", "idempotency_key", "reason"}
    assert entries(place, "--since", "1h") == found
    assert entries(place, "--since", found[4]["time"]) == found[4:]
    assert entries(place, "--since", "2999-01-01") == []


def test_wrong_words(place: Place) -> None:
    for words in (("--since", "soon"), ("--since", "5"), ("--since", "2026"), ("--verify", "--since", "1h")):
        ended = place.onward("log", "job.py", *words)
        assert (ended.returncode, ended.stdout) == (2, "")
        plain(ended.stderr)


def test_the_head_is_told_at_the_end_of_a_run_and_is_that_of_its_chain(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    ended = place.onward("run", "job.py", "--log-format", "json", "--json")
    last = json.loads(ended.stderr.splitlines()[-1])
    head = entries(place)[-1]["hash"]
    assert (last["event"], last["head"]) == ("run_finished", head)
    assert json.loads(ended.stdout)["runs"][-1]["head"] == head
    told = place.onward("run", "job.py").stdout.splitlines()
    assert told[-2] == f"history: {entries(place)[-1]['hash']}"
    assert verified(place, "--expect", head)[0] == 0
    assert place.onward("log", "job.py", "--expect", "0" * 64).returncode == 1


def test_a_history_that_fits(place: Place) -> None:
    ended = place.onward("log", "job.py", "--verify")
    assert (ended.returncode, ended.stderr) == (0, "")
    head = entries(place)[-1]["hash"]
    assert ended.stdout.splitlines()[:2] == [
        "the history fits: 7 entries in 3 chains",
        f"head of run 2: {head}",
    ]
    assert place.onward("log", "--store", STORE, "--verify").returncode == 0


def test_one_edited_byte_is_named(place: Place) -> None:
    """In the file itself, by somebody who knows nothing of SQLite."""
    file = place.folder / STORE
    data = file.read_bytes()
    at = data.index(b"release: it goes on where it was")
    file.write_bytes(data[:at] + b"R" + data[at + 1 :])
    code, found = verified(place)
    assert code == 1
    misfit = found["misfit"]
    assert (misfit["run"], misfit["seq"], misfit["event"]) == (None, 1, "record_released")
    assert misfit["time"] is not None
    ended = place.onward("log", "job.py", "--verify")
    assert ended.returncode == 1
    assert re.fullmatch(
        r"the history does not fit: entry 1 of what people decided of case \([-0-9]+ [:0-9]+ UTC, record_released\): "
        r"it is not what was written, or its record had another key\n",
        ended.stdout,
    )


@pytest.mark.parametrize(
    "statement, run, seq",
    [
        ("DELETE FROM history WHERE run = 1 AND seq = 2", "1", 3),
        ("DELETE FROM history WHERE run = 2 AND seq = 2", "2", 2),
        ("UPDATE history SET seq = 5 - seq WHERE run = 1 AND seq IN (2, 3)", "1", 3),
        (
            "INSERT INTO history (instance, run, seq, hash, at, event) SELECT 1, 1, 5, hash, at, event FROM history",
            "1",
            5,
        ),
        ("UPDATE records SET key = '\"another\"' WHERE id = (SELECT min(record) FROM history WHERE run = 1)", "1", 2),
        ("DELETE FROM records", "1", 2),
        ("DELETE FROM history WHERE run = 2; UPDATE runs SET entries = 0, head = '' WHERE id = 2", "2", 1),
        (
            "DELETE FROM history WHERE run = 2 AND seq = 2; UPDATE runs SET entries = 1, "
            "head = (SELECT hash FROM history WHERE run = 2) WHERE id = 2",
            "2",
            2,
        ),
        ("DELETE FROM history WHERE run IS NULL; UPDATE instances SET entries = 0, head = ''", None, 1),
    ],
    ids=[
        "removed",
        "cut at its end",
        "exchanged",
        "added",
        "a record's key",
        "records",
        "all of the newest run's",
        "the end of a run that ended, and its head",
        "what people decided before the newest run",
    ],
)
def test_the_first_entry_that_does_not_fit_is_named(place: Place, statement: str, run: str | None, seq: int) -> None:
    edit(place, statement)
    code, found = verified(place)
    assert code == 1
    assert (found["misfit"]["run"], found["misfit"]["seq"]) == (run, seq)


def test_a_kill_leaves_chains_that_fit(tmp_path: Path) -> None:
    place = a_place(tmp_path, 60, 0.02)
    for number in range(3):
        enough = len(place.calls()) + 8
        victim = place.start("run", "job.py")
        wait_until(lambda enough=enough: len(place.calls()) > enough)  # type: ignore[misc]
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        assert verified(place)[0] == 0, number
    assert place.onward("run", "job.py").returncode == 1
    assert verified(place)[0] == 0
    ends = [(one["run"], one["reason"]) for one in entries(place) if one["event"] == "run_finished"]
    assert [end for end in ends if end[0] != "4"] == [("1", "died"), ("2", "died"), ("3", "died")]
    resets = [one for one in entries(place) if one["event"] == "record_reset"]
    assert {one["reason"] for one in resets} == {"the run that held it died"}


def test_two_runs_at_once_write_a_chain_each(tmp_path: Path) -> None:
    place = a_place(tmp_path, 200, 0.05)
    runs = [place.start("run", "job.py") for _ in range(2)]
    wait_until(lambda: len(place.calls()) > 20)
    assert verified(place)[0] == 0
    assert [run.wait(120) for run in runs] == [1, 1]
    code, found = verified(place)
    assert (code, found["chains"]) == (0, 3)
    for run in ("1", "2"):
        mine = [one for one in entries(place) if one["run"] == run]
        assert [one["seq"] for one in mine] == list(range(1, len(mine) + 1))
        assert len(mine) > 2


def test_a_long_history_is_read_in_little_memory(tmp_path: Path) -> None:
    """40 MiB of entries; the process may take no more than one with 7 does, and a little."""
    place = a_place(tmp_path)
    place.onward("run", "job.py")
    small = peak(place, "log", "job.py", "--json")
    edit(
        place,
        "INSERT INTO history (instance, run, seq, hash, at, event, reason) WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80000) SELECT 1, NULL, i, '', 1.5, 'e', printf('%500s', i) "
        "FROM n",
    )
    assert peak(place, "log", "job.py", "--json") < small + 12


def peak(place: Place, *words: str) -> float:
    """MiB at most."""
    read, write = os.pipe()
    code = (
        "import os, resource, subprocess, sys\n"
        "subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL)\n"
        "os.write(int(sys.argv[1]), str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss).encode())\n"
    )
    command = [sys.executable, "-c", code, str(write), *place.command(*words)]
    subprocess.run(command, cwd=place.folder, env=surroundings(), pass_fds=[write], check=True)
    os.close(write)
    with os.fdopen(read) as told:
        return int(told.read()) / (1024 if sys.platform != "darwin" else 1 << 20)
