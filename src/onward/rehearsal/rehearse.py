"""The rehearsal of a job, from what it says first to its report."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

from onward.errors import UsageError
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import Plan
from onward.rehearsal import outcomes, promises
from onward.rehearsal.assignment import Assignment
from onward.rehearsal.judge import Judge
from onward.rehearsal.processes import Processes
from onward.rehearsal.report import NOTHING, Announced, Finding, Report
from onward.rehearsal.scenarios import LONGEST_RUN, MOST_KILLS, Scenario, Stage, points_of

PREFIX = "rehearsal"
RANDOM_BYTES = 4


def rehearse(
    job: Job,
    binding: Binding,
    records: int,
    wait: float,
    announce: Callable[[Announced], None],
    progress: Callable[[int, int], None],
) -> Report:
    """See `onward.api.rehearse`. `announce` is called before anything else is; what it raises ends it there."""
    plan = job.plan(binding.params)
    if job.reference.file is None and job.reference.module is None:
        raise UsageError("a rehearsal runs the job in processes of its own, and none can load a notebook; use a file")
    prefix = f"{PREFIX}-{secrets.token_hex(RANDOM_BYTES)}-"
    announced = Announced(job.name, binding.instance, records, prefix, promises.real_calls(plan))
    announce(announced)
    with tempfile.TemporaryDirectory(prefix="onward-rehearsal-", ignore_cleanup_errors=True) as folder:
        assignment = Assignment(
            str(job.reference.file) if job.reference.file else None,
            job.reference.module,
            job.reference.name,
            binding.params_json,
            folder,
            records,
            prefix,
            None,
            wait,
            LONGEST_RUN,
        )
        return asyncio.run(_rehearse(plan, announced, assignment, progress))


async def _rehearse(
    plan: Plan, announced: Announced, assignment: Assignment, progress: Callable[[int, int], None]
) -> Report:
    processes = Processes()
    try:
        return await _play(plan, Stage(processes, assignment, progress), announced)
    finally:
        await processes.close()


async def _play(plan: Plan, stage: Stage, announced: Announced) -> Report:
    began = time.monotonic()
    first = await stage.undisturbed()
    _check(first)
    _check_records(first)
    found = list(outcomes.of_undisturbed(plan, first))
    points = points_of(first.events)
    later: list[Scenario] = []
    if not any(one.kind == NOTHING for one in found):
        later = await stage.killed(points[:MOST_KILLS])
        for scenario in later:
            _check(scenario, only_own_faults=True)
        found += [*outcomes.of_killed(plan, first, later), *outcomes.of_missed(later)]
        found += outcomes.not_called(plan, first)
    found += Judge(plan, [first, *later]).findings()
    found += _with_what_was_seen(plan, list(promises.open_promises(plan)), later)
    return Report(
        announced,
        first.ended["total"] if first.ended is not None else 0,
        first.runs + sum(one.runs for one in later),
        len(points),
        sum(one.killed for one in later),
        sum(not one.killed for one in later),
        len(points) - len(later) if later else 0,
        time.monotonic() - began,
        tuple(sorted(found, key=lambda one: one.level != "fault")),
    )


def _check(scenario: Scenario, only_own_faults: bool = False) -> None:
    """Raises what keeps a job from being run at all, and faults of onward itself."""
    ended = scenario.ended
    if ended is None:
        return
    if "fault" in ended:
        raise RuntimeError(f"a process of the rehearsal failed: {ended['fault']}")
    if only_own_faults:
        return
    if ended["code"] == UsageError.exit_code:
        raise UsageError(ended.get("error") or ended["reason"])


def _check_records(first: Scenario) -> None:
    ended = first.ended
    if ended is not None and ended.get("total") == 0 and ended["code"] in (0, 1):
        raise UsageError("nothing to rehearse: the source has no records; see that it has some, with these params (-p)")


def _with_what_was_seen(plan: Plan, found: list[Finding], scenarios: list[Scenario]) -> list[Finding]:
    """The faults of declarations, each with how often a kill left a record to a person because of it."""
    left = outcomes.left_to_a_person(plan, scenarios)

    def told(one: Finding) -> Finding:
        times = left.get(one.step or "", 0) if one.kind == "could be applied twice" else 0
        if not times:
            return one
        many = "1 kill" if times == 1 else f"{times} kills"
        return replace(one, what=f"{one.what} (here after {many})", times=times)

    return [told(one) for one in found]
