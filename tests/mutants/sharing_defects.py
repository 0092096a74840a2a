"""Planted defects of ceilings that runs share."""

from __future__ import annotations

from mutants.defect import Defect

CONTRACT = "tests/contract/test_store_shares.py"
ENGINE = "tests/unit/test_engine_shares.py"
RUNS = "tests/acceptance/test_shared_ceilings.py"
SHARING = "store/sql/sharing.py"
PARTS = "engine/gates/parts.py"

SHARING_DEFECTS = (
    Defect(
        "kept-after-it-is-offered",
        "a run goes on using what it has said that it gives back",
        PARTS,
        (
            (
                "        self._have(keep, self.target if self.wanted else 0.0, now)\n        return Offer(",
                "        return Offer(",
            ),
        ),
        (ENGINE, "-k", "late or given_back"),
    ),
    Defect(
        "smaller-part-not-minded",
        "a run that is to give some back goes on beginning calls with it",
        PARTS,
        (("self._bound(min(held, target), now)", "self._bound(held, now)"),),
        (ENGINE, "-k", "on_its_way"),
    ),
    Defect(
        "all-kept-unsaid",
        "a run that was alone keeps all of each ceiling, whatever it says",
        "engine/gates/shares.py",
        (("part.begin(part.size if part.ceiling.taken else 0.0, now)", "part.begin(part.size, now)"),),
        (ENGINE, "-k", "was_alone"),
    ),
    Defect(
        "all-ceilings-asked-for-at-once",
        "a run holds one ceiling while it waits for another, whose holder waits for the first",
        "engine/gates/shares.py",
        (("            if part.whole and not may_block:\n                continue\n", ""),),
        (ENGINE, "-k", "after_the_other"),
    ),
    Defect(
        "others-not-counted",
        "a run is given its part whether or not others have given it back",
        SHARING,
        ((" - sum(row.held for row in others.values())", ""),),
        (CONTRACT, "-k", "whatever_happens and memory"),
    ),
    Defect(
        "one-that-has-all-not-waited-for",
        "a run is given its part while another has all of each ceiling",
        SHARING,
        (("    if one_has_all:\n", "    if False:\n"),),
        (CONTRACT, "-k", "before_the_first"),
    ),
    Defect(
        "dead-hold-on",
        "what a dead run held counts for ever",
        "store/sql/burying.py",
        (('        change.send("drop_shares", run=other)\n', ""),),
        (CONTRACT, "-k", "dead_run_held"),
    ),
    Defect(
        "ended-hold-on",
        "what a run held that has ended counts for ever",
        "store/sql/work.py",
        (('                change.send("drop_shares")\n', ""),),
        (CONTRACT, "-k", "that_has_ended"),
    ),
    Defect(
        "no-turns",
        "whoever has the only one keeps it",
        "policy/sharing.py",
        (("return 0 if now - one.since < TURN else 2, one.since, one.run", "return 0, one.since, one.run"),),
        (CONTRACT, "-k", "has_its_turn and memory"),
    ),
    Defect(
        "who-comes-later-takes-all",
        "a run that begins beside another has all of each ceiling, too",
        "engine/session.py",
        (("        if not self._begun.alone:\n            shares.begin()\n", ""),),
        (RUNS, "-k", "that_hangs and sqlite"),
    ),
    Defect(
        "drained-says-nothing",
        "a run that was alone and is being drained has all of each ceiling until its last call has ended",
        "engine/govern.py",
        (("            self._look_for_others()\n", ""),),
        (RUNS, "-k", "drained and sqlite"),
    ),
)
