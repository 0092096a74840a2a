"""The Chat Completions API: requests and answers."""

from __future__ import annotations

from typing import Any

from onward.llm.answers import Answer, Finish, Misshapen, Request, given, objects, usage_of

PATH = "/chat/completions"
_FINISH: dict[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), "done"),
    **dict.fromkeys(("length", "model_length", "max_tokens"), "cut off"),
    "content_filter": "filtered",
    **dict.fromkeys(("tool_calls", "function_call"), "called"),
}
"""Servers of other makes have words of their own for what is "stop" and "length" here."""


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


def answer(said: dict[str, Any]) -> Answer:
    """Raises Misshapen where it is no answer of this API."""
    choices = objects(said, "choices")
    if not choices:
        raise Misshapen("'choices' is empty")
    message = given(choices[0], "message", dict, {})
    text, refusal = given(message, "content", str, ""), given(message, "refusal", str, "")
    reason = given(choices[0], "finish_reason", str, "") or "stop"
    finish = _FINISH.get(reason, "unknown")
    if finish == "done" and refusal:
        finish = "refused"
    return Answer(text or refusal, finish, usage_of(said, "prompt_tokens", "completion_tokens"), reason)
