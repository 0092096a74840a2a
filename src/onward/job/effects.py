"""Effects as they are declared: steps that change the outside world, with what tells their obligations apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, get_args

from onward.errors import DeclarationError
from onward.job.checks import positive_seconds, seconds_from_zero, yes_or_no
from onward.job.fields import field_types
from onward.job.place import Place, where
from onward.job.signature import Choices
from onward.job.steps import Step, StepOptions, declare_step
from onward.job.values import Shapes
from onward.policy.effects import OnUnknown, Traits
from onward.policy.identity import FIELD_TYPES, NoIdentity, as_declared

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Key = str | Sequence[str] | Mapping[str, type | None]


class EffectOptions(NamedTuple):
    """What `@job.effect(…)` was given besides what every step may be given."""

    name: str
    key: Key
    keyed: bool
    probe_first: bool
    deadline: float
    settle: float
    expires: float | None
    confirm_within: float
    on_unknown: OnUnknown
    formerly: Sequence[str]

    def checked(self) -> EffectOptions:
        """Raises DeclarationError for a value that cannot be meant."""
        former = (self.formerly,) if isinstance(self.formerly, str) else tuple(self.formerly)
        for name in (self.name, *former):
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                raise DeclarationError(f"an effect's name in the ledger is text, not {name!r}")
        if self.name in former:
            raise DeclarationError(f"formerly= names {self.name!r}, which is the effect's name now")
        yes_or_no("keyed", self.keyed)
        yes_or_no("probe_first", self.probe_first)
        if self.on_unknown not in get_args(OnUnknown):
            raise DeclarationError(f"on_unknown must be 'hold' or 'resend', not {self.on_unknown!r}")
        checked = self._replace(
            key=_key_fields(self.key),
            deadline=positive_seconds("deadline", self.deadline),
            settle=seconds_from_zero("settle", self.settle),
            expires=None if self.expires is None else positive_seconds("expires", self.expires),
            confirm_within=positive_seconds("confirm_within", self.confirm_within),
            formerly=former,
        )
        checked._check_expires()
        return checked

    def _check_expires(self) -> None:
        if self.expires is None:
            return
        if not self.keyed:
            raise DeclarationError(
                "expires= says how long the far side remembers a key, and means something only with keyed=True: "
                "declare that it dedupes by key, or leave expires= out"
            )
        if self.expires <= self.deadline + self.settle:
            raise DeclarationError(
                f"expires={self.expires:g} is over before a send has surely landed (deadline + settle = "
                f"{self.deadline + self.settle:g} s), so that nothing could ever be sent again with its key: make "
                "deadline= and settle= shorter; or leave keyed= and expires= out, and declare a probe"
            )

    @property
    def fields(self) -> dict[str, type | None]:
        """The key's fields with the types that were declared for them."""
        assert isinstance(self.key, dict)
        return self.key


class Effect(Step[P, R]):
    """A declared effect. `parts` are the functions that were declared to go with it."""

    effect: EffectOptions
    parts: dict[str, Step[..., Any]]
    _declare_part: Callable[[Callable[..., Any], str, Choices], Step[..., Any]]
    _choices: Choices

    def payload(self, function: F) -> F:
        """What will be sent: a function of the record and, by name, earlier outputs, resources, params, context.

        It is called before the intent is made durable; what it returns is frozen with the intent.
        """
        return self._part("payload", function, self._choices)

    def probe(self, function: F) -> F:
        """Ask the far side whether it was applied: the receipt, `onward.ABSENT` or `onward.UNKNOWN`.

        One that raises or returns None says UNKNOWN.
        """
        return self._part("probe", function, self._choices._replace(sent=True))

    def confirm(self, function: F) -> F:
        """Whether what was sent is acknowledged: True, False or `onward.UNKNOWN` (ask again later), `onward.Mismatch`.

        The receipt is injected by the effect's own name.
        """
        return self._part("confirm", function, self._choices._replace(sent=True, receipt=self.name))

    def _part(self, kind: str, function: F, choices: Choices) -> F:
        if kind in self.parts and self.parts[kind].function.__qualname__ != function.__qualname__:
            raise DeclarationError(f"{where(function)}: effect '{self.name}' has a {kind} already")
        self.parts[kind] = self._declare_part(function, f"{self.name}.{kind}", choices)
        return function

    def traits(self) -> Traits:
        own = self.effect
        return Traits(
            keyed=own.keyed,
            has_probe="probe" in self.parts,
            has_confirm="confirm" in self.parts,
            probe_first=own.probe_first,
            deadline=own.deadline,
            settle=own.settle,
            expires=own.expires,
            confirm_within=own.confirm_within,
            on_unknown=own.on_unknown,
        )


