from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from job_files import EmptySource, fresh_imports, notebook, write

from onward.job.job import Job
from onward.job.loading import load_job
from onward.policy.versions import changed_parts

BASE = """
import re
from dataclasses import dataclass
from aides import outside

job = Job("v", EmptySource())
LIMIT = 5
TABLE = {"a": 1}
UNRELATED = 1

@dataclass
class Row:
    text: str
    size: int = 0

def decorate(function):
    return function

def deepest(text):
    return text.strip()

def helper(text):
    return deepest(text)[:LIMIT]

def unrelated(text):
    return text

@job.step
@decorate
def clean(row: Row, context: object) -> str:
    '''What it does.'''
    found = [helper(word) for word in row.text.split(",")]  # each word
    return TABLE.get(found[0], "") or outside(found)

@job.step(timeout=5)
def other(row: Row, clean: str) -> str:
    return clean

if __name__ == "__main__":
    LIMIT = 7
"""


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """Versions of the steps of a job file with this text."""

    def load(text: str = BASE, helpers: str = "def outside(x): return x", **params: Any) -> list[str]:
        (tmp_path / "aides.py").write_text(helpers)
        job = load_job(str(write(tmp_path / "job.py", text)))
        return [step.version for step in job.plan(job.bind(params or None).params).steps]

    with fresh_imports():
        yield load


def changed(old: str, new: str, text: str = BASE) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # each word", ""),
        ("    '''What it does.'''\n", ""),
        ("What it does.", "What it really does."),
        ('split(",")', "split(',')"),
        ('split(",")', 'split(\n        ",",\n    )'),
        ("return text.strip()", "return (text.strip())"),
        ("LIMIT = 5", "LIMIT = 0x5  # five"),
        ('TABLE = {"a": 1}', 'TABLE = {\n    "a": 1,\n}'),
        ("UNRELATED = 1", "UNRELATED = 2"),
        ("def unrelated(text):\n    return text", "def unrelated(text):\n    return text + text"),
        ("@job.step\n", "@job.step(timeout=9, max_output=5, concurrency=1)\n"),
        ("@job.step\n", "@job.step()\n"),
        ("    LIMIT = 7", "    LIMIT = 8"),
        ("context: object", "context"),
        ("import re\n", "import json\n"),
        ('Job("v", EmptySource())', 'Job("v", EmptySource("elsewhere.jsonl"), concurrency=2)'),
        ("@dataclass\nclass Row:\n    text", '@dataclass\nclass Row:\n    """A row."""\n    text'),
    ],
)
def test_what_does_not_count(versions: Any, old: str, new: str) -> None:
    assert versions(changed(old, new)) == versions()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('split(",")', 'split(";")'),
        ("helper(word) for", "helper(word + '') for"),
        ("return deepest(text)[:LIMIT]", "return deepest(text)[1:LIMIT]"),
        ("return text.strip()", "return text.lstrip()"),
        ("LIMIT = 5", "LIMIT = 6"),
        ('TABLE = {"a": 1}', 'TABLE = {"a": 2}'),
        ('TABLE = {"a": 1}', 'TABLE = {"a": 1}\nTABLE["b"] = 2'),
        ('TABLE = {"a": 1}', 'TABLE = {"a": 1}\nTABLE.update(b=2)'),
        ('TABLE = {"a": 1}', 'TABLE = {"a": 1}\nfor key in "bc":\n    TABLE[key] = 2'),
        ("LIMIT = 5", "LIMIT = 5\nLIMIT += 1"),
        ("    return function", "    return function or None"),
        ("@job.step\n@decorate", "@job.step"),
        ("-> str:\n    '''", "-> object:\n    '''"),
    ],
)
def test_what_counts_for_the_step_that_depends_on_it(versions: Any, old: str, new: str) -> None:
    before, after = versions(), versions(changed(old, new))
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_class_counts_for_every_step_that_names_it(versions: Any) -> None:
    before, after = versions(), versions(changed("size: int = 0", "size: int = 1"))
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_what_an_imported_module_does_is_not_seen(versions: Any) -> None:
    assert versions() == versions(helpers="def outside(x): return 'something else'")


