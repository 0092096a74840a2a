"""Planted defects of what begins many runs: ends that are told wrong, workers that nobody stops, orders that leak."""

from __future__ import annotations

from mutants.defect import Defect

CREW = "tests/unit/test_cluster_crew.py"
HAND = "tests/acceptance/test_cluster_hand.py"

CLUSTER_DEFECTS = (
    Defect(
        "others-go-on",
        "where a person must act, the other workers go on",
        "cluster/crew.py",
        (("        elif heard.ended.code in ENDS_ALL:\n", "        elif False:\n"),),
        (CREW, "-k", "needs_a_person"),
    ),
    Defect(
        "done-and-yet-stopped-early",
        "that one worker was stopped hides that the work is done",
        "cluster/endings.py",
        (("NEEDS_A_PERSON, SOME_FAILED, STOPPED_EARLY,", "NEEDS_A_PERSON, STOPPED_EARLY, SOME_FAILED,"),),
        (CREW, "-k", "one_code"),
    ),
    Defect(
        "waited-for-in-vain",
        "a worker that has no room yet is waited for when all is to stop",
        "cluster/crew.py",
        (("        silent = member.heard is None or ", "        silent = member.heard is not None and "),),
        (CREW, "-k", "wait_for_room"),
    ),
    Defect(
        "told-once",
        "a worker that was begun anew is not told to stop again",
        "cluster/crew.py",
        (
            (
                "        elif member.told is None or now - member.told >= SAY_AGAIN:\n",
                "        elif member.told is None:\n",
            ),
        ),
        (CREW, "-k", "begun_anew"),
    ),
    Defect(
        "not-begun-again",
        "a run whose process died is not followed by another",
        "cluster/hand.py",
        (("or not again or idle >= MOST_LOST:", "or True:"),),
        (HAND, "-k", "followed_by_another"),
    ),
    Defect(
        "outlives-its-worker",
        "a run goes on when its worker has died",
        "cluster/messages.py",
        (("            timer.start()\n            stop(signal.SIGTERM)\n", "            timer.start()\n"),),
        (HAND, "-k", "worker_dies"),
    ),
    Defect(
        "deaf-as-its-parent",
        "a run hears no signals where the thread that began it blocks them",
        "cluster/messages.py",
        (("    signal.pthread_sigmask(signal.SIG_SETMASK, ())\n", ""),),
        (HAND, "-k", "begins_no_other"),
    ),
    Defect(
        "orders-left-to-the-job",
        "what a job starts reads the orders of its run",
        "cluster/messages.py",
        (("        os.dup2(nothing, 0)\n", ""),),
        (HAND, "-k", "neither_read"),
    ),
    Defect(
        "cluster-gone-is-finished",
        "a cluster that goes away in mid-work is told as the end of it",
        "cluster/front.py",
        (('Ended(STOPPED_EARLY, f"the cluster is gone', 'Ended(1, f"the cluster is gone'),),
        ("tests/unit/test_cluster_front.py", "-k", "dies"),
    ),
    Defect(
        "input-of-the-copy",
        "the input is said to be where a copy of the job's folder lies",
        "runner.py",
        (("options.location or source.location", "source.location"),),
        (HAND, "-k", "copy"),
    ),
)
