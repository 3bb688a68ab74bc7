"""Evidence for the rules: which watches are late, on which hop, and which apiservers and watches are healthy.

All of it describes the last seconds: it comes from short windows and from differences between snapshots.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from watchslo.changes import increase, increases, middle, observations_since, quantile
from watchslo.model import apiserver_text
from watchslo.snapshot import (
    ApiserverFigures,
    ApiserverReading,
    ApiserverRole,
    DomainReading,
    HistogramReading,
    Hop,
    QuantileReading,
    Snapshot,
    StorageKind,
    TickerReading,
    WatchReading,
    WindowReading,
)

MEMORY_SECONDS = 60.0
SPAN_SECONDS = 17.5  # three and a half evaluations: counters are compared over about fifteen seconds
AFTERMATH_SECONDS = 30.0  # after a stall, events that come late were held up by it

LATE = ((0.5, 0.15, 20), (0.9, 0.5, 50), (0.99, 1.0, 200))
"""Each row is a quantile, a share of the threshold, and a number of events.

A watch is late if the quantile exceeds the share, in a window with at least so many events. The median of a healthy
watch is a hundredth of its threshold. Higher quantiles need more events for a usable estimate.
"""
POLLED_LATE = ((0.9, 0.75, 50), LATE[2])
"""The same where events of other servers wait for a poll: there medians of hundreds of milliseconds are usual."""
BEHIND_SHARE = 0.15  # of the threshold: a watch that is further behind another apiserver is late
POLLED_BEHIND_SHARE = 1.0  # where events wait for a poll
HOP_EVENTS = 10  # fewer say too little about a hop
LONGEST_WINDOW_SECONDS = 60.0  # a longer window would show a delay for too long after its end
STALE_SHARE = 0.5  # a window is current only if its newest quarter has half of its share of the events

TICKS = 3  # fewer have no useful median
TICK_GAPS = 8  # for rare ticks: their median covers so many mean gaps
SLOW_SECONDS = 0.075  # of a tick, in addition to the network's own round trip
SLOW_FACTOR = 4.0  # times the best round trip of that apiserver
ERRATIC_FACTOR = 5.0  # above the ratio of two neighbouring edges of the histogram: one value alone cannot reach it
ERRATIC_SECONDS = 0.1  # shorter ticks are prompt, however much they differ
SILENT_SECONDS = 6.0  # with up to four apiservers, each is ticked more often than that, even if ticks fail
SILENT_GAPS = 2.5  # for rare ticks: unless one fails, two ticks through an apiserver are at most 1.4 mean gaps apart
DENIALS = ("401", "403")

MOST_SHARE = 0.5  # of a delay: the hop that takes so much of it is where the time is lost
CLEAR_FACTOR = 1.5  # times the other hop: a smaller difference does not decide between the two

SCATTER_FACTOR = 1.5  # between P50 and P90
STEPS = 3  # snapshots that show a trend
GROWTH_SHARE = 0.25  # of the threshold, from one snapshot to the next

STALLED, FROZEN = "stalled", "frozen"  # results of an audit
STUCK_SECONDS = 2.0  # a watch that is behind for so long without a single event is stuck, not just late

Key = tuple[str, str]
"""The name of an apiserver and the name of a watch."""


class Place(StrEnum):
    """The side of the apiserver's watch cache on which the time is lost."""

    STORAGE = "storage"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Step:
    """What is remembered of a watch in a snapshot; the reading itself takes twenty times the memory.

    `stuck` says that events were known which it did not deliver; `median` is its figure with the first quantile of
    `LATE`, in seconds.
    """

    up: bool
    events: int
    bytes: int
    expired: int
    slow_consumer: int
    catch_ups: int
    stalls: int
    stuck: bool
    median: float | None


@dataclass(frozen=True, slots=True)
class Moment:
    """What is remembered of a snapshot, and its time in monotonic seconds.

    `domains` has the domain with most watches first.
    """

    now: float
    tainted_seconds: float
    apiservers: Sequence[ApiserverReading]
    domains: Sequence[DomainReading]
    steps: Mapping[Key, Step]


