"""What a budget is worth while steps ask more than once, from threads, or think better of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.ai_jobs import PRICES, Asking, spent_by_log
from acceptance.jobs import Place, Ran
from helpers.llm import LlmServer, llm_server

ONCE = "timeout=30, retry=onward.Retry(attempts=1)"
ROOM_FOR_ONE = "max_output_tokens=2000, budget=Budget(tokens=4500)"
MANY = """
import asyncio
from onward.llm import Budget, Model, Prompt

job = onward.Job("many", source=onward.iterable(lambda: range(RECORDS)), concurrency=20)
model = Model("small", MODEL)
prompt = Prompt("Tell me [[key={{ i }}-{{ j }}]]")

def ask(i, j):
    return model.ask(prompt, i=i, j=j)

"""
IN_A_ROW = "@job.step(STEP)\nasync def answer(i) -> list:\n    return [await ask(i, j) for j in range(ASKS)]\n"
AT_ONCE = """
@job.step(STEP)
async def answer(i) -> list:
    return await asyncio.gather(*(ask(i, j) for j in range(ASKS)))
"""
SYNC = "@job.step(STEP)\ndef answer(i) -> list:\n    return [asyncio.run(ask(i, j)) for j in range(ASKS)]\n"
IN_THREADS = """
@job.step(STEP)
async def answer(i) -> list:
    return [await asyncio.to_thread(lambda j=j: asyncio.run(ask(i, j))) for j in range(ASKS)]
"""
IN_A_POOL = """
from concurrent.futures import ThreadPoolExecutor

@job.step(STEP)
def answer(i) -> list:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda j: asyncio.run(ask(i, j)), range(ASKS)))
"""
GIVEN_UP = """
async def given_up(i, j):
    asking = asyncio.create_task(ask(i, j))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()

"""
GIVEN_UP_HERE = f"""{GIVEN_UP}
@job.step(STEP)
async def answer(i) -> int:
    for j in range(ASKS):
        await given_up(i, j)
    return 1
"""
GIVEN_UP_IN_THREADS = f"""{GIVEN_UP}
@job.step(STEP)
def answer(i) -> int:
    for j in range(ASKS):
        asyncio.run(given_up(i, j))
    return 1
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LlmServer]:
    with llm_server(tmp_path, latency=0.01, answer_tokens=20) as running:
        yield running


def many(
    folder: Path, how: str, model: str, records: int = 1, asks: int = 10, step: str = ONCE, turns: int = 1
) -> Place:
    text = (MANY + how).replace("RECORDS", str(records)).replace("MODEL", model).replace("STEP", step)
    return Place(folder, text.replace("ASKS", str(asks)).replace("TURNS", str(turns)))


def run(place: Place, server: LlmServer, *words: str) -> Ran:
    return place.run("--max-time", "90s", "--grace", "2s", *words, env=server.environment)


def told_is_true(ran: Ran, folder: Path, server: LlmServer, of_records: bool = True) -> None:
    """What the status tells was spent is what the server answered, once; nothing is set aside any more."""
    cost, tokens = ran.status["cost"], spent_by_log(server)
    assert {name: cost[name] for name in tokens} == tokens
    assert (cost["requests"], cost["lost"]) == (len(server.log()), 0)
    with sqlite3.connect(folder / ".onward/onward.db") as store:
        held = "SELECT count(*) FROM reserved WHERE requests <> 0 OR picodollars <> 0 OR tokens <> 0"
        assert store.execute(held).fetchone() == (0,)
        (asked,) = store.execute("SELECT coalesce(sum(requests), 0) FROM usage").fetchone()
    if of_records:
        assert asked == len(server.log())


@pytest.mark.parametrize("step", [ONCE, f"{ONCE}, process=True"])
def test_a_repair_does_not_wait_for_what_its_own_step_holds(tmp_path: Path, server: LlmServer, step: str) -> None:
    asking = Asking(tmp_path, server, 1, ROOM_FOR_ONE, "Summary", step, faults={0: "misfit*1"})
    ran = run(asking.place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    assert asking.asked == {"0": 2}
    told_is_true(ran, tmp_path, server)


def test_a_job_whose_answers_are_all_to_be_repaired_does_not_stand_still(tmp_path: Path, server: LlmServer) -> None:
    model = "max_output_tokens=2000, budget=Budget(tokens=20000)"
    faults = dict.fromkeys(range(20), "misfit*1")
    asking = Asking(tmp_path, server, 20, model, "Summary", ONCE, faults)
    ran = run(asking.place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 20})
    assert set(asking.asked.values()) == {2}
    told_is_true(ran, tmp_path, server)


