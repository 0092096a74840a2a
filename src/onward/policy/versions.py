"""Which finished results today's steps would make anew, and from which step on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onward.model import ResultGroup


@dataclass(slots=True)
class ResultVersions:
    """An instance's finished records by the versions that made them."""

    groups: list[ResultGroup] = field(default_factory=list)

    def stale(self, today: Mapping[str, str]) -> int:
        """Finished records that today's steps or input would make anew. `today`: step versions in step order."""
        return sum(
            group.count + group.changed if is_stale(group.made_by, group.skipped, today) else group.changed
            for group in self.groups
        )

    def older(self, today: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """For each of today's steps, how many results come from which other version."""
        found: dict[str, Counter[str]] = {}
        for group in self.groups:
            number = group.count + group.changed
            for step, version in group.made_by.items():
                if today.get(step, version) != version and number:
                    found.setdefault(step, Counter())[version] += number
        return {step: dict(versions) for step, versions in found.items()}

    def lacking(self, today: Mapping[str, str]) -> dict[str, int]:
        """For each of today's steps, how many results were made without it."""
        found: Counter[str] = Counter()
        for group in self.groups:
            steps = list(today)
            due = before(group.skipped, steps) if group.skipped in today and group.skipped else steps
            found.update({step: group.count + group.changed for step in due if step not in group.made_by})
        return dict(found)

    def removed(self, today: Mapping[str, str]) -> dict[str, int]:
        """For each step that is no longer one, how many results it took part in."""
        found: Counter[str] = Counter()
        for group in self.groups:
            found.update({step: group.count + group.changed for step in group.made_by if step not in today})
        return dict(found)

    def sent(self, today: Mapping[str, str], effects: Mapping[str, str]) -> dict[str, int]:
        """For each effect (their names by step), how many stale results making them anew would come upon it sent."""
        found: Counter[str] = Counter()
        for group in self.groups if effects else ():
            found.update(dict.fromkeys(sent_before(group.made_by, today, next(iter(today)), effects), group.changed))
            if (first := first_stale(group.made_by, group.skipped, today)) is not None:
                found.update(dict.fromkeys(sent_before(group.made_by, today, first, effects), group.count))
        return dict(+found)

    @property
    def changed(self) -> int:
        """Results whose record has another input now."""
        return sum(group.changed for group in self.groups)


def first_stale(made_by: Mapping[str, str], skipped: str | None, today: Mapping[str, str]) -> str | None:
    """The first of today's steps whose output differs from what it would make: another version, or none at all.

    Steps behind the one that ended the record early (`skipped`) were never due.
    """
    for step, version in today.items():
        if made_by.get(step) != version:
            return step
        if step == skipped:
            return None
    return None


def is_stale(made_by: Mapping[str, str], skipped: str | None, today: Mapping[str, str]) -> bool:
    return first_stale(made_by, skipped, today) is not None


def passed_over(made_by: Mapping[str, str], today: Mapping[str, str]) -> list[str]:
    """Today's steps that have made nothing, before ones that have: they are yet to run, what later ones made stands."""
    steps = list(today)
    last = max((place for place, step in enumerate(steps) if step in made_by), default=0)
    return [step for step in steps[:last] if step not in made_by]


def rerun_from(
    made_by: Mapping[str, str], skipped: str | None, today: Mapping[str, str], input_changed: bool, chosen: str | None
) -> str:
    """The step at which a new generation begins: the chosen one, else the first stale one, else the first.

    An input that changed makes all anew, whatever was chosen: the outputs belong to the old one.
    """
    first = next(iter(today))
    if input_changed:
        return first
    return chosen or first_stale(made_by, skipped, today) or first


def changed_parts(older: Sequence[Mapping[str, str]], now: Mapping[str, str]) -> list[str]:
    """What differs between versions and today's, of code, model and prompt; nothing where it is not known of all."""
    if not now or not all(older):
        return []
    return sorted({part for one in older for part in {*one, *now} if one.get(part) != now.get(part)})


def redone(groups: Sequence[ResultGroup], today: Mapping[str, str]) -> dict[str, int]:
    """By step, how many stale results would have it made anew, each from its first stale step on."""
    steps = list(today)
    found = dict.fromkeys(steps, 0)
    for group in groups:
        first = first_stale(group.made_by, group.skipped, today)
        again = [] if first is None else steps[steps.index(first) :]
        for step in steps:
            found[step] += group.changed + (group.count if step in again else 0)
    return found


def sent_before(
    made_by: Mapping[str, str], today: Mapping[str, str], first: str, effects: Mapping[str, str]
) -> list[str]:
    """The effects (their names by step) that have sent something for a result and that making it anew comes upon."""
    kept = before(first, list(today))
    return [name for step, name in effects.items() if step in made_by and step not in kept]


def before(step: str, steps: Sequence[str]) -> list[str]:
    """The steps before `step`, whose outputs a new generation takes over."""
    return list(steps[: steps.index(step)]) if step in steps else []
