"""`onward run`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack

from onward.cli import errors, streams
from onward.cli.flags import RunFlags
from onward.cli.target import About, Target, find
from onward.cli.words import brief
from onward.errors import OnwardError, StoreAway, StoreError, UsageError

if TYPE_CHECKING:
    from onward.engine.govern import Bounds
    from onward.engine.tally import Progress
    from onward.job.instance import Binding
    from onward.model import RunResult
    from onward.runner import Announcement


class Teller(Protocol):
    """Who is told of a run while it works. `event` is called from several threads."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def event(self, event: str, fields: Mapping[str, Any]) -> None: ...

    def progress(self, progress: Progress) -> None: ...


class Runnable(NamedTuple):
    """What is to be run, what is done with the results of a run that was not stopped (it says so in words), and what
    runs it where that is not this process."""

    target: Target
    budget: float | None = None
    take: Callable[[], str] | None = None
    elsewhere: Callable[[Bounds], int] | None = None


def run(
    job: str | None,
    budget: float | None,
    store: str | None,
    instance: str | None,
    params: list[str] | None,
    on: str | None,
    workers: int | None,
    **flags: Unpack[RunFlags],
) -> int:
    about: About = {"store": store, "job_name": None, "instance": instance, "params": params}

    def what() -> Runnable:
        if on is None and workers is None:
            return Runnable(find(job, **about), budget)
        from onward.cli.workers import checked, run_on

        place = checked(on, workers, store, flags["limit"])
        target = find(job, **about)
        return Runnable(target, budget, None, lambda bounds: run_on(target, place, bounds, flags, budget))

    return begin(what, flags)


def begin(what: Callable[[], Runnable], flags: RunFlags) -> int:
    """Find out what is to be run, and run it."""
    try:
        with termination_interrupts():
            runnable = what()
            if flags["estimate"]:
                from onward.cli.estimate import estimate

                return estimate(runnable.target, flags["limit"], flags["as_json"])
            if runnable.elsewhere is not None:
                return runnable.elsewhere(_bounds(runnable.target, flags))
            options = {
                "concurrency": flags["concurrency"],
                "budget": runnable.budget,
                "wait": flags["wait"],
                "source_changed": flags["source_changed"],
                "create": not flags["no_create"],
            }
            session = _Session(runnable, flags["log_format"] == "json", flags["as_json"])
            return session.work(_bounds(runnable.target, flags), options)
    except KeyboardInterrupt:
        streams.err("onward: interrupted")
        return errors.STOPPED_EARLY
    except StoreAway as error:
        errors.report(error)
        return errors.STOPPED_EARLY


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM is like Ctrl-C: until a run listens to signals itself, when nothing has begun; and where none does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _bounds(target: Target, flags: RunFlags) -> Bounds:
    from onward.engine.govern import Bounds
    from onward.job.job import Job
    from onward.job.plan import FailureLimit

    assert isinstance(target.job, Job)
    given = flags["max_failures"]
    ceiling = FailureLimit.parse(given) if given is not None else target.job.max_failures
    count, percent = (ceiling.count, ceiling.percent) if ceiling is not None else (None, None)
    return Bounds(flags["limit"], count, percent, flags["max_time"], flags["grace"])


