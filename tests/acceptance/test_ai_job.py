"""A prompt over every row: what a run does with a provider that answers, limits, refuses and fails."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.ai_jobs import PRICES, Asking, events, spent_by_log
from acceptance.jobs import Place, plain
from helpers.llm import KEY, LlmServer, llm_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LlmServer]:
    with llm_server(tmp_path, latency=0.02) as running:
        yield running


def store_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (folder / ".onward").iterdir())


def test_every_row_is_asked_once_and_its_cost_is_known(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=100)
    ran = asking.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 100})
    assert set(asking.asked.values()) == {1}
    assert len(asking.asked) == 100
    tokens = spent_by_log(server)
    cost = ran.status["cost"]
    assert {name: cost[name] for name in tokens} == tokens
    fresh = tokens["tokens_in"] - tokens["cached_tokens"]
    usd = (4.0 * fresh + 1.0 * tokens["cached_tokens"] + 12.0 * tokens["tokens_out"]) / 1e6
    assert cost["spent_usd"] == pytest.approx(usd, rel=1e-9)
    assert all(isinstance(row["outputs"]["answer"], str) for row in asking.place.export())
    assert asking.run().counts == {"succeeded": 100}
    assert len(asking.asked) == 100
    assert KEY.encode() not in store_bytes(tmp_path)


def test_an_unknown_price_is_unknown_and_never_zero(tmp_path: Path, server: LlmServer) -> None:
    cost = Asking(tmp_path, server, model="").run().status["cost"]
    assert cost["spent_usd"] is None
    assert cost["tokens_in"] > 0


def test_nothing_that_was_asked_or_answered_is_in_the_log(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=5, faults={1: "refusal", 2: "400"})
    ended = asking.place.onward("run", "job.py", "--log-format", "json", env=asking.environment)
    assert ended.returncode == 1
    assert "ticket" not in ended.stderr
    assert KEY not in ended.stderr + ended.stdout
    kinds = {event["key"]: event["kind"] for event in events(ended.stderr) if event["event"] == "record_quarantined"}
    assert kinds == {1: "invalid", 2: "rejected"}


CUT = dict.fromkeys(range(4), "incomplete") | {4: "incomplete_empty", 5: "incomplete_empty"} | {6: "cut*1", 7: "cut*1"}


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("returns", ["str", "Summary"])
def test_an_answer_cut_at_the_limit_is_no_success_and_a_cut_body_is_asked_for_again(
    tmp_path: Path, server: LlmServer, api: str, returns: str
) -> None:
    """Case 30."""
    server.control(answer_tokens=20)
    asking = Asking(tmp_path, server, 12, f'{PRICES}, api="{api}", max_output_tokens=50', returns, faults=CUT)
    ran = asking.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 6, "quarantined": 6})
    failures = {one["key"]: one for one in asking.place.failures()}
    assert set(failures) == {0, 1, 2, 3, 4, 5}
    assert {one["kind"] for one in failures.values()} == {"invalid"}
    assert all("cut off at max_output_tokens=50" in one["error"] for one in failures.values())
    assert {asking.asked[str(n)] for n in range(6)} == {1}
    assert {asking.asked[str(n)] for n in (6, 7)} == {2}
    assert {row["key"] for row in asking.place.export()} == set(range(6, 12))


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [("refusal", "the model refused to answer"), ("content_filter", "content filter cut the answer off")],
)
def test_refusals_and_filters_have_reasons_of_their_own(
    tmp_path: Path, server: LlmServer, api: str, fault: str, words: str
) -> None:
    asking = Asking(tmp_path, server, 3, f'{PRICES}, api="{api}"', faults={1: fault})
    ran = asking.run()
    assert ran.counts == {"succeeded": 2, "quarantined": 1}
    (failure,) = asking.place.failures()
    assert (failure["kind"], failure["attempts"]) == ("invalid", 1)
    assert words in failure["error"]
    assert asking.asked["1"] == 1


def test_what_does_not_fit_is_sent_back_once(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, 4, returns="Summary", faults={1: "misfit*1", 2: "misfit", 3: "misfit_json"})
    ran = asking.run()
    assert ran.counts == {"succeeded": 2, "quarantined": 2}
    assert asking.asked == {"0": 1, "1": 2, "2": 2, "3": 2}
    assert {one["key"] for one in asking.place.failures()} == {2, 3}
    assert all("does not fit, also not when asked again" in one["error"] for one in asking.place.failures())
    row = next(row for row in asking.place.export() if row["key"] == 1)
    assert isinstance(row["outputs"]["answer"]["urgent"], bool)
    assert ran.status["models"][0]["repairs"] == 3
    with sqlite3.connect(tmp_path / ".onward/onward.db") as store:
        kept = [json.loads(text) for (text,) in store.execute("SELECT received FROM failures ORDER BY record")]
    assert len(kept) == 2
    assert all(kept)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("401", "401"),
        ("quota", "exceeded your current quota"),
        ("model", "model does not exist"),
        ("schema", "refuses the schema"),
    ],
)
def test_what_would_fail_for_everybody_stops_the_run_at_once(
    tmp_path: Path, server: LlmServer, fault: str, words: str
) -> None:
    """Case 28."""
    server.control(at={"POST /v1/responses": fault})
    asking = Asking(tmp_path, server, records=500)
    ran = asking.run()
    assert (ran.code, ran.counts) == (4, {"pending": 500})
    assert len(server.log()) <= 40
    assert asking.place.failures() == []
    assert words in ran.said
    plain(ran.said)
    server.reset()
    assert asking.run().counts == {"succeeded": 500}


def test_a_key_that_is_revoked_in_the_middle(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=300)
    running = asking.place.start("run", "job.py", env=asking.environment)
    until(lambda: len(asking.asked) >= 100)
    server.control(key="another")
    assert running.wait(60) == 4
    counts = asking.place.status()["counts"]
    assert counts["succeeded"] + counts["pending"] == 300
    assert counts["succeeded"] >= 80
    said = (tmp_path / "said.txt").read_text()
    assert KEY not in said
    server.control(key=KEY)
    assert asking.run().counts == {"succeeded": 300}


@pytest.mark.parametrize("how", ["503", "html", "refused"])
def test_an_outage_costs_no_attempts_and_few_requests(tmp_path: Path, server: LlmServer, how: str) -> None:
    """Case 26."""
    asking = Asking(tmp_path, server, records=600, step="retry=onward.Retry(attempts=1)")
    running = asking.place.start("run", "job.py", env=asking.environment)
    until(lambda: len(asking.asked) >= 100)
    before = len(server.log())
    server.control(outage=how, outage_seconds=6)
    assert running.wait(90) == 0
    during = [line for line in server.log()[before:] if line["status"] != 200 or line["fault"]]
    assert len(during) <= 60
    assert asking.place.status()["counts"]["succeeded"] == 600
    said = (tmp_path / "said.txt").read_text()
    assert "model small at 127.0.0.1: calls fail" in said
    assert "goes on: model small at 127.0.0.1 is open" in said


def test_a_429_costs_no_attempt_and_all_wait_as_long_as_it_says(tmp_path: Path, server: LlmServer) -> None:
    server.control(requests_per_minute=600, burst_seconds=1, retry_after=1, rate_headers=False)
    asking = Asking(tmp_path, server, records=60, step="retry=onward.Retry(attempts=1)")
    ran = asking.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 60})
    assert 429 in {line["status"] for line in server.log()}
    assert "is open" not in ran.said  # what was waited out without a word ends without one


def test_the_limit_that_is_declared_provokes_no_429(tmp_path: Path, server: LlmServer) -> None:
    server.control(requests_per_minute=1200, burst_seconds=1)
    asking = Asking(tmp_path, server, records=80, model=f"{PRICES}, requests_per_minute=1200")
    ran = asking.run()
    assert ran.counts == {"succeeded": 80}
    assert {line["status"] for line in server.log()} == {200}


def test_max_concurrency_holds(tmp_path: Path, server: LlmServer) -> None:
    server.control(most_open=3, latency=0.1)
    asking = Asking(tmp_path, server, records=30, model=f"{PRICES}, max_concurrency=3")
    assert asking.run().counts == {"succeeded": 30}
    assert {line["status"] for line in server.log()} == {200}


def test_a_server_that_has_only_the_older_api_is_found_out(tmp_path: Path, server: LlmServer) -> None:
    server.control(chat_only=True)
    asking = Asking(tmp_path, server, records=30, returns="Summary")
    assert asking.run().counts == {"succeeded": 30}
    assert len(server.log("/v1/chat/completions")) == 30
    assert len(server.log("/v1/responses")) <= 20


def test_equal_requests_are_asked_once(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, model=f"{PRICES}, dedupe=True")
    rows = [{"id": n, "text": f"the same {n % 3}"} for n in range(60)]
    asking.place.write("in.jsonl", rows)
    text = (tmp_path / "job.py").read_text().replace("[[key={{ row.id }}]] ", "")
    (tmp_path / "job.py").write_text(text)
    ran = asking.run("--limit", "30")
    assert len(server.log()) == 3
    assert "27 requests were answered by what an equal one had brought" in ran.said
    ran = asking.run()
    assert ran.counts == {"succeeded": 60}
    assert len(server.log()) == 3
    answers = {row["key"]: row["outputs"]["answer"] for row in asking.place.export()}
    assert all(answers[n] == answers[n % 3] for n in range(60))
    assert ran.status["cost"]["requests"] == 3


# Money.


BUDGET = f"{PRICES}, max_output_tokens=60, budget="


def test_a_budget_is_never_overrun_and_raising_it_goes_on(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=200, model=BUDGET + "0.02")
    ran = asking.run()
    assert ran.code == 4
    assert 0.01 < ran.status["cost"]["spent_usd"] <= 0.02
    assert 0 < ran.counts["succeeded"] < 200
    assert ran.counts["succeeded"] + ran.counts["pending"] == 200
    assert "stopped: the budget of model small is used up: $0.02 ($0.0" in ran.said
    assert all(line.count("is used up") <= 1 for line in ran.said.splitlines())
    assert asking.run().code == 4
    assert asking.run("--budget", "10").counts == {"succeeded": 200}
    assert set(asking.asked.values()) == {1}


ASKED_AFTER_SENDING = """
from onward.llm import Model, Prompt

