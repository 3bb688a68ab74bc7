"""Where was it late? The way of an event divided at its commit and at the apiserver's cache, each part by itself.

Each part is the difference of two moments that are known as intervals, so it is an interval too. Latencies and ages are
in seconds before the event was received, which is where all of them end.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.distribution import Distribution, runs
from watchslo.latency.window import Tally, tally
from watchslo.model import Bounds, FloatArray, IntArray
from watchslo.snapshot import Hop, HopReading

HOP_WINDOWS = (("1m", 60.0), ("15s", 15.0))  # the histogram is divided as the first says; the other is for diagnosis


class Cache(Protocol):
    """What knows when an apiserver's cache had what: a `clock.cache.CacheClock`."""

    @property
    def median_round_trip(self) -> float:
        """Of its reads, in seconds: what takes no longer is not resolved."""
        ...

    def locate(self, revisions: IntArray, received: FloatArray) -> tuple[FloatArray, FloatArray]:
        """After when, and by when, the cache had n events; minus infinity where the first is not known."""
        ...


def storage_to_cache(latency: Bounds, received: FloatArray, start: FloatArray, end: FloatArray) -> Bounds:
    """From the commit, so long before `received`, to the cache, which had it after `start` and by `end`.

    No sample is an event whose `start` is not known, nor one that the cache had before it was committed.
    """
    upper = end - received + latency.upper
    return Bounds(
        lower=np.maximum(0.0, start - received + latency.lower),
        upper=upper,
        proven=np.maximum(0.0, start - received + latency.proven),
        measurable=latency.measurable & np.isfinite(start) & (upper >= 0.0),
    )


def cache_to_client(latency: Bounds, received: FloatArray, start: FloatArray, end: FloatArray) -> Bounds:
    """From the cache, as above, to the arrival, for the same events."""
    lower = received - end
    known = storage_to_cache(latency, received, start, end).measurable
    return Bounds(lower=lower, upper=received - start, proven=lower, measurable=known)


def creation_to_storage(latency: Bounds, youngest: FloatArray, oldest: FloatArray) -> Bounds:
    """From the creation, which was between `youngest` and `oldest` before the arrival, to the commit."""
    lower, upper = np.maximum(0.0, youngest - latency.upper), oldest - latency.lower
    return Bounds(lower=lower, upper=upper, proven=lower, measurable=latency.measurable & (upper >= 0.0))


class Hops:
    """The statistics of each hop of one watch, from its first sample on."""

    def __init__(self, bins: Bins, start: float) -> None:
        self._bins = bins
        self._start = start
        self._distributions: dict[Hop, Distribution] = {}
        self._slots: dict[Hop, list[tuple[float, Tally]]] = {}
        self._round_trips: dict[Hop, float] = {}

    def count(self, hop: Hop, received: FloatArray, bounds: Bounds, round_trip: float) -> None:
        """Takes samples of a hop; what is below `round_trip` is not resolved."""
        if not bounds.measurable.any():
            return
        if hop not in self._distributions:
            self._distributions[hop] = Distribution(self._bins, self._start, HOP_WINDOWS)
        self._round_trips[hop] = round_trip
        self._slots.setdefault(hop, []).extend(self._tallies(self._distributions[hop], received, bounds))

    def _tallies(self, to: Distribution, received: FloatArray, bounds: Bounds) -> Iterator[tuple[float, Tally]]:
        known = bounds.measurable
        received, lower, upper, proven = received[known], bounds.lower[known], bounds.upper[known], bounds.proven[known]
        for run in runs(to.blocks.numbers(received)):
            yield float(received[run.start]), tally(self._bins, lower[run], upper[run], proven[run])

    def evaluate(self, now: float) -> None:
        """Makes a new reading of what was counted."""
        slots, self._slots = self._slots, {}
        for hop, distribution in self._distributions.items():
            distribution.evaluate(now, slots.get(hop, []), (), self._round_trips[hop])

    def reading(self) -> tuple[HopReading, ...]:
        """Of those that were measured, in the order of the way."""
        return tuple(
            HopReading(hop, made.histogram.reading(), tuple(rolling.reading for rolling in made.rolling))
            for hop in Hop
            if (made := self._distributions.get(hop))
        )
