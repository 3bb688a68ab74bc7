"""One open watch: what is on its way to a client, in order."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from watchslo.sim import status
from watchslo.sim.delay import Law
from watchslo.sim.kinds import Object
from watchslo.sim.link import Link
from watchslo.sim.query import Scope
from watchslo.sim.store import Change, Log
from watchslo.sim.wire import Form, Representation, error_event

BOOKMARK_EVERY = 60.0
BOOKMARK_BEFORE_DEADLINE = 2.0
"""Seconds, as in kube-apiserver's cacher."""

_TIMER = 0.01
"""Seconds by which a timer may be early: a bookmark that near is the one just sent."""

_OPENING = "opening"

_PORTION = 200
"""Lines: few enough that other streams are served between two portions."""


class Wire(Protocol):
    """The body of an answer that has no end."""

    def write(self, data: bytes) -> None: ...

    def backlog(self) -> int:
        """Bytes that the client has not taken yet."""

    def abort(self) -> None:
        """Cut the connection."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a watch starts with: objects as they are, or changes that the client has missed, or the refusal to.

    `after` is the revision after which events are live; `end` is the one to say the initial events ended at. One that
    is `over` has no beginning: it ends at once, without a word.
    """

    after: int
    objects: tuple[Object, ...] = ()
    missed: tuple[Change, ...] = ()
    end: int | None = None
    refusal: status.StatusError | None = None
    over: bool = False

    @property
    def reached(self) -> int:
        """The revision that a client knows who has taken all of this."""
        return self.missed[-1].revision if self.missed else self.after


@dataclass(frozen=True, slots=True)
class Request:
    """What a client wants to watch. `deadline` is monotonic seconds."""

    scope: Scope
    representation: Representation
    bookmarks: bool
    deadline: float


Frames = dict[tuple[Representation, bool], bytes]
"""One change as bytes, in each representation that a stream has asked for, with and without a table's head."""


class Stream:
    """An open watch. It is silent until `start`, and over when `done` is set.

    `bookmark` says the revision that a bookmark would carry, if there can be one. The stream closes itself when its
    client does not keep up: more than `backlog` bytes wait.
    """

    def __init__(
        self,
        number: int,
        request: Request,
        beginning: Beginning,
        bookmark: Callable[[], int | None],
        law: Callable[[], Law],
        random: Random,
        wall: Callable[[], float],
        sends: Log,
        backlog: int,
    ) -> None:
        self.number = number
        self.request = request
        self.done = asyncio.Event()
        self._beginning = beginning
        self._bookmark = bookmark
        self._wall = wall
        self._sends = sends
        self._backlog = backlog
        self._wire: Wire | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._losing = False
        scope = request.scope
        self._missed = [(kind, change) for change in beginning.missed if (kind := scope.transition(change))]
        opens = bool(beginning.objects or self._missed or beginning.end is not None)
        # Only the first event of all says what a table's columns are.
        self._head = request.representation.form is Form.TABLE and not opens
        self._link: Link[tuple[int, bytes]] = Link(law, random, self._deliver)
        self._link.set_hold(_OPENING, held=True)

    def beginning(self) -> Iterator[tuple[list[int], bytes]]:
        """The lines to send before `start`, in portions: the revisions that are missed events, and the bytes."""
        representation, refusal = self.request.representation, self._beginning.refusal
        if refusal:
            yield [], error_event(refusal)
        if refusal or self._beginning.over:
            self.close()
            return
        head = representation.form is Form.TABLE
        revisions: list[int] = []
        lines: list[bytes] = []
        for revision, kind, obj in self._opening_events():
            lines.append(representation.event(kind, obj, self._wall(), head=head))
            head = False
            if revision:
                revisions.append(revision)
            if len(lines) == _PORTION:
                yield revisions, b"".join(lines)
                revisions, lines = [], []
        if self._beginning.end is not None:
            lines.append(representation.bookmark(self._beginning.end, self._wall(), head=head, end_of_initial=True))
        if lines:
            yield revisions, b"".join(lines)

    def sent(self, revisions: Iterable[int], now: float) -> None:
        """Note that these events have just been sent."""
        for revision in revisions:
            self._sends.append(now, revision, self.number)

    def start(self, wire: Wire) -> None:
        """Send what is live from now on."""
        self._wire = wire
        self._link.set_hold(_OPENING, held=False)
        if self.request.bookmarks:
            self._plan_bookmark()

    def offer(self, change: Change, frames: Frames) -> None:
        """Take a change that has happened, if it is one of this stream's."""
        if change.revision <= self._beginning.after:
            return
        kind = self.request.scope.transition(change)
        if kind and self._losing:
            self._losing = False
        elif kind:
            self._link.push((change.revision, self._frame(kind, change, frames)))

    def lose(self) -> None:
        """Never deliver the next event."""
        self._losing = True

    def hold(self, *, held: bool) -> None:
        """Let nothing pass, or let it pass again."""
        self._link.set_hold("fault", held=held)

    def inject(self, line: bytes) -> None:
        """Send what does not belong there."""
        if self._wire:
            self._write(self._wire, line)

    def fail(self, error: status.StatusError) -> None:
        """Say why it cannot go on, and end."""
        self.inject(error_event(error))
        self.close()

    def cut(self) -> None:
        if self._wire:
            self._wire.abort()
        self.close()

    def close(self) -> None:
        """End cleanly, without a word; what is on its way is lost."""
        self._link.close()
        if self._timer:
            self._timer.cancel()
        self.done.set()

    def _opening_events(self) -> Iterator[tuple[int, str, Object]]:
        """Revision (0 for what is no event, but there already), type and object."""
        for obj in self._beginning.objects:
            yield 0, "ADDED", obj
        for kind, change in self._missed:
            yield change.revision, kind, _as_seen(kind, change)

    def _frame(self, kind: str, change: Change, frames: Frames) -> bytes:
        representation, head = self.request.representation, self._take_head()
        if kind != change.type:
            return representation.event(kind, _as_seen(kind, change), self._wall(), head=head)
        frame = frames.get((representation, head))
        if frame is None:
            frame = representation.event(kind, change.object, self._wall(), head=head)
            frames[representation, head] = frame
        return frame

    def _take_head(self) -> bool:
        head, self._head = self._head, False
        return head

    def _deliver(self, items: list[tuple[int, bytes]]) -> None:
        assert self._wire is not None
        self.sent((revision for revision, _ in items if revision), time.monotonic())
        self._write(self._wire, b"".join(frame for _, frame in items))

    def _write(self, wire: Wire, data: bytes) -> None:
        wire.write(data)
        if wire.backlog() > self._backlog:
            self.close()

    def _plan_bookmark(self) -> None:
        now = time.monotonic()
        due = min(now + BOOKMARK_EVERY, self.request.deadline - BOOKMARK_BEFORE_DEADLINE)
        if due > now + _TIMER:
            self._timer = asyncio.get_running_loop().call_later(due - now, self._send_bookmark)

    def _send_bookmark(self) -> None:
        revision = self._bookmark()
        if revision is not None and revision > self._beginning.reached:  # else it is no news, as kube-apiserver has it
            frame = self.request.representation.bookmark(revision, self._wall(), head=self._take_head())
            self._link.push((0, frame))
        self._plan_bookmark()


def _as_seen(kind: str, change: Change) -> Object:
    """The object of an event that selectors have changed: one that ceases to match is shown as it was before."""
    if kind != "DELETED" or change.previous is None:
        return change.object
    previous = change.previous
    return {**previous, "metadata": {**previous["metadata"], "resourceVersion": str(change.revision)}}
