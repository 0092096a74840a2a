"""Write the listed companies of the package pytickersymbols into companies.jsonl beside this file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().with_name("companies.jsonl")


def companies() -> Iterator[dict[str, Any]]:
    """Yield every company once, in the package's own order: by name, regardless of case."""
    from pytickersymbols import PyTickerSymbols

    for stock in PyTickerSymbols().get_all_stocks():
        headquarters = stock.get("metadata", {}).get("headquarters", "").replace(" , ", ", ")
        yield {
            "name": stock["name"],
            "industries": list(stock.get("industries", ())),
            "headquarters": headquarters or stock.get("country"),
        }


def prepared(again: bool = False) -> Path:
    """The file, made if it is not there. It appears whole or not at all, and the same package makes the same bytes."""
    if again or not FILE.exists():
        unfinished = FILE.with_name(f".{FILE.name}.{os.getpid()}")
        with unfinished.open("w", encoding="utf-8", newline="\n") as out:
            out.writelines(json.dumps(company, ensure_ascii=False) + "\n" for company in companies())
        unfinished.replace(FILE)
    return FILE


if __name__ == "__main__":
    prepared(again=True)
    with FILE.open(encoding="utf-8") as lines:
        print(f"{sum(1 for _ in lines):,} companies in {FILE}")
