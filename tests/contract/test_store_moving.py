"""An instance moves from one store to another: all of it, once, wherever the move is interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from postgres_stores import PostgresStores
from sqlite_stores import SqliteStores
from store_conformance import Bench, advanced, at, ended, failed, finished, quarantined, records, retried
from test_store_ledger import ABSENT, CONFIRMED, FILING, SENT, UNKNOWN, about, claim, done, intent, met, unconfirmed

from helpers import postgres
from onward.errors import UsageError
from onward.model import State
from onward.operate import moving
from onward.ports.desk import ExportWish
from onward.ports.moving import Closed

SCHEMA = postgres.new_schema()
ROUTES = ("sqlite-to-postgres", "postgres-to-sqlite", "sqlite-to-sqlite")
STRANGE = "k\0\x01\x02"
LONE = "\ud800"


@dataclass
class Route:
    """The stores at both ends."""

    old: Bench
    new: Bench

    def move(self, **given: Any) -> moving.Copied:
        return moving.move(
            self.old.stores.desk(), self.new.stores.desk(), given.get("job", "job"), given.get("instance")
        )

    def standing(self) -> tuple[Closed | None, Closed | None]:
        """How the job stands in both."""
        found = [desk.movable("job") for desk in (self.old.stores.desk(), self.new.stores.desk())]
        first, second = (one[0].closed if one else None for one in found)
        return first, second


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Route]:
    made: list[Any] = []
    for place, kind in enumerate(request.param.split("-to-")):
        if kind == "postgres":
            made.append(PostgresStores(request.getfixturevalue("database"), SCHEMA))
        else:
            made.append(SqliteStores(tmp_path / f"{place}.db"))
    yield Route(*map(Bench, made))
    for one in made:
        one.close()


def half_done(bench: Bench, job: str = "job", effects: bool = True) -> int:
    """Records in every state, results of two generations, an open obligation and a settled one, pauses, a dead run."""
    given: dict[str, Any] = {"job": job, "location": "in.jsonl" if job == "job" else f"{job}.jsonl"}
    if effects:
        given["effects"] = ((FILING, ()),)
    first = bench.start("done", "again", "bug", "bad", "owes", "paid", "waits", "held", "fresh", STRANGE, **given)
    instance = bench.store.instance_of(first)
    by_key = {one.key: one for one in claim(bench, first, limit=8)}
    one = {name: by_key[json.dumps(name)] for name in ("done", "again", "bug", "bad", "owes", "paid", "waits", "held")}
    for name in ("done", "again"):
        bench.state(first, advanced(one[name], output='"a\\u0000\\ud800"'))
        bench.state(first, finished(one[name]))
    bench.state(first, failed(one["bug"], reason=f"why{LONE}"), quarantined(one["bad"]))
    if effects:
        met(bench, first, intent(one["owes"], key=f"{job}-owes", payload='{"n":1}', digest="h1"))
        bench.state(first, unconfirmed_as(one["owes"], f"{job}-owes"))
        met(bench, first, intent(one["paid"], key=f"{job}-paid", payload='{"n":2}', digest="h2"))
        bench.state(first, done_as(one["paid"], f"{job}-paid"))
    bench.state(first, retried(one["waits"], bench.clock.now() + 500))
    bench.pass_over(
        first, "done", ("again", "2"), "bug", "bad", "owes", "paid", "waits", "held", "fresh", STRANGE, again=True
    )
    desk = bench.stores.desk()
    desk.pause(instance, "CA", "ada", "because")
    desk.set_concurrency(instance, 7, "ada", None)
    desk.close()
    bench.store.end_run(first, 3, "stopped")
    second = bench.begin(**given).run
    claim(bench, second, limit=1)
    bench.die(second)
    return int(instance)


def unconfirmed_as(one: Any, key: str) -> Any:
    stated = unconfirmed(one)
    stated.effect = about(UNKNOWN, key, ask_at=0.0, asks=1)
    return stated


def done_as(one: Any, key: str) -> Any:
    stated = done(one)
    stated.effect = about(CONFIRMED, key, receipt='"r"')
    return stated


NUMBERS = ("id", "run", "instance", "lineage", "record", "fence")


def picture(bench: Bench, instance: int = 1) -> dict[str, Any]:
    """All that is known of an instance, but for numbers, which are those of its store."""
    found: dict[str, Any] = {"counts": bench.store.counts(instance)}
    found["versions"] = bench.stores.told_versions(bench.store.store, instance)
    desk = bench.stores.desk()
    found["pauses"] = desk.pauses(instance)
    found["concurrency"] = desk.concurrency(instance)
    rows = list(desk.export(instance, ExportWish(None, ("a", "b"))))
    found["export"] = rows
    found["all"] = list(desk.export(instance, ExportWish(State.SUCCEEDED, ("a", "b"), "all")))
    found["log"] = [
        (one.seq, one.at, one.event, one.key, one.step, one.reason, one.detail, one.hash)
        for one in desk.log(instance, None)
    ]
    for row in rows:
        facts = desk.record(desk.find(instance, [row.key])[row.key])
        entries = [
            (one.effect, one.key, one.state, one.payload, one.receipt, one.asks, one.generation)
            for one in facts.entries
        ]
        about_it = bench.row(json.loads(row.key), instance)
        failure = about_it.pop("failure")
        plain = {name: value for name, value in about_it.items() if name not in (*NUMBERS, "history")}
        said = {name: value for name, value in (failure or {}).items() if name not in NUMBERS}
        found[row.key] = plain, said, entries, facts.generations[-1].input_hash
    desk.close()
    return found


def number(bench: Bench, job: str = "job", name: str = "") -> int:
    """An instance's number, which is its store's affair."""
    return next(one.number for one in bench.stores.desk().movable(job) if one.name == name)


def moved_picture(bench: Bench, job: str = "job", name: str = "") -> dict[str, Any]:
    """The same without what the move itself has noted."""
    found = picture(bench, number(bench, job, name))
    found["log"] = [one for one in found["log"] if one[2] not in ("job_moved", "job_copied")]
    return found


def fits(bench: Bench) -> None:
    """Rows, counters and chains are what they are to be."""
    assert bench.stores.faults() == []
    for instance in bench.stores.instances():
        told, counted = bench.store.counts(instance), bench.stores.recount(instance)
        told.steps = {name: n for name, n in told.steps.items() if n}
        counted.spent = told.spent
        assert told == counted
    desk = bench.stores.desk()
    verified = desk.verify(None, None)
    desk.close()
    assert verified.misfit is None


def test_all_of_it_goes_along(route: Route) -> None:
    half_done(route.old)
    moved = route.move()
    assert (moved.taken.records, moved.taken.runs, moved.taken.obligations) == (10, 2, 2)
    assert moved_picture(route.new) == moved_picture(route.old)
    for bench in (route.old, route.new):
        fits(bench)
    assert route.standing() == (Closed.MOVED, Closed.NO)


def test_it_goes_on_there(route: Route) -> None:
    half_done(route.old)
    route.move()
    begun = route.new.begin(effects=((FILING, ()),))
    assert (begun.new_instance, begun.dead_runs, begun.reset_failed, begun.run) == (False, [], 0, 3)
    (asked,) = [one for one in claim(route.new, begun.run, only=(route.new.row("owes")["id"],)) if one.key == '"owes"']
    entry = asked.entries[FILING]
    assert (entry.state, entry.payload, entry.fence < asked.fence) == (UNKNOWN, '{"n":1}', True)
    route.new.state(begun.run, done_as(asked, "job-owes"))
    for name in ("bug", "fresh", STRANGE):
        ended(route.new, begun.run, name)
    state = route.new.store.take_feed(begun.run)
    assert state is not None and state.complete
    assert route.new.states()["succeeded"] == 7
    route.new.store.end_run(begun.run, 1, "finished")
    fits(route.new)


def test_nothing_changes_in_the_old_store_any_more(route: Route) -> None:
    half_done(route.old)
    route.move()
    place = route.new.stores.desk().store
    with pytest.raises(UsageError, match="was moved from here to") as refused:
        route.old.begin(effects=((FILING, ()),))
    assert place in str(refused.value)
    desk = route.old.stores.desk()
    for act in (lambda: desk.pause(1, None, "ada", None), lambda: desk.resume(1, "CA", "ada", None)):
        with pytest.raises(UsageError, match="was moved from here"):
            act()
    assert len(list(desk.log(1, None))) == len(list(desk.log(1, None)))
    assert desk.standing(1, {}).counts.total == 10
    fits(route.old)


def test_a_run_that_slept_through_it_changes_nothing(route: Route) -> None:
    run = route.old.start("k", "l")
    (one, _) = route.old.claim(run)
    route.old.die(run)
    route.move()
    from onward.errors import LeaseLost

    with pytest.raises(LeaseLost):
        route.old.state(run, advanced(one))
    assert not route.old.store.renew(run)


def test_numbers_of_others_stay_theirs(route: Route) -> None:
    half_done(route.old, "before", effects=False)
    for job in ("there", "also"):
        half_done(route.new, job, effects=False)
    half_done(route.old)
    for bench in (route.old, route.new):
        for run in (1, 2):
            assert bench.stores.run_row(run)
    route.new.store.end_run(route.new.begin(job="there", location="there.jsonl").run, 3, "buries its dead")
    before = moved_picture(route.new, "there")
    route.move()
    assert moved_picture(route.new) == moved_picture(route.old)
    assert moved_picture(route.new, "there") == before
    begun = route.new.begin(effects=((FILING, ()),))
    assert (begun.run, begun.new_instance) == (8, False)
    for bench in (route.old, route.new):
        fits(bench)


def test_from_a_second_store_to_a_third(route: Route, tmp_path: Path) -> None:
    half_done(route.old)
    route.move()
    run = route.new.begin(effects=((FILING, ()),)).run
    ended(route.new, run, "fresh")
    route.new.store.end_run(run, 3, "stopped")
    third = Bench(SqliteStores(tmp_path / "third.db"))
    run = third.start("x", job="other")
    third.store.end_run(run, 3, "stopped")
    Route(route.new, third).move()
    assert moved_picture(third)["export"] == moved_picture(route.new)["export"]
    run = third.begin(effects=((FILING, ()),)).run
    (one,) = third.claim(run, only=(third.row("bug", number(third))["id"],))
    third.state(run, quarantined(one))
    third.store.end_run(run, 3, "stopped")
    fits(third)
    third.stores.close()


def test_while_a_run_is_alive_nothing_is_moved(route: Route) -> None:
    run = route.old.start("k")
    with pytest.raises(UsageError, match=f"run {run} of job job is alive in the store that the job is to leave"):
        route.move()
    route.old.store.end_run(run, 3, "stopped")
    other = route.new.start("x", job="other")
    with pytest.raises(UsageError, match=f"run {other} of job other is alive in the store that the job is to go to"):
        route.move()
    assert route.standing() == (Closed.NO, None)
    route.new.store.end_run(other, 3, "stopped")
    route.move()


def test_while_a_call_may_still_be_sending_nothing_is_moved(route: Route) -> None:
    """Its run has ended, and gave up on it; its process lives."""
    run = route.old.start("k", effects=((FILING, ()),))
    (one,) = claim(route.old, run)
    met(route.old, run, intent(one, key="given-up"))
    route.old.store.end_run(run, 3, "stopped")
    with pytest.raises(UsageError, match=f"a call of run {run} may still be sending"):
        route.move()
    assert route.standing() == (Closed.NO, None)
    route.old.store.sends_ended(run)
    route.move()


def test_a_run_of_others_with_the_same_effects_must_not_be_alive(route: Route) -> None:
    half_done(route.old)
    store = route.old.another()
    plain = route.old.begin(store, job="other").run
    filing = route.old.begin(store, job="third", effects=(("new-name", (FILING,)),)).run
    with pytest.raises(UsageError, match=f"run {filing} of job third is alive"):
        route.move()
    store.end_run(filing, 3, "stopped")
    route.move()
    store.end_run(plain, 3, "stopped")


def test_what_is_there_already_is_never_touched(route: Route) -> None:
    half_done(route.old)
    run = route.new.start("k")
    route.new.store.end_run(run, 3, "stopped")
    before = picture(route.new)
    with pytest.raises(UsageError, match=r"job job is in .* already; nothing was copied"):
        route.move()
    assert picture(route.new) == before
    assert route.standing() == (Closed.NO, Closed.NO)
    route.old.begin(effects=((FILING, ()),))


def test_an_obligation_that_was_met_in_both_is_refused(route: Route) -> None:
    half_done(route.old)
    run = route.new.start("x", job="other", effects=((FILING, ()),))
    (one,) = claim(route.new, run)
    met(route.new, run, intent(one, key="job-paid", payload='{"n":2}', digest="h2"))
    route.new.state(run, done_as(one, "job-paid"))
    route.new.store.end_run(run, 0, "done")
    with pytest.raises(UsageError, match="has an entry of its own for effect 'annual-report' with the key job-paid"):
        route.move()
    assert route.standing() == (Closed.NO, None)
    fits(route.new)


def test_what_others_have_sent_stays_known(route: Route) -> None:
    """Another job of the old store has met an obligation that the job is yet to come upon."""
    half_done(route.old)
    other = route.old.start("x", "y", job="other", location="o.jsonl", effects=((FILING, ()),))
    one, two = claim(route.old, other)
    met(route.old, other, intent(one, key="owed", payload='{"n":3}', digest="h3"))
    route.old.state(other, done_as(one, "owed"))
    met(route.old, other, intent(two, key="refused", payload='{"n":4}', digest="h4"))
    stated = failed(two)
    stated.effect = about(ABSENT, "refused")
    route.old.state(other, stated)
    route.old.store.end_run(other, 1, "finished")
    moved = route.move()
    assert (moved.taken.obligations, moved.sharing) == (4, ("other",))
    run = route.new.begin(effects=((FILING, ()),)).run
    fresh, bug = claim(route.new, run, only=(route.new.row("fresh")["id"], route.new.row("bug")["id"]))
    first, second = met(
        route.new,
        run,
        intent(fresh, key="owed", payload='{"n":3}', digest="h3"),
        intent(bug, key="refused", payload='{"n":4}', digest="h4"),
    )
    assert (first.meeting, first.entry.state, first.entry.receipt, second.meeting) == ("adopt", CONFIRMED, '"r"', "go")
    assert "another job" in str(first.entry.origin)
    route.new.state(run, done_as(fresh, "owed"))
    fits(route.new)


def test_what_is_open_between_two_jobs_is_not_torn_apart(route: Route) -> None:
    half_done(route.old)
    other = route.old.start("x", job="other", location="o.jsonl", effects=((FILING, ()),))
    (one,) = claim(route.old, other)
    met(route.old, other, intent(one, key="open", payload='{"n":3}', digest="h3"))
    route.old.state(other, unconfirmed_as(one, "open"))
    route.old.store.end_run(other, 1, "finished")
    with pytest.raises(UsageError, match="with the key open is open, and it concerns what stays"):
        route.move()
    assert route.standing() == (Closed.NO, None)


def test_nobody_sends_in_the_old_store_for_what_has_gone(route: Route) -> None:
    """The obligation is open, and its record is worked on in the new store now."""
    half_done(route.old)
    route.move()
    other = route.old.start("x", job="other", location="o.jsonl", effects=((FILING, ()),))
    (one,) = claim(route.old, other)
    (told,) = met(route.old, other, intent(one, key="job-owes", payload='{"n":1}', digest="h1"))
    assert told.meeting == "wait"


def test_nobody_sends_in_the_new_store_for_what_has_not_come_yet(route: Route) -> None:
    half_done(route.old)
    interrupted(route, "close_moved")
    other = route.new.start("x", job="other", location="o.jsonl", effects=((FILING, ()),))
    (one,) = claim(route.new, other)
    (told,) = met(route.new, other, intent(one, key="job-owes", payload='{"n":1}', digest="h1"))
    assert told.meeting == "wait"


class Killed(BaseException):
    pass


class Dying:
    """A desk whose process dies right before one of its verbs."""

    def __init__(self, desk: Any, verb: str):
        self._desk = desk
        self._verb = verb

    def __getattr__(self, name: str) -> Any:
        if name == self._verb:
            raise Killed
        return getattr(self._desk, name)


def interrupted(route: Route, verb: str) -> None:
    old, new = (Dying(bench.stores.desk(), verb) for bench in (route.old, route.new))
    with pytest.raises(Killed):
        moving.move(old, new, "job", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["lay_to_rest", "parcel", "take_in", "close_moved", "open_arrived"])
def test_wherever_it_is_interrupted_one_store_counts_and_the_same_call_finishes_it(route: Route, verb: str) -> None:
    half_done(route.old)
    interrupted(route, verb)
    closed = verb == "open_arrived"
    assert route.standing()[0] is (Closed.MOVED if closed else Closed.NO)
    assert route.standing()[1] in (None, Closed.ARRIVING)
    if route.standing()[1] is not None:
        with pytest.raises(UsageError, match=r"is being copied from .* say onward copy again"):
            route.new.begin(effects=((FILING, ()),))
    told = route.move()
    assert (told.instances, told.finished) == (((), ("",)) if closed else (("",), ()))
    assert moved_picture(route.new) == moved_picture(route.old)
    assert route.standing() == (Closed.MOVED, Closed.NO)
    again = route.move()
    assert (again.instances, again.finished, again.before) == ((), (), ("",))
    begun = route.new.begin(effects=((FILING, ()),))
    assert begun.run == 3
    for bench in (route.old, route.new):
        fits(bench)


def test_what_was_done_in_the_old_store_meanwhile_comes_along(route: Route) -> None:
    half_done(route.old)
    interrupted(route, "close_moved")
    other = route.new.start("x", job="other")
    route.new.store.end_run(other, 3, "stopped")
    run = route.old.begin(effects=((FILING, ()),)).run
    ended(route.old, run, "fresh")
    route.old.store.end_run(run, 3, "stopped")
    route.move()
    assert moved_picture(route.new) == moved_picture(route.old)
    for bench in (route.old, route.new):
        fits(bench)


def test_worked_on_while_it_was_being_copied(route: Route) -> None:
    half_done(route.old)
    desk = route.old.stores.desk()

    class Working(Dying):
        def close_moved(self, *given: Any) -> None:
            run = route.old.begin(effects=((FILING, ()),)).run
            route.old.store.end_run(run, 3, "stopped")
            self._desk.close_moved(*given)

    with pytest.raises(UsageError, match="was worked on in the old store while it was being copied"):
        moving.move(Working(desk, "none"), route.new.stores.desk(), "job", None)  # type: ignore[arg-type]
    assert route.standing() == (Closed.NO, Closed.ARRIVING)
    route.move()
    fits(route.new)


def test_two_calls_at_once(route: Route) -> None:
    """The other one takes it in anew before this one has closed the old store."""
    half_done(route.old)

    class Overtaken(Dying):
        def take_in(self, parcel: Any, token: str, place: str) -> Any:
            taken = self._desk.take_in(parcel, token, place)
            interrupted(route, "close_moved")
            return taken

    with pytest.raises(UsageError, match="another copy was begun meanwhile"):
        moving.move(route.old.stores.desk(), Overtaken(route.new.stores.desk(), "none"), "job", None)  # type: ignore[arg-type]
    assert route.standing() == (Closed.MOVED, Closed.ARRIVING)
    assert route.move().finished == ("",)
    assert moved_picture(route.new) == moved_picture(route.old)
    fits(route.new)


def test_a_job_that_has_gone_elsewhere_is_not_opened_here_as_well(route: Route, tmp_path: Path) -> None:
    """A copy here dies half way, the job goes to a third store, and the first command is said again."""
    half_done(route.old)
    interrupted(route, "close_moved")
    third = Bench(SqliteStores(tmp_path / "third.db"))
    Route(route.old, third).move()
    with pytest.raises(UsageError, match=r"it was moved from .* to .*third.db; work on it there"):
        route.move()
    assert route.standing() == (Closed.MOVED, Closed.ARRIVING)
    with pytest.raises(UsageError, match=r"is being copied from .*third.db, and is not whole yet"):
        route.new.begin(effects=((FILING, ()),))
    Route(third, route.new).move()
    assert moved_picture(route.new) == moved_picture(third)
    assert route.standing() == (Closed.MOVED, Closed.NO)
    third.stores.close()


def test_copies_of_two_stores_do_not_mix(route: Route, tmp_path: Path) -> None:
    """Another job of the same name in another store; the first one's move is not finished."""
    half_done(route.old)
    interrupted(route, "close_moved")
    third = Bench(SqliteStores(tmp_path / "third.db"))
    run = third.start("k")
    third.store.end_run(run, 3, "stopped")
    with pytest.raises(UsageError, match=r"job job is being copied from .* to this store: finish that first"):
        Route(third, route.new).move()
    third.stores.close()
    route.move()
    assert moved_picture(route.new) == moved_picture(route.old)


