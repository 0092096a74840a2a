"""Texts that stores like to spoil: NUL, lone surrogates, huge numbers, names that only look alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from store_conformance import (
    Bench,
    advanced,
    failed,
    failure,
    finished,
    given_back,
    quarantined,
)

from onward.codec import canonical_key, dumps, loads
from onward.model import Kind, SourceRecord

NASTY = [
    "\x00",
    "a\x00b",
    "\ud800",
    "x\udfff\ud800y",
    "\udcff file name",
    "😀",
    "\u2028\u2029\x85",
    "\u00e9",
    "e\u0301",
    "\\u0000",
    '"',
    "'; DROP TABLE records; --",
    "\ufeff",
    "\x7f\x1b[31m",
    "a" * 100_000,
]


def short(text: str) -> str:
    return ascii(text)[:20]


@pytest.mark.parametrize("text", NASTY, ids=short)
def test_keys_come_back_as_they_went_in(bench: Bench, text: str) -> None:
    run = bench.start(text, [text, 7])
    one, two = bench.claim(run)
    assert (loads(one.key), loads(two.key)) == (text, [text, 7])
    assert bench.pass_over(run, text, [text, 7], again=True).unchanged == 2


def test_keys_that_look_alike_stay_apart(bench: Bench) -> None:
    keys = [*NASTY, "\u00c9", "E\u0301", "e", "E", "a", "A", "a ", " a", "ａ", "ß", "ss", "K", "\u212a"]
    run = bench.start(*keys)
    assert [loads(one.key) for one in bench.claim(run)] == keys


@pytest.mark.parametrize("text", NASTY, ids=short)
def test_values_and_outputs_come_back_as_they_went_in(bench: Bench, text: str) -> None:
    value = {text: [text, {"deep": text}], "n": 1}
    run = bench.start(("k", dumps(value)))
    (one,) = bench.claim(run)
    assert one.value == dumps(value)
    assert loads(one.value) == value
    bench.state(run, advanced(one, output=dumps(value)))
    bench.state(run, given_back(one, step="b"))
    (again,) = bench.claim(run)
    assert again.checkpoints["a"].output == dumps(value)
    assert loads(again.checkpoints["a"].output) == value


NUMBERS = [0, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 + 1, -(2**63) - 1, 10**400, -(10**400)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{'-' if n < 0 else ''}{len(str(abs(n)))} digits")
def test_whole_numbers_keep_every_digit(bench: Bench, number: int) -> None:
    run = bench.start((number, dumps([number])), (str(number), dumps(number)))
    one, two = bench.claim(run)
    assert (loads(one.key), loads(two.key)) == (number, str(number))
    assert (loads(one.value), loads(two.value)) == ([number], number)
    bench.state(run, advanced(one, output=dumps(number)))
    bench.state(run, given_back(one, step="b"))
    (again,) = bench.claim(run)
    assert loads(again.checkpoints["a"].output) == number


@pytest.mark.parametrize("text", ["1.0", "1e2", "-0.0", "0.1", "1e-400", "1.7976931348623157e308"])
def test_numbers_keep_their_spelling(bench: Bench, text: str) -> None:
    run = bench.start(("k", text))
    (one,) = bench.claim(run)
    assert one.value == text


def test_double_names_and_their_order_are_kept(bench: Bench) -> None:
    text = '{"b":1,"a":2,"b":3}'
    run = bench.start(("k", text))
    assert bench.claim(run)[0].value == text


@pytest.mark.parametrize("text", NASTY, ids=short)
def test_messages_and_reasons_may_hold_anything(bench: Bench, text: str) -> None:
    run = bench.start("bad", "worse", "back", "done")
    bad, worse, back, done = bench.claim(run)
    told = replace(failure(Kind.BUG, message=text), error_type="Odd\x00Error")
    bench.state(
        run,
        failed(bad, failure=told, reason=text),
        quarantined(worse, failure=told, reason=text),
        given_back(back, reason=text),
        finished(done, event="record_done", reason=text),
    )
    assert bench.states() == {"failed": 1, "quarantined": 1, "pending": 1, "succeeded": 1}
    expected = text.encode("utf-8", "backslashreplace").decode()
    assert loads(bench.row("bad")["failure"]["message"]) == expected
    assert bench.row("back")["history"][-1][2] == expected
    assert bench.row("done")["history"][-1][2] == expected


@pytest.mark.parametrize("text", NASTY, ids=short)
def test_a_misfit_is_told_in_any_words(bench: Bench, text: str) -> None:
    run = bench.begin().run
    bench.store.take_feed(run)
    bench.store.begin_pass(run, False, "")
    outcome = bench.feed(run, [SourceRecord(canonical_key(text), dumps(text), 0, f"{text} is wrong")], complete=True)
    assert outcome.misfits == 1
    expected = f"{text} is wrong".encode("utf-8", "backslashreplace").decode()
    assert loads(bench.row(text)["failure"]["message"]) == expected


@pytest.mark.parametrize("text", NASTY, ids=short)
def test_runs_may_be_about_anything(bench: Bench, text: str) -> None:
    begun = bench.begin(job=text, instance=text, location=text, host=text, params=dumps({"p": text}))
    assert bench.begin(job=text, instance=text, location=text).instance == begun.instance
    bench.store.take_feed(begun.run)
    bench.store.begin_pass(begun.run, True, text)
    bench.store.note_stop(begun.run, text)
    bench.store.end_run(begun.run, 4, text)
    expected = text.encode("utf-8", "backslashreplace").decode()
    assert bench.stores.run_row(begun.run)["reason"] == expected
    assert bench.stores.run_row(begun.run)["told"] == expected


def test_a_message_of_megabytes_is_kept(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, failed(one, failure=failure(Kind.BUG, message="x" * (5 << 20))))
    assert len(loads(bench.row("k")["failure"]["message"])) == 5 << 20


def test_one_nasty_record_does_not_take_the_others_of_its_batch_with_it(bench: Bench) -> None:
    run = bench.start("good", "odd")
    good, odd = bench.claim(run)
    told = failure(Kind.BUG, message="\ud800\x00")
    assert bench.state(run, finished(good), failed(odd, failure=told, reason="\ud800")) == set()
    assert bench.states() == {"succeeded": 1, "failed": 1}


def test_feeding_does_not_normalise_keys(bench: Bench) -> None:
    run = bench.start("\u00e9")
    assert bench.pass_over(run, "e\u0301", again=True).added == 1
