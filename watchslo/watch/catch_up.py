"""Recognise that a watch catches up: after a pause it delivers many events at once, the first ones old.

An apiserver that parks slow watches (KEP-6268, alpha in Kubernetes 1.38) does not close a watch whose client is slow.
It sends nothing for a while, and then what was missed from its cache. From outside that is one such burst after the
other, on a watch that stays open.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PAUSE_SECONDS = 1.0  # without an event, before a burst
TOGETHER_SECONDS = 0.25  # at most, between two events of a burst
LONGEST_SECONDS = 1.0  # of a burst: after it, usual events follow
LEAST_EVENTS = 10  # of a burst: fewer are usual after a pause
OLD_SECONDS = 1.0  # age of the first event at least: it was held back for about the pause
CURRENT_SHARE = 0.5  # of that age, of the last event at most: the watch has caught up


@dataclass(slots=True)
class EventBurst:
    """Events that arrived together after a pause, from `began` to `ended` in monotonic seconds."""

    began: float
    ended: float
    oldest: int
    newest: int
    events: int

    def has_caught_up(self, oldest_age: float, newest_age: float) -> bool:
        """Return whether the first event was old and the last one was not, by their ages on arrival in seconds."""
        return oldest_age >= OLD_SECONDS and newest_age <= CURRENT_SHARE * oldest_age


class BurstFinder:
    """Finds the bursts of one watch in its batches of live events."""

    def __init__(self) -> None:
        self._last = float("inf")
        self._burst: EventBurst | None = None

    def restart(self, opened: float) -> None:
        """Begin with a watch that opened at that time: the backlog that it brings at once comes after no pause."""
        self._last, self._burst = opened, None

    def add(self, received: float, revisions: Sequence[int]) -> EventBurst | None:
        """Take in a batch; return the burst that had ended before it, if that has enough events."""
        pause, self._last = received - self._last, received
        burst = self._burst
        if burst is not None and pause <= TOGETHER_SECONDS and received - burst.began <= LONGEST_SECONDS:
            burst.ended, burst.newest = received, revisions[-1]
            burst.events += len(revisions)
            return None
        is_next = pause >= PAUSE_SECONDS
        self._burst = EventBurst(received, received, revisions[0], revisions[-1], len(revisions)) if is_next else None
        return burst if burst is not None and burst.events >= LEAST_EVENTS else None
