"""Prompts: Jinja2 texts for the user's and the system's message, with a version that follows their text."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.errors import UsageError
from onward.job.models import Described
from onward.job.place import calling_place

if TYPE_CHECKING:
    from onward.llm.templates import Part

_FORMAT = b"onward prompt version 1"
_SYSTEM = re.compile(r"system:[ \t]*")
_LINE_ENDS = re.compile(r"\r\n|\r")
_RULE = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")


class Text(NamedTuple):
    """A template's text, what people call the place that it stands in, and the line there that it begins in."""

    text: str
    source: str
    line: int = 1


class Prompt(Described):
    """A template for the user's message and, where wanted, one for the system's.

    Both are Jinja2 texts: `{{ ticket.body }}`, `{% for line in lines %}`. They are sandboxed and nothing is escaped;
    `tojson` writes plain JSON, of pydantic models and dataclasses too; a record's own field comes before a method of
    the same name. Other files cannot be included, so that `version` sees all of the text. A variable that the template
    asks for with `is defined`, or gives a `default` wherever it has it, may be missing; all others must be given.

    Raises UsageError, with place and line, for a text that is no Jinja2, and where Jinja2 is not installed.
    """

    __slots__ = ("_system", "_system_part", "_user", "_user_part", "_version")

    def __init__(self, user: str, system: str | None = None):
        for name, text in (("user", user), ("system", system)):
            if not isinstance(text, str) and not (text is None and name == "system"):
                kind = type(text).__name__
                raise UsageError(f"Prompt({name}=…) is text, not {kind}; for a file: Prompt.from_file(path)")
        place = calling_place()
        where = f"the {{}} text of the prompt made at {place}"
        self._fill((user, where.format("user"), 1), (system, where.format("system"), 1))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Prompt:
        """Read a prompt from a UTF-8 file; a relative path starts from the folder of the file that calls this.

        The file is the user's template. Where it begins with `system:`, what follows up to the first line `---` is the
        system's. Empty lines around the parts do not count. Raises UsageError, also for a file that cannot be read.
        """
        name = os.fspath(path)
        caller = calling_place().path
        return cls.of_texts(*_parts_of(Path(name) if caller is None else caller.parent / name, name))

    @classmethod
    def of_texts(cls, user: Text, system: Text | None) -> Prompt:
        """A prompt of texts that were read elsewhere. Raises UsageError."""
        prompt = cls.__new__(cls)
        prompt._fill(user, system or (None, user.source, 1))
        return prompt

    def _fill(self, user: tuple[str, str, int], system: tuple[str | None, str, int]) -> None:
        self._user = _LINE_ENDS.sub("\n", user[0])
        self._system = None if system[0] is None or not system[0].strip() else _LINE_ENDS.sub("\n", system[0])
        if not self._user.strip():
            raise UsageError(f"{user[1]}: there is no text for the user's message")
        self._user_part = _part(self._user, *user[1:])
        self._system_part = None if self._system is None else _part(self._system, *system[1:])
        self._version = _version(self._user, self._system)

    @property
    def user(self) -> str:
        """The user's template."""
        return self._user

    @property
    def system(self) -> str | None:
        """The system's template."""
        return self._system

    @property
    def version(self) -> str:
        """12 hexadecimal digits: another when the text of either template changes, however its lines end."""
        return self._version

    @property
    def variables(self) -> frozenset[str]:
        """Names that must be given to `render`."""
        return frozenset().union(*(part.names.needed for part in self._parts))

    @property
    def optional(self) -> frozenset[str]:
        """Names that the templates use where they are given, and do without where not."""
        return frozenset().union(*(part.names.used for part in self._parts)) - self.variables

    def missing(self, known: Collection[str]) -> list[tuple[str, str]]:
        """The variables that must be given and are not among those `known`, each with its place, in order of place."""
        found: dict[str, str] = {}
        for part in self._parts:
            absent = part.names.needed - set(known)
            for name in sorted(absent, key=lambda name: (part.names.lines.get(name, 0), name)):
                found.setdefault(name, part.place(part.names.lines.get(name, 1)))
        return list(found.items())

    def render(self, /, **variables: Any) -> tuple[str | None, str]:
        """The system's text, None where there is none, and the user's. Variables that no template uses are ignored.

        Raises UsageError for a variable or an attribute that is missing, and for whatever else a template cannot do; it
        names file and line, and quotes no value.
        """
        for part in self._parts:
            _require(part, variables)
        system = None if self._system_part is None else self._system_part.render(variables)
        return system, self._user_part.render(variables)

    @property
    def _parts(self) -> list[Part]:
        return [self._user_part] if self._system_part is None else [self._system_part, self._user_part]

    def described(self) -> str:
        return f"prompt {self._version}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        return (self._user, self._system) == (other._user, other._system)

    def __hash__(self) -> int:
        return hash((self._user, self._system))

    def __repr__(self) -> str:
        return f"<Prompt {self._version}>"


