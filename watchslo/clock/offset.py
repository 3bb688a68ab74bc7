"""The offset of an apiserver's wall clock from the local clock, to a few milliseconds, from `Date` headers.

`Date` is the apiserver's time in whole seconds D, at a moment between sending the request at s and reading the answer
at e, both on one local clock. So theta, the apiserver's clock minus the local one, lies in [D - e, D + 1 - s]. Many
answers at different fractions of a second narrow that to a few milliseconds. Use a local clock that is never set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watchslo.model import BoolArray, FloatArray, Interval

DRIFT = 200e-6  # seconds per second: two quartz clocks, each wrong by at most 100 ppm
FORMER = 8  # offsets; more are only seen where several apiservers answer, whose creations are not dated
REMEMBERED_SECONDS = 600.0  # how long an offset matters after the clock was set
WRITE_SECONDS = 600.0  # no write takes longer: by default, an apiserver aborts a request after a minute


@dataclass(frozen=True, slots=True)
class Dating:
    """Converts the time of a wall clock to the local clock, within bounds and for a limited time.

    `offset` is the wall clock minus the local one; a dating may combine several possible clocks. All answers since the
    local time `since` agree on it: earlier stamps may be from before the clock was set, when it was ahead by one of
    `former`. `confirmed` is when the request of the last answer was sent: later stamps may be from after the clock was
    set again.
    """

    offset: Interval
    since: float
    confirmed: float
    former: tuple[Interval, ...] = ()

    def ages(
        self, created_wall: FloatArray, received: FloatArray, committed: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the least and greatest ages of objects when their events were received, and which are certain.

        `created_wall` has creationTimestamps in whole seconds. Each object was stamped in the second that begins then,
        after mutating admission and before the commit. The commit was at most `committed` seconds before `received`.
        """
        age = received - created_wall
        lower, upper = np.maximum(0.0, age - 1.0 + self.offset.lower), age + self.offset.upper
        sure = (upper >= 0.0) & (received - upper >= self.since) & (received <= self.confirmed)
        for former in self.former:
            before = received - (age + former.upper) < self.since
            sure &= ~(before & (age - 1.0 + former.lower <= committed + WRITE_SECONDS))
        return lower, upper, sure


class ClockOffset:
    """An apiserver's wall clock minus the local clock, as the interval that all answers so far agree on.

    `steps` counts the answers that contradict all earlier ones. Then one of the clocks was set, and the clock starts
    again from that answer alone. At most `FORMER` earlier offsets are remembered; the oldest two are joined beyond.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._known: Interval | None = None
        self._known_at = 0.0
        self._since = 0.0
        self._confirmed = 0.0
        self._former: tuple[tuple[float, Interval], ...] = ()  # each with the time when it was known to have ended

    def observe(self, date: float, sent: float, answered: float, now: float) -> bool:
        """Add the `Date` of one answer (Unix seconds); return False if it contradicts earlier answers."""
        observed = Interval(date - answered, date + 1.0 - sent)
        known = self.bounds(now)
        both = observed if known is None else known.intersection(observed)
        if known is None:
            self._since = answered
        self._known_at, self._confirmed = now, sent
        if both.width >= 0:
            self._known = both
            return True
        self.steps += 1
        remembered = [former for former in self._former if answered - former[0] <= REMEMBERED_SECONDS]
        if known:
            remembered.append((answered, known))
        if len(remembered) > FORMER:
            (_, oldest), (ended, second), *later = remembered
            remembered = [(ended, _hull(oldest, second)), *later]
        self._former = tuple(remembered)
        self._since = answered
        # If the local clock was set back during the request, even this answer alone is contradictory.
        self._known = observed if observed.width >= 0 else None
        return False

    def bounds(self, now: float) -> Interval | None:
        """Return theta in seconds, widened by the possible drift since the last answer; None before the first."""
        return None if self._known is None else self._known.widened(DRIFT * abs(now - self._known_at))

    def dating(self, now: float) -> Dating | None:
        """Return the conversion to the local clock as known at `now`, or None before the first answer."""
        known = self.bounds(now)
        if known is None:
            return None
        return Dating(known, self._since, self._confirmed, tuple(former for _, former in self._former))


def combine_datings(datings: Sequence[Dating | None]) -> Dating | None:
    """Return a dating that is valid for each of these clocks; None if one is unknown or there are none."""
    known = [dating for dating in datings if dating is not None]
    if not known or len(known) < len(datings):
        return None
    return Dating(
        _hull(*(dating.offset for dating in known)),
        max(dating.since for dating in known),
        min(dating.confirmed for dating in known),
        tuple(former for dating in known for former in dating.former),
    )


def _hull(*intervals: Interval) -> Interval:
    return Interval(min(interval.lower for interval in intervals), max(interval.upper for interval in intervals))