@dataclass(frozen=True, slots=True)
class EvidenceFigure:
    """A quantile of a recent window, in seconds."""

    q: float
    seconds: float
    events: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The evidence of one watch at one apiserver.

    - `figure`: the quantile that shows that the watch is late, or its median if it is not; None with too few events.
    - `events`, `bytes`: received between each two snapshots, the newest step first.
    - `lateness`: in seconds, or None if the watch is not late.
    - `place`: where the time is lost, or None if the watch is not late or the place is unknown.
    - `scattered`: some events are much later than others. Load causes this, a plain delay does not.
    - `grows`: the median rises with each snapshot.
    - `stuck`: the watch delivers nothing although there are events.
    - `catch_ups`: in the last `AFTERMATH_SECONDS`, bursts after a pause that began with old events.
    - `stalls`: how often audits found a stall in the last `AFTERMATH_SECONDS`; the watch was then reopened.
    - `whole_late`: the quantile that shows that its whole objects arrive late although the watch itself is in time.
    - `expired`: the 410s of the last minute, or 0 if there was none in the last `SPAN_SECONDS`.
    """

    key: Key
    reading: WatchReading
    events: tuple[int, ...]
    bytes: tuple[int, ...]
    expired: int
    slow_consumer: int
    figure: EvidenceFigure | None
    creation: EvidenceFigure | None
    lateness: float | None
    place: Place | None
    scattered: bool
    grows: bool
    stuck: bool
    stalls: int
    whole_late: EvidenceFigure | None
    catch_ups: int = 0

    @property
    def apiserver(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def resource(self) -> str:
        """Return the name that kubectl accepts."""
        return f"{self.reading.resource}.{self.reading.group}" if self.reading.group else self.reading.resource

    @property
    def late(self) -> bool:
        return self.lateness is not None

    @property
    def healthy(self) -> bool:
        """Return whether the watch is known not to be late; with too few events it is neither late nor healthy."""
        return self.figure is not None and not self.late and not self.stuck

    @property
    def threshold(self) -> float:
        return self.reading.track.objective.threshold


@dataclass(frozen=True, slots=True)
class ApiserverEvidence:
    """The evidence of one apiserver; durations are in seconds.

    - `tick`: the median round trip of its ticks, or None with too few.
    - `low`, `high`: the quantiles 0.1 and 0.9 of round trips, or None with too few. They cover a shorter time than
      `tick`, because a change of the delay would look like scatter.
    - `silent_for`: since the last answer to a tick.
    - `answers`, `cache_answers`: answers of any kind, and answers from its watch caches, in the last step.
    - `unanswered`, `refusals`: requests without an answer, and 429s that are a sign of load, in the last
      `SPAN_SECONDS`.
    - `cache_trip`: how long reads of its watch caches take, or None without such reads.
    - `kine`: it keeps objects in kine.
    - `polls`: it finds the commits of other servers by a poll of its storage.
    - `own`: its own figures of the last seconds, or None if they are not known to be those of a single process.
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
    kine: bool
    polls: bool
    watches: tuple[Watch, ...]
    own: ApiserverFigures | None = None

    @property
    def text(self) -> str:
        """Return its words in a sentence."""
        return apiserver_text(self.name)

    @property
    def first_text(self) -> str:
        """Return its words at the beginning of a sentence."""
        return apiserver_text(self.name, is_first=True)

    @property
    def troubled(self) -> bool:
        return self.slow or self.silent

    @property
    def dead(self) -> bool:
        """Return whether the apiserver neither answers nor sends anything."""
        return self.silent and not self.answers and not any(watch.bytes[0] for watch in self.watches)

    @property
    def erratic(self) -> bool:
        """Return whether some ticks are slow while others are still prompt."""
        if self.low is None or self.high is None:
            return False
        return self.high >= max(ERRATIC_SECONDS, ERRATIC_FACTOR * self.low)

    @property
    def cache_slow(self) -> bool | None:
        """Return whether reads of its caches take as long as its ticks or watches; None without such reads."""
        if self.cache_trip is None:
            return None
        lateness = [watch.lateness for watch in self.watches if watch.lateness is not None]
        others = [*lateness, *([self.tick] if self.slow and self.tick is not None else [])]
        return bool(others) and self.cache_trip >= 0.5 * min(others)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the rules; `tainted` is the share of the last seconds in which watchslo itself was late.

    `apiservers` are those with watches. `witnesses` answer ticks now and have no watches: one that does not answer may
    only be out of our reach, so it is no evidence. `by_name` has the watches of each name at all apiservers.
    """

    tainted: float
    apiservers: Mapping[str, ApiserverEvidence]
    witnesses: Mapping[str, ApiserverEvidence]
    watches: Mapping[Key, Watch]
    by_name: Mapping[str, Sequence[Watch]]

    @property
    def ticked(self) -> list[ApiserverEvidence]:
        """Return the apiservers whose ticks can be compared."""
        return [*self.apiservers.values(), *self.witnesses.values()]

    @property
    def several_ticked(self) -> bool:
        return len(self.ticked) > 1

    @property
    def several_watched(self) -> bool:
        """Return whether there are watches of several apiservers to compare."""
        return len(self.apiservers) > 1

    def peers(self, watch: Watch) -> list[Watch]:
        """Return the same watch at the other apiservers."""
        return [one for one in self.by_name[watch.name] if one.apiserver != watch.apiserver]


class Memory:
    """Keeps what the rules need of the last minute, and the best round trip of each apiserver since it is there."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []
        self._best: dict[str, float] = {}

    def add(self, now: float, snapshot: Snapshot) -> Generator[None, None, None]:
        """Add a snapshot, and pause after each watch; after a pause of the process, earlier ones are out of date."""
        steps: dict[Key, Step] = {}
        for watch in snapshot.watches:
            steps[watch.apiserver, watch.watch] = _step(watch)
            yield
        if self._moments and now - self._moments[-1].now > SPAN_SECONDS:
            self._moments = []
        self._moments = [one for one in self._moments if one.now >= now - MEMORY_SECONDS]
        watches = Counter(watch.domain for watch in snapshot.watches)
        domains = sorted(snapshot.domains, key=lambda domain: -watches[domain.name])
        tainted = snapshot.monitor.tainted_seconds
        self._moments.append(Moment(now, tainted, snapshot.apiservers, domains, steps))
        present = {apiserver.name for apiserver in snapshot.apiservers}
        self._best = {name: best for name, best in self._best.items() if name in present}

    def evidence(self, snapshot: Snapshot) -> Generator[None, None, Evidence | None]:
        """Return the evidence, or None while there is only one moment; pause after each watch.

        `snapshot` is the last one that was added.
        """
        if len(self._moments) == 1:
            return None
        newest = self._moments[-1]
        base = self._since(SPAN_SECONDS)
        watched = {reading.name for reading in snapshot.apiservers if reading.watched}
        round_trips = {domain.name: domain.resolution or 0.0 for domain in snapshot.domains}
        polling = {one.apiserver for domain in snapshot.domains for one in domain.tickers if one.polls}
        watches: dict[Key, Watch] = {}
        by_name: defaultdict[str, list[Watch]] = defaultdict(list)
        by_apiserver: defaultdict[str, list[Watch]] = defaultdict(list)
        for reading in snapshot.watches:
            if reading.apiserver in watched:  # else the service, if each apiserver is watched individually
                key = reading.apiserver, reading.watch
                past = [(one.now, one.steps[key]) for one in self._moments if key in one.steps]
                round_trip, polls = round_trips.get(reading.domain, 0.0), reading.apiserver in polling
                watch = watches[key] = _watch(reading, past, base.now, round_trip, polls=polls)
                by_name[watch.name].append(watch)
                by_apiserver[watch.apiserver].append(watch)
            yield
        of_all = {
            reading.name: self._apiserver(reading, base, by_apiserver[reading.name])
            for reading in snapshot.apiservers
            if reading.role is not ApiserverRole.SERVICE
        }
        apiservers = {name: one for name, one in of_all.items() if name in watched}
        witnesses = {name: one for name, one in of_all.items() if name not in watched and self._testifies(one)}
        tainted = newest.tainted_seconds - base.tainted_seconds
        return Evidence(tainted / (newest.now - base.now), apiservers, witnesses, watches, by_name)

    def _since(self, seconds: float) -> Moment:
        """Return the first moment of the last seconds."""
        return next(one for one in self._moments if one.now >= self._moments[-1].now - seconds)

    def _testifies(self, witness: ApiserverEvidence) -> bool:
        """Return whether a witness answers ticks of the storage that is watched."""
        ticker = _ticker(self._moments[-1], witness.name)
        return ticker is not None and ticker.confirmed and witness.tick is not None and not witness.silent

    def _apiserver(self, reading: ApiserverReading, base: Moment, watches: Sequence[Watch]) -> ApiserverEvidence:
        *_, before, last = self._moments
        ticker = _ticker(last, reading.name)
        gap = ticker.gap if ticker else 0.0
        since = self._since(max(SPAN_SECONDS, TICK_GAPS * gap))
        trips, spread = (_round_trips(one, ticker) for one in (since, self._moments[-STEPS:][0]))
        tick = middle(trips) if trips else None
        low, high = (quantile(spread, q) if spread else None for q in (0.1, 0.9))
        silent_for = _silent_for(ticker)
        longest = max(SILENT_SECONDS, SILENT_GAPS * gap)
        recent, spanned = (increases(_requests(one, reading.name), reading.requests) for one in (before, base))
        reads = [watch.reading.cache.round_trip for watch in watches if watch.reading.cache.round_trip is not None]
        return ApiserverEvidence(
            name=reading.name,
            tick=tick,
            low=low,
            high=high,
            slow=tick is not None and self._is_slow(reading.name, tick, watches),
            silent_for=silent_for,
            silent=silent_for > longest and not (ticker and ticker.unusable) and not _is_refused(spanned),
            answers=sum(count for (_, code), count in recent.items() if code.isdigit()),
            cache_answers=recent.get(("probe_cache", "200"), 0),
            unanswered=sum(count for (_, code), count in spanned.items() if not code.isdigit()),
            refusals=sum(count for (_, code), count in spanned.items() if code == "429")
            - (reading.not_ready - _not_ready(base, reading.name)),
            cache_trip=median(reads) if reads else None,
            kine=any(_is_kine(domain, reading.name) for domain in last.domains),
            polls=ticker is not None and ticker.polls,
            watches=tuple(watches),
            own=reading.own_metrics.recent if reading.own_metrics and reading.own_metrics.processes == 1 else None,
        )

    def _is_slow(self, name: str, tick: float, watches: Iterable[Watch]) -> bool:
        """Return whether ticks are slower than the network, and than they were before or than those of another one.

        An apiserver is compared with others only if the network's own share of its ticks is known, and small.
        """
        best = self._best[name] = min(tick, self._best.get(name, math.inf))
        known = [watch.reading.session.transport.round_trip for watch in watches if watch.reading.session.transport]
        rest = tick - min(known, default=0.0)
        if known and rest >= MOST_SHARE * tick:
            best = min(self._best.values())
        return rest >= SLOW_SECONDS and (tick >= SLOW_FACTOR * best or tick >= 2 * SLOW_FACTOR * SLOW_SECONDS)


