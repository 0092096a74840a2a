"""Case 19: each retry makes a new idempotency key, so the card is charged twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptance.far_side import PROBE, a_place, applied, clock_ahead, job, kill_once_applied, names, requests, sent
from acceptance.jobs import Place
from torture.registry import Registry, running

INVOICES = 10
KEYS = [f"n{number:02}" for number in range(1, INVOICES + 1)]
WEEK = 7 * 86400.0
SILENT_ONCE = {"slow_reply": [1.0, 1], "reply_after": 20}
KEYED = '"payment", key="id", keyed=True, deadline=5.0, settle=0.5'
ASKED = '"payment", key="id", deadline=1.0, settle=0.5'
FORGETFUL = KEYED.replace("deadline=5.0", "deadline=1.0, expires=86400.0")
LATER = """
@job.step
def book(record, send):
    if (HERE / "books are closed").exists():
        raise onward.Rejected("no more bookings this year")
    return send["number"]
"""


def charged_once(registry: Registry, invoices: list[str] = KEYS) -> None:
    """One booking an invoice, and one key in all requests about it."""
    assert applied(registry) == dict.fromkeys(invoices, 1)
    keys = {(request.entity, request.key) for request in requests(registry)}
    assert len(keys) == len({key for _, key in keys}) == len(invoices)


@pytest.mark.parametrize(
    ("effect", "probe", "requests_each"), [(KEYED, "", 2), (ASKED, PROBE, 1)], ids=["keyed", "probed"]
)
def test_the_bank_books_and_stays_silent(tmp_path: Path, effect: str, probe: str, requests_each: int) -> None:
    with running(tmp_path / "bank.db") as bank:
        bank.switch(**SILENT_ONCE)
        place = a_place(tmp_path, bank, job(effect, probe, patience=0.4), INVOICES)
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": INVOICES})
        charged_once(bank)
        assert sent(bank) == dict.fromkeys(KEYS, requests_each)


@pytest.mark.parametrize(
    ("effect", "probe", "requests_each", "later"),
    [(KEYED, "", 2, WEEK), (ASKED, PROBE, 1, 0.0)],
    ids=["keyed, a week later", "probed, at once"],
)
def test_killed_between_the_request_and_the_answer(
    tmp_path: Path, effect: str, probe: str, requests_each: int, later: float
) -> None:
    with running(tmp_path / "bank.db") as bank:
        bank.switch(**SILENT_ONCE)
        place = a_place(tmp_path, bank, job(effect, probe), INVOICES)
        kill_once_applied(place, bank, *KEYS)
        ran = place.run(env=clock_ahead(tmp_path, later))
        assert (ran.code, ran.counts) == (0, {"succeeded": INVOICES})
        charged_once(bank)
        assert sent(bank) == dict.fromkeys(KEYS, requests_each)


def forgotten(folder: Path, bank: Registry, text: str) -> Place:
    """Killed before the answers came; a week later the bank knows none of the keys any more."""
    bank.switch(**SILENT_ONCE)
    place = a_place(folder, bank, text, INVOICES)
    kill_once_applied(place, bank, *KEYS)
    bank.switch(dedupe_window=0)
    return place


def test_once_the_bank_has_forgotten_the_keys_it_is_asked_before_anything_is_sent(tmp_path: Path) -> None:
    with running(tmp_path / "bank.db") as bank:
        place = forgotten(tmp_path, bank, job(FORGETFUL, PROBE))
        ran = place.run(env=clock_ahead(tmp_path, WEEK))
        assert (ran.code, ran.counts) == (0, {"succeeded": INVOICES})
        charged_once(bank)
        assert sent(bank) == dict.fromkeys(KEYS, 1)
        assert len(requests(bank, "lookup")) == INVOICES


def test_where_it_cannot_be_asked_a_person_decides(tmp_path: Path) -> None:
    with running(tmp_path / "bank.db") as bank:
        place = forgotten(tmp_path, bank, job(FORGETFUL))
        ran = place.run(env=clock_ahead(tmp_path, WEEK))
        assert (ran.code, ran.counts) == (1, {"unconfirmed": INVOICES})
        assert sent(bank) == dict.fromkeys(KEYS, 1)
        assert {one["state"] for one in place.failures()} == {"unconfirmed"}


def test_released_retried_and_rerun_it_is_not_sent_again(tmp_path: Path) -> None:
    closed = tmp_path / "books are closed"
    with running(tmp_path / "bank.db") as bank:
        place = a_place(tmp_path, bank, job(KEYED, LATER), INVOICES)
        closed.touch()
        assert place.run().counts == {"quarantined": INVOICES}
        place.fine("release", "job.py", "--all")
        place.job(job(KEYED, LATER.replace("onward.Rejected(", "ValueError(")))
        assert place.run().counts == {"failed": INVOICES}
        place.fine("retry", "job.py", "--all")
        closed.unlink()
        assert place.run().counts == {"succeeded": INVOICES}
        before = place.export()[0]["generation"]
        place.fine("rerun", "job.py", "--all")
        assert place.run().counts == {"succeeded": INVOICES}
        assert place.export()[0]["generation"] > before
        charged_once(bank)
        assert sent(bank) == dict.fromkeys(KEYS, 1)


def test_what_the_bank_refused_is_sent_with_the_same_key_once_it_is_corrected(tmp_path: Path) -> None:
    with running(tmp_path / "bank.db") as bank:
        place = a_place(tmp_path, bank, job(KEYED), 3, fee="fifty")
        assert place.run().counts == {"quarantined": 3}
        refused = {request.key for request in requests(bank)}
        place.write("right.jsonl", [{"key": row["id"], "input": row} for row in names(3, fee=50)])
        place.fine("release", "job.py", "--from", "right.jsonl")
        assert place.run().counts == {"succeeded": 3}
        assert [request.fate for request in requests(bank)] == ["malformed"] * 3 + ["applied"] * 3
        assert {request.key for request in requests(bank)} == refused and len(refused) == 3


def test_a_new_payment_is_asked_for_openly_by_a_key_field_of_its_own(tmp_path: Path) -> None:
    with running(tmp_path / "bank.db") as bank:
        text = job('"payment", key=("id", "revision"), keyed=True').replace('key="id")', 'key=("id", "revision"))')
        place = a_place(tmp_path, bank, text, 3, revision="first")
        assert place.run().counts == {"succeeded": 3}
        place.write("in.jsonl", [*names(3, revision="first"), *names(3, revision="second")])
        assert place.run().counts == {"succeeded": 6}
        assert applied(bank) == dict.fromkeys(KEYS[:3], 2)
        assert len({request.key for request in requests(bank)}) == len(requests(bank)) == 6
