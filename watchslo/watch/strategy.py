"""Strategies: how a watch gets the revision to start from. Strategies are data; the machine interprets them.

`StreamedLists` remembers whether an apiserver supports streamed lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from watchslo.watch.messages import ListRequest

PAGE_SIZE = 500  # objects; client-go's default
REFUSAL_SECONDS = 86400.0  # a restart can enable the feature gate without a change of version: try again after a day


@dataclass(frozen=True, slots=True)
class Strategy:
    """How to list before a watch.

    `first` is the list to begin with; if it is None, the watch itself streams the list. `throttled` replaces it after a
    429, until a list succeeds: while a cache is not ready, apiservers answer 429 to all lists except those with a limit
    and without selectors, which etcd answers. With `paged`, a list is read page by page to its end; otherwise it is one
    answer. With `parallel`, the watch opens as soon as the first page has a revision. `fallback` replaces a list that
    had to start over or that the apiserver refuses, until a list succeeds. A strategy that `replays` begins in the
    past: its `fallback` also replaces it once a watch has delivered anything. A `prompt` one waits for less than a
    second after an outage or an expiry, because its lists are cheap.
    """

    name: str
    first: ListRequest | None
    throttled: ListRequest | None
    paged: bool
    parallel: bool = False
    fallback: Self | None = None
    replays: bool = False
    prompt: bool = False


TAIL = Strategy(
    "tail",
    first=ListRequest(absent_name=True),
    throttled=ListRequest(limit=1, absent_namespace=True),
    paged=False,
    prompt=True,
)
"""An empty list, and a watch from its revision: the cost does not depend on the number of objects.

After a 429, the list has one object if the watch is of one namespace, or of a resource without namespaces.
"""

TAIL_OF_MANY = replace(TAIL, prompt=False)
"""The same for a daemon on each of thousands of nodes: their lists are spread over seconds after a restart."""

PAGED = Strategy("paged", first=ListRequest(), throttled=ListRequest(), paged=True)
"""A list of all objects, page by page, as clients that keep the objects do."""

PARALLEL = Strategy("parallel", first=ListRequest(), throttled=ListRequest(), paged=True, parallel=True)
"""As `PAGED`, but the watch opens after the first page, so its revision cannot expire before the last page."""

STREAM = Strategy("stream", first=None, throttled=None, paged=True, fallback=PAGED)
"""A watch that sends all objects first (WatchList), or pages if the apiserver does not support that."""

_FROM_CACHE = ListRequest(from_cache=True)
CACHE = Strategy("cache", first=_FROM_CACHE, throttled=_FROM_CACHE, paged=False, fallback=PAGED)
"""The content of the apiserver's watch cache in one answer, which may be older than other answers."""

_OLDEST = ListRequest(oldest=True)
REPLAY = Strategy("replay", first=_OLDEST, throttled=_OLDEST, paged=False, fallback=TAIL, replays=True)
"""No list, and a watch from the oldest revision in reach. No configuration names it."""

RELIST, RELIST_PAGED = "relist", "relist-paged"
"""The names of the strategies of `relist`. No configuration names them: they need a revision."""


def relist(revision: int, *, paged: bool) -> Strategy:
    """Return how clients list again after a disconnect: a list that is not older than the revision that they know.

    client-go sends the revision alone, which the watch cache answers as a whole. With `paged` the list comes in pages,
    which needs a resourceVersionMatch. If the revision is refused, the list is consistent.
    """
    request = ListRequest(not_older_than=revision, states_match=paged)
    return Strategy(RELIST_PAGED if paged else RELIST, first=request, throttled=request, paged=paged, fallback=PAGED)


STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in (TAIL, PAGED, PARALLEL, STREAM, CACHE)}
"""All strategies by the names that configurations use."""


class StreamedLists:
    """Whether one apiserver supports streamed lists. All its watches share this."""

    def __init__(self) -> None:
        self._usable_from = float("-inf")
        self._version: str | None = None

    def usable(self, now: float) -> bool:
        """Return True unless a streamed list was refused within the last day."""
        return now >= self._usable_from

    def refused(self, now: float) -> None:
        """Remember that the apiserver refused a streamed list."""
        self._usable_from = now + REFUSAL_SECONDS

    def observe_version(self, version: str) -> None:
        """Forget the refusal if the apiserver has changed its version."""
        if version != self._version:
            self._version = version
            self._usable_from = float("-inf")
