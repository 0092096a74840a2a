"""A run ends while a thread is sending, and its process lives on: nobody is asked before that thread has returned.

The far side is a list; it applies what it is sent when the thread is let go.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onward
from acceptance.jobs import wait_until
from onward.errors import UsageError


class FarSide:
    """`let_go`: what is being sent gets there."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.arrived = threading.Event()
        self.let_go = threading.Event()
        self.returned = threading.Event()
        self.asked = 0

    def send(self, key: str) -> str:
        self.arrived.set()
        os.kill(os.getpid(), signal.SIGINT)  # the run is told to stop while this is under way
        assert self.let_go.wait(60)
        self.applied.append(key)
        self.returned.set()
        return "number"


@pytest.fixture
def far() -> Any:
    made = FarSide()
    yield made
    made.let_go.set()


@pytest.fixture
def run(far: FarSide, tmp_path: Path) -> Callable[..., onward.RunResult]:
    """A run of the one record's job, in this process."""
    job = onward.Job("cut", source=onward.iterable(lambda: [{"id": "a"}], key="id", version="1"))

    @job.effect("report", key="id", deadline=0.2, settle=0, probe_first=False)
    def submit(record: Any, idempotency_key: str) -> str:
        return far.send(idempotency_key)

    @submit.probe
    def filed(idempotency_key: str) -> Any:
        far.asked += 1
        return "found" if idempotency_key in far.applied else onward.ABSENT

    def run(**options: Any) -> onward.RunResult:
        return onward.run(job, store=str(tmp_path / "cut.db"), **options)

    run.job = job  # type: ignore[attr-defined]
    return run


def cut_in_mid_send(run: Any, far: FarSide) -> None:
    ended = run(grace=0.0, wait=0.0)
    assert far.arrived.is_set()
    assert (ended.exit_code, ended.counts["unconfirmed"]) == (3, 1)


def test_nobody_is_asked_while_the_thread_is_sending(run: Any, far: FarSide) -> None:
    cut_in_mid_send(run, far)
    assert run(wait=3.0).counts["unconfirmed"] == 1
    assert (far.asked, far.applied) == (0, [])
    far.let_go.set()
    assert far.returned.wait(60)
    wait_until(lambda: run(wait=5.0).exit_code == 0, 60)
    assert len(far.applied) == 1


def test_a_person_cannot_say_that_it_was_not_sent(run: Any, far: FarSide, tmp_path: Path) -> None:
    cut_in_mid_send(run, far)
    store = str(tmp_path / "cut.db")
    (waiting,) = onward.status(run.job, store=store)["waiting"]
    assert waiting["reason"] == (
        "the end of a call that may still be sending, or of its process (if that is stopped for good, end it)"
    )
    with pytest.raises(UsageError, match="may still be sending"):
        onward.reconcile(run.job, "a", not_sent=True, store=store)
    found = onward.reconcile(run.job, store=store)
    assert (found.sending, far.asked) == (1, 0)  # type: ignore[union-attr]
