"""The outcome reaches the shell: one code for each way in which a run ends, whatever becomes of its output."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until

SOURCE = 'onward.jsonl("in.jsonl", key="id")'
SOME_FAIL = f"""
job = onward.Job("case", source={SOURCE})

@job.step
def check(record):
    if record["id"] in json.loads((HERE / "bad.json").read_text()):
        raise onward.Rejected("no such thing")
    return record["id"]
"""


def a_job(folder: Path, records: int = 10, bad: tuple[int, ...] = (), job: str = SOME_FAIL) -> Place:
    place = Place(folder, job)
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    (folder / "bad.json").write_text(json.dumps(bad))
    return place


def shell(place: Place, script: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in the job's folder."""
    return subprocess.run(
        ["bash", "-c", script],
        cwd=place.folder,
        env=surroundings(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def last_line(text: str) -> str:
    return text.rstrip().splitlines()[-1]


def test_all_good_is_0_and_so_is_all_done_already(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    for _ in range(2):
        ended = place.onward("run", "job.py")
        assert ended.returncode == 0, ended.stderr
        assert last_line(ended.stdout).startswith("10 succeeded of 10 in ")
        assert last_line(ended.stdout).endswith("Next: onward export job.py --out results.jsonl")


@pytest.mark.parametrize("bad", [(3,), tuple(range(10))])
def test_some_or_all_failed_is_1_and_says_what_to_do(tmp_path: Path, bad: tuple[int, ...]) -> None:
    ended = a_job(tmp_path, bad=bad).onward("run", "job.py")
    assert ended.returncode == 1
    assert f"{10 - len(bad)} succeeded, {len(bad)} quarantined of 10" in last_line(ended.stdout)
    assert last_line(ended.stdout).endswith("Next: onward failures job.py")


def test_what_could_not_start_is_2_in_one_line(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    wrong = {
        "a key that no line has": SOME_FAIL.replace('key="id"', 'key="nope"'),
        "not Python": "def broken(:\n",
        "no job": "x = 1\n",
        "no source": SOME_FAIL.replace("in.jsonl", "gone.jsonl"),
        "a wrong declaration": SOME_FAIL.replace("def check(record)", "def check(record, nobody)"),
        "an exception": "raise ValueError('oops')\n",
        "no steps": f'job = onward.Job("case", source={SOURCE})\n',
    }
    for what, text in wrong.items():
        place.job(text)
        ended = place.onward("run", "job.py")
        assert ended.returncode == 2, (what, ended)
        plain(ended.stderr)
        assert "onward: " in ended.stderr, what
    place.job("def broken(:\n")
    assert "job.py:" in place.onward("run", "job.py").stderr
    assert "Traceback" in place.onward("run", "job.py", "--debug").stderr


def test_wrong_words_are_2(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    for words in (
        ["run"],
        ["run", "nowhere.py"],
        ["run", "job.py", "--limit", "0"],
        ["run", "job.py", "--nonsense"],
        ["run", "job.py", "--max-time", "soon"],
        ["run", "job.py", "--max-failures", "many"],
        ["run", "job.py", "-p", "day=1"],
        ["run", "job.py", "--no-create"],
        ["run", "job.py", "--instance", "other"],
        ["run", "job.py", "more"],
        ["walk", "job.py"],
        ["status", "job.py"],
        ["status"],
        ["status", "--job", "case"],
        ["retry", "job.py"],
        ["show", "job.py", "3"],
        ["export", "job.py"],
    ):
        ended = place.onward(*words)
        assert ended.returncode == 2, (words, ended)
        assert ended.stderr.startswith("onward: "), (words, ended)
        plain(ended.stderr)
    assert not (tmp_path / ".onward").exists()


def test_an_empty_input_is_said_to_be_empty(tmp_path: Path) -> None:
    ended = a_job(tmp_path, records=0).onward("run", "job.py")
    assert ended.returncode == 0
    assert "the input is empty" in ended.stdout


def test_a_person_is_needed_is_4(tmp_path: Path) -> None:
    fatal = SOME_FAIL.replace('onward.Rejected("no such thing")', 'onward.Fatal("the key was revoked")')
    ended = a_job(tmp_path, bad=(3,), job=fatal).onward("run", "job.py")
    assert ended.returncode == 4
    assert "stopped: nothing can go on after what step check raised: Fatal: the key was revoked" in ended.stdout
    assert last_line(ended.stdout).endswith("Mend that, then: onward run job.py")


def test_a_signal_is_3_and_says_how_to_go_on(tmp_path: Path) -> None:
    slow = SOME_FAIL.replace("    return record", "    time.sleep(0.2)\n    started(record['id'])\n    return record")
    place = a_job(tmp_path, records=200, job=slow)
    process = place.start("run", "job.py", "--concurrency", "2")
    wait_until(lambda: len(place.calls()) >= 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 3
    said = (tmp_path / "said.txt").read_text()
    plain(said)
    assert "stopped: SIGINT" in said
    assert last_line(said).endswith("Go on with: onward run job.py")


def test_the_first_fifty_all_failing_alike_is_4(tmp_path: Path) -> None:
    place = a_job(tmp_path, records=300, bad=tuple(range(300)))
    ended = place.onward("run", "job.py")
    assert ended.returncode == 4
    assert "all failed at step check (rejected)" in ended.stdout
    assert place.status()["counts"]["quarantined"] == 0


def test_a_fault_of_onward_is_70(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    place.job(SOME_FAIL + "\nimport onward.runner\nonward.runner.open_work = None\n")
    ended = place.onward("run", "job.py")
    assert ended.returncode == 70
    assert ended.stderr.startswith("onward: a fault of onward itself: TypeError")
    assert len(ended.stderr.splitlines()) == 1
    assert "--debug" in ended.stderr
    assert "Traceback" in place.onward("run", "job.py", "--debug").stderr


@pytest.mark.parametrize("bad, code", [((), 0), ((3,), 1)])
def test_the_code_survives_pipes_and_closed_outputs(tmp_path: Path, bad: tuple[int, ...], code: int) -> None:
    place = a_job(tmp_path, bad=bad)
    run = shlex.join(place.command("run", "job.py"))
    for script in (
        f"set -o pipefail; {run} | tee all.txt",
        f"{run} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        f"{run} 2>&1 | true; exit ${{PIPESTATUS[0]}}",
        f"{run} >&-",
        f"{run} <&- >&- 2>&-",
        f"{run} >/dev/full",
        f"{run} --json | true; exit ${{PIPESTATUS[0]}}",
        f"{run} --log-format json 2>&1 | true; exit ${{PIPESTATUS[0]}}",
    ):
        ended = shell(place, script)
        assert ended.returncode == code, (script, ended)
        plain(ended.stderr)
        assert "Exception ignored" not in ended.stderr
    assert place.status()["counts"]["succeeded"] == 10 - len(bad)


def test_questions_survive_their_reader(tmp_path: Path) -> None:
    place = a_job(tmp_path, records=3000)
    (tmp_path / "bad.json").write_text(json.dumps([*range(100, 3000)]))
    assert place.onward("run", "job.py").returncode == 1
    for words in ("status job.py", "failures job.py --json", "failures job.py", "show job.py 7"):
        asked = shlex.join(place.command(*words.split()))
        for script in (f"{asked} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}", f"{asked} >&-"):
            ended = shell(place, script)
            assert (ended.returncode, ended.stderr) == (0, ""), script


def test_help_lists_the_exit_codes(tmp_path: Path) -> None:
    told = a_job(tmp_path).fine("run", "--help")
    for code in ("0 ", "1 ", "2 ", "3 ", "4 ", "70 ", "130 ", "143"):
        assert code in told[told.index("Exit codes") :]
    assert "--max-failures" in told
    assert "ONWARD_MAX_FAILURES" in told


def test_nothing_prompts(tmp_path: Path) -> None:
    """No command reads what it was not told to read: an input that never ends does not hold it up."""
    place = a_job(tmp_path, bad=(3,))
    reader, writer = os.pipe()
    try:
        for words in ("run job.py", "status job.py", "retry job.py --all", "release job.py --all"):
            ended = subprocess.run(
                place.command(*words.split()),
                cwd=tmp_path,
                env=surroundings(),
                stdin=reader,
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode in (0, 1)
    finally:
        os.close(reader)
        os.close(writer)
