"""What a worker is told: all that crosses the wire. The store's address is in it and nowhere else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onward.engine.govern import Bounds
from onward.errors import UsageError
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.loading import load_reference
from onward.job.plan import JobReference
from onward.runner import Options


@dataclass(frozen=True, slots=True)
class Assignment:
    """`file`: the job's file below the folder that travels, or below the worker's current folder; `location`: the
    input's, as it is where the command was given, for the folder lies elsewhere on each machine; `onward`: the version
    that the command is of. Times in seconds, `budget` in US dollars."""

    name: str
    file: str | None
    module: str | None
    params: str | None
    instance: str
    store: str = field(repr=False)
    location: str | None
    onward: str | None
    concurrency: int | None = None
    budget: float | None = None
    max_failures: int | None = None
    max_failures_percent: float | None = None
    wait: float = 60.0
    grace: float = 30.0
    source_changed: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str | bytes) -> Assignment:
        return cls(**json.loads(text))

    def load(self) -> Job:
        """The job, from the current folder. Raises UsageError, also where onward is of another version here."""
        here = own_version()
        if None not in (self.onward, here) and self.onward != here:
            raise UsageError(f"onward {here} is installed here, and {self.onward} where the command was given")
        file = None if self.file is None else Path.cwd() / self.file
        return load_reference(JobReference(file, self.module, self.name))

    def bind(self, job: Job) -> Binding:
        binding = job.bind_json(self.params)
        if binding.instance != self.instance:
            raise UsageError(f"the params make the instance {binding.instance!r} here, not {self.instance!r}")
        return binding

    def options(self) -> Options:
        bounds = Bounds(None, self.max_failures, self.max_failures_percent, None, self.grace)
        return Options(
            store=self.store,
            concurrency=self.concurrency,
            budget=self.budget,
            bounds=bounds,
            wait=self.wait,
            source_changed=self.source_changed,
            location=self.location,
        )


def own_version() -> str | None:
    try:
        return version("onward")
    except PackageNotFoundError:
        return None


def travelling_folder(reference: JobReference) -> Path | None:
    """The folder that travels to the workers: that of the job's file, or the one that its package lies in; None for a
    package that is installed, which has to be so there, too."""
    file = reference.file
    if file is None:
        return None
    if reference.module is None:
        return file.parent
    depth = reference.module.count(".") + (1 if file.name == "__init__.py" else 0)
    root = file.parents[depth]
    return None if {"site-packages", "dist-packages"} & set(root.parts) else root


def below(folder: Path | None, file: Path | None) -> str | None:
    """The file's name in a folder, with slashes; None where no folder travels."""
    return None if folder is None or file is None else file.relative_to(folder).as_posix()
