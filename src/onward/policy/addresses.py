"""Addresses of databases that records come from, and tables go to: what is opened, what people are shown, and what
tells one from another. Passwords are in the first alone. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from onward.errors import UsageError
from onward.policy.masking import MASK
from onward.policy.servers import SCHEMES, split


@dataclass(frozen=True, slots=True)
class Address:
    """`url`: what is opened; `file`: where it is SQLite's, its absolute path; `identity`: which database it is;
    `shown`: for people; `name`: short, for places in it; `secrets`: what no message may hold."""

    url: str = field(repr=False)
    file: Path | None
    identity: str
    shown: str
    name: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def masked(self, text: str) -> str:
        """A text that others wrote, without passwords."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return text


def address_of(url: str, folder: str | None) -> Address:
    """Relative paths start from `folder`. Raises UsageError."""
    scheme, colons, rest = url.partition("://")
    if not colons or scheme == "sqlite":
        return _file(rest.removeprefix("/") if colons else url, url, folder)
    if scheme not in SCHEMES:
        raise UsageError(f"{scheme}:// is no database that onward knows; use postgresql://…, sqlite:///… or a path")
    return _server(url)


def _file(path: str, url: str, folder: str | None) -> Address:
    if not path or path == ":memory:":
        raise UsageError(f"{url!r} names no file; a database in memory ends with its process")
    file = Path(os.path.abspath(Path(folder or Path.cwd()) / path))  # noqa: PTH100 - keeps symlinks
    return Address(url, file, str(file), str(file), path)


def _server(url: str) -> Address:
    try:
        parts = replace(split(url), scheme=SCHEMES[0])
    except ValueError as error:
        raise UsageError(f"the address of the database cannot be read: {error}") from None
    return Address(
        url,
        None,
        parts.without_secrets().text(),
        parts.masked().text(safe="*/,"),
        parts.path.strip("/") or "sql",
        tuple(sorted(parts.secrets(), key=len, reverse=True)),
    )
