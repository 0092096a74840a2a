"""Testing a job: it runs in memory, without real waiting, and may be made to crash and resume.

result = onward.testing.run(job, [{"id": "a", "body": "…"}], crash_at="summarise")
assert [one.outputs["route"] for one in result.results] == ["billing"]
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from onward import runner
from onward.errors import UsageError
from onward.job import registry
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import Plan
from onward.job.stand_ins import with_stand_ins
from onward.model import RunResult
from onward.operate.questions import result_of
from onward.ports.desk import ExportWish
from onward.ports.work import Batch

T = TypeVar("T")

__all__ = ["run"]


def run(
    job: Job,
    records: Iterable[Any],
    *,
    params: Any = None,
    effects: Mapping[str, Any] = MappingProxyType({}),
    crash_at: str | int | None = None,
) -> RunResult:
    """Run the job on `records` (plain values, or instances of its record type) instead of its source.

    Back-offs are over as soon as they begin; everything else is as in a real run, but that `process=True` steps run in
    this process. Records are keyed by the fields that the job's source names; without such, texts and integers are
    their own keys, and others have their place in the list.

    `effects`: for each effect, by its name in the ledger, what stands in for the outside world: a function of `payload`
    and `idempotency_key` (those that it asks for) that returns the receipt, or the receipt itself. Probes and
    confirmations are not asked; after a crash a stand-in is called again with the same key.

    `crash_at`: the run is dropped after the first commit that holds an output of this step, or after the commit of
    this number, as if the process had died; then it is resumed and runs to its end. A run with fewer commits ends
    without a crash, so that `for n in range(1, 20)` tries one place after the other.

    A refusal that costs no attempt (429) is tried again at once; after a thousand in a row for one record the run stops
    with exit code 3. A stand-in whose call ends without an answer is called again with the same key at once; after five
    calls in vain its record stays unconfirmed.

    `results` of what is returned has every record in source order, whatever became of it (`state`). Raises UsageError.
    """
    if registry.loading():
        raise registry.StopLoading
    binding = job.bind(params)
    plan = with_stand_ins(job.plan(binding.params), effects)
    given = list(records)
    source = runner.source_of(given, _key(job, binding, given))
    store = runner.open_in_memory(plan.store_inputs, _dies_after(plan, crash_at))
    options = runner.Options(
        source=source, opened=store, in_process=True, handle_signals=False, plan=plan, patient=False
    )

    def to_the_end() -> RunResult:
        try:
            return runner.run(job, binding, options)
        except Exception:
            if not store.dead:
                raise
        store.revive()
        return runner.run(job, binding, options)

    result = _outside_loops(to_the_end)
    rows = store.rows(ExportWish(None, tuple(step.name for step in plan.steps)))
    return replace(result, results=[result_of(row) for row in rows])


def _key(job: Job, binding: Binding, records: list[Any]) -> tuple[str, ...] | str | None:
    """The key of the job's own source, which need not be readable here."""
    key: tuple[str, ...] | None = None
    with contextlib.suppress(UsageError):
        key = getattr(job.open_source(binding.params), "key", None)
    values_are_keys = all(isinstance(record, str | int) for record in records)
    return key if key is not None or values_are_keys else runner.BY_POSITION


def _dies_after(plan: Plan, crash_at: str | int | None) -> Callable[[int, Batch], bool]:
    if isinstance(crash_at, str):
        steps = [step.name for step in plan.steps]
        if crash_at not in steps:
            raise UsageError(f"crash_at={crash_at!r} is no step (steps: {', '.join(steps)}); or give a commit's number")
        return lambda number, batch: any(fact.done_step == crash_at for fact in batch.facts)
    if crash_at is not None and crash_at < 1:
        raise UsageError("crash_at: commits are counted from 1")
    return lambda number, batch: number == crash_at


def _outside_loops(work: Callable[[], T]) -> T:
    """Do the work here, or, where an event loop runs already (an async test), in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    answers: list[T] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=do, name="onward-test")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
