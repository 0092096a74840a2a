"""Jinja2 as prompts use it: sandboxed, strict, with errors that name the place and never quote the data.

The only file that imports Jinja2, which comes with `pip install 'onward[llm]'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, Template, TemplateRuntimeError, TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from pydantic_core import to_json

from onward.errors import UsageError

_TESTS = frozenset({"defined", "undefined"})
_DEFAULTS = frozenset({"default", "d"})


class Names(NamedTuple):
    """A template's variables: all of them, those that must be given, and the line where each comes first."""

    used: frozenset[str]
    needed: frozenset[str]
    lines: Mapping[str, int]


class Part:
    """One compiled text of a prompt: `source` is what people call it, `first_line` the line there that it begins in.

    Raises UsageError for what is no template.
    """

    def __init__(self, text: str, source: str, first_line: int = 1):
        self._source = source
        self._first_line = first_line
        self._template, tree = self._compiled(text)
        self._refuse_other_files(tree)
        self.names = _names(tree)
        if "self" in self.names.lines:
            where = self.place(self.names.lines["self"])
            raise UsageError(f"{where}: self is a word of Jinja2 itself and no variable; choose another name")
        self._attributes = frozenset(_attributes(tree))

    def place(self, line: int) -> str:
        return f"{self._source}, line {line + self._first_line - 1}"

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text with the variables in their places. Raises UsageError, which quotes no value."""
        try:
            return self._template.render(variables)
        except Exception as error:
            line = _last_line(error.__traceback__, self._source)
            where = self._source if line is None else self.place(line)
            raise UsageError(f"{where}: {self._told(error)}") from None

    def _compiled(self, text: str) -> tuple[Template, nodes.Template]:
        try:
            tree = _ENVIRONMENT.parse(text)
            code = _ENVIRONMENT.compile(tree, filename=self._source)
        except TemplateSyntaxError as error:
            raise UsageError(f"{self.place(error.lineno)}: this is no valid Jinja2: {error.message}") from None
        except (RecursionError, SyntaxError):
            raise UsageError(f"{self._source}: the template is nested too deeply; make it flatter") from None
        return Template.from_code(_ENVIRONMENT, code, _ENVIRONMENT.make_globals(None)), tree

    def _refuse_other_files(self, tree: nodes.Template) -> None:
        for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
            what = "a prompt cannot include, import or extend other files; put their text here"
            raise UsageError(f"{self.place(node.lineno)}: {what}")

    def _told(self, error: Exception) -> str:
        if isinstance(error, SecurityError):
            return "a template may read public attributes and call what changes nothing; this it may not do"
        if isinstance(error, _IsFunction):
            return f"a {error} cannot be written out; call it, with () behind its name"
        if not isinstance(error, UndefinedError):
            return f"the template cannot be filled in with these variables ({type(error).__name__})"
        if not isinstance(error, _Missing):
            return "something is missing here"
        if error.holder is None and isinstance(error.name, str):
            return f"there is no {error.name!r} here"
        holder = "what is looked at here" if error.holder is None else f"a {error.holder.__name__}"
        known = isinstance(error.name, str) and error.name in self._attributes  # else it may be data
        choices = f" ({_choices(error.holder)}; where it may be missing, write: … | default(''))"
        return f"{holder} has no {repr(error.name) if known else 'such element'}{choices}"


class _IsFunction(TemplateRuntimeError):
    """Somebody forgot to call what was to be written out. The message is its type's name."""


class _Missing(UndefinedError):
    """What was missing, and the type of what should have had it (None for a variable)."""

    def __init__(self, name: Any, holder: type | None, _message: str | None):
        super().__init__("missing")
        self.name = name
        self.holder = holder


class _Nothing(StrictUndefined):
    """Raises at any use but `is defined` and `default`."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ):
        super().__init__(hint, obj, name, exc)
        if exc is UndefinedError:
            holder = None if obj is missing else type(obj)
            self._undefined_exception = partial(_Missing, name, holder)  # type: ignore[assignment]


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """A mapping's own element comes before its methods: a record may well have a field named `items`."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def _written_out(value: Any) -> Any:
    if callable(value) and not isinstance(value, StrictUndefined):
        raise _IsFunction(type(value).__name__)
    return value


def _json(value: Any, indent: int | None = None) -> str:
    """Plain JSON text, of pydantic models and dataclasses too: nothing in a prompt is escaped for HTML."""
    if isinstance(value, StrictUndefined):
        str(value)  # raises
    return to_json(value, indent=indent).decode()


def _environment() -> _Environment:
    environment = _Environment(undefined=_Nothing, autoescape=False, finalize=_written_out)
    environment.filters["tojson"] = _json
    return environment


_ENVIRONMENT = _environment()
_WITHOUT_GLOBALS = _environment()
_WITHOUT_GLOBALS.globals.clear()


def _names(tree: nodes.Template) -> Names:
    written = [name for name in tree.find_all(nodes.Name) if name.ctx == "load"]
    lines: dict[str, int] = {}
    for name in written:
        lines[name.name] = min(name.lineno, lines.get(name.name, name.lineno))
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    functions = {name.name for name in written if name.name in _ENVIRONMENT.globals}
    functions -= {name.name for name in written if id(name) not in called}
    tree.set_environment(_WITHOUT_GLOBALS)  # a variable may be named like one of Jinja2's functions
    used = frozenset(meta.find_undeclared_variables(tree)) - functions
    return Names(used, used - frozenset(_optional(tree, written)), lines)


def _optional(tree: nodes.Template, written: list[nodes.Name]) -> Iterator[str]:
    """Variables that may be missing: the template asks whether they are defined, or has a default wherever they are."""
    for test in tree.find_all(nodes.Test):
        if test.name in _TESTS and isinstance(test.node, nodes.Name):
            yield test.node.name
    filters = [one for one in tree.find_all(nodes.Filter) if one.name in _DEFAULTS]
    guarded = {id(one.node) for one in filters}
    bare = {name.name for name in written if id(name) not in guarded}
    yield from (name.name for name in written if name.name not in bare)


def _attributes(tree: nodes.Template) -> Iterator[str]:
    """The names of attributes and elements that stand in the template's own text."""
    yield from (node.attr for node in tree.find_all(nodes.Getattr))
    for node in tree.find_all(nodes.Getitem):
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            yield node.arg.value


def _choices(holder: type | None) -> str:
    """What a model or dataclass has, by its declaration; what a record's mapping holds may be data."""
    fields = getattr(holder, "model_fields", None) or getattr(holder, "__dataclass_fields__", None)
    return f"it has {', '.join(fields)}" if isinstance(fields, Mapping) and fields else "is the name right"


def _last_line(trace: TracebackType | None, source: str) -> int | None:
    """The line of the template where it happened: the innermost, since macros call one another."""
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
