"""Events between their arrival and their evaluation."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.latency.truth import BINS, bounds, tally_of
from watchslo.latency import pending as module
from watchslo.latency.pending import Arrivals, HeldEvents, PendingEvents, SampleCounts
from watchslo.latency.tally import Tally, merge, sum_by_key


def filled(made: PendingEvents | HeldEvents) -> None:
    made.add(1, 10.0, [5, 6])
    made.add(2, 10.5, [7])
    made.add(1, 11.0, [8])


def last(found: Arrivals) -> tuple[int, float, int]:
    return found.watches.tolist()[-1], found.received.tolist()[-1], found.revisions.tolist()[-1]


class TestPendingEvents:
    @pytest.fixture
    def events(self) -> PendingEvents:
        filled(made := PendingEvents())
        return made

    def test_have_a_bound(self, events: PendingEvents, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PENDING_EVENTS", 5)
        assert not events.add(3, 12.0, [9, 10])
        assert events.add(3, 12.0, [9])
        assert not events.add(3, 12.0, [10])
        assert len(events) == 5

    def test_with_a_revision_beyond_64_bits_are_refused_as_a_whole(self, events: PendingEvents) -> None:
        with pytest.raises(OverflowError):
            events.add(3, 12.0, [9, 2**63])
        assert events.add(3, 12.0, [2**63 - 1])
        assert last(events.take_before(13.0, 100)) == (3, 12.0, 2**63 - 1)


class TestHeldEvents:
    @pytest.fixture
    def held(self) -> HeldEvents:
        filled(made := HeldEvents())
        return made

    def test_have_a_bound(self, held: HeldEvents, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "HELD_EVENTS", 5)
        assert not held.add(3, 12.0, [9, 10])
        assert held.watches == (1, 2)
        assert held.add(3, 12.0, [9])
        assert not held.add(3, 12.0, [10])
        held.take_before(1, 11.0)
        assert held.add(3, 12.0, [10, 11])

    def test_with_a_revision_beyond_64_bits_are_refused_as_a_whole(self, held: HeldEvents) -> None:
        with pytest.raises(OverflowError):
            held.add(1, 12.0, [9, 2**63])
        assert len(held) == 4
        assert last(held.take_before(1, 13.0, 100)) == (1, 11.0, 8)


def counted(tallies: list[tuple[float, Tally]]) -> dict[float, tuple[list[int], list[int]]]:
    return {block: (part.keys.tolist(), part.counts.tolist()) for block, part in tallies}


class TestSampleCounts:
    def test_are_empty_at_first_and_after_they_are_taken(self) -> None:
        counts = SampleCounts(BINS)
        assert counts.take() == {}
        counts.add(np.array([3]), np.array([7.0]), bounds((0.1, 0.2)))
        assert [*counts.take()] == [3]
        assert counts.take() == {}

    def test_of_nothing_change_nothing(self) -> None:
        counts = SampleCounts(BINS)
        counts.add(np.array([], dtype=np.int64), np.array([]), bounds((0.1, 0.2)).at(np.array([False])))
        assert counts.take() == {}

    @given(
        st.lists(
            st.lists(
                st.tuples(st.sampled_from([0, 1, 2**23 - 1]), st.floats(0, 1e6), st.floats(0, 3), st.floats(0, 3)),
                min_size=1,
                max_size=8,
            ),
            max_size=6,
        ),
        st.sampled_from([1, 10, 10_000]),
    )
    def test_are_the_tallies_of_each_row_and_block(
        self, batches: list[list[tuple[int, float, float, float]]], most: int
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "COUNTED_KEYS", most)
            counts = SampleCounts(BINS)
            expected: dict[int, dict[float, list[Tally]]] = {}
            for batch in batches:
                events = bounds(*[(lower, lower + width, lower + width / 2) for _, _, lower, width in batch])
                rows, received = np.array([row for row, *_ in batch]), np.array([at for _, at, *_ in batch])
                counts.add(rows, received, events)
                for at, (row, time, *_) in enumerate(batch):
                    one = tally_of(events.at(np.array([at])))
                    expected.setdefault(row, {}).setdefault(time // 5 * 5, []).append(one)
            taken = counts.take()
        assert {row: counted(slots) for row, slots in taken.items()} == {
            row: counted([(block, merge(BINS, parts)) for block, parts in blocks.items()])
            for row, blocks in expected.items()
        }
        assert all(sorted(slots) == slots for slots in ([block for block, _ in part] for part in taken.values()))

    def test_with_many_different_keys_are_summed_seldom(self, monkeypatch: pytest.MonkeyPatch) -> None:
        summing = Mock(side_effect=sum_by_key)
        monkeypatch.setattr(module, "COUNTED_KEYS", 20)
        monkeypatch.setattr(module, "sum_by_key", summing)
        counts = SampleCounts(BINS)
        for _ in range(2):
            for row in range(500):
                counts.add(np.array([row]), np.array([7.0]), bounds((0.1, 0.2)))
            assert len(counts.take()) == 500
            assert summing.call_count <= 8
            summing.reset_mock()

    def test_with_few_different_keys_stay_few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "COUNTED_KEYS", 20)
        counts = SampleCounts(BINS)
        for _ in range(500):
            counts.add(np.array([1]), np.array([7.0]), bounds((0.1, 0.2)))
            assert counts._size <= 22


class TestArrivals:
    def test_of_several_parts_are_ordered_by_time(self) -> None:
        parts = [
            Arrivals(np.array([watch] * 2), np.array(times), np.array(revisions))
            for watch, times, revisions in ((1, [5.0, 5.0], [2, 1]), (2, [4.0, 6.0], [3, 4]))
        ]
        found = Arrivals.by_time(parts)
        assert (found.watches.tolist(), found.revisions.tolist()) == ([2, 1, 1, 2], [3, 2, 1, 4])

    def test_of_each_watch_are_in_the_order_of_time(self) -> None:
        parts = [
            Arrivals(np.array([7, 5, 7]), np.array([1.0, 1.1, 1.2]), np.array([10, 11, 12])),
            Arrivals(np.array([5]), np.array([2.0]), np.array([13])),
        ]
        found = {watch: (one.revisions.tolist(), one.received.tolist()) for watch, one in Arrivals.of_each(parts)}
        assert found == {5: ([11, 13], [1.1, 2.0]), 7: ([10, 12], [1.0, 1.2])}
        assert all(set(one.watches.tolist()) == {watch} for watch, one in Arrivals.of_each(parts))

    def test_without_parts_there_are_none(self) -> None:
        assert [*Arrivals.of_each([])] == []
