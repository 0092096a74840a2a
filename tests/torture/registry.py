"""The registry of examples/filings as a process of its own, on a port of the loopback."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "filings"
sys.path.append(str(EXAMPLE))

from registry_book import Verdict, verdicts  # noqa: E402

__all__ = ["EXAMPLE", "Registry", "Verdict", "running"]


class Registry:
    """A running registry. It ends with the process that started it."""

    def __init__(self, book: Path, *words: str):
        self.book = book
        self._process = subprocess.Popen(
            [sys.executable, str(EXAMPLE / "registry.py"), str(book), "--port", "0", "--until-eof", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        told = self._process.stdout.readline().decode()
        if not told:
            raise AssertionError(f"the registry ended with {self._process.wait()}")
        self.url = told.split()[-1]
        atexit.register(self.close)

    def switch(self, **switches: Any) -> None:
        """Change its habits while it runs; what is not named goes back to its default."""
        body = json.dumps({"reset": True, **switches}).encode()
        request = urllib.request.Request(f"{self.url}/switches", body, method="PUT")
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200

    def also(self, **switches: Any) -> None:
        """Change some of its habits and leave the others."""
        request = urllib.request.Request(f"{self.url}/switches", json.dumps(switches).encode(), method="PUT")
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200

    def verdicts(self, entities: str = "") -> list[Verdict]:
        """What its log says of the obligations of entities whose names begin so."""
        return list(verdicts(self.book, entities))

    def close(self) -> None:
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()  # what it has on the disk is all there is: it is killed like everything else here
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def running(book: Path, *words: str) -> Iterator[Registry]:
    """A registry for the length of a block."""
    registry = Registry(book, *words)
    try:
        yield registry
    finally:
        registry.close()
