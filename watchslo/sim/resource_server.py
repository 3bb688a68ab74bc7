"""Serves one resource as an apiserver does: it answers lists, starts watches and sends them changes.

It reads from etcd and from its own watch cache, and writes only to that cache and to its watches.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from watchslo.sim import status
from watchslo.sim.delay_law import DelayLaw
from watchslo.sim.delayed_channel import DelayedChannel
from watchslo.sim.kinds import Object
from watchslo.sim.query import ListOptions, ObjectSelector, decode_continue, encode_continue
from watchslo.sim.store import CacheModel, Etcd, ObjectTable, RevisionGone, StoredChange
from watchslo.sim.watch_connection import EncodedEvents, WatchConnection, WatchStart

_FRESH_TIMEOUT_SECONDS = 3.0
"""How long a read waits for the watch cache, as in kube-apiserver."""
_PROGRESS_INTERVAL_SECONDS = 0.1
"""Interval of requests for etcd's progress while a read waits, as in kube-apiserver."""
_RESYNC_SECONDS = 0.1
"""Between two looks of etcd at watches that begin in the past: it refuses those that begin too early then."""

_SKIPPED_REVISIONS = 2
"""Gap between the last revision of a client and the oldest kept one; etcd also accepts the revision before that."""


@dataclass(frozen=True, slots=True)
class ListResult:
    """The result of a list."""

    objects: list[Object]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> dict[str, object]:
        return {
            "resourceVersion": str(self.revision),
            **({"continue": self.continue_token} if self.continue_token else {}),
            **({"remainingItemCount": self.remaining} if self.remaining else {}),
        }


def list_page(table: ObjectTable, revision: int, selector: ObjectSelector, limit: int, start: str = "") -> ListResult:
    """Return the selected objects of a table from the key `start` on; at most `limit` of them, 0 for all."""
    if key := selector.key:
        obj = table.get(key)
        return ListResult([obj] if obj and key >= start and selector.matches(key, obj) else [], revision)
    objects: list[Object] = []
    last = ""
    for key, obj in table.items(selector.prefix, start):
        if limit and len(objects) == limit:
            remaining = None if selector.predicates else table.count(selector.prefix, last + "\0")
            return ListResult(objects, revision, encode_continue(revision, last), remaining)
        if selector.matches(key, obj):
            objects.append(obj)
            last = key
    return ListResult(objects, revision)


class ResourceServer:
    """Serves a resource without a watch cache, such as events: reads go to etcd, and there are no bookmarks."""

    def __init__(self, resource: str, etcd: Etcd) -> None:
        self.watches: set[WatchConnection] = set()
        self.resource = resource
        self.etcd = etcd

    def committed(self, change: StoredChange) -> None:
        """Process a new change of this resource in etcd."""
        self.send(change)

    def send(self, change: StoredChange) -> None:
        """Offer a change to watches; those with the same encoder share its bytes."""
        encoded: EncodedEvents = {}
        for watch in tuple(self.watches):
            watch.offer(change, encoded)

    async def read(self, options: ListOptions, selector: ObjectSelector) -> ListResult:
        """Return a list.

        Raises:
            StatusError: 410 for a compacted revision, 504 for a future one.
        """
        revision, start, current = options.revision or 0, "", self.etcd.revision
        if options.continue_token:
            revision, start = decode_continue(options.continue_token)
        elif revision > current:
            raise status.too_large(revision, current, None)
        elif not options.is_exact:
            read = current if options.revision == 0 else self.etcd.read(time.monotonic())
            return list_page(self.etcd.table(self.resource), read, selector, options.limit)
        try:
            return list_page(self.etcd.at(self.resource, revision), revision, selector, options.limit, start)
        except RevisionGone:
            raise status.expired(status.LIST_COMPACTED) from None

    async def start_watch(self, options: ListOptions, selector: ObjectSelector) -> WatchStart:
        """Return how a watch starts; the caller must add the watch to `watches` before its next await."""
        revision, current = options.revision or 0, self.etcd.revision
        if options.initial_events or not revision:
            if revision > current:
                return WatchStart(0, refusal=status.too_large(revision, current, 1))
            return _with_objects(self.etcd.table(self.resource), current, options, selector)
        try:
            return WatchStart(revision, missed=tuple(self.etcd.since(self.resource, revision)), resumes=True)
        except RevisionGone:
            await asyncio.sleep(_RESYNC_SECONDS - time.monotonic() % _RESYNC_SECONDS)
            return WatchStart(0, refusal=status.expired(status.WATCH_COMPACTED))

    def bookmark(self) -> int | None:
        """Return the revision of a bookmark; None if the resource has no bookmarks now."""
        return None

    def hold(self, *, held: bool) -> None:
        """Hold or release the changes from etcd; without a watch cache, there is no such hop."""

    def set_capacity(self, changes: int) -> None:
        """Set the maximum number of changes in the watch cache, if there is one."""

    def expire(self) -> None:
        """End all watches with a 410, and drop all revisions that can be dropped."""
        self.etcd.compact(self.etcd.revision)
        self._fail_all(status.expired(status.WATCH_COMPACTED))

    def drop_revisions(self) -> None:
        """End all watches cleanly, and drop the revisions from which they could resume."""
        self.etcd.skip(_SKIPPED_REVISIONS)
        self.etcd.compact(self.etcd.revision)
        self.stop()

    def stop(self) -> None:
        """End all watches cleanly."""
        for watch in tuple(self.watches):
            watch.close()

    def _fail_all(self, error: status.StatusError) -> None:
        for watch in tuple(self.watches):
            watch.fail(error)


