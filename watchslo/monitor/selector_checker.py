"""Checks watches with selectors by what audits see: each must deliver what its selectors select, and nothing else."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from watchslo.kube.client import Selectors
from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.snapshot import Guarantee
from watchslo.watch.messages import Violated
from watchslo.watch.selection import SelectedEvents

Replay = Callable[[MonitoredWatch, Sequence[int]], Awaitable[Sequence[int] | None]]
Lose = Callable[[MonitoredWatch, Sequence[int], int | None], object]


class SelectorChecker:
    """Checks the watches of one apiserver that have selectors.

    It owns how far each was checked. `replay` returns which revisions another short watch with the same selectors
    shows, and `lose` counts events that a watch is proven to have lost.
    """

    def __init__(self, watches: Callable[[], Iterable[MonitoredWatch]], replay: Replay, lose: Lose) -> None:
        self._watches = watches
        self._replay = replay
        self._lose = lose
        self._checked: dict[tuple[int, bool], tuple[int, int]] = {}  # epoch and revision, by watch and what it lacks

    def remove(self, watch: MonitoredWatch) -> None:
        """Forget how far a watch was checked."""
        for lacks in (False, True):
            self._checked.pop((watch.identity.number, lacks), None)

    def wanted(self, watch: MonitoredWatch) -> SelectedEvents | None:
        """Return what an audit of this watch must look for; None if no selectors can be checked by it."""
        within = {
            other.identity.number: other.identity.selection
            for other in self._watches()
            if other.identity.selection is not None and other.identity.selection.exact and _contains(watch, other)
        }
        own = watch.identity.selection
        return SelectedEvents(own, within) if own is not None or within else None

    async def check(self, watch: MonitoredWatch, found: SelectedEvents) -> None:
        """Check the watch, and those within it, by the events that an audit of the watch found."""
        if found.own is not None:
            self._check_own(watch, found)
        within = [other for other in self._watches() if other.identity.number in found.selected]
        for other in within:
            await self._check_missing(other, found.selected[other.identity.number])

    def _check_own(self, watch: MonitoredWatch, found: SelectedEvents) -> None:
        """Count the delivered events that the selectors of the watch do not select."""
        has = watch.session.deliveries.delivered.has
        delivered = [revision for revision in self._new(watch, found.judged, lacks=False) if has(revision)]
        _count(watch, len(delivered), [revision for revision in delivered if revision in found.excluded])

    async def _check_missing(self, watch: MonitoredWatch, selected: Collection[int]) -> None:
        """Count the events that the watch should have delivered, unless it lost them: its own replay shows these."""
        delivered = watch.session.deliveries.delivered
        epoch, has = delivered.epoch, delivered.has
        known = [revision for revision in self._new(watch, selected, lacks=True) if has(revision) is not None]
        missing = [revision for revision in known if not has(revision)]
        shown = await self._replay(watch, missing) if missing else ()
        if shown is None or delivered.epoch != epoch:
            return
        _count(watch, len(known), [revision for revision in missing if revision not in shown])
        if shown:
            self._lose(watch, shown, delivered.first)

    def _new(self, watch: MonitoredWatch, revisions: Collection[int], *, lacks: bool) -> list[int]:
        """Return the revisions that the watch has passed and was not checked for yet, in ascending order."""
        epoch = watch.session.deliveries.delivered.epoch
        before, checked = self._checked.get((watch.identity.number, lacks), (epoch, 0))
        lower, upper = checked if before == epoch else 0, watch.session.revision or 0
        found = sorted(revision for revision in revisions if lower < revision <= upper)
        if found:
            self._checked[watch.identity.number, lacks] = epoch, found[-1]
        return found


def _contains(outer: MonitoredWatch, inner: MonitoredWatch) -> bool:
    """Return True if the outer watch has no selectors and so must show all that the inner one does."""
    one, other = outer.identity, inner.identity
    return (
        one.number != other.number
        and one.resource == other.resource
        and one.selectors == Selectors()
        and one.namespace in (None, other.namespace)
        and inner.session.up
    )


def _count(watch: MonitoredWatch, checked: int, wrong: Sequence[int]) -> None:
    guarantees = watch.session.guarantees
    guarantees.check(Guarantee.FILTERED, checked)
    if wrong and watch.statistics.measured:
        guarantees.violate(Violated(Guarantee.FILTERED, len(wrong), wrong[0], wrong[-1]))
