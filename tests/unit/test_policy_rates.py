"""What is read from a provider's headers, and that garbage is as good as nothing."""

from __future__ import annotations

import email.utils
import math
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.policy.pace import LONGEST_WAIT
from onward.policy.rates import Allowance, Rates, rates, retry_after

NOW = 1_700_000_000.0


@pytest.mark.parametrize("of", ["requests", "tokens"])
def test_both_limits_are_read_and_the_case_of_names_does_not_matter(of: str) -> None:
    headers = httpx.Headers(
        {
            f"X-RateLimit-Limit-{of.title()}": "3000",
            f"x-ratelimit-remaining-{of}": "2990",
            f"x-ratelimit-reset-{of}": "200ms",
        }
    )
    told = rates(headers, NOW)
    assert getattr(told, of) == Allowance(3000, 2990, 0.2)
    assert getattr(told, of).per_minute == 3000
    assert getattr(told, "tokens" if of == "requests" else "requests") == Allowance()
    assert told.retry_after is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3_723.5),
        ("59m59.5s", 3599.5),
        ("2m3.5s", 123.5),
        ("120ms", 0.12),
        ("1m30.951s", 90.951),
        ("1s20ms", 1.02),
        ("350µs", 0.00035),
        ("0s", 0.0),
        ("2d", 172_800.0),
        ("9999h", 7 * 86_400.0),
        ("12", 12.0),
        ("7.66", 7.66),
        (" 3s ", 3.0),
        ("1700000000", None),  # a moment, not a duration
        ("", None),
        ("s", None),
        ("1x", None),
        ("-1s", None),
        ("1.2.3s", None),
        ("1 s", None),
        ("nan", None),
        ("２s", None),
    ],
)
def test_how_long_until_a_reset(text: str, seconds: float | None) -> None:
    told = rates({"x-ratelimit-reset-tokens": text}, NOW).tokens.reset
    assert told == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "1e3", "1,000", "10, 10;w=60", "9" * 16, "1_0", "٣"])
def test_what_is_no_number_is_ignored(text: str) -> None:
    headers = {"x-ratelimit-limit-tokens": text, "x-ratelimit-remaining-tokens": text}
    assert rates(headers, NOW) == Rates()


def test_a_limit_of_none_at_all_is_no_limit_but_none_may_be_left() -> None:
    headers = {"x-ratelimit-limit-requests": "0", "x-ratelimit-remaining-requests": "0"}
    assert rates(headers, NOW).requests == Allowance(None, 0, None)


@pytest.mark.parametrize(
    ("allowance", "per_minute"),
    [
        (Allowance(10_000, 9_999, 8.64), None),  # a day's: each comes back after 8.64 s
        (Allowance(14_400, 14_370, 179.56), None),
        (Allowance(14_400, 7_200, 43_200.0), None),
        (Allowance(3_000, 2_999, 0.02), 3_000),
        (Allowance(3_000, 2_999, 60.0), 3_000),
        (Allowance(3_000, 3_000, 0.0), 3_000),
        (Allowance(3_000, 3_000, 5.0), 3_000),
        (Allowance(3_000, 3_001, 5.0), 3_000),
        (Allowance(3_000, 0, 60.0), 3_000),
        (Allowance(3_000, None, None), 3_000),
        (Allowance(None, 3, 1.0), None),
    ],
)
def test_a_days_limit_is_not_taken_for_a_minutes(allowance: Allowance, per_minute: int | None) -> None:
    assert allowance.per_minute == per_minute


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e9"}, LONGEST_WAIT),
        ({"retry-after": "inf"}, LONGEST_WAIT),
        ({"retry-after": email.utils.formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"retry-after": email.utils.formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"retry-after": email.utils.formatdate(NOW + 90)}, 90.0),  # -0000: no zone is told
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 -0000"}, 0.0),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"}, LONGEST_WAIT),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Fri, 99 Foo 2023 00:00:00 GMT"}, None),
        ({}, None),
        (None, None),
        ("retry-after: 7", None),
    ],
)
def test_how_long_the_provider_wants_to_be_left_alone(headers: Any, seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
    assert rates(headers, NOW).retry_after == seconds


TEXTS = st.text(max_size=12) | st.text(st.sampled_from("0123456789.hmsduµn-e"), max_size=12)


@given(st.lists(TEXTS, min_size=8, max_size=8))
def test_nothing_that_a_server_sends_raises_or_makes_no_sense(texts: list[str]) -> None:
    names = [f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")]
    told = rates(dict(zip([*names, "retry-after", "retry-after-ms"], texts, strict=True)), NOW)
    for allowance in (told.requests, told.tokens):
        assert allowance.limit is None or allowance.limit > 0
        assert allowance.remaining is None or allowance.remaining >= 0
        assert allowance.per_minute in (None, allowance.limit)
    for seconds in (told.requests.reset, told.tokens.reset, told.retry_after):
        assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= 7 * 86_400)
