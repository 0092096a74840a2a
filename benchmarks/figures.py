"""Lines of a table of measurements, and the table itself."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import HERE, median

README = HERE / "README.md"
HEADINGS = ("| measure | value | at least | aim | | medians |", "|---|---|---|---|---|---|")


@dataclass(frozen=True)
class Figure:
    """One line of the table. `unit` says how values read; `best` is "higher" or "lower"."""

    measure: str
    value: float
    unit: str
    at_least: float
    aim: float | None
    best: str = "higher"
    detail: str = ""

    def reaches(self, goal: float | None) -> bool:
        if goal is None:
            return False
        return self.value >= goal if self.best == "higher" else self.value <= goal

    def row(self) -> str:
        verdict = (
            "aim reached" if self.reaches(self.aim) else "reached" if self.reaches(self.at_least) else "**missed**"
        )
        cells = (self.measure, text(self.value, self.unit), text(self.at_least, self.unit), text(self.aim, self.unit))
        return f"| {' | '.join(cells)} | {verdict} | {self.detail} |"


def text(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    forms = {"×": f"{value:,.{0 if value >= 100 else 1}f} ×", "%": f"{100 * value:.3g} %", "/s": f"{value:,.0f}/s"}
    return forms.get(unit) or f"{value:.3g} {unit}"


def against(measured: list[dict[str, Any]], reference: list[dict[str, Any]]) -> tuple[float, str]:
    """Median of the rounds' ratios, and both medians in words."""
    ratio = median([ours["rate"] / theirs["rate"] for ours, theirs in zip(measured, reference, strict=True)])
    rates = [median([result["rate"] for result in results]) for results in (measured, reference)]
    return ratio, f"{rates[0]:,.0f}/s against {rates[1]:,.0f}/s ({reference[-1]['variant']})"


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What every script that prints a table understands."""
    parser.add_argument("--quick", action="store_true", help="small sizes and one round, whatever else is said")
    parser.add_argument("--dir", type=Path, help="where stores are made; it must be a real disk, not memory")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--write", action="store_true", help="put the table into benchmarks/README.md")


def publish(figures: list[Figure], circumstances: str, name: str, options: argparse.Namespace) -> None:
    """Print the table, and write it where the options say: between the marks of this name in the README."""
    first = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {circumstances}."
    lines = "\n".join([first, "", *HEADINGS, *(figure.row() for figure in figures)])
    print(lines)
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=2, ensure_ascii=False) + "\n")
    if options.write:
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = README.read_text(encoding="utf-8").partition(begin)
        _, _, after = rest.partition(end)
        README.write_text(f"{before}{begin}\n{lines}\n{end}{after}", encoding="utf-8")
