"""Builds the readings of a snapshot from the state of the parts; it changes none of them."""

import math
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from watchslo.config.model import Config
from watchslo.diagnose.breakdown import break_down
from watchslo.latency.compared import Comparison
from watchslo.latency.estimate import MINUTE_SECONDS, P99
from watchslo.model import InstanceName
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.clocks.ticker import Ticker
from watchslo.monitor.readiness import Readiness
from watchslo.monitor.reconciler import Reconciler
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.watch_set import WatchSet
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.reaction.resource_reactions import CacheProof
from watchslo.snapshot import (
    ApiserverReading,
    ApiserverRole,
    AuditReading,
    BuildReading,
    CacheReading,
    CauseReading,
    DomainReading,
    GapReading,
    HeadroomReading,
    MonitorReading,
    ReadUse,
    ReceivedReading,
    SessionReading,
    ShardReading,
    Snapshot,
    TickerReading,
    WatchReading,
)
from watchslo.watch.audit import detection_seconds
from watchslo.watch.failure import UNUSABLE


class SnapshotBuilder:
    """Reads all parts of the monitor; `reload_succeeded` returns whether the last reload of the configuration did."""

    def __init__(
        self,
        build: BuildReading,
        apiservers: ApiserverSet,
        watches: WatchSet,
        reconciler: Reconciler,
        readiness: Readiness,
        lag: Lag,
        reload_succeeded: Callable[[], bool],
    ) -> None:
        self._build = build
        self._apiservers = apiservers
        self._watches = watches
        self._reconciler = reconciler
        self._readiness = readiness
        self._lag = lag
        self._reload_succeeded = reload_succeeded
        self._started_wall = time.time()
        self._host = socket.gethostname()

    async def take(self, causes: tuple[CauseReading, ...]) -> Snapshot:
        """Return all readings of this moment, with these causes; watches are read in slices."""
        slices, watches = WorkSlices(), []
        for watch in self._watches.all:
            if self._watches.runs(watch):  # it may have ended during a pause
                watches.append(read_watch(watch, self._watches))
            await slices.pause()
        return Snapshot(
            at_wall=time.time(),
            monitor=self._read_monitor(),
            apiservers=self._read_apiservers(),
            domains=self._read_domains(),
            watches=tuple(watches),
            causes=causes,
            reactions=tuple(self._watches.reactions.readings(self._cache_proof)),
            clients=tuple(self._watches.informers.readings()),
        )

    def _cache_proof(self, watch: MonitoredWatch) -> CacheProof | None:
        """Return up to when the cache behind a watch was complete; None if the watch may withhold events."""
        if not self._watches.is_current(watch):
            return None
        at = self._watches.health(watch).proven.at
        return CacheProof(-math.inf if at is None else at, watch.session.newest_event or 0)

    def refresh(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with new readings of all but the watches, which are many."""
        return replace(
            snapshot,
            monitor=self._read_monitor(),
            apiservers=self._read_apiservers(),
            domains=self._read_domains(),
        )

    def _read_apiservers(self) -> tuple[ApiserverReading, ...]:
        return tuple(self._read_apiserver(apiserver) for apiserver in self._apiservers.all)

    def _read_domains(self) -> tuple[DomainReading, ...]:
        return tuple(read_clock(clock) for clock in self._watches.clocks)

    def _read_monitor(self) -> MonitorReading:
        config = self._reconciler.config
        auditors = self._watches.auditors
        quiet = max((auditor.quiet for auditor in auditors), default=0)
        return MonitorReading(
            build=self._build,
            cluster=config.cluster,
            started_wall=self._started_wall,
            loop_lag=self._lag.reading(),
            tainted_seconds=self._lag.tainted_seconds,
            reload_succeeded=self._reload_succeeded(),
            reloaded_wall=self._reconciler.configured_wall,
            paused=config.paused,
            stall_detection=detection_seconds(quiet, config.limits.audits_per_second / max(1, len(auditors))),
            threshold=config.objective.threshold,
            events_target=config.objective.events.target,
            minutes_target=config.objective.minutes.target,
            not_ready=tuple(self._readiness.not_ready()),
            shard=ShardReading(config.shard.index, config.shard.count, self._reconciler.desired.elsewhere),
            witnesses=self._apiservers.witnesses.reading,
            instance=self._read_name(config),
            incomplete_groups=self._readiness.incomplete_groups,
            missing=self._readiness.missing,
        )

    def _read_name(self, config: Config) -> InstanceName:
        cluster, server = self._apiservers.cluster_name.shown, config.server
        return InstanceName(cluster, config.part, config.node, self._host, server.view)

    def _read_apiserver(self, apiserver: Apiserver) -> ApiserverReading:
        assignment, comparison = self._watches.assignment, None
        if assignment and self._reconciler.config.mode == "cluster":
            comparison = assignment.main.sealer.comparisons.get(apiserver.name)
        reading = replace(
            read_apiserver(apiserver, self._apiservers.role_of(apiserver), comparison),
            own_metrics=self._watches.metrics_reader.reading(apiserver),
        )
        if assignment is None or assignment.main.domain.counts:
            return reading
        return replace(reading, time_travel=replace(reading.time_travel, revisions=None))


def read_watch(watch: MonitoredWatch, watches: WatchSet) -> WatchReading:
    """Return everything that is shown of a watch that runs."""
    identity, session, statistics = watch.identity, watch.session, watch.statistics
    health, cache_clock = watches.health(watch), watches.cache_prober.clock_of(identity.source)
    now = time.monotonic()
    is_unresponsive = identity.apiserver.unresponsive_for(now) is not None
    counts = statistics.clock.domain.counts
    received = _read_received(session, now)
    reading = WatchReading(
        watch=identity.label,
        group=identity.resource.group,
        resource=identity.resource.plural,
        apiserver=identity.apiserver.name,
        domain=statistics.clock.name,
        membership="unparsable" if session.is_unparsable else statistics.membership,
        up=session.up and not is_unresponsive,
        session=SessionReading(
            state=session.state,
            strategy=identity.strategy.name,
            representation=session.representation,
            transport=session.transport(),
            last_failure=session.last_failure,
        ),
        received=received,
        lists=session.counters.lists(),
        gaps=_read_gaps(watch, counts=counts),
        audit=AuditReading(
            result=health.verdict,
            stalls=health.stalls,
            stalled_for=health.stalled_for(now, session.revision),
        ),
        guarantees=session.read_guarantees(),
        cache=CacheReading(
            probed=cache_clock is not None,
            behind=watches.peers.cache_behind(identity.number),
            round_trip=cache_clock.median_round_trip if cache_clock else None,
            behind_peers=watches.peers.behind_peers(identity.number),
            exists=identity.cached,
            found=identity.apiserver.caches.is_found(identity.resource),
        ),
        outcomes=session.outcomes.reading(),
        headroom=_read_headroom(watches.headroom(watch), counts=counts),
        track=statistics.track.reading(),
        down_for=watch.down_for(now),
        unresponsive=is_unresponsive,
        behind_fastest=watches.peers.behind_fastest(identity.number),
        replay=session.replay.reading if session.replay else None,
        reference=watch.reference.reading() if watch.reference else None,
    )
    return replace(reading, breakdown=break_down(reading, watches.metrics_reader.reading(identity.apiserver)))


def _read_received(session: WatchSession, now: float) -> ReceivedReading:
    counters = session.counters
    return ReceivedReading(
        revision=session.revision,
        last_wall=None if session.received is None else time.time() - (now - session.received),
        events=dict(counters.events),
        bytes=counters.bytes,
        bookmarks=counters.bookmarks,
        bookmark_age=None if session.bookmark_seen is None else now - session.bookmark_seen,
        catch_ups=counters.catch_ups,
    )


def _read_headroom(known: HeadroomReading | None, *, counts: bool) -> HeadroomReading | None:
    return known if known is None or counts else replace(known, revisions=None)


def _read_gaps(watch: MonitoredWatch, *, counts: bool) -> GapReading:
    counters, inventory = watch.session.counters, watch.session.inventory
    return GapReading(
        revisions=counters.gap_revisions if counts else None,
        seconds=counters.gap_seconds,
        unseen=dict(counters.unseen) if watch.identity.config.inventory else None,
        objects=None if inventory is None else len(inventory),
    )


def read_apiserver(apiserver: Apiserver, role: ApiserverRole, comparison: Comparison | None) -> ApiserverReading:
    """Return everything that is shown of an apiserver."""
    return ApiserverReading(
        name=apiserver.name,
        role=role,
        version=apiserver.version,
        peers=apiserver.peers,
        unproven=apiserver.unproven,
        unresponsive_for=apiserver.unresponsive_for(time.monotonic()),
        refuses=apiserver.client.responsiveness.refuses,
        withdrawn=apiserver.withdrawal is not None,
        offset=apiserver.offset,
        offset_steps=apiserver.offset_steps,
        time_travel=apiserver.time_travel,
        combined=comparison.combined if comparison else None,
        alone=comparison.alone if comparison else None,
        requests=dict(apiserver.client.requests),
        not_ready=apiserver.client.not_ready,
        audits=dict(apiserver.audits),
        checked=dict(apiserver.checked),
        outcomes=apiserver.outcomes.reading(),
    )


def read_clock(clock: DomainClock) -> DomainReading:
    """Return everything that is shown of a domain clock and its tickers."""
    revisions, burst = clock.domain.clock, clock.ticks.schedule.burst
    return DomainReading(
        name=clock.name,
        ticks_on=tuple(
            dict.fromkeys(resource.key for ticker in clock.tickers.values() for resource in ticker.resources)
        ),
        revision=revisions.newest,
        kind=clock.kind,
        interval=revisions.interval,
        resets=clock.domain.resets,
        resolution=revisions.resolution,
        hidden=revisions.hidden(MINUTE_SECONDS, P99),
        tickers=tuple(_read_ticker(clock, name, ticker) for name, ticker in clock.tickers.items()),
        bursts=dict(burst.begun),
        burst_ticks=burst.ticks,
        reads=dict[str, int](clock.reads) | {ReadUse.CONTRADICTED: clock.domain.contradicted},
    )


def _read_ticker(clock: DomainClock, apiserver: str, ticker: Ticker) -> TickerReading:
    return TickerReading(
        apiserver=apiserver,
        ticks=dict(ticker.results),
        round_trips=ticker.round_trips.reading(),
        median_round_trip=clock.domain.clock.median_round_trip_of(apiserver),
        answered_ago=None if ticker.answered is None else time.monotonic() - ticker.answered,
        gap=clock.gap(apiserver),
        failure=ticker.failures.now.message if ticker.failures.now else None,
        unusable=ticker.failures.now is not None and ticker.failures.now.reason in UNUSABLE,
        confirmed=any(clock.trusts((apiserver, resource.key)) for resource in ticker.resources),
        polls=clock.sealer.polls(apiserver),
    )
