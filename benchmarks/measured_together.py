"""One of several runs of a job whose step waits 20 ms: every call is written down as it begins, with its time."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from common import arguments

import onward

WAITING = 0.02


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--log", type=Path, required=True, help="lines of the record's key and the time (s, UTC)")
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    job = onward.Job("together", source=onward.jsonl(str(options.input), key="id"), concurrency=options.concurrency)

    @job.step
    async def wait(record: dict[str, str]) -> int:
        os.write(log, f"{record['id']} {time.time()}\n".encode())
        await asyncio.sleep(WAITING)
        return 1

    result = onward.run(job, store=options.store)
    if result.exit_code != 0:
        raise SystemExit(f"the run ended with exit code {result.exit_code}: {result.reason}")


if __name__ == "__main__":
    main()
