"""Evaluates everything every five seconds: statistics, comparisons, causes; then publishes a snapshot."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.latency.distribution import BLOCK_SECONDS
from watchslo.monitor.apiserver_set import ApiserverSet
from watchslo.monitor.lag import Lag
from watchslo.monitor.memory import trim_heap
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.watch_set import WatchSet
from watchslo.snapshot import CauseReading, Snapshot
from watchslo.watch.audit import Health

SNAPSHOT_SECONDS = 1.0
EARLY_SECONDS = 0.01  # timers are rounded: a wake-up this early must not lead to a second evaluation
OVERLOADED_SECONDS = 0.5  # of lag between two evaluations, a tenth of the time: the SLO is then not judged


class Evaluator:
    """Evaluates all watches, diagnoses why they are late, and keeps the newest snapshot.

    It owns the newest causes that the `Diagnosis` found, the cached snapshot and the listeners. It changes watches only
    through `evaluate_watch`. `take` makes a snapshot of all readings with these causes.
    """

    def __init__(
        self,
        apiservers: ApiserverSet,
        watches: WatchSet,
        lag: Lag,
        take: Callable[[tuple[CauseReading, ...]], Snapshot],
    ) -> None:
        self._apiservers = apiservers
        self._watches = watches
        self._lag = lag
        self._take = take
        self._diagnosis = Diagnosis()
        self._causes: tuple[CauseReading, ...] = ()
        self._tainted = 0.0
        self._snapshot: Snapshot | None = None
        self._snapshot_taken = 0.0
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._log = structlog.get_logger()

    def on_evaluation(self, listen: Callable[[Snapshot], None]) -> None:
        """Pass the snapshot of each evaluation to `listen`, which must not block the loop."""
        self._listeners.append(listen)

    def snapshot(self) -> Snapshot:
        """Return the cached snapshot, or a new one if it is a second old."""
        now = time.monotonic()
        if self._snapshot is None or now - self._snapshot_taken >= SNAPSHOT_SECONDS:
            self._snapshot, self._snapshot_taken = self.take(), now
        return self._snapshot

    def take(self) -> Snapshot:
        """Return a snapshot of this moment."""
        return self._take(self._causes)

    async def run(self) -> None:
        """Evaluate every five seconds until cancelled."""
        while True:
            reached = time.monotonic() + EARLY_SECONDS
            await asyncio.sleep(BLOCK_SECONDS - reached % BLOCK_SECONDS + EARLY_SECONDS)
            await self.evaluate()
            trim_heap()

    async def evaluate(self) -> None:
        """Evaluate one watch after the other, with time for arrivals in between; then diagnose and publish."""
        for apiserver in self._apiservers.all:
            apiserver.closes.settle(time.monotonic())
        self._watches.compare_peers()
        tainted, self._tainted = self._tainted, self._lag.tainted_seconds
        overloaded = self._tainted - tainted > OVERLOADED_SECONDS
        for watch, health in [(watch, self._watches.health(watch)) for watch in self._watches.all]:
            evaluate_watch(watch, health, time.monotonic(), overloaded=overloaded)
            await asyncio.sleep(0)
        for clock in self._watches.clocks:
            clock.evaluate(time.monotonic())
        self._diagnose()
        self._snapshot = None
        for listen in self._listeners:
            listen(self.snapshot())

    def _diagnose(self) -> None:
        """Update the causes, and log which begin and end."""
        before = {_subject(cause): cause for cause in self._causes}
        self._causes = self._diagnosis.observe(self.take(), time.monotonic())
        now = {_subject(cause): cause for cause in self._causes}
        for subject, cause in now.items():
            if subject not in before:
                self._log.warning(
                    "cause_began", **subject._asdict(), confidence=cause.confidence.value, evidence=cause.evidence
                )
        for subject, cause in before.items():
            if subject not in now:
                lasted = round(time.time() - cause.since_wall, 3)
                self._log.info("cause_ended", **subject._asdict(), after_s=lasted)


def evaluate_watch(watch: MonitoredWatch, health: Health, now: float, *, overloaded: bool) -> None:
    """Make a new reading of a watch's statistics, and resolve its failures if it works again.

    While its cache is frozen, the withheld events are unknown: no window is then judged by those that arrived.
    """
    revision = watch.session.revision
    withheld = health.withheld(now, revision)
    is_frozen = not withheld and health.stalled_for(now, revision) is not None
    watch.statistics.evaluate(now, withheld, unjudgeable=overloaded or is_frozen)
    watch.session.resolve_failures(now)


class _CauseSubject(NamedTuple):
    """What a cause is about; None stands for all."""

    cause: str
    apiserver: str | None
    watch: str | None


def _subject(cause: CauseReading) -> _CauseSubject:
    return _CauseSubject(cause.cause.value, cause.apiserver, cause.watch)
