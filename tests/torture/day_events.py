"""What happens on the bad days of `day_campaign`: to the server, to its backends, to the runs, to a worker's clock."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from helpers import postgres
from helpers.cutting import Cut, Cutter
from onward.clock import SystemClock
from onward.engine.effects.course import Course
from onward.store.postgres import connection as connections
from onward.store.postgres.address import Address, parse
from onward.store.postgres.work import PostgresWorkStore
from torture import forked

LEASE, LONG_LEASE = 2.0, 30.0
MEMORY = 6.0
"""Seconds for which the registry knows a key on a day of wrong clocks."""
OURS = "application_name = 'onward' AND pid <> pg_backend_pid()"


class Runs:
    """The processes of a day. `before`: called in each, with its number, before it runs."""

    def __init__(self, victim: forked.Victim, before: Callable[[int], None]):
        self._victim = victim
        self._before = before
        self.living: dict[int, int] = {}
        self.asleep: dict[int, float] = {}
        self.codes: list[int] = []
        self.started = 0

    def start(self, number: int) -> int:
        pid = forked.start(self._victim, lambda: self._before(number))
        self.living[pid] = number
        self.started += 1
        return pid

    def start_alone(self) -> int:
        """One that nothing happens to."""
        self.started += 1
        return forked.start(self._victim)

    def any_lives(self) -> bool:
        for pid in list(self.living):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.living[pid]
                self.asleep.pop(pid, None)
                self.codes.append(os.waitstatus_to_exitcode(status))
        return bool(self.living)

    def awake(self) -> list[int]:
        self.any_lives()
        return [pid for pid in self.living if pid not in self.asleep]

    def send(self, pid: int, how: signal.Signals) -> None:
        os.kill(pid, how)
        if how == signal.SIGSTOP:
            self.asleep[pid] = time.monotonic()
        elif how == signal.SIGCONT:
            self.asleep.pop(pid, None)

    def end_all(self) -> None:
        for pid in list(self.living):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            del self.living[pid]


class Day(ABC):
    """One kind of day. `runs`: how many share the job; `more`: how many it may start besides; `ends`: the exit codes
    that they may have."""

    more = 0
    ends: tuple[int, ...] = (0, 1)
    lease = LONG_LEASE
    """Seconds; long where no run dies: it must not matter how long a busy machine takes to renew it."""

    def __init__(self, draw: random.Random, server: postgres.Server, folder: Path, away: float | None):
        self.draw = draw
        self.server = server
        self.folder = folder
        self.away = away
        self.runs = draw.choice((1, 2, 2, 3))
        self.acts = self.busy = 0
        self.goes_on = False  # though no run lives for a while
        self.url = server.url

    def prepare(self, url: str) -> None:
        """The store is made, so that what happens finds its tables."""
        self.address: Address = parse(url)
        PostgresWorkStore(parse(self.direct(url)), SystemClock()).close()

    def direct(self, url: str) -> str:
        """The same address without a proxy."""
        return self.server.url + "?" + urlsplit(url).query

    def before(self, number: int) -> None:
        """In the process of a run, before it runs."""
        os.environ["ONWARD_LEASE"] = str(self.lease)

    @abstractmethod
    def happen(self, runs: Runs) -> Iterator[float]:
        """Faults, one after the other; seconds until the next one. Closed when all runs have ended."""

    def verdict(self) -> list[str]:
        """What is wrong with the day itself: that it was none, say."""
        return []

    def close(self) -> None:  # noqa: B027 - most days leave nothing
        """Nothing of it stays."""

    def act(self, runs: Runs, number: int = 1) -> None:
        self.acts += number
        self.busy += number if runs.awake() else 0

    @property
    def longest_pause(self) -> float:
        return self.away or 0.0


class Terminated(Day):
    """`pg_terminate_backend`, in a loop."""

    def happen(self, runs: Runs) -> Iterator[float]:
        yield 0.5
        while True:
            ended = self.server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")
            if ended:
                self.act(runs, len(ended))
            yield 0.2 + 0.4 * self.draw.random()


class KilledBackends(Day):
    """kill -9 of a backend, rather one that is in a transaction: the server ends all others and recovers."""

    def happen(self, runs: Runs) -> Iterator[float]:
        yield 0.7
        for _ in range(3):
            found = []
            with contextlib.suppress(psycopg.Error):
                found = self.server.execute(
                    f"SELECT pid FROM pg_stat_activity WHERE {OURS} ORDER BY state = 'idle', random() LIMIT 1"
                )
            for (pid,) in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.act(runs)
            yield 1.0 + self.draw.random()


class MidCommit(Day):
    """The postmaster is killed, or stopped at once, while a COMMIT is on its way; then it is started again."""

    def __init__(self, draw: random.Random, server: postgres.Server, folder: Path, away: float | None):
        super().__init__(draw, server, folder, away)
        self._armed, self._struck = threading.Event(), threading.Event()
        self._delay = 0.0
        self._cutter = Cutter("127.0.0.1", server.port, self._passes)
        self.url = f"postgresql://postgres@127.0.0.1:{self._cutter.port}/postgres"

    def _passes(self) -> Cut:
        if self._armed.is_set() and not self._struck.is_set():
            self._struck.set()
            process, how = self.server.process, self._how
            assert process is not None
            threading.Timer(self._delay, lambda: process.send_signal(how)).start()
        return None

    def happen(self, runs: Runs) -> Iterator[float]:
        yield 0.7
        for number in range(3):
            self._how = signal.SIGKILL if number % 2 == 0 else signal.SIGQUIT
            self._delay = self.draw.choice((0.0, 0.0005, 0.001, 0.002))
            self._armed.set()
            try:
                while not self._struck.is_set():
                    yield 0.01
                self.act(runs)
                yield 0.05
            finally:
                self._armed.clear()
                if self._struck.is_set():
                    self._struck.clear()
                    self._start_again()
            yield 1.0 + self.draw.random()

    def _start_again(self) -> None:
        if self._how == signal.SIGKILL:
            self.server.kill()
        else:
            self.server.stop(signal.SIGQUIT)
        until = time.monotonic() + 60
        while True:
            try:
                return self.server.start()
            except postgres.NoServer:  # backends of the one that was killed are not gone yet
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        self._cutter.close()


class Away(Day):
    """The server is gone for longer than leases last; one that waits less long than that ends, and is started again."""

    lease = LEASE

    def __init__(self, draw: random.Random, server: postgres.Server, folder: Path, away: float | None):
        super().__init__(draw, server, folder, away)
        self._patience = connections.PATIENCE if away is not None else draw.choice((connections.PATIENCE, 1.5))
        if self._patience < connections.PATIENCE:
            self.ends = (0, 1, 3)

    def before(self, number: int) -> None:
        super().before(number)
        connections.PATIENCE = self._patience

    def happen(self, runs: Runs) -> Iterator[float]:
        yield 1.0
        self.act(runs)
        self.server.stop(self.draw.choice((signal.SIGINT, signal.SIGQUIT)))
        try:
            yield self.away or 2.2 * LEASE
        finally:
            self.server.start()


class WrongOrder(Day):
    """Another session takes locks in the wrong order, so that runs die of deadlocks; and commits fail to serialize."""

    def prepare(self, url: str) -> None:
        super().prepare(url)
        its = self.address.quoted
        self.server.execute(
            f"""CREATE FUNCTION {its}.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF random() < 0.03 THEN RAISE 'could not serialize' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$;
            CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON {its}.checkpoints DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION {its}.fails()"""
        )
        self._before = self._deadlocks()

    def _deadlocks(self) -> int:
        with psycopg.connect(self.server.url, autocommit=True) as own:
            own.execute("SELECT pg_stat_force_next_flush()")
            row = own.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'").fetchone()
        assert row is not None
        return int(row[0])

    def happen(self, runs: Runs) -> Iterator[float]:
        its, number = self.address.quoted, self.address.lock_class
        with psycopg.connect(self.server.url) as own:
            own.execute("SET deadlock_timeout = '10s'")  # who finds it out dies of it: that is to be a run
            own.commit()
            while True:
                yield 0.1 + 0.2 * self.draw.random()
                rows = f"SELECT id FROM {its}.records WHERE state = 'in_progress' ORDER BY id DESC LIMIT 4 FOR UPDATE"
                with contextlib.suppress(psycopg.errors.DeadlockDetected):  # now and then it is this one after all
                    if own.execute(rows.encode()).fetchall():
                        self.act(runs)
                        yield 0.02
                        own.execute(f"SELECT pg_advisory_xact_lock({number}, 1)".encode())
                own.rollback()

    def verdict(self) -> list[str]:
        return [] if self._deadlocks() > self._before else ["there was no deadlock"]


class CutOff(Day):
    """A proxy that cuts connections before and after COMMIT."""

    def __init__(self, draw: random.Random, server: postgres.Server, folder: Path, away: float | None):
        super().__init__(draw, server, folder, away)
        self._guard = threading.Lock()
        self._cutter = Cutter("127.0.0.1", server.port, self._when)
        self.url = f"postgresql://postgres@127.0.0.1:{self._cutter.port}/postgres"

    def _when(self) -> Cut:
        with self._guard:
            return self.draw.choice(("before", "after", "in mid-answer", None, None))

    def happen(self, runs: Runs) -> Iterator[float]:
        while True:
            if new := self._cutter.cuts - self.acts:
                self.act(runs, new)
            yield 0.05

    def close(self) -> None:
        self._cutter.close()


class Storm(Day):
    """Two to eight runs are started, told to stop, killed, and put to sleep past their leases."""

    more = 12
    lease = LEASE
    ends = (0, 1, 3, 143, -signal.SIGTERM, -signal.SIGKILL)

    def __init__(self, draw: random.Random, server: postgres.Server, folder: Path, away: float | None):
        super().__init__(draw, server, folder, away)
        self.runs = draw.randint(2, 8)

    def happen(self, runs: Runs) -> Iterator[float]:
        yield 0.4
        for number in range(self.more):
            awake = runs.awake()
            how = self.draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP))
            if awake:
                self.act(runs)
                runs.send(self.draw.choice(awake), how)
            self._wake(runs, LEASE * 1.3)
            if len(runs.awake()) < 2 or self.draw.random() < 0.6:
                runs.start(100 + number)
            yield 0.1 + 0.4 * self.draw.random()
        while runs.asleep:
            self._wake(runs, LEASE * 1.3)
            yield 0.1

    def _wake(self, runs: Runs, after: float) -> None:
        for pid, since in list(runs.asleep.items()):
            if time.monotonic() - since > after:
                runs.send(pid, signal.SIGCONT)


class WrongClock(Day):
    """One worker's clock is five minutes ahead, another's five minutes behind, a third one's right."""

    OFF = (300.0, -300.0, 0.0)
    lease = LEASE
    ends = (0, 1, 3, -signal.SIGKILL)

    def __init__(self, draw: random.Random, server: postgres.Server, folder: Path, away: float | None):
        super().__init__(draw, server, folder, away)
        self.runs = 3
        self._began = time.monotonic()

    def before(self, number: int) -> None:
        super().before(number)
        ahead, real = self.OFF[number % len(self.OFF)], time.time
        os.environ["VICTIM_CLOCK_AHEAD"] = str(ahead)
        time.time = lambda: real() + ahead  # type: ignore[assignment]
        Course.__init__.__defaults__ = (time.time,)  # loaded before the fork

    def happen(self, runs: Runs) -> Iterator[float]:
        """All die, until the far side has forgotten their keys; then two go on whose clocks are wrong."""
        self.goes_on = True
        self.act(runs)
        yield 1.2
        for pid in runs.awake():
            self.act(runs)
            runs.send(pid, signal.SIGKILL)
        yield MEMORY + 0.5
        runs.start(0)
        runs.start(1)
        self.goes_on = False
        yield 60.0

    more = 2

    def verdict(self) -> list[str]:
        took = time.monotonic() - self._began
        return [f"it took {took:.0f} s: somebody waited by a wrong clock"] if took > 120 else []


DAYS: dict[str, type[Day]] = {
    "terminated": Terminated,
    "killed backends": KilledBackends,
    "mid-commit": MidCommit,
    "away": Away,
    "wrong order": WrongOrder,
    "cut off": CutOff,
    "storm": Storm,
    "clock": WrongClock,
}
