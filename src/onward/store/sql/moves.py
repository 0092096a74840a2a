"""Instances that are on their way from one store to another, or have gone: nothing changes them here."""

from __future__ import annotations

import time
from typing import Any

import orjson

from onward.errors import UsageError
from onward.ports.moving import Closed, Moved
from onward.store.sql.change import Change


def refuse(change: Change, instance: int) -> None:
    """Raises UsageError where an instance is closed, in words that say where it is."""
    closed, moved, job, name = change.rows("move_of", instance=instance)[0]
    if closed == Closed.NO:
        return
    said = moved_of(moved)
    assert said is not None
    what = f"job {job}" + (f", instance {name}," if name else "")
    if closed == Closed.MOVED:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(said.at))
        raise UsageError(
            f"{what} was moved from here to {said.place} on {at} UTC: work on it there, with --store and that address"
        )
    raise UsageError(
        f"{what} is being copied from {said.place}, and is not whole yet: say onward copy again, with the same --from "
        "and --to, which finishes it; until then it can be worked on there alone, unless it is marked as moved there"
    )


def moved_of(text: str | None) -> Moved | None:
    """What an instance's row says of its move."""
    if text is None:
        return None
    said: dict[str, Any] = orjson.loads(text)
    return Moved(said["place"], said["token"], said["at"], tuple((then, now) for then, now in said["runs"]))


def text_of(moved: Moved) -> str:
    """The same as it is stored."""
    said = {"place": moved.place, "token": moved.token, "at": moved.at, "runs": moved.runs}
    return orjson.dumps(said).decode()
