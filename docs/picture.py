"""Make `kill-and-resume.svg` from a real run: the companies example, killed in the middle and started again.

    pip install pyte && python docs/picture.py PYTHON     (PYTHON has onward and the example's packages)

The commands run in a terminal of their own; what stands on that terminal at the end is the picture.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
JOB = HERE.parent / "examples" / "companies"
COLUMNS, LINES = 96, 24


def main() -> None:
    python = sys.argv[1]
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        work = Path(folder) / "companies"
        shutil.copytree(JOB, work, ignore=shutil.ignore_patterns(".onward", "__pycache__", "*.csv"))
        show(stream, "$ onward run job.py\r\n")
        run(stream, python, work, kill_at=40, screen=screen)
        show(stream, "\r\n\x1b[31mKilled\x1b[0m  (kill -9)\r\n\r\n$ onward run job.py\r\n")
        run(stream, python, work, kill_at=None, screen=screen)
        show(stream, "\r\n$ ")
    picture(screen)


def show(stream: pyte.ByteStream, text: str) -> None:
    stream.feed(text.encode())


def run(stream: pyte.ByteStream, python: str, folder: Path, kill_at: int | None, screen: pyte.Screen) -> None:
    """Run the job on the terminal; kill it once its display shows `kill_at` percent."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES))
        os.execv(python, [python, "-m", "onward", "run", "job.py"])
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


def picture(screen: pyte.Screen) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    used = [row for row in range(LINES) if screen.display[row].strip()]
    for row in range(used[-1] + 1):
        line = Text()
        for column in range(COLUMNS):
            cell = screen.buffer[row][column]
            line.append(cell.data, style=style_of(cell))
        line.rstrip()
        console.print(line, no_wrap=True, highlight=False)
    svg = console.export_svg(title="onward", unique_id="onward")
    (HERE / "kill-and-resume.svg").write_text(svg, encoding="utf-8")


def style_of(cell: pyte.screens.Char) -> str:
    colour = {"default": "", "brown": "yellow"}.get(cell.fg, cell.fg)
    if len(colour) == 6 and all(digit in "0123456789abcdef" for digit in colour):
        colour = f"#{colour}"
    colour = colour.replace("bright", "bright_")
    return " ".join(filter(None, ["bold" if cell.bold else "", colour]))


if __name__ == "__main__":
    main()
