"""What effects leave open is never guessed: people say how it is, or have the far side asked again.

The far side is a file that each filing is appended to. What it answers is in files as well: `probe` and `ack` have
`yes` where it answers, anything else (or nothing) where it cannot tell.
"""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until

REGISTRY = """
job = onward.Job("filings", source=onward.jsonl("in.jsonl", key="id"))
LOG = HERE / "registry.log"

def said(name):
    return (HERE / name).read_text().strip() if (HERE / name).exists() else ""

def apply(key, payload):
    with LOG.open("a") as log:
        log.write(json.dumps({"key": key, "payload": payload}) + "\\n")
        log.flush()
        os.fsync(log.fileno())

def applied(key):
    return LOG.exists() and any(json.loads(line)["key"] == key for line in LOG.read_text().splitlines())

@job.step
def validate(filing):
    return {"ok": True}

@job.effect(@OPTIONS@)
async def submit(payload, idempotency_key)@RETURNS@:
    apply(idempotency_key, payload)
    if said("dies") == payload["entity"]:
        os._exit(9)
    if said("hangs up"):
        raise ConnectionResetError("reset after it was applied")
    return {"number": payload["entity"]}

@submit.payload
def body(filing):
    return {"entity": filing["entity"], "fee": filing.get("fee", 50)}
"""
PROBE = """
@submit.probe
async def filed(idempotency_key):
    with (HERE / "probes.log").open("a") as log:
        log.write(idempotency_key + "\\n")
    if said("probe") != "yes":
        return onward.UNKNOWN
    return {"number": "found"} if applied(idempotency_key) else onward.ABSENT
"""
CONFIRM = """
@submit.confirm
async def acknowledged(filing, submit):
    answer = said("ack")
    if answer.startswith("mismatch"):
        return onward.Mismatch(answer.partition(" ")[2])
    return True if answer == "yes" else onward.UNKNOWN
"""
LATER = """
@job.step
def book(filing, submit):
    started(filing["id"], "book")
    return submit["number"]
"""
UNASKABLE = '"annual-report", key="entity", deadline=0.3, settle=0'
QUICK = '"annual-report", key="entity", deadline=0.2, settle=0, probe_first=False'


def text(options: str = UNASKABLE, *parts: str, returns: str = "") -> str:
    return "".join([REGISTRY.replace("@OPTIONS@", options).replace("@RETURNS@", returns), *parts])


def a_place(folder: Path, job: str, entities: int = 3) -> Place:
    place = Place(folder, job)
    place.write("in.jsonl", [{"id": f"r{number}", "entity": f"e{number}"} for number in range(entities)])
    return place


def say(place: Place, name: str, what: str) -> None:
    (place.folder / name).write_text(what)


def filings(place: Place) -> Counter[str]:
    """How often each entity's report was filed."""
    log = place.folder / "registry.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(json.loads(line)["payload"]["entity"] for line in lines)


def probes(place: Place) -> int:
    log = place.folder / "probes.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def show(place: Place, key: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.fine("show", "job.py", key, "--json", *words))
    return found


def reconciled(place: Place, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.fine("reconcile", "job.py", "--json", *words))
    return found


def killed_between_send_and_checkpoint(folder: Path, job: str) -> Place:
    """One record, whose process is killed after the far side has it; the next run has seen it."""
    place = a_place(folder, job, entities=1)
    say(place, "dies", "e0")
    assert place.onward("run", "job.py").returncode == 9
    say(place, "dies", "")
    assert filings(place) == {"e0": 1}
    time.sleep(0.6)  # longer than a call under this intent could have lasted: a person may say what became of it
    return place


# An input that changes while an effect is open.


def corrected(place: Place, **changes: Any) -> None:
    place.write("in.jsonl", [{"id": "r0", "entity": "e0", **changes}])


@pytest.fixture
def open_and_corrected(tmp_path: Path) -> Place:
    """A filing that was sent and is not answered, nobody can be asked, and the fee has been corrected meanwhile."""
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE, LATER))
    corrected(place, fee=60)
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"unconfirmed": 1})
    assert "1 changed, which waits until an effect of theirs is settled" in ran.said
    return place


