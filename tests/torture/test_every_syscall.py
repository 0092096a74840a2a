"""Death, and a failing disk, at every single system call that makes something persist; and again while recovering."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judge import steplog
from judge.judge import Limits, judge
from torture import faults, forked, looking
from torture.faults import Fault
from victims import small

pytestmark = [
    pytest.mark.skipif(bool(faults.missing()), reason=faults.missing() or "-"),
    pytest.mark.timeout(600),
]
KILL = "signal=KILL"
FAR, AHEAD = 400, 3


@dataclass
class Point:
    """What came of one fault: `code` of the struck run, whether it struck, and what was wrong afterwards."""

    fault: Fault
    code: int | None = None
    struck: bool = False
    found: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A folder in memory where there is one: a killed process needs no real disk."""
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="onward-syscalls-", dir=root))
    small.write_input(folder / "input.jsonl")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2) as pool:
        yield pool


def try_fault(ground: Path, base: Path | None, fault: Fault) -> Point:
    """Run with the fault, from the state in `base` if any; then run again without, and judge."""
    folder = Path(tempfile.mkdtemp(dir=ground))
    if base is not None:
        shutil.copytree(base, folder, dirs_exist_ok=True)
    victim = forked.small_victim(folder, ground / "input.jsonl")
    point = Point(fault)
    struck = faults.run_with(victim, fault)
    point.code, point.struck = struck.code, struck.struck
    point.found = _stopped_badly(victim, point)
    struck_at, code = steplog.now(), struck.code
    if code not in (0, 1):
        code = forked.finish(forked.start(victim))
    point.found += _weigh(victim, code, struck_at, deaths=1 if base is None else 2)
    shutil.rmtree(folder)
    return point


def _stopped_badly(victim: forked.Victim, point: Point) -> list[str]:
    """A run whose disk fails ends by itself, in plain words, with the code that says so."""
    if point.fault.what == KILL and point.code == -9:
        return []
    said = victim.said
    nothing_began = point.fault.gate == "begin" and not steplog.read(victim.log)
    if point.code not in ((1, 2, 3) if nothing_began else (1, 3)):
        return [f"ended with {point.code}: {said[-1500:]}"]
    plain = "Traceback" not in said and "apsw" not in said and said.strip()
    named = point.code != 3 or "disk failed" in said or "no space left" in said
    return [] if plain and named else [f"said {said[-1500:]}"]


def _weigh(victim: forked.Victim, code: int | None, struck_at: float, deaths: int) -> list[str]:
    if code is None:
        return ["the run after the fault hung"]
    if code != 1:
        return [f"the run after the fault ended with {code}: {victim.said[-1500:]}"]
    limits = Limits(
        in_flight=len(small.KEYS),
        seconds=30,
        finished=steplog.now(),
        last_fault=struck_at,
        deaths=deaths,
        attempts={(small.FLAKY, "one"): 2},
        steps=small.STEPS,
    )
    found = judge(
        small.KEYS,
        steplog.read(victim.log),
        looking.export_lines(victim.store),
        small.undisturbed_lines(),
        looking.status(victim.store),
        code,
        forked.read_acks(victim.acks),
        limits,
    )
    if (quarantined := looking.keys_in(victim.store, "quarantined")) != {str(small.REJECTED)}:
        found.append(f"quarantined: {quarantined}")
    return found + looking.contradictions(victim.store)


def until_unharmed(
    pool: ProcessPoolExecutor, ground: Path, base: Path | None, gate: str, call: str, what: str, lasting: bool = False
) -> list[Point]:
    """The fault at the first call after the gate, the second, the third, …, until it no longer strikes."""
    waiting: deque[Future[Point]] = deque()
    points: list[Point] = []
    for number in range(1, FAR):
        waiting.append(pool.submit(try_fault, ground, base, Fault(gate, call, what, number, lasting)))
        if number < AHEAD:
            continue
        points.append(waiting.popleft().result())
        if not points[-1].struck:
            return points + [future.result() for future in waiting]
    raise AssertionError(f"{call} after {gate} never ran out")


def check(points: list[Point]) -> None:
    found = [f"{point.fault}: {what}" for point in points for what in point.found]
    assert not found, "\n".join(found[:20])


def tell(capsys: pytest.CaptureFixture[str], title: str, points: list[Point]) -> None:
    struck = Counter(f"{point.fault.gate} {point.fault.call}" for point in points if point.struck)
    with capsys.disabled():
        print(f"\n{title}: {struck.total()} points; {dict(struck)}")


def test_death_at_every_call(pool: ProcessPoolExecutor, ground: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [
        point
        for gate in faults.GATES
        for call in faults.PERSISTING
        for point in until_unharmed(pool, ground, None, gate, call, KILL)
    ]
    tell(capsys, "death", points)
    check(points)
    assert sum(point.struck for point in points) > 100


def test_death_at_every_call_of_the_recovery(
    pool: ProcessPoolExecutor, ground: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ground / "base"
    base.mkdir()
    faults.run_with(forked.small_victim(base, ground / "input.jsonl"), Fault("journal", "pwrite64", KILL, 45))
    points = [
        point
        for gate in faults.GATES
        for call in faults.PERSISTING
        for point in until_unharmed(pool, ground, base, gate, call, KILL)
    ]
    tell(capsys, "death while recovering", points)
    check(points)
    assert sum(point.struck for point in points) > 50


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_failing_disk(
    pool: ProcessPoolExecutor, ground: Path, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [
        point
        for gate in faults.GATES
        for lasting in (False, True)
        for point in until_unharmed(pool, ground, None, gate, "fdatasync", f"error={error}", lasting)
    ]
    points += [
        try_fault(ground, None, Fault(gate, "pwrite64", f"error={error}", number, lasting))
        for gate, last in (("begin", 80), ("journal", 90), ("end", 20))
        for number in range(1, last, 13)
        for lasting in (False, True)
    ]
    tell(capsys, error, points)
    check(points)
