"""Revisions that are commit times: the clock of their storage minus the local clock.

On GKE, a revision is the time of its commit in nanoseconds of Unix time, by the clock of the storage. A revision r that
was committed between the local times `since` and `until` proves that theta, that clock minus the local one, lies in
[r - until, r - since]. An event that arrived soon after its commit bounds it from below, and one that was committed
soon after a tick was sent from above. Many of them narrow it to milliseconds, and then each revision tells when it was
committed. This holds if all commits are dated by one clock, or by clocks that agree, as those of Spanner do: a commit
is not visible before its time has passed, and a read at some time sees exactly the commits up to it.

If the clock is set, evidence contradicts itself, unless the step is shorter than what separates them: forward than the
shortest latency, back than the shortest time from a tick to a commit. Such a step makes bounds wrong by less than that.
A storage that is set back stands still until its clock has caught up. A commit before the first tick of that time is
then dated too early, by less than the gap between two ticks, and the commits that are sealed with it by less than the
precision of the offset: nothing contradicts them yet. A smeared clock has no step.
"""

import numpy as np

from watchslo.clock.offset import DRIFT
from watchslo.model import FloatArray, IntArray, Interval

NANOSECOND = 1e-9  # in seconds
SETTLED_SECONDS = 10.0  # after a step: a clock that was set back by less has then caught up


class CommitOffset:
    """Theta in seconds, counted from the first revision, as the interval that all evidence so far agrees on.

    `steps` counts the evidence that contradicts all earlier evidence: a clock was set, or the revisions are no times.
    Then everything starts again with what is committed `SETTLED_SECONDS` later: the clock may stand still until then.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._first: int | None = None
        self._known: Interval | None = None
        self._known_at = 0.0
        self._since = -np.inf  # only what was committed later is evidence, and is dated

    def observe(self, revisions: IntArray, since: FloatArray, until: FloatArray, now: float) -> bool:
        """Add n revisions, each committed between two local times up to `now`; return False if they contradict.

        `since` is minus infinity where it is not known.
        """
        used = since >= self._since
        if not used.any():
            return True
        times = self._times(revisions[used])
        oldest, newest = since[used], until[used]
        observed = Interval(
            float((times - newest - DRIFT * (now - newest)).max()),
            float((times - oldest + DRIFT * (now - oldest)).min()),
        )
        known = self.bounds(now)
        both = observed if known is None else known.intersection(observed)
        self._known_at = now
        if both.width >= 0:
            self._known = both
            return True
        self.steps += 1
        self._known, self._since = None, now + SETTLED_SECONDS
        return False

    @property
    def width(self) -> float | None:
        """How precisely theta is known, in seconds; None if it is not known."""
        return None if self._known is None else self._known.width

    def bounds(self, now: float) -> Interval | None:
        """Return theta, widened by the possible drift since the last evidence; None before the first."""
        return None if self._known is None else self._known.widened(DRIFT * abs(now - self._known_at))

    def narrowed(self, revisions: IntArray, since: FloatArray, until: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the narrower times between which n revisions were committed, by their own times.

        Where these contradict `since` and `until`, or a clock may have been set in between, these two are returned.
        """
        if self._known is None:
            return since, until
        times = self._times(revisions)
        earliest, latest = times - self._known.upper, times - self._known.lower
        earliest = np.maximum(since, earliest - DRIFT * np.abs(self._known_at - earliest))
        latest = np.minimum(until, latest + DRIFT * np.abs(self._known_at - latest))
        agree = (earliest <= latest) & (since >= self._since)
        return np.where(agree, earliest, since), np.where(agree, latest, until)

    def _times(self, revisions: IntArray) -> FloatArray:
        """Return the times of revisions in seconds since the first one: nanoseconds are exact for a hundred days."""
        if self._first is None:
            self._first = int(revisions[0])
        return (revisions - self._first).astype(np.float64) * NANOSECOND
