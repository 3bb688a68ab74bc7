"""Rehearses a watch without a list: from resourceVersion=0 it begins with the objects in the watch cache.

Nothing marks the end of these objects, so a client cannot know when it has all of them. Here they are complete when
none has arrived for a second, or for longer while fewer have arrived than there were.
"""

import asyncio
import time
from dataclasses import dataclass, field
from http import HTTPStatus

from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchFrames
from watchslo.model import Resource
from watchslo.rehearse.rehearsal import LONGEST_LINE, PATIENCE_SECONDS, SETTLE_SECONDS, Rehearsal
from watchslo.rehearse.strategies import ZERO
from watchslo.watch.decode import Error, Frames
from watchslo.watch.failure import Failure, Reason, classify_stream_error
from watchslo.watch.guarantees import ReceivedPosition
from watchslo.watch.listing import ListProgress
from watchslo.watch.messages import WatchRequest
from watchslo.watch.strategy import STREAM
from watchslo.watch.streamed_list import position_of_end, separate

PATIENT_SECONDS = 5.0  # until the next object, while there should be more
TIMEOUT_SECONDS = int(PATIENCE_SECONDS)


@dataclass(slots=True)
class _Objects:
    """The objects of a watch so far, and the events after them; `began` and `arrived` are monotonic seconds."""

    began: float
    arrived: float | None = None
    size: int = 0  # until the last object
    received: int = 0
    events: int = 0
    progress: ListProgress = field(default_factory=lambda: ListProgress(STREAM))
    position: ReceivedPosition = field(default_factory=ReceivedPosition)

    def add(self, frames: Frames, received: float) -> None:
        """Tell the objects from the events after them, as in a streamed list."""
        chunk = separate(self.progress, frames, received, self.position)
        self.events += len(chunk.batch.revisions)
        if chunk.uids:
            self.arrived, self.size = received, self.received


async def rehearse_zero(client: Client, resource: Resource, namespace: str | None, expected: int) -> Rehearsal:
    """Open a watch from resourceVersion=0, and end it when its objects seem to be complete; try it once.

    `expected` is the number of objects that were counted before.
    """
    objects = _Objects(time.monotonic())
    request = WatchRequest(0, TIMEOUT_SECONDS)
    failure: Failure | None = None
    async with client.watch(resource, namespace, Selectors(), request, Representation.PLAIN) as opened:
        if isinstance(opened, Failure):
            failure = opened
        else:
            objects.arrived = time.monotonic()
            failure = await _receive(objects, opened.frames(LONGEST_LINE), expected)
    return _result(objects, failure)


async def _receive(objects: _Objects, arriving: WatchFrames, expected: int) -> Failure | None:
    """Receive objects until no more arrive; return why the watch ended if it did before."""
    time_of = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(PATIENT_SECONDS if expected else SETTLE_SECONDS) as quiet:
            async for received, size, frames in arriving:
                objects.received += size
                if frames is None:
                    continue
                end, before = position_of_end(frames.events), objects.progress.items
                objects.add(Frames(frames.events[:end], frames.garbage), received)
                if end < len(frames.events) and isinstance(error := frames.events[end], Error):
                    return classify_stream_error(error.object)
                if objects.progress.items > before:
                    is_short = objects.progress.items < expected
                    quiet.reschedule(time_of() + (PATIENT_SECONDS if is_short else SETTLE_SECONDS))
    except TimeoutError:
        return None
    return arriving.failure


def _result(objects: _Objects, failure: Failure | None) -> Rehearsal:
    synced = None if failure or objects.arrived is None else objects.arrived - objects.began
    return Rehearsal(
        strategy=ZERO,
        by=ZERO,
        synced=synced,
        requests=1,
        pages=0,
        objects=objects.progress.items,
        size=objects.size,
        events=objects.events,
        waiting=0,
        throttled=int(failure is not None and failure.status == HTTPStatus.TOO_MANY_REQUESTS),
        expired_lists=0,
        expired_watches=int(failure is not None and failure.reason is Reason.EXPIRED),
        fell_back=False,
        failure=failure,
    )
