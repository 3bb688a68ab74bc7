"""Hops: the bounds of each part of an event's path, and their accuracy against the truth."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.latency.creators import KnownAges, note
from tests.unit.latency.one_watch import OneWatch
from tests.unit.latency.truth import BINS, bounds, lognormal
from watchslo.clock.cache import CacheClock
from watchslo.clock.offset import Dating
from watchslo.clock.revision import RevisionClock
from watchslo.latency.creation import PROVISIONAL_EVENTS, PROVISIONAL_SECONDS
from watchslo.latency.estimate import TickSpacing, solve
from watchslo.latency.hops import Hops, cache_to_client, creation_to_storage, storage_to_cache
from watchslo.latency.objective import Objective
from watchslo.model import Bounds, FloatArray, IntArray, Interval, Reading
from watchslo.snapshot import Hop, HopReading, QuantileReading

INF = math.inf
RECEIVED = 100.0


def array(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


def rows(made: Bounds) -> list[tuple[float, float, float] | None]:
    """Return (lower, upper, proven) of each event that is a sample."""
    columns = (made.lower, made.upper, made.proven, made.measurable)
    return [
        (lower, upper, proven) if measurable else None
        for lower, upper, proven, measurable in zip(*(column.tolist() for column in columns), strict=True)
    ]


class TestParts:
    """One event received at 100, its latency as (lower, upper, proven), and when it reached the cache: start, end."""

    @pytest.mark.parametrize(
        ("latency", "start", "end", "to_cache", "to_client"),
        [
            # committed in 99 … 99.5, proven by 99.25; in the cache in 99.75 … 99.875
            ((0.5, 1.0, 0.75), 99.75, 99.875, (0.25, 0.875, 0.5), (0.125, 0.25, 0.125)),
            # possibly in the cache as soon as it was committed
            ((0.5, 1.0, 0.5), 99.25, 99.75, (0.0, 0.75, 0.0), (0.25, 0.75, 0.25)),
            # possibly received as soon as it was in the cache
            ((0.0, 1.0, 0.5), 99.75, 100.0, (0.0, 1.0, 0.25), (0.0, 0.25, 0.0)),
            # committed before the evidence of the clock
            ((0.5, INF, 0.5), 99.75, 99.875, (0.25, INF, 0.25), (0.125, 0.25, 0.125)),
            # the time when it reached the cache is unknown
            ((0.5, 1.0, 0.5), -INF, 99.875, None, None),
            # in the cache before it was committed
            ((0.5, 1.0, 0.5), 98.5, 98.75, None, None),
        ],
    )
    def test_are_divided_at_the_cache(
        self,
        latency: tuple[float, float, float],
        start: float,
        end: float,
        to_cache: tuple[float, float, float] | None,
        to_client: tuple[float, float, float] | None,
    ) -> None:
        known = bounds(latency), array(RECEIVED), array(start), array(end)
        assert rows(storage_to_cache(*known)) == [to_cache]
        assert rows(cache_to_client(*known)) == [to_client]

    @pytest.mark.parametrize(
        ("latency", "youngest", "oldest", "expected"),
        [
            ((0.25, 0.5), 1.0, 2.0, (0.5, 1.75, 0.5)),
            ((0.25, 1.5), 1.0, 2.0, (0.0, 1.75, 0.0)),
            ((0.25, INF), 1.0, 2.0, (0.0, 1.75, 0.0)),
            ((2.5, 3.0), 1.0, 2.0, None),  # committed before it was created
        ],
    )
    def test_creation_to_storage_begins_at_the_creation(
        self,
        latency: tuple[float, float],
        youngest: float,
        oldest: float,
        expected: tuple[float, float, float] | None,
    ) -> None:
        assert rows(creation_to_storage(bounds(latency), array(youngest), array(oldest))) == [expected]

    def test_are_unmeasurable_without_a_latency(self) -> None:
        latency = Bounds(array(0.5), array(1.0), array(0.5), array(1.0), np.array([False]))
        assert rows(storage_to_cache(latency, array(RECEIVED), array(99.75), array(99.875))) == [None]
        assert rows(cache_to_client(latency, array(RECEIVED), array(99.75), array(99.875))) == [None]
        assert rows(creation_to_storage(latency, array(1.0), array(2.0))) == [None]


def evaluate(hops: Hops, now: float) -> None:
    solve(hops.update(now, TickSpacing(0.0, 0.5)))
    hops.publish()


class TestHops:
    @pytest.fixture
    def hops(self) -> Hops:
        return Hops(BINS)

    def test_are_read_from_the_first_sample_in_the_order_of_the_path(self, hops: Hops) -> None:
        hops.count(Hop.CACHE_TO_CLIENT, array(1001.0, 1002.0), bounds((0.1, 0.2), (0.3, 0.4)), 0.002)
        hops.count(Hop.STORAGE_TO_CACHE, array(1001.0), bounds((0.6, 0.7)), 0.002)
        evaluate(hops, 1005)
        to_cache, to_client = hops.reading()
        assert (to_cache.hop, to_client.hop) == (Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT)
        assert (to_cache.histogram.total, to_client.histogram.total) == (1, 2)
        assert [(window.name, window.length, window.events) for window in to_client.windows] == [
            ("1m", 60.0, 2),
            ("15s", 15.0, 2),
        ]

    def test_events_leave_the_windows_and_stay_in_the_histograms(self, hops: Hops) -> None:
        hops.count(Hop.CACHE_TO_CLIENT, array(1001.0), bounds((0.1, 0.2)), 0.002)
        events = []
        for now in (1005.0, 1019.0, 1020.0, 1064.0, 1065.0):
            evaluate(hops, now)
            (reading,) = hops.reading()
            assert reading.histogram.total == 1
            events.append([window.events for window in reading.windows])
        assert events == [[1, 1], [1, 1], [1, 0], [1, 0], [0, 0]]


def dated(revisions: IntArray, _: FloatArray) -> Bounds:
    """Measure each event as committed 0.5 to 1 s before it was received."""
    lower, upper = np.full(len(revisions), 0.5), np.full(len(revisions), 1.0)
    return Bounds(lower, upper, lower, upper, np.ones(len(revisions), dtype=np.bool_))


def unknown(revisions: IntArray, received: FloatArray) -> Bounds:
    """Measure no event."""
    return replace(dated(revisions, received), measurable=np.zeros(len(revisions), dtype=np.bool_))


class Cached:
    """A cache clock: each event reached the cache 0.25 to 0.375 s before it was received."""

    median_round_trip = 0.4

    def locate(self, _: IntArray, received: FloatArray) -> tuple[FloatArray, FloatArray]:
        return received - 0.375, received - 0.25


def hops_of(track: OneWatch, now: float = 1005.0, creators: KnownAges | None = None) -> dict[Hop, HopReading]:
    track.evaluate(now, creators=creators)
    return {reading.hop: reading for reading in track.reading().hops}


def quantile_of(reading: HopReading, q: float) -> QuantileReading:
    window = next(window for window in reading.windows if window.name == "1m")
    return next(quantile for quantile in window.quantiles if quantile.q == q)


class TestTrack:
    @pytest.fixture
    def track(self) -> OneWatch:
        return OneWatch(BINS, Objective(), 1000.25, creation=True)

    def test_divides_sealed_events_with_a_cache_clock(self, track: OneWatch) -> None:
        track.record(1001.5, [1, 2])
        track.record(1002.5, [3])
        track.record(1003.5, [4])
        track.seal(1003, 10, dated, 0.002, Cached())
        track.seal(1004, 10, dated, 0.002)
        hops = hops_of(track)
        assert hops.keys() == {Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT}
        assert [hop.histogram.total for hop in hops.values()] == [3, 3]
        to_cache, to_client = (quantile_of(hop, 0.5) for hop in hops.values())
        assert (to_cache.lower <= 0.125, to_cache.upper >= 0.75) == (True, True)
        assert to_client.lower == pytest.approx(0.25)
        assert 0.375 <= to_client.upper < 0.4
        assert track.reading().timespan.total == 4

    def test_resolves_nothing_below_either_round_trip(self, track: OneWatch) -> None:
        class Near(Cached):
            median_round_trip = 0.01

        for made, round_trip, resolved in ((Near(), 0.02, True), (Near(), 2.0, False), (Cached(), 0.02, False)):
            track.record(1001.5, [1])
            track.seal(1003, 10, dated, round_trip, made)
            assert quantile_of(hops_of(track)[Hop.CACHE_TO_CLIENT], 0.5).resolved is resolved

    def test_measures_the_hop_from_creation_to_storage(self, track: OneWatch) -> None:
        creators = KnownAges()
        note(track, creators, 1001.5, [2, 3], [Interval(2.0, 3.0), Interval(4.0, 5.0)])
        track.record(1001.5, [1, 2, 3])
        note(track, creators, 1003.5, [4], [Interval(2.0, 3.0)])
        track.record(1003.5, [4])
        track.seal(1003, 10, dated, 0.002)
        (hop,) = hops_of(track, creators=creators).values()
        assert (hop.hop, hop.histogram.total) == (Hop.CREATION_TO_STORAGE, 2)
        median, worst = quantile_of(hop, 0.5), quantile_of(hop, 0.99)
        assert median.lower == pytest.approx(1.0, rel=0.1)
        assert median.upper == pytest.approx(2.5, rel=0.1)
        assert worst.lower == pytest.approx(3.0, rel=0.1)
        assert worst.upper == pytest.approx(4.5, rel=0.1)
        track.seal(1005, 10, dated, 0.002)
        assert hops_of(track, 1010, creators)[Hop.CREATION_TO_STORAGE].histogram.total == 3

    def test_measures_creations_after_the_creators_are_confirmed(self, track: OneWatch) -> None:
        creators = KnownAges(confirmed=1002.0)
        note(track, creators, 1001.5, [1], [Interval(2.0, 3.0)])
        note(track, creators, 1002.5, [2, 3], [Interval(2.0, 3.0), None])
        track.record(1001.5, [1])
        track.record(1002.5, [2, 3])
        track.seal(1003, 10, dated, 0.002)
        assert hops_of(track) == {}
        assert hops_of(track, 1010, creators)[Hop.CREATION_TO_STORAGE].histogram.total == 1
        creators.confirmed = 1003.0
        assert hops_of(track, 1015, creators)[Hop.CREATION_TO_STORAGE].histogram.total == 2
        assert hops_of(track, 1020, creators)[Hop.CREATION_TO_STORAGE].histogram.total == 2

    def test_passes_the_age_of_the_commits_to_the_creators(self, track: OneWatch) -> None:
        creators = KnownAges()
        note(track, creators, 1001.5, [1, 2, 20], [Interval(2.0, 3.0)] * 3)
        track.record(1001.5, [1])
        track.record(1002.5, [2])
        track.seal(1002, 10, dated, 0.002)
        track.seal(1003, 10, unknown, 0.002)
        hops_of(track, creators=creators)
        assert creators.committed == [1.0, INF, INF]

    def test_measures_no_hop_for_creations_of_an_unknown_sequence(self, track: OneWatch) -> None:
        creators = KnownAges()
        note(track, creators, 1001.5, [2, 3], [Interval(2.0, 3.0)] * 2)
        track.record(1001.5, [1])
        track.seal(1003, 10, dated, 0.002)
        assert hops_of(track, creators=creators) == {}
        creation = track.reading().creation
        assert creation is not None
        assert creation.total == 2

    def test_keeps_creations_no_longer_than_arrivals(self, track: OneWatch) -> None:
        creators = KnownAges()
        note(track, creators, 1001.5, [1], [Interval(2.0, 3.0)])
        track.evaluate(1001.6 + PROVISIONAL_SECONDS, creators=creators)
        track.record(1001.5, [1])
        track.seal(1003, 10, dated, 0.002)
        assert hops_of(track, 1700, creators) == {}

    def test_keeps_no_more_creations_than_arrivals(self, track: OneWatch) -> None:
        creators, revisions = KnownAges(), range(1, PROVISIONAL_EVENTS + 1)
        note(track, creators, 1001.5, revisions, [Interval(2.0, 3.0)] * PROVISIONAL_EVENTS)
        note(track, creators, 1001.5, [PROVISIONAL_EVENTS + 1], [Interval(2.0, 3.0)])
        track.record(1001.5, [PROVISIONAL_EVENTS, PROVISIONAL_EVENTS + 1])
        track.seal(1003, 10**6, dated, 0.002)
        assert hops_of(track, creators=creators)[Hop.CREATION_TO_STORAGE].histogram.total == 1
        creation = track.reading().creation
        assert creation is not None
        assert creation.total == PROVISIONAL_EVENTS


SEEDS = range(3)
SECONDS = 70.0
JITTER = lognormal(0.001, 0.4)


class Life:
    """A minute with 60 delayed events per second, as ticks and cache reads see it.

    Ticks come every 0.25 to 0.75 s, cache reads every 0.1 to 0.3 s; both take about 2 ms. An object is created
    `admitted` seconds before its commit, and stamped in whole seconds of a clock that is an hour ahead.
    """

    def __init__(self, seed: int, to_cache: float, to_client: float, *, admitted: float = 0.0) -> None:
        self._rng = rng = np.random.default_rng(seed)
        count = rng.poisson(60 * SECONDS)
        self.commit = np.sort(rng.uniform(0, SECONDS, count))
        self.cached = np.maximum.accumulate(self.commit + to_cache + JITTER(rng, count))
        self.received = np.maximum.accumulate(self.cached + to_client + JITTER(rng, count))
        self.created = self.commit - admitted - JITTER(rng, count)
        self.clock, self.cache = RevisionClock(), CacheClock()
        self.track = OneWatch(BINS, Objective(), 0.0, creation=True)
        self._arrived = 0

    def run(self) -> None:
        ticks, reads = self._moments(0.25, 0.75), self._moments(0.1, 0.3)
        for sent in sorted((*ticks, *reads)):
            self._arrive(sent)
            round_trip = float(0.001 + self._rng.exponential(0.001))
            seen = sent + round_trip * self._rng.uniform()
            if sent in ticks:
                self._tick(Reading("events", sent, sent + round_trip, int(self.commit.searchsorted(seen))))
            else:
                self.cache.add(Reading("pods", sent, sent + round_trip, int(self.cached.searchsorted(seen))))
        creators = Dating(Interval(3599.995, 3600.005), since=-INF, confirmed=INF)
        self.track.evaluate(SECONDS + 2, creators=creators)

    def _moments(self, shortest: float, longest: float) -> set[float]:
        gaps = self._rng.uniform(shortest, longest, round((SECONDS + 5) / shortest))
        moments = np.cumsum(gaps) - 2.0
        return set(moments[moments < SECONDS + 3].tolist())

    def _arrive(self, now: float) -> None:
        until = int(self.received.searchsorted(now))
        for number in range(self._arrived, until):
            received = float(self.received[number])
            self.track.record(received, [number + 1])
            self.track.track.note_creations(received, [number + 1], [math.floor(self.created[number] + 3600)])
        self._arrived = until

    def _tick(self, tick: Reading) -> None:
        self.clock.tick(tick)
        measure = self.clock.measure
        assert self.track.seal(tick.sent, tick.revision, measure, 0.002, self.cache)

    def truth(self, hop: Hop) -> FloatArray:
        """Return the true latencies of the sealed events of the last minute."""
        taken = {
            Hop.CREATION_TO_STORAGE: self.commit - self.created,
            Hop.STORAGE_TO_CACHE: self.cached - self.commit,
            Hop.CACHE_TO_CLIENT: self.received - self.cached,
        }
        return np.sort(taken[hop][self.received >= SECONDS - 55])


def medians(to_cache: float, to_client: float, admitted: float = 0.0) -> dict[Hop, tuple[float, float]]:
    """Return typical true and estimated medians over a few lives, and check that the truth is within the bounds."""
    found: dict[Hop, list[tuple[float, float]]] = {}
    for seed in SEEDS:
        life = Life(seed, to_cache, to_client, admitted=admitted)
        life.run()
        assert life.cache.contradictions == 0
        for reading in life.track.reading().hops:
            true = float(np.median(life.truth(reading.hop)))
            estimated = quantile_of(reading, 0.5)
            assert estimated.lower <= true <= estimated.upper
            found.setdefault(reading.hop, []).append((true, estimated.estimate))
    assert list(found) == [hop for hop in Hop if hop is not Hop.ENCODING_TO_CLIENT], "which needs a second watch"
    typical = {hop: np.median(pairs, axis=0).tolist() for hop, pairs in found.items()}
    return {hop: (true, estimated) for hop, (true, estimated) in typical.items()}


@pytest.mark.parametrize(("to_cache", "to_client"), [(0.3, 0.0), (0.0, 0.3), (0.15, 0.25)])
def test_hops_show_where_the_delay_is(to_cache: float, to_client: float) -> None:
    found = medians(to_cache, to_client)
    for hop, delay in ((Hop.STORAGE_TO_CACHE, to_cache), (Hop.CACHE_TO_CLIENT, to_client)):
        true, estimated = found[hop]
        print(f"\n{hop}: injected {delay * 1000:.0f} ms, estimated {estimated * 1000:.0f} ms", end="")
        assert abs(true - delay) < 0.002
        assert abs(estimated - delay) < max(0.15 * delay, 0.03)


@pytest.mark.parametrize("admitted", [0.0, 0.5, 2.0])
def test_hops_show_the_duration_of_admission(admitted: float) -> None:
    true, estimated = medians(0.0, 0.0, admitted)[Hop.CREATION_TO_STORAGE]
    print(f"\nadmission: injected {admitted * 1000:.0f} ms, estimated {estimated * 1000:.0f} ms", end="")
    assert abs(estimated - true) < max(0.15 * admitted, 0.03)


def test_idle_resource_is_not_late() -> None:
    """After 15 minutes without events, the cache is old, but the next event has no latency."""
    clock, cache, track = RevisionClock(), CacheClock(), OneWatch(BINS, Objective(), 0.0)
    for sent in np.arange(0.0, 902.0, 0.2).tolist():
        cache.add(Reading("pods", sent, sent + 0.002, 7 if sent < 900.05 else 8))
    for sent in np.arange(0.1, 903.0, 0.5).tolist():
        clock.tick(Reading("events", sent, sent + 0.002, 7 if sent < 900.05 else 8))
    nothing_new = cache.behind(np.array([7]), clock.measure, 900.0)
    assert nothing_new == Interval(0.0, 0.0)
    track.record(900.052, [8])
    assert track.seal(902, 8, clock.measure, 0.002, cache)
    for reading in hops_of(track, 905).values():
        assert quantile_of(reading, 0.99).upper < 0.5
    assert [window.events for window in track.reading().hops[0].windows] == [1, 1]
    late = cache.behind(np.array([7, 8]), clock.measure, 902.0)
    assert late is not None
    assert (late.lower, late.upper < 0.5) == (0.0, True)
