"""Case 53: a compressed file that is cut off is never taken for a whole one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from acceptance.jobs import Place, echo_job, plain

WHOLE, CUT_AFTER = 200, 119


@pytest.mark.parametrize("on_bad", ["stop", "quarantine"])
def test_a_cut_file_is_no_whole_one_and_the_rest_runs_once_it_is_there(tmp_path: Path, on_bad: str) -> None:
    place = Place(tmp_path, echo_job('onward.jsonl("in.jsonl.gz", key="id")', on_bad=f'"{on_bad}"'))
    place.bring("53.truncated.jsonl.gz", "in.jsonl.gz")
    ran = place.run()
    first = place.calls()
    assert ran.code == 4
    assert "the file is cut off" in ran.said
    assert ran.status["source_complete"] is False
    assert "was read:" not in ran.said
    assert sorted(first) == list(range(1, CUT_AFTER + 1))
    plain(ran.said)

    place.bring("53.whole.jsonl.gz", "in.jsonl.gz")
    again = place.run()
    assert (again.code, again.counts) == (0, {"succeeded": WHOLE})
    assert again.status["source_complete"] is True
    assert sorted(place.calls()[len(first) :]) == list(range(CUT_AFTER + 1, WHOLE + 1))
    assert [row["key"] for row in place.export()] == list(range(1, WHOLE + 1))


def test_a_cut_file_that_stays_as_it_is_stays_an_error(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job('onward.jsonl("53.truncated.jsonl.gz", key="id")'), "53.truncated.jsonl.gz")
    for _ in range(2):
        ran = place.run()
        assert ran.code == 4
        assert "the file is cut off" in ran.said
        assert ran.counts == {"succeeded": CUT_AFTER}
    assert len(place.calls()) == CUT_AFTER
    told = place.fine("status", "job.py")
    assert "the input is not read to its end" in told
    assert "%" not in told
    assert "run job.py" in told.splitlines()[-1], "not an export of a part as if it were the whole"


def test_two_members_are_one_file(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job('onward.jsonl("53.two_members.jsonl.gz", key="id")'), "53.two_members.jsonl.gz")
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 6})
    assert [row["key"] for row in place.export()] == [1, 2, 3, 4, 5, 6]


def test_bad_bytes_are_told_by_line_and_never_replaced(tmp_path: Path) -> None:
    name = "53.bad_utf8.jsonl"
    place = Place(tmp_path, echo_job(f'onward.jsonl("{name}", key="id")', on_bad='"quarantine"'), name)
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 2, "quarantined": 2})
    assert f"{name}:2" in ran.said
    assert f"{name}:3" in ran.said
    assert [row["key"] for row in place.export()] == ["b1", "b4"]
    failures = place.failures()
    assert [one["key"] for one in failures] == [f"{name}:2", f"{name}:3"]
    assert all("not UTF-8: byte 0x" in one["error"] for one in failures)
    assert "\ufffd" not in json.dumps(failures, ensure_ascii=False)


def shards(folder: Path) -> tuple[Place, list[str], list[bytes]]:
    """Five gzip files of 100 records, the third of them half uploaded: the place, all keys, the whole files."""
    (folder / "shards").mkdir()
    keys = [f"{shard}-{number}" for shard in range(5) for number in range(100)]
    whole = []
    for shard in range(5):
        rows = [json.dumps({"id": key, "text": key * 20}) for key in keys[shard * 100 : shard * 100 + 100]]
        whole.append(gzip.compress(("\n".join(rows) + "\n").encode()))
        half = whole[shard][: len(whole[shard]) // 2] if shard == 2 else whole[shard]
        (folder / "shards" / f"part-{shard}.jsonl.gz").write_bytes(half)
    return Place(folder, echo_job('onward.jsonl("shards/*.jsonl.gz", key="id")')), keys, whole


def test_a_glob_of_shards_one_of_them_half_uploaded(tmp_path: Path) -> None:
    place, keys, whole = shards(tmp_path)
    ran = place.run()
    first = place.calls()
    assert ran.code == 4
    assert "shards/part-2.jsonl.gz:" in ran.said
    assert "the file is cut off" in ran.said
    assert set(keys[:200]) <= set(first) < set(keys[:300])

    (tmp_path / "shards" / "part-2.jsonl.gz").write_bytes(whole[2])
    again = place.run()
    assert (again.code, again.counts) == (0, {"succeeded": 500})
    assert sorted(place.calls()) == sorted(keys), "every record was worked on once"
    assert [row["key"] for row in place.export()] == keys


def test_where_bad_lines_are_set_aside_the_other_shards_go_on(tmp_path: Path) -> None:
    place, keys, whole = shards(tmp_path)
    place.job(echo_job('onward.jsonl("shards/*.jsonl.gz", key="id")', on_bad='"quarantine"'))
    ran = place.run()
    first = set(place.calls())
    assert ran.code == 4
    assert "the file is cut off" in ran.said.splitlines()[-3]
    assert {*keys[:200], *keys[300:]} < first < set(keys)
    assert (ran.counts, ran.status["source_complete"]) == ({"succeeded": len(first)}, False)

    (tmp_path / "shards" / "part-2.jsonl.gz").write_bytes(whole[2])
    moved = gzip.compress(b'{"id":"new"}\n' + gzip.decompress(whole[4]))
    (tmp_path / "shards" / "part-4.jsonl.gz").write_bytes(moved)
    again = place.run()
    assert (again.code, again.counts) == (0, {"succeeded": 501})
    assert sorted(place.calls()) == sorted([*keys, "new"]), "every record was worked on once"
    assert [row["key"] for row in place.export()] == [*keys[:400], "new", *keys[400:]]
