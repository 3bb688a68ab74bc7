"""The evidence of one watch: whether it is late, on which hop, and whether it is stuck."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from watchslo.changes import increase
from watchslo.diagnose.evidence import AFTERMATH_SECONDS, MOST_SHARE, EvidenceFigure, Place, Watch
from watchslo.snapshot import Hop, QuantileReading, WatchReading, WindowReading

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
CLEAR_FACTOR = 1.5  # times the other hop: a smaller difference does not decide between the two
SCATTER_FACTOR = 1.5  # between P50 and P90
STEPS = 3  # snapshots that show a trend
GROWTH_SHARE = 0.25  # of the threshold, from one snapshot to the next
STUCK_SECONDS = 2.0  # a watch that is behind for so long without a single event is stuck, not just late


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


Past = Sequence[tuple[float, Step]]
"""The steps of one watch, each with its time in monotonic seconds; the last one is the newest."""


def step_of(watch: WatchReading) -> Step:
    """Return what is remembered of a watch."""
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


def watch_evidence(watch: WatchReading, past: Past, since: float, round_trip: float, *, polls: bool) -> Watch:
    """Return the evidence of a watch that has this past, of which the steps from `since` on are compared.

    `round_trip` is that of the ticks of its clock in seconds; `polls` says that its events may wait for a poll.
    """
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
    low, high = (quantile.estimate for quantile in newest.quantiles if quantile.q in (0.5, 0.9))
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
    return newest.events < LATE[0][2] or all(
        quantile.estimate >= seconds for quantile in newest.quantiles if quantile.q == q
    )


def _hop(watch: WatchReading, hop: Hop, q: float, least: int = HOP_EVENTS) -> EvidenceFigure | None:
    windows = next((reading.windows for reading in watch.track.hops if reading.hop is hop), ())
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