def test_that_an_input_waits_is_told(open_and_corrected: Place) -> None:
    place = open_and_corrected
    assert "1 record with an input that changed while an effect was open" in place.run().said
    reasons = {one["reason"]: one["count"] for one in place.status()["waiting"]}
    assert reasons["an effect, open or sent: their input has changed, and the new one waits"] == 1
    assert show(place, "r0")["input_waits"] is True
    assert "its input has changed: the new one waits" in place.fine("show", "job.py", "r0")
    assert "input_waits" in [one["event"] for one in show(place, "r0")["history"]]


def test_what_was_sent_is_gone_on_with_and_is_stale_then(open_and_corrected: Place) -> None:
    place = open_and_corrected
    decision = json.loads(place.fine("reconcile", "job.py", "r0", "--sent", '{"number": "7"}', "--json"))
    assert (decision["state"], decision["new_input"], decision["next_step"]) == ("pending", False, "book")
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    (row,) = place.export()
    assert (row["input"], row["generation"]) == ({"id": "r0", "entity": "e0"}, 0)
    assert (place.status()["stale"], place.status()["waiting"], filings(place)) == (1, [], {"e0": 1})


def test_what_was_not_sent_makes_room_for_the_new_input(open_and_corrected: Place) -> None:
    place = open_and_corrected
    decision = json.loads(place.fine("reconcile", "job.py", "r0", "--not-sent", "--json"))
    assert (decision["state"], decision["new_input"], decision["next_step"]) == ("pending", True, "validate")
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    (row,) = place.export()
    assert (row["input"]["fee"], row["generation"], place.status()["stale"]) == (60, 1, 0)
    sent = [json.loads(line)["payload"] for line in (place.folder / "registry.log").read_text().splitlines()]
    assert [one["fee"] for one in sent] == [50, 60]


def test_a_probe_settles_it_in_the_same_run(tmp_path: Path) -> None:
    """It is asked about the filing of the old input, and finds nothing: the new one is filed, and nothing else."""
    place = killed_between_send_and_checkpoint(tmp_path, text(QUICK, PROBE))
    (place.folder / "registry.log").unlink()  # what was sent never got there
    corrected(place, fee=60)
    assert place.run("--wait", "0").counts == {"unconfirmed": 1}
    say(place, "probe", "yes")
    ran = place.run("--wait", "20s")
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    (filed,) = [json.loads(line)["payload"] for line in (place.folder / "registry.log").read_text().splitlines()]
    assert filed == {"entity": "e0", "fee": 60}
    assert place.export()[0]["input"]["fee"] == 60
    assert place.status()["waiting"] == []


def test_a_probe_that_finds_it_lets_the_old_input_go_on(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(QUICK, PROBE, LATER))
    corrected(place, fee=60)
    assert place.run("--wait", "0").counts == {"unconfirmed": 1}
    say(place, "probe", "yes")
    ran = place.run("--wait", "20s")
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    assert (filings(place), place.status()["stale"]) == ({"e0": 1}, 1)
    assert place.export()[0]["outputs"]["book"] == "found"


# Nobody can be asked.


def test_what_a_vanished_record_owes_is_still_told_and_decided(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text())
    assert place.run().counts == {"unconfirmed": 1}
    place.write("in.jsonl", [{"id": "other", "entity": "e1"}])
    ran = place.run()
    assert (ran.code, ran.counts, ran.status["vanished_open"]) == (1, {"succeeded": 1}, 1)
    assert "Next: onward reconcile" in ran.said
    owing = (
        "1 record no longer in the source, with an effect still open; which: onward failures job.py --state unconfirmed"
    )
    assert owing in ran.said
    told = place.fine("status", "job.py")
    assert "1 of them with an effect still open" in told
    assert "Next: onward reconcile job.py" in told
    (waiting,) = place.status()["waiting"]
    assert waiting["reason"] == "an effect still open of a record that is no longer in the source"
    assert (waiting["count"], waiting["since"] is None) == (1, False)
    assert "no longer in the source" in place.fine("status", "job.py")
    (failure,) = place.failures()
    assert (failure["key"], failure["state"], failure["vanished"]) == ("r0", "unconfirmed", True)
    assert "unconfirmed, vanished" in place.fine("failures", "job.py")
    assert "1 record that nobody can be asked about" in place.fine("reconcile", "job.py")
    place.fine("reconcile", "job.py", "r0", "--sent", '{"number": "7"}', "--json")
    assert (place.status()["waiting"], place.failures()) == ([], [])
    assert (place.status()["vanished_open"], "no longer in the source" in place.run().said) == (0, False)
    assert place.run().code == 0


