"""The words that the machine and its driver exchange: requests, inputs, outputs and facts.

An op names one request, a list or a watch, from `Start` to `Closed` or `Cancel`. `now` and `received` are monotonic
seconds, revisions are integers; None stands for a revision that is none. What is made anew for every chunk is a msgspec
struct, because a frozen dataclass costs six times as much to make.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from watchslo.watch.decode import Frames
from watchslo.watch.failure import Failure, Phase, Reason


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A list: consistent, without a resourceVersion, or whatever the apiserver's cache holds.

    `absent_name` selects a name that no object has.
    """

    limit: int | None = None
    continue_token: str | None = None
    absent_name: bool = False
    from_cache: bool = False


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A watch of all that came after `revision`, for `timeout` whole seconds.

    Without a revision it begins with all objects there are: a streamed list, which ends at a bookmark that says so.
    """

    revision: int | None
    timeout: int
    bookmarks: bool = True


# Inputs: what happened.


@dataclass(frozen=True, slots=True)
class Begin:
    """Start, or go on after a halt."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Which objects were listed, as columns; uids and revisions are as the apiserver writes them."""

    uids: Sequence[str | None]
    revisions: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list, or a page of it, was answered: `items` objects in `size` bytes; `objects` where an inventory is kept."""

    op: int
    revision: int | None
    items: int
    size: int
    continue_token: str | None = None
    objects: Objects | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The headers of a watch have come, with status 200."""

    op: int


class Received(msgspec.Struct, frozen=True):
    """A chunk of `size` bytes arrived at `received` and completed these frames."""

    op: int
    frames: Frames
    received: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class Closed:
    """A request ended without an answer, or a watch did."""

    op: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of the last `WakeAt` has come."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close the watch, if there is one, and resume it: the way to the apiserver has changed."""

    reason: Reason = Reason.RELOAD


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget every revision: the storage went back to an earlier state."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Close everything and rest until `Begin`."""

    reason: Reason = Reason.SHUTDOWN


Input = Begin | Listed | Opened | Received | Closed | Woken | Reopen | Reset | Halt


# Outputs: what to do.


@dataclass(frozen=True, slots=True)
class Start:
    """Send this request and report on it under this op."""

    op: int
    request: ListRequest | WatchRequest


@dataclass(frozen=True, slots=True)
class Cancel:
    """Drop this request; whatever it still brings is ignored."""

    op: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Woken` at this time. There is one alarm: a later `WakeAt` replaces it."""

    time: float


class Batch(msgspec.Struct, frozen=True):
    """Live events of one chunk, as columns in the order of their arrival; `created` where metadata came along."""

    received: float
    revisions: list[int]
    types: list[str]
    created: list[str | None]


class Emit(msgspec.Struct, frozen=True):
    """Live events, each newer than all before it."""

    batch: Batch


# Facts: what is worth counting or telling.


class RelistReason(StrEnum):
    """Why a stream had to start over; a label of the metrics."""

    START = "start"
    EXPIRED = "expired"
    ERRORS = "errors"
    DOMAIN_RESET = "domain_reset"
    INVENTORY = "inventory"


@dataclass(frozen=True, slots=True)
class Relisted:
    """A list has become necessary; said once until it is done, however often it fails.

    For an inventory the list runs beside the watch, which goes on.
    """

    reason: RelistReason


@dataclass(frozen=True, slots=True)
class ListDone:
    """All of a list is there, `took` seconds after it was asked for, by the strategy that was used in the end."""

    strategy: str
    revision: int
    items: int
    size: int
    pages: int
    took: float


@dataclass(frozen=True, slots=True)
class ListFailed:
    """A list, or a page of it, has no answer."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class WatchOpened:
    """The headers came `took` seconds after the request."""

    took: float


@dataclass(frozen=True, slots=True)
class WatchClosed:
    """A watch ended `lived` seconds after it opened; None: it never opened."""

    failure: Failure
    lived: float | None


@dataclass(frozen=True, slots=True)
class Expired:
    """410, and where it came."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class BookmarkSeen:
    """A bookmark that was in order."""

    revision: int


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Events that were not newer than those before them: not emitted."""

    count: int


@dataclass(frozen=True, slots=True)
class Unparsable:
    """Events whose revision is no number: not emitted."""

    count: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """Lines that were no events."""

    count: int


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """A list was answered from the past: `back` revisions short of the least that is acceptable."""

    back: int


@dataclass(frozen=True, slots=True)
class FellBack:
    """The apiserver streams no lists: the list comes in pages."""


@dataclass(frozen=True, slots=True)
class InitialEvents:
    """Events of a streamed list: objects that were there, not changes."""

    count: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes after one revision and up to another were never told: the stream was blind for so many seconds."""

    after: int
    until: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Unseen:
    """What the inventory found in a gap: objects that changed, came and went, and no event told."""

    changed: int
    created: int
    deleted: int


@dataclass(frozen=True, slots=True)
class GaveUp:
    """There is nothing to watch, for this reason; it is looked for again from time to time."""

    failure: Failure


Fact = (
    Relisted
    | ListDone
    | ListFailed
    | WatchOpened
    | WatchClosed
    | Expired
    | BookmarkSeen
    | OutOfOrder
    | Unparsable
    | Garbage
    | TimeTravel
    | FellBack
    | InitialEvents
    | Gap
    | Unseen
    | GaveUp
)


@dataclass(frozen=True, slots=True)
class Note:
    """Count or log this."""

    fact: Fact


Output = Start | Cancel | WakeAt | Emit | Note
