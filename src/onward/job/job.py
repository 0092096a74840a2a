"""Job: what the user describes, and the decorators that add steps and resources to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, overload

from onward.errors import DeclarationError, OnwardError, UsageError
from onward.job import registry
from onward.job.annotations import MISSING, Names
from onward.job.checks import calls_at_once, job_name, positive_int, positive_seconds, yes_or_no
from onward.job.coding import record_validate
from onward.job.effects import Effect, EffectOptions, Key, check_fields, check_names, declare_effect
from onward.job.fields import check_field
from onward.job.groups import Group, Limit, checked_group
from onward.job.instance import Binding, InstanceTemplate, bind
from onward.job.params import ParamsType
from onward.job.place import Place, calling_place, in_notebook, where
from onward.job.plan import Classify, FailureLimit, JobReference, OnBad, Plan, ResourcePlan
from onward.job.planning import plan_steps
from onward.job.priority import Priority, check_priority, rank_reader
from onward.job.resources import declare_resource
from onward.job.signature import Choices
from onward.job.steps import DEFAULT_RETRY, MAX_OUTPUT, Step, StepOptions, declare_step, declared_name
from onward.job.values import Shape, Shapes
from onward.job.versions import used_params
from onward.model import Retry
from onward.policy.effects import OnUnknown
from onward.ports.source import Source

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
SourceLike = Source | Callable[[], Source] | Callable[[Any], Source]
_ONE_THING = "names are injected, so each means one thing"


class Job:
    """A named description: a source, steps in their order of declaration, resources, policies. It does not run itself.

    Parameters
    ----------
    name : text without `/`; records and checkpoints in a store belong to it.
    source : a source, or a function of the params (or of nothing) that returns one. Relative paths are relative to the
        file that declares the job.
    record : the type of a record's value (pydantic model, dataclass, TypedDict, …).
    params : a pydantic model or dataclass of what may differ from run to run (`-p name=value`).
    instance : a template over params, `"{day}"`: each text that comes out is a batch of its own.
    priority : a field of the record, or a function of it, that says who is admitted first: the smallest. Numbers come
        before dates, dates before text; None comes last. Judged when a record is fed.
    group : a field or `Group(…)` for all steps that have none of their own.
    classify : from an exception to Transient, Rejected, Invalid, Fatal or Done (class or object), or None; asked first.
    concurrency : how many calls may be in progress.
    max_failures : a number of records, or `"5%"` of those that ended: beyond it the run stops.
    resume_cap : after how many failed runs in a row a record is quarantined.
    outage_limit : seconds for which a run stays when calls fail with a shared cause.
    on_bad : what becomes of a bad line in the source: `"stop"` or `"quarantine"`.
    store_inputs : whether records' values are kept in the store.

    Raises DeclarationError.
    """

    def __init__(
        self,
        name: str,
        source: SourceLike,
        *,
        record: Any = None,
        params: type[Any] | None = None,
        instance: str = "",
        priority: Priority | None = None,
        group: Group | str | None = None,
        classify: Classify | None = None,
        concurrency: int = 32,
        max_failures: int | str | FailureLimit | None = None,
        resume_cap: int = 3,
        outage_limit: float = 3600.0,
        on_bad: OnBad = "stop",
        store_inputs: bool = True,
    ):
        place = calling_place()
        names = Names(place.globals, place.locals)
        self._shapes = Shapes(names)
        self._steps: dict[str, Step[..., Any]] = {}
        self._resources: dict[str, ResourcePlan] = {}
        self._groups: dict[str, Group] = {}
        self.record = record
        self.source = source
        try:
            self.name = job_name(name)
            self.params_type = None if params is None else ParamsType(params, names)
            self.template = InstanceTemplate(instance, self.params_type)
            self.concurrency = calls_at_once(concurrency)
            self.max_failures = None if max_failures is None else FailureLimit.parse(max_failures)
            self.resume_cap = positive_int("resume_cap", resume_cap)
            self.outage_limit = positive_seconds("outage_limit", outage_limit)
            self.store_inputs = yes_or_no("store_inputs", store_inputs)
            self.on_bad = _on_bad(on_bad)
            self.classify = _classify(classify)
            self._source_arguments = _source_arguments(source, params is not None)
            self._check_record()
            self.priority = check_priority(priority, record)
            self.group = self._checked_group(group)
        except DeclarationError as error:
            raise DeclarationError(f"{place}: {error}") from error.__cause__
        in_package = "." in place.module
        self.reference = JobReference(place.path, place.module if in_package else None, self.name)
        registry.notice(self)

    def __repr__(self) -> str:
        return f"<job {self.name}: {' → '.join(self._steps) or 'no steps yet'}>"

    @property
    def steps(self) -> tuple[Step[..., Any], ...]:
        return tuple(self._steps.values())

    @property
    def resources(self) -> dict[str, ResourcePlan]:
        return dict(self._resources)

    @property
    def folder(self) -> Path | None:
        """The folder of the job file, to which paths are relative; None in a notebook."""
        return self.reference.file.parent if self.reference.file is not None else None

    @overload
    def step(self, function: Callable[P, R], /) -> Step[P, R]: ...

    @overload
    def step(
        self,
        function: None = None,
        /,
        *,
        retry: Retry = ...,
        timeout: float = ...,
        concurrency: int | None = ...,
        process: bool = ...,
        version: str | int | None = ...,
        uses: Sequence[Any] = ...,
        max_output: int = ...,
        calls_out: bool = ...,
        limit: Limit | None = ...,
        group: Group | str | None = ...,
    ) -> Callable[[Callable[P, R]], Step[P, R]]: ...

    def step(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        retry: Retry = DEFAULT_RETRY,
        timeout: float = 600.0,
        concurrency: int | None = None,
        process: bool = False,
        version: str | int | None = None,
        uses: Sequence[Any] = (),
        max_output: int = MAX_OUTPUT,
        calls_out: bool = False,
        limit: Limit | None = None,
        group: Group | str | None = None,
    ) -> Any:
        """Add a step: a function of the record's value and, by name, of earlier outputs, resources, params, context.

        Parameters
        ----------
        retry : how often it is tried in one run, and the pauses.
        timeout : seconds after which a call is cut.
        concurrency : how many calls of this step may be in progress; None: as many as the job's.
        process : run it in worker processes: for work that keeps a processor busy.
        version : its version in words, instead of a fingerprint of its code.
        uses : values, functions or `"params.NAME"` that its results depend on besides its code.
        max_output : bytes of JSON text that its output may have.
        calls_out : whether it calls other services.
        limit : a ceiling on its calls, shared by all steps that are given the same object.
        group : a field or `Group(…)`: a ceiling for each value of the field, and hours, and a pause of its own.

        Raises DeclarationError that says where and lists the choices.
        """
        options = StepOptions(retry, timeout, concurrency, process, version, uses, max_output, calls_out, limit)

        def declare(declared: Callable[P, R]) -> Step[P, R]:
            return self._add_step(declared, options, group, calling_place())

        return declare if function is None else declare(function)

    def effect(
        self,
        name: str,
        *,
        key: Key,
        keyed: bool = False,
        probe_first: bool = True,
        deadline: float = 60.0,
        settle: float = 30.0,
        expires: float | None = None,
        confirm_within: float = 86400.0,
        on_unknown: OnUnknown = "hold",
        formerly: str | Sequence[str] = (),
        retry: Retry = DEFAULT_RETRY,
        concurrency: int | None = None,
        version: str | int | None = None,
        uses: Sequence[Any] = (),
        max_output: int = MAX_OUTPUT,
        limit: Limit | None = None,
        group: Group | str | None = None,
    ) -> Callable[[Callable[P, R]], Effect[P, R]]:
        """Add an effect: a step that changes the outside world, applied once or set aside. It returns the receipt.

        Besides what a step may ask for, it is given `payload` and `idempotency_key`. What it is to send, its probe and
        its confirmation are declared with `.payload`, `.probe` and `.confirm` of what this returns.

        Parameters
        ----------
        name : its name in the ledger, which all jobs of a store share. With `key` it tells obligations apart.
        key : the record's field or fields that say which obligation it is, or `{field: type}`.
        keyed : the far side dedupes by idempotency key: where the outcome is unknown it is sent again.
        probe_first : ask the probe before the first send, too (unless `keyed`).
        deadline : seconds after which a call is cut.
        settle : seconds after the end of a call within which it may still land.
        expires : with `keyed`, seconds for which the far side remembers a key: more than `deadline` + `settle`.
        confirm_within : seconds after which what is not confirmed waits for a person.
        on_unknown : without key and probe, "hold" it for a person or "resend" it, where a duplicate is harmless.
        formerly : names that it had in the ledger before.
        retry, concurrency, version, uses, max_output, limit, group : as for a step.

        Raises DeclarationError that says where and lists the choices.
        """
        own = EffectOptions(
            name, key, keyed, probe_first, deadline, settle, expires, confirm_within, on_unknown, formerly
        )
        options = StepOptions(retry, deadline, concurrency, False, version, uses, max_output, True, limit)

        def declare(declared: Callable[P, R]) -> Effect[P, R]:
            return self._add_effect(declared, own, options, group, calling_place())

        return declare

    def resource(self, function: F) -> F:
        """Add a resource: opened once a process, injected by name, closed on stop.

        A function, plain or async, that returns the value or yields it once; it may take `params` and resources
        declared before it. Raises DeclarationError.
        """
        name = declared_name(function, "resource")
        title = f"{where(function)}: resource '{name}'"
        if name in self._steps:
            raise DeclarationError(f"{title}: a step has that name already; {_ONE_THING}")
        if name in self._resources and not in_notebook(calling_place().globals):
            raise DeclarationError(f"{title} is declared twice")
        earlier = _before(self._resources, name)
        choices = Choices(resources=earlier, params=self.params_type is not None, context=False)
        self._resources[name] = declare_resource(function, name, choices)
        return function

    def _add_step(
        self, function: Callable[P, R], options: StepOptions, group: Group | str | None, place: Place
    ) -> Step[P, R]:
        name, choices = self._new_step(function, options, place)
        options = self._grouped(options, group, function, name)
        step = declare_step(function, name, options, choices, place, self._shapes)
        self._steps[name] = step
        return step

    def _add_effect(
        self,
        function: Callable[P, R],
        own: EffectOptions,
        options: StepOptions,
        group: Group | str | None,
        place: Place,
    ) -> Effect[P, R]:
        name, choices = self._new_step(function, options, place)
        options = self._grouped(options, group, function, name)
        effect = declare_effect(function, name, own, options, choices, place, self._shapes)
        check_names(effect, [one for one in self._steps.values() if isinstance(one, Effect) and one.name != name])
        check_fields(effect, self.record)
        self._steps[name] = effect
        return effect

    def _new_step(self, function: Callable[..., Any], options: StepOptions, place: Place) -> tuple[str, Choices]:
        """The name of a step that is being declared, and what may be injected into it. Raises DeclarationError."""
        name = declared_name(function, "step")
        title = f"{where(function)}: step '{name}'"
        if name in self._resources:
            raise DeclarationError(f"{title}: a resource has that name already; {_ONE_THING}")
        if name in self._steps and not in_notebook(place.globals):
            raise DeclarationError(f"{title} is declared twice; the first is at {where(self._steps[name].function)}")
        known = self.params_type.fields if self.params_type is not None else {}
        uses = options.uses if isinstance(options.uses, tuple | list) else (options.uses,)
        for param in used_params(uses):
            if param not in known:
                listed = f"choices: {', '.join(known)}" if known else "Job(params=…) is not given"
                raise DeclarationError(f"{title}: uses= names the param {param!r}, which there is not ({listed})")
        return name, Choices(_before(self._steps, name), list(self._resources), self.params_type is not None)

    def _grouped(
        self, options: StepOptions, group: Group | str | None, function: Callable[..., Any], name: str
    ) -> StepOptions:
        try:
            return options._replace(group=self._checked_group(group))
        except DeclarationError as error:
            raise DeclarationError(f"{where(function)}: step '{name}': {error}") from None

    def _checked_group(self, given: Group | str | None) -> Group | None:
        group = checked_group(given, self._groups)
        if group is not None:
            check_field("group", group.field, self.record)
        return group

    def bind(self, given: Any = None, assignments: Sequence[str] = ()) -> Binding:
        """Params from an object or mapping and from `name=value` texts, and the instance they make.

        Raises UsageError that lists the choices.
        """
        if self.params_type is None:
            if given is not None or assignments:
                raise UsageError(f"job '{self.name}' takes no params: it is declared without Job(params=…)")
            return bind(None, self.template, None)
        return bind(self.params_type, self.template, self.params_type.parse(given, assignments))

    def bind_json(self, params_json: str | None) -> Binding:
        """The binding that `Binding.params_json` was made from, in another process. Raises UsageError."""
        if self.params_type is None or params_json is None:
            return self.bind()
        return bind(self.params_type, self.template, self.params_type.from_json(params_json))

    def plan(self, params: Any = None) -> Plan:
        """What is to be run for these params, `Binding.params`.

        Raises DeclarationError, and UsageError where a step's version depends on params that are not given.
        """
        if not self._steps:
            raise DeclarationError(f"job '{self.name}' has no steps")
        try:
            record = self.record_shape()
        except NameError as error:
            raise DeclarationError(f"job '{self.name}': record names {error.name}, which is not defined") from error
        return Plan(
            job=self.name,
            steps=plan_steps(self.steps, record, params, ignored=(Job,), group=self.group),
            resources=self.resources,
            record_validate=None if record is None else record_validate(record),
            concurrency=self.concurrency,
            max_failures=self.max_failures,
            resume_cap=self.resume_cap,
            on_bad=self.on_bad,
            store_inputs=self.store_inputs,
            classify=self.classify,
            reference=self.reference,
            rank_of=None if self.priority is None else rank_reader(self.priority, record),
            outage_limit=self.outage_limit,
        )

    def open_source(self, params: Any = None) -> Source:
        """The source for these params, its relative paths based at the job file's folder. Raises UsageError."""
        source: Any = self.source
        if self._source_arguments is not None:
            try:
                source = self.source(*[params][: self._source_arguments])  # type: ignore[operator]
            except OnwardError:
                raise
            except Exception as error:
                raise UsageError(f"the source of job '{self.name}' raised {type(error).__name__}: {error}") from error
            if not _is_source(source):
                raise UsageError(f"the function given as source returned {source!r}, which is not a source")
        based_at = getattr(source, "based_at", None)
        return source if based_at is None or self.folder is None else based_at(self.folder)  # type: ignore[no-any-return]

    def record_shape(self) -> Shape | None:
        """The shape of `record`; None without it. Raises NameError while a class that it needs is not defined."""
        try:
            return None if self.record is None else self._shapes.of(self.record)
        except DeclarationError as error:
            raise DeclarationError(f"record: {error}") from error

    def _check_record(self) -> None:
        with suppress(NameError):  # defined further down in the file: the plan asks again
            self.record_shape()


