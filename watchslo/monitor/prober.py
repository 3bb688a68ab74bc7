"""Reads the watch caches of late resources now and then, so that it can be told on which hop they lose their time.

Healthy ones cost nothing: a cache is read while one of its watches is late, and for a minute more, or where the
configuration asks for it. Two are read at a time, within one budget for all.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from watchslo.clock.cache import CacheClock
from watchslo.latency.track import Track
from watchslo.model import Reading, Resource, Source
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.trouble import Trouble
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure

AT_ONCE = 2  # a cause shows at any late resource; read more seldom, none of them would be told apart
TURN_SECONDS = 15.0  # until others have theirs: enough for the shortest window
LINGER_SECONDS = 60.0  # after the need is over: a watch that is late now and then stays comparable
STEP_SECONDS = 1.0  # between two looks at who is late
REFUSED_SECONDS = 300.0  # until a cache that cannot be read is tried again


class Probed(Protocol):
    """What a prober needs of a stream: whether it wants its hops told apart, and where to put the clock for that.

    `cache_clock` is the prober's to set: there while the cache is read, None otherwise. In the namespace `nudged_in`
    the resource can be read. `threshold` is that of its objective, in seconds.
    """

    resource: Resource
    apiserver: Apiserver
    nudged_in: str
    cache_clock: CacheClock | None

    @property
    def track(self) -> Track: ...
    @property
    def threshold(self) -> float: ...
    @property
    def up(self) -> bool: ...
    @property
    def asks_for_hops(self) -> bool: ...
    def needs_hops(self, now: float) -> bool:
        """Whether it is late, or may be without our seeing it."""
        ...


@dataclass(frozen=True, slots=True)
class Want:
    """Why a cache is to be read: a watch of it is late now, by `lateness` thresholds, or the configuration asks."""

    needed: bool = False
    asked: bool = False
    lateness: float = 0.0


class Rota:
    """Chooses which caches are read.

    Needed ones come before those that are merely asked for, the latest first, and one of each apiserver before a second
    of any. Whoever is chosen has a turn; then those go first that have waited for longest.
    """

    def __init__(self) -> None:
        self._needed: dict[Source, float] = {}  # when last
        self._began: dict[Source, float] = {}  # its last turn
        self._chosen: tuple[Source, ...] = ()

    def choose(self, wants: Mapping[Source, Want], now: float) -> tuple[Source, ...]:
        """The caches to be read from now on, of all that can be read."""
        self._needed |= {source: now for source, want in wants.items() if want.needed}
        self._needed = {source: at for source, at in self._needed.items() if now - at < LINGER_SECONDS}
        wanted = [source for source, want in wants.items() if want.asked or source in self._needed]
        ranked = sorted(wanted, key=lambda source: self._rank(source, wants[source], now))
        chosen: list[Source] = []
        while ranked and len(chosen) < AT_ONCE:
            chosen.append(self._next(ranked, chosen))
            ranked.remove(chosen[-1])
        fresh = [source for source in chosen if not self._has_turn(source, now)]
        self._began = {source: at for source, at in self._began.items() if source in wants}
        self._began |= dict.fromkeys(fresh, now)
        self._chosen = tuple(chosen)
        return self._chosen

    def _rank(self, source: Source, want: Want, now: float) -> tuple[bool, bool, float, float, Source]:
        waited_since = self._began.get(source, float("-inf"))
        return source not in self._needed, not self._has_turn(source, now), waited_since, -want.lateness, source

    def _next(self, ranked: list[Source], chosen: list[Source]) -> Source:
        """The first of another apiserver, unless that would prefer one that is asked for to one that is needed."""
        taken = {apiserver for apiserver, _ in chosen}
        is_needed = ranked[0] in self._needed
        elsewhere = (source for source in ranked if source[0] not in taken and (source in self._needed) is is_needed)
        return next(elsewhere, ranked[0])

    def _has_turn(self, source: Source, now: float) -> bool:
        return source in self._chosen and now - self._began[source] < TURN_SECONDS


@dataclass(slots=True)
class _Probe:
    """One cache that is read, as `stream` can read it."""

    stream: Probed
    task: asyncio.Task[None] | None = None
    clock: CacheClock = field(default_factory=CacheClock)


@dataclass(slots=True)
class _Manners:
    """How one apiserver is treated that does not answer as hoped: asked nothing before `until`."""

    backoff: Backoff
    trouble: Trouble
    until: float = 0.0


class Prober:
    """Reads caches for all streams. `budget` says how many reads a second there may be in all; none at zero."""

    def __init__(
        self, streams: Callable[[], Iterable[Probed]], budget: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self._streams = streams
        self._budget = budget
        self._random = random
        self._rota = Rota()
        self._probes: dict[Source, _Probe] = {}
        self._manners: dict[str, _Manners] = {}
        self._refused: dict[Source, float] = {}  # and until when they are left alone
        self._doubted: set[Source] = set()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Probes until cancelled."""
        try:
            async with asyncio.TaskGroup() as probes:
                while True:
                    self._turn(probes)
                    await asyncio.sleep(STEP_SECONDS)
        finally:
            self._probes.clear()
            self._hand_out(self._streams())

    def _turn(self, tasks: asyncio.TaskGroup) -> None:
        """Begins and ends probes, so that those caches are read which most need it."""
        now, streams = time.monotonic(), list(self._streams())
        self._refused = {source: until for source, until in self._refused.items() if now < until}
        readable = [stream for stream in streams if self._readable(stream)]
        chosen = self._rota.choose(_wants(readable, now) if self._budget() else {}, now)
        for source in self._probes.keys() - chosen:
            self._end(source)
        for stream in readable:
            source = _source(stream)
            if source in self._probes:
                self._probes[source].stream = stream
            elif source in chosen:
                self._begin(source, stream, tasks)
        self._hand_out(streams)

    def _readable(self, stream: Probed) -> bool:
        """Whether there is a cache, and no more than one, and it may be read."""
        is_one = (stream.apiserver.peers or 1) == 1 and not stream.apiserver.mixed
        return stream.resource.cached and is_one and stream.up and _source(stream) not in self._refused

    def _begin(self, source: Source, stream: Probed, tasks: asyncio.TaskGroup) -> None:
        probe = self._probes[source] = _Probe(stream)
        probe.task = tasks.create_task(self._probe(source, probe))
        self._log.debug("probe_began", apiserver=source[0], resource=source[1])

    def _end(self, source: Source) -> None:
        task = self._probes.pop(source).task
        assert task is not None
        task.cancel()
        self._log.debug("probe_ended", apiserver=source[0], resource=source[1])

    def _hand_out(self, streams: Iterable[Probed]) -> None:
        for stream in streams:
            probe = self._probes.get(_source(stream))
            stream.cache_clock = probe.clock if probe else None

    async def _probe(self, source: Source, probe: _Probe) -> None:
        """Reads one cache until cancelled or refused; the gaps are random, because writers are periodic."""
        manners = self._manners_towards(source[0])
        while source not in self._refused:
            await asyncio.sleep(manners.until - time.monotonic())
            began, stream = time.monotonic(), probe.stream
            match await stream.apiserver.client.read_cache(stream.resource, stream.nudged_in):
                case Reading() as reading:
                    manners.trouble.over()
                    probe.clock.add(reading)
                    self._doubt(source, probe.clock)
                case failure:
                    self._failed(source, manners, failure)
            gap = len(self._probes) / (self._budget() or 1.0) * (0.5 + self._random())
            await asyncio.sleep(began + gap - time.monotonic())

    def _manners_towards(self, apiserver: str) -> _Manners:
        trouble = Trouble(self._log.bind(apiserver=apiserver))
        return self._manners.setdefault(apiserver, _Manners(Backoff(self._random), trouble))

    def _failed(self, source: Source, manners: _Manners, failure: Failure) -> None:
        now = time.monotonic()
        manners.trouble.happened("probe_failed", failure, on=source[1])
        if failure.action is Action.WAIT:
            self._refused[source] = now + REFUSED_SECONDS
        else:
            manners.until = now + manners.backoff.next(now, failure.retry_after)

    def _doubt(self, source: Source, clock: CacheClock) -> None:
        """Says once of a cache that it seems to be several."""
        if clock.contradictions and source not in self._doubted:
            self._doubted.add(source)
            self._log.warning("cache_went_back", apiserver=source[0], resource=source[1])


def _source(stream: Probed) -> Source:
    return stream.apiserver.name, stream.resource.key


def _wants(streams: Iterable[Probed], now: float) -> dict[Source, Want]:
    """What the streams of each cache want."""
    wants: dict[Source, Want] = {}
    for stream in streams:
        known, needed = wants.get(_source(stream), Want()), stream.needs_hops(now)
        lateness = _lateness(stream) if needed else 0.0
        wants[_source(stream)] = Want(
            known.needed or needed, known.asked or stream.asks_for_hops, max(known.lateness, lateness)
        )
    return wants


def _lateness(stream: Probed) -> float:
    """How late its slowest events of the last seconds are, in thresholds; 0 where there are none."""
    shortest = min(stream.track.reading().windows, key=lambda window: window.length)
    slowest = max((quantile.estimate for quantile in shortest.quantiles), default=0.0)
    return slowest / stream.threshold
