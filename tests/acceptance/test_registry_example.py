"""The registry of examples/filings does what its switches say, and its log tells it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from torture.registry import Registry, running

FILING = {"entity": "LEI1", "jurisdiction": "US-CA", "filing_type": "annual-report", "filing_year": 2025, "fee": 50}


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with running(tmp_path / "registry.db") as registry:
        yield registry


def submit(registry: Registry, key: str = "k1", **changed: Any) -> httpx.Response:
    return httpx.post(
        f"{registry.url}/filings", json={**FILING, **changed}, headers={"Idempotency-Key": key}, timeout=5
    )


def look_up(registry: Registry, key: str = "k1") -> httpx.Response:
    return httpx.get(f"{registry.url}/filings", params={"key": key}, timeout=5)


def applied(registry: Registry) -> list[tuple[int, int]]:
    """(applied, requests to submit) of each obligation."""
    return [(one.applied, one.requests) for one in registry.verdicts()]


def test_it_files_finds_acknowledges_and_answers_a_known_key_alike(registry: Registry) -> None:
    first = submit(registry)
    assert (first.status_code, first.json()) == (201, {"number": "US-CA-00000001", "fee": 50})
    assert (submit(registry).status_code, look_up(registry).json()) == (200, first.json())
    assert httpx.get(f"{registry.url}/acknowledgements/US-CA-00000001").json() == first.json()
    assert look_up(registry, "other").status_code == 404
    assert submit(registry, fee=60).status_code == 422
    assert applied(registry) == [(1, 3)]


def test_what_is_malformed_is_refused(registry: Registry) -> None:
    assert submit(registry, "").status_code == 400
    assert submit(registry, fee="much").status_code == 422
    assert httpx.put(f"{registry.url}/switches", json={"no_such": 1}).status_code == 422


@pytest.mark.parametrize("switch", ["reset_after_apply", "truncated_reply"])
def test_lost_answers(registry: Registry, switch: str) -> None:
    registry.switch(**{switch: [1.0, 1]})
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        submit(registry)
    assert look_up(registry).status_code == 200
    assert (submit(registry).status_code, applied(registry)) == (200, [(1, 2)])


def test_reset_before_apply(registry: Registry) -> None:
    registry.switch(reset_before_apply=1.0)
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        submit(registry)
    assert (look_up(registry).status_code, applied(registry)) == (404, [(0, 1)])


def test_500_after_apply_and_409_on_a_second_send(registry: Registry) -> None:
    registry.switch(error_after_apply=[1.0, 1], conflict_on_resend=1.0)
    assert [submit(registry).status_code for _ in range(2)] == [500, 409]
    assert applied(registry) == [(1, 2)]


def test_it_lands_late(registry: Registry) -> None:
    registry.switch(late_landing=[1.0, 1], landing_after=2)
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        submit(registry)
    assert (look_up(registry).status_code, applied(registry)) == (404, [(0, 1)])
    time.sleep(2.6)
    assert (look_up(registry).status_code, applied(registry)) == (200, [(1, 1)])
    assert 1.9 < registry.verdicts()[0].latest < 20


def test_throttling_in_seconds_and_as_a_date(registry: Registry) -> None:
    registry.switch(throttle=1.0, retry_after=7)
    refused = submit(registry)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
    registry.also(retry_after_form="date")
    date = parsedate_to_datetime(submit(registry).headers["retry-after"]).timestamp()
    assert 0 < date - time.time() < 9
    assert applied(registry) == [(0, 2)]


def test_lookups_lag_and_fail(registry: Registry) -> None:
    registry.switch(lookup_lag=2)
    submit(registry)
    assert look_up(registry).status_code == 404
    time.sleep(2.1)
    assert look_up(registry).status_code == 200
    registry.also(lookup_error=[1.0, 1])
    assert [look_up(registry).status_code for _ in range(2)] == [500, 200]


def test_acknowledgements_come_late_or_name_another_fee(registry: Registry) -> None:
    registry.switch(acknowledged_after=2, wrong_fee=1.0)
    where = f"{registry.url}/acknowledgements/{submit(registry).json()['number']}"
    assert httpx.get(where).status_code == 404
    time.sleep(2.1)
    assert httpx.get(where).json()["fee"] == 40


def test_outage_and_closed_hours(registry: Registry) -> None:
    registry.switch(outage=2)
    assert [submit(registry).status_code, look_up(registry).status_code] == [503, 503]
    time.sleep(2.1)
    registry.also(closed={"US-CA": 30, "US-DE": "00:00-00:00"})
    closed = submit(registry)
    assert closed.status_code == 503
    assert 1 <= int(closed.headers["retry-after"]) <= 30
    assert submit(registry, "k2", jurisdiction="US-DE").status_code == 201


def test_an_outage_of_one_jurisdiction(registry: Registry) -> None:
    submit(registry)
    registry.switch(outage={"US-CA": 30})
    assert [submit(registry).status_code, look_up(registry).status_code] == [503, 503]
    assert httpx.get(f"{registry.url}/acknowledgements/US-CA-00000001").status_code == 503
    unknown = {"key": "k9", "jurisdiction": "US-CA"}
    assert httpx.get(f"{registry.url}/filings", params=unknown).status_code == 503
    assert submit(registry, "k2", jurisdiction="US-DE").status_code == 201
    assert look_up(registry, "k2").status_code == 200


def test_a_short_memory_files_twice_and_the_log_says_so(registry: Registry) -> None:
    registry.switch(dedupe_window=0.3)
    assert submit(registry).status_code == 201
    time.sleep(0.4)
    assert submit(registry).status_code == 201
    assert applied(registry) == [(2, 2)]


def test_its_memory_outlives_its_process(tmp_path: Path) -> None:
    for status in (201, 200):
        with running(tmp_path / "registry.db") as registry:
            assert submit(registry).status_code == status
            assert applied(registry) == [(1, 1 if status == 201 else 2)]
