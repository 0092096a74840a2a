"""The measured side: one prompt over every ticket, durable."""

from __future__ import annotations

import os
import time

from common import peak_memory_mb, report
from llm_common import MODEL, MOST_TOKENS, PRICES, TEMPLATE, arguments
from pydantic import BaseModel

import onward
from onward.llm import Model, Prompt


def limit(name: str) -> float | None:
    given = os.environ.get(name)
    return float(given) if given else None


budget = limit("BENCHMARK_BUDGET")
model = Model(
    MODEL,
    requests_per_minute=limit("BENCHMARK_REQUESTS_PER_MINUTE"),
    budget=budget,
    max_output_tokens=MOST_TOKENS if budget else None,
    prices=PRICES,
)
prompt = Prompt(TEMPLATE)


class Params(BaseModel):
    input: str


job = onward.Job("tickets", source=lambda p: onward.jsonl(p.input, key="id"), params=Params)


@job.step(timeout=120)
async def wanted(ticket: dict[str, str]) -> str:
    answer: str = await model.ask(prompt, ticket=ticket)
    return answer


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--max-time", type=float, help="seconds after which the run ends")
    parser.add_argument("--end", type=int, default=0, help="the exit code that is right")
    options = parser.parse_args()
    started = time.perf_counter()
    result = onward.run(
        job,
        store=str(options.store),
        params={"input": str(options.input)},
        concurrency=options.concurrency,
        limit=options.records,
        max_time=options.max_time,
    )
    seconds = time.perf_counter() - started
    if result.exit_code != options.end:
        raise SystemExit(f"the run ended with exit code {result.exit_code}: {result.reason}")
    report(rate=options.records / seconds, counts=result.counts, memory_mb=peak_memory_mb(), variant="")


if __name__ == "__main__":
    main()
