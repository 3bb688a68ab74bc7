"""The feed: updates of the history as server-sent events for many readers.

`Feed` takes snapshots from any thread and encodes each update once for all readers. It keeps no state for a reader: one
that reads too slowly is disconnected and may reconnect for a full update.
"""

import asyncio
import secrets
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from watchslo.api.feed import Update
from watchslo.serve import rows, update
from watchslo.serve.admission_control import client_of
from watchslo.serve.auth import Authorize, bearer, may_continue
from watchslo.serve.history import History
from watchslo.serve.route import Kind, Route
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Account, Timeline

KEPT = 12  # deltas, a minute of them: a reader that was away for longer gets a full update
KEPT_BYTES = 2 * 2**20  # of them: with hundreds of busy watches, a full update is smaller than a few deltas
LEAST_KEPT = 2  # deltas, so that a reader that is a little slow stays connected
HEARTBEAT_SECONDS = 10.0  # proxies close silent connections
SEND_SECONDS = 30.0  # a reader that does not accept an event within this is disconnected
RETRY_MILLISECONDS = 2000
MEDIA_TYPE = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Frame:
    """The changes of one evaluation, as sent to readers that have received the previous one."""

    number: int
    delta: bytes


def _kept(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the newest frames that are kept."""
    frames = frames[-KEPT:]
    while len(frames) > LEAST_KEPT and sum(len(frame.delta) for frame in frames) > KEPT_BYTES:
        frames = frames[1:]
    return frames


@dataclass(eq=False, slots=True)
class _Reader:
    """A connected reader, which waits for frames in its own event loop."""

    loop: asyncio.AbstractEventLoop
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.loop.call_soon_threadsafe(self.changed.set)


class Feed(History):
    """Streams each change of the history to its readers."""

    def __init__(self) -> None:
        super().__init__()
        self._digests: dict[str, int] = {}  # of the watches' lines, which are larger
        self._full: tuple[int, bytes] = (0, b"")
        self._run = secrets.token_hex(4)  # numbers of frames start again in each process
        self._frames: tuple[Frame, ...] = ()
        self._readers: set[_Reader] = set()
        self._lock = threading.Lock()  # protects the set of readers

    # Observing

    def _observe(self, snapshot: Snapshot) -> Account:
        sent = self.timeline.day.last_minute_wall
        account = super()._observe(snapshot)
        watches = rows.watches(account)
        before, self._digests = self._digests, {key: hash(watch) for key, watch in watches.items()}
        changed = [watch for key, watch in watches.items() if before.get(key) != self._digests[key]]
        gone = sorted(before.keys() - watches.keys())
        body = update.delta(self.timeline, account, changed, gone, sent)
        self._frames = _kept((*self._frames, Frame(account.number, self._event("delta", account, body))))
        self._wake()
        return account

    def _wake(self) -> None:
        with self._lock:
            readers = tuple(self._readers)
        for reader in readers:
            reader.wake()

    def _event(self, name: str, account: Account, body: bytes) -> bytes:
        return b"event: %b\nid: %b-%d\ndata: %b\n\n" % (name.encode(), self._run.encode(), account.number, body)

    def close(self) -> None:
        """Disconnect all readers and stop observing."""
        super().close()
        self._wake()

    # Reading

    async def follow(
        self, client: str, last_id: str, allowed: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield a client the events after `last_id`, or a full update first if that id is unknown or too old.

        Ends if the reader is too slow, when the feed is closed, or once `allowed` returns False; that is checked before
        each event.
        """
        yield b"retry: %d\n\n" % RETRY_MILLISECONDS
        with self._reading() as reader:
            place = self._place(last_id)
            while await allowed() and not self._closed:
                reader.changed.clear()
                missed = [frame for frame in self._frames if frame.number > (place or 0)]
                if missed and place is None:
                    place, body = await self.ask(client, self._whole)
                    yield body
                elif missed and place is not None and missed[0].number > place + 1:
                    return  # some frames are gone: the reader reconnects and gets a full update
                elif missed:
                    yield missed[0].delta
                    place = missed[0].number
                elif not await _within(HEARTBEAT_SECONDS, reader.changed):
                    yield b":\n\n"

    def _place(self, last_id: str) -> int | None:
        """Return the number of the frame that a reader received last, if all later frames are kept."""
        run, _, number = last_id.partition("-")
        known = {str(frame.number) for frame in self._frames}
        return int(number) if run == self._run and number in known else None

    def _whole(self, timeline: Timeline) -> tuple[int, bytes]:
        account = timeline.account
        assert account is not None
        if self._full[0] != account.number:
            body = update.full(timeline, account, [*rows.watches(account).values()])
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


async def _within(seconds: float, changed: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        return False
    return True


class EventStream(Response):
    """A response that sends events until the reader is too slow, or the events end."""

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        with suppress(TimeoutError):  # the reader does not accept data: the server closes the connection
            await self._send(send)

    async def _send(self, send: Send) -> None:
        async with aclosing(self._events):
            async for event in self._events:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": b""})


def routes(feed: Feed, authorize: Authorize | None) -> Iterator[Route]:
    """Return the route of the feed."""

    async def events(request: Request) -> Response:
        """The data of the page as server-sent events, each of which is an `Update`.

        A `full` event has everything, a `delta` the changes. A client that reconnects with `Last-Event-ID` continues
        from there. The stream ends if the client's permission is revoked.
        """
        allowed = partial(may_continue, authorize, bearer(request.scope))
        return EventStream(feed.follow(client_of(request), request.headers.get("last-event-id", ""), allowed))

    yield Route(
        "/api/v1/events",
        events,
        kind=Kind.FEED,
        answers=Update,
        documented={"response_class": EventStream, "status_code": 200},
    )
