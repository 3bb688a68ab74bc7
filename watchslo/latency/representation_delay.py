"""How much later events arrive as whole objects than in a small representation.

Two watches of the same resource and selectors at one apiserver deliver the same revisions, and all arrivals are times
of this process: so a delay needs no tick and no other clock. It is exact, up to the delays of this process: what these
may have added widens the interval, and more than 150 ms make an event no sample. If the whole object arrives first,
the delay is 0.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from watchslo.latency.own_delay import LATE_SECONDS, OwnDelays
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray

LONGEST_SECONDS = 60.0  # an event that comes later than its other copy by more, or never, has no delay
SETTLED_SECONDS = 0.2  # after an arrival; then the delays of this process at that time are known
MOST_WAITING = 16_384  # arrivals of one watch that wait for those of the other, 400 KiB


class NoDelay(StrEnum):
    """Why an event that one of the two watches delivered has no delay."""

    TAINTED = "tainted"  # this process was late to read one of the copies
    REOPENED = "reopened"  # the watch of the later copy was not open yet when the first copy arrived
    ALONE = "alone"  # the other copy did not come within a minute, or too many events wait


class Copies:
    """The arrivals of one watch that wait for the other copies of their events, in ascending order of revisions."""

    def __init__(self) -> None:
        self.opened = np.inf
        self.given_up = 0
        self._revisions = array("q")
        self._received = array("d")
        self._since = array("d")  # when the watch that delivered it was opened; NaN for what was read late

    def __len__(self) -> int:
        return len(self._revisions)

    def add(self, revisions: Sequence[int], received: float, *, tainted: bool) -> None:
        """Add the events of a chunk; with `tainted`, this process was late to read it."""
        self._revisions.extend(revisions)
        self._received.extend([received] * len(revisions))
        self._since.extend([np.nan if tainted else self.opened] * len(revisions))
        surplus = len(self) - MOST_WAITING
        if surplus > 0:
            self.given_up += surplus
            for column in (self._revisions, self._received, self._since):
                del column[:surplus]

    def columns(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the revisions, when each was received, and since when its watch was open."""
        return np.array(self._revisions), np.array(self._received), np.array(self._since)

    def keep(self, those: BoolArray) -> None:
        """Forget the others."""
        revisions, received, since = (column[those].tolist() for column in self.columns())
        self._revisions, self._received, self._since = array("q", revisions), array("d", received), array("d", since)

    def clear(self) -> None:
        self.keep(np.zeros(len(self), dtype=bool))


class RepresentationDelay:
    """Compares the arrivals of a watch (`small`) with those of its reference, which has whole objects (`full`).

    `without` counts the events without a delay by reason. `withheld` is for how many seconds, at the last `match`, the
    whole object of an event had been missing that the other watch delivered. Times are monotonic seconds.
    """

    def __init__(self, own_delays: OwnDelays) -> None:
        self.small = Copies()
        self.full = Copies()
        self.without = Counter(dict.fromkeys(NoDelay, 0))
        self.withheld = 0.0
        self._own_delays = own_delays

    def reset(self) -> None:
        """Forget what waits: revisions mean something else now."""
        self.small.clear()
        self.full.clear()

    def match(self, now: float) -> tuple[FloatArray, Bounds]:
        """Remove the events that both watches delivered; return when the whole objects arrived, and their delays.

        Events that wait too long are counted.
        """
        (small, read_small, since_small), (full, read_full, since_full) = self.small.columns(), self.full.columns()
        both, i, j = np.intersect1d(small, full, return_indices=True)  # the first one of several with one revision
        self.withheld = self._missing_for(read_small[~np.isin(small, both)], now)
        is_settled = np.maximum(read_small[i], read_full[j]) < min(now - SETTLED_SECONDS, self._own_delays.known_until)
        both, i, j = both[is_settled], i[is_settled], j[is_settled]
        result = self._delays(read_small[i], since_small[i], read_full[j], since_full[j])
        for copies, revisions, received in ((self.small, small, read_small), (self.full, full, read_full)):
            is_left = ~np.isin(revisions, both)
            is_old = is_left & (received < now - LONGEST_SECONDS)
            self.without[NoDelay.ALONE] += int(np.count_nonzero(is_old)) + copies.given_up
            copies.given_up = 0
            if len(both) or is_old.any():
                copies.keep(is_left & ~is_old)
        return result

    def _missing_for(self, received: FloatArray, now: float) -> float:
        """Return for how long whole objects have been missing whose other copies were received at these times."""
        return float(now - received[0]) if len(received) and self.full.opened <= received[0] else 0.0

    def _delays(
        self, small: FloatArray, small_since: FloatArray, full: FloatArray, full_since: FloatArray
    ) -> tuple[FloatArray, Bounds]:
        """Return the delays of n events whose copies were received at these times; count those without one."""
        own_small, own_full = self._own_delays.of(small), self._own_delays.of(full)
        first, last = np.minimum(small, full), np.maximum(small, full)
        tainted = (
            np.isnan(small_since)
            | np.isnan(full_since)
            | (np.maximum(own_small, own_full) > LATE_SECONDS)
            | self._own_delays.span_stop(first, last)
        )
        reopened = ~tainted & ((small_since > full) | (full_since > small))
        self.without[NoDelay.TAINTED] += int(np.count_nonzero(tainted))
        self.without[NoDelay.REOPENED] += int(np.count_nonzero(reopened))
        known = ~(tainted | reopened)
        lower = np.maximum(0.0, full - small - own_full)[known]
        upper = np.maximum(0.0, full - small + own_small)[known]
        return full[known], Bounds(lower, upper, lower, upper, np.ones(len(lower), dtype=bool))
