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
    from_file: str | None,
    all: bool,
    dry_run: bool,
    effect: str | None,
    reason: str | None,
    as_json: bool,
    **about: Unpack[About],
) -> int:
    """Decisions about one record or many, or a question about all that are open."""
    job, keys = split(words, about["job_name"])
    decides = sent is not None or not_sent or from_file is not None
    if keys and not decides:
        raise UsageError("with a KEY say what became of it: --sent RECEIPT or --not-sent; without, all are asked about")
    if all and not decides:
        raise UsageError("--all is for --not-sent; without it, all that is open is asked about")
    if decides and not (keys or all or from_file is not None):
        raise UsageError("--sent and --not-sent are about one record; give its KEY (or, with --not-sent, --all)")
    if sent is not None and not_sent:
        raise UsageError("--sent and --not-sent exclude each other")
    if sent is not None and (all or len(keys) > 1):
        raise UsageError("--sent RECEIPT is about one record; the receipts of several are said with --from FILE")
    if from_file is not None and (keys or all or sent is not None or not_sent):
        raise UsageError("--from says of each record what became of it: give no KEY, --all, --sent or --not-sent")
    if dry_run and not decides:
        raise UsageError("--dry-run is for decisions: asking again decides nothing")
    target = find(job, **about)
    said = {"effect": effect, "reason": reason}
    if all or dry_run or from_file is not None or len(keys) > 1:
        many = {"from_file": from_file, "all": all, "not_sent": not_sent, "dry_run": dry_run}
        return _decide_all(target, keys, sent, as_json, **many, **said)
    if decides:
        return _decide(target, keys[0], sent, as_json, **said)
    return _ask(target, as_json, **said)


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


def _decide_all(target: Target, keys: list[str], sent: str | None, as_json: bool, **said: Any) -> int:
    """The exit code is 2 where some decision could not be made; all others were."""
    from onward import api
    from onward.operate.choices import Typed
    from onward.operate.decisions import Decisions
    from onward.operate.reconciling import receipt_of

    what = {} if sent is None else {"sent": receipt_of(sent, as_json)}
    made = api.reconcile(target.job, *map(Typed, keys), **what, **said, **target.asked)
    assert isinstance(made, Decisions)
    if as_json:
        _json(made.plain())
        return made.exit_code
    for one in made.refused:
        where = f"{one['where']}: " if one["where"] else ""
        streams.answer(brief(f"refused: {where}{one['why']}"))
    streams.answer(brief(str(made)))
    if made.count > made.succeeded and not made.dry_run:
        streams.answer(f"Next: {target.run_command}")
    return made.exit_code


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
    many = target.command("reconcile", "--from", "FILE")
    if found.for_a_person:
        return [
            f"{found.for_a_person:,} wait for a person; which: {target.command('failures', '--state', 'unconfirmed')}",
            f"Next, for each: {target.word_command}",
            *([f"or for many: {many} (or --all --not-sent)"] if found.for_a_person > 1 else []),
        ]
    if found.paused:
        return [f"Next: {target.command('resume')} (or --group NAME), then {target.command('reconcile')}"]
    return [f"Next: {target.run_command}"] if found.records and set(found.counts) != {"succeeded"} else []


def _json(value: Any) -> int:
    from onward.codec import dumps

    streams.answer(dumps(value))
    return 0
