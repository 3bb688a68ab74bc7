"""Histograms: each event has a mass of 1, and counts are integers that never decrease and always agree."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS, tallied
from watchslo.latency.bins import Bins
from watchslo.latency.histogram import DurationHistogram, MassHistogram
from watchslo.latency.tally import later_than
from watchslo.model import FloatArray
from watchslo.snapshot import HistogramReading

INF = math.inf
SOME = Bins([0.5, 1.0, 2.0])  # its edges are powers of 2^(1/8), 0 and infinity


def at(*seconds: float, bins: Bins = SOME) -> FloatArray:
    """Return a distribution with equal mass in the bins just above these latencies."""
    p = np.zeros(bins.count)
    for latency in seconds:
        p[np.searchsorted(bins.edges, latency, side="right") - 1] += 1 / len(seconds)
    return p


def midpoint(seconds: float) -> float:
    k = int(np.searchsorted(SOME.edges, seconds, side="right")) - 1
    return float(SOME.edges[k] + SOME.edges[k + 1]) / 2


def ends(reading: HistogramReading) -> dict[float, int]:
    """Return the events of the native buckets by their upper ends."""
    native = reading.native
    assert native is not None
    zero = {native.zero_threshold: native.zero} if native.zero else {}
    return zero | {
        2 ** (index / 2**native.schema): count for index, count in enumerate(native.counts, start=native.first) if count
    }


@pytest.fixture
def histogram() -> MassHistogram:
    return MassHistogram(SOME)


class TestMassHistogram:
    def test_is_zero_at_first(self, histogram: MassHistogram) -> None:
        reading = histogram.reading()
        assert replace(reading, native=None) == HistogramReading((0.5, 1.0, 2.0), (0, 0, 0, 0), 0.0)
        assert ends(reading) == {}

    def test_reading_is_kept_until_events_are_added(self, histogram: MassHistogram) -> None:
        before = histogram.reading()
        assert histogram.reading() is before
        histogram.add(tallied((0, 0.5), bins=SOME), SOME.uniform)
        assert histogram.reading() != before

    def test_counts_certain_events_exactly(self, histogram: MassHistogram) -> None:
        histogram.add(tallied((0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 4.0), bins=SOME), SOME.uniform)
        assert histogram.reading().counts == (1, 2, 3, 4)

    def test_divides_uncertain_events_in_proportion(self, histogram: MassHistogram) -> None:
        histogram.add(tallied(*[(0.25, 4.0)] * 10, bins=SOME), at(0.3, 0.3, 0.7, 3.0, 0.001))
        assert histogram.reading().counts == (5, 7, 7, 10)

    def test_sum_uses_midpoints(self, histogram: MassHistogram) -> None:
        histogram.add(tallied(*[(0.25, 4.0)] * 4, bins=SOME), at(0.3, 0.3, 0.3, 3.0))
        assert histogram.reading().sum == pytest.approx(3 * midpoint(0.3) + midpoint(3.0), rel=1e-6)
        histogram.add(tallied((1.0, 1.05), bins=SOME), SOME.uniform)
        assert histogram.reading().sum == pytest.approx(3 * midpoint(0.3) + midpoint(3.0) + midpoint(1.0), rel=1e-6)

    def test_sum_uses_the_lower_edge_of_the_open_bin(self, histogram: MassHistogram) -> None:
        histogram.add(tallied((700, INF), bins=SOME), SOME.uniform)
        assert histogram.reading().sum == pytest.approx(128, rel=1e-12)

    def test_puts_open_intervals_as_early_as_possible(self, histogram: MassHistogram) -> None:
        histogram.add(later_than(SOME, [1.05]), SOME.uniform)
        assert histogram.reading().counts == (0, 0, 1, 1)
        assert histogram.reading().sum == pytest.approx(midpoint(1.05), rel=1e-12)

    def test_divides_evenly_where_the_distribution_has_no_mass(self, histogram: MassHistogram) -> None:
        histogram.add(tallied(*[(2 ** (-1 / 8), 2 ** (3 / 8))] * 4, bins=SOME), at(60.0))
        assert histogram.reading().counts == (0, 1, 4, 4)

    def test_keeps_the_mean_within_an_interval_with_almost_no_mass(self) -> None:
        histogram = MassHistogram(SOME)
        histogram.add(tallied((0.0, 0.0005), bins=SOME), at(100.0))
        assert 0 <= histogram.reading().sum <= 2**-10

    def test_does_not_drift(self, histogram: MassHistogram) -> None:
        """Thirds are not multiples of the unit, but after some thousands of them the count is exact."""
        p = at(0.3, 0.7, 3.0)
        third = tallied((0.25, 4.0), bins=SOME)
        for _ in range(3000):
            histogram.add(third, p)
        assert histogram.reading().counts == (1000, 2000, 2000, 3000)

    @settings(max_examples=60)
    @given(
        st.lists(
            st.tuples(
                st.lists(st.tuples(st.floats(0, 150), st.floats(0, 2)), min_size=1, max_size=20), st.integers(0, 143)
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_never_decreases_and_agrees_with_itself(
        self, additions: list[tuple[list[tuple[float, float]], int]]
    ) -> None:
        histogram = MassHistogram(BINS)
        last, certain, possible, n = histogram.reading(), np.zeros(13), np.zeros(13), 0
        native: dict[float, int] = {}
        for events, k in additions:
            p = np.full(BINS.count, 1e-12)
            p[k] = 1
            counted = tallied(*[(lower, lower + width) for lower, width in events])
            histogram.add(counted, p)
            reading = histogram.reading()
            i, j, counts = counted.cuts()
            n += len(events)
            certain += [counts[j <= cut].sum() for cut in BINS.le_cuts]
            possible += [counts[i < cut].sum() for cut in BINS.le_cuts]
            assert reading.total == n
            assert sorted(reading.counts) == list(reading.counts)
            assert all(new >= old for new, old in zip(reading.counts, last.counts, strict=True))
            assert reading.sum >= last.sum
            assert (certain <= reading.counts[:-1]).all()
            assert (reading.counts[:-1] <= possible).all()
            found = ends(reading)
            assert sum(found.values()) == n
            assert all(found.get(end, 0) >= count > 0 for end, count in native.items())
            last, native = reading, found


class TestNativeBuckets:
    def test_certain_events_are_in_the_buckets_of_their_bins(self, histogram: MassHistogram) -> None:
        events = (0.0, 0.0005), (0.0005, 2**-10), (2**-10, 2 ** (-79 / 8)), (0.95, 1.0), (1.0, 1.05), (1.0, 1.09)
        histogram.add(tallied(*events, bins=SOME), SOME.uniform)
        found = {2**-10: 2, 2 ** (-79 / 8): 1, 1.0: 1, 2 ** (1 / 8): 2}
        assert ends(histogram.reading()) == found

    def test_uncertain_events_are_divided_in_proportion(self, histogram: MassHistogram) -> None:
        histogram.add(tallied(*[(0.25, 4.0)] * 40, bins=SOME), at(0.3, 0.3, 0.7, 3.0))
        assert ends(histogram.reading()) == {2 ** (-13 / 8): 20, 2 ** (-4 / 8): 10, 2 ** (13 / 8): 10}

    def test_bucket_keeps_its_event_where_rounded_masses_would_take_it_back(self, histogram: MassHistogram) -> None:
        """The masses below two ends are 0.4 and 1 of an event, and then 0.6 and 1.2: rounded, 0 and 1, and then 1."""
        histogram.add(tallied((0.25, 1.0), bins=SOME), at(0.3, 0.3, 0.7, 0.7, 0.7))
        before = ends(histogram.reading())
        assert before == {2 ** (-4 / 8): 1}
        histogram.add(tallied((0.25, 4.0), bins=SOME), at(0.3, 3.0, 3.0, 3.0, 3.0))
        assert ends(histogram.reading()) == before | {2 ** (13 / 8): 1}

    def test_last_bucket_has_everything_longer(self, histogram: MassHistogram) -> None:
        histogram.add(tallied((130, 131), (700, INF), bins=SOME), SOME.uniform)
        assert ends(histogram.reading()) == {2 ** (57 / 8): 2}

    @pytest.mark.parametrize("le", [0.001, 0.005, 0.99, 60.0])
    def test_bin_with_the_end_of_a_bucket_inside_is_divided_there(self, le: float) -> None:
        """The bins end at the `le` instead of at the nearest end of a bucket."""
        bins = Bins([le])
        histogram = MassHistogram(bins)
        end = 2 ** (round(8 * math.log2(le)) / 8)
        assert end not in bins.edges
        k = np.searchsorted(bins.edges, end) - 1
        lower, upper = bins.edges[k], bins.edges[k + 1]
        histogram.add(tallied(*[(lower, upper)] * 1000, bins=bins), bins.uniform)
        share = (end - lower) / (upper - lower)
        (first, before), (_, after) = ends(histogram.reading()).items()
        assert first == pytest.approx(end)
        assert (before, after) == pytest.approx((1000 * share, 1000 * (1 - share)), abs=1)

    @pytest.mark.parametrize("events", [1, 7, 60])
    def test_native_and_classic_counts_differ_by_few_events(self, events: int) -> None:
        """Also after many additions: what is rounded is carried over, and does not add up."""
        rng = np.random.default_rng(events)
        histogram = MassHistogram(SOME)
        p = np.exp(-0.5 * (np.log(np.maximum(SOME.midpoints, 0.001) / 0.15) / 0.8) ** 2)
        for _ in range(1500):
            latency, width = rng.lognormal(-1.9, 0.8, events), rng.uniform(0, 0.5, events)
            pairs = zip(np.maximum(0, latency - width).tolist(), (latency + width).tolist(), strict=True)
            histogram.add(tallied(*pairs, bins=SOME), p / p.sum())
        reading = histogram.reading()
        for le, count in zip(reading.edges, reading.counts, strict=False):
            assert abs(sum(n for end, n in ends(reading).items() if end <= le) - count) <= 3


def test_durations_are_counted_cumulatively_up_to_and_with_the_edges() -> None:
    histogram = DurationHistogram([0.1, 1.0])
    for seconds in (0.05, 0.1, 0.5, 1.0, 1.5, 4.0):
        histogram.observe(seconds)
    reading = histogram.reading()
    assert (reading.edges, reading.counts, reading.total) == ((0.1, 1.0), (2, 4, 6), 6)
    assert reading.sum == pytest.approx(7.15)
