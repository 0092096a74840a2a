"""Requests that go together: who waits, what is sent, what came of it, what it cost; each in one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from store_conformance import Bench, advanced, at, fact, given_back, plain, quarantined

from onward.model import BatchRequest, Claimed, Deferral, Fact, Spending, Spent, State, StepVersion
from onward.ports.batches import BatchState, Chunk, ChunkWish, KnownAnswer, NoAnswer, NoRoom, Said
from onward.ports.work import Reservation

MODELS = (("m", "", "/responses"),)


def request(name: str, **given: Any) -> BatchRequest:
    made = BatchRequest(name, "m", "", "/responses", f'{{"input":"{name}"}}', 100, 10)
    return replace(made, **given)


def put_off(one: Claimed, *names: str, version: str = "1", known: tuple[str, ...] = (), **given: Any) -> Fact:
    made = fact(one, State.PENDING, step="a", hold="batch")
    made.deferral = Deferral(version, tuple(request(name, **given) for name in names), known)
    return made


def wish(name: str = "c1", **given: Any) -> ChunkWish:
    return replace(ChunkWish(name, "m", "", "/responses", 1000, 1 << 20), **given)


def answer(name: str, picodollars: int = 40, **given: Any) -> Said:
    return Said(name, "answer", f'"said {name}"', Spent("m", 1, 6, 2, 0, picodollars, **given))


def said(name: str) -> KnownAnswer:
    return KnownAnswer(f'"said {name}"', Spent("m", 1, 6, 2, 0, 40))


class Sent:
    """A bench, with short words for batches."""

    def __init__(self, bench: Bench):
        self.bench = bench
        self.run = bench.start("k", "l", "m", batch_models=MODELS)
        self.batches: Any = bench.store.batches

    def put_off(self, *names: str, **given: Any) -> list[Claimed]:
        """Each record waits for the request in its place."""
        claimed = self.bench.claim(self.run, len(names))
        facts = [put_off(one, name, **given) for one, name in zip(claimed, names, strict=True)]
        assert self.bench.state(self.run, *facts) == set()
        return claimed

    def answer(self, name: str, record: int = 1, version: str = "1") -> Any:
        return self.batches.answer(self.run, record, version, name)

    def chunk(self, name: str = "c1", **given: Any) -> Chunk:
        made = self.batches.make_chunk(self.run, wish(name, **given))
        assert isinstance(made, Chunk)
        return made

    def end(self, name: str = "c1", status: str = "completed", told: tuple[str, ...] = (), **given: Any) -> int:
        left: int = self.batches.end_chunk(self.run, name, status, "", given.get("fault", '"in vain"'), set(told))
        return left

    def holds(self) -> dict[str, str | None]:
        return {key: self.bench.row(key)["hold"] for key in ("k", "l", "m")}

    @property
    def spent(self) -> Spent:
        found: Spent = self.bench.store.store.counts(1).spent["m"]
        return found


@pytest.fixture
def sent(bench: Bench) -> Sent:
    return Sent(bench)


def test_a_record_waits_out_of_the_way_until_its_request_is_answered(sent: Sent) -> None:
    sent.put_off("f", "g")
    assert sent.holds() == {"k": "batch", "l": "batch", "m": None}
    assert plain(sent.bench.claim(sent.run)) == ["m"]
    assert sent.bench.store.counts(1).held == {"batch": 2}
    chunk = sent.chunk()
    assert (chunk.requests, chunk.batch, chunk.file) == (2, None, None)
    bodies = sent.batches.bodies(sent.run, "c1", 0, 10)
    assert [one[1:] for one in bodies] == [("f", '{"input":"f"}'), ("g", '{"input":"g"}')]
    assert sent.batches.bodies(sent.run, "c1", bodies[0][0], 10) == bodies[1:]
    assert sent.batches.take_in(sent.run, "c1", [answer("g")]) == 1
    assert sent.holds() == {"k": "batch", "l": None, "m": None}
    assert sent.answer("f") == NoAnswer(0)
    assert sent.answer("g").text == '"said g"'
    (one,) = sent.bench.claim(sent.run)
    assert (one.key, one.attempts, one.step) == ('"l"', 1, "a")


def test_whose_fence_is_gone_asks_nothing(sent: Sent) -> None:
    (one,) = sent.bench.claim(sent.run, 1)
    assert sent.bench.state(sent.run, put_off(replace(one, fence=one.fence - 1), "f")) != set()
    assert sent.batches.queues(sent.run) == []
    assert sent.batches.make_chunk(sent.run, wish()) is None


def test_what_was_answered_before_the_wait_was_stated_is_not_waited_for(sent: Sent) -> None:
    sent.put_off("f")
    late, other = sent.bench.claim(sent.run, 2)
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    assert sent.bench.state(sent.run, put_off(late, "f"), put_off(other, "f", "g")) == set()
    assert sent.holds() == {"k": None, "l": None, "m": "batch"}


def test_a_record_goes_on_when_all_that_it_asked_is_answered(sent: Sent) -> None:
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, put_off(one, "f", "g"))
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    assert sent.holds()["k"] == "batch"
    sent.batches.take_in(sent.run, "c1", [answer("g")])
    assert sent.holds()["k"] is None


def test_a_suspect_is_one_again(sent: Sent) -> None:
    (one,) = sent.bench.claim(sent.run, 1)
    one.deaths = 2
    sent.bench.state(sent.run, put_off(one, "f"))
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    assert sent.holds()["k"] == "suspect"


def test_what_comes_twice_counts_once(sent: Sent) -> None:
    sent.put_off("f", "g")
    sent.chunk()
    assert sent.batches.take_in(sent.run, "c1", [answer("f")]) == 1
    assert sent.batches.take_in(sent.run, "c1", [answer("f"), answer("g")]) == 1
    assert sent.batches.take_in(sent.run, "other", [answer("f"), answer("g")]) == 0
    assert (sent.spent.requests, sent.spent.picodollars, sent.spent.tokens_in) == (2, 80, 12)


def test_what_a_request_cost_is_told_by_one_record(sent: Sent) -> None:
    sent.put_off("f", "f")
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    known = sent.answer("f")
    assert known == KnownAnswer('"said f"', Spent("m", 1, 6, 2, 0, 40))
    one, other = sent.bench.claim(sent.run, 2)
    done = advanced(one)
    done.spending = [Spending(known.spent, batched="f")]
    sent.bench.state(sent.run, done)
    assert sent.answer("f") == KnownAnswer('"said f"', None)
    assert (sent.spent.requests, sent.spent.picodollars) == (1, 40)
    sent.bench.state(sent.run, advanced(other))
    assert sent.answer("f") == NoAnswer(0)  # nobody needs it any more: to be asked again is to be asked anew


@pytest.mark.parametrize("end", [advanced, quarantined])
def test_answers_last_as_long_as_the_step_that_asked(sent: Sent, end: Any) -> None:
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, put_off(one, "f"))
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, put_off(one, "g", known=("f",)))  # a second round
    assert sent.answer("f") == said("f")
    sent.chunk("c2")
    sent.batches.take_in(sent.run, "c2", [answer("g")])
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, given_back(one))
    assert sent.answer("f") == said("f")
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, end(one))
    assert sent.answer("f") == NoAnswer(0)
    assert sent.answer("g") == NoAnswer(0)


def test_a_fault_is_told_once_and_the_request_is_made_again(sent: Sent) -> None:
    sent.put_off("f")
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [Said("f", "fault", '"down"', None)])
    (one,) = sent.bench.claim(sent.run, 1)
    assert sent.answer("f") == KnownAnswer('"down"', None)
    assert sent.answer("f") == NoAnswer(0)
    sent.bench.state(sent.run, put_off(one, "f"))
    assert sent.chunk("c2").requests == 1


def test_what_has_no_answer_is_sent_again_but_not_for_ever(sent: Sent) -> None:
    sent.put_off("f")
    for number in range(3):
        assert sent.holds()["k"] == "batch"
        sent.chunk(f"c{number}")
        assert sent.end(f"c{number}", "expired") == 1
    assert sent.holds()["k"] is None
    assert sent.answer("f").text == '"in vain"'


def test_batches_that_failed_as_a_whole_are_not_counted(sent: Sent) -> None:
    sent.put_off("f")
    for number in range(5):
        sent.chunk(f"c{number}")
        assert sent.end(f"c{number}", "failed", fault=None) == 1
    assert sent.holds()["k"] == "batch"


def test_a_line_that_is_missing_may_be_charged_and_one_that_was_told_of_not(sent: Sent) -> None:
    sent.put_off("f", "g", "h")
    sent.chunk()
    sent.batches.take_in(sent.run, "c1", [answer("f"), Said("g", "again", '"429"')])
    assert sent.end(told=("g",)) == 2
    assert (sent.spent.requests, sent.spent.lost, sent.spent.picodollars) == (2, 1, 140)
    assert sent.end(told=("g",)) == 0  # it is over
    assert sent.spent.lost == 1


def test_a_chunk_takes_what_a_file_holds(sent: Sent) -> None:
    sent.put_off("f", "g", "h")
    assert sent.chunk("c1", most_requests=1).requests == 1
    assert sent.chunk("c2", most_bytes=1).requests == 1  # one that is too big alone goes alone
    (left,) = sent.batches.queues(sent.run)
    assert (left.model, left.place, left.path, left.requests, left.bytes) == ("m", "", "/responses", 1, 13)


def test_a_cap_bounds_a_chunk_and_what_is_set_aside_counts_until_it_is_answered(sent: Sent) -> None:
    sent.put_off("f", "g", "h")
    caps = {"most_picodollars": 250, "most_tokens": 1000}
    assert sent.chunk("c1", **caps).requests == 2
    refused = sent.batches.make_chunk(sent.run, wish("c2", **caps))
    assert refused == NoRoom(100, 10, 0, 0, set_aside=True)
    online = Reservation("m", 100, 10, 250, None)
    assert not sent.bench.write(sent.run, reservations=[online]).reserved[0].granted
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    assert sent.chunk("c3", **{**caps, "most_picodollars": 240}).requests == 1  # 40 are spent, 100 set aside
    sent.batches.take_in(sent.run, "c1", [answer("g")])
    sent.batches.take_in(sent.run, "c3", [answer("h")])
    assert sent.bench.write(sent.run, reservations=[replace(online, most_picodollars=220)]).reserved[0].granted
    assert sent.spent.picodollars == 120


def test_a_cap_that_is_used_up_says_so(sent: Sent) -> None:
    sent.put_off("f")
    assert sent.batches.make_chunk(sent.run, wish(most_picodollars=99)) == NoRoom(100, 10, 0, 0, set_aside=False)
    assert sent.batches.make_chunk(sent.run, wish(most_tokens=9)) == NoRoom(100, 10, 0, 0, set_aside=False)


def test_chunks_of_the_dead_are_taken_over_and_those_of_the_living_are_not(sent: Sent) -> None:
    sent.put_off("f", "g")
    sent.chunk("c1", most_requests=1)
    sent.batches.note_file(sent.run, "c1", "file-1")
    sent.batches.note_batch(sent.run, "c1", BatchState("batch_1", "validating"), False)
    other = sent.bench.another()
    second = sent.bench.begin(other, batch_models=MODELS).run
    beside = other.batches.open_chunks(second)
    assert (beside.own, beside.elsewhere) == ([], 1)
    sent.bench.die(sent.run)
    sent.bench.store.take_over(second) if other is sent.bench.store else other.take_over(second)
    (own,) = other.batches.open_chunks(second).own
    assert (own.id, own.requests, own.file, own.batch) == ("c1", 1, "file-1", "batch_1")


@pytest.mark.parametrize(
    ("start", "goes_on"),
    [
        ({"batch_models": MODELS}, False),
        ({"batch_models": MODELS, "steps": (StepVersion("a", "2"), StepVersion("b", "1"))}, True),
        ({"batch_models": ()}, True),
        ({"batch_models": (("m", "http://other", "/responses"),)}, True),
        ({"batch_models": (("m", "", "/chat/completions"),)}, True),
    ],
)
def test_who_waits_for_what_would_be_asked_otherwise_now_waits_no_more(
    sent: Sent, start: dict[str, Any], goes_on: bool
) -> None:
    sent.put_off("f")
    sent.bench.store.end_run(sent.run, 3, "stopped")
    sent.run = sent.bench.begin(**start).run
    assert sent.holds()["k"] == (None if goes_on else "batch")
    if goes_on:
        assert sent.batches.make_chunk(sent.run, wish()) is None


def test_what_is_on_its_way_is_waited_for_whatever_the_api_is_now(sent: Sent) -> None:
    sent.put_off("f")
    sent.chunk()
    sent.bench.store.end_run(sent.run, 3, "stopped")
    sent.bench.begin(batch_models=(("m", "", "/chat/completions"),))
    assert sent.holds()["k"] == "batch"


def test_a_request_that_is_made_otherwise_now_goes_out_as_it_is_made_now(sent: Sent) -> None:
    sent.put_off("f")
    sent.bench.store.end_run(sent.run, 3, "stopped")
    sent.run = sent.bench.begin(batch_models=(("m", "", "/chat/completions"),)).run
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, put_off(one, "f", path="/chat/completions", body="{}"))
    sent.chunk(path="/chat/completions")
    assert [body for _, _, body in sent.batches.bodies(sent.run, "c1", 0, 9)] == ["{}"]


def test_what_was_asked_about_an_input_that_has_changed_is_not_sent(sent: Sent) -> None:
    sent.put_off("f")
    sent.bench.store.begin_pass(sent.run, True, "it changed")
    sent.bench.feed(sent.run, [at(0, "k", "2"), at(1, "l"), at(2, "m")], complete=True)
    assert sent.holds()["k"] is None
    assert sent.batches.make_chunk(sent.run, wish()) is None


def test_a_step_that_does_not_come_back_to_what_it_asked_is_counted(sent: Sent) -> None:
    for number, strays in enumerate([0, 1, 2]):
        (one,) = sent.bench.claim(sent.run, 1)
        sent.bench.state(sent.run, put_off(one, f"f{number}"))
        assert (sent.answer("new"), sent.answer("new", version="2")) == (NoAnswer(strays), NoAnswer(0))
        sent.chunk(f"c{number}")
        sent.batches.take_in(sent.run, f"c{number}", [answer(f"f{number}")])
    (one,) = sent.bench.claim(sent.run, 1)
    sent.bench.state(sent.run, put_off(one, "g", known=("f2",)))  # it has come back to it
    assert sent.answer("new") == NoAnswer(2)


def test_the_history_has_each_step_of_a_chunk(sent: Sent) -> None:
    sent.put_off("f")
    sent.chunk()
    sent.batches.note_batch(sent.run, "c1", BatchState("batch_1", "validating"), True)
    sent.batches.take_in(sent.run, "c1", [answer("f")])
    sent.end()
    told = [one["event"] for one in sent.bench.stores.chain(sent.run)]
    assert told == ["run_started", "batch_intended", "batch_found", "batch_finished"]
    assert sent.bench.row("k")["history"] == []