class _Session:
    """One `onward run`: who is told what, and where it goes."""

    def __init__(self, runnable: Runnable, log_json: bool, as_json: bool):
        self._target = runnable.target
        self._take = runnable.take
        self._lost = False
        self._log_json = log_json
        self._as_json = as_json
        self._teller = _json_log() if log_json else _text_teller(as_json)
        self._finished: Mapping[str, Any] = {}
        self._store = ""

    def work(self, bounds: Bounds, flags: Mapping[str, Any]) -> int:
        from onward import api, runner
        from onward.job.job import Job

        job = self._target.job
        assert isinstance(job, Job)
        binding = api.bind(job, self._target.params, self._target.instance)
        # Settled before steps run, which may change the current folder.
        self._store = runner.settled(runner.store_url(job, self._target.store))
        options = runner.Options(
            store=self._store,
            bounds=bounds,
            progress=None if self._log_json else self._teller.progress,
            listeners=[(self._teller.event, self._log_json), (self._hear, False)],
            announce=self._announce,
            waits=lambda words: self._waits(job.name, binding.instance, words),
            before_exit=_last_words,
            **flags,
        )
        if not self._as_json:
            return self._code(self._told(runner.run, job, binding, options))
        with streams.kept_clean() as out:
            result = self._told(runner.run, job, binding, options)
            try:
                streams.answer(self._status(binding, result), out)
            except streams.AnswerLost as lost:
                streams.err(f"onward: {lost}; what is done is kept, {self._target.command('status', '--json')} has it")
                self._lost = True
        return self._code(result)

    def _code(self, result: RunResult) -> int:
        """Where something could not be written, the same command writes it."""
        if self._lost and result.exit_code != errors.USAGE:
            return max(result.exit_code, errors.STOPPED_EARLY)
        return result.exit_code

    def _told(self, run: Callable[..., RunResult], *arguments: Any) -> RunResult:
        from onward.cli import report

        try:
            result = run(*arguments)
        finally:
            self._teller.stop()
        if result.exit_code in (errors.USAGE, errors.ONWARD_FAULT):
            streams.err(f"onward: {brief(result.reason)}")
        for line in report.closing(result, self._finished, self._target, self._taken(result)):
            self._say(line)
        return result

    def _taken(self, result: RunResult) -> str:
        if self._take is None or result.exit_code not in (0, 1):
            return ""
        try:
            return self._take()
        except (OnwardError, OSError) as error:
            self._lost = True
            streams.err(f"onward: {error}; what is done is kept, {self._target.export_command} writes it")
            return ""

    def _announce(self, told: Announcement) -> None:
        from onward.cli import report

        for line in report.opening(told, self._target):
            self._say(line)
        self._teller.start()

    def _hear(self, event: str, fields: Mapping[str, Any]) -> None:
        if event == "run_finished":
            self._finished = fields

    def _waits(self, job: str, instance: str, words: str) -> None:
        if self._log_json:
            self._teller.event("store_waits", {"job": job, "instance": instance, "reason": words})
        else:
            streams.err(f"onward: {words}")

    def _say(self, line: str) -> None:
        """To standard output, unless that is for the status object; never among JSON events."""
        if not self._as_json:
            streams.out(line)
        elif not self._log_json:
            streams.err(line)

    def _status(self, binding: Binding, result: RunResult) -> str:
        """The status object; of a store that is gone (with its run, if it was in memory) what the run itself knows."""
        from onward import api
        from onward.codec import dumps

        job, store = self._target.job, self._store
        try:
            return dumps(api.status(job, store=store, instance=binding.instance))
        except (UsageError, StoreError):
            known = {name: self._finished.get(name) for name in ("job", "instance", "source_complete", "vanished")}
            return dumps({**known, "store": store, "total": result.total, "counts": dict(result.counts)})


def _text_teller(as_json: bool) -> Teller:
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", ""):
        from onward.cli.display import Display

        return Display(stdout_too=as_json or sys.stdout.isatty())
    from onward.cli.lines import Lines

    return Lines()


@contextlib.contextmanager
def watching() -> Iterator[dict[str, Any]]:
    """How a run that belongs to another command is watched: options for it."""
    teller = _text_teller(as_json=True)
    try:
        yield {
            "progress": teller.progress,
            "listeners": [(teller.event, False)],
            "announce": lambda told: teller.start(),
            "before_exit": _last_words,
        }
    finally:
        teller.stop()


def _json_log() -> Teller:
    from onward.cli.logs import JsonLog

    return JsonLog(sys.stderr)


def _last_words() -> None:
    """Said from within a signal handler, so written straight to the error output."""
    with contextlib.suppress(OSError):
        os.write(2, b"\nonward: stopped at once; the same command goes on from here\n")
