"""Twenty thousand disks that a power cut may leave behind: whatever was acknowledged is in every one of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from torture import faults, forked, looking, power_loss
from torture.power_loss import Call, Disk
from victims import recorded

IMAGES = int(os.environ.get("ONWARD_TEST_IMAGES", "20000"))
pytestmark = pytest.mark.skipif(bool(faults.missing()), reason=faults.missing() or "-")


def test_every_acknowledged_checkpoint_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = power_loss.record(tmp_path)
    findings = power_loss.check_all(calls, tmp_path, IMAGES, seed=1)
    with capsys.disabled():
        print(f"\n{len(calls)} calls, {findings.images} images, {findings.deep} looked at closely")
    assert findings.found == []
    assert findings.images >= IMAGES
    assert sum(call.what == "ack" for call in calls) > 20
    _resume_from_some(calls, tmp_path)


def _resume_from_some(calls: list[Call], folder: Path) -> None:
    """From a few of the images the job is run to its end, on the remains."""
    expected = looking.export_lines(folder / recorded.STORE)
    for number, (path, image) in enumerate(power_loss.some_images(calls, str(folder), 8, seed=1)):
        place = folder / f"resumed-{number}"
        (place / recorded.STORE).parent.mkdir(parents=True)
        for name, content in image.items():
            (place / name).write_bytes(content)
        victim = forked.Victim(
            forked.VICTIMS / "campaign.py",
            "campaign",
            place,
            {"VICTIM_SPEC": str(folder / "spec.json")},
            recorded.STORE,
        )
        assert forked.finish(forked.start(victim)) in (0, 1), f"{path}: {victim.said}"
        assert looking.export_lines(victim.store) == expected, path
        assert looking.contradictions(victim.store) == [], path


def test_weak_commits_are_caught(tmp_path: Path) -> None:
    """With synchronous=NORMAL every kill test passes; here it does not."""
    calls = power_loss.record(tmp_path, synchronous="1")
    findings = power_loss.check_all(calls, tmp_path, 500, seed=1)
    assert findings.lost > 50


def test_the_disk_forgets_what_was_not_flushed() -> None:
    disk, draw = Disk("/d"), random.Random(1)
    for call in (
        Call("create", "/d/a"),
        Call("write", "/d/a", 0, b"one"),
        Call("sync", "/d/a"),
        Call("write", "/d/a", 3, b"two"),
    ):
        disk.apply(call)
    assert disk.image(draw, "none")[1] == {}  # the name itself was never flushed
    disk.apply(Call("sync", "/d"))
    assert disk.image(draw, "none")[1] == {"/d/a": b"one"}
    assert disk.image(draw, "all")[1] == {"/d/a": b"onetwo"}
    disk.apply(Call("rename", "/d/a", to="/d/b"))
    assert disk.image(draw, "none")[1] == {"/d/a": b"one"}
    disk.apply(Call("unlink", "/d/b"))
    disk.apply(Call("sync", "/d"))
    assert disk.image(draw, "all")[1] == {}


def test_writes_are_torn_at_sectors() -> None:
    for seed in range(50):
        parts = power_loss._torn((500, bytes(2000)), random.Random(seed))
        assert all(offset == 500 or offset % 512 == 0 for offset, _ in parts)
