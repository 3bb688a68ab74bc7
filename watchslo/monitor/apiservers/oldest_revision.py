"""Finds the oldest revision that a watch may begin from, by reads that select no object.

A watch cache is asked by watches. A watch of a resource without a cache would make etcd read all changes since its
revision while it holds its lock, so the storage is asked by lists: each of them reads one key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchslo.kube.call import NOTHING, OnSent
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Resource
from watchslo.watch.decode import Error
from watchslo.watch.failure import ENDED, Failure, Reason, because, classify_stream_error
from watchslo.watch.headroom import Accepted, Outcome, Search, TooOld
from watchslo.watch.messages import WatchRequest

WATCH_SECONDS = 1  # the apiserver takes whole seconds; a refusal comes a few milliseconds after the headers
OVERTIME_SECONDS = 5.0
SILENT_SECONDS = 0.5  # a watch that ended cleanly earlier was neither refused nor accepted


@dataclass(frozen=True, slots=True)
class Found:
    """The oldest revision that a watch may begin from, at the monotonic time `at`.

    `revisions` is how far the newest revision was ahead of it; `complete` says that no event was ever dropped.
    """

    oldest: int
    revisions: int
    at: float
    complete: bool


Pause = Callable[[], Awaitable[None]]
"""Waits until one more request may be sent."""


async def find_oldest(
    client: Client, resource: Resource, namespace: str, newest: Callable[[], int], pause: Pause
) -> Found | Failure:
    """Read nothing at revisions until the oldest acceptable one is known; `newest` returns a recent revision."""
    search, found, cached = Search(newest()), None, True
    while (revision := search.next) is not None:
        await pause()
        at, ahead, before = time.monotonic(), newest(), search.oldest
        ask = try_revision if cached else try_list
        outcome = await ask(client, resource, namespace, revision)
        if isinstance(outcome, Failure):
            return outcome
        cached = cached and not (isinstance(outcome, TooOld) and outcome.by_storage)
        search.observe(revision, outcome)
        if search.oldest is not None and search.oldest != before:
            found = Found(search.oldest, max(ahead - search.oldest, 0), at, search.complete)
    return found or because(Reason.EXPIRED)


async def try_list(
    client: Client, resource: Resource, namespace: str, revision: int, kind: str = "headroom"
) -> Outcome | Failure:
    """Read nothing at exactly a revision of the storage; return whether the revision is compacted."""
    answer = await client.read_nothing(resource, namespace, kind, at=revision)
    if isinstance(answer, Failure):
        return TooOld(None, by_storage=True) if answer.reason is Reason.EXPIRED else answer
    return Accepted()


async def try_revision(
    client: Client,
    resource: Resource,
    namespace: str,
    revision: int,
    kind: str = "headroom",
    *,
    on_sent: OnSent = lambda: None,
) -> Outcome | Failure:
    """Open a watch of nothing at a revision and read it to its end; return whether the revision is too old.

    `kind` counts the request. The failure is `ENDED` if the watch was closed at once, without a word.
    """
    request, time_of = WatchRequest(revision, WATCH_SECONDS, bookmarks=False), asyncio.get_running_loop().time

    def sent() -> None:
        timeout.reschedule(time_of() + WATCH_SECONDS + OVERTIME_SECONDS)
        on_sent()

    try:
        async with (
            asyncio.timeout(None) as timeout,
            client.watch(
                resource,
                namespace,
                NOTHING,
                request,
                Representation.PLAIN,
                kind=kind,
                on_sent=sent,
            ) as opened,
        ):
            if isinstance(opened, Failure):
                return TooOld.parse(opened.message) if opened.reason is Reason.EXPIRED else opened
            return await _outcome(opened)
    except TimeoutError:
        return because(Reason.TIMEOUT)


async def _outcome(response: WatchResponse) -> Outcome | Failure:
    """Read a watch of nothing to its end; only an ERROR is an answer, because no object has that name."""
    arrivals, opened = response.frames(), time.monotonic()
    async for _, _, frames in arrivals:
        for event in frames.events if frames else ():
            if isinstance(event, Error):
                failure = classify_stream_error(event.object)
                return TooOld.parse(event.object.message) if failure.reason is Reason.EXPIRED else failure
    lasted = time.monotonic() - opened
    return Accepted() if arrivals.failure is ENDED and lasted >= SILENT_SECONDS else arrivals.failure
