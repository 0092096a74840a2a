"""Models with mode="batch": requests go out together, at half the price, and whenever a run dies, the next one finds
what was sent and sends nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, Ran, plain, wait_until
from helpers.llm import LlmServer, llm_server

RECORDS = 40
MODEL = 'Model("small", mode="batch", max_output_tokens=100, prices={"input": 4.0, "output": 12.0}{more})'

JOB = """
import onward.engine.batches.carrying as engine, onward.llm.batching as provider
from onward.llm import Model, Prompt
from pydantic import BaseModel

engine.SETTLE = 1.0
provider.LINES = 5

class Verdict(BaseModel):
    topic: str
    urgent: bool

model = MODEL
prompt = Prompt("Which topic? {{ text }}")

def dies(owner, name, when):
    inner = getattr(owner, name)
    async def instead(*given, **named):
        if when == "before":
            os.kill(os.getpid(), 9)
        result = await inner(*given, **named)
        os.kill(os.getpid(), 9)
    setattr(owner, name, instead)

OWNERS = {"engine": engine.Carrier, "provider": provider.Batches}
if os.environ.get("DIES"):
    owner, name, when = os.environ["DIES"].split()
    dies(OWNERS[owner], name, when)

job = onward.Job("case", source=onward.jsonl("in.jsonl", "id"))
"""

STEP = """
@job.step
async def classify(record) -> Verdict:
    started(record["id"])
    return await model.ask(prompt, text=record["text"], returns=Verdict)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LlmServer]:
    with llm_server(tmp_path) as server:
        yield server


def job_text(step: str = STEP, more: str = "") -> str:
    return JOB.replace("MODEL", MODEL.replace("{more}", more)) + step


def batch_job(tmp_path: Path, step: str = STEP, more: str = "", texts: list[str] | None = None) -> Place:
    place = Place(tmp_path, job_text(step, more))
    texts = texts or [f"text\u2028{number}" for number in range(RECORDS)]
    place.write("in.jsonl", [{"id": f"k{n}", "text": f"{text} [[key=k{n}]]"} for n, text in enumerate(texts)])
    return place


def run(place: Place, server: LlmServer, *words: str, **env: str) -> Ran:
    ran = place.run(*words, env={**server.environment, **env})
    plain(ran.said)
    return ran


def made(server: LlmServer) -> Counter[str]:
    """What the server was asked to make, and how many requests of batches it carried out."""
    lines = [line for line in server.log() if line["method"] == "POST" and line["status"] is not None]
    return Counter(line["endpoint"].rpartition("/")[2] for line in lines)


def carried_out(server: LlmServer) -> Counter[str]:
    return Counter(line["key"] for line in server.log("/v1/responses") if line["batch"])


