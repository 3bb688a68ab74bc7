"""Keeps track of which resources the cluster serves."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import structlog

from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.monitor.apiserver_set import ApiserverSet
from watchslo.monitor.failure_log import FailureLog
from watchslo.snapshot import FailureReading
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure


class DiscoveryLoop:
    """Discovers resources at once, every `refresh` seconds, and whenever `refresh_soon` is called.

    It owns the catalogue; `on_change` is called when there is a new one. It begins once `settled` is set: the
    apiservers are known.
    """

    def __init__(
        self,
        apiservers: ApiserverSet,
        settled: asyncio.Event,
        refresh: float,
        on_change: Callable[[], object],
        random: Callable[[], float],
    ) -> None:
        self._apiservers = apiservers
        self._settled = settled
        self._refresh = refresh
        self._on_change = on_change
        self._random = random
        self._discovery = Discovery(lambda: apiservers.front.client)
        self._outdated = asyncio.Event()
        self._failures = FailureLog(structlog.get_logger())

    @property
    def catalogue(self) -> Catalogue | None:
        """What the cluster serves; None until it is known."""
        return self._discovery.catalogue

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
            self._on_change()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._refresh * (0.9 + 0.2 * self._random())):
                    await self._outdated.wait()

    async def _discover(self) -> Failure | None:
        """Ask what is served, and ask each apiserver for its version."""
        found = await self._discovery.refresh()
        if isinstance(found, Failure):
            self._apiservers.pass_on()
            return found
        await self._apiservers.look()
        return None
