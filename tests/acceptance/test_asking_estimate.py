"""`run --estimate`: a bill before anything is asked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import onward
from acceptance.asking_jobs import asked, rows
from acceptance.jobs import Place
from onward.job.loading import load_job


def estimate(place: Place, *words: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(place.fine("run", "job.py", "--estimate", "--json", *words))
    return found


def test_before_the_first_run_it_counts_and_says_what_to_do(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(30))
        found = estimate(place)
        assert (found["total"], found["to_go"], found["done"]) == (30, 30, 0)
        said = place.fine("run", "job.py", "--estimate")
        assert server.log() == []
    assert "30 records, 30 to go" in said
    assert "cannot be told: fewer than 5 records are through with summarise" in said
    assert "onward run job.py --limit 50" in said
    assert not (tmp_path / ".onward").exists()


def test_it_asks_nothing_changes_nothing_and_is_right(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(60))
        begun = place.run("--limit", "20", env=server.environment).status
        asked_before = len(server.log())
        store = tmp_path / ".onward" / "onward.db"
        before = hashlib.sha256(store.read_bytes()).digest()
        found = estimate(place)
        assert hashlib.sha256(store.read_bytes()).digest() == before
        assert len(server.log()) == asked_before
        assert (found["total"], found["to_go"], found["done"]) == (60, 40, 20)
        found["cost"].pop("to_make_anew")  # type: ignore[attr-defined]
        assert found["cost"] == begun["cost"]
        part = estimate(place, "--limit", "10")
        assert part["to_go"] == 10
        quarter = part["cost"]["to_finish"]["usd"]  # type: ignore[index]
        assert quarter == pytest.approx(found["cost"]["to_finish"]["usd"] / 4, rel=1e-3)  # type: ignore[index]
        said = place.fine("run", "job.py", "--estimate")
        assert "60 records, 20 done, 40 to go" in said
        assert " to finish (0.0" in said
        assert onward.estimate(load_job(str(tmp_path / "job.py")))["to_go"] == 40


def test_results_of_an_older_prompt_are_told_with_what_they_would_cost(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(30))
        spent = place.run(env=server.environment).status["cost"]["spent_usd"]
        assert "stale" not in place.fine("run", "job.py", "--estimate")
        job = tmp_path / "job.py"
        job.write_text(job.read_text().replace('Prompt("', 'Prompt("Please: '))
        found = estimate(place)
        assert (found["done"], found["to_go"], found["stale"]) == (30, 0, 30)
        assert found["cost"]["to_make_anew"]["usd"] == pytest.approx(spent, rel=0.01)  # type: ignore[index]
        said = place.fine("run", "job.py", "--estimate")
        assert "30 records that are done are stale: onward rerun job.py --stale has them made anew, for about $" in said


def test_what_is_not_read_yet_is_counted(tmp_path: Path) -> None:
    lazy = 'onward.iterable(lambda: (json.loads(line) for line in (HERE / "in.jsonl").open()), key="id")'
    job = f'job = onward.Job("case", source={lazy})\n@job.step\ndef a(record):\n    raise onward.Fatal("stop")\n'
    place = Place(tmp_path, job)
    place.write("in.jsonl", [{"id": n} for n in range(20_000)])
    stopped = place.onward("run", "job.py", "--concurrency", "1")
    assert stopped.returncode == 4
    found = estimate(place)
    assert (found["total"], found["to_go"]) == (20_000, 20_000)
    assert found["cost"]["to_finish"]["usd"] == 0  # type: ignore[index]


def test_what_failed_is_tried_again_and_in_the_estimate(tmp_path: Path) -> None:
    failing = 'job = onward.Job("case", source=onward.jsonl("in.jsonl", "id"))\n@job.step\ndef a(r):\n    1 / 0\n'
    place = Place(tmp_path, failing)
    place.write("in.jsonl", rows(3))
    assert place.run().counts == {"failed": 3}
    assert estimate(place)["to_go"] == 3
