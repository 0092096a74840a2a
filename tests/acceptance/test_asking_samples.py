"""`rerun --sample`: the new prompt on some records first, beside the old one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import onward
from acceptance.asking_jobs import ASKING, asked, rows
from acceptance.jobs import Place
from onward.job.loading import load_job

NEWER = ASKING.replace('"In one sentence: ', '"[[tokens=12]] Briefly: ')
ONE_REFUSED = NEWER.replace(
    'text=record["text"]', 'text=record["text"] + ("[[fault=refusal]]" if record["id"] == "r025" else "")'
)


def sampled(place: Place, *words: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.fine("rerun", "job.py", "--json", *words, **options))
    return found


def test_old_and_new_are_laid_side_by_side(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(100))
        place.run(env=server.environment)
        older = {row["key"]: row["outputs"] for row in place.export()}
        place.job(ONE_REFUSED)
        which = sampled(place, "--sample", "10", "--dry-run")
        asked_before = len(server.log("/v1/responses"))
        found = sampled(place, "--sample", "10", env=server.environment)
        log = server.log("/v1/responses")[asked_before:]
    assert which["keys"] == found["keys"] == [f"r{n:03}" for n in range(5, 100, 10)]
    assert which["dry_run"]
    assert found["of"] == 100
    old, new = found["older"], found["newer"]
    assert len(log) == new["requests"] == 10
    assert (old["records"], old["succeeded"], old["quarantined"], old["invalid"]) == (10, 10, 0, {})
    assert (new["records"], new["succeeded"], new["quarantined"]) == (10, 9, 1)
    assert new["invalid"] == {"the model refused to answer": 1}
    per_record = sum(4 * line["input_tokens"] + 12 * line["output_tokens"] for line in log) / 1e6 / 10
    assert new["usd"] == pytest.approx(per_record)
    assert old["usd"] > 0
    assert old["seconds"] > 0
    lengths = [len(json.dumps(older[key]["summarise"], separators=(",", ":"))) for key in found["keys"]]
    assert old["characters"] == pytest.approx(sum(lengths) / 10, abs=0.1)
    first = found["examples"][0]
    assert first["older"] == older["r005"]
    assert first["newer"]["summarise"]["summary"] != older["r005"]["summarise"]["summary"]
    assert found["rest"]["records"] == 90
    assert found["rest"]["p10"] < found["rest"]["usd"] < found["rest"]["p90"]
    assert found["rest"]["usd"] == pytest.approx(90 * per_record, rel=0.01)
    assert found["rest"]["by_older_versions"] == []

    exported = {row["key"]: row for row in place.export()}
    assert len(exported) == 100
    assert exported["r025"]["outputs"] == older["r025"]
    assert exported["r005"]["generation"] == 1
    both = [row for row in place.export("all.jsonl", "--generation", "all") if row["key"] in ("r005", "r025")]
    assert [(row["key"], row["generation"]) for row in both] == [("r005", 0), ("r005", 1), ("r025", 0)]
    assert place.status()["stale"] == 90


def test_people_read_it_as_a_table(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(30))
        place.run(env=server.environment)
        place.job(NEWER)
        said = place.fine("rerun", "job.py", "--sample", "8", env=server.environment)
        assert "8 records of 30, made anew; both results are kept" in said
        for row in ("succeeded", "did not fit at first", "output, characters a record", "cost a record", "seconds a"):
            assert row in said
        assert said.count("  older  {") == 3
        assert said.count("  newer  {") == 3
        assert "Making the other 22 anew would cost about $0.0" in said
        assert "onward rerun job.py --stale, then onward run job.py" in said
        place.fine("rerun", "job.py", "--stale")
        assert place.run(env=server.environment).status["stale"] == 0
        assert "no finished record is stale" in place.fine("rerun", "job.py", "--sample", "8")


def test_a_step_that_is_not_stale_can_be_tried_again(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(20))
        place.run(env=server.environment)
        found = sampled(place, "--sample", "5", "--step", "summarise", env=server.environment)
        assert (found["of"], found["newer"]["succeeded"]) == (20, 5)
        assert found["rest"]["records"] == 20
        assert len(server.log("/v1/responses")) == 25


def test_steps_before_are_taken_over_and_their_costs_are_not_compared(tmp_path: Path) -> None:
    two = (
        ASKING
        + """
