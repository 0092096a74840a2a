"""A job file is edited between runs, and what its effects have sent, or may have sent, is not sent again for that.

The far side is a file that each request is appended to.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, wait_until

FAR = """
def sent(key, payload):
    with (HERE / "far.log").open("a") as log:
        log.write(json.dumps([key, payload]) + "\\n")
        log.flush()
        os.fsync(log.fileno())

job = onward.Job("edited", source=onward.jsonl("in.jsonl", key="id"))
"""


def requests(place: Place) -> list[Any]:
    """The payloads that the far side was sent."""
    log = place.folder / "far.log"
    found = [json.loads(line)[1] for line in log.read_text().splitlines()] if log.exists() else []
    return sorted(found, key=json.dumps)


def show(place: Place, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.fine("show", "job.py", key, "--json"))
    return found


# The fields of the key.

KEYED = (
    FAR
    + """
@job.effect("report", key=@KEY@, version="@VERSION@")
def submit(record, payload, idempotency_key) -> dict:
    sent(idempotency_key, payload)
    return {"number": record["id"]}

@submit.payload
def body(record):
    return {"id": record["id"]}
"""
)


def keyed(key: str, version: int) -> str:
    return KEYED.replace("@KEY@", key).replace("@VERSION@", str(version))


@pytest.fixture
def rekeyed(tmp_path: Path) -> Place:
    """Two reports are filed; then the effect's key gets another field."""
    place = Place(tmp_path, keyed('"id"', 1))
    place.write("in.jsonl", [{"id": "a", "revision": 1}, {"id": "b", "revision": 1}])
    assert place.run().counts == {"succeeded": 2}
    place.job(keyed('("id", "revision")', 2))
    return place


def test_a_rerun_under_another_key_sends_nothing_again(rekeyed: Place) -> None:
    place = rekeyed
    (entry,) = show(place, "a")["effects"]
    place.fine("rerun", "job.py", "--stale")
    ran = place.run()
    assert (ran.code, ran.counts, requests(place)) == (1, {"quarantined": 2}, [{"id": "a"}, {"id": "b"}])
    for failure in place.failures("--kind", "conflict"):
        assert "Put key= back as it was and release the record" in failure["error"]
    assert entry["idempotency_key"] in place.failures()[0]["error"]
    place.job(keyed('"id"', 2))
    place.fine("release", "job.py", "--all")
    assert place.run().counts == {"succeeded": 2}
    assert len(requests(place)) == 2
    assert place.export()[0]["outputs"] == {"submit": {"number": "a"}}


def test_an_input_that_has_changed_may_owe_another(rekeyed: Place) -> None:
    place = rekeyed
    place.write("in.jsonl", [{"id": "a", "revision": 2}, {"id": "b", "revision": 1}])
    place.run()
    place.fine("rerun", "job.py", "a")
    assert place.run().counts == {"succeeded": 2}
    assert requests(place) == [{"id": "a"}, {"id": "a"}, {"id": "b"}]


def test_obligations_under_another_key_are_told_when_a_run_begins(rekeyed: Place) -> None:
    place = rekeyed
    told = "report: its key is (id, revision) now; 2 obligations of this job under the key (id) will not be recognised"
    assert told in place.run().said
    place.job(keyed('"id"', 2))
    assert "will not be recognised" not in place.run().said


# Models that no longer fit what is stored.

MODELLED = (
    FAR.replace('key="id")', 'key="id"), record=Record')
    + """
@job.step(version="1")
def prepare(record: Record) -> Output:
    return Output("1")

@job.effect("report", key="id", keyed=True, deadline=0.2, settle=0, version="1")
def submit(record: Record, prepare: Output, payload: Payload, idempotency_key) -> Receipt:
    sent(idempotency_key, payload.id)
    if not (HERE / "answers").exists():
        raise ConnectionResetError("no answer")
    return Receipt("7")

@submit.payload
def body(record: Record, prepare: Output) -> Payload:
    return Payload("1")

@submit.confirm
def acknowledged(record: Record, submit: Receipt):
    return (HERE / "confirms").exists()
"""
)
MODEL = """
from dataclasses import dataclass

@dataclass
class {name}:
    id: str
    {more}
"""


def modelled(changed: str = "") -> str:
    """The job; the model that has `changed` needs a field that nothing stored has."""
    names = ("Record", "Output", "Payload", "Receipt")
    models = [MODEL.format(name=name, more="more: int" if name == changed else "") for name in names]
    return "".join(models) + MODELLED