def declare_effect(
    function: Callable[P, R],
    name: str,
    effect: EffectOptions,
    options: StepOptions,
    choices: Choices,
    place: Place,
    shapes: Shapes,
) -> Effect[P, R]:
    """An effect whose parameters are all known. Raises DeclarationError that says where and lists the choices."""
    try:
        checked = effect.checked()
    except DeclarationError as error:
        raise DeclarationError(f"{where(function)}: effect '{name}': {error}") from None
    step = declare_step(
        function, name, options._replace(timeout=checked.deadline), choices._replace(sent=True), place, shapes, Effect
    )
    assert isinstance(step, Effect)
    step.effect, step.parts, step._choices = checked, {}, choices
    step._declare_part = lambda part, title, allowed: declare_step(
        part, title, StepOptions(max_output=options.max_output), allowed, place, shapes
    )
    return step


def key_values(fields: Mapping[str, type | None], value: Any) -> dict[str, Any]:
    """The values of an effect's key in a record's value. Raises NoIdentity."""
    found = {}
    for name, declared in fields.items():
        if isinstance(value, Mapping):
            if name not in value:
                raise NoIdentity(f"the record has no field '{name}', which the effect's key needs")
            field = value[name]
        elif hasattr(value, name):
            field = getattr(value, name)
        else:
            raise NoIdentity(f"the record has no field '{name}', which the effect's key needs")
        found[name] = as_declared(name, field, declared)
    return found


def check_fields(step: Effect[..., Any], record: Any) -> None:
    """Raises DeclarationError for a field that the record's type does not have, or that has no exact text there."""
    known = field_types(record)
    if known is None:
        return
    missing = [name for name in step.effect.fields if name not in known]
    if missing:
        raise DeclarationError(
            f"{step!r}: key= names {', '.join(missing)}, which the record type does not have "
            f"(fields: {', '.join(known)})"
        )
    for name in step.effect.fields:
        if float in (known[name], *get_args(known[name])):
            raise DeclarationError(
                f"{step!r}: key= names '{name}', and '{name}' is a float in the record type, which has no exact text; "
                "make it an integer (cents), a Decimal or text"
            )


def check_payload(step: Effect[..., Any]) -> None:
    """Raises DeclarationError where what is sent would be empty in every record. Known once all parts are declared."""
    origins = {slot.origin for slot in step.slots}
    if "payload" in origins and "payload" not in step.parts and not origins & {"record", "step"}:
        raise DeclarationError(
            f"{where(step.function)}: effect '{step.name}' takes `payload` but nothing makes one: declare "
            f"@{step.name}.payload, or take the record"
        )


def check_names(step: Effect[..., Any], others: Iterable[Effect[..., Any]]) -> None:
    """Raises DeclarationError where two effects of a job would have an obligation in common."""
    for other in others:
        if other.effect.name == step.effect.name:
            raise DeclarationError(
                f"{where(step.function)}: effect '{other.name}' has the ledger name {step.effect.name!r} already; two "
                "obligations of one record need names of their own"
            )
        shared = {step.effect.name, *step.effect.formerly} & {other.effect.name, *other.effect.formerly}
        if shared:
            raise DeclarationError(
                f"{where(step.function)}: effect '{step.name}': formerly= cannot relate {min(shared)!r} to two "
                f"effects; '{other.name}' has it, too"
            )


def _key_fields(key: Any) -> dict[str, type | None]:
    if isinstance(key, str):
        key = (key,)
    fields = dict(key) if isinstance(key, Mapping) else dict.fromkeys(key) if isinstance(key, Sequence) else {}
    if not fields or not all(isinstance(name, str) and name for name in fields):
        raise DeclarationError(f"key must be a field, several, or {{field: type}}, not {key!r}")
    if not isinstance(key, Mapping) and len(fields) != len(key):
        raise DeclarationError(f"key names a field twice: {key!r}")
    for name, declared in fields.items():
        if declared is not None and declared not in FIELD_TYPES:
            listed = ", ".join(kind.__name__ for kind in FIELD_TYPES)
            raise DeclarationError(f"key field '{name}' has the type {declared!r}; it can be {listed}")
    return fields
