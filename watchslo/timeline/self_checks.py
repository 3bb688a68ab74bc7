"""The self checks: can the figures be trusted, or is watchslo itself the cause? One sentence each. Pure."""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from watchslo.changes import increase
from watchslo.model import apiserver_text
from watchslo.snapshot import DomainReading, MonitorReading, Snapshot, StorageKind, TrackReading, WitnessReading
from watchslo.timeline.format import counted, duration, moment, since
from watchslo.timeline.headline import COARSE_SHARE, is_storage_silent, stopped_for
from watchslo.timeline.series import Key
from watchslo.timeline.verdict import Level

QUESTION = "Can I trust this?"
MINUTE_POINTS = 12  # evaluations, one every five seconds
ON_TIME_SECONDS = 0.025  # a heartbeat later than this shows in figures of the same size
ON_TIME_SHARE = 0.99
MEASURED_SHARE = 0.95  # of all events; the others are not measured
TAINTED_SECONDS = 1.0  # of a minute: the events that were left out may be the late ones


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """One condition for the figures to be right, and whether it holds."""

    name: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class _Sums:
    """Totals of the whole process since its start."""

    beats: int
    on_time: int
    tainted: float
    watches: tuple[Key, ...]  # whose domain is known; one object while they stay the same
    measured: Sequence[int]  # events of each watch
    left_out: Sequence[int]


def summary(checks: Sequence[SelfCheck], *, measuring: bool) -> SelfCheck:
    """Return all checks in one sentence, which is shown next to the headline; `measuring` if any figure can exist."""
    failed, unknown = (
        ", ".join(check.name for check in checks if check.level is level) for level in (Level.BAD, Level.UNKNOWN)
    )
    if failed:
        return SelfCheck(QUESTION, Level.BAD, f"No: watchslo itself has a problem: {failed}.")
    if not measuring:
        return SelfCheck(QUESTION, Level.UNKNOWN, "Cannot tell: nothing is measured.")
    if unknown:
        return SelfCheck(QUESTION, Level.UNKNOWN, f"Mostly: check {unknown}.")
    return SelfCheck(QUESTION, Level.GOOD, "Yes: all self checks pass.")


class SelfChecks:
    """Checks the last minute of the monitor itself."""

    def __init__(self) -> None:
        self._sums: deque[_Sums] = deque(maxlen=MINUTE_POINTS + 1)

    @property
    def overloaded(self) -> bool:
        """True if this process could not keep up in the last minute, as of the last checks."""
        return self._sums[-1].tainted - self._sums[0].tainted > TAINTED_SECONDS

    def checks(self, snapshot: Snapshot) -> tuple[SelfCheck, ...]:
        """Return all checks, always in the same order."""
        known = self._sums[-1].watches if self._sums else ()
        self._sums.append(_sums(snapshot, known))
        before, now = self._sums[0], self._sums[-1]
        return (
            *_clocks(snapshot),
            _lag(before, now),
            _measured_share(next((sums for sums in self._sums if sums.watches), before), now),
            _stalls(snapshot.monitor),
            *_witnesses(snapshot.monitor.witnesses),
            _configuration(snapshot),
            *_storages(snapshot),
            *_unproven(snapshot),
        )


def _sums(snapshot: Snapshot, known: tuple[Key, ...]) -> _Sums:
    lag = snapshot.monitor.loop_lag
    on_time = max((n for edge, n in zip(lag.edges, lag.counts, strict=False) if edge <= ON_TIME_SECONDS), default=0)
    streams = [watch for watch in snapshot.watches if watch.membership != "pending"]
    watches = tuple((watch.apiserver, watch.watch) for watch in streams)
    return _Sums(
        beats=lag.total,
        on_time=on_time,
        tainted=snapshot.monitor.tainted_seconds,
        watches=known if watches == known else watches,
        measured=array("q", [watch.track.timespan.total for watch in streams]),
        left_out=array("q", [_left_out(watch.track) for watch in streams]),
    )


def _left_out(track: TrackReading) -> int:
    return sum(count for why, count in track.unmeasured.items() if why != "initial")


def _clocks(snapshot: Snapshot) -> Iterator[SelfCheck]:
    alone = len(snapshot.domains) == 1
    for domain in snapshot.domains:
        name = "Clock" if alone else f"Clock of {domain.name}"
        yield _clock(name, domain, snapshot, COARSE_SHARE * snapshot.monitor.threshold)


def _clock(name: str, domain: DomainReading, snapshot: Snapshot, coarse: float) -> SelfCheck:
    """Check that a clock ticks through all its apiservers, and that its resolution is below `coarse` seconds.

    If none of them answers anything, or the storage answers none of them, that is no problem of this process.
    """
    stopped, now_wall = stopped_for(domain), snapshot.at_wall
    silent = {apiserver.name for apiserver in snapshot.apiservers if apiserver.unresponsive_for is not None}
    if stopped is not None and silent and silent.issuperset(ticker.apiserver for ticker in domain.tickers):
        return SelfCheck(name, Level.UNKNOWN, "It does not tick, because none of its apiservers answers.")
    if stopped is not None and is_storage_silent(snapshot):
        return SelfCheck(name, Level.UNKNOWN, "It does not tick, because the storage answers no apiserver.")
    if stopped is not None:
        why = next((f" {ticker.failure}" for ticker in domain.tickers if ticker.failure), "")
        began = (
            "has not ticked yet" if stopped == float("inf") else f"has not ticked {since(now_wall - stopped, now_wall)}"
        )
        return SelfCheck(name, Level.BAD, f"It {began}.{why}")
    failing = [ticker.apiserver for ticker in domain.tickers if ticker.failure]
    trip = f", round trip {duration(domain.resolution)}" if domain.resolution is not None else ""
    gap = f"; commit interval {duration(domain.interval)}" if domain.interval is not None else ""
    if failing:
        return SelfCheck(name, Level.UNKNOWN, f"It ticks{trip}{gap}, but ticks fail through {', '.join(failing)}.")
    if (held := max(domain.resolution or 0.0, domain.hidden)) >= coarse:
        return SelfCheck(name, Level.UNKNOWN, f"It ticks{trip}{gap}; a P99 below {duration(held)} cannot be measured.")
    return SelfCheck(name, Level.GOOD, f"It ticks{trip}{gap}.")