job = onward.Job("tickets", source=onward.jsonl("in.jsonl", key="id"))
model = Model("small", PRICES, max_output_tokens=60, budget=BUDGET)

@job.effect("ticket", key="id", deadline=60, settle=0)
async def answer(record, idempotency_key) -> dict:
    started(record["id"], "answer")
    return {"note": await model.ask(Prompt("{{ text }}"), text=record["text"])}
""".replace("PRICES", PRICES)


@pytest.mark.parametrize(("fault", "budget"), [("", "0.0000001"), ("429", "10"), ("400", "10")])
def test_what_a_model_refuses_says_nothing_about_what_the_step_has_sent_before(
    tmp_path: Path, server: LlmServer, fault: str, budget: str
) -> None:
    place = Place(tmp_path, ASKED_AFTER_SENDING.replace("BUDGET", budget))
    place.write("in.jsonl", [{"id": "k", "text": f"[[fault={fault}]]" if fault else "well"}])
    for _ in range(2):
        assert place.run("--wait", "0", env=server.environment).counts == {"unconfirmed": 1}
    assert place.calls() == ["k"]


def test_a_budget_in_tokens(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=200, model="max_output_tokens=60, budget=Budget(tokens=3000)")
    ran = asking.run()
    assert ran.code == 4
    cost = ran.status["cost"]
    assert 1500 < cost["tokens_in"] + cost["tokens_out"] <= 3000


def test_what_was_under_way_at_a_kill_counts_as_spent(tmp_path: Path, server: LlmServer) -> None:
    server.control(latency=0.3)
    asking = Asking(tmp_path, server, records=60, model=BUDGET + "10")
    running = asking.place.start("run", "job.py", env=asking.environment)
    until(lambda: len(asking.asked) >= 10 and server.control()["open"] >= 8)
    running.send_signal(signal.SIGKILL)
    running.wait()
    server.control(latency=0.01)
    ran = asking.run()
    assert ran.counts == {"succeeded": 60}
    cost = ran.status["cost"]
    assert 1 <= cost["lost"] <= 40
    answered = (4.0 * cost["tokens_in"] + 12.0 * cost["tokens_out"]) / 1e6
    assert cost["spent_usd"] > answered
    assert sum(asking.asked.values()) <= 60 + cost["lost"]
    with sqlite3.connect(tmp_path / ".onward/onward.db") as store:
        assert store.execute("SELECT count(*) FROM reserved WHERE requests > 0").fetchone() == (0,)


def test_a_budget_holds_for_worker_processes_too(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=60, model=BUDGET + "0.02", step="process=True")
    ran = asking.run(timeout=180)
    assert ran.code == 4
    assert 0.01 < ran.status["cost"]["spent_usd"] <= 0.02
    assert asking.run("--budget", "10").counts == {"succeeded": 60}
    assert set(asking.asked.values()) == {1}


@pytest.mark.parametrize(
    ("model", "words", "told"),
    [
        ("max_output_tokens=60, budget=1", (), "its price is not known"),
        (PRICES, ("--budget", "5"), "none of its models has one"),
        (f"{PRICES}, budget=1", (), "a budget needs max_output_tokens"),
    ],
)
def test_budgets_that_cannot_be_kept_are_refused_before_anything_is_asked(
    tmp_path: Path, server: LlmServer, model: str, words: tuple[str, ...], told: str
) -> None:
    asking = Asking(tmp_path, server, model=model)
    ended = asking.place.onward("run", "job.py", *words, env=asking.environment)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert not (tmp_path / ".onward").exists()
    assert server.log() == []


def test_without_a_key_nothing_is_asked(tmp_path: Path) -> None:
    with llm_server(tmp_path) as server:
        asking = Asking(tmp_path, server)
        ran = asking.place.run(env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
        assert (ran.code, ran.counts) == (4, {"pending": 20})
        assert "OPENAI_API_KEY is not set" in ran.said


# Killed.


def test_a_kill_makes_nothing_anew_that_was_recorded(tmp_path: Path, server: LlmServer) -> None:
    asking = Asking(tmp_path, server, records=400)
    for _ in range(3):
        running = asking.place.start("run", "job.py", env=asking.environment)
        done = sum(asking.asked.values())
        until(lambda done=done: sum(asking.asked.values()) >= done + 80)
        running.send_signal(signal.SIGKILL)
        running.wait()
    ran = asking.run()
    assert ran.counts == {"succeeded": 400}
    assert len(asking.asked) == 400
    assert sum(asking.asked.values()) <= 400 + 3 * 2 * 20  # calls in progress and answers that wait for their commit


def until(true: object, seconds: float = 60.0) -> None:
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it has not come about in time"
        time.sleep(0.05)
