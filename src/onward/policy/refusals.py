"""Why a database does not let us in, by what its driver says: a connection that is not made gives no code. Pure."""

from __future__ import annotations

WRONG_PASSWORD = "its password is wrong, or the user may not log in"
NO_DATABASE = "there is no such database"
NO_TRANSACTIONS = "its pooler allows no transactions: set pool_mode to transaction or session"
_CONNECTING = ("connection failed", "could not translate host", "failed to resolve host")
_OTHERWISE_LATER = (
    "Temporary failure in name resolution",
    "[Errno -3]",
    "SSL SYSCALL error",
    "unexpected eof",
    "closed unexpectedly",
)
_TLS = "its TLS settings do not fit the address (sslmode, certificates)"
_REFUSED = (
    ("could not translate host", "there is no such host"),
    ("failed to resolve host", "there is no such host"),
    ("certificate", _TLS),
    ("SSL", _TLS),
    ("no password supplied", "it asks for a password: put one into the address, PGPASSWORD or ~/.pgpass"),
    ("authentication failed", WRONG_PASSWORD),
    ("is not permitted to log in", "the user may not log in"),
    ("pg_hba.conf", "it does not let this user in from this host (pg_hba.conf)"),
    ("does not exist", "there is no such user or database"),
    ("permission denied for database", "the user may not use this database"),
    ("no such user", "the pooler does not know the user"),
    ("no such database", "the pooler does not know the database"),
)


def refusal(said: str) -> str | None:
    """What people are told where it will be the same each time; None where it may be otherwise later, or a connection
    that was there is lost. Languages other than English are not understood, and count as the latter."""
    if not any(sign in said for sign in _CONNECTING) or any(sign in said for sign in _OTHERWISE_LATER):
        return None
    return next((why for sign, why in _REFUSED if sign in said), None)
