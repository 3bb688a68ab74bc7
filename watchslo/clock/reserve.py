"""The reserve: with rare ticks, some are saved, and spent right after events.

Theory of operation
===================

An event is proven to be within the threshold only by a tick that was sent before its commit, and at most one threshold
before its arrival. Of ticks that are 30 s apart, one in thirty does that for a threshold of a second. But objects
change several times within seconds, as a pod does when it starts. So a tick is worth most right after an event: every
event that is newer than its answer was committed after it. If events are late, the same tick shows that those still on
their way are committed already.

The mean gap between ticks is the price, and stays: ticks are tokens. One is earned in each gap, and every tick costs
one. While fewer than `ENOUGH` are left, usual ticks are sent `SAVING` times as far apart, so half of what is earned is
saved. In any W seconds at most `MOST_SAVED` + W / gap ticks are sent.

Ticks that follow events depend on when earlier events arrived. Proofs hold for ticks at any time; estimates need ticks
at times of our own random choice. So there is a reserve only where nothing is estimated.
"""

from math import inf

from watchslo.clock.burst import HOLD_SECONDS

MOST_SAVED = 10.0  # a pod that starts or ends has about so many events
ENOUGH = MOST_SAVED - 2.0  # the gaps are random, so the reserve is not always full while nothing happens
SAVING = 2.0  # more would hide what is late by minutes, and the clock would seem silent


class TickReserve:
    """The ticks that one clock has saved. All times are monotonic seconds.

    `spacing` is the mean time between two ticks that follow events: the shortest threshold, because a tick proves
    nothing about what arrives later than that.
    """

    def __init__(self, spacing: float) -> None:
        self._spacing = spacing
        self._saved = MOST_SAVED
        self._rate = 0.0  # at which ticks are earned since `_at`
        self._at = 0.0
        self._expected = False  # whether a tick is to follow an event
        self._held_until = -inf

    def follow(self, now: float) -> bool:
        """Note an event; return True if the next tick is to be sent sooner because of it."""
        if self._expected or now < self._held_until or self._saved_by(now) < 1.0:
            return False
        self._expected = True
        return True

    def factor(self, rate: float, now: float) -> float:
        """Return the factor of all gaps at present, if `rate` ticks a second are earned."""
        self._saved, self._rate, self._at = self._saved_by(now), rate, now
        if self._spacing * rate >= 1.0:  # ticks are frequent anyway
            return 1.0
        if self._expected:
            return self._spacing * rate
        return 1.0 if self._saved >= ENOUGH else SAVING

    def sent(self, now: float) -> None:
        """Note a tick, whatever it was sent for."""
        self._saved, self._at = max(0.0, self._saved_by(now) - 1.0), now
        self._expected = False

    def failed(self, retry_after: float | None, now: float) -> None:
        """Let no tick follow an event for a while after a failed tick: the apiserver may be overloaded."""
        self._expected = False
        self._held_until = max(self._held_until, now + max(HOLD_SECONDS, retry_after or 0.0))

    def _saved_by(self, now: float) -> float:
        return min(MOST_SAVED, self._saved + (now - self._at) * self._rate)
