"""Compares the watches of one resource at all apiservers with each other, and with the apiservers' caches."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from watchslo.clock.cache import CacheClock
from watchslo.latency.excess import excess_of
from watchslo.model import Interval, Source
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import ExcessReading


class PeerComparison:
    """What the last comparison found of each watch, by its number.

    `clock_of` returns the clock of a source's watch cache while that cache is probed.
    """

    def __init__(self, clock_of: Callable[[Source], CacheClock | None]) -> None:
        self._clock_of = clock_of
        self._behind_peers: Mapping[int, float | None] = {}
        self._cache_behind: Mapping[int, Interval | None] = {}
        self._behind_fastest: Mapping[int, ExcessReading | None] = {}

    def behind_peers(self, number: int) -> float | None:
        """Return for how many seconds a peer has had an event that this watch has not; None without a peer."""
        return self._behind_peers.get(number)

    def cache_behind(self, number: int) -> Interval | None:
        """Return how old the apiserver's cache was recently, in seconds; None unless the cache is probed."""
        return self._cache_behind.get(number)

    def behind_fastest(self, number: int) -> ExcessReading | None:
        """Return how much later its events arrived than at the fastest peer; None without enough such events."""
        return self._behind_fastest.get(number)

    async def compare(self, watches: Iterable[MonitoredWatch], now: float, slices: WorkSlices) -> None:
        """Compare watches that have the same label and whose revisions are of one sequence."""
        groups: defaultdict[object, list[MonitoredWatch]] = defaultdict(list)
        for watch in watches:
            statistics = watch.statistics
            groups[(watch.identity.label, statistics.clock) if statistics.measured else watch].append(watch)
            await slices.pause()
        behind_peers: dict[int, float | None] = {}
        cache_behind: dict[int, Interval | None] = {}
        behind_fastest: dict[int, ExcessReading | None] = {}
        for peers in groups.values():
            for watch in peers:
                number = watch.identity.number
                behind_peers[number] = _behind(watch, [peer for peer in peers if peer is not watch], now)
                cache_behind[number] = self._behind_storage(watch, peers, now)
            if len(peers) > 1:
                await slices.pause()
                numbers = [peer.identity.number for peer in peers]
                arrivals = [
                    peer.statistics.clock.sealer.arrivals(number) for peer, number in zip(peers, numbers, strict=True)
                ]
                behind_fastest |= zip(numbers, excess_of(arrivals, now), strict=True)
            await slices.pause()
        self._behind_peers, self._cache_behind, self._behind_fastest = behind_peers, cache_behind, behind_fastest

    def _behind_storage(self, watch: MonitoredWatch, peers: Iterable[MonitoredWatch], now: float) -> Interval | None:
        """Return how old the cache was, by the revisions of its resource that any watch has delivered."""
        cache_clock = self._clock_of(watch.identity.source)
        if cache_clock is None:
            return None
        known = {revision for peer in peers for revision in peer.session.deliveries.revisions}
        measure = watch.statistics.clock.domain.clock.measure
        return cache_clock.behind(np.array(sorted(known), dtype=np.int64), measure, now)


def _behind(watch: MonitoredWatch, peers: Sequence[MonitoredWatch], now: float) -> float | None:
    revision = watch.session.revision
    if revision is None or not peers:
        return None
    newer = (peer.session.deliveries.since(revision) for peer in peers)
    return max((now - since for since in newer if since is not None), default=0.0)
