"""What `--on` and `--workers` may say, and in what words the rest is refused."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from onward.cli import main
from onward.cli.workers import checked
from onward.cluster.assignment import Assignment, below, travelling_folder
from onward.cluster.order import Order
from onward.cluster.place import Place, parse
from onward.errors import UsageError
from onward.job.plan import JobReference

STORE = "postgresql://me:geheim@db/work"


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    stands_in = found("json")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: stands_in if name in ("ray", "grpc") else found(name, *rest)
    )


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("ray", Place(None, {"num_cpus": 1.0, "num_gpus": 0.0})),
        ("ray://head:10001", Place("ray://head:10001", {"num_cpus": 1.0, "num_gpus": 0.0})),
        ("ray?num_cpus=0.5&num_gpus=1", Place(None, {"num_cpus": 0.5, "num_gpus": 1.0})),
        ("ray://head:10001?num_cpus=2", Place("ray://head:10001", {"num_cpus": 2.0, "num_gpus": 0.0})),
    ],
)
def test_a_cluster_is_named(given: str, place: Place) -> None:
    assert parse(given) == place


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("dask", "there are: ray"),
        ("rayon", "there are: ray"),
        ("http://head:8265", "there are: ray"),
        ("ray://", "names no host"),
        ("ray?cpus=2", "num_cpus"),
        ("ray?num_cpus=many", "num_cpus=many is no number"),
        ("ray?num_cpus=-1", "num_cpus=-1 is no number"),
        ("ray?num_cpus=nan", "num_cpus=nan is no number"),
    ],
)
def test_others_are_refused(given: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(given)


@pytest.mark.parametrize(
    ("on", "workers", "store", "limit", "said"),
    [
        (None, 2, STORE, None, "--workers needs --on"),
        ("ray", None, STORE, None, "needs --workers"),
        ("ray", 2, None, None, "all workers reach, --store postgresql://"),
        ("ray", 2, "jobs.db", None, "all workers reach, --store postgresql://"),
        ("ray", 2, "sqlite:///jobs.db", None, "all workers reach, --store postgresql://"),
        ("ray", 2, STORE, 10, "--limit"),
    ],
)
def test_what_does_not_go_together_is_refused(
    on: str | None, workers: int | None, store: str | None, limit: int | None, said: str, with_ray: None
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        checked(on, workers, store, limit)
    assert "geheim" not in str(refused.value)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else found(name, *rest))
    with pytest.raises(UsageError, match=r"pip install 'onward\[ray\]'"):
        checked("ray", 2, STORE, None)


def test_the_command_line_says_so_and_ends_with_2(capsys: pytest.CaptureFixture[str], with_ray: None) -> None:
    assert main.call(["run", "nowhere.py", "--on", "ray", "--workers", "2"]) == 2
    assert "needs a store that all workers reach" in capsys.readouterr().err
    assert main.call(["run", "nowhere.py", "--on", "ray", "--workers", "0", "--store", STORE]) == 2
    assert "'0' is not a number from 1 on" in capsys.readouterr().err


def test_secrets_are_in_no_text_of_an_assignment_but_the_one_that_is_sent() -> None:
    assignment = Assignment("case", "job.py", None, None, "", STORE, "/in.jsonl", "1")
    order = Order(None, {}, 2, "/folder", 30.0, assignment.text())
    assert Assignment.parse(assignment.text()) == assignment
    assert Order.parse(order.text()) == order
    assert "geheim" in assignment.text()
    assert "geheim" not in repr(assignment) + repr(order)


def test_what_travels(tmp_path: Path) -> None:
    alone = JobReference(tmp_path / "jobs" / "job.py", None, "case")
    assert travelling_folder(alone) == tmp_path / "jobs"
    assert below(tmp_path / "jobs", alone.file) == "job.py"
    in_package = JobReference(tmp_path / "work" / "jobs" / "daily.py", "work.jobs.daily", "case")
    assert travelling_folder(in_package) == tmp_path
    assert below(tmp_path, in_package.file) == "work/jobs/daily.py"
    installed = JobReference(tmp_path / "site-packages" / "work" / "daily.py", "work.daily", "case")
    assert travelling_folder(installed) is None
    assert below(None, installed.file) is None
    assert json.loads(Assignment("n", None, "m", None, "", "s", None, None).text())["module"] == "m"
