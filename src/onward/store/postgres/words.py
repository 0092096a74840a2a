"""The driver's errors in words for people."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import errors

from onward.errors import OnwardError, StoreAway, StoreError, StoreMissing, StoreWriteError
from onward.policy import refusals
from onward.policy.masking import MASK
from onward.store.postgres.address import Address
from onward.store.sql.statements import ALTERED

AGAIN = "nothing committed is lost, run the same command again"
BEGUN_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)
_ALTERED = (errors.DuplicateColumn, errors.DuplicateTable, errors.DuplicateObject)
_GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
    errors.TooManyConnections,
    errors.ConnectionException,
)


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, or cannot be had now: another one may do."""
    if isinstance(error, _GONE):
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None and refusal(error) is None


def refusal(error: psycopg.Error) -> str | None:
    """Why the server does not let us in, where another try would not help."""
    if isinstance(error, errors.InvalidPassword | errors.InvalidAuthorizationSpecification):
        return refusals.WRONG_PASSWORD
    if isinstance(error, errors.InvalidCatalogName):
        return refusals.NO_DATABASE
    said = str(error)
    if "statement pooling mode" in said:
        return refusals.NO_TRANSACTIONS
    return refusals.refusal(said) if error.sqlstate is None else None


def explain(
    error: psycopg.Error, address: Address, kind: Callable[[str], OnwardError] = StoreWriteError
) -> OnwardError:
    """No driver's name for a fault reaches people bare."""
    place = address.shown
    why = refusal(error)
    if why is not None:
        return StoreError(f"{place} does not let us in: {why}")
    if is_lost(error):
        away = StoreAway if kind is StoreError else kind
        return away(f"{place} cannot be reached ({_said(error, address)}); {AGAIN}")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"{place}: the user lacks rights ({_said(error, address)}); the schema {address.schema} has to be "
            f"the user's own: CREATE SCHEMA {address.quoted} AUTHORIZATION the_user"
        )
    if isinstance(error, errors.DiskFull):
        return kind(f"no space left on the disk of {place}; free some, {AGAIN}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return kind(f"{place} can only be read now: it is a standby, or was made read-only")
    if isinstance(error, errors.LockNotAvailable):
        return kind(f"{place}: another program has held its tables for too long; end it, {AGAIN}")
    if isinstance(error, BEGUN_AGAIN):
        return kind(f"{place}: others kept getting in the way of a change ({_said(error, address)}); {AGAIN}")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return StoreMissing(f"there is no store at {place}; run the job first, or check --store")
    if isinstance(error, _ALTERED):
        return StoreError(ALTERED.format(place=place, said=_said(error, address)))
    if isinstance(error, errors.OutOfMemory | errors.InsufficientResources):
        return kind(f"{place} has no room for this now ({_said(error, address)}); {AGAIN}")
    if isinstance(error, errors.IoError | errors.DataCorrupted | errors.IndexCorrupted):
        return kind(
            f"the disk failed under {place} ({_said(error, address)}); check it, and restore a backup where needed"
        )
    return kind(f"{place}: {_said(error, address)}")


def _said(error: psycopg.Error, address: Address) -> str:
    """The driver's own first line; it may quote what it could not read of an address."""
    said = error.diag.message_primary or str(error)
    for secret in address.secrets:
        said = said.replace(secret, MASK)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else "no reason was given"
