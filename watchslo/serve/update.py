"""The JSON of the feed after each evaluation, and of the last hour: `/api/v1/events` and `/api/v1/series`.

Durations are seconds, times RFC 3339; an unknown value, and an infinite bound, is null. No object's name is in it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import msgspec
import numpy as np
from numpy.typing import NDArray

from watchslo.api.feed import DayUpdate, EventUpdate, PastFigures, SeriesDocument, Update, WatchLine
from watchslo.api.part import part_of
from watchslo.api.status import CauseStatus, SelfCheckStatus, VerdictStatus
from watchslo.serve.rows import apiservers, clients, reactions, resource_name, time_of
from watchslo.timeline.condition import WatchCondition
from watchslo.timeline.day import Minutes
from watchslo.timeline.format import part_note
from watchslo.timeline.series import COLUMNS, Figures
from watchslo.timeline.timeline import Account, Timeline

DIGITS = 4  # significant digits of the figures of charts


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
        verdict=part_of(VerdictStatus, account.headline),
        not_ready=snapshot.monitor.not_ready,
        causes=tuple(part_of(CauseStatus, cause) for cause in snapshot.causes),
        trust=part_of(SelfCheckStatus, account.trust),
        checks=tuple(part_of(SelfCheckStatus, check) for check in account.checks),
        apiservers=tuple(apiservers(snapshot)),
        reactions=tuple(reactions(snapshot)),
        clients=tuple(clients(snapshot)),
        watches=tuple(watches),
        gone=tuple(gone),
        happened=tuple(part_of(EventUpdate, event) for event in happened),
        day=day,
    )
    return msgspec.json.encode(update)


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
        for key in [(line.watch.apiserver, line.watch.watch)]
    ]


def series(watches: Iterable[PastWatch], seconds: float, step: float) -> Iterator[bytes]:
    """Yield a `SeriesDocument` in pieces, one for each watch: an hour of one takes milliseconds to encode."""
    start, end = msgspec.json.encode(SeriesDocument(window=seconds, step=step, watches=())).split(b"[")
    yield start + b"["
    for number, watch in enumerate(watches):
        yield b"," * bool(number) + msgspec.json.encode(_past(watch))
    yield end


def names_of(line: WatchCondition) -> Sequence[str]:
    """Return the names that select a watch: its own, and that of its resource."""
    return line.watch.watch, resource_name(line.watch)


def _past(watch: PastWatch) -> PastFigures:
    line, figures = watch.line, watch.figures
    columns = {name: _rounded(figures.values[:, number]) for number, name in enumerate(COLUMNS)}
    return PastFigures(
        watch=line.watch.watch,
        apiserver=line.watch.apiserver,
        threshold=line.watch.track.objective.threshold,
        quantile=line.watch.track.objective.quantile,
        at=tuple(round(at, 1) for at in figures.at_wall.tolist()),
        p50=columns["p50"],
        judged=columns["judged"],
        lower=columns["lower"],
        upper=columns["upper"],
        events=tuple(None if count is None else int(count) for count in columns["events"]),
        minutes=_digits(watch.minutes),
    )


def _rounded(column: NDArray[np.float32]) -> tuple[float | None, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") if isfinite(value) else None for value in column.tolist())


def _day(timeline: Timeline) -> DayUpdate:
    day = timeline.day
    return DayUpdate(until=time_of(day.last_minute_wall), minutes=_digits(day.overall()))


def _digits(minutes: Minutes) -> str:
    return (minutes + ord("0")).tobytes().decode()
