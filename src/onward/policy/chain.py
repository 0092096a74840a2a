"""The history as chains of hashes: each entry's is over the one before it and over all that the entry says. Pure.

A chain is that of a run, or of what people decide about an instance outside runs. A run's first entry names the ends of
the chains that stood before it, so that the newest head vouches for what came before it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from onward.model import Misfit

FORMAT = 1
DIGEST_BYTES = 32
BEGIN = "run_started"
"""The event of a run's first entry; its detail has `after`: [[run, seq, hash], …], ends of chains at that moment."""
END = "run_finished"
"""The event of its last: nothing follows."""
NOT_WRITTEN = "it is not what was written"

Chain = tuple[int, int | None]
"""(instance, run); without a run: what people decided outside of runs."""


class Link(NamedTuple):
    """One entry as it is hashed. `key`: its record's, canonical, which the record's own row has and no other. Times in
    UTC seconds; texts are Unicode without lone surrogates."""

    instance: int
    run: int | None
    seq: int
    record: int | None
    key: str | None
    at: float
    actor: str | None
    event: str
    step: str | None
    reason: str | None
    detail: str | None

    @property
    def chain(self) -> Chain:
        return self.instance, self.run


def link_hash(previous: str, link: tuple[Any, ...]) -> str:
    """The hash of an entry (the fields of `Link`, in order) that follows the one with the hash `previous`."""
    return hashlib.blake2b(orjson.dumps((FORMAT, previous, *link)), digest_size=DIGEST_BYTES).hexdigest()


class Tip(NamedTuple):
    """Where a chain ends: its number of entries and the hash of the last; an empty one is (0, "")."""

    seq: int
    hash: str


EMPTY = Tip(0, "")


class RunRow(NamedTuple):
    """What a run's own row says of it, which somebody may have edited to be anything: `versions` as JSON [[step,
    version], …]; `reason` may say more than the chain does."""

    is_over: bool
    host: Any
    versions: Any
    exit_code: Any
    reason: Any

    def unlike(self, link: Link) -> str | None:
        """Which of it the run's first or last entry says otherwise."""
        try:
            detail = dict(orjson.loads(link.detail or "{}"))
        except (TypeError, ValueError):
            return "beginning" if link.event == BEGIN else "end"
        if link.event == BEGIN:
            return next((name for name, fits in self._begun(detail) if not fits), None)
        fits = self.reason == link.reason or str(self.reason).startswith(f"{link.reason}: ")
        found = (
            ("end", self.is_over),
            ("exit code", self.exit_code == detail.get("exit_code")),
            ("reason", fits),
        )
        return next((name for name, fits in found if not fits), None)

    def _begun(self, detail: dict[str, Any]) -> tuple[tuple[str, bool], ...]:
        try:
            versions = dict(orjson.loads(self.versions))
        except (TypeError, ValueError):
            versions = None
        return ("host", self.host == detail.get("host")), ("set of versions", versions == detail.get("versions"))


