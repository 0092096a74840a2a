"""Planted defects of budgets while a step asks more than once, from threads, or gives an ask up."""

from __future__ import annotations

from mutants.defect import Defect

BUDGET = "tests/acceptance/test_ai_budget.py"
UNREACHED = "tests/unit/test_llm_unreached.py"
DESK = "engine/spending/desk.py"

BUDGET_DEFECTS = (
    Defect(
        "ends-with-the-step",
        "what a request came to frees its room only when its step ends",
        DESK,
        (("            if one is spending:", "            if False:"),),
        (BUDGET, "-k", "does_not_wait and not process"),
    ),
    Defect(
        "counted-twice",
        "what was counted on its own is counted with its attempt's fact again",
        "store/sql/spending.py",
        (("if spending.batched is None and not spending.counted:", "if spending.batched is None:"),),
        (BUDGET, "-k", "does_not_wait and not process"),
    ),
    Defect(
        "no-desk-in-threads",
        "what a sync step asks is under no budget",
        "engine/calls.py",
        (
            (
                "desk = None if self._desk is None else",
                "desk = None if self._desk is None or not what.is_async else",
            ),
        ),
        (BUDGET, "-k", "event_loop_of_its_own"),
    ),
    Defect(
        "granted-to-nobody",
        "what is granted to an ask that was given up stays set aside",
        DESK,
        (("            self.unused(most)\n\n    async def quiet", "            pass\n\n    async def quiet"),),
        (BUDGET, "-k", "given_back and not process"),
    ),
    Defect(
        "reset-is-free",
        "a request costs nothing whose connection was reset after it was read",
        "policy/clients.py",
        (('"aiohttp.client_exceptions.ClientConnectorError",', '"aiohttp.client_exceptions.ClientConnectionError",'),),
        (UNREACHED, "-k", "request_was_read"),
    ),
    Defect(
        "lost-is-free",
        "requests whose answers are lost are under no budget",
        "llm/asking.py",
        (("    return connection(error) is Connection.UNKNOWN\n", "    return False\n"),),
        (BUDGET, "-k", "lost_on_the_way"),
    ),
    Defect(
        "spent-just-now",
        "what was spent in the same change stands against no budget",
        "store/sql/spending.py",
        (("    change.flush()  # what was spent", "    # what was spent"),),
        ("tests/contract/test_store_bill.py", "-k", "a_moment_ago and sqlite"),
    ),
    Defect(
        "counted-unmade",
        "a request that cannot be made is counted, at its most",
        "llm/asking.py",
        (("        client_of(self.model)  # where", "        # where"),),
        (BUDGET, "-k", "none_is_counted"),
    ),
    Defect(
        "shared-for-good",
        "a shared answer that does not fit any more is what everybody gets",
        DESK,
        (("if known is not None and fits(known):", "if known is not None:"),),
        (BUDGET, "-k", "fits_no_more"),
    ),
)
