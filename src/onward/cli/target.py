"""What a command is about: a job by its file, or by its name in a store; and how the next command is typed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from onward.cli import streams
from onward.errors import UsageError

if TYPE_CHECKING:
    from onward.job.job import Job


PROMPT = "prompt-"
BUDGET = "--budget"
PASSWORD = "PASSWORD"
"""Stands where one has to be typed, as KEY and FILE do elsewhere: what is shown may be read by anybody."""
_IN_ADDRESS = re.compile(r"(://[^:/@\s]*:)[^@\s]*@")


@dataclass(frozen=True, slots=True)
class Target:
    """`job` is its name where only the store is at hand; `params` is None unless some were given. `again`: how it is
    run, where that is not by `onward run`; `results`: the words behind `onward export`."""

    job: Job | str
    typed: tuple[str, ...]
    store: str | None
    instance: str | None
    params: Any
    again: tuple[str, ...] = ()
    results: tuple[str, ...] = ("--out", "results.jsonl")

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments that questions and acts share."""
        return {"store": self.store, "params": self.params, "instance": self.instance}

    def command(self, act: str, *more: str) -> str:
        """A command about the same thing, as it is typed; what its environment says already is left out, and for
        passwords in addresses there is a word."""
        return _typed("onward", act, *self.typed, *more)

    @property
    def run_command(self) -> str:
        """How it is run; from the store alone, without the job's file, it cannot be."""
        if self.again:
            return _typed(*self.again)
        if not isinstance(self.job, str):
            return self.command("run")
        if self.job.startswith(PROMPT):
            return f"onward prompt, as '{self.job}' was run before"
        return f"onward run JOB, the file that declares '{self.job}', or onward prompt as before"

    @property
    def raised_command(self) -> str | None:
        """How it is run with another budget, which is typed behind it; None where it is not run with one."""
        if BUDGET not in self.again:
            return None
        at = self.again.index(BUDGET)
        return _typed(*self.again[:at], *self.again[at + 2 :])

    def resume_command(self, groups: Sequence[str | None], and_run: bool) -> str:
        """What lets go on what people have paused, groups or (None) the job; `and_run`: and runs it."""
        paused = [None] if None in groups else groups
        words = " && ".join(self.command("resume", *([] if group is None else ["--group", group])) for group in paused)
        is_typed = bool(self.again) or not isinstance(self.job, str)
        return words + (f"{' && ' if is_typed else ', then '}{self.run_command}" if and_run else "")

    def sample_command(self, number: int) -> str:
        """How some stale records are made anew first; by what runs the job where it has no file."""
        if self.again:
            return _typed(*self.again, "--sample", str(number))
        return self.command("rerun", "--sample", str(number))

    @property
    def word_command(self) -> str:
        """How a person says what became of an effect."""
        return f"{self.command('reconcile', 'KEY', '--sent', 'RECEIPT')} (or --not-sent)"

    def can_be_asked(self, step: str | None) -> bool:
        """Whether there may be somebody to ask what became of a step's effect."""
        from onward.job.effects import Effect

        steps = () if isinstance(self.job, str) else self.job.steps
        effect = next((one for one in steps if one.name == step and isinstance(one, Effect)), None)
        return effect is None or effect.traits().finds_out or effect.traits().has_confirm

    @property
    def export_command(self) -> str:
        return self.command("export", *self.results)


def _typed(*words: str) -> str:
    return shlex.join(map(_without_password, words))


def _without_password(word: str) -> str:
    from onward.policy import servers

    if word.partition("://")[0] in servers.SCHEMES:
        with contextlib.suppress(ValueError):
            parts = servers.split(word)
            return parts.masked(PASSWORD).text(safe="/,") if parts.secrets() else word
    return _IN_ADDRESS.sub(rf"\1{PASSWORD}@", word)


def store_words(store: str | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """How a store is named on a command line; not at all where a variable does."""
    return [] if store is None or store == environment.get("ONWARD_STORE") else ["--store", store]


class About(TypedDict):
    """The flags that all commands but `run` share: `flags.ABOUT`."""

    store: str | None
    job_name: str | None
    instance: str | None
    params: list[str] | None


def find(word: str | None, **about: Unpack[About]) -> Target:
    """Load the job that `word` names, or take `job_name` from the store. Raises UsageError."""
    store, job_name, instance = about["store"], about["job_name"], about["instance"]
    given = tuple(about["params"] or ())
    if word is not None and job_name is not None:
        raise UsageError("JOB and --job (or ONWARD_JOB) both name the job; give one of them")
    if word is None and job_name is None:
        raise UsageError("which job? Give JOB (path/to/job.py), or --store URL --job NAME")
    typed = [*store_words(store), *(["--instance", instance] if instance else [])]
    typed += [part for assignment in given for part in ("-p", assignment)]
    if job_name is not None:
        return _in_store(job_name, store, instance, given, typed)
    from onward.job.loading import load_job

    assert word is not None
    with streams.kept_clean():  # what a job's file prints is no part of an answer
        job = load_job(word)
        params = job.bind(None, given).params if given else None
    return Target(job, (word, *typed), store, instance, params)


def _in_store(name: str, store: str | None, instance: str | None, given: Sequence[str], typed: Sequence[str]) -> Target:
    if store is None:
        raise UsageError("--job NAME needs --store URL: the job's file would have said where its store is")
    if given:
        raise UsageError("-p needs the job's file, which knows its params; with --job give --instance NAME")
    return Target(name, ("--job", name, *typed), store, instance, None)


def split(words: Sequence[str] | None, job_name: str | None) -> tuple[str | None, list[str]]:
    """JOB and the keys behind it; with `--job` all words are keys."""
    every = list(words or ())
    if job_name is not None or not every:
        return None, every
    return every[0], every[1:]
