"""What happened between two snapshots, told from what they count: one sentence for all watches that met the same."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import TypeVar

from watchslo.history.headline import Level
from watchslo.history.judgement import name_of
from watchslo.history.words import counted, duration, some_of
from watchslo.snapshot import ApiserverReading, CauseReading, MonitorReading, Snapshot, StreamReading

OWN_LAG_SECONDS = 0.5  # between two evaluations: then no window is judged by it
ROUTINE = frozenset({"deadline", "own", "expired"})
"""Closes that need no word: those that were agreed on, our own, and 410s, which have a word of their own."""

K = TypeVar("K")


class Kind(StrEnum):
    """What happened, for programs."""

    STARTED = "started"
    LATE = "late"
    IN_TIME = "in_time"
    CLOSED = "closed"
    EXPIRED = "expired"
    RELISTED = "relisted"
    STALLED = "stalled"
    DELIVERS = "delivers"
    LOST = "lost"
    CLOCK_RESET = "clock_reset"
    WALL_CLOCK_SET = "wall_clock_set"
    TIME_TRAVEL = "time_travel"
    APISERVER_CAME = "apiserver_came"
    APISERVER_WENT = "apiserver_went"
    UPGRADED = "upgraded"
    RELOADED = "reloaded"
    RELOAD_FAILED = "reload_failed"
    PAUSED = "paused"
    OVERLOADED = "overloaded"
    CAUSE_BEGAN = "cause_began"
    CAUSE_ENDED = "cause_ended"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened, at the end of the five seconds in which it did; `text` names no object."""

    at_wall: float
    kind: Kind
    level: Level
    text: str


_Told = tuple[Kind, Level, str]
"""What happened to a watch: the text follows its name."""


def compare(before: Snapshot, now: Snapshot) -> Iterator[Happening]:
    """What happened between the two, but for lateness, which is a judgement."""
    told = chain(
        _of_monitor(before.monitor, now.monitor),
        _of_clocks(before, now),
        _of_apiservers(before, now),
        _of_streams(before, now),
        _of_causes(before, now),
    )
    return (Happening(now.at_wall, *one) for one in told)


def _of_monitor(before: MonitorReading, now: MonitorReading) -> Iterator[_Told]:
    if now.reloaded_wall != before.reloaded_wall:
        yield Kind.RELOADED, Level.GOOD, "a new configuration is in force"
    if before.reload_succeeded and not now.reload_succeeded:
        yield Kind.RELOAD_FAILED, Level.BAD, "the changed configuration was refused; the log says why"
    if now.paused and not before.paused:
        yield Kind.PAUSED, Level.UNKNOWN, "paused by the configuration"
    tainted = now.tainted_seconds - before.tainted_seconds
    if tainted > OWN_LAG_SECONDS:
        yield Kind.OVERLOADED, Level.BAD, f"watchslo itself could not keep up for {duration(tainted)}"


def _of_clocks(before: Snapshot, now: Snapshot) -> Iterator[_Told]:
    then = {domain.name: domain.resets for domain in before.domains}
    for domain in now.domains:
        if domain.resets > then.get(domain.name, domain.resets):
            yield Kind.CLOCK_RESET, Level.BAD, f"the clock {domain.name} began anew: the storage went back, or changed"


def _of_apiservers(before: Snapshot, now: Snapshot) -> Iterator[_Told]:
    then = {apiserver.name: apiserver for apiserver in before.apiservers}
    for apiserver in now.apiservers:
        last = then.pop(apiserver.name, None)
        if last is None:
            yield Kind.APISERVER_CAME, Level.GOOD, f"{apiserver.name} is asked from now on"
        else:
            yield from _of_apiserver(last, apiserver)
    for name in then:
        yield Kind.APISERVER_WENT, Level.UNKNOWN, f"{name} is asked no more"


def _of_apiserver(before: ApiserverReading, now: ApiserverReading) -> Iterator[_Told]:
    if before.version and now.version and before.version != now.version:
        yield Kind.UPGRADED, Level.GOOD, f"{now.name} is {now.version} now"
    if now.offset_steps > before.offset_steps:
        yield Kind.WALL_CLOCK_SET, Level.UNKNOWN, f"the wall clock of {now.name}, or ours, was set"
    if now.time_travel > before.time_travel:
        yield Kind.TIME_TRAVEL, Level.BAD, f"{now.name} answered from the past"


def _of_streams(before: Snapshot, now: Snapshot) -> Iterator[_Told]:
    """What many watches met alike is told once."""
    then = {(stream.apiserver, stream.watch): stream for stream in before.streams}
    names = defaultdict(list)
    for stream in now.streams:
        if last := then.get((stream.apiserver, stream.watch)):
            for told in _of_stream(last, stream):
                names[told].append(name_of(stream))
    for (kind, level, text), met in names.items():
        yield kind, level, f"{some_of(met)}: {text}"


def _of_stream(before: StreamReading, now: StreamReading) -> Iterator[_Told]:
    for (class_, reason), count in _more(before.closed, now.closed):
        if class_ not in ROUTINE:
            yield Kind.CLOSED, Level.UNKNOWN, f"closed by {class_} ({reason}){_times(count)}"
    for phase, count in _more(before.expired, now.expired):
        yield Kind.EXPIRED, Level.BAD, f"410, the revision is forgotten ({phase}){_times(count)}"
    for reason, count in _more(before.relists, now.relists):
        if reason != "start":
            yield Kind.RELISTED, Level.UNKNOWN, f"started over ({reason}){_times(count)}"
    if now.lost > before.lost:
        yield Kind.LOST, Level.BAD, f"{counted(now.lost - before.lost, 'event')} lost: others came after"
    if before.stalled_for is None and now.stalled_for is not None:
        yield Kind.STALLED, Level.BAD, "stalled: it is open, and events are withheld"
    if before.stalled_for is not None and now.stalled_for is None:
        yield Kind.DELIVERS, Level.GOOD, "delivers again"


def _of_causes(before: Snapshot, now: Snapshot) -> Iterator[_Told]:
    then, there = ({_subject(cause): cause for cause in one.causes} for one in (before, now))
    for subject in there.keys() - then.keys():
        yield Kind.CAUSE_BEGAN, Level.BAD, f"cause: {there[subject].evidence}"
    for subject in then.keys() - there.keys():
        about = " ".join(f"of {name}" for name in (then[subject].watch, then[subject].apiserver) if name)
        yield Kind.CAUSE_ENDED, Level.GOOD, f"cause ended: {then[subject].cause} {about}".rstrip()


def _subject(cause: CauseReading) -> tuple[str, str | None, str | None]:
    return cause.cause, cause.apiserver, cause.watch


def _more(before: Mapping[K, int], now: Mapping[K, int]) -> Iterator[tuple[K, int]]:
    """By how much which counters grew."""
    return ((key, count - before.get(key, 0)) for key, count in now.items() if count > before.get(key, 0))


def _times(count: int) -> str:
    return f", {count:,} times" if count > 1 else ""