def test_what_was_killed_between_send_and_checkpoint_is_not_sent_again(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE, LATER))
    for _ in range(3):
        ran = place.run()
        assert (ran.code, ran.counts) == (1, {"unconfirmed": 1})
        assert "unconfirmed: 1 wait for a person's word" in ran.said
        assert "Next: onward reconcile job.py" in ran.said
    assert filings(place) == {"e0": 1}
    assert place.calls("book") == []
    (waiting,) = place.status()["waiting"]
    assert waiting["reason"].startswith("a person's word: it is not known whether it was sent")
    assert (waiting["count"], waiting["until"]) == (1, None)
    assert waiting["since"]
    (failure,) = place.failures()
    assert {name: failure[name] for name in ("key", "state", "step", "kind", "deaths")} == {
        "key": "r0",
        "state": "unconfirmed",
        "step": "submit",
        "kind": "system",
        "deaths": 1,
    }
    assert "nobody can be asked" in failure["error"]
    assert place.failures("--kind", "transient") == []
    assert "reconcile" in place.fine("failures", "job.py")


def test_a_person_says_that_it_was_sent(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE, LATER))
    place.run()
    told = place.fine("reconcile", "job.py", "r0", "--sent", "4711", "--reason", "the clerk found it")
    assert "record r0: annual-report was sent, as you say; it goes on at book" in told
    assert place.status()["counts"]["pending"] == 1
    (entry,) = show(place, "r0")["effects"]
    assert (entry["effect"], entry["state"], entry["receipt"]) == ("annual-report", "confirmed", "4711")
    assert "payload" not in entry
    assert show(place, "r0", "--payloads")["effects"][0]["payload"] == {"entity": "e0", "fee": 50}
    last = show(place, "r0")["history"][-1]
    assert (last["event"], last["step"], last["actor"]) == ("effect_confirmed", "submit", getpass.getuser())
    assert last["reason"] == "a person says: it was sent; the clerk found it"
    assert last["at"]
    plain(place.fine("show", "job.py", "r0"))
    plain(place.fine("log", "job.py", "--verify"))


def test_a_receipt_fits_the_effects_annotation(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE, LATER, returns=" -> dict[str, str]"))
    place.run()
    for words in (("--sent", "4711"), ("--sent", "4711", "--json"), ("--sent", "{", "--json")):
        refused = place.onward("reconcile", "job.py", "r0", *words)
        assert (refused.returncode, refused.stdout) == (2, "")
        plain(refused.stderr)
        assert ("is given as JSON, with --json" in refused.stderr) == ("--json" not in words)
    assert place.status()["counts"]["unconfirmed"] == 1
    told = reconciled(place, "r0", "--sent", '{"number": "4711"}')
    assert told["receipt"] == {"number": "4711"}
    assert (told["state"], told["next_step"], told["sent"]) == ("pending", "book", True)
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    assert place.export()[0]["outputs"] == {"validate": {"ok": True}, "submit": {"number": "4711"}, "book": "4711"}
    assert filings(place) == {"e0": 1}


def test_where_the_effect_is_the_last_step_the_record_has_succeeded(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE))
    place.run()
    assert "it has succeeded" in place.fine("reconcile", "job.py", "r0", "--sent", "4711")
    status = place.status()
    assert (status["counts"]["succeeded"], status["stale"]) == (1, 0)
    assert {step["name"]: step["succeeded"] for step in status["steps"]} == {"validate": 1, "submit": 1}
    assert place.export()[0]["outputs"]["submit"] == "4711"
    assert place.run().code == 0


