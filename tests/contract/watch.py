"""A watch as in the daemon, but with short waits, and a record of its events and facts."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from tests.contract.cluster import EVENTS, Author
from tests.support.process import PATIENCE_SECONDS
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Reading, Resource
from watchslo.monitor.protocol.driver import Driver, WatchTarget
from watchslo.watch.decode import Frame, ObjectChange
from watchslo.watch.failure import ENDED, Reason
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Batch,
    Fact,
    Input,
    ListDone,
    ListRequest,
    Output,
    Reopen,
    Start,
    WakeAt,
    WatchClosed,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import TAIL, Strategy, StreamedLists
from watchslo.watch.transitions import State

LONGEST_WAIT_SECONDS = 0.2
LONGEST_LINE_BYTES = 64 * 2**20
EVERYTHING = Selectors()

F = TypeVar("F", bound=Fact)


class Event(NamedTuple):
    """A live event that the machine emitted."""

    type: str
    revision: int


class Hasty(Machine):
    """A machine whose clock skips its waits, or never ends them while `suspended`; `requests` are all that it made."""

    def __init__(
        self, strategy: Strategy, page_size: int, streaming: StreamedLists | None, inventory: Inventory | None
    ) -> None:
        super().__init__(strategy, page_size, lambda: 0.0, streaming=streaming, inventory=inventory)
        self.requests: list[ListRequest | WatchRequest] = []
        self.suspended = False
        self._due = 0.0
        self._ahead = 0.0

    def receive(self, happened: Input, now: float) -> list[Output]:
        if isinstance(happened, Woken):
            if self.suspended:
                return []
            if self.state is not State.LISTING:
                self._ahead = max(self._ahead, self._due - now)
        outputs = super().receive(happened, now + self._ahead)
        self.requests += [output.request for output in outputs if isinstance(output, Start)]
        return [sooner for output in outputs if (sooner := self._sooner(output, now))]

    def _sooner(self, output: Output, now: float) -> Output | None:
        if not isinstance(output, WakeAt):
            return output
        if self.state is State.LISTING:  # the time within which a streamed list must bring something
            return WakeAt(output.time - self._ahead)
        self._due = output.time
        return None if self.suspended else WakeAt(min(output.time - self._ahead, now + LONGEST_WAIT_SECONDS))


async def at_once(_: ListRequest) -> None:
    """Request a list without a delay."""


class Patient(Driver):
    """A driver that requests a list only after `delay`; each input of its machine sets `changed`."""

    changed: asyncio.Event
    delay: Callable[[ListRequest], Awaitable[None]]

    def feed(self, happened: Input) -> None:
        super().feed(happened)
        self.changed.set()

    async def _list(self, op: int, request: ListRequest) -> None:
        await self.delay(request)
        await super()._list(op, request)


class Watch:
    """A watch; `events` and `facts` are the outputs of its machine. `delay` is awaited before each list."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None = None,
        selectors: Selectors = EVERYTHING,
        representation: Representation = Representation.TABLE,
        strategy: Strategy = TAIL,
        page_size: int = 500,
        delay: Callable[[ListRequest], Awaitable[None]] = at_once,
        streaming: StreamedLists | None = None,
        inventory: Inventory | None = None,
    ) -> None:
        self.resource = resource
        self.events: list[Event] = []
        self.created: list[str | None] = []
        self.facts: list[Fact] = []
        self._machine = Hasty(strategy, page_size, streaming, inventory)
        self._driver = Patient(
            self._machine,
            client,
            WatchTarget(resource, namespace, selectors, LONGEST_LINE_BYTES),
            representation,
            emit=self._emit,
            note=self.facts.append,
            heard=lambda _: None,
        )
        self._changed = self._driver.changed = asyncio.Event()
        self._driver.delay = delay
        self._crashed = False

    def __str__(self) -> str:
        return f"{self.resource.key} as {self.representation}: {self.state}, {self.events[-5:]}, {self.facts[-9:]}"

    @property
    def representation(self) -> Representation:
        return self._driver.representation

    @property
    def requests(self) -> list[ListRequest | WatchRequest]:
        """All requests so far."""
        return self._machine.requests

    @property
    def state(self) -> State:
        return self._machine.state

    def said(self, kind: type[F]) -> list[F]:
        """Return the facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def closed(self) -> list[Reason]:
        """Return the reasons for which its watches ended."""
        return [fact.failure.reason for fact in self.said(WatchClosed)]

    async def until_state(self, state: State) -> None:
        await self._until(lambda: self.state is state)

    async def until_watching(self) -> None:
        await self.until_state(State.WATCHING)

    async def until_said(self, kind: type[Fact], times: int = 1) -> None:
        """Wait for a number of facts of one kind."""
        await self._until(lambda: len(self.said(kind)) >= times)

    async def until_events(self, count: int) -> None:
        await self._until(lambda: len(self.events) >= count)

    async def until_in_stock(self) -> None:
        """Wait until its inventory is complete."""
        await self._until(lambda: self._machine.inventory is not None and self._machine.inventory.synced)

    async def until_seen(self, revision: int) -> None:
        """Wait for an event, or a bookmark, of this revision or a later one."""
        await self._until(lambda: (self._machine.revision or 0) >= revision)

    async def _until(self, condition: Callable[[], object]) -> None:
        """Wait until an input of the machine makes `condition` true."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    assert not self._crashed, "the driver is broken"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"after {PATIENCE_SECONDS:g} s: {self}") from None

    async def run(self) -> None:
        """Watch until `halt` is called."""
        try:
            await self._driver.run()
        except BaseException:
            self._crashed = True
            self._changed.set()
            raise

    def halt(self) -> None:
        self._driver.halt(Reason.SHUTDOWN)

    @contextlib.contextmanager
    def while_closed(self) -> Iterator[None]:
        """Close the watch and resume it after the block."""
        self._machine.suspended = True
        self._driver.feed(Reopen())
        yield
        self._machine.suspended = False
        self._driver.feed(Woken())

    def _emit(self, batch: Batch) -> None:
        self.events += map(Event, batch.types, batch.revisions)
        self.created += batch.created


