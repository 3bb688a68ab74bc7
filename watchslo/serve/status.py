"""`/api/v1/status`: a snapshot as JSON for programs, with camelCase keys as in Kubernetes and times as RFC 3339.

Durations are seconds. An unknown value, and an infinite bound, is null. No object's name is in it, except those of the
pod, the node and the apiservers that identify this instance. The models read the
attributes of the readings; they are separate so that readings may change while v1 stays the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasGenerator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

from watchslo.diagnose.change import quantile
from watchslo.diagnose.own_figures import TOTAL
from watchslo.serve.document import Document, pieces_of
from watchslo.snapshot import (
    ApiserverRole,
    Cause,
    Confidence,
    DelayPartName,
    Guarantee,
    HistogramReading,
    Hop,
    OverallVerdict,
    Snapshot,
    StorageKind,
    StreamReading,
    WindowVerdict,
)
from watchslo.timeline.condition import Condition, Judge
from watchslo.timeline.series import Key
from watchslo.timeline.timeline import Account
from watchslo.timeline.verdict import Level

END = b"]}"  # of the watches and of the document


class StatusPart(BaseModel):
    """Base of all parts of an answer: read from attributes, camelCase in JSON, null for infinite values."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(serialization_alias=to_camel),
        from_attributes=True,
        frozen=True,
        ser_json_inf_nan="null",
    )


def _rows(*columns: str) -> BeforeValidator:
    """Convert counts by tuples, which cannot be JSON keys, to rows of named columns."""

    def rows(counts: Mapping[tuple[str, ...], int]) -> list[dict[str, Any]]:
        return [dict(zip((*columns, "count"), (*key, count), strict=True)) for key, count in counts.items()]

    return BeforeValidator(rows)


Revision = Annotated[str | None, BeforeValidator(lambda known: None if known is None else str(known))]
"""A revision as text: JavaScript rounds numbers above 2^53."""


def _at(*path: str) -> Any:
    """Declare a field that is read from a nested attribute."""
    return Field(validation_alias=AliasPath(path[0], *path[1:]))


def _p99(histogram: HistogramReading | None) -> float | None:
    return quantile(histogram, 0.99) if histogram else None


def _p99_of_total(dispatch: Mapping[str, HistogramReading]) -> float | None:
    return _p99(dispatch.get(TOTAL))


class IntervalStatus(StatusPart):
    """An interval in seconds; `upper` is null if it is infinite."""

    lower: float
    upper: float | None


class Build(StatusPart):
    """The running code."""

    version: str
    revision: str
    python_version: str


class Shard(StatusPart):
    """The shard of this instance: `index` (from 0) of `count`; `elsewhere` counts the watches of other shards."""

    index: int
    count: int
    elsewhere: int


class WitnessStatus(StatusPart):
    """The announced apiservers that are not watched; those that are `reached` are ticked on. `why` others are not."""

    announced: int
    reached: int
    why: str | None


class InstanceStatus(StatusPart):
    """Which instance this is: `host` is its pod or machine, `cluster` the configured name of the cluster or a default.

    `part` is what it measures if other instances measure the rest, `node` is set if that is one node, and `view` is the
    configured URL of the page of all instances.
    """

    cluster: str | None
    part: str | None
    node: str | None
    host: str
    view: str | None


class IncompleteGroupStatus(StatusPart):
    """An API group or group version of which some resources may be unknown, and why."""

    name: str
    why: str


class MonitorStatus(StatusPart):
    """The daemon itself. It is ready if `notReady` is empty.

    A stalled watch is found within `stallDetection` seconds; null if audits are off. `witnesses` is null if none are
    wanted. `incompleteGroups` are the API groups that discovery could not read completely.
    """

    build: Build
    cluster: str | None
    started_at: datetime = Field(validation_alias="started_wall")
    not_ready: list[str]
    paused: bool
    stall_detection: float | None
    tainted_seconds: float
    reload_succeeded: bool
    reloaded_at: datetime = Field(validation_alias="reloaded_wall")
    shard: Shard
    witnesses: WitnessStatus | None
    instance: InstanceStatus
    incomplete_groups: list[IncompleteGroupStatus]
    missing: list[str]


class RequestCount(StatusPart):
    """The number of requests of one kind with one status code or failure."""

    kind: str
    code: str
    count: int


class QuantileStatus(StatusPart):
    """A quantile in seconds; if `resolved` is false, it is below its `resolution` and not a measurement.

    `lower` and `upper` are proven bounds of the window's true quantile; `upper` is null if it is infinite. `estimate`
    is `rough` if the events do not determine it: it may be more than a quarter, and 10 ms, off. The quantile 0.999
    needs 1,000 events. `probable` holds the true quantile in about 90% of windows; null without an estimate. If
    revisions are commit times, one is enough, and the quantile 1 is the maximum.
    """

    q: float
    lower: float
    estimate: float | None
    upper: float | None
    resolved: bool
    resolution: float
    rough: bool
    probable: IntervalStatus | None


