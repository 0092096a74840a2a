"""The server that AI jobs are tested against: what it answers, through the `openai` SDK itself."""

from __future__ import annotations

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from helpers.asking import APIS, TEXT, ask, text_of
from helpers.llm import LlmServer


class Line(BaseModel):
    label: str
    weight: float | None


class Verdict(BaseModel):
    topic: Literal["printer", "network", "other"]
    urgency: int
    lines: list[Line]


SCHEMA = {"name": "verdict", "strict": True, "schema": openai.pydantic_function_tool(Verdict)["function"]["parameters"]}


def limited(api: str, tokens: int) -> dict[str, int]:
    return {"max_output_tokens" if api == "responses" else "max_completion_tokens": tokens}


def shaped(api: str) -> dict[str, Any]:
    if api == "responses":
        return {"text": {"format": {"type": "json_schema", **SCHEMA}}}
    return {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}


@pytest.mark.parametrize("api", APIS)
def test_the_same_question_has_the_same_answer_and_another_question_another(client: openai.OpenAI, api: str) -> None:
    first, second = text_of(ask(client, api)), text_of(ask(client, api))
    assert first == second != text_of(ask(client, api, TEXT + " Please help."))
    assert "network in room 4" in first


@pytest.mark.parametrize("api", APIS)
def test_an_answer_fits_the_schema(client: openai.OpenAI, api: str) -> None:
    verdict = Verdict.model_validate_json(text_of(ask(client, api, **shaped(api))))
    assert verdict.topic == "network"  # the one that the text names
    assert client.responses.parse(model="small", input=TEXT, text_format=Verdict).output_parsed is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 4},
        {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "minLength": 400, "maxLength": 410},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 5, "maxItems": 5},
        {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        {"$ref": "#/$defs/tree"},
    ],
)
def test_an_instance_keeps_the_bounds_of_its_schema(schema: dict[str, Any]) -> None:
    from llm_server.schemas import Maker

    tree = {"type": "object", "properties": {"more": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    whole = {"type": "object", "properties": {"value": schema}, "$defs": {"tree": tree}}
    for seed in range(50):
        value = Maker(whole, str(seed), TEXT.split()).make()["value"]
        assert json.loads(json.dumps(value)) == value
        match schema:
            case {"type": "integer"}:
                assert value in ({3, 4} if "minimum" in schema else {4})
            case {"type": "number"}:
                assert 0 <= value <= 1
            case {"type": "string"}:
                assert 400 <= len(value) <= 410
            case {"type": "array"}:
                assert len(value) == 5
            case {"anyOf": _}:
                assert value == "2025-03-14"


def test_tokens_are_counted_alike_in_both_apis(client: openai.OpenAI, server: LlmServer) -> None:
    new, old = ask(client, "responses").usage, ask(client, "chat").usage
    assert (new.input_tokens, new.output_tokens) == (old.prompt_tokens, old.completion_tokens)
    assert new.total_tokens == new.input_tokens + new.output_tokens > len(TEXT) / 4
    server.control(reasoning_tokens=100, answer_tokens=30)
    thought = ask(client, "responses").usage
    assert (thought.output_tokens, thought.output_tokens_details.reasoning_tokens) == (130, 100)


def test_a_system_text_that_was_read_before_is_cached(client: openai.OpenAI) -> None:
    rules = "Judge this as a person would who has seen many of its kind. " * 100
    first, second = (ask(client, "responses", instructions=rules).usage for _ in range(2))
    assert first.input_tokens_details.cached_tokens == 0
    assert 1024 <= second.input_tokens_details.cached_tokens < second.input_tokens == first.input_tokens


@pytest.mark.parametrize("api", APIS)
def test_an_answer_longer_than_it_may_be_is_cut_off(client: openai.OpenAI, api: str) -> None:
    answer = ask(client, api, TEXT + " [[tokens=50]]", **limited(api, 16))
    if api == "responses":
        assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert answer.usage.output_tokens == 16
    else:
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 16
    assert len(text_of(answer)) == 64


STATUSES: dict[str, tuple[type[openai.APIStatusError], int, str | None]] = {
    "400": (openai.BadRequestError, 400, None),
    "401": (openai.AuthenticationError, 401, "invalid_api_key"),
    "403": (openai.PermissionDeniedError, 403, "forbidden"),
    "408": (openai.APIStatusError, 408, None),
    "409": (openai.ConflictError, 409, None),
    "422": (openai.UnprocessableEntityError, 422, None),
    "429": (openai.RateLimitError, 429, "rate_limit_exceeded"),
    "500": (openai.InternalServerError, 500, None),
    "502": (openai.InternalServerError, 502, None),
    "503": (openai.InternalServerError, 503, None),
    "504": (openai.InternalServerError, 504, None),
    "quota": (openai.RateLimitError, 429, "insufficient_quota"),
    "model": (openai.NotFoundError, 404, "model_not_found"),
    "context": (openai.BadRequestError, 400, "context_length_exceeded"),
    "schema": (openai.BadRequestError, 400, "invalid_json_schema"),
    "html_503": (openai.InternalServerError, 503, None),
}


@pytest.mark.parametrize("fault", STATUSES)
def test_a_fault_has_its_status_and_its_code(client: openai.OpenAI, server: LlmServer, fault: str) -> None:
    kind, status, code = STATUSES[fault]
    with pytest.raises(kind) as raised:
        ask(client, "responses", f"{TEXT} [[fault={fault}]] [[key={fault}]]")
    assert (raised.value.status_code, raised.value.code) == (status, code)
    last = server.log()[-1]
    assert (last["key"], last["fault"], last["status"]) == (fault, fault, status)


def test_a_fault_strikes_as_often_as_its_marker_says(client: openai.OpenAI, server: LlmServer) -> None:
    text = f"{TEXT} [[fault=503*2]] [[key=twice]]"
    for _ in range(2):
        with pytest.raises(openai.InternalServerError):
            ask(client, "chat", text)
    assert text_of(ask(client, "chat", text))
    assert [(line["nth"], line["status"]) for line in server.log() if line["key"] == "twice"] == [
        (1, 503),
        (2, 503),
        (3, 200),
    ]


@pytest.mark.parametrize("fault", ["html", "empty", "broken_json"])
def test_what_is_no_answer_though_its_status_is_200(client: openai.OpenAI, fault: str) -> None:
    text = f"{TEXT} [[fault={fault}]]"
    raw = client.responses.with_raw_response.create(model="small", input=text)
    body = raw.http_response.content
    assert raw.status_code == 200
    assert body.startswith({"html": b"<!doctype html>", "empty": b"", "broken_json": b'{"id"'}[fault])
    assert ("html" in raw.headers["content-type"]) == (fault == "html")
    with pytest.raises(ValueError):
        json.loads(body)


@pytest.mark.parametrize("fault", ["cut", "reset", "lost"])
def test_a_connection_that_ends_too_early(client: openai.OpenAI, server: LlmServer, fault: str) -> None:
    with pytest.raises(openai.APIConnectionError) as raised:
        ask(client, "responses", f"{TEXT} [[fault={fault}]]")
    assert ("complete message body" in str(raised.value.__cause__)) == (fault == "cut")
    last = server.log()[-1]
    assert (last["fault"], last["delivered"], last["output_tokens"] > 0) == (fault, False, fault != "reset")


def test_a_question_that_is_never_answered(client: openai.OpenAI, server: LlmServer) -> None:
    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.3), "responses", f"{TEXT} [[fault=hang]] [[key=hung]]")
    server.wait_until_open(0)
    last = server.log()[-1]
    assert (last["key"], last["status"], last["delivered"]) == ("hung", None, False)


