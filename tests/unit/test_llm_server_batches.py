"""Files and batches of the server that AI jobs are tested against, through the `openai` SDK itself."""

from __future__ import annotations

import json
import time
from typing import Any

import openai
import pytest

from helpers.asking import APIS, TEXT
from helpers.llm import LlmServer

ENDPOINTS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}
SWITCHES = {"batch_running": 3600.0}
ENDS = ("completed", "failed", "expired", "cancelled")


def line(number: int, api: str = "responses", text: str = TEXT) -> dict[str, Any]:
    asked = {"input": text} if api == "responses" else {"messages": [{"role": "user", "content": text}]}
    body = {"model": "small", **asked}
    return {"custom_id": f"r{number}", "method": "POST", "url": ENDPOINTS[api], "body": body}


def uploaded(client: openai.OpenAI, lines: list[dict[str, Any]]) -> str:
    content = "".join(json.dumps(one) + "\n" for one in lines).encode()
    return client.files.create(file=("chunk.jsonl", content), purpose="batch").id


def submitted(client: openai.OpenAI, lines: list[dict[str, Any]], api: str = "responses", **more: Any) -> Any:
    file = uploaded(client, lines)
    return client.batches.create(input_file_id=file, endpoint=ENDPOINTS[api], completion_window="24h", **more)  # type: ignore[arg-type]


def waited_for(client: openai.OpenAI, batch: str, *statuses: str) -> Any:
    end = time.monotonic() + 20
    while (found := client.batches.retrieve(batch)).status not in statuses:
        assert time.monotonic() < end, found.status
        time.sleep(0.02)
    return found


