"""From an exception to its kind: every row of the published table, with classes as the well-known clients have them."""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import urllib.error
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pytest

from onward.errors import Fatal, Invalid, MisfitRecord, OutputError, Rejected, Transient
from onward.model import Kind
from onward.policy.failures import classify
from onward.policy.pace import LONGEST_WAIT

NOW = 1_700_000_000.0


def a_class(module: str, name: str, *bases: type) -> type:
    """An exception class as another library would have it."""
    return type(name, bases or (Exception,), {"__module__": module})


HTTPX = a_class("httpx", "HTTPError")
HTTPX_STATUS = a_class("httpx", "HTTPStatusError", HTTPX)
HTTPX_REQUEST = a_class("httpx", "RequestError", HTTPX)
HTTPX_TRANSPORT = a_class("httpx", "TransportError", HTTPX_REQUEST)
HTTPX_TIMEOUT = a_class("httpx", "TimeoutException", HTTPX_TRANSPORT)
HTTPX_PROTOCOL = a_class("httpx", "ProtocolError", HTTPX_TRANSPORT)
REQUESTS = a_class("requests.exceptions", "RequestException", OSError)
REQUESTS_HTTP = a_class("requests.exceptions", "HTTPError", REQUESTS)
REQUESTS_CONNECTION = a_class("requests.exceptions", "ConnectionError", REQUESTS)
REQUESTS_TIMEOUT = a_class("requests.exceptions", "Timeout", REQUESTS)
URLLIB3 = a_class("urllib3.exceptions", "HTTPError")
OPENAI = a_class("openai", "OpenAIError")
OPENAI_API = a_class("openai", "APIError", OPENAI)
OPENAI_STATUS = a_class("openai", "APIStatusError", OPENAI_API)
OPENAI_CONNECTION = a_class("openai", "APIConnectionError", OPENAI_API)
AIOHTTP = a_class("aiohttp.client_exceptions", "ClientError")
AIOHTTP_RESPONSE = a_class("aiohttp.client_exceptions", "ClientResponseError", AIOHTTP)
AIOHTTP_CONNECTION = a_class("aiohttp.client_exceptions", "ClientConnectionError", AIOHTTP)


def with_status(kind: type, status: int, headers: Any = None, **more: Any) -> Exception:
    """As httpx, requests and openai raise it: the status is the response's."""
    error: Exception = kind("it failed")
    error.response = SimpleNamespace(status_code=status, headers=headers or {})  # type: ignore[attr-defined]
    for name, value in more.items():
        setattr(error, name, value)
    return error


def kind_of(error: BaseException, **given: Any) -> Kind:
    return classify(error, NOW, **given).kind


