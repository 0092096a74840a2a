"""`onward reconcile`: effects whose outcome is open are asked about again, or decided about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from onward.cli import streams
from onward.cli.target import About, Target, find, split
from onward.cli.words import brief
from onward.errors import UsageError

if TYPE_CHECKING:
    from onward.operate.reconciling import Reconciled


def reconcile(
    words: list[str] | None,
    sent: str | None,
    not_sent: bool,
    effect: str | None,
    reason: str | None,
    as_json: bool,
    **about: Unpack[About],
) -> int:
    """A decision about one record, or a question about all that are open."""
    job, keys = split(words, about["job_name"])
    if len(keys) > 1:
        raise UsageError(f"reconcile takes one key, not {len(keys)}; a key of several fields is JSON")
    decides = sent is not None or not_sent
    if keys and not decides:
        raise UsageError("with a KEY say what became of it: --sent RECEIPT or --not-sent; without, all are asked about")
    if decides and not keys:
        raise UsageError("--sent and --not-sent are about one record; give its KEY")
    if sent is not None and not_sent:
        raise UsageError("--sent and --not-sent exclude each other")
    target = find(job, **about)
    if decides:
        return _decide(target, keys[0], sent, as_json, effect=effect, reason=reason)
    return _ask(target, as_json, effect=effect, reason=reason)


def _decide(target: Target, key: str, sent: str | None, as_json: bool, **said: Any) -> int:
    from onward import api
    from onward.operate.choices import Typed
    from onward.operate.reconciling import Decision, receipt_of

    what = {"not_sent": True} if sent is None else {"sent": receipt_of(sent, as_json)}
    decision = api.reconcile(target.job, Typed(key), **what, **said, **target.asked)
    assert isinstance(decision, Decision)
    if as_json:
        return _json(decision.plain())
    streams.answer(brief(str(decision)))
    if decision.state != "succeeded":
        streams.answer(f"Next: {target.run_command}")
    return 0


def _ask(target: Target, as_json: bool, **said: Any) -> int:
    """The exit code is 0 unless the run that asks was stopped early."""
    from onward import api
    from onward.operate.reconciling import Reconciled

    with streams.kept_clean():  # what the job prints is no part of the answer
        found = api.reconcile(target.job, **said, **target.asked)
    assert isinstance(found, Reconciled)
    code = found.exit_code if found.exit_code is not None and found.exit_code > 1 else 0
    if as_json:
        _json(found.plain())
        return code
    from onward.cli import tables

    if found.records:
        tables.show(tables.reconciled(found.plain()))
    if code:
        streams.err(f"onward: {brief(found.reason or 'stopped')}")
    streams.answer(brief(str(found)))
    for line in _next(found, target):
        streams.answer(line)
    return code


def _next(found: Reconciled, target: Target) -> list[str]:
    say = target.command("reconcile", "KEY", "--not-sent").replace("--not-sent", "--sent RECEIPT (or --not-sent)")
    if found.for_a_person:
        return [
            f"{found.for_a_person:,} wait for a person; which: {target.command('failures', '--state', 'unconfirmed')}",
            f"Next, for each: {say}",
        ]
    return [f"Next: {target.run_command}"] if found.records and set(found.counts) != {"succeeded"} else []


def _json(value: Any) -> int:
    from onward.codec import dumps

    streams.answer(dumps(value))
    return 0
