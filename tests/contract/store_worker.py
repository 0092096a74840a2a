"""A process that works on a store: `python store_worker.py STORE LOG ACT`. Every line on its output is told at once.

ACT `work`: claim and finish until nothing is left, a line in LOG for each record that it finished. `hold N`: claim N
records, say "held", and wait to be killed. `begin`: begin a run, say "run instance new others" and wait for its input
to close.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onward.clock import SystemClock
from onward.model import Fact, State
from onward.ports.work import Batch, ClaimWish, RunStart
from onward.store.sqlite.work import SqliteWorkStore


def main(place: str, log: str, act: str) -> None:
    store = SqliteWorkStore(Path(place), SystemClock(), lease=30.0)
    begun = store.begin_run(RunStart("job", "", "host", "{}", "in.jsonl", (), 3))
    if act == "work":
        work(store, begun.run, log)
        store.end_run(begun.run, 0, "done")
    elif act.startswith("hold"):
        held = store.write(begun.run, Batch(wishes=[ClaimWish(int(act.split()[1]), 1 << 20)])).claimed[0]
        print(f"held {len(held)}", flush=True)
        sys.stdin.read()
    else:
        print(begun.run, begun.instance, begun.new_instance, begun.others, flush=True)
        sys.stdin.read()
    store.close()


def work(store: SqliteWorkStore, run: int, log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    while claimed := store.write(run, Batch(wishes=[ClaimWish(7, 1 << 20)])).claimed[0]:
        facts = [
            Fact(one.id, one.fence, one.generation, State.SUCCEEDED, "a", "1", "1", lineage=(("a", "1"),))
            for one in claimed
        ]
        lost = store.write(run, Batch(facts=facts)).lost
        for one in claimed:
            if (one.id, one.fence) not in lost:
                os.write(descriptor, f"{os.getpid()} {one.key}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
