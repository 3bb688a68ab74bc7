"""Decides which watches should run: follows the configuration, the apiservers, and what the cluster serves."""

import asyncio
import time
from collections.abc import Hashable

import structlog

from watchslo.config.model import Config
from watchslo.errors import ConfigError
from watchslo.kube.discovery import Catalogue
from watchslo.monitor.apiservers.apiserver_follower import ApiserverFollower
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.apiservers.discovery_loop import DiscoveryLoop
from watchslo.monitor.protocol.desired import DesiredWatches, desired_watches
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watch_set import WatchSet
from watchslo.watch.failure import Reason


class Reconciler:
    """Makes the running watches match the configuration whenever `changed` is set.

    It owns the configuration in force and the desired watches. It starts and ends watches only through the `WatchSet`;
    apart from that it starts and stops the tasks that follow apiservers and resources. It sends no requests itself.
    """

    def __init__(
        self,
        config: Config,
        tasks: TaskSupervisor,
        apiservers: ApiserverSet,
        follower: ApiserverFollower,
        discovery: DiscoveryLoop,
        watches: WatchSet,
        changed: asyncio.Event,
    ) -> None:
        self.config = config
        self.configured_wall = time.time()
        self.desired = DesiredWatches()
        self._untried: Config | None = config  # until the cluster has been asked for all of it
        self._tasks = tasks
        self._apiservers = apiservers
        self._follower = follower
        self._discovery = discovery
        self._watches = watches
        self._changed = changed
        self._begins = 0.0
        self._log = structlog.get_logger()

    @property
    def is_tried(self) -> bool:
        """Whether the cluster has been asked for all resources of the first configuration."""
        return self._untried is None

    @property
    def begins_in(self) -> float:
        """Seconds until the first request."""
        return max(0.0, self._begins - time.monotonic())

    @property
    def asking_tasks(self) -> list[Hashable]:
        """The names of the tasks that send requests of their own, except watches, ticks and membership probes."""
        return ["apiservers", "discovery", *self._watches.probing_tasks]

    def configure(self, config: Config) -> None:
        """Put a configuration in force; what it does not change keeps running."""
        self.config = config
        self.configured_wall = time.time()
        self._watches.configure(config)
        self._changed.set()
        self._discovery.refresh_soon()

    def begin_after(self, delay: float) -> None:
        """Send the first request after `delay` seconds."""
        self._begins = time.monotonic() + delay

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            ConfigError: the cluster lacks a resource of the first configuration.
        """
        if self.begins_in > 0.0:
            self._log.info("start_delayed", seconds=round(self.begins_in, 3))
        await asyncio.sleep(self.begins_in)
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._reconcile()
            await self._apiservers.close_left(self._watches.apiservers)

    async def _reconcile(self) -> None:
        """End what is no longer desired and start what is missing; everything else keeps running."""
        if self.config.paused:
            await self._pause()
            return
        works = {"apiservers": self._follower.run, "discovery": self._discovery.run}
        if self.config.guarantees.compares:
            works |= {
                "guarantees": self._watches.delivery_checker.run,
                "witness_reads": self._watches.witness_reader.run,
            }
        works |= {"hops": self._watches.cache_prober.run} if self.config.mode == "cluster" else {}
        if self.config.kubernetes.apiserver_metrics:
            works["metrics_page"] = self._watches.metrics_reader.run
        for name, work in works.items():
            if name not in self._tasks:
                self._tasks.start(name, work)
        if catalogue := self._discovery.catalogue:
            members = dict(self._apiservers.members)
            last, self.desired = self.desired, desired_watches(self.config, catalogue, len(members))
            self._log_changes(last, catalogue)
            watches = self.desired.watches
            if watches:
                await self._watches.settle(watches, members, self._apiservers.witnesses.all, Reason.RELOAD)
            else:
                await self._watches.settle({}, {}, {}, Reason.RELOAD)

    async def _pause(self) -> None:
        await self._tasks.stop(*self.asking_tasks)
        await self._watches.settle({}, {}, {}, Reason.PAUSED)
        for apiserver in self._apiservers.all:
            apiserver.client.hang_up()

    def _log_changes(self, last: DesiredWatches, catalogue: Catalogue) -> None:
        """Log what cannot be watched; for the first configuration that is an error, if all API groups are known."""
        if self.desired.missing and self.config is self._untried and not catalogue.incomplete:
            raise ConfigError(self.desired.missing[0])
        self._untried = None
        for message in self.desired.missing:
            if message not in last.missing:
                self._log.warning("resource_missing", message=message)
        if self.desired.left_out != last.left_out:
            self._log.warning("watches_limited", left_out=self.desired.left_out)
        ours, elsewhere = self.desired.watches, self.desired.elsewhere
        if (ours.keys(), elsewhere) != (last.watches.keys(), last.elsewhere) and (elsewhere or last.elsewhere):
            shard = self.config.shard
            self._log.info("sharded", index=shard.index, count=shard.count, watches=len(ours), elsewhere=elsewhere)
