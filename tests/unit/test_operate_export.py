"""Exports: source order, one snapshot, generations, states, and no reading that stays open."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest
from operate_jobs import Batch

import onward
from onward import api
from onward.errors import ExportError, UsageError


def batch_of(folder: Path, number: int) -> Batch:
    batch = Batch(folder, [{"id": key, "v": key} for key in range(number)])
    batch.run()
    return batch


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_an_exported_line_is_as_the_contract_has_it(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 3)
    out = tmp_path / "out.jsonl"
    assert onward.export(batch.job(), out, store=batch.store) == 3
    assert lines(out)[2] == {
        "key": 2,
        "input": {"id": 2, "v": 2},
        "outputs": {"a": "2a1", "b": "2b1", "c": "2c1"},
        "state": "succeeded",
        "versions": {"a": "1", "b": "1", "c": "1"},
        "generation": 0,
    }
    assert onward.export(batch.job(), tmp_path / "flat.csv", flat=True, store=batch.store) == 3
    assert (tmp_path / "flat.csv").read_text().splitlines()[0] == "key,id,v,a,b,c,state,generation"


def test_source_order_is_kept_through_edits_of_the_source(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 5)
    batch.rows = [{"id": 9, "v": 9}, *reversed(batch.rows)]
    batch.run()
    assert [one.key for one in onward.results(batch.job(), store=batch.store)] == [9, 4, 3, 2, 1, 0]


def test_the_newest_finished_generation_is_exported_while_a_newer_one_is_under_way(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 3)
    batch.steps["b"] = "2"
    onward.rerun(batch.job(), stale=True, store=batch.store)
    batch.fails["b"] = {1: lambda: onward.Rejected("no longer")}
    assert batch.outputs()[1]["b"] == "1b1"
    batch.run()
    job, store = batch.job(), batch.store
    found = {one.key: one for one in onward.results(job, store=store)}
    assert {key: (one.outputs["b"], one.generation, one.state) for key, one in found.items()} == {
        0: ("0b2", 1, "succeeded"),
        1: ("1b1", 0, "succeeded"),
        2: ("2b2", 1, "succeeded"),
    }
    assert [one.outputs for one in onward.results(job, state="quarantined", store=store)] == [{"a": "1a1"}]
    assert onward.export(job, tmp_path / "all.jsonl", generation="all", store=store) == 5
    told = [(one["key"], one["generation"]) for one in lines(tmp_path / "all.jsonl")]
    assert told == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]


def test_outputs_of_removed_steps_stay_in_the_history_and_out_of_exports(tmp_path: Path) -> None:
    batch = Batch(tmp_path, [{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    batch.fails["c"] = {1: lambda: ValueError("no"), 2: lambda: ValueError("no")}
    batch.run()
    del batch.steps["b"]
    batch.fails["c"] = {2: lambda: ValueError("no")}
    batch.run()
    assert batch.outputs() == {1: {"a": "1a1", "c": "1c1"}}
    assert batch.outputs(state="failed") == {2: {"a": "2a1"}}


def test_vanished_records_are_exported_only_by_name(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 4)
    batch.rows = batch.rows[:2]
    batch.run()
    assert list(batch.outputs()) == [0, 1]
    assert list(batch.outputs(state="vanished")) == [2, 3]


@pytest.mark.parametrize(
    "words", [{"state": "done"}, {"generation": "first"}, {"generation": "all", "state": "failed"}, {"format": "xml"}]
)
def test_wrong_words_are_refused_before_anything_is_written(tmp_path: Path, words: dict[str, str]) -> None:
    batch = batch_of(tmp_path, 1)
    with pytest.raises(onward.UsageError):
        onward.export(batch.job(), tmp_path / "out.jsonl", store=batch.store, **words)  # type: ignore[arg-type]
    assert not (tmp_path / "out.jsonl").exists()


def test_no_reading_stays_open_while_rows_are_used(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 1200)
    rows = onward.results(batch.job(), store=batch.store)
    assert next(rows).key == 0
    writer = apsw.Connection(batch.store)
    writer.execute("UPDATE instances SET pass = pass")
    assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)  # nobody is in the way
    writer.close()
    assert len(list(rows)) == 1199


def test_an_export_is_one_snapshot_whatever_happens_meanwhile(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 1200)
    job, store = batch.job(), batch.store
    rows = onward.results(job, store=store)
    assert next(rows).outputs["a"] == "0a1"
    batch.steps["a"] = "2"
    batch.rows.append({"id": 5000, "v": 5000})
    onward.rerun(batch.job(), all=True, store=store)
    batch.run()
    assert [one.outputs["a"] for one in rows] == [f"{key}a1" for key in range(1, 1200)]
    failing = Batch(tmp_path / "other", [{"id": key, "v": key} for key in range(600)])
    failing.folder.mkdir()
    failing.fails["b"] = {599: lambda: ValueError("no"), 0: lambda: ValueError("no")}
    failing.run()
    rows = onward.results(failing.job(), state="failed", store=failing.store)
    assert dict(next(rows).outputs) == {"a": "0a1"}
    failing.fails.clear()
    failing.run()
    assert [dict(one.outputs) for one in rows] == [{"a": "599a1"}]


def test_large_outputs_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    import tracemalloc

    batch = Batch(tmp_path, [{"id": key, "v": key} for key in range(40)])
    batch.steps = {"a": "1"}
    batch.values["a"] = "x" * (1 << 20)
    batch.run()
    tracemalloc.start()
    assert sum(1 for _ in onward.results(batch.job(), store=batch.store)) == 40
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_inputs_that_are_not_stored_are_exported_as_null(tmp_path: Path) -> None:
    job = onward.Job("light", source=onward.iterable(lambda: [1, 2]), store_inputs=False)

    @job.step
    def double(number: int) -> int:
        return 2 * number

    store = str(tmp_path / "s.db")
    onward.run(job, store=store)
    assert [(one.input, one.outputs) for one in onward.results(job, store=store)] == [
        (None, {"double": 2}),
        (None, {"double": 4}),
    ]


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "in.jsonl", "link"])
def test_an_export_never_replaces_the_store_or_the_input(tmp_path: Path, name: str) -> None:
    batch = batch_of(tmp_path, 3)
    job = batch.job()
    (tmp_path / "link").symlink_to("in.jsonl")
    before = (tmp_path / "in.jsonl").read_bytes()
    with pytest.raises((UsageError, ExportError), match="give the export another name"):
        onward.export(job, tmp_path / name, store=batch.store)
    assert (tmp_path / "in.jsonl").read_bytes() == before
    assert api.status(job, store=batch.store)["counts"]["succeeded"] == 3


def test_from_the_store_alone_an_export_does_not_replace_it(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, 3)
    with pytest.raises(UsageError, match="belongs to the job's store"):
        onward.export("batch", tmp_path / "store.db", store=f"sqlite:///{batch.store}")
