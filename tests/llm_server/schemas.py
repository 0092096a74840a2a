"""JSON schemas: which of them a strict API accepts, and an instance that fits one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

REFUSED_WORDS = frozenset(
    (
        *("allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties"),
        *("unevaluatedProperties", "propertyNames", "minProperties", "maxProperties", "uniqueItems", "contains"),
        "prefixItems",
    )
)
DEEPEST = 6
DATES = {
    "date": "2025-03-14",
    "date-time": "2025-03-14T09:26:53Z",
    "time": "09:26:53",
    "email": "someone@example.com",
    "uuid": "0b6b1c1e-7c1d-4c59-9d4e-3a1f0a5d2c11",
    "ipv4": "192.0.2.7",
    "hostname": "example.com",
    "duration": "P3D",
}


def refused(schema: dict[str, Any]) -> str | None:
    """Why a strict schema is not accepted, or None."""
    if schema.get("type") != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    for where, part in parts(schema, ()):
        context = f"In context={where!r}, "
        if wrong := REFUSED_WORDS & part.keys():
            return f"{context}'{min(wrong)}' is not permitted."
        if part.get("type") == "object" or "properties" in part:
            if part.get("additionalProperties") is not False:
                return f"{context}'additionalProperties' is required to be supplied and to be false."
            if missing := set(part.get("properties", {})) ^ set(part.get("required", ())):
                return (
                    f"{context}'required' is required to be supplied and to be an array including every key in "
                    f"properties. Missing '{min(missing)}'."
                )
        if part.get("type") == "array" and "items" not in part:
            return f"{context}array schema missing items."
    return None


def parts(schema: Any, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The schema and every schema in it, each with its place."""
    if not isinstance(schema, dict):
        return
    yield where, schema
    for word in ("properties", "$defs", "definitions"):
        for name, part in (schema.get(word) or {}).items():
            yield from parts(part, (*where, word, name))
    for word in ("anyOf", "oneOf"):
        for at, part in enumerate(schema.get(word) or ()):
            yield from parts(part, (*where, word, str(at)))
    yield from parts(schema.get("items"), (*where, "items"))


class Maker:
    """Makes an instance of a schema, from a seed and from the words that its texts are to be made of."""

    def __init__(self, schema: dict[str, Any], seed: str, words: list[str]):
        self.root = schema
        self.random = random.Random(seed)
        self.words = words or ["nothing"]

    def make(self) -> Any:
        return self.instance(self.root, 0)

    def instance(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return None
        if "$ref" in schema:
            return self.instance(self.resolved(schema["$ref"]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.chosen(schema["enum"])
        for word in ("anyOf", "oneOf", "allOf"):
            if schema.get(word):
                return self.instance(self.alternative(schema[word], depth), depth)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        return getattr(self, f"a_{kind}")(schema, depth)

    def resolved(self, reference: str) -> Any:
        found: Any = self.root
        for name in reference.removeprefix("#").strip("/").split("/"):
            found = found[name] if name else found
        return found

    def chosen(self, values: list[Any]) -> Any:
        """A value that the text itself names, else any."""
        text = " ".join(self.words).lower()
        named = [value for value in values if isinstance(value, str) and value.lower() in text]
        return named[0] if named else self.random.choice(values)

    def alternative(self, choices: list[Any], depth: int) -> Any:
        """Not null where there is a choice, but deep inside, where a schema that contains itself must end."""
        nulls = [choice for choice in choices if choice.get("type") == "null"]
        others = [choice for choice in choices if choice.get("type") != "null"]
        return self.random.choice(nulls if nulls and (depth > DEEPEST or not others) else others)

    def a_object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        return {name: self.instance(part, depth + 1) for name, part in (schema.get("properties") or {}).items()}

    def a_array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        fewest = schema.get("minItems", 0)
        most = schema.get("maxItems", max(3, fewest)) if depth <= DEEPEST else fewest
        return [self.instance(schema.get("items", {}), depth + 1) for _ in range(self.random.randint(fewest, most))]

    def a_string(self, schema: dict[str, Any], depth: int) -> str:
        if schema.get("format") in DATES:
            return DATES[schema["format"]]
        start = self.random.randrange(len(self.words))
        text = " ".join((self.words[start:] + self.words)[: self.random.randint(3, 12)])
        text = text.ljust(schema.get("minLength", 0), "x")
        return text[: schema.get("maxLength", len(text))]

    def bounds(self, schema: dict[str, Any]) -> tuple[float, float]:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        low = low if low is not None else (0 if high is None else high - 10)
        return low, high if high is not None else low + 10

    def a_integer(self, schema: dict[str, Any], depth: int) -> int:
        low, high = self.bounds(schema)
        first = int(low) + ("exclusiveMinimum" in schema)
        return self.random.randint(first, max(first, int(high) - ("exclusiveMaximum" in schema)))

    def a_number(self, schema: dict[str, Any], depth: int) -> float:
        low, high = self.bounds(schema)
        return round(low + (high - low) * (0.1 + 0.8 * self.random.random()), 6)

    def a_boolean(self, schema: dict[str, Any], depth: int) -> bool:
        return self.random.random() < 0.5

    def a_null(self, schema: dict[str, Any], depth: int) -> None:
        return None
