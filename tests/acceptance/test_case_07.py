"""Case 07: rows come, go and change while the job runs; every result stands beside the row that it was made from."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

from acceptance.jobs import Place, wait_until

FIRST, LAST = 100, 159
DELETED, INSERTED, CHANGED_LATER, CHANGED_DONE = range(145, 150), range(90, 95), 153, 101

ORDERS = """
def orders():
    with sqlite3.connect(HERE / "shop.db") as shop:
        for number, total in shop.execute("SELECT order_no, total FROM orders ORDER BY order_no"):
            yield {"order_no": number, "total": total}

job = onward.Job("orders", source=onward.iterable(orders, key="order_no"), concurrency=2)

@job.step
def double(order):
    started(order["order_no"], "double")
    time.sleep(0.03)
    if order["order_no"] % 7 == 0:
        raise onward.Rejected(f"order {order['order_no']} of {order['total']} is refused")
    return order["total"] * 2
"""


def shop(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "shop.db", isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (order_no INTEGER PRIMARY KEY, total INTEGER)")
    return connection


def test_results_and_failures_belong_to_their_rows(tmp_path: Path) -> None:
    table = shop(tmp_path)
    table.executemany("INSERT INTO orders VALUES (?, ?)", [(number, number * 10) for number in range(FIRST, LAST + 1)])
    place = Place(tmp_path, ORDERS)
    run = place.start("run", "job.py")
    wait_until(lambda: len(place.calls()) > 22)
    table.executemany("DELETE FROM orders WHERE order_no = ?", [(number,) for number in DELETED])
    table.executemany("INSERT INTO orders VALUES (?, ?)", [(number, number * 10) for number in INSERTED])
    table.executemany("UPDATE orders SET total = 7 WHERE order_no = ?", [(CHANGED_LATER,), (CHANGED_DONE,)])
    run.send_signal(signal.SIGKILL)
    run.wait()
    before, kept = place.calls(), {row["key"] for row in place.export("kept.jsonl")}
    assert not {*DELETED, CHANGED_LATER} & set(before), "the rows were to change before their turn"

    ran = place.run()
    today = dict(table.execute("SELECT order_no, total FROM orders"))
    results, failures = place.export(), place.failures()
    quarantined = place.export("failed.jsonl", "--state", "quarantined")

    assert ran.code == 1
    assert (
        "5 new, 1 changed, to be done with the new value, 1 changed after they were done (stale), 5 vanished"
        in ran.said
    )
    assert ran.status["total"] == 60
    assert (ran.status["vanished"], ran.status["stale"]) == (5, 1)
    assert [row["outputs"]["double"] for row in results] == [2 * row["input"]["total"] for row in results]
    assert all(row["key"] == row["input"]["order_no"] for row in [*results, *quarantined])
    assert {row["key"]: row["input"]["total"] for row in [*results, *quarantined]} == {
        **today,
        CHANGED_DONE: CHANGED_DONE * 10,  # finished before: it keeps its result and counts as stale
    }
    assert sorted(row["key"] for row in failures) == [number for number in sorted(today) if number % 7 == 0]
    assert all(f"order {one['key']} of {today[one['key']]} is refused" in one["error"] for one in failures)
    again = place.calls()[len(before) :]
    assert len(kept) > 10 and not set(again) & kept, "nothing that was recorded is made anew"
    assert len(results) + len(failures) == 60

    at_rest = place.run()
    assert (at_rest.code, at_rest.counts) == (1, ran.counts)
    assert len(place.calls()) == len(before) + len(again), "reading the table again makes no second result"
    shown = json.loads(place.fine("show", "job.py", str(CHANGED_DONE), "--json"))
    assert shown["stale"]
    assert [one["input"]["total"] for one in shown["generations"]] == [CHANGED_DONE * 10, 7]
