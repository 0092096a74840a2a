"""From an exception to the kind of its failure: the published table, read by class name so that nothing is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onward.codec import loads
from onward.errors import (
    Fatal,
    Invalid,
    MisfitRecord,
    OutputError,
    Rejected,
    StepOutcome,
    Transient,
    UnusableAnswer,
    is_a_models,
    named_cause,
)
from onward.model import Kind
from onward.policy import rates
from onward.policy.clients import Connection, class_names, connection
from onward.policy.masking import masked
from onward.policy.pace import LONGEST_WAIT

LONGEST_TEXT = 20_000

_BY_OUTCOME: dict[type[BaseException], Kind] = {
    Transient: Kind.TRANSIENT,
    Rejected: Kind.REJECTED,
    Invalid: Kind.INVALID,
    Fatal: Kind.FATAL,
    MisfitRecord: Kind.INVALID,
    OutputError: Kind.BUG,
}

BY_STATUS: dict[int, Kind] = {
    401: Kind.FATAL,
    402: Kind.FATAL,
    403: Kind.FATAL,  # rejected once the step has succeeded for another record
    408: Kind.TRANSIENT,
    425: Kind.TRANSIENT,
    429: Kind.TRANSIENT,
}

TRANSIENT_CLASSES = frozenset(
    {
        "builtins.ConnectionError",
        "builtins.TimeoutError",
        "socket.gaierror",
        "http.client.IncompleteRead",
        "http.client.RemoteDisconnected",
        "httpx.TransportError",
        "httpcore.NetworkError",
        "httpcore.TimeoutException",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "urllib3.exceptions.HTTPError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ServerTimeoutError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "openai.APIConnectionError",
    }
)
NOT_TRANSIENT_CLASSES = frozenset(
    {
        "httpx.UnsupportedProtocol",
        "httpx.LocalProtocolError",
        "urllib3.exceptions.LocationValueError",
        "requests.exceptions.InvalidURL",
    }
)
MOST_SEVERE_FIRST = (
    Kind.FATAL,
    Kind.BUG,
    Kind.SYSTEM,
    Kind.CONFLICT,
    Kind.INVALID,
    Kind.REJECTED,
    Kind.TRANSIENT,
)
"""Of the members of an exception group the first of these kinds decides."""
NOT_APPLIED_STATUS = frozenset({400, 401, 403, 404, 422, 429})
BODIES = frozenset({"httpx.HTTPStatusError", "requests.exceptions.HTTPError"})
LONGEST_BODY = 64 << 10
FATAL_CODES = frozenset({"insufficient_quota", "model_not_found", "invalid_api_key", "billing_hard_limit_reached"})


@dataclass(frozen=True, slots=True)
class Classified:
    """What an exception means. `throttled`: the far side asked for fewer calls, which costs no attempt. `status`: of
    the HTTP response, where there was one. `not_applied`: an effect that ended like this is known not to have been
    applied; without it, it may have been. `received`: what a model had answered. `cause`: in words that quote no data,
    where they say more than the type does."""

    kind: Kind
    error_type: str
    message: str
    retry_after: float | None = None
    throttled: bool = False
    status: int | None = None
    not_applied: bool = False
    received: str | None = None
    cause: str = ""

    def among(self, step_has_succeeded: bool) -> Classified:
        """The same as it is seen by who knows whether the step has succeeded for another record."""
        if self.kind is Kind.FATAL and self.status is not None and step_has_succeeded:
            return replace(self, kind=_kind_of_status(self.status, step_has_succeeded))
        return self


Classify = Callable[[Exception], "StepOutcome | type[StepOutcome] | None"]


def classify(
    error: BaseException, now: float, step_has_succeeded: bool = False, ask: Classify | None = None
) -> Classified:
    """Tell the kind of `error`; `ask` is the job's own function and is heard first.

    `now` (UTC seconds) turns a Retry-After date into seconds. A fault inside `ask` counts as its having no opinion.
    A group of exceptions is judged by its members, unless `ask` has an opinion of the group.
    """
    try:
        return _classify(error, now, step_has_succeeded, ask)
    except BaseException:  # what looking at another library's exception raises, be it SystemExit, is not the run's end
        return Classified(Kind.BUG, _name(error), _text(error))


def _classify(error: BaseException, now: float, step_has_succeeded: bool, ask: Classify | None) -> Classified:
    meaning = opinion(ask, error)
    if isinstance(meaning, BaseExceptionGroup):
        members = [classify(member, now, step_has_succeeded, ask) for member in meaning.exceptions]
        return _of_group(members, error)
    return _classify_one(meaning, error, now, step_has_succeeded)


def _of_group(members: Sequence[Classified], error: BaseException) -> Classified:
    """One kind for all: that of the gravest member. It waits for as long as any of those asked for."""
    if len(members) == 1:
        return members[0]
    gravest = min(members, key=lambda member: MOST_SEVERE_FIRST.index(member.kind))
    alike = [member for member in members if member.kind is gravest.kind]
    told = "; ".join(dict.fromkeys(f"{member.error_type}: {member.message}" for member in alike))
    return Classified(
        kind=gravest.kind,
        error_type=_name(error),
        message=_cut(told),
        retry_after=max((one.retry_after for one in alike if one.retry_after is not None), default=None),
        throttled=all(member.throttled for member in alike),
        not_applied=all(member.not_applied for member in members),
        status=gravest.status if len({member.status for member in alike}) == 1 else None,
    )


def _classify_one(meaning: BaseException, error: BaseException, now: float, step_has_succeeded: bool) -> Classified:
    """`meaning` stands for `error`: the job's opinion of it, where it has one."""
    try:
        kind, status, asked = _kind(meaning, step_has_succeeded), _status(meaning), _retry_after(meaning, now)
    except Exception:  # to look at another library's exception may itself raise
        kind, status, asked = Kind.BUG, None, None
    return Classified(
        kind=kind,
        error_type=_name(error),
        message=_text(error),
        retry_after=asked if kind is Kind.TRANSIENT else None,
        throttled=status == 429 and kind is Kind.TRANSIENT,
        not_applied=_is_not_applied(meaning, status),
        status=None if _code(meaning) in FATAL_CODES else status,
        received=meaning.received if isinstance(meaning, UnusableAnswer) else None,
        cause=named_cause(error),
    )


