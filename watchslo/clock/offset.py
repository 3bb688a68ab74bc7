"""What does an apiserver's wall clock say when ours says something else? Known to milliseconds from `Date` headers.

`Date` is the apiserver's time in whole seconds D at some moment between our sending of the request, at s, and our
reading of the answer, at e, both on one clock of ours. So its clock minus ours, theta, lies in [D - e, D + 1 - s]; many
answers at different fractions of a second leave a few milliseconds of that. Best is a clock of ours that nobody sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watchslo.model import BoolArray, FloatArray, Interval

DRIFT = 200e-6  # seconds a second: two quartz clocks, each off by no more than 100 ppm
REMEMBERED_SECONDS = 600.0  # how long it matters what a clock said before it was set
WRITE_SECONDS = 600.0  # no write takes longer: an apiserver gives up any request after a minute, if not told otherwise


@dataclass(frozen=True, slots=True)
class Dating:
    """What an instant of a wall clock, or of one of several, is on a clock of ours, and of which instants that is true.

    `offset` is the wall clock minus ours, `since` the moment of ours from which on all answers agree on it: what was
    stamped before may be of a clock that was set meanwhile, and was ahead by one of `former`. `confirmed` is when the
    last of these answers was asked for: what came later may be of a clock that has been set since.
    """

    offset: Interval
    since: float
    confirmed: float
    former: tuple[Interval, ...] = ()

    def ages(
        self, created_wall: FloatArray, received: FloatArray, committed: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """How long before they were received objects were created, at least and at most, and of which that is sure.

        `created_wall` are creationTimestamps, whole seconds: each was stamped between then and a second later, after
        mutating admission and before the commit. That was at most `committed` seconds before it was received.
        """
        age = received - created_wall
        lower, upper = np.maximum(0.0, age - 1.0 + self.offset.lower), age + self.offset.upper
        sure = (upper >= 0.0) & (received - upper >= self.since) & (received <= self.confirmed)
        for former in self.former:
            before = received - (age + former.upper) < self.since
            sure &= ~(before & (age - 1.0 + former.lower <= committed + WRITE_SECONDS))
        return lower, upper, sure


class ClockOffset:
    """An apiserver's wall clock minus ours, as the interval that all answers so far agree on.

    `steps` counts how often an answer disagreed with all before it: then one of the clocks was set, and only that
    answer is believed.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._known: Interval | None = None
        self._known_at = 0.0
        self._since = 0.0
        self._confirmed = 0.0
        self._former: tuple[tuple[float, Interval], ...] = ()  # each with when it was known to be over

    def observe(self, date: float, sent: float, answered: float, now: float) -> bool:
        """Takes in one answer's `Date` (Unix seconds); false if it contradicts what was known."""
        observed = Interval(date - answered, date + 1.0 - sent)
        known = self.bounds(now)
        both = observed if known is None else _intersection(known, observed)
        if known is None:
            self._since = answered
        self._known_at, self._confirmed = now, sent
        if both.width >= 0:
            self._known = both
            return True
        self.steps += 1
        remembered = tuple(one for one in self._former if answered - one[0] <= REMEMBERED_SECONDS)
        self._former = (*remembered, (answered, known)) if known else remembered
        self._since = answered
        # Our own clock may have been set back while we waited for the answer: then not even that one makes sense.
        self._known = observed if observed.width >= 0 else None
        return False

    def bounds(self, now: float) -> Interval | None:
        """Theta in seconds, wider by what the clocks may have drifted since the last answer; None before the first."""
        if self._known is None:
            return None
        drift = DRIFT * abs(now - self._known_at)
        return Interval(self._known.lower - drift, self._known.upper + drift)

    def dating(self, now: float) -> Dating | None:
        """What its instants are on our clock, from what is known now; None before the first answer."""
        known = self.bounds(now)
        if known is None:
            return None
        return Dating(known, self._since, self._confirmed, tuple(former for _, former in self._former))


def of_any(datings: Sequence[Dating | None]) -> Dating | None:
    """What an instant is of whichever of these clocks it may be; None if one of them is unknown, or there is none."""
    known = [dating for dating in datings if dating is not None]
    if not known or len(known) < len(datings):
        return None
    return Dating(
        Interval(min(dating.offset.lower for dating in known), max(dating.offset.upper for dating in known)),
        max(dating.since for dating in known),
        min(dating.confirmed for dating in known),
        tuple(former for dating in known for former in dating.former),
    )


def _intersection(first: Interval, second: Interval) -> Interval:
    return Interval(max(first.lower, second.lower), min(first.upper, second.upper))