# --- apiservers ------------------------------------------------------------------------------------------------------


def _ticker(moment: Moment, apiserver: str) -> TickerReading | None:
    """Return the apiserver's ticker in the domain with most watches.

    Smaller domains may tick on the very caches that are judged.
    """
    for domain in moment.domains:
        for ticker in domain.tickers:
            if ticker.apiserver == apiserver:
                return ticker
    return None


def _is_kine(domain: DomainReading, apiserver: str) -> bool:
    return domain.kind is StorageKind.KINE and any(ticker.apiserver == apiserver for ticker in domain.tickers)


def _round_trips(since: Moment, ticker: TickerReading | None) -> HistogramReading | None:
    """Return the round trips of ticks answered since that snapshot, or None with too few."""
    if ticker is None:
        return None
    before = _ticker(since, ticker.apiserver)
    recent = observations_since(before.round_trips if before else None, ticker.round_trips)
    return recent if recent.total >= TICKS else None


def _silent_for(ticker: TickerReading | None) -> float:
    """Return the seconds since the last answer to a tick; 0 before the first tick, infinite if none succeeded."""
    if ticker is None:
        return 0.0
    if ticker.answered_ago is None:
        return math.inf if ticker.failure else 0.0
    return ticker.answered_ago


def _is_refused(requests: Mapping[tuple[str, str], int]) -> bool:
    """Return whether the apiserver answers ticks by refusals, so that few are sent: then it is not silent.

    It refuses them for missing rights or credentials, or only for now (429).
    """
    failed = {code for (kind, code), count in requests.items() if kind == "tick" and count and code != "200"}
    return failed == {"429"} or not failed.isdisjoint(DENIALS)


