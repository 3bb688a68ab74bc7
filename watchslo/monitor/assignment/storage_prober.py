"""Finds out whether an apiserver keeps its objects in kine, which emulates etcd.

A read-only client can see two differences, on `events`, which have no watch cache by default:

- etcd waits for a revision of the future; kine 0.17 closes a watch from it at once, without a word.
- Both refuse a watch from a compacted revision: etcd in step with its own clock, kine at once
  (`watchslo.clock.storage_kind`).

None of these watches begins at a revision that the storage still has, but one at the newest: etcd would read all
changes since, while writes wait. Nor does the length of the history tell them apart: both keep the changes of five to
ten minutes, and kine at least 1,000 (kine 0.16, pkg/logstructured/sqllog, `compact`).
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from watchslo.clock.storage_kind import MOST_COUNTED, PAUSES_SECONDS, Refusal, kind_by_refusals
from watchslo.kube.client import Client
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.oldest_revision import try_list, try_revision
from watchslo.monitor.assignment.tick_planner import EVENTS
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.snapshot import StorageKind
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import ENDED, Action, Failure
from watchslo.watch.headroom import FIRST, Accepted, Outcome, TooOld
from watchslo.watch.missing_right import MissingRight

FUTURE = 1_000_000_000  # revisions ahead: weeks of a busy cluster
REPEATS = 3  # of a watch that is closed at once: a single one may be cut by chance
LOOK_SECONDS = 60.0  # between two looks whether the kind is unknown; nothing is sent for that
REFUSED_SECONDS = 3600.0  # until a request that is not permitted is tried again
UNKNOWN_SECONDS = 60.0  # until a storage is asked again: what is irregular may be so for a moment only
UNKNOWN_CAP_SECONDS = 6 * 3600.0  # events may have a watch cache, and then nothing will be found
KIND = "detect_storage"  # of these requests


class StorageProber:
    """Asks one apiserver until the kind of its storage is known; `Apiserver.storage` has the result.

    It asks again if that is forgotten, as when the storage was restored. It reads in the namespace that `namespace`
    returns, and only while `wanted` returns True.
    """

    def __init__(
        self,
        apiserver: Apiserver,
        namespace: Callable[[], str],
        wanted: Callable[[], bool],
        random: Callable[[], float],
    ) -> None:
        self._apiserver = apiserver
        self._namespace = namespace
        self._wanted = wanted
        self._random = random
        self._retries = Backoff(random)
        self._right = MissingRight()
        self._repeats = Backoff(random, UNKNOWN_SECONDS, UNKNOWN_CAP_SECONDS)
        self._failures = FailureLog(structlog.get_logger().bind(apiserver=apiserver.name))

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            asks = self._wanted() and self._apiserver.storage is StorageKind.UNKNOWN
            await asyncio.sleep(await self._ask() if asks else LOOK_SECONDS)

    async def _ask(self) -> float:
        """Ask once, and return the seconds to wait."""
        found = await find_kind(self._apiserver.client, self._namespace())
        if isinstance(found, Failure):
            self._failures.record("storage_unknown", found)
            now = time.monotonic()
            if found.action is Action.WAIT:
                return self._right.pause(found, now, REFUSED_SECONDS) * (0.5 + self._random())
            return self._retries.next(now, found.retry_after)
        self._failures.resolve()
        self._right.resolve()
        self._apiserver.recognise_storage(found)
        return self._repeats.next(time.monotonic()) if found is StorageKind.UNKNOWN else LOOK_SECONDS


async def find_kind(client: Client, namespace: str) -> StorageKind | Failure:
    """Return whether an apiserver keeps its objects in kine or counts as etcd does.

    That is unknown if nothing is compacted yet, if its revisions are no counts, or if its answers are irregular.
    """
    newest = await client.read_nothing(EVENTS, namespace, KIND)
    if isinstance(newest, Failure):
        return newest
    if newest.revision > MOST_COUNTED:
        return StorageKind.UNKNOWN
    closed = await _is_closed_at_once(client, namespace, newest.revision)
    if closed:
        return closed if isinstance(closed, Failure) else StorageKind.KINE
    return await _by_refusals(client, namespace)


async def _is_closed_at_once(client: Client, namespace: str, newest: int) -> bool | Failure:
    """Return whether watches from the future are closed at once, and one from the newest revision is not."""
    for revision, closes in (*((newest + FUTURE, True),) * REPEATS, (newest, False)):
        outcome = await try_revision(client, EVENTS, namespace, revision, KIND)
        if isinstance(outcome, Failure) and outcome is not ENDED:
            return outcome
        if (outcome is ENDED) is not closes:
            return False
    return True


async def _by_refusals(client: Client, namespace: str) -> StorageKind | Failure:
    """Find the kind by watches from the first revision, if the next one is compacted; else they would read all."""
    oldest = await try_list(client, EVENTS, namespace, FIRST + 1, KIND)
    if not isinstance(oldest, TooOld):
        return StorageKind.UNKNOWN if isinstance(oldest, Accepted) else oldest
    refusals = []
    for pause in (0.0, *PAUSES_SECONDS):
        await asyncio.sleep(pause)
        outcome, refusal = await _timed(client, namespace)
        if isinstance(outcome, Failure):
            return outcome
        if not (isinstance(outcome, TooOld) and outcome.by_storage):
            return StorageKind.UNKNOWN  # events have a watch cache
        refusals.append(refusal)
    return kind_by_refusals(refusals)


async def _timed(client: Client, namespace: str) -> tuple[Outcome | Failure, Refusal]:
    """Return the outcome of a watch from the first revision, and its times."""
    sent = 0.0

    def note() -> None:
        nonlocal sent
        sent = time.monotonic()

    outcome = await try_revision(client, EVENTS, namespace, FIRST, KIND, on_sent=note)
    return outcome, Refusal(sent, time.monotonic())
