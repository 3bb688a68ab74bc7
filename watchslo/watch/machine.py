"""The list+watch protocol of one stream, without I/O: what happened goes in, what to do comes out.

States are named after what is under way, `TRANSITIONS` is the protocol. Three rules hold whatever the server does: the
revision never goes back, a revision that expired is not asked for again, and no failure is answered without a wait.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from watchslo.watch.backoff import Backoff
from watchslo.watch.decode import Bookmark, Error, parse_revision
from watchslo.watch.failure import Action, CloseClass, Failure, Phase, Reason, because, classify_stream_error
from watchslo.watch.messages import (
    Batch,
    Begin,
    BookmarkSeen,
    Cancel,
    Closed,
    Emit,
    Expired,
    Fact,
    Garbage,
    GaveUp,
    Halt,
    Input,
    ListDone,
    Listed,
    ListFailed,
    ListRequest,
    Note,
    Opened,
    OutOfOrder,
    Output,
    Received,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    Start,
    TimeTravel,
    Unparsable,
    WakeAt,
    WatchClosed,
    WatchOpened,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import Strategy

SHORTEST_WATCH_SECONDS = 300  # client-go: each watch ends at random after five to ten minutes,
LONGEST_WATCH_SECONDS = 600  # so that not all clients come back at once
DEADLINE_SLACK_SECONDS = 1.0  # a watch that closes this close to its timeout has run its full time
HEALTHY_SECONDS = 10.0  # a watch that lived for this long is resumed at once, and proves its revision good
ERRORS_AT_ONE_REVISION = 5  # after so many, the revision itself is the likeliest cause
SHORTEST_GAP_SECONDS = 1.0  # between a request and the one that replaces it on our own account


class State(StrEnum):
    """What is under way. A stream is up while it is `watching`."""

    NEW = "new"
    LISTING = "listing"
    RELISTING = "relisting"
    OPENING = "opening"
    WATCHING = "watching"
    REOPENING = "reopening"
    AWAY = "away"
    HALTED = "halted"


class Trigger(StrEnum):
    """What moves the machine from one state to the next."""

    BEGIN = "begin"
    PAGE = "page"
    LISTED = "listed"
    OPENED = "opened"
    RETRY = "retry"
    START_OVER = "start over"
    WAIT = "wait"
    WOKEN = "woken"
    HALT = "halt"


CONTRACTS: Mapping[State, str] = {
    State.NEW: "Nothing is known and nothing asked.",
    State.LISTING: "A list, or its next page, is asked for: it will tell a revision.",
    State.RELISTING: "No revision is of use. The list is asked for when the wait is over.",
    State.OPENING: "A revision is known. A watch from it is asked for.",
    State.WATCHING: "The watch is open: what arrives is live.",
    State.REOPENING: "A revision is known. The watch is asked for when the wait is over.",
    State.AWAY: "The resource cannot be watched now. It is looked for when the wait is over.",
    State.HALTED: "We were told to rest.",
}

TRANSITIONS: Mapping[State, Mapping[Trigger, State]] = {
    State.NEW: {
        Trigger.BEGIN: State.LISTING,
        Trigger.HALT: State.HALTED,
    },
    State.LISTING: {
        Trigger.PAGE: State.LISTING,
        Trigger.LISTED: State.OPENING,
        Trigger.RETRY: State.RELISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.RELISTING: {
        Trigger.WOKEN: State.LISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.OPENING: {
        Trigger.OPENED: State.WATCHING,
        Trigger.RETRY: State.REOPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.WATCHING: {
        Trigger.RETRY: State.REOPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.REOPENING: {
        Trigger.WOKEN: State.OPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.AWAY: {
        Trigger.WOKEN: State.LISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.HALTED: {
        Trigger.BEGIN: State.LISTING,
        Trigger.HALT: State.HALTED,
    },
}

_PHASES: Mapping[State, Phase] = {
    State.LISTING: Phase.LIST,
    State.OPENING: Phase.OPEN,
    State.WATCHING: Phase.STREAM,
}


def transitions_markdown() -> str:
    """Render the protocol as a Markdown table: a line for each state."""
    lines = ["| state | contract | goes to |", "|---|---|---|"]
    for state, contract in CONTRACTS.items():
        arrows = "; ".join(f"{trigger} → `{target}`" for trigger, target in TRANSITIONS[state].items())
        lines.append(f"| `{state}` | {contract} | {arrows} |")
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Listing:
    """What is there of a list. Its revision is that of the first page; all pages are of one moment."""

    began: float = 0.0
    revision: int = 0
    continue_token: str | None = None
    items: int = 0
    size: int = 0
    pages: int = 0


class Machine:
    """One stream. `random` returns numbers from [0, 1); `page_size` counts objects.

    Readers may look at `state`, at `revision`, the newest that is known, and at `failure`, the last thing that went
    wrong. At most one request is out at any time.
    """

    def __init__(self, strategy: Strategy, page_size: int, random: Callable[[], float]) -> None:
        self.strategy = strategy
        self.state = State.NEW
        self.revision: int | None = None
        self.failure: Failure | None = None
        self._page_size = page_size
        self._random = random
        self._backoff = Backoff(random)
        self._outputs: list[Output] = []
        # the request that is out
        self._ops = 0
        self._op: int | None = None
        self._asked = float("-inf")
        self._opened = 0.0
        self._watch = WatchRequest(revision=0, timeout=0)
        self._heard = False  # whether the watch brought any event, or a bookmark
        self._noise = False  # whether it brought anything else
        self._wake = 0.0
        # what is known of the way to the next revision
        self._list = strategy.first
        self._listing = _Listing()
        self._relisting = False
        self._expired = -1
        self._errors = 0
        self._errors_at: int | None = None
        self._empty_at: int | None = None

    def receive(self, happened: Input, now: float) -> list[Output]:
        """Take what happened at `now` and return what to do, in order.

        An answer to a request that is not out is ignored, and so is one that its request cannot have.
        """
        match happened:
            case Received():  # most often by far: a pattern that looks into it would cost more than all the rest
                if happened.op == self._op and self.state is State.WATCHING:
                    self._take(happened, now)
            case Listed(op):
                if op == self._op and self.state is State.LISTING:
                    self._add_page(happened, now)
            case Opened(op):
                if op == self._op and self.state is State.OPENING:
                    self._open(now)
            case Closed(op, failure):
                if op == self._op:
                    self._fail(failure, now)
            case Woken():
                self._wake_up(now)
            case _:
                self._obey(happened, now)
        outputs, self._outputs = self._outputs, []
        return outputs

    # What we are told

    def _obey(self, command: Begin | Halt | Reopen | Reset, now: float) -> None:
        match command:
            case Begin():
                self._begin(now)
            case Halt(reason):
                self._cancel(because(reason), now)
                self._go(Trigger.HALT, now)
            case Reopen(reason):
                self._reopen(reason, now)
            case _:
                self._reset(now)

    def _begin(self, now: float) -> None:
        if Trigger.BEGIN in TRANSITIONS[self.state]:
            self._relisting = False
            self._need_list(RelistReason.START)
            self._go(Trigger.BEGIN, now)

    def _reopen(self, reason: Reason, now: float) -> None:
        if self.state in (State.OPENING, State.WATCHING):
            self._cancel(because(reason), now)
            self._go(Trigger.RETRY, now, self._gap(now))

    def _reset(self, now: float) -> None:
        self.revision = None
        self._expired = -1
        if Trigger.START_OVER in TRANSITIONS[self.state]:
            self._cancel(because(Reason.DOMAIN_RESET), now)
            self._need_list(RelistReason.DOMAIN_RESET)
            self._go(Trigger.START_OVER, now, self._gap(now))

    # What the apiserver answers

    def _add_page(self, page: Listed, now: float) -> None:
        if page.revision is None:
            self._fail(because(Reason.UNPARSABLE), now)
            return
        least = max(self.revision or 0, self._expired + 1)
        if page.revision < least:
            self._note(TimeTravel(least - page.revision))
            self._fail(because(Reason.TIME_TRAVEL), now)
            return
        listing = self._listing
        if listing.pages == 0:
            listing.revision = page.revision
        listing.continue_token = page.continue_token
        listing.items += page.items
        listing.size += page.size
        listing.pages += 1
        if self.strategy.paged and page.continue_token:
            self._go(Trigger.PAGE, now)
        else:
            self._finish_list(listing, now)

    def _finish_list(self, listing: _Listing, now: float) -> None:
        self._note(ListDone(self.strategy.name, listing.revision, listing.items, listing.size, listing.pages, now - listing.began))
        self.revision = listing.revision
        self._list = self.strategy.first
        self._relisting = False
        self._errors = 0
        self._go(Trigger.LISTED, now)

    def _open(self, now: float) -> None:
        self._note(WatchOpened(now - self._asked))
        self._opened = now
        self._heard = self._noise = False
        self._go(Trigger.OPENED, now)

    def _take(self, chunk: Received, now: float) -> None:
        """Pass on what is live and in order. This loop runs for every event there is."""
        frames = chunk.frames
        newest = self.revision
        assert newest is not None
        late = unparsable = 0
        error = None
        batch = Batch(chunk.received, [], [], [])
        for event in frames.events:
            if isinstance(event, Error):
                error = event.object
                break
            metadata = event.object.metadata
            revision = parse_revision(metadata.resource_version)
            if revision is None:
                unparsable += 1
            elif isinstance(event, Bookmark) and revision >= newest:
                newest = revision
                self._note(BookmarkSeen(revision))
            elif revision > newest:
                newest = revision
                batch.revisions.append(revision)
                batch.types.append(event.type)
                batch.created.append(metadata.creation_timestamp)
            else:
                late += 1
        self.revision = newest
        self._heard = self._heard or bool(frames.events)
        self._noise = self._noise or bool(frames.garbage)
        if batch.revisions:
            self._outputs.append(Emit(batch))
        self._note_flaws(late, unparsable, frames.garbage)
        if error is not None:
            self._outputs.append(Cancel(chunk.op))
            self._fail(classify_stream_error(error), now)

    def _note_flaws(self, late: int, unparsable: int, garbage: int) -> None:
        if late:
            self._note(OutOfOrder(late))
        if unparsable:
            self._note(Unparsable(unparsable))
        if garbage:
            self._note(Garbage(garbage))

    # How requests end, and what follows

    def _fail(self, failure: Failure, now: float) -> None:
        phase = _PHASES[self.state]
        lived = self._lived(now)
        healthy = lived is not None and lived >= HEALTHY_SECONDS
        if failure.reason is Reason.FORCED and lived is not None:
            failure = because(self._clean_end(lived))
        self._end(failure, now)
        trigger = self._judge(failure, healthy=healthy)
        if failure.reason is Reason.EXPIRED:
            self._expire(phase)
        if failure.reason is Reason.THROTTLED and phase is Phase.LIST:
            self._list = self.strategy.throttled
        if trigger is not Trigger.RETRY:
            self._need_list(RelistReason.EXPIRED if failure.reason is Reason.EXPIRED else RelistReason.ERRORS)
        if trigger is Trigger.WAIT:
            self._note(GaveUp(failure))
        at_once = healthy and trigger is Trigger.RETRY and failure.retry_after is None
        self._go(trigger, now, 0.0 if at_once else self._backoff.next(now, failure.retry_after))

    def _clean_end(self, lived: float) -> Reason:
        """Tell why a watch ended without an error: the reader of its connection cannot know."""
        if lived >= self._watch.timeout - DEADLINE_SLACK_SECONDS:
            return Reason.DEADLINE
        if self._heard:
            return Reason.FORCED
        if self._noise:
            return Reason.GARBAGE
        if lived >= HEALTHY_SECONDS:
            return Reason.FORCED
        again = self._empty_at == self.revision
        self._empty_at = self.revision
        return Reason.EMPTY_CLOSE if again else Reason.FORCED

    def _judge(self, failure: Failure, *, healthy: bool) -> Trigger:
        if healthy or self._errors_at != self.revision:
            self._errors = 0
            self._errors_at = self.revision
        if failure.action is Action.RESUME and not healthy:
            self._errors += 1
        if failure.action is Action.WAIT:
            return Trigger.WAIT
        if failure.action is Action.START_OVER or self._errors == ERRORS_AT_ONE_REVISION:
            return Trigger.START_OVER
        return Trigger.RETRY

    def _expire(self, phase: Phase) -> None:
        self._note(Expired(phase))
        if phase is not Phase.LIST:
            self._expired = self._watch.revision

    def _cancel(self, failure: Failure, now: float) -> None:
        if self._op is not None:
            self._outputs.append(Cancel(self._op))
            self._end(failure, now)

    def _end(self, failure: Failure, now: float) -> None:
        """Say why the request that was out has ended: each ends here, for one reason, or with its answer."""
        lived = self._lived(now)
        self._note(ListFailed(failure) if self.state is State.LISTING else WatchClosed(failure, lived))
        self._op = None
        if failure.closed not in (CloseClass.DEADLINE, CloseClass.OWN):
            self.failure = failure

    def _lived(self, now: float) -> float | None:
        return now - self._opened if self.state is State.WATCHING else None

    def _need_list(self, reason: RelistReason) -> None:
        self._listing = _Listing()
        self._errors = 0
        if not self._relisting:
            self._relisting = True
            self._note(Relisted(reason))

    # How states are entered

    def _go(self, trigger: Trigger, now: float, wait: float = 0.0) -> None:
        self.state = TRANSITIONS[self.state][trigger]
        match self.state:
            case State.LISTING:
                self._ask(self._next_page(now), now)
            case State.OPENING:
                self._ask(self._next_watch(), now)
            case State.RELISTING | State.REOPENING | State.AWAY:
                self._wake = now + wait
                self._outputs.append(WakeAt(self._wake))

    def _wake_up(self, now: float) -> None:
        """Go on when the wait is over; an alarm that went off too early (clocks are rounded) is set again."""
        if Trigger.WOKEN not in TRANSITIONS[self.state]:
            return
        if now < self._wake:
            self._outputs.append(WakeAt(self._wake))
        else:
            self._go(Trigger.WOKEN, now)

    def _ask(self, request: ListRequest | WatchRequest, now: float) -> None:
        self._ops += 1
        self._op = self._ops
        self._asked = now
        self._outputs.append(Start(self._op, request))

    def _next_page(self, now: float) -> ListRequest:
        listing = self._listing
        if listing.pages == 0:
            listing.began = now
        if not self.strategy.paged:
            return self._list
        return replace(self._list, limit=self._page_size, continue_token=listing.continue_token)

    def _next_watch(self) -> WatchRequest:
        assert self.revision is not None
        spread = LONGEST_WATCH_SECONDS - SHORTEST_WATCH_SECONDS
        self._watch = WatchRequest(self.revision, SHORTEST_WATCH_SECONDS + int(spread * self._random()))
        return self._watch

    def _gap(self, now: float) -> float:
        """Seconds to wait so that a change of our own does not make requests come thick and fast."""
        return max(0.0, self._asked + SHORTEST_GAP_SECONDS - now)

    def _note(self, fact: Fact) -> None:
        self._outputs.append(Note(fact))
