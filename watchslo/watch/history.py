"""How far back does an apiserver remember the changes of a resource? Whoever asks for older ones gets a 410.

One watch from the first revision there is tells: it is refused, and the refusal names the oldest revision that would
not be (k8s.io/apiserver, storage/cacher, `getAllEventsSinceLocked`). Where it does not, a few watches in between find
it. One that stays silent was accepted.
"""

import math
import re
from dataclasses import dataclass

from watchslo.watch.decode import parse_revision
from watchslo.watch.strategy import PAGE_SIZE

FIRST = 1
OPENS = 10  # at most, to find the oldest revision
PRECISION = 1.02  # of the distance from the newest revision to the oldest: what is nearer than that is as good

_NAMED = re.compile(r"too old resource version: \d+ \((\d+)\)")


def parse_oldest(message: str | None) -> int | None:
    """The oldest acceptable revision, by the message of a 410: 236 of `too old resource version: 1 (236)`.

    A watch may begin from that very revision. None where the message names none.
    """
    named = _NAMED.search(message or "")
    return parse_revision(named[1]) if named else None


@dataclass(frozen=True, slots=True)
class TooOld:
    """A watch was refused with a 410, which may name the oldest revision that would not be."""

    oldest: int | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A watch was not refused."""


Outcome = TooOld | Accepted


class Search:
    """Looks for the oldest revision that a watch may begin from: open one from `next`, until that is None.

    `newest` is that of a watch which is open. Between it and what was refused, half of the *order of magnitude* of the
    distance is cut off each time: of revisions there are millions, and of changes that are remembered thousands.
    `oldest` is the oldest revision that is known to be acceptable so far.
    """

    def __init__(self, newest: int) -> None:
        self._newest = max(newest, FIRST)
        self._near = 1  # the distance, counted from the newest, of what is acceptable
        self._far = self._newest  # and of what is refused
        self._opens = 0
        self.oldest: int | None = None
        self._named = False

    @property
    def next(self) -> int | None:
        """The revision to open a watch from; None if there is nothing more to find out."""
        if self._opens == 0:
            return FIRST
        if self._named or self.complete or self._opens == OPENS:
            return None
        if self._far <= max(PRECISION * self._near, self._near + 1):
            return None
        between = min(max(math.isqrt(self._near * self._far), self._near + 1), self._far - 1)
        return self._newest + 1 - between

    @property
    def complete(self) -> bool:
        """Whether nothing was ever dropped."""
        return self.oldest == FIRST

    def observe(self, revision: int, outcome: Outcome) -> None:
        """What became of the watch from `revision`, which was `next`."""
        self._opens += 1
        if isinstance(outcome, Accepted):
            self.oldest = revision
            self._near = self._newest + 1 - revision
        elif outcome.oldest is not None and outcome.oldest > revision:
            self.oldest = outcome.oldest
            self._named = True
        else:
            self._far = self._newest + 1 - revision


def estimate_list(took: float, remaining: int) -> float:
    """Seconds for all pages of a list, if the first one took so long and that many objects remain.

    Each page is asked for when the one before it has come.
    """
    return took * (1 + math.ceil(remaining / PAGE_SIZE))
