"""A long-lived actor of Ray, and what begins, asks and ends such actors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from onward.cluster.crew import Heard
from onward.cluster.hand import Ended, Hand
from onward.policy.endings import NOT_STARTED, ONWARD_FAULT, STOPPED_EARLY

LOOK_EVERY = 0.5
FOR_EVER = -1
THREADS = 4
LONGEST = 500


class Worker:
    """One actor. It is begun without arguments, for Ray keeps those; what it is to do comes with the call."""

    def __init__(self) -> None:
        self._hand = Hand()

    def work(self, assignment: str) -> dict[str, Any]:
        return self._hand.work(assignment).plain()

    def stop(self, number: int) -> None:
        self._hand.stop(number)

    def look(self) -> dict[str, Any]:
        return self._hand.look()


class RayCluster:
    """Implements `crew.Cluster`. `ray` is the module, connected."""

    def __init__(self, ray: Any, workers: int, needs: Mapping[str, float], assignment: str):
        self._ray = ray
        made = ray.remote(Worker).options(
            **needs,
            max_restarts=FOR_EVER,
            max_task_retries=FOR_EVER,
            max_concurrency=THREADS,
            scheduling_strategy="SPREAD",
        )
        self._actors = {number: made.remote() for number in range(1, workers + 1)}
        self._works = {actor.work.remote(assignment): number for number, actor in self._actors.items()}
        self._looks: dict[Any, int] = {}
        self._due = dict.fromkeys(self._actors, 0.0)

    def hear(self, seconds: float) -> Iterator[Heard]:
        now = time.monotonic()
        for number, due in list(self._due.items()):
            if now >= due:
                self._looks[self._actors[number].look.remote()] = number
                del self._due[number]
        waiting = [*self._works, *self._looks]
        if not waiting:
            time.sleep(seconds)
            return
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=seconds)
        for one in ready:
            if one in self._looks:
                yield from self._looked(one)
        for one in ready:
            if one in self._works:
                number = self._works.pop(one)
                self._due.pop(number, None)
                yield Heard(number, ended=self._ended(one))

    def _looked(self, one: Any) -> Iterator[Heard]:
        number = self._looks.pop(one)
        try:
            look = self._ray.get(one)
        except self._ray.exceptions.RayError:
            look = None  # it is being begun anew, or has come to its end: its work tells which
        if number in self._works.values():
            self._due[number] = time.monotonic() + LOOK_EVERY
        if look is not None:
            yield Heard(number, look=look)

    def _ended(self, one: Any) -> Ended:
        faults = self._ray.exceptions
        try:
            return Ended(**self._ray.get(one))
        except faults.RuntimeEnvSetupError as error:
            return Ended(NOT_STARTED, f"the job's folder could not be brought to a worker: {_brief(error)}")
        except faults.RayTaskError as error:
            if isinstance(error, ImportError):
                return Ended(NOT_STARTED, f"a worker cannot load onward: {_brief(error)}")
            return Ended(ONWARD_FAULT, f"a fault of onward itself, in a worker: {_brief(error)}")
        except faults.RayActorError as error:
            text = str(error)
            if "ModuleNotFoundError" in text or "ImportError" in text:
                return Ended(NOT_STARTED, f"a worker cannot load onward, which each node needs: {_brief(error)}")
            return Ended(STOPPED_EARLY, f"Ray has given a worker up: {_brief(error)}")
        except faults.RayError as error:
            return Ended(STOPPED_EARLY, f"Ray has given a worker up: {_brief(error)}")

    def stop(self, worker: int, number: int) -> None:
        self._actors[worker].stop.remote(number)

    def end(self, worker: int) -> None:
        self._due.pop(worker, None)
        self._works = {one: number for one, number in self._works.items() if number != worker}
        self._looks = {one: number for one, number in self._looks.items() if number != worker}
        self._ray.kill(self._actors[worker], no_restart=True)


def _brief(error: BaseException) -> str:
    """The last line that says something: before it stand Ray's explanations and traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:LONGEST]
