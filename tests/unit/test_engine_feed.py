"""The feed: passes, turns, bad lines and double keys, stopping, sources that are kept back or break."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onward.clock import SystemClock
from onward.codec import canonical_key
from onward.engine import feed as feed_module
from onward.engine.events import Events
from onward.engine.feed import Feed
from onward.engine.journal import Journal
from onward.errors import SourceError
from onward.model import BadLine, Fact, FeedBlock, SourceRecord, State
from onward.ports.source import Resume, Validate
from onward.ports.work import Batch, ClaimWish, Outcome, RunStart
from onward.store.sqlite.work import SqliteWorkStore


class ListSource:
    """Blocks of lines; a line is a key, a (key, value) pair, or None for a bad one. The cursor is what was read."""

    title = "list"
    location = "list"
    max_ahead: int | None = None

    def __init__(self, *lines: Any, block: int = 3):
        self.lines = list(lines)
        self.block = block
        self.read_from: list[int] = []
        self.on_block: Callable[[int], None] = lambda number: None

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        if cursor is None:
            return Resume("again")
        if not self._cursor(len(self.lines)).startswith(cursor):
            return Resume("again", why="it was edited")
        if complete and cursor == self._cursor(len(self.lines)):
            return Resume("done")
        return Resume("continue", cursor)

    def _cursor(self, end: int) -> str:
        return "".join(f"{line!r};" for line in self.lines[:end])

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        place = next(end for end in range(len(self.lines) + 1) if self._cursor(end) == (cursor or ""))
        self.read_from.append(place)
        while True:
            self.on_block(place)
            end = min(place + self.block, len(self.lines))
            records, bad = [], []
            for position in range(place, end):
                line = self.lines[position]
                if line is None:
                    bad.append(BadLine(self.where(position), "it is torn", position, "{"))
                else:
                    key, value = line if isinstance(line, tuple) else (line, "1")
                    records.append(SourceRecord(canonical_key(key), value, position))
            yield FeedBlock(records, bad, self._cursor(end), complete=end == len(self.lines))
            place = end
            if place == len(self.lines):
                return

    def where(self, position: int) -> str:
        return f"list:{position + 1}"


class Deaf:
    def committed(self, facts: list[Fact], outcome: Outcome) -> None: ...

    def broken(self, error: BaseException) -> None: ...


class Bench:
    """A store with a journal, and feeds that read into it one after the other."""

    def __init__(self) -> None:
        self.store = SqliteWorkStore(None, SystemClock())
        self.run = self.begin()
        self.journal = Journal(self.store, self.run, SystemClock(), Deaf(), 60.0)
        self.journal.start()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.changes = 0

    def begin(self) -> int:
        return self.store.begin_run(RunStart("job", "", "host", "{}", "list", (), 3)).run

    def make(self, source: ListSource, on_bad: Any = "stop", run: int | None = None) -> Feed:
        events = Events({}, [(lambda event, fields: self.events.append((event, dict(fields))), True)])
        return Feed(source, self.journal, run or self.run, None, on_bad, events, self._changed)

    def feed(self, source: ListSource, on_bad: Any = "stop") -> Feed:
        """One whole feed."""
        made = self.make(source, on_bad)
        made.start()
        made.join(20)
        assert made.is_over, made.state
        if made.error is not None and not isinstance(made.error, SourceError):
            raise made.error
        return made

    def _changed(self) -> None:
        self.changes += 1

    def ask(self, question: Callable[[], Any]) -> Any:
        return self.journal.ask(lambda store: question()).result(10)

    def counts(self) -> Any:
        return self.ask(lambda: self.store.counts(1))

    def keys(self) -> list[str]:
        """Keys of the records that the source has, in source order."""
        sql = "SELECT key FROM records WHERE vanished = 0 ORDER BY position"
        rows = self.ask(lambda: self.store._connection.execute(sql).fetchall())
        return [key.strip('"') for (key,) in rows]

    def quarantined(self) -> dict[str, str]:
        sql = "SELECT key, message FROM records JOIN failures ON record = records.id WHERE state = 'quarantined'"
        rows = self.ask(lambda: self.store._connection.execute(sql).fetchall())
        return {key.strip('"'): message.strip('"') for key, message in rows}

    def close(self) -> None:
        self.journal.close(10)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_a_source_is_read_to_its_end(bench: Bench) -> None:
    feed = bench.feed(ListSource(*"abcdefgh"))
    assert (feed.state, feed.report.added) == ("done", 8)
    assert bench.keys() == list("abcdefgh")
    assert bench.counts().source_complete
    assert bench.changes >= 1


def test_an_empty_source_is_done(bench: Bench) -> None:
    assert bench.feed(ListSource()).state == "done"
    assert bench.counts().source_complete


def test_what_was_read_is_not_read_again(bench: Bench) -> None:
    source = ListSource(*"abc")
    bench.feed(source)
    assert bench.feed(source).state == "done"
    assert source.read_from == [0]


def test_what_was_added_is_read_from_where_it_begins(bench: Bench) -> None:
    source = ListSource(*"abc")
    bench.feed(source)
    source.lines += ["d", "e"]
    feed = bench.feed(source)
    assert (feed.state, feed.report.added, source.read_from) == ("done", 2, [0, 3])


def test_an_edited_source_is_read_again_and_that_is_said(bench: Bench) -> None:
    source = ListSource(("a", "1"), "b", "c")
    bench.feed(source)
    source.lines = [("a", "2"), "c", "d"]
    feed = bench.feed(source)
    report = feed.report
    assert (feed.state, report.again) == ("done", "it was edited")
    assert (report.added, report.changed_unfinished, report.vanished) == (1, 1, 1)
    assert ("source_changed", {"reason": "it was edited"}) in bench.events
    assert bench.keys() == ["a", "c", "d"]


def test_the_cursor_is_never_ahead_of_the_records(bench: Bench) -> None:
    """Stopped after any number of blocks, the next feed brings the rest and nothing twice."""
    lines = [f"k{number}" for number in range(20)]
    for stop_at in range(0, 20, 3):
        source = ListSource(*lines)
        feed = bench.make(source)
        source.on_block = lambda place, feed=feed, at=stop_at: feed.stop() if place >= at else None  # type: ignore[misc]
        feed.start()
        feed.join(20)
        assert feed.state in ("stopped", "done")
    feed = bench.feed(ListSource(*lines))
    assert (feed.state, bench.keys()) == ("done", lines)


# Bad lines.


def test_reading_stops_at_a_bad_line_and_what_stands_before_it_is_kept(bench: Bench) -> None:
    feed = bench.feed(ListSource("a", "b", "c", "d", None, "f", "g"))
    assert feed.state == "stopped"
    assert feed.bad_line is not None
    assert (feed.bad_line.where, feed.bad_line.reason) == ("list:5", "it is torn")
    assert feed.report.bad == [("list:5", "it is torn")]
    assert bench.keys() == list("abcd")
    assert not bench.counts().source_complete


def test_a_bad_line_that_was_mended_is_read_on_from(bench: Bench) -> None:
    source = ListSource("a", "b", "c", "d", None, "f")
    bench.feed(source)
    source.lines[4] = "e"
    feed = bench.feed(source)
    assert (feed.state, bench.keys(), source.read_from) == ("done", list("abcdef"), [0, 3])


def test_a_mended_line_may_have_taken_others_with_it(bench: Bench) -> None:
    source = ListSource("a", "b", "c", "d", None, "f")
    bench.feed(source)
    source.lines = ["a", "b", "c", "e", "f"]
    feed = bench.feed(source)
    assert (feed.state, bench.keys(), feed.report.vanished) == ("done", list("abcef"), 1)


def test_a_bad_first_line(bench: Bench) -> None:
    feed = bench.feed(ListSource(None, "b"))
    assert (feed.state, bench.keys()) == ("stopped", [])


def test_bad_lines_are_set_aside_where_that_is_wanted(bench: Bench) -> None:
    feed = bench.feed(ListSource("a", None, "c", None, "e"), on_bad="quarantine")
    assert (feed.state, feed.report.bad_count, feed.bad_line) == ("done", 2, None)
    assert bench.keys() == ["a", "list:2", "c", "list:4", "e"]
    assert bench.quarantined() == {"list:2": "it is torn", "list:4": "it is torn"}


def test_bad_lines_set_aside_are_set_aside_once(bench: Bench) -> None:
    source = ListSource("a", None, "c")
    bench.feed(source, on_bad="quarantine")
    source.lines = ["z", "a", None, "c"]
    bench.feed(source, on_bad="quarantine")
    assert bench.keys() == ["z", "a", "list:3", "c"]
    assert bench.counts().vanished == 1


def test_only_the_first_bad_lines_are_remembered_and_all_are_counted(bench: Bench) -> None:
    feed = bench.feed(ListSource(*[None] * 50), on_bad="quarantine")
    assert (len(feed.report.bad), feed.report.bad_count) == (20, 50)
    assert sum(event == "bad_line" for event, _ in bench.events) == 50


# Double keys.


@pytest.mark.parametrize("place", [2, 4, 7, 13, 19])
def test_a_double_key_stops_with_both_places(bench: Bench, place: int) -> None:
    lines = [f"k{number}" for number in range(20)]
    lines[place] = "k0"
    feed = bench.feed(ListSource(*lines, block=2))
    assert feed.state == "stopped"
    assert feed.bad_line is not None
    assert feed.bad_line.where == f"list:{place + 1}"
    assert "list:1" in feed.bad_line.reason
    assert bench.keys() == lines[:place]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 30])
def test_double_keys_are_set_aside_where_that_is_wanted(bench: Bench, block: int) -> None:
    lines = [f"k{number}" for number in range(20)]
    for place in (5, 6, 11, 19):
        lines[place] = "k0"
    feed = bench.feed(ListSource(*lines, block=block), on_bad="quarantine")
    assert feed.state == "done"
    assert set(bench.quarantined()) == {"list:6", "list:7", "list:12", "list:20"}
    assert bench.keys() == [f"list:{place + 1}" if place in (5, 6, 11, 19) else lines[place] for place in range(20)]
    assert feed.report.bad_count == 4


def test_double_keys_and_bad_lines_together(bench: Bench) -> None:
    feed = bench.feed(ListSource("a", None, "a", "b", "b", None, "c", block=2), on_bad="quarantine")
    assert (feed.state, feed.report.bad_count) == ("done", 4)
    assert set(bench.quarantined()) == {"list:2", "list:3", "list:5", "list:6"}


def test_a_double_key_before_a_bad_line_of_the_same_block_is_the_first(bench: Bench) -> None:
    feed = bench.feed(ListSource("a", "b", "a", None, "c", block=10))
    assert feed.bad_line is not None
    assert feed.bad_line.where == "list:3"
    assert bench.keys() == ["a", "b"]


def test_a_double_key_after_a_bad_line_is_not_reached(bench: Bench) -> None:
    feed = bench.feed(ListSource("a", None, "a", block=10))
    assert feed.bad_line is not None
    assert feed.bad_line.where == "list:2"


@pytest.mark.parametrize("lines", [("list:3", "a", "a", "b"), ("list:3", "a", None, "b"), ("a", None, "list:2", "b")])
def test_a_place_that_is_another_records_key_is_told_and_left_out(bench: Bench, lines: tuple[Any, ...]) -> None:
    feed = bench.feed(ListSource(*lines, block=2), on_bad="quarantine")
    assert feed.state == "done"
    assert feed.report.bad
    assert {"a", "b"} <= set(bench.keys())


# Turns.


def test_a_second_run_waits_while_the_first_feeds_and_goes_on_where_it_died(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "ASK_AGAIN", 0.01)
    hold, lines = threading.Event(), [f"k{number}" for number in range(12)]
    first_source = ListSource(*lines)
    first_source.on_block = lambda place: hold.wait(10) if place == 6 else None  # type: ignore[assignment,return-value]
    first = bench.make(first_source)
    first.start()
    _until(lambda: bench.counts().total == 6)
    other = bench.ask(bench.begin)
    second_source = ListSource(*lines)
    second = bench.make(second_source, run=other)
    second.start()
    _until(lambda: second.state == "waiting")
    assert second_source.read_from == []
    bench.journal.run = other  # one journal serves both here
    bench.ask(lambda: bench.store.end_run(bench.run, 3, "it died"))
    second.join(10)
    hold.set()
    first.join(10)
    assert second_source.read_from == [6]
    assert bench.keys() == lines


def test_a_run_that_waited_while_all_was_fed_reads_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "ASK_AGAIN", 0.01)
    bench.feed(ListSource(*"abc"))
    other = bench.ask(bench.begin)
    source = ListSource(*"abc")
    second = bench.make(source, run=other)
    second.start()
    _until(lambda: second.state == "waiting")
    assert second.brings_nothing(source_complete=True)
    bench.ask(lambda: bench.store.end_run(bench.run, 0, "done"))
    second.join(10)
    assert (second.state, source.read_from) == ("stopped", [])


def test_a_feed_that_waits_can_be_stopped(bench: Bench) -> None:
    bench.ask(lambda: bench.store.take_feed(bench.run))
    second = bench.make(ListSource(*"abc"), run=bench.ask(bench.begin))
    second.start()
    _until(lambda: second.state == "waiting")
    second.stop()
    second.join(10)
    assert second.state == "stopped"


def _until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


# Sources that break, and those that are kept back.


def test_a_source_that_cannot_be_read_breaks_the_feed_and_keeps_what_came(bench: Bench) -> None:
    source = ListSource(*"abcdefgh", block=2)

    def breaks(place: int) -> None:
        if place == 6:
            raise SourceError("the disk is gone")

    source.on_block = breaks
    feed = bench.feed(source)
    assert (feed.state, str(feed.error)) == ("broken", "the disk is gone")
    assert not bench.counts().source_complete
    source.on_block = lambda place: None
    assert bench.feed(source).state == "done"
    assert bench.keys() == list("abcdefgh")


@pytest.mark.parametrize("last", ["g", None], ids=["to the end", "to a bad line"])
def test_a_block_out_of_turn_is_never_passed_over(bench: Bench, last: str | None) -> None:
    source = ListSource(*"abcdef", last, block=2)

    def moves(place: int) -> None:
        if place == 6:
            _until(lambda: bench.counts().total == 6)
            bench.ask(lambda: bench.store._connection.execute("UPDATE instances SET cursor = 'elsewhere'"))

    source.on_block = moves
    feed = bench.make(source)
    feed.start()
    feed.join(10)
    assert (feed.state, type(feed.error)) == ("broken", RuntimeError)
    assert "the store's cursor is not where this run left it" in str(feed.error)


def test_a_source_with_a_bound_is_read_no_further_ahead(bench: Bench) -> None:
    source = ListSource(*range(30), block=2)
    source.max_ahead = 5
    most = 0
    feed = bench.make(source)
    feed.start()
    for _ in range(100):
        counts = bench.counts()
        most = max(most, counts.of(State.PENDING) + counts.of(State.IN_PROGRESS))
        claimed = bench.ask(lambda: bench.store.write(bench.run, Batch(wishes=[ClaimWish(2, 1 << 20)]))).claimed[0]
        facts = [Fact(one.id, one.fence, 0, State.SUCCEEDED, lineage=()) for one in claimed]
        bench.ask(lambda facts=facts: bench.store.write(bench.run, Batch(facts=facts)))
        if feed.is_over:
            break
        time.sleep(0.01)
    feed.join(10)
    assert feed.state == "done"
    assert most <= 5 + 2


def test_a_feed_ends_when_its_journal_breaks(bench: Bench) -> None:
    source = ListSource(*range(30), block=1)

    def breaks(place: int) -> None:
        if place == 10:
            with pytest.raises(ZeroDivisionError):
                bench.journal.ask(lambda store: 1 // 0).result(10)

    source.on_block = breaks
    feed = bench.make(source)
    feed.start()
    feed.join(10)
    assert (feed.state, type(feed.error)) == ("broken", ZeroDivisionError)


def test_a_feed_ends_when_its_run_has_ended() -> None:
    bench = Bench()
    hold = threading.Event()
    source = ListSource(*range(30), block=1)
    source.on_block = lambda place: hold.wait(10) if place == 10 else None  # type: ignore[assignment,return-value]
    feed = bench.make(source)
    feed.start()
    _until(lambda: bench.counts().total >= 9)
    bench.close()
    hold.set()
    feed.join(5)
    assert feed.is_over


def test_it_reads_in_a_thread_of_its_own() -> None:
    async def go() -> None:
        bench, turns = Bench(), 0
        source = ListSource(*range(10), block=1)
        source.on_block = lambda place: time.sleep(0.01)
        feed = bench.make(source)
        feed.start()
        while not feed.is_over:
            turns += 1
            await asyncio.sleep(0.001)
        assert turns > 20
        bench.close()

    asyncio.run(go())