def lines_of(client: openai.OpenAI, file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    lines = map(json.loads, client.files.content(file).text.splitlines())
    return {one["custom_id"]: one for one in lines}


def test_a_file_is_kept_until_it_is_deleted(client: openai.OpenAI) -> None:
    content = bytes(range(256)) * 10 + b"\r\n--not a boundary\r\n"
    file = client.files.create(file=("notes.bin", content), purpose="user_data")
    assert (file.filename, file.bytes, file.purpose) == ("notes.bin", len(content), "user_data")
    assert client.files.content(file.id).content == content
    assert file.id in {one.id for one in client.files.list()}
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.content(file.id)
    assert file.id not in {one.id for one in client.files.list()}


@pytest.mark.parametrize("api", APIS)
def test_a_batch_runs_and_its_answers_are_those_of_the_api(client: openai.OpenAI, server: LlmServer, api: str) -> None:
    server.control(batch_running=0.2)
    lines = [line(number, api, f"{TEXT} {number}") for number in range(30)]
    batch = submitted(client, lines, api, metadata={"chunk": "c1"})
    assert (batch.status, batch.metadata) == ("validating", {"chunk": "c1"})
    done = waited_for(client, batch.id, *ENDS)
    assert (done.status, done.error_file_id) == ("completed", None)
    assert done.created_at <= done.in_progress_at <= done.finalizing_at <= done.completed_at
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (30, 30, 0)
    answers = lines_of(client, done.output_file_id)
    assert list(answers) != [one["custom_id"] for one in lines]  # their order is not that of the input
    assert set(answers) == {one["custom_id"] for one in lines}
    if api == "responses":
        online = client.responses.create(model="small", input=f"{TEXT} 7").output[0].content[0].text  # type: ignore[union-attr]
        assert answers["r7"]["response"]["body"]["output"][0]["content"][0]["text"] == online
    assert len([one for one in server.log() if one["batch"] == batch.id]) == 30


def test_a_batch_goes_through_its_statuses(client: openai.OpenAI, server: LlmServer) -> None:
    phases = ["batch_validating", "batch_running", "batch_finalizing"]
    for name, status in zip([*phases, ""], ["validating", "in_progress", "finalizing", "completed"], strict=True):
        server.control(**{one: 3600.0 if one == name else 0.0 for one in phases})
        assert client.batches.retrieve(submitted(client, [line(1)]).id).status == status


def test_lines_that_fail_are_in_the_other_file(client: openai.OpenAI, server: LlmServer) -> None:
    texts = [TEXT, f"{TEXT} [[fault=400]]", f"{TEXT} [[fault=hang]]", f"{TEXT} [[fault=refusal]]"]
    batch = submitted(client, [line(number, text=text) for number, text in enumerate(texts)])
    server.control(end_batches="completed")
    done = waited_for(client, batch.id, "completed")
    errors = lines_of(client, done.error_file_id)
    assert {key: one["response"]["status_code"] for key, one in errors.items()} == {"r1": 400, "r2": 500}
    assert set(lines_of(client, done.output_file_id)) == {"r0", "r3"}
    assert (done.request_counts.completed, done.request_counts.failed) == (2, 2)


def test_a_batch_that_expires_has_answered_a_part(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(batch_done=0.6)
    batch = submitted(client, [line(number) for number in range(10)])
    server.control(end_batches="expired")
    done = waited_for(client, batch.id, "expired")
    errors = lines_of(client, done.error_file_id)
    assert len(lines_of(client, done.output_file_id)) == 6
    assert {one["error"]["code"] for one in errors.values()} == {"batch_expired"}
    assert len(errors) == 4
    assert done.expired_at


def test_lines_may_get_lost(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(batch_lost=2)
    batch = submitted(client, [line(number) for number in range(5)])
    server.control(end_batches="completed")
    done = waited_for(client, batch.id, "completed")
    assert len(lines_of(client, done.output_file_id)) == 3
    assert done.error_file_id is None


def test_a_batch_is_cancelled(client: openai.OpenAI) -> None:
    batch = submitted(client, [line(1)])
    waited_for(client, batch.id, "in_progress")
    assert client.batches.cancel(batch.id).status == "cancelling"
    assert waited_for(client, batch.id, *ENDS).status == "cancelled"
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([line(1), line(1)], "duplicate_custom_id"),
        ([line(1), line(2, "chat")], "mismatched_url"),
        ([{"custom_id": "x", "method": "POST", "url": "/v1/responses"}], "missing_required_parameter"),
        ([], "empty_file"),
    ],
)
def test_a_batch_that_is_not_accepted(client: openai.OpenAI, lines: list[dict[str, Any]], code: str) -> None:
    done = waited_for(client, submitted(client, lines).id, *ENDS)
    assert (done.status, done.errors.data[0].code, done.output_file_id) == ("failed", code, None)


def test_a_batch_that_fails_as_a_whole(client: openai.OpenAI, server: LlmServer) -> None:
    server.control(batch_end="failed")
    assert waited_for(client, submitted(client, [line(1)]).id, *ENDS).status == "failed"


def test_the_list_has_pages_and_the_newest_first(client: openai.OpenAI, server: LlmServer) -> None:
    made = [submitted(client, [line(1)], metadata={"number": str(number)}).id for number in range(5)]
    page = client.batches.list(limit=2)
    assert page.has_next_page()
    assert [one.id for one in page.data] == made[:-3:-1]
    everything = [one.id for one in client.batches.list(limit=2)]
    assert everything[:5] == made[::-1]
    server.control(batch_list_lag=3600)
    late = submitted(client, [line(1)])
    assert late.id not in [one.id for one in client.batches.list()]
    assert client.batches.retrieve(late.id).id == late.id


@pytest.mark.parametrize(("fault", "made"), [("lost", 1), ("reset", 0), ("503", 0)])
def test_a_batch_that_was_made_though_its_answer_got_lost(
    client: openai.OpenAI, server: LlmServer, fault: str, made: int
) -> None:
    before = len(list(client.batches.list()))
    server.control(at={"POST /v1/batches": f"{fault}*1"})
    with pytest.raises((openai.APIConnectionError, openai.InternalServerError)):
        submitted(client, [line(1)])
    assert len(list(client.batches.list())) == before + made
    assert submitted(client, [line(1)]).id


def test_what_there_is_not(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_0")
    with pytest.raises(openai.NotFoundError):
        client.batches.create(input_file_id="file-0", endpoint="/v1/responses", completion_window="24h")
    with pytest.raises(openai.BadRequestError):
        client.batches.create(input_file_id=uploaded(client, []), endpoint="/v1/embeddings", completion_window="24h")
