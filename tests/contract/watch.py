"""A machine at work, driven as `watchslo.monitor.stream` drives it; all that it says is kept."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import NamedTuple, TypeVar

from tests.contract.cluster import EVENTS, Author
from watchslo.kube.client import Client, Page, Selectors, Stream
from watchslo.kube.representation import Representation
from watchslo.model import Reading, Resource
from watchslo.watch.decode import Change, Frame, decode
from watchslo.watch.failure import ENDED, Action, Failure, Reason, because
from watchslo.watch.lines import LineSplitter
from watchslo.watch.machine import Machine, State
from watchslo.watch.messages import (
    Begin,
    Cancel,
    Closed,
    Emit,
    Fact,
    Halt,
    Input,
    Listed,
    ListRequest,
    Note,
    Opened,
    Output,
    Received,
    Reopen,
    Start,
    WakeAt,
    WatchClosed,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import TAIL, Strategy

PATIENCE_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 0.2
EVERYTHING = Selectors()

F = TypeVar("F", bound=Fact)


class Event(NamedTuple):
    """A live event, as the machine emitted it."""

    type: str
    revision: int


class Watch:
    """One stream; `events` and `facts` are what its machine emitted and noted.

    Waits are cut short: the machine's clock jumps over the rest.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None = None,
        selectors: Selectors = EVERYTHING,
        representation: Representation = Representation.TABLE,
        strategy: Strategy = TAIL,
        page_size: int = 500,
    ) -> None:
        self.resource = resource
        self.representation = representation
        self.events: list[Event] = []
        self.created: list[str | None] = []
        self.facts: list[Fact] = []
        self.requests: list[ListRequest | WatchRequest] = []
        self._client = client
        self._namespace = namespace
        self._selectors = selectors
        self._machine = Machine(strategy, page_size, random=lambda: 0.0)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._wake_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._suspended = False
        self._ahead = 0.0
        self._changed = asyncio.Event()
        self._halted = asyncio.Event()
        self._crashed = False

    def __str__(self) -> str:
        return f"{self.resource.key} as {self.representation}: {self.state}, {self.events[-5:]}, {self.facts[-9:]}"

    @property
    def state(self) -> State:
        return self._machine.state

    def said(self, kind: type[F]) -> list[F]:
        """The facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def closed(self) -> list[Reason]:
        """Why its watches ended."""
        return [fact.failure.reason for fact in self.said(WatchClosed)]

    async def until_state(self, state: State) -> None:
        await self._until(lambda: self.state is state)

    async def until_watching(self) -> None:
        await self.until_state(State.WATCHING)

    async def until_said(self, kind: type[Fact], times: int = 1) -> None:
        """Waits for a fact, or for so many of them."""
        await self._until(lambda: len(self.said(kind)) >= times)

    async def until_events(self, count: int) -> None:
        await self._until(lambda: len(self.events) >= count)

    async def until_seen(self, revision: int) -> None:
        """Waits for an event, or a bookmark, of this revision or a later one."""
        await self._until(lambda: (self._machine.revision or 0) >= revision)

    async def _until(self, condition: Callable[[], object]) -> None:
        """Waits until something that happens to the machine makes `condition` true."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    assert not self._crashed, "the driver is broken"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"after {PATIENCE_SECONDS:g} s: {self}") from None

    async def run(self) -> None:
        """Watches until halted."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.feed(Begin())
                await self._halted.wait()
        except BaseException:
            self._crashed = True
            self._changed.set()
            raise

    def halt(self) -> None:
        self.feed(Halt())
        if self._alarm:
            self._alarm.cancel()
        self._halted.set()

    def feed(self, happened: Input) -> None:
        """Tells the machine, and does what it wants."""
        for output in self._machine.receive(happened, time.monotonic() + self._ahead):
            self._obey(output)
        self._changed.set()

    def _obey(self, output: Output) -> None:
        match output:
            case Emit(batch):
                self.events += map(Event, batch.types, batch.revisions)
                self.created += batch.created
            case Note(fact):
                self.facts.append(fact)
            case Start(op, request):
                self.requests.append(request)
                work = self._list(op, request) if isinstance(request, ListRequest) else self._watch(op, request)
                self._running[op] = self._tasks.create_task(work)
            case Cancel(op):
                self._running.pop(op).cancel()
            case WakeAt(at):
                self._wake_at = at
                self._set_alarm()

    @contextlib.contextmanager
    def closed_meanwhile(self) -> Iterator[None]:
        """Closes the watch, which is resumed after the block."""
        self._suspended = True
        self.feed(Reopen())
        yield
        self._suspended = False
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm:
            self._alarm.cancel()
        if not self._suspended:
            wait = min(self._wake_at - time.monotonic() - self._ahead, LONGEST_WAIT_SECONDS)
            self._alarm = asyncio.get_running_loop().call_later(wait, self._wake)

    def _wake(self) -> None:
        self._ahead = max(self._ahead, self._wake_at - time.monotonic())
        self.feed(Woken())

    async def _list(self, op: int, request: ListRequest) -> None:
        answer = await self._client.list_page(
            self.resource, self._namespace, self._selectors, request, self.representation
        )
        match answer:
            case Page(revision=revision, items=items, size=size, continue_token=token):
                self._end(op, Listed(op, revision, items, size, token))
            case failure:
                self._end(op, Closed(op, failure))

    async def _watch(self, op: int, request: WatchRequest) -> None:
        async with self._client.watch(
            self.resource, self._namespace, self._selectors, request, self.representation
        ) as opened:
            if isinstance(opened, Failure):
                failure = opened
            else:
                self.feed(Opened(op))
                failure = await self._follow(op, opened)
        self._end(op, Closed(op, failure))

    async def _follow(self, op: int, stream: Stream) -> Failure:
        lines = LineSplitter()
        while not isinstance(arrived := await stream.read(), Failure):
            received, chunk = arrived
            if block := lines.feed(chunk):
                self.feed(Received(op, decode(block), received))
        return because(Reason.EARLY_EOF) if arrived is ENDED and lines.partial else arrived

    def _end(self, op: int, happened: Listed | Closed) -> None:
        self._running.pop(op, None)
        if isinstance(happened, Closed) and happened.failure.action is Action.FALL_BACK:
            self.representation = self.representation.simpler
        self.feed(happened)


@contextlib.asynccontextmanager
async def watching(*watches: Watch) -> AsyncIterator[None]:
    """Runs watches, once all of them are open, until the block ends."""
    async with starting(*watches):
        for watch in watches:
            await watch.until_watching()
        yield


@contextlib.asynccontextmanager
async def starting(*watches: Watch) -> AsyncIterator[None]:
    """Runs watches until the block ends, whether they open or not."""
    running = [asyncio.create_task(watch.run()) for watch in watches]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        for watch in watches:
            watch.halt()
        await asyncio.gather(*running)


async def read(client: Client, resource: Resource, namespace: str = "default") -> Reading:
    """A consistent read of nothing."""
    reading = await client.read_nothing(resource, namespace, "tick")
    assert isinstance(reading, Reading), reading
    return reading


async def now(client: Client) -> int:
    """The newest revision."""
    return (await read(client, EVENTS)).revision


@contextlib.asynccontextmanager
async def opened(
    client: Client,
    author: Author,
    revision: int,
    timeout: int,  # noqa: ASYNC109 - the server's
    representation: Representation = Representation.TABLE,
    selectors: Selectors = EVERYTHING,
) -> AsyncIterator[Stream]:
    """One watch of where `author` writes."""
    request = WatchRequest(revision, timeout)
    async with client.watch(author.resource, author.namespace, selectors, request, representation) as stream:
        assert isinstance(stream, Stream), stream
        yield stream


async def frames(stream: Stream) -> AsyncGenerator[tuple[float, Frame]]:
    """What a watch brings until it ends cleanly, and when."""
    lines = LineSplitter()
    while not isinstance(arrived := await stream.read(), Failure):
        received, chunk = arrived
        brought = decode(lines.feed(chunk))
        assert brought.garbage == 0
        for frame in brought.events:
            yield received, frame
    assert arrived is ENDED
    assert not lines.partial


async def up_to(revision: int, stream: Stream) -> AsyncIterator[tuple[float, Frame]]:
    """What a watch brings up to a revision."""
    async with contextlib.aclosing(frames(stream)) as arriving:
        async for received, frame in arriving:
            yield received, frame
            if revision_of(frame) >= revision:
                return


def event_of(frame: Frame) -> Event:
    return Event(frame.type, revision_of(frame))


def revision_of(frame: Frame) -> int:
    assert isinstance(frame, Change), frame
    return int(frame.object.metadata.resource_version or 0)