# What a step says itself.


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Transient("later"), Kind.TRANSIENT),
        (Rejected("no"), Kind.REJECTED),
        (Invalid("wrong"), Kind.INVALID),
        (Fatal("stop"), Kind.FATAL),
        (MisfitRecord("no number"), Kind.INVALID),
        (OutputError("the output is NaN"), Kind.BUG),
        (a_class("mine", "NoStock", Rejected)("none left"), Kind.REJECTED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_step_says_itself(error: BaseException, kind: Kind) -> None:
    assert kind_of(error) is kind


# HTTP statuses.


STATUSES = {
    400: Kind.REJECTED,
    401: Kind.FATAL,
    402: Kind.FATAL,
    403: Kind.FATAL,
    404: Kind.REJECTED,
    405: Kind.REJECTED,
    408: Kind.TRANSIENT,
    409: Kind.REJECTED,
    410: Kind.REJECTED,
    413: Kind.REJECTED,
    418: Kind.REJECTED,
    422: Kind.REJECTED,
    425: Kind.TRANSIENT,
    429: Kind.TRANSIENT,
    451: Kind.REJECTED,
    500: Kind.TRANSIENT,
    502: Kind.TRANSIENT,
    503: Kind.TRANSIENT,
    504: Kind.TRANSIENT,
    529: Kind.TRANSIENT,
    302: Kind.BUG,
}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
@pytest.mark.parametrize("client", [HTTPX_STATUS, REQUESTS_HTTP, OPENAI_STATUS], ids=lambda kind: kind.__module__)
def test_a_status(client: type, status: int, kind: Kind) -> None:
    assert kind_of(with_status(client, status)) is kind


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_a_status_where_aiohttp_and_urllib_have_it(status: int, kind: Kind) -> None:
    error = AIOHTTP_RESPONSE("it failed")
    error.status = status  # type: ignore[attr-defined]
    assert kind_of(error) is kind
    assert kind_of(urllib.error.HTTPError("http://x", status, "it failed", Message(), None)) is kind


def test_forbidden_is_the_records_own_where_others_were_let_in() -> None:
    error = with_status(HTTPX_STATUS, 403)
    assert kind_of(error, step_has_succeeded=False) is Kind.FATAL
    assert kind_of(error, step_has_succeeded=True) is Kind.REJECTED
    assert kind_of(with_status(HTTPX_STATUS, 401), step_has_succeeded=True) is Kind.FATAL


def test_what_a_child_said_is_judged_by_who_knows_the_other_records() -> None:
    for error, kind in (
        (with_status(HTTPX_STATUS, 403), Kind.REJECTED),
        (with_status(HTTPX_STATUS, 401), Kind.FATAL),
        (with_status(OPENAI_STATUS, 403, code="insufficient_quota"), Kind.FATAL),
        (with_status(HTTPX_STATUS, 503), Kind.TRANSIENT),
        (Fatal("stop"), Kind.FATAL),
    ):
        told = classify(error, NOW)
        assert told.among(step_has_succeeded=True).kind is kind
        assert told.among(step_has_succeeded=False) == told


@pytest.mark.parametrize("code", ["insufficient_quota", "model_not_found", "invalid_api_key"])
def test_no_credit_and_unknown_models_stop_the_run_whatever_the_status(code: str) -> None:
    for status in (400, 404, 429):
        assert kind_of(with_status(OPENAI_STATUS, status, code=code)) is Kind.FATAL


def test_other_codes_of_openai_do_not() -> None:
    assert kind_of(with_status(OPENAI_STATUS, 429, code="rate_limit_exceeded")) is Kind.TRANSIENT
    assert kind_of(with_status(OPENAI_STATUS, 400, code="context_length_exceeded")) is Kind.REJECTED
    assert kind_of(with_status(OPENAI_STATUS, 400, code=None)) is Kind.REJECTED


def test_only_well_known_clients_are_believed_about_a_status() -> None:
    own = a_class("my_client", "ApiError")
    assert kind_of(with_status(own, 503)) is Kind.BUG
    assert kind_of(with_status(a_class("my_client", "Wrapped", HTTPX_STATUS), 503)) is Kind.TRANSIENT


def test_a_status_that_is_none_is_none() -> None:
    for value in (None, "503", True, 0):
        error = REQUESTS_HTTP("it failed")
        error.response = SimpleNamespace(status_code=value, headers={})  # type: ignore[attr-defined]
        assert kind_of(error) is Kind.BUG
    error = REQUESTS_HTTP("it failed")
    error.response = None  # type: ignore[attr-defined]
    assert kind_of(error) is Kind.BUG


def test_private_modules_count_as_their_package() -> None:
    assert kind_of(a_class("httpx._exceptions", "TransportError")("gone")) is Kind.TRANSIENT
    assert kind_of(a_class("openai._exceptions", "APIConnectionError")("gone")) is Kind.TRANSIENT


# Connections and times.


TRANSIENT = [
    TimeoutError(),
    ConnectionError(),
    ConnectionRefusedError(111, "refused"),
    ConnectionResetError(104, "reset"),
    ConnectionAbortedError(),
    BrokenPipeError(),
    socket.gaierror(-3, "temporary failure in name resolution"),
    http.client.RemoteDisconnected("closed"),
    http.client.IncompleteRead(b""),
    HTTPX_TRANSPORT("gone"),
    HTTPX_TIMEOUT("late"),
    a_class("httpx", "ReadTimeout", HTTPX_TIMEOUT)("late"),
    a_class("httpx", "ConnectError", HTTPX_TRANSPORT)("gone"),
    a_class("httpx", "RemoteProtocolError", HTTPX_PROTOCOL)("torn"),
    a_class("httpcore", "ConnectError", a_class("httpcore", "NetworkError"))("gone"),
    a_class("httpcore", "ReadTimeout", a_class("httpcore", "TimeoutException"))("late"),
    REQUESTS_CONNECTION("gone"),
    REQUESTS_TIMEOUT("late"),
    a_class("requests.exceptions", "ConnectTimeout", REQUESTS_CONNECTION, REQUESTS_TIMEOUT)("late"),
    a_class("requests.exceptions", "ChunkedEncodingError", REQUESTS)("torn"),
    a_class("urllib3.exceptions", "ProtocolError", URLLIB3)("torn"),
    a_class("urllib3.exceptions", "MaxRetryError", URLLIB3)("often"),
    OPENAI_CONNECTION("gone"),
    a_class("openai", "APITimeoutError", OPENAI_CONNECTION)("late"),
    AIOHTTP_CONNECTION("gone"),
    a_class("aiohttp.client_exceptions", "ServerTimeoutError", AIOHTTP_CONNECTION, TimeoutError)("late"),
    a_class("aiohttp.client_exceptions", "ClientPayloadError", AIOHTTP)("torn"),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: f"{type(error).__module__}.{type(error).__name__}")
def test_lost_connections_and_timeouts_are_transient(error: Exception) -> None:
    assert kind_of(error) is Kind.TRANSIENT


BUGS = [
    ValueError("x"),
    KeyError("x"),
    ZeroDivisionError(),
    AssertionError(),
    OSError("x"),
    OSError(28, "No space left on device"),
    FileNotFoundError(2, "no such file"),
    PermissionError(13, "denied"),
    IsADirectoryError(),
    InterruptedError(),
    ssl.SSLCertVerificationError("certificate verify failed"),
    StopIteration(),
    SystemExit(3),
    KeyboardInterrupt(),
    a_class("httpx", "InvalidURL")("x"),
    a_class("httpx", "UnsupportedProtocol", HTTPX_TRANSPORT)("ftp://"),
    a_class("httpx", "LocalProtocolError", HTTPX_PROTOCOL)("a bad header"),
    a_class("httpx", "TooManyRedirects", HTTPX_REQUEST)("x"),
    a_class("requests.exceptions", "MissingSchema", REQUESTS, ValueError)("x"),
    a_class("requests.exceptions", "InvalidURL", REQUESTS, ValueError)("x"),
    a_class("urllib3.exceptions", "LocationParseError", a_class("urllib3.exceptions", "LocationValueError", URLLIB3))(
        "x"
    ),
]


@pytest.mark.parametrize("error", BUGS, ids=lambda error: f"{type(error).__module__}.{type(error).__name__}")
def test_everything_else_is_a_bug(error: BaseException) -> None:
    assert kind_of(error) is Kind.BUG


def test_memory_is_the_systems() -> None:
    assert kind_of(MemoryError()) is Kind.SYSTEM


def test_what_urllib_wraps_is_looked_at() -> None:
    for reason in (ConnectionRefusedError(111, "refused"), TimeoutError("late"), socket.gaierror(-3, "no name")):
        assert kind_of(urllib.error.URLError(reason)) is Kind.TRANSIENT
    for reason in (FileNotFoundError(2, "no such file"), ssl.SSLCertVerificationError("bad"), "unknown url type: x"):
        assert kind_of(urllib.error.URLError(reason)) is Kind.BUG
    told = classify(urllib.error.URLError(ConnectionRefusedError(111, "refused")), NOW)
    assert (told.error_type, told.message) == ("urllib.error.URLError", "<urlopen error [Errno 111] refused>")


def test_an_error_that_wraps_itself_is_a_bug() -> None:
    error = urllib.error.URLError("x")
    error.reason = error
    assert kind_of(error) is Kind.BUG


# Groups, as a TaskGroup raises them.


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ([TimeoutError(), ConnectionResetError()], Kind.TRANSIENT),
        ([Rejected("a"), Rejected("b")], Kind.REJECTED),
        ([Transient("a"), Rejected("b")], Kind.REJECTED),
        ([Rejected("a"), Invalid("b")], Kind.INVALID),
        ([Invalid("a"), MemoryError()], Kind.SYSTEM),
        ([MemoryError(), ValueError("b"), Transient("c")], Kind.BUG),
        ([ValueError("a"), Fatal("b")], Kind.FATAL),
        ([ExceptionGroup("inner", [TimeoutError()]), Transient("b")], Kind.TRANSIENT),
        ([ExceptionGroup("inner", [TimeoutError(), Fatal("x")]), Transient("b")], Kind.FATAL),
    ],
    ids=repr,
)
def test_of_a_group_the_gravest_member_decides(members: list[Exception], kind: Kind) -> None:
    assert kind_of(ExceptionGroup("unhandled errors", members)) is kind
    assert kind_of(ExceptionGroup("unhandled errors", members[::-1])) is kind


