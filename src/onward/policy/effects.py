"""What an effect does next: a pure function of what its declaration promises and of what the ledger knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from onward.model import Entry, EntryState, Meeting
from onward.policy.pace import LONGEST_WAIT

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
SOONEST_BEGIN, LATEST_BEGIN = 0.25, 5.0
UNDECODABLE = "undecodable"  # held back: its effect is open, and what is stored of it no longer decodes
SENDING = "sending"  # held back: its call was not heard to end, and may go on while its run's sign of life is there
OnUnknown = Literal["hold", "resend"]
What = Literal["prepare", "probe", "send", "confirm", "finish", "ask later", "wait for a person"]


@dataclass(frozen=True, slots=True)
class Traits:
    """What a declaration says of the far side. Times in seconds; `expires`: how long it remembers a key."""

    keyed: bool = False
    has_probe: bool = False
    has_confirm: bool = False
    probe_first: bool = True
    deadline: float = 60.0
    settle: float = 30.0
    expires: float | None = None
    confirm_within: float = 86400.0
    on_unknown: OnUnknown = "hold"

    def dedupes(self, entry: Entry, now: float) -> bool:
        """Whether the far side will still know the key of the first send when another one lands that begins now."""
        if not self.keyed or self.expires is None:
            return self.keyed
        return now + self.deadline + self.settle < entry.first_at + self.expires

    @property
    def finds_out(self) -> bool:
        """Whether something can be done about an unknown outcome without a person."""
        return self.has_probe or self.keyed or self.on_unknown == "resend"

    @property
    def probes_first(self) -> bool:
        return self.has_probe and self.probe_first and not self.keyed


@dataclass(frozen=True, slots=True)
class Act:
    """`until` (UTC seconds) belongs to "ask later", `reason` to that and to "wait for a person"."""

    what: What
    until: float = 0.0
    reason: str = ""


_PREPARE, _SEND, _PROBE, _FINISH = Act("prepare"), Act("send"), Act("probe"), Act("finish")


def next_act(traits: Traits, entry: Entry | None, fence: int, now: float) -> Act:
    """What the holder of a record, by `fence`, does about its effect.

    An intent of an earlier holder may have been sent, or may still be: it is as good as unknown, but for the time that
    the call and its landing may take.
    """
    if entry is None or entry.state is EntryState.ABSENT:
        return _PREPARE
    if entry.state is EntryState.CONFIRMED:
        return _FINISH
    if entry.state is EntryState.SENT:
        return _about_receipt(traits, entry, now)
    if entry.state is EntryState.INTENDED and entry.fence == fence:
        return _PROBE if traits.probes_first and not entry.asks else _SEND
    return _about_unknown(traits, entry, now)


def _about_receipt(traits: Traits, entry: Entry, now: float) -> Act:
    if not traits.has_confirm:
        return Act("finish") if entry.origin is None else Act("wait for a person", reason=_to_be_confirmed(entry))
    due = _asked_at(traits, entry, now)
    return Act("confirm") if now >= due else Act("ask later", due, "sent, to be confirmed")


def _to_be_confirmed(entry: Entry) -> str:
    return (
        f"sent by {entry.origin}, and not confirmed there; this job has no .confirm that could say whether it is right"
    )


def _about_unknown(traits: Traits, entry: Entry, now: float) -> Act:
    due = _asked_at(traits, entry, now)
    if traits.dedupes(entry, now):
        return Act("send") if now >= due else Act("ask later", due, "sent again with the same key")
    if traits.has_probe:
        due = max(due, landed_by(traits, entry))
        if traits.keyed and traits.expires is not None:  # until then it may have been sent again with its key
            due = max(
                due, entry.first_at + traits.expires + _ends_within(traits, entry) + settles_within(traits, entry)
            )
        return Act("probe") if now >= due else Act("ask later", due, "it may still land")
    if traits.on_unknown == "resend":
        return Act("send") if now >= due else Act("ask later", due, "sent again, as declared")
    return Act("wait for a person", reason="it is not known whether it was sent, and nobody can be asked")


def _asked_at(traits: Traits, entry: Entry, now: float) -> float:
    """When the entry may be asked about; a clock that was set back must not make that years."""
    longest = max(LONGEST_WAIT, traits.deadline + traits.settle) + 60.0
    return entry.ask_at if entry.ask_at <= now + longest else now


def given_up(traits: Traits, entry: Entry, now: float) -> str | None:
    """Why the question that was in vain just now was the last one; None while it is asked again.

    Whatever time has passed, while nobody was at work too, it is asked once more before a person has to look.
    """
    if now < _confirmed_by(traits, entry):
        return None
    if entry.state is EntryState.SENT:
        return f"sent, and not confirmed within {traits.confirm_within:g} s"
    return f"it is not known whether it was sent, {traits.confirm_within:g} s later"


def _confirmed_by(traits: Traits, entry: Entry) -> float:
    began = entry.sent_at if entry.state is EntryState.SENT and entry.sent_at is not None else entry.intended_at
    return began + traits.confirm_within


def sends_again(entry: Entry, fence: int) -> bool:
    """Whether a send by the holder would not be the first: what it brings says nothing of those before it."""
    return entry.state is not EntryState.INTENDED or entry.fence != fence


def begins_within(deadline: float) -> float:
    """Seconds from an intent in which its send has to begin, else the intent is made anew: who finds the entry later
    knows by when its call had ended, though nobody saw it begin."""
    return min(max(deadline / 2, SOONEST_BEGIN), LATEST_BEGIN)


def time_to_begin(traits: Traits, entry: Entry, now: float) -> float:
    """Seconds that are left for the first send under an intent to begin."""
    return begins_within(traits.deadline) - max(now - entry.intended_at, 0.0)


def landed_by(traits: Traits, entry: Entry) -> float:
    """When a send under the newest intent can no longer land: its call had ended by its deadline, or at the latest when
    its end was seen."""
    ended_by = max(entry.intended_at + _ends_within(traits, entry), entry.ended_at or 0.0)
    return ended_by + settles_within(traits, entry)


def _ends_within(traits: Traits, entry: Entry) -> float:
    """Seconds from an intent to the end of its call: as declared now, or when it was made, whichever is longer."""
    deadline = max(traits.deadline, entry.deadline)
    return begins_within(deadline) + deadline


def settles_within(traits: Traits, entry: Entry) -> float:
    """Seconds from the end of a call until what it sent has landed: as declared now, or when it was sent."""
    return max(traits.settle, entry.settle)


def asked_again_at(traits: Traits, entry: Entry, now: float, at_least: float = 0.0) -> float:
    """When to ask, or send, again after `entry.asks` times in vain: growing pauses, as long as the far side wished;
    the last one ends when the time for a confirmation does."""
    again = now + max(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(entry.asks, 30)), at_least)
    by = _confirmed_by(traits, entry)
    return min(again, by) if by > now else again


def asked_now(traits: Traits, entry: Entry) -> Entry:
    """The entry as it is to be seen where a person asks now: pauses between questions do not count, only the time that
    a send may have taken to end, and what it brought to land."""
    if entry.state is EntryState.SENT:
        return replace(entry, ask_at=0.0)
    longest = _ends_within(traits, entry) + settles_within(traits, entry)
    settled = entry.intended_at + longest + traits.deadline + traits.settle  # calls are given up that much late
    return replace(entry, ask_at=min(entry.ask_at, settled))


def meeting(entry: Entry, record: int, payload_hash: str, in_good_hands: bool, sending: bool = False) -> Meeting:
    """What an intent comes upon that finds its obligation in the ledger already.

    `record` and `payload_hash` are the newcomer's; `in_good_hands`: the record that answers for the entry is still to
    be worked on, by its own run. "go": the intent supersedes what was not applied; "go on": the entry is the
    newcomer's own; "adopt": it becomes so, with what is known of it; "wait": the other's outcome decides, with another
    payload too as long as nothing is known to have been sent. `sending`: its call was given up and may still be
    going on, which only its end can answer.
    """
    if sending:
        return "wait"
    own = entry.record == record
    if entry.state is EntryState.ABSENT:
        return "wait" if in_good_hands and not own else "go"
    under_way = in_good_hands and entry.state is not EntryState.CONFIRMED and not own
    if entry.payload_hash != payload_hash:
        return "wait" if under_way and entry.state is EntryState.INTENDED else "conflict"
    if own:
        return "go on"
    return "wait" if under_way else "adopt"
