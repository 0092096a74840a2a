"""The job that a prompt and a file make: its version, its checks, and the same job in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onward import prompting
from onward.errors import Invalid, OnwardError, UsageError
from onward.job.job import Job
from onward.job.loading import load_reference
from onward.prompting import Recipe, read_recipe

SCHEMA = {"type": "object", "properties": {"team": {"enum": ["a", "b"]}}, "required": ["team"]}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    (tmp_path / "in.csv").write_text("id,body\n1,a\n")
    (tmp_path / "t.txt").write_text("system: Be brief.\n---\n{{ body }}\n")
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    return read_recipe("in.csv", ["id"], "t.txt", {"name": "small"}, schema="s.json")


def version(recipe: Recipe) -> str:
    return prompting.make(recipe).plan().steps[0].version


def test_the_job_is_named_after_its_input_and_has_one_step(recipe: Recipe) -> None:
    job = prompting.make(recipe)
    assert (job.name, [step.name for step in job.steps]) == ("prompt-in", ["answer"])
    assert [model.name for model in job.plan().models] == ["small"]
    named = read_recipe("data/calls.2024.jsonl.gz", ["id"], "t.txt", {"name": "small"})
    assert (named.name, prompting.store_beside("data/calls.2024.jsonl.gz")) == (
        "prompt-calls.2024",
        "data/.onward/onward.db",
    )


def test_its_version_covers_texts_model_parameters_and_schema_and_nothing_else(recipe: Recipe, tmp_path: Path) -> None:
    before = version(recipe)
    model = recipe.model
    others = [
        replace(recipe, user=["{{ body }}!", *recipe.user[1:]]),
        replace(recipe, system=["Be long.", *recipe.user[1:]]),
        replace(recipe, system=None),
        replace(recipe, model={"name": "large"}),
        replace(recipe, model=model | {"temperature": 0.5}),
        replace(recipe, model=model | {"max_output_tokens": 50}),
        replace(recipe, schema=SCHEMA | {"required": []}),
        replace(recipe, schema=None),
    ]
    assert len({before, *map(version, others)}) == len(others) + 1
    limits = {"requests_per_minute": 9, "max_concurrency": 3, "prices": {"input": 1, "output": 1}, "dedupe": True}
    (tmp_path / "other.csv").write_text("id,body\n")
    (tmp_path / "elsewhere.txt").write_text((tmp_path / "t.txt").read_text().replace("\n", "\r\n"))
    (tmp_path / "spread.json").write_text(json.dumps(SCHEMA, indent=4))
    same = read_recipe(
        "other.csv",
        ["body"],
        "elsewhere.txt",
        model | limits,
        schema="spread.json",
        name="else",
        csv={"delimiter": ";"},
    )
    assert version(same) == before
    budget = {"budget": 5.0, "max_output_tokens": 50, "prices": {"input": 1, "output": 1}}
    assert version(replace(recipe, model=model | budget)) == version(others[5])


def test_another_process_makes_the_same_job_whatever_has_become_of_the_files(recipe: Recipe, tmp_path: Path) -> None:
    job = prompting.make(recipe)
    for name in ("t.txt", "s.json", "in.csv"):
        (tmp_path / name).unlink()
    again = load_reference(job.reference)
    assert again.reference == job.reference
    program = "import sys; from onward.job.loading import load_reference; from onward.job.plan import JobReference\n"
    program += "print(load_reference(JobReference(*eval(sys.argv[1]))).plan().steps[0].version)"
    told = subprocess.run(
        [sys.executable, "-c", program, repr(tuple(job.reference))], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == version(recipe) == again.plan().steps[0].version


async def _answered(job: Job, row: Any) -> Any:
    return await job.steps[0].function(row)


def test_a_row_that_the_template_cannot_be_filled_in_with_is_invalid(recipe: Recipe) -> None:
    import asyncio

    (place,) = prompting.prompt_of(recipe).missing([])
    assert place == ("body", "t.txt, line 3")
    with pytest.raises(Invalid, match=r"t\.txt, line 3: the template needs the variable 'body', which is not given"):
        asyncio.run(_answered(prompting.make(recipe), {"id": "1"}))


def test_the_check_passes_what_the_template_does_without(recipe: Recipe) -> None:
    prompting.check(recipe)
    prompting.check(replace(recipe, user=["{{ colour | default('') }} {{ row['id'] }}", "t.txt", 1]))
    with pytest.raises(UsageError, match=r"the template needs 'colour'; in\.csv has no such column"):
        prompting.check(replace(recipe, user=["{{ colour }}", "t.txt", 1]))


def test_a_file_that_begins_with_no_record_is_for_the_run_to_judge(recipe: Recipe, tmp_path: Path) -> None:
    for content in (b"", b"\n \n", b"[1]\n", b"{\n", b"\xff\n"):
        (tmp_path / "in.jsonl").write_bytes(content)
        prompting.check(replace(recipe, input="in.jsonl"))
    (tmp_path / "in.jsonl").write_bytes(b'\xef\xbb\xbf\n{"id": 1, "text": "a"}')
    with pytest.raises(UsageError, match=r"\(columns: id, text\)"):
        prompting.check(replace(recipe, input="in.jsonl"))


def test_two_texts_of_the_system_are_one_too_many(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Be kind to {{ body }}.")
    with pytest.raises(UsageError, match=r"t.txt, line 1: the system's text stands here and in system.txt; keep one"):
        read_recipe("in.csv", ["id"], "t.txt", {"name": "small"}, system="system.txt")
    (tmp_path / "t.txt").write_text("{{ body }}")
    made = read_recipe("in.csv", ["id"], "t.txt", {"name": "small"}, system="system.txt")
    assert prompting.prompt_of(made).render(body="a") == ("Be kind to a.", "a")


@pytest.mark.parametrize(
    "name", ["in.tsv", "in.csv", "in.CSV.gz", "in.jsonl", "in.ndjson", "in.jsonl.gz", "in.parquet"]
)
def test_the_suffix_says_what_a_file_is(name: str, recipe: Recipe) -> None:
    prompting.make(replace(recipe, input=name))


@pytest.mark.parametrize("name", ["in", "in.json", "in.xlsx", "in.gz", "in.parquet.gz"])
def test_other_suffixes_are_refused(name: str, recipe: Recipe) -> None:
    with pytest.raises(OnwardError, match=name):
        prompting.make(replace(recipe, input=name))


def test_a_delimiter_is_for_csv(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes("id;body\n1;Müller\n".encode("cp1252"))
    prompting.check(replace(recipe, csv={"delimiter": ";", "encoding": "cp1252"}))
    with pytest.raises(UsageError, match=r"in\.jsonl is no CSV file by its name"):
        prompting.make(replace(recipe, input="in.jsonl", csv={"delimiter": ";"}))
