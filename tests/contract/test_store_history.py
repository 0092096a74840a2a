"""The history: what is written to it, and that its chains hold. That every entry's hash is over the one before it and
all its columns is held after every verb of every test, by `Stores.faults`."""

from __future__ import annotations

import json
from typing import Any

from store_conformance import Bench, advanced, failed, finished, given_back, quarantined, retried


def events(bench: Bench, run: int | None) -> list[tuple[str, Any]]:
    return [(row["event"], row["reason"]) for row in bench.stores.chain(run)]


def test_a_run_begins_and_ends_its_chain(bench: Bench) -> None:
    run = bench.begin().run
    head = bench.store.end_run(run, 0, "all done")
    first, last = bench.stores.chain(run)
    assert (first["event"], first["seq"], last["event"], last["seq"]) == ("run_started", 1, "run_finished", 2)
    assert json.loads(first["detail"]) == {"host": "here", "versions": {"a": "1", "b": "1"}, "after": []}
    assert (last["reason"], json.loads(last["detail"])) == ("all done", {"exit_code": 0})
    assert bench.stores.run_row(run)["head"] == head == last["hash"]


def test_what_may_quote_data_is_kept_with_the_run_and_stays_out_of_the_history(bench: Bench) -> None:
    run = bench.begin().run
    bench.store.end_run(run, 4, "a bad line at in.jsonl:3", "not JSON: 4711 SECRET")
    assert bench.stores.run_row(run)["reason"] == "a bad line at in.jsonl:3: not JSON: 4711 SECRET"
    assert bench.stores.chain(run)[-1]["reason"] == "a bad line at in.jsonl:3"


def test_nothing_follows_the_end(bench: Bench) -> None:
    run = bench.begin().run
    head = bench.store.end_run(run, 0, "all done")
    assert bench.store.end_run(run, 3, "again") is None
    assert bench.stores.run_row(run)["head"] == head


def test_claims_and_checkpoints_write_no_history(bench: Bench) -> None:
    run = bench.start("k", "l")
    before = len(bench.stores.chain(run))
    one, other = bench.claim(run)
    bench.state(run, advanced(one), advanced(other))
    bench.state(run, finished(one), finished(other))
    assert len(bench.stores.chain(run)) == before


def test_every_decision_is_an_entry(bench: Bench) -> None:
    run = bench.start("a", "b", "c", "d")
    one, two, three, four = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() + 9), failed(two, reason="why"), quarantined(three))
    bench.state(run, given_back(four))
    assert events(bench, run)[1:] == [
        ("record_retrying", None),
        ("record_failed", "why"),
        ("record_quarantined", None),
        ("record_reset", "stop"),
    ]


def test_a_stale_fact_leaves_no_entry(bench: Bench) -> None:
    run = bench.start("a", "b")
    one, two = bench.claim(run)
    bench.state(run, given_back(one))
    assert bench.state(run, failed(one), failed(two)) == {(one.id, one.fence)}
    assert [event for event, _ in events(bench, run)][1:] == ["record_reset", "record_failed"]


def test_a_dead_run_is_buried_in_its_own_chain(bench: Bench) -> None:
    run = bench.start("k", "l")
    bench.claim(run)
    bench.die(run)
    bench.clock.pass_time(99)
    next_run = bench.begin(bench.another()).run
    assert [event for event, _ in events(bench, run)][1:] == ["record_reset", "record_reset", "run_finished"]
    last = bench.stores.chain(run)[-1]
    assert (last["reason"], json.loads(last["detail"])) == ("died", {"exit_code": None, "found_by": next_run})


def test_two_runs_write_two_chains(bench: Bench) -> None:
    run = bench.start("k", "l")
    other_store = bench.another()
    other = bench.begin(other_store).run
    (one,) = bench.claim(run, 1)
    (two,) = bench.claim(other, 1, store=other_store)
    bench.state(run, failed(one))
    bench.state(other, quarantined(two), store=other_store)
    bench.state(run, *[retried(three, 0) for three in bench.claim(run)])
    assert [event for event, _ in events(bench, run)] == ["run_started", "record_failed"]
    assert [event for event, _ in events(bench, other)] == ["run_started", "record_quarantined"]


def test_a_run_names_the_ends_of_the_chains_before_it(bench: Bench) -> None:
    first = bench.begin().run
    head = bench.store.end_run(first, 0, "")
    bench.clock.pass_time(1)
    second = bench.begin().run
    bench.clock.pass_time(1)
    other_store = bench.another()
    third = bench.begin(other_store).run
    assert after(bench, second) == [[first, 2, head]]
    assert after(bench, third) == [[second, 1, bench.stores.chain(second)[0]["hash"]]]
    bench.clock.pass_time(1)
    ends = [bench.store.end_run(second, 0, ""), other_store.end_run(third, 0, "")]
    fourth = bench.begin().run
    assert sorted(after(bench, fourth)) == [[second, 2, ends[0]], [third, 2, ends[1]]]


def after(bench: Bench, run: int) -> Any:
    return json.loads(bench.stores.chain(run)[0]["detail"])["after"]


def test_thousands_of_entries_of_one_change_are_one_chain(bench: Bench) -> None:
    run = bench.start(*range(2500))
    bench.pass_over(run, "another", again=True)
    assert [row["seq"] for row in bench.stores.chain(run)] == list(range(1, 2503))
    bench.state(run, *[failed(one) for one in bench.claim(run, 3000)])
    bench.store.end_run(run, 1, "")
    assert len(bench.stores.chain(run)) == 2504
