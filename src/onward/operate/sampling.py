"""A sample of finished records, made anew to see what an edit does: old and new results side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onward.codec import dumps, loads
from onward.engine.spending.bill import Again, cost_of_again
from onward.errors import UsageError
from onward.job.models import PICO
from onward.model import Kind, ResultGroup, RunResult, Spent, State
from onward.operate.acts import actor
from onward.operate.costs import told
from onward.operate.questions import Subject
from onward.policy.versions import ResultVersions, redone
from onward.ports.desk import Choice, Desk
from onward.ports.facts import GenerationFacts, RecordFacts

EXAMPLES = 3
LONGEST_REASON = 100
_ENDED = (State.SUCCEEDED, State.FAILED, State.QUARANTINED)


@dataclass(frozen=True, slots=True)
class Sample:
    """Records chosen out of `of`. `step`: where they begin anew, None for the first stale one of each."""

    records: list[int]
    keys: list[Any]
    of: int
    step: str | None


@dataclass(slots=True)
class Side:
    """One generation of all records of a sample, as far as it was made anew. `invalid`: by reason."""

    records: int = 0
    states: Counter[str] = field(default_factory=Counter)
    invalid: Counter[str] = field(default_factory=Counter)
    repaired: int = 0
    outputs: int = 0
    characters: int = 0
    spent: Spent = field(default_factory=lambda: Spent(""))

    def plain(self) -> dict[str, Any]:
        """Means are of a record; null where they are not known."""
        spent, number = self.spent, self.records
        is_known = bool(number) and not spent.unpriced and not spent.uncounted
        return {
            "records": number,
            "succeeded": self.states[State.SUCCEEDED],
            "failed": self.states[State.FAILED],
            "quarantined": self.states[State.QUARANTINED],
            "repaired": self.repaired,
            "invalid": dict(self.invalid),
            "characters": round(self.characters / self.outputs, 1) if self.outputs else None,
            "requests": spent.requests,
            "usd": round(spent.picodollars / PICO / number, 9) if is_known else None,
            "seconds": round(spent.seconds / number, 3) if number else None,
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of a sample. `keys`: its records, chosen out of `of`; with `dry_run` nothing was done. `older` and
    `newer` say of each side: records, how many `succeeded`, `failed`, were `quarantined` and `repaired`, `invalid` ones
    by reason, and means a record of `characters`, `usd` and `seconds`. `examples`: key, older and newer outputs.
    `under_way`: records without a new end yet. `rest`: what making the others anew would cost. `exit_code`, `reason`:
    how the run ended."""

    keys: list[Any]
    of: int
    dry_run: bool = False
    step: str | None = None
    older: dict[str, Any] = field(default_factory=dict)
    newer: dict[str, Any] = field(default_factory=dict)
    under_way: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    rest: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    reason: str | None = None

    @property
    def asked(self) -> bool:
        """Whether models were asked on either side."""
        return bool(self.older and (self.older["requests"] or self.newer["requests"]))

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def choose(desk: Desk, subject: Subject, number: int, step: str | None) -> Sample:
    """Stale records, or with `step` those that have it, spread evenly over the source's order; the same each time."""
    if step is not None and step not in subject.today:
        raise UsageError(f"there is no step {step!r} (steps: {', '.join(subject.today)})")
    records, of = desk.sample(subject.number, _choice(subject, step, None), number)
    return Sample(records, [loads(desk.record(record).key) for record in records], of, step)


def mark(desk: Desk, subject: Subject, sample: Sample) -> None:
    """A new generation begins for each of them."""
    desk.decide(subject.number, _choice(subject, sample.step, sample.records))


def _choice(subject: Subject, step: str | None, records: Sequence[int] | None) -> Choice:
    having = step if records is None else None
    return Choice("rerun", actor(), subject.today, records, step=step, having=having, stale=step is None)


