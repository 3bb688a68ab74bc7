"""Second, short watches: what another watch of the same resource shows, for audits."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from watchslo.kube.representation import Representation
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.checks.watch_audit import WatchAudit
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.failure import Action, Failure, Reason, because
from watchslo.watch.headroom import replay_start
from watchslo.watch.messages import WatchRequest

MOST_EVENTS = 5_000  # more would cost more than they show
MOST_CONFIRMED = 2 * MOST_EVENTS  # of the read that confirms a difference, which may span `MOST_COMPARED` events
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

    def ask_for_metadata(self, watch: MonitoredWatch) -> None:
        """Use metadata from now on: Tables do not show the events of this watch."""
        self._forms[watch.identity.number] = Representation.METADATA

    async def replay(self, audit: WatchAudit, revisions: Sequence[int], reach: int = 0) -> Sequence[int] | None:
        """Return which of these ascending revisions a short watch shows; None if it may not have shown all."""
        await self.look_from(audit, revisions[0] - 1, MOST_CONFIRMED, reach)
        return [revision for revision in revisions if revision in audit.seen] if audit.covers(revisions) else None

    async def look_from(self, audit: WatchAudit, revision: int, enough: int, reach: int = 0) -> None:
        """Look at the events after a revision, and at a known one before them if the apiserver still has it.

        If it does not even have the revision, look at the oldest events that it has. None begins before `reach`.
        """
        since = max(audit.health.delivered.start_before(revision), reach)
        await self.look(audit, since, enough=enough)
        if audit.expired and since < revision:
            await self.look(audit, revision, enough=enough)
        for expired in range(TRIES):
            if audit.expired and audit.oldest is not None and audit.oldest > revision:
                await self.look(audit, replay_start(audit.oldest, audit.newest, expired), enough=enough)
        first = audit.health.delivered.after(revision, 1)
        if audit.expired and audit.oldest is None and first is not None and first - 1 > revision:
            await self.look(audit, max(first - 1, reach), enough=enough)  # etcd was compacted, and does not say where

    def doubts_tables(self, watch: MonitoredWatch) -> bool:
        """Return True if the watch asks for Tables and never had an event: a proxy may withhold Tables without objects.

        Its audits then ask for metadata, which cost no more as long as there are no events.
        """
        is_table = watch.session.representation is Representation.TABLE
        return is_table and watch.session.newest_event is None and watch.identity.number not in self._forms

    async def look(self, audit: WatchAudit, after: int, enough: int) -> None:
        """Open a short watch until it has shown `enough` events; then give the audited watch time to deliver them."""
        await self._open(audit, after, enough, self._smallest(audit, enough))
        audit.finish(in_time=await self._give_time(audit))

    async def is_empty(self, audit: WatchAudit, after: int, form: Representation) -> bool:
        """Return True if a short watch in this representation shows no event."""
        await self._open(audit, after, 1, form)
        return audit.shows_nothing

    async def _open(self, audit: WatchAudit, after: int, enough: int, form: Representation) -> None:
        ended: Failure | None = because(Reason.TIMEOUT)
        audit.after = after
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                ended = await self._watch(audit, after, enough, limit, form)
        audit.ended(ended)

    def _smallest(self, audit: WatchAudit, enough: int) -> Representation:
        """Return the smallest representation that serves an audit.

        A Table has no labels. An audit for a single event uses Tables only if these have shown events.
        """
        watch = audit.watch
        if known := self._forms.get(watch.identity.number):
            return known
        is_proven = watch.session.representation is Representation.TABLE and watch.session.newest_event is not None
        suffices = audit.selected is None and (enough > 1 or is_proven)
        return Representation.TABLE if suffices else Representation.METADATA

    async def _watch(
        self, audit: WatchAudit, after: int, enough: int, limit: asyncio.Timeout, form: Representation
    ) -> Failure | None:
        """Return why the short watch ended, or None if it has shown enough; `limit` starts when it is sent."""
        time_of = asyncio.get_running_loop().time
        identity, request = audit.identity, WatchRequest(after, AUDIT_SECONDS, bookmarks=False)
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
        return await self._watch(audit, after, enough, limit, form.simpler)

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
