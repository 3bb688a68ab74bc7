"""Where an apiserver read the lists of a rehearsal: from its watch cache or from etcd, and how that is known. Pure.

Counters of the apiserver prove it, if no other client listed at the same time. Otherwise the rules of its version say
it (k8s.io/apiserver, storage/cacher, `ShouldDelegateList`): by the resourceVersion and the limit of each request, and
by what is on by default. Feature gates can change that.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from watchslo.rehearse.strategies import IN_WATCH
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, RELIST, TAIL

ApiserverVersion = tuple[int, int]

CONSISTENT_FROM_CACHE = (1, 31)  # lists without a resourceVersion and without a limit
FIRST_PAGES_FROM_CACHE = (1, 32)  # with a limit
ALL_PAGES_FROM_CACHE = (1, 34)  # with a continue token, which needs snapshots of the cache
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.")


class ListOrigin(StrEnum):
    """What lists were read from."""

    CACHE = "watch cache"
    ETCD = "etcd"
    BOTH = "both"


class ListEvidence(StrEnum):
    """How the origin is known, the surest first."""

    METRICS = "metrics"  # of the apiserver, which counted these lists
    NO_CACHE = "refusal"  # of etcd itself: the resource has no watch cache
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class ListSource:
    """Where lists were read, and how that is known. Only what the version says can be wrong."""

    origin: ListOrigin
    evidence: ListEvidence

    @property
    def is_certain(self) -> bool:
        return self.evidence is not ListEvidence.VERSION


@dataclass(frozen=True, slots=True)
class ListCounts:
    """How many lists of a resource an apiserver has read from each."""

    cache: int
    etcd: int


def parse_version(text: str) -> ApiserverVersion | None:
    """Return (1, 36) for `v1.36.3`, or None for another form."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else None


def counted_source(before: ListCounts, after: ListCounts, lists: int, consistent: int) -> ListSource | None:
    """Return where so many lists were read, by the counters before and after them.

    The cache answers a consistent list once it has the newest revision, which is a list of etcd for the counters: so
    many lists were `consistent`. None if nothing is proven: there were no lists, others listed as well, or the counters
    have other names.
    """
    cache, etcd = after.cache - before.cache, after.etcd - before.etcd
    if min(cache, etcd) < 0 or lists <= 0:
        return None
    if cache == lists and etcd <= consistent:
        return ListSource(ListOrigin.CACHE, ListEvidence.METRICS)
    if cache == 0 and etcd >= lists:
        return ListSource(ListOrigin.ETCD, ListEvidence.METRICS)
    partly = 0 < cache < lists <= cache + etcd <= lists + consistent
    return ListSource(ListOrigin.BOTH, ListEvidence.METRICS) if partly else None


def consistent_lists(strategy: str) -> int:
    """Return how many lists of a strategy ask for the newest state."""
    return 1 if strategy in (TAIL.name, PAGED.name, PARALLEL.name) else 0


def expected_source(strategy: str, pages: int, version: ApiserverVersion | None, *, cached: bool) -> ListSource | None:
    """Return where lists of a strategy are read by default; None if that is unknown.

    `cached` says whether the resource has a watch cache.
    """
    if not cached:
        return ListSource(ListOrigin.ETCD, ListEvidence.VERSION)
    if strategy in (CACHE.name, RELIST, *IN_WATCH):
        return ListSource(ListOrigin.CACHE, ListEvidence.VERSION)
    return None if version is None else ListSource(_by_version(strategy, pages, version), ListEvidence.VERSION)


def _by_version(strategy: str, pages: int, version: ApiserverVersion) -> ListOrigin:
    first = CONSISTENT_FROM_CACHE if strategy == TAIL.name else FIRST_PAGES_FROM_CACHE
    if version < first:
        return ListOrigin.ETCD
    return ListOrigin.BOTH if pages > 1 and version < ALL_PAGES_FROM_CACHE else ListOrigin.CACHE
