"""What does an apiserver's wall clock say when ours says something else? Known to milliseconds from `Date` headers.

`Date` is the apiserver's time in whole seconds D at some moment between our sending of the request, at s, and our
reading of the answer, at e, both on one clock of ours. So its clock minus ours, theta, lies in [D - e, D + 1 - s]; many
answers at different fractions of a second leave a few milliseconds of that. Best is a clock of ours that nobody sets.
"""

from collections.abc import Sequence

from watchslo.model import Interval

DRIFT = 200e-6  # seconds a second: two quartz clocks, each off by no more than 100 ppm


class ClockOffset:
    """An apiserver's wall clock minus ours, as the interval that all answers so far agree on.

    `steps` counts how often an answer disagreed with all before it: then one of the clocks was set, and only that
    answer is believed.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._known: Interval | None = None
        self._known_at = 0.0

    def observe(self, date: float, sent: float, answered: float, now: float) -> bool:
        """Takes in one answer's `Date` (Unix seconds); false if it contradicts what was known."""
        observed = Interval(date - answered, date + 1.0 - sent)
        known = self.bounds(now) or observed
        both = Interval(max(known.lower, observed.lower), min(known.upper, observed.upper))
        self._known_at = now
        if both.width >= 0:
            self._known = both
            return True
        self.steps += 1
        # Our own clock may have been set back while we waited for the answer: then not even that one makes sense.
        self._known = observed if observed.width >= 0 else None
        return False

    def bounds(self, now: float) -> Interval | None:
        """Theta in seconds, wider by what the clocks may have drifted since the last answer; None before the first."""
        if self._known is None:
            return None
        drift = DRIFT * abs(now - self._known_at)
        return Interval(self._known.lower - drift, self._known.upper + drift)


def hull(intervals: Sequence[Interval | None]) -> Interval | None:
    """The interval that holds theta of whichever apiserver it was; None if any is unknown, or there is none."""
    known = [interval for interval in intervals if interval is not None]
    if not known or len(known) < len(intervals):
        return None
    return Interval(min(interval.lower for interval in known), max(interval.upper for interval in known))


def creation_bounds(created_wall: float, received: float, offset: Interval) -> Interval:
    """How long ago an object was created that was received at `received`, in seconds.

    `created_wall` is its creationTimestamp, whole seconds of a clock that is `offset` ahead of the one that `received`
    is of: it was stamped between `created_wall` and a second later there, after mutating admission and before the
    commit.
    """
    age = received - created_wall
    return Interval(max(0.0, age - 1.0 + offset.lower), max(0.0, age + offset.upper))
