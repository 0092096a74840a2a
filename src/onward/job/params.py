"""Params: from an object, a mapping, or `name=value` texts of the command line, to the job's params type."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from onward import codec
from onward.errors import DeclarationError, OutputError, UsageError
from onward.job.annotations import Names, resolve
from onward.job.values import Misfit, ModelShape, shape_of


class Field(NamedTuple):
    """One param: the name by which it is filled in, its type, and whether it must be given."""

    key: str
    annotation: Any
    required: bool


class ParamsType:
    """The class given as `Job(params=…)`: a pydantic model or a dataclass."""

    def __init__(self, given: type[Any], names: Names):
        if not isinstance(given, type) or not (_is_model(given) or dataclasses.is_dataclass(given)):
            raise DeclarationError(f"params must be a pydantic model or a dataclass, not {given!r}")
        self.type = given
        self._declared_among = names

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The params by name, in the order of their declaration."""
        if _is_model(self.type):
            return {name: _model_field(name, info) for name, info in self.type.model_fields.items()}
        return {
            field.name: Field(field.name, field.type, _has_no_default(field))
            for field in dataclasses.fields(self.type)
            if field.init
        }

    @cached_property
    def _shape(self) -> ModelShape:
        try:
            return ModelShape(self.type, self._declared_among)
        except NameError as error:
            raise DeclarationError(f"params: {self.type.__name__} uses {error.name}, which is not defined") from error

    @property
    def choices(self) -> str:
        return ", ".join(self.fields) or "none"

    def parse(self, given: Any, assignments: Sequence[str]) -> Any:
        """The params object. `assignments` (`name=value`) win over `given`. Raises UsageError that lists choices."""
        if not assignments and isinstance(given, self.type):
            return given
        values = self._plain_values(given)
        for assignment in assignments:
            name, text = self._split(assignment)
            values[name] = self._from_text(self.fields[name], text)
        unknown = [name for name in values if name not in self.fields]
        if unknown:
            raise UsageError(f"there is no param {', '.join(map(repr, unknown))} (choices: {self.choices})")
        missing = [name for name, field in self.fields.items() if field.required and name not in values]
        if missing:
            shown = " ".join(f"-p {name}=…" for name in missing)
            raise UsageError(f"missing params: {', '.join(missing)} (give them as {shown})")
        try:
            return self._shape.check({self.fields[name].key: value for name, value in values.items()})
        except Misfit as misfit:
            raise UsageError(f"params do not fit: {misfit}") from None

    def to_json(self, params: Any) -> str:
        """Canonical JSON text, for the record of the run. Raises UsageError."""
        try:
            return codec.dumps(_sorted(codec.loads(self._shape.encode(params))))
        except OutputError as error:
            raise UsageError(f"params cannot be kept as JSON: {error}") from None

    def from_json(self, text: str) -> Any:
        """The params that `to_json` wrote. Raises UsageError."""
        try:
            return self._shape.decode(text)
        except Misfit as misfit:
            raise UsageError(f"params do not fit: {misfit}") from None

    def plain(self, params: Any) -> dict[str, Any]:
        """The params as plain JSON values by name."""
        return dict(codec.loads(self._shape.encode(params)))

    def _plain_values(self, given: Any) -> dict[str, Any]:
        if given is None:
            return {}
        if isinstance(given, self.type):
            return {name: getattr(given, name) for name in self.fields}
        if isinstance(given, Mapping):
            by_key = {field.key: name for name, field in self.fields.items()}
            return {by_key.get(str(name), str(name)): value for name, value in given.items()}
        raise UsageError(f"params must be {self.type.__name__} or a mapping, not {type(given).__name__}")

    def _split(self, assignment: str) -> tuple[str, str]:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f"a param is given as name=value, not {assignment!r} (choices: {self.choices})")
        if name not in self.fields:
            raise UsageError(f"there is no param {name!r} (choices: {self.choices})")
        return name, text

    def _from_text(self, field: Field, text: str) -> Any:
        """The text itself for text; otherwise the JSON value that it is, if that fits, and else the text."""
        try:
            annotation = resolve(field.annotation, self._names)
            if _bare(annotation) is str:
                return text
            value = codec.loads(text)
            shape_of(annotation, self._names).check(value)
        except (ValueError, NameError, DeclarationError):
            return text
        return value

    @cached_property
    def _names(self) -> Names:
        module = sys.modules.get(self.type.__module__)
        among = self._declared_among
        return Names({**among.globals, **(vars(module) if module is not None else {})}, among.locals)


def _is_model(given: type[Any]) -> bool:
    return isinstance(getattr(given, "model_fields", None), Mapping)


def _model_field(name: str, info: Any) -> Field:
    alias = info.validation_alias
    annotation = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return Field(alias if isinstance(alias, str) else name, annotation, info.is_required())


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
