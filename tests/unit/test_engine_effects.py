"""Effects in whole runs: what is durable before the first byte leaves, and what a run stays for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onward
from onward import api


def rows(number: int) -> Any:
    return onward.iterable(lambda: [{"id": n} for n in range(number)], key="id", version="1")


def test_a_run_stays_for_what_an_outage_has_left_unconfirmed(tmp_path: Path) -> None:
    """Nothing but those few is left, and they wait at a gate that is shut for a moment."""
    sends: Counter[str] = Counter()
    job = onward.Job("filings", source=rows(6))

    @job.effect("report", key="id", keyed=True)
    async def submit(payload: Any, idempotency_key: str) -> str:
        sends[idempotency_key] += 1
        if sends[idempotency_key] == 1:
            raise ConnectionResetError(104, "reset")
        return idempotency_key

    result = onward.run(job, store=str(tmp_path / "store.db"))
    assert (result.exit_code, result.counts["succeeded"]) == (0, 6)
    assert set(sends.values()) == {2}


def test_a_paused_job_is_stayed_for_as_long_as_told_and_no_longer(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    sends: Counter[str] = Counter()
    job = onward.Job("filings", source=rows(2))

    @job.effect("report", key="id", keyed=True)
    async def submit(payload: Any, idempotency_key: str) -> str:
        sends[idempotency_key] += 1
        if sends[idempotency_key] == 1:
            raise ConnectionResetError(104, "reset")
        return idempotency_key

    assert onward.run(job, store=store, wait=0).counts["unconfirmed"] == 2
    api.pause(job, store=store)
    assert onward.run(job, store=store, wait=0.2).counts["unconfirmed"] == 2
    assert set(sends.values()) == {1}
    api.resume(job, store=store)
    assert onward.run(job, store=store).exit_code == 0
    assert set(sends.values()) == {2}
