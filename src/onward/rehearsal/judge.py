"""What the scenarios show: a pure function of what was declared and of what their runs left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onward.codec import dumps, loads
from onward.job.place import where
from onward.job.plan import Plan, StepPlan
from onward.rehearsal.report import Finding, Level
from onward.rehearsal.scenarios import Scenario
from onward.rehearsal.survival import first_difference
from onward.rehearsal.trace import Event

Seen = tuple[Scenario, Event]


class Judge:
    """Looks at all scenarios of one job. Each question yields a finding for a step, with one record as an example."""

    def __init__(self, plan: Plan, scenarios: Sequence[Scenario]):
        self._steps = {step.name: step for step in plan.steps}
        self._scenarios = scenarios

    def findings(self) -> Iterator[Finding]:
        yield from self._keys()
        yield from self._sends()
        yield from self._outputs()
        yield from self._payloads()
        yield from self._connections()
        yield from self._changed_in_json()
        yield from self._inputs()
        yield from self._ran_again()

    def _events(self, what: str) -> Iterator[Seen]:
        return ((one, event) for one in self._scenarios for event in one.events if event["what"] == what)

    def _step(self, name: str) -> StepPlan:
        return self._steps[name]

    def _finding(self, kind: str, level: Level, step: str, what: str, advice: str, **more: Any) -> Finding:
        declared = self._step(step)
        effect = declared.effect.name if declared.effect is not None else None
        place = more.pop("place", None) or where(declared.function)
        return Finding(kind, level, what, advice, step, effect, place=place, **more)

    def _keys(self) -> Iterator[Finding]:
        """An obligation has one key, whenever and wherever it is made."""
        keys = _grouped(self._events("intent"), lambda event: (event["step"], dumps(event["key"])))
        for step, unstable in _by_step(keys, lambda seen: len({key for _, one in seen for key in one["keys"]}) > 1):
            fields = _unstable_fields(unstable[0])
            yield self._finding(
                "key is not stable",
                "fault",
                step,
                f"its idempotency key was another one when it was made again from the same record{fields}: a resumed "
                "run may send what was sent, under a key that the far side has never seen",
                "make the key of fields that say what the obligation is, and of none that comes from a time or a "
                "random number, or is made while the record is read",
                record=unstable[0][0][1]["key"],
                times=len(unstable),
            )

    def _sends(self) -> Iterator[Finding]:
        """What has returned is applied: another send of it is a second one."""
        twice: dict[str, list[tuple[Scenario, Event, bool]]] = defaultdict(list)
        for scenario in self._scenarios:
            receipts: dict[str, str] = {}
            for event in scenario.events:
                if event.get("phase") != "send":
                    continue
                key = event["idempotency_key"]
                if event["what"] == "call" and key in receipts and not self._is_keyed(event["step"]):
                    twice[event["step"]].append((scenario, event, False))
                elif event["what"] == "back" and event["came"] == "returned":
                    if self._is_keyed(event["step"]) and receipts.get(key, event["receipt"]) != event["receipt"]:
                        twice[event["step"]].append((scenario, event, True))
                    receipts[key] = event["receipt"]
        for step, seen in twice.items():
            yield self._applied_twice(step, seen)

    def _is_keyed(self, step: str) -> bool:
        effect = self._step(step).effect
        return effect is not None and effect.traits.keyed

    def _applied_twice(self, step: str, seen: list[tuple[Scenario, Event, bool]]) -> Finding:
        scenario, event, keyed = seen[0]
        effect = self._step(step).effect
        assert effect is not None
        level: Level = "fault"
        if keyed:
            what = (
                "the far side answered a second send with the same key with another receipt: it does not dedupe by key"
            )
            advice = (
                "declare it without keyed=True and with a probe; or return only what the far side says of the first"
            )
        elif effect.traits.has_probe:
            what = "its probe said ABSENT of what had been applied, and so it was sent again"
            advice = "ask the far side by the same key, and return ABSENT only where it surely knows; or raise settle="
        else:
            level = "warning"
            what = 'it was applied and then sent again, as on_unknown="resend" says'
            advice = "see that a duplicate is harmless"
        return self._finding(
            "applied twice", level, step, what, advice, record=event["key"], when=scenario.place, times=len(seen)
        )

    def _outputs(self) -> Iterator[Finding]:
        """The same input and the same earlier outputs make the same output."""
        made = _grouped(
            self._events("output"),
            lambda event: (event["step"], dumps(event["key"]), event["input"], event["made_from"]),
        )
        for step, unstable in _by_step(made, _differ):
            calls_out = self._step(step).calls_out
            feeds = self._effects_after(step)
            into = f"; {feeds} depends on it" if feeds and not calls_out else ""
            yield self._finding(
                "not deterministic",
                "warning" if calls_out else "fault",
                step,
                f"it returned something else when it ran again{_where(unstable[0])}{into}",
                "what it returned first stands once it is committed; a death before that makes another"
                if calls_out
                else "make it a function of the record and of earlier outputs alone; declare calls_out=True where it "
                "asks another service",
                record=unstable[0][0][1]["key"],
                times=len(unstable),
            )

    def _effects_after(self, step: str) -> str:
        """Effects that are made of a step's output, be it by way of other steps."""
        reached, found = {step}, []
        for name, declared in self._steps.items():
            parts = [declared.arguments]
            if declared.effect is not None and declared.effect.payload is not None:
                parts.append(declared.effect.payload.arguments)
            if any(one.origin == "step" and one.name in reached for part in parts for one in part):
                reached.add(name)
                found += [name] if declared.effect is not None else []
        return ", ".join(found)

    def _payloads(self) -> Iterator[Finding]:
        """What is sent is a function of the record and of earlier outputs, too."""
        made = _grouped(
            self._events("intent"),
            lambda event: (event["step"], dumps(event["key"]), event["input"], event["made_from"]),
        )
        for step, unstable in _by_step(made, _differ):
            yield self._finding(
                "payload is not stable",
                "fault",
                step,
                f"what it sends was something else when it was built again{_where(unstable[0])}: another record or job "
                "with the same obligation, and a rerun, would meet it as a conflict",
                "build the payload of the record and of earlier outputs alone",
                record=unstable[0][0][1]["key"],
                times=len(unstable),
            )

    def _connections(self) -> Iterator[Finding]:
        seen = _grouped(self._events("connection"), lambda event: (event["step"],))
        for (step,), found in seen.items():
            if self._step(step).calls_out:
                continue
            addresses = sorted({event["address"] for _, event in found})
            line = next((event["line"] for _, event in found if event["line"]), None)
            yield self._finding(
                "a plain step calls out",
                "fault",
                step,
                f"it opened a connection to {', '.join(addresses[:3])}: what it does there is done again whenever the "
                "step runs again",
                "make what changes something an effect (@job.effect); declare calls_out=True where it only asks",
                record=found[0][1]["key"],
                place=_place(self._step(step), line),
                times=len({dumps(event["key"]) for _, event in found}),
            )

    def _changed_in_json(self) -> Iterator[Finding]:
        seen = _grouped(self._events("changed in JSON"), lambda event: (event["step"],))
        for (step,), found in seen.items():
            yield self._finding(
                "does not survive JSON",
                "fault",
                step,
                f"{found[0][1]['how']}: later steps are given that",
                "return what JSON has (lists, text keys), or annotate the return type",
                record=found[0][1]["key"],
                times=len({dumps(event["key"]) for _, event in found}),
            )

    def _inputs(self) -> Iterator[Finding]:
        """Each reading of the source brings the same records."""
        read = _grouped(self._made_of_input(), lambda event: (dumps(event["key"]),))
        changed = [seen for seen in read.values() if len({event["input"] for _, event in seen}) > 1]
        if changed:
            yield Finding(
                "input is not stable",
                "warning",
                "the source gave another value for the same key when it was read again: an unfinished record begins "
                "anew with each run",
                "let the source say what it said before; keep what is made while reading out of the record",
                record=changed[0][0][1]["key"],
                times=len(changed),
            )
        known = {dumps(event["key"]) for event in self._scenarios[0].events if event["what"] == "call"}
        strange = [event["key"] for _, event in self._events("call") if dumps(event["key"]) not in known]
        if strange:
            yield Finding(
                "records are not stable",
                "fault",
                "the source gave other keys when it was read again: a resumed run takes its records for new ones",
                "key records by what identifies them, not by what is made while they are read",
                record=strange[0],
                times=len({dumps(key) for key in strange}),
            )

    def _made_of_input(self) -> Iterator[Seen]:
        yield from self._events("output")
        yield from self._events("intent")

    def _ran_again(self) -> Iterator[Finding]:
        """Onward's own promise."""
        for scenario in self._scenarios:
            done: set[tuple[int, int, str]] = set()
            for event in scenario.events:
                if event["what"] == "commit":
                    done.update((record, generation, step) for record, generation, step in event["done"])
                    continue
                begins = event["what"] == "call" and event["phase"] in ("step", "send")
                if begins and (event["record"], event["generation"], event["step"]) in done:
                    yield self._finding(
                        "ran again after its checkpoint",
                        "fault",
                        event["step"],
                        "it ran again though its checkpoint was committed",
                        "this is a fault of onward: please report it",
                        record=event["key"],
                        when=scenario.place,
                    )


