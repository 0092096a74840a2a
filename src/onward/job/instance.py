"""Instances: the template over params, and what one start of a job is bound to."""

from __future__ import annotations

from typing import Any, NamedTuple

from onward import codec
from onward.errors import DeclarationError, UsageError
from onward.job.params import ParamsType


class Binding(NamedTuple):
    """A job's params for one start: the object (None without a params type), canonical JSON text, the instance name."""

    params: Any
    params_json: str | None
    instance: str


class InstanceTemplate:
    """`"{day}"`: names of params in braces, with a format after a colon where wanted."""

    def __init__(self, text: Any, params: ParamsType | None):
        if not isinstance(text, str):
            raise DeclarationError(f"instance must be text, not {text!r}")
        from string import Formatter

        self.text = text
        try:
            self._parts = list(Formatter().parse(text))
        except ValueError as error:
            raise DeclarationError(f"instance={text!r} is not a template: {error}") from None
        choices = list(params.fields) if params is not None else []
        for _, name, _, conversion in self._parts:
            if name is not None and (name not in choices or conversion):
                listed = f"choices: {', '.join(choices)}" if choices else "Job(params=…) has none"
                raise DeclarationError(f"instance={text!r} names {name!r}, which is not a param ({listed})")

    def name(self, params: Any, plain: dict[str, Any]) -> str:
        """The instance's name; `plain` has the params as JSON values. Raises UsageError for a param without a text."""
        said = []
        for before, name, form, _ in self._parts:
            said.append(before)
            if name is None:
                continue
            value = getattr(params, name)
            text = _formatted(name, value, form) if form else _text(plain.get(name, value))
            if value is None or not text:
                raise UsageError(f"the param {name!r} is empty; the instance {self.text!r} needs its value")
            said.append(text)
        whole = "".join(said)
        if not whole.isprintable():
            raise UsageError(f"the instance name {whole!r} has control characters")
        return whole


def bind(params: ParamsType | None, template: InstanceTemplate, value: Any) -> Binding:
    """The binding to a params object that `params` made. Raises UsageError."""
    if params is None:
        return Binding(None, None, template.text and template.name(None, {}))
    return Binding(value, params.to_json(value), template.name(value, params.plain(value)))


def _formatted(name: str, value: Any, form: str) -> str:
    try:
        return format(value, form)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the param {name!r} cannot be written as {form!r}: {error}") from None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else codec.dumps(value)
