"""Decisions in bulk: a typo has left many records unconfirmed, and nobody wants to type each one's key."""

from __future__ import annotations

import getpass
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, plain, surroundings

JOB = """
job = onward.Job("filings", source=onward.jsonl("in.jsonl", key="id"))

@job.effect("annual-report", key="id", deadline=0.2, settle=0)
def submit(filing, idempotency_key) -> dict:
    started(filing["id"], "submit")
    if (HERE / "mended").exists() or filing["id"] == 0:
        return {"number": str(filing["id"])}
    raise RuntimeError("a typo")

@submit.confirm
def acknowledged(filing, submit):
    return onward.UNKNOWN

@job.step
def book(filing, submit):
    return submit["number"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Five records that nobody can be asked about, and one (0) whose receipt is there."""
    return unconfirmed(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same, for tests that change nothing."""
    return unconfirmed(tmp_path_factory.mktemp("untouched"))


def unconfirmed(folder: Path) -> Place:
    place = Place(folder, JOB)
    place.write("in.jsonl", [{"id": number} for number in range(6)])
    assert place.run("--wait", "0s").counts == {"unconfirmed": 6}
    time.sleep(0.6)  # what was sent has arrived by now, or never will
    return place


def lines(place: Place, *decisions: Any) -> None:
    text = "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in decisions)
    (place.folder / "decided.jsonl").write_text(text, "utf-8")


def reconcile(place: Place, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    ended = place.onward("reconcile", "job.py", *words, **options)
    plain(ended.stderr)
    return ended


def decided(place: Place, key: int) -> list[tuple[str, str, str]]:
    """What people said about a record: event, reason, who."""
    history = json.loads(place.fine("show", "job.py", str(key), "--json"))["history"]
    return [(one["event"], one["reason"], one["actor"]) for one in history if one["actor"]]


def states(place: Place) -> dict[str, int]:
    return {state: number for state, number in place.status()["counts"].items() if number}


def test_several_keys_were_not_sent(place: Place) -> None:
    ended = reconcile(place, "1", "3", "--not-sent", "--reason", "a typo")
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "decided, as you say: 2 not sent")
    assert states(place) == {"pending": 2, "unconfirmed": 4}
    said = ("effect_denied", "a person says: it was not sent; a typo", getpass.getuser())
    assert (decided(place, 1), decided(place, 3), decided(place, 2)) == ([said], [said], [])


def test_what_cannot_be_decided_is_named_and_the_rest_is_done(place: Place) -> None:
    reconcile(place, "1", "--not-sent")
    ended = reconcile(place, "1", "2", "--not-sent")
    assert ended.returncode == 2
    assert ended.stdout.splitlines()[:2] == [
        "refused: record 1 is pending, not unconfirmed: there is nothing to decide",
        "decided, as you say: 1 not sent; 1 refused; the rest is done",
    ]
    assert (len(decided(place, 1)), len(decided(place, 2))) == (1, 1)


def test_all_were_not_sent_but_what_has_a_receipt(place: Place) -> None:
    ended = reconcile(place, "--all", "--not-sent", "--json")
    found = json.loads(ended.stdout)
    assert (ended.returncode, found["not_sent"], found["sent"]) == (2, 5, 0)
    (refused,) = found["refused"]
    assert (refused["key"], "has a receipt: it was sent" in refused["why"]) == (0, True)
    assert states(place) == {"pending": 5, "unconfirmed": 1}
    (place.folder / "mended").touch()
    place.run("--wait", "0s")
    assert place.calls("submit").count(0) == 1
    assert {place.calls("submit").count(number) for number in range(1, 6)} == {2}


def test_all_of_one_effect(place: Place) -> None:
    unknown = reconcile(place, "--all", "--not-sent", "--effect", "amendment")
    assert (unknown.returncode, "effects: annual-report" in unknown.stderr) == (2, True)
    known = reconcile(place, "--all", "--not-sent", "--effect", "annual-report", "--json")
    assert json.loads(known.stdout)["not_sent"] == 5
    again = reconcile(place, "--all", "--not-sent", "--json")
    assert (again.returncode, json.loads(again.stdout)["not_sent"]) == (2, 0)


def test_nothing_matches(place: Place) -> None:
    lines(place, *({"key": number, "not_sent": True} for number in range(6)))
    assert reconcile(place, "--from", "decided.jsonl").returncode == 0
    ended = reconcile(place, "--all", "--not-sent")
    assert (ended.returncode, ended.stdout) == (0, "nothing matches: no record is unconfirmed\n")


def test_a_file_says_of_each_what_became_of_it(place: Place) -> None:
    lines(place, {"key": 1, "sent": {"number": "R1"}, "reason": "seen"}, "", {"key": 2, "not_sent": True})
    ended = reconcile(place, "--from", "decided.jsonl", "--reason", "by hand")
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "decided, as you say: 1 not sent, 1 sent")
    assert decided(place, 1)[0][:2] == ("effect_confirmed", "a person says: it was sent; seen")
    assert decided(place, 2)[0][:2] == ("effect_denied", "a person says: it was not sent; by hand")
    (place.folder / "mended").touch()
    place.run("--wait", "0s")
    (row,) = place.export()
    assert row["outputs"] == {"submit": {"number": "R1"}, "book": "R1"}
    assert place.onward("log", "job.py", "--verify").returncode == 0


def test_standard_input_is_a_file(place: Place) -> None:
    ended = subprocess.run(
        place.command("reconcile", "job.py", "--from", "-", "--json"),
        cwd=place.folder,
        env=surroundings(),
        input='{"key": 4, "not_sent": true}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, json.loads(ended.stdout)["not_sent"]) == (0, 1)


@pytest.mark.parametrize(
    "line, why",
    [
        ("no JSON", "a decision is"),
        ({"sent": 1}, "a decision is"),
        ({"key": 2}, 'either "sent"'),
        ({"key": 2, "sent": {"number": "1"}, "not_sent": True}, 'either "sent"'),
        ({"key": 2, "not_sent": False}, 'either "sent"'),
        ({"key": 2, "not_sent": True, "why": "x"}, "there is no field 'why'"),
        ({"key": 2, "not_sent": True, "reason": 7}, 'a "reason" is text'),
        ({"key": 2, "sent": "text"}, "that is no receipt of 'annual-report'"),
        ({"key": 9, "not_sent": True}, "there is no record with the key 9"),
        ({"key": "2", "not_sent": True}, "there is no record with the key '2'"),
        ({"key": 2.5, "not_sent": True}, "is no key"),
        ({"key": 1, "sent": {"number": "1"}}, "its record was decided in decided.jsonl:1 already"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_before_anything_is_changed(untouched: Place, line: Any, why: str) -> None:
    lines(untouched, {"key": 1, "not_sent": True}, line)
    ended = reconcile(untouched, "--from", "decided.jsonl")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "decided.jsonl:2" in ended.stderr
    assert why in ended.stderr
    assert states(untouched) == {"unconfirmed": 6}


def test_a_dry_run_decides_nothing(untouched: Place) -> None:
    ended = reconcile(untouched, "--all", "--not-sent", "--dry-run")
    assert ended.returncode == 2
    assert ended.stdout.splitlines()[-1] == "would be decided, as you say: 5 not sent; 1 would be refused"
    assert reconcile(untouched, "2", "--sent", '{"number": "1"}', "--dry-run", "--json").returncode == 0
    assert (states(untouched), decided(untouched, 2)) == ({"unconfirmed": 6}, [])


@pytest.mark.parametrize(
    "words",
    [
        ("1", "2"),
        ("1", "2", "--sent", "x"),
        ("--all",),
        ("--all", "--sent", "x"),
        ("1", "--all", "--not-sent"),
        ("1", "--from", "decided.jsonl"),
        ("--from", "decided.jsonl", "--not-sent"),
        ("--from", "missing.jsonl"),
        ("--dry-run",),
        ("--not-sent",),
    ],
)
def test_words_that_do_not_hold_together(untouched: Place, words: tuple[str, ...]) -> None:
    lines(untouched, {"key": 1, "not_sent": True})
    assert reconcile(untouched, *words).returncode == 2
    assert states(untouched) == {"unconfirmed": 6}


def test_the_question_says_how_many_are_decided_at_once(untouched: Place) -> None:
    assert "onward reconcile job.py --from FILE (or --all --not-sent)" in reconcile(untouched).stdout
