"""Can the figures be trusted? What the monitor knows of itself, in a sentence each: it must not blame others."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from watchslo.history.headline import Level, stopped_for
from watchslo.history.series import Key
from watchslo.history.words import counted, duration, moment, since
from watchslo.snapshot import DomainReading, MonitorReading, Snapshot, TrackReading

QUESTION = "Can I trust this?"
MINUTE_POINTS = 12  # evaluations, one every five seconds
ON_TIME_SECONDS = 0.025  # a heartbeat: later ones are seen in figures of that size
ON_TIME_SHARE = 0.99
COVERED_SHARE = 0.95  # of the events; of what is left out nothing is known
TAINTED_SECONDS = 1.0  # of a minute: then what was left out may be just what was late


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so for the figures to be right."""

    name: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class _Sums:
    """What is counted from the start on, of the whole process."""

    beats: int
    on_time: int
    tainted: float
    events: Mapping[Key, tuple[int, int]]  # measured and left out, of those watches whose clock is known


def summary(checks: Sequence[Check]) -> Check:
    """All checks in one, for the verdict: before others are blamed it has to be known that it is not us."""
    failed, unknown = (
        ", ".join(check.name for check in checks if check.level is level) for level in (Level.BAD, Level.UNKNOWN)
    )
    if failed:
        return Check(QUESTION, Level.BAD, f"Look at us first: {failed}.")
    if unknown:
        return Check(QUESTION, Level.UNKNOWN, f"Yes, but not all is known: {unknown}.")
    return Check(QUESTION, Level.GOOD, "Yes, watchslo itself is well.")


class Trust:
    """Looks at the last minute of the monitor itself."""

    def __init__(self) -> None:
        self._sums: deque[_Sums] = deque(maxlen=MINUTE_POINTS + 1)

    def checks(self, snapshot: Snapshot) -> tuple[Check, ...]:
        """All there is to check, in one order always."""
        self._sums.append(_sums(snapshot))
        before, now = self._sums[0], self._sums[-1]
        return (
            *_clocks(snapshot),
            _lag(before, now),
            _coverage(before, now),
            _stalls(snapshot.monitor),
            _configuration(snapshot),
            *_unproven(snapshot),
        )


def _sums(snapshot: Snapshot) -> _Sums:
    lag = snapshot.monitor.loop_lag
    on_time = max((n for edge, n in zip(lag.edges, lag.counts, strict=False) if edge <= ON_TIME_SECONDS), default=0)
    return _Sums(
        beats=lag.total,
        on_time=on_time,
        tainted=snapshot.monitor.tainted_seconds,
        events={
            (stream.apiserver, stream.watch): _events(stream.track)
            for stream in snapshot.streams
            if stream.membership != "pending"
        },
    )


def _events(track: TrackReading) -> tuple[int, int]:
    return track.timespan.total, sum(count for why, count in track.unmeasured.items() if why != "initial")


def _clocks(snapshot: Snapshot) -> Iterator[Check]:
    alone = len(snapshot.domains) == 1
    for domain in snapshot.domains:
        yield _clock("Clock" if alone else f"Clock of {domain.name}", domain, snapshot.at_wall)


def _clock(name: str, domain: DomainReading, now_wall: float) -> Check:
    stopped = stopped_for(domain)
    if stopped is not None:
        why = next((f" {ticker.failure}" for ticker in domain.tickers if ticker.failure), "")
        began = (
            "has not ticked yet" if stopped == float("inf") else f"stands still {since(now_wall - stopped, now_wall)}"
        )
        return Check(name, Level.BAD, f"It {began}.{why}")
    failing = [ticker.apiserver for ticker in domain.tickers if ticker.failure]
    trip = f", an answer takes {duration(domain.median_round_trip)}" if domain.median_round_trip is not None else ""
    gap = f"; commits are dated to {duration(domain.interval)}" if domain.interval is not None else ""
    if failing:
        return Check(name, Level.UNKNOWN, f"It ticks{trip}{gap}, but not through {', '.join(failing)}.")
    return Check(name, Level.GOOD, f"It ticks{trip}{gap}.")


def _lag(before: _Sums, now: _Sums) -> Check:
    name, beats, tainted = "Own lag", now.beats - before.beats, now.tainted - before.tainted
    if beats <= 0:
        return Check(name, Level.UNKNOWN, "Not known yet.")
    share = (now.on_time - before.on_time) / beats
    text = f"{share:.1%} of the last heartbeats came within {duration(ON_TIME_SECONDS)}"
    if tainted > TAINTED_SECONDS:
        lost = f"for {duration(tainted)} of the last minute it could not keep up: what came then is left out"
        return Check(name, Level.BAD, f"{text}; {lost}.")
    if share < ON_TIME_SHARE:
        return Check(name, Level.UNKNOWN, f"{text}: small figures may be ours.")
    return Check(name, Level.GOOD, f"{text}: what is late here is not us.")


def _coverage(before: _Sums, now: _Sums) -> Check:
    """Of those watches that were there a minute ago: at its start a watch has to wait for its clock."""
    name = "Coverage"
    both = now.events.keys() & before.events.keys()
    measured, left_out = (sum(now.events[key][i] - before.events[key][i] for key in both) for i in (0, 1))
    if not both or measured + left_out <= 0:
        return Check(name, Level.UNKNOWN, "No event in the last minute." if both else "Not known yet.")
    share = measured / (measured + left_out)
    text = f"{share:.1%} of {counted(measured + left_out, 'event')} of the last minute could be measured."
    return Check(name, Level.GOOD if share >= COVERED_SHARE else Level.BAD, text)


def _stalls(monitor: MonitorReading) -> Check:
    name, within = "Silence", monitor.stall_detection
    if within is None:
        return Check(name, Level.UNKNOWN, "Audits are off: a silent watch may be idle, or dead.")
    return Check(name, Level.GOOD, f"A silent watch is audited: a dead one is found within {duration(within)}.")


def _configuration(snapshot: Snapshot) -> Check:
    name, monitor = "Configuration", snapshot.monitor
    if not monitor.reload_succeeded:
        return Check(name, Level.BAD, "The file was refused; the log says why. What was in force stays so.")
    return Check(name, Level.GOOD, f"In force since {moment(monitor.reloaded_wall)} UTC.")


def _unproven(snapshot: Snapshot) -> Iterator[Check]:
    for apiserver in snapshot.apiservers:
        if apiserver.unproven:
            yield Check(f"Revisions of {apiserver.name}", Level.UNKNOWN, f"Unproven: {apiserver.unproven}")
