"""Nudges: consistent lists of nothing, which an apiserver answers once its watch cache is fresh."""

import asyncio
import time
from collections.abc import Callable, Iterable

from watchslo.model import Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.checks.watch_audit import WatchAudit
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import ReadUse
from watchslo.watch.audit import (
    CONFIRM_SECONDS,
    OTHERS_SECONDS,
    Freshness,
    Nudged,
    judge_nudge,
    lists_prove_cache,
    others_answer,
)
from watchslo.watch.failure import Failure


class Nudger:
    """Sends nudges to one apiserver.

    `watches` returns its watches, and `ticks` the latest tick of each clock: they tell a frozen cache from an apiserver
    that is slow as a whole.
    """

    def __init__(
        self,
        watches: Callable[[], Iterable[MonitoredWatch]],
        apiserver: Apiserver,
        ticks: Callable[[], Iterable[Reading]],
        random: Callable[[], float],
    ) -> None:
        self._watches = watches
        self._apiserver = apiserver
        self._ticks = ticks
        self._random = random

    async def nudge(self, audit: WatchAudit) -> Freshness:
        """Request that the cache of the resource is fresh; only two slow answers prove that it is frozen."""
        nudged = await self._nudge_once(audit)
        if nudged is Nudged.SLOW:
            await asyncio.sleep(CONFIRM_SECONDS)
            nudged = await self._nudge_once(audit)
        match nudged:
            case Nudged.PROMPT:
                proven = lists_prove_cache(self._apiserver.version) or not audit.identity.cached
                return Freshness.FRESH if proven and not self._apiserver.unproven else Freshness.UNPROVEN
            case Nudged.SLOW:
                return Freshness.FROZEN
            case _:
                return Freshness.UNKNOWN

    async def _nudge_once(self, audit: WatchAudit) -> Nudged:
        """Send one nudge; if all reads are slow at that time, it has failed: it proves nothing about this cache."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            nudge = group.create_task(self.read(audit.watch))
            await asyncio.wait({nudge}, timeout=OTHERS_SECONDS)
            all_is_well = not nudge.done() and await self._others_answer(audit.identity.resource, began)
        audit.read = nudge.result()
        nudged = judge_nudge(nudge.result())
        if nudged is Nudged.SLOW and all_is_well:
            return nudged
        audit.answered(nudge.result())
        return Nudged.FAILED if nudged is Nudged.SLOW else nudged

    async def _others_answer(self, resource: Resource, since: float) -> bool:
        """Return True if reads of other resources are answered at once, by recent ticks or by a read made now."""
        if others_answer(self._ticks(), resource.key, since):
            return True
        others = [watch for watch in self._watches() if watch.session.up and watch.identity.resource != resource]
        if not others:
            return False
        answer = await self.read(others[int(self._random() * len(others))])
        return isinstance(answer, Reading) and others_answer([answer], resource.key, since)

    async def read(self, watch: MonitoredWatch) -> Reading | Failure:
        identity = watch.identity
        answer = await self._apiserver.client.read_nothing(identity.resource, identity.probed_in, "nudge")
        if isinstance(answer, Reading):
            watch.statistics.observe(answer, ReadUse.NUDGE)
        return answer
