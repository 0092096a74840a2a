"""Addresses of PostgreSQL servers, taken apart as PostgreSQL's own library does it: there may be several hosts or none,
and neither # nor + has a meaning. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from onward.policy.masking import MASK

SCHEMES = ("postgresql", "postgres")
LARGEST_PORT = 65535
_BREAKS = dict.fromkeys(map(ord, "\t\r\n"))


@dataclass(frozen=True, slots=True)
class Parts:
    """`who`: user and password with the @ behind them, `hosts`, `path`: the database with the / before it; all as they
    were written. `options`: what stands behind the ?, decoded."""

    scheme: str
    who: str
    hosts: str
    path: str
    options: tuple[tuple[str, str], ...]

    def text(self, safe: str = "") -> str:
        """The whole. `safe`: letters that options keep."""
        asked = "&".join(f"{quote(name, safe='')}={quote(value, safe=safe)}" for name, value in self.options)
        return f"{self.scheme}://{self.who}{self.hosts}{self.path}{asked and '?'}{asked}"

    def only(self, wanted: Callable[[str], bool]) -> Parts:
        """With those options alone whose name is wanted."""
        return replace(self, options=tuple(pair for pair in self.options if wanted(pair[0])))

    def masked(self, mask: str = MASK) -> Parts:
        """With masks in the places of passwords."""
        name, colon, _ = self.who.partition(":")
        options = tuple((name, mask if is_secret(name) else value) for name, value in self.options)
        return replace(self, who=f"{name}:{mask}@" if colon else self.who, options=options)

    def without_secrets(self) -> Parts:
        name, colon, _ = self.who.partition(":")
        return replace(self, who=f"{name}@" if colon else self.who).only(lambda option: not is_secret(option))

    def secrets(self) -> set[str]:
        """Passwords, as they were written and as they are meant."""
        written = self.who.partition(":")[2].removesuffix("@")
        return {written, unquote(written), *(value for name, value in self.options if is_secret(name))} - {""}


def split(url: str) -> Parts:
    """Raises ValueError, which quotes nothing of the address: what cannot be told apart may be a password."""
    scheme, _, rest = url.translate(_BREAKS).strip().partition("://")
    user_ends, path_begins = rest.find("@"), rest.find("/")
    who = "" if user_ends < 0 or 0 <= path_begins < user_ends else rest[: user_ends + 1]
    place, _, asked = rest[len(who) :].partition("?")
    hosts, slash, path = place.partition("/")
    for host in hosts.split(","):
        _check(host)
    pairs = (part.partition("=") for part in asked.split("&") if part)
    options = tuple((unquote(name), unquote(value)) for name, _, value in pairs)
    return Parts(scheme, who, hosts, f"{slash}{path}", options)


def _check(host: str) -> None:
    """`host`, `host:port`, `[::1]:port`."""
    end = host.rfind("]") + 1 if host.startswith("[") else 0
    bare, colon, port = host[end:].partition(":")
    if (host.startswith("[") and (not end or bare)) or "@" in host:
        raise ValueError("its host is none (in a password, @ is written %40 and / %2F)")
    if colon and port and not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= LARGEST_PORT):
        raise ValueError("its port is no number from 1 to 65535 (in a password, / is written %2F and @ %40)")


def is_secret(name: str) -> bool:
    return "pass" in name.lower()
