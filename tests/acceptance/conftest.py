"""Tests marked slow take minutes and gigabytes; they run only when asked for: `pytest -m slow tests/acceptance`. The
files that take longest come first, so that of processes side by side none is left alone with one at the end."""

from __future__ import annotations

import signal

import pytest

LONGEST = ("test_ray", "test_batch_mode", "test_case_26", "test_shared_ceilings", "test_case_14")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: minutes and gigabytes; run with -m slow")
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        # Started to outlive its terminal (nohup), which the runs under test must not be.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    if "slow" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run with -m slow"))
