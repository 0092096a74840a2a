"""Injection: what each parameter of a step or a resource stands for, decided while it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onward.errors import DeclarationError
from onward.job.place import where
from onward.job.plan import Origin

RESERVED = ("params", "context", "payload", "idempotency_key")
SENT = ("payload", "idempotency_key")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Slot(NamedTuple):
    """One parameter: what it receives and, as it was written, its annotation."""

    parameter: str
    origin: Origin
    name: str
    annotation: Any

    @property
    def decoded(self) -> bool:
        return self.origin in ("record", "step", "payload", "receipt")


class Choices(NamedTuple):
    """The names that may be injected at one point of a job's declaration.

    `sent`: what an effect sends, `payload` and `idempotency_key`; `receipt`: the name that stands for its receipt.
    """

    steps: Sequence[str] = ()
    resources: Sequence[str] = ()
    params: bool = False
    context: bool = True
    sent: bool = False
    receipt: str | None = None

    def origin(self, name: str) -> Origin | None:
        if self.sent and name == "payload":
            return "payload"
        if self.sent and name == "idempotency_key":
            return "idempotency_key"
        if name == self.receipt:
            return "receipt"
        if name in self.steps:
            return "step"
        if name in self.resources:
            return "resource"
        if name == "params" and self.params:
            return "params"
        return "context" if name == "context" and self.context else None

    def every(self) -> list[str]:
        own = ["params"] if self.params else []
        sent = ["payload", "idempotency_key"] if self.sent else []
        receipt = [self.receipt] if self.receipt else []
        return [*self.steps, *receipt, *self.resources, *sent, *own, *(["context"] if self.context else [])]

    def __str__(self) -> str:
        said = [f"earlier steps: {', '.join(self.steps)}"] if self.steps else []
        said += [f"its receipt: {self.receipt}"] if self.receipt else []
        said += [f"resources: {', '.join(self.resources)}"] if self.resources else []
        said += ["payload", "idempotency_key"] if self.sent else []
        said += ["params"] if self.params else []
        said += ["context"] if self.context else []
        return "; ".join(said) or "none"


def read_signature(function: Callable[..., Any], title: str) -> inspect.Signature:
    """The signature of a step or resource. Raises DeclarationError for what cannot be injected by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{title} has no signature that can be read: {error}") from None
    for parameter in signature.parameters.values():
        if parameter.kind in _VARIADIC:
            raise DeclarationError(f"{_at(function)}{title}: *args and **kwargs cannot be injected; name each argument")
    return signature


def step_slots(function: Callable[..., Any], name: str, choices: Choices) -> tuple[Slot, ...]:
    """The slots of a step: the record first, the others by name. Raises DeclarationError that lists the choices.

    Where what is sent may be asked for, a first parameter of that name receives it instead of the record.
    """
    title = f"step '{name}'"
    parameters = list(read_signature(function, title).parameters.values())
    if choices.sent and parameters and parameters[0].name in SENT:
        return tuple(_by_name(function, title, parameters, choices, name))
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise DeclarationError(f"{_at(function)}{title} needs a first parameter: it receives the record's value")
    first = parameters[0]
    meant = choices.origin(first.name)
    if meant is not None or first.name in RESERVED:
        raise DeclarationError(
            f"{_at(function)}{title}: the first parameter receives the record's value, but '{first.name}' also names "
            f"{_described(meant, first.name)}; call it something else"
        )
    record = Slot(first.name, "record", first.name, first.annotation)
    return (record, *_by_name(function, title, parameters[1:], choices, name))


def resource_parameters(function: Callable[..., Any], name: str, choices: Choices) -> tuple[str, ...]:
    """The names that a resource takes. Raises DeclarationError that lists the choices."""
    title = f"resource '{name}'"
    parameters = list(read_signature(function, title).parameters.values())
    return tuple(slot.name for slot in _by_name(function, title, parameters, choices, name))


def _by_name(
    function: Callable[..., Any], title: str, parameters: list[inspect.Parameter], choices: Choices, own: str
) -> list[Slot]:
    slots = []
    for parameter in parameters:
        name = parameter.name
        origin = choices.origin(name)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise DeclarationError(f"{_at(function)}{title}: '{name}' is passed by name; it cannot be positional-only")
        if origin is None:
            raise DeclarationError(f"{_at(function)}{title}: {_unknown(name, own, choices)}")
        slots.append(Slot(name, origin, name, parameter.annotation))
    return slots


def _unknown(name: str, own: str, choices: Choices) -> str:
    if name == own:
        reason = f"'{name}' is its own name; it cannot receive itself"
    elif name == "params":
        reason = "it asks for params, but Job(params=…) is not given"
    else:
        import difflib

        near = difflib.get_close_matches(name, choices.every(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        reason = f"nothing declared before it is called '{name}'{hint}"
    return f"{reason} (choices: {choices})"


def _described(origin: Origin | None, name: str) -> str:
    if origin in ("step", "resource"):
        return f"a {origin} declared before"
    return f"the job's {name}" if name in ("params", "context") else f"an effect's {name}"


def _at(function: Callable[..., Any]) -> str:
    place = where(function)
    return f"{place}: " if place else ""
