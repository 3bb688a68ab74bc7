"""What one of our watches has delivered, in runs, so that the first event after a revision can be found."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from watchslo.clock.staircase import AFTER_ALL

RUN_SECONDS = 0.1  # a busy resource would otherwise have thousands of events a second to remember
MOST_RUNS = 6_000  # ten minutes of a busy resource: for so long the revision clock dates commits; 192 kB
FORGOTTEN_RUNS = 600  # are forgotten together


@dataclass(frozen=True, slots=True)
class MissedEvent:
    """The first event after a revision: it has a revision from `oldest` to `newest`, and arrived by `received`.

    `oldest` is None if there may have been an earlier event, which our watch does not know.
    """

    oldest: int | None
    newest: int
    received: float


class DeliveredRuns:
    """The revisions of the events of one watch and when they arrived, in monotonic seconds; the last 6,000 runs.

    A run has all events that arrive within `RUN_SECONDS` of its first one. Everything after revision `floor` is known.
    """

    def __init__(self) -> None:
        self.floor = AFTER_ALL
        self._firsts, self._lasts = array("q"), array("q")
        self._began, self._ended = array("d"), array("d")

    def begin(self, revision: int) -> None:
        """Forget everything: the watch begins after this revision."""
        self.floor = revision
        for column in (self._firsts, self._lasts, self._began, self._ended):
            del column[:]

    def begin_later(self) -> None:
        """Forget everything: the watch missed something, and everything after its next event or bookmark is known."""
        self.begin(AFTER_ALL)

    def mark(self, revision: int) -> None:
        """Note a bookmark: what comes after it is known again."""
        if self.floor == AFTER_ALL:
            self.floor = revision

    def add(self, received: float, revisions: Sequence[int]) -> None:
        """Add the ascending revisions of a batch. This runs for every batch."""
        if self.floor == AFTER_ALL:
            self.floor = revisions[0]
        if self._began and received - self._began[-1] < RUN_SECONDS:
            self._lasts[-1], self._ended[-1] = revisions[-1], received
            return
        self._firsts.append(revisions[0])
        self._lasts.append(revisions[-1])
        self._began.append(received)
        self._ended.append(received)
        if len(self._firsts) > MOST_RUNS:
            self.floor = self._lasts[FORGOTTEN_RUNS - 1]
            for column in (self._firsts, self._lasts, self._began, self._ended):
                del column[:FORGOTTEN_RUNS]

    def after(self, revision: int) -> MissedEvent | None:
        """Return the first event after a revision; None if there is none that is known."""
        place = bisect_right(self._lasts, revision)
        if place == len(self._lasts):
            return None
        first = self._firsts[place]
        if revision < self.floor:
            return MissedEvent(None, first, self._began[place])
        if revision < first:
            return MissedEvent(first, first, self._began[place])
        return MissedEvent(revision + 1, self._lasts[place], self._ended[place])
