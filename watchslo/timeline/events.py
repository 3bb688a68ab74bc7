"""The events of the timeline: what changed between two snapshots, one sentence for all watches with the same change."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import TypeVar

from watchslo.changes import increases
from watchslo.model import apiserver_text
from watchslo.snapshot import ApiserverReading, CauseReading, Guarantee, MonitorReading, Snapshot, WatchReading
from watchslo.timeline.condition import name_of
from watchslo.timeline.format import counted, duration, some_of
from watchslo.timeline.series import Key
from watchslo.timeline.verdict import Level

OWN_LAG_SECONDS = 0.5  # of our own lag between two evaluations: more than this judges no window
ROUTINE = frozenset({"deadline", "own", "expired"})
"""Classes of closes without an event: planned ones, our own, and 410s, which have an event of their own."""

BROKEN: Mapping[str, str] = {
    Guarantee.ORDERED: "{} delivered after newer ones",
    Guarantee.UNIQUE: "{} delivered twice",
    Guarantee.BOOKMARKABLE: "{} contradicted by a bookmark",
    Guarantee.RESUMABLE: "{} missing or repeated where the watch began",
    Guarantee.RELIABLE: "{} lost: newer ones were delivered",
    Guarantee.TYPED: "{} of a type that contradicts what existed",
    Guarantee.FILTERED: "{} contradicting the selectors of the watch",
}
"""How to say that so many events broke a guarantee."""

K = TypeVar("K")


class EventKind(StrEnum):
    """The kind of an event, for programs."""

    STARTED = "started"
    LATE = "late"
    IN_TIME = "in_time"
    CLOSED = "closed"
    EXPIRED = "expired"
    RELISTED = "relisted"
    STALLED = "stalled"
    DELIVERS = "delivers"
    VIOLATED = "violated"
    CLOCK_RESET = "clock_reset"
    WALL_CLOCK_SET = "wall_clock_set"
    TIME_TRAVEL = "time_travel"
    APISERVER_CAME = "apiserver_came"
    APISERVER_WENT = "apiserver_went"
    UNRESPONSIVE = "unresponsive"
    ANSWERS = "answers"
    UPGRADED = "upgraded"
    RELOADED = "reloaded"
    RELOAD_FAILED = "reload_failed"
    PAUSED = "paused"
    OVERLOADED = "overloaded"
    CAUSE_BEGAN = "cause_began"
    CAUSE_ENDED = "cause_ended"


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event, with the time of the evaluation that found it, at most five seconds later. `text` names no object.

    `watches` are all watches that the event is about; none if it is about the daemon, a clock or an apiserver. `cause`
    is the cause that began or ended, as it was last seen.
    """

    at_wall: float
    kind: EventKind
    level: Level
    text: str
    watches: tuple[Key, ...] = ()
    cause: CauseReading | None = None


_Change = (
    tuple[EventKind, Level, str]
    | tuple[EventKind, Level, str, tuple[Key, ...]]
    | tuple[EventKind, Level, str, tuple[Key, ...], CauseReading]
)
"""An event before it has a time."""

_StreamChange = tuple[EventKind, Level, str]
"""A change of one watch; the text of its event begins with the names of all watches with the same change."""


@lru_cache(maxsize=4096)
def key_of(apiserver: str, watch: str) -> Key:
    """Return the key of a watch: the same object each time, because hundreds of kept events name hundreds of them."""
    return apiserver, watch


def compare(before: Snapshot, now: Snapshot) -> Iterator[TimelineEvent]:
    """Yield the events between two snapshots, without changes of lateness, which `Timeline` finds."""
    changes = chain(
        _of_monitor(before.monitor, now.monitor),
        _of_clocks(before, now),
        _of_apiservers(before, now),
        _of_streams(before, now),
        _of_causes(before, now),
    )
    return (TimelineEvent(now.at_wall, *change) for change in changes)


def _of_monitor(before: MonitorReading, now: MonitorReading) -> Iterator[_Change]:
    if now.reloaded_wall != before.reloaded_wall:
        yield EventKind.RELOADED, Level.GOOD, "a new configuration is in force"
    if before.reload_succeeded and not now.reload_succeeded:
        yield EventKind.RELOAD_FAILED, Level.BAD, "the changed configuration was refused; see the log"
    if now.paused and not before.paused:
        yield EventKind.PAUSED, Level.UNKNOWN, "paused by the configuration"
    tainted = now.tainted_seconds - before.tainted_seconds
    if tainted > OWN_LAG_SECONDS:
        yield EventKind.OVERLOADED, Level.BAD, f"watchslo itself could not keep up for {duration(tainted)}"


def _of_clocks(before: Snapshot, now: Snapshot) -> Iterator[_Change]:
    then = {domain.name: domain.resets for domain in before.domains}
    for domain in now.domains:
        if domain.resets > then.get(domain.name, domain.resets):
            yield (
                EventKind.CLOCK_RESET,
                Level.BAD,
                f"the clock {domain.name} was reset: revisions went backwards",
            )


