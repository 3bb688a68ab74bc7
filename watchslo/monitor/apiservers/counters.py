"""Totals of watches: the facts that their machines report, added up."""

from collections import Counter

from watchslo.latency.histogram import DurationHistogram
from watchslo.snapshot import ListReading, OutcomeReading
from watchslo.watch.failure import CloseClass, Phase
from watchslo.watch.messages import (
    BookmarkSeen,
    Expired,
    Fact,
    FellBack,
    Gap,
    Garbage,
    InitialEvents,
    ListDone,
    ListFailed,
    Relisted,
    RelistReason,
    Unseen,
    WatchClosed,
    WatchOpened,
)
from watchslo.watch.strategy import Strategy

REQUEST_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LIFETIME_EDGES = (1.0, 10.0, 30.0, 60.0, 120.0, 300.0, 450.0, 600.0, 900.0)


class Counters:
    """Totals of one watch since it was configured; `relists` and `expired` contain a zero for each possible kind."""

    def __init__(self, strategy: Strategy) -> None:
        self.events = Counter({"ADDED": 0, "MODIFIED": 0, "DELETED": 0, "ERROR": 0})
        reasons = (reason for reason in RelistReason if reason is not RelistReason.DOMAIN_RESET)
        self.relists: Counter[str] = Counter(dict.fromkeys(reasons, 0))
        lists = bool(strategy.paged or strategy.fallback)
        self.expired: Counter[str] = Counter({phase: 0 for phase in Phase if lists or phase is not Phase.LIST})
        self.bytes = 0
        self.bookmarks = 0
        self.catch_ups = 0
        self.list_items = 0
        self.list_bytes = 0
        self.list_pages = 0
        self.gap_revisions = 0
        self.gap_seconds = 0.0
        self.unseen = Counter({"changed": 0, "created": 0, "deleted": 0})

    @property
    def changes(self) -> int:
        """The number of live events."""
        return self.events.total() - self.events["ERROR"]

    def lists(self) -> ListReading:
        """Return the totals of the lists."""
        return ListReading(
            relists=dict(self.relists),
            expired=dict(self.expired),
            items=self.list_items,
            bytes=self.list_bytes,
            pages=self.list_pages,
        )

    def add(self, fact: Fact) -> None:
        match fact:
            case Expired(phase):
                self.expired[phase] += 1
            case BookmarkSeen():
                self.bookmarks += 1
            case Garbage(count):
                self.events["ERROR"] += count
            case _:
                self._add_of_lists(fact)

    def _add_of_lists(self, fact: Fact) -> None:
        match fact:
            case Relisted(reason):
                self.relists[reason] += 1
            case ListDone(items=items, size=size, pages=pages):
                self.list_items += items
                self.list_bytes += size
                self.list_pages += pages
            case Gap(after, until, seconds):
                self.gap_revisions += until - after
                self.gap_seconds += seconds
            case Unseen(changed, created, deleted):
                self.unseen.update(changed=changed, created=created, deleted=deleted)
            case _:
                pass


class Outcomes:
    """What became of requests, of one watch or of all watches at one apiserver.

    Histograms, in seconds, of lists by strategy, of the opening of watches, and of how long watches stayed open. Counts
    of closes by class and reason, of failed lists by strategy and reason, of lists by a fallback, and of the events of
    streamed lists.
    """

    def __init__(self) -> None:
        self.lists: dict[str, DurationHistogram] = {}
        self.opens = DurationHistogram(REQUEST_EDGES)
        self.lives = DurationHistogram(LIFETIME_EDGES)
        self.closed: Counter[tuple[str, str]] = Counter()
        self.failed_lists: Counter[tuple[str, str]] = Counter()
        self.fallbacks = 0
        self.initial_events = 0

    def expect(self, strategy: Strategy) -> None:
        """Begin at 0 for lists of this strategy and its fallback: a rate would miss a series that begins at 1."""
        for expected in (strategy, strategy.fallback):
            if expected and expected.name not in self.lists:
                self.lists[expected.name] = DurationHistogram(REQUEST_EDGES)

    def reading(self) -> OutcomeReading:
        return OutcomeReading(
            lists={name: histogram.reading() for name, histogram in self.lists.items()},
            opens=self.opens.reading(),
            lifetimes=self.lives.reading(),
            closed=dict(self.closed),
            failed_lists=dict(self.failed_lists),
            fallbacks=self.fallbacks,
            initial_events=self.initial_events,
        )

    def add(self, fact: Fact) -> None:
        match fact:
            case ListDone(strategy=strategy, took=took):
                self.lists[strategy].observe(took)
            case ListFailed(failure, strategy) if failure.closed is not CloseClass.OWN:
                self.failed_lists[strategy, failure.reason] += 1
            case FellBack():
                self.fallbacks += 1
            case InitialEvents(count):
                self.initial_events += count
            case WatchOpened(took):
                self.opens.observe(took)
            case WatchClosed(failure, lived):
                self.closed[failure.closed, failure.reason] += 1
                if lived is not None:
                    self.lives.observe(lived)
            case _:
                pass
