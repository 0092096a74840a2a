"""What an answer is to be: text, or JSON that fits a type; its schema goes to the model, its answer is checked."""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from onward.codec import loads
from onward.errors import DeclarationError, UsageError
from onward.job.annotations import Names
from onward.job.values import Misfit, ModelShape

if TYPE_CHECKING:
    from onward.llm.schemas import Schema

WRAPPED = "value"
MOST_SHOWN = 5
_UNSUPPORTED = frozenset({"default", "title", "examples"})


class TextForm:
    """The answer is taken as it is."""

    schema: tuple[str, dict[str, object], bool] | None = None

    def read(self, text: str) -> Any:
        return text


class JsonForm:
    """The answer is JSON. A type whose JSON is no object is asked for as the one field of an object."""

    def __init__(self, returns: Any):
        if _has_bare_model(returns):
            raise UsageError(f"returns={returns!r} says nothing of its fields; name a subclass of BaseModel")
        try:
            self._shape = ModelShape(returns, Names())
            plain = self._shape.adapter.json_schema(by_alias=True, mode="validation")
        except (DeclarationError, NameError, TypeError, ValueError) as error:
            raise UsageError(f"returns={returns!r} has no JSON schema: {error}") from None
        self.is_wrapped = not _is_object(plain)
        if self.is_wrapped:
            definitions = plain.pop("$defs", None)
            plain = {"type": "object", "properties": {WRAPPED: plain}, "required": [WRAPPED]}
            if definitions:
                plain["$defs"] = definitions
            self._shape = ModelShape(_wrapper(returns), Names())
        schema = copy.deepcopy(plain)
        strict = _tighten(schema)
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(returns, "__name__", "") or "answer")[:64]
        self.schema = (name, schema if strict else plain, strict)

    def read(self, text: str) -> Any:
        """The value. Raises Misfit."""
        try:
            value = self._shape.decode_input(_unfenced(text))
        except Misfit:
            raise
        except ValueError:
            raise Misfit("it is no JSON") from None
        return getattr(value, WRAPPED) if self.is_wrapped else value


class SchemaForm:
    """The answer is JSON that fits a schema of the user's own; the value is plain."""

    def __init__(self, schema: Schema):
        self._schema = schema
        self.schema: tuple[str, dict[str, object], bool] = ("answer", schema.sent, schema.is_strict)

    def read(self, text: str) -> Any:
        """The value. Raises Misfit."""
        try:
            value = loads(_unfenced(text))
        except ValueError as error:
            raise Misfit(f"it is no JSON: {error}") from None
        if self._schema.is_wrapped:
            if not isinstance(value, dict) or value.keys() != {WRAPPED}:
                raise Misfit(f"it is no object with {WRAPPED!r} alone in it")
            value = value[WRAPPED]
        wrong = list(islice(self._schema.misfits(value), MOST_SHOWN))
        if wrong:
            raise Misfit("; ".join(wrong))
        return value


Form = TextForm | JsonForm | SchemaForm
_TEXT = TextForm()


def form_of(returns: Any) -> Form:
    """Raises UsageError for a type that has no JSON schema. What is a form already stays that."""
    if returns is str:
        return _TEXT
    if isinstance(returns, SchemaForm):
        return returns
    try:
        return _made(returns)
    except TypeError:  # a type that cannot be looked up is made each time
        return JsonForm(returns)


@lru_cache(maxsize=256)
def _made(returns: Any) -> JsonForm:
    return JsonForm(returns)


def what_is_wrong(misfit: Misfit) -> str:
    """What the model is told of an answer that does not fit."""
    return (
        f"Your answer does not fit the JSON schema: {misfit}. Answer again, with the corrected JSON alone and nothing "
        "around it."
    )


def _has_bare_model(returns: Any) -> bool:
    from pydantic import BaseModel

    return returns is BaseModel or any(map(_has_bare_model, get_args(returns)))


def _wrapper(returns: Any) -> Any:
    from pydantic import create_model

    fields: dict[str, Any] = {WRAPPED: (returns, ...)}
    return create_model("Answer", **fields)


def _is_object(schema: dict[str, Any]) -> bool:
    if "$ref" in schema:
        return _is_object(schema.get("$defs", {}).get(schema["$ref"].rsplit("/", 1)[-1], {}))
    return schema.get("type") == "object"


def _tighten(schema: Any) -> bool:
    """Make a schema as strict as providers want it, in place: all fields required, no others. False where it has
    parts that cannot be: fields with any name."""
    if isinstance(schema, list):
        found = [_tighten(one) for one in schema]  # all of them, whatever the first says
        return all(found)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        if schema.get("additionalProperties") not in (None, False) or "properties" not in schema:
            return False
        schema["additionalProperties"] = False
        schema["required"] = list(schema["properties"])
    for word in _UNSUPPORTED & schema.keys():
        if not isinstance(schema[word], dict):  # a field may be called so
            del schema[word]
    if "$ref" in schema and len(schema) > 1:  # a reference stands alone
        for word in [word for word in schema if word not in ("$ref", "$defs")]:
            del schema[word]
    found = [_tighten(part) for part in schema.values() if isinstance(part, dict | list)]
    return all(found)


def _unfenced(text: str) -> str:
    """JSON that a model without schemas has put between ``` lines."""
    found = re.fullmatch(r"\s*```[a-zA-Z]*\n(.*?)\n?```\s*", text, re.DOTALL)
    return found.group(1) if found else text