def _of_apiservers(before: Snapshot, now: Snapshot) -> Iterator[_Change]:
    then = {apiserver.name: apiserver for apiserver in before.apiservers}
    for apiserver in now.apiservers:
        last = then.pop(apiserver.name, None)
        if last is None:
            yield EventKind.APISERVER_CAME, Level.GOOD, f"{apiserver_text(apiserver.name)} was added"
        else:
            yield from _of_apiserver(last, apiserver)
    for name in then:
        yield EventKind.APISERVER_WENT, Level.UNKNOWN, f"{apiserver_text(name)} was removed"


def _of_apiserver(before: ApiserverReading, now: ApiserverReading) -> Iterator[_Change]:
    if before.version and now.version and before.version != now.version:
        yield EventKind.UPGRADED, Level.GOOD, f"{apiserver_text(now.name)} runs {now.version} now"
    if now.offset_steps > before.offset_steps:
        yield EventKind.WALL_CLOCK_SET, Level.UNKNOWN, f"the wall clock of {apiserver_text(now.name)}, or ours, was set"
    if now.time_travel.count > before.time_travel.count:
        yield EventKind.TIME_TRAVEL, Level.BAD, f"{apiserver_text(now.name)} answered with an older revision"
    if before.unresponsive_for is None and now.unresponsive_for is not None:
        does = "refuses connections" if now.refuses else "answers nothing"
        yield EventKind.UNRESPONSIVE, Level.BAD, f"{apiserver_text(now.name)} {does}"
    if before.unresponsive_for is not None and now.unresponsive_for is None:
        yield EventKind.ANSWERS, Level.UNKNOWN, f"{apiserver_text(now.name)} answers again"


def _of_streams(before: Snapshot, now: Snapshot) -> Iterator[_Change]:
    """Yield one event for all watches with the same change."""
    then = {(watch.apiserver, watch.watch): watch for watch in before.watches}
    found = defaultdict(list)
    for watch in now.watches:
        if last := then.get((watch.apiserver, watch.watch)):
            for change in _of_stream(last, watch):
                found[change].append(watch)
    for (kind, level, text), watches in found.items():
        yield kind, level, f"{some_of([name_of(watch) for watch in watches])}: {text}", keys_of(watches)


def keys_of(watches: Iterable[WatchReading]) -> tuple[Key, ...]:
    """Return the keys of these watches."""
    return tuple(key_of(watch.apiserver, watch.watch) for watch in watches)


def _of_stream(before: WatchReading, now: WatchReading) -> Iterator[_StreamChange]:
    for (class_, reason), count in _more(before.outcomes.closed, now.outcomes.closed):
        if class_ not in ROUTINE:
            yield EventKind.CLOSED, Level.UNKNOWN, f"closed by {class_} ({reason}){_times(count)}"
    for phase, count in _more(before.lists.expired, now.lists.expired):
        yield EventKind.EXPIRED, Level.BAD, f"410, the revision expired ({phase}){_times(count)}"
    for reason, count in _more(before.lists.relists, now.lists.relists):
        if reason != "start":
            what = "listed again" if reason == "inventory" else "started over"
            yield EventKind.RELISTED, Level.UNKNOWN, f"{what} ({reason}){_times(count)}"
    for guarantee, count in _more(before.guarantees.violations, now.guarantees.violations):
        yield EventKind.VIOLATED, Level.BAD, f"{BROKEN[guarantee].format(counted(count, 'event'))} ({guarantee})"
    if before.audit.stalled_for is None and now.audit.stalled_for is not None:
        yield EventKind.STALLED, Level.BAD, "stalled: the watch is open, but delivers no events"
    if before.audit.stalled_for is not None and now.audit.stalled_for is None:
        yield EventKind.DELIVERS, Level.GOOD, "delivers again"


def _of_causes(before: Snapshot, now: Snapshot) -> Iterator[_Change]:
    then, there = ({_subject(cause): cause for cause in snapshot.causes} for snapshot in (before, now))
    for subject in there.keys() - then.keys():
        cause = there[subject]
        yield EventKind.CAUSE_BEGAN, Level.BAD, f"cause: {cause.evidence}", _affected(cause, now), cause
    for subject in then.keys() - there.keys():
        cause = then[subject]
        place = " at ".join(filter(None, (cause.watch, apiserver_text(cause.apiserver or ""))))
        ended = f"{cause.cause} ended: {place}" if place else f"{cause.cause} ended"
        yield EventKind.CAUSE_ENDED, Level.GOOD, ended, _affected(cause, now), cause


def affects(cause: CauseReading, apiserver: str, watch: str) -> bool:
    """Return True if the cause is about this watch, or about all watches of its apiserver."""
    return cause.apiserver in (None, apiserver) and cause.watch in (None, watch)


def _affected(cause: CauseReading, now: Snapshot) -> tuple[Key, ...]:
    return keys_of(watch for watch in now.watches if affects(cause, watch.apiserver, watch.watch))


def _subject(cause: CauseReading) -> tuple[str, str | None, str | None]:
    return cause.cause, cause.apiserver, cause.watch


def _more(before: Mapping[K, int], now: Mapping[K, int]) -> Iterator[tuple[K, int]]:
    """Yield the counters that grew, and by how much."""
    return ((key, count) for key, count in increases(before, now).items() if count)


def _times(count: int) -> str:
    return f", {count:,} times" if count > 1 else ""
