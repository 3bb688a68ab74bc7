"""Readings of one watch: its session, what it received, its guarantees, and where its delay arises."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Interval
from watchslo.snapshot.figures import HistogramReading, TrackReading


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
class ReferenceWatchReading:
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
    reference: ReferenceWatchReading | None = None

    @property
    def measurable(self) -> bool:
        """Return False if its revisions are no numbers: it is set aside, which is no outage."""
        return self.membership != "unparsable"
