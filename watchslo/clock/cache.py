"""When did a revision reach an apiserver's watch cache? The clock of the second half of an event's way.

A list with resourceVersion=0 is answered from the watch cache, without waiting for anything. Sent at s and answered at
e with revision C, it shows that the cache had every revision up to C by e, and no later one before s. A cache moves on
with the events of its resource and with progress notices: that of an idle resource is old, and not behind.
"""

from collections import deque

import numpy as np

from watchslo.clock.staircase import Ends, Starts
from watchslo.model import FloatArray, IntArray, Interval, Measure, Reading

KEPT_SECONDS = 600.0  # as long as the revision clock remembers
RECENT_SECONDS = 10.0  # what a cache is said to be like now
WIDEST_SECONDS = 2.0  # where reads were further apart than this, they tell nothing of what came between
DISTRUST_SECONDS = 30.0  # after a contradiction: where several caches answer, the next one comes sooner


class CacheClock:
    """The reads of one cache, that of one resource at one apiserver, by the order of their answers.

    A cache cannot go back, nor can its apiserver deliver what its cache has not. Where it looks like that, several
    caches answer, or the storage was restored: `contradictions` counts it, all that was known is forgotten, and for a
    while nothing new is believed.
    """

    def __init__(self) -> None:
        self.contradictions = 0
        self._trusted_from = -np.inf
        self._clear()

    def _clear(self) -> None:
        self._starts = Starts()
        self._ends = Ends()
        self._recent: deque[Reading] = deque()

    @property
    def median_round_trip(self) -> float:
        """Of the last reads, in seconds: what takes no longer is not resolved."""
        return float(np.median([reading.round_trip for reading in self._recent])) if self._recent else 0.0

    def add(self, reading: Reading) -> None:
        """Takes in a read."""
        if self._ends.newest_before(reading.sent) > reading.revision:
            self._contradicted(reading.answered)
        self._starts.add(reading.revision, reading.sent)
        self._ends.add(reading.revision, reading.answered)
        self._recent.append(reading)
        for staircase in (self._starts, self._ends):
            staircase.prune(reading.answered - KEPT_SECONDS)
        while self._recent[0].answered < reading.answered - RECENT_SECONDS:
            self._recent.popleft()

    def locate(self, revisions: IntArray, received: FloatArray) -> tuple[FloatArray, FloatArray]:
        """When n events of this cache's resource, received from its apiserver at those times, had reached it.

        Two arrays of length n: after `start`, and by `end`, no later than it was received. `start` is minus infinity
        where that is not known, be it that no read is old enough or that the reads about that time are too far apart.
        """
        start, end = self._starts.at(revisions), np.minimum(received, self._ends.at(revisions))
        if (start > end).any():
            self._contradicted(float(received.max()))
            start = np.full(received.shape, -np.inf)
        known = (start >= self._trusted_from) & (end - start <= WIDEST_SECONDS)
        return np.where(known, start, -np.inf), end

    def behind(self, known: IntArray, measure: Measure, now: float) -> Interval | None:
        """How old the cache was at worst, in the last ten seconds: the age of the oldest change that it did not have.

        `known` are the revisions of its resource that are known by `now`, from any apiserver, ascending, and `measure`
        tells when these were committed. The upper end holds if no older one is missing among them. None without a read
        that can be judged; 0 where the cache lacked nothing that is known, however old it is.
        """
        reads = [read for read in self._recent if read.answered >= now - RECENT_SECONDS]
        sent, answered = np.array([(read.sent, read.answered) for read in reads]).reshape(-1, 2).T
        missing = known.searchsorted([read.revision for read in reads], side="right")
        lacks = missing < len(known)
        bounds = measure(known[missing[lacks]], np.full(int(lacks.sum()), now))
        judged = ~lacks
        judged[lacks] = bounds.measurable
        judged &= sent >= self._trusted_from
        if not judged.any():
            return None
        lower, upper = np.zeros(len(reads)), np.zeros(len(reads))
        lower[lacks] = sent[lacks] - (now - bounds.proven)
        upper[lacks] = answered[lacks] - (now - bounds.upper)
        return Interval(max(0.0, float(lower[judged].max())), max(0.0, float(upper[judged].max())))

    def _contradicted(self, now: float) -> None:
        self.contradictions += 1
        self._trusted_from = now + DISTRUST_SECONDS
        self._clear()
