"""Which records are meant: keys as they are typed, files of keys, and no guesses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from operate_jobs import Batch

import onward
from onward import api
from onward.operate.choices import Typed


def failing(folder: Path, keys: list[Any]) -> tuple[onward.Job, str]:
    """A job whose records all failed."""
    batch = Batch(folder, [{"id": key, "v": 1} for key in keys])
    batch.fails["b"] = {key: lambda: ValueError("no") for key in keys}
    batch.run()
    return batch.job(), batch.store


def test_keys_are_json_values_to_python(tmp_path: Path) -> None:
    job, store = failing(tmp_path, [7, "7", "seven", '"7"'])
    assert onward.retry(job, 7, store=store).count == 1
    assert api.show(job, 7, store=store)["state"] == "pending"
    assert api.show(job, "7", store=store)["state"] == "failed"
    assert onward.retry(job, "7", '"7"', store=store).count == 2


def test_typed_text_that_could_mean_two_records_is_refused_and_json_is_taken(tmp_path: Path) -> None:
    job, store = failing(tmp_path, [7, "7", "seven", 8, "nine 9"])
    with pytest.raises(onward.UsageError, match="give JSON"):
        onward.retry(job, Typed("7"), store=store)
    assert onward.retry(job, Typed('"7"'), store=store).count == 1
    assert api.show(job, Typed('"7"'), store=store)["state"] == "pending"
    assert onward.retry(job, Typed('{"key": 7}'), store=store).count == 1
    assert onward.retry(job, Typed("seven"), Typed("8"), Typed("nine 9"), store=store).count == 3


def test_a_key_of_several_fields_is_typed_as_json(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"country": "DE", "number": 7}\n')
    job = onward.Job("pairs", source=onward.jsonl(str(tmp_path / "in.jsonl"), key=("country", "number")))

    @job.step
    def fail(record: Any) -> None:
        raise ValueError("no")

    store = str(tmp_path / "s.db")
    onward.run(job, store=store)
    assert [one["key"] for one in onward.failures(job, store=store)] == [["DE", 7]]
    assert onward.retry(job, Typed('["DE", 7]'), store=store).count == 1
    assert api.show(job, ["DE", 7], store=store)["state"] == "pending"


@pytest.mark.parametrize("key", ["nobody", 12345, True, None, 1.5, {"no": "key"}])
def test_an_unknown_key_is_named_and_nothing_is_changed(tmp_path: Path, key: Any) -> None:
    job, store = failing(tmp_path, ["a", "b"])
    with pytest.raises(onward.UsageError) as caught:
        onward.retry(job, "a", key, store=store)
    assert str(key) in str(caught.value)
    assert onward.status(job, store=store)["counts"]["failed"] == 2


def test_a_file_has_keys_as_text_json_or_the_lines_of_failures(tmp_path: Path) -> None:
    job, store = failing(tmp_path, ["a", "b c", 3, "4", "e", "f"])
    lines = ["a", "", "b c", "3", '"4"', json.dumps(next(onward.failures(job, store=store, state="failed")))]
    chosen = tmp_path / "keys.txt"
    chosen.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines, '{"key": "e"}']).encode())
    assert onward.retry(job, from_file=chosen, store=store).count == 5
    assert [one["key"] for one in onward.failures(job, store=store)] == ["f"]


def test_standard_input_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, store = failing(tmp_path, ["a", "b"])

    class Stdin:
        buffer = io.BytesIO(b"a\nb\n")

    monkeypatch.setattr("sys.stdin", Stdin())
    assert onward.retry(job, from_file="-", store=store).count == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nobody", "keys.txt:2"),
        ('{"id": "a"}', 'with a "key"'),
        ('{"key": ', 'with a "key"'),
        ('{"key": null}', "null"),
        ('{"key": "a", "text": "mended"}', "a corrected record is"),
    ],
)
def test_a_bad_line_in_a_file_is_named_and_nothing_is_changed(tmp_path: Path, line: str, why: str) -> None:
    job, store = failing(tmp_path, ["a"])
    chosen = tmp_path / "keys.txt"
    chosen.write_text(f"a\n{line}\n")
    with pytest.raises(onward.UsageError, match=why):
        onward.retry(job, from_file=chosen, store=store)
    assert onward.status(job, store=store)["counts"]["failed"] == 1


def test_a_file_that_is_not_there_is_a_wrong_call(tmp_path: Path) -> None:
    job, store = failing(tmp_path, ["a"])
    with pytest.raises(onward.UsageError, match="cannot read"):
        onward.retry(job, from_file=tmp_path / "none", store=store)


def test_choosing_nothing_is_a_wrong_call_and_matching_nothing_is_not(tmp_path: Path) -> None:
    job, store = failing(tmp_path, ["a", "b"])
    for act in (onward.retry, onward.release, onward.rerun):
        with pytest.raises(onward.UsageError, match="which records"):
            act(job, store=store)
        with pytest.raises(onward.UsageError, match="exclude"):
            act(job, "a", all=True, store=store)
        with pytest.raises(onward.UsageError, match="no kind"):
            act(job, kind="unkind", store=store)
        with pytest.raises(onward.UsageError, match="steps: a, b, c"):
            act(job, step="z", store=store)
    nothing = onward.release(job, all=True, store=store)
    assert nothing.count == 0
    assert "nothing matches" in str(nothing)
    assert onward.retry(job, step="c", store=store).count == 0
    assert onward.release(job, "a", store=store).passed_over == {"failed": 1}


def test_the_only_instance_is_taken_and_several_are_listed(tmp_path: Path) -> None:
    from pydantic import BaseModel

    class Params(BaseModel):
        day: str

    (tmp_path / "in.jsonl").write_text('{"id": 1}\n')
    source = onward.jsonl(str(tmp_path / "in.jsonl"), key="id")
    job = onward.Job("daily", source=source, params=Params, instance="{day}")

    @job.step
    def only(record: Any) -> int:
        return 1

    store = str(tmp_path / "s.db")
    with pytest.raises(onward.OnwardError, match="no store"):
        onward.status(job, store=store)
    onward.run(job, params={"day": "mon"}, store=store)
    assert onward.status(job, store=store)["instance"] == "mon"
    onward.run(job, params={"day": "tue"}, store=store)
    with pytest.raises(onward.UsageError, match="'mon', 'tue'"):
        onward.status(job, store=store)
    assert onward.status(job, params={"day": "tue"}, store=store)["instance"] == "tue"
    assert onward.status(job, instance="mon", store=store)["instance"] == "mon"
    assert [one["instance"] for one in api.instances(job, store=store)] == ["mon", "tue"]
    with pytest.raises(onward.UsageError, match="no instance 'wed'"):
        onward.status(job, instance="wed", store=store)
    with pytest.raises(onward.UsageError, match="make the instance"):
        onward.status(job, instance="mon", params={"day": "tue"}, store=store)


def test_a_name_is_enough_where_only_the_store_is_at_hand(tmp_path: Path) -> None:
    job, store = failing(tmp_path, ["a"])
    told = onward.status("batch", store=store)
    assert [step["name"] for step in told["steps"]] == ["a", "b", "c"]
    with_job = onward.status(job, store=store)
    assert (told["cost"]["to_finish"]["usd"], with_job["cost"]["to_finish"]["usd"]) == (None, 0.0)
    assert {**told, "cost": None} == {**with_job, "cost": None}
    with pytest.raises(onward.UsageError, match="jobs there: batch"):
        onward.status("other", store=store)
    with pytest.raises(onward.UsageError, match="store"):
        onward.status("batch")
