"""Real child processes: what comes back, how a death is told, what cuts and ends them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from onward.clock import SystemClock
from onward.codec import dumps
from onward.engine import messages
from onward.engine.attempt import Attempt
from onward.engine.calls import CallOutcome, Died, EndedEarly, Raised, Returned, Stale
from onward.engine.children import Assignment, Child, Processes
from onward.job.loading import load_reference
from onward.job.plan import JobReference
from onward.model import Claimed, Kind, StoredOutput
from onward.policy.failures import Classified
from onward.store.sqlite.work import SqliteWorkStore

JOB = """
import asyncio, os, signal, sys, threading, time
import onward

job = onward.Job("job", source=onward.iterable(lambda: [], version="1"))
MARK = os.environ.get("CHILD_MARK")

@job.resource
def opened():
    yield "open"

@job.step(version="1")
async def acts(record, opened, context):
    do = record["do"]
    if do == "return":
        return {"gave": record["give"], "opened": opened, "key": context.key, "attempt": context.attempt}
    if do == "pid":
        return os.getpid()
    if do == "raise":
        raise ValueError("7 is odd")
    if do == "transient":
        raise onward.Transient("later", retry_after=5)
    if do == "done":
        raise onward.Done("half a pair: \\ud800")
    if do == "odd":
        raise ValueError("half a pair: \\ud800")
    if do == "kill":
        os.kill(os.getpid(), getattr(signal, record["signal"]))
    if do == "exit":
        os._exit(record["code"])
    if do == "system exit":
        raise SystemExit(3)
    if do == "cancel":
        raise asyncio.CancelledError
    if do == "print":
        print("x" * 100_000)
        sys.stdout.write("more")
        sys.stdout.flush()
        os.write(1, b"raw bytes that are no message")
        return "printed"
    if do == "read":
        return sys.stdin.read()
    if do == "sleep":
        await asyncio.sleep(record["seconds"])
        return "slept"
    if do == "compute":
        until = time.monotonic() + record["seconds"]
        while time.monotonic() < until:
            pass
        return "computed"
    if do == "eat":
        return len(bytearray(record["bytes"]))
    if do == "files":
        names = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        return [name for name in names if "onward.db" in name] + [name for name in sys.modules if "sqlite" in name]
    if do == "nan":
        return float("nan")
    if do == "big":
        return "y" * record["size"]

@job.step(version="1")
def in_a_thread(record, acts):
    if record.get("then") == "exit":
        os._exit(9)
    return [acts, threading.current_thread() is not threading.main_thread()]
