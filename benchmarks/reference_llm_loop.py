"""Reference: a bare asyncio loop over the `openai` SDK with a semaphore; answers end up in a list, nothing is durable.

The SDK keeps 100 connections alive unless told otherwise, fewer than there are calls at once, and its client looks at
all of them for each call. Each way of doing better is tried briefly, and the fastest is the reference.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from importlib.metadata import version

import openai
from common import child, report
from llm_common import MODEL, arguments, prompts

TRIAL = 1_000
TIMEOUT = 120.0


def as_it_comes(concurrency: int) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(max_retries=0, timeout=TIMEOUT)


def kept_alive(concurrency: int) -> openai.AsyncOpenAI:
    """All connections are kept, and none is looked for in the environment's proxies."""
    import httpx2

    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    client = openai.DefaultAsyncHttpxClient(limits=limits, timeout=TIMEOUT, trust_env=False)
    return openai.AsyncOpenAI(max_retries=0, timeout=TIMEOUT, http_client=client)


def spread_out(concurrency: int) -> openai.AsyncOpenAI:
    """Many small pools of connections instead of one, which take turns."""
    import httpx2

    class Spread(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
            self.pools = [
                httpx2.AsyncHTTPTransport(limits=limits, verify=False) for _ in range(max(1, concurrency // 8))
            ]
            self.turns = itertools.cycle(self.pools)

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await next(self.turns).handle_async_request(request)

        async def aclose(self) -> None:
            for pool in self.pools:
                await pool.aclose()

    client = openai.DefaultAsyncHttpxClient(transport=Spread(), timeout=TIMEOUT, trust_env=False)
    return openai.AsyncOpenAI(max_retries=0, timeout=TIMEOUT, http_client=client)


def with_aiohttp(concurrency: int) -> openai.AsyncOpenAI:
    client = openai.DefaultAioHttpClient(timeout=TIMEOUT)
    return openai.AsyncOpenAI(max_retries=0, timeout=TIMEOUT, http_client=client)


VARIANTS: dict[str, Callable[[int], openai.AsyncOpenAI]] = {
    variant.__name__: variant for variant in (as_it_comes, kept_alive, spread_out, with_aiohttp)
}


async def ask_all(client: openai.AsyncOpenAI, questions: list[str], concurrency: int) -> list[str]:
    slots = asyncio.Semaphore(concurrency)

    async def one(question: str) -> str:
        async with slots:
            answer = await client.responses.create(model=MODEL, input=question)
            return answer.output_text

    async with client:
        return list(await asyncio.gather(*map(one, questions)))


def rate(variant: str, questions: list[str], concurrency: int) -> float:
    async def run() -> float:
        client = VARIANTS[variant](concurrency)
        started = time.perf_counter()
        answers = await ask_all(client, questions, concurrency)
        seconds = time.perf_counter() - started
        if not all(answers):
            raise SystemExit("an answer is empty")
        return len(answers) / seconds

    return asyncio.run(run())


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--variant", choices=VARIANTS, help="default: try all first")
    options = parser.parse_args()
    trials = {}
    if options.variant is None:
        words = ("--records", min(TRIAL, options.records), "--input", options.input, "--store", options.store)
        trials = {name: child("reference_llm_loop.py", *words, "--variant", name)["rate"] for name in VARIANTS}
    best = options.variant or max(trials, key=lambda name: trials[name])
    questions = [question for _key, question in prompts(options.input, options.records)]
    name = f"openai {version('openai')}, {best}"
    report(rate=rate(best, questions, options.concurrency), choice=best, variant=name, trials=trials)


if __name__ == "__main__":
    main()
