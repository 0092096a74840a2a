"""`onward rehearse` kills a job at every boundary, resumes it, and names the faults that were planted in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until
from onward import api
from onward.job.loading import load_job
from onward.rehearsal import rehearse, scenarios
from torture.registry import EXAMPLE, running

BAD = EXAMPLE.parent / "rehearsal"
FILING = {
    "entity": "LEI1",
    "name": "Entity Inc.",
    "jurisdiction": "US-CA",
    "filing_type": "annual-report",
    "filing_year": 2025,
    "fee": 50,
}
SOURCE = 'source=onward.jsonl("in.jsonl", key="id")'
FAULTY = f"""
import contextlib, random, socket, threading, uuid

job = onward.Job("faulty", {SOURCE})

def knock():
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 9), 1).close()

@job.step
def stamp(record):
    return {{"id": record["id"], "made": {{"by": uuid.uuid4().hex}}}}

@job.step
def unordered(record):
    return list({{"a", "b", "c", "d", "e", "f", "g", "h"}})

@job.step(calls_out=True)
def weather(record):
    knock()
    return random.random()

@job.step
def pair(record):
    return {{"range": (1, 2)}}

@job.step(process=True)
def computed(record):
    knock()
    return 1

@job.step
async def threaded(record):
    thread = threading.Thread(target=knock)
    thread.start()
    thread.join()

@job.effect("forgetful", key="id", keyed=True)
def forgetful(payload, idempotency_key, stamp):
    return {{"receipt": uuid.uuid4().hex}}

@job.effect("blind", key="id", deadline=6.0, settle=0.0)
def blind(record, idempotency_key):
    return {{"receipt": idempotency_key}}

@blind.probe
def never_there(idempotency_key):
    return onward.ABSENT

@job.effect("careless", key="id", on_unknown="resend")
def careless(record, idempotency_key):
    return {{"receipt": 1}}

@job.effect("drifting", key="id", keyed=True)
def drifting(payload):
    return {{"receipt": 1}}

@drifting.payload
def body(record):
    return {{"id": record["id"], "at": time.time_ns()}}

@job.step
def again(record, context):
    if context.run > 1:
        raise ValueError("not a second time")
"""
FOUND_IN_FAULTY = {
    ("not deterministic", "fault", "stamp"),
    ("not deterministic", "fault", "unordered"),
    ("not deterministic", "warning", "weather"),
    ("does not survive JSON", "fault", "pair"),
    ("a plain step calls out", "fault", "computed"),
    ("a plain step calls out", "fault", "threaded"),
    ("applied twice", "fault", "forgetful"),
    ("applied twice", "fault", "blind"),
    ("could be applied twice", "warning", "careless"),
    ("applied twice", "warning", "careless"),
    ("key is not sent", "warning", "drifting"),
    ("payload is not stable", "fault", "drifting"),
    ("fails when resumed", "fault", "again"),
}
CLEAN = f"""
job = onward.Job("clean", {SOURCE})

@job.step
def double(record):
    return record["n"] * 2

@job.step
async def sentence(record, double) -> str:
    return f"{{record['id']}}: {{double}}"
