"""Frozen readings of everything that is shown: metrics, status and terminal read these and nothing else.

Durations are seconds. Times end in `_wall` and are Unix seconds, because they are for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Interval


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """Cumulative: `counts[k]` observations were at most `edges[k]`; the last count has no edge and is the total."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def total(self) -> int:
        return self.counts[-1]


@dataclass(frozen=True, slots=True)
class QuantileReading:
    """A quantile of one window: the estimate, and the ends between which the window's true sample quantile lies.

    `resolved` is false where the estimate is below the median round trip of the ticks: then it is no measurement.
    """

    q: float
    lower: float
    estimate: float
    upper: float
    resolved: bool


@dataclass(frozen=True, slots=True)
class WindowReading:
    """A rolling window (`length` seconds, named as in the metrics: `1m`): its number of events and their quantiles."""

    name: str
    length: float
    events: int
    quantiles: tuple[QuantileReading, ...]


@dataclass(frozen=True, slots=True)
class ObjectiveReading:
    """The objective in force for one watch; `verdicts` counts events, `windows` judged windows.

    Of fewer than `min_events` events in a window, only what is proven is judged.
    """

    threshold: float
    events_target: float
    minutes_target: float
    min_events: int
    verdicts: Mapping[str, int]
    windows: Mapping[str, int]


class Hop(StrEnum):
    """The parts of an event's way: to its commit, from there into the apiserver's cache, from there to us."""

    CREATION_TO_STORAGE = "creation_to_storage"
    STORAGE_TO_CACHE = "storage_to_cache"
    CACHE_TO_CLIENT = "cache_to_client"


@dataclass(frozen=True, slots=True)
class HopReading:
    """How long one part of the way took, of those events of a watch for which that is known."""

    hop: Hop
    histogram: HistogramReading
    windows: tuple[WindowReading, ...]


