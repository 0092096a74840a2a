"""Planted defects of how models are waited for, and of what is said when they cannot be asked."""

from __future__ import annotations

from mutants.defect import Defect

CLOCKS = "tests/unit/test_engine_gate_clocks.py"

ASKING_DEFECTS = (
    Defect(
        "waits-follow-the-clock",
        "a wait that the far side asks for grows when the wall clock is set back",
        "engine/gates/gates.py",
        (("if steady < self.asked_until:", "if now - 1_699_999_000.0 < self.asked_until:"),),
        (CLOCKS, "-k", "asked_for"),
    ),
    Defect(
        "outages-follow-the-clock",
        "an outage goes on until the wall clock has come back to where it was",
        "engine/gates/outages.py",
        (("time.monotonic()", "time.time()"),),
        (CLOCKS, "-k", "outage"),
    ),
    Defect(
        "unreached-may-be-charged",
        "a request that never left counts as one that may be charged",
        "llm/client.py",
        (("raise told from error.__cause__", "raise told from error"),),
        ("tests/unit/test_llm_unreached.py", "-k", "refused"),
    ),
    Defect(
        "unreached-unnamed",
        "who is told that calls fail is not told where and why",
        "engine/gates/outages.py",
        (('gate.cause = failure.cause or f"', 'gate.cause = f"'),),
        ("tests/acceptance/test_asking_words.py", "-k", "nothing_listens"),
    ),
)