def _not_ready(moment: Moment, apiserver: str) -> int:
    return next((one.not_ready for one in moment.apiservers if one.name == apiserver), 0)


def _requests(moment: Moment, apiserver: str) -> Mapping[tuple[str, str], int]:
    return next((one.requests for one in moment.apiservers if one.name == apiserver), {})


# --- watches ---------------------------------------------------------------------------------------------------------

Past = Sequence[tuple[float, Step]]
"""The steps of one watch, each with its time in monotonic seconds; the last one is the newest."""


def _step(watch: WatchReading) -> Step:
    figure = _figure(watch.track.windows, *LATE[0][::2])
    return Step(
        up=watch.up,
        events=_events(watch),
        bytes=watch.received.bytes,
        expired=sum(watch.lists.expired.values()),
        slow_consumer=sum(count for (_, reason), count in watch.outcomes.closed.items() if reason == "slow_consumer"),
        catch_ups=watch.received.catch_ups,
        stalls=watch.audit.stalls,
        stuck=_is_stuck(watch, ()),
        median=figure.seconds if figure else None,
    )


def _watch(watch: WatchReading, past: Past, since: float, round_trip: float, *, polls: bool) -> Watch:
    (now, last), first = past[-1], next(step for time, step in past if time >= since)
    steps = [*pairwise(step for _, step in past)][::-1]
    events = tuple(increase(old.events, new.events) for old, new in steps) or (0,)
    recent = [(old, new) for (_, old), (time, new) in pairwise(past) if time > now - AFTERMATH_SECONDS]
    blocked = _was_blocked(past, now - AFTERMATH_SECONDS)
    slow = None if blocked else _late_figure(watch, POLLED_LATE if polls else LATE)
    behind = watch.cache.behind_peers or 0.0
    is_behind = behind >= (POLLED_BEHIND_SHARE if polls else BEHIND_SHARE) * watch.track.objective.threshold
    lateness = slow.seconds if slow else behind if is_behind else None
    usual = None if blocked else _median(watch, round_trip)
    return Watch(
        key=(watch.apiserver, watch.watch),
        reading=watch,
        events=events,
        bytes=tuple(increase(old.bytes, new.bytes) for old, new in steps) or (0,),
        expired=increase(past[0][1].expired, last.expired) if increase(first.expired, last.expired) else 0,
        slow_consumer=increase(first.slow_consumer, last.slow_consumer),
        figure=slow or usual,
        creation=_hop(watch, Hop.CREATION_TO_STORAGE, 0.5),
        lateness=lateness,
        place=None if lateness is None else _place(watch, lateness, slow.q if slow else 0.5),
        scattered=not blocked and _is_scattered(watch),
        grows=_grows([step for _, step in past[-STEPS:]], GROWTH_SHARE * watch.track.objective.threshold),
        stuck=_is_stuck(watch, events),
        stalls=sum(increase(old.stalls, new.stalls) for old, new in recent),
        catch_ups=sum(increase(old.catch_ups, new.catch_ups) for old, new in recent),
        whole_late=_whole_late(watch) if lateness is None else None,
    )


