"""The address of a PostgreSQL store: `postgresql://user:password@host:port/database?schema=onward`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from onward.errors import StoreError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "onward"
LONGEST_NAME = 63
MASK = "***"


def is_postgres(url: str) -> bool:
    return url.partition("://")[0] in SCHEMES and "://" in url


@dataclass(frozen=True, slots=True)
class Address:
    """`server`: what the driver is given; `schema`: where in the database the tables are; `shown`: the whole, without
    secrets; `settled`: the whole, as it was given."""

    server: str
    schema: str
    shown: str
    settled: str

    @property
    def quoted(self) -> str:
        """The schema's name as SQL has it."""
        return '"' + self.schema.replace('"', '""') + '"'

    @property
    def lock_class(self) -> int:
        """Which advisory locks are those of this store: a number of 32 bits, with its sign."""
        number = zlib.crc32(b"onward:" + self.schema.encode())
        return number - (1 << 32) if number >= 1 << 31 else number


def parse(url: str) -> Address:
    """Raises StoreError."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is checked as it is read
    except ValueError as error:
        raise StoreError(f"the store's address cannot be read: {error}") from None
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in pairs if name == "schema"), SCHEMA)
    if not schema or "\0" in schema or len(schema.encode()) > LONGEST_NAME or schema.startswith("pg_"):
        raise StoreError(f"{schema!r} is not a name for a schema; give ?schema= another one")
    rest = [(name, value) for name, value in pairs if name != "schema"]
    server = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(rest, quote_via=quote)))
    return Address(server, schema, masked(url), url)


def masked(url: str) -> str:
    """The address without passwords."""
    parts = urlsplit(url)
    place = parts.netloc
    if "@" in place:
        who, _, where = place.rpartition("@")
        name, colon, _ = who.partition(":")
        place = f"{name}{colon and ':' + MASK}@{where}"
    pairs = [(name, MASK if "pass" in name.lower() else value) for name, value in parse_qsl(parts.query)]
    return urlunsplit(parts._replace(netloc=place, query=urlencode(pairs, quote_via=quote, safe="*")))