def files_left(server: LlmServer) -> list[Any]:
    request = urllib.request.Request(
        f"{server.url}/files", headers={"Authorization": f"Bearer {server.environment['OPENAI_API_KEY']}"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: list[Any] = json.loads(answer.read())["data"]
    return found


def events(place: Place, name: str) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in place.fine("log", "job.py", "--json").splitlines()]
    return [one for one in entries if one["event"] == name]


def test_all_records_are_asked_in_one_batch_at_half_the_price(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path)
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    assert made(server) == {"files": 1, "batches": 1, "responses": RECORDS}
    assert files_left(server) == []  # nothing stays at the provider
    asked = server.log("/v1/responses")
    tokens_in, tokens_out = sum(one["input_tokens"] for one in asked), sum(one["output_tokens"] for one in asked)
    cost = ran.status["cost"]
    assert (cost["requests"], cost["tokens_in"], cost["tokens_out"]) == (RECORDS, tokens_in, tokens_out)
    assert cost["spent_usd"] == pytest.approx((4 * tokens_in + 12 * tokens_out) / 2 / 1e6, abs=RECORDS * 1e-12)
    assert Counter(place.calls()) == dict.fromkeys((f"k{n}" for n in range(RECORDS)), 2)
    # The step was called twice, and tried once.
    shown = json.loads(place.fine("show", "job.py", "k3", "--json"))
    assert (shown["state"], shown["attempts"]) == ("succeeded", 0)
    assert [
        one["event"] for name in ("batch_intended", "batch_submitted", "batch_finished") for one in events(place, name)
    ]


DEATHS = {
    "the chunk is intended": "provider upload before",
    "the file is uploaded, and nobody knows": "provider upload after",
    "the file is known": "provider submit before",
    "the batch is made, and nobody knows": "provider submit after",
    "the batch is running": "engine _note_progress after",
    "half is brought in": "engine _take_in after",
    "all is brought in": "engine _end before",
}

NOTHING_MADE = ("the file is uploaded, and nobody knows", "the file is known")


@pytest.mark.parametrize("moment", DEATHS)
def test_after_a_death_the_batch_is_found_and_nothing_is_sent_twice(
    tmp_path: Path, server: LlmServer, moment: str
) -> None:
    place = batch_job(tmp_path)
    died = place.onward("run", "job.py", env={**server.environment, "DIES": DEATHS[moment]})
    assert died.returncode == -signal.SIGKILL, died.stderr
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    assert made(server)["batches"] == 1
    assert made(server)["files"] == 1 + (moment in NOTHING_MADE)
    assert set(carried_out(server).values()) == {1} and len(carried_out(server)) == RECORDS
    assert ran.status["cost"]["requests"] == RECORDS
    assert files_left(server) == []
    assert len(place.export()) == RECORDS
    assert place.fine("log", "job.py", "--verify")


def test_a_batch_that_is_listed_late_is_waited_for(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_list_lag=6.0) as server:
        place = batch_job(tmp_path)
        place.job(job_text().replace("engine.SETTLE = 1.0", "engine.SETTLE = 15.0"))
        died = place.onward("run", "job.py", env={**server.environment, "DIES": "provider submit after"})
        assert died.returncode == -signal.SIGKILL
        assert run(place, server).code == 0
        assert made(server)["batches"] == 1
        assert len(events(place, "batch_found")) == 1


@pytest.mark.parametrize("fault", ["lost*1", "503*1", "reset*1", "html*1"])
def test_a_batch_whose_making_had_no_answer_is_looked_for(tmp_path: Path, fault: str) -> None:
    with llm_server(tmp_path, at={"POST /v1/batches": fault, "POST /v1/files": fault}) as server:
        place = batch_job(tmp_path)
        ran = run(place, server)
        assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
        assert set(carried_out(server).values()) == {1}
        assert files_left(server) == []


def test_a_run_that_is_told_to_stop_leaves_the_batch_and_the_next_goes_on_with_it(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_running=600) as server:
        place = batch_job(tmp_path)
        ran = run(place, server, "--max-time", "4s")
        assert (ran.code, ran.counts) == (3, {"pending": RECORDS})
        [waiting] = ran.status["waiting"]
        assert waiting["count"] == RECORDS
        assert waiting["reason"].startswith("batch batch_000001 (model small): in_progress, ")
        assert f" of {RECORDS} done" in waiting["reason"]
        server.control(end_batches="completed")
        ran = run(place, server)
        assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
        assert made(server)["batches"] == 1


def test_what_an_expired_batch_has_not_done_goes_into_the_next(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_end="expired", batch_done=0.5) as server:
        place = batch_job(tmp_path)
        running = place.start("run", "job.py", env=server.environment)
        wait_until(lambda: made(server)["batches"] == 1)
        server.control(batch_end="completed")
        assert running.wait(60) == 0
        assert made(server)["batches"] == 2
        assert set(carried_out(server).values()) == {1} and len(carried_out(server)) == RECORDS


def test_lines_that_are_missing_are_asked_again_and_at_last_their_records_fail(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_lost=1) as server:
        place = batch_job(tmp_path, STEP.replace("@job.step", "@job.step(retry=onward.Retry(attempts=1))"))
        ran = run(place, server)
        assert (ran.code, ran.counts) == (1, {"succeeded": RECORDS - 1, "failed": 1})
        assert made(server)["batches"] == 3
        [failure] = place.failures()
        assert failure["kind"] == "transient"
        assert ran.status["cost"]["lost"] == 3


def test_each_line_that_failed_is_judged_for_its_record(tmp_path: Path, server: LlmServer) -> None:
    texts = [f"text {n}" for n in range(10)]
    texts[1] += " [[fault=400]]"
    texts[2] += " [[fault=500*1]]"
    texts[3] += " [[fault=429*1]]"
    texts[4] += " [[fault=refusal]]"
    texts[5] += " [[fault=incomplete]]"
    texts[6] += " [[fault=misfit*1]]"
    texts[7] += " [[fault=misfit]]"
    place = batch_job(tmp_path, texts=texts)
    ran = run(place, server)
    assert (ran.code, ran.counts) == (1, {"succeeded": 6, "quarantined": 4})
    kinds = {one["key"]: one["kind"] for one in place.failures()}
    assert kinds == {"k1": "rejected", "k4": "invalid", "k5": "invalid", "k7": "invalid"}
    asked = carried_out(server)
    assert asked == {**dict.fromkeys((f"k{n}" for n in range(10)), 1), "k2": 2, "k3": 2, "k6": 2, "k7": 2}
    spent = {one["model"]: one for one in ran.status["models"]}["small"]
    assert spent["repairs"] == 2
    # A person's release asks again, and not for what was answered before.
    place.fine("release", "job.py", "k4")
    run(place, server)
    assert carried_out(server)["k4"] == 2


def test_a_batch_that_is_refused_as_a_whole_stops_the_run(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_end="failed") as server:
        place = batch_job(tmp_path)
        ran = run(place, server)
        assert (ran.code, ran.counts) == (4, {"pending": RECORDS})
        assert "was refused: internal_error: The batch failed." in ran.said
        server.control(batch_end="completed")
        assert run(place, server).code == 0


def test_a_wrong_key_stops_the_run_and_costs_nothing(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path)
    ran = run(place, server, OPENAI_API_KEY="wrong")
    assert (ran.code, ran.counts) == (4, {"pending": RECORDS})
    assert run(place, server).code == 0
    assert set(carried_out(server).values()) == {1}


def test_a_batch_of_another_account_is_not_taken_for_lost(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with llm_server(tmp_path, batch_running=600) as server, llm_server(tmp_path / "other") as other:
        place = batch_job(tmp_path)
        assert run(place, server, "--max-time", "4s").code == 3
        ran = run(place, other)
        assert (ran.code, ran.counts) == (4, {"pending": RECORDS})
        assert "is not known where the model is asked now" in ran.said
        assert made(other) == {}


def test_equal_requests_are_sent_once(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path)
    place.write("in.jsonl", [{"id": f"k{n}", "text": f"text {n % 4} [[key=t{n % 4}]]"} for n in range(RECORDS)])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    assert carried_out(server) == {f"t{n}": 1 for n in range(4)}
    assert ran.status["cost"]["requests"] == 4


TWO_ASKS = """
import asyncio

@job.step
async def both(record):
    started(record["id"])
    try:
        first, second = await asyncio.gather(
            model.ask(prompt, text="first " + record["text"]), model.ask(prompt, text="second " + record["text"]))
    except Exception:
        return "swallowed"
    return await model.ask(prompt, text=first[:5] + second[:5] + record["text"])

@job.step
async def careless(record, both):
    answers = await asyncio.gather(model.ask(prompt, text="careless " + record["text"]), return_exceptions=True)
    return str(answers[0])

@job.step
async def grouped(record, careless):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.ask(prompt, text=f"{n} {record['text']}")) for n in range(3)]
    return [task.result() for task in tasks]
"""


def test_asks_beside_one_another_go_in_one_round_and_nothing_swallows_the_wait(
    tmp_path: Path, server: LlmServer
) -> None:
    place = batch_job(tmp_path, TWO_ASKS)
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    assert made(server) == {"files": 4, "batches": 4, "responses": RECORDS * 7}
    outputs = [row["outputs"] for row in place.export()]
    assert all("swallowed" not in one["both"] and one["careless"].startswith("Answered") for one in outputs)
    assert Counter(place.calls("echo")) == dict.fromkeys((f"k{n}" for n in range(RECORDS)), 3)


def test_an_edit_while_a_batch_is_out_asks_anew_and_the_old_answers_are_counted(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_running=600) as server:
        place = batch_job(tmp_path)
        assert run(place, server, "--max-time", "4s").code == 3
        server.control(batch_running=0.3)
        place.job(job_text().replace("Which topic?", "Which theme?"))
        running = place.start("run", "job.py", env=server.environment)
        wait_until(lambda: made(server)["batches"] == 2)
        server.control(end_batches="completed")
        assert running.wait(60) == 0
        assert set(carried_out(server).values()) == {2}
        status = place.status()
        assert (status["counts"]["succeeded"], status["cost"]["requests"]) == (RECORDS, 2 * RECORDS)
        # Changed back, and done again: the answers that nobody has heard are still there.
        place.job(job_text())
        place.fine("rerun", "job.py", "--all")
        assert run(place, server).counts == {"succeeded": RECORDS}
        assert made(server)["batches"] == 2


def test_online_again_the_records_do_not_wait(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_running=600) as server:
        place = batch_job(tmp_path)
        assert run(place, server, "--max-time", "4s").code == 3
        place.job(job_text().replace('mode="batch", ', ""))
        ran = run(place, server)
        assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})