def _events(watch: WatchReading) -> int:
    return sum(count for type_, count in watch.received.events.items() if type_ != "ERROR")


def _is_scattered(watch: WatchReading) -> bool:
    """Judge by the shortest window: a longer one mixes prompt and late events when a delay begins or ends."""
    (_, share, _), (_, _, least) = LATE[:2]
    newest = min(watch.track.windows, key=lambda window: window.length, default=None)
    if newest is None or newest.events < least:
        return False
    low, high = (one.estimate for one in newest.quantiles if one.q in (0.5, 0.9))
    return high >= max(share * watch.track.objective.threshold, SCATTER_FACTOR * low)


def _grows(steps: Sequence[Step], least: float) -> bool:
    medians = [step.median for step in steps]
    rises = [old is not None and new is not None and new - old >= least for old, new in pairwise(medians)]
    return len(medians) == STEPS and all(rises)


def _is_stuck(watch: WatchReading, events: Sequence[int]) -> bool:
    if any(events[:2]) or not watch.up:
        return False
    return watch.audit.stalled_for is not None or (watch.cache.behind_peers or 0.0) >= STUCK_SECONDS


def _was_blocked(past: Past, since: float) -> bool:
    """Return whether the watch was closed or stuck for a step: its next events are a backlog and say nothing of now."""
    return any(
        increase(old.events, new.events) == 0 and (not new.up or new.stuck)
        for (_, old), (time, new) in pairwise(past)
        if time >= since
    )


