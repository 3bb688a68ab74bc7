"""Runs a watch machine: sends the requests it asks for, feeds it their results, and wakes it in time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Resource
from watchslo.snapshot import TransportReading
from watchslo.watch.decode import FRAME, FrameDecoder, Frames
from watchslo.watch.failure import ENDED, Action, Failure, Reason, because
from watchslo.watch.lines import LineTooLong
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
    Reset,
    Sent,
    Start,
    WakeAt,
    WatchRequest,
    Woken,
)


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """What is watched: a resource, in one namespace or in all, by selectors; `longest_line` is in bytes."""

    resource: Resource
    namespace: str | None
    selectors: Selectors
    longest_line: int


class Driver:
    """Runs `machine` against the apiserver of `client`.

    `emit` receives its live events, `note` its facts, `heard` the size of every chunk in bytes, and `listed`
    the first page of every consistent list. `find_oldest` returns the revision for a strategy that begins in the past;
    its argument is a revision that expired, if there was one. `seen` gets the arrival and the frames of each chunk, as
    `decoder` decodes them, before the machine does. `representation` falls back to a simpler one if the
    apiserver does not support it.
    """

    def __init__(
        self,
        machine: Machine,
        client: Client,
        target: WatchTarget,
        representation: Representation,
        *,
        emit: Callable[[Batch], None],
        note: Callable[[Fact], None],
        heard: Callable[[int], None],
        listed: Callable[[Page], object] = lambda _: None,
        find_oldest: Callable[[int | None], Awaitable[int | Failure]] | None = None,
        seen: Callable[[float, Frames], None] | None = None,
        decoder: FrameDecoder = FRAME,
    ) -> None:
        self.machine = machine
        self.representation = representation
        self._client = client
        self._target = target
        self._emit = emit
        self._note = note
        self._heard = heard
        self._listed = listed
        self._find_oldest = find_oldest
        self._seen = seen
        self._decoder = decoder
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._response: WatchResponse | None = None
        self._was_open = False
        self._alarm: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Run until halted; raise an ExceptionGroup of what `emit`, `note` and `heard` raise."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.feed(Begin())
                await self._over
        finally:
            self._set_alarm(None)

    def halt(self, reason: Reason) -> None:
        """Cancel all requests; `run` returns."""
        self.feed(Halt(reason))
        if not self._over.done():
            self._over.set_result(None)

    def begin_again(self, representation: Representation) -> None:
        """Begin again at the present revision, in another representation."""
        self.representation = representation
        self.feed(Reset(Reason.SUPERSEDED))

    def feed(self, happened: Input) -> None:
        """Feed the machine an input, after everything that was received before it, and carry out its outputs."""
        if self._response is not None and not isinstance(happened, Received):
            self._response.catch_up()
        for output in self.machine.receive(happened, time.monotonic()):
            self._execute(output)

    def transport(self) -> TransportReading | None:
        """Return what the kernel knows of the connection of the open watch; None if none is open."""
        return self._response.transport() if self._response else None

    def _execute(self, output: Output) -> None:
        match output:
            case Emit():  # the most frequent output: a pattern that unpacks it would cost more than the rest
                self._emit(output.batch)
            case Note(fact):
                self._note(fact)
            case Start(op, ListRequest(oldest=True)):
                self._requests[op] = self._tasks.create_task(self._search(op))
            case Start(op, ListRequest() as request):
                self._requests[op] = self._tasks.create_task(self._list(op, request))
            case Start(op, WatchRequest() as request):
                self._requests[op] = self._tasks.create_task(self._watch(op, request))
            case Cancel(op):
                self._requests.pop(op).cancel()
            case WakeAt(at):
                self._set_alarm(at - time.monotonic())

    def _set_alarm(self, seconds: float | None) -> None:
        """Wake the machine after so many seconds, and not when it asked before: a task for this takes more memory."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._wake)

    def _wake(self) -> None:
        if self._over.done():
            return
        try:
            self.feed(Woken())
        except Exception as error:  # noqa: BLE001 - `run` raises it
            self._over.set_exception(error)

    async def _list(self, op: int, request: ListRequest) -> None:
        target = self._target
        answer = await self._client.list_page(
            target.resource,
            target.namespace,
            target.selectors,
            request,
            self.representation,
            with_objects=self.machine.inventory is not None,
            on_sent=lambda: self.feed(Sent(op)),
        )
        if isinstance(answer, Page) and not request.continue_token and request.is_consistent:
            self._listed(answer)
        match answer:
            case Page(revision=revision, items=items, size=size, continue_token=token, objects=objects):
                self._end(op, Listed(op, revision, items, size, token, objects))
            case failure:
                self._end(op, Closed(op, failure))

    async def _search(self, op: int) -> None:
        """Answer the request for the oldest revision, as if it were an empty list."""
        assert self._find_oldest is not None
        found = await self._find_oldest(self.machine.revision)
        self._end(op, Closed(op, found) if isinstance(found, Failure) else Listed(op, found, items=0, size=0))

    async def _watch(self, op: int, request: WatchRequest) -> None:
        target = self._target
        async with self._client.watch(
            target.resource,
            target.namespace,
            target.selectors,
            request,
            self.representation,
            resumes=self._was_open and request.revision is not None,
            on_sent=lambda: self.feed(Sent(op)),
        ) as opened:
            if isinstance(opened, Failure):
                failure = opened
            else:
                self._was_open = True
                self.feed(Opened(op))
                self._response = opened
                try:
                    failure = await self._follow(op, opened)
                finally:
                    self._response = None
        self._end(op, Closed(op, failure))

    async def _follow(self, op: int, response: WatchResponse) -> Failure:
        """Pass on what an open watch brings, and return why it ended."""
        reader = self.representation.frame_reader(self._target.longest_line, self._decoder)

        def take(received: float, chunk: bytes) -> None:
            self._heard(len(chunk))
            frames = reader.feed(chunk)
            if frames is not None:
                if self._seen is not None:
                    self._seen(received, frames)
                self.feed(Received(op, frames, received, len(chunk)))

        try:
            failure = await response.follow(take)
        except LineTooLong:
            return because(Reason.OVERSIZE)
        return because(Reason.EARLY_EOF) if failure is ENDED and reader.is_cut else failure

    def _end(self, op: int, happened: Listed | Closed) -> None:
        """Pass on how a request ended, unless what was received before has just made the machine cancel it."""
        if self._response is not None:
            self._response.catch_up()
        if self._requests.pop(op, None) is None:
            return
        if isinstance(happened, Closed) and happened.failure.action is Action.FALL_BACK:
            self.representation = self.representation.simpler
        self.feed(happened)
