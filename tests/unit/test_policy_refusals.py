"""What a driver says about a connection that was not made, and whether it will be otherwise another time."""

from __future__ import annotations

import pytest

from onward.policy.refusals import refusal

BEGINS = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (f'{BEGINS}FATAL:  password authentication failed for user "ada"', "its password is wrong"),
        (f'{BEGINS}FATAL:  Peer authentication failed for user "ada"', "its password is wrong"),
        (f'{BEGINS}FATAL:  role "ada" does not exist', "there is no such user"),
        (f'{BEGINS}FATAL:  database "app" does not exist', "there is no such user"),
        (f'{BEGINS}FATAL:  permission denied for database "app"', "the user may not use"),
        (f"{BEGINS}FATAL:  no such user: ada", "the pooler does not know the user"),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", "there is no such host"),
        ("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution", None),
        (f'{BEGINS}FATAL:  no pg_hba.conf entry for host "::1", user "ada", no encryption', "pg_hba.conf"),
        (f"{BEGINS}server does not support SSL, but SSL was required", "TLS"),
        (f"{BEGINS}SSL error: certificate verify failed", "TLS"),
        (f'{BEGINS}root certificate file "/root.crt" does not exist', "TLS"),
        ("consuming input failed: SSL connection has been closed unexpectedly", None),
        ("consuming input failed: SSL SYSCALL error: EOF detected", None),
        ("consuming input failed: SSL error: sslv3 alert bad record mac", None),
        (f"{BEGINS}SSL error: unexpected eof while reading", None),
        (f"{BEGINS}Connection refused", None),
        (f"{BEGINS}FATAL:  the database system is starting up", None),
        (f"{BEGINS}FATAL:  sorry, too many clients already", None),
        ("connection timeout expired", None),
    ],
)
def test_what_will_be_the_same_each_time(said: str, why: str | None) -> None:
    told = refusal(said)
    assert told is None if why is None else told is not None and why in told