@pytest.mark.parametrize("changed", ["Record", "Output", "Payload", "Receipt"])
def test_what_no_longer_decodes_is_not_asked_about_for_ever(tmp_path: Path, changed: str) -> None:
    place = Place(tmp_path, modelled())
    place.write("in.jsonl", [{"id": "a"}])
    if changed == "Receipt":
        (tmp_path / "answers").touch()
    assert place.run("--wait", "0").counts == {"unconfirmed": 1}
    place.job(modelled(changed))
    for _ in range(2):  # each run looks once, and waits for nothing
        ran = place.run("--wait", "1h")
        assert (ran.code, ran.counts, requests(place)) == (4, {"unconfirmed": 1}, ["1"])
        assert "Put the model, or the parameter, back and run again, or say what became of each: " in ran.said
        assert "onward reconcile job.py KEY --sent RECEIPT" in ran.said
        assert "unconfirmed: 1 wait for a person's word" in ran.said
    (waiting,) = place.status()["waiting"]
    assert waiting["reason"] == "a person: an effect is open, and what is stored of it no longer decodes"
    assert "what is stored no longer decodes" in show(place, "a")["waiting"]["reason"]
    (tmp_path / "answers").touch()
    (tmp_path / "confirms").touch()
    place.job(modelled())
    ran = place.run("--wait", "20s")
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})


def test_a_person_may_decide_about_what_no_longer_decodes(tmp_path: Path) -> None:
    place = Place(tmp_path, modelled())
    place.write("in.jsonl", [{"id": "a"}])
    place.run("--wait", "0")
    place.job(modelled("Payload"))
    assert place.run("--wait", "1h").code == 4
    place.fine("reconcile", "job.py", "a", "--sent", '{"id": "9"}', "--json")
    assert place.run().counts == {"succeeded": 1}
    assert (place.export()[0]["outputs"]["submit"], requests(place)) == ({"id": "9"}, ["1"])


WITHOUT_PAYLOAD = (
    FAR
    + """
@job.step(version="1")
def check(record):
    return 7

@job.effect("report", key="id", keyed=True, deadline=0.2, settle=0, version="1")
def submit(@PARAMETERS@, idempotency_key):
    sent(idempotency_key, [@PARAMETERS@])
    if not (HERE / "answers").exists():
        raise ConnectionResetError("no answer")
    return "7"
"""
)


@pytest.mark.parametrize("edited", ["filing, check", "record, check, payload"])
def test_a_parameter_that_the_frozen_payload_knows_nothing_of(tmp_path: Path, edited: str) -> None:
    """Renamed, it waits for a person; what is not of the payload may be added."""
    place = Place(tmp_path, WITHOUT_PAYLOAD.replace("@PARAMETERS@", "record, check"))
    place.write("in.jsonl", [{"id": "a"}])
    assert place.run("--wait", "0").counts == {"unconfirmed": 1}
    (tmp_path / "answers").touch()
    place.job(WITHOUT_PAYLOAD.replace("@PARAMETERS@", edited))
    if "filing" in edited:
        for _ in range(2):
            ran = place.run("--wait", "1h")
            assert (ran.code, ran.counts, requests(place)) == (4, {"unconfirmed": 1}, [[{"id": "a"}, 7]])
            assert "Put the model, or the parameter, back and run again" in ran.said
        told = "the payload: it was frozen of the parameters record, check and holds nothing for 'filing'"
        assert told in show(place, "a")["waiting"]["reason"]
        place.job(WITHOUT_PAYLOAD.replace("@PARAMETERS@", "record, check"))
    assert place.run("--wait", "20s").counts == {"succeeded": 1}
    assert len(requests(place)) == 2


# A rerun that ends in a conflict, and the way back.

PRICED = (
    FAR
    + """
@job.step(version="@VERSION@")
def price(record):
    started(record["id"], "price")
    return record["price"] + @MORE@ + @NOISE@

@job.effect("report", key="id", version="1")
def submit(record, payload, idempotency_key) -> dict:
    sent(idempotency_key, payload)
    return {"number": record["id"]}

@submit.payload
def body(record, price):
    return {"price": price}

@job.step(version="1")
def book(record, submit):
    return submit["number"]
"""
)


def priced(more: int, noise: str = "0") -> str:
    text = PRICED.replace("@VERSION@", f"v{more}").replace("@MORE@", str(more))
    return text.replace("@NOISE@", noise)


