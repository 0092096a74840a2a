"""The address of a PostgreSQL store: `postgresql://user:password@host:port/database?schema=onward`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace

from onward.errors import StoreError
from onward.policy.servers import SCHEMES, split

SCHEMA = "onward"
LONGEST_NAME = 63


def is_postgres(url: str) -> bool:
    return url.partition("://")[0] in SCHEMES and "://" in url


@dataclass(frozen=True, slots=True)
class Address:
    """`server`: what the driver is given; `schema`: where in the database the tables are; `shown`: the whole, without
    secrets; `settled`: the whole, as it was given; `secrets`: what no message may hold."""

    server: str
    schema: str
    shown: str
    settled: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

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
        parts = split(url)
    except ValueError as error:
        raise StoreError(f"the store's address cannot be read: {error}") from None
    schema = next((value for name, value in parts.options if name == "schema"), SCHEMA)
    if not schema or "\0" in schema or len(schema.encode()) > LONGEST_NAME or schema.startswith("pg_"):
        raise StoreError(f"{schema!r} is not a name for a schema; give ?schema= another one")
    server = replace(parts, scheme=SCHEMES[0]).only(lambda name: name != "schema").text()
    secrets = tuple(sorted(parts.secrets(), key=len, reverse=True))
    return Address(server, schema, masked(url), url, secrets)


def masked(url: str) -> str:
    """The address without passwords."""
    return split(url).masked().text(safe="*/,")
