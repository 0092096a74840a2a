"""Case 21: the e-mail goes out, then saving that fact fails, and it goes out again."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from acceptance.far_side import PROBE, a_place, applied, events, job, kill_once_applied, requests, sent
from acceptance.jobs import Place, wait_until
from torture.registry import Registry, running

NOTICES = 12
KEYS = [f"n{number:02}" for number in range(1, NOTICES + 1)]
ASKED = '"notice", key="id", concurrency=2, deadline=1.5, settle=0.0'
UNASKED = '"notice", key="id", concurrency=2'
LOCKED = 2.5


def delivered_once(mailbox: Registry) -> None:
    assert applied(mailbox) == sent(mailbox) == dict.fromkeys(KEYS, 1)


@contextmanager
def nobody_can_write(place: Place) -> Iterator[None]:
    """Another program holds the store's lock: nothing can be saved."""
    with closing(sqlite3.connect(place.folder / ".onward" / "onward.db", timeout=60, isolation_level=None)) as store:
        store.execute("BEGIN EXCLUSIVE")
        yield
        store.execute("ROLLBACK")


def start_and_wait_for_the_fifth(place: Place, mailbox: Registry) -> subprocess.Popen[bytes]:
    """Started, and no. 5 accepted; its answer comes half a second later."""
    mailbox.switch(slow_reply=1.0, reply_after=0.5)
    run = place.start("run", "job.py")
    wait_until(lambda: applied(mailbox)["n05"])
    return run


def test_the_store_fails_for_a_while_after_no_5_was_accepted(tmp_path: Path) -> None:
    with running(tmp_path / "mailbox.db") as mailbox:
        place = a_place(tmp_path, mailbox, job(ASKED, PROBE), NOTICES)
        run = start_and_wait_for_the_fifth(place, mailbox)
        with nobody_can_write(place):
            time.sleep(LOCKED)
            accepted = applied(mailbox)
        assert run.wait(60) == 0
        assert len(accepted) < NOTICES  # nothing is sent while no intent can be made durable
        delivered_once(mailbox)
        assert place.status()["counts"]["succeeded"] == NOTICES
        assert events(place, "n05") == ["effect_intended"]


def test_killed_while_it_could_not_be_saved(tmp_path: Path) -> None:
    with running(tmp_path / "mailbox.db") as mailbox:
        place = a_place(tmp_path, mailbox, job(ASKED, PROBE), NOTICES)
        run = start_and_wait_for_the_fifth(place, mailbox)
        with nobody_can_write(place):
            time.sleep(1.0)  # its answer has come
            run.kill()
            run.wait()
        before = applied(mailbox)
        for key in before:
            assert events(place, key)[0] == "effect_intended"  # before it was sent
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": NOTICES})
        delivered_once(mailbox)
        assert events(place, "n05") == ["effect_intended", "effect_deduplicated"]


def test_delivered_and_the_reply_is_dropped(tmp_path: Path) -> None:
    with running(tmp_path / "mailbox.db") as mailbox:
        mailbox.switch(reset_after_apply=1.0)
        place = a_place(tmp_path, mailbox, job(ASKED, PROBE), NOTICES)
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": NOTICES})
        delivered_once(mailbox)
        assert events(place, "n05") == ["effect_intended", "effect_unconfirmed", "effect_deduplicated"]


@pytest.mark.parametrize("dropped", [False, True], ids=["killed", "reply dropped"])
def test_where_nobody_can_be_asked_it_stops_for_a_person(tmp_path: Path, dropped: bool) -> None:
    with running(tmp_path / "mailbox.db") as mailbox:
        place = a_place(tmp_path, mailbox, job(UNASKED), NOTICES)
        if dropped:
            mailbox.switch(reset_after_apply=[0.3, 1])
        else:
            mailbox.switch(slow_reply=[1.0, 1], reply_after=20)
            kill_once_applied(place, mailbox, "n01", "n02")
            mailbox.switch()
        ran = place.run()
        unheard = [one.entity for one in requests(mailbox) if one.fate.endswith("reset_after_apply")]
        open_ones = len(unheard) if dropped else 2
        assert open_ones
        assert (ran.code, ran.counts) == (1, {"succeeded": NOTICES - open_ones, "unconfirmed": open_ones})
        delivered_once(mailbox)
        key = unheard[0] if dropped else "n01"
        place.fine("reconcile", "job.py", key, "--sent", '{"number": "seen in the outbox"}', "--json")
        assert place.status()["counts"]["unconfirmed"] == open_ones - 1
        delivered_once(mailbox)
