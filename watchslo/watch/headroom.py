"""Find the headroom of a resource: the oldest revision from which a watch may begin without a 410.

A watch from revision 1 is refused, and the message usually names the oldest acceptable revision (k8s.io/apiserver,
storage/cacher, `getAllEventsSinceLocked`). If it does not, a few watches from revisions in between find it. A watch
that stays silent was accepted.
"""

import math
import re
from dataclasses import dataclass
from typing import Self

from watchslo.watch.decode import parse_revision
from watchslo.watch.strategy import PAGE_SIZE

FIRST = 1
OPENS = 10  # at most, to find the oldest revision
LEFT_OUT = 0.02  # of the past, if the oldest revision expired before a watch from it had begun
PRECISION = 1.02  # of the distance from the newest revision to the oldest: the search stops within this factor

_NAMED = re.compile(r"too old resource version: \d+ \((\d+)\)")
_BY_STORAGE = "The resourceVersion for the provided watch is too old."


def parse_oldest(message: str | None) -> int | None:
    """Return the oldest acceptable revision from the message of a 410, or None if it names none.

    It is 236 in `too old resource version: 1 (236)`. A watch may begin from that very revision.
    """
    named = _NAMED.search(message or "")
    return parse_revision(named[1]) if named else None


@dataclass(frozen=True, slots=True)
class TooOld:
    """A watch was refused with a 410, which may name the oldest acceptable revision.

    A watch cache names it. `by_storage` says that the storage refused, so the resource has no cache.
    """

    oldest: int | None
    by_storage: bool = False

    @classmethod
    def parse(cls, message: str | None) -> Self:
        """Return what the message of a 410 says."""
        return cls(parse_oldest(message), by_storage=_BY_STORAGE in (message or ""))


@dataclass(frozen=True, slots=True)
class Accepted:
    """A watch was accepted: it was open for a while without a 410."""


Outcome = TooOld | Accepted


class Search:
    """Searches for the oldest revision that a watch may begin from: open a watch from `next` until that is None.

    `newest` is the revision of an open watch. Each step halves the *order of magnitude* of the distance between it and
    the refused revision, because there are millions of revisions but the headroom is some thousands of changes.
    `oldest` is the oldest revision known to be acceptable so far.
    """

    def __init__(self, newest: int) -> None:
        self._newest = max(newest, FIRST)
        self._near = 1  # the distance from the newest revision to the oldest accepted one
        self._far = self._newest  # and to the newest refused one
        self._opens = 0
        self.oldest: int | None = None
        self._named = False

    @property
    def next(self) -> int | None:
        """The revision to open a watch from, or None if the search is over."""
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
        """Return True if the apiserver still has every change since revision 1."""
        return self.oldest == FIRST

    def observe(self, revision: int, outcome: Outcome) -> None:
        """Record the outcome of the watch from `revision`, which was `next`."""
        self._opens += 1
        if isinstance(outcome, Accepted):
            self.oldest = revision
            self._near = self._newest + 1 - revision
        elif outcome.oldest is not None and outcome.oldest > revision:
            self.oldest = outcome.oldest
            self._named = True
        else:
            self._far = self._newest + 1 - revision


def replay_start(oldest: int, newest: int, expired: int) -> int:
    """Return where a watch of the past should begin, after `expired` watches got a 410 because that came too late.

    A busy cache drops its oldest change with each new one. So the first attempt begins at the oldest revision, and each
    further one leaves out more of the past: 2% of it, then twice as much each time.
    """
    left_out = min(1.0, LEFT_OUT * 2 ** (expired - 1)) if expired else 0.0
    return oldest + int(left_out * max(newest - oldest, 0))


def estimate_list(took: float, remaining: int) -> float:
    """Return the seconds for all pages of a list, from the first page's duration and the remaining objects.

    `took` is in seconds. Pages are requested one after the other.
    """
    return took * (1 + math.ceil(remaining / PAGE_SIZE))