@pytest.mark.parametrize("how", [IN_A_ROW, AT_ONCE, SYNC, IN_THREADS])
@pytest.mark.parametrize("step", [ONCE, f"{ONCE}, process=True"])
def test_asks_of_one_step_do_not_wait_for_each_others_end(
    tmp_path: Path, server: LlmServer, how: str, step: str
) -> None:
    ran = run(many(tmp_path, how, ROOM_FOR_ONE, records=2, step=step), server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 2})
    assert len(server.log()) == 20
    told_is_true(ran, tmp_path, server)


def test_a_hundred_asks_at_once_go_out_as_there_is_room(tmp_path: Path, server: LlmServer) -> None:
    model = "max_output_tokens=2000, budget=Budget(tokens=12000)"
    ran = run(many(tmp_path, AT_ONCE, model, asks=100), server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    assert len(server.log()) == 100
    told_is_true(ran, tmp_path, server)


@pytest.mark.parametrize("how", [IN_A_ROW, AT_ONCE, SYNC, IN_THREADS])
@pytest.mark.parametrize("step", [ONCE, f"{ONCE}, process=True"])
def test_a_step_whose_next_ask_does_not_fit_parks_the_job(
    tmp_path: Path, server: LlmServer, how: str, step: str
) -> None:
    place = many(tmp_path, how, f"{PRICES}, max_output_tokens=60, budget=0.003", step=step)
    ran = run(place, server)
    assert (ran.code, ran.counts) == (4, {"pending": 1})
    assert "stopped: the budget of model small is used up: $0.003 (" in ran.said
    assert 0 < ran.status["cost"]["spent_usd"] <= 0.003
    told_is_true(ran, tmp_path, server, of_records=False)
    raised = run(place, server, "--budget", "1")
    assert (raised.code, raised.counts) == (0, {"succeeded": 1})
    told_is_true(raised, tmp_path, server, of_records=False)


@pytest.mark.parametrize("how", [SYNC, IN_THREADS])
def test_what_is_asked_on_an_event_loop_of_its_own_is_under_the_budget(
    tmp_path: Path, server: LlmServer, how: str
) -> None:
    place = many(tmp_path, how, f"{PRICES}, max_output_tokens=60, budget=0.01", records=60, asks=1)
    ran = run(place, server)
    assert ran.code == 4
    assert 0.005 < ran.status["cost"]["spent_usd"] <= 0.01
    told_is_true(ran, tmp_path, server)


@pytest.mark.parametrize("step", [ONCE, f"{ONCE}, process=True"])
def test_a_thread_that_does_not_know_its_step_is_refused(tmp_path: Path, server: LlmServer, step: str) -> None:
    ran = run(many(tmp_path, IN_A_POOL, ROOM_FOR_ONE, step=step), server)
    assert (ran.code, ran.counts) == (4, {"pending": 1})
    assert "in a thread that does not know of its step" in ran.said
    assert server.log() == []


@pytest.mark.parametrize("how", [IN_A_ROW, SYNC])
def test_answers_that_are_lost_on_the_way_count_at_their_most(tmp_path: Path, server: LlmServer, how: str) -> None:
    server.control(chances={"lost": 0.3})  # carried out and billed, then the connection is reset
    model = f"{PRICES}, max_output_tokens=60, budget=0.05"
    step = "timeout=30, retry=onward.Retry(attempts=9, base=0.01, cap=0.02)"
    ran = run(many(tmp_path, how, model, records=200, asks=1, step=step), server)
    assert ran.code == 4
    lost = sum(line["fault"] == "lost" for line in server.log())
    billed = sum(4.0 * line["input_tokens"] + 12.0 * line["output_tokens"] for line in server.log()) / 1e6
    cost = ran.status["cost"]
    assert lost > 5
    assert (cost["requests"], cost["lost"]) == (len(server.log()), lost)
    assert billed < cost["spent_usd"] <= 0.05


@pytest.mark.parametrize("how", [IN_A_ROW, SYNC])
@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}, "OPENAI_API_KEY is not set"),
        ({"OPENAI_API_KEY": "a key\r"}, "OPENAI_API_KEY has a letter in it"),
        ({"OPENAI_BASE_URL": "localhost:8000/v1"}, "is no address of a server"),
    ],
)
def test_where_no_request_can_be_made_none_is_counted(
    tmp_path: Path, server: LlmServer, how: str, environment: dict[str, str], why: str
) -> None:
    place = many(tmp_path, how, f"{PRICES}, max_output_tokens=60, budget=0.05", records=20, asks=1)
    for _ in range(2):
        ran = place.run("--max-time", "90s", env={**server.environment, **environment})
        assert ran.code == 4
        assert why in ran.said
        cost = ran.status["cost"]
        assert (cost["spent_usd"], cost["requests"], cost["lost"]) == (0, 0, 0)
    ran = run(place, server)
    assert ran.counts == {"succeeded": 20}
    told_is_true(ran, tmp_path, server)


