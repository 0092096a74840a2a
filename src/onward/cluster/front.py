"""Where the command was given: it passes on what workers say, and signals to them."""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from onward.cluster.crew import Heard
from onward.cluster.hand import Ended
from onward.cluster.messages import Underling
from onward.cluster.order import Order
from onward.engine.signals import heard_signals
from onward.policy.endings import STOPPED_EARLY
from onward.policy.masking import masked

DRIVER = "onward.cluster.ray_driver"
LOOK = 0.2
GOES_WITHIN = 20.0
LAST_WORDS = 2000


class Front:
    """`tell` hears what workers say; `stopping`, once, why all are told to stop; `before_exit` is called before a
    second signal ends this process: its workers then stop by themselves, as soon as they notice."""

    def __init__(
        self,
        tell: Callable[[Heard], None],
        stopping: Callable[[str], None],
        before_exit: Callable[[], None] | None = None,
        driver: str = DRIVER,
    ):
        self._tell, self._stopping, self._before_exit, self._driver = tell, stopping, before_exit, driver
        self._reason: str | None = None
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work(self, order: Order, max_time: float | None = None) -> Ended:
        """Until all workers have ended: how. `max_time` in seconds."""
        ends_at = None if max_time is None else time.monotonic() + max_time
        with tempfile.TemporaryFile() as said, heard_signals(self._signals.put, self._before_exit):
            driver = Underling(self._driver, order.text(), said, subprocess.DEVNULL)
            try:
                ended = self._listen(driver, ends_at, max_time)
            finally:
                driver.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    driver.process.wait(GOES_WITHIN)
            if ended is None:
                ended = Ended(STOPPED_EARLY, f"the cluster is gone, or cannot be reached any more{_last_words(said)}")
        if ended.code == STOPPED_EARLY and self._reason is not None:
            return Ended(STOPPED_EARLY, self._reason, ended.run, ended.finished)
        return ended

    def _listen(self, driver: Underling, ends_at: float | None, max_time: float | None) -> Ended | None:
        heard: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()

        def read() -> None:
            for message in driver.messages():
                heard.put(message)
            heard.put(None)

        threading.Thread(target=read, name="onward-driver", daemon=True).start()
        while True:
            with contextlib.suppress(queue.Empty):
                number = self._signals.get_nowait()
                self._stop(driver, number, signal.Signals(number).name)
            if ends_at is not None and time.monotonic() >= ends_at:
                self._stop(driver, signal.SIGTERM, f"--max-time of {max_time:g} seconds is over")
            try:
                message = heard.get(timeout=LOOK)
            except queue.Empty:
                continue
            if message is None:
                return None
            if message["what"] == "ended":
                return Ended(**message["ended"])
            ended = message.get("ended")
            self._tell(Heard(message["worker"], message.get("look"), None if ended is None else Ended(**ended)))

    def _stop(self, driver: Underling, number: int, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self._stopping(reason)
            driver.stop(number)


def _last_words(said: IO[bytes]) -> str:
    """What the process that speaks with the cluster wrote at last, if anything."""
    end = said.seek(0, 2)
    said.seek(max(end - LAST_WORDS, 0))
    lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {masked(lines[-1])}" if lines else ""