def test_instances_go_one_by_one(route: Route) -> None:
    half_done(route.old)
    second = route.old.start("a", "b", instance="late", effects=((FILING, ()),))
    one, _ = claim(route.old, second)
    met(route.old, second, intent(one, key="late-a", payload='{"n":9}', digest="h9"))
    route.old.state(second, done_as(one, "late-a"))
    route.old.store.end_run(second, 3, "stopped")
    assert route.move(instance="").sharing == ("job (late)",)
    assert [one.closed for one in route.old.stores.desk().movable("job")] == [Closed.MOVED, Closed.NO]
    run = route.old.begin(instance="late", effects=((FILING, ()),)).run
    route.old.store.end_run(run, 3, "stopped")
    moved = route.move()
    assert (moved.before, moved.instances) == (("",), ("late",))
    assert moved_picture(route.new, name="late") == moved_picture(route.old, name="late")
    fits(route.new)


def test_the_clock_of_the_new_store_may_be_another(route: Route) -> None:
    """Whether what was sent can still land is told from the time that has passed, not from what clocks say."""
    half_done(route.old)
    route.new.clock.pass_time(300)
    later = 300.0
    route.move()
    run = route.new.begin(effects=((FILING, ()),)).run
    (asked,) = claim(route.new, run, only=(route.new.row("owes")["id"],))
    before = route.old.stores.query("SELECT intended_at FROM effects WHERE key = 'job-owes'")[0]["intended_at"]
    after = route.new.stores.query("SELECT intended_at FROM effects WHERE key = 'job-owes'")[0]["intended_at"]
    assert after - before == pytest.approx(later, abs=1.0)
    assert asked.entries[FILING].intended_at == pytest.approx(after, abs=1.0)


