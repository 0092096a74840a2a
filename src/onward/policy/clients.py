"""Exceptions of the well-known HTTP clients: read by class name, so that none of them is imported."""

from __future__ import annotations

import errno
import re
from enum import Enum

CLIENTS = frozenset({"httpx", "httpcore", "requests", "urllib3", "urllib", "aiohttp", "openai"})
SUCCESSORS = {"httpx2": "httpx", "httpcore2": "httpcore"}
"""Packages whose exceptions are those of an older one."""
NEVER_MADE = frozenset(
    {
        "httpx.ConnectError",
        "httpx.ConnectTimeout",
        "httpx.PoolTimeout",
        "httpcore.ConnectError",
        "httpcore.ConnectTimeout",
        "httpcore.PoolTimeout",
        "aiohttp.client_exceptions.ClientConnectorError",
        "aiohttp.client_exceptions.ConnectionTimeoutError",
    }
)
MOST_WRAPPED = 20


class Connection(Enum):
    """What an exception says of the connection that a request wanted. Nothing was sent where it was refused or NONE was
    made: no name was found, no time was left, TLS was not agreed on. All doubt is UNKNOWN."""

    REFUSED = "refused"
    NONE = "none"
    UNKNOWN = "unknown"


def connection(error: BaseException | None) -> Connection:
    """The clients wrap the system's refusal, and one another's errors, in errors of their own. The innermost decides:
    one that wraps aiohttp's calls a reset of a connection that was in use a timeout of one to be made.

    What an error was raised from counts, never what was being handled when it came up: that may be another call's.
    """
    found = Connection.UNKNOWN
    for _ in range(MOST_WRAPPED):
        if isinstance(error, ConnectionRefusedError):
            return Connection.REFUSED
        if isinstance(error, BaseExceptionGroup):  # one for each address that was tried
            refused = all(connection(member) is Connection.REFUSED for member in error.exceptions)
            return Connection.REFUSED if refused else found
        if error is None:
            return found
        if is_a_clients(error):
            found = Connection.NONE if class_names(error) & NEVER_MADE else Connection.UNKNOWN
        elif type(error) is not OSError:
            return found
        if error.__cause__ is None and _every_address_refused(error):
            return Connection.REFUSED
        inside = (error.__cause__, getattr(error, "reason", None), *error.args[:1])
        error = next((one for one in inside if isinstance(one, BaseException)), None)
    return found


def is_a_clients(error: BaseException) -> bool:
    return any(name.split(".")[0] in CLIENTS for name in class_names(error))


def class_names(error: BaseException) -> set[str]:
    """`module.Class` for every ancestor; private modules count as their package: `httpx._exceptions` is `httpx`."""
    names = set()
    for ancestor in type(error).__mro__:
        parts = [part for part in str(ancestor.__module__).split(".") if not part.startswith("_")]
        parts[:1] = [SUCCESSORS.get(part, part) for part in parts[:1]]
        names.add(".".join([*parts, ancestor.__name__]))
    return names


def _every_address_refused(error: BaseException) -> bool:
    """asyncio tells the refusals of several addresses in one plain error."""
    text = str(error) if type(error) is OSError else ""
    numbers = re.findall(r"\[Errno (\d+)\]", text) if text.startswith("Multiple exceptions: ") else []
    return bool(numbers) and all(int(number) == errno.ECONNREFUSED for number in numbers)
