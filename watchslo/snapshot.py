"""Immutable readings of the daemon: metrics, status, page and terminal show these and nothing else.

Durations are seconds. Names of times end in `_wall`; they are Unix seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchslo.model import UNNAMED, InstanceName, Interval


@dataclass(frozen=True, slots=True)
class NativeBuckets:
    """The buckets of a native histogram of Prometheus.

    `zero` observations were at most `zero_threshold`. The bucket of `counts[k]` has the index `first + k`: bucket n
    ends at 2^(n / 2^schema). The first and the last count are positive; without any there are no buckets.
    """

    schema: int
    zero_threshold: float
    zero: int
    first: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A cumulative histogram: `counts[k]` observations were at most `edges[k]`; the last count is the total.

    `native` are the same observations in finer buckets, if they are known so finely.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    native: NativeBuckets | None = None

    @property
    def total(self) -> int:
        return self.counts[-1]


@dataclass(frozen=True, slots=True)
class QuantileReading:
    """A quantile of one window: the estimate, and proven bounds of the window's true sample quantile.

    An estimate below its `resolution`, in seconds, is not a measurement: ticks were held as long. It is `rough` if the
    events do not determine it: it may be more than a quarter, and 10 ms, off. `probable` holds the true quantile in
    about 90% of windows, if latencies do not depend on ticks; None if the estimate is no measurement, or is proven.
    """

    q: float
    lower: float
    estimate: float
    upper: float
    resolution: float = 0.0
    rough: bool = False
    probable: Interval | None = None

    @property
    def resolved(self) -> bool:
        return self.estimate >= self.resolution


@dataclass(frozen=True, slots=True)
class WindowReading:
    """A rolling window of `length` seconds: its name as in metrics (`1m`), its number of events, their quantiles."""

    name: str
    length: float
    events: int
    quantiles: tuple[QuantileReading, ...]


class WindowVerdict(StrEnum):
    """The verdict on a window of time; undecided if there are enough events, but neither proof nor evidence."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True)
class ObjectiveReading:
    """The objective in force for one watch; `verdicts` counts judged events, `windows` counts judged windows.

    A window of `window` seconds is judged by its `quantile`, and with fewer than `min_events` events by its proven
    bounds only.
    """

    threshold: float
    events_target: float
    minutes_target: float
    min_events: int
    verdicts: Mapping[str, int]
    windows: Mapping[str, int]
    quantile: float = 0.99
    window: float = 60.0


class OverallVerdict(StrEnum):
    """The verdict on all watches; `timeline/verdict.py` has the table that leads to it."""

    GOOD = "good"
    LATE = "late"
    STALLED = "stalled"
    DOWN = "down"
    UNRESPONSIVE = "unresponsive"
    STORAGE_SILENT = "storage_silent"
    CAUSE = "cause"
    UNDECIDED = "undecided"
    NO_DATA = "no_data"
    CLOCK_STOPPED = "clock_stopped"
    MONITOR_PROBLEM = "monitor_problem"
    STARTING = "starting"
    PAUSED = "paused"


class Hop(StrEnum):
    """The parts of an event's way: to its commit, then into the apiserver's cache, then to watchslo.

    The last part is how much longer the way of the whole object takes than that of the small representation.
    """

    CREATION_TO_STORAGE = "creation_to_storage"
    STORAGE_TO_CACHE = "storage_to_cache"
    CACHE_TO_CLIENT = "cache_to_client"
    ENCODING_TO_CLIENT = "encoding_to_client"


@dataclass(frozen=True, slots=True)
class HopReading:
    """The durations of one hop, of the events of one watch whose hop could be measured."""

    hop: Hop
    histogram: HistogramReading
    windows: tuple[WindowReading, ...]


