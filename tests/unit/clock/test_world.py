"""Small generated worlds with known commit times: the truth lies inside all bounds, for any schedule."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.domain import Domain, Membership
from watchslo.clock.revision import Origins, RevisionClock
from watchslo.model import SERVICE, Bounds, Reading

INF = math.inf
RESOURCES = ("pods", "nodes")


@dataclass(frozen=True)
class Arrival:
    """An event of `revision`, committed at `committed`, that `stream` received at `received`."""

    stream: int
    received: float
    revision: int
    committed: float


@dataclass(frozen=True)
class World:
    """One etcd: commits[k] is the time of revision base + k + 1. Readings are in the order of their answers."""

    base: int
    commits: tuple[float, ...]
    readings: tuple[Reading, ...]
    arrivals: tuple[Arrival, ...]

    def revision_at(self, time: float) -> int:
        return self.base + sum(committed <= time for committed in self.commits)

    def in_order(self, readings: tuple[Reading, ...]) -> Iterator[Reading | Arrival]:
        """Return what a monitor sees, in order of time."""
        happenings: list[Reading | Arrival] = [*self.arrivals, *readings]
        yield from sorted(happenings, key=_moment)


def _moment(happening: Reading | Arrival) -> float:
    return happening.answered if isinstance(happening, Reading) else happening.received


@st.composite
def worlds(draw: st.DrawFn, *, unit: float = 1 / 64, base: int = 1000) -> World:
    """Draw single commits and bursts; lost, slow and overlapping reads of two resources; and slow watches."""
    gaps = draw(st.lists(st.integers(0, 64), min_size=1, max_size=24))
    commits = tuple(unit * sum(gaps[: k + 1]) for k in range(len(gaps)))
    world = World(base, commits, (), ())
    readings = []
    sent = 0.0
    for resource, gap, there, back in draw(
        st.lists(
            st.tuples(st.sampled_from(RESOURCES), st.integers(1, 48), st.integers(0, 128), st.integers(0, 16)),
            min_size=1,
            max_size=24,
        )
    ):
        sent += unit * gap
        read = sent + unit * there
        readings.append(Reading(resource, sent, read + unit * back, world.revision_at(read)))
    arrivals = []
    for stream, delays in enumerate(
        draw(st.lists(st.lists(st.none() | st.integers(0, 256), max_size=len(commits)), max_size=3))
    ):
        received = 0.0
        for k, delay in enumerate(delays):
            if delay is not None:
                received = max(received, commits[k] + unit * delay)
                arrivals.append(Arrival(stream, received, base + k + 1, commits[k]))
    arrivals.sort(key=_moment)
    readings.sort(key=_moment)
    return World(base, commits, tuple(readings), tuple(arrivals))


def measure(clock: RevisionClock, arrivals: list[Arrival], without: str | None = None) -> Bounds:
    revisions = np.array([arrival.revision for arrival in arrivals], dtype=np.int64)
    origins = Origins(np.zeros(len(arrivals), dtype=np.int64), [(SERVICE, without or "watched")], [without is not None])
    return clock.measure(revisions, np.array([arrival.received for arrival in arrivals]), origins)


def assert_truth_inside(clock: RevisionClock, arrivals: list[Arrival], without: str | None = None) -> None:
    bounds = measure(clock, arrivals, without)
    truth = np.array([arrival.received - arrival.committed for arrival in arrivals])
    assert np.all(bounds.lower >= 0)
    assert np.all(bounds.lower <= bounds.proven)
    assert np.all(bounds.proven <= truth)
    assert np.all((truth <= bounds.proven_upper) | ~bounds.measurable)
    assert np.all((bounds.proven_upper <= bounds.upper) | ~bounds.measurable)


def replay(world: World) -> tuple[RevisionClock, list[Arrival]]:
    """Pass a whole world to a clock, and check its bounds at each tick."""
    clock = RevisionClock()
    arrived: list[Arrival] = []
    for happening in world.in_order(world.readings):
        if isinstance(happening, Arrival):
            clock.sight(happening.received, happening.revision, happening.stream)
            arrived.append(happening)
        else:
            assert clock.tick(happening) == frozenset()
            for without in (None, *RESOURCES):
                assert_truth_inside(clock, arrived, without)
    return clock, arrived


def sightings(world: World) -> list[tuple[float, int]]:
    """Return the kept sightings that a tick confirms as (received, revision), by definition."""
    kept: list[Arrival] = []
    for arrival in world.arrivals:
        if not kept or (arrival.revision > kept[-1].revision and arrival.received > kept[-1].received):
            kept.append(arrival)
    return [
        (arrival.received, arrival.revision)
        for arrival in kept
        if any(tick.sent > arrival.received and tick.revision >= arrival.revision for tick in world.readings)
    ]


def by_definition(
    world: World, arrival: Arrival, without: str | None, seen: Sequence[tuple[float, int]]
) -> tuple[float, ...] | None:
    """Return (lower, proven, proven upper, upper) by definition, from all readings and what was seen."""

    def start(readings: Iterable[Reading]) -> float:
        return max((reading.sent for reading in readings if reading.revision < arrival.revision), default=-INF)

    def end(readings: Iterable[Reading]) -> float:
        return min((reading.answered for reading in readings if reading.revision >= arrival.revision), default=INF)

    used = [reading for reading in world.readings if reading.resource != without]
    if start(used) == -INF:
        return None
    until = min([arrival.received, end(world.readings), *(at for at, revision in seen if revision >= arrival.revision)])
    ends = min(arrival.received, end(used)), until, start(world.readings), start(used)
    return tuple(arrival.received - end for end in ends)


@given(worlds())
def test_bounds_contain_the_truth_and_match_the_definition(world: World) -> None:
    clock, arrived = replay(world)
    assert_match(world, clock, arrived, sightings(world))


def assert_match(world: World, clock: RevisionClock, arrived: list[Arrival], seen: Sequence[tuple[float, int]]) -> None:
    for without in (None, *RESOURCES):
        bounds = measure(clock, arrived, without)
        for k, arrival in enumerate(arrived):
            expected = by_definition(world, arrival, without, seen)
            assert bounds.measurable[k] == (expected is not None)
            if expected is not None:
                assert (bounds.lower[k], bounds.proven[k], bounds.proven_upper[k], bounds.upper[k]) == expected


@given(worlds())
def test_reads_that_are_no_ticks_prove_as_much(world: World) -> None:
    clock = RevisionClock()
    for reading in world.readings:
        if reading.resource == "pods":
            clock.tick(reading)
        else:
            clock.add_read(reading)
    for without in (None, *RESOURCES):
        assert_truth_inside(clock, [*world.arrivals], without)
    assert_match(world, clock, [*world.arrivals], [])


@given(worlds(unit=4.0))
def test_forgetting_only_widens_the_bounds(world: World) -> None:
    """Ticks that are ignored for events of their resource may count for these after ten minutes without another one."""
    clock, arrived = replay(world)
    for without in (None, *RESOURCES):
        bounds = measure(clock, arrived, without)
        for k, arrival in enumerate(arrived):
            seen = sightings(world)
            expected = by_definition(world, arrival, None, seen)
            assert bounds.measurable[k] <= (expected is not None)
            assert bounds.measurable[k] >= (by_definition(world, arrival, without, seen) is not None)
            if expected is not None:
                assert bounds.lower[k] <= expected[0]
                assert bounds.proven[k] <= expected[1]
                assert bounds.proven_upper[k] >= expected[2]
                assert bounds.upper[k] >= expected[3]


@given(worlds(), worlds(base=2000), st.booleans())
def test_sources_of_two_etcds_never_share_a_domain(world: World, other: World, swapped: bool) -> None:  # noqa: FBT001 - drawn
    """Probe resources of two etcds in the domain of one: its own is never foreign, the other never a member."""
    ours, theirs = (other, world) if swapped else (world, other)
    domain = Domain("ours")
    ticks = tuple(reading for reading in ours.readings if reading.resource == "pods")
    probes = tuple(
        Reading(name, reading.sent, reading.answered, reading.revision)
        for name, source in (("nodes", ours), ("foreign", theirs))
        for reading in source.readings
        if reading.resource == "nodes"
    )
    for happening in ours.in_order((*ticks, *probes)):
        if isinstance(happening, Arrival):
            continue
        if happening.resource == "pods":
            assert domain.tick(happening)
        else:
            domain.probe(happening)
        assert domain.membership((SERVICE, "nodes")) is not Membership.FOREIGN
        assert domain.membership((SERVICE, "foreign")) is not Membership.MEMBER
    assert domain.resets == 0


@given(worlds(), st.integers(0, 24), st.integers(1, 2))
def test_watch_that_leaves_the_sequence_loses_all_its_sightings(world: World, position: int, clones: int) -> None:
    """Watches of a resource whose etcd copies the domain's until, at some arrival, its revisions jump ahead."""
    domain = Domain("ours")
    for start in range(-5, 0):
        for resource in ("pods", "copies"):
            domain.probe(Reading(resource, start + 0.25, start + 0.5, world.base))
        domain.tick(Reading("nodes", start + 0.75, start + 0.875, world.base))
    assert domain.membership((SERVICE, "copies")) is Membership.MEMBER
    for stream in range(3 + clones):
        domain.attach(stream, (SERVICE, "pods" if stream < 3 else "copies"))
    honest: list[Arrival] = []
    gone_at, seen_at = INF, -INF
    for number, happening in enumerate(world.in_order(world.readings)):
        if isinstance(happening, Reading):
            assert domain.tick(happening)
            assert_truth_inside(domain.clock, honest)
            if happening.sent > gone_at:
                assert domain.membership((SERVICE, "copies")) is Membership.FOREIGN
                assert not np.isin(domain.clock._sightings._streams[: domain.clock._sightings._count], [3, 4]).any()
            continue
        if (
            number >= position and happening.received > seen_at
        ):  # otherwise it followed another sighting too closely to be kept
            gone_at = min(gone_at, happening.received)
        seen_at = happening.received
        for stream in range(3, 3 + clones):
            domain.sight(happening.received, happening.revision + (10**6 if number >= position else 0), stream)
        domain.sight(happening.received, happening.revision, happening.stream)
        honest.append(happening)
    assert domain.membership((SERVICE, "pods")) is Membership.MEMBER
    assert domain.resets == 0
