"""Chains of hashes: a golden vector, and that every kind of edit that is not followed by a recomputation is found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.model import Misfit
from onward.policy.chain import BEGIN, EMPTY, Chain, Checker, Link, Tip, link_hash

Row = tuple[Link, str]
Heads = dict[Chain, tuple[Tip, bool]]


class Book:
    """Chains as they are written, side by side."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.heads: Heads = {}

    def write(self, run: int | None, event: str = "record_failed", detail: str | None = None, **more: Any) -> str:
        tip, _ = self.heads.get((1, run), (EMPTY, False))
        given: dict[str, Any] = {"record": 7, "key": "k", "at": 1.5, "actor": None, "step": "a", "reason": "why"} | more
        link = Link(instance=1, run=run, seq=tip.seq + 1, event=event, detail=detail, **given)
        said = link_hash(tip.hash, link)
        self.rows.append((link, said))
        self.heads[1, run] = Tip(link.seq, said), False
        return said

    def end(self, run: int) -> str:
        said = self.write(run, "run_finished")
        self.heads[1, run] = self.heads[1, run][0], True
        return said

    def check(self, expected: str | None = None, rows: list[Row] | None = None) -> Misfit | None:
        over = frozenset(chain for chain, (_, ended) in self.heads.items() if ended)
        checker = Checker(dict(self.heads), expected, over)
        for link, said in self.rows if rows is None else rows:
            misfit = checker.entry(link, link, said)
            if misfit is not None:
                return misfit
        return checker.ended()


@pytest.fixture
def book() -> Book:
    book = Book()
    for run in (3, 4, None, 3, 3, 4, None, 4, 3):
        book.write(run, at=float(len(book.rows)))
    book.end(3)
    return book


def test_the_encoding_never_changes() -> None:
    link = Link(1, 3, 2, 17, "7", 1700000000.25, "ada", "record_failed", "file", 'the "fee" (é)', '{"kind":"bug"}')
    said = (
        '[1,"ab",1,3,2,17,"7",1700000000.25,"ada","record_failed","file","the \\"fee\\" (é)","{\\"kind\\":\\"bug\\"}"]'
    )
    assert link_hash("ab", link) == hashlib.blake2b(said.encode(), digest_size=32).hexdigest()
    assert link_hash("ab", link) == GOLDEN


GOLDEN = "83cbbbe85e14ed1e7e563d5941cafd22921a1fe5d2660e5aa2324e820291740f"


def test_what_was_written_fits(book: Book) -> None:
    assert book.check() is None