def test_an_answer_that_comes_too_late_was_worked_for(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(late_after=2.0)
    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.2), "responses", f"{TEXT} [[fault=late]] [[key=late]]")
    server.wait_until_open(0)
    last = server.log()[-1]
    assert (last["key"], last["delivered"], last["output_tokens"] > 0) == ("late", False, True)
    assert text_of(ask(client, "responses", f"{TEXT} [[fault=late]]"))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", ["incomplete", "incomplete_empty"])
def test_an_answer_that_stops_in_the_middle(client: openai.OpenAI, api: str, fault: str) -> None:
    answer = ask(client, api, f"{TEXT} [[fault={fault}]]")
    ended = answer.incomplete_details.reason if api == "responses" else answer.choices[0].finish_reason
    assert ended == ("max_output_tokens" if api == "responses" else "length")
    assert bool(text_of(answer)) == (fault == "incomplete")


def test_a_refusal(client: openai.OpenAI) -> None:
    text = f"{TEXT} [[fault=refusal]]"
    part = ask(client, "responses", text).output[0].content[0]
    message = ask(client, "chat", text).choices[0].message
    assert part.type == "refusal"
    assert part.refusal == message.refusal
    assert message.content is None


def test_a_filter_and_a_failure(client: openai.OpenAI) -> None:
    filtered, failing = f"{TEXT} [[fault=content_filter]]", f"{TEXT} [[fault=failed]]"
    assert ask(client, "responses", filtered).incomplete_details.reason == "content_filter"
    assert ask(client, "chat", filtered).choices[0].finish_reason == "content_filter"
    answer = ask(client, "responses", failing)
    assert (answer.status, answer.error.code) == ("failed", "server_error")
    with pytest.raises(openai.InternalServerError):
        ask(client, "chat", failing)


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_does_not_fit_and_one_that_fits_when_asked_again(client: openai.OpenAI, api: str) -> None:
    text = f"{TEXT} [[fault=misfit*1]] [[key=misfit-{api}]]"
    with pytest.raises(ValueError):
        Verdict.model_validate_json(text_of(ask(client, api, text, **shaped(api))))
    Verdict.model_validate_json(text_of(ask(client, api, text, **shaped(api))))
    always = f"{TEXT} [[fault=misfit_json]]"
    for _ in range(2):
        with pytest.raises(ValueError):
            json.loads(text_of(ask(client, api, always, **shaped(api))))


