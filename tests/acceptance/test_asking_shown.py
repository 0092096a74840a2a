"""What requests to models came to stands with the record, and so does an answer that could not be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.asking_jobs import asked


def test_show_has_what_each_generation_asked(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", [{"id": "a", "text": "plain"}, {"id": "b", "text": "[[key=b]] [[fault=misfit*1]]"}])
        assert place.run(env=server.environment).code == 0
        plain = json.loads(place.fine("show", "job.py", "a", "--json"))["generations"]
        (used,) = plain[0]["usage"]
        log = server.log("/v1/responses")
    (asked_once,) = [line for line in log if line["key"] is None]
    assert (used["step"], used["model"], used["requests"], used["repairs"]) == ("summarise", "small", 1, 0)
    assert used["tokens_in"] == asked_once["input_tokens"]
    assert used["tokens_out"] == asked_once["output_tokens"]
    assert used["spent_usd"] == pytest.approx((4 * used["tokens_in"] + 12 * used["tokens_out"]) / 1e6)
    assert used["seconds"] > 0
    repaired = json.loads(place.fine("show", "job.py", "b", "--json"))["generations"][0]["usage"][0]
    assert (repaired["requests"], repaired["repairs"]) == (2, 1)
    table = place.fine("show", "job.py", "b")
    assert "2 (1 to repair)" in table
    assert "$0.00" in table


def test_an_answer_that_could_not_be_used_stands_with_its_failure(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", [{"id": "a", "text": "[[fault=refusal]]"}, {"id": "b", "text": "fine"}])
        ran = place.run("--log-format", "json", env=server.environment)
        assert ran.counts == {"quarantined": 1, "succeeded": 1}
    (failed,) = place.failures()
    assert failed["kind"] == "invalid"
    assert failed["received"]
    shown = json.loads(place.fine("show", "job.py", "a", "--json"))
    assert shown["failure"]["received"] == failed["received"]
    assert [one["requests"] for one in shown["generations"][0]["usage"]] == [1]
    assert failed["received"] in place.fine("show", "job.py", "a")
    assert failed["received"] not in ran.said
    place.write("again.jsonl", [failed])
    assert "1 quarantined record" in place.fine("release", "job.py", "--from", "again.jsonl", "--dry-run")
