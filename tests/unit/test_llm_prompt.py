"""Prompts: what they need, what they render, how their version follows the text, and errors that quote no data."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from onward.errors import UsageError
from onward.llm.prompt import Prompt

SECRET = "4111-1111-1111-1111"


class Ticket(BaseModel):
    id: str = "t1"
    body: str = SECRET


@dataclasses.dataclass
class Plain:
    body: str = SECRET


class Odd:
    @property
    def body(self) -> str:
        raise RuntimeError(SECRET)


def refused(make: Any, *words: str) -> str:
    with pytest.raises(UsageError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("record", [Ticket(body="a < b"), Plain("a < b"), {"body": "a < b"}])
def test_a_record_of_any_kind_is_looked_into_and_nothing_is_escaped(record: Any) -> None:
    prompt = Prompt("Sum up: {{ ticket.body }}\n", system="You write {{ words }} words.")
    assert prompt.render(ticket=record, words=5, other=1) == ("You write 5 words.", "Sum up: a < b")
    assert Prompt("{{ ticket['body'] }}").render(ticket=record) == (None, "a < b")


@pytest.mark.parametrize(
    ("text", "needed", "optional"),
    [
        ("{{ a }} {{ b.c }}", {"a", "b"}, set()),
        ("{% for line in lines %}{{ loop.index }} {{ line }}{% endfor %}", {"lines"}, set()),
        ("{% set x = y %}{{ x }}", {"y"}, set()),
        ("{% macro m(p) %}{{ p }} {{ outer }}{% endmacro %}{{ m(1) }}", {"outer"}, set()),
        ("{{ note | default('none') }}", set(), {"note"}),
        ("{{ note | d('none') }} {{ note }}", {"note"}, set()),
        ("{% if note is defined %}{{ note }}{% endif %}", set(), {"note"}),
        ("{% for i in range(3) %}{{ i }}{% endfor %}", set(), set()),
        ("{{ range }}", {"range"}, set()),
        ("plain", set(), set()),
    ],
)
def test_which_variables_must_be_given(text: str, needed: set[str], optional: set[str]) -> None:
    prompt = Prompt(text)
    assert (prompt.variables, prompt.optional) == (needed, optional)
    as_system = Prompt("{{ mine }}", system=text)
    assert (as_system.variables, as_system.optional) == (needed | {"mine"}, optional)


def test_one_part_needs_what_the_other_can_do_without() -> None:
    prompt = Prompt("{{ note }}", system="{{ note | default('') }}")
    assert (prompt.variables, prompt.optional) == ({"note"}, set())


def test_a_missing_variable_is_named_with_its_place_and_the_choices() -> None:
    prompt = Prompt("one\ntwo {{ ticket.body }}")
    said = refused(lambda: prompt.render(tikcet=Ticket(), words=SECRET), "'ticket'", "(given: tikcet, words)", "line 2")
    assert Path(__file__).name in said
    refused(lambda: Prompt("{% if no %}{{ never }}{% endif %}").render(no=False), "'never'")


def test_variables_of_any_name_can_be_given() -> None:
    assert Prompt("{{ user }}{{ range }}{{ loop }}").render(user=1, range=2, loop=3, self=4) == (None, "123")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ ticket.bdy }}", ["Ticket has no 'bdy'", "id, body"]),
        ("{{ ticket[ticket.body] }}", ["no such element"]),
        ("{{ plain.bdy | tojson }}", ["Plain has no 'bdy'", "it has body"]),
        ("{{ many.bdy }}", ["dict has no 'bdy'"]),
        ("{{ many['x' ~ ticket.body] }}", ["dict has no such element"]),
        ("{{ ticket.body + 1 }}", ["TypeError"]),
        ("{{ odd.body }}", ["RuntimeError"]),
        ("{{ [odd] | tojson }}", ["PydanticSerializationError"]),
        ("{{ ticket.body.upper }}", ["cannot be written out", "()"]),
        ("{{ ticket.__class__ }}", ["public attributes"]),
        ("{{ many.clear() }}", ["changes nothing"]),
    ],
)
def test_what_goes_wrong_in_a_record_names_the_place_and_quotes_nothing(text: str, words: list[str]) -> None:
    variables = {"ticket": Ticket(), "plain": Plain(), "many": {SECRET: SECRET}, "odd": Odd()}
    refused(lambda: Prompt(f"one\n\n{text}").render(**variables), "line 3", *words)


def test_the_place_in_a_macro_is_where_it_happened() -> None:
    text = "{% macro m(p) %}\n{{ p.gone }}\n{% endmacro %}\n{{ m({}) }}"
    refused(lambda: Prompt(text).render(), "line 2")


def test_what_may_be_missing_has_a_default() -> None:
    assert Prompt("{{ t.note | default('none') }}").render(t={}) == (None, "none")
    assert Prompt("{% if t.note is defined %}x{% endif %}y").render(t=Ticket()) == (None, "y")


def test_a_records_field_comes_before_a_method_of_its_name() -> None:
    assert Prompt("{{ t.items }} {{ t.keys }}").render(t={"items": 3, "keys": "k"}) == (None, "3 k")
    assert Prompt("{% for k, v in t.items() %}{{ k }}{{ v }}{% endfor %}").render(t={"a": 1}) == (None, "a1")


def test_json_is_plain_json() -> None:
    rendered = Prompt("{{ t | tojson }} {{ p | tojson(indent=1) }}").render(t=Ticket(body="<é'&>"), p=Plain("x"))
    assert rendered == (None, '{"id":"t1","body":"<é\'&>"} {\n "body": "x"\n}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\n{% if %}", ["line 2", "no valid Jinja2"]),
        ("a\n{{ b", ["line 2", "no valid Jinja2"]),
        ("a\n{{ b | shrink }}", ["line 2", "shrink"]),
        ("a\n{% include 'other.txt' %}", ["line 2", "include"]),
        ("{% from 'other.txt' import m %}", ["line 1", "import"]),
        ("a\n{{ self }}", ["line 2", "self"]),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", ["nested too deeply"]),
        ("{% for x in y %}" * 30 + "{% endfor %}" * 30, ["nested too deeply"]),
        (" \n", ["no text"]),
    ],
)
def test_what_is_no_template_is_refused_when_it_is_made(text: str, words: list[str]) -> None:
    refused(lambda: Prompt(text), Path(__file__).name, *words)


def test_what_is_no_text_is_refused() -> None:
    wrong: Any = Path("prompt.txt")
    refused(lambda: Prompt(wrong), "Prompt(user=…)", "from_file")
    refused(lambda: Prompt("a", system=wrong), "Prompt(system=…)")


def test_without_jinja2_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onward.llm.templates", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    refused(lambda: Prompt("a"), "pip install 'onward[llm]'")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "prompt.txt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "system", "user"),
    [
        (b"Hello {{ name }}\n", None, "Hello {{ name }}"),
        (b"\xef\xbb\xbfsystem: Be {{ kind }}.\n---\nHello\n---\nagain\n", "Be {{ kind }}.", "Hello\n---\nagain"),
        (b"system:\r\nBe\r\n  kind.\r\n\r\n---  \r\n\r\n  Hello\r\n", "Be\n  kind.", "  Hello"),
        (b"\nsystem: Be kind.\n---\nHello", "Be kind.", "Hello"),
        (b"system:\n---\nHello", None, "Hello"),
        (b"A system: none\n---\nHello", None, "A system: none\n---\nHello"),
        (b"system: a ---\n----\n---\nHello", "a ---\n----", "Hello"),
        ("Grüße".encode(), None, "Grüße"),
    ],
)
def test_a_file_is_the_users_text_and_may_begin_with_the_systems(
    tmp_path: Path, data: bytes, system: str | None, user: str
) -> None:
    prompt = Prompt.from_file(written(tmp_path, data))
    assert (prompt.system, prompt.user) == (system, user)
    assert prompt == Prompt(user, system=system)
    assert hash(prompt) == hash(Prompt(user, system=system))
    assert prompt.version == Prompt(user, system=system).version


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\nsystem: Be kind.\nHello", ["line 2", "no line ---"]),
        (b"system: Be kind.\n---\n\n", ["no text for the user"]),
        (b"ab\nc\xff", ["line 2", "UTF-8"]),
        (b"system:\n\n{{ }}\n---\nHello", ["line 3"]),
        (b"system: a\n---\n\nHello\n{{ }}", ["line 5"]),
    ],
)
def test_what_is_wrong_with_a_file_names_its_line(tmp_path: Path, data: bytes, words: list[str]) -> None:
    refused(lambda: Prompt.from_file(written(tmp_path, data)), "prompt.txt", *words)


def test_a_variable_missing_for_a_file_names_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, b"system: a\nb {{ kind }}\n---\n\nHello {{ ticket.body }}")
    refused(lambda: Prompt.from_file(path).render(ticket=1), "prompt.txt, line 2:", "'kind'")
    refused(lambda: Prompt.from_file(path).render(kind=1), "prompt.txt, line 5:", "'ticket'")
    refused(lambda: Prompt.from_file(path).render(kind=1, ticket=Odd()), "prompt.txt, line 5:", "RuntimeError")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    refused(lambda: Prompt.from_file(tmp_path / "gone.txt"), "gone.txt", "cannot be read")
    refused(lambda: Prompt.from_file(tmp_path), "cannot be read")


def test_a_relative_path_starts_from_the_file_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, b"Hello")
    job = tmp_path / "job.py"
    job.write_text("from onward.llm.prompt import Prompt\nprompt = Prompt.from_file('prompt.txt')\n", "utf-8")
    code = compile(job.read_text("utf-8"), str(job), "exec")
    in_a_file: dict[str, Any] = {"__file__": str(job), "__name__": "job"}
    exec(code, in_a_file)
    monkeypatch.chdir(tmp_path)
    in_a_notebook: dict[str, Any] = {"__name__": "__main__"}
    exec(code, in_a_notebook)
    assert in_a_file["prompt"].user == in_a_notebook["prompt"].user == "Hello"


TEXTS = st.text(st.sampled_from("ab {}\n\r"), min_size=1, max_size=8).filter(lambda text: text.strip())


def normalised(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(TEXTS, st.none() | TEXTS, TEXTS, st.none() | TEXTS)
def test_versions_differ_exactly_where_texts_do(user: str, system: str | None, user2: str, system2: str | None) -> None:
    try:
        one, other = Prompt(user, system=system), Prompt(user2, system=system2)
    except UsageError:
        return
    texts = [(normalised(u), None if s is None else normalised(s)) for u, s in ((user, system), (user2, system2))]
    assert (one.version == other.version) == (texts[0] == texts[1])


def test_versions_are_the_same_in_every_process_and_know_the_parts_apart() -> None:
    assert Prompt("Hello\r\n{{ a }}", system="Be kind.").version == "9203196ed7ce"
    assert Prompt("a", system="b").version != Prompt("b", system="a").version
    assert Prompt("a").version != Prompt("a", system="b").version


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=20)), st.text(max_size=20))
def test_values_are_data_and_never_templates(variables: dict[str, str], text: str) -> None:
    values = {"a": "", "b": "", "c": text} | variables
    assert Prompt("{{ a }}|{{ b }}|{{ c }}").render(**values) == (None, f"{values['a']}|{values['b']}|{values['c']}")
