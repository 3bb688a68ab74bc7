"""The rows of the page's tables, one for each watch and each apiserver: their values, and the texts of their cells.

The cells are written here only: the HTML of the page has them, and the feed sends them to its scripts. The column of
each cell is named in `page/index.html`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from pydantic import computed_field

from watchslo.serve.status import StatusPart
from watchslo.snapshot import (
    ApiserverReading,
    ApiserverRole,
    DomainReading,
    QuantileReading,
    Snapshot,
    StorageKind,
    StreamReading,
    TickerReading,
    WindowReading,
)
from watchslo.timeline import condition
from watchslo.timeline.condition import BAD, Condition, WatchCondition
from watchslo.timeline.explanation import labelled
from watchslo.timeline.format import ABSENT, duration, estimated
from watchslo.timeline.timeline import Account

WORST_FIRST = tuple(Condition)
STORAGE = {
    "pending": "storage not proven yet",
    "foreign": "another storage",
    "unparsable": "revisions are not numbers",
}
"""Why a clock does not date the revisions of a watch, by its membership."""
UNWATCHED = {ApiserverRole.SERVICE: "not watched", ApiserverRole.WITNESS: "witness"}
"""What an apiserver without watches is asked for, by its role."""


class FigureUpdate(StatusPart):
    """A quantile of a window, in seconds.

    If `resolved` is false, it is below `resolution`: ticks were held as long, so it is no measurement. If `rough` is
    true, the events do not determine it.
    """

    lower: float
    estimate: float | None
    upper: float | None
    resolved: bool
    rough: bool
    resolution: float
    probable_lower: float | None
    probable_upper: float | None


class WatchLine(StatusPart):
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
    condition: Condition
    since: datetime
    state: str
    stalled_for: float | None
    threshold: float
    quantile: float
    events: int
    p50: FigureUpdate | None
    judged: FigureUpdate | None
    p999: FigureUpdate | None
    last_event: datetime | None
    behind: int | None
    closes: int
    relists: int
    expired: int
    bookmark_age: float | None
    failed_at: datetime | None
    failure: str | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bad(self) -> bool:
        return self.condition in BAD

    @computed_field  # type: ignore[prop-decorator]
    @property
    def severity(self) -> int:
        return WORST_FIRST.index(self.condition)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def caption(self) -> str:
        if self.judged is None:
            return self.marked_condition
        return f"{estimate_text(self.judged)}, {bounds_text(self.judged)}: {self.marked_condition}"

    @property
    def marked_condition(self) -> str:
        """The condition, marked if it is not proven."""
        return labelled(self.condition, self.judged.upper if self.judged else None, self.threshold)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def cells(self) -> tuple[str, ...]:
        return (
            self.watch,
            self.apiserver,
            self.shown_condition,
            estimate_text(self.p50),
            estimate_text(self.judged),
            bounds_text(self.judged),
            estimate_text(self.p999),
            f"{self.events:,}",
            f"{self.last_event:%H:%M:%S}" if self.last_event else ABSENT,
            f"{self.closes:,}",
            f"{self.relists:,}",
            f"{self.expired:,}",
            duration_text(self.bookmark_age),
            self.state,
            duration(self.threshold),
            ABSENT if self.behind is None else f"{self.behind:,}",
            f"{self.failed_at:%H:%M} {self.failure}" if self.failed_at else ABSENT,
        )

    @property
    def shown_condition(self) -> str:
        """The condition, and since when or for how long it is bad."""
        if self.stalled_for is not None:
            return f"{self.condition} for {duration(self.stalled_for)}"
        return f"{self.condition} since {self.since:%H:%M}" if self.bad else self.marked_condition


class ApiserverLine(StatusPart):
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
    role: ApiserverRole
    open: int
    watches: int
    tick: float | None
    failure: str | None
    p50: FigureUpdate | None
    p99: FigureUpdate | None
    p999: FigureUpdate | None
    own_p99: FigureUpdate | None
    behind_peers: float | None
    behind_fastest: tuple[float, float] | None
    remembers: float | None
    remembers_of: str | None
    fits: bool | None
    causes: list[str]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def cells(self) -> tuple[str, ...]:
        behind = f" ({self.peers} behind this address)" if (self.peers or 1) > 1 else ""
        short = ", too short" if self.fits is False else ""
        return (
            self.name,
            f"{self.version or ABSENT}{behind}",
            UNWATCHED.get(self.role, f"{self.open} of {self.watches}"),
            self.failure or duration_text(self.tick),
            estimate_text(self.p50),
            estimate_text(self.p99),
            estimate_text(self.p999),
            estimate_text(self.own_p99),
            duration_text(self.behind_peers),
            " / ".join(map(duration, self.behind_fastest)) if self.behind_fastest else ABSENT,
            ABSENT if self.remembers is None else f"{duration(self.remembers)} ({self.remembers_of}{short})",
            ", ".join(self.causes) or ABSENT,
        )


# --- texts ------------------------------------------------------------------------------------------------------------


def duration_text(seconds: float | None) -> str:
    """Return a duration, or a dash if it is unknown."""
    return ABSENT if seconds is None else duration(seconds)


def estimate_text(figure: FigureUpdate | None) -> str:
    """Return the estimate, or what it is below if it is not a measurement; a dash without a figure."""
    if figure is None:
        return ABSENT
    if figure.resolved:
        return ABSENT if figure.estimate is None else estimated(figure.estimate, rough=figure.rough)
    return f"< {duration(figure.resolution)}"


def bounds_text(figure: FigureUpdate | None) -> str:
    """Return the probable interval of a figure, if it has one, and its proven bounds."""
    if figure is None:
        return ABSENT
    proven = f"proven {duration(figure.lower)} to {duration_text(figure.upper)}"
    if figure.probable_lower is None or figure.probable_upper is None:
        return proven
    return f"{duration(figure.probable_lower)} to {duration(figure.probable_upper)}, {proven}"


# --- values -----------------------------------------------------------------------------------------------------------


def key_of(watch: str, apiserver: str) -> str:
    """Return the key of a watch in the feed."""
    return f"{watch}@{apiserver}"


def resource_name(stream: StreamReading) -> str:
    """Return the resource as kubectl takes it: `pods`, `deployments.apps`."""
    return f"{stream.resource}.{stream.group}" if stream.group else stream.resource


def time_of(wall: float) -> datetime:
    """Return a time in Unix seconds as UTC."""
    return datetime.fromtimestamp(wall, UTC)


def watches(account: Account) -> dict[str, WatchLine]:
    """Return the rows of all watches by their keys."""
    domains = {domain.name: domain for domain in account.snapshot.domains}
    made = (watch_line(line, domains.get(line.stream.domain)) for line in account.lines)
    return {line.key: line for line in made}


def watch_line(line: WatchCondition, domain: DomainReading | None) -> WatchLine:
    """Return the row of one watch, whose clock is None if it is gone."""
    stream, received = line.stream, line.stream.received
    newest = domain.revision if domain and domain.kind is StorageKind.SEQUENCE else None
    known = newest is not None and received.revision is not None and stream.membership == "member"
    state, failure = stream.session.state, stream.session.last_failure
    return WatchLine(
        key=key_of(stream.watch, stream.apiserver),
        watch=stream.watch,
        resource=resource_name(stream),
        apiserver=stream.apiserver,
        name=line.name,
        condition=line.condition,
        since=time_of(line.since_wall),
        state=f"{state} ({STORAGE[stream.membership]})" if stream.membership in STORAGE else state,
        stalled_for=stream.audit.stalled_for,
        threshold=stream.track.objective.threshold,
        quantile=stream.track.objective.quantile,
        events=line.window.events,
        p50=figure(line.p50),
        judged=figure(line.judged),
        p999=figure(condition.quantile_of(line.window, condition.P999)),
        last_event=None if received.last_wall is None else time_of(received.last_wall),
        behind=max(0, (newest or 0) - (received.revision or 0)) if known else None,
        closes=sum(count for (class_, _), count in stream.outcomes.closed.items() if class_ not in ("deadline", "own")),
        relists=sum(count for reason, count in stream.lists.relists.items() if reason != "start"),
        expired=sum(stream.lists.expired.values()),
        bookmark_age=received.bookmark_age,
        failed_at=time_of(failure.at_wall) if failure else None,
        failure=failure.message if failure else None,
    )


def figure(quantile: QuantileReading | None) -> FigureUpdate | None:
    """Return a quantile as the page shows it."""
    if quantile is None:
        return None
    return FigureUpdate(
        lower=quantile.lower,
        estimate=quantile.estimate,
        upper=quantile.upper,
        resolved=quantile.resolved,
        rough=quantile.rough,
        resolution=quantile.resolution,
        probable_lower=quantile.probable.lower if quantile.probable else None,
        probable_upper=quantile.probable.upper if quantile.probable else None,
    )


def apiservers(snapshot: Snapshot) -> list[ApiserverLine]:
    """Return the rows of all apiservers, in the order of the snapshot."""
    return [_apiserver(apiserver, snapshot) for apiserver in snapshot.apiservers]


def _apiserver(apiserver: ApiserverReading, snapshot: Snapshot) -> ApiserverLine:
    streams = [stream for stream in snapshot.streams if stream.apiserver == apiserver.name]
    tickers = [ticker for domain in snapshot.domains for ticker in domain.tickers if ticker.apiserver == apiserver.name]
    behind = [stream.cache.behind_peers for stream in streams if stream.cache.behind_peers is not None]
    excesses = [(one.behind_fastest.p50, one.behind_fastest.p99) for one in streams if one.behind_fastest]
    known = [(one.headroom, one.watch) for one in streams if one.headroom and not one.headroom.complete]
    headroom, watch = min(known, key=lambda one: one[0].seconds.lower, default=(None, None))
    return ApiserverLine(
        name=apiserver.name,
        version=apiserver.version,
        peers=apiserver.peers,
        role=apiserver.role,
        open=sum(stream.up for stream in streams),
        watches=len(streams),
        tick=_slowest(tickers),
        failure=next((ticker.failure for ticker in tickers if ticker.failure), None),
        p50=_of_minute(apiserver.combined, condition.P50),
        p99=_of_minute(apiserver.combined, condition.P99),
        p999=_of_minute(apiserver.combined, condition.P999),
        own_p99=_of_minute(apiserver.alone, condition.P99),
        behind_peers=max(behind, default=None),
        behind_fastest=max(excesses, default=None),
        remembers=headroom.seconds.lower if headroom else None,
        remembers_of=watch,
        fits=headroom.fits if headroom else None,
        causes=sorted({cause.cause for cause in snapshot.causes if cause.apiserver == apiserver.name}),
    )


def _slowest(tickers: Iterable[TickerReading]) -> float | None:
    return max((one.median_round_trip for one in tickers if one.median_round_trip is not None), default=None)


def _of_minute(window: WindowReading | None, q: float) -> FigureUpdate | None:
    return figure(condition.quantile_of(window, q)) if window and window.events else None
