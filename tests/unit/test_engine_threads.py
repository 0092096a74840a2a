"""Threads for sync steps: made when needed, used again, never joined."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from onward.engine.threads import Threads

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def running(act: Callable[[Threads], Any]) -> Any:
    """Run an async function with threads on a loop of its own."""

    OTHERS.update(threading.enumerate())

    async def go() -> Any:
        threads = Threads(asyncio.get_running_loop())
        try:
            return await act(threads)
        finally:
            threads.close()

    return asyncio.run(go())


OTHERS: set[threading.Thread] = set()
"""Threads of other tests, which may have left some to themselves."""


def own() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("onward-step") and one not in OTHERS]


def own_threads() -> int:
    return len(own())


async def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


def test_results_and_errors_come_back() -> None:
    async def act(threads: Threads) -> None:
        assert await threads.call(lambda a, *, b: (a, b), [1], {"b": 2}) == (1, 2)
        with pytest.raises(ZeroDivisionError):
            await threads.call(lambda: 1 // 0, [], {})
        with pytest.raises(SystemExit):
            await threads.call(_raise(SystemExit(3)), [], {})
        for error in (StopIteration, GeneratorExit, asyncio.CancelledError):
            with pytest.raises(RuntimeError, match=error.__name__):
                await threads.call(_raise(error()), [], {})

    running(act)


def test_a_call_to_its_end_that_cancels_itself_has_ended() -> None:
    """As code does that runs a loop of its own: the caller is not cancelled, and does not wait for ever."""
    began, release = threading.Event(), threading.Event()

    def cancels_itself() -> None:
        began.set()
        release.wait(10)
        raise asyncio.CancelledError

    async def act(threads: Threads) -> None:
        for cut in (False, True):
            began.clear()
            release.clear()
            call = asyncio.ensure_future(threads.call(cancels_itself, [], {}, to_the_end=True))
            await until(began.is_set)
            if cut:
                call.cancel()
                await asyncio.sleep(0)
            release.set()
            with pytest.raises(RuntimeError, match="CancelledError"):
                await call

    running(act)


def _raise(error: BaseException) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises


def test_one_thread_serves_calls_one_after_the_other() -> None:
    async def act(threads: Threads) -> set[int]:
        return {await threads.call(threading.get_ident, [], {}) for _ in range(50)}

    assert len(running(act)) == 1


def test_calls_at_the_same_time_have_threads_of_their_own() -> None:
    barrier = threading.Barrier(6)

    async def act(threads: Threads) -> int:
        calls = [threads.call(barrier.wait, [10], {}) for _ in range(6)]
        return len(set(await asyncio.gather(*calls)))

    assert running(act) == 6


def test_the_context_of_the_caller_is_the_calls() -> None:
    async def act(threads: Threads) -> str:
        COLOUR.set("blue")
        found: str = await threads.call(COLOUR.get, [], {})
        return found

    assert running(act) == "blue"


def test_a_call_that_was_given_up_goes_on_unheard_and_its_thread_is_used_again() -> None:
    release = threading.Event()

    async def act(threads: Threads) -> None:
        call = asyncio.ensure_future(threads.call(release.wait, [10], {}))
        await until(lambda: own_threads() == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert threads.abandoned == 1
        assert await threads.call(lambda: "another", [], {}) == "another"
        release.set()
        await until(lambda: threads.abandoned == 0)
        await asyncio.gather(*[threads.call(time.sleep, [0.01], {}) for _ in range(2)])
        assert own_threads() == 2

    running(act)


def test_idle_threads_end_with_their_work() -> None:
    async def act(threads: Threads) -> None:
        await asyncio.gather(*[threads.call(time.sleep, [0.01], {}) for _ in range(5)])

    running(act)
    end = time.monotonic() + 10
    while own_threads():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_thread_that_returns_after_its_loop_is_gone_ends_in_silence() -> None:
    release = threading.Event()
    began = threading.Event()

    def waits() -> None:
        began.set()
        release.wait(10)

    async def act(threads: Threads) -> None:
        call = asyncio.ensure_future(threads.call(waits, [], {}))
        await until(began.is_set)
        call.cancel()

    running(act)
    release.set()
    end = time.monotonic() + 10
    while own_threads():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_threads_do_not_keep_the_process_alive() -> None:
    async def act(threads: Threads) -> list[bool]:
        await threads.call(lambda: None, [], {})
        return [thread.daemon for thread in own()]

    assert running(act) == [True]
