"""Real child processes: what comes back, how a death is told, what cuts and ends them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children_bench import JOB, assignment_in, attempts, call, calling, is_alive, until

from onward.clock import SystemClock
from onward.codec import dumps
from onward.engine.outcomes import CallOutcome, Died, EndedEarly, Raised, Returned
from onward.engine.processes import children
from onward.engine.processes.children import Assignment, Child, end_all
from onward.model import Kind
from onward.store.sqlite.work import SqliteWorkStore


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    return assignment_in(tmp_path)


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


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_child_outlives_the_signals_that_stop_a_run_and_what_it_starts_does_not(
    assignment: Assignment, name: str
) -> None:
    number = int(getattr(signal, name))
    outlived, program, fork = calling(
        assignment, *[{"do": do, "signal": name} for do in ("kill", "stop a program", "stop a fork")]
    )
    assert outlived == Returned("null")
    assert program == Returned(str(-number))
    assert fork == Returned(str(number if name == "SIGTERM" else 1 << 8))  # a KeyboardInterrupt, exit code 1


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


def test_a_death_is_noticed_though_what_was_left_behind_holds_the_pipe(assignment: Assignment) -> None:
    began = time.monotonic()
    outcome = call(assignment, {"do": "fork", "seconds": 20})
    assert isinstance(outcome, Died)
    assert outcome.how.startswith("exit code 3")
    assert outcome.beside == (0,)
    assert time.monotonic() - began < 10


def test_a_death_concerns_only_the_calls_that_had_begun(assignment: Assignment) -> None:
    guilty, other = calling(assignment, {"do": "block", "seconds": 0.5}, {"do": "return", "give": 1})
    assert isinstance(guilty, Died)
    assert isinstance(other, Died)
    assert (guilty.beside, other.beside) == ((0,), ())


def test_a_death_while_the_job_is_loaded_is_nobodys(assignment: Assignment) -> None:
    assert assignment.file is not None
    (attempt,) = attempts(assignment, {"do": "return"})
    job = Path(assignment.file)
    job.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n" + job.read_text())

    async def go() -> CallOutcome:
        return await asyncio.wait_for(Child(assignment).call(attempt, "{}"), 30)

    outcome = asyncio.run(go())
    assert isinstance(outcome, Died)
    assert outcome.how.startswith("signal 9 (SIGKILL)")
    assert outcome.beside == ()


def test_memory_that_runs_out_is_like_a_death_of_that_call_alone(assignment: Assignment) -> None:
    slept, short = calling(assignment, {"do": "sleep", "seconds": 0.3}, {"do": "memory"})
    assert slept == Returned('"slept"')
    assert isinstance(short, Died)
    assert (short.beside, short.survived) == ((1,), True)
    assert short.how.startswith("too big (job.py:")


# Jobs that a child cannot load.


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace('version="1")\nasync', 'version="2")\nasync'), "the job's code changed"),
        (lambda text: "raise RuntimeError('not today')\n" + text, "not today"),
        (lambda text: text + "\nthis is no python\n", "invalid syntax"),
        (lambda text: text.replace('yield "open"', "raise OSError('no such host')"), "no such host"),
    ],
    ids=["edited", "raises", "no python", "resource"],
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
        child._outbox.put(None)  # as when the parent dies
        await until(lambda: not is_alive(pid))
        assert isinstance(await task, Died)

    asyncio.run(go())


def test_a_child_that_is_closed_ends_by_itself(assignment: Assignment) -> None:
    async def go() -> None:
        child = Child(assignment)
        (attempt,) = attempts(assignment, {"do": "pid"})
        answer = await child.call(attempt, dumps({"do": "pid"}))
        assert isinstance(answer, Returned)
        child.close()
        began = time.monotonic()
        await until(lambda: not is_alive(int(answer.text)))
        assert time.monotonic() - began < 5

    asyncio.run(go())


SLOW_TO_CLOSE = 'yield "open"\n    time.sleep({})\n    open({!r}, "w").close()'


def test_children_that_are_ended_are_waited_for(assignment: Assignment, tmp_path: Path) -> None:
    assert assignment.file is not None
    job, mark = Path(assignment.file), tmp_path / "closed"
    job.write_text(job.read_text().replace('yield "open"', SLOW_TO_CLOSE.format(0.5, str(mark))))

    async def go() -> None:
        child = Child(assignment)
        await child._ready
        await end_all([child])
        assert mark.exists()
        assert child.dead

    asyncio.run(go())


def test_children_that_do_not_end_are_killed(assignment: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "CLOSE_WITHIN", 0.3)
    assert assignment.file is not None
    job = Path(assignment.file)
    job.write_text(job.read_text().replace('yield "open"', SLOW_TO_CLOSE.format(60, "never")))

    async def go() -> None:
        child = Child(assignment)
        await child._ready
        await end_all([child])
        await asyncio.wait_for(child.ended, 10)
        assert child._how is not None
        assert child._how.startswith("signal 9")

    asyncio.run(go())


def test_a_child_that_is_being_closed_ends_with_its_pipe(assignment: Assignment) -> None:
    assert assignment.file is not None
    job = Path(assignment.file)
    job.write_text(job.read_text().replace('yield "open"', SLOW_TO_CLOSE.format(60, "never")))

    async def go() -> None:
        child = Child(assignment)
        await child._ready
        child.close()
        await asyncio.sleep(0.5)
        assert not child.dead
        child._outbox.put(None)  # as when the parent dies
        await asyncio.wait_for(child.ended, 5)

    asyncio.run(go())


def test_a_child_that_still_loads_the_job_ends_with_its_pipe(assignment: Assignment) -> None:
    assert assignment.file is not None
    job = Path(assignment.file)
    job.write_text("import time; time.sleep(60)\n" + job.read_text())

    async def go() -> None:
        child = Child(assignment)
        await asyncio.sleep(1.0)
        assert not child.dead
        child._outbox.put(None)
        await asyncio.wait_for(child.ended, 5)

    asyncio.run(go())


def parent_of_a_child(assignment: Assignment, folder: Path, does: str) -> tuple[subprocess.Popen[str], int]:
    """A process that has started a child, and the child's number. `does`: what it does then with `child`."""
    script = folder / "parent.py"
    script.write_text(
        "import asyncio, sys, json\n"
        "sys.path[:] = json.loads(sys.argv[1])\n"
        "from children_bench import attempts\n"
        "from onward.codec import dumps\n"
        "from onward.engine.processes.children import Assignment, Child\n"
        f"given = Assignment({assignment.file!r}, None, 'job', None, 1, '', {assignment.versions!r})\n"
        "async def go():\n"
        "    child = Child(given)\n"
        "    await child._ready\n"
        "    print(child._process.pid, flush=True)\n"
        f"    await {does}\n"
        "asyncio.run(go())\n"
    )
    parent = subprocess.Popen([sys.executable, str(script), json.dumps(sys.path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_a_child_dies_with_its_parent(assignment: Assignment, tmp_path: Path) -> None:
    """The parent is killed: nothing tells the child but its pipe, and on Linux the system."""
    parent, pid = parent_of_a_child(assignment, tmp_path, "asyncio.sleep(60)")
    assert parent.stdout is not None
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="no other system ends it")
def test_a_child_whose_step_holds_the_interpreters_lock_dies_with_its_parent(
    assignment: Assignment, tmp_path: Path
) -> None:
    mark = tmp_path / "holds"
    held = {"do": "hold", "file": str(mark)}
    does = f"child.call(attempts(given, {held!r})[0], dumps({held!r}))"
    parent, pid = parent_of_a_child(assignment, tmp_path, does)
    assert parent.stdout is not None
    try:
        asyncio.run(until(mark.exists))
        parent.kill()
        parent.wait()
        parent.stdout.close()
        asyncio.run(until(lambda: not is_alive(pid)))
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_child_never_opens_the_store(assignment: Assignment, tmp_path: Path) -> None:
    store = SqliteWorkStore(tmp_path / "onward.db", SystemClock())
    try:
        assert call(assignment, {"do": "files"}) == Returned("[]")
    finally:
        store.close()