def test_what_another_record_has_taken_over_goes_along(route: Route) -> None:
    """One of the instance's own: the other still waits for what comes of it, and hears of it there."""
    run = route.old.start("one", "two", effects=((FILING, ()),))
    one, two = claim(route.old, run)
    met(route.old, run, intent(one, key="same", payload='{"n":1}', digest="h1"))
    left = unconfirmed(one, hold="person")
    left.effect = about(UNKNOWN, "same", ask_at=0.0, asks=1)
    route.old.state(run, left)
    (told,) = met(route.old, run, intent(two, key="same", payload='{"n":1}', digest="h1"))
    assert told.meeting == "adopt"
    route.old.state(run, unconfirmed_as(two, "same"))
    route.old.store.end_run(run, 3, "stopped")
    route.move()
    assert moved_picture(route.new) == moved_picture(route.old)
    assert route.new.row("one")["hold"] == "elsewhere"
    run = route.new.begin(effects=((FILING, ()),)).run
    (asked,) = claim(route.new, run)
    assert asked.key == '"two"'
    route.new.state(run, done_as(asked, "same"))
    assert route.new.row("one")["hold"] is None
    (heard,) = claim(route.new, run)
    assert heard.key == '"one"'
    fits(route.new)


def test_an_unread_rest_of_the_source_is_read_there(route: Route) -> None:
    run = route.old.begin().run
    route.old.store.take_feed(run)
    route.old.feed(run, records("a", "b"), cursor="two", complete=False)
    route.old.store.end_run(run, 3, "stopped")
    route.move()
    begun = route.new.begin()
    state = route.new.store.take_feed(begun.run)
    assert state is not None and (state.cursor, state.complete) == ("two", False)
    outcome = route.new.feed(begun.run, [at(2, "c"), at(1, "b")], cursor="end", after="two", complete=True)
    assert (outcome.added, outcome.unchanged) == (1, 1)
    fits(route.new)


def test_sent_is_not_sent_again(route: Route) -> None:
    run = route.old.start("k", effects=((FILING, ()),))
    (one,) = claim(route.old, run)
    met(route.old, run, intent(one, key="s", payload='{"n":1}', digest="h1"))
    stated = unconfirmed(one)
    stated.effect = about(SENT, "s", receipt='"r"', ask_at=0.0, asks=1)
    route.old.state(run, stated)
    route.old.store.end_run(run, 3, "stopped")
    route.move()
    begun = route.new.begin(effects=((FILING, ()),))
    (again,) = claim(route.new, begun.run)
    assert (again.entries[FILING].state, again.entries[FILING].receipt) == (SENT, '"r"')
