"""One open watch: the events in transit to one client, in order. It writes only to that client's response body."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

from watchslo.sim import status
from watchslo.sim.delay_law import DelayLaw
from watchslo.sim.delayed_channel import DelayedChannel
from watchslo.sim.encoding import ObjectEncoder
from watchslo.sim.event_edits import BOOKMARK, EditLog, EditRecord, EventEdit, EventEditor, WatchEvent, bookmark_event
from watchslo.sim.kinds import Object
from watchslo.sim.query import ObjectSelector
from watchslo.sim.store import RevisionLog, StoredChange

BOOKMARK_INTERVAL_SECONDS = 60.0
BOOKMARK_LEAD_SECONDS = 2.0
"""How long before the deadline the last bookmark is sent. Both values are those of kube-apiserver's cacher."""

BOOKMARK_AFTER_LIST_SECONDS = 1.0
"""From a streamed list to the next bookmark: the cacher sends due bookmarks about once a second; this one is due."""

_TIMER_TOLERANCE_SECONDS = 0.01
"""A timer may fire early: a bookmark due this soon is the one just sent."""

_NOT_STARTED = "not started"
"""The reason to hold the channel until `start`."""

_MAX_BACKLOG_BYTES = 4 << 20
"""More bytes that wait for a slow client make the apiserver close its watch."""

_LINES_PER_PORTION = 200
"""Few enough that the event loop serves other watches between two portions."""


class ResponseBody(Protocol):
    """The body of a response without an end."""

    def write(self, data: bytes) -> None: ...

    def backlog(self) -> int:
        """Return the number of bytes that the client has not received yet."""

    def abort(self) -> None:
        """Cut the connection."""


@dataclass(frozen=True, slots=True)
class WatchStart:
    """What a watch sends before live events: current objects, missed changes, or a refusal.

    Events after the revision `after` are live. `end` is the revision of the bookmark that ends the initial events. A
    watch whose start is `over` ends at once and sends nothing. A watch that `resumes` does so from a revision that
    its client has named, without the current objects.
    """

    after: int
    objects: tuple[Object, ...] = ()
    missed: tuple[StoredChange, ...] = ()
    end: int | None = None
    refusal: status.StatusError | None = None
    over: bool = False
    resumes: bool = False

    @property
    def reached(self) -> int:
        """The revision that a client has reached once it has received all of this."""
        return self.missed[-1].revision if self.missed else self.after


@dataclass(frozen=True, slots=True)
class WatchParameters:
    """The parameters of a watch request. `deadline` is monotonic seconds.

    `bookmarks` is True if the client has requested bookmarks and the resource has a watch cache, which sends them.
    """

    resource: str
    selector: ObjectSelector
    encoder: ObjectEncoder
    bookmarks: bool
    deadline: float


@dataclass(frozen=True, slots=True)
class WatchEnvironment:
    """What the cluster provides to a watch.

    `bookmark` returns the revision of a bookmark, or None if the resource has none. `law` returns the delay law of
    events to the client. `sends` records the times of sent events, and `edits` what faults changed.
    """

    bookmark: Callable[[], int | None]
    law: Callable[[], DelayLaw]
    random: Random
    sends: RevisionLog
    edits: EditLog


EncodedEvents = dict[ObjectEncoder, bytes]
"""One change as bytes, for each encoder in use."""