def test_a_person_says_that_it_was_not_sent(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE, LATER))
    place.run()
    told = reconciled(place, "r0", "--not-sent")
    assert (told["state"], told["next_step"], told["sent"], told["receipt"]) == ("pending", "submit", False, None)
    assert show(place, "r0")["effects"][0]["state"] == "absent"
    assert show(place, "r0")["history"][-1]["event"] == "effect_denied"
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    assert filings(place) == {"e0": 2}  # the person was wrong, and is on record


def test_what_cannot_be_decided_is_told_plainly(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE))
    dead = place.onward("reconcile", "job.py", "r0", "--not-sent")
    assert dead.returncode == 2
    assert "in progress" in dead.stderr
    place.run()
    wrong = {
        ("r9", "--not-sent"): "no record with the key",
        ("r0",): "--sent RECEIPT or --not-sent",
        ("r0", "r1", "--sent", "1"): "about one record",
        ("--not-sent",): "KEY",
        ("r0", "--not-sent", "--sent", "1"): "exclude",
        ("r0", "--not-sent", "--effect", "amendment"): "no effect 'amendment'",
        ("--effect", "amendment"): "no effect 'amendment'",
    }
    for words, told in wrong.items():
        ended = place.onward("reconcile", "job.py", *words)
        assert ended.returncode == 2, words
        assert told in ended.stderr, words
        plain(ended.stderr)
    place.fine("reconcile", "job.py", "r0", "--sent", "1", "--effect", "annual-report")
    done = place.onward("reconcile", "job.py", "r0", "--not-sent")
    assert done.returncode == 2
    assert "is succeeded, not unconfirmed" in done.stderr
    assert show(place, "r0")["effects"][0]["receipt"] == "1"


def test_with_the_store_alone_only_what_was_not_sent_can_be_said(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE))
    place.run()
    alone = ("--store", ".onward/onward.db", "--job", "filings")
    sent = place.onward("reconcile", *alone, "r0", "--sent", "1")
    assert sent.returncode == 2
    assert "the job's file" in sent.stderr
    assert place.onward("reconcile", *alone).returncode == 2
    place.fine("reconcile", *alone, "r0", "--not-sent")
    assert place.status()["counts"]["pending"] == 1


# Asking again.


def test_without_anything_open_there_is_nothing_to_ask(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(UNASKABLE))
    place.run()
    assert "nothing is open" in place.fine("reconcile", "job.py")
    assert len(place.status()["runs"]) == 1


def test_what_nobody_can_be_asked_about_is_left_to_a_person(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE))
    place.run()
    told = place.fine("reconcile", "job.py")
    assert "1 record that nobody can be asked about" in told
    assert "--sent RECEIPT" in told
    assert reconciled(place)["left"] == 1
    assert len(place.status()["runs"]) == 2  # nothing was asked, so nothing ran


def test_probes_are_asked_again_and_what_is_found_goes_on(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(QUICK, PROBE, LATER))
    say(place, "hangs up", "1")
    ran = place.run("--wait", "1s")
    assert (ran.code, ran.counts) == (1, {"unconfirmed": 3})
    (waiting,) = place.status()["waiting"]
    assert waiting["until"]
    assert place.failures()[0]["kind"] == "transient"  # its own failure: the connection was lost
    say(place, "probe", "yes")
    say(place, "hangs up", "")
    with (place.folder / "in.jsonl").open("a") as rows:
        rows.write('{"id": "r9", "entity": "e9"}\n')
    told = reconciled(place, "--reason", "the portal is up again")
    assert (told["asked"], told["counts"], told["exit_code"]) == (3, {"succeeded": 3}, 0)
    assert {one["key"] for one in told["records"]} == {"r0", "r1", "r2"}
    assert sorted(place.calls("book")) == ["r0", "r1", "r2"]
    assert place.status()["total"] == 3  # it feeds nothing
    assert filings(place) == {"e0": 1, "e1": 1, "e2": 1}
    events = [(one["event"], one["actor"]) for one in show(place, "r0")["history"]]
    assert ("effect_asked", getpass.getuser()) in events
    assert events.index(("effect_asked", getpass.getuser())) < len(events) - 1
    assert place.run().counts == {"succeeded": 4}