def test_a_group_of_one_is_that_one() -> None:
    assert classify(ExceptionGroup("g", [ValueError("7 is odd")]), NOW) == classify(ValueError("7 is odd"), NOW)
    assert kind_of(BaseExceptionGroup("g", [SystemExit(3)])) is Kind.BUG


def test_a_group_waits_for_the_longest_and_costs_no_attempt_where_no_member_does() -> None:
    slow, slower = (with_status(HTTPX_STATUS, 429, {"retry-after": value}) for value in ("3", "8"))
    told = classify(ExceptionGroup("g", [slow, slower]), NOW)
    assert (told.kind, told.throttled, told.retry_after) == (Kind.TRANSIENT, True, 8)
    assert not classify(ExceptionGroup("g", [slow, with_status(HTTPX_STATUS, 503)]), NOW).throttled


def test_a_group_tells_what_decided() -> None:
    told = classify(ExceptionGroup("g", [Transient("later"), ValueError("7 is odd"), KeyError("k")]), NOW)
    assert (told.error_type, told.message) == ("ExceptionGroup", "ValueError: 7 is odd; KeyError: 'k'")


def test_the_job_is_asked_about_the_group_and_then_about_its_members() -> None:
    group = ExceptionGroup("g", [ValueError("a"), ValueError("b")])
    assert kind_of(group, ask=lambda error: Rejected if isinstance(error, ExceptionGroup) else None) is Kind.REJECTED
    assert kind_of(group, ask=lambda error: Transient if isinstance(error, ValueError) else None) is Kind.TRANSIENT


