"""Second, short watches: what another watch of the same resource shows, for audits."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from watchslo.kube.representation import Representation
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.watch_audit import WatchAudit
from watchslo.watch.failure import Action, Failure, Reason, because
from watchslo.watch.headroom import replay_start
from watchslo.watch.messages import WatchRequest

AUDIT_SECONDS = 2  # whole seconds, because the apiserver takes no fractions; existing events come at once
OVERTIME_SECONDS = 5.0  # an audit that has not ended by then has failed
GRACE_SECONDS = 1.0  # beyond the threshold: a late event is not a stall
STEP_SECONDS = 0.1  # of the grace, between two looks at what the watch delivered
TRIES = 3  # of a read of the oldest events, which may expire before it begins
PATIENCE = 10.0  # times the grace: if this process is late for so long, the audit has no result


class ShortWatches:
    """Opens second watches at one apiserver.

    It owns which of them need a simpler representation. `late` returns whether an arrival at that time may have waited
    for this process.
    """

    def __init__(self, apiserver: Apiserver, late: Callable[[float], bool]) -> None:
        self._apiserver = apiserver
        self._late = late
        self._forms: dict[int, Representation] = {}  # of watches whose audits need a simpler one than a Table

    def remove(self, watch: MonitoredWatch) -> None:
        """Forget what was found of a watch."""
        self._forms.pop(watch.identity.number, None)

    async def look_from(self, audit: WatchAudit, revision: int, enough: int) -> None:
        """Look at the events after a revision, and at a known one before them if the apiserver still has it.

        If it does not even have the revision, look at the oldest events that it has.
        """
        since = audit.health.delivered.start_before(revision)
        await self.look(audit, since, enough=enough)
        if audit.expired and since < revision:
            await self.look(audit, revision, enough=enough)
        for expired in range(TRIES):
            if audit.expired and audit.oldest is not None and audit.oldest > revision:
                await self.look(audit, replay_start(audit.oldest, audit.newest, expired), enough=enough)
        first = audit.health.delivered.after(revision, 1)
        if audit.expired and audit.oldest is None and first is not None and first - 1 > revision:
            await self.look(audit, first - 1, enough=enough)  # etcd was compacted, and does not say where

    async def look(self, audit: WatchAudit, after: int, enough: int) -> None:
        """Open a short watch until it has shown `enough` events; then give the audited watch time to deliver them."""
        ended: Failure | None = because(Reason.TIMEOUT)
        audit.after = after
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                ended = await self._watch(audit, after, enough, limit)
        audit.ended(ended)
        audit.finish(in_time=await self._give_time(audit))

    async def _watch(self, audit: WatchAudit, after: int, enough: int, limit: asyncio.Timeout) -> Failure | None:
        """Return why the short watch ended, or None if it has shown enough; `limit` starts when it is sent."""
        time_of = asyncio.get_running_loop().time
        identity, request = audit.identity, WatchRequest(after, AUDIT_SECONDS, bookmarks=False)
        smallest = Representation.METADATA if audit.selected else Representation.TABLE  # a Table has no labels
        form = self._forms.get(identity.number, smallest)
        async with self._apiserver.client.watch(
            identity.resource,
            identity.namespace,
            identity.selectors,
            request,
            form,
            kind="audit",
            on_sent=lambda: limit.reschedule(time_of() + AUDIT_SECONDS + OVERTIME_SECONDS),
        ) as opened:
            if not isinstance(opened, Failure):
                return await audit.follow(opened, enough)
        if opened.action is not Action.FALL_BACK or form.simpler is form or not audit.same:
            return opened
        self._forms[identity.number] = form.simpler
        return await self._watch(audit, after, enough, limit)

    async def _give_time(self, audit: WatchAudit) -> bool:
        """Wait for the audited watch to deliver what the audit saw; count only time in which this process was prompt.

        Return False if there was too little of such time for a result.
        """
        left = audit.watch.statistics.threshold + GRACE_SECONDS
        until = time.monotonic() + PATIENCE * left
        while audit.same and audit.findings.withheld and left > 0.0:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(STEP_SECONDS)
            if not self._late(time.monotonic()):
                left -= STEP_SECONDS
        return True
