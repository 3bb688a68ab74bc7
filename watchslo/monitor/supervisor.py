"""The monitor as a whole: builds its parts, runs them, reloads the configuration and shuts down in order."""

import asyncio
import time
from collections.abc import Callable
from random import random as system_random

import structlog

from watchslo.config.model import Config
from watchslo.config.values import format_duration
from watchslo.errors import ConfigError
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.limiter import Limiters
from watchslo.kube.reviews import Review, review
from watchslo.latency.bins import LES, Bins
from watchslo.monitor.apiservers.apiserver_follower import ApiserverFollower
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.apiservers.discovery_loop import DiscoveryLoop
from watchslo.monitor.checks.responsiveness_loop import ResponsivenessLoop
from watchslo.monitor.evaluator import Evaluator
from watchslo.monitor.readiness import Readiness, StartState
from watchslo.monitor.readings import SnapshotBuilder
from watchslo.monitor.reconciler import Reconciler
from watchslo.monitor.tasks.lag import Lag, keep_beating
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watch_set import WatchSet
from watchslo.snapshot import BuildReading, Snapshot
from watchslo.watch.failure import CloseClass, Failure, Reason, because

REFRESH_SECONDS = 180.0  # a new CRD is found within this time
SELDOM_SECONDS = 1800.0  # the same for a profile that may run on each of thousands of nodes
STALE_HEARTBEAT_SECONDS = 5.0  # a hundred missed beats: nothing is measured any more
ROTATION_SECONDS = 10.0  # over which watches are reopened with new credentials, so that not all close at once


