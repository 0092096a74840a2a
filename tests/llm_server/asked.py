"""What a request asks: its texts, its markers, its schema, from the body of either API."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
MARKER = re.compile(r"\[\[([a-z]+)=([^\]]*)\]\]")
SYSTEM_ROLES = ("system", "developer")
TOKENS_A_MESSAGE = 4


@dataclass(frozen=True)
class Asked:
    """One question. `identity`: the prompt's key, else its first user text, so that a repair is the same question."""

    api: str
    model: str
    system: str
    texts: tuple[str, ...]
    schema: dict[str, Any] | None
    schema_name: str
    strict: bool
    any_json: bool
    max_output_tokens: int | None
    markers: dict[str, str]
    identity: str

    @property
    def seed(self) -> str:
        """All that an answer depends on."""
        return repr((self.model, self.system, self.texts, self.schema))

    def text(self) -> str:
        """What the user said, without markers."""
        return MARKER.sub("", self.texts[0] if self.texts else "")


def read(api: str, body: Any) -> Asked:
    """Raises ValueError (what is wrong, as the API would say it) for a body that is no request."""
    if not isinstance(body, dict):
        raise ValueError("We could not parse the JSON body of your request.")
    if not isinstance(body.get("model"), str):
        raise ValueError("you must provide a model parameter")
    if body.get("stream"):
        raise ValueError("stream: not offered here")
    messages = responses_messages(body) if api == RESPONSES else chat_messages(body)
    shape = (body.get("text") or {}).get("format") if api == RESPONSES else body.get("response_format")
    return asked(api, body, messages, shape or {})


def asked(api: str, body: dict[str, Any], messages: list[tuple[str, str]], shape: dict[str, Any]) -> Asked:
    inner = shape if api == RESPONSES else shape.get("json_schema") or {}
    has_schema = shape.get("type") == "json_schema"
    if has_schema and not (isinstance(inner.get("schema"), dict) and inner.get("name")):
        raise ValueError("json_schema: name and schema are required")
    texts = tuple(text for role, text in messages if role not in SYSTEM_ROLES)
    markers = dict(MARKER.findall("\n".join(text for _role, text in reversed(messages))))
    most = body.get("max_output_tokens") or body.get("max_completion_tokens") or body.get("max_tokens")
    first = texts[0] if texts else ""
    return Asked(
        api=api,
        model=body["model"],
        system="\n".join(text for role, text in messages if role in SYSTEM_ROLES),
        texts=texts,
        schema=inner.get("schema") if has_schema else None,
        schema_name=inner.get("name", "") if has_schema else "",
        strict=bool(inner.get("strict")),
        any_json=shape.get("type") == "json_object",
        max_output_tokens=most,
        markers=markers,
        identity=markers.get("key") or hashlib.blake2b(first.encode(), digest_size=8).hexdigest(),
    )


def responses_messages(body: dict[str, Any]) -> list[tuple[str, str]]:
    found = [("system", body["instructions"])] if body.get("instructions") else []
    given = body.get("input")
    if isinstance(given, str):
        return [*found, ("user", given)]
    if not isinstance(given, list):
        raise ValueError("Missing required parameter: 'input'.")
    return [*found, *((item.get("role", "user"), joined(item.get("content"))) for item in given)]


def chat_messages(body: dict[str, Any]) -> list[tuple[str, str]]:
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise ValueError("Missing required parameter: 'messages'.")
    return [(item.get("role", "user"), joined(item.get("content"))) for item in given]


def joined(content: Any) -> str:
    """The text of a message: itself, or that of its parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", part.get("refusal", ""))) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
