"""How the next command is typed: it can be pasted, and holds no password."""

from __future__ import annotations

import pytest

from onward.cli.target import Target, store_words


def suggested(*typed: str) -> str:
    return Target("case", typed, None, None, None).command("status")


@pytest.mark.parametrize(
    ("store", "typed"),
    [
        ("postgresql://me:geheim@db:5432/work", "postgresql://me:PASSWORD@db:5432/work"),
        ("postgresql://me:ge#heim@db/work", "postgresql://me:PASSWORD@db/work"),
        ("postgresql://db/work?user=me&password=geheim", "'postgresql://db/work?user=me&password=PASSWORD'"),
        ("postgresql://me@one,two/work", "postgresql://me@one,two/work"),
        ("postgresql:///work?host=/run/pg", "'postgresql:///work?host=/run/pg'"),
        ("sqlite:///my jobs.db", "'sqlite:///my jobs.db'"),
        ("url=mysql://me:geheim@db/x", "url=mysql://me:PASSWORD@db/x"),
    ],
)
def test_for_a_password_there_is_a_word(store: str, typed: str) -> None:
    assert suggested("job.py", "--store", store) == f"onward status job.py --store {typed}"


def test_a_store_that_the_environment_names_is_not_typed() -> None:
    named = {"ONWARD_STORE": "postgresql://me:geheim@db/work"}
    assert store_words("postgresql://me:geheim@db/work", named) == []
    assert store_words("other.db", named) == ["--store", "other.db"]
    assert store_words(None, named) == []
