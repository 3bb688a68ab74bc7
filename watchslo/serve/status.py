"""`/api/v1/status`: a snapshot as JSON for programs, with Kubernetes' camelCase keys and times as RFC 3339.

Durations are seconds. What is not known, and a bound that is infinite, is null. No object's name is in it. The models
read the attributes of the readings; they are apart from them so that a reading may change and v1 stay what it is.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AliasGenerator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from watchslo.history.chronicle import Account
from watchslo.history.headline import Level
from watchslo.serve.rendering import Document
from watchslo.snapshot import Cause, Confidence, Hop, Snapshot


class Part(BaseModel):
    """What all parts of an answer share: read from attributes, camelCase in JSON, null for what is infinite."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(serialization_alias=to_camel),
        from_attributes=True,
        frozen=True,
        ser_json_inf_nan="null",
    )


def _rows(*columns: str) -> BeforeValidator:
    """Turns counts by tuples, which JSON cannot key by, into rows of named columns."""

    def rows(counts: Mapping[tuple[str, ...], int]) -> list[dict[str, Any]]:
        return [dict(zip((*columns, "count"), (*key, count), strict=True)) for key, count in counts.items()]

    return BeforeValidator(rows)


class Bounds(Part):
    """An interval in seconds; `upper` is null where nothing bounds it."""

    lower: float
    upper: float | None


class Build(Part):
    """Which code runs."""

    version: str
    revision: str
    python_version: str


class Shard(Part):
    """Which share of the watches runs here: number `index`, from 0, of `count`; `elsewhere` run in the others."""

    index: int
    count: int
    elsewhere: int


class Monitor(Part):
    """The daemon itself. It is ready when `notReady` is empty.

    A stalled watch is found within `stallDetection` seconds, or never where that is null: audits are off.
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


class RequestCount(Part):
    """Requests of one kind with one answer."""

    kind: str
    code: str
    count: int


class Quantile(Part):
    """A quantile in seconds; where `resolved` is false it lies below the ticks' round trip and is no measurement.

    `lower` and `upper` are rigorous for the window's true quantile; `upper` is null where nothing bounds it.
    """

    q: float
    lower: float
    estimate: float | None
    upper: float | None
    resolved: bool


class Window(Part):
    """A rolling window: its length in seconds, the number of events in it, their quantiles."""

    name: str
    length: float
    events: int
    quantiles: list[Quantile]


class Apiserver(Part):
    """One apiserver; `unproven` says why its revisions cannot be trusted, `offset` is its wall clock minus ours.

    `watched` is false of the service where each apiserver is watched; `peers` is how many apiservers its address stands
    for. `audits` counts by what they found. `combined` is the last minute of all its watches by the ticks of all
    apiservers, `alone` by its own only; both are null unless several tick. `timeTravelRevisions` and
    `timeTravelSeconds` are how far its answers went back, in all.
    """

    name: str
    version: str | None
    watched: bool
    peers: int | None
    unproven: str | None
    offset: Bounds | None
    offset_steps: int
    time_travel: int
    time_travel_revisions: int
    time_travel_seconds: float
    combined: Window | None
    alone: Window | None
    requests: Annotated[list[RequestCount], _rows("kind", "code")]
    audits: dict[str, int]


class Ticker(Part):
    """The ticks through one apiserver; they count only where they are `vouched` to be of this clock's storage.

    `answeredAgo` is for how many seconds none was answered, `failure` why not, while they fail.
    """

    apiserver: str
    ticks: dict[str, int]
    median_round_trip: float | None
    answered_ago: float | None
    failure: str | None
    vouched: bool


class Domain(Part):
    """One revision clock; `interval` is the width of the newest one that its ticks cut."""

    name: str
    ticks_on: list[str]
    revision: int | None
    interval: float | None
    resets: int
    median_round_trip: float | None
    tickers: list[Ticker]


class Objective(Part):
    """The objective in force; `verdicts` counts events, `windows` those judged: by an estimate from `minEvents` on."""

    threshold: float
    events_target: float
    minutes_target: float
    min_events: int
    verdicts: dict[str, int]
    windows: dict[str, int]


class HopLatency(Part):
    """How long a part of the way took; `events` counts those for which that is known."""

    hop: Hop
    events: int = Field(validation_alias=AliasPath("histogram", "total"))
    windows: list[Window]


class Latency(Part):
    """How late the events of one watch were; `events` counts the samples, `unmeasured` by reason what is none.

    `hops` has the parts of the way that were measured at least once.
    """

    events: int = Field(validation_alias=AliasPath("timespan", "total"))
    unresolved: int
    unmeasured: dict[str, int]
    windows: list[Window]
    hops: list[HopLatency]
    objective: Objective


class CloseCount(Part):
    """Watches that ended for one reason."""

    class_: str = Field(validation_alias="class", serialization_alias="class")
    reason: str
    count: int


class Failure(Part):
    """The last thing that went wrong."""

    reason: str
    message: str
    at: datetime = Field(validation_alias="at_wall")


class History(Part):
    """How long a client of one resource may be away before it gets a 410: `seconds`, or `revisions` of the storage.

    Where it is `complete`, nothing has been dropped yet, and it is longer than that. `fits` says whether a full list,
    which takes `listSeconds`, ends in time for a watch to follow it; null where nobody knows.
    """

    oldest: int
    revisions: int
    seconds: Bounds
    complete: bool
    list_seconds: float | None
    list_measured: bool
    fits: bool | None
    probed_at: datetime = Field(validation_alias="probed_wall")


class Transport(Part):
    """What the kernel knows of the open watch's connection: round trip and silence in seconds, segments sent anew."""

    round_trip: float
    retransmits: int
    silent: float


