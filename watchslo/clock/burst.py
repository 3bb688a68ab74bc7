"""Bursts: while more evidence can decide something, the ticks of a clock are sent more often for a short while.

A burst begins because of what was observed, often a change of the law of latencies. So its extra ticks prove, but the
estimate does not use them: see `tick_schedule.py`.
"""

from collections import Counter, deque
from math import inf

from watchslo.snapshot import BurstReason, BurstWish

HOUR_SECONDS = 3600.0
HOLD_SECONDS = 60.0  # without bursts after a failed tick: the apiserver may be overloaded
STRADDLES_SHARE = 0.5  # of the budget; the other half is kept for what is late


class BurstBudget:
    """The ticks that all bursts of this process may send in any hour, and a second: active bursts share them equally.

    Bounds: one entry for each burst of the last hour, and one for each active burst.
    """

    def __init__(self, rate: float, ticks_per_hour: float) -> None:
        self._rate = rate
        self._ticks_per_hour = ticks_per_hour
        self._active: set[Burst] = set()
        self._reserved: deque[tuple[float, float]] = deque()  # when each burst ends at the latest, and its ticks

    def limit(self, rate: float) -> None:
        """Permit so many ticks a second in all bursts from now on, also in active ones."""
        self._rate = rate

    def share(self, burst: "Burst", now: float) -> float:
        """Return the ticks a second of a burst that is active, or would begin now."""
        self._active = {burst for burst in self._active if burst.is_active(now)}
        return self._rate / len(self._active | {burst})

    def add(self, burst: "Burst") -> None:
        """Share with one more burst, until it is no longer active."""
        self._active.add(burst)

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

    def rate(self, now: float) -> float:
        """Return the ticks a second of a burst now, or of one that would begin."""
        return self._budget.share(self, now)

    def is_active(self, now: float) -> bool:
        """Return True if ticks are to be sent more often at that time."""
        return now < self._until and self._left >= 1.0

    def begin(self, wish: BurstWish, now: float) -> bool:
        """Begin a burst; return False if one is active, or if none may begin."""
        ticks = self.rate(now) * wish.seconds
        if self.is_active(now) or now < self._held_until or not self._budget.reserve(wish, ticks, now):
            return False
        self.begun[wish.reason] += 1
        self._until, self._left = now + wish.seconds, ticks
        self._budget.add(self)
        return True

    def shortening(self, rate: float, now: float) -> float:
        """Return the factor by which gaps are shorter, at most 1, if there are usually `rate` ticks a second."""
        return min(1.0, rate / self.rate(now)) if self.is_active(now) else 1.0

    def sent(self, now: float) -> None:
        """Note a tick."""
        if self.is_active(now):
            self._left -= 1.0
            self.ticks += 1

    def failed(self, retry_after: float | None, now: float) -> None:
        """End the burst after a failed tick; the next one may begin later."""
        self._until = -inf
        self._held_until = max(self._held_until, now + max(HOLD_SECONDS, retry_after or 0.0))
