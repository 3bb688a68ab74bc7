"""Readings of reactions: how long after a change was asked for its controller acted."""

from collections.abc import Mapping
from dataclasses import dataclass

from watchslo.snapshot.figures import HistogramReading, QuantileReading


@dataclass(frozen=True, slots=True)
class ReactionReading:
    """One step of one resource, from the commit that asks for something to the commit that shows that it is done.

    `events` and `quantiles` are those of the last `window` seconds; the histogram has all. `pending` is how many wait
    for their reaction, and `oldest_pending` for how many seconds the oldest has waited at least; both are None while
    the watch is not known to be current. `unmeasured` counts by reason what is no sample.
    """

    group: str
    resource: str
    step: str
    window: float
    events: int
    quantiles: tuple[QuantileReading, ...]
    histogram: HistogramReading
    pending: int | None
    oldest_pending: float | None
    unmeasured: Mapping[str, int]
