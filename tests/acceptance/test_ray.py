"""`onward run --on ray --workers N`, with real nodes of Ray on this machine: they are killed, and so are workers and
runs; the command is interrupted; the registry's own log says what was applied."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until
from acceptance.test_filings_example import FILINGS, Office
from helpers import postgres, ray_nodes
from onward.store.postgres import connection as connections
from onward.store.postgres import statements
from onward.store.postgres.address import parse
from torture.registry import running

WORKERS = 4
RUN = "onward.cluster.run"
ACTOR = "ray::Worker"
SECRET = "geheimes-wort"
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def nodes() -> Iterator[ray_nodes.Nodes]:
    """A head with room for all workers, whatever becomes of other nodes."""
    try:
        with ray_nodes.cluster(cpus=WORKERS) as made:
            yield made
    except ray_nodes.NoRay as error:
        pytest.skip(str(error))


@pytest.fixture
def store(database: str) -> Iterator[str]:
    schema = postgres.new_schema()
    url = postgres.in_schema(database, schema)
    yield url.replace("postgres@", f"postgres:{SECRET}@") if "postgres@" in url else url
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


class Command:
    """`onward run … --on ray`, in a folder."""

    def __init__(self, place: Place, nodes: ray_nodes.Nodes, store: str):
        self.place, self.nodes, self.store = place, nodes, store

    @property
    def said(self) -> str:
        return (self.place.folder / "said.txt").read_text()

    def start(self, *words: str, on: str = "ray", workers: int = WORKERS) -> subprocess.Popen[bytes]:
        """What it says to people goes to said.txt, its answer to out.json."""
        command = self.place.command("run", "job.py", "--on", on, "--workers", str(workers), "--json", *words)
        environment = surroundings({**self.nodes.environment, "ONWARD_STORE": self.store})
        with (self.place.folder / "said.txt").open("ab") as said, (self.place.folder / "out.json").open("wb") as out:
            return subprocess.Popen(command, cwd=self.place.folder, env=environment, stdout=out, stderr=said)

    def answer(self) -> dict[str, Any]:
        """The one line on standard output."""
        (line,) = (self.place.folder / "out.json").read_text().splitlines()
        found: dict[str, Any] = json.loads(line)
        return found

    def status(self) -> dict[str, Any]:
        words = ("status", "job.py", "--json")
        ended = self.place.onward(*words, env={"ONWARD_STORE": self.store})
        return dict(json.loads(ended.stdout)) if ended.returncode == 0 else {"counts": {}, "runs": []}

    def done(self) -> int:
        return int(self.status()["counts"].get("succeeded", 0))

    def recorded(self) -> dict[int, int]:
        """The records whose results are durable, and how often each was called."""
        self.place.fine("export", "job.py", "--out", "now.jsonl", env={"ONWARD_STORE": self.store})
        kept = [json.loads(line)["key"] for line in (self.place.folder / "now.jsonl").read_text().splitlines()]
        calls = Counter(self.place.calls())
        return {record: calls[record] for record in kept}

    def processes(self, word: str) -> list[int]:
        return [one for node in self.nodes.nodes for one in node.processes(word)]


def a_job(folder: Path, seconds: float, records: int = 400, free: int = 400) -> Place:
    """Its steps log to one place, wherever the job's folder was brought to; but for the first `free` records they wait
    until there is a file `go`."""
    place = Place(folder, "")
    place.job(
        f"""
        HERE = Path({str(folder)!r})
        job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=2)

        @job.step
        async def work(record):
            started(record["id"], "work")
            import asyncio
            await asyncio.sleep({seconds})
            while record["id"] >= {free} and not (HERE / "go").exists():
                await asyncio.sleep(0.05)
            return record["id"]
        """
    )
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    return place


def test_a_node_is_killed_and_each_filing_is_applied_once(tmp_path: Path, nodes: ray_nodes.Nodes, store: str) -> None:
    second = nodes.start(cpus=WORKERS)
    try:
        with running(tmp_path / "registry.db", "--seed", "5", "--switch", "reset_after_apply=0.05") as registry:
            office = Office(tmp_path, registry)
            command = Command(office.place, nodes, store)
            registry.also(acknowledged_after=0.5)
            process = command.start(*office.words(), "--concurrency", "2")
            wait_until(lambda: process.poll() is not None or len(second.processes(RUN)) >= 1)
            wait_until(lambda: process.poll() is not None or sum(one.applied for one in registry.verdicts()) > 20)
            assert process.poll() is None, command.said
            lost = second.processes(RUN)
            assert lost
            second.kill()
            assert process.wait(240) == 0, command.said
            office.applied_once()
    finally:
        second.kill()
    plain(command.said)
    answer = command.answer()
    assert answer["counts"]["succeeded"] == FILINGS
    assert len(answer["runs"]) >= WORKERS + len(lost), "workers of the node were begun anew, elsewhere"
    assert [run["reason"] for run in answer["runs"]].count("died") >= len(lost)
    assert "the history fits" in office.place.fine("log", "job.py", "--verify", env={"ONWARD_STORE": store})


def test_interrupted_all_end_in_good_order_and_the_same_command_goes_on(
    tmp_path: Path, nodes: ray_nodes.Nodes, store: str
) -> None:
    command = Command(a_job(tmp_path, 0.1), nodes, store)
    process = command.start()
    wait_until(lambda: process.poll() is not None or len(command.processes(RUN)) == WORKERS)
    wait_until(lambda: process.poll() is not None or command.done() > 20)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 3, command.said
    answer = command.answer()
    assert answer["counts"]["in_progress"] == 0
    assert 20 < answer["counts"]["succeeded"] < 400
    assert {(run["exit_code"], run["reason"]) for run in answer["runs"]} == {(3, "SIGINT")}
    assert "stopping (SIGINT)" in command.said and "stopped: SIGINT" in command.said
    wait_until(lambda: not command.processes(RUN) and not command.processes(ACTOR))
    (tmp_path / "said.txt").unlink()
    again = command.start()
    assert again.wait(120) == 0, command.said
    assert command.answer()["counts"]["succeeded"] == 400
    assert sorted(set(command.place.calls())) == list(range(400))
    assert len(command.place.calls()) == 400, "nothing was done twice"
    assert "the input has changed" not in command.said
    by_hand = command.place.onward("run", "job.py", env={"ONWARD_STORE": store})
    assert by_hand.returncode == 0, "the input is where it was, for whoever starts the job"


def test_a_second_signal_ends_the_command_and_its_workers_follow(
    tmp_path: Path, nodes: ray_nodes.Nodes, store: str
) -> None:
    command = Command(a_job(tmp_path, 5.0), nodes, store)
    process = command.start(workers=2)
    wait_until(lambda: process.poll() is not None or len(command.place.calls()) >= 4)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in command.said)
    wait_until(lambda: process.send_signal(signal.SIGINT) or process.poll() is not None)  # at once it is the same one
    assert process.wait(20) == 130
    wait_until(lambda: not command.processes(RUN))
    assert {run["exit_code"] for run in command.status()["runs"]} == {3}


def test_killed_workers_and_killed_runs_are_begun_anew(tmp_path: Path, nodes: ray_nodes.Nodes, store: str) -> None:
    command = Command(a_job(tmp_path, 0.1, free=100), nodes, store)
    process = command.start(workers=2)
    wait_until(lambda: process.poll() is not None or (len(command.processes(RUN)) == 2 and command.done() > 10))
    kept = command.recorded()
    os.kill(command.processes(RUN)[0], signal.SIGKILL)
    wait_until(lambda: process.poll() is not None or len(command.status()["runs"]) >= 3)
    kept |= command.recorded()
    os.kill(command.processes(ACTOR)[0], signal.SIGKILL)
    wait_until(lambda: process.poll() is not None or len(command.status()["runs"]) >= 4)
    (tmp_path / "go").touch()
    assert process.wait(120) == 0, command.said
    answer = command.answer()
    assert answer["counts"]["succeeded"] == 400
    assert len(answer["runs"]) >= 4
    calls = Counter(command.place.calls())
    assert len(kept) > 10 and kept.items() <= calls.items(), "nothing that was recorded is done again"
    plain(command.said)


def test_what_is_secret_is_in_no_file_of_ray_and_no_list_of_processes(
    tmp_path: Path, nodes: ray_nodes.Nodes, store: str
) -> None:
    if SECRET not in store:
        pytest.skip("the server that is there has a user of its own")
    command = Command(a_job(tmp_path, 0.05), nodes, store)
    process = command.start(workers=2)
    wait_until(lambda: process.poll() is not None or command.done() > 20)
    shown = [Path(f"/proc/{one}/{name}") for one in command.processes("") for name in ("cmdline", "environ")]
    found = [str(path) for path in shown if SECRET.encode() in _read(path)]
    assert process.wait(120) == 0, command.said
    found += [str(path) for path in nodes.folder.rglob("*") if path.is_file() and SECRET.encode() in _read(path)]
    assert found == []
    assert SECRET not in command.said and "postgres:***@" in command.said


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_by_ray_client_too_and_in_a_store_of_an_older_release(
    tmp_path: Path, nodes: ray_nodes.Nodes, store: str
) -> None:
    address = parse(store)
    with connections.connect(address) as own:
        connections.migrate(own, address, True, statements.migrations()[:-1])
    command = Command(a_job(tmp_path, 0.0, records=50), nodes, store)
    by_client = f"ray://127.0.0.1:{nodes.client_port}"
    code = command.start(on=by_client, workers=2).wait(120)
    if "Starting Ray client server failed" in command.said:  # Ray gives its own server few seconds to come up
        (tmp_path / "said.txt").unlink()
        code = command.start(on=by_client, workers=2).wait(120)
    assert code == 0, command.said
    assert command.answer()["counts"]["succeeded"] == 50
    assert "older schema" not in command.said


def test_what_a_step_does_wrong_has_the_exit_code_that_it_has_anywhere(
    tmp_path: Path, nodes: ray_nodes.Nodes, store: str
) -> None:
    place = a_job(tmp_path, 0.0, records=20)
    text = (tmp_path / "job.py").read_text()
    (tmp_path / "job.py").write_text(text.replace("import asyncio", "import asyncio; record['id'] == 7 and 1 / 0"))
    command = Command(place, nodes, store)
    assert command.start(workers=2).wait(120) == 1, command.said
    assert command.answer()["counts"]["failed"] == 1
    (tmp_path / "job.py").write_text(text.replace("import asyncio", "raise onward.Fatal('no credit')"))
    place.onward("retry", "job.py", "--all", env={"ONWARD_STORE": store})
    assert command.start(workers=2).wait(120) == 4, command.said
    assert "no credit" in command.said


def test_a_cluster_that_is_not_there_is_said_to_be_so(tmp_path: Path, nodes: ray_nodes.Nodes, store: str) -> None:
    command = Command(a_job(tmp_path, 0.0), nodes, store)
    words = ("run", "job.py", "--on", "ray", "--workers", "2")
    dead = {**nodes.environment, "RAY_ADDRESS": f"127.0.0.1:{postgres.free_port()}", "ONWARD_STORE": store}
    ended = command.place.onward(*words, env=dead)
    assert ended.returncode == 2, ended.stderr
    assert f"no Ray cluster can be used: nothing answers at {dead['RAY_ADDRESS']}" in ended.stderr
    plain(ended.stderr)
    assert SECRET not in ended.stderr
