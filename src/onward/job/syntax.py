"""Source text as a syntax tree: the tokens that count, the names a piece of code uses, and where names are bound.

The tree is what remains of the tokens when comments, layout, quotes, brackets without meaning and docstrings are gone;
so a formatter changes nothing, and neither does another Python: fields that are empty or say nothing are left out.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import tokenize
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any

MOST_TRIES = 3
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WITHOUT_MEANING = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_OURS = frozenset({"step", "effect", "resource", "payload", "probe", "confirm"})


def tokens(node: ast.AST, plain: frozenset[str] = frozenset()) -> str:
    """The tokens of `node` that count, as text. Annotations of the parameters named in `plain` do not."""
    found: list[str] = []
    _write(node, found, plain)
    return " ".join(found)


def _write(value: Any, found: list[str], plain: frozenset[str]) -> None:
    if isinstance(value, list):
        found.append("[")
        for item in value:
            _write(item, found, plain)
        found.append("]")
    elif isinstance(value, ast.AST):
        found.append(f"{type(value).__name__}(")
        for name in value._fields:
            part = _part(value, name, plain)
            if part is not None and part != []:
                found.append(f"{name}=")
                _write(part, found, plain)
        found.append(")")
    else:
        found.append(repr(value))


def _part(node: ast.AST, name: str, plain: frozenset[str]) -> Any:
    value: Any = getattr(node, name, None)
    if name in _WITHOUT_MEANING:
        return None
    if isinstance(node, ast.Constant) and name == "value":
        return _Literal(value)
    if isinstance(node, ast.JoinedStr):  # some Pythons put empty texts between the parts
        return [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
    if isinstance(node, _DEFINITIONS):
        if name == "body":
            return _without_docstring(value)
        if name == "decorator_list":
            return [decorator for decorator in value if not _is_ours(decorator)]
    if isinstance(node, ast.arg) and name == "annotation" and node.arg in plain:
        return None
    return value


class _Literal:
    """A constant, told from an absent field: None and [] are values here."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return f"{type(self.value).__name__}:{self.value!r}"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:]
    return body


