"""What successive snapshots show, as facts that rules can judge: who is late, where on the way, and who else is not.

All of it is about the last seconds: short windows, and differences between snapshots.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from watchslo.diagnose.change import counted, counted_each, observed, quantile
from watchslo.snapshot import (
    ApiserverReading,
    HistogramReading,
    Hop,
    QuantileReading,
    Snapshot,
    StreamReading,
    TickerReading,
    WindowReading,
)

MEMORY_SECONDS = 60.0
SPAN_SECONDS = 17.5  # three evaluations and a half: what is counted over about fifteen seconds
AFTERMATH_SECONDS = 30.0  # after a stall: what comes late then was held up by it

LATE = ((0.5, 0.15, 20), (0.9, 0.5, 50), (0.99, 1.0, 200))
"""A watch is late if this quantile exceeds this share of its threshold, in a window of so many events.

The median of a watch that is well is a hundredth of its threshold. The higher a quantile is, the less its estimate is
worth with few events.
"""
BEHIND_SHARE = 0.15  # of its threshold, that a watch may be behind another apiserver's
HOP_EVENTS = 10
LONGEST_WINDOW_SECONDS = 60.0  # a longer one would not be over soon enough
STALE_SHARE = 0.5  # a window is of now only if its newest quarter has half of its share of the events

TICKS = 3  # fewer have no median
SLOW_SECONDS = 0.075  # beyond the network's own round trip
SLOW_FACTOR = 4.0  # against the best that was seen
ERRATIC_FACTOR = 5.0  # more than two neighbouring edges of the histogram of round trips can make of one value
ERRATIC_SECONDS = 0.1
SILENT_SECONDS = 6.0  # apiservers up to four tick more often than that, failures or not
SILENT_GAPS = 2.5  # where ticks are seldom: the longest gap between two of them is 1.5 times the mean
DENIALS = ("401", "403")

MOST = 0.5  # of the time
CLEARLY = 1.5  # times as much

SCATTER_FACTOR = 1.5  # between P50 and P90
STEPS = 3  # snapshots that tell a trend
GROWTH_SHARE = 0.25  # of the threshold, from one to the next

STALLED, FROZEN = "stalled", "frozen"  # what an audit found
STUCK_SECONDS = 2.0  # behind for so long without a single event is more than late

Key = tuple[str, str]
"""An apiserver's name and that of a watch."""


