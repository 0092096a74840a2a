"""Planted defects of how models are waited for, and of what is said when they cannot be asked."""

from __future__ import annotations

from mutants.defect import Defect

CLOCKS = "tests/unit/test_engine_gate_clocks.py"
TRIALS = "tests/unit/test_engine_trials.py"
GATES = "tests/contract/test_store_gates.py"

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
        "policy/clients.py",
        (('        "aiohttp.client_exceptions.ClientConnectorError",\n', ""),),
        ("tests/unit/test_llm_unreached.py", "-k", "nobody_knows"),
    ),
    Defect(
        "unreached-unnamed",
        "who is told that calls fail is not told where and why",
        "engine/gates/outages.py",
        (('gate.cause = failure.cause or f"', 'gate.cause = f"'),),
        ("tests/acceptance/test_asking_words.py", "-k", "nothing_listens"),
    ),
    Defect(
        "bad-ones-tried-again",
        "in an outage those are tried first that were seen failing, while all others wait",
        "policy/outage.py",
        (("return [*self.outlived, *self.now]", "return []"),),
        (TRIALS, "-k", "in_front"),
    ),
    Defect(
        "an-outage-for-each-bad-one",
        "a record that fails whenever others pass is never charged for it",
        "policy/outage.py",
        (("return self.outlived.get(record, 0) >= OUTLIVED_AT_MOST", "return False"),),
        (TRIALS, "-k", "seen_failing"),
    ),
    Defect(
        "last-of-all-never-tried",
        "where all who wait were seen failing, nobody is tried",
        "store/sql/gates.py",
        (('among, rooms, limit, "[]") if rooms else []', 'among, rooms, 0, "[]") if rooms else []'),),
        (GATES, "-k", "come_last and sqlite"),
    ),
)
