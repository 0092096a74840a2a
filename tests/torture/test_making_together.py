"""Several processes make one store at the very same moment, again and again: all of them get it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from onward.store.sqlite import connection

ROUNDS, PROCESSES = 150, 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
def test_a_store_is_made_by_several_at_once(tmp_path: Path) -> None:
    said: list[str] = []
    for number in range(ROUNDS):
        said += _make_together(tmp_path / f"{number}.db")
    assert len(said) == ROUNDS * PROCESSES
    assert set(said) == {"made"}


def _make_together(path: Path) -> list[str]:
    ours, theirs = os.pipe()
    at = time.monotonic() + 0.01
    children = [os.fork() or _make(path, at, theirs, close=bool(number)) for number in range(PROCESSES)]
    os.close(theirs)
    for child in children:
        os.waitpid(child, 0)
    with os.fdopen(ours) as pipe:
        return pipe.read().splitlines()


def _make(path: Path, at: float, pipe: int, close: bool) -> int:
    """In the child; never returns."""
    try:
        while time.monotonic() < at:
            pass
        writer, _ = connection.open_writer(path)
        if close:  # the others go on as if they had been killed
            writer.close()
        os.write(pipe, b"made\n")
    except BaseException as error:
        os.write(pipe, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)
