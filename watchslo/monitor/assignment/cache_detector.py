"""Finds out which resources an apiserver serves from watch caches, by a watch of nothing when watches open."""

import time

import structlog

from watchslo.monitor.apiservers.oldest_revision import try_list, try_revision
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.failure import Failure
from watchslo.watch.headroom import FIRST, Accepted, Outcome

MOST_READ = 2_000  # revisions that etcd may read for a watch: 10,000 changes of 1 kB delayed a write by 20 to 30 ms
KIND = "detect_cache"  # of these requests


async def look_for_cache(watch: MonitoredWatch) -> bool:
    """Find out whether the resource of a watch has a cache, unless that was done recently; return if that has changed.

    It takes some milliseconds, or a second in a young cluster. The apiserver keeps what was found. Nothing is found
    if the storage has too many changes and none of them is compacted: without a cache, a watch would read them all.
    """
    resource, apiserver = watch.identity.resource, watch.identity.apiserver
    caches, before = apiserver.caches, watch.identity.cached
    if not caches.look(resource, time.monotonic()):
        return False
    outcome = await _outcome(watch)
    caches.observe(
        resource,
        None if isinstance(outcome, Failure) else outcome,
        is_single=apiserver.peers == 1 and not apiserver.mixed,
        bookmarks=watch.session.bookmark_seen is not None,
    )
    cached = watch.identity.cached
    if cached is not before:
        structlog.get_logger().info("watch_cache", apiserver=apiserver.name, resource=resource.key, cached=cached)
    return cached is not before


async def _outcome(watch: MonitoredWatch) -> Outcome | Failure | None:
    identity = watch.identity
    client, resource, namespace = identity.apiserver.client, identity.resource, identity.probed_in
    if not identity.cached and (watch.session.revision or 0) > MOST_READ:
        oldest = await try_list(client, resource, namespace, FIRST + 1, KIND)
        if isinstance(oldest, Accepted | Failure):
            return None
    return await try_revision(client, resource, namespace, FIRST, KIND)
