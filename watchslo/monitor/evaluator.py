"""Evaluates everything every five seconds: statistics, comparisons, causes; then publishes a snapshot."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.latency.burst_wish import burst_wish
from watchslo.latency.estimate import Estimation, rounds
from watchslo.latency.tally import BLOCK_SECONDS
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.readings import SnapshotBuilder
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.tasks.memory import HeapTrimmer
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.watch_set import WatchSet
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import CauseReading, Snapshot
from watchslo.watch.audit import Health

SNAPSHOT_SECONDS = 1.0
EARLY_SECONDS = 0.01  # timers are rounded: a wake-up this early must not lead to a second evaluation
OVERLOADED_SECONDS = 0.5  # of lag between two evaluations, a tenth of the time: the SLO is then not judged


class Evaluator:
    """Evaluates all watches, diagnoses why they are late, and keeps the newest snapshot.

    It owns the newest causes that the `Diagnosis` found, the cached snapshots and the listeners. It changes watches
    only through `update_watch` and `publish`. All work is done in slices of a millisecond or less, so that arrivals
    are read in time.
    """

    def __init__(
        self,
        apiservers: ApiserverSet,
        watches: WatchSet,
        lag: Lag,
        snapshots: SnapshotBuilder,
    ) -> None:
        self._apiservers = apiservers
        self._watches = watches
        self._lag = lag
        self._snapshots = snapshots
        self._diagnosis = Diagnosis()
        self._causes: tuple[CauseReading, ...] = ()
        self._evaluating = asyncio.Lock()
        self._tainted = self._suspended = 0.0
        self._newest = _CachedSnapshot()
        self._evaluated = _CachedSnapshot()
        self._listeners: list[Callable[[Snapshot], object]] = []
        self._log = structlog.get_logger()

    def on_evaluation(self, listen: Callable[[Snapshot], object]) -> None:
        """Pass the snapshot of each evaluation to `listen`, which must not block the loop."""
        self._listeners.append(listen)

    async def snapshot(self) -> Snapshot:
        """Return the newest snapshot, or a new one if it is a second old."""
        now = time.monotonic()
        return self._newest.at(now) or self._newest.keep(await self.take(), now)

    async def evaluated(self) -> Snapshot:
        """Return the watches as of the last evaluation; all other readings are at most a second old.

        However often it is called, the watches are not read again. The first watches are shown before an evaluation.
        """
        now, kept = time.monotonic(), self._evaluated.snapshot
        if kept is None or not kept.watches:
            return await self.snapshot()
        return self._evaluated.at(now) or self._evaluated.keep(self._snapshots.refresh(kept), now)

    async def take(self) -> Snapshot:
        """Return a snapshot of this moment."""
        return await self._snapshots.take(self._causes)

    async def run(self) -> None:
        """Evaluate every five seconds until cancelled."""
        heap = HeapTrimmer()
        while True:
            reached = time.monotonic() + EARLY_SECONDS
            await asyncio.sleep(BLOCK_SECONDS - reached % BLOCK_SECONDS + EARLY_SECONDS)
            await self.evaluate()
            await asyncio.sleep(0)
            heap.trim_if_grown(time.monotonic())

    async def evaluate(self) -> None:
        """Evaluate all watches; then diagnose and publish."""
        async with self._evaluating:
            await self._evaluate_all()

    async def _evaluate_all(self) -> None:
        for apiserver in self._apiservers.all:
            apiserver.closes.settle(time.monotonic())
        slices = WorkSlices()
        unjudgeable = self._take_disturbance()
        for clock in self._watches.clocks:
            await slices.run(clock.sealer.collect())
        self._watches.reactions.update()
        await slices.run(self._watches.informers.update())
        await self._watches.compare_peers(slices)  # by what was just collected
        watches = self._watches.all
        await slices.run(rounds(await self._update(watches, slices, unjudgeable=unjudgeable)))
        for watch in watches:  # each frees its own estimations, because nothing else refers to them now
            watch.statistics.publish()
            await slices.pause()
        for clock in self._watches.clocks:
            await slices.run(rounds(clock.sealer.update(time.monotonic(), clock.interval)))
            clock.sealer.publish()
        snapshot = await self._diagnose(slices)
        self._sharpen(snapshot)
        self._evaluated.keep(snapshot, time.monotonic())
        self._newest = _CachedSnapshot()
        for listen in self._listeners:
            listen(snapshot)

    async def _update(
        self, watches: Iterable[MonitoredWatch], slices: WorkSlices, *, unjudgeable: bool
    ) -> list[Estimation]:
        """Take in the samples of the watches; return the estimations that their readings need."""
        due: list[Estimation] = []
        for watch in watches:
            if self._watches.runs(watch):  # it may have ended during a pause
                due += update_watch(watch, self._watches.health(watch), time.monotonic(), unjudgeable=unjudgeable)
            await slices.pause()
        return due

    def _take_disturbance(self) -> bool:
        """Return True if this process was late for long, or the machine was suspended, since the last evaluation."""
        tainted, self._tainted = self._tainted, self._lag.tainted_seconds
        suspended, self._suspended = self._suspended, self._lag.suspended_seconds
        return self._tainted - tainted > OVERLOADED_SECONDS or self._suspended > suspended

    async def _diagnose(self, slices: WorkSlices) -> Snapshot:
        """Update the causes, log which begin and end, and return a snapshot with them."""
        before = {_subject(cause): cause for cause in self._causes}
        snapshot = await self.take()
        self._causes = await slices.run(self._diagnosis.observe(snapshot, time.monotonic()))
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
        return replace(snapshot, causes=self._causes)

    def _sharpen(self, snapshot: Snapshot) -> None:
        """Let clocks tick more often for a while if that would decide something."""
        now = time.monotonic()
        for clock in self._watches.clocks:
            watches = (watch for watch in snapshot.watches if watch.domain == clock.name)
            clock.sharpen(burst_wish(watches, snapshot.causes, clock.burst_gap(now)), now)


@dataclass(slots=True)
class _CachedSnapshot:
    """A snapshot and when it was taken, in monotonic seconds."""

    snapshot: Snapshot | None = None
    taken: float = 0.0

    def at(self, now: float) -> Snapshot | None:
        """Return the snapshot if it is not a second old."""
        return self.snapshot if now - self.taken < SNAPSHOT_SECONDS else None

    def keep(self, snapshot: Snapshot, now: float) -> Snapshot:
        self.snapshot, self.taken = snapshot, now
        return snapshot


def update_watch(watch: MonitoredWatch, health: Health, now: float, *, unjudgeable: bool) -> list[Estimation]:
    """Take in the samples of a watch; return the estimations that its reading needs. Resolve its failures if it works.

    While its cache is frozen, the withheld events are unknown: no window is then judged by those that arrived.
    """
    revision = watch.session.revision
    withheld = health.withheld(now, revision)
    is_frozen = not withheld and health.stalled_for(now, revision) is not None
    watch.session.resolve_failures(now)
    watch.session.judge_past()
    return watch.statistics.update(now, withheld, down_for=watch.down_for(now), unjudgeable=unjudgeable or is_frozen)


class _CauseSubject(NamedTuple):
    """What a cause is about; None stands for all."""

    cause: str
    apiserver: str | None
    watch: str | None


def _subject(cause: CauseReading) -> _CauseSubject:
    return _CauseSubject(cause.cause.value, cause.apiserver, cause.watch)