def _lag(before: _Sums, now: _Sums) -> SelfCheck:
    name, beats, tainted = "Own lag", now.beats - before.beats, now.tainted - before.tainted
    if beats <= 0:
        return SelfCheck(name, Level.UNKNOWN, "Not known yet.")
    share = (now.on_time - before.on_time) / beats
    text = f"{share:.1%} of the last heartbeats were at most {duration(ON_TIME_SECONDS)} late"
    if tainted > TAINTED_SECONDS:
        lost = (
            f"for {duration(tainted)} of the last minute watchslo could not keep up; events of that time are left out"
        )
        return SelfCheck(name, Level.BAD, f"{text}; {lost}.")
    if share < ON_TIME_SHARE:
        return SelfCheck(name, Level.UNKNOWN, f"{text}: small latencies may be our own.")
    return SelfCheck(name, Level.GOOD, f"{text}: our own lag adds at most that.")


def _measured_share(before: _Sums, now: _Sums) -> SelfCheck:
    """Check watches that existed at the beginning only: a new watch waits for its domain."""
    name = "Measured events"
    rows = {key: row for row, key in enumerate(before.watches)}
    both = [(rows[key], row) for row, key in enumerate(now.watches) if key in rows and before is not now]
    measured = sum(increase(before.measured[old], now.measured[new]) for old, new in both)
    left_out = sum(increase(before.left_out[old], now.left_out[new]) for old, new in both)
    if not both or measured + left_out <= 0:
        return SelfCheck(name, Level.UNKNOWN, "No event in the last minute." if both else "Not known yet.")
    share = measured / (measured + left_out)
    text = f"{share:.1%} of {counted(measured + left_out, 'event')} of the last minute were measured."
    return SelfCheck(name, Level.GOOD if share >= MEASURED_SHARE else Level.BAD, text)


def _stalls(monitor: MonitorReading) -> SelfCheck:
    name, within = "Audits", monitor.stall_detection
    if within is None:
        return SelfCheck(name, Level.UNKNOWN, "Audits are off: a silent watch may be idle or stalled.")
    return SelfCheck(name, Level.GOOD, f"Silent watches are audited: a stalled one is found within {duration(within)}.")


def _witnesses(found: WitnessReading | None) -> Iterator[SelfCheck]:
    """Check that the delays of one apiserver show in the ticks of others, if there are others."""
    name = "Witnesses"
    if found and found.announced and found.reached == found.announced:
        are, they = ("is", "it is") if found.announced == 1 else ("are", "they are")
        more = counted(found.announced, "more apiserver")
        yield SelfCheck(name, Level.GOOD, f"{more} {are} announced; {they} ticked on and not watched.")
    elif found and found.why:
        reach = (
            f"{found.reached} of {counted(found.announced, 'other announced apiserver')} can be reached"
            if found.announced
            else "The announced apiservers cannot be listed"
        )
        lost = "" if found.reached else "a delay between etcd and a watched apiserver may be invisible, and "
        yield SelfCheck(name, Level.UNKNOWN, f"{reach}: {lost}creation timestamps are not measured. {found.why}")


def _configuration(snapshot: Snapshot) -> SelfCheck:
    name, monitor = "Configuration", snapshot.monitor
    if not monitor.reload_succeeded:
        return SelfCheck(
            name, Level.BAD, "The changed file was refused; see the log. The previous configuration stays in force."
        )
    return SelfCheck(name, Level.GOOD, f"In force since {moment(monitor.reloaded_wall)} UTC.")


def _storages(snapshot: Snapshot) -> Iterator[SelfCheck]:
    """Say what the revisions of each domain are, and how far that limits the figures."""
    alone = len(snapshot.domains) == 1
    for domain in snapshot.domains:
        if domain.revision is not None:
            name = "Storage" if alone else f"Storage of {domain.name}"
            level, text = _STORAGES[domain.kind]
            if any(ticker.polls for ticker in domain.tickers):
                level, text = Level.UNKNOWN, _POLLED
            yield SelfCheck(name, level, text)


_STORAGES = {
    StorageKind.SEQUENCE: (Level.GOOD, "Its revisions are counts, as those of etcd."),
    StorageKind.TIMESTAMP: (Level.GOOD, "Its revisions are commit times, which date each event by itself."),
    StorageKind.KINE: (Level.GOOD, "It is kine; the bounds allow for commits that are visible late."),
    StorageKind.UNKNOWN: (Level.UNKNOWN, "Its revisions are neither counts nor known to be times."),
}
_POLLED = (
    "An apiserver finds changes of other servers by a poll, which each tick starts at once: without watchslo they "
    "would be later. Latencies of events that waited for it are spread evenly between ticks."
)


def _unproven(snapshot: Snapshot) -> Iterator[SelfCheck]:
    for apiserver in snapshot.apiservers:
        if apiserver.unproven:
            yield SelfCheck(
                f"Revisions of {apiserver_text(apiserver.name)}", Level.UNKNOWN, f"Unproven: {apiserver.unproven}"
            )
