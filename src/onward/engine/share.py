"""Which records a run may take up: all that are due, as many as its limit allows, or those that a person asks about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from onward.model import Fact, State

MOST_ASKED = 500


class Share:
    """`left`: how many records a run under `--limit` may still begin with; None where it may take up all.

    What it has begun stays in its share until it has ended: retries are not counted again.
    """

    def __init__(self, left: int | None = None):
        self.left = left
        self._again: set[int] = set()
        self._unanswered: set[int] = set()
        self._asked: dict[int, None] | None = None

    def ask_about(self, records: Sequence[int]) -> None:
        """These records and no others, each once; one that goes on from there is worked on to its end."""
        self._asked, self.left = dict.fromkeys(records), 0

    @property
    def is_asked_about(self) -> bool:
        return bool(self._asked)

    @property
    def is_begun(self) -> bool:
        """Whether no other record may be begun with; the run then stays for its own, and for no others."""
        return self.left == 0

    @property
    def is_done(self) -> bool:
        """Whether nothing of it is left."""
        return self.is_begun and not self._asked and not self._again and not self._unanswered

    @property
    def waits_for_answers_alone(self) -> bool:
        """Whether nothing of it is left but unconfirmed records, which are asked about again."""
        return self.is_begun and not self._asked and not self._again

    @property
    def waiting_again(self) -> tuple[int, ...]:
        """Records that wait for another attempt."""
        return tuple(self._again)

    @property
    def unanswered(self) -> tuple[int, ...]:
        """Records that are unconfirmed."""
        return tuple(self._unanswered)

    def due(self, want: int, free: int) -> tuple[int, tuple[int, ...] | None]:
        """Of `want` records how many may be claimed, and which alone; None: whichever. `free`: idle slots."""
        if self.left is None:
            return want, None
        if self.left:
            return min(want, self.left), None
        only = tuple(islice(self._asked or (), MOST_ASKED)) or (*self._again, *self._unanswered)
        return (free if only else 0), only

    def came_for(self, found: bool) -> bool:
        """A claim has ended. Whether records that were asked about did not come: others have taken them up by then, or
        decided about them."""
        if found or not self._asked:
            return False
        for record in list(islice(self._asked, MOST_ASKED)):
            del self._asked[record]
        return True

    def take(self, record: int) -> None:
        """It is being worked on."""
        if self._asked is not None:
            self._asked.pop(record, None)
        if record in self._again or record in self._unanswered:
            self._again.discard(record)
            self._unanswered.discard(record)
        elif self.left is not None:
            self.left = max(self.left - 1, 0)

    def leave(self, fact: Fact) -> None:
        """It is to be taken up again: after its pause, or to be asked about."""
        if self.left is None:
            return
        if fact.state is State.PENDING:
            self._again.add(fact.record)
        elif self._asked is None:
            self._unanswered.add(fact.record)
