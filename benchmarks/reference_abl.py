"""Reference: async-batch-llm with its own OpenAI model; an answer is on the disk before it is given out.

Its two settings that reach the disk (JSON lines with fsync, SQLite with synchronous=FULL) are tried briefly, each with
the SDK's own HTTP client and with aiohttp.
"""

from __future__ import annotations

import asyncio
import logging
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import openai
from async_batch_llm import (
    ArtifactIdentity,
    JsonlArtifactStore,
    ProcessorConfig,
    ResumePolicy,
    SqliteArtifactStore,
    llm,
    process_stream,
)
from async_batch_llm.sqlite_artifacts import SqliteDurability
from common import child, remove_store, report
from llm_common import MODEL, arguments, base_url, prompts

TRIAL = 1_000
IDENTITY = ArtifactIdentity(provider="local", model=MODEL, prompt_version="1")
VARIANTS = ("sqlite", "jsonl", "sqlite_aiohttp", "jsonl_aiohttp")


def artifacts(variant: str, path: Path) -> Any:
    if variant.startswith("jsonl"):
        return JsonlArtifactStore(path, identity=IDENTITY, fsync=True)
    return SqliteArtifactStore(path, identity=IDENTITY, durability=SqliteDurability.FULL)


def strategy(variant: str, concurrency: int) -> Any:
    if variant.endswith("aiohttp"):
        client = openai.DefaultAioHttpClient(timeout=120.0)
        return llm(f"openai:{MODEL}", base_url=base_url(), http_client=client)
    return llm(f"openai:{MODEL}", base_url=base_url(), max_connections=concurrency)


async def answered(variant: str, path: Path, questions: list[tuple[str, str]], concurrency: int) -> int:
    config = ProcessorConfig(concurrency=concurrency)
    found = 0
    async for result in process_stream(
        strategy(variant, concurrency),
        questions,
        config=config,
        artifact_store=artifacts(variant, path),
        resume=ResumePolicy.REUSE_SUCCESSES,
    ):
        found += bool(result.success and result.output)
    return found


def rate(variant: str, options: Any) -> float:
    questions = prompts(options.input, options.records)
    started = time.perf_counter()
    found = asyncio.run(answered(variant, options.store, questions, options.concurrency))
    seconds = time.perf_counter() - started
    remove_store(options.store)
    if found != len(questions):
        raise SystemExit(f"{found} of {len(questions)} were answered")
    return len(questions) / seconds


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--variant", choices=VARIANTS, help="default: try all first")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    trials = {}
    if options.variant is None:
        words = ("--records", min(TRIAL, options.records), "--input", options.input, "--store", options.store)
        trials = {name: child("reference_abl.py", *words, "--variant", name)["rate"] for name in VARIANTS}
    best = options.variant or max(trials, key=lambda name: trials[name])
    name = f"async-batch-llm {version('async-batch-llm')}, {best}"
    report(rate=rate(best, options), choice=best, variant=name, trials=trials)


if __name__ == "__main__":
    main()
