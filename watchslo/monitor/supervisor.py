"""The daemon's inside: a stream for each watch of the configuration, evaluated every five seconds, always readable."""

import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from random import random as system_random
from typing import NamedTuple

import structlog

from watchslo.config import Config, format_duration
from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.errors import ConfigError
from watchslo.history.judgement import placed
from watchslo.kube.access import Connection
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.kube.reviews import Review, review
from watchslo.latency.bins import LES, Bins
from watchslo.latency.distribution import BLOCK_SECONDS
from watchslo.latency.track import Track
from watchslo.model import Reading
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.auditor import Auditor
from watchslo.monitor.crew import Crew
from watchslo.monitor.fleet import Fleet
from watchslo.monitor.historian import Historian
from watchslo.monitor.homes import Homes
from watchslo.monitor.lag import Lag, keep_beating
from watchslo.monitor.memory import give_back
from watchslo.monitor.prober import Prober
from watchslo.monitor.stream import Stream
from watchslo.monitor.trouble import Trouble
from watchslo.monitor.wanted import Plan, Wanted, plan
from watchslo.snapshot import BuildReading, CauseReading, MonitorReading, ShardReading, Snapshot
from watchslo.watch.audit import detection_seconds
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import CloseClass, Failure, Reason, because

Key = tuple[str, str]  # of a stream: its apiserver's name, and its label

REFRESH_SECONDS = 180.0  # a new CRD is found within this
SELDOM_SECONDS = 1800.0  # the same where there may be an instance on each of thousands of nodes
SNAPSHOT_SECONDS = 1.0
ROTATION_SECONDS = 10.0  # over which watches are reopened with new credentials: not all are to be closed at once
HISTORY_SHARE = 0.1  # of all probes: they are needed seldom
EARLY_SECONDS = 0.01  # timers are rounded: what wakes so little before an evaluation is due is not to make it twice
OVERLOADED_SECONDS = 0.5  # of lag between two evaluations: a tenth of the time, and the SLO is not judged by it


