"""Retry, release and rerun: what is marked, where it goes on, what is kept, and that the counters stay true."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import apsw
import pytest
from operate_jobs import Batch
from pydantic import BaseModel

import onward
from onward import api


def rows(number: int) -> list[dict[str, Any]]:
    return [{"id": key, "v": key} for key in range(number)]


def bug() -> Exception:
    return ValueError("a bug")


def refused() -> Exception:
    return onward.Rejected("refused")


def history(batch: Batch, key: Any) -> list[tuple[str, str | None, str | None]]:
    shown = api.show(batch.job(), key, store=batch.store)
    return [(entry["event"], entry["step"], entry["actor"]) for entry in shown["history"]]


def test_retry_goes_on_at_the_failed_step_with_a_fresh_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    batch = Batch(tmp_path, rows(5))
    batch.fails["b"] = {1: bug, 2: bug, 3: refused}
    batch.run()
    batch.run()
    assert {one["key"]: one["failed_runs"] for one in onward.failures(batch.job(), store=batch.store)} == {
        1: 2,
        2: 2,
        3: 0,
    }
    marked = onward.retry(batch.job(), 1, 3, store=batch.store)
    assert (marked.count, marked.from_steps, marked.passed_over) == (1, {"b": 1}, {"quarantined": 1})
    assert str(marked).endswith("(retry is not for 1 quarantined); quarantined ones are for release")
    assert batch.counts() == {"succeeded": 2, "pending": 1, "failed": 1, "quarantined": 1}
    assert history(batch, 1)[-1] == ("record_retried", "b", "ada")
    shown = api.show(batch.job(), 1, store=batch.store)
    assert (shown["attempts"], shown["failed_runs"]) == (0, 0)
    batch.check()
    batch.run()
    assert batch.calls == {"b": 2}  # record 1 by retry, record 2 since it is the next run; `a` is not called again
    assert batch.counts() == {"succeeded": 2, "failed": 1, "quarantined": 2}


def test_filters_hold_together(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(8))
    batch.fails["a"] = {0: bug, 1: refused, 2: refused}
    batch.fails["b"] = {3: refused, 4: bug}
    batch.run()
    job, store = batch.job(), batch.store
    assert onward.release(job, kind="rejected", dry_run=True, store=store).count == 3
    assert onward.release(job, kind="rejected", step="b", dry_run=True, store=store).from_steps == {"b": 1}
    assert onward.release(job, 1, 3, step="a", dry_run=True, store=store).count == 1
    assert onward.retry(job, step="b", kind="bug", dry_run=True, store=store).count == 1
    assert batch.counts() == {"succeeded": 3, "failed": 2, "quarantined": 3}
    assert onward.release(job, kind="rejected", step="b", store=store).count == 1
    assert batch.counts() == {"succeeded": 3, "failed": 2, "quarantined": 2, "pending": 1}
    batch.check()


def test_retry_stale_is_for_what_failed_in_another_version_of_its_step(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(4))
    batch.fails = {"a": {0: bug}, "b": {1: bug}}
    batch.run()
    batch.steps["b"] = "2"
    assert onward.retry(batch.job(), stale=True, dry_run=True, store=batch.store).from_steps == {"b": 1}
    del batch.steps["a"]
    assert onward.retry(batch.job(), stale=True, store=batch.store).count == 2
    batch.check()


def test_rerun_is_a_new_generation_from_a_step_on(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(3))
    batch.run()
    marked = onward.rerun(batch.job(), 1, step="b", store=batch.store)
    assert (marked.count, marked.from_steps) == (1, {"b": 1})
    assert batch.counts() == {"succeeded": 2, "pending": 1}
    batch.check()
    batch.run()
    assert batch.called == [("b", 1), ("c", 1)]
    shown = api.show(batch.job(), 1, store=batch.store)
    assert [one["generation"] for one in shown["generations"]] == [0, 1]
    assert [one["succeeded"] for one in shown["generations"]] == [True, True]
    assert [len(one["checkpoints"]) for one in shown["generations"]] == [3, 3]
    assert shown["generations"][0]["checkpoints"][0] == shown["generations"][1]["checkpoints"][0]
    batch.check()


def test_a_changed_step_is_stale_until_rerun_and_only_it_and_later_ones_are_called(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(4))
    batch.run()
    batch.steps["b"] = "2"
    assert onward.status(batch.job(), store=batch.store)["stale"] == 4
    assert onward.rerun(batch.job(), stale=True, dry_run=True, store=batch.store).from_steps == {"b": 4}
    assert onward.status(batch.job(), store=batch.store)["counts"]["succeeded"] == 4
    assert onward.rerun(batch.job(), stale=True, store=batch.store).count == 4
    batch.run()
    assert batch.calls == {"b": 4, "c": 4}
    assert batch.outputs()[3] == {"a": "3a1", "b": "3b2", "c": "3c1"}
    assert onward.status(batch.job(), store=batch.store)["stale"] == 0
    assert onward.rerun(batch.job(), stale=True, store=batch.store).count == 0
    batch.check()


def test_the_default_step_is_the_first_stale_one_else_the_first(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(4))
    batch.run()
    assert onward.rerun(batch.job(), 0, store=batch.store).from_steps == {"a": 1}
    batch.steps["c"] = "2"
    assert onward.rerun(batch.job(), all=True, store=batch.store).from_steps == {"c": 3}
    batch.run()
    assert batch.calls == {"a": 1, "b": 1, "c": 4}
    batch.check()


def test_a_step_alone_chooses_the_records_that_have_it(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(2))
    batch.run()
    batch.rows += [{"id": 9, "v": 9}]
    batch.steps["x"] = "1"
    batch.run()
    job, store = batch.job(), batch.store
    assert onward.rerun(job, step="x", dry_run=True, store=store).count == 1
    assert onward.rerun(job, step="b", dry_run=True, store=store).count == 3
    assert onward.rerun(job, step="x", all=True, dry_run=True, store=store).count == 3
    assert onward.rerun(job, stale=True, dry_run=True, store=store).from_steps == {"x": 2}


def test_a_changed_input_of_a_finished_record_waits_for_rerun_and_makes_all_anew(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(3))
    batch.run()
    batch.rows[1]["v"] = 50
    batch.run()
    assert not batch.calls
    assert batch.outputs()[1]["a"] == "1a1"
    told = onward.status(batch.job(), store=batch.store)
    assert (told["stale"], told["counts"]["succeeded"]) == (1, 3)
    # The outputs of earlier steps belong to the old input, whatever step was chosen.
    assert onward.rerun(batch.job(), 1, step="c", store=batch.store).from_steps == {"a": 1}
    batch.check()
    batch.run()
    assert batch.calls == {"a": 1, "b": 1, "c": 1}
    assert batch.outputs()[1] == {"a": "50a1", "b": "50b1", "c": "50c1"}
    assert onward.status(batch.job(), store=batch.store)["stale"] == 0
    batch.check()


def test_a_stored_output_that_no_longer_decodes_waits_for_rerun(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(3))
    batch.fails["b"] = {0: bug, 1: bug, 2: bug}
    batch.run()
    batch.fails.clear()
    batch.shapes = {"a": int}
    assert batch.run().exit_code == 4
    told = onward.status(batch.job(), store=batch.store)
    assert told["counts"]["pending"] == 3
    assert [(one["count"], "rerun" in one["reason"]) for one in told["waiting"]] == [(3, True)]
    assert "rerun" in api.show(batch.job(), 0, store=batch.store)["waiting"]["reason"]
    batch.values["a"] = 5
    assert onward.rerun(batch.job(), 0, store=batch.store).from_steps == {"a": 1}
    assert onward.rerun(batch.job(), stale=True, store=batch.store).count == 2
    batch.check()
    assert batch.run().exit_code == 0
    assert batch.calls == {"a": 3, "b": 3, "c": 3}
    assert [one["succeeded"] for one in api.show(batch.job(), 0, store=batch.store)["generations"]] == [False, True]
    batch.check()


def test_a_record_that_ended_early_is_counted_apart_until_it_is_rerun(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(3))
    batch.done_at["b"] = {1}
    batch.run()
    job, store = batch.job(), batch.store
    told = onward.status(job, store=store)
    assert (told["skipped"], told["stale"], told["counts"]["succeeded"]) == (1, 0, 3)
    batch.done_at.clear()
    onward.rerun(job, 1, step="b", store=store)
    batch.check()
    batch.run()
    assert batch.called == [("b", 1), ("c", 1)]
    assert onward.status(job, store=store)["skipped"] == 0


def test_release_with_corrected_records_begins_them_anew(tmp_path: Path) -> None:
    class Row(BaseModel):
        id: int
        v: int

    batch = Batch(tmp_path, [{"id": 0, "v": 0}, {"id": 1, "v": "many"}, {"id": 2, "v": 2}, {"id": 3, "v": "few"}])
    batch.record = Row
    batch.fails["b"] = {2: refused}
    batch.run()
    job, store, file = batch.job(), batch.store, tmp_path / "fix.jsonl"
    assert batch.counts() == {"succeeded": 1, "quarantined": 3}
    assert onward.export(job, file, state="quarantined", store=store) == 3
    with pytest.raises(onward.UsageError, match=r"fix\.jsonl:1.*does not fit"):
        onward.release(job, from_file=file, store=store)
    file.write_text(file.read_text().replace('"many"', "100").replace('"few"', "3"))
    marked = onward.release(job, from_file=file, dry_run=True, store=store)
    assert (marked.count, marked.corrected) == (3, 2)
    assert batch.counts() == {"succeeded": 1, "quarantined": 3}
    batch.fails.clear()
    marked = onward.release(job, from_file=file, store=store)
    assert (marked.count, marked.corrected, marked.from_steps) == (3, 2, {"a": 2, "b": 1})
    batch.check()
    batch.run()
    assert sorted(batch.called) == [("a", 1), ("a", 3), ("b", 1), ("b", 2), ("b", 3), ("c", 1), ("c", 2), ("c", 3)]
    assert batch.outputs()[1] == {"a": "100a1", "b": "100b1", "c": "100c1"}
    assert [one.input for one in onward.results(job, store=store)][1] == {"id": 1, "v": 100}


def test_another_reading_of_the_source_does_not_undo_a_correction(tmp_path: Path) -> None:
    class Row(BaseModel):
        id: int
        v: int

    batch = Batch(tmp_path, [{"id": 0, "v": 0}, {"id": 1, "v": "many"}])
    batch.record = Row
    batch.run()
    file = tmp_path / "fix.jsonl"
    file.write_text('{"key": 1, "input": {"id": 1, "v": 100}}\n')
    onward.release(batch.job(), from_file=file, store=batch.store)
    batch.rows.insert(0, {"id": 5, "v": 5})  # read again from the start, and matched by key
    assert batch.run().exit_code == 0
    assert batch.outputs()[1]["a"] == "100a1"
    assert onward.status(batch.job(), store=batch.store)["stale"] == 0
    batch.rows[2]["v"] = 7  # the source itself was mended: its new value counts
    batch.run()
    assert onward.status(batch.job(), store=batch.store)["stale"] == 1
    onward.rerun(batch.job(), stale=True, store=batch.store)
    batch.run()
    assert batch.outputs()[1]["a"] == "7a1"
    batch.check()


def test_a_released_convict_is_tried_in_a_child_first(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(3))
    batch.fails["a"] = {1: refused}
    batch.run()
    connection = apsw.Connection(batch.store)
    connection.execute("UPDATE records SET deaths = 2, solo_deaths = 3 WHERE state = 'quarantined'")
    connection.close()
    assert onward.release(batch.job(), 1, store=batch.store).count == 1
    shown = api.show(batch.job(), 1, store=batch.store)
    assert (shown["state"], shown["deaths"], "child" in shown["waiting"]["reason"]) == ("pending", 2, True)
    batch.check()


def test_what_made_results_is_kept_once_however_many_runs(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(1))
    for key in range(3):
        batch.rows.append({"id": 10 + key, "v": 1})
        batch.run()
    connection = apsw.Connection(batch.store)
    assert connection.execute("SELECT count(*) FROM lineages").fetchone() == (1,)
    connection.close()


def test_vanished_records_are_left_alone_unless_named(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(6))
    batch.fails["b"] = {0: bug, 1: refused}
    batch.run()
    batch.rows = batch.rows[3:]
    batch.run()
    job, store = batch.job(), batch.store
    told = onward.status(job, store=store)
    assert (told["total"], told["vanished"]) == (3, 3)
    assert [step["succeeded"] for step in told["steps"]] == [3, 3, 3]
    assert onward.retry(job, all=True, store=store).count == 0
    assert onward.release(job, all=True, store=store).count == 0
    assert onward.rerun(job, all=True, dry_run=True, store=store).count == 3
    failed = api.show(job, 0, store=store)["state"] == "failed"  # or it had vanished before it was tried again
    for act, key, number in ((onward.retry, 0, int(failed)), (onward.release, 1, 1), (onward.rerun, 2, 1)):
        assert act(job, key, store=store).count == number
        batch.check()
    batch.run()
    assert not batch.calls  # what is not in the source is not started
    batch.rows = rows(6)
    batch.fails.clear()
    assert batch.run().exit_code == 0
    assert set(batch.outputs()) == set(range(6))
    batch.check()


def test_a_run_that_is_alive_takes_up_what_is_marked(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(3))
    batch.fails["c"] = {0: bug}
    marked: list[int] = []

    def once(progress: Any) -> None:
        if not marked and progress.counts["failed"]:
            batch.fails.clear()
            marked.append(onward.retry(job, all=True, store=batch.store).count)

    job = batch.job()

    @job.step(version="1")
    async def slow(record: Any) -> int:
        import asyncio

        await asyncio.sleep(1.0)
        return 1

    result = onward.run(job, store=batch.store, progress=once)
    assert marked == [1]
    assert (result.exit_code, result.counts["succeeded"]) == (0, 3)
    batch.check()


def test_many_records_are_marked_in_several_commits(tmp_path: Path) -> None:
    batch = Batch(tmp_path, rows(1300))
    batch.run()
    chosen = tmp_path / "keys"
    chosen.write_text("\n".join(str(key) for key in range(0, 1300, 2)))
    assert onward.rerun(batch.job(), from_file=chosen, store=batch.store).count == 650
    assert onward.rerun(batch.job(), all=True, step="c", store=batch.store).count == 650
    batch.check()
    assert batch.run().exit_code == 0
    assert batch.calls == {"a": 650, "b": 650, "c": 1300}
    batch.check()


def edit(batch: Batch, act: str, choice: random.Random) -> None:
    """One change from outside: to the input, the code, or what fails."""
    if act == "edit":
        choice.choice(batch.rows)["v"] += 100
    elif act == "drop" and len(batch.rows) > 3:
        batch.rows.pop(choice.randrange(len(batch.rows)))
    elif act == "add":
        key = choice.randrange(20)
        if key not in [row["id"] for row in batch.rows]:
            batch.rows.insert(choice.randrange(len(batch.rows)), {"id": key, "v": key})
    elif act == "version":
        batch.steps[choice.choice(list(batch.steps))] = str(choice.randrange(4))
    elif act == "steps":
        batch.steps = choice.choice([{"a": "1", "c": "1"}, dict.fromkeys("abcd", "1"), dict.fromkeys("abc", "1")])
    elif act == "fail":
        batch.fails.setdefault(choice.choice(list(batch.steps)), {})[choice.randrange(12)] = choice.choice(
            [bug, refused]
        )
    elif act == "heal":
        batch.fails.clear()
    elif act == "done":
        batch.done_at.setdefault("b", set()).add(choice.randrange(12))


def decide(batch: Batch, act: str, choice: random.Random) -> None:
    job, store = batch.job(), batch.store
    if act == "retry":
        onward.retry(job, all=True, store=store)
    elif act == "release":
        onward.release(job, all=True, store=store)
    elif act == "rerun":
        onward.rerun(
            job, **choice.choice([{"all": True}, {"stale": True}, {"step": next(iter(batch.steps))}]), store=store
        )
    elif act == "named":
        key = choice.choice(batch.rows)["id"]
        for decision in (onward.retry, onward.release, onward.rerun):
            try:
                decision(job, key, store=store)
            except onward.UsageError:  # it has not been read yet
                return
    elif act == "correct":
        file = batch.folder / "corrected.jsonl"
        onward.export(job, file, state="quarantined", store=store)
        given = [json.loads(line) for line in file.read_text().splitlines()]
        for one in given[::2]:
            one["input"]["v"] += 1000
        file.write_text("".join(json.dumps(one) + "\n" for one in given))
        if given:
            onward.release(job, from_file=file, store=store)


EDITS = ["edit", "drop", "add", "version", "steps", "fail", "fail", "heal", "done"]
ACTS = ["retry", "release", "rerun", "named", "correct"]


@pytest.mark.parametrize("seed", range(6))
def test_counters_stay_true_through_any_sequence(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    batch = Batch(tmp_path, rows(12))
    batch.run()
    for _ in range(25):
        act = choice.choice([*EDITS, *ACTS, *["run"] * 5])
        if act == "run":
            batch.run()
        elif act in EDITS:
            edit(batch, act, choice)
        else:
            decide(batch, act, choice)
        batch.check()