class WindowStatus(StatusPart):
    """A rolling window: its length in seconds, its number of events, their quantiles."""

    name: str
    length: float
    events: int
    quantiles: list[QuantileStatus]


class OwnResourceStatus(StatusPart):
    """What an apiserver counted of one resource; see `OwnFiguresStatus`."""

    received: int
    terminated: int
    parked: int
    dispatch_p99: Annotated[float | None, Field(validation_alias="dispatch"), BeforeValidator(_p99_of_total)]


class OwnFiguresStatus(StatusPart):
    """What one process of an apiserver counted of itself in the last `seconds`; beta, so keys may change.

    Durations are P99 in seconds, null without observations: `etcd` of requests for single objects, `readWait` of reads
    that waited for the watch cache, `conversion` and `admission` of webhooks. `listed` objects were sent by lists and
    as initial events, `rejected` requests were refused; `inflight` and `queued` are present requests, `cpu` is the mean
    number of busy cores. Of each watched resource, `received` events reached the watch cache, `terminated` watches were
    closed and `parked` ones wait because their clients are too slow, and `dispatchP99` is how long events took within
    the apiserver.
    """

    seconds: float
    etcd_p99: Annotated[float | None, Field(validation_alias="etcd"), BeforeValidator(_p99)]
    read_wait_p99: Annotated[float | None, Field(validation_alias="read_wait"), BeforeValidator(_p99)]
    conversion_p99: Annotated[float | None, Field(validation_alias="conversion"), BeforeValidator(_p99)]
    admission_p99: Annotated[float | None, Field(validation_alias="admission"), BeforeValidator(_p99)]
    listed: int | None
    rejected: int
    inflight: int | None
    queued: int | None
    cpu: float | None
    resources: dict[str, OwnResourceStatus]


class OwnMetricsStatus(StatusPart):
    """The metrics that an apiserver publishes of itself, of the last minute; beta, so keys may change.

    `obstacle` says why there are no new figures, `processes` is how many processes may answer at the address, and
    `size` is that of the page in bytes.
    """

    obstacle: str | None
    processes: int
    size: int
    minute: OwnFiguresStatus | None


class ApiserverStatus(StatusPart):
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
    role: ApiserverRole
    version: str | None
    watched: bool
    peers: int | None
    unproven: str | None
    offset: IntervalStatus | None
    offset_steps: int
    time_travel: int = _at("time_travel", "count")
    time_travel_revisions: int | None = _at("time_travel", "revisions")
    time_travel_seconds: float = _at("time_travel", "seconds")
    combined: WindowStatus | None
    alone: WindowStatus | None
    requests: Annotated[list[RequestCount], _rows("kind", "code")]
    audits: dict[str, int]
    unresponsive_for: float | None
    refuses: bool
    withdrawn: bool
    own_metrics: OwnMetricsStatus | None


class TickerStatus(StatusPart):
    """The ticks through one apiserver; they count only once they are known to read this clock's storage.

    `answeredAgo` is the seconds since the last answer, `failure` the reason while ticks fail. `polls` says that the
    apiserver finds the commits of other servers by a poll.
    """

    apiserver: str
    polls: bool
    ticks: dict[str, int]
    median_round_trip: float | None
    answered_ago: float | None
    failure: str | None
    vouched: bool = Field(validation_alias="confirmed")


class ExcessStatus(StatusPart):
    """How much later events arrived in the last minute than at the apiserver that delivered each first, in seconds."""

    events: int
    p50: float
    p99: float


class DomainStatus(StatusPart):
    """One revision clock; `interval` is the width of the newest commit interval, `reads` and `bursts` are counts.

    `resolution` is the median round trip of the fastest apiserver's ticks, or how precisely revisions that are times
    date events, if that is better: shorter latencies cannot be distinguished. `medianRoundTrip` is its former name.
    `hidden` is what ticks hid of a P99 of the last minute, in seconds. `kind` says what revisions are: sequence,
    timestamp, kine or unknown.
    """

    name: str
    ticks_on: list[str]
    revision: Revision
    kind: StorageKind
    interval: float | None
    resets: int
    resolution: float | None
    median_round_trip: float | None = _at("resolution")
    hidden: float
    reads: dict[str, int]
    bursts: dict[str, int]
    burst_ticks: int
    tickers: list[TickerStatus]


