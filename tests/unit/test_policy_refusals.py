"""What a driver says about a connection that was not made, and whether it will be otherwise another time."""

from __future__ import annotations

import pytest

from onward.policy.refusals import refusal

BEGINS = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (f'{BEGINS}FATAL:  password authentication failed for user "ada"', "does not let us in"),
        (f'{BEGINS}FATAL:  Peer authentication failed for user "ada"', "does not let us in"),
        (f'{BEGINS}FATAL:  role "ada" does not exist', "does not let us in"),
        (f'{BEGINS}FATAL:  database "app" does not exist', "does not let us in"),
        (f'{BEGINS}FATAL:  permission denied for database "app"', "does not let us in"),
        (f"{BEGINS}FATAL:  no such user: ada", "does not let us in"),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", "is not there"),
        ("failed to resolve host 'db': [Errno -3] Temporary failure in name resolution", None),
        (f"{BEGINS}Connection refused", None),
        (f"{BEGINS}FATAL:  the database system is starting up", None),
        (f"{BEGINS}FATAL:  sorry, too many clients already", None),
        ("connection timeout expired", None),
    ],
)
def test_what_will_be_the_same_each_time(said: str, why: str | None) -> None:
    assert refusal(said) == why
