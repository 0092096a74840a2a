"""Reference: bespokelabs-curator with its OpenAI backend. It appends each answer to a file, without fsync."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(TELEMETRY_ENABLED="false", CURATOR_DISABLE_RICH_DISPLAY="1", HF_HUB_OFFLINE="1")


def encodings() -> str:
    """The folder in which litellm, which it needs, ships the encoding that it would otherwise download."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        raise SystemExit("litellm is not installed")
    return str(Path(spec.origin).parent / "litellm_core_utils" / "tokenizers")


os.environ["TIKTOKEN_CACHE_DIR"] = encodings()

from bespokelabs import curator  # noqa: E402
from common import report  # noqa: E402
from llm_common import MODEL, arguments, base_url, prompts  # noqa: E402

NO_LIMIT = 100_000_000


class Wanted(curator.LLM):
    def prompt(self, input: dict[str, str]) -> str:
        return input["question"]

    def parse(self, input: dict[str, str], response: str) -> dict[str, Any]:
        return {"key": input["key"], "answer": response}


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    questions = [{"key": key, "question": question} for key, question in prompts(options.input, options.records)]
    backend = {
        "base_url": base_url(),
        "max_concurrent_requests": options.concurrency,
        "max_requests_per_minute": NO_LIMIT,
        "max_tokens_per_minute": NO_LIMIT * 1_000,
        "max_retries": 3,
    }
    wanted = Wanted(model_name=MODEL, backend="openai", backend_params=backend)
    started = time.perf_counter()
    answers = wanted(questions, working_dir=str(options.store))
    seconds = time.perf_counter() - started
    found = len({row["key"] for row in answers.dataset})
    shutil.rmtree(options.store, ignore_errors=True)
    if found != options.records:
        raise SystemExit(f"{found} of {options.records} were answered")
    report(rate=found / seconds, variant=f"bespokelabs-curator {version('bespokelabs-curator')}")


if __name__ == "__main__":
    main()
