"""What was spent, as questions tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from onward.cli.amounts import about_time, count, dollars, spent, to_finish
from onward.cli.grid import table


def standing(found: Mapping[str, Any]) -> Iterator[str]:
    """Of a status: what was spent, what is to be, and how long it is to take."""
    if found["cost"]["requests"] or found["cost"]["to_finish"]["usd"]:
        yield from outlook(found)
    else:
        yield from time_left(found)


def outlook(found: Mapping[str, Any]) -> Iterator[str]:
    cost = found["cost"]
    finish, is_over = cost["to_finish"], found["time_to_finish"]["seconds"] == 0
    yield f"cost: {spent(cost)}" + ("" if is_over else f", {to_finish(finish)}")
    yield from time_left(found)


def time_left(found: Mapping[str, Any]) -> Iterator[str]:
    time = found["time_to_finish"]
    if not time["seconds"] or any(one["group"] is None for one in found.get("paused", ())):
        return
    at_work = any(run["ended"] is None and run["reason"] is None for run in found.get("runs", ()))
    whose = "all runs at work" if at_work else "the last runs"
    yield f"to finish: {about_time(time['seconds'], time['p10'], time['p90'])}, at the pace of {whose}"


def usage(used: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """What a generation's requests to models came to, a row for each step and model."""
    rows = [
        (
            one["step"],
            one["model"],
            f"{one['requests']:,}" + _besides(one),
            count(one["tokens_in"]) + (f" ({one['cached_tokens']:,} cached)" if one["cached_tokens"] else ""),
            count(one["tokens_out"]),
            dollars(one["spent_usd"]),
            f"{one['seconds']:.2f}",
        )
        for one in used
    ]
    yield from table("step", "model", "requests", "tokens in", "tokens out:", "cost:", "seconds:", rows=rows)


def _besides(one: Mapping[str, Any]) -> str:
    parts = [f"{one[name]:,} {said}" for name, said in (("repairs", "to repair"), ("lost", "lost")) if one[name]]
    return f" ({', '.join(parts)})" if parts else ""
