"""Work for readers in the thread that encodes: one piece of each kind at a time, and the clients take turns.

A lane has at most one piece of work in the thread. So whatever is asked for, the observations of this process and the
work in other lanes wait for one piece of each lane at most.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


class Lane:
    """Runs work in a thread. A client has one request in the queue for it; work of a cancelled request never begins.

    Use it on one event loop.
    """

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._turn = asyncio.Lock()  # the queue: first come, first served
        self._clients: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, client: str, work: Callable[[], T]) -> T:
        """Return what `work` returns."""
        async with self._first_of(client):
            return await self._piece(work)

    async def collect(self, client: str, pieces: Iterator[T]) -> list[T]:
        """Return all items of an iterator, each of which is a piece of work of its own."""
        found: list[T] = []
        async with self._first_of(client):
            while part := await self._piece(lambda: [*islice(pieces, 1)]):
                found += part
        return found

    def _first_of(self, client: str) -> asyncio.Lock:
        return self._clients.setdefault(client, asyncio.Lock())

    async def _piece(self, work: Callable[[], T]) -> T:
        await self._turn.acquire()
        loop = asyncio.get_running_loop()

        def ended(_: Future[T]) -> None:
            """Let the next one begin: not when its client has gone, because the thread may still work for that."""
            with suppress(RuntimeError):  # the loop was closed in between
                loop.call_soon_threadsafe(self._turn.release)

        job = self._thread.submit(work)
        job.add_done_callback(ended)
        return await asyncio.wrap_future(job)