class ObjectiveStatus(StatusPart):
    """The objective in force; `verdicts` counts events, and `windows` counts windows.

    `quantile` and `window`, in seconds, say which figure is compared with `threshold`.
    """

    threshold: float
    quantile: float
    window: float
    events_target: float
    minutes_target: float
    min_events: int
    verdicts: dict[str, int]
    windows: dict[str, int]


class HopLatency(StatusPart):
    """How long one hop took; `events` counts the events whose hop was measured."""

    hop: Hop
    events: int = _at("histogram", "total")
    windows: list[WindowStatus]


class LatencyStatus(StatusPart):
    """The latency of one watch; `events` counts samples, `unmeasured` counts by reason events that are not samples.

    `hops` has the hops that were measured at least once. `judged` is the rolling window of the objective's length; it
    has the objective's quantile, and `verdict` is the verdict on it.
    """

    events: int = _at("timespan", "total")
    unresolved: int
    unmeasured: dict[str, int]
    windows: list[WindowStatus]
    judged: WindowStatus | None
    verdict: WindowVerdict
    hops: list[HopLatency]
    objective: ObjectiveStatus


class CloseCount(StatusPart):
    """The number of watches that ended for one reason."""

    class_: str = Field(validation_alias="class", serialization_alias="class")
    reason: str
    count: int


class ListFailureCount(StatusPart):
    """The number of lists by one strategy that failed for one reason."""

    strategy: str
    reason: str
    count: int


class FailureStatus(StatusPart):
    """The last failure."""

    reason: str
    message: str
    at: datetime = Field(validation_alias="at_wall")


class HeadroomStatus(StatusPart):
    """The headroom of one resource: how far back a watch may begin before a 410, in `seconds` and in `revisions`.

    If it is `complete`, the cache has dropped nothing yet and the headroom is longer. `fits` is true if it outlasts a
    full list, which takes `listSeconds`; null if unknown.
    """

    oldest: Revision
    revisions: int | None
    seconds: IntervalStatus
    complete: bool
    list_seconds: float | None
    list_measured: bool
    fits: bool | None
    probed_at: datetime = Field(validation_alias="probed_wall")


class TransportStatus(StatusPart):
    """The kernel's figures for the open watch's connection: round trip and silence in seconds, retransmits."""

    round_trip: float
    retransmits: int
    silent: float


class GuaranteeStatus(StatusPart):
    """How often each guarantee of a watch was checked and violated: events, or openings for `resumable`."""

    checked: dict[Guarantee, int]
    violations: dict[Guarantee, int]


class DelayPartStatus(StatusPart):
    """A part of a delay in seconds, what it contains, and what measured it; the remainder is what is left."""

    name: DelayPartName
    seconds: float
    contains: str
    source: str


class BreakdownStatus(StatusPart):
    """The quantile `q` of the last minute, in seconds, as a sum of parts; beta, so keys may change."""

    q: float
    seconds: float
    parts: list[DelayPartStatus]


class ReferenceStatus(StatusPart):
    """The watch of whole objects next to a watch, and what is wrong with it, in a sentence.

    `unmeasured` counts by reason the events that have no delay. `withheld` is for how many seconds it has not delivered
    an event that the watch has delivered.
    """

    up: bool
    representation: str
    events: int
    bytes: int
    unmeasured: dict[str, int]
    withheld: float
    failure: str | None


