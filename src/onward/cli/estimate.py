"""`onward run --estimate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onward.cli import money, streams
from onward.cli.amounts import about
from onward.cli.target import Target
from onward.cli.words import records

TRIED_FIRST = 50


def estimate(target: Target, limit: int | None, as_json: bool) -> int:
    from onward import api
    from onward.codec import dumps

    with streams.kept_clean():  # what the job's source prints is no part of the answer
        found = api.estimate(target.job, **target.asked, limit=limit)  # type: ignore[arg-type]
    if as_json:
        streams.answer(dumps(found))
        return 0
    for line in told(found, target):
        streams.answer(line)
    return 0


def told(found: Mapping[str, Any], target: Target) -> Iterator[str]:
    done = f", {found['done']:,} done" if found["done"] else ""
    yield f"{records(found['total'])}{done}, {found['to_go']:,} to go"
    yield from money.outlook(found)
    if found["stale"]:
        anew = found["cost"]["to_make_anew"]
        price = "" if anew["usd"] is None else f", for {about(anew['usd'], anew['p10'], anew['p90'])}"
        again = target.command("rerun", "--stale")
        yield f"{records(found['stale'])} that are done are stale: {again} has them made anew{price}"
    finish, time = found["cost"]["to_finish"], found["time_to_finish"]
    if not found["to_go"]:
        yield f"Nothing is left to do. Next: {target.export_command}"
    elif _would_trying_tell(found):
        tried = f"{target.run_command} --limit {TRIED_FIRST}"
        what = "time" if finish["usd"] is not None else "cost and time"
        yield f"To have {what} told, try some first: {tried}; then ask again"
    else:
        if time["seconds"] is None:
            yield "How long it takes is not known: the last run was too short to tell; a longer one does as it goes on"
        yield f"Next: {target.run_command}"


def _would_trying_tell(found: Mapping[str, Any]) -> bool:
    """Whether something is not known because too few records are through; an unknown price stays unknown."""
    from onward.policy.forecast import FEWEST

    finish, time = found["cost"]["to_finish"], found["time_to_finish"]
    if finish["usd"] is None:
        return found["done"] < FEWEST or "price" not in finish["why"]
    return time["seconds"] is None and found["done"] < FEWEST