def _is_ours(decorator: ast.expr) -> bool:
    """Whether it is `@job.step`, `@job.step(…)` and the like: how often a step is tried is not what it does."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.attr in _OURS


def names_used(node: ast.AST, plain: frozenset[str] = frozenset()) -> set[str]:
    """The names that `node` takes from around it: read in it, and neither its parameters nor bound in it."""
    names = _Names(plain)
    names.visit(node)
    return (names.read - names.bound) | names.passed_on


class _Names(ast.NodeVisitor):
    """Names read and bound in one scope; `passed_on` are those that scopes within it take from around them."""

    def __init__(self, plain: frozenset[str] = frozenset()):
        self.plain = plain
        self.read: set[str] = set()
        self.bound: set[str] = set()
        self.declared_global: set[str] = set()
        self.passed_on: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        (self.read if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)

    def visit_Global(self, node: ast.Global) -> None:
        self.declared_global.update(node.names)
        self.read.update(node.names)

    def visit_alias(self, node: ast.alias) -> None:
        self.bound.add((node.asname or node.name).split(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind(node.rest)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._definition(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._arguments(node.args)
        self._inner(node.args, [node.body], sees_through=False)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._inner(None, [*node.generators, node.elt], sees_through=False)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._inner(None, [*node.generators, node.elt], sees_through=False)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._inner(None, [*node.generators, node.elt], sees_through=False)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._inner(None, [*node.generators, node.key, node.value], sees_through=False)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.bound.add(node.name)
        for decorator in node.decorator_list:
            if not _is_ours(decorator):
                self.visit(decorator)
        if isinstance(node, ast.ClassDef):
            for part in (*node.bases, *node.keywords):
                self.visit(part)
            self._inner(None, node.body, sees_through=True)
        else:
            self._arguments(node.args)
            if node.returns is not None:
                self.visit(node.returns)
            self._inner(node.args, node.body, sees_through=False)

    def _arguments(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        for argument in _every(arguments):
            if argument.annotation is not None and argument.arg not in self.plain:
                self.visit(argument.annotation)

    def _inner(self, arguments: ast.arguments | None, body: list[Any], sees_through: bool) -> None:
        """`sees_through`: what is bound in a class body is not visible in its methods."""
        inner = _Names()
        inner.bound = {argument.arg for argument in _every(arguments)} if arguments else set()
        for statement in body:
            inner.visit(statement)
        bound = inner.bound - inner.declared_global
        self.passed_on |= (inner.read - bound) | (inner.passed_on if sees_through else inner.passed_on - bound)

    def _bind(self, name: str | None) -> None:
        if name is not None:
            self.bound.add(name)


def _every(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)


class SourceFile:
    """The text of one file, or of one notebook cell, as it was when something in it was declared."""

    def __init__(self, name: str, text: str):
        self.name = name
        self._text = text
        self._bindings: dict[Scope, dict[str, list[ast.stmt]]] = {}

    @cached_property
    def tree(self) -> ast.Module | None:
        try:
            return _parsed(self._text)
        except (SyntaxError, ValueError):
            return None

    def find(self, code: CodeType) -> list[tuple[Function, tuple[Scope, ...]]]:
        """The functions that `code` may come from (several where lambdas share a line) and the scopes around them."""
        return [found for found in self._functions if _matches(found[0], code)]

    def find_class(self, qualified_name: str) -> tuple[ast.ClassDef, tuple[Scope, ...]] | None:
        """The class of that `__qualname__`; the last one where several share it."""
        wanted = [part for part in qualified_name.split(".") if part != "<locals>"]
        found = None
        for node, scopes in self._definitions:
            path = [scope.name for scope in scopes if not isinstance(scope, ast.Module | ast.Lambda)]
            if isinstance(node, ast.ClassDef) and [*path, node.name] == wanted:
                found = (node, scopes)
        return found

    @cached_property
    def _definitions(self) -> list[tuple[Any, tuple[Scope, ...]]]:
        return list(_walk(self.tree, (self.tree,))) if self.tree is not None else []

    @cached_property
    def _functions(self) -> list[tuple[Function, tuple[Scope, ...]]]:
        return [found for found in self._definitions if not isinstance(found[0], ast.ClassDef)]

    def bindings(self, name: str, scopes: tuple[Scope, ...]) -> tuple[list[ast.stmt], tuple[Scope, ...]]:
        """The statements that make up what `name` means seen from within `scopes`, and the scopes they stand in."""
        for depth in range(len(scopes), 0, -1):
            scope = scopes[depth - 1]
            if isinstance(scope, ast.ClassDef | ast.Lambda):
                continue
            if scope not in self._bindings:
                self._bindings[scope] = _bindings_in(scope.body)
            if name in self._bindings[scope]:
                return self._bindings[scope][name], scopes[:depth]
        return [], ()


def _parsed(text: str) -> ast.Module:
    """Some versions of Python lose count when other code runs in mid-parse (python/cpython#106905): then once more."""
    for _ in range(MOST_TRIES - 1):
        with contextlib.suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


def _walk(node: ast.AST, scopes: tuple[Scope, ...]) -> Iterator[tuple[ast.AST, tuple[Scope, ...]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES):
            yield child, scopes
            yield from _walk(child, (*scopes, child))
        else:
            yield from _walk(child, scopes)


def _matches(node: Function, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    lines = {node.lineno, *(decorator.lineno for decorator in node.decorator_list[:1])}
    return node.name == code.co_name and code.co_firstlineno in lines


def _bindings_in(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """For each name bound by a definition or an assignment: the statements that bind it, or change it in place."""
    bound: dict[str, list[ast.stmt]] = {}
    changed: dict[str, list[ast.stmt]] = {}
    for statement in _flat(body):
        for name in _bound_by(statement):
            bound.setdefault(name, []).append(statement)
            changed.setdefault(name, []).append(statement)
        for name in _changed_by(statement):
            changed.setdefault(name, []).append(statement)
    return {name: changed[name] for name in bound}


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):
            if not _is_main_guard(statement):
                yield from _flat([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try | ast.TryStar):
            handled = [inner for handler in statement.handlers for inner in handler.body]
            yield from _flat([*statement.body, *handled, *statement.orelse, *statement.finalbody])
        else:
            yield statement


def _is_main_guard(statement: ast.If) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def _bound_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return set()
    names = _Names()
    names.visit(statement)
    return names.bound


def _changed_by(statement: ast.stmt) -> set[str]:
    """`TABLE[key] = …`, `TABLE.field = …`, `TABLE.update(…)`, also within loops."""
    changed: set[str | None] = set()
    if isinstance(statement, _DEFINITIONS):
        return set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed.add(_root(node))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        changed.add(_root(statement.value.func))
    return {name for name in changed if name is not None} - _bound_by(statement)


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


_read: dict[str, tuple[tuple[int, int, int], SourceFile]] = {}


def source_file(name: str, module_globals: Mapping[str, Any]) -> SourceFile | None:
    """The source text that code of file `name` comes from, a notebook's cell too; None where there is none."""
    try:
        facts = Path(name).stat()
        identity = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        if name not in _read or _read[name][0] != identity:
            with tokenize.open(name) as file:
                _read[name] = (identity, SourceFile(name, file.read()))
        return _read[name][1]
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        lines = linecache.getlines(name, dict(module_globals))
        return SourceFile(name, "".join(lines)) if lines else None
