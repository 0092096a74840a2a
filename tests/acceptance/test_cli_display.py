"""The live display, looked at through a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until

JOB = """
import asyncio
job = onward.Job("triage", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)

@job.step(retry=onward.Retry(attempts=5, base=0.5))
async def call(record):
    started(record["id"], "call")
    await asyncio.sleep(0.05)
    if record["id"] % 40 == 3 and (HERE / "fails").exists():
        raise onward.Rejected("no")
    if record["id"] == 5 and not (HERE / "again").exists():
        (HERE / "again").touch()
        raise ConnectionError("reset")
    print("a step prints", record["id"])
    return record["id"]
"""
CURSOR_UP, HIDE_CURSOR = "\x1b[1A", "\x1b[?25l"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A run on a terminal of `columns`; what it shows is gathered while it goes on."""

    def __init__(self, place: Place, columns: int, *words: str, **env: str):
        self.shown = b""
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        kept = surroundings({"TERM": "xterm-256color", **env})
        kept.pop("COLUMNS")
        self.process = subprocess.Popen(
            place.command("run", "job.py", *words),
            cwd=place.folder,
            env=kept,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._master, 65536)
            except OSError:
                return
            if not some:
                return
            self.shown += some

    @property
    def text(self) -> str:
        return self.shown.decode("utf-8", "replace")

    def end(self) -> int:
        code = self.process.wait(60)
        self._reader.join(5)
        return code

    def hang_up(self) -> int:
        os.close(self._master)
        return self.process.wait(60)


def a_job(folder: Path, records: int = 120, fails: bool = True) -> Place:
    place = Place(folder, JOB)
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    if fails:
        (folder / "fails").touch()
    return place


def test_bar_counts_rate_and_what_is_tried_again(tmp_path: Path) -> None:
    terminal = Terminal(a_job(tmp_path), 100)
    assert terminal.end() == 1
    text = terminal.text
    plain(text)
    shown = CONTROL.sub("", text)
    assert "triage" in shown
    assert re.search(r"━+─+ \d+ / 120 +\d+%", shown)
    assert re.search(r"\d+ succeeded   \d+ quarantined   \d+ in progress   \d+ pending", shown)
    assert re.search(r"[\d.,]+/s   a few seconds left   \d calls now", shown)
    assert re.search(r"1 waiting for another try.*: call: ConnectionError ×1", shown)
    assert "quarantined: 3 at call: Rejected (rejected, final)" in shown
    assert re.search(r"━+ 120 / 120 100%", shown)
    assert "117 succeeded, 3 quarantined of 120" in shown.rstrip().splitlines()[-1]


def test_steps_may_print_and_the_cursor_stays(tmp_path: Path) -> None:
    """A run that is killed in mid-picture must not leave a terminal without a cursor."""
    place = a_job(tmp_path)
    terminal = Terminal(place, 100)
    wait_until(lambda: len(place.calls()) > 60)
    os.kill(terminal.process.pid, signal.SIGKILL)
    terminal.end()
    assert HIDE_CURSOR not in terminal.text
    for key in (1, 2, 20):
        assert re.search(rf"^a step prints {key}\s*$", CONTROL.sub("", terminal.text).replace("\r", "\n"), re.M)


def test_no_flicker(tmp_path: Path) -> None:
    """Redrawn a few times a second, over itself, never by clearing the screen."""
    terminal = Terminal(a_job(tmp_path, 400), 100)
    terminal.end()
    seconds = float(re.search(r" in ([\d.]+) s\.", terminal.text)[1])  # type: ignore[index]
    pictures = len(re.findall(r"calls? now", CONTROL.sub("", terminal.text)))
    printed = terminal.text.count("a step prints") + terminal.text.count("quarantined:")
    assert pictures - printed <= seconds * 10 + 5
    assert "\x1b[2J" not in terminal.text
    assert "\x1b[H" not in terminal.text


@pytest.mark.parametrize("columns", [100, 60, 40, 24, 12])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    terminal = Terminal(a_job(tmp_path, 60), columns)
    assert terminal.end() == 1
    for line in re.split(r"[\r\n]+", CONTROL.sub("", terminal.text)):
        if "━" in line or " in progress" in line or "/s " in line:
            assert len(line) <= columns, line


def test_no_color_is_respected(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    coloured = Terminal(a_job(tmp_path / "a", 30), 80)
    coloured.end()
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured.text)
    grey = Terminal(a_job(tmp_path / "b", 30), 80, NO_COLOR="1")
    grey.end()
    assert not re.search(r"\x1b\[[0-9;]*[349][0-9][;m]", grey.text)
    assert "━" in grey.text


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    terminal = Terminal(a_job(tmp_path, 30), 80, TERM="dumb")
    assert terminal.end() == 1
    assert "\x1b" not in terminal.text
    assert "in.jsonl was read: 30 new" in terminal.text


def test_ctrl_c_is_told_and_a_second_one_ends_at_once(tmp_path: Path) -> None:
    place = a_job(tmp_path, fails=False)
    slow = JOB.replace("asyncio.sleep(0.05)", "asyncio.sleep(30)")
    place.job(slow)
    terminal = Terminal(place, 100)
    wait_until(lambda: len(place.calls()) >= 8)
    os.write(terminal._master, b"\x03")
    wait_until(lambda: "stopping (SIGINT): 8 calls to finish" in terminal.text)
    os.write(terminal._master, b"\x03")
    assert terminal.end() == 130
    assert "stopped at once" in terminal.text
    plain(terminal.text)


def test_a_closed_terminal_stops_the_run_in_good_order(tmp_path: Path) -> None:
    place = a_job(tmp_path, 1000, fails=False)
    terminal = Terminal(place, 100)
    wait_until(lambda: len(place.calls()) >= 30)
    assert terminal.hang_up() == 3
    run = place.status()["runs"][-1]
    assert (run["exit_code"], run["reason"]) == (3, "SIGHUP")
    assert place.status()["counts"]["in_progress"] == 0


def test_an_input_that_is_still_being_read(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    rows = """
def rows():
    for number in range(150):
        time.sleep(0.02)
        yield {"id": number}
"""
    place.job(rows + JOB.replace('onward.jsonl("in.jsonl", key="id")', 'onward.iterable(rows, key="id")'))
    terminal = Terminal(place, 100)
    terminal.end()
    shown = CONTROL.sub("", terminal.text)
    assert "read so far" in shown
    assert "the input is still being read" in shown


def test_a_limit_is_what_the_bar_is_about(tmp_path: Path) -> None:
    terminal = Terminal(a_job(tmp_path, fails=False), 100, "--limit", "40")
    assert terminal.end() == 0
    assert re.search(r"━+ 40 / 40 100%", CONTROL.sub("", terminal.text))
