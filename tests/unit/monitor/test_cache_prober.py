"""Which caches are read, and how: the choice by table, the reads on a loop whose time jumps."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, NODES, PODS, Log
from watchslo.clock.cache import CacheClock
from watchslo.kube.client import CLOSED
from watchslo.latency.bins import Bins
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.track import Track
from watchslo.model import Reading, Resource, Source
from watchslo.monitor.cache_prober import (
    LINGER_SECONDS,
    REFUSED_SECONDS,
    STEP_SECONDS,
    TURN_SECONDS,
    CacheProber,
    Rota,
    Want,
)
from watchslo.monitor.task_supervisor import RESTART_SECONDS
from watchslo.monitor.watch_statistics import WatchStatistics
from watchslo.watch.failure import Failure, Phase, Reason, because
from watchslo.watch.missing_right import AGAIN_SECONDS

A1, A2, A3 = (("a", resource) for resource in ("configmaps", "nodes", "pods"))
B1, B2 = (("b", resource) for resource in ("configmaps", "nodes"))
C1 = ("c", "configmaps")
IDLE, ASKED = Want(), Want(asked=True)
BUDGET = 5.0


def late(lateness: float = 1.0, *, asked: bool = False) -> Want:
    return Want(needed=True, asked=asked, lateness=lateness)


class TestRota:
    @pytest.mark.parametrize(
        ("wants", "chosen"),
        [
            ({}, ()),
            ({A1: IDLE, B1: IDLE}, ()),
            ({A1: late()}, (A1,)),
            ({A1: ASKED}, (A1,)),
            ({A1: late(1), B1: late(2)}, (B1, A1)),
            ({A1: late(1), A2: late(2)}, (A2, A1)),
            ({A1: late(1), A2: late(3), A3: late(2)}, (A2, A3)),
            # one of each apiserver before a second of any
            ({A1: late(3), A2: late(2), B1: late(1)}, (A1, B1)),
            ({A1: late(1), A2: late(3), B1: late(2), C1: late(2.5)}, (A2, C1)),
            ({A1: ASKED, A2: ASKED, B1: ASKED}, (A1, B1)),
            # late watches before configured ones
            ({A1: ASKED, B1: late(0)}, (B1, A1)),
            ({A1: ASKED, B1: late(1), B2: late(2)}, (B2, B1)),
            ({A1: late(1, asked=True), B1: late(2)}, (B1, A1)),
            # a watch that needs its hops, with unknown lateness
            ({A1: late(0), B1: late(0.3), C1: late(0.2)}, (B1, C1)),
        ],
    )
    def test_rota_chooses_two_caches(self, wants: Mapping[Source, Want], chosen: tuple[Source, ...]) -> None:
        assert Rota().choose(wants, 1000.0) == chosen

    def test_rota_lets_each_cache_finish_its_turn(self) -> None:
        rota = Rota()
        assert set(rota.choose({A1: late(1), B1: late(1)}, 1000.0)) == {A1, B1}
        newcomers = {A1: late(1), B1: late(1), A2: late(9), B2: late(9), C1: late(9)}
        assert set(rota.choose(newcomers, 1000.0 + TURN_SECONDS - 1)) == {A1, B1}
        assert set(rota.choose(newcomers, 1000.0 + TURN_SECONDS)) == {A2, B2}

    def test_rota_ends_second_turn_of_an_apiserver_if_another_needs_one(self) -> None:
        rota = Rota()
        assert rota.choose({A1: late(2), A2: late(1)}, 1000.0) == (A1, A2)
        assert rota.choose({A1: late(2), A2: late(1), B1: late(0.5)}, 1001.0) == (A1, B1)

    def test_rota_ends_turns_without_need_if_another_is_late(self) -> None:
        rota = Rota()
        assert rota.choose({A1: ASKED, B1: ASKED}, 1000.0) == (A1, B1)
        assert rota.choose({A1: ASKED, B1: ASKED, A2: late()}, 1001.0) == (A2, B1)
        assert rota.choose({A1: ASKED, B1: ASKED, A2: late(), B2: late()}, 1002.0) == (A2, B2)

    def test_rota_gives_each_cache_a_turn(self) -> None:
        rota, turns = Rota(), dict.fromkeys((A1, A2, A3, B1, B2), 0)
        wants = {source: late(number) for number, source in enumerate(turns)}
        for second in range(10 * round(TURN_SECONDS)):
            for source in rota.choose(wants, 1000.0 + second):
                turns[source] += 1
        assert set(turns.values()) <= {round(count * TURN_SECONDS) for count in (3, 4, 5, 6)}
        assert sum(turns.values()) == 20 * TURN_SECONDS

    def test_rota_keeps_two_caches_if_no_other_waits(self) -> None:
        rota = Rota()
        for second in range(200):
            assert set(rota.choose({A1: late(), A2: late()}, 1000.0 + second)) == {A1, A2}

    def test_rota_lingers_after_the_need(self) -> None:
        rota = Rota()
        rota.choose({A1: late()}, 1000.0)
        assert rota.choose({A1: IDLE}, 1000.0 + LINGER_SECONDS - 0.1) == (A1,)
        assert rota.choose({A1: IDLE}, 1000.0 + LINGER_SECONDS) == ()

    def test_rota_lingers_again_after_each_need(self) -> None:
        rota = Rota()
        for second in range(0, 300, 50):
            assert rota.choose({A1: late()}, 1000.0 + second) == (A1,)
            assert rota.choose({A1: IDLE}, 1049.0 + second) == (A1,)

    def test_rota_remembers_the_need_of_an_unreadable_cache(self) -> None:
        rota = Rota()
        rota.choose({A1: late()}, 1000.0)
        assert rota.choose({}, 1010.0) == ()
        assert rota.choose({A1: IDLE}, 1020.0) == (A1,)

    def test_rota_gives_new_caches_a_turn_first(self) -> None:
        """A cache that was not wanted for a while has lost its turn."""
        rota = Rota()
        rota.choose({A1: late(), A2: late()}, 1000.0)
        rota.choose({A2: late(), A3: late()}, 1001.0)
        assert rota.choose({A1: late(), A2: late(), A3: late()}, 1000.0 + TURN_SECONDS) == (A3, A1)


class Apiserver:
    """Answers each read of a cache after `seconds`; reads of a resource in `failures` fail."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.peers: int | None = 1
        self.mixed = False
        self.seconds = 0.001
        self.failures: dict[str, Failure] = {}
        self.revision = 100
        self.sent: list[tuple[float, str]] = []
        self.client: Any = self

    async def read_cache(self, resource: Resource, namespace: str) -> Reading | Failure:
        assert namespace == "default"
        sent = time.monotonic()
        self.sent.append((sent, resource.key))
        failure, revision = self.failures.get(resource.key), self.revision
        await asyncio.sleep(self.seconds)
        return failure or Reading(resource.key, sent, time.monotonic(), revision, self.name)

    def fail(self, resource: Resource, reason: Reason, retry_after: float | None = None) -> None:
        self.failures[resource.key] = because(reason, phase=Phase.LIST, retry_after=retry_after)

    def count(self, resource: Resource, since: float = 0.0, until: float = float("inf")) -> int:
        return sum(1 for sent, key in self.sent if key == resource.key and since <= sent < until)


