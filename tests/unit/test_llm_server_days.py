"""The server's bad days: limits, outages, chance; and that it is quick and its log true."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import json
import subprocess
import sys
import time
import urllib.error
from pathlib import Path

import openai
import pytest

from helpers.asking import TEXT, ask, text_of
from helpers.llm import KEY, LlmServer, llm_server


def test_requests_a_minute(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(requests_per_minute=3)
    left = [
        client.responses.with_raw_response.create(model="small", input=TEXT).headers["x-ratelimit-remaining-requests"]
        for _ in range(3)
    ]
    assert left == ["2", "1", "0"]
    with pytest.raises(openai.RateLimitError) as raised:
        ask(client, "responses")
    headers = raised.value.response.headers
    assert raised.value.code == "rate_limit_exceeded"
    assert 1 <= int(headers["retry-after"]) <= 20
    assert headers["x-ratelimit-limit-requests"] == "3"
    assert headers["x-ratelimit-reset-requests"].endswith("s")


def test_a_limit_fills_again_evenly(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(requests_per_minute=600, burst_seconds=0.1)
    answered, begun = 0, time.monotonic()
    while time.monotonic() - begun < 1.0:
        try:
            answered += bool(text_of(ask(client, "chat")))
        except openai.RateLimitError:
            time.sleep(0.005)
    assert 2 <= answered <= 10 * (time.monotonic() - begun) + 1


def test_tokens_a_minute(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(tokens_per_minute=150)
    used = ask(client, "responses").usage.total_tokens
    with pytest.raises(openai.RateLimitError) as raised:
        for _ in range(150 // used + 1):
            ask(client, "responses")
    assert "tokens" in str(raised.value)
    assert "x-ratelimit-remaining-tokens" in raised.value.response.headers


@pytest.mark.parametrize("form", ["seconds", "date", "ms", "none"])
def test_how_long_to_wait_in_each_form(client: openai.OpenAI, server: LlmServer, form: str) -> None:
    server.control(retry_after=7, retry_after_form=form)
    with pytest.raises(openai.RateLimitError) as raised:
        ask(client, "chat", f"{TEXT} [[fault=429]]")
    headers = raised.value.response.headers
    match form:
        case "seconds":
            assert headers["retry-after"] == "7"
        case "date":
            until = email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp()
            assert 0 < until - time.time() <= 8.5
        case "ms":
            assert headers["retry-after-ms"] == "7000"
        case "none":
            assert not [name for name in headers if name.startswith("retry")]


def test_too_many_at_once(server: LlmServer) -> None:
    server.control(most_open=4)

    async def many() -> list[object]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0) as client:
            asking = [client.responses.create(model="small", input=f"{TEXT} [[latency=1]]") for _ in range(10)]
            return await asyncio.gather(*asking, return_exceptions=True)

    answers = asyncio.run(many())
    assert sum(isinstance(answer, openai.RateLimitError) for answer in answers) == 6


@pytest.mark.parametrize("kind", ["503", "html_503", "reset", "hang", "refused", "html"])
def test_an_outage_and_its_end(client: openai.OpenAI, server: LlmServer, kind: str) -> None:
    assert text_of(ask(client, "responses"))
    server.control(outage=kind)
    hasty = client.with_options(timeout=0.5)
    if kind == "html":
        raw = hasty.responses.with_raw_response.create(model="small", input=TEXT)
        assert raw.http_response.text.startswith("<!doctype html>")
    else:
        expected = openai.InternalServerError if "503" in kind else openai.APIConnectionError
        for _ in range(2):
            with pytest.raises(expected) as raised:
                ask(hasty, "responses")
        assert (
            "refused" in repr(raised.value.__cause__).lower() or "attempts failed" in repr(raised.value.__cause__)
        ) == (kind == "refused")
    server.control(outage=None)
    answer = None
    for _ in range(20):  # a connection that was kept may have been reset
        with contextlib.suppress(openai.APIConnectionError):
            answer = ask(client, "responses")
            break
    assert text_of(answer)


@pytest.mark.parametrize("kind", ["503", "refused"])
def test_an_outage_ends_by_itself(client: openai.OpenAI, server: LlmServer, kind: str) -> None:
    server.control(outage=kind, outage_seconds=0.5)
    faults = 0
    while server.control()["outage"] or not faults:
        try:
            ask(client, "responses")
        except (openai.APIConnectionError, openai.InternalServerError):
            faults += 1
    assert text_of(ask(client, "responses"))


def test_a_fault_of_an_endpoint(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(at={"GET /v1/models": "503*1"})
    with pytest.raises(openai.InternalServerError):
        client.models.list()
    assert client.models.list().data
    assert text_of(ask(client, "chat"))


def test_chance_is_drawn_from_the_seed_and_the_key(client: openai.OpenAI, server: LlmServer) -> None:
    def struck() -> set[int]:
        found = set()
        for number in range(40):
            try:
                ask(client, "chat", f"{TEXT} [[key={server.control()['seed']}-{number}]]")
            except openai.InternalServerError:
                found.add(number)
        return found

    server.control(chances={"503": [0.3, 1]})
    first = struck()
    assert 3 <= len(first) <= 25
    assert struck().isdisjoint(first)  # the second time of each key is drawn anew, and nobody is struck twice
    server.control(seed=2)
    assert struck() != first


def test_latency_is_lognormal_or_what_the_marker_says(client: openai.OpenAI, server: LlmServer) -> None:
    from llm_server.switches import drawn

    spread = {"median": 0.05, "sigma": 0.5}
    drawings = sorted(drawn(spread, number) for number in range(1001))
    assert 0.045 < drawings[500] < 0.055
    assert 0.075 < drawings[841] < 0.09  # one sigma above: 0.05 × e^0.5
    server.control(latency=spread)
    ask(client, "chat", f"{TEXT} [[latency=0.4]]")
    last = server.log()[-1]
    assert last["ended"] - last["at"] >= 0.39


def test_what_a_killed_client_asked_is_in_the_log(server: LlmServer) -> None:
    asking = "responses.create(model='small', input='[[key=gone]] [[latency=1]]')"
    words = f"import openai; openai.OpenAI(max_retries=0).{asking}"
    client = subprocess.Popen([sys.executable, "-c", words], env=server.environment)
    server.wait_until_open(1)
    client.kill()
    client.wait()
    server.wait_until_open(0)
    last = server.log()[-1]
    assert (last["key"], last["delivered"], last["output_tokens"] > 0) == ("gone", False, True)


def test_the_log_is_appended_to(tmp_path: Path) -> None:
    for _ in range(2):
        with llm_server(tmp_path) as server, openai.OpenAI(base_url=server.url, api_key=KEY) as client:
            ask(client, "responses")
    assert [line["endpoint"] for line in server.log()] == ["/v1/responses"] * 2


def test_an_unknown_switch_is_named(server: LlmServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        server.control(latnecy=1)
    assert "no such switch: latnecy" in json.loads(raised.value.read())["error"]["message"]
    with pytest.raises(urllib.error.HTTPError):
        server.control(chances={"nonsense": 1})
