"""What a rehearsal says: before it calls anything, and at its end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["fault", "warning"]
NOTHING = "nothing was rehearsed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `kind` is its word for programs; `place` is `file:line`, `record` an example's key,
    `when` where its run was killed, in words, `times` in how many runs, or at how many records, it was seen. `what`
    says what happened, `advice` what to do."""

    kind: str
    level: Level
    what: str
    advice: str
    step: str | None = None
    effect: str | None = None
    record: Any = None
    place: str | None = None
    when: str | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class RealCall:
    """An effect that a rehearsal really calls: its step, its name in the ledger, which of its functions."""

    step: str
    effect: str
    place: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Announced:
    """What a rehearsal is about to do. All idempotency keys begin with `key_prefix`."""

    job: str
    instance: str
    records: int
    key_prefix: str
    effects: tuple[RealCall, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it. `records`: how many were run; `runs`: processes that were started; `points`: where a run could
    be killed; `killed`: scenarios whose run was killed where it was meant to be; `missed`: those that did not come to
    their point; `left_out`: points at which none was killed, since they are too many."""

    announced: Announced
    records: int
    runs: int
    points: int
    killed: int
    missed: int
    left_out: int
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def faults(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.level == "fault")

    @property
    def clean(self) -> bool:
        return not self.faults

    @property
    def exit_code(self) -> int:
        """0 clean, 1 faults found."""
        return 0 if self.clean else 1

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        announced = asdict(self.announced)
        return {
            "job": announced.pop("job"),
            "instance": announced.pop("instance"),
            "clean": self.clean,
            "records": self.records,
            "runs": self.runs,
            "points": self.points,
            "killed": self.killed,
            "missed": self.missed,
            "left_out": self.left_out,
            "seconds": round(self.seconds, 1),
            "key_prefix": announced["key_prefix"],
            "effects": announced["effects"],
            "findings": [asdict(one) for one in self.findings],
        }
