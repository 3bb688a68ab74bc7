"""Reads at a witness again what a busy watch delivered: a loss in the watch cache of its apiserver shows only there."""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable

from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.checks.auditor import Auditor
from watchslo.monitor.checks.short_watches import MOST_EVENTS, ShortWatches
from watchslo.monitor.checks.watch_audit import WatchAudit
from watchslo.monitor.protocol.deliveries import RECENT_SECONDS
from watchslo.monitor.watches.monitored_watch import MonitoredWatch

SPACING_SECONDS = 60.0  # between two reads, on average; each reads at most the last minute
SHARE = 0.1  # of all requests of this process, at most


class WitnessReader:
    """Reads the last minute of one busy watch at a witness, now and then, while a single apiserver is watched.

    Where several are watched, their watches are compared instead. `watches` returns the running watches if reads are
    wanted, `auditor_of` the auditor of a watch, or None if the watch has ended. `late` returns whether an arrival at
    that time may have waited for this process.
    """

    def __init__(
        self,
        watches: Callable[[], Iterable[MonitoredWatch]],
        apiservers: ApiserverSet,
        auditor_of: Callable[[MonitoredWatch], Auditor | None],
        late: Callable[[float], bool],
        random: Callable[[], float],
    ) -> None:
        self._watches = watches
        self._apiservers = apiservers
        self._auditor_of = auditor_of
        self._late = late
        self._random = random

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await asyncio.sleep(SPACING_SECONDS * (0.5 + self._random()))
            if len(self._apiservers.members) > 1 or self._share >= SHARE:
                continue
            pairs = [
                (watch, witness) for watch in self._watches() if _is_busy(watch) for witness in self._proven_for(watch)
            ]
            if pairs:
                await self._read(*pairs[int(self._random() * len(pairs))])

    @property
    def _share(self) -> float:
        """The share of such reads in all requests of this process."""
        witnesses = self._apiservers.witnesses.all.values()
        reads = sum(n for witness in witnesses for (kind, _), n in witness.client.requests.items() if kind == "audit")
        return reads / max(1, sum(apiserver.client.requests.total() for apiserver in self._apiservers.all))

    def _proven_for(self, watch: MonitoredWatch) -> list[Apiserver]:
        """Return the witnesses that are known to have the storage of a watch."""
        clock = watch.statistics.clock
        witnesses = self._apiservers.witnesses.all
        return [witness for name, witness in witnesses.items() if witness.unproven is None and clock.is_proven(name)]

    async def _read(self, watch: MonitoredWatch, witness: Apiserver) -> None:
        """Compare what the witness shows with what the watch delivered; only what it shows twice is lost."""
        auditor = self._auditor_of(watch)
        if auditor is None:
            return
        short_watches, audit = ShortWatches(witness, self._late), WatchAudit(watch, auditor.health(watch))
        await short_watches.look_from(audit, _oldest(watch), MOST_EVENTS)
        lost = audit.findings.lost
        if not (audit.complete and audit.shows_delivered):
            return
        confirmed = await short_watches.replay(WatchAudit(watch, audit.health), lost) if lost else ()
        if confirmed is not None and audit.same and self._auditor_of(watch) is auditor:
            auditor.count_compared(audit, confirmed)


def _is_busy(watch: MonitoredWatch) -> bool:
    """Return True if a watch had an event in the last minute, and what it delivered can be judged by a watch cache."""
    identity, times = watch.identity, watch.session.deliveries.times
    is_judged = identity.cached and not identity.replay and identity.config.shard_selector is None
    is_proven = watch.statistics.measured and identity.apiserver.unproven is None
    return (
        is_judged and is_proven and watch.session.up and bool(times) and times[-1] > time.monotonic() - RECENT_SECONDS
    )


def _oldest(watch: MonitoredWatch) -> int:
    """Return the revision after which the events of the last minute come, or the last ones that fit into one read."""
    deliveries = watch.session.deliveries
    place = bisect_left(deliveries.times, time.monotonic() - RECENT_SECONDS)
    return max(deliveries.revisions[place] - 1, deliveries.delivered.before(MOST_EVENTS))
