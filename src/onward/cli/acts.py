"""`onward retry`, `release` and `rerun`: they only mark; `onward run` works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onward.cli import streams
from onward.cli.target import find, split
from onward.errors import UsageError


def retry(words: list[str] | None, **rest: Any) -> int:
    from onward import api

    return _mark(api.retry, words, **rest)


def release(words: list[str] | None, **rest: Any) -> int:
    from onward import api

    return _mark(api.release, words, **rest)


def rerun(words: list[str] | None, sample: int | None, as_json: bool, **rest: Any) -> int:
    from onward import api

    if sample is None:
        if as_json:
            raise UsageError("rerun has --json with --sample alone")
        return _mark(api.rerun, words, **rest)
    job, keys = split(words, rest["job_name"])
    others = [f"--{name}" for name in ("all", "kind") if rest[name]] + (["--from"] if rest["from_file"] else [])
    if keys or others:
        raise UsageError(f"--sample chooses by itself, alone or with --step; leave out {' '.join(others or keys)}")
    from onward.cli.sample import sample as tried

    about = {name: rest[name] for name in ("store", "job_name", "instance", "params")}
    return tried(find(job, **about), sample, rest["step"], rest["dry_run"], as_json)


def pause(**rest: Any) -> int:
    from onward import api

    return _pause(api.pause, **rest)


def resume(**rest: Any) -> int:
    from onward import api

    return _pause(api.resume, **rest)


def _pause(
    act: Callable[..., str],
    job: str | None,
    group: str | None,
    reason: str | None,
    store: str | None,
    job_name: str | None,
    instance: str | None,
    params: list[str] | None,
) -> int:
    target = find(job, store=store, job_name=job_name, instance=instance, params=params)
    streams.answer(act(target.job, **target.asked, group=group, reason=reason))
    return 0


def _mark(
    act: Callable[..., Any],
    words: list[str] | None,
    store: str | None,
    job_name: str | None,
    instance: str | None,
    params: list[str] | None,
    **selection: Any,
) -> int:
    """Mark what `selection` chooses (from_file, all, kind, step, stale, dry_run) among the records or keys named."""
    from onward.operate.choices import Typed

    job, keys = split(words, job_name)
    target = find(job, store=store, job_name=job_name, instance=instance, params=params)
    marked = act(target.job, *map(Typed, keys), **target.asked, **selection)
    streams.answer(str(marked))
    if marked.count and not marked.dry_run:
        streams.answer(f"Next: {target.run_command}")
    return 0
