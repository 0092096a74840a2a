"""What an effect's declaration promises, and what it leaves open: judged without calling anything."""

from __future__ import annotations

from collections.abc import Iterator

from onward.job.place import where
from onward.job.plan import EffectPlan, Plan, StepPlan
from onward.rehearsal.report import Finding, Level, RealCall


def real_calls(plan: Plan) -> tuple[RealCall, ...]:
    """The effects that a run calls."""
    return tuple(
        RealCall(step.name, step.effect.name, where(step.function), _parts(step.effect))
        for step in plan.steps
        if step.effect is not None
    )


def _parts(effect: EffectPlan) -> tuple[str, ...]:
    probe = ("probe",) if effect.probe is not None else ()
    confirm = ("confirm",) if effect.confirm is not None else ()
    return ("send", *probe, *confirm)


def nobody_can_tell(step: StepPlan) -> bool:
    """Whether what became of an interrupted call of the effect is left to a person."""
    return step.effect is not None and not step.effect.traits.finds_out


def open_promises(plan: Plan) -> Iterator[Finding]:
    """What could apply an effect twice by its declaration alone."""
    for step in plan.steps:
        if step.effect is not None:
            yield from _of_effect(step, step.effect)


def _of_effect(step: StepPlan, effect: EffectPlan) -> Iterator[Finding]:
    traits = effect.traits

    def finding(kind: str, level: Level, what: str, advice: str) -> Finding:
        return Finding(kind, level, what, advice, step.name, effect.name, place=where(step.function))

    if nobody_can_tell(step):
        yield finding(
            "could be applied twice",
            "fault",
            "it has no probe and is not keyed: after a death in mid-call nobody can tell whether it was applied, each "
            "such record waits for a person, and a wrong guess applies it twice",
            f"declare @{step.name}.probe, which asks the far side by idempotency key; or keyed=True where the far side "
            "answers a key that it knows with the first answer",
        )
    elif not traits.keyed and not traits.has_probe:
        yield finding(
            "could be applied twice",
            "warning",
            'it is sent again whenever its outcome is unknown, as on_unknown="resend" says',
            "keep it so only where a duplicate is harmless; else declare a probe, or keyed=True",
        )
    if traits.keyed and not any(one.origin == "idempotency_key" for one in step.arguments):
        yield finding(
            "key is not sent",
            "warning",
            "it is declared keyed, and its function does not ask for idempotency_key: the far side never sees the key",
            "take idempotency_key and send it along, unless the far side dedupes by what is in the payload",
        )
    if traits.keyed and traits.expires is not None and not traits.has_probe and traits.on_unknown == "hold":
        yield finding(
            "key expires",
            "warning",
            f"the far side forgets a key after {traits.expires:g} s, and there is no probe: what is resumed later "
            "waits for a person",
            f"declare @{step.name}.probe for the time after that",
        )
