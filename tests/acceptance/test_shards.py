"""Many compressed shards by one pattern: killed, resumed, and joined by a new shard later."""

from __future__ import annotations

import gzip
import json
import signal
from pathlib import Path

from acceptance.jobs import Place, wait_until

SHARDS, EACH = 12, 500

JOB = """
job = onward.Job("case", source=onward.jsonl("shards/**/*.jsonl.gz", key=("shard", "number")), concurrency=16)

@job.step
async def keep(record):
    started([record["shard"], record["number"]], "keep")
    return record["number"]
"""


def write_shard(folder: Path, shard: int) -> None:
    rows = [json.dumps({"shard": shard, "number": number}) for number in range(EACH)]
    path = folder / "shards" / f"{shard % 3}" / f"part-{shard:02}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))


def test_shards(tmp_path: Path) -> None:
    for shard in range(SHARDS):
        write_shard(tmp_path, shard)
    place = Place(tmp_path, JOB)
    run = place.start("run", "job.py")
    wait_until(lambda: len(place.calls()) > SHARDS * EACH // 3)
    run.send_signal(signal.SIGKILL)
    run.wait()
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": SHARDS * EACH})
    keys = [tuple(row["key"]) for row in place.export()]
    by_path = sorted(range(SHARDS), key=lambda shard: (shard % 3, shard))
    assert keys == [(shard, number) for shard in by_path for number in range(EACH)]
    calls = len(place.calls())
    assert calls <= SHARDS * EACH + 1_000 + 16, "at most what was in progress or waited for its commit is made anew"

    write_shard(tmp_path, SHARDS + 2)  # the last in order: the others are not read again
    more = place.run()
    assert (more.code, more.counts) == (0, {"succeeded": (SHARDS + 1) * EACH})
    assert f"{EACH} new" in more.said
    assert len(place.calls()) == calls + EACH
    write_shard(tmp_path, SHARDS)  # this one comes before others that were read: all are matched by key
    again = place.run()
    assert (again.code, again.counts) == (0, {"succeeded": (SHARDS + 2) * EACH})
    assert "is new and comes before" in again.said
    assert len(place.calls()) == calls + 2 * EACH