def _grouped(seen: Iterable[Seen], by: Any) -> dict[Any, list[Seen]]:
    groups: dict[Any, list[Seen]] = defaultdict(list)
    for scenario, event in seen:
        groups[by(event)].append((scenario, event))
    return groups


def _by_step(groups: dict[Any, list[Seen]], is_bad: Any) -> Iterator[tuple[str, list[list[Seen]]]]:
    """Steps, each with the groups that are bad; one for each record."""
    bad: dict[str, dict[str, list[Seen]]] = defaultdict(dict)
    for (step, key, *_), seen in groups.items():
        if is_bad(seen):
            bad[step].setdefault(key, seen)
    for step, found in bad.items():
        yield step, list(found.values())


def _differ(seen: list[Seen]) -> bool:
    return len({event["hash"] for _, event in seen}) > 1


def _unstable_fields(seen: list[Seen]) -> str:
    """` (due differs)`: the key's fields that differ."""
    values: dict[str, set[str]] = defaultdict(set)
    for _, event in seen:
        for name, value in event["fields"].items():
            values[name].add(value)
    differ = [name for name, those in values.items() if len(those) > 1]
    return f" ({', '.join(differ)} {'differs' if len(differ) == 1 else 'differ'})" if differ else ""


def _where(seen: list[Seen]) -> str:
    """` (at total.rate)`: where the first two that differ do so."""
    texts = list({event["hash"]: event["text"] for _, event in seen}.values())[:2]
    if len(texts) < 2 or None in texts:
        return ""
    path = first_difference(*map(loads, texts))
    return f" (at {path})" if path else ""


def _place(step: StepPlan, line: int | None) -> str:
    declared = where(step.function)
    return f"{declared.rpartition(':')[0]}:{line}" if line else declared