class Supervisor:
    """Runs the watches that the configuration asks for, at every apiserver of the set.

    It owns the lifetime of all parts: tasks, limiters and bins. Which watches run is up to the `Reconciler`, figures
    and causes to the `Evaluator`. `configure` may be called at any time; `snapshot` is cheap when called often.
    Except for access reviews, no request is sent before `delay` seconds have passed, so that many daemons do not start
    together. With `replay`, watches begin at the oldest revision in reach, and no latency is measured.
    """

    def __init__(
        self,
        config: Config,
        credentials: CredentialSource,
        build: BuildReading,
        random: Callable[[], float] = system_random,
        *,
        delay: float = 0.0,
        replay: bool = False,
    ) -> None:
        self.place = credentials.place
        self.lag = Lag(time.monotonic())
        self.reload_succeeded = True
        self._delay = delay
        self._random = random
        self._limiters = Limiters(config.limits.requests_per_second, config.limits.resumes_per_second)
        self._bins = Bins((*LES, *thresholds(config)))
        self._failed = asyncio.Event()
        self._tasks = TaskSupervisor(self._failed)
        self._rotated = asyncio.Event()
        credentials.on_change(self._rotated.set)
        changed = asyncio.Event()
        refresh = REFRESH_SECONDS if config.mode == "cluster" else SELDOM_SECONDS
        self._apiservers = ApiserverSet(config, credentials, self._limiters, changed.set)
        follower = ApiserverFollower(config.kubernetes, self._apiservers, refresh, random)
        self._watches = WatchSet(config, self._tasks, self._apiservers, self._bins, self.lag, random, replay=replay)
        discovery = DiscoveryLoop(
            self._apiservers, follower.settled, refresh, self._watches.watched, changed.set, random
        )
        self._reconciler = Reconciler(
            config, self._tasks, self._apiservers, follower, discovery, self._watches, changed
        )
        self._readiness = Readiness(self._reconciler, discovery, self._watches, credentials)
        snapshots = SnapshotBuilder(
            build,
            self._apiservers,
            self._watches,
            self._reconciler,
            self._readiness,
            self.lag,
            lambda: self.reload_succeeded,
        )
        self._evaluator = Evaluator(self._apiservers, self._watches, self.lag, snapshots)
        self._responsiveness = ResponsivenessLoop(
            lambda: self._apiservers.all,
            lambda: self._watches.all,
            self.lag,
            random,
            of_many=lambda: self._reconciler.config.mode == "node",
        )
        self._log = structlog.get_logger()

    async def run(self, stop: asyncio.Event) -> Snapshot:
        """Measure until `stop` is set; return the last readings, taken just before the watches are closed.

        Raises:
            ConfigError: the cluster lacks a resource that is configured.
        """
        self._reconciler.begin_after(self._delay)
        async with self._apiservers.opened(), self._tasks as tasks:
            tasks.start("failure", lambda: self._stop_on_failure(stop))
            tasks.start("heartbeat", lambda: keep_beating(self.lag))
            tasks.start("evaluation", self._evaluator.run)
            tasks.start("configuration", self._reconciler.run)
            tasks.start("credentials", self._keep_reopening)
            tasks.start("suspends", self._keep_reconnecting)
            tasks.start("responsiveness", self._responsiveness.run)
            await stop.wait()
            await tasks.stop(
                "configuration", "credentials", "suspends", "responsiveness", *self._reconciler.asking_tasks
            )
            for apiserver in self._apiservers.all:
                apiserver.closes.give_up()
            await self._evaluator.evaluate()
            last = await self._evaluator.take()
            for watch in self._watches.all:
                watch.halt(Reason.SHUTDOWN)
        return last

    async def _stop_on_failure(self, stop: asyncio.Event) -> None:
        """Stop if a task has failed and cannot be restarted; leaving the tasks then raises its error."""
        await self._failed.wait()
        stop.set()

    async def _keep_reopening(self) -> None:
        """Reopen every watch after a change of credentials: some apiservers end watches opened with old ones."""
        while True:
            await self._rotated.wait()
            self._rotated.clear()
            self._log.info("credentials_changed")
            watches = self._watches.all
            for watch in watches:
                watch.reopen(Reason.ROTATED)
                await asyncio.sleep(2 * self._random() * ROTATION_SECONDS / len(watches))

    async def _keep_reconnecting(self) -> None:
        """Replace all connections after the machine was suspended: they hang, or deliver late."""
        while True:
            await self.lag.broken.wait()
            self.lag.broken.clear()
            self._log.info("suspended", total_s=round(self.lag.suspended_seconds, 3))
            slices = WorkSlices()
            for apiserver in self._apiservers.all:
                apiserver.client.hang_up()
            for watch in self._watches.all:
                watch.reopen(Reason.SUSPENDED)
                await slices.pause()

    def configure(self, config: Config) -> None:
        """Put a new configuration in force; what it does not change keeps running.

        Raises:
            ConfigError: the change needs a restart; the old configuration stays in force.
        """
        new = thresholds(config) - set(self._bins.les)
        if new:
            shown = ", ".join(format_duration(threshold) for threshold in sorted(new))
            raise ConfigError(f"a threshold of {shown} needs a bucket of its own; restart watchslo to use it")
        self._limiters.limit(config.limits.requests_per_second, config.limits.resumes_per_second)
        self._reconciler.configure(config)

    async def review(self, token: str, path: str) -> Review | Failure:
        """Return whether the bearer of a token may read a path of the daemon, as an apiserver says; paused or not."""
        if not self._apiservers.is_open:
            return because(Reason.UNREACHABLE)
        answer = await review(self._apiservers.front.client, token, path)
        if isinstance(answer, Failure) and answer.closed is CloseClass.NETWORK:
            self._apiservers.pass_on()
        return answer

    # Readings

    def on_evaluation(self, listen: Callable[[Snapshot], object]) -> None:
        """Pass the snapshot of each evaluation to `listen`, which must not block the loop."""
        self._evaluator.on_evaluation(listen)

    async def snapshot(self) -> Snapshot:
        """Return all readings: those of the last evaluation, or others at most a second old."""
        return await self._evaluator.snapshot()

    async def evaluated(self) -> Snapshot:
        """Return the watches as of the last evaluation; all other readings are at most a second old."""
        return await self._evaluator.evaluated()

    def unhealthy(self) -> str | None:
        """Return why nothing is measured any more, or None; any thread may call this."""
        age = time.monotonic() - self.lag.last_beat
        if age > STALE_HEARTBEAT_SECONDS:
            return f"the last heartbeat was {age:.1f} s ago"
        ended = self._tasks.ended
        return f"{len(ended)} of the tasks that measure have ended: {', '.join(ended)}" if ended else None

    @property
    def ended_watches(self) -> int:
        """How many watches have ended so far, not only their requests."""
        return self._watches.ended

    @property
    def start(self) -> StartState:
        """What the start waits for, if it does."""
        return self._readiness.start


def thresholds(config: Config) -> set[float]:
    """Return all thresholds of a configuration, in seconds: each is a bucket of every histogram."""
    return {config.objective.threshold, *(config.objective_of(watch).threshold for watch in config.watch)}
