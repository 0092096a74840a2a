"""What a run was told is durable and its server has lost: intents under which something may have been sent go back into
the ledger, so that nothing is sent once more on a guess."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
import psycopg

from onward.codec import dumps
from onward.model import EntryState, Fact
from onward.ports.work import Outcome
from onward.store.postgres.transaction import PostgresTransaction
from onward.store.postgres.words import is_lost
from onward.store.sql import chain
from onward.store.sql.change import Change
from onward.store.sql.ledger import fields_text

MOST = 10_000
MOST_CHARACTERS = 32 << 20
NAMED = 5

REPLACED = (
    "{} is another server than when it was used last, or has another history: a standby was promoted, or a backup "
    "restored. What it had acknowledged shortly before may be missing: checkpoints are made again; effects that are "
    "keyed or probed are found out before they are sent again; of others, look whether the far side has what the store "
    "does not know of"
)


@dataclass(frozen=True, slots=True)
class Intent:
    """What may have been sent from the commit of change number `change` on. `payload` None: that of an earlier one."""

    change: int
    run: int
    name: str
    key: str
    payload: str | None
    payload_hash: str
    record: int
    generation: int
    fence: int
    first_at: float
    fields: str
    deadline: float
    settle: float
    step: str | None


class Tail:
    """The newest intents that were acknowledged to this process; of many, or large ones, the oldest are dropped."""

    def __init__(self) -> None:
        self._kept: deque[Intent] = deque()
        self._characters = 0
        self._dropped = 0  # the number of the change of the last one that was dropped

    def note(self, change: int, run: int, facts: Iterable[Fact], outcome: Outcome, offset: float) -> None:
        """`offset`: how far the server's clock is ahead of that by which entries were told."""
        for fact in facts:
            effect = fact.effect
            if effect is None or effect.state is not EntryState.INTENDED or (fact.record, fact.fence) in outcome.lost:
                continue
            made = _intent(change, run, fact, outcome, offset)
            if made is not None:
                self._kept.append(made)
                self._characters += len(made.payload or "")
        while len(self._kept) > MOST or (self._characters > MOST_CHARACTERS and self._kept):
            gone = self._kept.popleft()
            self._characters -= len(gone.payload or "")
            self._dropped = gone.change

    def after(self, change: int | None) -> dict[int, list[Intent]]:
        """Those of later changes (None: all) by run, one for each obligation."""
        newest: dict[tuple[str, str], Intent] = {}
        for one in self._kept:
            if change is None or one.change > change:
                before = newest.get((one.name, one.key))
                newest[one.name, one.key] = one if one.payload is not None or before is None else before
        found: dict[int, list[Intent]] = {}
        for one in newest.values():
            found.setdefault(one.run, []).append(one)
        return found

    def is_whole_after(self, change: int | None) -> bool:
        return self._dropped <= (change or 0)


def _intent(change: int, run: int, fact: Fact, outcome: Outcome, offset: float) -> Intent | None:
    effect = fact.effect
    assert effect is not None
    whose = fact.record, fact.generation, fact.fence
    declared = fields_text(effect.fields), effect.deadline, effect.settle
    if effect.payload is None:
        return Intent(change, run, effect.name, effect.key, None, "", *whose, 0.0, *declared, fact.step)
    met = outcome.met.get((fact.record, fact.fence))
    if met is None or met.meeting not in ("go", "go on", "adopt"):
        return None
    entry = met.entry
    sent = entry.name, entry.key, entry.payload, entry.payload_hash
    return Intent(change, run, *sent, *whose, entry.first_at + offset, *declared, fact.step)


def put_back(change: Change, sender: int, intents: Sequence[Intent]) -> tuple[int, list[str]]:
    """Into the ledger, as sent or not, whoever sends them; how many, and the keys of those whose records are lost, too.
    The change is about the run, or, where that is lost, about none."""
    transaction = change.transaction
    assert isinstance(transaction, PostgresTransaction)
    rows = orjson.dumps([_row(one, change.now) for one in intents]).decode()
    bindings = {"rows": rows, "now": change.now, "instance": change.instance, "run": sender}
    inserted = [(str(name), str(key)) for name, key in transaction.own_rows("put_back_intents", bindings)]
    doubted = [(str(name), str(key)) for name, key in transaction.own_rows("doubt_absent", bindings)]
    by_place = {(one.name, one.key): one for one in intents}
    change.count_all("intents", Counter(name for name, _ in inserted))
    change.count_all("key", Counter(f"[{dumps(name)},{by_place[name, key].fields}]" for name, key in inserted))
    chain.tell(change, [_told(by_place[place]) for place in (*inserted, *doubted)])
    missing = transaction.own_rows("not_in_the_ledger", bindings)
    return len(inserted) + len(doubted), [str(key) for _, key in missing]


def _row(one: Intent, now: float) -> list[Any]:
    whose = one.record, one.generation, one.fence
    return [
        one.name, one.key, one.payload, one.payload_hash, *whose, min(one.first_at, now), one.fields, one.deadline,
        one.settle,
    ]  # fmt: skip


def _told(one: Intent) -> chain.Telling:
    detail = {"effect": one.name, "idempotency_key": one.key, "entry": EntryState.UNKNOWN}
    reason = "the database had lost this intent: it is not known whether it was sent"
    return (one.record, "effect_unconfirmed", one.step, reason, orjson.dumps(detail).decode())


def told(number: int, strangers: Sequence[str], is_whole: bool) -> str:
    """For people: what became of the intents that were lost."""
    parts = ["What else it has lost is done again by the next run"]
    if number:
        what = "1 effect that it had lost is" if number == 1 else f"{number} effects that it had lost are"
        parts.append(f"{what} back in its ledger, as sent or not: that is found out before anything is sent again")
    if strangers:
        named = ", ".join(islice(strangers, NAMED)) + (", …" if len(strangers) > NAMED else "")
        parts.append(
            f"of {len(strangers)} more it has lost the records, too: before you start again, see whether the far side "
            f"has {named}"
        )
    if not is_whole:
        parts.append("there may have been more of them than are remembered here")
    return "; ".join(parts)


def is_replaced(transaction: PostgresTransaction) -> bool:
    """Whether the server has another identity or timeline than at the last run; what it has is noted."""
    known: dict[str, int] = dict(transaction.own_rows("known_server", {}))
    today = {name: _asked(transaction, name) for name in ("system", "timeline")}
    for name, n in today.items():
        if n is not None and known.get(name) != n:
            transaction.own_execute("note_server", {"name": name, "number": n})
    return any(n is not None and name in known and known[name] != n for name, n in today.items())


def _asked(transaction: PostgresTransaction, what: str) -> int | None:
    """None where the server does not tell that to everybody."""
    transaction.begin_part()
    try:
        found = transaction.own_rows(f"{what}_of_server", {})
        answer = None if found[0][0] is None else int(found[0][0])
    except psycopg.Error as error:
        if is_lost(error):
            raise
        transaction.undo_part()
        answer = None
    transaction.end_part()
    return answer
