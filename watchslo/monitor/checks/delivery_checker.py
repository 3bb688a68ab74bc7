"""Compares what the watches of one resource at several apiservers delivered, and confirms what one of them lacks."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from watchslo.monitor.checks.auditor import Auditor
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import Guarantee
from watchslo.watch.delivery_comparison import ComparedWatch, DeliveryComparison, PeerDeliveries

MOST_WAITING = 100  # comparisons that wait for their confirmation; more at once have one common reason
TRIES = 3  # of a confirmation, if its short watch fails
RETRY_SECONDS = 10.0  # after a failure
SPACING_SECONDS = 1.0  # between two confirmations, each of which is one short watch


@dataclass(frozen=True, slots=True)
class _Unconfirmed:
    """Events that `watch` lacks and only `witness` delivered; they may be requested `tries` times again."""

    watch: MonitoredWatch
    witness: MonitoredWatch
    found: ComparedWatch
    tries: int = TRIES


class DeliveryChecker:
    """Checks that no watch lacks an event that the same watch at another apiserver delivered.

    It owns the comparisons. An event that several others delivered is proven to be missing; if only one did, its
    apiserver is asked for it again, by the auditor that `auditor_of` returns, because a single watch may be wrong too.
    `runs` returns whether a watch has not ended.
    """

    def __init__(self, runs: Callable[[MonitoredWatch], bool], auditor_of: Callable[[MonitoredWatch], Auditor]) -> None:
        self._runs = runs
        self._auditor_of = auditor_of
        self._comparisons: dict[object, DeliveryComparison] = {}
        self._unconfirmed: asyncio.Queue[_Unconfirmed] = asyncio.Queue(MOST_WAITING)
        self._log = structlog.get_logger()

    async def compare(self, watches: Iterable[MonitoredWatch], slices: WorkSlices) -> None:
        """Compare the open watches that have the same label and whose revisions are of one sequence."""
        groups: defaultdict[object, dict[int, MonitoredWatch]] = defaultdict(dict)
        for watch in watches:
            if watch.session.up and watch.statistics.measured and not watch.identity.config.shard_selector:
                groups[watch.identity.label, watch.statistics.clock][watch.identity.number] = watch
        shared = {key: peers for key, peers in groups.items() if len(peers) > 1}
        self._comparisons = {key: self._comparisons.get(key) or DeliveryComparison() for key in shared}
        for key, peers in shared.items():
            await slices.pause()
            progress = {
                number: PeerDeliveries(watch.session.deliveries.delivered, watch.session.revision or 0)
                for number, watch in peers.items()
                if watch.session.up and self._runs(watch)  # it may have ended during a pause
            }
            if len(progress) > 1:
                for found in self._comparisons[key].compare(progress):
                    self._take(found, peers)

    def _take(self, found: ComparedWatch, peers: Mapping[int, MonitoredWatch]) -> None:
        watch = peers[found.number]
        watch.session.guarantees.check(Guarantee.RELIABLE, found.checked)
        if found.proven:
            self._auditor_of(watch).lose(watch, found.proven, found.first)
        if found.witness is not None:
            self._put(_Unconfirmed(watch, peers[found.witness], found))

    def _put(self, unconfirmed: _Unconfirmed) -> None:
        try:
            self._unconfirmed.put_nowait(unconfirmed)
        except asyncio.QueueFull:
            self._log_rest(unconfirmed, len(unconfirmed.found.unproven))

    async def run(self) -> None:
        """Confirm what only one other watch delivered, until cancelled."""
        while True:
            is_answered = await self._confirm(await self._unconfirmed.get())
            await asyncio.sleep(SPACING_SECONDS if is_answered else RETRY_SECONDS)

    async def _confirm(self, unconfirmed: _Unconfirmed) -> bool:
        """Return False if the short watch failed, or may not be sent now."""
        watch, witness, found = unconfirmed.watch, unconfirmed.witness, unconfirmed.found
        if not (self._runs(watch) and self._runs(witness)):
            return True
        confirmed = await self._auditor_of(witness).replay(witness, found.unproven)
        if confirmed is None and unconfirmed.tries > 1:
            self._put(replace(unconfirmed, tries=unconfirmed.tries - 1))
            return False
        lost = [revision for revision in confirmed or () if _still_lacks(watch, revision)]
        if lost and self._runs(watch):
            self._auditor_of(watch).lose(watch, lost, found.first)
        self._log_rest(unconfirmed, len(found.unproven) - len(confirmed or ()))
        return confirmed is not None

    def _log_rest(self, unconfirmed: _Unconfirmed, events: int) -> None:
        if events:
            self._log.debug("not_confirmed", watch=unconfirmed.watch.identity.label, events=events)


def _still_lacks(watch: MonitoredWatch, revision: int) -> bool:
    """Return False if the watch has delivered it since, or has gone back, because the storage was restored."""
    is_behind = revision > (watch.session.revision or 0)
    return not is_behind and watch.session.deliveries.delivered.has(revision) is not True
