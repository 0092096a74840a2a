"""Settings of the interpreter for the time of a run; they concern speed alone and are put back at its end."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

SWITCH_INTERVAL = 0.0005
COLLECT_AFTER = 10_000


@contextlib.contextmanager
def tuned_interpreter() -> Iterator[None]:
    """Threads take turns more often, and the cycle collector looks at less.

    The journal must not wait five milliseconds for the event loop's thread. Thousands of records are under way at a
    time and few of their objects form cycles: what was loaded before the run is not looked through again and again,
    and young objects not after every few hundred of them.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.freeze()
    if 0 < thresholds[0] < COLLECT_AFTER:  # 0: whoever runs the job has switched it off
        gc.set_threshold(COLLECT_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        sys.setswitchinterval(interval)
