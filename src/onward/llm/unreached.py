"""What is said of a server that cannot be asked: where it was looked for, what happened, and what to check."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx2
import openai

from onward.errors import name_cause
from onward.policy.clients import Connection, connection

MOST_WRAPPED = 20
HIGHEST_PORT = 65535
EITHER = "base_url or OPENAI_BASE_URL"
NO_KEY = "none"
"""What is sent for a key where there is none: a server of one's own may want none."""


def without_connection(error: openai.APIConnectionError, url: httpx2.URL) -> openai.APIConnectionError | None:
    """An error that says of no connection to `url` why there is none, or of one that was lost what happened where the
    error takes it for one to be made; None for others. Whoever raises it raises it from the cause of the first one: by
    that, others tell whether anything was sent."""
    cause = error.__cause__
    if cause is None:
        return None
    if connection(error) is not Connection.UNKNOWN:
        told = f"no connection to {_address(url)}: {_what(cause)}; check {_where_from(url)}"
    elif isinstance(cause, httpx2.ConnectTimeout):
        told = f"the connection to {_address(url)} was lost: {_what(cause)}"
    else:
        return None
    found = openai.APIConnectionError(message=told, request=error.request)
    name_cause(found, told)
    return found


def what_is_wrong(url: str, key: str) -> str:
    """Why no request can be made with this address and key; nothing where one can. Neither is quoted."""
    if not (key.isascii() and key.isprintable()):
        return "OPENAI_API_KEY has a letter in it that no request can hold: a line end, or one that is not ASCII"
    if not _is_address(url):
        return f"{EITHER} is no address of a server, such as https://host:8000/v1"
    return ""


def without_key(error: openai.AuthenticationError, key: str) -> openai.AuthenticationError | None:
    """An error that says so where no key was sent."""
    if key != NO_KEY:
        return None
    told = f"OPENAI_API_KEY is not set, and the server wants a key: {error.message}"
    return openai.AuthenticationError(told, response=error.response, body=error.body)


def _address(url: httpx2.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _is_address(url: str) -> bool:
    try:
        found = httpx2.URL(url)
    except httpx2.InvalidURL:
        return False
    return found.scheme in ("http", "https") and bool(found.host) and (found.port or 0) <= HIGHEST_PORT


def _where_from(url: httpx2.URL) -> str:
    """What decided where to look."""
    named = os.environ.get("OPENAI_BASE_URL")
    if named and httpx2.URL(named.rstrip("/") + "/") == url:
        return "OPENAI_BASE_URL"
    return EITHER


def _what(cause: BaseException) -> str:
    """The system's own word for it; nothing that was to be sent is in it."""
    chain = list(_wrapped(cause))
    if any(isinstance(one, TimeoutError) for one in chain):
        return "no answer in time"
    for one in reversed(chain):
        if isinstance(one, OSError) and one.errno is not None:  # a resolver's numbers are no errors of the system's
            named = one.strerror if type(one).__name__ == "gaierror" else os.strerror(one.errno)
            return str(named).lower()
    return type(chain[-1]).__name__


def _wrapped(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(MOST_WRAPPED):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
