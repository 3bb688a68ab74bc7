"""Keeps track of which resources the cluster serves."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

import structlog

from watchslo.kube.discovery import ABSENT_SECONDS, Catalogue, Discovery
from watchslo.model import Resource
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.snapshot import FailureReading, IncompleteGroup
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure


class DiscoveryLoop:
    """Discovers resources at once, every `refresh` seconds, and whenever `refresh_soon` is called.

    It owns the catalogue; `on_change` is called when there is a new one, also for each late answer of a group. It
    begins once `settled` is set: the apiservers are known. While a watched resource is absent, it asks again within a
    minute; `watched` returns whether a watch is open, for each resource that is watched.
    """

    def __init__(
        self,
        apiservers: ApiserverSet,
        settled: asyncio.Event,
        refresh: float,
        watched: Callable[[], Mapping[Resource, bool]],
        on_change: Callable[[], object],
        random: Callable[[], float],
    ) -> None:
        self._apiservers = apiservers
        self._settled = settled
        self._refresh = refresh
        self._on_change = on_change
        self._random = random
        self._discovery = Discovery(lambda: apiservers.front.client, watched)
        self._outdated = asyncio.Event()
        self._log = structlog.get_logger()
        self._failures = FailureLog(self._log)
        self._logged: set[str] = set()  # the names of incomplete groups

    @property
    def catalogue(self) -> Catalogue | None:
        """What the cluster serves; None until it is known."""
        return self._discovery.catalogue

    @property
    def incomplete(self) -> tuple[IncompleteGroup, ...]:
        """The API groups that could not be read completely."""
        return self.catalogue.incomplete if self.catalogue else ()

    @property
    def failure(self) -> FailureReading | None:
        """Why discovery fails; None while it does not."""
        return self._failures.now

    def refresh_soon(self) -> None:
        """Discover again without waiting for the next turn."""
        self._outdated.set()

    async def run(self) -> None:
        """Discover until cancelled; retry failures for as long as they last."""
        backoff = Backoff(self._random)
        await self._settled.wait()
        while True:
            self._outdated.clear()
            if failure := await self._discover():
                self._failures.record("discovery_failed", failure)
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
                continue
            self._failures.resolve()
            self._publish()
            async with asyncio.TaskGroup() as group:
                late = group.create_task(self._discovery.ask_late(self._publish))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._outdated.wait()
                late.cancel()

    @property
    def _pause(self) -> float:
        """Seconds until the next turn."""
        usual = self._refresh * (0.9 + 0.2 * self._random())
        return min(ABSENT_SECONDS, usual) if self._discovery.absent else usual

    def _publish(self) -> None:
        """Pass on that there is a new catalogue; log each group that cannot be read completely, once."""
        incomplete = {group.name: group for group in self.incomplete}
        for name in incomplete.keys() - self._logged:
            self._log.warning("api_group_incomplete", group=name, message=incomplete[name].why)
        for name in self._logged - incomplete.keys():
            self._log.info("api_group_complete", group=name)
        self._logged = {*incomplete}
        self._on_change()

    async def _discover(self) -> Failure | None:
        """Ask what is served, and ask each apiserver for its version."""
        found = await self._discovery.refresh()
        if isinstance(found, Failure):
            self._apiservers.pass_on()
            return found
        await self._apiservers.look()
        return None
