"""What people say about many open effects at once: each is one decision, as in `reconciling.decide`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from onward.codec import dumps, loads
from onward.errors import OutputError, UsageError
from onward.job.plan import StepPlan
from onward.model import EntryState, State
from onward.operate.choices import Entry, given_keys, lines_of, numbers, readable_twice
from onward.operate.questions import Subject
from onward.operate.reconciling import OPEN, Undecidable, names_among, shown, standing, word_about
from onward.ports.desk import Desk, Word
from onward.ports.facts import RecordFacts

AT_ONCE = 200
FIELDS = ("key", "sent", "not_sent", "reason")
FORM = '{"key": …, "sent": RECEIPT} or {"key": …, "not_sent": true}, and "reason" where there is one'


@dataclass(frozen=True, slots=True)
class Decisions:
    """What became of many decisions. `succeeded`: of those `sent`, how many have nothing left to do. `refused`: those
    that were not made, or with `dry_run` would not be, each with its `key`, `where` it was said (a file's line, or "")
    and `why`. As text it is a sentence for people."""

    sent: int = 0
    not_sent: int = 0
    succeeded: int = 0
    dry_run: bool = False
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many were made, or would be."""
        return self.sent + self.not_sent

    @property
    def exit_code(self) -> int:
        return 2 if self.refused else 0

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        if not self.count and not self.refused:
            return "nothing matches: no record is unconfirmed"
        parts = [f"{n:,} {what}" for n, what in ((self.not_sent, "not sent"), (self.sent, "sent")) if n]
        said = f"{'would be ' * self.dry_run}decided, as you say: {', '.join(parts) or 'nothing'}"
        if self.succeeded:
            said += f" ({self.succeeded:,} {'would have' if self.dry_run else 'have'} succeeded)"
        if self.refused:
            rest = "; the rest is done" if self.count and not self.dry_run else ""
            said += f"; {len(self.refused):,} {'would be ' * self.dry_run}refused{rest}"
        return said


@dataclass(frozen=True, slots=True)
class Said:
    """What a person says about one record; `receipt` (JSON text) None: it was not sent."""

    record: int
    entry: Entry
    receipt: str | None
    reason: str | None


def from_file(desk: Desk, subject: Subject, path: str | Path, reason: str | None) -> list[Said]:
    """What the lines of a file say. Raises UsageError for the first that does not fit, with its place."""
    name = "standard input" if str(path) == "-" else str(path)
    with readable_twice(path) as file:
        lines = [_line(text, where, reason) for text, where in lines_of(file, name)]
    met: dict[int, str] = {}
    said = []
    for (number, entry), (_, receipt, why) in zip(
        numbers(desk, subject.number, (line[0] for line in lines)), lines, strict=True
    ):
        before = met.setdefault(number, entry.where)
        if before != entry.where:
            raise UsageError(f"{entry.where}: its record was decided in {before} already; nothing was changed")
        said.append(Said(number, entry, receipt, why))
    return said


def of_keys(
    desk: Desk, subject: Subject, keys: Sequence[Any] | None, receipt: str | None, reason: str | None
) -> list[Said]:
    """The same of these records, or (None) of all unconfirmed ones. Raises UsageError for an unknown key."""
    if keys is None:
        keys = [loads(one.key) for one in desk.failures(subject.number, [State.UNCONFIRMED], None)]
    found = numbers(desk, subject.number, given_keys(keys))
    return list({number: Said(number, entry, receipt, reason) for number, entry in found}.values())


def decide_all(
    desk: Desk,
    subject: Subject,
    said: Sequence[Said],
    steps: Sequence[StepPlan] | None,
    *,
    effect: str | None = None,
    named: bool = True,
    dry_run: bool = False,
) -> Decisions:
    """Make decisions, each for itself: what cannot be decided, or not now, is told, and the rest is done.

    `named`: whether the records were; else those whose effect is known to have been sent are told, too, and those that
    have nothing open under `effect` passed over. Raises UsageError, and has then changed nothing, for an unknown effect
    and for a receipt that does not fit.
    """
    among = names_among(effect, steps)
    refused: list[dict[str, Any]] = []
    words: list[tuple[Said, Word]] = []
    for one in said:
        facts = desk.record(one.record)
        if not named and not _is_meant(facts, among):
            continue
        try:
            word = _word(facts, subject, one, steps, among, named)
        except Undecidable as error:
            refused.append(_refused(one, error))
        else:
            words.append((one, replace(word, dry_run=dry_run)))
    after = _settle(desk, subject, words, refused)
    sent = sum(word.receipt is not None for word, _ in after)
    done = sum(word.receipt is not None and state is State.SUCCEEDED for word, state in after)
    return Decisions(sent, len(after) - sent, done, dry_run, refused)


def _word(
    facts: RecordFacts,
    subject: Subject,
    said: Said,
    steps: Sequence[StepPlan] | None,
    among: Sequence[str] | None,
    named: bool,
) -> Word:
    try:
        word, entry = word_about(
            facts, subject, said.record, steps, receipt=said.receipt, among=among, reason=said.reason
        )
    except Undecidable:
        raise
    except UsageError as error:
        raise UsageError(f"{said.entry.where and said.entry.where + ': '}{error}; nothing was changed") from None
    if not named and entry.state is EntryState.SENT:
        raise Undecidable(f"{shown(loads(facts.key))} has a receipt: it was sent; if that is wrong, name its key")
    return word


def _is_meant(facts: RecordFacts, among: Sequence[str] | None) -> bool:
    open_now = [one for one in facts.entries if one.generation == facts.generation and one.state in OPEN]
    return among is None or any(one.effect in among for one in open_now)


def _settle(
    desk: Desk, subject: Subject, words: Sequence[tuple[Said, Word]], refused: list[dict[str, Any]]
) -> list[tuple[Word, State]]:
    """Commit by commit; those that were settled, and the states of their records."""
    done: list[tuple[Word, State]] = []
    source = iter(words)
    while some := list(islice(source, AT_ONCE)):
        found = desk.settle_all(subject.number, [word for _, word in some])
        for (said, word), after in zip(some, found, strict=True):
            if isinstance(after, State):
                done.append((word, after))
            else:
                refused.append(_refused(said, after or standing(desk.record(word.record))))
    return done


def _refused(said: Said, why: Any) -> dict[str, Any]:
    key = said.entry.key
    return {"key": str(key) if isinstance(key, str) else key, "where": said.entry.where, "why": str(why)}


def _line(text: str, where: str, reason: str | None) -> tuple[Entry, str | None, str | None]:
    """Who is meant, the receipt (None: not sent) and why. Raises UsageError."""
    try:
        given = loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or "key" not in given:
        raise _misfit(where, f"a decision is {FORM}")
    strange = [name for name in given if name not in FIELDS]
    if strange:
        raise _misfit(where, f"there is no field {strange[0]!r}; a decision is {FORM}")
    if ("sent" in given) == ("not_sent" in given) or given.get("not_sent", True) is not True:
        raise _misfit(where, f'either "sent", with the receipt, or "not_sent": true; a decision is {FORM}')
    why = given.get("reason", reason)
    if why is not None and not isinstance(why, str):
        raise _misfit(where, 'a "reason" is text')
    try:
        receipt = dumps(given["sent"]) if "sent" in given else None
    except OutputError as error:
        raise _misfit(where, f"a receipt is a plain JSON value: {error}") from None
    return Entry(given["key"], where), receipt, why


def _misfit(where: str, what: str) -> UsageError:
    return UsageError(f"{where}: {what}; nothing was changed")
