"""Why a database was not got into, by what its driver says: a connection that is not made gives no code. Pure."""

from __future__ import annotations

_NO_HOST = ("could not translate host", "failed to resolve host")
_LATER = ("Temporary failure in name resolution", "[Errno -3]")
_REFUSED = (
    "password",
    "authentication failed",
    "does not exist",
    "no such user",
    "no such database",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "permission denied for database",
)


def refusal(said: str) -> str | None:
    """What people are told where it will be the same each time; None where it may be otherwise later. Languages other
    than English are not understood, and count as the latter."""
    if any(sign in said for sign in _NO_HOST):
        return None if any(sign in said for sign in _LATER) else "is not there"
    return "does not let us in" if any(sign in said for sign in _REFUSED) else None