def _before(names: dict[str, Any], name: str) -> list[str]:
    """The names that come before `name`: all where it is new, those before its place where it is declared again."""
    listed = list(names)
    return listed[: listed.index(name)] if name in names else listed


def _is_source(value: Any) -> bool:
    return hasattr(value, "read") and hasattr(value, "resume")


def _source_arguments(source: Any, has_params: bool) -> int | None:
    """How many arguments the source's function wants; None for a source itself."""
    if _is_source(source):
        return None
    if not callable(source):
        raise DeclarationError(f"source must be a source (jsonl, csv, …) or a function that makes one, not {source!r}")
    try:
        parameters = [item for item in inspect.signature(source).parameters.values() if item.default is MISSING]
    except (TypeError, ValueError):
        return 1 if has_params else 0
    wanted = [item for item in parameters if item.kind is not inspect.Parameter.VAR_KEYWORD]
    if len(wanted) > 1 or any(item.kind is inspect.Parameter.KEYWORD_ONLY for item in wanted):
        raise DeclarationError("the function given as source takes one argument, the params, or none")
    if wanted and not has_params:
        raise DeclarationError("the function given as source takes params, but Job(params=…) is not given")
    return len(wanted)


def _on_bad(given: Any) -> OnBad:
    if given not in get_args(OnBad):
        raise DeclarationError(f"on_bad must be {' or '.join(map(repr, get_args(OnBad)))}, not {given!r}")
    return given  # type: ignore[no-any-return]


def _classify(given: Any) -> Classify | None:
    if given is not None and not callable(given):
        raise DeclarationError(f"classify must be a function from exception to one of onward's or None, not {given!r}")
    return given  # type: ignore[no-any-return]
