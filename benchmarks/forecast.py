"""How often the true cost of the rest lies inside the forecast's P10 to P90: seeded runs, skewed costs, no server.

    python benchmarks/forecast.py                        a few minutes: 1,000 runs of 2,000 and of 10,000 records
    python benchmarks/forecast.py --records 100000       about ten times as long

Each run draws the costs of a job's records, shows the forecast the first 2 % and compares it with the true rest.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from onward.policy.forecast import Moments, forecast

Draw = Callable[[random.Random], float]
SHARE_SEEN = 0.02


def lognormal(sigma: float) -> Draw:
    return lambda chance: math.exp(sigma * chance.gauss())


def gamma(shape: float) -> Draw:
    return lambda chance: chance.gammavariate(shape, 1.0)


def pareto(alpha: float) -> Draw:
    return lambda chance: (1.0 - chance.random()) ** (-1.0 / alpha)


def mixture(share: float, factor: float, sigma: float) -> Draw:
    """Lognormal, and a share of the records costs `factor` times as much."""
    return lambda chance: math.exp(sigma * chance.gauss()) * (factor if chance.random() < share else 1.0)


COSTS: dict[str, Draw] = {
    **{f"lognormal, sigma {sigma}": lognormal(sigma) for sigma in (0.5, 0.75, 1.0, 1.25, 1.5)},
    **{f"gamma, shape {shape}": gamma(shape) for shape in (0.3, 1.0, 5.0)},
    **{f"Pareto, alpha {alpha}": pareto(alpha) for alpha in (2.5, 3.0, 4.0)},
    "mixture, 10 % ten times as much": mixture(0.1, 10.0, 0.5),
    "mixture, 20 % five times as much, sigma 1": mixture(0.2, 5.0, 1.0),
    "mixture, 3 % twenty times as much": mixture(0.03, 20.0, 0.5),
    "even": lambda chance: chance.random(),
}


def coverage(draw: Draw, records: int, runs: int, name: str) -> tuple[float, float, float]:
    """The shares of runs with the true rest below P10, inside, and above P90."""
    seen = max(round(records * SHARE_SEEN), 1)
    below = above = 0
    for run in range(runs):
        chance = random.Random(f"{name} {records} {run}")
        moments = Moments()
        for _ in range(seen):
            moments = moments.add(draw(chance))
        rest = math.fsum(draw(chance) for _ in range(records - seen))
        told = forecast(moments, records - seen)
        assert told is not None
        below += rest < told.p10
        above += rest > told.p90
    return below / runs, 1 - (below + above) / runs, above / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[2_000, 10_000], help="sizes of jobs")
    parser.add_argument("--runs", type=int, default=1_000)
    given = parser.parse_args()
    print("| cost of a record | records | below P10 | inside | above P90 |\n|---|---|---|---|---|")
    for name, draw in COSTS.items():
        for records in given.records:
            below, inside, above = coverage(draw, records, given.runs, name)
            print(f"| {name} | {records:,} | {below:.1%} | {inside:.1%} | {above:.1%} |", flush=True)


if __name__ == "__main__":
    main()
