from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from pathlib import Path
from types import CodeType

import pytest

from onward.job.syntax import SourceFile, names_used, tokens


def used(text: str) -> set[str]:
    node = ast.parse(textwrap.dedent(text)).body[0]
    return names_used(node)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(a, b=D, *c, d: A = K, **e) -> R: return a, b, c, d, e, G", {"D", "A", "K", "R", "G"}),
        ("def f():\n x = X\n return x", {"X"}),
        ("def f(): return f", {"f"}),
        ("def f(y): return [x for x in y if x > G]", {"G"}),
        ("def f(y): return [x for x in y], x", {"x"}),
        ("def f(y): return {k: v for k, v in y}", set()),
        ("def f():\n global X\n X = 1", {"X"}),
        ("def f():\n x = 1\n def g(): return x, Y\n return g", {"Y"}),
        ("def f():\n def g(p=X): return p\n return g", {"X"}),
        ("def f():\n import os.path as p, sys\n return p, sys", set()),
        ("def f():\n try: pass\n except E as e: return e", {"E"}),
        (
            "def f(x):\n match x:\n  case {'a': y, **z}: return y, z\n  case [*w] as v: return w, v\n  case C(): pass",
            {"C"},
        ),
        ("class A(B, metaclass=M):\n x = 1\n def f(self): return x, self.y", {"B", "M", "x"}),
        ("class A:\n x = X\n y = x", {"X"}),
        ("x = lambda a, b=c: a + b + d", {"c", "d"}),
        ("def f(a): return lambda: a", set()),
        ("@job.step(uses=U)\n@mine(M)\ndef f(a): return a", {"mine", "M"}),
        ("async def f(a):\n async with o() as x:\n  async for y in x: yield y", {"o"}),
        ("def f(): (x := 1); return x", set()),
    ],
)
def test_names_used(text: str, names: set[str]) -> None:
    assert used(text) == names


def _global_names(code: CodeType) -> set[str]:
    """What the compiler says: names that the code loads from module or builtins."""
    import dis

    found = {str(it.argval) for it in dis.get_instructions(code) if it.opname in ("LOAD_GLOBAL", "STORE_GLOBAL")}
    return found.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


@pytest.mark.parametrize("module", ["ast", "argparse", "dataclasses", "inspect", "json.decoder", "textwrap", "typing"])
def test_no_name_is_missed_in_real_code(module: str) -> None:
    __import__(module)
    loaded = sys.modules[module]
    file = SourceFile(module, Path(inspect.getfile(loaded)).read_text())
    seen = 0
    for value in vars(loaded).values():
        if inspect.isfunction(value) and value.__module__ == module:
            found = file.find(value.__code__)
            assert found, value
            names = set().union(*(names_used(node) for node, _ in found))
            missed = _global_names(value.__code__) - names - set(dir(builtins))
            assert not missed, value
            seen += 1
    assert seen


def bindings(text: str, name: str) -> list[str]:
    file = SourceFile("x", textwrap.dedent(text))
    assert file.tree is not None
    return [ast.unparse(statement) for statement in file.bindings(name, (file.tree,))[0]]


def test_bindings() -> None:
    text = """
    import os
    A = 1
    A += 2
    B, (C, *D) = A, (1, 2)
    if A:
        A = 3
    else:
        B = 4
    try:
        import fast as E
    except ImportError:
        E = None
    with open("x") as F:
        G = F.read()
    for i in range(3):
        H[i] = 1
    H.extend([1])
    H = []
    H.append(2)
    os.environ["X"] = "1"
    def f():
        A = 5
        H[0] = 2
    if __name__ == "__main__":
        A = 6
    """
    assert bindings(text, "A") == ["A = 1", "A += 2", "A = 3"]
    assert bindings(text, "C") == bindings(text, "D") == ["B, (C, *D) = (A, (1, 2))"]
    assert bindings(text, "B")[1] == "B = 4"
    assert bindings(text, "E") == ["E = None"]
    assert len(bindings(text, "G")) == 1
    assert [line.split("\n")[0] for line in bindings(text, "H")] == [
        "for i in range(3):", "H.extend([1])", "H = []", "H.append(2)",
    ]  # fmt: skip
    assert bindings(text, "os") == bindings(text, "nothing") == []


def test_a_text_that_is_no_python_has_no_tree() -> None:
    file = SourceFile("x", "def (:")
    assert file.tree is None
    assert file.find(test_bindings.__code__) == []


def test_absent_and_empty_are_told_apart_in_constants() -> None:
    texts = {tokens(ast.parse(text)) for text in ("None", "...", "''", "b''", "0", "0.0", "False", "[]", "()", "0j")}
    assert len(texts) == 10


def test_a_parser_that_loses_count_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may do so where other code runs in mid-parse."""
    whole, failures = ast.parse, iter([SystemError("AST constructor recursion depth mismatch"), None])

    def parse(text: str) -> ast.Module:
        if (error := next(failures, None)) is not None:
            raise error
        return whole(text)

    monkeypatch.setattr(ast, "parse", parse)
    assert SourceFile("job.py", "x = 1").tree is not None
