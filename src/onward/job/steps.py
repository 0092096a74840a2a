"""Steps as they are declared: a plain function with its options, and what its parameters stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from onward.errors import DeclarationError
from onward.job.annotations import MISSING, names_of
from onward.job.checks import positive_int, positive_seconds, yes_or_no
from onward.job.groups import Group, Limit, checked_limit
from onward.job.place import Place, in_notebook, where
from onward.job.signature import RESERVED, Choices, Slot, read_signature, step_slots
from onward.job.values import PLAIN, Shape, Shapes
from onward.job.versions import check_uses, declared_source
from onward.model import Retry

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_RETRY = Retry()
MAX_OUTPUT = 16 * 1024 * 1024


class StepOptions(NamedTuple):
    """What `@job.step(…)` was given."""

    retry: Retry = DEFAULT_RETRY
    timeout: float = 600.0
    concurrency: int | None = None
    process: bool = False
    version: str | int | None = None
    uses: Sequence[Any] = ()
    max_output: int = MAX_OUTPUT
    calls_out: bool = False
    limit: Limit | None = None
    group: Group | None = None

    def checked(self) -> StepOptions:
        """Raises DeclarationError for a value that cannot be meant; a single value of `uses` becomes a tuple."""
        if not isinstance(self.retry, Retry):
            raise DeclarationError(f"retry must be Retry(…), not {self.retry!r}")
        if self.concurrency is not None:
            positive_int("concurrency", self.concurrency)
        positive_int("max_output", self.max_output)
        yes_or_no("process", self.process)
        yes_or_no("calls_out", self.calls_out)
        checked_limit(self.limit)
        if self.version is not None and (type(self.version) not in (str, int) or self.version == ""):
            raise DeclarationError(f"version must be text or a number, not {self.version!r}")
        uses = tuple(self.uses) if isinstance(self.uses, tuple | list) else (self.uses,)
        check_uses(uses)
        return self._replace(uses=uses, timeout=positive_seconds("timeout", self.timeout))


class Step(Generic[P, R]):
    """A declared step. Called, it is the plain function that it was."""

    __name__: str

    def __init__(
        self, function: Callable[P, R], name: str, options: StepOptions, slots: tuple[Slot, ...], shapes: Shapes
    ):
        update_wrapper(self, function)
        self.function = function
        self.name = name
        self.options = options
        self.slots = slots
        self.source = declared_source(function)
        self._shapes = shapes

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<step {self.name} at {where(self.function)}>"

    @property
    def plain_parameters(self) -> frozenset[str]:
        """Parameters whose annotations say nothing about results."""
        return frozenset(slot.parameter for slot in self.slots if not slot.decoded)

    def returns(self) -> Any:
        """The return annotation as it was written; MISSING without one."""
        return inspect.signature(self.function).return_annotation

    def shape(self, annotation: Any, what: str) -> Shape:
        """The shape that `annotation` names here. Raises NameError while it is not defined yet, DeclarationError."""
        if annotation is MISSING:
            return PLAIN
        title = f"{where(self.function)}: step '{self.name}': {what}"
        try:
            return self._shapes.of(annotation)
        except DeclarationError as error:
            raise DeclarationError(f"{title}: {error}") from error
        except (SyntaxError, TypeError, AttributeError) as error:
            raise DeclarationError(f"{title}: the annotation {annotation!r} cannot be read: {error}") from error

    def annotated(self) -> list[tuple[Any, str]]:
        """Every annotation that decides how a value is kept, with what it is of."""
        kept = [(slot.annotation, f"its parameter '{slot.parameter}'") for slot in self.slots if slot.decoded]
        return [*kept, (self.returns(), "its return annotation")]


def declare_step(
    function: Callable[P, R],
    name: str,
    options: StepOptions,
    choices: Choices,
    place: Place,
    shapes: Shapes,
    kind: type[Step[P, R]] | None = None,
) -> Step[P, R]:
    """A step whose parameters are all known. Raises DeclarationError that says where and lists the choices."""
    title = f"{where(function)}: step '{name}'"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(f"{title} yields; a step returns its output")
    try:
        checked = options.checked()
    except DeclarationError as error:
        raise DeclarationError(f"{title}: {error}") from None
    if checked.process and in_notebook(place.globals):
        raise DeclarationError(
            f"{title}: process=True needs a job that another process can load, and none can load a notebook; "
            "put the job into a .py file and import it from there"
        )
    slots = step_slots(function, name, choices)
    step = (kind or Step)(function, name, checked, slots, shapes.among(names_of(function, place.locals)))
    for annotation, what in step.annotated():
        try:
            step.shape(annotation, what)
        except NameError:
            continue  # defined further down in the file: the plan asks again
    return step


def declared_name(function: Any, kind: str) -> str:
    """The name of a function that is declared as a step or resource. Raises DeclarationError."""
    if inspect.isclass(function) or not callable(function):
        raise DeclarationError(f"a {kind} is a function, not {function!r}")
    name = getattr(function, "__name__", "")
    title = f"{where(function)}: " if where(function) else ""
    if not name.isidentifier():
        raise DeclarationError(f"{title}a {kind} needs a name of its own; write it with def")
    if name in RESERVED:
        raise DeclarationError(f"{title}a {kind} cannot be called '{name}': that name means something else")
    read_signature(function, f"{kind} '{name}'")
    return str(name)
