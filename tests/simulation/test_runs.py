"""Ten thousand made-up worlds of several runs, each from its seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.drive import database, simulate
from simulation.runs import Wrong

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "10000"))
IN_A_FILE = max(SEEDS // 30, 10)
HANDS = os.cpu_count() or 1


def start(first: int, number: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "simulation", "--first", str(first), "--number", str(number), *more]
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, *filter(None, sys.path)])
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(900)
def test_many_seeds() -> None:
    """A failing seed is printed; `python -m simulation --seed N` from the tests folder tells its story again."""
    share = -(-SEEDS // HANDS)
    hands = [start(number * share, share) for number in range(HANDS)]
    told = [hand.communicate()[0] for hand in hands]
    failed = [text for hand, text in zip(hands, told, strict=True) if hand.returncode]
    assert not failed, "\n".join(failed)
    print("".join(told))


def test_some_seeds_with_a_connection_for_each_run(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    folder = memory if memory.is_dir() and os.access(memory, os.W_OK) else tmp_path
    place = folder / f"onward-simulation-{os.getpid()}.db"
    try:
        hand = start(1_000_000, IN_A_FILE, "--file", str(place))
        text = hand.communicate()[0]
    finally:
        for path in folder.glob(place.name + "*"):
            path.unlink()
    assert hand.returncode == 0, text


def test_a_seed_tells_the_same_story_every_time() -> None:
    stories = []
    for _ in range(2):
        with database() as made:
            stories.append(simulate(7, made).log)
    assert stories[0] == stories[1]
    assert len(stories[0]) > 20


def test_a_store_that_forgets_a_fence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from onward.store.sqlite import statements

    sql = statements.blocks()
    monkeypatch.setitem(sql, "put_back_dead", sql["put_back_dead"].replace("fence = fence + 1, ", ""))
    with pytest.raises(Wrong, match="seed"), database() as made:
        for seed in range(200):
            simulate(seed, made)
