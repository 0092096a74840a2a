"""What a provider's result lines say, and what that is to the record that asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from onward.errors import BadResponse, Rejected, Transient, UsageError
from onward.llm import Model, Prompt
from onward.llm.answers import Answer, Usage
from onward.llm.asking import fingerprint
from onward.llm.batching import Batches, read
from onward.model import Spent
from onward.ports.batches import BatchState, Said

PRICES = {"input": 4.0, "cached_input": 1.0, "output": 12.0}
RESPONSE = {
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "fine"}]}],
    "status": "completed",
    "usage": {"input_tokens": 100, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 50}},
}


@pytest.fixture
def batches() -> Batches:
    return Batches(Model("m", mode="batch", prices=PRICES))


def line(status: int | None, body: Any = None, error: Any = None) -> bytes:
    response = None if status is None else {"status_code": status, "request_id": "r", "body": body}
    return json.dumps({"id": "x", "custom_id": "f", "response": response, "error": error}).encode()


def error(code: str | None, message: str = "why") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def test_an_answer_is_read_as_it_came_and_costs_half(batches: Batches) -> None:
    said = batches._said(line(200, RESPONSE))
    assert (said.fingerprint, said.what) == ("f", "answer")
    assert read(said.text) == Answer("fine", "done", Usage(100, 10, 50))
    whole = 50 * 4_000_000 + 50 * 1_000_000 + 10 * 12_000_000
    assert said.spent == Spent("m", 1, 100, 10, 50, picodollars=whole // 2)


def test_an_answer_of_the_older_api_is_read_too(batches: Batches) -> None:
    body = {"choices": [{"message": {"content": "cut"}, "finish_reason": "length"}]}
    said = batches._said(line(200, body))
    assert read(said.text) == Answer("cut", "cut off", None, "length")
    assert said.spent == Spent("m", 1, uncounted=1)


def test_an_unknown_price_is_unknown() -> None:
    said = Batches(Model("m", mode="batch"))._said(line(200, RESPONSE))
    assert said.spent is not None
    assert (said.spent.unpriced, said.spent.picodollars, said.spent.tokens_in) == (1, 0, 100)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_refusal_is_the_record_s_own(batches: Batches, status: int) -> None:
    said = batches._said(line(status, error("context_length_exceeded")))
    assert said.what == "answer"
    with pytest.raises(Rejected, match=f"{status} context_length_exceeded: why"):
        read(said.text)


@pytest.mark.parametrize("status", [408, 409, 425, 500, 503])
def test_a_fault_may_be_over_when_it_is_asked_again(batches: Batches, status: int) -> None:
    said = batches._said(line(status, error(None)))
    assert said.what == "fault"
    with pytest.raises(Transient, match=f"{status}: why"):
        read(said.text)


@pytest.mark.parametrize(
    "told",
    [
        line(401, error("invalid_api_key")),
        line(403, error(None)),
        line(429, error("insufficient_quota")),
        line(404, error("model_not_found")),
        line(400, error("invalid_json_schema")),
        line(None, None, {"code": "insufficient_quota", "message": "why"}),
    ],
)
def test_what_holds_for_all_requests_stops_the_run(batches: Batches, told: bytes) -> None:
    said = batches._said(told)
    assert said.what == "stop"
    assert said.text.endswith("why")


@pytest.mark.parametrize(
    "told",
    [
        line(429, error("rate_limit_exceeded")),
        line(None, None, {"code": "batch_expired", "message": "why"}),
        line(None, None, {"code": "batch_cancelled", "message": "why"}),
        line(None),
    ],
)
def test_what_was_not_carried_out_goes_out_again(batches: Batches, told: bytes) -> None:
    said = batches._said(told)
    assert (said.what, said.spent) == ("again", None)


def test_an_answer_that_is_none_may_be_charged(batches: Batches) -> None:
    said = batches._said(line(200, {"hello": 1}))
    assert (said.what, said.spent) == ("fault", Spent("m", 1, uncounted=1))


@pytest.mark.parametrize(
    "told",
    [
        line(200, RESPONSE | {"output": ["x"]}),
        line(200, RESPONSE | {"error": "boom"}),
        line(200, RESPONSE | {"output": [{"type": "message", "content": 5}]}),
        line(200, {"choices": [{"message": "hello"}]}),
        line(200, [1]),
        line(500, {"error": "boom"}),
        line(10**30, error(None)),
        line(302, error(None)),
        json.dumps({"custom_id": "f", "response": "x"}).encode(),
        json.dumps({"custom_id": "f", "response": {}}).encode(),
        line(None, None, "boom"),
        line(None, None, {"code": "x", "message": [1]}),
    ],
)
def test_a_line_of_a_wrong_shape_is_a_fault_for_its_own_request(batches: Batches, told: bytes) -> None:
    said = batches._said(told)
    assert (said.fingerprint, said.what) == ("f", "fault")
    with pytest.raises(Transient):
        read(said.text)


@pytest.mark.parametrize("count", [10**30, 2**53, 2**53 - 1, -1, "10", 1.0, None, True])
def test_counts_that_are_none_are_unknown(batches: Batches, count: Any) -> None:
    said = batches._said(line(200, RESPONSE | {"usage": {"input_tokens": count, "output_tokens": 1}}))
    assert (said.what, said.spent) == ("answer", Spent("m", 1, uncounted=1))


NO_LINES = [
    b"<html>", b"", b"  ", b"[]", b"{}", b'"x"', b"7", b"[" * 100_000, line(200, RESPONSE)[:40],
    b'{"custom_id": null}', b'{"custom_id": 7}', b'{"custom_id": "\\ud800"}', b'{"custom_id": "a\\u0000"}', b"\xff",
]  # fmt: skip


def results(batches: Batches, lines: list[bytes], kind: str = "application/jsonl") -> list[Said]:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"\n".join(lines)

    @asynccontextmanager
    async def content(file: str) -> AsyncIterator[Any]:
        yield SimpleNamespace(headers={"content-type": kind}, iter_bytes=pieces)

    async def read_all() -> list[Said]:
        batch = BatchState("b", "completed", files=("out",))
        return [said async for block in batches.results(batch) for said in block]

    client = SimpleNamespace(files=SimpleNamespace(with_streaming_response=SimpleNamespace(content=content)))
    batches._client = lambda within=0.0: client  # type: ignore[method-assign,assignment]
    return asyncio.run(read_all())


@pytest.mark.parametrize("odd", NO_LINES)
def test_a_line_that_is_none_costs_the_others_nothing(batches: Batches, odd: bytes) -> None:
    said = results(batches, [odd, line(200, RESPONSE), odd, line(200, RESPONSE), odd])
    assert [one.what for one in said] == ["answer", "answer"]


def test_a_page_in_place_of_results_loses_no_answer(batches: Batches) -> None:
    with pytest.raises(BadResponse):
        results(batches, [b"<html>", b"</html>"], "text/html; charset=utf-8")


def test_a_request_is_one_line_whatever_its_text_has(batches: Batches) -> None:
    body = json.dumps({"input": "a\nb\u2028c\u2029d\x85e"}, ensure_ascii=False)
    made = batches.line("f", "/responses", body)
    assert made.endswith(b"\n")
    assert len(made.decode().splitlines()) == 1
    assert json.loads(made) == {
        "custom_id": "f",
        "method": "POST",
        "url": "/v1/responses",
        "body": {"input": "a\nb\u2028c\u2029d\x85e"},
    }


def test_models_in_other_places_are_asked_apart() -> None:
    from onward.llm.answers import Request, Turn

    asked = Request("m", None, (Turn("user", "Hi"),), None, None, None)
    assert fingerprint(asked) != fingerprint(asked, "http://other")
    assert fingerprint(asked, "http://one") != fingerprint(asked, "http://other")


def test_outside_a_run_there_is_nobody_who_would_wait() -> None:
    with pytest.raises(UsageError, match="mode='batch'"):
        asyncio.run(Model("m", mode="batch").ask(Prompt("Hi")))