class FakeWatch:
    """A watch, all parts in one, `late` by this many thresholds of two seconds."""

    slowest = WatchStatistics.slowest

    def __init__(
        self, apiserver: Apiserver, resource: Resource = PODS, late: float = 0.0, *, asks: bool = False
    ) -> None:
        self.identity = self.session = self.statistics = self
        self.apiserver = cast("Any", apiserver)
        self.resource = resource
        self.cached = resource.usually_cached
        self.source = apiserver.name, resource.key
        self.probed_in = "default"
        self.threshold = 2.0
        self.up = True
        self.desired = SimpleNamespace(watch=SimpleNamespace(hops=asks))
        self.late = late
        self.prober: CacheProber | None = None

    @property
    def track(self) -> Track:
        """A track whose other windows have other quantiles."""
        made = Track(Bins(), Objective(), 0.0, OwnDelays())
        estimates = {0.5: self.late, 0.99: 2.0 * self.late, 1.0: 9.0 - self.late}
        quantiles = tuple(SimpleNamespace(q=q, estimate=estimate) for q, estimate in estimates.items())
        windows = (
            SimpleNamespace(length=60.0, quantiles=(SimpleNamespace(q=0.99, estimate=9.0 - self.late),)),
            SimpleNamespace(length=15.0, quantiles=quantiles if self.late else ()),
        )
        made.reading = lambda: cast("Any", SimpleNamespace(windows=windows))  # type: ignore[method-assign]
        return made

    def needs_hops(self, now: float) -> bool:
        assert now == time.monotonic()
        return self.late > 0.0

    @property
    def cache_clock(self) -> CacheClock | None:
        assert self.prober is not None
        return self.prober.clock_of(self.source)

    @property
    def probed(self) -> bool:
        return self.cache_clock is not None


