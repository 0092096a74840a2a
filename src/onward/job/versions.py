"""Fingerprints of steps: the same for the same code in every process, another when what a result depends on changes.

A step's version covers its own function, what it names in the same file (functions, classes, constants, and on), the
values of variables it holds from an enclosing function, its output schema, and `uses=`. It does not see imported
modules, installed packages, files and services: what matters there belongs into `uses=`. Comments, layout, docstrings
and the decorators of onward do not count. Code without source text (an `exec`, some prompts) is known by its bytecode
instead, which differs between versions of Python.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from onward.errors import DeclarationError
from onward.job.annotations import closure
from onward.job.canonical import canonical, stable_repr
from onward.job.models import AskedModel, Described, described_in
from onward.job.place import in_notebook
from onward.job.syntax import Scope, SourceFile, names_used, source_file, tokens

_FORMAT = "onward step version 1"
_PARAMS = "params."
_Module = Mapping[str, Any]
NO_NAMES: frozenset[str] = frozenset()


def fingerprint(parts: Sequence[str]) -> str:
    """12 hexadecimal digits for these texts, in this order."""
    import hashlib

    digest = hashlib.blake2b(_FORMAT.encode(), digest_size=6)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


class StepCode(NamedTuple):
    """A step's fingerprint, and what its code names that describes itself: models and prompts. `parts`: fingerprints of
    its code (unless it has a `version=`), its models and its prompts alone, by which it is told what has changed."""

    version: str
    described: tuple[Described, ...]
    parts: tuple[tuple[str, str], ...] = ()


def step_code(
    function: Callable[..., Any],
    file: SourceFile | None,
    *,
    plain: frozenset[str],
    schema: Any,
    uses: Sequence[Any],
    param: Callable[[str], Any],
    ignored: tuple[type, ...],
    version: str | int | None = None,
) -> StepCode:
    """What is known of a step whose source was `file` when it was declared.

    `plain`: parameters whose annotations change nothing. `param` gives a param's value by name. Module variables
    whose value is one of the `ignored` types (the job itself) do not count. `version` stands instead of all else.
    """
    code = Code(function, ignored, file)
    parts = code.parts(plain)
    described = (*code.described, *(one for use in uses for one in described_in(use)))
    if version is not None:
        return StepCode(str(version), described, _apart(described))
    declared = [] if schema is None else [f"schema {canonical(schema)}"]
    used = [_use(use, param, ignored) for use in uses]
    plain_uses = [text for use, text in zip(uses, used, strict=True) if not described_in(use)]
    own = fingerprint([*code.without_described(parts), *declared, *plain_uses])
    return StepCode(fingerprint([*parts, *declared, *used]), described, (("code", own), *_apart(described)))


def _apart(described: Sequence[Described]) -> tuple[tuple[str, str], ...]:
    models = sorted({one.described() for one in described if isinstance(one, AskedModel)})
    prompts = sorted({one.described() for one in described if not isinstance(one, AskedModel)})
    return ("model", fingerprint(models)), ("prompt", fingerprint(prompts))


def used_params(uses: Sequence[Any]) -> list[str]:
    """The params named in `uses=`: `"params.NAME"`."""
    return [use.removeprefix(_PARAMS) for use in uses if isinstance(use, str) and use.startswith(_PARAMS)]


def check_uses(uses: Sequence[Any]) -> None:
    """Raises DeclarationError for a value that would look different in each process."""
    for use in uses:
        _use(use, lambda name: None, ())


def _use(use: Any, param: Callable[[str], Any], ignored: tuple[type, ...]) -> str:
    if isinstance(use, str) and use.startswith(_PARAMS):
        return f"param {use} {_value(param(use.removeprefix(_PARAMS)))}"
    if found := described_in(use):
        return " ".join(["value", *(one.described() for one in found)])
    inner = _unwrapped(use)
    if inspect.isfunction(inner) or inspect.isclass(inner):
        return "\n".join(["code", *Code(inner, ignored).parts(NO_NAMES)])
    return f"value {_value(use)}"


def _value(value: Any) -> str:
    said = canonical(value) or stable_repr(value)
    if said is None:
        raise DeclarationError(
            f"uses= has a value of type {type(value).__name__}, which does not look the same in every process; give "
            "plain values, functions, or a text that names its version"
        )
    return said


class Code:
    """One function or class with everything in its file that it names, and on from there."""

    def __init__(self, origin: Any, ignored: tuple[type, ...] = (), file: SourceFile | None = None):
        self._origin = _unwrapped(origin)
        self._ignored = ignored
        self._file = file
        self._told: dict[str, str] = {}
        self._self_described: set[str] = set()
        self.described: list[Described] = []

    def parts(self, plain: frozenset[str]) -> list[str]:
        """Its own text, then what it names in the order of names: moving a helper changes nothing."""
        own = self._object(self._origin, plain)
        return [own, *(f"{name} {text}" for name, text in sorted(self._told.items()))]

    def without_described(self, parts: Sequence[str]) -> list[str]:
        """Of its parts those that are code: without models and prompts."""
        named = sorted(self._told)
        kept = (part for name, part in zip(named, parts[1:], strict=True) if name not in self._self_described)
        return [parts[0], *kept]

    def _object(self, value: Any, plain: frozenset[str] = NO_NAMES) -> str:
        """The text of a function or class; what it names is added to what is told."""
        module = _module_of(value)
        if inspect.isfunction(value):
            for name, held in sorted(closure(value).items()):
                self._tell_value(name, held)
        texts = []
        for file, node, scopes in self._sources(value, module):
            texts.append(tokens(node, plain))
            self._follow(names_used(node, plain), file, scopes, module)
        return " ".join(texts) if texts else self._without_source(value, module)

    def _sources(self, value: Any, module: _Module) -> Iterator[tuple[SourceFile, ast.AST, tuple[Scope, ...]]]:
        for name in _file_names(value, module):
            known = self._file is not None and self._file.name == name
            file = self._file if known else source_file(name, module)
            if file is None:
                continue
            if inspect.isfunction(value):
                yield from ((file, node, scopes) for node, scopes in file.find(value.__code__))
            elif (found := file.find_class(value.__qualname__)) is not None:
                yield (file, *found)

    def _follow(self, names: set[str], file: SourceFile, scopes: tuple[Scope, ...], module: _Module) -> None:
        for name in sorted(names - self._told.keys()):
            statements, inner = file.bindings(name, scopes)
            if found := described_in(module.get(name)):
                self._tell_described(name, found)
            elif not statements:
                if in_notebook(module) and name in module:
                    self._tell_value(name, module[name])
            elif not isinstance(module.get(name), self._ignored):
                self._told[name] = " ".join(tokens(statement) for statement in statements)
                for statement in statements:
                    self._follow(names_used(statement), file, inner, module)

    def _tell_value(self, name: str, value: Any) -> None:
        """A variable known by its value: a plain one as it is, a function or class of the same module by its text."""
        if name in self._told or isinstance(value, self._ignored):
            return
        if found := described_in(value):
            self._tell_described(name, found)
            return
        said = canonical(value)
        inner = _unwrapped(value)
        if said is not None:
            self._told[name] = said
        elif _is_code(inner) and inner.__module__ == self._origin.__module__:
            self._told[name] = ""  # it may name itself
            self._told[name] = self._object(inner)

    def _tell_described(self, name: str, found: list[Described]) -> None:
        self._told[name] = " ".join(one.described() for one in found)
        self._self_described.add(name)
        self.described.extend(found)

    def _without_source(self, value: Any, module: _Module) -> str:
        if not inspect.isfunction(value):
            members = {**vars(value)}
            shown = {name: canonical(member) for name, member in members.items() if not name.startswith("__")}
            return f"{value.__qualname__} {shown} {members.get('__annotations__')}"
        for name in sorted(_names_in(value.__code__)):
            if name in module:
                self._tell_value(name, module[name])
        return _bytecode(value.__code__, value.__doc__)


def declared_source(function: Callable[..., Any]) -> SourceFile | None:
    """The source text as it is now: an edit while the process runs is not to pass for the code that runs."""
    inner = _unwrapped(function)
    return source_file(inner.__code__.co_filename, inner.__globals__) if inspect.isfunction(inner) else None


def _unwrapped(value: Any) -> Any:
    return inspect.unwrap(value) if callable(value) else value


def _is_code(value: Any) -> bool:
    return inspect.isfunction(value) or inspect.isclass(value)


def _module_of(value: Any) -> _Module:
    if inspect.isfunction(value):
        return value.__globals__
    module = sys.modules.get(getattr(value, "__module__", ""))
    return vars(module) if module is not None else {}


def _file_names(value: Any, module: _Module) -> list[str]:
    """The files that a function or class may be written in."""
    if inspect.isfunction(value):
        return [value.__code__.co_filename]
    methods = [member for member in vars(value).values() if inspect.isfunction(member)]
    names = [method.__code__.co_filename for method in methods if method.__module__ == value.__module__]
    file = module.get("__file__")
    return list(dict.fromkeys([file, *names] if isinstance(file, str) else names))


def _names_in(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*(_names_in(constant) for constant in inner))


def _bytecode(code: CodeType, docstring: str | None = None) -> str:
    constants = [
        _bytecode(constant) if isinstance(constant, CodeType) else canonical(constant) or type(constant).__name__
        for constant in code.co_consts
        if not (docstring is not None and constant == docstring)
    ]
    return f"bytecode {code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {constants}"
