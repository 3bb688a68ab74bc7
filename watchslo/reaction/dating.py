"""Dates the changes that reactions consist of, once the revision clock has passed them."""

from collections.abc import Sequence

import numpy as np

from watchslo.latency.own_delay import OwnDelays
from watchslo.model import Interval, Measure
from watchslo.reaction.steps import Reaction, Sighted, Unmeasured

WAITING_SECONDS = 60.0  # what no tick has passed by then is not dated any more
MOST_WAITING = 50_000


class CommitDating:
    """Keeps sighted changes and reactions until both ends are dated.

    A change counts as late if its event is proven to have arrived later than `threshold` seconds after its commit. It
    counts as tainted if that is proven only together with the time that the event waited for this process.
    """

    def __init__(self, threshold: float, own_delays: OwnDelays) -> None:
        self._threshold = threshold
        self._own_delays = own_delays
        self._undated: list[Sighted] = []
        self._reactions: list[Reaction] = []

    def sight(self, sighted: Sighted) -> None:
        """Take in a change that something was asked for by, or that shows a reaction."""
        if len(self._undated) < MOST_WAITING:
            self._undated.append(sighted)

    def add(self, reaction: Reaction) -> None:
        """Take in a reaction."""
        self._reactions.append(reaction)

    def clear(self) -> list[Reaction]:
        """Drop what is not dated, because revisions mean something else now; return the reactions."""
        dropped, self._reactions = self._reactions, []
        self._undated.clear()
        return dropped

    def settle(self, now: float, newest: int | None, measure: Measure) -> list[tuple[Reaction, Unmeasured | None]]:
        """Date what the clock has passed, up to revision `newest`; return the reactions that are settled.

        Each comes with why it is no sample, or None.
        """
        self._date([sighted for sighted in self._undated if self._can_date(sighted, newest)], measure)
        oldest = now - WAITING_SECONDS
        self._undated = [sighted for sighted in self._undated if sighted.commit is None and sighted.received > oldest]
        settled, waiting = [], []
        for reaction in self._reactions:
            ends = (reaction.asked, reaction.acted)
            if all(end.commit is not None or end.received <= oldest for end in ends):
                settled.append((reaction, _reason(ends)))
            else:
                waiting.append(reaction)
        self._reactions = waiting
        return settled

    def _can_date(self, sighted: Sighted, newest: int | None) -> bool:
        """Return True if the clock has passed a change, and it is known how long its event waited for this process."""
        return newest is not None and sighted.revision <= newest and sighted.received <= self._own_delays.known_until

    def _date(self, passed: Sequence[Sighted], measure: Measure) -> None:
        if not passed:
            return
        received = np.array([sighted.received for sighted in passed])
        bounds = measure(np.array([sighted.revision for sighted in passed]), received)
        is_beyond = bounds.proven > self._threshold
        is_late = bounds.less(self._own_delays.of(received)).proven > self._threshold
        commits = received - bounds.proven_upper, received - bounds.proven
        columns = (column.tolist() for column in (bounds.measurable, *commits, is_beyond & ~is_late, is_late))
        for sighted, measurable, lower, upper, waited_here, late in zip(passed, *columns, strict=True):
            if measurable:
                sighted.commit = Interval(lower, upper)
                sighted.is_tainted |= waited_here
                sighted.is_late = late


def _reason(ends: tuple[Sighted, Sighted]) -> Unmeasured | None:
    if any(end.commit is None for end in ends):
        return Unmeasured.UNDATED
    if any(end.is_tainted for end in ends):
        return Unmeasured.TAINTED
    return Unmeasured.LATE if any(end.is_late for end in ends) else None
