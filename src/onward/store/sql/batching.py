"""Requests that are sent together: who waits for which of them, in which chunk they go, and what came of them.

A request and the record that waits for it become durable in one commit; so do an answer, its cost, and that the record
waits no more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import orjson

from onward.model import BatchRequest, Fact, Spent, State
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.ports.batches import BatchState, Chunk, ChunkWish, KnownAnswer, NoAnswer, NoRoom, OpenChunks, Queue, Said
from onward.ports.work import RunStart
from onward.store.sql import chain, spending
from onward.store.sql.change import Change, storable

BATCH = "batch"
MOST_TRIES = 3
_OVER = frozenset({State.SUCCEEDED, State.QUARANTINED})
T = TypeVar("T")


class ChangeBy(Protocol):
    def __call__(self, run: int, make: Callable[[Change], T], /) -> T:
        """What `make` brings, once that is durable."""


def apply(change: Change, facts: Sequence[Fact]) -> None:
    """Keep what records wait for, and forget what those have used whose step has ended."""
    waiting = [fact for fact in facts if fact.deferral is not None]
    if waiting:
        _defer(change, waiting)
    if not change.rows("has_waits"):
        return
    ended = [fact.record for fact in facts if fact.checkpoint is not None or fact.state in _OVER]
    if ended and (used := change.array("waited_for_by", ended)):
        change.execute("drop_waits", ended)
        change.execute("forget_answers", used)


def _defer(change: Change, facts: Sequence[Fact]) -> None:
    """`facts` are those of records that wait from now on."""
    records = [fact.record for fact in facts]
    before = defaultdict(list)
    for record, *known in change.rows("waits_of", records):
        before[record].append(known)
    requests: dict[str, list[object]] = {}
    waits: list[list[object]] = []
    for fact in facts:
        deferral = fact.deferral
        assert deferral is not None
        requests |= {one.fingerprint: _row(one) for one in deferral.requests}
        whose = fact.record, fact.generation, deferral.version, _strays(fact, before[fact.record])
        waits += [[*whose, name] for name in (*[one.fingerprint for one in deferral.requests], *deferral.known)]
    change.execute("add_batched", list(requests.values()))
    change.execute("drop_waits", records)
    change.execute("add_waits", waits)
    change.execute("let_go_records", records, to_suspect=DEATHS_TO_SUSPECT)  # what was answered meanwhile


def _row(one: BatchRequest) -> list[object]:
    return [one.fingerprint, one.model, one.place, one.path, one.body, one.picodollars, one.tokens, one.repairs]


def _strays(fact: Fact, before: Sequence[Sequence[Any]]) -> int:
    """How often the step has not come back to a question for whose answer it had waited."""
    deferral = fact.deferral
    assert deferral is not None
    asked = {one.fingerprint for one in deferral.requests} | set(deferral.known)
    alike = [one for one in before if (one[1], one[2]) == (fact.generation, deferral.version)]
    has_strayed = any(is_answered and fingerprint not in asked for fingerprint, _, _, _, is_answered in alike)
    return max((one[3] for one in alike), default=0) + has_strayed


def release(change: Change, start: RunStart) -> None:
    """Records whose step has changed, or whose model is no longer asked in batches, wait no more; requests that were
    for them alone and are not sent yet are not going to be."""
    if not change.rows("has_waits"):
        return
    versions = orjson.dumps([[step.name, step.version] for step in start.steps]).decode()
    models = orjson.dumps([[one[:2], one[2]] for one in start.batch_models]).decode()
    change.execute("release_batched", versions=versions, models=models, to_suspect=DEATHS_TO_SUSPECT)
    change.execute("forget_unsent")


class SqlBatches:
    """The verbs of `ports.batches.BatchStore`. `change_by` makes a change that a run may make, and may begin it anew;
    `reading` reads what is committed."""

    def __init__(self, change_by: ChangeBy, reading: ChangeBy):
        self._change_by = change_by
        self._reading = reading

    def answer(self, run: int, record: int, version: str, fingerprint: str) -> KnownAnswer | NoAnswer:
        def look(reading: Change) -> tuple[Any, ...] | NoAnswer:
            found = reading.rows("find_batched", fingerprint=fingerprint)
            if not found or found[0][0] is None:
                return NoAnswer(int(reading.one("strays_of", record=record, version=version) or 0))
            return found[0]

        known = self._reading(run, look)
        if isinstance(known, NoAnswer):
            return known
        text, fault, spent = known
        if fault:
            self._change_by(run, lambda change: change.execute("drop_batched", fingerprint=fingerprint))
        return KnownAnswer(text, None if spent is None else Spent(**orjson.loads(spent)))

    def queues(self, run: int) -> list[Queue]:
        return [Queue(*row) for row in self._reading(run, lambda reading: reading.rows("batch_queues"))]

    def make_chunk(self, run: int, wish: ChunkWish) -> Chunk | NoRoom | None:
        def make(change: Change) -> Chunk | NoRoom | None:
            where: dict[str, Any] = {"model": wish.model, "place": wish.place, "path": wish.path}
            rows = change.rows("pick_batched", **where, limit=wish.most_requests)
            if not rows:
                return None
            spent, tokens, held, held_tokens = change.rows("spent_and_reserved", model=wish.model)[0]
            taken = _that_fit(rows, wish, spent + held, tokens + held_tokens)
            if not taken:
                return NoRoom(rows[0][2], rows[0][3], spent, tokens, bool(held or held_tokens))
            most: dict[str, Any] = {"picodollars": sum(row[2] for row in taken), "tokens": sum(row[3] for row in taken)}
            change.execute("insert_chunk", id=wish.id, requests=len(taken), **where, **most)
            change.execute("put_into_chunk", [row[0] for row in taken], chunk=wish.id)
            _tell(change, "batch_intended", None, chunk=wish.id, model=wish.model, requests=len(taken))
            return Chunk(wish.id, wish.model, wish.place, wish.path, len(taken), change.now)

        return self._change_by(run, make)

    def open_chunks(self, run: int) -> OpenChunks:
        def make(change: Change) -> OpenChunks:
            change.execute("adopt_chunks")
            own = [Chunk(*row) for row in change.rows("own_chunks")]
            return OpenChunks(own, int(change.one("chunks_elsewhere")))

        return self._change_by(run, make)

    def bodies(self, run: int, chunk: str, after: int, limit: int) -> list[tuple[int, str, str]]:
        rows = self._reading(run, lambda reading: reading.rows("bodies", chunk=chunk, after=after, limit=limit))
        return [(number, fingerprint, body) for number, fingerprint, body in rows]

    def note_file(self, run: int, chunk: str, file: str) -> None:
        def make(change: Change) -> None:
            change.execute("note_file", chunk=chunk, file=storable(file))

        self._change_by(run, make)

    def note_batch(self, run: int, chunk: str, state: BatchState, found: bool) -> None:
        def make(change: Change) -> None:
            _note(change, chunk, state)
            _tell(change, "batch_found" if found else "batch_submitted", None, chunk=chunk, batch=storable(state.id))

        self._change_by(run, make)

    def note_progress(self, run: int, chunk: str, state: BatchState) -> None:
        def make(change: Change) -> None:
            _note(change, chunk, state)

        self._change_by(run, make)

    def take_in(self, run: int, chunk: str, said: Sequence[Said]) -> int:
        told = {one.fingerprint: one for one in said if one.what in ("answer", "fault")}

        def make(change: Change) -> int:
            rows = change.rows("sent_among", [[fingerprint] for fingerprint in told], chunk=chunk)
            if not rows:
                return 0
            answers, freed = [], [0, 0]
            sums: dict[str, Spent] = {}
            uncounted: Counter[str] = Counter()
            uncounted_tokens: Counter[str] = Counter()
            for number, fingerprint, picodollars, tokens, repairs in rows:
                one = told[fingerprint]
                freed = [freed[0] + picodollars, freed[1] + tokens]
                if one.spent is not None:
                    one.spent.repairs = repairs
                    sums.setdefault(one.spent.model, Spent(one.spent.model)).add(one.spent)
                    if one.spent.uncounted:
                        uncounted[one.spent.model] += picodollars
                        uncounted_tokens[one.spent.model] += tokens
                spent = None if one.spent is None else orjson.dumps(asdict(one.spent)).decode()
                answers.append([number, one.text, int(one.what == "fault"), spent])
            for model, spent_on in sums.items():
                spending.book(change, spent_on, uncounted[model], uncounted_tokens[model])
            change.execute("free_of_chunk", chunk=chunk, picodollars=freed[0], tokens=freed[1])
            _answer(change, answers)
            return len(rows)

        return self._change_by(run, make)

    def end_chunk(
        self, run: int, chunk: str, status: str, reason: str, fault: str | None, told: Collection[str]
    ) -> int:
        def make(change: Change) -> int:
            model, requests, batch, ended = change.rows("find_chunk", chunk=chunk)[0]
            if ended is not None:
                return 0
            left = change.rows("left_of_chunk", chunk=chunk)
            given_up = [row for row in left if fault is not None and row[1] >= MOST_TRIES]
            again = [row[0] for row in left if fault is None or row[1] < MOST_TRIES]
            lost = [row for row in left if row[4] not in told] if status == "completed" else []
            if lost:  # they may have been carried out
                counted = Spent(model, requests=len(lost), lost=len(lost))
                spending.book(change, counted, sum(row[2] for row in lost), sum(row[3] for row in lost))
            change.execute("end_chunk", chunk=chunk, status=status)
            change.execute("put_out_of_chunk", again, uncounted=int(fault is None))
            _answer(change, [[row[0], fault, 1, None] for row in given_up])
            numbers = {"requests": requests, "answered": requests - len(left), "again": len(again)}
            _tell(change, "batch_finished", reason or None, chunk=chunk, batch=batch, status=status, **numbers)
            return len(left)

        return self._change_by(run, make)


def _that_fit(
    rows: Sequence[tuple[int, int, int, int]], wish: ChunkWish, picodollars: int, tokens: int
) -> list[tuple[int, int, int, int]]:
    """The first rows that are together no more than the wish allows; one that is too big alone goes alone."""
    taken: list[tuple[int, int, int, int]] = []
    size = 0
    for row in rows:
        size, picodollars, tokens = size + row[1], picodollars + row[2], tokens + row[3]
        too_dear = wish.most_picodollars is not None and picodollars > wish.most_picodollars
        too_many = wish.most_tokens is not None and tokens > wish.most_tokens
        if too_dear or too_many or (size > wish.most_bytes and taken):
            break
        taken.append(row)
    return taken


def _note(change: Change, chunk: str, state: BatchState) -> None:
    said: dict[str, Any] = {"status": storable(state.status), "done": state.done, "total": state.total}
    change.execute("note_batch", chunk=chunk, batch=storable(state.id), **said)


def _answer(change: Change, answers: Sequence[list[object]]) -> None:
    """Write (request, answer, whether a fault, what was spent) and let go of who waited."""
    if answers:
        change.execute("answer_batched", list(answers))
        waiting = change.array("waiting_for", [one[0] for one in answers])
        change.execute("let_go_records", waiting, to_suspect=DEATHS_TO_SUSPECT)


def _tell(change: Change, event: str, reason: str | None, **detail: object) -> None:
    chain.tell(change, [(None, event, None, reason, orjson.dumps(detail).decode())])
