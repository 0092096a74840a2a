"""Acts: records are marked, and a run works on them."""

from __future__ import annotations

import getpass
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Literal

from onward.codec import dumps, loads
from onward.errors import MisfitRecord, UsageError
from onward.operate.choices import Entry, Selection, entries_of, given_keys, numbers, readable_twice
from onward.operate.questions import Subject, check_kind
from onward.ports.desk import Choice, Decided, Desk

LINE = '{"line":'
LONGEST_FORM = 200

Act = Literal["retry", "release", "rerun"]
Validate = Callable[[Any], Any]

MEANT = {
    "retry": "failed record",
    "release": "quarantined record",
    "rerun": "finished record",
}


TAKEN_BY = {"failed": "retry", "quarantined": "release", "succeeded": "rerun"}


@dataclass(frozen=True, slots=True)
class Marked:
    """What an act marked, or, with `dry_run`, would mark.

    `from_steps`: at which step how many go on. `corrected`: how many got another input. `passed_over`: named records
    in a state that the act is not for. `sent`: by the effect's name, of how many something was sent already that a
    rerun comes upon. As text it is a sentence for people.
    """

    act: Act
    count: int
    dry_run: bool
    corrected: int = 0
    from_steps: dict[str, int] = field(default_factory=dict)
    passed_over: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        said = self._said()
        if self.passed_over:
            counted = ((number, state) for state, number in sorted(self.passed_over.items()))
            others = ", ".join(f"{n} {what}{'s' if what == 'bad line' and n > 1 else ''}" for n, what in counted)
            said += f" ({self.act} is not for {others})"
            said += "".join(
                f"; {state} ones are for {act}" for state, act in TAKEN_BY.items() if state in self.passed_over
            )
        if self.passed_over.get("bad line"):
            said += "; a bad line is mended in the input, or goes on as the corrected record that release --from gives"
        return "\n".join([said, *sent_already(self.sent)])

    def _said(self) -> str:
        what = MEANT[self.act]
        if not self.count:
            return f"nothing matches: there is no such {what}"
        many = f"{self.count:,} {what}{'s' if self.count != 1 else ''}"
        steps = ", ".join(f"{step} {number:,}" for step, number in self.from_steps.items())
        corrected = f", {self.corrected:,} with a corrected input" if self.corrected else ""
        if self.dry_run:
            return f"{many} would be marked for {self.act}{corrected}, to go on at: {steps}"
        return f"{many} marked for {self.act}{corrected}, to go on at: {steps}; {self._next()}"

    def _next(self) -> str:
        if self.act != "retry":
            return "the next run works on them"
        return "the next run tries them with fresh attempts, and every other failed record as well"


def sent_already(sent: Mapping[str, int]) -> list[str]:
    """What making results anew may come upon, where effects have sent something for them; in one line each."""
    return [
        f"{number:,} of them {'has' if number == 1 else 'have'} sent {effect}: where its payload is another one now, "
        "that is a conflict, and a person decides"
        for effect, number in sent.items()
    ]


def mark(desk: Desk, subject: Subject, act: Act, selection: Selection, validate: Validate | None = None) -> Marked:
    """Mark failed (retry), quarantined (release) or finished (rerun) records as pending.

    `validate` checks corrected inputs. Raises UsageError, and has then changed nothing.
    """
    _check(subject, act, selection)
    _check_step(desk, subject, act, selection.step)
    if selection.from_file is not None:
        with readable_twice(selection.from_file) as file:
            return _from_file(desk, subject, act, selection, file, validate)
    records = None
    if selection.keys:
        records = _unique(number for number, _ in numbers(desk, subject.number, given_keys(selection.keys)))
    decided = desk.decide(subject.number, _choice(subject, act, selection, records))
    return _marked(subject, act, selection, decided)


def _check(subject: Subject, act: Act, selection: Selection) -> None:
    check_kind(selection.kind)
    filters = selection.kind is not None or selection.step is not None or selection.stale
    if not (selection.names_records or selection.all or filters):
        raise UsageError(
            f"which records? Name their keys, or say --all, --kind, --step or --stale: {act} takes no default"
        )
    if selection.all and selection.names_records:
        raise UsageError("named keys and --all exclude each other")


def _check_step(desk: Desk, subject: Subject, act: Act, step: str | None) -> None:
    """A step is one of today's; for those that failed, it may also be one that is no longer there."""
    if step is None or step in subject.today:
        return
    known = list(subject.today)
    if act != "rerun":
        causes = desk.standing(subject.number, subject.today).counts.failures
        known += sorted({at for at, _ in causes if at is not None} - set(known))
    if step not in known:
        raise UsageError(f"there is no step {step!r} (steps: {', '.join(known)})")


