"""Several processes and threads on one SQLite store, with real locks and a real clock."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from sqlite_stores import SqliteStores
from store_conformance import Bench, check, records

from onward.clock import SystemClock
from onward.model import FeedBlock
from onward.ports.work import Batch, ClaimWish, RunStart
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.work import SqliteWorkStore

PROGRAM = str(Path(__file__).with_name("store_worker.py"))
START = RunStart("job", "", "host", "{}", "in.jsonl", (), 3)
LOCKS = (
    "import os, sys; from pathlib import Path; from onward.store.sqlite.liveness import RunLocks; "
    "place = Path(sys.argv[1]); locks = RunLocks(place); "
)


class Hands:
    """Processes on one store; all are gone at the end of a test."""

    def __init__(self, folder: Path):
        self.place = folder / "onward.db"
        self.log = folder / "log"
        self._all: list[subprocess.Popen[str]] = []

    def start(self, act: str) -> subprocess.Popen[str]:
        command = [sys.executable, PROGRAM, str(self.place), str(self.log), act]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._all.append(process)
        return process

    def open(self) -> SqliteWorkStore:
        return SqliteWorkStore(self.place, SystemClock(), lease=30.0)

    def fill(self, number: int) -> None:
        store = self.open()
        run = store.begin_run(START).run
        store.take_feed(run)
        store.begin_pass(run, False, "")
        store.write(run, Batch(blocks=[FeedBlock(records(*range(number)), [], "end", complete=True)]))
        store.end_run(run, 3, "fed")
        store.close()

    def check(self) -> None:
        stores = SqliteStores(self.place)
        store = stores.open()
        check(stores, store)
        assert stores.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        stores.close()

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    made = Hands(tmp_path)
    yield made
    made.close()


def said(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_processes_share_the_work_and_each_record_is_done_once(hands: Hands) -> None:
    hands.fill(600)
    workers = [hands.start("work") for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    lines = [line.split() for line in hands.log.read_text().splitlines()]
    assert Counter(key for _, key in lines) == {str(number): 1 for number in range(600)}
    hands.check()


def test_a_process_that_was_killed_is_taken_over_at_once(hands: Hands) -> None:
    hands.fill(20)
    victim = hands.start("hold 8")
    assert said(victim) == ["held", "8"]
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    began = time.monotonic()
    store = hands.open()
    begun = store.begin_run(START)
    assert time.monotonic() - began < 5  # and not after its lease of 30 seconds
    assert [(dead.put_back, dead.started, dead.told_to_stop) for dead in begun.dead_runs] == [(8, 8, False)]
    store.end_run(begun.run, 3, "")
    store.close()
    hands.check()


def test_a_process_that_lives_keeps_what_it_holds(hands: Hands) -> None:
    hands.fill(20)
    holder = hands.start("hold 8")
    said(holder)
    store = hands.open()
    begun = store.begin_run(START)
    assert (begun.others, begun.dead_runs) == (1, [])
    assert len(store.write(begun.run, Batch(wishes=[ClaimWish(100, 1 << 20)])).claimed[0]) == 12
    store.close()


def test_a_stopped_process_lives(hands: Hands) -> None:
    hands.fill(20)
    holder = hands.start("hold 8")
    said(holder)
    holder.send_signal(signal.SIGSTOP)
    try:
        store = hands.open()
        assert store.begin_run(START).dead_runs == []
        store.close()
    finally:
        holder.send_signal(signal.SIGCONT)


def test_many_begin_at_once_on_a_new_store(hands: Hands) -> None:
    starters = [hands.start("begin") for _ in range(6)]
    told = [said(starter) for starter in starters]
    runs, instances, new, others = zip(*told, strict=True)
    assert len(set(runs)) == 6
    assert set(instances) == {"1"}
    assert Counter(new) == {"True": 1, "False": 5}
    assert sorted(others) == [str(number) for number in range(6)]


def test_two_threads_with_a_store_each(tmp_path: Path) -> None:
    """Two runs of one process: each lives as long as its own lock, and neither takes the other for dead."""
    bench = Bench(SqliteStores(tmp_path / "onward.db"))
    bench.start(*range(300))
    stores = [bench.stores.open() for _ in range(2)]
    done: list[str] = []

    def work(store: SqliteWorkStore) -> None:
        begun = store.begin_run(START)
        assert begun.dead_runs == []
        while claimed := store.write(begun.run, Batch(wishes=[ClaimWish(5, 1 << 20)])).claimed[0]:
            done.extend(one.key for one in claimed)
            assert store.take_over(begun.run) == []

    threads = [threading.Thread(target=work, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Counter(done) == {str(number): 1 for number in range(300)}
    bench.stores.close()


def test_a_long_reader_does_not_stop_the_writer(hands: Hands) -> None:
    hands.fill(50)
    reader = apsw.Connection(str(hands.place))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM records").fetchone()
    store = hands.open()
    begun = store.begin_run(START)
    assert len(store.write(begun.run, Batch(wishes=[ClaimWish(50, 1 << 20)])).claimed[0]) == 50
    assert store.tidy() > 0
    reader.close()
    assert store.tidy() == 0
    store.close()


# The locks themselves.


@contextlib.contextmanager
def holder(place: Path, meanwhile: str = "pass") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of run 7, and does this before it says so."""
    command = [sys.executable, "-c", f"{LOCKS}locks.hold(7); {meanwhile}; print('held', flush=True); sys.stdin.read()"]
    with subprocess.Popen([*command, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert said(process) == ["held"]
        yield process
        process.kill()


def held_elsewhere(place: Path, run: int) -> bool:
    """Whether another process sees that the run lives."""
    command = [sys.executable, "-c", f"{LOCKS}print(locks.is_held(int(sys.argv[2])))", str(place), str(run)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["True"]


def test_a_lock_is_seen_by_other_processes_and_goes_with_its_own(tmp_path: Path) -> None:
    locks = RunLocks(tmp_path / "onward.db")
    with holder(tmp_path / "onward.db") as process:
        assert (locks.is_held(7), locks.is_held(8)) == (True, False)
        with pytest.raises(RuntimeError, match="run 7"):
            locks.hold(7)
        process.kill()
        process.wait()
        assert not locks.is_held(7)


def test_a_lock_of_this_process_is_seen_by_it_under_every_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    locks, other = RunLocks(tmp_path / "real" / "onward.db"), RunLocks(tmp_path / "link" / "onward.db")
    locks.hold(3)
    assert other.is_held(3)
    assert not other.is_held(4)
    assert locks.is_held(3)
    locks.drop(3)
    assert not other.is_held(3)


def test_a_store_that_is_a_link_has_the_locks_of_what_it_links_to(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    real, link = tmp_path / "deep" / "onward.db", tmp_path / "onward.db"
    real.touch()
    link.symlink_to(real)
    RunLocks(link).hold(1)
    assert real.with_name("onward.db-runs").exists()
    assert not link.with_name("onward.db-runs").exists()


def test_dropping_one_lock_keeps_the_others(tmp_path: Path) -> None:
    place = tmp_path / "onward.db"
    locks = RunLocks(place)
    for run in (1, 2, 3):
        locks.hold(run)
    locks.drop(2)
    assert [held_elsewhere(place, run) for run in (1, 2, 3, 4)] == [True, False, True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a lock belongs to the process and goes with any close")
def test_who_reads_the_files_of_a_store_drops_no_lock(tmp_path: Path) -> None:
    place = tmp_path / "onward.db"
    with holder(place, "place.with_name('onward.db-runs').read_bytes()"):
        assert RunLocks(place).is_held(7)


def test_a_lock_file_that_was_removed_is_made_again(tmp_path: Path) -> None:
    place = tmp_path / "onward.db"
    store = SqliteWorkStore(place, SystemClock())
    run = store.begin_run(START).run
    (tmp_path / "onward.db-runs").unlink()
    assert store.renew(run)
    assert held_elsewhere(place, run)
    store.end_run(run, 3, "done")
    assert not held_elsewhere(place, run)
    store.close()


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
def test_a_forked_child_that_outlives_its_parent_keeps_no_lock(tmp_path: Path) -> None:
    place = tmp_path / "onward.db"
    with holder(place, "os.fork() or sys.stdin.read()") as parent:
        assert RunLocks(place).is_held(7)
        parent.kill()
        parent.wait()
        until = time.monotonic() + 10  # the child may have been about to close it
        while RunLocks(place).is_held(7) and time.monotonic() < until:
            time.sleep(0.01)
        assert not RunLocks(place).is_held(7)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
def test_a_forked_child_neither_holds_nor_drops_its_parents_locks(tmp_path: Path) -> None:
    import os

    place = tmp_path / "onward.db"
    locks = RunLocks(place)
    locks.hold(5)
    child = os.fork()
    if child == 0:
        held = RunLocks(place).is_held(5)
        os._exit(0 if held else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert held_elsewhere(place, 5)
