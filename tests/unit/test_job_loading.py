from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_files import EmptySource, fresh_imports, write

from onward.errors import DeclarationError, UsageError
from onward.job import registry
from onward.job.job import Job
from onward.job.loading import load_job, load_reference
from onward.job.plan import JobReference

ONE = """
job = Job("one", EmptySource())
@job.step
def step(value): return value
"""
TWO = (
    ONE
    + """
other = Job("second job", EmptySource())
"""
)


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with fresh_imports():
        yield


def refused(spec: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_job(spec)
    return str(caught.value)


def test_a_file_with_one_job_needs_no_name(tmp_path: Path) -> None:
    file = write(tmp_path / "triage.py", ONE)
    for spec in ("triage.py", "./triage.py", str(file), "triage.py:job", "triage.py:one", "triage:job"):
        assert load_job(spec).name == "one"
    job = load_job("triage.py")
    assert job.reference == JobReference(file, None, "one")
    assert job.folder == tmp_path
    assert sys.modules["triage"].__dict__["job"] is job
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_file_with_two_jobs_needs_one(tmp_path: Path) -> None:
    write(tmp_path / "two.py", TWO)
    assert load_job("two.py:other") is not load_job("two.py:job")
    assert load_job("two.py:second job").name == "second job"
    assert refused("two.py") == "two.py has 2 jobs; add one's name, job, other"
    assert refused("two.py:third") == "two.py has no job 'third' (choices: job, other)"


def test_two_jobs_of_one_name_are_told_apart_by_variable(tmp_path: Path) -> None:
    write(tmp_path / "two.py", ONE + "again = Job('one', EmptySource())")
    assert refused("two.py:one") == "two.py has 2 jobs named 'one'; give the variable, job, again"
    assert load_job("two.py:again").steps == ()


def test_imported_jobs_do_not_count_beside_the_files_own(tmp_path: Path) -> None:
    write(tmp_path / "other.py", ONE.replace('"one"', '"elsewhere"'))
    write(tmp_path / "mine.py", "from other import job as elsewhere\n" + ONE)
    write(tmp_path / "thin.py", "from other import job")
    assert load_job("mine.py").name == "one"
    assert load_job("mine.py:elsewhere").name == "elsewhere"
    thin = load_job("thin.py")
    assert thin.name == "elsewhere"
    assert thin.reference.file == tmp_path / "thin.py"


def test_a_job_made_by_a_helper_belongs_to_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    write(tmp_path / "lib" / "maker.py", "def make(name): return Job(name, EmptySource('in.jsonl'))")
    text = "import sys\nsys.path.insert(0, 'lib')\nfrom maker import make\njob = make('made')"
    write(tmp_path / "jobs" / "job.py", text)
    job = load_job("jobs/job.py")
    assert job.folder == tmp_path / "jobs"
    assert job.open_source().location == str(tmp_path / "jobs" / "in.jsonl")


def test_the_job_files_folder_is_importable(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "beside.py").write_text("NAME = 'from beside'")
    write(tmp_path / "deep" / "job.py", "from beside import NAME\njob = Job(NAME, EmptySource())")
    assert load_job("deep/job.py").name == "from beside"


def test_an_edit_shows_at_once(tmp_path: Path) -> None:
    write(tmp_path / "job.py", "job = Job('a', EmptySource())")
    assert load_job("job.py").name == "a"
    write(tmp_path / "job.py", "job = Job('b', EmptySource())")
    assert load_job("job.py").name == "b"


def test_a_job_file_named_like_a_loaded_module_leaves_that_alone(tmp_path: Path) -> None:
    import json

    write(tmp_path / "json.py", ONE)
    assert load_job("json.py").name == "one"
    assert sys.modules["json"] is json


def test_types_of_a_job_file_work(tmp_path: Path) -> None:
    text = """
    import pickle
    from pydantic import BaseModel
    class Ticket(BaseModel):
        part: "Part"
    class Part(BaseModel):
        size: int
    job = Job("typed", EmptySource(), record=Ticket)
    @job.step
    def step(ticket: Ticket) -> "Part": return ticket.part
    made = pickle.loads(pickle.dumps(Ticket(part=Part(size=1))))
    """
    file = write(tmp_path / "typed.py", text)
    file.write_text("from __future__ import annotations\n" + file.read_text())
    plan = load_job("typed.py").plan()
    assert plan.record_validate is not None
    assert plan.record_validate({"part": {"size": "3"}}).part.size == 3


def test_a_package(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "names.py").write_text("NAME = 'sale'")
    write(tmp_path / "shop" / "jobs.py", "from .names import NAME\njob = Job(NAME, EmptySource('in.jsonl'))")
    for spec in ("shop.jobs:job", "shop.jobs:sale", "shop.jobs"):
        job = load_job(spec)
        assert job.reference == JobReference(tmp_path / "shop" / "jobs.py", "shop.jobs", "sale")
        assert job.open_source().location == str(tmp_path / "shop" / "in.jsonl")
    assert "attempted relative import" in refused("shop/jobs.py")
    write(tmp_path / "shop" / "script.py", SCRIPT)
    assert load_reference(JobReference(tmp_path / "shop" / "script.py", "shop.script", "one")).name == "one"
    assert load_job("shop.script:job").steps[0].name == "step"
    assert refused("shop.nowhere:job").startswith("there is no file and no module shop.nowhere")
    (tmp_path / "shop" / "bad.py").write_text("\n1 / 0")
    file = tmp_path / "shop" / "bad.py"
    assert refused("shop.bad:job") == f"{file}:2: ZeroDivisionError: division by zero"
    (tmp_path / "shop" / "lacking.py").write_text("import nothing_like_it")
    assert "lacking.py:1: ModuleNotFoundError: No module named 'nothing_like_it'" in refused("shop.lacking:job")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nowhere.py", "there is no file {folder}/nowhere.py"),
        ("nowhere.py:job", "there is no file {folder}/nowhere.py"),
        ("no/where", "there is no file {folder}/no/where"),
        ("nowhere", "there is no file and no module nowhere; give path/to/job.py"),
        ("no.where:job", "there is no file and no module no.where"),
        ("", "'' names no job"),
        (":job", "':job' names no job"),
        ("job.py:", "'job.py:' names no job"),
        ("what is this", "'what is this' names no job"),
        (".", "'.' names no job"),
        ("./", "cannot be read: Is a directory"),
    ],
)
def test_what_names_no_job(tmp_path: Path, spec: str, words: str) -> None:
    assert words.format(folder=tmp_path) in refused(spec)


