"""The Chat Completions API: requests and answers."""

from __future__ import annotations

from typing import Any

from onward.llm.answers import Answer, Finish, Request, Usage, whole

PATH = "/chat/completions"
_FINISH: dict[str, Finish] = {"length": "cut off", "content_filter": "filtered"}


def body(request: Request) -> dict[str, Any]:
    """What is sent."""
    messages = [{"role": turn.role, "content": turn.text} for turn in request.turns]
    if request.system is not None:
        messages.insert(0, {"role": "system", "content": request.system})
    sent: dict[str, Any] = {"model": request.model, "messages": messages}
    if request.schema is not None:
        name, schema, strict = request.schema
        kept = {"name": name, "schema": schema, "strict": strict}
        sent["response_format"] = {"type": "json_schema", "json_schema": kept}
    if request.max_output_tokens is not None:
        sent["max_completion_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        sent["temperature"] = request.temperature
    return sent


def answer(said: dict[str, Any]) -> Answer | None:
    """None where it is no answer of this API."""
    choices = said.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    message = choices[0].get("message") or {}
    refusal = message.get("refusal")
    reason = choices[0].get("finish_reason") or "stop"
    finish = _FINISH.get(reason, "refused" if refusal else "done")
    return Answer(str(message.get("content") or refusal or ""), finish, _usage(said.get("usage")), reason)


def _usage(said: Any) -> Usage | None:
    if not isinstance(said, dict) or "completion_tokens" not in said:
        return None
    cached = (said.get("prompt_tokens_details") or {}).get("cached_tokens")
    return Usage(whole(said.get("prompt_tokens")), whole(said["completion_tokens"]), whole(cached))
