"""A person's word on obligations that nobody else knows the outcome of, and which of them can be asked about again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import orjson

from onward.codec import plain_key
from onward.errors import UsageError
from onward.model import EntryState, State
from onward.policy import transitions
from onward.policy.effects import Traits, landed_by
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.ports.desk import Asked, Asking, Word
from onward.store.sql import chain, changed_inputs, facts, ledger
from onward.store.sql.asking import ELSEWHERE
from onward.store.sql.change import Change
from onward.store.sql.ledger import may_be_sending
from onward.store.sql.transaction import Life

OPEN = (EntryState.INTENDED, EntryState.UNKNOWN, EntryState.SENT)
EVENTS = {True: "effect_confirmed", False: "effect_denied"}
AT_ONCE = 500
IsHeld = Callable[[int], bool]  # whether the process lives that a run was in


def settle(change: Change, words: Iterable[Word], life: Life) -> list[State | UsageError | None]:
    """What `ports.desk.Desk.settle_all` does, in one transaction."""
    after: list[State | UsageError | None] = []
    for word in words:
        try:
            after.append(_Word(change, word, partial(life.is_held, change.transaction)).apply())
        except UsageError as error:  # before anything of this one was changed
            after.append(error)
    return after


class _Word:
    """One word: the entry first, then the record."""

    def __init__(self, change: Change, word: Word, is_held: IsHeld):
        self._change = change
        self._is_held = is_held
        self._word = word
        self._where: dict[str, Any] = {"record": word.record, "name": word.effect, "key": word.key}

    def apply(self) -> State | None:
        found = self._change.rows("obligation", **self._where)
        if not found:
            return None
        state, vanished, generation, at, key, entry, run = found[0]
        if state != State.UNCONFIRMED or entry not in OPEN:
            return None
        if self._word.receipt is None and may_be_sending(state, entry) and self._is_held(run):
            raise UsageError(
                f"the call for {plain_key(key)} may still be sending: the process of run {run}, which made it, "
                "is alive; wait until the call returns, or end that process, then decide; nothing was changed"
            )
        if self._word.receipt is None:
            self._require_landed(plain_key(key))
        if self._word.dry_run:
            return self._would_be(generation)
        self._gone = bool(vanished)
        self._settle_entry()
        after, step = State.PENDING, self._word.step or at
        if self._word.receipt is not None:
            after = self._sent(generation)
        else:
            self._go_on(step, sent=False)
        transitions.require(State.UNCONFIRMED, after)
        if self._gone:
            self._change.count("vanished", State.UNCONFIRMED, -1)
            self._change.count("vanished", after, 1)
        else:
            self._change.move(State.UNCONFIRMED, after, 1)
        self._tell(step)
        if after is State.PENDING:
            changed_inputs.take(self._change, [self._word.record])
        return after

    def _require_landed(self, key: str) -> None:
        """Who finds nothing on the far side while it may still arrive there knows nothing."""
        word = self._word
        entries = ledger.entries_of(self._change, [word.record]).get(word.record, [])
        found = next((one for one in entries if (one.name, one.key) == (word.effect, word.key)), None)
        if found is None or found.state is EntryState.SENT:
            return
        lands = landed_by(Traits(deadline=0.0, settle=0.0), found)
        if self._change.now < lands:
            until = time.strftime("%H:%M:%S", time.gmtime(lands + 1.0))
            raise UsageError(
                f"what was sent for {key} may still arrive (its deadline and settle are over at {until} UTC): look at "
                "the far side then, and decide; nothing was changed"
            )

    def _would_be(self, generation: int) -> State:
        if self._word.receipt is None:
            return State.PENDING
        done: dict[str, str] = dict(
            self._change.rows("versions_so_far", record=self._word.record, generation=generation)
        )
        return State.PENDING if set(self._word.today) - {self._word.step, *done} else State.SUCCEEDED

    def _settle_entry(self) -> None:
        receipt = self._word.receipt
        state = EntryState.ABSENT if receipt is None else EntryState.CONFIRMED
        changed = self._change.execute("settle_by_word", **self._where, state=state, receipt=receipt)
        assert changed == 1, "the entry was open in this transaction"
        ledger.wake(self._change, [[self._word.effect, self._word.key]])

    def _sent(self, generation: int) -> State:
        """The receipt is the step's output; what follows is the next step, or the end."""
        word, change = self._word, self._change
        assert word.step is not None, "a receipt belongs to a step of today"
        made: dict[str, Any] = {"record": word.record, "generation": generation}
        version = word.today[word.step]
        change.execute("checkpoint_by_word", **made, step=word.step, version=version, output=word.receipt)
        if not self._gone:
            change.count("step", word.step, 1)
        done: dict[str, str] = dict(change.rows("versions_so_far", **made))
        left = [step for step in word.today if step not in done]
        if left:
            self._go_on(left[0], sent=True)
            return State.PENDING
        lineage = facts.interned(change, [(step, done[step]) for step in word.today], None)
        change.execute("finish_by_word", record=word.record, lineage=lineage)
        changed = change.array("finished_with_another", [[word.record]])
        change.count(*changed_inputs.WAITS, -len(changed))
        if not self._gone:
            change.count("lineage_changed" if changed else "lineage", str(lineage), 1)
        return State.SUCCEEDED

    def _go_on(self, step: str | None, sent: bool) -> None:
        bindings: dict[str, Any] = {"step": step, "sent": int(sent), "to_suspect": DEATHS_TO_SUSPECT}
        self._change.execute("go_on_by_word", record=self._word.record, **bindings)

    def _tell(self, step: str | None) -> None:
        word = self._word
        sent = word.receipt is not None
        said = "a person says: it was sent" if sent else "a person says: it was not sent"
        reason = f"{said}; {word.reason}" if word.reason else said
        state = EntryState.CONFIRMED if sent else EntryState.ABSENT
        detail = orjson.dumps({"effect": word.effect, "idempotency_key": word.key, "entry": state}).decode()
        chain.tell(self._change, [(word.record, EVENTS[sent], step, reason, detail)], actor=word.actor)