# The job's own word.


def test_the_job_is_asked_first() -> None:
    assert kind_of(ValueError("x"), ask=lambda error: Rejected("mine")) is Kind.REJECTED
    assert kind_of(with_status(HTTPX_STATUS, 503), ask=lambda error: Fatal) is Kind.FATAL
    assert kind_of(Transient("x"), ask=lambda error: Invalid()) is Kind.INVALID


def test_no_opinion_is_none() -> None:
    assert kind_of(TimeoutError(), ask=lambda error: None) is Kind.TRANSIENT


@pytest.mark.parametrize("answer", ["transient", 7, ValueError, ValueError("x"), object])
def test_an_answer_that_means_nothing_is_no_opinion(answer: Any) -> None:
    assert kind_of(TimeoutError(), ask=lambda error: answer) is Kind.TRANSIENT


def test_a_job_that_fails_when_asked_has_no_opinion() -> None:
    def ask(error: Exception) -> None:
        raise RuntimeError("a mistake in classify")

    assert kind_of(TimeoutError(), ask=ask) is Kind.TRANSIENT


def test_the_job_is_not_asked_about_outputs_misfits_and_exits() -> None:
    def ask(error: Exception) -> Transient:
        return Transient()

    assert kind_of(OutputError("NaN"), ask=ask) is Kind.BUG
    assert kind_of(MisfitRecord("x"), ask=ask) is Kind.INVALID
    assert kind_of(SystemExit(1), ask=ask) is Kind.BUG


def test_the_type_and_text_stay_those_of_what_was_raised() -> None:
    told = classify(ValueError("7 is odd"), NOW, ask=lambda error: Rejected("mine"))
    assert (told.error_type, told.message) == ("ValueError", "7 is odd")


def test_the_wait_that_the_job_names_is_obeyed() -> None:
    assert classify(ValueError("x"), NOW, ask=lambda error: Transient(retry_after=9)).retry_after == 9


# Retry-After.


