"""Which resources an apiserver serves from watch caches, by what its refusals say.

A watch from revision 1 is refused with a 410. A watch cache then names the oldest revision that it accepts
(k8s.io/apiserver, storage/cacher, `getAllEventsSinceLocked`). Without a cache the storage refuses, in other words
(storage/etcd3, `interpretWatchError`). If the cluster is so young that the watch is accepted, that proves nothing.
"""

from collections.abc import Iterable

from watchslo.model import Resource
from watchslo.watch.headroom import Outcome, TooOld

SPACING_SECONDS = 2.0  # watches of one resource open together: one look serves all of them
AGAIN_SECONDS = 3600.0  # if it was switched off, that only costs precision


class WatchCaches:
    """Which resources of one apiserver have a watch cache. All its watches share this.

    What is not found is assumed to be as usual. A wrong "no" would hide the lag of a cache, so it needs more than a
    wrong "yes": the refusal of a storage, by an address that leads to one apiserver only, as the last that was heard.
    """

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}
        self._looked: dict[str, float] = {}

    def has(self, resource: Resource) -> bool:
        """Return True if the apiserver has a watch cache of the resource, as found or else as usual."""
        return self._found.get(_cache_of(resource), resource.usually_cached)

    def is_found(self, resource: Resource) -> bool:
        """Return True if the apiserver itself has shown whether it has a watch cache of the resource."""
        return _cache_of(resource) in self._found

    def look(self, resource: Resource, now: float) -> bool:
        """Return True if a watch that has just opened is a reason to look, and note that it is done."""
        key = _cache_of(resource)
        spacing = AGAIN_SECONDS if self._found.get(key) else SPACING_SECONDS
        if now - self._looked.get(key, float("-inf")) < spacing:
            return False
        self._looked[key] = now
        return True

    def observe(self, resource: Resource, outcome: Outcome | None, *, is_single: bool, bookmarks: bool) -> None:
        """Take in the outcome of a watch from revision 1; None if it failed.

        `is_single` says that no other apiserver can have answered. `bookmarks` says that watches of the resource had
        bookmarks, which only caches send.
        """
        key = _cache_of(resource)
        match outcome:
            case TooOld(oldest=int()):
                self._found[key] = True
            case TooOld(by_storage=True) if is_single:
                self._found[key] = False
            case _ if bookmarks:
                self._found[key] = True
            case _ if not self._found.get(key):
                self._found.pop(key, None)

    def retain(self, resources: Iterable[Resource]) -> None:
        """Forget all resources except these."""
        keys = set(map(_cache_of, resources))
        self._found = {key: found for key, found in self._found.items() if key in keys}
        self._looked = {key: looked for key, looked in self._looked.items() if key in keys}


def _cache_of(resource: Resource) -> str:
    """Return what names the cache of a resource: the events of both API groups are the same objects."""
    return resource.key if resource.usually_cached else "events"
