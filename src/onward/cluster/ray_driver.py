"""The process that speaks with Ray: `python -m onward.cluster.ray_driver FD`.

It is one of its own because Ray takes over signals, prints, and ends its process when its cluster goes away.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
from typing import Any

from onward.cluster.crew import Crew, Heard
from onward.cluster.hand import Ended
from onward.cluster.messages import Orders, Reports
from onward.cluster.order import Order
from onward.policy.endings import NOT_STARTED
from onward.policy.masking import masked

STAYS = (".git/", ".onward/", ".venv/", "venv/", "node_modules/", "__pycache__/", ".env")
"""What does not travel: other than that, all that .gitignore does not name."""
DIES_AFTER = 120.0
REACHED_WITHIN = 15.0


class _Told:
    """The first signal that this process was told to stop its workers by."""

    number: int | None = None

    def stop(self, number: int) -> None:
        self.number = self.number or number

    def look(self) -> int | None:
        return self.number


def main() -> None:
    reports, orders = Reports(int(sys.argv[1])), Orders()
    order = Order.parse(orders.first())
    told = _Told()
    orders.listen(told.stop, order.grace + DIES_AFTER)

    def tell(heard: Heard) -> None:
        ended = None if heard.ended is None else heard.ended.plain()
        reports.say("heard", worker=heard.worker, look=heard.look, ended=ended)

    ended = _work(order, tell, told)
    reports.say("ended", ended=ended.plain())
    reports.close()


def _work(order: Order, tell: Any, told: _Told) -> Ended:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # onward sends nothing home, and starts nothing that does
    import ray

    from onward.cluster.ray_worker import RayCluster

    try:
        _look_for(order.address or os.environ.get("RAY_ADDRESS"))
        _connect(ray, order)
    except Exception as error:  # Ray has classes of its own, which say best what it lacks
        return Ended(NOT_STARTED, f"no Ray cluster can be used: {masked(_in_brief(error))}")
    for number in (signal.SIGINT, signal.SIGTERM):  # it is told by its orders; Ray has set handlers of its own
        signal.signal(number, lambda number, frame: told.stop(number))
    try:
        cluster = RayCluster(ray, order.workers, order.needs, order.assignment)
        return Crew(cluster, order.workers, order.grace, tell, told.look).work()
    finally:
        with contextlib.suppress(Exception):
            ray.shutdown()


def _look_for(address: str | None) -> None:
    """Ray tries for minutes to reach a host that is not there. Raises OSError."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACHED_WITHIN).close()
        except OSError as error:
            raise OSError(f"nothing answers at {host}:{port}: {error.strerror or error}") from None


def _connect(ray: Any, order: Order) -> None:
    travels: dict[str, Any] = {}
    if order.folder is not None:
        travels = {"working_dir": order.folder, "excludes": list(STAYS)}
    ray.init(address=order.address, runtime_env=travels, log_to_driver=False, logging_level=logging.ERROR)


def _in_brief(error: BaseException) -> str:
    """The line that says most: the first, or the last of a trace from elsewhere."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return f"{lines[0]} {lines[-1]}" if len(lines) > 1 and lines[0].endswith(":") else lines[0]


if __name__ == "__main__":
    main()
