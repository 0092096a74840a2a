"""Addresses of PostgreSQL servers: what the driver is given, what people see, what tells one database from another."""

from __future__ import annotations

import pytest

from onward.errors import StoreError, UsageError
from onward.policy.addresses import address_of
from onward.policy.servers import split
from onward.store.postgres.address import parse

SOCKET = "postgresql:///work?host=%2Fvar%2Frun%2Fpostgresql"
HOSTS = "postgresql://ada:s3cret@one:5432,[::1]:5433,three/work?target_session_attrs=primary"


@pytest.mark.parametrize(
    "url",
    [
        SOCKET,
        "postgresql:///work",
        "postgresql://",
        "postgresql://ada@/work",
        "postgresql://%2Fvar%2Frun%2Fpostgresql:5433/work",
        "postgresql://one:1,two:2/work",
        "postgresql://one,two,[::1]:5433/work?target_session_attrs=primary",
        "postgresql://db?application_name=a%2Bb",
    ],
)
def test_what_holds_no_secret_stays_as_it_is(url: str) -> None:
    assert parse(url).server == url
    assert address_of(url, None).identity == url


def test_an_address_without_a_host_keeps_its_slashes() -> None:
    assert parse("postgresql:///work?host=/run/pg&schema=s").server == "postgresql:///work?host=%2Frun%2Fpg"
    assert parse(SOCKET).shown == "postgresql:///work?host=/var/run/postgresql"
    assert address_of(SOCKET, None).shown == "postgresql:///work?host=/var/run/postgresql"


def test_of_several_hosts_the_password_alone_is_masked() -> None:
    masked = HOSTS.replace("s3cret", "***")
    assert parse(HOSTS).server == HOSTS
    assert (parse(HOSTS).shown, address_of(HOSTS, None).shown) == (masked, masked)
    assert address_of(HOSTS, None).identity == HOSTS.replace(":s3cret", "")


@pytest.mark.parametrize("password", ["p#ss", "p?ss", "p+ss", "p:ss", "p%40ss"])
def test_a_password_is_taken_as_the_driver_takes_it(password: str) -> None:
    url = f"postgresql://ada:{password}@db:5432/work"
    assert parse(url).server == url
    assert parse(url).shown == address_of(url, None).shown == "postgresql://ada:***@db:5432/work"
    assert address_of(url, None).identity == "postgresql://ada@db:5432/work"


def test_a_plus_in_an_option_is_a_plus() -> None:
    assert split("postgresql://db/work?password=a+b").options == (("password", "a+b"),)
    assert parse("postgresql://db/work?password=a+b").server == "postgresql://db/work?password=a%2Bb"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s3/cret@db/work",
        "postgresql://ada:s3@cret@db/work",
        "postgresql://db:s3cret/work",
        "postgresql://one:1,two:99999/work",
        "postgresql://[::1/work",
    ],
)
def test_what_cannot_be_told_apart_is_refused_and_not_quoted(url: str) -> None:
    for read, kind in ((parse, StoreError), (lambda url: address_of(url, None), UsageError)):
        with pytest.raises(kind, match=r"cannot be read: its (host is none|port is no)") as refused:
            read(url)
        assert "cret" not in str(refused.value) and "s3" not in str(refused.value)


def test_line_breaks_around_an_address_are_none_of_it() -> None:
    assert parse("postgresql://db/work?schema=s\n").schema == "s"
