"""What `--on` names: which cluster, and what each worker needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from onward.errors import UsageError

RAY = "ray"
NEEDS = {"num_cpus": 1.0, "num_gpus": 0.0}
_KNOWN = "there are: ray (RAY_ADDRESS, else a cluster on this machine), ray://host:10001"


@dataclass(frozen=True, slots=True)
class Place:
    """`address`: `ray://host:port`, None for the cluster that Ray finds by itself; `needs`: of each worker, by Ray's
    names."""

    address: str | None
    needs: Mapping[str, float] = field(default_factory=lambda: dict(NEEDS))


def parse(given: str) -> Place:
    """`ray`, `ray://host:10001`, either with `?num_cpus=2&num_gpus=1`. Raises UsageError."""
    where, _, query = given.partition("?")
    scheme, slashes, address = where.partition("://")
    if scheme != RAY:
        raise UsageError(f"--on {given!r} is no cluster that onward knows; {_KNOWN}")
    if slashes and not address:
        raise UsageError(f"--on {given!r} names no host; {_KNOWN}")
    return Place(where if address else None, NEEDS | dict(_need(*pair) for pair in parse_qsl(query, True)))


def _need(name: str, value: str) -> tuple[str, float]:
    if name not in NEEDS:
        raise UsageError(f"--on: {name!r} is nothing that a worker can need; there are: {', '.join(NEEDS)}")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1_000_000:
        raise UsageError(f"--on: {name}={value} is no number from 0 on")
    return name, number