class Supervisor:
    """Runs the streams that the configuration asks for, against every apiserver of the fleet.

    `configure` may be called at any time; what a new configuration leaves alone runs on. `snapshot` is cheap when
    asked often. Nothing is asked before `delay` seconds have passed, so that many of us need not begin together.
    """

    def __init__(
        self,
        config: Config,
        connection: Connection,
        build: BuildReading,
        random: Callable[[], float] = system_random,
        *,
        delay: float = 0.0,
    ) -> None:
        self.lag = Lag(time.monotonic(), time.thread_time())
        self.reload_succeeded = True
        self._config = config
        self._build = build
        self._random = random
        self._limiter = Limiter(config.limits.requests_per_second)
        self._refresh = REFRESH_SECONDS if config.judges_quantiles else SELDOM_SECONDS
        self._changed = asyncio.Event()
        self._fleet = Fleet(
            config.kubernetes, config.clock.storage, connection, self._limiter, random, self._changed.set, self._refresh
        )
        self._discovery = Discovery(lambda: self._fleet.front.client)
        self._prober = Prober(self._all_streams, lambda: self._probes(1.0 - HISTORY_SHARE), random)
        self._diagnosis = Diagnosis()
        self._causes: tuple[CauseReading, ...] = ()
        self._bins = Bins((*LES, *thresholds(config)))
        self._homes: Homes | None = None
        self._served: dict[str, Apiserver] = {}
        self._auditors: dict[str, Auditor] = {}
        self._streams: dict[Key, tuple[Wanted, Stream]] = {}
        self._numbers = itertools.count(1)
        self._plan = Plan()
        self._untried: Config | None = config  # until the cluster has been asked for all of it
        self._outdated = asyncio.Event()
        self._rotated = asyncio.Event()
        connection.on_change(self._rotated.set)
        self._started_wall = self._configured_wall = time.time()
        self._delay = delay
        self._begins = 0.0
        self._tainted = 0.0
        self._snapshot: Snapshot | None = None
        self._snapshot_taken = 0.0
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._log = structlog.get_logger()
        self._trouble = Trouble(self._log)

    # Running

    async def run(self, stop: asyncio.Event) -> Snapshot:
        """Measures until `stop` is set, and returns the last readings, from just before the watches are closed.

        Raises ConfigError if the cluster lacks a resource that is asked for.
        """
        self._begins = time.monotonic() + self._delay
        async with self._fleet.opened(), Crew(stop) as self._crew:
            self._crew.hire("heartbeat", partial(keep_beating, self.lag))
            self._crew.hire("evaluation", self._keep_evaluating)
            self._crew.hire("configuration", self._keep_reconciling)
            self._crew.hire("credentials", self._keep_reopening)
            await stop.wait()
            await self._crew.dismiss("configuration", "credentials", *self._asking())
            for apiserver in self._fleet.all:
                apiserver.closes.give_up()
            await self._evaluate()
            last = self._take_snapshot()
            for _, stream in self._streams.values():
                stream.halt(Reason.SHUTDOWN)
        return last

    def on_evaluation(self, listen: Callable[[Snapshot], None]) -> None:
        """Hands each new evaluation's snapshot to `listen`, which is not to hold up the loop."""
        self._listeners.append(listen)

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

    async def review(self, token: str, path: str) -> Review | Failure:
        """Whether the bearer of a token may read a path of ours, as an apiserver says; paused or not."""
        if not self._fleet.is_open:
            return because(Reason.UNREACHABLE)
        answer = await review(self._fleet.front.client, token, path)
        if isinstance(answer, Failure) and answer.closed is CloseClass.NETWORK:
            self._fleet.pass_on()
        return answer

    # What the cluster serves

    async def _keep_discovering(self) -> None:
        """Learns what is served, however long that takes: for each new configuration, and every now and then."""
        backoff = Backoff(self._random)
        await self._fleet.settled.wait()
        while True:
            self._outdated.clear()
            if failure := await self._look_around():
                self._trouble.happened("discovery_failed", failure)
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
                continue
            self._trouble.over()
            self._changed.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._refresh * (0.9 + 0.2 * self._random())):
                    await self._outdated.wait()

    async def _look_around(self) -> Failure | None:
        """Asks what is served, and each apiserver what it is."""
        found = await self._discovery.refresh()
        if isinstance(found, Failure):
            self._fleet.pass_on()
            return found
        await self._fleet.look()
        return None

    # Which streams run

    async def _keep_reconciling(self) -> None:
        """Follows the configuration, and what the cluster serves, at once; it is what everything asked begins with."""
        if self._begins_in > 0.0:
            self._log.info("start_delayed", seconds=round(self._begins_in, 3))
        await asyncio.sleep(self._begins_in)
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._reconcile()

    @property
    def _begins_in(self) -> float:
        return max(0.0, self._begins - time.monotonic())

    async def _reconcile(self) -> None:
        """Ends what is wanted no more, starts what is missing, and touches nothing else; asks the apiserver nothing."""
        if self._config.paused:
            await self._crew.dismiss(*self._asking())
            await self._settle({}, {}, Reason.PAUSED)
            for apiserver in self._fleet.all:
                apiserver.client.hang_up()
            return
        works = {"apiservers": self._fleet.run, "discovery": self._keep_discovering}
        works |= {"hops": self._prober.run} if self._config.judges_quantiles else {}
        for name, work in works.items():
            if name not in self._crew:
                self._crew.hire(name, work)
        if catalogue := self._discovery.catalogue:
            members = dict(self._fleet.members)
            last, self._plan = self._plan, plan(self._config, catalogue, len(members))
            self._judge(last, catalogue)
            await self._settle(self._plan.watches, members if self._plan.watches else {}, Reason.RELOAD)

    def _asking(self) -> list[Hashable]:
        """All work that asks apiservers anything of its own accord, but for streams and ticks."""
        each = ((work, name) for name in self._served for work in ("audits", "history"))
        return ["apiservers", "discovery", "hops", *each]

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
        ours, elsewhere = self._plan.watches, self._plan.elsewhere
        if (ours.keys(), elsewhere) != (last.watches.keys(), last.elsewhere) and (elsewhere or last.elsewhere):
            shard = self._config.shard
            self._log.info("sharded", index=shard.index, count=shard.count, watches=len(ours), elsewhere=elsewhere)

    async def _settle(self, wanted: Mapping[str, Wanted], members: Mapping[str, Apiserver], reason: Reason) -> None:
        await self._retire(wanted, members, reason)
        if members and self._homes is None:
            self._homes = Homes(self._crew, self._config.clock, self._bins, self._random)
        for name, apiserver in list(self._served.items()):
            if members.get(name) is not apiserver:
                await self._leave(apiserver)
        for name, apiserver in members.items():
            if name not in self._served:
                self._serve(apiserver)
        if self._homes and not members:
            await self._homes.close()
            self._homes = None
        for label in wanted:
            for name, apiserver in members.items():
                if (name, label) not in self._streams:
                    self._start(apiserver, label, wanted[label])

    async def _retire(self, wanted: Mapping[str, Wanted], members: Mapping[str, Apiserver], reason: Reason) -> None:
        """Ends the streams that are wanted no more; one that is to be judged anew goes on."""
        for (name, label), (running, stream) in list(self._streams.items()):
            same = name in members and label in wanted and wanted[label].same_stream(running)
            if not same or stream.apiserver is not members[name]:
                await self._end(stream, reason)
                continue
            if wanted[label].objective != running.objective:
                self._log.info("objective_changed", watch=label, apiserver=name)
                stream.track = self._track(wanted[label])
            stream.asks_for_hops = wanted[label].watch.hops
            self._streams[name, label] = wanted[label], stream

    def _serve(self, apiserver: Apiserver) -> None:
        """Begins to ask an apiserver: ticks, audits, and how far back a watch of it may begin."""
        assert self._homes is not None
        self._served[apiserver.name] = apiserver
        self._homes.join(apiserver)
        streams = partial(self._streams_of, apiserver.name)
        auditor = self._auditors[apiserver.name] = Auditor(
            streams=streams,
            apiserver=apiserver,
            budget=lambda: self._config.limits.audits_per_second / len(self._served),
            ticks=self._latest_ticks,
            late=self.lag.tainted,
            random=self._random,
        )
        self._crew.hire(("audits", apiserver.name), auditor.run)
        if self._config.judges_quantiles:
            historian = Historian(streams, apiserver, self._history_probes, self._random)
            self._crew.hire(("history", apiserver.name), historian.run)

    async def _leave(self, apiserver: Apiserver) -> None:
        """Asks an apiserver no more."""
        assert self._homes is not None
        await self._crew.dismiss(("audits", apiserver.name), ("history", apiserver.name))
        await self._homes.leave(apiserver)
        del self._served[apiserver.name], self._auditors[apiserver.name]
        await self._fleet.dismiss(apiserver)

    def _start(self, apiserver: Apiserver, label: str, wanted: Wanted) -> None:
        assert self._homes is not None
        stream = Stream(
            number=next(self._numbers),
            label=label,
            watch=wanted.watch,
            resource=wanted.resource,
            apiserver=apiserver,
            creators=lambda: self._fleet.creators,
            track=self._track(wanted),
            home=self._homes.main,
            lag=self.lag,
            random=self._random,
            longest_line=wanted.longest_line,
            nudged_in=wanted.watch.namespace or self._config.clock.namespace,
        )
        self._streams[apiserver.name, label] = wanted, stream
        self._homes.admit(stream)
        self._crew.hire(("stream", stream.number), stream.run)

    async def _end(self, stream: Stream, reason: Reason) -> None:
        assert self._homes is not None
        stream.halt(reason)
        del self._streams[stream.apiserver.name, stream.label]
        await self._homes.release(stream)
        await self._crew.dismiss(("stream", stream.number))

    def _probes(self, share: float) -> float:
        """How many probes a second somebody may make who has that share of them."""
        return share * self._config.limits.probes_per_second

    def _history_probes(self) -> float:
        """How many of them a second are for the history of one apiserver."""
        return self._probes(HISTORY_SHARE) / len(self._served)

    def _all_streams(self) -> list[Stream]:
        return [stream for _, stream in self._streams.values()]

    def _streams_of(self, apiserver: str) -> list[Stream]:
        return [stream for stream in self._all_streams() if stream.apiserver.name == apiserver]

    def _track(self, wanted: Wanted) -> Track:
        creation = wanted.watch.measures_creation(wanted.resource)
        return Track(
            self._bins, wanted.objective, time.monotonic(), creation=creation, quantiles=self._config.judges_quantiles
        )

    async def _keep_reopening(self) -> None:
        """Reopens every watch when the credentials have changed: some apiservers end those that began with old ones."""
        while True:
            await self._rotated.wait()
            self._rotated.clear()
            self._log.info("credentials_changed")
            streams = self._all_streams()
            for stream in streams:
                stream.reopen(Reason.ROTATED)
                await asyncio.sleep(2 * self._random() * ROTATION_SECONDS / len(streams))

    # What becomes known

    async def _keep_evaluating(self) -> None:
        while True:
            reached = time.monotonic() + EARLY_SECONDS
            await asyncio.sleep(BLOCK_SECONDS - reached % BLOCK_SECONDS + EARLY_SECONDS)
            await self._evaluate()
            give_back()

    async def _evaluate(self) -> None:
        """Evaluates one track after the other, and lets arrivals through in between; then says why they are late."""
        for apiserver in self._fleet.all:
            apiserver.closes.settle(time.monotonic())
        self._compare()
        tainted, self._tainted = self._tainted, self.lag.tainted_seconds
        overloaded = self._tainted - tainted > OVERLOADED_SECONDS
        for stream in self._all_streams():
            stream.evaluate(time.monotonic(), overloaded=overloaded)
            await asyncio.sleep(0)
        for home in self._homes.timekeepers if self._homes else ():
            home.evaluate(time.monotonic())
        self._diagnose()
        self._snapshot = None
        for listen in self._listeners:
            listen(self.snapshot())

    def _compare(self) -> None:
        """Holds the watches of one resource, at all apiservers, against each other and against the caches.

        Only those whose revisions are of one sequence can be compared.
        """
        now, together = time.monotonic(), defaultdict(list)
        for (_, label), (_, stream) in self._streams.items():
            together[(label, stream.home) if stream.measured else stream].append(stream)
        for streams in together.values():
            known = {revision for stream in streams for _, revision in stream.recent}
            for stream in streams:
                stream.compare([peer for peer in streams if peer is not stream], now)
                stream.look_behind(known, now)

    def _diagnose(self) -> None:
        """Says which causes begin and end."""
        before = {_subject(cause): cause for cause in self._causes}
        self._causes = self._diagnosis.observe(self._take_snapshot(), time.monotonic())
        now = {_subject(cause): cause for cause in self._causes}
        for subject, cause in now.items():
            if subject not in before:
                self._log.warning(
                    "cause_began", **subject._asdict(), confidence=cause.confidence.value, evidence=cause.evidence
                )
        for subject, cause in before.items():
            if subject not in now:
                lasted = round(time.time() - cause.since_wall, 3)
                self._log.info("cause_ended", **subject._asdict(), after_s=lasted)

    @property
    def starting(self) -> bool:
        """Whether some watch is not open yet, or not yet known to belong to a clock."""
        streams = self._all_streams()
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
        compared = self._homes.main.comparison if self._homes and self._config.judges_quantiles else lambda _: None
        return Snapshot(
            at_wall=time.time(),
            monitor=self._read_monitor(),
            apiservers=tuple(
                apiserver.reading(compared(apiserver.name), watched=apiserver.name in self._fleet.members)
                for apiserver in self._fleet.all
            ),
            domains=tuple(home.reading() for home in homes),
            streams=tuple(stream.reading() for stream in self._all_streams()),
            causes=self._causes,
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
            stall_detection=self._detection_seconds(),
            threshold=config.objective.threshold,
            events_target=config.objective.events.target,
            minutes_target=config.objective.minutes.target,
            not_ready=tuple(self._not_ready()),
            shard=ShardReading(config.shard.index, config.shard.count, self._plan.elsewhere),
        )

    def _detection_seconds(self) -> float | None:
        """That of the apiserver with the most quiet streams."""
        quiet = max((auditor.quiet for auditor in self._auditors.values()), default=0)
        return detection_seconds(quiet, self._config.limits.audits_per_second / max(1, len(self._auditors)))

    def _not_ready(self) -> Iterator[str]:
        if self._config.paused:
            yield "Watching is paused."
        elif self._begins_in > 0.0:
            yield f"The first request waits for {self._begins_in:.0f} s more, as `startDelay` says."
        elif self._discovery.catalogue is None or self._untried is not None:
            why = self._trouble.now
            yield f"The cluster is being discovered. {why.message if why else ''}".rstrip()
        elif self._homes is None:
            if not self._plan.elsewhere:  # else the other shards have all there is
                yield "The cluster serves nothing of what is configured."
        else:
            yield from self._not_running(self._homes)

    def _not_running(self, homes: Homes) -> Iterator[str]:
        if homes.not_ticking:
            yield f"The revision clock does not tick: {homes.not_ticking}"
        opened = {label for (_, label), (_, stream) in self._streams.items() if stream.started}
        for (name, label), (_, stream) in self._streams.items():
            if not stream.started and not (stream.trouble and label in opened):  # another apiserver has it
                yield f"{placed(label, name)} has not been opened yet: {stream.trouble or stream.state}"


class _Subject(NamedTuple):
    """What a cause is about; None stands for all."""

    cause: str
    apiserver: str | None
    watch: str | None


def _subject(cause: CauseReading) -> _Subject:
    return _Subject(cause.cause.value, cause.apiserver, cause.watch)


def thresholds(config: Config) -> set[float]:
    """All thresholds of a configuration, in seconds: each is a bucket of every histogram."""
    return {config.objective.threshold, *(config.objective_of(watch).threshold for watch in config.watch)}
