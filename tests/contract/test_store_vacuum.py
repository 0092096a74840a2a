"""Vacuum: what newer results have replaced goes, and nothing that somebody may need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from store_conformance import (
    Bench,
    advanced,
    check,
    ended,
    fact,
    failed,
    failure,
    finished,
    quarantined,
    records,
    retried,
)

from onward.errors import StoreError
from onward.model import EffectFact, EntryState, Kind, State, StepVersion
from onward.ports.desk import Choice, ExportWish, Vacuumed
from onward.store.sql import vacuuming
from onward.store.sql.vacuuming import Vacuum

TODAY = {"a": "1", "b": "1"}
MONTH = 30 * 86400.0
EVERY = ExportWish(State.SUCCEEDED, ("a", "b"), generations="all")


def again(bench: Bench, run: int, *keys: str, times: int = 1) -> None:
    """New generations of finished records, each made by other versions."""
    for _ in range(times):
        chosen = [bench.row(key)["id"] for key in keys]
        bench.stores.desk().decide(1, Choice("rerun", "clerk", {"a": "2", "b": "2"}, records=chosen, step="a"))
        ended(bench, run, *keys)


def vacuum(bench: Bench, older_than: float = MONTH, dry_run: bool = False) -> Vacuumed:
    desk = bench.stores.desk()
    found = desk.vacuum(1, older_than, "anna", dry_run)
    check(bench.stores, bench.store.store)
    assert desk.verify(None, None).misfit is None
    return found


def generations(bench: Bench, key: str) -> set[int]:
    """Those that have outputs."""
    return {generation for generation, _ in bench.row(key)["checkpoints"]}


def test_results_that_newer_ones_have_replaced_go(bench: Bench) -> None:
    run = bench.start("k", "l", "m")
    ended(bench, run, "k", "l", "m")
    again(bench, run, "k", "l", times=2)
    bench.clock.pass_time(MONTH + 1)
    before = bench.states()
    found = vacuum(bench)
    assert (found.records, found.results, found.outputs, found.inputs) == (2, 4, 8, 0)
    assert found.output_bytes == 8
    assert [generations(bench, key) for key in "klm"] == [{2}, {2}, {0}]
    assert bench.states() == before
    rows = list(bench.stores.desk().export(1, EVERY))
    assert [(row.key, row.generation, row.outputs) for row in rows] == [
        (f'"{key}"', generation, {"a": "1", "b": "2"}) for key, generation in (("k", 2), ("l", 2), ("m", 0))
    ]
    assert bench.row("k")["inputs"] == {0: "1"}, "it holds for what is left"
    told = [(one.event, one.actor) for one in bench.stores.desk().log(1, None) if one.event == "vacuumed"]
    assert told == [("vacuumed", "anna")]
    assert not vacuum(bench).is_any


def test_what_is_younger_stays(bench: Bench) -> None:
    run = bench.start("k")
    ended(bench, run, "k")
    bench.clock.pass_time(MONTH + 1)
    again(bench, run, "k")
    bench.clock.pass_time(MONTH - 60)
    assert not vacuum(bench).is_any, "the older result is old, but was replaced not long ago"
    assert generations(bench, "k") == {0, 1}


def test_a_dry_run_tells_the_same_and_changes_nothing(bench: Bench) -> None:
    run = bench.start("k", "l")
    ended(bench, run, "k", "l")
    again(bench, run, "k", "l", times=2)
    bench.clock.pass_time(MONTH + 1)
    told = vacuum(bench, dry_run=True)
    assert generations(bench, "k") == {0, 1, 2}
    assert vacuum(bench) == told
    assert told.is_any


@pytest.mark.parametrize("state", ["pending", "failed", "in_progress", "half"])
def test_the_newest_result_stays_while_a_newer_one_is_made(bench: Bench, state: str) -> None:
    run = bench.start("k")
    ended(bench, run, "k")
    again(bench, run, "k")
    desk = bench.stores.desk()
    desk.decide(1, Choice("rerun", "clerk", {"a": "2", "b": "2"}, records=[bench.row("k")["id"]], step="a"))
    if state != "pending":
        (one,) = bench.claim(run)
        bench.state(run, advanced(one))
        if state == "failed":
            bench.state(run, failed(one, Kind.BUG))
        elif state == "half":
            bench.state(run, retried(one, bench.clock.now() + 1, step="b"))
    bench.clock.pass_time(MONTH + 1)
    found = vacuum(bench)
    kept = {1} if state == "pending" else {1, 2}
    assert generations(bench, "k") == (kept if state != "in_progress" else {0, 1, 2})
    assert found.results == (state != "in_progress")
    (row,) = desk.export(1, ExportWish(State.SUCCEEDED, ("a", "b")))
    assert (row.generation, row.outputs) == (1, {"a": "1", "b": "2"})
    assert [one.generation for one in desk.export(1, EVERY)] == ([1] if state != "in_progress" else [0, 1])


def test_inputs_that_newer_ones_have_replaced_go_and_what_holds_stays(bench: Bench) -> None:
    run = bench.start(("k", "1"), ("l", "1"))
    for value in ("2", "3"):
        ended(bench, run, "k", "l")
        bench.pass_over(run, ("k", value), ("l", "1"), again=True)
        again(bench, run, "k", "l")
    assert bench.row("k")["inputs"] == {0: "1", 1: "2", 2: "3"}
    bench.clock.pass_time(MONTH + 1)
    found = vacuum(bench)
    assert (found.inputs, found.input_bytes) == (2, 2)
    assert bench.row("k")["inputs"] == {2: "3"}
    assert bench.row("l")["inputs"] == {0: "1"}
    outcome = bench.pass_over(run, ("k", "3"), ("l", "1"), again=True)
    assert (outcome.changed_finished, outcome.changed_unfinished) == (0, 0), "it is what it was"
    rows = {row.key: row.input for row in bench.stores.desk().export(1, ExportWish(State.SUCCEEDED, ("a", "b")))}
    assert rows == {'"k"': "3", '"l"': "1"}


def test_an_input_that_waits_for_the_next_generation_stays(bench: Bench) -> None:
    run = bench.start(("k", "1"))
    ended(bench, run, "k")
    again(bench, run, "k")
    bench.pass_over(run, ("k", "2"), again=True)
    bench.clock.pass_time(MONTH + 1)
    assert vacuum(bench).inputs == 0
    assert bench.row("k")["inputs"] == {0: "1", 2: "2"}


def test_the_input_of_a_kept_result_stays_though_two_newer_ones_came(bench: Bench) -> None:
    run = bench.start(("k", "1"))
    ended(bench, run, "k")
    desk = bench.stores.desk()
    for number in (2, 3):
        bench.pass_over(run, ("k", str(number)), again=True)
        if number == 2:
            desk.decide(1, Choice("rerun", "clerk", {"a": "2", "b": "2"}, records=[bench.row("k")["id"]], step="a"))
    assert (bench.row("k")["generation"], bench.row("k")["inputs"]) == (2, {0: "1", 1: "2", 2: "3"})
    bench.clock.pass_time(MONTH + 1)
    assert vacuum(bench).inputs == 1
    assert bench.row("k")["inputs"] == {0: "1", 2: "3"}
    (row,) = desk.export(1, ExportWish(State.SUCCEEDED, ("a", "b")))
    assert row.input == "1"


def test_what_something_was_sent_for_stays(bench: Bench) -> None:
    run = bench.start(("k", "1"), effects=(("filing", ()),), steps=(StepVersion("a", "1"), StepVersion("b", "1")))
    (one,) = bench.claim(run, effects=True)
    bench.state(run, advanced(one))
    sent = EffectFact("filing", "ow1-x", EntryState.INTENDED, payload="{}", payload_hash="h")
    bench.state(run, fact(one, State.IN_PROGRESS, step="b", started=True, attempts=1, effect=sent))
    confirmed = EffectFact("filing", "ow1-x", EntryState.CONFIRMED, receipt='"r"')
    bench.state(run, finished(one, effect=confirmed))
    bench.pass_over(run, ("k", "2"), again=True)
    again(bench, run, "k")
    again(bench, run, "k")
    ledger = bench.stores.query("SELECT * FROM effects")  # type: ignore[attr-defined]
    bench.clock.pass_time(MONTH + 1)
    found = vacuum(bench)
    assert (found.results, found.inputs) == (1, 0)
    assert generations(bench, "k") == {0, 2}
    assert bench.row("k")["inputs"] == {0: "1", 1: "2"}
    assert bench.stores.query("SELECT * FROM effects") == ledger  # type: ignore[attr-defined]


def sent_again(bench: Bench, run: int) -> None:
    """Another generation of the record `k`, whose effect comes upon what was sent."""
    bench.clock.pass_time(60)
    desk = bench.stores.desk()
    desk.decide(1, Choice("rerun", "clerk", {"a": "2", "b": "2"}, records=[bench.row("k")["id"]], step="a"))
    sends(bench, run)


def sends(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, effects=True)
    bench.state(run, advanced(one))
    sent = EffectFact("filing", "ow1-x", EntryState.INTENDED, payload="{}", payload_hash="h")
    bench.state(run, fact(one, State.IN_PROGRESS, step="b", started=True, attempts=1, effect=sent))
    bench.clock.pass_time(1)
    confirmed = EffectFact("filing", "ow1-x", EntryState.CONFIRMED, receipt='"r"')
    bench.state(run, finished(one, effect=confirmed))


def test_what_sent_stays_though_newer_generations_answer_for_it_by_now(bench: Bench) -> None:
    run = bench.start(("k", "1"), effects=(("filing", ()),), steps=(StepVersion("a", "1"), StepVersion("b", "1")))
    sends(bench, run)
    sent_again(bench, run)
    bench.pass_over(run, ("k", "2"), again=True)
    sent_again(bench, run)
    assert bench.stores.query("SELECT generation FROM effects") == [{"generation": 2}]  # type: ignore[attr-defined]
    bench.clock.pass_time(MONTH + 1)
    found = vacuum(bench)
    assert (found.results, found.inputs) == (1, 0)
    assert generations(bench, "k") == {0, 2}
    facts = bench.stores.desk().record(bench.row("k")["id"])
    assert [(one.generation, one.succeeded, one.input) for one in facts.generations] == [(0, True, "1"), (2, True, "2")]


def test_of_what_was_removed_nothing_untrue_is_told(bench: Bench) -> None:
    run = bench.start(("k", "1"))
    ended(bench, run, "k")
    again(bench, run, "k")
    bench.clock.pass_time(MONTH + 1)
    vacuum(bench)
    facts = bench.stores.desk().record(bench.row("k")["id"])
    assert [(one.generation, one.succeeded, one.input) for one in facts.generations] == [(1, True, "1")]


def test_of_a_generation_that_has_only_a_cost_left_it_is_not_said_how_it_ended(bench: Bench) -> None:
    run = bench.start(("k", "1"))
    ended(bench, run, "k")
    again(bench, run, "k")
    bench.stores.query(  # type: ignore[attr-defined]
        "INSERT INTO usage (record, generation, step, model, version, requests, tokens_in, tokens_out, cached_tokens, "
        "picodollars, unpriced, uncounted, lost, repairs, seconds) "
        f"VALUES ({bench.row('k')['id']}, 0, 'a', 'm', '1', 1, 1, 1, 0, 1, 0, 0, 0, 0, 1.0) RETURNING record"
    )
    bench.clock.pass_time(MONTH + 1)
    vacuum(bench)
    facts = bench.stores.desk().record(bench.row("k")["id"])
    assert [(one.generation, one.succeeded) for one in facts.generations] == [(0, None), (1, True)]


def test_errors_of_what_has_succeeded_since_lose_their_texts(bench: Bench) -> None:
    run = bench.start("k", "l")
    one, two = bench.claim(run)
    said = failure(message='"a long traceback"')
    bench.state(run, retried(one, 0.0, failure=said), quarantined(two, failure=said))
    ended(bench, run, "k")
    bench.clock.pass_time(MONTH + 1)
    found = vacuum(bench)
    assert (found.errors, found.records) == (1, 0)
    assert found.error_bytes > 0
    assert (bench.row("k")["failure"]["message"], bench.row("k")["failure"]["kind"]) == ('""', "transient")
    assert "traceback" in bench.row("l")["failure"]["message"]
    assert not vacuum(bench).is_any


def test_notes_of_ended_runs_go(bench: Bench) -> None:
    from onward.ports.work import GateStanding

    run = bench.start("k")
    bench.store.note_gates(run, [GateStanding("CA", "closed", None)], [])
    bench.store.end_run(run, 3, "stopped")
    bench.clock.pass_time(MONTH + 1)
    assert vacuum(bench).standings == 1
    assert bench.stores.query("SELECT * FROM gates") == []  # type: ignore[attr-defined]


def test_a_vacuum_that_is_killed_leaves_whole_pages_and_is_given_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuuming, "PAGE", 2)
    keys = [f"k{number}" for number in range(6)]
    run = bench.start(*keys)
    ended(bench, run, *keys)
    again(bench, run, *keys)
    bench.clock.pass_time(MONTH + 1)
    desk: Any = bench.stores.desk()

    class Killed(Exception):
        pass

    def die(took: float) -> None:
        raise Killed

    with pytest.raises(Killed):
        Vacuum(desk._reading_only, desk._change, 1, MONTH, "anna", False, die).work()
    check(bench.stores, bench.store.store)
    assert sorted(len(generations(bench, key)) for key in keys) == [1, 1, 2, 2, 2, 2]
    assert desk.verify(None, None).misfit is None
    assert vacuum(bench).records == 4
    assert all(generations(bench, key) == {1} for key in keys)


def test_it_rests_for_as_long_as_it_has_held_others_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuuming, "PAGE", 2)
    run = bench.start("k", "l", "m")
    ended(bench, run, "k", "l", "m")
    again(bench, run, "k", "l", "m")
    bench.clock.pass_time(MONTH + 1)
    desk: Any = bench.stores.desk()
    rests: list[float] = []
    Vacuum(desk._reading_only, desk._change, 1, MONTH, "anna", False, rests.append).work()
    assert len(rests) == 2
    assert min(rests) > 0


def test_what_changes_between_the_look_and_the_change_is_left_alone(bench: Bench) -> None:
    run = bench.start("k")
    ended(bench, run, "k")
    again(bench, run, "k")
    bench.clock.pass_time(MONTH + 1)
    desk: Any = bench.stores.desk()

    def change(instance: int, make: Callable[[Any], Any]) -> Any:
        again(bench, run, "k")  # somebody was quicker
        return desk._change(instance, make)

    removed = Vacuum(desk._reading_only, change, 1, MONTH, "anna", False).work()
    assert not removed.is_any
    assert generations(bench, "k") == {0, 1, 2}


def test_a_run_at_work_goes_on_beside_it(bench: Bench) -> None:
    run = bench.start("k", "l")
    ended(bench, run, "k")
    again(bench, run, "k")
    (one,) = bench.claim(run)
    bench.clock.pass_time(MONTH + 1)
    bench.store.renew(run)
    assert vacuum(bench).results == 1
    assert bench.state(run, advanced(one)) == set()
    assert bench.state(run, finished(one)) == set()
    assert bench.stores.desk().shrink() is not None
    assert bench.states() == {"succeeded": 2}


def test_who_reads_what_is_removed_meanwhile_is_told(bench: Bench) -> None:
    run = bench.start("k")
    ended(bench, run, "k")
    again(bench, run, "k")
    bench.clock.pass_time(MONTH + 1)
    rows = bench.stores.desk().export(1, EVERY)
    monkeyed = iter(rows)
    import onward.store.sql.asking as asking

    page, asking.PAGE = asking.PAGE, 1
    try:
        assert next(monkeyed).generation == 0
        again(bench, run, "k")
        bench.clock.pass_time(MONTH + 1)
        vacuum(bench)
        with pytest.raises(StoreError, match="vacuum"):
            next(monkeyed)
    finally:
        asking.PAGE = page


def test_an_early_end_without_outputs_is_exported_as_before(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    early = {"lineage": (("a", "1"),), "skipped": "a", "done_step": None, "checkpoint": None}
    bench.state(run, finished(one, **early))
    (row,) = bench.stores.desk().export(1, EVERY)
    assert row.outputs == {}


def test_bad_lines_and_vanished_records_are_no_hindrance(bench: Bench) -> None:
    run = bench.start("k", "l")
    ended(bench, run, "k", "l")
    again(bench, run, "k", "l")
    bench.store.begin_pass(run, True, "it changed")
    bench.feed(run, records("k"), complete=True)
    bench.clock.pass_time(MONTH + 1)
    assert vacuum(bench).results == 2
    assert generations(bench, "l") == {1}
