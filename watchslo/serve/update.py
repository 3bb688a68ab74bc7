"""The JSON of the feed after each evaluation, and of the last hour: `/api/v1/events` and `/api/v1/series`.

Durations are seconds, times RFC 3339; an unknown value, and an infinite bound, is null. No object's name is in it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from watchslo.serve.rows import ApiserverLine, WatchLine, apiservers, resource_name, time_of
from watchslo.serve.status import Diagnosed, SelfCheckStatus, StatusPart, VerdictStatus
from watchslo.timeline.condition import WatchCondition
from watchslo.timeline.day import MINUTES, Minutes
from watchslo.timeline.events import EventKind
from watchslo.timeline.format import part_note
from watchslo.timeline.series import COLUMNS, Figures
from watchslo.timeline.timeline import Account, Timeline
from watchslo.timeline.verdict import Level

DIGITS = 4  # significant digits of the figures of charts


class EventUpdate(StatusPart):
    """One event of the timeline; `cause` is the one that began or ended, as it was last seen."""

    at: datetime = Field(validation_alias="at_wall")
    kind: EventKind
    level: Level
    text: str
    cause: Diagnosed | None


class DayUpdate(StatusPart):
    """The last day's minutes, the oldest first, one digit each; the last minute began at `until`.

    0: no data, 1: good, 2: undecided for at least one watch, 3: bad for at least one.
    """

    until: datetime
    minutes: str = Field(min_length=MINUTES, max_length=MINUTES, pattern="^[0123]*$")


class Update(StatusPart):
    """The state after one evaluation. A `full` update has all watches, a `delta` only those that changed.

    `gone` are the keys of removed watches, `happened` the new events of the timeline, the oldest first; `day` is null
    if it has not changed. `title` names the cluster and the part that this instance measures; `part` is a sentence
    about the rest, empty if there is none.
    """

    api_version: Literal["v1"] = "v1"
    at: datetime
    cluster: str | None
    title: str
    part: str
    version: str
    verdict: VerdictStatus
    not_ready: list[str]
    causes: list[Diagnosed]
    trust: SelfCheckStatus
    checks: list[SelfCheckStatus]
    apiservers: list[ApiserverLine]
    watches: list[WatchLine]
    gone: list[str]
    happened: list[EventUpdate]
    day: DayUpdate | None


class Past(StatusPart):
    """The past figures of one watch: columns of the same length, `at` in Unix seconds, the others in seconds.

    `judged` is the quantile that is compared with the threshold, `lower` and `upper` are its bounds.
    `minutes` is the last day of its objective, as in an update.
    """

    watch: str
    apiserver: str
    threshold: float
    quantile: float
    at: list[float]
    p50: list[float | None]
    judged: list[float | None]
    lower: list[float | None]
    upper: list[float | None]
    events: list[int | None]
    minutes: str


class SeriesUpdate(StatusPart):
    """Past figures of the watches of one resource, or of all: the last `window` seconds, one every `step` seconds."""

    api_version: Literal["v1"] = "v1"
    window: float
    step: float
    watches: list[Past]


# --- the feed ---------------------------------------------------------------------------------------------------------


def full(timeline: Timeline, account: Account, watches: list[WatchLine]) -> bytes:
    """Return the newest account with everything, for a new reader."""
    return _encode(account, watches, [], timeline.happened, _day(timeline))


def delta(timeline: Timeline, account: Account, changed: list[WatchLine], gone: list[str], sent_wall: float) -> bytes:
    """Return the changes since the previous account; `sent_wall` is the newest minute of the day that was sent."""
    day = _day(timeline) if timeline.day.last_minute_wall != sent_wall else None
    return _encode(account, changed, gone, account.happened, day)


def _encode(
    account: Account, watches: list[WatchLine], gone: list[str], happened: Iterable[object], day: DayUpdate | None
) -> bytes:
    snapshot = account.snapshot
    update = Update(
        at=time_of(snapshot.at_wall),
        cluster=snapshot.monitor.cluster,
        title=snapshot.monitor.instance.title,
        part=part_note(snapshot.monitor.instance.part, snapshot.monitor.shard.elsewhere),
        version=snapshot.monitor.build.version,
        verdict=VerdictStatus.model_validate(account.headline),
        not_ready=list(snapshot.monitor.not_ready),
        causes=[Diagnosed.model_validate(cause) for cause in snapshot.causes],
        trust=SelfCheckStatus.model_validate(account.trust),
        checks=[SelfCheckStatus.model_validate(check) for check in account.checks],
        apiservers=apiservers(snapshot),
        watches=watches,
        gone=gone,
        happened=[EventUpdate.model_validate(one) for one in happened],
        day=day,
    )
    return update.model_dump_json(by_alias=True).encode()


# --- the last hour ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PastWatch:
    """What the timeline knows of the past of one watch, copied, in a fiftieth of the time of its encoding."""

    line: WatchCondition
    figures: Figures
    minutes: Minutes


def past_watches(timeline: Timeline, resource: str | None, seconds: float) -> list[PastWatch]:
    """Return the past of the current watches of a resource, of the watch of that name, or of all."""
    account = timeline.account
    if account is None:
        return []
    lines = [line for line in account.lines if resource is None or resource in names_of(line)]
    since = account.snapshot.at_wall - seconds
    return [
        PastWatch(line, timeline.series.figures(key, since), timeline.day.of(key))
        for line in lines
        for key in [(line.stream.apiserver, line.stream.watch)]
    ]


def series(watches: Iterable[PastWatch], seconds: float, step: float) -> Iterator[bytes]:
    """Yield a `SeriesUpdate` in pieces, one for each watch: an hour of one takes milliseconds to encode."""
    start, end = SeriesUpdate(window=seconds, step=step, watches=[]).model_dump_json(by_alias=True).split("[")
    yield start.encode() + b"["
    for number, watch in enumerate(watches):
        yield b"," * bool(number) + _past(watch).model_dump_json(by_alias=True).encode()
    yield b"]" + end.removeprefix("]").encode()


def names_of(line: WatchCondition) -> Sequence[str]:
    """Return the names that select a watch: its own, and that of its resource."""
    return line.stream.watch, resource_name(line.stream)


def _past(watch: PastWatch) -> Past:
    line, figures = watch.line, watch.figures
    columns = {name: _rounded(figures.values[:, number]) for number, name in enumerate(COLUMNS)}
    return Past(
        watch=line.stream.watch,
        apiserver=line.stream.apiserver,
        threshold=line.stream.track.objective.threshold,
        quantile=line.stream.track.objective.quantile,
        at=[round(at, 1) for at in figures.at_wall.tolist()],
        p50=columns["p50"],
        judged=columns["judged"],
        lower=columns["lower"],
        upper=columns["upper"],
        events=[None if count is None else int(count) for count in columns["events"]],
        minutes=_digits(watch.minutes),
    )


def _rounded(column: NDArray[np.float32]) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in column.tolist()]


def _day(timeline: Timeline) -> DayUpdate:
    day = timeline.day
    return DayUpdate(until=time_of(day.last_minute_wall), minutes=_digits(day.overall()))


def _digits(minutes: Minutes) -> str:
    return (minutes + ord("0")).tobytes().decode()
