"""Reads watch caches of resources whose events are late, to show on which hop they lose time.

Healthy watches cost nothing: a cache is read while one of its watches is late, and for a minute longer, or if the
configuration asks for it. Two caches are read at a time, within one budget for all.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from watchslo.clock.cache import CacheClock
from watchslo.model import Reading, Source
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.tasks.task_supervisor import keep_running
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure
from watchslo.watch.missing_right import MissingRight

AT_ONCE = 2  # a cause shows at any late resource; with more at a time, reads would be too rare to separate the hops
TURN_SECONDS = 15.0  # for one cache before others have a turn: enough for the shortest window
LINGER_SECONDS = 60.0  # after the need is over, so that an occasionally late watch stays comparable
STEP_SECONDS = 1.0  # between two checks which watches are late
REFUSED_SECONDS = 300.0  # until a cache that cannot be read is tried again


@dataclass(frozen=True, slots=True)
class Want:
    """Why a cache is to be read: a watch of it is late, by `lateness` thresholds, or its hops are asked for anyway."""

    needed: bool = False
    asked: bool = False
    lateness: float = 0.0


class Rota:
    """Chooses which caches are read.

    Caches whose watches are late come before those that are only asked for, the latest first, and one of each apiserver
    before a second of any. A chosen cache keeps its turn; then those that waited longest come first.
    """

    def __init__(self) -> None:
        self._needed: dict[Source, float] = {}  # when it was last needed
        self._began: dict[Source, float] = {}  # when its last turn began
        self._chosen: tuple[Source, ...] = ()

    def choose(self, wants: Mapping[Source, Want], now: float) -> tuple[Source, ...]:
        """Return the caches to read from now on; `wants` has all that can be read."""
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
        """Return the first of another apiserver, unless it is only asked for while another one is needed."""
        taken = {apiserver for apiserver, _ in chosen}
        is_needed = ranked[0] in self._needed
        elsewhere = (source for source in ranked if source[0] not in taken and (source in self._needed) is is_needed)
        return next(elsewhere, ranked[0])

    def _has_turn(self, source: Source, now: float) -> bool:
        return source in self._chosen and now - self._began[source] < TURN_SECONDS


@dataclass(slots=True)
class _Probe:
    """One cache that is read; `watch` gives client and namespace."""

    watch: MonitoredWatch
    task: asyncio.Task[None] | None = None
    clock: CacheClock = field(default_factory=CacheClock)


@dataclass(slots=True)
class _Throttle:
    """How reads of one apiserver are slowed down after failures: it gets none before `until`."""

    backoff: Backoff
    failures: FailureLog
    until: float = 0.0


class CacheProber:
    """Reads the caches of all apiservers.

    It owns the clock of each cache that is read; `clock_of` returns that. `budget` returns how many reads per second it
    may make in total; 0 turns them off. `needs` returns whether a watch is late, or may be late unnoticed, and `asks`
    whether its hops are wanted anyway.
    """

    def __init__(
        self,
        watches: Callable[[], Iterable[MonitoredWatch]],
        budget: Callable[[], float],
        needs: Callable[[MonitoredWatch, float], bool],
        asks: Callable[[MonitoredWatch], bool],
        random: Callable[[], float],
    ) -> None:
        self._watches = watches
        self._budget = budget
        self._needs = needs
        self._asks = asks
        self._random = random
        self._rota = Rota()
        self._probes: dict[Source, _Probe] = {}
        self._throttles: dict[str, _Throttle] = {}
        self._refused: dict[Source, float] = {}  # until when each is not read
        self._rights: dict[Source, MissingRight] = {}  # of the sources whose last read was refused
        self._doubted: set[Source] = set()  # logged as several caches behind one address
        self._log = structlog.get_logger()

    def clock_of(self, source: Source) -> CacheClock | None:
        """Return the clock of a cache; None unless the cache is read at present."""
        probe = self._probes.get(source)
        return probe.clock if probe else None

    async def run(self) -> None:
        """Probe until cancelled."""
        try:
            async with asyncio.TaskGroup() as probes:
                while True:
                    await self._turn(probes)
                    await asyncio.sleep(STEP_SECONDS)
        finally:
            self._probes.clear()

    async def _turn(self, tasks: asyncio.TaskGroup) -> None:
        """Start and end probes, so that the caches that need it most are read; watches are looked at in slices."""
        now, slices, watches = time.monotonic(), WorkSlices(), list(self._watches())
        self._refused = {source: until for source, until in self._refused.items() if now < until}
        self._forget_others(watches)
        is_on, readable, wants = bool(self._budget()), list[MonitoredWatch](), dict[Source, Want]()
        for watch in watches:
            if self._is_readable(watch):
                readable.append(watch)
                if is_on:
                    source = watch.identity.source
                    wants[source] = self._want(watch, wants.get(source, Want()), now)
            await slices.pause()
        chosen = self._rota.choose(wants, now)
        for source in self._probes.keys() - chosen:
            self._end(source)
        for watch in readable:
            source = watch.identity.source
            if source in self._probes:
                self._probes[source].watch = watch
            elif source in chosen:
                self._begin(watch, tasks)

    def _forget_others(self, watches: Iterable[MonitoredWatch]) -> None:
        """Forget the apiservers and caches that have no watch any more."""
        sources = {watch.identity.source for watch in watches}
        apiservers = {apiserver for apiserver, _ in sources}
        self._doubted &= sources
        self._rights = {source: right for source, right in self._rights.items() if source in sources}
        self._throttles = {name: throttle for name, throttle in self._throttles.items() if name in apiservers}

    def _is_readable(self, watch: MonitoredWatch) -> bool:
        """Return True if the watch is open and is known to have exactly one cache, which may be read."""
        identity = watch.identity
        is_one = identity.apiserver.peers == 1 and not identity.apiserver.mixed
        return identity.cached and is_one and watch.session.up and identity.source not in self._refused

    def _want(self, watch: MonitoredWatch, known: Want, now: float) -> Want:
        """Return why a cache is to be read, by this watch of it and by what is known of others."""
        needed, asked = self._needs(watch, now), self._asks(watch)
        if not needed:
            return replace(known, asked=True) if asked else known
        lateness = watch.statistics.slowest / watch.statistics.threshold
        return Want(needed=True, asked=known.asked or asked, lateness=max(known.lateness, lateness))

    def _begin(self, watch: MonitoredWatch, tasks: asyncio.TaskGroup) -> None:
        source = watch.identity.source
        probe = self._probes[source] = _Probe(watch)
        probe.task = tasks.create_task(keep_running(("hops", *source), partial(self._probe, source, probe)))
        self._log.debug("probe_began", apiserver=source[0], resource=source[1])

    def _end(self, source: Source) -> None:
        task = self._probes.pop(source).task
        assert task is not None
        task.cancel()
        self._log.debug("probe_ended", apiserver=source[0], resource=source[1])

    async def _probe(self, source: Source, probe: _Probe) -> None:
        """Read one cache until cancelled or refused; the gaps are random, because writers are periodic."""
        throttle = self._throttle_of(source[0])
        while source not in self._refused:
            await asyncio.sleep(throttle.until - time.monotonic())
            began, identity = time.monotonic(), probe.watch.identity
            match await identity.apiserver.client.read_cache(identity.resource, identity.probed_in):
                case Reading() as reading:
                    throttle.failures.resolve()
                    self._rights.pop(source, None)
                    probe.clock.add(reading)
                    self._doubt(source, probe.clock)
                case failure:
                    self._failed(source, throttle, failure)
            gap = len(self._probes) / (self._budget() or 1.0) * (0.5 + self._random())
            await asyncio.sleep(began + gap - time.monotonic())

    def _throttle_of(self, apiserver: str) -> _Throttle:
        failures = FailureLog(self._log.bind(apiserver=apiserver))
        return self._throttles.setdefault(apiserver, _Throttle(Backoff(self._random), failures))

    def _failed(self, source: Source, throttle: _Throttle, failure: Failure) -> None:
        now = time.monotonic()
        throttle.failures.record("probe_failed", failure, on=source[1])
        if failure.action is Action.WAIT:
            right = self._rights.setdefault(source, MissingRight())
            self._refused[source] = now + right.pause(failure, now, REFUSED_SECONDS)
        else:
            throttle.until = now + throttle.backoff.next(now, failure.retry_after)

    def _doubt(self, source: Source, clock: CacheClock) -> None:
        """Log once that one address seems to lead to several caches."""
        if clock.contradictions and source not in self._doubted:
            self._doubted.add(source)
            self._log.warning("cache_went_back", apiserver=source[0], resource=source[1])
