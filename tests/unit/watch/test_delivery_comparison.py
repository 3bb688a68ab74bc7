"""The same watch at several apiservers: what one of them lacks is found, and nothing else."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.lossy_watches import lossy_run
from watchslo.watch.audit import Delivered
from watchslo.watch.delivery_comparison import (
    MOST_COMPARED,
    MOST_MISSING,
    ComparedWatch,
    DeliveryComparison,
    PeerDeliveries,
)


class Peer:
    """One watch, which began after a revision."""

    def __init__(self, floor: int = 0, *, replay: bool = False) -> None:
        self.delivered = Delivered(replay=replay)
        self.delivered.begin(floor)
        self.reached = floor

    def deliver(self, *revisions: int) -> None:
        self.delivered.extend(revisions)
        self.reached = max(self.reached, *revisions)

    @property
    def progress(self) -> PeerDeliveries:
        return PeerDeliveries(self.delivered, self.reached)


def compare(comparison: DeliveryComparison, *peers: Peer) -> dict[int, ComparedWatch]:
    """Return what is found of each of the peers, numbered from 1."""
    return {found.number: found for found in comparison.compare({n: p.progress for n, p in enumerate(peers, 1)})}


def missing(found: Mapping[int, ComparedWatch]) -> dict[int, tuple[tuple[int, ...], tuple[int, ...], int | None]]:
    return {n: (one.proven, one.unproven, one.witness) for n, one in found.items() if one.proven or one.unproven}


def test_missing_events_are_limited() -> None:
    a, b = Peer(), Peer()
    a.deliver(*range(1, 2 * MOST_MISSING))
    b.deliver(2 * MOST_MISSING)
    (found,) = compare(DeliveryComparison(), a, b).values()
    assert found.unproven == tuple(range(1, MOST_MISSING + 1))


@pytest.mark.parametrize("seed", range(100))
def test_each_lost_event_is_found_once_and_no_other(seed: int) -> None:
    """Three watches deliver the same changes at their own speed, and lose some events."""
    chance = random.Random(seed)
    comparison, peers = DeliveryComparison(), {1: Peer(), 2: Peer(), 3: Peer()}
    due: dict[int, list[int]] = {1: [], 2: [], 3: []}
    lost, found = [], []
    revision = 0
    for _ in range(400):
        for _ in range(chance.randrange(6)):
            revision += chance.randint(1, 3)
            loser = chance.choice((1, 2, 3)) if chance.random() < 0.01 else None
            lost += [(loser, revision)] if loser else []
            for number in due.keys() - {loser}:
                due[number].append(revision)
        for number, peer in peers.items():
            count = chance.randrange(8)
            if brought := due[number][:count]:
                peer.deliver(*brought)
                del due[number][:count]
        if chance.random() < 0.1:
            found += missed(compare(comparison, *peers.values()))
    for number, peer in peers.items():
        peer.deliver(*due[number], revision + 1)
    found += missed(compare(comparison, *peers.values()))
    assert lost
    assert sorted(found) == sorted(lost)


@pytest.mark.parametrize("seed", range(3))
def test_each_event_of_a_watch_that_loses_one_in_100000_is_found_once_and_no_other(seed: int) -> None:
    run = lossy_run(seed)
    assert run.lost
    assert sorted(run.found) == sorted(run.lost)
    assert (run.missed, run.false_alarms) == (0, 0)


def missed(found: Mapping[int, ComparedWatch]) -> list[tuple[int, int]]:
    """Return the watch and the revision of each missing event."""
    return [(number, revision) for number, one in found.items() for revision in (*one.proven, *one.unproven)]


@given(st.lists(st.sets(st.integers(1, 40)), min_size=2, max_size=4), st.lists(st.integers(0, 40), min_size=4))
def test_watches_that_deliver_everything_in_order_lack_nothing(deliveries: list[set[int]], floors: list[int]) -> None:
    """All sets together are the changes; each watch delivers those after its start and up to the newest of its set."""
    changes = sorted(set.union(*deliveries))
    peers = []
    for brought, floor in zip(deliveries, floors, strict=False):
        peer = Peer(floor)
        until = max(brought, default=0)
        if after := [revision for revision in changes if floor < revision <= until]:
            peer.deliver(*after)
        peers.append(peer)
    assert missing(compare(DeliveryComparison(), *peers)) == {}


def test_long_past_is_compared_part_by_part() -> None:
    a, b, comparison = Peer(replay=True), Peer(replay=True), DeliveryComparison()
    past = range(1, 2 * MOST_COMPARED + 2)
    a.deliver(*past)
    b.deliver(*past[:-1])
    b.reached = past[-1]
    found = [compare(comparison, a, b) for _ in range(3)]
    assert [one[1].checked for one in found[:2]] == [MOST_COMPARED, MOST_COMPARED]
    assert [missing(one) for one in found] == [{}, {}, {2: ((), (past[-1],), 1)}]
