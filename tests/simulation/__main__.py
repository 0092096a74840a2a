"""`python -m simulation --seed N` (from `tests`, or with it on PYTHONPATH) tells the story of one seed.

`--first N --number M` runs many. `--file PATH` uses a store in a file, with a connection for each run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulation.drive import ACTS, database, many, simulate
from simulation.runs import Wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed, with its story")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--acts", type=int, default=ACTS)
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    try:
        if given.seed is not None:
            with database(given.file) as made:
                print("\n".join(simulate(given.seed, made, given.acts).log))
        else:
            seconds = many(given.first, given.number, given.file, given.acts)
            print(f"{given.number} seeds in {seconds:.1f} seconds")
    except Wrong as wrong:
        print(wrong)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