@pytest.fixture
def in_conflict(tmp_path: Path) -> Place:
    """One report is filed; then its price is computed otherwise, and a rerun comes upon what was filed."""
    place = Place(tmp_path, priced(0))
    place.write("in.jsonl", [{"id": "a", "price": 5}])
    assert place.run().counts == {"succeeded": 1}
    place.job(priced(1))
    told = "1 of them has sent report: where its payload is another one now, that is a conflict, and a person decides"
    assert told in place.run().said
    assert told in place.fine("rerun", "job.py", "--stale", "--dry-run")
    assert told in place.fine("rerun", "job.py", "--stale")
    ran = place.run()
    assert (ran.code, ran.counts, requests(place)) == (1, {"quarantined": 1}, [{"price": 5}])
    (failure,) = place.failures()
    assert "put the code or the input back as it was and release the record" in failure["error"]
    return place


def test_what_is_made_anew_behind_an_effect_comes_upon_nothing_sent(tmp_path: Path) -> None:
    place = Place(tmp_path, priced(0))
    place.write("in.jsonl", [{"id": "a", "price": 5}])
    place.run()
    place.job(priced(0).replace('@job.step(version="1")', '@job.step(version="2")'))
    assert "have sent" not in (said := place.run().said) and "has sent" not in said
    assert "has sent" not in place.fine("rerun", "job.py", "--stale")


def test_with_the_code_put_back_it_keeps_what_was_sent(in_conflict: Place) -> None:
    place = in_conflict
    place.job(priced(0))
    place.fine("release", "job.py", "--all")
    ran = place.run()
    assert (ran.code, ran.counts, requests(place)) == (0, {"succeeded": 1}, [{"price": 5}])
    (row,) = place.export()
    assert row["outputs"] == {"price": 5, "submit": {"number": "a"}, "book": "a"}
    assert (row["generation"], place.status()["stale"], len(place.calls("price"))) == (2, 0, 2)
    assert "1 not sent again: sent by edited already" in ran.said


def test_with_other_code_it_is_tried_with_what_that_makes(in_conflict: Place) -> None:
    place = in_conflict
    place.job(priced(2))
    place.fine("release", "job.py", "--all")
    assert place.run().counts == {"quarantined": 1}
    place.job(priced(3, noise="-3"))
    place.fine("release", "job.py", "--all")
    assert place.run().counts == {"succeeded": 1}
    assert (requests(place), place.export()[0]["versions"]["price"]) == ([{"price": 5}], "v3")


def test_a_step_that_is_not_the_same_twice_has_its_first_output_back(tmp_path: Path) -> None:
    place = Place(tmp_path, priced(0, "time.time_ns()"))
    place.write("in.jsonl", [{"id": "a", "price": 5}])
    place.run()
    (first,) = requests(place)
    place.fine("rerun", "job.py", "--step", "price")
    assert place.run().counts == {"quarantined": 1}
    place.fine("release", "job.py", "--all")
    assert place.run().counts == {"succeeded": 1}
    assert (requests(place), place.export()[0]["outputs"]["price"]) == ([first], first["price"])


def test_without_a_change_it_comes_upon_the_same_again(in_conflict: Place) -> None:
    place = in_conflict
    place.fine("release", "job.py", "--all")
    assert place.run().counts == {"quarantined": 1}
    assert len(place.calls("price")) == 2


# Times, names and types.

TIMES = (
    FAR
    + """
DIES = not (HERE / "far.log").exists()

@job.effect("report", key="id", deadline=1, settle=@SETTLE@, probe_first=False)
def submit(record, idempotency_key) -> dict:
    sent(idempotency_key, [time.time()])
    if DIES:
        os._exit(9)
    return {"number": 1}

@submit.probe
def filed(idempotency_key):
    sent(idempotency_key, [time.time()])
    return {"number": 1}
"""
)


def test_what_was_declared_when_it_was_sent_holds_though_less_is_declared_now(tmp_path: Path) -> None:
    """The process died in mid-send: what it had sent may still land for as long as its own declaration says."""
    place = Place(tmp_path, "import time\n" + TIMES.replace("@SETTLE@", "5"))
    place.write("in.jsonl", [{"id": "a"}])
    assert place.onward("run", "job.py").returncode == 9
    place.job("import time\n" + TIMES.replace("@SETTLE@", "0"))
    assert place.run("--wait", "30").counts == {"succeeded": 1}
    ((sent,), (asked,)) = requests(place)
    assert asked - sent >= 6.0


