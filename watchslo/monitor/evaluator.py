"""Evaluates everything every five seconds: statistics, comparisons, causes; then publishes a snapshot."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.latency.estimate import Estimation, rounds
from watchslo.latency.tally import BLOCK_SECONDS
from watchslo.monitor.apiserver_set import ApiserverSet
from watchslo.monitor.lag import Lag
from watchslo.monitor.memory import trim_heap
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.slices import WorkSlices
from watchslo.monitor.watch_set import WatchSet
from watchslo.snapshot import CauseReading, Snapshot
from watchslo.watch.audit import Health

SNAPSHOT_SECONDS = 1.0
EARLY_SECONDS = 0.01  # timers are rounded: a wake-up this early must not lead to a second evaluation
OVERLOADED_SECONDS = 0.5  # of lag between two evaluations, a tenth of the time: the SLO is then not judged


class Evaluator:
    """Evaluates all watches, diagnoses why they are late, and keeps the newest snapshot.

    It owns the newest causes that the `Diagnosis` found, the cached snapshot and the listeners. It changes watches only
    through `update_watch` and `publish`. `take` makes a snapshot of all readings with these causes. All work is done in
    slices of a few milliseconds, so that arrivals are read in time.
    """

    def __init__(
        self,
        apiservers: ApiserverSet,
        watches: WatchSet,
        lag: Lag,
        take: Callable[[tuple[CauseReading, ...]], Awaitable[Snapshot]],
    ) -> None:
        self._apiservers = apiservers
        self._watches = watches
        self._lag = lag
        self._take = take
        self._diagnosis = Diagnosis()
        self._causes: tuple[CauseReading, ...] = ()
        self._evaluating = asyncio.Lock()
        self._tainted = self._suspended = 0.0
        self._snapshot: Snapshot | None = None
        self._snapshot_taken = 0.0
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._log = structlog.get_logger()

    def on_evaluation(self, listen: Callable[[Snapshot], None]) -> None:
        """Pass the snapshot of each evaluation to `listen`, which must not block the loop."""
        self._listeners.append(listen)

    async def snapshot(self) -> Snapshot:
        """Return the cached snapshot, or a new one if it is a second old."""
        now = time.monotonic()
        if self._snapshot is None or now - self._snapshot_taken >= SNAPSHOT_SECONDS:
            self._snapshot, self._snapshot_taken = await self.take(), now
        return self._snapshot

    async def take(self) -> Snapshot:
        """Return a snapshot of this moment."""
        return await self._take(self._causes)

    async def run(self) -> None:
        """Evaluate every five seconds until cancelled."""
        while True:
            reached = time.monotonic() + EARLY_SECONDS
            await asyncio.sleep(BLOCK_SECONDS - reached % BLOCK_SECONDS + EARLY_SECONDS)
            await self.evaluate()
            trim_heap()

    async def evaluate(self) -> None:
        """Evaluate all watches; then diagnose and publish."""
        async with self._evaluating:
            await self._evaluate_all()

    async def _evaluate_all(self) -> None:
        for apiserver in self._apiservers.all:
            apiserver.closes.settle(time.monotonic())
        slices = WorkSlices()
        await self._watches.compare_peers(slices)
        unjudgeable = self._take_disturbance()
        for clock in self._watches.clocks:
            await slices.run(clock.sealer.collect())
        watches, due = self._watches.all, list[Estimation]()
        for watch in watches:
            if self._watches.runs(watch):  # it may have ended during a pause
                due += update_watch(watch, self._watches.health(watch), time.monotonic(), unjudgeable=unjudgeable)
            await slices.pause()
        await slices.run(rounds(due))
        for watch in watches:
            watch.statistics.publish()
            await slices.pause()
        for clock in self._watches.clocks:
            await slices.run(rounds(clock.sealer.update(time.monotonic())))
            clock.sealer.publish()
        await self._diagnose(slices)
        self._snapshot = None
        for listen in self._listeners:
            listen(await self.snapshot())

    def _take_disturbance(self) -> bool:
        """Return True if this process was late for long, or the machine was suspended, since the last evaluation."""
        tainted, self._tainted = self._tainted, self._lag.tainted_seconds
        suspended, self._suspended = self._suspended, self._lag.suspended_seconds
        return self._tainted - tainted > OVERLOADED_SECONDS or self._suspended > suspended

    async def _diagnose(self, slices: WorkSlices) -> None:
        """Update the causes, and log which begin and end."""
        before = {_subject(cause): cause for cause in self._causes}
        self._causes = await slices.run(self._diagnosis.observe(await self.take(), time.monotonic()))
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


def update_watch(watch: MonitoredWatch, health: Health, now: float, *, unjudgeable: bool) -> list[Estimation]:
    """Take in the samples of a watch; return the estimations that its reading needs. Resolve its failures if it works.

    While its cache is frozen, the withheld events are unknown: no window is then judged by those that arrived.
    """
    revision = watch.session.revision
    withheld = health.withheld(now, revision)
    is_frozen = not withheld and health.stalled_for(now, revision) is not None
    watch.session.resolve_failures(now)
    return watch.statistics.update(now, withheld, unjudgeable=unjudgeable or is_frozen)


class _CauseSubject(NamedTuple):
    """What a cause is about; None stands for all."""

    cause: str
    apiserver: str | None
    watch: str | None


def _subject(cause: CauseReading) -> _CauseSubject:
    return _CauseSubject(cause.cause.value, cause.apiserver, cause.watch)
