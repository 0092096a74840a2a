"""What making stale results anew comes upon."""

from __future__ import annotations

from onward.model import ResultGroup
from onward.operate.acts import Marked
from onward.policy.versions import ResultVersions, passed_over

TODAY = {"price": "2", "send": "1", "book": "1"}
EFFECTS = {"send": "invoice"}


def group(count: int = 0, changed: int = 0, skipped: str | None = None, **made_by: str) -> ResultGroup:
    return ResultGroup(made_by, skipped, count, changed)


def test_what_was_sent_counts_where_something_up_to_the_effect_is_made_anew() -> None:
    def sent(*groups: ResultGroup) -> dict[str, int]:
        return ResultVersions(list(groups)).sent(TODAY, EFFECTS)

    assert sent(group(3, price="1", send="1", book="1")) == {"invoice": 3}
    assert sent(group(3, price="2", send="0", book="1")) == {"invoice": 3}
    assert sent(group(3, price="2", send="1", book="0")) == {}
    assert sent(group(3, 2, price="2", send="1", book="0")) == {"invoice": 2}  # another input makes all anew
    assert sent(group(3, 2, price="2", send="1", book="1")) == {"invoice": 2}
    assert sent(group(3, skipped="price", price="1")) == {}
    assert sent(group(3, price="1", send="1"), group(1, price="0", send="1")) == {"invoice": 4}


def test_steps_before_ones_that_have_run() -> None:
    assert passed_over({"price": "1", "book": "1"}, TODAY) == ["send"]
    assert passed_over({"price": "1"}, TODAY) == []
    assert passed_over({"gone": "1"}, TODAY) == []
    assert passed_over({"book": "1"}, TODAY) == ["price", "send"]


def test_retry_does_not_promise_that_only_those_are_tried() -> None:
    said = str(Marked("retry", 4, False, from_steps={"price": 4}))
    assert said.endswith("the next run tries them with fresh attempts, and every other failed record as well")
    assert str(Marked("release", 4, False, from_steps={"price": 4})).endswith("; the next run works on them")
