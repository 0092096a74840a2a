"""Make `kill-and-resume.svg` and `prompt.svg` from real runs, killed in the middle and started again: the companies
example, and a prompt over every row of a table that a stand-in answers.

    pip install pyte && python docs/picture.py PYTHON     (PYTHON has onward and the example's packages)

The commands run in a terminal of their own; what stands on that terminal at the end is the picture.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import os
import pty
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
JOB = HERE.parent / "examples" / "companies"
COLUMNS, LINES = 96, 28
PORT = 8719
PROMPT = (
    "prompt tickets.csv --key id --template summary.txt --model gpt-5-mini --budget 5 --max-output-tokens 200 "
    "--concurrency 64"
)
WORDS = "the printer in room four has no network since Monday and nobody answers please help invoice is wrong"


def main() -> None:
    python = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        work = Path(folder) / "companies"
        shutil.copytree(JOB, work, ignore=shutil.ignore_patterns(".onward", "__pycache__", "*.csv"))
        killed_and_resumed(python, work, "run job.py", 40, "kill-and-resume")
    with tempfile.TemporaryDirectory(prefix="demo-") as folder, stand_in(python):
        tickets(Path(folder))
        killed_and_resumed(python, Path(folder), PROMPT, 30, "prompt", until=70)


def killed_and_resumed(
    python: str, folder: Path, words: str, kill_at: int, name: str, until: int | None = None
) -> None:
    """A picture of a command that is killed at so many percent, and given again. `until`: so far, where the picture is
    to show it at work."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    shown = " \\\r\n    ".join(textwrap.wrap(words, COLUMNS - len("$ onward  \\"), break_on_hyphens=False))
    show(stream, f"$ onward {shown}\r\n")
    run(stream, python, folder, words, kill_at=kill_at, screen=screen)
    again = f"$ onward {words.split(' --')[0]} …" if len(words) > COLUMNS else f"$ onward {words}"
    show(stream, f"\r\n\x1b[31mKilled\x1b[0m  (kill -9)\r\n\r\n{again}\r\n")
    run(stream, python, folder, words, kill_at=until, screen=screen)
    show(stream, "" if until else "\r\n$ ")
    picture(screen, name)


def tickets(folder: Path) -> None:
    """Three thousand tickets of several lengths, and what is to be asked about each."""
    draw = random.Random(7)
    rows = [[number, " ".join(draw.choices(WORDS.split(), k=draw.randint(20, 160)))] for number in range(1, 3001)]
    with (folder / "tickets.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "body"], *rows])
    (folder / "summary.txt").write_text("Summarise this support ticket in one sentence:\n\n{{ body }}\n")


@contextlib.contextmanager
def stand_in(python: str) -> Iterator[None]:
    """A server that answers in the place of a model."""
    script = HERE.parent / "examples" / "triage" / "stand_in.py"
    process = subprocess.Popen(
        [python, str(script), "--port", str(PORT), "--latency", "0.4"], stderr=subprocess.DEVNULL
    )
    os.environ.update(OPENAI_BASE_URL=f"http://127.0.0.1:{PORT}/v1", OPENAI_API_KEY="none")
    try:
        time.sleep(2.0)
        yield
    finally:
        process.kill()
        process.wait()


def show(stream: pyte.ByteStream, text: str) -> None:
    stream.feed(text.encode())


def run(
    stream: pyte.ByteStream, python: str, folder: Path, words: str, kill_at: int | None, screen: pyte.Screen
) -> None:
    """Run the command on the terminal; kill it once its display shows `kill_at` percent."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES))
        os.execv(python, [python, "-m", "onward", *words.split()])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:
            break
        if ready and not data:
            break
        stream.feed(data)
        shown = [int(percent) for percent in re.findall(r"(\d+)%", "\n".join(screen.display))]
        if kill_at is not None and shown and shown[-1] >= kill_at:
            os.kill(pid, signal.SIGKILL)
            kill_at = None
    os.waitpid(pid, 0)
    os.close(terminal)


def picture(screen: pyte.Screen, name: str) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    used = [row for row in range(LINES) if screen.display[row].strip()]
    for row in range(used[-1] + 1):
        line = Text()
        for column in range(COLUMNS):
            cell = screen.buffer[row][column]
            line.append(cell.data, style=style_of(cell))
        line.rstrip()
        console.print(line, no_wrap=True, highlight=False)
    svg = console.export_svg(title="onward", unique_id=name)
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


def style_of(cell: pyte.screens.Char) -> str:
    colour = {"default": "", "brown": "yellow"}.get(cell.fg, cell.fg)
    if len(colour) == 6 and all(digit in "0123456789abcdef" for digit in colour):
        colour = f"#{colour}"
    colour = colour.replace("bright", "bright_")
    return " ".join(filter(None, ["bold" if cell.bold else "", colour]))


if __name__ == "__main__":
    main()
