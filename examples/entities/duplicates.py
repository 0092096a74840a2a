"""List entities of one country that share a match key, from the job's export.

    python duplicates.py matched.jsonl [--country GB] [--show 20]

The export is read twice, so that only the keys' hashes and the duplicates themselves are held in memory.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path


def matched(path: Path, country: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield (match key, LEI, legal name) of each exported entity."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if country is None or record["input"]["country"] == country:
                yield record["outputs"]["match_key"], record["key"], record["input"]["name"]


def duplicates(path: Path, country: str | None) -> dict[str, list[tuple[str, str]]]:
    """Groups of two and more by match key, in the order of the export."""
    seen: set[int] = set()
    repeated: set[int] = set()
    for key, _, _ in matched(path, country):
        (repeated if hash(key) in seen else seen).add(hash(key))
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, lei, name in matched(path, country):
        if hash(key) in repeated:
            groups[key].append((lei, name))
    return {key: members for key, members in groups.items() if len(members) > 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--country", help="two letters, such as GB")
    parser.add_argument("--show", type=int, default=20, help="how many groups to print")
    options = parser.parse_args()
    groups = duplicates(options.export, options.country)
    for key in list(groups)[: options.show]:
        print(key)
        for lei, name in groups[key]:
            print(f"    {lei}  {name}")
    countries = Counter(key.split(":", 1)[0] for key in groups)
    most = ", ".join(f"{country} {count:,}" for country, count in countries.most_common(8))
    print(f"{len(groups):,} groups of likely duplicates, {sum(map(len, groups.values())):,} entities ({most})")


if __name__ == "__main__":
    main()