@dataclass(frozen=True, slots=True)
class TrackReading:
    """The statistics of one watch. `creation` is None unless the configuration asks for creation timestamps.

    `unresolved` counts samples below the round trip of the ticks, `unmeasured` events that are no samples, by reason.
    `hops` has the hops that were measured at least once. `judged` is the rolling window of the objective's length, with
    the objective's quantile, and `verdict` is the verdict on it. `proven_only` means without quantiles, because ticks
    are too slow for them: `windows` is then empty and `judged` None.
    """

    timespan: HistogramReading
    windows: tuple[WindowReading, ...]
    objective: ObjectiveReading
    unresolved: int
    unmeasured: Mapping[str, int]
    creation: HistogramReading | None
    hops: tuple[HopReading, ...] = ()
    judged: WindowReading | None = None
    verdict: WindowVerdict = WindowVerdict.NO_DATA
    proven_only: bool = False


@dataclass(frozen=True, slots=True)
class HeadroomReading:
    """How far back a watch of one resource may begin before the apiserver answers 410.

    `oldest` is the oldest revision that a watch may begin from, `revisions` its distance from the newest revision (None
    if revisions are no counts) and `seconds` its age; `upper` is infinite where our clock does not reach back that far.
    `complete` is true if the cache has dropped nothing since it started, or nothing lately: the headroom then still
    grows and is longer than this. `list_seconds` is how long a full list takes, None if unknown; `list_measured` is
    false if it was computed from one page.
    """

    oldest: int
    revisions: int | None
    seconds: Interval
    complete: bool
    list_seconds: float | None
    list_measured: bool
    probed_wall: float

    @property
    def fits(self) -> bool | None:
        """True if the headroom outlasts a full list, so that a watch can follow the list; None if unknown."""
        if self.list_seconds is None or self.complete:
            return True if self.complete else None
        if self.seconds.upper < self.list_seconds:
            return False
        return True if self.seconds.lower >= self.list_seconds else None


@dataclass(frozen=True, slots=True)
class TransportReading:
    """The kernel's figures for the connection of an open watch; times in seconds.

    `round_trip` is smoothed. `retransmits` counts segments that we sent again; the apiserver's kernel counts its own.
    `silent` is the time since anything came from the peer, acknowledgements included.
    """

    round_trip: float
    retransmits: int
    silent: float


@dataclass(frozen=True, slots=True)
class FailureReading:
    """The last failure of a watch: its reason in one word and a message in one sentence."""

    reason: str
    message: str
    at_wall: float


@dataclass(frozen=True, slots=True)
class SessionReading:
    """The protocol session of one watch: its state, and how its connections ended.

    `transport` is None unless the watch is open.
    """

    state: str
    strategy: str
    representation: str
    transport: TransportReading | None
    last_failure: FailureReading | None


@dataclass(frozen=True, slots=True)
class ReceivedReading:
    """Everything received on one watch since it was configured; `events` counts by type.

    `last_wall` is when the last byte arrived, `bookmark_age` the seconds since the newest bookmark. `catch_ups` counts
    bursts of events after a pause that began with old ones, while the watch stayed open.
    """

    revision: int | None
    last_wall: float | None
    events: Mapping[str, int]
    bytes: int
    bookmarks: int
    bookmark_age: float | None
    catch_ups: int = 0

    @property
    def changes(self) -> int:
        """The number of live events."""
        return sum(count for type_, count in self.events.items() if type_ != "ERROR")


@dataclass(frozen=True, slots=True)
class ListReading:
    """The lists of one watch: why they were needed and what they returned.

    `relists` counts by reason, `expired` counts 410 answers by phase.
    """

    relists: Mapping[str, int]
    expired: Mapping[str, int]
    items: int = 0
    bytes: int = 0
    pages: int = 0


@dataclass(frozen=True, slots=True)
class GapReading:
    """Revisions and seconds that a watch skipped when it started over; None if revisions are no counts.

    `unseen` counts by kind the objects whose changes the gaps hid, and `objects` the objects in the inventory; both are
    None without an inventory.
    """

    revisions: int | None = 0
    seconds: float = 0.0
    unseen: Mapping[str, int] | None = None
    objects: int | None = None