def _from_file(
    desk: Desk, subject: Subject, act: Act, selection: Selection, file: IO[bytes], validate: Validate | None
) -> Marked:
    """Read all of the file before anything is changed, then act on it."""
    name = "standard input" if str(selection.from_file) == "-" else str(selection.from_file)
    check = _checked(validate) if act == "release" else None

    def read(check: Callable[[Entry, Any], None] | None) -> Iterator[tuple[int, Entry]]:
        yield from numbers(desk, subject.number, given_keys(selection.keys))
        yield from numbers(desk, subject.number, entries_of(file, name, check))

    named, corrected = array("q"), array("q")
    for number, entry in read(check):
        if check is not None and entry.value is not None and entry.value.startswith(LINE):
            _refuse_line(desk, number, entry)
            _validated(validate, entry, loads(entry.value))
        (named if entry.value is None else corrected).append(number)
    if corrected and (selection.kind or selection.step or selection.stale):
        raise UsageError(f"{name} gives inputs, and says by that which records; leave out kind, step and stale")
    decided = Decided()
    if corrected:
        values = ((number, entry.value) for number, entry in read(_unchecked) if entry.value is not None)
        decided = desk.correct(subject.number, values, _choice(subject, act, selection, _unique(corrected)))
    rest = _unique(set(named) - set(corrected))
    if rest:
        decided.add(desk.decide(subject.number, _choice(subject, act, selection, rest)))
    return _marked(subject, act, selection, decided)


def _checked(validate: Validate | None) -> Callable[[Entry, Any], None]:
    def check(entry: Entry, value: Any) -> None:
        if entry.value is not None and not entry.value.startswith(LINE):  # such a one is looked at with its record
            _validated(validate, entry, value)

    return check


def _validated(validate: Validate | None, entry: Entry, value: Any) -> None:
    try:
        if validate is not None:
            validate(value)
    except MisfitRecord as misfit:
        raise UsageError(f"{entry.where}: the input still does not fit: {misfit}") from None


def _refuse_line(desk: Desk, number: int, entry: Entry) -> None:
    """A bad line is exported as its text; given back in that form, the text would be taken for a record."""
    assert entry.value is not None
    value, facts = loads(entry.value), desk.record(number)
    of_bad_line = facts.failure is not None and facts.failure.error_type == "BadLine"
    if set(value) != {"line"} or not of_bad_line or facts.generations[-1].input == entry.value:
        return
    form = dumps({"key": entry.key, "input": _as_record(value["line"])})
    raise UsageError(
        f"{entry.where}: in place of a bad line stands the whole record that the steps are to get, not the text of "
        f"its line: {form}; or mend the line in the input and run again"
    )


def _as_record(line: Any) -> Any:
    """What a corrected line means, where that can be told and shown."""
    try:
        record = loads(line) if isinstance(line, str) and len(line) <= LONGEST_FORM else None
    except ValueError:
        record = None
    return record if isinstance(record, dict) else {"field": "value"}


def _unchecked(entry: Entry, value: Any) -> None:
    """It was checked when the file was read first."""


def _unique(found: Iterable[int]) -> array[int]:
    return array("q", sorted(set(found)))


def _choice(subject: Subject, act: Act, selection: Selection, records: array[int] | None) -> Choice:
    alone = selection.kind is None and not (selection.all or selection.stale or selection.names_records)
    return Choice(
        act=act,
        actor=actor(),
        today=subject.today,
        records=records,
        kind=selection.kind,
        step=selection.step,
        having=selection.step if act == "rerun" and alone else None,
        stale=selection.stale,
        dry_run=selection.dry_run,
        effects=subject.effects,
    )


def actor() -> str:
    """Who decides: the name of the system's user."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without a name for its user
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def _marked(subject: Subject, act: Act, selection: Selection, decided: Decided) -> Marked:
    """A record without a step noted in the store goes on at the first."""
    first = next(iter(subject.today), "the first step")
    steps: Counter[str] = Counter()
    for step, number in decided.from_steps.items():
        steps[step or first] += number
    order = [*subject.today, *sorted(steps.keys() - subject.today.keys())]
    from_steps = {step: steps[step] for step in order if steps[step]}
    return Marked(
        act, decided.count, selection.dry_run, decided.corrected, from_steps, decided.passed_over, decided.sent
    )
