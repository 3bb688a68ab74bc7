"""The cache clock: when a revision reached the watch cache of an apiserver.

A list with resourceVersion=0 is answered from the watch cache without waiting. If it was sent at s and answered at e
with revision C, the cache had every revision up to C by e, and no later one before s. A cache advances with the events
of its resource and with progress notices. The cache of an idle resource can therefore be old without being behind.
"""

from collections import deque

import numpy as np

from watchslo.clock.staircase import Ends, Starts
from watchslo.model import FloatArray, IntArray, Interval, Measure, Reading

KEPT_SECONDS = 600.0  # as long as the evidence of the revision clock
RECENT_SECONDS = 10.0  # the span of reads that describe the present state of a cache
WIDEST_SECONDS = 2.0  # reads that are further apart prove nothing about the time in between
DISTRUST_SECONDS = 30.0  # after a contradiction: if several caches answer, the next one comes sooner


class CacheClock:
    """The reads of one cache (one resource at one apiserver), in the order of their answers.

    A cache never goes back, and its apiserver delivers nothing that the cache lacks. A contradiction means that several
    caches answer or that the storage was restored. `contradictions` counts them. After one, all evidence is dropped and
    new evidence is not trusted for `DISTRUST_SECONDS`. Reads are kept for ten minutes: their rate bounds their number.
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
        """The median round trip of recent reads, in seconds: shorter latencies are not resolved."""
        return float(np.median([reading.round_trip for reading in self._recent])) if self._recent else 0.0

    def add(self, reading: Reading) -> None:
        """Add a read."""
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
        """Return when n events of the cache's resource reached the cache, as two arrays of length n.

        Each event reached the cache after `start` and by `end`, which is at most the time when it was `received` from
        the same apiserver. `start` is minus infinity if no read is old enough or if the reads around that time are too
        far apart.
        """
        start, end = self._starts.at(revisions), np.minimum(received, self._ends.at(revisions))
        if (start > end).any():
            self._contradicted(float(received.max()))
            start = np.full(received.shape, -np.inf)
        known = (start >= self._trusted_from) & (end - start <= WIDEST_SECONDS)
        return np.where(known, start, -np.inf), end

    def behind(self, known: IntArray, measure: Measure, now: float) -> Interval | None:
        """Return how far the cache was behind at worst in the last ten seconds, as seconds in an interval.

        This is the age of the oldest change that the cache lacked. `known` has the ascending revisions of its resource
        that any apiserver has delivered by `now`; `measure` dates their commits. The upper end is valid if no older
        revision is missing in `known`. The result is None without a usable read, and 0 if the cache lacked no known
        revision, even if the cache is old.
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
