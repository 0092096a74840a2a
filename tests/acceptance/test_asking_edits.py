"""A prompt that is edited in the middle of the night throws nothing away, and says what is what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from acceptance.asking_jobs import ASKING, asked, rows
from acceptance.jobs import Place


def edit(place: Place, old: str, new: str) -> None:
    assert ASKING.count(old) == 1, old
    place.job(ASKING.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('"In one sentence: ', '"Briefly: ', "prompt"),
        ('Model("small"', 'Model("large"', "model"),
        ("    return await", "    await onward_sleep()\n    return await", "code"),
    ],
)
def test_the_run_says_what_was_edited_and_what_is_kept(tmp_path: Path, old: str, new: str, part: str) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(60))
        spent = place.run("--limit", "20", env=server.environment).status["cost"]["spent_usd"]
        edit(place, old, new)
        if part == "code":
            place.job((ASKING.replace(old, new)).replace("@job.step", "async def onward_sleep(): ...\n\n@job.step"))
        said = place.run("--limit", "1", env=server.environment).said
    (line,) = [line for line in said.splitlines() if "kept from" in line]
    pattern = (
        rf"20 kept from the older {part}, 40 to go with the new; re-running the old ones would cost about "
        r"\$([0-9.]+) \(([0-9.]+)–([0-9.]+)\), by what the older version cost, at its prices: "
        r"onward rerun job.py --stale"
    )
    match = re.fullmatch(pattern, line)
    assert match, line
    expected, least, most = map(float, match.groups())
    assert least < expected < most
    assert expected == pytest.approx(spent, rel=0.1)
    assert "stale; re-run them" not in said


def test_once_the_new_one_has_samples_the_cost_is_its_own(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(60))
        place.run("--limit", "20", env=server.environment)
        edit(place, '"In one sentence: ', f'"{"be brief " * 50}')
        later = place.run("--limit", "20", env=server.environment).status
        said = place.run("--limit", "1", env=server.environment).said
    cost = re.search(r"20 kept from the older prompt, 20 to go .* would cost about \$([0-9.]+) \([^)]*\): onward", said)
    assert cost, said
    old = later["cost"]["spent_usd"] - 20 * later["cost"]["to_finish"]["usd"] / 20
    assert float(cost.group(1)) == pytest.approx(later["cost"]["to_finish"]["usd"], rel=0.05)
    assert float(cost.group(1)) > 1.5 * old


def test_comments_change_nothing(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, server):
        place.write("in.jsonl", rows(8))
        place.run("--limit", "4", env=server.environment)
        edit(place, "    return await", "    # a comment\n    return await")
        assert "kept from" not in place.run(env=server.environment).said