class Stream(Part):
    """One watch; `membership` says how its revisions relate to the clock of its domain.

    What the inventory knows, `unseenChanges` by kind and `inventoryObjects`, is null without one. `lastAudit` is what
    the last audit found; `stalledFor` is null unless the watch is stalled. `probed` says whether the apiserver's cache
    is read now and then, `cacheBehind` how old that was at worst, `cacheRoundTrip` how long a read took. `behindPeers`
    is for how long the same watch at another apiserver has had an event that this one has not; null without such a
    watch.
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
    last_received_at: datetime | None = Field(validation_alias="last_received_wall")
    events: dict[str, int]
    bytes: int
    bookmarks: int
    bookmark_age: float | None
    order_violations: int
    closed: Annotated[list[CloseCount], _rows("class", "reason")]
    relists: dict[str, int]
    expired: dict[str, int]
    list_items: int
    list_bytes: int
    list_pages: int
    list_fallbacks: int
    initial_events: int
    gap_revisions: int
    gap_seconds: float
    unseen_changes: dict[str, int] | None = Field(validation_alias="unseen")
    inventory_objects: int | None = Field(validation_alias="objects")
    last_audit: str | None = Field(validation_alias="audit")
    stalls: int
    stalled_for: float | None
    lost_events: int = Field(validation_alias="lost")
    probed: bool
    cache_behind: Bounds | None
    cache_round_trip: float | None
    behind_peers: float | None
    history: History | None
    transport: Transport | None
    last_failure: Failure | None
    latency: Latency = Field(validation_alias="track")


class Diagnosed(Part):
    """Why watches are late: of one apiserver and one watch where these are named, else of all.

    `evidence` and `next` are sentences: what speaks for it, and what to look at.
    """

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    since: datetime = Field(validation_alias="since_wall")
    evidence: str
    next: str


class Verdict(Part):
    """What there is to say first; `text` stays while nothing changes, `figures` are those of now, or empty."""

    level: Level
    text: str
    figures: str
    since: datetime | None = Field(validation_alias="since_wall")


class Check(Part):
    """One thing that has to be so for the figures to be right."""

    name: str
    level: Level
    text: str


class Status(Part):
    """Everything watchslo knows at one moment. Fields may be added; none changes its meaning within `v1`.

    `verdict` is that on all watches, and `trust` whether it may be watchslo itself that is late: both of the newest
    evaluation, null before the first. `causes` has the surest first.
    """

    api_version: Literal["v1"] = "v1"
    at: datetime = Field(validation_alias="at_wall")
    verdict: Verdict | None = None
    trust: Check | None = None
    monitor: Monitor
    causes: list[Diagnosed]
    apiservers: list[Apiserver]
    domains: list[Domain]
    streams: list[Stream]


def encode(snapshot: Snapshot, account: Account | None = None) -> Document:
    """The snapshot as JSON, with what the newest account says of it."""
    status = Status.model_validate(snapshot)
    if account:
        said = {"verdict": Verdict.model_validate(account.headline), "trust": Check.model_validate(account.trust)}
        status = status.model_copy(update=said)
    return Document(status.model_dump_json(by_alias=True).encode(), "application/json")
