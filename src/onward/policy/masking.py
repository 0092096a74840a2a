"""Credentials out of texts that others wrote: providers quote a wrong key, clients the whole address of a request."""

from __future__ import annotations

import os
import re
from functools import cache

MASK = "***"
SHORTEST = 8
_NAMES = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_IN_TEXT = (
    re.compile(r"(://)[^\s/@:]*:[^\s/@]+(?=@)"),
    re.compile(
        r"([?&](?:api[-_]?key|access[-_]?token|auth|key|token|password|secret|sig|signature)=)"
        r"(?!ow\d+-)[^&\s'\"]+",
        re.IGNORECASE,
    ),
    re.compile(r"(\b(?:Bearer|Basic) +)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(\b)sk-[A-Za-z0-9_-]{12,}"),
)
"""What each keeps of what it finds is its first group."""


def masked(text: str) -> str:
    """The text without what is known, or looks, to be a credential: values of environment variables whose names say so,
    credentials in addresses and headers, keys of the usual form. onward's own idempotency keys stay."""
    for secret in _secrets():
        text = text.replace(secret, MASK)
    for pattern in _IN_TEXT:
        text = pattern.sub(_kept, text)
    return text


def _kept(found: re.Match[str]) -> str:
    """A function and no template: Python would import a module for that, which it cannot while it shuts down."""
    return found[1] + MASK


@cache
def _secrets() -> tuple[str, ...]:
    """The longest first, so that none is cut by another."""
    found = {value for name, value in os.environ.items() if _NAMES.search(name) and len(value) >= SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))
