"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers import postgres


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    try:
        with postgres.database() as url:
            yield url
    except postgres.NoServer as error:
        pytest.skip(str(error))
