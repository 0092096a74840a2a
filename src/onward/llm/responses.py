"""The Responses API: requests and answers."""

from __future__ import annotations

from typing import Any

from onward.llm.answers import Answer, Finish, Request, Usage, whole

PATH = "/responses"


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


def answer(said: dict[str, Any]) -> Answer | None:
    """None where it is no answer of this API."""
    output = said.get("output")
    if not isinstance(output, list):
        return None
    texts, refusals = [], []
    for item in output:
        for part in (item.get("content") or []) if item.get("type") == "message" else []:
            if part.get("type") == "output_text":
                texts.append(str(part.get("text", "")))
            elif part.get("type") == "refusal":
                refusals.append(str(part.get("refusal", "")))
    text = "".join(texts)
    finish, reason, code = _finish(said, refusals)
    return Answer(text or "".join(refusals), finish, _usage(said.get("usage")), reason, code)


def _finish(said: dict[str, Any], refusals: list[str]) -> tuple[Finish, str, str]:
    status = said.get("status", "completed")
    if status == "incomplete":
        reason = str((said.get("incomplete_details") or {}).get("reason", ""))
        return ("filtered" if reason == "content_filter" else "cut off"), reason, ""
    if status == "failed" or said.get("error"):
        error = said.get("error") or {}
        return "failed", str(error.get("message", "")), str(error.get("code", ""))
    if status != "completed":
        return "failed", f"its status is {status!r}", "server_error"
    return ("refused", "", "") if refusals else ("done", "", "")


def _usage(said: Any) -> Usage | None:
    if not isinstance(said, dict) or "output_tokens" not in said:
        return None
    cached = (said.get("input_tokens_details") or {}).get("cached_tokens")
    return Usage(whole(said.get("input_tokens")), whole(said["output_tokens"]), whole(cached))
