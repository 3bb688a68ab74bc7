"""What the page and other onlookers are told after each evaluation, as JSON: a line for each watch, and what is said.

Durations are seconds, times RFC 3339; what is not known, and a bound that is infinite, is null. No object's name is in
it.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from watchslo.history import judgement
from watchslo.history.chronicle import Account, Chronicle
from watchslo.history.day import MINUTES, Minutes
from watchslo.history.happenings import Kind
from watchslo.history.headline import Level
from watchslo.history.judgement import Condition, Line
from watchslo.history.series import COLUMNS, Key
from watchslo.serve.status import Check, Diagnosed, Part, Verdict
from watchslo.snapshot import ApiserverReading, QuantileReading, Snapshot, TickerReading, WindowReading

DIGITS = 4  # significant ones, of what is drawn


class Happening(Part):
    """One thing that happened."""

    at: datetime = Field(validation_alias="at_wall")
    kind: Kind
    level: Level
    text: str


class Figure(Part):
    """A quantile of the last minute; where `resolved` is false it is below `roundTrip`, the ticks', and no figure."""

    lower: float
    estimate: float | None
    upper: float | None
    resolved: bool
    round_trip: float | None


class WatchLine(Part):
    """One watch, its last minute, and what it met since it was configured. `key` names it in this feed.

    `behind` is how many revisions the storage is ahead of the newest one that this watch has seen: of a quiet resource
    that grows by itself. `closes` leaves out deadlines and our own, `relists` the start.
    """

    key: str
    watch: str
    resource: str
    apiserver: str
    condition: Condition
    since: datetime
    state: str
    stalled_for: float | None
    threshold: float
    events: int
    p50: Figure | None
    p99: Figure | None
    last_event: datetime | None
    behind: int | None
    closes: int
    relists: int
    expired: int
    bookmark_age: float | None
    failure: str | None


class ApiserverLine(Part):
    """One apiserver: `p99` is that of all its watches by all ticks, `ownP99` by its own only.

    `open` of its `watches` are open. `tick` is the slowest clock's median round trip, `failure` why one gets no answer.
    `behindPeers` is for how long it withholds what another one has delivered. `remembers` is for how long a client may
    be away at most, `remembersOf` of which watch, and `fits` whether that suffices for a list.
    """

    name: str
    version: str | None
    peers: int | None
    watched: bool
    open: int
    watches: int
    tick: float | None
    failure: str | None
    p50: Figure | None
    p99: Figure | None
    own_p99: Figure | None
    behind_peers: float | None
    remembers: float | None
    remembers_of: str | None
    fits: bool | None
    causes: list[str]


class Day(Part):
    """The minutes up to the one that began at `until`, the oldest first, a digit each.

    0: without data, 1: good, 2: bad for some watch.
    """

    until: datetime
    minutes: str = Field(min_length=MINUTES, max_length=MINUTES, pattern="^[012]*$")


class Update(Part):
    """What is so now. The first one that a reader gets has all; a later one of the watches only those that changed.

    `gone` are keys of watches that are no more, `happened` what is new, the oldest first, `day` null if it is the same.
    """

    api_version: Literal["v1"] = "v1"
    at: datetime
    cluster: str | None
    version: str
    verdict: Verdict
    not_ready: list[str]
    causes: list[Diagnosed]
    trust: Check
    checks: list[Check]
    apiservers: list[ApiserverLine]
    watches: list[WatchLine]
    gone: list[str]
    happened: list[Happening]
    day: Day | None


class Past(Part):
    """The last minutes of one watch: columns of the same length, `at` in Unix seconds, the others in seconds.

    `minutes` is the objective's last day, as in an update.
    """

    watch: str
    apiserver: str
    threshold: float
    at: list[float]
    p50: list[float | None]
    p99: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    events: list[int | None]
    minutes: str


class Series(Part):
    """How the watches of a resource, or all of them, did in the last `window` seconds, every `step` seconds or so."""

    api_version: Literal["v1"] = "v1"
    window: float
    step: float
    watches: list[Past]


# --- of the moment ---------------------------------------------------------------------------------------------------


def key_of(watch: str, apiserver: str) -> str:
    """The name of a watch in the feed."""
    return f"{watch}@{apiserver}"


def watches(account: Account) -> dict[str, WatchLine]:
    """All watches by their keys."""
    newest = {domain.name: domain for domain in account.snapshot.domains}
    found = {}
    for line in account.lines:
        domain = newest.get(line.stream.domain)
        trip, revision = (domain.median_round_trip, domain.revision) if domain else (None, None)
        made = _watch(line, trip, revision)
        found[made.key] = made
    return found


def _watch(line: Line, round_trip: float | None, newest: int | None) -> WatchLine:
    stream = line.stream
    known = newest is not None and stream.revision is not None and stream.membership == "member"
    return WatchLine(
        key=key_of(stream.watch, stream.apiserver),
        watch=stream.watch,
        resource=f"{stream.resource}.{stream.group}" if stream.group else stream.resource,
        apiserver=stream.apiserver,
        condition=line.condition,
        since=_time(line.since_wall),
        state=stream.state if stream.membership == "member" else f"{stream.state} (clock: {stream.membership})",
        stalled_for=stream.stalled_for,
        threshold=stream.track.objective.threshold,
        events=line.window.events,
        p50=_figure(line.p50, round_trip),
        p99=_figure(line.p99, round_trip),
        last_event=_time(stream.last_received_wall) if stream.last_received_wall is not None else None,
        behind=max(0, (newest or 0) - (stream.revision or 0)) if known else None,
        closes=sum(count for (class_, _), count in stream.closed.items() if class_ not in ("deadline", "own")),
        relists=sum(count for reason, count in stream.relists.items() if reason != "start"),
        expired=sum(stream.expired.values()),
        bookmark_age=stream.bookmark_age,
        failure=stream.last_failure.message if stream.last_failure else None,
    )


