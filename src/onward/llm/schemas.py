"""JSON schemas of a user's own: checked, sent as strict as they can be, and what answers are held against.

The only file that imports `jsonschema`, which comes with `pip install 'onward[llm]'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onward.errors import UsageError

WRAPPED = "value"
LONGEST_REASON = 300
_DEFINITIONS = ("$defs", "definitions")
_STRICT_WORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref"),
        *("description", "pattern", "format", "multipleOf", "maximum", "exclusiveMaximum", "minimum"),
        *("exclusiveMinimum", "minItems", "maxItems", *_DEFINITIONS),
    )
)
"""What strict schemas may say. Others go to the model as they are, not strict."""
_LEFT_OUT = frozenset({"$schema", "$comment", "title", "default", "examples"})
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas", *_DEFINITIONS)


class Schema:
    """A checked JSON schema; `source` is what people call it.

    `sent` goes to the model, strict or not; `is_wrapped`: its top is no object, so that the answer is asked for as the
    one field of an object. Raises UsageError for what is no JSON schema.
    """

    def __init__(self, schema: Any, source: str):
        if not isinstance(schema, dict):
            raise UsageError(f"{source}: a JSON schema for answers is an object, not {type(schema).__name__}")
        self._validator = _validator(schema, source)
        plain = {word: part for word, part in schema.items() if word not in ("$schema", "$id")}
        self.is_wrapped = not _is_object(plain, plain)
        self.sent = _wrapped(plain) if self.is_wrapped else plain
        if "properties" in self.sent:
            self.sent.setdefault("type", "object")
        try:
            self.sent = _strict(self.sent)
            self.is_strict = True
        except _Loose:
            self.is_strict = False

    def misfits(self, value: Any) -> Iterator[str]:
        """What is wrong with a value, each with its place; the gravest first."""
        from jsonschema.exceptions import relevance

        for error in sorted(self._validator.iter_errors(value), key=relevance, reverse=True):
            said = error.message
            said = said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]}…"
            yield f"{error.json_path.removeprefix('$').lstrip('.')}: {said}".removeprefix(": ")


def _validator(schema: dict[str, Any], source: str) -> Any:
    try:
        import jsonschema
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012
    except ImportError as error:
        raise UsageError("schemas need jsonschema; install it with: pip install 'onward[llm]'") from error
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        place = error.json_path.removeprefix("$").lstrip(".")
        raise UsageError(f"{source}: this is no JSON schema: {f'{place}: ' if place else ''}{error.message}") from None
    registry: Any = Registry()  # nothing is fetched from elsewhere
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    resolver = registry.with_resource(schema.get("$id", ""), resource).resolver(schema.get("$id", ""))
    for part in _parts(schema):
        try:
            if "$ref" in part:
                resolver.lookup(part["$ref"])
        except Unresolvable:
            what = "what it refers to must stand in it, under $defs"
            raise UsageError(f"{source}: {part['$ref']!r} leads nowhere; {what}") from None
    return kind(schema, registry=registry, format_checker=kind.FORMAT_CHECKER)


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for part in _inner(schema):
        yield from _parts(part)


def _inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from (schema[word] for word in _ONE if word in schema)
    for word in _SEVERAL:
        yield from schema.get(word, ())
    for word in _NAMED:
        yield from schema.get(word, {}).values()


def _is_object(schema: Any, top: Mapping[str, Any]) -> bool:
    """Whether what is meant can only be an object."""
    seen: list[Any] = []
    while isinstance(schema, dict) and "$ref" in schema and schema not in seen:
        seen.append(schema)
        start, *path = str(schema["$ref"]).split("/")
        if start != "#" or len(path) != 2 or path[0] not in _DEFINITIONS:
            return False
        schema = top.get(path[0], {}).get(path[1].replace("~1", "/").replace("~0", "~"))
    if not isinstance(schema, dict):
        return False
    return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = {word: schema[word] for word in _DEFINITIONS if word in schema}
    inner = {word: part for word, part in schema.items() if word not in _DEFINITIONS}
    whole = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **definitions}
    moved: dict[str, Any] = _moved(whole)
    return moved


def _moved(part: Any) -> Any:
    """The same with references to the old top leading to where that is now."""
    if isinstance(part, list):
        return [_moved(one) for one in part]
    if not isinstance(part, dict):
        return part
    copied = {word: _moved(one) for word, one in part.items()}
    at = copied.get("$ref")
    if isinstance(at, str) and at.startswith("#") and not at.startswith(tuple(f"#/{word}/" for word in _DEFINITIONS)):
        copied["$ref"] = f"#/properties/{WRAPPED}{at[1:]}"
    return copied


class _Loose(Exception):
    """A schema that no strict one can stand for."""


def _strict(schema: Any) -> dict[str, Any]:
    """A strict schema that lets nothing through but what this one does. Raises _Loose: strict ones have no optional
    fields, and none with names of any kind."""
    if not isinstance(schema, dict) or schema.keys() - _STRICT_WORDS - _LEFT_OUT:
        raise _Loose
    kept = {word: part for word, part in schema.items() if word not in _LEFT_OUT}
    if "$ref" in kept:
        kept.pop("description", None)  # a reference stands alone
        if kept.keys() - {"$ref", *_DEFINITIONS}:
            raise _Loose
    if kept.get("type") == "array" and "items" not in kept:
        raise _Loose
    if kept.get("type") == "object" or "properties" in kept:
        _close(kept)
    if "items" in kept:
        kept["items"] = _strict(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [_strict(choice) for choice in kept["anyOf"]]
    for word in ("properties", *_DEFINITIONS):
        if word in kept:
            kept[word] = {name: _strict(part) for name, part in kept[word].items()}
    return kept


def _close(kept: dict[str, Any]) -> None:
    """Make an object one of exactly its fields; those that may be null may also be missing no more."""
    fields, required = kept.get("properties"), kept.get("required", [])
    if not fields or kept.get("additionalProperties", False) is not False or set(required) - fields.keys():
        raise _Loose
    if not all(name in required or _may_be_null(field) for name, field in fields.items()):
        raise _Loose
    kept["additionalProperties"] = False
    kept["required"] = list(fields)


def _may_be_null(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    kind = field.get("type")
    named = kind == "null" or (isinstance(kind, list) and "null" in kind)
    return named or any(_may_be_null(choice) for choice in field.get("anyOf", ()))