class Interrupted(Watch):
    """A watch with a list in pages of two, which stops after the first page until `resume` is set."""

    def __init__(self, client: Client, author: Author, strategy: Strategy, **more: Any) -> None:
        super().__init__(
            client, author.resource, author.namespace, strategy=strategy, page_size=2, delay=self._wait, **more
        )
        self.interruption = asyncio.Event()
        self.resume = asyncio.Event()

    async def _wait(self, request: ListRequest) -> None:
        if request.continue_token and not self.resume.is_set():
            self.interruption.set()
            await self.resume.wait()


@contextlib.asynccontextmanager
async def synced(watch: Watch) -> AsyncIterator[None]:
    """Run a watch until the block ends; the block begins when its list is done and it is open."""
    async with starting(watch):
        await watch.until_said(ListDone)
        await watch.until_watching()
        yield


@contextlib.asynccontextmanager
async def watching(*watches: Watch) -> AsyncIterator[None]:
    """Run watches until the block ends; the block begins when all of them are open."""
    async with starting(*watches):
        for watch in watches:
            await watch.until_watching()
        yield


@contextlib.asynccontextmanager
async def starting(*watches: Watch) -> AsyncIterator[None]:
    """Run watches until the block ends, without waiting until they are open."""
    running = [asyncio.create_task(watch.run()) for watch in watches]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        for watch in watches:
            watch.halt()
        await asyncio.gather(*running)


async def read(client: Client, resource: Resource, namespace: str = "default") -> Reading:
    """Return a consistent empty read."""
    reading = await client.read_nothing(resource, namespace, "tick")
    assert isinstance(reading, Reading), reading
    return reading


async def now(client: Client) -> int:
    """Return the newest revision."""
    return (await read(client, EVENTS)).revision


@contextlib.asynccontextmanager
async def opened(
    client: Client,
    author: Author,
    revision: int | None,
    timeout: int,  # noqa: ASYNC109 - the timeout of the server
    representation: Representation = Representation.TABLE,
    selectors: Selectors = EVERYTHING,
) -> AsyncIterator[WatchResponse]:
    """Open a watch of the resource and namespace of `author`."""
    request = WatchRequest(revision, timeout)
    async with client.watch(author.resource, author.namespace, selectors, request, representation) as stream:
        assert isinstance(stream, WatchResponse), stream
        yield stream


async def frames(stream: WatchResponse) -> AsyncGenerator[tuple[float, Frame]]:
    """Yield the frames of a watch until it ends cleanly, with the time of each."""
    arriving = stream.frames()
    async for received, _, brought in arriving:
        if brought is None:
            continue
        assert brought.garbage == 0
        for frame in brought.events:
            yield received, frame
    assert arriving.failure is ENDED
    assert not arriving.is_cut


async def up_to(revision: int, stream: WatchResponse) -> AsyncIterator[tuple[float, Frame]]:
    """Yield the frames of a watch up to a revision."""
    async with contextlib.aclosing(frames(stream)) as arriving:
        async for received, frame in arriving:
            yield received, frame
            if revision_of(frame) >= revision:
                return


def narrow_socket(info: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """Return a socket with a small buffer: otherwise the kernel may accept data that the client does not read."""
    made = socket.socket(info[0], info[1], info[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 2**10)
    return made


def event_of(frame: Frame) -> Event:
    return Event(frame.type, revision_of(frame))


def revision_of(frame: Frame) -> int:
    assert isinstance(frame, ObjectChange), frame
    return int(frame.object.metadata.resource_version or 0)
