"""One program with informers: its pages that wait to be judged, and what the last one that was judged says."""

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field

from watchslo.informer.judgement import JudgedStore, NotJudged, OwnWatch, judge
from watchslo.informer.page import InformerPage
from watchslo.informer.plurals import informer_plurals
from watchslo.model import Interval, Resource
from watchslo.snapshot import ClientReading, InformerReading, StoreVerdict

MOST_RESOURCES = 64  # of a client: three series of each, and three of its pages, are at most 200
WAITING_SECONDS = 60.0  # for a tick after a page; then what other clocks date is judged
MOST_WAITING = 8  # pages of a client
STALE_SECONDS = 36.0  # two reads have failed by then: the page says nothing of the present
_WORST_FIRST = (StoreVerdict.STALE, StoreVerdict.CURRENT, StoreVerdict.UNKNOWN)

OwnWatches = Mapping[tuple[str, str], OwnWatch]
"""Our watches by the group of their resource, and by each way in which an informer may write its plural."""


def own_watches(watches: Iterable[OwnWatch]) -> OwnWatches:
    """Return our watches by the names that informers give to their resources; a plural precedes a naive one."""
    known = [*watches]
    naive = {(own.resource.group, plural): own for own in known for plural in informer_plurals(own.resource.plural)}
    return naive | {(own.resource.group, own.resource.plural): own for own in known}


@dataclass(slots=True)
class _JudgedPage:
    """What a page says: its caches by resource, the items that wait, and the caches that are not judged.

    Items of the resources `before` waited on the page before as well. `reached` is the newest revision of all caches in
    each domain.
    """

    ended: float
    before: frozenset[Resource]
    stores: defaultdict[Resource, list[JudgedStore]] = field(default_factory=lambda: defaultdict(list))
    domains: dict[Resource, str] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    queued: dict[Resource, int] = field(default_factory=dict)
    unknown: Counter[NotJudged] = field(default_factory=Counter)
    verdicts: set[StoreVerdict] = field(default_factory=set)

    def add(self, store: JudgedStore, own: OwnWatch | None) -> None:
        """Add what is known of a cache, which was compared with our own watch."""
        self.verdicts.add(store.verdict)
        if store.reason is not None:
            self.unknown[store.reason] += 1
        if own is None:
            return
        self.stores[own.resource].append(store)
        self.domains[own.resource] = own.domain
        if store.reached is not None:
            self.reached[own.domain] = max(store.reached, self.reached.get(own.domain, 0))

    @property
    def waiting(self) -> frozenset[Resource]:
        return frozenset(resource for resource, count in self.queued.items() if count)

    def readings(self) -> tuple[InformerReading, ...]:
        shown = sorted({*self.stores, *self.queued}, key=lambda resource: resource.key)[:MOST_RESOURCES]
        return tuple(
            InformerReading(
                group=resource.group,
                resource=resource.plural,
                verdict=_worst(store.verdict for store in self.stores[resource]),
                staleness=_highest(self.stores[resource]),
                queued=self.queued.get(resource),
                waits=resource in self.waiting & self.before,
                overtaken=any(self._is_overtaken(resource, store) for store in self.stores[resource]),
            )
            for resource in shown
        )

    def _is_overtaken(self, resource: Resource, store: JudgedStore) -> bool:
        return store.verdict is StoreVerdict.STALE and self.reached[self.domains[resource]] > (store.missed or 0)


class InformedClient:
    """The pages of one program; `selected` are the resources, as kubectl names them, whose informers have selectors."""

    def __init__(self, name: str, selected: Iterable[str] = ()) -> None:
        self.name = name
        self._selected = frozenset(selected)
        self._reads = Counter[str](dict.fromkeys((verdict.value for verdict in StoreVerdict), 0))
        self._waiting: deque[InformerPage] = deque(maxlen=MOST_WAITING)
        self._last: _JudgedPage | None = None

    def add(self, page: InformerPage) -> None:
        """Take in a page, to be judged once the clocks have passed it."""
        self._waiting.append(page)

    def fail(self) -> None:
        """Count a page that could not be read."""
        self._reads[StoreVerdict.UNKNOWN] += 1

    def settle(self, now: float, watches: OwnWatches) -> Generator[None, None, None]:
        """Judge the pages that all clocks have passed; pause after each cache."""
        while self._waiting and self._is_due(self._waiting[0], now, watches):
            page = self._waiting.popleft()
            judged = _JudgedPage(page.ended, self._last.waiting if self._last else frozenset())
            for key, shown in page.stores.items():
                own = watches.get((key.group, key.resource))
                store = judge(shown, page, own, is_selected=own is not None and own.resource.key in self._selected)
                judged.add(store, own)
                yield
            for key, count in page.queued.items():
                if own := watches.get((key.group, key.resource)):
                    judged.queued[own.resource] = max(count, judged.queued.get(own.resource, 0))
            self._reads[_worst(judged.verdicts)] += 1
            self._last = judged

    def reading(self, now: float, obstacle: str | None = None) -> ClientReading:
        """Return what is known of it."""
        last = self._last if self._last and now - self._last.ended <= STALE_SECONDS else None
        return ClientReading(
            client=self.name,
            reads=dict(self._reads),
            informers=last.readings() if last else (),
            unknown={reason.value: count for reason, count in last.unknown.items()} if last else {},
            obstacle=obstacle,
        )

    def _is_due(self, page: InformerPage, now: float, watches: OwnWatches) -> bool:
        return now - page.ended > WAITING_SECONDS or all(own.has_passed(page.ended) for own in watches.values())


def _worst(verdicts: Iterable[StoreVerdict]) -> StoreVerdict:
    """Return the worst verdict that is known."""
    found = {*verdicts}
    return next((verdict for verdict in _WORST_FIRST if verdict in found), StoreVerdict.UNKNOWN)


def _highest(stores: Iterable[JudgedStore]) -> Interval | None:
    """Return the bounds of the highest staleness; None if none is known."""
    known = [store.staleness for store in stores if store.staleness is not None]
    return Interval(max(each.lower for each in known), max(each.upper for each in known)) if known else None
