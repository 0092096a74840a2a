"""The acts of `ports.desk.Desk`: some hundreds of records a commit, each conditional on the state it is still in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, TypeVar

import orjson

from onward.codec import dumps, loads
from onward.model import State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_CONVICT, DEATHS_TO_SUSPECT, SUSPECT
from onward.policy.versions import before, is_stale, rerun_from, sent_before
from onward.ports.desk import Choice, Decided
from onward.store.sql import chain, changed_inputs
from onward.store.sql.asking import Lineage
from onward.store.sql.change import Change
from onward.store.sql.feeding import digest
from onward.store.sql.spool import Spool
from onward.store.sql.transaction import Readable, Transaction

T = TypeVar("T")

Changing = Callable[[int, Callable[[Change], Decided]], Decided]

AT_ONCE = 500
BYTES_AT_ONCE = 8 << 20
BEGINNING = {"retry": State.FAILED, "release": State.QUARANTINED}
EVENTS = {"retry": "record_retried", "release": "record_released", "rerun": "record_rerun"}


@dataclass(frozen=True, slots=True)
class Act:
    """One act on one instance. `lineages`: what made its finished records. `change` makes a change durable, or, for a
    dry run, only reads; what it is given may be begun anew."""

    store: Readable
    change: Changing
    instance: int
    choice: Choice
    lineages: dict[int, Lineage]

    def decide(self) -> Decided:
        """Choose in one short reading, then mark page by page."""
        decided = Decided()
        apply = self._rerun if self.choice.act == "rerun" else self._again
        with Spool(1) as spool:
            with self.store.reading() as transaction:
                spool.fill(self._candidates(transaction))
            for page in spool.pages(AT_ONCE):
                self._in_one_commit(apply, [record for (record,) in page], decided)
        return decided

    def correct(self, values: Iterable[tuple[int, str]]) -> Decided:
        decided = Decided()
        for page in _pages(values):
            self._in_one_commit(self._correct, page, decided)
        return decided

    def _in_one_commit(
        self, apply: Callable[[Change, list[T], Decided], None], page: list[T], decided: Decided
    ) -> None:
        def mark(change: Change) -> Decided:
            marked = Decided()
            apply(change, page, marked)
            return marked

        decided.add(self.change(self.instance, mark))

    def _candidates(self, transaction: Transaction) -> Iterable[Sequence[int | None]]:
        choice = self.choice
        if choice.records is not None:
            return ([record] for record in choice.records)
        if choice.act != "rerun":
            state = BEGINNING[choice.act]
            return transaction.stream("in_state", {"instance": self.instance, "state": state})
        return transaction.stream("finished", self._finished())

    def _finished(self) -> dict[str, Any]:
        """Which finished records the choice means."""
        choice, lineages = self.choice, None
        if choice.stale or choice.having is not None:
            lineages = orjson.dumps([number for number, made in self.lineages.items() if self._wants(*made)]).decode()
        return {"instance": self.instance, "lineages": lineages, "changed": int(choice.having is None)}

    def sample(self, number: int) -> tuple[list[int], int]:
        """So many of them, from the middle of equal stretches of the source's order; and how many there are."""
        with self.store.reading() as transaction:
            total = int(transaction.rows("count_finished", self._finished())[0][0])
            number = min(number, total)
            places = [(2 * one + 1) * total // (2 * number) for one in range(number)]
            bindings = {**self._finished(), "places": orjson.dumps(places).decode()}
            found = [record for (record,) in transaction.rows("sample_finished", bindings)]
        return found, total

    def _wants(self, made_by: dict[str, str], skipped: str | None, changed: bool = False) -> bool:
        """Whether the choice means results that these versions made."""
        choice = self.choice
        if choice.having is not None and choice.having not in made_by:
            return False
        return not choice.stale or changed or is_stale(made_by, skipped, choice.today)

    # Retry and release.

    def _again(self, change: Change, ids: list[int], decided: Decided) -> None:
        choice = self.choice
        state = BEGINNING[choice.act]
        transitions.require(state, State.PENDING)
        rows = change.rows(
            "matching_ended",
            ids,
            state=state,
            named=int(choice.records is not None),
            kind=choice.kind,
            step=choice.step,
            stale=int(choice.stale),
            corrected=0,
            today=orjson.dumps(list(choice.today.items())).decode(),
        )
        self._pass_over(change, ids, rows, decided)
        decided.count += len(rows)
        _tally(decided, [step for _, _, _, step, _ in rows])
        if choice.dry_run or not rows:
            return
        # One that was convicted of killing its process is tried in a child first: it may do so again.
        marks = [[row[0], DEATHS_TO_SUSPECT if row[4] >= DEATHS_TO_CONVICT else 0] for row in rows]
        anew = self._out_of_conflict(change, [row[0] for row in rows]) if choice.act == "release" else []
        change.execute("mark_again", marks, state=state, suspect=SUSPECT)
        change.execute("next_generation", anew)
        change.execute("take_over_from", anew)
        self._move(change, state, rows)
        change.recount_failures()
        self._note(change, [[row[0], row[3], f"{choice.act}: it goes on where it was"] for row in rows])

    def _out_of_conflict(self, change: Change, ids: list[int]) -> list[list[Any]]:
        """Released records that could only come upon the same conflict with the outputs that they have: each with the
        generation to take outputs from, those to take, and the number of the new generation.

        Best is what the effect was sent for; else what an older version has made is made anew.
        """
        found = []
        for record, vanished, generation, step, succeeded, made_then, made_now in change.rows("conflicts", ids):
            then, now = dict(orjson.loads(made_then)), dict(orjson.loads(made_now))
            needed = before(step, list(self.choice.today))
            if then and needed and all(then.get(one) == self.choice.today[one] for one in needed):
                source, kept = succeeded, needed
            else:
                source, kept = generation, _up_to_date(needed, now, self.choice.today)
                if len(kept) == len(needed):
                    continue
            found.append([record, source, kept, generation + 1])
            if not vanished:
                for one in now:
                    change.count("step", one, -1)
                for one in kept:
                    change.count("step", one, 1)
        return found

    # Rerun.

    def _rerun(self, change: Change, ids: list[int], decided: Decided) -> None:
        choice = self.choice
        transitions.require(State.SUCCEEDED, State.PENDING)
        rows = change.rows("matching_finished", ids, named=int(choice.records is not None), kind=choice.kind)
        begun = [(row, self._begin(change, row)) for row in rows]
        chosen = [(row, step) for row, step in begun if step is not None]
        self._pass_over(change, ids, [row for row, _ in chosen], decided)
        decided.count += len(chosen)
        _tally(decided, [step for _, step in chosen])
        for row, step in chosen:
            for effect in self._sent(change, row, step) if choice.effects else ():
                decided.sent[effect] = decided.sent.get(effect, 0) + 1
        if choice.dry_run or not chosen:
            return
        steps = list(choice.today)
        marks = [[row[0], row[2], [] if row[5] else before(step, steps)] for row, step in chosen]
        counted = [mark for mark, (row, _) in zip(marks, chosen, strict=True) if not row[1]]
        for step, number in change.rows("not_taken_over", counted):
            change.count("step", step, -number)
        change.execute("keep_generation", marks)
        change.execute("take_over_outputs", marks)
        change.execute("next_generation", marks)
        self._uncount(change, [row for row, _ in chosen if row[3] == State.SUCCEEDED])
        reason = "rerun: a new generation"
        self._note(
            change, [[row[0], step, f"{reason}, its input has changed" if row[5] else reason] for row, step in chosen]
        )

    def _made(self, change: Change, lineage: int) -> Lineage:
        """What made a finished record, also where it was finished after the act began."""
        if lineage not in self.lineages:
            versions, skipped = change.rows("lineage", lineage=lineage)[0]
            self.lineages[lineage] = dict(orjson.loads(versions)), skipped
        return self.lineages[lineage]

    def _sent(self, change: Change, row: tuple[Any, ...], first: str) -> list[str]:
        """The effects from this step on that have sent something for what the record is now."""
        made_by = self._made(change, row[4])[0] if row[3] == State.SUCCEEDED else dict(orjson.loads(row[7]))
        return sent_before(made_by, self.choice.today, first, self.choice.effects)

    def _begin(self, change: Change, row: tuple[Any, ...]) -> str | None:
        """The step at which the record's new generation begins; None where the choice does not mean it."""
        _, _, _, state, lineage, changed, step, checkpoints = row
        choice = self.choice
        if state == State.SUCCEEDED:
            made_by, skipped = self._made(change, lineage)
            if not self._wants(made_by, skipped, bool(changed)):
                return None
            return rerun_from(made_by, skipped, choice.today, bool(changed), choice.step)
        made_by = dict(orjson.loads(checkpoints))
        if choice.having is not None and choice.having not in made_by:
            return None
        return choice.step or _first_to_redo(made_by, step, choice.today)

    def _uncount(self, change: Change, rows: list[tuple[Any, ...]]) -> None:
        """Take finished records out of the counters that only finished ones are in."""
        self._move(change, State.SUCCEEDED, rows)
        for _, vanished, _, _, lineage, changed, _, _ in rows:
            if vanished:
                continue
            change.count("lineage_changed" if changed else "lineage", str(lineage), -1)
            skipped = self._made(change, lineage)[1]
            if skipped is not None:
                change.count("skipped", skipped, -1)

    # Corrections.

    def _correct(self, change: Change, page: list[tuple[int, str]], decided: Decided) -> None:
        state = State.QUARANTINED
        transitions.require(state, State.PENDING)
        given = dict(page)
        none_else = {"named": 1, "kind": None, "step": None, "stale": 0, "corrected": 1, "today": "[]"}
        matching = {row[0]: row for row in change.rows("matching_ended", list(given), state=state, **none_else)}
        inputs = {row[0]: row[1:] for row in change.rows("current_inputs", list(matching))}
        is_open = set(change.array("open_among", list(matching)))
        other = [record for record in matching if not _same(inputs.get(record), given[record])]
        later = [record for record in other if record in is_open]
        other = [record for record in other if record not in is_open]
        same = [record for record in matching if record not in set(other)]
        self._pass_over(change, list(given), list(matching.values()), decided)
        if same:
            self._again(change, same, decided)
        decided.count += len(other)
        decided.corrected += len(other) + len(later)
        _tally(decided, [None for _ in other])
        if self.choice.dry_run or not (other or later):
            return
        rows = []
        for record in (*other, *later):
            old_hash, _, source_hash = inputs.get(record, (None, None, None))
            generation = matching[record][2] + 1
            rows.append([record, generation, digest(given[record]), given[record], source_hash or old_hash])
        counted = [[record] for record in other if not matching[record][1]]
        for step, number in change.rows("superseded_steps", counted):
            change.count("step", step, -number)
        change.execute("next_generation", [[record] for record in other])
        change.execute("corrected_inputs", rows)
        changed_inputs.let_wait(change, later)
        self._move(change, state, [matching[record] for record in other])
        change.recount_failures()
        self._note(change, [[record, None, "release: with a corrected input"] for record in other])

    # What all acts share.

    def _pass_over(self, change: Change, ids: list[int], rows: Sequence[tuple[Any, ...]], decided: Decided) -> None:
        """Count named records that are not in a state that the act is for, and bad lines that all would have meant."""
        taken = {row[0] for row in rows}
        rest = [record for record in ids if record not in taken]
        choice = self.choice
        named, filtered = choice.records is not None, bool(choice.kind or choice.step or choice.stale)
        if not rest or (filtered and not named):
            return
        for state, number in change.rows("states_of", rest):
            if not named and state != "bad line":
                continue
            decided.passed_over[state] = decided.passed_over.get(state, 0) + number

    def _move(self, change: Change, before: State, rows: Sequence[tuple[Any, ...]]) -> None:
        gone = sum(1 for row in rows if row[1])
        change.move(before, State.PENDING, len(rows) - gone)
        change.count("vanished", before, -gone)
        change.count("vanished", State.PENDING, gone)

    def _note(self, change: Change, rows: list[list[Any]]) -> None:
        event = EVENTS[self.choice.act]
        chain.tell(change, [(record, event, step, reason) for record, step, reason in rows], actor=self.choice.actor)


def _tally(decided: Decided, steps: Iterable[str | None]) -> None:
    for step, number in Counter(steps).items():
        decided.from_steps[step] = decided.from_steps.get(step, 0) + number


def _first_to_redo(made_by: dict[str, str], undecodable: str | None, today: Any) -> str:
    """Where a record that waits with a stale checkpoint begins: the first output that another version made or that no
    longer decodes."""
    for step, version in today.items():
        if step == undecodable or made_by.get(step, version) != version:
            return str(step)
    return str(next(iter(today)))


def _up_to_date(needed: list[str], made_by: Mapping[str, str], today: Mapping[str, str]) -> list[str]:
    """The first of these steps, up to one that another version has made, or that has made nothing."""
    return list(takewhile(lambda step: made_by.get(step) == today[step], needed))


def _same(held: tuple[Any, ...] | None, given: str) -> bool:
    """Whether a given input is the one that the record has, however it is written."""
    if held is None:
        return False
    input_hash, value, _ = held
    return digest(given) == input_hash or (value is not None and dumps(loads(value)) == given)


def _pages(values: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """A bounded number of values, and of bytes, at a time."""
    source = iter(values)
    while page := list(islice(source, 1)):
        size = len(page[0][1])
        for item in islice(source, AT_ONCE - 1):
            page.append(item)
            size += len(item[1])
            if size >= BYTES_AT_ONCE:
                break
        yield page
