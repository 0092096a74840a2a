"""`onward key`: the idempotency key of an obligation, to look it up at the far side. No store is needed."""

from __future__ import annotations

from typing import Unpack

from onward.cli import streams
from onward.cli.target import About, find, split
from onward.errors import UsageError


def key(words: list[str] | None, effect: str | None, as_json: bool, **about: Unpack[About]) -> int:
    """The key alone, or with the values that it is made of."""
    word, values = split(words, about["job_name"])
    target = find(word, **about)
    if isinstance(target.job, str):
        raise UsageError("key needs JOB, the file that declares the effect; the store knows only keys that were used")
    from onward.codec import dumps
    from onward.job.key_texts import effect_named, key_from_texts

    chosen = effect_named(target.job, effect)
    made, fields = key_from_texts(target.job, chosen, values)
    streams.answer(dumps({"effect": chosen.effect.name, "key": made, "fields": fields}) if as_json else made)
    return 0
