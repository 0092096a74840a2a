"""The sign of life of runs that have ended while calls of theirs go on in this process."""

from __future__ import annotations

import contextlib
import threading

import psycopg

from onward.store.postgres import connection as connections
from onward.store.postgres.address import Address
from onward.store.postgres.transaction import OWN


class Sending:
    """Renews the leases of such runs from a thread, through a connection that is opened for each time: nobody waits for
    it, and where it fails, the lease runs out."""

    def __init__(self, address: Address, lease: float):
        self._address = address
        self._lease = lease
        self._runs: set[int] = set()
        self._guard = threading.Lock()
        self._over: threading.Event | None = None

    def begin(self, run: int) -> None:
        with self._guard:
            self._runs.add(run)
            if self._over is None:
                self._over = threading.Event()
                threading.Thread(target=self._renew, args=(self._over,), name="onward-sending", daemon=True).start()

    def end(self, run: int) -> None:
        """Its calls have ended; may be called from any thread."""
        with self._guard:
            if run not in self._runs:
                return
            self._runs.discard(run)
            if not self._runs and self._over is not None:
                self._over.set()
                self._over = None
        self._tell("sends_ended", run)

    def _renew(self, over: threading.Event) -> None:
        while not over.wait(self._lease / 3):
            with self._guard:
                runs = list(self._runs)
            for run in runs:
                self._tell("renew_sending", run)

    def _tell(self, block: str, run: int) -> None:
        bindings = {"run": run, "lease": self._lease}
        statement = OWN[block]
        with contextlib.suppress(psycopg.Error), connections.connect(self._address) as own:
            own.execute(connections.beginning(own, self._address, "READ COMMITTED", "on").encode())
            own.execute(statement.text, [bindings[name] for name in statement.names])
            own.execute("COMMIT")
