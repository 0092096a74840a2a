"""Errors: what a step may raise about its record, and what onward raises about a job, a store or an input."""

from __future__ import annotations

import errno


class StepOutcome(Exception):
    """Raised by a step to say what its failure means; see the kinds in `onward.model.Kind`."""


class Transient(StepOutcome):
    """The same call may succeed later.

    `retry_after` is in seconds, as the far side asked. `sent=False` states that nothing reached the far side,
    `sent=True` that it did, None that it is not known; only effects look at it.
    """

    def __init__(self, message: str = "", retry_after: float | None = None, sent: bool | None = None):
        super().__init__(message)
        self.retry_after = retry_after
        self.sent = sent


class Rejected(StepOutcome):
    """The far side understood and refused: final for this record."""


class Invalid(StepOutcome):
    """The record's data is wrong: final for this record."""


class UnusableAnswer(Invalid):
    """A model answered, and what it said cannot be used: cut off, empty, refused, no fit. `received` is what came."""

    def __init__(self, message: str, received: str):
        super().__init__(message)
        self.received = received


class BadResponse(Transient):
    """A server answered with something that no such server says, such as a page of HTML with status 200."""


class Fatal(StepOutcome):
    """Nothing can go on (a revoked key, no credit): the run stops and the record goes back to pending."""


class BudgetReached(Fatal):
    """Another call could cost more than the budget has left."""


class Done(StepOutcome):
    """Ends the record as succeeded; its later steps are skipped and counted apart."""

    def __init__(self, reason: str = ""):
        super().__init__(reason)
        self.reason = str(reason)


def mark_as_a_models(error: BaseException) -> None:
    """Note on an error that it came up while a model was asked: what it says is nothing about what the step around it
    has sent elsewhere."""
    error.asked_a_model = True  # type: ignore[attr-defined]


def is_a_models(error: BaseException) -> bool:
    return getattr(error, "asked_a_model", False) is True


def name_cause(error: BaseException, words: str) -> None:
    """Note on an error what people and logs are to hear of it besides its type; no word of it quotes data."""
    error.cause_in_words = words  # type: ignore[attr-defined]


def named_cause(error: BaseException) -> str:
    words = getattr(error, "cause_in_words", "")
    return words if isinstance(words, str) else ""


class OnwardError(Exception):
    """A fault with a message for people. `exit_code` is what the command line ends with."""

    exit_code = 2


class OutOfMemory(OnwardError):
    """No memory was left for onward's own work. What is committed is kept; the next run goes on."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__("memory ran out; what is committed is kept, and the same command goes on")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it says that memory ran out: also where that means that no thread can be started."""
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    no_thread = isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    return isinstance(error, MemoryError) or no_memory or no_thread


class UsageError(OnwardError):
    """The call, the flags or the parameters are wrong; nothing was started."""


class DeclarationError(OnwardError):
    """A job is described wrongly; raised while it is declared."""


class SourceError(OnwardError):
    """The input cannot be read."""


class SourceLost(SourceError):
    """The input cannot be reached now, or was lost while it was read; what was read before that is kept."""

    exit_code = 3


class SourceMoved(UsageError):
    """The instance was fed from another location."""


class StoreError(OnwardError):
    """The store cannot be used: wrong file, wrong version, unsafe file system."""


class StoreAway(StoreError):
    """The store's server cannot be reached now; a run that ends so (3) is to be started again."""


class StoreMissing(StoreError):
    """There is no store at the given place."""


class StoreWriteError(OnwardError):
    """A commit failed (disk full, input/output error): nothing of the batch was kept."""

    exit_code = 3


class ExportError(OnwardError):
    """The export cannot be written. Nothing appeared under its name; a file that was there is as it was."""


class LeaseLost(OnwardError):
    """This run's lease went to another run; it may change nothing any more."""

    exit_code = 3


class HistoryLost(OnwardError):
    """The store has gone back to an earlier state: it lacks what it had acknowledged. `kept`: the number of its
    writer's last change that it still has, None where it does not know that writer any more."""

    exit_code = 3

    def __init__(self, message: str, kept: int | None = None):
        super().__init__(message)
        self.kept = kept


class IllegalTransition(AssertionError):
    """A record state change that the table of transitions does not have: a fault of onward itself."""


class OutputError(Exception):
    """An output that is too big, does not fit its annotation or does not survive JSON. The message names the path."""


class StaleCheckpoint(Exception):
    """A stored output that today's annotation can no longer decode."""

    def __init__(self, step: str, message: str):
        super().__init__(message)
        self.step = step


class MisfitRecord(Exception):
    """A record's value does not fit the job's record type."""