class Place(StrEnum):
    """On which side of the apiserver's cache the time goes."""

    STORAGE = "storage"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot, and when it was taken, in monotonic seconds."""

    now: float
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Figure:
    """A quantile of a recent window, in seconds."""

    q: float
    seconds: float
    events: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of one watch of one apiserver.

    `figure` is the quantile by which it is late, or else its median, absent with too few events. `events` and `bytes`
    were received in the last steps from one snapshot to the next, the newest first. `lateness` is absent unless it is
    late, and so is `place`, which may be unknown then too. `scattered` says that some events are late, and others by
    much less: load is like that, and no delay. `grows` says that its median rises from step to step, `stuck` that it
    receives nothing though there is something to receive, `stalls` how often audits found that of late: then it was
    opened anew. `expired` are the 410s of the last minute, unless the last seconds had none: then that is over.
    """

    key: Key
    reading: StreamReading
    events: tuple[int, ...]
    bytes: tuple[int, ...]
    expired: int
    slow_consumer: int
    figure: Figure | None
    creation: Figure | None
    lateness: float | None
    place: Place | None
    scattered: bool
    grows: bool
    stuck: bool
    stalls: int

    @property
    def apiserver(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def late(self) -> bool:
        return self.lateness is not None

    @property
    def well(self) -> bool:
        """Known not to be late: nothing is said of what has too few events."""
        return self.figure is not None and not self.late and not self.stuck

    @property
    def threshold(self) -> float:
        return self.reading.track.objective.threshold


@dataclass(frozen=True, slots=True)
class Apiserver:
    """What is known of one apiserver.

    `tick` is the median round trip of its ticks, `low` and `high` are the quantiles 0.1 and 0.9, of a shorter time so
    that a change is not taken for scatter: absent with too few.
    `silent_for` is for how long none was answered. In the last step it gave so many `answers`, and `cache_answers` of
    its caches; in the last seconds so many requests went `unanswered`, or were met with `refusals`, which are 429s.
    `cache_trip` is how long reads of its caches take.
    """

    name: str
    tick: float | None
    low: float | None
    high: float | None
    slow: bool
    silent_for: float
    silent: bool
    answers: int
    cache_answers: int
    unanswered: int
    refusals: int
    cache_trip: float | None
    watches: tuple[Watch, ...]

    @property
    def troubled(self) -> bool:
        return self.slow or self.silent

    @property
    def dead(self) -> bool:
        """Nothing at all comes from it."""
        return self.silent and not self.answers and not any(watch.bytes[0] for watch in self.watches)

    @property
    def erratic(self) -> bool:
        """Whether some ticks are as prompt as ever and others are not."""
        if self.low is None or self.high is None:
            return False
        return self.high >= max(ERRATIC_SECONDS, ERRATIC_FACTOR * self.low)

    @property
    def cache_slow(self) -> bool | None:
        """Whether reads of its caches take as long as its ticks or its watches; None while nobody reads them."""
        if self.cache_trip is None:
            return None
        lateness = [watch.lateness for watch in self.watches if watch.lateness is not None]
        others = [*lateness, *([self.tick] if self.slow and self.tick is not None else [])]
        return bool(others) and self.cache_trip >= 0.5 * min(others)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that rules look at; `tainted` is the share of the last seconds in which we were late ourselves."""

    tainted: float
    apiservers: Mapping[str, Apiserver]
    watches: Mapping[Key, Watch]

    @property
    def several(self) -> bool:
        return len(self.apiservers) > 1

    def peers(self, watch: Watch) -> list[Watch]:
        """The same watch at the other apiservers."""
        return [one for one in self.watches.values() if one.name == watch.name and one.apiserver != watch.apiserver]

    def at(self, name: str) -> list[Watch]:
        """The same watch at all apiservers."""
        return [one for one in self.watches.values() if one.name == name]


class Memory:
    """The snapshots of the last minute, and the best round trips that were ever seen."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []
        self._best: dict[str, float] = {}

    def add(self, now: float, snapshot: Snapshot) -> None:
        """Takes in a snapshot; after a pause what came before it says nothing of now."""
        if self._moments and now - self._moments[-1].now > SPAN_SECONDS:
            self._moments = []
        self._moments = [one for one in self._moments if one.now >= now - MEMORY_SECONDS]
        self._moments.append(Moment(now, snapshot))

    def evidence(self) -> Evidence | None:
        """What the snapshots show; None while there is only one."""
        if len(self._moments) == 1:
            return None
        newest = self._moments[-1]
        base = next(one for one in self._moments if one.now >= newest.now - SPAN_SECONDS)
        watches = {watch.key: watch for watch in _watches(self._moments, base.now)}
        apiservers = {
            reading.name: self._apiserver(reading, base, [w for w in watches.values() if w.apiserver == reading.name])
            for reading in newest.snapshot.apiservers
            if reading.watched
        }
        tainted = newest.snapshot.monitor.tainted_seconds - base.snapshot.monitor.tainted_seconds
        return Evidence(tainted / (newest.now - base.now), apiservers, watches)

    def _apiserver(self, reading: ApiserverReading, base: Moment, watches: Sequence[Watch]) -> Apiserver:
        *_, before, last = self._moments
        ticker = _ticker(last.snapshot, reading.name)
        middle, spread = (_round_trips(one.snapshot, ticker) for one in (base, self._moments[-STEPS:][0]))
        tick, low, high = (
            quantile(trips, q) if trips else None for trips, q in ((middle, 0.5), (spread, 0.1), (spread, 0.9))
        )
        silent_for = _silent_for(ticker)
        longest = max(SILENT_SECONDS, SILENT_GAPS * ticker.gap if ticker else 0.0)
        recent, spanned = (counted_each(_requests(one, reading.name), reading.requests) for one in (before, base))
        trips = [watch.reading.cache_round_trip for watch in watches if watch.reading.cache_round_trip is not None]
        return Apiserver(
            name=reading.name,
            tick=tick,
            low=low,
            high=high,
            slow=tick is not None and self._is_slow(reading.name, tick, watches),
            silent_for=silent_for,
            silent=silent_for > longest and not _is_denied(spanned),
            answers=sum(count for (_, code), count in recent.items() if code.isdigit()),
            cache_answers=recent.get(("probe_cache", "200"), 0),
            unanswered=sum(count for (_, code), count in spanned.items() if not code.isdigit()),
            refusals=sum(count for (_, code), count in spanned.items() if code == "429"),
            cache_trip=median(trips) if trips else None,
            watches=tuple(watches),
        )

    def _is_slow(self, name: str, tick: float, watches: Iterable[Watch]) -> bool:
        """Slower than the network, and than the best that was ever seen there."""
        best = self._best[name] = min(tick, self._best.get(name, math.inf))
        network = min((w.reading.transport.round_trip for w in watches if w.reading.transport), default=0.0)
        return tick - network >= SLOW_SECONDS and (tick >= SLOW_FACTOR * best or tick >= 2 * SLOW_FACTOR * SLOW_SECONDS)


# --- apiservers ------------------------------------------------------------------------------------------------------


def _ticker(snapshot: Snapshot, apiserver: str) -> TickerReading | None:
    """Its ticker in the domain of most streams: others tick on the very caches that are judged."""
    streams = Counter(stream.domain for stream in snapshot.streams)
    for domain in sorted(snapshot.domains, key=lambda domain: -streams[domain.name]):
        for ticker in domain.tickers:
            if ticker.apiserver == apiserver:
                return ticker
    return None


def _round_trips(since: Snapshot, ticker: TickerReading | None) -> HistogramReading | None:
    """Of the ticks that were answered since; None if they are too few."""
    if ticker is None:
        return None
    before = _ticker(since, ticker.apiserver)
    recent = observed(before.round_trips if before else None, ticker.round_trips)
    return recent if recent.total >= TICKS else None


def _silent_for(ticker: TickerReading | None) -> float:
    """For how long it has left ticks without an answer; nothing is held against one that was not asked yet."""
    if ticker is None:
        return 0.0
    if ticker.answered_ago is None:
        return math.inf if ticker.failure else 0.0
    return ticker.answered_ago


def _is_denied(requests: Mapping[tuple[str, str], int]) -> bool:
    """Whether its ticks are answered, by a refusal: for want of a right or of credentials, which is no silence."""
    return any(requests.get(("tick", code)) for code in DENIALS)


def _requests(moment: Moment, apiserver: str) -> Mapping[tuple[str, str], int]:
    return next((one.requests for one in moment.snapshot.apiservers if one.name == apiserver), {})


# --- watches ---------------------------------------------------------------------------------------------------------

Past = Sequence[tuple[float, StreamReading]]
"""The readings of one watch so far, each with its time in monotonic seconds; the last one is of now."""


def _watches(moments: Sequence[Moment], since: float) -> Iterable[Watch]:
    """All watches of the newest snapshot, but those at an apiserver that is not watched by itself."""
    watched = {reading.name for reading in moments[-1].snapshot.apiservers if reading.watched}
    past: dict[Key, list[tuple[float, StreamReading]]] = {}
    for moment in moments:
        for stream in moment.snapshot.streams:
            past.setdefault((stream.apiserver, stream.watch), []).append((moment.now, stream))
    newest = moments[-1].now
    round_trips = {domain.name: domain.median_round_trip or 0.0 for domain in moments[-1].snapshot.domains}
    for key, one in past.items():
        if key[0] in watched and one[-1][0] == newest:
            yield _watch(key, one, since, round_trips.get(one[-1][1].domain, 0.0))


def _watch(key: Key, past: Past, since: float, round_trip: float) -> Watch:
    now, stream = past[-1]
    steps = [*pairwise(reading for _, reading in past)][::-1]
    events = tuple(counted(_events(old), _events(new)) for old, new in steps) or (0,)
    first = next(reading for time, reading in past if time >= since)
    held_up = _was_held_up(past, now - AFTERMATH_SECONDS)
    slow = None if held_up else _late_figure(stream)
    behind = stream.behind_peers or 0.0
    is_behind = behind >= BEHIND_SHARE * stream.track.objective.threshold
    lateness = slow.seconds if slow else behind if is_behind else None
    usual = None if held_up else _median(stream, round_trip)
    return Watch(
        key=key,
        reading=stream,
        events=events,
        bytes=tuple(counted(old.bytes, new.bytes) for old, new in steps) or (0,),
        expired=counted(_expired(past[0][1]), _expired(stream)) if counted(_expired(first), _expired(stream)) else 0,
        slow_consumer=counted(_slow_consumer(first), _slow_consumer(stream)),
        figure=slow or usual,
        creation=_hop(stream, Hop.CREATION_TO_STORAGE, 0.5),
        lateness=lateness,
        place=None if lateness is None else _place(stream, lateness, slow.q if slow else 0.5),
        scattered=not held_up and _is_scattered(stream),
        grows=_grows([reading for _, reading in past[-STEPS:]]),
        stuck=_is_stuck(stream, events),
        stalls=sum(
            counted(old.stalls, new.stalls)
            for (_, old), (time, new) in pairwise(past)
            if time > now - AFTERMATH_SECONDS
        ),
    )


def _events(stream: StreamReading) -> int:
    return sum(count for type_, count in stream.events.items() if type_ != "ERROR")


def _expired(stream: StreamReading) -> int:
    return sum(stream.expired.values())


def _slow_consumer(stream: StreamReading) -> int:
    return sum(count for (_, reason), count in stream.closed.items() if reason == "slow_consumer")


def _is_scattered(stream: StreamReading) -> bool:
    """By the newest events alone: where a delay begins or ends, a longer window has some of both."""
    (_, share, _), (_, _, least) = LATE[:2]
    newest = min(stream.track.windows, key=lambda window: window.length, default=None)
    if newest is None or newest.events < least:
        return False
    low, high = (one.estimate for one in newest.quantiles if one.q in (0.5, 0.9))
    return high >= max(share * stream.track.objective.threshold, SCATTER_FACTOR * low)


def _grows(readings: Sequence[StreamReading]) -> bool:
    figures = [_figure(reading.track.windows, *LATE[0][::2]) for reading in readings]
    least = GROWTH_SHARE * readings[-1].track.objective.threshold
    rises = [bool(old and new and new.seconds - old.seconds >= least) for old, new in pairwise(figures)]
    return len(figures) == STEPS and all(rises)


def _is_stuck(stream: StreamReading, events: Sequence[int]) -> bool:
    if any(events[:2]) or not stream.up:
        return False
    return stream.stalled_for is not None or (stream.behind_peers or 0.0) >= STUCK_SECONDS


def _was_held_up(past: Past, since: float) -> bool:
    """Whether for a while it received nothing that was there: what it delivers after that says nothing of now."""
    return any(
        counted(_events(old), _events(new)) == 0 and (not new.up or _is_stuck(new, ()))
        for (_, old), (time, new) in pairwise(past)
        if time >= since
    )


def _window(windows: Iterable[WindowReading], least: int) -> WindowReading | None:
    """The shortest that has enough events; a longer one only if they are not all from its beginning."""
    usable = [window for window in sorted(windows, key=lambda w: w.length) if window.length <= LONGEST_WINDOW_SECONDS]
    for window in usable:
        rate, share = window.events / window.length, STALE_SHARE if window is not usable[0] else 0.0
        if window.events >= least and usable[0].events >= share * rate * usable[0].length:
            return window
    return None


def _quantile(windows: Iterable[WindowReading], q: float, least: int) -> tuple[QuantileReading, int] | None:
    window = _window(windows, least)
    found = [quantile for quantile in window.quantiles if quantile.q == q and quantile.resolved] if window else []
    return (found[0], window.events) if window and found else None


def _figure(windows: Iterable[WindowReading], q: float, least: int) -> Figure | None:
    found = _quantile(windows, q, least)
    return Figure(q, found[0].estimate, found[1]) if found else None


def _median(stream: StreamReading, round_trip: float) -> Figure | None:
    """The median; where it is below the ticks' round trip, that: unless even that would be late."""
    q, share, least = LATE[0]
    resolved, window = _figure(stream.track.windows, q, least), _window(stream.track.windows, least)
    if resolved or not window or round_trip >= share * stream.track.objective.threshold:
        return resolved
    return Figure(q, round_trip, window.events)


def _late_figure(stream: StreamReading) -> Figure | None:
    """By the lowest quantile that shows it."""
    threshold, windows = stream.track.objective.threshold, stream.track.windows
    for q, share, least in LATE:
        figure = _figure(windows, q, least)
        if figure and figure.seconds >= share * threshold and _is_of_now(windows, q, share * threshold):
            return figure
    return None


def _is_of_now(windows: Sequence[WindowReading], q: float, seconds: float) -> bool:
    """Whether the newest events do not contradict it: what a longer window remembers may be over."""
    newest = min(windows, key=lambda window: window.length)
    return newest.events < LATE[0][2] or all(one.estimate >= seconds for one in newest.quantiles if one.q == q)


def _hop(stream: StreamReading, hop: Hop, q: float) -> Figure | None:
    windows = next((one.windows for one in stream.track.hops if one.hop is hop), ())
    return _figure(windows, q, HOP_EVENTS)


def _place(stream: StreamReading, lateness: float, q: float) -> Place | None:
    """Where most of the time goes. What no read can resolve takes as long as the reads: they share that way with it."""
    storage, client = (
        figure.seconds if figure else 0.0
        for figure in (_hop(stream, hop, q) for hop in (Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT))
    )
    most = MOST * lateness
    if stream.cache_behind and stream.cache_behind.lower >= most:
        return Place.STORAGE
    if storage >= max(most, CLEARLY * client):
        return Place.STORAGE
    reads = stream.cache_round_trip or 0.0
    return Place.CLIENT if max(client, reads) >= most and storage < most else None
