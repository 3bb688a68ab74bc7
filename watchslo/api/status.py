"""`/api/v1/status`: the complete status of a daemon.

No object's name is in it, except those of the pod, the node and the apiservers that identify this instance. The parts
are separate from the readings so that readings may change while v1 stays the same.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from watchslo.api.part import ApiPart, Convert, From, Time, one_of
from watchslo.changes import quantile
from watchslo.diagnose.own_figures import TOTAL
from watchslo.model import resource_key
from watchslo.snapshot import (
    ApiserverRole,
    Cause,
    Confidence,
    DelayPartName,
    HistogramReading,
    Hop,
    OverallVerdict,
    ReactionStep,
    StorageKind,
    StoreVerdict,
    WindowVerdict,
)
from watchslo.timeline.condition import Condition
from watchslo.timeline.verdict import Level

# --- what fields are made of ------------------------------------------------------------------------------------------


def rows(form: type[ApiPart]) -> Convert:
    """Return what turns counts by pairs, which cannot be JSON keys, into parts: the pair, and the count."""

    def convert(counts: Mapping[tuple[str, str], int]) -> tuple[ApiPart, ...]:
        names = form.__struct_fields__
        return tuple(form(**dict(zip(names, (*pair, count), strict=True))) for pair, count in counts.items())

    return convert


def _digits(revision: int | None) -> str | None:
    """Return a revision as text: JavaScript rounds numbers above 2^53."""
    return None if revision is None else str(revision)


def _p99(histogram: HistogramReading | None) -> float | None:
    return quantile(histogram, 0.99) if histogram else None


def _p99_of_total(dispatch: Mapping[str, HistogramReading]) -> float | None:
    return _p99(dispatch.get(TOTAL))


# --- the parts --------------------------------------------------------------------------------------------------------


class IntervalStatus(ApiPart, frozen=True, kw_only=True):
    """An interval in seconds; `upper` is null if it is infinite."""

    lower: float
    upper: float | None = None


class BuildStatus(ApiPart, frozen=True, kw_only=True):
    """The running code."""

    version: str
    revision: str = ""
    python_version: str = ""


class ShardStatus(ApiPart, frozen=True, kw_only=True):
    """The shard of this instance: `index` (from 0) of `count`; `elsewhere` counts the watches of other shards."""

    index: int = 0
    count: int = 1
    elsewhere: int = 0


class WitnessStatus(ApiPart, frozen=True, kw_only=True):
    """The announced apiservers that are not watched; those that are `reached` are ticked on. `why` others are not."""

    announced: int
    reached: int
    why: str | None = None


class InstanceStatus(ApiPart, frozen=True, kw_only=True):
    """Which instance this is: `host` is its pod or machine, `cluster` the configured name of the cluster or a default.

    `part` is what it measures if other instances measure the rest, `node` is set if that is one node, and `view` is the
    configured URL of the page of all instances.
    """

    cluster: str | None = None
    part: str | None = None
    node: str | None = None
    host: str = ""
    view: str | None = None


class IncompleteGroupStatus(ApiPart, frozen=True, kw_only=True):
    """An API group or group version of which some resources may be unknown, and why."""

    name: str
    why: str


class MonitorStatus(ApiPart, frozen=True, kw_only=True):
    """The daemon itself. It is ready if `notReady` is empty.

    A stalled watch is found within `stallDetection` seconds; null if audits are off. `witnesses` is null if none are
    wanted. `incompleteGroups` are the API groups that discovery could not read completely.
    """

    build: BuildStatus
    cluster: str | None = None
    started_at: Annotated[Time, From("started_wall")]
    not_ready: tuple[str, ...] = ()
    paused: bool = False
    stall_detection: float | None = None
    tainted_seconds: float
    reload_succeeded: bool = True
    reloaded_at: Annotated[Time, From("reloaded_wall")]
    shard: ShardStatus = ShardStatus()
    witnesses: WitnessStatus | None = None
    instance: InstanceStatus = InstanceStatus()
    incomplete_groups: tuple[IncompleteGroupStatus, ...] = ()
    missing: tuple[str, ...] = ()


class RequestCount(ApiPart, frozen=True, kw_only=True):
    """The number of requests of one kind with one status code or failure."""

    kind: str
    code: str
    count: int


class QuantileStatus(ApiPart, frozen=True, kw_only=True):
    """A quantile in seconds; if `resolved` is false, it is below its `resolution` and not a measurement.

    `lower` and `upper` are proven bounds of the window's true quantile; `upper` is null if it is infinite. `estimate`
    is `rough` if the events do not determine it: it may be more than a quarter, and 10 ms, off. The quantile 0.999
    needs 1,000 events. `probable` holds the true quantile in about 90% of windows; null without an estimate. If
    revisions are commit times, one is enough, and the quantile 1 is the maximum.
    """

    q: float
    lower: float
    estimate: float | None = None
    upper: float | None = None
    resolved: bool = True
    resolution: float = 0.0
    rough: bool = False
    probable: IntervalStatus | None = None


class WindowStatus(ApiPart, frozen=True, kw_only=True):
    """A rolling window: its length in seconds, its number of events, their quantiles."""

    name: str
    length: float
    events: int
    quantiles: tuple[QuantileStatus, ...] = ()


class OwnResourceStatus(ApiPart, frozen=True, kw_only=True):
    """What an apiserver counted of one resource; see `OwnFiguresStatus`."""

    received: int
    terminated: int
    parked: int
    dispatch_p99: Annotated[float | None, From("dispatch", _p99_of_total)] = None


class OwnFiguresStatus(ApiPart, frozen=True, kw_only=True):
    """What one process of an apiserver counted of itself in the last `seconds`; beta, so keys may change.

    Durations are P99 in seconds, null without observations: `etcd` of requests for single objects, `readWait` of reads
    that waited for the watch cache, `conversion` and `admission` of webhooks. `listed` objects were sent by lists and
    as initial events, `rejected` requests were refused; `inflight` and `queued` are present requests, `cpu` is the mean
    number of busy cores. Of each watched resource, `received` events reached the watch cache, `terminated` watches were
    closed and `parked` ones wait because their clients are too slow, and `dispatchP99` is how long events took within
    the apiserver.
    """

    seconds: float
    etcd_p99: Annotated[float | None, From("etcd", _p99)] = None
    read_wait_p99: Annotated[float | None, From("read_wait", _p99)] = None
    conversion_p99: Annotated[float | None, From("conversion", _p99)] = None
    admission_p99: Annotated[float | None, From("admission", _p99)] = None
    listed: int | None = None
    rejected: int
    inflight: int | None = None
    queued: int | None = None
    cpu: float | None = None
    resources: dict[str, OwnResourceStatus] = {}


class OwnMetricsStatus(ApiPart, frozen=True, kw_only=True):
    """The metrics that an apiserver publishes of itself, of the last minute; beta, so keys may change.

    `obstacle` says why there are no new figures, `processes` is how many processes may answer at the address, and
    `size` is that of the page in bytes.
    """

    obstacle: str | None = None
    processes: int
    size: int
    minute: OwnFiguresStatus | None = None


class ApiserverStatus(ApiPart, frozen=True, kw_only=True):
    """One apiserver; `unproven` says why its revisions cannot be trusted, `offset` is its wall clock minus ours.

    `role` is `member` if its resources are `watched`, `witness` if it is only ticked on, and `service` for the service
    if each apiserver behind it is watched by itself; `peers` is how many apiservers its address stands for. `audits`
    counts by result. `combined` is the last minute of all its watches by the ticks of all apiservers, `alone` by its
    own ticks only; both are null unless several apiservers tick. `timeTravel` counts answers older than an earlier
    answer; `timeTravelRevisions` and `timeTravelSeconds` are how far back in total. `unresponsiveFor` is for how many
    seconds it has sent nothing although it was asked; null while it answers. `refuses` says that it refuses
    connections, and `withdrawn` that the cluster announces it no more. `ownMetrics` (beta) is null unless the metrics
    that it publishes of itself are read.
    """

    name: str
    role: Annotated[str, one_of(ApiserverRole)] = ApiserverRole.MEMBER.value
    version: str | None = None
    watched: bool = True
    peers: int | None = None
    unproven: str | None = None
    offset: IntervalStatus | None = None
    offset_steps: int = 0
    time_travel: Annotated[int, From("time_travel.count")] = 0
    time_travel_revisions: Annotated[int | None, From("time_travel.revisions")] = None
    time_travel_seconds: Annotated[float, From("time_travel.seconds")] = 0.0
    combined: WindowStatus | None = None
    alone: WindowStatus | None = None
    requests: Annotated[tuple[RequestCount, ...], From("requests", rows(RequestCount))] = ()
    audits: dict[str, int] = {}
    unresponsive_for: float | None = None
    refuses: bool = False
    withdrawn: bool = False
    own_metrics: OwnMetricsStatus | None = None


class TickerStatus(ApiPart, frozen=True, kw_only=True):
    """The ticks through one apiserver; they count only once they are known to read this clock's storage.

    `answeredAgo` is the seconds since the last answer, `failure` the reason while ticks fail. `polls` says that the
    apiserver finds the commits of other servers by a poll.
    """

    apiserver: str
    polls: bool = False
    ticks: dict[str, int] = {}
    median_round_trip: float | None = None
    answered_ago: float | None = None
    failure: str | None = None
    vouched: Annotated[bool, From("confirmed")] = False


class ExcessStatus(ApiPart, frozen=True, kw_only=True):
    """How much later events arrived in the last minute than at the apiserver that delivered each first, in seconds."""

    events: int
    p50: float
    p99: float


class DomainStatus(ApiPart, frozen=True, kw_only=True):
    """One revision clock; `interval` is the width of the newest commit interval, `reads` and `bursts` are counts.

    `resolution` is the median round trip of the fastest apiserver's ticks, or how precisely revisions that are times
    date events, if that is better: shorter latencies cannot be measured. `medianRoundTrip` is its former name.
    `hidden` is what ticks hid of a P99 of the last minute, in seconds. `kind` says what revisions are: sequence,
    timestamp, kine or unknown.
    """

    name: str
    ticks_on: tuple[str, ...] = ()
    revision: Annotated[str | None, From("revision", _digits)] = None
    kind: Annotated[str, one_of(StorageKind)] = StorageKind.UNKNOWN.value
    interval: float | None = None
    resets: int = 0
    resolution: float | None = None
    median_round_trip: Annotated[float | None, From("resolution")] = None
    hidden: float = 0.0
    reads: dict[str, int] = {}
    bursts: dict[str, int] = {}
    burst_ticks: int = 0
    tickers: tuple[TickerStatus, ...] = ()


class ObjectiveStatus(ApiPart, frozen=True, kw_only=True):
    """The objective in force; `verdicts` counts events, and `windows` counts windows.

    `quantile` and `window`, in seconds, say which figure is compared with `threshold`.
    """

    threshold: float
    quantile: float
    window: float
    events_target: float
    minutes_target: float
    min_events: int
    verdicts: dict[str, int] = {}
    windows: dict[str, int] = {}


class HopLatency(ApiPart, frozen=True, kw_only=True):
    """How long one hop took; `events` counts the events whose hop was measured."""

    hop: Annotated[str, one_of(Hop)]
    events: Annotated[int, From("histogram.total")]
    windows: tuple[WindowStatus, ...] = ()


class LatencyStatus(ApiPart, frozen=True, kw_only=True):
    """The latency of one watch; `events` counts samples, `unmeasured` counts by reason events that are not samples.

    `hops` has the hops that were measured at least once. `judged` is the rolling window of the objective's length; it
    has the objective's quantile, and `verdict` is the verdict on it.
    """

    events: Annotated[int, From("timespan.total")] = 0
    unresolved: int = 0
    unmeasured: dict[str, int] = {}
    windows: tuple[WindowStatus, ...] = ()
    judged: WindowStatus | None = None
    verdict: Annotated[str, one_of(WindowVerdict)] = WindowVerdict.NO_DATA.value
    hops: tuple[HopLatency, ...] = ()
    objective: ObjectiveStatus

    @property
    def decisive(self) -> QuantileStatus | None:
        """The quantile that the objective names, of the window that is judged."""
        quantiles = self.judged.quantiles if self.judged else ()
        return next((quantile for quantile in quantiles if quantile.q == self.objective.quantile), None)


class CloseCount(ApiPart, frozen=True, kw_only=True):
    """The number of watches that ended for one reason."""

    class_: str = msgspec.field(name="class")
    reason: str
    count: int


class ListFailureCount(ApiPart, frozen=True, kw_only=True):
    """The number of lists by one strategy that failed for one reason."""

    strategy: str
    reason: str
    count: int


class FailureStatus(ApiPart, frozen=True, kw_only=True):
    """The last failure."""

    reason: str
    message: str
    at: Annotated[Time, From("at_wall")]


class HeadroomStatus(ApiPart, frozen=True, kw_only=True):
    """The headroom of one resource: how far back a watch may begin before a 410, in `seconds` and in `revisions`.

    If it is `complete`, the cache has dropped nothing yet and the headroom is longer. `fits` is true if it outlasts a
    full list, which takes `listSeconds`; null if unknown.
    """

    oldest: Annotated[str | None, From("oldest", _digits)] = None
    revisions: int | None = None
    seconds: IntervalStatus
    complete: bool
    list_seconds: float | None = None
    list_measured: bool
    fits: bool | None = None
    probed_at: Annotated[Time, From("probed_wall")]


class TransportStatus(ApiPart, frozen=True, kw_only=True):
    """The kernel's figures for the open watch's connection: round trip and silence in seconds, retransmits."""

    round_trip: float
    retransmits: int
    silent: float


class GuaranteeStatus(ApiPart, frozen=True, kw_only=True):
    """How often each guarantee of a watch was checked and violated: events, or openings for `resumable`."""

    checked: dict[str, int] = {}
    violations: dict[str, int] = {}


class DelayPartStatus(ApiPart, frozen=True, kw_only=True):
    """A part of a delay in seconds, what it contains, and what measured it; the remainder is what is left."""

    name: Annotated[str, one_of(DelayPartName)]
    seconds: float
    contains: str
    source: str


class BreakdownStatus(ApiPart, frozen=True, kw_only=True):
    """The quantile `q` of the last minute, in seconds, as a sum of parts; beta, so keys may change."""

    q: float
    seconds: float
    parts: tuple[DelayPartStatus, ...] = ()


class ReferenceStatus(ApiPart, frozen=True, kw_only=True):
    """The watch of whole objects next to a watch, and what is wrong with it, in a sentence.

    `unmeasured` counts by reason the events that have no delay. `withheld` is for how many seconds it has not delivered
    an event that the watch has delivered.
    """

    up: bool
    representation: str
    events: int
    bytes: int
    unmeasured: dict[str, int] = {}
    withheld: float
    failure: str | None = None


class WatchStatus(ApiPart, frozen=True, kw_only=True):
    """One watch; `membership` says how its revisions relate to the clock of its domain.

    `catchUps` counts bursts of events after a pause that began with old ones, while the watch stayed open.
    `condition` is what the page and `top` call its state now: `late`, `within`, `idle` and others.
    `downFor` is for how many seconds the watch has been closed, null unless its other clients' must be closed as well.
    `unseenChanges`, by kind, and `inventoryObjects` are null without an inventory. `lastAudit` is the result of the
    last audit; `stalledFor` is null unless the watch is stalled. `cached` says whether the apiserver has a watch cache
    of the resource, `cachedFound` that the apiserver has shown that; otherwise it is assumed as usual. `probed` is true
    while that cache is read regularly, `cacheBehind` is its highest age in the last seconds, `cacheRoundTrip` the
    duration of such a read. `behindPeers` is how long the same watch at another apiserver has had an event that this
    watch lacks; null without such a watch. `behindFastest` says how much later its events arrived than at the fastest
    apiserver; null unless enough of them also arrived from another one. `breakdown` (beta) is null unless the metrics
    of the apiserver are read and divide the delay. `reference` is null unless whole objects are watched next to this
    watch.
    """

    watch: str
    group: str
    resource: str
    apiserver: str
    condition: Annotated[str, one_of(Condition)] = Condition.NOT_MEASURED.value
    state: Annotated[str, From("session.state")]
    strategy: Annotated[str, From("session.strategy")] = ""
    representation: Annotated[str, From("session.representation")] = ""
    domain: str
    membership: str
    up: bool
    down_for: float | None = None
    revision: Annotated[str | None, From("received.revision", _digits)] = None
    last_received_at: Annotated[Time | None, From("received.last_wall")] = None
    events: Annotated[dict[str, int], From("received.events")] = {}
    bytes: Annotated[int, From("received.bytes")] = 0
    bookmarks: Annotated[int, From("received.bookmarks")] = 0
    bookmark_age: Annotated[float | None, From("received.bookmark_age")] = None
    catch_ups: Annotated[int, From("received.catch_ups")] = 0
    closed: Annotated[tuple[CloseCount, ...], From("outcomes.closed", rows(CloseCount))] = ()
    relists: Annotated[dict[str, int], From("lists.relists")] = {}
    expired: Annotated[dict[str, int], From("lists.expired")] = {}
    list_items: Annotated[int, From("lists.items")] = 0
    list_bytes: Annotated[int, From("lists.bytes")] = 0
    list_pages: Annotated[int, From("lists.pages")] = 0
    list_fallbacks: Annotated[int, From("outcomes.fallbacks")] = 0
    initial_events: Annotated[int, From("outcomes.initial_events")] = 0
    lists_failed: Annotated[tuple[ListFailureCount, ...], From("outcomes.failed_lists", rows(ListFailureCount))] = ()
    gap_revisions: Annotated[int | None, From("gaps.revisions")] = None
    gap_seconds: Annotated[float, From("gaps.seconds")] = 0.0
    unseen_changes: Annotated[dict[str, int] | None, From("gaps.unseen")] = None
    inventory_objects: Annotated[int | None, From("gaps.objects")] = None
    last_audit: Annotated[str | None, From("audit.result")] = None
    stalls: Annotated[int, From("audit.stalls")] = 0
    stalled_for: Annotated[float | None, From("audit.stalled_for")] = None
    guarantees: GuaranteeStatus = GuaranteeStatus()
    cached: Annotated[bool, From("cache.exists")] = True
    cached_found: Annotated[bool, From("cache.found")] = False
    probed: Annotated[bool, From("cache.probed")] = False
    cache_behind: Annotated[IntervalStatus | None, From("cache.behind")] = None
    cache_round_trip: Annotated[float | None, From("cache.round_trip")] = None
    behind_peers: Annotated[float | None, From("cache.behind_peers")] = None
    behind_fastest: ExcessStatus | None = None
    breakdown: BreakdownStatus | None = None
    reference: ReferenceStatus | None = None
    headroom: HeadroomStatus | None = None
    transport: Annotated[TransportStatus | None, From("session.transport")] = None
    last_failure: Annotated[FailureStatus | None, From("session.last_failure")] = None
    latency: Annotated[LatencyStatus, From("track")]


class CauseStatus(ApiPart, frozen=True, kw_only=True):
    """An active cause. `apiserver` and `watch` name the one affected; null means all.

    `heading` says it in words, `evidence` states the facts, `next` what to look at; the last two are sentences.
    """

    cause: Annotated[str, one_of(Cause)]
    apiserver: str | None = None
    watch: str | None = None
    confidence: Annotated[str, one_of(Confidence)]
    since: Annotated[Time, From("since_wall")]
    heading: str = "Likely cause"
    evidence: str
    next: str

    @property
    def sentence(self) -> str:
        """All of it in a line: `Likely cause (high): slow storage. Lists wait. (storage_slow) Check its disks.`."""
        return f"{self.heading}. {self.evidence} ({self.cause}) {self.next}"


class VerdictStatus(ApiPart, frozen=True, kw_only=True):
    """The verdict on all watches; `text` stays while nothing changes, `figures` are the current ones, or empty."""

    verdict: Annotated[str, one_of(OverallVerdict)]
    level: Annotated[str, one_of(Level)]
    text: str
    figures: str = ""
    since: Annotated[Time | None, From("since_wall")] = None


class SelfCheckStatus(ApiPart, frozen=True, kw_only=True):
    """A condition that must hold for the figures to be right."""

    name: str
    level: Annotated[str, one_of(Level)]
    text: str


class ReactionStatus(ApiPart, frozen=True, kw_only=True):
    """How long after a change was asked for the `responsible` component acted, in one step of one resource.

    `events` and `quantiles` are those of the last `window` seconds; times run from commit to commit. `pending` objects
    wait for the step, the oldest for `oldestPending` seconds; both are null while the watch is not known to be current.
    `unmeasured` counts by reason what is no sample. `slow` says that P99 is proven to be above the `threshold`, in
    seconds, or that the oldest waits for longer; both are null if the step is not judged.
    """

    group: str
    resource: str
    step: Annotated[str, one_of(ReactionStep)]
    responsible: str
    window: float
    events: int
    quantiles: tuple[QuantileStatus, ...] = ()
    pending: int | None = None
    oldest_pending: float | None = None
    unmeasured: dict[str, int] = {}
    threshold: float | None = None
    slow: bool | None = None

    @property
    def name(self) -> str:
        """The resource as kubectl names it."""
        return resource_key(self.resource, self.group)


class InformerStatus(ApiPart, frozen=True, kw_only=True):
    """The caches of one resource in a client; `staleness` bounds for how long the worst of them has lacked an event.

    `staleness` is null if nothing is known. `queued` items have arrived and wait for the cache; null if the client does
    not say.
    """

    group: str
    resource: str
    verdict: Annotated[str, one_of(StoreVerdict)]
    staleness: IntervalStatus | None = None
    queued: int | None = None

    @property
    def name(self) -> str:
        """The resource as kubectl names it."""
        return resource_key(self.resource, self.group)


class ClientStatus(ApiPart, frozen=True, kw_only=True):
    """A program whose informers are timed (beta); `reads` counts the reads of its page by the worst verdict.

    `informers` are those of the last page, `unknown` counts its caches that are not judged, by reason. `obstacle` says
    what is wrong now.
    """

    client: str
    reads: dict[str, int] = {}
    informers: tuple[InformerStatus, ...] = ()
    unknown: dict[str, int] = {}
    obstacle: str | None = None


class StatusDocument(ApiPart, frozen=True, kw_only=True, tag_field="apiVersion", tag="v1"):
    """The complete status. Fields may be added; none changes its meaning within `v1`.

    `verdict` is the verdict on all watches, `trust` says whether watchslo itself may be late; both are null before the
    first evaluation. `causes` has the most certain cause first. `streams` and `causes` are those of the last
    evaluation, which was at `at`; all else is at most a second old.
    """

    at: Annotated[Time, From("at_wall")]
    verdict: VerdictStatus | None = None
    trust: SelfCheckStatus | None = None
    monitor: MonitorStatus
    causes: tuple[CauseStatus, ...]
    apiservers: tuple[ApiserverStatus, ...]
    domains: tuple[DomainStatus, ...]
    reactions: tuple[ReactionStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()
    watches: tuple[WatchStatus, ...]  # the last field: `StatusEncoder` inserts them at the end

    @property
    def cluster(self) -> str | None:
        """The name of the cluster that this instance measures."""
        return self.monitor.instance.cluster or self.monitor.cluster
