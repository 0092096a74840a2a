"""`onward run`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from onward.cli import errors, streams
from onward.cli.target import Target, find
from onward.cli.words import brief
from onward.errors import StoreError, UsageError

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


def run(
    job: str | None,
    concurrency: int | None,
    limit: int | None,
    budget: float | None,
    max_failures: str | None,
    max_time: float | None,
    wait: float,
    grace: float,
    log_format: str,
    as_json: bool,
    estimate: bool,
    source_changed: bool,
    no_create: bool,
    store: str | None,
    instance: str | None,
    params: list[str] | None,
) -> int:
    try:
        with termination_interrupts():
            target = find(job, store=store, job_name=None, instance=instance, params=params)
            if estimate:
                from onward.cli.estimate import estimate as told

                return told(target, limit, as_json)
            bounds = _bounds(target, limit, max_failures, max_time, grace)
            flags = {
                "concurrency": concurrency,
                "budget": budget,
                "wait": wait,
                "source_changed": source_changed,
                "create": not no_create,
            }
            return _Session(target, log_format == "json", as_json).work(bounds, flags)
    except KeyboardInterrupt:
        streams.err("onward: interrupted")
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


def _bounds(
    target: Target, limit: int | None, max_failures: str | None, max_time: float | None, grace: float
) -> Bounds:
    from onward.engine.govern import Bounds
    from onward.job.job import Job
    from onward.job.plan import FailureLimit

    assert isinstance(target.job, Job)
    ceiling = FailureLimit.parse(max_failures) if max_failures is not None else target.job.max_failures
    count, percent = (ceiling.count, ceiling.percent) if ceiling is not None else (None, None)
    return Bounds(limit, count, percent, max_time, grace)


class _Session:
    """One `onward run`: who is told what, and where it goes."""

    def __init__(self, target: Target, log_json: bool, as_json: bool):
        self._target = target
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
            return self._told(runner.run, job, binding, options).exit_code
        with streams.kept_clean() as out:
            result = self._told(runner.run, job, binding, options)
            try:
                streams.answer(self._status(binding, result), out)
            except streams.AnswerLost as lost:
                streams.err(f"onward: {lost}; what is done is kept, {self._target.command('status', '--json')} has it")
                return max(result.exit_code, errors.STOPPED_EARLY) if result.exit_code != errors.USAGE else errors.USAGE
        return result.exit_code

    def _told(self, run: Callable[..., RunResult], *arguments: Any) -> RunResult:
        from onward.cli import report

        try:
            result = run(*arguments)
        finally:
            self._teller.stop()
        if result.exit_code in (errors.USAGE, errors.ONWARD_FAULT):
            streams.err(f"onward: {brief(result.reason)}")
        for line in report.closing(result, self._finished, self._target):
            self._say(line)
        return result

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