def read_texts(template: str, system: str | None = None) -> tuple[Text, Text | None]:
    """The user's text and the system's out of files; relative paths start from the current folder.

    The system's stands in a file of its own, or in the template's as Prompt.from_file has it. Raises UsageError.
    """
    user, within = _parts_of(Path(template), template)
    if system is None:
        return user, within
    if within is not None:
        raise UsageError(f"{template}, line {within.line}: the system's text stands here and in {system}; keep one")
    return user, Text(_read(Path(system), system), system)


def _parts_of(path: Path, name: str) -> tuple[Text, Text | None]:
    (system, system_line), (user, line) = _split(_read(path, name), name)
    return Text(user, name, line), None if system is None else Text(system, name, system_line)


def _require(part: Part, variables: Mapping[str, Any]) -> None:
    absent = part.names.needed - variables.keys()
    if not absent:
        return
    first = min(absent, key=lambda name: (part.names.lines.get(name, 0), name))
    choices = ", ".join(sorted(variables)) or "none"
    more = f" (and {', '.join(sorted(absent - {first}))})" if len(absent) > 1 else ""
    where = part.place(part.names.lines.get(first, 1))
    raise UsageError(f"{where}: the template needs the variable {first!r}{more}, which is not given (given: {choices})")


def _part(text: str, source: str, first_line: int) -> Part:
    try:
        from onward.llm.templates import Part
    except ImportError as error:
        raise UsageError("prompts need jinja2; install it with: pip install 'onward[llm]'") from error
    return Part(text, source, first_line)


def _read(path: Path, name: str) -> str:
    try:
        return _LINE_ENDS.sub("\n", path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"the prompt {name} cannot be read: {error.strerror} ({path})") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}, line {line}: this is no UTF-8; save the file as UTF-8") from None


def _split(text: str, name: str) -> tuple[tuple[str | None, int], tuple[str, int]]:
    """The system's text (None without one) and the user's, each with the line that it begins in."""
    start = _after_blank_lines(text, 0)
    system = _SYSTEM.match(text, start)
    if system is None:
        return (None, 1), _part_of(text, 0, len(text))
    rule = _RULE.search(text, start)
    if rule is None:
        what = "the file begins with system: and has no line --- where that part ends; add one before the user's text"
        raise UsageError(f"{name}, line {_line(text, start)}: {what}")
    return _part_of(text, system.end(), rule.start()), _part_of(text, rule.end(), len(text))


def _part_of(text: str, begin: int, end: int) -> tuple[str, int]:
    """A part without the empty lines around it."""
    begin = _after_blank_lines(text[:end], begin)
    return text[begin:end].rstrip(), _line(text, begin)


def _after_blank_lines(text: str, begin: int) -> int:
    found = _BLANK_LINES.match(text, begin)
    assert found is not None  # it matches nothing, too
    return found.end()


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _version(user: str, system: str | None) -> str:
    digest = hashlib.blake2b(_FORMAT, digest_size=6)
    for text in (user, system):
        data = b"" if text is None else b"\1" + text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
