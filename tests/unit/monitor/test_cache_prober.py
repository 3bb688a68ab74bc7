"""Which caches are read, and how: the choice by table, the reads on a loop whose time jumps."""

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import calls, replay
from tests.unit.monitor.cluster import NODES, PODS, RESOURCES, Log
from tests.unit.monitor.scene import CallScene, Play
from watchslo.clock.cache import CacheClock
from watchslo.kube.client import CLOSED
from watchslo.latency.bins import Bins
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.track import Track
from watchslo.model import Reading, Resource
from watchslo.monitor.checks.cache_prober import (
    REFUSED_SECONDS,
    TURN_SECONDS,
    CacheProber,
    Rota,
    Want,
)
from watchslo.monitor.tasks.task_supervisor import RESTART_SECONDS
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.watch.failure import Failure, Phase, Reason, because

BUDGET = 5.0


def test_rota_gives_each_cache_a_turn() -> None:
    rota, turns = (
        Rota(),
        dict.fromkeys((("a", "pods"), ("a", "nodes"), ("a", "leases"), ("b", "pods"), ("b", "nodes")), 0),
    )
    wants = {source: Want(needed=True, lateness=number) for number, source in enumerate(turns)}
    for second in range(10 * round(TURN_SECONDS)):
        for source in rota.choose(wants, 1000.0 + second):
            turns[source] += 1
    assert set(turns.values()) <= {round(count * TURN_SECONDS) for count in (3, 4, 5, 6)}
    assert sum(turns.values()) == 20 * TURN_SECONDS


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
        self.watches = list(streams)
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
        for stream in self.watches:
            stream.prober = self.prober
        return self.watches

    @property
    def probed(self) -> set[tuple[str, str]]:
        return {(stream.apiserver.name, stream.resource.key) for stream in self.watches if stream.probed}


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


class CacheScene(CallScene):
    """Caches that are read; a transcript begins with watches as `a/pods=1.5`: apiserver, resource and lateness."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self._apiservers: dict[str, Apiserver] = {}
        self._streams = [self._watch(*re.split("[/=]", word)) for word in beginning.split()]
        self._world = World(*self._streams)
        self._read: Counter[str] = Counter()

    def _watch(self, apiserver: str, key: str, late: str) -> FakeWatch:
        of = self._apiservers.setdefault(apiserver, Apiserver(apiserver))
        return FakeWatch(of, RESOURCES[key], float(late))

    async def _run(self) -> None:
        await self._world.prober.run()

    def apiserver(self, name: str, fact: str, value: Any) -> None:
        setattr(self._apiservers[name], fact, value)

    def watch(self, number: int, fact: str, value: Any) -> None:
        setattr(self._streams[number - 1], fact, value)

    def asks(self, number: int, *, hops: bool) -> None:
        self._streams[number - 1].desired.watch.hops = hops

    def fail(self, name: str, key: str, reason: str, after: float | None = None) -> None:
        self._apiservers[name].fail(RESOURCES[key], Reason(reason), after)

    def leave(self, name: str) -> None:
        """Close the client of an apiserver."""
        self._apiservers[name].failures["pods"] = CLOSED

    def allow(self, name: str) -> None:
        self._apiservers[name].failures.clear()

    def remove(self, number: int) -> None:
        self._world.watches.remove(self._streams[number - 1])

    def budget(self, reads: float) -> None:
        self._world.budget = reads

    def reads(self) -> str:
        """Return how often each cache was read since the last look, and how far apart."""
        said = []
        for apiserver in self._apiservers.values():
            for key in RESOURCES:
                name, times = f"{apiserver.name}/{key}", [sent for sent, of in apiserver.sent if of == key]
                times, self._read[name] = times[self._read[name] :], len(times)
                apart = gaps(times)
                how = f", {min(apart):.1f} to {max(apart):.1f} s apart" if apart else ""
                said += [f"{name} {len(times)}{how}"] if times else []
        return "\n".join(said) or "none"

    def _state(self) -> dict[str, str]:
        return {"probed": " ".join(sorted(map("/".join, self._world.probed))) or "nothing"}


class Choices(Rota):
    """A rota that is driven by text; a need is written as `a/pods:1`, a configured one as `a/pods:?`, both as `1?`."""

    def afresh(self, *wants: str) -> str:
        """Return the caches that a rota chooses first."""
        return Choices().at(0.0, *wants)

    def at(self, seconds: float, *wants: str) -> str:
        """Return the caches that are chosen, in order."""
        made = {}
        for name, key, need in (re.split("[/:]", want) for want in wants):
            late = need.removesuffix("?")
            made[name, key] = Want(needed=bool(late), asked=need.endswith("?"), lateness=float(late or 0.0))
        return " ".join(map("/".join, self.choose(made, 1000.0 + seconds))) or "none"


def test_prober_does_what_its_transcripts_say(play: Play) -> None:
    play("caches.txt", CacheScene)


def test_rota_does_what_its_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("cache-rota.txt", replay((GOLDEN / "cache-rota.txt").read_text(), lambda _: calls(Choices())))


async def test_nothing_is_kept_of_caches_and_apiservers_without_watches(a: Apiserver) -> None:
    """Each cache goes back once, as if several were behind one address, and then cannot be read."""
    async with probing(FakeWatch(a, asks=True)) as world:
        for number in range(100):
            gone = Apiserver(f"gone-{number}")
            world.watches[1:] = [FakeWatch(gone, late=1.0)]
            await asyncio.sleep(3)
            gone.revision = 1
            await asyncio.sleep(2)
            gone.fail(PODS, Reason.FORBIDDEN)
            await asyncio.sleep(2)
            assert gone.sent
            assert (f"gone-{number}", "pods") in world.prober._doubted
        world.watches[1:] = []
        await asyncio.sleep(REFUSED_SECONDS)
        assert not world.prober._doubted
        assert not world.prober._refused
        assert [*world.prober._throttles] == ["a"]
        assert world.prober._probes.keys() == world.prober._rota._needed.keys() | world.prober._rota._began.keys()


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


async def test_cancelled_prober_leaves_no_probe(a: Apiserver) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        await asyncio.sleep(10)
        assert world.probed
    assert world.probed == set()
    asked = len(a.sent)
    await asyncio.sleep(60)
    assert len(a.sent) == asked


async def test_probe_continues_through_the_replacing_watch(a: Apiserver) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        await asyncio.sleep(10)
        renewed = Apiserver("a")
        world.watches = [FakeWatch(renewed, late=1.0)]
        await asyncio.sleep(10)
        assert renewed.count(PODS) > 40
        assert world.watches[0].probed


@pytest.mark.parametrize(("random", "gap"), [(0.0, 0.1), (0.5, 0.2), (1.0, 0.3)])
async def test_cache_of_late_watch_is_read_within_the_budget(a: Apiserver, random: float, gap: float) -> None:
    async with probing(FakeWatch(a, late=1.0)) as world:
        world.random = random
        await asyncio.sleep(60)
        assert gaps(sent for sent, _ in a.sent[1:]) == {gap}
