"""What a job comes down to once it is to be run: frozen values that the engine consumes.

Small values are named tuples throughout `job`: they are made several times faster than dataclasses when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onward.codec import loads
from onward.errors import DeclarationError, StepOutcome
from onward.job.groups import Limit
from onward.job.models import ModelTraits
from onward.model import Retry
from onward.policy.effects import Traits
from onward.policy.hours import Hours
from onward.ports.source import Validate

Origin = Literal["record", "step", "resource", "params", "context", "payload", "idempotency_key", "receipt"]
OnBad = Literal["stop", "quarantine"]
ResourceKind = Literal["value", "async value", "generator", "async generator"]
Classify = Callable[[Exception], StepOutcome | type[StepOutcome] | None]


class JobReference(NamedTuple):
    """How another process finds a job again: by its file, or by its module where it is part of a package.

    Without either (a notebook) it cannot. `name` is the job's own name. With a `recipe` the module declares no job, but
    has a function `job_of` that makes one of this text.
    """

    file: Path | None
    module: str | None
    name: str
    recipe: str | None = None


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """`max_failures`: a count of records, or a percentage of those that ended. One of the two is None."""

    count: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, given: int | str | FailureLimit) -> FailureLimit:
        """`20`, `"20"` or `"5%"`. Raises DeclarationError."""
        if isinstance(given, FailureLimit):
            return given
        text = str(given).strip()
        try:
            if text.endswith("%"):
                percent = float(text[:-1])
                if 0 <= percent <= 100:
                    return cls(percent=percent)
            elif not isinstance(given, bool) and int(text) >= 0:
                return cls(count=int(text))
        except ValueError:
            pass
        raise DeclarationError(f'max_failures must be a number of records or a percentage like "5%", not {given!r}')

    def __str__(self) -> str:
        return str(self.count) if self.percent is None else f"{self.percent:g}%"


class Argument(NamedTuple):
    """One argument of a step. `name` is the step's or resource's name.

    `decode` turns JSON text into the value and is set for `record` (raises MisfitRecord) and `step` (raises
    StaleCheckpoint). Arguments that mean the same share one `decode`.
    """

    parameter: str
    origin: Origin
    name: str
    decode: Callable[[str], Any] | None


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """Records alike in one field. `value_of` gives the group's name from a record's input (JSON text), empty where it
    has none. `ceilings` and `openings` are those of single groups; `ceiling` is that of all others."""

    name: str
    value_of: Callable[[str], str]
    ceiling: Limit | None
    ceilings: Mapping[str, Limit]
    openings: Mapping[str, Hours]


class CallPlan(NamedTuple):
    """A function that an effect calls besides its own. `encode` turns what it returns into JSON text; `may_be_bool`:
    a bool among it is a value like any other, as the effect's receipt is declared to be one."""

    function: Callable[..., Any]
    is_async: bool
    arguments: tuple[Argument, ...]
    encode: Callable[[Any], str]
    may_be_bool: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EffectPlan:
    """What makes a step an effect. `name` is its ledger name, `formerly` names that it had before.

    `identify` makes the values of its key's fields from a record's input as JSON text; raises NoIdentity, MisfitRecord.
    `payload`, `probe` and `confirm` are None where they are not declared; without a payload `inputs` are what is sent.
    `receive` turns JSON text that somebody else gives into that of a receipt; raises MisfitRecord, OutputError.
    `fields`: the names of its key's fields, in order. `key_prefix` stands before every idempotency key: a rehearsal's
    keys are nobody's obligations.
    """

    name: str
    formerly: tuple[str, ...]
    identify: Callable[[str], Mapping[str, Any]]
    traits: Traits
    inputs: tuple[Argument, ...]
    payload: CallPlan | None
    probe: CallPlan | None
    confirm: CallPlan | None
    receive: Callable[[str], str] = str
    key_prefix: str = ""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """One step. It is called with the first of `arguments` by position and the others by keyword.

    `encode` turns the returned value into JSON text; raises OutputError. `decode` turns that into the value that a
    later step is given, where its parameter has no annotation of its own. `version` is its fingerprint. `effect`: None
    for a pure step. `models`: those that its code names. `parts`: fingerprints of what its version is made of.
    """

    index: int
    name: str
    version: str
    function: Callable[..., Any]
    is_async: bool
    retry: Retry
    timeout: float
    concurrency: int | None
    process: bool
    max_output: int
    calls_out: bool
    arguments: tuple[Argument, ...]
    encode: Callable[[Any], str]
    effect: EffectPlan | None = None
    limit: Limit | None = None
    group: GroupPlan | None = None
    decode: Callable[[str], Any] = loads
    models: tuple[ModelTraits, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()


def effect_names(steps: Iterable[StepPlan]) -> dict[str, str]:
    """The ledger names of those that are effects, by step."""
    return {step.name: step.effect.name for step in steps if step.effect is not None}


class ResourcePlan(NamedTuple):
    """One resource. `parameters` are injected by keyword: `params` and names of resources declared earlier.

    A generator yields its value once and is resumed to close it.
    """

    name: str
    function: Callable[..., Any]
    kind: ResourceKind
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A job for one set of params. `resources` are in the order in which they can be opened.

    `record_validate` turns a source's plain value into the record type and raises MisfitRecord; None where the job
    has no record type. `rank_of` gives a record's place in the order of admission from its input (JSON text) and
    raises UsageError; None where the source's order is that.
    """

    job: str
    steps: tuple[StepPlan, ...]
    resources: dict[str, ResourcePlan]
    record_validate: Validate | None
    concurrency: int
    max_failures: FailureLimit | None
    resume_cap: int
    on_bad: OnBad
    store_inputs: bool
    classify: Classify | None
    reference: JobReference
    rank_of: Callable[[str], str] | None = None
    outage_limit: float = 3600.0

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of its groups."""
        return tuple(dict.fromkeys(step.group.name for step in self.steps if step.group is not None))

    @property
    def has_ceilings(self) -> bool:
        """Whether it has ceilings that all runs of an instance share: of limits, groups, and rates of models."""
        groups = [step.group for step in self.steps if step.group is not None]
        rates = [one.requests_per_minute or one.tokens_per_minute for one in self.models if one.batching is None]
        return (
            any(step.limit is not None for step in self.steps)
            or any(group.ceiling is not None or group.ceilings for group in groups)
            or any(rates)
        )

    @property
    def models(self) -> tuple[ModelTraits, ...]:
        """The models that its steps name, each once."""
        return tuple({id(model): model for step in self.steps for model in step.models}.values())