def test_moving_things_about_does_not_count(versions: Any) -> None:
    first = "def deepest(text):\n    return text.strip()\n\n"
    assert versions(changed("def decorate", first + "def decorate", changed(first, ""))) == versions()


def test_a_version_is_twelve_hexadecimal_digits_or_the_given_text(versions: Any) -> None:
    assert all(len(version) == 12 and int(version, 16) >= 0 for version in versions())
    named = changed("@job.step\n", '@job.step(version="2024-a")\n')
    assert versions(named)[0] == versions(changed('split(",")', "split()", named))[0] == "2024-a"
    assert versions(changed("@job.step\n", "@job.step(version=3)\n"))[0] == "3"


SPREAD = '''
job = Job("v", EmptySource())
SIZES = [1, 2.5, 3j, b"x", None, ..., True, "a" "b"]
FIND = lambda text, at=0: text.find("x", at)
class Parser:
    mark = "-"
    def parse(self, text, *, strict=False):
        match text.split(self.mark):
            case [first, *rest] if strict:
                return first, rest
            case {"a": 1, **others} | others:
                return f"{others!r:>{len(text)}} {'nested'} {text=}"
        raise ValueError(f"no {text}")
@job.step
async def everything(row, context, *, params=None) -> "list[str]":
    """Doc."""
    global COUNT
    COUNT = 1
    async with context as c, row as r:
        await c
    try:
        if (n := len(SIZES)) > 1 and not FIND(row[1:2], at=-1):
            return [x async for x in c if x is not None] or {**row, "k": {1, *r}}
    except* (ValueError, KeyError) as group:
        del n
    def inner(a, /, b: int = 1, *args, c=2, **kw): yield from (a @ b, lambda: kw)
    return Parser().parse(row)
'''.replace(", *, params=None", "")


def test_the_version_of_a_given_text_never_changes(versions: Any) -> None:
    """If this fails, every checkpoint in the world would become stale: undo the change, or raise the format's number
    and say so in the changelog."""
    assert versions(SPREAD) == ["c7698ebae9f9"]


_SAME = """
import sys
sys.path.insert(0, {folder!r})
from onward.job.loading import load_job
print([step.version for step in load_job({file!r}).plan().steps])
"""


def test_versions_are_the_same_in_every_process(tmp_path: Path, versions: Any) -> None:
    expected = versions(SPREAD)
    script = _SAME.format(folder=str(Path(__file__).parent), file=str(tmp_path / "job.py"))
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.stdout.strip() == str(expected)


def version_of(function: Callable[..., Any], **options: Any) -> str:
    job = Job("v", EmptySource())
    job.step(**options)(function)
    return job.plan().steps[0].version


def test_variables_of_an_enclosing_function_count_by_value() -> None:
    def make(factor: Any, tool: Callable[[int], int]) -> Callable[..., Any]:
        def scale(value: int) -> Any:
            return tool(value * factor)

        return scale

    def tool_a(value: int) -> int:
        return value

    def tool_b(value: int) -> int:
        return -value

    assert version_of(make(2, tool_a)) == version_of(make(2, tool_a))
    assert version_of(make(2, tool_a)) != version_of(make(3, tool_a))
    assert version_of(make(None, tool_a)) != version_of(make(3, tool_a))
    assert version_of(make(2, tool_a)) != version_of(make(2, tool_b))
    assert version_of(make([1, {"a": object()}], tool_a))


def test_local_helpers_and_classes_count() -> None:
    def first() -> Callable[..., Any]:
        class Local:
            size = 1

        def step(value: Local) -> Any: ...

        return step

    def second() -> Callable[..., Any]:
        class Local:
            size = 2

        def step(value: Local) -> Any: ...

        return step

    def third() -> Callable[..., Any]:
        class Local:
            size = 1

        def step(value: Local) -> Any: ...

        return step

    def version(function: Callable[..., Any]) -> str:
        from onward.job.versions import NO_NAMES, declared_source, step_code

        return step_code(
            function, declared_source(function), plain=NO_NAMES, schema=None, uses=(), param=str, ignored=()
        )

    assert version(first()) == version(third())
    assert version(first()) != version(second())


