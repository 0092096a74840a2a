"""Finding a job by what people type, and again in another process."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from onward.errors import DeclarationError, UsageError
from onward.job import registry
from onward.job.folders import belongs_to_others, make_importable
from onward.job.job import Job
from onward.job.place import whole_path
from onward.job.plan import JobReference

_FORMS = "path/to/job.py, path/to/job.py:name or package.module:name"


def load_job(spec: str) -> Job:
    """The job that `spec` names: `path/to/job.py`, `path/to/job.py:name` or `package.module:name`.

    `name` is that of the variable or of the job; where there is one job only, none is needed. Raises UsageError, also
    for whatever goes wrong in the file (its `__cause__` has the traceback); a DeclarationError passes.
    """
    place, name = _split(spec)
    if _is_path(place):
        file = whole_path(Path(place))
        module, noticed = _load_file(file)
        job = _pick(place, name, module, noticed, file)
        job.reference = JobReference(file, None, job.name)
        return job
    make_importable(str(Path.cwd()))
    module, noticed = _import(place)
    origin = whole_path(Path(module.__file__)) if module.__file__ else None
    job = _pick(place, name, module, noticed, origin)
    job.reference = JobReference(origin, module.__name__, job.name)
    return job


def load_reference(reference: JobReference) -> Job:
    """The job that `reference` means, loaded in this process: nothing that the file does as a script is done.

    Raises UsageError where it cannot be loaded.
    """
    file = reference.file
    if reference.recipe is not None and reference.module is not None:
        job: Job = importlib.import_module(reference.module).job_of(reference.recipe)
        return job
    if reference.module is not None:
        if file is not None:
            make_importable(str(_root(file, reference.module)))
        module, noticed = _import(reference.module)
    elif file is not None:
        module, noticed = _load_file(file)
    else:
        raise UsageError(f"job '{reference.name}' is declared in a notebook; another process cannot load it from there")
    found = [job for job in _candidates(module, noticed, None) if job.name == reference.name]
    if len(found) != 1:
        many = "more than one job" if found else "no job"
        raise UsageError(
            f"{file or reference.module} declares {many} named '{reference.name}' when it is loaded; a job that other "
            "processes work on is declared at the top level of its file"
        )
    found[0].reference = reference
    return found[0]


def _split(spec: str) -> tuple[str, str | None]:
    if Path(spec).is_file():
        return spec, None
    place, colon, name = spec.rpartition(":")
    if not colon or (len(place) == 1 and name.startswith(("\\", "/"))):
        return spec, None
    if not place or not name:
        raise UsageError(f"{spec!r} names no job; give {_FORMS}")
    return place, name


def _is_path(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place or Path(place).is_file()


def _load_file(file: Path) -> tuple[ModuleType, list[Job]]:
    """Runs the file afresh under its own name, from its text: a cached compilation may be older than a quick edit."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    make_importable(str(file.parent))
    module = ModuleType(_module_name(file))
    module.__file__ = str(file)
    module.__spec__ = importlib.util.spec_from_file_location(module.__name__, file)
    return _run(module, lambda: exec(compile(text, str(file), "exec", dont_inherit=True), module.__dict__))


def _run(module: ModuleType, execute: Callable[[], None]) -> tuple[ModuleType, list[Job]]:
    """Runs a module up to its end or to where it would run a job, and gathers the jobs that it declares."""
    sys.modules[module.__name__] = module
    with registry.noticing() as noticed:
        try:
            execute()
        except registry.StopLoading:
            pass
        except BaseException as error:
            sys.modules.pop(module.__name__, None)
            _explain(error, module.__file__ or module.__name__)
            raise
    return module, noticed


def _module_name(file: Path) -> str:
    """The file's own name, unless another module goes by it, or would."""
    known = sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return file.stem
    taken = known is not None or belongs_to_others(file.stem)
    return f"onward_job_{file.stem}" if taken else file.stem


def _import(name: str) -> tuple[ModuleType, list[Job]]:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} names no job; give {_FORMS}")
    if name in sys.modules:
        return sys.modules[name], []
    with registry.noticing():
        try:
            spec = importlib.util.find_spec(name)  # imports the packages around it
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(f"{error.name}."):
                _explain(error, name)
            spec = None
        except BaseException as error:
            _explain(error, name)
            raise
    if spec is None or spec.loader is None:
        raise UsageError(f"there is no file and no module {name}; give {_FORMS}")
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    loaded = _run(module, lambda: loader.exec_module(module))
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return loaded


def _explain(error: BaseException, place: str) -> None:
    """Raises what went wrong in a job file as UsageError with its spot; returns for what is not an error."""
    if isinstance(error, DeclarationError | KeyboardInterrupt | GeneratorExit):
        return
    if isinstance(error, SyntaxError) and error.filename:
        spot, said = f"{error.filename}:{error.lineno}", f"{type(error).__name__}: {error.msg}"
    else:
        import traceback

        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
        spot = f"{place}:{lines[-1]}" if lines else place
        said = traceback.format_exception_only(error)[0].splitlines()[0]
    if isinstance(error, SystemExit):
        said = f"the file ends the process (sys.exit({error.code!r})) when it is loaded"
    raise UsageError(f"{spot}: {said}") from error


def _root(file: Path, module: str) -> Path:
    """The folder from which `module` is imported, when `file` is its file."""
    depth = module.count(".") + (1 if file.name == "__init__.py" else 0)
    return file.parents[depth]


def _pick(place: str, name: str | None, module: ModuleType, noticed: list[Job], file: Path | None) -> Job:
    candidates = _candidates(module, noticed, file)
    if name is None:
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            raise UsageError(f"{place} declares no job: it has no Job(…) at its top level")
        raise UsageError(f"{place} has {len(candidates)} jobs; add one's name, {_listed(candidates, module)}")
    variable = getattr(module, name, None)
    if isinstance(variable, Job):
        return variable
    named = [job for job in candidates if job.name == name]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(f"{place} has {len(named)} jobs named '{name}'; give the variable, {_listed(named, module)}")
    raise UsageError(f"{place} has no job '{name}' (choices: {_listed(candidates, module)})")


def _candidates(module: ModuleType, noticed: list[Job], file: Path | None) -> list[Job]:
    """The jobs in a module's variables and those noticed meanwhile; those of the file itself where it has any."""
    in_variables = [value for value in vars(module).values() if isinstance(value, Job)]
    every = _distinct([*in_variables, *noticed])
    own = [job for job in every if file is not None and job.reference.file == file]
    return own or _distinct(in_variables) or every


def _distinct(jobs: Iterable[Job]) -> list[Job]:
    return list({id(job): job for job in jobs}.values())


def _listed(jobs: Iterable[Job], module: ModuleType) -> str:
    return ", ".join(_variable_of(job, module) or job.name for job in jobs) or "none"


def _variable_of(job: Job, module: ModuleType) -> Any:
    return next((name for name, value in vars(module).items() if value is job), None)
