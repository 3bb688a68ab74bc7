"""Hand-made snapshots: what a cluster with two apiservers might have shown at one moment."""

import math
from dataclasses import replace

from watchslo.model import InstanceName, Interval
from watchslo.snapshot import (
    ApiserverFigures,
    ApiserverMetricsReading,
    ApiserverReading,
    ApiserverRole,
    AuditReading,
    BuildReading,
    CacheReading,
    Cause,
    CauseReading,
    ClientReading,
    Confidence,
    DelayBreakdown,
    DelayPart,
    DelayPartName,
    DomainReading,
    ExcessReading,
    FailureReading,
    GapReading,
    Guarantee,
    GuaranteeReading,
    HeadroomReading,
    HistogramReading,
    Hop,
    HopReading,
    InformerReading,
    ListReading,
    MonitorReading,
    NativeBuckets,
    ObjectiveReading,
    OutcomeReading,
    OverallVerdict,
    QuantileReading,
    ReactionReading,
    ReactionStep,
    ReceivedReading,
    ReferenceWatchReading,
    ResourceFigures,
    SessionReading,
    Snapshot,
    StorageKind,
    StoreVerdict,
    TickerReading,
    TimeTravelReading,
    TrackReading,
    TransportReading,
    WatchReading,
    WindowReading,
    WindowVerdict,
    WitnessReading,
)

TIMESPAN_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
DURATION_EDGES = (0.01, 0.1, 1.0, 10.0)
BUILD = BuildReading("1.2.3", "0123abc", "3.12.1")
NOTHING = HistogramReading(DURATION_EDGES, (0, 0, 0, 0, 0), 0.0)
DURATIONS = HistogramReading(DURATION_EDGES, (1, 3, 4, 4, 5), 12.25)


def window(name: str, length: float, events: int, resolution: float = 0.0) -> WindowReading:
    quantiles = (
        QuantileReading(0.5, 0.0, 0.0123, 0.375, resolution),
        QuantileReading(0.9, 0.002, 0.04, 0.5),
        QuantileReading(0.99, 0.01, 0.0625, math.inf),
    )
    return WindowReading(name, length, events, quantiles if events else ())


def with_p999(one: WindowReading) -> WindowReading:
    """Return the window with a P99.9 as well."""
    return replace(one, quantiles=(*one.quantiles, QuantileReading(0.999, 0.25, 0.377, 0.5, rough=True)))


NATIVE = NativeBuckets(3, 2**-10, 4, -68, (35, 60, 61, 0, 240, 1))
TRACK = TrackReading(
    timespan=HistogramReading(
        TIMESPAN_EDGES, (10, 40, 160, 300, 380, 395, 397, 398, 399, 400, 400, 400, 400, 401), 99.5, NATIVE
    ),
    windows=(window("15s", 15.0, 30), window("1m", 60.0, 120), window("5m", 300.0, 400)),
    objective=ObjectiveReading(
        threshold=1.0,
        events_target=0.99,
        minutes_target=0.999,
        min_events=50,
        verdicts={"within": 390, "beyond": 1, "uncertain": 10},
        windows={"good": 3, "bad": 0, "undecided": 0, "no_data": 1},
    ),
    unresolved=12,
    unmeasured={
        "initial": 0,
        "before_clock": 3,
        "pending": 0,
        "domain": 0,
        "tainted": 4,
        "own_queue": 0,
        "unsealed": 0,
        "unparsable": 0,
    },
    creation=None,
    judged=window("1m", 60.0, 120),
    verdict=WindowVerdict.GOOD,
)


def judged(events: int, *quantiles: QuantileReading, track: TrackReading = TRACK) -> TrackReading:
    """Return a track with this window, judged by the bounds of its last quantile alone."""
    last = WindowReading("1m", 60.0, events, quantiles)
    return replace(track, windows=(last,), judged=last, verdict=_verdict(last, track.objective))


def _verdict(last: WindowReading, objective: ObjectiveReading) -> WindowVerdict:
    if not last.quantiles:
        return WindowVerdict.NO_DATA
    if last.quantiles[-1].upper <= objective.threshold:
        return WindowVerdict.GOOD
    if last.quantiles[-1].lower > objective.threshold:
        return WindowVerdict.BAD
    return WindowVerdict.NO_DATA if last.events < objective.min_events else WindowVerdict.UNDECIDED


