"""A machine at work: its requests are sent, what comes of them is told to it, and its alarm goes off in time."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from watchslo.kube.client import Client, Page, Selectors
from watchslo.kube.client import Stream as Connection
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.snapshot import TransportReading
from watchslo.watch.decode import decode
from watchslo.watch.failure import ENDED, Action, Failure, Reason, because
from watchslo.watch.lines import LineSplitter, LineTooLong
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Batch,
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
    Start,
    WakeAt,
    WatchRequest,
    Woken,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is watched: a resource, in one namespace or in all, by selectors. No line is longer than so many bytes."""

    resource: Resource
    namespace: str | None
    selectors: Selectors
    longest_line: int


class Driver:
    """Drives `machine` against the apiserver of `client`.

    `emit` is given its live events, `note` its facts, `heard` the size of every chunk. `representation` becomes simpler
    where the apiserver does not know it.
    """

    def __init__(
        self,
        machine: Machine,
        client: Client,
        question: Question,
        representation: Representation,
        *,
        emit: Callable[[Batch], None],
        note: Callable[[Fact], None],
        heard: Callable[[int], None],
    ) -> None:
        self.machine = machine
        self.representation = representation
        self._client = client
        self._question = question
        self._emit = emit
        self._note = note
        self._heard = heard
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._connection: Connection | None = None
        self._wake_at: float | None = None
        self._alarm = asyncio.Event()
        self._halted = asyncio.Event()

    async def run(self) -> None:
        """Works until halted; raises what `emit`, `note` and `heard` raise."""
        async with asyncio.TaskGroup() as self._tasks:
            alarm = self._tasks.create_task(self._keep_time())
            self.feed(Begin())
            await self._halted.wait()
            alarm.cancel()

    def halt(self, reason: Reason) -> None:
        """Ends all requests; `run` returns."""
        self.feed(Halt(reason))
        self._halted.set()

    def feed(self, happened: Input) -> None:
        """Tells the machine, and does what it says."""
        for output in self.machine.receive(happened, time.monotonic()):
            self._obey(output)

    def transport(self) -> TransportReading | None:
        """What the kernel knows of the watch's connection, while one is open."""
        return self._connection.transport() if self._connection else None

    def _obey(self, output: Output) -> None:
        match output:
            case Emit():  # most often by far: a pattern that looks into it would cost more than all the rest
                self._emit(output.batch)
            case Note(fact):
                self._note(fact)
            case Start(op, ListRequest() as request):
                self._requests[op] = self._tasks.create_task(self._list(op, request))
            case Start(op, WatchRequest() as request):
                self._requests[op] = self._tasks.create_task(self._watch(op, request))
            case Cancel(op):
                self._requests.pop(op).cancel()
            case WakeAt(at):
                self._wake_at = at
                self._alarm.set()

    async def _keep_time(self) -> None:
        """Tells the machine when the time of its last `WakeAt` has come."""
        while True:
            wait = None if self._wake_at is None else self._wake_at - time.monotonic()
            try:
                async with asyncio.timeout(wait):
                    await self._alarm.wait()
                    self._alarm.clear()
            except TimeoutError:
                self._wake_at = None
                self.feed(Woken())

    async def _list(self, op: int, request: ListRequest) -> None:
        question = self._question
        answer = await self._client.list_page(
            question.resource,
            question.namespace,
            question.selectors,
            request,
            self.representation,
            with_objects=self.machine.inventory is not None,
        )
        match answer:
            case Page(revision=revision, items=items, size=size, continue_token=token, objects=objects):
                self._end(op, Listed(op, revision, items, size, token, objects))
            case failure:
                self._end(op, Closed(op, failure))

    async def _watch(self, op: int, request: WatchRequest) -> None:
        question = self._question
        async with self._client.watch(
            question.resource, question.namespace, question.selectors, request, self.representation
        ) as opened:
            if isinstance(opened, Failure):
                failure = opened
            else:
                self.feed(Opened(op))
                self._connection = opened
                try:
                    failure = await self._follow(op, opened)
                finally:
                    self._connection = None
        self._end(op, Closed(op, failure))

    async def _follow(self, op: int, connection: Connection) -> Failure:
        """Passes on what an open watch brings, and returns why it ended."""
        lines = LineSplitter(self._question.longest_line)
        while not isinstance(arrived := await connection.read(), Failure):
            received, chunk = arrived
            self._heard(len(chunk))
            try:
                block = lines.feed(chunk)
            except LineTooLong:
                return because(Reason.OVERSIZE)
            if block:
                self.feed(Received(op, decode(block), received, len(chunk)))
        return because(Reason.EARLY_EOF) if arrived is ENDED and lines.partial else arrived

    def _end(self, op: int, happened: Listed | Closed) -> None:
        self._requests.pop(op, None)
        if isinstance(happened, Closed) and happened.failure.action is Action.FALL_BACK:
            self.representation = self.representation.simpler
        self.feed(happened)