def test_a_budget_holds_for_batches_and_raising_it_goes_on(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, more=", budget=0.005")
    ran = run(place, server)
    assert ran.code == 4
    assert "the budget of model small is used up" in ran.said
    assert 0 < ran.counts["succeeded"] < RECORDS
    assert 0 < ran.status["cost"]["spent_usd"] <= 0.005
    ran = run(place, server, "--budget", "5")
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    assert set(carried_out(server).values()) == {1}


def test_a_limit_is_stayed_for(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path)
    ran = run(place, server, "--limit", "7")
    assert (ran.code, ran.counts) == (0, {"succeeded": 7, "pending": RECORDS - 7})
    assert len(carried_out(server)) == 7


def test_steps_in_processes_wait_for_batches_too(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, STEP.replace("@job.step", "@job.step(process=True)"), texts=["one", "two", "three"])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 3})
    assert made(server)["batches"] == 1
    assert ran.status["cost"]["requests"] == 3


OUTSIDE = """
import asyncio
from onward.llm import Model, Prompt
try:
    asyncio.run(Model("small", mode="batch").ask(Prompt("Hello")))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_outside_a_run_there_is_nobody_who_would_wait(tmp_path: Path, server: LlmServer) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OUTSIDE],
        env={**os.environ, **server.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.stdout.startswith("UsageError: model small has mode='batch'"), ended.stderr
    assert made(server) == {}


def test_a_refusal_of_the_batch_leaves_nothing_behind(tmp_path: Path) -> None:
    with llm_server(tmp_path, at={"POST /v1/batches": "400*1"}) as server:
        place = batch_job(tmp_path)
        ran = run(place, server)
        assert (ran.code, ran.counts) == (4, {"pending": RECORDS})
        assert "the provider refuses requests to model small" in ran.said
        assert files_left(server) == []
        ran = run(place, server)
        assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
        assert len(events(place, "batch_found")) == 0


SMALL_ROOM = """
from dataclasses import replace
look = provider.Batches.look

