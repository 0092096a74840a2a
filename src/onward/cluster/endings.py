"""How a job ended that several workers were at: one exit code of theirs."""

from __future__ import annotations

from collections.abc import Sequence

from onward.cluster.hand import Ended
from onward.policy.endings import NEEDS_A_PERSON, NOT_STARTED, OK, ONWARD_FAULT, SOME_FAILED, STOPPED_EARLY

FINISHED = (OK, SOME_FAILED)
ENDS_ALL = (NEEDS_A_PERSON, ONWARD_FAULT)
"""What one worker ended with that has the others stop, too."""
_ORDER = (ONWARD_FAULT, OK, NEEDS_A_PERSON, SOME_FAILED, STOPPED_EARLY, NOT_STARTED)


def joint(ends: Sequence[Ended]) -> Ended:
    """The end that is that of all; `ends` are in the order of time.

    A run ends with 0 or 1 only where nothing is left to work on, whoever had it: then it does not matter that others
    were stopped, or could not begin. 0 says that every record has succeeded, so that nobody has to act either.
    """
    for code in _ORDER:
        for ended in reversed(ends):
            if ended.code == code:
                return ended
    return ends[-1] if ends else Ended(STOPPED_EARLY, "no worker has begun")
