"""Whatever a watch sends, the events around it are delivered; garbage is neither an event nor a broken guarantee."""

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.garbled import garbled, may_be_an_event, replacements
from watchslo.snapshot import Guarantee
from watchslo.watch.decode import LARGEST_REVISION, FrameReader, decode
from watchslo.watch.failure import LONGEST_RETRY_AFTER_SECONDS, Failure
from watchslo.watch.inventory import Inventory
from watchslo.watch.lines import LineTooLong
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Begin,
    BookmarkSeen,
    Emit,
    Fact,
    Garbage,
    Input,
    Listed,
    Note,
    Opened,
    Received,
    Start,
    TimeTravel,
    Unparsable,
    Violated,
    WakeAt,
    WatchClosed,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import STREAM, TAIL
from watchslo.watch.transitions import State

LISTED = 100
LONGEST_LINE = 200_000
FEW_STEPS = 10
TABLE = (
    b'{"type":"MODIFIED","object":{"kind":"Table","metadata":{"resourceVersion":"%d"},"columnDefinitions":null,'
    b'"rows":[{"cells":["web",1],"object":null}]}}'
)
OBJECT = (
    b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"web","uid":"a","resourceVersion":"%d",'
    b'"creationTimestamp":"2026-11-21T11:58:25Z"},"spec":{"replicas":2}}}'
)
DELETED = b'{"type":"DELETED","object":{"kind":"Pod","metadata":{"uid":"b","resourceVersion":"%d"}}}'
BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"%d","creationTimestamp":null,'
    b'"annotations":{"a":"b"}},"rows":[{"object":null}]}}'
)
END = BOOKMARK.replace(b'{"a":"b"}', b'{"k8s.io/initial-events-end":"true"}')
ERROR = (
    b'{"type":"ERROR","object":{"kind":"Status","metadata":{"continue":""},"message":"too old","reason":"Expired",'
    b'"details":{"causes":[{"reason":"x","field":"y"}],"retryAfterSeconds":1},"code":410}}'
)
CHANGES = (TABLE, OBJECT, DELETED)
FORMS = (*CHANGES, BOOKMARK)


class Watching:
    """A machine with an open watch, or one that streams its list, fed with bytes as they arrive."""

    def __init__(self, *, streams: bool = False, kept: bool = False) -> None:
        inventory = Inventory() if kept else None
        self.machine = Machine(STREAM if streams else TAIL, 500, Random(1).random, inventory=inventory)
        self.now = 0.0
        self.alarm = 0.0
        self.op = 0
        self.listed = LISTED - 1
        self.request: object = None
        self.emitted: list[int] = []
        self.facts: list[Fact] = []
        self.feed(Begin())
        self.open()

    def feed(self, happened: Input) -> None:
        for output in self.machine.receive(happened, self.now):
            match output:
                case Start(op, request):
                    self.op, self.request = op, request
                case WakeAt(at):
                    self.alarm = at
                case Emit(batch):
                    self.emitted += batch.revisions
                case Note(fact):
                    self.facts.append(fact)

    def open(self) -> None:
        """Answer the request well, so that a watch is open. Each list is newer than all before it."""
        self.reader = FrameReader(LONGEST_LINE)
        if not isinstance(self.request, WatchRequest):
            self.listed = max(self.listed + 1, self.machine.revision or 0)
            self.feed(Listed(self.op, self.listed, 0, 100))
        self.feed(Opened(self.op))

    def read(self, chunk: bytes) -> None:
        """Take a chunk; what comes after the watch was given up is not read."""
        if self.machine.state in (State.WATCHING, State.LISTING):
            frames = self.reader.feed(chunk)
            if frames is not None:
                self.feed(Received(self.op, frames, self.now, len(chunk)))

    def reopen(self) -> None:
        """Wait until the next request, and open the watch again."""
        self.now = max(self.now, self.alarm)
        self.feed(Woken())
        self.open()

    def of(self, *kinds: type[Fact]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kinds)]

    def count(self, kind: type[Garbage] | type[Unparsable]) -> int:
        return sum(fact.count for fact in self.of(kind))


def is_one_line(line: bytes) -> bool:
    return b"\n" not in line and line.strip(b" \t\r") != b""


ODD_LINES = sorted({odd for form in FORMS for odd in replacements(form % LISTED) if not may_be_an_event(odd)})
garbage_lines = (
    st.sampled_from(FORMS).flatmap(lambda form: garbled(form % LISTED))
    | st.binary(max_size=40)
    | st.sampled_from(ODD_LINES)
).filter(lambda line: is_one_line(line) and not may_be_an_event(line))


