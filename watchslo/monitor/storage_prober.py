"""Finds out whether an apiserver keeps its objects in kine, which emulates etcd.

A read-only client can see two differences, on `events`, which have no watch cache by default:

- etcd waits for a revision of the future; kine 0.17 closes a watch from it at once, without a word.
- Let C be the oldest revision that is not compacted: lists can be read at C and not at C - 1. With etcd, a watch may
  begin from C - 1, because its first change is C. kine refuses that, in all its versions.

Both were seen with kube-apiserver 1.30 and 1.36 on etcd 3.6 and on kine 0.17.5 with SQLite and with PostgreSQL.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from watchslo.clock.storage_kind import MOST_COUNTED
from watchslo.kube.client import Client
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.failure_log import FailureLog
from watchslo.monitor.oldest_revision import try_revision
from watchslo.monitor.tick_planner import EVENTS
from watchslo.snapshot import StorageKind
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import ENDED, Action, Failure, Reason
from watchslo.watch.headroom import FIRST, TooOld
from watchslo.watch.missing_right import MissingRight

FUTURE = 1_000_000_000  # revisions ahead: weeks of a busy cluster
REPEATS = 3  # of a watch that is closed at once: a single one may be cut by chance
AGAIN_SECONDS = 3600.0  # a server of k3s may move from SQLite to etcd
UNKNOWN_SECONDS = 300.0  # until a storage is asked again in which nothing is compacted: etcd is, so often
KIND = "detect_storage"  # of these requests


class StorageProber:
    """Asks one apiserver at the start and every hour; `Apiserver.storage` has the result.

    It reads in `namespace`.
    """

    def __init__(self, apiserver: Apiserver, namespace: str, random: Callable[[], float]) -> None:
        self._apiserver = apiserver
        self._namespace = namespace
        self._random = random
        self._failures = FailureLog(structlog.get_logger().bind(apiserver=apiserver.name))

    async def run(self) -> None:
        """Probe until cancelled."""
        backoff, right = Backoff(self._random), MissingRight()
        while True:
            found = await find_kind(self._apiserver.client, self._namespace)
            if not isinstance(found, Failure):
                self._failures.resolve()
                right.resolve()
                self._apiserver.recognise_storage(found)
                pause = UNKNOWN_SECONDS if found is StorageKind.UNKNOWN else AGAIN_SECONDS
            else:
                self._failures.record("storage_unknown", found)
                refused, now = found.action is Action.WAIT, time.monotonic()
                pause = right.pause(found, now, AGAIN_SECONDS) if refused else backoff.next(now, found.retry_after)
            await asyncio.sleep(pause * (0.5 + self._random()))


async def find_kind(client: Client, namespace: str) -> StorageKind | Failure:
    """Return whether an apiserver keeps its objects in kine or counts as etcd does.

    That is unknown if nothing is compacted yet, or if its revisions are no counts.
    """
    newest = await client.read_nothing(EVENTS, namespace, KIND)
    if isinstance(newest, Failure):
        return newest
    if newest.revision > MOST_COUNTED:
        return StorageKind.UNKNOWN
    closed = await _is_closed_at_once(client, namespace, newest.revision)
    if closed:
        return closed if isinstance(closed, Failure) else StorageKind.KINE
    return await _by_compaction(client, namespace, newest.revision)


async def _by_compaction(client: Client, namespace: str, newest: int) -> StorageKind | Failure:
    oldest = await _oldest_readable(client, namespace, newest)
    if isinstance(oldest, Failure):
        return oldest
    if oldest == FIRST:
        return StorageKind.UNKNOWN
    before = await try_revision(client, EVENTS, namespace, oldest - 1, KIND)
    if isinstance(before, Failure):
        return before
    if isinstance(before, TooOld):
        is_of_cache = before.oldest is not None  # only a watch cache names its oldest revision
        still = await _is_readable(client, namespace, oldest)  # else it was compacted in between
        return StorageKind.KINE if still is True and not is_of_cache else StorageKind.UNKNOWN
    return StorageKind.SEQUENCE


async def _is_closed_at_once(client: Client, namespace: str, newest: int) -> bool | Failure:
    """Return whether watches from the future are closed at once, and one from the newest revision is not."""
    for revision, closes in (*((newest + FUTURE, True),) * REPEATS, (newest, False)):
        outcome = await try_revision(client, EVENTS, namespace, revision, KIND)
        if isinstance(outcome, Failure) and outcome is not ENDED:
            return outcome
        if (outcome is ENDED) is not closes:
            return False
    return True


async def _oldest_readable(client: Client, namespace: str, newest: int) -> int | Failure:
    """Return the oldest revision at which lists can be read, by bisection."""
    refused, read = 0, newest
    while read - refused > 1:
        middle = FIRST if refused < FIRST else (refused + read) // 2
        outcome = await _is_readable(client, namespace, middle)
        if isinstance(outcome, Failure):
            return outcome
        refused, read = (refused, middle) if outcome else (middle, read)
    return read


async def _is_readable(client: Client, namespace: str, revision: int) -> bool | Failure:
    answer = await client.read_nothing(EVENTS, namespace, KIND, at=revision)
    if isinstance(answer, Failure):
        return False if answer.reason is Reason.EXPIRED else answer
    return True