@dataclass(frozen=True, slots=True)
class AuditReading:
    """Findings of the audits of one watch; `result` is that of the last audit.

    `stalled_for` is the age of the oldest event that the watch withholds, or the seconds since the cache froze: None
    unless the watch is stalled.
    """

    result: str | None = None
    stalls: int = 0
    stalled_for: float | None = None


class Guarantee(StrEnum):
    """What a watch guarantees; etcd has the names (`tests/robustness/validate/watch.go`)."""

    ORDERED = "ordered"  # revisions never decrease
    UNIQUE = "unique"  # no change comes twice
    BOOKMARKABLE = "bookmarkable"  # after a bookmark, no event at or below its revision; and it never goes back
    RESUMABLE = "resumable"  # it begins with the first change after the requested revision
    RELIABLE = "reliable"  # no change is missing between two that were delivered
    TYPED = "typed"  # ADDED only of what was unknown, MODIFIED and DELETED only of what was known
    FILTERED = "filtered"  # everything that its selectors select, and nothing else


@dataclass(frozen=True, slots=True)
class GuaranteeReading:
    """How often each guarantee of a watch was checked, and violated, by its name.

    A guarantee that this watch cannot be checked for is absent.
    """

    checked: Mapping[str, int]
    violations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CacheReading:
    """The age of the apiserver's cache behind one watch, in seconds.

    `probed` is true while the cache is read regularly to tell the hops apart; `behind` is then its highest age in the
    last seconds and `round_trip` the median duration of these reads. `behind_peers` is how long the same watch at
    another apiserver has had an event that this watch lacks: 0 if there is no such event, None without such a watch.
    `exists` says whether the apiserver has such a cache, `found` that the apiserver itself has shown that; otherwise
    it is assumed as usual.
    """

    probed: bool = False
    behind: Interval | None = None
    round_trip: float | None = None
    behind_peers: float | None = None
    exists: bool = True
    found: bool = False


@dataclass(frozen=True, slots=True)
class ExcessReading:
    """How much later events arrived in the last minute than at the apiserver that delivered each first, in seconds.

    `events` is how many were compared.
    """

    events: int
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class OutcomeReading:
    """What became of requests: durations of lists by strategy, of openings of watches, and lifetimes of watches.

    `closed` counts ended watches by (class, reason), and `failed_lists` counts by (strategy, reason) without those that
    watchslo gave up for its own reasons. `fallbacks` counts lists that used the fallback of their strategy, and
    `initial_events` the events of streamed lists.
    """

    lists: Mapping[str, HistogramReading]
    opens: HistogramReading
    lifetimes: HistogramReading
    closed: Mapping[tuple[str, str], int]
    failed_lists: Mapping[tuple[str, str], int]
    fallbacks: int = 0
    initial_events: int = 0


@dataclass(frozen=True, slots=True)
class ReplayReading:
    """The past that one watch read again: the number of its `events` that were there before the watch began.

    `obstacle` is a sentence if no oldest revision was found, so that the watch began now; else None.
    """

    events: int
    obstacle: str | None


class DelayPartName(StrEnum):
    """The parts of a delay that the apiserver's own metrics tell apart."""

    STORAGE_TO_CACHE = "storage_to_cache"
    DISPATCH = "dispatch"
    REST = "rest"


@dataclass(frozen=True, slots=True)
class DelayPart:
    """A part of a delay, in seconds, what it contains, and how it is known: `source` is what measured it."""

    name: DelayPartName
    seconds: float
    contains: str
    source: str


@dataclass(frozen=True, slots=True)
class DelayBreakdown:
    """The quantile `q` of the last minute of a watch, in seconds, as the sum of parts.

    Quantiles do not add up exactly. So each part is at most what the parts before it leave, and the rest is what is
    left.
    """

    q: float
    seconds: float
    parts: tuple[DelayPart, ...]