@job.step
async def again(record, summarise: Summary) -> str:
    return await model.ask(prompt, text=summarise.summary)
"""
    )
    with asked(tmp_path, two) as (place, server):
        place.write("in.jsonl", rows(10))
        place.run(env=server.environment)
        place.job(two.replace("summarise.summary)", 'summarise.summary + "!")'))
        found = sampled(place, "--sample", "4", env=server.environment)
    assert found["newer"]["requests"] == found["older"]["requests"] == 4
    assert set(found["examples"][0]["older"]) == set(found["examples"][0]["newer"]) == {"again"}


def test_without_models_it_works_without_money(tmp_path: Path) -> None:
    plain = (
        'job = onward.Job("case", source=onward.jsonl("in.jsonl", "id"))\n@job.step\ndef a(r):\n    return "x" * 9\n'
    )
    place = Place(tmp_path, plain)
    place.write("in.jsonl", [{"id": n} for n in range(7)])
    place.run()
    place.job(plain.replace("* 9", "* 4"))
    said = place.fine("rerun", "job.py", "--sample", "3")
    assert "3 records of 7" in said
    assert "cost" not in said
    assert "older  xxxxxxxxx" in said
    assert "newer  xxxx" in said
    assert "Making the other 4 anew. Next: onward rerun job.py --stale" in said
    place.job(plain.replace("* 9", "* 5"))
    found = onward.rerun(load_job(str(tmp_path / "job.py")), sample=2)
    assert found.newer["characters"] == 5


def test_it_takes_up_no_other_record(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(40))
        place.run("--limit", "20", env=server.environment)
        place.job(NEWER)
        found = sampled(place, "--sample", "6", env=server.environment)
        assert found["of"] == 20
        assert len(server.log("/v1/responses")) == 26
    counts = place.status()["counts"]
    assert (counts["succeeded"], counts["pending"]) == (20, 20)


@pytest.mark.parametrize("words", [("r001",), ("--all",), ("--from", "keys")])
def test_it_chooses_by_itself(tmp_path: Path, words: tuple[str, ...]) -> None:
    place = Place(tmp_path, ASKING)
    refused = place.onward("rerun", "job.py", "--sample", "3", *words)
    assert refused.returncode == 2
    assert "--sample chooses by itself" in refused.stderr


def test_a_prompt_without_a_job_file_is_tried_on_some_rows(tmp_path: Path) -> None:
    words = ("prompt", "in.jsonl", "--key", "id", "--template", "t.txt", "--model", "small", "--price-in", "4")
    words += ("--price-out", "12")
    with asked(tmp_path) as (place, server):
        (tmp_path / "t.txt").write_text("In one sentence: {{ text }}")
        place.write("in.jsonl", rows(60))
        env = server.environment
        assert place.onward(*words, env=env).returncode == 0
        (tmp_path / "t.txt").write_text("Briefly: {{ text }}")
        estimate = place.fine(*words, "--estimate", env=env)
        assert "60 records, 60 done, 0 to go" in estimate
        said = place.fine(*words, env=env)
        assert "60 kept from the older prompt; re-running the old ones would cost about $0.0" in said
        hint = next(line for line in said.splitlines() if line.startswith("to try the new one on 50"))
        assert hint.endswith("--price-out 12 --sample 50")
        found = json.loads(place.fine(*words, "--sample", "5", "--json", env=env))
        assert found["newer"]["succeeded"] == 5
        assert found["rest"]["records"] == 55
    assert len(server.log("/v1/responses")) == 65


def test_a_sample_that_is_stopped_is_finished_by_the_next_run(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(20))
        place.run(env=server.environment)
        place.job(NEWER)
        server.control(key="another")
        stopped = place.onward("rerun", "job.py", "--sample", "5", env=server.environment)
        assert stopped.returncode == 4
        assert "the run stopped" in stopped.stdout
        assert "5 records of them not yet at an end" in stopped.stdout
        assert len(place.export()) == 20
        server.control(key="local-key")
        after = place.run(env=server.environment)
    assert after.counts == {"succeeded": 20}
    assert after.status["stale"] == 15