async def looked(self, batch):
    state = await look(self, batch)
    too_much = state.is_over and state.total > 12
    return replace(state, status="failed", code="token_limit_exceeded", files=()) if too_much else state

provider.Batches.look = looked
"""


def test_where_a_provider_has_no_room_for_so_many_fewer_are_sent(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, SMALL_ROOM + STEP)
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    numbers = [one["detail"]["requests"] for one in events(place, "batch_intended")]
    assert numbers == [40, 20, 10, 10, 10, 10]


def test_two_runs_at_once_send_nothing_twice(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path)
    runs = [place.start("run", "job.py", env=server.environment) for _ in range(2)]
    assert [one.wait(100) for one in runs] == [0, 0], (tmp_path / "said.txt").read_text()
    assert set(carried_out(server).values()) == {1} and len(carried_out(server)) == RECORDS
    assert place.status()["counts"]["succeeded"] == RECORDS


PUT_OFF_BEHIND_ITS_BACK = """
import asyncio, apsw, pathlib, onward.engine.batches.making as batches

go, first, look = pathlib.Path("go"), os.environ.get("FIRST"), batches.Batches.look

def waiting():
    store = apsw.Connection(".onward/onward.db", flags=apsw.SQLITE_OPEN_READONLY)
    return store.execute("SELECT count(*) FROM records WHERE hold = 'batch'").get

