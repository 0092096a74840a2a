"""The bill: what was spent and what is still to be, with its range, in `status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.asking_jobs import ASKING, asked, rows
from acceptance.jobs import Place


def test_status_tells_the_cost_to_finish(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(60))
        first = place.run("--limit", "20", env=server.environment)
        cost = first.status["cost"]
        assert first.status["source_complete"]
        told = cost["to_finish"]
        assert told["why"] is None
        assert told["p10"] < told["usd"] < told["p90"]
        assert told["usd"] == pytest.approx(2 * cost["spent_usd"], rel=1e-3)
        line = next(line for line in place.fine("status", "job.py").splitlines() if line.startswith("cost: "))
        assert f"{cost['tokens_in']:,} tokens in, {cost['tokens_out']:,} out), about $0.0" in line
        assert " to finish (0.0" in line
        done = place.run(env=server.environment)
    assert done.code == 0
    assert done.status["cost"]["to_finish"] == {"usd": 0, "p10": 0, "p90": 0, "why": None}
    assert done.status["time_to_finish"] == {"seconds": 0, "p10": 0, "p90": 0}
    spent = done.status["cost"]["spent_usd"] - cost["spent_usd"]
    assert told["p10"] * 0.8 < spent < told["p90"] * 1.2
    assert "to finish" not in place.fine("status", "job.py")


def test_an_unknown_price_is_unknown_and_tokens_are_told(tmp_path: Path) -> None:
    with asked(tmp_path, ASKING.replace(', prices={"input": 4.0, "output": 12.0}', "")) as (place, server):
        place.write("in.jsonl", rows(20))
        cost = place.run("--limit", "10", env=server.environment).status["cost"]
    assert cost["spent_usd"] is None
    assert cost["tokens_in"] > 0
    assert cost["to_finish"]["usd"] is None
    assert "price" in cost["to_finish"]["why"]
    assert "cost: an unknown amount spent" in place.fine("status", "job.py")


def test_before_five_samples_and_for_steps_that_ask_nothing(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(20))
        few = place.run("--limit", "3", env=server.environment).status["cost"]["to_finish"]
    assert (few["usd"], few["p10"], few["p90"]) == (None, None, None)
    assert "fewer than 5 records are through with summarise" in few["why"]
    place.job('job = onward.Job("plain", source=onward.jsonl("in.jsonl", key="id"))\n@job.step\ndef a(record): ...\n')
    assert place.run("--limit", "1").status["cost"]["to_finish"]["usd"] == 0
    assert "cost:" not in place.fine("status", "job.py")


def test_the_time_to_finish_is_told_with_its_range_once_a_run_has_been_at_work(tmp_path: Path) -> None:
    slow = """
import asyncio
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=2)

@job.step
async def work(record):
    await asyncio.sleep(0.1)
    if len(list(HERE.glob("done.*"))) >= 130:
        raise onward.Fatal("enough")
    (HERE / f"done.{record['id']}").touch()
"""
    place = Place(tmp_path, slow)
    place.write("in.jsonl", rows(1000))
    stopped = place.run()
    assert stopped.code == 4
    told = stopped.status["time_to_finish"]
    assert told["p10"] < told["seconds"] < told["p90"]
    assert told["seconds"] > 800 / 130
    assert "to finish: about " in place.fine("status", "job.py")


def test_without_the_job_its_costs_are_known_from_the_store(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(20))
        there = place.run("--limit", "10", env=server.environment).status["cost"]["to_finish"]
    store = ("--store", ".onward/onward.db", "--job", "case")
    assert json.loads(place.fine("status", *store, "--json"))["cost"]["to_finish"] == there


def test_the_end_of_a_run_says_what_it_cost_and_what_all_have(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(20))
        first = place.fine("run", "job.py", "--limit", "10", env=server.environment)
        first_in = sum(line["input_tokens"] for line in server.log("/v1/responses"))
        second = place.fine("run", "job.py", env=server.environment)
        all_in = sum(line["input_tokens"] for line in server.log("/v1/responses"))
    assert "cost: $0.0" in first
    assert f"spent ({first_in:,} tokens in, " in first
    (line,) = [line for line in second.splitlines() if line.startswith("cost of this run: ")]
    assert f"({all_in - first_in:,} tokens in, " in line
    assert "in all: $0.0" in line
    assert f"({all_in:,} tokens in, " in line
