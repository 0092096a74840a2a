"""Waits of records for their next attempt: wall time, which may be set back under them."""

from __future__ import annotations

from onward.store.sql.change import Change

SLACK = 1.0


def mend(change: Change) -> None:
    """Where the wait that ends first began in the future, the clock was set back: such waits begin now, and last as
    long as they were meant to."""
    began = [change.one("first_wait_began")]
    if gates := change.array("gates_waited_at", hold=None):
        began += [since for (since,) in change.rows("first_waits_began_at_gates", gates)]
    if max((since for since in began if since is not None), default=0.0) > change.now + SLACK:
        change.execute("mend_waits")