def compared(desk: Desk, subject: Subject, sample: Sample, ended: RunResult) -> Compared:
    """Old and new side by side, and what the rest would cost."""
    older, newer, examples, under_way = Side(), Side(), list[dict[str, Any]](), 0
    for record in sample.records:
        facts = desk.record(record)
        pair = _generations(facts)
        if pair is None or facts.state not in _ENDED:
            under_way += 1
            continue
        before, after = pair
        steps = _anew(before, after, subject.today)
        _add(older, before, steps, _spent(facts, steps, before.generation), State.SUCCEEDED)
        _add(newer, after, steps, _spent(facts, steps, after.generation, alone=True), facts.state)
        if facts.state is State.QUARANTINED and facts.failure is not None and facts.failure.kind == Kind.INVALID:
            newer.invalid[_reason(facts.failure.error)] += 1
        if len(examples) < EXAMPLES:
            examples.append(_example(facts, before, after, steps))
    sides = older.plain(), newer.plain()
    rest = _rest(desk, subject, sample.step)
    how = ended.exit_code, ended.reason
    return Compared(sample.keys, sample.of, False, sample.step, *sides, under_way, examples, rest, *how)


def _generations(facts: RecordFacts) -> tuple[GenerationFacts, GenerationFacts] | None:
    """The newest one that had succeeded before, and the present one."""
    after = next(one for one in facts.generations if one.generation == facts.generation)
    earlier = [one for one in facts.generations if one.succeeded and one.generation < facts.generation]
    return (earlier[-1], after) if earlier else None


def _anew(before: GenerationFacts, after: GenerationFacts, today: Mapping[str, str]) -> list[str]:
    """The steps that the newer generation has not taken over from the older one."""
    taken_over = {(one.step, one.at) for one in before.checkpoints}
    kept = {one.step for one in after.checkpoints if (one.step, one.at) in taken_over}
    return [step for step in today if step not in kept]


def _spent(facts: RecordFacts, steps: Sequence[str], generation: int, alone: bool = False) -> Spent:
    """What these steps cost up to a generation: where it had taken outputs over, that stands with the one before."""
    total = Spent("")
    for step in steps:
        own = [
            (one.generation, used.spent)
            for one in facts.generations
            for used in one.usage
            if used.step == step and (one.generation == generation if alone else one.generation <= generation)
        ]
        newest = max((number for number, _ in own), default=None)
        for number, spent in own:
            if number == newest:
                total.add(spent)
    return total


def _add(side: Side, made: GenerationFacts, steps: Sequence[str], spent: Spent, state: State) -> None:
    side.records += 1
    side.states[state] += 1
    side.spent.add(spent)
    side.repaired += spent.repairs > 0
    texts = [_text(one.output) for one in made.checkpoints if one.step in steps]
    if made.succeeded and texts:
        side.outputs += 1
        side.characters += sum(map(len, texts))


def _text(output: str) -> str:
    """What a person would read of an output."""
    value = loads(output)
    return value if isinstance(value, str) else output


def _reason(error: str) -> str:
    """Why an answer could not be used, without what it quotes."""
    return error.partition(":")[0][:LONGEST_REASON]


def _example(
    facts: RecordFacts, before: GenerationFacts, after: GenerationFacts, steps: Sequence[str]
) -> dict[str, Any]:
    failed = None if after.succeeded or facts.failure is None else facts.failure.error
    outputs = {"older": _outputs(before, steps), "newer": _outputs(after, steps)}
    return {"key": loads(facts.key), **outputs, "state": str(facts.state), "error": failed}


def _outputs(made: GenerationFacts, steps: Sequence[str]) -> dict[str, Any]:
    return {one.step: loads(one.output) for one in made.checkpoints if one.step in steps}


def _rest(desk: Desk, subject: Subject, step: str | None) -> dict[str, Any]:
    """The stale ones that are left, or with `step` all that have it, as the next command would take them."""
    standing = desk.standing(subject.number, subject.today)
    bill = desk.bill(subject.number, list(subject.today), False)
    if step is None:
        number = ResultVersions(standing.results).stale(subject.today)
        again = redone(standing.results, subject.today)
    else:
        having = [group for group in standing.results if step in group.made_by]
        number = sum(group.count + group.changed for group in having)
        again = _from_step(having, list(subject.today), step)
    cost: Again = cost_of_again(bill, subject.today, subject.asks, again)
    return {"records": number, **told(cost.cost), "by_older_versions": list(cost.older)}


def _from_step(groups: Sequence[ResultGroup], steps: Sequence[str], step: str) -> dict[str, int]:
    number, changed = (sum(getattr(group, name) for group in groups) for name in ("count", "changed"))
    first = steps.index(step)
    return {one: changed + (number if place >= first else 0) for place, one in enumerate(steps)}


def shown(value: Any) -> str:
    """An output on one line."""
    return value if isinstance(value, str) else dumps(value)
