"""How much later events arrive than at the fastest apiserver, by arrivals alone."""

import numpy as np
import pytest

from watchslo.latency.excess import FEWEST_EVENTS, KEPT_SECONDS, MOST_EVENTS, RecentArrivals, excess_of
from watchslo.model import FloatArray
from watchslo.snapshot import ExcessReading

NOW = 1000.0
REVISIONS = np.arange(100, 200)
COMMITTED = np.linspace(NOW - 50, NOW - 1, len(REVISIONS))


def arrivals(late: float | FloatArray = 0.0, *parts: slice) -> RecentArrivals:
    """A watch that receives these parts of the events `late` seconds after their commits, one part after the other."""
    made, received = RecentArrivals(), np.sort(COMMITTED + late)
    for part in parts or (slice(None),):
        made.add(REVISIONS[part], received[part])
    return made


def excess(*peers: RecentArrivals) -> list[tuple[int, float, float] | None]:
    found = excess_of(peers, NOW)
    return [(one.events, round(one.p50, 6), round(one.p99, 6)) if one else None for one in found]


def test_excess_does_not_depend_on_blocks_of_arrivals() -> None:
    parts = slice(0, 30), slice(30, 31), slice(31, None)
    assert excess(arrivals(0.0, *parts), arrivals(0.3)) == excess(arrivals(0.0), arrivals(0.3, *parts))


NONE, FIRST = RecentArrivals(), (100, 0.0, 0.0)
CASES: dict[str, tuple[list[RecentArrivals], list[tuple[int, float, float] | None]]] = {
    "one is first": (
        [arrivals(0.002), arrivals(0.302), arrivals(0.004)],
        [FIRST, (100, 0.3, 0.3), (100, 0.002, 0.002)],
    ),
    "two of a hundred are later": (
        [arrivals(), arrivals(np.where(REVISIONS >= 198, 0.9, 0.1))],
        [FIRST, (100, 0.1, 0.9)],
    ),
    "each is first with some": (
        [arrivals(np.where(REVISIONS % 4 == 0, 0.2, 0.0)), arrivals(np.where(REVISIONS % 4 == 1, 0.1, 0.0))],
        [(100, 0.0, 0.2), (100, 0.0, 0.1)],
    ),
    # An event that was no sample at a peer: it is unknown which apiserver was first.
    "one passed over ten": (
        [arrivals(0.0, slice(0, 40), slice(50, None)), arrivals(0.2), arrivals(0.3)],
        [(90, 0.0, 0.0), (90, 0.2, 0.2), (90, 0.3, 0.3)],
    ),
    "one has not reached sixty": (
        [arrivals(0.0, slice(0, 40)), arrivals(0.2), arrivals(0.3)],
        [(40, 0.0, 0.0), (100, 0.0, 0.2), (100, 0.1, 0.3)],
    ),
    "one alone has sixty": ([arrivals(), arrivals(0.3, slice(0, 40))], [(40, 0.0, 0.0), (40, 0.3, 0.3)]),
    "a revision comes again with the next block": (
        [arrivals(), arrivals(0.3, slice(0, 50), slice(49, None))],
        [(99, 0.0, 0.0), (99, 0.3, 0.3)],
    ),
    "few events": ([arrivals(), arrivals(0.3, slice(0, FEWEST_EVENTS - 1))], [None, None]),
    "no events": ([NONE, NONE], [None, None]),
    "no events at one": ([arrivals(), NONE], [None, None]),
}


@pytest.mark.parametrize(("peers", "expected"), CASES.values(), ids=CASES)
def test_excess_is_the_time_after_the_first_arrival(
    peers: list[RecentArrivals], expected: list[tuple[int, float, float] | None]
) -> None:
    assert excess(*peers) == expected


def test_only_arrivals_of_the_last_minute_count() -> None:
    found = excess_of((arrivals(), arrivals(0.3)), NOW + 30)
    assert found[0] == ExcessReading(59, 0.0, 0.0)
    assert found[1] is not None
    assert found[1].p50 == pytest.approx(0.3)


def test_late_copy_is_compared_with_a_first_arrival_before_the_minute() -> None:
    found = excess_of((arrivals(), arrivals(40.0)), NOW + 39)
    assert found[0] is not None
    assert found[1] is not None
    assert found[1].events > 2 * found[0].events
    assert found[1].p50 == pytest.approx(40.0)


def test_old_arrivals_are_forgotten() -> None:
    kept = arrivals()
    kept.add(np.array([300]), np.array([COMMITTED[49] + KEPT_SECONDS]))
    assert len(kept.revisions) == len(kept.received) == 52


def test_number_of_arrivals_is_limited() -> None:
    kept = arrivals()
    kept.add(np.arange(1000, 1000 + MOST_EVENTS), np.full(MOST_EVENTS, NOW))
    assert len(kept.revisions) == len(kept.received) == MOST_EVENTS
    assert kept.revisions[0] == 1000


def test_restored_storage_clears_the_arrivals() -> None:
    """Its revisions start again, and the same number is another event."""
    kept = arrivals()
    kept.add(np.array([150]), np.array([NOW]))
    assert kept.revisions.tolist() == [150]
