"""A fake control plane: tests set delays and failures, and its snapshots show them, five seconds apart."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.serve import readings
from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.model import Interval
from watchslo.snapshot import (
    ApiserverFigures,
    ApiserverMetricsReading,
    ApiserverReading,
    ApiserverRole,
    AuditReading,
    CacheReading,
    CauseReading,
    ClientReading,
    DomainReading,
    HeadroomReading,
    HistogramReading,
    Hop,
    HopReading,
    InformerReading,
    QuantileReading,
    ReactionReading,
    ReactionStep,
    ReferenceWatchReading,
    Snapshot,
    StorageKind,
    StoreVerdict,
    TickerReading,
    TransportReading,
    WatchReading,
    WindowReading,
)

STEP_SECONDS = 5.0
WALL_SECONDS = 1_700_000_000.0
EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
WELL_SECONDS = 0.004
TICK_SECONDS = 0.0017
TICKS = 4  # of one apiserver in a step
EVENTS = 100  # of one watch in a step


@dataclass(slots=True)
class Watch:
    """One watch of one apiserver; tests change its fields and call `Cluster.step`."""

    late: float = WELL_SECONDS
    spread: float = 1.2  # P90 / P50, and P99 / P90
    storage: float | None = None
    client: float | None = None
    whole: float | None = None  # how much later whole objects arrive
    withheld: float | None = None  # for how long a whole object is missing; None: without a watch of whole objects
    creation: float | None = None
    creations: int = 40
    events: int = EVENTS
    size: int = 300
    resolved: bool = True
    hops_resolved: bool = True
    behind: float | None = None
    cache_behind: Interval | None = None
    cache_trip: float | None = None
    stalled: float | None = None
    stalls: int = 0
    catch_ups: int = 0
    catches_up: int = 0  # times in each step
    audit: str | None = "alive"
    up: bool = True
    expired: int = 0
    slow_consumer: int = 0
    headroom: HeadroomReading | None = None
    transport: TransportReading | None = None
    minute: int | None = None  # events of the last minute; None: as many in each step as now
    earlier: float | None = None  # median of the last minute; None: the same as now
    received: int = field(default=1000, init=False)
    bytes: int = field(default=100_000, init=False)


@dataclass(slots=True)
class Apiserver:
    """One apiserver, changed like a watch; `trips` are the round trips of the ticks in one step."""

    trips: tuple[float, ...] = (TICK_SECONDS,) * TICKS
    silent: float = 0.3
    failure: str | None = None
    unresponsive_for: float | None = None
    refuses: bool = False
    role: ApiserverRole = ApiserverRole.MEMBER
    ticking: bool = True
    confirmed: bool = True
    gap: float = 0.5
    polls: bool = False
    own: ApiserverFigures | None = None  # of the present, whenever it is
    processes: int = 1
    answers: Mapping[tuple[str, str], int] = field(default_factory=lambda: {("tick", "200"): TICKS})
    unready: int = 0  # of the answers
    requests: dict[tuple[str, str], int] = field(default_factory=dict, init=False)
    not_ready: int = field(default=0, init=False)
    ticked: list[float] = field(default_factory=list, init=False)

    def ticks(self, seconds: float) -> None:
        self.trips = (seconds,) * TICKS

    def silence(self, seconds: float, *answers: tuple[str, str]) -> None:
        self.trips, self.silent, self.failure = (), seconds, "No answer came in time."
        self.answers = dict.fromkeys(answers, 5)


class Cluster:
    """Apiservers with the same watches, and witnesses without; `diagnosis` observes every step."""

    def __init__(
        self,
        *names: str,
        watches: tuple[str, ...] = ("pods", "leases", "nodes"),
        witnesses: tuple[str, ...] = (),
    ) -> None:
        self.apiservers = {name: Apiserver() for name in names or ("a:1", "b:1", "c:1")}
        self.watches = {(name, watch): Watch() for name in self.apiservers for watch in watches}
        self.apiservers |= {name: Apiserver(role=ApiserverRole.WITNESS) for name in witnesses}
        self.diagnosis = Diagnosis()
        self.now = 100.0
        self.tainted = 0.0
        self.taints = 0.0
        self.round_trip: float | None = TICK_SECONDS
        self.kind = StorageKind.SEQUENCE
        self.causes: tuple[CauseReading, ...] = ()
        self.reactions: dict[str, ReactionReading] = {}
        self.informers: dict[str, dict[str, InformerReading]] = {}
        self.step(6)

    def __getitem__(self, key: tuple[str, str]) -> Watch:
        return self.watches[key]

    def at(self, apiserver: str) -> list[Watch]:
        return [watch for (name, _), watch in self.watches.items() if name == apiserver]

    def of(self, name: str) -> list[Watch]:
        return [watch for (_, one), watch in self.watches.items() if one == name]

    def remove(self, apiserver: str) -> None:
        del self.apiservers[apiserver]
        self.watches = {key: watch for key, watch in self.watches.items() if key[0] != apiserver}

    def add(self, apiserver: str) -> None:
        names = dict.fromkeys(name for _, name in self.watches)
        self.apiservers[apiserver] = Apiserver()
        self.watches |= {(apiserver, name): Watch() for name in names}

    def react(self, step: str, field: str, value: Any) -> None:
        """Change a reaction of `pods:scheduled`: `at_least` is the lower bound of its P99, in seconds."""
        resource, _, name = step.partition(":")
        made = replace(
            readings.OBSERVED, group="", resource=resource, step=ReactionStep(name), threshold=5.0, pending=0
        )
        old = self.reactions.get(step, replace(made, oldest_pending=0.0))
        if field == "at_least":
            field, value = "quantiles", (QuantileReading(0.99, value, value, math.inf),)
        self.reactions[step] = replace(old, **{field: value})

    def inform(self, cache: str, field: str, value: Any) -> None:
        """Change the cache `pods@manager`: `stale` is the lower bound of its staleness, in seconds."""
        resource, _, client = cache.partition("@")
        informers = self.informers.setdefault(client, {})
        old = informers.get(resource, InformerReading("", resource, StoreVerdict.CURRENT, Interval(0.0, 0.0), queued=0))
        changes = {field: value}
        if field == "stale":
            verdict = StoreVerdict.STALE if value else StoreVerdict.CURRENT
            changes = {"verdict": verdict, "staleness": Interval(value, value + 0.1)}
        informers[resource] = replace(old, **changes)

    def step(self, times: int = 1) -> tuple[CauseReading, ...]:
        """Advance by so many steps of five seconds, and return the causes after the last."""
        for _ in range(times):
            self.now += STEP_SECONDS
            self.tainted += self.taints * STEP_SECONDS
            for watch in self.watches.values():
                watch.received += watch.events
                watch.catch_ups += watch.catches_up
                watch.bytes += watch.events * watch.size
            for one in self.apiservers.values():
                one.ticked += one.trips
                one.not_ready += one.unready
                for request, count in one.answers.items():
                    one.requests[request] = one.requests.get(request, 0) + count
            self.causes = observed(self.diagnosis, self.snapshot(), self.now)
        return self.causes

    def snapshot(self) -> Snapshot:
        tickers = tuple(_ticker(name, one) for name, one in self.apiservers.items() if one.ticking)
        return Snapshot(
            at_wall=WALL_SECONDS + self.now,
            monitor=replace(readings.MONITOR, tainted_seconds=self.tainted),
            apiservers=tuple(_apiserver(name, one, WALL_SECONDS + self.now) for name, one in self.apiservers.items()),
            domains=(
                DomainReading("other", ("pods",), 1, StorageKind.SEQUENCE, None, 0, None, ()),
                DomainReading("main", ("events",), 1, self.kind, 0.5, 0, self.round_trip, tickers),
            ),
            watches=tuple(_stream(*key, watch) for key, watch in self.watches.items()),
            reactions=tuple(self.reactions.values()),
            clients=tuple(
                ClientReading(name, {}, tuple(informers.values())) for name, informers in self.informers.items()
            ),
        )


def window(name: str, length: float, events: int, median: float, spread: float, *, resolved: bool) -> WindowReading:
    estimates = zip((0.5, 0.9, 0.99), (median, median * spread, median * spread**2), strict=True)
    quantiles = tuple(
        QuantileReading(q, 0.0, value, math.inf, 0.0 if resolved else 2 * value) for q, value in estimates
    )
    return WindowReading(name, length, events, quantiles if events else ())


def windows(watch: Watch, median: float, events: int, *, resolved: bool) -> tuple[WindowReading, ...]:
    minute = 12 * watch.events if watch.minute is None else watch.minute
    earlier = median if watch.earlier is None else watch.earlier
    return tuple(
        window(name, length, count, late, watch.spread, resolved=resolved)
        for name, length, count, late in (
            ("1m", 60.0, minute, earlier),
            ("15s", 15.0, events, median),
            ("5m", 300.0, 5 * minute, earlier),
        )
    )


def _stream(apiserver: str, name: str, watch: Watch) -> WatchReading:
    measured = ((Hop.CREATION_TO_STORAGE, watch.creation), (Hop.STORAGE_TO_CACHE, watch.storage))
    hops = tuple(
        HopReading(hop, readings.NOTHING, windows(watch, seconds, count, resolved=watch.hops_resolved))
        for hop, seconds, count in (
            *((hop, seconds, watch.creations) for hop, seconds in measured[:1]),
            *((hop, seconds, 3 * watch.events) for hop, seconds in measured[1:]),
            (Hop.CACHE_TO_CLIENT, watch.client, 3 * watch.events),
            (Hop.ENCODING_TO_CLIENT, watch.whole, 3 * watch.events),
        )
        if seconds is not None
    )
    track = replace(
        readings.TRACK,
        windows=windows(watch, watch.late, 3 * watch.events, resolved=watch.resolved),
        hops=hops,
    )
    return readings.changed(
        readings.TAIL,
        watch=name,
        resource=name,
        apiserver=apiserver,
        domain="main",
        up=watch.up,
        session={"transport": watch.transport},
        outcomes={"closed": {("server", "slow_consumer"): watch.slow_consumer, ("deadline", "deadline"): 4}},
        received={
            "events": {"ADDED": watch.received, "ERROR": 7},
            "bytes": watch.bytes,
            "catch_ups": watch.catch_ups,
        },
        lists={"expired": {"open": watch.expired, "stream": 0}},
        audit=AuditReading(watch.audit, watch.stalls, watch.stalled),
        cache=CacheReading(watch.cache_trip is not None, watch.cache_behind, watch.cache_trip, watch.behind),
        headroom=watch.headroom,
        track=track,
        reference=_reference(watch),
    )


def _reference(watch: Watch) -> ReferenceWatchReading | None:
    if watch.whole is None and watch.withheld is None:
        return None
    return replace(readings.REFERENCE, withheld=watch.withheld or 0.0)


def _ticker(name: str, one: Apiserver) -> TickerReading:
    counts = tuple(sum(trip <= edge for trip in one.ticked) for edge in EDGES)
    histogram = HistogramReading(EDGES, (*counts, len(one.ticked)), sum(one.ticked))
    silent = None if one.silent < 0 else one.silent
    return TickerReading(
        name, {"ok": len(one.ticked)}, histogram, None, silent, one.failure, one.confirmed, one.gap, one.polls
    )


def _apiserver(name: str, one: Apiserver, wall: float) -> ApiserverReading:
    recent = replace(one.own, since_wall=wall + one.own.since_wall) if one.own else None
    own = ApiserverMetricsReading(processes=one.processes, recent=recent)
    requests = dict(one.requests)
    return replace(
        readings.SERVICE,
        name=name,
        role=one.role,
        requests=requests,
        not_ready=one.not_ready,
        unresponsive_for=one.unresponsive_for,
        refuses=one.refuses,
        own_metrics=own,
    )


def observed(diagnosis: Diagnosis, snapshot: Snapshot, now: float) -> tuple[CauseReading, ...]:
    """Return what a diagnosis finds, without its pauses."""
    found: list[tuple[CauseReading, ...]] = []

    def work() -> Iterator[None]:
        found.append((yield from diagnosis.observe(snapshot, now)))

    assert all(pause is None for pause in work())
    return found[0]
