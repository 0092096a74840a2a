"""What people read when a model cannot be asked: where it was looked for, what happened, and what to do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.ai_jobs import PRICES, Asking
from acceptance.asking_jobs import asked, rows
from acceptance.jobs import plain
from helpers.llm import LlmServer, llm_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    with llm_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def nobody() -> int:
    """A port at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("process", [False, True])
def test_nothing_listens_at_the_address(tmp_path: Path, server: LlmServer, declared: bool, process: bool) -> None:
    url = f"http://127.0.0.1:{nobody()}/v1"
    model = f'{PRICES}, base_url="{url}"' if declared else PRICES
    asking = Asking(tmp_path, server, 12, model, step="process=True" if process else "")
    job = tmp_path / "job.py"
    job.write_text(job.read_text().replace("concurrency=20", "concurrency=20, outage_limit=2.0"))
    environment = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": "" if declared else url}
    ran = asking.place.run(env=environment)
    address = url.removeprefix("http://").removesuffix("/v1")
    check = "base_url or OPENAI_BASE_URL" if declared else "OPENAI_BASE_URL"
    why = f"no connection to {address}: connection refused; check {check}"
    assert (ran.code, ran.counts) == (3, {"pending": 12})  # an outage, which is nobody's own fault
    assert f"paused: model small at 127.0.0.1: calls fail ({why}); one is tried now and then" in ran.said
    assert f"calls went on failing ({why})" in ran.said
    plain(ran.said)
    assert ran.status["cost"]["lost"] == 0  # nothing was sent
    shown = [asking.place.fine("show", "job.py", str(number)) for number in range(12)]
    assert any(why in " ".join(one.split()) for one in shown)


def test_a_failure_of_one_record_names_the_address(tmp_path: Path, server: LlmServer) -> None:
    url = f"http://127.0.0.1:{nobody()}/v1"
    asking = Asking(tmp_path, server, 1, step="retry=onward.Retry(attempts=1)")
    ran = asking.place.run(env={"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": url})
    assert ran.counts == {"failed": 1}
    (failure,) = asking.place.failures()
    address = url.removeprefix("http://").removesuffix("/v1")
    assert failure["kind"] == "transient"
    assert failure["error"].endswith(f"no connection to {address}: connection refused; check OPENAI_BASE_URL")


def test_a_key_that_is_missing_is_said_to_be(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, 20)
    ran = asking.place.run(env={**asking.environment, "OPENAI_API_KEY": ""})
    assert (ran.code, ran.counts) == (4, {"pending": 20})
    assert "OPENAI_API_KEY is not set, and the server wants a key" in ran.said
    wrong = asking.place.run(env={**asking.environment, "OPENAI_API_KEY": "another"})
    assert wrong.code == 4
    assert "is not set" not in wrong.said


@pytest.mark.parametrize("limit", ["", ", max_output_tokens=50"])
def test_a_cut_off_answer_says_how_to_give_it_more(tmp_path: Path, server: LlmServer, limit: str) -> None:
    asking = Asking(tmp_path, server, 1, PRICES + limit, faults={0: "incomplete"})
    assert asking.run().counts == {"quarantined": 1}
    (failure,) = asking.place.failures()
    assert ("max_output_tokens, or --max-output-tokens, gives it more room" in failure["error"]) == bool(limit)


@pytest.mark.parametrize("returns", ["", " -> str"])
@pytest.mark.parametrize("process", ["", "(process=True)"])
def test_a_forgotten_await_is_named(tmp_path: Path, server: LlmServer, returns: str, process: str) -> None:
    with asked(tmp_path, FORGOTTEN.replace("RETURNS", returns).replace("PROCESS", process)) as (place, there):
        place.write("in.jsonl", rows(1))
        ran = place.run(env=there.environment)
    assert ran.counts == {"failed": 1}
    (failure,) = place.failures()
    assert failure["kind"] == "bug"
    assert "the step returned a coroutine: is an await missing?" in failure["error"]
    assert "never awaited" not in ran.said


FORGOTTEN = """
from onward.llm import Model, Prompt

model, prompt = Model("small"), Prompt("{{ text }}")
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))

@job.stepPROCESS
async def answer(record)RETURNS:
    return model.ask(prompt, text=record["text"])
"""


@pytest.mark.parametrize(("priced", "told"), [(True, "cost: $"), (False, "the price of a model that summarise asks")])
def test_an_estimate_does_not_ask_for_what_was_just_done(tmp_path: Path, priced: bool, told: str) -> None:
    with asked(tmp_path, latency=0.0) as (place, server):
        if not priced:
            job = tmp_path / "job.py"
            job.write_text(job.read_text().replace(', prices={"input": 4.0, "output": 12.0}', ""))
        place.write("in.jsonl", rows(60))
        place.run("--limit", "6", env=server.environment)
        said = place.fine("run", "job.py", "--estimate")
    assert told in said
    assert "--limit 50" not in said
    assert said.rstrip().endswith("Next: onward run job.py")
    assert "How long it takes is not known: the last run was too short to tell" in said
