"""What servers answer, well and badly: read as an answer, as none of their API, or as one that cannot be used."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx2
import openai
import pytest
from pydantic import BaseModel

from onward.errors import BadResponse, Fatal, Invalid, UnusableAnswer, UsageError
from onward.llm import Model, Prompt, asking
from onward.model import Spent
from onward.ports.models import CURRENT

PRICES = {"input": 4.0, "output": 12.0}
DIALECTS = {"/responses": "responses", "/chat/completions": "chat"}


def responses(*content: Any, usage: Any = None, **said: Any) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": one} if isinstance(one, str) else one for one in content]
    return {"status": "completed", "output": [{"type": "message", "content": parts}], "usage": usage, **said}


def chat(content: Any = "fine", finish: Any = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage}


class Server:
    """Answers each path with what it is given for it, in turn; an exception is raised."""

    def __init__(self, **said: list[Any]):
        self.said, self.asked = said, list[str]()
        self.bodies: list[dict[str, Any]] = []
        self.spent: list[Spent] = []
        self.heard: list[str] = []

    async def post(self, model: Any, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        self.asked.append(DIALECTS[path])
        self.bodies.append(body)
        answers = self.said[DIALECTS[path]]
        said = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(said, Exception):
            raise said
        return said, {"from": DIALECTS[path]}

    def ask(self, monkeypatch: pytest.MonkeyPatch, returns: Any = str, text: str = "Hi", model: Any = None) -> Any:
        desk = SimpleNamespace(
            settle=lambda spent, most: self.spent.append(spent),
            heard=lambda name, headers: self.heard.append(headers["from"]),
        )
        monkeypatch.setattr(asking, "post", self.post)
        monkeypatch.setattr(asking, "client_of", lambda model: None)
        model = model or Model("m", api="responses" if "responses" in self.said else "chat", prices=PRICES)

        async def asked() -> Any:
            CURRENT.set(desk)  # type: ignore[arg-type]
            return await model.ask(Prompt("{{ text }}"), text=text, returns=returns)

        return asyncio.run(asked())


def api_error(kind: type[openai.APIStatusError], status: int, code: str | None = None) -> openai.APIStatusError:
    response = httpx2.Response(status, request=httpx2.Request("POST", "http://server"))
    return kind("why", response=response, body={"code": code, "message": "why"})


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"output": "x"},
        {"output": ["x"]},
        responses("fine", error="boom"),
        responses("fine", status=["completed"]),
        responses({"type": "output_text", "text": 5}),
        responses({"type": "output_text", "text": {"a": 1}}),
        responses("fine", output=[{"type": "message", "content": "fine"}]),
        responses("fine", output=[{"type": "message", "content": ["fine"]}]),
        responses("fine", output=[{"type": "message", "content": 5}]),
        responses("fine", status="incomplete", incomplete_details="max"),
    ],
)
def test_what_is_no_answer_of_its_api_may_be_asked_again(monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]) -> None:
    server = Server(responses=[said])
    with pytest.raises(BadResponse, match="no answer of its API: '"):
        server.ask(monkeypatch)
    assert server.spent[0].lost == 1


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": "hello"}]},
        chat(finish=["stop"]),
        chat([{"type": "text", "text": "hello"}]),
        chat(5),
    ],
)
def test_the_same_of_the_older_api(monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]) -> None:
    with pytest.raises(BadResponse, match="no answer of its API: '"):
        Server(chat=[said]).ask(monkeypatch)


@pytest.mark.parametrize(
    ("api", "said", "words"),
    [
        ("responses", responses(output=[]), "the answer is empty"),
        ("responses", responses({"type": "output_text", "text": None}), "the answer is empty"),
        ("responses", responses(output=[{"type": "function_call", "name": "x"}]), "called a tool"),
        ("chat", chat(None), "the answer is empty"),
        ("chat", {"choices": [{"message": None}]}, "the answer is empty"),
        ("chat", chat(None, "tool_calls"), "called a tool"),
        ("chat", chat("half", "error"), "a reason that is not known: 'error'"),
    ],
)
@pytest.mark.parametrize("returns", [str, int])
def test_an_answer_that_says_nothing_is_no_success(
    monkeypatch: pytest.MonkeyPatch, api: str, said: dict[str, Any], words: str, returns: Any
) -> None:
    server = Server(**{api: [said]})
    with pytest.raises(UnusableAnswer, match=words):
        server.ask(monkeypatch, returns)
    assert len(server.asked) == 1


@pytest.mark.parametrize("finish", ["stop", None, "", "eos_token"])
def test_an_answer_is_whole_in_the_words_of_other_servers_too(monkeypatch: pytest.MonkeyPatch, finish: Any) -> None:
    assert Server(chat=[chat("fine", finish)]).ask(monkeypatch) == "fine"


NO_COUNTS = [None, "10", 10.0, -10, True, 10**30, 2**53, [1]]


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("field", [0, 1, 2])
@pytest.mark.parametrize("count", NO_COUNTS)
def test_what_is_no_count_of_tokens_is_unknown_and_not_zero(
    monkeypatch: pytest.MonkeyPatch, api: str, field: int, count: Any
) -> None:
    names = ("input_tokens", "output_tokens") if api == "responses" else ("prompt_tokens", "completion_tokens")
    counts = [10, 5, 2]
    counts[field] = count
    usage = {names[0]: counts[0], names[1]: counts[1], f"{names[0]}_details": {"cached_tokens": counts[2]}}
    server = Server(**{api: [responses("fine", usage=usage) if api == "responses" else chat(usage=usage)]})
    assert server.ask(monkeypatch) == "fine"
    (spent,) = server.spent
    if field == 2 and count is None:  # not all servers count what they had seen before
        assert (spent.uncounted, spent.tokens_in, spent.cached_tokens) == (0, 10, 0)
    else:
        assert (spent.uncounted, spent.tokens_in, spent.tokens_out, spent.picodollars) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    "usage",
    [
        [1],
        "x",
        {"output_tokens": 5},
        {"input_tokens": 5},
        {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": [1]},
        {"input_tokens": 2**53 - 1, "output_tokens": 0},
    ],
)
def test_usage_that_is_none_or_half_of_it_is_unknown(monkeypatch: pytest.MonkeyPatch, usage: Any) -> None:
    server = Server(responses=[responses("fine", usage=usage)])
    assert server.ask(monkeypatch) == "fine"
    assert (server.spent[0].uncounted, server.spent[0].picodollars) == (1, 0)


def test_usage_of_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(responses=[responses("fine", usage={"input_tokens": 0, "output_tokens": 0})])
    server.ask(monkeypatch)
    assert (server.spent[0].uncounted, server.spent[0].lost) == (0, 0)


def test_a_bad_answer_of_the_older_api_may_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(responses=[api_error(openai.NotFoundError, 404)], chat=[{"choices": [None]}, chat()])
    model = Model("m", prices=PRICES)
    with pytest.raises(BadResponse):
        server.ask(monkeypatch, model=model)
    assert server.ask(monkeypatch, model=model) == "fine"
    assert server.ask(monkeypatch, model=model) == "fine"
    assert server.asked == ["responses", "chat", "responses", "chat", "chat"]
    assert server.heard == ["chat"] * 3


def test_what_the_older_api_refuses_is_heard_as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = api_error(openai.NotFoundError, 404)
    bad = api_error(openai.BadRequestError, 400, "invalid_json_schema")
    with pytest.raises(Fatal, match="refuses the schema"):
        Server(responses=[unknown], chat=[bad]).ask(monkeypatch)
    with pytest.raises(openai.NotFoundError) as raised:
        Server(responses=[unknown], chat=[api_error(openai.NotFoundError, 404, "model_not_found")]).ask(monkeypatch)
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as raised:
        Server(responses=[unknown], chat=[api_error(openai.NotFoundError, 404)]).ask(monkeypatch)
    assert raised.value is unknown


def test_who_hears_late_that_only_the_older_api_is_there_asks_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("m", prices=PRICES)
    server = Server(responses=[api_error(openai.NotFoundError, 404)], chat=[chat()])
    inner = server.post

    async def late(*asked: Any) -> Any:
        model.api = "chat"  # another request has found it out meanwhile
        return await inner(*asked)

    server.post = late  # type: ignore[method-assign]
    model.api = "responses"
    assert server.ask(monkeypatch, model=model) == "fine"


def test_half_of_a_surrogate_pair_is_wrong_data(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(responses=[responses("fine")])
    with pytest.raises(Invalid, match="surrogate"):
        server.ask(monkeypatch, text="a\ud800b")
    assert server.asked == []


def test_half_of_a_pair_in_an_answer_can_be_sent_back(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(responses=[responses("a\ud800b"), responses('{"value": 7}')])
    assert server.ask(monkeypatch, int) == 7
    said = server.bodies[1]["input"][1]["content"]
    assert said == "a\\ud800b"


@pytest.mark.parametrize("returns", [BaseModel, list[BaseModel]])
def test_a_model_without_fields_of_its_own_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, returns: Any) -> None:
    with pytest.raises(UsageError, match="subclass of BaseModel"):
        Server(responses=[responses("{}")]).ask(monkeypatch, returns)
