"""The API's own objects: answers of both kinds, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .answers import Answer
from .asked import RESPONSES, Asked

PAGE = b"<!doctype html><html><head><title>Please wait</title></head><body><h1>Checking your browser</h1></body></html>"


@dataclass(frozen=True)
class Trouble(Exception):
    """A request that is answered with an error: its status and the fields of the error object."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def not_found(what: str) -> Trouble:
    return Trouble(404, f"No such {what}")


TROUBLES = {
    "400": Trouble(400, "Something about this request is wrong."),
    "401": Trouble(401, "Incorrect API key provided.", code="invalid_api_key"),
    "403": Trouble(403, "You are not allowed to do this.", code="forbidden"),
    "408": Trouble(408, "The request took too long to arrive.", "timeout"),
    "409": Trouble(409, "The request conflicts with another.", "conflict"),
    "422": Trouble(422, "The request cannot be processed."),
    "429": Trouble(429, "Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    "500": Trouble(500, "The server had an error while processing your request.", "server_error"),
    "502": Trouble(502, "Bad gateway.", "server_error"),
    "503": Trouble(503, "The engine is currently overloaded, please try again later.", "server_error"),
    "504": Trouble(504, "Gateway timeout.", "server_error"),
    "quota": Trouble(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "model": Trouble(404, "The model does not exist or you do not have access to it.", code="model_not_found"),
    "context": Trouble(
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        code="context_length_exceeded",
        param="input",
    ),
    "schema": Trouble(
        400, "Invalid schema for response_format.", code="invalid_json_schema", param="text.format.schema"
    ),
}


def answered(asked: Asked, answer: Answer, number: int, now: float) -> dict[str, Any]:
    """The body of an answer. Raises Trouble where the Chat API has no other way to say that the model failed."""
    if asked.api == RESPONSES:
        return response(asked, answer, number, now)
    if answer.end == "failed":
        raise TROUBLES["500"]
    return completion(asked, answer, number, now)


def response(asked: Asked, answer: Answer, number: int, now: float) -> dict[str, Any]:
    cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.end)
    status = "incomplete" if cut else "failed" if answer.end == "failed" else "completed"
    part = (
        {"type": "refusal", "refusal": answer.text}
        if answer.end == "refusal"
        else {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    )
    message = {"id": f"msg_{number:012x}", "type": "message", "role": "assistant", "status": status, "content": [part]}
    has_message = answer.end in ("stop", "refusal") or answer.text
    shape: dict[str, Any] = {"type": "text"}
    if asked.schema is not None:
        shape = {"type": "json_schema", "name": asked.schema_name, "schema": asked.schema, "strict": asked.strict}
    return {
        "id": f"resp_{number:012x}",
        "object": "response",
        "created_at": int(now),
        "status": status,
        "error": {"code": "server_error", "message": "The model failed."} if status == "failed" else None,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": asked.system or None,
        "max_output_tokens": asked.max_output_tokens,
        "model": asked.model,
        "output": [message] if has_message else [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": shape},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
        "metadata": {},
    }


def completion(asked: Asked, answer: Answer, number: int, now: float) -> dict[str, Any]:
    refused = answer.end == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused else answer.text,
        "refusal": answer.text if refused else None,
        "annotations": [],
    }
    finish = answer.end if answer.end in ("length", "content_filter") else "stop"
    return {
        "id": f"chatcmpl-{number:012x}",
        "object": "chat.completion",
        "created": int(now),
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens, "audio_tokens": 0},
        },
        "system_fingerprint": "fp_local",
    }
