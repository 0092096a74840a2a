"""The real clock."""

from __future__ import annotations

import contextlib
import time
import uuid
from functools import cached_property
from pathlib import Path


class SystemClock:
    """`ports.clock.Clock` on this host: wall time for what is shown, boot time (which counts sleep) for leases."""

    def now(self) -> float:
        return time.time()

    def steady(self) -> float:
        return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()

    @cached_property
    def boot(self) -> str:
        with contextlib.suppress(OSError):
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # Elsewhere the moment of boot identifies it; it drifts with the wall clock, so it is taken to the minute.
        return f"{uuid.getnode():x}-{round((time.time() - self.steady()) / 60)}"


_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