def test_a_person_who_looks_before_it_can_have_arrived_is_not_believed(tmp_path: Path) -> None:
    place = Place(tmp_path, "import time\n" + TIMES.replace("@SETTLE@", "4").split("@submit.probe")[0])
    place.write("in.jsonl", [{"id": "a"}])
    assert place.onward("run", "job.py").returncode == 9
    assert place.run("--wait", "0").counts == {"unconfirmed": 1}
    ended = place.onward("reconcile", "job.py", "a", "--not-sent")
    assert ended.returncode == 2
    assert "what was sent for a may still arrive" in ended.stderr
    wait_until(lambda: place.onward("reconcile", "job.py", "a", "--not-sent").returncode == 0, 30)
    (sent,) = requests(place)[0]
    assert time.time() - sent >= 5.0
    assert place.run().counts == {"succeeded": 1}


RENAMED = (
    FAR
    + """
@job.effect("@NAME@", key="duty"@FORMERLY@, deadline=60, settle=0)
async def submit(record, payload, idempotency_key) -> dict:
    sent(idempotency_key, payload)
    while record["id"] == "slow" and not (HERE / "go").exists():
        await asyncio.sleep(0.05)
    if record["id"] == "refused" and "@NAME@" == "old":
        raise onward.Rejected("no")
    return {"number": record["id"]}

@submit.payload
def body(record):
    return {"duty": record["duty"]}
"""
)


def renamed(name: str, formerly: str = "") -> str:
    given = f", formerly={formerly!r}" if formerly else ""
    return "import asyncio\n" + RENAMED.replace("@NAME@", name).replace("@FORMERLY@", given)


def test_a_former_name_is_kept_for_as_long_as_something_stands_under_it(tmp_path: Path) -> None:
    place = Place(tmp_path, renamed("old"))
    place.write("in.jsonl", [{"id": "a", "duty": "one"}])
    assert place.run().code == 0
    place.job(renamed("new", "old"))
    place.write("in.jsonl", [{"id": "a", "duty": "one"}, {"id": "b", "duty": "two"}])
    assert place.run().code == 0
    place.job(renamed("new"))
    place.write("in.jsonl", [{"id": "c", "duty": "one"}])
    ended = place.onward("run", "job.py")
    assert ended.returncode == 2
    assert "keep it" in ended.stderr and "formerly='old'" in ended.stderr
    place.job(renamed("newest", "new"))
    assert "formerly='old'" in place.onward("run", "job.py").stderr
    place.job(renamed("new", "old"))
    assert place.run().code == 0
    assert requests(place) == [{"duty": "one"}, {"duty": "two"}]


def test_what_was_refused_under_a_former_name_does_not_hide_what_is_done_under_today_s(tmp_path: Path) -> None:
    place = Place(tmp_path, renamed("old"))
    place.write("in.jsonl", [{"id": "refused", "duty": "one"}])
    assert place.run().code == 1
    place.job(renamed("new").replace('Job("edited"', 'Job("another"').replace("in.jsonl", "other.jsonl"))
    place.write("other.jsonl", [{"id": "z", "duty": "one"}])
    assert place.run().code == 0
    place.job(renamed("new", "old"))
    place.fine("release", "job.py", "--all")
    assert place.run().code == 0
    assert requests(place) == [{"duty": "one"}, {"duty": "one"}]  # the one that was refused, and the other job's


@pytest.mark.parametrize("first", ["old", "new"])
def test_code_before_and_after_a_renaming_does_not_work_at_the_same_time(tmp_path: Path, first: str) -> None:
    texts = {"old": renamed("old"), "new": renamed("new", "old")}
    place = Place(tmp_path, texts[first])
    place.write("in.jsonl", [{"id": "slow", "duty": "one"}])
    begun = place.start("run", "job.py")
    try:
        wait_until(lambda: requests(place), 30)
        place.job(texts["new" if first == "old" else "old"])
        ended = place.onward("run", "job.py")
        assert ended.returncode == 2
        assert "is at work, by code that gives the effect 'old' another name" in ended.stderr
    finally:
        (tmp_path / "go").touch()
        assert begun.wait(30) == 0
    assert len(requests(place)) == 1


TYPED = (
    FAR
    + """
@job.effect("report", key={"fee": @TYPE@})
def submit(record, idempotency_key) -> dict:
    sent(idempotency_key, record)
    return {"number": record["id"]}
"""
)


def test_a_key_of_another_type_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path, "from decimal import Decimal\n" + TYPED.replace("@TYPE@", "str"))
    place.write("in.jsonl", [{"id": "a", "fee": "40.10"}])
    assert place.run().code == 0
    place.job("from decimal import Decimal\n" + TYPED.replace("@TYPE@", "Decimal"))
    place.write("in.jsonl", [{"id": "a", "fee": "40.10"}, {"id": "b", "fee": "9.95"}])
    assert "fee as a Decimal" in place.run().said