def test_a_repair_is_the_same_question(client: openai.OpenAI) -> None:
    first = {"role": "user", "content": f"{TEXT} [[fault=misfit*1]] once"}
    repair = [first, {"role": "assistant", "content": "{}"}, {"role": "user", "content": "topic is missing"}]
    wanted = shaped("responses")
    with pytest.raises(ValueError):
        Verdict.model_validate_json(client.responses.create(model="small", input=[first], **wanted).output_text)
    Verdict.model_validate_json(client.responses.create(model="small", input=repair, **wanted).output_text)


def test_an_answer_of_two_megabytes(client: openai.OpenAI) -> None:
    assert len(text_of(ask(client, "responses", f"{TEXT} [[fault=big]]"))) == 2_000_000
    answer = text_of(ask(client, "chat", f"{TEXT} [[fault=big]]", **shaped("chat")))
    assert len(answer) == 2_000_000
    Verdict.model_validate_json(answer)


def test_a_server_that_has_only_chat(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(chat_only=True)
    with pytest.raises(openai.NotFoundError) as raised:
        ask(client, "responses")
    assert raised.value.code is None
    assert text_of(ask(client, "chat"))


def test_a_key_that_is_wrong_or_revoked(client: openai.OpenAI, server: LlmServer) -> None:
    with pytest.raises(openai.AuthenticationError):
        ask(client.with_options(api_key="another"), "responses")
    assert text_of(ask(client, "responses"))
    server.control(key="the next one")
    with pytest.raises(openai.AuthenticationError):
        ask(client, "responses")


def test_tenants_models_and_the_context(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(forbidden_tenants=["acme"], models=["small"], context_tokens=1_000)
    with pytest.raises(openai.PermissionDeniedError):
        ask(client, "chat", f"{TEXT} [[tenant=acme]]")
    assert text_of(ask(client, "chat", f"{TEXT} [[tenant=other]]"))
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="huge", input=TEXT)
    with pytest.raises(openai.BadRequestError, match="context"):
        ask(client, "responses", TEXT * 100)
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").id == "small"


@pytest.mark.parametrize(
    "change",
    [
        {"additionalProperties": True},
        {"required": ["a"]},
        {"properties": {"a": {"type": "string"}, "b": {"allOf": []}}},
        {"properties": {"a": {"type": "string"}, "b": {"type": "array"}}},
    ],
)
def test_a_strict_schema_that_the_api_refuses(client: openai.OpenAI, server: LlmServer, change: dict[str, Any]) -> None:
    good = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }

    def shape(schema: dict[str, Any], strict: bool = True) -> Any:
        return {"format": {"type": "json_schema", "name": "x", "strict": strict, "schema": schema}}

    assert text_of(ask(client, "responses", text=shape(good)))
    with pytest.raises(openai.BadRequestError) as raised:
        ask(client, "responses", text=shape({**good, **change}))
    assert raised.value.code == "invalid_json_schema"
    assert text_of(ask(client, "responses", text=shape({**good, **change}, strict=False)))
    server.control(strict_schemas=False)
    assert text_of(ask(client, "responses", text=shape({**good, **change})))