@dataclass(frozen=True, slots=True)
class ReferenceReading:
    """The watch of whole objects next to a watch: what it received, and what is wrong with it now, in a sentence.

    `unmeasured` counts by reason the events that have no delay. `withheld` is for how many seconds it has not delivered
    an event that the small watch has delivered.
    """

    up: bool
    representation: str
    events: int
    bytes: int
    unmeasured: Mapping[str, int]
    withheld: float
    failure: str | None


@dataclass(frozen=True, slots=True)
class WatchReading:
    """One watch of one resource at one apiserver.

    `membership` relates its revisions to the clock of `domain`: `pending` (not known yet), `member`, `foreign` (needs a
    clock of its own) or `unparsable` (the revisions are not numbers). `headroom` is None until it was measured, and
    `behind_fastest` unless enough events also arrived from another apiserver. `unresponsive` is true while the
    apiserver answers nothing; the watch is then not `up`, though its connection may be open. `down_for` is for how many
    seconds it has been unresponsive, or the watch closed; None unless its other clients' must be closed as well.
    `replay` is None unless the watch read the past again, `breakdown` unless the metrics of its apiserver are read, and
    `reference` without a watch of whole objects next to it.
    """

    watch: str
    group: str
    resource: str
    apiserver: str
    domain: str
    membership: str
    up: bool
    session: SessionReading
    received: ReceivedReading
    lists: ListReading
    gaps: GapReading
    guarantees: GuaranteeReading
    audit: AuditReading
    cache: CacheReading
    outcomes: OutcomeReading
    headroom: HeadroomReading | None
    track: TrackReading
    down_for: float | None = None
    unresponsive: bool = False
    behind_fastest: ExcessReading | None = None
    replay: ReplayReading | None = None
    breakdown: DelayBreakdown | None = None
    reference: ReferenceReading | None = None

    @property
    def measurable(self) -> bool:
        """Return False if its revisions are no numbers: it is set aside, which is no outage."""
        return self.membership != "unparsable"


@dataclass(frozen=True, slots=True)
class TickerReading:
    """The ticks of one clock through one apiserver: `ticks` counts by result, `round_trips` in seconds.

    `answered_ago` is the seconds since the last answer, `failure` the reason in a sentence while ticks fail. It is
    `unusable` if ticks are answered, but not by a revision. `confirmed` is true once the ticks are known to read this
    clock's storage: only then they count. `gap` is the mean time between two ticks, in seconds. `polls` says that the
    apiserver finds the commits of other servers by a poll, which each tick starts at once.
    """

    apiserver: str
    ticks: Mapping[str, int]
    round_trips: HistogramReading
    median_round_trip: float | None
    answered_ago: float | None
    failure: str | None
    confirmed: bool
    gap: float = 0.5
    polls: bool = False
    unusable: bool = False


class ReadUse(StrEnum):
    """What a consistent read that is no tick was for, or that it contradicted the ticks and was dropped."""

    NUDGE = "nudge"
    PROBE = "probe"
    LIST = "list"
    CONTRADICTED = "contradicted"


class BurstReason(StrEnum):
    """Why ticks are sent more often: a watch is late without a known cause, or its bounds straddle the threshold."""

    LATE = "late"
    STRADDLES = "straddles"


@dataclass(frozen=True, slots=True)
class BurstWish:
    """For how many seconds ticks should be sent more often, and why."""

    reason: BurstReason
    seconds: float


