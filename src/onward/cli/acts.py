"""Commands that change something: `onward retry`, `release` and `rerun` only mark; `onward run` works. What is said to
runs at work (`pause`, `drain`, `concurrency`) they notice by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from onward.cli import streams
from onward.cli.flags import calls
from onward.cli.target import About, find, split
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


def drain(run: str | None, job: str | None, reason: str | None, **about: Unpack[About]) -> int:
    from onward import api

    target = find(job, **about)
    streams.answer(api.drain(target.job, **target.asked, run=run, reason=reason))
    return 0


def concurrency(words: list[str] | None, reason: str | None, **about: Unpack[About]) -> int:
    """Without a number: what people have said."""
    from onward import api

    job, said = split(words, about["job_name"])
    if len(said) > 1:
        raise UsageError(f"concurrency takes one number, or default, not {' '.join(said)}")
    default = said == ["default"]
    try:
        number = calls(said[0]) if said and not default else None
    except ValueError as error:
        raise UsageError(f"{error}; or say default, which takes back what was said") from None
    target = find(job, **about)
    streams.answer(api.concurrency(target.job, number, **target.asked, default=default, reason=reason))
    return 0


def vacuum(job: str | None, older_than: float, dry_run: bool, as_json: bool, **about: Unpack[About]) -> int:
    from onward import api

    target = find(job, **about)
    emptied = api.vacuum(target.job, older_than, **target.asked, dry_run=dry_run)
    if as_json:
        from onward.codec import dumps

        streams.answer(dumps(emptied.plain()))
    else:
        streams.answer(str(emptied))
    return 0


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
