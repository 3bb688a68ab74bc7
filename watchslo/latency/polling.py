"""Storages that apiservers poll: there the ticks of this daemon bring forward what they are to measure.

Theory of operation
===================

A server with kine, which k3s uses with SQL databases, finds what other servers have committed by a poll once a second,
and each read or write through that server starts a poll at once. So a tick makes its own apiserver deliver what waits
there. However long such an event waited, it arrives just after a tick that shows its commit. The estimate assumes that
latencies do not depend on ticks, so it would find hardly any delay.

Detection: the time before a tick is compared with the time after it, of the same length. Ticks are sent at random
times, so events arrive in only one of the two as often as in only the other. If they arrive far more often after
ticks, then ticks cause deliveries: the apiserver *polls*. A stall that holds ticks and events looks alike, as both pass
at its end. So only prompt ticks are compared: those that were answered within twice the median. The finding ends when
as much evidence of the last two minutes speaks against it.

Measurement: where events wait for polls, an event that arrived after the first tick that shows it was sent was
committed at any time between that tick and the one before, with equal probability. So its cut interval is replaced by
one instant in it. The instants of successive revisions are spread evenly, by multiples of the golden ratio. Its proven
interval stays. An interval that is longer than polls are apart stays too: ticks were held, and not only the event.
"""

from collections import deque
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from watchslo.model import BoolArray, Bounds, FloatArray, IntArray, Reading

WAKE_SECONDS = 0.03  # from the answer of a tick to the events that it brought forward, at most
KEPT_SECONDS = 120.0  # of ticks that are compared
SEALED_SECONDS = 30.0  # of ticks that are kept for events that are measured later: rarely more than some seconds
DEVIATIONS = 5.0  # from what occurs by chance: as many occur once in millions of comparisons
RATIO, LEAST_RATIO = 8.0, 3.0  # of the ticks with events only after them to the others: a finding begins, and ends
INSTANT_SECONDS = 0.001  # events that arrive within it are one arrival
PROMPT = 2.0  # times the median round trip
AGAINST = 25  # ticks with events on one side only, until a finding may end: as many as it needs at least
POLL_SECONDS = 1.0  # from one poll of kine to the next
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class _Window:
    """The time from a tick until `end`, in which events arrive that it brought forward."""

    start: float
    end: float


class PollDetector:
    """Finds out whether one apiserver polls its storage, from the ticks through it and the arrivals from it.

    Bounds: the results of two minutes, the ticks of half a minute, and the arrivals since the first of those that are
    not judged yet, one for each millisecond.
    """

    def __init__(self) -> None:
        self.polls = False
        self._windows: list[_Window] = []  # of ticks that are not judged yet
        self._results: deque[tuple[float, bool]] = deque()  # a tick, and whether events came only after it
        self._arrivals: list[FloatArray] = []
        self._ticks: deque[Reading] = deque()

    @property
    def ticks_with_events(self) -> tuple[int, int]:
        """How many ticks of the last two minutes had events just after them only, and just before them only."""
        after = sum(is_after for _, is_after in self._results)
        return after, len(self._results) - after

    def tick(self, tick: Reading) -> None:
        """Add a tick through this apiserver."""
        self._ticks.append(tick)
        if tick.round_trip <= PROMPT * median(known.round_trip for known in self._ticks):
            self._windows.append(_Window(tick.sent, tick.answered + WAKE_SECONDS))
        while self._ticks[0].answered < tick.answered - SEALED_SECONDS:
            self._ticks.popleft()

    def arrived(self, received: FloatArray) -> None:
        """Add n > 0 arrivals in ascending order."""
        instants = np.floor(received / INSTANT_SECONDS)
        self._arrivals.append(received[np.diff(instants, prepend=-1.0) > 0])

    def during_ticks(self, received: FloatArray) -> BoolArray:
        """Return for each of n arrivals whether a tick was sent before it and answered after it."""
        spans = sorted((tick.sent, tick.answered) for tick in self._ticks)
        sent, answered = np.array([(-np.inf, -np.inf), *spans]).T
        during: BoolArray = received <= answered[sent.searchsorted(received) - 1]
        return during

    def judge(self, until: float) -> None:
        """Compare the times before and after each tick whose time is over; all arrivals up to `until` are added."""
        arrivals = np.sort(np.concatenate(self._arrivals)) if self._arrivals else np.empty(0)
        for window in self._windows:
            if window.end <= until:
                self._compare(window, arrivals)
        self._windows = [window for window in self._windows if window.end > until]
        needed = min((2 * window.start - window.end for window in self._windows), default=until - 1.0)
        self._arrivals = [arrivals[arrivals.searchsorted(needed) :]]
        while self._results and self._results[0][0] < until - KEPT_SECONDS:
            self._results.popleft()
        after, before = self.ticks_with_events
        by_chance = (after + before) ** 0.5
        if after - before >= max(DEVIATIONS * by_chance, 1.0) and after >= RATIO * before:
            self.polls = True
        elif after + before >= AGAINST and after < LEAST_RATIO * before:
            self.polls = False

    def _compare(self, window: _Window, arrivals: FloatArray) -> None:
        limits = (2 * window.start - window.end, window.start, window.end)
        before, after = (np.diff(arrivals.searchsorted(limits, side="right")) > 0).tolist()
        if before is not after:
            self._results.append((window.start, after))


def at_any_time(bounds: Bounds, revisions: IntArray, polled: BoolArray, during_ticks: BoolArray) -> Bounds:
    """Return the bounds of n events with instants in place of cut intervals, for those that waited for a poll.

    These are of the apiservers that poll (`polled`), and arrived after a tick that shows them, or `during_ticks`.
    """
    waited = polled & ((bounds.lower > 0.0) | during_ticks) & (bounds.upper - bounds.lower <= POLL_SECONDS)
    share = revisions * GOLDEN % 1.0
    instant = bounds.lower + share * np.where(waited, bounds.upper - bounds.lower, 0.0)
    lower, upper = (np.where(waited, instant, end) for end in (bounds.lower, bounds.upper))
    return replace(bounds, lower=lower, upper=upper)
