"""The kill campaign's job. What it looks like stands in the file that VICTIM_SPEC names (see `Spec`)."""

from __future__ import annotations

import asyncio
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onward
from judge import steplog

STEPS = ("one", "two", "three", "four")
RETRY = onward.Retry(attempts=4, base=0.01, cap=0.02)


@dataclass(frozen=True)
class Spec:
    """`how`: for each step `async`, `sync` or `process`. `waits`: for each step the longest wait in milliseconds.

    `source`: jsonl, jsonl.gz, csv or iterable, read in blocks of `block` records. `log`: where starts are written.
    """

    seed: int
    records: int
    source: str
    how: tuple[str, ...]
    waits: tuple[float, ...]
    concurrency: int
    block: int
    input: str
    log: str

    @property
    def steps(self) -> tuple[str, ...]:
        return STEPS[: len(self.how)]

    def all_keys(self) -> list[Any]:
        """The records' keys, in source order."""
        if self.source == "csv":
            return [f"k{number}" for number in range(self.records)]
        return [number if number % 3 else f"k{number}-ü" for number in range(self.records)]

    def draw(self, key: Any, step: str) -> int:
        """The same number for the same record and step, in every run."""
        return zlib.crc32(f"{self.seed}/{key!r}/{step}".encode())

    def fate(self, key: Any, step: str) -> str:
        """What the step makes of the record: `fine`, `flaky` (fails at first), `rejected`, `bug` or `done`."""
        number = self.draw(key, step) % 1000
        for fate, share in (("flaky", 60), ("rejected", 15), ("bug", 10), ("done", 15)):
            if number < share:
                return fate
            number -= share
        return "fine"

    def failures(self, key: Any, step: str) -> int:
        """How many attempts of a flaky step fail."""
        return 1 + self.draw(key, step) // 1000 % 2

    def end(self, key: Any) -> str:
        """How the record ends: the first fate that is not a success, else `fine`."""
        for step in self.steps:
            fate = self.fate(key, step)
            if fate in ("rejected", "bug", "done"):
                return fate
        return "fine"


def read_spec(path: str | Path) -> Spec:
    fields = json.loads(Path(path).read_text())
    return Spec(**{**fields, "how": tuple(fields["how"]), "waits": tuple(fields["waits"])})


def _rows(spec: Spec) -> Iterator[dict[str, Any]]:
    for key in spec.all_keys():
        yield {"id": key, "text": f"record {key}"}


def _source(spec: Spec) -> Any:
    if spec.source == "iterable":
        return onward.iterable(lambda: _rows(spec), key="id", version="1")
    kind = onward.csv if spec.source == "csv" else onward.jsonl
    return kind(spec.input, key="id")


class _Call:
    """One call of a step: logged, delayed, and failing as its fate says."""

    def __init__(self, step: str, record: Any, context: Any):
        self.step, self.key, self.context = step, record["id"], context
        steplog.log_start(SPEC.log, self.key, step, pid=RUN)
        longest = SPEC.waits[STEPS.index(step)]
        self.wait = longest * (SPEC.draw(self.key, f"{step} wait") % 100) / 100_000

    def end(self, before: Any) -> Any:
        fate = SPEC.fate(self.key, self.step)
        if fate == "flaky" and self.context.attempt <= SPEC.failures(self.key, self.step):
            raise onward.Transient("not yet")
        if fate == "rejected":
            raise onward.Rejected("never")
        if fate == "bug":
            raise ValueError("a mistake in the step")
        if fate == "done":
            raise onward.Done("early")
        steplog.log_end(SPEC.log, self.key, self.step, pid=RUN)
        return {"by": self.step, "key": self.key, "after": before and before["by"], "number": SPEC.draw(self.key, "n")}


async def _async(step: str, record: Any, context: Any, before: Any = None) -> Any:
    call = _Call(step, record, context)
    await asyncio.sleep(call.wait)
    return call.end(before)


def _sync(step: str, record: Any, context: Any, before: Any = None) -> Any:
    call = _Call(step, record, context)
    time.sleep(call.wait)
    return call.end(before)


class _Async:
    @staticmethod
    async def one(record: Any, context: Any) -> Any:
        return await _async("one", record, context)

    @staticmethod
    async def two(record: Any, one: Any, context: Any) -> Any:
        return await _async("two", record, context, one)

    @staticmethod
    async def three(record: Any, two: Any, context: Any) -> Any:
        return await _async("three", record, context, two)

    @staticmethod
    async def four(record: Any, three: Any, context: Any) -> Any:
        return await _async("four", record, context, three)


class _Sync:
    @staticmethod
    def one(record: Any, context: Any) -> Any:
        return _sync("one", record, context)

    @staticmethod
    def two(record: Any, one: Any, context: Any) -> Any:
        return _sync("two", record, context, one)

    @staticmethod
    def three(record: Any, two: Any, context: Any) -> Any:
        return _sync("three", record, context, two)

    @staticmethod
    def four(record: Any, three: Any, context: Any) -> Any:
        return _sync("four", record, context, three)


def _declare(spec: Spec) -> onward.Job:
    job = onward.Job("campaign", source=_source(spec), concurrency=spec.concurrency)
    for step, how in zip(spec.steps, spec.how, strict=True):
        function = getattr(_Async if how == "async" else _Sync, step)
        limit = 2 if how == "process" else None
        job.step(version="1", retry=RETRY, process=how == "process", concurrency=limit, timeout=30)(function)
    return job


def _read_in_small_blocks(size: int) -> None:
    """A few hundred records are fed in many commits, as a few hundred thousand would be."""
    from onward.sources import csv_file, files, iterable, jsonl

    for module, name, value in (
        (jsonl, "MAX_PIECE", size),
        (csv_file, "MAX_PIECE", size),
        (files, "MAX_RECORDS", 2 * size),
        (iterable, "MAX_RECORDS", size),
    ):
        assert hasattr(module, name)
        setattr(module, name, value)


if "VICTIM_SPEC" in os.environ:
    SPEC = read_spec(os.environ["VICTIM_SPEC"])
    _read_in_small_blocks(SPEC.block)
    RUN = int(os.environ.get("VICTIM_RUN", os.getpid()))
    job = _declare(SPEC)
