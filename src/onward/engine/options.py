"""How a job is run, and what a run says before it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from onward.engine.attempt import Attempt
from onward.engine.calls import OwnCalls
from onward.engine.events import Listener
from onward.engine.govern import Bounds
from onward.engine.tally import Progress
from onward.job.plan import Plan
from onward.model import Counts
from onward.policy.versions import ResultVersions
from onward.ports.bill import Bill
from onward.ports.source import Source
from onward.ports.work import OlderOutputs, RunBegun, WorkStore


@dataclass(frozen=True, slots=True)
class Options:
    """How a job is run. Times in seconds; `budget` in US dollars, for the job's only model that has one.

    `listeners`: (listener, whether it wants every record's events); they are called from several threads.
    `waits` hears in words that another program holds the store. `before_exit` is called before a second signal ends
    the process. `asks_about`: a person asks about the effects of these records, which are all that the run takes up; it
    feeds nothing. `only`: likewise, without asking. For tests and rehearsals: `source` stands in for the job's own,
    `plan` for that of the job; `opened` is a store that is open already, with `in_process` steps that are for worker
    processes run here, and not `patient` waits for no rate, no hours and no outage; `around` is given what makes the
    calls and what gives a record's input as JSON text, and returns what is asked to make them instead. `location`: that
    of the source as it is where the job comes from, for a run to whose machine the job's folder was brought.
    """

    store: str | None = None
    concurrency: int | None = None
    budget: float | None = None
    bounds: Bounds = field(default_factory=Bounds)
    wait: float = 60.0
    source_changed: bool = False
    create: bool = True
    progress: Callable[[Progress], None] | None = None
    listeners: list[tuple[Listener, bool]] = field(default_factory=list)
    announce: Callable[[Announcement], None] | None = None
    waits: Callable[[str], None] | None = None
    handle_signals: bool = True
    before_exit: Callable[[], None] | None = None
    asks_about: Sequence[int] | None = None
    only: Sequence[int] | None = None
    source: Source | None = None
    opened: WorkStore | None = None
    in_process: bool = False
    plan: Plan | None = None
    patient: bool = True
    location: str | None = None
    around: Callable[[OwnCalls, Callable[[Attempt], str]], OwnCalls] | None = None


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a run says before it works. `versions`: today's, in step order; `results`: those of what is finished;
    `older`: what unfinished records go on from. `concurrency`: how many calls may be in progress, in words, where
    people have said so. `effects`: ledger names by step. `asks`: the steps that ask models, and whether their prices
    are known; `bill`, `parts`: what costs are told from, and what versions were made of."""

    job: str
    instance: str
    store: str
    new_store: bool
    begun: RunBegun
    counts: Counts
    results: ResultVersions
    older: OlderOutputs
    versions: dict[str, str]
    concurrency: str | None = None
    effects: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, bool] = field(default_factory=dict)
    bill: Bill = field(default_factory=Bill)
    parts: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
