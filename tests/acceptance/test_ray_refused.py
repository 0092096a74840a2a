"""`--on ray` where Ray does not come up: what Ray itself says of it is what people are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from acceptance.jobs import Place, echo_job, plain, surroundings
from helpers import postgres

SAYS = """
class AuthenticationError(Exception):
    "One that is no OSError, as Ray's own is none."

def init(**options):
    {how}
"""
WITHOUT_A_TOKEN = "raise AuthenticationError('the token file is empty\\nray get-auth-token --generate makes one')"
DIES = "import os, sys; print('Ray: the head has no room', file=sys.stderr, flush=True); os._exit(1)"


@pytest.fixture
def url(database: str) -> Iterator[str]:
    """The address of a store that is not there yet."""
    schema = postgres.new_schema()
    yield postgres.in_schema(database, schema)
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        (WITHOUT_A_TOKEN, 2, "onward: no Ray cluster can be used: the token file is empty"),
        (DIES, 3, "onward: the cluster is gone, or cannot be reached any more: Ray: the head has no room"),
    ],
)
def test_why_ray_does_not_come_up_is_said(tmp_path: Path, url: str, how: str, code: int, said: str) -> None:
    (tmp_path / "stand-in" / "ray").mkdir(parents=True)
    (tmp_path / "stand-in" / "ray" / "__init__.py").write_text(SAYS.format(how=how))
    place = Place(tmp_path, echo_job('onward.jsonl("in.jsonl", key="id")'))
    place.write("in.jsonl", [{"id": 1}])
    before = ("env", f"PYTHONPATH={tmp_path / 'stand-in'}:{surroundings()['PYTHONPATH']}")
    for more in ((), ("--json",), ("--log-format", "json")):
        ended = place.onward("run", "job.py", "--store", url, "--on", "ray", "--workers", "2", *more, before=before)
        assert ended.returncode == code, ended.stderr
        assert said in ended.stderr
        assert "run it first" not in ended.stderr and "run the job first" not in ended.stderr
        plain(ended.stderr)