class StorageKind(StrEnum):
    """What the revisions of a storage are: counts as in etcd, commit times, or counts of kine in an SQL database."""

    SEQUENCE = "sequence"
    TIMESTAMP = "timestamp"
    KINE = "kine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DomainReading:
    """One revision clock: the resources it ticks on, the newest revision, the width of the newest commit interval.

    `resolution` is the median round trip of the fastest apiserver's ticks in seconds, or how precisely revisions
    that are times date events, if that is better: shorter latencies cannot be distinguished. It is None before the
    first tick. `hidden` is what ticks hid of a P99 of the last minute, in seconds. `reads` are consistent reads
    that are no ticks, by their use, `bursts` the bursts that began, by their reason, and `burst_ticks` the ticks
    that were sent in them.
    """

    name: str
    ticks_on: tuple[str, ...]
    revision: int | None
    kind: StorageKind
    interval: float | None
    resets: int
    resolution: float | None
    tickers: tuple[TickerReading, ...]
    hidden: float = 0.0
    reads: Mapping[str, int] = field(default_factory=dict)
    bursts: Mapping[str, int] = field(default_factory=dict)
    burst_ticks: int = 0


@dataclass(frozen=True, slots=True)
class TimeTravelReading:
    """Answers of an apiserver that were older than an earlier answer: how many, and how far back in total.

    `revisions` is None if revisions are no counts.
    """

    count: int = 0
    revisions: int | None = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    """What an apiserver counted of one resource between two reads of its metrics.

    `received` events reached its watch cache, `terminated` watches were closed because they did not take their events,
    and `parked` watches wait for that at the second read. `dispatch` has by stage how long events took within the
    apiserver, in seconds. Its watch cache `advanced` by so many revisions; None if the apiserver does not say.
    """

    received: int = 0
    terminated: int = 0
    parked: int = 0
    dispatch: Mapping[str, HistogramReading] = field(default_factory=dict)
    advanced: int | None = None