def opinion(ask: Classify | None, error: BaseException) -> BaseException:
    """What the job says that the error is; the error itself where it has no opinion."""
    if ask is None or not isinstance(error, Exception) or isinstance(error, OutputError | MisfitRecord):
        return error
    try:
        answer = ask(error)
        if isinstance(answer, type):
            answer = answer()
    except BaseException:
        return error
    return answer if isinstance(answer, StepOutcome) else error


def _kind(error: BaseException, step_has_succeeded: bool) -> Kind:
    for known, kind in _BY_OUTCOME.items():
        if isinstance(error, known):
            return kind
    if isinstance(error, MemoryError):
        return Kind.SYSTEM
    if _code(error) in FATAL_CODES:
        return Kind.FATAL
    status = _status(error)
    if status is not None:
        return _kind_of_status(status, step_has_succeeded)
    names = class_names(error)
    if "urllib.error.URLError" in names and isinstance(reason := getattr(error, "reason", None), BaseException):
        return _kind(reason, step_has_succeeded)
    if names & TRANSIENT_CLASSES and not names & NOT_TRANSIENT_CLASSES:
        return Kind.TRANSIENT
    return Kind.BUG


def _is_not_applied(error: BaseException, status: int | None) -> bool:
    """Whether what was to be sent certainly was not applied; all doubt says no."""
    if is_a_models(error):
        return False
    if isinstance(error, Transient):
        return error.sent is False
    if isinstance(error, Invalid | Rejected | Fatal | MisfitRecord):  # the last comes before a call
        return True
    if status is not None:
        return status in NOT_APPLIED_STATUS
    return connection(error) is Connection.REFUSED


def _kind_of_status(status: int, step_has_succeeded: bool) -> Kind:
    if status == 403 and step_has_succeeded:
        return Kind.REJECTED
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status >= 500:
        return Kind.TRANSIENT
    return Kind.REJECTED if status >= 400 else Kind.BUG


def _status(error: BaseException) -> int | None:
    """The HTTP status of the well-known clients' exceptions; other objects' attributes are not believed."""
    modules = {part.split(".")[0] for part in class_names(error)}
    if not modules & {"httpx", "requests", "openai", "aiohttp", "urllib"}:
        return None
    response = getattr(error, "response", None)
    for holder, name in ((response, "status_code"), (error, "status_code"), (error, "status"), (error, "code")):
        value = getattr(holder, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _code(error: BaseException) -> str | None:
    """What a provider calls the error, such as `insufficient_quota`."""
    names = class_names(error)
    if any(name.startswith("openai.") for name in names):
        code = getattr(error, "code", None)
    else:
        code = _code_in_answer(error) if names & BODIES else None
    return code if isinstance(code, str) else None


def _code_in_answer(error: BaseException) -> Any:
    """`error.code` of a JSON body that has been read already: nothing is fetched for it."""
    try:
        body = error.response._content  # type: ignore[attr-defined]
        return loads(body)["error"]["code"] if isinstance(body, bytes) and len(body) <= LONGEST_BODY else None
    except Exception:  # no such body, or another library's object that does not let itself be looked at
        return None


def _retry_after(error: BaseException, now: float) -> float | None:
    given = getattr(error, "retry_after", None)
    if isinstance(given, int | float) and given >= 0:
        return min(float(given), LONGEST_WAIT)
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    return rates.retry_after(headers, now)


def _text(error: BaseException) -> str:
    try:
        text = str(error) or _name(error)
    except BaseException:  # whatever another library's code raises there, it is not the run's end
        return _name(error)
    return _cut(masked(text))


def _cut(text: str) -> str:
    left_out = len(text) - LONGEST_TEXT
    return (
        text
        if left_out <= 0
        else f"{text[: LONGEST_TEXT // 2]} … {left_out:,} characters … {text[-LONGEST_TEXT // 2 :]}"
    )


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if kind.__module__ in ("builtins", "onward.errors") else f"{kind.__module__}.{kind.__name__}"