class CachedServer(ResourceServer):
    """Serves a resource from a watch cache, which receives commits with a delay; pages come from etcd."""

    def __init__(self, resource: str, etcd: Etcd, law: Callable[[], DelayLaw], random: Random, capacity: int) -> None:
        super().__init__(resource, etcd)
        self.cache = CacheModel(etcd.table(resource), etcd.revision, capacity)
        self._channel: DelayedChannel[StoredChange | int] = DelayedChannel(law, random, self._receive)
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._progress_requested_at = 0.0
        self._progress_timer: asyncio.TimerHandle | None = None

    def committed(self, change: StoredChange) -> None:
        self._channel.push(change)

    async def read(self, options: ListOptions, selector: ObjectSelector) -> ListResult:
        if options.continue_token:
            return await super().read(options, selector)
        required = self._required(options)
        if not await self._reaches(required):
            if options.revision is None:
                return await super().read(options, selector)
            raise status.too_large(required, self.cache.revision, 1)
        if options.is_exact:
            return await super().read(options, selector)
        limit = 0 if options.revision == 0 else options.limit
        return list_page(self.cache.table, self.cache.revision, selector, limit)

    async def start_watch(self, options: ListOptions, selector: ObjectSelector) -> WatchStart:
        if options.revision and not options.initial_events:
            return self._resume(options.revision)
        required = self._required(options)
        if not await self._reaches(required):
            return WatchStart(0, refusal=status.too_large(required, self.cache.revision, 1))
        return _with_objects(self.cache.table, self.cache.revision, options, selector)

    def bookmark(self) -> int | None:
        return self.cache.revision if self.cache.advanced else None

    def hold(self, *, held: bool) -> None:
        self._channel.set_hold("fault", held=held)

    def set_capacity(self, changes: int) -> None:
        self.cache.set_capacity(changes)

    def expire(self) -> None:
        current = self.cache.revision
        self.cache.drop_window()
        self._fail_all(status.too_old(current, current))

    def drop_revisions(self) -> None:
        self.etcd.skip(_SKIPPED_REVISIONS)
        self.cache.progress(self.etcd.revision)
        self.cache.drop_window()
        super().stop()

    def stop(self) -> None:
        self._channel.close()
        if self._progress_timer:
            self._progress_timer.cancel()
        super().stop()

    def _required(self, options: ListOptions) -> int:
        """Return the revision that the cache must have reached for a request."""
        return self.etcd.read(time.monotonic()) if options.revision is None else options.revision

    async def _reaches(self, revision: int) -> bool:
        """Wait until the cache has reached a revision; return False after a timeout."""
        if self.cache.revision >= revision:
            return True
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, reached))
        self._request_progress()
        try:
            return await asyncio.wait_for(reached, _FRESH_TIMEOUT_SECONDS)
        except TimeoutError:
            return False
        finally:
            self._waiting.remove((revision, reached))

    def _resume(self, revision: int) -> WatchStart:
        try:
            return WatchStart(revision, missed=tuple(self.cache.since(revision)), resumes=True)
        except RevisionGone as gone:
            return WatchStart(0, refusal=status.too_old(revision, gone.oldest))

    def _receive(self, items: list[StoredChange | int]) -> None:
        """Process what etcd has sent: changes, or progress notifications as revision numbers."""
        for item in items:
            if isinstance(item, StoredChange):
                self.cache.apply(item)
                self.send(item)
            else:
                self.cache.progress(item)
        for revision, reached in self._waiting:
            if revision <= self.cache.revision and not reached.done():
                reached.set_result(True)

    def _request_progress(self) -> None:
        """Request etcd's progress now, or once the interval has passed, as long as reads wait for it."""
        if self._progress_timer:
            return
        wait = self._progress_requested_at + _PROGRESS_INTERVAL_SECONDS - time.monotonic()
        self._progress_timer = asyncio.get_running_loop().call_later(max(wait, 0.0), self._send_progress_request)

    def _send_progress_request(self) -> None:
        self._progress_timer = None
        if self._waiting:
            self._progress_requested_at = time.monotonic()
            self._channel.push(self.etcd.revision)
            self._request_progress()


def _with_objects(table: ObjectTable, revision: int, options: ListOptions, selector: ObjectSelector) -> WatchStart:
    objects = tuple(list_page(table, revision, selector, limit=0).objects)
    return WatchStart(revision, objects=objects, end=revision if options.bookmarks else None)
