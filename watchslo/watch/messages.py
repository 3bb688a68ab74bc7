"""The messages between the machine and its driver: requests, inputs, outputs and facts.

An `op` identifies one request, a list or a watch, from `Start` to `Closed` or `Cancel`. `now` and `received` are
monotonic seconds. Revisions are integers, or None if the resourceVersion is not a number. Messages that are created
for every chunk are msgspec structs, because a frozen dataclass takes six times as long to create.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import Frames
from watchslo.watch.failure import Failure, Phase, Reason


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A list: consistent (without a resourceVersion), or `from_cache`, as the apiserver's watch cache is now.

    With `not_older_than` it may be older than a consistent one, but not than this revision; `states_match` says so by a
    resourceVersionMatch, without which a limit would mean exactly this revision. `absent_name` selects a name that no
    object has, so the list is empty. `absent_namespace` replaces all namespaces by one that does not exist, and has no
    selectors. `oldest` asks instead for the oldest revision that a watch may begin from; no single request answers
    that.
    """

    limit: int | None = None
    continue_token: str | None = None
    absent_name: bool = False
    absent_namespace: bool = False
    from_cache: bool = False
    oldest: bool = False
    not_older_than: int | None = None
    states_match: bool = False

    @property
    def is_consistent(self) -> bool:
        """Return True if the answer shows everything that was committed before the request."""
        return not self.from_cache and self.not_older_than is None

    @property
    def for_revision(self) -> bool:
        """Return True if nothing but the revision of the answer is used."""
        return self.absent_name or self.absent_namespace


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A watch of all changes after `revision`, for `timeout` whole seconds.

    Without a revision it begins with all existing objects: a streamed list, which a marked bookmark ends.
    """

    revision: int | None
    timeout: int
    bookmarks: bool = True


# Inputs: what happened.


@dataclass(frozen=True, slots=True)
class Begin:
    """Start, or continue after a halt."""


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """The listed objects as columns; uids and revisions are as the apiserver writes them."""

    uids: Sequence[str | None]
    revisions: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request has waited for its turn in this process, and is sent."""

    op: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A list, or a page of it, was answered: `items` objects in `size` bytes; `objects` for an inventory."""

    op: int
    revision: int | None
    items: int
    size: int
    continue_token: str | None = None
    objects: ListedObjects | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The headers of a watch arrived, with status 200."""

    op: int


class Received(msgspec.Struct, frozen=True):
    """A chunk of `size` bytes arrived at `received` and completed these frames."""

    op: int
    frames: Frames
    received: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class Closed:
    """A request failed, or a watch ended."""

    op: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of the last `WakeAt` was reached."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Close the watch, if there is one, and resume it, for example with new credentials."""

    reason: Reason = Reason.RELOAD


@dataclass(frozen=True, slots=True)
class Hasten:
    """The apiserver answers again: try soon what waits because it did not."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget every revision: the storage went back to an earlier state, or the watch begins again in another form."""

    reason: Reason = Reason.DOMAIN_RESET


@dataclass(frozen=True, slots=True)
class Halt:
    """Cancel all requests and wait for `Begin`."""

    reason: Reason = Reason.SHUTDOWN


Input = Begin | Sent | Listed | Opened | Received | Closed | Woken | Reopen | Hasten | Reset | Halt


# Outputs: what to do.


@dataclass(frozen=True, slots=True)
class Start:
    """Send this request, and report its outcome with this op."""

    op: int
    request: ListRequest | WatchRequest


@dataclass(frozen=True, slots=True)
class Cancel:
    """Drop this request; later inputs for it are ignored."""

    op: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Woken` at this time. There is one alarm: a later `WakeAt` replaces it."""

    time: float


class Batch(msgspec.Struct, frozen=True):
    """Live events of one chunk, as columns in the order of arrival; `created` is None without object metadata."""

    received: float
    revisions: list[int]
    types: list[str]
    created: list[str | None]


class Emit(msgspec.Struct, frozen=True):
    """Live events, each newer than all events before it."""

    batch: Batch


# Facts: what is counted and logged.


class RelistReason(StrEnum):
    """Why a watch needs a list; a label of the metrics."""

    START = "start"
    EXPIRED = "expired"
    ERRORS = "errors"
    DOMAIN_RESET = "domain_reset"
    INVENTORY = "inventory"


@dataclass(frozen=True, slots=True)
class Relisted:
    """A list is needed. This is noted once, also if the list fails several times.

    A list for an inventory runs in parallel to the watch.
    """

    reason: RelistReason


@dataclass(frozen=True, slots=True)
class ListDone:
    """A list is complete, `took` seconds after its first request; `strategy` is the one that was used.

    `took` does not contain what its requests waited in this process.
    """

    strategy: str
    revision: int
    items: int
    size: int
    pages: int
    took: float


@dataclass(frozen=True, slots=True)
class ListFailed:
    """A list by this strategy, or a page of it, failed."""

    failure: Failure
    strategy: str


@dataclass(frozen=True, slots=True)
class WatchQueued:
    """The request for a watch waited in this process from `since` to `until`."""

    since: float
    until: float


@dataclass(frozen=True, slots=True)
class WatchOpened:
    """The headers of a watch arrived `took` seconds after its request was sent."""

    took: float


@dataclass(frozen=True, slots=True)
class WatchClosed:
    """A watch ended `lived` seconds after it opened, or None if it never opened."""

    failure: Failure
    lived: float | None


@dataclass(frozen=True, slots=True)
class Expired:
    """The apiserver answered 410 in this phase."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class BookmarkSeen:
    """A bookmark arrived in order."""

    revision: int


@dataclass(frozen=True, slots=True)
class TypesChecked:
    """The types of so many emitted events were compared with the known objects."""

    count: int


@dataclass(frozen=True, slots=True)
class Violated:
    """So many events or bookmarks broke a guarantee; they had revisions in this range.

    Events of a wrong type were emitted all the same, the others were not.
    """

    guarantee: Guarantee
    count: int
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Unparsable:
    """Events that were not emitted, because their revision is not a number."""

    count: int


@dataclass(frozen=True, slots=True)
class Garbage:
    """Lines that were not events."""

    count: int


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """A list was refused as stale: it is `back` revisions older than the oldest acceptable one."""

    back: int


@dataclass(frozen=True, slots=True)
class FellBack:
    """A list uses the fallback of its strategy: such lists are refused, stay silent, or failed too often."""


@dataclass(frozen=True, slots=True)
class InitialEvents:
    """Events of a streamed list that describe existing objects and not changes."""

    count: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes after revision `after` and up to `until` were missed: the watch was blind for `seconds`."""

    after: int
    until: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Unseen:
    """What the inventory found after a gap: objects that changed, were created or deleted without an event."""

    changed: int
    created: int
    deleted: int


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The resource cannot be watched, for this reason; the request is repeated from time to time."""

    failure: Failure


Fact = (
    Relisted
    | ListDone
    | ListFailed
    | WatchQueued
    | WatchOpened
    | WatchClosed
    | Expired
    | BookmarkSeen
    | TypesChecked
    | Violated
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
