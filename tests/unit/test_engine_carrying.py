"""One chunk there and back: what is asked of the provider, in which order, whatever it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from onward.engine.batches import carrying
from onward.engine.batches.carrying import Carrier, Parted, RefusedAsWhole
from onward.errors import Fatal, Rejected, Transient
from onward.ports.batches import BatchState, Chunk, Said

NOW = 1_000_000.0
RUNNING, DONE = BatchState("b", "in_progress", 1, 2), BatchState("b", "completed", 2, 2, "file", ("out",))


class Store:
    """Writes down what was to become durable."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def bodies(self, run: int, chunk: str, after: int, limit: int) -> list[tuple[int, str, str]]:
        return [(1, "f", "{}"), (2, "g", "{}")] if not after else []

    def __getattr__(self, verb: str) -> Any:
        def tell(run: int, chunk: str, *rest: Any) -> int:
            self.told.append((verb, *rest))
            return 1

        return tell

    def verbs(self) -> list[str]:
        return [one[0] for one in self.told]


class Journal:
    run = 1

    def __init__(self, store: Store):
        self._store = SimpleNamespace(batches=store)
        self.may_not_send = 0

    def ask(self, question: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(question(self._store))
        return future

    def may_send(self) -> bool:
        self.may_not_send -= 1
        return self.may_not_send < 0


class Provider:
    """Says what it is given for each verb, in turn; the last again and again. An exception is raised."""

    def __init__(self, **said: list[Any]):
        self.asked: list[str] = []
        self._said = {
            "upload": ["file"],
            "submit": [RUNNING],
            "look": [DONE],
            "find": [None],
            "uploaded": [None],
            **said,
        }

    def _next(self, verb: str) -> Any:
        self.asked.append(verb)
        answers = self._said[verb]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def upload(self, name: str, lines: Any) -> str:
        assert lines.read() == b"f/p{}g/p{}"
        return str(self._next("upload"))

    async def uploaded(self, name: str) -> Any:
        return self._next("uploaded")

    async def submit(self, file: str, path: str, chunk: str) -> Any:
        return self._next("submit")

    async def find(self, chunk: str, since: float) -> Any:
        return self._next("find")

    async def look(self, batch: str) -> Any:
        return self._next("look")

    async def results(self, batch: BatchState) -> AsyncIterator[list[Said]]:
        for page in self._said.get("results", [[Said("f", "answer", "1"), Said("g", "answer", "2")]]):
            yield page

    async def forget(self, files: list[str]) -> None:
        self.asked.append("forget " + " ".join(files))

    def line(self, fingerprint: str, path: str, body: str) -> bytes:
        return (fingerprint + path + body).encode()

    def fault(self, message: str) -> str:
        return message


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = asyncio.sleep
    monkeypatch.setattr(carrying, "SETTLE", 0.05)
    monkeypatch.setattr(carrying, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(carrying.asyncio, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
    monkeypatch.setattr(carrying.time, "time", lambda: NOW)


def carried(
    provider: Provider, is_new: bool = True, journal: Journal | None = None, limit: float = 60.0, **chunk: Any
) -> Store:
    store = Store()
    made = Chunk("c", "m", "", "/p", 2, chunk.pop("at", NOW), **chunk)
    journal = journal or Journal(store)
    journal._store.batches = store
    carrier = Carrier(made, provider, journal, limit, lambda *what, **more: None, lambda: None)  # type: ignore[arg-type]
    try:
        asyncio.run(carrier.carry(is_new))
    except Exception as error:
        error.store = store  # type: ignore[attr-defined]
        raise
    return store


def test_the_way_there_and_back() -> None:
    provider = Provider()
    store = carried(provider)
    assert provider.asked == ["upload", "submit", "look", "forget file out"]
    assert store.verbs() == ["note_file", "note_batch", "take_in", "end_chunk"]


def test_what_is_new_is_not_looked_for_and_what_is_known_is_not_sent() -> None:
    provider = Provider()
    carried(provider, is_new=False, batch="b")
    assert provider.asked == ["look", "forget file out"]


def test_what_may_have_been_made_is_looked_for_until_it_would_be_listed() -> None:
    provider = Provider(find=[None, None, DONE])
    store = carried(provider, is_new=False)
    assert provider.asked == ["find", "find", "find", "forget file out"]
    assert store.told[0] == ("note_batch", DONE, True)


def test_what_was_never_made_waits_again() -> None:
    provider = Provider(uploaded=["file"])
    store = carried(provider, is_new=False)
    assert set(provider.asked) == {"find", "uploaded", "forget file"}
    assert store.told == [("end_chunk", "never made", "", None, set())]


@pytest.mark.parametrize("found", [DONE, None])
def test_a_making_without_an_answer_is_looked_for(found: BatchState | None) -> None:
    provider = Provider(submit=[Transient("reset"), RUNNING], find=[found])
    carried(provider)
    assert provider.asked.count("submit") == (1 if found else 2)
    assert "find" in provider.asked


def test_a_making_that_surely_came_to_nothing_is_tried_again() -> None:
    provider = Provider(submit=[Transient("refused", sent=False), RUNNING])
    carried(provider)
    assert provider.asked[:3] == ["upload", "submit", "submit"]


def test_an_upload_without_an_answer_may_have_left_its_file() -> None:
    provider = Provider(upload=[Transient("reset")], uploaded=["there"])
    store = carried(provider)
    assert provider.asked[:3] == ["upload", "uploaded", "submit"]
    assert store.told[0] == ("note_file", "there")


@pytest.mark.parametrize("verb", ["upload", "submit"])
def test_what_is_refused_waits_again_and_stops_the_run(verb: str) -> None:
    with pytest.raises(Parted) as stopped:
        carried(Provider(**{verb: [Fatal("no key")]}))
    assert stopped.value.ending.exit_code == 4
    assert stopped.value.store.told[-1] == ("end_chunk", "refused", "", None, set())  # type: ignore[attr-defined]


def test_nothing_is_sent_under_a_lease_that_may_be_over() -> None:
    store = Store()
    journal = Journal(store)
    journal.may_not_send = 5
    carried(Provider(), journal=journal)
    assert journal.may_not_send < 0


def test_who_cannot_be_reached_for_too_long_ends_the_run() -> None:
    with pytest.raises(Parted) as stopped:
        carried(Provider(look=[Transient("down")]), limit=0.1, batch="b")
    assert stopped.value.ending.exit_code == 3


def test_an_unknown_batch_stops_the_run_until_it_must_be_over() -> None:
    with pytest.raises(Parted, match="not known"):
        carried(Provider(look=[None]), is_new=False, batch="b", at=NOW - 86400)
    store = carried(Provider(look=[None], results=[]), is_new=False, batch="b", at=NOW - 100_000)
    assert store.told[-1][:2] == ("end_chunk", "expired")


def test_a_batch_that_failed_as_a_whole_says_so() -> None:
    state = BatchState("b", "failed", code="empty", message="nothing")
    with pytest.raises(RefusedAsWhole) as refused:
        carried(Provider(look=[state], results=[]))
    assert refused.value.state == state
    assert refused.value.store.told[-1] == ("end_chunk", "failed", "empty", None, set())  # type: ignore[attr-defined]


def test_a_line_that_stops_all_is_heard_when_the_others_are_in() -> None:
    page = [Said("f", "stop", "no credit"), Said("g", "again", "429")]
    with pytest.raises(Parted, match="no credit") as stopped:
        carried(Provider(results=[page]))
    assert stopped.value.store.told[-2:] == [  # type: ignore[attr-defined]
        ("take_in", page),
        ("end_chunk", "completed", "", None, {"f", "g"}),
    ]


def test_what_has_no_answer_has_a_fault_in_words() -> None:
    store = carried(Provider(results=[[Said("g", "again", "429")]]))
    assert store.told[-1] == (
        "end_chunk", "completed", "", "batches came back without an answer to it (completed)", {"g"}
    )  # fmt: skip


def test_a_fault_of_onward_s_own_is_none_of_the_provider_s() -> None:
    with pytest.raises(KeyError):
        carried(Provider(look=[KeyError("x")]))
    with pytest.raises(Parted, match="refuses"):
        carried(Provider(look=[Rejected("no")]))
