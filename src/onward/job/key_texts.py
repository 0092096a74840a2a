"""An effect's key from texts, as a person types them: each is read as the record's type reads the field."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, cast

from onward.errors import UsageError
from onward.job.effects import Effect
from onward.job.job import Job
from onward.job.values import ModelShape, Shape, explain
from onward.policy.identity import NoIdentity, as_declared, idempotency_key

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

_WRAPPERS = ("model", "dataclass", "function-before", "function-after", "function-wrap", "default", "nullable")


def effect_named(job: Job, name: str | None) -> Effect[..., Any]:
    """The effect of that ledger name, or the only one. Raises UsageError that lists them."""
    effects = {step.effect.name: step for step in job.steps if isinstance(step, Effect)}
    listed = ", ".join(effects)
    if not effects:
        raise UsageError(f"job '{job.name}' has no effects, so there are no keys")
    if name is None and len(effects) > 1:
        raise UsageError(f"job '{job.name}' has several effects; say which: --effect NAME (choices: {listed})")
    if name is not None and name not in effects:
        raise UsageError(f"job '{job.name}' has no effect {name!r} (choices: {listed})")
    return effects[name] if name is not None else next(iter(effects.values()))


def key_from_texts(job: Job, effect: Effect[..., Any], texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The idempotency key, and its fields as plain JSON values. Raises UsageError."""
    declared = effect.effect.fields
    if len(texts) != len(declared):
        many = "1 value was" if len(texts) == 1 else f"{len(texts) or 'no'} values were"
        raise UsageError(
            f"the key of '{effect.effect.name}' is made of {', '.join(declared)}, in this order; {many} given"
        )
    record = job.record_shape()
    try:
        fields = {
            name: as_declared(name, _read(record, name, text), kind)
            for (name, kind), text in zip(declared.items(), texts, strict=True)
        }
        return idempotency_key(effect.effect.name, fields), {name: _plain(value) for name, value in fields.items()}
    except NoIdentity as error:
        raise UsageError(str(error)) from None


def _read(record: Shape | None, name: str, text: str) -> Any:
    """The text as the field of the record's type; as it is where the record has no type. Raises UsageError."""
    if not isinstance(record, ModelShape):
        return text
    from pydantic_core import ValidationError

    validator = _validator(record.adapter.core_schema, name)
    if validator is None:
        return text
    try:
        return validator.validate_python(text)
    except ValidationError as error:
        reason = explain(error)
    except Exception as error:
        raise UsageError(f"'{name}': the record type's own code raises {type(error).__name__}") from None
    try:  # a strict type takes no text but in words
        return validator.validate_strings(cast(Any, text))
    except Exception:
        raise UsageError(f"'{name}' does not fit the record type: {reason}") from None


def _validator(schema: Any, name: str) -> SchemaValidator | None:
    """What the record's type does to one field, its own checks of that field included, those of whole records not; None
    where it is unknown."""
    from pydantic_core import SchemaValidator

    definitions: dict[str, Any] = {}
    config = None
    while True:
        kind = schema["type"]
        if kind == "definitions":
            definitions |= {one["ref"]: one for one in schema["definitions"]}
        elif kind == "definition-ref":
            schema = definitions[schema["schema_ref"]]
            continue
        elif kind not in _WRAPPERS:
            break
        config = schema.get("config", config)
        schema = schema["schema"]
    fields = schema.get("fields", ())
    named = fields if isinstance(fields, dict) else {field["name"]: field for field in fields}
    if name not in named:
        return None
    field = named[name]["schema"]
    if definitions:
        field = {"type": "definitions", "schema": field, "definitions": list(definitions.values())}
    return SchemaValidator(field, schema.get("config", config))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    return value.isoformat() if isinstance(value, date) else str(value)
