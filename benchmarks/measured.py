"""The measured side: no-op async steps, or a no-op effect, over JSONL records of 200 bytes."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from common import arguments, peak_memory_mb, report

import onward

CONCURRENCY = 32
POLL_SECONDS = 0.05
LONG = 24 * 3600.0
called: list[float] = []


async def first(record: dict[str, str]) -> int:
    if not called:
        called.append(time.time())
    return 1


async def second(record: dict[str, str]) -> int:
    return 1


async def third(record: dict[str, str]) -> int:
    return 1


def no_op_job(source: str, steps: int, effect: bool) -> onward.Job:
    job = onward.Job("no-op", source=onward.jsonl(source, key="id"), concurrency=CONCURRENCY)
    if effect:
        job.effect("no-op", key="id", keyed=True)(first)
        return job
    for step in (first, second, third)[:steps]:
        job.step(step)
    return job


def run(options: Any) -> None:
    """Run at most `--records` records and tell how fast, and when the first step was called."""
    job = no_op_job(str(options.input), options.steps, options.effect)
    make_run = onward.run  # loads what a run needs: the references' modules are loaded before their time begins, too
    started = time.perf_counter()
    result = make_run(job, store=options.store, limit=options.records)
    seconds = time.perf_counter() - started
    if result.exit_code != 0:
        raise SystemExit(f"the run ended with exit code {result.exit_code}: {result.reason}")
    report(
        rate=options.records / seconds,
        first_call=called[0],
        succeeded=result.counts["succeeded"],
        memory_mb=peak_memory_mb(),
        variant="",
    )


def feed(options: Any) -> None:
    """Hold the first steps until the whole input is in the store, then leave without waiting for them."""
    job = onward.Job("feed", source=onward.jsonl(str(options.input), key="id"), concurrency=CONCURRENCY)
    started = time.perf_counter()

    @job.step(timeout=LONG)
    async def hold(record: dict[str, str]) -> None:
        if called:
            await asyncio.sleep(LONG)
        called.append(time.time())
        while not (await asyncio.to_thread(onward.status, job, store=options.store))["source_complete"]:
            await asyncio.sleep(POLL_SECONDS)
        report(rate=options.records / (time.perf_counter() - started), memory_mb=peak_memory_mb(), variant="")
        os._exit(0)

    onward.run(job, store=options.store)
    raise SystemExit("the feeding run ended by itself")


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--feed", action="store_true", help="measure feeding alone")
    parser.add_argument("--effect", action="store_true", help="the only step is an effect")
    options = parser.parse_args()
    (feed if options.feed else run)(options)


if __name__ == "__main__":
    main()
