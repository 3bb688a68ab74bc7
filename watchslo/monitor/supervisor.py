"""The daemon's inside: a stream for each watch of the configuration, evaluated every five seconds, always readable."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import random as system_random

import structlog

from watchslo.config import Config, format_duration
from watchslo.errors import ConfigError
from watchslo.kube.access import Connection
from watchslo.kube.apiservers import count_apiservers
from watchslo.kube.discovery import Catalogue, Discovery, unproven_storage
from watchslo.kube.limiter import Limiter
from watchslo.latency.bins import LES, Bins
from watchslo.latency.track import BLOCK_SECONDS, Track
from watchslo.model import Reading
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.auditor import Auditor
from watchslo.monitor.crew import Crew
from watchslo.monitor.homes import Homes
from watchslo.monitor.lag import Lag, keep_beating
from watchslo.monitor.memory import give_back
from watchslo.monitor.stream import Stream
from watchslo.monitor.trouble import Trouble
from watchslo.monitor.wanted import Plan, Wanted, plan
from watchslo.snapshot import BuildReading, MonitorReading, Snapshot
from watchslo.watch.audit import detection_seconds
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure, Reason

SERVICE = "service"  # the apiserver's label: whichever one answers at the address
REFRESH_SECONDS = 180.0  # a new CRD is found within this
SNAPSHOT_SECONDS = 1.0
ROTATION_SECONDS = 10.0  # over which watches are reopened with new credentials: not all are to be closed at once
OVERLOADED_SECONDS = 0.5  # of lag between two evaluations: a tenth of the time, and the SLO is not judged by it


class Supervisor:
    """Runs the streams that the configuration asks for against one apiserver.

    `configure` may be called at any time; what a new configuration leaves alone runs on. `snapshot` is cheap when
    asked often.
    """

    def __init__(
        self, config: Config, connection: Connection, build: BuildReading, random: Callable[[], float] = system_random
    ) -> None:
        self.lag = Lag(time.monotonic(), time.thread_time())
        self.reload_succeeded = True
        self._config = config
        self._build = build
        self._random = random
        self._limiter = Limiter(config.limits.requests_per_second)
        self._apiserver = Apiserver(SERVICE, connection, self._limiter)
        self._discovery = Discovery(self._apiserver.client)
        self._auditor = Auditor(
            streams=lambda: [stream for _, stream in self._streams.values()],
            apiserver=self._apiserver,
            budget=lambda: self._config.limits.audits_per_second,
            ticks=self._latest_ticks,
            late=self.lag.tainted,
            random=random,
        )
        self._bins = Bins((*LES, *thresholds(config)))
        self._homes: Homes | None = None
        self._streams: dict[str, tuple[Wanted, Stream]] = {}
        self._numbers = itertools.count(1)
        self._plan = Plan()
        self._untried: Config | None = config  # until the cluster has been asked for all of it
        self._changed = asyncio.Event()
        self._outdated = asyncio.Event()
        self._rotated = asyncio.Event()
        connection.on_change(self._rotated.set)
        self._started_wall = self._configured_wall = time.time()
        self._tainted = 0.0
        self._snapshot: Snapshot | None = None
        self._snapshot_taken = 0.0
        self._log = structlog.get_logger()
        self._trouble = Trouble(self._log)

    # Running

    async def run(self, stop: asyncio.Event) -> Snapshot:
        """Measures until `stop` is set, and returns the last readings, from just before the watches are closed.

        Raises ConfigError if the cluster lacks a resource that is asked for.
        """
        async with self._apiserver.client, Crew(stop) as self._crew:
            self._crew.hire("heartbeat", partial(keep_beating, self.lag))
            self._crew.hire("evaluation", self._keep_evaluating)
            self._crew.hire("configuration", self._keep_reconciling)
            self._crew.hire("credentials", self._keep_reopening)
            await stop.wait()
            await self._crew.dismiss("configuration", "discovery", "credentials", "audits")
            self._apiserver.closes.give_up()
            await self._evaluate()
            last = self._take_snapshot()
            for _, stream in self._streams.values():
                stream.halt(Reason.SHUTDOWN)
        return last

    def configure(self, config: Config) -> None:
        """Puts a new configuration in force; raises ConfigError, and keeps the old one, if that needs a restart."""
        new = thresholds(config) - set(self._bins.les)
        if new:
            shown = ", ".join(format_duration(threshold) for threshold in sorted(new))
            raise ConfigError(f"a threshold of {shown} needs a bucket of its own; restart watchslo to use it")
        self._config = config
        self._configured_wall = time.time()
        self._limiter.limit(config.limits.requests_per_second)
        self._changed.set()
        self._outdated.set()

    # What the cluster serves

    async def _keep_discovering(self) -> None:
        """Learns what is served, however long that takes: for each new configuration, and every few minutes."""
        backoff = Backoff(self._random)
        while True:
            self._outdated.clear()
            if failure := await self._look_around():
                self._trouble.happened("discovery_failed", failure)
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
                continue
            self._trouble.over()
            self._changed.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS * (0.9 + 0.2 * self._random())):
                    await self._outdated.wait()

    async def _look_around(self) -> Failure | None:
        """Asks what is served, and by whom: the version, the storage, how many stand behind the address."""
        found = await self._discovery.refresh()
        if isinstance(found, Failure):
            return found
        version = await self._apiserver.client.version()
        if not isinstance(version, Failure):
            self._recognise(version)
        self._apiserver.peers = await count_apiservers(self._apiserver.client)
        return None

    def _recognise(self, version: str) -> None:
        unproven = unproven_storage(version, self._config.clock.storage)
        if unproven != self._apiserver.unproven:
            self._log.warning("storage_unproven", why=unproven)
        self._apiserver.version, self._apiserver.unproven = version, unproven
        self._apiserver.streamed_lists.observe_version(version)

    # Which streams run

    async def _keep_reconciling(self) -> None:
        """Follows the configuration, and what the cluster serves, at once."""
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._reconcile()

    async def _reconcile(self) -> None:
        """Ends what is wanted no more, starts what is missing, and touches nothing else; asks the apiserver nothing."""
        if self._config.paused:
            await self._crew.dismiss("discovery", "audits")
            await self._settle({}, Reason.PAUSED)
            return
        for name, work in (("discovery", self._keep_discovering), ("audits", self._auditor.run)):
            if name not in self._crew:
                self._crew.hire(name, work)
        if catalogue := self._discovery.catalogue:
            last, self._plan = self._plan, plan(self._config, catalogue)
            self._judge(last, catalogue)
            await self._settle(self._plan.watches, Reason.RELOAD)

    def _judge(self, last: Plan, catalogue: Catalogue) -> None:
        """Says what cannot be watched; at start that is refused, if all the cluster's groups answer."""
        if self._plan.missing and self._config is self._untried and not catalogue.stale:
            raise ConfigError(self._plan.missing[0])
        self._untried = None
        for message in self._plan.missing:
            if message not in last.missing:
                self._log.warning("resource_missing", message=message)
        if self._plan.left_out != last.left_out:
            self._log.warning("watches_limited", left_out=self._plan.left_out)

    async def _settle(self, wanted: Mapping[str, Wanted], reason: Reason) -> None:
        for label, (running, stream) in list(self._streams.items()):
            if label not in wanted or not wanted[label].same_stream(running):
                await self._end(label, stream, reason)
            elif wanted[label].objective != running.objective:
                self._log.info("objective_changed", watch=label)
                stream.track = self._track(wanted[label])
                self._streams[label] = wanted[label], stream
        if self._homes and not wanted:
            await self._homes.close()
            self._homes = None
        for label in wanted:
            if label not in self._streams:
                self._start(label, wanted[label])

    def _start(self, label: str, wanted: Wanted) -> None:
        if self._homes is None:
            self._homes = Homes(self._apiserver, self._crew, self._config.clock, self._random)
        stream = Stream(
            number=next(self._numbers),
            label=label,
            watch=wanted.watch,
            resource=wanted.resource,
            apiserver=self._apiserver,
            track=self._track(wanted),
            home=self._homes.main,
            lag=self.lag,
            random=self._random,
            longest_line=wanted.longest_line,
            nudged_in=wanted.watch.namespace or self._config.clock.namespace,
        )
        self._streams[label] = wanted, stream
        self._homes.admit(stream)
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

    async def _keep_reopening(self) -> None:
        """Reopens every watch when the credentials have changed: some apiservers end those that began with old ones."""
        while True:
            await self._rotated.wait()
            self._rotated.clear()
            self._log.info("credentials_changed")
            streams = [stream for _, stream in self._streams.values()]
            for stream in streams:
                stream.reopen(Reason.ROTATED)
                await asyncio.sleep(2 * self._random() * ROTATION_SECONDS / len(streams))

    # What becomes known

    async def _keep_evaluating(self) -> None:
        while True:
            await asyncio.sleep(BLOCK_SECONDS - time.monotonic() % BLOCK_SECONDS)
            await self._evaluate()
            give_back()

    async def _evaluate(self) -> None:
        """Evaluates one track after the other, and lets arrivals through in between."""
        self._apiserver.closes.settle(time.monotonic())
        tainted, self._tainted = self._tainted, self.lag.tainted_seconds
        overloaded = self._tainted - tainted > OVERLOADED_SECONDS
        for _, stream in list(self._streams.values()):
            stream.evaluate(time.monotonic(), overloaded=overloaded)
            await asyncio.sleep(0)
        self._snapshot = None

    @property
    def starting(self) -> bool:
        """Whether some watch is not open yet, or not yet known to belong to a clock."""
        streams = [stream for _, stream in self._streams.values()]
        return any(self._not_ready()) or any(stream.up and not stream.measured for stream in streams)

    def snapshot(self) -> Snapshot:
        """All readings: of the last evaluation, or at most a second old."""
        now = time.monotonic()
        if self._snapshot is None or now - self._snapshot_taken >= SNAPSHOT_SECONDS:
            self._snapshot, self._snapshot_taken = self._take_snapshot(), now
        return self._snapshot

    def _latest_ticks(self) -> list[Reading]:
        homes = self._homes.timekeepers if self._homes else ()
        return [home.domain.clock.latest for home in homes if home.domain.clock.latest]

    def _take_snapshot(self) -> Snapshot:
        homes = self._homes.timekeepers if self._homes else ()
        return Snapshot(
            at_wall=time.time(),
            monitor=self._read_monitor(),
            apiservers=(self._apiserver.reading(),),
            domains=tuple(home.reading(SERVICE) for home in homes),
            streams=tuple(stream.reading() for _, stream in self._streams.values()),
        )

    def _read_monitor(self) -> MonitorReading:
        config = self._config
        return MonitorReading(
            build=self._build,
            cluster=config.cluster,
            started_wall=self._started_wall,
            loop_lag=self.lag.reading(),
            tainted_seconds=self.lag.tainted_seconds,
            reload_succeeded=self.reload_succeeded,
            reloaded_wall=self._configured_wall,
            paused=config.paused,
            stall_detection=detection_seconds(self._auditor.quiet, config.limits.audits_per_second),
            threshold=config.objective.threshold,
            events_target=config.objective.events.target,
            minutes_target=config.objective.minutes.target,
            not_ready=tuple(self._not_ready()),
        )

    def _not_ready(self) -> Iterator[str]:
        if self._config.paused:
            yield "Watching is paused."
        elif self._discovery.catalogue is None or self._untried is not None:
            why = self._trouble.now
            yield f"The cluster is being discovered. {why.message if why else ''}".rstrip()
        elif self._homes is None:
            yield "The cluster serves nothing of what is configured."
        else:
            yield from self._not_running(self._homes)

    def _not_running(self, homes: Homes) -> Iterator[str]:
        if homes.not_ticking:
            yield f"The revision clock does not tick: {homes.not_ticking}"
        for label, (_, stream) in self._streams.items():
            if not stream.started:
                yield f"{label} has not been opened yet: {stream.trouble or stream.state}"


def thresholds(config: Config) -> set[float]:
    """All thresholds of a configuration, in seconds: each is a bucket of every histogram."""
    return {config.objective.threshold, *(config.objective_of(watch).threshold for watch in config.watch)}
