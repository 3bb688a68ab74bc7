"""What was and what is, for many onlookers: history in a thread of its own, told as server-sent events.

Snapshots go in, from any thread, and bytes come out, encoded once for all. Whoever reads too slowly is dropped, and may
come back for the whole: nothing is kept for anybody.
"""

import asyncio
import secrets
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from watchslo.errors import whereabouts
from watchslo.history.chronicle import Account, Chronicle
from watchslo.serve import update
from watchslo.serve.gate import Authorize, bearer_token, may_go_on
from watchslo.serve.route import Route
from watchslo.snapshot import Snapshot

KEPT = 12  # deltas, a minute of them: whoever was away for longer begins anew
HEARTBEAT_SECONDS = 10.0  # else proxies end a connection that is silent
SEND_SECONDS = 30.0  # a reader that does not take an event within this is dropped, if the server has not done it
READERS = 200
RETRY_MILLISECONDS = 2000
MEDIA_TYPE = "text/event-stream"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Frame:
    """One evaluation, as it is sent to those who have had the one before."""

    number: int
    delta: bytes


@dataclass(eq=False, slots=True)
class _Reader:
    """Somebody who waits for news in a loop of his own."""

    loop: asyncio.AbstractEventLoop
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self.news.set)


class Feed:
    """Observes snapshots, and tells of them. All of its history is touched by its one thread only.

    `account` is the newest one; None before the first evaluation.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="history")
        self._observing: Future[None] | None = None
        self._chronicle = Chronicle()
        self._watches: dict[str, update.WatchLine] = {}
        self._full: tuple[int, bytes] = (0, b"")
        self._run = secrets.token_hex(4)  # numbers begin anew with each process
        self._frames: tuple[Frame, ...] = ()
        self._readers: set[_Reader] = set()
        self._lock = threading.Lock()  # over who reads
        self._closed = False
        self.account: Account | None = None

    # What is observed

    def observe(self, snapshot: Snapshot) -> None:
        """Takes the snapshot of an evaluation, at once; one is left out if those before are not done with."""
        if not self._closed and (self._observing is None or self._observing.done()):
            self._observing = self._thread.submit(self._observe, snapshot)
            self._observing.add_done_callback(_complain)

    def _observe(self, snapshot: Snapshot) -> None:
        told = self._chronicle.day.last_minute_wall
        account = self._chronicle.observe(snapshot)
        before, self._watches = self._watches, update.watches(account)
        changed = [watch for key, watch in self._watches.items() if before.get(key) != watch]
        gone = sorted(before.keys() - self._watches.keys())
        body = update.delta(self._chronicle, account, changed, gone, told)
        self._frames = (*self._frames[-(KEPT - 1) :], Frame(account.number, self._event("delta", account, body)))
        self.account = account
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            readers = tuple(self._readers)
        for reader in readers:
            reader.wake()

    def _event(self, name: str, account: Account, body: bytes) -> bytes:
        return b"event: %b\nid: %b-%d\ndata: %b\n\n" % (name.encode(), self._run.encode(), account.number, body)

    def close(self) -> None:
        """Sends everybody away, and tells nothing more."""
        self._closed = True
        self._wake()

    # What is told

    @property
    def crowded(self) -> bool:
        """Whether there are as many readers as there may be."""
        return len(self._readers) >= READERS

    async def ask(self, question: Callable[[Chronicle], T]) -> T:
        """What history answers, in its own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, self._chronicle)

    async def follow(self, last_id: str, allowed: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
        """Events from the one after `last_id` on, or from a full one.

        It ends for who is too slow, for who is `allowed` no more, which is asked before anything is told, and when
        closed.
        """
        yield b"retry: %d\n\n" % RETRY_MILLISECONDS
        with self._reading() as reader:
            place = self._place(last_id)
            while await allowed() and not self._closed:
                reader.news.clear()
                missed = [frame for frame in self._frames if frame.number > (place or 0)]
                if missed and place is None:
                    place, body = await self.ask(self._whole)
                    yield body
                elif missed and place is not None and missed[0].number > place + 1:
                    return  # some are gone already: it shall begin anew
                elif missed:
                    yield missed[0].delta
                    place = missed[0].number
                elif not await _within(HEARTBEAT_SECONDS, reader.news):
                    yield b":\n\n"

    def _place(self, last_id: str) -> int | None:
        """The number of the event that a reader had last, if those after it are still there."""
        run, _, number = last_id.partition("-")
        known = {str(frame.number) for frame in self._frames}
        return int(number) if run == self._run and number in known else None

    def _whole(self, chronicle: Chronicle) -> tuple[int, bytes]:
        account = chronicle.account
        assert account is not None
        if self._full[0] != account.number:
            body = update.full(chronicle, account, [*self._watches.values()])
            self._full = account.number, self._event("full", account, body)
        return self._full

    @contextmanager
    def _reading(self) -> Iterator[_Reader]:
        reader = _Reader(asyncio.get_running_loop())
        with self._lock:
            self._readers.add(reader)
        try:
            yield reader
        finally:
            with self._lock:
                self._readers.discard(reader)


async def _within(seconds: float, news: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    return True


def _complain(done: Future[None]) -> None:
    """An observation that failed leaves a hole in history, and hurts nothing else."""
    if not done.cancelled() and (error := done.exception()):
        structlog.get_logger().error("history_failed", error=whereabouts(error))


class EventStream(Response):
    """Sends events until the reader leaves, is too slow, or there are no more."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        sending, leaving = asyncio.create_task(self._send(send)), asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if not sending.cancelled():
            with suppress(TimeoutError):  # what nobody takes is left as it is: the server closes the connection
                sending.result()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._events):
            async for event in self._events:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def routes(feed: Feed, authorize: Authorize | None) -> Iterator[Route]:
    """What is answered from a feed as it goes on, and for as long as its reader may read."""

    async def events(request: Request) -> Response:
        """Everything that the page shows, as it changes: server-sent events, each of which is an `Update`.

        `full` has all, `delta` what changed since. Whoever comes back with `Last-Event-ID` goes on from there. It
        ends for who may read no more.
        """
        if feed.crowded:
            return Response("too many onlookers; try again later\n", 503, media_type="text/plain")
        allowed = partial(may_go_on, authorize, bearer_token(request.headers))
        return EventStream(feed.follow(request.headers.get("last-event-id", ""), allowed))

    yield Route(
        "/api/v1/events",
        events,
        documented={
            "response_model": update.Update,
            "response_class": EventStream,
            "status_code": 200,
            "responses": {503: {"description": "Too many read it already.", "content": {"text/plain": {}}}},
        },
    )