def test_each_is_asked_once_and_fresh_records_are_left_alone(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(QUICK, PROBE, LATER))
    say(place, "hangs up", "1")
    place.run("--wait", "0s", "--limit", "1")
    assert probes(place) == 0
    time.sleep(0.5)  # until what was sent must have landed
    for number in (1, 2, 3):
        told = reconciled(place)
        assert (told["asked"], told["counts"]) == (1, {"unconfirmed": 1})
        assert "an answer" in told["records"][0]["waiting"]["reason"]
        assert probes(place) == number  # whatever pause was due
    assert place.status()["counts"]["pending"] == 2
    assert sum(filings(place).values()) == 1


def test_a_probe_is_not_asked_before_what_was_sent_must_have_landed(tmp_path: Path) -> None:
    slow = QUICK.replace("deadline=0.2, settle=0", "deadline=1, settle=60")
    place = killed_between_send_and_checkpoint(tmp_path, text(slow, PROBE, LATER))
    say(place, "probe", "yes")
    told = reconciled(place)  # the dead run's record is taken over, and nothing is believed yet
    assert told["counts"] == {"unconfirmed": 1}
    assert told["records"][0]["waiting"]["until"]
    assert not (place.folder / "probes.log").exists()
    assert filings(place) == {"e0": 1}


def test_what_was_never_confirmed_waits_for_a_person_and_can_be_asked_about(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(QUICK + ", confirm_within=0.5", CONFIRM, LATER), entities=2)
    ran = place.run("--wait", "5s")
    assert (ran.code, ran.counts) == (1, {"unconfirmed": 2})
    assert "unconfirmed: 2 wait for a person's word" in ran.said
    (waiting,) = place.status()["waiting"]
    assert waiting["reason"] == "a person's word: sent, and not confirmed within 0.5 s"
    for failure in place.failures():
        assert (failure["kind"], failure["error"]) == (None, "sent, and not confirmed within 0.5 s")
    still = reconciled(place)
    assert (still["asked"], still["counts"]) == (2, {"unconfirmed": 2})
    assert "sent, and not confirmed" in show(place, "r0")["waiting"]["reason"]
    say(place, "ack", "yes")
    assert reconciled(place, "--effect", "annual-report")["counts"] == {"succeeded": 2}
    assert place.status()["counts"]["succeeded"] == 2
    assert filings(place) == {"e0": 1, "e1": 1}


def test_an_acknowledgement_that_does_not_match_waits_until_it_does(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(QUICK, CONFIRM), entities=1)
    say(place, "ack", "mismatch fee 40, 50 due")
    assert place.run("--wait", "0s").counts == {"unconfirmed": 1}
    (waiting,) = place.status()["waiting"]
    assert waiting["reason"] == "a person's word: the acknowledgement does not match"
    assert show(place, "r0")["waiting"]["reason"].endswith("fee 40, 50 due")
    say(place, "ack", "yes")
    assert reconciled(place)["counts"] == {"succeeded": 1}


# While a run is alive.


@pytest.mark.parametrize("words", [("--sent", "by hand"), ("--not-sent",)])
def test_a_word_given_while_a_run_asks_is_neither_lost_nor_doubled(tmp_path: Path, words: tuple[str, ...]) -> None:
    place = a_place(tmp_path, text(QUICK, PROBE), entities=1)
    say(place, "hangs up", "1")
    run = place.start("run", "job.py", "--wait", "60s")
    try:
        wait_until(lambda: (place.folder / "probes.log").exists())
        say(place, "hangs up", "")
        wait_until(lambda: place.onward("reconcile", "job.py", "r0", *words).returncode == 0)
        assert run.wait(60) == 0
    finally:
        run.kill()
    assert place.status()["counts"]["succeeded"] == 1
    events = [one["event"] for one in show(place, "r0")["history"] if one["actor"]]
    assert events == ["effect_confirmed" if words[0] == "--sent" else "effect_denied"]
    assert filings(place) == {"e0": 1 if words[0] == "--sent" else 2}
    assert "fault" not in (place.folder / "said.txt").read_text()


def test_a_limited_run_stays_no_longer_than_told_for_what_is_not_confirmed(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(QUICK, CONFIRM), entities=2)
    began = time.monotonic()
    ran = place.run("--limit", "1", "--wait", "1s")
    assert (ran.code, ran.counts) == (1, {"unconfirmed": 1, "pending": 1})
    assert time.monotonic() - began < 30