def _window(windows: Iterable[WindowReading], least: int) -> WindowReading | None:
    """Return the shortest window with enough events; a longer one only if it also has recent events."""
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


def _figure(windows: Iterable[WindowReading], q: float, least: int) -> EvidenceFigure | None:
    found = _quantile(windows, q, least)
    return EvidenceFigure(q, found[0].estimate, found[1]) if found else None


def _median(watch: WatchReading, round_trip: float) -> EvidenceFigure | None:
    """Return the median, or the ticks' round trip if the median is too short to be resolved.

    None if the median is not resolved and the round trip itself would count as late.
    """
    q, share, least = LATE[0]
    resolved, window = _figure(watch.track.windows, q, least), _window(watch.track.windows, least)
    if resolved or not window or round_trip >= share * watch.track.objective.threshold:
        return resolved
    return EvidenceFigure(q, round_trip, window.events)


def _late_figure(watch: WatchReading, rows: Sequence[tuple[float, float, int]]) -> EvidenceFigure | None:
    """Return the lowest quantile that is late by these rows, or None."""
    threshold, windows = watch.track.objective.threshold, watch.track.windows
    for q, share, least in rows:
        figure = _figure(windows, q, least)
        if figure and figure.seconds >= share * threshold and _is_current(windows, q, share * threshold):
            return figure
    return None


def _is_current(windows: Sequence[WindowReading], q: float, seconds: float) -> bool:
    """Return whether the newest events are late too: the delay that a longer window shows may be over."""
    newest = min(windows, key=lambda window: window.length)
    return newest.events < LATE[0][2] or all(one.estimate >= seconds for one in newest.quantiles if one.q == q)


def _hop(watch: WatchReading, hop: Hop, q: float, least: int = HOP_EVENTS) -> EvidenceFigure | None:
    windows = next((one.windows for one in watch.track.hops if one.hop is hop), ())
    return _figure(windows, q, least)


def _whole_late(watch: WatchReading) -> EvidenceFigure | None:
    """Return how much later whole objects arrive, by the lowest quantile that is late."""
    for q, share, least in LATE:
        figure = _hop(watch, Hop.ENCODING_TO_CLIENT, q, least)
        if figure and figure.seconds >= share * watch.track.objective.threshold:
            return figure
    withheld = watch.reference.withheld if watch.reference else 0.0
    return EvidenceFigure(1.0, withheld, 1) if withheld >= watch.track.objective.threshold else None


def _place(watch: WatchReading, lateness: float, q: float) -> Place | None:
    """Return where most of the time is lost, or None if that is unclear.

    A delay after the cache that no read resolves is taken to last as long as the reads: both use the same path.
    """
    storage, client = (
        figure.seconds if figure else 0.0
        for figure in (_hop(watch, hop, q) for hop in (Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT))
    )
    most = MOST_SHARE * lateness
    if watch.cache.behind and watch.cache.behind.lower >= most:
        return Place.STORAGE
    if storage >= max(most, CLEAR_FACTOR * client):
        return Place.STORAGE
    reads = watch.cache.round_trip or 0.0
    return Place.CLIENT if max(client, reads) >= most and storage < most else None
