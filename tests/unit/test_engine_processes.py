"""The pool of processes for steps that compute, and the messages between parent and child."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from children_bench import assignment_in, attempts, is_alive, until

from onward.engine.outcomes import CallOutcome, Died, EndedEarly, Raised, Returned, Stale
from onward.engine.processes import children, messages
from onward.engine.processes.children import Assignment, Processes
from onward.model import Kind
from onward.policy.failures import Classified


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    return assignment_in(tmp_path)


# The pool.


def pool(act: Callable[[Processes], Any], assignment: Assignment | None) -> Any:
    async def go() -> Any:
        made = Processes(assignment, lambda attempt: attempt.claimed.value)
        try:
            return await asyncio.wait_for(act(made), 40)
        finally:
            await made.close()

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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "PAUSE", 0.01)


def test_a_process_that_dies_while_it_loads_the_job_is_replaced(
    assignment: Assignment, tmp_path: Path, quick: None
) -> None:
    (one,) = attempts(assignment, {"do": "pid"})
    file, mark = Path(str(assignment.file)), tmp_path / "it was here"
    dies = f"import os; os.path.exists({str(mark)!r}) or (os.mkdir({str(mark)!r}), os.kill(os.getpid(), 9))\n"
    file.write_text(dies + file.read_text())

    async def act(made: Processes) -> None:
        lost, called = await made.call(one), await made.call(one)
        assert isinstance(lost, Died)
        assert lost.beside == ()
        assert isinstance(called, Returned)

    pool(act, assignment)


def test_a_job_whose_processes_never_come_up_stops_the_run(assignment: Assignment, quick: None) -> None:
    made_attempts = attempts(assignment, *[{"do": "pid"}] * 3)
    file = Path(str(assignment.file))
    file.write_text("import os; os._exit(5)\n" + file.read_text())

    async def act(made: Processes) -> None:
        for turn in range(1, children.MOST_LOST + 1):
            outcomes = await asyncio.gather(*[made.call(one) for one in made_attempts])
            lost = [isinstance(one, Died) and not one.beside for one in outcomes]
            assert any(lost) is (turn < children.MOST_LOST)
        for outcome in outcomes:
            assert isinstance(outcome, Raised)
            assert outcome.failure.kind is Kind.FATAL
            assert (
                "5 child processes in a row ended before a call began in them: exit code 5" in outcome.failure.message
            )

    pool(act, assignment)


def test_a_process_that_cannot_be_started_is_tried_again(
    assignment: Assignment, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = subprocess.Popen, [OSError(11, "Resource temporarily unavailable")] * 2

    def popen(*arguments: Any, **others: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*arguments, **others)

    monkeypatch.setattr(subprocess, "Popen", popen)

    async def act(made: Processes) -> None:
        (one,) = attempts(assignment, {"do": "pid"})
        outcomes = [await made.call(one) for _ in range(3)]
        assert outcomes[0] == Died("it could not be started: Resource temporarily unavailable", ())
        assert isinstance(outcomes[2], Returned)

    pool(act, assignment)


# Messages.


@pytest.mark.parametrize(
    "outcome",
    [
        Returned('{"a":1}'),
        Returned('"\\ud800"'),
        EndedEarly("enough"),
        EndedEarly("\ud800\x00"),
        Stale("embed", "no longer fits \udfff"),
        Died("too big", (7,), survived=True),
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