CHANGES: dict[str, Callable[[Link], Link]] = {
    "instance": lambda link: link._replace(instance=2),
    "run": lambda link: link._replace(run=4),
    "seq": lambda link: link._replace(seq=link.seq + 1),
    "record": lambda link: link._replace(record=8),
    "no record": lambda link: link._replace(record=None),
    "key": lambda link: link._replace(key="other"),
    "no key": lambda link: link._replace(key=None),
    "at": lambda link: link._replace(at=link.at + 0.001),
    "actor": lambda link: link._replace(actor="eve"),
    "event": lambda link: link._replace(event="record_done"),
    "step": lambda link: link._replace(step=None),
    "reason": lambda link: link._replace(reason="why "),
    "detail": lambda link: link._replace(detail="{}"),
    "texts that move": lambda link: link._replace(step="aw", reason="hy"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_edited_entry_is_named(book: Book, name: str) -> None:
    link, said = book.rows[3]
    assert link.chain == (1, 3)
    edited = CHANGES[name](link)
    misfit = book.check(rows=[*book.rows[:3], (edited, said), *book.rows[4:]])
    assert misfit is not None
    assert (misfit.run, misfit.seq) == (edited.run, edited.seq)


def test_a_hash_that_was_edited_is_named(book: Book) -> None:
    misfit = book.check(rows=[*book.rows[:3], (book.rows[3][0], "0" * 64), *book.rows[4:]])
    assert misfit is not None
    assert (misfit.run, misfit.seq) == (3, 2)


@pytest.mark.parametrize("place", range(10))
def test_a_removed_entry_is_found(book: Book, place: int) -> None:
    run, seq = book.rows[place][0].run, book.rows[place][0].seq
    misfit = book.check(rows=book.rows[:place] + book.rows[place + 1 :])
    assert misfit is not None
    assert misfit.run == run
    assert misfit.seq in (seq, seq + 1)


@given(st.permutations(range(10)))
@settings(max_examples=200, deadline=None)
def test_exchanged_entries_are_found_unless_each_chain_keeps_its_order(order: list[int]) -> None:
    book = Book()
    for number in range(10):
        book.write((3, 4, None)[number % 3])
    rows = [book.rows[number] for number in order]
    in_order = all(
        [link.seq for link, _ in rows if link.run == run] == list(range(1, 1 + sum(x.run == run for x, _ in rows)))
        for run in (3, 4, None)
    )
    assert (book.check(rows=rows) is None) == in_order


def test_an_inserted_entry_is_named(book: Book) -> None:
    link, _ = book.rows[3]
    forged = link._replace(reason="forged")
    misfit = book.check(rows=[*book.rows[:4], (forged, link_hash(book.rows[0][1], forged)), *book.rows[4:]])
    assert misfit is not None
    assert (misfit.run, misfit.seq, misfit.event) == (3, 2, "record_failed")


def test_an_entry_added_at_the_end_is_named(book: Book) -> None:
    heads = dict(book.heads)
    book.write(3, reason="forged")
    book.heads = heads
    misfit = book.check()
    assert misfit is not None
    assert (misfit.run, misfit.seq) == (3, 6)


def test_a_chain_without_a_run_is_named(book: Book) -> None:
    book.write(9)
    del book.heads[1, 9]
    misfit = book.check()
    assert misfit is not None
    assert (misfit.run, misfit.seq, misfit.event) == (9, 1, "record_failed")


def test_a_chain_cut_at_its_end_is_found(book: Book) -> None:
    kept = [row for row in book.rows if row[0].run != 3 or row[0].seq < 4]
    misfit = book.check(rows=kept)
    assert misfit == Misfit(1, 3, 4, None, None, "it is missing: the chain had 5 entries")


def recomputed(book: Book, run: int | None, seq: int) -> Book:
    """The chain with one entry edited and everything behind it, and its head, computed anew."""
    forged = Book()
    for link, _ in book.rows:
        told = {"reason": "forged"} if (link.run, link.seq) == (run, seq) else {"reason": link.reason}
        forged.write(link.run, link.event, link.detail, at=link.at, **told)
        if link.event == "run_finished" and link.run is not None:
            forged.heads[1, link.run] = forged.heads[1, link.run][0], True
    return forged


def test_a_recomputed_chain_is_found_by_the_head_that_was_noted(book: Book) -> None:
    head = book.heads[1, 3][0].hash
    assert book.check(head) is None
    forged = recomputed(book, 3, 2)
    assert forged.check() is None
    misfit = forged.check(head)
    assert misfit is not None
    assert head in misfit.why


def test_a_chain_that_still_grows_may_have_more_than_the_head_that_was_noted(book: Book) -> None:
    head = book.heads[1, None][0].hash
    book.write(None)
    assert book.check(head) is None


def test_a_chain_of_a_run_that_ended_may_not(book: Book) -> None:
    head = book.heads[1, 3][0].hash
    book.write(3)
    book.heads[1, 3] = book.heads[1, 3][0], True
    misfit = book.check(head)
    assert misfit is not None
    assert (misfit.run, misfit.seq) == (3, 6)


def test_a_run_without_entries_is_found(book: Book) -> None:
    book.heads[1, 9] = EMPTY, False
    assert book.check() == Misfit(1, 9, 1, None, None, "it is missing: every run begins with an entry")


def test_people_may_have_decided_nothing(book: Book) -> None:
    book.heads[2, None] = EMPTY, False
    assert book.check() is None


def test_a_run_that_ended_says_so(book: Book) -> None:
    """Cut at its end, and its head put back to what stands there."""
    rows = [row for row in book.rows if row[0].event != "run_finished"]
    link, said = next(row for row in reversed(rows) if row[0].run == 3)
    book.heads[1, 3] = Tip(link.seq, said), True
    misfit = book.check(rows=rows)
    assert misfit is not None
    assert (misfit.run, misfit.seq) == (3, link.seq + 1)


def test_a_run_vouches_for_the_chains_before_it(book: Book) -> None:
    def followed(written: Book, head: str) -> Book:
        written.write(5, BEGIN, f'{{"after":[[3,5,"{head}"]]}}')
        return written

    assert followed(book, book.heads[1, 3][0].hash).check() is None
    head = book.heads[1, 3][0].hash
    forged = followed(recomputed(book, 3, 2), head)
    misfit = forged.check()
    assert misfit is not None
    assert (misfit.run, misfit.seq) == (5, 1)


@pytest.mark.parametrize("detail", [None, "{}", "[]", "no JSON", '{"after":7}', '{"after":[[1]]}'])
def test_whatever_a_first_entry_says_is_judged(detail: str | None) -> None:
    book = Book()
    book.write(1, BEGIN, detail)
    assert (book.check() is None) == (detail in (None, "{}"))


def test_no_more_than_tips_is_held() -> None:
    book = Book()
    for _ in range(100):
        book.write(3)
    checker = Checker(dict(book.heads))
    for link, said in book.rows:
        assert checker.entry(link, link, said) is None
    assert len(checker._tips) == 1
    assert checker.entries == 100
