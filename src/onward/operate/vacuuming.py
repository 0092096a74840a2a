"""Removing from a store what nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from onward.errors import UsageError
from onward.operate.acts import actor
from onward.ports.desk import Desk, Shrunk, Vacuumed


@dataclass(frozen=True, slots=True)
class Emptied:
    """What a vacuum removed, or (`dry_run`) would; `shrunk`: None where no disk space was to be given back. It reads as
    sentences."""

    removed: Vacuumed
    dry_run: bool
    shrunk: Shrunk | None

    def plain(self) -> dict[str, Any]:
        """The same for programs."""
        shrunk = None if self.shrunk is None else asdict(self.shrunk)
        return {"dry_run": self.dry_run, **asdict(self.removed), "disk": shrunk}

    def __str__(self) -> str:
        return "\n".join(
            [*_removed(self.removed, self.dry_run), *([] if self.shrunk is None else [_disk(self.shrunk)])]
        )


def vacuum(desk: Desk, job: str, instance: str | None, older_than: float, dry_run: bool) -> Emptied:
    """Of one instance of a job, or of all. Raises UsageError."""
    removed = Vacuumed()
    for number in _instances(desk, job, instance):
        removed.add(desk.vacuum(number, older_than, actor(), dry_run))
    return Emptied(removed, dry_run, None if dry_run else desk.shrink())


def _instances(desk: Desk, job: str, named: str | None) -> Sequence[int]:
    found = desk.instances(job)
    if not found:
        raise UsageError(f"{desk.store} knows no job '{job}' (jobs there: {', '.join(desk.jobs()) or 'none'})")
    chosen = [one.number for one in found if named in (None, one.name)]
    if not chosen:
        raise UsageError(
            f"job '{job}' has no instance {named!r} (there are: {', '.join(repr(one.name) for one in found)})"
        )
    return chosen


def _removed(found: Vacuumed, dry_run: bool) -> list[str]:
    if not found.is_any:
        return ["there is nothing that old which nobody needs"]
    lines = []
    if found.records:
        lines.append(
            f"{_number(found.results, 'older result')} of {_number(found.records, 'record')}, which newer ones have "
            f"replaced: {_number(found.outputs, 'output')} ({_size(found.output_bytes)}), "
            f"{_number(found.inputs, 'input')} ({_size(found.input_bytes)})"
        )
    if found.errors:
        texts = f"the texts of {_number(found.errors, 'error')} ({_size(found.error_bytes)})"
        lines.append(f"{texts} of records that have succeeded since")
    if found.standings:
        lines.append(_number(found.standings, "note") + " of ended runs about what they waited for")
    verb = "to be removed" if dry_run else "removed"
    return [f"{verb}: {line}" for line in lines]


def _disk(shrunk: Shrunk) -> str:
    if shrunk.why_not is not None:
        return f"on disk: {_size(shrunk.before)}, as before: {shrunk.why_not}"
    if shrunk.after == shrunk.before:
        return f"on disk: {_size(shrunk.before)}, as before"
    return f"on disk: {_size(shrunk.after)}, before {_size(shrunk.before)}"


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(number: int) -> str:
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= least:
            return f"{number / least:,.1f} {unit}"
    return f"{number} bytes"