def test_a_file_without_a_job(tmp_path: Path) -> None:
    write(tmp_path / "none.py", "def make(): return Job('x', EmptySource())")
    assert refused("none.py") == "none.py declares no job: it has no Job(…) at its top level"
    assert refused("none.py:x") == "none.py has no job 'x' (choices: none)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (", "{file}:5: SyntaxError: '(' was never closed"),
        ("\nimport nothing_like_it", "{file}:6: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("def f():\n    return 1 / 0\nf()", "{file}:6: ZeroDivisionError: division by zero"),
        ("import broken", "{folder}/broken.py:1: SyntaxError"),
        ("import failing", "{file}:5: KeyError: 'x'"),
        ("e = ValueError('first\\nsecond')\ne.add_note('note')\nraise e", "{file}:7: ValueError: first"),
        ("raise SystemExit(3)", "{file}:5: the file ends the process (sys.exit(3)) when it is loaded"),
        (
            "from onward.errors import SourceError\nraise SourceError('gone')",
            "{file}:6: onward.errors.SourceError: gone",
        ),
        ("x = '\\ud800\0'", "{file}"),
    ],
)
def test_faults_of_a_job_file_are_told_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "broken.py").write_text("x = (")
    (tmp_path / "failing.py").write_text("{}['x']")
    file = tmp_path / "bad.py"
    file.write_text("\n\n\n\n" + text)
    with pytest.raises(UsageError) as caught:
        load_job("bad.py")
    assert str(caught.value).startswith(words.format(file=file, folder=tmp_path))
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None
    assert "bad" not in sys.modules


def test_a_wrong_declaration_passes_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "wrong.py", ONE + "@job.step\ndef more(value, nothing): ...")
    with pytest.raises(DeclarationError, match=r"wrong\.py:8: step 'more': nothing declared before it"):
        load_job("wrong.py")


SCRIPT = (
    ONE
    + """
from onward.job import registry
def run(job):
    if registry.loading():
        raise registry.StopLoading
    open("ran", "w").close()
run(job)
late = Job("late", EmptySource())
if __name__ == "__main__":
    open("main", "w").close()
"""
)


def test_a_script_that_runs_its_job_is_only_loaded(tmp_path: Path) -> None:
    file = write(tmp_path / "script.py", SCRIPT)
    assert load_job("script.py").name == "one"
    assert load_job("script.py:one").name == "one"
    assert load_reference(JobReference(file, None, "one")).name == "one"
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "main").exists()
    assert not registry.loading()


FIND_AGAIN = """
from pathlib import *
from onward.job.loading import load_reference
from onward.job.plan import JobReference
reference = {!r}
job = load_reference(reference)
print(job.name, job.reference == reference)
"""


def test_references_are_found_again_in_another_process(tmp_path: Path) -> None:
    file = write(tmp_path / "script.py", SCRIPT)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    module = write(tmp_path / "shop" / "jobs.py", ONE)
    for reference in (JobReference(file, None, "one"), JobReference(module, "shop.jobs", "one")):
        done = subprocess.run(
            [sys.executable, "-c", FIND_AGAIN.format(reference)],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path != str(tmp_path))},
        )
        assert (done.stdout.strip(), done.stderr) == ("one True", "")


def test_a_script_knows_its_own_reference(tmp_path: Path) -> None:
    write(tmp_path / "script.py", ONE + "print(job.reference)")
    done = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == repr(JobReference(tmp_path / "script.py", None, "one"))


def test_a_package_run_as_a_module_knows_its_name(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    file = write(tmp_path / "shop" / "jobs.py", ONE + "print(job.reference)")
    done = subprocess.run(
        [sys.executable, "-m", "shop.jobs"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == repr(JobReference(file, "shop.jobs", "one"))


def test_references_that_cannot_be_loaded(tmp_path: Path) -> None:
    file = write(tmp_path / "job.py", ONE)
    write(tmp_path / "twice.py", TWO.replace("second job", "one"))
    for reference, words in (
        (JobReference(None, None, "nb"), "declared in a notebook"),
        (JobReference(file, None, "gone"), "declares no job named 'gone' when it is loaded"),
        (JobReference(tmp_path / "twice.py", None, "one"), "more than one job named 'one'"),
        (JobReference(tmp_path / "away.py", None, "one"), "there is no file"),
    ):
        with pytest.raises(UsageError, match=words):
            load_reference(reference)


def test_jobs_are_noticed_only_while_a_file_is_loaded() -> None:
    Job("unseen", EmptySource())
    with registry.noticing() as outer:
        first = Job("a", EmptySource())
        with registry.noticing() as inner:
            second = Job("b", EmptySource())
    assert (outer, inner) == ([first], [second])