class StreamStatus(StatusPart):
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
    condition: Condition = Condition.NOT_MEASURED
    state: str = _at("session", "state")
    strategy: str = _at("session", "strategy")
    representation: str = _at("session", "representation")
    domain: str
    membership: str
    up: bool
    down_for: float | None
    revision: Revision = _at("received", "revision")
    last_received_at: datetime | None = _at("received", "last_wall")
    events: dict[str, int] = _at("received", "events")
    bytes: int = _at("received", "bytes")
    bookmarks: int = _at("received", "bookmarks")
    bookmark_age: float | None = _at("received", "bookmark_age")
    catch_ups: int = _at("received", "catch_ups")
    closed: Annotated[list[CloseCount], _rows("class", "reason")] = _at("outcomes", "closed")
    relists: dict[str, int] = _at("lists", "relists")
    expired: dict[str, int] = _at("lists", "expired")
    list_items: int = _at("lists", "items")
    list_bytes: int = _at("lists", "bytes")
    list_pages: int = _at("lists", "pages")
    list_fallbacks: int = _at("outcomes", "fallbacks")
    initial_events: int = _at("outcomes", "initial_events")
    lists_failed: Annotated[list[ListFailureCount], _rows("strategy", "reason")] = _at("outcomes", "failed_lists")
    gap_revisions: int | None = _at("gaps", "revisions")
    gap_seconds: float = _at("gaps", "seconds")
    unseen_changes: dict[str, int] | None = _at("gaps", "unseen")
    inventory_objects: int | None = _at("gaps", "objects")
    last_audit: str | None = _at("audit", "result")
    stalls: int = _at("audit", "stalls")
    stalled_for: float | None = _at("audit", "stalled_for")
    guarantees: GuaranteeStatus
    cached: bool = _at("cache", "exists")
    cached_found: bool = _at("cache", "found")
    probed: bool = _at("cache", "probed")
    cache_behind: IntervalStatus | None = _at("cache", "behind")
    cache_round_trip: float | None = _at("cache", "round_trip")
    behind_peers: float | None = _at("cache", "behind_peers")
    behind_fastest: ExcessStatus | None
    breakdown: BreakdownStatus | None
    reference: ReferenceStatus | None
    history: HeadroomStatus | None = Field(validation_alias="headroom")
    transport: TransportStatus | None = _at("session", "transport")
    last_failure: FailureStatus | None = _at("session", "last_failure")
    latency: LatencyStatus = Field(validation_alias="track")

    @model_validator(mode="wrap")
    @classmethod
    def _judged(cls, stream: StreamReading, read: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Add the condition: one of the conditions in the context, else that of the stream alone."""
        return read(stream).model_copy(update={"condition": condition_of(stream, info.context or {})})


def conditions_in(account: Account | None) -> Mapping[Key, Condition]:
    """Return the condition of each watch as page and verdict have it; empty before the first account."""
    lines = account.lines if account else ()
    return {(line.stream.apiserver, line.stream.watch): line.condition for line in lines}


def condition_of(stream: StreamReading, known: Mapping[Key, Condition]) -> Condition:
    """Return the known condition of a watch, or what its reading alone says."""
    return known.get((stream.apiserver, stream.watch)) or Judge().condition(stream, 0.0).condition


class Diagnosed(StatusPart):
    """An active cause. `apiserver` and `watch` name the one affected; null means all.

    `evidence` states the facts, `next` what to look at; both are sentences.
    """

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    since: datetime = Field(validation_alias="since_wall")
    evidence: str
    next: str


class VerdictStatus(StatusPart):
    """The verdict on all watches; `text` stays while nothing changes, `figures` are the current ones, or empty."""

    verdict: OverallVerdict
    level: Level
    text: str
    figures: str
    since: datetime | None = Field(validation_alias="since_wall")


class SelfCheckStatus(StatusPart):
    """A condition that must hold for the figures to be right."""

    name: str
    level: Level
    text: str


class StatusDocument(StatusPart):
    """The complete status. Fields may be added; none changes its meaning within `v1`.

    `verdict` is the verdict on all watches, `trust` says whether watchslo itself may be late; both are null before the
    first evaluation. `causes` has the most certain cause first. `streams` and `causes` are those of the last
    evaluation, which was at `at`; all else is at most a second old.
    """

    api_version: Literal["v1"] = "v1"
    at: datetime = Field(validation_alias="at_wall")
    verdict: VerdictStatus | None = None
    trust: SelfCheckStatus | None = None
    monitor: MonitorStatus
    causes: list[Diagnosed]
    apiservers: list[ApiserverStatus]
    domains: list[DomainStatus]
    streams: list[StreamStatus]  # the last field: `StatusEncoder` inserts them at the end


class StatusEncoder:
    """Encodes snapshots as JSON, watch by watch: pydantic would keep the interpreter for 0.3 s for 900 watches.

    Use it in one thread: it keeps the text of the watches until their next evaluation.
    """

    def __init__(self) -> None:
        self._streams: tuple[StreamReading, ...] = ()
        self._pieces: tuple[bytes, ...] = ()

    def encode(self, snapshot: Snapshot, account: Account | None = None) -> Document:
        """Return the snapshot as JSON, with the verdict and self-checks of the newest account."""
        if snapshot.streams is not self._streams:
            self._pieces = tuple(pieces_of(_stream_texts(snapshot.streams, conditions_in(account))))
            self._streams = snapshot.streams
        beginning = _without_streams(snapshot, account).removesuffix(END)
        return Document((beginning, *self._pieces, END), "application/json")


def _without_streams(snapshot: Snapshot, account: Account | None) -> bytes:
    status = StatusDocument.model_validate(replace(snapshot, streams=()))
    if account:
        changes: dict[str, Any] = {
            "verdict": VerdictStatus.model_validate(account.headline),
            "trust": SelfCheckStatus.model_validate(account.trust),
        }
        status = status.model_copy(update=changes)
    return status.model_dump_json(by_alias=True).encode()


def _stream_texts(streams: Iterable[StreamReading], conditions: Mapping[Key, Condition]) -> Iterator[str]:
    separator = ""
    for stream in streams:
        yield separator + StreamStatus.model_validate(stream, context=conditions).model_dump_json(by_alias=True)
        separator = ","