async def looked(self, is_quiet):
    stays = await look(self, is_quiet)
    if not first and is_quiet and not stays and not go.exists():
        go.touch()
        while waiting() < 3:
            await asyncio.sleep(0.02)
    return stays

batches.Batches.look = looked

@job.step
async def classify(record) -> Verdict:
    while first and not go.exists():
        await asyncio.sleep(0.02)
    return await model.ask(prompt, text=record["text"], returns=Verdict)
"""


SENT_BEHIND_ITS_BACK = (
    PUT_OFF_BEHIND_ITS_BACK
    + """
send_waiting, sending = batches.Batches._send_waiting, pathlib.Path("send")

def chunks():
    store = apsw.Connection(".onward/onward.db", flags=apsw.SQLITE_OPEN_READONLY)
    return store.execute("SELECT count(*) FROM chunks").get

async def sent(self, is_quiet):
    while first and not sending.exists():
        await asyncio.sleep(0.02)
    if not first and waiting():
        sending.touch()
        while not chunks():
            await asyncio.sleep(0.02)
    await send_waiting(self, is_quiet)

batches.Batches._send_waiting = sent
"""
)


@pytest.mark.parametrize("job", [PUT_OFF_BEHIND_ITS_BACK, SENT_BEHIND_ITS_BACK], ids=["put off", "sent"])
def test_a_run_stays_for_what_another_puts_off_as_it_looks(tmp_path: Path, server: LlmServer, job: str) -> None:
    place = batch_job(tmp_path, job, texts=["one", "two", "three"])
    first = place.start("run", "job.py", env={**server.environment, "FIRST": "1"})
    try:
        wait_until(
            lambda: (tmp_path / ".onward/onward.db").exists() and place.status()["counts"]["in_progress"] == 3, 30
        )
        ran = run(place, server)
        assert (tmp_path / "go").exists() and (ran.code, ran.counts) == (0, {"succeeded": 3})
    finally:
        assert first.wait(30) == 0
    assert set(carried_out(server).values()) == {1}


KILLS = """
@job.step
async def classify(record) -> Verdict:
    verdict = await model.ask(prompt, text=record["text"], returns=Verdict)
    if record["id"] == "k3":
        os.kill(os.getpid(), 9)
    return verdict
"""


def test_a_suspect_waits_for_its_batch_in_its_child(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, KILLS)
    for _ in range(2):
        assert place.onward("run", "job.py", env=server.environment).returncode == -signal.SIGKILL
    ran = run(place, server)
    assert (ran.code, ran.counts) == (1, {"succeeded": RECORDS - 1, "quarantined": 1})
    assert set(carried_out(server).values()) == {1}


def test_a_run_that_was_told_to_stop_by_a_signal_ends_at_once(tmp_path: Path) -> None:
    with llm_server(tmp_path, batch_running=600) as server:
        place = batch_job(tmp_path)
        running = place.start("run", "job.py", env=server.environment)
        wait_until(lambda: place_says(place, "is submitted"))
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 3
        assert place.status()["runs"][-1]["reason"] == "SIGTERM"


def place_says(place: Place, words: str) -> bool:
    return words in (place.folder / "said.txt").read_text("utf-8")


EFFECT = """
@job.effect("send", key={"id": str})
async def send(record, idempotency_key):
    return await model.ask(prompt, text=record["text"])
"""


def test_a_model_in_batch_mode_cannot_be_asked_in_an_effect(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, EFFECT, texts=["one"])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (1, {"unconfirmed": 1})
    assert "ask it in a step, not in an effect" in place.failures()[0]["error"]
    assert made(server) == {}


BOTH = """
online = Model("large")