@dataclass(frozen=True, slots=True)
class ApiserverFigures:
    """What one apiserver process counted in `seconds`, between two reads of its metrics; the first was `since_wall`.

    `etcd` are requests for single objects, `read_wait` waits of consistent reads for the watch cache, `conversion`
    calls of conversion webhooks, and `admission` calls of validating webhooks: durations in seconds, None if there were
    none. `listed` objects were sent by lists and as initial events, None if the apiserver does not count them;
    `rejected` requests were refused. `inflight` and `queued` are the requests at the second read, None if not known,
    and `cpu` is the mean number of busy cores. `resources` has the watched resources, as kubectl names them.
    """

    since_wall: float
    seconds: float
    etcd: HistogramReading | None = None
    read_wait: HistogramReading | None = None
    conversion: HistogramReading | None = None
    admission: HistogramReading | None = None
    listed: int | None = None
    rejected: int = 0
    inflight: int | None = None
    queued: int | None = None
    cpu: float | None = None
    resources: Mapping[str, ResourceFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApiserverMetricsReading:
    """The metrics that an apiserver publishes of itself: the newest page, and what changed between two reads.

    `obstacle` says in a sentence why there are no new figures; None if there are. `processes` is how many processes
    may answer at the address, several behind a load balancer. `size` is the page's, in bytes. `recent` covers the time
    between the two newest reads of one process, `minute` about a minute; they are None until there are two.
    """

    obstacle: str | None = None
    processes: int = 0
    size: int = 0
    recent: ApiserverFigures | None = None
    minute: ApiserverFigures | None = None


class ApiserverRole(StrEnum):
    """What an apiserver is asked for: watches of its resources, only its number and addresses, or only ticks."""

    MEMBER = "member"
    SERVICE = "service"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class ApiserverReading:
    """One apiserver and the requests to it: `requests` counts by (kind, code), `audits` by result.

    `not_ready` counts the 429s of watch caches that were not ready. `unproven` says why its revisions cannot be trusted
    to be etcd's; None if they can. `peers` is how many apiservers its address stands for, None if unknown. `offset` is
    its wall clock minus ours, `offset_steps` how often that jumped. `unresponsive_for` is for how many seconds it has
    sent nothing although it was asked, None while it answers; `refuses` says that it refuses connections, and
    `withdrawn` that the cluster announces it no more. `combined` is the last minute of all its watches measured by the
    ticks of all apiservers, `alone` by its own ticks only; both are None unless several apiservers tick. `checked`
    counts the checks of guarantees of watches that have ended. `own_metrics` is None unless they are read.
    """

    name: str
    role: ApiserverRole
    version: str | None
    peers: int | None
    unproven: str | None
    offset: Interval | None
    offset_steps: int
    time_travel: TimeTravelReading
    combined: WindowReading | None
    alone: WindowReading | None
    requests: Mapping[tuple[str, str], int]
    audits: Mapping[str, int]
    outcomes: OutcomeReading
    not_ready: int = 0
    unresponsive_for: float | None = None
    refuses: bool = False
    withdrawn: bool = False
    checked: Mapping[str, int] = field(default_factory=dict)
    own_metrics: ApiserverMetricsReading | None = None

    @property
    def watched(self) -> bool:
        """Whether its resources are watched."""
        return self.role is ApiserverRole.MEMBER


@dataclass(frozen=True, slots=True)
class BuildReading:
    """The running code: its version, the revision of its source (`unknown` outside an image), Python's version."""

    version: str
    revision: str
    python_version: str


@dataclass(frozen=True, slots=True)
class ShardReading:
    """The shard of this instance: shard `index` of `count`; `elsewhere` counts the watches of the other shards."""

    index: int
    count: int
    elsewhere: int


@dataclass(frozen=True, slots=True)
class WitnessReading:
    """The announced apiservers that are not watched: how many there are, and how many answer and so are witnesses.

    `why` is the reason in a sentence if some do not answer, or if the addresses cannot be read.
    """

    announced: int
    reached: int
    why: str | None


@dataclass(frozen=True, slots=True)
class IncompleteGroup:
    """An API group or group version of which some resources may be unknown; `why` is a sentence."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """The daemon itself: its lag, its configuration and its readiness; `not_ready` has the reasons, in sentences.

    A stalled watch is found within `stall_detection` seconds; None if audits are off. `tainted_seconds` is the total
    time in which the daemon was late itself. `threshold`, `events_target` and `minutes_target` are those of the common
    objective, which a watch may override. `witnesses` is None if none are wanted. `incomplete_groups` are those
    that discovery could not read completely. `missing` says in sentences which configured resources are not served.
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
    witnesses: WitnessReading | None = None
    instance: InstanceName = UNNAMED
    incomplete_groups: tuple[IncompleteGroup, ...] = ()
    missing: tuple[str, ...] = ()


class Cause(StrEnum):
    """The named reasons for lateness."""

    MONITOR_OVERLOADED = "monitor_overloaded"
    STORAGE_POLLER = "storage_poller"
    STORAGE_SLOW = "storage_slow"
    CACHE_BEHIND = "cache_behind"
    RESOURCE_DECODING = "resource_decoding"
    APISERVER_SENDING = "apiserver_sending"
    RESOURCE_FANOUT = "resource_fanout"
    BANDWIDTH = "bandwidth"
    RELIST_STORM = "relist_storm"
    HEADROOM_SHORT = "headroom_short"
    WRITE_PATH = "write_path"
    STALLED_STREAM = "stalled_stream"
    PARKED_WATCH = "parked_watch"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How certain a cause is: `high` if no other named cause fits."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class CauseReading:
    """An active cause. `apiserver` and `watch` name the one affected; None means all.

    `evidence` states the facts behind it, `next` what to look at; both are sentences.
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
    """All readings of one moment; `causes` has the active causes, the most certain first.

    `overall` is the verdict of the newest account of the timeline; None before the first.
    A snapshot that is served has the watches of the last evaluation, which was at `at_wall`, and newer readings of the
    daemon, the apiservers and the domains.
    """

    at_wall: float
    monitor: MonitorReading
    apiservers: tuple[ApiserverReading, ...]
    domains: tuple[DomainReading, ...]
    watches: tuple[WatchReading, ...]
    causes: tuple[CauseReading, ...] = ()
    overall: OverallVerdict | None = None
