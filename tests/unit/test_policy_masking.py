"""Credentials do not get into what is stored and shown of an error."""

from __future__ import annotations

import pytest

from onward.policy import masking
from onward.policy.failures import classify
from onward.policy.masking import masked


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Incorrect API key provided: sk-proj-abcdef_0123456789.", "Incorrect API key provided: ***."),
        ("500 for url 'https://u:p4ss@host/x'", "500 for url 'https://***@host/x'"),
        ("url 'https://host/x?key=AIzaSyA1&alt=json'", "url 'https://host/x?key=***&alt=json'"),
        ("https://host/x?a=1&access_token=abc", "https://host/x?a=1&access_token=***"),
        ("sent Bearer abcdefgh.ijkl", "sent Bearer ***"),
        ("/filings?key=ow1-0123456789&jurisdiction=US-CA", "/filings?key=ow1-0123456789&jurisdiction=US-CA"),
        ("no disk-space left at http://host:80/?keys=2", "no disk-space left at http://host:80/?keys=2"),
    ],
)
def test_what_looks_like_a_credential(text: str, left: str) -> None:
    assert masked(text) == left


def test_what_the_environment_calls_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_PORTAL_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("MONKEY", "bananas, many")
    masking._secrets.cache_clear()
    try:
        told = classify(ValueError("hunter2hunter2 is wrong; bananas, many"), 0.0)
    finally:
        monkeypatch.undo()
        masking._secrets.cache_clear()
    assert told.message == "*** is wrong; bananas, many"
