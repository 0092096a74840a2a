"""examples/kubernetes: the manifest against the schemas of Kubernetes and against what onward's exit codes mean, the
container file against what it copies, and a run in the place where it would be: process 1, on a read-only root."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, surroundings, wait_until
from acceptance.test_postgres_runs import Job
from acceptance.test_postgres_runs import job as job
from onward.cli import direct
from onward.policy import endings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
VERSION = "1.31"
"""The oldest that has podFailurePolicy for good."""
ANY_NAMES = ("stringData", "labels", "matchLabels", "requests", "limits", "annotations")
"""Whose fields have names of the author's."""


def documents() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="kubernetes-validate, which brings yaml, is not installed")
    return list(yaml.safe_load_all((FOLDER / "job.yaml").read_text()))


def validate(document: dict[str, Any], version: str = VERSION) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    validator.validate(document, version, strict=True)


def the_job() -> dict[str, Any]:
    (found,) = [one for one in documents() if one["kind"] == "Job"]
    return found


def container() -> dict[str, Any]:
    (found,) = the_job()["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_schemas_have_it() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for version in (VERSION, validator.latest_version()):
        for document in documents():
            validate(document, version)


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all fields whose names are those of Kubernetes."""
    if isinstance(value, dict):
        for name, below in value.items():
            if not path or path[-1] not in ANY_NAMES:
                yield (*path, name)
            yield from fields(below, (*path, name))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from fields(below, (*path, number))


def misspelt(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    inside: Any = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1] + "s"] = inside.pop(path[-1])
    return changed


def test_every_misspelt_field_is_noticed() -> None:
    """What Kubernetes ignores in silence is a Job that does something else."""
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    tried, unnoticed = 0, []
    for document in documents():
        for path in fields(document):
            tried += 1
            try:
                validate(misspelt(document, path))
            except (validator.ValidationError, validator.SchemaNotFoundError, KeyError):
                continue
            unnoticed.append(path)
    assert tried > 60
    assert unnoticed == []


def test_exit_codes_mean_what_they_mean() -> None:
    spec = the_job()["spec"]
    fail, ignore = spec["podFailurePolicy"]["rules"]
    assert (fail["action"], ignore["action"]) == ("FailJob", "Ignore")
    for_good = {endings.SOME_FAILED, endings.NOT_STARTED, endings.NEEDS_A_PERSON, endings.ONWARD_FAULT}
    assert set(fail["onExitCodes"]["values"]) == for_good
    assert fail["onExitCodes"]["operator"] == "In"
    assert endings.STOPPED_EARLY not in for_good
    assert fail["onExitCodes"]["containerName"] == container()["name"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # without it there is no podFailurePolicy
    assert "completions" not in spec


def test_what_it_calls_is_what_there_is() -> None:
    pod, one = the_job()["spec"]["template"]["spec"], container()
    given = {entry["name"]: entry.get("value", "postgresql://there") for entry in one["env"]}
    call = direct.read(one["args"], given)
    assert isinstance(call, direct.Call)
    assert call.arguments["store"] == given["ONWARD_STORE"]
    assert call.arguments["log_format"] == "json"
    assert call.arguments["grace"] < pod["terminationGracePeriodSeconds"] - 10
    (secret,) = [one for one in documents() if one["kind"] == "Secret"]
    reference = next(entry["valueFrom"]["secretKeyRef"] for entry in one["env"] if entry["name"] == "ONWARD_STORE")
    assert reference["name"] == secret["metadata"]["name"]
    assert reference["key"] in secret["stringData"]


def test_it_may_do_little() -> None:
    pod, one = the_job()["spec"]["template"]["spec"], container()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} == set(one["resources"]["requests"])
    assert "memory" in one["resources"]["limits"]
    assert [mount["name"] for mount in one["volumeMounts"]] == [volume["name"] for volume in pod["volumes"]]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (FOLDER / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]  # type: ignore[misc]


def test_the_container_file_has_what_it_copies_and_starts_the_run_itself() -> None:
    said = dict(instructions())
    assert said["FROM"].startswith("python:3.") and said["FROM"].endswith("-slim")
    for word, rest in instructions():
        if word == "COPY":
            *sources, target = rest.split()
            assert target.endswith("/") or len(sources) == 1
            assert all((ROOT / source).exists() for source in sources), rest
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = re.search(r"\[([\w,]+)\]", next(rest for word, rest in instructions() if "pip install" in rest))
    assert installed is not None and set(installed[1].split(",")) <= set(extras)
    assert json.loads(said["ENTRYPOINT"]) == ["onward"], "in a shell, signals would not reach the run"
    assert isinstance(direct.read(json.loads(said["CMD"]), {}), direct.Call)
    users = the_job()["spec"]["template"]["spec"]["securityContext"]
    assert said["USER"] == f"{users['runAsUser']}:{users['runAsGroup']}"
    assert container()["args"][1] == json.loads(said["CMD"])[1]


SLOW = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step
async def work(record):
    import asyncio
    await asyncio.sleep(%s)
    return record["id"]
"""
CONTAINED = 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"'


def contained(*words: str) -> list[str]:
    """As process 1, with nothing to write on but what is mounted elsewhere."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINED, "sh", *words]


def first_process(of: subprocess.Popen[bytes]) -> int | None:
    """The process that is number 1 inside."""
    try:
        children = Path(f"/proc/{of.pid}/task/{of.pid}/children").read_text().split()
        return int(children[0]) if children else None
    except OSError:
        return None


def in_store(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.ask("status", "--json"))
    return found


def test_as_process_1_on_a_read_only_root_it_ends_in_good_order_at_sigterm(job: Job) -> None:
    writable = ["test", "!", "-w", str(job.place.folder)]
    if subprocess.run(contained(*writable), capture_output=True, check=False).returncode:
        pytest.skip("no namespaces of one's own here (unshare, as root)")
    place: Place = job.place
    place.job(SLOW % 0.2)
    place.write("in.jsonl", [{"id": number} for number in range(400)])
    environment = {**surroundings({"ONWARD_STORE": job.url}), "PYTHONDONTWRITEBYTECODE": "1"}
    command = contained(sys.executable, "-m", "onward", "run", "job.py", "--grace", "30s", "--log-format", "json")
    with (place.folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, cwd=place.folder, env=environment, stdout=said, stderr=said)
    try:
        said_so_far = (place.folder / "said.txt").read_text
        wait_until(lambda: process.poll() is not None or "run_started" in said_so_far())
        wait_until(lambda: process.poll() is not None or in_store(job)["counts"]["succeeded"] > 8)
        inside = first_process(process)
        assert inside is not None, said_so_far()
        assert "NSpid:" in (status := Path(f"/proc/{inside}/status").read_text())
        assert status.split("NSpid:")[1].split("\n")[0].split()[-1] == "1"
        os.kill(inside, signal.SIGTERM)
        assert process.wait(30) == 3, said_so_far()
    finally:
        process.kill()
        process.wait()
    found = in_store(job)
    assert [(run["exit_code"], run["reason"]) for run in found["runs"]] == [(3, "SIGTERM")]
    assert 0 < found["counts"]["succeeded"] < 400
    assert found["counts"]["in_progress"] == 0
