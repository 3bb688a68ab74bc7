"""Checks watches with selectors by what audits see: each must deliver what its selectors select, and nothing else."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from watchslo.kube.call import Selectors
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import Guarantee
from watchslo.watch.messages import Violated
from watchslo.watch.selection import SelectedEvents

Replay = Callable[[MonitoredWatch, Sequence[int]], Awaitable[Sequence[int] | None]]
Lose = Callable[[MonitoredWatch, Sequence[int], int | None], object]

MOST_WAITING = 1_024  # revisions that a watch has not passed yet; more would add no information


@dataclass(slots=True)
class _Due:
    """What is still to be checked of one watch by the audits of another, or of itself: ascending revisions."""

    checked: int = 0
    waiting: set[int] = field(default_factory=set)

    def passed(self, revisions: Collection[int], upper: int) -> list[int]:
        """Add revisions, and return all that wait up to `upper`, the newest revision that the watch knows."""
        if upper < self.checked:  # the storage was restored
            self.checked, self.waiting = 0, set()
        self.waiting.update(revision for revision in revisions if revision > self.checked)
        if len(self.waiting) > MOST_WAITING:
            self.waiting = {*sorted(self.waiting)[:MOST_WAITING]}
        return sorted(revision for revision in self.waiting if revision <= upper)

    def done(self, revisions: Sequence[int]) -> None:
        """Note that these were checked."""
        self.waiting.difference_update(revisions)
        self.checked = max([self.checked, *revisions[-1:]])


class SelectorChecker:
    """Checks the watches of one apiserver that have selectors.

    It owns what is to be checked of each. `replay` returns which revisions another short watch with the same selectors
    shows, and `lose` counts events that a watch is proven to have lost.
    """

    def __init__(self, watches: Callable[[], Iterable[MonitoredWatch]], replay: Replay, lose: Lose) -> None:
        self._watches = watches
        self._replay = replay
        self._lose = lose
        self._due: defaultdict[tuple[int, int], _Due] = defaultdict(_Due)  # by the audited and the checked watch

    def remove(self, watch: MonitoredWatch) -> None:
        """Forget what is to be checked of a watch, and by its audits."""
        for pair in [pair for pair in self._due if watch.identity.number in pair]:
            del self._due[pair]

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
        if found.own is not None and watch.statistics.measured:
            self._check_own(watch, found)
        within = [other for other in self._watches() if other.identity.number in found.within]
        for other in within:
            if other.session.up and other.statistics.measured:
                await self._check_missing(watch, other, found.selected.get(other.identity.number, ()))

    def _check_own(self, watch: MonitoredWatch, found: SelectedEvents) -> None:
        """Count the delivered events that the selectors of the watch do not select."""
        due = self._due[watch.identity.number, watch.identity.number]
        has = watch.session.deliveries.delivered.has
        passed = due.passed(found.judged, watch.session.revision or 0)
        due.done(passed)
        delivered = [revision for revision in passed if has(revision)]
        _count(watch, len(delivered), [revision for revision in delivered if revision in found.excluded])

    async def _check_missing(self, outer: MonitoredWatch, watch: MonitoredWatch, selected: Collection[int]) -> None:
        """Count the events that the watch should have delivered, unless it lost them: its own replay shows these.

        What the watch has not passed yet, and what a failed replay left open, waits for the next audit.
        """
        delivered, pair = watch.session.deliveries.delivered, (outer.identity.number, watch.identity.number)
        passed = self._due[pair].passed(selected, watch.session.revision or 0)
        known = [revision for revision in passed if delivered.has(revision) is not None]
        missing = [revision for revision in known if not delivered.has(revision)]
        epoch = delivered.epoch
        shown = await self._replay(watch, missing) if missing else ()
        if shown is None or delivered.epoch != epoch or pair not in self._due:
            return
        self._due[pair].done(passed)
        _count(watch, len(known), [revision for revision in missing if revision not in shown])
        if shown:
            self._lose(watch, shown, delivered.first)


def _contains(outer: MonitoredWatch, inner: MonitoredWatch) -> bool:
    """Return True if the outer watch has no selectors and so must show all that the inner one does."""
    whole, other = outer.identity, inner.identity
    return (
        whole.number != other.number
        and whole.resource == other.resource
        and whole.selectors == Selectors()
        and whole.namespace in (None, other.namespace)
    )


def _count(watch: MonitoredWatch, checked: int, wrong: Sequence[int]) -> None:
    guarantees = watch.session.guarantees
    guarantees.check(Guarantee.FILTERED, checked)
    if wrong:
        guarantees.violate(Violated(Guarantee.FILTERED, len(wrong), wrong[0], wrong[-1]))
