"""The fields of an effect's key are changed: what was sent under the old key is not sent again for the same input."""

from __future__ import annotations

from typing import Any

import pytest
from store_conformance import Bench, given_back
from test_store_ledger import (
    ABSENT,
    CONFIRMED,
    FILING,
    another_job,
    begin,
    claim,
    done,
    intent,
    met,
    retried,
    unconfirmed,
    unconfirmed_of,
)

from onward.model import Claimed, Met
from onward.ports.desk import Choice
from onward.ports.work import OtherKey

EFFECTS = ((FILING, ()),)


def rerun(bench: Bench, value: str = "1") -> tuple[int, Claimed]:
    """A record that has succeeded, in its next generation, with this input."""
    run = bench.start(("k", "1"))
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, done(one))
    if value != "1":
        bench.pass_over(run, ("k", value), again=True)
    bench.stores.desk().decide(1, Choice("rerun", "clerk", {"b": "2"}, records=[one.id]))
    (again,) = claim(bench, run)
    return run, again


def test_under_another_key_nothing_is_sent_again_for_the_same_input(bench: Bench) -> None:
    run, again = rerun(bench)
    (told,) = met(bench, run, intent(again, "ow1-other"))
    assert (told.meeting, told.entry.key, told.entry.state) == ("other key", "ow1-x", CONFIRMED)
    bench.state(run, given_back(again))
    (once_more,) = claim(bench, run)
    assert once_more.entries == {}, "the obligation stays where it was"
    assert met(bench, run, intent(once_more))[0].meeting == "go on"


def test_nor_under_another_name_that_it_had_before(bench: Bench) -> None:
    run, again = rerun(bench)
    renamed = intent(again, "ow1-new", former=((FILING, "ow1-other"),))
    assert renamed.effect is not None
    renamed.effect.name = "yearly-report"
    assert met(bench, run, renamed)[0].meeting == "other key"


def test_another_input_may_owe_another(bench: Bench) -> None:
    run, again = rerun(bench, "2")
    assert again.value == "2"
    assert met(bench, run, intent(again, "ow1-other"))[0].meeting == "go"


def test_what_was_not_applied_may_be_sent_under_another_key(bench: Bench) -> None:
    run = bench.start(("k", "1"))
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, retried(one, ABSENT, 0.0))
    (again,) = claim(bench, run)
    assert met(bench, run, intent(again, "ow1-other"))[0].meeting == "go"


def test_the_other_intents_of_the_batch_go(bench: Bench) -> None:
    run, again = rerun(bench)
    bench.pass_over(run, ("k", "1"), ("j", "1"), again=True)
    (beside,) = claim(bench, run)
    told = met(bench, run, intent(again, "ow1-other"), intent(beside, "ow1-y"))
    assert [one.meeting for one in told] == ["other key", "go"]


def test_obligations_under_keys_of_other_fields_are_told_at_the_start(bench: Bench) -> None:
    run = bench.start("a", "b", key_fields={FILING: ("id",)})
    a, b = claim(bench, run)
    first, second = intent(a, "ka"), intent(b, "kb")
    for one in (first, second):
        assert one.effect is not None
        one.effect.fields = ("id",)
    met(bench, run, first, second)
    bench.state(run, unconfirmed_of(a, "ka", ABSENT), unconfirmed_of(b, "kb"))
    assert bench.begin(effects=EFFECTS, key_fields={FILING: ("id",)}).other_keys == []
    assert bench.begin(effects=EFFECTS, key_fields={FILING: ("id", "revision")}).other_keys == [
        OtherKey(FILING, ("id",), ("id", "revision"), 1)
    ]
    assert bench.begin(effects=(*EFFECTS, ("late-fee", ())), key_fields={"late-fee": ("id",)}).other_keys == []


def adopt(bench: Bench, one: Claimed, outcome: Any = None) -> Any:
    """A record of another job takes the obligation over, and (given `outcome`) states that of it."""
    with another_job(bench, "z") as (run, store):
        (two,) = claim(bench, run, store)
        assert met(bench, run, intent(two), store=store)[0].meeting == "adopt"
        bench.state(run, outcome(two) if outcome is not None else given_back(two), store=store)
        store.end_run(run, 0, "done")
        return two


def test_nor_what_another_job_has_adopted_since(bench: Bench) -> None:
    run, again = rerun(bench)
    two = adopt(bench, again)
    (told,) = met(bench, run, intent(again, "ow1-other"))
    assert (told.meeting, told.entry.key, told.entry.record) == ("other key", "ow1-x", two.id)
    bench.state(run, given_back(again))
    (once_more,) = claim(bench, run)
    assert met(bench, run, intent(once_more))[0].meeting == "adopt"


def test_another_input_may_owe_another_though_the_first_was_adopted(bench: Bench) -> None:
    run, again = rerun(bench, "2")
    adopt(bench, again)
    assert met(bench, run, intent(again, "ow1-other"))[0].meeting == "go"


def test_nor_does_the_adopter_send_it_again(bench: Bench) -> None:
    run, again = rerun(bench)
    two = adopt(bench, again, lambda two: done(two))
    assert met(bench, run, intent(again))[0].meeting == "adopt", "the first has it back"
    other = bench.another()
    bench.stores.desk().decide(2, Choice("rerun", "clerk", {"b": "2"}, records=[two.id]))
    number = begin(bench, other, job="other", location="other.jsonl")
    (two,) = claim(bench, number, other)
    assert met(bench, number, intent(two, "ow1-other"), store=other)[0].meeting == "other key"


def test_nor_one_that_never_heard_what_came_of_it(bench: Bench) -> None:
    """Of its first generation still: no claim brings it what has become of the obligation."""
    run = bench.start(("k", "1"))
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, hold="person"))
    adopt(bench, one, lambda two: done(two))
    (again,) = claim(bench, run)
    assert (again.id, again.generation, again.entries) == (one.id, 0, {})
    assert met(bench, run, intent(again, "ow1-other"))[0].meeting == "other key"


@pytest.mark.parametrize("fields", ["id", "revision"])
def test_whose_obligations_were_adopted_is_told_at_the_start_too(bench: Bench, fields: str) -> None:
    run = bench.start("a", key_fields={FILING: ("id",)})
    (a,) = claim(bench, run)
    with_fields = intent(a)
    assert with_fields.effect is not None
    with_fields.effect.fields = ("id",)
    met(bench, run, with_fields)
    bench.state(run, done(a))
    adopted = adopt_with_fields(bench)
    expected = [] if fields == "id" else [OtherKey(FILING, ("id",), (fields,), 1)]
    assert bench.begin(effects=EFFECTS, key_fields={FILING: (fields,)}).other_keys == expected
    store = bench.another()
    there = bench.begin(store, job="other", location="other.jsonl", effects=EFFECTS, key_fields={FILING: (fields,)})
    assert (there.other_keys, adopted.meeting) == (expected, "adopt")


def adopt_with_fields(bench: Bench) -> Met:
    with another_job(bench, "z") as (run, store):
        (two,) = claim(bench, run, store)
        made = intent(two)
        assert made.effect is not None
        made.effect.fields = ("id",)
        (told,) = met(bench, run, made, store=store)
        bench.state(run, given_back(two), store=store)
        return told
