"""One resource as an apiserver serves it: what a list answers, how a watch begins, and who is told of a change."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from watchslo.sim import status
from watchslo.sim.delay import Law
from watchslo.sim.kinds import Object
from watchslo.sim.link import Link
from watchslo.sim.query import Options, Scope, decode_continue, encode_continue, list_revision, watch_revision
from watchslo.sim.store import Cache, Change, Etcd, Gone, Table
from watchslo.sim.stream import Beginning, Frames, Stream

FRESH_WITHIN = 3.0
"""Seconds that a read waits for the watch cache, as in kube-apiserver."""
PROGRESS_EVERY = 0.1
"""Seconds between two requests for etcd's progress while a read waits, as in kube-apiserver."""


_OUT_OF_REACH = 2
"""Revisions between what a client has seen and the oldest that is kept: etcd counts the one before that as kept too."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What a version of kube-apiserver does its own way."""

    git_version: str
    consistent_from_cache: bool
    """Consistent lists, pages and exact revisions come from the watch cache where it has them."""
    refuses_unready: bool
    """What needs a watch cache that is not ready is refused with 429; before, it waited, or went to etcd."""
    watch_list: bool
    discovery: tuple[str, ...]
    """Versions of aggregated discovery."""


PROFILES = {
    "1.36": Profile("v1.36.3", consistent_from_cache=True, refuses_unready=True, watch_list=True, discovery=("v2",)),
    "1.30": Profile(
        "v1.30.14", consistent_from_cache=False, refuses_unready=False, watch_list=False, discovery=("v2", "v2beta1")
    ),
}


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer to a list."""

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


def page(table: Table, revision: int, scope: Scope, limit: int, start: str = "") -> Listing:
    """What a scope covers of a table, from the key `start` on; at most `limit` objects, 0 for all."""
    if scope.name and scope.namespace:  # one key can match: look there instead of everywhere
        key = scope.prefix + scope.name
        obj = table.get(key)
        return Listing([obj] if obj and key >= start and scope.matches(key, obj) else [], revision)
    objects: list[Object] = []
    last = ""
    for key, obj in table.items(scope.prefix, start):
        if limit and len(objects) == limit:
            remaining = None if scope.selective else table.count(scope.prefix, last + "\0")
            return Listing(objects, revision, encode_continue(revision, last), remaining)
        if scope.matches(key, obj):
            objects.append(obj)
            last = key
    return Listing(objects, revision)


def _exact(options: Options) -> bool:
    """Whether exactly this revision is asked for; a limit alone asks for that too, as it always did."""
    legacy = bool(options.limit and options.revision and not options.any_revision and not options.match)
    return options.match == "Exact" or legacy


class Served(Protocol):
    """A resource that is served, from a watch cache or from etcd."""

    streams: set[Stream]

    def committed(self, change: Change) -> None:
        """Etcd has a new revision of this resource."""

    async def read(self, options: Options, scope: Scope) -> Listing: ...

    async def begin(self, options: Options, scope: Scope) -> Beginning:
        """How a watch begins; whoever calls adds its stream before anything else happens."""

    def bookmark(self) -> int | None:
        """The revision that a bookmark would carry; None when there can be none."""

    def hold(self, *, held: bool) -> None:
        """Let nothing pass from etcd, or let it pass again."""

    def expire(self) -> None:
        """End all streams in a 410, and forget as much as can be forgotten."""

    def forget(self) -> None:
        """End all streams cleanly, and be unable to resume any of them."""

    def remember(self, changes: int) -> None:
        """Keep no more changes than this in its cache."""

    def state(self) -> dict[str, int | bool]:
        """What can be said of its cache."""

    def stop(self) -> None:
        """End all streams, cleanly."""


class Uncached:
    """A resource without a watch cache, such as events: etcd itself answers, and there are no bookmarks."""

    def __init__(self, resource: str, etcd: Etcd, profile: Profile) -> None:
        self.streams: set[Stream] = set()
        self.resource = resource
        self.etcd = etcd
        self.profile = profile

    def committed(self, change: Change) -> None:
        _tell(self.streams, change)

    async def read(self, options: Options, scope: Scope) -> Listing:
        return self.list_stored(options, scope)

    def list_stored(self, options: Options, scope: Scope) -> Listing:
        """A list as etcd answers it.

        Raises:
            StatusError: 410 for a compacted revision, 504 for one from the future.
        """
        revision = list_revision(options)
        if options.continue_token:
            return self._go_on(options, scope)
        if revision > self.etcd.revision:
            raise self._too_large(revision, exact=_exact(options))
        if not _exact(options):
            return page(self.etcd.table(self.resource), self.etcd.revision, scope, options.limit)
        try:
            return page(self.etcd.at(self.resource, revision), revision, scope, options.limit)
        except Gone:
            raise status.expired(status.LIST_COMPACTED) from None

    async def begin(self, options: Options, scope: Scope) -> Beginning:
        revision = watch_revision(options)
        current = self.etcd.revision
        if _starts_with_objects(options, revision):
            if revision > current:
                return Beginning(0, refusal=status.too_large(revision, current, 1))
            return _with_objects(self.etcd.table(self.resource), current, options, scope, self.profile)
        if not revision:
            return Beginning(current)
        try:
            return Beginning(revision, missed=tuple(self.etcd.since(self.resource, revision)))
        except Gone:
            return Beginning(0, refusal=status.expired(status.WATCH_COMPACTED))

    def bookmark(self) -> int | None:
        return None

    def hold(self, *, held: bool) -> None:
        """Nothing lies between etcd and this resource."""

    def expire(self) -> None:
        self.etcd.compact(self.etcd.revision)
        _fail_all(self.streams, status.expired(status.WATCH_COMPACTED))

    def forget(self) -> None:
        self.etcd.skip(_OUT_OF_REACH)
        self.etcd.compact(self.etcd.revision)
        _close_all(self.streams)

    def remember(self, changes: int) -> None:
        """Etcd remembers what it remembers."""

    def state(self) -> dict[str, int | bool]:
        return {"cached": False}

    def stop(self) -> None:
        _close_all(self.streams)

    def _go_on(self, options: Options, scope: Scope) -> Listing:
        wanted, start = decode_continue(options.continue_token)
        if wanted < 0:
            return page(self.etcd.table(self.resource), self.etcd.revision, scope, options.limit, start)
        try:
            return page(self.etcd.at(self.resource, wanted), wanted, scope, options.limit, start)
        except Gone:
            raise status.continue_expired(encode_continue(-1, start.removesuffix("\0"))) from None

    def _too_large(self, revision: int, *, exact: bool) -> status.StatusError:
        if exact and not self.profile.consistent_from_cache:
            return status.internal("etcdserver: mvcc: required revision is a future revision")
        return status.too_large(revision, self.etcd.revision, None)


class Cached:
    """A resource with a watch cache, which hears of a commit some time after it. It has to be filled first."""

    def __init__(
        self, resource: str, etcd: Etcd, profile: Profile, law: Callable[[], Law], random: Random, capacity: int
    ) -> None:
        self.streams: set[Stream] = set()
        self._storage = Uncached(resource, etcd, profile)
        self._capacity = capacity
        self._etcd = etcd
        self._profile = profile
        self._link: Link[Change | int] = Link(law, random, self._arrived)
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._progress_asked = 0.0
        self._progress_timer: asyncio.TimerHandle | None = None
        self.cache = self._filled()
        self._ready = asyncio.Event()

    def committed(self, change: Change) -> None:
        if self._ready.is_set():
            self._link.push(change)

    async def read(self, options: Options, scope: Scope) -> Listing:
        if not self._ready.is_set():
            gentle = options.limit and not scope.selective
            if self._profile.refuses_unready and not gentle:
                raise status.initializing()
            return self._storage.list_stored(options, scope)
        if self._is_for_storage(options):
            return self._storage.list_stored(options, scope)
        # Caches used to read revisions as watches do, with their own way to refuse them.
        revision = (list_revision if self._profile.consistent_from_cache else watch_revision)(options)
        if options.continue_token:
            return self._go_on(options, scope)
        wanted = revision or (0 if options.any_revision else self._etcd.revision)
        if not await self.fresh(wanted):
            if not options.revision:
                return self._storage.list_stored(options, scope)
            raise status.too_large(revision, self.cache.revision, 1)
        if _exact(options):
            return self._exactly(revision, options, scope)
        limit = 0 if options.any_revision else options.limit
        return page(self.cache.table, self.cache.revision, scope, limit)

    async def begin(self, options: Options, scope: Scope) -> Beginning:
        revision = watch_revision(options)
        if not self._ready.is_set() and self._profile.refuses_unready:
            raise status.initializing()
        await self._ready.wait()
        if not _starts_with_objects(options, revision):
            return self._resume(revision)
        wanted = revision or (0 if options.any_revision or not self._profile.watch_list else self._etcd.revision)
        if not await self.fresh(wanted):
            return Beginning(0, refusal=status.too_large(wanted, self.cache.revision, 1))
        return _with_objects(self.cache.table, self.cache.revision, options, scope, self._profile)

    async def fresh(self, revision: int) -> bool:
        """Wait until the cache has reached a revision, but not for ever; whether it has."""
        if self.cache.revision >= revision:
            return True
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, reached))
        if self._profile.consistent_from_cache:
            self._ask_progress()
        try:
            return await asyncio.wait_for(reached, FRESH_WITHIN)
        except TimeoutError:
            return False
        finally:
            self._waiting.remove((revision, reached))

    def bookmark(self) -> int | None:
        return self.cache.revision if self.cache.advanced else None

    def hold(self, *, held: bool) -> None:
        self._link.set_hold("fault", held=held)

    def expire(self) -> None:
        current = self.cache.revision
        self.cache.forget()
        _fail_all(self.streams, status.too_old(current, current))

    def forget(self) -> None:
        self._etcd.skip(_OUT_OF_REACH)
        self.cache.progress(self._etcd.revision)
        self.cache.forget()
        _close_all(self.streams)

    def remember(self, changes: int) -> None:
        self._capacity = changes
        self.cache.remember(changes)

    def state(self) -> dict[str, int | bool]:
        return {
            "cached": True,
            "ready": self._ready.is_set(),
            "revision": self.cache.revision,
            "oldest": self.cache.oldest,
            "behind": len(self._link),
        }

    def fill(self) -> None:
        """Hold what etcd holds now, and be ready."""
        self.cache = self._filled()
        self._ready.set()

    def stop(self) -> None:
        self._link.close()
        if self._progress_timer:
            self._progress_timer.cancel()
        _close_all(self.streams)

    def _filled(self) -> Cache:
        return Cache(self._etcd.table(self._storage.resource), self._etcd.revision, self._capacity)

    def _is_for_storage(self, options: Options) -> bool:
        """Before consistent reads from cache, all but the simplest lists went to etcd."""
        if self._profile.consistent_from_cache:
            return False
        limited = options.limit and not options.any_revision
        return not options.revision or bool(options.continue_token) or bool(limited) or options.match == "Exact"

    def _go_on(self, options: Options, scope: Scope) -> Listing:
        wanted, start = decode_continue(options.continue_token)
        try:
            return page(self.cache.at(wanted), wanted, scope, options.limit, start)
        except Gone:
            return self._storage.list_stored(options, scope)

    def _exactly(self, revision: int, options: Options, scope: Scope) -> Listing:
        try:
            return page(self.cache.at(revision), revision, scope, options.limit)
        except Gone:
            return self._storage.list_stored(options, scope)

    def _resume(self, revision: int) -> Beginning:
        if not revision:
            return Beginning(self.cache.revision)
        try:
            return Beginning(revision, missed=tuple(self.cache.since(revision)))
        except Gone as gone:
            return Beginning(0, refusal=status.too_old(revision, gone.oldest))

    def _arrived(self, items: list[Change | int]) -> None:
        """Take what etcd has sent: changes, or, as a number, how far it has come without one."""
        for item in items:
            if isinstance(item, Change):
                self.cache.apply(item)
                _tell(self.streams, item)
            else:
                self.cache.progress(item)
        for revision, reached in self._waiting:
            if revision <= self.cache.revision and not reached.done():
                reached.set_result(True)

    def _ask_progress(self) -> None:
        """Ask etcd how far it is, at once but not too often, as long as somebody waits."""
        if self._progress_timer:
            return
        loop = asyncio.get_running_loop()
        wait = self._progress_asked + PROGRESS_EVERY - time.monotonic()
        self._progress_timer = loop.call_later(max(wait, 0.0), self._asked_progress)

    def _asked_progress(self) -> None:
        self._progress_timer = None
        if self._waiting:
            self._progress_asked = time.monotonic()
            self._link.push(self._etcd.revision)
            self._ask_progress()


def _starts_with_objects(options: Options, revision: int) -> bool:
    """Whether a watch begins with the objects there are: when it says so, or says neither so nor where to start."""
    return options.initial_events or (options.initial_events is None and not revision)


def _with_objects(table: Table, revision: int, options: Options, scope: Scope, profile: Profile) -> Beginning:
    objects = tuple(page(table, revision, scope, limit=0).objects)
    end = revision if options.bookmarks and profile.watch_list else None
    return Beginning(revision, objects=objects, end=end)


def _tell(streams: set[Stream], change: Change) -> None:
    """Offer a change to streams; it is encoded once for all that want it alike."""
    frames: Frames = {}
    for stream in tuple(streams):
        stream.offer(change, frames)


def _close_all(streams: set[Stream]) -> None:
    for stream in tuple(streams):
        stream.close()


def _fail_all(streams: set[Stream], error: status.StatusError) -> None:
    for stream in tuple(streams):
        stream.fail(error)