class World:
    def __init__(self, *streams: FakeWatch) -> None:
        self.streams = list(streams)
        self.budget = BUDGET
        self.random = 0.5
        self.prober = CacheProber(
            self._watches,
            lambda: self.budget,
            lambda watch, now: cast("Any", watch).needs_hops(now),
            lambda watch: watch.desired.watch.hops,
            lambda: self.random,
        )
        self._watches()

    def _watches(self) -> Any:
        for stream in self.streams:
            stream.prober = self.prober
        return self.streams

    @property
    def probed(self) -> set[tuple[str, str]]:
        return {(stream.apiserver.name, stream.resource.key) for stream in self.streams if stream.probed}


@contextlib.asynccontextmanager
async def probing(*streams: FakeWatch) -> AsyncIterator[World]:
    world = World(*streams)
    task = asyncio.create_task(world.prober.run())
    await asyncio.sleep(0)
    try:
        yield world
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})


def gaps(times: Iterable[float]) -> set[float]:
    return {round(later - earlier, 3) for earlier, later in pairwise(times)}


@pytest.fixture
def a() -> Apiserver:
    return Apiserver("a")


@pytest.fixture
def b() -> Apiserver:
    return Apiserver("b")


async def test_healthy_watch_and_uncached_resource_have_no_cache_reads(a: Apiserver) -> None:
    async with probing(FakeWatch(a), FakeWatch(a, EVENTS, late=1.0, asks=True)) as world:
        await asyncio.sleep(3600)
        assert a.sent == []
        assert world.probed == set()


@pytest.mark.parametrize(("random", "gap"), [(0.0, 0.1), (0.5, 0.2), (1.0, 0.3)])
async def test_cache_of_late_watch_is_read_within_the_budget(a: Apiserver, random: float, gap: float) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        world.random = random
        await asyncio.sleep(60)
        assert gaps(sent for sent, _ in a.sent[1:]) == {gap}


async def test_two_caches_share_the_budget(a: Apiserver, b: Apiserver) -> None:
    async with probing(FakeWatch(a, late=1.0), FakeWatch(b, late=1.0), FakeWatch(b, NODES, late=0.5)):
        await asyncio.sleep(60)
        assert len(a.sent) + len(b.sent) == pytest.approx(60 * BUDGET, rel=0.05)
        assert a.count(PODS) == pytest.approx(30 * BUDGET, rel=0.05)
        assert b.count(NODES) == pytest.approx(b.count(PODS), rel=0.2)


