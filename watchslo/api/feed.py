"""`/api/v1/events`, `/api/v1/series` and `/api/v1/watches`: what the page shows, with the texts of its cells.

No object's name is in it.
"""

from typing import Annotated

from watchslo.api.part import ApiPart, From, Time, one_of, stated
from watchslo.api.status import CauseStatus, QuantileStatus, SelfCheckStatus, VerdictStatus
from watchslo.snapshot import ApiserverRole
from watchslo.timeline.condition import Condition
from watchslo.timeline.day import MINUTES
from watchslo.timeline.events import EventKind
from watchslo.timeline.verdict import Level

MOST_HAPPENED = 50  # events of one watch


class WatchLine(ApiPart, frozen=True, kw_only=True):
    """One watch: the window of its objective, and its counters since it was configured.

    `judged` is the `quantile` of that window that is compared with `threshold`, `p999` is its P99.9, null with fewer
    than 1,000 events. `key` identifies the watch in the feed.

    `behind` is the number of revisions between the storage's newest one and the newest one that this watch has seen, or
    null if revisions are no counts: it grows by itself while the resource is quiet. `closes` leaves out deadlines and
    our own closes, `relists` the first list. `failedAt` is when the last `failure` was. `cells` are the texts of the
    table's row, `severity` sorts conditions with the worst first, and `caption` is the text above its chart.
    """

    key: str
    watch: str
    resource: str
    apiserver: str
    name: str
    condition: Annotated[str, one_of(Condition)]
    since: Time
    state: str
    stalled_for: float | None
    threshold: float
    quantile: float
    events: int
    p50: QuantileStatus | None
    judged: QuantileStatus | None
    p999: QuantileStatus | None
    last_event: Time | None
    behind: int | None
    closes: int
    relists: int
    expired: int
    bookmark_age: float | None
    failed_at: Time | None
    failure: str | None
    bad: bool
    severity: int
    caption: str
    cells: tuple[str, ...]


class ApiserverLine(ApiPart, frozen=True, kw_only=True):
    """One apiserver: `p99` and `p999` are those of all its watches by all ticks, `ownP99` by its own ticks only.

    `open` of its `watches` are open. `tick` is the highest median round trip of its ticks, `failure` why ticks fail.
    `behindPeers` is for how long it withholds an event that another apiserver has delivered. `behindFastest` has P50
    and P99 of how much later its events arrive than at the fastest apiserver, of the watch with the highest P50.
    `remembers` is the shortest headroom in seconds, `remembersOf` the watch that it belongs to, and `fits` whether it
    outlasts a list. `cells` are the texts of the table's row.
    """

    name: str
    version: str | None
    peers: int | None
    role: Annotated[str, one_of(ApiserverRole)]
    open: int
    watches: int
    tick: float | None
    failure: str | None
    p50: QuantileStatus | None
    p99: QuantileStatus | None
    p999: QuantileStatus | None
    own_p99: QuantileStatus | None
    behind_peers: float | None
    behind_fastest: tuple[float, float] | None
    remembers: float | None
    remembers_of: str | None
    fits: bool | None
    causes: tuple[str, ...]
    cells: tuple[str, ...]


class ReactionLine(ApiPart, frozen=True, kw_only=True):
    """How fast controllers act in one step of one resource: `cells` are the texts of the table's row."""

    key: str
    bad: bool
    cells: tuple[str, ...]


class ClientLine(ApiPart, frozen=True, kw_only=True):
    """A row about a program whose informers are timed (beta): one stale resource, all others, or what is wrong now.

    `cells` are the texts of the table's row.
    """

    key: str
    level: Annotated[str, one_of(Level)]
    cells: tuple[str, ...]


class EventUpdate(ApiPart, frozen=True, kw_only=True):
    """One event of the timeline; `cause` is the one that began or ended, as it was last seen."""

    at: Annotated[Time, From("at_wall")]
    kind: Annotated[str, one_of(EventKind)]
    level: Annotated[str, one_of(Level)]
    text: str
    cause: CauseStatus | None = None


class DayUpdate(ApiPart, frozen=True, kw_only=True):
    """The last day's minutes, the oldest first, one digit each; the last minute began at `until`.

    0: no data, 1: good, 2: undecided for at least one watch, 3: bad for at least one.
    """

    until: Time
    minutes: Annotated[str, stated(minLength=MINUTES, maxLength=MINUTES, pattern="^[0123]*$")]


class Update(ApiPart, frozen=True, kw_only=True, tag_field="apiVersion", tag="v1"):
    """The state after one evaluation. A `full` update has all watches, a `delta` only those that changed.

    `gone` are the keys of removed watches, `happened` the new events of the timeline, the oldest first; `day` is null
    if it has not changed. `title` names the cluster and the part that this instance measures; `part` is a sentence
    about the rest, empty if there is none.
    """

    at: Time
    cluster: str | None = None
    title: str
    part: str
    version: str
    verdict: VerdictStatus
    not_ready: tuple[str, ...]
    causes: tuple[CauseStatus, ...]
    trust: SelfCheckStatus
    checks: tuple[SelfCheckStatus, ...]
    apiservers: tuple[ApiserverLine, ...]
    reactions: tuple[ReactionLine, ...] = ()
    clients: tuple[ClientLine, ...] = ()
    watches: tuple[WatchLine, ...]
    gone: tuple[str, ...]
    happened: tuple[EventUpdate, ...]
    day: DayUpdate | None = None


class PastFigures(ApiPart, frozen=True, kw_only=True):
    """The past figures of one watch: columns of the same length, `at` in Unix seconds, the others in seconds.

    `judged` is the quantile that is compared with the threshold, `lower` and `upper` are its bounds.
    `minutes` is the last day of its objective, as in an update.
    """

    watch: str
    apiserver: str
    threshold: float
    quantile: float
    at: tuple[float, ...]
    p50: tuple[float | None, ...]
    judged: tuple[float | None, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]
    events: tuple[int | None, ...]
    minutes: str


class SeriesDocument(ApiPart, frozen=True, kw_only=True, tag_field="apiVersion", tag="v1"):
    """Past figures of the watches of one resource, or of all: the last `window` seconds, one every `step` seconds."""

    window: float
    step: float
    watches: tuple[PastFigures, ...]


class DetailFact(ApiPart, frozen=True, kw_only=True):
    """A labelled text."""

    label: str
    text: str


class DetailSection(ApiPart, frozen=True, kw_only=True):
    """Facts with a common title."""

    title: str
    facts: tuple[DetailFact, ...]


class WatchDetail(ApiPart, frozen=True, kw_only=True):
    """One watch: its `condition` and what decides it, facts for people, the active causes, and its newest events.

    `causes` are those of the watch, of its apiserver, or of all watches; `happened` has the oldest event first.
    """

    key: str
    watch: str
    apiserver: str
    name: str
    condition: str
    bad: bool
    explanation: str
    sections: tuple[DetailSection, ...]
    causes: tuple[CauseStatus, ...]
    happened: Annotated[tuple[EventUpdate, ...], stated(maxItems=MOST_HAPPENED)]


class WatchDetails(ApiPart, frozen=True, kw_only=True, tag_field="apiVersion", tag="v1"):
    """The details of one watch, or of the watches with one name, one at each apiserver."""

    watches: tuple[WatchDetail, ...]
