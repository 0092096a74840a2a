"""The job that the README shows for asking a model runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from acceptance.jobs import Place
from helpers.llm import llm_server

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_job_that_asks_a_model_runs(tmp_path: Path) -> None:
    (text,) = re.findall(r"```python\n(# read\.py\n.*?)```", README.read_text("utf-8"), re.DOTALL)
    place = Place(tmp_path, "")
    (tmp_path / "job.py").write_text(text)
    with llm_server(tmp_path) as server:
        ran = place.run(env=server.environment)
    assert (ran.code, ran.counts) == (0, {"succeeded": 2}), ran.said
    assert all(set(row["outputs"]["read"]) == {"topic", "urgent"} for row in place.export())
    assert ran.status["cost"]["spent_usd"] > 0