async def test_watches_of_one_cache_share_its_clock(a: Apiserver, b: Apiserver) -> None:
    late, same, elsewhere, other = FakeWatch(a, late=1.0), FakeWatch(a), FakeWatch(b), FakeWatch(a, NODES)
    async with probing(late, same, elsewhere, other):
        await asyncio.sleep(5)
        assert late.cache_clock is not None
        clock = late.cache_clock
        assert clock is same.cache_clock
        assert late.cache_clock.median_round_trip == pytest.approx(0.001)
        assert not elsewhere.probed
        assert not other.probed
        await asyncio.sleep(10 * TURN_SECONDS)
        assert late.cache_clock is clock, "it stays the same while the cache is read"


async def test_nothing_is_kept_of_caches_and_apiservers_without_watches(a: Apiserver) -> None:
    """Each cache goes back once, as if several were behind one address, and then cannot be read."""
    async with probing(FakeWatch(a, asks=True)) as world:
        for number in range(100):
            gone = Apiserver(f"gone-{number}")
            world.streams[1:] = [FakeWatch(gone, late=1.0)]
            await asyncio.sleep(3)
            gone.revision = 1
            await asyncio.sleep(2)
            gone.fail(PODS, Reason.FORBIDDEN)
            await asyncio.sleep(2)
            assert gone.sent
            assert (f"gone-{number}", "pods") in world.prober._doubted
        world.streams[1:] = []
        await asyncio.sleep(REFUSED_SECONDS)
        assert not world.prober._doubted
        assert not world.prober._refused
        assert [*world.prober._throttles] == ["a"]
        assert world.prober._probes.keys() == world.prober._rota._needed.keys() | world.prober._rota._began.keys()


async def test_probe_ends_after_lingering(a: Apiserver) -> None:
    stream = FakeWatch(a, late=1.0)
    async with probing(stream) as world:
        await asyncio.sleep(10.5)
        stream.late = 0.0
        await asyncio.sleep(LINGER_SECONDS - 2)
        assert world.probed
        await asyncio.sleep(2)
        assert not world.probed
        asked = len(a.sent)
        await asyncio.sleep(60)
        assert len(a.sent) == asked


async def test_configured_cache_is_read_until_reload(a: Apiserver) -> None:
    stream = FakeWatch(a, asks=True)
    async with probing(stream) as world:
        await asyncio.sleep(600)
        assert len(a.sent) == pytest.approx(600 * BUDGET, rel=0.05)
        stream.desired.watch.hops = False
        await asyncio.sleep(2 * STEP_SECONDS)
        assert world.probed == set()


async def test_latest_watches_are_probed_first(a: Apiserver) -> None:
    streams = [FakeWatch(a, resource, late) for resource, late in ((PODS, 0.5), (NODES, 2.0), (CONFIGMAPS, 1.0))]
    async with probing(*streams) as world:
        assert world.probed == {("a", "nodes"), ("a", "configmaps")}
        await asyncio.sleep(TURN_SECONDS + STEP_SECONDS)
        assert ("a", "pods") in world.probed
        await asyncio.sleep(600)
        counts = [a.count(stream.resource) for stream in streams]
        assert min(counts) > 0.4 * max(counts)  # the latest of all may be read more often


async def test_lateness_is_relative_to_the_threshold(a: Apiserver) -> None:
    streams = [FakeWatch(a, PODS, 3.0), FakeWatch(a, NODES, 2.0), FakeWatch(a, CONFIGMAPS, 1.8)]
    streams[1].threshold = streams[2].threshold = 1.0
    async with probing(*streams) as world:
        assert world.probed == {("a", "nodes"), ("a", "configmaps")}