@pytest.mark.parametrize("turns", [1, 2])  # in a third one that was granted may begin its request
@pytest.mark.parametrize("how", [GIVEN_UP_HERE, GIVEN_UP_IN_THREADS])
@pytest.mark.parametrize("step", [ONCE, f"{ONCE}, process=True"])
def test_what_was_granted_to_an_ask_that_was_given_up_is_given_back(
    tmp_path: Path, server: LlmServer, how: str, step: str, turns: int
) -> None:
    server.control(latency=30)  # should a request be made, it is not answered
    ran = run(many(tmp_path, how, ROOM_FOR_ONE, asks=8, step=step, turns=turns), server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 1})
    told_is_true(ran, tmp_path, server)


TWO = """
from onward.llm import Model, Prompt

job = onward.Job("two", source=onward.iterable(lambda: range(4)))
first = Model("small", FIRST)
second = Model("small", SECOND)

@job.step
async def one(i) -> str:
    return await first.ask(Prompt("the same"))

@job.step
async def two(i) -> str:
    return await second.ask(Prompt("the same"))
"""


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("max_output_tokens=60, budget=0.3", "max_output_tokens=60, budget=50", "budget"),
        ("max_output_tokens=60, budget=0.3", "", "budget"),
        ("max_concurrency=3", "max_concurrency=4", "max_concurrency"),
        ("requests_per_minute=3", "", "requests_per_minute"),
        ("", "tokens_per_minute=3", "tokens_per_minute"),
    ],
)
def test_models_of_one_name_with_different_limits_are_refused(
    tmp_path: Path, server: LlmServer, first: str, second: str, differ: str
) -> None:
    one, two = (f"{PRICES}, {said}".rstrip(", ") for said in (first, second))
    place = Place(tmp_path, TWO.replace("FIRST", one).replace("SECOND", two))
    ended = place.onward("run", "job.py", env=server.environment)
    assert ended.returncode == 2
    assert f"two models are named small and differ in {differ}" in ended.stderr
    assert server.log() == []


def test_answers_are_not_shared_across_addresses(tmp_path: Path, server: LlmServer) -> None:
    (tmp_path / "other").mkdir()
    with llm_server(tmp_path / "other", latency=0.01) as other:
        there = f'{PRICES}, dedupe=True, base_url="{other.url}"'
        place = Place(tmp_path, TWO.replace("FIRST", f"{PRICES}, dedupe=True").replace("SECOND", there))
        assert run(place, server).counts == {"succeeded": 4}
        assert (len(server.log()), len(other.log())) == (1, 1)


TIGHTENED = """
from pydantic import BaseModel, field_validator
from onward.llm import Model, Prompt

class Answer(BaseModel):
    title: str

    @field_validator("title")
    @classmethod
    def has_a_mark(cls, title: str) -> str:
        if STRICT:
            raise ValueError("no such title")
        return title

job = onward.Job("tightened", source=onward.iterable(lambda: range(RECORDS)))
model = Model("small", PRICES, dedupe=True)

@job.step
async def answer(i) -> Answer:
    return await model.ask(Prompt("the same"), returns=Answer)
""".replace("PRICES", PRICES)


def test_a_shared_answer_that_fits_no_more_is_asked_for_anew(tmp_path: Path, server: LlmServer) -> None:
    def job(records: int, strict: str) -> str:
        return TIGHTENED.replace("RECORDS", str(records)).replace("STRICT", strict)

    place = Place(tmp_path, job(2, "False"))
    assert run(place, server).counts == {"succeeded": 2}
    assert len(server.log()) == 1
    with sqlite3.connect(tmp_path / ".onward/onward.db") as store:
        store.execute('UPDATE answers SET text = \'{"title": "old"}\'')
    place.job(job(4, 'title == "old"'))
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 4})
    assert len(server.log()) == 2
    place.job(job(5, 'title == "old" or not title'))
    assert run(place, server).counts == {"succeeded": 5}
    assert len(server.log()) == 2  # the newer answer has taken the place of the older
