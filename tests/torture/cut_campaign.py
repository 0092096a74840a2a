"""Connections cut before and after COMMIT, again and again, while several processes' stores share an effect job.

    python tests/torture/cut_campaign.py --cuts 50000 --seed 0 [--ledger FILE]

Every round is an instance of its own: its records are claimed, get a checkpoint, an intent, are "sent" to a far side
that counts, and end with a receipt; at each COMMIT that passes the proxy, the seed draws whether it is cut, and how.
Afterwards whatever was acknowledged is there, once; counters agree with rows, chains verify. The ledger has a line for
each round.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import postgres
from helpers.cutting import Cut, Cutter
from onward.clock import SystemClock
from onward.codec import canonical_key
from onward.model import Claimed, EffectFact, EntryState, Fact, FeedBlock, SourceRecord, State, StepVersion
from onward.ports.work import Batch, ClaimWish, RunStart
from onward.store.postgres.address import parse
from onward.store.postgres.work import PostgresWorkStore
from torture import looking

FILING = "annual-report"
STEPS = (StepVersion("check", "1"), StepVersion("send", "1"))
WAYS: tuple[Cut, ...] = ("before", "after", "in mid-answer")
RECORDS, STORES, LANES = 240, 3, 3
IDLE = 200


@dataclass
class Report:
    """One round. `commits`: that passed the proxy; `settled`: acknowledged facts; `found`: what is wrong."""

    seed: int
    stores: int
    records: int
    share: float
    cuts: int = 0
    commits: int = 0
    settled: int = 0
    seconds: float = 0.0
    found: list[str] = field(default_factory=list)


class Round:
    """One instance, worked on by several stores through one proxy."""

    def __init__(self, url: str, seed: int, records: int = RECORDS):
        draw = random.Random(seed)
        self.report = Report(seed, draw.choice((1, 2, STORES, STORES)), records, draw.choice((0.4, 0.5, 0.6)))
        self._url = url
        self._draw = draw
        self._guard = threading.Lock()
        self._instance = f"round-{seed}"
        self._sent: Counter[str] = Counter()
        self._claimed: Counter[tuple[str, int]] = Counter()
        self._acknowledged: set[tuple[str, str]] = set()
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._cutter = Cutter(parts.hostname, parts.port, self._when)

    def _when(self) -> Cut:
        with self._guard:
            self.report.commits += 1
            return self._draw.choice(WAYS) if self._draw.random() < self.report.share else None

    def play(self) -> Report:
        began = time.monotonic()
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(self.report.stores)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(300)
        if any(one.is_alive() for one in threads):
            self.report.found.append("a store hangs")
        self._cutter.close()
        self.report.cuts = self._cutter.cuts
        self.report.settled = len(self._acknowledged)
        self.report.found += self._weigh()
        self.report.seconds = round(time.monotonic() - began, 2)
        return self.report

    def _work(self, number: int) -> None:
        try:
            parts = urlsplit(self._url)
            who = parts.netloc.rpartition("@")[0]
            address = parts._replace(netloc=f"{who}{who and '@'}127.0.0.1:{self._cutter.port}").geturl()
            store = PostgresWorkStore(parse(address), SystemClock(), 300.0)
            self._drive(store, random.Random(f"{self.report.seed} {number}"))
            store.close()
        except BaseException as error:
            self.report.found.append(f"{type(error).__name__}: {error}")

    def _drive(self, store: PostgresWorkStore, draw: random.Random) -> None:
        start = RunStart("cuts", self._instance, "here", "{}", "in.jsonl", STEPS, 3, effects=((FILING, ()),))
        run = store.begin_run(start).run
        if (state := store.take_feed(run)) is not None and not state.complete:
            fed = [SourceRecord(canonical_key(key), "1", key) for key in range(self.report.records)]
            store.begin_pass(run, False, "")
            half = len(fed) // 2
            store.write(run, Batch(blocks=[FeedBlock(fed[:half], [], "half", False, False, state.cursor)]))
            store.write(run, Batch(blocks=[FeedBlock(fed[half:], [], "end", True, False, "half")]))
        idle = 0
        while idle < IDLE:
            wish = ClaimWish(draw.randint(1, 12), 1 << 20, effects=True)
            claimed = store.write(run, Batch(wishes=[wish])).claimed[0]
            idle = 0 if claimed else idle + 1
            if claimed:
                self._file(store, run, claimed)
            elif self._is_done(store, run):
                break
            else:
                time.sleep(0.05)
        store.end_run(run, 0, "done")

    def _is_done(self, store: PostgresWorkStore, run: int) -> bool:
        counts = store.counts(store.instance_of(run))
        return counts.of(State.SUCCEEDED) == self.report.records

    def _file(self, store: PostgresWorkStore, run: int, claimed: list[Claimed]) -> None:
        """Records on their way; what the store has acknowledged is noted only then."""
        with self._guard:
            self._claimed.update((one.key, one.fence) for one in claimed)
        self._state(store, run, [_checked(one) for one in claimed])
        self._note(claimed, "check")
        met = self._state(store, run, [self._intent(one) for one in claimed]).met
        for one in claimed:
            what = met[one.id, one.fence].meeting
            if what != "go":
                self.report.found.append(f"the intent of {one.key} met {what}")
            with self._guard:
                self._sent[one.key] += 1
        self._state(store, run, [self._about(one, EntryState.SENT) for one in claimed])
        self._state(store, run, [self._done(one) for one in claimed])
        self._note(claimed, "send")

    def _state(self, store: PostgresWorkStore, run: int, facts: list[Fact]) -> Any:
        outcome = store.write(run, Batch(facts=facts))
        if outcome.lost:
            self.report.found.append(f"facts about {len(outcome.lost)} records were refused")
        return outcome

    def _note(self, claimed: list[Claimed], step: str) -> None:
        with self._guard:
            self._acknowledged.update((one.key, step) for one in claimed)

    def _key(self, one: Claimed) -> str:
        return f"ow1-{self._instance}-{one.key}"

    def _intent(self, one: Claimed) -> Fact:
        effect = EffectFact(FILING, self._key(one), EntryState.INTENDED, payload='{"fee":50}', payload_hash="h")
        return _fact(one, State.IN_PROGRESS, step="send", started=True, attempts=1, effect=effect)

    def _about(self, one: Claimed, state: EntryState) -> Fact:
        effect = EffectFact(FILING, self._key(one), state, receipt='"r"')
        return _fact(one, State.IN_PROGRESS, step="send", started=True, attempts=1, effect=effect)

    def _done(self, one: Claimed) -> Fact:
        effect = EffectFact(FILING, self._key(one), EntryState.CONFIRMED, receipt='"r"')
        made_by = tuple((step.name, step.version) for step in STEPS)
        return _fact(
            one, State.SUCCEEDED, done_step="send", version="1", checkpoint='"r"', lineage=made_by, effect=effect
        )

    def _weigh(self) -> list[str]:
        """What of that which was acknowledged is not there, or twice."""
        store = looking.connect(self._url)
        mine = "FROM records r JOIN instances i ON i.id = r.instance WHERE i.name = ?"
        rows = store.execute(f"SELECT r.key, r.state, r.fence, r.attempts, r.deaths {mine}", (self._instance,))
        made = store.execute(
            "SELECT r.key, c.step, count(*) FROM checkpoints c JOIN records r ON r.id = c.record "
            "JOIN instances i ON i.id = r.instance WHERE i.name = ? GROUP BY r.key, c.step",
            (self._instance,),
        )
        entries = store.execute(
            f"SELECT e.key, e.state {mine.replace('WHERE', 'JOIN effects e ON e.record = r.id WHERE')}",
            (self._instance,),
        )
        told = store.execute(
            "SELECT h.event, count(*) FROM history h JOIN instances i ON i.id = h.instance "
            "WHERE i.name = ? AND h.event = 'effect_intended' GROUP BY h.event",
            (self._instance,),
        )
        store.close()
        records = self.report.records
        keys = {canonical_key(key) for key in range(records)}
        there = {(key, step) for key, step, _ in made}
        found = []
        if missing := self._acknowledged - there:
            found.append(f"{len(missing)} acknowledged checkpoints are not there: {sorted(missing)[:3]}")
        if len(self._acknowledged) != 2 * records:
            found.append(f"{len(self._acknowledged)} checkpoints were acknowledged, {2 * records} should be")
        found += [f"{key}/{step} is there {number} times" for key, step, number in made if number != 1]
        if {key for key, *_ in rows} != keys or len(rows) != records:
            found.append(f"{len(rows)} records")
        found += [f"{row}: not done once" for row in rows if row[1:] != ("succeeded", 1, 0, 0)]
        if self._claimed != Counter({(key, 1): 1 for key in keys}):
            found.append("some were claimed more than once")
        if self._sent != Counter(dict.fromkeys(keys, 1)):
            found.append(f"some were not sent once: {self._sent.most_common(3)}")
        if sorted(entries) != sorted((f"ow1-{self._instance}-{key}", "confirmed") for key in keys):
            found.append(f"the ledger has {len(entries)} entries, or others")
        if list(told) != [("effect_intended", records)]:
            found.append(f"the history tells of {list(told)} intents")
        return found


def _fact(one: Claimed, state: State, **given: Any) -> Fact:
    return Fact(one.id, one.fence, one.generation, state, deaths=0, solo_deaths=0, failed_runs=0, **given)


def _checked(one: Claimed) -> Fact:
    return _fact(
        one, State.IN_PROGRESS, done_step="check", version="1", checkpoint="1", step="send", started=True, attempts=1
    )


class Campaign:
    """Rounds from `seed` on until so many connections were cut, or the moment `until` has come; one after the other in
    each of several schemas, since jobs with effects take turns within one."""

    def __init__(self, server: str, cuts: int, seed: int, ledger: TextIO | None = None, until: float = float("inf")):
        self._server, self._cuts, self._until, self._ledger = server, cuts, until, ledger
        self._seeds = count(seed)
        self._guard = threading.Lock()
        self.reports: list[Report] = []

    def run(self) -> list[Report]:
        lanes = [threading.Thread(target=self._lane) for _ in range(LANES)]
        for one in lanes:
            one.start()
        for one in lanes:
            one.join()
        return self.reports

    def _lane(self) -> None:
        url = postgres.in_schema(self._server, postgres.new_schema())
        report: Report | None = None
        while sum(one.cuts for one in self.reports) < self._cuts and time.time() < self._until:
            with self._guard:
                seed = next(self._seeds)
            report = Round(url, seed).play()
            with self._guard:
                self.reports.append(report)
                if self._ledger is not None:
                    self._ledger.write(json.dumps(asdict(report)) + "\n")
                    self._ledger.flush()
        if report is not None:
            report.found += looking.contradictions(url)


def summary(reports: list[Report], seconds: float) -> str:
    return (
        f"{sum(one.cuts for one in reports)} cuts at {sum(one.commits for one in reports)} commits in {len(reports)} "
        f"rounds: {sum(one.settled for one in reports)} acknowledged checkpoints, all there once; "
        f"{sum(bool(one.found) for one in reports)} rounds with findings, {seconds:.0f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long, be there fewer cuts")
    options = parser.parse_args()
    began = time.monotonic()
    ledger = options.ledger.open("a") if options.ledger else None
    until = time.time() + options.seconds
    with postgres.database() as server:
        reports = Campaign(server, options.cuts, options.seed, ledger, until).run()
    print(summary(reports, time.monotonic() - began))
    found = [f"seed {one.seed}: {what}" for one in reports for what in one.found]
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