async def test_hanging_read_does_not_delay_another_cache(a: Apiserver, b: Apiserver) -> None:
    a.seconds = 5.0
    a.fail(PODS, Reason.TIMEOUT)
    async with probing(FakeWatch(a, late=2.0), FakeWatch(b, late=1.0)):
        await asyncio.sleep(60)
        assert gaps(sent for sent, _ in b.sent[1:]) == {0.4}
        assert 0 < len(a.sent) <= 10


async def test_reads_of_one_cache_do_not_overlap(a: Apiserver) -> None:
    a.seconds = 1.5
    async with probing(FakeWatch(a, late=1.0)):
        await asyncio.sleep(60)
        assert gaps(sent for sent, _ in a.sent) == {1.5}


async def test_retry_after_is_obeyed_for_the_whole_apiserver(a: Apiserver, log: Log) -> None:
    async with probing(FakeWatch(a, late=2.0), FakeWatch(a, NODES, late=1.0)):
        await asyncio.sleep(10.05)
        a.fail(PODS, Reason.THROTTLED, retry_after=30)
        await asyncio.sleep(0.5)
        throttled = time.monotonic()
        await asyncio.sleep(29)
        assert [sent for sent, _ in a.sent if sent > throttled] == []
        a.failures.clear()
        await asyncio.sleep(10)
        assert a.count(PODS, since=throttled) > 0
    assert len(log.of("probe_failed")) == len(log.of("recovered")) == 1
    assert (log.of("probe_failed")[0]["apiserver"], log.of("probe_failed")[0]["on"]) == ("a", "pods")


async def test_failures_slow_reads_down(a: Apiserver, log: Log) -> None:
    a.fail(PODS, Reason.SERVER_ERROR)
    stream = FakeWatch(a, late=1.0)
    async with probing(stream):
        await asyncio.sleep(600)
        assert len(a.sent) < 25
        assert stream.probed
        a.failures.clear()
        await asyncio.sleep(120)
        assert a.count(PODS, since=time.monotonic() - 10) == pytest.approx(10 * BUDGET, abs=1)
    assert len(log.of("probe_failed")) == 1


@pytest.mark.parametrize("reason", [Reason.NOT_FOUND, Reason.UNPARSABLE])
async def test_unreadable_cache_gives_its_turn_to_others(a: Apiserver, reason: Reason) -> None:
    a.fail(PODS, reason)
    streams = [FakeWatch(a, late=3.0), FakeWatch(a, NODES, late=2.0), FakeWatch(a, CONFIGMAPS, late=1.0)]
    async with probing(*streams) as world:
        await asyncio.sleep(REFUSED_SECONDS - 1)
        assert a.count(PODS) == 1
        assert world.probed == {("a", "nodes"), ("a", "configmaps")}
        a.failures.clear()
        await asyncio.sleep(2 * TURN_SECONDS)
        assert a.count(PODS) > 2


async def test_cache_that_may_not_be_read_is_tried_again_after_a_minute_and_then_seldom(a: Apiserver) -> None:
    a.fail(PODS, Reason.FORBIDDEN)
    async with probing(FakeWatch(a, late=3.0), FakeWatch(a, NODES, late=2.0), FakeWatch(a, CONFIGMAPS, late=1.0)):
        await asyncio.sleep(AGAIN_SECONDS - 1)
        assert a.count(PODS) == 1
        await asyncio.sleep(REFUSED_SECONDS)
        assert a.count(PODS) == 2
        await asyncio.sleep(REFUSED_SECONDS)
        assert a.count(PODS) == 3


async def test_each_start_of_an_apiserver_hides_its_caches_for_a_minute_only(a: Apiserver) -> None:
    """It refuses everything for a moment."""
    stream = FakeWatch(a, late=1.0)
    async with probing(stream):
        for _ in range(3):
            a.fail(PODS, Reason.FORBIDDEN)
            await asyncio.sleep(2 * STEP_SECONDS)
            a.failures.clear()
            assert not stream.probed
            await asyncio.sleep(AGAIN_SECONDS + STEP_SECONDS)
            assert stream.probed