class WatchConnection:
    """An open watch. It sends no live events before `start`, and has ended once `done` is set.

    The watch closes itself if its client does not keep up. `first_edits` change the first events, missed or live.
    """

    def __init__(
        self,
        number: int,
        parameters: WatchParameters,
        start: WatchStart,
        environment: WatchEnvironment,
        first_edits: Mapping[str, EventEdit],
    ) -> None:
        self.number = number
        self.done = asyncio.Event()
        self._parameters = parameters
        self._start = start
        self._environment = environment
        self._body: ResponseBody | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._editor = EventEditor(self._record_edit)
        for name, edit in first_edits.items():
            self._editor.arm(name, edit)
        self._missed = [sent for change in start.missed for sent in self._events_of(change)]
        self._channel: DelayedChannel[tuple[int, bytes]] = DelayedChannel(
            environment.law, environment.random, self._deliver
        )
        self._channel.set_hold(_NOT_STARTED, held=True)

    def initial_lines(self) -> Iterator[tuple[list[int], bytes]]:
        """Yield the lines to send before `start`, in portions: the revisions of missed events, and the bytes."""
        encoder, refusal = self._parameters.encoder, self._start.refusal
        if refusal:
            yield [], encoder.error_event(refusal)
        if refusal or self._start.over:
            self.close()
            return
        revisions: list[int] = []
        lines: list[bytes] = []
        for event in self._initial_events():
            lines.append(encoder.event(event.type, event.content))
            if event.revision:
                revisions.append(event.revision)
            if len(lines) == _LINES_PER_PORTION:
                yield revisions, b"".join(lines)
                revisions, lines = [], []
        if self._start.end is not None:
            lines.append(encoder.initial_events_end(self._start.end))
        if lines:
            yield revisions, b"".join(lines)

    def record_sent(self, revisions: Iterable[int], now: float) -> None:
        """Record that the events of these revisions have just been sent."""
        for revision in revisions:
            self._environment.sends.append(now, revision, self.number)

    def start(self, body: ResponseBody) -> None:
        """Start to send live events to a response body."""
        self._body = body
        self._channel.set_hold(_NOT_STARTED, held=False)
        if self._parameters.bookmarks:
            is_streamed = self._start.end is not None
            self._schedule_bookmark(BOOKMARK_AFTER_LIST_SECONDS if is_streamed else BOOKMARK_INTERVAL_SECONDS)

    def offer(self, change: StoredChange, encoded: EncodedEvents) -> None:
        """Queue a new change if this watch selects it; `encoded` caches its bytes for other watches."""
        if change.revision <= self._start.after:
            return
        for event in self._events_of(change):
            is_shared = event.content is change.object and event.type == change.type
            self._push(event, encoded if is_shared else {})

    @property
    def has_bookmarks(self) -> bool:
        """True if this watch sends bookmarks."""
        return self._parameters.bookmarks

    def edit(self, name: str, edit: EventEdit) -> None:
        """Edit the next events, by a fault of this name, unless its last edit has not ended yet."""
        self._editor.arm(name, edit)

    def end_edit(self, name: str) -> None:
        """End the edit by the fault of this name, and send the events that it withholds."""
        for event in self._editor.disarm(name):
            self._push(event, {})

    def hold(self, *, held: bool) -> None:
        """Hold or release all events of the watch."""
        self._channel.set_hold("fault", held=held)

    def inject(self, line: bytes) -> None:
        """Send a line at once, ahead of the events in transit."""
        self._send_at_once(self._parameters.encoder.stray(line))

    def fail(self, error: status.StatusError) -> None:
        """Send an error event and end the watch."""
        self._send_at_once(self._parameters.encoder.error_event(error))
        self.close()

    def cut(self) -> None:
        """Cut the connection."""
        if self._body:
            self._body.abort()
        self.close()

    def close(self) -> None:
        """End the watch cleanly, without an error event; events in transit are lost."""
        self._channel.close()
        if self._timer:
            self._timer.cancel()
        self.done.set()

    def _initial_events(self) -> Iterator[WatchEvent]:
        """Yield the event of each initial line, with revision 0 for an object that is not an event."""
        for obj in self._start.objects:
            yield WatchEvent("ADDED", 0, obj)
        yield from self._missed

    def _events_of(self, change: StoredChange) -> list[WatchEvent]:
        """Return the events to send now that this change is due; none if this watch does not select it."""
        kind = self._parameters.selector.transition(change)
        return self._editor.edited(WatchEvent(kind, change.revision, _object_shown(kind, change))) if kind else []

    def _record_edit(self, fault: str, revision: int) -> None:
        record = EditRecord(time.monotonic(), self._parameters.resource, self.number, fault, revision)
        self._environment.edits.append(record)

    def _push(self, event: WatchEvent, encoded: EncodedEvents) -> None:
        """Queue an event; `encoded` caches its bytes."""
        encoder = self._parameters.encoder
        if encoder not in encoded:
            encoded[encoder] = encoder.event(event.type, event.content)
        self._channel.push((0 if event.type == BOOKMARK else event.revision, encoded[encoder]))

    def _deliver(self, items: list[tuple[int, bytes]]) -> None:
        assert self._body is not None
        self.record_sent((revision for revision, _ in items if revision), time.monotonic())
        self._write(self._body, b"".join(line for _, line in items))

    def _send_at_once(self, data: bytes) -> None:
        if self._body:
            self._write(self._body, data)

    def _write(self, body: ResponseBody, data: bytes) -> None:
        body.write(data)
        if body.backlog() > _MAX_BACKLOG_BYTES:
            self.close()

    def _schedule_bookmark(self, wait: float) -> None:
        now = time.monotonic()
        due = min(now + wait, self._parameters.deadline - BOOKMARK_LEAD_SECONDS)
        if due > now + _TIMER_TOLERANCE_SECONDS:
            self._timer = asyncio.get_running_loop().call_later(due - now, self._send_bookmark)

    def _send_bookmark(self) -> None:
        revision = self._environment.bookmark()
        # kube-apiserver sends no bookmark below what the watch has reached, or above an event that it has yet to send.
        if revision is not None and revision > self._start.reached and not self._editor.withholds:
            self._push(bookmark_event(revision), {})
        self._schedule_bookmark(BOOKMARK_INTERVAL_SECONDS)


def _object_shown(kind: str, change: StoredChange) -> Object:
    """Return the object of an event; one that ceases to match a selector is shown as it was before the change."""
    if kind == change.type or kind != "DELETED" or change.previous is None:
        return change.object
    previous = change.previous
    return {**previous, "metadata": {**previous["metadata"], "resourceVersion": str(change.revision)}}