"""


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    path = tmp_path / "job.py"
    path.write_text(textwrap.dedent(JOB))
    return Assignment(str(path), None, "job", None, 1, "", {"acts": "1", "in_a_thread": "1"})


def attempts(assignment: Assignment, *values: Any, outputs: dict[str, str] | None = None) -> list[Attempt]:
    assert assignment.file is not None
    plan = load_reference(JobReference(Path(assignment.file), None, "job")).plan(None)
    kept = {name: StoredOutput("1", text) for name, text in (outputs or {}).items()}
    return [
        Attempt(plan, Claimed(number, 1, 0, str(number), number, dumps(value), None, 1, 0, 0, 0, dict(kept)), True)
        for number, value in enumerate(values)
    ]


def calling(assignment: Assignment, *values: Any, outputs: dict[str, str] | None = None) -> list[CallOutcome]:
    """What comes of calls made side by side in one child."""

    async def go() -> list[CallOutcome]:
        child = Child(assignment)
        try:
            made = attempts(assignment, *values, outputs=outputs)
            calls = [child.call(attempt, dumps(value)) for attempt, value in zip(made, values, strict=True)]
            return list(await asyncio.wait_for(asyncio.gather(*calls), 30))
        finally:
            child.kill()

    return asyncio.run(go())


def call(assignment: Assignment, value: Any, **given: Any) -> CallOutcome:
    return calling(assignment, value, **given)[0]


async def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What comes back.


def test_a_result_comes_back_exactly(assignment: Assignment) -> None:
    give = {"n": 10**30, "text": "é\ud800\x00", "list": [1.5, None, True]}
    outcome = call(assignment, {"do": "return", "give": give})
    assert outcome == Returned(dumps({"gave": give, "opened": "open", "key": 0, "attempt": 1}))


def test_the_outputs_of_earlier_steps_travel_with_the_call(assignment: Assignment) -> None:
    outcome = call(assignment, {"do": "return"}, outputs={"acts": '{"n":12345678901234567890}'})
    assert outcome == Returned('[{"n":12345678901234567890},true]')


def test_errors_come_back_as_what_they_mean(assignment: Assignment) -> None:
    told = calling(assignment, {"do": "raise"}, {"do": "transient"}, {"do": "system exit"}, {"do": "nan"})
    failures = [outcome.failure for outcome in told if isinstance(outcome, Raised)]
    assert [(one.kind, one.error_type) for one in failures] == [
        (Kind.BUG, "ValueError"),
        (Kind.TRANSIENT, "Transient"),
        (Kind.BUG, "SystemExit"),
        (Kind.BUG, "OutputError"),
    ]
    assert failures[0].message.startswith("7 is odd (job.py:")
    assert failures[1].retry_after == 5


def test_reasons_that_are_no_unicode_come_back(assignment: Assignment) -> None:
    done, odd = calling(assignment, {"do": "done"}, {"do": "odd"})
    assert done == EndedEarly("half a pair: \ud800")
    assert isinstance(odd, Raised)
    assert odd.failure.message.startswith("half a pair: \ud800")


def test_a_step_that_cancels_itself_in_a_child_is_a_bug(assignment: Assignment) -> None:
    outcome = call(assignment, {"do": "cancel"})
    assert isinstance(outcome, Raised)
    assert (outcome.failure.kind, outcome.failure.error_type) == (Kind.BUG, "CancelledError")


def test_an_output_of_megabytes(assignment: Assignment) -> None:
    outcome = call(assignment, {"do": "big", "size": 8 << 20})
    assert isinstance(outcome, Returned)
    assert len(outcome.text) == (8 << 20) + 2


def test_what_steps_print_or_read_does_not_disturb(assignment: Assignment, capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = calling(assignment, {"do": "print"}, {"do": "return", "give": 1}, {"do": "read"}, {"do": "print"})
    assert outcomes[0] == outcomes[3] == Returned('"printed"')
    assert isinstance(outcomes[1], Returned)
    assert outcomes[2] == Returned('""')
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "xxx" in printed.err
    assert "raw bytes" in printed.err


def test_calls_in_a_child_run_side_by_side(assignment: Assignment) -> None:
    began = time.monotonic()
    outcomes = calling(assignment, *[{"do": "sleep", "seconds": 0.5}] * 20)
    assert outcomes == [Returned('"slept"')] * 20
    assert time.monotonic() - began < 8


# Deaths.


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ({"do": "kill", "signal": "SIGKILL"}, "signal 9 (SIGKILL)"),
        ({"do": "kill", "signal": "SIGSEGV"}, "signal 11 (SIGSEGV)"),
        ({"do": "kill", "signal": "SIGABRT"}, "signal 6 (SIGABRT)"),
        ({"do": "exit", "code": 7}, "exit code 7"),
        ({"do": "exit", "code": 0}, "exit code 0"),
    ],
    ids=lambda value: str(value),
)
def test_a_death_is_told_with_its_cause(assignment: Assignment, value: Any, how: str) -> None:
    outcome = call(assignment, value)
    assert isinstance(outcome, Died)
    assert outcome.how.startswith(how)
    assert "peak memory" in outcome.how
    assert outcome.beside == (0,)


def test_a_death_tells_the_memory_that_was_held(assignment: Assignment) -> None:
    async def go() -> CallOutcome:
        child = Child(assignment)
        eats, dies = attempts(assignment, {"do": "eat", "bytes": 300 << 20}, {"do": "exit", "code": 1})
        assert isinstance(await child.call(eats, dumps({"do": "eat", "bytes": 300 << 20})), Returned)
        return await child.call(dies, dumps({"do": "exit", "code": 1}))

    outcome = asyncio.run(go())
    assert isinstance(outcome, Died)
    peak = int(outcome.how.split("peak memory ")[1].split(" MiB")[0].replace(",", ""))
    assert 300 <= peak < 3000


def test_a_death_in_a_thread_is_one_too(assignment: Assignment) -> None:
    outcome = call(assignment, {"do": "return", "then": "exit"}, outputs={"acts": "1"})
    assert isinstance(outcome, Died)
    assert outcome.how.startswith("exit code 9")


def test_a_death_names_all_whose_calls_went_on(assignment: Assignment) -> None:
    async def go() -> list[CallOutcome]:
        child = Child(assignment)
        values = [{"do": "return", "give": 1}, *[{"do": "sleep", "seconds": 30}] * 3, {"do": "exit", "code": 1}]
        made = attempts(assignment, *values)
        first = await child.call(made[0], dumps(values[0]))
        sleeping = [asyncio.ensure_future(child.call(made[n], dumps(values[n]))) for n in (1, 2, 3)]
        await asyncio.sleep(0.2)
        last = await child.call(made[4], dumps(values[4]))
        return [first, *await asyncio.gather(*sleeping), last]

    first, *others = asyncio.run(go())
    assert isinstance(first, Returned)
    assert all(isinstance(one, Died) for one in others)
    assert {one.beside for one in others if isinstance(one, Died)} == {(1, 2, 3, 4)}


def test_a_dead_child_accuses_nobody_who_comes_later(assignment: Assignment) -> None:
    async def go() -> CallOutcome:
        child = Child(assignment)
        one, two = attempts(assignment, {"do": "exit", "code": 1}, {"do": "return", "give": 1})
        await child.call(one, dumps({"do": "exit", "code": 1}))
        assert child.dead
        return await child.call(two, dumps({"do": "return", "give": 1}))

    outcome = asyncio.run(go())
    assert isinstance(outcome, Died)
    assert outcome.beside == ()


# Jobs that a child cannot load.


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace('version="1")\nasync', 'version="2")\nasync'), "the job's code changed"),
        (lambda text: "raise RuntimeError('not today')\n" + text, "not today"),
        (lambda text: text + "\nthis is no python\n", "invalid syntax"),
        (lambda text: "import os; os._exit(5)\n" + text, "exit code 5"),
        (lambda text: text.replace('yield "open"', "raise OSError('no such host')"), "no such host"),
    ],
    ids=["edited", "raises", "no python", "exits", "resource"],
)
def test_a_job_that_cannot_be_loaded_stops_the_run(
    assignment: Assignment, change: Callable[[str], str], says: str
) -> None:
    assert assignment.file is not None
    (attempt,) = attempts(assignment, {"do": "return"})
    Path(assignment.file).write_text(change(textwrap.dedent(JOB)))

    async def go() -> list[CallOutcome]:
        child = Child(assignment)
        calls = [child.call(attempt, dumps({"do": "return", "give": 1})) for _ in range(2)]
        return list(await asyncio.wait_for(asyncio.gather(*calls), 30))

    for outcome in asyncio.run(go()):
        assert isinstance(outcome, Raised)
        assert outcome.failure.kind is Kind.FATAL
        assert says in outcome.failure.message


# Cutting and ending.


def test_a_call_that_is_cut_ends_in_the_child_and_the_others_go_on(assignment: Assignment) -> None:
    async def go() -> None:
        child = Child(assignment)
        values = [{"do": "sleep", "seconds": 30}, {"do": "return", "give": 1}]
        cut, other = attempts(assignment, *values)
        task = asyncio.ensure_future(child.call(cut, dumps(values[0])))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(await child.call(other, dumps(values[1])), Returned)
        assert not child.dead
        child.kill()

    asyncio.run(go())


def test_a_child_ends_when_its_pipe_closes_whatever_it_computes(assignment: Assignment) -> None:
    async def go() -> None:
        child = Child(assignment)
        values = [{"do": "pid"}, {"do": "compute", "seconds": 60}]
        first, second = attempts(assignment, *values)
        answer = await child.call(first, dumps(values[0]))
        assert isinstance(answer, Returned)
        pid = int(answer.text)
        assert is_alive(pid)
        task = asyncio.ensure_future(child.call(second, dumps(values[1])))
        await asyncio.sleep(0.2)
        child.close()
        await until(lambda: not is_alive(pid))
        assert isinstance(await task, Died)

    asyncio.run(go())


def test_a_child_dies_with_its_parent(assignment: Assignment, tmp_path: Path) -> None:
    """The parent is killed: nothing tells the child but its pipe."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, sys, json\n"
        "sys.path[:] = json.loads(sys.argv[1])\n"
        "from onward.engine.children import Assignment, Child\n"
        f"given = Assignment({assignment.file!r}, None, 'job', None, 1, '', {assignment.versions!r})\n"
        "async def go():\n"
        "    child = Child(given)\n"
        "    await child._ready\n"
        "    print(child._process.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(go())\n"
    )
    parent = subprocess.Popen([sys.executable, str(script), json.dumps(sys.path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_child_never_opens_the_store(assignment: Assignment, tmp_path: Path) -> None:
    store = SqliteWorkStore(tmp_path / "onward.db", SystemClock())
    try:
        assert call(assignment, {"do": "files"}) == Returned("[]")
    finally:
        store.close()


# The pool.


def pool(act: Callable[[Processes], Any], assignment: Assignment | None) -> Any:
    async def go() -> Any:
        made = Processes(assignment, lambda attempt: attempt.claimed.value)
        try:
            return await asyncio.wait_for(act(made), 40)
        finally:
            made.close()

    return asyncio.run(go())


def test_a_process_is_used_again_and_has_one_call_at_a_time(assignment: Assignment) -> None:
    async def act(made: Processes) -> None:
        first = [await made.call(one) for one in attempts(assignment, *[{"do": "pid"}] * 3)]
        assert len({one.text for one in first if isinstance(one, Returned)}) == 1
        both = await asyncio.gather(*[made.call(one) for one in attempts(assignment, *[{"do": "pid"}] * 2)])
        assert len({one.text for one in both if isinstance(one, Returned)}) == 2

    pool(act, assignment)


def test_a_process_that_computes_is_killed_when_its_call_is_cut(assignment: Assignment) -> None:
    async def act(made: Processes) -> None:
        pids = attempts(assignment, {"do": "pid"}, {"do": "compute", "seconds": 60}, {"do": "pid"})
        answer = await made.call(pids[0])
        assert isinstance(answer, Returned)
        task = asyncio.ensure_future(made.call(pids[1]))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not is_alive(int(answer.text)))
        after = await made.call(pids[2])
        assert isinstance(after, Returned)
        assert after.text != answer.text

    pool(act, assignment)


def test_a_process_that_died_idle_is_replaced_and_nobody_is_accused(assignment: Assignment) -> None:
    async def act(made: Processes) -> None:
        one, two = attempts(assignment, *[{"do": "pid"}] * 2)
        answer = await made.call(one)
        assert isinstance(answer, Returned)
        os.kill(int(answer.text), 9)
        await until(lambda: made._idle[0].dead)
        assert isinstance(await made.call(two), Returned)

    pool(act, assignment)


def test_a_job_that_is_nowhere_to_be_found_has_no_processes(assignment: Assignment) -> None:
    async def act(made: Processes) -> CallOutcome:
        return await made.call(attempts(assignment, {"do": "pid"})[0])

    outcome = pool(act, None)
    assert isinstance(outcome, Raised)
    assert outcome.failure.kind is Kind.FATAL


# Messages.


@pytest.mark.parametrize(
    "outcome",
    [
        Returned('{"a":1}'),
        Returned('"\\ud800"'),
        EndedEarly("enough"),
        EndedEarly("\ud800\x00"),
        Stale("embed", "no longer fits \udfff"),
        Raised(Classified(Kind.TRANSIENT, "Transient", "later", 2.5, True)),
        Raised(Classified(Kind.BUG, "ValueError", "\ud800")),
        Raised(Classified(Kind.FATAL, "httpx.HTTPStatusError", "forbidden", status=403)),
    ],
    ids=repr,
)
def test_outcomes_come_through_the_pipe_as_they_were(outcome: CallOutcome) -> None:
    stream = BytesIO()
    messages.send(stream, messages.outcome_to_message(outcome))
    messages.send(stream, {"ready": True})
    stream.seek(0)
    first = messages.receive(stream)
    assert first is not None
    assert messages.outcome_from_message(first) == outcome
    assert messages.receive(stream) == {"ready": True}
    assert messages.receive(stream) is None


def test_a_torn_message_is_the_end() -> None:
    stream = BytesIO()
    messages.send(stream, {"a": "b" * 100})
    whole = stream.getvalue()
    for length in range(len(whole)):
        assert messages.receive(BytesIO(whole[:length])) is None
