"""Order and gates: who is claimed first, who is left out, what is said of gates, and what people pause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from store_conformance import Bench, fact, given_back, plain, records, retried

from onward.model import SourceRecord, State
from onward.policy.rank import rank
from onward.ports.work import ClaimWish, GateStanding, GateWish

MUCH = 1000


def gate(value: str, group: str = "state") -> str:
    return f'["{group}","{value}"]'


def wish(*shut: str, fresh: int | None = None, room: int = MUCH, **rooms: int) -> GateWish:
    return GateWish(
        frozenset(gate(value) for value in shut), {gate(value): n for value, n in rooms.items()}, room, fresh
    )


def ranked(*given: tuple[str, Any]) -> list[SourceRecord]:
    """Records with a priority."""
    made = records(*(key for key, _ in given))
    return [replace(one, rank=rank(value)) for one, (_, value) in zip(made, given, strict=True)]


def at_gates(*given: tuple[str, str | None]) -> list[SourceRecord]:
    """Records that wait at the gate of a group."""
    made = records(*(key for key, _ in given))
    return [
        replace(one, gate=None if value is None else gate(value)) for one, (_, value) in zip(made, given, strict=True)
    ]


def fed(bench: Bench, given: list[SourceRecord], **start: Any) -> int:
    run = bench.begin(**start).run
    bench.store.take_feed(run)
    bench.store.begin_pass(run, False, "")
    bench.feed(run, given, complete=True)
    return run


def test_ranks_decide_then_the_source(bench: Bench) -> None:
    run = fed(bench, ranked(("c", 2), ("a", None), ("b", 10), ("d", 2), ("e", -1)))
    assert plain(bench.claim(run, 2, ranked=True)) == ["e", "c"]
    assert plain(bench.claim(run, ranked=True)) == ["d", "b", "a"]


def test_one_whose_back_off_is_over_takes_its_rank_again(bench: Bench) -> None:
    run = fed(bench, ranked(("a", 3), ("b", 2), ("c", 1)))
    first, second = bench.claim(run, 2, ranked=True)
    bench.state(run, retried(first, bench.clock.now() + 5), retried(second, bench.clock.now() + 50))
    bench.clock.pass_time(10)
    assert plain(bench.claim(run, ranked=True)) == ["c", "a"]


def test_without_a_priority_waits_that_ended_come_first(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    _, second = bench.claim(run, 2)
    bench.state(run, retried(second, bench.clock.now() - 1))
    assert plain(bench.claim(run)) == ["b", "c"]


def test_a_changed_input_brings_a_new_rank_and_gate(bench: Bench) -> None:
    run = fed(bench, [replace(one, gate=gate("CA")) for one in ranked(("a", 1), ("b", 2))])
    bench.store.take_feed(run)
    bench.store.begin_pass(run, True, "it changed")
    changed = [replace(one, gate=gate("NY"), value="2") for one in ranked(("a", 3))]
    bench.feed(run, [*changed, replace(ranked(("x", 0), ("b", 2))[1], gate=gate("CA"))], complete=True)
    assert (bench.row("a")["rank"], bench.row("a")["gate"]) == (rank(3), gate("NY"))
    assert plain(bench.claim(run, ranked=True, gates=wish())) == ["b", "a"]


def test_shut_gates_are_left_out_and_do_not_hold_up_others(bench: Bench) -> None:
    crowd = [(f"ca{n}", "CA") for n in range(300)]
    run = fed(bench, at_gates(*crowd, ("ny", "NY"), ("tx", "TX"), ("none", None)))
    assert plain(bench.claim(run, 10, gates=wish("CA"))) == ["ny", "tx", "none"]
    assert bench.claim(run, 10, gates=wish("CA")) == []


def test_each_gate_gives_as_many_as_it_has_room_for(bench: Bench) -> None:
    run = fed(bench, at_gates(*((f"{value}{n}", value) for n in range(9) for value in ("CA", "NY", "TX"))))
    claimed = plain(bench.claim(run, gates=wish(room=2, NY=1, TX=0)))
    assert claimed == ["CA0", "NY0", "CA1"]
    assert plain(bench.claim(run, 2, gates=wish(room=MUCH))) == ["TX0", "NY1"]


def test_those_that_wait_at_none_have_room_of_their_own(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", None), ("b", "CA"), ("c", None)))
    assert plain(bench.claim(run, gates=wish(fresh=0))) == ["b"]
    assert plain(bench.claim(run, gates=wish(fresh=1))) == ["a"]


def test_a_record_that_leaves_waits_where_its_fact_says(bench: Bench) -> None:
    run = bench.start("a", "b")
    one, other = bench.claim(run)
    bench.state(run, given_back(one, gate=gate("CA")), fact(other, State.UNCONFIRMED, step="a", gate=gate("CA")))
    assert bench.claim(run, effects=True, gates=wish("CA")) == []
    assert sorted(plain(bench.claim(run, effects=True, gates=wish()))) == ["a", "b"]


def test_what_is_due_next_leaves_out_shut_gates(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "NY"), ("c", None)))
    now = bench.clock.now()
    first, second, third = sorted(bench.claim(run, gates=wish()), key=lambda one: one.key)
    bench.state(run, retried(first, now + 10, gate=gate("CA")), retried(second, now + 20, gate=gate("NY")))
    bench.state(run, retried(third, now + 30))

    def due(*shut: str, fresh: int | None = None, **rooms: int) -> float | None:
        gates = wish(*shut, fresh=fresh, **rooms)
        found: float | None = bench.write(run, wishes=[ClaimWish(1, MUCH, gates=gates)]).next_due
        return found

    assert (due(), due("CA"), due("CA", "NY")) == (now + 10, now + 20, now + 30)
    assert due(CA=0) == now + 20, "who is not let in is not due: a run would ask for it as fast as it can"
    assert due("CA", "NY", fresh=0) is None
    bench.clock.pass_time(15)
    assert plain(bench.claim(run, gates=wish())) == ["a"]


def test_suspects_at_shut_gates_are_left_alone(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "NY")))
    for one in bench.claim(run, gates=wish()):
        bench.state(run, given_back(one, hold="suspect", gate=bench.row(one.key.strip('"'))["gate"]))
    assert plain(bench.claim(run, suspects=True, start=False, gates=wish("CA"))) == ["b"]


def test_gates_that_the_job_no_longer_has_are_forgotten(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "NY")), gates=("state",))
    bench.store.end_run(run, 3, "closed")
    run = bench.begin(gates=("state",)).run
    assert bench.row("a")["gate"] == gate("CA")
    bench.store.end_run(run, 3, "closed")
    run = bench.begin().run
    assert bench.row("a")["gate"] is None
    assert plain(bench.claim(run)) == ["a", "b"]


def test_who_waits_where_is_counted(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "CA"), ("c", None), ("d", "NY")))
    assert bench.store.waiting_by_gate(run) == {gate("CA"): 2, None: 1, gate("NY"): 1}
    assert bench.store.waiting_by_gate(run, [bench.row("a")["id"]]) == {gate("CA"): 1}
    bench.claim(run, gates=wish("CA"))
    assert bench.store.waiting_by_gate(run) == {gate("CA"): 2}


def test_when_answers_are_due_is_told_by_gate(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "CA"), ("c", None), ("d", "NY"), ("e", "NY")))
    claimed = bench.claim(run, gates=wish())
    due = {"a": 900.0, "b": 700.0, "c": 800.0, "d": 0.0}
    holds = {"d": "person"}
    for one in claimed:
        (key,) = plain([one])
        if key in due:
            waits = {"not_before": due[key], "hold": holds.get(key), "gate": bench.row(key)["gate"]}
            bench.state(run, fact(one, State.UNCONFIRMED, step="b", event="effect_unconfirmed", **waits))
    assert bench.store.answers_by_gate(run) == {gate("CA"): 700.0, None: 800.0}
    assert bench.store.answers_by_gate(run, [bench.row("a")["id"]]) == {gate("CA"): 900.0}
    assert bench.store.answers_by_gate(run, []) == {}


def test_status_says_why_records_wait_at_a_gate(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "CA"), ("c", None)))
    until = bench.clock.now() + 100
    bench.store.note_gates(
        run, [GateStanding(gate("CA"), "group CA is closed", until)], [("run_paused", "group CA is closed")]
    )
    assert [(one.reason, one.count, one.until) for one in bench.stores.desk().standing(1, {}).waiting] == [
        ("group CA is closed", 2, until)
    ]
    bench.store.note_gates(run, [GateStanding('["","a"]', "step a: calls fail", until, whole=True)], [])
    assert [(one.reason, one.count) for one in bench.stores.desk().standing(1, {}).waiting] == [
        ("step a: calls fail", 1)
    ]
    bench.clock.pass_time(200)
    bench.store.end_run(run, 3, "an outage")
    assert bench.stores.desk().standing(1, {}).waiting == []


def test_people_pause_and_resume(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "NY"), ("c", None)))
    desk = bench.stores.desk()
    assert desk.pause(1, "CA", "anna", "the portal is down")
    assert not desk.pause(1, "CA", "ben", None)
    assert desk.pause(1, None, "ben", None)
    assert [(one.group, one.actor, one.reason) for one in bench.store.orders(run).pauses] == [
        (None, "ben", None),
        ("CA", "anna", "the portal is down"),
    ]
    assert [(one.reason, one.count) for one in desk.standing(1, {}).waiting] == [
        ("the job is paused by ben", 3),
        ("group CA is paused by anna: the portal is down", 1),
    ]
    assert desk.record(bench.row("b")["id"]).waiting.reason == "the job is paused by ben"
    assert desk.resume(1, None, "ben", "done")
    assert not desk.resume(1, None, "ben", None)
    assert desk.record(bench.row("a")["id"]).waiting.reason == "group CA is paused by anna: the portal is down"
    assert desk.record(bench.row("b")["id"]).waiting is None
    told = [(one.event, one.actor, one.reason) for one in desk.log(1, None) if one.event.startswith("run_")]
    assert [one for one in told if one[1] is not None] == [
        ("run_paused", "anna", "group CA: the portal is down"),
        ("run_paused", "ben", "the job"),
        ("run_resumed", "ben", "the job: done"),
    ]


def test_those_that_come_last_at_a_gate_are_taken_where_there_are_no_others(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", "CA"), ("c", "CA"), ("n", "NY")))
    ids = {key: bench.row(key)["id"] for key in "abcn"}
    one = replace(wish(CA=1, NY=0), last={gate("CA"): [ids["a"], ids["b"]]})
    assert plain(bench.claim(run, gates=one)) == ["c"]
    assert plain(bench.claim(run, gates=one)) == ["a"]
    others = replace(wish(CA=1), last={gate("CA"): [ids["b"]]})
    assert sorted(plain(bench.claim(run, gates=others))) == ["b", "n"], "the others of a claim do not stand in for them"


def test_those_that_wait_nowhere_come_before_the_last_of_their_gate(bench: Bench) -> None:
    run = fed(bench, at_gates(("a", "CA"), ("b", None), ("c", None)))
    last = {gate("CA"): [bench.row("a")["id"]]}
    gates = replace(wish(CA=1, fresh=1), last=last, first=gate("CA"))
    assert [plain(bench.claim(run, gates=gates)) for _ in range(3)] == [["b"], ["c"], ["a"]]