@job.step
async def both(record):
    return await model.ask(prompt, text=await online.ask(prompt, text=record["text"]))
"""


def test_a_step_asks_models_of_one_mode(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, BOTH, texts=["one"])
    ended = place.onward("run", "job.py", env=server.environment)
    assert ended.returncode == 2
    assert "step both asks model large with mode='online' and model small with mode='batch'" in ended.stderr
    assert made(server) == {}


RESTLESS = """
@job.step(retry=onward.Retry(attempts=1))
async def classify(record):
    return await model.ask(prompt, text=f"{record['text']} at {time.time_ns()}")
"""


def test_a_step_that_asks_something_else_each_time_does_not_go_on_for_ever(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, RESTLESS, texts=["one"])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (1, {"failed": 1})
    assert "something else each time" in place.failures()[0]["error"]
    assert made(server)["batches"] == 6


SMALL_FILES = """
from onward.policy import batching
batching.MOST_REQUESTS = 10
provider.LINES = 1
"""

TWO_STEPS = """
take_in = engine.Carrier._take_in

async def slowly(self, page):
    import asyncio
    await asyncio.sleep(0.3)
    return await take_in(self, page)

engine.Carrier._take_in = slowly

@job.step
async def further(record, classify: Verdict) -> str:
    return await model.ask(prompt, text="further " + record["text"])
"""


def test_full_files_go_out_and_others_wait_for_what_is_being_brought_in(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, SMALL_FILES + STEP + TWO_STEPS, texts=[f"text {n}" for n in range(10)])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 10})
    assert [one["detail"]["requests"] for one in events(place, "batch_intended")] == [10, 10]


def test_more_than_a_file_holds_is_several_batches(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, SMALL_FILES + STEP, texts=[f"text {n}" for n in range(25)])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": 25})
    assert sorted(one["detail"]["requests"] for one in events(place, "batch_intended")) == [5, 10, 10]


def test_what_was_answered_once_is_not_sent_again_with_dedupe(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path, more=", dedupe=True")
    rows = [{"id": f"k{n}", "text": f"text {n % 4} [[key=t{n % 4}]]"} for n in range(RECORDS)]
    place.write("in.jsonl", rows)
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    place.write("in.jsonl", [*rows, {"id": "late", "text": "text 1 [[key=t1]]"}])
    ran = run(place, server)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS + 1})
    assert carried_out(server) == {f"t{n}": 1 for n in range(4)}


STOPS = """
import asyncio, signal
leave_to_send = engine.Carrier._leave_to_send

async def stops_first(self):
    if os.environ.get("STOPS"):  # by the thread that writes to the store, so that it holds no lock there
        await asyncio.wrap_future(self.journal.ask(lambda store: os.kill(os.getpid(), signal.SIGSTOP)))
    await leave_to_send(self)

engine.Carrier._leave_to_send = stops_first
"""


def test_a_run_that_was_stopped_before_it_sent_does_not_send_what_another_has(
    tmp_path: Path, server: LlmServer
) -> None:
    place = batch_job(tmp_path, STOPS + STEP)
    surroundings = {**server.environment, "ONWARD_LEASE": "2"}
    stopped = place.start("run", "job.py", env={**surroundings, "STOPS": "1"})
    state = Path(f"/proc/{stopped.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
    ran = run(place, server, ONWARD_LEASE="2")
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS})
    stopped.send_signal(signal.SIGCONT)
    assert stopped.wait(60) == 3
    assert made(server)["batches"] == 1
    assert set(carried_out(server).values()) == {1}


def test_a_sample_is_made_anew_in_a_batch_of_its_own(tmp_path: Path, server: LlmServer) -> None:
    place = batch_job(tmp_path)
    assert run(place, server).code == 0
    place.job(job_text().replace("Which topic?", "Which theme?"))
    said = place.fine("rerun", "job.py", "--sample", "5", env=server.environment)
    assert "Traceback" not in said
    assert sum(carried_out(server).values()) == RECORDS + 5
    assert place.status()["counts"]["succeeded"] == RECORDS
