"""`onward run`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from onward.cli import streams
from onward.cli.errors import STOPPED_EARLY
from onward.cli.options import AsJson, Debug, Instance, JobWord, Params, Store, seconds_option
from onward.cli.target import Target, find

if TYPE_CHECKING:
    from onward.engine.govern import Bounds
    from onward.engine.tally import Progress
    from onward.job.instance import Binding
    from onward.model import RunResult
    from onward.runner import Announcement

EXIT_CODES = """\b
Exit codes:
0    every record of the instance succeeded (with --limit: every one tried)
1    finished, but some are failed, unconfirmed or quarantined
2    wrong usage, bad job, bad input: nothing was started
3    stopped early, start it again (a signal, --max-time, a long outage)
4    stopped early, a person must act first (fatal, --max-failures, a bad line, …)
70   a fault of onward itself
130  a second Ctrl-C; 143: a second SIGTERM
"""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class Teller(Protocol):
    """Who is told of a run while it works. `event` is called from several threads."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def event(self, event: str, fields: Mapping[str, Any]) -> None: ...

    def progress(self, progress: Progress) -> None: ...


def run(
    job: JobWord = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, metavar="N", envvar="ONWARD_CONCURRENCY", help="Most calls in progress."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", envvar="ONWARD_LIMIT", help="Start at most N unfinished records."),
    ] = None,
    max_failures: Annotated[
        str | None,
        typer.Option(
            "--max-failures",
            metavar="N|P%",
            envvar="ONWARD_MAX_FAILURES",
            help="Stop when more than N records, or P% of those that ended here, failed.",
        ),
    ] = None,
    max_time: Annotated[
        float | None, seconds_option("--max-time", "ONWARD_MAX_TIME", "Stop in good order after this time: 55m, 1h30m.")
    ] = None,
    wait: Annotated[
        float, seconds_option("--wait", "ONWARD_WAIT", "How long to stay for what others have to confirm.", "60s")
    ] = 60.0,
    grace: Annotated[
        float, seconds_option("--grace", "ONWARD_GRACE", "How long calls may go on once told to stop.", "30s")
    ] = 30.0,
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", envvar="ONWARD_LOG_FORMAT", help="json: one event a line on the error output."),
    ] = LogFormat.TEXT,
    as_json: AsJson = False,
    source_changed: Annotated[
        bool,
        typer.Option(
            "--source-changed", envvar="ONWARD_SOURCE_CHANGED", help="The input lies elsewhere now.", show_default=False
        ),
    ] = False,
    no_create: Annotated[
        bool,
        typer.Option("--no-create", envvar="ONWARD_NO_CREATE", help="A missing store is an error.", show_default=False),
    ] = False,
    store: Store = None,
    instance: Instance = None,
    params: Params = None,
    debug: Debug = False,
) -> int:
    """Run a job, or resume it: what is done stays done."""
    try:
        with _termination_interrupts():
            target = find(job, store, None, instance, params)
            bounds = _bounds(target, limit, max_failures, max_time, grace)
            flags = {
                "concurrency": concurrency,
                "wait": wait,
                "source_changed": source_changed,
                "create": not no_create,
            }
            return _Session(target, log_format is LogFormat.JSON, as_json).work(bounds, flags)
    except KeyboardInterrupt:
        streams.err("onward: interrupted before the run had begun")
        return STOPPED_EARLY


@contextlib.contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Until the run listens to signals itself, SIGTERM is like Ctrl-C: nothing has begun."""

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
        self._teller = _json_log() if log_json else _text_teller()
        self._finished: Mapping[str, Any] = {}

    def work(self, bounds: Bounds, flags: Mapping[str, Any]) -> int:
        from onward import api, runner
        from onward.job.job import Job

        job = self._target.job
        assert isinstance(job, Job)
        binding = api.bind(job, self._target.params, self._target.instance)
        options = runner.Options(
            store=self._target.store,
            bounds=bounds,
            progress=None if self._log_json else self._teller.progress,
            listeners=[(self._teller.event, self._log_json), (self._hear, False)],
            announce=self._announce,
            before_exit=_last_words,
            **flags,
        )
        if not self._as_json:
            return self._told(runner.run, job, binding, options).exit_code
        with streams.OneLineOut() as last_line:
            result = self._told(runner.run, job, binding, options)
            last_line.say(self._status(binding, result))
        return result.exit_code

    def _told(self, run: Callable[..., RunResult], *arguments: Any) -> RunResult:
        from onward.cli import report

        try:
            result = run(*arguments)
        finally:
            self._teller.stop()
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

    def _say(self, line: str) -> None:
        """To standard output, unless that is for the status object; never among JSON events."""
        if not self._as_json:
            streams.out(line)
        elif not self._log_json:
            streams.err(line)

    def _status(self, binding: Binding, result: RunResult) -> str:
        from onward import api
        from onward.codec import dumps

        return dumps(api.status(self._target.job, store=self._target.store, instance=binding.instance))


def _text_teller() -> Teller:
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", ""):
        from onward.cli.display import Display

        return Display()
    from onward.cli.lines import Lines

    return Lines()


def _json_log() -> Teller:
    from onward.cli.logs import JsonLog

    return JsonLog(sys.stderr)


def _last_words() -> None:
    """Said from within a signal handler, so written straight to the error output."""
    with contextlib.suppress(OSError):
        os.write(2, b"\nonward: stopped at once; the same command goes on from here\n")


run.__doc__ = f"{run.__doc__}\n\n{EXIT_CODES}"
