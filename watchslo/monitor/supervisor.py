"""The daemon's inside: a stream for each watch of the configuration, evaluated every five seconds, always readable."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import random as system_random

import structlog

from watchslo.config import Config, ObjectiveConfig, WatchConfig, format_duration
from watchslo.errors import ConfigError
from watchslo.kube.access import Connection
from watchslo.kube.apiservers import count_apiservers
from watchslo.kube.discovery import Catalogue, Discovery, unproven_storage
from watchslo.kube.limiter import Limiter
from watchslo.latency.bins import LES, Bins
from watchslo.latency.objective import Objective
from watchslo.latency.track import BLOCK_SECONDS, Track
from watchslo.model import Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.crew import Crew
from watchslo.monitor.homes import Homes
from watchslo.monitor.lag import Lag, keep_beating
from watchslo.monitor.stream import Stream
from watchslo.monitor.trouble import Trouble
from watchslo.snapshot import BuildReading, MonitorReading, Snapshot
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure, Reason

SERVICE = "service"  # the apiserver's label: whichever one answers at the address
REFRESH_SECONDS = 180.0  # a new CRD is found within this
SNAPSHOT_SECONDS = 1.0
OVERLOADED_SECONDS = 0.5  # of lag between two evaluations: a tenth of the time, and the SLO is not judged by it
EVENTS = Resource("", "v1", "events", namespaced=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A watch that should run: its configuration and the resource that discovery made of it."""

    watch: WatchConfig
    resource: Resource
    objective: Objective

    def same_stream(self, other: "Wanted") -> bool:
        """Whether both ask the apiserver for the same; only how they are judged may differ."""
        plain = {"objective": ObjectiveConfig()}
        return self.resource == other.resource and self.watch.model_copy(update=plain) == other.watch.model_copy(
            update=plain
        )