def ask_again(change: Change, asking: Asking, life: Life) -> Asked:
    """What `ports.desk.Desk.ask_again` does."""
    transaction = change.transaction
    alive = {run for run, boot, until in change.rows("all_open_runs") if life.is_alive(transaction, run, boot, until)}
    asked, noted = _choose(change.rows("open_obligations"), asking, alive, partial(life.is_held, transaction))
    reason = "asked about again" + (f"; {asking.reason}" if asking.reason else "")
    for start in range(0, len(noted), AT_ONCE):
        rows = [(record, "effect_asked", step, reason) for record, step in noted[start : start + AT_ONCE]]
        chain.tell(change, rows, actor=asking.actor)
    return asked


def _choose(
    rows: Iterable[tuple[Any, ...]], asking: Asking, alive: set[int], is_held: IsHeld
) -> tuple[Asked, list[tuple[int, str | None]]]:
    """What is asked about; and record and step of those, for their histories."""
    asked = Asked()
    noted: list[tuple[int, str | None]] = []
    for record, state, hold, run, step, name, entry, sent_by in rows:
        if asking.among is not None and name not in asking.among:
            continue
        if hold == ELSEWHERE:
            asked.elsewhere += 1
        elif state == State.IN_PROGRESS and run in alive:
            asked.busy += 1
        elif may_be_sending(state, entry) and is_held(sent_by):
            asked.sending += 1  # its end was not heard, and it may go on in a process that lives
        elif name is None or name in (asking.confirmed if entry == EntryState.SENT else asking.found_out):
            asked.records.append(record)
            noted.append((record, step))
        else:
            asked.left += 1
    return asked, noted
