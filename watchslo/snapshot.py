"""Frozen readings of everything that is shown: metrics, status and terminal read these and nothing else.

Durations are seconds. Times end in `_wall` and are Unix seconds, because they are for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """The objective in force for one watch; `verdicts` counts events, `windows` judged windows."""

    threshold: float
    events_target: float
    minutes_target: float
    verdicts: Mapping[str, int]
    windows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TrackReading:
    """The statistics of one watch. `creation` is absent where creation timestamps are not asked for."""

    timespan: HistogramReading
    windows: tuple[WindowReading, ...]
    objective: ObjectiveReading
    unresolved: int
    unmeasured: Mapping[str, int]
    creation: HistogramReading | None


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
    list_duration: Mapping[str, HistogramReading]
    watch_open: HistogramReading
    watch_duration: HistogramReading
    last_failure: FailureReading | None
    track: TrackReading


@dataclass(frozen=True, slots=True)
class DomainReading:
    """One revision clock: what it ticks on, the newest revision, the width of the newest commit interval."""

    name: str
    apiserver: str
    ticks_on: tuple[str, ...]
    revision: int | None
    interval: float | None
    resets: int
    ticks: Mapping[str, int]
    round_trips: HistogramReading
    median_round_trip: float | None


@dataclass(frozen=True, slots=True)
class ApiserverReading:
    """What one apiserver is like and what it was asked: `requests` counts by (kind, code), `list_duration` by strategy.

    `audits` counts them by what they found. `unproven` says why its revisions cannot be trusted to be etcd's, or is
    absent.
    """

    name: str
    version: str | None
    unproven: str | None
    offset: Interval | None
    offset_steps: int
    time_travel: int
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one moment."""

    at_wall: float
    monitor: MonitorReading
    apiservers: tuple[ApiserverReading, ...]
    domains: tuple[DomainReading, ...]
    streams: tuple[StreamReading, ...]
