"""`store_inputs=False`: values come from the source again, and never from a place where another record stands now."""

from __future__ import annotations

import json
from pathlib import Path

import onward

JOB = "unstored"


def run(folder: Path, **how: object) -> tuple[onward.RunResult, list[int]]:
    seen: list[int] = []
    job = onward.Job(JOB, source=onward.jsonl(str(folder / "in.jsonl"), key="id"), concurrency=1, store_inputs=False)

    @job.step(version=1)
    async def double(record: dict[str, int]) -> int:
        seen.append(record["v"])
        return 2 * record["v"]

    return onward.run(job, store=str(folder / "s.db"), **how), seen  # type: ignore[arg-type]


def write(folder: Path, values: dict[int, int]) -> None:
    lines = [json.dumps({"id": key, "v": value}) + "\n" for key, value in values.items()]
    (folder / "in.jsonl").write_text("".join(lines))


def results(folder: Path) -> dict[int, int]:
    return {one.key: one.outputs["double"] for one in onward.results(JOB, store=str(folder / "s.db"))}


def test_values_are_read_again_on_resume(tmp_path: Path) -> None:
    write(tmp_path, {1: 1, 2: 2, 3: 3})
    assert run(tmp_path, limit=1)[1] == [1]
    assert run(tmp_path)[1] == [2, 3]
    assert results(tmp_path) == {1: 2, 2: 4, 3: 6}


def test_a_changed_source_is_judged_before_its_records_are_worked_on(tmp_path: Path) -> None:
    write(tmp_path, {1: 1, 2: 2, 3: 3, 4: 4})
    run(tmp_path, limit=1)
    write(tmp_path, {9: 9, 1: 1, 2: 22, 3: 3, 4: 4})
    ended, seen = run(tmp_path)
    assert ended.exit_code == 0, ended.reason
    assert sorted(seen) == [3, 4, 9, 22]
    assert results(tmp_path) == {9: 18, 1: 2, 2: 44, 3: 6, 4: 8}
    assert onward.status(JOB, store=str(tmp_path / "s.db"))["stale"] == 0


def test_a_source_that_is_gone_is_no_fault_of_its_records(tmp_path: Path) -> None:
    write(tmp_path, {1: 1, 2: 2, 3: 3})
    run(tmp_path, limit=1)
    (tmp_path / "in.jsonl").rename(tmp_path / "away.jsonl")
    for _ in range(4):
        ended, seen = run(tmp_path)
        assert ended.exit_code == 4
        assert seen == []
        assert ended.counts["failed"] == ended.counts["quarantined"] == 0
    (tmp_path / "away.jsonl").rename(tmp_path / "in.jsonl")
    assert run(tmp_path)[0].exit_code == 0
