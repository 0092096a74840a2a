"""The fields of an effect's key are changed: what was sent under the old key is not sent again for the same input."""

from __future__ import annotations

from store_conformance import Bench, given_back
from test_store_ledger import ABSENT, CONFIRMED, FILING, claim, done, intent, met, retried, unconfirmed_of

from onward.model import Claimed
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
