"""What people ask and do besides running: questions, choices of records, acts. Adapters are handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from onward.model import Result
from onward.ports import ExportRow

Act = Literal["retry", "release", "rerun"]


class Typed(str):
    """A key as a person typed it: plain text for text and integers, JSON for the rest."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One instance of a job. `today`: versions by step, in step order, of the job as it is now."""

    job: str
    instance: str
    number: int
    store: str
    today: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records an act is for. What is given has to hold together; `keys` are JSON values, or `Typed`."""

    keys: tuple[Any, ...] = ()
    from_file: str | Path | None = None
    all: bool = False
    kind: str | None = None
    step: str | None = None
    stale: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Marked:
    """What an act marked, or, with `dry_run`, would mark."""

    act: Act
    count: int
    dry_run: bool
    corrected: int = 0
    from_steps: dict[str, int] = field(default_factory=dict)
    passed_over: dict[str, int] = field(default_factory=dict)


def instances(desk: Any, job: str) -> list[dict[str, Any]]:
    """The instances of a job, oldest first."""
    raise NotImplementedError


def status(desk: Any, subject: Subject) -> dict[str, Any]:
    """The contract's status object."""
    raise NotImplementedError


def failures(desk: Any, subject: Subject, kind: str | None = None, state: str | None = None) -> Iterator[dict[str, Any]]:
    """Failed, quarantined and unconfirmed records in source order."""
    raise NotImplementedError


def causes(desk: Any, subject: Subject, kind: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
    """The same, grouped by step, kind and type of error."""
    raise NotImplementedError


def show(desk: Any, subject: Subject, key: Any) -> dict[str, Any]:
    """One record's whole history."""
    raise NotImplementedError


def mark(
    desk: Any, subject: Subject, act: Act, selection: Selection, validate: Callable[[Any], Any] | None = None
) -> Marked:
    """Mark failed (retry), quarantined (release) or finished (rerun) records; a run works on them."""
    raise NotImplementedError


def rows(desk: Any, subject: Subject, state: str = "succeeded", generation: str = "last") -> Iterator[ExportRow]:
    """What an export writes."""
    raise NotImplementedError


def results(desk: Any, subject: Subject, state: str = "succeeded") -> Iterator[Result]:
    """The same as plain values."""
    raise NotImplementedError
