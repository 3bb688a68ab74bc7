"""A machine whose inputs are made by hand. Random numbers are 0.5: backoff waits 1.2, 2.4 ... s, watches last 450 s."""

from collections.abc import Callable, Sequence

import msgspec

from watchslo.watch.decode import (
    Added,
    Annotations,
    Bookmark,
    ChangedObject,
    Deleted,
    Frame,
    Frames,
    Mark,
    MarkMetadata,
    Modified,
    ObjectMetadata,
)
from watchslo.watch.failure import Failure, Phase, Reason, because, classify_status
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Begin,
    Closed,
    Emit,
    Halt,
    Input,
    Listed,
    ListedObjects,
    ListRequest,
    Note,
    Opened,
    Output,
    Received,
    Sent,
    Start,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import TAIL, Strategy, StreamedLists
from watchslo.watch.transitions import State

START_SECONDS = 1000.0
REVISION = 100
REFUSED = because(Reason.REFUSED)
NOT_FOUND = classify_status(404, None, None, Phase.OPEN)


class Run:
    """A machine with its own time, which remembers the last request, the last list and the last watch."""

    def __init__(
        self,
        strategy: Strategy = TAIL,
        *,
        inventory: Inventory | None = None,
        streaming: StreamedLists | None = None,
        random: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self.machine = Machine(strategy, 500, random, streaming=streaming, inventory=inventory)
        self.now = START_SECONDS
        self.op = self.list = self.watch = 0

    def feed(self, happened: Input, *, after: float = 0.0) -> list[Output]:
        self.now += after
        outputs = self.machine.receive(happened, self.now)
        for output in outputs:
            match output:
                case Start(op, ListRequest()):
                    self.op = self.list = op
                case Start(op, WatchRequest()):
                    self.op = self.watch = op
        return outputs

    @property
    def received(self) -> float:
        """When a chunk was received that the machine takes now."""
        return self.now - 0.001

    def page(self, revision: int | None = REVISION, token: str | None = None, **objects: int) -> list[Output]:
        shown = ListedObjects(list(objects), [str(at) for at in objects.values()])
        items, kept = len(objects) or 3, self.machine.inventory is not None
        return self.feed(Listed(self.list, revision, items, 200, token, shown if kept else None))

    def bring(self, *events: Frame, garbage: int = 0, size: int = 0) -> list[Output]:
        return self.feed(Received(self.watch, Frames(list(events), garbage), self.received, size))

    def wake(self, *, after: float) -> list[Output]:
        return self.feed(Woken(), after=after)


def change(
    kind: type[Added | Modified | Deleted],
    revision: object,
    created: str | None = None,
    uid: str | None = None,
    rows: bytes = b"",
) -> Frame:
    metadata = ObjectMetadata(_text(revision), creation_timestamp=created, uid=uid)
    return kind(object=ChangedObject(metadata=metadata, rows=msgspec.Raw(rows)))


def bookmark(revision: object, *, end: str | None = None) -> Frame:
    annotations = Annotations(initial_events_end=end)
    return Bookmark(object=Mark(metadata=MarkMetadata(_text(revision), annotations=annotations)))


def _text(revision: object) -> str | None:
    return None if revision is None else str(revision)


def listing(strategy: Strategy = TAIL) -> Run:
    run = Run(strategy)
    run.feed(Begin())
    return run


def opening(strategy: Strategy = TAIL) -> Run:
    run = listing(strategy)
    run.page()
    run.feed(Sent(run.op))
    return run


def watching(strategy: Strategy = TAIL) -> Run:
    run = opening(strategy)
    run.feed(Opened(run.op))
    return run


def _failed(run: Run, failure: Failure) -> Run:
    run.feed(Closed(run.op, failure))
    return run


def halted() -> Run:
    run = listing()
    run.feed(Halt())
    return run


IN: dict[State, Callable[[], Run]] = {
    State.NEW: Run,
    State.LISTING: listing,
    State.RELISTING: lambda: _failed(listing(), REFUSED),
    State.OPENING: opening,
    State.WATCHING: watching,
    State.REOPENING: lambda: _failed(opening(), REFUSED),
    State.AWAY: lambda: _failed(listing(), NOT_FOUND),
    State.HALTED: halted,
}
"""How to reach each state."""


def facts(outputs: Sequence[Output]) -> list[object]:
    return [output.fact for output in outputs if isinstance(output, Note)]


def emitted(outputs: Sequence[Output]) -> list[int]:
    return [revision for output in outputs if isinstance(output, Emit) for revision in output.batch.revisions]
