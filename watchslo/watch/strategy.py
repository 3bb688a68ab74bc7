"""How a stream comes to know a revision to watch from. This is all that strategies differ in: they are data.

Beside them stands what is remembered of an apiserver: whether it streams lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from watchslo.watch.messages import ListRequest

PAGE_SIZE = 500  # objects; client-go's default
REFUSAL_SECONDS = 86400.0  # a feature gate changes with a restart, whose version we may not see: ask again after a day


@dataclass(frozen=True, slots=True)
class Strategy:
    """`first` is the list to begin with, `throttled` the one to ask for after a 429, until a list has succeeded.

    Without `first`, the watch itself brings the list. While a cache is not ready, apiservers answer 429 to all lists
    but those that etcd answers: those with `limit=1`. With `paged`, lists come in pages and are followed to their end;
    without, one answer tells all. With `parallel`, the watch opens as soon as the first page has told a revision.
    `instead` takes over, until a list has succeeded, from a list that had to start over, or that the apiserver refuses.
    """

    name: str
    first: ListRequest | None
    throttled: ListRequest | None
    paged: bool
    parallel: bool = False
    instead: Self | None = None


TAIL = Strategy("tail", first=ListRequest(absent_name=True), throttled=ListRequest(limit=1), paged=False)
"""Lists nothing, and watches from the revision of that: its cost does not depend on the number of objects."""

PAGED = Strategy("paged", first=ListRequest(), throttled=ListRequest(), paged=True)
"""Lists all objects, page by page, as a client does that keeps them."""

PARALLEL = Strategy("parallel", first=ListRequest(), throttled=ListRequest(), paged=True, parallel=True)
"""The same, but watches meanwhile: its revision cannot expire before the last page."""

STREAM = Strategy("stream", first=None, throttled=None, paged=True, instead=PAGED)
"""Has the watch bring all objects first (WatchList), or pages where the apiserver does not know how."""

_FROM_CACHE = ListRequest(from_cache=True)
CACHE = Strategy("cache", first=_FROM_CACHE, throttled=_FROM_CACHE, paged=False, instead=PAGED)
"""Takes what the apiserver's cache holds, in one answer. What that holds may be older than what was seen elsewhere."""

STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in (TAIL, PAGED, PARALLEL, STREAM, CACHE)}
"""All of them, by the names that configurations use."""


class StreamedLists:
    """Whether one apiserver streams lists, as far as is known. Its streams share what one of them has learned."""

    def __init__(self) -> None:
        self._usable_from = float("-inf")
        self._version: str | None = None

    def usable(self, now: float) -> bool:
        """Tell whether to ask for one."""
        return now >= self._usable_from

    def refused(self, now: float) -> None:
        """Remember that the apiserver streams none."""
        self._usable_from = now + REFUSAL_SECONDS

    def observe_version(self, version: str) -> None:
        """Forget the refusal where this is another version of the apiserver than before."""
        if version != self._version:
            self._version = version
            self._usable_from = float("-inf")