HOPS = tuple(
    HopReading(hop, replace(DURATIONS, native=NATIVE), (window("15s", 15.0, 30), window("1m", 60.0, events)))
    for hop, events in zip(Hop, (40, 100, 120, 118), strict=True)
)
REFERENCE = ReferenceWatchReading(
    up=True,
    representation="protobuf",
    events=130,
    bytes=512_000,
    unmeasured={"tainted": 1, "reopened": 0, "alone": 2},
    withheld=0.0,
    failure=None,
)
HEADROOM = HeadroomReading(
    oldest=99_000,
    revisions=24_460,
    seconds=Interval(95.5, 96.25),
    complete=False,
    list_seconds=12.5,
    list_measured=True,
    probed_wall=1_699_999_900.0,
)
TRANSPORT = TransportReading(round_trip=0.00075, retransmits=3, silent=0.25)
IDLE_TRACK = TrackReading(
    timespan=HistogramReading(TIMESPAN_EDGES, (0,) * 14, 0.0),
    windows=(window("1m", 60.0, 0), window("5m", 300.0, 0)),
    objective=ObjectiveReading(
        threshold=2.0, events_target=0.95, minutes_target=0.99, min_events=50, verdicts={}, windows={}
    ),
    unresolved=0,
    unmeasured={},
    creation=HistogramReading((1.0, 2.5), (0, 0, 0), 0.0, NATIVE),
)
EVENTS = {"ADDED": 100, "MODIFIED": 300, "DELETED": 1, "ERROR": 0}
OF_ALL_WATCHES = [one for one in Guarantee if one not in (Guarantee.TYPED, Guarantee.FILTERED)]
TAIL = WatchReading(
    watch="pods",
    group="",
    resource="pods",
    apiserver="service",
    domain="default",
    membership="member",
    up=True,
    session=SessionReading(
        state="Watching",
        strategy="tail",
        representation="metadata",
        transport=TRANSPORT,
        last_failure=FailureReading("reset", "the connection was reset", 1_699_999_000.0),
    ),
    received=ReceivedReading(
        revision=123456,
        last_wall=1_700_000_000.25,
        events=EVENTS,
        bytes=945_000,
        bookmarks=7,
        bookmark_age=31.5,
    ),
    lists=ListReading(relists={"start": 1, "expired": 0, "errors": 0}, expired={"open": 0, "stream": 0}),
    gaps=GapReading(),
    guarantees=GuaranteeReading(
        {"ordered": 401, "unique": 401, "bookmarkable": 408, "resumable": 8, "reliable": 120},
        dict.fromkeys(OF_ALL_WATCHES, 0),
    ),
    audit=AuditReading("alive"),
    cache=CacheReading(),
    outcomes=OutcomeReading(
        {"tail": NOTHING},
        DURATIONS,
        DURATIONS,
        closed={("deadline", "deadline"): 4, ("network", "reset"): 1, ("network", "early_eof"): 2},
        failed_lists={},
    ),
    headroom=HEADROOM,
    track=TRACK,
)
IDLE = replace(
    TAIL,
    watch='my "deploy\\ments"',
    group="apps",
    resource="deployments",
    apiserver="10.0.0.1:6443",
    membership="pending",
    up=False,
    session=SessionReading(
        state="Backoff",
        strategy="paged",
        representation="table",
        transport=None,
        last_failure=FailureReading("forbidden", "<b>deployments.apps is forbidden</b>", 1_699_999_500.0),
    ),
    received=ReceivedReading(revision=None, last_wall=None, events={}, bytes=0, bookmarks=0, bookmark_age=None),
    lists=ListReading(
        relists={"start": 1, "expired": 1, "errors": 0},
        expired={"list": 1, "open": 0, "stream": 0},
        items=1500,
        bytes=300_000,
        pages=3,
    ),
    gaps=GapReading(revisions=700, seconds=95.5),
    guarantees=GuaranteeReading(dict.fromkeys(OF_ALL_WATCHES, 0), dict.fromkeys(OF_ALL_WATCHES, 0)),
    audit=AuditReading(),
    outcomes=OutcomeReading({"paged": DURATIONS}, DURATIONS, DURATIONS, closed={}, failed_lists={}),
    headroom=None,
    track=IDLE_TRACK,
)
STALLED = replace(
    TAIL,
    watch="jobs",
    group="batch",
    resource="jobs",
    session=replace(TAIL.session, strategy="stream", last_failure=None),
    lists=ListReading(
        relists={"start": 1, "expired": 1, "errors": 0, "inventory": 2},
        expired={"list": 0, "open": 1, "stream": 0},
        items=2000,
        bytes=400_000,
        pages=4,
    ),
    outcomes=OutcomeReading(
        {"stream": NOTHING, "paged": DURATIONS},
        DURATIONS,
        DURATIONS,
        closed={("network", "reset"): 1},
        failed_lists={("stream", "early_eof"): 2},
        fallbacks=1,
        initial_events=1000,
    ),
    gaps=GapReading(revisions=40, seconds=12.25, unseen={"changed": 3, "created": 2, "deleted": 1}, objects=1001),
    guarantees=GuaranteeReading(
        {**TAIL.guarantees.checked, "typed": 401},
        {**TAIL.guarantees.violations, "ordered": 2, "reliable": 1, "typed": 0},
    ),
    audit=AuditReading("stalled", stalls=2, stalled_for=33.5),
    cache=CacheReading(probed=True, behind=Interval(0.25, 0.375), round_trip=0.0009765625, behind_peers=1.5),
    headroom=replace(HEADROOM, seconds=Interval(600.0, math.inf), complete=True, list_seconds=None),
    track=replace(TRACK, hops=HOPS),
    behind_fastest=ExcessReading(events=118, p50=0.2975, p99=0.3125),
    reference=REFERENCE,
)
SERVICE = ApiserverReading(
    name="service",
    role=ApiserverRole.MEMBER,
    version="v1.36.3",
    peers=None,
    unproven=None,
    offset=Interval(-0.0035, 0.001),
    offset_steps=1,
    time_travel=TimeTravelReading(),
    combined=window("1m", 60.0, 240),
    alone=window("1m", 60.0, 240, 0.02),
    audits={"idle": 50, "alive": 9, "stalled": 1},
    requests={("tick", "200"): 1000, ("watch", "200"): 9, ("watch", "410"): 1},
    outcomes=OutcomeReading(
        {"tail": NOTHING, "stream": NOTHING, "paged": DURATIONS},
        DURATIONS,
        DURATIONS,
        closed={("deadline", "deadline"): 4, ("network", "reset"): 2, ("network", "early_eof"): 2},
        failed_lists={("stream", "early_eof"): 2},
        fallbacks=1,
        initial_events=1000,
    ),
)
OWN_EDGES = (0.005, 0.025, 0.1, 0.5)
OWN_MINUTE = ApiserverFigures(
    since_wall=1_699_999_930.0,
    seconds=60.0,
    etcd=HistogramReading(OWN_EDGES, (90, 98, 100, 100, 100), 0.5),
    read_wait=HistogramReading(OWN_EDGES, (0, 10, 10, 10, 10), 0.125),
    listed=1500,
    rejected=2,
    inflight=12,
    queued=0,
    cpu=0.75,
    resources={
        "pods": ResourceFigures(
            received=120,
            terminated=1,
            dispatch={"total": HistogramReading(OWN_EDGES, (900, 1000, 1000, 1000, 1000), 2.5)},
        )
    },
)
OWN_METRICS = ApiserverMetricsReading(processes=1, size=1_532_289, recent=OWN_MINUTE, minute=OWN_MINUTE)
BREAKDOWN = DelayBreakdown(
    q=0.99,
    seconds=0.0625,
    parts=(
        DelayPart(DelayPartName.STORAGE_TO_CACHE, 0.03125, "etcd and cache", "watchslo"),
        DelayPart(DelayPartName.DISPATCH, 0.0234375, "dispatch", "apiserver"),
        DelayPart(DelayPartName.REST, 0.0078125, "encoding, socket and network", "remainder"),
    ),
)
WITH_OWN_METRICS = replace(SERVICE, own_metrics=OWN_METRICS)
OTHER = replace(
    SERVICE,
    name="10.0.0.1:6443",
    version="v1.30.14+k3s1",
    unproven="its storage is kine, not etcd",
    offset=None,
    peers=3,
    time_travel=TimeTravelReading(2, 500, 1.25),
    combined=None,
    alone=None,
    requests={},
    audits={},
    outcomes=OutcomeReading({"tail": NOTHING, "paged": DURATIONS}, DURATIONS, DURATIONS, closed={}, failed_lists={}),
)
TICKER = TickerReading(
    apiserver="service",
    ticks={"ok": 999, "slow": 0, "failed": 1},
    round_trips=DURATIONS,
    median_round_trip=0.0017,
    answered_ago=0.25,
    failure=None,
    confirmed=True,
)
FAILING = TickerReading(
    apiserver="10.0.0.1:6443",
    ticks={"failed": 9},
    round_trips=NOTHING,
    median_round_trip=None,
    answered_ago=None,
    failure="<i>no answer came in time</i>",
    confirmed=False,
)
DOMAIN = DomainReading(
    name="default",
    ticks_on=("events",),
    revision=123460,
    kind=StorageKind.SEQUENCE,
    interval=0.512,
    resets=0,
    resolution=0.0017,
    tickers=(TICKER, FAILING),
    bursts={"late": 1, "straddles": 2},
    burst_ticks=900,
    reads={"nudge": 70, "probe": 9, "list": 2, "contradicted": 1},
)
BLIND = DomainReading(
    name="jobs.batch",
    ticks_on=("pods", "nodes"),
    revision=None,
    kind=StorageKind.UNKNOWN,
    interval=None,
    resets=0,
    resolution=None,
    tickers=(),
)
BEHIND = CauseReading(
    cause=Cause.CACHE_BEHIND,
    apiserver="10.0.0.1:6443",
    watch=None,
    confidence=Confidence.HIGH,
    since_wall=1_699_999_950.0,
    evidence="10.0.0.1:6443 hands out jobs 0.31 s after storage (P50); the other two 0.004 s, <b>as ever</b>.",
    next="Look at the connection from 10.0.0.1:6443 to etcd.",
)
STUCK = CauseReading(
    cause=Cause.STALLED_STREAM,
    apiserver="service",
    watch="jobs",
    confidence=Confidence.MEDIUM,
    since_wall=1_699_999_970.0,
    evidence="The watch of jobs has said nothing for 33.5 s.",
    next="Look at what is between here and service.",
)
MONITOR = MonitorReading(
    build=BUILD,
    cluster="prod-eu",
    started_wall=1_699_990_000.0,
    loop_lag=HistogramReading((0.005, 0.15), (1000, 1001, 1002), 0.75),
    tainted_seconds=0.5,
    reload_succeeded=True,
    reloaded_wall=1_699_990_000.5,
    paused=False,
    stall_detection=30.0,
    threshold=1.0,
    events_target=0.99,
    minutes_target=0.999,
    not_ready=(),
    witnesses=WitnessReading(announced=2, reached=1, why="The apiserver cannot be reached."),
    instance=InstanceName(cluster="prod-eu", host="watchslo-0"),
)
MANAGER = ClientReading(
    client="kube-controller-manager",
    reads={"current": 100, "stale": 3, "unknown": 1},
    informers=(
        InformerReading("apps", "deployments", StoreVerdict.STALE, Interval(10.0, 10.25), 120),
        InformerReading("", "pods", StoreVerdict.CURRENT, Interval(0.0, 0.0), 0),
        InformerReading("batch", "jobs", StoreVerdict.STALE, Interval(600.0, math.inf)),
    ),
    unknown={"unwatched": 56},
)
SCHEDULER = ClientReading(
    client="kube-scheduler",
    reads={"current": 0, "stale": 0, "unknown": 7},
    obstacle="https://10.0.0.7:10259 refuses its page.",
)
SCHEDULED = ReactionReading(
    group="",
    resource="pods",
    step=ReactionStep.SCHEDULED,
    window=300.0,
    events=40,
    quantiles=(QuantileReading(0.5, 0.0, 0.008, 0.4), QuantileReading(0.99, 0.2, 0.3, math.inf)),
    histogram=DURATIONS,
    pending=0,
    oldest_pending=0.0,
    unmeasured={"unschedulable": 2},
    threshold=5.0,
)
OBSERVED = ReactionReading(
    group="apps",
    resource="deployments",
    step=ReactionStep.OBSERVED,
    window=300.0,
    events=0,
    quantiles=(),
    histogram=NOTHING,
    pending=3,
    oldest_pending=12.5,
    unmeasured={},
    threshold=10.0,
)
SNAPSHOT = Snapshot(
    at_wall=1_700_000_001.0,
    monitor=MONITOR,
    apiservers=(WITH_OWN_METRICS, OTHER),
    domains=(DOMAIN, BLIND),
    watches=(replace(TAIL, breakdown=BREAKDOWN), IDLE, STALLED),
    causes=(BEHIND, STUCK),
    overall=OverallVerdict.STALLED,
    reactions=(SCHEDULED, OBSERVED),
    clients=(MANAGER, SCHEDULER),
)
EMPTY = Snapshot(
    at_wall=1_700_000_001.0,
    monitor=replace(
        MONITOR,
        cluster=None,
        instance=InstanceName(),
        not_ready=("the clock has not ticked yet", "no stream has started"),
    ),
    apiservers=(),
    domains=(),
    watches=(),
)


def changed(stream: WatchReading, **changes: object) -> WatchReading:
    """Return a copy of the reading with other values; a dict changes those fields of a nested reading.

    `changed(TAIL, up=False, audit={"stalled_for": 3.0})` leaves the rest of the audit as it is.
    """
    made = {
        name: replace(getattr(stream, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    return replace(stream, **made)  # type: ignore[arg-type]


def many(watches: int, watch: WatchReading = TAIL) -> Snapshot:
    """A snapshot of as many such watches."""
    streams = tuple(replace(watch, watch=f"watch-{number}", resource=f"things{number}") for number in range(watches))
    return replace(SNAPSHOT, watches=streams)
