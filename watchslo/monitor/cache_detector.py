"""Finds out which resources an apiserver serves from watch caches, by a watch of nothing when watches open."""

import time

import structlog

from watchslo.monitor.monitored_watch import MonitoredWatch
from watchslo.monitor.oldest_revision import try_revision
from watchslo.watch.failure import Failure
from watchslo.watch.headroom import FIRST


async def look_for_cache(watch: MonitoredWatch) -> bool:
    """Find out whether the resource of a watch has a cache, unless that was done recently; return if that has changed.

    It takes some milliseconds, or a second in a young cluster. The apiserver keeps what was found.
    """
    resource, apiserver = watch.identity.resource, watch.identity.apiserver
    caches, before = apiserver.caches, watch.identity.cached
    if not caches.look(resource, time.monotonic()):
        return False
    outcome = await try_revision(apiserver.client, resource, watch.identity.probed_in, FIRST, "detect_cache")
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