@dataclass(slots=True)
class Checker:
    """Recomputes chains from their entries, in the order in which they were written; holds no more than their tips.

    `heads`: where each chain is said to end, and whether its run has ended by itself, so that nothing may follow.
    `expected`: a head that was noted elsewhere. `over`: chains of runs that have ended, by themselves or not. `rows`:
    what the runs' own rows say, where that is to be compared.
    """

    heads: dict[Chain, tuple[Tip, bool]]
    expected: str | None = None
    over: frozenset[Chain] = frozenset()
    rows: Mapping[Chain, RunRow] = field(default_factory=dict)
    entries: int = 0
    _tips: dict[Chain, Tip] = field(default_factory=dict)
    _finished: set[Chain] = field(default_factory=set)
    _met: tuple[Chain, int] | None = None

    def entry(self, link: Link | None, place: Link, said: str, is_copied: bool = False) -> Misfit | None:
        """The next entry. `place` says which one it is, `link` how it was hashed, None where it holds what cannot be
        hashed. `is_copied`: it was written in another store, and hashed by the numbers that it had there."""
        self.entries += 1
        chain = place.chain
        if chain not in self.heads:
            return _misfit(place, "nobody wrote it: there is no such chain")
        tip = self._tips.get(chain, EMPTY)
        if place.seq != tip.seq + 1:
            return _misfit(place, f"it follows entry {tip.seq:,}: entries were removed, added or exchanged")
        if link is None or link_hash(tip.hash, link) != said:
            return _misfit(
                place, NOT_WRITTEN if place.record is None else f"{NOT_WRITTEN}, or its record had another key"
            )
        head = self.heads[chain][0]
        if place.seq > head.seq or (place.seq == head.seq and said != head.hash):
            return _misfit(place, "the chain is said to end otherwise: it was added, or exchanged")
        misfit = (self._before(place, is_copied) if place.event == BEGIN else None) or self._row(place)
        if misfit is not None:
            return misfit
        if said == self.expected:
            self._met = chain, place.seq
        self._tips[chain] = Tip(place.seq, said)
        if place.event == END:
            self._finished.add(chain)
        return None

    def _row(self, link: Link) -> Misfit | None:
        row = self.rows.get(link.chain) if link.event in (BEGIN, END) else None
        unlike = None if row is None else row.unlike(link)
        return None if unlike is None else _misfit(link, f"the row of its run was edited: it has another {unlike}")

    def _before(self, link: Link, is_copied: bool) -> Misfit | None:
        """What does not fit of the chains that a run's first entry names. One that was written in another store names
        them by the numbers that they had there: they are known by their ends."""
        try:
            named = [
                (run, Tip(int(seq), said)) for run, seq, said in orjson.loads(link.detail or "{}").get("after", ())
            ]
        except (AttributeError, TypeError, ValueError):
            return _misfit(link, "it does not say which chains stood before it")
        if is_copied:
            ends = {tip for chain, tip in self._tips.items() if chain[0] == link.instance}
            if any(then not in ends for _, then in named):
                return _misfit(link, "it knows an end of another chain that is not there: entries were exchanged")
            return None
        for run, then in named:
            tip = self._tips.get((link.instance, run), EMPTY)
            if tip.seq < then.seq:
                why = f"it is missing: the chain had {then.seq:,} entries when run {link.run} began"
                return Misfit(link.instance, run, tip.seq + 1, None, None, why)
            if tip != then:
                whose = "what people decided" if run is None else f"run {run}"
                return _misfit(link, f"it knows another entry {then.seq:,} of {whose}, which was exchanged")
        return None

    def ended(self) -> Misfit | None:
        """All entries are read: each chain has to end where it is said to, and the expected head is among them."""
        for chain, (head, _) in self.heads.items():
            tip = self._tips.get(chain, EMPTY)
            if tip != head:
                why = f"it is missing: the chain had {head.seq:,} entries"
                return Misfit(*chain, tip.seq + 1, None, None, why)
            if chain[1] is not None and tip == EMPTY:
                return Misfit(*chain, 1, None, None, "it is missing: every run begins with an entry")
            if chain in self.over and chain not in self._finished:
                why = "it is missing: the run has ended, and its chain does not say so"
                return Misfit(*chain, tip.seq + 1, None, None, why)
        return self._expected_missing()

    def _expected_missing(self) -> Misfit | None:
        if self.expected is None:
            return None
        if self._met is None:
            return Misfit(None, None, 0, None, None, f"no chain has an entry with the hash {self.expected}")
        chain, seq = self._met
        head, closed = self.heads[chain]
        if closed and seq != head.seq:
            return Misfit(*chain, seq + 1, None, None, "it follows the expected head, with which the run had ended")
        return None


def _misfit(place: Link, why: str) -> Misfit:
    return Misfit(*place.chain, place.seq, place.at, place.event, why)
