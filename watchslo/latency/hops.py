"""Hops: the latency of each part of an event's path, divided at its commit and at the apiserver's watch cache.

Each hop is the difference of two moments that are known as intervals, so it is an interval too. Latencies and ages are
in seconds before the event was received.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import Distribution
from watchslo.latency.estimate import Estimation, TickSpacing
from watchslo.latency.pending import SampleCounts
from watchslo.model import Bounds, FloatArray, IntArray
from watchslo.snapshot import Hop, HopReading

EXACT_SECONDS = 0.001  # between the arrivals of two copies of an event: no tick limits what is known of it
HOP_WINDOWS = (("1m", 60.0), ("15s", 15.0))  # the first divides the histogram; the other is for diagnosis


class CacheAges(Protocol):
    """Knows when revisions reached an apiserver's watch cache: a `clock.cache.CacheClock`."""

    @property
    def median_round_trip(self) -> float:
        """The median round trip of its reads, in seconds: shorter latencies are not resolved."""
        ...

    def locate(self, revisions: IntArray, received: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the times after which, and by which, the cache had each event.

        The first is minus infinity if it is unknown.
        """
        ...


def storage_to_cache(latency: Bounds, received: FloatArray, start: FloatArray, end: FloatArray) -> Bounds:
    """Return how long each event took from commit to cache.

    It was committed `latency` before `received`; the cache had it after `start` and by `end`. An event is not
    measurable if its `start` is unknown, or if the cache seems to have had it before its commit.
    """
    upper = end - received + latency.upper
    return Bounds(
        lower=np.maximum(0.0, start - received + latency.lower),
        upper=upper,
        proven=np.maximum(0.0, start - received + latency.proven),
        proven_upper=np.maximum(0.0, end - received + latency.proven_upper),
        measurable=latency.measurable & np.isfinite(start) & (upper >= 0.0),
    )


def cache_to_client(latency: Bounds, received: FloatArray, start: FloatArray, end: FloatArray) -> Bounds:
    """Return the latencies from the cache to the arrival, for the same arguments and events."""
    lower = received - end
    known = storage_to_cache(latency, received, start, end).measurable
    upper = received - start
    return Bounds(lower=lower, upper=upper, proven=lower, proven_upper=upper, measurable=known)


def creation_to_storage(latency: Bounds, youngest: FloatArray, oldest: FloatArray) -> Bounds:
    """Return the latencies from the creation, `youngest` to `oldest` seconds before the arrival, to the commit."""
    lower, upper = np.maximum(0.0, youngest - latency.upper), oldest - latency.lower
    known = latency.measurable & (upper >= 0.0)
    return Bounds(lower=lower, upper=upper, proven=lower, proven_upper=upper, measurable=known)


class Hops:
    """The statistics of each hop of one watch, from its first sample on.

    An evaluation is `update`, then `solve` of what that returned, then `publish`.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._distributions: dict[Hop, Distribution] = {}
        self._counts: dict[Hop, SampleCounts] = {}
        self._round_trips: dict[Hop, float] = {}

    def count(self, hop: Hop, received: FloatArray, bounds: Bounds, round_trip: float = 0.0) -> None:
        """Add samples of a hop; latencies below `round_trip`, in seconds, are not resolved in it."""
        known = bounds.measurable
        if not known.any():
            return
        if hop not in self._distributions:
            self._distributions[hop] = Distribution(self._bins, HOP_WINDOWS)
            self._counts[hop] = SampleCounts(self._bins)
        self._round_trips[hop] = round_trip
        self._counts[hop].add(np.zeros(int(np.count_nonzero(known)), np.int64), received[known], bounds.at(known))

    def update(self, now: float, ticks: TickSpacing) -> list[Estimation]:
        """Take in the samples since the last evaluation; return the estimations that are due.

        Latencies below the round trip of the `ticks` are not resolved in any hop that begins or ends at the cache.
        """
        due = []
        for hop, distribution in self._distributions.items():
            spacing = replace(ticks, round_trip=max(ticks.round_trip, self._round_trips[hop]))
            if hop is Hop.ENCODING_TO_CLIENT:
                spacing = TickSpacing(EXACT_SECONDS, EXACT_SECONDS)
            due += distribution.update(now, self._counts[hop].take().get(0, []), spacing)
        return due

    def publish(self) -> None:
        """Update the readings, once the estimations are solved."""
        for distribution in self._distributions.values():
            distribution.publish()

    def reading(self) -> tuple[HopReading, ...]:
        """Return the readings of the measured hops, in the order of the path."""
        return tuple(
            HopReading(hop, known.histogram.reading(), tuple(rolling.reading for rolling in known.rolling))
            for hop in Hop
            if (known := self._distributions.get(hop))
        )
