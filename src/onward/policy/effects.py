"""What an effect does next: a pure function of what its declaration promises and of what the ledger knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from onward.model import Entry, EntryState, Meeting

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
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
        """Whether the far side still knows the key of the first send."""
        return self.keyed and (self.expires is None or now < entry.first_at + self.expires)

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


def next_act(traits: Traits, entry: Entry | None, fence: int, now: float) -> Act:
    """What the holder of a record, by `fence`, does about its effect.

    An intent of an earlier holder may have been sent, or may still be: it is as good as unknown, but for the time that
    the call and its landing may take.
    """
    if entry is None or entry.state is EntryState.ABSENT:
        return Act("prepare")
    if entry.state is EntryState.CONFIRMED:
        return Act("finish")
    if entry.state is EntryState.SENT:
        return _about_receipt(traits, entry, now)
    if entry.state is EntryState.INTENDED and entry.fence == fence:
        return Act("probe") if traits.probes_first and not entry.asks else Act("send")
    return _about_unknown(traits, entry, now)


def _about_receipt(traits: Traits, entry: Entry, now: float) -> Act:
    if not traits.has_confirm:
        return Act("finish")
    if now >= (entry.sent_at or entry.intended_at) + traits.confirm_within:
        return Act("wait for a person", reason=f"sent, and not confirmed within {traits.confirm_within:g} s")
    if now < entry.ask_at:
        return Act("ask later", entry.ask_at, "sent, to be confirmed")
    return Act("confirm")


def _about_unknown(traits: Traits, entry: Entry, now: float) -> Act:
    if now >= entry.intended_at + traits.confirm_within:
        return Act(
            "wait for a person", reason=f"it is not known whether it was sent, {traits.confirm_within:g} s later"
        )
    if traits.dedupes(entry, now):
        again = entry.ask_at
        return Act("send") if now >= again else Act("ask later", again, "sent again with the same key")
    if traits.has_probe:
        due = max(entry.ask_at, landed_by(traits, entry))
        return Act("probe") if now >= due else Act("ask later", due, "it may still land")
    if traits.on_unknown == "resend":
        return Act("send") if now >= entry.ask_at else Act("ask later", entry.ask_at, "sent again, as declared")
    return Act("wait for a person", reason="it is not known whether it was sent, and nobody can be asked")


def landed_by(traits: Traits, entry: Entry) -> float:
    """When a send under the newest intent can no longer land, if its call has ended by its deadline."""
    return entry.intended_at + traits.deadline + traits.settle


def asked_again_at(asks: int, now: float, at_least: float = 0.0) -> float:
    """When to ask after `asks` questions without an answer: growing pauses, no shorter than the far side wished."""
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(asks, 30))
    return now + max(pause, at_least)


def asked_now(traits: Traits, entry: Entry) -> Entry:
    """The entry as it is to be seen where a person asks now: pauses between questions do not count, only the time that
    a send may have taken to end, and what it brought to land."""
    if entry.state is EntryState.SENT:
        return replace(entry, ask_at=0.0)
    settled = entry.intended_at + 2 * (traits.deadline + traits.settle)  # calls are given up a deadline + settle late
    return replace(entry, ask_at=min(entry.ask_at, settled))


def meeting(entry: Entry, record: int, payload_hash: str, in_good_hands: bool) -> Meeting:
    """What an intent comes upon that finds its obligation in the ledger already.

    `record` and `payload_hash` are the newcomer's; `in_good_hands`: the record that answers for the entry is still to
    be worked on, by its own run. "go": the intent supersedes what was not applied; "go on": the entry is the
    newcomer's own; "adopt": it becomes so, with what is known of it.
    """
    own = entry.record == record
    if entry.state is EntryState.ABSENT:
        return "wait" if in_good_hands and not own else "go"
    if entry.payload_hash != payload_hash:
        return "conflict"
    if own:
        return "go on"
    if in_good_hands and entry.state is not EntryState.CONFIRMED:
        return "wait"
    return "adopt"