# Names in the ledger.


def test_a_name_that_is_no_longer_declared_stops_the_job_until_it_is_said_what_became_of_it(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(UNASKABLE), entities=2)
    assert place.run().code == 0
    place.write("in.jsonl", [{"id": f"r{number}", "entity": f"e{number}"} for number in range(3)])
    place.job(text('"report", key="entity"'))
    stopped = place.onward("run", "job.py")
    assert stopped.returncode == 2
    assert "formerly='annual-report'" in stopped.stderr
    plain(stopped.stderr)
    assert place.status()["total"] == 2  # nothing was fed
    assert len(place.status()["runs"]) == 1
    place.job(text('"report", key="entity", formerly="annual-report"'))
    assert place.run().counts == {"succeeded": 3}
    assert filings(place) == {"e0": 1, "e1": 1, "e2": 1}


def test_what_was_sent_under_a_former_name_is_not_sent_again_by_another_job(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(UNASKABLE), entities=2)
    assert place.run().code == 0
    renamed = text('"report", key="entity", formerly=("annual-report",)')
    place.job(renamed.replace('"filings"', '"refilings"'))
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 2})
    assert filings(place) == {"e0": 1, "e1": 1}
    (entry,) = show(place, "r0")["effects"]
    assert (entry["effect"], entry["state"]) == ("annual-report", "confirmed")
    place.write("in.jsonl", [{"id": "again", "entity": "e1", "fee": 60}])
    assert place.run().counts == {"quarantined": 1}  # another payload for the same obligation
    assert filings(place) == {"e0": 1, "e1": 1}


def test_open_intents_under_a_name_that_is_gone_stop_the_job(tmp_path: Path) -> None:
    place = killed_between_send_and_checkpoint(tmp_path, text(UNASKABLE))
    gone = REGISTRY.partition("LOG")[0] + "@job.step\ndef a(filing):\n    return 1\n"
    place.job(gone)
    stopped = place.onward("run", "job.py")
    assert stopped.returncode == 2
    assert "1 obligation without an outcome under 'annual-report'" in stopped.stderr
    place.job(text(UNASKABLE))
    place.run()
    place.fine("reconcile", "job.py", "r0", "--sent", "1")
    place.job(gone)
    assert place.run().code == 0


# From Python.


def test_reconcile_has_the_command_lines_words_in_python(tmp_path: Path) -> None:
    place = a_place(tmp_path, text(QUICK, CONFIRM), entities=2)
    assert place.run("--wait", "0s").counts == {"unconfirmed": 2}
    script = """
import sys; sys.path.insert(0, ".")
import onward, job
def refused(*keys, **given):
    try:
        onward.reconcile(job.job, *keys, **given)
    except onward.UsageError as error:
        return True
assert refused("r0") and refused(sent=1) and refused("r0", sent=1, not_sent=True) and refused("x", sent=1)
assert refused("r0", "r1", sent=1) and refused(all=True, sent=1) and refused("r0", all=True, not_sent=True)
assert refused("r0", from_file="decided.jsonl") and refused(all=True) and refused(dry_run=True)
decided = onward.reconcile(job.job, "r0", sent={"number": "1"}, reason="seen")
assert (decided.state, decided.receipt, decided.next_step) == ("succeeded", {"number": "1"}, None)
asked = onward.reconcile(job.job)
assert (asked.counts, asked.for_a_person) == ({"unconfirmed": 1}, 0), asked
assert onward.reconcile(job.job, "r1", not_sent=True, effect="annual-report").state == "pending"
"""
    (place.folder / "script.py").write_text(script)
    subprocess.run([sys.executable, "script.py"], cwd=place.folder, env=surroundings(), check=True)


# What is paused.


GROUPED = '"annual-report", key="entity", deadline=0.2, settle=0, probe_first=False, group="entity"'