def dated(seconds: float) -> str:
    return email.utils.formatdate(NOW + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("2.5", 2.5),
        (" 12 ", 12.0),
        (dated(90), 90.0),
        (dated(-90), 0.0),
        ("-5", 0.0),
        ("999999", LONGEST_WAIT),
        ("inf", LONGEST_WAIT),
        (dated(86400 * 365), LONGEST_WAIT),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("1e999", LONGEST_WAIT),
        ("Fri, 99 Foo 2023 00:00:00 GMT", None),
    ],
)
@pytest.mark.parametrize("name", ["retry-after", "Retry-After", "RETRY-AFTER"])
def test_retry_after(header: str, seconds: float | None, name: str) -> None:
    told = classify(with_status(HTTPX_STATUS, 503, {name: header}), NOW)
    assert told.retry_after == (None if seconds is None else pytest.approx(seconds))


def test_retry_after_where_the_headers_are_the_errors_own() -> None:
    error = AIOHTTP_RESPONSE("it failed")
    error.status, error.headers = 429, {"Retry-After": "3"}  # type: ignore[attr-defined]
    assert classify(error, NOW).retry_after == 3
    headers = Message()
    headers["Retry-After"] = "4"
    assert classify(urllib.error.HTTPError("http://x", 503, "", headers, None), NOW).retry_after == 4


@pytest.mark.parametrize(
    ("given", "seconds"), [(5, 5.0), (0.5, 0.5), (0, 0.0), (1e9, LONGEST_WAIT), (-1, None), (float("nan"), None)]
)
def test_the_wait_that_a_step_names(given: float, seconds: float | None) -> None:
    assert classify(Transient("later", retry_after=given), NOW).retry_after == seconds


def test_only_a_transient_failure_waits() -> None:
    assert classify(with_status(HTTPX_STATUS, 404, {"Retry-After": "9"}), NOW).retry_after is None


@pytest.mark.parametrize(("status", "throttled"), [(429, True), (503, False), (408, False), (400, False)])
def test_only_429_costs_no_attempt(status: int, throttled: bool) -> None:
    assert classify(with_status(HTTPX_STATUS, status), NOW).throttled is throttled


# What is told of it.


def test_types_are_told_with_their_module_but_for_plain_ones() -> None:
    assert classify(ValueError("x"), NOW).error_type == "ValueError"
    assert classify(Rejected("x"), NOW).error_type == "Rejected"
    assert classify(HTTPX_TIMEOUT("x"), NOW).error_type == "httpx.TimeoutException"


def test_an_error_without_words_tells_its_type() -> None:
    assert classify(TimeoutError(), NOW).message == "TimeoutError"


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Prickly(HTTPX_STATUS):  # type: ignore[valid-type,misc]
    """Whose attributes cannot be looked at."""

    @property
    def response(self) -> Any:
        raise RuntimeError("the response was never read")


def test_errors_that_cannot_be_looked_at_are_bugs_and_nothing_worse() -> None:
    assert classify(Mute(), NOW).message.endswith("Mute")
    assert kind_of(Prickly("x")) is Kind.BUG


def test_a_class_without_a_module_is_a_bug_like_any_other() -> None:
    assert kind_of(type("Made", (Exception,), {"__module__": None})("x")) is Kind.BUG


def test_a_function_of_the_job_s_that_exits_has_no_opinion() -> None:
    for way_out in (SystemExit, KeyboardInterrupt):

        def leaves(error: Exception, way_out: type[BaseException] = way_out) -> None:
            raise way_out(3)

        assert classify(ValueError("x"), NOW, ask=leaves).kind is Kind.BUG


def test_a_wish_to_wait_that_exits_is_none() -> None:
    class Exits(ConnectionError):
        @property
        def retry_after(self) -> float:
            raise SystemExit(3)

    told = classify(Exits("x"), NOW)
    assert (told.kind, told.not_applied) == (Kind.BUG, False)


class Hostile(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


def test_a_text_that_cannot_be_had_does_not_end_the_run() -> None:
    assert classify(Hostile(), NOW).message.endswith("Hostile")


def test_a_very_long_text_keeps_its_beginning_and_its_end() -> None:
    text = classify(ValueError("begin" + "x" * 10_000_000 + "end"), NOW).message
    assert (text[:5], text[-3:], len(text) < 30_000) == ("begin", "end", True)
    assert "9,980,008 characters" in text