@dataclass(frozen=True, slots=True)
class TrackReading:
    """The statistics of one watch. `creation` is absent where creation timestamps are not asked for.

    `hops` has those that were measured at least once. There are no `windows` where ticks are too slow for quantiles.
    """

    timespan: HistogramReading
    windows: tuple[WindowReading, ...]
    objective: ObjectiveReading
    unresolved: int
    unmeasured: Mapping[str, int]
    creation: HistogramReading | None
    hops: tuple[HopReading, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryReading:
    """How long a client of one resource may be away before its revision has expired.

    `oldest` is the oldest revision that a watch may begin from, `revisions` how far that is behind the newest one,
    `seconds` how long ago it was; `upper` is infinite where our clock does not reach back so far. `complete` says that
    nothing has been dropped since the cache began, or of late: then it grows, and is longer than this. `list_seconds`
    is how long a full list takes, `list_measured` whether it was seen or reckoned from one page; None where nobody
    knows.
    """

    oldest: int
    revisions: int
    seconds: Interval
    complete: bool
    list_seconds: float | None
    list_measured: bool
    probed_wall: float

    @property
    def fits(self) -> bool | None:
        """Whether the history outlasts a list, so that a watch can follow it; None where nobody knows."""
        if self.list_seconds is None or self.complete:
            return True if self.complete else None
        if self.seconds.upper < self.list_seconds:
            return False
        return True if self.seconds.lower >= self.list_seconds else None


@dataclass(frozen=True, slots=True)
class TransportReading:
    """What the kernel knows of the connection of an open watch: smoothed round trip in seconds, segments sent anew.

    `retransmits` are ours; what the apiserver sends anew its kernel knows. `silent` is for how long nothing at all, not
    even an acknowledgement, has come from the peer.
    """

    round_trip: float
    retransmits: int
    silent: float


@dataclass(frozen=True, slots=True)
class FailureReading:
    """The last thing that went wrong with a stream, in one sentence."""

    reason: str
    message: str
    at_wall: float


@dataclass(frozen=True, slots=True)
class StreamReading:
    """The protocol side of one watch.

    `closed` counts by (class, reason); `membership` says how its revisions relate to the clock: `pending` (not known
    yet), `member`, `foreign` (a clock of its own), `unparsable` (revisions that are no numbers). `unseen` counts by
    kind what gaps hid from the inventory, which holds so many `objects`; both are absent without one. `audit` is what
    the last audit found. `stalled_for` is the age of the oldest event that is withheld, or for how long the cache has
    been frozen: absent while nothing is stalled. `list_duration` is by the strategy that was used in the end.

    `probed` says whether the apiserver's cache is read now and then, to tell the hops apart; `cache_behind` how old
    that cache was, at worst, in the last seconds of it, `cache_round_trip` how long these reads took. `behind_peers` is
    for how long the same resource's watch at another apiserver has had an event that this one has not: absent without
    such a peer, 0 where it has none.
    """

    watch: str
    group: str
    resource: str
    apiserver: str
    state: str
    strategy: str
    representation: str
    domain: str
    membership: str
    up: bool
    revision: int | None
    last_received_wall: float | None
    events: Mapping[str, int]
    bytes: int
    bookmarks: int
    bookmark_age: float | None
    order_violations: int
    closed: Mapping[tuple[str, str], int]
    relists: Mapping[str, int]
    expired: Mapping[str, int]
    list_items: int
    list_bytes: int
    list_pages: int
    list_fallbacks: int
    initial_events: int
    gap_revisions: int
    gap_seconds: float
    unseen: Mapping[str, int] | None
    objects: int | None
    audit: str | None
    stalls: int
    stalled_for: float | None
    lost: int
    probed: bool
    cache_behind: Interval | None
    behind_peers: float | None
    history: HistoryReading | None
    transport: TransportReading | None
    list_duration: Mapping[str, HistogramReading]
    watch_open: HistogramReading
    watch_duration: HistogramReading
    last_failure: FailureReading | None
    track: TrackReading
    cache_round_trip: float | None = None


@dataclass(frozen=True, slots=True)
class TickerReading:
    """The ticks of one clock through one apiserver: how many ended how, and how long they took.

    `answered_ago` is for how many seconds none was answered, `failure` why not, in a sentence, while they fail;
    `vouched` whether they are known to be of this clock's storage: only then they count. `gap` is the mean time between
    two of them, in seconds.
    """

    apiserver: str
    ticks: Mapping[str, int]
    round_trips: HistogramReading
    median_round_trip: float | None
    answered_ago: float | None
    failure: str | None
    vouched: bool
    gap: float = 0.5


@dataclass(frozen=True, slots=True)
class DomainReading:
    """One revision clock: what it ticks on, the newest revision, the width of the newest commit interval."""

    name: str
    ticks_on: tuple[str, ...]
    revision: int | None
    interval: float | None
    resets: int
    median_round_trip: float | None
    tickers: tuple[TickerReading, ...]


@dataclass(frozen=True, slots=True)
class ApiserverReading:
    """What one apiserver is like and what it was asked: `requests` counts by (kind, code), `list_duration` by strategy.

    `audits` counts them by what they found. `unproven` says why its revisions cannot be trusted to be etcd's, or is
    absent. `watched` is whether its resources are watched: not so of the service where each apiserver is. `peers` is
    how many apiservers its address stands for, where that is known. `time_travel_revisions` and `_seconds` are how far
    its answers went back, in all. `combined` is the last minute of all its watches, by the ticks of all apiservers,
    `alone` the same by its own ticks only; both are absent unless several apiservers tick.
    """

    name: str
    version: str | None
    watched: bool
    peers: int | None
    unproven: str | None
    offset: Interval | None
    offset_steps: int
    time_travel: int
    time_travel_revisions: int
    time_travel_seconds: float
    combined: WindowReading | None
    alone: WindowReading | None
    requests: Mapping[tuple[str, str], int]
    audits: Mapping[str, int]
    list_duration: Mapping[str, HistogramReading]
    watch_open: HistogramReading
    watch_duration: HistogramReading


@dataclass(frozen=True, slots=True)
class BuildReading:
    """Which code runs: its version, its source's revision (`unknown` outside of an image), and the Python under it."""

    version: str
    revision: str
    python_version: str


@dataclass(frozen=True, slots=True)
class ShardReading:
    """Which share of the watches runs here, of how many, and how many watches are left to the others."""

    index: int
    count: int
    elsewhere: int


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """The daemon itself: its lag, its configuration, and whether it is of use (`not_ready`: the reasons why not).

    `stall_detection` is within how many seconds a stalled watch is found; absent where audits are off. `threshold`,
    `events_target` and `minutes_target` are those of the common objective, which watches may override.
    """

    build: BuildReading
    cluster: str | None
    started_wall: float
    loop_lag: HistogramReading
    tainted_seconds: float
    reload_succeeded: bool
    reloaded_wall: float
    paused: bool
    stall_detection: float | None
    threshold: float
    events_target: float
    minutes_target: float
    not_ready: tuple[str, ...]
    shard: ShardReading = ShardReading(index=0, count=1, elsewhere=0)


class Cause(StrEnum):
    """Why watches are late, as far as that has a name."""

    MONITOR_OVERLOADED = "monitor_overloaded"
    STORAGE_SLOW = "storage_slow"
    CACHE_BEHIND = "cache_behind"
    RESOURCE_DECODING = "resource_decoding"
    APISERVER_SENDING = "apiserver_sending"
    RESOURCE_FANOUT = "resource_fanout"
    BANDWIDTH = "bandwidth"
    RELIST_STORM = "relist_storm"
    HISTORY_SHORT = "history_short"
    WRITE_PATH = "write_path"
    STALLED_STREAM = "stalled_stream"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How sure a diagnosis is: `high` where nothing else that has a name fits."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class CauseReading:
    """A diagnosis: of one apiserver and one watch where these are named, else of all.

    `evidence` and `next` are sentences: what speaks for it, and what to look at.
    """

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    since_wall: float
    evidence: str
    next: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one moment; `causes` are the newest diagnosis, the surest first."""

    at_wall: float
    monitor: MonitorReading
    apiservers: tuple[ApiserverReading, ...]
    domains: tuple[DomainReading, ...]
    streams: tuple[StreamReading, ...]
    causes: tuple[CauseReading, ...] = ()