def cuts(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    """Cut a stream into chunks at any places."""
    places = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    return [stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[int], int, int]:
    """Return chunks, the revisions of their changes, their newest revision, and how many of their lines are garbage."""
    lines: list[bytes] = []
    revisions: list[int] = []
    revision, bad = LISTED, 0
    for form in draw(st.lists(st.none() | st.sampled_from(FORMS), min_size=1, max_size=12)):
        if form is None:
            lines.append(draw(garbage_lines))
            bad += 1
            continue
        revision += draw(st.integers(1, 3))
        lines.append(form % revision)
        if form is not BOOKMARK:
            revisions.append(revision)
    return cuts(draw, b"".join(line + b"\n" for line in lines)), revisions, revision, bad


@settings(max_examples=100)
@given(stream=streams(), kept=st.booleans())
def test_garbage_changes_nothing_for_the_events_around_it(
    stream: tuple[list[bytes], list[int], int, int], *, kept: bool
) -> None:
    chunks, revisions, newest, bad = stream
    watching = Watching(kept=kept)
    for chunk in chunks:
        watching.read(chunk)
    assert watching.emitted == revisions
    assert watching.machine.revision == newest
    violated = [one for one in watching.of(Violated) if one.guarantee is not Guarantee.TYPED]  # types are at random
    assert [*violated, *watching.of(TimeTravel, WatchClosed)] == []
    assert watching.count(Garbage) + watching.count(Unparsable) == bad


def test_each_odd_value_is_the_right_event_or_garbage() -> None:
    """An odd value in an object that is not decoded changes nothing; elsewhere it makes the line unusable."""
    for form in FORMS:
        for line in replacements(form % (LISTED + 1)):
            watching = Watching()
            watching.read(line + b"\n" + TABLE % (LISTED + 2) + b"\n")
            bad = watching.count(Garbage) + watching.count(Unparsable)
            taken = [*watching.emitted, *(fact.revision for fact in watching.of(BookmarkSeen))]
            assert sorted(taken) == [LISTED + 1, LISTED + 2][bad:], line[:200]
            assert watching.of(Violated, WatchClosed) == []


def test_each_odd_value_in_an_error_ends_the_watch_or_is_garbage() -> None:
    for line in replacements(ERROR):
        watching = Watching()
        watching.read(line + b"\n" + TABLE % (LISTED + 1) + b"\n")
        ends = [fact.failure for fact in watching.of(WatchClosed)]
        if ends:
            check_end(ends)
            assert watching.emitted == []
        else:
            assert watching.count(Garbage) == 1
            assert watching.emitted == [LISTED + 1]


def test_each_odd_value_in_a_streamed_list_is_harmless() -> None:
    """The list ends with the right revision, or continues until it is ended well, or is made again."""
    for form in (OBJECT, BOOKMARK, END):
        for line in replacements(form % LISTED):
            watching = Watching(streams=True)
            watching.read(line + b"\n")
            assert watching.machine.revision in (None, LISTED)
            assert watching.of(Violated, TimeTravel) == []
            while watching.machine.state not in (State.WATCHING, State.LISTING):
                watching.reopen()
            watching.read(END % (LISTED + 1) + b"\n" + OBJECT % (LISTED + 2) + b"\n")
            assert watching.machine.state is State.WATCHING
            assert watching.emitted == [LISTED + 2]


def check_end(ends: Sequence[Failure]) -> None:
    (failure,) = ends
    assert 0.0 <= (failure.retry_after or 0.0) <= LONGEST_RETRY_AFTER_SECONDS


any_line = st.one_of(
    st.sampled_from((*FORMS, END)).flatmap(
        lambda form: st.integers(LISTED - 5, LISTED + 40).flatmap(lambda at: garbled(form % at) | st.just(form % at))
    ),
    garbled(ERROR),
    st.binary(max_size=60),
)


@settings(max_examples=100)
@given(data=st.data(), listing=st.booleans(), kept=st.booleans())
def test_any_stream_leaves_a_machine_that_takes_the_next_good_event(
    data: st.DataObject, *, listing: bool, kept: bool
) -> None:
    lines = data.draw(st.lists(any_line, max_size=8))
    stream = b"".join(line + data.draw(st.sampled_from([b"\n", b"\n", b""])) for line in lines)
    watching = Watching(streams=listing, kept=kept)
    possible = {LISTED, *revisions_in(stream)}
    try:
        for chunk in data.draw(st.composite(cuts)(stream)):
            watching.read(chunk)
    except LineTooLong:
        pass
    assert watching.machine.revision is None or watching.machine.revision in possible
    assert {*watching.emitted} <= possible
    assert watching.emitted == sorted(watching.emitted)
    for _ in range(FEW_STEPS):
        if watching.machine.state not in (State.WATCHING, State.LISTING):
            watching.reopen()
    watching.reader = FrameReader(LONGEST_LINE)  # a cut line may be left
    newest = max(*possible, watching.listed) + 1
    assume(newest < LARGEST_REVISION)
    if watching.machine.state is State.LISTING:
        if isinstance(watching.request, WatchRequest):
            watching.read(END % newest + b"\n")
        else:
            watching.open()
    watching.read(OBJECT % (newest + 1) + b"\n")
    assert watching.machine.state is State.WATCHING
    assert watching.machine.revision == newest + 1
    assert watching.emitted[-1] == newest + 1


def revisions_in(stream: bytes) -> set[int]:
    """Return every number of a stream that may be read as a revision."""
    return {
        int(digits) for digits in re.findall(rb"(?=(?<!\d)(\d{1,19})(?!\d))", stream) if int(digits) <= LARGEST_REVISION
    }


@settings(max_examples=100)
@given(data=st.data())
def test_lines_are_read_alike_in_any_chunks(data: st.DataObject) -> None:
    lines = data.draw(st.lists(any_line.filter(lambda line: b"\n" not in line), max_size=6))
    block = b"".join(line + b"\n" for line in lines)
    alone = [decode(line + b"\n") for line in lines]
    reader = FrameReader(LONGEST_LINE)
    parts = [frames for chunk in data.draw(st.composite(cuts)(block)) if (frames := reader.feed(chunk))]
    assert [event for frames in parts for event in frames.events] == [
        event for frames in alone for event in frames.events
    ]
    assert sum(frames.garbage for frames in parts) == sum(frames.garbage for frames in alone)
