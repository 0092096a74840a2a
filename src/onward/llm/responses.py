"""The Responses API: requests and answers."""

from __future__ import annotations

from typing import Any

from onward.llm.answers import Answer, Finish, Request, given, objects, usage_of

PATH = "/responses"
_CALLS = ("function_call", "custom_tool_call")


def body(request: Request) -> dict[str, Any]:
    """What is sent. Nothing is kept at the provider."""
    sent: dict[str, Any] = {
        "model": request.model,
        "input": [{"role": turn.role, "content": turn.text} for turn in request.turns],
        "store": False,
    }
    if request.system is not None:
        sent["instructions"] = request.system
    if request.schema is not None:
        name, schema, strict = request.schema
        sent["text"] = {"format": {"type": "json_schema", "name": name, "schema": schema, "strict": strict}}
    if request.max_output_tokens is not None:
        sent["max_output_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        sent["temperature"] = request.temperature
    return sent


def answer(said: dict[str, Any]) -> Answer:
    """Raises Misshapen where it is no answer of this API."""
    texts, refusals, calls = [], [], False
    for item in objects(said, "output"):
        kind = item.get("type")
        calls = calls or kind in _CALLS
        for part in objects(item, "content", []) if kind == "message" else []:
            if part.get("type") == "output_text":
                texts.append(given(part, "text", str, ""))
            elif part.get("type") == "refusal":
                refusals.append(given(part, "refusal", str, ""))
    finish, reason, code = _finish(said)
    if finish == "done" and (refusals or calls):
        finish = "refused" if refusals else "called"
    text = "".join(texts) or "".join(refusals)
    return Answer(text, finish, usage_of(said, "input_tokens", "output_tokens"), reason, code)


def _finish(said: dict[str, Any]) -> tuple[Finish, str, str]:
    status, error = given(said, "status", str, "completed"), given(said, "error", dict, {})
    if status == "incomplete":
        reason = given(given(said, "incomplete_details", dict, {}), "reason", str, "")
        return ("filtered" if reason == "content_filter" else "cut off"), reason, ""
    if status == "failed" or error:
        return "failed", given(error, "message", str, ""), given(error, "code", str, "")
    if status != "completed":
        return "failed", f"its status is {status!r}", "server_error"
    return "done", "", ""
