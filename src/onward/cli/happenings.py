"""Log events as lines for people: those worth a line, and of the frequent ones only the first few."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from onward.cli.words import brief, clock, duration, key_text, records

FIRST = 5
SOON = 10.0
_MORE = {
    "bad_line": "further bad lines are only counted",
    "record_failed": "further failures are only counted",
    "record_waits": "further records that wait are only counted",
    "call_abandoned": "further abandoned calls are only counted",
    "lease_lost": "further lost records are only counted",
}
_SAME = {"record_quarantined": "record_failed"}


class Happenings:
    """Turns events into lines. Events before `listening` is set are told elsewhere: in what a run says first."""

    def __init__(self) -> None:
        self.listening = False
        self._told: Counter[str] = Counter()

    def lines(self, event: str, fields: Mapping[str, Any]) -> list[str]:
        """What to say of an event; often nothing."""
        word = _WORDS.get(event)
        if word is None or not self.listening:
            return []
        said = word(fields)
        family = _SAME.get(event, event)
        if said is None or family not in _MORE:
            return [] if said is None else [said]
        self._told[family] += 1
        if self._told[family] > FIRST:
            return []
        return [said, _MORE[family]] if self._told[family] == FIRST else [said]


def _source_read(fields: Mapping[str, Any]) -> str:
    source = brief(str(fields["source"]))
    parts = [
        (fields["new"], "new"),
        (fields["changed"], "changed, to be done with the new value"),
        (fields["changed_finished"], "changed after they were done (stale)"),
        (fields["changed_kept"], "changed, which waits until an effect of theirs is settled"),
        (fields["returned"], "came back"),
        (fields["vanished"], "vanished"),
        (fields["misfits"], "do not fit the record type (quarantined)"),
        (fields["bad"], "bad"),
    ]
    said = ", ".join(f"{number:,} {what}" for number, what in parts if number)
    if not fields["complete"]:
        return f"reading {source} stopped before its end" + (f": {said}" if said else "")
    return f"{source} was read: {said or 'nothing new'}"


def _ended(verb: str) -> Callable[[Mapping[str, Any]], str]:
    def say(fields: Mapping[str, Any]) -> str:
        kind, reason = fields.get("kind"), fields.get("reason")
        why = kind if reason in (kind, None) else f"{kind}, {reason}"
        return f"{verb}: {key_text(fields['key'])} at {fields['step']}: {fields.get('error_type')} ({why})"

    return say


def _reset(fields: Mapping[str, Any]) -> str | None:
    count = fields.get("count")
    return f"{brief(fields['reason'])}: {records(count)} put back" if count else None


def _with_key(before: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda fields: f"{before} {key_text(fields['key'])}: {brief(str(fields.get('reason') or ''))}"


def _paused(fields: Mapping[str, Any]) -> str | None:
    """What is stopped without calls in progress needs no word: the run's last words have the reason."""
    if "grace" not in fields:
        return f"paused: {brief(fields['reason'])}{_until(fields.get('until'))}"
    if not fields["calls"]:
        return None
    one = fields["calls"] == 1
    if fields["grace"] is None:
        calls = "1 call in progress goes" if one else f"{fields['calls']} calls in progress go"
        return f"stopping ({brief(fields['reason'])}): {calls} on to {'its' if one else 'their'} end"
    calls = "1 call in progress has" if one else f"{fields['calls']} calls in progress have"
    grace = duration(fields["grace"])
    return f"stopping ({brief(fields['reason'])}): {calls} {grace} to end; another signal stops at once"


def _until(moment: float | None) -> str:
    if moment is None:
        return ""
    return f" until {clock(moment)}" if moment > time.time() + SOON else ""


def _batch(fields: Mapping[str, Any]) -> str:
    """`batch batch_abc (4,000 requests to model small)`."""
    return f"batch {brief(str(fields['batch']))} ({fields['requests']:,} requests to model {brief(fields['model'])})"


def _batch_finished(fields: Mapping[str, Any]) -> str:
    again = f"; {fields['again']:,} are asked again" if fields["again"] else ""
    return f"{_batch(fields)} is over: {brief(fields['reason'])}{again}"


_WORDS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "source_read": _source_read,
    "source_changed": lambda fields: f"the input has changed ({brief(fields['reason'])}): it is read again",
    "bad_line": lambda fields: f"bad line {brief(fields['where'])}: {brief(fields['reason'])}",
    "records_reset": _reset,
    "record_failed": _ended("failed"),
    "record_quarantined": _ended("quarantined"),
    "record_waits": _with_key("waits:"),
    "call_abandoned": lambda fields: (
        f"abandoned: the call of {fields['step']} for {key_text(fields['key'])} does not return; the run goes on"
    ),
    "lease_lost": _with_key("lost:"),
    "log_grows": lambda fields: f"warning: {brief(fields['reason'])}",
    "resource_failed": lambda fields: f"warning: {brief(fields['reason'])}",
    "batch_submitted": lambda fields: f"{_batch(fields)} is submitted",
    "batch_found": lambda fields: f"{_batch(fields)} goes on",
    "batch_finished": _batch_finished,
    "run_paused": _paused,
    "concurrency_changed": lambda fields: f"concurrency {fields['reason']}",
    "run_resumed": lambda fields: f"goes on: {brief(fields['reason'])}",
}
