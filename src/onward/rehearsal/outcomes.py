"""What became of the records, undisturbed and after a death: whoever succeeds in peace has to succeed after a kill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from onward.codec import dumps
from onward.job.place import where
from onward.job.plan import Plan
from onward.rehearsal.promises import nobody_can_tell
from onward.rehearsal.report import NOTHING, Finding, Level
from onward.rehearsal.scenarios import Scenario
from onward.rehearsal.trace import Event

MOST_MISSED = 0.1
EXPECTED_KINDS = ("invalid", "rejected")


def of_undisturbed(plan: Plan, scenario: Scenario) -> Iterator[Finding]:
    """What the first run shows. One of kind "nothing was rehearsed" means that no other need be made."""
    ended = scenario.ended
    if ended is None:
        yield _broke(plan, scenario)
        return
    if "error" in ended:
        yield _nothing(ended["error"], "see to that; onward run JOB comes upon the same")
        return
    succeeded = ended["counts"].get("succeeded", 0)
    for one, times in _alike(ended["open"]):
        yield _left_open(plan, one, times, "in the undisturbed run", bool(succeeded))
    if ended["code"] not in (0, 1):
        under_way = _under_way(plan, scenario)
        going_on = "" if under_way is None else f"; {under_way['step']} was called and has not returned"
        advice = "see to that first; onward run JOB comes upon the same"
        if under_way is not None:
            advice = (
                "see why the call does not return, or give its step a timeout= (an effect: a deadline=) that ends it"
            )
        yield _nothing(f"the undisturbed run stopped: {ended['reason']}{going_on}", advice, plan, under_way)
    elif not succeeded:
        yield _nothing("no record succeeded in the undisturbed run", _advice(ended["open"]))


def not_called(plan: Plan, scenario: Scenario) -> Iterator[Finding]:
    """Effects that the first run never came to: nothing is shown of them."""
    called = {event["step"] for event in scenario.events if event["what"] == "call" and event["phase"] != "step"}
    for step in plan.steps:
        if step.effect is not None and step.name not in called:
            yield Finding(
                "was not rehearsed",
                "warning",
                "it was never called: none of these records came to it",
                "rehearse more of them (--records), or let the first ones of the source come to it",
                step.name,
                step.effect.name,
                place=where(step.function),
            )


def _broke(plan: Plan, scenario: Scenario) -> Finding:
    """The process of the first run did not come to its end."""
    under_way = _under_way(plan, scenario)
    at = f" in {under_way['step']}" if under_way is not None else ", before any step was called"
    if scenario.hangs:
        what, advice = f"the undisturbed run did not end{at}, and was killed", "see why it goes on for ever"
    else:
        what, advice = f"the undisturbed run's process died{at}: {scenario.broke}", "see what ends the process"
    return _nothing(what, f"{advice}; it was not the rehearsal, which had killed nothing yet", plan, under_way)


def _under_way(plan: Plan, scenario: Scenario) -> Event | None:
    """The call that had begun and has not come back, the newest."""
    begun: dict[tuple[Any, ...], Event] = {}
    for event in scenario.events:
        if event["what"] in ("call", "back"):
            which = event["step"], event["phase"], event["record"]
            begun.pop(which, None)
            if event["what"] == "call":
                begun[which] = event
    return next(reversed(begun.values()), None)


def _advice(left: list[Event]) -> str:
    """What to do where no record succeeds, by what kept them from it."""
    if any(one["kind"] == "transient" and one["state"] == "failed" for one in left):
        return "see that the endpoint is there, and answers, which the job and its params (-p) name"
    if any(one["state"] == "unconfirmed" for one in left):
        return "see that what is sent is answered in time, and that somebody can be asked"
    return "mend that first: a job that fails undisturbed need not be killed to see it"


def _nothing(what: str, advice: str, plan: Plan | None = None, under_way: Event | None = None) -> Finding:
    if plan is None or under_way is None:
        return Finding(NOTHING, "fault", what, advice)
    step = next(step for step in plan.steps if step.name == under_way["step"])
    effect = step.effect.name if step.effect is not None else None
    return Finding(NOTHING, "fault", what, advice, step.name, effect, under_way["key"], where(step.function))


def _left_open(plan: Plan, one: Event, times: int, when: str, others_succeeded: bool) -> Finding:
    step = next((step for step in plan.steps if step.name == one["step"]), None)
    what = (
        f"{one['state']}: {one['error']}" if one["kind"] is None else f"{one['state']} ({one['kind']}): {one['error']}"
    )
    kind, advice = "record failed", "mend what failed: its later steps were not rehearsed"
    level: Level = "fault"
    if one["error_type"] == "OutputError":
        kind, advice = "does not survive JSON", "return plain JSON values, or annotate the return type"
    elif one["state"] == "unconfirmed":
        kind, advice = "stayed unconfirmed", "see that its probe and confirmation are answered, or give a longer --wait"
        if one["error_type"] == "TimeoutError":
            advice = "see why it does not answer within its deadline= (and what it calls, within a time of its own)"
    elif one["kind"] in EXPECTED_KINDS and others_succeeded:
        level, advice = "warning", "its later steps were not rehearsed"
    return Finding(
        kind,
        level,
        what,
        advice,
        one["step"],
        step.effect.name if step is not None and step.effect is not None else None,
        one["key"],
        where(step.function) if step is not None else None,
        when,
        times,
    )


def of_killed(plan: Plan, first: Scenario, scenarios: Sequence[Scenario]) -> Iterator[Finding]:
    """What ended otherwise after a kill than in peace. An effect of which nobody can tell what became of it leaves its
    record to a person, as is to be expected and is told elsewhere."""
    assert first.ended is not None
    left = {step.name for step in plan.steps if nobody_can_tell(step)}
    before = {dumps(one["key"]) for one in first.ended["open"]}
    open_after: dict[Any, list[tuple[Scenario, Event]]] = defaultdict(list)
    stopped: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        if (reason := _stopped(scenario)) is not None:
            stopped[reason].append(scenario)
        for one in scenario.ended["open"] if scenario.ended and "open" in scenario.ended else ():
            expected = one["state"] == "unconfirmed" and one["step"] in left and one["until"] is None
            if dumps(one["key"]) not in before and not expected:
                open_after[one["step"], one["state"], one["kind"], one["error_type"]].append((scenario, one))
    for seen in open_after.values():
        scenario, one = seen[0]
        yield _after_kill(_left_open(plan, one, len(seen), scenario.place, False), one)
    for reason, those in stopped.items():
        yield Finding(
            "resumed run stopped", "fault", f"a run that was resumed did not come to its end: {reason}",
            "see why: the same job came to its end undisturbed", when=those[0].place, times=len(those),
        )  # fmt: skip


def of_missed(scenarios: Sequence[Scenario]) -> Iterator[Finding]:
    """A rehearsal in which many runs were not killed where they should have been has shown little."""
    missed = [one for one in scenarios if not one.killed]
    if len(missed) > len(scenarios) * MOST_MISSED:
        yield Finding(
            "not killed as meant",
            "fault",
            f"{len(missed)} of {len(scenarios)} runs never came to the point at which they were to be killed",
            "see that the job does the same with the same records from run to run",
            when=missed[0].place,
            times=len(missed),
        )


def _after_kill(found: Finding, one: Event) -> Finding:
    advice = "let it bear being called again: it succeeded undisturbed"
    kind = "fails when resumed"
    if one["state"] == "unconfirmed":
        kind = "stayed unconfirmed"
        advice = "see that its probe and confirmation are answered"
        if one["until"] is not None:
            advice = "it is asked about again later than the rehearsal stays; give a longer --wait"
    return Finding(
        kind, "fault", found.what, advice, found.step, found.effect, found.record, found.place, found.when, found.times
    )


def _stopped(scenario: Scenario) -> str | None:
    """Why a scenario did not come to its end; None where it did."""
    if scenario.broke is not None:
        return scenario.broke
    ended = scenario.ended
    if ended is None:
        return "it was not resumed"
    if "error" in ended:
        return str(ended["error"])
    return None if ended["code"] in (0, 1) else str(ended["reason"])


def _alike(records: list[Event]) -> Iterator[tuple[Event, int]]:
    """Those alike in step, state, kind and type of error put together: one of them, and how many they are."""
    alike: dict[Any, list[Event]] = defaultdict(list)
    for one in records:
        alike[one["step"], one["state"], one["kind"], one["error_type"]].append(one)
    for those in alike.values():
        yield those[0], len(those)


def left_to_a_person(plan: Plan, scenarios: Sequence[Scenario]) -> dict[str, int]:
    """By step, in how many scenarios an effect of which nobody can tell what became of it was left to a person."""
    left = {step.name for step in plan.steps if nobody_can_tell(step)}
    found: dict[str, int] = defaultdict(int)
    for scenario in scenarios:
        opened = scenario.ended.get("open", []) if scenario.ended else []
        for step in {one["step"] for one in opened if one["state"] == "unconfirmed"} & left:
            found[step] += 1
    return dict(found)