async def test_crash_of_one_probe_ends_no_other(a: Apiserver, b: Apiserver, log: Log) -> None:
    one, other = FakeWatch(a, late=1.0), FakeWatch(b, late=1.0)
    async with probing(one, other):
        await asyncio.sleep(1)
        clock, a.client = other.cache_clock, None
        await asyncio.sleep(2 * RESTART_SECONDS)
        assert other.cache_clock is clock
        assert b.count(PODS, since=time.monotonic() - RESTART_SECONDS) > 1
        asked, a.client = len(a.sent), a
        await asyncio.sleep(2 * RESTART_SECONDS)
        assert len(a.sent) > asked
    crashes = log.of("task_crashed")
    assert {crash["task"] for crash in crashes} == {"('hops', 'a', 'pods')"}
    assert len(crashes) <= 3


async def test_read_of_an_apiserver_that_leaves_is_no_failure_and_ends(a: Apiserver, b: Apiserver, log: Log) -> None:
    leaving, staying = FakeWatch(a, late=1.0), FakeWatch(b, late=1.0)
    async with probing(leaving, staying) as world:
        await asyncio.sleep(1)
        asked = len(a.sent)
        a.failures["pods"] = CLOSED
        await asyncio.sleep(10)
        assert len(a.sent) - asked < 6, "no busy loop"
        world.streams.remove(leaving)
        await asyncio.sleep(2 * STEP_SECONDS)
        assert world.probed == {("b", "pods")}
        asked = len(a.sent)
        await asyncio.sleep(60)
        assert len(a.sent) == asked
        assert gaps(sent for sent, _ in b.sent[-50:]) == {0.2}
    assert log.levels == {"debug"}


@pytest.mark.parametrize("peers", [None, 2, 3])
async def test_possible_load_balancer_is_not_probed(a: Apiserver, peers: int | None) -> None:
    a.peers = peers
    async with probing(FakeWatch(a, late=1.0, asks=True)) as world:
        await asyncio.sleep(60)
        assert a.sent == []
        a.peers = 1
        await asyncio.sleep(2 * STEP_SECONDS)
        assert world.probed == {("a", "pods")}


async def test_closed_watch_is_not_probed(a: Apiserver) -> None:
    stream = FakeWatch(a, late=1.0)
    stream.up = False
    async with probing(stream):
        await asyncio.sleep(60)
        assert a.sent == []
        stream.up = True
        await asyncio.sleep(2 * STEP_SECONDS)
        assert stream.probed


async def test_probe_continues_through_the_replacing_watch(a: Apiserver) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        await asyncio.sleep(10)
        renewed = Apiserver("a")
        world.streams = [FakeWatch(renewed, late=1.0)]
        await asyncio.sleep(10)
        assert renewed.count(PODS) > 40
        assert world.streams[0].probed


async def test_zero_budget_sends_no_reads(a: Apiserver) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        await asyncio.sleep(10)
        world.budget = 0.0
        await asyncio.sleep(2 * STEP_SECONDS)
        asked = len(a.sent)
        await asyncio.sleep(60)
        assert len(a.sent) == asked
        assert world.probed == set()
        world.budget = 1.0
        await asyncio.sleep(60)
        assert len(a.sent) - asked == pytest.approx(60, abs=2)


async def test_cancelled_prober_leaves_no_probe(a: Apiserver) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        await asyncio.sleep(10)
        assert world.probed
    assert world.probed == set()
    asked = len(a.sent)
    await asyncio.sleep(60)
    assert len(a.sent) == asked


async def test_cache_that_goes_back_is_logged_once(a: Apiserver, log: Log) -> None:
    async with probing(FakeWatch(a, late=1.0)):
        for _ in range(10):
            await asyncio.sleep(10)
            a.revision -= 10
    assert [(said["apiserver"], said["resource"]) for said in log.of("cache_went_back")] == [("a", "pods")]
