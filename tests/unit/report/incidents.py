"""The documents of a daemon in a story: the watch of pods is late for eight minutes, because etcd is slow."""

from dataclasses import dataclass, replace
from functools import cache

from tests.unit.serve import readings
from watchslo.api.feed import SeriesDocument, Update
from watchslo.api.part import decode
from watchslo.api.status import StatusDocument
from watchslo.report.daemon import DaemonDocuments, report_of
from watchslo.report.incident import IncidentReport, ReportPeriod
from watchslo.serve import rows, update
from watchslo.serve.status import StatusEncoder
from watchslo.snapshot import Cause, CauseReading, Confidence, QuantileReading, Snapshot, WatchReading
from watchslo.timeline.timeline import Timeline

BEGIN_WALL = 1_699_999_200.0  # 2023-11-14 22:00:00 UTC
MINUTES = 45
LATE = range(20, 28)  # minutes in which the watch of pods is late
PLACE = "http://127.0.0.1:9477"
OVERLOADED_MINUTE = 35
SLOW = CauseReading(
    cause=Cause.STORAGE_SLOW,
    apiserver=None,
    watch=None,
    confidence=Confidence.HIGH,
    since_wall=BEGIN_WALL + 60.0 * LATE.start + 15.0,
    evidence="Every tick is slow: ticks take 2.1 s (service), <b>normally</b> 4 ms.",
    next="Check etcd: etcd_disk_wal_fsync_duration_seconds | and more.",
)
FADING = replace(SLOW, confidence=Confidence.MEDIUM, evidence="Ticks are slow.")  # its evidence shortly before its end
HOSTILE = '<script>alert("1")</script> `x` | *y*'


@dataclass(frozen=True)
class Story:
    """What happens: `late` minutes of pods, and the name of the second watch."""

    late: range = LATE
    second: str = HOSTILE
    lost: int = 0
    proven_only: bool = False

    def snapshot(self, second: float) -> Snapshot:
        """Return the snapshot so many seconds after the begin."""
        minute = second / 60.0
        is_late = self.late.start <= minute < self.late.stop
        ended = max(0, int((second - 5.0) // 60.0))
        bad = sum(number in self.late for number in range(ended))
        cause = SLOW if minute < self.late.stop else FADING
        causes = (cause,) if self.late and self.late.start + 0.5 <= minute < self.late.stop + 0.5 else ()
        pods = self._stream(readings.TAIL, 3.2 if is_late else 0.031, ended - bad, bad)
        other = replace(
            self._stream(readings.TAIL, 0.024, ended, 0),
            watch=self.second,
            resource="leases",
            group="coordination.k8s.io",
            apiserver="10.0.0.1:6443",
        )
        tainted = 0.5 + (3.0 if minute >= OVERLOADED_MINUTE else 0.0)
        return replace(
            readings.SNAPSHOT,
            at_wall=BEGIN_WALL + second,
            monitor=replace(readings.MONITOR, started_wall=BEGIN_WALL, tainted_seconds=tainted, witnesses=None),
            domains=(replace(readings.DOMAIN, tickers=(readings.TICKER,)),),
            watches=(pods, other, replace(other, watch="nodes", resource="nodes", group="")),
            causes=causes,
        )

    def _stream(self, stream: WatchReading, p99: float, good: int, bad: int) -> WatchReading:
        quantile = QuantileReading(0.99, p99 * 0.9, p99, p99 * 1.25)
        counts = {"within": 120 * good, "beyond": 37 * bad, "uncertain": 3 * bad}
        windows = {"good": good, "bad": bad, "undecided": 0, "no_data": 1}
        objective = replace(readings.TRACK.objective, verdicts=counts, windows=windows)
        track = readings.judged(120, replace(quantile, q=0.5, lower=0.0), quantile, track=readings.TRACK)
        track = replace(track, objective=objective, verdict=readings.judged(120, quantile).verdict)
        if self.proven_only:
            track = replace(track, windows=(), judged=None, proven_only=True)
        violations = {**stream.guarantees.violations, "reliable": self.lost if good + bad > 1 else 0}
        return replace(
            stream,
            track=track,
            headroom=None,
            received=replace(stream.received, last_wall=None),
            guarantees=replace(stream.guarantees, violations=violations),
        )


LATE_PODS = Story()
QUIET = Story(range(0), "leases")


@cache
def bodies(story: Story = LATE_PODS, minutes: float = MINUTES) -> tuple[bytes, bytes, bytes]:
    """Return status, first event of the feed and series of a daemon after so many minutes, as JSON."""
    timeline = Timeline()
    seconds = 5.0
    while seconds <= 60.0 * minutes:
        timeline.observe(story.snapshot(seconds))
        seconds += 5.0
    account = timeline.account
    assert account is not None
    status = StatusEncoder().encode(account.snapshot, account).body
    full = update.full(timeline, account, [*rows.watches(account).values()])
    return status, full, b"".join(update.series(update.past_watches(timeline, None, 3600.0), 3600.0, 5.0))


def documents(story: Story = LATE_PODS, minutes: float = MINUTES) -> DaemonDocuments:
    """Return the same, decoded."""
    status, full, series = bodies(story, minutes)
    return DaemonDocuments(decode(status, StatusDocument), decode(full, Update), decode(series, SeriesDocument))


def period(first: float = 0.0, last: float = MINUTES) -> ReportPeriod:
    """Return the period between two minutes of the story."""
    return ReportPeriod(BEGIN_WALL + 60.0 * first, BEGIN_WALL + 60.0 * last)


def incident(story: Story = LATE_PODS, minutes: float = MINUTES, covered: ReportPeriod | None = None) -> IncidentReport:
    """Return the report of a story, made at its end."""
    made_wall = BEGIN_WALL + 60.0 * minutes
    return report_of(documents(story, minutes), covered or period(0.0, minutes), PLACE, made_wall)
