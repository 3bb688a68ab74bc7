"""Bursts: while more evidence can decide something, the ticks of a clock are sent more often for a short while.

A burst is no bias. It begins because of what was observed before, and not because of the latency of an event that is
not committed yet.
"""

from collections import Counter, deque
from math import inf

from watchslo.snapshot import BurstReason, BurstWish

HOUR_SECONDS = 3600.0
HOLD_SECONDS = 60.0  # without bursts after a failed tick: the apiserver may be overloaded
STRADDLES_SHARE = 0.5  # of the budget; the other half is kept for what is late


class BurstBudget:
    """The ticks that all bursts of this process may send in any hour, and the ticks a second of each burst.

    Bounds: one entry for each burst of the last hour.
    """

    def __init__(self, rate: float, ticks_per_hour: float) -> None:
        self.rate = rate
        self._ticks_per_hour = ticks_per_hour
        self._reserved: deque[tuple[float, float]] = deque()  # when each burst ends at the latest, and its ticks

    def limit(self, rate: float) -> None:
        """Permit so many ticks a second in each burst from now on, also in an active one."""
        self.rate = rate

    def reserve(self, wish: BurstWish, ticks: float, now: float) -> bool:
        """Reserve the ticks of a burst that begins now; return False if the budget does not cover all of them."""
        self._reserved = deque(entry for entry in self._reserved if entry[0] >= now - HOUR_SECONDS)
        share = STRADDLES_SHARE if wish.reason is BurstReason.STRADDLES else 1.0
        if sum(reserved for _, reserved in self._reserved) + ticks > share * self._ticks_per_hour:
            return False
        self._reserved.append((now + wish.seconds, ticks))
        return True


class Burst:
    """The bursts of one clock, through all its apiservers together.

    `begun` counts them by reason, and `ticks` the ticks that were sent in them.
    """

    def __init__(self, budget: BurstBudget) -> None:
        self.begun = Counter[str]()
        self.ticks = 0
        self._budget = budget
        self._until = -inf
        self._left = 0.0  # ticks of the present one
        self._held_until = -inf

    @property
    def rate(self) -> float:
        """The ticks a second in a burst, at most."""
        return self._budget.rate

    def is_active(self, now: float) -> bool:
        """Return True if ticks are to be sent more often at that time."""
        return now < self._until and self._left >= 1.0

    def begin(self, wish: BurstWish, now: float) -> bool:
        """Begin a burst; return False if one is active, or if none may begin."""
        ticks = self.rate * wish.seconds
        if self.is_active(now) or now < self._held_until or not self._budget.reserve(wish, ticks, now):
            return False
        self.begun[wish.reason] += 1
        self._until, self._left = now + wish.seconds, ticks
        return True

    def shortening(self, rate: float, now: float) -> float:
        """Return the factor by which gaps are shorter, at most 1, if there are usually `rate` ticks a second."""
        return min(1.0, rate / self.rate) if self.is_active(now) else 1.0

    def sent(self, now: float) -> None:
        """Note a tick."""
        if self.is_active(now):
            self._left -= 1.0
            self.ticks += 1

    def failed(self, retry_after: float | None, now: float) -> None:
        """End the burst after a failed tick; the next one may begin later."""
        self._until = -inf
        self._held_until = max(self._held_until, now + max(HOLD_SECONDS, retry_after or 0.0))