def test_an_edit_after_the_declaration_does_not_pass_for_the_code_that_runs(tmp_path: Path) -> None:
    with fresh_imports():
        file = write(tmp_path / "job.py", BASE)
        (tmp_path / "aides.py").write_text("def outside(x): return x")
        job = load_job(str(file))
        before = [step.version for step in job.plan().steps]
        write(file, "\n\n\n" + BASE.replace("LIMIT = 5", "LIMIT = 6"))
        assert [step.version for step in job.plan().steps] == before
        assert [step.version for step in load_job(str(file)).plan().steps] != before


CELLS = [
    "from job_files import EmptySource\nfrom onward.job.job import Job\njob = Job('nb', EmptySource())",
    "LIMIT = 5\nNAMES = ['a']",
    "def helper(text):\n    return text[:LIMIT]",
    "class Tool:\n    size = 1\n    def use(self): return self.size",
    "@job.step\ndef clean(text):\n    return helper(text), Tool, NAMES",
]


def _notebook_version(*cells: str) -> str:
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        notebook(cell, number, names)
    return str(names["job"].plan().steps[0].version)


def test_all_cells_of_a_notebook_are_one_file() -> None:
    before = _notebook_version(*CELLS)
    assert _notebook_version(*CELLS) == before
    assert _notebook_version(*CELLS[:3], "x = 1", *CELLS[3:]) == before
    for cell, old, new in (
        (1, "5", "6"),
        (1, "'a'", "'b'"),
        (2, "[:LIMIT]", "[1:LIMIT]"),
        (3, "= 1", "= 2"),
        (4, "(text)", "(text, )"),
    ):
        edited = [text.replace(old, new) if number == cell else text for number, text in enumerate(CELLS)]
        assert (_notebook_version(*edited) == before) is (cell == 4 and new == "(text, )"), (cell, new)


def _without_source(body: str, limit: int = 5) -> Callable[..., Any]:
    names: dict[str, Any] = {"LIMIT": limit, "__name__": "made_up"}
    exec(compile(textwrap.dedent(body), "<made up>", "exec"), names)
    function = names["step"]
    assert callable(function)
    return function  # type: ignore[no-any-return]


def test_a_function_without_source_is_known_by_its_bytecode() -> None:
    plain = "def step(value):\n    return [item for item in value][:LIMIT]"
    before = version_of(_without_source(plain))
    assert version_of(_without_source("# comment\n\n" + plain)) == before
    assert version_of(_without_source(plain.replace("item for", "(item, 1) for"))) != before
    assert version_of(_without_source(plain, limit=6)) != before


ASKING = """
import onward
from onward.llm import Model, Prompt

model = Model("small")
prompt = Prompt("Sum up: {{ text }}")
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))

@job.step
async def a(record) -> str:
    return await model.ask(prompt, text=record["text"])
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("Sum up", "Be brief", ["prompt"]),
        ('Model("small")', 'Model("large")', ["model"]),
        ('Model("small")', 'Model("small", max_output_tokens=9)', ["model"]),
        ('record["text"]', 'record["body"]', ["code"]),
        ("-> str", "-> int", ["code"]),
        ("@job.step", "@job.step(uses=[1])", ["code"]),
        ('Model("small")', 'Model("small", requests_per_minute=9)', []),
        ("@job.step", "# a word\n@job.step", []),
    ],
)
def test_what_a_version_is_made_of_tells_what_changed(tmp_path: Path, old: str, new: str, changed: list[str]) -> None:
    assert ASKING.count(old) == 1
    before, after = (
        load_job(str(write(tmp_path / f"{name}.py", text))).plan(None).steps[0]
        for name, text in (("before", ASKING), ("after", ASKING.replace(old, new)))
    )
    assert (before.version == after.version) == (not changed)
    assert changed_parts([dict(before.parts)], dict(after.parts)) == changed
    assert changed_parts([{}], dict(after.parts)) == []