"""


def rehearsed(place: Place, *words: str, job: str = "job.py") -> tuple[int, dict[str, Any]]:
    ended = place.onward("rehearse", job, "--json", *words)
    assert ended.stdout, f"exit {ended.returncode}: {ended.stderr}"
    plain(ended.stderr)
    return ended.returncode, json.loads(ended.stdout)


def of_faults(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["kind"], one["step"]) for one in report["findings"] if one["level"] == "fault"}


@contextlib.contextmanager
def the_office() -> Iterator[str]:
    command = [sys.executable, str(BAD / "office.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


def line_of(file: Path, text: str, nth: int = 1) -> str:
    """The place of the nth line that has the text, as findings name it."""
    lines = file.read_text().splitlines()
    return f"{file}:{[number for number, line in enumerate(lines, 1) if text in line][nth - 1]}"


def test_the_bad_job_has_exactly_its_three_faults(tmp_path: Path) -> None:
    place = Place(tmp_path, "")
    file = Path(shutil.copyfile(BAD / "bad_job.py", tmp_path / "bad_job.py"))
    with the_office() as url:
        code, report = rehearsed(place, "--records", "1", "-p", f"office={url}", job="bad_job.py")
        assert (code, report["clean"]) == (1, False)
        assert {(one["kind"], one["step"], one["place"]) for one in report["findings"]} == {
            ("could be applied twice", "charge", line_of(file, '@job.effect("charge"')),
            ("key is not stable", "remind", line_of(file, '@job.effect("reminder"')),
            ("a plain step calls out", "announce", line_of(file, 'post(f"{params.office}/messages"')),
        }
        assert all(one["level"] == "fault" and one["advice"] for one in report["findings"])
        assert any("(due differs)" in one["what"] for one in report["findings"])
        assert {one["record"] for one in report["findings"]} == {"INV-001", None}
        assert report["killed"] == report["points"] > 10
        assert report["runs"] >= 2 * report["killed"] + 1
        told = {one["step"]: one["calls"] for one in report["effects"]}
        assert told == {"charge": ["send"], "remind": ["send"]}
    assert not (tmp_path / ".onward").exists()


def test_the_filings_example_is_clean_and_nothing_is_filed_twice(tmp_path: Path) -> None:
    own_store = EXAMPLE / ".onward"
    before = own_store.exists() and sorted((file.name, file.stat().st_mtime_ns) for file in own_store.iterdir())
    due = tmp_path / "due.jsonl"
    due.write_text(json.dumps(FILING) + "\n")
    with running(tmp_path / "registry.db") as registry:
        place = Place(tmp_path, "")
        params = ["-p", f"registry={registry.url}", "-p", f"due={due}"]
        code, report = rehearsed(place, *params, job=str(EXAMPLE / "job.py"))
    assert (code, report["findings"]) == (0, [])
    assert report["killed"] == report["points"] > 12
    with contextlib.closing(sqlite3.connect(tmp_path / "registry.db")) as book:
        filed = dict(book.execute("SELECT key, count(*) FROM filings GROUP BY key").fetchall())
    assert set(filed.values()) == {1}
    assert all(key.startswith(report["key_prefix"]) and "-ow1-" in key for key in filed)
    assert len(filed) == report["killed"] + 1  # each scenario has obligations of its own
    after = own_store.exists() and sorted((file.name, file.stat().st_mtime_ns) for file in own_store.iterdir())
    assert before == after


def test_each_class_of_fault_is_found(tmp_path: Path) -> None:
    place = Place(tmp_path, FAULTY)
    place.write("in.jsonl", [{"id": "a"}, {"id": "b"}])
    code, report = rehearsed(place, "--records", "1")
    found = {(one["kind"], one["level"], one["step"]): one for one in report["findings"]}
    assert set(found) == FOUND_IN_FAULTY
    assert (code, report["records"], report["missed"]) == (1, 1, 0)
    of_stamp = found["not deterministic", "fault", "stamp"]
    assert "(at made.by)" in of_stamp["what"] and "forgetful depends on it" in of_stamp["what"]
    assert "the output.range is a tuple" in found["does not survive JSON", "fault", "pair"]["what"]
    assert found["applied twice", "fault", "blind"]["when"] == "after blind was sent"
    assert {one["record"] for one in report["findings"] if one["kind"] == "applied twice"} == {"a"}
    job = tmp_path / "job.py"
    assert found["a plain step calls out", "fault", "computed"]["place"] == line_of(job, "    knock()", 2)
    assert found["a plain step calls out", "fault", "threaded"]["place"] == line_of(job, "socket.create_connection")


def test_a_clean_job_is_killed_at_every_commit_and_its_own_store_is_left_alone(tmp_path: Path) -> None:
    place = Place(tmp_path, CLEAN)
    place.write("in.jsonl", [{"id": key, "n": number} for number, key in enumerate("abc")])
    assert place.run("--limit", "1").counts["succeeded"] == 1
    store = tmp_path / ".onward"
    before = {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in store.iterdir()}
    ended = place.onward("rehearse", "job.py", "--records", "2")
    plain(ended.stderr)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary, verdict = ended.stdout.splitlines()[-2:]
    assert verdict == "clean"
    assert summary.startswith("2 records, ") and " killed, " in summary
    killed = int(summary.split(" killed")[0].split()[-1])
    assert killed >= 6  # the start, a claim, and both sides of each step's checkpoints, which may share one commit
    assert "no effect will be called" in ended.stderr
    assert before == {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in store.iterdir()}


def test_what_was_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, CLEAN)
    place.write("in.jsonl", [{"id": "a", "n": 1}])
    monkeypatch.setattr(rehearse, "MOST_KILLS", 1)
    over = []
    report = api.rehearse(load_job(str(tmp_path / "job.py")), progress=lambda *numbers: over.append(numbers))
    assert (report.killed, report.left_out, report.exit_code) == (1, report.points - 1, 0)
    assert over == [(1, 1)]


def test_a_key_that_changes_from_reading_to_reading_is_found(tmp_path: Path) -> None:
    place = Place(
        tmp_path,
        """
        def mails():
            yield {"id": "a", "asked": str(time.time_ns())}

        job = onward.Job("mails", source=onward.iterable(mails, key="id"))

        @job.effect("mail", key=("id", "asked"), keyed=True)
        def mail(record, idempotency_key):
            return {"sent": True}
        """,
    )
    code, report = rehearsed(place)
    assert (code, of_faults(report)) == (1, {("key is not stable", "mail")})
    assert [one["kind"] for one in report["findings"] if one["level"] == "warning"] == ["input is not stable"]


@pytest.mark.parametrize(
    ("body", "kinds", "what"),
    [
        ("return {1: record['id']}", {"does not survive JSON", "nothing was rehearsed"}, "JSON keys are text"),
        ("raise ValueError('no')", {"record failed", "nothing was rehearsed"}, "no record succeeded"),
        (
            "os._exit(3)",
            {"nothing was rehearsed"},
            "the undisturbed run's process died in only: it ended with exit code 3",
        ),
        ("raise onward.Fatal('no credit')", {"nothing was rehearsed"}, "no credit"),
    ],
)
def test_where_nothing_could_be_rehearsed_it_is_not_clean(
    tmp_path: Path, body: str, kinds: set[str], what: str
) -> None:
    place = Place(tmp_path, f'job = onward.Job("case", {SOURCE})\n\n@job.step\ndef only(record):\n    {body}\n')
    place.write("in.jsonl", [{"id": "a"}, {"id": "b"}])
    code, report = rehearsed(place)
    assert (code, {kind for kind, _ in of_faults(report)}) == (1, kinds)
    assert any(what in one["what"] for one in report["findings"])
    assert not any("endpoint" in one["advice"] for one in report["findings"])
    assert (report["killed"], report["runs"], report["left_out"]) == (0, 1, 0)


def test_an_endpoint_that_is_not_there_is_not_clean(tmp_path: Path) -> None:
    place = Place(
        tmp_path,
        f"""
        import urllib.request
        job = onward.Job("case", {SOURCE})

        @job.effect("filing", key="id", keyed=True, retry=onward.Retry(attempts=1))
        def submit(record, idempotency_key):
            urllib.request.urlopen("http://127.0.0.1:9/")
        """,
    )
    place.write("in.jsonl", [{"id": "a"}])
    code, report = rehearsed(place)
    assert (code, of_faults(report)) == (1, {("record failed", "submit"), ("nothing was rehearsed", None)})
    assert "see that the endpoint is there" in report["findings"][-1]["advice"]


def hanging(folder: Path, what: str) -> Any:
    place = Place(folder, f'import time\njob = onward.Job("case", {SOURCE})\n{what}\n    time.sleep(3600)\n')
    place.write("in.jsonl", [{"id": "a"}])
    return load_job(str(folder / "job.py"))


def test_a_call_that_does_not_return_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "LONGEST_RUN", 2.0)
    job = hanging(tmp_path, "@job.step\ndef first(record): ...\n\n@job.step\ndef endless(record):")
    report = api.rehearse(job, wait=0.0)
    (found,) = report.findings
    assert (report.exit_code, found.kind, found.step, found.record) == (1, "nothing was rehearsed", "endless", "a")
    assert "endless was called and has not returned" in found.what
    assert "timeout=" in found.advice


def test_an_effect_that_does_not_answer_is_named(tmp_path: Path) -> None:
    send = '@job.effect("filing", key="id", deadline=0.5, settle=0.1)\ndef send(record):'
    report = api.rehearse(hanging(tmp_path, send), wait=0.0)
    assert report.exit_code == 1
    (found,) = (one for one in report.findings if one.kind == "stayed unconfirmed")
    assert (found.step, "within its deadline=" in found.advice) == ("send", True)


def test_an_effect_that_no_record_comes_to_is_told(tmp_path: Path) -> None:
    place = Place(
        tmp_path,
        f"""
        job = onward.Job("case", {SOURCE})

        @job.step
        def only(record):
            raise onward.Done("nothing is due")

        @job.effect("filing", key="id", keyed=True)
        def submit(record, idempotency_key): ...
        """,
    )
    place.write("in.jsonl", [{"id": "a"}])
    code, report = rehearsed(place)
    assert code == 0
    assert [(one["kind"], one["level"], one["step"]) for one in report["findings"]] == [
        ("was not rehearsed", "warning", "submit")
    ]


def test_wrong_usage_is_told_before_anything_runs(tmp_path: Path) -> None:
    place = Place(tmp_path, CLEAN)
    missing = place.onward("rehearse", "job.py")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "in.jsonl" in missing.stderr
    place.write("in.jsonl", [])
    empty = place.onward("rehearse", "job.py")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "nothing to rehearse: the source has no records" in empty.stderr
    assert place.onward("rehearse", "job.py", "--records", "0").returncode == 2
    assert place.onward("rehearse", "--store", "x.db", "--job", "clean").returncode == 2


TERMINAL = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))

@job.effect("filing", key="id", keyed=True)
def submit(record, idempotency_key):
    (HERE / "called").write_text(idempotency_key)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_terminal_there_is_time_to_leave(tmp_path: Path) -> None:
    place = Place(tmp_path, TERMINAL)
    place.write("in.jsonl", [{"id": "a"}])
    master, slave = os.openpty()
    command = place.command("rehearse", "job.py")
    kept = surroundings({"TERM": "xterm"})
    process = subprocess.Popen(
        command, cwd=tmp_path, env=kept, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    said = b""
    while b"begins in" not in said:
        said += os.read(master, 4096)
    assert b"submit (filing): send" in said and b"rehearsal-" in said
    process.send_signal(2)
    wait_until(lambda: process.poll() is not None)
    os.close(master)
    assert process.returncode == 130
    assert not (tmp_path / "called").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM is no signal there")
def test_what_is_thrown_away_is_gone_after_a_signal_too(tmp_path: Path) -> None:
    place = Place(tmp_path, TERMINAL.replace("    (HERE", "    started('a')\n    time.sleep(60)\n    (HERE"))
    place.write("in.jsonl", [{"id": "a"}])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = place.start("rehearse", "job.py", env={"TMPDIR": str(scratch)})
    wait_until(lambda: place.folder.joinpath("calls.log").exists() and place.calls())
    assert [folder.name.startswith("onward-rehearsal-") for folder in scratch.iterdir()] == [True]
    process.terminate()
    assert process.wait(60) == 130
    assert list(scratch.iterdir()) == []
