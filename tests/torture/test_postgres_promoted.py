"""A standby is promoted that lacks the last of what its primary had acknowledged: that is said, and nothing sent twice.

Real asynchronous replication on one machine; runs reach whichever server is the primary through a proxy.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from helpers import postgres
from helpers.cutting import Cutter
from onward.clock import SystemClock
from onward.store.postgres.address import parse
from onward.store.postgres.work import PostgresWorkStore
from torture import effect_campaign, forked
from torture.day_campaign import _NO_HABIT
from torture.effect_scenes import Scene, close_registry, the_registry, write_down
from victims.filings import Spec

RECORDS, BEFORE, MORE = 36, 5, 8

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform == "darwin", reason="victims are forked: Linux only"
)


class Service:
    """A primary, and the address that stays the same whichever server that is."""

    def __init__(self, primary: postgres.Server, stack: ExitStack):
        self.primary = primary
        self._stack = stack
        self._proxy = Cutter("127.0.0.1", primary.port, lambda: None)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._proxy.port}/postgres"

    def standby(self) -> postgres.Server:
        return self._stack.enter_context(postgres.standby(self.primary))

    def fail_over(self, standby: postgres.Server) -> None:
        """The primary dies; for a moment its address leads to a server that can only be read."""
        self.primary.kill()
        standby.start()
        self._proxy.aim("127.0.0.1", standby.port)
        time.sleep(0.5)
        standby.execute("SELECT pg_promote()")
        self.primary = standby


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with ExitStack() as stack:
        stack.callback(close_registry)
        try:
            yield Service(stack.enter_context(postgres.server()), stack)
        except postgres.NoServer as error:
            pytest.skip(str(error))


def a_scene(folder: Path, flavour: str, url: str) -> Scene:
    spec = Spec(
        registry=the_registry().url,
        client="onward",
        input=str(folder / "due.jsonl"),
        flavour=flavour,
        concurrency=2,
        pace=0.15,
        deadline=1.5,
        settle=1.0,
        expires=None,
        confirm_within=3600.0,
    )
    switches = {"seed": 1, "dedupe_window": 3600.0 if "keyed" in flavour else 0.0}
    scene = Scene(uuid.uuid4().int % 10**6, folder, the_registry(), spec, _NO_HABIT, switches, (), RECORDS, False, url)
    write_down(scene)
    scene.registry.switch(**switches)
    return scene


@pytest.mark.parametrize("flavour", ["confirm", "probe confirm"])
def test_what_a_promoted_standby_lacks_is_reported_and_sent_once(
    service: Service, flavour: str, tmp_path: Path
) -> None:
    try:
        standby = service.standby()
    except postgres.NoServer as error:
        pytest.skip(str(error))
    scene = a_scene(tmp_path, flavour, f"{service.url}?schema=onward_{uuid.uuid4().hex[:8]}")
    PostgresWorkStore(parse(scene.url), SystemClock()).close()
    run = forked.start(scene.victim)
    try:
        until(lambda: applied(scene) >= BEFORE)
        standby.stop()
        had, sent = intents(service, scene), applied(scene)  # intents run ahead of what is sent
        until(lambda: intents(service, scene) >= had + MORE and applied(scene) >= sent + MORE)
        service.fail_over(standby)
        assert forked.finish(run) == 4, scene.victim.said
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(run, 9)
            os.waitpid(run, 0)
    said = scene.victim.said
    assert "has gone back to an earlier state: it lacks" in said
    assert "effects that it had lost are back in its ledger" in said
    report = effect_campaign.Report(scene.seed, "promoted", flavour, [], RECORDS)
    report.exit_code = forked.finish(forked.start(scene.victim))
    assert "has another history: a standby was promoted" in scene.victim.said[len(said) :]
    assert report.exit_code == (1 if flavour == "confirm" else 0), scene.victim.said
    assert effect_campaign.weigh(scene, report) == []
    assert report.applied == RECORDS or flavour == "confirm"
    assert report.twice == report.beyond == 0


def intents(service: Service, scene: Scene) -> int:
    ((number,),) = service.primary.execute(f"SELECT count(*) FROM {parse(scene.url).quoted}.effects")
    return int(number)


def applied(scene: Scene) -> int:
    return sum(one.applied > 0 for one in scene.registry.verdicts(scene.entities))


def until(true: Callable[[], bool]) -> None:
    by = time.monotonic() + forked.PATIENCE
    while not true():
        assert time.monotonic() < by, "waited in vain"
        time.sleep(0.02)
