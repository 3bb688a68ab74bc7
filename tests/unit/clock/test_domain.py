"""Domains: membership, sightings, the horizon, and resets when revisions go backwards."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, calls, replay
from watchslo.clock.domain import MOST_READS, Domain
from watchslo.model import SERVICE, Reading
from watchslo.snapshot import StorageKind

PODS, NODES = ((SERVICE, key) for key in ("pods", "nodes"))
TIMESTAMP = 1_753_647_547_040_015_001


def tick(sent: float, answered: float, revision: int) -> Reading:
    return Reading("events", sent, answered, revision)


def probe(sent: float, answered: float, revision: int, resource: str = "pods") -> Reading:
    return Reading(resource, sent, answered, revision)


def ticking(until: int) -> Domain:
    """Return a domain that ticks each second; its revision is 100 at time 0 and grows by ten per second."""
    domain = Domain("main")
    for second in range(until):
        assert domain.tick(tick(second, second + 0.125, 100 + 10 * second))
    return domain


def probed(domain: Domain, start: int, revisions: list[int], resource: str = "pods") -> Domain:
    """Send one probe and one tick each second from `start` on, after the last tick of the domain."""
    for second, revision in enumerate(revisions, start):
        domain.probe(probe(second - 0.5, second - 0.375, revision, resource))
        assert domain.tick(tick(second, second + 0.125, 100 + 10 * second))
    return domain


def member_with_stream() -> Domain:
    """Return a domain with the member pods; the last tick is (3, 3.125, 130), watch 7 is of pods, 8 of nodes."""
    domain = probed(ticking(1), 1, [105, 115, 125])
    domain.attach(7, PODS)
    domain.attach(8, NODES)
    return domain


class DrivenDomain:
    """A domain whose sources are named by their resources."""

    def __init__(self, beginning: str) -> None:
        self.domain = ticking(1 if beginning == "started" else 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.domain, name)

    def tick(self, sent: float, answered: float, revision: int) -> str:
        return "" if self.domain.tick(tick(sent, answered, revision)) else "reset"

    def probe(self, sent: float, answered: float, revision: int, resource: str = "pods") -> None:
        self.domain.probe(probe(sent, answered, revision, resource))

    def observe(self, sent: float, answered: float, revision: int, resource: str = "pods") -> bool:
        return self.domain.observe(probe(sent, answered, revision, resource))

    def probed(self, start: int, revisions: list[int]) -> None:
        probed(self.domain, start, revisions)

    def attach(self, number: int, resource: str) -> None:
        self.domain.attach(number, (SERVICE, resource))

    def expel(self, resource: str) -> None:
        self.domain.expel((SERVICE, resource))

    def retain(self, resource: str) -> None:
        self.domain.retain({(SERVICE, resource)})

    def membership(self, resource: str) -> str:
        return self.domain.membership((SERVICE, resource)).value

    def is_judging(self, resource: str) -> bool:
        return self.domain.is_judging((SERVICE, resource))

    def foreign(self) -> list[str]:
        return [resource for _, resource in self.domain.foreign]

    def proven(self, revision: int, received: float) -> float:
        """Return the time by which the revision was proven to be committed."""
        bounds = self.domain.clock.measure(np.array([revision]), np.array([received]))
        return float(received - bounds.proven[0])

    def upper(self, revision: int, received: float) -> float | None:
        bounds = self.domain.clock.measure(np.array([revision]), np.array([received]))
        return float(bounds.upper[0]) if bounds.measurable[0] else None


def begin(beginning: str) -> Step:
    driven = calls(DrivenDomain(beginning))
    return lambda text: driven(text) or None


def test_domain_does_what_its_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("domains.txt", replay((GOLDEN / "domains.txt").read_text(), begin))


class TestBounds:
    def test_hundred_former_apiservers_leave_nothing_behind(self) -> None:
        domain = member_with_stream()
        before = len(pickle.dumps(domain))
        for second in range(4, 104):
            name = f"10.0.0.{second}"
            domain.attach(100 + second, (name, "pods"))
            domain.probe(Reading("pods", second - 0.5, second - 0.375, 0, name))
            domain.tick(Reading("events", second, second + 0.125, 100 + 10 * second, name))
            domain.probe(Reading("nodes", second + 0.25, second + 0.375, 0, name))
            domain.sight(second + 0.5, 101 + 10 * second, 7)
            domain.detach(100 + second)
            domain.clock.leave(name)
            domain.retain({PODS, NODES})
        assert len(domain._standings) == 1
        domain.tick(tick(4000, 4000.125, 50_000))
        assert len(pickle.dumps(domain)) < before + 2000 + 100 * 24


class TestReads:
    def test_waiting_reads_are_limited(self) -> None:
        domain = member_with_stream()
        for number in range(10 * MOST_READS):
            assert domain.observe(probe(3.25 + number, 3.375 + number, 132))
        assert len(domain._reads) == MOST_READS


class TestKind:
    def test_counters_are_no_times(self) -> None:
        domain = ticking(3)
        assert domain.kind is StorageKind.SEQUENCE
        assert domain.counts
        domain.clock.learn(np.array([105]), np.array([1.0]))
        assert domain.clock.offset is None
        assert domain.clock.resolution == 0.125

    def test_commit_times_date_events_once_they_are_known_as_such(self) -> None:
        domain = Domain("main")
        counts = [domain.counts]
        for second in range(40):
            domain.tick(tick(second, second + 0.125, TIMESTAMP + 10**9 * second))
            counts.append(domain.counts)
            assert (domain.clock.offset is not None) == (domain.kind is StorageKind.TIMESTAMP)
        assert domain.kind is StorageKind.TIMESTAMP
        assert counts == [True] + 40 * [False], "it is assumed before the first tick"
        assert domain.clock.resolution == 0.125, "nothing is known of the storage's clock yet"
        revisions = np.array([TIMESTAMP + 10**9 * 38 + 1, TIMESTAMP + 10**9 * 38 + 500_000_000])
        domain.clock.learn(revisions, np.array([38.001, 38.502]))
        bounds = domain.clock.measure(revisions, np.array([38.001, 38.502]))
        assert bounds.upper[1] - bounds.lower[1] < 0.0025
        assert domain.clock.resolution is not None
        assert domain.clock.resolution < 0.0025

    def test_a_restored_storage_is_learnt_again(self) -> None:
        domain = Domain("main")
        for second in range(40):
            domain.tick(tick(second, second + 0.125, TIMESTAMP + 10**9 * second))
        offset = domain.clock.offset
        assert not domain.tick(tick(40, 40.125, TIMESTAMP))
        assert domain.clock.offset is not offset
        assert not domain.tick(tick(41, 41.125, 41))
        assert domain.clock.offset is None
