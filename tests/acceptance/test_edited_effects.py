"""A job file is edited between runs, and what its effects have sent, or may have sent, is not sent again for that.

The far side is a file that each request is appended to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place

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