def asked_while_paused(folder: Path, *which: str) -> tuple[Place, dict[str, Any], str]:
    """Two records, asked about while something is paused; a run stays for that for a minute."""
    place = a_place(folder, text(GROUPED, PROBE), entities=2)
    say(place, "hangs up", "yes")
    assert place.run("--wait", "0s").counts == {"unconfirmed": 2}
    say(place, "probe", "yes")
    place.fine("pause", "job.py", "--reason", "their office is closed", *which)
    ended = place.onward("reconcile", "job.py", "--json", timeout=45)
    told = place.onward("reconcile", "job.py").stdout
    return place, json.loads(ended.stdout), told


def test_a_paused_job_is_not_asked_about_and_not_waited_for(tmp_path: Path) -> None:
    place, found, told = asked_while_paused(tmp_path)
    assert (found["counts"], found["exit_code"], probes(place)) == ({"unconfirmed": 2}, 3, 0)
    (paused,) = found["paused"]
    assert paused == f"the job is paused by {getpass.getuser()}: their office is closed"
    assert paused in told
    assert "Next: onward resume job.py" in told
    place.fine("resume", "job.py")
    assert reconciled(place)["counts"] == {"succeeded": 2}


def test_the_rest_is_asked_about_where_a_group_is_paused(tmp_path: Path) -> None:
    place, found, told = asked_while_paused(tmp_path, "--group", "e1")
    assert (found["counts"], probes(place)) == ({"succeeded": 1, "unconfirmed": 1}, 1)
    (paused,) = found["paused"]
    assert paused.startswith("group e1 is paused by ")
    assert paused in told


# Two that owe the same.


def test_who_waits_for_another_goes_on_by_itself_when_that_is_decided(tmp_path: Path) -> None:
    place = Place(tmp_path, text(UNASKABLE))
    say(place, "hangs up", "1")
    place.write("in.jsonl", [{"id": "r0", "entity": "e0"}, {"id": "r1", "entity": "e0"}])
    assert place.run().counts == {"unconfirmed": 2}
    first, second = ("r0", "r1") if show(place, "r1")["held_by"] is None else ("r1", "r0")
    assert show(place, first)["held_by"]["key"] == second
    assert f"record {second} of job filings has taken over what it owes" in place.fine("show", "job.py", first)
    refused = place.onward("reconcile", "job.py", first, "--sent", "1")
    assert refused.returncode == 2
    assert f"record {second} of job 'filings' has taken over what record {first} owes" in refused.stderr
    assert "1 record whose obligation another record has taken over" in place.fine("reconcile", "job.py")
    place.fine("reconcile", "job.py", second, "--sent", "1")
    ran = place.run()
    assert (ran.code, ran.counts, filings(place)) == (0, {"succeeded": 2}, {"e0": 1})


def test_in_the_same_run_too(tmp_path: Path) -> None:
    """What the first has sent is asked about by the second, which has taken it over."""
    place = Place(tmp_path, text(QUICK + ", confirm_within=0.1", PROBE))
    say(place, "hangs up", "1")
    place.write("in.jsonl", [{"id": "r0", "entity": "e0"}])
    assert place.run("--wait", "5s").counts == {"unconfirmed": 1}
    assert "a person's word" in place.status()["waiting"][0]["reason"]
    say(place, "probe", "yes")
    place.write("in.jsonl", [{"id": "r0", "entity": "e0"}, {"id": "r1", "entity": "e0"}])
    ran = place.run("--wait", "20s")
    assert (ran.code, ran.counts, filings(place)) == (0, {"succeeded": 2}, {"e0": 1})


def test_an_adopter_that_sends_is_told_as_the_sender(tmp_path: Path) -> None:
    place = Place(tmp_path, text(QUICK + ", confirm_within=0.1", PROBE))
    say(place, "hangs up", "1")
    place.write("in.jsonl", [{"id": "r0", "entity": "e0"}])
    place.run("--wait", "5s")
    (place.folder / "registry.log").unlink()  # what the first has sent never got there
    say(place, "hangs up", "")
    say(place, "probe", "yes")
    other = text(QUICK + ", confirm_within=0.1", PROBE).replace('"filings"', '"others"')
    place.job(other)
    ran = place.run("--wait", "20s")
    assert (ran.code, ran.counts, filings(place)) == (0, {"succeeded": 1}, {"e0": 1})
    assert "not sent again" not in ran.said
    assert "effect_deduplicated" not in [one["event"] for one in show(place, "r0")["history"]]