def _figure(quantile: QuantileReading | None, round_trip: float | None) -> Figure | None:
    if quantile is None:
        return None
    return Figure(
        lower=quantile.lower,
        estimate=quantile.estimate,
        upper=quantile.upper,
        resolved=quantile.resolved,
        round_trip=round_trip,
    )


def apiservers(snapshot: Snapshot) -> list[ApiserverLine]:
    """All of them, in the order of the snapshot."""
    return [_apiserver(apiserver, snapshot) for apiserver in snapshot.apiservers]


def _apiserver(apiserver: ApiserverReading, snapshot: Snapshot) -> ApiserverLine:
    streams = [stream for stream in snapshot.streams if stream.apiserver == apiserver.name]
    tickers = [ticker for domain in snapshot.domains for ticker in domain.tickers if ticker.apiserver == apiserver.name]
    behind = [stream.behind_peers for stream in streams if stream.behind_peers is not None]
    histories = [(one.history, one.watch) for one in streams if one.history and not one.history.complete]
    history, remembered = min(histories, key=lambda one: one[0].seconds.lower, default=(None, None))
    return ApiserverLine(
        name=apiserver.name,
        version=apiserver.version,
        peers=apiserver.peers,
        watched=apiserver.watched,
        open=sum(stream.up for stream in streams),
        watches=len(streams),
        tick=_slowest(tickers),
        failure=next((ticker.failure for ticker in tickers if ticker.failure), None),
        p50=_of_minute(apiserver.combined, judgement.P50),
        p99=_of_minute(apiserver.combined, judgement.P99),
        own_p99=_of_minute(apiserver.alone, judgement.P99),
        behind_peers=max(behind, default=None),
        remembers=history.seconds.lower if history else None,
        remembers_of=remembered,
        fits=history.fits if history else None,
        causes=sorted({cause.cause for cause in snapshot.causes if cause.apiserver == apiserver.name}),
    )


def _slowest(tickers: Iterable[TickerReading]) -> float | None:
    return max((one.median_round_trip for one in tickers if one.median_round_trip is not None), default=None)


def _of_minute(window: WindowReading | None, q: float) -> Figure | None:
    return _figure(judgement.quantile_of(window, q), None) if window and window.events else None


def full(chronicle: Chronicle, account: Account, all_watches: list[WatchLine]) -> bytes:
    """All of the newest account, for whoever begins to read."""
    return _encode(account, all_watches, [], chronicle.happened, _day(chronicle))


def delta(chronicle: Chronicle, account: Account, changed: list[WatchLine], gone: list[str], told_wall: float) -> bytes:
    """What changed; `told_wall` is the newest minute that has been told."""
    day = _day(chronicle) if chronicle.day.last_minute_wall != told_wall else None
    return _encode(account, changed, gone, account.happened, day)


def _encode(
    account: Account,
    some_watches: list[WatchLine],
    gone: list[str],
    happened: Iterable[object],
    day: Day | None,
) -> bytes:
    snapshot = account.snapshot
    update = Update(
        at=_time(snapshot.at_wall),
        cluster=snapshot.monitor.cluster,
        version=snapshot.monitor.build.version,
        verdict=Verdict.model_validate(account.headline),
        not_ready=list(snapshot.monitor.not_ready),
        causes=[Diagnosed.model_validate(cause) for cause in snapshot.causes],
        trust=Check.model_validate(account.trust),
        checks=[Check.model_validate(check) for check in account.checks],
        apiservers=apiservers(snapshot),
        watches=some_watches,
        gone=gone,
        happened=[Happening.model_validate(one) for one in happened],
        day=day,
    )
    return update.model_dump_json(by_alias=True).encode()


# --- of the past -----------------------------------------------------------------------------------------------------


def series(chronicle: Chronicle, resource: str | None, seconds: float, step: float) -> Series:
    """The histories of those watches that are there now, of one resource or label, or of all."""
    account = chronicle.account
    if account is None:
        return Series(window=seconds, step=step, watches=[])
    lines = [line for line in account.lines if resource is None or resource in names_of(line)]
    since = account.snapshot.at_wall - seconds
    return Series(window=seconds, step=step, watches=[_history(chronicle, line, since) for line in lines])


def names_of(line: Line) -> Sequence[str]:
    """What a watch can be asked for by: its own name, and its resource's as kubectl takes it."""
    stream = line.stream
    return stream.watch, f"{stream.resource}.{stream.group}" if stream.group else stream.resource


def _history(chronicle: Chronicle, line: Line, since_wall: float) -> Past:
    key: Key = line.stream.apiserver, line.stream.watch
    figures = chronicle.series.figures(key, since_wall)
    columns = {name: _rounded(figures.values[:, number]) for number, name in enumerate(COLUMNS)}
    return Past(
        watch=line.stream.watch,
        apiserver=line.stream.apiserver,
        threshold=line.stream.track.objective.threshold,
        at=[round(at, 1) for at in figures.at_wall.tolist()],
        p50=columns["p50"],
        p99=columns["p99"],
        lower=columns["lower"],
        upper=columns["upper"],
        events=[None if count is None else int(count) for count in columns["events"]],
        minutes=_digits(chronicle.day.of(key)),
    )


def _rounded(column: NDArray[np.float32]) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in column.tolist()]


def _day(chronicle: Chronicle) -> Day:
    day = chronicle.day
    return Day(until=_time(day.last_minute_wall), minutes=_digits(day.overall()))


def _digits(minutes: Minutes) -> str:
    return (minutes + ord("0")).tobytes().decode()


def _time(wall: float) -> datetime:
    return datetime.fromtimestamp(wall, UTC)