class Supervisor:
    """Runs the streams that the configuration asks for against one apiserver.

    `configure` may be called at any time; what a new configuration leaves alone runs on. `snapshot` is cheap when
    asked often.
    """

    def __init__(
        self, config: Config, connection: Connection, build: BuildReading, random: Callable[[], float] = system_random
    ) -> None:
        self.lag = Lag(time.monotonic(), time.thread_time())
        self._config = config
        self._build = build
        self._random = random
        self._limiter = Limiter(config.limits.requests_per_second)
        self._apiserver = Apiserver(SERVICE, connection, self._limiter)
        self._discovery = Discovery(self._apiserver.client)
        self._bins = Bins((*LES, *thresholds(config)))
        self._homes: Homes | None = None
        self._streams: dict[str, tuple[Wanted, Stream]] = {}
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()
        self._started_wall = self._configured_wall = time.time()
        self.reload_succeeded = True
        self._tainted = 0.0
        self._snapshot: Snapshot | None = None
        self._log = structlog.get_logger()
        self._trouble = Trouble(self._log)

    # Running

    async def run(self, stop: asyncio.Event) -> None:
        """Measures until `stop` is set; raises ConfigError if the cluster lacks a resource that is asked for."""
        async with self._apiserver.client, Crew() as self._crew:
            self._crew.hire("heartbeat", partial(keep_beating, self.lag))
            self._crew.hire("evaluation", self._keep_evaluating)
            stopped = asyncio.create_task(stop.wait())
            begun = asyncio.create_task(self._begin())
            try:
                await asyncio.wait({stopped, begun}, return_when=asyncio.FIRST_COMPLETED)
                if begun.done():
                    begun.result()
                await stopped
            finally:
                stopped.cancel()
                begun.cancel()
            await self._shut_down()

    def configure(self, config: Config) -> None:
        """Puts a new configuration in force; raises ConfigError, and keeps the old one, if that needs a restart."""
        new = set(thresholds(config)) - set(self._bins.les)
        if new:
            shown = ", ".join(format_duration(threshold) for threshold in sorted(new))
            raise ConfigError(f"a threshold of {shown} needs a bucket of its own; restart watchslo to use it")
        self._config = config
        self._configured_wall = time.time()
        self._limiter.limit(config.limits.requests_per_second)
        self._changed.set()

    async def _begin(self) -> None:
        """Learns what the cluster has, however long that takes, and starts what is wanted of it."""
        backoff = Backoff(self._random)
        while isinstance(found := await self._discovery.refresh(), Failure):
            self._trouble.happened("discovery_failed", found)
            await asyncio.sleep(backoff.next(time.monotonic(), found.retry_after))
        self._trouble.over()
        _require(self._config, found)
        await self._reconcile(found)
        self._crew.hire("refreshes", self._keep_refreshing)

    async def _keep_refreshing(self) -> None:
        """Follows the configuration at once, and what the cluster serves within minutes."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS * (0.9 + 0.2 * self._random())):
                    await self._changed.wait()
            self._changed.clear()
            if not self._config.paused:
                found = await self._discovery.refresh()
                if isinstance(found, Failure):
                    self._trouble.happened("discovery_failed", found)
                else:
                    self._trouble.over()
            assert self._discovery.catalogue is not None
            await self._reconcile(self._discovery.catalogue)

    async def _shut_down(self) -> None:
        for _, stream in self._streams.values():
            stream.halt(Reason.SHUTDOWN)
        await self._evaluate()

    # Which streams run

    async def _reconcile(self, catalogue: Catalogue) -> None:
        """Ends what is wanted no more, starts what is missing, and touches nothing else."""
        wanted = {} if self._config.paused else self._wanted(catalogue)
        reason = Reason.PAUSED if self._config.paused else Reason.RELOAD
        for label, (running, stream) in list(self._streams.items()):
            if label not in wanted or not wanted[label].same_stream(running):
                await self._end(label, stream, reason)
            elif wanted[label].objective != running.objective:
                self._log.info("objective_changed", watch=label)
                stream.track = self._track(wanted[label])
                self._streams[label] = wanted[label], stream
        if not wanted:
            await self._close_homes()
            return
        await self._look_around()
        homes = self._open_homes(wanted)
        for label in wanted.keys() - self._streams.keys():
            self._start(homes, label, wanted[label])

    def _wanted(self, catalogue: Catalogue) -> dict[str, Wanted]:
        """What should run, by label, up to the limit; what is named goes before what `"*"` stands for."""
        found: dict[str, Wanted] = {}
        for watch in sorted(self._config.watch, key=lambda watch: watch.resource == "*"):
            objective = self._config.objective_of(watch)
            for resource in self._resources(watch, catalogue):
                label = resource.key if watch.resource == "*" else watch.label
                found.setdefault(label, Wanted(watch, resource, objective))
        limit = self._config.limits.watches
        if len(found) > limit:
            self._log.warning("watches_limited", wanted=len(found), limit=limit)
        return dict(itertools.islice(found.items(), limit))

    def _resources(self, watch: WatchConfig, catalogue: Catalogue) -> list[Resource]:
        if watch.resource == "*":
            return catalogue.expand(self._config.exclude)
        try:
            return [catalogue.resolve(watch.resource)]
        except ConfigError as error:
            if "watch" in self._config.model_fields_set:
                self._log.warning("resource_missing", resource=watch.resource, message=str(error))
            return []

    def _start(self, homes: Homes, label: str, wanted: Wanted) -> None:
        stream = Stream(
            number=next(self._numbers),
            label=label,
            watch=wanted.watch,
            resource=wanted.resource,
            apiserver=self._apiserver,
            track=self._track(wanted),
            home=homes.main,
            lag=self.lag,
            random=self._random,
            longest_line=self._config.limits.max_line,
        )
        self._streams[label] = wanted, stream
        homes.admit(stream)
        self._crew.hire(("stream", stream.number), stream.run)

    async def _end(self, label: str, stream: Stream, reason: Reason) -> None:
        assert self._homes is not None
        stream.halt(reason)
        del self._streams[label]
        await self._homes.release(stream)
        await self._crew.dismiss(("stream", stream.number))

    def _track(self, wanted: Wanted) -> Track:
        creation = wanted.watch.measures_creation(wanted.resource)
        return Track(self._bins, wanted.objective, time.monotonic(), creation=creation)

    def _open_homes(self, wanted: dict[str, Wanted]) -> Homes:
        if self._homes is None:
            watched = dict.fromkeys(one.resource for one in wanted.values())
            candidates = sorted(dict.fromkeys((EVENTS, *watched)), key=lambda resource: not resource.namespaced)
            self._homes = Homes(self._apiserver, self._crew, self._config.clock, candidates, self._random)
        return self._homes

    async def _close_homes(self) -> None:
        if self._homes is not None:
            await self._homes.close()
            self._homes = None

    async def _look_around(self) -> None:
        """What may have changed with the apiserver: its version, its storage, how many stand behind the address."""
        version = await self._apiserver.client.version()
        if not isinstance(version, Failure):
            self._apiserver.version = version
            self._apiserver.unproven = unproven_storage(version, self._config.clock.storage)
        self._apiserver.peers = await count_apiservers(self._apiserver.client)

    # What becomes known

    async def _keep_evaluating(self) -> None:
        while True:
            await asyncio.sleep(BLOCK_SECONDS - time.monotonic() % BLOCK_SECONDS)
            await self._evaluate()

    async def _evaluate(self) -> None:
        """Evaluates one track after the other, and lets arrivals through in between."""
        tainted, self._tainted = self._tainted, self.lag.tainted_seconds
        overloaded = self.lag.tainted_seconds - tainted > OVERLOADED_SECONDS
        for _, stream in list(self._streams.values()):
            stream.track.evaluate(time.monotonic(), overloaded=overloaded)
            await asyncio.sleep(0)

    @property
    def starting(self) -> bool:
        """Whether some watch is not open yet, or not yet known to belong to a clock."""
        streams = [stream for _, stream in self._streams.values()]
        return any(self._not_ready()) or any(stream.up and not stream.measured for stream in streams)

    def snapshot(self) -> Snapshot:
        """All readings, at most a second old."""
        now = time.time()
        if self._snapshot is None or not 0 <= now - self._snapshot.at_wall < SNAPSHOT_SECONDS:
            self._snapshot = self._take_snapshot(now)
        return self._snapshot

    def _take_snapshot(self, now_wall: float) -> Snapshot:
        config = self._config
        monitor = MonitorReading(
            build=self._build,
            cluster=config.cluster,
            started_wall=self._started_wall,
            loop_lag=self.lag.reading(),
            tainted_seconds=self.lag.tainted_seconds,
            reload_succeeded=self.reload_succeeded,
            reloaded_wall=self._configured_wall,
            paused=config.paused,
            threshold=config.objective.threshold,
            events_target=config.objective.events.target,
            minutes_target=config.objective.minutes.target,
            not_ready=tuple(self._not_ready()),
        )
        homes = self._homes.timekeepers if self._homes else ()
        return Snapshot(
            at_wall=now_wall,
            monitor=monitor,
            apiservers=(self._apiserver.reading(),),
            domains=tuple(home.reading(SERVICE) for home in homes),
            streams=tuple(stream.reading() for _, stream in self._streams.values()),
        )

    def _not_ready(self) -> Iterator[str]:
        if self._config.paused:
            yield "Watching is paused."
            return
        if self._homes is None:
            latest = self._trouble.latest
            yield f"The cluster is being discovered. {latest.message if latest else ''}".rstrip()
            return
        if self._homes.not_ticking:
            yield f"The revision clock does not tick: {self._homes.not_ticking}"
        for label, (_, stream) in self._streams.items():
            if not stream.started:
                yield f"{label} has not been opened yet: {stream.trouble or stream.state}"


def thresholds(config: Config) -> set[float]:
    """All thresholds of a configuration, in seconds: each is a bucket of every histogram."""
    return {config.objective.threshold, *(config.objective_of(watch).threshold for watch in config.watch)}


def _require(config: Config, catalogue: Catalogue) -> None:
    """Raises ConfigError for what is asked for by name and cannot be watched, if all the cluster's groups answer."""
    if "watch" not in config.model_fields_set or catalogue.stale:
        return
    for place, watch in enumerate(config.watch):
        if watch.resource != "*":
            try:
                catalogue.resolve(watch.resource)
            except ConfigError as error:
                raise ConfigError(f"watch[{place}].resource: {error}") from None
